//! Calls that were cancelled and are not answered: a caller adds its own, and the thread that runs a call looks.
//!
//! That thread looks at one word while no call is cancelled. Not here: whether a call can still be cancelled
//! (`calls/reply_slots.rs`).

use tombolo_storage::sync::{AtomicU64, Mutex, Ordering};

/// The numbers by which the pipeline knows these calls.
#[derive(Default)]
pub(crate) struct Cancels {
    /// How many there are; written under the lock.
    count: AtomicU64,
    numbers: Mutex<Vec<u64>>,
}

impl Cancels {
    /// The call of this number is to end.
    pub(crate) fn add(&self, number: u64) {
        let mut numbers = self.numbers.lock();
        if !numbers.contains(&number) {
            numbers.push(number);
            self.count.store(numbers.len() as u64, Ordering::Release); // partner: `contains`
        }
    }

    /// The call of this number is answered. The caller makes sure that it is not added at the same time.
    #[inline]
    pub(crate) fn remove(&self, number: u64) {
        if !self.is_empty() {
            let mut numbers = self.numbers.lock();
            numbers.retain(|other| *other != number);
            self.count.store(numbers.len() as u64, Ordering::Release);
        }
    }

    /// Whether the call of this number is to end.
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
