//! What takes long, next to requests: reads of all rows, and what is added.
//!
//! ```text
//!   resting ──submit──► building ──all rows are in──► built ──a call──► finishing ──► resting
//!      ▲                  │ nothing runs                ▲                  │ no room in the log
//!      └──────────────────┘                             └──────────────────┘
//! ```
//!
//! As the library does it: long work begins an index or a column and puts rows in, a call like any other
//! makes it part of the schema, in its place in the order; a column is not begun, or given up there, if a
//! long read is open. Not here: the read (`long_read.rs`), what is added (`additions.rs`), whether replies are right
//! (`pipeline_engine.rs`).

use tombolo_engine::clock::Clock;
use tombolo_engine::pipeline::{Durability, LongWork, NotSubmitted, Refusal, Sliced};
use tombolo_engine::transaction::Stop;
use tombolo_storage::memory::online::Built;
use tombolo_storage::store::Store;

use super::{LONG_READ, Life, Open, SimExecutor, draw_durability};
use crate::additions::{Addition, Begun, begin, count};
use crate::history::{Rule, Step, Violation};
use crate::long_read::LongRead;
use crate::recording::{Recording, StoreOf};
use crate::trace::number_of;
use crate::workload::model::Outcome;
use crate::workload::request::Request;
use crate::world::World;

/// What a client asks of a pipeline.
#[derive(Clone, Debug)]
pub(crate) enum Asked {
    /// A transaction.
    Run(Request),
    /// That what was built is part of the schema; by its call's tag.
    FinishAddition(u64),
}

/// Where something is that is being added; see the module's head. With the tag of its call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Adding {
    Resting,
    Building(u64),
    Built,
    Finishing(u64),
}

/// Builds an addition, all rows of it.
#[derive(Debug)]
struct Building {
    tag: u64,
    addition: Addition,
    begun: Option<Begun>,
}

/// Rows of a slice at most, so that an addition takes many.
const ROWS_MAX: usize = 5;

impl<R: Recording> LongWork<SimExecutor<R>> for Building
where
    StoreOf<R>: Send,
{
    fn begin(&mut self, executor: &mut SimExecutor<R>) -> Result<(), Stop> {
        let begun = begin(&mut executor.store, self.addition);
        if self.addition == Addition::Column && executor.reads > 0 && begun.is_err() {
            executor.journal.lock().gave_up(self.tag);
            return Err(Stop::Abort("a long read is open"));
        }
        self.begun = Some(begun.map_err(|_| Stop::Abort("an addition was not begun"))?);
        executor.journal.lock().began_addition(self.tag);
        Ok(())
    }

    fn slice(
        &mut self,
        executor: &mut SimExecutor<R>,
        rows_max: usize,
    ) -> Result<Sliced<u64>, Stop> {
        let Some(begun) = &self.begun else { return Err(Stop::Abort("it never began")) };
        match begun.slice(&mut executor.store, rows_max.min(ROWS_MAX)) {
            Ok(Built::More { rows }) => Ok(Sliced::More { rows }),
            Ok(Built::Done) => {
                executor.built = self.begun.take();
                Ok(Sliced::Done(0))
            }
            Err(_) => Err(Stop::Abort("an addition was refused")),
        }
    }

    fn end(&mut self, executor: &mut SimExecutor<R>) {
        if let Some(begun) = self.begun.take() {
            begun.give_up(&mut executor.store);
        }
    }
}

impl<R: Recording> SimExecutor<R>
where
    StoreOf<R>: Send,
{
    /// Makes what was built part of the schema.
    pub(super) fn finish_addition(&mut self, tag: u64) -> Result<u64, Stop> {
        let Some(begun) = self.built.take() else { return Err(Stop::Abort("none was built")) };
        let addition = begun.addition();
        let finished = begun.finish(&mut self.store);
        if addition == Addition::Column && self.reads > 0 && finished.is_err() {
            self.journal.lock().gave_up(tag);
            return Err(Stop::Abort("a long read is open"));
        }
        let finished = finished.and_then(|()| self.handles.follow(self.store.schema()));
        self.recording.ran(&Step::Added(count(self.store.schema())));
        self.journal.lock().added(tag, addition, finished.map_err(|error| error.to_string()));
        Ok(0)
    }
}

impl<R: Recording> Life<R>
where
    StoreOf<R>: Send,
{
    /// A client asks for all rows, if it may.
    pub(super) fn submit_long(
        &mut self,
        world: &mut World,
        client: usize,
    ) -> Result<(), Violation> {
        let tag = self.next_long_tag();
        self.submit_work(world, client, tag, Box::new(LongRead::new(tag))).map(drop)
    }

    fn next_long_tag(&mut self) -> u64 {
        self.long_works += 1;
        self.long_works << 8 | LONG_READ
    }

    /// Whether it was taken in.
    fn submit_work(
        &mut self,
        world: &mut World,
        client: usize,
        tag: u64,
        work: Box<dyn LongWork<SimExecutor<R>>>,
    ) -> Result<bool, Violation> {
        let caller = &mut self.callers[client];
        let Some(pipeline) = &self.pipeline else { return Ok(false) };
        if caller.in_flight() >= world.swarm.open_requests_max {
            return Ok(false);
        }
        let durability = draw_durability(world);
        match pipeline.long().submit_by(caller, work, tag, durability) {
            Ok(_) => {
                world.trace.event(&[number_of("long work"), tag], || {
                    format!("long work {tag:#x}, {durability:?}")
                });
                self.news_ns = world.clock.now_ns();
                self.open.insert(tag, Open { durability, only_reads: true });
                self.wake();
                return Ok(true);
            }
            Err(NotSubmitted::Full(_)) => {}
            Err(NotSubmitted::Refused(_, Refusal::Poisoned(_))) => self.is_poisoned = true,
            Err(NotSubmitted::Refused(_, refusal)) => {
                let what = format!("long work was not taken in: {refusal}");
                return Err(Violation::new(Rule::Progress, what));
            }
        }
        Ok(false)
    }

    /// Begins to add something if it is time, and finishes what is built.
    pub(super) fn add(&mut self, world: &mut World) -> Result<(), Violation> {
        let client = world.rng.below(self.callers.len() as u64) as usize;
        match self.adding {
            Adding::Resting => {
                let Some(addition) = world.next_addition() else { return Ok(()) };
                let tag = self.next_long_tag();
                let work = Box::new(Building { tag, addition, begun: None });
                if self.submit_work(world, client, tag, work)? {
                    self.adding = Adding::Building(tag);
                }
            }
            Adding::Built if self.callers[client].in_flight() < world.swarm.open_requests_max => {
                let tag = self.next_long_tag();
                let asked = Asked::FinishAddition(tag);
                let durability = Durability::Group;
                if self.callers[client].try_submit(asked, tag, durability).is_ok() {
                    self.news_ns = world.clock.now_ns();
                    self.open.insert(tag, Open { durability, only_reads: false });
                    self.adding = Adding::Finishing(tag);
                    self.wake();
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// A call of this tag was answered.
    pub(super) fn note_addition(&mut self, tag: u64, is_log_full: bool) {
        let is_given_up = self.ran.get(&tag).is_some_and(|ran| ran.outcome == Outcome::Aborted);
        self.adding = match self.adding {
            Adding::Building(own) if own == tag && (is_log_full || is_given_up) => Adding::Resting,
            Adding::Building(own) if own == tag => Adding::Built,
            Adding::Finishing(own) if own == tag && is_log_full => Adding::Built,
            Adding::Finishing(own) if own == tag => Adding::Resting,
            adding => adding,
        };
    }
}
