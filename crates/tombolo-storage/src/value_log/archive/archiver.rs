//! `LogArchive`: the directory; `Archiver`: copies durable groups of a log into it, part by part.
//!
//! ```text
//!   LogArchive::open ──► takes the lock, removes an unfinished part, finds the archive's end
//!        │ keep(): the log keeps all later groups, however old
//!   LogArchive::attach ──► the log continues there ──► Archiver::archive, repeatedly
//! ```
//!
//! The log is read like any log that is being written (`follow.rs`). Not here: the durable position
//! (given by the caller), threads. Invariants: a part gets its name only when all its bytes are durable;
//! after a failure no group counts as archived that may not be, and the same call may be retried.

use super::super::follow::LogReader;
use super::super::group::Group;
use super::super::groups::{AtGap, Groups};
use super::super::lock::{DirectoryLock, LOCK_FILE};
use super::super::reader::Placed;
use super::super::segment::Header;
use super::super::settings::{GroupNumber, LogFailure};
use super::super::start::LogPosition;
use super::part::{HEADER_BYTES, Head, is_part};
use super::{ArchiveFailure, Held, UNFINISHED_FILE, held, parts};
use crate::checksum as sum;
use crate::disk::{Disk, DiskError, DiskFile, Open};
use crate::plant::{self, Plant};
use crate::sync::Arc;

/// A directory for a log's archive, to which no other process writes.
#[derive(Debug)]
pub struct LogArchive {
    disk: Arc<dyn Disk>,
    lock: DirectoryLock,
    held: Option<Held>,
}

impl LogArchive {
    /// Takes the directory, which is empty or contains an archive.
    ///
    /// # Errors
    /// `InUse`, `Stranger`, `Damaged`, `OtherVersion`, `Disk`.
    pub fn open(disk: Arc<dyn Disk>) -> Result<Self, ArchiveFailure> {
        let is_own = |name: &String| is_part(name) || name == UNFINISHED_FILE || name == LOCK_FILE;
        if let Some(file) = disk.list()?.into_iter().find(|name| !is_own(name)) {
            return Err(ArchiveFailure::Stranger { file });
        }
        let lock = DirectoryLock::take(&*disk)?;
        take_away_unfinished(&*disk)?;
        // A part may have been renamed just before a process ended.
        disk.sync_dir()?;
        let held = held(&parts(&*disk)?);
        Ok(Self { disk, lock, held })
    }

    /// Its content, if any.
    pub fn held(&self) -> Option<&Held> {
        self.held.as_ref()
    }

    /// The first missing group: a log that is opened keeps it and all later groups
    /// ([`RecoverOptions::keep`](super::super::RecoverOptions::keep)). `None` for an archive that
    /// begins with this opening.
    pub fn keep(&self) -> Option<GroupNumber> {
        self.held.as_ref().map(|held| held.last.group + 1)
    }

    /// Continues the archive of the log that `reader` reads, whose durable end is `end`. An empty archive
    /// begins with the group `end`, which it contains when this returns.
    ///
    /// # Errors
    /// `OtherCourse` when the log does not continue after the archive's end; `Log`, `Disk`.
    pub fn attach(self, reader: LogReader, end: LogPosition) -> Result<Archiver, ArchiveFailure> {
        let Self { disk, lock, held } = self;
        let position = match &held {
            Some(held) => held.last,
            None => before(&reader, end)?,
        };
        let groups = None;
        let mut archiver =
            Archiver { disk, _lock: lock, reader, groups, position, parts: 0, bytes: 0 };
        match held {
            Some(held) if !archiver.leads_to(end.group)? => {
                let newest = end.group;
                Err(ArchiveFailure::OtherCourse { held, newest })
            }
            Some(_) => Ok(archiver),
            None => archiver.archive(end.group).map(|_| archiver),
        }
    }
}

/// The position of the log before its group `end`.
fn before(reader: &LogReader, end: LogPosition) -> Result<LogPosition, ArchiveFailure> {
    let mut groups = reader.groups()?;
    let begins = groups.go_to_segment(end.group, false).map_err(LogFailure::from)?;
    if begins.is_err() {
        groups.place.chain.number = end.group;
    }
    let Some((_, placed)) = groups.go_behind(end.group)? else {
        return Err(groups.is_missing().into());
    };
    // The group contains the checksum of its predecessor; an epoch's first group has no transactions.
    Ok(LogPosition { group: end.group - 1, checksum: placed.group.previous, ..end })
}

fn take_away_unfinished(disk: &dyn Disk) -> Result<(), DiskError> {
    match disk.remove(UNFINISHED_FILE) {
        Err(error) if !error.is_not_found() => Err(error),
        _ => Ok(()),
    }
}

/// Copies a log's groups into its archive. See the module's head.
#[derive(Debug)]
pub struct Archiver {
    disk: Arc<dyn Disk>,
    /// Keeps other processes from writing to the archive.
    _lock: DirectoryLock,
    reader: LogReader,
    groups: Option<Groups>,
    position: LogPosition,
    parts: u64,
    bytes: u64,
}

impl Archiver {
    /// The last durably archived group.
    pub const fn position(&self) -> LogPosition {
        self.position
    }

    /// Parts written, and their bytes.
    pub const fn written(&self) -> (u64, u64) {
        (self.parts, self.bytes)
    }

    /// Writes one part: the groups after the last archived one, up to `to` or to the end of their
    /// segment. `to` must be durable, and no unarchived group may have been released. Returns whether there was
    /// anything to archive.
    ///
    /// # Errors
    /// `Disk`, `Log`; the archive is unchanged, and the same call may be retried.
    pub fn archive(&mut self, to: GroupNumber) -> Result<bool, ArchiveFailure> {
        if self.position.group >= to {
            return Ok(false);
        }
        let mut groups = match self.groups.take() {
            Some(groups) => groups,
            None => self.reader.find(self.position, false)?,
        };
        take_away_unfinished(&*self.disk)?;
        let file = self.disk.open(UNFINISHED_FILE, Open::New)?;
        let written = self.write(&mut groups, &*file, to);
        drop(file);
        let head = match written {
            Ok(head) => head,
            Err(failure) => {
                // If it cannot be removed now, it is removed when the next part is begun.
                _ = self.disk.remove(UNFINISHED_FILE);
                return Err(failure);
            }
        };
        self.disk.rename(UNFINISHED_FILE, &head.name())?;
        self.disk.sync_dir()?;
        self.position = head.end();
        self.parts += 1;
        self.bytes += head.bytes;
        groups.forget();
        self.groups = Some(groups);
        Ok(true)
    }

    /// Whether the chain leads from the archive's last group to `end`. Reads the whole chain, because some
    /// groups of released segments may still exist.
    fn leads_to(&self, end: GroupNumber) -> Result<bool, ArchiveFailure> {
        let mut groups = match self.reader.find(self.position, false) {
            Err(LogFailure::Damaged { .. }) => return Ok(false),
            found => found?,
        };
        // Opening a log writes a group; without a group after the archive's end, nothing contains its checksum.
        Ok(self.position.group < end && groups.go_behind(end)?.is_some())
    }

    /// Writes a part to `file` and syncs it.
    fn write(
        &mut self,
        groups: &mut Groups,
        file: &dyn DiskFile,
        to: GroupNumber,
    ) -> Result<Head, ArchiveFailure> {
        let mut head = None::<Head>;
        let mut at_gap = AtGap::Stop;
        while groups.place.chain.number <= to {
            let before = groups.place;
            let Some(Placed { group, checksum }) = groups.next(at_gap)? else {
                if head.is_some() {
                    break;
                }
                // It continues in a segment that was not there yet, or not in use.
                (*groups, at_gap) = (self.reader.find(self.position, false)?, AtGap::Refuse);
                continue;
            };
            if head.is_some_and(|head| head.sequence != group.sequence) {
                groups.place = before;
                break;
            }
            at_gap = AtGap::Stop;
            let reader = groups.reader();
            let head = head.get_or_insert_with(|| begin(&group, reader.header));
            let bytes = reader.whole(&group).map_err(LogFailure::from)?;
            file.write_at(bytes, HEADER_BYTES as u64 + head.bytes)?;
            head.bytes += bytes.len() as u64;
            head.content = sum::append(head.content, bytes);
            (head.last, head.checksum) = (group.number, checksum);
            (head.transactions, head.last_us) = (group.transactions, group.time_us);
        }
        let head = head.ok_or_else(|| groups.is_missing())?;
        file.write_at(&head.encode(), 0)?;
        if !plant::is(Plant::ArchiveNotSynced) {
            file.sync()?;
        }
        Ok(head)
    }
}

/// The header of a part that begins with `group`, in a segment with this header.
fn begin(group: &Group, segment: Header) -> Head {
    Head {
        kind: segment.kind,
        salt: segment.salt,
        sequence: segment.sequence,
        segment_bytes: segment.segment_bytes,
        block_bytes: segment.block_bytes,
        offset: group.offset,
        bytes: 0,
        first: group.number,
        last: group.number,
        transactions: group.transactions,
        first_us: group.time_us,
        last_us: group.time_us,
        previous: group.previous,
        checksum: 0,
        epoch: group.epoch,
        content: 0,
    }
}
