//! The pipeline as a whole: wired, started, spoken to, closed.
//!
//! [`Builder::start`] puts the stages on threads by way of the `threads` door;
//! [`Builder::assemble`] hands them out instead, for whoever steps them itself (the simulator).
//! [`Pipeline::close`] lets nothing more in, waits until all that is under way has been answered
//! and the log is sealed, and gives executor and log back.
//!
//! Not here: what stages do. Invariant: queues and signals are wired once, before any stage runs.

use std::sync::Arc;

use tombolo_storage::sync::{AtomicU64, Mutex};
use tombolo_storage::value_log::GroupNumber;

use super::archive::{ArchiveCourse, ArchiveHandle, ArchiveStage, ArchiveStatistics, Archiving};
use super::call::Call;
use super::callers::{Caller, Mailbox, Sink, Submitter};
use super::checkpoint::{
    self, CheckpointHandle, CheckpointHold, CheckpointRefusal, CheckpointsApart, Course,
};
use super::execution::{self, Cut, Execution, ToLog};
use super::executor::Executor;
use super::input::{Input, Prepare};
use super::log::{GroupLog, Room};
use super::logging::{FlushObserver, LogBatch, Logging, Parts, unreserved};
use super::long::{LONG_WORKS_MAX, LongCall, LongIntake, LongWorks};
use super::options::{Options, Spread};
use super::output::{Outbox, Output, Parcel};
use super::overrun::{Overrun, Overruns, Watch};
use super::places::{BEFORE_LOG, CALLERS_OWN, LOG, Places};
use super::pool::Pool;
use super::queue::{Load, Queue};
use super::room::MakingRoom;
use super::shared::Shared;
use super::signal::Signal;
use super::statistics::Statistics;
use super::visit::VisitOfStages;
use super::{Stage, StageKind};
use crate::checkpointing::Checkpointing;
use crate::clock::Clock;
use crate::threads::{NoThread, Running, StageLoop, WhenBroken};

/// Makes the preparer of one input stage.
type MakePrepare<R> = Box<dyn FnMut() -> Box<dyn Prepare<R>>>;

/// Who writes the image.
enum Images {
    /// This process; so many bytes of records are behind it.
    Here(Checkpointing, u64),
    /// Another one.
    Apart(CheckpointsApart),
}

impl Images {
    /// How many stages it takes here.
    fn stages(&self) -> usize {
        match self {
            Self::Here(checkpointing, _) => checkpointing.parts.len(),
            Self::Apart(_) => 1,
        }
    }
}

/// What a pipeline is made of.
pub struct Builder<E: Executor> {
    executor: E,
    options: Options,
    log: Option<Box<dyn GroupLog>>,
    checkpoints: Option<Images>,
    archiving: Option<Archiving>,
    prepare: Option<MakePrepare<E::Request>>,
    request_bytes: fn(&E::Request) -> usize,
    observer: Option<FlushObserver>,
}

impl<E: Executor> Builder<E> {
    /// A pipeline around `executor`, without a log: what it answers is volatile.
    pub fn new(executor: E, options: Options) -> Self {
        Self {
            executor,
            options,
            log: None,
            checkpoints: None,
            archiving: None,
            prepare: None,
            request_bytes: |_| 0,
            observer: None,
        }
    }

    /// With a log.
    #[must_use]
    pub fn log(mut self, log: Box<dyn GroupLog>) -> Self {
        self.log = Some(log);
        self
    }

    /// With checkpoints of the log's database; `behind_bytes` of records were replayed behind the
    /// image. Without a log nothing happens.
    #[must_use]
    pub fn checkpoints(mut self, checkpointing: Checkpointing, behind_bytes: u64) -> Self {
        self.checkpoints = Some(Images::Here(checkpointing, behind_bytes));
        self
    }

    /// With checkpoints that another process writes. Without a log nothing happens.
    #[must_use]
    pub fn checkpoints_apart(mut self, apart: CheckpointsApart) -> Self {
        self.checkpoints = Some(Images::Apart(apart));
        self
    }

    /// With an archive of the log. Without a log nothing happens.
    #[must_use]
    pub fn archive(mut self, archiving: Archiving) -> Self {
        self.archiving = Some(archiving);
        self
    }

    /// With input stages, each with a preparer of its own.
    #[must_use]
    pub fn prepare<P: Prepare<E::Request> + 'static>(
        mut self,
        mut make: impl FnMut() -> P + 'static,
    ) -> Self {
        self.prepare = Some(Box::new(move || Box::new(make())));
        self
    }

    /// With requests that hold this many bytes outside themselves; the queues' bounds count them.
    #[must_use]
    pub fn request_bytes(mut self, bytes: fn(&E::Request) -> usize) -> Self {
        self.request_bytes = bytes;
        self
    }

    /// With somebody who is told of every flush, on the logging stage's thread.
    #[must_use]
    pub fn on_flush(mut self, observer: FlushObserver) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Wires the stages and hands them out in the order of the path. The caller steps them until
    /// each has ended, and then retires it.
    pub fn assemble(mut self, clock: Arc<dyn Clock>) -> (Pipeline<E>, Vec<Box<dyn Stage>>) {
        self.options.spread = Spread::One;
        let (pipeline, stages, _) = self.wire(&clock);
        (pipeline, stages.into_iter().map(|(_, stage)| stage).collect())
    }

    /// Starts the pipeline.
    ///
    /// # Errors
    /// When the system has too few threads; nothing was started then.
    pub fn start(self, clock: Arc<dyn Clock>) -> Result<Pipeline<E>, NoThread> {
        let Options { spread, spin_ns, .. } = self.options;
        let (mut pipeline, stages, signals) = self.wire(&clock);
        let broken = pipeline.when_broken();
        let mut by_thread: Vec<Vec<Box<dyn Stage>>> = signals.iter().map(|_| Vec::new()).collect();
        for (thread, stage) in stages {
            by_thread[thread].push(stage);
        }
        let mut ready = Vec::new();
        for (thread, (stages, signal)) in by_thread.into_iter().zip(signals).enumerate() {
            if stages.is_empty() {
                continue;
            }
            let name = format!("tombolo-{}", stages[0].kind());
            let stages = StageLoop::new(stages, signal, clock.clone(), spin_ns, broken.clone());
            let stages = match pipeline.wires.visit.clone() {
                Some(visit) if thread == BEFORE_LOG => stages.may_visit(visit),
                Some(visit) if thread == LOG => stages.hosts(visit),
                _ => stages,
            };
            if spread == Spread::Callers && thread == CALLERS_OWN {
                pipeline.own = Mutex::new(Some(stages));
            } else {
                let (thread, give) = Running::start_for(&name, StageLoop::run)?;
                ready.push((thread, give, stages));
            }
        }
        for (thread, give, stages) in ready {
            assert!(give.send(stages).is_ok(), "a thread waits for its stages");
            pipeline.threads.push(thread);
        }
        Ok(pipeline)
    }

    fn wire(mut self, clock: &Arc<dyn Clock>) -> Wired<E> {
        let Options { input_stages, output_stages, spread, .. } = self.options;
        let inputs = if self.prepare.is_some() { input_stages.max(1) } else { 0 };
        let checkpoints = self.checkpoints.take().filter(|_| self.log.is_some());
        let parts = checkpoints.as_ref().map_or(0, Images::stages);
        let archiving = self.archiving.take().filter(|_| self.log.is_some());
        let outputs = output_stages.max(1);
        let places = Places::new(spread, (inputs, outputs), parts, archiving.iter().count());
        let none = Room { bytes: 0, is_all: true, more_is_wanted: false };
        let room = self.log.as_mut().map_or(none, |log| unreserved(&mut **log));
        let mut wires = Wires::<E>::new(self.options.queue_max, room, &places);
        if spread == Spread::OneOrTwo && self.log.is_some() {
            let signal = places.signals[BEFORE_LOG].clone();
            wires.visit = Some(Arc::new(VisitOfStages::new(signal)));
        }
        let mut stages: Vec<(usize, Box<dyn Stage>)> = Vec::new();
        if let Some(make) = &mut self.prepare {
            stages.extend(wires.inputs(make, inputs, self.request_bytes, &places));
        }
        let cut = Cut {
            batch_transactions_max: self.options.batch_transactions_max.max(1),
            locate_ahead: self.options.locate_ahead,
            slice_ns_max: self.options.slice_ns_max,
        };
        let place = places.of(StageKind::Execution, 0);
        match self.log {
            None => stages.push((place, wires.execution::<false>(self.executor, None, cut, clock))),
            Some(log) => {
                let to_log = ToLog::new(
                    wires.log_queue.clone(),
                    wires.buffers.clone(),
                    log.group_bytes_max(),
                    log.cost(),
                );
                let execution = wires.execution::<true>(self.executor, Some(to_log), cut, clock);
                stages.push((place, execution));
                let (options, observer) = (self.options, self.observer);
                let log = LogOfPipeline { log, options, observer, checkpoints, archiving };
                stages.extend(wires.log_stages(log, &places, clock));
            }
        }
        for (n, queue) in wires.outputs.iter().enumerate() {
            let output = Output::new(queue.clone(), wires.shared.clone(), wires.parcels.clone());
            stages.push((places.of(StageKind::Output, n), Box::new(output)));
        }
        let pipeline = Pipeline {
            wires,
            request_bytes: self.request_bytes,
            threads: Vec::new(),
            own: Mutex::new(None),
        };
        (pipeline, stages, places.signals)
    }
}

/// A pipeline that does not run yet, its stages with their threads, the threads' signals.
type Wired<E> = (Pipeline<E>, Vec<(usize, Box<dyn Stage>)>, Vec<Arc<Signal>>);

/// What the stages behind execution are made of.
struct LogOfPipeline {
    log: Box<dyn GroupLog>,
    options: Options,
    observer: Option<FlushObserver>,
    checkpoints: Option<Images>,
    archiving: Option<Archiving>,
}

/// What connects the stages.
struct Wires<E: Executor> {
    shared: Arc<Shared<E::Answer>>,
    /// Where callers put calls in: before the input stages, or before execution.
    intakes: Vec<Arc<Queue<Call<E::Request>>>>,
    input_queue: Arc<Queue<Call<E::Request>>>,
    log_queue: Arc<Queue<LogBatch<E::Answer, E::Records>>>,
    /// Where long work is put in, beside calls.
    long_queue: Arc<Queue<LongCall<E>>>,
    overruns: Overruns,
    outputs: Vec<Arc<Queue<Parcel<E::Answer>>>>,
    /// Where the stages before the log lie that may visit its thread.
    visit: Option<Arc<VisitOfStages>>,
    parcels: Arc<Pool<Parcel<E::Answer>>>,
    buffers: Arc<Pool<E::Records>>,
    checkpoint: Option<Arc<checkpoint::Ways<E::Records>>>,
    archive: Option<Arc<ArchiveCourse>>,
    retired_executor: Arc<Mutex<Option<E>>>,
    retired_log: Arc<Mutex<Option<Box<dyn GroupLog>>>>,
}

impl<E: Executor> Wires<E> {
    fn new(bound: Load, room: Room, places: &Places) -> Self {
        use StageKind::{Execution, Input, Logging, Output, Room};
        let input_queue = Queue::new(bound, places.signal(Execution, 0), places.signals(&[Input]));
        let input_queue = Arc::new(input_queue);
        let intake = |n| Arc::new(Queue::new(bound, places.signal(Input, n), Vec::new()));
        let intakes = match places.inputs {
            0 => vec![input_queue.clone()],
            inputs => (0..inputs).map(intake).collect(),
        };
        let producers = places.signals(&[Input, Execution, Logging]);
        let output = |n| Arc::new(Queue::new(bound, places.signal(Output, n), producers.clone()));
        Self {
            shared: Arc::new(Shared::new(room)),
            intakes,
            input_queue,
            log_queue: Arc::new(Queue::new(
                bound,
                places.signal(Logging, 0),
                places.signals(&[Execution, Room]),
            )),
            long_queue: Arc::new(Queue::new(
                Load { transactions: LONG_WORKS_MAX, bytes: 0 },
                places.signal(Execution, 0),
                Vec::new(),
            )),
            overruns: Overruns::default(),
            outputs: (0..places.outputs).map(output).collect(),
            visit: None,
            parcels: Arc::new(Pool::new()),
            buffers: Arc::new(Pool::new()),
            checkpoint: None,
            archive: None,
            retired_executor: Arc::default(),
            retired_log: Arc::default(),
        }
    }

    /// The stages that the log has, each with its thread.
    fn log_stages(
        &mut self,
        of: LogOfPipeline,
        places: &Places,
        clock: &Arc<dyn Clock>,
    ) -> Vec<(usize, Box<dyn Stage>)> {
        let LogOfPipeline { mut log, options, observer, checkpoints, archiving } = of;
        if let Some(position) = log.position() {
            self.shared.set_durable_group(position.group);
        }
        let mut stages: Vec<(usize, Box<dyn Stage>)> = Vec::new();
        let maker = log.room_maker();
        let room_place = places.of(StageKind::Room, 0);
        let to_checkpoint = checkpoints.map(|images| {
            let part = |n| places.signal(StageKind::Checkpoint, n);
            let of = checkpoint::Shares {
                shared: &self.shared,
                buffers: &self.buffers,
                clock,
                policy: options.checkpoint,
                preparing: (0..places.parts).map(part).collect(),
                writing: (places.parts..2 * places.parts).map(part).collect(),
                logging: places.signal(StageKind::Logging, 0),
            };
            let reader = || log.reader();
            let end = checkpoint::LogEnd::of(&*log, &reader);
            let (to_checkpoint, parts) = match images {
                Images::Here(checkpointing, behind_bytes) => {
                    checkpoint::wire_boxed(checkpointing, behind_bytes, &end, &of)
                }
                Images::Apart(apart) => checkpoint::wire_apart(apart, end.position, &of),
            };
            let place = |n| places.of(StageKind::Checkpoint, n);
            let parts = parts.into_iter().enumerate();
            stages.extend(parts.map(|(n, part)| (place(n), part)));
            self.checkpoint = Some(Arc::new(to_checkpoint.ways()));
            to_checkpoint
        });
        if let Some(archiving) = archiving {
            let (place, archived) =
                (places.of(StageKind::Archive, 0), archiving.archiver.position().group);
            log.keep_from(archived + 1);
            let course = Arc::new(ArchiveCourse::new(archived, places.signals[place].clone()));
            self.archive = Some(course.clone());
            let logging = places.signal(StageKind::Logging, 0);
            let stage = ArchiveStage::new(archiving, course, self.shared.clone(), logging);
            stages.push((place, Box::new(stage)));
        }
        let logging = Logging::new(Parts {
            queue: self.log_queue.clone(),
            log,
            retired: self.retired_log.clone(),
            outbox: self.outbox(),
            buffers: self.buffers.clone(),
            shared: self.shared.clone(),
            clock: clock.clone(),
            policy: options.group,
            observer,
            visit: self.visit.clone(),
            room_stage: maker.is_some().then(|| places.signals[room_place].clone()),
            to_checkpoint,
            to_archive: self.archive.clone(),
        });
        stages.insert(0, (places.of(StageKind::Logging, 0), Box::new(logging)));
        if let Some(maker) = maker {
            let (queue, shared) = (self.log_queue.clone(), self.shared.clone());
            stages.push((room_place, Box::new(MakingRoom { maker, queue, shared })));
        }
        stages
    }

    /// The input stages, each on its thread.
    fn inputs(
        &self,
        make: &mut MakePrepare<E::Request>,
        inputs: usize,
        request_bytes: fn(&E::Request) -> usize,
        places: &Places,
    ) -> Vec<(usize, Box<dyn Stage>)> {
        let inputs_left = Arc::new(AtomicU64::new(inputs as u64));
        let intakes = self.intakes.iter().enumerate().take(inputs);
        let stages = intakes.map(|(n, intake)| {
            let input: Box<dyn Stage> = Box::new(Input {
                intake: intake.clone(),
                input_queue: self.input_queue.clone(),
                prepare: make(),
                request_bytes,
                outbox: self.outbox(),
                shared: self.shared.clone(),
                inputs_left: inputs_left.clone(),
                ready: Vec::new(),
            });
            (places.of(StageKind::Input, n), input)
        });
        stages.collect()
    }

    fn outbox(&self) -> Outbox<E::Answer> {
        Outbox::new(self.outputs.clone(), self.parcels.clone())
    }

    fn execution<const LOGGED: bool>(
        &self,
        executor: E,
        to_log: Option<ToLog<E::Answer, E::Records>>,
        cut: Cut,
        clock: &Arc<dyn Clock>,
    ) -> Box<dyn Stage> {
        let slice_ns_max = cut.slice_ns_max;
        let long = LongWorks::new(
            self.long_queue.clone(),
            clock.clone(),
            slice_ns_max,
            self.shared.clone(),
        );
        Box::new(Execution::<E, LOGGED>::new(execution::Parts {
            executor,
            input: self.input_queue.clone(),
            log: to_log,
            outbox: self.outbox(),
            shared: self.shared.clone(),
            cut,
            long,
            watch: Watch::new(slice_ns_max, self.overruns.clone()),
            clock: clock.clone(),
            retired: self.retired_executor.clone(),
        }))
    }
}

/// A pipeline that runs.
pub struct Pipeline<E: Executor> {
    wires: Wires<E>,
    request_bytes: fn(&E::Request) -> usize,
    threads: Vec<Running>,
    /// The stages that callers step, until somebody takes them.
    own: Mutex<Option<StageLoop>>,
}

/// What is left of a pipeline.
pub struct Closed<E: Executor> {
    /// The executor; gone if its stage broke down.
    pub executor: Option<E>,
    /// The log, if there was one; gone if its stage broke down.
    pub log: Option<Box<dyn GroupLog>>,
    /// Why answers were kept back, if they were.
    pub poison: Option<Arc<str>>,
    /// Why no checkpoint was written any more, if so: the next process replays more of the log.
    pub checkpoint_failure: Option<Arc<str>>,
    /// What was counted.
    pub statistics: Statistics,
}

impl<E: Executor> Pipeline<E> {
    /// Registers a caller whose replies go to `sink`.
    pub fn register(&self, sink: Arc<dyn Sink<E::Answer>>) -> Submitter<E::Request, E::Answer> {
        let id = self.wires.shared.callers.register(sink);
        Submitter {
            id,
            intake: self.wires.intakes[id.slot as usize % self.wires.intakes.len()].clone(),
            shared: self.wires.shared.clone(),
            request_bytes: self.request_bytes,
        }
    }

    /// A caller that fetches its replies, with at most `in_flight_max` calls under way.
    pub fn caller(&self, in_flight_max: usize) -> Caller<E::Request, E::Answer>
    where
        E::Answer: 'static,
    {
        let mailbox = Arc::new(Mailbox::default());
        Caller::new(self.register(mailbox.clone()), mailbox, in_flight_max)
    }

    /// Where long work is put in: reads that take longer than a transaction may (`long.rs`).
    pub fn long(&self) -> LongIntake<E> {
        let (queue, shared) = (self.wires.long_queue.clone(), self.wires.shared.clone());
        LongIntake { queue, shared }
    }

    /// The requests that were seen to hold the execution thread for longer than `slice_us_max`, by
    /// name.
    pub fn overruns(&self) -> Vec<Overrun> {
        self.wires.overruns.lock().clone()
    }

    /// The stages that run on the callers' own thread, once, where the settings say
    /// `callers`: whoever takes them calls [`StageLoop::turn`] between submitting and fetching, and
    /// after [`Pipeline::shut`] until they have ended.
    pub fn own_stages(&self) -> Option<StageLoop> {
        self.own.lock().take()
    }

    /// Why nothing is acknowledged any more, if so.
    pub fn poison(&self) -> Option<Arc<str>> {
        self.wires.shared.poison().cloned()
    }

    /// Asks for a checkpoint that holds all that was durable before this call.
    pub fn checkpoint(&self) -> CheckpointHandle {
        CheckpointHandle::ask(self.course())
    }

    /// What waits for the checkpoint that is under way, and lets no other begin. It may wait long, so
    /// it is a call of its own.
    pub fn holding(&self) -> impl FnOnce() -> Result<CheckpointHold, CheckpointRefusal> + use<E> {
        let course = self.course().cloned();
        move || CheckpointHold::new(course.as_ref())
    }

    /// Asks that everything that was answered as durable before this call be archived soon.
    pub fn archive(&self) -> ArchiveHandle {
        ArchiveHandle::ask(self.wires.archive.as_ref(), self.durable_group())
    }

    /// What the log's archive holds, if there is one.
    pub fn archive_statistics(&self) -> Option<ArchiveStatistics> {
        self.wires.archive.as_ref().map(|course| course.statistics())
    }

    /// The newest group of the log that is durable; 0 without a log. All that was answered as durable
    /// before this call is in it or in an older one.
    pub fn durable_group(&self) -> GroupNumber {
        self.wires.shared.durable_group()
    }

    /// Why no checkpoint is written, if so: none is any more, or the process that writes them is away
    /// and will be started again. Transactions go on; the log grows.
    pub fn checkpoint_failure(&self) -> Option<Arc<str>> {
        self.course().and_then(|course| course.trouble())
    }

    /// Whether a checkpoint is being written in this moment: one load, for those who ask often.
    pub fn is_writing_checkpoint(&self) -> bool {
        self.course().is_some_and(|course| course.is_writing())
    }

    fn course(&self) -> Option<&Arc<Course>> {
        self.wires.checkpoint.as_ref().map(|ways| &ways.course)
    }

    /// What was counted so far.
    pub fn statistics(&self) -> Statistics {
        let mut statistics = Statistics::of(&self.wires.shared.counters);
        let sum = |a: Load, b: Load| Load {
            transactions: a.transactions + b.transactions,
            bytes: a.bytes + b.bytes,
        };
        statistics.input_queue = self.wires.input_queue.load();
        if self.wires.intakes.len() > 1
            || !Arc::ptr_eq(&self.wires.intakes[0], &self.wires.input_queue)
        {
            let intakes = self.wires.intakes.iter().map(|queue| queue.load());
            statistics.input_queue = intakes.fold(statistics.input_queue, sum);
        }
        statistics.log_queue = self.wires.log_queue.load();
        let visiting_ns = self.wires.visit.as_ref().map(|visit| visit.worked_ns());
        statistics.busy.visiting_ns = visiting_ns.unwrap_or_default();
        statistics.checkpoint = self.course().map(|course| course.statistics()).unwrap_or_default();
        let outputs = self.wires.outputs.iter().map(|queue| queue.load());
        statistics.output_queue = outputs.fold(Load::default(), sum);
        statistics
    }

    /// Lets nothing more in. What is under way is answered.
    pub fn shut(&self) {
        self.wires.intakes.iter().for_each(|intake| intake.close());
        self.wires.long_queue.close();
    }

    /// Lets nothing more in, waits until everything is answered and the log is sealed, and gives
    /// back what the pipeline was made of. Where stages were taken with [`Pipeline::own_stages`]
    /// or [`Builder::assemble`], they must have ended before.
    pub fn close(mut self) -> Closed<E> {
        self.finish();
        Closed {
            executor: self.wires.retired_executor.lock().take(),
            log: self.wires.retired_log.lock().take(),
            poison: self.poison(),
            checkpoint_failure: self.checkpoint_failure(),
            statistics: self.statistics(),
        }
    }

    fn finish(&mut self) {
        self.shut();
        if let Some(own) = self.own_stages() {
            own.run();
        }
        self.threads.drain(..).for_each(Running::join);
    }

    /// What is done when a stage panics: nobody waits for it.
    fn when_broken(&self) -> WhenBroken {
        let shared = self.wires.shared.clone();
        let mut intakes = self.wires.intakes.clone();
        intakes.push(self.wires.input_queue.clone());
        let (log_queue, outputs) = (self.wires.log_queue.clone(), self.wires.outputs.clone());
        let long_queue = self.wires.long_queue.clone();
        let checkpoint = self.wires.checkpoint.clone();
        let archive = self.wires.archive.clone();
        Arc::new(move |kind, message| {
            if let (StageKind::Archive, Some(course)) = (kind, &archive) {
                // Nothing of a transaction depends on it; the log is kept.
                return course.broken(&format!("the {kind} stage panicked: {message}"));
            }
            if let (StageKind::Checkpoint, Some(ways)) = (kind, &checkpoint) {
                // Nothing of a transaction depends on it.
                return ways.course.fail(&format!("the {kind} stage panicked: {message}"));
            }
            let reason = shared.set_poison(&format!("the {kind} stage panicked: {message}"));
            intakes.iter().for_each(|intake| intake.close());
            long_queue.close();
            log_queue.close();
            if let Some(course) = &archive {
                course.close();
            }
            if let Some(ways) = &checkpoint {
                ways.close_broken(&reason);
            }
            outputs.iter().for_each(|output| output.close());
            shared.callers.broken(&reason);
        })
    }
}

impl<E: Executor> Drop for Pipeline<E> {
    fn drop(&mut self) {
        self.finish();
    }
}
