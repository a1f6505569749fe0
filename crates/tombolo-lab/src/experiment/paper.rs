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

/// Declares a paper: what of it can be reproduced, in its order, each with its name on the command line and what it
/// shows; and the function that makes the runs that several of these need, and their results.
macro_rules! paper {
    (
        $(#[$attribute:meta])*
        $visible:vis enum $enum:ident {
            $($(#[$doc:meta])* $value:ident = $id:literal, $title:literal;)*
        }
        has_terminals: $has_terminals:literal,
        reproduce: $reproduce:path,
    ) => {
        /// The paper.
        pub const PAPER: $crate::experiment::Paper = $crate::experiment::Paper {
            items: &$enum::ITEMS,
            has_terminals: $has_terminals,
            reproduce: |ids, wanted, progress| {
                let items: Vec<$enum> = ids.iter().filter_map(|id| $enum::find(id)).collect();
                $reproduce(&items, wanted, progress)
            },
        };

        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $visible enum $enum {
            $($(#[$doc])* $value,)*
        }

        impl $enum {
            /// All of them.
            $visible const ALL: [Self; [$($id),*].len()] = [$(Self::$value),*];

            /// The names of all, and what they show.
            $visible const ITEMS: [$crate::experiment::Reproducible; Self::ALL.len()] =
                [$($crate::experiment::Reproducible { id: $id, title: $title }),*];

            /// Its name and what it shows.
            $visible const fn item(self) -> $crate::experiment::Reproducible {
                Self::ITEMS[self as usize]
            }

            /// The one of this name.
            $visible fn find(id: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|known| known.item().id == id)
            }

            /// What was found of it.
            $visible fn reproduction(
                self,
                rows: Vec<$crate::experiment::looking_glass::result::Row>,
                notes: Vec<String>,
            ) -> $crate::experiment::looking_glass::result::Reproduction {
                let id = self.item().id.to_owned();
                $crate::experiment::looking_glass::result::Reproduction { id, rows, notes }
            }
        }
    };
}
pub(super) use paper;

/// The settings and tools with which runs are made.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The settings that were given.
    pub settings: Settings,
    /// Whether files may be on a file system that keeps nothing.
    pub volatile_ok: bool,
    /// How long a terminal takes for a transaction, and for its answer; the paper's default if absent.
    pub terminal: Option<Duration>,
    /// Opens databases of islands in memory, which the library has, for the workload `rows` and for TPC-C.
    pub open_islands: (Open, tpcc::Open),
    /// The same for islands of paged stores; their files are temporary.
    pub open_paged_islands: (Open, tpcc::Open),
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
#[derive(Debug)]
pub struct Paper {
    /// Its figures and tables that can be reproduced, in its order.
    pub items: &'static [Reproducible],
    /// Whether its runs have terminals.
    pub has_terminals: bool,
    /// Reproduces those of its items that have these names; runs that several need are made once. Fails as the runs
    /// do.
    pub reproduce: fn(&[&str], &Wanted, &mut dyn Progress) -> Result<Reproduced, Failure>,
}
