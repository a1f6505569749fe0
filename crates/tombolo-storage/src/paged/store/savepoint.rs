//! Savepoints: a transaction's changes after a savepoint are undone, and the transaction continues.
//!
//! They are undone as by an abort, from the transaction's records and with compensations in the log (`undo.rs`). So a
//! restart redoes the compensations, and undoes or keeps only the remaining changes. All locks stay until the
//! transaction ends, including those on gaps below entries that are removed by the undo.
//!
//! Not here: undoing a whole transaction (`transaction.rs`); savepoints of memory stores (`memory/savepoint.rs`).

use super::PagedStore;
use crate::error::{Error, Result};
use crate::profile::PagedProfile;
use crate::store::{Phase, Store as _};

/// A place in the open transaction of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Savepoint {
    /// The LSN of the transaction's newest change in front of it; 0 if there is none.
    newest: u64,
    /// What it had deleted by then, and where the keys of that end.
    ghosts: usize,
    ghost_key_bytes: usize,
}

impl Savepoint {
    /// In front of everything that a transaction changes.
    pub const BEGINNING: Self = Self { newest: 0, ghosts: 0, ghost_key_bytes: 0 };
}

impl<P: PagedProfile> PagedStore<P> {
    /// This place in the open transaction.
    ///
    /// # Panics
    /// When no transaction writes, or in a profile without a log.
    #[must_use]
    pub fn savepoint(&self) -> Savepoint {
        assert!(Self::UNDO, "a savepoint needs undo");
        let session = &self.session;
        assert_eq!(session.phase, Phase::Writing, "a savepoint is a place in a transaction");
        Savepoint {
            newest: self.newest_change(),
            ghosts: session.ghosts.len(),
            ghost_key_bytes: session.ghost_keys.len(),
        }
    }

    /// Undoes what the open transaction changed behind a place in it. Returns whether rows are gone that it had made:
    /// their places may become those of other rows. All locks stay.
    ///
    /// # Errors
    /// `Poisoned`: log or pages failed.
    ///
    /// # Panics
    /// When the place is behind what the transaction changed: it is another transaction's.
    pub fn back_to(&mut self, savepoint: Savepoint) -> Result<bool> {
        let session = &mut self.session;
        assert_eq!(session.phase, Phase::Writing, "a savepoint is a place in a transaction");
        assert!(savepoint.ghosts <= session.ghosts.len(), "the place is in this transaction");
        let undone = session.undo_behind(&self.database, savepoint.newest);
        let reason = "what a transaction did behind a savepoint could not be undone";
        let rows_gone = undone.map_err(|_| {
            self.database.poison(reason);
            Error::Poisoned { reason }
        })?;
        // What is deleted behind it is not deleted any more.
        session.ghosts.truncate(savepoint.ghosts);
        session.ghost_keys.truncate(savepoint.ghost_key_bytes);
        Ok(rows_gone)
    }
}
