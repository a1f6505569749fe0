//! `LogReader`: reads groups back while the log is written, for callers that could not take them when
//! they were written.
//!
//! A checkpoint that falls behind does not keep the records that it has not applied: it knows the last durable
//! group of the log, and reads them here (TPK-17). Recovery's walk (`recover.rs`) determines why a log ends;
//! here the end is known beforehand, and a chain that does not lead to it is damaged.
//!
//! Not here: the meaning of records, waiting. Invariants: only groups that the caller knows to be durable are
//! returned; groups are returned once, in order, runs of them as a whole; nothing is written.

use super::directory::Directory;
use super::group::Group;
use super::groups::{AtGap, Groups, Place};
use super::reader::Placed;
use super::settings::{GroupNumber, LogFailure, LogSettings};
use super::start::LogPosition;
use crate::disk::Disk;
use crate::sync::Arc;

/// Receives the records of a run of groups that ends at a position.
pub type Visit<'a, E> = dyn FnMut(LogPosition, &[u8]) -> Result<(), E> + 'a;

/// Reads a log while it is written. See the module's head.
#[derive(Debug)]
pub struct LogReader {
    disk: Arc<dyn Disk>,
    settings: LogSettings,
    way: Option<Way>,
    /// A position whose group is returned once more.
    again: Option<LogPosition>,
}

/// The state of reading along the chain.
#[derive(Debug)]
struct Way {
    /// The segments at the time when the directory was read.
    groups: Groups,
    /// The position of the last returned group.
    position: LogPosition,
    /// Whether this group is still to be returned once more.
    is_again: bool,
}

impl LogReader {
    /// A reader of the log on `disk` that this process or another one writes with these settings.
    pub fn new(disk: Arc<dyn Disk>, settings: LogSettings) -> Self {
        Self { disk, settings, way: None, again: None }
    }

    /// The log's settings.
    pub fn settings(&self) -> LogSettings {
        self.settings
    }

    /// Makes the next read from `position` return that group once more, as a recovery from there does: for
    /// a caller that continues an image which is complete as of this group.
    pub fn again(&mut self, position: LogPosition) {
        (self.way, self.again) = (None, (position.group > 0).then_some(position));
    }

    /// Passes the records of all groups after `from` up to `to` to `visit`, or fewer: it stops after
    /// `bytes_max` bytes or more. Both positions end a run of groups; `to` is durable, and no
    /// group after `from` was released. Returns the position reached.
    ///
    /// # Errors
    /// `Disk`; `Damaged` when the log does not lead from one to the other; those of `visit`.
    pub fn read<E: From<LogFailure>>(
        &mut self,
        from: LogPosition,
        to: GroupNumber,
        bytes_max: usize,
        visit: &mut Visit<'_, E>,
    ) -> Result<LogPosition, E> {
        let mut way = match self.way.take() {
            Some(way) if way.position == from => way,
            _ => {
                let is_again = self.again.take() == Some(from);
                self.way_from(from, is_again)?
            }
        };
        let (mut run, mut given, mut looked_again) = (Vec::new(), 0, false);
        while way.position.group < to && given < bytes_max {
            let at_gap = if looked_again { AtGap::Refuse } else { AtGap::Stop };
            let Some(next) = way.groups.next(at_gap)? else {
                // It continues in a segment that was not there yet, or not in use.
                (way, looked_again) = (self.way_from(way.position, way.is_again)?, true);
                run.clear();
                continue;
            };
            let before = (way.position, way.is_again);
            given += way.give(next, &mut run, visit)?;
            looked_again &= (way.position, way.is_again) == before;
        }
        way.groups.forget();
        let position = way.position;
        self.way = Some(way);
        Ok(position)
    }

    fn way_from(&self, position: LogPosition, is_again: bool) -> Result<Way, LogFailure> {
        Ok(Way { groups: self.find(position, is_again)?, position, is_again })
    }

    /// The groups after the one at `position`; or, if that is to be returned again, from the beginning of the run
    /// that it ends. Earlier damage does no harm, because number and checksum identify the group.
    ///
    /// # Errors
    /// `Disk`; `Damaged` when that group is not in the log, nor the beginning of a segment after it.
    pub(super) fn find(&self, position: LogPosition, is_again: bool) -> Result<Groups, LogFailure> {
        let group = position.group + u64::from(!is_again);
        let mut groups = self.groups()?;
        let lost = match groups.go_to_segment(group, is_again)? {
            Ok(()) if go_to(&mut groups, position, is_again)? => return Ok(groups),
            Ok(()) => groups.is_missing(),
            Err(_) => {
                let what = "no segment begins before it".to_owned();
                LogFailure::Damaged { file: ".".to_owned(), offset: 0, group, what }
            }
        };
        let mut groups = self.groups()?;
        if groups.jump(position, !is_again)? { Ok(groups) } else { Err(lost) }
    }

    /// The groups of the log as it is now.
    ///
    /// # Errors
    /// `Disk`.
    pub(super) fn groups(&self) -> Result<Groups, LogFailure> {
        // A segment that cannot be read is just being created; otherwise it is found missing later.
        Ok(Groups::new(Directory::read(&*self.disk, true, &self.settings)?.segments))
    }
}

/// Goes to the place after the group at `position`, or to the beginning of the run that it ends, if it is to be
/// returned again; returns whether the chain leads there.
fn go_to(
    groups: &mut Groups,
    LogPosition { group, checksum, .. }: LogPosition,
    is_again: bool,
) -> Result<bool, LogFailure> {
    let chain = &mut groups.place.chain;
    if chain.number > group {
        chain.previous = Some(checksum);
        return Ok(true);
    }
    match groups.go_behind(group)? {
        Some((_, placed)) if placed.checksum != checksum => {
            groups.place = Place::of(groups.place.segment, &placed.group);
            Ok(false)
        }
        Some((Some(run), _)) if is_again => {
            groups.place = run;
            Ok(true)
        }
        Some(_) => Ok(!is_again),
        None => Ok(false),
    }
}

impl Way {
    /// Passes on the records of the run that the last returned group ends, if it ends one. Returns their bytes.
    fn give<E: From<LogFailure>>(
        &mut self,
        Placed { group, checksum }: Placed,
        run: &mut Vec<u8>,
        visit: &mut Visit<'_, E>,
    ) -> Result<usize, E> {
        let records = self.groups.reader().records(&group).map_err(LogFailure::from)?;
        if group.more || !run.is_empty() {
            run.extend_from_slice(records);
        }
        if group.more {
            return Ok(0);
        }
        let Group { number, transactions, .. } = group;
        let position = LogPosition { group: number, checksum, transactions };
        let records: &[u8] = if run.is_empty() { records } else { &*run };
        visit(position, records)?;
        let given = records.len();
        run.clear();
        (self.position, self.is_again) = (position, false);
        Ok(given)
    }
}
