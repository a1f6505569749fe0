//! `Workload`: all that drivers, plans and reports know of a workload, whatever is in its folder.
//!
//! Not here: which workloads there are (`list.rs`).

use std::fmt;

use tombolo_engine::hints::Hints;
use tombolo_engine::procedure::Ahead;
use tombolo_engine::settings::{Setting, Settings};
use tombolo_engine::transaction::Stop;
use tombolo_storage::error::SchemaError;
use tombolo_storage::schema::{Schema, TableDef};
use tombolo_storage::store::Store;

use super::check::Check;
use super::error::WorkloadError;
use super::kind::Kind;
use crate::failure::Failure;
use crate::store::DynamicStore;

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
    /// The names of its kinds of transaction, in the order of their places, in which they are printed.
    const KINDS: &'static [&'static str];
    /// The names of its mixes, as the setting `mix` has them; the first unless another is chosen. None where there
    /// is one only.
    const MIXES: &'static [&'static str] = &[];
    /// What those are, in the help of that setting.
    const MIXES_HELP: &'static str = "";
    /// Command lines for the help of `run`.
    const EXAMPLES: &'static [&'static str];
    /// A table that only its databases have.
    const TABLE: &'static str;
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

    /// The settings that say how large a database is.
    fn settings() -> &'static [&'static Setting];

    /// The scale that `settings` and the mix at this place of [`Workload::MIXES`] say.
    ///
    /// # Errors
    /// When settings do not fit each other.
    fn planned(settings: &Settings, mix: usize) -> Result<Self, Failure>;

    /// What the settings of [`Workload::settings`] are at this scale, in their order.
    fn values(&self) -> Vec<u64>;

    /// The mix, where there are several.
    fn mix(&self) -> Option<&'static str> {
        None
    }

    /// The scale that has these values, as results say it to people.
    fn size(values: &[u64]) -> String;

    /// The same on the page of `report`.
    fn label(values: &[u64]) -> String {
        Self::size(values)
    }

    /// What runs, for people.
    fn title(&self) -> String {
        [Some(Self::NAME), self.mix()].into_iter().flatten().collect::<Vec<_>>().join(" ")
    }

    /// The scale, for people, while it is loaded.
    fn describe(&self) -> String {
        Self::size(&self.values())
    }

    /// The tables that a database may have, at any scale and with any mix.
    fn all_tables() -> Vec<TableDef>;

    /// The tables with their indexes.
    fn tables(&self) -> Vec<TableDef> {
        Self::all_tables()
    }

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
    fn find(&self, store: &mut dyn DynamicStore) -> Result<Option<Self>, WorkloadError>;

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

    /// The kinds that run and are always another transaction for [`Workload::call_measured`].
    fn unmeasured(&self) -> &'static [&'static str] {
        &[]
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

    /// Asks all conditions of the database in `store`.
    ///
    /// # Errors
    /// When it is not one of this workload, or the store refuses to be read.
    fn checks(store: &mut dyn DynamicStore) -> Result<Vec<Check>, WorkloadError>;

    /// Breaks the condition called `check` of the database in `store`, and no other.
    ///
    /// # Errors
    /// When no check has that name, it cannot be broken alone, or the store refuses a call.
    fn tamper<S: Store>(store: &mut S, check: &str) -> Result<(), WorkloadError>;

    /// Small scales, all mixes among them, on which tests of every workload run.
    #[cfg(test)]
    fn tested() -> Vec<Self>;
}

/// The three functions of [`Workload`] of one whose transactions are one procedure.
macro_rules! one_procedure {
    () => {
        fn bind(
            &self,
            schema: &tombolo_storage::schema::Schema,
        ) -> Result<Self::Transactions, tombolo_storage::error::SchemaError> {
            tombolo_engine::procedure::Procedure::bind(schema)
        }

        #[inline]
        fn call<S: Store>(
            transactions: &Self::Transactions,
            store: &mut S,
            input: &Self::Input,
            hints: &tombolo_engine::hints::Hints,
        ) -> Result<Self::Answer, tombolo_engine::transaction::Stop> {
            tombolo_engine::procedure::Procedure::call_located(transactions, store, input, hints)
        }

        #[inline]
        fn look_ahead<S: Store>(
            transactions: &Self::Transactions,
            store: &S,
            input: &Self::Input,
            ahead: tombolo_engine::procedure::Ahead,
            hints: &mut tombolo_engine::hints::Hints,
        ) {
            let look_ahead = tombolo_engine::procedure::Procedure::look_ahead;
            look_ahead(transactions, store, input, ahead, hints);
        }
    };
}
pub(super) use one_procedure;
