//! Who asks: the register of callers, and the two ends a caller holds.
//!
//! A caller is a place in the register and a [`Sink`] for its replies. Calls carry the place's
//! number, so a call costs neither an allocation nor a reference count. Places are used again under
//! a new generation; a reply to an owner that is gone is dropped.
//!
//! [`Submitter`] puts calls in; [`Mailbox`] is the sink for callers that fetch their replies, one
//! at a time or thousands; [`Caller`] is both, with a bound on what is under way. A caller that
//! wants to be called back gives a closure as its sink.
//!
//! Not here: what happens in between. Invariants: a call that was taken in gets one reply, unless
//! a stage broke down; then every sink is told so.

use std::sync::Arc;

use tombolo_storage::sync::{AtomicU64, Condvar, Mutex, Ordering};

use super::call::{Call, CallerId, Durability, Refusal, Reply};
use super::queue::{Load, NotPut, Queue};
use super::shared::Shared;

/// A reply with the tag of its call.
pub type Tagged<A> = (u64, Reply<A>);

/// Where a caller's replies go. Called on an output stage's thread, for many replies at a time; it
/// must neither take long nor wait for a caller.
pub trait Sink<A>: Send + Sync {
    /// Takes all `replies`, in the order in which they left the pipeline.
    fn deliver(&self, replies: &mut Vec<Tagged<A>>);

    /// A stage broke down, for this reason: calls without a reply may never get one.
    fn broken(&self, reason: &Arc<str>) {
        let _ = reason;
    }
}

impl<A, F: Fn(u64, Reply<A>) + Send + Sync> Sink<A> for F {
    fn deliver(&self, replies: &mut Vec<Tagged<A>>) {
        replies.drain(..).for_each(|(tag, reply)| self(tag, reply));
    }
}

/// A place in the register.
pub(super) struct Place<A> {
    pub(super) generation: u32,
    pub(super) sink: Option<Arc<dyn Sink<A>>>,
}

impl<A> Clone for Place<A> {
    fn clone(&self) -> Self {
        Self { generation: self.generation, sink: self.sink.clone() }
    }
}

/// The register of callers.
pub(super) struct Callers<A> {
    /// Counts changes, so that output stages know when their copy is old.
    version: AtomicU64,
    places: Mutex<Vec<Place<A>>>,
}

impl<A> std::fmt::Debug for Callers<A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Callers").field("version", &self.version()).finish_non_exhaustive()
    }
}

impl<A> Callers<A> {
    pub(super) fn new() -> Self {
        Self { version: AtomicU64::new(0), places: Mutex::new(Vec::new()) }
    }

    pub(super) fn register(&self, sink: Arc<dyn Sink<A>>) -> CallerId {
        let mut places = self.places.lock();
        let free = places.iter().position(|place| place.sink.is_none());
        let slot = free.unwrap_or(places.len());
        if free.is_none() {
            places.push(Place { generation: 0, sink: None });
        }
        let place = &mut places[slot];
        place.generation = place.generation.wrapping_add(1);
        place.sink = Some(sink);
        let generation = place.generation;
        self.version.fetch_add(1, Ordering::Release); // partner: `version`
        CallerId { slot: slot as u32, generation }
    }

    pub(super) fn remove(&self, caller: CallerId) {
        let mut places = self.places.lock();
        let place = &mut places[caller.slot as usize];
        if place.generation == caller.generation {
            place.sink = None;
            self.version.fetch_add(1, Ordering::Release); // partner: `version`
        }
    }

    pub(super) fn version(&self) -> u64 {
        // A caller registers before it submits, and the queues' mutexes order its call before this.
        self.version.load(Ordering::Acquire)
    }

    /// Copies the register into `copy`.
    pub(super) fn copy_into(&self, copy: &mut Vec<Place<A>>) {
        copy.clone_from(&self.places.lock());
    }

    /// Tells every caller that a stage broke down.
    pub(super) fn broken(&self, reason: &Arc<str>) {
        let places = self.places.lock().clone();
        places.iter().filter_map(|place| place.sink.as_ref()).for_each(|sink| sink.broken(reason));
    }
}

/// Why a call was not taken in; the request comes back.
#[derive(Debug)]
pub enum NotSubmitted<R> {
    /// The pipeline has no room now, or this caller has as much under way as it may: take replies,
    /// then try again.
    Full(R),
    /// The pipeline takes nothing more, for this reason.
    Refused(R, Refusal),
}

/// The end at which calls go in. Dropping it gives up the replies that have not come.
#[derive(Debug)]
pub struct Submitter<R, A> {
    pub(super) id: CallerId,
    pub(super) intake: Arc<Queue<Call<R>>>,
    pub(super) shared: Arc<Shared<A>>,
    pub(super) request_bytes: fn(&R) -> usize,
}

impl<R, A> Submitter<R, A> {
    /// A call that can be put in with others; see [`Submitter::try_submit_many`].
    #[inline]
    pub fn call(&self, request: R, tag: u64, durability: Durability) -> Call<R> {
        Call { request, tag, caller: self.id, durability }
    }

    fn refusal(&self) -> Refusal {
        match self.shared.poison() {
            Some(reason) => Refusal::Poisoned(reason.clone()),
            None => Refusal::Closed,
        }
    }

    /// Puts a call in.
    ///
    /// # Errors
    /// The request, when there is no room or nothing is taken any more.
    pub fn try_submit(
        &self,
        request: R,
        tag: u64,
        durability: Durability,
    ) -> Result<(), NotSubmitted<R>> {
        if self.shared.poison().is_some() {
            return Err(NotSubmitted::Refused(request, self.refusal()));
        }
        let load = call_load(self.request_bytes, &request);
        let put = self.intake.try_put(self.call(request, tag, durability), load);
        put.map_err(|not_put| match not_put {
            NotPut::Full(call) => NotSubmitted::Full(call.request),
            NotPut::Closed(call) => NotSubmitted::Refused(call.request, self.refusal()),
        })
    }

    /// Puts a call in; sleeps while there is no room.
    ///
    /// # Errors
    /// The request and the reason, when nothing is taken any more.
    pub fn submit(&self, request: R, tag: u64, durability: Durability) -> Result<(), (R, Refusal)> {
        if self.shared.poison().is_some() {
            return Err((request, self.refusal()));
        }
        let load = call_load(self.request_bytes, &request);
        let put = self.intake.put_when_room(self.call(request, tag, durability), load);
        put.map_err(|call| (call.request, self.refusal()))
    }

    /// Puts in as many of `calls` as there is room for, from the front, with one lock; they leave
    /// `calls`. How many.
    ///
    /// # Errors
    /// The reason, when nothing is taken any more.
    ///
    /// # Panics
    /// When a call was made by another caller.
    pub fn try_submit_many(&self, calls: &mut Vec<Call<R>>) -> Result<usize, Refusal> {
        assert!(calls.iter().all(|call| call.caller == self.id), "another caller's call");
        if self.shared.poison().is_some() {
            return Err(self.refusal());
        }
        let request_bytes = self.request_bytes;
        let put = self.intake.put_many(calls, |call| call_load(request_bytes, &call.request));
        put.ok_or_else(|| self.refusal())
    }
}

impl<R, A> Drop for Submitter<R, A> {
    fn drop(&mut self) {
        self.shared.callers.remove(self.id);
    }
}

/// The room a call takes in a queue: itself, and what its request holds elsewhere.
pub(super) fn call_load<R>(request_bytes: fn(&R) -> usize, request: &R) -> Load {
    let bytes = size_of::<Call<R>>() + request_bytes(request);
    Load { transactions: 1, bytes: bytes as u64 }
}

#[derive(Debug)]
struct Letters<A> {
    replies: Vec<Tagged<A>>,
    broken: Option<Arc<str>>,
    is_waited_for: bool,
}

/// A sink from which its owner fetches the replies.
#[derive(Debug)]
pub struct Mailbox<A> {
    letters: Mutex<Letters<A>>,
    arrived: Condvar,
}

impl<A> Default for Mailbox<A> {
    fn default() -> Self {
        let letters = Letters { replies: Vec::new(), broken: None, is_waited_for: false };
        Self { letters: Mutex::new(letters), arrived: Condvar::new() }
    }
}

impl<A> Mailbox<A> {
    /// Takes what is there, behind what `into` already holds.
    pub fn take(&self, into: &mut Vec<Tagged<A>>) {
        move_all(&mut self.letters.lock().replies, into);
    }

    /// Sleeps until something is there and takes it.
    ///
    /// # Errors
    /// The reason, when a stage broke down and nothing is there: what is missing may never come.
    pub fn wait(&self, into: &mut Vec<Tagged<A>>) -> Result<(), Arc<str>> {
        let mut letters = self.letters.lock();
        while letters.replies.is_empty() {
            if let Some(reason) = &letters.broken {
                return Err(reason.clone());
            }
            letters.is_waited_for = true;
            letters = self.arrived.wait(letters);
        }
        letters.is_waited_for = false;
        move_all(&mut letters.replies, into);
        Ok(())
    }
}

/// Moves everything from one vector to the other: by exchanging them where that will do.
fn move_all<T>(from: &mut Vec<T>, to: &mut Vec<T>) {
    if to.is_empty() {
        std::mem::swap(from, to);
    } else {
        to.append(from);
    }
}

impl<A: Send> Sink<A> for Mailbox<A> {
    fn deliver(&self, replies: &mut Vec<Tagged<A>>) {
        let mut letters = self.letters.lock();
        move_all(replies, &mut letters.replies);
        let is_waited_for = std::mem::take(&mut letters.is_waited_for);
        drop(letters);
        if is_waited_for {
            self.arrived.notify_one();
        }
    }

    fn broken(&self, reason: &Arc<str>) {
        self.letters.lock().broken = Some(reason.clone());
        self.arrived.notify_one();
    }
}

/// A caller that fetches its replies: one call at a time, or many under way.
#[derive(Debug)]
pub struct Caller<R, A> {
    pub(super) submitter: Submitter<R, A>,
    mailbox: Arc<Mailbox<A>>,
    pub(super) in_flight: usize,
    in_flight_max: usize,
    /// Replies that came while `call` waited for its own.
    early: Vec<Tagged<A>>,
    arrived: Vec<Tagged<A>>,
}

/// The tag `call` uses; tags from here on are not a caller's own.
const LONE: u64 = u64::MAX;

impl<R, A> Caller<R, A> {
    pub(super) fn new(
        submitter: Submitter<R, A>,
        mailbox: Arc<Mailbox<A>>,
        in_flight_max: usize,
    ) -> Self {
        let (early, arrived) = (Vec::new(), Vec::new());
        Self { submitter, mailbox, in_flight: 0, in_flight_max, early, arrived }
    }

    /// How many calls have no reply that was fetched.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// A call for [`Caller::try_submit_many`].
    pub fn prepare(&self, request: R, tag: u64, durability: Durability) -> Call<R> {
        self.submitter.call(request, tag, durability)
    }

    /// Puts a call in.
    ///
    /// # Errors
    /// The request, when there is no room, too much under way, or nothing is taken any more.
    pub fn try_submit(
        &mut self,
        request: R,
        tag: u64,
        durability: Durability,
    ) -> Result<(), NotSubmitted<R>> {
        if self.in_flight >= self.in_flight_max {
            return Err(NotSubmitted::Full(request));
        }
        self.submitter.try_submit(request, tag, durability)?;
        self.in_flight += 1;
        Ok(())
    }

    /// Puts a call in; sleeps while the pipeline has no room.
    ///
    /// # Errors
    /// `Full` when this caller has as much under way as it may — only fetching replies helps —,
    /// `Refused` when nothing is taken any more.
    pub fn submit(
        &mut self,
        request: R,
        tag: u64,
        durability: Durability,
    ) -> Result<(), NotSubmitted<R>> {
        if self.in_flight >= self.in_flight_max {
            return Err(NotSubmitted::Full(request));
        }
        let put = self.submitter.submit(request, tag, durability);
        put.map_err(|(request, refusal)| NotSubmitted::Refused(request, refusal))?;
        self.in_flight += 1;
        Ok(())
    }

    /// Puts in as many of `calls` as there is room for; see [`Submitter::try_submit_many`].
    ///
    /// # Errors
    /// The reason, when nothing is taken any more.
    pub fn try_submit_many(&mut self, calls: &mut Vec<Call<R>>) -> Result<usize, Refusal> {
        let may = self.in_flight_max - self.in_flight;
        let rest = if calls.len() > may { calls.split_off(may) } else { Vec::new() };
        let put = self.submitter.try_submit_many(calls);
        calls.extend(rest);
        self.in_flight += *put.as_ref().unwrap_or(&0);
        put
    }

    /// Fetches the replies that are there, behind what `into` already holds.
    pub fn take(&mut self, into: &mut Vec<Tagged<A>>) {
        let before = into.len();
        into.append(&mut self.early);
        self.mailbox.take(into);
        self.in_flight -= into.len() - before;
    }

    /// Fetches replies; sleeps until there is at least one, if any call is under way.
    ///
    /// # Errors
    /// The refusal all calls under way end with, when a stage broke down.
    pub fn wait(&mut self, into: &mut Vec<Tagged<A>>) -> Result<(), Refusal> {
        let before = into.len();
        self.take(into);
        if into.len() == before && self.in_flight > 0 {
            let waited = self.mailbox.wait(into);
            self.in_flight -= into.len() - before;
            waited.map_err(|reason| {
                self.in_flight = 0;
                Refusal::Unknown(reason)
            })?;
        }
        Ok(())
    }

    /// Calls and sleeps until the reply is there. Other calls may be under way; their replies are
    /// kept for [`Caller::take`].
    pub fn call(&mut self, request: R, durability: Durability) -> Reply<A> {
        if let Err((_, refusal)) = self.submitter.submit(request, LONE, durability) {
            return Reply::Refused(refusal);
        }
        loop {
            if let Err(reason) = self.mailbox.wait(&mut self.arrived) {
                return Reply::Refused(Refusal::Unknown(reason));
            }
            let mut own = None;
            for (tag, reply) in self.arrived.drain(..) {
                match tag {
                    LONE => own = Some(reply),
                    tag => self.early.push((tag, reply)),
                }
            }
            if let Some(reply) = own {
                return reply;
            }
        }
    }
}
