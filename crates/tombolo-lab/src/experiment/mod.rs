//! Experiments: figures and tables of papers, reproduced, with the paper's numbers next to ours.
//!
//! A paper is a folder and a [`Paper`] in [`PAPERS`]. Figures and tables that are asked for together share
//! their runs. Not here: what is printed (`report/dissection.rs`).

pub mod islands;
pub mod looking_glass;
mod paper;
pub mod tpk;

use crate::failure::Failure;

pub use paper::{Paper, Reproduced, Reproducible, Wanted};

/// The papers of which something can be reproduced, in the order they are listed.
pub static PAPERS: [Paper; 3] = [looking_glass::PAPER, tpk::PAPER, islands::PAPER];

/// Everything that can be reproduced of any paper.
pub fn items() -> impl Iterator<Item = Reproducible> {
    PAPERS.iter().flat_map(|paper| paper.items).copied()
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
