//! Tables, indexes and columns that are added while the database runs.
//!
//! ```text
//!   create_table ──► one call: made, logged, known                      (between two transactions)
//!   create_index ──► one call: is it there? ──► long work: begin, slice, slice, …  ──► one call: logged,
//!   add_column                                   what commits meanwhile goes into it             known
//! ```
//!
//! A change runs like any call, in its place in the order, and its answer
//! waits for the log like any answer. Calls behind it know the table or index. A crash before it is
//! durable leaves nothing of it: an index that is half built is in no log.
//!
//! Not here: how the store keeps an index that procedures do not know (storage `memory/online.rs`),
//! how rows get longer (storage `memory/columns.rs`), what is added when a directory is opened
//! (`open.rs`), what is dropped (`dropping.rs`). Invariants: what was begun is finished or given up, whatever
//! happens between; additions to tables come one after the other; an addition whose handle would be refused is
//! refused itself.

use std::any::Any;
use std::sync::Arc;

use tombolo_engine::hints::Hints;
use tombolo_engine::pipeline::{self, LongWork, Sliced};
use tombolo_engine::procedure::Ahead;
use tombolo_engine::transaction::Stop;
use tombolo_storage::error::SchemaError;
use tombolo_storage::memory::columns::{ColumnBuild, Vacated};
use tombolo_storage::memory::online::{Built, IndexBuild};
use tombolo_storage::schema::{
    ColumnDef, DeclaredIndex, DeclaredTable, IndexDef, Schema, TableDef,
};
use tombolo_storage::store::{Index, Store, Table, resolve_table};
use tombolo_storage::sync::Mutex;
use tombolo_storage::words::{column_text, index_text};

use crate::calls::{CallOptions, Envelope, Finished, How, OWN_PREFIX, Otherwise, Ran, Runner};
use crate::calls::{Settled, on_database_thread};
use crate::core::Core;
use crate::database::Database;
use crate::error::Error;
use crate::product::Product;
use crate::tx::Tables;

/// What is built in slices.
#[derive(Clone, Debug)]
pub(crate) enum Addition {
    Index(IndexDef),
    Column(ColumnDef),
}

impl Addition {
    fn name(&self) -> &str {
        match self {
            Self::Index(index) => &index.name,
            Self::Column(column) => &column.name,
        }
    }
}

/// An addition that was begun.
pub(crate) enum Begun {
    Index(IndexBuild),
    Column(ColumnBuild),
}

impl Begun {
    fn on(store: &mut Product, table: &str, addition: Addition) -> Result<Self, SchemaError> {
        Ok(match addition {
            Addition::Index(index) => Self::Index(store.begin_index(table, index)?),
            Addition::Column(column) => Self::Column(store.begin_column(table, column)?),
        })
    }

    fn slice(&self, store: &mut Product, rows_max: usize) -> Result<Built, SchemaError> {
        match self {
            Self::Index(build) => store.build_slice(build, rows_max),
            Self::Column(build) => store.column_slice(build, rows_max),
        }
    }

    /// Memory that is not needed any more is the caller's to give back.
    fn finish(self, store: &mut Product) -> Result<Option<Vacated>, SchemaError> {
        match self {
            Self::Index(build) => store.finish_index(build).map(|()| None),
            Self::Column(build) => store.finish_column(build).map(Some),
        }
    }

    fn give_up(self, store: &mut Product) -> Option<Vacated> {
        match self {
            Self::Index(build) => {
                store.give_up_index(build);
                None
            }
            Self::Column(build) => Some(store.give_up_column(build)),
        }
    }
}

/// What a change does, between two transactions.
pub(crate) type Change<A> = Box<dyn FnOnce(&mut Product) -> Result<A, SchemaError> + Send>;

/// Whether an addition is there already, or why it cannot be.
type Look = Box<dyn FnOnce(&Schema) -> Result<bool, SchemaError> + Send>;

fn index_is_there(schema: &Schema, table: &str, index: &IndexDef) -> Result<bool, SchemaError> {
    let Some((own, at)) = schema.index(&index.name) else { return Ok(false) };
    let own = &schema.tables[own];
    if own.name == table && own.indexes[at] == *index {
        return Ok(true);
    }
    let text = index_text(own, &own.indexes[at]);
    let what = format!("is there already, on {} as {text}: choose another name", own.name);
    Err(SchemaError::new(&index.name, &what))
}

fn column_is_there(schema: &Schema, table: &str, column: &ColumnDef) -> Result<bool, SchemaError> {
    let Some(own) = schema.table(table) else {
        return Err(SchemaError::new(table, "no such table"));
    };
    let own = &schema.tables[own];
    let Some(position) = own.column(&column.name) else { return Ok(false) };
    let was = &own.columns[position];
    if *was == column.clone().added() {
        return Ok(true);
    }
    let what = format!("is there already, as {}: choose another name", column_text(was));
    Err(SchemaError::new(&format!("{table}.{}", column.name), &what))
}

/// The same for column number `position` of a declared table, of which there is a handle afterwards.
fn declared_is_there<R: DeclaredTable>(
    schema: &Schema,
    position: usize,
) -> Result<bool, SchemaError> {
    let column = &R::COLUMNS[position];
    if column_is_there(schema, R::NAME, column)? {
        return resolve_table::<R>(schema).map(|_| true);
    }
    let refuse = |what| Err(SchemaError::new(&format!("{}.{}", R::NAME, column.name), what));
    let stored = schema.table(R::NAME).map(|table| &schema.tables[table].columns[..]);
    if stored != Some(&R::COLUMNS[..position]) {
        return refuse("the table's other columns are not those declared in front of it");
    }
    if position + 1 < R::COLUMNS.len() {
        return refuse(
            "the program declares others behind it, which are not there either: add all but the \
             last one with add_dynamic_column",
        );
    }
    Ok(false)
}

/// The envelope of a change, or of what long work answers.
struct Changing<A> {
    change: Option<Change<A>>,
    ran: Option<Ran<Result<A, SchemaError>>>,
}

impl<A: Send + 'static> Changing<A> {
    fn envelope(change: Change<A>) -> Box<dyn Envelope> {
        Box::new(Self { change: Some(change), ran: None })
    }
}

impl<A: Send + 'static> Envelope for Changing<A> {
    fn run(&mut self, store: &mut Product, tables: &mut Tables) -> How {
        let Some(change) = self.change.take() else { unreachable!("a change is made once") };
        let changed = change(store);
        tables.follow(store.schema());
        let how = if changed.is_ok() { How::Committed } else { How::Aborted };
        self.ran = Some(Ran::Ended(Ok(changed)));
        how
    }

    fn locate(&self, _: &Product, _: Ahead, _: &mut Hints) {}

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

/// Builds an addition, a slice at a time; answers it when all rows are in.
struct Building {
    table: String,
    addition: Addition,
    begun: Result<Begun, SchemaError>,
}

impl Building {
    fn new(table: &str, addition: Addition) -> Self {
        let begun = Err(SchemaError::new(addition.name(), "it was not begun"));
        Self { table: table.to_owned(), addition, begun }
    }

    /// What was begun, which other code ends from now on.
    fn take(&mut self) -> Result<Begun, SchemaError> {
        let gone = Err(SchemaError::new(self.addition.name(), "it was given on"));
        std::mem::replace(&mut self.begun, gone)
    }
}

impl LongWork<Runner> for Building {
    fn begin(&mut self, runner: &mut Runner) -> Result<(), Stop> {
        self.begun = Begun::on(runner.store(), &self.table, self.addition.clone());
        Ok(()) // a refusal is the first slice's answer: it is said in words
    }

    fn slice(
        &mut self,
        runner: &mut Runner,
        rows_max: usize,
    ) -> Result<Sliced<Box<dyn Envelope>>, Stop> {
        let Ok(begun) = &self.begun else {
            return Ok(Sliced::Done(Finished::envelope(Ok(self.take()))));
        };
        Ok(match begun.slice(runner.store(), rows_max) {
            Ok(Built::More { rows }) => Sliced::More { rows },
            Ok(Built::Done) => Sliced::Done(Finished::envelope(Ok(self.take()))),
            Err(refused) => Sliced::Done(Finished::<Result<Begun, _>>::envelope(Ok(Err(refused)))),
        })
    }

    fn end(&mut self, runner: &mut Runner) {
        if let Ok(begun) = self.take() {
            drop(begun.give_up(runner.store()));
        }
    }
}

/// Bytes that a change adds to the log in addition to its definition, at most.
pub(crate) const CHANGE_LOG_BYTES: u64 = 64;

/// Bytes that the definition of a table of the database's own takes in the log, at most.
const OWN_TABLE_LOG_BYTES: u64 = 1_000;

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
    pub(crate) fn change<A: Send + 'static>(
        &self,
        log_bytes_max: u64,
        change: Change<A>,
    ) -> Result<A, Error> {
        let options = CallOptions::new().log_bytes_max(log_bytes_max);
        let ticket = self.submit_waiting(Changing::envelope(change), &options)?;
        Ok(self.wait::<Result<A, SchemaError>, Settled>(ticket)??)
    }

    /// Makes a table of the database's own, unless it is there.
    pub(crate) fn create_own_table(&self, table: TableDef) -> Result<(), Error> {
        if self.schema.get().table(&table.name).is_some() {
            return Ok(());
        }
        let made = move |store: &mut Product| match store.schema().table(&table.name) {
            Some(_) => Ok(()),
            None => store.create_table(table),
        };
        self.change(OWN_TABLE_LOG_BYTES, Box::new(made))
    }

    fn create_index(&self, table: &str, index: IndexDef, look: Look) -> Result<(), Error> {
        refuse_own(&index.name)?;
        let bytes = (index.name.len() + 2 * index.columns.len()) as u64 + CHANGE_LOG_BYTES;
        self.add(table, Addition::Index(index), bytes, look)
    }

    fn add_column(&self, table: &str, column: ColumnDef, look: Look) -> Result<(), Error> {
        let bytes = column.name.len() as u64 + CHANGE_LOG_BYTES;
        self.add(table, Addition::Column(column), bytes, look)
    }

    /// Builds an addition while transactions run, and makes it part of the schema between two of them;
    /// unless it is there already.
    fn add(
        &self,
        table: &str,
        addition: Addition,
        log_bytes: u64,
        look: Look,
    ) -> Result<(), Error> {
        refuse_own(table)?;
        if on_database_thread() {
            return Err(Error::Nested);
        }
        // One addition after the other: what a look finds is so until the end, and of two columns the
        // second waits. Others have no turn to wait for.
        let _turn = self.turn();
        // A call, so that what it finds there is durable when it answers.
        if self.change(0, Box::new(move |store| look(store.schema())))? {
            return Ok(());
        }
        let ticket = self
            .submit_long(Box::new(Building::new(table, addition)), pipeline::Durability::Async)?;
        let begun = self.wait::<Result<Begun, SchemaError>, Settled>(ticket)??;
        let held = Arc::new(Mutex::new(Some(begun)));
        let own = held.clone();
        let finish = move |store: &mut Product| match own.lock().take() {
            Some(begun) => begun.finish(store),
            None => unreachable!("a change is made once"),
        };
        let finished = self.change(log_bytes, Box::new(finish));
        // It did not run, for want of room in the log.
        let left = held.lock().take();
        if let Some(begun) = left {
            let given_up = move |store: &mut Product| Ok(begun.give_up(store));
            let _ = self.change(0, Box::new(given_up)); // the first error says what is wrong
        }
        finished.map(drop) // here, what rows lay in before is given back
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
    /// is durable. Transactions continue meanwhile: rows are put in a few at a time, between them, and
    /// what they write goes in with them.
    ///
    /// Closures keep the index from then on as they do all others. For procedures that write entries themselves
    /// and do not know the index, its entries are written when they commit; where that gives two rows one key
    /// of a unique index they fail with [`Error::Duplicate`]. That costs them time as long as the database is
    /// open, and whenever it is opened by a program that does not name the index in the table's definition, or
    /// not the table.
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
    /// [`Error::Schema`] when its name is in use, when its table is not there or differs from what `I` says, or
    /// when two rows have one key of a unique index, which is named; and whatever else a call is refused with.
    /// Then there is no index. If the same index is there already, that is no error: its handle is returned.
    pub fn create_index<I: DeclaredIndex>(&self) -> Result<Index<I>, Error> {
        let look = |schema: &Schema| {
            resolve_table::<I::Table>(schema)?;
            index_is_there(schema, I::Table::NAME, &IndexDef::of::<I>())
        };
        self.core().create_index(I::Table::NAME, IndexDef::of::<I>(), Box::new(look))?;
        self.index()
    }

    /// The same with an index that is described at run time.
    ///
    /// # Errors
    /// As [`Database::create_index`].
    pub fn create_dynamic_index(&self, table: &str, index: IndexDef) -> Result<(), Error> {
        let (of, own) = (table.to_owned(), index.clone());
        let look = move |schema: &Schema| index_is_there(schema, &of, &own);
        self.core().create_index(table, index, Box::new(look))
    }

    /// Adds a column to a table while the database runs, behind all others, and sleeps until that is
    /// durable. In all rows that are there it is the default it declares (whole numbers only: `=> or(5)`);
    /// without one it is null if it may be, else zero: 0, `false`, the empty text, the first day of 2000.
    /// Transactions continue meanwhile. Where rows need longer slots they are copied a few at a time, between
    /// transactions, and lie in memory twice until all are copied.
    ///
    /// Earlier handles, closures and procedures continue to work; the rows that they make get the column's
    /// default. A program that uses it declares it as *added*, at the end of its table:
    ///
    /// ```
    /// use tombolo::{Database, TableDef};
    ///
    /// mod before {
    ///     tombolo::table! {
    ///         /// Customers.
    ///         pub struct Customer = "customer" { ID: Integer; NAME: Text; }
    ///     }
    /// }
    /// tombolo::table! {
    ///     /// Customers, who have a limit since the second version: 500 unless somebody says otherwise.
    ///     pub struct Customer = "customer" { ID: Integer; NAME: Text; CREDIT: BigInt => or(500); }
    /// }
    ///
    /// let db = Database::builder().table(TableDef::of::<before::Customer>()).in_memory()?;
    /// let old = db.table::<before::Customer>()?;
    /// let row = db.transaction(move |tx| Ok(tx.insert(&old, |row| row.set(before::Customer::ID, 7))?))?;
    ///
    /// let customers = db.add_column::<Customer>("credit")?;
    /// let credit = db.transaction(move |tx| {
    ///     assert_eq!(tx.get(&customers, row)?.get(Customer::CREDIT), 500);
    ///     tx.set(&customers, row, Customer::CREDIT, 900)?;
    ///     Ok(tx.get(&customers, row)?.get(Customer::CREDIT))
    /// })?;
    /// assert_eq!(credit, 900);
    /// # Ok::<(), tombolo::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Schema`] when the table has another column of the name, when it otherwise differs from what `R`
    /// is without the column, when the column is not declared as added, when `R` declares columns behind it
    /// that are not there, or when there is no memory for the longer rows; and whatever else a call is refused
    /// with. Then there is no such column. If the same column is there already, that is no error: its handle is
    /// returned.
    pub fn add_column<R: DeclaredTable>(&self, name: &str) -> Result<Table<R>, Error> {
        let refuse = |what: &str| Err(Error::Schema(format!("{}.{name}: {what}", R::NAME)));
        let Some(position) = R::COLUMNS.iter().position(|column| column.name == name) else {
            return refuse("the program declares no such column");
        };
        if !R::COLUMNS[position].added {
            return refuse("a column that is added is declared so: `=> added` or `=> or(5)`");
        }
        let look = move |schema: &Schema| declared_is_there::<R>(schema, position);
        self.core().add_column(R::NAME, R::COLUMNS[position].clone(), Box::new(look))?;
        self.table()
    }

    /// The same with a column that is described at run time. It counts as added, whether its description says
    /// so or not. Handles of the table that are to know the column must be asked for again.
    ///
    /// # Errors
    /// As [`Database::add_column`].
    pub fn add_dynamic_column(&self, table: &str, column: ColumnDef) -> Result<(), Error> {
        let (of, own) = (table.to_owned(), column.clone());
        let look = move |schema: &Schema| column_is_there(schema, &of, &own);
        self.core().add_column(table, column, Box::new(look))
    }
}
