//! Calls of registered procedures allocate nothing once they are warm, on no thread.
//!
//! A counting allocator watches the whole process: the calling thread, execution, logging, output.
//! What structures of the store take is warmed up by touching the same rows. One test only: the
//! counter is the process's.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

#[path = "../../tombolo-lab/tests/counting_allocator/mod.rs"]
mod counting_allocator;

use std::path::Path;

use tombolo::procedure::{Committed, Index, Procedure, Reading, SchemaError, Store, Table};
use tombolo::procedure::{resolve_index, resolve_table};
use tombolo::{Builder, CallOptions, Database, Fields, Registered, Schema, TableDef};

use counting_allocator::allocations_so_far;

tombolo::table! {
    /// Accounts.
    struct Account = "account" { ID: Integer; BALANCE: BigInt; }
}
tombolo::index! {
    /// By number.
    struct ById = "account_by_id" on Account (ID: Integer) unique Tree;
}

const BALANCE: Fields<Account> = Fields::none().with(Account::BALANCE);

/// Adds to an account that is there.
struct Deposit {
    accounts: Table<Account>,
    by_id: Index<ById>,
}

impl Procedure for Deposit {
    type Input = (i32, i64);
    type Answer = i64;

    fn bind(schema: &Schema) -> Result<Self, SchemaError> {
        Ok(Self { accounts: resolve_table(schema)?, by_id: resolve_index(schema)? })
    }

    fn run<S: Store>(
        &self,
        mut tx: Reading<'_, S>,
        &(id, amount): &(i32, i64),
    ) -> Result<Committed<i64>, tombolo::procedure::Stop> {
        let Some(row) = tx.lookup(&self.by_id, id)? else { return tx.abort("no account") };
        let balance = tx.pin(&self.accounts, row)?.get(Account::BALANCE) + amount;
        let mut tx = tx.write();
        tx.update(&self.accounts, row, BALANCE, |row| row.set(Account::BALANCE, balance))?;
        tx.commit(balance)
    }
}

const ACCOUNTS: i32 = 50;
const IN_FLIGHT: i32 = 32;
/// Calls that abort, for each account.
const ABORTED: i32 = 20;

/// Rounds in memory: buffers that wait in a pool grow one by one, until the last has seen the most.
const ROUNDS: usize = 50;
/// Calls of a round.
const CALLS: u64 = (ACCOUNTS * (2 + ABORTED + IN_FLIGHT)) as u64;

/// Makes them, in all the ways that need no vector of the caller's own.
fn calls(deposit: &Registered<(i32, i64), i64>) {
    let early = deposit.with(CallOptions::new().early());
    for id in 0..ACCOUNTS {
        deposit.call((id, 1)).unwrap();
        early.call((id, 1)).unwrap().into_inner();
        // Batches that log nothing give their buffer back all the same.
        for _ in 0..ABORTED {
            assert!(deposit.call((ACCOUNTS, 1)).is_err(), "there is no such account");
        }
        let mut pending = [const { None }; IN_FLIGHT as usize];
        for call in &mut pending {
            *call = Some(deposit.try_submit((id, 1)).unwrap());
        }
        let answers = pending.into_iter().flatten().map(|call| call.wait().unwrap());
        assert!(answers.is_sorted(), "calls of a thread run in their order");
    }
}

/// Allocations and flushes of the round of calls that allocated least: which calls meet in a batch
/// is chance, and vectors grow until they have seen the most.
fn least(builder: Builder, directory: Option<&Path>) -> (u64, u64) {
    let table = TableDef::of::<Account>().with::<ById>();
    let builder = builder.table(table);
    let db = match directory {
        Some(directory) => builder.open(directory).unwrap(),
        None => builder.in_memory().unwrap(),
    };
    let (accounts, deposit) = (db.table::<Account>().unwrap(), db.register::<Deposit>().unwrap());
    let filled = db.transaction(move |tx| {
        for id in 0..ACCOUNTS {
            tx.insert(&accounts, |row| row.set(Account::ID, id))?;
        }
        Ok(())
    });
    filled.unwrap();
    // Each flush takes its time.
    let rounds = if directory.is_some() { ROUNDS / 4 } else { ROUNDS };
    let rounds = (0..rounds).map(|_| {
        let flushes = db.statistics().flushes;
        let before = allocations_so_far();
        calls(&deposit);
        let allocations = allocations_so_far() - before;
        (allocations, db.statistics().flushes - flushes)
    });
    rounds.min().unwrap()
}

#[test]
fn calls_of_registered_procedures_allocate_nothing() {
    let place = tempfile::tempdir().unwrap();
    for threads in [1, 2, 3] {
        let builder = Database::builder().threads(threads).set("log_segment_bytes", "8 MB");
        assert_eq!(least(builder.clone(), None).0, 0, "with {threads} threads");
        // Once a flush: the list of what the log writes, and what the checkpoint stage is handed.
        let directory = place.path().join(threads.to_string());
        let (allocations, flushes) = least(builder, Some(&directory));
        assert!(
            2 * allocations <= 5 * flushes,
            "{allocations}, {flushes} flushes, {threads} threads"
        );
        assert!(flushes < CALLS / 4, "{flushes} flushes tell nothing");
    }
}
