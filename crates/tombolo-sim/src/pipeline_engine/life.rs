//! One life of a pipeline: clients submit, stages are stepped, time passes, until it ends.
//!
//! Not here: whether replies are right (`replies.rs`), callers that carry (`carried.rs`), long work (`long.rs`).

use std::collections::BTreeMap;
use std::sync::Arc;

use tombolo_engine::clock::Clock;
use tombolo_engine::pipeline::{
    Archiving, Builder, Caller, Carrier, CheckpointHandle, NotSubmitted, Pipeline, Refusal,
    Step as StageStep, ValueLogGroups,
};
use tombolo_engine::rng::Rng;
use tombolo_storage::store::Store;
use tombolo_storage::sync::Mutex;

use super::calls::{Adding, Asked, CarriedCall, Open, Ran, draw_durability, tag_of};
use super::companions::Companions;
use super::executor::SimExecutor;
use super::journal::Journal;
use super::options::options;
use super::outcomes::{judge_checkpoints, judge_rows};
use super::stages::{Others, Stages};
use crate::clock;
use crate::database::{OpenLog, Recording, StoreOf, archive};
use crate::faults::{FaultCounts, one_in};
use crate::oracle::{Rule, Violation, sound};
use crate::trace::number_of;
use crate::workload::request::Request;
use crate::world::World;

/// One life of a pipeline.
pub(super) struct Life<R: Recording> {
    pub(super) pipeline: Pipeline<SimExecutor<R>>,
    pub(super) stages: Arc<Mutex<Stages>>,
    /// Processes that write checkpoints.
    pub(super) companions: Option<Companions>,
    pub(super) callers: Vec<Caller<Asked, u64>>,
    /// Requests that found no room.
    pub(super) unsent: Vec<Option<Request>>,
    pub(super) journal: Arc<Mutex<Journal>>,
    /// What ran in this life, by tag.
    pub(super) ran: BTreeMap<u64, Ran>,
    /// What was submitted and not answered, by tag.
    pub(super) open: BTreeMap<u64, Open>,
    /// Where callers carry, if they do, and what they carried that waits for the log.
    pub(super) carrier: Option<Carrier<SimExecutor<R>>>,
    pub(super) carried: Vec<CarriedCall>,
    /// Whether it begins by making tables. Nothing runs before them, so without room for them even reads are
    /// refused.
    pub(super) makes_tables: bool,
    pub(super) submitted: u64,
    pub(super) long_works: u64,
    pub(super) adding: Adding,
    pub(super) refused: u64,
    pub(super) is_poisoned: bool,
    /// How often in a row all stages were idle.
    pub(super) looks: u32,
    /// When a call was taken in or answered last.
    pub(super) news_ns: u64,
    /// Writes that were refused for want of room since there was room again.
    pub(super) refused_with_room: u64,
    /// Checkpoints that were asked for.
    pub(super) asked: Vec<CheckpointHandle>,
    /// What had struck when the life began.
    pub(super) faults_before: FaultCounts,
}

/// How often all stages are stepped again before they are called idle.
const LOOKS: u32 = 2;

/// The longest time, on the simulated clock, in which no call is taken in and none is answered
/// though some are under way: many times what the slowest disk needs for a flush.
const SILENCE_NS_MAX: u64 = 4_000_000_000;

/// How much time passes where no stage has a time at which it looks again.
const IDLE_NS: u64 = 1_000_000;

/// Steps in which a pipeline ends that was shut: another process may be slow, and an archive that looks
/// every nanosecond lets little time pass with each.
const END_STEPS_MAX: usize = 400_000;

impl<R: Recording> Life<R> {
    pub(super) fn begin(
        log: OpenLog,
        mut store: StoreOf<R>,
        world: &mut World,
    ) -> Result<Self, Violation> {
        let mut recording = R::default();
        let (handles, place) = world.make_tables(&mut store, |step| recording.ran(step))?;
        let journal = Arc::default();
        let own = Arc::clone(&journal);
        let executor =
            SimExecutor { store, handles, recording, journal: own, built: None, reads: 0 };
        let OpenLog { writer, checkpointing, archiver, behind_bytes } = log;
        let (of_log, group) = ((writer.salt(), writer.epoch()), writer.newest());
        let groups = Box::new(ValueLogGroups::new(writer));
        let mut builder = Builder::new(executor, options(&world.swarm)).log(groups);
        if let Some(checkpointing) = checkpointing {
            builder = builder.checkpoints(checkpointing, behind_bytes);
        }
        if let Some(archiver) = archiver {
            let time_ns_max = world.swarm.archive_time_ns;
            builder = builder.archive(Archiving { archiver, time_ns_max });
        }
        let companions = world.swarm.has_remote_checkpoints().then(|| Companions::new(world));
        if let Some(companions) = &companions {
            builder =
                builder.remote_checkpoints(companions.remote_checkpoints(world, of_log, group));
        }
        if world.swarm.has_input_stage {
            builder = builder.prepare(|| |_: &mut Asked| Ok(()));
        }
        let (pipeline, stages) = builder.assemble_signalled(Arc::new(world.clock.clone()));
        let own = stages.into_iter().map(|(stage, signal)| (stage, Some(signal)));
        let remote = companions.iter().map(|companions| (companions.stage(), None));
        let settled = Arc::clone(&journal);
        let settle = Box::new(move || settled.lock().settle());
        let rng = Rng::from_seed(world.rng.next_u64());
        let stages = Stages::new(own.chain(remote), (&world.clock, &world.trace), rng, settle);
        let clients = world.swarm.clients as usize;
        let in_flight_max = world.swarm.open_requests_max;
        let carrier = pipeline.carrier();
        Ok(Self {
            carrier,
            carried: Vec::new(),
            callers: (0..clients).map(|_| pipeline.caller(in_flight_max)).collect(),
            pipeline,
            companions,
            stages: Arc::new(Mutex::new(stages)),
            unsent: vec![None; clients],
            journal,
            ran: BTreeMap::new(),
            open: BTreeMap::new(),
            makes_tables: place > 0,
            submitted: 0,
            long_works: 0,
            adding: Adding::Resting,
            refused: 0,
            is_poisoned: false,
            looks: 0,
            news_ns: world.clock.now_ns(),
            refused_with_room: 0,
            asked: Vec::new(),
            faults_before: world.disk.counts(),
        })
    }

    pub(super) fn run(&mut self, world: &mut World) -> Result<(), Violation> {
        let until = world.life_transactions();
        let mut after_failure = 60;
        while self.submitted < until || !self.open.is_empty() {
            if world.disk.has_crashed() {
                return self.take_replies(world); // those had left already
            }
            if self.is_poisoned {
                after_failure -= 1;
                if after_failure == 0 {
                    return Ok(());
                }
            }
            if world.clock.now_ns() > self.news_ns + SILENCE_NS_MAX && !self.open.is_empty() {
                let what = format!("{} calls wait, and none is answered", self.open.len());
                return Err(Violation::new(Rule::Progress, what));
            }
            if world.swarm.has_checkpoints && one_in(&mut world.rng, 100) {
                self.asked.push(self.pipeline.checkpoint());
                self.wake();
            }
            if archive::is_on(&world.swarm) && one_in(&mut world.rng, 50) {
                drop(self.pipeline.archive());
                self.wake();
            }
            if self.open.is_empty() && one_in(&mut world.rng, 8) {
                self.quiet(world)?;
            }
            let may_submit = self.submitted < until && !self.is_poisoned;
            if may_submit {
                self.add(world)?;
            }
            if may_submit && one_in(&mut world.rng, 3) {
                self.submit(world)?;
            } else if !self.step(world)? {
                self.take_replies(world)?;
                if !(self.is_looked_for() && self.work(world)?) {
                    self.pass_time(world, may_submit)?;
                }
            } else if one_in(&mut world.rng, 4) {
                self.take_replies(world)?;
            }
        }
        self.quiet(world)
    }

    /// A client asks something, if it may.
    fn submit(&mut self, world: &mut World) -> Result<(), Violation> {
        let client = world.rng.below(self.callers.len() as u64) as usize;
        if one_in(&mut world.rng, world.swarm.long_reads) {
            return self.submit_long(world, client);
        }
        let request = match self.unsent[client].take() {
            Some(request) => request,
            None if self.callers[client].in_flight() < world.swarm.open_requests_max => {
                world.request_of(client)
            }
            None => return Ok(()),
        };
        let durability = draw_durability(world);
        let (tag, only_reads) = (tag_of(&request), request.work.only_reads());
        if self.carry(world, &request, durability)? {
            return Ok(());
        }
        match self.callers[client].try_submit(Asked::Run(request), tag, durability) {
            Ok(()) => {
                world.trace.event(&[number_of("submit"), tag], || {
                    format!("submit {tag:#x}, {durability:?}")
                });
                self.submitted += 1;
                self.opened(world, tag, Open { durability, only_reads });
            }
            Err(NotSubmitted::Full(Asked::Run(request))) => self.unsent[client] = Some(request),
            Err(NotSubmitted::Full(_)) => unreachable!("what was submitted is given back"),
            Err(NotSubmitted::Refused(_, Refusal::Poisoned(_))) => self.is_poisoned = true,
            Err(NotSubmitted::Refused(request, refusal)) => {
                let what = format!("{request:?} was not taken in: {refusal}");
                return Err(Violation::new(Rule::Progress, what));
            }
        }
        Ok(())
    }

    /// A call was taken in.
    pub(super) fn opened(&mut self, world: &World, tag: u64, open: Open) {
        self.news_ns = world.clock.now_ns();
        self.open.insert(tag, open);
        self.wake();
    }

    /// What the stages do while one, or a caller, waits for the disk.
    pub(super) fn lend(&self, is_carried: bool) -> clock::Lent {
        clock::lend(Box::new(Others { stages: Arc::clone(&self.stages), is_carried }))
    }

    /// Something changed: stages that nothing wakes may have work.
    pub(super) fn wake(&mut self) {
        self.looks = 0;
        self.stages.lock().wake();
    }

    /// Steps one stage that may have work, and others while it waits for the disk; says whether
    /// there was one.
    fn step(&mut self, world: &mut World) -> Result<bool, Violation> {
        if self.carrier.is_some() && one_in(&mut world.rng, 4) && self.work(world)? {
            return Ok(true);
        }
        self.step_stage(world)
    }

    /// The same without callers that carry.
    pub(super) fn step_stage(&mut self, world: &mut World) -> Result<bool, Violation> {
        let taken = self.stages.lock().take_ready(&mut world.rng, |_, _| true);
        let Some((n, mut stage)) = taken else { return Ok(false) };
        let lent = self.lend(false);
        let step = stage.step(world.clock.now_ns());
        drop(lent);
        self.stages.lock().put_back(n, stage, step);
        // A stage that talks to another process looks again all the time: that is no progress.
        let is_idle = match self.companions {
            Some(_) => matches!(step, StageStep::IdleUntil(_)),
            None => step == StageStep::IdleUntil(None),
        };
        if !is_idle {
            self.looks = 0;
        }
        self.judge_journal(world)?;
        Ok(true)
    }

    /// All stages are idle: time jumps to the next moment at which one is not.
    fn pass_time(&mut self, world: &mut World, may_submit: bool) -> Result<(), Violation> {
        // A stage that hands on what it held may call itself idle although the stage behind it now has work:
        // the room stage finds none, logging says so, execution refuses.
        if self.looks < LOOKS {
            let looks = self.looks + 1;
            self.wake();
            self.looks = looks;
            return Ok(());
        }
        let next = self.stages.lock().next_ns();
        if let Some(next) = next {
            world.clock.advance_to(next);
            return Ok(());
        }
        if !self.open.is_empty() && !may_submit && !self.is_poisoned {
            let what = format!(
                "{} calls are under way and no stage has work, {:#x?} first",
                self.open.len(),
                self.open.first_key_value()
            );
            return Err(Violation::new(Rule::Progress, what));
        }
        if !self.is_poisoned {
            self.wake();
        }
        // Time has to pass, so that silence is noticed where all clients wait for answers.
        world.clock.advance(IDLE_NS);
        Ok(())
    }

    /// The life is over: sometimes in an orderly way, in which everything is answered.
    pub(super) fn end(mut self, world: &mut World) -> Result<(), Violation> {
        if world.disk.has_crashed() || self.is_poisoned || one_in(&mut world.rng, 2) {
            return Ok(());
        }
        self.pipeline.shut();
        if let Some(companions) = &self.companions {
            companions.quiet();
        }
        self.wake();
        for _ in 0..END_STEPS_MAX {
            if self.stages.lock().has_ended() {
                break;
            }
            if !self.step(world)? {
                self.pass_time(world, false)?;
            }
            self.take_replies(world)?;
            if world.disk.has_crashed() {
                return Ok(());
            }
        }
        if !self.stages.lock().has_ended() {
            return Err(Violation::new(Rule::Progress, "a pipeline that was shut does not end"));
        }
        self.take_replies(world)?;
        if !self.open.is_empty() {
            let what = format!("{} calls were never answered", self.open.len());
            return Err(Violation::new(Rule::Progress, what));
        }
        let closed = self.pipeline.close();
        // A log that fails, for want of room for instance, ends checkpoints, too.
        let failure = closed.checkpoint_failure.as_deref().filter(|_| closed.poison.is_none());
        judge_checkpoints(&self.asked, failure, &self.faults_before, world)?;
        match closed.executor {
            Some(mut executor) => {
                sound(&executor.store.check())?;
                judge_rows(&mut executor.store, world)
            }
            None => Err(Violation::new(Rule::Progress, "a closed pipeline kept its executor")),
        }
    }
}
