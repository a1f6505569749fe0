//! The two ends a caller holds.
//!
//! [`Submitter`] puts calls in; [`Mailbox`] is the sink for callers that fetch their replies, one at a time or
//! thousands; [`Caller`] is both, with a bound on what is under way. A caller that wants to be called back gives a
//! closure as its sink.
//!
//! Not here: the register of callers (`transport/sinks.rs`), what happens in between. Invariants: a call that was
//! taken in gets one reply, unless a stage broke down; then every sink is notified.

pub(crate) mod carrying;
pub(crate) mod long_intake;

use std::sync::Arc;

use crate::pipeline::callers::carrying::Carrying;
use crate::pipeline::state::Shared;
use crate::pipeline::transport::{
    Call, CallerId, Durability, Mailbox, NotPut, Queue, Refusal, Reply, Tagged, call_load,
};

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
    pub(crate) id: CallerId,
    pub(crate) intake: Arc<Queue<Call<R>>>,
    pub(crate) shared: Arc<Shared<A>>,
    pub(crate) request_bytes: fn(&R) -> usize,
    /// Where callers carry.
    pub(crate) carrying: Option<Arc<Carrying<A>>>,
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

    /// Puts a call in; sleeps while there is no room.
    ///
    /// # Errors
    /// The request and the reason, when nothing is taken any more.
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

    /// Wakes the thread behind the intake, for calls that were put in silently.
    pub fn wake(&self) {
        self.intake.wake();
    }

    /// Does the stages' work until `is_done`, or until there is nothing this thread can do but sleep;
    /// says whether it is done. Where callers do not carry, the stages' threads do the work.
    pub fn carry_until(&self, is_done: impl Fn() -> bool) -> bool {
        match &self.carrying {
            Some(carrying) => carrying.carry_until(&is_done),
            None => {
                self.intake.wake();
                is_done()
            }
        }
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

/// Calls under way up to which a caller carries them itself. With more, two threads do more: one executes while
/// the other writes.
const CARRIED_MAX: usize = 64;

/// A caller that fetches its replies: one call at a time, or many under way. A caller with a small bound
/// carries its calls itself, if callers carry: they begin when it waits for replies or takes them.
#[derive(Debug)]
pub struct Caller<R, A> {
    pub(crate) submitter: Submitter<R, A>,
    mailbox: Arc<Mailbox<A>>,
    pub(crate) in_flight: usize,
    in_flight_max: usize,
    /// Replies that came while `call` waited for its own.
    early: Vec<Tagged<A>>,
    arrived: Vec<Tagged<A>>,
    /// Whether calls were put in for which no thread was woken.
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

    /// Calls were put in silently: they begin when this caller waits, or now.
    fn after_put(&mut self) {
        self.is_silent = self.carries();
        if !self.is_silent {
            self.submitter.wake();
        }
    }

    /// This caller does something else before it waits.
    fn speak(&mut self) {
        if std::mem::take(&mut self.is_silent) {
            self.submitter.wake();
        }
    }

    /// Works until there is a reply, or nothing but sleep is left.
    fn carry(&mut self) {
        if self.carries() {
            self.is_silent = false;
            let mailbox = &self.mailbox;
            self.submitter.carry_until(|| mailbox.has_news());
        }
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
        self.submitter.try_submit_silently(request, tag, durability)?;
        self.in_flight += 1;
        self.after_put();
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
        let put = self.submitter.submit_silently(request, tag, durability);
        put.map_err(|(request, refusal)| NotSubmitted::Refused(request, refusal))?;
        self.in_flight += 1;
        self.after_put();
        Ok(())
    }

    /// Puts in as many of `calls` as there is room for; see [`Submitter::try_submit_many`].
    ///
    /// # Errors
    /// The reason, when nothing is taken any more.
    pub fn try_submit_many(&mut self, calls: &mut Vec<Call<R>>) -> Result<usize, Refusal> {
        let may = self.in_flight_max - self.in_flight;
        let rest = if calls.len() > may { calls.split_off(may) } else { Vec::new() };
        let put = self.submitter.try_submit_many_silently(calls);
        calls.extend(rest);
        self.in_flight += *put.as_ref().unwrap_or(&0);
        self.after_put();
        put
    }

    /// Fetches the replies that are there, behind what `into` already holds.
    pub fn take(&mut self, into: &mut Vec<Tagged<A>>) {
        self.speak();
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
    /// The refusal all calls under way end with, when a stage broke down.
    pub fn wait(&mut self, into: &mut Vec<Tagged<A>>) -> Result<(), Refusal> {
        let before = into.len();
        self.take_arrived(into);
        if into.len() > before {
            self.speak();
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

    /// Calls and sleeps until the reply is there. Other calls may be under way; their replies are
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
        self.speak(); // what was put in runs, though no caller asks for the reply
    }
}
