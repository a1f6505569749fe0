//! `advise`: how many islands, and how many callers of each, for a workload (ISL-4, ISL-32, ISL-33).
//!
//! A few points are measured, local and multisite; from these follow what a local and what a distributed transaction
//! costs by number of islands, and from those, by ISL-4's formula with costs, the throughput of every
//! deployment at the share at hand. The machine is this one, with the library's islands, or one that a file describes,
//! through the model. Not here: arguments, the library, the model.

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::deployments::{Callers, Effort};
use super::points::{self, Open};
use super::rows::Access;
use super::traced::{TraceSummary, Workload, replay};
use crate::experiment::looking_glass::result::Source;
use crate::failure::Failure;
use crate::model::{Islands, Load, Machine, Scenario};
use crate::numbers::rounded;
use crate::progress::Progress;
use crate::sweep::Spread;

/// A deployment is preferred to one with more islands that is faster by no more than this, in percent.
const LEVEL_PERCENT: f64 = 3.0;
/// Shares at which `--verify` measures deployments besides the one at hand, in percent.
const VERIFIED: [u64; 5] = [5, 10, 20, 50, 75];
/// The low end of the fit, in percent, where the share at hand is not 0: local transactions cost more next to
/// distributed ones, whose locks they meet and, on the paper's engine, have to take as well (ISL-17).
const LOW: u64 = 2;
/// Transactions of a modelled point.
const TRANSACTIONS: u64 = 5_000;
/// The seed of the model.
const SEED: u64 = 47;

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
    /// How each point is measured; its number of callers is not used.
    pub effort: Effort,
    /// The share of multisite transactions, in percent.
    pub multisite: u64,
    /// Whether all deployments are measured at that share, and at others.
    pub verify: bool,
}

/// Where points come from.
#[derive(Clone, Copy, Debug)]
pub enum Ground<'m> {
    /// This machine, with its number of cores, and the library's islands.
    Here(usize),
    /// The model of another one.
    Model(&'m Machine),
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
}

/// A deployment and what it is expected to do.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "docs/cli.md says what each field means")]
pub struct Chosen {
    pub islands: usize,
    pub threads: usize,
    pub predicted_tps: f64,
    pub worst_case_tps: f64,
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
                let none = |_, _| Err(Failure::usage("the model opens no database"));
                Self::Rows(Access { rows, touched, is_update, skew: 0 }, none)
            }
        }
    }
}

/// A deployment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Candidate {
    islands: usize,
    threads: usize,
}

/// What was measured of a candidate, in microseconds of one core.
#[derive(Clone, Copy, Debug)]
struct Fit {
    of: Candidate,
    local_us: f64,
    /// A multisite one that needs only its home island. In `rows` it does what a local one does, in a trace more.
    together_us: f64,
    /// With one island no transaction is distributed.
    distributed_us: Option<f64>,
}

/// Costs of measured candidates, from which those of all follow.
struct Fits<'q> {
    question: &'q Question<'q>,
    ground: Ground<'q>,
    fits: Vec<Fit>,
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
    let candidates = ground.candidates();
    ground.verify(question)?;
    let fitted = measured_ones(&candidates);
    let mut fits = Fits { question, ground, fits: Vec::new() };
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
    });
    let points: Vec<AdvicePoint> = points.collect();
    let chosen = fits.choose(&candidates);
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
        trace: None,
    })
}

/// The candidates that are measured: all, if they are few; otherwise some of each family.
fn measured_ones(candidates: &[Candidate]) -> Vec<Candidate> {
    let family = |lone: bool| {
        let of: Vec<Candidate> =
            candidates.iter().copied().filter(|of| (of.threads == 1) == lone).collect();
        let last = of.len().saturating_sub(1);
        let wanted = [0, 1, last / 2, last];
        let place = |at: &usize| wanted.contains(at) || of.len() <= 4;
        (0..of.len()).filter(place).map(|at| of[at]).collect::<Vec<_>>()
    };
    [family(false), family(true)].concat()
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
    let is_chosen =
        |point: &AdvicePoint| (point.islands, point.threads) == (chosen.islands, chosen.threads);
    let of_chosen = measured.iter().find(|(point, _)| is_chosen(point))?.1;
    Some(rounded(100.0 * (1.0 - of_chosen / best), 2))
}

impl Ground<'_> {
    const fn cores(&self) -> usize {
        match self {
            Self::Here(cores) => *cores,
            Self::Model(machine) => machine.cores(),
        }
    }

    fn name(&self) -> String {
        match self {
            Self::Here(..) => "this machine".to_owned(),
            Self::Model(machine) => machine.name.clone(),
        }
    }

    /// Refuses a database too small for the finest deployment.
    fn verify(&self, question: &Question<'_>) -> Result<(), Failure> {
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

    /// Numbers of islands that divide the cores, each with a caller for each of its cores, and here also with one.
    fn candidates(&self) -> Vec<Candidate> {
        let cores = self.cores();
        let mut candidates = Vec::new();
        for islands in (1..=cores).filter(|islands| cores.is_multiple_of(*islands)) {
            let full = Candidate { islands, threads: cores / islands };
            let lone = Candidate { threads: 1, ..full };
            candidates.push(full);
            if full != lone && matches!(self, Self::Here(..)) {
                candidates.push(lone);
            }
        }
        candidates
    }

    /// Transactions a second of a deployment at each share.
    fn measure(
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
                let effort = Effort { callers: Callers::Each(of.threads), ..question.effort };
                let points = (&[of.islands as u16][..], shares);
                let found = points::measure(open, points, (&access, &effort))?;
                Ok(found.into_iter().map(|found| found.tps).collect())
            }
            (Self::Here(_), Subject::Trace(workload, open)) => {
                let effort = Effort { callers: Callers::Each(of.threads), ..question.effort };
                workload.measure(open, of.islands, shares, &effort)
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

    /// The cores that execute transactions of a deployment.
    fn working(&self, of: Candidate) -> f64 {
        match self {
            Self::Model(machine) if !machine.serial_islands => machine.cores() as f64,
            // A memory store executes one transaction at a time.
            _ => of.islands as f64,
        }
    }
}

impl Fits<'_> {
    /// As [`Subject::spread`].
    fn spread(&self, islands: usize) -> (f64, f64) {
        self.question.subject.spread(islands)
    }

    const fn is_of_trace(&self) -> bool {
        matches!(self.question.subject, Subject::Trace(..))
    }

    fn family(&self, of: Candidate) -> impl Iterator<Item = &Fit> {
        self.fits.iter().filter(move |fit| (fit.of.threads == 1) == (of.threads == 1))
    }

    /// Notes a candidate that was measured at two shares: two equations, of which the costs follow.
    fn add(&mut self, of: Candidate, shares: [u64; 2], tps: [f64; 2]) {
        let working = self.ground.working(of);
        let [low_us, high_us] = tps.map(|tps| working * 1e6 / tps);
        let of_multisite = self.spread(of.islands).0;
        let part = if self.is_of_trace() { 1.0 } else { of_multisite };
        let [low, high] = shares.map(|share| part * share as f64 / 100.0);
        let fit = match high > low {
            // With one island both are the same.
            false => {
                let local_us = f64::midpoint(low_us, high_us);
                Fit { of, local_us, together_us: local_us, distributed_us: None }
            }
            true => {
                let local_us = (low_us * high - high_us * low) / (high - low);
                let other_us = (high_us * (1.0 - low) - low_us * (1.0 - high)) / (high - low);
                // Rounds differ: nothing costs nothing.
                let local_us = local_us.max(low_us / 10.0);
                let distributed_us = Some(other_us.max(local_us));
                let fit = Fit { of, local_us, together_us: local_us, distributed_us };
                if self.is_of_trace() { self.apart(fit, of_multisite, other_us) } else { fit }
            }
        };
        self.fits.push(fit);
    }

    /// Tells multisite calls that need one island from distributed ones: the former cost as much more than calls of one
    /// key as with one island, which is the first that is measured of each family.
    fn apart(&self, fit: Fit, of_multisite: f64, multisite_us: f64) -> Fit {
        let one = self.family(fit.of).find(|fit| fit.of.islands == 1);
        let Some(one) = one.filter(|_| of_multisite > 0.0) else {
            return Fit { together_us: multisite_us, distributed_us: None, ..fit };
        };
        // A distributed call costs no less.
        let together_us = (fit.local_us * one.together_us / one.local_us).min(multisite_us);
        let distributed_us = (multisite_us - (1.0 - of_multisite) * together_us) / of_multisite;
        Fit { together_us, distributed_us: Some(distributed_us), ..fit }
    }

    /// What transactions cost with a candidate: measured, or between what was measured of its family: those on one
    /// island by islands, distributed ones by participants (ISL-30), which those of a trace may have in any order.
    fn costs(&self, of: Candidate) -> Fit {
        let on_line = |cost: fn(&Fit) -> f64| {
            let points = self.family(of).map(|fit| (fit.of.islands as f64, cost(fit)));
            between(&points.collect::<Vec<_>>(), of.islands as f64).unwrap_or_default()
        };
        let by = |islands: usize| match self.is_of_trace() {
            true => islands as f64,
            false => self.spread(islands).1,
        };
        let distributed =
            self.family(of).filter_map(|fit| Some((by(fit.of.islands), fit.distributed_us?)));
        let found = between(&distributed.collect::<Vec<_>>(), by(of.islands));
        Fit {
            of,
            local_us: on_line(|fit| fit.local_us),
            together_us: on_line(|fit| fit.together_us),
            distributed_us: found.filter(|_| of.islands > 1),
        }
    }

    /// Transactions a second at a share of multisite ones, in percent.
    fn predict(&self, of: Candidate, share: u64) -> f64 {
        let Fit { local_us, together_us, distributed_us, .. } = self.costs(of);
        let (multisite, of_multisite) = (share as f64 / 100.0, self.spread(of.islands).0);
        let distributed = of_multisite * multisite;
        let us = (1.0 - multisite) * local_us
            + (multisite - distributed) * together_us
            + distributed * distributed_us.unwrap_or(together_us);
        self.ground.working(of) * 1e6 / us
    }

    fn choose(&self, candidates: &[Candidate]) -> Chosen {
        let at = |of: Candidate| self.predict(of, self.question.multisite);
        let best = candidates.iter().map(|&of| at(of)).fold(0.0, f64::max);
        let enough = best * (1.0 - LEVEL_PERCENT / 100.0);
        let level = candidates.iter().copied().filter(|&of| at(of) >= enough);
        let Candidate { islands, threads } = level
            .min_by_key(|of| (of.islands, of.threads))
            .unwrap_or(Candidate { islands: 1, threads: 1 });
        let of = Candidate { islands, threads };
        Chosen {
            islands,
            threads,
            predicted_tps: rounded(at(of), 1),
            worst_case_tps: rounded(self.predict(of, 100), 1),
        }
    }

    fn listed(&self) -> Vec<Fitted> {
        let fitted = |fit: &Fit| Fitted {
            islands: fit.of.islands,
            threads: fit.of.threads,
            local_us: rounded(fit.local_us, 4),
            together_us: self.is_of_trace().then(|| rounded(fit.together_us, 4)),
            distributed_us: fit.distributed_us.map(|us| rounded(us, 4)),
            participants: rounded(self.spread(fit.of.islands).1, 3),
        };
        self.fits.iter().map(fitted).collect()
    }
}

/// The value at `x` on the line between the nearest of `points`, which are in the order of their first figures; beyond
/// them the outermost one.
fn between(points: &[(f64, f64)], x: f64) -> Option<f64> {
    let after = points.iter().position(|(at, _)| *at >= x).unwrap_or(points.len());
    let (&last, after) = (points.last()?, points.get(after));
    let before = points.iter().rev().find(|(at, _)| *at <= x);
    Some(match (before, after) {
        (Some(before), Some(after)) if after.0 > before.0 => {
            before.1 + (after.1 - before.1) * (x - before.0) / (after.0 - before.0)
        }
        (_, Some(after)) => after.1,
        (Some(before), None) => before.1,
        (None, None) => last.1,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use super::super::traced;
    use super::*;
    use crate::report::Header;

    fn effort() -> Effort {
        Effort {
            callers: Callers::Each(0),
            is_durable: false,
            placement: Default::default(),
            is_ordered: false,
            time: Duration::ZERO,
            rounds: 1,
        }
    }

    fn advice(
        machine: &Machine,
        (touched, is_update): (usize, bool),
        multisite: u64,
    ) -> AdviceResult {
        let access = Access { rows: 240_000, touched, is_update, skew: 0 };
        let effort = effort();
        let none: Open = |_, _| Err(Failure::usage("the model opens none"));
        let subject = Subject::Rows(access, none);
        let question = Question { subject, effort, multisite, verify: true };
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

    /// Calls of several keys cost more than calls of one, on one island, too; distributed ones cost most.
    #[test]
    fn calls_of_a_trace_have_three_costs() {
        let traced = traced::tests::workload();
        let none: replay::Open = |_| Err(Failure::usage("nothing is measured"));
        let subject = Subject::Trace(&traced, none);
        let (effort, multisite) = (effort(), traced.multisite_percent());
        let question = Question { subject, effort, multisite, verify: false };
        let mut fits = Fits { question: &question, ground: Ground::Here(4), fits: Vec::new() };
        let [one, two, four] = [1, 2, 4].map(|islands| Candidate { islands, threads: 1 });
        // Half of its multisite calls are distributed if there are several islands.
        let tps = |islands: f64, us: f64| islands * 1e6 / us;
        fits.add(one, [0, 100], [tps(1.0, 2.0), tps(1.0, 6.0)]);
        fits.add(two, [0, 100], [tps(2.0, 2.0), tps(2.0, 13.0)]);
        let found: Vec<_> = fits.listed();
        let costs = |of: &Fitted| (of.local_us, of.together_us, of.distributed_us);
        assert_eq!(costs(&found[0]), (2.0, Some(6.0), None));
        assert_eq!(costs(&found[1]), (2.0, Some(6.0), Some(20.0)));
        let of = |of, share| rounded(fits.predict(of, share), 1);
        assert_eq!([0, 40, 100].map(|share| of(one, share)), [500_000.0, 277_777.8, 166_666.7]);
        assert_eq!([0, 40, 100].map(|share| of(two, share)), [1e6, 312_500.0, 153_846.2]);
        assert_eq!([0, 40].map(|share| of(four, share)), [2e6, 625_000.0]);
    }

    #[test]
    fn costs_between_measured_ones_are_on_a_line() {
        let points = [(1.0, 10.0), (3.0, 20.0)];
        assert_eq!(
            [0.0, 1.0, 2.0, 3.0, 4.0].map(|x| between(&points, x).unwrap()),
            [10.0, 10.0, 15.0, 20.0, 20.0]
        );
        assert_eq!(between(&[], 1.0), None);
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
