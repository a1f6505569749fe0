//! Counters of the work of each component, per thread; compiled to nothing unless the cargo
//! feature `probe` is on.
//!
//! A counter is increased where the work is done, never estimated. A component that is switched off
//! counts nothing because its code is not there: this is how a rung of the ladder shows that it
//! really lacks what it claims to lack (LG-39, LG-48). Not here: instructions and time, which the
//! lab counts from outside.

/// Something countable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counter {
    /// Locks granted: rows, pages and stores, re-locks of held locks not among them.
    Locks,
    /// Row locks among them.
    RowLocks,
    /// Intention locks (IS, IX, SIX) among them.
    IntentionLocks,
    /// Those of them that the session kept from its last transaction.
    InheritedLocks,
    /// Latches taken, shared or exclusive.
    Latches,
    /// Rows pinned.
    Pins,
    /// Log records written.
    LogRecords,
    /// Their bytes.
    LogBytes,
    /// Log sequence numbers stamped on pages and transactions.
    LsnWrites,
    /// Keys compared.
    Compares,
    /// Rows or pages copied out or in.
    PageCopies,
}

/// The number of counters.
const COUNTERS: usize = Counter::PageCopies as usize + 1;

/// What one thread did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    counts: [u64; COUNTERS],
}

impl Work {
    /// How often `counter` was counted.
    pub const fn get(&self, counter: Counter) -> u64 {
        self.counts[counter as usize]
    }
}

#[cfg(feature = "probe")]
thread_local! {
    static COUNTS: [std::cell::Cell<u64>; COUNTERS] =
        const { [const { std::cell::Cell::new(0) }; COUNTERS] };
}

/// Counts `amount` more of `counter` for this thread.
#[cfg(feature = "probe")]
pub fn count(counter: Counter, amount: u64) {
    COUNTS.with(|counts| {
        let cell = &counts[counter as usize];
        cell.set(cell.get() + amount);
    });
}

/// Counts `amount` more of `counter` for this thread: in this build, not at all.
#[cfg(not(feature = "probe"))]
#[inline(always)]
pub const fn count(_: Counter, _: u64) {}

/// Whether this build counts.
pub const fn enabled() -> bool {
    cfg!(feature = "probe")
}

/// This thread's counts so far, which start again at zero.
#[cfg(feature = "probe")]
pub fn take() -> Work {
    let mut work = Work::default();
    COUNTS.with(|counts| {
        for (sum, cell) in work.counts.iter_mut().zip(counts) {
            *sum = cell.take();
        }
    });
    work
}

/// This thread's counts so far: in this build, none.
#[cfg(not(feature = "probe"))]
pub fn take() -> Work {
    Work::default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_taken_once() {
        take();
        count(Counter::Pins, 2);
        count(Counter::LogBytes, 100);
        count(Counter::Pins, 1);
        let work = take();
        let expected = if enabled() { [3, 100, 0] } else { [0; 3] };
        assert_eq!(
            [Counter::Pins, Counter::LogBytes, Counter::Locks].map(|counter| work.get(counter)),
            expected
        );
        assert_eq!(take(), Work::default());
    }
}
