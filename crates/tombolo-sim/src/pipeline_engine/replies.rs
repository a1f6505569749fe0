//! Whether what the pipeline did and answered is right.
//!
//! Not here: the model (`workload/model.rs`), the order of what ran (`oracle/history.rs`).

use tombolo_engine::clock::Clock;
use tombolo_engine::pipeline::{Durability, Refusal, Reply};

use super::calls::{Ran, is_long_read, tag_of};
use super::journal::Happened;
use super::life::Life;
use super::outcomes::{has_ended_early, outcome_of};
use crate::database::Recording;
use crate::faults::one_in;
use crate::oracle::{Rule, Violation};
use crate::trace::number_of;
use crate::workload::model::Outcome;
use crate::workload::request::Request;
use crate::world::World;

/// Writes that may be refused for want of room after there is some: those that were waiting, and
/// those that come before the room stage has tried again.
const REFUSED_WITH_ROOM_MAX: u64 = 100;

impl<R: Recording> Life<R> {
    pub(super) fn judge_journal(&mut self, world: &mut World) -> Result<(), Violation> {
        let happened = self.journal.lock().take();
        for event in happened {
            let now = world.history.len();
            let (tag, place, outcome) = match event {
                Happened::Ran(request, found) => self.judge_ran(world, &request, found)?,
                Happened::OpenedSnapshot(tag) => {
                    (tag, now, Outcome::Committed(world.history.state().rows_number()))
                }
                Happened::BeganAddition(tag) => (tag, now, Outcome::Committed(0)),
                Happened::Added(tag, addition, added) => {
                    added.map_err(|what| Violation::new(Rule::RightAnswer, what))?;
                    (tag, world.history.added(addition), Outcome::Committed(0))
                }
                Happened::GaveUp(tag) => (tag, now, Outcome::Aborted),
            };
            self.ran.insert(tag, Ran { place, outcome });
        }
        Ok(())
    }

    /// Judges a request that ran: its tag, place and outcome.
    fn judge_ran(
        &mut self,
        world: &mut World,
        request: &Request,
        found: Result<Outcome, String>,
    ) -> Result<(u64, usize, Outcome), Violation> {
        let outcome = found.map_err(|error| {
            Violation::new(Rule::RightAnswer, format!("{request:?} failed: {error}"))
        })?;
        world.note_run(request, &outcome);
        let (tag, place) = (tag_of(request), world.history.ran(request, outcome)?);
        if self.ran.contains_key(&tag) {
            return Err(Violation::new(Rule::RightAnswer, format!("{request:?} ran twice")));
        }
        Ok((tag, place, outcome))
    }

    pub(super) fn take_replies(&mut self, world: &mut World) -> Result<(), Violation> {
        let mut replies = Vec::new();
        for caller in &mut self.callers {
            caller.take(&mut replies);
        }
        if !replies.is_empty() {
            self.wake();
        }
        replies.into_iter().try_for_each(|(tag, reply)| self.judge_reply(world, tag, reply))?;
        self.take_carried(world)
    }

    pub(super) fn judge_reply(
        &mut self,
        world: &mut World,
        tag: u64,
        reply: Reply<u64>,
    ) -> Result<(), Violation> {
        let text = format!("{reply:?}");
        world.trace.event(&[number_of(&text), tag], || format!("reply {tag:#x}: {text}"));
        let wrong = |what: &str| {
            Err(Violation::new(Rule::RightAnswer, format!("call {tag:#x}, {text}: {what}")))
        };
        let Some(open) = self.open.remove(&tag) else { return wrong("answered twice") };
        self.news_ns = world.clock.now_ns();
        self.note_addition(tag, matches!(reply, Reply::Refused(Refusal::LogFull)));
        let ran = self.ran.get(&tag).copied();
        let (outcome, is_durable) = match reply {
            Reply::Refused(refusal) => {
                self.refused += 1;
                return match refusal {
                    Refusal::Unknown(_) | Refusal::Poisoned(_) => {
                        self.is_poisoned = true;
                        Ok(())
                    }
                    _ if ran.is_some() => wrong("it was refused, but ran"),
                    Refusal::LogFull if open.only_reads && !self.makes_tables => {
                        wrong("it needs no room")
                    }
                    Refusal::LogFull => self.judge_full(world),
                    _ => wrong("a refusal without cause"),
                };
            }
            Reply::Durable(outcome) => (outcome, true),
            Reply::PreCommitted(outcome) => (outcome, false),
            Reply::Volatile(_) => return wrong("this pipeline has a log"),
        };
        let Some(ran) = ran else { return wrong("it never ran") };
        if is_long_read(tag) && has_ended_early(&outcome) {
            return Ok(());
        }
        if outcome_of(&outcome) != Some(ran.outcome) {
            return wrong(&format!("its outcome was {:?}", ran.outcome));
        }
        if is_durable {
            world.history.acknowledge(ran.place);
        } else if open.durability != Durability::Async {
            return wrong("it was to wait for the log");
        }
        Ok(())
    }

    /// A write was refused for want of room: in the end some is made, and then no more writes are.
    fn judge_full(&mut self, world: &mut World) -> Result<(), Violation> {
        if world.disk.is_limited() {
            if one_in(&mut world.rng, 8) || self.refused > 50 {
                world.disk.set_capacity_bytes(None);
            }
            return Ok(());
        }
        self.refused_with_room += 1;
        if self.refused_with_room > REFUSED_WITH_ROOM_MAX {
            let what = "writes are refused for want of room, and there is room";
            return Err(Violation::new(Rule::Progress, what));
        }
        Ok(())
    }
}
