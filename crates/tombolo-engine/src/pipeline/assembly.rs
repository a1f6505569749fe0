//! The pipeline as a whole: wired and started.
//!
//! [`Builder::start`] puts the stages on threads by way of the `threads` door;
//! [`Builder::assemble`] hands them out instead, for a program that steps them itself (the simulator).
//!
//! Not here: what stages do, what a running pipeline is asked (`running.rs`). Invariant: queues and
//! signals are wired once, before any stage runs.

use std::sync::Arc;

use tombolo_storage::sync::{AtomicU64, Mutex};

use super::archive::{ArchiveCourse, ArchiveStage, Archiving};
use super::call::Call;
use super::carry::{Around, Seated};
use super::checkpoint::{self, CheckpointsApart};
use super::execution::{self, Cut, Execution};
use super::executor::Executor;
use super::input::{Input, Prepare};
use super::log::{GroupLog, Room, unreserved};
use super::logging::{FlushObserver, LogBatch, Logging, Parts};
use super::long::{LONG_WORKS_MAX, LongCall, LongWorks};
use super::options::{Options, Spread};
use super::output::{Outbox, Output, Parcel};
use super::overrun::{Overruns, Watch};
use super::places::{CALLERS_OWN, Places};
use super::pool::Pool;
use super::queue::{Load, Queue};
use super::room::MakingRoom;
use super::running::Pipeline;
use super::shared::Shared;
use super::signal::Signal;
use super::to_log::ToLog;
use super::{Stage, StageKind};
use crate::checkpointing::Checkpointing;
use crate::clock::Clock;
use crate::threads::{NoThread, Running, StageLoop};

/// Makes the preparer of one input stage.
type MakePrepare<R> = Box<dyn FnMut() -> Box<dyn Prepare<R>>>;

/// Where the image is written.
enum Images {
    /// This process; so many bytes of records are behind it.
    Here(Box<Checkpointing>, u64),
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

    /// With checkpoints of the log's database; `behind_bytes` of its files were replayed
    /// behind the image ([`crate::recovery::Recovery::behind_bytes`]). Without a log nothing happens.
    #[must_use]
    pub fn checkpoints(mut self, checkpointing: Checkpointing, behind_bytes: u64) -> Self {
        self.checkpoints = Some(Images::Here(Box::new(checkpointing), behind_bytes));
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

    /// With an observer that is called for every flush, on the logging stage's thread.
    #[must_use]
    pub fn on_flush(mut self, observer: FlushObserver) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Wires the stages and hands them out in the order of the path. The caller steps them until
    /// each has ended, and then retires it.
    pub fn assemble(mut self, clock: Arc<dyn Clock>) -> (Pipeline<E>, Vec<Box<dyn Stage>>) {
        if self.options.spread != Spread::Carried {
            self.options.spread = Spread::One;
        }
        let (pipeline, stages) = self.assemble_signalled(clock);
        (pipeline, stages.into_iter().map(|(stage, _)| stage).collect())
    }

    /// The same, each stage with the signal that wakes its thread, if it had one: the caller announces
    /// before it steps a stage, and steps an idle one again when its signal is awake or its time has come.
    pub fn assemble_signalled(self, clock: Arc<dyn Clock>) -> (Pipeline<E>, Vec<Signalled>) {
        let (pipeline, stages, signals) = self.wire(&clock);
        let signalled = |(thread, stage): (usize, _)| (stage, signals[thread].clone());
        (pipeline, stages.into_iter().map(signalled).collect())
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
        let Options { input_stages, output_stages, .. } = self.options;
        let inputs = if self.prepare.is_some() { input_stages.max(1) } else { 0 };
        let (spread, outputs) = match self.options.spread {
            // A call that an input stage makes ready goes through it.
            Spread::Carried if inputs > 0 => (Spread::Two, output_stages.max(1)),
            Spread::Carried => (Spread::Carried, 0),
            spread => (spread, output_stages.max(1)),
        };
        let checkpoints = self.checkpoints.take().filter(|_| self.log.is_some());
        let parts = checkpoints.as_ref().map_or(0, Images::stages);
        let archiving = self.archiving.take().filter(|_| self.log.is_some());
        let places = Places::new(spread, (inputs, outputs), parts, archiving.iter().count());
        let none = Room { bytes: 0, is_all: true, more_is_wanted: false };
        let room = self.log.as_mut().map_or(none, |log| unreserved(&mut **log, None));
        let mut wires = Wires::<E>::new(self.options.queue_max, room, &places);
        let mut stages: Vec<(usize, Box<dyn Stage>)> = Vec::new();
        if let Some(make) = &mut self.prepare {
            stages.extend(wires.inputs(make, inputs, self.request_bytes, &places));
        }
        let to_log = self.log.as_ref().map(|log| {
            let (queue, buffers) = (wires.log_queue.clone(), wires.buffers.clone());
            ToLog::new(queue, buffers, log.group_bytes_max(), log.cost())
        });
        let execution = wires.execution(self.executor, to_log, &self.options, clock);
        let (options, observer) = (self.options, self.observer);
        let logging = self.log.map(|log| {
            let log = LogOfPipeline { log, options, observer, checkpoints, archiving };
            wires.log_stages(log, &places, clock)
        });
        let (logging, beside) = logging.unzip();
        let carrier = if spread == Spread::Carried {
            let around = Around {
                shared: &wires.shared,
                clock,
                slice_ns_max: options.slice_ns_max,
                promised_ns_max: options.group.async_loss_ns_max / 2,
            };
            let signal = |kind| places.signal(kind, 0);
            let logging = logging.map(|logging| (logging, signal(StageKind::Logging)));
            let seats = around.put_in_seats((execution, signal(StageKind::Execution)), logging);
            let Seated { carrier, execution, log: logging } = seats;
            stages.push((places.of(StageKind::Execution, 0), execution));
            stages.extend(logging.map(|logging| (places.of(StageKind::Logging, 0), logging)));
            Some(carrier)
        } else {
            stages.push((places.of(StageKind::Execution, 0), Box::new(execution)));
            let logging = logging.map(|logging| Box::new(logging) as Box<dyn Stage>);
            stages.extend(logging.map(|logging| (places.of(StageKind::Logging, 0), logging)));
            None
        };
        stages.extend(beside.into_iter().flatten());
        for (n, queue) in wires.outputs.iter().enumerate() {
            let output = Output::new(queue.clone(), wires.shared.clone(), wires.parcels.clone());
            stages.push((places.of(StageKind::Output, n), Box::new(output)));
        }
        let pipeline = Pipeline {
            wires,
            request_bytes: self.request_bytes,
            carrier,
            threads: Vec::new(),
            own: Mutex::new(None),
        };
        if let Some(carrier) = &pipeline.carrier {
            carrier.set_broken(pipeline.when_broken());
        }
        (pipeline, stages, places.signals)
    }
}

/// A stage with the signal that wakes its thread.
pub type Signalled = (Box<dyn Stage>, Arc<Signal>);

/// A pipeline that does not run yet, its stages with their threads, the threads' signals.
type Wired<E> = (Pipeline<E>, Vec<(usize, Box<dyn Stage>)>, Vec<Arc<Signal>>);

/// The logging stage, and the stages next to it with their threads.
type LogStages<E> =
    (Logging<<E as Executor>::Answer, <E as Executor>::Records>, Vec<(usize, Box<dyn Stage>)>);

/// What the stages behind execution are made of.
struct LogOfPipeline {
    log: Box<dyn GroupLog>,
    options: Options,
    observer: Option<FlushObserver>,
    checkpoints: Option<Images>,
    archiving: Option<Archiving>,
}

/// What connects the stages.
pub(super) struct Wires<E: Executor> {
    pub(super) shared: Arc<Shared<E::Answer>>,
    /// Where callers put calls in: before the input stages, or before execution.
    pub(super) intakes: Vec<Arc<Queue<Call<E::Request>>>>,
    pub(super) input_queue: Arc<Queue<Call<E::Request>>>,
    pub(super) log_queue: Arc<Queue<LogBatch<E::Answer, E::Records>>>,
    /// Where long work is put in, next to calls.
    pub(super) long_queue: Arc<Queue<LongCall<E>>>,
    pub(super) overruns: Overruns,
    pub(super) outputs: Vec<Arc<Queue<Parcel<E::Answer>>>>,
    pub(super) parcels: Arc<Pool<Parcel<E::Answer>>>,
    pub(super) buffers: Arc<Pool<E::Records>>,
    pub(super) checkpoint: Option<Arc<checkpoint::Ways<E::Records>>>,
    pub(super) archive: Option<Arc<ArchiveCourse>>,
    pub(super) retired_executor: Arc<Mutex<Option<E>>>,
    pub(super) retired_log: Arc<Mutex<Option<Box<dyn GroupLog>>>>,
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
            parcels: Arc::new(Pool::new()),
            buffers: Arc::new(Pool::new()),
            checkpoint: None,
            archive: None,
            retired_executor: Arc::default(),
            retired_log: Arc::default(),
        }
    }

    /// The logging stage, and those next to it, each with its thread.
    fn log_stages(
        &mut self,
        of: LogOfPipeline,
        places: &Places,
        clock: &Arc<dyn Clock>,
    ) -> LogStages<E> {
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
                    checkpoint::wire(*checkpointing, behind_bytes, &end, &of)
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
            transactions_max: options.queue_max.transactions,
            observer,
            room_stage: maker.is_some().then(|| places.signals[room_place].clone()),
            to_checkpoint,
            to_archive: self.archive.clone(),
        });
        if let Some(maker) = maker {
            let (queue, shared) = (self.log_queue.clone(), self.shared.clone());
            stages.push((room_place, Box::new(MakingRoom { maker, queue, shared })));
        }
        (logging, stages)
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
        Outbox::new(self.outputs.clone(), self.parcels.clone(), self.shared.clone())
    }

    fn execution(
        &self,
        executor: E,
        to_log: Option<ToLog<E::Answer, E::Records>>,
        options: &Options,
        clock: &Arc<dyn Clock>,
    ) -> Execution<E> {
        let slice_ns_max = options.slice_ns_max;
        let long = LongWorks::new(
            self.long_queue.clone(),
            clock.clone(),
            slice_ns_max,
            self.shared.clone(),
        );
        Execution::new(execution::Parts {
            executor,
            input: self.input_queue.clone(),
            log: to_log,
            outbox: self.outbox(),
            shared: self.shared.clone(),
            cut: Cut {
                batch_transactions_max: options.batch_transactions_max.max(1),
                locate_ahead: options.locate_ahead,
            },
            long,
            watch: Watch::new(slice_ns_max, self.overruns.clone()),
            clock: clock.clone(),
            retired: self.retired_executor.clone(),
        })
    }
}
