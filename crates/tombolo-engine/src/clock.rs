//! The door to time: the only place that reads a clock.
//!
//! Times never enter rows from here, only the headers of the log's groups; they come with a transaction's
//! input. A simulated clock takes this one's place in the simulator.

use std::time::{Duration, Instant, SystemTime};

/// A source of time.
pub trait Clock: Send + Sync {
    /// Nanoseconds since some fixed moment; never goes back.
    fn now_ns(&self) -> u64;

    /// Microseconds since the beginning of 1970, as the calendar has it: it may go back when somebody
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
    start: Instant,
}

impl SystemClock {
    /// A clock that starts now.
    #[expect(clippy::disallowed_methods, reason = "this is the clock door")]
    pub fn new() -> Self {
        Self { start: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now_ns(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    #[expect(clippy::disallowed_methods, reason = "this is the clock door")]
    fn unix_us(&self) -> u64 {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        since.map_or(0, |since| since.as_micros() as u64)
    }

    fn process_cpu(&self) -> Duration {
        cpu_time(rustix::time::ClockId::ProcessCPUTime)
    }

    fn thread_cpu(&self) -> Duration {
        cpu_time(rustix::time::ClockId::ThreadCPUTime)
    }
}

fn cpu_time(clock: rustix::time::ClockId) -> Duration {
    let time = rustix::time::clock_gettime(clock);
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
