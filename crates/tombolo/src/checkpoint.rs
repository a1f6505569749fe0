//! Checkpoints on demand, and their errors.
//!
//! Not here: the schedule of regular checkpoints and their writing (engine `pipeline/checkpoint/`). Invariant:
//! no transaction waits for a checkpoint.

use std::sync::Arc;

use tombolo_engine::pipeline::{CheckpointRefusal, Pipeline};

use crate::calls::on_database_thread;
use crate::core::Core;
use crate::database::Database;
use crate::error::Error;

impl Core {
    /// See [`Database::checkpoint`].
    pub(crate) fn checkpoint(&self) -> Result<(), Error> {
        if on_database_thread() {
            return Err(Error::Nested);
        }
        let asked = self.with_pipeline(Pipeline::checkpoint)?;
        asked.wait().map_err(|refusal| self.checkpoint_refused(refusal))
    }

    /// The error of a checkpoint that was not written.
    pub(crate) fn checkpoint_refused(&self, refusal: CheckpointRefusal) -> Error {
        // A failure of the log also ends checkpoints, and is then the error to report.
        let poison = self.with_pipeline(|pipeline| pipeline.poison()).ok().flatten();
        match (refusal, poison) {
            (CheckpointRefusal::Closed, _) => Error::Closed,
            (_, Some(reason)) => Error::Poisoned(reason),
            (CheckpointRefusal::Off, _) => Error::NoCheckpoints,
            (CheckpointRefusal::Full(what), _) => Error::DiskFull(what.to_string()),
            (CheckpointRefusal::Failed(what), _) => Error::CheckpointsFailed(what),
            (other, _) => Error::CheckpointsFailed(Arc::from(other.to_string())),
        }
    }
}

impl Database {
    /// Writes a checkpoint now and blocks until it is complete: everything durable before this call is
    /// then in the image, and the log before it is reused. Transactions continue meanwhile.
    ///
    /// Checkpoints are also written without this call (settings `checkpoint…`). Call it to make the next
    /// opening fast or the log small: after a bulk load, before an upgrade.
    /// If an earlier checkpoint is under way, the call waits for the one after it.
    ///
    /// ```
    /// # tombolo::table! {
    /// #     /// Counters by number.
    /// #     pub struct Counter = "counter" { ID: Integer; }
    /// # }
    /// # use tombolo::{Database, Error, TableDef};
    /// # let place = tempfile::tempdir().unwrap();
    /// # let directory = place.path().join("counters");
    /// let counters = TableDef::of::<Counter>();
    /// let db = Database::builder().table(counters).set("log_segment_bytes", "1 MB").open(&directory)?;
    /// let counters = db.table::<Counter>()?;
    /// db.transaction(move |tx| Ok(tx.insert(&counters, |row| row.set(Counter::ID, 7))?))?;
    /// db.checkpoint()?;
    /// assert_eq!(db.statistics().checkpoints, 1);
    ///
    /// assert_eq!(Database::in_memory()?.checkpoint(), Err(Error::NoCheckpoints));
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NoCheckpoints`] for a database in memory, or with the setting `checkpoints` off;
    /// [`Error::DiskFull`], after which a retry is possible; [`Error::CheckpointsFailed`] when the
    /// image's disk failed, now or before; [`Error::Poisoned`], [`Error::Closed`], [`Error::Nested`].
    pub fn checkpoint(&self) -> Result<(), Error> {
        self.core().checkpoint()
    }
}
