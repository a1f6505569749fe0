//! `Prefaced`: stores whose next transaction can continue the open one ([`MemoryStore::preface`]), or be a step of it.

use super::MemoryStore;
use super::store::State;
use crate::error::Result;
use crate::profile::MemoryProfile;
use crate::store::{Store, Table, TableType};

/// See the module's head.
pub trait Prefaced: Store {
    /// [`MemoryStore::preface`].
    fn preface(&mut self);
    /// [`MemoryStore::rows_number`].
    ///
    /// # Errors
    /// `Held`, where parts of transactions are held ([`super::held::Guarded`]).
    fn rows_number<R: TableType>(&self, table: &Table<R>) -> Result<u64>;
}

impl<P: MemoryProfile> MemoryStore<P> {
    /// Runs a step of the open transaction, which may begin its writes as a transaction of its own would.
    ///
    /// ```
    /// use tombolo_storage::{memory::{Limits, MemoryStore}, profile::Memory, store::{Phase, Store}};
    /// let mut store = MemoryStore::<Memory>::new(Limits::default());
    /// store.begin()?;
    /// store.begin_writes();
    /// store.step(|store| store.begin_writes()); // one that writes
    /// store.step(|store| assert_eq!(store.phase(), Phase::Reading)); // one that only reads
    /// assert_eq!(store.phase(), Phase::Writing, "writes may follow");
    /// store.abort()?;
    /// # Ok::<(), tombolo_storage::error::Error>(())
    /// ```
    ///
    /// # Panics
    /// When no transaction writes.
    #[inline]
    pub fn step<T>(&mut self, step: impl FnOnce(&mut Self) -> T) -> T {
        assert_eq!(self.state, State::Writing, "a step belongs to an open transaction");
        self.state = State::Reading;
        let ended = step(self);
        if self.state == State::Reading {
            self.state = State::Writing;
        }
        ended
    }
}

impl<P: MemoryProfile> Prefaced for MemoryStore<P> {
    fn preface(&mut self) {
        Self::preface(self);
    }

    fn rows_number<R: TableType>(&self, table: &Table<R>) -> Result<u64> {
        Ok(Self::rows_number(self, table))
    }
}
