//! The result of a run, filled in as the run finds out.
//!
//! Not here: what the fields are (`report/run.rs`), measuring.

use std::collections::BTreeMap;
use std::time::Duration;

use tombolo_engine::pipeline::Busy;
use tombolo_storage::paged::pool::PoolUsage;
use tombolo_storage::store::Usage;

use super::Passes;
use super::counting::GroupCost;
use crate::counters::Category;
use crate::drive::{Outcomes, PipelineOutcome};
use crate::histogram::{Latencies, SECOND_NS, Summary};
use crate::plan::Plan;
use crate::report::rounded;
use crate::report::run::{
    ByStage, ByTransaction, Calls, Counted, LoopResult, PoolResult, RunResult, closed,
};
use crate::report::scale::ScaleResult;
use crate::rows::Verification;

/// The stages with the names of their threads, of which the system keeps 15 characters.
const STAGES: [(&str, &str); 5] = [
    ("input", "tombolo-input"),
    ("execution", "tombolo-executi"),
    ("logging", "tombolo-logging"),
    ("output", "tombolo-output"),
    ("checkpoint", "tombolo-checkpo"),
];

impl RunResult {
    /// The result with the fields that are known before the run.
    pub(super) fn of_plan(plan: &Plan) -> Self {
        let kind = if plan.rate.is_some() { "open".to_owned() } else { closed() };
        Self {
            workload: plan.workload.info().name.to_owned(),
            scale: ScaleResult::from(plan),
            profile: plan.profile.clone(),
            durability: plan.durability_name().to_owned(),
            islands: 1,
            threads: plan.threads as u64,
            clients: plan.clients as u64,
            in_flight: plan.in_flight as u64,
            calls: LoopResult { kind, rate: plan.rate, ..LoopResult::default() },
            ..Self::default()
        }
    }

    /// Adds the store's memory after loading.
    pub(super) fn add_usage(&mut self, usage: &Usage) {
        self.memory_bytes = usage.memory_bytes;
        self.raw_row_bytes = usage.raw_row_bytes;
        self.raw_key_bytes = usage.raw_key_bytes;
    }

    /// Adds the results of the passes.
    pub(super) fn add_passes(&mut self, plan: &Plan, passes: &Passes) {
        let Passes { throughput, log, flushes, latencies, pool: _ } = passes;
        debug_assert!(plan.is_piped() || flushes.len() >= log.flushes, "each flush is timed");
        let total = throughput.tally.total();
        let mut all = Latencies::default();
        latencies.iter().for_each(|latencies| all.add(latencies));
        self.committed = total.committed;
        self.aborted = total.aborted;
        self.aborts_by_reason = named(throughput.tally.reasons.clone());
        self.retried = throughput.tally.retried;
        self.wall_s = seconds(throughput.wall);
        self.cpu_s = seconds(throughput.process_cpu);
        self.engine_cpu_s = seconds(throughput.engine_cpu);
        self.reserve_cpu_s = seconds(throughput.reserve_cpu);
        self.tps = rounded(throughput.per_second(), 1);
        self.tps_per_cpu_s = rounded(throughput.per_cpu_second(), 1);
        self.latency_us = all.summary();
        self.latency_transactions = all.len();
        self.within_1s_percent = rounded(all.within_percent(SECOND_NS), 4);
        self.within_1ms_percent = Some(rounded(all.within_percent(SECOND_NS / 1_000), 4));
        self.by_transaction = by_transaction(plan, passes);
        self.log_bytes = log.bytes;
        self.flushes = log.flushes;
        self.transactions_per_flush =
            (log.flushes > 0).then(|| rounded(log.commits as f64 / log.flushes as f64, 3));
        self.flush_us = flushes.summary();
        // Per committed transaction, aborted ones' share included.
        self.work = throughput.work.per_transaction(total.committed).map(|mut work| {
            work.values_mut().for_each(|count| *count = rounded(*count, 3));
            named(work)
        });
    }

    /// Adds what the pool did in the measured part, and how long the device alone takes for one of its reads.
    pub(super) fn add_pool(&mut self, pool: &PoolUsage, raw_read: Option<Summary>) {
        let misses = pool.misses as f64 / (self.committed + self.aborted).max(1) as f64;
        // What it were if threads did nothing but wait for their misses.
        let of_raw = raw_read
            .map(|raw| 100.0 * pool.misses as f64 * raw.mean / 1e6)
            .map(|percent_s| rounded(percent_s / (self.wall_s * self.threads as f64), 2));
        self.pool = Some(PoolResult {
            bytes: pool.frames * pool.page_bytes,
            page_bytes: pool.page_bytes,
            hits: pool.hits,
            misses: pool.misses,
            misses_per_transaction: rounded(misses, 4),
            passed: pool.passed,
            raw_read_us: raw_read,
            of_raw_percent: of_raw,
        });
    }

    /// Adds what only a run through a pipeline measures.
    pub(super) fn add_pipeline(&mut self, plan: &Plan, found: &PipelineOutcome, passes: &Passes) {
        debug_assert!(
            found.in_checkpoint.len() <= self.latency_transactions,
            "they are some of all"
        );
        // All that the store took from the system: DB′ is some of it.
        self.memory_bytes += found.copy_loaded_bytes;
        let copy_bytes_max = found.checkpoint.map_or(0, |found| found.copy_bytes_max);
        self.memory_end_bytes = Some(found.store_end_bytes + copy_bytes_max);
        self.calls.behind_us_max =
            found.behind.map(|behind| rounded(behind.ns_max as f64 / 1e3, 1));
        self.calls.not_begun = found.behind.map(|behind| behind.not_begun);
        let cpu = cpu_of(found, STAGES[1].1).filter(|cpu| !cpu.is_zero());
        self.tps_per_execution_cpu_s =
            cpu.map(|cpu| rounded(self.committed as f64 / cpu.as_secs_f64(), 1));
        if let Some(raw) = &found.raw_flush {
            self.raw_flush_us = raw.latencies.summary();
            self.raw_flush_paced_us = raw.paced.summary();
            self.raw_flush_bytes = Some(raw.bytes);
            // In an open loop the rate is given, whatever the device takes.
            let mean = self.raw_flush_us.filter(|_| plan.rate.is_none()).map(|raw| raw.mean);
            let calls = (plan.clients * plan.in_flight) as f64;
            let per_second = passes.throughput.per_second();
            self.of_raw_percent =
                mean.map(|mean| rounded(100.0 * per_second * mean / 1e6 / calls, 2));
        }
        self.by_stage = by_stage(found);
        self.checkpoint = found.checkpoint.map(Into::into);
        self.latency_in_checkpoint_us = found.in_checkpoint.summary();
        self.recovery = found.recovery.as_ref().map(Into::into);
    }

    /// What the checks found, and the hash of all rows: none where the order of transactions was open.
    pub(super) fn add_verification(&mut self, found: &Verification, state_hash: Option<String>) {
        self.consistent = found.consistent();
        self.checks = found.checks.iter().cloned().collect();
        self.state_hash = state_hash;
    }

    /// What each stage of the pipeline executes for a transaction, its log's part included: `costs` are of groups
    /// called `KIND.STAGE`.
    pub(super) fn add_stage_costs(&mut self, costs: &[GroupCost]) {
        for (name, _) in STAGES {
            if let Some(instructions) = self.stage_instructions(name, costs) {
                let stage = self.by_stage.entry(name.to_owned()).or_default();
                stage.instructions = Some(instructions);
            }
        }
    }

    /// What a stage executes for a committed transaction; none where it was not counted for all kinds.
    fn stage_instructions(&self, stage: &str, costs: &[GroupCost]) -> Option<f64> {
        let (mut sum, mut committed) = (0.0, 0);
        for (kind, found) in self.by_transaction.iter().filter(|(_, found)| found.committed > 0) {
            let name = format!("{kind}.{stage}");
            let cost = costs.iter().find(|cost| cost.name == name)?;
            sum += cost.instructions * found.committed as f64;
            committed += found.committed;
        }
        (committed > 0).then(|| rounded(sum / committed as f64, 2))
    }

    /// Every count, all equal if the counter is exact, and ticks of the time-stamp counter.
    pub(super) fn add_counts(&mut self, counts: &[Vec<GroupCost>], cycles: &[GroupCost]) {
        let first = counts.first().map_or(&[][..], |first| first);
        for (kind, found) in &mut self.by_transaction {
            let find = |costs: &[GroupCost], suffix: &str| {
                let name = format!("{kind}{suffix}");
                costs.iter().find(|cost| cost.name == name).cloned()
            };
            let rounded_to = |cost: GroupCost| rounded(cost.instructions, 2);
            found.aborted_instructions = find(first, "_aborted").map(rounded_to);
            found.cycles = find(cycles, "").map(rounded_to);
            let Some(committed) = find(first, "") else { continue };
            found.counted = Some(committed.transactions);
            found.calls = Some(calls(&committed));
            found.sum_error_percent = Some(rounded(committed.sum_error_percent(), 4));
            found.instructions = Some(rounded_to(committed));
        }
        let errors = |count: &Vec<GroupCost>| {
            rounded(count.iter().map(GroupCost::sum_error_percent).fold(0.0, f64::max), 4)
        };
        self.sum_error_percent = counts.first().map(errors);
        self.counts = counts.iter().map(|count| counted(count)).collect();
    }
}

fn seconds(time: Duration) -> f64 {
    rounded(time.as_secs_f64(), 6)
}

fn named<T>(values: impl IntoIterator<Item = (&'static str, T)>) -> BTreeMap<String, T> {
    values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn calls(cost: &GroupCost) -> Calls {
    let by_name = |(category, cost): (Category, f64)| (category.name(), rounded(cost, 2));
    named(Category::ALL.into_iter().zip(cost.categories).map(by_name))
}

fn counted(count: &[GroupCost]) -> BTreeMap<String, Counted> {
    let of = |cost: &GroupCost| Counted {
        transactions: cost.transactions,
        instructions: rounded(cost.instructions, 4),
        calls: calls(cost),
    };
    count.iter().map(|cost| (cost.name.clone(), of(cost))).collect()
}

/// The kinds that there were any transactions of.
fn by_transaction(plan: &Plan, passes: &Passes) -> BTreeMap<String, ByTransaction> {
    let outcomes = passes.throughput.tally.kinds.iter().zip(&passes.latencies);
    let kinds = plan.workload.info().kinds.iter().zip(outcomes);
    let of = |(kind, (outcomes, latencies)): (&&str, _)| {
        let (outcomes, latencies): (&Outcomes, &Latencies) = (outcomes, latencies);
        let (committed, aborted) = (outcomes.committed, outcomes.aborted);
        (committed + aborted + latencies.len() > 0).then(|| {
            let latency_us = latencies.summary();
            let found = ByTransaction { committed, aborted, latency_us, ..Default::default() };
            ((*kind).to_owned(), found)
        })
    };
    kinds.filter_map(of).collect()
}

/// The stages that worked or have a thread.
fn by_stage(found: &PipelineOutcome) -> BTreeMap<String, ByStage> {
    let Busy { input_ns, execution_ns, logging_ns, output_ns, checkpoint_ns, .. } = found.busy;
    let busy = [input_ns, execution_ns, logging_ns, output_ns, checkpoint_ns];
    let stages = STAGES.into_iter().zip(busy).map(|((name, thread), ns)| {
        let (busy_s, cpu_s) = (rounded(ns as f64 / 1e9, 6), cpu_of(found, thread).map(seconds));
        (name.to_owned(), ByStage { busy_s, cpu_s, instructions: None })
    });
    stages.filter(|(_, stage)| stage.busy_s > 0.0 || stage.cpu_s.is_some()).collect()
}

/// What a stage's thread took. Where callers carry, their thread has executed: a step of that waits for
/// nothing, so the time it took is about what it took of the processor; of others it is not known.
fn cpu_of(found: &PipelineOutcome, thread: &str) -> Option<Duration> {
    match found.is_carried {
        true if thread == STAGES[1].1 => Some(Duration::from_nanos(found.busy.execution_ns)),
        true => None,
        false => found.cpu.get(thread).copied(),
    }
}
