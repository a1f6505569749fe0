//! What a demonstration does: which runs, in which order, and why each; then the engine taken apart.
//!
//! Small enough for a laptop with two cores, and for three minutes, whether or not there is
//! something to count instructions with. What is bounded by transactions leaves the same rows on
//! every machine. Not here: what is printed (`report/demo.rs`).

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use crate::settings::{Settings, Source};

use crate::experiment::looking_glass::ladder::Ladder;
use crate::experiment::looking_glass::plan::{DissectPlan, Scope};
use crate::failure::Failure;
use crate::files::{make_writable, unwritable};
use crate::plan::Plan;

/// The directory of the memory store that is kept, in the demonstration's.
pub const MEMORY_DATABASE: &str = "memory-database";
/// The directory of the paged store that is kept, in the demonstration's.
pub const DATABASE: &str = "database";
/// The results, one object a line.
pub const RESULTS: &str = "results.jsonl";
/// The same as a page.
pub const PAGE: &str = "report.html";

type Values = &'static [(&'static str, &'static str)];

/// One run of the demonstration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Its subject.
    pub title: &'static str,
    /// Its settings, besides the defaults.
    settings: Values,
    /// Where in the demonstration's directory its files are kept.
    data: Option<&'static str>,
}

/// The runs, in order.
pub static STEPS: &[Step] = &[
    Step {
        title: "In memory: profile memory, the five transactions of TPC-C, 1,024 calls under way",
        settings: &[
            ("profile", "memory"),
            ("mix", "standard"),
            ("durability", "none"),
            ("clients", "64"),
            ("in_flight", "16"),
            ("transactions", "500k"),
        ],
        data: None,
    },
    Step {
        title: "Durable: the same, and each answer waits until its log is on disk",
        settings: &[
            ("profile", "memory"),
            ("mix", "standard"),
            ("durability", "group"),
            ("clients", "64"),
            ("in_flight", "16"),
            ("seconds", "4s"),
        ],
        data: Some(MEMORY_DATABASE),
    },
    Step {
        title: "On pages: profile conventional, each answer waits until its log is on disk, 8 threads",
        settings: &[
            ("profile", "conventional"),
            ("mix", "standard"),
            ("durability", "group"),
            ("warehouses", "2"),
            ("threads", "8"),
            ("seconds", "8s"),
            ("latency_transactions", "5k"),
        ],
        data: Some(DATABASE),
    },
];

/// The settings of the dissection.
const DISSECTION: Values = &[
    ("warehouses", "1"),
    ("transactions", "5k"),
    ("counter", "auto"),
    ("counted", "300"),
    ("durability", "group"),
];

/// A slow disk may take no more of the demonstration than this, twice.
const DURABLE_MAX: Duration = Duration::from_secs(3);

/// The steps of a demonstration.
#[derive(Debug)]
pub struct Demonstration {
    /// The runs, with their settings.
    pub runs: Vec<(&'static Step, Settings, Plan)>,
    /// The dissection after them.
    pub dissection: DissectPlan,
}

impl Demonstration {
    /// A demonstration whose files lie in `directory`.
    ///
    /// # Errors
    /// When a setting is wrong, or the machine cannot run it.
    pub fn new(base: &Settings, directory: &Path) -> Result<Self, Failure> {
        let mut runs = Vec::new();
        for step in STEPS {
            let mut settings = with(base, step.settings)?;
            if let Some(name) = step.data {
                let data = directory.join(name).display().to_string();
                settings = with(&settings, &[("data", &data)])?;
            }
            let mut plan = Plan::new(&settings)?;
            // It says where its files lie, and what that is worth.
            plan.volatile_ok = true;
            plan.verify_machine()?;
            runs.push((step, settings, plan));
        }
        let scope = Scope { ladder: Ladder::Paper, only: None, lattice: false };
        let directory = directory.display().to_string();
        let settings = with(&with(base, DISSECTION)?, &[("data", &directory)])?;
        let mut dissection = DissectPlan::new(&settings, scope)?;
        dissection.volatile_ok = true;
        dissection.durable_max = DURABLE_MAX;
        dissection.variants = false;
        Ok(Self { runs, dissection })
    }
}

fn with(base: &Settings, values: &[(&str, &str)]) -> Result<Settings, Failure> {
    let mut settings = base.clone();
    for (name, value) in values {
        settings.set(name, value, Source::Flag)?;
    }
    Ok(settings)
}

/// Makes the directory that everything goes into. A directory that holds something is left alone.
///
/// # Errors
/// When it holds something, or cannot be made or written.
pub fn make_directory(path: &Path) -> Result<(), Failure> {
    match fs::read_dir(path).map(|mut entries| entries.next().is_some()) {
        Ok(true) => Err(Failure::usage(format!(
            "directory {} holds something already, perhaps an earlier demo: remove it or give --out another one",
            path.display()
        ))),
        Err(error) if error.kind() != ErrorKind::NotFound => Err(unwritable(path, "--out", &error)),
        _ => make_writable(path, "--out"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Blame;

    #[test]
    fn every_step_is_a_plan() {
        let parent = tempfile::tempdir().unwrap();
        let demo = Demonstration::new(&crate::settings::defaults(), parent.path()).unwrap();
        assert_eq!(demo.runs.len(), STEPS.len());
        let kept: Vec<_> = demo.runs.iter().filter_map(|(.., plan)| plan.data.clone()).collect();
        assert_eq!(kept, [MEMORY_DATABASE, DATABASE].map(|name| parent.path().join(name)));
        assert_eq!(demo.dissection.parent, parent.path());
        assert_eq!(demo.dissection.scope.ladder.steps().len(), 12);
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0, "nothing runs yet");
    }

    #[test]
    fn a_directory_in_use_is_left_alone() {
        let parent = tempfile::tempdir().unwrap();
        let out = parent.path().join("a/demo");
        make_directory(&out).unwrap();
        make_directory(&out).unwrap();
        fs::write(out.join(PAGE), b"x").unwrap();
        let refused = make_directory(&out).unwrap_err();
        assert_eq!(refused.blame(), Blame::Usage);
        assert!(refused.to_string().contains("remove it or give --out"), "{refused}");
        let refused = make_directory(&out.join(PAGE)).unwrap_err();
        assert_eq!(refused.blame(), Blame::Environment);
    }
}
