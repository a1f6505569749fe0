//! `Region`: one contiguous stretch of virtual memory that is reserved whole and committed from the
//! front.
//!
//! The base address never moves, so whatever lives in a region is found by `base + id * size`, and
//! growing copies nothing. Memory is *committed* in steps: made writable, given huge pages, and
//! touched immediately, so that the first write of a transaction to a fresh page takes no page
//! fault; a pool of pages, most of which may stay empty, is not touched (`Region::commit_untouched`).
//! Memory that does not stay may be taken in small steps instead (`Allowance::is_gradual`).
//! Any other region grows by a quarter of its size until it has 2 MB (small tables stay small),
//! from then on by exactly one huge page: the step costs what zeroing 2 MB costs, about 0.1 ms,
//! which bounds both the stall of the one insert that grows the region and the memory committed but
//! unused.
//!
//! Not here: what lies inside. A region shrinks only while its owner takes it apart (`Region::cut`);
//! it hands out no references and knows no ids.
//! Whatever is stored in one refers to other elements by id, never by address, so that a region may
//! later be mapped copy-on-write from a file.
//!
//! Invariants: the base is aligned to 2 MB; bytes below `committed_bytes` are readable and writable
//! and read as zero until they are written; bytes above are inaccessible; `committed_bytes <=
//! limit_bytes`, but for what was committed while the limit was lifted; what is committed is taken
//! from the budget.
//!
//! Part of the memory store (LG-S11, TPK); huge pages answer LG-59: after the components are gone,
//! cache and TLB misses are the bottleneck.

use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use super::budget::{Allowance, Budget, OverBudget};

/// Address space asked for when the caller knows no limit: 64 GB, of which x86-64 offers room for two
/// thousand.
pub const RESERVATION_BYTES: usize = 64 << 30;

/// More than the address space of a process: asking for so much is refused.
const UNHEARD_OF_BYTES: usize = 1 << 52;

/// How many times its limit a region may take while the limit is lifted, up to [`RESERVATION_BYTES`].
const LIFTED: usize = 4;

/// The size of a huge page, the alignment of every region and its growth step once it is this
/// large.
pub const HUGE_PAGE_BYTES: usize = 2 << 20;

/// How much less is tried when a reservation is refused. Address space is then scarce (valgrind has
/// 128 GB, a process may be limited): halving would let the first few regions take all that is left
/// of it.
const REFUSED_DIVISOR: usize = 64;

const PAGE_BYTES: usize = 4 << 10;
const FIRST_STEP_BYTES: usize = 16 << 10;

/// The step of a region that grows gradually: some microseconds.
const GRADUAL_STEP_BYTES: usize = 32 << 10;

/// Why a region could not be made or could not grow. The operating system's error number is kept
/// for the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegionError {
    /// No address space could be reserved, not even a small one.
    Reserve {
        /// The smallest reservation that was tried.
        bytes: usize,
        /// `errno`.
        errno: i32,
    },
    /// The operating system has no memory to give.
    Commit {
        /// How far the region should have reached.
        bytes: usize,
        /// `errno`.
        errno: i32,
    },
    /// The budget the region takes its bytes from is used up.
    OverBudget {
        /// The budget's bound.
        bytes_max: u64,
    },
    /// The region may not grow any further.
    Limit {
        /// The limit it has reached.
        limit_bytes: usize,
    },
}

impl fmt::Display for RegionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            RegionError::Reserve { bytes, errno } => {
                write!(
                    f,
                    "cannot reserve {bytes} bytes of address space (errno {errno}): lower \
                     structure_bytes_max, or let the process have more of it"
                )
            }
            RegionError::Commit { bytes, errno } => {
                write!(f, "cannot commit memory up to {bytes} bytes (errno {errno})")
            }
            RegionError::OverBudget { bytes_max } => {
                write!(f, "memory budget of {bytes_max} bytes used up")
            }
            RegionError::Limit { limit_bytes } => {
                write!(f, "memory limit of {limit_bytes} bytes reached")
            }
        }
    }
}

impl std::error::Error for RegionError {}

/// A reserved stretch of address space, committed from the front. See the module's head.
#[derive(Debug)]
pub struct Region {
    base: NonNull<u8>,
    reserved_bytes: usize,
    limit_bytes: usize,
    is_limit_lifted: bool,
    committed_bytes: usize,
    budget: Option<Arc<Budget>>,
    is_gradual: bool,
}

// SAFETY: a region owns its mapping exclusively, like a `Vec` its buffer; nothing in it is bound to
// the thread that made it.
unsafe impl Send for Region {}

// SAFETY: a shared region only returns its address and its length; what changes it or its pages
// takes `&mut self`. Code that reads or writes through the address argues for that itself.
unsafe impl Sync for Region {}

impl Region {
    /// Reserves address space for up to `limit_bytes` (use [`RESERVATION_BYTES`] when nothing
    /// tighter is known); commits nothing. What is committed later is taken from the allowance's
    /// budget, if it has one, and given back when the region goes.
    ///
    /// When the system refuses so much, a 64th is tried, and so on: [`Region::limit_bytes`] says what was
    /// granted. Not so above [`RESERVATION_BYTES`]: a limit that large was set because it is needed.
    ///
    /// # Errors
    /// [`RegionError::Reserve`] if not even one huge page's worth of address space is to be had, or not
    /// all of a limit above [`RESERVATION_BYTES`].
    pub fn reserve(allowance: impl Into<Allowance>) -> Result<Region, RegionError> {
        let Allowance { limit_bytes, budget, is_gradual } = allowance.into();
        let limit_bytes = round_up(limit_bytes.clamp(PAGE_BYTES, UNHEARD_OF_BYTES), PAGE_BYTES);
        let lifted_bytes = (limit_bytes * LIFTED).min(RESERVATION_BYTES).max(limit_bytes);
        let mut reserved_bytes = round_up(lifted_bytes, HUGE_PAGE_BYTES);
        let least_bytes =
            if limit_bytes > RESERVATION_BYTES { reserved_bytes } else { HUGE_PAGE_BYTES };
        loop {
            match map_aligned(reserved_bytes) {
                Ok(base) => {
                    let limit_bytes = limit_bytes.min(reserved_bytes);
                    return Ok(Region {
                        base,
                        reserved_bytes,
                        limit_bytes,
                        is_limit_lifted: false,
                        committed_bytes: 0,
                        budget,
                        is_gradual,
                    });
                }
                Err(errno) if reserved_bytes <= least_bytes => {
                    return Err(RegionError::Reserve { bytes: reserved_bytes, errno });
                }
                Err(_) => {
                    reserved_bytes = round_up(reserved_bytes / REFUSED_DIVISOR, HUGE_PAGE_BYTES)
                }
            }
        }
    }

    /// The address of the first byte; it never changes.
    #[inline(always)]
    pub fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    /// The same, for what keeps it.
    pub(super) fn start(&self) -> NonNull<u8> {
        self.base
    }

    /// How many bytes from the front are usable; they are touched, too, but for [`Region::commit_untouched`].
    #[inline]
    pub fn committed_bytes(&self) -> usize {
        self.committed_bytes
    }

    /// How far the region may grow.
    #[inline]
    pub fn limit_bytes(&self) -> usize {
        if self.is_limit_lifted { self.reserved_bytes } else { self.limit_bytes }
    }

    /// Lets the region grow beyond its limit, up to four times of it, and beyond its budget, or no
    /// longer. An aborted
    /// transaction has to be undone even where its undoing takes memory.
    pub fn lift_limit(&mut self, is_lifted: bool) {
        self.is_limit_lifted = is_lifted;
    }

    /// Makes at least the first `bytes` bytes usable, and touches them; does nothing if they are.
    ///
    /// Call it ahead of a load or a measured run with the size to come: the cost is then paid
    /// there.
    ///
    /// # Errors
    /// [`RegionError::Limit`] beyond the limit, [`RegionError::OverBudget`] when the budget has not
    /// so much left, [`RegionError::Commit`] when the system has no memory. The region is unchanged.
    pub fn commit(&mut self, bytes: usize) -> Result<(), RegionError> {
        self.commit_with(bytes, Self::touch_now)
    }

    /// The same without touching them: each takes memory when it is first written. For what may never be used whole.
    ///
    /// # Errors
    /// As [`Region::commit`]; but the system may have less memory than it promised here.
    pub fn commit_untouched(&mut self, bytes: usize) -> Result<(), RegionError> {
        self.commit_with(bytes, |_, _, _| Ok(()))
    }

    fn commit_with(
        &mut self,
        bytes: usize,
        touch: fn(&Self, usize, usize) -> Result<(), i32>,
    ) -> Result<(), RegionError> {
        if bytes <= self.committed_bytes {
            return Ok(());
        }
        if bytes > self.limit_bytes() {
            return Err(RegionError::Limit { limit_bytes: self.limit_bytes() });
        }
        let from = self.committed_bytes;
        let to = self.take_up_to(bytes)?;
        let made = self.make_writable(from, to).and_then(|()| touch(self, from, to));
        if let Err(errno) = made {
            self.give((to - from) as u64);
            return Err(RegionError::Commit { bytes: to, errno });
        }
        self.committed_bytes = to;
        assert!(bytes <= self.committed_bytes && self.committed_bytes <= self.limit_bytes());
        Ok(())
    }

    /// Takes what growing to `bytes` costs from the budget; returns how far that reaches. Near the
    /// budget's end it is no further than asked for.
    fn take_up_to(&self, bytes: usize) -> Result<usize, RegionError> {
        let to = self.next_committed(bytes);
        let Some(budget) = &self.budget else { return Ok(to) };
        let of = |to: usize| (to - self.committed_bytes) as u64;
        if self.is_limit_lifted {
            budget.take_anyway(of(to));
            return Ok(to);
        }
        if budget.take(of(to)).is_ok() {
            return Ok(to);
        }
        let least = round_up(bytes, PAGE_BYTES).min(self.limit_bytes());
        match budget.take(of(least)) {
            Ok(()) => Ok(least),
            Err(OverBudget { bytes_max }) => Err(RegionError::OverBudget { bytes_max }),
        }
    }

    /// Gives back memory of a region that is not used any more, from its end: `bytes_max` bytes, in
    /// whole pages, or what is left. Returns how many. The region does not grow again.
    ///
    /// Unmapping much memory takes long, so an owner that must not wait calls this several times.
    pub(super) fn cut(&mut self, bytes_max: usize) -> usize {
        let bytes = round_up(bytes_max, PAGE_BYTES).min(self.committed_bytes);
        let end = self.committed_bytes - bytes;
        self.give(bytes as u64);
        self.unmap_from(end);
        (self.committed_bytes, self.limit_bytes) = (end, end);
        bytes
    }

    fn unmap_from(&mut self, end: usize) {
        let bytes = self.reserved_bytes - end;
        if bytes > 0 {
            // SAFETY: the range is the end of this region's own mapping, and no reference into it
            // outlives the owner of the region, which no longer uses what lies there.
            let result = unsafe { libc::munmap(self.base().wrapping_add(end).cast(), bytes) };
            debug_assert_eq!(result, 0);
        }
        self.reserved_bytes = end;
    }

    fn give(&self, bytes: u64) {
        if let Some(budget) = &self.budget {
            budget.give(bytes);
        }
    }

    /// The size to grow to when `bytes` are needed: see the module's head for the policy.
    fn next_committed(&self, bytes: usize) -> usize {
        if self.is_gradual {
            return round_up(bytes, GRADUAL_STEP_BYTES).min(self.limit_bytes());
        }
        let small_step = (self.committed_bytes / 4).max(FIRST_STEP_BYTES);
        let wanted = if self.committed_bytes < HUGE_PAGE_BYTES {
            round_up(bytes.max(self.committed_bytes + small_step), PAGE_BYTES)
        } else {
            bytes
        };
        let step = if wanted > HUGE_PAGE_BYTES / 4 * 3 { HUGE_PAGE_BYTES } else { PAGE_BYTES };
        round_up(wanted, step).min(self.limit_bytes())
    }

    fn make_writable(&self, from: usize, to: usize) -> Result<(), i32> {
        assert!(from < to && to <= self.reserved_bytes);
        let start = self.base().wrapping_add(from).cast();
        // SAFETY: [from, to) lies inside this region's own mapping, nothing in it is in use yet.
        let result =
            unsafe { libc::mprotect(start, to - from, libc::PROT_READ | libc::PROT_WRITE) };
        if result != 0 {
            return Err(errno());
        }
        let (huge_from, huge_bytes) = self.huge_pages(from, to);
        if huge_bytes > 0 {
            // Advice only: where the kernel has no huge pages the small ones serve.
            self.advise(huge_from, huge_bytes, libc::MADV_HUGEPAGE).ok();
        }
        Ok(())
    }

    /// Where the huge pages begin of which `[from, to)` holds the ends, and their bytes.
    fn huge_pages(&self, from: usize, to: usize) -> (usize, usize) {
        let huge_from = from / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
        let huge_bytes = to / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES - huge_from;
        (huge_from, if self.is_gradual { 0 } else { huge_bytes })
    }

    /// Takes the memory of `[from, to)`, which is writable.
    fn touch_now(&self, from: usize, to: usize) -> Result<(), i32> {
        let (huge_from, huge_bytes) = self.huge_pages(from, to);
        match self.advise(from, to - from, libc::MADV_POPULATE_WRITE) {
            Ok(()) => {}
            Err(libc::EINVAL | libc::ENOSYS) => self.touch(from, to),
            Err(errno) => return Err(errno),
        }
        if from > huge_from && huge_bytes > 0 {
            // The front was filled while it was small: turn its small pages into a huge one (Linux
            // 6.1; ignored before).
            self.advise(huge_from, HUGE_PAGE_BYTES, libc::MADV_COLLAPSE).ok();
        }
        Ok(())
    }

    fn advise(&self, from: usize, bytes: usize, advice: libc::c_int) -> Result<(), i32> {
        let start = self.base().wrapping_add(from).cast();
        // SAFETY: the range lies inside this region's mapping, and none of the advices used here
        // changes the content of memory.
        let result = unsafe { libc::madvise(start, bytes, advice) };
        if result == 0 { Ok(()) } else { Err(errno()) }
    }

    /// Takes the page faults of `[from, to)` now, on kernels without `MADV_POPULATE_WRITE` (before
    /// 5.14).
    fn touch(&self, from: usize, to: usize) {
        for offset in (from..to).step_by(PAGE_BYTES) {
            // SAFETY: the byte was made writable just now and is not in use; it holds zero, so
            // writing zero changes nothing.
            unsafe { self.base().add(offset).write_volatile(0) };
        }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        self.give(self.committed_bytes as u64);
        self.unmap_from(0);
    }
}

/// Reserves `bytes` of inaccessible address space aligned to a huge page; the error is `errno`.
fn map_aligned(bytes: usize) -> Result<NonNull<u8>, i32> {
    assert!(bytes > 0 && bytes.is_multiple_of(HUGE_PAGE_BYTES));
    let mapped_bytes = bytes + HUGE_PAGE_BYTES;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: an anonymous mapping at an address of the kernel's choice touches no existing memory.
    let mapped =
        unsafe { libc::mmap(std::ptr::null_mut(), mapped_bytes, libc::PROT_NONE, flags, -1, 0) };
    if mapped == libc::MAP_FAILED {
        return Err(errno());
    }
    let mapped: *mut u8 = mapped.cast();
    let head = mapped.align_offset(HUGE_PAGE_BYTES);
    let tail = HUGE_PAGE_BYTES - head;
    let base = mapped.wrapping_add(head);
    // SAFETY: both ranges are parts of the mapping made above that the region will not use. Failing
    // to give them back only wastes address space, so the results need no look.
    unsafe {
        if head > 0 {
            libc::munmap(mapped.cast(), head);
        }
        if tail > 0 {
            libc::munmap(base.wrapping_add(bytes).cast(), tail);
        }
    }
    NonNull::new(base).ok_or(libc::ENOMEM)
}

fn errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

fn round_up(bytes: usize, step: usize) -> usize {
    bytes.div_ceil(step) * step
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(region: &Region, offset: usize) -> u8 {
        assert!(offset < region.committed_bytes());
        // SAFETY: the byte is committed.
        unsafe { region.base().add(offset).read() }
    }

    fn write(region: &mut Region, offset: usize, byte: u8) {
        assert!(offset < region.committed_bytes());
        // SAFETY: the byte is committed.
        unsafe { region.base().add(offset).write(byte) }
    }

    #[test]
    fn content_survives_growth_and_fresh_memory_is_zero() {
        let mut region = Region::reserve(RESERVATION_BYTES).unwrap();
        let base = region.base();
        assert_eq!(base.align_offset(HUGE_PAGE_BYTES), 0);
        let mut written = 0;
        while written < 3 * HUGE_PAGE_BYTES {
            region.commit(written + 1).unwrap();
            while written < region.committed_bytes() {
                assert_eq!(read(&region, written), 0);
                write(&mut region, written, (written / PAGE_BYTES) as u8 | 1);
                written += PAGE_BYTES;
            }
        }
        assert_eq!(region.base(), base);
        for offset in (0..written).step_by(PAGE_BYTES) {
            assert_eq!(read(&region, offset), (offset / PAGE_BYTES) as u8 | 1);
        }
    }

    #[test]
    fn steps_are_small_at_first_and_one_huge_page_later() {
        let mut region = Region::reserve(RESERVATION_BYTES).unwrap();
        assert_eq!(region.committed_bytes(), 0);
        region.commit(1).unwrap();
        assert_eq!(region.committed_bytes(), FIRST_STEP_BYTES);
        while region.committed_bytes() < HUGE_PAGE_BYTES {
            let before = region.committed_bytes();
            region.commit(before + 1).unwrap();
            assert!(region.committed_bytes() <= HUGE_PAGE_BYTES);
        }
        region.commit(HUGE_PAGE_BYTES + 1).unwrap();
        assert_eq!(region.committed_bytes(), 2 * HUGE_PAGE_BYTES);
        region.commit(9 * HUGE_PAGE_BYTES).unwrap();
        assert_eq!(region.committed_bytes(), 9 * HUGE_PAGE_BYTES);
    }

    #[test]
    fn limit_is_an_error_and_changes_nothing() {
        let mut region = Region::reserve(100_000).unwrap();
        assert_eq!(region.limit_bytes(), 102_400);
        region.commit(102_400).unwrap();
        let error = region.commit(102_401).unwrap_err();
        assert_eq!(error, RegionError::Limit { limit_bytes: 102_400 });
        assert_eq!(region.committed_bytes(), 102_400);
    }

    #[test]
    fn a_lifted_limit_lets_the_region_grow_and_a_lowered_one_keeps_what_it_has() {
        let mut region = Region::reserve(100_000).unwrap();
        region.commit(102_400).unwrap();
        region.lift_limit(true);
        region.commit(102_401).unwrap();
        assert!(region.commit(HUGE_PAGE_BYTES + 1).is_err());
        region.lift_limit(false);
        let committed = region.committed_bytes();
        region.commit(committed).unwrap();
        let error = region.commit(committed + 1).unwrap_err();
        assert_eq!(error, RegionError::Limit { limit_bytes: 102_400 });
    }

    #[test]
    fn as_much_is_reserved_as_was_set() {
        let limit_bytes = 3 * RESERVATION_BYTES;
        let mut region = Region::reserve(limit_bytes).unwrap();
        assert_eq!((region.limit_bytes(), region.reserved_bytes), (limit_bytes, limit_bytes));
        region.commit(1).unwrap();
        assert_eq!(region.committed_bytes(), FIRST_STEP_BYTES);
        let refused = Region::reserve(usize::MAX).unwrap_err();
        assert!(matches!(refused, RegionError::Reserve { .. }), "{refused}");
        assert!(refused.to_string().contains("lower structure_bytes_max"), "{refused}");
    }

    #[test]
    fn a_region_is_cut_from_its_end() {
        let budget = Budget::new(u64::MAX);
        let mut region = Region::reserve(Allowance::new(1 << 30, &budget).gradual()).unwrap();
        region.commit(1 << 20).unwrap();
        for offset in (0..1 << 20).step_by(PAGE_BYTES) {
            write(&mut region, offset, 7);
        }
        assert_eq!(region.cut(300_000), 74 * PAGE_BYTES);
        assert_eq!(region.committed_bytes() as u64, budget.held_bytes());
        assert_eq!(read(&region, region.committed_bytes() - PAGE_BYTES), 7);
        assert!(region.commit(1 << 20).is_err(), "it does not grow again");
        assert_eq!(region.cut(1), PAGE_BYTES);
        assert!(region.cut(1 << 20) > 0 && region.cut(1 << 20) == 0);
        assert_eq!((region.committed_bytes(), budget.held_bytes()), (0, 0));
    }

    #[test]
    fn many_reservations_fit_beside_each_other() {
        let mut regions: Vec<Region> = Vec::new();
        for _ in 0..64 {
            let mut region = Region::reserve(RESERVATION_BYTES).unwrap();
            region.commit(PAGE_BYTES).unwrap();
            regions.push(region);
        }
        let mut bases: Vec<usize> = regions.iter().map(|region| region.base() as usize).collect();
        bases.sort_unstable();
        assert!(bases.windows(2).all(|pair| pair[0] + HUGE_PAGE_BYTES <= pair[1]));
    }
}
