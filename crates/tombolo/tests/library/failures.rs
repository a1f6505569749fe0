//! Failures of single transactions, and of what a database needs: the others live.

use std::path::Path;
use std::process::Command;

use tombolo::{CallOptions, Error, Order, Range, Stop, StoreError, Value};

use super::kills::CHILD;
use super::{ById, ByValue, Counter, Counters, adding, builder, open, value};

#[test]
fn a_system_without_threads_is_reported_and_nothing_is_left_behind() {
    if let Some(directory) = std::env::var_os(CHILD) {
        let directory = Path::new(&directory);
        for refused in [builder().in_memory().unwrap_err(), open(directory).unwrap_err()] {
            assert!(matches!(refused, Error::System(_)), "{refused}");
            assert!(refused.to_string().contains("refuses a thread"), "{refused}");
            assert!(!refused.may_have_committed(), "{refused}");
        }
        return;
    }
    let place = tempfile::tempdir().unwrap();
    assert_eq!(adding(&open(place.path()).unwrap()).call(1), Ok(1));
    let test = "failures::a_system_without_threads_is_reported_and_nothing_is_left_behind";
    let mut child = Command::new(std::env::current_exe().unwrap());
    // A stack of 64 TB for each thread but the first, on which the only test runs.
    child
        .args(["--exact", test, "--test-threads", "1"])
        .env("RUST_MIN_STACK", (1_u64 << 46).to_string());
    let ended = child.env(CHILD, place.path()).output().unwrap();
    assert!(ended.status.success(), "{ended:?}");
    assert_eq!(value(&open(place.path()).unwrap(), 1), 1);
}

#[test]
fn a_disk_that_is_full_at_opening_is_reported_and_nothing_is_lost() {
    if let Some(directory) = std::env::var_os(CHILD) {
        let refused = open(Path::new(&directory)).unwrap_err();
        assert!(matches!(refused, Error::DiskFull(_)) && refused.is_retryable(), "{refused:?}");
        assert!(refused.to_string().contains("make room, then try again"), "{refused}");
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let db = open(place.path()).unwrap();
    assert_eq!(adding(&db).call(1), Ok(1));
    db.close().unwrap(); // it has an image now, whose catalogue is written anew by each opening
    let test = "failures::a_disk_that_is_full_at_opening_is_reported_and_nothing_is_lost";
    // A system that lets no file grow answers as a full one does.
    let mut child = Command::new("sh");
    child.args(["-c", r#"trap '' XFSZ; ulimit -f 0; exec "$0" --exact "$1""#]);
    child.arg(std::env::current_exe().unwrap()).arg(test);
    let ended = child.env(CHILD, place.path()).output().unwrap();
    assert!(ended.status.success(), "{ended:?}");
    assert_eq!(value(&open(place.path()).unwrap(), 1), 1);
}

#[test]
fn a_panic_undoes_its_transaction_and_the_rest_live() {
    let place = tempfile::tempdir().unwrap();
    for db in [builder().in_memory().unwrap(), builder().open(place.path()).unwrap()] {
        let counters = Counters::of(&db);
        let broken = db.register_closure("broken", move |tx, &id: &i32| -> Result<(), Stop> {
            counters.add(tx, id)?;
            panic!("at {id}");
        });
        let add = adding(&db);
        for n in 1..=3 {
            assert_eq!(broken.call(1), Err(Error::Panicked("at 1".into())));
            assert_eq!(add.call(1), Ok(n));
        }
        let lone = db.transaction(|_| -> Result<(), Stop> { panic!("alone") }).unwrap_err();
        assert!(lone.to_string().contains("alone") && !lone.is_retryable(), "{lone}");
        let statistics = db.statistics();
        assert_eq!((statistics.panicked, statistics.committed), (4, 3));
    }
}

#[test]
fn a_refused_write_dooms_its_transaction_whatever_it_answers() {
    let db = builder().in_memory().unwrap();
    adding(&db).call(1).unwrap();
    let counters = Counters::of(&db);
    let twice = db.transaction(move |tx| {
        counters.add(tx, 2)?;
        let refused = tx.insert(&counters.table, |row| row.set(Counter::ID, 1));
        assert_eq!(refused, Err(StoreError::Duplicate { index: 0 }.into()));
        Ok("never mind")
    });
    assert_eq!(twice, Err(Error::Duplicate { index: "counter_by_id".to_owned() }));
    let counters = Counters::of(&db);
    let outside = db.transaction(move |tx| {
        tx.insert(&counters.table, |row| row.set(Counter::ID, 1_000_000))?;
        Ok(())
    });
    assert_eq!(
        outside,
        Err(Error::RefusedAt {
            place: "counter.id".to_owned(),
            error: StoreError::OutOfRange { table: 0, column: 0 }
        })
    );
    let reported = outside.unwrap_err().to_string();
    assert_eq!(
        reported,
        "the value of counter.id does not fit: it is outside the declared range, too long, or has too many digits"
    );
    // The same by values, and rows that are gone.
    let table = db.dynamic_table("counter").unwrap();
    let counters = Counters::of(&db);
    let stale = db.transaction(move |tx| {
        let row = tx.insert_values(&table, &[Value::Integer(3), Value::Integer(0), Value::Null])?;
        tx.delete(&counters.table, row)?;
        tx.set(&counters.table, row, Counter::VALUE, 1)?;
        Ok(())
    });
    assert_eq!(
        stale,
        Err(Error::RefusedAt {
            place: "counter".to_owned(),
            error: StoreError::NoSuchRow { table: 0 }
        })
    );
    assert_eq!(stale.unwrap_err().to_string(), "table counter has no row with this id");
    let table = db.dynamic_table("counter").unwrap();
    let short = db.transaction(move |tx| tx.insert_values(&table, &[Value::Text("one")]));
    let reported = short.unwrap_err().to_string();
    assert!(reported.starts_with("the value of counter.value is null or has"), "{reported}");
    let mut found = [value(&db, 1), value(&db, 2), value(&db, 3)];
    found.sort_unstable();
    assert_eq!(found, [0, 0, 1]);
}

#[test]
fn every_index_follows_its_rows() {
    let place = tempfile::tempdir().unwrap();
    let in_order = |db: &tombolo::Database| {
        let by_value = db.index::<ByValue>().unwrap();
        let counters = Counters::of(db);
        let read = db.transaction(move |tx| {
            let rows = tx.range(&by_value, Range::all(), Order::Backward)?;
            let mut found = Vec::new();
            for row in rows {
                let row = tx.get(&counters.table, row)?;
                found.push((row.get(Counter::VALUE), row.get(Counter::ID)));
            }
            Ok(found)
        });
        read.unwrap()
    };
    let db = builder().open(place.path()).unwrap();
    let add = adding(&db);
    for id in [3, 1, 2, 3, 2, 3, 4] {
        add.call(id).unwrap();
    }
    assert_eq!(in_order(&db), [(3, 3), (2, 2), (1, 4), (1, 1)]);
    let counters = Counters::of(&db);
    let by_id = db.index::<ById>().unwrap();
    let changed = db.transaction(move |tx| {
        let row = counters.row(tx, 4)?;
        tx.delete(&counters.table, row)?;
        let row = counters.row(tx, 1)?;
        tx.set(&counters.table, row, Counter::ID, 5)?;
        Ok((tx.lookup(&by_id, 1)?, tx.lookup(&by_id, 5)? == Some(row), tx.lookup(&by_id, 4)?))
    });
    assert_eq!(changed, Ok((None, true, None)));
    let expected = [(3, 3), (2, 2), (1, 5)];
    assert_eq!(in_order(&db), expected);
    // An abort puts every entry back.
    let counters = Counters::of(&db);
    let aborted = db.transaction(move |tx| {
        for id in [2, 3, 9] {
            counters.add(tx, id)?;
        }
        let row = counters.row(tx, 5)?;
        tx.delete(&counters.table, row)?;
        Err::<(), _>(Stop::Abort("no"))
    });
    assert_eq!(aborted, Err(Error::Aborted("no")));
    assert_eq!(in_order(&db), expected);
    drop(db);
    assert_eq!(in_order(&builder().open(place.path()).unwrap()), expected);
}

#[test]
fn a_full_log_refuses_writes_and_reads_go_on() {
    let place = tempfile::tempdir().unwrap();
    let small = || builder().set("log_segment_bytes", "64 KB").set("log_bytes_max", "192 KB");
    let db = small().open(place.path()).unwrap();
    let add = adding(&db);
    let mut last = 0;
    let refused = loop {
        match add.call(1) {
            Ok(value) => last = value,
            Err(error) => break error,
        }
        assert!(last < 100_000, "the log never fills");
    };
    assert_eq!(refused, Error::LogFull);
    assert!(refused.is_retryable() && !refused.may_have_committed() && last > 10);
    let counters = Counters::of(&db);
    let read = db.with(CallOptions::new().read_only()).transaction(move |tx| {
        let row = counters.row(tx, 1)?;
        Ok(tx.get(&counters.table, row)?.get(Counter::VALUE))
    });
    assert_eq!(read, Ok(last));
    db.close().unwrap();
    // With a larger bound it continues.
    let db = builder().set("log_segment_bytes", "64 KB").open(place.path()).unwrap();
    assert_eq!(adding(&db).call(1), Ok(last + 1));
}

#[test]
fn a_call_writes_no_more_log_than_it_may() {
    let place = tempfile::tempdir().unwrap();
    writes_no_more_than_it_may(&builder().in_memory().unwrap());
    let db = builder().open(place.path()).unwrap();
    writes_no_more_than_it_may(&db);
    let counters = Counters::of(&db);
    let make = move |tx: &mut tombolo::Tx<'_>| counters.row(tx, 2).map(drop);
    let huge = db.with(CallOptions::new().log_bytes_max(1 << 40)).transaction(make).unwrap_err();
    assert!(matches!(huge, Error::TooLarge { .. }) && !huge.is_retryable(), "{huge}");
    assert_eq!(adding(&db).call(1), Ok(2));
}

/// In memory as on disk.
fn writes_no_more_than_it_may(db: &tombolo::Database) {
    let add = adding(db);
    let reader = add.with(CallOptions::new().read_only());
    let written = reader.call(1).unwrap_err();
    assert!(written.to_string().contains("read-only"), "{written}");
    let counters = Counters::of(db);
    let fill = move |bytes: usize| {
        let counters = counters.clone();
        move |tx: &mut tombolo::Tx<'_>| {
            let (row, name) = (counters.row(tx, 1)?, "n".repeat(bytes));
            tx.set_variable(&counters.table, row, Counter::NAME, Some(&name))?;
            Ok(())
        }
    };
    let long = db.transaction(fill(100_000)).unwrap_err();
    assert_eq!(long, Error::LogTooLong { log_bytes_max: 64 << 10 });
    // The error names the bound that the caller gave, also with a request id, whose own bytes do not count.
    let bounded = CallOptions::new().log_bytes_max(100);
    let bounded = db.with(bounded);
    let long = bounded.transaction(fill(200));
    for long in [long, bounded.once(2).transaction(fill(200))] {
        assert_eq!(long, Err(Error::LogTooLong { log_bytes_max: 100 }));
    }
    assert_eq!(db.outcome(2), Ok(tombolo::Outcome::Aborted));
    let read = CallOptions::new().read_only();
    let reads = add.with(read);
    for written in [reads.call(1), reads.once(3).call(1)] {
        assert_eq!(written, Err(Error::LogTooLong { log_bytes_max: 0 }));
    }
    let counters = Counters::of(db);
    let looks = move |tx: &mut tombolo::Tx<'_>| Ok(tx.rows(&counters.table)?.len());
    assert_eq!(db.with(read).once(5).transaction(looks), Ok(0));
    assert_eq!(db.outcome(5), Ok(tombolo::Outcome::Committed));
    bounded.once(6).transaction(fill(10)).unwrap();
    let options = CallOptions::new().log_bytes_max(200_000);
    db.with(options).transaction(fill(100_000)).unwrap();
    assert_eq!(add.call(1), Ok(1));
}

#[test]
fn memory_has_a_bound_and_who_stays_within_it_lives() {
    let db = builder().memory_bytes_max(32 << 20).in_memory().unwrap();
    let counters = Counters::of(&db);
    let hoard = db.register_closure("hoard", move |tx, &id: &i32| {
        let (row, name) = (counters.row(tx, id)?, "n".repeat(100_000));
        tx.set_variable(&counters.table, row, Counter::NAME, Some(&name))?;
        Ok(())
    });
    let hoard = hoard.with(CallOptions::new().log_bytes_max(200_000));
    let refused = (1..10_000).find_map(|id| hoard.call(id).err());
    let Some(Error::Refused(StoreError::NoSpace { held_bytes })) = refused else {
        panic!("{refused:?}")
    };
    assert!(held_bytes <= 32 << 20 && db.statistics().memory_bytes <= 32 << 20);
    assert_eq!(adding(&db).call(1), Ok(1));
}
