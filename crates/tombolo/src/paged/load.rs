//! Loading many rows into a paged database, or into its islands.
//!
//! ```text
//!   caller's thread: next row ──► batch of its island ──┬─► thread of island 0: a transaction for each batch, in order
//!                                                       └─► thread of island 1 …
//! ```
//!
//! Commits of batches do not wait for the log; once all have run, each island's thread waits for it, and then the rows
//! are durable. Not here: batches (`crate::batches`).
//!
//! One thread inserts into an island: with several, rows behind a refused one would be there, or their transactions
//! would have to commit in order, and a circle of waits for locks and for turns would be one that no lock table sees.

use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

use tombolo_engine::threads::{both, on_each};
use tombolo_storage::store::Table;
use tombolo_storage::sync::{AtomicBool, Ordering};

use super::database::{How, PagedDatabase};
use super::tx::PagedTx;
use crate::batches::{AFTER_ANOTHER, Batch, Batches, Inserter, UNDER_WAY_MAX, row_bytes};
use crate::calls::on_database_thread;
use crate::error::{Error, Stop};
use crate::load::LoadError;
use crate::tx::derived::TableRow;

/// Sends batches to the threads of islands.
pub(super) struct Sent<'l, T> {
    islands: Vec<Island<T>>,
    has_failed: &'l AtomicBool,
}

/// Where the batches of one island go, and where the numbers of their rows come from.
type Island<T> = (SyncSender<Batch<T>>, Receiver<Result<u64, Error>>);

impl<T> Inserter<T> for Sent<'_, T> {
    /// The island.
    type UnderWay = usize;

    fn submit(&mut self, island: usize, batch: Batch<T>) -> Result<usize, Error> {
        // Its thread has ended only for an error of its own, which is the load's.
        self.islands[island].0.send(batch).map(|()| island).map_err(|_| Error::Closed)
    }

    fn wait(&mut self, island: usize) -> Result<u64, Error> {
        self.islands[island].1.recv().unwrap_or(Err(Error::Closed))
    }

    fn stop(&self) {
        // Relaxed: a batch more or less that runs does no harm, what ran is counted.
        self.has_failed.store(true, Ordering::Relaxed);
    }
}

/// Batches on their way into paged databases.
pub(super) type PagedBatches<'l, T> = Batches<T, Sent<'l, T>>;

/// The batches of one island, and where the numbers of their rows go.
type Work<T> = (Receiver<Batch<T>>, Sender<Result<u64, Error>>);

/// Inserts what `produce` adds for these islands, by `insert`; returns the number of rows.
///
/// # Errors
/// That of a refused batch.
pub(super) fn load<T: Send>(
    islands: &[PagedDatabase],
    insert: impl Fn(&mut PagedTx<'_>, &T) -> Result<(), Stop> + Sync,
    produce: impl FnOnce(&mut PagedBatches<'_, T>) -> Result<(), LoadError>,
) -> Result<u64, LoadError> {
    if on_database_thread() {
        return Err(LoadError { loaded: 0, error: Error::Nested });
    }
    let has_failed = AtomicBool::new(false);
    let (mut sent, mut work) = (Vec::new(), Vec::new());
    for island in islands {
        let (send, batches) = sync_channel(UNDER_WAY_MAX);
        let (ended, ends) = channel();
        sent.push((send, ends));
        work.push((island, (batches, ended)));
    }
    let (durable, loaded) = both(
        || on_each(work, |(island, work)| island.insert_batches(work, &insert, &has_failed)),
        || {
            let sent = Sent { islands: sent, has_failed: &has_failed };
            let mut batches = Batches::by(sent, islands.len());
            produce(&mut batches)?;
            batches.finish(|_| ())
        },
    );
    let durable: Result<(), Error> = durable.into_iter().collect();
    // What was counted may be gone after a crash.
    durable.map_err(|error| LoadError { loaded: 0, error }).and(loaded)
}

impl PagedDatabase {
    /// Inserts a row for each value, with its index entries; returns their number. As
    /// [`Database::load`](crate::Database::load): in transactions of some hundred rows each, between which others run.
    /// When this returns, all rows that it counts are durable.
    ///
    /// ```
    /// # use tombolo::{Database, Table};
    /// # #[derive(Table)]
    /// # struct Word { #[key] number: u32, text: String }
    /// # let place = tempfile::tempdir().unwrap();
    /// let db = Database::builder().define::<Word>().paged().pool_bytes(8 << 20).open(place.path())?;
    /// let words = db.table::<Word>()?;
    /// let rows = (0..10_000).map(|number| Word { number, text: format!("word {number}") });
    /// assert_eq!(db.load(&words, rows)?, 10_000);
    /// // A row that exists already ends the load; the error has the number of rows before it.
    /// let again = db.load(&words, [Word { number: 7, text: String::new() }]).unwrap_err();
    /// assert_eq!(again.loaded, 0);
    /// # Ok::<(), tombolo::Error>(())
    /// ```
    ///
    /// # Errors
    /// The error of a refused batch. The rows before it are loaded. [`Error::Unknown`] if the log failed.
    pub fn load<R>(
        &self,
        table: &Table<R>,
        rows: impl IntoIterator<Item = R>,
    ) -> Result<u64, LoadError>
    where
        R: TableRow + Send,
    {
        let insert = |tx: &mut PagedTx<'_>, row: &R| tx.insert_row(table, row).map(drop);
        load(std::slice::from_ref(self), insert, |batches| {
            rows.into_iter().try_for_each(|row| {
                let bytes = row_bytes(&row);
                batches.add(0, row, bytes)
            })
        })
    }

    /// Inserts batches until there is none any more; then all that it inserted is durable.
    fn insert_batches<T>(
        &self,
        (batches, ended): Work<T>,
        insert: &impl Fn(&mut PagedTx<'_>, &T) -> Result<(), Stop>,
        has_failed: &AtomicBool,
    ) -> Result<(), Error> {
        let mut session = self.take()?;
        let how = How { hardens: false, ..How::writing(self.isolation) };
        for Batch { rows, .. } in batches {
            let inserted = match has_failed.load(Ordering::Relaxed) {
                true => Err(Error::Aborted(AFTER_ANOTHER)),
                false => self.run_again_in(&mut session, how, |tx| {
                    rows.iter().try_for_each(|row| insert(tx, row)).map(|()| rows.len() as u64)
                }),
            };
            let inserted = inserted.map(|(rows, _)| rows);
            if inserted.is_err() {
                has_failed.store(true, Ordering::Relaxed);
            }
            if ended.send(inserted).is_err() {
                break; // the caller panicked
            }
        }
        let durable = session.store.harden_own();
        durable.map_err(|error| Error::Unknown(error.to_string().into()))
    }
}
