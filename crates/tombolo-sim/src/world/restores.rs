//! Databases restored from a backup and the log's archive, next to the one that continues.
//!
//! ```text
//!   recovered ──backup──► kept, over crashes
//!                           │ and the archive as it is now
//!                           └──► latest, some group ──► opened: what ran up to that group
//! ```
//!
//! A group knows how many transactions there are up to it, so the history knows which state is meant. Only
//! where the medium keeps its promises. Not here: the archive (`database/archive.rs`), opening (`database/image.rs`).

use std::sync::Arc;

use tombolo_storage::backup;
use tombolo_storage::disk::{Disk, MemDisk};
use tombolo_storage::store::Store;
use tombolo_storage::value_log::LogPosition;
use tombolo_storage::value_log::archive::RestoreTarget;

use super::{Engine, World};
use crate::database::log::log_settings;
use crate::database::{archive, image};
use crate::faults::{FaultKind, one_in};
use crate::oracle::{Rule, Violation, sound};
use crate::trace::number_of;
use crate::workload::store::contents;

/// Backups that are kept at a time.
const BACKUPS_MAX: usize = 3;

impl World {
    /// Restores databases, sometimes, and makes backups of the one that was just opened.
    pub(super) fn rehearse_restores<E: Engine>(&mut self, engine: &E) -> Result<(), Violation> {
        let is_on = archive::is_on(&self.swarm) && !self.disk.counts().any_broken_promise();
        let Some(durable) = engine.durable_group().filter(|_| is_on) else {
            self.backups.forget();
            return Ok(());
        };
        let disk = self.disk.copy();
        disk.set_faults(self.swarm.faults.patient());
        let backups = self.backups.kept.len();
        if backups > 0 && one_in(&mut self.backups.rng, 2) {
            let n = self.backups.rng.below(backups as u64) as usize;
            let (copy, from) = self.backups.kept[n].clone();
            let archived = disk.directory(archive::DIRECTORY);
            let latest = self.restored(&copy, &archived, RestoreTarget::Latest)?.group;
            let group = from + self.backups.rng.below(latest - from + 1);
            let made = self.restored(&copy, &archived, RestoreTarget::Group(group))?.group;
            if made > group || made < from {
                let what = format!("restored to group {made} instead of {group}");
                return Err(Violation::new(Rule::Restored, what));
            }
        }
        if backups < BACKUPS_MAX && one_in(&mut self.backups.rng, 2) {
            let copy = MemDisk::new();
            let directories = disk.directories(self.swarm.directories);
            let settings = log_settings(&self.swarm);
            let made = backup::write(&directories, &copy, &settings, &mut || durable);
            let made = made.map_err(|failure| {
                Violation::new(Rule::Restored, format!("no backup was made: {failure}"))
            })?;
            self.backups.kept.push((copy, made.position.group));
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
        self.struck.add(FaultKind::Restored);
        let doors: Vec<Arc<dyn Disk>> = vec![Arc::new(to)];
        let opened = image::open_doors(&doors, &self.swarm, false, (None, None));
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
