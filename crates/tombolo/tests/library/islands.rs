//! Databases of several islands: calls of one, transactions over several, crashes, directories of another kind.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tombolo::{
    AtomicCommit, CallOptions, Database, Error, Islands, IslandsBuilder, OnIslands, Placement,
    Statistics, Stop, StoreError, Table, TableDef, Tx,
};
use tombolo_engine::islands::topology::Topology;
use tombolo_engine::rng::Rng;
use tombolo_engine::threads::{allowed_cores, on_each, pause};

use super::histories::asked;
use super::kills::{CHILD, child};
use super::together::{LONG, until};

/// An account.
#[derive(Clone, Copy, Debug, Table)]
pub(super) struct Account {
    #[key]
    pub(super) id: u64,
    pub(super) cents: i64,
}

/// Accounts on all islands, and what is done with them.
pub(super) struct Bank {
    pub(super) db: Islands,
    pub(super) book: OnIslands<(u64, i64), i64>,
    sum: OnIslands<(), i64>,
    is_carried: bool,
}

pub(super) const ACCOUNTS: u64 = 24;

pub(super) fn builder(islands: usize) -> IslandsBuilder {
    builder_with("pipeline_threads", "auto", islands)
}

fn builder_with(setting: &str, value: &str, islands: usize) -> IslandsBuilder {
    let builder = Database::builder().define::<Account>().set("log_segment_bytes", "1 MB");
    builder.set(setting, value).islands(islands).wait_max(LONG)
}

impl Bank {
    pub(super) fn new(db: Islands) -> Self {
        let (accounts, by_id) = (db.table::<Account>().unwrap(), db.index::<AccountKey>().unwrap());
        let book = db.register_closure("book", move |tx, &(id, cents): &(u64, i64)| {
            let cents = tx.find_row(&by_id, id)?.map_or(0, |(_, account)| account.cents) + cents;
            if cents < 0 {
                return Err(Stop::Abort("not enough money"));
            }
            tx.upsert_row(&by_id, &Account { id, cents })?;
            Ok(cents)
        });
        let sum = db.register_closure("sum", move |tx, (): &()| {
            let mut sum = 0;
            for row in tx.rows(&accounts)? {
                sum += tx.get(&accounts, row)?.get(Account::CENTS);
            }
            Ok(sum)
        });
        Self { db, book, sum, is_carried: true }
    }

    fn in_memory(islands: usize) -> Self {
        Self::new(builder(islands).in_memory().unwrap())
    }

    pub(super) fn open(directory: &Path, islands: usize) -> Self {
        Self::new(builder(islands).open(directory).unwrap())
    }

    pub(super) fn give_all(&self, cents: i64) {
        for id in 0..ACCOUNTS {
            self.book.at(&id).unwrap().call((id, cents)).unwrap();
        }
    }

    pub(super) fn transfer(&self, from: u64, to: u64, cents: i64) -> Result<(i64, i64), Error> {
        let mut across = self.db.across();
        let left = across.part(&self.book, &from, (from, -cents))?;
        let more = across.part(&self.book, &to, (to, cents))?;
        let mut answers = across.commit()?;
        Ok((answers.take(left), answers.take(more)))
    }

    /// Several transfers in one call.
    pub(super) fn transfer_all(&self, transfers: &[(u64, u64, i64)]) -> Vec<Result<(), Error>> {
        let transfers = transfers.iter().map(|&(from, to, cents)| {
            let mut across = self.db.across();
            across.part(&self.book, &from, (from, -cents)).unwrap();
            across.part(&self.book, &to, (to, cents)).unwrap();
            across
        });
        self.db.commit_all(transfers).into_iter().map(|ended| ended.map(drop)).collect()
    }

    /// The same without saying beforehand where it goes.
    pub(super) fn transfer_by_closure(
        &self,
        from: u64,
        to: u64,
        cents: i64,
    ) -> Result<(i64, i64), Error> {
        let by_id = self.db.index::<AccountKey>()?;
        let book = |tx: &mut Tx<'_>, id: u64, cents: i64| {
            let cents = tx.find_row(&by_id, id)?.map_or(0, |(_, account)| account.cents) + cents;
            tx.upsert_row(&by_id, &Account { id, cents })?;
            Ok(cents)
        };
        self.db.transaction(|tx| {
            let more = tx.at(&to, |tx| book(tx, to, cents))?;
            let left = tx.at(&from, |tx| book(tx, from, -cents))?;
            if left < 0 { Err(Stop::Abort("not enough money")) } else { Ok((left, more)) }
        })
    }

    /// The money on all islands, at one moment.
    pub(super) fn money(&self) -> i64 {
        let mut across = self.db.across();
        let parts = across.everywhere(&self.sum, ());
        let mut answers = across.commit().unwrap();
        parts.into_iter().map(|part| answers.take(part)).sum()
    }
}

/// Two accounts on different islands.
pub(super) fn apart(db: &Islands) -> (u64, u64) {
    let island = |key: u64| db.island_of(&key).unwrap();
    let other = (1..).find(|key| island(*key) != island(0)).unwrap();
    (0, other)
}

#[test]
fn parts_commit_together_or_not_at_all() {
    let bank = Bank::in_memory(2);
    let (a, b) = apart(&bank.db);
    bank.give_all(100);
    assert_eq!(bank.transfer(a, b, 30), Ok((70, 130)));
    assert_eq!(bank.transfer(a, b, 71), Err(Error::Aborted("not enough money")));
    assert_eq!(bank.transfer(b, a, 131), Err(Error::Aborted("not enough money")));
    assert_eq!(bank.transfer(a, a, 5), Ok((65, 70)), "two steps of one part");
    assert_eq!(bank.transfer(b, a, 130), Ok((0, 200)));
    assert_eq!(bank.transfer_by_closure(a, b, 50), Ok((150, 50)));
    assert_eq!(bank.transfer_by_closure(a, b, 151), Err(Error::Aborted("not enough money")));
    assert_eq!(bank.money(), 100 * ACCOUNTS as i64);
    let statistics = bank.db.statistics();
    let sum = |of: fn(&Statistics) -> u64| statistics.iter().map(of).sum::<u64>();
    // Two transfers and the sum by parts, a transfer by closure; one transfer was on one island.
    assert_eq!(sum(|island| island.over_islands), 4);
    assert_eq!(sum(|island| island.over_islands_by_closure), 1);
    assert_eq!(sum(|island| island.over_islands_by_messages), 0);
    assert_eq!(sum(|island| island.committed), ACCOUNTS + 5);
    let nothing = bank.db.across().commit();
    assert!(nothing.is_ok());
}

#[test]
#[should_panic(expected = "a part of the transaction that committed")]
fn a_part_of_another_transaction_has_no_answer() {
    let bank = Bank::in_memory(2);
    let (mut one, mut other) = (bank.db.across(), bank.db.across());
    let part = one.part(&bank.sum, &0, ()).unwrap();
    let _ = other.part(&bank.sum, &0, ()).unwrap();
    let _ = one.commit().unwrap();
    other.commit().unwrap().take(part);
}

#[test]
fn a_part_that_panics_or_fails_changes_nothing() {
    let bank = Bank::in_memory(3);
    let (a, b) = apart(&bank.db);
    bank.give_all(100);
    let accounts = bank.db.table::<Account>().unwrap();
    let fail = bank.db.register_closure("fail", move |tx, &how: &u64| match how {
        0 => panic!("on purpose"),
        1 => Err(Stop::Abort("no")),
        2 => {
            let id = 0;
            tx.insert_row(&accounts, &Account { id, cents: 1 })?;
            tx.insert_row(&accounts, &Account { id, cents: 1 })?;
            Ok(())
        }
        _ => Err(std::fmt::Error.into()),
    });
    for how in 0..4 {
        for (first, last) in [(a, b), (b, a)] {
            let mut across = bank.db.across();
            across.part(&bank.book, &first, (first, 1)).unwrap();
            across.part(&fail, &last, how).unwrap();
            let refused = across.commit().unwrap_err();
            match how {
                0 => assert_eq!(refused, Error::Panicked("on purpose".into())),
                1 => assert_eq!(refused, Error::Aborted("no")),
                2 => assert!(matches!(refused, Error::Duplicate { .. }), "{refused}"),
                _ => assert_eq!(refused.own(), Some(&std::fmt::Error)),
            }
        }
    }
    let by_id = bank.db.index::<AccountKey>().unwrap();
    let set = |tx: &mut Tx<'_>, id| tx.upsert_row(&by_id, &Account { id, cents: 7 });
    let ended = |how: u64, is_last: bool| {
        bank.db.transaction(|tx| {
            tx.at(&b, |tx| set(tx, b).map(drop))?;
            // What a step has refused remains refused, even if the closure goes on.
            let _ = tx.at(&a, |tx| {
                set(tx, a)?;
                match how {
                    0 => panic!("on purpose"),
                    1 => Err(Stop::Abort("no")),
                    2 => tx.insert_row(&accounts, &Account { id: a, cents: 1 }).map(drop),
                    _ => Err(std::fmt::Error.into()),
                }
            });
            if is_last { Ok(()) } else { tx.at(&b, |tx| set(tx, b).map(drop)) }
        })
    };
    for (how, is_last) in (0..4).flat_map(|how| [(how, false), (how, true)]) {
        match ended(how, is_last).unwrap_err() {
            Error::Panicked(_) if how == 0 => {}
            Error::Aborted("no") if how == 1 => {}
            Error::Duplicate { .. } if how == 2 => {}
            Error::Aborted(_) if how == 3 => {}
            other => panic!("{how}: {other}"),
        }
    }
    let nested = bank.db.transaction(|_| Ok(bank.db.transaction(|_| Ok(()))));
    assert_eq!(nested, Ok(Err(Error::Nested)));
    assert_eq!(bank.money(), 100 * ACCOUNTS as i64);
    let statistics = bank.db.statistics();
    assert_eq!(statistics.len(), 3);
    assert!(statistics.iter().map(|island| island.aborted).sum::<u64>() >= 8);
}

#[test]
fn a_last_step_sees_all_answers_and_may_refuse_them() {
    let place = tempfile::tempdir().unwrap();
    let open = |how| {
        let builder = builder_with("pipeline_threads", how, 3);
        Bank::new(builder.open(place.path().join(how)).unwrap())
    };
    // On the caller's thread in memory and on disk, and by messages.
    for bank in [Bank::in_memory(3), open("auto"), open("two")] {
        let (a, b) = apart(&bank.db);
        bank.give_all(100);
        let transfer = |cents: i64, last: fn(i64, i64) -> Result<i64, Stop>| {
            let mut across = bank.db.across();
            let left = across.part(&bank.book, &a, (a, -cents)).unwrap();
            let more = across.part(&bank.book, &b, (b, cents)).unwrap();
            across.commit_if(move |answers| last(answers.get(&left), answers.get(&more)))
        };
        let both =
            |left, more| if left < 50 { Err(Stop::Abort("too much")) } else { Ok(left + more) };
        assert_eq!(transfer(30, both), Ok(200));
        assert_eq!(transfer(30, both), Err(Error::Aborted("too much")));
        assert_eq!(transfer(90, both), Err(Error::Aborted("not enough money")), "a part is first");
        let failed = transfer(1, |_, _| Err(std::fmt::Error.into())).unwrap_err();
        assert_eq!(failed.own(), Some(&std::fmt::Error));
        let panicked = transfer(1, |_, _| panic!("on purpose"));
        assert_eq!(panicked, Err(Error::Panicked("on purpose".into())));
        assert_eq!(transfer(20, both), Ok(200));
        assert_eq!(bank.book.at(&a).unwrap().call((a, 0)), Ok(50));
        assert_eq!(bank.book.at(&b).unwrap().call((b, 0)), Ok(150));
        // Of parts that only read, too: all islands, one of them, none.
        let mut across = bank.db.across();
        let sums = across.everywhere(&bank.sum, ());
        let sum =
            across.commit_if(move |answers| Ok(sums.iter().map(|sum| answers.get(sum)).sum()));
        assert_eq!(sum, Ok(100 * ACCOUNTS as i64));
        let mut across = bank.db.across();
        let sums = across.everywhere(&bank.sum, ());
        let refused = across.commit_if(move |answers| match answers.get(&sums[0]) {
            0 => Ok(()),
            _ => Err(Stop::Abort("money")),
        });
        assert_eq!(refused, Err(Error::Aborted("money")));
        let mut across = bank.db.across();
        let part = across.part(&bank.book, &a, (a, 1)).unwrap();
        let refused = across.commit_if(move |answers| match answers.get(&part) {
            51 => Err::<(), _>(Stop::Abort("one more")),
            _ => Ok(()),
        });
        assert_eq!(refused, Err(Error::Aborted("one more")));
        assert_eq!(bank.db.across().commit_if(|_| Ok(7)), Ok(7));
        assert_eq!(bank.money(), 100 * ACCOUNTS as i64);
        bank.db.close().unwrap();
    }
}

#[test]
fn several_transactions_end_as_each_by_itself() {
    let place = tempfile::tempdir().unwrap();
    let on_disk = |name: &str, how, commit| {
        let builder = builder_with("pipeline_threads", how, 3).atomic_commit(commit);
        Bank::new(builder.open(place.path().join(name)).unwrap())
    };
    let banks = [
        Bank::in_memory(3),
        on_disk("prepared", "auto", AtomicCommit::TwoPhase),
        on_disk("by messages", "two", AtomicCommit::TwoPhase),
        on_disk("ordered", "auto", AtomicCommit::Ordered),
    ];
    let poor = Err(Error::Aborted("not enough money"));
    for bank in banks {
        let (a, b) = apart(&bank.db);
        bank.give_all(100);
        // Each sees what those before it did, and what fails is undone.
        let transfers = [(a, b, 60), (a, b, 60), (b, a, 160), (a, a, 1), (a, b, 200), (a, b, 1)];
        let ended = [Ok(()), poor.clone(), Ok(()), Ok(()), Ok(()), poor.clone()];
        assert_eq!(bank.transfer_all(&transfers), ended);
        assert_eq!(bank.book.at(&b).unwrap().call((b, 0)), Ok(200));
        // More than are waited for together, among all accounts.
        let of = |n: u64| (n % ACCOUNTS, 7 * n % ACCOUNTS, (n % 3) as i64);
        let transfers: Vec<_> = (0..200).map(of).collect();
        let ended = bank.transfer_all(&transfers);
        assert_eq!(ended.len(), transfers.len());
        assert!(ended.iter().all(|ended| matches!(ended, Ok(()) | Err(Error::Aborted(_)))));
        let fail = bank
            .db
            .register_closure("fail", |_, (): &()| -> Result<(), Stop> { panic!("on purpose") });
        let other = Bank::in_memory(2);
        let (mut one, mut two, mut foreign) =
            (bank.db.across(), bank.db.across(), other.db.across());
        let asked = one.part(&bank.book, &a, (a, 5)).unwrap();
        one.part(&bank.book, &b, (b, -5)).unwrap();
        two.part(&bank.book, &b, (b, -5)).unwrap();
        two.part(&fail, &a, ()).unwrap();
        foreign.part(&other.book, &a, (a, 9)).unwrap();
        let before = bank.book.at(&a).unwrap().call((a, 0)).unwrap();
        let mut ended = bank.db.commit_all([one, bank.db.across(), two, foreign]).into_iter();
        assert_eq!(ended.next().unwrap().unwrap().take(asked), before + 5);
        assert!(ended.next().unwrap().is_ok(), "one without parts");
        assert_eq!(ended.next().unwrap().unwrap_err(), Error::Panicked("on purpose".into()));
        assert!(ended.next().unwrap().is_ok(), "one of another database");
        drop(ended);
        assert_eq!((bank.money(), other.money()), (100 * ACCOUNTS as i64, 9));
        // What makes them may call the database meanwhile.
        let drawn = [a, b, a].into_iter().map(|id| {
            let cents = bank.book.at(&id).unwrap().call((id, 0)).unwrap();
            let mut across = bank.db.across();
            across.part(&bank.book, &a, (a, cents)).unwrap();
            across.part(&bank.book, &b, (b, -cents)).unwrap();
            across
        });
        let ended = bank.db.commit_all(drawn);
        assert!(ended.iter().all(|ended| matches!(ended, Ok(_) | Err(Error::Aborted(_)))));
        drop(ended);
        let nested = bank.db.transaction(|_| Ok(bank.db.commit_all([bank.db.across()]).len()));
        assert!(!bank.is_carried || matches!(nested, Ok(1) | Err(Error::Setting(_))), "{nested:?}");
        bank.db.close().unwrap();
    }
}

/// Transactions that one call commits wait for the log together.
#[test]
fn several_transactions_share_flushes() {
    let place = tempfile::tempdir().unwrap();
    for commit in [AtomicCommit::TwoPhase, AtomicCommit::Ordered] {
        let builder = builder(2).atomic_commit(commit);
        let bank = Bank::new(builder.open(place.path().join(format!("{commit:?}"))).unwrap());
        bank.give_all(1_000);
        // No two of the same account.
        let accounts = |is_first: bool| {
            let is_first_island = |id: &u64| (bank.db.island_of(id).unwrap() == 0) == is_first;
            (0..ACCOUNTS).filter(is_first_island).collect::<Vec<_>>()
        };
        let pairs = accounts(true).into_iter().zip(accounts(false));
        let transfers: Vec<_> = pairs.map(|(from, to)| (from, to, 1)).collect();
        assert!(transfers.len() > 5);
        let flushes = || bank.db.statistics().iter().map(|of| of.flushes).sum::<u64>();
        let before = flushes();
        transfers.iter().for_each(|&(from, to, cents)| {
            bank.transfer(from, to, cents).unwrap();
        });
        let one_at_a_time = flushes() - before;
        let before = flushes();
        assert!(bank.transfer_all(&transfers).iter().all(Result::is_ok));
        let together = flushes() - before;
        assert!(2 * together < one_at_a_time, "{together} instead of {one_at_a_time}");
        bank.db.close().unwrap();
    }
}

/// Transfers from several threads, on one island and over several, with sums meanwhile.
fn stir(bank: &Bank, threads: u64, transfers: u64) {
    on_each(0..threads, |thread| {
        let mut random = Rng::stream(7, &[thread]);
        for n in 0..transfers {
            let (from, to) = (random.below(ACCOUNTS), random.below(ACCOUNTS));
            let cents = random.below(20) as i64;
            match n % 4 {
                0 => {
                    bank.book.at(&from).unwrap().call((from, 0)).unwrap();
                }
                1 if n % 40 == 1 => {
                    assert_eq!(bank.money(), 1_000 * ACCOUNTS as i64);
                }
                2 if bank.is_carried => {
                    let ended = bank.transfer_by_closure(from, to, cents);
                    assert!(matches!(ended, Ok(_) | Err(Error::Aborted(_))), "{ended:?}");
                }
                3 if n % 8 == 3 => {
                    let back = (to, (from + 1) % ACCOUNTS, cents);
                    let ended = bank.transfer_all(&[(from, to, cents), back, (from, to, 1)]);
                    let has_ended = |ended| matches!(ended, &(Ok(()) | Err(Error::Aborted(_))));
                    assert!(ended.iter().all(has_ended), "{ended:?}");
                }
                _ => match bank.transfer(from, to, cents) {
                    Ok(_) | Err(Error::Aborted(_)) => {}
                    Err(other) => panic!("{other}"),
                },
            }
        }
    });
    assert_eq!(bank.money(), 1_000 * ACCOUNTS as i64);
}

#[test]
fn money_stays_while_threads_transfer_it() {
    for islands in [1, 2, 5] {
        let bank = Bank::in_memory(islands);
        bank.give_all(1_000);
        stir(&bank, 4, 2_000);
        bank.db.close().unwrap();
    }
}

#[test]
fn durable_islands_are_closed_and_opened_again() {
    let place = tempfile::tempdir().unwrap();
    let bank = Bank::open(place.path(), 3);
    bank.give_all(1_000);
    for _ in 0..2 {
        let bank = Bank::open(&place.path().join("fresh"), 2);
        bank.db.close().unwrap();
    }
    stir(&bank, 3, 100);
    let statistics = bank.db.statistics();
    let sum = |of: fn(&Statistics) -> u64| statistics.iter().map(of).sum::<u64>();
    assert!(sum(|island| island.over_islands_by_closure) > 20);
    assert!(sum(|island| island.over_islands) > 100);
    bank.db.checkpoint().unwrap();
    stir(&bank, 3, 50);
    bank.db.close().unwrap();
    let bank = Bank::open(place.path(), 3);
    assert_eq!(bank.money(), 1_000 * ACCOUNTS as i64);
    stir(&bank, 2, 50);
}

#[test]
fn killed_islands_keep_what_was_answered_and_lose_no_money() {
    if let Some(directory) = std::env::var_os(CHILD) {
        let bank = Bank::open(directory.as_ref(), 3);
        if bank.money() == 0 {
            bank.give_all(1_000);
        }
        println!("open");
        on_each(0..4u64, |thread| {
            let mut random = Rng::stream(u64::from(std::process::id()), &[thread]);
            loop {
                let (from, to) = (random.below(ACCOUNTS), random.below(ACCOUNTS));
                let moved = match thread % 2 {
                    0 => bank.transfer(from, to, 1),
                    _ => bank.transfer_by_closure(from, to, 1),
                };
                let Ok((left, more)) = moved else { continue };
                let line = format!("ack {from} {left} {to} {more}\n");
                if std::io::stdout().lock().write_all(line.as_bytes()).is_err() {
                    return;
                }
            }
        });
        return;
    }
    let place = tempfile::tempdir().unwrap();
    for round in 1..=asked("TOMBOLO_KILLS", 4) {
        let test = "islands::killed_islands_keep_what_was_answered_and_lose_no_money";
        let mut child = child(test, place.path());
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        assert!(lines.any(|line| line.ends_with("open")));
        let acknowledged = lines.by_ref().take(30 * (round as usize % 5)).count();
        assert_eq!(acknowledged, 30 * (round as usize % 5), "it ended by itself");
        child.kill().unwrap(); // SIGKILL
        child.wait().unwrap();
        let bank = Bank::open(place.path(), 3);
        assert_eq!(bank.money(), 1_000 * ACCOUNTS as i64, "round {round}");
        bank.transfer(0, 1, 1).unwrap();
        bank.transfer(1, 0, 1).unwrap();
        bank.db.close().unwrap();
    }
}

#[test]
fn a_call_that_waits_for_a_lock_ends_by_its_deadline_or_when_the_lock_goes() {
    // A caller that ran the parts itself would have both islands while one dawdles.
    let place = tempfile::tempdir().unwrap();
    let queued = builder_with("pipeline_threads", "two", 2);
    let bank = Bank::new(queued.open(place.path()).unwrap());
    let (a, b) = apart(&bank.db);
    bank.give_all(100);
    let (is_held, goes_on) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let until_set =
        |flag: &AtomicBool| until("a flag", || flag.load(Ordering::SeqCst).then_some(()));
    let (held, goes) = (is_held.clone(), goes_on.clone());
    let dawdle = bank.db.register_closure("dawdle", move |_, (): &()| {
        held.store(true, Ordering::SeqCst);
        until_set(&goes);
        Ok(())
    });
    let by_id = bank.db.index::<AccountKey>().unwrap();
    let read = |options: CallOptions| {
        let read =
            move |tx: &mut Tx<'_>| Ok(tx.find_row(&by_id, a)?.map(|(_, account)| account.cents));
        bank.db.at(&a).unwrap().with(options).transaction(read)
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut across = bank.db.across();
            across.part(&bank.book, &a, (a, 1)).unwrap();
            across.part(&dawdle, &b, ()).unwrap();
            across.commit().unwrap();
        });
        until_set(&is_held);
        let soon = CallOptions::new().within(Duration::from_millis(20));
        let refused = read(soon).unwrap_err();
        assert!(matches!(refused, Error::Expired | Error::TimedOut), "{refused}");
        // Another account is not held.
        let island = |id: u64| bank.db.island_of(&id).unwrap();
        let other = (0..ACCOUNTS).find(|id| *id != a && island(*id) == island(a)).unwrap();
        assert_eq!(bank.book.at(&other).unwrap().call((other, 1)), Ok(101));
        let waits = scope.spawn(|| read(CallOptions::new()));
        pause(Duration::from_millis(20)); // so that it has begun
        goes_on.store(true, Ordering::SeqCst);
        assert_eq!(waits.join().unwrap(), Ok(Some(101)), "it waited for the transaction");
    });
    bank.db.close().unwrap();
}

#[test]
fn a_full_log_refuses_writes_and_lets_reads_go_on() {
    let place = tempfile::tempdir().unwrap();
    let small = Database::builder().define::<Account>().set("checkpoints", "off");
    let small = small.set("log_segment_bytes", "256 KB").set("log_bytes_max", "1 MB");
    let bank = Bank::new(small.islands(2).open(place.path()).unwrap());
    let (a, b) = apart(&bank.db);
    bank.give_all(1_000);
    let money = bank.money();
    // Only the island of `b` fills up.
    let mut refusals = 0;
    let small = bank.book.with(CallOptions::new().log_bytes_max(300));
    while refusals < 5 {
        match small.at(&b).unwrap().call((b, 0)) {
            Err(Error::LogFull) => {
                refusals += 1;
                pause(Duration::from_millis(5)); // room that is being made is there then
            }
            answered => _ = answered.unwrap(),
        }
    }
    for _ in 0..3 {
        let refused = bank.transfer(a, b, 1).unwrap_err();
        assert!(matches!(refused, Error::NotPrepared(_) | Error::LogFull), "{refused}");
        let refused = bank.transfer(b, a, 1).unwrap_err();
        assert!(matches!(refused, Error::NotPrepared(_) | Error::LogFull), "{refused}");
        let refused = bank.transfer_by_closure(b, a, 1).unwrap_err();
        assert!(matches!(refused, Error::NotPrepared(_) | Error::LogFull), "{refused}");
    }
    assert_eq!(bank.book.at(&a).unwrap().call((a, 0)), Ok(1_000), "nothing is held");
    assert_eq!(bank.money(), money);
    bank.db.close().unwrap();
}

#[test]
fn a_directory_of_another_kind_is_refused_with_what_to_do() {
    let place = tempfile::tempdir().unwrap();
    let (shop, lone) = (place.path().join("shop"), place.path().join("lone"));
    builder(2).open(&shop).unwrap().close().unwrap();
    let says = |refused: Error, what: &str| {
        let text = refused.to_string();
        assert!(text.contains(what), "{text}");
    };
    says(builder(3).open(&shop).unwrap_err(), "open it with islands(2)");
    says(builder(1).open(&shop).unwrap_err(), "open it with islands(2)");
    says(builder(2).ranges([5]).open(&shop).unwrap_err(), "spreads keys by hash, not by ranges");
    let text = Database::open(&shop).unwrap_err();
    says(text, "Database::builder().islands(2)");
    let alone = Database::builder().define::<Account>().open(shop.join("island-1")).unwrap_err();
    says(alone, "holds island 1 of a database of 2");
    Database::open(&lone).unwrap().close().unwrap();
    says(builder(2).open(&lone).unwrap_err(), "open it with Database::open");
    says(builder(0).in_memory().unwrap_err(), "give 1 to");
    says(builder(3).ranges([5]).in_memory().unwrap_err(), "3 islands have 2 bounds");
    says(builder(3).ranges([5, 5]).in_memory().unwrap_err(), "must ascend");
    let other =
        Database::builder().table(TableDef { name: "other".into(), ..TableDef::of::<Account>() });
    assert!(other.islands(2).open(&shop).is_ok(), "tables are added on each island");
    let open = builder(2).open(&shop).unwrap();
    assert!(matches!(builder(2).open(&shop), Err(Error::InUse { .. })));
    drop(open);
    std::fs::remove_dir_all(shop.join("island-1")).unwrap();
    says(builder(2).open(&shop).unwrap_err(), "island-1 is missing");
    let fewer = builder(4).repartition(&shop, &mut |_, _| {});
    says(fewer.unwrap_err(), "island-1 is missing");
    let ranges = builder(2).ranges([100]).in_memory().unwrap();
    let refused = ranges.island_of("text").unwrap_err();
    says(refused, "keys are integers");
}

#[test]
fn calls_of_one_island_wait_for_what_a_transaction_holds() {
    let place = tempfile::tempdir().unwrap();
    let bank = Bank::open(place.path(), 2);
    let (a, b) = apart(&bank.db);
    bank.give_all(1_000);
    // Durable transfers hold their accounts for two flushes; calls of one island want the same ones.
    on_each(0..4, |thread| {
        for _ in 0..60 {
            match thread {
                0 | 1 => drop(bank.transfer(a, b, 1).unwrap()),
                2 => drop(bank.book.at(&a).unwrap().call((a, 1)).unwrap()),
                _ => {
                    let by_id = bank.db.index::<AccountKey>().unwrap();
                    let more = bank.db.at(&b).unwrap().transaction(move |tx| {
                        let cents = tx.find_row(&by_id, b)?.map_or(0, |(_, account)| account.cents);
                        tx.upsert_row(&by_id, &Account { id: b, cents: cents - 1 })?;
                        Ok(())
                    });
                    more.unwrap();
                }
            }
        }
    });
    let call = |id: u64| bank.book.at(&id).unwrap().call((id, 0)).unwrap();
    assert_eq!((call(a), call(b)), (1_000 - 120 + 60, 1_000 + 120 - 60));
    let refused = Error::Refused(StoreError::LockTimeout);
    assert!(refused.is_retryable());
}

#[test]
fn closures_reach_islands_only_on_their_callers_threads() {
    let queued = Database::builder().define::<Account>().set("pipeline_threads", "two");
    let bank = Bank::new(queued.islands(2).wait_max(LONG).in_memory().unwrap());
    let bank = Bank { is_carried: false, ..bank };
    bank.give_all(1_000);
    let refused = bank.transfer_by_closure(0, 1, 1).unwrap_err();
    assert!(matches!(&refused, Error::Setting(why) if why.contains("across")), "{refused}");
    // Parts that are declared go by messages.
    stir(&bank, 3, 200);
}

/// The cores on which the database's threads of this process may run: for each thread.
fn cores_of_threads() -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().map_while(Result::ok);
    let status = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("status")).ok());
    let own = status.filter(|status| status.starts_with("Name:\ttombolo"));
    let cores = own.filter_map(|status| {
        status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:\t").map(str::to_owned))
    });
    cores.collect()
}

#[test]
fn islands_run_on_the_cores_of_their_placement() {
    let machine = allowed_cores();
    let place = tempfile::tempdir().unwrap();
    for _ in 0..2 {
        let grouped = builder(2).placement(Placement::Grouped).open(place.path()).unwrap();
        let bank = Bank::new(grouped);
        for core in machine.iter().take(2) {
            let is_here = |cores: &&String| **cores == core.to_string();
            let has_some = |threads: &[String]| threads.iter().filter(is_here).count() >= 2;
            // A thread has its name from its first step on.
            let mut looks = 0..1_000;
            while !has_some(&cores_of_threads()) && looks.next().is_some() {
                pause(Duration::from_millis(10));
            }
            let threads = cores_of_threads();
            assert!(has_some(&threads), "core {core}: {threads:?}");
        }
        std::thread::scope(|scope| {
            scope.spawn(|| {
                bank.db.bind_thread(1).unwrap();
                assert_eq!(allowed_cores(), [machine[1 % machine.len()]]);
                bank.give_all(5);
            });
        });
        assert!(bank.db.bind_thread(2).unwrap_err().to_string().contains("island 2 among 2"));
        assert_eq!(allowed_cores(), machine, "the thread that opens it runs where it did");
        bank.db.close().unwrap();
    }
    // What a directory says holds.
    let auto = || Database::builder().define::<Account>().set("log_segment_bytes", "1 MB");
    let db = auto().islands_auto().open(place.path()).unwrap();
    assert_eq!(db.islands(), 2);
    db.bind_thread(0).unwrap();
    db.close().unwrap();
    builder(3).ranges([5, 9]).open(place.path().join("ranges")).unwrap().close().unwrap();
    let db = auto().islands_auto().open(place.path().join("ranges")).unwrap();
    assert_eq!((db.islands(), db.island_of(&7).unwrap()), (3, 1));
    db.close().unwrap();
    let new = auto().islands_auto().open(place.path().join("new")).unwrap();
    assert_eq!(new.islands(), Topology::of_machine().islands().len());
    new.close().unwrap();
    Database::open(place.path().join("lone")).unwrap().close().unwrap();
    let refused = auto().islands_auto().open(place.path().join("lone")).unwrap_err();
    assert!(refused.to_string().contains("without islands"), "{refused}");
}
