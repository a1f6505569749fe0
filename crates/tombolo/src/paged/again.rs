//! `Patience`: how often a closure runs again that gave way to others.

use std::time::Duration;

use tombolo_engine::clock::{Clock, SystemClock};

use crate::calls::wait_a_moment;

/// How long a closure runs again, from the first time that it gave way on.
const PATIENCE_NS: u64 = 10_000_000_000;
/// The first pause before that; each is twice as long as the one before, up to a bound. Victims that began again at
/// once would meet in the same circle.
const PAUSE: Duration = Duration::from_micros(10);
const PAUSES_MAX: u32 = 8;

/// That of one call.
#[derive(Default)]
pub(super) struct Patience {
    until_ns: Option<u64>,
    pauses: u32,
}

impl Patience {
    /// Pauses before the closure runs again; `false` if it has had its time.
    pub(super) fn pauses(&mut self, clock: &SystemClock) -> bool {
        let now_ns = clock.now_ns();
        if now_ns >= *self.until_ns.get_or_insert(now_ns.saturating_add(PATIENCE_NS)) {
            return false;
        }
        wait_a_moment(PAUSE * (1 << self.pauses.min(PAUSES_MAX)));
        self.pauses += 1;
        true
    }

    /// How often it has paused.
    pub(super) const fn count(&self) -> u32 {
        self.pauses
    }
}
