//! The log file: a header, then records, one after the other, each at its LSN.
//!
//! ```text
//!   0         4096      8192                                        file length
//!   ┌─────────┬─────────┬────────┬────────┬─── ──┬────────┬──────────────────┐
//!   │ header  │ header  │ record │ record │  …   │ record │ zeros: space     │
//!   │ copy 0  │ copy 1  │        │        │      │        │ taken ahead      │
//!   └─────────┴─────────┴────────┴────────┴─── ──┴────────┴──────────────────┘
//!                       base                              tail
//! ```
//!
//! | offset | bytes | field of a header copy |
//! |---|---|---|
//! | 0 | 8 | magic: `tomblog` and a line feed |
//! | 8 | 4 | version of the format |
//! | 12 | 4 | checksum: CRC-32C of bytes 0–11 and 16–31 |
//! | 16 | 8 | sequence: the intact copy with the greater one counts |
//! | 24 | 8 | base: LSN of the first record |
//!
//! The header is written when a log is made and closed, each time over the older copy: a torn one
//! leaves the other. Space is taken ahead in steps, so that a flush changes no length; the last
//! block a flush writes is partial, and the next flush continues in it.
//!
//! Not here: which session flushes when, what the records mean, restart.

use super::read::{Reader, Stop};
use super::settings::{LogError, LogFailure, LogSettings};
use crate::disk::{Disk, DiskError, DiskFile, Open};
use crate::header_copies::{
    CONTENT_OFFSET, COPY_BYTES, Copy, Layout, OWN_FIELDS, SEQUENCE, VERSION, long,
};
use crate::sync::Mutex;

/// The log's name in its directory.
pub const LOG_FILE: &str = "log";

/// The version of the format of header and records.
pub const FORMAT_VERSION: u32 = 2;

const BASE: usize = OWN_FIELDS;
const LAYOUT: Layout =
    Layout { magic: *b"tomblog\n", version: FORMAT_VERSION, used_bytes: BASE + 8 };

/// Where the first record lies.
pub(super) const RECORDS_OFFSET: u64 = CONTENT_OFFSET;

/// What a header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) sequence: u64,
    pub(super) base: u64,
}

impl Header {
    fn encode(self) -> [u8; COPY_BYTES] {
        let mut copy = [0; COPY_BYTES];
        copy[BASE..LAYOUT.used_bytes].copy_from_slice(&self.base.to_le_bytes());
        LAYOUT.encode(self.sequence, &mut copy);
        debug_assert_eq!(Self::decode(&copy), Copy::Intact(self));
        copy
    }

    fn decode(copy: &[u8]) -> Copy<Self> {
        LAYOUT.decode(copy, |sequence, copy| {
            let base = long(copy, BASE);
            (base > 0).then_some(Self { sequence, base })
        })
    }
}

/// What is wrong with `file`, and where.
#[cold]
pub(super) fn damaged(file: &dyn DiskFile, offset: u64, what: impl Into<String>) -> LogError {
    let (file, what) = (file.name().to_owned(), what.into());
    LogFailure::Damaged { file, offset, what }.into()
}

/// The header that counts, and the offset of the other one if that is damaged.
pub(super) fn read_header(file: &dyn DiskFile) -> Result<(Header, Option<u64>), LogError> {
    let bytes = file.len()?;
    if bytes < RECORDS_OFFSET {
        return Err(damaged(file, bytes, "the file ends inside its header"));
    }
    let mut copies = [Copy::Blank; 2];
    let mut buffer = [0; COPY_BYTES];
    for (at, copy) in copies.iter_mut().enumerate() {
        file.read_at(&mut buffer, (at * COPY_BYTES) as u64)?;
        *copy = Header::decode(&buffer);
        if let Copy::OtherVersion(version) = *copy {
            let what = format!("format version {version}, this program reads {FORMAT_VERSION}");
            return Err(damaged(file, (at * COPY_BYTES + VERSION) as u64, what));
        }
    }
    match copies {
        [Copy::Intact(a), Copy::Intact(b)] if a.sequence == b.sequence => {
            Err(damaged(file, SEQUENCE as u64, "both copies of the header claim to be the newer"))
        }
        [Copy::Intact(a), Copy::Intact(b)] => {
            Ok((if a.sequence > b.sequence { a } else { b }, None))
        }
        [Copy::Intact(header), Copy::Blank] | [Copy::Blank, Copy::Intact(header)] => {
            Ok((header, None))
        }
        [Copy::Intact(header), _] => Ok((header, Some(COPY_BYTES as u64))),
        [_, Copy::Intact(header)] => Ok((header, Some(0))),
        _ => Err(damaged(file, 0, "this is no log of Tombolo, or its header is damaged")),
    }
}

/// A log file that is written.
#[derive(Debug)]
pub(super) struct LogFile {
    file: Box<dyn DiskFile>,
    header: Header,
    /// The file's length; held while it changes.
    length: Mutex<u64>,
    extent_bytes: u64,
}

impl LogFile {
    /// Makes the file.
    pub(super) fn create(disk: &dyn Disk, settings: &LogSettings) -> Result<Self, LogError> {
        let file = locked(disk.open(LOG_FILE, Open::New)?)?;
        let header = Header { sequence: 0, base: settings.first_lsn() };
        let file = Self::with(file, header, settings)?;
        file.write_header(header)?;
        file.file.sync()?;
        disk.sync_dir()?;
        Ok(file)
    }

    /// Opens the file of a log that was closed.
    pub(super) fn open(disk: &dyn Disk, settings: &LogSettings) -> Result<Self, LogError> {
        let file = locked(disk.open(LOG_FILE, Open::Write)?)?;
        let (header, damaged_copy) = read_header(&*file)?;
        let mut reader = Reader::new(&*file, header.base)?;
        let first = reader.next()?.is_some();
        let end = reader.end(|_, _| ())?;
        if first {
            let (file, intact_bytes) = (file.name().to_owned(), end.lsn - header.base);
            return Err(LogFailure::NotClosed { file, intact_bytes }.into());
        }
        if let Some(offset) = damaged_copy {
            // A header is torn only while the log that it ends is still there.
            return Err(damaged(&*file, offset, "a copy of the header is damaged"));
        }
        let base = header.base.max(settings.first_lsn());
        // What a torn write may have left behind must not be met by a later reader.
        file.set_len(RECORDS_OFFSET)?;
        let mut file = Self::with(file, header, settings)?;
        if base != header.base {
            file.header = Header { sequence: header.sequence + 1, base };
            file.write_header(file.header)?;
        }
        file.file.sync()?;
        Ok(file)
    }

    fn with(
        file: Box<dyn DiskFile>,
        header: Header,
        settings: &LogSettings,
    ) -> Result<Self, LogError> {
        let extent_bytes = settings.extent_bytes.max(LogSettings::EXTENT_BYTES_MIN);
        let length = RECORDS_OFFSET + extent_bytes;
        file.set_len(length)?;
        Ok(Self { file, header, length: Mutex::new(length), extent_bytes })
    }

    fn write_header(&self, header: Header) -> Result<(), DiskError> {
        let offset = header.sequence % 2 * COPY_BYTES as u64;
        self.file.write_at(&header.encode(), offset)
    }

    /// The LSN of the first record.
    pub(super) fn base(&self) -> u64 {
        self.header.base
    }

    /// Where `lsn` lies in the file.
    pub(super) fn offset(&self, lsn: u64) -> u64 {
        RECORDS_OFFSET + (lsn - self.header.base)
    }

    /// Up to which LSN there is space.
    pub(super) fn limit(&self) -> u64 {
        self.header.base + (self.bytes() - RECORDS_OFFSET)
    }

    /// The file's length in bytes.
    pub(super) fn bytes(&self) -> u64 {
        *self.length.lock()
    }

    /// Takes space up to `lsn` at least, a step more where there is so much; says up to where there
    /// is space now.
    pub(super) fn take_space(&self, lsn: u64) -> Result<u64, DiskError> {
        let mut length = self.length.lock();
        let needed = self.offset(lsn);
        if needed > *length {
            let wanted = needed.next_multiple_of(COPY_BYTES as u64) + self.extent_bytes;
            *length = match self.file.set_len(wanted) {
                Ok(()) => wanted,
                // What is left may still be enough for what is needed.
                Err(error) if error.is_full() => self.file.set_len(needed).map(|()| needed)?,
                Err(error) => return Err(error),
            };
        }
        Ok(self.header.base + (*length - RECORDS_OFFSET))
    }

    /// Writes `parts`, one after the other, from `lsn` on, and makes them durable.
    pub(super) fn write(&self, parts: [&[u8]; 2], lsn: u64) -> Result<(), DiskError> {
        let mut offset = self.offset(lsn);
        for part in parts.into_iter().filter(|part| !part.is_empty()) {
            self.file.write_at(part, offset)?;
            offset += part.len() as u64;
        }
        self.file.sync()
    }

    /// Reads back what was written up to `end`; says what is wrong with it.
    pub(super) fn verify(&self, end: u64) -> Result<(), LogError> {
        let mut reader = Reader::new(&*self.file, self.header.base)?;
        while reader.position() < end {
            if reader.next()?.is_none() {
                let Stop { offset, what, .. } = reader.stop();
                return Err(damaged(&*self.file, offset, what));
            }
        }
        Ok(())
    }

    /// Empties the log, whose numbers continue from `tail`.
    pub(super) fn close(&self, tail: u64) -> Result<(), DiskError> {
        if tail != self.header.base {
            self.write_header(Header { sequence: self.header.sequence + 1, base: tail })?;
            self.file.sync()?;
        }
        self.file.set_len(RECORDS_OFFSET)?;
        self.file.sync()
    }
}

fn locked(file: Box<dyn DiskFile>) -> Result<Box<dyn DiskFile>, LogError> {
    match file.try_lock()? {
        true => Ok(file),
        false => Err(LogFailure::InUse { file: file.name().to_owned() }.into()),
    }
}
