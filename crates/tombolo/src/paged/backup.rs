//! Backing a paged database up while it is used, and making one of a backup.
//!
//! Not here: what is copied, and why a restart can do with it (storage `paged/store/backup.rs`); the files of a backup
//! (storage `backup/`).

use std::path::Path;

use super::database::PagedDatabase;
use crate::backup::Backup;
use crate::database::Database;
use crate::error::Error;
use crate::open::make_directory;

impl PagedDatabase {
    /// Copies the database into a new or an empty directory while it runs, and blocks until the copy is durable. The
    /// copy contains everything acknowledged before this call, and of the transactions acknowledged meanwhile all up to
    /// one of them.
    ///
    /// Transactions continue; checkpoints wait, so the log grows meanwhile. Every page and every group of the log is
    /// verified as it is copied, so a backup also detects damage. As [`Database::backup`], it is not opened itself.
    ///
    /// ```
    /// # use tombolo::{Database, Error, PagedDatabase, Table};
    /// # #[derive(Table)]
    /// # struct Counter { #[key] id: u32 }
    /// # let place = tempfile::tempdir().unwrap();
    /// # let [directory, safe, other] = ["shop", "safe", "other"].map(|name| place.path().join(name));
    /// let builder = Database::builder().define::<Counter>().paged().pool_bytes(4 << 20);
    /// let db = builder.clone().open(&directory)?;
    /// # let counters = db.table::<Counter>()?;
    /// # db.transaction(|tx| tx.insert_row(&counters, &Counter { id: 7 }).map(drop))?;
    /// db.backup(&safe)?;
    ///
    /// // On the day after the fire:
    /// PagedDatabase::restore(&safe, &other)?;
    /// let db = builder.open(&other)?;
    /// let counters = db.table::<Counter>()?;
    /// assert_eq!(db.read(|tx| Ok(tx.rows(&counters)?.len()))?, 1);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Database::backup`]. A copy that an error or the end of the process left unfinished is recognised, and is
    /// neither opened nor restored.
    pub fn backup(&self, to: impl AsRef<Path>) -> Result<Backup, Error> {
        let session = self.take()?;
        let to = make_directory(to.as_ref())?;
        Ok(session.store.backup(&to)?.into())
    }

    /// As [`Database::restore`], which this is: makes a database from the backup in `from`, in a new or an empty
    /// directory `to`, which can then be opened.
    ///
    /// # Errors
    /// As [`Database::restore`].
    pub fn restore(from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<Backup, Error> {
        Database::restore(from, to)
    }
}
