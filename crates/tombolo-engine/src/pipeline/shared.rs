//! What the stages of one pipeline share besides their queues: positions, the poison, counters.
//!
//! Everything here is written once per batch or less. Not here: anything a transaction touches.

use std::sync::{Arc, OnceLock};

use tombolo_storage::sync::{AtomicU64, Ordering};

use super::callers::Callers;
use super::statistics::Counters;

/// Shared by the stages and the callers of one pipeline.
#[derive(Debug)]
pub(super) struct Shared<A> {
    /// Positions count the bytes of records handed to the logging stage, from 0 at the start.
    durable: AtomicU64,
    /// Up to which sum of charges the log has room: the charges it has taken and the room left.
    room_until: AtomicU64,
    poison: OnceLock<Arc<str>>,
    pub(super) callers: Callers<A>,
    pub(super) counters: Counters,
}

impl<A> Shared<A> {
    pub(super) fn new(room_bytes: u64) -> Self {
        Self {
            durable: AtomicU64::new(0),
            room_until: AtomicU64::new(room_bytes),
            poison: OnceLock::new(),
            callers: Callers::new(),
            counters: Counters::default(),
        }
    }

    /// Up to which position the log is durable.
    pub(super) fn durable(&self) -> u64 {
        // Partner: `set_durable`. Who sees the position may let answers go.
        self.durable.load(Ordering::Acquire)
    }

    pub(super) fn set_durable(&self, position: u64) {
        self.durable.store(position, Ordering::Release);
    }

    pub(super) fn room_until(&self) -> u64 {
        // A number by itself: whoever reads an older one only refuses too early.
        self.room_until.load(Ordering::Relaxed)
    }

    pub(super) fn set_room_until(&self, charges: u64) {
        self.room_until.store(charges, Ordering::Relaxed);
    }

    /// Why nothing is acknowledged any more, if so.
    pub(super) fn poison(&self) -> Option<&Arc<str>> {
        self.poison.get()
    }

    /// Ends all acknowledgements; the first reason stays.
    pub(super) fn set_poison(&self, reason: &str) -> Arc<str> {
        self.poison.get_or_init(|| reason.into()).clone()
    }
}
