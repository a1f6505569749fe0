//! A mailbox: replies wait here until their owner fetches them.
//!
//! The owner takes the replies that have arrived, and waits for more in one of two ways: it sleeps
//! ([`Mailbox::wait`]) or, if it also waits for sockets, it lets the mailbox make a descriptor readable and waits
//! for that in its own call of `poll` or `epoll`:
//!
//! ```text
//!   owner:    take() ─► handle replies and requests ─► watch() ─► poll(mailbox, sockets …) ─► take() …
//!                                                        │ Awaited::Event
//!   delivery:                                            └─► a reply comes: one write, the first time only
//! ```
//!
//! If the owner is awake, a delivery makes no system call; a waiting owner is woken once,
//! however many replies arrive before it takes them.
//!
//! Not here: the owner's wait for sockets. Invariant: an owner that watches or sleeps, and has not
//! taken since, is woken by the next reply, or by the next breakdown.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use tombolo_storage::sync::{Condvar, Mutex};

use crate::event::Event;
use crate::pipeline::transport::sinks::{Sink, Tagged};

/// How the owner waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Awaited {
    /// It does not wait.
    Not,
    /// It sleeps.
    Asleep,
    /// It polls the event, which is not set.
    Event,
}

#[derive(Debug)]
struct Letters<A> {
    replies: Vec<Tagged<A>>,
    broken: Option<Arc<str>>,
    awaited: Awaited,
    /// Whether the event is set.
    is_set: bool,
}

impl<A> Letters<A> {
    fn has_news(&self) -> bool {
        !self.replies.is_empty() || self.broken.is_some()
    }
}

/// A sink from which its owner fetches the replies.
#[derive(Debug)]
pub struct Mailbox<A> {
    letters: Mutex<Letters<A>>,
    arrived: Condvar,
    event: Option<Event>,
}

impl<A> Default for Mailbox<A> {
    fn default() -> Self {
        Self::of(None)
    }
}

impl<A> Mailbox<A> {
    fn of(event: Option<Event>) -> Self {
        let (replies, broken) = (Vec::new(), None);
        let letters = Letters { replies, broken, awaited: Awaited::Not, is_set: false };
        Self { letters: Mutex::new(letters), arrived: Condvar::new(), event }
    }

    /// A mailbox whose owner may wait for it in `poll`, together with sockets.
    ///
    /// # Errors
    /// When the system has no descriptor left.
    pub fn with_event() -> io::Result<Self> {
        Event::new().map(|event| Self::of(Some(event)))
    }

    /// The descriptor to poll for reading; after [`Mailbox::watch`].
    ///
    /// # Panics
    /// When the mailbox has none.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.event.as_ref().expect("a mailbox with an event").as_fd()
    }

    /// Prepares for polling: until the owner takes, the next reply makes the descriptor
    /// readable. `false`: replies are waiting, take them first.
    pub fn watch(&self) -> bool {
        let mut letters = self.letters.lock();
        if letters.has_news() {
            return false;
        }
        letters.awaited = Awaited::Event;
        true
    }

    /// Appends all replies to `into`.
    pub fn take(&self, into: &mut Vec<Tagged<A>>) {
        let mut letters = self.letters.lock();
        self.wake_up(&mut letters);
        move_all(&mut letters.replies, into);
    }

    /// Records that the owner is awake.
    fn wake_up(&self, letters: &mut Letters<A>) {
        letters.awaited = Awaited::Not;
        if let Some(event) = self.event.as_ref().filter(|_| std::mem::take(&mut letters.is_set)) {
            event.clear(); // under the lock, so that it cannot undo a later `set`
        }
    }

    /// The reason that outstanding replies may never arrive, if so.
    pub fn broken(&self) -> Option<Arc<str>> {
        self.letters.lock().broken.clone()
    }

    /// Whether [`Mailbox::wait`] would not sleep.
    pub(crate) fn has_news(&self) -> bool {
        self.letters.lock().has_news()
    }

    /// Sleeps until there are replies and takes them.
    ///
    /// # Errors
    /// The reason, when a stage broke down and there are no replies: outstanding ones may never arrive.
    pub fn wait(&self, into: &mut Vec<Tagged<A>>) -> Result<(), Arc<str>> {
        let mut letters = self.letters.lock();
        while letters.replies.is_empty() {
            if let Some(reason) = &letters.broken {
                return Err(reason.clone());
            }
            letters.awaited = Awaited::Asleep;
            letters = self.arrived.wait(letters);
        }
        self.wake_up(&mut letters);
        move_all(&mut letters.replies, into);
        Ok(())
    }

    /// Changes the letters by `add` and wakes the owner, if it waits.
    fn arrive(&self, add: impl FnOnce(&mut Letters<A>)) {
        let mut letters = self.letters.lock();
        add(&mut letters);
        let awaited = std::mem::replace(&mut letters.awaited, Awaited::Not);
        if let (Awaited::Event, Some(event)) = (awaited, &self.event) {
            // Under the lock, so that the event is not set for replies that were taken already.
            letters.is_set = true;
            event.set();
        }
        drop(letters);
        if awaited == Awaited::Asleep {
            self.arrived.notify_one();
        }
    }
}

/// Moves everything from one vector to the other, by exchanging them if `to` is empty.
fn move_all<T>(from: &mut Vec<T>, to: &mut Vec<T>) {
    if to.is_empty() {
        std::mem::swap(from, to);
    } else {
        to.append(from);
    }
}

impl<A: Send> Sink<A> for Mailbox<A> {
    fn deliver(&self, replies: &mut Vec<Tagged<A>>) {
        self.arrive(|letters| move_all(replies, &mut letters.replies));
    }

    fn broken(&self, reason: &Arc<str>) {
        self.arrive(|letters| letters.broken = Some(reason.clone()));
    }
}

#[cfg(not(loom))]
#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::{Refusal, Reply};
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    fn letter(tag: u64) -> Vec<Tagged<u64>> {
        vec![(tag, Reply::Refused(Refusal::LogFull))]
    }

    fn is_readable(mailbox: &Mailbox<u64>) -> bool {
        let descriptor = mailbox.descriptor();
        let mut polled = [PollFd::new(&descriptor, PollFlags::IN)];
        poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() == 1
    }

    #[test]
    fn the_event_is_set_once_for_an_owner_that_waits_and_never_for_one_that_is_awake() {
        let (mailbox, mut taken) = (Mailbox::with_event().unwrap(), Vec::new());
        mailbox.deliver(&mut letter(1));
        assert!(!is_readable(&mailbox), "its owner is awake");
        assert!(!mailbox.watch(), "something is there");
        mailbox.take(&mut taken);
        assert!(mailbox.watch() && !is_readable(&mailbox));
        mailbox.deliver(&mut letter(2));
        assert!(is_readable(&mailbox));
        mailbox.deliver(&mut letter(3));
        // Set once: it reads as the number of times.
        let mut count = [0; 8];
        rustix::io::read(mailbox.descriptor(), &mut count).unwrap();
        assert_eq!(u64::from_ne_bytes(count), 1);
        mailbox.take(&mut taken);
        assert_eq!(taken.iter().map(|letter| letter.0).collect::<Vec<_>>(), [1, 2, 3]);
        // Woken by something else, and awake again.
        assert!(mailbox.watch());
        mailbox.take(&mut taken);
        mailbox.deliver(&mut letter(4));
        assert!(!is_readable(&mailbox));
        mailbox.take(&mut taken);
        assert!(mailbox.watch());
        Sink::broken(&mailbox, &"gone".into());
        assert!(is_readable(&mailbox) && mailbox.broken().as_deref() == Some("gone"));
    }

    #[test]
    fn an_event_that_was_taken_is_not_readable_any_more() {
        let (mailbox, mut taken) = (Mailbox::with_event().unwrap(), Vec::new());
        for tag in 0..3 {
            assert!(mailbox.watch() && !is_readable(&mailbox));
            mailbox.deliver(&mut letter(tag));
            assert!(is_readable(&mailbox));
            mailbox.take(&mut taken);
            assert!(taken.len() as u64 == tag + 1 && !is_readable(&mailbox));
        }
    }
}
