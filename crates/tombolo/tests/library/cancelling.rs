//! Calls that are cancelled: before they begin, while they run, and when it is too late.

use std::pin::Pin;
use std::sync::atomic::AtomicBool;
use std::task::{Context, Poll, Waker};

use tombolo::{CallOptions, Error, Outcome};

use super::bounds::{Endless, answer, both};
use super::calls::{Holding, block_on};
use super::together::until;
use super::{Counters, adding, value};

#[test]
fn a_cancelled_call_that_has_not_begun_never_runs() {
    let place = tempfile::tempdir().unwrap();
    for db in both(&place) {
        let add = adding(&db);
        let holding = Holding::start(&db);
        let (first, other) = (add.submit(1).unwrap(), add.submit(2).unwrap());
        let (known, dropped) = (add.once(7).submit(1).unwrap(), add.submit(1).unwrap());
        for call in [&first, &known, &dropped] {
            call.cancel();
            call.cancel();
        }
        drop(dropped);
        assert!(!first.is_done(), "its turn has not come");
        holding.end();
        let cancelled = first.wait().unwrap_err();
        assert_eq!(cancelled, Error::Cancelled);
        assert!(cancelled.is_retryable() && !cancelled.may_have_committed());
        assert_eq!((known.wait(), other.wait()), (Err(Error::Cancelled), Ok(1)));
        assert_eq!((value(&db, 1), db.outcome(7)), (0, Ok(Outcome::Unknown)));
        assert_eq!(db.statistics().cancelled, 3);
        // Nothing is left of it where later calls' replies arrive.
        assert_eq!(add.once(7).call(1), Ok(1));
        let again: Vec<_> = (0..100).map(|_| add.submit(2).unwrap()).collect();
        for (n, call) in (2..).zip(again) {
            assert_eq!(call.wait(), Ok(n));
        }
        db.close().unwrap();
    }
}

#[test]
fn a_closure_that_runs_is_ended_and_undone_when_it_is_cancelled() {
    let place = tempfile::tempdir().unwrap();
    for db in both(&place) {
        let counters = Counters::of(&db);
        let fill = counters.clone();
        db.transaction(move |tx| (10..900).try_for_each(|id| fill.row(tx, id).map(drop))).unwrap();
        use Endless::{Looks, Reads, Scans, Visits, Writes};
        for (id, endless) in (1..).zip([Looks, Reads, Writes, Scans, Visits]) {
            let (own, never) = (counters.clone(), AtomicBool::new(false));
            let (begun, has_begun) = std::sync::mpsc::channel();
            let running = db.once(id).submit(move |tx| {
                begun.send(()).unwrap();
                endless.run(tx, &own, &never)
            });
            let running = running.unwrap();
            has_begun.recv().unwrap();
            running.cancel();
            assert_eq!(answer(running), Err(Error::Cancelled), "{endless:?}");
            assert_eq!((value(&db, 1), db.outcome(id)), (0, Ok(Outcome::Unknown)), "{endless:?}");
        }
        let statistics = db.statistics();
        assert_eq!((statistics.cancelled, statistics.expired), (5, 0));
        db.close().unwrap();
    }
}

/// Its answer is its outcome, whether that is there already or waits for the log.
#[test]
fn a_call_that_has_committed_is_not_undone() {
    let place = tempfile::tempdir().unwrap();
    for db in both(&place) {
        let add = adding(&db);
        for n in 1..=50 {
            let call = add.submit(1).unwrap();
            until("it has committed", || (db.statistics().committed >= n).then_some(()));
            call.cancel();
            assert_eq!(call.wait(), Ok(n as i64));
            assert_eq!(db.statistics().cancelled, 0);
        }
        let done = add.submit(1).unwrap();
        until("it is done", || done.is_done().then_some(()));
        done.cancel();
        assert_eq!((done.wait(), value(&db, 1)), (Ok(51), 51));
        db.close().unwrap();
    }
}

#[test]
fn a_cancelled_future_ends_and_an_early_call_says_the_same() {
    let place = tempfile::tempdir().unwrap();
    for db in both(&place) {
        let add = adding(&db);
        let holding = Holding::start(&db);
        let early = add.with(CallOptions::new().early()).submit(1).unwrap();
        let mut call = add.submit(1).unwrap();
        let polled = Pin::new(&mut call).poll(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(polled, Poll::Pending));
        call.cancel();
        early.cancel();
        holding.end();
        assert_eq!(block_on(call), Err(Error::Cancelled));
        let reported = block_on(early).unwrap_err();
        assert_eq!(reported.error(), &Error::Cancelled);
        assert_eq!(value(&db, 1), 0);
        db.close().unwrap();
    }
}
