//! Adding tables, indexes and columns while the database runs.
//!
//! ```text
//!   create_table ──► one call: created, logged, visible                 (between two transactions)
//!   create_index ──► one call: exists? ──► long work: begin, slice, slice, …  ──► one call: logged,
//!   add_column                               concurrent commits go into it              visible
//! ```
//!
//! A change runs like any call, at its place in the order, and its answer
//! waits for the log like any answer. Later calls see the table or index. A crash before the change is
//! durable leaves nothing of it: a half-built index is not in the log.
//!
//! Not here: indexes that procedures do not know (storage `memory/online.rs`), longer rows (storage
//! `memory/columns.rs`), additions during opening (`open.rs`), drops (`dropping.rs`). Invariants: an addition
//! that was begun is finished or abandoned, whatever happens; additions run one at a time; an addition
//! whose handle would be refused is refused itself.

use std::any::Any;
use std::sync::Arc;

use tombolo_engine::pipeline::{self, LongWork, Sliced};
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
use crate::core::{Core, Patience};
use crate::database::Database;
use crate::error::Error;
use crate::product::Product;
use crate::tx::Tables;

/// An object that is built in slices.
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

    /// Returns memory that is no longer needed, for the caller to free.
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

/// The code of a change, run between two transactions.
pub(crate) type Change<A> = Box<dyn FnOnce(&mut Product) -> Result<A, SchemaError> + Send>;

/// Whether an object to be added exists already, or why it cannot be added.
type Look = Box<dyn FnOnce(&Schema) -> Result<bool, SchemaError> + Send>;

fn index_is_there(schema: &Schema, table: &str, index: &IndexDef) -> Result<bool, SchemaError> {
    let Some((own, at)) = schema.index(&index.name) else { return Ok(false) };
    let own = &schema.tables[own];
    if own.name == table && own.indexes[at] == *index {
        return Ok(true);
    }
    let text = index_text(own, &own.indexes[at]);
    let what = format!("already exists, on {} as {text}: choose another name", own.name);
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
    let what = format!("already exists, as {}: choose another name", column_text(was));
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
        return refuse("the table's other columns differ from those declared before it");
    }
    if position + 1 < R::COLUMNS.len() {
        return refuse(
            "the program declares others behind it, which are not there either: add all but the \
             last one with add_dynamic_column",
        );
    }
    Ok(false)
}

/// The envelope of a change, or of the answer of long work.
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

    fn end_otherwise(&mut self, how: Otherwise) {
        self.ran = Some(Ran::Otherwise(how));
    }

    fn is_noted(&self) -> bool {
        false
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
}

/// Builds an addition, a slice at a time; its answer is the finished addition.
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

    /// Passes on the begun addition; the receiver has to end it.
    fn take(&mut self) -> Result<Begun, SchemaError> {
        let gone = Err(SchemaError::new(self.addition.name(), "it was given on"));
        std::mem::replace(&mut self.begun, gone)
    }
}

impl LongWork<Runner> for Building {
    fn begin(&mut self, runner: &mut Runner) -> Result<(), Stop> {
        self.begun = Begun::on(runner.store(), &self.table, self.addition.clone());
        Ok(()) // a refusal is the answer of the first slice, which can carry a message
    }

    fn slice(
        &mut self,
        runner: &mut Runner,
        rows_max: usize,
        _: u64,
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
    /// Changes the schema between two transactions, and blocks until that is durable.
    pub(crate) fn change<A: Send + 'static>(
        &self,
        log_bytes_max: u64,
        change: Change<A>,
    ) -> Result<A, Error> {
        let options = CallOptions::new().log_bytes_max(log_bytes_max);
        let ticket = self.queue(Changing::envelope(change), &options, Patience::Waits)?;
        Ok(self.wait::<Result<A, SchemaError>, Settled>(ticket)??)
    }

    /// Creates a table of the database's own, unless it exists.
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

    /// Builds an addition while transactions run, and makes it part of the schema between two of them,
    /// unless it exists already.
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
        // One addition at a time: the result of the look remains valid until the end, and of two columns the
        // second waits. Other calls are not affected.
        let _turn = self.turn();
        // A call, so that whatever it finds is durable when it answers.
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
        // It did not run, for lack of room in the log.
        let left = held.lock().take();
        if let Some(begun) = left {
            let given_up = move |store: &mut Product| Ok(begun.give_up(store));
            let _ = self.change(0, Box::new(given_up)); // the first error says what is wrong
        }
        finished.map(drop) // frees the rows' former slots on this thread
    }
}

impl Database {
    /// Creates a table while the database runs, and blocks until that is durable.
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
    /// [`Error::Schema`] when a name is in use or the definition is invalid, and the errors of any call.
    pub fn create_table(&self, table: TableDef) -> Result<(), Error> {
        refuse_own_names(&table)?;
        let bytes = log_bytes(&table);
        self.core().change(bytes, Box::new(move |store| store.create_table(table)))
    }

    /// Adds an index to a table while the database runs, and blocks until it contains all rows and is
    /// durable. Transactions continue meanwhile: existing rows are added a few at a time between transactions,
    /// whose own writes enter the index, too.
    ///
    /// From then on closures maintain the index like all others. For procedures that write entries themselves
    /// and do not know the index, its entries are written when they commit; if two rows then have the same key
    /// in a unique index, the call fails with [`Error::Duplicate`]. This costs such procedures time as long as
    /// the database is open, and whenever it is opened by a program whose definition of the table does not name
    /// the index, or that does not define the table.
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
    /// [`Error::Schema`] when its name is in use, when its table does not exist or differs from that of `I`, or
    /// when two rows have the same key in a unique index (the error names the key); and the errors of any call.
    /// After an error there is no index. If the same index exists already, its handle is returned.
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

    /// Adds a column to a table while the database runs, after all others, and blocks until that is
    /// durable. Existing rows get its declared default (whole numbers only: `=> or(5)`);
    /// without one, the column is null if it is nullable, otherwise zero: 0, `false`, the empty text, the first
    /// day of 2000. Transactions continue meanwhile. If rows need longer slots they are copied a few at a time,
    /// between transactions, and occupy memory twice until all are copied.
    ///
    /// Earlier handles, closures and procedures continue to work; the rows that they create get the column's
    /// default. A program that uses the column declares it as *added*, at the end of its table:
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
    ///     /// Customers, who have a limit since the second version: 500 by default.
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
    /// [`Error::Schema`] when the table has a different column of that name, when its other columns differ from
    /// those of `R`, when the column is not declared as added, when `R` declares columns after it that the table
    /// does not have, or when there is no memory for the longer rows; and the errors of any call. After an error
    /// there is no such column. If the same column exists already, a handle of the table is returned.
    pub fn add_column<R: DeclaredTable>(&self, name: &str) -> Result<Table<R>, Error> {
        let refuse = |what: &str| Err(Error::Schema(format!("{}.{name}: {what}", R::NAME)));
        let Some(position) = R::COLUMNS.iter().position(|column| column.name == name) else {
            return refuse("the program declares no such column");
        };
        if !R::COLUMNS[position].added {
            return refuse("declare the column as added: `=> added` or `=> or(5)`");
        }
        let look = move |schema: &Schema| declared_is_there::<R>(schema, position);
        self.core().add_column(R::NAME, R::COLUMNS[position].clone(), Box::new(look))?;
        self.table()
    }

    /// The same with a column that is described at run time. It counts as added even if its description does
    /// not state that. Request a new handle of the table to use the column.
    ///
    /// # Errors
    /// As [`Database::add_column`].
    pub fn add_dynamic_column(&self, table: &str, column: ColumnDef) -> Result<(), Error> {
        let (of, own) = (table.to_owned(), column.clone());
        let look = move |schema: &Schema| column_is_there(schema, &of, &own);
        self.core().add_column(table, column, Box::new(look))
    }
}
