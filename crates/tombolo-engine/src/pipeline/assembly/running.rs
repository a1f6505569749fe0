//! A running pipeline: its calls, and its end.
//!
//! [`Pipeline::close`] accepts no more calls, waits until all calls under way have been answered
//! and the log is sealed, and returns executor and log. Not here: how a pipeline is assembled
//! (`mod.rs`), what stages do.

use std::sync::Arc;

use tombolo_storage::sync::Mutex;
use tombolo_storage::value_log::GroupNumber;

use crate::pipeline::assembly::statistics::Statistics;
use crate::pipeline::assembly::wires::Wires;
use crate::pipeline::callers::carrying::carrier::Carrier;
use crate::pipeline::callers::long_intake::LongIntake;
use crate::pipeline::callers::{Caller, Submitter};
use crate::pipeline::checkpoint::CheckpointState;
use crate::pipeline::checkpoint::{CheckpointHandle, CheckpointHold, CheckpointRefusal};
use crate::pipeline::log::GroupLog;
use crate::pipeline::policy::Overrun;
use crate::pipeline::stage::StageKind;
use crate::pipeline::stage_loop::{StageLoop, WhenBroken};
use crate::pipeline::stages::{ArchiveHandle, ArchiveStatistics, Executor};
use crate::pipeline::transport::{Load, Mailbox, Sink};
use crate::threads::Running;

/// A pipeline that runs.
pub struct Pipeline<E: Executor> {
    pub(crate) wires: Wires<E>,
    pub(crate) request_bytes: fn(&E::Request) -> usize,
    /// Where callers carry.
    pub(crate) carrier: Option<Carrier<E>>,
    pub(crate) threads: Vec<Running>,
    /// The stages that callers step, until they are taken.
    pub(crate) own: Mutex<Option<StageLoop>>,
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
    /// Why the last checkpoint was left out, if it was because the disk is full.
    pub checkpoint_left_out: Option<Arc<str>>,
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
            carrying: self.carrier.as_ref().map(|carrier| carrier.carrying().clone()),
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

    /// Where callers run transactions on their own threads, if they carry ([`crate::pipeline::Spread::Carried`]).
    pub fn carrier(&self) -> Option<Carrier<E>> {
        self.carrier.clone()
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

    /// The stages that run on the callers' own thread, once, where the settings say `callers`. The program that
    /// takes them calls [`StageLoop::turn`] between submitting and fetching, and after [`Pipeline::shut`] until
    /// they have ended.
    pub fn own_stages(&self) -> Option<StageLoop> {
        self.own.lock().take()
    }

    /// Why nothing is acknowledged any more, if so.
    pub fn poison(&self) -> Option<Arc<str>> {
        self.wires.shared.poison().cloned()
    }

    /// Asks for a checkpoint that holds all that was durable before this call.
    pub fn checkpoint(&self) -> CheckpointHandle {
        CheckpointHandle::ask(self.checkpoint_state())
    }

    /// What waits for the checkpoint that is under way, and lets no other begin. It may wait long, so
    /// it is a call of its own.
    pub fn holding(&self) -> impl FnOnce() -> Result<CheckpointHold, CheckpointRefusal> + use<E> {
        let state = self.checkpoint_state().cloned();
        move || CheckpointHold::new(state.as_ref())
    }

    /// Asks that everything that was answered as durable before this call be archived soon.
    pub fn archive(&self) -> ArchiveHandle {
        ArchiveHandle::ask(self.wires.archive.as_ref(), self.durable_group())
    }

    /// What the log's archive holds, if there is one.
    pub fn archive_statistics(&self) -> Option<ArchiveStatistics> {
        self.wires.archive.as_ref().map(|archive| archive.statistics())
    }

    /// The newest group of the log that is durable; 0 without a log. All that was answered as durable
    /// before this call is in it or in an older one.
    pub fn durable_group(&self) -> GroupNumber {
        self.wires.shared.durable_group()
    }

    /// The newest group of the log that is flushed: a loss of power leaves the log up to it. If it has transactions
    /// over several pipelines, it is durable when the other logs have flushed them, too.
    pub fn flushed_group(&self) -> GroupNumber {
        self.wires.shared.flushed_group()
    }

    /// Why no checkpoint is written, if so: checkpoints have ended, or the process that writes them is away and
    /// will be started again. Transactions continue; the log grows.
    pub fn checkpoint_failure(&self) -> Option<Arc<str>> {
        self.checkpoint_state().and_then(|state| state.trouble())
    }

    /// Whether a checkpoint is being written in this moment: one load, for frequent calls.
    pub fn is_writing_checkpoint(&self) -> bool {
        self.checkpoint_state().is_some_and(|state| state.is_writing())
    }

    fn checkpoint_state(&self) -> Option<&Arc<CheckpointState>> {
        self.wires.checkpoint.as_ref().map(|checkpoint| &checkpoint.state)
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
        statistics.checkpoint =
            self.checkpoint_state().map(|state| state.statistics()).unwrap_or_default();
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
    /// or [`crate::pipeline::Builder::assemble`], they must have ended before.
    pub fn close(mut self) -> Closed<E> {
        self.finish();
        let mut log = self.wires.retired_log.lock().take();
        if let (Some(log), Some(state), None) = (&mut log, self.checkpoint_state(), self.poison()) {
            // The last checkpoint was written when the logging stage had ended.
            log.release_before(state.needed_from());
            log.trim();
        }
        Closed {
            executor: self.wires.retired_executor.lock().take(),
            log,
            poison: self.poison(),
            checkpoint_failure: self.checkpoint_failure(),
            checkpoint_left_out: self.checkpoint_state().and_then(|state| state.last_left_out()),
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

    /// What is done when a stage panics: no thread waits for it.
    pub(crate) fn when_broken(&self) -> WhenBroken {
        let shared = self.wires.shared.clone();
        let mut intakes = self.wires.intakes.clone();
        intakes.push(self.wires.input_queue.clone());
        let (log_queue, outputs) = (self.wires.log_queue.clone(), self.wires.outputs.clone());
        let long_queue = self.wires.long_queue.clone();
        let checkpoint = self.wires.checkpoint.clone();
        let archive = self.wires.archive.clone();
        Arc::new(move |kind, message| {
            if let (StageKind::Archive, Some(archive)) = (kind, &archive) {
                // Nothing of a transaction depends on it; the log is kept.
                return archive.broken(&format!("the {kind} stage panicked: {message}"));
            }
            if let (StageKind::Checkpoint, Some(checkpoint)) = (kind, &checkpoint) {
                // Nothing of a transaction depends on it; its part's other stage ends, too.
                return checkpoint.close_broken(&format!("the {kind} stage panicked: {message}"));
            }
            let reason = shared.set_poison(&format!("the {kind} stage panicked: {message}"));
            intakes.iter().for_each(|intake| intake.close());
            long_queue.close();
            log_queue.close();
            if let Some(archive) = &archive {
                archive.close();
            }
            if let Some(checkpoint) = &checkpoint {
                checkpoint.close_broken(&reason);
            }
            outputs.iter().for_each(|output| output.close());
            shared.callers.broken(&reason);
            shared.waiters.wake_up_to(u64::MAX);
        })
    }
}

impl<E: Executor> Drop for Pipeline<E> {
    fn drop(&mut self) {
        self.finish();
    }
}
