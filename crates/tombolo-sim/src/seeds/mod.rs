//! Many seeds: running them, and showing what became of them.

use crate::commit;
use crate::faults::FaultKind;
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
    /// Islands that commit transactions together.
    Commit,
}

impl Simulation {
    /// What runs one of its seeds.
    pub fn run_seed(self) -> RunSeed {
        match self {
            Self::Database => crate::run_seed,
            Self::Commit => commit::run_seed,
        }
    }

    /// The option that chooses it, with a space before it.
    pub(crate) const fn option(self) -> &'static str {
        match self {
            Self::Database => "",
            Self::Commit => " --commit",
        }
    }

    /// Its name in results.
    pub(crate) const fn experiment(self) -> &'static str {
        match self {
            Self::Database => "sim",
            Self::Commit => "sim-commit",
        }
    }

    /// What can go wrong in it, in the order in which that is reported.
    pub(crate) fn faults(self) -> impl Iterator<Item = FaultKind> {
        let is_of_it = move |kind: &FaultKind| match self {
            Self::Database => !kind.is_between_islands(),
            Self::Commit => kind.is_between_islands() || *kind == FaultKind::Crash,
        };
        FaultKind::all().filter(is_of_it)
    }
}
