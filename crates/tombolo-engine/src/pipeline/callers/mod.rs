//! A caller's ends of the pipeline: submitting calls and fetching replies.
//!
//! [`Submitter`] submits calls; [`Mailbox`] is the sink for callers that fetch their replies, one at a time or
//! thousands; [`Caller`] is both, with a bound on the calls under way. For callbacks, a caller passes a
//! closure as its sink.
//!
//! Not here: the register of callers (`transport/sinks.rs`), the stages. Invariants: an accepted call
//! gets one reply, unless a stage broke down; then every sink is notified.

pub(crate) mod carrying;
pub(crate) mod long_intake;

use std::sync::Arc;

use crate::pipeline::callers::carrying::Carrying;
use crate::pipeline::state::Shared;
use crate::pipeline::transport::{
    Call, CallerId, Durability, Mailbox, NotPut, Queue, Refusal, Reply, Tagged, call_load,
};

/// The reason that a call was not accepted, with its request.
#[derive(Debug)]
pub enum NotSubmitted<R> {
    /// The pipeline has no room now, or this caller has reached its bound of calls under way: take replies,
    /// then try again.
    Full(R),
    /// The pipeline accepts no more calls, for this reason.
    Refused(R, Refusal),
}

/// The end for submitting calls. Dropping it abandons outstanding replies.
#[derive(Debug)]
pub struct Submitter<R, A> {
    pub(crate) id: CallerId,
    pub(crate) intake: Arc<Queue<Call<R>>>,
    pub(crate) shared: Arc<Shared<A>>,
    pub(crate) request_bytes: fn(&R) -> usize,
    /// Present if callers carry.
    pub(crate) carrying: Option<Arc<Carrying<A>>>,
}

impl<R, A> Submitter<R, A> {
    /// A call to be submitted together with others; see [`Submitter::try_submit_many`].
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

    /// Submits a call.
    ///
    /// # Errors
    /// The request, when there is no room or no more calls are accepted.
    pub fn try_submit(
        &self,
        request: R,
        tag: u64,
        durability: Durability,
    ) -> Result<(), NotSubmitted<R>> {
        let put = self.try_submit_silently(request, tag, durability);
        if put.is_ok() {
            self.intake.wake();
        }
        put
    }

    /// The same for a thread that carries its call: it calls [`Submitter::carry_until`] next, and if
    /// it does not, [`Submitter::wake`].
    ///
    /// # Errors
    /// As [`Submitter::try_submit`].
    pub fn try_submit_silently(
        &self,
        request: R,
        tag: u64,
        durability: Durability,
    ) -> Result<(), NotSubmitted<R>> {
        if self.shared.poison().is_some() {
            return Err(NotSubmitted::Refused(request, self.refusal()));
        }
        let load = call_load(self.request_bytes, &request);
        let put = self.intake.try_put_silently(self.call(request, tag, durability), load);
        put.map_err(|not_put| match not_put {
            NotPut::Full(call) => NotSubmitted::Full(call.request),
            NotPut::Closed(call) => NotSubmitted::Refused(call.request, self.refusal()),
        })
    }

    /// Submits a call; sleeps while there is no room.
    ///
    /// # Errors
    /// The request and the reason, when no more calls are accepted.
    pub fn submit(&self, request: R, tag: u64, durability: Durability) -> Result<(), (R, Refusal)> {
        self.submit_silently(request, tag, durability)?;
        self.intake.wake();
        Ok(())
    }

    /// The same for a thread that carries its call; see [`Submitter::try_submit_silently`].
    ///
    /// # Errors
    /// As [`Submitter::submit`].
    pub fn submit_silently(
        &self,
        request: R,
        tag: u64,
        durability: Durability,
    ) -> Result<(), (R, Refusal)> {
        if self.shared.poison().is_some() {
            return Err((request, self.refusal()));
        }
        let load = call_load(self.request_bytes, &request);
        let put = self.intake.put_when_room_silently(self.call(request, tag, durability), load);
        put.map_err(|call| (call.request, self.refusal()))
    }

    /// Whether calls wait to run, or no more are accepted. One that another thread submits concurrently may be missed.
    pub fn has_waiting(&self) -> bool {
        !self.intake.is_open_and_empty()
    }

    /// Wakes the thread that processes calls, for calls that were submitted silently.
    pub fn wake(&self) {
        self.intake.wake();
    }

    /// Does the stages' work until `is_done`, or until this thread can only sleep;
    /// returns whether it is done. If callers do not carry, the stages' threads do the work.
    pub fn carry_until(&self, is_done: impl Fn() -> bool) -> bool {
        match &self.carrying {
            Some(carrying) => carrying.carry_until(&is_done),
            None => {
                self.intake.wake();
                is_done()
            }
        }
    }

    /// Submits as many of `calls` as there is room for, from the front, with one lock, and removes them from
    /// `calls`. Returns their number.
    ///
    /// # Errors
    /// The reason, when no more calls are accepted.
    ///
    /// # Panics
    /// When a call was made by another caller.
    pub fn try_submit_many(&self, calls: &mut Vec<Call<R>>) -> Result<usize, Refusal> {
        let put = self.try_submit_many_silently(calls);
        self.intake.wake();
        put
    }

    fn try_submit_many_silently(&self, calls: &mut Vec<Call<R>>) -> Result<usize, Refusal> {
        assert!(calls.iter().all(|call| call.caller == self.id), "another caller's call");
        if self.shared.poison().is_some() {
            return Err(self.refusal());
        }
        let request_bytes = self.request_bytes;
        let load = |call: &Call<R>| call_load(request_bytes, &call.request);
        let put = self.intake.put_many_silently(calls, load);
        put.ok_or_else(|| self.refusal())
    }
}

impl<R, A> Drop for Submitter<R, A> {
    fn drop(&mut self) {
        self.shared.callers.remove(self.id);
    }
}

/// Up to this many calls under way, a caller carries them itself. With more, two threads are faster: one executes
/// while the other writes.
const CARRIED_MAX: usize = 64;

/// A caller that fetches its replies: one call at a time, or many under way. If callers carry, a caller with a
/// small bound carries its calls itself: they begin when it waits for replies or takes them.
#[derive(Debug)]
pub struct Caller<R, A> {
    pub(crate) submitter: Submitter<R, A>,
    mailbox: Arc<Mailbox<A>>,
    pub(crate) in_flight: usize,
    in_flight_max: usize,
    /// Replies that arrived while `call` waited for its own.
    early: Vec<Tagged<A>>,
    arrived: Vec<Tagged<A>>,
    /// Whether calls were submitted for which no thread was woken.
    is_silent: bool,
}

/// The tag `call` uses; tags from here on are not a caller's own.
const LONE: u64 = u64::MAX;

impl<R, A> Caller<R, A> {
    pub(crate) fn new(
        submitter: Submitter<R, A>,
        mailbox: Arc<Mailbox<A>>,
        in_flight_max: usize,
    ) -> Self {
        let (early, arrived) = (Vec::new(), Vec::new());
        Self { submitter, mailbox, in_flight: 0, in_flight_max, early, arrived, is_silent: false }
    }

    /// Whether this caller does the stages' work while it waits.
    pub fn carries(&self) -> bool {
        self.submitter.carrying.is_some() && self.in_flight_max <= CARRIED_MAX
    }

    /// Starts calls that were submitted silently: when this caller waits, or now.
    fn after_put(&mut self) {
        self.is_silent = self.carries();
        if !self.is_silent {
            self.submitter.wake();
        }
    }

    /// Wakes the stages, because this caller does something else before it waits.
    fn wake_stages(&mut self) {
        if std::mem::take(&mut self.is_silent) {
            self.submitter.wake();
        }
    }

    /// Works until there is a reply, or until this thread can only sleep.
    fn carry(&mut self) {
        if self.carries() {
            self.is_silent = false;
            let mailbox = &self.mailbox;
            self.submitter.carry_until(|| mailbox.has_news());
        }
    }

    /// The number of calls whose reply was not fetched yet.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// A call for [`Caller::try_submit_many`].
    pub fn prepare(&self, request: R, tag: u64, durability: Durability) -> Call<R> {
        self.submitter.call(request, tag, durability)
    }

    /// Submits a call.
    ///
    /// # Errors
    /// The request, when there is no room, too much is under way, or no more calls are accepted.
    pub fn try_submit(
        &mut self,
        request: R,
        tag: u64,
        durability: Durability,
    ) -> Result<(), NotSubmitted<R>> {
        if self.in_flight >= self.in_flight_max {
            return Err(NotSubmitted::Full(request));
        }
        self.submitter.try_submit_silently(request, tag, durability)?;
        self.in_flight += 1;
        self.after_put();
        Ok(())
    }

    /// Submits a call; sleeps while the pipeline has no room.
    ///
    /// # Errors
    /// `Full` when this caller has reached its bound of calls under way (only fetching replies helps),
    /// `Refused` when no more calls are accepted.
    pub fn submit(
        &mut self,
        request: R,
        tag: u64,
        durability: Durability,
    ) -> Result<(), NotSubmitted<R>> {
        if self.in_flight >= self.in_flight_max {
            return Err(NotSubmitted::Full(request));
        }
        let put = self.submitter.submit_silently(request, tag, durability);
        put.map_err(|(request, refusal)| NotSubmitted::Refused(request, refusal))?;
        self.in_flight += 1;
        self.after_put();
        Ok(())
    }

    /// Submits as many of `calls` as there is room for; see [`Submitter::try_submit_many`].
    ///
    /// # Errors
    /// The reason, when no more calls are accepted.
    pub fn try_submit_many(&mut self, calls: &mut Vec<Call<R>>) -> Result<usize, Refusal> {
        let may = self.in_flight_max - self.in_flight;
        let rest = if calls.len() > may { calls.split_off(may) } else { Vec::new() };
        let put = self.submitter.try_submit_many_silently(calls);
        calls.extend(rest);
        self.in_flight += *put.as_ref().unwrap_or(&0);
        self.after_put();
        put
    }

    /// Appends all replies that have arrived to `into`.
    pub fn take(&mut self, into: &mut Vec<Tagged<A>>) {
        self.wake_stages();
        self.take_arrived(into);
    }

    fn take_arrived(&mut self, into: &mut Vec<Tagged<A>>) {
        let before = into.len();
        into.append(&mut self.early);
        self.mailbox.take(into);
        self.in_flight -= into.len() - before;
    }

    /// Fetches replies; sleeps until there is at least one, if any call is under way.
    ///
    /// # Errors
    /// The refusal of all calls under way, when a stage broke down.
    pub fn wait(&mut self, into: &mut Vec<Tagged<A>>) -> Result<(), Refusal> {
        let before = into.len();
        self.take_arrived(into);
        if into.len() > before {
            self.wake_stages();
        } else if self.in_flight > 0 {
            self.carry();
            let waited = self.mailbox.wait(into);
            self.in_flight -= into.len() - before;
            waited.map_err(|reason| {
                self.in_flight = 0;
                Refusal::Unknown(reason)
            })?;
        }
        Ok(())
    }

    /// Calls and sleeps until the reply arrives. Other calls may be under way; their replies are
    /// kept for [`Caller::take`].
    pub fn call(&mut self, request: R, durability: Durability) -> Reply<A> {
        if let Err((_, refusal)) = self.submitter.submit_silently(request, LONE, durability) {
            return Reply::Refused(refusal);
        }
        self.after_put();
        loop {
            self.carry();
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

impl<R, A> Drop for Caller<R, A> {
    fn drop(&mut self) {
        self.wake_stages(); // submitted calls still run, although their replies are dropped
    }
}
