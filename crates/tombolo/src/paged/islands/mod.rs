//! `PagedIslands`: a database of several paged databases, each with pages, a pool, a log and checkpoints of its own
//! (ISL-1, ISL-2).
//!
//! | file | holds |
//! |---|---|
//! | `builder.rs` | opening and making the islands of a directory |
//! | `resolve.rs` | after a crash: what was prepared is decided |
//! | `crew.rs` | the sessions of a transaction over several islands |
//! | `transaction.rs` | such a transaction, as its closure sees it |
//! | `commit.rs` | how it commits: on all islands or on none |
//! | `repartition.rs` | another number of islands for a directory |
//! | `backup.rs` | copies of all islands as of one moment |
//! | `process/` | islands that are processes |
//!
//! A transaction of one island is one of a [`PagedDatabase`], and knows nothing of the others. Keys are spread as
//! those of islands of memory stores are (`crate::islands::key`). Not here: what a prepared transaction is (storage
//! `paged/store/prepared.rs`), rows of decisions (engine `islands/decided.rs`).

use std::fmt;
use std::sync::Arc;

use tombolo_engine::islands::decided::Decided;
use tombolo_engine::islands::membership::Spread;
use tombolo_engine::threads::on_each;
use tombolo_storage::paged::store::{Isolation, Restart};
use tombolo_storage::row::RowId;
use tombolo_storage::schema::{DeclaredIndex, DeclaredTable, Schema};
use tombolo_storage::store::{Index, Table};
use tombolo_storage::sync::{AtomicU64, Mutex};

use super::database::{How, PagedDatabase, PagedStatistics};
use super::lender::{Lender, Lent};
use super::load::load;
use super::sessions::Session;
use super::tx::PagedTx;
use crate::batches::{in_batches, row_bytes};
use crate::calls::on_database_thread;
use crate::error::{Error, Stop};
use crate::islands::IslandKey;
use crate::islands::key::Router;
use crate::load::LoadError;
use crate::tx::DynamicTable;
use crate::tx::derived::TableRow;

mod backup;
mod builder;
mod commit;
mod crew;
mod process;
mod repartition;
mod resolve;
mod transaction;

#[cfg(test)]
mod tests;

pub use builder::PagedIslandsBuilder;
pub use process::{PagedBindings, PagedIslandProcesses, PagedProcessesBuilder, PagedSteps};
pub use transaction::PagedIslandsTx;

use crew::{Crew, Member};

/// A database of several islands, each a [`PagedDatabase`]: transactions on different islands share no page, no lock
/// and no log. A transaction names its island by a key ([`PagedIslands::at`]), and sees the rows that are there; a
/// program puts rows where their keys are. [`PagedIslands::transaction`] is one over several islands, which commits on
/// all of them or on none, also through crashes. See [`PagedBuilder::islands`](crate::PagedBuilder::islands).
///
/// ```
/// use tombolo::{Database, PagedTx, Stop, Table};
///
/// #[derive(Table)]
/// struct Account {
///     #[key]
///     id: u64,
///     cents: i64,
/// }
/// # let place = tempfile::tempdir().unwrap();
/// # let directory = place.path().join("bank");
/// let db = Database::builder().define::<Account>().paged().pool_bytes(16 << 20).islands(2).open(&directory)?;
/// let by_id = db.index::<AccountKey>()?;
/// let add = |tx: &mut PagedTx<'_>, id: u64, cents: i64| -> Result<i64, Stop> {
///     let row = tx.lookup_for_update(&by_id, id)?;
///     let before = row.map(|_| tx.find_row(&by_id, id)).transpose()?.flatten();
///     let cents = before.map_or(0, |(_, account)| account.cents) + cents;
///     tx.upsert_row(&by_id, &Account { id, cents })?;
///     if cents < 0 { Err(Stop::Abort("not enough money")) } else { Ok(cents) }
/// };
/// // On one island.
/// assert_eq!(db.at(&1u64)?.transaction(|tx| add(tx, 1, 100))?, 100);
/// // On two: both, or none.
/// let transfer = |cents: i64| {
///     db.transaction(|tx| {
///         let left = tx.at(&1u64, |tx| add(tx, 1, -cents))?;
///         tx.at(&2u64, |tx| add(tx, 2, cents))?;
///         Ok(left)
///     })
/// };
/// assert_eq!(transfer(30)?, 70);
/// assert_eq!(transfer(80), Err(tombolo::Error::Aborted("not enough money")));
/// db.close()?;
/// # Ok::<(), tombolo::Error>(())
/// ```
///
/// What [`Islands`](crate::Islands) has and this has not: declared parts
/// ([`Islands::across`](crate::Islands::across); a closure of [`PagedIslands::transaction`] serves instead), ordered
/// execution, placement.
pub struct PagedIslands {
    pub(super) islands: Vec<PagedDatabase>,
    router: Router,
    /// How tables are spread, as recorded and declared.
    spreads: Vec<Spread>,
    /// Those of transactions over several islands.
    crews: Lender<Crew>,
    decided: Decided,
    /// Of each island: rows of decisions that no crew has, all of whose participants have ended.
    spare: Vec<Mutex<Vec<RowId>>>,
    /// Of each island: which opening of it this is.
    openings: Vec<u32>,
    /// How many transactions of several islands wrote on more than one.
    numbers: AtomicU64,
    /// Intervals for which a lock is waited for by default.
    lock_waits: u32,
}

impl PagedIslands {
    /// How many islands there are.
    pub const fn islands(&self) -> usize {
        self.islands.len()
    }

    /// The number of the island, from 0, on which a key is.
    ///
    /// # Errors
    /// [`Error::Schema`] when keys are spread by ranges of numbers, and this is none.
    #[inline]
    pub fn island_of(&self, key: &(impl IslandKey + ?Sized)) -> Result<usize, Error> {
        self.router.island_of(key)
    }

    /// The island of a key, for transactions that run there alone. They cost what those of a database without islands
    /// do.
    ///
    /// # Errors
    /// As [`PagedIslands::island_of`].
    #[inline]
    pub fn at(&self, key: &(impl IslandKey + ?Sized)) -> Result<&PagedDatabase, Error> {
        self.island_of(key).map(|island| &self.islands[island])
    }

    /// Runs a closure as one transaction over the islands of the keys that it names, on this thread; all that it
    /// changed commits, or nothing. Blocks until it is durable. As [`PagedDatabase::transaction`], it may run more than
    /// once: a transaction that waited in a circle with others, of one island or of several, gives way to them.
    ///
    /// Where it wrote on one island it costs one flush; on several, their votes and then the decision are flushed one
    /// after the other.
    ///
    /// # Errors
    /// As [`PagedDatabase::transaction`]. [`Error::IslandStopped`]: nothing was changed. [`Error::Unknown`]: the island
    /// that decides stopped meanwhile. What the others prepared is held until the database is opened again, which
    /// decides it.
    pub fn transaction<A>(
        &self,
        closure: impl Fn(&mut PagedIslandsTx<'_>) -> Result<A, Stop>,
    ) -> Result<A, Error> {
        self.transaction_at(self.islands[0].isolation, closure)
    }

    /// The same with this isolation on each island.
    ///
    /// # Errors
    /// As [`PagedIslands::transaction`].
    pub fn transaction_at<A>(
        &self,
        isolation: Isolation,
        closure: impl Fn(&mut PagedIslandsTx<'_>) -> Result<A, Stop>,
    ) -> Result<A, Error> {
        self.run_again(How::writing(isolation), closure)
    }

    /// The same for a closure that only reads; writes are refused ([`Error::LogTooLong`]). Nothing is prepared.
    ///
    /// # Errors
    /// As [`PagedIslands::transaction`].
    pub fn read<A>(
        &self,
        closure: impl Fn(&mut PagedIslandsTx<'_>) -> Result<A, Stop>,
    ) -> Result<A, Error> {
        self.run_again(How::reading(self.islands[0].isolation), closure)
    }

    /// Inserts a row for each value, with its index entries, on the island of its key, which `key` names; returns their
    /// number. As [`PagedDatabase::load`], by all islands at the same time. Rows of a table on each island
    /// ([`PagedIslandsBuilder::everywhere`]) are inserted on all of them, in transactions over all, whatever `key`
    /// says. When this returns, all rows that it counts are durable.
    ///
    /// ```
    /// # use tombolo::{Database, Error, Table};
    /// # #[derive(Table)]
    /// # struct Word { #[key] number: u32, text: String }
    /// # let place = tempfile::tempdir().unwrap();
    /// # let builder = Database::builder().define::<Word>().paged().pool_bytes(8 << 20);
    /// let db = builder.islands(2).open(place.path())?;
    /// let words = db.table::<Word>()?;
    /// let rows = (0..10_000).map(|number| Word { number, text: format!("word {number}") });
    /// assert_eq!(db.load(&words, rows, |row| row.number)?, 10_000);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// The error of a refused batch, of which no row is loaded, or of a key that is on no island. Rows before it are
    /// loaded; of other islands some behind it may be. [`Error::Unknown`] if a log failed.
    pub fn load<R, K>(
        &self,
        table: &Table<R>,
        rows: impl IntoIterator<Item = R>,
        key: impl Fn(&R) -> K,
    ) -> Result<u64, LoadError>
    where
        R: TableRow + Send,
        K: IslandKey,
    {
        if self.spreads.iter().any(|spread| spread.table == R::NAME && spread.column.is_none()) {
            return self.load_everywhere(table, rows);
        }
        let insert = |tx: &mut PagedTx<'_>, row: &R| tx.insert_row(table, row).map(drop);
        load(&self.islands, insert, |batches| {
            rows.into_iter().try_for_each(|row| {
                let island = self.island_of(&key(&row)).map_err(|error| batches.end(error))?;
                let bytes = row_bytes(&row);
                batches.add(island, row, bytes)
            })
        })
    }

    /// Inserts rows on each island, each batch in one transaction.
    fn load_everywhere<R: TableRow>(
        &self,
        table: &Table<R>,
        rows: impl IntoIterator<Item = R>,
    ) -> Result<u64, LoadError> {
        in_batches(rows, |batch| {
            let insert = |tx: &mut PagedTx<'_>| {
                batch.iter().try_for_each(|row| tx.insert_row(table, row).map(drop))
            };
            self.transaction(|tx| tx.everywhere(insert).map(drop))
        })
    }

    /// Sessions on all islands that no other transaction has.
    fn crew(&self) -> Result<Lent<'_, Crew>, Error> {
        if on_database_thread() {
            return Err(Error::Nested);
        }
        self.crews.lend(|| {
            let open = |island: &PagedDatabase| {
                island.sessions.open().map(|store| Member::new(Session::new(store)))
            };
            self.islands.iter().map(open).collect::<Result<Vec<_>, _>>().map(Crew::new)
        })
    }

    /// The tables and indexes, which are the same on each island.
    pub fn schema(&self) -> Arc<Schema> {
        self.islands[0].schema()
    }

    /// The handle of a table, for all islands.
    ///
    /// # Errors
    /// As [`PagedDatabase::table`].
    pub fn table<R: DeclaredTable>(&self) -> Result<Table<R>, Error> {
        self.islands[0].table()
    }

    /// The handle of an index, for all islands.
    ///
    /// # Errors
    /// As [`PagedDatabase::index`].
    pub fn index<I: DeclaredIndex>(&self) -> Result<Index<I>, Error> {
        self.islands[0].index()
    }

    /// The handle of a table known at run time, for all islands.
    ///
    /// # Errors
    /// As [`PagedDatabase::dynamic_table`].
    pub fn dynamic_table(&self, name: &str) -> Result<DynamicTable, Error> {
        self.islands[0].dynamic_table(name)
    }

    /// The counters of each island. A transaction over several counts on the island that it reached first.
    pub fn statistics(&self) -> Vec<PagedStatistics> {
        self.islands.iter().map(PagedDatabase::statistics).collect()
    }

    /// What the restart of each island did; see [`PagedDatabase::restart`].
    pub fn restarts(&self) -> Vec<Option<Restart>> {
        self.islands.iter().map(PagedDatabase::restart).collect()
    }

    /// Makes a checkpoint of each island; see [`PagedDatabase::checkpoint`].
    ///
    /// # Errors
    /// As there, of the first island that has one.
    pub fn checkpoint(&self) -> Result<(), Error> {
        self.islands.iter().try_for_each(PagedDatabase::checkpoint)
    }

    /// Deletes the rows of decisions, which all participants know.
    fn forget_decisions(&self) -> Result<(), Error> {
        for (island, rows) in self.islands.iter().zip(&self.spare) {
            let mut session = island.take()?;
            let rows = std::mem::take(&mut *rows.lock());
            self.decided.forget(&mut session.store, &rows).map_err(Error::Refused)?;
        }
        Ok(())
    }

    /// Closes the islands; see [`PagedDatabase::close`].
    ///
    /// # Errors
    /// As there, of the first island that has one: nothing is lost, and the next opening restarts it.
    pub fn close(mut self) -> Result<(), Error> {
        self.end()
    }

    fn end(&mut self) -> Result<(), Error> {
        if on_database_thread() {
            return Err(Error::Nested);
        }
        // They have sessions of each island.
        self.crews.close();
        let closed = on_each(self.islands.drain(..), PagedDatabase::close);
        closed.into_iter().collect()
    }
}

impl Drop for PagedIslands {
    fn drop(&mut self) {
        // For errors of closing there is `close`.
        let _ = self.end();
    }
}

impl fmt::Debug for PagedIslands {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PagedIslands").field("islands", &self.islands).finish_non_exhaustive()
    }
}

const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<PagedIslands>();
};
