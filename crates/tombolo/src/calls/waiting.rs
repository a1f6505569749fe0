//! Threads that sleep until a reply arrives, and threads that must not.
//!
//! Not here: the storage of replies (`reply_slots.rs`).

use std::cell::Cell;
use std::sync::Arc;
use std::task::{Poll, Wake, Waker};
use std::time::Duration;

use tombolo_storage::sync::Parker;

/// Wakes a thread that waits for a reply.
struct ThreadWaker(Parker<()>);

impl Wake for ThreadWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark(());
    }
}

/// A thread's waker, twice.
struct Sleeper {
    parker: Arc<ThreadWaker>,
    waker: Waker,
}

impl Sleeper {
    fn new() -> Self {
        let parker = Arc::new(ThreadWaker(Parker::new()));
        Self { waker: Waker::from(parker.clone()), parker }
    }
}

thread_local! {
    static SLEEPER: Sleeper = Sleeper::new();
    /// Whether this thread currently does a database's work.
    static IS_DATABASE_THREAD: Cell<bool> = const { Cell::new(false) };
}

/// Guard of a thread that runs a database's transaction or delivers its replies: such a thread must not wait
/// for a database.
pub(crate) struct OnDatabaseThread {
    was: bool,
}

impl OnDatabaseThread {
    /// Marks this thread until the guard is dropped.
    #[inline]
    pub(crate) fn enter() -> Self {
        Self { was: IS_DATABASE_THREAD.replace(true) }
    }
}

impl Drop for OnDatabaseThread {
    #[inline]
    fn drop(&mut self) {
        IS_DATABASE_THREAD.set(self.was);
    }
}

/// Whether this thread currently does a database's work.
#[inline]
pub(crate) fn on_database_thread() -> bool {
    IS_DATABASE_THREAD.get()
}

/// Calls `wait` with this thread's sleeper; a thread that is ending and has lost its own gets another.
fn with_sleeper<T>(wait: impl Fn(&Sleeper) -> T) -> T {
    SLEEPER.try_with(&wait).unwrap_or_else(|_| wait(&Sleeper::new()))
}

/// Polls until a result is ready, sleeping in between; `left` returns how long it may sleep, or `None` to
/// stop waiting.
pub(crate) fn block_on<T>(
    poll: impl Fn(&Waker) -> Poll<T>,
    left: impl Fn() -> Option<Duration>,
) -> Option<T> {
    with_sleeper(|sleeper| {
        loop {
            if let Poll::Ready(ready) = poll(&sleeper.waker) {
                return Some(ready);
            }
            // A wake-up left over from an earlier call only causes one more turn.
            match left()? {
                Duration::MAX => sleeper.parker.0.park(),
                time => sleeper.parker.0.park_for(time).unwrap_or_default(),
            }
        }
    })
}

/// Sleeps for `time`, or less.
pub(crate) fn wait_a_moment(time: Duration) {
    with_sleeper(|sleeper| {
        let _ = sleeper.parker.0.park_for(time); // woken or not, the caller looks again
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_gives_up_at_its_deadline() {
        let turns = Cell::new(0);
        let left = || (turns.replace(turns.get() + 1) < 3).then_some(Duration::from_micros(1));
        assert_eq!(block_on(|_| Poll::<()>::Pending, left), None);
        assert_eq!(block_on(|_| Poll::Ready(7), || None), Some(7));
    }
}
