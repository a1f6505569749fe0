//! Procedures: transactions written once, for every store.
//!
//! A procedure is a type. It is bound to a schema once (its tables and indexes become handles) and
//! then run on any store with that schema; the compiler makes one copy of its code per store it
//! runs on, in the one place that lists them (lab `instance/open.rs`). Everything it needs
//! is in its input: it reads no clock and draws no random number, so that the same inputs in the
//! same order leave the same state.

use tombolo_storage::error::SchemaError;
use tombolo_storage::schema::Schema;
use tombolo_storage::store::Store;

use crate::transaction::{Committed, Reading, Stop, execute};

/// A reads-first transaction (LG-11): it decides whether to abort before its first write.
pub trait Procedure: Sized {
    /// What a caller passes.
    type Input;
    /// What a caller gets back.
    type Answer;

    /// Resolves the tables and indexes it uses.
    ///
    /// # Errors
    /// When the schema lacks one of them or defines it differently.
    fn bind(schema: &Schema) -> Result<Self, SchemaError>;

    /// Runs it.
    ///
    /// # Errors
    /// Its own abort, or what the store refused.
    fn run<S: Store>(
        &self,
        tx: Reading<'_, S>,
        input: &Self::Input,
    ) -> Result<Committed<Self::Answer>, Stop>;

    /// Runs it as one transaction on `store`.
    ///
    /// # Errors
    /// See [`execute`].
    #[inline(always)]
    fn call<S: Store>(&self, store: &mut S, input: &Self::Input) -> Result<Self::Answer, Stop> {
        execute(store, |tx| self.run(tx, input))
    }
}
