//! The set of cancelled calls that are not answered yet: callers add theirs, and the running thread checks it.
//!
//! While no call is cancelled, a check reads one word. Not here: whether a call can still be cancelled
//! (`calls/reply_slots.rs`).

use tombolo_storage::sync::{AtomicU64, Mutex, Ordering};

/// The numbers by which the pipeline knows these calls.
#[derive(Default)]
pub(crate) struct Cancels {
    /// The size of the set; written under the lock.
    count: AtomicU64,
    numbers: Mutex<Vec<u64>>,
}

impl Cancels {
    /// Cancels the call of this number.
    pub(crate) fn add(&self, number: u64) {
        let mut numbers = self.numbers.lock();
        if !numbers.contains(&number) {
            numbers.push(number);
            self.count.store(numbers.len() as u64, Ordering::Release); // partner: `contains`
        }
    }

    /// Forgets the call of this number, which is answered. It must not be added concurrently.
    #[inline]
    pub(crate) fn remove(&self, number: u64) {
        if !self.is_empty() {
            let mut numbers = self.numbers.lock();
            numbers.retain(|other| *other != number);
            self.count.store(numbers.len() as u64, Ordering::Release);
        }
    }

    /// Whether the call of this number was cancelled.
    #[inline]
    pub(crate) fn contains(&self, number: u64) -> bool {
        !self.is_empty() && self.finds(number)
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    #[cold]
    fn finds(&self, number: u64) -> bool {
        self.numbers.lock().contains(&number)
    }
}
