//! Backups of all islands as of one moment, and databases made from them.
//!
//! ```text
//!   hold checkpoints ─► a moment: the newest durable group of each island ─► copy each up to it ─► backup
//! ```
//!
//! The moment is one at which the machine might have lost its power: of each island, what was durable then is in the
//! copy. All that an island answers, and all that it says to others and they rely on, waits until it is durable. So
//! islands that are restored agree on every transaction that was under way, as they do after a crash.
//!
//! Not here: the copy of one island (`crate::backup`, storage `backup/`), a moment after that of the backup: an archive
//! ends at different moments for each island.

use std::fs;
use std::path::Path;

use tombolo_engine::islands::membership::{island_directory, islands_in};
use tombolo_engine::pipeline::Pipeline;
use tombolo_engine::rng::entropy;
use tombolo_engine::threads::on_each;
use tombolo_storage::backup::{self, BackupFailure};
use tombolo_storage::disk::{Disk, OsDisk};
use tombolo_storage::value_log::LogSettings;

use super::Islands;
use crate::backup::Backup;
use crate::core::Core;
use crate::database::Database;
use crate::error::Error;
use crate::open::make_directory;

impl Islands {
    /// Copies all islands into a new or an empty directory while they run, and blocks until the copy is durable. It is
    /// of one moment during this call: what was acknowledged before it is in the copy, and of each transaction over
    /// several islands all or nothing. Otherwise as [`Database::backup`](crate::Database::backup).
    ///
    /// ```
    /// # use tombolo::{Database, Error, Islands, Table};
    /// # #[derive(Table)]
    /// # struct Account { #[key] id: u64, cents: i64 }
    /// # let place = tempfile::tempdir().unwrap();
    /// # let [directory, safe, other] = ["shop", "safe", "other"].map(|name| place.path().join(name));
    /// let builder = Database::builder().define::<Account>().set("log_segment_bytes", "1 MB").islands(2);
    /// let db = builder.clone().open(&directory)?;
    /// let accounts = db.table::<Account>()?;
    /// db.at(&7u64)?.transaction(move |tx| Ok(tx.insert_row(&accounts, &Account { id: 7, cents: 100 })?))?;
    /// db.backup(&safe)?;
    ///
    /// // On the day after the fire:
    /// Islands::restore(&safe, &other)?;
    /// let db = builder.open(&other)?;
    /// let accounts = db.table::<Account>()?;
    /// assert_eq!(db.at(&7u64)?.transaction(move |tx| Ok(tx.rows(&accounts)?.len()))?, 1);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Database::backup`](crate::Database::backup).
    pub fn backup(&self, to: impl AsRef<Path>) -> Result<Vec<Backup>, Error> {
        let cores = || self.databases.iter().map(|island| &**island.core());
        cores().try_for_each(Core::admit_backup)?;
        let (path, to) = (to.as_ref(), make_directory(to.as_ref())?);
        refuse_islands(path)?;
        let holds = cores().map(Core::hold_checkpoints);
        let _holds = holds.collect::<Result<Vec<_>, _>>()?;
        let moment = self.moment()?;
        let copy = |island: usize, to: &dyn Disk| {
            let from = self.databases[island].core().disks();
            backup::write(from, to, &LogSettings::default(), &mut || moment[island])
        };
        let made = backup::write_set(&to, || on_all(self.islands(), path, copy))?;
        Ok(made.into_iter().map(Backup::from).collect())
    }

    /// The newest flushed group of each island, at one moment: the groups only grow, so where two looks in a row
    /// see the same ones, they were these at the moment between the two.
    fn moment(&self) -> Result<Vec<u64>, Error> {
        let mut before = self.flushed_groups()?;
        loop {
            let now = self.flushed_groups()?;
            if now == before {
                return Ok(now);
            }
            before = now;
        }
    }

    fn flushed_groups(&self) -> Result<Vec<u64>, Error> {
        let cores = self.databases.iter().map(Database::core);
        cores.map(|core| core.with_pipeline(Pipeline::flushed_group)).collect()
    }

    /// Makes a database of islands from the backup in `from`, in a new or an empty directory `to`, which can then be
    /// opened. Otherwise as [`Database::restore`](crate::Database::restore).
    ///
    /// # Errors
    /// As [`Database::restore`](crate::Database::restore); [`Error::Damaged`] also when a directory of an island is
    /// missing, or is of another backup.
    pub fn restore(from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<Vec<Backup>, Error> {
        let from = from.as_ref();
        let set = OsDisk::open(from)?;
        let members =
            (0..islands_in(from)).map(|island| OsDisk::open(&from.join(island_directory(island))));
        let members = members.collect::<Result<Vec<_>, _>>()?;
        backup::verify_set(&set, &members)?;
        let (path, to) = (to.as_ref(), make_directory(to.as_ref())?);
        refuse_islands(path)?;
        let restore =
            |island: usize, to: &dyn Disk| backup::restore(&members[island], to, entropy());
        let made = backup::restore_set(&to, || on_all(members.len(), path, restore))?;
        Ok(made.into_iter().map(Backup::from).collect())
    }
}

/// Refuses a directory for a copy that holds islands.
pub(crate) fn refuse_islands(directory: &Path) -> Result<(), Error> {
    match islands_in(directory) {
        0 => Ok(()),
        _ => Err(Error::Directory(format!(
            "{} holds {}: choose a new or an empty directory",
            directory.display(),
            island_directory(0)
        ))),
    }
}

/// Makes a copy of each island in its directory within `to`, concurrently. If one fails, none is left.
fn on_all(
    islands: usize,
    to: &Path,
    copy: impl Fn(usize, &dyn Disk) -> Result<backup::Backup, BackupFailure> + Sync,
) -> Result<Vec<backup::Backup>, BackupFailure> {
    let place = |island: usize| to.join(island_directory(island));
    let made = on_each(0..islands, |island| copy(island, &OsDisk::create(&place(island))?));
    let made: Result<Vec<_>, _> = made.into_iter().collect();
    if made.is_err() {
        remove_copies(to, islands);
    }
    made
}

/// Removes the islands of a copy that is not complete. What cannot be removed is marked as a copy, or lies next to the
/// mark of an unfinished set.
pub(crate) fn remove_copies(to: &Path, islands: usize) {
    (0..islands).for_each(|island| _ = fs::remove_dir_all(to.join(island_directory(island))));
}
