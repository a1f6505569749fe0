//! Latencies of many transactions in little memory: counts by value, three significant digits kept.
//!
//! A thin wrapper over `hdrhistogram` that speaks nanoseconds and gives what results print. It
//! reads no clock.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// The digits of a value that are kept.
const DIGITS: u8 = 3;
/// The longest latency that is distinguished from longer ones.
const NS_MAX: u64 = 3_600_000_000_000;
/// Nanoseconds of a second.
pub(crate) const SECOND_NS: u64 = 1_000_000_000;

/// Latencies, in nanoseconds.
#[derive(Clone, Debug)]
pub struct Latencies {
    counts: Histogram<u64>,
}

impl Default for Latencies {
    fn default() -> Self {
        let counts = Histogram::new_with_bounds(1, NS_MAX, DIGITS);
        Self { counts: counts.unwrap_or_else(|_| unreachable!("the bounds are constants")) }
    }
}

/// Percentiles of latencies as results print them, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// How many there are, which results do not repeat.
    #[serde(skip)]
    pub count: u64,
    /// The mean.
    pub mean: f64,
    /// The median.
    pub p50: f64,
    /// The 95th percentile.
    pub p95: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The 99.9th percentile.
    pub p999: f64,
    /// The longest.
    pub max: f64,
}

impl Latencies {
    /// Adds one; longer ones than an hour count as an hour.
    #[inline]
    pub fn record(&mut self, ns: u64) {
        self.counts.saturating_record(ns.max(1));
    }

    /// How many there are.
    pub fn len(&self) -> u64 {
        self.counts.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// Adds all of `other`.
    pub fn add(&mut self, other: &Self) {
        let added = self.counts.add(&other.counts);
        debug_assert!(added.is_ok(), "all have the same bounds");
    }

    /// The usual figures; `None` when there is no latency.
    pub fn summary(&self) -> Option<Summary> {
        if self.is_empty() {
            return None;
        }
        // A tenth of a nanosecond is the last digit that is printed.
        let us = |ns: f64| (ns * 10.0).round() / 10_000.0;
        let at = |percentile| us(self.counts.value_at_percentile(percentile) as f64);
        Some(Summary {
            count: self.len(),
            mean: us(self.counts.mean()),
            p50: at(50.0),
            p95: at(95.0),
            p99: at(99.0),
            p999: at(99.9),
            max: us(self.counts.max() as f64),
        })
    }

    /// How many percent took at most `ns` (TPK-38 asks for a second).
    pub fn within_percent(&self, ns: u64) -> f64 {
        if self.is_empty() {
            return 100.0;
        }
        self.counts.percentile_below(ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_those_of_the_values() {
        let mut latencies = Latencies::default();
        assert_eq!((latencies.summary(), latencies.within_percent(SECOND_NS)), (None, 100.0));
        for ns in 1..=1_000 {
            latencies.record(ns * 1_000);
        }
        let summary = latencies.summary().unwrap();
        let near = |value: f64, expected: f64| (value / expected - 1.0).abs() < 0.002;
        assert!(near(summary.mean, 500.5) && near(summary.p50, 500.0), "{summary:?}");
        assert!(near(summary.p95, 950.0) && near(summary.p999, 999.0), "{summary:?}");
        assert!(near(summary.max, 1_000.0), "{summary:?}");
        let mut slow = Latencies::default();
        slow.record(2 * SECOND_NS);
        latencies.add(&slow);
        assert_eq!(latencies.len(), 1_001);
        assert!(latencies.within_percent(SECOND_NS) < 99.95);
    }

    #[test]
    fn no_value_is_lost() {
        let mut latencies = Latencies::default();
        latencies.record(0);
        latencies.record(u64::MAX);
        assert_eq!(latencies.len(), 2);
    }
}
