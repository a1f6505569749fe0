//! The connections between the stages of a pipeline, and the stages at its ends.
//!
//! Not here: on which thread each of them runs (`policy/thread_layout.rs`). Invariant: queues and signals are
//! wired once, before any stage runs.

use std::sync::Arc;

use tombolo_storage::sync::{AtomicU64, Mutex};

use crate::checkpointing::Checkpointing;
use crate::clock::Clock;
use crate::pipeline::checkpoint;
use crate::pipeline::checkpoint::CheckpointControl;
use crate::pipeline::log::common::InCommon;
use crate::pipeline::log::{GroupLog, Room};
use crate::pipeline::policy::{Options, Overruns, ThreadLayout, Watch};
use crate::pipeline::remote_checkpoint;
use crate::pipeline::remote_checkpoint::RemoteCheckpoints;
use crate::pipeline::stage::{Stage, StageKind};
use crate::pipeline::stages::copying::Desk;
use crate::pipeline::stages::execution::log_sender::LogSender;
use crate::pipeline::stages::execution::{self, Cut, Execution};
use crate::pipeline::stages::logging::{FlushObserver, Logging, Parts};
use crate::pipeline::stages::{
    ArchiveStage, ArchiveState, Archiving, Executor, Input, LONG_WORKS_MAX, LogBatch, LongCall,
    LongWorks, MakingRoom, Outbox, Parcel, Prepare,
};
use crate::pipeline::state::Shared;
use crate::pipeline::transport::{Call, Load, Pool, Queue, Signal};

/// Makes the preparer of one input stage.
pub(crate) type MakePrepare<R> = Box<dyn FnMut() -> Box<dyn Prepare<R>>>;

/// Where the image is written.
pub(crate) enum Images {
    /// This process; so many bytes of records are behind it.
    Here(Box<Checkpointing>, u64),
    /// Another one.
    Remote(RemoteCheckpoints),
}

impl Images {
    /// How many stages it takes here.
    pub(crate) fn stages(&self) -> usize {
        match self {
            Self::Here(checkpointing, _) => checkpointing.parts.len(),
            Self::Remote(_) => 1,
        }
    }
}

/// A stage with the signal that wakes its thread.
pub type Signalled = (Box<dyn Stage>, Arc<Signal>);

/// The logging stage, and the stages next to it with their threads.
pub(crate) type LogStages<E> =
    (Logging<<E as Executor>::Answer, <E as Executor>::Records>, Vec<(usize, Box<dyn Stage>)>);

/// What the stages behind execution are made of.
pub(crate) struct LogOfPipeline {
    pub(crate) log: Box<dyn GroupLog>,
    pub(crate) options: Options,
    pub(crate) observer: Option<FlushObserver>,
    pub(crate) checkpoints: Option<Images>,
    pub(crate) archiving: Option<Archiving>,
    pub(crate) in_common: Option<InCommon>,
}

/// What connects the stages.
pub(crate) struct Wires<E: Executor> {
    pub(crate) shared: Arc<Shared<E::Answer>>,
    /// Where callers put calls in: before the input stages, or before execution.
    pub(crate) intakes: Vec<Arc<Queue<Call<E::Request>>>>,
    pub(crate) input_queue: Arc<Queue<Call<E::Request>>>,
    pub(crate) log_queue: Arc<Queue<LogBatch<E::Answer, E::Records>>>,
    /// Where long work is put in, next to calls.
    pub(crate) long_queue: Arc<Queue<LongCall<E>>>,
    pub(crate) overruns: Overruns,
    pub(crate) outputs: Vec<Arc<Queue<Parcel<E::Answer>>>>,
    pub(crate) parcels: Arc<Pool<Parcel<E::Answer>>>,
    pub(crate) buffers: Arc<Pool<E::Records>>,
    pub(crate) checkpoint: Option<Arc<CheckpointControl<E::Records>>>,
    pub(crate) archive: Option<Arc<ArchiveState>>,
    pub(crate) retired_executor: Arc<Mutex<Option<E>>>,
    pub(crate) retired_log: Arc<Mutex<Option<Box<dyn GroupLog>>>>,
}

impl<E: Executor> Wires<E> {
    pub(crate) fn new(bound: Load, room: Room, layout: &ThreadLayout) -> Self {
        use StageKind::{Execution, Input, Logging, Output, Room};
        let input_queue = Queue::new(bound, layout.signal(Execution, 0), layout.signals(&[Input]));
        let input_queue = Arc::new(input_queue);
        let intake = |n| Arc::new(Queue::new(bound, layout.signal(Input, n), Vec::new()));
        let intakes = match layout.inputs {
            0 => vec![input_queue.clone()],
            inputs => (0..inputs).map(intake).collect(),
        };
        let producers = layout.signals(&[Input, Execution, Logging]);
        let output = |n| Arc::new(Queue::new(bound, layout.signal(Output, n), producers.clone()));
        Self {
            shared: Arc::new(Shared::new(room)),
            intakes,
            input_queue,
            log_queue: Arc::new(Queue::new(
                bound,
                layout.signal(Logging, 0),
                layout.signals(&[Execution, Room]),
            )),
            long_queue: Arc::new(Queue::new(
                Load { transactions: LONG_WORKS_MAX, bytes: 0 },
                layout.signal(Execution, 0),
                Vec::new(),
            )),
            overruns: Overruns::default(),
            outputs: (0..layout.outputs).map(output).collect(),
            parcels: Arc::new(Pool::new()),
            buffers: Arc::new(Pool::new()),
            checkpoint: None,
            archive: None,
            retired_executor: Arc::default(),
            retired_log: Arc::default(),
        }
    }

    /// The logging stage, and those next to it, each with its thread.
    pub(crate) fn log_stages(
        &mut self,
        of: LogOfPipeline,
        layout: &ThreadLayout,
        clock: &Arc<dyn Clock>,
    ) -> LogStages<E> {
        let LogOfPipeline { mut log, options, observer, checkpoints, archiving, in_common } = of;
        if let Some(position) = log.position() {
            self.shared.set_flushed_group(position.group);
            self.shared.set_durable_group(position.group);
        }
        let mut stages: Vec<(usize, Box<dyn Stage>)> = Vec::new();
        let maker = log.room_maker();
        let room_place = layout.of(StageKind::Room, 0);
        let to_checkpoint = checkpoints.map(|images| {
            let part = |n| layout.signal(StageKind::Checkpoint, n);
            let of = checkpoint::Shares {
                shared: &self.shared,
                buffers: &self.buffers,
                clock,
                policy: options.checkpoint,
                preparing: (0..layout.parts).map(part).collect(),
                writing: (layout.parts..2 * layout.parts).map(part).collect(),
                logging: layout.signal(StageKind::Logging, 0),
                rows: Some(Arc::new(Desk {
                    queue: self.long_queue.clone(),
                    retired: self.retired_executor.clone(),
                })),
            };
            let reader = || log.reader();
            let end = checkpoint::LogEnd { position: log.position(), reader: &reader };
            let (to_checkpoint, parts) = match images {
                Images::Here(checkpointing, behind_bytes) => {
                    checkpoint::wire(*checkpointing, behind_bytes, &end, &of)
                }
                Images::Remote(remote) => remote_checkpoint::wire(remote, end.position, &of),
            };
            let place = |n| layout.of(StageKind::Checkpoint, n);
            let parts = parts.into_iter().enumerate();
            stages.extend(parts.map(|(n, part)| (place(n), part)));
            self.checkpoint = Some(Arc::new(to_checkpoint.control()));
            to_checkpoint
        });
        if let Some(archiving) = archiving {
            let (place, archived) =
                (layout.of(StageKind::Archive, 0), archiving.archiver.position().group);
            log.keep_from(archived + 1);
            let state = Arc::new(ArchiveState::new(archived, layout.signals[place].clone()));
            self.archive = Some(state.clone());
            let logging = layout.signal(StageKind::Logging, 0);
            let stage = ArchiveStage::new(archiving, state, self.shared.clone(), logging);
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
            room_stage: maker.is_some().then(|| layout.signals[room_place].clone()),
            to_checkpoint,
            to_archive: self.archive.clone(),
            in_common,
        });
        if let Some(maker) = maker {
            let (queue, shared) = (self.log_queue.clone(), self.shared.clone());
            stages.push((room_place, Box::new(MakingRoom { maker, queue, shared })));
        }
        (logging, stages)
    }

    /// The input stages, each on its thread.
    pub(crate) fn inputs(
        &self,
        make: &mut MakePrepare<E::Request>,
        inputs: usize,
        request_bytes: fn(&E::Request) -> usize,
        layout: &ThreadLayout,
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
            (layout.of(StageKind::Input, n), input)
        });
        stages.collect()
    }

    pub(crate) fn outbox(&self) -> Outbox<E::Answer> {
        Outbox::new(self.outputs.clone(), self.parcels.clone(), self.shared.clone())
    }

    pub(crate) fn execution(
        &self,
        executor: E,
        to_log: Option<LogSender<E::Answer, E::Records>>,
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
