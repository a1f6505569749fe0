//! Checkpoints on demand, over several directories, and what comes back from image and log when a
//! process is killed.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use tombolo::{
    Builder, Database, Error, IndexDef, IndexKind, Order, Outcome, Range, TableDef, Value,
};

use super::kills::{CHILD, child};
use super::{ById, ByValue, Counter, Counters, adding, builder, open, value};

/// Counters without the index by value, in a log that a few hundred calls fill. The directory's name says where
/// the second copy is.
fn small_log(directory: &Path) -> Builder {
    let copy = directory.file_name().and_then(|name| name.to_str()).unwrap();
    let db = Database::builder().table(TableDef::of::<Counter>().with::<ById>());
    let db = db.set("log_segment_bytes", "64 KB").set("log_bytes_max", "512 KB");
    db.set("checkpoint_copy", copy)
}

/// The names of the files of a kind in a directory.
fn files(directory: &Path, prefix: &str) -> Vec<String> {
    let names = fs::read_dir(directory).unwrap();
    let names = names.map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.filter(|name| name.starts_with(prefix)).collect();
    names.sort();
    names
}

#[test]
fn a_checkpoint_on_demand_holds_all_that_was_answered() {
    let place = tempfile::tempdir().unwrap();
    let db = builder().set("checkpoint_at_close", "no").open(place.path()).unwrap();
    let add = adding(&db);
    (0..100).for_each(|id| assert_eq!(add.call(id), Ok(1)));
    db.checkpoint().unwrap();
    let statistics = db.statistics();
    assert_eq!((statistics.checkpoints, statistics.checkpoint_is_under_way), (1, false));
    assert!(statistics.checkpoint_bytes > 0 && statistics.checkpoint_ns > 0);
    assert_eq!(statistics.checkpoint_failure, None);
    add.call(7).unwrap();
    drop(db);
    let db = open(place.path()).unwrap();
    // The call behind it, and at most the group that ties image and log.
    let recovery = db.recovery().unwrap();
    assert!(recovery.image_bytes > 0 && (1..=2).contains(&recovery.transactions), "{recovery:?}");
    assert_eq!([value(&db, 7), value(&db, 99)], [2, 1]);
}

/// Each time a database is opened it may have a second copy of its rows, or none.
#[test]
fn the_second_copy_may_be_left_out() {
    let place = tempfile::tempdir().unwrap();
    for (round, copy) in ["none", "memory", "none", "none"].into_iter().enumerate() {
        let opened = builder().set("checkpoint_copy", copy).open(place.path());
        let db = opened.unwrap();
        let add = adding(&db);
        (0..200).for_each(|id| assert_eq!(add.call(id), Ok(round as i64 + 1)));
        db.checkpoint().unwrap();
        let statistics = db.statistics();
        assert!(statistics.checkpoints > 0 && statistics.checkpoint_failure.is_none());
        assert!(statistics.second_copy_bytes > 0, "{copy}");
        assert!(builder().set("checkpoint_copy", "disk").open(place.path()).is_err());
        db.close().unwrap();
    }
}

#[test]
fn a_database_without_an_image_reports_it() {
    let place = tempfile::tempdir().unwrap();
    let off = builder().set("checkpoints", "off").open(place.path()).unwrap();
    for db in [builder().in_memory().unwrap(), off] {
        let refused = db.checkpoint().unwrap_err();
        assert!(refused == Error::NoCheckpoints && !refused.is_retryable() && !refused.is_final());
        assert!(refused.to_string().contains("checkpoints on"), "{refused}");
    }
    let db = std::sync::Arc::new(open(&place.path().join("other")).unwrap());
    let own = db.clone();
    assert_eq!(db.transaction(move |_| Ok(own.checkpoint())), Ok(Err(Error::Nested)));
}

/// What the process below does until it is killed: table, index, request ids, and more log than there
/// may be, so that it was released again and again.
fn live(directory: &Path) {
    let db = small_log(directory).open(directory).unwrap();
    let mut other = TableDef::of::<Counter>();
    other.name = "other".into();
    db.create_table(other).unwrap();
    db.create_index::<ByValue>().unwrap();
    let (add, table) = (adding(&db), db.dynamic_table("other").unwrap());
    let note = |id: u128| {
        let (table, id) = (table.clone(), id as i64);
        let row = move |tx: &mut tombolo::Tx<'_>| {
            let name = "n".repeat(3_000);
            let row = [Value::Integer(id), Value::Integer(1), Value::Text(&name)];
            tx.insert_values(&table, &row).map(drop)
        };
        db.once(1_000 + id as u128).transaction(row).unwrap();
    };
    for id in 0..400 {
        assert_eq!(add.once(id).call((id % 50) as i32), Ok(id as i64 / 50 + 1));
        note(id);
        if id == 200 {
            let index = |name: &'static str, columns| IndexDef {
                name: name.into(),
                columns,
                unique: true,
                kind: IndexKind::Hash,
            };
            db.create_dynamic_index("other", index("other_pk", vec![0])).unwrap();
        }
        if id % 40 == 39 {
            db.checkpoint().unwrap();
        }
    }
    // Behind the last checkpoint, to be replayed.
    for id in 400..410 {
        add.once(id).call((id % 50) as i32).unwrap();
    }
    println!("ready {}", db.statistics().flushed_bytes);
    let _ = std::io::stdin().read(&mut [0]);
}

#[test]
fn what_came_online_and_request_ids_survive_in_image_and_log() {
    if let Some(directory) = std::env::var_os(CHILD) {
        return live(directory.as_ref());
    }
    let place = tempfile::tempdir().unwrap();
    let test = "checkpoints::what_came_online_and_request_ids_survive_in_image_and_log";
    for copy in ["memory", "none"] {
        killed(test, &place.path().join(copy));
    }
}

/// Lets a process live in a directory and kills it; what comes back.
fn killed(test: &str, directory: &Path) {
    fs::create_dir(directory).unwrap();
    let mut child = child(test, directory);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let ready = lines.find_map(|line| line.strip_prefix("ready ").map(str::to_owned)).unwrap();
    child.kill().unwrap(); // SIGKILL
    child.wait().unwrap();
    // More was written than the log may hold: the rest is in the image alone.
    assert!(ready.parse::<u64>().unwrap() > 2 * (512 << 10), "{ready}");
    let db = small_log(directory).open(directory).unwrap();
    let recovery = db.recovery().unwrap();
    assert!(recovery.image_bytes > 0 && recovery.transactions < 200, "{recovery:?}");
    for id in 0..410 {
        assert_eq!(db.outcome(id).unwrap(), Outcome::Committed, "{id}");
    }
    assert_eq!(db.outcome(410).unwrap(), Outcome::Unknown);
    let repeated = adding(&db).once(3).call(3);
    assert_eq!(repeated, Err(Error::Repeated(Outcome::Committed)));
    let (counters, by_value) = (Counters::of(&db), db.index::<ByValue>().unwrap());
    let found = db.transaction(move |tx| {
        let mut found = Vec::new();
        for row in tx.range(&by_value, Range::all(), Order::Forward)? {
            let row = tx.get(&counters.table, row)?;
            found.push((row.get(Counter::VALUE), row.get(Counter::ID)));
        }
        Ok(found)
    });
    let found = found.unwrap();
    assert!(found.is_sorted() && found.len() == 50);
    assert_eq!((found[0].0, found[49].0), (8, 9));
    let table = db.dynamic_table("other").unwrap();
    let handle = *table.handle();
    assert_eq!(db.transaction(move |tx| Ok(tx.rows(&handle)?.len())), Ok(400));
    let twice = db.transaction(move |tx| {
        tx.insert_values(&table, &[Value::Integer(5), Value::Integer(1), Value::Null])
    });
    assert_eq!(twice.unwrap_err(), Error::Duplicate { index: "other_pk".to_owned() });
}

#[test]
fn an_image_lies_in_the_directories_it_was_made_with() {
    let place = tempfile::tempdir().unwrap();
    let [own, second, third] = ["own", "second", "third"].map(|name| place.path().join(name));
    let with = |directories: &[&Path]| {
        builder().set("checkpoint_threads", "2").checkpoint_directories(directories.iter().copied())
    };
    let reported = |directories: &[&Path]| with(directories).open(&own).unwrap_err().to_string();
    for round in 1..=3 {
        let db = with(&[&second, &third]).open(&own).unwrap();
        assert_eq!(adding(&db).call(1), Ok(round));
        // Values of several lengths lie in slabs, and so in rings, of their own.
        let counters = Counters::of(&db);
        let named = db.transaction(move |tx| {
            for length in [1, 100, 1_000, 10_000] {
                let row = counters.row(tx, length)?;
                let name = "n".repeat(length as usize);
                tx.set_variable(&counters.table, row, Counter::NAME, Some(&name))?;
            }
            Ok(())
        });
        named.unwrap();
        db.close().unwrap();
    }
    for directory in [&own, &second, &third] {
        assert!(!files(directory, "image-0").is_empty(), "{}", directory.display());
    }
    assert!(reported(&[]).contains("in 3 directories"));
    assert!(reported(&[&second]).contains("2 were given"));
    assert!(reported(&[&third, &second]).contains("in the order"));
    assert!(reported(&[&second, &second]).contains("twice"));
    // Another database does not take them, and leaves what they hold.
    let before = files(&second, "");
    let strange = with(&[&second]).open(place.path().join("new")).unwrap_err();
    assert!(strange.to_string().contains("new or an empty"), "{strange}");
    let other = place.path().join("other");
    builder().open(&other).unwrap().close().unwrap();
    let strange = with(&[&second]).open(&other).unwrap_err();
    assert!(strange.to_string().contains("image-of-"), "{strange}");
    assert_eq!(files(&second, ""), before);
    // One more is added, and the rows are still there.
    let more = place.path().join("more");
    let db = with(&[&second, &third, &more]).open(&own).unwrap();
    assert_eq!(adding(&db).call(1), Ok(4));
}

/// A last checkpoint that cannot be written is reported by `close`; what was answered is there all the same.
#[test]
fn a_close_tells_of_a_last_checkpoint_that_failed() {
    let place = tempfile::tempdir().unwrap();
    let db = open(place.path()).unwrap();
    assert_eq!(adding(&db).call(1), Ok(1));
    // Where the catalogue would be made.
    let names = (1..10).map(|number| place.path().join(format!("checkpoint-{number:06}")));
    let in_the_way: Vec<_> = names.filter(|name| fs::create_dir(name).is_ok()).collect();
    let reported = db.close().unwrap_err();
    assert!(matches!(reported, Error::CheckpointsFailed(_)), "{reported:?}");
    assert!(!reported.is_final() && !reported.is_retryable() && !reported.may_have_committed());
    in_the_way.iter().for_each(|name| fs::remove_dir(name).unwrap());
    let db = open(place.path()).unwrap();
    assert!(db.recovery().unwrap().transactions > 0);
    assert_eq!(adding(&db).call(1), Ok(2));
    assert_eq!(db.close(), Ok(()));
    let db = open(place.path()).unwrap();
    assert_eq!((db.recovery().unwrap().transactions, value(&db, 1)), (0, 2));
}
