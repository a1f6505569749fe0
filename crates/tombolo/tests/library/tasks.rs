//! Long work on a thread of its own: awaited, waited for, given up, and ended with its database.

use std::sync::mpsc::channel;

use tombolo::{Database, Error, Order};

use super::calls::block_on;
use super::{ByValue, Counters, adding, open, value};

#[test]
fn backups_checkpoints_and_indexes_are_awaited_while_calls_go_on() {
    let place = tempfile::tempdir().unwrap();
    let (directory, safe) = (place.path().join("shop"), place.path().join("safe"));
    let db = open(&directory).unwrap();
    let add = adding(&db);
    (0..500).for_each(|n| assert!(add.call(n % 20).is_ok()));
    let backup = db.task(move |db| db.backup(safe)).unwrap();
    let checkpoint = db.task(Database::checkpoint).unwrap();
    let index = db.task(|db| db.index::<ByValue>()).unwrap();
    (0..100).for_each(|n| assert!(add.call(n % 20).is_ok()));
    assert!(block_on(backup).unwrap().bytes > 0);
    assert_eq!(checkpoint.wait(), Ok(()));
    let by_value = block_on(index).unwrap();
    let counted = db.transaction(move |tx| Ok(tx.iter(&by_value, .., Order::Forward)?.count()));
    assert_eq!(counted, Ok(20));
    // What a task fails with, and what it panics with.
    let again = db.task(move |db| db.backup(directory)).unwrap().wait();
    assert!(matches!(again, Err(Error::Directory(_))), "{again:?}");
    let panicked = db.task(|_| -> Result<(), Error> { panic!("as asked") }).unwrap().wait();
    assert_eq!(panicked, Err(Error::Panicked("as asked".into())));
}

#[test]
fn a_task_is_given_up_or_ends_with_its_database() {
    let db = super::builder().in_memory().unwrap();
    let counters = Counters::of(&db);
    // A task does its work even if no thread waits for it.
    let (done, is_done) = channel();
    let task = db.task(move |db| {
        let added = db.transaction(move |tx| counters.add(tx, 1));
        done.send(()).unwrap();
        added
    });
    drop(task.unwrap());
    is_done.recv().unwrap();
    assert_eq!(value(&db, 1), 1);
    // The database is closed while a task continues.
    let (go_on, waits) = channel::<()>();
    let task = db.task(move |db| {
        waits.recv().map_err(|error| Error::System(error.to_string()))?;
        db.transaction(|_| Ok(()))
    });
    let task = task.unwrap();
    assert!(!task.is_done());
    db.close().unwrap();
    go_on.send(()).unwrap();
    assert_eq!(task.wait(), Err(Error::Closed));
}

#[test]
fn a_transaction_cannot_begin_a_task() {
    let db = std::sync::Arc::new(super::builder().in_memory().unwrap());
    let inner = db.clone();
    let nested = db.transaction(move |_| Ok(inner.task(|_| Ok(())).map(drop)));
    assert_eq!(nested, Ok(Err(Error::Nested)));
}
