//! A database behind a pipeline: started, called by its clients, closed again.
//!
//! The same callers, queues and stages with `--durability none`; what is missing then is the log, so that a
//! sweep over durability compares nothing else. Not here: the callers (`clients.rs`), what is
//! measured of the whole process (`driver.rs`).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tombolo_engine::clock::Clock;
use tombolo_engine::pipeline::{
    Builder, Busy, CheckpointStatistics, Durability as Leaves, Pipeline,
};
use tombolo_storage::log::{Durability, LogUsage};
use tombolo_storage::profile::MemoryProfile;

use super::arrivals::Arrivals;
use super::clients::{Answers, Calling, Clients, Watch};
use super::executor::Database;
use super::files;
use super::{Product, State, cannot_run};
use crate::drive::acks::Acks;
use crate::drive::sequences::Sequences;
use crate::drive::{Batch, Executed, PipelineOutcome, Tally, stopped};
use crate::failure::{Blamed, Failure};
use crate::host;
use crate::progress::Progress;
use crate::work::WorkDone;
use crate::workload::Workload;

/// The counters before a batch.
struct Before {
    busy: Busy,
    cpu: BTreeMap<String, Duration>,
}

/// A pipeline with its callers.
pub(super) struct Running<P: MemoryProfile, W: Workload> {
    pub(super) pipeline: Pipeline<Database<P, W>>,
    pub(super) clients: Clients<W>,
    /// When the first batch began.
    first: Option<CheckpointStatistics>,
    before: Option<Before>,
    work: Arc<Mutex<WorkDone>>,
}

impl<P: MemoryProfile, W: Workload> Running<P, W> {
    /// Counts of the log so far.
    pub(super) fn log_usage(&self) -> LogUsage {
        let statistics = self.pipeline.statistics();
        LogUsage {
            flushes: statistics.flushes,
            commits: statistics.flushed_transactions,
            bytes: statistics.flushed_bytes,
            flushed_bytes: statistics.flushed_bytes,
            ..LogUsage::default()
        }
    }
}

impl<P: MemoryProfile, W: Workload> Product<P, W> {
    /// The pipeline, which is started if it was not.
    pub(super) fn running(&mut self) -> Result<&mut Running<P, W>, Failure> {
        if matches!(self.state, State::Ready(_)) {
            self.start_pipeline(&mut ())?;
        }
        match &mut self.state {
            State::Running(running) => Ok(running),
            State::Empty(_) => Err(stopped(super::NOT_LOADED, 0)),
            _ => Err(Failure::check("the pipeline is closed already")),
        }
    }

    /// The pipeline that runs, for other callers than the database's own.
    ///
    /// # Errors
    /// When none runs.
    pub(crate) fn running_pipeline(&mut self) -> Result<&Pipeline<Database<P, W>>, Failure> {
        self.running().map(|running| &running.pipeline)
    }

    /// Starts the pipeline, and has a first checkpoint written where no image holds the rows.
    pub(super) fn start_pipeline(&mut self, progress: &mut dyn Progress) -> Result<(), Failure> {
        let mut database = self.take().map_err(|stop| stopped(stop, 0))?;
        let calling = self.calling(&mut database)?;
        let (plan, flushes, work) = (&self.plan, self.flushes.clone(), Arc::clone(&database.work));
        let mut options = plan.pipeline;
        // What is removed in the end needs no last checkpoint.
        options.checkpoint.at_close &= plan.keep_fresh || plan.data.is_some();
        let builder = Builder::new(database, options);
        let builder = builder.on_flush(Box::new(move |flush| flushes.record(flush.ns)));
        let wants_first = self.files.as_ref().is_some_and(|files| files.wants_first(plan));
        let builder = match self.files.take() {
            Some(files) => files.wire(plan, builder)?,
            None => builder,
        };
        let pipeline = builder.start(Arc::new(self.clock)).or_environment()?;
        let mut clients = Clients::new(&pipeline, calling, self.clock);
        clients.outlive_no_space(plan.outlives_no_space());
        if let Some(rate) = plan.rate {
            clients.begin_at(Arrivals::new(rate, plan.seed));
        }
        let running = Running { pipeline, clients, first: None, before: None, work };
        self.state = State::Running(Box::new(running));
        if wants_first {
            files::write_first_checkpoint(&self.running()?.pipeline, progress)?;
        }
        Ok(())
    }

    /// How the callers call; where their calls are numbered, that is in the database.
    fn calling(&self, database: &mut Database<P, W>) -> Result<Calling, Failure> {
        let plan = &self.plan;
        let durability = match plan.durability {
            Durability::None | Durability::Group => Leaves::Group,
            Durability::Async => Leaves::Async,
            Durability::Sync => Leaves::Sync,
        };
        let (clients, in_flight) = plan.calls_under_way();
        let mut calling =
            Calling { clients, in_flight, durability, sequences: Vec::new(), acks: None };
        let Some(path) = &plan.acks else { return Ok(calling) };
        calling.acks = Some(Acks::open(path)?);
        let sequences = Sequences::open(&mut database.store, clients as u32);
        let (sequences, last) = sequences.map_err(|error| cannot_run(plan, &error))?;
        (database.sequences, calling.sequences) = (Some(sequences), last);
        Ok(calling)
    }

    /// Runs a batch, or the part of it that its time allows. Only this is measured.
    pub(super) fn run_measured(
        &mut self,
        batch: Batch<'_, W::Input>,
        tally: &mut Tally,
    ) -> Result<Executed, Failure> {
        let clock = self.clock;
        self.running()?;
        let State::Running(running) = &mut self.state else { unreachable!("it was just there") };
        let Running { pipeline, clients, work, .. } = &mut **running;
        let Batch { inputs, time_left, report, .. } = batch;
        let (client, process) = (clock.thread_cpu(), clock.process_cpu());
        let end_ns = |left: Duration| clock.now_ns().saturating_add(left.as_nanos() as u64);
        let until_ns = time_left.map_or(u64::MAX, end_ns);
        let watch =
            Watch { is_writing_checkpoint: &|| pipeline.is_writing_checkpoint(), progress: report };
        let (latencies, in_checkpoint) = (&mut self.latencies, &mut self.found.in_checkpoint);
        let mut answers = Answers { tally, latencies, in_checkpoint };
        clients.run(inputs, until_ns, &mut answers, watch)?;
        let process_cpu = clock.process_cpu().saturating_sub(process);
        // A caller that carries does the engine's work on its thread: all of that counts then.
        self.found.is_carried = clients.carry();
        let client = match self.found.is_carried {
            true => Duration::ZERO,
            false => clock.thread_cpu().saturating_sub(client),
        };
        let work = std::mem::take(&mut *work.lock().unwrap_or_else(PoisonError::into_inner));
        Ok(Executed { engine_cpu: process_cpu.saturating_sub(client), work })
    }

    /// A batch will be measured.
    pub(super) fn note_before(&mut self) {
        let State::Running(running) = &mut self.state else { return };
        let statistics = running.pipeline.statistics();
        if running.first.is_none() {
            self.found.copy_loaded_bytes = statistics.checkpoint.copy_bytes;
            running.first = Some(statistics.checkpoint);
        }
        running.before = Some(Before { busy: statistics.busy, cpu: host::threads_cpu() });
    }

    /// A batch was measured.
    pub(super) fn note_after(&mut self) {
        let State::Running(running) = &mut self.state else { return };
        let Some(before) = running.before.take() else { return };
        let statistics = running.pipeline.statistics();
        self.found.add(before, statistics.busy, &host::threads_cpu());
        self.found.behind = running.clients.behind();
        let checkpoint = running.first.map(|first| files::since(statistics.checkpoint, first));
        self.found.checkpoint = checkpoint.filter(|_| self.plan.image.is_some());
    }

    /// Ends the pipeline, if there is one, and takes the database back.
    pub(super) fn close(&mut self) -> Result<(), Failure> {
        if !matches!(self.state, State::Running(_)) {
            return Ok(());
        }
        let State::Running(running) = std::mem::replace(&mut self.state, State::Away) else {
            unreachable!("it was just there")
        };
        let Running { pipeline, clients, .. } = *running;
        pipeline.shut();
        clients.finish();
        let closed = pipeline.close();
        self.found.notes.extend(closed.checkpoint_failure.map(|why| {
            format!("checkpoints ended, so the next process replays more of the log: {why}")
        }));
        if let Some(reason) = closed.poison {
            return Err(Failure::environment(format!("the run ended: {reason}")));
        }
        let Some(database) = closed.executor else {
            return Err(Failure::check("the execution stage broke down"));
        };
        self.state = State::Closed(Box::new(database));
        Ok(())
    }
}

impl PipelineOutcome {
    fn add(&mut self, before: Before, after: Busy, cpu: &BTreeMap<String, Duration>) {
        let busy = since(after, before.busy);
        self.busy.input_ns += busy.input_ns;
        self.busy.execution_ns += busy.execution_ns;
        self.busy.logging_ns += busy.logging_ns;
        self.busy.output_ns += busy.output_ns;
        self.busy.checkpoint_ns += busy.checkpoint_ns;
        for (name, &cpu) in cpu {
            let before = before.cpu.get(name).copied().unwrap_or_default();
            *self.cpu.entry(name.clone()).or_default() += cpu.saturating_sub(before);
        }
    }
}

/// How long stages worked between `before` and `after`.
pub(crate) fn since(after: Busy, before: Busy) -> Busy {
    Busy {
        input_ns: after.input_ns - before.input_ns,
        execution_ns: after.execution_ns - before.execution_ns,
        logging_ns: after.logging_ns - before.logging_ns,
        output_ns: after.output_ns - before.output_ns,
        checkpoint_ns: after.checkpoint_ns - before.checkpoint_ns,
    }
}
