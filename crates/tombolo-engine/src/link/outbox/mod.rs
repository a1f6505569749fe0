//! `Outbox`: what leaves over a link, in bundles.
//!
//! ```text
//!   put ──┬──► [items] ──► the thread that sends: bundle ──► link
//!         └──► [held back] ──► released
//! ```
//!
//! Any thread puts items and then sends, unless another one does: that one takes them, too. So what is put while a
//! system call lasts leaves with the next one. No thread waits for room in the link: one that finds it full tries again
//! later. Not here: what items say, when a thread tries again (the users of a link).
//!
//! Invariants: items leave in the order in which they were put, except for those that are put past what is held back;
//! none stays behind unless it was held back, the link is full or the box is closed.

use std::fmt;

use tombolo_storage::plant::{self, Plant};
use tombolo_storage::sync::Mutex;

use super::bundle::bundle;
use super::{Link, LinkEnd};

/// See the file's head.
pub struct Outbox {
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

impl fmt::Debug for Outbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outbox").finish_non_exhaustive()
    }
}

impl Outbox {
    /// Sends over `link`.
    pub fn new(link: Box<dyn Link>) -> Self {
        let sending = Sending { link, bytes: Vec::new() };
        Self { waiting: Mutex::default(), sending: Mutex::new(sending) }
    }

    /// Puts an item behind the others; `false` if the box is closed. It leaves with the next [`Outbox::send`].
    pub fn put(&self, item: Vec<u8>) -> bool {
        let mut waiting = self.waiting.lock();
        if waiting.is_closed {
            return false;
        }
        let Waiting { items, held, .. } = &mut *waiting;
        held.as_mut().unwrap_or(items).push(item);
        true
    }

    /// The same for an item that is not held back.
    pub fn put_past(&self, item: Vec<u8>) -> bool {
        let mut waiting = self.waiting.lock();
        if !waiting.is_closed {
            waiting.items.push(item);
        }
        !waiting.is_closed
    }

    /// What is put from here on is held back.
    pub fn hold(&self) {
        self.waiting.lock().held.get_or_insert_default();
    }

    /// What was held back may leave, with the next [`Outbox::send`].
    pub fn release(&self) {
        let mut waiting = self.waiting.lock();
        let held = waiting.held.take();
        waiting.items.extend(held.into_iter().flatten());
    }

    /// Sends what there is, unless another thread does; returns `false` if the link is full, so that this thread has to
    /// see to it that another attempt is made.
    ///
    /// # Errors
    /// When the link has ended. The box is closed then.
    pub fn send(&self) -> Result<bool, LinkEnd> {
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
                if plant::is(Plant::SenderLooksAway) {
                    drop(waiting);
                    waiting = self.waiting.lock();
                }
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
    pub fn is_empty(&self) -> bool {
        let Waiting { items, is_sending, is_full, .. } = &*self.waiting.lock();
        items.is_empty() && !is_sending && !is_full
    }

    /// Nothing leaves any more.
    pub fn close(&self) {
        let mut waiting = self.waiting.lock();
        (waiting.is_closed, waiting.held) = (true, None);
        waiting.items.clear();
    }
}

#[cfg(loom)]
#[cfg(test)]
mod loom_tests;
#[cfg(not(loom))]
#[cfg(test)]
mod tests;
