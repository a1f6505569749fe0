//! The library over the paged store: opened, closed and killed, several threads, what is refused.
//!
//! Not here: closures against a model (`src/tx/tests.rs`), histories of threads (`src/paged/tests.rs`), restart itself
//! (storage).

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex};

use tombolo::procedure::{Committed, Procedure, Reading, SchemaError, Store};
use tombolo::procedure::{resolve_index, resolve_table};
use tombolo::{
    Database, Error, Fields, Isolation, Order, PagedBuilder, PagedDatabase, PagedRowId, PagedTx,
    Range, Schema, Stop, StoreError,
};
use tombolo_engine::threads::on_each;

use super::kills::{CHILD, child};
use super::{ById, Counter, Counters, builder, definition};

fn paged() -> PagedBuilder {
    Database::builder().table(definition()).paged().pool_bytes(4 << 20)
}

fn open(directory: &Path) -> PagedDatabase {
    paged().open(directory).unwrap()
}

fn counters(db: &PagedDatabase) -> Counters {
    Counters { table: db.table().unwrap(), by_id: db.index::<ById>().unwrap() }
}

/// The counter's row, which is made where there is none.
fn row(counters: &Counters, tx: &mut PagedTx<'_>, id: i32) -> Result<PagedRowId, Stop> {
    match tx.lookup_for_update(&counters.by_id, id)? {
        Some(row) => Ok(row),
        None => tx.insert(&counters.table, |row| row.set(Counter::ID, id)),
    }
}

/// Adds to a counter; its value.
fn add(counters: &Counters, tx: &mut PagedTx<'_>, id: i32, more: i64) -> Result<i64, Stop> {
    let row = row(counters, tx, id)?;
    let value = tx.get(&counters.table, row)?.get(Counter::VALUE) + more;
    tx.set(&counters.table, row, Counter::VALUE, value)?;
    Ok(value)
}

fn value(db: &PagedDatabase, id: i32) -> i64 {
    let counters = counters(db);
    let value = db.read(|tx| {
        let found = tx.find(&counters.by_id, id)?;
        Ok(found.map_or(0, |(_, row)| row.get(Counter::VALUE)))
    });
    value.unwrap()
}

#[test]
fn what_was_committed_is_there_when_it_is_opened_again() {
    let place = tempfile::tempdir().unwrap();
    let db = open(place.path());
    let own = counters(&db);
    assert!(db.restart().is_none());
    db.transaction(|tx| (0..500).try_for_each(|id| add(&own, tx, id, 3).map(drop))).unwrap();
    let refused = db.transaction(|tx| {
        add(&own, tx, 7, 1)?;
        Err::<(), _>(Stop::Abort("on purpose"))
    });
    assert_eq!(refused, Err(Error::Aborted("on purpose")));
    db.close().unwrap();
    let db = open(place.path());
    assert!(db.restart().is_none(), "it was closed");
    assert!((0..500).all(|id| value(&db, id) == 3));
    // A copy of a closed directory is a backup.
    db.close().unwrap();
    let copy = tempfile::tempdir().unwrap();
    for file in std::fs::read_dir(place.path()).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), copy.path().join(file.file_name())).unwrap();
    }
    assert_eq!(value(&open(copy.path()), 499), 3);
}

#[test]
fn data_larger_than_the_pool_is_written_and_read() {
    let place = tempfile::tempdir().unwrap();
    let db = paged().pool_bytes(1 << 20).checkpoint_log_bytes(4 << 20).open(place.path()).unwrap();
    let own = counters(&db);
    let name = "n".repeat(400);
    for batch in 0..60 {
        db.transaction(|tx| {
            (batch * 100..(batch + 1) * 100).try_for_each(|id| {
                let row = tx.insert(&own.table, |row| row.set(Counter::ID, id))?;
                tx.set_variable(&own.table, row, Counter::NAME, Some(&name))
            })
        })
        .unwrap();
    }
    db.checkpoint().unwrap();
    let read = db.read(|tx| {
        let rows = tx.range(&own.by_id, Range::all(), Order::Backward)?;
        let mut bytes = 0;
        for &row in &rows {
            bytes += tx.get(&own.table, row)?.get(Counter::NAME).map_or(0, <[u8]>::len);
        }
        Ok((rows.len(), bytes))
    });
    assert_eq!(read, Ok((6_000, 6_000 * 400)));
    let statistics = db.statistics();
    assert!(statistics.pool_pages <= 128 && statistics.pool_misses > 200, "{statistics:?}");
    assert_eq!((statistics.committed, statistics.aborted), (61, 0));
    assert_eq!(statistics.checkpoint_failure, None);
    db.close().unwrap();
}

#[test]
fn transactions_that_wait_for_each_other_run_again() {
    let place = tempfile::tempdir().unwrap();
    let db = open(place.path());
    let own = counters(&db);
    db.transaction(|tx| (0..2).try_for_each(|id| add(&own, tx, id, 0).map(drop))).unwrap();
    let (met, runs) = (Barrier::new(2), AtomicU64::new(0));
    on_each([(0, 1), (1, 0)], |(first, second)| {
        let is_first_run = AtomicU64::new(0);
        db.transaction(|tx| {
            runs.fetch_add(1, Ordering::Relaxed);
            add(&own, tx, first, 1)?;
            if is_first_run.fetch_add(1, Ordering::Relaxed) == 0 {
                met.wait();
            }
            add(&own, tx, second, 1)
        })
        .unwrap();
    });
    assert_eq!((value(&db, 0), value(&db, 1)), (2, 2));
    assert_eq!(runs.into_inner(), 3, "one of them ran twice");
    assert_eq!(db.statistics().deadlocks, 1);
    // A transaction that runs only once gets the deadlock as its error, even if its closure returns another result.
    let met = Barrier::new(2);
    let ended = on_each([(0, 1), (1, 0)], |(first, second)| {
        db.transaction_once(|tx| {
            add(&own, tx, first, 1)?;
            met.wait();
            let _ = add(&own, tx, second, 1);
            Ok(())
        })
    });
    let victims: Vec<_> = ended.into_iter().filter_map(Result::err).collect();
    assert_eq!(victims, [Error::Refused(StoreError::Deadlock)]);
    assert!(victims[0].is_retryable());
    assert_eq!((value(&db, 0), value(&db, 1)), (3, 3));
}

#[test]
fn read_committed_lets_others_change_what_was_read() {
    let place = tempfile::tempdir().unwrap();
    let db =
        paged().lock_wait_max(std::time::Duration::from_millis(100)).open(place.path()).unwrap();
    let own = counters(&db);
    let name = |tx: &mut PagedTx<'_>| -> Result<Option<Vec<u8>>, Stop> {
        let found = tx.find(&own.by_id, 1)?;
        Ok(found.and_then(|(_, row)| row.get(Counter::NAME).map(<[u8]>::to_vec)))
    };
    let set = |to: &str| {
        db.transaction(|tx| {
            let row = row(&own, tx, 1)?;
            tx.set_variable(&own.table, row, Counter::NAME, Some(to))
        })
    };
    // The name that is read, and again once another transaction has tried to change it.
    let change = |isolation, to: &str| {
        set("as it was").unwrap();
        let (read, changed) = (Barrier::new(2), Barrier::new(2));
        let ended = on_each([true, false], |reads| {
            if !reads {
                read.wait();
                let ended = set(to);
                changed.wait();
                return ended.map(|()| Vec::new());
            }
            db.transaction_at(isolation, |tx| {
                let before = name(tx)?;
                read.wait();
                changed.wait();
                Ok([before, name(tx)?].into_iter().flatten().collect())
            })
        });
        <[_; 2]>::try_from(ended).unwrap()
    };
    let texts = |of: [&str; 2]| Ok(of.map(|text| text.as_bytes().to_vec()).to_vec());
    assert_eq!(
        change(Isolation::ReadCommitted, "changed"),
        [texts(["as it was", "changed"]), Ok(Vec::new())]
    );
    assert_eq!(
        change(Isolation::Serializable, "changed"),
        [texts(["as it was", "as it was"]), Err(Error::Refused(StoreError::LockTimeout))]
    );
    assert_eq!(db.statistics().lock_timeouts, 1);
}

/// More calls than sessions: each waits for its turn.
#[test]
fn calls_wait_for_a_session() {
    let place = tempfile::tempdir().unwrap();
    let db = paged().sessions_max(2).open(place.path()).unwrap();
    let own = counters(&db);
    on_each(0..6, |id| {
        for _ in 0..20 {
            db.transaction(|tx| add(&own, tx, id, 1)).unwrap();
        }
    });
    assert!((0..6).all(|id| value(&db, id) == 20));
    assert!((1..=2).contains(&db.statistics().sessions));
    db.close().unwrap();
}

#[test]
fn ids_of_other_transactions_and_tables_name_no_row() {
    let place = tempfile::tempdir().unwrap();
    let db = open(place.path());
    let own = counters(&db);
    let kept = db.transaction(|tx| row(&own, tx, 1)).unwrap();
    let refused = db.read(|tx| tx.get(&own.table, kept).map(drop)).unwrap_err();
    let expected = Error::RefusedAt {
        place: "counter".to_owned(),
        error: StoreError::NoSuchRow { table: own.table.position() as u32 },
    };
    assert_eq!(refused, expected);
    // Nor what the transaction itself has deleted.
    let refused = db.transaction(|tx| {
        let row = row(&own, tx, 1)?;
        tx.delete(&own.table, row)?;
        tx.get(&own.table, row).map(drop)
    });
    assert_eq!(refused, Err(expected));
    // A handle of another database is refused.
    let other = builder().in_memory().unwrap();
    let foreign = Counters::of(&other);
    let refused = db.read(|tx| tx.lookup(&foreign.by_id, 1).map(drop));
    assert_eq!(refused, Err(Error::Refused(StoreError::OtherDatabase)));
}

#[test]
fn what_fails_changes_nothing() {
    let place = tempfile::tempdir().unwrap();
    let db = open(place.path());
    let own = counters(&db);
    db.transaction(|tx| add(&own, tx, 1, 1)).unwrap();
    let panicked = db.transaction(|tx| {
        add(&own, tx, 1, 1)?;
        if tx.lookup(&own.by_id, 1)?.is_some() { panic!("in the middle") } else { Ok(()) }
    });
    assert_eq!(panicked, Err(Error::Panicked("in the middle".into())));
    // A refused write dooms the transaction, whatever its closure says.
    let twice = db.transaction(|tx| {
        add(&own, tx, 1, 1)?;
        let _ = tx.insert(&own.table, |row| row.set(Counter::ID, 1));
        Ok(())
    });
    assert_eq!(twice, Err(Error::Duplicate { index: "counter_by_id".to_owned() }));
    // A value has to fit into a page, unlike one in memory.
    let long = "x".repeat(9_000);
    let refused = db.transaction(|tx| {
        let row = row(&own, tx, 1)?;
        tx.set_variable(&own.table, row, Counter::NAME, Some(&long))
    });
    assert!(matches!(refused, Err(Error::Refused(StoreError::RowTooLong { .. }))), "{refused:?}");
    let wrote = db.read(|tx| add(&own, tx, 1, 1));
    assert_eq!(wrote, Err(Error::LogTooLong { log_bytes_max: 0 }));
    let nested = db.transaction(|_| Ok(db.read(|_| Ok(())))).unwrap();
    assert_eq!(nested, Err(Error::Nested));
    assert_eq!(value(&db, 1), 1);
    assert_eq!(db.statistics().panicked, 1);
}

#[test]
fn what_the_paged_store_lacks_is_refused_by_name() {
    let place = tempfile::tempdir().unwrap();
    let text = |builder: PagedBuilder| builder.open(place.path()).unwrap_err().to_string();
    let memory = Database::builder().memory_bytes_max(1 << 30).paged();
    assert!(text(memory).starts_with("memory_bytes_max is of the memory store"));
    let archive = Database::builder().log_archive(place.path().join("archive")).paged();
    assert!(text(archive).starts_with("log_archive is of the memory store"));
    assert!(text(paged().pool_bytes(0)).contains("at least 1 MB"));
    // Definitions.
    open(place.path()).close().unwrap();
    let mut other = definition();
    other.columns[1].hot = false;
    let refused = Database::builder().table(other).paged().open(place.path());
    assert!(matches!(refused, Err(Error::Definition(_))), "{refused:?}");
    let mut more = definition();
    more.indexes.push(tombolo::IndexDef { name: "counter_more".into(), ..more.indexes[1].clone() });
    let refused = Database::builder().table(more).paged().open(place.path()).unwrap_err();
    assert!(refused.to_string().contains("the directory has no counter_more"), "{refused}");
    // It is as it was, and in use by one at a time.
    let db = open(place.path());
    let in_use = paged().open(place.path());
    assert!(matches!(in_use, Err(Error::InUse { .. })), "{in_use:?}");
    drop(db);
    // Each store's directory is refused by the other.
    let refused = super::open(place.path()).unwrap_err();
    assert!(matches!(refused, Error::OtherVersion(_)), "{refused:?}");
    let memory = tempfile::tempdir().unwrap();
    super::open(memory.path()).unwrap().close().unwrap();
    let refused = paged().open(memory.path()).unwrap_err();
    assert!(refused.to_string().contains("database of the memory store"), "{refused}");
    drop(open(place.path()));
}

/// The acknowledgement in a line, if it is one: a counter and its value.
fn acknowledged(line: &str) -> Option<(i32, i64)> {
    let (id, value) = line.strip_prefix("ack ")?.split_once(' ')?;
    Some((id.parse().unwrap(), value.parse().unwrap()))
}

#[test]
fn what_was_answered_survives_a_kill() {
    if let Some(directory) = std::env::var_os(CHILD) {
        let db = paged().checkpoint_log_bytes(64 << 10).open(directory).unwrap();
        let own = counters(&db);
        on_each(0..3, |id| {
            loop {
                // Two counters that are equal wherever a transaction is all or nothing.
                let added = db.transaction(|tx| {
                    add(&own, tx, id + 100, 1)?;
                    add(&own, tx, id, 1)
                });
                let line = format!("ack {id} {}\n", added.unwrap());
                if std::io::stdout().lock().write_all(line.as_bytes()).is_err() {
                    return;
                }
            }
        });
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let mut last = BTreeMap::new();
    for round in 1..=4 {
        let mut child = child("paged::what_was_answered_survives_a_kill", place.path());
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let mut acknowledgements = lines.by_ref().filter_map(|line| acknowledged(&line));
        last.extend(acknowledgements.by_ref().take(60 * round));
        child.kill().unwrap(); // SIGKILL
        child.wait().unwrap();
        last.extend(acknowledgements);
        let heard = Arc::new(Mutex::new(Vec::new()));
        let hear = heard.clone();
        let listening = Database::builder().on_opening(move |now| hear.lock().unwrap().push(now));
        let db =
            listening.table(definition()).paged().pool_bytes(4 << 20).open(place.path()).unwrap();
        assert!(db.restart().is_some_and(|restart| restart.log_bytes > 0), "{:?}", db.restart());
        let heard = heard.lock().unwrap();
        assert!(
            heard.is_sorted_by(|a, b| a.part() <= b.part() && a.elapsed <= b.elapsed),
            "{heard:?}"
        );
        let end = heard.last().unwrap();
        assert!(end.bytes > 0 && end.bytes == end.bytes_max, "{end:?}");
        for (&id, &acknowledged) in &last {
            let found = value(&db, id);
            // One call of each thread was under way.
            assert!((acknowledged..=acknowledged + 1).contains(&found), "{id}: {found}, {last:?}");
            assert_eq!(found, value(&db, id + 100));
        }
        assert!(!last.is_empty());
    }
}

/// Adds to a counter that exists; where the result is 0 it inserts its key again, which the index refuses.
struct Add(Counters);

impl Procedure for Add {
    type Input = (i32, i64);
    type Answer = i64;

    fn bind(schema: &Schema) -> Result<Self, SchemaError> {
        Ok(Self(Counters { table: resolve_table(schema)?, by_id: resolve_index(schema)? }))
    }

    fn run<S: Store>(
        &self,
        mut tx: Reading<'_, S>,
        &(id, more): &(i32, i64),
    ) -> Result<Committed<i64>, tombolo::procedure::Stop> {
        let Counters { table, by_id } = &self.0;
        let Some(row) = tx.lookup_for_update(by_id, id)? else {
            return tx.abort("no such counter");
        };
        let value = tx.pin(table, row)?.get(Counter::VALUE) + more;
        if more == 0 {
            return tx.commit(value);
        }
        let mut tx = tx.write();
        let fields = Fields::none().with(Counter::VALUE);
        tx.update(table, row, fields, |row| row.set(Counter::VALUE, value))?;
        if value == 0 {
            tx.insert(by_id, id, row)?;
        }
        tx.commit(value)
    }
}

#[test]
fn procedures_are_steps_of_a_transaction() {
    let (place, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let db = open(place.path());
    let (own, add) = (counters(&db), db.procedure::<Add>().unwrap());
    for id in [1, 2] {
        db.transaction(|tx| self::add(&own, tx, id, 10)).unwrap();
    }
    // Steps see what came before them, and commit with it.
    let values = db.transaction(|tx| {
        self::add(&own, tx, 1, 1)?;
        Ok((tx.run(&add, &(1, 5))?, tx.run(&add, &(2, -3))?))
    });
    assert_eq!(values, Ok((16, 7)));
    // A step that aborts has changed nothing, and the closure may go on.
    let refused = db.transaction(|tx| {
        let value = tx.run(&add, &(1, 1))?;
        assert!(matches!(tx.run(&add, &(3, 1)), Err(Stop::Abort("no such counter"))));
        Ok(value)
    });
    assert_eq!((refused, value(&db, 1)), (Ok(17), 17));
    // One that the store refuses dooms the transaction, whatever the closure makes of it.
    let doomed = db.transaction(|tx| {
        tx.run(&add, &(2, 1))?;
        let Err(Stop::Error(error @ StoreError::Duplicate { .. })) = tx.run(&add, &(1, -17)) else {
            panic!("its index has the key");
        };
        assert!(matches!(tx.run(&add, &(2, 1)), Err(Stop::Error(again)) if again == error));
        Ok(())
    });
    assert!(matches!(doomed, Err(Error::Duplicate { .. })), "{doomed:?}");
    assert_eq!((value(&db, 1), value(&db, 2)), (17, 7));
    // A closure that only reads may run one that does.
    assert_eq!(db.read(|tx| tx.run(&add, &(1, 0))), Ok(17));
    let refused = db.read(|tx| tx.run(&add, &(1, 1)));
    assert!(matches!(refused, Err(Error::LogTooLong { .. })), "{refused:?}");
    assert_eq!(value(&db, 1), 17);
    // One of another database does not run.
    let other = open(other.path());
    let of_other = other.procedure::<Add>().unwrap();
    let refused = db.transaction(|tx| tx.run(&of_other, &(1, 1)));
    assert!(matches!(refused, Err(Error::Refused(StoreError::OtherDatabase))), "{refused:?}");
}
