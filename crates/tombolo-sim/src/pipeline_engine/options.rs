//! The pipeline's numbers, as a seed has drawn them.
//!
//! Not here: drawing (`swarm.rs`).

use tombolo_engine::pipeline::{CheckpointPolicy, GroupPolicy, Load, Options, Spread};

use crate::swarm::Swarm;

/// The numbers of one life.
pub(crate) fn options(swarm: &Swarm) -> Options {
    Options {
        spread: if swarm.callers_carry { Spread::Carried } else { Spread::Each },
        input_stages: 1,
        output_stages: swarm.output_stages,
        queue_max: Load { transactions: swarm.queue_max, bytes: 1 << 20 },
        batch_transactions_max: swarm.batch_max as usize,
        locate_ahead: Some(0),
        slice_ns_max: 200_000,
        group: GroupPolicy {
            transactions: swarm.transactions_per_group,
            time_ns: swarm.time_per_group_ns,
            async_loss_ns_max: 20_000_000,
            seal_ns_max: 5_000_000,
        },
        checkpoint: CheckpointPolicy {
            log_bytes: swarm.checkpoint_log_bytes,
            device_percent: swarm.checkpoint_percent,
            queue_bytes_max: swarm.checkpoint_queue_bytes,
            at_close: swarm.checkpoint_at_close,
        },
        spin_ns: 0,
    }
}
