//! Callers that carry: they run their transactions and write the log, as any stage may step at any time.
//!
//! Not here: whether replies are right (`replies.rs`).

use tombolo_engine::clock::Clock;
use tombolo_engine::pipeline::{Carried, Durability, Failure, Panicked, Reply, Stands, Terms};

use super::calls::{CarriedCall, Open, tag_of};
use super::executor::log_bytes_max;
use super::life::Life;
use crate::database::Recording;
use crate::faults::one_in;
use crate::oracle::{Rule, Violation};
use crate::trace::number_of;
use crate::workload::request::Request;
use crate::world::World;

/// Several times what an early answer may wait for its flush.
const QUIET_NS: u64 = 100_000_000;

impl<R: Recording> Life<R> {
    /// A client may run its transaction itself; says whether it did.
    pub(super) fn carry(
        &mut self,
        world: &mut World,
        request: &Request,
        durability: Durability,
    ) -> Result<bool, Violation> {
        let Some(carrier) = self.carrier.clone() else { return Ok(false) };
        if one_in(&mut world.rng, 2) {
            return Ok(false);
        }
        let tag = tag_of(request);
        let terms = Terms { durability, log_bytes_max: log_bytes_max(request) };
        let carried = carrier.run(terms, |executor| executor.carry(request.clone()));
        let Some(carried) = carried else { return Ok(false) };
        world.trace.event(&[number_of("carry"), tag], || format!("carry {tag:#x}, {durability:?}"));
        self.submitted += 1;
        self.opened(world, tag, Open { durability, only_reads: request.work.only_reads() });
        self.journal.lock().settle();
        self.judge_journal(world)?;
        let (outcome, stands) = match carried {
            Carried::Refused(refusal) => {
                return self.judge_reply(world, tag, Reply::Refused(refusal)).map(|()| true);
            }
            Carried::Ran { outcome, stands } => (outcome, stands),
        };
        let outcome = match outcome {
            Ok(ended) => ended.map_err(Failure::Stopped),
            Err(Panicked(message)) => Err(Failure::Panicked(message)),
        };
        let reply = match stands {
            Stands::From(position) => {
                self.carried.push(CarriedCall { tag, outcome, position, has_looked: false });
                return Ok(true);
            }
            Stands::Durable => Reply::Durable(outcome),
            Stands::PreCommitted => Reply::PreCommitted(outcome),
            Stands::Volatile => Reply::Volatile(outcome),
        };
        self.judge_reply(world, tag, reply).map(|()| true)
    }

    /// A caller that waits does the stages' work; says whether there was any.
    pub(super) fn work(&mut self, world: &mut World) -> Result<bool, Violation> {
        let Some(carrier) = &self.carrier else { return Ok(false) };
        self.carried.iter_mut().for_each(|call| call.has_looked = true);
        let lent = self.lend(true);
        let has_worked = carrier.work();
        drop(lent);
        if has_worked {
            self.journal.lock().settle();
            self.wake();
            self.judge_journal(world)?;
        }
        Ok(has_worked)
    }

    /// Whether a caller that carried still has to do the log's work.
    pub(super) fn is_looked_for(&self) -> bool {
        self.carried.iter().any(|call| !call.has_looked)
    }

    /// Nothing is called for a while: what was answered early is flushed in time, though no call waits
    /// for it.
    pub(super) fn quiet(&mut self, world: &mut World) -> Result<(), Violation> {
        let until_ns = world.clock.now_ns() + QUIET_NS;
        loop {
            let waiting = self.pipeline.statistics().log_queue.transactions;
            let is_excused = self.pipeline.poison().is_some() || world.disk.is_limited();
            if waiting == 0 || is_excused || world.disk.has_crashed() {
                return Ok(());
            }
            if self.step_stage(world)? {
                continue;
            }
            let next_ns = self.stages.lock().next_ns().filter(|&next_ns| next_ns < until_ns);
            let Some(next_ns) = next_ns else {
                let what =
                    format!("{waiting} early answers wait to be flushed, and no stage looks");
                return Err(Violation::new(Rule::Progress, what));
            };
            world.clock.advance_to(next_ns);
        }
    }

    /// Callers that carried report what they may.
    pub(super) fn take_carried(&mut self, world: &mut World) -> Result<(), Violation> {
        let Some(carrier) = self.carrier.clone() else { return Ok(()) };
        let waiting = std::mem::take(&mut self.carried);
        for call in waiting {
            let reply = match carrier.look(call.position) {
                None => {
                    self.carried.push(call);
                    continue;
                }
                Some(Ok(())) => Reply::Durable(call.outcome),
                Some(Err(refusal)) => Reply::Refused(refusal),
            };
            self.judge_reply(world, call.tag, reply)?;
        }
        Ok(())
    }
}
