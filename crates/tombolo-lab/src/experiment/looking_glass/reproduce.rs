//! What the paper's figures need together, run once; ours are read off it.
//!
//! Not here: the figures themselves (`figures.rs`), running (`dissect.rs`).

use crate::settings::{self, Settings, Source};

use super::dissect::dissect;
use super::figures::Figure;
use super::ladder::{Ladder, lattice_without};
use super::plan::{DissectPlan, Scope};
use super::result::Component;
use crate::experiment::{Paper, Reproduced, Wanted};
use crate::failure::Failure;
use crate::progress::Progress;

/// The paper.
pub const PAPER: Paper = Paper { items: &Figure::ITEMS, has_terminals: false, reproduce };

fn reproduce(
    ids: &[&str],
    wanted: &Wanted,
    progress: &mut dyn Progress,
) -> Result<Reproduced, Failure> {
    let figures: Vec<Figure> = ids.iter().filter_map(|id| Figure::find(id)).collect();
    let mut plan = plan(&wanted.settings, &figures)?;
    plan.volatile_ok = wanted.volatile_ok;
    let dissection = dissect(&plan, progress)?;
    let found = figures.iter().map(|figure| figure.reproduce(&dissection)).collect();
    Ok(Reproduced { header: plan.scope.header(), settings: plan.settings, found })
}

/// The runs that `figures` need together.
///
/// # Errors
/// As [`DissectPlan::new`].
fn plan(settings: &Settings, figures: &[Figure]) -> Result<DissectPlan, Failure> {
    let mut settings = settings.clone();
    if figures.iter().all(|figure| *figure == Figure::Throughput) {
        // It has no instructions in it.
        settings.set(settings::COUNTER.name, "none", Source::Flag)?;
    }
    let scope = Scope { ladder: Ladder::Paper, only: None, lattice: false };
    let mut plan = DissectPlan::new(&settings, scope)?;
    if figures.contains(&Figure::Table1) {
        // One of its rows removes two components.
        plan.points.push(lattice_without(&[Component::Locking, Component::Latching]));
    }
    Ok(plan)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Settings {
        let mut settings = settings::defaults();
        for (name, value) in [("warehouses", "1"), ("transactions", "300")] {
            settings.set(name, value, Source::Flag).unwrap();
        }
        settings
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
