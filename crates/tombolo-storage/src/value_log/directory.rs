//! The files of a log's directory: the segments and their order.
//!
//! Not here: their content (`recover.rs`), removing files. Invariant: the segments have
//! ascending sequence numbers and the same salt.

use super::reader::SegmentReader;
use super::segment::{Found, Header, SALT, file_name, file_number, open_blocks};
use super::settings::{LogFailure, LogSettings};
use crate::disk::{Disk, DiskError, Open};

/// Whether there is a log on `disk`.
///
/// # Errors
/// When it cannot be listed.
pub fn holds_log(disk: &dyn Disk) -> Result<bool, DiskError> {
    Ok(disk.list()?.iter().any(|name| file_number(name).is_some()))
}

/// Bytes of all segments on `disk`, used or not.
///
/// # Errors
/// When the disk fails.
pub fn log_bytes(disk: &dyn Disk) -> Result<u64, DiskError> {
    let names = disk.list()?.into_iter().filter(|name| file_number(name).is_some());
    names.map(|name| disk.open(&name, Open::Read)?.len()).sum()
}

/// The segment files of a directory.
pub(super) struct Directory {
    /// In the order of their sequence numbers.
    pub(super) segments: Vec<SegmentReader>,
    /// Numbers of unfinished files.
    pub(super) unfinished: Vec<u64>,
    /// Numbers of unreadable files whose loss is accepted.
    pub(super) damaged: Vec<u64>,
    /// The damage of one of them.
    pub(super) damage: Option<LogFailure>,
}

impl Directory {
    /// Reads the headers of all segments. With `accept_loss` an unreadable file is omitted.
    ///
    /// # Errors
    /// `NoLog`, `OtherVersion`, `OtherKind`, `Damaged`, `Disk`.
    pub(super) fn read(
        disk: &dyn Disk,
        accept_loss: bool,
        settings: &LogSettings,
    ) -> Result<Self, LogFailure> {
        let numbers: Vec<u64> = disk.list()?.iter().filter_map(|name| file_number(name)).collect();
        if numbers.is_empty() {
            return Err(LogFailure::NoLog);
        }
        let mut read = Self {
            segments: Vec::new(),
            unfinished: Vec::new(),
            damaged: Vec::new(),
            damage: None,
        };
        for number in numbers {
            let Err(failure) = read.add(disk, number, settings)? else { continue };
            if !accept_loss {
                return Err(failure);
            }
            read.damaged.push(number);
            read.damage.get_or_insert(failure);
        }
        let segments = &mut read.segments;
        segments.sort_by_key(|segment| segment.header.sequence);
        let is_stranger = |pair: &&[SegmentReader]| pair[0].header.salt != pair[1].header.salt;
        if let Some(strangers) = segments.windows(2).find(is_stranger) {
            let what = format!("it and {} are of different databases", strangers[0].name());
            let file = strangers[1].name().to_owned();
            return Err(LogFailure::Irreparable { file, offset: SALT as u64, group: 0, what });
        }
        if let Some(twins) =
            segments.windows(2).find(|pair| pair[0].header.sequence == pair[1].header.sequence)
        {
            let what = format!("{} has the same sequence number", twins[0].name());
            let file = twins[1].name().to_owned();
            return Err(LogFailure::Irreparable { file, offset: 16, group: 0, what });
        }
        Ok(read)
    }

    /// Reads the header of one file; the inner error is damage.
    fn add(
        &mut self,
        disk: &dyn Disk,
        number: u64,
        settings: &LogSettings,
    ) -> Result<Result<(), LogFailure>, LogFailure> {
        let Some(file) = there(disk.open(&file_name(number), Open::Read))? else {
            return Ok(Ok(()));
        };
        let name = file.name().to_owned();
        let damaged =
            |offset, what| LogFailure::Damaged { file: name.clone(), offset, group: 0, what };
        match Header::read(&*file)? {
            Found::Segment { header: Header { kind, .. }, .. } if kind != settings.kind => {
                return Err(LogFailure::OtherKind { file: name, found: kind });
            }
            Found::Segment { header, copy } => {
                let bytes = file.len()?;
                if bytes < header.segment_bytes {
                    let what = format!("the file ends here instead of at {}", header.segment_bytes);
                    return Ok(Err(damaged(bytes, what)));
                }
                let blocks = open_blocks(disk, number, Open::Read, header, settings.direct);
                if let Some(file) = there(blocks)? {
                    self.segments.push(SegmentReader::new(file, number, header, copy));
                }
            }
            Found::OtherVersion(found) => {
                return Err(LogFailure::OtherVersion { file: name, found });
            }
            Found::Unfinished => self.unfinished.push(number),
            Found::Damaged => {
                let what = "both copies of the segment's header are damaged".to_owned();
                return Ok(Err(damaged(0, what)));
            }
        }
        Ok(Ok(()))
    }
}

/// Ignores a file that disappeared since it was listed: a running log creates segments, and
/// removes those for which a full disk has no room. Missing groups are detected when the chain is
/// followed.
fn there<F>(opened: Result<F, DiskError>) -> Result<Option<F>, DiskError> {
    match opened {
        Err(error) if error.is_not_found() => Ok(None),
        opened => opened.map(Some),
    }
}
