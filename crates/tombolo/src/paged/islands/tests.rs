//! Transactions over several islands, with the program's work ended at each step of each commit: what is left of the
//! files is opened and judged.
//!
//! The copy of the files at a step is what a killed process leaves: logs without what was not flushed. Not here:
//! processes that are killed, histories of threads, a model (`tests/library/paged_islands.rs`).

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use tombolo_storage::plant::{self, Plant};

use super::commit::Step;
use super::*;
use crate::{Database, Index, PagedIslandsBuilder, Table};

type OnStep = Box<dyn FnMut(Step)>;

thread_local! {
    static ON_STEP: RefCell<Option<OnStep>> = const { RefCell::new(None) };
}

/// A commit has come to this step, on this thread.
pub(super) fn reached(step: Step) {
    ON_STEP.with_borrow_mut(|on_step| {
        if let Some(on_step) = on_step {
            on_step(step);
        }
    });
}

#[derive(Table)]
#[table(name = "account")]
struct Account {
    #[key]
    id: u64,
    cents: i64,
}

/// One on each of four islands.
const ACCOUNTS: [u64; 4] = [1, 101, 201, 301];

struct Bank {
    db: PagedIslands,
    by_id: Index<AccountKey>,
}

/// `TOMBOLO_PLANT=paged-decision-not-looked-up` plants this bug in a build with `--cfg tombolo_plants`, as
/// `paged-vote-not-waited-for` does: a test here then fails.
fn builder() -> PagedIslandsBuilder {
    if let Ok(name) = std::env::var("TOMBOLO_PLANT") {
        plant::choose(Plant::named(&name).unwrap());
    }
    let mut paged = Database::builder().define::<Account>().paged().pool_bytes(8 << 20);
    paged.settings.log.segment_bytes = 256 << 10;
    paged.islands(4).ranges([100, 200, 300])
}

impl Bank {
    fn open(directory: &Path) -> Self {
        let db = builder().open(directory).unwrap();
        let by_id = db.index().unwrap();
        Self { db, by_id }
    }

    fn cents(&self) -> [i64; 4] {
        let read = self.db.read(|tx| {
            let mut all = [0; 4];
            for (cents, id) in all.iter_mut().zip(ACCOUNTS) {
                let found = tx.at(&id, |tx| tx.find_row(&self.by_id, id))?;
                *cents = found.map_or(0, |(_, account)| account.cents);
            }
            Ok(all)
        });
        read.unwrap()
    }

    /// Adds to accounts, those with 0 being read only; those with nothing are left alone.
    fn book(&self, changes: [Option<i64>; 4]) -> Result<(), Error> {
        self.db.transaction(|tx| {
            for (id, change) in ACCOUNTS.into_iter().zip(changes) {
                let Some(change) = change else { continue };
                tx.at(&id, |tx| {
                    let found = tx.find_row(&self.by_id, id)?;
                    let cents = found.map_or(0, |(_, account)| account.cents) + change;
                    match change {
                        0 => Ok(()),
                        _ => tx.upsert_row(&self.by_id, &Account { id, cents }).map(drop),
                    }
                })?;
            }
            Ok(())
        })
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let to = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to),
            false => _ = fs::copy(entry.path(), to).unwrap(),
        }
    }
}

/// Sums of the changes up to each transaction.
fn after(changes: &[[Option<i64>; 4]]) -> Vec<[i64; 4]> {
    let mut cents = [1_000; 4];
    let mut all = vec![cents];
    for of in changes {
        cents.iter_mut().zip(of).for_each(|(cents, change)| *cents += change.unwrap_or(0));
        all.push(cents);
    }
    all
}

#[test]
fn what_ended_at_any_step_is_on_all_islands_or_on_none() {
    let place = tempfile::tempdir().unwrap();
    let own = place.path().join("own");
    let bank = Bank::open(&own);
    bank.book([Some(1_000); 4]).unwrap();
    // Three islands write and one is read; the second decision is written over the first, of which one participant
    // has not been asked since; one island writes; nothing is written; three write again.
    let changes = [
        [Some(-30), Some(10), Some(20), Some(0)],
        [Some(-5), Some(5), None, None],
        [Some(0), Some(7), None, Some(0)],
        [Some(0), Some(0), Some(0), None],
        [None, Some(-9), Some(4), Some(5)],
    ];
    let ended: Rc<RefCell<Vec<(PathBuf, usize, Step)>>> = Rc::default();
    let decided = Rc::new(RefCell::new(0));
    let noted = (ended.clone(), decided.clone());
    let (from, to) = (own.clone(), place.path().to_owned());
    ON_STEP.set(Some(Box::new(move |step| {
        let (ended, decided) = &noted;
        *decided.borrow_mut() += usize::from(step == Step::Decided);
        let left = to.join(ended.borrow().len().to_string());
        copy(&from, &left);
        ended.borrow_mut().push((left, *decided.borrow(), step));
    })));
    let mut writes = Vec::new();
    for of in changes {
        bank.book(of).unwrap();
        if of.iter().flatten().any(|change| *change != 0) {
            writes.push(of);
        }
    }
    ON_STEP.set(None);
    let states = after(&writes);
    assert_eq!(bank.cents(), *states.last().unwrap());
    let over_islands: u64 = bank.db.statistics().iter().map(|of| of.over_islands).sum();
    assert_eq!(over_islands, 1 + changes.len() as u64 + 1, "and one that read them all");
    bank.db.close().unwrap();
    let ended = ended.take();
    // Parts but the coordinator's vote; all have; one decides; participants commit.
    assert_eq!(
        ended.len(),
        (3 + 1 + 1 + 2) + (1 + 1 + 1 + 1) + (2 + 1 + 1) + (3 + 1) + (2 + 1 + 1 + 2)
    );
    for (left, decided, step) in ended {
        let bank = Bank::open(&left);
        assert_eq!(bank.cents(), states[decided], "{step:?} of transaction {decided}");
        // No lock is left, and the decisions that are left are written over.
        bank.book([Some(1), Some(1), Some(1), Some(-3)]).unwrap();
        bank.book([Some(-1), Some(-1), Some(-1), Some(3)]).unwrap();
        bank.db.close().unwrap();
        let bank = Bank::open(&left);
        assert!(bank.db.restarts().iter().all(Option::is_none), "they were closed");
        assert_eq!(bank.cents(), states[decided]);
        drop(bank);
        fs::remove_dir_all(left).unwrap();
    }
}

#[test]
fn a_transaction_that_fails_is_undone_on_all_islands() {
    let place = tempfile::tempdir().unwrap();
    let bank = Bank::open(place.path());
    bank.book([Some(100); 4]).unwrap();
    let failed = |how: &dyn Fn() -> Result<(), Stop>| {
        bank.db.transaction(|tx| {
            for id in ACCOUNTS {
                tx.at(&id, |tx| tx.upsert_row(&bank.by_id, &Account { id, cents: 0 }).map(drop))?;
            }
            how()
        })
    };
    let aborted = failed(&|| Err(Stop::Abort("on purpose")));
    assert_eq!(aborted, Err(Error::Aborted("on purpose")));
    let panicked = failed(&|| panic!("on purpose"));
    assert_eq!(panicked, Err(Error::Panicked("on purpose".into())));
    // What a step returned counts, even if the closure takes no notice of it.
    let unnoticed = bank.db.transaction(|tx| {
        tx.at(&1u64, |tx| tx.upsert_row(&bank.by_id, &Account { id: 1, cents: 0 }))?;
        let _ = tx.at(&101u64, |_| Err::<(), _>(Stop::Abort("a step")));
        Ok(())
    });
    assert_eq!(unnoticed, Err(Error::Aborted("a step")));
    let wrote = bank.db.read(|tx| {
        tx.at(&1u64, |tx| tx.upsert_row(&bank.by_id, &Account { id: 1, cents: 0 }).map(drop))
    });
    assert_eq!(wrote, Err(Error::LogTooLong { log_bytes_max: 0 }));
    let nested = bank.db.transaction(|tx| {
        let other = bank.db.read(|_| Ok(()));
        tx.at(&1u64, |_| Ok(bank.db.at(&1u64).map(|island| island.read(|_| Ok(())))))
            .map(|inner| (other, inner))
    });
    assert_eq!(nested, Ok((Err(Error::Nested), Ok(Err(Error::Nested)))));
    assert_eq!(bank.cents(), [100; 4]);
    assert!(bank.db.islands.iter().all(|island| island.check().is_empty()));
    let panicked: u64 = bank.db.statistics().iter().map(|of| of.panicked).sum();
    assert_eq!(panicked, 1);
}

/// Rows of decisions do not grow in number with the transactions.
#[test]
fn decisions_are_written_over() {
    let place = tempfile::tempdir().unwrap();
    let rows = |bank: &Bank| {
        let mut crew = bank.db.crew().unwrap();
        let of =
            |member: &mut Member| bank.db.decided.rows(&mut member.session.store).unwrap().len();
        crew.members.iter_mut().map(of).collect::<Vec<_>>()
    };
    for _ in 0..2 {
        let bank = Bank::open(place.path());
        for _ in 0..20 {
            bank.book([Some(1), Some(-1), None, None]).unwrap();
            bank.book([None, None, Some(1), Some(-1)]).unwrap();
        }
        assert_eq!(rows(&bank), [1, 0, 1, 0]);
        bank.db.close().unwrap();
    }
}
