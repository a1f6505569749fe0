//! A frame of the buffer pool, and the guards that fix the page in it.
//!
//! ```text
//!            claim (no pins)              link                 unlink (no pins, clean)
//!   EMPTY ────────────────────► OWNED ───────────► RESIDENT ─────────────────────────► OWNED
//!     ▲                           │    ◄───────────
//!     └───────────────────────────┘     unlink (could not be read)
//!               give back
//! ```
//!
//! EMPTY: page = none, pins may be those of threads that waited for a page that could not be read;
//! they see that the page is not theirs, and leave. OWNED: page = none, one pin, one thread.
//! RESIDENT: in its chain of the page table; the page is there once the frame's latch, which its
//! reader holds alone meanwhile, can be had.
//!
//! Invariants: a page is in at most one frame; pins are kept on a RESIDENT frame only; while there is a pin
//! or a latch is held the page stays: it leaves its frame when that has no pins, under its latch. Pin and state share
//! a word: a frame is pinned without the latch of its chain, and what was pinned in another state is let go.
//! Where the latch is free a page is fixed by latching its frame, without a pin, and believing the page's number
//! then. Only a thread that has the frame pinned waits for its latch: it would else wait for another page than
//! its own, out of order. Without latches a guard is a pin.

use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::NonNull;

use super::{ExclusivePage, ReadPage, SharedPage};
use crate::latch::{GuardedU32, GuardedU64, Latching, RawLatch};
use crate::paged::page::{Page, PageId, PageMut, PageSize};
use crate::probe::{self, Counter};
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// No frame, or the end of a chain.
pub(super) const NO_FRAME: u32 = u32::MAX;
/// The page of a frame that holds none. Page 0 never is in a frame.
pub(super) const NO_PAGE: u32 = 0;

/// In the word of pins: no page of the frame may be pinned (EMPTY, OWNED).
const UNUSABLE: u32 = 1 << 31;

/// In the word of usage: the page was used since the clock came by. What is above counts the rounds.
const USED: u32 = 1;
/// How often the clock passes a page that was used in many rounds, and is not any more, before it evicts it.
const ROUNDS_MAX: u32 = 5;

/// What is kept of a frame, besides its page. A cache line each.
#[repr(align(64))]
pub(super) struct Frame<L: Latching> {
    /// Protects the page's bytes.
    pub(super) latch: L::Latch,
    /// Guards and pinned rows, and [`UNUSABLE`].
    pins: AtomicU32,
    /// The page in the frame.
    pub(super) page: GuardedU32,
    /// The next frame of the chain.
    pub(super) next: GuardedU32,
    /// In how many rounds of the clock it was used, less those in which it was not; and [`USED`].
    usage: GuardedU32,
    /// Whether the page differs from the one in the file.
    dirty: GuardedU32,
    /// How often its pages were found in it.
    hits: GuardedU64,
    /// At most the LSN of the first change that the file may not have; [`CLEAN`] if it has all.
    recovery_lsn: AtomicU64,
}

/// No change is missing in the file.
pub(super) const CLEAN: u64 = u64::MAX;

impl<L: Latching> Frame<L> {
    pub(super) fn empty() -> Self {
        Self {
            latch: L::Latch::default(),
            pins: AtomicU32::new(UNUSABLE),
            page: GuardedU32::new(NO_PAGE),
            next: GuardedU32::new(NO_FRAME),
            usage: GuardedU32::new(0),
            dirty: GuardedU32::new(0),
            hits: GuardedU64::new(0),
            recovery_lsn: AtomicU64::new(CLEAN),
        }
    }

    /// Pins the frame, which holds a page. Called under the latch of its chain or its own.
    #[inline(always)]
    pub(super) fn pin(&self) -> FramePin<'_, L> {
        self.try_pin().expect("a frame in its chain holds a page")
    }

    /// Pins the frame if it holds a page, whichever that is.
    #[inline(always)]
    pub(super) fn try_pin(&self) -> Option<FramePin<'_, L>> {
        let before = if L::WAITS {
            // Acquire: partner of the Release in `make_usable`: the page's number is known.
            self.pins.fetch_add(1, Ordering::Acquire)
        } else {
            let pins = self.pins.load(Ordering::Relaxed);
            self.pins.store(pins + 1, Ordering::Relaxed);
            pins
        };
        let pin = FramePin { frame: self };
        (before & UNUSABLE == 0).then_some(pin)
    }

    /// Pins a frame that holds a page and is not pinned; no other thread pins it before [`Frame::make_usable`].
    pub(super) fn claim(&self) -> Option<FramePin<'_, L>> {
        self.claim_from(0)
    }

    /// Pins a frame that is not pinned and holds no page.
    pub(super) fn claim_empty(&self) -> Option<FramePin<'_, L>> {
        if self.page.get() != NO_PAGE {
            return None;
        }
        let pin = self.claim_from(UNUSABLE)?;
        debug_assert_eq!(self.page.get(), NO_PAGE);
        Some(pin)
    }

    fn claim_from(&self, state: u32) -> Option<FramePin<'_, L>> {
        // Acquire: partner of the Release in `FramePin::drop`: the frame's last user is through.
        // Relaxed on failure: nothing was taken.
        let claimed = UNUSABLE | 1;
        self.pins.compare_exchange(state, claimed, Ordering::Acquire, Ordering::Relaxed).ok()?;
        Some(FramePin { frame: self })
    }

    /// Lets threads pin the page in a frame that was claimed. Called under the latch of its chain.
    pub(super) fn make_usable(&self) {
        // Release: partner of the Acquire in `try_pin`.
        self.pins.fetch_and(!UNUSABLE, Ordering::Release);
    }

    /// Makes a frame one without a page, which others may have pinned. Called under the latch of its chain and
    /// its own.
    pub(super) fn make_empty(&self) {
        self.page.set(NO_PAGE);
        // Release: partner of the Acquire in `claim_from`, which looks at the page's number afterwards.
        self.pins.fetch_or(UNUSABLE, Ordering::Release);
    }

    /// Whether its page is fixed, or a row of it pinned.
    pub(super) fn is_in_use(&self) -> bool {
        self.pins() > 0 || L::WAITS && self.latch.try_exclusive().is_none()
    }

    /// How many pins there are.
    #[inline(always)]
    pub(super) fn pins(&self) -> u32 {
        // Acquire: partner of the Release in `FramePin::drop`: a thread that sees that a row is no
        // longer pinned may overwrite it.
        self.pins.load(Ordering::Acquire) & !UNUSABLE
    }

    /// Whether it holds page `id`, which is a use of it. Its latch is held.
    #[inline(always)]
    pub(super) fn is_of(&self, id: PageId) -> bool {
        let is_of = self.page.get() == id.0;
        if is_of {
            self.count_hit();
        }
        is_of
    }

    /// Counts that its page was found, and a use; an update lost to another thread does no harm.
    #[inline(always)]
    pub(super) fn count_hit(&self) {
        self.use_once();
        self.hits.set(self.hits.get() + 1);
    }

    pub(super) fn hits(&self) -> u64 {
        self.hits.get()
    }

    /// Notes a use: a scan that finds a page once for each row uses it once. An update lost to another thread does
    /// no harm.
    #[inline(always)]
    pub(super) fn use_once(&self) {
        let usage = self.usage.get();
        if usage & USED == 0 {
            self.usage.set(usage | USED);
        }
    }

    /// Notes that a page was brought in, which is the one use that most pages of a scan have.
    pub(super) fn begin_rounds(&self) {
        self.usage.set(1 << 1);
    }

    /// Ends a round of the clock; says in how many the page was used.
    pub(super) fn end_round(&self) -> u32 {
        let usage = self.usage.get();
        let before = usage >> 1;
        let rounds = if usage & USED > 0 { before + 1 } else { before };
        let after =
            if usage & USED > 0 { rounds.min(ROUNDS_MAX) } else { before.saturating_sub(1) };
        self.usage.set(after << 1);
        rounds
    }

    /// Whether it was used lately, in numbers: 0 if it was not.
    pub(super) fn uses(&self) -> u32 {
        self.usage.get()
    }

    /// Takes all uses back.
    pub(super) fn forget_uses(&self) {
        self.usage.set(0);
    }

    pub(super) fn is_dirty(&self) -> bool {
        self.dirty.get() != 0
    }

    /// Says whether the page differs from the file: `true` under the exclusive latch, or again of a page that
    /// could not be written; `false` under any.
    #[inline(always)]
    pub(super) fn set_dirty(&self, dirty: bool) {
        self.dirty.set(u32::from(dirty));
    }

    // Relaxed, all three: a change takes its positions in the log by an exchange of the log's tail, and a
    // checkpoint exchanges the tail, too, before it looks here.

    /// Says that changes logged from `lsn` on may be missing in the file.
    #[cold]
    pub(super) fn note_recovery(&self, lsn: u64) {
        self.recovery_lsn.fetch_min(lsn, Ordering::Relaxed);
    }

    /// From which LSN on changes may be missing in the file.
    pub(super) fn recovery_lsn(&self) -> u64 {
        self.recovery_lsn.load(Ordering::Relaxed)
    }

    /// Whether changes logged before `lsn` may be missing in the file; with [`CLEAN`], any.
    pub(super) fn is_older(&self, lsn: u64) -> bool {
        self.is_dirty() && lsn == CLEAN || self.recovery_lsn() < lsn
    }

    /// Says that the page is as the file has it, or is about to; no thread holds it alone.
    pub(super) fn set_clean(&self) {
        self.set_dirty(false);
        self.recovery_lsn.store(CLEAN, Ordering::Relaxed);
    }
}

/// Keeps a page in its frame.
pub(super) struct FramePin<'a, L: Latching> {
    frame: &'a Frame<L>,
}

impl<'a, L: Latching> FramePin<'a, L> {
    #[inline(always)]
    pub(super) fn frame(&self) -> &'a Frame<L> {
        self.frame
    }

    /// The frame for a guard, which has its latch.
    #[inline(always)]
    pub(super) fn latched(self) -> FixedFrame<'a, L> {
        let frame = self.frame;
        if !L::WAITS {
            std::mem::forget(self);
        }
        FixedFrame { frame }
    }
}

/// What keeps a page in its frame for a guard besides the frame's latch: a pin where there are no latches.
pub(super) struct FixedFrame<'a, L: Latching> {
    frame: &'a Frame<L>,
}

impl<'a, L: Latching> FixedFrame<'a, L> {
    /// Of a frame whose latch is held.
    #[inline(always)]
    pub(super) fn by_latch(frame: &'a Frame<L>) -> Self {
        assert!(L::WAITS, "without latches a page is fixed by a pin");
        Self { frame }
    }

    #[inline(always)]
    pub(super) fn frame(&self) -> &'a Frame<L> {
        self.frame
    }
}

impl<L: Latching> Drop for FixedFrame<'_, L> {
    #[inline(always)]
    fn drop(&mut self) {
        if !L::WAITS {
            drop(FramePin { frame: self.frame });
        }
    }
}

impl<L: Latching> Drop for FramePin<'_, L> {
    #[inline(always)]
    fn drop(&mut self) {
        let pins = &self.frame.pins;
        // Release: partner of the Acquires in `pins` and `claim`.
        if L::WAITS {
            let before = pins.fetch_sub(1, Ordering::Release);
            debug_assert!(before & !UNUSABLE > 0);
        } else {
            pins.store(pins.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
        }
    }
}

/// A page of a buffer pool, held together with other readers.
pub struct SharedFrame<'a, S: PageSize, L: Latching> {
    pub(super) latch: <L::Latch as RawLatch>::Shared<'a>,
    pub(super) fixed: FixedFrame<'a, L>,
    pub(super) base: NonNull<u8>,
    pub(super) size: PhantomData<S>,
}

impl<S: PageSize, L: Latching> ReadPage for SharedFrame<'_, S, L> {
    type Size = S;

    #[inline(always)]
    fn page(&self) -> Page<'_, S> {
        // SAFETY: (1) the frame's memory outlives the guard and holds a page that was verified when
        // it was read or formatted; the latch, or without latches the pin, keeps it there. (2) The latch keeps
        // writers out.
        unsafe { Page::new(self.base) }
    }
}

impl<'a, S: PageSize, L: Latching> SharedPage for SharedFrame<'a, S, L> {
    type Pin = PinnedRecord<'a, L>;

    #[inline(always)]
    fn pin(self, slot: u16) -> Option<PinnedRecord<'a, L>> {
        let bytes = NonNull::from(self.page().record(slot)?);
        probe::count(Counter::Pins, 1);
        // Under the latch, without which the page may go.
        Some(PinnedRecord { bytes, _pin: self.fixed.frame.pin() })
    }
}

/// A page of a buffer pool, held alone.
pub struct ExclusiveFrame<'a, S: PageSize, L: Latching> {
    // Read by no one: held to be dropped.
    pub(super) _latch: <L::Latch as RawLatch>::Exclusive<'a>,
    pub(super) fixed: FixedFrame<'a, L>,
    pub(super) base: NonNull<u8>,
    pub(super) size: PhantomData<S>,
}

impl<S: PageSize, L: Latching> ReadPage for ExclusiveFrame<'_, S, L> {
    type Size = S;

    #[inline(always)]
    fn page(&self) -> Page<'_, S> {
        // SAFETY: as in `SharedFrame`; `&self` keeps this guard's own writes out.
        unsafe { Page::new(self.base) }
    }
}

impl<S: PageSize, L: Latching> ExclusivePage for ExclusiveFrame<'_, S, L> {
    #[inline(always)]
    fn page_mut(&mut self) -> PageMut<'_, S> {
        self.fixed.frame.set_dirty(true);
        // SAFETY: as in `SharedFrame`, and the latch is held alone; without latches there is one
        // thread, and it fixes no page twice at a time unless to read it (as with latches, where it
        // would wait for itself).
        unsafe { PageMut::new(self.base) }
    }

    #[inline]
    fn is_alone(&self) -> bool {
        self.fixed.frame.pins() == u32::from(!L::WAITS)
    }

    fn lacks_since(&mut self, lsn: u64) {
        self.fixed.frame.note_recovery(lsn);
    }
}

/// A record of a page that stays where it is; other records of the page may change meanwhile.
pub struct PinnedRecord<'a, L: Latching> {
    bytes: NonNull<[u8]>,
    _pin: FramePin<'a, L>,
}

impl<L: Latching> Deref for PinnedRecord<'_, L> {
    type Target = [u8];

    #[inline(always)]
    fn deref(&self) -> &[u8] {
        // SAFETY: the pin keeps the page in its frame; its records do not move while another guard
        // has it pinned (`is_alone`), and this one does not change because its reader has locked
        // the row (the head of page.rs).
        unsafe { self.bytes.as_ref() }
    }
}
