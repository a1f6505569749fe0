//! The time-stamp counter, read as the paper read cycles (LG-38), which it calls indicative (LG-39).
//!
//! The counter ticks at a fixed rate, whatever the core's clock does: it measures time in units
//! near a cycle, not the core's own cycles.

use std::arch::x86_64::{_mm_lfence, _rdtsc};

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
