//! Islands of paged stores as processes: calls, transactions over several, processes that are killed, programs that do
//! not fit. A test starts its own program again for each island, which then runs the same test up to the opening.

use std::env;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::time::Duration;

use tombolo::{
    Database, Error, IslandProcedure, PagedIslandProcesses, PagedIslandsBuilder,
    PagedProcessesBuilder, Stop,
};
use tombolo_engine::rng::Rng;
use tombolo_engine::threads::{on_each, pause};

use super::islands::{ACCOUNTS, Account, AccountKey};
use super::islands_processes::{Branches, money_survives_kills, until_run};
use super::kills::{CHILD, child};

#[derive(Clone, Copy)]
struct Procedures {
    book: IslandProcedure<(u64, i64), i64>,
    insert: IslandProcedure<u64, ()>,
    sum: IslandProcedure<(), i64>,
    panic: IslandProcedure<String, ()>,
}

struct Bank {
    db: PagedIslandProcesses,
    to: Procedures,
}

fn builder(islands: usize) -> PagedIslandsBuilder {
    // No test waits so long for a lock.
    let lock_wait_max = Duration::from_secs(1_000);
    let paged = Database::builder().define::<Account>().paged().pool_bytes(8 << 20);
    paged.lock_wait_max(lock_wait_max).islands(islands)
}

/// Accounts in processes of which each runs `test`. In such a process it does not return.
fn declared(test: &str, islands: usize) -> (PagedProcessesBuilder, Procedures) {
    let test = format!("paged_islands_processes::{test}");
    let mut db = builder(islands).processes().arguments(["--exact", test.as_str(), "--nocapture"]);
    let procedures = Procedures {
        book: db.closure(
            "book",
            |island| island.index::<AccountKey>(),
            |tx, by_id, &(id, cents): &(u64, i64)| {
                // Found to be changed: two that only read it would wait for each other.
                tx.lookup_for_update(by_id, id)?;
                let cents = tx.find_row(by_id, id)?.map_or(0, |(_, account)| account.cents) + cents;
                if cents < 0 {
                    return Err(Stop::Abort("not enough money"));
                }
                tx.upsert_row(by_id, &Account { id, cents })?;
                Ok(cents)
            },
        ),
        insert: db.closure(
            "insert",
            |island| island.table::<Account>(),
            |tx, accounts, &id| tx.insert_row(accounts, &Account { id, cents: 0 }).map(drop),
        ),
        sum: db.closure(
            "sum",
            |island| island.table::<Account>(),
            |tx, accounts, (): &()| {
                let mut sum = 0;
                for row in tx.rows(accounts)? {
                    sum += tx.get(accounts, row)?.get(Account::CENTS);
                }
                Ok(sum)
            },
        ),
        panic: db.closure("panic", |_| Ok(()), |_, (), words: &String| panic!("{words}")),
    };
    (db.become_island(), procedures)
}

impl Bank {
    fn open((db, to): (PagedProcessesBuilder, Procedures), directory: &Path) -> Self {
        Self { db: db.open(directory).unwrap(), to }
    }

    fn give_all(&self, cents: i64) {
        (0..ACCOUNTS).for_each(|id| assert_eq!(self.book(id, cents), Ok(cents)));
    }

    /// Two accounts on different islands.
    fn apart(&self) -> (u64, u64) {
        let island = |key: u64| self.db.island_of(&key).unwrap();
        (0, (1..).find(|key| island(*key) != island(0)).unwrap())
    }
}

impl Branches for Bank {
    fn book(&self, id: u64, cents: i64) -> Result<i64, Error> {
        self.db.call(&self.to.book, &id, &(id, cents))
    }

    fn transfer(&self, from: u64, to: u64, cents: i64) -> Result<(i64, i64), Error> {
        self.db.transaction(|tx| {
            let left = tx.run(&self.to.book, &from, &(from, -cents))?;
            Ok((left, tx.run(&self.to.book, &to, &(to, cents))?))
        })
    }

    fn money(&self) -> Result<i64, Error> {
        Ok(self.db.read(|tx| tx.everywhere(&self.to.sum, &()))?.into_iter().sum())
    }

    fn process_of(&self, island: usize) -> Option<u32> {
        self.db.process_of(island)
    }

    fn restarts(&self) -> u64 {
        self.db.restarts()
    }
}

/// The money that islands of one process find in a directory.
fn money_of_one_process(directory: &Path, islands: usize) -> i64 {
    let db = builder(islands).open(directory).unwrap();
    let accounts = db.table::<Account>().unwrap();
    let sums = db.read(|tx| {
        tx.everywhere(|tx| {
            let rows = tx.rows(&accounts)?;
            rows.into_iter().map(|row| Ok(tx.get(&accounts, row)?.get(Account::CENTS))).sum()
        })
    });
    let sums: Vec<i64> = sums.unwrap();
    db.close().unwrap();
    sums.into_iter().sum()
}

#[test]
fn they_answer_as_islands_of_one_process_do() {
    let declared = declared("they_answer_as_islands_of_one_process_do", 3);
    let place = tempfile::tempdir().unwrap();
    let bank = Bank::open(declared, place.path());
    let (a, b) = bank.apart();
    let processes = (0..3).map(|island| bank.db.process_of(island).unwrap()).collect::<Vec<_>>();
    assert!(processes.iter().all(|process| *process != std::process::id()), "{processes:?}");
    bank.give_all(100);
    assert_eq!(bank.transfer(a, b, 30), Ok((70, 130)));
    assert_eq!(bank.transfer(a, b, 71), Err(Error::Aborted("not enough money")));
    assert_eq!(bank.transfer(b, a, 131), Err(Error::Aborted("not enough money")));
    assert_eq!(bank.transfer(a, a, 5), Ok((65, 70)), "two steps on one island");
    assert_eq!(bank.transfer(b, a, 130), Ok((0, 200)));
    assert_eq!(bank.book(b, -1), Err(Error::Aborted("not enough money")));
    assert_eq!(bank.money(), Ok(100 * ACCOUNTS as i64));
    let index = "account_key".to_owned();
    let duplicate = bank.db.call(&bank.to.insert, &a, &a).unwrap_err();
    assert_eq!(duplicate, Error::Duplicate { index });
    let ouch = bank.db.call(&bank.to.panic, &a, &"ouch".to_owned());
    assert_eq!(ouch, Err(Error::Panicked("ouch".into())));
    let doomed = bank.db.transaction(|tx| {
        tx.run(&bank.to.book, &a, &(a, 1))?;
        // The closure goes on, the transaction does not.
        let _ = tx.run(&bank.to.panic, &b, &"ouch".to_owned());
        Ok(())
    });
    assert_eq!(doomed, Err(Error::Panicked("ouch".into())));
    let refused = bank.db.read(|tx| tx.run(&bank.to.book, &a, &(a, 1))).unwrap_err();
    assert!(matches!(refused, Error::InIsland { is_retryable: false, .. }), "{refused}");
    assert_eq!(bank.book(a, 0), Ok(200));
    let own = bank.db.transaction(|tx| {
        tx.run(&bank.to.book, &a, &(a, 1))?;
        Err::<(), _>(Error::Aborted("the caller's reason"))
    });
    assert_eq!(own, Err(Error::Aborted("the caller's reason")));
    assert_eq!(bank.book(a, 0), Ok(200));
    let long = bank.db.call(&bank.to.panic, &a, &"a".repeat(5 << 20)).unwrap_err();
    assert!(long.to_string().contains("more than the"), "{long}");
    bank.db.checkpoint().unwrap();
    let counted = bank.db.statistics().into_iter().map(|own| own.unwrap().over_islands);
    assert_eq!(counted.sum::<u64>(), 2, "two transfers wrote on two islands");
    bank.db.close().unwrap();
    assert_eq!(money_of_one_process(place.path(), 3), 100 * ACCOUNTS as i64);
    // A directory of another number of islands, or of islands of memory stores.
    let refused = builder(2).processes().open(place.path()).unwrap_err().to_string();
    assert!(refused.contains("a database of 3 islands"), "{refused}");
}

#[test]
fn many_callers_lose_no_money() {
    let declared = declared("many_callers_lose_no_money", 2);
    let place = tempfile::tempdir().unwrap();
    let bank = Bank::open(declared, place.path());
    bank.give_all(100);
    on_each(0..6u64, |thread| {
        let mut random = Rng::stream(27, &[thread]);
        for _ in 0..50 {
            let (from, to) = (random.below(ACCOUNTS), random.below(ACCOUNTS));
            match until_run(|| bank.transfer(from, to, 1)) {
                Ok(_) | Err(Error::Aborted(_)) => {}
                Err(error) => panic!("{error}"),
            }
        }
    });
    assert_eq!(bank.money(), Ok(100 * ACCOUNTS as i64));
    assert_eq!(bank.db.restarts(), 0);
}

#[test]
fn killed_processes_lose_nothing_that_was_answered_and_no_money() {
    let declared = declared("killed_processes_lose_nothing_that_was_answered_and_no_money", 2);
    let place = tempfile::tempdir().unwrap();
    let bank = Bank::open(declared, place.path());
    bank.give_all(1_000);
    let gained = money_survives_kills(&bank);
    bank.db.close().unwrap();
    assert_eq!(money_of_one_process(place.path(), 2), 1_000 * ACCOUNTS as i64 + gained);
}

#[test]
fn processes_whose_program_was_killed_undo_what_is_open_and_leave_the_directory() {
    let test = "processes_whose_program_was_killed_undo_what_is_open_and_leave_the_directory";
    let (db, to) = declared(test, 2);
    if let Some(directory) = env::var_os(CHILD) {
        let bank = Bank::open((db, to), directory.as_ref());
        bank.give_all(1_000);
        let (account, _) = bank.apart();
        let works = bank.db.transaction(|tx| {
            tx.run(&bank.to.book, &account, &(account, 1))?;
            // Calls wait for it, one of them in a transaction of its own.
            on_each(0..3, |caller| match caller {
                0 => {
                    println!("open");
                    loop {
                        pause(Duration::from_secs(1));
                    }
                }
                1 => bank.book(account, 0).map(drop),
                _ => bank.transfer(account, account, 1).map(drop),
            });
            Ok(())
        });
        return works.unwrap();
    }
    let place = tempfile::tempdir().unwrap();
    let mut parent = child(&format!("paged_islands_processes::{test}"), place.path());
    let mut lines = BufReader::new(parent.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.ends_with("open")));
    pause(Duration::from_millis(100));
    parent.kill().unwrap(); // SIGKILL
    parent.wait().unwrap();
    let bank = Bank::open((db, to), place.path());
    assert_eq!(bank.money(), Ok(1_000 * ACCOUNTS as i64));
}
