//! Savepoints of transactions over several islands: a part that fails leaves nothing on any of them, in memory and in
//! what a restart brings back, and the transaction continues.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::Path;

use tombolo::{AtomicCommit, Database, Error, Islands, Order, Stop, StoreError, Tx};
use tombolo_engine::rng::Rng;
use tombolo_engine::threads::on_each;

use super::islands::{ACCOUNTS, Account, AccountKey, Bank, apart, builder};
use super::together::LONG;

type Model = BTreeMap<u64, i64>;

const ISLANDS: usize = 3;
const IDS: u64 = 12;

/// What a transaction does.
#[derive(Clone, Debug)]
enum Step {
    /// Adds to an account, which is made unless it is there.
    Add(u64, i64),
    Delete(u64),
    /// Steps behind a savepoint.
    Savepoint(Vec<Self>, Ends),
    /// A savepoint on the account's own island.
    Local(u64, i64, Ends),
}

/// How the steps behind a savepoint end.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Ends {
    Kept,
    /// The closure aborts.
    Aborted,
    /// A write on this account's island is refused, and the closure does not say so.
    Refused(u64),
}

fn ends(rng: &mut Rng) -> Ends {
    match rng.below(4) {
        0 => Ends::Aborted,
        1 => Ends::Refused(rng.below(IDS)),
        _ => Ends::Kept,
    }
}

fn steps(rng: &mut Rng, depth: u64) -> Vec<Step> {
    let step = |rng: &mut Rng| {
        let id = rng.below(IDS);
        match rng.below(8) {
            0 => Step::Delete(id),
            1 | 2 if depth > 0 => Step::Savepoint(steps(rng, depth - 1), ends(rng)),
            3 => Step::Local(id, rng.below(100) as i64, ends(rng)),
            _ => Step::Add(id, rng.below(100) as i64),
        }
    };
    (0..1 + rng.below(5)).map(|_| step(rng)).collect()
}

/// What the steps leave.
fn left(steps: &[Step], model: &mut Model) {
    for step in steps {
        match step {
            Step::Add(id, cents) | Step::Local(id, cents, Ends::Kept) => {
                *model.entry(*id).or_default() += cents;
            }
            Step::Delete(id) => _ = model.remove(id),
            Step::Savepoint(steps, Ends::Kept) => left(steps, model),
            Step::Savepoint(..) | Step::Local(..) => {}
        }
    }
}

struct Accounts {
    db: Islands,
    table: tombolo::Table<Account>,
    by_id: tombolo::Index<AccountKey>,
}

impl Accounts {
    fn new(db: Islands) -> Self {
        let (table, by_id) = (db.table().unwrap(), db.index().unwrap());
        Self { db, table, by_id }
    }

    fn add(&self, tx: &mut Tx<'_>, id: u64, cents: i64) -> Result<(), Stop> {
        let before = tx.find_row(&self.by_id, id)?.map_or(0, |(_, account)| account.cents);
        tx.upsert_row(&self.by_id, &Account { id, cents: before + cents }).map(drop)
    }

    /// A write that is refused: two rows with one key.
    fn refused(&self, tx: &mut Tx<'_>, id: u64) -> Result<(), Stop> {
        self.add(tx, id, 1)?;
        tx.insert_row(&self.table, &Account { id, cents: 0 }).map(drop)
    }

    fn run(&self, tx: &mut tombolo::IslandsTx<'_>, steps: &[Step]) -> Result<(), Stop> {
        for step in steps {
            match *step {
                Step::Add(id, cents) => tx.at(&id, |tx| self.add(tx, id, cents))?,
                Step::Delete(id) => tx.at(&id, |tx| match tx.find_row(&self.by_id, id)? {
                    Some((row, _)) => tx.delete(&self.table, row),
                    None => Ok(()),
                })?,
                Step::Savepoint(ref steps, ends) => {
                    let part = tx.savepoint(|tx| {
                        self.run(tx, steps)?;
                        match ends {
                            Ends::Kept => Ok(()),
                            Ends::Aborted => Err(Stop::Abort("this part")),
                            Ends::Refused(id) => {
                                let _ = tx.at(&id, |tx| self.refused(tx, id));
                                Ok(())
                            }
                        }
                    });
                    is_as_expected(ends, part)?;
                }
                Step::Local(id, cents, ends) => tx.at(&id, |tx| {
                    let part = tx.savepoint(|tx| {
                        self.add(tx, id, cents)?;
                        match ends {
                            Ends::Kept => Ok(()),
                            Ends::Aborted => Err(Stop::Abort("this part")),
                            Ends::Refused(_) => self.refused(tx, id),
                        }
                    });
                    is_as_expected(ends, part)
                })?,
            }
        }
        Ok(())
    }

    /// The accounts on all islands.
    fn all(&self) -> Model {
        let mut all = Model::new();
        for id in 0..IDS {
            let by_id = self.by_id;
            let here = self.db.at(&id).unwrap().transaction(move |tx| {
                let rows = tx.iter(&by_id, .., Order::Forward)?.map(|(_, row)| row.read());
                Ok(rows.map(|account| (account.id, account.cents)).collect::<Vec<_>>())
            });
            all.extend(here.unwrap());
        }
        all
    }
}

fn is_as_expected(ends: Ends, part: Result<(), Stop>) -> Result<(), Stop> {
    match (ends, part) {
        (Ends::Kept, Ok(())) => Ok(()),
        (Ends::Aborted, Err(Stop::Abort("this part"))) => Ok(()),
        (Ends::Refused(_), Err(Stop::Error(StoreError::Duplicate { .. }))) => Ok(()),
        (_, Err(again @ Stop::Error(StoreError::LockTimeout))) => Err(again),
        (ends, part) => panic!("{ends:?}: {part:?}"),
    }
}

/// Transactions of chance; some abort as a whole. Returns what they leave.
fn stir(accounts: &Accounts, rng: &mut Rng, mut model: Model) -> Model {
    for _ in 0..150 {
        let (steps, aborts) = (steps(rng, 3), rng.below(8) == 0);
        let ended = accounts.db.transaction(|tx| {
            accounts.run(tx, &steps)?;
            if aborts { Err(Stop::Abort("on purpose")) } else { Ok(()) }
        });
        match aborts {
            true => assert_eq!(ended, Err(Error::Aborted("on purpose"))),
            false => {
                ended.unwrap();
                left(&steps, &mut model);
            }
        }
    }
    assert_eq!(accounts.all(), model);
    model
}

#[test]
fn a_part_that_fails_leaves_nothing_on_any_island() {
    let mut rng = Rng::stream(11, &[]);
    stir(&Accounts::new(builder(ISLANDS).in_memory().unwrap()), &mut rng, Model::new());
    for commit in [AtomicCommit::TwoPhase, AtomicCommit::Ordered] {
        let place = tempfile::tempdir().unwrap();
        let open = |place: &Path| {
            Accounts::new(builder(ISLANDS).atomic_commit(commit).open(place).unwrap())
        };
        let mut model = Model::new();
        for _ in 0..3 {
            let accounts = open(place.path());
            assert_eq!(accounts.all(), model, "{commit:?}");
            model = stir(&accounts, &mut rng, model);
            accounts.db.close().unwrap();
        }
    }
}

#[test]
fn what_was_refused_outside_of_a_savepoint_remains_refused() {
    let accounts = Accounts::new(builder(2).in_memory().unwrap());
    let (a, b) = apart(&accounts.db);
    let ended = accounts.db.transaction(|tx| {
        let _ = tx.at(&a, |tx| accounts.refused(tx, a));
        let runs = Cell::new(0);
        let part = tx.savepoint(|tx| {
            runs.set(runs.get() + 1);
            tx.at(&b, |tx| accounts.add(tx, b, 1))
        });
        assert!(matches!(part, Err(Stop::Error(StoreError::Duplicate { .. }))), "{part:?}");
        assert_eq!(runs.get(), 0, "there is nothing to go back to");
        Ok(())
    });
    assert!(matches!(ended, Err(Error::Duplicate { .. })), "{ended:?}");
    // The application's own error, and a panic, which no savepoint catches.
    let own = accounts.db.transaction(|tx| {
        let part = tx.savepoint(|tx| {
            tx.at(&a, |tx| accounts.add(tx, a, 1))?;
            tx.at(&b, |_| Err::<(), _>(std::fmt::Error.into()))
        });
        assert!(matches!(&part, Err(Stop::Own(own)) if own.get() == Some(&std::fmt::Error)));
        tx.at(&a, |tx| accounts.add(tx, a, 5))
    });
    assert_eq!((own, accounts.all()), (Ok(()), Model::from([(a, 5)])));
    let panicked = accounts.db.transaction(|tx| {
        tx.savepoint(|tx| tx.at(&b, |tx| accounts.add(tx, b, 1).map(|()| panic!("on purpose"))))
    });
    let panicked: Result<(), Error> = panicked;
    assert_eq!(panicked, Err(Error::Panicked("on purpose".into())));
    assert_eq!(accounts.all(), Model::from([(a, 5)]));
}

/// Two threads reach the same islands in opposite orders, so that many runs have to be made again out of a savepoint.
#[test]
fn a_transaction_that_has_to_run_again_does_not_go_on_behind_a_savepoint() {
    let place = tempfile::tempdir().unwrap();
    for db in [builder(2).in_memory().unwrap(), builder(2).open(place.path()).unwrap()] {
        let bank = Bank::new(db);
        bank.give_all(1_000);
        let accounts = bank.db.index::<AccountKey>().unwrap();
        let (a, b) = apart(&bank.db);
        let add = |tx: &mut Tx<'_>, id: u64, cents: i64| {
            let cents = tx.find_row(&accounts, id)?.map_or(0, |(_, row)| row.cents) + cents;
            tx.upsert_row(&accounts, &Account { id, cents }).map(drop)
        };
        on_each([(a, b), (b, a)], |(from, to)| {
            for round in 0..300 {
                let ended = bank.db.transaction(|tx| {
                    tx.at(&from, |tx| add(tx, from, -1))?;
                    let part = tx.savepoint(|tx| {
                        tx.at(&to, |tx| add(tx, to, 1))?;
                        if round % 3 == 0 { Err(Stop::Abort("not there")) } else { Ok(()) }
                    });
                    match part {
                        Ok(()) => Ok(()),
                        Err(Stop::Abort(_)) => tx.at(&from, |tx| add(tx, from, 1)),
                        Err(again) => {
                            // Whatever the closure makes of that.
                            assert_eq!(again, Stop::Error(StoreError::LockTimeout));
                            Ok(())
                        }
                    }
                });
                ended.unwrap();
            }
        });
        let call = |id: u64| bank.book.at(&id).unwrap().call((id, 0)).unwrap();
        assert_eq!((call(a), call(b)), (1_000, 1_000));
        assert_eq!(bank.money(), 1_000 * ACCOUNTS as i64);
    }
}

/// A declared part has the savepoints of its own island, run by its caller's thread or by the island's.
#[test]
fn a_declared_part_has_savepoints_on_its_own_island() {
    for threads in ["auto", "two"] {
        let queued = Database::builder().define::<Account>().set("pipeline_threads", threads);
        let db = queued.islands(2).wait_max(LONG).in_memory().unwrap();
        let accounts = db.table::<Account>().unwrap();
        let first_free = db.register_closure("first free", move |tx, ids: &Vec<u64>| {
            let free = ids.iter().find(|&&id| {
                let made = tx.savepoint(|tx| tx.insert_row(&accounts, &Account { id, cents: 1 }));
                made.is_ok()
            });
            Ok(free.copied())
        });
        let (a, b) = apart(&db);
        let more = (b + 1..).find(|id| db.island_of(id) == db.island_of(&b)).unwrap();
        let call = || {
            let mut across = db.across();
            let one = across.part(&first_free, &a, vec![a])?;
            let other = across.part(&first_free, &b, vec![b, more])?;
            let mut answers = across.commit()?;
            Ok::<_, Error>((answers.take(one), answers.take(other)))
        };
        assert_eq!(call(), Ok((Some(a), Some(b))));
        assert_eq!(call(), Ok((None, Some(more))));
        assert_eq!(call(), Ok((None, None)));
    }
}
