//! The ring between sessions and the log file: filled by all sessions concurrently, drained by one flusher.
//!
//! ```text
//!        drained              being drained        published    being copied   free
//!   ┌───────────────────┬─────────────────────┬────────────────┬────────────┬────────────┐
//!   │ may be overwritten│ read                │                │            │            │
//!   └───────────────────┴─────────────────────┴────────────────┴────────────┴────────────┘
//!                       ▲ ring limit − capacity                             ▲ tail       ▲ ring limit
//! ```
//!
//! A position is an LSN; its byte lies at position modulo capacity. Publishing takes the next
//! positions by one exchange of the tail and copies the record there. Whole records only,
//! so every position the tail ever had is the end of a record. Before a session takes positions, it publishes in a
//! cache line of its own the position from which on it may be copying ([`Copying`]), and afterwards that it has
//! finished: a drain waits until no session copies into the part that it writes. Sessions never wait for each other.
//!
//! Space in the file is promised here too: `promised + left ≤ file limit`, where `promised` is the tail and
//! what transactions need to end (their compensations and their last record). A full disk stops changes,
//! never an abort or a commit. A session counts its promise first and takes it back if the limit does not allow it; a
//! flush lowers the limit first and raises it again if it is less than the promises. So at least one of the two sees
//! the other.
//!
//! Without a file nothing is written: what is published counts as drained when the ring is full.
//!
//! Soundness. Positions are taken once, by the exchange, so two sessions never write the same bytes as long
//! as they are less than a capacity apart. The bytes from the ring limit − capacity up to the tail are not
//! overwritten: positions are taken below the ring limit only, and only a drain moves that, of
//! which there is one at a time, when no session copies and no thread reads what lies before.
//!
//! Not here: files, what is in a record.

use std::ptr::NonNull;

use super::record;
use crate::latch::GuardedU64;
use crate::sync::{Arc, AtomicBool, AtomicU64, Mutex, MutexGuard, Ordering, Spin, fence, give_way};

/// In [`Copying::from`]: nothing is copied.
const NOTHING: u64 = u64::MAX;

/// What one session is copying, and what it has published. A cache line each.
#[derive(Debug)]
#[repr(align(64))]
struct Copying {
    /// At most the position of what is being copied.
    from: AtomicU64,
    records: GuardedU64,
    commits: GuardedU64,
    aborts: GuardedU64,
}

/// What a session publishes with: one record at a time.
#[derive(Debug)]
pub(super) struct Publisher(Arc<Copying>);

/// What publishing a record, or several at once, demands and changes besides their bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Claim {
    /// What its transaction had reserved of the file, in bytes.
    pub(super) reserved_before: u64,
    /// What it has reserved afterwards.
    pub(super) reserved_after: u64,
    /// What must be left of the file besides, in bytes.
    pub(super) left: u64,
    /// How many records it is besides the first.
    pub(super) more: u64,
    /// How many transactions it commits.
    pub(super) commits: u64,
    /// How many it ends otherwise.
    pub(super) aborts: u64,
}

impl Claim {
    /// By how much publishing `bytes` bytes raises what is promised; wraps where it lowers that.
    #[inline(always)]
    const fn change(self, bytes: u64) -> u64 {
        (bytes + self.reserved_after).wrapping_sub(self.reserved_before)
    }
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

/// What sessions change together when they publish a record: one cache line, which each of them has to itself then.
#[derive(Debug)]
#[repr(align(64))]
struct Ends {
    tail: AtomicU64,
    /// The tail, and what transactions have reserved; not counted without a file.
    promised: AtomicU64,
    /// The position of the newest record that commits a transaction; 0 for none.
    newest_commit: AtomicU64,
}

/// The ring. See the head of this file.
#[derive(Debug)]
pub(super) struct Ring {
    ends: Ends,
    ring_limit: AtomicU64,
    /// 0 once the ring is shut.
    file_limit: AtomicU64,
    has_file: bool,
    is_drained: AtomicBool,
    /// All sessions that ever were; those that ended are used again.
    copying: Mutex<Vec<Arc<Copying>>>,
    /// For what belongs to no session.
    common: Mutex<Publisher>,
    /// The position of the first record.
    first: u64,
    base: NonNull<u8>,
    /// A power of two.
    capacity: usize,
    #[cfg(loom)]
    watched: Vec<loom::cell::UnsafeCell<()>>,
}

// SAFETY: the memory behind `base` belongs to the ring alone and is written and read in places and at times
// that, as the head of this file says, are apart. All else is `Sync` by itself.
unsafe impl Sync for Ring {}
// SAFETY: as above; nothing in it belongs to a thread.
unsafe impl Send for Ring {}

/// How finely loom watches the ring's memory, in bytes.
#[cfg(loom)]
const WATCHED_BYTES: usize = record::ALIGNMENT_BYTES;

impl Copying {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            from: AtomicU64::new(NOTHING),
            records: GuardedU64::new(0),
            commits: GuardedU64::new(0),
            aborts: GuardedU64::new(0),
        })
    }
}

impl Ring {
    /// A ring of `capacity` bytes that begins at position `first`. It is never full unless it has a
    /// file, which is promised up to `file_limit`.
    ///
    /// # Panics
    /// When `capacity` is not a power of two.
    pub(super) fn new(capacity: usize, first: u64, file_limit: Option<u64>) -> Self {
        assert!(capacity.is_power_of_two() && capacity >= record::END_BYTES);
        assert!(first > 0 && first.is_multiple_of(record::ALIGNMENT_BYTES as u64));
        let memory = Box::into_raw(vec![0_u8; capacity].into_boxed_slice());
        let common = Copying::new();
        Self {
            ends: Ends {
                tail: AtomicU64::new(first),
                promised: AtomicU64::new(first),
                newest_commit: AtomicU64::new(0),
            },
            ring_limit: AtomicU64::new(first + capacity as u64),
            file_limit: AtomicU64::new(file_limit.unwrap_or(u64::MAX)),
            has_file: file_limit.is_some(),
            is_drained: AtomicBool::new(false),
            copying: Mutex::new(vec![Arc::clone(&common)]),
            common: Mutex::new(Publisher(common)),
            first,
            base: NonNull::new(memory.cast()).unwrap_or(NonNull::dangling()),
            capacity,
            #[cfg(loom)]
            watched: (0..capacity.div_ceil(WATCHED_BYTES))
                .map(|_| loom::cell::UnsafeCell::new(()))
                .collect(),
        }
    }

    /// What a session publishes with.
    #[cold]
    pub(super) fn publisher(&self) -> Publisher {
        let mut copying = self.copying.lock();
        // One that only this list has was given up by its session.
        if let Some(unused) = copying.iter().find(|copying| Arc::strong_count(copying) == 1) {
            // Acquire: partner of the Release with which the session let go of it.
            fence(Ordering::Acquire);
            return Publisher(Arc::clone(unused));
        }
        let new = Copying::new();
        copying.push(Arc::clone(&new));
        Publisher(new)
    }

    /// What publishes that belongs to no session, one thread at a time.
    pub(super) fn common(&self) -> MutexGuard<'_, Publisher> {
        self.common.lock()
    }

    /// Publishes the record that `record` holds, or several, together with `image` where that is its last part;
    /// says at which position.
    ///
    /// # Errors
    /// When there is no room; nothing happened then.
    #[inline(always)]
    pub(super) fn publish(
        &self,
        publisher: &mut Publisher,
        record: &[u8],
        image: &[u8],
        claim: Claim,
    ) -> Result<u64, Full> {
        let bytes = (record.len() + image.len()) as u64;
        debug_assert!(bytes.is_multiple_of(record::ALIGNMENT_BYTES as u64));
        debug_assert!(bytes <= self.capacity as u64);
        let copying = &*publisher.0;
        if self.has_file {
            self.promise(bytes, claim)?;
        }
        let at = self.take(copying, bytes).inspect_err(|_| {
            if self.has_file {
                self.ends.promised.fetch_sub(claim.change(bytes), Ordering::SeqCst);
            }
        })?;
        // SAFETY: [at, at + bytes) was taken by this call, below the ring limit, and `copying` says so.
        unsafe { self.copy_in(at, record) };
        if !image.is_empty() {
            // SAFETY: as above.
            unsafe { self.copy_in(at + record.len() as u64, image) };
        }
        if claim.commits > 0 {
            // Relaxed: a caller that has seen what the transaction changed had a latch or lock after it.
            self.ends.newest_commit.fetch_max(at, Ordering::Relaxed);
        }
        copying.records.set(copying.records.get() + 1 + claim.more);
        if claim.commits + claim.aborts > 0 {
            copying.commits.set(copying.commits.get() + claim.commits);
            copying.aborts.set(copying.aborts.get() + claim.aborts);
        }
        // Release: partner of the Acquire in `wait_until_copied`.
        copying.from.store(NOTHING, Ordering::Release);
        Ok(at)
    }

    /// Takes the next `bytes` positions and returns the first.
    #[inline(always)]
    fn take(&self, copying: &Copying, bytes: u64) -> Result<u64, Full> {
        // Relaxed: only a guess, which the exchange verifies.
        let mut tail = self.ends.tail.load(Ordering::Relaxed);
        loop {
            // Acquire: partner of the Release in `free_up_to`: what lay there has been read and copied.
            let is_free = |limit: u64| tail + bytes <= limit;
            if !is_free(self.ring_limit.load(Ordering::Acquire)) && !is_free(self.newest_limit()) {
                copying.from.store(NOTHING, Ordering::Release);
                return Err(Full::Ring { tail });
            }
            // Release: as where copying ends, which came before.
            copying.from.store(tail, Ordering::Release);
            // Release: partner of the Acquire in `tail`: what is taken is known to be copied. Acquire: all
            // that was done before a tail was asked for. Relaxed on failure: nothing was taken.
            let next = tail + bytes;
            let (taken, failed) = (Ordering::AcqRel, Ordering::Relaxed);
            match self.ends.tail.compare_exchange_weak(tail, next, taken, failed) {
                Ok(_) => return Ok(tail),
                Err(now) => tail = now,
            }
        }
    }

    /// The ring limit as it is now: a thread may have learnt in another way that there is room again.
    #[cold]
    fn newest_limit(&self) -> u64 {
        // An exchange, which reads no old value. Acquire: as in `take`.
        self.ring_limit.fetch_add(0, Ordering::Acquire)
    }

    // SeqCst wherever promises and the file's limit change: see the head of this file.

    /// Promises what publishing `bytes` bytes with `claim` takes of the file.
    #[inline(always)]
    fn promise(&self, bytes: u64, claim: Claim) -> Result<(), Full> {
        let change = claim.change(bytes);
        let promised = self.ends.promised.fetch_add(change, Ordering::SeqCst).wrapping_add(change);
        let needed = promised + claim.left;
        if needed > self.file_limit.load(Ordering::SeqCst) {
            self.ends.promised.fetch_sub(change, Ordering::SeqCst);
            return Err(Full::File { needed });
        }
        Ok(())
    }

    /// Sets space of the file aside without publishing anything.
    ///
    /// # Errors
    /// When there is no room; nothing happened then.
    pub(super) fn reserve(&self, claim: Claim) -> Result<(), Full> {
        if self.has_file { self.promise(0, claim) } else { Ok(()) }
    }

    /// Copies `bytes` to `position` and on.
    ///
    /// # Safety
    /// The positions were taken by the caller and lie below the ring limit, and the caller's `Copying` says at
    /// most the first of them.
    #[inline(always)]
    unsafe fn copy_in(&self, position: u64, bytes: &[u8]) {
        let at = position as usize & (self.capacity - 1);
        let first = bytes.len().min(self.capacity - at);
        let (here, there) = bytes.split_at(first);
        #[cfg(loom)]
        self.watch(position, bytes.len(), |cell| cell.with_mut(|_| ()));
        // SAFETY: `at + first` is at most the capacity; by the caller's promise no other thread reads or
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

    /// Waits until what lies before `end`, which was the tail or less, is copied.
    fn wait_until_copied(&self, end: u64) {
        for copying in self.copying.lock().iter() {
            let mut spin = Spin::new();
            // Acquire: partner of the Release in `publish` and `take`. A session that has taken positions
            // before `end` said so before, which the Acquire of the tail makes visible.
            while copying.from.load(Ordering::Acquire) < end {
                if !spin.again() {
                    give_way();
                }
            }
        }
    }

    /// Lets what lies before `position` be overwritten, which is copied and read.
    fn free_up_to(&self, position: u64) {
        // Release: partner of the Acquire in `take`.
        self.ring_limit.fetch_max(position + self.capacity as u64, Ordering::Release);
    }

    /// Makes room in a ring without a file.
    #[cold]
    pub(super) fn recycle(&self) {
        let tail = self.tail();
        self.wait_until_copied(tail);
        self.free_up_to(tail);
    }

    /// Takes what is published and not drained, up to `end` at most, to be written. Only one may
    /// drain at a time; a ring without a file has nothing to drain.
    ///
    /// # Panics
    /// When another drain is under way.
    pub(super) fn drain(&self, end: u64) -> Drain<'_> {
        // Acquire: partner of the Release where a drain ends.
        assert!(!self.is_drained.swap(true, Ordering::Acquire), "two flushers at once");
        let tail = self.tail();
        // Relaxed: drains alone change it.
        let drained = self.ring_limit.load(Ordering::Relaxed) - self.capacity as u64;
        let from = if self.has_file { drained } else { tail };
        let to = tail.min(end).max(from);
        self.wait_until_copied(to);
        Drain { ring: self, from, to }
    }

    /// Promises the file up to `limit`, unless the ring is shut; returns the limit before, 0 if it is.
    pub(super) fn promise_file(&self, limit: u64) -> u64 {
        let mut before = self.file_limit.load(Ordering::SeqCst);
        while before > 0 {
            let (set, failed) = (Ordering::SeqCst, Ordering::SeqCst);
            match self.file_limit.compare_exchange(before, limit, set, failed) {
                Ok(_) => break,
                Err(now) => before = now,
            }
        }
        before
    }

    /// Promises the file up to `limit`, and no further, if that is enough for all that is promised already
    /// and `left` bytes; says whether it is.
    pub(super) fn lower_file(&self, limit: u64, left: u64) -> bool {
        let is_enough = || self.ends.promised.load(Ordering::SeqCst) + left <= limit;
        if !is_enough() {
            return false;
        }
        let before = self.promise_file(limit);
        // What was promised since by the limit before counts, too.
        let is_enough = is_enough();
        if !is_enough {
            self.promise_file(before);
        }
        is_enough
    }

    /// Gives back what a transaction had reserved of the file.
    pub(super) fn give_back(&self, bytes: u64) {
        if bytes > 0 && self.has_file {
            self.ends.promised.fetch_sub(bytes, Ordering::SeqCst);
        }
    }

    /// Lets nothing be published any more where there is a file.
    pub(super) fn shut(&self) {
        self.file_limit.store(0, Ordering::SeqCst);
    }

    /// The end of what is published or being copied.
    pub(super) fn tail(&self) -> u64 {
        // An exchange, as those that take positions: what a session did before it took a position below the
        // tail is visible to the caller, and what the caller did to each that takes one behind it.
        self.ends.tail.fetch_add(0, Ordering::AcqRel)
    }

    /// The position of the newest record that commits a transaction; 0 for none. At least that of
    /// every transaction whose changes the caller has seen.
    pub(super) fn newest_commit(&self) -> u64 {
        // Relaxed: as where it is changed.
        self.ends.newest_commit.load(Ordering::Relaxed)
    }

    /// What was published so far.
    pub(super) fn published(&self) -> Published {
        let bytes = self.tail() - self.first;
        let published = Published { bytes, ..Published::default() };
        self.copying.lock().iter().fold(published, |all, copying| Published {
            records: all.records + copying.records.get(),
            commits: all.commits + copying.commits.get(),
            aborts: all.aborts + copying.aborts.get(),
            ..all
        })
    }

    /// Bytes of memory.
    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        let memory = std::ptr::slice_from_raw_parts_mut(self.base.as_ptr(), self.capacity);
        // SAFETY: made by `Box::into_raw` in `new` and given back once.
        drop(unsafe { Box::from_raw(memory) });
    }
}

/// The bytes being written: no thread overwrites them as long as this lives.
#[derive(Debug)]
pub(super) struct Drain<'a> {
    ring: &'a Ring,
    from: u64,
    to: u64,
}

impl Drain<'_> {
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
        if self.to > self.from {
            self.ring.free_up_to(self.to);
        }
    }
}

impl Drop for Drain<'_> {
    fn drop(&mut self) {
        // Release: partner of the Acquire in `Ring::drain`.
        self.ring.is_drained.store(false, Ordering::Release);
    }
}
