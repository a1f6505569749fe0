//! `Outbox`: what leaves over a link, in bundles.
//!
//! ```text
//!   put ──┬──► [items] ──► the thread that sends: bundle ──► link
//!         └──► [held back] ──► released
//! ```
//!
//! Any thread puts items and then sends, unless another one does: that one takes them, too. So what is put while a
//! system call lasts leaves with the next one. No thread waits for room in the link: one that finds it full tries again
//! later. Not here: what items say (`wire.rs`), when a thread tries again (`seat.rs`, `outward.rs`).
//!
//! Invariants: items leave in the order in which they were put, except for those that are put past what is held back;
//! none stays behind unless it was held back, the link is full or the box is closed.

use tombolo_engine::link::{Link, LinkEnd};
use tombolo_storage::sync::Mutex;

use super::wire::bundle;

/// See the file's head.
pub(super) struct Outbox {
    waiting: Mutex<Waiting>,
    sending: Mutex<Sending>,
}

/// What has not been handed to the link.
#[derive(Default)]
struct Waiting {
    items: Vec<Vec<u8>>,
    /// Present while items are held back.
    held: Option<Vec<Vec<u8>>>,
    /// Whether a thread sends: it looks at `items` again before it ends.
    is_sending: bool,
    /// Whether the link had no room for what it has taken.
    is_full: bool,
    is_closed: bool,
}

struct Sending {
    link: Box<dyn Link>,
    /// The bundle that is sent.
    bytes: Vec<u8>,
}

impl Outbox {
    pub(super) fn new(link: Box<dyn Link>) -> Self {
        let sending = Sending { link, bytes: Vec::new() };
        Self { waiting: Mutex::default(), sending: Mutex::new(sending) }
    }

    /// Puts an item behind the others; `false` if the box is closed. It leaves with the next [`Outbox::send`].
    pub(super) fn put(&self, item: Vec<u8>) -> bool {
        let mut waiting = self.waiting.lock();
        if waiting.is_closed {
            return false;
        }
        let Waiting { items, held, .. } = &mut *waiting;
        held.as_mut().unwrap_or(items).push(item);
        true
    }

    /// The same for an item that is not held back.
    pub(super) fn put_past(&self, item: Vec<u8>) -> bool {
        let mut waiting = self.waiting.lock();
        if !waiting.is_closed {
            waiting.items.push(item);
        }
        !waiting.is_closed
    }

    /// What is put from here on is held back.
    pub(super) fn hold(&self) {
        self.waiting.lock().held.get_or_insert_default();
    }

    /// What was held back may leave, with the next [`Outbox::send`].
    pub(super) fn release(&self) {
        let mut waiting = self.waiting.lock();
        let held = waiting.held.take();
        waiting.items.extend(held.into_iter().flatten());
    }

    /// Sends what there is, unless another thread does; returns `false` if the link is full, so that this thread has to
    /// see to it that another attempt is made.
    ///
    /// # Errors
    /// When the link has ended. The box is closed then.
    pub(super) fn send(&self) -> Result<bool, LinkEnd> {
        let mut waiting = self.waiting.lock();
        if waiting.is_sending || (waiting.items.is_empty() && !waiting.is_full) {
            return Ok(true);
        }
        waiting.is_sending = true;
        drop(waiting);
        let sent = self.send_all();
        if sent.is_err() {
            self.close();
        }
        sent
    }

    /// Sends until nothing is left or the link is full, and then gives up being the thread that sends.
    fn send_all(&self) -> Result<bool, LinkEnd> {
        let mut sending = self.sending.lock();
        let Sending { link, bytes } = &mut *sending;
        loop {
            let has_room = link.flush();
            let mut waiting = self.waiting.lock();
            if has_room != Ok(true) || waiting.items.is_empty() {
                waiting.is_sending = false;
                waiting.is_full = has_room == Ok(false);
                return has_room;
            }
            let bundled = bundle(&waiting.items, bytes);
            waiting.items.drain(..bundled);
            drop(waiting);
            // A link that has ended says so again when it is flushed; one that has sent everything takes a message.
            _ = link.send(&[bytes]);
        }
    }

    /// Whether everything has left.
    pub(super) fn is_empty(&self) -> bool {
        let Waiting { items, is_sending, is_full, .. } = &*self.waiting.lock();
        items.is_empty() && !is_sending && !is_full
    }

    /// Nothing leaves any more.
    pub(super) fn close(&self) {
        let mut waiting = self.waiting.lock();
        (waiting.is_closed, waiting.held) = (true, None);
        waiting.items.clear();
    }
}

#[cfg(test)]
mod tests {
    use tombolo_engine::link::{MemoryFaults, memory_pair};
    use tombolo_engine::threads::{both, give_way, on_each};

    use super::super::wire::all_counted;
    use super::*;

    /// Appends what has arrived; returns whether that was anything.
    fn receive(link: &mut dyn Link, all: &mut Vec<Vec<u8>>) -> bool {
        let Some(bundle) = link.receive().unwrap() else { return false };
        all.extend(all_counted(bundle).unwrap().into_iter().map(<[u8]>::to_vec));
        true
    }

    #[test]
    fn what_threads_put_concurrently_arrives_once_and_in_the_order_of_each() {
        const THREADS: u8 = 4;
        const EACH: u16 = 500;
        for seed in 0..20 {
            // Full most of the time.
            let faults = MemoryFaults { capacity_bytes: 100, delays: 3, ..MemoryFaults::default() };
            let (own, mut other) = memory_pair(faults, seed);
            let outbox = Outbox::new(Box::new(own));
            let put = |thread: u8| {
                for n in 0..EACH {
                    assert!(outbox.put([&[thread][..], &n.to_le_bytes()].concat()));
                    while outbox.send() == Ok(false) {
                        give_way();
                    }
                }
            };
            let take = || {
                let mut all = Vec::new();
                while all.len() < usize::from(THREADS) * usize::from(EACH) {
                    if !receive(&mut other, &mut all) {
                        give_way();
                    }
                }
                all
            };
            let (_, all) = both(|| on_each(0..THREADS, put), take);
            for thread in 0..THREADS {
                let of = all.iter().filter(|item| item[0] == thread);
                let numbers = of.map(|item| u16::from_le_bytes([item[1], item[2]]));
                assert!(numbers.eq(0..EACH), "seed {seed}");
            }
        }
    }

    #[test]
    fn a_full_link_makes_no_thread_wait_and_is_tried_again() {
        let faults = MemoryFaults { capacity_bytes: 10, ..MemoryFaults::default() };
        let (own, mut other) = memory_pair(faults, 1);
        let (outbox, mut all) = (Outbox::new(Box::new(own)), Vec::new());
        let long = vec![7; 1_000];
        assert!(outbox.put(long.clone()));
        assert_eq!(outbox.send(), Ok(false));
        assert!(outbox.put(vec![8]));
        while outbox.send() == Ok(false) {
            receive(&mut other, &mut all);
        }
        while all.len() < 2 {
            receive(&mut other, &mut all);
        }
        assert_eq!(all, [long, vec![8]]);
    }

    #[test]
    fn what_is_held_back_leaves_when_it_is_released_in_its_order() {
        let (own, mut other) = memory_pair(MemoryFaults::default(), 1);
        let (outbox, mut all) = (Outbox::new(Box::new(own)), Vec::new());
        assert!(outbox.put(vec![1]));
        outbox.hold();
        assert!(outbox.put(vec![4]) && outbox.put_past(vec![2]) && outbox.put(vec![5]));
        assert_eq!(outbox.send(), Ok(true));
        assert!(outbox.put_past(vec![3]));
        assert_eq!(outbox.send(), Ok(true));
        while receive(&mut other, &mut all) {}
        assert_eq!(all, [[1], [2], [3]]);
        outbox.release();
        assert_eq!(outbox.send(), Ok(true));
        while receive(&mut other, &mut all) {}
        assert_eq!(all, [[1], [2], [3], [4], [5]]);
    }

    #[test]
    fn a_box_that_is_closed_or_whose_link_has_ended_takes_nothing() {
        let (own, other) = memory_pair(MemoryFaults::default(), 1);
        let outbox = Outbox::new(Box::new(own));
        drop(other);
        assert!(outbox.put(vec![1]));
        assert_eq!(outbox.send(), Err(LinkEnd::Gone));
        assert!(!outbox.put(vec![2]));
        assert_eq!(outbox.send(), Ok(true), "nothing is left to be sent");
    }
}
