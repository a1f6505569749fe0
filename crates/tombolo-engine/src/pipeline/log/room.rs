//! `LogRoom`: the available room in the log, which the logging stage publishes and the execution stage waits for.
//!
//! ```text
//!   execution: until() ─ too little ─► wait_for() ─ a last look ─► sleeps
//!                                        │ wanted                    ▲ woken
//!   logging:             a flush, new room ─► publish() ─────────────┘
//! ```
//!
//! Room is counted in charges: the disk space that the records passed to the logging stage may take, summed from the
//! start. All orderings are the strongest, because each side first changes its own state and then looks at the
//! other's; each state changes at most once per batch.
//!
//! Not here: how room is made (`stages/room.rs`), which calls are refused for want of it (`stages/execution/`).

use tombolo_storage::sync::{AtomicU64, Ordering};

use super::Room;

/// See the module's head.
#[derive(Debug)]
pub(crate) struct LogRoom {
    /// Up to which sum of charges the log has room: the charges it has taken and the room left.
    until: AtomicU64,
    /// A batch that was charged less than this waits for nothing: that is all the room there will be.
    full_below: AtomicU64,
    /// How much the execution stage waits for; 0: it does not wait.
    wanted: AtomicU64,
}

impl LogRoom {
    pub(crate) fn new(room: Room) -> Self {
        Self {
            until: AtomicU64::new(room.bytes),
            full_below: AtomicU64::new(full_below(room, 0)),
            wanted: AtomicU64::new(0),
        }
    }

    /// Up to which sum of charges there is room.
    #[inline]
    pub(crate) fn until(&self) -> u64 {
        self.until.load(Ordering::SeqCst)
    }

    /// The execution stage, which was charged so much and found room up to `seen`, wants so much more: whether it is
    /// there by now; if not, it waits. `None`: there is no use in waiting.
    pub(crate) fn wait_for(&self, wanted: u64, charged: u64, seen: u64) -> Option<bool> {
        // In this order, the opposite of `publish`: what is read of the room is no older than what it was full for.
        let is_full = || self.full_below.load(Ordering::SeqCst) > charged;
        let has_more = || self.until() > seen;
        if is_full() {
            return has_more().then_some(true);
        }
        self.wanted.store(wanted.max(1), Ordering::SeqCst);
        // The last look: a stage that made room before it was wanted does not wake this one.
        Some(is_full() || has_more())
    }

    /// The logging stage has taken `charged` and has this room. `accounted` is the charge up to which that is what is
    /// really left: behind it lies what was promised and not written yet, of which most comes back. Returns whether
    /// the execution stage waited for it and is to be woken.
    #[must_use = "the execution stage sleeps until it is woken"]
    pub(crate) fn publish(&self, room: Room, charged: u64, accounted: u64) -> bool {
        let until = charged.saturating_add(room.bytes);
        let has_more = until > self.until();
        // First: a thread that reads that it is full reads how much there is.
        self.until.store(until, Ordering::SeqCst);
        self.full_below.store(full_below(room, accounted), Ordering::SeqCst);
        (has_more || room.is_all) && self.end_wait()
    }

    /// How much the execution stage waits for, if it does.
    pub(crate) fn wanted(&self) -> Option<u64> {
        Some(self.wanted.load(Ordering::SeqCst)).filter(|&wanted| wanted > 0)
    }

    /// The execution stage waits no more; says whether it did, and is to be woken.
    #[must_use = "the execution stage sleeps until it is woken"]
    pub(crate) fn end_wait(&self) -> bool {
        self.wanted().is_some() && self.wanted.swap(0, Ordering::SeqCst) > 0
    }
}

const fn full_below(room: Room, accounted: u64) -> u64 {
    if room.is_all { accounted.saturating_add(1) } else { 0 }
}

#[cfg(not(loom))]
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn execution_waits_while_more_may_come_and_is_woken_once() {
        let room = |bytes, is_all| Room { bytes, is_all, more_is_wanted: false };
        let log = LogRoom::new(room(100, false));
        assert_eq!((log.wait_for(30, 90, 100), log.wanted()), (Some(false), Some(30)));
        assert!(!log.publish(room(10, false), 90, 90), "it is as much as before");
        assert!(log.publish(room(40, false), 90, 90) && !log.publish(room(50, false), 90, 90));
        // More than was seen is there already.
        assert_eq!((log.until(), log.wait_for(30, 90, 130)), (140, Some(true)));
        // Only what was promised may come back: it is full for those that were charged no more than is accounted.
        assert!(log.publish(room(5, true), 90, 90));
        assert_eq!((log.wait_for(30, 90, 95), log.wait_for(30, 91, 95)), (None, Some(false)));
        assert!(log.end_wait() && !log.end_wait());
        assert!(!log.publish(room(5, true), 90, u64::MAX));
        assert_eq!((log.wait_for(30, 1_000, 95), log.wait_for(1, 90, 94)), (None, Some(true)));
    }
}
