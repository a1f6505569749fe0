//! `Restore`: makes a database from a backup and the log's archive, as of some group or time.
//!
//! Not here: the choice and verification of groups (storage `value_log/archive/`).

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tombolo_engine::rng::entropy;
use tombolo_storage::backup;
use tombolo_storage::disk::OsDisk;
use tombolo_storage::value_log::archive::RestoreTarget;

use crate::backup::refuse_set;
use crate::database::Database;
use crate::error::Error;
use crate::open::make_directory;

/// Makes a database from a backup and the groups archived since, as of some moment.
///
/// Transactions are archived in the groups in which they became durable; each group has a number and the time of
/// its flush. A database is restored to the end of a group: all transactions up to there, and none after it.
///
/// ```
/// # tombolo::table! {
/// #     /// Counters by number.
/// #     pub struct Counter = "counter" { ID: Integer; }
/// # }
/// # use tombolo::{Database, Error, Restore, TableDef};
/// # let place = tempfile::tempdir().unwrap();
/// # let names = ["shop", "archive", "safe", "other"];
/// # let [directory, archive, safe, other] = names.map(|name| place.path().join(name));
/// # let builder = Database::builder().table(TableDef::of::<Counter>()).set("log_segment_bytes", "1 MB");
/// std::fs::create_dir(&archive).unwrap();
/// let db = builder.log_archive(&archive).open(&directory)?;
/// # let counters = db.table::<Counter>()?;
/// # let insert = |id| {
/// #     db.transaction(move |tx| Ok(tx.insert(&counters, |row| row.set(Counter::ID, id))?))
/// # };
/// # insert(1)?;
/// db.backup(&safe)?;
/// # insert(2)?;
/// let before_upgrade = db.archive_now()?;
/// # insert(3)?;
/// db.close()?;
///
/// // The upgrade went wrong:
/// let restored = Restore::from(&safe).archive(&archive).to_group(before_upgrade).into(&other)?;
/// assert_eq!(restored.group, before_upgrade);
/// let db = Database::open(&other)?;
/// # let counters = db.table::<Counter>()?;
/// assert_eq!(db.transaction(move |tx| Ok(tx.rows(&counters)?.len()))?, 2);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "nothing is restored before `into` is called"]
pub struct Restore {
    backup: PathBuf,
    archive: Option<PathBuf>,
    target: RestoreTarget,
}

/// A report of what was restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Restored {
    /// The last group that is in it.
    pub group: u64,
    /// The time at which that group was written; none if an older program wrote it, or if only a backup was
    /// restored.
    pub time: Option<SystemTime>,
    /// Bytes of its files.
    pub bytes: u64,
}

impl Restore {
    /// From the backup in this directory.
    pub fn from(backup: impl AsRef<Path>) -> Self {
        let backup = backup.as_ref().to_owned();
        Self { backup, archive: None, target: RestoreTarget::Latest }
    }

    /// Adds the groups of the archive in this directory that follow the backup
    /// ([`Builder::log_archive`](crate::Builder::log_archive)). The archive is only read; the database may still
    /// write to it.
    pub fn archive(mut self, archive: impl AsRef<Path>) -> Self {
        self.archive = Some(archive.as_ref().to_owned());
        self
    }

    /// Up to this group. If it is only one part of records that several groups contain, they are left out.
    pub const fn to_group(mut self, group: u64) -> Self {
        self.target = RestoreTarget::Group(group);
        self
    }

    /// Up to the last group that was written at this time or before. By the clock of that machine, everything
    /// acknowledged as durable before this time is included, and nothing that was called after it.
    pub fn to_time(mut self, time: SystemTime) -> Self {
        let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let us = u64::try_from(since.as_micros()).unwrap_or(u64::MAX);
        self.target = RestoreTarget::Time(us);
        self
    }

    /// Up to the last archived group, which is the default.
    pub const fn to_latest(mut self) -> Self {
        self.target = RestoreTarget::Latest;
        self
    }

    /// Restores into a new or an empty directory, which can then be opened; backup and archive are not
    /// changed. Every file and every group is verified, and the groups must follow each other without a gap.
    ///
    /// The restored database continues as another history of the same database. If it was restored to the end of
    /// its archive it may continue with that archive; otherwise it needs a new one.
    ///
    /// # Errors
    /// [`Error::DiskFull`], after which a retry is possible; [`Error::Directory`] when backup and archive do
    /// not reach the target (the error names what they contain), and when `directory` is not empty;
    /// [`Error::Damaged`], [`Error::OtherVersion`], [`Error::Disk`]; [`Error::Setting`] for a
    /// group or a time without an archive. After an error there is no database in `directory`.
    pub fn into(self, directory: impl AsRef<Path>) -> Result<Restored, Error> {
        let Self { backup, archive, target } = self;
        refuse_set(&backup)?;
        let Some(archive) = archive else {
            if target != RestoreTarget::Latest {
                let what =
                    "a backup alone can only be restored as it is: give the log's archive, too";
                return Err(Error::Setting(what.to_owned()));
            }
            let made = Database::restore(backup, directory)?;
            return Ok(Restored { group: made.group, time: None, bytes: made.bytes });
        };
        let (from, archive) = (OsDisk::open(&backup)?, OsDisk::open(&archive)?);
        let to = make_directory(directory.as_ref())?;
        let (made, us) = backup::restore_until(&from, &archive, target, &to, entropy())?;
        let time = (us > 0).then(|| SystemTime::UNIX_EPOCH + Duration::from_micros(us));
        Ok(Restored { group: made.position.group, time, bytes: made.bytes })
    }
}
