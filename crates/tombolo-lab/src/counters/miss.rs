//! Measures the time of one dependent cache miss on this machine, now.
//!
//! Loads that each wait for the one before, through memory far larger than the last-level cache:
//! the time of one is the unit in which a main-memory database without its components pays. It is
//! printed next to every time, so that two runs on a shared machine can be compared.
//!
//! It needs no random numbers: a linear congruential sequence of full period (multiplier 1 mod 4,
//! odd increment, power-of-two modulus: Hull and Dobell) visits every line once before it repeats,
//! and an invertible mixing of its states takes the pattern out that a prefetcher could follow.

use super::CounterError;
use std::alloc::{Layout, alloc, dealloc};
use std::hint::black_box;
use std::io;

/// Bytes that are chased through unless asked otherwise.
pub const PROBE_BYTES: usize = 256 << 20;

/// A line of the cache.
const LINE: usize = 64;
/// Memory is aligned to the processor's huge page, so that the kernel can use them throughout.
const HUGE_PAGE: usize = 2 << 20;
/// The time of one load is the median over this many stretches …
const STRETCHES: usize = 9;
/// … of this many loads.
const LOADS: u64 = 1 << 16;

/// A line that holds where the next one is.
#[repr(align(64))]
struct Line {
    next: u64,
}

const _: () = assert!(size_of::<Line>() == LINE);

/// A permutation of `0..=mask`, where `mask + 1` is a power of two of at least 2^16.
fn mix(state: u64, mask: u64) -> u64 {
    // Odd multiplications and shifted exclusive-ors are both invertible modulo a power of two.
    let half = mask.count_ones() / 2;
    let mixed = state.wrapping_mul(0x9e37_79b9_7f4a_7c15) & mask;
    let mixed = mixed ^ (mixed >> half);
    let mixed = mixed.wrapping_mul(0xbf58_476d_1ce4_e5b9) & mask;
    mixed ^ (mixed >> half)
}

/// The state after `state` in one cycle through all of `0..=mask`.
fn step(state: u64, mask: u64) -> u64 {
    state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f) & mask
}

/// Memory with a cycle through all its lines.
struct Cycle {
    lines: *mut Line,
    layout: Layout,
}

impl Cycle {
    fn new(bytes: usize) -> Result<Self, CounterError> {
        assert!(bytes.is_power_of_two() && bytes >= HUGE_PAGE * 2, "a power of two, 4 MB or more");
        let layout = Layout::from_size_align(bytes, HUGE_PAGE).map_err(|error| {
            CounterError::System { what: "lay the miss probe out", source: io::Error::other(error) }
        })?;
        // SAFETY: the layout's size is not zero. The memory is not touched before the advice below,
        // after which it is too late for huge pages; every `next` is written before it is read.
        let lines = unsafe { alloc(layout) }.cast::<Line>();
        if lines.is_null() {
            // A run that has just enough memory for its rows continues without the probe.
            let (what, source) = ("take memory for the miss probe", io::ErrorKind::OutOfMemory);
            return Err(CounterError::System { what, source: source.into() });
        }
        let cycle = Self { lines, layout };
        // SAFETY: the range is this allocation, page aligned; the advice changes no contents.
        // A kernel without huge pages refuses it: the probe then includes page-table misses, as
        // does the database, so the answer is not looked at.
        let _ = unsafe { libc::madvise(lines.cast(), bytes, libc::MADV_HUGEPAGE) };
        let mask = (bytes / LINE) as u64 - 1;
        let mut state = 0;
        for _ in 0..=mask {
            let next = step(state, mask);
            // SAFETY: both are at most `mask`, hence inside the allocation, which is ours alone.
            unsafe { (*lines.add(mix(state, mask) as usize)).next = mix(next, mask) };
            state = next;
        }
        Ok(cycle)
    }

    /// Follows the cycle from `at` for `loads` loads.
    fn chase(&self, mut at: u64, loads: u64) -> u64 {
        for _ in 0..loads {
            // SAFETY: `at` starts as a line's number and stays one: `new` wrote only such numbers.
            at = unsafe { (*self.lines.add(at as usize)).next };
        }
        at
    }
}

impl Drop for Cycle {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout, and freed once.
        unsafe { dealloc(self.lines.cast(), self.layout) };
    }
}

/// Nanoseconds of `clock` per dependent load that misses, through `bytes` of memory.
///
/// # Errors
/// When the memory cannot be had.
///
/// # Panics
/// When `bytes` is not a power of two of at least 4 MB.
pub fn miss_ns(clock: &mut dyn FnMut() -> u64, bytes: usize) -> Result<f64, CounterError> {
    let cycle = Cycle::new(bytes)?;
    let mut stretches = [0u64; STRETCHES];
    let mut at = black_box(0);
    for stretch in &mut stretches {
        let start = clock();
        at = black_box(cycle.chase(at, LOADS));
        *stretch = clock().saturating_sub(start);
    }
    stretches.sort_unstable();
    Ok(stretches[STRETCHES / 2] as f64 / LOADS as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cycle_visits_every_line_once() {
        let bytes = 8 << 20;
        let lines = (bytes / LINE) as u64;
        let cycle = Cycle::new(bytes).unwrap();
        let mut seen = vec![false; lines as usize];
        let mut at = 0;
        for _ in 0..lines {
            assert!(!std::mem::replace(&mut seen[at as usize], true), "line {at} twice");
            at = cycle.chase(at, 1);
        }
        assert_eq!(at, 0);
    }

    #[test]
    fn neighbours_in_the_cycle_are_far_apart() {
        let cycle = Cycle::new(8 << 20).unwrap();
        let (mut at, mut near) = (0u64, 0);
        for _ in 0..10_000 {
            let next = cycle.chase(at, 1);
            near += u32::from(at.abs_diff(next) < 64); // within one 4 KB page
            at = next;
        }
        assert!(near < 100, "{near} of 10,000 steps stay within a page");
    }

    #[test]
    fn time_per_load_is_the_clocks() {
        let mut now = 0;
        let mut clock = || {
            now += 5 * LOADS;
            now
        };
        assert_eq!(miss_ns(&mut clock, 4 << 20).unwrap(), 5.0);
    }
}
