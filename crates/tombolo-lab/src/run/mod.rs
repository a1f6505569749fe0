//! `run`: one workload on one profile, from an empty store to a verified result.
//!
//! Load, warm up, measure throughput, time single transactions, verify every condition, hash the
//! state, count instructions — in this order; only the third is in the throughput figures. [`saved`] has
//! databases that several measurements open, [`counting`] counts instructions.
//!
//! Not here: which runs there can be (`plan/`), the loop (`drive/driver.rs`), what a result looks like
//! (`report/`), arguments and exit codes (the command).

pub mod counting;
pub mod saved;

use std::path::PathBuf;
use std::sync::Arc;

use tombolo_engine::clock::{Clock, SystemClock};
use tombolo_storage::disk::OsDisk;
use tombolo_storage::log::LogUsage;
use tombolo_storage::store::Usage;

use counting::GroupCost;

use crate::counters::miss;
use crate::drive::{ByKind, Deployed, Driver, Instance, PipelineOutcome, Throughput};
use crate::failure::{Blamed, Failure};
use crate::files::{FlushTimes, Place, RawFlush, TimedDisk};
use crate::histogram::Latencies;
use crate::plan::{Bound, Counter, Part, Plan, WARM_UP};
use crate::progress::Progress;
use crate::rows::{DumpDirectory, Quiescent, Verification};
use crate::workload::{matched_workload, with_workload};
use crate::{drive, files, host, numbers};

/// Bytes in front of a group's records, about.
const GROUP_HEADER_BYTES: u64 = 64;

/// What a run found.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What was run.
    pub plan: Plan,
    /// Loading: wall-clock and processor time in seconds.
    pub load_s: (f64, f64),
    /// Memory after loading.
    pub usage: Usage,
    /// What a dependent load that misses costs here, in nanoseconds.
    pub miss_ns: Option<f64>,
    /// The throughput pass.
    pub throughput: Throughput,
    /// What went through the log during the throughput pass.
    pub log: LogUsage,
    /// How long each of its flushes took.
    pub flushes: Latencies,
    /// Where the files lie.
    pub place: Option<Place>,
    /// The latency pass, by kind.
    pub latencies: ByKind,
    /// Bytes written to disks from before loading until after the passes; `None` where the kernel
    /// does not say.
    pub disk_bytes: Option<u64>,
    /// The checks.
    pub verification: Verification,
    /// The hash of all rows; none where the order of transactions was open.
    pub state_hash: Option<String>,
    /// What counted instructions.
    pub counter: Option<Counter>,
    /// Every count, all equal if the counter is exact.
    pub counts: Vec<Vec<GroupCost>>,
    /// Ticks of the time-stamp counter, where instructions were counted.
    pub cycles: Vec<GroupCost>,
    /// What each stage of the pipeline executes for a transaction, its log's part included, where
    /// that was counted: groups called `KIND.STAGE`.
    pub stages: Vec<GroupCost>,
    /// What the user should know besides.
    pub notes: Vec<String>,
    /// What the pipeline did, where there is one.
    pub pipeline: Option<PipelineOutcome>,
}

impl Outcome {
    /// What makes this run a failure, if anything does.
    pub fn failure(&self) -> Option<Failure> {
        if let Some(finding) = self.verification.damage.first() {
            let (check, what) = (&finding.check, &finding.what);
            return Some(Failure::check(format!(
                "check {check} failed: {what}: this is a defect of {}, please report the command",
                self.plan.profile
            )));
        }
        match self.disk_bytes {
            Some(bytes) if bytes > 0 && self.place.is_none() => Some(Failure::check(format!(
                "a run in memory wrote {bytes} bytes to disks: is the machine swapping, or \
                 standard error a file?"
            ))),
            _ => None,
        }
    }
}

/// Called with the figures of a run as soon as there are any; what verifies them, and counts, is still to come.
pub type Measured<'m> = &'m mut dyn FnMut(&Outcome);

/// Runs `plan`.
///
/// # Errors
/// When it cannot start or cannot finish; failed checks are part of the outcome.
pub fn run(
    plan: &Plan,
    dump: Option<PathBuf>,
    progress: &mut dyn Progress,
    measured: Measured<'_>,
) -> Result<Outcome, Failure> {
    with_workload!(plan.workload, scale => run_workload(plan, scale, dump, progress, measured))
}

fn run_workload<W: Deployed>(
    plan: &Plan,
    workload: W,
    dump: Option<PathBuf>,
    progress: &mut dyn Progress,
    show: Measured<'_>,
) -> Result<Outcome, Failure> {
    let (counter, note) = Counter::choose(&plan.counter)?;
    plan.verify_machine()?;
    let dump = dump.map(|path| DumpDirectory::create(path, "--dump")).transpose()?;
    let place = plan.make_place()?;
    let (clock, flushes) = (SystemClock::new(), FlushTimes::default());
    let disk_before = host::disk_bytes();
    let (mut instance, workload, load_s) =
        load(plan, workload, place.as_ref(), &flushes, &clock, progress)?;
    // That of a database that was opened is its own.
    let plan = Plan { workload: workload.into(), ..plan.clone() };
    let usage = instance.rest()?.usage();
    let miss_ns = miss::miss_ns(&mut || clock.now_ns(), miss::PROBE_BYTES).ok();
    instance.start(progress)?;
    let measured = measure(&plan, &workload, &clock, &flushes, &mut *instance, progress)?;
    progress.begin("closing");
    let store_end_bytes = instance.rest()?.usage().memory_bytes;
    progress.end();
    let mut pipeline = instance.pipeline();
    let mut notes: Vec<String> = note.into_iter().collect();
    if let Some(found) = &mut pipeline {
        found.store_end_bytes = store_end_bytes;
        found.raw_flush = place.as_ref().and_then(|place| probe(place, &clock, &measured));
        let cut = found.recovery.as_ref().and_then(|recovery| recovery.cut.as_ref());
        notes.extend(cut.map(|cut| files::notice(cut, true)));
        notes.append(&mut found.notes);
    }
    notes.extend(plan.notes());
    let disk_bytes = host::disk_bytes().zip(disk_before).map(|(after, before)| after - before);
    let mut outcome = Outcome {
        plan: plan.clone(),
        load_s,
        usage,
        miss_ns,
        throughput: measured.throughput,
        log: measured.log,
        flushes: measured.flushes,
        place,
        latencies: measured.latencies,
        disk_bytes,
        verification: Verification::default(),
        state_hash: None,
        counter,
        counts: Vec::new(),
        cycles: Vec::new(),
        stages: Vec::new(),
        notes,
        pipeline,
    };
    show(&outcome);
    (outcome.verification, outcome.state_hash) =
        look(&plan, instance.rest()?, dump.as_ref(), progress)?;
    let place = outcome.place.as_ref();
    end(&plan, instance, place)?; // the counted databases need the memory
    if outcome.pipeline.is_some() {
        outcome.stages = count_stages(&plan, &workload, counter, place, progress)?;
    }
    (outcome.counts, outcome.cycles) = count(&plan, &workload, counter, progress)?;
    Ok(outcome)
}

/// Times flushes like those of the run, without a database; without room for the file there is no figure.
fn probe(place: &Place, clock: &SystemClock, measured: &Passes) -> Option<RawFlush> {
    let log = &measured.log;
    let bytes = log.bytes.checked_div(log.flushes)? + GROUP_HEADER_BYTES;
    // Between two flushes of the run.
    let flush_ns = measured.flushes.summary().map_or(0.0, |flush| flush.mean * 1e3);
    let each_ns = measured.throughput.wall.as_nanos() as f64 / log.flushes as f64;
    let pause_ns = (each_ns - flush_ns).max(0.0) as u64;
    let disk = OsDisk::open(&place.path).ok()?;
    files::measure_raw_flush(&disk, clock, bytes, pause_ns).ok()
}

/// Verifies what the run left, and hashes and dumps it.
fn look(
    plan: &Plan,
    mut left: Quiescent<'_>,
    dump: Option<&DumpDirectory>,
    progress: &mut dyn Progress,
) -> Result<(Verification, Option<String>), Failure> {
    progress.begin("verifying");
    let verification = left.verify().or_check()?;
    progress.part(0.5, "hashing");
    let hash = left.hash(dump)?;
    progress.end();
    Ok((verification, plan.order_is_settled().then(|| hash.to_string())))
}

/// Saves a database that has files; another is only dropped.
fn end<W: Deployed>(
    plan: &Plan,
    instance: Box<dyn Instance<W>>,
    place: Option<&Place>,
) -> Result<(), Failure> {
    match place {
        Some(place) if place.is_fresh && !plan.keep_fresh => {
            drop(instance);
            place.remove()
        }
        Some(_) => instance.save(),
        None => Ok(()),
    }
}

type Counts = (Vec<Vec<GroupCost>>, Vec<GroupCost>);

fn count<W: Deployed>(
    plan: &Plan,
    workload: &W,
    counter: Option<Counter>,
    progress: &mut dyn Progress,
) -> Result<Counts, Failure> {
    let Some(counter) = counter else { return Ok(Counts::default()) };
    progress.begin(&format!("counting with {}", counter.name()));
    let mut counts = Vec::new();
    for repetition in 0..plan.repeat {
        progress.part(repetition as f64 / plan.repeat as f64, "");
        counts.push(counting::count(counter, plan, workload)?);
    }
    let cycles = counting::cycles(plan, workload)?;
    progress.end();
    Ok((counts, cycles))
}

/// Counts what the stages of a pipeline execute; nothing where there is no pipeline with a log, or no counter
/// that can separate the stages. The pipeline that is counted has its log next to the run's directory.
fn count_stages<W: Deployed>(
    plan: &Plan,
    workload: &W,
    counter: Option<Counter>,
    place: Option<&Place>,
    progress: &mut dyn Progress,
) -> Result<Vec<GroupCost>, Failure> {
    let (Some(Counter::Callgrind), Some(place)) = (counter, place) else { return Ok(Vec::new()) };
    let parent = match place.path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    progress.begin("counting the pipeline's stages");
    let plan = Plan { part: Some((Part::Pipeline, parent)), ..plan.clone() };
    let counts = counting::count(Counter::Callgrind, &plan, workload)?;
    progress.end();
    Ok(counts.into_iter().filter(|count| count.name.contains('.')).collect())
}

/// A database, the workload at the scale it has, and the wall-clock and processor time it took in seconds.
type Loaded<W> = (Box<dyn Instance<W>>, W, (f64, f64));

fn load<W: Deployed>(
    plan: &Plan,
    workload: W,
    place: Option<&Place>,
    flushes: &FlushTimes,
    clock: &SystemClock,
    progress: &mut dyn Progress,
) -> Result<Loaded<W>, Failure> {
    let mut instance = match place {
        Some(place) if plan.resume => {
            return drive::resume(plan, &workload, place, flushes, progress);
        }
        _ if plan.is_piped() => {
            drive::create_piped(plan, place.map(|place| &*place.path), flushes)?
        }
        _ => {
            let mut options = plan.options();
            if let Some(place) = place {
                let disk = OsDisk::open(&place.path).or_environment()?;
                options.disk = Arc::new(TimedDisk::new(disk, *clock, flushes.clone()));
            }
            drive::create(&plan.profile, &options)?
        }
    };
    progress.begin(&format!("loading {}", workload.describe()));
    let (wall, cpu) = (clock.now_ns(), clock.process_cpu());
    let loaded = instance.load(workload, plan.load_threads, &mut |done, of| {
        progress.part(done as f64 / of as f64, "");
    });
    let cpu_s = clock.process_cpu().saturating_sub(cpu).as_secs_f64();
    let wall_s = (clock.now_ns() - wall) as f64 / 1e9;
    progress.end();
    loaded.map(|()| (instance, workload, (wall_s, cpu_s)))
}

/// What the passes found.
struct Passes {
    throughput: Throughput,
    log: LogUsage,
    flushes: Latencies,
    latencies: ByKind,
}

fn measure<W: Deployed>(
    plan: &Plan,
    workload: &W,
    clock: &dyn Clock,
    flushes: &FlushTimes,
    instance: &mut dyn Instance<W>,
    progress: &mut dyn Progress,
) -> Result<Passes, Failure> {
    let mut inputs = workload.inputs();
    let mut driver = Driver::new(clock, &mut inputs, plan.batch, plan.reserve, plan.memory_limit);
    driver.warm_up(instance, WARM_UP)?;
    let before = instance.log_usage().unwrap_or_default();
    flushes.take();
    progress.begin(&format!("running {} on {}", plan.title(), plan.profile));
    let throughput = driver.run(instance, plan.bound, &mut |part, so_far| {
        let (rate, of) = match plan.is_piped() {
            true => (so_far.per_second(), "second"),
            false => (so_far.per_cpu_second(), "CPU-second"),
        };
        let rate = numbers::quantity(rate);
        progress.part(part, &format!("{rate} transactions per {of}"));
    })?;
    progress.end();
    let (log, flushes) = (since(instance.log_usage().unwrap_or_default(), before), flushes.take());
    // A disk may make each transaction wait: where time bounds a run, it bounds this pass too.
    let limit = match plan.bound {
        Bound::Time(time) => Some(time),
        Bound::Transactions(_) => None,
    };
    let latencies = driver.time(instance, plan.latency_transactions, plan.callers, limit)?;
    Ok(Passes { throughput, log, flushes, latencies })
}

/// What went through the log between `before` and `after`.
fn since(after: LogUsage, before: LogUsage) -> LogUsage {
    LogUsage {
        records: after.records - before.records,
        bytes: after.bytes - before.bytes,
        commits: after.commits - before.commits,
        aborts: after.aborts - before.aborts,
        flushes: after.flushes - before.flushes,
        flushed_bytes: after.flushed_bytes - before.flushed_bytes,
        buffer_full: after.buffer_full - before.buffer_full,
        ..after
    }
}

#[cfg(test)]
mod tests;
