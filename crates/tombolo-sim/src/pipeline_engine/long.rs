//! What takes long, concurrently with requests: reads of all rows, and what is added.
//!
//! ```text
//!   resting ──submit──► building ──all rows are in──► built ──a call──► finishing ──► resting
//!      ▲                  │ nothing runs                ▲                  │ no room in the log
//!      └──────────────────┘                             └──────────────────┘
//! ```
//!
//! As the library does it: long work begins an index or a column and puts rows in, a call like any other
//! makes it part of the schema, in its place in the order; a column is not begun, or given up there, if a
//! long read is open. Not here: the read (`long_read.rs`), what is added (`addition.rs`), whether replies are
//! right (`replies.rs`).

use tombolo_engine::pipeline::{Durability, LongWork, NotSubmitted, Refusal};

use super::addition::Building;
use super::calls::{Adding, Asked, LONG_READ, Open, draw_durability};
use super::executor::SimExecutor;
use super::life::Life;
use super::long_read::LongRead;
use crate::database::Recording;
use crate::oracle::{Rule, Violation};
use crate::trace::number_of;
use crate::workload::model::Outcome;
use crate::world::World;

impl<R: Recording> Life<R> {
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
        if caller.in_flight() >= world.swarm.open_requests_max {
            return Ok(false);
        }
        let durability = draw_durability(world);
        match self.pipeline.long().submit_by(caller, work, tag, durability) {
            Ok(_) => {
                world.trace.event(&[number_of("long work"), tag], || {
                    format!("long work {tag:#x}, {durability:?}")
                });
                self.opened(world, tag, Open { durability, only_reads: true });
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
                let work = Box::new(Building::new(tag, addition));
                if self.submit_work(world, client, tag, work)? {
                    self.adding = Adding::Building(tag);
                }
            }
            Adding::Built if self.callers[client].in_flight() < world.swarm.open_requests_max => {
                let tag = self.next_long_tag();
                let asked = Asked::FinishAddition(tag);
                let durability = Durability::Group;
                if self.callers[client].try_submit(asked, tag, durability).is_ok() {
                    self.opened(world, tag, Open { durability, only_reads: false });
                    self.adding = Adding::Finishing(tag);
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
