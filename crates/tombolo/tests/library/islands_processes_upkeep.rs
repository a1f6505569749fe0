//! Upkeep of islands that are processes: statistics, checkpoints, backups of one moment.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};

use tombolo::{Error, Islands, Statistics};
use tombolo_engine::rng::Rng;

use super::islands::{ACCOUNTS, AccountKey, builder};
use super::islands_processes::{Bank, Branches as _, declared, stop, until_run};
use super::together::{until, until_one_ends};

/// What is on accounts, as islands of one process find it in a directory.
fn cents(directory: &Path, islands: usize, ids: &[u64]) -> Vec<i64> {
    let db: Islands = builder(islands).open(directory).unwrap();
    let by_id = db.index::<AccountKey>().unwrap();
    let cents = db.register_closure("cents", move |tx, &id: &u64| {
        Ok(tx.find_row(&by_id, id)?.map_or(0, |(_, account)| account.cents))
    });
    ids.iter().map(|id| cents.at(id).unwrap().call(*id).unwrap()).collect()
}

#[test]
fn a_backup_of_processes_under_load_is_of_one_moment() {
    let test = "islands_processes_upkeep::a_backup_of_processes_under_load_is_of_one_moment";
    let declared = declared(test, 3);
    let place = tempfile::tempdir().unwrap();
    let bank = Bank::open(declared, &place.path().join("own"));
    bank.give_all(1_000);
    // No transfer uses these, which are on different islands.
    let first = 1_000;
    let next = (first..).find(|id| bank.db.island_of(id) != bank.db.island_of(&first)).unwrap();
    let copy = |number: usize| place.path().join(format!("copy {number}"));
    let counted = AtomicI64::new(0);
    let answered = until_one_ends(0..4u64, |thread, over| {
        let mut answered = Vec::new();
        match thread {
            // Counts on one island, then on the other, each answered before the next.
            0 => {
                while !over.is_set() {
                    let count = bank.book(first, 1).unwrap();
                    assert_eq!(bank.book(next, 1), Ok(count));
                    counted.store(count, Ordering::SeqCst);
                }
            }
            1 => {
                for number in 0..6 {
                    let before = counted.load(Ordering::SeqCst);
                    let made = bank.db.backup(copy(number)).unwrap();
                    answered.push((before..=counted.load(Ordering::SeqCst) + 1, made));
                    bank.db.checkpoint().unwrap();
                }
            }
            _ => {
                let mut random = Rng::stream(29, &[thread]);
                while !over.is_set() {
                    let moved = bank.transfer(random.below(ACCOUNTS), random.below(ACCOUNTS), 1);
                    assert!(matches!(moved, Ok(_) | Err(Error::Aborted(_))), "{moved:?}");
                }
            }
        }
        answered
    });
    let written = bank.db.statistics().into_iter().map(|of| of.unwrap().checkpoints);
    assert!(written.min() >= Some(6));
    bank.db.close().unwrap();
    for (number, (range, made)) in answered.into_iter().flatten().enumerate() {
        let restored = place.path().join(format!("restored {number}"));
        assert_eq!(Islands::restore(copy(number), &restored), Ok(made));
        let ids: Vec<u64> = (0..ACCOUNTS).chain([first, next]).collect();
        let mut cents = cents(&restored, 3, &ids);
        let (next, first) = (cents.pop().unwrap(), cents.pop().unwrap());
        assert_eq!(cents.iter().sum::<i64>(), 1_000 * ACCOUNTS as i64, "copy {number}");
        assert!(range.contains(&next), "copy {number}: {next} {range:?}");
        assert!((0..=1).contains(&(first - next)), "copy {number}: {first} {next}");
    }
}

#[test]
fn what_cannot_be_backed_up_is_reported_and_nothing_is_left_of_it() {
    // Its processes are made to hang.
    let test =
        "islands_processes_upkeep::what_cannot_be_backed_up_is_reported_and_nothing_is_left_of_it";
    let (db, to) = declared(test, 2);
    let place = tempfile::tempdir().unwrap();
    let path = |name: &str| place.path().join(name);
    let bank = Bank::open((db.silence_max(std::time::Duration::from_secs(5)), to), &path("own"));
    bank.give_all(5);
    let says = |refused: Result<Vec<tombolo::Backup>, Error>, what: &str| {
        let text = refused.unwrap_err().to_string();
        assert!(text.contains(what), "{text}");
    };
    says(bank.db.backup(path("own")), "holds island-0: choose a new or an empty directory");
    bank.db.backup(path("copy")).unwrap();
    says(bank.db.backup(path("copy")), "holds island-0: choose a new or an empty directory");
    // A process that hangs: the copy of the other one goes, too, and checkpoints are written again.
    assert!(stop(bank.db.process_of(1).unwrap()));
    says(bank.db.backup(path("hung")), "did not answer");
    assert_eq!(fs::read_dir(path("hung")).unwrap().count(), 0);
    until_run(|| bank.money()).unwrap();
    bank.db.checkpoint().unwrap();
    bank.db.backup(path("hung")).unwrap();
    let money = bank.money();
    bank.db.close().unwrap();
    Islands::restore(path("hung"), path("restored")).unwrap();
    let ids: Vec<u64> = (0..ACCOUNTS).collect();
    assert_eq!(Ok(cents(&path("restored"), 2, &ids).iter().sum()), money);
}

#[test]
fn statistics_of_processes_are_those_of_islands() {
    let test = "islands_processes_upkeep::statistics_of_processes_are_those_of_islands";
    let (db, to) = declared(test, 2);
    let bank = Bank { db: db.in_memory().unwrap(), to };
    let (a, b) = bank.apart();
    bank.give_all(100);
    let of_each = || until_run(|| bank.db.statistics().into_iter().collect::<Result<Vec<_>, _>>());
    let before = Statistics::sum(&of_each().unwrap());
    assert_eq!((before.committed, before.over_islands), (ACCOUNTS, 0));
    for _ in 0..3 {
        bank.transfer(a, b, 1).unwrap();
    }
    bank.transfer(b, a, 1_000).unwrap_err();
    bank.book(a, -1_000).unwrap_err();
    let of_each = of_each().unwrap();
    let all = Statistics::sum(&of_each);
    assert_eq!((all.committed, all.aborted, all.over_islands), (ACCOUNTS + 3, 2, 3));
    assert_eq!(all.over_islands_by_messages, 3);
    assert_eq!(of_each[bank.db.island_of(&a).unwrap()].over_islands, 3, "where they began");
    assert!(of_each.iter().all(|of| of.memory_bytes > 0));
    let refused = bank.db.backup("copy").unwrap_err().to_string();
    assert!(refused.contains("in memory"), "{refused}");
    assert!(bank.db.checkpoint().unwrap_err().to_string().contains("checkpoints are off"));
    // Those of an island without a process are not there; the others are.
    let stopped = bank.db.island_of(&a).unwrap();
    assert!(bank.kill(stopped));
    let has_stopped = || bank.db.statistics()[stopped] == Err(Error::IslandStopped(stopped));
    until("it stops", || has_stopped().then_some(()));
    assert!(bank.db.statistics()[1 - stopped].is_ok());
}
