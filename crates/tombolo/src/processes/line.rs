//! `Line`: the link with an island's process, and which thread reads what it sends.
//!
//! ```text
//!   a caller that waits alone ─┐
//!                              ├─ takes ──► reads, hands on ──► leaves
//!   the supervisor ────────────┘
//! ```
//!
//! A caller that waits alone reads its answer itself: otherwise the answer would wake the supervisor, and that the
//! caller. The supervisor leaves reading to such callers while they follow each other closely, and reads when several
//! wait, or none does. Not here: what is done with what arrives (`reading.rs`).
//!
//! Invariants: at most one thread reads; where calls wait, one does, or the supervisor has been woken or wakes
//! within [`LEFT_WAIT`].

use std::collections::BTreeSet;
use std::time::Duration;

use tombolo_engine::link::{Link, Outbox};
use tombolo_storage::sync::{AtomicBool, AtomicU64, Mutex, MutexGuard, Ordering, Parker};

use crate::error::Error;

/// How long the supervisor leaves reading to callers before it looks whether one of them does. What an island says to
/// others, and no caller reads, waits no longer than this.
pub(crate) const LEFT_WAIT: Duration = Duration::from_millis(1);

/// See the file's head.
pub(crate) struct Line {
    pub(crate) outbox: Outbox,
    reading: Mutex<Reading>,
    is_read: AtomicBool,
    /// How many bundles have arrived.
    heard: AtomicU64,
    /// Where the supervisor sleeps while it leaves reading to callers.
    supervisor: Parker<()>,
}

/// What the thread that reads has.
pub(crate) struct Reading {
    pub(crate) link: Box<dyn Link>,
    /// Why the island ends, if it says so.
    pub(crate) reason: Option<Error>,
    /// Islands whose links may be full.
    pub(crate) full: BTreeSet<usize>,
    /// Whether something has arrived that no island says.
    pub(crate) is_damaged: bool,
}

impl Line {
    /// Over these halves; the links of `islands` others may be full.
    pub(crate) fn new(receiving: Box<dyn Link>, sending: Box<dyn Link>, islands: usize) -> Self {
        let full = (0..islands).collect();
        let reading = Reading { link: receiving, reason: None, full, is_damaged: false };
        Self {
            outbox: Outbox::new(sending),
            reading: Mutex::new(reading),
            is_read: AtomicBool::new(false),
            heard: AtomicU64::new(0),
            supervisor: Parker::new(),
        }
    }

    /// Begins to read, unless another thread does.
    pub(crate) fn take(&self) -> Option<MutexGuard<'_, Reading>> {
        (!self.is_read.swap(true, Ordering::SeqCst)).then(|| self.reading.lock())
    }

    /// Ends it. A caller looks afterwards whether others wait: one that came before saw that this one reads.
    pub(crate) fn leave(&self, reading: MutexGuard<'_, Reading>) {
        drop(reading);
        self.is_read.store(false, Ordering::SeqCst);
    }

    pub(crate) fn hears(&self) {
        self.heard.fetch_add(1, Ordering::Relaxed);
    }

    /// How many bundles have arrived.
    pub(crate) fn heard(&self) -> u64 {
        self.heard.load(Ordering::Relaxed)
    }

    /// The supervisor leaves reading to callers for a while.
    pub(crate) fn leave_to_callers(&self) {
        _ = self.supervisor.park_for(LEFT_WAIT);
    }

    /// The supervisor is to read.
    pub(crate) fn wake_supervisor(&self) {
        self.supervisor.unpark(());
    }
}
