//! The closed loop: batches of inputs go through an instance, outcomes and times come out.
//!
//! # What is measured
//! Inputs are made in large batches, each used once. Only executing a batch is measured: wall-clock time, processor
//! time of the process and of the executing threads (`engine_cpu_s`). The throughput pass has no probe. Where answers
//! are not timed as they come, latencies come from a pass of its own that reads the clock once per transaction; the
//! cost of a reading is measured and subtracted.
//!
//! Where memory is taken in advance (setting `reserve`), so is the memory that a batch's new rows
//! will need: what that costs is measured apart.
//!
//! # Callers
//! `callers` calls are under way all the time, at least one for each execution thread: when a call is answered
//! its caller makes the next immediately, which waits behind the others. A call's latency therefore runs from
//! the answer `callers` answers before its own, tries that gave way included.
//!
//! Not here: which store runs, and where inputs come from (an iterator).
//! Invariant: no thread but those that execute runs while a batch is executed.

use std::time::Duration;

use tombolo_engine::clock::Clock;

use super::{Batch, ByKind, Instance, Tally};
use crate::failure::Failure;
use crate::host;
use crate::plan::{Bound, Plan};
use crate::work::WorkDone;
use crate::workload::{Workload, WorkloadInput};

/// How many transactions run between two looks at the clock, at first, at least and at most.
const SLICE: usize = 500;
const SLICE_MIN: usize = 50;
const SLICE_MAX: usize = 5_000;
/// The time between two looks that is aimed at.
const LOOK_NS: std::ops::Range<u64> = 5_000_000..50_000_000;
/// Transactions of the latency pass that run between two looks at the clock, besides the callers'.
const TIMED: usize = 1_000;
/// Free memory below which a run ends before the system ends it.
const RESERVE_BYTES: u64 = 192 << 20;

/// The result of the throughput pass.
#[derive(Clone, Debug, Default)]
pub struct Throughput {
    /// How transactions ended.
    pub tally: Tally,
    /// Wall-clock time of executing.
    pub wall: Duration,
    /// Processor time of the whole process meanwhile.
    pub process_cpu: Duration,
    /// Processor time of the executing threads.
    pub engine_cpu: Duration,
    /// Uses of components.
    pub work: WorkDone,
    /// Processor time of taking memory beforehand; in none of the others.
    pub reserve_cpu: Duration,
}

impl Throughput {
    fn done(&self) -> u64 {
        self.tally.done()
    }

    /// How many transactions are left, at most; none when the pass is over.
    fn rest(&self, bound: Bound) -> Option<u64> {
        let rest = match bound {
            Bound::Transactions(wanted) => wanted - self.done(),
            Bound::Time(wanted) if self.wall >= wanted => 0,
            Bound::Time(_) => u64::MAX,
        };
        (rest > 0).then_some(rest)
    }

    /// Which part of the pass is done when after this were `since` and `done` more.
    fn part(&self, bound: Bound, since: Duration, done: u64) -> f64 {
        let part = match bound {
            Bound::Transactions(wanted) => (self.done() + done) as f64 / wanted as f64,
            Bound::Time(wanted) => (self.wall + since).as_secs_f64() / wanted.as_secs_f64(),
        };
        part.min(1.0)
    }

    /// Committed transactions per second of processor time.
    pub fn per_cpu_second(&self) -> f64 {
        per_second(self.tally.total().committed, self.engine_cpu)
    }

    /// Committed transactions per second of wall-clock time.
    pub fn per_second(&self) -> f64 {
        per_second(self.tally.total().committed, self.wall)
    }
}

fn per_second(count: u64, time: Duration) -> f64 {
    if time.is_zero() { 0.0 } else { count as f64 / time.as_secs_f64() }
}

/// Drives one instance.
pub struct Driver<'a, I> {
    /// The clock.
    pub clock: &'a dyn Clock,
    /// The source of inputs.
    pub inputs: &'a mut (dyn Iterator<Item = I> + Send),
    /// The inputs made at a time.
    pub batch: usize,
    /// Whether memory for a batch's rows is taken before the batch is executed.
    pub reserve: bool,
    /// Memory this process may occupy.
    pub memory_limit: Option<u64>,
    slice: usize,
}

impl<'a, I: WorkloadInput> Driver<'a, I> {
    /// A driver that takes its inputs from `inputs`, as many at a time as `plan` has it.
    pub fn new(
        clock: &'a dyn Clock,
        inputs: &'a mut (dyn Iterator<Item = I> + Send),
        plan: &Plan,
    ) -> Self {
        let Plan { batch, reserve, memory_limit, .. } = *plan;
        Self { clock, inputs, batch, reserve, memory_limit, slice: SLICE }
    }

    /// Makes the next `count` inputs and takes the memory for their rows, if it is to be taken beforehand;
    /// returns them with the processor time of taking memory.
    fn prepare<W: Workload<Input = I>>(
        &mut self,
        instance: &mut dyn Instance<W>,
        batch: &mut Vec<I>,
        count: usize,
    ) -> Result<Duration, Failure> {
        batch.clear();
        batch.extend(self.inputs.take(count));
        if !self.reserve {
            return Ok(Duration::ZERO);
        }
        let before = self.clock.process_cpu();
        instance.reserve(batch)?;
        Ok(self.clock.process_cpu().saturating_sub(before))
    }

    /// Runs `count` transactions without measuring them.
    ///
    /// # Errors
    /// The store's error.
    pub fn warm_up<W: Workload<Input = I>>(
        &mut self,
        instance: &mut dyn Instance<W>,
        count: usize,
    ) -> Result<(), Failure> {
        let batch: Vec<_> = self.inputs.take(count).collect();
        instance.run(&batch, &mut Tally::default())
    }

    /// The throughput pass.
    ///
    /// `progress` is called with which part of the whole is done, and what was found so far.
    ///
    /// # Errors
    /// The store's error, or that memory is used up.
    pub fn run<W: Workload<Input = I>>(
        &mut self,
        instance: &mut dyn Instance<W>,
        bound: Bound,
        progress: &mut dyn FnMut(f64, &Throughput),
    ) -> Result<Throughput, Failure> {
        let mut found = Throughput::default();
        let mut batch = Vec::new();
        while let Some(rest) = found.rest(bound) {
            verify_memory(self.memory_limit, &found)?;
            // No more than are wanted: what runs afterwards continues with the input after the last.
            let count = rest.min(self.batch as u64) as usize;
            found.reserve_cpu += self.prepare(instance, &mut batch, count)?;
            self.run_batch(instance, &batch, bound, &mut found, progress)?;
            progress(found.part(bound, Duration::ZERO, 0), &found);
        }
        Ok(found)
    }

    /// Executes one batch, or the part of it that fits the bound. Only this is measured.
    fn run_batch<W: Workload<Input = I>>(
        &mut self,
        instance: &mut dyn Instance<W>,
        batch: &[I],
        bound: Bound,
        found: &mut Throughput,
        progress: &mut dyn FnMut(f64, &Throughput),
    ) -> Result<(), Failure> {
        let (clock, before) = (self.clock, found.clone());
        let at_once = instance.takes_all_at_once();
        instance.begin();
        let (process, start) = (clock.process_cpu(), clock.now_ns());
        let mut report = |done: usize| {
            let since = Duration::from_nanos(clock.now_ns() - start);
            progress(before.part(bound, since, done as u64), &before);
        };
        let (mut rest, mut last) = (batch, start);
        while !rest.is_empty() {
            let count = if at_once { rest.len() } else { self.slice.min(rest.len()) };
            let (slice, after) = rest.split_at(count);
            rest = after;
            let time_left = match bound {
                Bound::Time(wanted) => Some(wanted.saturating_sub(found.wall)),
                Bound::Transactions(_) => None,
            };
            let batch = Batch { inputs: slice, clock, time_left, report: &mut report };
            let executed = instance.run_on_all(batch, &mut found.tally);
            let now = clock.now_ns();
            found.wall = before.wall + Duration::from_nanos(now - start);
            let executed = executed?;
            found.engine_cpu += executed.engine_cpu;
            found.work.add(&executed.work);
            if time_left.is_some_and(|_| found.rest(bound).is_none()) {
                break;
            }
            self.adapt_slice(now - last);
            last = now;
        }
        found.process_cpu += clock.process_cpu().saturating_sub(process);
        instance.end();
        Ok(())
    }

    /// Makes slices longer or shorter: a transaction takes a microsecond, or waits for a disk.
    fn adapt_slice(&mut self, took_ns: u64) {
        if took_ns < LOOK_NS.start {
            self.slice = (self.slice * 2).min(SLICE_MAX);
        } else if took_ns > LOOK_NS.end {
            self.slice = (self.slice / 2).max(SLICE_MIN);
        }
    }

    /// The latency pass: up to `count` further transactions, `callers` under way at a time; it ends
    /// earlier after about `limit`, if there is one.
    ///
    /// # Errors
    /// The store's error.
    pub fn time<W: Workload<Input = I>>(
        &mut self,
        instance: &mut dyn Instance<W>,
        count: usize,
        callers: usize,
        limit: Option<Duration>,
    ) -> Result<ByKind, Failure> {
        if let Some(latencies) = instance.answered() {
            // As many more as would be timed one by one elsewhere, so that all leave the same rows.
            if limit.is_none() && count > 0 {
                self.warm_up(instance, count + callers)?;
            }
            return Ok(latencies);
        }
        let mut latencies = ByKind::default();
        let probe = reading_ns(self.clock);
        let at_once = if limit.is_some() { TIMED.max(4 * callers) } else { count };
        let (mut batch, mut ends) = (Vec::new(), Vec::new());
        let (start, mut rest) = (self.clock.now_ns(), count);
        let is_over =
            |now: u64| limit.is_some_and(|limit| u128::from(now - start) > limit.as_nanos());
        while rest > 0 && !is_over(self.clock.now_ns()) {
            let now = rest.min(at_once);
            rest -= now;
            // Until every caller has had one answer the queue is shorter than it will be.
            self.prepare(instance, &mut batch, now + callers)?;
            ends.clear();
            ends.resize(batch.len(), 0);
            instance.run_timed(&batch, self.clock, &mut ends)?;
            record(&mut latencies, &batch, &ends, callers, probe);
        }
        Ok(latencies)
    }
}

/// Ends a run before the system would end the process.
///
/// # Errors
/// When what may be taken is used up.
fn verify_memory(limit: Option<u64>, found: &Throughput) -> Result<(), Failure> {
    let resident = host::resident_bytes();
    let used_up = match limit {
        Some(limit) => resident > limit,
        None => host::available_bytes() < RESERVE_BYTES,
    };
    if !used_up {
        return Ok(());
    }
    Err(Failure::environment(format!(
        "memory is used up after {} transactions ({} MB taken): give fewer --seconds or \
         --transactions, or a higher --memory-limit",
        found.done(),
        resident >> 20
    )))
}

/// Adds the latencies of `inputs`, which ended at `ends`, to those of their kinds.
///
/// A caller makes its next call when it is answered: call i is made with answer i − `callers`, in
/// the order of answers, whichever call that was of.
fn record<I: WorkloadInput>(
    latencies: &mut ByKind,
    inputs: &[I],
    ends: &[u64],
    callers: usize,
    probe: u64,
) {
    let mut answers = ends.to_vec();
    answers.sort_unstable();
    for (i, input) in inputs.iter().enumerate().skip(callers) {
        let ns = ends[i] - answers[i - callers];
        let probes = probe * callers as u64;
        latencies[input.kind().place()].record(ns.saturating_sub(probes));
    }
}

/// The cost of reading the clock: the median of many pairs of readings.
pub(crate) fn reading_ns(clock: &dyn Clock) -> u64 {
    let mut costs = [0; 1_001];
    for cost in &mut costs {
        let before = clock.now_ns();
        *cost = clock.now_ns() - before;
    }
    costs.sort_unstable();
    costs[costs.len() / 2]
}

#[cfg(test)]
mod tests;
