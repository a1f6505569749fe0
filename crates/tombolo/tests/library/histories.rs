//! What concurrent callers see is judged: one order of all transactions explains it, also in real time.

use std::sync::{Arc, Mutex};

use tombolo::{Database, Error, Order, RowId, Stop, Tx};
use tombolo_engine::clock::{Clock, SystemClock};
use tombolo_engine::rng::Rng;
use tombolo_engine::threads::on_each;
use tombolo_verify::{Datum, History, Holds, Level, Operation, Outcome, Transaction};

use super::{Counter, Counters, builder, open};

const SESSIONS: [i64; 4] = [0, 1, 2, 3];
const KEYS: u64 = 50;
const TABLE: &str = "counter";
/// One transaction in so many aborts after all that it did.
const ABORTS: u64 = 10;
/// The counter of commits, which is not among the keys: what it stands at is a transaction's place in their order.
const COMMITS: i32 = 1_000;

/// What a transaction does, drawn before it runs: kind of operation, key, and what a write writes.
type Plan = Vec<(u64, i32, i64)>;

fn plan(rng: &mut Rng, session: i64, transaction: u64) -> Plan {
    let operation = |rng: &mut Rng, n: u64| {
        let value = (session << 32) + (8 * transaction + n) as i64;
        (rng.below(8), rng.below(KEYS) as i32, value)
    };
    (0..1 + rng.below(6)).map(|n| operation(rng, n)).collect()
}

fn value_of(counters: &Counters, tx: &Tx<'_>, row: RowId) -> Result<i64, Stop> {
    Ok(tx.get(&counters.table, row)?.get(Counter::VALUE))
}

/// Carries a plan out and records what was seen.
fn run(counters: &Counters, tx: &mut Tx<'_>, plan: &Plan) -> Result<Vec<Operation>, Stop> {
    let mut seen = Vec::new();
    for &(kind, key, value) in plan {
        let id = i64::from(key);
        if kind == 0 {
            let last = (key + 9).min(KEYS as i32 - 1);
            let mut rows = Vec::new();
            for row in tx.range(&counters.by_id, key..=last, Order::Forward)? {
                let key = tx.get(&counters.table, row)?.get(Counter::ID);
                let value = value_of(counters, tx, row)?;
                rows.push((Datum::from(i64::from(key)), Datum::from(value)));
            }
            seen.push(Operation::scan(TABLE, id, i64::from(last), rows));
            continue;
        }
        let row = tx.lookup(&counters.by_id, key)?;
        let before = row.map(|row| value_of(counters, tx, row)).transpose()?.map(Datum::from);
        seen.push(match (kind, row) {
            (1..=3, _) | (4, None) => Operation::read(TABLE, id, before),
            (4, Some(row)) => {
                tx.delete(&counters.table, row)?;
                Operation::delete(TABLE, id).over(before)
            }
            (_, Some(row)) => {
                tx.set(&counters.table, row, Counter::VALUE, value)?;
                Operation::write(TABLE, id, value).over(before)
            }
            (_, None) => {
                tx.insert(&counters.table, |row| {
                    row.set(Counter::ID, key);
                    row.set(Counter::VALUE, value);
                })?;
                Operation::write(TABLE, id, value).over(None)
            }
        });
    }
    Ok(seen)
}

/// What the sessions saw in the history of this number, each with so many transactions after another.
fn record(db: &Database, number: u64, transactions: u64) -> Vec<Transaction> {
    let (clock, counters) = (SystemClock::new(), Counters::of(db));
    let history = Mutex::new(Vec::new());
    on_each(SESSIONS, |session| {
        let mut rng = Rng::stream(1, &[number, session as u64]);
        for transaction in 0..transactions {
            let (plan, aborts) = (plan(&mut rng, session, transaction), rng.below(ABORTS) == 0);
            let (own, seen) = (counters.clone(), Arc::new(Mutex::new(Vec::new())));
            let noted = seen.clone();
            let begin = clock.now_ns();
            let ended = db.transaction(move |tx| {
                *noted.lock().unwrap() = run(&own, tx, &plan)?;
                if aborts { Err(Stop::Abort("on purpose")) } else { own.add(tx, COMMITS) }
            });
            let end = clock.now_ns();
            let ops = std::mem::take(&mut *seen.lock().unwrap());
            let mut one = Transaction::committed(session, begin, end, ops);
            match ended {
                Ok(place) => one.commit = Some(place as u64),
                Err(Error::Aborted("on purpose")) => one.outcome = Outcome::Aborted,
                Err(other) => panic!("{other}"),
            }
            history.lock().unwrap().push(one);
        }
    });
    history.into_inner().unwrap()
}

#[track_caller]
pub(crate) fn is_strictly_serializable(history: &[Transaction]) {
    let verdict = History::of(history).unwrap().judge(Level::StrictSerializable);
    assert!(verdict.levels.of(Level::StrictSerializable) == Holds::Yes, "{verdict}");
}

/// A number from the environment (`cargo xtask histories`).
pub(crate) fn asked(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| text.parse().unwrap())
}

/// Records histories of databases that `open` opens and judges them; one of so many transactions unless the
/// environment asks for more.
fn are_strictly_serializable(transactions: u64, open: impl Fn() -> Database) {
    let transactions = asked("TOMBOLO_TRANSACTIONS", transactions) / SESSIONS.len() as u64;
    for number in 0..asked("TOMBOLO_HISTORIES", 1) {
        is_strictly_serializable(&record(&open(), number, transactions));
    }
}

#[test]
fn one_order_explains_what_callers_of_a_database_in_memory_saw() {
    are_strictly_serializable(10_000, || builder().in_memory().unwrap());
}

#[test]
fn one_order_explains_what_durable_callers_saw() {
    let place = tempfile::tempdir().unwrap();
    let opened = std::cell::Cell::new(0);
    are_strictly_serializable(2_000, || {
        opened.set(opened.get() + 1);
        open(&place.path().join(opened.get().to_string())).unwrap()
    });
}

/// The judge sees a value that changed behind a reader's back.
#[test]
fn a_read_that_is_changed_in_the_record_is_noticed() {
    let mut history = record(&builder().in_memory().unwrap(), 0, 100);
    let committed = history.iter_mut().rev().filter(|one| one.outcome == Outcome::Committed);
    let stale = committed.flat_map(|one| &mut one.ops).find_map(|op| match op {
        Operation::Read { value: value @ Some(_), .. } => Some(value),
        _ => None,
    });
    *stale.unwrap() = None;
    let verdict = History::of(&history).unwrap().judge(Level::StrictSerializable);
    assert!(verdict.levels.of(Level::StrictSerializable) != Holds::Yes, "{verdict}");
}
