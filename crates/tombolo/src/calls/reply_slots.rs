//! Reply slots: replies wait here for their callers, which are woken.
//!
//! ```text
//!              open()            deliver()           poll()
//!   free ───────────► waiting ───────────► done ───────────► free
//!                        │ abandon()                           ▲
//!                        └──────────► abandoned ── deliver() ──┘
//! ```
//!
//! A call under way has a slot; the slot's number is the call's tag. *waiting*: no reply yet, perhaps
//! a waker of the thread or task that polled. *done*: the slot contains the reply. *abandoned*: the caller no
//! longer wants the answer. Each slot has a lock of its own, so that callers that look for their replies do not
//! wait for each other; a flag next to the lock shows whether a reply is present. Free slots are found without
//! a lock (engine `slots.rs`). A delivery stores all replies of a turn and then wakes their callers. A waiting
//! thread is woken like a task: its waker unparks it.
//!
//! A call may be cancelled while it is waiting; `cancels.rs` keeps the request until the reply arrives.
//!
//! Not here: the content of a reply, sleeping threads (`waiting.rs`). Invariants: a slot is not reused
//! before its reply arrived; no user code that may take long (waking, dropping) runs under a lock, and none
//! can panic into the delivering stage.

use std::sync::{Arc, OnceLock};
use std::task::{Poll, Waker};

use tombolo_engine::pipeline::{Reply, Sink, Slots, Tagged, guarded};
use tombolo_storage::sync::{AtomicBool, Mutex, Ordering};

use super::envelope::Envelope;
use super::waiting::OnDatabaseThread;
use crate::cancels::Cancels;

/// A reply of the pipeline.
pub(crate) type Answered = Reply<Box<dyn Envelope>>;

/// The content of a slot. A free slot is `Waiting` without a waker.
enum Content {
    Waiting(Option<Waker>),
    Done(Answered),
    Abandoned,
}

impl Default for Content {
    fn default() -> Self {
        Self::Waiting(None)
    }
}

/// The slot in which a call's reply arrives.
#[derive(Default)]
struct Slot {
    /// Whether the reply is present; written under the lock.
    is_done: AtomicBool,
    content: Mutex<Content>,
}

impl Slot {
    /// Empties it for the next call, under the lock.
    fn reset(&self, content: &mut Content) -> Content {
        self.is_done.store(false, Ordering::Relaxed); // ordered by the list of free slots
        std::mem::take(content)
    }
}

/// Identifies a call: its slot, and the deadline for its answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticket {
    /// The index of its set of slots in the database.
    pub(crate) set: usize,
    pub(crate) tag: u32,
    pub(crate) deadline_ns: u64,
}

/// A set of reply slots, for a share of the callers.
#[derive(Default)]
pub(crate) struct ReplySlots {
    /// Its index among the sets of the database.
    set: usize,
    slots: Slots<Slot>,
    /// The reason that no more replies will arrive, if so.
    broken: OnceLock<Arc<str>>,
    cancels: Arc<Cancels>,
    /// Work that a delivery postpones until the locks are released; used only by deliveries.
    after: Mutex<After>,
}

/// Reused vectors.
#[derive(Default)]
struct After {
    woken: Vec<Waker>,
    abandoned: Vec<Answered>,
}

impl ReplySlots {
    /// `count` sets, shared by the callers of one database.
    pub(crate) fn sets(count: usize, cancels: &Arc<Cancels>) -> Vec<Arc<Self>> {
        let set = |set| Arc::new(Self { set, cancels: cancels.clone(), ..Self::default() });
        (0..count).map(set).collect()
    }

    /// The number by which the pipeline knows the call in a slot.
    pub(crate) const fn number(&self, tag: u32) -> u64 {
        (self.set as u64) << 32 | tag as u64
    }

    /// A slot for a call.
    #[inline]
    pub(crate) fn open(&self) -> u32 {
        self.slots.take()
    }

    /// Frees the slot of a call that was not queued.
    pub(crate) fn close(&self, tag: u32) {
        self.slots.give(tag);
    }

    /// Takes the reply, if it arrived, and frees the slot; otherwise registers `waker`. The error is the reason
    /// that no reply will arrive any more.
    pub(crate) fn poll(&self, tag: u32, waker: &Waker) -> Poll<Result<Answered, Arc<str>>> {
        let slot = self.slots.get(tag);
        let mut content = slot.content.lock();
        match &mut *content {
            Content::Done(_) => {
                let Content::Done(reply) = slot.reset(&mut content) else {
                    unreachable!("just seen")
                };
                drop(content);
                self.slots.give(tag);
                return Poll::Ready(Ok(reply));
            }
            // `broken` sets this before it searches the slots for wakers: either it is seen here, or the waker there.
            _ if let Some(reason) = self.broken.get() => return Poll::Ready(Err(reason.clone())),
            Content::Waiting(known) if !known.as_ref().is_some_and(|w| w.will_wake(waker)) => {
                let old = known.replace(waker.clone());
                drop(content);
                drop(old);
            }
            _ => {}
        }
        Poll::Pending
    }

    /// Whether the reply arrived, or none will.
    #[inline]
    pub(crate) fn is_done(&self, tag: u32) -> bool {
        // The content itself is read under the lock.
        self.slots.get(tag).is_done.load(Ordering::Acquire) || self.broken.get().is_some()
    }

    /// Abandons the answer: the reply will be dropped on arrival. Returns a reply that has arrived already.
    #[must_use = "a reply that has arrived is an answer"]
    pub(crate) fn abandon(&self, tag: u32) -> Option<Answered> {
        let slot = self.slots.get(tag);
        let mut content = slot.content.lock();
        let was = std::mem::replace(&mut *content, Content::Abandoned);
        if let Content::Done(reply) = was {
            slot.reset(&mut content);
            drop(content);
            self.slots.give(tag);
            return Some(reply);
        }
        drop(content);
        drop(was); // runs the user's code: a waker
        None
    }

    /// Requests the end of a call, unless its reply has arrived.
    pub(crate) fn cancel(&self, tag: u32) {
        let slot = self.slots.get(tag);
        let content = slot.content.lock();
        if !slot.is_done.load(Ordering::Relaxed) {
            self.cancels.add(self.number(tag));
        }
        drop(content);
    }

    /// Puts a reply into its slot, or notes it to be dropped.
    #[inline]
    fn arrived(&self, number: u64, reply: Answered, after: &mut After) {
        let tag = number as u32; // the lower half, see `number`
        let slot = self.slots.get(tag);
        let mut content = slot.content.lock();
        // Under the lock, so that a cancellation of this call comes either before this or after it is done.
        self.cancels.remove(number);
        match std::mem::take(&mut *content) {
            Content::Abandoned => {
                slot.reset(&mut content);
                drop(content);
                self.slots.give(tag);
                after.abandoned.push(reply);
            }
            Content::Waiting(waker) => {
                *content = Content::Done(reply);
                slot.is_done.store(true, Ordering::Release); // partner: `is_done`
                after.woken.extend(waker);
            }
            Content::Done(_) => unreachable!("one reply for each call"),
        }
    }
}

/// Drops a reply and recycles its envelope.
pub(super) fn drop_reply(reply: Answered) {
    if let Ok(Ok(envelope)) = reply.outcome() {
        envelope.recycle();
    }
}

impl Sink<Box<dyn Envelope>> for ReplySlots {
    fn deliver(&self, replies: &mut Vec<Tagged<Box<dyn Envelope>>>) {
        let _entered = OnDatabaseThread::enter();
        let mut after = std::mem::take(&mut *self.after.lock());
        for (number, reply) in replies.drain(..) {
            self.arrived(number, reply, &mut after);
        }
        after.woken.drain(..).for_each(|waker| guarded(|| waker.wake()));
        after.abandoned.drain(..).for_each(|reply| guarded(|| drop_reply(reply)));
        *self.after.lock() = after;
    }

    fn broken(&self, reason: &Arc<str>) {
        self.broken.get_or_init(|| reason.clone());
        let mut woken = Vec::new();
        self.slots.each(|slot| {
            if let Content::Waiting(waker) = &mut *slot.content.lock() {
                woken.extend(waker.take());
            }
        });
        woken.into_iter().for_each(|waker| guarded(|| waker.wake()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;
    use tombolo_engine::pipeline::Refusal;

    struct Counting(AtomicUsize);

    impl Wake for Counting {
        fn wake(self: Arc<Self>) {
            assert!(self.0.fetch_add(1, Ordering::Relaxed) < 100, "woken too often");
        }
    }

    #[test]
    fn a_cancelled_call_is_known_until_it_is_answered() {
        let cancels = Arc::new(Cancels::default());
        let sets = ReplySlots::sets(2, &cancels);
        let slots = &sets[1];
        let (cancelled, other) = (slots.open(), slots.open());
        slots.cancel(cancelled);
        slots.cancel(cancelled);
        assert!(cancels.contains(slots.number(cancelled)));
        assert!(!cancels.contains(slots.number(other)));
        assert!(!cancels.contains(sets[0].number(cancelled)));
        assert!(!slots.is_done(cancelled), "that is for the thread that runs it");
        slots.deliver(&mut refused(slots.number(cancelled)));
        assert!(cancels.is_empty());
        slots.cancel(cancelled);
        assert!(cancels.is_empty(), "it is answered");
        slots.cancel(other);
        assert!(slots.abandon(other).is_none());
        slots.deliver(&mut refused(slots.number(other)));
        assert!(cancels.is_empty());
        let next = slots.open();
        assert!(next == other && !cancels.contains(slots.number(next)));
    }

    fn refused(number: impl Into<u64>) -> Vec<Tagged<Box<dyn Envelope>>> {
        vec![(number.into(), Reply::Refused(Refusal::LogFull))]
    }

    #[test]
    fn slots_are_used_again_only_after_their_reply() {
        let (reply_slots, counting) =
            (ReplySlots::default(), Arc::new(Counting(AtomicUsize::new(0))));
        let waker = Waker::from(counting.clone());
        let (first, second) = (reply_slots.open(), reply_slots.open());
        assert_ne!(first, second);
        assert!(reply_slots.poll(first, &waker).is_pending());
        assert!(reply_slots.abandon(second).is_none());
        let third = reply_slots.open();
        assert!(third != first && third != second, "an abandoned call is still under way");
        reply_slots.deliver(&mut refused(second));
        reply_slots.deliver(&mut refused(first));
        assert_eq!(counting.0.load(Ordering::Relaxed), 1);
        assert!(reply_slots.is_done(first) && !reply_slots.is_done(third));
        assert!(matches!(reply_slots.poll(first, &waker), Poll::Ready(Ok(Reply::Refused(_)))));
        let late = reply_slots.open();
        assert_eq!(late, first);
        reply_slots.deliver(&mut refused(late));
        assert!(reply_slots.abandon(late).is_some(), "it came before it was given up");
        reply_slots.close(third);
        let mut again = [reply_slots.open(), reply_slots.open(), reply_slots.open()];
        again.sort_unstable();
        assert_eq!(again, [0, 1, 2]);
    }

    #[test]
    fn a_breakdown_reaches_who_waits_and_who_asks_later() {
        let (reply_slots, counting) =
            (ReplySlots::default(), Arc::new(Counting(AtomicUsize::new(0))));
        let waker = Waker::from(counting.clone());
        let (waiting, done) = (reply_slots.open(), reply_slots.open());
        assert!(reply_slots.poll(waiting, &waker).is_pending());
        reply_slots.deliver(&mut refused(done));
        reply_slots.broken(&"gone".into());
        assert_eq!(counting.0.load(Ordering::Relaxed), 1);
        assert!(matches!(reply_slots.poll(waiting, &waker), Poll::Ready(Err(_))));
        assert!(matches!(reply_slots.poll(done, &waker), Poll::Ready(Ok(_))), "its reply did come");
    }

    #[test]
    fn a_waker_that_panics_stops_no_other() {
        struct Panicking;
        impl Wake for Panicking {
            fn wake(self: Arc<Self>) {
                panic!("as wakers should not");
            }
        }
        let (reply_slots, counting) =
            (ReplySlots::default(), Arc::new(Counting(AtomicUsize::new(0))));
        let (first, second) = (reply_slots.open(), reply_slots.open());
        assert!(reply_slots.poll(first, &Waker::from(Arc::new(Panicking))).is_pending());
        assert!(reply_slots.poll(second, &Waker::from(counting.clone())).is_pending());
        let mut replies = refused(first);
        replies.extend(refused(second));
        reply_slots.deliver(&mut replies);
        assert_eq!(counting.0.load(Ordering::Relaxed), 1);
    }
}
