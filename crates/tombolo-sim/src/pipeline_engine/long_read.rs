//! A long read, concurrent with transactions: every row of every table, on a snapshot, a few at a time.
//!
//! Its answer must be the rows' number at the moment the snapshot was opened, which it notes in the
//! journal, no matter what ran between its slices; and it must not leave before all of that is durable.
//! Not here: slices and turns (engine `pipeline/stages/long.rs`), snapshots (storage `memory/snapshot/`).

use tombolo_engine::pipeline::{LongWork, Sliced};
use tombolo_engine::transaction::Stop;
use tombolo_storage::memory::snapshot::{Slice, Snapshot, SnapshotCursor};
use tombolo_storage::store::Store;

use super::executor::SimExecutor;
use super::journal::Happened;
use crate::database::Recording;

/// Rows of a slice at most, so that a read takes many.
const ROWS_MAX: usize = 5;

/// The read; see the module's head.
#[derive(Debug)]
pub(super) struct LongRead {
    tag: u64,
    snapshot: Option<Snapshot>,
    table: usize,
    cursor: SnapshotCursor,
    number: u64,
}

impl LongRead {
    pub(super) fn new(tag: u64) -> Self {
        Self { tag, snapshot: None, table: 0, cursor: SnapshotCursor::default(), number: 0 }
    }
}

impl<R: Recording> LongWork<SimExecutor<R>> for LongRead {
    fn begin(&mut self, executor: &mut SimExecutor<R>) -> Result<(), Stop> {
        self.snapshot = Some(executor.store.open_snapshot()?);
        executor.reads += 1;
        executor.journal.lock().note(Happened::OpenedSnapshot(self.tag));
        Ok(())
    }

    fn slice(
        &mut self,
        executor: &mut SimExecutor<R>,
        rows_max: usize,
        _: u64,
    ) -> Result<Sliced<u64>, Stop> {
        let Some(snapshot) = &self.snapshot else { return Err(Stop::Abort("it never began")) };
        let rows = rows_max.min(ROWS_MAX);
        let Self { cursor, number, .. } = self;
        let (store, handles) = (&executor.store, &executor.handles);
        match handles.read_slice(store, snapshot, self.table, cursor, rows, number)? {
            Slice::More => {}
            Slice::Done => (self.table, self.cursor) = (self.table + 1, SnapshotCursor::default()),
        }
        match self.table == store.schema().tables.len() {
            true => Ok(Sliced::Done(self.number)),
            false => Ok(Sliced::More { rows }),
        }
    }

    fn end(&mut self, executor: &mut SimExecutor<R>) {
        if let Some(snapshot) = self.snapshot.take() {
            executor.store.close_snapshot(snapshot);
            executor.reads -= 1;
        }
    }

    fn give_back(&mut self, executor: &mut SimExecutor<R>) -> bool {
        executor.store.give_back_closed()
    }
}
