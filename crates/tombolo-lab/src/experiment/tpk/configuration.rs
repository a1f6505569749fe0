//! The paper's configurations: which stage has which thread, and what a thread does that has nothing
//! to do (TPK-30 … TPK-33).
//!
//! Not here: what the paper found of each (`paper.rs`), measuring, the other process of C (the engine's). Where a
//! machine has fewer cores than a configuration has threads, the configuration is as near as that machine can come,
//! and [`Configuration::caveat`] says how.

use serde::Deserialize;

use crate::settings::{self, Settings, Source};

use crate::failure::Failure;

named! {
    /// One of the paper's configurations.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
    pub enum Configuration by name {
        /// One processor: execution, logging and output on one thread, and threads that block.
        A = "A",
        /// A multiprocessor with shared memory: a thread for each stage, and threads that spin.
        B = "B",
        /// Two of them: the checkpoint stage is in another process.
        C = "C",
    }
}

/// Threads of configuration B without those that replicate: input, execution, logging, output,
/// checkpoint (TPK-2).
pub const STAGE_THREADS: usize = 5;
/// How long an idle thread spins where every stage has a core of its own: always, as the setting has
/// it at most.
const SPIN_US: u64 = 1_000_000;
/// The same where threads share cores: about what it takes to be woken.
const SPIN_SHARED_US: u64 = 20;

impl Configuration {
    /// Sets which stage has which thread and process, and a second copy of the rows, as far as `settings` do not
    /// say otherwise, on a machine with this number of cores.
    ///
    /// # Errors
    /// Usage, when a setting does not take its value.
    pub fn apply(self, settings: &mut Settings, cores: usize) -> Result<(), Failure> {
        let spin_us = if self.spins(cores) { SPIN_US } else { SPIN_SHARED_US };
        let (threads, spin_us, process) = match self {
            Self::A => ("coalesced", 0, "own"),
            Self::B => ("each", spin_us, "own"),
            Self::C => ("each", spin_us, "other"),
        };
        for (setting, value) in [
            (&settings::PIPELINE_THREADS, threads.to_owned()),
            (&settings::SPIN_US_MAX, spin_us.to_string()),
            (&settings::CHECKPOINT_PROCESS, process.to_owned()),
            (&settings::CHECKPOINT_COPY, "memory".to_owned()), // the paper's DB′
        ] {
            // An explicit setting is stronger.
            settings.set(setting.name, &value, Source::Default)?;
        }
        Ok(())
    }

    /// Whether every stage has a core to spin on.
    const fn spins(self, cores: usize) -> bool {
        cores >= STAGE_THREADS
    }

    /// What makes it another one on a machine with this number of cores than on the paper's; nothing where
    /// nothing does.
    pub fn caveat(self, cores: usize) -> Option<String> {
        match self {
            Self::B | Self::C if !self.spins(cores) => Some(format!(
                "{STAGE_THREADS} stages share {cores} cores: an idle one spins for {SPIN_SHARED_US} \
                 µs and then sleeps, where the paper's has a processor and spins on"
            )),
            _ => None,
        }
    }
}
