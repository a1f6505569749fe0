//! `PagedIslandsBuilder`: opening the islands of a paged database: each is a directory of its own, `island-0` and on.
//!
//! ```text
//!   restart each, concurrently ──► same database, same number of islands, same keys? ──► make those of a new one
//!                                                                                                 │
//!                 start each ◄── decide what is prepared ◄── count the openings, durably ◄────────┘
//! ```
//!
//! Of a new database, island 0 is made last: so if it is there, an island that is missing was lost. Not here: opening
//! one store (`paged/builder.rs`), what is in doubt (`resolve.rs`).

use std::path::Path;

use tombolo_engine::islands::commit::IslandId;
use tombolo_engine::islands::decided::{Decided, decided_table};
use tombolo_engine::islands::membership::{
    Membership, Spread, count_opening, found, membership, membership_tables,
};
use tombolo_engine::rng::entropy;
use tombolo_engine::threads::on_each;
use tombolo_storage::disk::{Disk as _, OsDisk};
use tombolo_storage::error::Error as StoreError;
use tombolo_storage::paged::pool::PAGES_FILE;
use tombolo_storage::row::Column;
use tombolo_storage::schema::{DeclaredTable, TableDef};
use tombolo_storage::store::Store as _;
use tombolo_storage::sync::{AtomicU64, Mutex};
use tombolo_storage::value_log::refuse_copy;

use super::super::PagedDatabase;
use super::super::builder::{POOL_BYTES_MIN, PagedBuilder, define, refuse_other_store};
use super::super::lender::Lender;
use super::super::sessions::Store;
use super::PagedIslands;
use super::resolve::resolve;
use crate::error::Error;
use crate::islands::identity::Asked;
use crate::islands::key::{Keys, Router};
use crate::islands::spread::{spread, spread_own};
use crate::open::refuse_exchanged;
use crate::tx::next_number;

/// How long a transaction sleeps at a stretch that waits for a lock, in milliseconds.
pub(super) const WAIT_INTERVAL_MS: u32 = 10;

/// The islands of a paged database to be opened; see [`PagedBuilder::islands`].
#[derive(Clone, Debug)]
#[must_use = "there is no database before `open` is called"]
pub struct PagedIslandsBuilder {
    pub(super) paged: PagedBuilder,
    pub(super) islands: usize,
    pub(super) keys: Keys,
    /// How the program declares tables to be spread.
    pub(super) spreads: Vec<Spread>,
}

impl PagedBuilder {
    /// Several islands, each a paged database of its own, over which rows are spread by key. What is set before is for
    /// each of them, but `pool_bytes`, which they share. See [`PagedIslands`].
    pub const fn islands(self, islands: usize) -> PagedIslandsBuilder {
        PagedIslandsBuilder { paged: self, islands, keys: Keys::Hash, spreads: Vec::new() }
    }
}

pub(super) fn damaged(error: StoreError) -> Error {
    match error {
        StoreError::UnfitChanges => Error::Damaged(
            "what the island knows of the database's transactions is not this version's: restore a copy".to_owned(),
        ),
        error => Error::Refused(error),
    }
}

impl PagedIslandsBuilder {
    /// Spreads keys by ranges instead of by their hash; see
    /// [`IslandsBuilder::ranges`](crate::IslandsBuilder::ranges).
    pub fn ranges(mut self, bounds: impl IntoIterator<Item = i64>) -> Self {
        self.keys = Keys::Ranges(bounds.into_iter().collect());
        self
    }

    /// Spreads the rows of a table by one of its columns, as
    /// [`IslandsBuilder::spread_by`](crate::IslandsBuilder::spread_by) does: a transaction that would leave a row on
    /// another island than that of the key in its column is refused. The directory keeps that.
    ///
    /// ```
    /// # use tombolo::{Database, Table};
    /// # #[derive(Table)]
    /// # struct Account { #[key] id: u64, cents: i64 }
    /// # let place = tempfile::tempdir().unwrap();
    /// let builder = Database::builder().define::<Account>().paged().pool_bytes(8 << 20);
    /// let db = builder.islands(2).ranges([100]).spread_by(Account::ID).open(place.path())?;
    /// let accounts = db.table::<Account>()?;
    /// let insert = |at: u64, id: u64| {
    ///     db.at(&at)?.transaction(|tx| tx.insert_row(&accounts, &Account { id, cents: 0 }).map(drop))
    /// };
    /// insert(7, 7)?;
    /// let refused = insert(7, 100).unwrap_err();
    /// assert!(refused.to_string().contains("account.id of a row is a key of another island"));
    /// # Ok::<(), tombolo::Error>(())
    /// ```
    pub fn spread_by<R: DeclaredTable, T>(self, column: Column<R, T>) -> Self {
        let column = R::COLUMNS[column.position()].name.to_string();
        self.spread(R::NAME, Some(column))
    }

    /// Each island has all rows of a table: one that all read and few transactions change, through
    /// [`PagedIslandsTx::everywhere`](crate::PagedIslandsTx::everywhere). `tombolo check` compares the islands' rows.
    pub fn everywhere<R: DeclaredTable>(self) -> Self {
        self.spread(R::NAME, None)
    }

    fn spread(mut self, table: &str, column: Option<String>) -> Self {
        self.spreads.push(Spread { table: table.to_owned(), column });
        self
    }

    /// Opens the database in `directory`, which has a directory for each island. Creates it if it does not exist;
    /// otherwise restarts the islands, concurrently, and decides what was prepared on several of them.
    ///
    /// # Errors
    /// As [`PagedBuilder::open`]; [`Error::Directory`] when the directory holds another number of islands, another way
    /// to spread keys, a database without islands, islands of memory stores, or when an island is missing.
    pub fn open(mut self, directory: impl AsRef<Path>) -> Result<PagedIslands, Error> {
        let directory = directory.as_ref();
        self.keys.verify(self.islands)?;
        let tables = self.divide()?;
        self.refuse_others(directory)?;
        let mut stores = self.open_all(directory, &tables)?;
        let schema = stores[0].schema();
        if let Some(other) = stores.iter().position(|store| store.schema() != schema) {
            return Err(Error::Schema(format!(
                "the tables of island 0 and island {other} differ: open the database with the \
                 tables with which it was opened last"
            )));
        }
        let decided = Decided::of(schema).map_err(damaged)?;
        let spreads =
            spread(&mut stores.iter_mut().collect::<Vec<_>>(), &self.keys, &self.spreads)?;
        let openings = on_each(&mut stores, |store| count_opening(store).map_err(damaged));
        let openings = openings.into_iter().collect::<Result<Vec<_>, _>>()?;
        let rows = resolve(&mut stores, decided)?;
        let handles = next_number();
        let started = stores.into_iter().map(|store| self.paged.start(store, handles));
        let opened = PagedIslands {
            islands: started.collect::<Result<_, _>>()?,
            router: Router { keys: self.keys, islands: self.islands },
            spreads,
            crews: Lender::new(self.paged.crews_max),
            decided,
            spare: rows.into_iter().map(Mutex::new).collect(),
            openings,
            numbers: AtomicU64::new(1),
            lock_waits: self.paged.settings.locks.wait_intervals_max,
        };
        // A small pool has frames for few sessions: each kind of transaction has one before the other has the rest.
        opened.islands.iter().try_for_each(|island| island.sessions.take().map(drop))?;
        opened.crew().map(drop)?;
        Ok(opened)
    }

    /// Opens one island of the database in `directory`, whose others other processes open: what is prepared on it stays
    /// so.
    pub(super) fn open_one(
        mut self,
        directory: &Path,
        island: usize,
    ) -> Result<PagedDatabase, Error> {
        self.divide()?;
        let asked = self.asked(directory);
        let place = asked.place(island);
        let missing = || Error::Directory(format!("{} is no island", place.display()));
        if !place.join(PAGES_FILE).is_file() {
            return Err(missing());
        }
        let mut store = self.paged.open_store(&place)?;
        let (own, _) = membership(&mut store).map_err(damaged)?.ok_or_else(missing)?;
        asked.compare(&own, island)?;
        asked.compare_keys(&own, island, &self.keys)?;
        spread_own(&mut store, &self.keys, &self.spreads, (own.island, self.islands))?;
        self.paged.start(store, next_number())
    }

    /// Makes the settings those of one island; the tables.
    pub(super) fn divide(&mut self) -> Result<Vec<TableDef>, Error> {
        let PagedBuilder { settings, sessions_max, crews_max, .. } = &mut self.paged;
        if settings.pool_bytes < self.islands * POOL_BYTES_MIN {
            return Err(Error::Setting("pool_bytes: each island has at least 1 MB".to_owned()));
        }
        settings.pool_bytes /= self.islands;
        // As many transactions over several islands as calls of one at a time, and each of them may be prepared.
        *crews_max = *sessions_max;
        settings.prepared_max = settings.prepared_max.max(*crews_max as u32);
        let locks = &mut settings.locks;
        let finer = (locks.wait_interval_ms / WAIT_INTERVAL_MS).max(1);
        locks.wait_interval_ms = WAIT_INTERVAL_MS;
        locks.wait_intervals_max = locks.wait_intervals_max.saturating_mul(finer);
        let own = membership_tables().into_iter().chain([decided_table()]);
        Ok(self.paged.refuse_unknown()?.into_iter().chain(own).collect())
    }

    pub(super) const fn asked<'a>(&self, directory: &'a Path) -> Asked<'a> {
        Asked { directory, islands: self.islands }
    }

    /// Refuses a directory of another kind.
    fn refuse_others(&self, directory: &Path) -> Result<(), Error> {
        refuse_exchanged(directory)?;
        if directory.is_dir() {
            let disk = OsDisk::open(directory)?;
            refuse_copy(&disk).map_err(|failure| Error::log(&failure))?;
            if disk.list()?.iter().any(|name| name == PAGES_FILE) {
                return Err(Error::Directory(format!(
                    "{} holds a paged database without islands: open it without islands()",
                    directory.display()
                )));
            }
            refuse_other_store(directory, &disk)?;
        }
        self.asked(directory).refuse_more()
    }

    /// Opens all islands, with their tables; makes those of a new database.
    fn open_all(&self, directory: &Path, tables: &[TableDef]) -> Result<Vec<Store>, Error> {
        let asked = self.asked(directory);
        let is_there = |island: &usize| asked.place(*island).join(PAGES_FILE).is_file();
        let there = (0..self.islands).filter(is_there);
        let opened = on_each(there, |island| {
            let mut store = self.paged.open_store(&asked.place(island))?;
            let own = membership(&mut store).map_err(damaged)?;
            if let Some((own, _)) = &own {
                asked.compare(own, island)?;
                asked.compare_keys(own, island, &self.keys)?;
            }
            Ok::<_, Error>((store, (island, own.map(|(own, opening)| (own.database, opening)))))
        });
        let opened = opened.into_iter().collect::<Result<Vec<_>, _>>()?;
        let (opened, known): (Vec<_>, Vec<_>) = opened.into_iter().unzip();
        let new = u128::from(entropy()) << u64::BITS | u128::from(entropy());
        let database = asked.database_of(&known)?.unwrap_or(new);
        let mut stores: Vec<Option<Store>> = (0..self.islands).map(|_| None).collect();
        for (store, (island, _)) in opened.into_iter().zip(&known) {
            stores[*island] = Some(store);
        }
        for island in (0..self.islands).rev() {
            let store = match stores[island].take() {
                Some(store) => store,
                None => self.paged.open_store(&asked.place(island))?,
            };
            stores[island] = Some(self.found(store, tables, database, island)?);
        }
        Ok(stores.into_iter().flatten().collect())
    }

    /// Makes the tables that a store lacks, and makes it an island, durably, unless it is one.
    fn found(
        &self,
        mut store: Store,
        tables: &[TableDef],
        database: u128,
        island: usize,
    ) -> Result<Store, Error> {
        define(&mut store, tables)?;
        if membership(&mut store).map_err(damaged)?.is_none() {
            let (island, islands) = (IslandId(island as u16), self.islands as u16);
            let keys = self.keys.to_string();
            let own = Membership { database, island, islands, keys };
            found(&mut store, &own).map_err(damaged)?;
        }
        Ok(store)
    }
}
