//! The settings of an embedded database. Not here: the type of a setting and its parser (`setting.rs`), the
//! settings of the command, its drivers and its workloads (the laboratory).

use std::time::Duration;

use super::setting::{Default, Kind, Setting};

const GB: u64 = 1 << 30;

crate::setting_list! {
    /// The settings of an embedded database, in the order in which they are printed.
    pub static ALL;

    /// The distribution of the pipeline's stages over threads.
    pub PIPELINE_THREADS = Setting::new(
        "pipeline_threads",
        Kind::Choice(&["auto", "one", "coalesced", "two", "callers", "each"]),
        Default::Is("auto"),
        "how stages share threads: auto (waiting callers run stages themselves, two threads do the rest), \
         one (thread for all), coalesced (all but input), two (input, execution | logging, output), \
         callers (input and output run by the only calling thread), each (a thread per stage)",
    );
    /// The number of output stages.
    pub OUTPUT_THREADS = Setting::new(
        "output_threads",
        Kind::Count(1, 256),
        Default::Is("1"),
        "output stages; each delivers replies to its share of the callers",
    ).of("stages");
    /// The queues' bound in transactions.
    pub QUEUE_TRANSACTIONS_MAX = Setting::new(
        "queue_transactions_max",
        Kind::Count(1, 1 << 26),
        Default::Is("65_536"),
        "most transactions waiting in each of the pipeline's queues; further callers wait for room",
    ).of("transactions");
    /// The queues' bound in bytes.
    pub QUEUE_BYTES_MAX = Setting::new(
        "queue_bytes_max",
        Kind::Bytes(GB >> 20, GB << 10),
        Default::Is("64 MB"),
        "most bytes of requests, records or replies waiting in each of the pipeline's queues",
    ).of("bytes");
    /// The largest batch of the execution stage.
    pub BATCH_TRANSACTIONS_MAX = Setting::new(
        "batch_transactions_max",
        Kind::Count(1, 1 << 20),
        Default::Is("256"),
        "most transactions that the execution stage passes to the logging stage together",
    ).of("transactions");
    /// Look-ahead of the execution stage.
    pub LOCATE_AHEAD = Setting::new(
        "locate_ahead",
        Kind::Count(0, 4_096),
        Default::Means("tuned while running"),
        "transactions whose rows are prefetched while earlier ones run; 0: no look-ahead",
    ).of("transactions");
    /// The longest time that one piece of work may occupy the execution thread.
    pub SLICE_US_MAX = Setting::new(
        "slice_us_max",
        Kind::Count(4, 1_000_000),
        Default::Is("200"),
        "longest slice of a long read between transactions; procedures that take longer are reported",
    ).of("microseconds");
    /// The size at which a group is flushed.
    pub TRANSACTIONS_PER_GROUP = Setting::new(
        "transactions_per_group",
        Kind::Count(1, 1 << 30),
        Default::Means("no limit"),
        "number of transactions at which a group is flushed before time_per_group",
    ).of("transactions").also("group_transactions");
    /// The time after which a group is flushed.
    pub TIME_PER_GROUP = Setting::new(
        "time_per_group",
        Kind::DurationOr("auto", Duration::ZERO, Duration::from_secs(60)),
        Default::Is("auto"),
        "how long a group collects transactions; auto: until the device is idle and callers have returned",
    ).of("time").also("group_time");
    /// The window in which an early answer may be lost.
    pub ASYNC_LOSS_MS_MAX = Setting::new(
        "async_loss_ms_max",
        Kind::Count(1, 3_600_000),
        Default::Is("100"),
        "time after its answer in which a crash may lose an async transaction",
    ).of("milliseconds");
    /// The idle time after which the last group is sealed.
    pub SEAL_MS_MAX = Setting::new(
        "seal_ms_max",
        Kind::Count(1, 3_600_000),
        Default::Is("100"),
        "idle time of the log after which an empty group vouches for the last one",
    ).of("milliseconds");
    /// The time that idle threads spin.
    pub SPIN_US_MAX = Setting::new(
        "spin_us_max",
        Kind::Count(0, 1_000_000),
        Default::Means("50 if the pipeline leaves a core free, else 0"),
        "how long an idle thread of the pipeline spins before it sleeps",
    ).of("microseconds");
    /// The size of the value log's segments.
    pub LOG_SEGMENT_BYTES = Setting::new(
        "log_segment_bytes",
        Kind::Bytes(GB >> 14, GB),
        Default::Is("64 MB"),
        "largest file of a memory store's log, created and zeroed before use; the first ones have 1 MB",
    ).of("bytes");
    /// The largest size of the value log.
    pub LOG_BYTES_MAX = Setting::new(
        "log_bytes_max",
        Kind::Bytes(GB >> 13, GB << 20),
        Default::Means("none: the disk's free space"),
        "most bytes of all files of a memory store's log; beyond, writes are refused",
    ).of("bytes");
    /// Whether checkpoints are written.
    pub CHECKPOINTS = Setting::new(
        "checkpoints",
        Kind::Choice(&["on", "off"]),
        Default::Is("on"),
        "whether a memory store writes checkpoints, so that old log can be reused; needs a second copy of all rows",
    );
    /// The amount of log after which a checkpoint begins.
    pub CHECKPOINT_LOG_BYTES = Setting::new(
        "checkpoint_log_bytes",
        Kind::Bytes(GB >> 20, GB << 14),
        Default::Means("1 GB, or a quarter of log_bytes_max; 128 MB on pages"),
        "bytes of log after which a checkpoint begins; after a crash up to about twice as much is replayed",
    ).of("bytes");
    /// The number of threads that write checkpoints.
    pub CHECKPOINT_THREADS = Setting::new(
        "checkpoint_threads",
        Kind::Count(1, 256),
        Default::Is("1"),
        "threads that write checkpoints, each for some of the tables",
    ).of("threads");
    /// Where the second copy of the rows is.
    pub CHECKPOINT_COPY = Setting::new(
        "checkpoint_copy",
        Kind::Choice(&["memory", "none"]),
        Default::Is("memory"),
        "where the second copy of all rows is that checkpoints need; none: blocks are copied from the rows \
         themselves, between transactions",
    );
    /// A checkpoint's share of the device.
    pub CHECKPOINT_DEVICE_PERCENT = Setting::new(
        "checkpoint_device_percent",
        Kind::Count(1, 100),
        Default::Is("50"),
        "share of the device's time for a checkpoint while transactions are made durable",
    ).of("percent");
    /// The bound of a checkpoint stage's queue.
    pub CHECKPOINT_QUEUE_BYTES_MAX = Setting::new(
        "checkpoint_queue_bytes_max",
        Kind::Bytes(GB >> 20, GB << 10),
        Default::Is("64 MB"),
        "most bytes of log records queued for a checkpoint; beyond, it reads them back from the log",
    ).of("bytes");
    /// Whether closing writes a checkpoint.
    pub CHECKPOINT_AT_CLOSE = Setting::new(
        "checkpoint_at_close",
        Kind::Choice(&["yes", "no"]),
        Default::Is("yes"),
        "whether closing writes a checkpoint, so that nothing is replayed when the database is opened",
    );
    /// The size of the image's blocks.
    pub CHECKPOINT_BLOCK_BYTES = Setting::new(
        "checkpoint_block_bytes",
        Kind::Bytes(4 << 10, GB / 4),
        Default::Is("1 MB"),
        "size of a block, the unit in which a checkpoint's image is written",
    ).of("bytes");
    /// The number of the image's spare blocks.
    pub CHECKPOINT_SPARE_BLOCKS = Setting::new(
        "checkpoint_spare_blocks",
        Kind::Count(1, 1_024),
        Default::Is("1"),
        "spare places of a ring; the image is flushed after this many blocks",
    ).of("blocks");
    /// The memory store's budget.
    pub MEMORY_BYTES_MAX = Setting::new(
        "memory_bytes_max",
        Kind::Bytes(GB >> 10, GB << 14),
        Default::Means("none: the machine's memory"),
        "memory budget of a store; a transaction that would exceed it is refused, the others continue",
    ).of("bytes");
    /// The number of newest request ids that a database remembers at any age.
    pub REQUEST_IDS_MIN = Setting::new(
        "request_ids_min",
        Kind::Count(1, 1_000_000_000),
        Default::Is("100k"),
        "newest request ids that an embedded database remembers at any age; 100 bytes each",
    ).of("ids").not_identifying();
    /// The time for which a database remembers all request ids.
    pub REQUEST_IDS_S_MIN = Setting::new(
        "request_ids_s_min",
        Kind::Count(0, 31_536_000),
        Default::Is("60"),
        "how long all request ids are remembered; they count towards memory_bytes_max",
    ).of("seconds").not_identifying();
}
