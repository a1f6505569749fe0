//! `run`: one workload on one profile, from an empty store to a verified result.
//!
//! Load, warm up, measure throughput, time single transactions, verify every condition, hash the
//! state, count instructions — in this order; only the third is in the throughput figures. [`saved`] has
//! databases that several measurements open, [`counting`] counts instructions, `result` fills the result in.
//!
//! Not here: which runs there can be (`plan/`), the loop (`drive/driver.rs`), what a result looks like
//! (`report/`), arguments and exit codes (the command).

pub mod counting;
mod result;
pub mod saved;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tombolo_engine::clock::{Clock, SystemClock};
use tombolo_storage::disk::OsDisk;
use tombolo_storage::log::{Durability, LogFailure, LogUsage};
use tombolo_storage::paged::pool::{PAGES_FILE, PoolUsage};
use tombolo_storage::paged::store::OpenError;
use tombolo_storage::value_log::{self, LogFailure as SegmentsFailure};

use counting::GroupCost;

use crate::counters::miss;
use crate::drive::{ByKind, Deployed, Driver, Instance, NoDatabase, Throughput};
use crate::failure::{Blamed, Failure};
use crate::files::{FlushTimes, Place, RawFlush, TimedDisk};
use crate::histogram::{Latencies, Summary};
use crate::plan::{Bound, Counter, Options, Part, Plan, WARM_UP};
use crate::progress::Progress;
use crate::report::rounded;
use crate::report::run::{RestartResult, RunResult};
use crate::rows::{DumpDirectory, Quiescent, Verification};
use crate::workload::{matched_workload, with_workload};
use crate::{drive, files, host, numbers};

/// A run's result, and what makes it a failure, if anything does.
pub type Ran = (RunResult, Option<Failure>);

/// Called with the result of a run as soon as there are figures, before they are verified and instructions counted.
pub type OnFigures<'f> = &'f mut dyn FnMut(&RunResult);

/// Runs `plan`.
///
/// # Errors
/// When it cannot start or cannot finish. Failed checks are part of what it returns.
pub fn run(
    plan: &Plan,
    dump: Option<PathBuf>,
    progress: &mut dyn Progress,
    on_figures: OnFigures<'_>,
) -> Result<Ran, Failure> {
    with_workload!(plan.workload, scale => {
        run_workload(plan, scale, dump, progress, on_figures)
    })
}

/// The failure of a run whose checks do not hold.
fn failure(result: &RunResult, verification: &Verification) -> Option<Failure> {
    if let Some(finding) = verification.damage.first() {
        let (check, what) = (&finding.check, &finding.what);
        return Some(Failure::check(format!(
            "check {check} failed: {what}: this is a defect of {}, please report the command",
            result.profile
        )));
    }
    match result.disk_bytes {
        Some(bytes) if bytes > 0 && result.data_dir.is_none() => Some(Failure::check(format!(
            "a run in memory wrote {bytes} bytes to disks: is the machine swapping, or \
             standard error a file?"
        ))),
        _ => None,
    }
}

fn run_workload<W: Deployed>(
    plan: &Plan,
    workload: W,
    dump: Option<PathBuf>,
    progress: &mut dyn Progress,
    on_figures: OnFigures<'_>,
) -> Result<Ran, Failure> {
    let (counter, note) = Counter::choose(&plan.counter)?;
    plan.verify_machine()?;
    let dump = dump.map(|path| DumpDirectory::create(path, "--dump")).transpose()?;
    let place = plan.make_place()?;
    let place = place.as_ref();
    let (clock, flushes) = (SystemClock::new(), FlushTimes::default());
    let disk_before = host::disk_bytes();
    let (mut instance, workload, load_s) = load(plan, workload, place, &flushes, &clock, progress)?;
    // That of a database that was opened is its own.
    let plan = &Plan { workload: workload.into(), ..plan.clone() };
    let mut result = RunResult::of_plan(plan);
    (result.load_wall_s, result.load_cpu_s) = (rounded(load_s.0, 6), rounded(load_s.1, 6));
    result.restart = instance.restart().map(|restart| RestartResult::new(restart, load_s.0));
    (result.data_dir, result.data_fs) =
        place.map(|place| (place.path.display().to_string(), place.file_system.clone())).unzip();
    result.add_usage(&instance.rest()?.usage());
    let miss_ns = miss::miss_ns(&mut || clock.now_ns(), miss::PROBE_BYTES).ok();
    result.miss_ns = miss_ns.map(|ns| rounded(ns, 1));
    instance.start(progress)?;
    let passes = measure(plan, &workload, &clock, &flushes, &mut *instance, progress)?;
    result.add_passes(plan, &passes);
    if let Some(pool) = passes.pool {
        let raw_read = place.and_then(|place| raw_read(place, &clock, &pool, plan.seed));
        result.add_pool(&pool, raw_read);
    }
    progress.begin("closing");
    let store_end_bytes = instance.rest()?.usage().memory_bytes;
    progress.end();
    let mut pipeline = instance.pipeline();
    result.notes.extend(note);
    if let Some(found) = &mut pipeline {
        found.store_end_bytes = store_end_bytes;
        found.raw_flush = place.and_then(|place| raw_flush(place, &clock, &passes));
        result.add_pipeline(plan, found, &passes);
        let cut = found.recovery.as_ref().and_then(|recovery| recovery.cut.as_ref());
        result.notes.extend(cut.map(|cut| files::notice(cut, true)));
        result.notes.append(&mut found.notes);
    }
    result.notes.extend(plan.notes());
    result.disk_bytes = host::disk_bytes().zip(disk_before).map(|(after, before)| after - before);
    result.counter = counter.map(|counter| counter.name().to_owned());
    on_figures(&result);
    let (verification, state_hash) = verify(plan, instance.rest()?, dump.as_ref(), progress)?;
    result.add_verification(&verification, state_hash);
    close(plan, instance, place)?; // the databases on which instructions are counted need its memory
    if pipeline.is_some() {
        result.add_stage_costs(&count_stages(plan, &workload, counter, place, progress)?);
    }
    let (counts, cycles) = count(plan, &workload, counter, progress)?;
    result.add_counts(&counts, &cycles);
    let failure = failure(&result, &verification);
    Ok((result, failure))
}

/// Times flushes like those of the run, without a database; without room for the file there is no figure.
fn raw_flush(place: &Place, clock: &SystemClock, measured: &Passes) -> Option<RawFlush> {
    let log = &measured.log;
    let bytes = log.bytes.checked_div(log.flushes)? + files::GROUP_HEADER_BYTES;
    // Between two flushes of the run.
    let flush_ns = measured.flushes.summary().map_or(0.0, |flush| flush.mean * 1e3);
    let each_ns = measured.throughput.wall.as_nanos() as f64 / log.flushes as f64;
    let pause_ns = (each_ns - flush_ns).max(0.0) as u64;
    let disk = OsDisk::open(&place.path).ok()?;
    files::measure_raw_flush(&disk, clock, bytes, pause_ns).ok()
}

/// Times reads of pages like those of the run's misses, without a database; none if nothing was read.
fn raw_read(place: &Place, clock: &SystemClock, pool: &PoolUsage, seed: u64) -> Option<Summary> {
    let disk = OsDisk::open(&place.path).ok().filter(|_| pool.misses > 0)?;
    files::measure_raw_read(&disk, clock, (PAGES_FILE, pool.page_bytes), seed).ok()?.summary()
}

/// Verifies the database after the run, hashes it, and dumps it if asked to.
fn verify(
    plan: &Plan,
    mut database: Quiescent<'_>,
    dump: Option<&DumpDirectory>,
    progress: &mut dyn Progress,
) -> Result<(Verification, Option<String>), Failure> {
    progress.begin("verifying");
    let verification = database.verify().or_check()?;
    progress.part(0.5, "hashing");
    let hash = database.hash(dump)?;
    progress.end();
    Ok((verification, plan.order_is_settled().then(|| hash.to_string())))
}

/// Saves a database that has files, or removes them if the run made them up; another database is only dropped.
fn close<W: Deployed>(
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
        Some(place) if plan.resume && plan.is_piped() => {
            return drive::resume(plan, &workload, place, flushes, progress);
        }
        Some(place) if plan.resume => {
            return resume(plan, &workload, place, (flushes, clock), progress);
        }
        _ if plan.is_piped() => {
            drive::create_piped(plan, place.map(|place| &*place.path), flushes)?
        }
        _ => {
            let options = match place {
                Some(place) => on_disk(plan, place, flushes, clock)?,
                None => plan.options(),
            };
            drive::create(&plan.profile, &options)?
        }
    };
    progress.begin(&format!("loading {}", workload.describe()));
    let (wall, cpu) = (clock.now_ns(), clock.process_cpu());
    let loaded = instance.load(workload, plan.load_threads, &mut |done, of| {
        progress.part(done as f64 / of as f64, "");
    });
    let load_s = seconds_since(clock, wall, cpu);
    progress.end();
    loaded.map(|()| (instance, workload, load_s))
}

/// Wall-clock and processor time, in seconds, since the clock showed these.
fn seconds_since(clock: &SystemClock, wall_ns: u64, cpu: Duration) -> (f64, f64) {
    let cpu_s = clock.process_cpu().saturating_sub(cpu).as_secs_f64();
    ((clock.now_ns() - wall_ns) as f64 / 1e9, cpu_s)
}

/// The options with which a database on pages in a directory is made or opened.
fn on_disk(
    plan: &Plan,
    place: &Place,
    flushes: &FlushTimes,
    clock: &SystemClock,
) -> Result<Options, Failure> {
    let disk = OsDisk::open(&place.path).or_environment()?;
    Ok(Options { disk: Arc::new(TimedDisk::new(disk, *clock, flushes.clone())), ..plan.options() })
}

/// Opens a database on pages, which is restarted if it was not closed.
fn resume<W: Deployed>(
    plan: &Plan,
    workload: &W,
    place: &Place,
    (flushes, clock): (&FlushTimes, &SystemClock),
    progress: &mut dyn Progress,
) -> Result<Loaded<W>, Failure> {
    let has_log = value_log::holds_log(&OsDisk::open(&place.path).or_environment()?);
    if plan.durability == Durability::None && has_log.or_environment()? {
        return Err(Failure::usage(format!(
            "{} holds a database with a log, which is not written without it: use --durability group",
            place.path.display()
        )));
    }
    let options = on_disk(plan, place, flushes, clock)?;
    let (wall, cpu) = (clock.now_ns(), clock.process_cpu());
    let opened = files::restarting(clock, progress, |report| {
        drive::open_saved(&plan.profile, &options, report)
    });
    let mut instance = opened.map_err(|error| not_opened(&place.path, &error))?;
    let load_s = seconds_since(clock, wall, cpu);
    let found = drive::found(workload, instance.rest()?.store());
    let bound = found.and_then(|workload| match instance.bind(workload) {
        Ok(()) => Ok(workload),
        Err(error) => Err(Failure::usage(format!("{}: {error}", place.path.display()))),
    });
    match bound {
        Ok(workload) => Ok((instance, workload, load_s)),
        Err(refusal) => {
            // It is left as it was found: closed, or restarted, at least.
            instance.save()?;
            Err(refusal)
        }
    }
}

/// Why a database on pages is not opened.
fn not_opened(directory: &Path, error: &NoDatabase) -> Failure {
    let path = directory.display();
    match error {
        NoDatabase::Refused(OpenError::Log(error))
            if *error.failure() == LogFailure::Segments(SegmentsFailure::NoLog) =>
        {
            Failure::usage(format!(
                "{path} holds a database without a log, as --durability none makes it: use --durability none"
            ))
        }
        error => Failure::environment(format!("{path}: {error}")),
    }
}

/// The results of the passes.
struct Passes {
    throughput: Throughput,
    log: LogUsage,
    flushes: Latencies,
    latencies: ByKind,
    /// Of the measured part.
    pool: Option<PoolUsage>,
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
    let mut driver = Driver::new(clock, &mut inputs, plan);
    driver.warm_up(instance, WARM_UP)?;
    let before = instance.log_usage().unwrap_or_default();
    let pool_before = instance.pool_usage();
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
    let pool = instance.pool_usage().zip(pool_before).map(|(after, before)| PoolUsage {
        hits: after.hits - before.hits,
        misses: after.misses - before.misses,
        passed: after.passed - before.passed,
        ..after
    });
    // A disk may make each transaction wait: where time bounds a run, it bounds this pass too.
    let limit = match plan.bound {
        Bound::Time(time) => Some(time),
        Bound::Transactions(_) => None,
    };
    let latencies = driver.time(instance, plan.latency_transactions, plan.callers, limit)?;
    Ok(Passes { throughput, log, flushes, latencies, pool })
}

/// The use of the log between `before` and `after`.
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
