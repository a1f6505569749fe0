//! Backups of islands made while transactions over several of them run, restored, and what is refused.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};

use tombolo::{AtomicCommit, Database, Error, Islands, OnIslands, Restore, Table};
use tombolo_engine::rng::Rng;

use super::islands::{ACCOUNTS, AccountKey, Bank, apart, builder};
use super::together::{LONG, until, until_one_ends};

/// What a thread has counted.
#[derive(Table)]
struct Tally {
    #[key]
    id: u64,
    count: i64,
}

fn open(directory: &Path, commit: AtomicCommit) -> Bank {
    let tables = Database::builder().define::<super::islands::Account>().define::<Tally>();
    let small = tables.set("log_segment_bytes", "1 MB").set("checkpoint_log_bytes", "64 KB");
    Bank::new(small.islands(3).wait_max(LONG).atomic_commit(commit).open(directory).unwrap())
}

/// Adds to a tally, and returns what it is then.
fn tallying(bank: &Bank) -> OnIslands<(u64, i64), i64> {
    let by_id = bank.db.index::<TallyKey>().unwrap();
    bank.db.register_closure("tally", move |tx, &(id, by): &(u64, i64)| {
        let count = tx.find_row(&by_id, id)?.map_or(0, |(_, tally)| tally.count) + by;
        tx.upsert_row(&by_id, &Tally { id, count })?;
        Ok(count)
    })
}

#[test]
fn a_backup_under_load_is_of_one_moment() {
    backups_under_load_are_of_one_moment(AtomicCommit::TwoPhase);
}

#[test]
fn a_backup_under_load_of_ordered_transactions_is_of_one_moment() {
    backups_under_load_are_of_one_moment(AtomicCommit::Ordered);
}

fn backups_under_load_are_of_one_moment(commit: AtomicCommit) {
    let place = tempfile::tempdir().unwrap();
    let bank = open(&place.path().join("own"), commit);
    bank.give_all(1_000);
    let tally = tallying(&bank);
    let (a, b) = apart(&bank.db);
    let copy = |number: usize| place.path().join(format!("copy {number}"));
    let counted = AtomicI64::new(0);
    let answered = until_one_ends(0..4u64, |thread, over| {
        let mut answered = Vec::new();
        match thread {
            // Counts on one island, then on the other, each answered before the next.
            0 => {
                while !over.is_set() {
                    let first = tally.at(&a).unwrap().call((a, 1)).unwrap();
                    assert_eq!(tally.at(&b).unwrap().call((b, 1)), Ok(first));
                    counted.store(first, Ordering::SeqCst);
                }
            }
            1 => {
                let written = || bank.db.statistics().iter().map(|one| one.checkpoints).min();
                for number in 0..4 {
                    until("checkpoints", || (written() >= Some(number)).then_some(()));
                    let before = counted.load(Ordering::SeqCst);
                    let made = bank.db.backup(copy(number as usize)).unwrap();
                    answered.push((before..=counted.load(Ordering::SeqCst) + 1, made));
                }
            }
            _ => {
                let mut random = Rng::stream(23, &[thread]);
                while !over.is_set() {
                    let (from, to) = (random.below(ACCOUNTS), random.below(ACCOUNTS));
                    let moved = match thread {
                        2 => bank.transfer(from, to, 1),
                        _ => bank.transfer_by_closure(from, to, 1),
                    };
                    assert!(matches!(moved, Ok(_) | Err(Error::Aborted(_))), "{moved:?}");
                }
            }
        }
        answered
    });
    bank.db.close().unwrap();
    for (number, (range, made)) in answered.into_iter().flatten().enumerate() {
        let restored = place.path().join(format!("restored {number}"));
        assert_eq!(Islands::restore(copy(number), &restored), Ok(made));
        for _ in 0..2 {
            let bank = open(&restored, commit);
            assert_eq!(bank.money(), 1_000 * ACCOUNTS as i64, "copy {number}");
            let tally = tallying(&bank);
            let count = |id: u64| tally.at(&id).unwrap().call((id, 0)).unwrap();
            let (first, next) = (count(a), count(b));
            assert!(range.contains(&next), "copy {number}: {next} {range:?}");
            assert!((0..=1).contains(&(first - next)), "copy {number}: {first} {next}");
            assert!(bank.transfer(0, 1, 1).is_ok());
            bank.db.close().unwrap();
        }
    }
}

#[test]
fn what_cannot_be_backed_up_or_restored_is_reported() {
    let place = tempfile::tempdir().unwrap();
    let path = |name: &str| place.path().join(name);
    let says = |refused: Result<Vec<tombolo::Backup>, Error>, what: &str| {
        let text = refused.unwrap_err().to_string();
        assert!(text.contains(what), "{text}");
    };
    let bank = Bank::open(&path("own"), 2);
    bank.give_all(5);
    says(builder(2).in_memory().unwrap().backup(path("memory")), "in memory");
    says(bank.db.backup(path("own")), "holds island-0: choose a new or an empty directory");
    bank.db.backup(path("copy")).unwrap();
    says(bank.db.backup(path("copy")), "holds island-0: choose a new or an empty directory");
    bank.db.backup(path("later")).unwrap();
    bank.give_all(5);
    bank.db.backup(path("later still")).unwrap();
    bank.db.close().unwrap();
    // A copy is not opened, nor restored as something else.
    let refused = builder(2).open(path("copy")).unwrap_err().to_string();
    assert!(refused.contains("holds a backup"), "{refused}");
    for refused in [
        Database::restore(path("copy"), path("lone")).map(drop),
        Restore::from(path("copy")).into(path("lone")).map(drop),
    ] {
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("Islands::restore"), "{refused}");
    }
    says(Islands::restore(path("own"), path("restored")), "holds no backup");
    says(Islands::restore(path("copy"), path("own")), "choose a new or an empty directory");
    // A changed byte, a directory of another backup, one that is missing.
    let whole = fs::read(path("copy").join("backup")).unwrap();
    let mut spoilt = whole.clone();
    spoilt[30] ^= 1;
    fs::write(path("copy").join("backup"), spoilt).unwrap();
    says(Islands::restore(path("copy"), path("restored")), "damaged");
    fs::write(path("copy").join("backup"), whole).unwrap();
    let segment = |name: &str| {
        let mut names =
            fs::read_dir(path(name).join("island-1")).unwrap().map(|one| one.unwrap().path());
        names.find(|path| path.to_string_lossy().contains("log-")).unwrap()
    };
    let log = fs::read(segment("copy")).unwrap();
    let mut spoilt = log.clone();
    spoilt[log.len() / 3] ^= 1;
    fs::write(segment("copy"), spoilt).unwrap();
    says(Islands::restore(path("copy"), path("restored")), "its checksum is not what it was");
    assert_eq!(fs::read_dir(path("restored")).unwrap().count(), 0);
    fs::write(segment("copy"), log).unwrap();
    fs::remove_dir_all(path("later").join("island-1")).unwrap();
    says(Islands::restore(path("later"), path("restored")), "of 2 directories, and 1 are there");
    fs::rename(path("later still").join("island-1"), path("later").join("island-1")).unwrap();
    says(Islands::restore(path("later"), path("restored")), "of another backup");
    // A process that ended while it copied.
    Islands::restore(path("copy"), path("restored")).unwrap();
    fs::write(path("restored").join("backup-unfinished"), "").unwrap();
    let refused = builder(2).open(path("restored")).unwrap_err().to_string();
    assert!(refused.contains("did not come to its end"), "{refused}");
    fs::remove_file(path("restored").join("backup-unfinished")).unwrap();
    let bank = Bank::open(&path("restored"), 2);
    assert_eq!(bank.money(), 5 * ACCOUNTS as i64);
    assert!(bank.db.index::<AccountKey>().is_ok());
}
