//! Profile `memory` with the parts of a durable database, one more on each rung of the product's
//! ladder: its value log in memory, the log on disk in groups, the pipeline.
//!
//! Transactions run in groups of [`GROUP`], which is also what is counted: what a group costs, its
//! records handed on and made durable, shared by its transactions. Only the transactions of one
//! kind are in a group that is counted. In the pipeline that is counted one thread steps the stages
//! one after the other, so that the cost of each can be separated; the one that is timed has its
//! threads. Making room in the log, which has a thread of its own, is not counted.
//!
//! The initial rows are not in the log: it is not opened again. Not here: what commands run
//! (`run/piped.rs`).

use std::fs;
use std::hint::black_box;
use std::path::PathBuf;
use std::sync::Arc;

use tombolo_engine::clock::{Clock, SystemClock};
use tombolo_engine::pipeline::{
    self, Builder, Caller, Durability, GroupLog, GroupLogError, Pipeline, RoomMaker, Spread, Stage,
    StageKind, Step, Tagged, ValueLogGroups,
};
use tombolo_engine::settings::Settings;
use tombolo_engine::threads;
use tombolo_engine::transaction::Stop;
use tombolo_storage::disk::OsDisk;
use tombolo_storage::error::{Error, SchemaError};
use tombolo_storage::log::LogUsage;
use tombolo_storage::memory::Limits;
use tombolo_storage::profile::MemoryLogged;
use tombolo_storage::value_log::{LogBuffer, LogSettings, LogWriter};

use super::part::Part;
use super::verify::Quiescent;
use super::{Executed, Instance};
use crate::counters::CounterError;
use crate::counters::meter::{Meter, Native, NativeCount};
use crate::counting::{CountInputs, Group, kind_of};
use crate::drive::Tally;
use crate::durable::{Answered, Answers, Calling, Clients, Database, Logged, Request, Watch};
use crate::failure::Failure;
use crate::workload::error::WorkloadError;
use crate::workload::{Workload, WorkloadInput};

/// Transactions that are made durable together: as many as a pipeline's batch.
pub const GROUP: usize = 256;
/// Callers of the pipeline, and calls that each has under way.
const CALLERS: (usize, usize) = (64, 64);
/// The stages that calls pass, in their order.
const STAGES: [StageKind; 3] = [StageKind::Execution, StageKind::Logging, StageKind::Output];

type Piped<W> = Database<MemoryLogged, W>;

/// The database, wherever it is.
enum State<W: Workload> {
    /// Without tables.
    Empty(Box<Logged>),
    Ready(Box<Piped<W>>),
    /// A pipeline has it, or has lost it.
    Away,
}

/// A workload on profile `memory` with a part of what makes it durable.
#[repr(C)] // the meter is reached through one register
pub(super) struct Product<W: Workload> {
    meter: Meter,
    state: State<W>,
    part: Part,
    records: LogBuffer,
    log: Option<Box<dyn GroupLog>>,
    room: Option<Box<dyn RoomMaker>>,
    usage: LogUsage,
    directory: PathBuf,
    /// Calls that the pipeline looks ahead at.
    locate_ahead: Option<usize>,
}

const NOT_LOADED: Stop = Stop::Error(Error::Poisoned { reason: "nothing was loaded" });
const NO_THREAD: Stop =
    Stop::Error(Error::Poisoned { reason: "the system refuses the threads of a pipeline" });
const LOG_FAILED: Stop = Stop::Error(Error::Poisoned {
    reason: "its log failed: is the disk full, or gone? give --data another directory",
});

fn log_failed(_: GroupLogError) -> Stop {
    LOG_FAILED
}

impl<W: Workload> Product<W> {
    /// An empty database; its log, where it goes to a disk, is made in `directory`, which is new.
    pub(super) fn create(part: Part, limits: Limits, directory: PathBuf) -> Result<Self, Failure> {
        let failed = |error: &dyn std::fmt::Display| Failure::environment(error.to_string());
        let mut log: Option<Box<dyn GroupLog>> = None;
        if part.is_durable() {
            let disk = OsDisk::create(&directory).map_err(|error| failed(&error))?;
            let writer = LogWriter::create(Arc::new(disk), LogSettings::default());
            log = Some(Box::new(ValueLogGroups::new(writer.map_err(|error| failed(&error))?)));
        }
        let room = log.as_mut().and_then(|log| log.room_maker());
        Ok(Self {
            meter: Meter::default(),
            state: State::Empty(Box::new(Logged::new(limits))),
            part,
            records: LogBuffer::new(),
            log,
            room,
            usage: LogUsage::default(),
            directory,
            locate_ahead: Some(0),
        })
    }

    fn store(&mut self) -> &mut Logged {
        match &mut self.state {
            State::Empty(store) => store,
            State::Ready(database) => &mut database.store,
            State::Away => unreachable!("a database that was lost ends the run"),
        }
    }

    /// Takes the database for a pipeline.
    fn take(&mut self) -> Result<Piped<W>, Stop> {
        match std::mem::replace(&mut self.state, State::Away) {
            State::Ready(database) => Ok(*database),
            other => {
                self.state = other;
                Err(NOT_LOADED)
            }
        }
    }

    /// Runs a group of transactions, whatever becomes of each.
    #[inline(never)]
    fn run_group(
        &mut self,
        inputs: &[W::Input],
        mut ended: impl FnMut(&W::Input, Result<Answered<W>, Stop>) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        let State::Ready(database) = &mut self.state else { return Err(NOT_LOADED) };
        for input in inputs {
            ended(input, database.call(input))?;
        }
        database.store.take_log(&mut self.records);
        if let Some(log) = &mut self.log {
            let (records, transactions) = (&self.records, self.records.transactions());
            log.append(&[records.as_slice()], transactions).map_err(log_failed)?;
            log.sync().map_err(log_failed)?;
            self.usage.flushes += 1;
            self.usage.commits += transactions;
            self.usage.bytes += records.len() as u64;
            self.usage.flushed_bytes += records.len() as u64;
        }
        self.records.clear();
        Ok(())
    }

    /// Makes room in the log for the groups that come.
    fn make_room(&mut self) -> Result<(), Stop> {
        let Some(room) = &mut self.room else { return Ok(()) };
        while room.make().map_err(|_| LOG_FAILED)? {}
        Ok(())
    }

    /// Runs all of `inputs` in groups.
    fn run_groups(&mut self, inputs: &[W::Input], tally: &mut Tally) -> Result<(), Stop> {
        for group in inputs.chunks(GROUP) {
            self.run_group(group, |input, outcome| match outcome {
                Ok(answer) => {
                    black_box(&answer);
                    tally.committed(input.kind());
                    Ok(())
                }
                Err(stop) => tally.stopped(input.kind(), stop),
            })?;
            self.make_room()?;
        }
        Ok(())
    }

    /// Runs all of `inputs` through a pipeline with its threads.
    fn run_piped(
        &mut self,
        inputs: &[W::Input],
        clock: &dyn Clock,
        tally: &mut Tally,
    ) -> Result<Executed, Stop> {
        let mut options = pipeline::Options::new(&Settings::default(), threads::available());
        options.locate_ahead = self.locate_ahead;
        let builder = Builder::new(self.take()?, options);
        let builder = builder.log(self.log.take().ok_or(LOG_FAILED)?);
        let pipeline = builder.start(Arc::new(SystemClock::new())).map_err(|_| NO_THREAD)?;
        let (clients, in_flight) = CALLERS;
        let durability = Durability::Group;
        let calling = Calling { clients, in_flight, durability, sequences: Vec::new(), acks: None };
        let mut clients = Clients::new(&pipeline, calling, clock);
        let (process, own) = (clock.process_cpu(), clock.thread_cpu());
        let mut answers = Answers::default();
        let ran = clients.run(inputs, u64::MAX, &mut answers, Watch::progress(&mut |_| ()));
        let own = clock.thread_cpu().saturating_sub(own);
        let engine_cpu = clock.process_cpu().saturating_sub(process).saturating_sub(own);
        pipeline.shut();
        clients.finish();
        self.give_back(pipeline)?;
        tally.add(&answers.tally);
        ran.map_err(|_| LOG_FAILED)?;
        let State::Ready(database) = &mut self.state else { return Err(NOT_LOADED) };
        Ok(Executed { engine_cpu, work: std::mem::take(&mut database.work) })
    }

    /// Takes database and log back from a pipeline whose stages have ended or will.
    fn give_back(&mut self, pipeline: Pipeline<Piped<W>>) -> Result<(), Stop> {
        let closed = pipeline.close();
        self.log = closed.log;
        let Some(database) = closed.executor.filter(|_| closed.poison.is_none()) else {
            return Err(LOG_FAILED);
        };
        self.state = State::Ready(Box::new(database));
        Ok(())
    }
}

/// A pipeline whose stages are stepped one after the other.
struct Stepped<W: Workload> {
    pipeline: Pipeline<Piped<W>>,
    stages: Vec<Box<dyn Stage>>,
    caller: Caller<Request<W>, Answered<W>>,
    /// Kept from group to group, as callers do: the output stage would allocate otherwise.
    replies: Vec<Tagged<Answered<W>>>,
}

impl<W: Workload> Stepped<W> {
    fn start(
        database: Piped<W>,
        log: Box<dyn GroupLog>,
        locate_ahead: Option<usize>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let mut options = pipeline::Options::new(&Settings::default(), 1);
        options.locate_ahead = Some(locate_ahead.unwrap_or(0)); // what is counted is not timed
        // Every stage is counted by itself, and so is none that a caller would carry.
        options.spread = Spread::One;
        // What happens must not depend on the time: no group is closed by it, and no transaction is
        // watched because one before took long, as all do under valgrind.
        options.group.seal_ns_max = u64::MAX;
        options.slice_ns_max = u64::MAX;
        let builder = Builder::new(database, options).log(log);
        let (pipeline, stages) = builder.assemble(clock);
        let caller = pipeline.caller(GROUP);
        Self { pipeline, stages, caller, replies: Vec::new() }
    }

    /// Steps a stage until it has nothing to do.
    fn step(&mut self, kind: StageKind) {
        for stage in self.stages.iter_mut().filter(|stage| stage.kind() == kind) {
            while stage.step(0) == Step::Progress {}
        }
    }

    /// Runs a group; `only` this stage is counted, or all of them.
    fn run(
        &mut self,
        inputs: &[W::Input],
        meter: &Meter,
        only: Option<StageKind>,
    ) -> Result<(), String> {
        let request = |&input: &W::Input| Request::Run { input, number: None };
        let calls = inputs.iter().zip(0..);
        let mut calls: Vec<_> = calls
            .map(|(input, tag)| self.caller.prepare(request(input), tag, Durability::Group))
            .collect();
        self.caller.try_submit_many(&mut calls).map_err(|refusal| refusal.to_string())?;
        let kind = kind_of(&inputs[0]);
        if only.is_none() {
            meter.transaction_begin(kind);
        }
        for stage in STAGES {
            if only == Some(stage) {
                meter.transaction_begin(kind);
            }
            self.step(stage);
            if only == Some(stage) {
                meter.transaction_end();
            }
        }
        if only.is_none() {
            meter.transaction_end();
        }
        self.replies.clear();
        self.caller.take(&mut self.replies);
        self.step(StageKind::Room);
        let answered = self.replies.len();
        if answered != inputs.len() {
            return Err(format!("{answered} of {} calls were answered", inputs.len()));
        }
        Ok(())
    }

    /// Ends all stages.
    fn end(self) -> Pipeline<Piped<W>> {
        let Self { pipeline, mut stages, .. } = self;
        pipeline.shut();
        while !stages.is_empty() {
            let step = |mut stage: Box<dyn Stage>| match stage.step(0) {
                Step::Ended => {
                    stage.retire();
                    None
                }
                Step::Progress | Step::IdleUntil(_) => Some(stage),
            };
            stages = stages.into_iter().filter_map(step).collect();
        }
        pipeline
    }
}

/// Groups of the transactions of one kind.
fn groups_of<I: WorkloadInput>(group: &Group<I>) -> Vec<Vec<I>> {
    let of_kind = group.inputs.iter().filter(|input| kind_of(*input) == group.kind);
    let inputs: Vec<I> = of_kind.copied().collect();
    inputs.chunks_exact(GROUP).map(<[I]>::to_vec).collect()
}

/// Counting.
impl<W: Workload> Product<W> {
    /// Runs what is counted of `group`.
    fn count_groups(&mut self, group: &Group<W::Input>) -> Result<(), CounterError> {
        let damaged =
            |what: &dyn std::fmt::Display| CounterError::Damaged(format!("{}: {what}", group.name));
        self.meter.only(Some(group.kind));
        for inputs in groups_of(group) {
            self.meter.transaction_begin(group.kind);
            let ran = self.run_group(&inputs, |_, outcome| black_box(outcome).map(|_| ()));
            self.meter.transaction_end();
            ran.and_then(|()| self.make_room()).map_err(|stop| damaged(&stop))?;
        }
        Ok(())
    }

    /// Counts; calls `told` after each group of what is counted: of all transactions of a kind, and
    /// in a pipeline of each stage besides.
    fn count_with(
        &mut self,
        inputs: &CountInputs<W::Input>,
        by_stage: bool,
        mut told: impl FnMut(&Meter, &str) -> Result<(), CounterError>,
    ) -> Result<(), CounterError> {
        let damaged = |what: &dyn std::fmt::Display| CounterError::Damaged(what.to_string());
        if self.part != Part::Pipeline {
            for group in &inputs.groups {
                self.count_groups(group)?;
                told(&self.meter, &group.name)?;
            }
            return Ok(());
        }
        let database = self.take().map_err(|stop| damaged(&stop))?;
        let log = self.log.take().ok_or_else(|| damaged(&LOG_FAILED))?;
        let clock = Arc::new(SystemClock::new());
        let mut stepped = Stepped::start(database, log, self.locate_ahead, clock);
        stepped.step(StageKind::Room);
        for group in &inputs.groups {
            self.meter.only(Some(group.kind));
            let stages = STAGES.into_iter().map(Some).filter(|_| by_stage);
            for only in std::iter::once(None).chain(stages) {
                for inputs in groups_of(group) {
                    stepped.run(&inputs, &self.meter, only).map_err(|what| damaged(&what))?;
                }
                let stage = only.map_or_else(String::new, |stage| format!(".{stage}"));
                told(&self.meter, &format!("{}{stage}", group.name))?;
            }
        }
        let pipeline = stepped.end();
        self.give_back(pipeline).map_err(|stop| damaged(&stop))
    }

    fn run_uncounted(&mut self, inputs: &CountInputs<W::Input>) -> Result<(), CounterError> {
        let ran = self.run_groups(&inputs.uncounted, &mut Tally::default());
        ran.map_err(|stop| CounterError::Damaged(stop.to_string()))
    }

    /// Makes the transactions of a database that was loaded.
    fn make_ready(&mut self, workload: W) -> Result<(), SchemaError> {
        match std::mem::replace(&mut self.state, State::Away) {
            State::Empty(store) => {
                self.state = State::Ready(Box::new(Database::new(*store, &workload, None)?));
            }
            other => self.state = other,
        }
        Ok(())
    }
}

impl<W: Workload> Instance<W> for Product<W> {
    fn load(
        &mut self,
        workload: W,
        threads: usize,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<(), WorkloadError> {
        let mut passed_over = LogBuffer::new();
        workload.load_parts(self.store(), threads, |store, done, of| {
            store.take_log(&mut passed_over);
            passed_over.clear();
            progress(done, of);
            Ok(())
        })?;
        Ok(self.make_ready(workload)?)
    }

    fn bind(&mut self, workload: W) -> Result<(), SchemaError> {
        self.make_ready(workload)
    }

    fn read_all(&mut self) -> Result<(), Failure> {
        Ok(()) // it never was anywhere else
    }

    fn reserve(&mut self, inputs: &[W::Input]) -> Result<(), Stop> {
        let State::Ready(database) = &mut self.state else { return Err(NOT_LOADED) };
        Database::<_, W>::reserve(&mut database.store, W::new_rows(inputs)).map(|_| ())
    }

    fn open_sessions(&mut self, threads: usize) -> Result<(), Failure> {
        match threads {
            0 | 1 => Ok(()),
            _ => Err(Failure::usage("the profile has one session: use --threads 1")),
        }
    }

    fn set_retries_max(&mut self, _: u64) {} // no transaction gives way to another

    fn set_locate_ahead(&mut self, transactions: Option<usize>) {
        self.locate_ahead = transactions;
    }

    fn run(&mut self, inputs: &[W::Input], tally: &mut Tally) -> Result<(), Stop> {
        self.run_groups(inputs, tally)
    }

    fn run_on_all(
        &mut self,
        inputs: &[W::Input],
        clock: &dyn Clock,
        tally: &mut Tally,
    ) -> Result<Executed, Stop> {
        if self.part == Part::Pipeline {
            return self.run_piped(inputs, clock, tally);
        }
        let cpu = clock.thread_cpu();
        self.run_groups(inputs, tally)?;
        let engine_cpu = clock.thread_cpu().saturating_sub(cpu);
        Ok(Executed { engine_cpu, work: crate::work::WorkDone::take() })
    }

    fn run_timed(
        &mut self,
        inputs: &[W::Input],
        clock: &dyn Clock,
        ends: &mut [u64],
    ) -> Result<(), Stop> {
        // An answer leaves when its group is durable.
        for (inputs, ends) in inputs.chunks(GROUP).zip(ends.chunks_mut(GROUP)) {
            self.run_groups(inputs, &mut Tally::default())?;
            ends.fill(clock.now_ns());
        }
        Ok(())
    }

    fn count(&mut self, inputs: &CountInputs<W::Input>) -> Result<(), CounterError> {
        self.run_uncounted(inputs)?;
        self.meter.count()?;
        self.count_with(inputs, true, |meter, name| {
            meter.dump(name);
            Ok(())
        })?;
        self.meter.stop();
        Ok(())
    }

    fn count_natively(
        &mut self,
        native: Native,
        inputs: &CountInputs<W::Input>,
        _: bool,
    ) -> Result<Vec<NativeCount>, CounterError> {
        self.run_uncounted(inputs)?;
        self.meter.time(native, false)?;
        let mut counts = Vec::new();
        self.count_with(inputs, false, |meter, _| {
            counts.push(meter.take()?);
            Ok(())
        })?;
        self.meter.stop();
        Ok(counts)
    }

    fn rest(&mut self) -> Result<Quiescent<'_>, Failure> {
        Ok(Quiescent::in_memory(self.store()))
    }

    fn log_usage(&self) -> Option<LogUsage> {
        self.part.is_durable().then_some(self.usage)
    }

    fn save(self: Box<Self>) -> Result<(), Failure> {
        Err(Failure::usage("a rung of the ladder is not kept: use run --data"))
    }
}

impl<W: Workload> Drop for Product<W> {
    fn drop(&mut self) {
        (self.log, self.room) = (None, None);
        if self.part.is_durable() {
            // What cannot be removed goes with the directory it is in.
            let _ = fs::remove_dir_all(&self.directory);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    use super::*;
    use crate::workload::debit_credit::Scale;

    /// On this clock everything takes ten times as long as all before it.
    struct SlowingClock(AtomicU64);

    impl Clock for SlowingClock {
        fn now_ns(&self) -> u64 {
            let now = self.0.load(Ordering::Relaxed);
            self.0.store(now.saturating_mul(10), Ordering::Relaxed);
            now
        }
        fn unix_us(&self) -> u64 {
            0
        }
        fn process_cpu(&self) -> Duration {
            Duration::ZERO
        }
        fn thread_cpu(&self) -> Duration {
            Duration::ZERO
        }
    }

    /// Transactions that are watched read the clock, and were counted with it: 760 instructions
    /// instead of 581, whenever the machine happened to be slow.
    #[test]
    fn what_is_counted_does_not_depend_on_the_time() {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("log");
        let limits = Limits { structure_bytes_max: 64 << 20, ..Limits::default() };
        let mut product = Product::create(Part::Pipeline, limits, log).unwrap();
        let (branches, tellers_per_branch, accounts_per_branch) = (1, 10, 1_000);
        let workload = Scale { seed: 1, branches, tellers_per_branch, accounts_per_branch };
        product.load(workload, 1, &mut |_, _| ()).unwrap();
        let (database, log) = (product.take().unwrap(), product.log.take().unwrap());
        let clock = Arc::new(SlowingClock(AtomicU64::new(1_000)));
        let mut stepped = Stepped::start(database, log, Some(0), clock);
        stepped.step(StageKind::Room);
        let inputs: Vec<_> = workload.inputs().take(GROUP).collect();
        let meter = Meter::default();
        for _ in 0..5 {
            stepped.run(&inputs, &meter, None).unwrap();
        }
        assert_eq!(stepped.pipeline.statistics().overruns, 0);
        product.give_back(stepped.end()).unwrap();
    }
}
