//! Calls of LMDB (docs/compare.md).
//!
//! Accounts are a tree. Writers wait for each other inside of LMDB; each reader has a slot of its own. Not here: the
//! environment, and what makes its commits durable (`compare/lmdb.rs`).

use heed::{Env, PutFlags};

use super::{ACCOUNTS, CENTS_EACH, Caller, Engine, Opening};
use crate::compare::lmdb::{self, Tree, failed};
use crate::compare::made;
use crate::failure::Failure;

/// Room in the map: far more than the accounts and the pages that commits copy take.
const MAP_BYTES: usize = 1 << 30;

/// An LMDB environment.
pub(super) struct Lmdb {
    environment: Env,
    accounts: Tree,
    version: String,
    is_durable: bool,
}

fn missing(account: i32) -> Failure {
    Failure::check(format!("lmdb has no account {account}"))
}

fn key(account: i32) -> [u8; 4] {
    (account as u32).to_ne_bytes()
}

fn cents_in(value: &[u8], account: i32) -> Result<i64, Failure> {
    value.try_into().map(i64::from_ne_bytes).map_err(|_| missing(account))
}

impl Lmdb {
    /// Makes a database and loads it.
    ///
    /// # Errors
    /// When LMDB refuses.
    pub(super) fn open(opening: &Opening<'_>) -> Result<Self, Failure> {
        let directory = made(opening.directory)?;
        let (environment, [accounts]) =
            lmdb::make(directory, MAP_BYTES, ["account"], opening.is_durable)?;
        let mut transaction = environment.write_txn().map_err(failed)?;
        for id in 0..ACCOUNTS {
            let cents = CENTS_EACH.to_ne_bytes();
            let put = accounts.put_with_flags(&mut transaction, PutFlags::APPEND, &key(id), &cents);
            put.map_err(failed)?;
        }
        transaction.commit().map_err(failed)?;
        let (version, is_durable) = (lmdb::version(), opening.is_durable);
        Ok(Self { environment, accounts, version, is_durable })
    }
}

impl Engine for Lmdb {
    fn version(&self) -> &str {
        &self.version
    }

    fn note(&self) -> Option<&str> {
        Some(match self.is_durable {
            true => "a file, each commit synced",
            false => "a file in the directory of the comparison, MDB_NOSYNC, a writable map",
        })
    }

    fn with_caller(&self, _: bool, work: &mut dyn FnMut(&mut dyn Caller)) -> Result<(), Failure> {
        work(&mut &*self);
        Ok(())
    }

    fn total_cents(&self) -> Result<Option<i64>, Failure> {
        let transaction = self.environment.read_txn().map_err(failed)?;
        let mut cents = 0;
        for (id, row) in self.accounts.iter(&transaction).map_err(failed)?.enumerate() {
            cents += cents_in(row.map_err(failed)?.1, id as i32)?;
        }
        Ok(Some(cents))
    }
}

impl Caller for &Lmdb {
    fn transfer(&mut self, from: i32, to: i32, cents: i64) -> Result<(), Failure> {
        let mut transaction = self.environment.write_txn().map_err(failed)?;
        for (id, change) in [(from, -cents), (to, cents)] {
            let found = self.accounts.get(&transaction, &key(id)).map_err(failed)?;
            let cents = cents_in(found.ok_or_else(|| missing(id))?, id)? + change;
            let put = self.accounts.put(&mut transaction, &key(id), &cents.to_ne_bytes());
            put.map_err(failed)?;
        }
        transaction.commit().map_err(failed)
    }

    fn read(&mut self, account: i32) -> Result<i64, Failure> {
        let transaction = self.environment.read_txn().map_err(failed)?;
        let found = self.accounts.get(&transaction, &key(account)).map_err(failed)?;
        cents_in(found.ok_or_else(|| missing(account))?, account)
    }
}
