//! How transactions ended, and how long they took, by kind.
//!
//! Not here: running them.

use tombolo_engine::transaction::Stop;
use tombolo_storage::error::Error;

use crate::failure::Failure;
use crate::histogram::Latencies;
use crate::workload::{KINDS_MAX, Kind};

/// Latencies, by kind at its place.
pub type ByKind = [Latencies; KINDS_MAX];

/// How many transactions ended which way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcomes {
    /// Committed.
    pub committed: u64,
    /// Aborted by their own decision.
    pub aborted: u64,
}

/// How transactions ended, by kind and reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// By kind, at its place.
    pub kinds: [Outcomes; KINDS_MAX],
    /// Aborts by reason.
    pub reasons: Vec<(&'static str, u64)>,
    /// How many of the aborts were tried again.
    pub retried: u64,
}

impl Tally {
    /// Counts a commit.
    #[inline(always)]
    pub fn committed(&mut self, kind: Kind) {
        self.kinds[kind.place()].committed += 1;
    }

    /// Counts an abort, or passes on what no run survives.
    ///
    /// # Errors
    /// When the store refused a call: inputs are valid, so that is no outcome but a failure.
    #[cold]
    pub fn stopped(&mut self, kind: Kind, stop: Stop) -> Result<(), Stop> {
        let Stop::Abort(reason) = stop else { return Err(stop) };
        self.aborted(kind, reason);
        Ok(())
    }

    /// Counts an abort.
    #[cold]
    pub fn aborted(&mut self, kind: Kind, reason: &'static str) {
        self.kinds[kind.place()].aborted += 1;
        self.add_reason(reason, 1);
    }

    /// Counts a try that gave way to another transaction: an abort, after which comes another try.
    #[cold]
    pub fn gave_way(&mut self, kind: Kind, reason: &'static str) {
        self.aborted(kind, reason);
        self.retried += 1;
    }

    fn add_reason(&mut self, reason: &'static str, more: u64) {
        match self.reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, count)) => *count += more,
            None => self.reasons.push((reason, more)),
        }
    }

    /// Adds what another thread counted.
    pub fn add(&mut self, other: &Self) {
        for (sum, outcomes) in self.kinds.iter_mut().zip(&other.kinds) {
            sum.committed += outcomes.committed;
            sum.aborted += outcomes.aborted;
        }
        other.reasons.iter().for_each(|(reason, count)| self.add_reason(reason, *count));
        self.retried += other.retried;
    }

    /// Inputs that are done with, one way or the other.
    pub fn done(&self) -> u64 {
        let total = self.total();
        total.committed + total.aborted - self.retried
    }

    /// Both ways, over all kinds.
    pub fn total(&self) -> Outcomes {
        let add = |a: Outcomes, b: &Outcomes| Outcomes {
            committed: a.committed + b.committed,
            aborted: a.aborted + b.aborted,
        };
        self.kinds.iter().fold(Outcomes::default(), add)
    }
}

/// The failure of a run that a store ended.
pub fn stopped(stop: Stop, done: u64) -> Failure {
    let text = format!("the run ended after {done} transactions: {stop}");
    match stop {
        Stop::Error(Error::NoSpace { .. } | Error::Disk { .. } | Error::LogFull { .. }) => {
            Failure::environment(text)
        }
        _ => Failure::check(text),
    }
}
