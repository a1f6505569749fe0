//! `PagedBuilder`: what is set before a paged database is opened, and opening one.
//!
//! ```text
//!   directory ──► pages there? ── no ──► nothing else there? ──► make it
//!                      │ yes                                        │
//!                open, restart ──► tables as defined? ──────────────┴─► missing tables, durable
//! ```
//!
//! Not here: what a restart does (storage `paged/store/restart/`). Invariant: a directory that is refused because of
//! its definitions keeps the same rows.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tombolo_engine::clock::{Clock as _, SystemClock};
use tombolo_engine::recovery::Progress;
use tombolo_engine::rng::entropy;
use tombolo_engine::settings::Source;
use tombolo_storage::disk::Disk;
use tombolo_storage::log;
use tombolo_storage::paged::pool::PAGES_FILE;
use tombolo_storage::paged::store::{Isolation, OpenError, PagedSettings};
use tombolo_storage::schema::TableDef;
use tombolo_storage::store::Store as _;
use tombolo_storage::value_log;

use super::database::PagedDatabase;
use super::sessions::Store;
use super::tx::PagedTables;
use crate::builder::Builder;
use crate::calls::Durability;
use crate::definition::difference;
use crate::error::Error;
use crate::open::{OnOpening, make_directory, refuse_island, refuse_islands, refuse_strangers};
use crate::tx::next_number;

/// The pool is at least this large: a session needs some pages at a time.
pub(super) const POOL_BYTES_MIN: usize = 1 << 20;
/// Calls that run at a time, unless the program says how many.
const SESSIONS: usize = 64;

/// What is set before a [`PagedDatabase`] is opened; see [`Builder::paged`].
#[derive(Clone, Debug)]
#[must_use = "there is no database before `open` is called"]
pub struct PagedBuilder {
    builder: Builder,
    pub(super) settings: PagedSettings,
    pub(super) sessions_max: usize,
    /// Transactions over several islands at a time; none in a database without islands.
    pub(super) crews_max: usize,
}

impl Builder {
    /// Keeps the rows in pages on disk, behind a pool of pages in memory: a database that may be larger than memory, on
    /// which the transactions of several threads run at the same time. See [`PagedDatabase`], also for what it lacks.
    ///
    /// ```
    /// use tombolo::{Database, Isolation, Table};
    ///
    /// #[derive(Table)]
    /// struct Event {
    ///     #[key]
    ///     id: u64,
    ///     what: String,
    /// }
    /// # let place = tempfile::tempdir().unwrap();
    /// # let directory = place.path().join("events");
    /// let db = Database::builder()
    ///     .define::<Event>()
    ///     .paged()
    ///     .pool_bytes(64 << 20)
    ///     .isolation(Isolation::ReadCommitted)
    ///     .open(&directory)?;
    /// db.close()?;
    /// # Ok::<(), tombolo::Error>(())
    /// ```
    pub fn paged(self) -> PagedBuilder {
        let settings = PagedSettings::default();
        PagedBuilder { builder: self, settings, sessions_max: SESSIONS, crews_max: 0 }
    }
}

impl PagedBuilder {
    /// Memory for pages: 256 MB by default, and at least 1 MB.
    pub const fn pool_bytes(mut self, bytes: usize) -> Self {
        self.settings.pool_bytes = bytes;
        self
    }

    /// What transactions are promised about each other, unless a call says it
    /// ([`PagedDatabase::transaction_at`]): serializable by default.
    pub const fn isolation(mut self, isolation: Isolation) -> Self {
        self.settings.isolation = isolation;
        self
    }

    /// The bytes of the log's files after which a checkpoint is made, with what fills their blocks up: 128 MB by
    /// default. A restart reads about twice as many at most.
    pub const fn checkpoint_log_bytes(mut self, bytes: u64) -> Self {
        self.settings.checkpoint_log_bytes = bytes;
        self
    }

    /// How many calls run at a time: 64 by default. Others wait for one of them to return.
    pub const fn sessions_max(mut self, sessions: usize) -> Self {
        self.sessions_max = sessions;
        self
    }

    /// How long a transaction waits for a lock before it is undone: ten seconds by default. Circles of transactions
    /// that wait for each other are found before.
    pub const fn lock_wait_max(mut self, time: Duration) -> Self {
        let interval_ms = self.settings.locks.wait_interval_ms as u128;
        let intervals = time.as_millis().div_ceil(interval_ms);
        let most = u32::MAX as u128;
        self.settings.locks.wait_intervals_max =
            if intervals < most { intervals as u32 } else { u32::MAX };
        self
    }

    /// How many locks all transactions together hold at most: 65,536 by default. Where there are too many, locks on
    /// pages and tables replace those on rows.
    pub const fn locks_max(mut self, locks: u32) -> Self {
        self.settings.locks.requests_max = locks;
        self
    }

    /// Opens the database in `directory`. Creates directory and database if they do not exist; otherwise restarts
    /// what was not closed, so that all committed transactions are there and nothing of others.
    ///
    /// # Errors
    /// As [`Builder::open`]. [`Error::Setting`] for a setting that the paged store has not, [`Error::Schema`] for a
    /// column or an index that a table of the directory lacks.
    pub fn open(self, directory: impl AsRef<Path>) -> Result<PagedDatabase, Error> {
        let directory = directory.as_ref();
        let tables = self.refuse_unknown()?;
        refuse_islands(directory)?;
        let mut store = self.open_store(directory)?;
        refuse_island(directory, &mut store)?;
        refuse_undecided(&store)?;
        define(&mut store, &tables)?;
        self.start(store, next_number())
    }

    /// Starts a database on a store, whose handles get this number.
    pub(super) fn start(&self, store: Store, handles: u32) -> Result<PagedDatabase, Error> {
        let schema = store.schema().clone().of_database(handles);
        let (isolation, sessions) = (self.settings.isolation, self.sessions_max);
        PagedDatabase::start(store, PagedTables::of(schema), isolation, sessions)
    }

    /// The same with only these tables.
    pub(super) fn with_tables_only(self, tables: Vec<TableDef>) -> Self {
        Self { builder: self.builder.with_tables_only(tables), ..self }
    }

    /// Opens the store of a directory, or makes it, without tables.
    pub(super) fn open_store(&self, directory: &Path) -> Result<Store, Error> {
        let mut settings = self.settings.clone();
        settings.log.salt = entropy();
        settings.log.durability = match self.builder.default_durability() {
            Durability::Group => log::Durability::Group,
            Durability::Sync => log::Durability::Sync,
        };
        // One more makes checkpoints, one asks about the database, and each prepared transaction has one.
        let others = settings.prepared_max as usize + 2 + self.crews_max;
        settings.locks.sessions_max = u32::try_from(self.sessions_max + others).unwrap_or(u32::MAX);
        let disk: Arc<dyn Disk> = Arc::new(make_directory(directory)?);
        value_log::refuse_copy(&*disk).map_err(|failure| Error::log(&failure))?;
        let is_there = disk.list()?.iter().any(|name| name == PAGES_FILE);
        let store = match is_there {
            true => {
                let clock = SystemClock::new();
                let begun_ns = clock.now_ns();
                Store::open_reporting(&disk, &settings, &mut |now| {
                    if let Some(OnOpening(observer)) = self.builder.observer() {
                        let elapsed_ns = clock.now_ns() - begun_ns;
                        observer(Progress::of_restart(now, elapsed_ns).into());
                    }
                })
            }
            false => {
                refuse_other_store(directory, &*disk)?;
                refuse_strangers(directory, &*disk)?;
                Store::create(&disk, &settings)
            }
        };
        store.map_err(|error| Error::paged(&error))
    }

    /// Refuses what the paged store has not; the tables.
    pub(super) fn refuse_unknown(&self) -> Result<Vec<TableDef>, Error> {
        let refuse = |what: &str| Err(Error::Setting(what.to_owned()));
        if self.settings.pool_bytes < POOL_BYTES_MIN {
            return refuse("pool_bytes: a pool has at least 1 MB");
        }
        if self.sessions_max == 0 || self.sessions_max > 32_000 {
            return refuse("sessions_max: 1 to 32,000 calls run at a time");
        }
        self.builder.refuse_for_pages()
    }
}

impl Builder {
    /// Refuses settings of the memory store and its pipeline; the tables.
    fn refuse_for_pages(&self) -> Result<Vec<TableDef>, Error> {
        let set = self.settings_from(Source::Flag);
        let name = self.call_for_memory().or(set.first().copied());
        if let Some(name) = name {
            return Err(Error::Setting(format!(
                "{name} is of the memory store, and a paged database has it not: leave it out, or leave out \
                 `paged()`; what a paged database has is set behind `paged()`"
            )));
        }
        self.own_tables()
    }
}

/// Refuses a directory in which another store's log lies.
pub(super) fn refuse_other_store(directory: &Path, disk: &dyn Disk) -> Result<(), Error> {
    match value_log::holds_log(disk)? {
        false => Ok(()),
        true => Err(Error::Directory(format!(
            "{} holds a log but no pages: it is a database of the memory store, which is opened without \
             `paged()`, or one that was not made to its end, which holds nothing: give another directory",
            directory.display()
        ))),
    }
}

/// Refuses a database that holds what only islands decide.
fn refuse_undecided(store: &Store) -> Result<(), Error> {
    let owners: Vec<_> = store.prepared().iter().map(|prepared| prepared.owner).collect();
    match owners.is_empty() {
        true => Ok(()),
        false => Err(Error::paged(&OpenError::Undecided { owners })),
    }
}

/// Compares the tables with those of the program, and makes those that are missing, durably.
pub(super) fn define(store: &mut Store, tables: &[TableDef]) -> Result<(), Error> {
    let mut missing = Vec::new();
    for table in tables {
        let Some(position) = store.schema().table(&table.name) else {
            missing.push(table);
            continue;
        };
        let stored = &store.schema().tables[position];
        if let Some(difference) = difference(stored, table) {
            return Err(Error::Definition(Box::new(difference)));
        }
        let lacks_index = |name: &str| stored.indexes.iter().all(|index| *index.name != *name);
        let index = table.indexes.iter().map(|index| &*index.name).find(|name| lacks_index(name));
        let column = table.columns.get(stored.columns.len()).map(|column| &*column.name);
        if let Some(what) = index.or(column) {
            return Err(Error::Schema(format!(
                "{}: the directory has no {what}, and a paged database adds neither indexes nor columns to a table \
                 that is there: define another table, and fill it from this one",
                table.name
            )));
        }
    }
    missing.into_iter().try_for_each(|table| Ok(store.create_table(table.clone())?))
}
