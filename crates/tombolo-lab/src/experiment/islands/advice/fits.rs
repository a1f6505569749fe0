//! What local and distributed transactions cost, by islands, and what follows from it (ISL-4, ISL-30).
//!
//! Not here: measuring (`ground.rs`), which deployments are measured, and what is printed (`mod.rs`).

use super::ground::{Candidate, Ground};
use super::{Chosen, Fitted, LEVEL_PERCENT, Question, Subject};
use crate::numbers::rounded;

/// What was measured of a candidate, in microseconds of one core.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fit {
    of: Candidate,
    local_us: f64,
    /// A multisite one that needs only its home island. In `rows` it does what a local one does, in a trace more.
    together_us: f64,
    /// With one island no transaction is distributed.
    distributed_us: Option<f64>,
}

/// Costs of measured candidates, from which those of all follow.
pub(super) struct Fits<'q> {
    question: &'q Question<'q>,
    ground: Ground<'q>,
    fits: Vec<Fit>,
}

impl<'q> Fits<'q> {
    pub(super) const fn new(question: &'q Question<'q>, ground: Ground<'q>) -> Self {
        Self { question, ground, fits: Vec::new() }
    }

    /// As [`Subject::spread`].
    fn spread(&self, islands: usize) -> (f64, f64) {
        self.question.subject.spread(islands)
    }

    const fn is_of_trace(&self) -> bool {
        matches!(self.question.subject, Subject::Trace(..))
    }

    fn family(&self, of: Candidate) -> impl Iterator<Item = &Fit> {
        let is_durable = self.question.effort.is_durable;
        self.fits.iter().filter(move |fit| {
            let other = fit.of;
            // On disk callers are shared out; one island has no transactions over several, so it commits either way.
            let commits_alike =
                other.is_ordered == of.is_ordered || other.islands.min(of.islands) == 1;
            commits_alike && (is_durable || (other.threads == 1) == (of.threads == 1))
        })
    }

    /// Notes a candidate that was measured at two shares: two equations, of which the costs follow.
    pub(super) fn add(&mut self, of: Candidate, shares: [u64; 2], tps: [f64; 2]) {
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
    pub(super) fn predict(&self, of: Candidate, share: u64) -> f64 {
        let Fit { local_us, together_us, distributed_us, .. } = self.costs(of);
        let (multisite, of_multisite) = (share as f64 / 100.0, self.spread(of.islands).0);
        let distributed = of_multisite * multisite;
        let us = (1.0 - multisite) * local_us
            + (multisite - distributed) * together_us
            + distributed * distributed_us.unwrap_or(together_us);
        self.ground.working(of) * 1e6 / us
    }

    /// The deployment to choose, and what is said of it.
    pub(super) fn choose(&self, candidates: &[Candidate]) -> (Candidate, Chosen) {
        let at = |of: Candidate| self.predict(of, self.question.multisite);
        let best = candidates.iter().map(|&of| at(of)).fold(0.0, f64::max);
        let enough = best * (1.0 - LEVEL_PERCENT / 100.0);
        let level = candidates.iter().copied().filter(|&of| at(of) >= enough);
        let of = level
            .min_by_key(|of| (of.islands, of.threads, of.is_ordered))
            .unwrap_or(Candidate { islands: 1, threads: 1, is_ordered: false });
        let chosen = Chosen {
            islands: of.islands,
            threads: of.threads,
            predicted_tps: rounded(at(of), 1),
            worst_case_tps: rounded(self.predict(of, 100), 1),
            commit: of.commit(self.question),
            placement: None,
        };
        (of, chosen)
    }

    pub(super) fn listed(&self) -> Vec<Fitted> {
        let fitted = |fit: &Fit| Fitted {
            islands: fit.of.islands,
            threads: fit.of.threads,
            local_us: rounded(fit.local_us, 4),
            together_us: self.is_of_trace().then(|| rounded(fit.together_us, 4)),
            distributed_us: fit.distributed_us.map(|us| rounded(us, 4)),
            participants: rounded(self.spread(fit.of.islands).1, 3),
            commit: fit.of.commit(self.question),
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
    use super::super::super::traced;
    use super::super::tests::{effort, question};
    use super::*;
    use crate::experiment::islands::traced::replay;
    use crate::failure::Failure;

    /// Calls of several keys cost more than calls of one, on one island, too; distributed ones cost most.
    #[test]
    fn calls_of_a_trace_have_three_costs() {
        let traced = traced::tests::workload();
        let none: replay::Open = |_| Err(Failure::usage("nothing is measured"));
        let subject = Subject::Trace(&traced, none);
        let (effort, multisite) = (effort(), traced.multisite_percent());
        let question = question(subject, effort, multisite, false);
        let mut fits = Fits::new(&question, Ground::Here(4));
        let [one, two, four] =
            [1, 2, 4].map(|islands| Candidate { islands, threads: 1, is_ordered: false });
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
}
