//! A change of a row between its note for undo and its log record, while a caller writes the row.
//!
//! What a caller writes may panic: a value is too long for its column. Where that unwinds out of the
//! change, the change is taken back with its note, and nothing is logged. So memory and log agree,
//! even for a transaction that catches the panic and commits. Where nothing is kept to take a
//! change back, the store refuses everything from then on, as after any other failure behind the
//! first write.
//!
//! Not here: what taking back does to rows and indexes (`store.rs`), the rest of the transaction. The
//! path that does not unwind has no instruction of this.

use super::store::MemoryStore;
use super::undo::Undo;
use crate::error::{Error, Result};
use crate::profile::MemoryProfile;
use crate::store::Store;

/// A store with a change under way.
pub(super) struct OpenChange<'s, P: MemoryProfile> {
    pub(super) store: &'s mut MemoryStore<P>,
    /// Whether the change is the newest one that is noted; before, there is none to take back.
    pub(super) is_noted: bool,
}

impl<'s, P: MemoryProfile> OpenChange<'s, P> {
    #[inline(always)]
    pub(super) fn of(store: &'s mut MemoryStore<P>) -> Self {
        Self { store, is_noted: false }
    }

    /// The change is logged.
    #[inline(always)]
    pub(super) fn end(self) {
        std::mem::forget(self);
    }
}

impl<P: MemoryProfile> Drop for OpenChange<'_, P> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.is_noted {
            unwound(self.store);
        }
    }
}

#[cold]
#[inline(never)]
fn unwound<P: MemoryProfile>(store: &mut MemoryStore<P>) {
    // Where that fails the store is poisoned, and the next call says why.
    let _ = if P::Undo::KEEPS { store.take_last_back() } else { store.fail() };
}

impl<P: MemoryProfile> MemoryStore<P> {
    /// Takes back the change just noted, for whose note there was no room.
    #[cold]
    #[inline(never)]
    pub(super) fn refuse_last(&mut self) -> Error {
        match self.take_last_back() {
            Ok(()) => self.no_space(),
            Err(error) => error,
        }
    }

    /// Takes the newest change back.
    fn take_last_back(&mut self) -> Result<()> {
        let mut image = Vec::new();
        match self.undo.pop(&mut image) {
            Some(change) => self.take_back(change, &image).map_err(|_| self.not_undone()),
            None => Ok(()),
        }
    }
}
