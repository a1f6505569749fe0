//! Every setting that means something to a database in a program. Not here: what settings are, how they are
//! read (`setting.rs`), those of the command, its drivers and its workloads (the laboratory).

use std::time::Duration;

use super::setting::{Default, Kind, Setting};

const GB: u64 = 1 << 30;

crate::setting_list! {
    /// The settings that mean something to a database in a program, in the order they are printed.
    pub static ALL;

    /// Which stage of the pipeline is on which thread.
    pub PIPELINE_THREADS = Setting::new(
        "pipeline_threads",
        Kind::Choice(&["auto", "one", "coalesced", "two", "callers", "each"]),
        Default::Is("auto"),
        "which threads run the pipeline's stages: auto (callers that wait, and two threads behind them), \
         or always the same: one, coalesced (input apart), two (logging and output apart), one for each",
    );
    /// Output stages.
    pub OUTPUT_THREADS = Setting::new(
        "output_threads",
        Kind::Count(1, 256),
        Default::Is("1"),
        "output stages; each hands replies to its share of the callers",
    ).of("stages");
    /// The queues' bound, by number.
    pub QUEUE_TRANSACTIONS_MAX = Setting::new(
        "queue_transactions_max",
        Kind::Count(1, 1 << 26),
        Default::Is("65_536"),
        "transactions that wait in each of the pipeline's queues; callers wait behind them",
    ).of("transactions");
    /// The queues' bound, by size.
    pub QUEUE_BYTES_MAX = Setting::new(
        "queue_bytes_max",
        Kind::Bytes(GB >> 20, GB << 10),
        Default::Is("64 MB"),
        "bytes of requests, records or replies that wait in each of the pipeline's queues",
    ).of("bytes");
    /// The execution stage's batches.
    pub BATCH_TRANSACTIONS_MAX = Setting::new(
        "batch_transactions_max",
        Kind::Count(1, 1 << 20),
        Default::Is("256"),
        "transactions that execution hands to logging together",
    ).of("transactions");
    /// Two-stage execution.
    pub LOCATE_AHEAD = Setting::new(
        "locate_ahead",
        Kind::Count(0, 4_096),
        Default::Means("as many as pay, found while running"),
        "transactions whose rows are located before they run, while others do; 0: each when it runs",
    ).of("transactions");
    /// How long one piece of work may hold the execution thread.
    pub SLICE_US_MAX = Setting::new(
        "slice_us_max",
        Kind::Count(4, 1_000_000),
        Default::Is("200"),
        "the longest slice of a long read between transactions; procedures above it are reported",
    ).of("microseconds");
    /// The group's size.
    pub TRANSACTIONS_PER_GROUP = Setting::new(
        "transactions_per_group",
        Kind::Count(1, 1 << 30),
        Default::Means("any number"),
        "transactions at which a group is made durable before its time",
    ).of("transactions").also("group_transactions");
    /// The group's time.
    pub TIME_PER_GROUP = Setting::new(
        "time_per_group",
        Kind::DurationOr("auto", Duration::ZERO, Duration::from_secs(60)),
        Default::Is("auto"),
        "how long a group gathers transactions; auto: until the device is free and callers are back",
    ).of("time").also("group_time");
    /// The window in which an early answer may be lost.
    pub ASYNC_LOSS_MS_MAX = Setting::new(
        "async_loss_ms_max",
        Kind::Count(1, 3_600_000),
        Default::Is("100"),
        "how long after its answer an async transaction may be lost by a crash",
    ).of("milliseconds");
    /// When the last group is sealed.
    pub SEAL_MS_MAX = Setting::new(
        "seal_ms_max",
        Kind::Count(1, 3_600_000),
        Default::Is("100"),
        "how long the log is idle before an empty group vouches for the last one",
    ).of("milliseconds");
    /// How long idle threads stay awake.
    pub SPIN_US_MAX = Setting::new(
        "spin_us_max",
        Kind::Count(0, 1_000_000),
        Default::Means("50 where the pipeline leaves a core free, else 0"),
        "how long an idle thread of the pipeline looks for work before it sleeps",
    ).of("microseconds");
    /// The value log's segments.
    pub LOG_SEGMENT_BYTES = Setting::new(
        "log_segment_bytes",
        Kind::Bytes(GB >> 14, GB),
        Default::Is("64 MB"),
        "the longest file of a memory store's log, made and written over before it is used; the first have 1 MB",
    ).of("bytes");
    /// The value log's bound.
    pub LOG_BYTES_MAX = Setting::new(
        "log_bytes_max",
        Kind::Bytes(GB >> 13, GB << 20),
        Default::Means("what the disk has room for"),
        "all files of a memory store's log together; beyond, writes are refused",
    ).of("bytes");
    /// Whether checkpoints are written.
    pub CHECKPOINTS = Setting::new(
        "checkpoints",
        Kind::Choice(&["on", "off"]),
        Default::Is("on"),
        "whether a memory store's rows are kept on disk, too, so that its log can go; costs a second copy",
    );
    /// When a checkpoint begins.
    pub CHECKPOINT_LOG_BYTES = Setting::new(
        "checkpoint_log_bytes",
        Kind::Bytes(GB >> 20, GB << 14),
        Default::Means("1 GB, or a quarter of log_bytes_max"),
        "bytes of log files after which a checkpoint begins; a crash leaves some twice as much to be read",
    ).of("bytes");
    /// Threads that write checkpoints.
    pub CHECKPOINT_THREADS = Setting::new(
        "checkpoint_threads",
        Kind::Count(1, 256),
        Default::Is("1"),
        "threads that write checkpoints, each the rows of some tables",
    ).of("threads");
    /// Where the second copy of the rows is.
    pub CHECKPOINT_COPY = Setting::new(
        "checkpoint_copy",
        Kind::Choice(&["memory", "none"]),
        Default::Is("memory"),
        "where the second copy of all rows is that checkpoints need; none: blocks are copied from the rows \
         themselves, between transactions",
    );
    /// What a checkpoint may take of the device.
    pub CHECKPOINT_DEVICE_PERCENT = Setting::new(
        "checkpoint_device_percent",
        Kind::Count(1, 100),
        Default::Is("50"),
        "the device's time that a checkpoint may take while transactions are made durable",
    ).of("percent");
    /// What waits for a checkpoint stage.
    pub CHECKPOINT_QUEUE_BYTES_MAX = Setting::new(
        "checkpoint_queue_bytes_max",
        Kind::Bytes(GB >> 20, GB << 10),
        Default::Is("64 MB"),
        "log records that wait to be installed for a checkpoint; beyond, they are read from the log",
    ).of("bytes");
    /// Whether closing writes a checkpoint.
    pub CHECKPOINT_AT_CLOSE = Setting::new(
        "checkpoint_at_close",
        Kind::Choice(&["yes", "no"]),
        Default::Is("yes"),
        "whether closing writes a checkpoint, so that nothing is replayed when the database is opened",
    );
    /// The image's blocks.
    pub CHECKPOINT_BLOCK_BYTES = Setting::new(
        "checkpoint_block_bytes",
        Kind::Bytes(4 << 10, GB / 4),
        Default::Is("1 MB"),
        "a block of a checkpoint's image: what is written at a time",
    ).of("bytes");
    /// The image's spare blocks.
    pub CHECKPOINT_SPARE_BLOCKS = Setting::new(
        "checkpoint_spare_blocks",
        Kind::Count(1, 1_024),
        Default::Is("1"),
        "places beyond the blocks of a ring: after so many blocks the image is flushed",
    ).of("blocks");
    /// The memory store's budget.
    pub MEMORY_BYTES_MAX = Setting::new(
        "memory_bytes_max",
        Kind::Bytes(GB >> 10, GB << 14),
        Default::Means("none: what the machine has"),
        "memory budget of a store; a transaction that would exceed it is refused, the others continue",
    ).of("bytes");
    /// How many request ids a database remembers, whatever their age.
    pub REQUEST_IDS_MIN = Setting::new(
        "request_ids_min",
        Kind::Count(1, 1_000_000_000),
        Default::Is("100k"),
        "request ids a program's database remembers, whatever their age; 100 bytes each",
    ).of("ids").not_identifying();
    /// How long a database remembers request ids, however many there are.
    pub REQUEST_IDS_S_MIN = Setting::new(
        "request_ids_s_min",
        Kind::Count(0, 31_536_000),
        Default::Is("60"),
        "how long it remembers them, however many there are; they count for memory_bytes_max",
    ).of("seconds").not_identifying();
}
