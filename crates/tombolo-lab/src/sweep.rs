//! Sweeps: the same run at many points, interleaved in rounds, and the ratios between points.
//!
//! A round runs every point once before the next round begins, so that a machine whose speed drifts
//! drifts under all points alike. Points are all combinations of the swept values. Not here:
//! running one (`run/`).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::plan::make_effective;
use crate::report::run::RunResult;
use crate::report::{rounded, value_json};
use crate::settings::{self, Settings, Source};

/// A point: the swept settings and their values.
pub type Point = BTreeMap<String, serde_json::Value>;

/// The settings of every point, in order; all of them are valid on their own.
///
/// Each element of `sweeps` is `KEY=V1,V2,…`. Without sweeps there is one point.
///
/// # Errors
/// When a sweep names no setting or a value it does not take.
pub fn points(base: &Settings, sweeps: &[String]) -> Result<Vec<(Point, Settings)>, Failure> {
    let mut points = vec![(Point::new(), base.clone())];
    for sweep in sweeps {
        let usage = |what: &str| Failure::usage(format!("--sweep {sweep}: {what}"));
        let Some((key, values)) = sweep.split_once('=') else {
            return Err(usage("give KEY=V1,V2,…, such as warehouses=1,5,20"));
        };
        let Some(setting) = settings::find(key.trim()) else {
            return Err(usage("there is no such setting: see tombolo settings"));
        };
        if setting.name == settings::ROUNDS.name {
            return Err(usage("rounds repeat all points and are not one: use --rounds"));
        }
        let mut next = Vec::new();
        for (point, settings) in &points {
            for value in values.split(',') {
                let (mut point, mut settings) = (point.clone(), settings.clone());
                let set = settings.set(setting.name, value, Source::Flag);
                set.map_err(|error| usage(&error.to_string()))?;
                let value = value_json(settings.get(setting));
                if point.insert(setting.name.to_owned(), value).is_some() {
                    return Err(usage("this setting is swept already"));
                }
                next.push((point, settings));
            }
        }
        points = next;
    }
    points.iter_mut().for_each(|(_, settings)| make_effective(settings));
    Ok(points)
}

/// The median, the least and the most of several figures.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The median: the middle one, or the mean of both middle ones.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The most.
    pub max: f64,
}

impl Spread {
    /// Of `values`; zeros when there are no values.
    pub fn of(mut values: Vec<f64>) -> Self {
        values.sort_unstable_by(f64::total_cmp);
        let at = |i: usize| values.get(i).copied().unwrap_or(0.0);
        let (low, high) = (values.len().saturating_sub(1) / 2, values.len() / 2);
        let digits = |value| rounded(value, 4);
        Self {
            median: digits((at(low) + at(high)) / 2.0),
            min: digits(at(0)),
            max: digits(at(values.len().saturating_sub(1))),
        }
    }
}

/// A point over all its rounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PointSummary {
    /// The point.
    pub point: Point,
    /// Committed transactions per second.
    pub tps: Spread,
    /// Committed transactions per second of processor time.
    pub tps_per_cpu_s: Spread,
    /// Those per second of processor time, divided by the first point's of the same round.
    pub ratio_to_first: Spread,
    /// Those per second, divided in the same way.
    pub tps_ratio_to_first: Spread,
    /// Those per second of the execution thread's processor time, divided in the same way; none
    /// where there is no pipeline.
    pub execution_ratio_to_first: Option<Spread>,
}

/// A ratio to zero is zero.
fn ratio(rate: f64, first: f64) -> f64 {
    if first == 0.0 { 0.0 } else { rate / first }
}

/// The last object of a sweep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Every point, in order.
    pub summary: Vec<PointSummary>,
}

impl Summary {
    /// Of the results of `points` points, one round after the other.
    pub fn new(results: &[RunResult], points: usize) -> Self {
        let rounds: Vec<&[RunResult]> = results.chunks(points.max(1)).collect();
        let of = |at: usize, figure: &dyn Fn(&RunResult, &RunResult) -> f64| {
            let figures = rounds.iter().filter_map(|round| Some(figure(round.get(at)?, &round[0])));
            Spread::of(figures.collect())
        };
        let has_stages = |at: usize| {
            [0, at].iter().all(|&point| results[point].tps_per_execution_cpu_s.is_some())
        };
        let summary = |at: usize| PointSummary {
            point: results[at].point.clone().unwrap_or_default(),
            tps: of(at, &|result, _| result.tps),
            tps_per_cpu_s: of(at, &|result, _| result.tps_per_cpu_s),
            ratio_to_first: of(at, &|result, first| {
                ratio(result.tps_per_cpu_s, first.tps_per_cpu_s)
            }),
            tps_ratio_to_first: of(at, &|result, first| ratio(result.tps, first.tps)),
            execution_ratio_to_first: has_stages(at).then(|| {
                of(at, &|result, first| {
                    let rate = |result: &RunResult| result.tps_per_execution_cpu_s.unwrap_or(0.0);
                    ratio(rate(result), rate(first))
                })
            }),
        };
        Self { summary: (0..points.min(results.len())).map(summary).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(base: &Settings, sweeps: &[&str]) -> Result<Vec<(Point, Settings)>, Failure> {
        points(base, &sweeps.iter().map(|sweep| (*sweep).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn points_are_all_combinations() {
        let base = settings::defaults();
        assert_eq!(at(&base, &[]).unwrap().len(), 1);
        let points = at(&base, &["warehouses=1,5", "profile=bare,memory"]).unwrap();
        let values: Vec<_> = points
            .iter()
            .map(|(_, s)| (s.count(&settings::WAREHOUSES), s.word(&settings::PROFILE).to_owned()))
            .collect();
        let expected = [(1, "bare"), (1, "memory"), (5, "bare"), (5, "memory")];
        assert_eq!(values, expected.map(|(w, p)| (w, p.to_owned())));
        assert_eq!(points[1].0["profile"], "memory");
    }

    #[test]
    fn bad_sweeps_are_refused() {
        let refused = |sweep: &str, expect: &str| {
            let error = at(&settings::defaults(), &[sweep]).unwrap_err();
            assert!(error.to_string().contains(expect), "{error}");
        };
        refused("warehouses", "give KEY=");
        refused("depth=1", "no such setting");
        refused("warehouses=1,x", "is not a whole number");
        refused("warehouses=", "is not a whole number");
        refused("rounds=1,2", "use --rounds");
        let twice = at(&settings::defaults(), &["seed=1", "seed=2"]).unwrap_err();
        assert!(twice.to_string().contains("swept already"));
    }

    #[test]
    fn spreads_have_a_middle() {
        let spread = |values: &[f64]| Spread::of(values.to_vec());
        assert_eq!(spread(&[3.0, 1.0, 2.0]), Spread { median: 2.0, min: 1.0, max: 3.0 });
        assert_eq!(spread(&[4.0, 1.0]).median, 2.5);
        assert_eq!(spread(&[]), Spread { median: 0.0, min: 0.0, max: 0.0 });
    }
}
