//! Reads a log as recovery would, without changing anything: for commands that inspect a
//! directory.
//!
//! Damage is part of the result, like a torn tail: it is reported and nothing is cut. The
//! directory must not be in use, because a log that is being written looks torn.
//!
//! Not here: opening a log for writing (`recover.rs`), the meaning of records.

use super::directory::Directory;
use super::lock::DirectoryLock;
use super::reader::SegmentReader;
use super::recover::{Cut, Lost, Progress, Replay};
use super::segment::file_name;
use super::settings::{GroupNumber, LogFailure, LogSettings};
use super::start::{LogStart, RecoverOptions};
use super::walk::{End, Walk};
use crate::disk::Disk;

/// The state of a segment's file in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentState {
    /// It contains groups of the log.
    Used {
        /// The oldest group in it.
        first: GroupNumber,
        /// The newest.
        last: GroupNumber,
    },
    /// Ready for groups, or left over: nothing in it belongs to the log.
    Spare,
    /// It was never finished; the next recovery removes it.
    Unfinished,
    /// It cannot be read.
    Damaged,
}

/// The survey of one segment's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentSurvey {
    /// The file.
    pub file: String,
    /// Its state.
    pub state: SegmentState,
    /// The format version in its header; this and the numbers below are 0 if it cannot be read.
    pub format_version: u32,
    /// Its sequence number.
    pub sequence: u64,
    /// The number of its uses.
    pub uses: u32,
    /// Its length.
    pub segment_bytes: u64,
    /// Groups begin at multiples of this many bytes.
    pub block_bytes: u64,
}

/// The survey of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survey {
    /// Its segments in order, then files that are not segments.
    pub segments: Vec<SegmentSurvey>,
    /// The number of groups present.
    pub groups: u64,
    /// Transactions in all groups up to the newest, including groups already removed.
    pub transactions: u64,
    /// Bytes of the groups present, including headers and padding.
    pub bytes: u64,
    /// The newest group; 0 for none.
    pub last_group: GroupNumber,
    /// That group's epoch: the number of times the log was opened.
    pub epoch: u32,
    /// The part that recovery would cut off, or refuse.
    pub cut: Option<Cut>,
}

impl Survey {
    /// The newest format version of any segment, which a program must be able to read.
    pub fn format_version(&self) -> u32 {
        self.segments.iter().map(|segment| segment.format_version).max().unwrap_or_default()
    }
}

/// Reads the log of `disk`, passing all its transactions to `replay`.
///
/// # Errors
/// `NoLog`, `InUse`, `OtherVersion`, `OtherKind`, `Replay`, `Disk`; `Damaged` only where not even the order of the
/// segments is known.
pub fn survey(
    disk: &dyn Disk,
    replay: &mut dyn Replay,
    progress: &mut dyn FnMut(Progress),
) -> Result<Survey, LogFailure> {
    let lock = DirectoryLock::take_to_look(disk)?;
    survey_locked(&lock, disk, LogStart::default(), replay, progress)
}

/// The same from the end of an image on, for a caller that has the lock already.
///
/// # Errors
/// As [`survey`], except `InUse`; `Irreparable` when the log does not continue at the end of the image.
pub fn survey_locked(
    _: &DirectoryLock,
    disk: &dyn Disk,
    first: LogStart,
    replay: &mut dyn Replay,
    progress: &mut dyn FnMut(Progress),
) -> Result<Survey, LogFailure> {
    // With the loss accepted, damage is found and not refused; nothing is written here.
    let options = RecoverOptions { accept_loss: true, first, keep: None, last: None };
    let settings = LogSettings { direct: false, ..LogSettings::default() };
    let directory = Directory::read(disk, true, &settings)?;
    let Directory { segments, unfinished, damaged, damage } = directory;
    let mut walk = Walk::new(segments, options, replay, progress);
    walk.run()?;
    let cut = match walk.end.groups.segments.is_empty() {
        true => damage.map(whole_log_lost),
        false => walk.judge(damage)?,
    };
    walk.complete()?;
    let Walk { mut end, .. } = walk;
    let mut found = used_and_spare(&mut end)?;
    for (numbers, state) in
        [(unfinished, SegmentState::Unfinished), (damaged, SegmentState::Damaged)]
    {
        found.extend(numbers.into_iter().map(|number| not_read(file_name(number), state)));
    }
    Ok(Survey {
        segments: found,
        groups: end.progress.groups,
        transactions: end.transactions,
        bytes: end.progress.bytes,
        last_group: end.groups.place.chain.number - 1,
        epoch: end.groups.place.chain.epoch,
        cut,
    })
}

/// No segment can be read.
fn whole_log_lost(damage: LogFailure) -> Cut {
    let (file, offset) = match &damage {
        LogFailure::Damaged { file, offset, .. } => (file.clone(), *offset),
        _ => (String::new(), 0),
    };
    let (torn_bytes, lost, kept) = (0, Lost::default(), Vec::new());
    let damage = Some(damage);
    Cut { file, offset, group: 1, torn_bytes, damage, lost, kept }
}

fn used_and_spare(end: &mut End) -> Result<Vec<SegmentSurvey>, LogFailure> {
    let spare = |reader| survey_of(reader, SegmentState::Spare);
    let mut segments =
        end.groups.segments.iter_mut().map(spare).collect::<Result<Vec<_>, LogFailure>>()?;
    // The first one read: older ones may be gone.
    let mut first = end.groups.place.chain.number - end.progress.groups;
    for passed in &end.passed {
        segments[passed.segment].state = SegmentState::Used { first, last: passed.last };
        first = passed.last + 1;
    }
    Ok(segments)
}

fn survey_of(reader: &mut SegmentReader, state: SegmentState) -> Result<SegmentSurvey, LogFailure> {
    let (header, format_version) = (reader.header, reader.version()?);
    reader.forget();
    Ok(SegmentSurvey {
        file: reader.name().to_owned(),
        state,
        format_version,
        sequence: header.sequence,
        uses: header.uses,
        segment_bytes: header.segment_bytes,
        block_bytes: header.block_bytes,
    })
}

fn not_read(file: String, state: SegmentState) -> SegmentSurvey {
    let (format_version, sequence, uses, segment_bytes, block_bytes) = (0, 0, 0, 0, 0);
    SegmentSurvey { file, state, format_version, sequence, uses, segment_bytes, block_bytes }
}
