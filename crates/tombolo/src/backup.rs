//! Making and restoring backups.
//!
//! Not here: the content of a copy, and its distinction from a database (storage `backup/`). Invariant: no
//! transaction waits for a backup; checkpoints do, so the log grows meanwhile.

use std::path::Path;

use tombolo_engine::islands::membership::islands_in;
use tombolo_engine::pipeline::{CheckpointHold, Pipeline};
use tombolo_engine::rng::entropy;
use tombolo_storage::backup;
use tombolo_storage::disk::{Disk, OsDisk};
use tombolo_storage::value_log::LogSettings;

use crate::calls::on_database_thread;
use crate::core::Core;
use crate::database::Database;
use crate::error::Error;
use crate::open::make_directory;

/// A report of a backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Backup {
    /// The last group of transactions that is in it.
    pub group: u64,
    /// Bytes of its files.
    pub bytes: u64,
}

impl From<backup::Backup> for Backup {
    fn from(made: backup::Backup) -> Self {
        Self { group: made.position.group, bytes: made.bytes }
    }
}

impl Core {
    /// Refuses a backup that cannot begin.
    pub(crate) fn admit_backup(&self) -> Result<(), Error> {
        if on_database_thread() {
            return Err(Error::Nested);
        }
        if let Some(reason) = self.with_pipeline(Pipeline::poison)? {
            return Err(Error::Poisoned(reason));
        }
        if self.disks().is_empty() {
            let what = "not done: a database in memory has no files to copy";
            return Err(Error::Directory(what.to_owned()));
        }
        Ok(())
    }

    /// Waits for the checkpoint that is being written; no other begins while the answer lives.
    pub(crate) fn hold_checkpoints(&self) -> Result<CheckpointHold, Error> {
        let holding = self.with_pipeline(Pipeline::holding)?;
        holding().map_err(|refusal| self.checkpoint_refused(refusal))
    }

    fn back_up(&self, to: &dyn Disk) -> Result<Backup, Error> {
        let _hold = self.hold_checkpoints()?;
        // If the database is closed meanwhile, by its own thread, all of it is durable.
        let mut durable = || self.with_pipeline(Pipeline::durable_group).unwrap_or_default();
        Ok(backup::write(self.disks(), to, &LogSettings::default(), &mut durable)?.into())
    }
}

impl Database {
    /// Copies the database into a new or an empty directory while it runs, and blocks until the copy is
    /// durable. The copy contains everything acknowledged before this call, and of the transactions acknowledged
    /// meanwhile all up to one of them.
    ///
    /// Transactions continue. Checkpoints wait, so the log grows meanwhile; if it reaches its bound
    /// (`log_bytes_max`), writes are refused with
    /// [`Error::LogFull`] until the copy is complete. Every block and every group is verified as it is
    /// copied, so a backup also detects damage.
    ///
    /// A backup is not opened itself: [`Database::restore`] makes a database from it.
    ///
    /// ```
    /// # tombolo::table! {
    /// #     /// Counters by number.
    /// #     pub struct Counter = "counter" { ID: Integer; }
    /// # }
    /// # use tombolo::{Database, Error, TableDef};
    /// # let place = tempfile::tempdir().unwrap();
    /// # let [directory, safe, other] = ["shop", "safe", "other"].map(|name| place.path().join(name));
    /// # let builder = Database::builder().table(TableDef::of::<Counter>()).set("log_segment_bytes", "1 MB");
    /// let db = builder.open(&directory)?;
    /// # let counters = db.table::<Counter>()?;
    /// # db.transaction(move |tx| Ok(tx.insert(&counters, |row| row.set(Counter::ID, 7))?))?;
    /// db.backup(&safe)?;
    ///
    /// // On the day after the fire:
    /// Database::restore(&safe, &other)?;
    /// let db = Database::open(&other)?;
    /// let counters = db.table::<Counter>()?;
    /// assert_eq!(db.transaction(move |tx| Ok(tx.rows(&counters)?.len()))?, 1);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::DiskFull`]: the incomplete copy was removed, and a retry is possible where there is room;
    /// [`Error::Directory`] when `to` is not empty, and for a database in memory; [`Error::Damaged`] when
    /// the database is damaged; [`Error::Disk`], [`Error::Poisoned`], [`Error::Closed`], [`Error::Nested`].
    /// A copy that an error or the end of the process left unfinished is recognised, and is neither opened nor
    /// restored.
    pub fn backup(&self, to: impl AsRef<Path>) -> Result<Backup, Error> {
        let core = self.core();
        core.admit_backup()?;
        let to = make_directory(to.as_ref())?;
        core.back_up(&to)
    }

    /// Makes a database from the backup in `from`, in a new or an empty directory `to`, which can then be
    /// opened. Every file is verified while it is copied; the backup is not changed and can be restored
    /// again. If the image was spread over several directories, it is in one now.
    ///
    /// # Errors
    /// [`Error::DiskFull`], after which a retry is possible; [`Error::Directory`] when `from` has no
    /// backup, or an unfinished one, and when `to` is not empty; [`Error::Damaged`],
    /// [`Error::OtherVersion`], [`Error::Disk`]. After an error there is no database in `to`.
    pub fn restore(from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<Backup, Error> {
        refuse_set(from.as_ref())?;
        let from = OsDisk::open(from.as_ref())?;
        let to = make_directory(to.as_ref())?;
        Ok(backup::restore(&from, &to, entropy())?.into())
    }
}

/// Refuses the backup of a database of islands.
pub(crate) fn refuse_set(directory: &Path) -> Result<(), Error> {
    match islands_in(directory) {
        0 => Ok(()),
        islands => Err(Error::Directory(format!(
            "{} holds a backup of {islands} islands: restore it with Islands::restore",
            directory.display()
        ))),
    }
}
