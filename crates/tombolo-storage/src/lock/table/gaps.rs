//! Gaps in the lock table: S is granted at any time, IX is never kept.
//!
//! A session that has read a gap holds S on it until its transaction ends. A session that is to insert into the gap
//! requests IX, and is woken as soon as no other session holds S. IX is not kept: the session that grants it
//! takes the request out of the queue, and the inserting session looks again where its entry belongs. So S never
//! waits, and a gap's queue has granted S and waiting IX, in any order. A session may have one of each.
//!
//! When a gap vanishes, S that others hold on it is *handed on* to the gap above: the request gets that gap's
//! name. Its session is not informed; it relies on a lock only if the request still has the name.

use super::super::mode::Mode;
use super::super::name::LockName;
use super::super::session::{NONE, Verdict};
use super::{Answer, Group, Place, State, Table};
use crate::latch::Latching;
use crate::sync::Ordering;

impl<L: Latching> Table<L> {
    /// Whether any gap may be locked. Right where the answer matters: a session that read a gap was counted
    /// before it let go of the leaf that an entry of the gap would be in, and one that inserts or removes has
    /// that leaf alone when it asks; the leaf's latch orders the two. If the reader's transaction has ended
    /// since, it does not matter.
    #[inline(always)]
    pub(in super::super) fn has_gap_holders(&self) -> bool {
        // Relaxed, here and below: the partner is the leaf's latch.
        self.gap_holders.load(Ordering::Relaxed) > 0
    }

    /// Counts a transaction that begins to lock gaps.
    pub(in super::super) fn enter_gap_holder(&self) {
        self.gap_holders.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a transaction that has released its gaps.
    pub(in super::super) fn leave_gap_holder(&self) {
        self.gap_holders.fetch_sub(1, Ordering::Relaxed);
    }

    /// Grants a session S on a gap, with its free request `id`; `false` if it has that, from a gap that was
    /// handed on.
    pub(in super::super) fn share_gap(&self, session: u32, name: LockName, id: u32) -> bool {
        let place = self.place(name);
        let _latched = place.bucket.latch.hold();
        let first = self.find(place, name);
        if self.shares(first, session) {
            return false;
        }
        let shared = State { session, granted: Some(Mode::Shared), wanted: None };
        self.enqueue(place, first, name, id, shared);
        true
    }

    /// Whether no other session than `session` holds S on a gap, and whether that one does.
    pub(in super::super) fn gap_holders_of(&self, session: u32, name: LockName) -> (bool, bool) {
        let place = self.place(name);
        let _latched = place.bucket.latch.hold();
        let first = self.find(place, name);
        (!self.is_shared_by_others(first, session), self.shares(first, session))
    }

    /// Asks for IX on a gap with the free request `id`, which stays the session's: `Granted` if it may look
    /// at the gap again, otherwise it is queued.
    pub(in super::super) fn ask_to_enter(&self, session: u32, name: LockName, id: u32) -> Answer {
        let place = self.place(name);
        let _latched = place.bucket.latch.hold();
        let first = self.find(place, name);
        if !self.is_shared_by_others(first, session) {
            return Answer::Granted;
        }
        if !L::WAITS {
            return Answer::Unavailable;
        }
        let asked = State { session, granted: None, wanted: Some(Mode::IntentionExclusive) };
        self.enqueue(place, first, name, id, asked);
        self.sessions.get(session).set_waits_for(Some(name));
        Answer::Waits
    }

    /// Hands what sessions hold on the gap `from` on to `to`, where they hold nothing yet, but for `ending`, whose
    /// transaction ends. The caller has the leaf of `from` alone and that of `to` too.
    #[cold]
    pub(in super::super) fn hand_on(&self, ending: Option<u32>, from: LockName, to: LockName) {
        let (source, target) = (self.place(from), self.place(to));
        let (low, high) = match self.bucket_number(from) <= self.bucket_number(to) {
            true => (source, target),
            false => (target, source),
        };
        let _low = low.bucket.latch.hold();
        let _high = (!std::ptr::eq(low.bucket, high.bucket)).then(|| high.bucket.latch.hold());
        let mut first = self.find(source, from);
        let mut at = first;
        while at != NONE {
            let (request, id) = (self.request(at), at);
            at = request.next.get();
            let state = request.state();
            let to_first = self.find(target, to);
            if state.granted.is_none()
                || Some(state.session) == ending
                || self.shares(to_first, state.session)
            {
                continue;
            }
            first = self.take_out(source, first, id);
            // The queue of `to` may have begun with what is gone from the bucket now.
            let to_first = self.find(target, to);
            self.enqueue(target, to_first, to, id, state);
        }
        // All that wait look again: their gap is another one now, or there is one more to wait for, which
        // may itself wait for them.
        self.let_in(source, first, |_| true);
        self.let_in(target, self.find(target, to), |_| true);
    }

    /// Releases the request `id` of a gap, whatever name it has by now.
    pub(in super::super) fn release_gap(&self, id: u32) {
        let request = self.request(id);
        loop {
            let name = request.name();
            let place = self.place(name);
            let _latched = place.bucket.latch.hold();
            // Names change under the latches of both buckets.
            if request.name() == name {
                return self.leave(place, id);
            }
        }
    }

    /// Lets in what waits in a gap's queue that starts with `first` and is not held up any more.
    pub(super) fn let_pass(&self, place: Place<'_, L>, first: u32) {
        let group = self.request(first).group();
        if group.allows(Mode::IntentionExclusive) {
            return self.let_in(place, first, |_| true);
        }
        // One that is left may be the waiting session's own.
        let mut sharing = self.queue(first).map(|id| self.request(id).state());
        let mut sharing = sharing.by_ref().filter(|state| state.granted.is_some());
        if let (Some(last), None) = (sharing.next(), sharing.next()) {
            self.let_in(place, first, |session| session == last.session);
        }
    }

    /// Lets in those of a gap's waiting sessions that `may` enter.
    fn let_in(&self, place: Place<'_, L>, mut first: u32, may: impl Fn(u32) -> bool) {
        let may_enter = |state: State| state.wanted.is_some() && may(state.session);
        while let Some(id) = self.queue(first).find(|id| may_enter(self.request(*id).state())) {
            let session = self.sessions.get(self.request(id).state().session);
            first = self.take_out(place, first, id);
            session.set_waits_for(None);
            session.parker.unpark(Verdict::Granted);
        }
    }

    /// Whether a session holds S on the gap whose queue starts with `first`.
    fn shares(&self, first: u32, session: u32) -> bool {
        let mut states = self.queue(first).map(|id| self.request(id).state());
        states.any(|state| state.session == session && state.granted.is_some())
    }

    /// Whether another one does.
    fn is_shared_by_others(&self, first: u32, session: u32) -> bool {
        let mut states = self.queue(first).map(|id| self.request(id).state());
        states.any(|state| state.session != session && state.granted.is_some())
    }

    /// Puts the free request `id` behind the others of a gap's queue.
    fn enqueue(&self, place: Place<'_, L>, first: u32, name: LockName, id: u32, state: State) {
        let request = self.request(id);
        request.name.set(name.word());
        request.set_state(state);
        request.next.set(NONE);
        let (head, group) = match first {
            NONE => {
                request.previous.set(id);
                request.below.set(place.first.get());
                place.first.set(id);
                (request, Group(0))
            }
            _ => {
                let head = self.request(first);
                request.previous.set(head.previous.get());
                self.request(head.previous.get()).next.set(id);
                head.previous.set(id);
                (head, head.group())
            }
        };
        head.set_group(match state.granted {
            Some(mode) => group.with(mode),
            None => group.with_waiting(),
        });
    }
}
