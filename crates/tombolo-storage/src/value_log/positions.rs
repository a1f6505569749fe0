//! Reading a log whose records have positions (that of a paged store): its beginning, its records, and its end.
//!
//! The newest group has the position from which on a restart needs the log. Reading begins in the newest segment
//! that begins at or before that position; older segments may be removed or reused. From there on the chain is
//! followed as in every log (`walk.rs`); records that were set aside (`side.rs`) are its end.
//!
//! Not here: the meaning of records. Invariant: nothing before the needed position is relied upon.

use super::directory::Directory;
use super::groups::{AtGap, Groups, Place};
use super::lock::DirectoryLock;
use super::recover::{Refused, Replay, Walked};
use super::segment::{FIRST_GROUP_OFFSET, file_name};
use super::settings::{GroupNumber, LogFailure, LogKind, LogSettings};
use super::side;
use super::start::{LogStart, RecoverOptions};
use super::walk::Walk;
use super::writer::LogWriter;
use crate::disk::{Disk, Open};
use crate::sync::Arc;

/// What lies in a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Positions {
    /// The position from which on a restart needs it.
    pub(crate) needed: u64,
    /// The position behind the newest intact record.
    pub(crate) end: u64,
    /// The log's salt: the number of its database.
    pub(crate) salt: u64,
    /// Bytes of a torn tail.
    pub(crate) torn_bytes: u64,
    /// The file in which the groups end, and where in it.
    pub(crate) file: String,
    pub(crate) offset: u64,
}

/// What is done with records that lie one behind the other: where they begin, from which position on a
/// restart needs them, and the records.
type Visit<'a> = dyn FnMut(u64, u64, &[u8]) -> Result<(), String> + 'a;

struct Visitor<'a> {
    needed: u64,
    end: u64,
    visit: &'a mut Visit<'a>,
}

impl Replay for Visitor<'_> {
    fn replay(&mut self, group: GroupNumber, records: &[u8]) -> Result<(), Refused> {
        let start = self.end - records.len() as u64;
        (self.visit)(start, self.needed, records).map_err(|what| (group, what))
    }

    fn ends_at(&mut self, end: u64) {
        self.end = end;
    }
}

/// Where the newest segment with groups says that the log begins.
fn needed_in(groups: &mut Groups) -> Result<u64, LogFailure> {
    let mut needed = 0;
    for segment in (0..groups.segments.len()).rev() {
        if let Some(first) = groups.segments[segment].first_group()? {
            groups.place = Place::of(segment, &first.group);
            while let Some(placed) = groups.next(AtGap::Stop)? {
                needed = placed.group.time_us;
            }
            break;
        }
    }
    Ok(needed)
}

/// The first group that continues no other, in the newest segment that has one at or before the position from which on
/// the log is needed; `None` if there is no group.
///
/// # Errors
/// `Irreparable` if the log begins behind it; `Disk`.
pub(super) fn first_group(
    groups: &mut Groups,
    needed: u64,
) -> Result<Option<GroupNumber>, LogFailure> {
    let mut oldest = None;
    for reader in groups.segments.iter_mut().rev() {
        let Some(first) = reader.first_group()? else { continue };
        let Some(first) = reader.run_from(first)? else { continue };
        let begin = first.group.transactions - u64::from(first.group.length);
        if begin <= needed {
            return Ok(Some(first.group.number));
        }
        oldest = Some((begin, first.group.number, reader.name().to_owned()));
    }
    let Some((begin, group, file)) = oldest else { return Ok(None) };
    let what = format!(
        "the log begins at position {begin}, but a restart needs it from {needed} on: a segment is missing \
         or damaged"
    );
    Err(LogFailure::Irreparable { file, offset: FIRST_GROUP_OFFSET, group, what })
}

/// Shows all records of the log on `disk`, and some that lie before the position from which on it is needed.
/// The log must not be written meanwhile.
///
/// # Errors
/// `NoLog`, `OtherVersion`, `OtherKind`, `Damaged`, `Irreparable`, `Disk`; `Replay` for what `visit` says.
pub(crate) fn read_positions<'a>(
    disk: &dyn Disk,
    visit: &'a mut Visit<'a>,
) -> Result<Positions, LogFailure> {
    let settings = LogSettings { kind: LogKind::Paged, direct: false, ..LogSettings::default() };
    walk(disk, &settings, visit).map(|(positions, _)| positions)
}

/// A log that was read to its end, and of which nothing was changed so far.
pub(crate) struct ReadLog {
    pub(crate) positions: Positions,
    walked: Walked,
    lock: DirectoryLock,
    disk: Arc<dyn Disk>,
    settings: LogSettings,
}

impl ReadLog {
    /// Shows the same of a log that is to be written on.
    ///
    /// # Errors
    /// As [`read_positions`].
    pub(crate) fn read<'a>(
        lock: DirectoryLock,
        disk: Arc<dyn Disk>,
        settings: LogSettings,
        visit: &'a mut Visit<'a>,
    ) -> Result<Self, LogFailure> {
        settings.check()?;
        let (positions, walked) = walk(&*disk, &settings, visit)?;
        Ok(Self { positions, walked, lock, disk, settings })
    }

    /// Opens the log to be written on behind its records.
    ///
    /// # Errors
    /// `Full` when there is no room for the group that begins the new epoch; `Disk`.
    pub(crate) fn write_on(self) -> Result<LogWriter, LogFailure> {
        let Self { walked, lock, disk, settings, .. } = self;
        walked.write_on(lock, disk, settings, None).map(|recovered| recovered.writer)
    }
}

fn walk<'a>(
    disk: &dyn Disk,
    settings: &LogSettings,
    visit: &'a mut Visit<'a>,
) -> Result<(Positions, Walked), LogFailure> {
    let Directory { segments, unfinished, damaged, .. } = Directory::read(disk, false, settings)?;
    let mut groups = Groups::new(segments);
    let needed = needed_in(&mut groups)?;
    let Some(first) = first_group(&mut groups, needed)? else {
        // One is durable before a log counts as made.
        let mut numbers = groups.segments.iter().map(|reader| reader.number).chain(unfinished);
        let number = numbers.next().ok_or(LogFailure::NoLog)?;
        let file = disk.open(&file_name(number), Open::Read)?.name().to_owned();
        let what = "no segment of the log begins with a group".to_owned();
        return Err(LogFailure::Irreparable { file, offset: 0, group: 1, what });
    };
    let options = RecoverOptions { first: LogStart::from(first), ..RecoverOptions::default() };
    let mut visitor = Visitor { needed, end: 0, visit };
    let mut report = |_| ();
    let mut walk = Walk::new(groups.segments, options, &mut visitor, &mut report);
    walk.run()?;
    let cut = walk.judge(None)?;
    let walked_to = walk.end;
    let (place, mut end) = (walked_to.groups.place, walked_to.transactions);
    let reader = walked_to.groups.segments.get(place.segment);
    let (file, salt) = reader
        .map_or_else(Default::default, |reader| (reader.name().to_owned(), reader.header.salt));
    if let Some((aside, records)) = side::read(disk, place.chain, salt)? {
        visitor.ends_at(aside);
        let (offset, group) = (0, place.chain.number);
        let shown = visitor.replay(group, &records);
        shown.map_err(|(_, what)| LogFailure::Replay {
            file: file.clone(),
            offset,
            group,
            what,
        })?;
        end = aside;
    }
    let torn_bytes = cut.as_ref().map_or(0, |cut| cut.torn_bytes);
    let positions = Positions { needed, end, salt, torn_bytes, file, offset: place.at };
    Ok((positions, Walked { end: walked_to, cut, unfinished, damaged }))
}
