//! TPC-C while parts of transactions are held: what all saw and left is what the same transactions, one after the
//! other in the order of their decisions, see and leave.

use tombolo_engine::rng::Rng;
use tombolo_engine::transaction::Stop;
use tombolo_storage::error::Error;
use tombolo_storage::memory::held::{Guard, Locks, Part};
use tombolo_storage::memory::{Limits, MemoryStore};
use tombolo_storage::owner::Owner;
use tombolo_storage::profile::Memory;
use tombolo_storage::store::Store;

use super::checks::checks;
use super::input::{Generator, Input, Mix};
use super::loader::{Scale, load};
use super::nurand::Constants;
use super::transactions::{Answer, Transactions};
use crate::rows::state_hash;

const SEED: u64 = 7;
const TRANSACTIONS: usize = 2_000;
const HELD_MAX: usize = 8;

fn loaded(mix: Mix) -> MemoryStore<Memory> {
    let mut store = MemoryStore::new(Limits::default());
    load(&mut store, Scale { seed: SEED, warehouses: 1, mix }, 2, |_, _| {}).unwrap();
    store
}

struct Held {
    owner: Owner,
    input: Input,
    answer: Answer,
    part: Part,
}

/// A store, what it holds, and what was decided, in order.
struct Run {
    store: MemoryStore<Memory>,
    locks: Locks,
    held: Vec<Held>,
    decided: Vec<(Input, Answer)>,
    random: Rng,
    /// The number of the newest owner.
    owners: u128,
    /// How many transactions met a lock, and how many parts aborted.
    met: usize,
    aborted: usize,
}

impl Run {
    fn decide(&mut self, owner: Option<Owner>) {
        let at = match owner {
            Some(owner) => self.held.iter().position(|held| held.owner == owner).unwrap(),
            None => self.random.below(self.held.len() as u64) as usize,
        };
        let Held { owner, input, answer, part } = self.held.swap_remove(at);
        if self.random.below(4) > 0 {
            self.store.begin().unwrap();
            self.store.begin_writes();
            self.store.make(&part.changes).unwrap();
            self.store.commit().unwrap();
            self.decided.push((input, answer));
        } else {
            self.aborted += 1;
        }
        assert!(self.locks.release(owner));
    }

    /// Runs one transaction, as a part that is held or as a local one.
    fn run(&mut self, transactions: &Transactions, input: Input) {
        let is_part = self.held.len() < HELD_MAX && self.random.below(3) == 0;
        loop {
            let mut part = None;
            let ran = if is_part {
                let guard = Guard::part(&self.locks);
                let ran = transactions.call(&mut guard.over(&mut self.store), &input);
                part = guard.into_part();
                ran
            } else if self.locks.is_empty() {
                transactions.call(&mut self.store, &input)
            } else {
                transactions.call(&mut Guard::local(&self.locks).over(&mut self.store), &input)
            };
            let answer = match ran {
                Ok(answer) => answer,
                Err(Stop::Error(Error::Held { owner })) => {
                    self.met += 1;
                    self.decide(Some(owner));
                    continue;
                }
                Err(Stop::Abort(_)) => return,
                Err(error) => panic!("{error}"),
            };
            let Some(part) = part else { return self.decided.push((input, answer)) };
            self.owners += 1;
            let owner = Owner::new(self.owners);
            self.locks.acquire(owner, part.locks.clone()).unwrap();
            return self.held.push(Held { owner, input, answer, part });
        }
    }
}

#[test]
fn held_parts_are_as_if_they_ran_when_they_were_decided() {
    for mix in [Mix::Paper, Mix::Standard] {
        let (store, locks, random) = (loaded(mix), Locks::new().unwrap(), Rng::from_seed(SEED));
        let (held, decided) = (Vec::new(), Vec::new());
        let mut run = Run { store, locks, held, decided, random, owners: 0, met: 0, aborted: 0 };
        let transactions = Transactions::bind(run.store.schema(), mix).unwrap();
        let inputs = Generator::new(SEED, mix, 1, Constants::from_seed(SEED));
        for input in inputs.take(TRANSACTIONS) {
            run.run(&transactions, input);
            if !run.held.is_empty() && run.random.below(4) == 0 {
                run.decide(None);
            }
        }
        while !run.held.is_empty() {
            run.decide(None);
        }
        assert!(run.locks.is_empty());
        assert_eq!(run.locks.check(), Ok(()));
        assert!(run.met > 100 && run.aborted > 100, "{mix:?}: {} {}", run.met, run.aborted);
        assert!(checks(&mut run.store).unwrap().iter().all(|check| check.holds()), "{mix:?}");
        assert_eq!(run.store.check(), []);

        let mut serial = loaded(mix);
        for (input, answer) in &run.decided {
            assert_eq!(transactions.call(&mut serial, input).as_ref(), Ok(answer), "{input:?}");
        }
        assert_eq!(state_hash(&mut serial).unwrap(), state_hash(&mut run.store).unwrap());
    }
}
