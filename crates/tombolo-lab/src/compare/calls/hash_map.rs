//! A hash table behind a mutex: the alternative of a program that needs no database.
//!
//! It stores nothing on disk, so it takes part only at durability `none`.

#![expect(clippy::disallowed_types, reason = "what programs use; nothing depends on its order")]

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{ACCOUNTS, CENTS_EACH, Caller, Engine};
use crate::failure::Failure;

pub(super) const NAME: &str = "mutex-hashmap";

/// The standard library's hash table with its usual hash.
pub(super) struct HashMapEngine {
    accounts: Mutex<HashMap<i32, i64>>,
}

impl HashMapEngine {
    pub(super) fn new() -> Self {
        let accounts = (0..ACCOUNTS).map(|id| (id, CENTS_EACH)).collect();
        Self { accounts: Mutex::new(accounts) }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<i32, i64>> {
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn missing(account: i32) -> Failure {
    Failure::check(format!("{NAME} has no account {account}"))
}

impl Engine for HashMapEngine {
    fn version(&self) -> &str {
        "std"
    }

    fn with_caller(&self, _: bool, work: &mut dyn FnMut(&mut dyn Caller)) -> Result<(), Failure> {
        work(&mut &*self);
        Ok(())
    }

    fn total_cents(&self) -> Result<Option<i64>, Failure> {
        Ok(Some(self.lock().values().sum()))
    }
}

impl Caller for &HashMapEngine {
    fn transfer(&mut self, from: i32, to: i32, cents: i64) -> Result<(), Failure> {
        let mut accounts = self.lock();
        *accounts.get_mut(&from).ok_or_else(|| missing(from))? -= cents;
        *accounts.get_mut(&to).ok_or_else(|| missing(to))? += cents;
        Ok(())
    }

    fn read(&mut self, account: i32) -> Result<i64, Failure> {
        self.lock().get(&account).copied().ok_or_else(|| missing(account))
    }
}
