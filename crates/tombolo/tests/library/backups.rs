//! Backups made while transactions run, restored, and what is refused.

use std::fs;
use std::path::Path;
use std::sync::atomic::Ordering;

use tombolo::{Database, Error, Outcome};

use super::together::{until, until_one_ends};
use super::{Counter, Counters, adding, builder, open, value};

const ACCOUNTS: i32 = 200;

/// Moves 1 from one counter to another.
fn moving(db: &Database) -> tombolo::Registered<(i32, i32), ()> {
    let counters = Counters::of(db);
    db.register_closure("move", move |tx, &(from, to)| {
        for (id, by) in [(from, -1), (to, 1)] {
            let row = counters.row(tx, id)?;
            let value = tx.get(&counters.table, row)?.get(Counter::VALUE);
            tx.set(&counters.table, row, Counter::VALUE, value + by)?;
        }
        Ok(())
    })
}

/// What all accounts have, and the counters of the threads.
fn balances(db: &Database) -> (i64, Vec<i64>) {
    let sum = (0..ACCOUNTS).map(|id| value(db, id)).sum();
    (sum, (0..2).map(|thread| value(db, 1_000 + thread)).collect())
}

#[test]
fn a_backup_under_load_has_all_that_was_answered_and_conserves_balances() {
    let place = tempfile::tempdir().unwrap();
    let second = place.path().join("second");
    let db = builder().checkpoint_directories([&second]).set("checkpoint_log_bytes", "64 KB");
    let db = db.open(place.path().join("own")).unwrap();
    let (moving, add) = (moving(&db), adding(&db));
    db.once(77).transaction(|_| Ok(())).unwrap();
    let copy = |number: usize| place.path().join(format!("copy {number}"));
    let mut answered = Vec::new();
    let known: [std::sync::atomic::AtomicI64; 2] = Default::default();
    let answers = std::sync::Mutex::new(&mut answered);
    until_one_ends(0..3, |thread, over| {
        if thread == 2 {
            for number in 0..3 {
                let is_enough = || db.statistics().checkpoints >= 2 * (number as u64 + 1);
                until("checkpoints", || is_enough().then_some(()));
                let before = known.each_ref().map(|known| known.load(Ordering::SeqCst));
                let made = db.backup(copy(number)).unwrap();
                let after = known.each_ref().map(|known| known.load(Ordering::SeqCst) + 1);
                answers.lock().unwrap().push((before, after, made));
            }
            return;
        }
        let mut round = 0;
        while !over.is_set() {
            let from = (round * 7 + thread * 50) % ACCOUNTS;
            let moved = moving.submit((from, (from + 13) % ACCOUNTS)).unwrap();
            let counted = add.call(1_000 + thread).unwrap();
            known[thread as usize].store(counted, Ordering::SeqCst);
            moved.wait().unwrap();
            round += 1;
        }
    });
    assert_eq!(db.statistics().checkpoint_failure, None);
    drop(db);
    for (number, (before, after, made)) in answered.into_iter().enumerate() {
        let refused = open(&copy(number)).unwrap_err();
        assert!(refused.to_string().contains("holds a backup"), "{refused}");
        let restored = place.path().join(format!("restored {number}"));
        assert_eq!(Database::restore(copy(number), &restored), Ok(made));
        let db = open(&restored).unwrap();
        assert!(db.recovery().unwrap().image_bytes > 0);
        let (sum, counted) = balances(&db);
        assert_eq!(sum, 0, "copy {number}");
        for thread in 0..2 {
            let range = before[thread]..=after[thread];
            assert!(range.contains(&counted[thread]), "copy {number}: {counted:?} {range:?}");
        }
        assert_eq!(db.outcome(77), Ok(Outcome::Committed));
        assert_eq!(adding(&db).call(5_000), Ok(1));
        db.close().unwrap();
        assert_eq!(balances(&open(&restored).unwrap()), (0, counted));
    }
}

fn names(directory: &Path) -> Vec<String> {
    let names = fs::read_dir(directory).unwrap();
    names.map(|file| file.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn without_checkpoints_the_whole_log_is_copied() {
    let place = tempfile::tempdir().unwrap();
    let [own, copy, restored] = ["own", "copy", "restored"].map(|name| place.path().join(name));
    let db = builder().set("checkpoints", "off").open(&own).unwrap();
    let add = adding(&db);
    (0..50).for_each(|id| assert_eq!(add.call(id), Ok(1)));
    db.backup(&copy).unwrap();
    add.call(1).unwrap();
    Database::restore(&copy, &restored).unwrap();
    let restored = open(&restored).unwrap();
    assert_eq!([value(&db, 1), value(&restored, 1), value(&restored, 49)], [2, 1, 1]);
}

#[test]
fn what_cannot_be_backed_up_or_restored_is_reported() {
    let place = tempfile::tempdir().unwrap();
    let path = |name: &str| place.path().join(name);
    let db = std::sync::Arc::new(open(&path("own")).unwrap());
    adding(&db).call(1).unwrap();
    let memory = builder().in_memory().unwrap().backup(path("memory")).unwrap_err();
    assert!(memory.to_string().contains("in memory") && !path("memory").exists(), "{memory}");
    let (own, to) = (db.clone(), path("nested"));
    assert_eq!(db.transaction(move |_| Ok(own.backup(to))), Ok(Err(Error::Nested)));
    for holds_something in [path("own"), place.path().to_owned()] {
        fs::write(place.path().join("notes.txt"), "kept").unwrap();
        let before = names(&holds_something);
        let refused = db.backup(&holds_something).unwrap_err();
        assert!(matches!(&refused, Error::Directory(what) if what.contains("empty directory")));
        assert_eq!(names(&holds_something), before);
    }
    db.backup(path("copy")).unwrap();
    let refused = db.backup(path("copy")).unwrap_err();
    assert!(refused.to_string().contains("another one"), "{refused}");
    // A flipped bit in any file, and a file that is gone.
    for name in names(&path("copy")) {
        let file = path("copy").join(&name);
        let whole = fs::read(&file).unwrap();
        let mut spoilt = whole.clone();
        spoilt[whole.len() / 3] ^= 1;
        fs::write(&file, spoilt).unwrap();
        let refused = Database::restore(path("copy"), path("restored")).unwrap_err();
        assert!(refused.to_string().contains(&name) && !refused.is_retryable(), "{refused}");
        assert!(names(&path("restored")).is_empty());
        fs::write(&file, whole).unwrap();
    }
    let nothing = Database::restore(path("nowhere"), path("restored")).unwrap_err();
    assert!(nothing.to_string().contains("nowhere"), "{nothing}");
    let none = Database::restore(path("own"), path("restored")).unwrap_err();
    assert!(none.to_string().contains("holds no backup"), "{none}");
    // A process that ended while it copied.
    fs::rename(path("copy").join("backup"), path("copy").join("backup-unfinished")).unwrap();
    for refused in [
        Database::restore(path("copy"), path("restored")).unwrap_err(),
        open(&path("copy")).unwrap_err(),
    ] {
        assert!(refused.to_string().contains("did not come to its end"), "{refused}");
    }
}

/// A drill with the program's own builder: the directory is the other database's, and stays so.
#[test]
fn a_restored_database_keeps_off_the_others_directories() {
    let place = tempfile::tempdir().unwrap();
    let [own, second, copy, drill] =
        ["own", "second", "copy", "drill"].map(|name| place.path().join(name));
    let with = || builder().checkpoint_directories([&second]).set("checkpoint_threads", "2");
    // The backup may be of a time before the first checkpoint.
    for (round, has_image) in [(0, false), (1, true)] {
        let db = with().open(&own).unwrap();
        let add = adding(&db);
        add.call(round).unwrap();
        if has_image {
            db.checkpoint().unwrap();
        }
        let (copy, drill) = (copy.join(round.to_string()), drill.join(round.to_string()));
        db.backup(&copy).unwrap();
        let pending: Vec<_> = (0..3_000).map(|id| add.submit(id).unwrap()).collect();
        pending.into_iter().for_each(|call| _ = call.wait().unwrap());
        db.checkpoint().unwrap();
        Database::restore(&copy, &drill).unwrap();
        let before = names(&second);
        let refused = with().open(&drill).unwrap_err();
        assert!(refused.to_string().contains("image-of-"), "{refused}");
        assert_eq!(names(&second), before);
        drop((add, db));
        with().open(&drill).map(drop).unwrap_err();
        assert_eq!(names(&second), before);
        open(&drill).unwrap().close().unwrap();
        with().open(&own).unwrap().close().unwrap();
    }
}

#[test]
fn a_backup_may_lie_below_what_it_is_of() {
    let place = tempfile::tempdir().unwrap();
    let (own, archive) = (place.path().join("own"), place.path().join("archive"));
    fs::create_dir(&archive).unwrap();
    let with = || builder().log_archive(&archive);
    let db = with().open(&own).unwrap();
    adding(&db).call(1).unwrap();
    for safe in [own.join("backup"), archive.join("backup")] {
        db.backup(&safe).unwrap();
    }
    db.close().unwrap();
    assert_eq!(value(&with().open(&own).unwrap(), 1), 1);
    Database::restore(own.join("backup"), place.path().join("restored")).unwrap();
}
