//! How long transactions wait for islands that others have: as long as was set, and no longer.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tombolo::{Database, Error, Stop, StoreError, Tx};
use tombolo_engine::clock::{Clock, SystemClock};
use tombolo_engine::threads::pause;

use super::islands::{Account, AccountKey, Bank, apart, builder};
use super::islands_processes::until_run;
use super::together::until;

/// How long an island is taken.
const TAKEN: Duration = Duration::from_millis(400);
/// Shorter by far, and longer than a thread spins.
const SHORT: Duration = Duration::from_millis(30);

/// How money is moved.
type Way = fn(&Bank, u64, u64, i64) -> Result<(i64, i64), Error>;

/// What a transaction answers that needs an island which another one has all the while, and how long that took.
fn meanwhile<A: Send>(bank: &Bank, run: impl Fn(&Bank) -> A + Sync) -> (A, Duration) {
    let (_, taken) = apart(&bank.db);
    let (has_begun, clock) = (AtomicBool::new(false), SystemClock::new());
    std::thread::scope(|scope| {
        let (db, taken, begins) = (&bank.db, &taken, &has_begun);
        let holds = move || {
            db.transaction(|tx| {
                tx.at(taken, |_| {
                    begins.store(true, Ordering::SeqCst);
                    pause(TAKEN);
                    Ok(())
                })
            })
        };
        // Where transactions do not wait long, it may be refused itself.
        let holder = scope.spawn(move || until_run(holds));
        until("it is taken", || has_begun.load(Ordering::SeqCst).then_some(()));
        let before_ns = clock.now_ns();
        let answer = run(bank);
        let took = Duration::from_nanos(clock.now_ns() - before_ns);
        holder.join().unwrap().unwrap();
        (answer, took)
    })
}

#[test]
fn a_transaction_waits_for_others_as_long_as_was_set() {
    let place = tempfile::tempdir().unwrap();
    let short = || builder(2).wait_max(SHORT);
    for db in [short().in_memory().unwrap(), short().open(place.path()).unwrap()] {
        let bank = Bank::new(db);
        let (a, b) = apart(&bank.db);
        bank.give_all(10);
        let ways: [Way; 2] = [Bank::transfer, Bank::transfer_by_closure];
        for way in ways {
            let (ended, took) = meanwhile(&bank, |bank| way(bank, a, b, 1));
            assert_eq!(ended, Err(Error::Refused(StoreError::LockTimeout)));
            assert!((SHORT..TAKEN * 3 / 4).contains(&took), "{took:?}");
        }
        let call = |id: u64| bank.book.at(&id).unwrap().call((id, 0)).unwrap();
        assert_eq!((call(a), call(b)), (10, 10));
        bank.db.close().unwrap();
    }
}

#[test]
fn a_transaction_waits_long_by_default() {
    let default = Database::builder().define::<Account>().islands(2);
    let bank = Bank::new(default.in_memory().unwrap());
    let (a, b) = apart(&bank.db);
    bank.give_all(10);
    let (ended, took) = meanwhile(&bank, |bank| bank.transfer(a, b, 1));
    assert_eq!(ended, Ok((9, 11)));
    assert!(took > TAKEN / 2, "{took:?}");
    let (ended, _) = meanwhile(&bank, |bank| bank.transfer_by_closure(b, a, 1));
    assert_eq!(ended, Ok((10, 10)));
    let aborted = bank.db.transaction(|_| Err::<(), _>(Stop::Abort("it need not wait")));
    assert_eq!(aborted, Err(Error::Aborted("it need not wait")));
}

#[test]
fn a_closure_does_not_go_on_after_its_deadline() {
    let place = tempfile::tempdir().unwrap();
    for db in [builder(2).in_memory().unwrap(), builder(2).open(place.path()).unwrap()] {
        let bank = Bank::new(db);
        let (a, b) = apart(&bank.db);
        bank.give_all(10);
        let by_id = bank.db.index::<AccountKey>().unwrap();
        let add = |tx: &mut Tx<'_>, id: u64| {
            let cents = tx.find_row(&by_id, id)?.map_or(0, |(_, row)| row.cents) + 1;
            tx.upsert_row(&by_id, &Account { id, cents }).map(drop)
        };
        let look = |tx: &mut Tx<'_>, id: u64| tx.find_row(&by_id, id).map(drop);
        // Many short steps, one step that does not end, and a closure that does not want to hear of it.
        let steps = bank.db.transaction_within(SHORT, |tx| {
            tx.at(&a, |tx| add(tx, a))?;
            loop {
                tx.at(&b, |tx| look(tx, b))?;
            }
        });
        assert_eq!(steps, Err::<(), _>(Error::Expired));
        let step = bank.db.transaction_within(SHORT, |tx| {
            tx.at(&b, |tx| add(tx, b))?;
            tx.at(&a, |tx| {
                loop {
                    look(tx, a)?;
                }
            })
        });
        assert_eq!(step, Err::<(), _>(Error::Expired));
        let deaf = bank.db.transaction_within(SHORT, |tx| {
            tx.at(&b, |tx| add(tx, b))?;
            while tx.savepoint(|tx| tx.at(&a, |tx| look(tx, a))).is_ok() {}
            let over = Err(Stop::Error(StoreError::DeadlinePassed));
            assert_eq!(tx.savepoint(|tx| tx.at(&b, |tx| add(tx, b))), over);
            Ok(())
        });
        assert_eq!(deaf, Err(Error::Expired));
        // Time passes while others have the island, too.
        let (waited, took) = meanwhile(&bank, |bank| {
            bank.db.transaction_within(SHORT, |tx| tx.at(&b, |tx| add(tx, b)))
        });
        assert_eq!(waited, Err(Error::Expired));
        assert!((SHORT..TAKEN * 3 / 4).contains(&took), "{took:?}");
        let in_time = bank.db.transaction_within(TAKEN * 100, |tx| {
            tx.at(&a, |tx| add(tx, a))?;
            tx.at(&b, |tx| add(tx, b))
        });
        assert_eq!(in_time, Ok(()));
        // The next call of an island that had a deadline has none.
        let call = |id: u64| bank.book.at(&id).unwrap().call((id, 0)).unwrap();
        assert_eq!((call(a), call(b)), (11, 11));
        let long = bank.db.at(&a).unwrap().transaction(move |tx| {
            for _ in 0..200 {
                tx.find_row(&by_id, a)?;
            }
            Ok(())
        });
        assert_eq!(long, Ok(()));
        bank.db.close().unwrap();
    }
}
