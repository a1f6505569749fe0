//! Calls: waiting, not waiting, deadlines, full queues, futures, types of answers.

use std::pin::pin;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{Thread, current, park};
use std::time::Duration;

use tombolo::{CallOptions, Database, Durability, Error, Outcome, Pending, Stop};
use tombolo_engine::threads::on_each;

use super::{Counters, adding, builder, value};

/// A call that holds the execution thread until the test ends it.
pub(super) struct Holding {
    end: Sender<()>,
    call: Pending<(), tombolo::Settled>,
}

impl Holding {
    /// Returns once it runs.
    pub(super) fn start(db: &Database) -> Self {
        let (begun, has_begun) = channel();
        let (end, ended): (_, Receiver<()>) = channel();
        let call = db.with(CallOptions::new()).submit(move |_| {
            begun.send(()).unwrap();
            ended.recv().unwrap();
            Ok(())
        });
        let call = call.unwrap();
        has_begun.recv().unwrap();
        Self { end, call }
    }

    pub(super) fn end(self) {
        self.end.send(()).unwrap();
        self.call.wait().unwrap();
    }
}

/// Runs a future on this thread.
pub(super) fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(current())));
    let (mut future, mut context) = (pin!(future), Context::from_waker(&waker));
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => park(),
        }
    }
}

#[test]
fn many_threads_call_one_procedure_and_each_gets_its_own_answers() {
    for threads in [1, 2, 4] {
        let db = builder().threads(threads).in_memory().unwrap();
        let add = adding(&db);
        on_each(0..6, |id| {
            for n in 1..=300 {
                assert_eq!(add.call(id).unwrap(), n);
            }
            let pending: Vec<_> = (0..100).map(|_| add.submit(id).unwrap()).collect();
            for (n, call) in (301..).zip(pending) {
                assert_eq!(call.wait().unwrap(), n, "calls of a thread run in their order");
            }
        });
        assert_eq!(db.statistics().committed, 6 * 400);
    }
}

#[test]
fn a_full_queue_gives_the_input_back() {
    let db = builder().set("queue_transactions_max", "1").in_memory().unwrap();
    let add = adding(&db);
    let holding = Holding::start(&db);
    let first = add.try_submit(1).unwrap();
    let refused = add.try_submit(2).unwrap_err();
    assert_eq!((refused.input, &refused.error), (2, &Error::QueueFull));
    assert!(refused.error.is_retryable() && !refused.error.may_have_committed());
    let lone = db.with(CallOptions::new()).try_submit(|_| Ok("lone")).unwrap_err();
    assert_eq!(lone.error, Error::QueueFull);
    // A caller waits for room no longer than its deadline.
    let soon = CallOptions::new().within(Duration::from_millis(5));
    assert_eq!(add.with(soon).submit(3).unwrap_err(), Error::Expired);
    assert_eq!(db.statistics().waiting_to_run, 1);
    holding.end();
    assert_eq!(first.wait(), Ok(1));
    // The closure that came back is as good as new.
    assert_eq!(db.transaction(lone.input), Ok("lone"));
    assert_eq!([value(&db, 2), value(&db, 3)], [0, 0]);
}

#[test]
fn a_call_whose_deadline_passed_does_not_begin() {
    let db = builder().in_memory().unwrap();
    let add = adding(&db);
    let holding = Holding::start(&db);
    let soon = add.with(CallOptions::new().within(Duration::from_millis(5)));
    // A waiting caller gets an error at the deadline, when the outcome of the call is not known yet.
    let timed_out = soon.call(1).unwrap_err();
    assert_eq!(timed_out, Error::TimedOut);
    assert!(timed_out.may_have_committed() && !timed_out.is_retryable());
    // Its future returns the outcome.
    let pending = soon.submit(1).unwrap();
    assert_eq!(soon.submit(1).unwrap().wait(), Err(Error::TimedOut));
    assert!(!pending.is_done());
    holding.end();
    let expired = block_on(pending).unwrap_err();
    assert_eq!(expired, Error::Expired);
    assert!(expired.is_retryable() && !expired.may_have_committed());
    let patient = add.with(CallOptions::new().within(Duration::from_secs(600)));
    assert_eq!(patient.call(1), Ok(1));
    assert_eq!((db.statistics().expired, db.statistics().committed), (3, 2));
}

#[test]
fn pending_calls_are_futures_without_a_runtime() {
    let place = tempfile::tempdir().unwrap();
    for db in [builder().in_memory().unwrap(), builder().open(place.path()).unwrap()] {
        let add = adding(&db);
        let sum = block_on(async {
            let (first, second) = (add.submit(1).unwrap(), add.submit(2).unwrap());
            // The other way round: the waker of one is not that of the other.
            second.await.unwrap() + first.await.unwrap() + add.submit(1).unwrap().await.unwrap()
        });
        assert_eq!(sum, 1 + 1 + 2);
        // An answer that is not fetched does no harm.
        drop(add.submit(1).unwrap());
        assert_eq!(add.call(1), Ok(4));
    }
}

#[test]
fn answers_that_did_not_wait_have_another_type() {
    let place = tempfile::tempdir().unwrap();
    let db = builder()
        .durability(Durability::Sync)
        .set("time_per_group", "60s")
        .set("async_loss_ms_max", "3600000")
        .open(place.path())
        .unwrap();
    let add = adding(&db);
    let early = add.with(CallOptions::new().early());
    // Nothing flushes the log for it, and none of its answers waits.
    for n in 1..=20 {
        let answer = early.call(1).unwrap();
        assert_eq!((*answer.get(), answer.is_durable()), (n, false));
    }
    // Nor does an error, which says that what it reports may be lost.
    let id = 0xEA51;
    let calls = db.with(CallOptions::new().early());
    assert!(!calls.once(id).transaction(|_| Ok(())).unwrap().is_durable());
    let looks = db.with(CallOptions::new().early().within(Duration::from_secs(60)));
    let losable = [
        (calls.once(id).transaction(|_| Ok(())), Error::Repeated(Outcome::Committed)),
        (looks.transaction(|_| Err(Stop::Abort("seen"))), Error::Aborted("seen")),
    ];
    for (reported, error) in losable {
        let reported = reported.unwrap_err();
        assert_eq!((reported.error(), reported.is_durable()), (&error, false));
    }
    for outcome in [looks.outcome(id), looks.submit_outcome(id).unwrap().wait()] {
        let outcome = outcome.unwrap();
        assert_eq!((*outcome.get(), outcome.is_durable()), (Outcome::Committed, false));
    }
    assert_eq!(db.statistics().flushes, 0);
    // A call that waits makes all before it durable, and requests the flush immediately.
    assert_eq!(add.call(1), Ok(21));
    assert_eq!(db.statistics().flushes, 1);
    let read = db.with(CallOptions::new().early().read_only()).transaction(|_| Ok(7)).unwrap();
    assert!(read.is_durable() && read.into_inner() == 7);
    let reported = calls.once(id).transaction(|_| Ok(())).unwrap_err();
    assert!(reported.is_durable() && reported.into_inner() == Error::Repeated(Outcome::Committed));
    db.close().unwrap();
    assert_eq!(value(&builder().open(place.path()).unwrap(), 1), 21);
}

#[test]
fn a_database_never_waits_for_itself() {
    let db = Arc::new(builder().in_memory().unwrap());
    let add = adding(&db);
    let own = db.clone();
    let reported = db.transaction(move |_| {
        let pending = own.with(CallOptions::new()).try_submit(|_| Ok(1)).unwrap();
        let reported = [
            own.transaction(|_| Ok(1)).unwrap_err(),
            add.call(1).unwrap_err(),
            add.submit(1).unwrap_err(),
        ];
        assert_eq!(pending.wait(), Err(Error::TimedOut), "it runs after this one");
        Ok(reported)
    });
    assert!(reported.unwrap().iter().all(|error| *error == Error::Nested));
    assert_eq!(db.transaction(|_| Ok(2)), Ok(2));
    assert_eq!(db.statistics().committed, 3);
}

#[test]
fn a_procedure_aborts_with_its_own_reason_and_keeps_its_envelope() {
    let db = builder().in_memory().unwrap();
    let counters = Counters::of(&db);
    let odd = db.register_closure("odd", move |tx, &id: &i32| {
        let value = counters.add(tx, id)?;
        if value % 2 == 0 { Err(Stop::Abort("even")) } else { Ok(value) }
    });
    assert_eq!(odd.call(1), Ok(1));
    for _ in 0..3 {
        assert_eq!(odd.call(1), Err(Error::Aborted("even")), "and the counter stays at 1");
    }
    let statistics = db.statistics();
    assert_eq!((statistics.committed, statistics.aborted, statistics.panicked), (1, 3, 0));
}
