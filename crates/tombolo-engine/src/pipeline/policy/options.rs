//! The options of a pipeline, derived from the settings.
//!
//! Not here: the names and limits of the settings (`settings/registry.rs`).

use crate::pipeline::transport::Load;
use crate::settings::{self, Settings};

/// The distribution of stages over threads. Stages on the same thread are stepped in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// All on one thread.
    One,
    /// Execution, logging and output on one, input stages on their own (TPK-31).
    Coalesced,
    /// Input and execution on one, logging and output on another.
    Two,
    /// Like `Two`, but waiting callers step the stages themselves (`callers/carrying/`), and replies are
    /// delivered without an output stage.
    Carried,
    /// Execution on one, logging on another; input and output are stepped by the callers' own
    /// thread (see [`crate::pipeline::Pipeline::own_stages`]).
    Callers,
    /// A thread for each (TPK-32).
    Each,
}

/// The options of a pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The distribution of stages over threads.
    pub spread: Spread,
    /// The number of input stages, if requests need preparing.
    pub input_stages: usize,
    /// The number of output stages.
    pub output_stages: usize,
    /// The bound of each queue.
    pub queue_max: Load,
    /// The most transactions of a batch, which is passed to the logging stage as a whole.
    pub batch_transactions_max: usize,
    /// Transactions whose rows are prefetched together before they run; `None`: tuned while running.
    pub locate_ahead: Option<usize>,
    /// The longest time that a slice of long work may occupy the execution thread, in nanoseconds; procedures
    /// that take longer are reported.
    pub slice_ns_max: u64,
    /// The rules for flushing groups.
    pub group: GroupPolicy,
    /// The rules for checkpoints, if there are any.
    pub checkpoint: CheckpointPolicy,
    /// The time that an idle thread spins before it sleeps, in nanoseconds.
    pub spin_ns: u64,
}

/// The rules for flushing a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupPolicy {
    /// Transactions at which a group is flushed.
    pub transactions: u64,
    /// Time after its first transaction at which it is flushed; `None`: as soon as the device is free and
    /// the callers that were just answered have returned.
    pub time_ns: Option<u64>,
    /// The longest time between an `async` answer and the end of the flush that makes it durable,
    /// on a device that takes less than half of it.
    pub async_loss_ns_max: u64,
    /// The longest time between the last flush and the empty group that seals it.
    pub seal_ns_max: u64,
}

/// The rules for checkpoints: when they are written, and the resources they may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckpointPolicy {
    /// Bytes of log after which the next checkpoint begins.
    pub log_bytes: u64,
    /// The share of the device's time for blocks while groups are flushed, in percent.
    pub device_percent: u64,
    /// Bytes of buffers that may wait for a part; beyond, the part reads the log.
    pub queue_bytes_max: u64,
    /// Whether closing writes a checkpoint, if anything was logged since the last one.
    pub at_close: bool,
}

impl Options {
    /// The options for a machine that runs `cores` threads simultaneously.
    ///
    /// # Panics
    /// Never: settings are kept within their limits.
    pub fn new(settings: &Settings, cores: usize) -> Self {
        Self::with_input_stages(settings, cores, 1)
    }

    /// The same with this number of input stages.
    pub fn with_input_stages(settings: &Settings, cores: usize, input_stages: usize) -> Self {
        let count = |setting| settings.count(setting) as usize;
        let ms = |setting| settings.count(setting) * 1_000_000;
        let spread = match settings.word(&settings::PIPELINE_THREADS) {
            "one" => Spread::One,
            "coalesced" => Spread::Coalesced,
            "two" => Spread::Two,
            "callers" => Spread::Callers,
            "each" => Spread::Each,
            _ => Spread::Carried,
        };
        let output_stages = count(&settings::OUTPUT_THREADS);
        let threads = match spread {
            Spread::One => 1,
            Spread::Coalesced => 1 + input_stages,
            Spread::Two | Spread::Carried | Spread::Callers => 2,
            Spread::Each => 2 + input_stages + output_stages,
        };
        // A spinning thread occupies a core that the threads which produce work may need.
        let spin_us = settings.number(&settings::SPIN_US_MAX);
        let spin_us = spin_us.unwrap_or(if threads < cores { SPIN_US } else { 0 });
        Self {
            spread,
            input_stages,
            output_stages,
            queue_max: Load {
                transactions: settings.count(&settings::QUEUE_TRANSACTIONS_MAX),
                bytes: settings.count(&settings::QUEUE_BYTES_MAX),
            },
            batch_transactions_max: count(&settings::BATCH_TRANSACTIONS_MAX),
            locate_ahead: settings.number(&settings::LOCATE_AHEAD).map(|ahead| ahead as usize),
            slice_ns_max: settings.count(&settings::SLICE_US_MAX) * 1_000,
            group: GroupPolicy {
                transactions: settings
                    .number(&settings::TRANSACTIONS_PER_GROUP)
                    .unwrap_or(u64::MAX),
                time_ns: settings
                    .time_or_word(&settings::TIME_PER_GROUP)
                    .map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)),
                async_loss_ns_max: ms(&settings::ASYNC_LOSS_MS_MAX),
                seal_ns_max: ms(&settings::SEAL_MS_MAX),
            },
            checkpoint: CheckpointPolicy {
                log_bytes: checkpoint_log_bytes(settings),
                device_percent: settings.count(&settings::CHECKPOINT_DEVICE_PERCENT),
                queue_bytes_max: settings.count(&settings::CHECKPOINT_QUEUE_BYTES_MAX),
                at_close: settings.word(&settings::CHECKPOINT_AT_CLOSE) == "yes",
            },
            spin_ns: spin_us * 1_000,
        }
    }
}

/// Bytes of records after which a checkpoint begins: early enough that the log does not reach its limit while
/// the checkpoint is written.
fn checkpoint_log_bytes(settings: &Settings) -> u64 {
    let of_limit = settings.number(&settings::LOG_BYTES_MAX).map(|bytes| bytes / 4);
    let asked = settings.number(&settings::CHECKPOINT_LOG_BYTES);
    asked
        .unwrap_or_else(|| of_limit.map_or(CHECKPOINT_LOG_BYTES, |of| of.min(CHECKPOINT_LOG_BYTES)))
}

/// Bytes that recovery replays in a few seconds.
const CHECKPOINT_LOG_BYTES: u64 = 1 << 30;

/// The time that an idle thread with a core of its own spins.
const SPIN_US: u64 = 50;

#[cfg(not(loom))]
#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Source;

    fn options(texts: &[(&str, &str)], cores: usize) -> Options {
        let mut settings = Settings::default();
        for (name, text) in texts {
            settings.set(name, text, Source::Flag).unwrap();
        }
        Options::new(&settings, cores)
    }

    #[test]
    fn threads_follow_the_cores_unless_set() {
        for (cores, spread, spins) in
            [(1, Spread::Carried, false), (2, Spread::Carried, false), (8, Spread::Carried, true)]
        {
            let options = options(&[], cores);
            assert_eq!((options.spread, options.spin_ns > 0), (spread, spins), "{cores} cores");
        }
        let options = options(&[("pipeline_threads", "one"), ("spin_us_max", "7")], 8);
        assert_eq!((options.spread, options.spin_ns), (Spread::One, 7_000));
    }

    #[test]
    fn groups_are_flushed_at_once_unless_set() {
        let auto = options(&[], 2).group;
        assert_eq!((auto.time_ns, auto.transactions), (None, u64::MAX));
        let timed = [("time_per_group", "2ms"), ("transactions_per_group", "100")];
        let timed = options(&timed, 2).group;
        assert_eq!((timed.time_ns, timed.transactions), (Some(2_000_000), 100));
        assert_eq!(options(&[("time_per_group", "auto")], 2).group, auto);
    }
}
