//! The settings of the drivers, and of what they drive as far as a program's database has no such setting.
//!
//! Not here: those of a workload (in its folder), those of a database (the engine's registry).

use std::time::Duration;

use tombolo_engine::setting_list;
use tombolo_engine::settings::{Default, Kind, Setting};
use tombolo_storage::profile::PROFILES;

const NAMES: [&str; PROFILES.len()] = {
    let mut names = [""; PROFILES.len()];
    let mut i = 0;
    while i < names.len() {
        names[i] = PROFILES[i].name;
        i += 1;
    }
    names
};

const GB: u64 = 1 << 30;

setting_list! {
    /// Which store there is, where it lies, and what it is made of.
    pub(super) static STORE;

    /// Which component set runs.
    pub PROFILE = Setting::new(
        "profile",
        Kind::Choice(&NAMES),
        Default::Is("memory"),
        "which components the engine has (run --list-profiles)",
    );
    /// When an answer may leave.
    pub DURABILITY = Setting::new(
        "durability",
        Kind::Choice(&["none", "async", "group", "sync"]),
        Default::Means("the most the profile can: group or none"),
        "what a committed transaction survives; with none, a paged database survives a clean end only",
    );
    /// Where a database lies.
    pub DATA = Setting::new(
        "data",
        Kind::Text,
        Default::Means("a fresh directory here, if files are written"),
        "the directory of the database, empty or new; a run in memory has none",
    ).not_identifying();
    /// The content of a memory database's log.
    pub LOG = Setting::new(
        "log",
        Kind::Choice(&["value", "command"]),
        Default::Is("value"),
        "what a new memory database logs: changed rows, or the calls that changed them",
    );
    /// Engines side by side.
    pub ISLANDS = Setting::new(
        "islands",
        Kind::Count(1, 1_024),
        Default::Is("1"),
        "engines, each over a part of the data; only 1 yet",
    ).of("islands");
    /// Execution threads.
    pub THREADS = Setting::new(
        "threads",
        Kind::Count(1, 1_024),
        Default::Is("1"),
        "execution threads of an island; 1 without locks and latches",
    ).of("threads");
    /// How often a transaction is tried again.
    pub RETRIES_MAX = Setting::new(
        "retries_max",
        Kind::Count(0, 1_000_000),
        Default::Is("1k"),
        "how often a transaction that gave way to others is tried again before the run fails",
    ).of("retries");
    /// The buffer pool.
    pub POOL_BYTES = Setting::new(
        "pool_bytes",
        Kind::Bytes(GB >> 10, GB << 14),
        Default::Means("room for all of the run's data"),
        "the buffer pool of a paged store; pages that do not fit go to its disk",
    ).of("bytes");
    /// The log's buffer.
    pub LOG_BUFFER_BYTES = Setting::new(
        "log_buffer_bytes",
        Kind::Bytes(GB >> 11, GB),
        Default::Is("8 MB"),
        "the buffer between transactions and the log's file; without a file, room for the whole log",
    ).of("bytes");
    /// The isolation of transactions.
    pub ISOLATION = Setting::new(
        "isolation",
        Kind::Choice(&["serializable", "read_committed"]),
        Default::Is("serializable"),
        "what transactions see of each other; read_committed where there are locks",
    );
    /// The lock table's chains.
    pub LOCK_BUCKETS = Setting::new(
        "lock_buckets",
        Kind::Count(1, 1 << 24),
        Default::Is("16_384"),
        "chains of the lock table; rounded up to a power of two",
    ).of("chains");
    /// The lock table's room.
    pub LOCKS_MAX = Setting::new(
        "locks_max",
        Kind::Count(1_024, 1 << 26),
        Default::Is("65_536"),
        "locks that all transactions together may hold or wait for",
    ).of("locks");
    /// Where row locks become a page's.
    pub ROW_LOCKS_PER_PAGE_MAX = Setting::new(
        "row_locks_per_page_max",
        Kind::Count(1, 65_535),
        Default::Is("64"),
        "rows of a page that a transaction locks one by one before it tries to lock the page",
    ).of("locks");
    /// Where page locks become a store's.
    pub PAGE_LOCKS_PER_STORE_MAX = Setting::new(
        "page_locks_per_store_max",
        Kind::Count(1, 65_535),
        Default::Is("1_024"),
        "pages of a table in which a transaction locks rows before it tries to lock the table",
    ).of("pages");
    /// How long a lock is waited for.
    pub LOCK_WAIT_MAX = Setting::new(
        "lock_wait_max",
        Kind::Duration(Duration::from_millis(1), Duration::from_secs(3_600)),
        Default::Is("10s"),
        "how long a transaction waits for a lock before it gives way",
    ).of("time");
}

setting_list! {
    /// The settings listed between two groups of the engine's.
    pub(super) static BETWEEN;

    /// Input stages.
    pub INPUT_THREADS = Setting::new(
        "input_threads",
        Kind::Count(1, 256),
        Default::Is("1"),
        "threads of the input stage, which prepares requests for execution",
    ).of("stages");
    /// The process that writes checkpoints.
    pub CHECKPOINT_PROCESS = Setting::new(
        "checkpoint_process",
        Kind::Choice(&["own", "other"]),
        Default::Is("own"),
        "whether checkpoints are written by the database's own process or by another one it starts",
    );
    /// The part of the budget that long reads may take.
    pub SNAPSHOT_BYTES_MAX = Setting::new(
        "snapshot_bytes_max",
        Kind::Bytes(GB >> 14, GB << 14),
        Default::Is("1 GB"),
        "changed rows kept for long reads, of memory_bytes_max; beyond it the oldest read ends",
    ).of("bytes");
}

setting_list! {
    /// The callers: how many they are, and when a call begins.
    pub(super) static CALLERS;

    /// Callers.
    pub CLIENTS = Setting::new(
        "clients",
        Kind::Count(1, 1_000_000),
        Default::Is("1"),
        "callers, in a closed loop; not threads",
    ).of("callers");
    /// Calls a caller has under way.
    pub IN_FLIGHT = Setting::new(
        "in_flight",
        Kind::Count(1, 1_000_000),
        Default::Is("1"),
        "calls each caller has under way",
    ).of("calls");
    /// When a call begins.
    pub LOOP = Setting::new(
        "loop",
        Kind::Choice(&["closed", "open"]),
        Default::Is("closed"),
        "when a call begins: closed = its caller's last call is answered; open = its time (rate) has come",
    );
    /// Calls per second in an open loop.
    pub RATE = Setting::new(
        "rate",
        Kind::Count(1, 1_000_000_000),
        Default::Means("none: an open loop needs one"),
        "calls per second in an open loop, at random times drawn by the seed",
    ).of("calls per second");
}

setting_list! {
    /// The length of a run, and the counter.
    pub(super) static RUN;

    /// How long to run.
    pub SECONDS = Setting::new(
        "seconds",
        Kind::Duration(Duration::from_millis(1), Duration::from_secs(86_400)),
        Default::Is("5s"),
        "how long transactions are executed, unless transactions is given",
    ).of("time");
    /// How much to run.
    pub TRANSACTIONS = Setting::new(
        "transactions",
        Kind::Count(1, 100_000_000_000),
        Default::Means("until seconds are over"),
        "how many transactions are executed",
    ).of("transactions");
    /// How many transactions are timed one by one.
    pub LATENCY_TRANSACTIONS = Setting::new(
        "latency_transactions",
        Kind::Count(0, 100_000_000),
        Default::Means("100,000, or as many as --transactions if these are fewer"),
        "further transactions, timed one by one after the throughput was measured",
    ).of("transactions");
    /// Inputs made at a time.
    pub BATCH = Setting::new(
        "batch",
        Kind::Count(1, 10_000_000),
        Default::Is("100k"),
        "inputs made beforehand at a time, outside what is measured",
    ).of("inputs");
    /// Whether memory is taken beforehand.
    pub RESERVE = Setting::new(
        "reserve",
        Kind::Choice(&["yes", "no"]),
        Default::Is("yes"),
        "whether memory for a batch's new rows is taken beforehand, outside what is measured",
    );
    /// Threads that make the initial data.
    pub LOAD_THREADS = Setting::new(
        "load_threads",
        Kind::Count(1, 1_024),
        Default::Means("one per core"),
        "threads that generate the initial data; the data does not depend on them",
    ).of("threads").not_identifying();
    /// The most memory a run may take.
    pub MEMORY_LIMIT = Setting::new(
        "memory_limit",
        Kind::Bytes(GB / 16, GB << 14),
        Default::Means("what the machine has free"),
        "memory of a run: one that would need more is refused, one that grows past it ends",
    ).of("bytes");
    /// The seed of everything random.
    pub SEED = Setting::new(
        "seed",
        Kind::Count(0, u64::MAX),
        Default::Is("1"),
        "makes data and inputs the same every time",
    ).not_identifying();
    /// Interleaved repetitions.
    pub ROUNDS = Setting::new(
        "rounds",
        Kind::Count(1, 1_000),
        Default::Is("1"),
        "how often every point is run, in turn",
    ).of("rounds").not_identifying();
    /// The counter of instructions.
    pub COUNTER = Setting::new(
        "counter",
        Kind::Choice(&["auto", "perf", "callgrind", "none"]),
        Default::Is("none"),
        "what counts instructions: perf = the processor, callgrind = valgrind, auto = whichever there is",
    );
    /// How many transactions are counted.
    pub COUNTED = Setting::new(
        "counted",
        Kind::Count(100, 1_000_000),
        Default::Is("2k"),
        "transactions of the mix in which each kind's instructions are counted",
    ).of("transactions");
    /// How often instructions are counted.
    pub REPEAT = Setting::new(
        "repeat",
        Kind::Count(1, 100),
        Default::Is("1"),
        "how often instructions are counted, from the start",
    ).of("counts").not_identifying();
}
