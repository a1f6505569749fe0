//! Where threads sleep that wait for a latch: one table of queues for all latches, by address.
//!
//! So a latch is one word and a thread that waits costs no memory in it. Knows queues, not latch
//! words: what a waiter may be given is decided by the caller's closures, which run while the
//! queue is held still. Not here: spinning, overtaking (`shared.rs`).
//!
//! Invariants: the waiters of one latch are in arrival order, except that those that were woken
//! once and overtaken stand before all others; every waiter in a queue is asleep or about to be.

#[cfg(not(any(loom, shuttle)))]
use std::sync::LazyLock;

use crate::sync::{Arc, Mutex, Parker, thread_local};

/// Queues: enough that latches in use simultaneously rarely share one. Loom and shuttle make them for each order.
const QUEUES: usize = if cfg!(any(loom, shuttle)) { 1 } else { 256 };

type Queue = Mutex<Vec<Waiter>>;

fn queues() -> Box<[Queue]> {
    (0..QUEUES).map(|_| Mutex::new(Vec::new())).collect()
}

#[cfg(not(any(loom, shuttle)))]
static PARKING: LazyLock<Box<[Queue]>> = LazyLock::new(queues);
#[cfg(loom)]
use loom::lazy_static;
#[cfg(shuttle)]
use shuttle::lazy_static;
#[cfg(any(loom, shuttle))]
lazy_static! {
    static ref PARKING: Box<[Queue]> = queues();
}

thread_local! { static SEAT: Arc<Parker<Wake>> = Arc::new(Parker::new()); }

/// What a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Want {
    Shared,
    Exclusive,
    /// Exclusive, by a thread that was woken before and found the latch taken again: it is served
    /// before all others and never overtaken.
    Overdue,
}

/// Why a parked thread continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wake {
    /// It holds the latch.
    Granted,
    /// The latch was free a moment ago.
    TryAgain,
}

struct Waiter {
    address: usize,
    want: Want,
    seat: Arc<Parker<Wake>>,
}

fn queue(address: usize) -> &'static Queue {
    // Fibonacci hashing: neighbouring latches (page frames) fall into different queues.
    let hash = (address as u64 >> 2).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    &PARKING[(hash >> 32) as usize % QUEUES]
}

/// Sleeps in the queue of `address` if `announce`, called while the queue is held still, says that
/// the latch is taken; `None` if it says that it is not.
#[cold]
pub(super) fn park(address: usize, want: Want, announce: impl FnOnce() -> bool) -> Option<Wake> {
    let seat = SEAT.with(Arc::clone);
    {
        let mut queue = queue(address).lock();
        if !announce() {
            return None;
        }
        let waiter = Waiter { address, want, seat: Arc::clone(&seat) };
        let place = match want {
            Want::Overdue => queue
                .iter()
                .position(|other| other.address == address && other.want != Want::Overdue)
                .unwrap_or(queue.len()),
            Want::Shared | Want::Exclusive => queue.len(),
        };
        queue.insert(place, waiter);
    }
    Some(seat.park())
}

/// The waiters at the head of a latch's queue that can continue together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// What they want.
    pub(super) want: Want,
    /// How many they are: all leading shared ones, or one exclusive one.
    pub(super) count: u32,
    /// What the first of those behind them wants.
    pub(super) behind: Option<Want>,
}

/// Wakes the head of the queue of `address`, if there is one and `decide`, called while the queue
/// is held still, says how.
#[cold]
pub(super) fn wake(address: usize, decide: impl FnOnce(Head) -> Option<Wake>) {
    let mut queue = queue(address).lock();
    let Some(head) = head(&queue, address) else { return };
    let Some(wake) = decide(head) else { return };
    for _ in 0..head.count {
        let Some(first) = queue.iter().position(|waiter| waiter.address == address) else { break };
        queue.remove(first).seat.unpark(wake);
    }
}

fn head(queue: &[Waiter], address: usize) -> Option<Head> {
    let mut wants =
        queue.iter().filter(|waiter| waiter.address == address).map(|waiter| waiter.want);
    let want = wants.next()?;
    let mut count = 1;
    let mut behind = wants.next();
    while want == Want::Shared && behind == Some(Want::Shared) {
        count += 1;
        behind = wants.next();
    }
    Some(Head { want, count, behind })
}
