//! Threads of a test that end together, and waits that end: a test that goes wrong fails, and does not hang.
//!
//! Not here: what the threads do.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tombolo_engine::clock::{Clock, SystemClock};
use tombolo_engine::threads::{on_each, pause};

/// No machine is so slow, or stops for so long, that what is waited for takes this long.
pub(crate) const LONG: Duration = Duration::from_secs(300);

/// Whether a thread of the test has ended.
#[derive(Default)]
pub(crate) struct Over(AtomicBool);

impl Over {
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// Ends the test's other threads when it is dropped, also by a panic.
struct Ends<'o>(&'o Over);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::SeqCst);
    }
}

/// Runs `work` once per worker, each on a thread of its own. The first that ends, or panics, sets what the others look
/// at; the results are in the workers' order.
pub(crate) fn until_one_ends<W: Send, T: Send>(
    workers: impl IntoIterator<Item = W>,
    work: impl Fn(W, &Over) -> T + Sync,
) -> Vec<T> {
    let over = Over::default();
    on_each(workers, |worker| {
        let _ends = Ends(&over);
        work(worker, &over)
    })
}

/// Looks until there is something, and returns it.
///
/// # Panics
/// After minutes.
pub(crate) fn until<A>(what: &str, mut look: impl FnMut() -> Option<A>) -> A {
    let clock = SystemClock::new();
    let end_ns = clock.now_ns() + LONG.as_nanos() as u64;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(clock.now_ns() < end_ns, "waited {LONG:?} in vain: {what}");
        pause(Duration::from_micros(200));
    }
}
