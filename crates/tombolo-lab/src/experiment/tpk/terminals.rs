//! A run as the paper made it (TPK-28, TPK-37, TPK-38): an input thread that makes transactions and
//! waits for a terminal with each, an output stage that waits for one with each answer, response
//! times from the one to the other, and checkpoints at equal distances.
//!
//! The calling thread is the input thread: it makes a transaction, is busy for as long as a terminal
//! takes, puts the time on it and hands it over. Answers are shown in [`Sink::deliver`], on the output
//! stage's thread, which is busy for as long as well. So that response times stay within a second, a
//! few groups are under way at most; a thread that waits for that is not busy. Not here: which runs a table
//! needs (`table.rs`).

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tombolo_engine::clock::{Clock, SystemClock};
use tombolo_engine::pipeline::{
    Busy, CheckpointHandle, Durability, Failure as CallFailure, Pipeline, Reply, Sink, Statistics,
    Submitter, Tagged,
};
use tombolo_engine::threads::{self, OnCores};
use tombolo_engine::transaction::Stop;
use tombolo_storage::profile::MemoryLogged;

use super::configuration::Configuration;
use crate::drive::{Answered, Database, Instance, Product, Request, pipeline_busy_since};
use crate::failure::{Blamed, Failure};
use crate::histogram::Latencies;
use crate::host::{self, Switches};
use crate::plan::Plan;
use crate::progress::Progress;
use crate::settings::{Settings, Source};
use crate::workload;
use crate::workload::Workload;
use crate::workload::debit_credit::Scale;

/// Groups under way at most.
const GROUPS_UNDER_WAY: u64 = 4;
/// How long a group waits for transactions that do not come.
const TIME_PER_GROUP: &str = "250ms";
/// Checkpoints of a run (TPK-38).
const CHECKPOINTS: u64 = 5;
/// Transactions between two looks at how far a run is.
const LOOK: u64 = 1_024;

type Piped = Pipeline<Database<MemoryLogged, Scale>>;

/// The parameters of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    pub(super) configuration: Configuration,
    /// Transactions of a group.
    pub(super) group: u64,
    pub(super) scale: Scale,
    pub(super) transactions: u64,
    /// How long a terminal takes for a transaction, and for its answer.
    pub(super) terminal: Duration,
}

/// The measurements of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct Measured {
    pub(super) wall: Duration,
    /// Processor time of the process, and of the one that writes checkpoints, if that is another.
    pub(super) cpu: Duration,
    pub(super) committed: u64,
    pub(super) aborted: u64,
    /// From input to output.
    pub(super) responses: Latencies,
    /// How long the input thread was busy.
    pub(super) input: Duration,
    /// How long the stages were.
    pub(super) busy: Busy,
    pub(super) switches: Option<Switches>,
    /// Transactions of a flush of the log, on average.
    pub(super) per_flush: f64,
    /// Checkpoints that were completed.
    pub(super) checkpoints: u64,
}

impl Measured {
    /// Transactions per second.
    pub(super) fn tps(&self) -> f64 {
        self.done() as f64 / self.wall.as_secs_f64().max(1e-9)
    }

    pub(super) fn done(&self) -> u64 {
        self.committed + self.aborted
    }
}

/// The answers.
#[derive(Debug, Default)]
struct Seen {
    committed: u64,
    aborted: u64,
    responses: Latencies,
    /// Why nothing more may come.
    broken: Option<String>,
}

impl Seen {
    fn answered(&self) -> u64 {
        self.committed + self.aborted
    }

    /// Counts an answer that took so long.
    fn take(&mut self, reply: Reply<Answered<Scale>>, ns: u64) {
        self.responses.record(ns);
        match reply.outcome() {
            Ok(Ok(_)) => self.committed += 1,
            Ok(Err(CallFailure::Stopped(Stop::Abort(_)))) => self.aborted += 1,
            Ok(Err(failure)) => self.broken = Some(failure.to_string()),
            Err(refusal) => self.broken = Some(refusal.to_string()),
        }
    }
}

/// The terminals that answers go to. A call's tag is when it was made.
#[derive(Debug)]
struct Terminals {
    clock: SystemClock,
    ns: u64,
    seen: Mutex<Seen>,
    changed: Condvar,
    /// How many were answered, for callers that need not wait.
    answered: AtomicU64,
}

impl Terminals {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Is busy for as long as one takes.
    fn wait_for_one(&self) {
        if self.ns > 0 {
            let until_ns = self.clock.now_ns() + self.ns;
            while self.clock.now_ns() < until_ns {
                std::hint::spin_loop();
            }
        }
    }

    /// Takes answers that came together.
    fn take(&self, replies: impl Iterator<Item = Tagged<Answered<Scale>>>) {
        let now_ns = self.clock.now_ns();
        let mut seen = self.seen();
        replies.for_each(|(made_ns, reply)| seen.take(reply, now_ns - made_ns));
        // Relaxed: only how many there are is passed on; a waiting thread looks under the mutex.
        self.answered.store(seen.answered(), Ordering::Relaxed);
        drop(seen);
        self.changed.notify_one();
    }

    /// Sleeps until this many calls are answered; returns how long.
    fn wait_until(&self, answered: u64) -> Result<u64, Failure> {
        if self.answered.load(Ordering::Relaxed) >= answered {
            return Ok(0);
        }
        let mut seen = self.seen();
        let begun_ns = self.clock.now_ns();
        while seen.answered() < answered && seen.broken.is_none() {
            seen = self.changed.wait(seen).unwrap_or_else(PoisonError::into_inner);
        }
        match &seen.broken {
            Some(why) => Err(Failure::environment(format!("the run ended: {why}"))),
            None => Ok(self.clock.now_ns() - begun_ns),
        }
    }
}

impl Sink<Answered<Scale>> for Terminals {
    fn deliver(&self, replies: &mut Vec<Tagged<Answered<Scale>>>) {
        if self.ns == 0 {
            return self.take(replies.drain(..));
        }
        for reply in replies.drain(..) {
            self.wait_for_one();
            self.take(std::iter::once(reply));
        }
    }

    fn broken(&self, reason: &Arc<str>) {
        self.seen().broken = Some(reason.to_string());
        self.changed.notify_one();
    }
}

/// Runs a point in `directory`, which is made.
///
/// # Errors
/// When it cannot start or does not come to its end.
pub(super) fn measure(
    point: &Point,
    settings: &Settings,
    directory: &Path,
    progress: &mut dyn Progress,
) -> Result<Measured, Failure> {
    let clock = SystemClock::new();
    let mut plan = plan(point, settings)?;
    // They are asked for.
    (plan.pipeline.checkpoint.log_bytes, plan.pipeline.checkpoint.at_close) = (u64::MAX, false);
    let threads = plan.load_threads;
    let mut database = Product::create(plan, directory)?;
    database.load(point.scale, threads, &mut |_, _| ())?;
    let bound = match point.configuration {
        Configuration::A => Some(OnCores::bind_to_one().or_environment()?),
        Configuration::B | Configuration::C => None,
    };
    let terminals = Arc::new(Terminals {
        clock,
        ns: point.terminal.as_nanos() as u64,
        seen: Mutex::default(),
        changed: Condvar::new(),
        answered: AtomicU64::new(0),
    });
    database.start(progress)?;
    let pipeline = database.running_pipeline()?;
    let submitter = pipeline.register(terminals.clone());
    let measured = run(point, pipeline, &submitter, &terminals, progress);
    drop(submitter);
    database.rest()?;
    drop(bound);
    measured
}

/// The settings of a point, and what follows from them.
fn plan(point: &Point, settings: &Settings) -> Result<Plan, Failure> {
    let mut settings = settings.clone();
    point.configuration.apply(&mut settings, threads::available())?;
    let group = point.group.to_string();
    settings.set("transactions_per_group", &group, Source::Flag)?;
    settings.set("time_per_group", TIME_PER_GROUP, Source::Flag)?;
    Plan::of(workload::info::<Scale>(), &settings)
}

/// Lets the input thread, which is this one, put in all transactions.
fn run(
    point: &Point,
    pipeline: &Piped,
    submitter: &Submitter<Request<Scale>, Answered<Scale>>,
    terminals: &Terminals,
    progress: &mut dyn Progress,
) -> Result<Measured, Failure> {
    let Point { configuration, group, transactions, .. } = *point;
    progress.begin(&format!("configuration {}, groups of {group}", configuration.name()));
    let (clock, under_way) = (terminals.clock, GROUPS_UNDER_WAY * group);
    let before: Statistics = pipeline.statistics();
    let (switches, cpu) = (host::switches(), clock.process_cpu());
    let (begun_ns, mut waited_ns) = (clock.now_ns(), 0);
    // So that the last one ends within the run, too.
    let distance = (transactions / CHECKPOINTS).max(1);
    let mut checkpoints: Vec<CheckpointHandle> = Vec::new();
    for (n, input) in (1..=transactions).zip(point.scale.inputs()) {
        waited_ns += terminals.wait_until(n.saturating_sub(under_way))?;
        terminals.wait_for_one();
        let request = Request::Run { input, number: None };
        let put = submitter.submit(request, clock.now_ns(), Durability::Group);
        put.map_err(|(_, why)| Failure::environment(format!("the run ended: {why}")))?;
        if n % distance == distance.div_ceil(2) {
            checkpoints.push(pipeline.checkpoint());
        }
        if n % LOOK == 0 {
            progress.part(n as f64 / transactions as f64, "");
        }
    }
    let input_ns = clock.now_ns() - begun_ns - waited_ns;
    terminals.wait_until(transactions)?;
    let wall = Duration::from_nanos(clock.now_ns() - begun_ns);
    let cpu = clock.process_cpu().saturating_sub(cpu);
    let switches = host::switches().zip(switches).map(|(after, before)| after.since(before));
    let after = pipeline.statistics();
    let of_other = after.checkpoint.process_cpu_ns - before.checkpoint.process_cpu_ns;
    let cpu = cpu + Duration::from_nanos(of_other);
    progress.end();
    let completed = checkpoints.iter().filter(|checkpoint| checkpoint.wait().is_ok()).count();
    let seen = std::mem::take(&mut *terminals.seen());
    let flushes = after.flushes - before.flushes;
    let flushed = after.flushed_transactions - before.flushed_transactions;
    Ok(Measured {
        wall,
        cpu,
        committed: seen.committed,
        aborted: seen.aborted,
        responses: seen.responses,
        input: Duration::from_nanos(input_ns),
        busy: pipeline_busy_since(after.busy, before.busy),
        switches,
        per_flush: flushed as f64 / flushes.max(1) as f64,
        checkpoints: completed as u64,
    })
}
