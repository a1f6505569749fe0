//! Runs many seeds on several threads and adds up their results.
//!
//! A seed's result depends on the seed alone, so the sums do not depend on how many threads there
//! are or which of them ran what. Not here: what a seed does (`world/`), how sums are shown
//! (`report.rs`).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tombolo_engine::clock::{Clock, SystemClock};
use tombolo_engine::threads::on_each;

use crate::commit::Coverage;
use crate::faults::FaultCounts;
use crate::oracle::{Rule, Violation};
use crate::workload::store::hide_planned_panics;
use crate::world::SeedResult;

/// Violations that are kept; more are only counted.
const KEPT_MAX: usize = 20;

/// What runs one seed; the flag asks for the trace as text.
pub type RunSeed = fn(u64, bool) -> SeedResult;

/// Which seeds are run, and how.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The first seed.
    pub first: u64,
    /// How many.
    pub seeds: u64,
    /// On how many threads.
    pub threads: usize,
    /// Whether the first violation ends the run.
    pub until_violation: bool,
}

/// The results of many seeds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Seeds that were run.
    pub seeds: u64,
    /// Those of them that ran 200 transactions and met a crash.
    pub counted: u64,
    /// Seeds in which a rule did not hold.
    pub failed: u64,
    /// The lowest of them, with what did not hold.
    pub violations: Vec<(u64, Violation)>,
    /// Transactions that ran.
    pub transactions: u64,
    /// Lives, from a start to the next.
    pub lives: u64,
    /// Databases damaged beyond repair, in worlds that break promises.
    pub given_up: u64,
    /// How often each fault struck.
    pub faults: FaultCounts,
    /// Which events met which states, in a simulation that counts that.
    pub coverage: Option<Box<Coverage>>,
    /// All traces in one number.
    pub hash: u64,
    /// Processor time of all seeds, in nanoseconds.
    pub cpu_ns: u64,
    /// Processor time of the longest seed, in nanoseconds.
    pub cpu_ns_max: u64,
}

impl Summary {
    /// Processor time of a seed on average, in nanoseconds.
    pub fn cpu_ns_mean(&self) -> u64 {
        self.cpu_ns / self.seeds.max(1)
    }

    fn of(result: SeedResult, cpu_ns: u64) -> Self {
        Self {
            seeds: 1,
            counted: u64::from(result.is_enough),
            failed: u64::from(result.violation.is_some()),
            violations: result.violation.map(|what| (result.seed, what)).into_iter().collect(),
            transactions: result.transactions,
            lives: result.lives,
            given_up: result.given_up,
            faults: result.faults,
            coverage: result.coverage,
            hash: result.hash,
            cpu_ns,
            cpu_ns_max: cpu_ns,
        }
    }

    fn merge(&mut self, other: Self) {
        self.seeds += other.seeds;
        self.counted += other.counted;
        self.failed += other.failed;
        self.violations.extend(other.violations);
        self.transactions += other.transactions;
        self.lives += other.lives;
        self.given_up += other.given_up;
        self.faults.merge(&other.faults);
        match (&mut self.coverage, other.coverage) {
            (Some(own), Some(other)) => own.merge(&other),
            (own, other) => *own = own.take().or(other),
        }
        self.hash = self.hash.wrapping_add(other.hash);
        self.cpu_ns += other.cpu_ns;
        self.cpu_ns_max = self.cpu_ns_max.max(other.cpu_ns_max);
    }
}

/// Called for every seed that ended, with the number of seeds begun and its violation.
pub type SeedObserver<'a> = dyn Fn(u64, Option<(u64, &Violation)>) + Sync + 'a;

/// Runs the seeds of `plan`.
///
/// # Panics
/// When it has no thread.
pub fn run(plan: Plan, run_seed: RunSeed, observer: &SeedObserver<'_>) -> Summary {
    assert!(plan.threads > 0, "at least one thread runs the seeds");
    hide_planned_panics();
    let next = AtomicU64::new(plan.first);
    let stop = AtomicBool::new(false);
    let parts = on_each(0..plan.threads, |_| {
        let mut part = Summary::default();
        let clock = SystemClock::new();
        // Relaxed: the seeds are independent; the results are passed on when the threads end.
        while !stop.load(Ordering::Relaxed) {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed - plan.first >= plan.seeds {
                break;
            }
            let before = clock.thread_cpu();
            let result = guarded(seed, false, run_seed);
            let failed = result.violation.is_some();
            observer(seed - plan.first + 1, result.violation.as_ref().map(|what| (seed, what)));
            part.merge(Summary::of(result, (clock.thread_cpu() - before).as_nanos() as u64));
            if failed && plan.until_violation {
                stop.store(true, Ordering::Relaxed);
            }
        }
        part
    });
    let mut summary = Summary::default();
    parts.into_iter().for_each(|part| summary.merge(part));
    summary.violations.sort_by_key(|(seed, _)| *seed);
    summary.violations.truncate(KEPT_MAX);
    summary
}

/// Runs a seed; a panic is a violation like any other.
pub fn guarded(seed: u64, with_text: bool, run_seed: RunSeed) -> SeedResult {
    hide_planned_panics();
    catch_unwind(AssertUnwindSafe(|| run_seed(seed, with_text))).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().map(ToString::to_string);
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        SeedResult {
            seed,
            violation: Some(Violation::new(Rule::NoPanic, text)),
            ..SeedResult::default()
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::FaultKind;

    fn toy(seed: u64, _: bool) -> SeedResult {
        assert!(seed != 13, "unlucky");
        let mut faults = FaultCounts::default();
        faults.add(FaultKind::Crash);
        let violation = (seed % 10 == 7).then(|| Violation::new(Rule::Prefix, "seven"));
        let (transactions, lives, given_up) = (190 + seed, 2, 0);
        let (hash, lines) = (seed * seed, Vec::new());
        let (is_enough, coverage) = (transactions >= 200, None);
        SeedResult {
            seed,
            violation,
            transactions,
            lives,
            given_up,
            is_enough,
            faults,
            coverage,
            hash,
            lines,
        }
    }

    #[test]
    fn the_sums_do_not_depend_on_threads() {
        let plan = Plan { first: 0, seeds: 30, threads: 1, until_violation: false };
        let untimed = |threads| {
            let summary = run(Plan { threads, ..plan }, toy, &|_, _| ());
            Summary { cpu_ns: 0, cpu_ns_max: 0, ..summary }
        };
        let summary = untimed(1);
        assert_eq!((summary, untimed(3)), (untimed(2), untimed(1)));
        let summary = untimed(2);
        assert_eq!((summary.seeds, summary.counted, summary.failed), (30, 19, 4));
        let seeds: Vec<u64> = summary.violations.iter().map(|(seed, _)| *seed).collect();
        assert_eq!(seeds, [7, 13, 17, 27]);
        assert_eq!(summary.violations[1].1, Violation::new(Rule::NoPanic, "unlucky"));
        assert_eq!(summary.faults.of(FaultKind::Crash), 29);
    }

    #[test]
    fn a_violation_ends_the_run_where_that_is_asked() {
        let plan = Plan { first: 20, seeds: 1_000, threads: 2, until_violation: true };
        let observer = AtomicU64::new(0);
        let summary = run(plan, toy, &|begun, violation| {
            if let Some((seed, _)) = violation {
                observer.store(seed, Ordering::Relaxed);
            }
            assert!((1..=1_000).contains(&begun));
        });
        assert_eq!(observer.into_inner() % 10, 7);
        assert!(summary.failed >= 1 && summary.seeds < 100, "{} seeds", summary.seeds);
    }
}
