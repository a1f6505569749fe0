//! Where replies wait for whoever asked, and how those are woken.
//!
//! ```text
//!              open()            deliver()           poll()
//!   free ───────────► waiting ───────────► done ───────────► free
//!                        │ abandon()                           ▲
//!                        └──────────► abandoned ── deliver() ──┘
//! ```
//!
//! A call under way has a slot; the slot's number is the call's tag. *waiting*: no reply yet, perhaps
//! a waker of who polled. *done*: the reply lies there. *abandoned*: nobody will ask. The output
//! stage delivers all replies of a turn with one lock and wakes afterwards. A thread that waits is
//! woken like a task: its waker unparks it.
//!
//! Not here: what a reply holds. Invariants: a slot is not given out again before its reply came;
//! nothing of a user's that may take long (waking, dropping) runs under the lock, nor can it panic
//! into the output stage.

use std::cell::Cell;
use std::sync::Arc;
use std::task::{Poll, Wake, Waker};
use std::time::Duration;

use tombolo_engine::pipeline::{Reply, Sink, Tagged, guarded};
use tombolo_storage::sync::{Mutex, Parker};

use super::envelope::Envelope;

/// What the pipeline answers.
pub(crate) type Answered = Reply<Box<dyn Envelope>>;

enum Slot {
    /// With the next free one.
    Free(Option<u32>),
    Waiting(Option<Waker>),
    Done(Answered),
    Abandoned,
}

#[derive(Default)]
struct Slots {
    slots: Vec<Slot>,
    free: Option<u32>,
    /// Why no more replies come, if so.
    broken: Option<Arc<str>>,
}

impl Slots {
    fn release(&mut self, tag: u32) -> Slot {
        let free = Slot::Free(self.free.replace(tag));
        std::mem::replace(&mut self.slots[tag as usize], free)
    }
}

/// Where a share of the callers' replies wait.
#[derive(Default)]
pub(crate) struct Desk {
    slots: Mutex<Slots>,
    /// What a delivery leaves to be done outside the lock; only output stages use it.
    after: Mutex<After>,
}

/// Vectors that are used again.
#[derive(Default)]
struct After {
    woken: Vec<Waker>,
    abandoned: Vec<Answered>,
}

impl Desk {
    /// A slot for a call.
    pub(crate) fn open(&self) -> u32 {
        let mut slots = self.slots.lock();
        let Some(tag) = slots.free else {
            slots.slots.push(Slot::Waiting(None));
            return (slots.slots.len() - 1) as u32;
        };
        let slot = std::mem::replace(&mut slots.slots[tag as usize], Slot::Waiting(None));
        let Slot::Free(next) = slot else { unreachable!("a free slot is free") };
        slots.free = next;
        tag
    }

    /// Gives back the slot of a call that was not taken in.
    pub(crate) fn close(&self, tag: u32) {
        self.slots.lock().release(tag);
    }

    /// The reply, once it is there; the slot is given back with it. Until then `waker` is woken when
    /// it comes. The error says why none comes any more.
    pub(crate) fn poll(&self, tag: u32, waker: &Waker) -> Poll<Result<Answered, Arc<str>>> {
        let mut slots = self.slots.lock();
        if let Slot::Done(_) = slots.slots[tag as usize] {
            let Slot::Done(reply) = slots.release(tag) else { unreachable!("just seen") };
            return Poll::Ready(Ok(reply));
        }
        if let Some(reason) = &slots.broken {
            return Poll::Ready(Err(reason.clone()));
        }
        if let Slot::Waiting(known) = &mut slots.slots[tag as usize]
            && !known.as_ref().is_some_and(|known| known.will_wake(waker))
        {
            let old = known.replace(waker.clone());
            drop(slots);
            drop(old);
        }
        Poll::Pending
    }

    /// Whether the reply is there, or none will come.
    pub(crate) fn is_done(&self, tag: u32) -> bool {
        let slots = self.slots.lock();
        slots.broken.is_some() || matches!(slots.slots[tag as usize], Slot::Done(_))
    }

    /// Nobody asks any more: the reply is dropped when it comes. One that is there is given back.
    #[must_use = "a reply that is there is an answer"]
    pub(crate) fn abandon(&self, tag: u32) -> Option<Answered> {
        let mut slots = self.slots.lock();
        let left = match slots.slots[tag as usize] {
            Slot::Done(_) => slots.release(tag),
            _ => std::mem::replace(&mut slots.slots[tag as usize], Slot::Abandoned),
        };
        match left {
            Slot::Done(reply) => Some(reply),
            _ => None,
        }
    }
}

/// Drops a reply; its envelope is used again.
pub(super) fn drop_reply(reply: Answered) {
    if let Ok(Ok(envelope)) = reply.outcome() {
        envelope.recycle();
    }
}

impl Sink<Box<dyn Envelope>> for Desk {
    fn deliver(&self, replies: &mut Vec<Tagged<Box<dyn Envelope>>>) {
        enter_database_thread();
        let mut after = std::mem::take(&mut *self.after.lock());
        let mut slots = self.slots.lock();
        for (tag, reply) in replies.drain(..) {
            let slot = &mut slots.slots[tag as usize];
            if let Slot::Abandoned = slot {
                slots.release(tag as u32);
                after.abandoned.push(reply);
                continue;
            }
            let waiting = std::mem::replace(slot, Slot::Done(reply));
            let Slot::Waiting(waker) = waiting else { unreachable!("one reply for each call") };
            after.woken.extend(waker);
        }
        drop(slots);
        after.woken.drain(..).for_each(|waker| guarded(|| waker.wake()));
        after.abandoned.drain(..).for_each(|reply| guarded(|| drop_reply(reply)));
        *self.after.lock() = after;
    }

    fn broken(&self, reason: &Arc<str>) {
        let mut slots = self.slots.lock();
        slots.broken = Some(reason.clone());
        let wakers = slots.slots.iter_mut().filter_map(|slot| match slot {
            Slot::Waiting(waker) => waker.take(),
            _ => None,
        });
        let woken: Vec<Waker> = wakers.collect();
        drop(slots);
        woken.into_iter().for_each(|waker| guarded(|| waker.wake()));
    }
}

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

thread_local! {
    static SLEEPER: Sleeper = {
        let parker = Arc::new(ThreadWaker(Parker::new()));
        Sleeper { waker: Waker::from(parker.clone()), parker }
    };
    /// Whether this thread belongs to a database.
    static IS_DATABASE_THREAD: Cell<bool> = const { Cell::new(false) };
}

/// Says that this thread is a database's: it must not wait for one. It is never anything else.
#[inline]
pub(super) fn enter_database_thread() {
    IS_DATABASE_THREAD.set(true);
}

/// Whether this thread is a database's.
pub(crate) fn on_database_thread() -> bool {
    IS_DATABASE_THREAD.get()
}

/// Polls until there is something, sleeping in between; `left` says how long it may, and gives up
/// with `None`.
pub(crate) fn block_on<T>(
    mut poll: impl FnMut(&Waker) -> Poll<T>,
    left: impl Fn() -> Option<Duration>,
) -> Option<T> {
    SLEEPER.with(|sleeper| {
        loop {
            if let Poll::Ready(ready) = poll(&sleeper.waker) {
                return Some(ready);
            }
            // A word left over from an earlier call only makes one more turn.
            match left()? {
                Duration::MAX => sleeper.parker.0.park(),
                time => sleeper.parker.0.park_for(time).unwrap_or_default(),
            }
        }
    })
}

/// Sleeps for `time`, or less.
pub(crate) fn wait_a_moment(time: Duration) {
    SLEEPER.with(|sleeper| {
        let _ = sleeper.parker.0.park_for(time); // woken or not, the caller looks again
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tombolo_engine::pipeline::Refusal;

    struct Counting(AtomicUsize);

    impl Wake for Counting {
        fn wake(self: Arc<Self>) {
            assert!(self.0.fetch_add(1, Ordering::Relaxed) < 100, "woken too often");
        }
    }

    fn refused(tag: u32) -> Vec<Tagged<Box<dyn Envelope>>> {
        vec![(tag.into(), Reply::Refused(Refusal::LogFull))]
    }

    #[test]
    fn slots_are_used_again_only_after_their_reply() {
        let (desk, counting) = (Desk::default(), Arc::new(Counting(AtomicUsize::new(0))));
        let waker = Waker::from(counting.clone());
        let (first, second) = (desk.open(), desk.open());
        assert_ne!(first, second);
        assert!(desk.poll(first, &waker).is_pending());
        assert!(desk.abandon(second).is_none());
        let third = desk.open();
        assert!(third != first && third != second, "an abandoned call is still under way");
        desk.deliver(&mut refused(second));
        desk.deliver(&mut refused(first));
        assert_eq!(counting.0.load(Ordering::Relaxed), 1);
        assert!(desk.is_done(first) && !desk.is_done(third));
        assert!(matches!(desk.poll(first, &waker), Poll::Ready(Ok(Reply::Refused(_)))));
        let late = desk.open();
        assert_eq!(late, first);
        desk.deliver(&mut refused(late));
        assert!(desk.abandon(late).is_some(), "it came before it was given up");
        desk.close(third);
        let mut again = [desk.open(), desk.open(), desk.open()];
        again.sort_unstable();
        assert_eq!(again, [0, 1, 2]);
    }

    #[test]
    fn a_breakdown_reaches_who_waits_and_who_asks_later() {
        let (desk, counting) = (Desk::default(), Arc::new(Counting(AtomicUsize::new(0))));
        let waker = Waker::from(counting.clone());
        let (waiting, done) = (desk.open(), desk.open());
        assert!(desk.poll(waiting, &waker).is_pending());
        desk.deliver(&mut refused(done));
        desk.broken(&"gone".into());
        assert_eq!(counting.0.load(Ordering::Relaxed), 1);
        assert!(matches!(desk.poll(waiting, &waker), Poll::Ready(Err(_))));
        assert!(matches!(desk.poll(done, &waker), Poll::Ready(Ok(_))), "its reply did come");
    }

    #[test]
    fn a_waker_that_panics_stops_nobody_else() {
        struct Panicking;
        impl Wake for Panicking {
            fn wake(self: Arc<Self>) {
                panic!("as wakers should not");
            }
        }
        let (desk, counting) = (Desk::default(), Arc::new(Counting(AtomicUsize::new(0))));
        let (first, second) = (desk.open(), desk.open());
        assert!(desk.poll(first, &Waker::from(Arc::new(Panicking))).is_pending());
        assert!(desk.poll(second, &Waker::from(counting.clone())).is_pending());
        let mut replies = refused(first);
        replies.extend(refused(second));
        desk.deliver(&mut replies);
        assert_eq!(counting.0.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn waiting_gives_up_when_told_to() {
        let turns = Cell::new(0);
        let left = || (turns.replace(turns.get() + 1) < 3).then_some(Duration::from_micros(1));
        assert_eq!(block_on(|_| Poll::<()>::Pending, left), None);
        assert_eq!(block_on(|_| Poll::Ready(7), || None), Some(7));
    }
}
