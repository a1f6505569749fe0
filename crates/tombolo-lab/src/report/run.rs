//! The result of `run`, field by field as cli.md names them.
//!
//! Fields of parts that a profile does not have are null or zero, never left out.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tombolo_engine::pipeline::{Busy, CheckpointStatistics};
use tombolo_storage::profile::ProfileInfo;

use super::scale::ScaleResult;
use super::{Header, rounded};
use crate::counters::Category;
use crate::drive::PipelineOutcome;
use crate::files::Recovery;
use crate::histogram::{Latencies, SECOND_NS, Summary};
use crate::run::Outcome;
use crate::run::counting::GroupCost;
use crate::settings::{MIX, Setting};
use crate::workload;

/// Instructions by call category.
pub type Calls = BTreeMap<String, f64>;

/// What is reported of one kind of transaction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ByTransaction {
    /// How many committed.
    pub committed: u64,
    /// How many aborted.
    pub aborted: u64,
    /// Their latencies.
    pub latency_us: Option<Summary>,
    /// Instructions of a committed one, on average.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<f64>,
    /// Instructions of an aborted one, on average.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aborted_instructions: Option<f64>,
    /// How many committed ones were counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counted: Option<u64>,
    /// Ticks of the time-stamp counter of a committed one, on average, in a native run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cycles: Option<f64>,
    /// Instructions by call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls: Option<Calls>,
    /// How far the calls' sum is from the whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sum_error_percent: Option<f64>,
}

/// One kind in one count.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Counted {
    /// Transactions counted.
    pub transactions: u64,
    /// Instructions of one, on average.
    pub instructions: f64,
    /// Instructions by call.
    pub calls: Calls,
}

/// Checkpoints of a run, as far as callers were measured meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CheckpointResult {
    /// Those that were completed.
    pub count: u64,
    /// Bytes of blocks that were written, also of one that was not completed.
    pub bytes: u64,
    /// From beginning to completing, over all that were completed.
    pub wall_s: f64,
    /// Times one was put off because the disk was full.
    pub put_off: u64,
    /// Bytes of records that were read from the log, because the stage was behind.
    pub read_back_bytes: u64,
    /// Processes that were started to write them, where this one does not: more than 1 if one ended
    /// before it was asked to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processes: Option<u64>,
    /// Processor time of those.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process_cpu_s: Option<f64>,
    /// The most memory that DB′ took, where it is in memory or what changed where it is on disk.
    pub copy_bytes: Option<u64>,
}

/// How far the groups' instructions are from their transactions', at most.
fn sum_error_percent(outcome: &Outcome) -> Option<f64> {
    let errors = outcome.counts.first()?.iter().map(GroupCost::sum_error_percent);
    Some(rounded(errors.fold(0.0, f64::max), 4))
}

/// All that the store took from the system after loading: DB′ is some of it.
fn memory_bytes(outcome: &Outcome) -> u64 {
    let copy_bytes = outcome.pipeline.as_ref().map_or(0, |found| found.copy_loaded_bytes);
    outcome.usage.memory_bytes + copy_bytes
}

/// The same when the run was over, DB′ as large as it ever was.
fn memory_end_bytes(outcome: &Outcome) -> Option<u64> {
    let found = outcome.pipeline.as_ref()?;
    Some(found.store_end_bytes + found.checkpoint.map_or(0, |found| found.copy_bytes_max))
}

impl From<CheckpointStatistics> for CheckpointResult {
    fn from(found: CheckpointStatistics) -> Self {
        let CheckpointStatistics { count, bytes, wall_ns, put_off, read_back_bytes, .. } = found;
        let wall_s = rounded(wall_ns as f64 / 1e9, 6);
        let processes = Some(found.processes).filter(|&processes| processes > 0);
        let process_cpu_s = processes.map(|_| rounded(found.process_cpu_ns as f64 / 1e9, 6));
        let copy_bytes = Some(found.copy_bytes_max);
        Self {
            count,
            bytes,
            wall_s,
            put_off,
            read_back_bytes,
            processes,
            process_cpu_s,
            copy_bytes,
        }
    }
}

/// What is reported of one kind of stage.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ByStage {
    /// How long its steps that did something took.
    pub busy_s: f64,
    /// Processor time of its thread, given at the first stage of each thread; null elsewhere.
    pub cpu_s: Option<f64>,
    /// Instructions of a committed transaction, by callgrind; over the kinds that committed, each
    /// with its share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<f64>,
}

/// How a database came back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "cli.md says what each field means")]
pub struct RecoveryResult {
    pub clean: bool,
    pub epoch: u32,
    pub transactions: u64,
    pub last_group: u64,
    pub image_bytes: u64,
    pub log_bytes: u64,
    pub torn_bytes: u64,
    pub image_s: f64,
    pub replay_s: f64,
    pub wall_s: f64,
    pub cpu_s: f64,
}

impl From<&Recovery> for RecoveryResult {
    fn from(recovery: &Recovery) -> Self {
        Self {
            clean: recovery.is_clean(),
            epoch: recovery.epoch,
            transactions: recovery.transactions,
            last_group: recovery.last_group,
            image_bytes: recovery.image_bytes,
            log_bytes: recovery.record_bytes,
            torn_bytes: recovery.cut.as_ref().map_or(0, |cut| cut.torn_bytes),
            image_s: rounded(recovery.image_s, 6),
            replay_s: rounded(recovery.replay_s, 6),
            wall_s: rounded(recovery.wall_s, 6),
            cpu_s: rounded(recovery.cpu_s, 6),
        }
    }
}

/// When calls began; what is of an open loop is null in a closed one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoopResult {
    /// `closed`: when their caller's last was answered; `open`: at their times.
    #[serde(rename = "loop", default = "closed")]
    pub kind: String,
    /// Calls per second.
    pub rate: Option<u64>,
    /// The most that a call began late, which is in the latencies.
    pub behind_us_max: Option<f64>,
    /// Calls that should have begun before the end and did not.
    pub not_begun: Option<u64>,
}

/// What older results did not say: there was no other loop.
fn closed() -> String {
    "closed".to_owned()
}

impl From<&Outcome> for LoopResult {
    fn from(outcome: &Outcome) -> Self {
        let rate = outcome.plan.rate;
        let behind = outcome.pipeline.as_ref().and_then(|found| found.behind);
        Self {
            kind: if rate.is_some() { "open".to_owned() } else { closed() },
            rate,
            behind_us_max: behind.map(|behind| rounded(behind.ns_max as f64 / 1e3, 1)),
            not_begun: behind.map(|behind| behind.not_begun),
        }
    }
}

/// A result of `run`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "cli.md says what each field means")]
pub struct RunResult {
    #[serde(flatten)]
    pub header: Header,
    pub workload: String,
    #[serde(flatten)]
    pub scale: ScaleResult,
    pub profile: String,
    pub durability: String,
    pub islands: u64,
    pub threads: u64,
    pub clients: u64,
    pub in_flight: u64,
    /// When calls began.
    #[serde(flatten)]
    pub calls: LoopResult,
    pub committed: u64,
    pub aborted: u64,
    pub aborts_by_reason: BTreeMap<String, u64>,
    pub wall_s: f64,
    pub cpu_s: f64,
    pub engine_cpu_s: f64,
    pub reserve_cpu_s: f64,
    pub tps: f64,
    pub tps_per_cpu_s: f64,
    /// By the processor time of the execution stage's thread alone, where there is a pipeline.
    pub tps_per_execution_cpu_s: Option<f64>,
    pub latency_us: Option<Summary>,
    pub latency_transactions: u64,
    pub within_1s_percent: f64,
    pub within_1ms_percent: Option<f64>,
    pub by_transaction: BTreeMap<String, ByTransaction>,
    #[serde(default)]
    pub retried: u64,
    pub log_bytes: u64,
    pub flushes: u64,
    pub transactions_per_flush: Option<f64>,
    pub flush_us: Option<Summary>,
    /// What the device alone takes to write and sync as many bytes as a flush did.
    pub raw_flush_us: Option<Summary>,
    /// The same after a pause as long as the run's between two flushes.
    pub raw_flush_paced_us: Option<Summary>,
    pub raw_flush_bytes: Option<u64>,
    /// The throughput in percent of what it were if every call waited for one such flush and
    /// nothing else.
    pub of_raw_percent: Option<f64>,
    /// The pipeline's stages; empty where there is none.
    #[serde(default)]
    pub by_stage: BTreeMap<String, ByStage>,
    /// Null where none are written.
    pub checkpoint: Option<CheckpointResult>,
    /// How long answers took that came while one was written; null where none came then.
    pub latency_in_checkpoint_us: Option<Summary>,
    pub disk_bytes: Option<u64>,
    pub load_wall_s: f64,
    pub load_cpu_s: f64,
    pub data_dir: Option<String>,
    pub data_fs: Option<String>,
    pub memory_bytes: u64,
    /// The same after the run, with what the run inserted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_end_bytes: Option<u64>,
    pub raw_row_bytes: u64,
    pub raw_key_bytes: u64,
    pub miss_ns: Option<f64>,
    /// How the database was opened, with `--resume`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recovery: Option<RecoveryResult>,
    /// Null in a build without probes.
    pub work: Option<BTreeMap<String, f64>>,
    pub consistent: bool,
    pub checks: BTreeMap<String, bool>,
    /// Null where threads left the order of transactions open.
    pub state_hash: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counter: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counts: Vec<BTreeMap<String, Counted>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sum_error_percent: Option<f64>,
    /// The paper's configuration, if one was named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Where a sweep was when it made this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub point: Option<BTreeMap<String, serde_json::Value>>,
    /// The round of a sweep, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub round: Option<u64>,
}

impl RunResult {
    /// The result that says what `outcome` is.
    pub fn new(mut header: Header, outcome: &Outcome) -> Self {
        // The effective one: each workload has a default of its own.
        header.settings.insert(MIX.name.to_owned(), outcome.plan.workload.mix().into());
        let setting = |name: &str| header.settings.get(name).and_then(serde_json::Value::as_u64);
        let (clients, in_flight) = (setting("clients"), setting("in_flight"));
        let total = outcome.throughput.tally.total();
        let mut all = Latencies::default();
        outcome.latencies.iter().for_each(|latencies| all.add(latencies));
        let seconds = |time: Duration| rounded(time.as_secs_f64(), 6);
        let pipeline = outcome.pipeline.as_ref();
        let raw = pipeline.and_then(|found| found.raw_flush.as_ref());
        Self {
            workload: outcome.plan.workload.info().name.to_owned(),
            scale: ScaleResult::from(&outcome.plan),
            profile: outcome.plan.profile.clone(),
            durability: outcome.plan.durability_name().to_owned(),
            islands: 1,
            threads: outcome.plan.threads as u64,
            clients: clients.unwrap_or(1),
            in_flight: in_flight.unwrap_or(1),
            calls: LoopResult::from(outcome),
            committed: total.committed,
            aborted: total.aborted,
            aborts_by_reason: named(outcome.throughput.tally.reasons.clone()),
            wall_s: seconds(outcome.throughput.wall),
            cpu_s: seconds(outcome.throughput.process_cpu),
            engine_cpu_s: seconds(outcome.throughput.engine_cpu),
            reserve_cpu_s: seconds(outcome.throughput.reserve_cpu),
            tps: rounded(outcome.throughput.per_second(), 1),
            tps_per_cpu_s: rounded(outcome.throughput.per_cpu_second(), 1),
            tps_per_execution_cpu_s: per_execution_cpu_s(outcome),
            latency_us: all.summary(),
            latency_transactions: all.len(),
            within_1s_percent: rounded(all.within_percent(SECOND_NS), 4),
            within_1ms_percent: Some(rounded(all.within_percent(SECOND_NS / 1_000), 4)),
            by_transaction: by_transaction(outcome),
            retried: outcome.throughput.tally.retried,
            log_bytes: outcome.log.bytes,
            flushes: outcome.log.flushes,
            transactions_per_flush: per_flush(outcome),
            flush_us: outcome.flushes.summary(),
            raw_flush_us: raw.and_then(|raw| raw.latencies.summary()),
            raw_flush_paced_us: raw.and_then(|raw| raw.paced.summary()),
            raw_flush_bytes: raw.map(|raw| raw.bytes),
            of_raw_percent: of_raw_percent(outcome),
            by_stage: by_stage(outcome),
            checkpoint: pipeline.and_then(|found| found.checkpoint).map(Into::into),
            latency_in_checkpoint_us: pipeline.and_then(|found| found.in_checkpoint.summary()),
            disk_bytes: outcome.disk_bytes,
            load_wall_s: rounded(outcome.load_s.0, 6),
            load_cpu_s: rounded(outcome.load_s.1, 6),
            data_dir: outcome.place.as_ref().map(|place| place.path.display().to_string()),
            data_fs: outcome.place.as_ref().map(|place| place.file_system.clone()),
            memory_bytes: memory_bytes(outcome),
            memory_end_bytes: memory_end_bytes(outcome),
            raw_row_bytes: outcome.usage.raw_row_bytes,
            raw_key_bytes: outcome.usage.raw_key_bytes,
            miss_ns: outcome.miss_ns.map(|ns| rounded(ns, 1)),
            recovery: pipeline.and_then(|found| found.recovery.as_ref()).map(Into::into),
            work: work(outcome),
            consistent: outcome.verification.consistent(),
            checks: outcome.verification.checks.iter().cloned().collect(),
            state_hash: outcome.state_hash.clone(),
            counter: outcome.counter.map(|counter| counter.name().to_owned()),
            counts: outcome.counts.iter().map(|count| counted(count)).collect(),
            sum_error_percent: sum_error_percent(outcome),
            config: None,
            notes: outcome.notes.clone(),
            point: None,
            round: None,
            header,
        }
    }

    /// What was run, for people.
    pub fn title(&self) -> String {
        match self.scale.mix() {
            Some(mix) => format!("{} {mix}", self.workload),
            None => self.workload.to_owned(),
        }
    }

    /// How large the database was, for people.
    pub fn size(&self) -> String {
        let Some(workload) = workload::find(&self.workload) else { return String::new() };
        let value = |setting: &&Setting| self.scale.get(setting).as_u64().unwrap_or_default();
        (workload.size)(&(workload.settings)().iter().map(value).collect::<Vec<_>>())
    }

    /// The state, for people.
    pub fn state(&self) -> &str {
        self.state_hash.as_deref().unwrap_or("open: it depends on the order of threads or callers")
    }

    /// Memory taken per byte of rows and keys.
    pub fn memory_ratio(&self) -> f64 {
        self.memory_bytes as f64 / (self.raw_row_bytes + self.raw_key_bytes).max(1) as f64
    }
}

/// Committed transactions that a flush of the log made durable, on average.
fn per_flush(outcome: &Outcome) -> Option<f64> {
    let log = &outcome.log;
    (log.flushes > 0).then(|| rounded(log.commits as f64 / log.flushes as f64, 3))
}

/// The stages with the names of their threads, of which the system keeps 15 characters.
const STAGES: [(&str, &str); 5] = [
    ("input", "tombolo-input"),
    ("execution", "tombolo-executi"),
    ("logging", "tombolo-logging"),
    ("output", "tombolo-output"),
    ("checkpoint", "tombolo-checkpo"),
];

fn by_stage(outcome: &Outcome) -> BTreeMap<String, ByStage> {
    let Some(found) = &outcome.pipeline else { return BTreeMap::new() };
    let Busy { input_ns, execution_ns, logging_ns, output_ns, checkpoint_ns, .. } = found.busy;
    let busy = [input_ns, execution_ns, logging_ns, output_ns, checkpoint_ns];
    let stages = STAGES.into_iter().zip(busy).map(|((name, thread), ns)| {
        let cpu_s = cpu_of(found, thread).map(|cpu| rounded(cpu.as_secs_f64(), 6));
        let instructions = stage_instructions(name, outcome);
        (name.to_owned(), ByStage { busy_s: rounded(ns as f64 / 1e9, 6), cpu_s, instructions })
    });
    let is_there = |stage: &ByStage| {
        stage.busy_s > 0.0 || stage.cpu_s.is_some() || stage.instructions.is_some()
    };
    stages.filter(|(_, stage)| is_there(stage)).collect()
}

/// What a stage executes for a committed transaction; none where it was not counted for all kinds.
fn stage_instructions(stage: &str, outcome: &Outcome) -> Option<f64> {
    let (mut sum, mut committed) = (0.0, 0);
    let kinds = outcome.plan.workload.info().kinds;
    for (kind, outcomes) in kinds.iter().zip(outcome.throughput.tally.kinds) {
        if outcomes.committed > 0 {
            let name = format!("{kind}.{stage}");
            let cost = outcome.stages.iter().find(|cost| cost.name == name)?;
            sum += cost.instructions * outcomes.committed as f64;
            committed += outcomes.committed;
        }
    }
    (committed > 0).then(|| rounded(sum / committed as f64, 2))
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

fn per_execution_cpu_s(outcome: &Outcome) -> Option<f64> {
    let found = outcome.pipeline.as_ref()?;
    let cpu = cpu_of(found, STAGES[1].1).filter(|cpu| !cpu.is_zero())?;
    let committed = outcome.throughput.tally.total().committed;
    Some(rounded(committed as f64 / cpu.as_secs_f64(), 1))
}

fn of_raw_percent(outcome: &Outcome) -> Option<f64> {
    if outcome.plan.rate.is_some() {
        return None; // the rate is given, whatever the device takes
    }
    let raw = outcome.pipeline.as_ref()?.raw_flush.as_ref()?.latencies.summary()?;
    let calls = (outcome.plan.clients * outcome.plan.in_flight) as f64;
    Some(rounded(100.0 * outcome.throughput.per_second() * raw.mean / 1e6 / calls, 2))
}

/// What components were asked to do per committed transaction, aborted ones' share included.
fn work(outcome: &Outcome) -> Option<BTreeMap<String, f64>> {
    let committed = outcome.throughput.tally.total().committed;
    let mut work = outcome.throughput.work.per_transaction(committed)?;
    work.values_mut().for_each(|count| *count = rounded(*count, 3));
    Some(named(work))
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

fn by_transaction(outcome: &Outcome) -> BTreeMap<String, ByTransaction> {
    let mut by_name = BTreeMap::new();
    for (i, kind) in outcome.plan.workload.info().kinds.iter().enumerate() {
        let outcomes = outcome.throughput.tally.kinds[i];
        let latencies = &outcome.latencies[i];
        if outcomes.committed + outcomes.aborted + latencies.len() == 0 {
            continue;
        }
        let find = |costs: Option<&Vec<GroupCost>>, suffix: &str| {
            let name = format!("{kind}{suffix}");
            costs.and_then(|costs| costs.iter().find(|cost| cost.name == name).cloned())
        };
        let committed = find(outcome.counts.first(), "");
        let aborted = find(outcome.counts.first(), "_aborted");
        let cycles = find(Some(&outcome.cycles), "");
        let rounded_to = |cost: &GroupCost| rounded(cost.instructions, 2);
        by_name.insert(
            (*kind).to_owned(),
            ByTransaction {
                committed: outcomes.committed,
                aborted: outcomes.aborted,
                latency_us: latencies.summary(),
                instructions: committed.as_ref().map(rounded_to),
                aborted_instructions: aborted.as_ref().map(rounded_to),
                counted: committed.as_ref().map(|cost| cost.transactions),
                cycles: cycles.as_ref().map(rounded_to),
                calls: committed.as_ref().map(calls),
                sum_error_percent: committed.map(|cost| rounded(cost.sum_error_percent(), 4)),
            },
        );
    }
    by_name
}

/// What `run --list-profiles` says of a profile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "cli.md says what each field means")]
pub struct ProfileResult {
    pub profile: String,
    pub store: String,
    pub switches: BTreeMap<String, bool>,
    pub threads_max: usize,
    pub durability: Vec<String>,
    pub undo: bool,
}

impl From<&ProfileInfo> for ProfileResult {
    fn from(info: &ProfileInfo) -> Self {
        let switch = |(i, on): (usize, &bool)| (format!("S{}", i + 1), *on);
        Self {
            profile: info.name.to_owned(),
            store: info.store.to_owned(),
            switches: info.switches.iter().enumerate().map(switch).collect(),
            threads_max: info.threads_max,
            durability: info.durability.iter().map(|&name| name.to_owned()).collect(),
            undo: info.undo,
        }
    }
}
