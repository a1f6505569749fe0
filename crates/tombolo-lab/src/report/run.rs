//! The result of `run`, field by field as cli.md names them.
//!
//! Fields of parts that a profile does not have are null or zero, never left out. Not here: what fills them
//! (`run/result.rs`).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tombolo_engine::pipeline::CheckpointStatistics;
use tombolo_storage::paged::store::Restart;
use tombolo_storage::profile::ProfileInfo;

use super::rounded;
use super::scale::ScaleResult;
use crate::files::Recovery;
use crate::histogram::Summary;
use crate::settings::Setting;
use crate::workload::{self, WorkloadInfo};

/// Instructions by call category.
pub type Calls = BTreeMap<String, f64>;

/// The results of one kind of transaction.
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
    /// The most memory that DB′ took, or, without a DB′, that blocks took until they were written.
    pub copy_bytes: Option<u64>,
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

/// The results of one kind of stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
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

/// How a database was recovered.
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

/// A restart of a database on pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "cli.md says what each field means")]
pub struct RestartResult {
    pub log_bytes: u64,
    pub records_redone: u64,
    pub records_skipped: u64,
    pub pages_redone: u64,
    pub transactions_undone: u64,
    pub transactions_cleared: u64,
    pub wall_s: f64,
}

impl RestartResult {
    /// The result of a `restart` that took `wall_s` seconds.
    pub fn new(restart: Restart, wall_s: f64) -> Self {
        Self {
            log_bytes: restart.log_bytes,
            records_redone: restart.records_redone,
            records_skipped: restart.records_skipped,
            pages_redone: restart.pages_redone,
            transactions_undone: restart.transactions_undone,
            transactions_cleared: restart.transactions_cleared,
            wall_s: rounded(wall_s, 6),
        }
    }
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

/// A buffer pool in the measured part of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "cli.md says what each field means")]
pub struct PoolResult {
    pub bytes: u64,
    pub page_bytes: u64,
    pub hits: u64,
    pub misses: u64,
    pub misses_per_transaction: f64,
    pub passed: u64,
    /// The device's time alone for a random read of a page; null where no page was read.
    pub raw_read_us: Option<Summary>,
    /// The throughput in percent of what it were if threads waited for such reads and for nothing else.
    pub of_raw_percent: Option<f64>,
}

/// When calls began; what is of an open loop is null in a closed one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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

/// The loop of older results, which do not name it: there was no other.
pub(crate) fn closed() -> String {
    "closed".to_owned()
}

/// A result of `run`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "cli.md says what each field means")]
pub struct RunResult {
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
    /// The device's time alone to write and sync as many bytes as a flush did.
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
    /// Null where there is no buffer pool.
    pub pool: Option<PoolResult>,
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
    /// With `--resume`, the restart of a database on pages that had not been closed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restart: Option<RestartResult>,
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
    /// The workload and its scale, for people.
    pub fn title(&self) -> String {
        match self.scale.mix() {
            Some(mix) => format!("{} {mix}", self.workload),
            None => self.workload.to_owned(),
        }
    }

    /// How large the database was, for people.
    pub fn size(&self) -> String {
        self.of_scale(|workload, values| (workload.size)(values))
    }

    /// The same on the page of `report`.
    pub fn label(&self) -> String {
        self.of_scale(|workload, values| (workload.label)(values))
    }

    fn of_scale(&self, text: fn(&WorkloadInfo, &[u64]) -> String) -> String {
        let Some(workload) = workload::find(&self.workload) else { return String::new() };
        let value = |setting: &&Setting| self.scale.get(setting).as_u64().unwrap_or_default();
        text(workload, &(workload.settings)().iter().map(value).collect::<Vec<_>>())
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

/// A profile in the list of `run --list-profiles`.
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
