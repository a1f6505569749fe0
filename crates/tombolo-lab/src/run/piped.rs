//! A run through the pipeline: profile memory, with a log or without.
//!
//! Load or recover, start the pipeline, warm up, let the callers run, verify what is left. The
//! same callers, queues and stages with `--durability none`; what is missing then is the log, so
//! that a sweep over durability compares nothing else.
//!
//! Measured is only what the callers do, as in `drive.rs`: inputs are made, and memory for their
//! rows is taken, between batches. The engine's processor time is the process's without the calling
//! thread's. Latencies are those of all answers. A run bounded by transactions then executes as many
//! more as one without a pipeline would time one by one, so that both leave the same rows.
//!
//! Not here: the callers (`durable/clients.rs`), opening (`durable/open.rs`), runs without a
//! pipeline (`run.rs`).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tombolo_engine::clock::{Clock, SystemClock};
use tombolo_engine::pipeline::{Builder, Busy, CheckpointStatistics, Executor, Flush, Pipeline};
use tombolo_storage::disk::OsDisk;
use tombolo_storage::log::{Durability, LogUsage};
use tombolo_storage::memory::MemoryStore;
use tombolo_storage::profile::{Memory, MemoryLogged, MemoryProfile};
use tombolo_storage::store::{Store, Usage};

use super::on_disk::{self, OnDisk};
use super::{Outcome, Place, Plan, WARM_UP};
use crate::counters::miss;
use crate::counting::Counter;
use crate::drive::{self, Bound, Throughput};
use crate::dump_files::DumpDirectory;
use crate::durable::{
    self, Acks, Answered, Answers, Arrivals, Behind, Calling, Clients, Database, RawFlush,
    Recovery, Request, Sequences, Watch,
};
use crate::failure::Failure;
use crate::histogram::Latencies;
use crate::host;
use crate::instance::{Deployed, Quiescent, Verification};
use crate::progress::Progress;
use crate::report;
use crate::workload::Workload;
use crate::workload::error::WorkloadError;

/// Bytes in front of a group's records, about.
const GROUP_HEADER_BYTES: u64 = 64;

/// What is reported of a pipeline.
#[derive(Clone, Debug, Default)]
pub struct PipelineOutcome {
    /// How long the stages worked while they were measured.
    pub busy: Busy,
    /// Whether the callers' thread carried their calls: it did the stages' work.
    pub is_carried: bool,
    /// Processor time of the pipeline's threads meanwhile, by the first stage on each; none where
    /// the system does not say.
    pub cpu: BTreeMap<String, Duration>,
    /// What the device takes for a flush.
    pub raw_flush: Option<RawFlush>,
    /// How the database came back, if it was opened.
    pub recovery: Option<Recovery>,
    /// Checkpoints while callers were measured, if any are written.
    pub checkpoint: Option<CheckpointStatistics>,
    /// How long answers took that came while one was written.
    pub in_checkpoint: Latencies,
    /// How far calls were behind their times, in an open loop.
    pub behind: Option<Behind>,
    /// Memory that DB′ took when the measured part began, in bytes.
    pub copy_loaded_bytes: u64,
    /// Memory that the store took when the run was over, in bytes.
    pub store_end_bytes: u64,
}

/// A database before its pipeline starts.
struct Ready<P: MemoryProfile, W> {
    workload: W,
    store: MemoryStore<P>,
    disk: Option<OnDisk>,
    load_s: (f64, f64),
    recovery: Option<Recovery>,
    /// Bytes the process had written to disks before.
    disk_before: Option<u64>,
}

/// What flushes were like since this was last asked.
#[derive(Clone, Debug, Default)]
struct Flushes(Arc<Mutex<(LogUsage, Latencies)>>);

impl Flushes {
    fn note(&self, flush: Flush) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (usage, latencies) = &mut *seen;
        usage.flushes += 1;
        usage.commits += flush.transactions;
        usage.bytes += flush.bytes;
        usage.flushed_bytes += flush.bytes;
        latencies.record(flush.ns);
    }

    fn take(&self) -> (LogUsage, Latencies) {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Runs `plan`.
///
/// # Errors
/// When it cannot start or cannot finish; failed checks are part of the outcome.
pub(super) fn run<W: Deployed>(
    plan: &Plan,
    workload: W,
    counter: (Option<Counter>, Option<String>),
    dump: Option<DumpDirectory>,
    place: Option<Place>,
    progress: &mut dyn Progress,
) -> Result<Outcome, Failure> {
    let clock = SystemClock::new();
    match &place {
        Some(place) => {
            let ready = load_logged(plan, workload, place, &clock, progress)?;
            finish(plan, ready, counter, dump, Some(place.clone()), &clock, progress)
        }
        None => {
            let ready = load_unlogged(plan, workload, &clock, progress)?;
            finish(plan, ready, counter, dump, None, &clock, progress)
        }
    }
}

fn load_unlogged<W: Workload>(
    plan: &Plan,
    workload: W,
    clock: &SystemClock,
    progress: &mut dyn Progress,
) -> Result<Ready<Memory, W>, Failure> {
    let (mut store, disk_before) = (MemoryStore::new(plan.limits), host::disk_bytes());
    let load_s = timed_load(&workload, clock, progress, |told| {
        let loaded = workload.load_parts(&mut store, plan.load_threads, |_, done, of| {
            told(done, of);
            Ok(())
        });
        loaded.map_err(|error| Failure::environment(error.to_string()))
    })?;
    Ok(Ready { workload, store, disk: None, load_s, recovery: None, disk_before })
}

fn load_logged<W: Workload>(
    plan: &Plan,
    workload: W,
    place: &Place,
    clock: &SystemClock,
    progress: &mut dyn Progress,
) -> Result<Ready<MemoryLogged, W>, Failure> {
    let disk_before = host::disk_bytes();
    let options = on_disk::open_options(plan);
    if plan.resume {
        let opened = durable::open_directories(&[&place.path], &options, clock, progress)?;
        let load_s = (opened.recovery.wall_s, opened.recovery.cpu_s);
        let durable::Opened { mut store, writer, checkpointing, recovery } = opened;
        let disk = Some(OnDisk::opened(plan, &place.path, writer, checkpointing, &recovery)?);
        let workload = found(&workload, &mut store)?;
        let recovery = Some(recovery);
        return Ok(Ready { workload, store, disk, load_s, recovery, disk_before });
    }
    let failed = |error: &dyn std::fmt::Display| Failure::environment(error.to_string());
    let disk = OsDisk::open(&place.path).map_err(|error| failed(&error))?;
    let created = durable::create(&[Arc::new(disk)], &options).map_err(|error| failed(&error))?;
    let durable::Created { mut store, writer, checkpointing } = created;
    let mut loaded = None;
    let load_s = timed_load(&workload, clock, progress, |told| {
        let threads = plan.load_threads;
        loaded = Some(durable::load(&mut store, writer, &workload, threads, told)?);
        Ok(())
    })?;
    let on_disk = |writer| OnDisk::loaded(plan, &place.path, writer, checkpointing);
    let disk = loaded.map(on_disk).transpose()?;
    Ok(Ready { workload, store, disk, load_s, recovery: None, disk_before })
}

/// Wall-clock and processor time of loading, in seconds.
fn timed_load<W: Workload>(
    workload: &W,
    clock: &SystemClock,
    progress: &mut dyn Progress,
    load: impl FnOnce(&mut dyn FnMut(usize, usize)) -> Result<(), Failure>,
) -> Result<(f64, f64), Failure> {
    progress.begin(&format!("loading {}", workload.describe()));
    let (wall, cpu) = (clock.now_ns(), clock.process_cpu());
    let loaded = load(&mut |done, of| progress.part(done as f64 / of as f64, ""));
    let cpu_s = clock.process_cpu().saturating_sub(cpu).as_secs_f64();
    let wall_s = (clock.now_ns() - wall) as f64 / 1e9;
    progress.end();
    loaded.map(|()| (wall_s, cpu_s))
}

/// The workload at the scale of a database that was opened.
fn found<W: Workload>(workload: &W, store: &mut impl Store) -> Result<W, Failure> {
    match workload.find(store) {
        Ok(Some(workload)) => Ok(workload),
        Ok(None) => Err(Failure::environment(format!(
            "the database of {} in this directory is not whole: loading it was broken off; make it \
             again",
            W::NAME
        ))),
        Err(WorkloadError::Schema(error)) => {
            Err(Failure::usage(format!("the directory holds no database of {}: {error}", W::NAME)))
        }
        Err(error) => Err(Failure::check(error.to_string())),
    }
}

/// Everything from the start of the pipeline on.
fn finish<P: MemoryProfile, W: Deployed>(
    plan: &Plan,
    ready: Ready<P, W>,
    (counter, note): (Option<Counter>, Option<String>),
    dump: Option<DumpDirectory>,
    place: Option<Place>,
    clock: &SystemClock,
    progress: &mut dyn Progress,
) -> Result<Outcome, Failure>
where
    Database<P, W>: Executor<Request = Request<W>, Answer = Answered<W>>,
{
    let Ready { workload, mut store, disk, load_s, recovery, disk_before } = ready;
    let mut plan = plan.clone();
    workload.note_in(&mut plan);
    let usage: Usage = Store::usage(&mut store);
    let miss_ns = miss::miss_ns(&mut || clock.now_ns(), miss::PROBE_BYTES).ok();
    let mut through = Through::new(&plan, workload, clock);
    let mut store = through.run(store, disk, place.as_ref(), progress)?;
    let store_end_bytes = Store::usage(&mut store).memory_bytes;
    let disk_bytes = host::disk_bytes().zip(disk_before).map(|(after, before)| after - before);
    let Through { throughput, answers, log, flushes, mut found, notes: told, .. } = through;
    found.store_end_bytes = store_end_bytes;
    let cut = recovery.as_ref().and_then(|recovery| recovery.cut.as_ref());
    let cut = cut.map(|cut| durable::notice(cut, true));
    let notes = note.into_iter().chain(cut).chain(told).chain(plan.notes()).collect();
    found.recovery = recovery;
    found.in_checkpoint = answers.in_checkpoint;
    let mut outcome = Outcome {
        load_s,
        usage,
        miss_ns,
        throughput,
        log,
        flushes,
        place,
        latencies: answers.latencies,
        disk_bytes,
        verification: Verification::default(),
        state_hash: None,
        counter,
        counts: Vec::new(),
        cycles: Vec::new(),
        stages: Vec::new(),
        notes,
        pipeline: Some(found),
        plan: plan.clone(),
    };
    progress.measured(&outcome);
    (outcome.verification, outcome.state_hash) =
        super::look(&plan, Quiescent::in_memory(&mut store), dump.as_ref(), progress)?;
    drop(store); // the counted databases need the memory
    let place = outcome.place.as_ref();
    if let Some(place) = place.filter(|place| place.is_fresh && !plan.keep_fresh) {
        place.remove()?;
    }
    let stages = super::count_stages(&plan, &workload, counter, place, progress)?;
    (outcome.counts, outcome.cycles) = super::count(&plan, &workload, counter, progress)?;
    outcome.stages = stages;
    Ok(outcome)
}

/// A run on its way through the pipeline, and what was found so far.
struct Through<'a, W> {
    plan: &'a Plan,
    workload: W,
    clock: &'a SystemClock,
    throughput: Throughput,
    answers: Answers,
    log: LogUsage,
    flushes: Latencies,
    found: PipelineOutcome,
    /// What went wrong that is no failure of the run.
    notes: Vec<String>,
}

impl<'a, W: Workload> Through<'a, W> {
    fn new(plan: &'a Plan, workload: W, clock: &'a SystemClock) -> Self {
        Self {
            plan,
            workload,
            clock,
            throughput: Throughput::default(),
            answers: Answers::default(),
            log: LogUsage::default(),
            flushes: Latencies::default(),
            found: PipelineOutcome::default(),
            notes: Vec::new(),
        }
    }

    /// Runs the plan on `store`, and gives it back.
    fn run<P: MemoryProfile>(
        &mut self,
        mut store: MemoryStore<P>,
        disk: Option<OnDisk>,
        place: Option<&Place>,
        progress: &mut dyn Progress,
    ) -> Result<MemoryStore<P>, Failure>
    where
        Database<P, W>: Executor<Request = Request<W>, Answer = Answered<W>>,
    {
        let plan = self.plan;
        let cannot_run = |error: WorkloadError| {
            Failure::usage(format!("the database cannot run {}: {error}", plan.title()))
        };
        let (sequences, calling) = self.calling(&mut store).map_err(|error| match error {
            Numbering::Failed(failure) => failure,
            Numbering::Refused(error) => cannot_run(error),
        })?;
        let database = Database::new(store, &self.workload, sequences);
        let database = database.map_err(|error| cannot_run(error.into()))?;
        let flushes = Flushes::default();
        let observer = flushes.clone();
        let mut options = plan.pipeline;
        // What is removed in the end needs no last checkpoint.
        options.checkpoint.at_close &= plan.keep_fresh || place.is_none_or(|place| !place.is_fresh);
        let wants_first = disk.as_ref().is_some_and(OnDisk::wants_first_checkpoint);
        let builder = Builder::new(database, options);
        let builder = builder.on_flush(Box::new(move |flush| observer.note(flush)));
        let builder = match disk {
            Some(disk) => disk.wire(builder),
            None => builder,
        };
        let pipeline = builder.start(Arc::new(*self.clock));
        let pipeline = pipeline.map_err(|refused| Failure::environment(refused.to_string()))?;
        let mut clients = Clients::new(&pipeline, calling, self.clock);
        clients.outlive_no_space(plan.outlives_no_space());
        if let Some(rate) = plan.rate {
            clients.begin_at(Arrivals::new(rate, plan.seed));
        }
        let first = match wants_first {
            true => on_disk::write_first_checkpoint(&pipeline, progress),
            false => Ok(()),
        };
        let ran = first.and_then(|()| self.passes(&pipeline, &mut clients, &flushes, progress));
        progress.begin("closing");
        pipeline.shut();
        clients.finish();
        let closed = pipeline.close();
        progress.end();
        ran?;
        self.notes.extend(closed.checkpoint_failure.map(|why| {
            format!("checkpoints ended, so the next process replays more of the log: {why}")
        }));
        if let Some(reason) = closed.poison {
            return Err(Failure::environment(format!("the run ended: {reason}")));
        }
        let Some(database) = closed.executor else {
            return Err(Failure::check("the execution stage broke down"));
        };
        self.throughput.work = database.work;
        if let Some(place) = place
            && self.log.flushes > 0
        {
            let disk = OsDisk::open(&place.path);
            let bytes = self.log.bytes / self.log.flushes + GROUP_HEADER_BYTES;
            // Between two flushes of the run.
            let flush_ns = self.flushes.summary().map_or(0.0, |flush| flush.mean * 1e3);
            let each_ns = self.throughput.wall.as_nanos() as f64 / self.log.flushes as f64;
            let pause_ns = (each_ns - flush_ns).max(0.0) as u64;
            // Without room for the probe's file there is no figure.
            let raw = disk
                .and_then(|disk| durable::measure_raw_flush(&disk, self.clock, bytes, pause_ns));
            self.found.raw_flush = raw.ok();
        }
        Ok(database.store)
    }

    /// How the callers call, and where their calls are numbered.
    fn calling<P: MemoryProfile>(
        &self,
        store: &mut MemoryStore<P>,
    ) -> Result<(Option<Sequences>, Calling), Numbering> {
        use tombolo_engine::pipeline::Durability as Leaves;
        let plan = self.plan;
        let durability = match plan.durability {
            Durability::None | Durability::Group => Leaves::Group,
            Durability::Async => Leaves::Async,
            Durability::Sync => Leaves::Sync,
        };
        let (clients, in_flight) = plan.calls_under_way();
        let mut calling =
            Calling { clients, in_flight, durability, sequences: Vec::new(), acks: None };
        let Some(path) = &plan.acks else { return Ok((None, calling)) };
        calling.acks = Some(Acks::open(path).map_err(Numbering::Failed)?);
        let sequences = Sequences::open(store, clients as u32).map_err(Numbering::Refused)?;
        for client in 0..clients as u32 {
            let last = sequences.last(store, client);
            calling.sequences.push(last.map_err(|error| Numbering::Refused(error.into()))?);
        }
        Ok((Some(sequences), calling))
    }

    /// Warm-up, the measured pass, and what follows it.
    fn passes<P: MemoryProfile>(
        &mut self,
        pipeline: &Pipeline<Database<P, W>>,
        clients: &mut Clients<'_, W>,
        flushes: &Flushes,
        progress: &mut dyn Progress,
    ) -> Result<(), Failure>
    where
        Database<P, W>: Executor<Request = Request<W>, Answer = Answered<W>>,
    {
        let plan = self.plan;
        let mut inputs = self.workload.inputs();
        let mut batch: Vec<W::Input> = inputs.by_ref().take(WARM_UP).collect();
        clients.run_unmeasured(&batch)?;
        flushes.take();
        let before = pipeline.statistics().checkpoint;
        self.found.copy_loaded_bytes = before.copy_bytes;
        progress.begin(&format!("running {} on {}", plan.title(), plan.profile));
        while let Some(rest) = self.throughput.rest(plan.bound) {
            drive::verify_memory(plan.memory_limit, &self.throughput)?;
            batch.clear();
            batch.extend(inputs.by_ref().take(rest.min(plan.batch as u64) as usize));
            self.run_batch(pipeline, clients, &batch, progress)?;
        }
        self.found.behind = clients.behind();
        (self.log, self.flushes) = flushes.take();
        let checkpoint = on_disk::since(pipeline.statistics().checkpoint, before);
        self.found.checkpoint = plan.image.map(|_| checkpoint);
        progress.end();
        let further = match plan.bound {
            Bound::Transactions(_) if plan.latency_transactions > 0 => {
                plan.latency_transactions + plan.callers
            }
            _ => 0,
        };
        batch.clear();
        batch.extend(inputs.take(further));
        clients.run_unmeasured(&batch)
    }

    /// Executes one batch, or the part of it that fits the bound. Only this is measured.
    fn run_batch<P: MemoryProfile>(
        &mut self,
        pipeline: &Pipeline<Database<P, W>>,
        clients: &mut Clients<'_, W>,
        batch: &[W::Input],
        progress: &mut dyn Progress,
    ) -> Result<(), Failure>
    where
        Database<P, W>: Executor<Request = Request<W>, Answer = Answered<W>>,
    {
        let (clock, found) = (self.clock, &mut self.throughput);
        let process = clock.process_cpu();
        if self.plan.reserve {
            clients.reserve(batch)?;
        }
        let (busy, cpu) = (pipeline.statistics().busy, host::threads_cpu());
        let (client, reserved) = (clock.thread_cpu(), clock.process_cpu());
        found.reserve_cpu += reserved.saturating_sub(process);
        let (start_ns, wall_before, done_before) = (clock.now_ns(), found.wall, found.tally.done());
        let (until_ns, part_of): (u64, Box<dyn Fn(usize) -> f64>) = match self.plan.bound {
            Bound::Time(time) => {
                let left = time.saturating_sub(found.wall).as_nanos() as u64;
                let of = move |_| {
                    let now = clock.now_ns().saturating_sub(start_ns);
                    (wall_before.as_secs_f64() + now as f64 / 1e9) / time.as_secs_f64()
                };
                (start_ns.saturating_add(left), Box::new(of))
            }
            Bound::Transactions(wanted) => {
                let of = move |done| (done_before + done as u64) as f64 / wanted as f64;
                (u64::MAX, Box::new(of))
            }
        };
        let rate = report::quantity(found.per_second());
        let mut told = |done| {
            progress.part(part_of(done).min(1.0), &format!("{rate} transactions per second"));
        };
        let watch = Watch {
            is_writing_checkpoint: &|| pipeline.is_writing_checkpoint(),
            progress: &mut told,
        };
        let ran = clients.run(batch, until_ns, &mut self.answers, watch);
        found.tally = self.answers.tally.clone();
        found.wall += Duration::from_nanos(clock.now_ns() - start_ns);
        let process_cpu = clock.process_cpu().saturating_sub(reserved);
        found.process_cpu += process_cpu;
        // A caller that carries does the engine's work on its thread: all of that counts then.
        self.found.is_carried = clients.carry();
        let client = match self.found.is_carried {
            true => Duration::ZERO,
            false => clock.thread_cpu().saturating_sub(client),
        };
        found.engine_cpu += process_cpu.saturating_sub(client);
        self.found.add(busy, pipeline.statistics().busy, &cpu, &host::threads_cpu());
        ran
    }
}

/// Why calls are not numbered.
enum Numbering {
    Failed(Failure),
    Refused(WorkloadError),
}

impl PipelineOutcome {
    fn add(
        &mut self,
        before: Busy,
        after: Busy,
        cpu_before: &BTreeMap<String, Duration>,
        cpu_after: &BTreeMap<String, Duration>,
    ) {
        self.busy.input_ns += after.input_ns - before.input_ns;
        self.busy.execution_ns += after.execution_ns - before.execution_ns;
        self.busy.logging_ns += after.logging_ns - before.logging_ns;
        self.busy.output_ns += after.output_ns - before.output_ns;
        self.busy.checkpoint_ns += after.checkpoint_ns - before.checkpoint_ns;
        for (name, &cpu) in cpu_after {
            let before = cpu_before.get(name).copied().unwrap_or_default();
            *self.cpu.entry(name.clone()).or_default() += cpu.saturating_sub(before);
        }
    }
}
