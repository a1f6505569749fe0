//! Every setting of this version. Not here: what settings are, how they are read (`settings.rs`).

use std::time::Duration;

use tombolo_storage::profile::PROFILES;

use super::{Default, Kind, Setting};

mod callers;

pub use callers::*;

const NAMES: [&str; PROFILES.len()] = {
    let mut names = [""; PROFILES.len()];
    let mut i = 0;
    while i < names.len() {
        names[i] = PROFILES[i].name;
        i += 1;
    }
    names
};

/// What every setting below has in common.
const fn setting(name: &'static str, kind: Kind, default: Default, about: &'static str) -> Setting {
    Setting { name, unit: "", kind, default, about, identifies: true }
}

impl Setting {
    const fn of(mut self, unit: &'static str) -> Self {
        self.unit = unit;
        self
    }

    const fn not_identifying(mut self) -> Self {
        self.identifies = false;
        self
    }
}

const GB: u64 = 1 << 30;

/// Which component set runs.
pub static PROFILE: Setting = setting(
    "profile",
    Kind::Choice(&NAMES),
    Default::Is("memory"),
    "which components the engine has (run --list-profiles)",
);
/// When an answer may leave.
pub static DURABILITY: Setting = setting(
    "durability",
    Kind::Choice(&["none", "async", "group", "sync"]),
    Default::Means("the most the profile can: group or none"),
    "what a committed transaction survives; on pages, without restart yet, only a clean end",
);
/// Where a paged database lies.
pub static DATA: Setting = setting(
    "data",
    Kind::Text,
    Default::Means("a fresh directory here, if files are written"),
    "the directory of the database, empty or new; a run in memory has none",
)
.not_identifying();
/// What the log of a memory database holds.
pub static LOG: Setting = setting(
    "log",
    Kind::Choice(&["value", "command"]),
    Default::Is("value"),
    "what a new memory database logs: changed rows, or the calls that changed them",
);
/// Engines side by side.
pub static ISLANDS: Setting = setting(
    "islands",
    Kind::Count(1, 1_024),
    Default::Is("1"),
    "engines, each over a part of the data; only 1 yet",
)
.of("islands");
/// Execution threads.
pub static THREADS: Setting = setting(
    "threads",
    Kind::Count(1, 1_024),
    Default::Is("1"),
    "execution threads of an island; 1 without locks and latches",
)
.of("threads");
/// How often a transaction is tried again.
pub static RETRIES_MAX: Setting = setting(
    "retries_max",
    Kind::Count(0, 1_000_000),
    Default::Is("1k"),
    "how often a transaction that gave way to others is tried again before the run fails",
)
.of("retries");
/// The buffer pool.
pub static POOL_BYTES: Setting = setting(
    "pool_bytes",
    Kind::Bytes(GB >> 10, GB << 14),
    Default::Means("room for all of the run's data"),
    "the buffer pool of a paged store; pages that do not fit go to its disk",
)
.of("bytes");
/// The log's buffer.
pub static LOG_BUFFER_BYTES: Setting = setting(
    "log_buffer_bytes",
    Kind::Bytes(GB >> 11, GB),
    Default::Is("8 MB"),
    "the buffer between transactions and the log's file; where there is none, the whole log",
)
.of("bytes");
/// The lock table's chains.
pub static LOCK_BUCKETS: Setting = setting(
    "lock_buckets",
    Kind::Count(1, 1 << 24),
    Default::Is("16_384"),
    "chains of the lock table; rounded up to a power of two",
)
.of("chains");
/// The lock table's room.
pub static LOCKS_MAX: Setting = setting(
    "locks_max",
    Kind::Count(1_024, 1 << 26),
    Default::Is("65_536"),
    "locks that all transactions together hold or wait for",
)
.of("locks");
/// Where row locks become a page's.
pub static ROW_LOCKS_PER_PAGE_MAX: Setting = setting(
    "row_locks_per_page_max",
    Kind::Count(1, 65_535),
    Default::Is("64"),
    "rows of a page that a transaction locks one by one before it tries to lock the page",
)
.of("locks");
/// Where page locks become a store's.
pub static PAGE_LOCKS_PER_STORE_MAX: Setting = setting(
    "page_locks_per_store_max",
    Kind::Count(1, 65_535),
    Default::Is("1_024"),
    "pages of a table in which a transaction locks rows before it tries to lock the table",
)
.of("pages");
/// How long a lock is waited for.
pub static LOCK_WAIT_MAX: Setting = setting(
    "lock_wait_max",
    Kind::Duration(Duration::from_millis(1), Duration::from_secs(3_600)),
    Default::Is("10s"),
    "how long a transaction waits for a lock before it gives way",
)
.of("time");
/// Which stage of the pipeline is on which thread.
pub static PIPELINE_THREADS: Setting = setting(
    "pipeline_threads",
    Kind::Choice(&["auto", "one", "coalesced", "two", "callers", "each"]),
    Default::Is("auto"),
    "which threads run the pipeline's stages: auto (callers that wait, and two threads behind them), \
     or always the same: one, coalesced (input apart), two (logging and output apart), one for each",
);
/// Input stages.
pub static INPUT_THREADS: Setting = setting(
    "input_threads",
    Kind::Count(1, 256),
    Default::Is("1"),
    "input stages, where requests are made ready by any",
)
.of("stages");
/// Output stages.
pub static OUTPUT_THREADS: Setting = setting(
    "output_threads",
    Kind::Count(1, 256),
    Default::Is("1"),
    "output stages; each hands replies to its share of the callers",
)
.of("stages");
/// The queues' bound, by number.
pub static QUEUE_TRANSACTIONS_MAX: Setting = setting(
    "queue_transactions_max",
    Kind::Count(1, 1 << 26),
    Default::Is("65_536"),
    "transactions that wait in each of the pipeline's queues; callers wait behind them",
)
.of("transactions");
/// The queues' bound, by size.
pub static QUEUE_BYTES_MAX: Setting = setting(
    "queue_bytes_max",
    Kind::Bytes(GB >> 20, GB << 10),
    Default::Is("64 MB"),
    "bytes of requests, records or replies that wait in each of the pipeline's queues",
)
.of("bytes");
/// The execution stage's batches.
pub static BATCH_TRANSACTIONS_MAX: Setting = setting(
    "batch_transactions_max",
    Kind::Count(1, 1 << 20),
    Default::Is("256"),
    "transactions that execution hands to logging together",
)
.of("transactions");
/// Two-stage execution.
pub static LOCATE_AHEAD: Setting = setting(
    "locate_ahead",
    Kind::Count(0, 4_096),
    Default::Means("as many as pay, found while running"),
    "transactions whose rows are located before they run, while others do; 0: each when it runs",
)
.of("transactions");
/// How long one piece of work may hold the execution thread.
pub static SLICE_US_MAX: Setting = setting(
    "slice_us_max",
    Kind::Count(4, 1_000_000),
    Default::Is("200"),
    "the longest slice of a long read between transactions; procedures above it are reported",
)
.of("microseconds");
/// The group's size.
pub static TRANSACTIONS_PER_GROUP: Setting = setting(
    "transactions_per_group",
    Kind::Count(1, 1 << 30),
    Default::Means("any number"),
    "transactions at which a group is made durable before its time",
)
.of("transactions");
/// The group's time.
pub static TIME_PER_GROUP: Setting = setting(
    "time_per_group",
    Kind::DurationOr("auto", Duration::ZERO, Duration::from_secs(60)),
    Default::Is("auto"),
    "how long a group gathers transactions; auto: until the device is free and callers are back",
)
.of("time");
/// The window in which an early answer may be lost.
pub static ASYNC_LOSS_MS_MAX: Setting = setting(
    "async_loss_ms_max",
    Kind::Count(1, 3_600_000),
    Default::Is("100"),
    "how long after its answer an async transaction may be lost by a crash",
)
.of("milliseconds");
/// When the last group is sealed.
pub static SEAL_MS_MAX: Setting = setting(
    "seal_ms_max",
    Kind::Count(1, 3_600_000),
    Default::Is("100"),
    "how long the log is idle before an empty group vouches for the last one",
)
.of("milliseconds");
/// How long idle threads stay awake.
pub static SPIN_US_MAX: Setting = setting(
    "spin_us_max",
    Kind::Count(0, 1_000_000),
    Default::Means("50 where the pipeline leaves a core free, else 0"),
    "how long an idle thread of the pipeline looks for work before it sleeps",
)
.of("microseconds");
/// The value log's segments.
pub static LOG_SEGMENT_BYTES: Setting = setting(
    "log_segment_bytes",
    Kind::Bytes(GB >> 14, GB),
    Default::Is("64 MB"),
    "the longest file of a memory store's log, made and written over before it is used; the first have 1 MB",
)
.of("bytes");
/// The value log's bound.
pub static LOG_BYTES_MAX: Setting = setting(
    "log_bytes_max",
    Kind::Bytes(GB >> 13, GB << 20),
    Default::Means("what the disk has room for"),
    "all files of a memory store's log together; beyond, writes are refused",
)
.of("bytes");
/// Whether checkpoints are written.
pub static CHECKPOINTS: Setting = setting(
    "checkpoints",
    Kind::Choice(&["on", "off"]),
    Default::Is("on"),
    "whether a memory store's rows are kept on disk, too, so that its log can go; costs a second copy",
);
/// When a checkpoint begins.
pub static CHECKPOINT_LOG_BYTES: Setting = setting(
    "checkpoint_log_bytes",
    Kind::Bytes(GB >> 20, GB << 14),
    Default::Means("1 GB, or a quarter of log_bytes_max"),
    "bytes of log files after which a checkpoint begins; a crash leaves some twice as much to be read",
)
.of("bytes");
/// Threads that write checkpoints.
pub static CHECKPOINT_THREADS: Setting = setting(
    "checkpoint_threads",
    Kind::Count(1, 256),
    Default::Is("1"),
    "threads that write checkpoints, each the rows of some tables",
)
.of("threads");
/// Who writes checkpoints.
pub static CHECKPOINT_PROCESS: Setting = setting(
    "checkpoint_process",
    Kind::Choice(&["own", "other"]),
    Default::Is("own"),
    "whether checkpoints are written by the database's own process or by another one it starts",
);
/// Where the second copy of the rows is.
pub static CHECKPOINT_COPY: Setting = setting(
    "checkpoint_copy",
    Kind::Choice(&["memory", "disk"]),
    Default::Is("memory"),
    "where the second copy of all rows is that checkpoints need; on disk each is read and written",
);
/// What may change before a checkpoint, where the copy is on disk.
pub static CHECKPOINT_CHANGES_BYTES_MAX: Setting = setting(
    "checkpoint_changes_bytes_max",
    Kind::Bytes(GB >> 20, GB << 1),
    Default::Is("256 MB"),
    "with the second copy on disk: changes kept in memory; a checkpoint begins at half of them",
)
.of("bytes");
/// What a checkpoint may take of the device.
pub static CHECKPOINT_DEVICE_PERCENT: Setting = setting(
    "checkpoint_device_percent",
    Kind::Count(1, 100),
    Default::Is("50"),
    "the device's time that a checkpoint may take while transactions are made durable",
)
.of("percent");
/// What waits for a checkpoint stage.
pub static CHECKPOINT_QUEUE_BYTES_MAX: Setting = setting(
    "checkpoint_queue_bytes_max",
    Kind::Bytes(GB >> 20, GB << 10),
    Default::Is("64 MB"),
    "log records that wait to be installed for a checkpoint; beyond, they are read from the log",
)
.of("bytes");
/// Whether closing writes a checkpoint.
pub static CHECKPOINT_AT_CLOSE: Setting = setting(
    "checkpoint_at_close",
    Kind::Choice(&["yes", "no"]),
    Default::Is("yes"),
    "whether closing writes a checkpoint, so that nothing is replayed when the database is opened",
);
/// The image's blocks.
pub static CHECKPOINT_BLOCK_BYTES: Setting = setting(
    "checkpoint_block_bytes",
    Kind::Bytes(4 << 10, GB / 4),
    Default::Is("1 MB"),
    "a block of a checkpoint's image: what is written at a time",
)
.of("bytes");
/// The image's spare blocks.
pub static CHECKPOINT_SPARE_BLOCKS: Setting = setting(
    "checkpoint_spare_blocks",
    Kind::Count(1, 1_024),
    Default::Is("1"),
    "places beyond the blocks of a ring: after so many blocks the image is flushed",
)
.of("blocks");
/// The memory store's budget.
pub static MEMORY_BYTES_MAX: Setting = setting(
    "memory_bytes_max",
    Kind::Bytes(GB >> 10, GB << 14),
    Default::Means("none: what the machine has"),
    "memory budget of a store; a transaction that would exceed it is refused, the others continue",
)
.of("bytes");
/// The part of the budget that long reads may take.
pub static SNAPSHOT_BYTES_MAX: Setting = setting(
    "snapshot_bytes_max",
    Kind::Bytes(GB >> 14, GB << 14),
    Default::Is("1 GB"),
    "changed rows kept for long reads, of memory_bytes_max; beyond it the oldest read ends",
)
.of("bytes");
/// How many request ids a database remembers, whatever their age.
pub static REQUEST_IDS_MIN: Setting = setting(
    "request_ids_min",
    Kind::Count(1, 1_000_000_000),
    Default::Is("100k"),
    "request ids a program's database remembers, whatever their age; 100 bytes each",
)
.of("ids")
.not_identifying();
/// How long a database remembers request ids, however many there are.
pub static REQUEST_IDS_S_MIN: Setting = setting(
    "request_ids_s_min",
    Kind::Count(0, 31_536_000),
    Default::Is("60"),
    "how long it remembers them, however many there are; they count for memory_bytes_max",
)
.of("seconds")
.not_identifying();
/// TPC-C's scale.
pub static WAREHOUSES: Setting =
    setting("warehouses", Kind::Count(1, 65_535), Default::Is("5"), "scale of tpcc; 100 MB each")
        .of("warehouses");
/// TPC-C's transactions.
pub static MIX: Setting = setting(
    "mix",
    Kind::Choice(&["paper", "standard"]),
    Default::Is("standard"),
    "transactions of tpcc: the paper's New Order and Payment, or the specification's five",
);
/// Debit-credit's scale.
pub static BRANCHES: Setting =
    setting("branches", Kind::Count(1, 1 << 30), Default::Is("10"), "scale of debit-credit")
        .of("branches");
/// Its tellers.
pub static TELLERS_PER_BRANCH: Setting = setting(
    "tellers_per_branch",
    Kind::Count(1, 1 << 30),
    Default::Is("10"),
    "tellers of each branch of debit-credit",
)
.of("tellers");
/// Its accounts.
pub static ACCOUNTS_PER_BRANCH: Setting = setting(
    "accounts_per_branch",
    Kind::Count(1, 1 << 30),
    Default::Is("100k"),
    "accounts of each branch of debit-credit; 150 bytes each, all branches up to 2,147,483,647",
)
.of("accounts");
/// How long to run.
pub static SECONDS: Setting = setting(
    "seconds",
    Kind::Duration(Duration::from_millis(1), Duration::from_secs(86_400)),
    Default::Is("5s"),
    "how long transactions are executed, unless transactions is given",
)
.of("time");
/// How much to run.
pub static TRANSACTIONS: Setting = setting(
    "transactions",
    Kind::Count(1, 100_000_000_000),
    Default::Means("until seconds are over"),
    "how many transactions are executed",
)
.of("transactions");
/// How many transactions are timed one by one.
pub static LATENCY_TRANSACTIONS: Setting = setting(
    "latency_transactions",
    Kind::Count(0, 100_000_000),
    Default::Is("100k"),
    "further transactions, timed one by one after the throughput was measured",
)
.of("transactions");
/// Inputs made at a time.
pub static BATCH: Setting = setting(
    "batch",
    Kind::Count(1, 10_000_000),
    Default::Is("100k"),
    "inputs made beforehand at a time, outside what is measured",
)
.of("inputs");
/// Whether memory is taken beforehand.
pub static RESERVE: Setting = setting(
    "reserve",
    Kind::Choice(&["yes", "no"]),
    Default::Is("yes"),
    "whether memory for a batch's new rows is taken beforehand, outside what is measured",
);
/// Threads that make the initial data.
pub static LOAD_THREADS: Setting = setting(
    "load_threads",
    Kind::Count(1, 1_024),
    Default::Means("one per core"),
    "threads that generate the initial data; the data does not depend on them",
)
.of("threads")
.not_identifying();
/// The most memory a run may take.
pub static MEMORY_LIMIT: Setting = setting(
    "memory_limit",
    Kind::Bytes(GB / 16, GB << 14),
    Default::Means("what the machine has free"),
    "a run that would need more is refused, one that grows past it ends",
)
.of("bytes");
/// The seed of everything random.
pub static SEED: Setting = setting(
    "seed",
    Kind::Count(0, u64::MAX),
    Default::Is("1"),
    "makes data and inputs the same every time",
)
.not_identifying();
/// Interleaved repetitions.
pub static ROUNDS: Setting = setting(
    "rounds",
    Kind::Count(1, 1_000),
    Default::Is("1"),
    "how often every point is run, in turn",
)
.of("rounds")
.not_identifying();
/// What counts instructions.
pub static COUNTER: Setting = setting(
    "counter",
    Kind::Choice(&["auto", "perf", "callgrind", "none"]),
    Default::Is("none"),
    "what counts instructions: the processor, valgrind, whichever there is, or nothing",
);
/// How many transactions are counted.
pub static COUNTED: Setting = setting(
    "counted",
    Kind::Count(100, 1_000_000),
    Default::Is("2k"),
    "transactions of the mix in which each kind's instructions are counted",
)
.of("transactions");
/// How often instructions are counted.
pub static REPEAT: Setting = setting(
    "repeat",
    Kind::Count(1, 100),
    Default::Is("1"),
    "how often instructions are counted, from the start",
)
.of("counts")
.not_identifying();

/// Every setting, in the order they are printed.
pub static ALL: &[&Setting] = &[
    &PROFILE,
    &DURABILITY,
    &DATA,
    &LOG,
    &ISLANDS,
    &THREADS,
    &RETRIES_MAX,
    &POOL_BYTES,
    &LOG_BUFFER_BYTES,
    &LOCK_BUCKETS,
    &LOCKS_MAX,
    &ROW_LOCKS_PER_PAGE_MAX,
    &PAGE_LOCKS_PER_STORE_MAX,
    &LOCK_WAIT_MAX,
    &PIPELINE_THREADS,
    &INPUT_THREADS,
    &OUTPUT_THREADS,
    &QUEUE_TRANSACTIONS_MAX,
    &QUEUE_BYTES_MAX,
    &BATCH_TRANSACTIONS_MAX,
    &LOCATE_AHEAD,
    &SLICE_US_MAX,
    &TRANSACTIONS_PER_GROUP,
    &TIME_PER_GROUP,
    &ASYNC_LOSS_MS_MAX,
    &SEAL_MS_MAX,
    &SPIN_US_MAX,
    &LOG_SEGMENT_BYTES,
    &LOG_BYTES_MAX,
    &CHECKPOINTS,
    &CHECKPOINT_LOG_BYTES,
    &CHECKPOINT_THREADS,
    &CHECKPOINT_PROCESS,
    &CHECKPOINT_COPY,
    &CHECKPOINT_CHANGES_BYTES_MAX,
    &CHECKPOINT_DEVICE_PERCENT,
    &CHECKPOINT_QUEUE_BYTES_MAX,
    &CHECKPOINT_AT_CLOSE,
    &CHECKPOINT_BLOCK_BYTES,
    &CHECKPOINT_SPARE_BLOCKS,
    &MEMORY_BYTES_MAX,
    &SNAPSHOT_BYTES_MAX,
    &REQUEST_IDS_MIN,
    &REQUEST_IDS_S_MIN,
    &CLIENTS,
    &IN_FLIGHT,
    &LOOP,
    &RATE,
    &WAREHOUSES,
    &MIX,
    &BRANCHES,
    &TELLERS_PER_BRANCH,
    &ACCOUNTS_PER_BRANCH,
    &SECONDS,
    &TRANSACTIONS,
    &LATENCY_TRANSACTIONS,
    &BATCH,
    &RESERVE,
    &LOAD_THREADS,
    &MEMORY_LIMIT,
    &SEED,
    &ROUNDS,
    &COUNTER,
    &COUNTED,
    &REPEAT,
];

/// What a setting is called besides: debit-credit's groups have short names on the command line.
pub fn other_name(setting: &Setting) -> Option<&'static str> {
    match setting.name {
        "transactions_per_group" => Some("group_transactions"),
        "time_per_group" => Some("group_time"),
        _ => None,
    }
}

/// The setting called `name`, with `-` or `_`.
pub fn find(name: &str) -> Option<&'static Setting> {
    let name = name.replace('-', "_");
    ALL.iter().copied().find(|setting| setting.name == name || other_name(setting) == Some(&name))
}
