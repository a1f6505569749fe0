//! The pipeline as a whole: wired and started.
//!
//! [`Builder::start`] puts the stages on threads by way of the `threads` door;
//! [`Builder::assemble`] hands them out instead, for a program that steps them itself (the simulator).
//!
//! Not here: what stages do, the calls of a running pipeline (`running.rs`). Invariant: queues and
//! signals are wired once, before any stage runs.

pub(crate) mod running;
pub(crate) mod statistics;
pub(crate) mod wires;

use std::sync::Arc;

use tombolo_storage::sync::Mutex;

use crate::checkpointing::Checkpointing;
use crate::clock::Clock;
use crate::pipeline::assembly::running::Pipeline;
use crate::pipeline::assembly::wires::{Images, LogOfPipeline, MakePrepare, Signalled, Wires};
use crate::pipeline::callers::carrying::seated::{Around, Seated};
use crate::pipeline::log::common::InCommon;
use crate::pipeline::log::{GroupLog, Room, unreserved};
use crate::pipeline::policy::{CALLERS_OWN, Options, Spread, ThreadLayout};
use crate::pipeline::remote_checkpoint::RemoteCheckpoints;
use crate::pipeline::stage::{Stage, StageKind};
use crate::pipeline::stage_loop::StageLoop;
use crate::pipeline::stages::execution::log_sender::LogSender;
use crate::pipeline::stages::{Archiving, Executor, FlushObserver, Output, Prepare};
use crate::pipeline::transport::Signal;
use crate::threads::{NoThread, Running};

/// What a pipeline is made of.
pub struct Builder<E: Executor> {
    executor: E,
    options: Options,
    log: Option<Box<dyn GroupLog>>,
    checkpoints: Option<Images>,
    archiving: Option<Archiving>,
    in_common: Option<InCommon>,
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
            in_common: None,
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
    pub fn remote_checkpoints(mut self, remote: RemoteCheckpoints) -> Self {
        self.checkpoints = Some(Images::Remote(remote));
        self
    }

    /// With an archive of the log. Without a log nothing happens.
    #[must_use]
    pub fn archive(mut self, archiving: Archiving) -> Self {
        self.archiving = Some(archiving);
        self
    }

    /// With a log that becomes durable together with those of other pipelines. Without a log nothing happens.
    #[must_use]
    pub fn in_common(mut self, in_common: InCommon) -> Self {
        self.in_common = Some(in_common);
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
        let layout = ThreadLayout::new(spread, inputs, outputs, parts, archiving.iter().count());
        let none = Room { bytes: 0, is_all: true, more_is_wanted: false };
        let room = self.log.as_mut().map_or(none, |log| unreserved(&mut **log, None));
        let mut wires = Wires::<E>::new(self.options.queue_max, room, &layout);
        let mut stages: Vec<(usize, Box<dyn Stage>)> = Vec::new();
        if let Some(make) = &mut self.prepare {
            stages.extend(wires.inputs(make, inputs, self.request_bytes, &layout));
        }
        let to_log = self.log.as_ref().map(|log| {
            let (queue, buffers) = (wires.log_queue.clone(), wires.buffers.clone());
            LogSender::new(queue, buffers, log.group_bytes_max(), log.cost())
        });
        let execution = wires.execution(self.executor, to_log, &self.options, clock);
        let (options, observer, in_common) = (self.options, self.observer, self.in_common);
        let logging = self.log.map(|log| {
            let log = LogOfPipeline { log, options, observer, checkpoints, archiving, in_common };
            wires.log_stages(log, &layout, clock)
        });
        let (logging, next_to_it) = logging.unzip();
        let carrier = if spread == Spread::Carried {
            let around = Around {
                shared: &wires.shared,
                clock,
                slice_ns_max: options.slice_ns_max,
                promised_ns_max: options.group.async_loss_ns_max / 2,
            };
            let signal = |kind| layout.signal(kind, 0);
            let logging = logging.map(|logging| (logging, signal(StageKind::Logging)));
            let seats = around.put_in_seats((execution, signal(StageKind::Execution)), logging);
            let Seated { carrier, execution, log: logging } = seats;
            stages.push((layout.of(StageKind::Execution, 0), execution));
            stages.extend(logging.map(|logging| (layout.of(StageKind::Logging, 0), logging)));
            Some(carrier)
        } else {
            stages.push((layout.of(StageKind::Execution, 0), Box::new(execution)));
            let logging = logging.map(|logging| Box::new(logging) as Box<dyn Stage>);
            stages.extend(logging.map(|logging| (layout.of(StageKind::Logging, 0), logging)));
            None
        };
        stages.extend(next_to_it.into_iter().flatten());
        for (n, queue) in wires.outputs.iter().enumerate() {
            let output = Output::new(queue.clone(), wires.shared.clone(), wires.parcels.clone());
            stages.push((layout.of(StageKind::Output, n), Box::new(output)));
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
        (pipeline, stages, layout.signals)
    }
}

/// A pipeline that does not run yet, its stages with their threads, the threads' signals.
type Wired<E> = (Pipeline<E>, Vec<(usize, Box<dyn Stage>)>, Vec<Arc<Signal>>);
