//! Many seeds: running them, and showing what became of them.

use crate::faults::FaultKind;
use crate::{commit, ordered};
use runner::RunSeed;
use tombolo_storage::plant::Plant;

pub mod report;
pub mod runner;

/// What seeds are run of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Subject {
    /// What they simulate.
    pub simulation: Simulation,
    /// The bug that is planted.
    pub plant: Option<Plant>,
}

/// What a seed is a seed of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Simulation {
    /// A database on a disk that crashes and lies.
    #[default]
    Database,
    /// Islands that commit transactions together by messages.
    Commit,
    /// Islands whose logs become durable together.
    Ordered,
}

impl Simulation {
    /// What runs one of its seeds.
    pub fn run_seed(self) -> RunSeed {
        match self {
            Self::Database => crate::run_seed,
            Self::Commit => commit::run_seed,
            Self::Ordered => ordered::run_seed,
        }
    }

    /// The option that chooses it, with a space before it.
    pub(crate) const fn option(self) -> &'static str {
        match self {
            Self::Database => "",
            Self::Commit => " --commit",
            Self::Ordered => " --ordered",
        }
    }

    /// Its name in results.
    pub(crate) const fn experiment(self) -> &'static str {
        match self {
            Self::Database => "sim",
            Self::Commit => "sim-commit",
            Self::Ordered => "sim-ordered",
        }
    }

    /// What can go wrong in it, in the order in which that is reported.
    pub(crate) fn faults(self) -> impl Iterator<Item = FaultKind> {
        let is_of_it = move |kind: &FaultKind| match self {
            Self::Database => !kind.is_between_islands() && *kind != FaultKind::LogCutOff,
            Self::Commit => kind.is_between_islands() || *kind == FaultKind::Crash,
            Self::Ordered => {
                (*kind as usize) <= FaultKind::Restored as usize && !kind.breaks_promise()
                    || *kind == FaultKind::LogCutOff
            }
        };
        FaultKind::all().filter(is_of_it)
    }
}
