//! Profile `memory` as users have it: behind a pipeline, with its value log on disk or without a log; or
//! with only a part of that, as the product's ladder has it on its rungs.
//!
//! Load or open, start, run, stop: then the rows can be read, and nothing more runs. Only the
//! calls are measured, of which each answer is timed. The engine's processor time is the process's without
//! the calling thread's.
//!
//! On a rung below the pipeline transactions run in groups of [`GROUP`] (`groups.rs`), which is also
//! what is counted on every rung. What was loaded is in the log where the database is kept, and on no rung.
//! Not here: the callers (`clients.rs`), log and image (`files.rs`).

mod arrivals;
mod clients;
mod executor;
mod files;
mod groups;
mod load;
mod pipeline;
mod stepped;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tombolo_engine::clock::{Clock, SystemClock};
use tombolo_engine::islands::membership::{Membership, read_membership};
use tombolo_engine::pipeline::{self as engine, GroupLog, RoomMaker};
use tombolo_engine::threads;
use tombolo_engine::transaction::Stop;
use tombolo_storage::disk::{Disk, OsDisk};
use tombolo_storage::error::{Error, SchemaError};
use tombolo_storage::log::{Durability, LogUsage};
use tombolo_storage::memory::{Limits, MemoryStore};
use tombolo_storage::profile::{Memory, MemoryLogged, MemoryProfile};
use tombolo_storage::value_log::{LogBuffer, LogSettings};

use super::{Batch, ByKind, CountInputs, Executed, Instance, PipelineOutcome, Tally, stopped};
use crate::counters::CounterError;
use crate::counters::meter::{Meter, Native, NativeCount};
use crate::failure::{Blamed, Failure};
use crate::files::{Created, FlushTimes, Opened, Place, create as create_files, open_directories};
use crate::plan::{Part, Plan};
use crate::progress::Progress;
use crate::rows::Quiescent;
use crate::store::{DynamicStore, Erased};
use crate::work::WorkDone;
use crate::workload::Workload;
use crate::workload::error::WorkloadError;
use crate::workload::rows::in_transaction;

pub(crate) use executor::{Answered, Database, Request};
use files::Files;
pub use groups::GROUP;
use pipeline::Running;
pub(crate) use pipeline::since as pipeline_busy_since;

/// Callers of a rung's pipeline, and calls that each has under way.
const CALLERS: (usize, usize) = (64, 64);

/// The database, wherever it is.
enum State<P: MemoryProfile, W: Workload> {
    /// Without tables.
    Empty(Box<MemoryStore<P>>),
    /// Before its first transaction.
    Ready(Box<Database<P, W>>),
    /// Behind its pipeline.
    Running(Box<Running<P, W>>),
    /// Nothing runs on it any more.
    Closed(Box<Database<P, W>>),
    /// A pipeline has lost it.
    Away,
}

/// A workload on profile `memory`.
#[repr(C)] // the meter is reached through one register
pub(crate) struct Product<P: MemoryProfile, W: Workload> {
    meter: Meter,
    state: State<P, W>,
    plan: Plan,
    part: Part,
    clock: SystemClock,
    /// Log and image, until a pipeline or groups have them.
    files: Option<Files>,
    records: LogBuffer,
    log: Option<Box<dyn GroupLog>>,
    room: Option<Box<dyn RoomMaker>>,
    /// What groups had made durable.
    usage: LogUsage,
    flushes: FlushTimes,
    /// Of all answers that were not taken yet.
    latencies: ByKind,
    found: PipelineOutcome,
    /// A directory that goes with the database.
    scratch: Option<PathBuf>,
}

const NOT_LOADED: Stop = Stop::Error(Error::Poisoned { reason: "nothing was loaded" });

fn cannot_run(plan: &Plan, error: &dyn std::fmt::Display) -> Failure {
    Failure::usage(format!("the database cannot run {}: {error}", plan.title()))
}

/// An empty database behind a pipeline, as `plan` has it; its files, if it has any, go to `directory`.
///
/// # Errors
/// When they cannot be made.
pub(crate) fn create<W: Workload>(
    plan: &Plan,
    directory: Option<&Path>,
    flushes: &FlushTimes,
) -> Result<Box<dyn Instance<W>>, Failure> {
    let Some(directory) = directory else {
        let store = MemoryStore::<Memory>::new(plan.limits);
        return Ok(Box::new(Product::<_, W>::new(plan.clone(), store, None)));
    };
    let mut product = Product::<MemoryLogged, W>::create(plan.clone(), directory)?;
    product.flushes = flushes.clone();
    Ok(Box::new(product))
}

/// A database that was opened, its workload at the scale it has, and how long that took: wall-clock and
/// processor time in seconds.
pub(crate) type Resumed<W> = (Box<dyn Instance<W>>, W, (f64, f64));

/// Opens the database that lies in `place`.
///
/// # Errors
/// When the directory holds no database of this workload, or it cannot be opened.
pub(crate) fn resume<W: Workload>(
    plan: &Plan,
    workload: &W,
    place: &Place,
    flushes: &FlushTimes,
    progress: &mut dyn Progress,
) -> Result<Resumed<W>, Failure> {
    let options = files::open_options(plan);
    let clock = SystemClock::new();
    let opened = open_directories(&[&place.path], &options, &clock, progress)?;
    let Opened { mut store, writer, checkpointing, recovery } = opened;
    let workload = found(workload, &mut store)?;
    let load_s = (recovery.wall_s, recovery.cpu_s);
    let files = Files::opened(&place.path, writer, checkpointing, &recovery);
    let mut product = Product::<MemoryLogged, W>::new(plan.clone(), store, Some(files));
    product.found.recovery = Some(recovery);
    product.flushes = flushes.clone();
    product.bind(workload).map_err(|error| cannot_run(plan, &error))?;
    Ok((Box::new(product), workload, load_s))
}

/// An empty database with a part of what makes profile `memory` durable, and all before it. Its log, where it
/// goes to a disk, is in `directory`, which must not be there yet and goes with the database.
///
/// # Errors
/// When it cannot be made.
pub(crate) fn create_part<W: Workload>(
    part: Part,
    plan: &Plan,
    limits: Limits,
    directory: PathBuf,
) -> Result<Box<dyn Instance<W>>, Failure> {
    Ok(Box::new(Product::<MemoryLogged, W>::of_part(part, plan, limits, directory)?))
}

/// The workload at the scale of a database that was opened.
///
/// # Errors
/// When it is not whole, or of another workload.
pub(crate) fn found<W: Workload>(workload: &W, store: &mut dyn DynamicStore) -> Result<W, Failure> {
    let island = in_transaction(store, |store| read_membership(&mut Erased::new(store)));
    if let Some((Membership { island, islands, .. }, _)) = island.or_check()? {
        return Err(Failure::usage(format!(
            "the directory holds {island} of a database of {islands} islands, which have transactions in common: open \
             them together, with the library or tombolo repartition"
        )));
    }
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

impl<W: Workload> Product<MemoryLogged, W> {
    /// An empty database with log and image in `directory`, which is empty or made.
    ///
    /// # Errors
    /// When they cannot be made.
    pub(crate) fn create(plan: Plan, directory: &Path) -> Result<Self, Failure> {
        let disk: Arc<dyn Disk> = Arc::new(OsDisk::create(directory).or_environment()?);
        let created = create_files(&[disk], &files::open_options(&plan));
        let Created { store, writer, checkpointing } = created.or_environment()?;
        let files = Files::created(directory, writer, checkpointing);
        Ok(Self::new(plan, store, Some(files)))
    }

    /// See [`create_part`].
    fn of_part(
        part: Part,
        plan: &Plan,
        limits: Limits,
        directory: PathBuf,
    ) -> Result<Self, Failure> {
        let mut options = engine::Options::new(&crate::settings::defaults(), threads::available());
        options.locate_ahead = plan.locate_ahead;
        let (clients, in_flight) = CALLERS;
        let plan = Plan {
            limits,
            pipeline: options,
            clients,
            in_flight,
            durability: Durability::Group,
            log: LogSettings::default(),
            image: None,
            ..plan.clone()
        };
        let mut product = match part.is_durable() {
            true => Self::create(plan, &directory)?,
            false => Self::new(plan, MemoryStore::new(limits), None),
        };
        (product.part, product.scratch) = (part, part.is_durable().then_some(directory));
        Ok(product)
    }
}

impl<P: MemoryProfile, W: Workload> Product<P, W> {
    fn new(plan: Plan, store: MemoryStore<P>, files: Option<Files>) -> Self {
        Self {
            meter: Meter::default(),
            state: State::Empty(Box::new(store)),
            plan,
            part: Part::Pipeline,
            clock: SystemClock::new(),
            files,
            records: LogBuffer::new(),
            log: None,
            room: None,
            usage: LogUsage::default(),
            flushes: FlushTimes::default(),
            latencies: ByKind::default(),
            found: PipelineOutcome::default(),
            scratch: None,
        }
    }

    fn store(&mut self) -> Result<&mut MemoryStore<P>, Failure> {
        match &mut self.state {
            State::Empty(store) => Ok(store),
            State::Ready(database) | State::Closed(database) => Ok(&mut database.store),
            State::Running(_) | State::Away => {
                Err(Failure::check("the pipeline has lost its rows"))
            }
        }
    }

    /// Takes the database before its first transaction.
    fn take(&mut self) -> Result<Database<P, W>, Stop> {
        match std::mem::replace(&mut self.state, State::Away) {
            State::Ready(database) => Ok(*database),
            other => {
                self.state = other;
                Err(NOT_LOADED)
            }
        }
    }
}

impl<P: MemoryProfile, W: Workload> Instance<W> for Product<P, W> {
    fn load(
        &mut self,
        workload: W,
        threads: usize,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<(), Failure> {
        // On a rung what was loaded is in no log.
        let is_kept = self.scratch.is_none();
        let mut files = self.files.take();
        let writer = files.as_mut().filter(|_| is_kept).and_then(|files| files.writer.take());
        let written = load::load(self.store()?, writer, &workload, threads, progress)?;
        if let (Some(files), Some(writer)) = (&mut files, written) {
            files.writer = Some(writer);
        }
        self.files = files;
        self.bind(workload).or_environment()
    }

    fn bind(&mut self, workload: W) -> Result<(), SchemaError> {
        self.state = match std::mem::replace(&mut self.state, State::Away) {
            State::Empty(store) => State::Ready(Box::new(Database::new(*store, &workload)?)),
            other => other,
        };
        Ok(())
    }

    fn start(&mut self, progress: &mut dyn Progress) -> Result<(), Failure> {
        match self.part {
            Part::Pipeline => self.start_pipeline(progress),
            Part::ValueLog | Part::GroupCommit => Ok(()),
        }
    }

    fn reserve(&mut self, inputs: &[W::Input]) -> Result<(), Failure> {
        match &mut self.state {
            State::Running(running) => running.clients.reserve(inputs),
            State::Ready(database) => {
                let reserved = Database::<_, W>::reserve(&mut database.store, W::new_rows(inputs));
                reserved.map(|_| ()).map_err(|stop| stopped(stop, 0))
            }
            _ => Err(stopped(NOT_LOADED, 0)),
        }
    }

    fn run(&mut self, inputs: &[W::Input], tally: &mut Tally) -> Result<(), Failure> {
        match self.part {
            Part::Pipeline => self.running()?.clients.run_unmeasured(inputs, tally),
            Part::ValueLog | Part::GroupCommit => {
                let ran = self.run_groups(inputs, tally);
                ran.map_err(|stop| stopped(stop, tally.done()))
            }
        }
    }

    fn takes_all_at_once(&self) -> bool {
        self.part == Part::Pipeline
    }

    fn begin(&mut self) {
        self.note_before();
    }

    fn run_on_all(
        &mut self,
        batch: Batch<'_, W::Input>,
        tally: &mut Tally,
    ) -> Result<Executed, Failure> {
        if self.part == Part::Pipeline {
            return self.run_measured(batch, tally);
        }
        let cpu = self.clock.thread_cpu();
        self.run(batch.inputs, tally)?;
        let engine_cpu = self.clock.thread_cpu().saturating_sub(cpu);
        Ok(Executed { engine_cpu, work: WorkDone::take() })
    }

    fn end(&mut self) {
        self.note_after();
    }

    fn answered(&mut self) -> Option<ByKind> {
        Some(std::mem::take(&mut self.latencies))
    }

    fn rest(&mut self) -> Result<Quiescent<'_>, Failure> {
        self.close()?;
        Ok(Quiescent::in_memory(self.store()?))
    }

    fn pipeline(&mut self) -> Option<PipelineOutcome> {
        (self.part == Part::Pipeline).then(|| std::mem::take(&mut self.found))
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

    fn log_usage(&self) -> Option<LogUsage> {
        match &self.state {
            State::Running(running) => Some(running.log_usage()),
            _ => self.part.is_durable().then_some(self.usage),
        }
    }

    fn save(self: Box<Self>) -> Result<(), Failure> {
        Ok(()) // it was when its pipeline ended
    }
}

impl<P: MemoryProfile, W: Workload> Drop for Product<P, W> {
    fn drop(&mut self) {
        // Why it cannot be ended was reported, or does not matter any more.
        let _ = self.close();
        (self.log, self.room, self.files) = (None, None, None);
        if let Some(directory) = &self.scratch {
            // What cannot be removed goes with the directory it is in.
            let _ = fs::remove_dir_all(directory);
        }
    }
}

#[cfg(test)]
mod tests;
