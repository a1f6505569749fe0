//! What a demonstration does: which runs, in which order, and why each.
//!
//! Bounded by transactions, not by time: the state that is left, and so its hash, is the same on
//! every machine and for both profiles. Small enough for a laptop, and for three minutes. Not here:
//! what is printed (`report/demo.rs`).

use tombolo_engine::settings::{Settings, Source};

use crate::counting::Counter;
use crate::failure::Failure;
use crate::report::run::RunResult;

/// One run of the demonstration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// What it shows.
    pub title: &'static str,
    /// Its settings, besides the defaults.
    settings: &'static [(&'static str, &'static str)],
    /// Whether it counts instructions, where something can.
    counts: bool,
}

/// The runs, in order.
pub static STEPS: &[Step] = &[
    Step {
        title: "The five transactions of TPC-C on the default profile, which can undo what it changed",
        settings: &[("profile", "memory"), ("mix", "standard"), ("transactions", "1M")],
        counts: false,
    },
    Step {
        title: "The two transactions the paper \"OLTP Through the Looking Glass\" measured",
        settings: &[("profile", "memory"), ("mix", "paper"), ("transactions", "1M")],
        counts: false,
    },
    Step {
        title: "The same on profile bare: no undo, nothing but rows and indexes",
        settings: &[("profile", "bare"), ("mix", "paper"), ("transactions", "1M")],
        counts: false,
    },
    Step {
        title: "Where the instructions go (a smaller database: 1 warehouse)",
        settings: &[
            ("profile", "memory"),
            ("mix", "paper"),
            ("warehouses", "1"),
            ("transactions", "200k"),
            ("counted", "1k"),
        ],
        counts: true,
    },
];

/// The settings of each step.
///
/// # Errors
/// When one does not take its value.
pub fn settings_of_steps(base: &Settings) -> Result<Vec<Settings>, Failure> {
    let settings_of = |step: &Step| {
        let mut settings = base.clone();
        let counter = step.counts.then_some(("counter", "auto"));
        for (name, value) in step.settings.iter().copied().chain(counter) {
            let set = settings.set(name, value, Source::Flag);
            set.map_err(|error| Failure::usage(error.to_string()))?;
        }
        Ok(settings)
    };
    STEPS.iter().map(settings_of).collect()
}

/// Whether this machine can count instructions.
pub fn can_count() -> bool {
    matches!(Counter::choose("auto"), Ok((Some(_), _)))
}

/// Verifies that runs which did the same left the same rows.
///
/// # Errors
/// When two did not.
pub fn verify_states(results: &[RunResult]) -> Result<(), Failure> {
    for (i, result) in results.iter().enumerate() {
        let same = |other: &&RunResult| {
            (other.mix, other.warehouses, other.committed)
                == (result.mix, result.warehouses, result.committed)
        };
        if let Some(other) = results[..i].iter().find(same)
            && other.state_hash != result.state_hash
        {
            return Err(Failure::check(format!(
                "profiles {} and {} left different rows ({} and {}): please report it",
                other.profile,
                result.profile,
                other.state(),
                result.state()
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Plan;

    #[test]
    fn every_step_is_a_plan() {
        let steps = settings_of_steps(&Settings::default()).unwrap();
        assert_eq!(steps.len(), STEPS.len());
        let plans: Vec<_> = steps.iter().map(|step| Plan::new(step).unwrap()).collect();
        assert_eq!(plans.iter().filter(|plan| plan.counter == "auto").count(), 1);
        assert!(plans.iter().filter(|plan| plan.counter == "auto").all(|p| p.warehouses == 1));
    }
}
