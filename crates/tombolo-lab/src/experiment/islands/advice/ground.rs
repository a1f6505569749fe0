//! Deployments, and where their throughput comes from: the library's islands on this machine, or the model.
//!
//! Not here: what follows from it (`fits.rs`).

use tombolo_engine::islands::placement::Placement;
use tombolo_engine::islands::topology::Topology;

use super::{Commit, PlacementPoint, Question, Subject};
use crate::experiment::islands::deployments::{Callers, Effort, How};
use crate::experiment::islands::points;
use crate::experiment::islands::rows::Access;
use crate::failure::Failure;
use crate::model::{Islands, Load, Machine, Scenario};
use crate::numbers::rounded;

/// Transactions of a modelled point.
const TRANSACTIONS: u64 = 5_000;
/// The seed of the model.
const SEED: u64 = 47;

/// Where points come from.
#[derive(Clone, Copy, Debug)]
pub enum Ground<'m> {
    /// This machine, with its number of cores, and the library's islands.
    Here(usize),
    /// The model of another one.
    Model(&'m Machine),
}

/// A deployment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) islands: usize,
    pub(super) threads: usize,
    /// How transactions over several islands commit, if that is a choice.
    pub(super) is_ordered: bool,
}

impl Candidate {
    fn effort(self, question: &Question<'_>, how: How) -> Effort {
        Effort { callers: Callers::Each(self.threads), how, ..question.effort }
    }

    /// How transactions over several islands commit, where there is a choice.
    pub(super) fn commit(self, question: &Question<'_>) -> Option<Commit> {
        let commit = if self.is_ordered { Commit::Ordered } else { Commit::TwoPhase };
        (question.effort.is_durable && self.islands > 1).then_some(commit)
    }
}

impl Ground<'_> {
    const fn cores(&self) -> usize {
        match self {
            Self::Here(cores) => *cores,
            Self::Model(machine) => machine.cores(),
        }
    }

    pub(super) fn name(&self) -> String {
        match self {
            Self::Here(..) => "this machine".to_owned(),
            Self::Model(machine) => machine.name.clone(),
        }
    }

    /// Refuses a database too small for the finest deployment.
    pub(super) fn verify(&self, question: &Question<'_>) -> Result<(), Failure> {
        let Subject::Rows(Access { rows, touched, .. }, _) = question.subject else {
            return Ok(());
        };
        if (rows as usize / self.cores()) < touched {
            return Err(Failure::usage(format!(
                "{rows} rows are too few for transactions of {touched} on {} islands: give more --rows",
                self.cores()
            )));
        }
        Ok(())
    }

    /// Numbers of islands that divide the cores, each with its part of all callers, and in memory here also with one.
    /// On disk, with either way to commit.
    pub(super) fn candidates(&self, question: &Question<'_>) -> Vec<Candidate> {
        let (cores, is_durable) = (self.cores(), question.effort.is_durable);
        let callers = Callers::All(question.callers.unwrap_or(cores));
        let mut candidates = Vec::new();
        for islands in (1..=cores).filter(|islands| cores.is_multiple_of(*islands)) {
            let threads = callers.of_each(islands);
            let full = Candidate { islands, threads, is_ordered: false };
            candidates.push(full);
            if is_durable && islands > 1 {
                candidates.push(Candidate { is_ordered: true, ..full });
            }
            if !is_durable && threads > 1 && matches!(self, Self::Here(..)) {
                candidates.push(Candidate { threads: 1, ..full });
            }
        }
        candidates
    }

    /// Transactions a second of a deployment at each share.
    pub(super) fn measure(
        &self,
        question: &Question<'_>,
        of: Candidate,
        shares: &[u64],
    ) -> Result<Vec<f64>, Failure> {
        if shares.is_empty() {
            return Ok(Vec::new());
        }
        match (self, question.subject) {
            (Self::Here(_), Subject::Rows(access, open)) => {
                let how = How { is_ordered: of.is_ordered, ..How::default() };
                let open = |islands, rows| open(islands, rows, how, question.data);
                let points = (&[of.islands as u16][..], shares);
                let found = points::measure(open, points, (&access, &of.effort(question, how)))?;
                Ok(found.into_iter().map(|found| found.tps).collect())
            }
            (Self::Here(_), Subject::Trace(workload, open)) => {
                workload.measure(open, of.islands, shares, &of.effort(question, How::default()))
            }
            (Self::Model(machine), subject) => {
                let Subject::Rows(access, _) = subject.modelled(self.cores()) else {
                    unreachable!("the model knows rows")
                };
                let Access { touched, is_update, rows, skew } = access;
                let skew = (skew > 0).then(|| f64::from(skew) / 100.0);
                let load = |share| {
                    let load = Load::rows(touched, is_update, share);
                    Load { rows: rows as u64, skew, ..load }
                };
                let islands = Islands::grouped(of.islands);
                let run = |&share| {
                    Scenario::new(machine, islands, load(share), TRANSACTIONS, SEED).run().tps
                };
                Ok(shares.iter().map(run).collect())
            }
        }
    }

    /// Transactions a second of a deployment at the share at hand, by the cores that its threads and callers are on:
    /// where the system puts them, and each placement that differs on this machine. None of a trace, nor of the model.
    pub(super) fn placements(
        &self,
        question: &Question<'_>,
        of: Candidate,
    ) -> Result<Vec<PlacementPoint>, Failure> {
        let (Self::Here(_), Subject::Rows(access, open)) = (self, question.subject) else {
            return Ok(Vec::new());
        };
        let (machine, mut seen) = (Topology::of_machine(), Vec::new());
        let differs = |placement: &Placement| {
            let cores = placement.cores(&machine, of.islands, 1);
            let is_new = !seen.contains(&cores);
            seen.push(cores);
            is_new
        };
        let placements: Vec<_> = Placement::ALL.into_iter().filter(differs).collect();
        let databases = placements.iter().map(|&placement| {
            let how = How { placement, is_ordered: of.is_ordered, ..How::default() };
            open(of.islands as u16, access.rows, how, question.data)
        });
        let databases = databases.collect::<Result<Vec<_>, _>>()?;
        let effort = of.effort(question, How::default());
        let measured = points::measure_on(&databases, &[question.multisite], (&access, &effort))?;
        let found = placements.iter().zip(measured).map(|(placement, measured)| PlacementPoint {
            placement: placement.name().to_owned(),
            measured_tps: rounded(measured.tps, 1),
        });
        Ok(found.collect())
    }

    /// The cores that execute transactions of a deployment.
    pub(super) fn working(&self, of: Candidate) -> f64 {
        match self {
            Self::Model(machine) if !machine.serial_islands => machine.cores() as f64,
            // A memory store executes one transaction at a time.
            _ => of.islands as f64,
        }
    }
}
