//! `dissect`: what each component of an engine costs, by taking them out one after the other.
//!
//! Every profile runs the same transactions on the same database: natively for times and for the
//! rows that are left, which have to be the same on all of them; under callgrind, or by the
//! processor's counter, for instructions. Names that mean the same type are measured once.
//!
//! Not here: how one profile is measured (`measure.rs`), what follows from the measurements
//! (`summary.rs`), what is printed.

use super::measure::{Found, Workbench};
use super::plan::DissectPlan;
use super::result::Dissection;
use super::summary;
use crate::failure::Failure;
use crate::plan::Counter;
use crate::progress::Progress;
use crate::settings;

/// Takes the engine apart.
///
/// # Errors
/// When a profile left other rows than the others, or inconsistent ones, with its rung; when the
/// machine cannot run or count it.
pub fn dissect(plan: &DissectPlan, progress: &mut dyn Progress) -> Result<Dissection, Failure> {
    let (counter, note) = Counter::choose(plan.settings.word(&settings::COUNTER))?;
    let mut bench = Workbench::new(plan, progress)?;
    bench.time(progress)?;
    bench.time_durable(progress)?;
    bench.count(counter, progress)?;
    let Found { profiles, mut notes, miss_ns } = bench.end();
    notes.extend(note);
    summary::summary(plan, counter, &profiles, notes, miss_ns)
}
