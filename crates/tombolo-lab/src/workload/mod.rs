//! The workloads: what is stored and what is asked, written once for every store.
//!
//! A workload knows its schema, its initial data, its transaction inputs, its procedures and its
//! consistency conditions. It knows nothing of profiles, threads or clocks: which store runs it,
//! and how it is timed, is decided elsewhere in this crate, for any [`Workload`].
//!
//! # Map
//! `tpcc/` and `debit_credit/` are workloads; what both are made with is in [`loading`] (rows into a
//! store), [`rows`] (out of it), [`log_bytes`] and [`error`].

pub mod debit_credit;
pub mod error;
pub mod loading;
pub mod log_bytes;
pub mod rows;
pub mod tpcc;

use std::fmt;

use tombolo_engine::hints::Hints;
use tombolo_engine::procedure::Ahead;
use tombolo_engine::transaction::Stop;
use tombolo_storage::error::SchemaError;
use tombolo_storage::schema::{DeclaredTable, Schema, TableDef};
use tombolo_storage::store::Store;

use error::WorkloadError;

use crate::store::DynamicStore;

/// The kinds of transaction of all workloads, in the order they are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A customer orders.
    NewOrder,
    /// A customer pays.
    Payment,
    /// A customer asks for the newest order.
    OrderStatus,
    /// The oldest order of each district of a warehouse is delivered.
    Delivery,
    /// How many recently sold items run low.
    StockLevel,
    /// An account, a teller and a branch are debited or credited.
    DebitCredit,
}

/// All kinds of transaction, in the order they are printed.
pub const KINDS: [Kind; 6] = [
    Kind::NewOrder,
    Kind::Payment,
    Kind::OrderStatus,
    Kind::Delivery,
    Kind::StockLevel,
    Kind::DebitCredit,
];

/// The name of a kind in results.
pub const fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::NewOrder => "new_order",
        Kind::Payment => "payment",
        Kind::OrderStatus => "order_status",
        Kind::Delivery => "delivery",
        Kind::StockLevel => "stock_level",
        Kind::DebitCredit => "debit_credit",
    }
}

/// What makes a transaction do what it does.
pub trait WorkloadInput: Copy + fmt::Debug + Send + Sync + 'static {
    /// The kind of transaction this is the input of.
    fn kind(&self) -> Kind;

    /// Whether that transaction will abort, as far as its input says.
    fn aborts(&self) -> bool;
}

/// A workload at one scale: which rows are loaded, and which transactions run on them.
pub trait Workload: Copy + fmt::Debug + Send + Sync + 'static {
    /// The workload's name.
    const NAME: &'static str;
    /// What transactions are called with.
    type Input: WorkloadInput;
    /// Its transactions, bound to a schema.
    type Transactions: fmt::Debug + Send + Sync + 'static;
    /// What a transaction answers.
    type Answer: fmt::Debug;
    /// The same in little room, for answers that wait.
    type Reply: From<Self::Answer> + fmt::Debug + Send + 'static;
    /// How many rows some transactions will add to each table.
    type NewRows: Copy + fmt::Debug + Send + 'static;

    /// The scale, for people.
    fn describe(&self) -> String;

    /// The tables with their indexes.
    fn tables(&self) -> Vec<TableDef>;

    /// How many rows `table` will have after `transactions` transactions, about.
    fn rows_after(&self, table: &str, transactions: u64) -> u64;

    /// The inputs of a run, from the first.
    fn inputs(&self) -> impl Iterator<Item = Self::Input> + Send + use<Self>;

    /// The kinds of transaction of which instructions are counted, and of which the aborting ones
    /// are counted besides.
    fn counted(&self) -> (&'static [Kind], Kind);

    /// Creates the tables in `store` and loads the initial database, generating on `threads`
    /// threads; `after_part` gets the store after each part, with how many of how many are stored.
    ///
    /// # Errors
    /// What the store refused, or `after_part` failed with.
    fn load_parts<S: Store>(
        &self,
        store: &mut S,
        threads: usize,
        after_part: impl FnMut(&mut S, usize, usize) -> Result<(), WorkloadError>,
    ) -> Result<(), WorkloadError>;

    /// The scale of the database in `store`, which may not be this one; none where loading it was
    /// broken off.
    ///
    /// # Errors
    /// When it is not one of this workload, or cannot be read.
    fn find<S: Store>(&self, store: &mut S) -> Result<Option<Self>, WorkloadError>;

    /// Resolves what the transactions use.
    ///
    /// # Errors
    /// When the schema lacks a table or an index, or defines it differently.
    fn bind(&self, schema: &Schema) -> Result<Self::Transactions, SchemaError>;

    /// Runs the transaction of `input`, with what looking ahead found.
    ///
    /// # Errors
    /// Its abort, or what the store refused.
    fn call<S: Store>(
        transactions: &Self::Transactions,
        store: &mut S,
        input: &Self::Input,
        hints: &Hints,
    ) -> Result<Self::Answer, Stop>;

    /// The same on a store for which only what is measured of it is compiled; none if `input` is of
    /// another transaction. Such a store does not look ahead.
    #[inline]
    fn call_measured<S: Store>(
        transactions: &Self::Transactions,
        store: &mut S,
        input: &Self::Input,
    ) -> Option<Result<Self::Answer, Stop>> {
        Some(Self::call(transactions, store, input, &Hints::none()))
    }

    /// Looks ahead at the transaction of `input`; see
    /// [`Procedure::look_ahead`](tombolo_engine::procedure::Procedure::look_ahead).
    fn look_ahead<S: Store>(
        transactions: &Self::Transactions,
        store: &S,
        input: &Self::Input,
        ahead: Ahead,
        hints: &mut Hints,
    );

    /// The most bytes of log that the records of any transaction take.
    const LOG_BYTES_MAX: usize;

    /// The most bytes of log that the records of `input`'s transaction take; nothing if it only
    /// reads.
    fn log_bytes_max(input: &Self::Input) -> usize;

    /// The rows that the transactions of `inputs` will add.
    fn new_rows(inputs: &[Self::Input]) -> Self::NewRows;

    /// How many those are of which table.
    fn by_table(rows: Self::NewRows) -> impl Iterator<Item = (&'static str, usize)>;
}

/// One condition of consistency and whether it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// Its name.
    pub name: &'static str,
    /// Where it does not hold and by what; nothing if it holds everywhere.
    pub violation: Option<String>,
}

impl Check {
    /// Whether the condition holds.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.violation.is_none()
    }
}

/// Whether the tables of `schema` are those of debit-credit; any other schema is taken for TPC-C.
fn is_debit_credit(schema: &Schema) -> bool {
    schema.table(debit_credit::schema::Account::NAME).is_some()
}

/// Asks all conditions of the database in `store`, whichever workload's it is.
///
/// # Errors
/// When it is none's, or the store refuses to be read.
pub fn checks(store: &mut dyn DynamicStore) -> Result<Vec<Check>, WorkloadError> {
    match is_debit_credit(store.schema()) {
        true => debit_credit::checks::checks(store),
        false => tpcc::checks::checks(store),
    }
}

/// Breaks the condition called `check` of the database in `store`, and no other.
///
/// # Errors
/// When there is none of that name, it cannot be broken alone, or the store refuses a call.
pub fn tamper<S: Store>(store: &mut S, check: &str) -> Result<(), WorkloadError> {
    match is_debit_credit(store.schema()) {
        true => debit_credit::checks::tamper(store, check),
        false => tpcc::tamper::tamper(store, check),
    }
}
