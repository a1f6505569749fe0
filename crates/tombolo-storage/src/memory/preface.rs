//! `Prefaced`: stores whose next transaction can continue the open one ([`MemoryStore::preface`]).

use super::MemoryStore;
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

impl<P: MemoryProfile> Prefaced for MemoryStore<P> {
    fn preface(&mut self) {
        Self::preface(self);
    }

    fn rows_number<R: TableType>(&self, table: &Table<R>) -> Result<u64> {
        Ok(Self::rows_number(self, table))
    }
}
