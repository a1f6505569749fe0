//! The lock table: for each thing that is locked, the queue of requests that hold or want a lock on
//! it.
//!
//! ```text
//!   bucket: latch
//!           chain ─► request ──below──► request ──below──► …    one per lock of the chain
//!               next │ ▲ previous        │ next
//!                    ▼ │                  ▼
//!                    request            (alone: the common case)
//! ```
//!
//! A page and its rows are in one bucket, so a call locks both, or releases both, under one latch.
//!
//! A lock exists only as its queue of requests, in the order in which they came; so there is no
//! lock head to allocate, and a lock without requests takes no memory. The first request of a queue
//! has the lock's granted group (`group.rs`) and a link to the last request. So granting and releasing cost the
//! same with one holder and with hundreds; the queue is walked only if requests wait. A request is granted a
//! mode, or waits for one, or is granted one and waits for a stronger one (a *conversion*).
//!
//! Grant rules:
//! 1. A conversion is granted as soon as all others' granted modes allow it. Waiting conversions are looked at in
//!    the order of their requests in the queue; a conversion that must wait does not delay others.
//! 2. A new request is granted if no request waits and all granted modes allow it. So new requests are served in
//!    order, after all conversions.
//!
//! When a transaction ends, its session *keeps* an intention lock on a store for its next transaction (ISL-15:
//! speculative lock inheritance), unless the lock excludes a session that waits. The request stays granted in the
//! queue, marked KEPT, until its session claims it with one exchange, or a session that it excludes takes it out;
//! then the claim fails, which is how its session learns of it.
//! A granted request that excludes a waiting one is marked CONTENDED, and not kept.
//!
//! Invariants (`check.rs`): granted modes are pairwise compatible; no granted request is behind
//! one that is not granted; no request waits that could be granted; a session has one request per lock; the
//! granted group agrees with the requests.
//!
//! The latch of its bucket protects all of a lock's requests. A request that is in no queue
//! belongs to a session's stock (`held.rs`) or to the common chain here, so no call allocates. A session that
//! changes a queue wakes, under the latch, the sessions whose waits end. Not here: waiting (`wait.rs`); a request
//! that cannot be granted is queued, and the caller gets [`Answer::Waits`].

mod chain;
mod gaps;
mod release;
mod request;

use std::cell::Cell;

pub(super) use chain::ChainNumber;
use chain::{BUCKETS_MAX, Bucket, Place};
use request::{CONTENDED, KEPT, TAKEN};
pub(super) use request::{Request, State};

use super::LockError;
use super::group::{Group, REQUESTS_MAX};
use super::mode::Mode;
use super::name::{CHAINS, LockName};
use super::session::{NONE, Sessions, Verdict};
use crate::latch::{GuardedU32, GuardedU64, Latch, Latching, Line};
use crate::plant::{self, Plant};
use crate::sync::AtomicU32;

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Granted,
    /// Queued; a [`Verdict`] will be handed to the session.
    Waits,
    /// Left as it was.
    Unavailable,
}

pub(super) struct Table<L: Latching> {
    buckets: Box<[Bucket<L>]>,
    /// How far a name's hash is shifted right to get a bucket's number.
    shift: u32,
    requests: Box<[Request]>,
    /// The first of the common chain of free requests.
    free: Line<Latch<Cell<u32>, L>>,
    /// The number of transactions with locks on gaps.
    gap_holders: Line<AtomicU32>,
    pub(super) sessions: Sessions<L>,
}

impl<L: Latching> Table<L> {
    pub(super) fn new(buckets: u32, requests_max: u32, sessions_max: u32) -> Self {
        assert!(0 < requests_max && requests_max < NONE, "requests_max is out of range");
        assert!(sessions_max <= REQUESTS_MAX, "sessions_max is out of range");
        // At least two, so that `shift` is less than the width of a hash.
        let count = buckets.div_ceil(CHAINS as u32).clamp(2, BUCKETS_MAX).next_power_of_two();
        let request = |id: u32| Request {
            name: GuardedU64::new(0),
            group: GuardedU64::new(0),
            state: AtomicU32::new(TAKEN),
            previous: GuardedU32::new(NONE),
            next: GuardedU32::new(if id + 1 == requests_max { NONE } else { id + 1 }),
            below: GuardedU32::new(NONE),
        };
        Self {
            buckets: (0..count).map(|_| Bucket::new()).collect(),
            shift: u32::BITS - count.trailing_zeros(),
            requests: (0..requests_max).map(request).collect(),
            free: Line(Latch::new(Cell::new(0))),
            gap_holders: Line(AtomicU32::new(0)),
            sessions: Sessions::new(sessions_max),
        }
    }

    #[inline(always)]
    pub(super) fn request(&self, id: u32) -> &Request {
        &self.requests[id as usize]
    }

    pub(super) fn requests_max(&self) -> u32 {
        self.requests.len() as u32
    }

    /// The number of the bucket that holds `name`.
    #[inline(always)]
    pub(super) fn bucket_number(&self, name: LockName) -> usize {
        self.chain(name).bucket()
    }

    /// Which chain has the queue of `name`.
    #[inline(always)]
    pub(super) fn chain(&self, name: LockName) -> ChainNumber {
        ChainNumber::of(name, self.shift)
    }

    #[inline(always)]
    fn place(&self, name: LockName) -> Place<'_, L> {
        self.place_at(self.chain(name))
    }

    #[inline(always)]
    fn place_at(&self, chain: ChainNumber) -> Place<'_, L> {
        Place::of(&self.buckets[chain.bucket()], chain)
    }

    /// Takes up to `count` requests from the common chain and passes them to `take`; at least one.
    #[cold]
    pub(super) fn take_free(&self, count: u32, mut take: impl FnMut(u32)) -> Result<(), LockError> {
        let free = self.free.hold();
        if free.get() == NONE {
            return Err(LockError::TableFull);
        }
        for _ in 0..count {
            let id = free.get();
            if id == NONE {
                break;
            }
            free.set(self.request(id).next.get());
            take(id);
        }
        Ok(())
    }

    /// Gives a request that is in no queue back to the common chain.
    pub(super) fn give_free(&self, id: u32) {
        let free = self.free.hold();
        self.request(id).next.set(free.get());
        free.set(id);
    }

    /// Requests a mode on a name in this chain, for a session that has no lock on the name, with a free request.
    #[inline(always)]
    pub(super) fn acquire(
        &self,
        session: u32,
        chain: ChainNumber,
        asked: (LockName, Mode, u32),
        patient: bool,
    ) -> Answer {
        let place = self.place_at(chain);
        let _latched = place.bucket.latch.hold();
        self.ask(place, session, asked, patient)
    }

    /// The same for a page and a row of it, under one latch. Returns the answer for the row.
    ///
    /// # Errors
    /// The answer for the page if that was not granted; then no request for the row was made.
    #[inline(always)]
    pub(super) fn acquire_both(
        &self,
        session: u32,
        chains: [ChainNumber; 2],
        [page, row]: [(LockName, Mode, u32); 2],
        patient: bool,
    ) -> Result<Answer, Answer> {
        debug_assert_eq!(chains[0].bucket(), chains[1].bucket());
        let page_place = self.place_at(chains[0]);
        let row_place = page_place.with_chain(chains[1]);
        let _latched = page_place.bucket.latch.hold();
        match self.ask(page_place, session, page, patient) {
            Answer::Granted => Ok(self.ask(row_place, session, row, patient)),
            refused => Err(refused),
        }
    }

    /// Requests a mode on a name with a free request. The bucket is latched.
    #[inline(always)]
    fn ask(
        &self,
        place: Place<'_, L>,
        session: u32,
        (name, mode, id): (LockName, Mode, u32),
        patient: bool,
    ) -> Answer {
        let mut first = self.find(place, name);
        if first != NONE {
            if name.is_store() && !self.request(first).group().allows(mode) {
                first = self.call_in(place, first, NONE, mode);
            }
            if first != NONE {
                let asked = State { session, granted: None, wanted: Some(mode) };
                return self.join(first, (asked, mode), id, patient);
            }
        }
        let request = self.request(id);
        request.name.set(name.word());
        request.set_group(Group::of(mode));
        request.set_state(State { session, granted: Some(mode), wanted: None });
        request.next.set(NONE);
        request.previous.set(id);
        request.below.set(place.first.get());
        place.first.set(id);
        Answer::Granted
    }

    /// Puts the free request `id` behind the others of a queue, granted if that is possible.
    #[inline(never)]
    fn join(&self, first: u32, (asked, mode): (State, Mode), id: u32, patient: bool) -> Answer {
        let (head, request) = (self.request(first), self.request(id));
        debug_assert!(
            self.queue(first).all(|other| self.request(other).state().session != asked.session),
            "a session asks twice for one lock"
        );
        let group = head.group();
        let is_free = !group.waits() && group.allows(mode);
        if !is_free && !patient {
            return Answer::Unavailable;
        }
        let last = head.previous.get();
        request.name.set(head.name.get());
        request.next.set(NONE);
        request.previous.set(last);
        self.request(last).next.set(id);
        head.previous.set(id);
        if is_free {
            request.set_state(State { granted: Some(mode), wanted: None, ..asked });
            head.set_group(group.with(mode));
            return Answer::Granted;
        }
        request.set_state(asked);
        head.set_group(group.with_waiting());
        self.sessions.get(asked.session).set_waits_for(Some(head.name()));
        Answer::Waits
    }

    /// Converts the granted request `id` on `name` from mode `now` to the stronger mode `wanted`.
    #[inline(always)]
    pub(super) fn convert(
        &self,
        session: u32,
        (name, id): (LockName, u32),
        (now, wanted): (Mode, Mode),
        patient: bool,
    ) -> Answer {
        let (place, request) = (self.place(name), self.request(id));
        let _latched = place.bucket.latch.hold();
        let held = State { session, granted: Some(now), wanted: None };
        assert!(request.state() == held, "the lock is not held as its holder believes");
        let mut first = self.find(place, name);
        if name.is_store() && !self.request(first).group().without(now).allows(wanted) {
            first = self.call_in(place, first, id, wanted);
        }
        let head = self.request(first);
        let group = head.group();
        if group.without(now).allows(wanted) || plant::is(Plant::ConversionIgnoresOthers) {
            request.set_state_in(State { granted: Some(wanted), ..held }, group);
            head.set_group(group.without(now).with(wanted));
            return Answer::Granted;
        }
        if !patient {
            return Answer::Unavailable;
        }
        request.set_state(State { wanted: Some(wanted), ..held });
        head.set_group(group.with_waiting());
        self.sessions.get(session).set_waits_for(Some(name));
        Answer::Waits
    }

    /// Lowers the granted request `id` on `name` from one mode to a weaker one.
    pub(super) fn lower(&self, (name, id): (LockName, u32), now: Mode, weaker: Mode) {
        let (place, request) = (self.place(name), self.request(id));
        let _latched = place.bucket.latch.hold();
        let first = self.find(place, name);
        let head = self.request(first);
        let group = head.group().without(now).with(weaker);
        request.set_state_in(State { granted: Some(weaker), ..request.state() }, group);
        head.set_group(group);
        if group.waits() {
            self.grant(first);
        }
    }

    /// Keeps the granted request `id` for its session's next transaction, if it is an intention lock and excludes no
    /// session that waits; says whether it did.
    #[inline]
    pub(super) fn keep(&self, id: u32) -> bool {
        let request = self.request(id);
        let word = request.word();
        let granted = State::from_word(word).granted;
        matches!(granted, Some(Mode::IntentionShared | Mode::IntentionExclusive))
            && word & CONTENDED == 0
            && request.exchange(word, word | KEPT)
    }

    /// Claims a kept request; returns its mode, or `None` if another session has taken it out.
    #[inline]
    pub(super) fn claim(&self, id: u32) -> Option<Mode> {
        let request = self.request(id);
        let word = request.word();
        if word & KEPT == 0 || !request.exchange(word, word & !KEPT) {
            return None;
        }
        State::from_word(word).granted
    }

    /// Takes out the kept requests that exclude `wanted`, and marks the others that exclude it CONTENDED; leaves `own`
    /// alone. Returns the first request of the queue afterwards, or `NONE`.
    #[cold]
    #[inline(never)]
    fn call_in(&self, place: Place<'_, L>, first: u32, own: u32, wanted: Mode) -> u32 {
        let excluding: Vec<u32> = self
            .queue(first)
            .filter(|id| *id != own && self.request(*id).state().excludes(Some(wanted)))
            .collect();
        let mut first = first;
        for id in excluding {
            let request = self.request(id);
            loop {
                let word = request.word();
                let is_kept = word & KEPT != 0;
                if !request.exchange(word, if is_kept { TAKEN } else { word | CONTENDED }) {
                    continue;
                }
                if is_kept {
                    let granted = State::from_word(word).granted;
                    let group = self.request(first).group();
                    first = self.unlink(place, first, id);
                    if first != NONE {
                        let left = granted.map_or(group, |mode| group.without(mode));
                        self.request(first).set_group(left);
                    }
                }
                break;
            }
        }
        first
    }

    /// Ends the wait of `session` for `name` without a grant: a conversion keeps its granted mode,
    /// a new request leaves the queue. Hands over `verdict`, if there is one. Returns whether the session was waiting;
    /// if not, it has got a verdict already.
    #[cold]
    pub(super) fn cancel(&self, session: u32, name: LockName, verdict: Option<Verdict>) -> bool {
        let place = self.place(name);
        let _latched = place.bucket.latch.hold();
        let waiting = self.sessions.get(session);
        if waiting.waits_for() != Some(name) {
            return false;
        }
        let first = self.find(place, name);
        let waits = |state: State| state.session == session && state.wanted.is_some();
        let id = self.queue(first).find(|id| waits(self.request(*id).state()));
        let Some(id) = id else { panic!("a session waits for a lock without a request for it") };
        waiting.set_waits_for(None);
        let state = self.request(id).state();
        if state.granted.is_some() {
            let head = self.request(first);
            let group = head.group().without_waiting();
            self.request(id).set_state_in(State { wanted: None, ..state }, group);
            head.set_group(group);
            if !plant::is(Plant::CancelGrantsNone) {
                self.grant(first);
            }
        } else {
            self.leave(place, id);
        }
        if let Some(verdict) = verdict {
            waiting.parker.unpark(verdict);
        }
        true
    }

    /// Calls `visit` for every session that `session` waits for, if it waits.
    pub(super) fn blockers(&self, session: u32, mut visit: impl FnMut(u32)) {
        let Some(name) = self.sessions.get(session).waits_for() else { return };
        let place = self.place(name);
        let _latched = place.bucket.latch.hold();
        if self.sessions.get(session).waits_for() != Some(name) {
            return;
        }
        let first = self.find(place, name);
        let states = || self.queue(first).map(|id| self.request(id).state());
        let is_own = |state: &State| state.session == session && state.wanted.is_some();
        let Some(own) = states().find(is_own) else { return };
        let excludes = |state: &State| state.excludes(own.wanted);
        // In a gap's queue a request waits only for granted ones.
        if own.granted.is_some() || name.is_gap() {
            let others = states().filter(|state| state.session != session);
            others.filter(excludes).for_each(|state| visit(state.session));
        } else {
            let ahead = states().take_while(|state| state.session != session);
            let blocks = |state: &State| excludes(state) || state.wanted.is_some();
            ahead.filter(blocks).for_each(|state| visit(state.session));
        }
    }

    /// Calls `visit` for each queue, with the number of its bucket and its requests in order.
    pub(super) fn for_each_queue(&self, mut visit: impl FnMut(usize, &[u32])) {
        for (number, bucket) in self.buckets.iter().enumerate() {
            let _latched = bucket.latch.hold();
            for chain in &bucket.chains {
                let mut first = chain.get();
                while first != NONE {
                    let queue: Vec<u32> = self.queue(first).take(self.requests.len()).collect();
                    visit(number, &queue);
                    first = self.request(first).below.get();
                }
            }
        }
    }

    /// The length of the common chain of free requests.
    pub(super) fn free_count(&self) -> u32 {
        let free = self.free.hold();
        self.queue(free.get()).take(self.requests.len() + 1).count() as u32
    }

    /// The first request of `name`'s queue. The bucket is latched, as for all below.
    #[inline(always)]
    fn find(&self, place: Place<'_, L>, name: LockName) -> u32 {
        let mut at = place.first.get();
        while at != NONE && self.request(at).name.get() != name.word() {
            at = self.request(at).below.get();
        }
        at
    }

    /// The requests from `first` on, in order.
    fn queue(&self, first: u32) -> impl Iterator<Item = u32> {
        std::iter::successors((first != NONE).then_some(first), |id| {
            let next = self.request(*id).next.get();
            (next != NONE).then_some(next)
        })
    }

    /// Takes request `id` out of its queue, and grants the requests that can be granted then.
    #[inline(never)]
    fn leave(&self, place: Place<'_, L>, id: u32) {
        let request = self.request(id);
        let first = self.find(place, request.name());
        let (state, group) = (request.state(), self.request(first).group());
        let first = self.take_out(place, first, id);
        if first == NONE || !self.request(first).group().waits() {
            return;
        }
        if request.name().is_gap() {
            self.let_pass(place, first);
        } else if !state.granted.is_some_and(|granted| group.has_three(granted)) {
            self.grant(first);
        }
    }

    /// Takes request `id` out of the queue that starts with `first` and out of its granted group; returns
    /// the new first request.
    fn take_out(&self, place: Place<'_, L>, first: u32, id: u32) -> u32 {
        let (state, group) = (self.request(id).state(), self.request(first).group());
        let left = match state.granted {
            Some(granted) => group.without(granted),
            None => group,
        };
        let left = if state.wanted.is_some() { left.without_waiting() } else { left };
        let first = self.unlink(place, first, id);
        if first != NONE {
            self.request(first).set_group(left);
        }
        first
    }

    /// Takes request `id` out of the queue that starts with `first`; returns the new first request.
    fn unlink(&self, place: Place<'_, L>, first: u32, id: u32) -> u32 {
        let request = self.request(id);
        let (previous, next) = (request.previous.get(), request.next.get());
        if first != id {
            self.request(previous).next.set(next);
            let behind = if next == NONE { first } else { next };
            self.request(behind).previous.set(previous);
            return first;
        }
        // The second becomes the first, or the queue leaves the bucket.
        let below = request.below.get();
        let heir = if next == NONE { below } else { next };
        if next != NONE {
            self.request(next).below.set(below);
            self.request(next).previous.set(previous);
        }
        if place.first.get() == id {
            place.first.set(heir);
        } else {
            let mut above = place.first.get();
            while self.request(above).below.get() != id {
                above = self.request(above).below.get();
            }
            self.request(above).below.set(heir);
        }
        next
    }

    /// Grants all requests that can be granted in the queue that starts with `first`, by the rules at the head
    /// of this file, and wakes their sessions.
    fn grant(&self, first: u32) {
        let head = self.request(first);
        let mut conversions_wait = false;
        for id in self.queue(first) {
            let (state, group) = (self.request(id).state(), head.group());
            if !group.waits() {
                return;
            }
            let Some(wanted) = state.wanted else { continue };
            let others = match state.granted {
                Some(granted) => group.without(granted),
                None => group,
            };
            if !others.allows(wanted) || state.granted.is_none() && conversions_wait {
                // Conversions stand before new requests: all have been looked at.
                if state.granted.is_none() {
                    return;
                }
                conversions_wait = true;
                continue;
            }
            let granted = State { granted: Some(wanted), wanted: None, ..state };
            self.request(id).set_word(granted.word() | CONTENDED);
            head.set_group(others.with(wanted).without_waiting());
            let session = self.sessions.get(state.session);
            session.set_waits_for(None);
            session.parker.unpark(Verdict::Granted);
        }
    }
}
