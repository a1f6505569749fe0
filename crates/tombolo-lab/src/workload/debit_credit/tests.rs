//! Tests of the database in a store: what is loaded, what transactions do, what is undone, what the log says,
//! and that each way of tampering is noticed.

use std::collections::BTreeMap;

use tombolo_engine::procedure::Procedure;
use tombolo_engine::transaction::{Stop, execute};
use tombolo_storage::error::Error;
use tombolo_storage::memory::{Limits, MemoryStore};
use tombolo_storage::profile::{Bare, Memory, MemoryLogged, MemoryProfile};
use tombolo_storage::row::RowId;
use tombolo_storage::store::{Store, Table};
use tombolo_storage::value_log::LogBuffer;
use tombolo_storage::value_log::record::{Record, Transactions};

use super::checks::{CHECKS, checks, scale, tamper};
use super::input::Input;
use super::load::{Handles, INITIAL_BALANCE};
use super::schema::{Account, Holder};
use super::transaction::{DebitCredit, NO_BALANCE, NO_PERMISSION, NO_SUCH_ID};
use super::{Scale, code};
use crate::rows::state_hash;
use crate::workload::resolve::Resolve;
use crate::workload::{Workload, WorkloadInput};

const SCALE: Scale =
    Scale { seed: 3, branches: 3, tellers_per_branch: 7, accounts_per_branch: 8_000 };

fn loaded<P: MemoryProfile>(threads: usize) -> (MemoryStore<P>, DebitCredit) {
    let mut store = MemoryStore::<P>::new(Limits::default());
    SCALE.load_parts(&mut store, threads, |_, _, _| Ok(())).unwrap();
    let procedure = DebitCredit::bind(store.schema()).unwrap();
    (store, procedure)
}

/// Runs `inputs`; how many aborted.
fn run<S: Store>(
    store: &mut S,
    procedure: &DebitCredit,
    inputs: impl Iterator<Item = Input>,
) -> usize {
    let aborts = |input: &Input| match procedure.call(store, input) {
        Ok(_) => false,
        Err(Stop::Abort(_)) => true,
        Err(error) => panic!("{error} in {input:?}"),
    };
    inputs.filter(aborts).count()
}

fn violated<S: Store>(store: &mut S) -> Vec<&'static str> {
    let checks = checks(store).unwrap();
    assert!(checks.iter().map(|check| check.name).eq(CHECKS));
    checks.iter().filter(|check| !check.holds()).map(|check| check.name).collect()
}

fn balance<S: Store, R: Holder>(
    store: &mut S,
    table: &Table<R>,
    key: &tombolo_storage::store::Index<R::Key>,
    id: i32,
) -> i64 {
    let read = execute(store, |mut tx| {
        let row = tx.lookup(key, id)?.unwrap();
        let balance = tx.pin(table, row)?.get(R::BALANCE);
        tx.commit(balance)
    });
    read.unwrap()
}

/// The balances of an account, a teller and a branch.
fn balances<S: Store>(store: &mut S, [account, teller, branch]: [i32; 3]) -> [i64; 3] {
    let Handles { branch: b, teller: t, account: a } = Handles::resolve(store.schema()).unwrap();
    [
        balance(store, &a.table, &a.key, account),
        balance(store, &t.table, &t.key, teller),
        balance(store, &b.table, &b.key, branch),
    ]
}

#[test]
fn every_profile_and_number_of_threads_leaves_the_same_consistent_state() {
    let ((mut bare, on_bare), (mut memory, on_memory)) = (loaded::<Bare>(1), loaded::<Memory>(3));
    assert_eq!(state_hash(&mut bare).unwrap(), state_hash(&mut memory).unwrap());
    let (inputs, wrong) = (|| SCALE.inputs().take(20_000), |input: &Input| input.aborts());
    let aborted = run(&mut bare, &on_bare, inputs());
    assert_eq!(aborted, inputs().filter(wrong).count());
    assert_eq!(run(&mut memory, &on_memory, inputs()), aborted);
    assert_eq!(state_hash(&mut bare).unwrap(), state_hash(&mut memory).unwrap());
    assert_eq!((violated(&mut bare), bare.check()), (vec![], vec![]));
    assert_eq!(scale(&mut memory, SCALE.seed).unwrap(), Some(SCALE));
}

#[test]
fn an_amount_goes_to_all_three_and_an_abort_to_none() {
    let (mut store, procedure) = loaded::<Memory>(1);
    let ids = [20_000, 9, 2];
    let before = balances(&mut store, ids);
    assert_eq!(before[0], INITIAL_BALANCE);
    let good = Input { code: code(3, 20_000), account: 20_000, teller: 9, branch: 2, amount: -700 };
    assert_eq!(procedure.call(&mut store, &good), Ok(INITIAL_BALANCE - 700));
    let after = before.map(|balance| balance - 700);
    assert_eq!(balances(&mut store, ids), after);
    let mut refused = |input: Input, reason| {
        assert_eq!(procedure.call(&mut store, &input), Err(Stop::Abort(reason)));
        assert_eq!(balances(&mut store, ids), after, "{reason}");
    };
    refused(Input { code: code(3, 19_999), ..good }, NO_PERMISSION);
    refused(Input { account: 24_001, ..good }, NO_SUCH_ID);
    refused(Input { teller: 0, ..good }, NO_SUCH_ID);
    refused(Input { branch: -1, ..good }, NO_SUCH_ID);
    refused(Input { amount: -(INITIAL_BALANCE as i32), ..good }, NO_BALANCE);
    let all = Input { amount: 700 - INITIAL_BALANCE as i32, ..good };
    assert_eq!(procedure.call(&mut store, &all), Ok(0), "all there is may go");
    assert_eq!(violated(&mut store), [""; 0]);
}

/// What Figure 3's last lines ask for: an exception behind the first write restores what was saved.
#[test]
fn an_exception_after_the_first_write_is_undone() {
    let (mut store, _) = loaded::<Memory>(1);
    let before = state_hash(&mut store).unwrap();
    let Handles { teller, account, .. } = Handles::resolve(store.schema()).unwrap();
    let failed: Result<(), Stop> = execute(&mut store, |mut tx| {
        let rows = (tx.lookup(&account.key, 5)?.unwrap(), tx.lookup(&teller.key, 6)?.unwrap());
        let mut tx = tx.write();
        tx.update(&account.table, rows.0, Holder::PAID, |row| row.set(Account::BALANCE, 1))?;
        tx.update(&teller.table, rows.1, Holder::PAID, |row| row.set(Holder::BALANCE, 1))?;
        Err(Error::LogTooLong { bytes_max: 1 }.into())
    });
    assert!(failed.is_err());
    assert_eq!(state_hash(&mut store).unwrap(), before);
}

#[test]
fn tampering_breaks_one_condition_and_no_other() {
    for check in CHECKS {
        let (mut store, procedure) = loaded::<Bare>(2);
        run(&mut store, &procedure, SCALE.inputs().take(3_000));
        tamper(&mut store, check).unwrap();
        assert_eq!(violated(&mut store), [check]);
        assert_eq!(store.check(), [], "{check}: tampering must leave every structure intact");
        assert_eq!(scale(&mut store, 3).unwrap(), Some(SCALE), "it is whole all the same");
    }
    let (mut store, _) = loaded::<Bare>(1);
    let refused = tamper(&mut store, "c01").unwrap_err().to_string();
    assert!(refused.contains("use tellers, branches or overdrafts"), "{refused}");
}

#[test]
fn a_database_that_was_not_loaded_to_its_end_is_known() {
    for stored in 1..=4 {
        let (mut store, mut all) = (MemoryStore::<Bare>::new(Limits::default()), 0);
        let stopped = SCALE.load_parts(&mut store, 1, |_, done, of| {
            all = of;
            if done == stored { Err(Error::NoUndo.into()) } else { Ok(()) }
        });
        assert!(stopped.is_err());
        let found = scale(&mut store, 3).unwrap();
        assert_eq!((found.is_some(), all), (stored == all, 4), "{stored} parts: {found:?}");
    }
}

/// TPK-37: what happened to an account follows from the log, and from nothing else.
#[test]
fn the_history_of_accounts_follows_from_the_log() {
    let mut store = MemoryStore::<MemoryLogged>::new(Limits::default());
    let mut log = LogBuffer::new();
    SCALE
        .load_parts(&mut store, 1, |store, _, _| {
            log.clear();
            store.take_log(&mut log);
            Ok(())
        })
        .unwrap();
    log.clear();
    let handles = Handles::resolve(store.schema()).unwrap();
    let procedure = DebitCredit::bind(store.schema()).unwrap();
    let inputs: Vec<_> = SCALE.inputs().take(5_000).collect();
    let aborted = run(&mut store, &procedure, inputs.iter().copied());
    assert!(aborted > 0);
    store.take_log(&mut log);

    let mut balances = BTreeMap::new();
    let mut history = Vec::new();
    for records in Transactions::new(log.as_slice()) {
        let changes: Vec<_> = records.unwrap().map(|record| change(record.unwrap())).collect();
        let [account, teller, branch] = changes[..] else { panic!("{changes:?}") };
        let tables = [
            handles.account.table.position(),
            handles.teller.table.position(),
            handles.branch.table.position(),
        ];
        assert_eq!([account.0, teller.0, branch.0], tables);
        let before = balances.insert(account.1, account.2).unwrap_or(INITIAL_BALANCE);
        let id = |table: &Table<_>, row| store.pin(table, row).unwrap().get(Account::ID);
        history.push((
            id(&handles.account.table, account.1),
            teller.1,
            branch.1,
            account.2 - before,
        ));
    }
    let of_input = |input: &Input| {
        let [teller, branch] = rows_of(&mut store, &handles, input);
        (input.account, teller, branch, i64::from(input.amount))
    };
    let expected: Vec<_> = inputs.iter().filter(|input| !input.aborts()).map(of_input).collect();
    assert_eq!(history, expected);
}

/// The rows of an input's teller and branch.
fn rows_of<S: Store>(store: &mut S, handles: &Handles, input: &Input) -> [RowId; 2] {
    let found = execute(store, |mut tx| {
        let teller = tx.lookup(&handles.teller.key, input.teller)?.unwrap();
        let branch = tx.lookup(&handles.branch.key, input.branch)?.unwrap();
        tx.commit([teller, branch])
    });
    found.unwrap()
}

/// Table, row and new balance of a record.
fn change(record: Record<'_>) -> (usize, RowId, i64) {
    let Record::Updated { table, row, offset, bytes } = record else { panic!("{record:?}") };
    assert_eq!(offset, Account::BALANCE.offset());
    (table as usize, RowId::new(row.into()), i64::from_le_bytes(bytes.try_into().unwrap()))
}
