//! The door to time: the only place that reads a clock.
//!
//! Times never enter rows from here, only the headers of the log's groups; they come with a transaction's
//! input. A simulated clock takes this one's place in the simulator.

use std::time::{Duration, SystemTime};

use rustix::time::{ClockId, clock_gettime};

/// A source of time.
pub trait Clock: Send + Sync {
    /// Nanoseconds since some fixed moment; never goes back.
    fn now_ns(&self) -> u64;

    /// Microseconds since the beginning of 1970, as the calendar has it: it may go back when someone
    /// sets it.
    fn unix_us(&self) -> u64;

    /// Processor time this process has used, user and system, over all its threads.
    fn process_cpu(&self) -> Duration;

    /// Processor time the calling thread has used, user and system.
    fn thread_cpu(&self) -> Duration;
}

/// The system's monotonic clock.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    start_ns: u64,
}

impl SystemClock {
    /// A clock that starts now.
    pub fn new() -> Self {
        Self { start_ns: monotonic_ns() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now_ns(&self) -> u64 {
        monotonic_ns() - self.start_ns
    }

    #[expect(clippy::disallowed_methods, reason = "this is the clock door")]
    fn unix_us(&self) -> u64 {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        since.map_or(0, |since| since.as_micros() as u64)
    }

    fn process_cpu(&self) -> Duration {
        cpu_time(ClockId::ProcessCPUTime)
    }

    fn thread_cpu(&self) -> Duration {
        cpu_time(ClockId::ThreadCPUTime)
    }
}

/// Without the checks of the standard library's clock: a caller that carries reads it several times a
/// call.
#[inline]
fn monotonic_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn cpu_time(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_and_cpu_move_forward() {
        let clock = SystemClock::new();
        let (ns, cpu) = (clock.now_ns(), clock.thread_cpu());
        let mut sum = 0u64;
        while clock.thread_cpu() == cpu {
            sum = std::hint::black_box(sum + 1);
        }
        assert!(clock.now_ns() > ns);
        assert!(clock.process_cpu() >= clock.thread_cpu() - cpu);
    }
}
