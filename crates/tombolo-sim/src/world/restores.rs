//! Databases restored from a backup and the log's archive, next to the one that lives on.
//!
//! ```text
//!   recovered ──backup──► kept, over crashes
//!                           │ and the archive as it is now
//!                           └──► latest, some group ──► opened: what ran up to that group
//! ```
//!
//! A group knows how many transactions there are up to it, so the history knows which state is meant. Only
//! where the medium keeps its promises. Not here: the archive (`archives.rs`), opening (`checkpoints.rs`).

use std::sync::Arc;

use tombolo_engine::rng::Rng;
use tombolo_storage::backup;
use tombolo_storage::disk::{Disk, MemDisk};
use tombolo_storage::store::Store;
use tombolo_storage::value_log::archive::RestoreTarget;
use tombolo_storage::value_log::{GroupNumber, LogPosition};

use super::{Engine, World, patient, sound};
use crate::fault::one_in;
use crate::history::{Rule, Violation};
use crate::recording::log_settings;
use crate::trace::number_of;
use crate::workload::store::contents;
use crate::{archives, checkpoints};

/// Backups that are kept at a time.
const BACKUPS_MAX: usize = 3;

/// Backups, and the chances of what becomes of them.
#[derive(Debug)]
pub(super) struct Restores {
    rng: Rng,
    /// Each with the group it goes up to.
    backups: Vec<(MemDisk, GroupNumber)>,
    /// Databases that were restored.
    pub(super) count: u64,
}

impl Restores {
    pub(super) fn new(seed: u64) -> Self {
        let rng = Rng::stream(seed, &[number_of("restores")]);
        Self { rng, backups: Vec::new(), count: 0 }
    }

    /// The database of the backups is no more.
    pub(super) fn forget(&mut self) {
        self.backups.clear();
    }
}

impl World {
    /// Restores databases, sometimes, and makes backups of the one that was just opened.
    pub(super) fn rehearse_restores<E: Engine>(&mut self, engine: &E) -> Result<(), Violation> {
        let is_on = archives::is_on(&self.swarm) && !self.disk.counts().any_broken_promise();
        let Some(durable) = engine.durable_group().filter(|_| is_on) else {
            self.restores.forget();
            return Ok(());
        };
        let disk = self.disk.copy();
        disk.set_faults(patient(self.swarm.faults));
        let backups = self.restores.backups.len();
        if backups > 0 && one_in(&mut self.restores.rng, 2) {
            let n = self.restores.rng.below(backups as u64) as usize;
            let (copy, from) = self.restores.backups[n].clone();
            let archive = disk.directory(archives::DIRECTORY);
            let latest = self.restored(&copy, &archive, RestoreTarget::Latest)?.group;
            let group = from + self.restores.rng.below(latest - from + 1);
            let made = self.restored(&copy, &archive, RestoreTarget::Group(group))?.group;
            if made > group || made < from {
                let what = format!("restored to group {made} instead of {group}");
                return Err(Violation::new(Rule::Restored, what));
            }
        }
        if backups < BACKUPS_MAX && one_in(&mut self.restores.rng, 2) {
            let copy = MemDisk::new();
            let directory = |number| Arc::new(disk.directory(number)) as Arc<dyn Disk>;
            let directories: Vec<_> = (0..self.swarm.directories).map(directory).collect();
            let settings = log_settings(&self.swarm);
            let made = backup::write(&directories, &copy, &settings, &mut || durable);
            let made = made.map_err(|failure| {
                Violation::new(Rule::Restored, format!("no backup was made: {failure}"))
            })?;
            self.restores.backups.push((copy, made.position.group));
        }
        Ok(())
    }

    /// Restores a database and opens it: it is what ran up to its last group.
    fn restored(
        &mut self,
        backup: &MemDisk,
        archive: &dyn Disk,
        target: RestoreTarget,
    ) -> Result<LogPosition, Violation> {
        let violation = |what: String| {
            Violation::new(Rule::Restored, format!("restored to {target:?}: {what}"))
        };
        let to = MemDisk::new();
        // The image of what is restored lies in one directory.
        let made = backup::restore_until(backup, archive, target, &to, 0);
        let (made, _) = made.map_err(|failure| violation(failure.to_string()))?;
        self.restores.count += 1;
        let doors: Vec<Arc<dyn Disk>> = vec![Arc::new(to)];
        let opened = checkpoints::open_doors(&doors, &self.swarm, false, None);
        let (_, mut store) = opened.map_err(|refused| violation(refused.message))?;
        sound(&store.check())?;
        let found = contents(&mut store).map_err(violation)?;
        let LogPosition { group, transactions, .. } = made.position;
        let place = self.history.as_of(&found, transactions);
        let place = place.ok_or_else(|| {
            violation(format!("group {group} is not what ran in {transactions} transactions"))
        })?;
        self.trace.event(&[number_of("restored"), group, place as u64], || {
            format!("restored to group {group}, step {place}")
        });
        Ok(made.position)
    }
}
