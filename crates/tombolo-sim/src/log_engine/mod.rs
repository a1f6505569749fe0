//! A log alone, without the pipeline: one loop that executes, appends, syncs and acknowledges.
//!
//! What a pipeline does in stages happens here in one place and in an order drawn from the seed: batches of any
//! size, several groups before one sync, several batches in one group. After a failure the loop acts like a
//! careless caller: it asks again, and believes the answer. So a log that lets that succeed is caught. Not
//! here: the log (a [`Subject`]; the production one is `groups.rs`).

mod by_hand;
mod groups;

use std::panic::{AssertUnwindSafe, catch_unwind};

use tombolo_storage::error::SchemaError;
use tombolo_storage::memory::MemoryStore;
use tombolo_storage::memory::online::Built;
use tombolo_storage::profile::MemoryProfile;
use tombolo_storage::store::Store;

use crate::database::Refused;
use crate::faults::{FaultyDisk, one_in};
use crate::oracle::{Rule, Violation, sound};
use crate::swarm::Swarm;
use crate::workload::additions::{Begun, begin};
use crate::workload::model::Outcome;
use crate::workload::request::Request;
use crate::workload::step::Step;
use crate::workload::store::{Handles, outcome};
use crate::world::{Engine, World};
pub use groups::Groups;

/// Why a log accepted nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogRefusal {
    /// There is no room; nothing was written.
    Full,
    /// A failure, in words.
    Failed(String),
}

/// A log under test.
pub trait Subject: Sized {
    /// What its store is built of.
    type Profile: MemoryProfile;

    /// Recovers store and log from the disk.
    ///
    /// # Errors
    /// See [`Engine::start`].
    fn recover(
        disk: &FaultyDisk,
        swarm: &Swarm,
        accept_loss: bool,
    ) -> Result<(Self, MemoryStore<Self::Profile>), Refused>;

    /// `step` was executed on the store.
    fn ran(&mut self, step: &Step);

    /// Sets room aside for one more transaction; says whether there is any.
    fn has_room(&mut self, store: &MemoryStore<Self::Profile>) -> bool;

    /// Writes what was executed since the last call as one group.
    ///
    /// # Errors
    /// See [`LogRefusal`]. What was to be written stays for the next call.
    fn append(&mut self, store: &mut MemoryStore<Self::Profile>) -> Result<(), LogRefusal>;

    /// Makes everything appended durable; the store may be ahead of it.
    ///
    /// # Errors
    /// See [`LogRefusal`].
    fn sync(&mut self, store: &MemoryStore<Self::Profile>) -> Result<(), LogRefusal>;
}

/// A log and the store it makes durable.
pub struct LogEngine<S: Subject> {
    subject: S,
    store: MemoryStore<S::Profile>,
    /// What is being added.
    building: Option<Begun>,
}

/// How a life continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    On,
    Over,
}

/// What ran and was not acknowledged yet.
#[derive(Clone, Copy, Debug, Default)]
struct Open {
    /// The place of the last step that ran, and of the last one that was appended.
    ran: usize,
    appended: usize,
    /// Whether room was set aside for all of it.
    has_promise: bool,
}

impl<S: Subject> Engine for LogEngine<S> {
    type Profile = S::Profile;

    fn start(disk: &FaultyDisk, swarm: &Swarm, accept_loss: bool) -> Result<Self, Refused> {
        let (subject, store) = S::recover(disk, swarm, accept_loss)?;
        Ok(Self { subject, store, building: None })
    }

    fn store(&mut self) -> &mut MemoryStore<S::Profile> {
        &mut self.store
    }

    fn live(mut self, world: &mut World) -> Result<(), Violation> {
        let mut open = Open::default();
        let until = world.transactions + world.life_transactions();
        let ran = |step: &Step| self.subject.ran(step);
        let (mut handles, place) = world.make_tables(&mut self.store, ran)?;
        open.ran = place;
        let mut refusals = 0;
        while world.transactions < until && refusals < 100 {
            let next = if self.subject.has_room(&self.store) {
                open.has_promise = true;
                self.build(world, &mut handles, &mut open)?;
                self.batch(world, &handles, &mut open)?
            } else if open.ran > open.appended && open.has_promise {
                self.append(world, &mut open)?
            } else {
                // Writes are refused; in the end room is made.
                refusals += 1;
                if one_in(&mut world.rng, 4) {
                    world.disk.set_capacity_bytes(None);
                }
                self.sync(world, &mut open)? // says whether it is more than that
            };
            if next == Next::Over {
                return Ok(());
            }
            let syncs = one_in(&mut world.rng, world.swarm.syncs);
            if syncs && self.sync(world, &mut open)? == Next::Over {
                return Ok(());
            }
        }
        if refusals == 100 {
            return Err(Violation::new(Rule::Progress, "no room, though the disk has some"));
        }
        if one_in(&mut world.rng, 2) {
            self.sync(world, &mut open)?;
        }
        sound(&self.store.check())
    }
}

impl<S: Subject> LogEngine<S> {
    /// Continues what is being added, or begins it.
    fn build(
        &mut self,
        world: &mut World,
        handles: &mut Handles,
        open: &mut Open,
    ) -> Result<(), Violation> {
        let refused = |error: SchemaError| {
            Violation::new(Rule::RightAnswer, format!("an addition was refused: {error}"))
        };
        let Some(begun) = self.building.take() else {
            if let Some(addition) = world.next_addition() {
                self.building = Some(begin(&mut self.store, addition).map_err(refused)?);
            }
            return Ok(());
        };
        let rows_max = 1 + world.rng.below(20) as usize;
        if begun.slice(&mut self.store, rows_max).map_err(refused)? == Built::Done {
            let addition = begun.addition();
            begun.finish(&mut self.store).map_err(refused)?;
            handles.follow(self.store.schema()).map_err(refused)?;
            open.ran = world.history.added(addition);
            self.subject.ran(&Step::Added(world.history.state().added));
        } else {
            self.building = Some(begun);
        }
        Ok(())
    }

    fn batch(
        &mut self,
        world: &mut World,
        handles: &Handles,
        open: &mut Open,
    ) -> Result<Next, Violation> {
        for _ in 0..=world.rng.below(world.swarm.batch_max) {
            if !self.subject.has_room(&self.store) {
                break;
            }
            let request = world.next_request();
            let found = self.run(handles, &request)?;
            world.note_run(&request, &found);
            open.ran = world.history.ran(&request, found)?;
            self.subject.ran(&Step::Request(request));
        }
        if one_in(&mut world.rng, 4) {
            return Ok(Next::On); // one group with the next batch
        }
        self.append(world, open)
    }

    fn append(&mut self, world: &mut World, open: &mut Open) -> Result<Next, Violation> {
        if open.ran == open.appended || !open.has_promise {
            return Ok(Next::On);
        }
        match self.subject.append(&mut self.store) {
            Ok(()) => {
                open.appended = open.ran;
                Ok(Next::On)
            }
            Err(LogRefusal::Full) => {
                let what = "a group found no room, though it had been set aside";
                Err(Violation::new(Rule::Progress, what))
            }
            // What ran is not in the log: this life is over.
            Err(refusal) => {
                world.trace.event(&[1], || format!("append refused: {refusal:?}"));
                self.ask_again(world, open);
                Ok(Next::Over)
            }
        }
    }

    fn sync(&mut self, world: &mut World, open: &mut Open) -> Result<Next, Violation> {
        if one_in(&mut world.rng, 2) && self.append(world, open)? == Next::Over {
            return Ok(Next::Over);
        }
        if self.synced(world, open) {
            return Ok(Next::On);
        }
        self.ask_again(world, open);
        Ok(Next::Over)
    }

    fn synced(&mut self, world: &mut World, open: &Open) -> bool {
        let synced = self.subject.sync(&self.store);
        world.trace.event(&[2, u64::from(synced.is_ok())], || format!("sync: {synced:?}"));
        if synced.is_ok() && open.appended > 0 {
            world.history.acknowledge(open.appended);
        }
        synced.is_ok()
    }

    /// After a failure a careless caller tries the same once more.
    fn ask_again(&mut self, world: &mut World, open: &mut Open) {
        if open.ran > open.appended && self.subject.append(&mut self.store).is_ok() {
            open.appended = open.ran;
        }
        self.synced(world, open);
    }

    fn run(&mut self, handles: &Handles, request: &Request) -> Result<Outcome, Violation> {
        let store = &mut self.store;
        match catch_unwind(AssertUnwindSafe(|| handles.run(store, request))) {
            Err(_) => Ok(Outcome::Panicked),
            Ok(ended) => outcome(&ended).map_err(|error| {
                Violation::new(Rule::RightAnswer, format!("{request:?} failed: {error}"))
            }),
        }
    }
}

#[cfg(test)]
mod tests;
