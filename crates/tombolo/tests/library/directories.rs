//! Directories: made, opened again, in use, of another definition, of something else.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::{Arc, Mutex};

use tombolo::{CallOptions, Database, Error, IndexKind, TableDef, Value, types};

use super::kills::{CHILD, child};
use super::together::until;
use super::{Counter, Counters, adding, builder, definition, open, value};

#[test]
fn what_was_answered_is_there_when_the_directory_is_opened_again() {
    let place = tempfile::tempdir().unwrap();
    // Folders that are not there are made.
    let directory = place.path().join("some").join("where");
    for round in 0..4 {
        let db = open(&directory).unwrap();
        let recovered = db.recovery().map(|recovery| recovery.image_bytes > 0);
        assert_eq!(recovered, (round > 0).then_some(true));
        let add = adding(&db);
        assert_eq!(add.call(1), Ok(round + 1));
        let pending: Vec<_> = (0..50).map(|_| add.submit(2).unwrap()).collect();
        match round % 2 {
            0 => db.close().unwrap(),
            _ => drop(db),
        }
        // What was under way was answered, and later calls are refused.
        for (n, call) in (1..).zip(pending) {
            assert_eq!(call.wait(), Ok(round * 50 + n));
        }
        let closed = add.call(1).unwrap_err();
        assert!(closed == Error::Closed && closed.is_final() && !closed.is_retryable());
    }
    let db = open(&directory).unwrap();
    assert_eq!([value(&db, 1), value(&db, 2)], [4, 200]);
}

#[test]
fn a_closed_database_is_all_in_its_image_if_it_has_one() {
    let place = tempfile::tempdir().unwrap();
    let set = |checkpoints: &str| builder().set("checkpoints", checkpoints);
    let mut sum = 0;
    // What is to be found: an image, and whether all calls of the round before are replayed.
    let rounds =
        [("off", false, false), ("on", false, true), ("off", true, false), ("on", true, true)];
    for (checkpoints, has_image, is_replayed) in rounds {
        let db = set(checkpoints).open(place.path()).unwrap();
        if let Some(recovery) = db.recovery() {
            assert_eq!(recovery.image_bytes > 0, has_image, "{recovery:?}");
            assert_eq!(recovery.transactions >= 40, is_replayed, "{recovery:?}");
        }
        assert_eq!(value(&db, 1), sum);
        let add = adding(&db);
        (0..40).for_each(|_| sum = add.call(1).unwrap());
        assert_eq!(db.statistics().checkpoint_failure, None);
        db.close().unwrap();
    }
    let mistake = set("on").set("checkpoint_block_bytes", "1").open(place.path()).unwrap_err();
    assert!(matches!(&mistake, Error::Setting(what) if what.contains("checkpoint_block_bytes")));
}

#[test]
fn a_damaged_image_is_refused_with_its_file_and_kept() {
    let place = tempfile::tempdir().unwrap();
    let db = open(place.path()).unwrap();
    adding(&db).call(1).unwrap();
    db.close().unwrap();
    let files = fs::read_dir(place.path()).unwrap().map(|file| file.unwrap().path());
    let mut images: Vec<_> =
        files.filter(|file| file.to_string_lossy().contains("image-")).collect();
    images.sort();
    let whole = fs::read(&images[0]).unwrap();
    fs::write(&images[0], vec![0xff; whole.len()]).unwrap();
    let refused = open(place.path()).unwrap_err();
    let (what, name) = (refused.to_string(), images[0].display().to_string());
    assert!(what.contains(&name) && what.contains("offset"), "{what}");
    assert!(!refused.is_retryable());
    fs::write(&images[0], whole).unwrap();
    assert_eq!(value(&open(place.path()).unwrap(), 1), 1);
}

#[test]
fn values_of_any_length_and_nulls_come_back() {
    let place = tempfile::tempdir().unwrap();
    let long = "long ".repeat(10_000);
    let names = [Some("short"), None, Some(""), Some(long.as_str())].map(|n| n.map(str::to_owned));
    let db = open(place.path()).unwrap();
    let counters = Counters::of(&db);
    let given = names.clone();
    let more = CallOptions::new().log_bytes_max(400_000);
    let made = db.with(more).transaction(move |tx| {
        for (id, name) in (0..).zip(&given) {
            tx.insert(&counters.table, |row| {
                row.set(Counter::ID, id);
                row.set_variable(Counter::NAME, name.as_deref());
            })?;
        }
        // Null becomes a text, and a text null.
        for (id, name) in [(1, Some("given")), (2, None)] {
            let row = counters.row(tx, id)?;
            tx.set_variable(&counters.table, row, Counter::NAME, name)?;
        }
        Ok(())
    });
    made.unwrap();
    drop(db);
    let db = open(place.path()).unwrap();
    let counters = Counters::of(&db);
    let found = db.transaction(move |tx| {
        let mut found = Vec::new();
        for id in 0..4 {
            let row = counters.row(tx, id)?;
            let row = tx.get(&counters.table, row)?;
            found.push(row.get(Counter::NAME).map(|name| String::from_utf8_lossy(name).into()));
        }
        Ok(found)
    });
    assert_eq!(
        found.unwrap(),
        [names[0].clone(), Some("given".to_owned()), None, names[3].clone()]
    );
}

#[test]
fn who_waits_for_a_directory_hears_how_far_it_is() {
    let place = tempfile::tempdir().unwrap();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let listening = || {
        let heard = heard.clone();
        builder().on_opening(move |now| heard.lock().unwrap().push(now))
    };
    let db = listening().set("checkpoint_at_close", "no").open(place.path()).unwrap();
    let add = adding(&db);
    (0..500).for_each(|id| assert_eq!(add.call(id), Ok(1)));
    assert!(heard.lock().unwrap().is_empty(), "nothing is read of a new one");
    drop(db);
    drop(listening().open(place.path()).unwrap());
    let heard = heard.lock().unwrap();
    assert!(heard.is_sorted_by(|a, b| a.part() <= b.part() && a.elapsed <= b.elapsed), "{heard:?}");
    let last = heard.last().unwrap();
    assert!(last.bytes > 500 * 8 && last.part() <= 1.0, "{last:?}");
}

/// Bytes of the files in a directory.
fn file_bytes(directory: &Path) -> u64 {
    let files = fs::read_dir(directory).unwrap();
    files.map(|file| file.unwrap().metadata().unwrap().len()).sum()
}

/// With the settings as they are: a small database is small files, which are read in a moment, and a call
/// as large as the settings allow is as welcome as in a large one.
#[test]
fn a_small_database_takes_little_and_holds_what_the_settings_allow() {
    const MB: u64 = 1 << 20;
    let place = tempfile::tempdir().unwrap();
    let open = || Database::builder().table(definition()).open(place.path()).unwrap();
    let db = open();
    assert!(file_bytes(place.path()) <= 8 * MB, "{} bytes", file_bytes(place.path()));
    let counters = Counters::of(&db);
    for id in 0..1_000 {
        let counters = counters.clone();
        db.transaction(move |tx| counters.row(tx, id)).unwrap();
    }
    db.close().unwrap();
    assert!(file_bytes(place.path()) <= 8 * MB, "{} bytes", file_bytes(place.path()));
    let db = open();
    let (name, counters) = ("x".repeat(MB as usize), Counters::of(&db));
    let large = db.with(CallOptions::new().log_bytes_max(12 * MB)).transaction(move |tx| {
        let counters = &counters;
        (0..10).try_for_each(|id| {
            let row = counters.row(tx, id)?;
            tx.set_variable(&counters.table, row, Counter::NAME, Some(&*name))
        })
    });
    assert_eq!(large, Ok(()));
    db.close().unwrap();
    let db = open();
    let table = db.table::<Counter>().unwrap();
    assert_eq!(db.transaction(move |tx| Ok(tx.rows(&table)?.len())), Ok(1_000));
}

#[test]
fn a_database_stays_where_it_is_when_its_process_goes_elsewhere() {
    const VALUES: i32 = 40;
    if let Some(place) = std::env::var_os(CHILD) {
        let (first, second) = (Path::new(&place).join("first"), Path::new(&place).join("second"));
        std::env::set_current_dir(&first).unwrap();
        let small =
            builder().set("log_segment_bytes", "64 KB").set("checkpoint_log_bytes", "64 KB");
        let small = small.checkpoint_directories(["image"]).log_archive("archive");
        let db = small.clone().open("data").unwrap();
        std::env::set_current_dir(second).unwrap();
        // Segments, images and archives are made by all of it.
        for id in 0..VALUES {
            let counters = Counters::of(&db);
            let set = db.transaction(move |tx| {
                let row = counters.row(tx, id)?;
                let name = "x".repeat(10_000);
                tx.set_variable(&counters.table, row, Counter::NAME, Some(&*name))
            });
            set.unwrap();
        }
        db.checkpoint().unwrap();
        db.archive_now().unwrap();
        // The path is absolute: the reader of the message may have another current directory.
        std::env::set_current_dir(&first).unwrap();
        let refused = open(Path::new("data")).unwrap_err();
        let whole = first.join("data").display().to_string();
        assert!(refused.to_string().contains(&whole), "{refused}");
        std::env::set_current_dir("/").unwrap();
        return db.close().unwrap();
    }
    let place = tempfile::tempdir().unwrap();
    let [first, second] = ["first", "second"].map(|name| place.path().join(name));
    // Of the same names are others where the process goes.
    for directory in ["data", "image", "archive"] {
        fs::create_dir_all(first.join(directory)).unwrap();
        fs::create_dir_all(second.join(directory)).unwrap();
    }
    let name = "directories::a_database_stays_where_it_is_when_its_process_goes_elsewhere";
    let ended = child(name, place.path()).wait_with_output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stdout));
    for directory in ["data", "image", "archive"] {
        let files = |at: &Path| fs::read_dir(at.join(directory)).unwrap().count();
        assert!(files(&first) > 0 && files(&second) == 0, "{directory}");
    }
    let there = builder().checkpoint_directories([first.join("image")]);
    let db = there.log_archive(first.join("archive")).open(first.join("data")).unwrap();
    let table = db.table::<Counter>().unwrap();
    assert_eq!(db.transaction(move |tx| Ok(tx.rows(&table)?.len())), Ok(VALUES as usize));
}

#[test]
fn one_database_at_a_time_has_a_directory() {
    let place = tempfile::tempdir().unwrap();
    let first = open(place.path()).unwrap();
    let second = open(place.path()).unwrap_err();
    assert!(matches!(&second, Error::InUse { file } if file.contains("lock")), "{second}");
    assert!(second.is_retryable() && second.to_string().contains("in use"), "{second}");
    drop(first);
    open(place.path()).unwrap();
}

#[test]
fn tables_are_added_and_those_not_named_stay() {
    let place = tempfile::tempdir().unwrap();
    let db = open(place.path()).unwrap();
    adding(&db).call(7).unwrap();
    drop(db);
    let mut other = definition();
    other.name = "other".into();
    for index in &mut other.indexes {
        index.name = format!("other_{}", index.name).into();
    }
    let small = Database::builder().set("log_segment_bytes", "1 MB");
    for _ in 0..2 {
        let db = small.clone().table(other.clone()).open(place.path()).unwrap();
        // Between them lies the database's own.
        let schema = db.schema();
        let names = schema.tables.iter().map(|table| &*table.name);
        assert!(names.eq(["counter", "tombolo_request", "other"]));
        assert_eq!(schema.tables[2], other);
        assert_eq!(value(&db, 7), 1);
        let table = db.dynamic_table("other").unwrap();
        let added = db.transaction(move |tx| {
            let row = [Value::Integer(1), Value::Integer(5), Value::Text("one")];
            if tx.rows(table.handle())?.is_empty() {
                tx.insert_values(&table, &row)?;
            }
            tx.rows(table.handle())?
                .into_iter()
                .map(|row| tx.read_values(&table, row, |values| format!("{values:?}")))
                .collect::<Result<Vec<_>, _>>()
        });
        assert_eq!(added.unwrap(), ["[Integer(1), Integer(5), Text(\"one\")]"]);
        assert!(db.dynamic_table("third").unwrap_err().to_string().contains("third"));
    }
    // Without any table named all are there.
    assert_eq!(small.open(place.path()).unwrap().schema().tables.len(), 3);
}

#[test]
fn another_definition_is_refused_by_the_name_of_what_differs() {
    let place = tempfile::tempdir().unwrap();
    let db = open(place.path()).unwrap();
    assert_eq!(adding(&db).call(1), Ok(1));
    drop(db);
    let refused = |change: &dyn Fn(&mut TableDef)| {
        let mut table = definition();
        change(&mut table);
        match Database::builder().table(table).open(place.path()).unwrap_err() {
            Error::Definition(difference) => difference,
            other => panic!("{other}"),
        }
    };
    let column =
        refused(&|table| table.columns[1].sql = <types::Integer as types::ColumnType>::SQL);
    assert_eq!((&*column.table, &*column.part), ("counter", "column value"));
    assert_eq!((&*column.was, &*column.is), ("bigint not null (hot)", "integer not null (hot)"));
    let index = refused(&|table| table.indexes[0].kind = IndexKind::Hash);
    assert_eq!((&*index.was, &*index.is), ("unique tree (id)", "unique hash (id)"));
    // Nothing was harmed.
    let db = open(place.path()).unwrap();
    assert_eq!(adding(&db).call(1), Ok(2));
}

#[test]
fn a_directory_of_something_else_is_left_alone() {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("thesis.tex"), "chapter one").unwrap();
    let refused = open(place.path()).unwrap_err();
    assert!(matches!(&refused, Error::Directory(what) if what.contains("thesis.tex")), "{refused}");
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
    let file = open(&place.path().join("thesis.tex")).unwrap_err();
    assert!(matches!(file, Error::Disk { kind: ErrorKind::AlreadyExists, .. }), "{file}");
}

#[test]
fn mistakes_in_settings_and_tables_are_reported() {
    let reported = |builder: tombolo::Builder| builder.in_memory().unwrap_err().to_string();
    assert!(reported(builder().set("spin_us", "1")).contains("no such setting"));
    assert!(reported(builder().set("warehouses", "5")).contains("warehouses"));
    assert!(reported(builder().set("time_per_group", "soon")).contains("time_per_group"));
    assert!(reported(builder().set("pipeline_threads", "callers")).contains("callers"));
    assert!(
        reported(builder().set("spin_us_max", "x").set("warehouses", "1")).contains("spin_us_max")
    );
    assert!(reported(builder().table(definition())).contains("exists already"));
    let place = tempfile::tempdir().unwrap();
    let small = builder().set("log_bytes_max", "1 MB").open(place.path()).unwrap_err();
    assert!(small.to_string().contains("log_bytes_max"), "{small}");
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0, "nothing was made");
}

/// Opens a directory whose database closes on a thread of its own, soon.
fn open_soon(directory: &Path) -> Database {
    until("it has closed", || match open(directory) {
        Err(error) if error.is_retryable() => None,
        opened => Some(opened.unwrap()),
    })
}

#[test]
fn a_transaction_that_closes_a_database_is_not_reported_that_it_is_closed() {
    let place = tempfile::tempdir().unwrap();
    let db = open(place.path()).unwrap();
    let add = adding(&db);
    add.call(1).unwrap();
    let other = builder().in_memory().unwrap();
    assert_eq!(other.transaction(move |_| Ok(db.close())), Ok(Err(Error::Nested)));
    // Nothing more is taken in, and nothing that was is lost.
    assert_eq!(add.call(1), Err(Error::Closed));
    assert_eq!(value(&open_soon(place.path()), 1), 1);
}

#[test]
fn a_database_may_end_within_its_own_transaction() {
    let place = tempfile::tempdir().unwrap();
    let db = Arc::new(open(place.path()).unwrap());
    let (add, own) = (adding(&db), db.clone());
    add.call(1).unwrap();
    let (go, gone) = std::sync::mpsc::channel::<()>();
    let last = db.with(CallOptions::new()).submit(move |_| {
        gone.recv().unwrap_err();
        drop(own);
        Ok(())
    });
    drop(db);
    drop(go); // from here on the closure holds the last one
    assert_eq!(last.unwrap().wait(), Ok(()));
    assert_eq!(value(&open_soon(place.path()), 1), 1);
}
