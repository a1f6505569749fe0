//! Tables and indexes that are added while the database runs.
//!
//! ```text
//!   create_table ──► one call: made, logged, known                      (between two transactions)
//!   create_index ──► long work: begin, slice, slice, …  ──► one call: logged, known
//!                     what commits meanwhile goes into it
//! ```
//!
//! A change runs on the execution thread like any call, in its place in the order, and its answer
//! waits for the log like any answer. Calls behind it know the table or index. A crash before it is
//! durable leaves nothing of it: an index that is half built is in no log.
//!
//! Not here: how the store keeps an index that procedures do not know (storage `memory/online.rs`),
//! what is added when a directory is opened (`open.rs`). Invariant: an index that was begun is
//! finished or dropped, whatever happens between.

use std::any::Any;
use std::sync::Arc;

use tombolo_engine::pipeline::{LongWork, Sliced};
use tombolo_engine::procedure::Ahead;
use tombolo_engine::transaction::Stop;
use tombolo_storage::error::SchemaError;
use tombolo_storage::memory::MemoryStore;
use tombolo_storage::memory::online::{Built, IndexBuild};
use tombolo_storage::profile::MemoryProfile;
use tombolo_storage::schema::{DeclaredIndex, DeclaredTable, IndexDef, Schema, TableDef};
use tombolo_storage::store::{Index, Store};
use tombolo_storage::sync::Mutex;

use crate::calls::{AnyRunner, CallOptions, Envelope, How, Logged, OWN_PREFIX, Otherwise, Ran};
use crate::calls::{Settled, Volatile};
use crate::database::{Core, Database};
use crate::error::Error;
use crate::tx::Tables;

/// A store whose schema changes; either product's.
pub(crate) trait Evolving {
    fn schema(&self) -> &Schema;
    fn create_table(&mut self, table: TableDef) -> Result<(), SchemaError>;
    fn begin_index(&mut self, table: &str, index: IndexDef) -> Result<IndexBuild, SchemaError>;
    fn build_slice(&mut self, build: &IndexBuild, rows_max: usize) -> Result<Built, SchemaError>;
    fn finish_index(&mut self, build: IndexBuild) -> Result<(), SchemaError>;
    fn drop_index(&mut self, build: IndexBuild);
}

impl<P: MemoryProfile> Evolving for MemoryStore<P> {
    fn schema(&self) -> &Schema {
        Store::schema(self)
    }
    fn create_table(&mut self, table: TableDef) -> Result<(), SchemaError> {
        Store::create_table(self, table)
    }
    fn begin_index(&mut self, table: &str, index: IndexDef) -> Result<IndexBuild, SchemaError> {
        Self::begin_index(self, table, index)
    }
    fn build_slice(&mut self, build: &IndexBuild, rows_max: usize) -> Result<Built, SchemaError> {
        Self::build_slice(self, build, rows_max)
    }
    fn finish_index(&mut self, build: IndexBuild) -> Result<(), SchemaError> {
        Self::finish_index(self, build)
    }
    fn drop_index(&mut self, build: IndexBuild) {
        Self::drop_index(self, build);
    }
}

/// What a change does, between two transactions.
type Change<A> = Box<dyn FnOnce(&mut dyn Evolving) -> Result<A, SchemaError> + Send>;

/// The envelope of a change, or of what long work answers.
struct Changing<A> {
    change: Option<Change<A>>,
    ran: Option<Ran<Result<A, SchemaError>>>,
}

impl<A: Send + 'static> Changing<A> {
    fn envelope(change: Change<A>) -> Box<dyn Envelope> {
        Box::new(Self { change: Some(change), ran: None })
    }

    fn answered(answer: Result<A, SchemaError>) -> Box<dyn Envelope> {
        Box::new(Self { change: None, ran: Some(Ran::Ended(Ok(answer))) })
    }

    fn run(&mut self, store: &mut dyn Evolving, tables: &mut Tables) -> How {
        let Some(change) = self.change.take() else { unreachable!("a change is made once") };
        let changed = change(store);
        tables.follow(store.schema());
        let how = if changed.is_ok() { How::Committed } else { How::Aborted };
        self.ran = Some(Ran::Ended(Ok(changed)));
        how
    }
}

impl<A: Send + 'static> Envelope for Changing<A> {
    fn run_logged(&mut self, store: &mut Logged, tables: &mut Tables) -> How {
        self.run(store, tables)
    }

    fn run_volatile(&mut self, store: &mut Volatile, tables: &mut Tables) -> How {
        self.run(store, tables)
    }

    fn locate_logged(&self, _: &Logged, _: Ahead) {}

    fn locate_volatile(&self, _: &Volatile, _: Ahead) {}

    fn end_otherwise(&mut self, how: Otherwise) {
        self.ran = Some(Ran::Otherwise(how));
    }

    fn name(&self) -> &'static str {
        "a change of the schema"
    }

    fn input(&mut self) -> &mut dyn Any {
        &mut self.change
    }

    fn ran(&mut self) -> &mut dyn Any {
        &mut self.ran
    }

    fn recycle(self: Box<Self>) {}
}

/// Builds an index, a slice at a time; answers it when all rows are in.
struct Building {
    table: String,
    index: IndexDef,
    begun: Result<IndexBuild, SchemaError>,
}

impl Building {
    fn new(table: &str, index: IndexDef) -> Self {
        let begun = Err(SchemaError::new(&index.name, "it was not begun"));
        Self { table: table.to_owned(), index, begun }
    }

    /// What was begun, which somebody else ends from now on.
    fn take(&mut self) -> Result<IndexBuild, SchemaError> {
        let gone = Err(SchemaError::new(&self.index.name, "it was given on"));
        std::mem::replace(&mut self.begun, gone)
    }
}

impl LongWork<AnyRunner> for Building {
    fn begin(&mut self, runner: &mut AnyRunner) -> Result<(), Stop> {
        self.begun = runner.store().begin_index(&self.table, self.index.clone());
        Ok(()) // a refusal is the first slice's answer: it is said in words
    }

    fn slice(
        &mut self,
        runner: &mut AnyRunner,
        rows_max: usize,
    ) -> Result<Sliced<Box<dyn Envelope>>, Stop> {
        let Ok(build) = &self.begun else {
            return Ok(Sliced::Done(Changing::answered(self.take())));
        };
        Ok(match runner.store().build_slice(build, rows_max) {
            Ok(Built::More { rows }) => Sliced::More { rows },
            Ok(Built::Done) => Sliced::Done(Changing::answered(self.take())),
            Err(refused) => Sliced::Done(Changing::<IndexBuild>::answered(Err(refused))),
        })
    }

    fn end(&mut self, runner: &mut AnyRunner) {
        if let Ok(build) = self.take() {
            runner.store().drop_index(build);
        }
    }
}

/// Bytes that a change adds to the log beside its definition, at most.
const CHANGE_LOG_BYTES: u64 = 64;

/// Bytes a name or a list of columns takes in the log, at most.
fn log_bytes(table: &TableDef) -> u64 {
    let columns = table.columns.iter().map(|column| column.name.len() + 32);
    let indexes = table.indexes.iter().map(|index| index.name.len() + 2 * index.columns.len() + 8);
    let bytes = table.name.len() + columns.chain(indexes).sum::<usize>();
    bytes as u64 + CHANGE_LOG_BYTES
}

/// Refuses names that are the database's own.
pub(crate) fn refuse_own(name: &str) -> Result<(), Error> {
    match name.starts_with(OWN_PREFIX) {
        true => Err(Error::Schema(format!(
            "{name}: names that begin with {OWN_PREFIX} are the database's own: choose another"
        ))),
        false => Ok(()),
    }
}

/// Refuses a table with names that are the database's own.
pub(crate) fn refuse_own_names(table: &TableDef) -> Result<(), Error> {
    refuse_own(&table.name)?;
    table.indexes.iter().try_for_each(|index| refuse_own(&index.name))
}

impl Core {
    /// Changes the schema between two transactions, and sleeps until that is durable.
    fn change<A: Send + 'static>(&self, log_bytes_max: u64, change: Change<A>) -> Result<A, Error> {
        let options = CallOptions::new().log_bytes_max(log_bytes_max);
        let ticket = self.submit_waiting(Changing::envelope(change), &options)?;
        Ok(self.wait::<Result<A, SchemaError>, Settled>(ticket)??)
    }

    fn create_index(&self, table: &str, index: IndexDef) -> Result<(), Error> {
        refuse_own(table)?;
        refuse_own(&index.name)?;
        let bytes = (index.name.len() + 2 * index.columns.len()) as u64 + CHANGE_LOG_BYTES;
        let ticket = self.submit_long(Box::new(Building::new(table, index)))?;
        let build = self.wait::<Result<IndexBuild, SchemaError>, Settled>(ticket)??;
        let held = Arc::new(Mutex::new(Some(build)));
        let own = held.clone();
        let finish = move |store: &mut dyn Evolving| match own.lock().take() {
            Some(build) => store.finish_index(build),
            None => unreachable!("a change is made once"),
        };
        let finished = self.change(bytes, Box::new(finish));
        // It did not run, for want of room in the log.
        let left = held.lock().take();
        if let Some(build) = left {
            let dropped = move |store: &mut dyn Evolving| {
                store.drop_index(build);
                Ok(())
            };
            let _ = self.change(0, Box::new(dropped)); // the first error says what is wrong
        }
        finished
    }
}

impl Database {
    /// Makes a table while the database runs, and sleeps until that is durable.
    ///
    /// ```
    /// use tombolo::{Database, TableDef};
    ///
    /// tombolo::table! {
    ///     /// Visitors by day.
    ///     pub struct Visit = "visit" { DAY: Date; VISITORS: Integer; }
    /// }
    /// let db = Database::in_memory()?;
    /// db.create_table(TableDef::of::<Visit>())?;
    /// let visits = db.table::<Visit>()?;
    /// db.transaction(move |tx| Ok(tx.insert(&visits, |row| row.set(Visit::VISITORS, 3))?))?;
    /// // A name in use is refused.
    /// assert!(db.create_table(TableDef::of::<Visit>()).is_err());
    /// # Ok::<(), tombolo::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Schema`] when a name is in use or the definition makes no sense, and whatever else a
    /// call is refused with.
    pub fn create_table(&self, table: TableDef) -> Result<(), Error> {
        refuse_own_names(&table)?;
        let bytes = log_bytes(&table);
        self.core().change(bytes, Box::new(move |store| store.create_table(table)))
    }

    /// Adds an index to a table while the database runs, and sleeps until all rows are in it and that
    /// is durable. Transactions go on meanwhile: rows are put in a few at a time, between them, and
    /// what they write goes in with them.
    ///
    /// Closures keep the index from then on as they do all others. Procedures that write entries
    /// themselves and do not know it are looked after: what they change is put in when they commit,
    /// and where that gives two rows one key of a unique index they fail with
    /// [`Error::Duplicate`]. That costs them as long as the database is open, and whenever it is opened
    /// by a program that does not name the index in the table's definition.
    ///
    /// ```
    /// # tombolo::table! {
    /// #     /// Accounts.
    /// #     pub struct Account = "account" { ID: Integer; OWNER: Text; }
    /// # }
    /// # use tombolo::{Database, Error, TableDef};
    /// tombolo::index! {
    ///     /// By owner.
    ///     pub struct ByOwner = "account_by_owner" on Account (OWNER: Text) unique Tree;
    /// }
    /// let db = Database::builder().table(TableDef::of::<Account>()).in_memory()?;
    /// # let accounts = db.table::<Account>()?;
    /// # db.transaction(move |tx| Ok(tx.insert(&accounts, |row| row.set_variable(Account::OWNER, "Ada"))?))?;
    /// let by_owner = db.create_index::<ByOwner>()?;
    /// let found = db.transaction(move |tx| Ok(tx.lookup(&by_owner, b"Ada")?))?;
    /// assert!(found.is_some());
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Schema`] when its name is in use, its table is not there, or two rows have one key of a
    /// unique index, which is named; and whatever else a call is refused with. Then there is no index.
    pub fn create_index<I: DeclaredIndex>(&self) -> Result<Index<I>, Error> {
        self.core().create_index(I::Table::NAME, IndexDef::of::<I>())?;
        self.index()
    }

    /// The same with an index that is described at run time.
    ///
    /// # Errors
    /// As [`Database::create_index`].
    pub fn create_dynamic_index(&self, table: &str, index: IndexDef) -> Result<(), Error> {
        self.core().create_index(table, index)
    }
}
