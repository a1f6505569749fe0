//! A caller's thread does the database's work: whatever becomes of the thread, no other call suffers.

use std::cell::RefCell;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use tombolo::{CallOptions, Error, Registered, Stop};
use tombolo_engine::threads::on_each;

use super::bounds::both;
use super::calls::Holding;
use super::{Counters, adding, value};

const CALLS: i64 = 300;

/// Adds 1 to a counter, `CALLS` times, on each of two threads.
fn add_on_two_threads(add: &Registered<i32, i64>) {
    on_each([1, 2], |id| {
        (0..CALLS).for_each(|_| assert!(add.call(id).is_ok()));
    });
}

/// Runs `work` on a thread that ends with it; says whether that panicked.
fn on_a_thread_that_ends(work: impl FnOnce() + Send) -> bool {
    std::thread::scope(|scope| scope.spawn(work).join().is_err())
}

#[test]
fn a_thread_that_exits_leaves_its_calls_to_others() {
    let place = tempfile::tempdir().unwrap();
    for db in both(&place) {
        let add = adding(&db);
        for _ in 0..CALLS {
            // It puts its call in and is gone; another thread has the answer.
            let call =
                std::thread::scope(|scope| scope.spawn(|| add.submit(1).unwrap()).join().unwrap());
            assert!(call.wait().is_ok());
            assert!(!on_a_thread_that_ends(|| drop(add.submit(2).unwrap())));
            assert!(!on_a_thread_that_ends(|| assert!(add.call(3).is_ok())));
        }
        assert_eq!([1, 2, 3].map(|id| value(&db, id)), [CALLS; 3]);
        db.close().unwrap();
    }
}

thread_local! {
    /// Makes a call when its thread ends.
    static LAST: RefCell<Option<AtExit>> = const { RefCell::new(None) };
}

struct AtExit(Registered<i32, i64>);

impl Drop for AtExit {
    fn drop(&mut self) {
        assert!(self.0.call(1).is_ok() && self.0.submit(1).unwrap().wait().is_ok());
    }
}

/// When its own place to sleep is gone already, another is made.
#[test]
fn a_thread_may_call_while_it_ends() {
    let place = tempfile::tempdir().unwrap();
    for db in both(&place) {
        let add = adding(&db);
        for n in 1..=50 {
            let ended = on_a_thread_that_ends(|| {
                LAST.set(Some(AtExit(add.clone()))); // before the first call: dropped last
                add.call(2).unwrap();
                assert!(add.submit(2).unwrap().wait().is_ok());
            });
            assert!(!ended);
            assert_eq!([value(&db, 1), value(&db, 2)], [2 * n; 2]);
        }
        db.close().unwrap();
    }
}

#[test]
fn a_procedure_that_panics_on_a_callers_thread_is_its_own_calls_loss() {
    let place = tempfile::tempdir().unwrap();
    for db in both(&place) {
        let (add, counters) = (adding(&db), Counters::of(&db));
        let broken = db.register_closure("broken", move |tx, &id: &i32| -> Result<(), Stop> {
            counters.add(tx, id)?;
            panic!("as asked")
        });
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..CALLS {
                    assert_eq!(broken.call(1), Err(Error::Panicked("as asked".into())));
                }
            });
            add_on_two_threads(&add);
        });
        assert_eq!([value(&db, 1), value(&db, 2)], [CALLS; 2]);
        assert_eq!(db.statistics().panicked, CALLS as u64);
        db.close().unwrap();
    }
}

struct Counting(AtomicUsize);

impl Wake for Counting {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_future_that_is_dropped_gives_its_answer_up_and_nothing_else() {
    let place = tempfile::tempdir().unwrap();
    for db in both(&place) {
        let add = adding(&db);
        let counting = Arc::new(Counting(AtomicUsize::new(0)));
        let waker = Waker::from(counting.clone());
        for n in 1..=20 {
            let holding = Holding::start(&db);
            let mut calls: Vec<_> = (0..10).map(|_| add.submit(1).unwrap()).collect();
            for call in &mut calls {
                let polled = Pin::new(call).poll(&mut Context::from_waker(&waker));
                assert!(matches!(polled, Poll::Pending));
            }
            drop(calls);
            holding.end();
            add_on_two_threads(&add);
            assert_eq!(value(&db, 1), n * (10 + CALLS));
        }
        assert_eq!(counting.0.load(Ordering::Relaxed), 0, "a task that is gone was woken");
        assert_eq!(Arc::strong_count(&counting), 2, "a waker was kept");
        db.close().unwrap();
    }
}

/// An answer that ends the thread that drops it.
#[derive(Debug)]
struct Fatal;

impl Drop for Fatal {
    fn drop(&mut self) {
        assert!(std::thread::panicking(), "dropped");
    }
}

#[test]
fn an_answer_that_panics_when_it_is_dropped_ends_its_callers_thread_only() {
    let place = tempfile::tempdir().unwrap();
    for db in both(&place) {
        let (add, counters) = (adding(&db), Counters::of(&db));
        let fatal = db.register_closure("fatal", move |tx, &id: &i32| {
            counters.add(tx, id)?;
            Ok(Fatal)
        });
        let early = fatal.with(CallOptions::new().early());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..50 {
                    // Carried, waited for, and early.
                    assert!(on_a_thread_that_ends(|| drop(fatal.call(3))));
                    assert!(on_a_thread_that_ends(|| drop(fatal.submit(3).unwrap().wait())));
                    assert!(on_a_thread_that_ends(|| drop(early.call(3))));
                    // Given up: whichever thread drops the answer, its panic is caught or its own.
                    let _ = on_a_thread_that_ends(|| drop(fatal.submit(3).unwrap()));
                }
            });
            add_on_two_threads(&add);
        });
        assert_eq!([1, 2, 3].map(|id| value(&db, id)), [CALLS, CALLS, 200]);
        db.close().unwrap();
    }
}
