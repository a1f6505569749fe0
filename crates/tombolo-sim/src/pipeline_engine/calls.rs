//! Calls of a life that are under way, and the tags by which they are known.

use tombolo_engine::pipeline::{Durability, Outcome as Ended};

use crate::workload::model::Outcome;
use crate::workload::request::Request;
use crate::world::World;

/// What a client asks of a pipeline.
#[derive(Clone, Debug)]
pub(crate) enum Asked {
    /// A transaction.
    Run(Request),
    /// To make what was built part of the schema; by its call's tag.
    FinishAddition(u64),
}

/// The state of an addition, with the tag of its call; see `long.rs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Adding {
    Resting,
    Building(u64),
    Built,
    Finishing(u64),
}

/// A submitted request that ran: its place and outcome.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ran {
    pub(super) place: usize,
    pub(super) outcome: Outcome,
}

/// A call that was taken in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Open {
    pub(super) durability: Durability,
    pub(super) only_reads: bool,
}

/// What a caller carried and has not reported yet.
pub(super) struct CarriedCall {
    pub(super) tag: u64,
    pub(super) outcome: Ended<u64>,
    /// The position up to which the log must be durable.
    pub(super) position: u64,
    /// Whether its caller has done the log's work since it ran, as callers do before they sleep.
    pub(super) has_looked: bool,
}

/// What the tags of long reads end with; no client has that number.
pub(super) const LONG_READ: u64 = 0xff;

pub(super) fn is_long_read(tag: u64) -> bool {
    tag & 0xff == LONG_READ
}

pub(super) fn draw_durability(world: &mut World) -> Durability {
    match world.rng.below(8) {
        0 => Durability::Async,
        1 => Durability::Sync,
        _ => Durability::Group,
    }
}

/// A request that is sent again has a tag of its own.
pub(super) fn tag_of(request: &Request) -> u64 {
    let times = u64::from(request.sent_before.unwrap_or_default());
    times << 40 | (request.number as u64) << 8 | request.client as u64
}
