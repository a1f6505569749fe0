//! What threads saw whose transactions ran at the same time is judged: one order of all transactions explains it.
//!
//! Not here: closures against a model (`tx/tests.rs`), the library as an application uses it
//! (`tests/library/paged.rs`).

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use tombolo_engine::rng::Rng;
use tombolo_engine::threads::on_each;
use tombolo_storage::store::Order;
use tombolo_verify::{Datum, History, Holds, Level, Operation, Outcome, Transaction};

use super::database::How;
use super::*;
use crate::{Database, Error, Index, Stop, Table};
use tombolo_engine::clock::{Clock, SystemClock};

/// A value by its key.
#[derive(Table)]
#[table(name = "cell")]
struct Cell {
    #[key]
    key: i32,
    value: i64,
}

struct Handles {
    table: Table<Cell>,
    by_key: Index<CellKey>,
}

impl Handles {
    fn of(db: &PagedDatabase) -> Self {
        Self { table: db.table().unwrap(), by_key: db.index().unwrap() }
    }
}

/// The place in the order of commits: those that only read come behind the commit that was the newest.
fn place_of(committed_at: u64, ops: &[Operation], readers: &AtomicU64) -> u64 {
    let is_change =
        |op: &Operation| matches!(op, Operation::Write { .. } | Operation::Delete { .. });
    let behind = match ops.iter().any(is_change) {
        true => 0,
        false => 1 + readers.fetch_add(1, Ordering::Relaxed) % 0xFFFF,
    };
    (committed_at << 16) + behind
}

const KEYS: u64 = 50;
const TABLE: &str = "cell";

/// Carries out a plan and records what was seen.
fn carry_out(
    own: &Handles,
    tx: &mut PagedTx<'_>,
    plan: &[(u64, i32, i64)],
) -> Result<Vec<Operation>, Stop> {
    let value_of = |tx: &PagedTx<'_>, row| -> Result<Datum, Stop> {
        Ok(Datum::from(tx.get(&own.table, row)?.get(Cell::VALUE)))
    };
    let mut seen = Vec::new();
    for &(kind, key, value) in plan {
        let id = i64::from(key);
        if kind == 0 {
            let last = (key + 9).min(KEYS as i32 - 1);
            let mut rows = Vec::new();
            for row in tx.range(&own.by_key, key..=last, Order::Forward)? {
                let key = i64::from(tx.get(&own.table, row)?.get(Cell::KEY));
                rows.push((Datum::from(key), value_of(tx, row)?));
            }
            seen.push(Operation::scan(TABLE, id, i64::from(last), rows));
            continue;
        }
        let row = tx.lookup(&own.by_key, key)?;
        let before = row.map(|row| value_of(tx, row)).transpose()?;
        seen.push(match (kind, row) {
            (1..=3, _) | (4, None) => Operation::read(TABLE, id, before),
            (4, Some(row)) => {
                tx.delete(&own.table, row)?;
                Operation::delete(TABLE, id).over(before)
            }
            (_, Some(row)) => {
                tx.set(&own.table, row, Cell::VALUE, value)?;
                Operation::write(TABLE, id, value).over(before)
            }
            (_, None) => {
                tx.insert(&own.table, |row| {
                    row.set(Cell::KEY, key);
                    row.set(Cell::VALUE, value);
                })?;
                Operation::write(TABLE, id, value).over(None)
            }
        });
    }
    Ok(seen)
}

/// What four threads see, whose transactions meet each other's rows, gaps and pages.
fn record(
    db: &PagedDatabase,
    isolation: Isolation,
    number: u64,
    transactions: u64,
) -> Vec<Transaction> {
    let (clock, own, history) = (SystemClock::new(), Handles::of(db), Mutex::new(Vec::new()));
    let readers = AtomicU64::new(0);
    on_each(0..4_i64, |session| {
        let mut rng = Rng::stream(3, &[number, session as u64]);
        for transaction in 0..transactions {
            let plan: Vec<_> = (0..1 + rng.below(5))
                .map(|n| {
                    let value = (session << 32) + (8 * transaction + n) as i64;
                    (rng.below(8), rng.below(KEYS) as i32, value)
                })
                .collect();
            let aborts = rng.below(10) == 0;
            let seen = Mutex::new(Vec::new());
            let begin = clock.now_ns();
            let ended = db.run_again(How::writing(isolation), |tx| {
                *seen.lock().unwrap() = carry_out(&own, tx, &plan)?;
                if aborts { Err(Stop::Abort("on purpose")) } else { Ok(()) }
            });
            let ops = seen.into_inner().unwrap();
            let mut one = Transaction::committed(session, begin, clock.now_ns(), ops);
            match ended {
                Ok(((), place)) => one.commit = Some(place_of(place, &one.ops, &readers)),
                Err(Error::Aborted("on purpose")) => one.outcome = Outcome::Aborted,
                // Another thread has inserted the key since it was not found.
                Err(Error::Duplicate { .. }) if isolation == Isolation::ReadCommitted => {
                    one.outcome = Outcome::Aborted;
                }
                Err(other) => panic!("{other}"),
            }
            history.lock().unwrap().push(one);
        }
    });
    history.into_inner().unwrap()
}

/// A number from the environment (`cargo xtask histories`).
fn asked(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| text.parse().unwrap())
}

/// Whether histories of so many transactions keep a level at this isolation.
fn keeps(level: Level, isolation: Isolation) {
    let transactions = asked("TOMBOLO_TRANSACTIONS", 2_000) / 4;
    for number in 0..asked("TOMBOLO_HISTORIES", 1) {
        let place = tempfile::tempdir().unwrap();
        let db = Database::builder().define::<Cell>().paged().open(place.path()).unwrap();
        let history = record(&db, isolation, number, transactions);
        let verdict = History::of(&history).unwrap().judge(level);
        assert!(verdict.levels.of(level) == Holds::Yes, "{verdict}");
        assert!(db.statistics().committed > transactions);
        db.close().unwrap();
    }
}

#[test]
fn one_order_explains_what_threads_saw() {
    keeps(Level::StrictSerializable, Isolation::Serializable);
}

#[test]
fn read_committed_shows_what_is_committed() {
    keeps(Level::ReadCommitted, Isolation::ReadCommitted);
}
