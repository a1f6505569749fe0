//! What concurrent callers of several islands see is judged: one order of all transactions explains it, those of
//! one island and those over several, also in real time.

use std::collections::BTreeMap;
use std::sync::Mutex;

use tombolo::{
    Across, Answers, AtomicCommit, Database, Error, Islands, OnIslands, Order, Part as OfIsland,
    Stop, Table, Tx,
};
use tombolo_engine::clock::{Clock, SystemClock};
use tombolo_engine::rng::Rng;
use tombolo_engine::threads::on_each;
use tombolo_verify::{Datum, Operation, Outcome, Transaction};

use super::histories::{asked, is_strictly_serializable};
use super::together::LONG;

/// A value by its key.
#[derive(Table)]
struct Cell {
    #[key]
    key: u32,
    value: i64,
}

const SESSIONS: [i64; 4] = [0, 1, 2, 3];
const ISLANDS: usize = 3;
const KEYS: u64 = 40;
/// One transaction in so many has a part that aborts after all that it did.
const ABORTS: u64 = 10;
/// Transactions that one call commits.
const SEVERAL: u64 = 3;

/// The kind of an operation that writes, and a value that no transaction leaves.
const WRITE: u64 = 7;
const TAKEN_BACK: i64 = -7;

/// An operation, drawn before it runs: its kind, its key, and what a write writes.
type Planned = (u64, u32, i64);

/// What a part does: the number of its island, its operations, and whether it aborts.
type Part = (usize, Vec<Planned>, bool);

fn plan(rng: &mut Rng, session: i64, transaction: u64) -> Vec<Planned> {
    let operation = |rng: &mut Rng, n: u64| {
        let value = (session << 32) + (8 * transaction + n) as i64;
        (rng.below(8), rng.below(KEYS) as u32, value)
    };
    (0..1 + rng.below(5)).map(|n| operation(rng, n)).collect()
}

/// The part of a transaction: it records what it sees. A range is of its own island's keys.
fn part(
    db: &Islands,
) -> impl Fn(&mut Tx<'_>, &Part) -> Result<Vec<Operation>, Stop> + Clone + use<> {
    let (cells, by_key) = (db.table::<Cell>().unwrap(), db.index::<CellKey>().unwrap());
    move |tx, (island, plan, aborts)| {
        let table = format!("cell{island}");
        let mut seen = Vec::new();
        for &(kind, key, value) in plan {
            let id = i64::from(key);
            if kind == 0 {
                let last = (key + 9).min(KEYS as u32 - 1);
                let mut rows = Vec::new();
                for row in tx.range(&by_key, key..=last, Order::Forward)? {
                    let cell = tx.read_row(&cells, row)?;
                    rows.push((Datum::from(i64::from(cell.key)), Datum::from(cell.value)));
                }
                seen.push(Operation::scan(&table, id, i64::from(last), rows));
                continue;
            }
            let found = tx.find_row(&by_key, key)?;
            let before = found.as_ref().map(|(_, cell)| Datum::from(cell.value));
            seen.push(match kind {
                1..=4 => Operation::read(&table, id, before),
                _ => {
                    tx.upsert_row(&by_key, &Cell { key, value })?;
                    Operation::write(&table, id, value).over(before)
                }
            });
        }
        if *aborts { Err(Stop::Abort("on purpose")) } else { Ok(seen) }
    }
}

/// What a transaction does, whether it aborts in the end, and its operations by island.
type Drawn = (Vec<Planned>, bool, BTreeMap<usize, Vec<Planned>>);

fn drawn(db: &Islands, rng: &mut Rng, session: i64, transaction: u64) -> Drawn {
    let planned = plan(rng, session, transaction);
    let aborts = rng.below(ABORTS) == 0;
    let mut by_island: BTreeMap<usize, Vec<Planned>> = BTreeMap::new();
    for &operation in &planned {
        let island = db.island_of(&operation.1).unwrap();
        by_island.entry(island).or_default().push(operation);
    }
    (planned, aborts, by_island)
}

/// A transaction with a part for each island, of which the last may abort; and its parts.
fn declared<'d>(
    db: &'d Islands,
    part: &'d OnIslands<Part, Vec<Operation>>,
    aborts: bool,
    by_island: BTreeMap<usize, Vec<Planned>>,
) -> (Across<'d>, Vec<OfIsland<Vec<Operation>>>) {
    let last = *by_island.keys().next_back().unwrap();
    let mut across = db.across();
    let parts = by_island.into_iter().map(|(island, plan)| {
        let (key, aborts) = (plan[0].1, aborts && island == last);
        across.part(part, &key, (island, plan, aborts)).unwrap()
    });
    let parts = parts.collect();
    (across, parts)
}

/// What a declared transaction saw.
fn seen(
    (ended, parts): (Result<Answers<'_>, Error>, Vec<OfIsland<Vec<Operation>>>),
) -> Result<Vec<Operation>, Error> {
    ended.map(|mut answers| parts.into_iter().flat_map(|part| answers.take(part)).collect())
}

/// A transaction as its session observed it.
fn observed(
    session: i64,
    (begin, end): (u64, u64),
    ended: Result<Vec<Operation>, Error>,
) -> Transaction {
    let mut one = Transaction::committed(session, begin, end, Vec::new());
    match ended {
        Ok(ops) => one.ops = ops,
        Err(Error::Aborted("on purpose")) => one.outcome = Outcome::Aborted,
        Err(other) => panic!("{other}"),
    }
    one
}

/// What the sessions saw in the history of this number, each with so many transactions after another.
fn record(db: &Islands, number: u64, transactions: u64) -> Vec<Transaction> {
    let (clock, by_closure) = (SystemClock::new(), part(db));
    let part = db.register_closure("part", by_closure.clone());
    let history = Mutex::new(Vec::new());
    on_each(SESSIONS, |session| {
        let mut rng = Rng::stream(2, &[number, session as u64]);
        for transaction in 0..transactions {
            let (planned, aborts, mut by_island) = drawn(db, &mut rng, session, transaction);
            let begin = clock.now_ns();
            let ended = if by_island.len() == 1 && rng.below(2) == 0 {
                let (island, plan) = by_island.pop_first().unwrap();
                let key = plan[0].1;
                part.at(&key).unwrap().call((island, plan, aborts))
            } else if rng.below(2) == 0 {
                db.transaction(|tx| {
                    let mut seen = Vec::new();
                    for (n, operation) in planned.iter().enumerate() {
                        let aborts = aborts && n + 1 == planned.len();
                        let island = db.island_of(&operation.1).unwrap();
                        if n % 3 == 0 {
                            // A write that is taken back: no transaction may see it.
                            let part = (island, vec![(WRITE, operation.1, TAKEN_BACK)], true);
                            let ended = tx.savepoint(|tx| {
                                tx.at(&operation.1, |tx| by_closure(tx, &part).map(drop))
                            });
                            match ended {
                                Err(Stop::Abort("on purpose")) => {}
                                other => other?,
                            }
                        }
                        let part = (island, vec![*operation], aborts);
                        seen.extend(tx.at(&operation.1, |tx| by_closure(tx, &part))?);
                    }
                    Ok(seen)
                })
            } else if rng.below(2) == 0 {
                let (across, parts) = declared(db, &part, aborts, by_island);
                seen((across.commit(), parts))
            } else {
                // Several in one call, of which each is a session's of its own: none follows another.
                let mut several = vec![declared(db, &part, aborts, by_island)];
                for n in 1..SEVERAL {
                    let (_, aborts, by_island) =
                        drawn(db, &mut rng, session, transaction + n * transactions);
                    several.push(declared(db, &part, aborts, by_island));
                }
                let (several, parts): (Vec<_>, Vec<_>) = several.into_iter().unzip();
                let mut ended = db.commit_all(several).into_iter().zip(parts).map(seen);
                let first = ended.next().unwrap();
                let others = ended.zip(1..).map(|(ended, n)| {
                    let session = session + n * SESSIONS.len() as i64;
                    observed(session, (begin, clock.now_ns()), ended)
                });
                history.lock().unwrap().extend(others);
                first
            };
            let one = observed(session, (begin, clock.now_ns()), ended);
            history.lock().unwrap().push(one);
        }
    });
    history.into_inner().unwrap()
}

fn are_strictly_serializable(transactions: u64, open: impl Fn(u64) -> Islands) {
    let transactions = asked("TOMBOLO_TRANSACTIONS", transactions) / SESSIONS.len() as u64;
    for number in 0..asked("TOMBOLO_HISTORIES", 1) {
        is_strictly_serializable(&record(&open(number), number, transactions));
    }
}

#[test]
fn one_order_explains_what_callers_of_islands_in_memory_saw() {
    let open = |_| {
        Database::builder().define::<Cell>().islands(ISLANDS).wait_max(LONG).in_memory().unwrap()
    };
    are_strictly_serializable(10_000, open);
}

#[test]
fn one_order_explains_what_durable_callers_of_islands_saw() {
    let place = tempfile::tempdir().unwrap();
    are_strictly_serializable(1_000, |number| {
        let builder = Database::builder().define::<Cell>().set("log_segment_bytes", "1 MB");
        builder.islands(ISLANDS).wait_max(LONG).open(place.path().join(number.to_string())).unwrap()
    });
}

#[test]
fn one_order_explains_what_callers_of_ordered_islands_saw() {
    let place = tempfile::tempdir().unwrap();
    are_strictly_serializable(1_000, |number| {
        let builder = Database::builder().define::<Cell>().set("log_segment_bytes", "1 MB");
        let builder = builder.islands(ISLANDS).wait_max(LONG).atomic_commit(AtomicCommit::Ordered);
        builder.open(place.path().join(number.to_string())).unwrap()
    });
}
