//! The whole pipeline, its stages stepped in an order drawn from the seed.
//!
//! ```text
//!   clients ─submit─► pipeline ─► stages, any of them at any time ─► replies ─► checked
//!                                     │ execution           │ logging
//!                                     ▼                     ▼
//!                                  journal ──► history     log on the faulty disk
//! ```
//!
//! The executor notes in a journal what ran and in which order; the history judges it. A reply that
//! says *durable* is an acknowledgement of its step and of all before it. Time passes with every
//! step and jumps ahead when all stages are idle; while one waits for the disk the others are
//! stepped, as if each had a thread. After a failure the stages are stepped on: what leaves then
//! counts like any other answer.
//!
//! Not here: what runs requests (`executor.rs`), callers that carry (`carried.rs`), long work (`long.rs`),
//! numbers (`options.rs`), the stages (engine `pipeline/`), which of them is stepped (`stages.rs`), what is
//! in the log (`recording.rs`).

mod carried;
mod executor;
mod long;
mod options;
mod outcomes;

use std::collections::BTreeMap;
use std::sync::Arc;

use tombolo_engine::clock::Clock;
use tombolo_engine::pipeline::{
    Archiving, Builder, Caller, Carrier, CheckpointHandle, Durability, NotSubmitted, Pipeline,
    Refusal, Reply, Step as StageStep, ValueLogGroups,
};
use tombolo_storage::store::{Damage, Store};
use tombolo_storage::sync::Mutex;
use tombolo_storage::value_log::GroupNumber;

use crate::added_indexes;
use crate::archives;
use crate::checkpoints;
use crate::clock;
use crate::companions::Companions;
use crate::fault::{FaultCounts, one_in};
use crate::faulty_disk::FaultyDisk;
use crate::history::{Rule, Step, Violation};
use crate::recording::{OpenLog, Recording, StoreOf};
use crate::stages::{Happened, Journal, Others, Stages};
use crate::swarm::Swarm;
use crate::trace::number_of;
use crate::workload::identified;
use crate::workload::model::{Outcome, State};
use crate::workload::request::Request;
use crate::workload::store::{Handles, contents, definition};
use crate::world::{Engine, Refused, World, sound};
use carried::CarriedCall;
pub(crate) use executor::SimExecutor;
use long::{Adding, Asked};
use options::options;
use outcomes::{has_ended_early, judge_rows, outcome_of};

/// A database whose transactions go through the pipeline.
pub struct PipelineEngine<R: Recording> {
    log: OpenLog,
    store: StoreOf<R>,
}

impl<R: Recording> Engine for PipelineEngine<R>
where
    StoreOf<R>: Send,
{
    fn start(disk: &FaultyDisk, swarm: &Swarm, accept_loss: bool) -> Result<Self, Refused> {
        let (log, store) = R::recover(disk, swarm, accept_loss)?;
        Ok(Self { log, store })
    }

    fn contents(&mut self) -> Result<State, String> {
        contents(&mut self.store)
    }

    fn outcomes(&mut self, ids: &[u128]) -> Result<Vec<Option<bool>>, String> {
        identified::outcomes(&mut self.store, ids)
    }

    fn check(&mut self) -> Vec<Damage> {
        self.store.check()
    }

    fn durable_group(&self) -> Option<GroupNumber> {
        Some(self.log.writer.durable())
    }

    fn live(self, world: &mut World) -> Result<(), Violation> {
        let mut life = Life::begin(self, world)?;
        let lived = life.run(world);
        if lived.is_ok() {
            life.end(world)?;
        }
        if let Some(mut companions) = life.companions.take() {
            drop(life);
            companions.outlive(world);
        }
        lived
    }
}

/// A submitted request that ran: its place and outcome.
#[derive(Clone, Copy, Debug)]
struct Ran {
    place: usize,
    outcome: Outcome,
}

/// A call that was taken in.
#[derive(Clone, Copy, Debug)]
struct Open {
    durability: Durability,
    only_reads: bool,
}

/// One life of a pipeline.
struct Life<R: Recording>
where
    StoreOf<R>: Send,
{
    pipeline: Option<Pipeline<SimExecutor<R>>>,
    stages: Arc<Mutex<Stages>>,
    /// Processes that write checkpoints.
    companions: Option<Companions>,
    callers: Vec<Caller<Asked, u64>>,
    /// Requests that found no room.
    unsent: Vec<Option<Request>>,
    journal: Arc<Mutex<Journal>>,
    /// What ran in this life, by tag.
    ran: BTreeMap<u64, Ran>,
    /// What was submitted and not answered, by tag.
    open: BTreeMap<u64, Open>,
    /// Where callers carry, if they do, and what they carried that waits for the log.
    carrier: Option<Carrier<SimExecutor<R>>>,
    carried: Vec<CarriedCall>,
    /// Whether it begins with tables, before which nothing runs: without room for them reads are
    /// refused, too.
    makes_tables: bool,
    submitted: u64,
    long_works: u64,
    adding: Adding,
    refused: u64,
    is_poisoned: bool,
    /// How often in a row all stages were idle.
    looks: u32,
    /// When a call was taken in or answered last.
    news_ns: u64,
    /// Writes that were refused for want of room since there was room again.
    refused_with_room: u64,
    /// Checkpoints that were asked for.
    asked: Vec<CheckpointHandle>,
    /// What had struck when the life began.
    faults_before: FaultCounts,
}

/// How often all stages are stepped again before they are called idle.
const LOOKS: u32 = 2;

/// The longest time, on the simulated clock, in which no call is taken in and none is answered
/// though some are under way: many times what the slowest disk needs for a flush.
const SILENCE_NS_MAX: u64 = 4_000_000_000;

/// How much time passes where no stage has a time at which it looks again.
const IDLE_NS: u64 = 1_000_000;

/// Writes that may be refused for want of room after there is some: those that were waiting, and
/// those that come before the room stage has tried again.
const REFUSED_WITH_ROOM_MAX: u64 = 100;

/// Steps in which a pipeline ends that was shut: another process may be slow, and an archive that looks
/// every nanosecond lets little time pass with each.
const END_STEPS_MAX: usize = 400_000;

/// What the tags of long reads end with; no client has that number.
const LONG_READ: u64 = 0xff;

fn is_long_read(tag: u64) -> bool {
    tag & 0xff == LONG_READ
}

fn draw_durability(world: &mut World) -> Durability {
    match world.rng.below(8) {
        0 => Durability::Async,
        1 => Durability::Sync,
        _ => Durability::Group,
    }
}

/// A request that is sent again has a tag of its own.
fn tag_of(request: &Request) -> u64 {
    let times = u64::from(request.sent_before.unwrap_or_default());
    times << 40 | (request.number as u64) << 8 | request.client as u64
}

impl<R: Recording> Life<R>
where
    StoreOf<R>: Send,
{
    fn begin(engine: PipelineEngine<R>, world: &mut World) -> Result<Self, Violation> {
        let PipelineEngine { log, mut store } = engine;
        let mut recording = R::default();
        let makes_tables = store.schema().tables.len() < world.swarm.tables();
        while store.schema().tables.len() < world.swarm.tables() {
            let table = definition(store.schema().tables.len());
            store.create_table(table).map_err(|error| {
                Violation::new(Rule::RightAnswer, format!("a table was refused: {error}"))
            })?;
            recording.ran(&Step::Table);
            world.history.made_table();
        }
        added_indexes::follow(&mut store);
        let handles = Handles::of(store.schema())
            .map_err(|error| Violation::new(Rule::SoundStore, error.to_string()))?;
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
        let stages = own.chain(remote).collect();
        let clients = world.swarm.clients as usize;
        let in_flight_max = world.swarm.open_requests_max;
        let carrier = pipeline.carrier();
        Ok(Self {
            carrier,
            carried: Vec::new(),
            callers: (0..clients).map(|_| pipeline.caller(in_flight_max)).collect(),
            pipeline: Some(pipeline),
            companions,
            stages: Arc::new(Mutex::new(Stages::new(stages, world, journal.clone()))),
            unsent: vec![None; clients],
            journal,
            ran: BTreeMap::new(),
            open: BTreeMap::new(),
            makes_tables,
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

    fn run(&mut self, world: &mut World) -> Result<(), Violation> {
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
                let what = format!("{} calls wait and nothing comes of it", self.open.len());
                return Err(Violation::new(Rule::Progress, what));
            }
            if world.swarm.has_checkpoints && one_in(&mut world.rng, 100) {
                self.asked.extend(self.pipeline.as_ref().map(Pipeline::checkpoint));
                self.wake();
            }
            if archives::is_on(&world.swarm) && one_in(&mut world.rng, 50) {
                drop(self.pipeline.as_ref().map(Pipeline::archive));
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
                self.news_ns = world.clock.now_ns();
                self.open.insert(tag, Open { durability, only_reads });
                self.wake();
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

    /// What the stages do while one, or a caller, waits for the disk.
    fn lend(&self, is_carried: bool) -> clock::Lent {
        clock::lend(Box::new(Others { stages: Arc::clone(&self.stages), is_carried }))
    }

    /// Something changed: stages that nothing wakes may have work.
    fn wake(&mut self) {
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
    fn step_stage(&mut self, world: &mut World) -> Result<bool, Violation> {
        let taken = self.stages.lock().take_ready(&mut world.rng, |_| true);
        let Some((n, mut stage)) = taken else { return Ok(false) };
        let lent = self.lend(false);
        let step = stage.step(world.clock.now_ns());
        drop(lent);
        self.stages.lock().put_back(n, stage, step);
        // A stage that speaks to another process looks again all the time: that is no progress.
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

    fn judge_journal(&mut self, world: &mut World) -> Result<(), Violation> {
        let happened = {
            let mut journal = self.journal.lock();
            journal.settle();
            std::mem::take(&mut journal.happened)
        };
        for event in happened {
            let (request, found) = match event {
                Happened::Ran(request, found) => (request, found),
                Happened::OpenedSnapshot(tag) => {
                    let outcome = Outcome::Committed(world.history.state().rows_number());
                    self.ran.insert(tag, Ran { place: world.history.len(), outcome });
                    continue;
                }
                Happened::BeganAddition(tag) => {
                    let (place, outcome) = (world.history.len(), Outcome::Committed(0));
                    self.ran.insert(tag, Ran { place, outcome });
                    continue;
                }
                Happened::Added(tag, addition, added) => {
                    added.map_err(|what| Violation::new(Rule::RightAnswer, what))?;
                    let (place, outcome) = (world.history.added(addition), Outcome::Committed(0));
                    self.ran.insert(tag, Ran { place, outcome });
                    continue;
                }
                Happened::GaveUp(tag) => {
                    let (place, outcome) = (world.history.len(), Outcome::Aborted);
                    self.ran.insert(tag, Ran { place, outcome });
                    continue;
                }
            };
            let outcome = found.map_err(|error| {
                Violation::new(Rule::RightAnswer, format!("{request:?} failed: {error}"))
            })?;
            world.note_run(&request, &outcome);
            let place = world.history.ran(&request, outcome)?;
            let before = self.ran.insert(tag_of(&request), Ran { place, outcome });
            if before.is_some() {
                let what = format!("{request:?} ran twice");
                return Err(Violation::new(Rule::RightAnswer, what));
            }
        }
        Ok(())
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
        // So that silence is noticed where all clients wait for answers before they call again.
        world.clock.advance(IDLE_NS);
        Ok(())
    }

    fn take_replies(&mut self, world: &mut World) -> Result<(), Violation> {
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

    fn judge_reply(
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
            return wrong(&format!("it came to {:?}", ran.outcome));
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

    /// The life is over: sometimes in an orderly way, in which everything is answered.
    fn end(&mut self, world: &mut World) -> Result<(), Violation> {
        if world.disk.has_crashed() || self.is_poisoned || one_in(&mut world.rng, 2) {
            return Ok(());
        }
        if let Some(pipeline) = &self.pipeline {
            pipeline.shut();
        }
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
        let closed = self.pipeline.take().map(Pipeline::close);
        // A log that fails, for want of room for instance, ends checkpoints, too.
        let well = closed.as_ref().filter(|closed| closed.poison.is_none());
        let failure = well.and_then(|closed| closed.checkpoint_failure.as_deref());
        checkpoints::judge(&self.asked, failure, &self.faults_before, world)?;
        match closed.and_then(|closed| closed.executor) {
            Some(mut executor) => {
                sound(&executor.store.check())?;
                judge_rows(&mut executor.store, world)
            }
            None => Err(Violation::new(Rule::Progress, "a closed pipeline kept its executor")),
        }
    }
}
