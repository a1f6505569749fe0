//! Groups that are not needed any more: what a checkpoint does to a log, without a checkpoint.
//!
//! Now and then, after a sync, durable groups go into the disk's archive, and the log is told that
//! nobody will ask for them again; the next recovery replays the archive first and the log from the
//! group behind it on. So segments are given back, used again, and found by recovery in every state.
//! Not here: how segments are given back (storage `value_log/`).

use std::collections::VecDeque;

use tombolo_engine::pipeline::{Cost, GroupLog, GroupLogError, Room, RoomMaker, ValueLogGroups};
use tombolo_storage::value_log::{GroupNumber, LogFailure, Replay};

use crate::faulty_disk::{Archive, FaultyDisk};
use crate::recording::OpenLog;
use crate::swarm::Swarm;

/// Puts durable groups into the archive and releases them, as checkpoints do.
#[derive(Debug)]
pub struct Releases {
    archive: Archive,
    /// One in this many syncs; 0 is never.
    every: u64,
    syncs: u64,
    /// Groups that are in the log and not in the archive.
    groups: VecDeque<(GroupNumber, Vec<u8>)>,
}

impl Releases {
    /// Of the log on `disk`.
    pub fn new(disk: &FaultyDisk, swarm: &Swarm) -> Self {
        let (archive, every) = (disk.archive(), u64::from(swarm.releases));
        Self { archive, every, syncs: 0, groups: VecDeque::new() }
    }

    /// Replays what the archive holds; the number of the newest group in it.
    ///
    /// # Errors
    /// What `replay` says.
    pub fn replay(&self, replay: &mut dyn Replay) -> Result<GroupNumber, LogFailure> {
        let archive = self.archive.lock();
        for (group, records) in &*archive {
            let replayed = replay.replay(*group, records);
            replayed.map_err(|what| LogFailure::Replay { group: *group, what })?;
        }
        Ok(archive.last().map_or(0, |(group, _)| *group))
    }

    /// A group was found or written.
    pub fn keep(&mut self, number: GroupNumber, records: &[&[u8]]) {
        if self.every > 0 {
            self.groups.push_back((number, records.concat()));
        }
    }

    /// A sync has succeeded: groups up to `durable` may go. The group before which all may be
    /// released, if any are.
    pub fn synced(&mut self, durable: GroupNumber) -> Option<GroupNumber> {
        self.syncs += 1;
        if self.every == 0 || !self.syncs.is_multiple_of(self.every) {
            return None;
        }
        // The newest ones stay: how many differs.
        let until = durable.saturating_sub(self.syncs / self.every % 4);
        let count = self.groups.partition_point(|(number, _)| *number <= until);
        let mut archive = self.archive.lock();
        archive.extend(self.groups.drain(..count));
        archive.last().map(|(number, _)| number + 1)
    }
}

/// The pipeline's log, of which groups are released.
pub fn releasing(log: OpenLog) -> Box<dyn GroupLog> {
    let OpenLog { writer, releases } = log;
    Box::new(Releasing { groups: ValueLogGroups::new(writer), releases })
}

struct Releasing {
    groups: ValueLogGroups,
    releases: Releases,
}

impl GroupLog for Releasing {
    fn append(&mut self, records: &[&[u8]], transactions: u64) -> Result<(), GroupLogError> {
        self.groups.append(records, transactions)?;
        self.releases.keep(self.groups.newest(), records);
        Ok(())
    }

    fn sync(&mut self) -> Result<(), GroupLogError> {
        self.groups.sync()?;
        if let Some(first) = self.releases.synced(self.groups.durable()) {
            self.groups.release_before(first);
        }
        Ok(())
    }

    fn seal(&mut self) -> Result<(), GroupLogError> {
        self.groups.seal()
    }

    fn room(&mut self) -> Room {
        self.groups.room()
    }

    fn room_maker(&mut self) -> Option<Box<dyn RoomMaker>> {
        self.groups.room_maker()
    }

    fn group_bytes_max(&self) -> u64 {
        self.groups.group_bytes_max()
    }

    fn cost(&self) -> Cost {
        self.groups.cost()
    }
}
