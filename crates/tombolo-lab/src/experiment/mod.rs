//! Experiments: what a paper shows, made again here, its numbers next to ours.
//!
//! A paper is a folder and a [`Paper`] in [`PAPERS`]. Figures and tables that are asked for together share
//! their runs. Not here: what is printed (`report/dissection.rs`).

pub mod looking_glass;
pub mod tpk;

use std::time::Duration;

use serde_json::Value as Json;

use crate::failure::Failure;
use crate::progress::Progress;
use crate::settings::Settings;
use looking_glass::result::Reproduction;

/// Something of a paper that can be reproduced: a figure or a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reproducible {
    /// Its name on the command line: the paper's, and its own in it.
    pub id: &'static str,
    /// What it shows.
    pub title: &'static str,
}

/// What runs are made with.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The settings that were given.
    pub settings: Settings,
    /// Whether files may lie where nothing is kept.
    pub volatile_ok: bool,
    /// How long a terminal takes for a transaction, and for its answer, if it was said.
    pub terminal: Option<Duration>,
}

/// What was reproduced.
#[derive(Clone, Debug)]
pub struct Reproduced {
    /// The settings that were in effect.
    pub settings: Settings,
    /// What else identifies these results.
    pub header: Vec<(&'static str, Json)>,
    /// What was found, in the order it was asked for.
    pub found: Vec<Reproduction>,
}

/// A paper.
pub trait Paper: Sync {
    /// What can be reproduced of it, in its order.
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

/// The papers of which something can be reproduced, in the order they are listed.
pub static PAPERS: [&dyn Paper; 2] = [&looking_glass::LookingGlass, &tpk::Tpk];

/// Everything that can be reproduced of any paper.
pub fn items() -> impl Iterator<Item = Reproducible> {
    PAPERS.iter().flat_map(|paper| paper.items())
}

/// Refuses what no paper has.
///
/// # Errors
/// With the names there are.
pub fn verify(ids: &[String]) -> Result<(), Failure> {
    let unknown = ids.iter().find(|id| items().all(|item| item.id != **id));
    unknown.map_or(Ok(()), |id| {
        let ids = items().map(|item| item.id).collect::<Vec<_>>().join(", ");
        Err(Failure::usage(format!("there is no figure {id} in this version: use {ids}")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_figure_is_refused_with_those_there_are() {
        verify(&["lg/fig7".to_owned(), "tpk/table1".to_owned()]).unwrap();
        let refused = verify(&["lg/fig2".to_owned()]).unwrap_err();
        assert_eq!(refused.blame().status(), 2);
        assert!(refused.to_string().contains("lg/fig1"), "{refused}");
        let ids: std::collections::BTreeSet<_> = items().map(|item| item.id).collect();
        assert_eq!(ids.len(), items().count(), "no name is given twice");
    }
}
