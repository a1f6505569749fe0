//! Ordered execution: transactions over several islands that are on all of them or on none, and nothing that saw them
//! is answered before that is certain.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;

use tombolo::{AtomicCommit, Database, Error, Islands, OnIslands, Table};
use tombolo_engine::rng::Rng;
use tombolo_engine::threads::on_each;
use tombolo_storage::plant::{self, Plant};

use super::histories::asked;
use super::islands::{ACCOUNTS, Bank, apart, builder};
use super::kills::{CHILD, child};
use super::together::LONG;

/// Plants the bug that is asked for: `TOMBOLO_PLANT=ordered-not-cut-off` in a build with `--cfg tombolo_plants`. A test
/// here then fails.
fn plant_a_bug() {
    if let Ok(name) = std::env::var("TOMBOLO_PLANT") {
        plant::choose(Plant::named(&name).unwrap());
    }
}

fn open(directory: &Path, islands: usize) -> Bank {
    plant_a_bug();
    Bank::new(builder(islands).atomic_commit(AtomicCommit::Ordered).open(directory).unwrap())
}

fn ordered(db: &Islands) -> u64 {
    db.statistics().iter().map(|one| one.over_islands_ordered).sum()
}

#[test]
fn ordered_transactions_commit_on_all_islands_or_on_none_and_stay() {
    let place = tempfile::tempdir().unwrap();
    let bank = open(place.path(), 3);
    bank.give_all(100);
    let (a, b) = apart(&bank.db);
    assert_eq!(bank.transfer(a, b, 30), Ok((70, 130)));
    assert_eq!(bank.transfer(a, b, 71), Err(Error::Aborted("not enough money")));
    assert_eq!(bank.transfer_by_closure(b, a, 50), Ok((80, 120)));
    assert_eq!(ordered(&bank.db), 2, "a transaction that aborts, or only reads, has no number");
    assert_eq!(bank.money(), 100 * ACCOUNTS as i64);
    assert_eq!(ordered(&bank.db), 2);
    bank.db.close().unwrap();
    // The other way to commit finds the same, and leaves what the first one can go on with.
    let bank = Bank::open(place.path(), 3);
    assert_eq!(bank.transfer(a, b, 20), Ok((100, 100)));
    assert_eq!(ordered(&bank.db), 0);
    bank.db.close().unwrap();
    let bank = open(place.path(), 3);
    assert_eq!(bank.transfer(a, b, 10), Ok((90, 110)));
    assert_eq!((ordered(&bank.db), bank.money()), (1, 100 * ACCOUNTS as i64));
}

#[test]
fn islands_in_memory_have_nothing_to_flush() {
    let db = builder(2).atomic_commit(AtomicCommit::Ordered).in_memory().unwrap();
    let bank = Bank::new(db);
    let (a, b) = apart(&bank.db);
    bank.give_all(100);
    assert_eq!(bank.transfer(a, b, 30), Ok((70, 130)));
    assert_eq!(ordered(&bank.db), 0);
}

/// Copies a directory of files.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for file in fs::read_dir(from).unwrap().map(Result::unwrap) {
        fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
}

#[test]
fn a_transaction_that_an_island_lacks_is_cut_off_on_the_others() {
    let place = tempfile::tempdir().unwrap();
    let (own, left) = (place.path().join("own"), place.path().join("left"));
    let bank = open(&own, 3);
    let (a, b) = apart(&bank.db);
    bank.give_all(100);
    bank.transfer(a, b, 1).unwrap();
    // What a loss of power would leave if island b had not flushed its last group.
    let island = |key: u64| format!("island-{}", bank.db.island_of(&key).unwrap());
    copy(&own.join(island(b)), &left.join(island(b)));
    bank.transfer(a, b, 10).unwrap();
    for name in (0..3).map(|island| format!("island-{island}")).filter(|name| *name != island(b)) {
        copy(&own.join(&name), &left.join(&name));
    }
    bank.db.close().unwrap();
    for _ in 0..2 {
        let bank = open(&left, 3);
        let cents = |id: u64| bank.book.at(&id).unwrap().call((id, 0)).unwrap();
        assert_eq!((cents(a), cents(b)), (99, 101));
        assert_eq!(bank.money(), 100 * ACCOUNTS as i64);
        bank.transfer(a, b, 5).unwrap();
        bank.transfer(b, a, 5).unwrap();
        bank.db.close().unwrap();
    }
}

/// How often a key was counted.
#[derive(Table)]
struct Count {
    #[key]
    key: u64,
    count: i64,
}

struct Counting {
    db: Islands,
    add: OnIslands<(u64, i64), i64>,
}

/// Keys on each of three islands.
const KEYS: [u64; 6] = [0, 100, 200, 1, 101, 201];

impl Counting {
    fn open(directory: &Path) -> Self {
        plant_a_bug();
        let builder = Database::builder().define::<Count>().set("log_segment_bytes", "1 MB");
        let builder = builder
            .set("checkpoint_log_bytes", "64 KB")
            .islands(3)
            .wait_max(LONG)
            .ranges([100, 200]);
        let db = builder.atomic_commit(AtomicCommit::Ordered).open(directory).unwrap();
        let by_key = db.index::<CountKey>().unwrap();
        let add = db.register_closure("add", move |tx, &(key, by): &(u64, i64)| {
            let count = tx.find_row(&by_key, key)?.map_or(0, |(_, row)| row.count) + by;
            tx.upsert_row(&by_key, &Count { key, count })?;
            Ok(count)
        });
        Self { db, add }
    }

    fn count(&self, key: u64) -> i64 {
        self.add.at(&key).unwrap().call((key, 0)).unwrap()
    }

    /// Counts two keys in one transaction: these have been counted equally often.
    fn count_both(&self, one: u64, other: u64) -> i64 {
        let mut across = self.db.across();
        let first = across.part(&self.add, &one, (one, 1)).unwrap();
        let second = across.part(&self.add, &other, (other, 1)).unwrap();
        let mut answers = across.commit().unwrap();
        let (first, second) = (answers.take(first), answers.take(second));
        assert_eq!(first, second);
        first
    }
}

/// Two threads count pairs of keys on two islands each; others read one of the keys, on its island only. Every value
/// that any of them was answered survives a kill on both islands.
#[test]
fn killed_islands_keep_what_calls_of_one_island_saw() {
    if let Some(directory) = std::env::var_os(CHILD) {
        let counting = Counting::open(directory.as_ref());
        println!("open");
        on_each(0..6u64, |thread| {
            let mut random = Rng::stream(u64::from(std::process::id()), &[thread]);
            loop {
                let pair = random.below(3) as usize;
                let (one, other) = [(0, 101), (100, 201), (200, 1)][pair];
                let (key, count) = match thread % 3 {
                    0 => (one, counting.count_both(one, other)),
                    1 => (one, counting.count(one)),
                    _ => (other, counting.count(other)),
                };
                let line = format!("ack {key} {count}\n");
                if std::io::stdout().lock().write_all(line.as_bytes()).is_err() {
                    return;
                }
            }
        });
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let mut last: BTreeMap<u64, i64> = BTreeMap::new();
    let mut random = Rng::stream(7, &[0]);
    for round in 1..=asked("TOMBOLO_KILLS", 8) {
        let test = "islands_ordered::killed_islands_keep_what_calls_of_one_island_saw";
        let mut child = child(test, place.path());
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        assert!(lines.any(|line| line.ends_with("open")));
        let printed = lines.by_ref().take(50 + random.below(400) as usize).collect::<Vec<_>>();
        child.kill().unwrap(); // SIGKILL
        child.wait().unwrap();
        for line in printed.into_iter().chain(lines) {
            let Some((key, count)) =
                line.strip_prefix("ack ").and_then(|count| count.split_once(' '))
            else {
                continue;
            };
            let (key, count) = (key.parse().unwrap(), count.parse::<i64>().unwrap());
            let known = last.entry(key).or_default();
            *known = count.max(*known);
        }
        let counting = Counting::open(place.path());
        for (one, other) in [(0, 101), (100, 201), (200, 1)] {
            let (first, second) = (counting.count(one), counting.count(other));
            assert_eq!(first, second, "round {round}: {one} and {other}");
            let answered = last.get(&one).max(last.get(&other)).copied().unwrap_or_default();
            assert!(first >= answered, "round {round}: {one}: {first} {answered}");
        }
        assert!(KEYS.iter().all(|key| counting.count(*key) >= 0));
        counting.db.close().unwrap();
    }
}
