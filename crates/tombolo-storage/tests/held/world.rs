//! A store with local transactions and parts that are decided later, next to the map of what is committed.
//!
//! The order in which transactions are decided explains what each saw: the map says so as each is decided, and the
//! checker of histories once more at the end.

use tombolo_verify::{Datum, History, Holds, Level, Operation, Transaction};

use super::items::{Items, Key, Model, Seen, Step, Values, item_table};
use super::random::Random;
use tombolo_storage::error::{Error, Result};
use tombolo_storage::memory::held::{Changes, Guard, LockSet, Locks, Part};
use tombolo_storage::memory::{Limits, MemoryStore};
use tombolo_storage::owner::Owner;
use tombolo_storage::profile::MemoryProfile;
use tombolo_storage::store::Store;

/// A transaction that has run.
struct Ran {
    steps: Vec<Step>,
    seen: Vec<Seen>,
    /// When it began.
    begin: u64,
}

/// How often what happened.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) local: usize,
    pub(crate) aborted: usize,
    pub(crate) committed_parts: usize,
    pub(crate) aborted_parts: usize,
    pub(crate) met: usize,
    pub(crate) held_max: usize,
}

pub(crate) struct World<P: MemoryProfile> {
    pub(crate) store: MemoryStore<P>,
    pub(crate) locks: Locks,
    items: Items,
    model: Model,
    pub(crate) random: Random,
    keys: u64,
    held: Vec<(Owner, Ran, Part)>,
    history: Vec<Transaction>,
    clock: u64,
    values: i64,
    pub(crate) counts: Counts,
    /// Encoded parts, some of each kind.
    pub(crate) encoded: Vec<(Vec<u8>, Vec<u8>)>,
}

impl<P: MemoryProfile> World<P> {
    pub(crate) fn new(seed: u64, keys: u64) -> Self {
        let mut store = MemoryStore::new(Limits {
            structure_bytes_max: 16 << 20,
            hash_seed: Some(seed),
            ..Limits::default()
        });
        store.create_table(item_table()).unwrap();
        let items = Items::of(store.schema());
        Self {
            store,
            locks: Locks::new().unwrap(),
            items,
            model: Model::default(),
            random: Random::new(seed),
            keys,
            held: Vec::new(),
            history: Vec::new(),
            clock: 0,
            values: 0,
            counts: Counts::default(),
            encoded: Vec::new(),
        }
    }

    fn now(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    fn steps(&mut self) -> Vec<Step> {
        let count = 1 + self.random.below(4);
        let mut step = |_| {
            self.values += 1;
            Step::random(&mut self.random, self.keys, self.values)
        };
        (0..count).map(&mut step).collect()
    }

    /// Runs a transaction, or a part of one, or decides one.
    pub(crate) fn go_on(&mut self, held_max: usize) {
        match self.random.below(10) {
            0..=4 => self.run_local(),
            5..=7 if self.held.len() < held_max => self.run_part(),
            _ if self.held.is_empty() => {}
            _ => {
                let at = self.random.below(self.held.len() as u64) as usize;
                self.decide(at);
            }
        }
    }

    fn run_local(&mut self) {
        let (begin, steps) = (self.now(), self.steps());
        let commits = self.random.below(8) > 0;
        loop {
            let run = |store: &mut MemoryStore<P>, items: &Items, locks: &Locks| {
                // What runs while nothing is held is the store itself.
                if locks.is_empty() {
                    return run(store, items, &steps, commits);
                }
                run(&mut Guard::local(locks).over(store), items, &steps, commits)
            };
            match run(&mut self.store, &self.items, &self.locks) {
                Ok(Some(seen)) => {
                    self.counts.local += 1;
                    let ran = Ran { steps, seen, begin };
                    return self.committed(&ran);
                }
                Ok(None) => {
                    self.counts.aborted += 1;
                    return;
                }
                Err(Error::Held { owner }) => self.met(owner),
                Err(error) => panic!("{error}"),
            }
            if self.random.below(3) == 0 {
                return;
            }
        }
    }

    /// A transaction met a lock: often its owner is decided then.
    fn met(&mut self, owner: Owner) {
        self.counts.met += 1;
        let at = self.held.iter().position(|(held, ..)| *held == owner);
        self.decide(at.expect("an owner of a lock has a held part"));
    }

    fn run_part(&mut self) {
        let (begin, steps) = (self.now(), self.steps());
        let owner = Owner::new(u128::from(begin) << 64 | 7);
        let guard = Guard::part(&self.locks);
        let ran = run(&mut guard.over(&mut self.store), &self.items, &steps, true);
        let part = guard.into_part();
        let seen = match ran {
            Ok(seen) => seen.expect("it is to commit"),
            Err(Error::Held { owner }) => return self.met(owner),
            Err(error) => panic!("{error}"),
        };
        let part = part.expect("it was set aside");
        let changes = Changes::from_bytes(part.changes.as_bytes()).unwrap();
        let locks = LockSet::from_bytes(part.locks.as_bytes(), self.store.schema()).unwrap();
        assert_eq!(part, Part { changes, locks: locks.clone() });
        self.encoded.push((part.changes.as_bytes().to_vec(), part.locks.as_bytes().to_vec()));
        self.locks.acquire(owner, locks).unwrap();
        self.held.push((owner, Ran { steps, seen, begin }, part));
        self.counts.held_max = self.counts.held_max.max(self.held.len());
    }

    fn decide(&mut self, at: usize) {
        let (owner, ran, part) = self.held.swap_remove(at);
        let commits = self.random.below(3) > 0;
        if commits {
            self.counts.committed_parts += 1;
            self.store.begin().unwrap();
            self.store.begin_writes();
            self.store.make(&part.changes).unwrap();
            self.store.commit().unwrap();
            self.committed(&ran);
        } else {
            self.counts.aborted_parts += 1;
        }
        assert!(self.locks.release(owner));
        assert!(!self.locks.release(owner));
    }

    /// The map lets a transaction that is decided see what it saw.
    fn committed(&mut self, ran: &Ran) {
        let mut operations = Vec::new();
        for (step, seen) in ran.steps.iter().zip(&ran.seen) {
            assert_eq!(self.model.step(step), *seen, "{step:?} of {:?}", ran.steps);
            operations.extend(operation(step, seen));
        }
        let end = self.now();
        // One that waits for its decision runs next to others: each is a session of its own.
        let session = ran.begin as i64;
        self.history.push(Transaction::committed(session, ran.begin, end, operations));
    }

    /// The rows of the store are those of the map.
    pub(crate) fn check(&mut self) {
        let seen = run(&mut self.store, &self.items, &[Step::All], true).unwrap().unwrap();
        assert_eq!(seen, [self.model.step(&Step::All)]);
        assert_eq!(self.locks.check(), Ok(()));
        assert_eq!(self.store.check(), []);
    }

    /// Decides everything and judges what all transactions saw.
    pub(crate) fn end(mut self) -> Counts {
        self.check();
        while !self.held.is_empty() {
            self.decide(0);
        }
        self.check();
        assert!(self.locks.is_empty() && self.locks.owners().next().is_none());
        assert_eq!(self.locks.check(), Ok(()), "a lock was left behind");
        let verdict = History::of(&self.history).unwrap().judge(Level::StrictSerializable);
        assert_eq!(verdict.levels.of(Level::StrictSerializable), Holds::Yes, "{verdict}");
        self.counts
    }
}

/// Runs a transaction; what its steps saw if it committed.
fn run<S: Store>(
    store: &mut S,
    items: &Items,
    steps: &[Step],
    commits: bool,
) -> Result<Option<Vec<Seen>>> {
    store.begin().unwrap();
    store.begin_writes();
    let mut seen = Vec::new();
    for step in steps {
        match items.step(store, step) {
            Ok(saw) => seen.push(saw),
            Err(error) => {
                store.fail().unwrap();
                return Err(error);
            }
        }
    }
    if !commits {
        store.abort().unwrap();
        return Ok(None);
    }
    store.commit().unwrap();
    Ok(Some(seen))
}

/// What a step was about, for the checker of histories: the rows by their ids.
fn operation(step: &Step, seen: &Seen) -> Vec<Operation> {
    const TABLE: &str = "item";
    let value = |row: &Values| Datum::from(row.value);
    let id = |id: i32| i64::from(id);
    match (step, seen) {
        (Step::Read(Key::Id(key)), Seen::Rows(rows)) => {
            vec![Operation::read(TABLE, id(*key), rows.first().map(value))]
        }
        (
            Step::Read(_) | Step::ReadMany(_) | Step::Kind(_) | Step::Scan { .. },
            Seen::Rows(rows),
        ) => {
            let read = |row| Operation::read(TABLE, id(Values::clone(row).id), Some(value(row)));
            rows.iter().map(read).collect()
        }
        (Step::All, Seen::Rows(rows)) => {
            let rows = rows.iter().map(|row| (Datum::from(id(row.id)), value(row))).collect();
            vec![Operation::scan(TABLE, 0, i64::MAX, rows)]
        }
        (Step::Insert(row), Seen::Done(true)) => {
            vec![Operation::write(TABLE, id(row.id), row.value)]
        }
        (
            Step::Update { id: key, value, .. } | Step::Replace { id: key, value },
            Seen::Done(true),
        ) => {
            vec![Operation::write(TABLE, id(*key), *value)]
        }
        (Step::Delete(key), Seen::Done(true)) => vec![Operation::delete(TABLE, id(*key))],
        (Step::Delete(key) | Step::Update { id: key, .. }, Seen::Done(false)) => {
            vec![Operation::read(TABLE, id(*key), None)]
        }
        _ => Vec::new(),
    }
}
