//! The time-stamp counter: what a cycle is here, and what reading it costs.
//!
//! The counter ticks at a fixed rate, whatever the core's clock does: it measures time in units
//! near a cycle, not the core's own cycles. The paper read cycles the same way (LG-38) and calls
//! them indicative (LG-39).
//!
//! It reads no clock: the frequency is calibrated against one that the caller passes in.

use super::CounterError;
use std::arch::x86_64::{__cpuid, _mm_lfence, _rdtsc};

/// Reads the counter after everything before it has finished and before anything after it starts.
#[inline(always)]
#[must_use]
pub fn read() -> u64 {
    // SAFETY: the instructions exist on every x86-64 and touch no memory. `lfence` before waits for
    // earlier instructions; `lfence` after keeps later ones from starting.
    unsafe {
        _mm_lfence();
        let now = _rdtsc();
        _mm_lfence();
        now
    }
}

/// Whether the counter runs at the same rate in every power state.
#[must_use]
pub fn is_invariant() -> bool {
    __cpuid(0x8000_0000).eax >= 0x8000_0007 && __cpuid(0x8000_0007).edx & (1 << 8) != 0
}

/// A moment on both clocks.
#[derive(Clone, Copy)]
struct Moment {
    tsc: u64,
    ns: u64,
}

/// Reads both clocks as close together as a few attempts allow.
fn moment(clock: &mut dyn FnMut() -> u64) -> Moment {
    let mut closest = (u64::MAX, Moment { tsc: 0, ns: 0 });
    for _ in 0..16 {
        let before = read();
        let ns = clock();
        let width = read().wrapping_sub(before);
        if width < closest.0 {
            closest = (width, Moment { tsc: before.wrapping_add(width / 2), ns });
        }
    }
    closest.1
}

/// Ticks per nanosecond, measured over `span_ns` nanoseconds of `clock`.
///
/// # Errors
/// When the counter does not run at one rate, or one of the clocks stands still.
pub fn calibrate(clock: &mut dyn FnMut() -> u64, span_ns: u64) -> Result<f64, CounterError> {
    if !is_invariant() {
        return Err(CounterError::Damaged("the time-stamp counter changes its rate".to_owned()));
    }
    let first = moment(clock);
    let mut last = first;
    // Bounded by readings too: a clock that stands still must not keep us here for ever.
    for _ in 0..100_000_000u64 {
        if clock().saturating_sub(first.ns) >= span_ns {
            last = moment(clock);
            break;
        }
        std::hint::spin_loop();
    }
    let ns = last.ns.saturating_sub(first.ns);
    let ticks = last.tsc.wrapping_sub(first.tsc);
    if ns == 0 || ticks == 0 {
        return Err(CounterError::Damaged("a clock stood still during calibration".to_owned()));
    }
    Ok(ticks as f64 / ns as f64)
}

/// What it costs to read the counter twice with nothing between, in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overhead {
    /// The least of all readings.
    pub minimum: u64,
    /// The middle one.
    pub median: u64,
}

/// Measures an empty probe `samples` times.
///
/// # Panics
/// When `samples` is 0.
#[must_use]
pub fn empty_probe(samples: usize) -> Overhead {
    assert!(samples > 0, "an empty probe is measured at least once");
    let mut ticks: Vec<u64> = (0..samples)
        .map(|_| {
            let before = read();
            read().wrapping_sub(before)
        })
        .collect();
    ticks.sort_unstable();
    Overhead { minimum: ticks[0], median: ticks[samples / 2] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_made_of_the_counter_has_its_frequency() {
        if !is_invariant() {
            return; // The refusal is the behaviour then, and it has no other observable.
        }
        let per_ns = calibrate(&mut || read() / 4, 1_000_000).unwrap();
        assert!((3.5..4.5).contains(&per_ns), "{per_ns}");
    }

    #[test]
    fn a_clock_that_stands_still_is_refused() {
        let mut calls = 0u64;
        let mut clock = || {
            calls += 1;
            7
        };
        // A span of nothing ends the wait immediately, and no time has passed.
        assert!(calibrate(&mut clock, 0).is_err());
        assert!(calls > 0);
    }

    #[test]
    fn an_empty_probe_costs_something() {
        let overhead = empty_probe(1001);
        assert!(overhead.minimum > 0);
        assert!(overhead.minimum <= overhead.median);
    }
}
