//! Checkpoints as an application sees them: one on demand, and whether they go well.
//!
//! Not here: when they are written without being asked for, and how (engine `pipeline/checkpoint/`). Invariant:
//! nothing a transaction does waits for one.

use std::sync::Arc;

use tombolo_engine::pipeline::{CheckpointRefusal, Pipeline};

use crate::calls::on_database_thread;
use crate::core::Core;
use crate::database::Database;
use crate::error::Error;

impl Core {
    /// What kept a checkpoint from being written.
    pub(crate) fn checkpoint_refused(&self, refusal: CheckpointRefusal) -> Error {
        // A log that failed ends checkpoints too, and is then the reason to report.
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
    /// Writes a checkpoint now and sleeps until it is complete: what was durable before this call is
    /// in the image then, and the log before it is used again. Transactions continue meanwhile.
    ///
    /// Checkpoints are written without this, too (settings `checkpoint…`); a program calls it where it wants
    /// the next opening to be short, or a small log: after a bulk load, before an upgrade.
    /// If one is under way that began earlier, the next one is waited for as well.
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
    /// [`Error::NoCheckpoints`] of a database in memory, or with the setting `checkpoints` off;
    /// [`Error::DiskFull`], after which it may be tried again; [`Error::CheckpointsFailed`] when the
    /// image's disk failed, now or before; [`Error::Poisoned`], [`Error::Closed`], [`Error::Nested`].
    pub fn checkpoint(&self) -> Result<(), Error> {
        if on_database_thread() {
            return Err(Error::Nested);
        }
        let asked = self.core().with_pipeline(Pipeline::checkpoint)?;
        asked.wait().map_err(|refusal| self.core().checkpoint_refused(refusal))
    }
}
