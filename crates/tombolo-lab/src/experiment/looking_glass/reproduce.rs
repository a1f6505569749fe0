//! `paper`: runs what a figure of the paper needs, and puts ours next to it.
//!
//! Not here: the figures themselves (`figures.rs`), running (`dissect.rs`).

use tombolo_engine::settings::{self, Settings, Source};

use super::dissect::{DissectPlan, Scope, dissect};
use super::figures::Figure;
use super::ladder::{Ladder, lattice_point};
use super::result::{Component, Dissection, Reproduction};
use crate::experiment::tpk::table::Table;
use crate::failure::Failure;
use crate::progress::Progress;

/// A figure of any paper that this version can reproduce, by its name.
///
/// # Errors
/// With the names there are.
pub fn find(id: &str) -> Result<Figure, Failure> {
    Figure::find(id).ok_or_else(|| {
        let ids = Figure::ALL.map(Figure::id).into_iter().chain(Table::ALL.map(Table::id));
        let ids = ids.collect::<Vec<_>>().join(", ");
        Failure::usage(format!("there is no figure {id} in this version: use {ids}"))
    })
}

/// What `figures` need together.
///
/// # Errors
/// As [`DissectPlan::new`].
pub fn plan(settings: &Settings, figures: &[Figure]) -> Result<DissectPlan, Failure> {
    let mut settings = settings.clone();
    if figures.iter().all(|figure| *figure == Figure::Throughput) {
        // It has no instructions in it.
        settings.set(settings::COUNTER.name, "none", Source::Flag)?;
    }
    let scope = Scope { ladder: Ladder::Paper, only: None, lattice: false };
    let mut plan = DissectPlan::new(&settings, scope)?;
    if figures.contains(&Figure::Table1) {
        // One of its rows removes two components.
        let off =
            |component: &Component| [Component::Locking, Component::Latching].contains(component);
        let mask = Component::MAIN.iter().enumerate().filter(|(_, component)| off(component));
        plan.points.push(lattice_point(mask.map(|(i, _)| 1 << i).sum()));
    }
    Ok(plan)
}

/// Runs `plan` and reads `figures` off what it finds.
///
/// # Errors
/// As [`dissect`].
pub fn reproduce(
    plan: &DissectPlan,
    figures: &[Figure],
    progress: &mut dyn Progress,
) -> Result<(Dissection, Vec<Reproduction>), Failure> {
    let dissection = dissect(plan, progress)?;
    let reproductions = figures.iter().map(|figure| figure.reproduce(&dissection)).collect();
    Ok((dissection, reproductions))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Settings {
        let mut settings = Settings::default();
        for (name, value) in [("warehouses", "1"), ("transactions", "300")] {
            settings.set(name, value, Source::Flag).unwrap();
        }
        settings
    }

    #[test]
    fn an_unknown_figure_is_refused_with_those_there_are() {
        assert_eq!(find("lg/fig7"), Ok(Figure::Fig7));
        let refused = find("lg/fig2").unwrap_err();
        assert_eq!(refused.blame().status(), 2);
        assert!(refused.to_string().contains("lg/fig1"), "{refused}");
    }

    #[test]
    fn a_table_with_two_components_off_measures_that_point() {
        let plan = plan(&settings(), &[Figure::Table1]).unwrap();
        assert_eq!(plan.points, ["lattice-11001"]);
        assert!(plan.profiles().contains(&"lattice-11001"));
    }

    #[test]
    fn throughput_counts_nothing() {
        let mut settings = settings();
        settings.set("counter", "auto", Source::Flag).unwrap();
        let counter = |figures: &[Figure]| {
            plan(&settings, figures).unwrap().settings.word(&settings::COUNTER).to_owned()
        };
        assert_eq!(counter(&[Figure::Throughput]), "none");
        assert_eq!(counter(&[Figure::Throughput, Figure::Fig1]), "auto");
    }
}
