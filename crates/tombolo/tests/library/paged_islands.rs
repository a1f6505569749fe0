//! Islands of paged stores: a model, histories of threads, processes that are killed, directories of another kind.
//!
//! Not here: the steps of a commit (`src/paged/islands/tests.rs`).

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use tombolo::{
    Database, Error, Index, Order, PagedBuilder, PagedIslands, PagedIslandsTx, PagedTx, Range,
    Stop, StoreError, Table,
};
use tombolo_engine::clock::{Clock, SystemClock};
use tombolo_engine::rng::Rng;
use tombolo_engine::threads::on_each;
use tombolo_verify::{Datum, Operation, Outcome, Transaction};

use super::histories::{asked, is_strictly_serializable};
use super::kills::{CHILD, child};
use super::together::{until, until_one_ends};

/// A value by its key.
#[derive(Clone, Debug, PartialEq, Table)]
struct Cell {
    #[key]
    key: u32,
    value: i64,
    note: String,
}

fn paged() -> PagedBuilder {
    Database::builder().define::<Cell>().paged().pool_bytes(8 << 20)
}

struct Cells {
    db: PagedIslands,
    table: Table<Cell>,
    by_key: Index<CellKey>,
}

impl Cells {
    fn open(directory: &Path, islands: usize) -> Self {
        let db = paged().islands(islands).open(directory).unwrap();
        let (table, by_key) = (db.table().unwrap(), db.index().unwrap());
        Self { db, table, by_key }
    }

    fn find(&self, tx: &mut PagedTx<'_>, key: u32) -> Result<Option<Cell>, Stop> {
        Ok(tx.find_row(&self.by_key, key)?.map(|(_, cell)| cell))
    }

    fn put(&self, tx: &mut PagedTx<'_>, key: u32, value: i64) -> Result<(), Stop> {
        let note = "n".repeat((value % 50).unsigned_abs() as usize);
        tx.upsert_row(&self.by_key, &Cell { key, value, note }).map(drop)
    }

    fn delete(&self, tx: &mut PagedTx<'_>, key: u32) -> Result<(), Stop> {
        match tx.lookup_for_update(&self.by_key, key)? {
            Some(row) => tx.delete(&self.table, row),
            None => Ok(()),
        }
    }

    /// Two keys that are on different islands.
    fn apart(&self) -> (u32, u32) {
        let island = |key: u32| self.db.island_of(&key).unwrap();
        (0, (1..).find(|key| island(*key) != island(0)).unwrap())
    }

    /// All rows, by key.
    fn all(&self, islands: usize) -> BTreeMap<u32, i64> {
        let keys = (0..islands)
            .map(|island| (0u32..).find(|key| self.db.island_of(key).unwrap() == island).unwrap());
        let keys: Vec<u32> = keys.collect();
        let read = self.db.read(|tx| {
            let mut all = BTreeMap::new();
            for key in &keys {
                tx.at(key, |tx| {
                    for row in tx.range(&self.by_key, Range::all(), Order::Forward)? {
                        let cell = tx.read_row(&self.table, row)?;
                        assert!(all.insert(cell.key, cell.value).is_none());
                    }
                    Ok(())
                })?;
            }
            Ok(all)
        });
        read.unwrap()
    }
}

/// What a look-up of a key found.
type Found = (u32, Option<i64>);

/// A part of a transaction, behind a savepoint.
struct Part {
    /// Operations: a kind, a key, and a value to be written.
    plan: Vec<(u64, u32, i64)>,
    /// Whether a closure on an island ends it, or its own error, and all of it is undone.
    fails: Option<bool>,
}

const THIS_PART: Stop = Stop::Abort("this part");

impl Part {
    fn any(rng: &mut Rng) -> Self {
        let mut any = || (rng.below(4), rng.below(60) as u32, rng.below(1_000) as i64);
        let plan = (0..4).map(|_| any()).collect::<Vec<_>>();
        let plan = plan[..1 + rng.below(4) as usize].to_vec();
        Self { plan, fails: [None, None, Some(false), Some(true)][rng.below(4) as usize] }
    }

    fn run(
        &self,
        cells: &Cells,
        tx: &mut PagedIslandsTx<'_>,
        read: &mut Vec<Found>,
    ) -> Result<(), Stop> {
        let before = read.len();
        let ended = tx.savepoint(|tx| {
            for &(kind, key, value) in &self.plan {
                tx.at(&key, |tx| match kind {
                    0 => cells.delete(tx, key),
                    1 => {
                        let found = cells.find(tx, key)?;
                        read.push((key, found.map(|cell| cell.value)));
                        Ok(())
                    }
                    _ => cells.put(tx, key, value),
                })?;
            }
            match self.fails {
                Some(true) => {
                    // It counts, whatever becomes of it.
                    let _ = tx.at(&self.plan[0].1, |_| Err::<(), _>(THIS_PART));
                    Ok(())
                }
                Some(false) => Err(THIS_PART),
                None => Ok(()),
            }
        });
        match ended {
            Err(stop) if stop == THIS_PART && self.fails.is_some() => read.truncate(before),
            ended => assert_eq!((ended?, self.fails), ((), None)),
        }
        Ok(())
    }

    /// What it reads of a model and does to it.
    fn done_to(&self, model: &mut BTreeMap<u32, i64>) -> Vec<Found> {
        let mut read = Vec::new();
        for &(kind, key, value) in self.plan.iter().filter(|_| self.fails.is_none()) {
            match kind {
                0 => _ = model.remove(&key),
                1 => read.push((key, model.get(&key).copied())),
                _ => _ = model.insert(key, value),
            }
        }
        read
    }
}

/// Random transactions of one island and of several, that commit and abort as a whole or in part, closed or dropped in
/// between.
#[test]
fn islands_do_what_one_map_does() {
    const ISLANDS: usize = 3;
    for seed in 0..asked("TOMBOLO_HISTORIES", 2) {
        let place = tempfile::tempdir().unwrap();
        let (mut rng, mut model) = (Rng::stream(5, &[seed]), BTreeMap::new());
        for _ in 0..4 {
            let cells = Cells::open(place.path(), ISLANDS);
            assert_eq!(cells.all(ISLANDS), model);
            for _ in 0..60 {
                let mut after = model.clone();
                let parts: Vec<Part> = (0..1 + rng.below(3)).map(|_| Part::any(&mut rng)).collect();
                let aborts = rng.below(5) == 0;
                let ran = cells.db.transaction(|tx| {
                    let mut read = Vec::new();
                    parts.iter().try_for_each(|part| part.run(&cells, tx, &mut read))?;
                    if aborts { Err(Stop::Abort("on purpose")) } else { Ok(read) }
                });
                let read: Vec<_> = parts.iter().flat_map(|part| part.done_to(&mut after)).collect();
                match ran {
                    Ok(found) => {
                        assert_eq!(found, read);
                        model = after;
                    }
                    Err(error) => assert_eq!((error, aborts), (Error::Aborted("on purpose"), true)),
                }
            }
            assert_eq!(cells.all(ISLANDS), model);
            if rng.below(2) == 0 {
                cells.db.close().unwrap();
            }
        }
    }
}

/// An operation, drawn before it runs: its kind, its key, and what a write writes.
type Planned = (u64, u32, i64);

/// Carries out an operation and records what was seen. A range is of its own island's keys.
fn carry_out(
    cells: &Cells,
    tx: &mut PagedTx<'_>,
    island: usize,
    &(kind, key, value): &Planned,
) -> Result<Operation, Stop> {
    let (table, id) = (format!("cell{island}"), i64::from(key));
    if kind == 0 {
        let last = (key + 9).min(KEYS as u32 - 1);
        let mut rows = Vec::new();
        for row in tx.range(&cells.by_key, key..=last, Order::Forward)? {
            let cell = tx.read_row(&cells.table, row)?;
            rows.push((Datum::from(i64::from(cell.key)), Datum::from(cell.value)));
        }
        return Ok(Operation::scan(&table, id, i64::from(last), rows));
    }
    let before = cells.find(tx, key)?.map(|cell| Datum::from(cell.value));
    Ok(match kind {
        1..=4 => Operation::read(&table, id, before),
        _ => {
            cells.put(tx, key, value)?;
            Operation::write(&table, id, value).over(before)
        }
    })
}

const SESSIONS: [i64; 4] = [0, 1, 2, 3];
const KEYS: u64 = 40;

fn record(cells: &Cells, number: u64, transactions: u64) -> Vec<Transaction> {
    let (clock, history) = (SystemClock::new(), Mutex::new(Vec::new()));
    on_each(SESSIONS, |session| {
        let mut rng = Rng::stream(6, &[number, session as u64]);
        for transaction in 0..transactions {
            let is_local = rng.below(2) == 0;
            let planned: Vec<Planned> = (0..1 + rng.below(4))
                .map(|n| {
                    let value = (session << 32) + (8 * transaction + n) as i64;
                    (rng.below(8), rng.below(KEYS) as u32, value)
                })
                .collect();
            let aborts = rng.below(10) == 0;
            let stop = || if aborts { Err(Stop::Abort("on purpose")) } else { Ok(()) };
            let island_of = |key: u32| cells.db.island_of(&key).unwrap();
            let home = planned[0].1;
            let begin = clock.now_ns();
            let ended = match is_local {
                true => cells.db.at(&home).unwrap().transaction(|tx| {
                    let own = planned.iter().filter(|of| island_of(of.1) == island_of(home));
                    let seen = own.map(|of| carry_out(cells, tx, island_of(home), of));
                    let seen = seen.collect::<Result<Vec<_>, _>>()?;
                    stop().map(|()| seen)
                }),
                false => cells.db.transaction(|tx| {
                    let seen = planned
                        .iter()
                        .map(|of| tx.at(&of.1, |tx| carry_out(cells, tx, island_of(of.1), of)));
                    let seen = seen.collect::<Result<Vec<_>, _>>()?;
                    stop().map(|()| seen)
                }),
            };
            let mut one = Transaction::committed(session, begin, clock.now_ns(), Vec::new());
            match ended {
                Ok(ops) => one.ops = ops,
                Err(Error::Aborted("on purpose")) => one.outcome = Outcome::Aborted,
                Err(other) => panic!("{other}"),
            }
            history.lock().unwrap().push(one);
        }
    });
    history.into_inner().unwrap()
}

#[test]
fn one_order_explains_what_callers_of_paged_islands_saw() {
    let transactions = asked("TOMBOLO_TRANSACTIONS", 1_000) / SESSIONS.len() as u64;
    for number in 0..asked("TOMBOLO_HISTORIES", 1) {
        let place = tempfile::tempdir().unwrap();
        let cells = Cells::open(place.path(), 2);
        let history = record(&cells, number, transactions);
        is_strictly_serializable(&history);
        let over_islands: u64 = cells.db.statistics().iter().map(|of| of.over_islands).sum();
        assert!(over_islands > transactions / 2, "{over_islands}");
        cells.db.close().unwrap();
    }
}

/// Two transactions that wait for each other on different islands: no lock table sees it.
#[test]
fn circles_of_waits_over_islands_end() {
    let place = tempfile::tempdir().unwrap();
    let cells = Cells::open(place.path(), 2);
    let (a, b) = cells.apart();
    let (met, runs) = (std::sync::Barrier::new(2), AtomicU64::new(0));
    on_each([(a, b), (b, a)], |(first, second)| {
        let is_first_run = AtomicU64::new(0);
        let add = |tx: &mut PagedTx<'_>, key| {
            let value = cells.find(tx, key)?.map_or(0, |cell| cell.value);
            cells.put(tx, key, value + 1)
        };
        cells
            .db
            .transaction(|tx| {
                runs.fetch_add(1, Ordering::Relaxed);
                tx.at(&first, |tx| add(tx, first))?;
                if is_first_run.fetch_add(1, Ordering::Relaxed) == 0 {
                    met.wait();
                }
                tx.at(&second, |tx| add(tx, second))
            })
            .unwrap();
    });
    assert_eq!(cells.all(2).into_values().collect::<Vec<_>>(), [2, 2]);
    assert!(runs.into_inner() >= 3, "one of them ran twice");
    let gave_way: u64 = cells.db.statistics().iter().map(|of| of.lock_timeouts).sum();
    assert!(gave_way >= 1);
}

#[test]
fn what_was_answered_survives_a_kill() {
    if let Some(directory) = std::env::var_os(CHILD) {
        let cells = Cells::open(Path::new(&directory), 2);
        on_each(0..3u32, |thread| {
            let mut rng = Rng::stream(9, &[thread.into()]);
            for turn in 1.. {
                let (from, to) = (rng.below(20) as u32, rng.below(20) as u32);
                let counter = 100 + thread;
                let moved = cells.db.transaction(|tx| {
                    for (key, more) in [(from, -1), (to, 1)] {
                        tx.at(&key, |tx| {
                            let value = cells.find(tx, key)?.map_or(0, |cell| cell.value);
                            cells.put(tx, key, value + more)
                        })?;
                    }
                    tx.at(&counter, |tx| {
                        let value = cells.find(tx, counter)?.map_or(0, |cell| cell.value);
                        cells.put(tx, counter, value + 1).map(|()| value + 1)
                    })
                });
                let line = format!("ack {thread} {}\n", moved.unwrap());
                if std::io::stdout().lock().write_all(line.as_bytes()).is_err() {
                    return;
                }
                let _ = turn;
            }
        });
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let mut last = BTreeMap::new();
    let acknowledged = |line: String| {
        let (thread, value) = line.strip_prefix("ack ")?.split_once(' ')?;
        Some((thread.parse::<u32>().unwrap(), value.parse::<i64>().unwrap()))
    };
    for round in 1..=asked("TOMBOLO_KILLS", 6) {
        let mut child = child("paged_islands::what_was_answered_survives_a_kill", place.path());
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let mut acknowledgements = lines.by_ref().filter_map(acknowledged);
        last.extend(acknowledgements.by_ref().take(10 + 7 * round as usize));
        child.kill().unwrap(); // SIGKILL
        child.wait().unwrap();
        last.extend(acknowledgements);
        let cells = Cells::open(place.path(), 2);
        let found = cells.all(2);
        let moved: i64 = found.range(..100).map(|(_, value)| value).sum();
        assert_eq!(moved, 0, "each transfer is on both islands or on none");
        for (&thread, &acknowledged) in &last {
            let counted = found.get(&(100 + thread)).copied().unwrap_or(0);
            // One call of each thread was under way.
            assert!((acknowledged..=acknowledged + 1).contains(&counted), "{thread}: {counted}");
        }
        // Nothing is locked.
        let (a, b) = cells.apart();
        cells
            .db
            .transaction(|tx| {
                tx.at(&a, |tx| cells.find(tx, a).map(drop))?;
                tx.at(&b, |tx| cells.find(tx, b).map(drop))
            })
            .unwrap();
        cells.db.close().unwrap();
    }
    assert!(!last.is_empty());
}

#[test]
fn ids_of_other_islands_name_no_row() {
    let place = tempfile::tempdir().unwrap();
    let cells = Cells::open(place.path(), 2);
    let (a, b) = cells.apart();
    let refused = cells.db.transaction(|tx| {
        tx.at(&b, |tx| cells.put(tx, b, 1))?;
        let row = tx.at(&a, |tx| {
            cells.put(tx, a, 1)?;
            tx.lookup(&cells.by_key, a)
        })?;
        tx.at(&b, |tx| tx.read_row(&cells.table, row.unwrap()).map(drop))
    });
    let expected = StoreError::NoSuchRow { table: cells.table.position() as u32 };
    assert_eq!(refused, Err(Error::RefusedAt { place: "cell".to_owned(), error: expected }));
}

#[test]
fn directories_of_another_kind_are_refused() {
    let place = tempfile::tempdir().unwrap();
    let own = place.path().join("own");
    let text = |islands: usize| paged().islands(islands).open(&own).unwrap_err().to_string();
    Cells::open(&own, 2).db.close().unwrap();
    assert!(text(3).contains("holds a database of 2 islands, not 3"), "{}", text(3));
    assert!(text(1).contains("holds a database of 2 islands, not 1"), "{}", text(1));
    assert!(text(0).contains("give 1 to"), "{}", text(0));
    let ranges = paged().islands(2).ranges([10]).open(&own).unwrap_err().to_string();
    assert!(ranges.contains("spreads keys by hash, not by ranges from 10"), "{ranges}");
    let bounds = paged().islands(2).ranges([]).open(&own).unwrap_err().to_string();
    assert!(bounds.contains("2 islands have 1 bound between"), "{bounds}");
    let small = paged().pool_bytes(1 << 20).islands(2).open(&own).unwrap_err().to_string();
    assert!(small.contains("each island has at least 1 MB"), "{small}");
    // One of them, and a database of the other kind.
    let lone = paged().open(own.join("island-1")).unwrap_err().to_string();
    assert!(lone.contains("holds island 1 of a database of 2"), "{lone}");
    let whole = paged().open(&own).unwrap_err().to_string();
    assert!(whole.contains("holds a database of 2 islands"), "{whole}");
    let memory = Database::builder().define::<Cell>().islands(2).open(&own).unwrap_err();
    assert!(memory.to_string().contains("paged store"), "{memory}");
    let other = place.path().join("memory");
    Database::builder().define::<Cell>().islands(2).open(&other).unwrap().close().unwrap();
    let refused = paged().islands(2).open(&other).unwrap_err().to_string();
    assert!(refused.contains("database of the memory store"), "{refused}");
    let alone = place.path().join("alone");
    paged().open(&alone).unwrap().close().unwrap();
    let refused = paged().islands(2).open(&alone).unwrap_err().to_string();
    assert!(refused.contains("a paged database without islands"), "{refused}");
    // In use, in another's place, of another database, missing.
    let db = Cells::open(&own, 2);
    let in_use = paged().islands(2).open(&own);
    assert!(matches!(in_use, Err(Error::InUse { .. })), "{in_use:?}");
    db.db.close().unwrap();
    let [zero, one, aside] = ["island-0", "island-1", "aside"].map(|name| own.join(name));
    let rename = |from: &Path, to: &Path| std::fs::rename(from, to).unwrap();
    let other = place.path().join("other");
    Cells::open(&other, 2).db.close().unwrap();
    rename(&one, &aside);
    assert!(text(2).contains("island-1 is missing"), "{}", text(2));
    rename(&zero, &one);
    rename(&aside, &zero);
    assert!(text(2).contains("give the directory its own name again"), "{}", text(2));
    rename(&zero, &aside);
    rename(&one, &zero);
    rename(&other.join("island-1"), &one);
    assert!(text(2).contains("belongs to another database"), "{}", text(2));
    std::fs::remove_dir_all(&one).unwrap();
    rename(&aside, &one);
    Cells::open(&own, 2).db.close().unwrap();
}

/// Threads move money between islands while copies are made; each has all of a transaction, or nothing.
#[test]
fn a_backup_under_load_is_of_one_moment() {
    const ACCOUNTS: u32 = 40;
    let place = tempfile::tempdir().unwrap();
    let cells = Cells::open(&place.path().join("own"), 3);
    let rows = (0..ACCOUNTS).map(|key| Cell { key, value: 0, note: "n".repeat(2_000) });
    assert_eq!(cells.db.load(&cells.table, rows, |cell| cell.key), Ok(u64::from(ACCOUNTS)));
    let copy = |number: u64| place.path().join(format!("copy {number}"));
    let counted = [const { AtomicU64::new(0) }; 2];
    let answered = Mutex::new(Vec::new());
    until_one_ends(0..3u32, |thread, over| {
        if thread == 2 {
            for number in 0..4 {
                let is_enough = || counted[0].load(Ordering::SeqCst) >= 40 * (number + 1);
                until("transactions", || is_enough().then_some(()));
                let now = || counted.each_ref().map(|counted| counted.load(Ordering::SeqCst));
                let before = now();
                let made = cells.db.backup(copy(number)).unwrap();
                answered.lock().unwrap().push((before, now().map(|count| count + 1), made));
            }
            return;
        }
        let mut rng = Rng::stream(12, &[thread.into()]);
        while !over.is_set() {
            let [from, to] = [0, 1].map(|_| rng.below(u64::from(ACCOUNTS)) as u32);
            let add = |tx: &mut PagedTx<'_>, key, more| {
                let value = cells.find(tx, key)?.map_or(0, |cell| cell.value);
                cells.put(tx, key, value + more).map(|()| value + more)
            };
            let count = cells.db.transaction(|tx| {
                tx.at(&from, |tx| add(tx, from, -1))?;
                tx.at(&to, |tx| add(tx, to, 1))?;
                tx.at(&(100 + thread), |tx| add(tx, 100 + thread, 1))
            });
            counted[thread as usize].store(count.unwrap() as u64, Ordering::SeqCst);
        }
    });
    cells.db.close().unwrap();
    for (number, (before, after, made)) in (0..).zip(answered.into_inner().unwrap()) {
        let open = |directory: &Path| paged().islands(3).open(directory);
        let refused = open(&copy(number)).unwrap_err();
        assert!(refused.to_string().contains("holds a backup"), "{refused}");
        let restored = place.path().join(format!("restored {number}"));
        assert_eq!(PagedIslands::restore(copy(number), &restored), Ok(made));
        for _ in 0..2 {
            let cells = Cells::open(&restored, 3);
            let found = cells.all(3);
            assert_eq!(found.range(..100).map(|(_, value)| value).sum::<i64>(), 0, "{number}");
            for thread in 0..2 {
                let count = found.get(&(100 + thread as u32)).map_or(0, |count| *count as u64);
                assert!((before[thread]..=after[thread]).contains(&count), "{count} {before:?}");
            }
            cells.db.close().unwrap();
        }
        // A member of another backup is noticed.
        if number > 0 {
            let members = [number - 1, number].map(|number| copy(number).join("island-1/backup"));
            std::fs::copy(&members[0], &members[1]).unwrap();
            let refused = PagedIslands::restore(copy(number), place.path().join("mixed"));
            assert!(refused.unwrap_err().to_string().contains("is of another backup"));
        }
    }
    let own = place.path().join("own");
    let refused = Cells::open(&own, 3).db.backup(&own).unwrap_err();
    assert!(refused.to_string().contains("choose a new or an empty directory"), "{refused}");
}
