//! A paper: its figures and tables that can be reproduced.
//!
//! Not here: which papers there are (`mod.rs`).

use std::time::Duration;

use crate::settings::Settings;
use serde_json::Value as Json;

use super::islands::points::Open;
use super::islands::tpcc;
use super::looking_glass::result::Reproduction;
use crate::failure::Failure;
use crate::progress::Progress;

/// Something of a paper that can be reproduced: a figure or a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reproducible {
    /// Its name on the command line: the paper's, and its own in it.
    pub id: &'static str,
    /// Its subject.
    pub title: &'static str,
}

/// Declares what of a paper can be reproduced, in its order: each with its name on the command line and what it shows.
macro_rules! reproducible {
    (
        $(#[$attribute:meta])*
        $visible:vis enum $enum:ident {
            $($(#[$doc:meta])* $value:ident = $id:literal, $title:literal;)*
        }
    ) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $visible enum $enum {
            $($(#[$doc])* $value,)*
        }

        impl $enum {
            /// All of them.
            $visible const ALL: [Self; [$($id),*].len()] = [$(Self::$value),*];

            /// Its name and what it shows.
            $visible const fn item(self) -> $crate::experiment::Reproducible {
                let (id, title) = match self {
                    $(Self::$value => ($id, $title),)*
                };
                $crate::experiment::Reproducible { id, title }
            }

            /// The one of this name.
            $visible fn find(id: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|known| known.item().id == id)
            }
        }
    };
}
pub(super) use reproducible;

/// The settings and tools with which runs are made.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The settings that were given.
    pub settings: Settings,
    /// Whether files may lie where nothing is kept.
    pub volatile_ok: bool,
    /// How long a terminal takes for a transaction, and for its answer, if it was said.
    pub terminal: Option<Duration>,
    /// Opens databases of islands in memory, which the library has, for the workload `rows` and for TPC-C.
    pub open_islands: (Open, tpcc::Open),
    /// Opens databases of islands of paged stores, with files that are of use only meanwhile, for the workload `rows`.
    pub open_paged_islands: Open,
}

/// A reproduction.
#[derive(Clone, Debug)]
pub struct Reproduced {
    /// The settings that were in effect.
    pub settings: Settings,
    /// Further settings that identify these results.
    pub header: Vec<(&'static str, Json)>,
    /// The results, in the order of the request.
    pub found: Vec<Reproduction>,
}

/// A paper.
pub trait Paper: Sync {
    /// Its figures and tables that can be reproduced, in its order.
    fn items(&self) -> Vec<Reproducible>;

    /// Whether its runs have terminals.
    fn has_terminals(&self) -> bool {
        false
    }

    /// Reproduces those of its items that are called `ids`; runs that several need are made once.
    ///
    /// # Errors
    /// As the runs do.
    fn reproduce(
        &self,
        ids: &[&str],
        wanted: &Wanted,
        progress: &mut dyn Progress,
    ) -> Result<Reproduced, Failure>;
}
