//! Islands as processes: calls, transactions over several, processes that are killed, programs that do not fit. A test
//! starts its own program again for each island, which then runs the same test up to the opening.

use std::env;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tombolo::{
    Database, Error, IslandProcedure, IslandProcesses, Islands, LinkKind, ProcessesBuilder, Stop,
};
use tombolo_engine::link::Link;
use tombolo_engine::pipeline::remote_checkpoint::Program;
use tombolo_engine::rng::Rng;
use tombolo_engine::threads::{on_each, pause};

use super::histories::asked;
use super::islands::{ACCOUNTS, Account, AccountKey, builder};
use super::kills::{CHILD, child};
use super::together::{Over, until, until_one_ends};

/// In the environment of islands' processes.
const ISLAND: &str = "ISLAND_OF_TOMBOLO";

/// What is done with accounts.
#[derive(Clone, Copy)]
pub(super) struct Procedures {
    book: IslandProcedure<(u64, i64), i64>,
    insert: IslandProcedure<u64, ()>,
    sum: IslandProcedure<(), i64>,
    panic: IslandProcedure<String, ()>,
    /// Never ends.
    hang: IslandProcedure<(), ()>,
}

/// How long processes may be silent where they are made to hang.
const SILENCE_MAX: Duration = Duration::from_secs(5);

/// Accounts in processes of which each runs `test`. In such a process it does not return.
pub(super) fn declared(test: &str, islands: usize) -> (ProcessesBuilder, Procedures) {
    let mut db = builder(islands).processes().arguments(["--exact", test, "--nocapture"]);
    if test.contains("hang") {
        db = db.silence_max(SILENCE_MAX);
    }
    declare(db)
}

fn declare(mut db: ProcessesBuilder) -> (ProcessesBuilder, Procedures) {
    let procedures = Procedures {
        book: db.closure(
            "book",
            |island| island.index::<AccountKey>(),
            |tx, by_id, &(id, cents): &(u64, i64)| {
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
        hang: db.closure(
            "hang",
            |_| Ok(()),
            |_, (), (): &()| -> Result<(), Stop> {
                loop {
                    std::hint::spin_loop();
                }
            },
        ),
    };
    (db.become_island(), procedures)
}

pub(super) struct Bank {
    pub(super) db: IslandProcesses,
    pub(super) to: Procedures,
}

impl Bank {
    pub(super) fn open((db, to): (ProcessesBuilder, Procedures), directory: &Path) -> Self {
        Self { db: db.open(directory).unwrap(), to }
    }

    pub(super) fn book(&self, id: u64, cents: i64) -> Result<i64, Error> {
        self.db.call(&self.to.book, &id, &(id, cents))
    }

    pub(super) fn give_all(&self, cents: i64) {
        (0..ACCOUNTS).for_each(|id| assert_eq!(self.book(id, cents), Ok(cents)));
    }

    pub(super) fn transfer(&self, from: u64, to: u64, cents: i64) -> Result<(i64, i64), Error> {
        let mut across = self.db.across();
        let left = across.part(&self.to.book, &from, &(from, -cents))?;
        let more = across.part(&self.to.book, &to, &(to, cents))?;
        let answers = across.commit()?;
        Ok((answers.take(left)?, answers.take(more)?))
    }

    /// The money on all islands, at one moment.
    pub(super) fn money(&self) -> Result<i64, Error> {
        let mut across = self.db.across();
        let parts = across.everywhere(&self.to.sum, &())?;
        let answers = across.commit()?;
        parts.into_iter().map(|part| answers.take(part)).sum()
    }

    /// Two accounts on different islands.
    pub(super) fn apart(&self) -> (u64, u64) {
        let island = |key: u64| self.db.island_of(&key).unwrap();
        (0, (1..).find(|key| island(*key) != island(0)).unwrap())
    }
}

/// Sends a process a signal; returns whether there is such a process.
fn signal(process: u32, name: &str) -> bool {
    // The shell has it built in.
    let sent = Command::new("sh").args(["-c", &format!("kill -{name} {process}")]).status();
    sent.unwrap().success()
}

/// Stops a process, and waits until none of its threads runs: one that has not got the signal yet may still answer.
pub(super) fn stop(process: u32) -> bool {
    let has_stopped = || {
        let threads = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
        threads.flatten().all(|thread| {
            let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
            stat.rsplit(") ").next().is_some_and(|state| state.starts_with('T'))
        })
    };
    let is_sent = signal(process, "STOP");
    if is_sent {
        until("it stops", || has_stopped().then_some(()));
    }
    is_sent
}

/// Whether a call was under way in a process that hung.
fn hung(error: &Error) -> bool {
    let hung = format!("did not answer for {SILENCE_MAX:?}");
    matches!(error, Error::AnswerLost { why, .. } if why.contains(&hung))
}

/// Repeats what changes nothing, also if its answer was lost: the last kill may strike late.
fn until_read<A>(read: impl Fn() -> Result<A, Error>) -> Result<A, Error> {
    until("the island answers", || match until_run(&read) {
        Err(Error::AnswerLost { .. }) => None,
        ended => Some(ended),
    })
}

/// Repeats what may be repeated.
pub(super) fn until_run<A>(run: impl Fn() -> Result<A, Error>) -> Result<A, Error> {
    until("it runs", || match run() {
        Err(error) if error.is_retryable() => None,
        ended => Some(ended),
    })
}

/// The money that islands of one process find in a directory.
fn money_of_one_process(directory: &Path, islands: usize) -> i64 {
    let db: Islands = builder(islands).open(directory).unwrap();
    let accounts = db.table::<Account>().unwrap();
    let sum = db.register_closure("sum", move |tx, (): &()| {
        let mut sum = 0;
        for row in tx.rows(&accounts)? {
            sum += tx.get(&accounts, row)?.get(Account::CENTS);
        }
        Ok(sum)
    });
    let mut across = db.across();
    let parts = across.everywhere(&sum, ());
    let mut answers = across.commit().unwrap();
    parts.into_iter().map(|part| answers.take(part)).sum()
}

#[test]
fn processes_answer_as_islands_of_one_process_do() {
    let declared = declared("islands_processes::processes_answer_as_islands_of_one_process_do", 3);
    let place = tempfile::tempdir().unwrap();
    let bank = Bank::open(declared, place.path());
    let (a, b) = bank.apart();
    assert_eq!(bank.db.islands(), 3);
    let processes = (0..3).map(|island| bank.db.process_of(island).unwrap()).collect::<Vec<_>>();
    assert!(processes.iter().all(|process| *process != std::process::id()), "{processes:?}");
    bank.give_all(100);
    assert_eq!(bank.transfer(a, b, 30), Ok((70, 130)));
    assert_eq!(bank.transfer(a, b, 71), Err(Error::Aborted("not enough money")));
    assert_eq!(bank.transfer(b, a, 131), Err(Error::Aborted("not enough money")));
    assert_eq!(bank.transfer(a, a, 5), Ok((65, 70)), "two steps of one part");
    assert_eq!(bank.transfer(b, a, 130), Ok((0, 200)));
    assert_eq!(bank.book(b, -1), Err(Error::Aborted("not enough money")));
    assert_eq!(bank.money(), Ok(100 * ACCOUNTS as i64));
    let index = "account_key".to_owned();
    let duplicate = bank.db.call(&bank.to.insert, &a, &a).unwrap_err();
    assert_eq!(duplicate, Error::Duplicate { index });
    let ouch = bank.db.call(&bank.to.panic, &a, &"ouch".to_owned());
    assert_eq!(ouch, Err(Error::Panicked("ouch".into())));
    let mut across = bank.db.across();
    across.part(&bank.to.book, &a, &(a, 1)).unwrap();
    across.part(&bank.to.panic, &b, &"ouch".to_owned()).unwrap();
    assert_eq!(across.commit().unwrap_err(), Error::Panicked("ouch".into()));
    assert_eq!(bank.book(a, 0), Ok(200));
    assert!(bank.db.across().commit().is_ok(), "nothing to do");
    let long = bank.db.call(&bank.to.panic, &a, &"a".repeat(5 << 20)).unwrap_err();
    assert!(long.to_string().contains("more than the"), "{long}");
    // A request id runs once.
    assert_eq!(bank.db.call_once(7, &bank.to.book, &a, &(a, 5)), Ok(205));
    let again = bank.db.call_once(7, &bank.to.book, &a, &(a, 5)).unwrap_err();
    assert_eq!(again, Error::Repeated(tombolo::Outcome::Committed));
    assert_eq!(bank.money(), Ok(100 * ACCOUNTS as i64 + 5));
    bank.db.close().unwrap();
    assert_eq!(money_of_one_process(place.path(), 3), 100 * ACCOUNTS as i64 + 5);
}

#[test]
fn many_callers_of_processes_lose_no_money() {
    let declared = declared("islands_processes::many_callers_of_processes_lose_no_money", 2);
    let place = tempfile::tempdir().unwrap();
    let bank = Bank::open(declared, place.path());
    bank.give_all(100);
    on_each(0..6u64, |thread| {
        let mut random = Rng::stream(17, &[thread]);
        for _ in 0..100 {
            let (from, to) = (random.below(ACCOUNTS), random.below(ACCOUNTS));
            match bank.transfer(from, to, 1) {
                Ok(_) | Err(Error::Aborted(_)) => {}
                Err(error) => panic!("{error}"),
            }
        }
    });
    assert_eq!(bank.money(), Ok(100 * ACCOUNTS as i64));
    assert_eq!(bank.db.restarts(), 0);
}

#[test]
fn while_one_process_is_killed_the_others_answer_and_it_comes_back_with_all_it_had() {
    let test = "islands_processes::while_one_process_is_killed_the_others_answer_and_it_comes_back_with_all_it_had";
    let declared = declared(test, 2);
    let place = tempfile::tempdir().unwrap();
    let bank = Bank::open(declared, place.path());
    let (a, b) = bank.apart();
    let (down, up) = (bank.db.island_of(&a).unwrap(), bank.db.island_of(&b).unwrap());
    bank.give_all(100);
    let mut refused = 0;
    for round in 1..=5 {
        let before = bank.db.process_of(up);
        assert!(bank.kill(down));
        let found = until("it comes back", || {
            assert_eq!(bank.book(b, 1).map(drop), Ok(()), "the other island goes on");
            let is_back = bank.db.restarts() == round;
            let error = match bank.book(a, 0) {
                Ok(found) => return is_back.then_some(found), // others answered before the kill struck
                Err(error) => error,
            };
            let is_known = matches!(error, Error::IslandRestarts { .. } | Error::AnswerLost { .. });
            assert!(is_known && !error.is_final(), "{error}");
            refused += 1;
            None
        });
        assert_eq!(found, 100 + round as i64 - 1, "what was answered is there");
        assert_eq!(until_run(|| bank.book(a, 1)), Ok(100 + round as i64));
        assert_eq!(bank.db.process_of(up), before, "the other process is the same");
    }
    assert!(refused > 0, "it was killed, and calls were refused meanwhile");
}

#[test]
fn a_process_that_hangs_is_killed_and_the_others_answer_meanwhile() {
    let test = "islands_processes::a_process_that_hangs_is_killed_and_the_others_answer_meanwhile";
    let declared = declared(test, 2);
    let place = tempfile::tempdir().unwrap();
    let bank = Bank::open(declared, place.path());
    let (a, b) = bank.apart();
    let (down, up) = (bank.db.island_of(&a).unwrap(), bank.db.island_of(&b).unwrap());
    let other = (b + 1..).find(|id| bank.db.island_of(id) == Ok(up)).unwrap();
    bank.give_all(100);
    let before = [down, up].map(|island| bank.db.process_of(island).unwrap());
    let (hangs, answered) = (AtomicBool::new(false), AtomicU64::new(0));
    let going_on = |over: &Over| {
        while !over.is_set() {
            let was_hanging = hangs.load(Ordering::SeqCst);
            bank.book(other, 0).expect("the other island goes on");
            answered.fetch_add(u64::from(was_hanging), Ordering::SeqCst);
        }
    };
    let wait = || until("it hangs", || hangs.load(Ordering::SeqCst).then_some(()));
    until_one_ends(0..6, |thread, over| match thread {
        0 => {
            assert!(stop(before[0]));
            hangs.store(true, Ordering::SeqCst);
            let lost = bank.book(a, 1).unwrap_err();
            assert!(hung(&lost) && lost.may_have_committed() && !lost.is_final(), "{lost}");
            hangs.store(false, Ordering::SeqCst);
        }
        1 => going_on(over),
        2 => {
            // Its island tells the other one, whose link is full.
            wait();
            while !over.is_set() {
                _ = bank.transfer(b, a, 1);
            }
        }
        _ => {
            wait();
            let lost = bank.db.call(&bank.to.panic, &a, &"long".repeat(200_000)).unwrap_err();
            assert!(hung(&lost) || lost.is_retryable(), "{lost}");
            until("the first one ends", || over.is_set().then_some(()));
        }
    });
    assert!(answered.load(Ordering::SeqCst) > 0, "it answered meanwhile");
    let found = until_run(|| bank.book(a, 0)).unwrap();
    assert!(found >= 100, "what was answered is there: {found}");
    assert_eq!(bank.db.restarts(), 1);
    assert_ne!(bank.db.process_of(down), Some(before[0]));
    assert_eq!(bank.db.process_of(up), Some(before[1]), "the other process is the same");
    let lost_or_found = until_run(|| bank.money()).unwrap() - 100 * ACCOUNTS as i64;
    assert!((0..=1).contains(&lost_or_found), "{lost_or_found}");
}

#[test]
fn an_endless_transaction_is_a_process_that_hangs() {
    let test = "islands_processes::an_endless_transaction_is_a_process_that_hangs";
    let declared = declared(test, 2);
    let place = tempfile::tempdir().unwrap();
    let bank = Bank::open(declared, place.path());
    let (a, b) = bank.apart();
    bank.give_all(100);
    let lost = bank.db.call(&bank.to.hang, &a, &()).unwrap_err();
    assert!(hung(&lost), "{lost}");
    assert_eq!(until_run(|| bank.book(a, 1)), Ok(101));
    // As a part, it holds up the island that begins it no longer than that, or than transactions wait for each other.
    let mut across = bank.db.across();
    across.part(&bank.to.book, &b, &(b, -1)).unwrap();
    across.part(&bank.to.hang, &a, &()).unwrap();
    across.commit().unwrap_err();
    assert_eq!(until_run(|| bank.book(b, 1)), Ok(101), "nothing was changed");
    until("a restart", || (bank.db.restarts() >= 2).then_some(()));
    assert_eq!(until_run(|| bank.book(a, 1)), Ok(102));
    let idle = SILENCE_MAX * 2;
    pause(idle);
    assert_eq!(bank.db.restarts(), 2, "what has nothing to do does not hang");
    bank.db.close().unwrap();
}

#[test]
fn an_island_in_memory_that_hangs_does_not_come_back() {
    let test = "islands_processes::an_island_in_memory_that_hangs_does_not_come_back";
    let (db, to) = declared(test, 2);
    let bank = Bank { db: db.in_memory().unwrap(), to };
    let (a, b) = bank.apart();
    let lost = bank.db.call(&bank.to.hang, &a, &()).unwrap_err();
    assert!(hung(&lost), "{lost}");
    let island = bank.db.island_of(&a).unwrap();
    assert_eq!(bank.book(a, 1), Err(Error::IslandStopped(island)));
    assert_eq!(bank.book(b, 1), Ok(1));
}

#[test]
fn a_process_that_hangs_while_it_opens_is_reported() {
    let test = "islands_processes::a_process_that_hangs_while_it_opens_is_reported";
    let db = builder(1).processes().arguments(["--exact", test, "--nocapture"]);
    let mut db = db.silence_max(SILENCE_MAX);
    let stop = |_: &tombolo::Bindings<'_>| {
        signal(std::process::id(), "STOP");
        pause(SILENCE_MAX); // it may take some time until all threads stop
        Ok(())
    };
    db.closure("stops", stop, |_, (), (): &()| Ok(()));
    let refused = db.in_memory().unwrap_err().to_string();
    assert!(refused.contains("did not start: it hung"), "{refused}");
}

/// Accounts on islands that are processes, of either store.
pub(super) trait Branches: Sync {
    fn book(&self, id: u64, cents: i64) -> Result<i64, Error>;
    fn transfer(&self, from: u64, to: u64, cents: i64) -> Result<(i64, i64), Error>;
    /// On all islands, at one moment.
    fn money(&self) -> Result<i64, Error>;
    /// The process of an island.
    fn process_of(&self, island: usize) -> Option<u32>;
    fn restarts(&self) -> u64;

    /// Kills the process of an island, if there is one now.
    fn kill(&self, island: usize) -> bool {
        self.process_of(island).is_some_and(|process| signal(process, "KILL"))
    }
}

impl Branches for Bank {
    fn book(&self, id: u64, cents: i64) -> Result<i64, Error> {
        self.book(id, cents)
    }

    fn transfer(&self, from: u64, to: u64, cents: i64) -> Result<(i64, i64), Error> {
        self.transfer(from, to, cents)
    }

    fn money(&self) -> Result<i64, Error> {
        self.money()
    }

    fn process_of(&self, island: usize) -> Option<u32> {
        self.db.process_of(island)
    }

    fn restarts(&self) -> u64 {
        self.db.restarts()
    }
}

#[test]
fn killed_processes_lose_nothing_that_was_answered_and_no_money() {
    let test = "islands_processes::killed_processes_lose_nothing_that_was_answered_and_no_money";
    let declared = declared(test, 2);
    let place = tempfile::tempdir().unwrap();
    let bank = Bank::open(declared, place.path());
    bank.give_all(1_000);
    let gained = money_survives_kills(&bank);
    bank.db.close().unwrap();
    assert_eq!(money_of_one_process(place.path(), 2), 1_000 * ACCOUNTS as i64 + gained);
}

/// Kills processes of two islands at random moments, while callers call one island or move money between them. What
/// was put on accounts besides the thousand that each of [`ACCOUNTS`] had.
pub(super) fn money_survives_kills(bank: &impl Branches) -> i64 {
    let kills = asked("TOMBOLO_KILLS", 20);
    let (moved, lost) = (AtomicU64::new(0), AtomicU64::new(0));
    let all_answered = AtomicU64::new(0);
    let local = |thread: u64, over: &Over| {
        // No other thread uses this account.
        let (id, mut answered, mut unknown) = (1_000 + thread, 0, 0);
        while !over.is_set() {
            match bank.book(id, 1) {
                Ok(cents) => {
                    assert!((answered + 1..=answered + 1 + unknown).contains(&cents), "{cents}");
                    (answered, unknown) = (cents, 0);
                    all_answered.fetch_add(1, Ordering::SeqCst);
                }
                Err(Error::AnswerLost { .. }) => unknown += 1,
                Err(error) => {
                    assert!(error.is_retryable(), "{error}");
                    pause(Duration::from_micros(200));
                }
            }
        }
        let found = until_read(|| bank.book(id, 0)).unwrap();
        assert!((answered..=answered + unknown).contains(&found), "{found} of {answered}");
        found
    };
    let moving = |thread: u64, over: &Over| {
        let mut random = Rng::stream(18, &[thread]);
        while !over.is_set() {
            match bank.transfer(random.below(ACCOUNTS), random.below(ACCOUNTS), 1) {
                Ok(_) => _ = moved.fetch_add(1, Ordering::SeqCst),
                Err(Error::AnswerLost { .. }) => _ = lost.fetch_add(1, Ordering::SeqCst),
                Err(Error::Aborted(_)) => {}
                Err(error) => {
                    assert!(error.is_retryable(), "{error}");
                    pause(Duration::from_micros(200));
                }
            }
        }
        0
    };
    let striking = || {
        let mut random = Rng::stream(asked("TOMBOLO_SEED", 19), &[]);
        for _ in 0..kills {
            pause(Duration::from_micros(random.below(30_000)));
            until("a process", || bank.kill(random.below(2) as usize).then_some(()));
        }
        0
    };
    let gained: i64 = until_one_ends(0..5u64, |thread, over| match thread {
        0 | 1 => local(thread, over),
        2 | 3 => moving(thread, over),
        _ => striking(),
    })
    .into_iter()
    .sum();
    let money = until_read(|| bank.money());
    assert_eq!(money, Ok(1_000 * ACCOUNTS as i64 + gained));
    let restarts = bank.restarts();
    let [moved, lost, answered] = [moved, lost, all_answered].map(AtomicU64::into_inner);
    assert!(restarts * 4 > kills && moved > 0, "{restarts} restarts");
    say([kills, restarts, answered, moved, lost]);
    gained
}

/// Prints counts, for `cargo xtask kills --processes`.
fn say(counts: [u64; 5]) {
    let names = ["kills", "restarts", "answered", "moved", "lost"];
    let fields = names.iter().zip(counts).map(|(name, count)| format!("\"{name}\": {count}"));
    println!("\n{{{}}}", fields.collect::<Vec<_>>().join(", "));
}

#[test]
fn processes_whose_program_was_killed_end_and_leave_the_directory() {
    let test = "islands_processes::processes_whose_program_was_killed_end_and_leave_the_directory";
    let (db, to) = declared(test, 2);
    if let Some(directory) = env::var_os(CHILD) {
        let bank = Bank::open((db, to), directory.as_ref());
        if bank.money() == Ok(0) {
            bank.give_all(1_000);
        }
        println!("open");
        on_each(0..3u64, |thread| {
            let mut random = Rng::stream(u64::from(std::process::id()), &[thread]);
            loop {
                _ = bank.transfer(random.below(ACCOUNTS), random.below(ACCOUNTS), 1);
            }
        });
        return;
    }
    let place = tempfile::tempdir().unwrap();
    for round in 0..3u64 {
        let mut parent = child(test, place.path());
        let mut lines = BufReader::new(parent.stdout.take().unwrap()).lines().map_while(Result::ok);
        assert!(lines.any(|line| line.ends_with("open")), "round {round}");
        pause(Duration::from_millis(40 * round));
        parent.kill().unwrap(); // SIGKILL
        parent.wait().unwrap();
    }
    let bank = Bank::open((db, to), place.path());
    assert_eq!(bank.money(), Ok(1_000 * ACCOUNTS as i64));
}

#[test]
fn a_directory_has_one_program() {
    let (db, to) = declared("islands_processes::a_directory_has_one_program", 2);
    let place = tempfile::tempdir().unwrap();
    let bank = Bank::open((db, to), place.path());
    let (second, _) = declared("none", 2);
    assert!(matches!(second.open(place.path()).unwrap_err(), Error::InUse { .. }));
    assert!(matches!(builder(2).open(place.path()).unwrap_err(), Error::InUse { .. }));
    bank.give_all(1);
    drop(bank);
    let (third, _) = declared("none", 3);
    let refused = third.open(place.path()).unwrap_err().to_string();
    assert!(refused.contains("a database of 2 islands"), "{refused}");
    assert_eq!(money_of_one_process(place.path(), 2), ACCOUNTS as i64);
}

#[test]
fn programs_that_do_not_fit_are_refused_by_name() {
    let test = "islands_processes::programs_that_do_not_fit_are_refused_by_name";
    let mut db = Database::builder().islands(2).processes();
    db = db.arguments(["--exact", test]);
    let name = if env::var_os(ISLAND).is_some() { "other" } else { "own" };
    let own = db.closure(name, |_| Ok(()), |_, (), n: &u64| Ok(2 * n));
    let refused = db.become_island().in_memory().unwrap_err();
    assert!(matches!(refused, Error::OtherVersion(_)), "{refused}");
    assert!(refused.to_string().contains("procedure other (u64)"), "{refused}");
    // A program that ends before it is an island.
    let (none, to) = declared("no such test", 2);
    let refused = none.in_memory().unwrap_err();
    assert!(refused.to_string().contains("did not start"), "{refused}");
    // A procedure of one database is none of another's.
    let mut builder = Database::builder().islands(1).processes();
    builder = builder.arguments(["--exact", "islands_processes::a_lone_island"]);
    builder.closure("twice", |_| Ok(()), |_, (), n: &u64| Ok(2 * n));
    let lone = builder.in_memory().unwrap();
    assert!(matches!(lone.call(&own, &7, &1), Err(Error::Schema(_))));
    assert!(matches!(lone.call(&to.book, &7, &(1, 1)), Err(Error::Schema(_))));
}

/// Whether a process has ended, or only waits to be waited for.
fn has_ended(process: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_none_or(|state| state.is_empty() || state.starts_with('Z'))
}

#[test]
fn an_endless_transaction_ends_with_its_program() {
    let test = "islands_processes::an_endless_transaction_ends_with_its_program";
    let declared = || declare(builder(1).processes().arguments(["--exact", test, "--nocapture"]));
    let (db, to) = declared();
    if let Some(directory) = env::var_os(CHILD) {
        let (other, other_to) = declared();
        let banks = [
            Bank { db: db.in_memory().unwrap(), to },
            Bank::open((other, other_to), directory.as_ref()),
        ];
        let processes = banks.each_ref().map(|bank| bank.db.process_of(0).unwrap());
        println!("islands {} {}", processes[0], processes[1]);
        on_each(&banks, |bank| bank.db.call(&bank.to.hang, &0u64, &()));
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let mut parent = child(test, place.path());
    let mut lines = BufReader::new(parent.stdout.take().unwrap()).lines().map_while(Result::ok);
    let processes = lines.find_map(|line| Some(line.split_once("islands ")?.1.to_owned())).unwrap();
    let processes: Vec<u32> = processes.split(' ').map(|number| number.parse().unwrap()).collect();
    pause(Duration::from_millis(200)); // so that the calls have begun
    parent.kill().unwrap(); // SIGKILL
    parent.wait().unwrap();
    until("they end", || processes.iter().all(|process| has_ended(*process)).then_some(()));
    let bank = Bank::open((db, to), place.path());
    assert_eq!(bank.book(0, 1), Ok(1));
}

/// Islands that are linked like this answer, and one comes back when its process was killed.
fn linked_by(kind: LinkKind, test: &str) {
    let db = builder(2).processes().link(kind);
    let declared = declare(db.arguments(["--exact", test]));
    let place = tempfile::tempdir().unwrap();
    let bank = Bank::open(declared, place.path());
    let (a, b) = bank.apart();
    bank.give_all(100);
    let long = bank.db.call(&bank.to.panic, &a, &"long".repeat(500_000)).unwrap_err();
    assert!(matches!(long, Error::Panicked(_)), "{long}");
    for round in 1..=3 {
        assert_eq!(bank.transfer(a, b, 10), Ok((100 - 10 * round, 100 + 10 * round)));
        assert!(bank.kill(bank.db.island_of(&b).unwrap()));
        let found = until_read(|| bank.book(b, 0)); // it had not ended yet
        assert_eq!(found, Ok(100 + 10 * round));
    }
    assert_eq!(bank.money(), Ok(100 * ACCOUNTS as i64));
    bank.db.close().unwrap();
}

#[test]
fn islands_are_linked_by_tcp() {
    linked_by(LinkKind::Tcp, "islands_processes::islands_are_linked_by_tcp");
}

#[test]
fn islands_are_linked_by_pipes() {
    linked_by(LinkKind::Pipe, "islands_processes::islands_are_linked_by_pipes");
}

#[test]
fn islands_are_linked_by_named_pipes() {
    linked_by(LinkKind::Fifo, "islands_processes::islands_are_linked_by_named_pipes");
}

#[test]
fn a_program_that_speaks_another_version_is_refused_by_name() {
    let test = "islands_processes::a_program_that_speaks_another_version_is_refused_by_name";
    // In the process of an island this does not return.
    drop(declared(test, 2));
    let arguments = ["--exact", test].map(Into::into).to_vec();
    let program = Program { path: env::current_exe().unwrap(), arguments };
    let (mut link, _process) = program.spawn_with(Some((ISLAND, "yes"))).unwrap();
    let other = 9_999u16;
    assert_eq!(link.send(&[&other.to_le_bytes(), b"what that version says here"]), Ok(true));
    let answer = until("an answer", || {
        let answer = link.receive().unwrap();
        answer.map(|answer| String::from_utf8_lossy(answer).into_owned())
    });
    assert!(answer.contains("speaks version 9999 of the islands' protocol"), "{answer}");
}

#[test]
fn a_lone_island() {
    let mut builder = Database::builder().islands(1).processes();
    builder = builder.arguments(["--exact", "islands_processes::a_lone_island"]);
    let twice = builder.closure("twice", |_| Ok(()), |_, (), n: &u64| Ok(2 * n));
    let lone = builder.in_memory().unwrap();
    assert_eq!(lone.call(&twice, &7, &21), Ok(42));
    let mut across = lone.across();
    let part = across.part(&twice, &7, &4).unwrap();
    assert_eq!(across.commit().unwrap().take(part), Ok(8));
    lone.close().unwrap();
}

#[test]
fn an_island_in_memory_does_not_come_back_and_the_others_go_on() {
    let test = "islands_processes::an_island_in_memory_does_not_come_back_and_the_others_go_on";
    let (db, to) = declared(test, 2);
    let bank = Bank { db: db.in_memory().unwrap(), to };
    let (a, b) = bank.apart();
    bank.give_all(100);
    assert_eq!(bank.transfer(a, b, 30), Ok((70, 130)));
    on_each(0..4u64, |thread| {
        for _ in 0..200 {
            bank.transfer(thread, thread + 7, 0).unwrap();
        }
    });
    assert_eq!(bank.money(), Ok(100 * ACCOUNTS as i64));
    let island = bank.db.island_of(&a).unwrap();
    assert!(bank.kill(island));
    let stopped = until("it stops", || match bank.book(a, 0) {
        Err(Error::AnswerLost { .. }) | Ok(_) => None,
        Err(error) => Some(error),
    });
    assert_eq!(stopped, Error::IslandStopped(island));
    assert_eq!(bank.transfer(a, b, 1), Err(Error::IslandStopped(island)));
    assert_eq!(bank.book(b, 1), Ok(131));
}
