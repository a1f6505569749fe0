//! What the stages of one pipeline share besides their queues: positions, the poison, counters.
//!
//! Everything here is written once per batch or less. Not here: anything a transaction touches.

pub(crate) mod counters;

pub use counters::Flush;
pub(crate) use counters::{Counters, add, add_alone, get};

use std::sync::{Arc, OnceLock};

use tombolo_storage::sync::{AtomicU64, Ordering};
use tombolo_storage::value_log::GroupNumber;

use crate::pipeline::log::{LogRoom, Room};
use crate::pipeline::transport::{Callers, Waiters};

/// Shared by the stages and the callers of one pipeline.
#[derive(Debug)]
pub(crate) struct Shared<A> {
    /// Positions count the bytes of records handed to the logging stage, from 0 at the start.
    durable: AtomicU64,
    /// The newest group of the log that is durable.
    durable_group: AtomicU64,
    /// The newest group that is flushed. It is durable, too, unless it depends on other logs.
    flushed_group: AtomicU64,
    pub(crate) room: LogRoom,
    poison: OnceLock<Arc<str>>,
    pub(crate) callers: Callers<A>,
    pub(crate) waiters: Waiters,
    pub(crate) counters: Counters,
}

impl<A> Shared<A> {
    pub(crate) fn new(room: Room) -> Self {
        Self {
            durable: AtomicU64::new(0),
            durable_group: AtomicU64::new(0),
            flushed_group: AtomicU64::new(0),
            room: LogRoom::new(room),
            poison: OnceLock::new(),
            callers: Callers::new(),
            waiters: Waiters::default(),
            counters: Counters::default(),
        }
    }

    /// Up to which position the log is durable.
    pub(crate) fn durable(&self) -> u64 {
        // Partner: `set_durable`. A thread that sees the position may let answers go.
        self.durable.load(Ordering::Acquire)
    }

    pub(crate) fn set_durable(&self, position: u64) {
        self.durable.store(position, Ordering::Release);
    }

    /// The newest group of the log that is durable.
    pub(crate) fn durable_group(&self) -> GroupNumber {
        // Partner: `set_durable_group`. A thread that reads the log up to it finds it there.
        self.durable_group.load(Ordering::Acquire)
    }

    pub(crate) fn set_durable_group(&self, group: GroupNumber) {
        self.durable_group.store(group, Ordering::Release);
    }

    /// The newest group of the log that is flushed.
    pub(crate) fn flushed_group(&self) -> GroupNumber {
        // Partner: `set_flushed_group`. A thread that reads the log up to it finds it there.
        self.flushed_group.load(Ordering::Acquire)
    }

    pub(crate) fn set_flushed_group(&self, group: GroupNumber) {
        self.flushed_group.store(group, Ordering::Release);
    }

    /// Why nothing is acknowledged any more, if so.
    pub(crate) fn poison(&self) -> Option<&Arc<str>> {
        self.poison.get()
    }

    /// Ends all acknowledgements; the first reason stays.
    pub(crate) fn set_poison(&self, reason: &str) -> Arc<str> {
        self.poison.get_or_init(|| reason.into()).clone()
    }
}
