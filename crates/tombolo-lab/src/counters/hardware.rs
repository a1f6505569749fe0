//! The processor's own count of instructions, user space only, where the machine gives it to us.
//!
//! Virtual machines mostly do not: `perf_event_open` answers `ENOENT`. That is found out once, when
//! the counter is opened, with a reason to print; [`callgrind`](super::callgrind) is the fallback.

use super::CounterError;
use perf_event::events::Hardware;
use perf_event::{Builder, Counter};

/// An open counter of the calling thread's instructions in user space.
#[derive(Debug)]
pub struct Instructions {
    counter: Counter,
}

impl Instructions {
    /// Opens the counter and starts it.
    ///
    /// # Errors
    /// When the machine, the kernel or its settings refuse.
    pub fn open() -> Result<Self, CounterError> {
        // The builder leaves kernel and hypervisor out unless asked otherwise; pinned, so that the
        // kernel never shares the counter out and scales the count.
        let mut builder = Builder::new().kind(Hardware::INSTRUCTIONS);
        builder.pinned(true);
        let mut counter = builder.build().map_err(CounterError::NoHardwareCounter)?;
        counter.enable().map_err(CounterError::NoHardwareCounter)?;
        let mut opened = Self { counter };
        // A machine that accepts the event and then counts nothing has no counter either.
        let before = opened.read()?;
        if opened.read()? == before {
            let silent = std::io::Error::other("it does not count");
            return Err(CounterError::NoHardwareCounter(silent));
        }
        Ok(opened)
    }

    /// The count so far.
    ///
    /// # Errors
    /// When the kernel took the counter away.
    pub fn read(&mut self) -> Result<u64, CounterError> {
        self.counter.read().map_err(CounterError::NoHardwareCounter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Either it counts, or it says why not.
    #[test]
    fn counts_or_gives_a_reason() {
        match Instructions::open() {
            Ok(mut instructions) => {
                let before = instructions.read().unwrap();
                let mut sum = 0u64;
                for i in 0..10_000u64 {
                    sum = std::hint::black_box(sum + i);
                }
                assert!(instructions.read().unwrap() - before > 10_000);
            }
            Err(error) => {
                let message = error.to_string();
                assert!(message.contains("cannot be opened ("), "{message}");
                assert!(message.ends_with("use --counter callgrind"), "{message}");
            }
        }
    }
}
