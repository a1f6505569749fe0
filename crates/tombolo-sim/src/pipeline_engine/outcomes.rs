//! The outcomes of calls, as the pipeline reports them, and what all of them left behind.
//!
//! Not here: whether that is right (`replies.rs`, `oracle/history.rs`).

use tombolo_engine::pipeline::{CheckpointHandle, Failure};
use tombolo_engine::transaction::Stop;
use tombolo_storage::error::Error;
use tombolo_storage::store::Store;

use crate::faults::FaultCounts;
use crate::oracle::{Rule, Violation};
use crate::workload::identified::aborted;
use crate::workload::model::Outcome;
use crate::workload::store::contents;
use crate::world::World;

/// Whether a snapshot's images took more memory than they may: it has ended and says so.
pub(super) fn has_ended_early(outcome: &Result<u64, Failure>) -> bool {
    matches!(outcome, Err(Failure::Stopped(Stop::Error(Error::SnapshotEnded { .. }))))
}

/// What a caller is answered, in the model's terms.
pub(super) fn outcome_of(outcome: &Result<u64, Failure>) -> Option<Outcome> {
    match outcome {
        Ok(answer) => Some(Outcome::Committed(*answer)),
        Err(Failure::Stopped(Stop::Abort(reason))) => Some(aborted(reason)),
        Err(Failure::Stopped(Stop::Error(_))) => None,
        Err(Failure::Panicked(_)) => Some(Outcome::Panicked),
    }
}

/// After all that ran, the store holds what the model holds.
pub(super) fn judge_rows<S: Store>(store: &mut S, world: &World) -> Result<(), Violation> {
    let found = contents(store).map_err(|what| Violation::new(Rule::SoundStore, what))?;
    match found.difference(world.history.state()) {
        None => Ok(()),
        Some(what) => Err(Violation::new(Rule::SoundStore, format!("after closing: {what}"))),
    }
}

/// Checks that a demand for a checkpoint got the right answer, and that checkpoints end, for this `failure`,
/// only if a call to the disk failed since its faults were `before`.
///
/// # Errors
/// The rule that does not hold.
pub(super) fn judge_checkpoints(
    asked: &[CheckpointHandle],
    failure: Option<&str>,
    before: &FaultCounts,
    world: &World,
) -> Result<(), Violation> {
    if asked.iter().any(|asked| asked.poll().is_none()) {
        let what = "a checkpoint that was asked for was never answered";
        return Err(Violation::new(Rule::Progress, what));
    }
    let has_failed = world.disk.counts().has_failed_since(before);
    match failure {
        // A process that finds no room to begin is started again, but only so often.
        Some(why) if world.swarm.has_remote_checkpoints() && why.contains("full") => Ok(()),
        Some(why) if !has_failed && !world.has_broken_promises() => {
            let what = format!("checkpoints ended without cause: {why}");
            Err(Violation::new(Rule::JustRefusal, what))
        }
        _ => Ok(()),
    }
}
