//! What the stages of one pipeline share besides their queues: positions, the poison, counters.
//!
//! Everything here is written once per batch or less. Not here: anything a transaction touches.

use std::sync::{Arc, OnceLock};

use tombolo_storage::sync::{AtomicBool, AtomicU64, Ordering};
use tombolo_storage::value_log::GroupNumber;

use super::callers::Callers;
use super::log::Room;
use super::statistics::Counters;
use super::waiters::Waiters;

/// Shared by the stages and the callers of one pipeline.
#[derive(Debug)]
pub(super) struct Shared<A> {
    /// Positions count the bytes of records handed to the logging stage, from 0 at the start.
    durable: AtomicU64,
    /// The newest group of the log that is durable.
    durable_group: AtomicU64,
    /// Up to which sum of charges the log has room: the charges it has taken and the room left.
    room_until: AtomicU64,
    /// Whether that is all the room there will be before more is made.
    room_is_all: AtomicBool,
    /// Up to which charge the published room is what was really left.
    room_accounted: AtomicU64,
    /// Whether the execution stage waits for room.
    is_starving: AtomicBool,
    /// For how much.
    starved_of: AtomicU64,
    poison: OnceLock<Arc<str>>,
    pub(super) callers: Callers<A>,
    pub(super) waiters: Waiters,
    pub(super) counters: Counters,
}

impl<A> Shared<A> {
    pub(super) fn new(room: Room) -> Self {
        Self {
            durable: AtomicU64::new(0),
            durable_group: AtomicU64::new(0),
            room_until: AtomicU64::new(room.bytes),
            room_is_all: AtomicBool::new(room.is_all),
            room_accounted: AtomicU64::new(0),
            is_starving: AtomicBool::new(false),
            starved_of: AtomicU64::new(0),
            poison: OnceLock::new(),
            callers: Callers::new(),
            waiters: Waiters::default(),
            counters: Counters::default(),
        }
    }

    /// Up to which position the log is durable.
    pub(super) fn durable(&self) -> u64 {
        // Partner: `set_durable`. A thread that sees the position may let answers go.
        self.durable.load(Ordering::Acquire)
    }

    pub(super) fn set_durable(&self, position: u64) {
        self.durable.store(position, Ordering::Release);
    }

    /// The newest group of the log that is durable.
    pub(super) fn durable_group(&self) -> GroupNumber {
        // Partner: `set_durable_group`. A thread that reads the log up to it finds it there.
        self.durable_group.load(Ordering::Acquire)
    }

    pub(super) fn set_durable_group(&self, group: GroupNumber) {
        self.durable_group.store(group, Ordering::Release);
    }

    pub(super) fn room_until(&self) -> u64 {
        self.room_until.load(Ordering::SeqCst) // see `set_starving`
    }

    /// `accounted` is the charge up to which `room` says what is really left: behind it lies what
    /// was promised and not written yet, of which most comes back.
    pub(super) fn set_room(&self, room: Room, charged: u64, accounted: u64) {
        // First: a thread that reads that it is all reads how much it is.
        self.room_until.store(charged.saturating_add(room.bytes), Ordering::SeqCst);
        self.room_is_all.store(room.is_all, Ordering::SeqCst);
        self.room_accounted.store(accounted, Ordering::SeqCst);
    }

    /// Whether there is no use in waiting for more room, when this much was charged.
    pub(super) fn room_is_all(&self, charged: u64) -> bool {
        // In this order, the opposite of `set_room`'s: what is said of the room is then no older
        // than what was accounted for.
        self.room_accounted.load(Ordering::SeqCst) >= charged
            && self.room_is_all.load(Ordering::SeqCst)
    }

    /// The execution stage is about to wait for room, unless it finds some in a last look after
    /// this call. Partner: `take_starving`, after `set_room`. All in one order, as each side does
    /// its own part first and looks at the other's afterwards. `bytes` is the room it needs.
    pub(super) fn set_starving(&self, bytes: u64) {
        self.starved_of.store(bytes, Ordering::SeqCst);
        self.is_starving.store(true, Ordering::SeqCst);
    }

    /// For how much room the execution stage waits, if it does.
    pub(super) fn starved_of(&self) -> Option<u64> {
        self.is_starving().then(|| self.starved_of.load(Ordering::SeqCst))
    }

    /// Whether the execution stage waits for room.
    pub(super) fn is_starving(&self) -> bool {
        self.is_starving.load(Ordering::SeqCst)
    }

    /// Whether the execution stage waited for room; the thread that takes this wakes it.
    pub(super) fn take_starving(&self) -> bool {
        self.is_starving.load(Ordering::SeqCst) && self.is_starving.swap(false, Ordering::SeqCst)
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
