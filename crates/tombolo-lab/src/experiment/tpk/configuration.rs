//! The paper's configurations: which stage has which thread, and what a thread does that has nothing
//! to do (TPK-30 … TPK-33); what the paper found of each (TPK-39, TPK-42).
//!
//! Not here: measuring, the other process of C (the engine's). Where a machine has fewer cores than a
//! configuration has threads, the configuration is as near as that machine can come, and
//! [`Configuration::caveat`] says how.

use crate::settings::{self, Settings, Source};

use crate::failure::Failure;

/// One of the paper's configurations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Configuration {
    /// One processor: execution, logging and output on one thread, and threads that block.
    A,
    /// A multiprocessor with shared memory: a thread for each stage, and threads that spin.
    B,
    /// Two of them: the checkpoint stage is in another process.
    C,
}

/// What the paper prints of a configuration in Table 1 (TPK-39).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Printed {
    /// Transactions per second.
    pub tps: f64,
    /// The mean response time in milliseconds.
    pub mean_ms: f64,
    /// The longest one.
    pub max_ms: f64,
    /// How many percent of them were below a second.
    pub within_1s_percent: f64,
    /// Transactions of a group.
    pub group: u64,
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
    /// All of them.
    pub const ALL: [Self; 3] = [Self::A, Self::B, Self::C];

    /// Its name, as the paper and the command line have it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::A => "A",
            Self::B => "B",
            Self::C => "C",
        }
    }

    /// The configuration of this name.
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|configuration| configuration.name() == name)
    }

    /// What the paper prints of it.
    pub const fn printed(self) -> Printed {
        let (tps, mean_ms, max_ms, within_1s_percent, group) = match self {
            Self::A => (77.0, 480.0, 3_792.0, 96.0, 50),
            Self::B => (449.0, 505.0, 1_622.0, 97.0, 200),
            Self::C => (1_282.0, 509.0, 1_228.0, 96.0, 400),
        };
        Printed { tps, mean_ms, max_ms, within_1s_percent, group }
    }

    /// Sets which stage has which thread and process, as far as `settings` do not say otherwise, on
    /// a machine with so many cores.
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

    /// What makes it another one on a machine with so many cores than on the paper's; nothing where
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
