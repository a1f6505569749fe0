//! Whose processes are killed: the memory store behind its pipeline, or the paged store with everything on.
//!
//! Not here: the flags that both have (`chain.rs`).

use crate::failure::Failure;

/// A profile of `tombolo run`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Profile {
    /// Rows in memory; an image on disk, and a pipeline.
    Memory,
    /// Rows in pages; each thread has a session.
    Conventional,
}

impl Profile {
    /// The one with this name.
    pub(super) fn named(name: &str) -> Result<Self, Failure> {
        match name {
            "memory" => Ok(Self::Memory),
            "conventional" => Ok(Self::Conventional),
            _ => Err(Failure::usage(format!(
                "kills: --profile {name} is not known: give memory or conventional"
            ))),
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Conventional => "conventional",
        }
    }

    /// The flags of every run: few callers, so that logs grow little while a kill is waited for, and so few bytes of
    /// log between checkpoints that the next one follows the last.
    pub(super) fn flags(self) -> &'static str {
        match self {
            Self::Memory => "--clients 8 --checkpoint-log-bytes 100KB",
            Self::Conventional => "--threads 4 --checkpoint-log-bytes 500KB",
        }
    }

    /// The flags of the run that loads the database.
    pub(super) fn flags_of_first(self) -> &'static str {
        match self {
            // A later run takes the most memory when it keeps a second copy of the rows.
            Self::Memory => "--checkpoint-copy memory",
            Self::Conventional => "--pool-bytes 32MB",
        }
    }

    /// The flags of the run with this number, of a chain whose runs have these seeds: others than the last one had.
    pub(super) fn flags_of_run(self, seed: u64, run: u32) -> String {
        let is_even = seed.is_multiple_of(2);
        match self {
            Self::Memory => {
                // Each opening chooses anew whether there is a second copy of the rows.
                let copy = if is_even { "memory" } else { "none" };
                let threads = 1 + run % CHECKPOINT_THREADS;
                format!("--checkpoint-copy {copy} --checkpoint-threads {threads}")
            }
            // All pages have room, or an eighth of them.
            Self::Conventional => {
                format!("--pool-bytes {}", if is_even { "200MB" } else { "12MB" })
            }
        }
    }
}

/// So many parts may write checkpoints.
const CHECKPOINT_THREADS: u32 = 2;
