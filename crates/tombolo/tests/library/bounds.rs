//! What bounds calls, so that others need not wait for one, nor memory ends: what it may log, its
//! deadline, what it brings along.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use tombolo::{CallOptions, Database, Error, Order, Outcome, Pending, Range, Stop, StoreError, Tx};

use tombolo_engine::threads::pause;

use super::together::until;
use super::{Counter, Counters, adding, builder, definition, value};

/// The answer, however long it takes: `wait` gives up at a deadline.
pub(super) fn answer<A: Send + 'static>(pending: Pending<A>) -> Result<A, Error> {
    until("it ends", || pending.is_done().then_some(()));
    pending.wait()
}

/// In memory and in a directory.
pub(super) fn both(place: &tempfile::TempDir) -> [Database; 2] {
    [builder().in_memory().unwrap(), builder().open(place.path()).unwrap()]
}

/// A closure that inserts without end, whether it heeds that it is refused or not, is refused at the row
/// that is too much.
#[test]
fn a_runaway_is_refused_at_the_write_that_is_too_much() {
    let place = tempfile::tempdir().unwrap();
    for db in both(&place) {
        for heeds in [true, false] {
            let (counters, made) = (Counters::of(&db), Arc::new(AtomicU64::new(0)));
            let count = made.clone();
            let refused = db.transaction(move |tx| {
                for id in 0..100_000 {
                    match tx.insert(&counters.table, |row| row.set(Counter::ID, id)) {
                        Ok(_) => count.fetch_add(1, Ordering::Relaxed),
                        Err(error) if heeds => return Err(error),
                        Err(_) => 0,
                    };
                }
                Ok(())
            });
            assert_eq!(refused, Err(Error::LogTooLong { log_bytes_max: 64 << 10 }));
            let made = made.load(Ordering::Relaxed);
            assert!((500..8_000).contains(&made), "{made} rows were made in 64 KB");
        }
        // Also where the last write is the one that is too much, and none comes behind it.
        let counters = Counters::of(&db);
        let bounded = CallOptions::new().log_bytes_max(10);
        let one = move |tx: &mut Tx<'_>| {
            let refused = tx.insert(&counters.table, |row| row.set(Counter::ID, 1)).unwrap_err();
            assert!(matches!(refused, Stop::Error(StoreError::LogTooLong { .. })));
            // It may look, but write no more.
            assert_eq!(tx.lookup(&counters.by_id, 2)?, None);
            let again = tx.insert(&counters.table, |row| row.set(Counter::ID, 2));
            assert_eq!(again, Err(refused));
            Ok(())
        };
        let refused = db.with(bounded).transaction(one);
        assert_eq!(refused, Err(Error::LogTooLong { log_bytes_max: 10 }));
        assert_eq!((value(&db, 1), db.statistics().aborted), (0, 3));
        db.close().unwrap();
    }
}

/// What a closure does for ever.
#[derive(Clone, Copy, Debug)]
pub(super) enum Endless {
    Looks,
    Reads,
    Writes,
    Scans,
    Visits,
}

impl Endless {
    /// Does it until it is refused, or `enough`.
    pub(super) fn run(
        self,
        tx: &mut Tx<'_>,
        counters: &Counters,
        enough: &AtomicBool,
    ) -> Result<(), Stop> {
        let row = counters.row(tx, 1)?;
        tx.set(&counters.table, row, Counter::VALUE, 7)?;
        while !enough.load(Ordering::Relaxed) {
            match self {
                Self::Looks => assert_eq!(tx.lookup(&counters.by_id, 1)?, Some(row)),
                Self::Reads => assert_eq!(tx.get(&counters.table, row)?.get(Counter::VALUE), 7),
                // Slowly, so that it is not its log that is too long.
                Self::Writes => {
                    pause(Duration::from_micros(50));
                    if tx.set(&counters.table, row, Counter::VALUE, 8).is_err() {
                        return Ok(()); // which changes nothing
                    }
                }
                Self::Scans => {
                    let rows = tx.range(&counters.by_id, Range::all(), Order::Forward)?;
                    assert!(rows.len() > 800);
                }
                Self::Visits => tx.scan(&counters.by_id, Range::all(), Order::Forward, |_| {
                    pause(Duration::from_micros(500));
                    std::ops::ControlFlow::Continue(())
                })?,
            }
        }
        Ok(())
    }
}

/// A closure that runs when its deadline passes is ended and undone, and is there no more for others.
#[test]
fn a_deadline_ends_a_closure_that_runs() {
    let place = tempfile::tempdir().unwrap();
    for db in both(&place) {
        let counters = Counters::of(&db);
        let fill = counters.clone();
        db.transaction(move |tx| (10..900).try_for_each(|id| fill.row(tx, id).map(drop))).unwrap();
        let mut id = 0;
        use Endless::{Looks, Reads, Scans, Visits, Writes};
        for endless in [Looks, Reads, Writes, Scans, Visits] {
            id += 1;
            let (own, enough) = (counters.clone(), Arc::new(AtomicBool::new(false)));
            let reported = enough.clone();
            let calls = db.with(CallOptions::new().within(Duration::from_millis(30)));
            let pending =
                calls.once(id).submit(move |tx| endless.run(tx, &own, &reported)).unwrap();
            let other = adding(&db).submit(2).unwrap();
            assert_eq!(answer(pending), Err(Error::Expired), "{endless:?}");
            // It left no trace, and may be tried again with its id.
            assert_eq!(db.outcome(id), Ok(Outcome::Unknown));
            assert_eq!(answer(other), Ok(id as i64));
            enough.store(true, Ordering::Relaxed);
            assert_eq!(value(&db, 1), 0, "{endless:?} was undone");
        }
        assert_eq!(db.statistics().expired, 5);
        let again = db.with(CallOptions::new().within(Duration::from_secs(60)));
        assert_eq!(again.once(1).transaction(move |tx| counters.add(tx, 1)), Ok(1));
        // A thread that waits does not wait longer than it said.
        let counters = Counters::of(&db);
        let stuck = db.with(CallOptions::new().within(Duration::from_millis(20)));
        let never = AtomicBool::new(false);
        let said = stuck.transaction(move |tx| Looks.run(tx, &counters, &never));
        assert!(matches!(said, Err(Error::TimedOut | Error::Expired)), "{said:?}");
        assert_eq!(value(&db, 1), 1);
        db.close().unwrap();
    }
}

/// A single call that holds the execution thread is named, though none comes behind it. (One that its
/// caller carries holds its own thread, and no clock is read for it.)
#[test]
fn a_single_overrun_is_named_and_counted() {
    let db = builder().in_memory().unwrap();
    assert_eq!((db.overruns(), db.statistics().overruns), (vec![], 0));
    let slow = db.register_closure("slow", |_, &ms: &u64| {
        pause(Duration::from_millis(ms));
        Ok(())
    });
    slow.submit(20).unwrap().wait().unwrap();
    db.with(CallOptions::new()).submit(|_| Ok(())).unwrap().wait().unwrap(); // it is counted by then
    let named = db.overruns();
    let slow = named.iter().find(|overrun| overrun.name == "slow").unwrap();
    assert!(slow.count == 1 && slow.ns_max >= 20_000_000, "{named:?}");
    let counted = db.statistics();
    assert!(counted.overruns >= 1 && counted.overrun_ns_max >= 20_000_000);
}

/// What inputs hold elsewhere counts towards the queue's bound, where the type or the program gives its size.
#[test]
fn what_waits_is_bounded_by_what_inputs_hold() {
    struct Document(Vec<u8>);
    let db = builder().set("queue_bytes_max", "1 MB").in_memory().unwrap();
    let reported = db.register_closure("store", |_, document: &Document| Ok(document.0.len()));
    let reported = reported.input_bytes(|document| document.0.capacity());
    let known = db.register_closure("store", |_, (_, text): &(i64, String)| Ok(text.len()));
    let (begun, has_begun) = channel();
    let (end, ended) = channel();
    let holding = db.with(CallOptions::new()).submit(move |_| {
        begun.send(()).unwrap();
        let _ = ended.recv();
        Ok(())
    });
    has_begun.recv().unwrap();
    const LARGE: usize = 100_000;
    let mut waiting = Vec::new();
    let mut taken = |submit: &dyn Fn() -> Result<Pending<usize>, Error>| {
        let before = waiting.len();
        let refused = loop {
            match submit() {
                Ok(pending) => waiting.push(pending),
                Err(error) => break error,
            }
            assert!(waiting.len() < 1_000, "nothing was refused");
        };
        assert_eq!(refused, Error::QueueFull);
        waiting.len() - before
    };
    let count = taken(&|| Ok(reported.once(7).try_submit(Document(vec![7; LARGE]))?));
    assert!((9..=11).contains(&count), "{count}");
    // None of the others has room now.
    assert_eq!(taken(&|| Ok(known.try_submit((7, "n".repeat(LARGE)))?)), 0);
    let lone = || db.with(CallOptions::new()).input_bytes(LARGE);
    assert_eq!(taken(&|| Ok(lone().try_submit(|_| Ok(LARGE))?)), 0);
    end.send(()).unwrap();
    let answers = waiting.into_iter().map(Pending::wait).filter(|answer| *answer == Ok(LARGE));
    assert_eq!(answers.count(), 1, "the others have its request id");
    holding.unwrap().wait().unwrap();
}

/// One table has room for what it is given, and a directory is opened with another bound.
#[test]
fn a_table_takes_no_more_than_one_structure_may() {
    let place = tempfile::tempdir().unwrap();
    let builder = || Database::builder().table(definition());
    let open = |bytes| builder().structure_bytes_max(bytes).open(place.path());
    let full = |db: &Database| {
        let (counters, large) = (Counters::of(db), CallOptions::new().log_bytes_max(4 << 20));
        let made = db
            .with(large)
            .transaction(move |tx| (0..20_000).try_for_each(|id| counters.row(tx, id).map(drop)));
        made.err()
    };
    let db = open(256 << 10).unwrap();
    let refused = full(&db);
    assert!(matches!(refused, Some(Error::Refused(StoreError::NoSpace { .. }))), "{refused:?}");
    db.close().unwrap();
    let db = open(200 << 30).unwrap();
    assert_eq!(full(&db), None);
    drop(db);
    // More than the process has address for.
    let refused = open(usize::MAX).unwrap_err();
    assert!(refused.to_string().contains("structure_bytes_max"), "{refused}");
}
