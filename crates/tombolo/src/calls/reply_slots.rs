//! Where replies wait for their callers, and how those are woken.
//!
//! ```text
//!              open()            deliver()           poll()
//!   free ───────────► waiting ───────────► done ───────────► free
//!                        │ abandon()                           ▲
//!                        └──────────► abandoned ── deliver() ──┘
//! ```
//!
//! A call under way has a slot; the slot's number is the call's tag. *waiting*: no reply yet, perhaps
//! a waker of the thread or task that polled. *done*: the reply lies there. *abandoned*: the answer was
//! given up. Each slot has a lock of its own, so that a caller that looks for its reply waits for no
//! other; whether there is one is a word next to the lock. Free slots are found without a lock
//! (engine `slots.rs`). A delivery brings all replies of a turn and wakes afterwards. A thread that
//! waits is woken like a task: its waker unparks it.
//!
//! A call may be cancelled while it is waiting: its slot says so, and the thread that runs it looks
//! there, but only while any call of the database is cancelled and not answered: one word for all.
//!
//! Not here: what a reply holds. Invariants: a slot is not given out again before its reply came;
//! nothing of a user's that may take long (waking, dropping) runs under a lock, nor can it panic
//! into the stage that delivers.

use std::cell::Cell;
use std::sync::{Arc, OnceLock};
use std::task::{Poll, Wake, Waker};
use std::time::Duration;

use tombolo_engine::pipeline::{Reply, Sink, Slots, Tagged, guarded};
use tombolo_storage::sync::{AtomicU32, AtomicU64, Mutex, Ordering, Parker};

use super::envelope::Envelope;

/// What the pipeline answers.
pub(crate) type Answered = Reply<Box<dyn Envelope>>;

/// What lies in a slot. A free one waits, without a waker.
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

/// The reply is there.
const DONE: u32 = 1;
/// The call is to end without one, if it can.
const CANCELLED: u32 = 2;

/// Where a call's reply arrives.
#[derive(Default)]
struct Slot {
    /// Bits, written under the lock.
    state: AtomicU32,
    content: Mutex<Content>,
}

impl Slot {
    /// Empties it for the next call, under the lock.
    fn reset(&self, content: &mut Content) -> Content {
        self.state.store(0, Ordering::Relaxed); // ordered by the list of free slots
        std::mem::take(content)
    }
}

/// Calls that were cancelled and are not answered.
type Cancels = Arc<AtomicU64>;

/// Where a share of the callers' replies wait.
#[derive(Default)]
pub(crate) struct ReplySlots {
    slots: Slots<Slot>,
    /// Why no more replies come, if so.
    broken: OnceLock<Arc<str>>,
    cancels: Cancels,
    /// What a delivery leaves to be done outside the locks; only deliveries use it.
    after: Mutex<After>,
}

/// Vectors that are used again.
#[derive(Default)]
struct After {
    woken: Vec<Waker>,
    abandoned: Vec<Answered>,
}

impl ReplySlots {
    /// A slot for a call.
    #[inline]
    pub(crate) fn open(&self) -> u32 {
        self.slots.take()
    }

    /// Gives back the slot of a call that was not taken in.
    pub(crate) fn close(&self, tag: u32) {
        self.slots.give(tag);
    }

    /// The reply, once it is there; the slot is given back with it. Until then `waker` is woken when
    /// it comes. The error says why none comes any more.
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
            // Set before the slots are looked through for wakers: this look is later, or is seen there.
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

    /// Whether the reply is there, or none will come.
    #[inline]
    pub(crate) fn is_done(&self, tag: u32) -> bool {
        // What comes of it is read under the lock.
        self.slots.get(tag).state.load(Ordering::Acquire) & DONE != 0 || self.broken.get().is_some()
    }

    /// The answer is given up: the reply is dropped when it comes. One that is there is given back.
    #[must_use = "a reply that is there is an answer"]
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
        drop(was); // its waker is a user's
        None
    }

    /// Asks that a call end, unless its reply is there.
    pub(crate) fn cancel(&self, tag: u32) {
        let slot = self.slots.get(tag);
        let content = slot.content.lock();
        let state = slot.state.load(Ordering::Relaxed);
        if state & (DONE | CANCELLED) == 0 {
            slot.state.store(state | CANCELLED, Ordering::Relaxed);
            // Partner: `AllReplySlots::is_cancelled`, which then looks at the slot.
            self.cancels.fetch_add(1, Ordering::Release);
        }
        drop(content);
    }

    /// Puts a reply into its slot, or notes what else becomes of it.
    #[inline]
    fn arrived(&self, tag: u32, reply: Answered, after: &mut After) {
        let slot = self.slots.get(tag);
        let mut content = slot.content.lock();
        if slot.state.load(Ordering::Relaxed) & CANCELLED != 0 {
            self.cancels.fetch_sub(1, Ordering::Relaxed);
        }
        match std::mem::take(&mut *content) {
            Content::Abandoned => {
                slot.reset(&mut content);
                drop(content);
                self.slots.give(tag);
                after.abandoned.push(reply);
            }
            Content::Waiting(waker) => {
                *content = Content::Done(reply);
                slot.state.store(DONE, Ordering::Release); // partner: `is_done`
                after.woken.extend(waker);
            }
            Content::Done(_) => unreachable!("one reply for each call"),
        }
    }
}

/// Drops a reply; its envelope is used again.
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
            self.arrived(number as u32, reply, &mut after);
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

/// All all_slots of a database, as the thread knows them that runs calls.
pub(crate) struct AllReplySlots {
    all_slots: Vec<Arc<ReplySlots>>,
    cancels: Cancels,
}

impl AllReplySlots {
    /// How many there are.
    pub(crate) fn new(count: usize) -> Self {
        let cancels = Cancels::default();
        let reply_slots =
            |_| Arc::new(ReplySlots { cancels: cancels.clone(), ..ReplySlots::default() });
        Self { all_slots: (0..count).map(reply_slots).collect(), cancels: cancels.clone() }
    }

    /// Each of them.
    pub(crate) fn all(&self) -> &[Arc<ReplySlots>] {
        &self.all_slots
    }

    /// The number by which the pipeline knows a call.
    pub(crate) const fn number(set: usize, tag: u32) -> u64 {
        (set as u64) << 32 | tag as u64
    }

    /// Whether the call of this number is to end.
    #[inline]
    pub(crate) fn is_cancelled(&self, number: u64) -> bool {
        // Partner: `ReplySlots::cancel`.
        self.cancels.load(Ordering::Acquire) != 0 && self.finds_cancelled(number)
    }

    #[cold]
    fn finds_cancelled(&self, number: u64) -> bool {
        let reply_slots = &self.all_slots[(number >> 32) as usize];
        reply_slots.slots.get(number as u32).state.load(Ordering::Relaxed) & CANCELLED != 0
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

impl Sleeper {
    fn new() -> Self {
        let parker = Arc::new(ThreadWaker(Parker::new()));
        Self { waker: Waker::from(parker.clone()), parker }
    }
}

thread_local! {
    static SLEEPER: Sleeper = Sleeper::new();
    /// Whether this thread does a database's work in this moment.
    static IS_DATABASE_THREAD: Cell<bool> = const { Cell::new(false) };
}

/// While it lives, its thread runs a database's transaction or hands out its replies: it must not wait
/// for a database.
pub(crate) struct OnDatabaseThread {
    was: bool,
}

impl OnDatabaseThread {
    /// From here on, until it is dropped.
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

/// Whether this thread does a database's work in this moment.
#[inline]
pub(crate) fn on_database_thread() -> bool {
    IS_DATABASE_THREAD.get()
}

/// Calls `wait` with this thread's place to sleep; a thread that ends and has none any more gets another.
fn with_sleeper<T>(wait: impl Fn(&Sleeper) -> T) -> T {
    SLEEPER.try_with(&wait).unwrap_or_else(|_| wait(&Sleeper::new()))
}

/// Polls until there is something, sleeping in between; `left` says how long it may, and gives up
/// with `None`.
pub(crate) fn block_on<T>(
    poll: impl Fn(&Waker) -> Poll<T>,
    left: impl Fn() -> Option<Duration>,
) -> Option<T> {
    with_sleeper(|sleeper| {
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
    with_sleeper(|sleeper| {
        let _ = sleeper.parker.0.park_for(time); // woken or not, the caller looks again
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;
    use tombolo_engine::pipeline::Refusal;

    struct Counting(AtomicUsize);

    impl Wake for Counting {
        fn wake(self: Arc<Self>) {
            assert!(self.0.fetch_add(1, Ordering::Relaxed) < 100, "woken too often");
        }
    }

    #[test]
    fn a_cancelled_call_is_known_until_it_is_answered() {
        let all_slots = AllReplySlots::new(2);
        let reply_slots = &all_slots.all()[1];
        let (cancelled, other) = (reply_slots.open(), reply_slots.open());
        reply_slots.cancel(cancelled);
        reply_slots.cancel(cancelled);
        assert!(all_slots.is_cancelled(AllReplySlots::number(1, cancelled)));
        assert!(!all_slots.is_cancelled(AllReplySlots::number(1, other)));
        assert!(!reply_slots.is_done(cancelled), "that is for the thread that runs it");
        reply_slots.deliver(&mut refused(cancelled));
        assert_eq!(all_slots.cancels.load(Ordering::Relaxed), 0);
        reply_slots.cancel(cancelled);
        assert_eq!(all_slots.cancels.load(Ordering::Relaxed), 0, "it is answered");
        reply_slots.cancel(other);
        assert!(reply_slots.abandon(other).is_none());
        reply_slots.deliver(&mut refused(other));
        assert_eq!(all_slots.cancels.load(Ordering::Relaxed), 0);
        let next = reply_slots.open();
        assert!(next == other && !all_slots.is_cancelled(AllReplySlots::number(1, next)));
    }

    fn refused(tag: u32) -> Vec<Tagged<Box<dyn Envelope>>> {
        vec![(tag.into(), Reply::Refused(Refusal::LogFull))]
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

    #[test]
    fn waiting_gives_up_at_its_deadline() {
        let turns = Cell::new(0);
        let left = || (turns.replace(turns.get() + 1) < 3).then_some(Duration::from_micros(1));
        assert_eq!(block_on(|_| Poll::<()>::Pending, left), None);
        assert_eq!(block_on(|_| Poll::Ready(7), || None), Some(7));
    }
}
