//! A backup of all islands at one moment while they run, restored and opened: it has what was answered before, and of
//! each transaction over several islands all or nothing.
//!
//! The moment is one of the simulated machine: a copy of its disk is what the islands' threads would have kept still
//! for the backup. Not here: how a backup is copied (storage `backup/`).

use std::sync::Arc;

use tombolo_storage::backup;
use tombolo_storage::disk::{Disk, MemDisk};
use tombolo_storage::value_log::GroupNumber;

use super::opening::{Place, contents, open_all};
use super::oracle::Oracle;
use super::settings::Settings;
use crate::database::log::log_settings;
use crate::faults::FaultyDisk;
use crate::oracle::{Rule, Violation};

/// Backs islands up that have flushed these groups, restores them and judges what is there.
pub(super) fn rehearse(
    disk: &FaultyDisk,
    settings: &Settings,
    flushed: &[GroupNumber],
    oracle: &Oracle,
) -> Result<(), Violation> {
    let broken = |what: String| Violation::new(Rule::Restored, what);
    let copy = disk.copy();
    copy.crash_after(None);
    copy.set_faults(settings.database.faults.patient());
    let log = log_settings(&settings.database);
    let mut restored = Vec::new();
    for (island, group) in flushed.iter().enumerate() {
        let (from, kept, to) = (Place::on(&copy, settings, island), MemDisk::new(), MemDisk::new());
        let made = backup::write(&from.doors, &kept, &log, &mut || *group);
        made.and_then(|_| backup::restore(&kept, &to, 1 + island as u64))
            .map_err(|failure| broken(format!("island {island}: {failure}")))?;
        let doors = vec![Arc::new(to) as Arc<dyn Disk>];
        restored.push(Place { doors, archive: None });
    }
    let mut opened = open_all(&restored, settings, &mut 0).map_err(|why| broken(why.message))?;
    let found = contents(&mut opened).map_err(|why| broken(why.message))?;
    oracle
        .judge(&found)
        .map(drop)
        .map_err(|Violation { rule, what }| broken(format!("in a backup, {}: {what}", rule.name())))
}
