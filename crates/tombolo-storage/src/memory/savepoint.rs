//! Savepoints: a transaction's writes after a savepoint are undone, and nothing else.
//!
//! Undo notes and log records after the savepoint are removed; rows, entries and values are restored.
//! Not here: undoing a whole transaction (`store.rs`).

use super::log::Log;
use super::store::{MemoryStore, State};
use super::undo::Undo;
use crate::error::Result;
use crate::profile::MemoryProfile;

/// A place in the open transaction.
#[derive(Clone, Copy, Debug)]
pub struct Savepoint {
    /// Undo notes in front of it.
    notes: usize,
    /// Where the log's records in front of it end.
    log_end: usize,
}

impl<P: MemoryProfile> MemoryStore<P> {
    /// This place in the open transaction.
    ///
    /// # Panics
    /// When no transaction writes, or in a profile without undo.
    pub fn savepoint(&self) -> Savepoint {
        assert!(P::Undo::KEEPS, "a savepoint needs undo");
        assert_eq!(self.state, State::Writing, "a savepoint is a place in a transaction");
        Savepoint { notes: self.undo.notes().0.len(), log_end: self.log.end() }
    }

    /// Takes back what the open transaction wrote behind a place in it.
    ///
    /// # Errors
    /// `Poisoned`: there was no memory for an index entry that comes back.
    ///
    /// # Panics
    /// When the place is behind what the transaction wrote: it is another transaction's.
    pub fn back_to(&mut self, savepoint: Savepoint) -> Result<()> {
        assert_eq!(self.state, State::Writing, "a savepoint is a place in a transaction");
        assert!(savepoint.notes <= self.undo.notes().0.len(), "the place is in this transaction");
        let mut image = Vec::new();
        while self.undo.notes().0.len() > savepoint.notes {
            let Some(change) = self.undo.pop(&mut image) else { unreachable!("a note is there") };
            if self.take_back(change, &image).is_err() {
                return Err(self.not_undone());
            }
        }
        self.log.cut(savepoint.log_end);
        Ok(())
    }
}
