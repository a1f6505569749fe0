//! The ring between sessions and the log file: published to under one latch, drained by one flusher.
//!
//! ```text
//!        drained              being drained        published              free
//!   ┌───────────────────┬─────────────────────┬────────────────┬─────────────────────┐
//!   │ may be overwritten│ read without latch  │                │ may be overwritten  │
//!   └───────────────────┴─────────────────────┴────────────────┴─────────────────────┘
//!                       ▲ ring limit − capacity                ▲ tail                ▲ ring limit
//! ```
//!
//! A position is an LSN; its byte lies at position modulo capacity. Publishing takes the next
//! positions, stamps the record with them and copies it: once, under the latch. Whole records only,
//! so every position the tail ever had is the end of a record.
//!
//! Space in the file is promised here too, because it has to be promised in the same step:
//! `tail + reserved ≤ file limit`, where `reserved` is what transactions need to end (their
//! compensations and their last record). A full disk stops changes, never an abort or a commit.
//!
//! Without a file the ring is recycled: its limits are infinite and nothing is ever drained.
//!
//! Soundness. No thread writes the bytes from the ring limit − capacity up to the tail: publishing
//! writes from the tail up to the ring limit only, and only a [`Drain`] moves the ring limit, of
//! which there is one at a time. Everything else happens under the latch. Where engines have no
//! latches there is one thread at a time, but the type alone could not say so: the pool holds a
//! handle of the log too. So this is verified, at the cost of an exchange and a store
//! ([`SoleUser`]).
//!
//! Not here: files, waiting, what is in a record but its checksum.

use std::cell::Cell;
use std::marker::PhantomData;
use std::ptr::NonNull;

use super::record;
use crate::latch::{ExclusiveGuard, GuardedU64, Latching, RawLatch, SharedExclusiveLatch};
use crate::sync::{AtomicBool, Ordering};

/// Keeps the ring's users apart: with latches they wait, without there must be one at a time.
#[derive(Debug)]
struct RingLatch<L> {
    latch: SharedExclusiveLatch,
    sole_user: SoleUser,
    marker: PhantomData<L>,
}

/// Holds the ring's latch. Which of the two is known at compile time.
#[derive(Debug)]
#[expect(dead_code, reason = "what they are for is being dropped")]
enum RingGuard<'a> {
    Latched(ExclusiveGuard<'a>),
    Alone(Alone<'a>),
}

impl<L: Latching> RingLatch<L> {
    fn new() -> Self {
        let (latch, sole_user) = (SharedExclusiveLatch::default(), SoleUser::default());
        Self { latch, sole_user, marker: PhantomData }
    }

    #[inline(always)]
    fn hold(&self) -> RingGuard<'_> {
        match L::WAITS {
            true => RingGuard::Latched(self.latch.exclusive()),
            false => RingGuard::Alone(self.sole_user.enter()),
        }
    }
}

/// Verifies that no other thread is in the ring, and never waits.
#[derive(Debug, Default)]
struct SoleUser {
    is_entered: AtomicBool,
}

/// Is alone.
#[derive(Debug)]
struct Alone<'a>(&'a SoleUser);

impl SoleUser {
    #[inline(always)]
    fn enter(&self) -> Alone<'_> {
        // Acquire: partner of the Release in `Alone::drop`.
        let is_entered = self.is_entered.swap(true, Ordering::Acquire);
        assert!(!is_entered, "a log without latches is used by two threads at once");
        Alone(self)
    }
}

impl Drop for Alone<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        // Release: partner of the Acquire in `SoleUser::enter`.
        self.0.is_entered.store(false, Ordering::Release);
    }
}

/// What publishing a record demands and changes besides its bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Claim {
    /// What its transaction had reserved of the file, in bytes.
    pub(super) reserved_before: u64,
    /// What it has reserved afterwards.
    pub(super) reserved_after: u64,
    /// What must be left of the file besides, in bytes.
    pub(super) left: u64,
    /// How many transactions it commits.
    pub(super) commits: u64,
    /// How many it ends otherwise.
    pub(super) aborts: u64,
}

/// Why a record could not be published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Full {
    /// The ring has no room before this position is drained, or rather what ends there.
    Ring {
        /// The tail.
        tail: u64,
    },
    /// The file must be promised up to this position first.
    File {
        /// The position.
        needed: u64,
    },
}

/// What was published so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Published {
    pub(super) records: u64,
    pub(super) bytes: u64,
    pub(super) commits: u64,
    pub(super) aborts: u64,
}

/// The ring. See the head of this file.
#[derive(Debug)]
pub(super) struct Ring<L> {
    latch: RingLatch<L>,
    /// The position of the newest record that commits a transaction; 0 for none.
    newest_commit: GuardedU64,
    control: Control,
    base: NonNull<u8>,
    /// A power of two.
    capacity: usize,
    #[cfg(loom)]
    watched: Vec<loom::cell::UnsafeCell<()>>,
}

/// What only the latch's holder touches.
#[derive(Debug)]
struct Control {
    tail: Cell<u64>,
    ring_limit: Cell<u64>,
    file_limit: Cell<u64>,
    reserved: Cell<u64>,
    is_drained: Cell<bool>,
    /// The position of the first record.
    first: u64,
    records: Cell<u64>,
    commits: Cell<u64>,
    aborts: Cell<u64>,
}

// SAFETY: (1) `control` is touched under `latch` only, which excludes and orders with any `L`;
// its cells hold numbers. (2) The memory behind `base` belongs to the ring alone and is written
// under the latch, in places that, as the head of this file says, no thread reads.
unsafe impl<L: Latching> Sync for Ring<L> {}
// SAFETY: as above; nothing in it belongs to a thread.
unsafe impl<L: Latching> Send for Ring<L> {}

/// How finely loom watches the ring's memory, in bytes.
#[cfg(loom)]
const WATCHED_BYTES: usize = record::ALIGNMENT_BYTES;

impl<L: Latching> Ring<L> {
    /// A ring of `capacity` bytes that begins at position `first`. It is recycled unless it has a
    /// file, which is promised up to `file_limit`.
    ///
    /// # Panics
    /// When `capacity` is not a power of two.
    pub(super) fn new(capacity: usize, first: u64, file_limit: Option<u64>) -> Self {
        assert!(capacity.is_power_of_two() && capacity >= record::HEADER_BYTES);
        assert!(first > 0 && first.is_multiple_of(record::ALIGNMENT_BYTES as u64));
        let memory = Box::into_raw(vec![0_u8; capacity].into_boxed_slice());
        let (ring_limit, file_limit) = match file_limit {
            Some(limit) => (first + capacity as u64, limit),
            None => (u64::MAX, u64::MAX),
        };
        Self {
            latch: RingLatch::new(),
            newest_commit: GuardedU64::new(0),
            control: Control {
                tail: Cell::new(first),
                ring_limit: Cell::new(ring_limit),
                file_limit: Cell::new(file_limit),
                reserved: Cell::new(0),
                is_drained: Cell::new(false),
                first,
                records: Cell::new(0),
                commits: Cell::new(0),
                aborts: Cell::new(0),
            },
            base: NonNull::new(memory.cast()).unwrap_or(NonNull::dangling()),
            capacity,
            #[cfg(loom)]
            watched: (0..capacity.div_ceil(WATCHED_BYTES))
                .map(|_| loom::cell::UnsafeCell::new(()))
                .collect(),
        }
    }

    /// Publishes the record that `record` holds, together with `image` where that is its last part;
    /// says at which position, with which the record is stamped.
    ///
    /// # Errors
    /// When there is no room; nothing happened then.
    #[inline(always)]
    pub(super) fn publish(
        &self,
        record: &mut [u8],
        image: &[u8],
        claim: Claim,
    ) -> Result<u64, Full> {
        let bytes = record.len() + image.len();
        debug_assert!(bytes.is_multiple_of(record::ALIGNMENT_BYTES) && bytes <= self.capacity);
        let _held = self.latch.hold();
        let control = &self.control;
        let tail = control.tail.get();
        let end = tail + bytes as u64;
        let reserved = control.reserved.get() - claim.reserved_before + claim.reserved_after;
        let needed = end + reserved + claim.left;
        if needed > control.file_limit.get() {
            return Err(Full::File { needed });
        }
        if end > control.ring_limit.get() {
            return Err(Full::Ring { tail });
        }
        record::stamp(record, tail);
        // SAFETY: the latch is held and [tail, end) lies below the ring limit.
        unsafe { self.copy_in(tail, record) };
        if !image.is_empty() {
            // SAFETY: as above.
            unsafe { self.copy_in(tail + record.len() as u64, image) };
        }
        control.tail.set(end);
        control.reserved.set(reserved);
        control.records.update(|records| records + 1);
        if claim.commits > 0 {
            self.newest_commit.set(tail);
            control.commits.update(|commits| commits + claim.commits);
        }
        if claim.aborts > 0 {
            control.aborts.update(|aborts| aborts + claim.aborts);
        }
        Ok(tail)
    }

    /// Sets space of the file aside without publishing anything.
    ///
    /// # Errors
    /// When there is no room; nothing happened then.
    pub(super) fn reserve(&self, claim: Claim) -> Result<(), Full> {
        let _held = self.latch.hold();
        let Control { tail, reserved, file_limit, .. } = &self.control;
        let after = reserved.get() - claim.reserved_before + claim.reserved_after;
        let needed = tail.get() + after;
        if needed > file_limit.get() {
            return Err(Full::File { needed });
        }
        reserved.set(after);
        Ok(())
    }

    /// Copies `bytes` to `position` and on.
    ///
    /// # Safety
    /// (1) The latch is held. (2) The positions lie from the tail up to the ring limit.
    #[inline(always)]
    unsafe fn copy_in(&self, position: u64, bytes: &[u8]) {
        let at = position as usize & (self.capacity - 1);
        let first = bytes.len().min(self.capacity - at);
        let (here, there) = bytes.split_at(first);
        #[cfg(loom)]
        self.watch(position, bytes.len(), |cell| cell.with_mut(|_| ()));
        // SAFETY: `at + first` is at most the capacity; by (1) and (2) no other thread reads or
        // writes these bytes, and `bytes` is a caller's, never the ring's.
        unsafe { self.base.add(at).copy_from_nonoverlapping(NonNull::from(here).cast(), first) };
        if !there.is_empty() {
            // SAFETY: as above; what is left is shorter than the capacity.
            unsafe {
                self.base.copy_from_nonoverlapping(NonNull::from(there).cast(), there.len());
            }
        }
    }

    #[cfg(loom)]
    fn watch(&self, position: u64, bytes: usize, touch: impl Fn(&loom::cell::UnsafeCell<()>)) {
        let from = position as usize / WATCHED_BYTES;
        let to = (position as usize + bytes).div_ceil(WATCHED_BYTES);
        (from..to).for_each(|cell| touch(&self.watched[cell % self.watched.len()]));
    }

    /// Takes what is published and not drained, up to `end` at most, to be written. Only one may
    /// drain at a time; a ring that is recycled has nothing to drain.
    ///
    /// # Panics
    /// When another drain is under way.
    pub(super) fn drain(&self, end: u64) -> Drain<'_, L> {
        let _held = self.latch.hold();
        let control = &self.control;
        assert!(!control.is_drained.replace(true), "two flushers at once");
        let (tail, limit) = (control.tail.get(), control.ring_limit.get());
        let is_recycled = limit == u64::MAX;
        let from = if is_recycled { tail } else { limit - self.capacity as u64 };
        let to = tail.min(end).max(from);
        Drain { ring: self, from, to }
    }

    /// Promises the file up to `limit`, unless the ring is shut.
    pub(super) fn promise_file(&self, limit: u64) {
        let _held = self.latch.hold();
        let file_limit = &self.control.file_limit;
        if file_limit.get() > 0 {
            file_limit.set(limit);
        }
    }

    /// Promises the file up to `limit`, and no further, if that is enough for all that is promised already
    /// and `left` bytes; says whether it is.
    pub(super) fn lower_file(&self, limit: u64, left: u64) -> bool {
        let _held = self.latch.hold();
        let Control { tail, reserved, file_limit, .. } = &self.control;
        let is_enough = tail.get() + reserved.get() + left <= limit;
        if is_enough && file_limit.get() > 0 {
            file_limit.set(limit);
        }
        is_enough
    }

    /// Gives back what a transaction had reserved of the file.
    pub(super) fn give_back(&self, bytes: u64) {
        if bytes > 0 {
            let _held = self.latch.hold();
            let reserved = &self.control.reserved;
            reserved.set(reserved.get() - bytes);
        }
    }

    /// Lets nothing be published any more.
    pub(super) fn shut(&self) {
        let _held = self.latch.hold();
        self.control.file_limit.set(0);
    }

    /// The end of what is published.
    pub(super) fn tail(&self) -> u64 {
        let _held = self.latch.hold();
        self.control.tail.get()
    }

    /// The position of the newest record that commits a transaction; 0 for none. At least that of
    /// every transaction whose changes the caller has seen.
    pub(super) fn newest_commit(&self) -> u64 {
        self.newest_commit.get()
    }

    /// What was published so far.
    pub(super) fn published(&self) -> Published {
        let _held = self.latch.hold();
        let Control { tail, first, records, commits, aborts, .. } = &self.control;
        Published {
            records: records.get(),
            bytes: tail.get() - first,
            commits: commits.get(),
            aborts: aborts.get(),
        }
    }

    /// Bytes of memory.
    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }
}

impl<L> Drop for Ring<L> {
    fn drop(&mut self) {
        let memory = std::ptr::slice_from_raw_parts_mut(self.base.as_ptr(), self.capacity);
        // SAFETY: made by `Box::into_raw` in `new` and given back once.
        drop(unsafe { Box::from_raw(memory) });
    }
}

/// The bytes being written: no thread overwrites them as long as this lives.
#[derive(Debug)]
pub(super) struct Drain<'a, L: Latching> {
    ring: &'a Ring<L>,
    from: u64,
    to: u64,
}

impl<L: Latching> Drain<'_, L> {
    /// The position where it begins.
    pub(super) fn from(&self) -> u64 {
        self.from
    }

    /// The position where it ends.
    pub(super) fn to(&self) -> u64 {
        self.to
    }

    /// Its bytes, in two parts where they go around the ring's end.
    pub(super) fn parts(&self) -> [&[u8]; 2] {
        let bytes = (self.to - self.from) as usize;
        let at = self.from as usize & (self.ring.capacity - 1);
        let first = bytes.min(self.ring.capacity - at);
        #[cfg(loom)]
        self.ring.watch(self.from, bytes, |cell| cell.with(|_| ()));
        // SAFETY: both parts lie inside the ring's memory. They are published and not drained, so
        // no thread writes them before `finish`, which takes the borrow's owner.
        unsafe {
            [
                std::slice::from_raw_parts(self.ring.base.add(at).as_ptr(), first),
                std::slice::from_raw_parts(self.ring.base.as_ptr(), bytes - first),
            ]
        }
    }

    /// Says that all of it is durable: it may be overwritten.
    pub(super) fn finish(self) {
        let _held = self.ring.latch.hold();
        let limit = &self.ring.control.ring_limit;
        if self.to > self.from {
            limit.set(self.to + self.ring.capacity as u64);
        }
    }
}

impl<L: Latching> Drop for Drain<'_, L> {
    fn drop(&mut self) {
        let _held = self.ring.latch.hold();
        self.ring.control.is_drained.set(false);
    }
}
