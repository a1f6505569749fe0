//! Procedures: transactions written once, for every store.
//!
//! A procedure is a type. It is bound to a schema once (its tables and indexes become handles) and
//! then run on any store with that schema; the compiler makes one copy of its code per store it
//! runs on, in the one place that lists them (lab `instance/open.rs`). Everything it needs
//! is in its input: it reads no clock and draws no random number, so that the same inputs in the
//! same order leave the same state.
//!
//! Whoever has several inputs at hand may look ahead (TPK-44): [`Procedure::locate`] asks for what
//! a transaction will wait for while others still run. It changes nothing and promises nothing: the
//! transaction finds all for itself, whether or not what was asked for is still the right thing.

use tombolo_storage::error::SchemaError;
use tombolo_storage::schema::Schema;
use tombolo_storage::store::Store;

use crate::transaction::{Committed, Reading, Stop, execute};

/// How far a transaction that is looked ahead at has been looked at before. Each asks for what the
/// next one reads; in order, and with other work in between, none of them waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ahead {
    /// Not at all: asks for the places of its keys in the indexes.
    Keys,
    /// Its keys have been asked for: asks for the rows they lead to.
    Rows,
}

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

    /// Asks for what its transaction with `input` will wait for. Reads nothing that it may rely on,
    /// locks nothing, changes nothing; compiles to nothing on a store that cannot look ahead.
    #[inline(always)]
    fn locate<S: Store>(&self, store: &S, input: &Self::Input, ahead: Ahead) {
        let _ = (store, input, ahead);
    }

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
