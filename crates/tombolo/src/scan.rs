//! Scans of a table as of one moment, while transactions run.
//!
//! A scan is long work of the pipeline: between two batches it visits a few rows of a snapshot that was
//! opened when it began. Not here: snapshots (storage `memory/snapshot`), the schedule and size of
//! slices (the engine's `pipeline/stages/long.rs`).

use tombolo_engine::pipeline::{self, LongWork, Sliced};
use tombolo_engine::transaction::Stop;
use tombolo_storage::memory::{Snapshot, SnapshotCursor, snapshot::Slice};
use tombolo_storage::schema::DeclaredTable;
use tombolo_storage::store::Table;

use crate::calls::{Envelope, Finished, Pending, Runner};
use crate::database::Database;
use crate::error::Error;
use crate::tx::{Of, RowRef};

impl Database {
    /// Visits all rows of a table as of one moment, while transactions continue. The answer is `start` after
    /// `visit` has updated it for every row. Rows are visited a few at a time between transactions, which are
    /// delayed by a fraction of the setting `slice_us_max` and change rows as usual; the before-image of a row
    /// that changes meanwhile is kept until the scan has passed it.
    ///
    /// ```
    /// use tombolo::{Database, Table};
    ///
    /// #[derive(Table)]
    /// struct Account {
    ///     #[key]
    ///     id: u32,
    ///     cents: i64,
    /// }
    ///
    /// let db = Database::builder().define::<Account>().in_memory()?;
    /// let accounts = db.table::<Account>()?;
    /// db.load(&accounts, (0..10_000).map(|id| Account { id, cents: 5 }))?;
    /// let sum = db.scan(&accounts, 0, |sum, row| *sum += row.get(Account::CENTS))?;
    /// // Other calls can run meanwhile; the answer can be waited for or awaited.
    /// assert_eq!(sum.wait()?, 50_000);
    /// # Ok::<(), tombolo::Error>(())
    /// ```
    ///
    /// Everything the answer reports is durable. Before-images kept for scans use the database's memory, up to a
    /// bound (`snapshot_bytes_max`, 1 GB): beyond it the oldest scan ends with
    /// [`StoreError::SnapshotEnded`](crate::StoreError).
    ///
    /// # Errors
    /// [`Error::QueueFull`] when 64 scans are under way; an error for a handle of another database or of
    /// a dropped table; [`Error::Nested`], [`Error::Closed`], [`Error::Poisoned`].
    pub fn scan<R, A>(
        &self,
        table: &Table<R>,
        start: A,
        visit: impl FnMut(&mut A, RowRef<'_, R>) + Send + 'static,
    ) -> Result<Pending<A>, Error>
    where
        R: DeclaredTable + Send,
        A: Send + 'static,
    {
        let admitted = self.core().schema.admit(table.database(), Of::Table(table.position()));
        admitted.map_err(Error::Refused)?;
        let (answer, snapshot, cursor) = (Some(start), None, SnapshotCursor::default());
        let scan = Scan { table: *table, answer, visit, snapshot, cursor };
        let ticket = self.core().submit_long(Box::new(scan), pipeline::Durability::Group)?;
        Ok(Pending::new(self.core().clone(), ticket))
    }
}

/// A scan under way.
struct Scan<R: DeclaredTable, A, V> {
    table: Table<R>,
    /// Present until it is returned.
    answer: Option<A>,
    visit: V,
    snapshot: Option<Snapshot>,
    cursor: SnapshotCursor,
}

impl<R, A, V> LongWork<Runner> for Scan<R, A, V>
where
    R: DeclaredTable + Send,
    A: Send + 'static,
    V: FnMut(&mut A, RowRef<'_, R>) + Send,
{
    fn begin(&mut self, runner: &mut Runner) -> Result<(), Stop> {
        // The table may have been dropped while this waited. An open snapshot prevents that from here on.
        let of = Of::Table(self.table.position());
        runner.tables().admit_older(self.table.database(), of)?;
        self.snapshot = Some(runner.store().open_snapshot()?);
        Ok(())
    }

    fn slice(
        &mut self,
        runner: &mut Runner,
        rows_max: usize,
        _: u64,
    ) -> Result<Sliced<Box<dyn Envelope>>, Stop> {
        let Self { table, answer, visit, snapshot, cursor } = self;
        let (Some(snapshot), Some(so_far)) = (&*snapshot, answer.as_mut()) else {
            unreachable!("it has begun and not ended")
        };
        let mut rows = 0;
        let slice = runner.store().read_slice(snapshot, table, cursor, rows_max, |_, row| {
            visit(so_far, RowRef::of(row));
            rows += 1;
        })?;
        Ok(match (slice, answer.take()) {
            (Slice::Done, Some(whole)) => Sliced::Done(Finished::envelope(Ok(whole))),
            (_, so_far) => {
                *answer = so_far;
                Sliced::More { rows }
            }
        })
    }

    fn end(&mut self, runner: &mut Runner) {
        if let Some(snapshot) = self.snapshot.take() {
            runner.store().close_snapshot(snapshot);
        }
    }

    fn give_back(&mut self, runner: &mut Runner) -> bool {
        runner.store().give_back_closed()
    }
}
