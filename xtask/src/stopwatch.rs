//! Measures the duration of a chore: the only place in this program that reads a clock.

use std::time::{Duration, Instant};

/// Runs from its start on.
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    #[expect(
        clippy::disallowed_methods,
        reason = "a chore tells how long it took; no engine runs here"
    )]
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}
