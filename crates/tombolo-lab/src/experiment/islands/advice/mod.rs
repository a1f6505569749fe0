//! `advise`: how many islands, how many callers of each, how they commit and where they run, for a workload (ISL-4,
//! ISL-32, ISL-33).
//!
//! A few points are measured, local and multisite; from these follow what a local and what a distributed transaction
//! costs by number of islands, and from those, by ISL-4's formula with costs, the throughput of every
//! deployment at the share at hand. On disk each number of islands is measured with either way to commit. The machine
//! is this one, with the library's islands, or one that a file describes, through the model.
//!
//! | file | |
//! |---|---|
//! | `ground.rs` | deployments, and where their throughput comes from |
//! | `fits.rs` | costs, and predictions from them |
//!
//! Not here: arguments, the library, the model.

mod fits;
mod ground;

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::deployments::{Effort, How};
use super::rows::{Access, RowsDeployment};
use super::traced::{TraceSummary, Workload, replay};
use crate::experiment::looking_glass::result::Source;
use crate::failure::Failure;
use crate::numbers::rounded;
use crate::progress::Progress;
use crate::sweep::Spread;

use fits::Fits;
use ground::Candidate;
pub use ground::Ground;

/// A deployment is preferred to one with more islands that is faster by no more than this, in percent.
const LEVEL_PERCENT: f64 = 3.0;
/// Shares at which `--verify` measures deployments besides the one at hand, in percent.
const VERIFIED: [u64; 5] = [5, 10, 20, 50, 75];
/// The low end of the fit, in percent, where the share at hand is not 0: local transactions cost more next to
/// distributed ones, whose locks they meet and, on the paper's engine, have to take as well (ISL-17).
const LOW: u64 = 2;

/// Opens a database with a number of islands, for the keys from 1 to the second number: in a directory of its own below
/// the path, or in memory.
pub type Open = fn(u16, i32, How, Option<&Path>) -> Result<Box<dyn RowsDeployment>, Failure>;

/// The transactions that advice is about, and what opens a database of islands for them.
#[derive(Clone, Copy, Debug)]
pub enum Subject<'q> {
    /// Those of the workload `rows`.
    Rows(Access, Open),
    /// The calls of a trace.
    Trace(&'q Workload, replay::Open),
}

/// What advice is about.
#[derive(Clone, Copy, Debug)]
pub struct Question<'q> {
    /// The transactions.
    pub subject: Subject<'q>,
    /// How each point is measured; its number of callers, and how databases are opened, are not used.
    pub effort: Effort,
    /// Callers in all, at least one for each island; a caller for each core if none are given.
    pub callers: Option<usize>,
    /// Where the databases are, if answers are durable.
    pub data: Option<&'q Path>,
    /// The share of multisite transactions, in percent.
    pub multisite: u64,
    /// Whether all deployments are measured at that share, and at others.
    pub verify: bool,
}

/// A deployment at a share of multisite transactions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "docs/cli.md says what each field means")]
pub struct AdvicePoint {
    pub islands: usize,
    pub threads: usize,
    pub multisite_percent: u64,
    pub predicted_tps: f64,
    pub measured_tps: Option<f64>,
    pub used_for_fit: bool,
    /// Where there is a choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<Commit>,
}

/// How transactions over several islands commit on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Commit {
    /// By two-phase commit.
    TwoPhase,
    /// In one order.
    Ordered,
}

/// The chosen deployment with its threads on other cores.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "docs/cli.md says what each field means")]
pub struct PlacementPoint {
    pub placement: String,
    pub measured_tps: f64,
}

/// What transactions cost with a number of islands, in microseconds of one core.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "docs/cli.md says what each field means")]
pub struct Fitted {
    pub islands: usize,
    pub threads: usize,
    pub local_us: f64,
    /// Of a trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub together_us: Option<f64>,
    pub distributed_us: Option<f64>,
    pub participants: f64,
    /// Where there is a choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<Commit>,
}

/// A deployment and what it is expected to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "docs/cli.md says what each field means")]
pub struct Chosen {
    pub islands: usize,
    pub threads: usize,
    pub predicted_tps: f64,
    pub worst_case_tps: f64,
    /// Where there is a choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<Commit>,
    /// Where it was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<String>,
}

/// A result of `advise`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "docs/cli.md says what each field means")]
pub struct AdviceResult {
    pub workload: String,
    pub kind: String,
    pub multisite_percent: u64,
    pub machine: String,
    pub source: Source,
    pub fitted: Vec<Fitted>,
    pub points: Vec<AdvicePoint>,
    pub chosen: Chosen,
    /// Where they were measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub placements: Vec<PlacementPoint>,
    pub prediction_error_percent: Option<f64>,
    pub within_best_percent: Option<f64>,
    /// Of a trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceSummary>,
}

impl AdviceResult {
    /// What it is about besides its settings: advice for other transactions, or for another machine than this one, is
    /// other advice.
    pub fn about(&self) -> [(&'static str, Json); 2] {
        let modelled = (self.source == Source::Modelled).then(|| self.machine.clone());
        [("transaction", self.kind.clone().into()), ("machine", modelled.into())]
    }
}

impl Subject<'_> {
    const fn workload(&self) -> &'static str {
        match self {
            Self::Rows(..) => "rows",
            Self::Trace(..) => "trace",
        }
    }

    /// What the transactions do, in a word.
    fn kind(&self) -> String {
        match self {
            Self::Rows(access, _) => access.kind(),
            Self::Trace(..) => "replay".to_owned(),
        }
    }

    /// The share of multisite transactions that need more than their home island, and how many islands those use.
    fn spread(&self, islands: usize) -> (f64, f64) {
        let access = match self {
            Self::Rows(access, _) => access,
            Self::Trace(workload, _) => return workload.spread_over(islands),
        };
        let (islands, others) = (islands as f64, access.touched as f64 - 1.0);
        let all_home = islands.recip().powf(others);
        let remote = (islands - 1.0) * (1.0 - (1.0 - islands.recip()).powf(others));
        let distributed = 1.0 - all_home;
        (distributed, if distributed > 0.0 { 1.0 + remote / distributed } else { 1.0 })
    }

    /// Transactions of the model that are like these: it replays nothing, and knows no keys.
    fn modelled(&self, cores: usize) -> Self {
        match *self {
            Self::Rows(access, open) => Self::Rows(access, open),
            Self::Trace(workload, _) => {
                let (touched, is_update, rows) = workload.as_rows();
                let rows = rows.max((touched * cores) as u64).min(i32::MAX as u64) as i32;
                let none = |_, _, _: How, _: Option<&Path>| {
                    Err(Failure::usage("the model opens no database"))
                };
                Self::Rows(Access { rows, touched, is_update, skew: 0 }, none)
            }
        }
    }
}

/// Advises.
///
/// # Errors
/// What a database returns.
pub fn advise(
    question: &Question<'_>,
    ground: Ground<'_>,
    progress: &mut dyn Progress,
) -> Result<AdviceResult, Failure> {
    let asked = question.subject;
    let question = &match ground {
        Ground::Here(_) => *question,
        Ground::Model(machine) => {
            Question { subject: asked.modelled(machine.cores()), ..*question }
        }
    };
    let candidates = ground.candidates(question);
    ground.verify(question)?;
    let fitted = measured_ones(&candidates);
    let mut fits = Fits::new(question, ground);
    let mut points = Vec::new();
    let ends = [question.multisite.min(LOW), 100];
    progress.begin("advise");
    let is_wanted =
        |share: &u64| *share == question.multisite || (question.verify && VERIFIED.contains(share));
    let between: Vec<u64> = (ends[0] + 1..100).filter(is_wanted).collect();
    let shares = [&ends[..1], &between, &ends[1..]].concat();
    for (done, &of) in candidates.iter().enumerate() {
        progress.part(done as f64 / candidates.len() as f64, "measured");
        let is_fitted = |share: &u64| fitted.contains(&of) && ends.contains(share);
        // In one go, so that all shares have their rounds at the same time.
        let wanted = shares.iter().copied().filter(|share| question.verify || is_fitted(share));
        let wanted: Vec<u64> = wanted.collect();
        let measured = ground.measure(question, of, &wanted)?;
        let tps =
            |share: u64| wanted.iter().position(|wanted| *wanted == share).map(|at| measured[at]);
        if let Some((low, high)) = tps(ends[0]).zip(tps(ends[1])).filter(|_| is_fitted(&ends[0])) {
            fits.add(of, ends, [low, high]);
        }
        points.extend(shares.iter().map(|share| (of, *share, tps(*share), is_fitted(share))));
    }
    progress.end();
    let points = points.into_iter().map(|(of, share, tps, used_for_fit)| AdvicePoint {
        islands: of.islands,
        threads: of.threads,
        multisite_percent: share,
        predicted_tps: rounded(fits.predict(of, share), 1),
        measured_tps: tps.map(|tps| rounded(tps, 1)),
        used_for_fit,
        commit: of.commit(question),
    });
    let points: Vec<AdvicePoint> = points.collect();
    let (of, mut chosen) = fits.choose(&candidates);
    let placements = ground.placements(question, of)?;
    chosen.placement = best_placement(&placements);
    Ok(AdviceResult {
        workload: asked.workload().to_owned(),
        kind: question.subject.kind(),
        multisite_percent: question.multisite,
        machine: ground.name(),
        source: if matches!(ground, Ground::Here(..)) {
            Source::Measured
        } else {
            Source::Modelled
        },
        fitted: fits.listed(),
        prediction_error_percent: error_percent(&points),
        within_best_percent: within_best(&points, &chosen, question.multisite),
        points,
        chosen,
        placements,
        trace: None,
    })
}

/// The candidates that are measured: all, if they are few; otherwise some of each family.
fn measured_ones(candidates: &[Candidate]) -> Vec<Candidate> {
    let family = |lone: bool, is_ordered: bool| {
        let is_kin = |of: &Candidate| (of.threads == 1) == lone && of.is_ordered == is_ordered;
        let of: Vec<Candidate> = candidates.iter().copied().filter(is_kin).collect();
        let last = of.len().saturating_sub(1);
        let wanted = [0, 1, last / 2, last];
        let place = |at: &usize| wanted.contains(at) || of.len() <= 4;
        (0..of.len()).filter(place).map(|at| of[at]).collect::<Vec<_>>()
    };
    [family(false, false), family(true, false), family(false, true), family(true, true)].concat()
}

/// The placement to choose: the system's, unless another one was clearly faster.
fn best_placement(measured: &[PlacementPoint]) -> Option<String> {
    let of_system = measured.first()?;
    let best = measured.iter().max_by(|a, b| a.measured_tps.total_cmp(&b.measured_tps))?;
    let is_clear = best.measured_tps > of_system.measured_tps * (1.0 + LEVEL_PERCENT / 100.0);
    Some(if is_clear { best } else { of_system }.placement.clone())
}

/// The median error of predictions where something was measured that was not used for the fit.
fn error_percent(points: &[AdvicePoint]) -> Option<f64> {
    let error = |point: &AdvicePoint| {
        let measured = point.measured_tps.filter(|_| !point.used_for_fit)?;
        Some(100.0 * (point.predicted_tps / measured - 1.0).abs())
    };
    let errors: Vec<f64> = points.iter().filter_map(error).collect();
    (!errors.is_empty()).then(|| rounded(Spread::of(errors).median, 2))
}

/// How far the chosen deployment is behind the best one measured at the share at hand.
fn within_best(points: &[AdvicePoint], chosen: &Chosen, share: u64) -> Option<f64> {
    let verified = points.iter().any(|point| !point.used_for_fit && point.measured_tps.is_some());
    let measured = points.iter().filter(|point| point.multisite_percent == share && verified);
    let measured = measured.filter_map(|point| Some((point, point.measured_tps?)));
    let measured: Vec<_> = measured.collect();
    let best = measured.iter().map(|(_, tps)| *tps).fold(0.0, f64::max);
    let is_chosen = |point: &AdvicePoint| {
        (point.islands, point.threads, point.commit)
            == (chosen.islands, chosen.threads, chosen.commit)
    };
    let of_chosen = measured.iter().find(|(point, _)| is_chosen(point))?.1;
    Some(rounded(100.0 * (1.0 - of_chosen / best), 2))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use super::super::deployments::Callers;
    use super::*;
    use crate::model::Machine;
    use crate::report::Header;

    pub(super) fn effort() -> Effort {
        Effort {
            callers: Callers::Each(0),
            is_durable: false,
            how: How::default(),
            per_call: 1,
            time: Duration::ZERO,
            rounds: 1,
        }
    }

    pub(super) const fn question(
        subject: Subject<'_>,
        effort: Effort,
        multisite: u64,
        verify: bool,
    ) -> Question<'_> {
        Question { subject, effort, multisite, verify, callers: None, data: None }
    }

    fn advice(
        machine: &Machine,
        (touched, is_update): (usize, bool),
        multisite: u64,
    ) -> AdviceResult {
        let access = Access { rows: 240_000, touched, is_update, skew: 0 };
        let effort = effort();
        let none: Open = |_, _, _, _| Err(Failure::usage("the model opens none"));
        let subject = Subject::Rows(access, none);
        let question = question(subject, effort, multisite, true);
        advise(&question, Ground::Model(machine), &mut ()).unwrap()
    }

    /// The bars of issue 25: a median error of 15 %, a choice within 10 % of the best.
    #[test]
    fn predictions_are_near_and_choices_good() {
        let machine = Machine::quad_socket();
        for (kind, multisite) in [((10, false), 0), ((10, true), 20), ((2, true), 60)] {
            let found = advice(&machine, kind, multisite);
            let error = found.prediction_error_percent.expect("verified");
            let behind = found.within_best_percent.expect("verified");
            assert!(error <= 15.0 && behind <= 10.0, "{kind:?} {multisite}: {error} {behind}");
            let all = found.points.iter().filter(|point| !point.used_for_fit).count();
            assert!(all >= 40, "8 numbers of islands at 5 shares or more: {all}");
        }
        let islands = |multisite| advice(&machine, (10, true), multisite).chosen.islands;
        assert_eq!(
            (islands(0), islands(100)),
            (24, 1),
            "fine for local work, shared without locality"
        );
    }

    #[test]
    fn advice_for_something_else_has_another_hash() {
        let (machine, mut other) = (Machine::quad_socket(), Machine::quad_socket());
        other.name = "another".to_owned();
        let about = |machine: &Machine, kind| advice(machine, kind, 20).about();
        let hash =
            |machine: &Machine, kind| Header::default().and(&about(machine, kind)).settings_hash;
        let hashes = [
            hash(&machine, (10, true)),
            hash(&machine, (10, false)),
            hash(&machine, (2, true)),
            hash(&other, (10, true)),
        ];
        let different: BTreeSet<_> = hashes.iter().collect();
        assert_eq!(different.len(), hashes.len(), "{hashes:?}");
        assert_eq!(hashes[0], hash(&machine, (10, true)));
    }

    /// Without a measurement there is nothing to compare with.
    #[test]
    fn what_is_not_verified_has_no_error() {
        let machine = Machine { serial_islands: true, ..Machine::quad_socket() };
        let mut found = advice(&machine, (2, false), 20);
        assert!(
            found.chosen.islands > 1 && found.chosen.worst_case_tps < found.chosen.predicted_tps
        );
        found.points.iter_mut().filter(|point| !point.used_for_fit).for_each(|point| {
            point.measured_tps = None;
        });
        assert_eq!(error_percent(&found.points), None);
        assert_eq!(within_best(&found.points, &found.chosen, 20), None);
    }
}
