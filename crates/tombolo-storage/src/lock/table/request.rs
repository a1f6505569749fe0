//! One transaction's place in the queue of one lock: what it holds and wants, in one word, and its
//! neighbours.

use super::super::group::Group;
use super::super::mode::Mode;
use super::super::name::LockName;
use crate::latch::{GuardedU32, GuardedU64};
use crate::sync::{AtomicU32, Ordering};

/// What a request holds and wants; one word in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct State {
    pub(in super::super) session: u32,
    pub(in super::super) granted: Option<Mode>,
    pub(in super::super) wanted: Option<Mode>,
}

const NO_MODE: u32 = Mode::ALL.len() as u32;
/// In a state's word: it excludes a waiting request, or may.
pub(super) const CONTENDED: u32 = 1 << 8;
/// Granted to no transaction, but to the next one of its session that wants it.
pub(super) const KEPT: u32 = 1 << 9;
/// Neither granted nor wanted any more: what becomes of a kept request that is taken out.
pub(super) const TAKEN: u32 = NO_MODE << 4 | NO_MODE;

impl State {
    #[inline(always)]
    pub(super) fn word(self) -> u32 {
        let code = |mode: Option<Mode>| mode.map_or(NO_MODE, |mode| mode as u32);
        self.session << 16 | code(self.wanted) << 4 | code(self.granted)
    }

    /// Whether what is granted excludes `wanted`.
    pub(super) fn excludes(self, wanted: Option<Mode>) -> bool {
        let (Some(granted), Some(wanted)) = (self.granted, wanted) else { return false };
        !granted.compatible(wanted)
    }

    #[inline]
    pub(super) fn from_word(word: u32) -> Self {
        let mode = |code: u32| Mode::ALL.get(code as usize & 0xF).copied();
        Self { session: word >> 16, granted: mode(word), wanted: mode(word >> 4) }
    }
}

/// One transaction's place in the queue of one lock.
#[derive(Debug)]
#[repr(align(32))]
pub(in super::super) struct Request {
    pub(super) name: GuardedU64,
    /// Of the first in a queue: the granted group.
    pub(super) group: GuardedU64,
    /// Changed under the latch, but for KEPT, which the session sets and clears without it.
    pub(super) state: AtomicU32,
    /// The next in the queue, or in the common chain of free requests.
    pub(super) next: GuardedU32,
    /// The one before in the queue; of the first, the last.
    pub(super) previous: GuardedU32,
    /// Of the first in a queue: the first of the next queue of the bucket.
    pub(super) below: GuardedU32,
}

const _: () = assert!(size_of::<Request>() == 32 || cfg!(any(loom, shuttle)));

impl Request {
    #[inline]
    pub(in super::super) fn state(&self) -> State {
        State::from_word(self.word())
    }

    /// The state's word with its marks.
    #[inline(always)]
    pub(super) fn word(&self) -> u32 {
        // Relaxed: under the latch its partner is the latch's; without it, a guess to be exchanged.
        self.state.load(Ordering::Relaxed)
    }

    pub(in super::super) fn is_kept(&self) -> bool {
        self.word() & KEPT != 0
    }

    /// Replaces the word if it still stands.
    #[inline(always)]
    pub(super) fn exchange(&self, word: u32, next: u32) -> bool {
        // Release: partner of the Acquire of a session that takes the request out, and sees all that
        // was done under the lock. Acquire: the other way round. Relaxed on failure: nothing is known.
        self.state.compare_exchange(word, next, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    #[inline]
    pub(in super::super) fn name(&self) -> LockName {
        LockName::from_word(self.name.get())
    }

    /// The granted group, of the first in a queue.
    #[inline(always)]
    pub(in super::super) fn group(&self) -> Group {
        Group(self.group.get())
    }

    #[inline(always)]
    pub(super) fn set_group(&self, group: Group) {
        self.group.set(group.0);
    }

    #[inline(always)]
    pub(super) fn set_state(&self, state: State) {
        self.set_word(state.word());
    }

    /// The same for a request of a queue whose group this is: if requests wait there, it is marked CONTENDED.
    pub(super) fn set_state_in(&self, state: State, group: Group) {
        self.set_word(state.word() | if group.waits() { CONTENDED } else { 0 });
    }

    #[inline(always)]
    pub(super) fn set_word(&self, word: u32) {
        // Relaxed: as in `word`, under the latch, and the request is not marked KEPT: its session
        // does not change the word meanwhile.
        self.state.store(word, Ordering::Relaxed);
    }
}
