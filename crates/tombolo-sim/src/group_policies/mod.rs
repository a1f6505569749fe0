//! When to flush: `auto` against `time_per_group` and `transactions_per_group`, each swept, over
//! devices and numbers of clients, in simulated time.
//!
//! `auto` is to reach 95 % of the throughput of the best timer at every point. On a real disk that
//! drowns in noise; here every number is exact. Not here: how a point is run (`closed_loop.rs`), the
//! policy itself (engine `pipeline/policy/caller_turnaround.rs`).

mod closed_loop;
mod turns;

use std::cmp::Reverse;
use std::fmt::Write;

use serde::Serialize;
use tombolo_engine::threads::on_each;
use tombolo_storage::sync::Mutex;

use crate::seeds::report::{result_json, rounded};
use closed_loop::{Measured, Medium, Point, measure};

/// The devices: some whose flushes differ, some to which bytes matter more than flushes.
const MEDIA: [Medium; 8] = [
    medium(false, 20_000, FAST),
    medium(false, 100_000, FAST),
    medium(false, 1_000_000, FAST),
    medium(false, 5_000_000, FAST),
    medium(true, 100_000, FAST),
    medium(true, 1_000_000, FAST),
    medium(false, 100_000, 50),
    medium(true, 100_000, 100),
];
/// Megabytes a second of a device to which bytes hardly matter.
const FAST: u64 = 2_000;

const fn medium(is_uneven: bool, flush_ns: u64, mb_per_s: u64) -> Medium {
    Medium { is_uneven, flush_ns, mb_per_s }
}

/// Clients, each with one call under way.
const CLIENTS: [u64; 4] = [1, 16, 256, 4_096];
/// `time_per_group`, in microseconds.
const TIMES_US: [u64; 10] = [0, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000];
/// `transactions_per_group`; more than there are clients never come together.
const TRANSACTIONS: [u64; 7] = [1, 4, 16, 64, 256, 1_024, 4_096];
/// The time after which a group that is counted is flushed all the same, in nanoseconds.
const COUNTED_NS_MAX: u64 = 20_000_000;

/// The share of the best timer's throughput that `auto` reaches at every point.
pub const SHARE_MIN: f64 = 0.95;

/// When a group is flushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Policy {
    Auto,
    /// After so many nanoseconds.
    Time(u64),
    /// With so many transactions.
    Transactions(u64),
}

impl Policy {
    fn name(self) -> String {
        match self {
            Self::Auto => "auto".to_owned(),
            Self::Time(ns) => time(ns),
            Self::Transactions(count) => count.to_string(),
        }
    }
}

/// One device, with so many clients.
#[derive(Clone, Debug, PartialEq)]
pub struct Compared {
    medium: Medium,
    clients: u64,
    rows: Vec<(Policy, Measured)>,
}

impl Compared {
    fn run(medium: Medium, clients: u64) -> Self {
        let times = TIMES_US.map(|us| Policy::Time(us * 1_000));
        let counts = TRANSACTIONS.into_iter().filter(|&count| count <= clients);
        let policies = [Policy::Auto].into_iter().chain(times);
        let policies = policies.chain(counts.map(Policy::Transactions));
        let run = |policy| (policy, run_policy(medium, clients, policy));
        Self { medium, clients, rows: policies.map(run).collect() }
    }

    fn of(&self, wanted: Policy) -> Measured {
        let found = self.rows.iter().find(|(policy, _)| *policy == wanted);
        found.map(|(_, measured)| *measured).unwrap_or_default()
    }

    /// The policy with the most answers a second among those `is_one` names.
    fn best(&self, is_one: impl Fn(Policy) -> bool) -> (Policy, Measured) {
        let rows = self.rows.iter().filter(|(policy, _)| is_one(*policy));
        let best = rows.max_by(|a, b| a.1.tps().total_cmp(&b.1.tps()));
        best.copied().unwrap_or((Policy::Auto, Measured::default()))
    }

    fn best_time(&self) -> (Policy, Measured) {
        self.best(|policy| matches!(policy, Policy::Time(_)))
    }

    fn best_count(&self) -> (Policy, Measured) {
        self.best(|policy| matches!(policy, Policy::Transactions(_)))
    }

    /// Throughput of `auto`, as a share of the best timer's.
    pub fn share(&self) -> f64 {
        self.of(Policy::Auto).tps() / self.best_time().1.tps()
    }
}

fn run_policy(medium: Medium, clients: u64, policy: Policy) -> Measured {
    let (time_ns, transactions) = match policy {
        Policy::Auto => (None, u64::MAX),
        Policy::Time(ns) => (Some(ns), u64::MAX),
        Policy::Transactions(count) => (Some(COUNTED_NS_MAX), count),
    };
    measure(Point { medium, clients, time_ns, transactions })
}

/// Runs all points on so many threads.
///
/// # Panics
/// When the pipeline does not answer.
pub fn compare(threads: usize) -> Vec<Compared> {
    let points = MEDIA.into_iter().flat_map(|medium| CLIENTS.map(|clients| (medium, clients)));
    let left = Mutex::new(points.rev().collect::<Vec<_>>());
    let mut compared: Vec<Compared> = on_each(0..threads.max(1), |_| {
        let next = || left.lock().pop();
        std::iter::from_fn(|| next().map(|(medium, clients)| Compared::run(medium, clients)))
            .collect::<Vec<_>>()
    })
    .into_iter()
    .flatten()
    .collect();
    compared.sort_by_key(|compared| {
        (Reverse(compared.medium.mb_per_s), compared.medium, compared.clients)
    });
    compared
}

/// Whether `auto` reaches its share everywhere.
pub fn holds(compared: &[Compared]) -> bool {
    compared.iter().all(|compared| compared.share() >= SHARE_MIN)
}

fn time(ns: u64) -> String {
    match ns {
        0 => "0".to_owned(),
        _ if ns.is_multiple_of(1_000_000) => format!("{} ms", ns / 1_000_000),
        _ => format!("{} us", ns / 1_000),
    }
}

/// A table for people.
pub fn text(compared: &[Compared]) -> String {
    let mut out = format!(
        "A transaction executes in {}, logs {} bytes; a client calls again about {} after its \
         answer.\n\n{:>7}{:>6}{:>8} |{:>10}{:>9}{:>9} |{:>10} |{:>8}{:>10}{:>9} \
         |{:>6}{:>10} |{:>7}\n",
        time(closed_loop::EXECUTION_NS),
        closed_loop::RECORD_BYTES,
        time(closed_loop::TURNAROUND_NS),
        "flush",
        "MB/s",
        "clients",
        "auto/s",
        "p50 us",
        "p99 us",
        "at once/s",
        "timer",
        "best/s",
        "p50 us",
        "count",
        "best/s",
        "share"
    );
    let us = |ns: u64| ns as f64 / 1e3;
    for point in compared {
        let auto = point.of(Policy::Auto);
        let (timer, timed) = point.best_time();
        let (count, counted) = point.best_count();
        let share = point.share();
        let note = if share < SHARE_MIN { "  TOO LOW" } else { "" };
        let Medium { is_uneven, flush_ns, mb_per_s } = point.medium;
        let flush = format!("{}{}", if is_uneven { "~" } else { "" }, time(flush_ns));
        _ = writeln!(
            out,
            "{:>7}{mb_per_s:>6}{:>8} |{:>10.0}{:>9.0}{:>9.0} |{:>10.0} |{:>8}{:>10.0}{:>9.0} |{:>6}{:>10.0} \
             |{:>6.1}%{note}",
            flush,
            point.clients,
            auto.tps(),
            us(auto.latency_p50_ns),
            us(auto.latency_p99_ns),
            point.of(Policy::Time(0)).tps(),
            timer.name(),
            timed.tps(),
            us(timed.latency_p50_ns),
            count.name(),
            counted.tps(),
            share * 100.0
        );
    }
    out
}

/// All points, as the result says them.
#[derive(Serialize)]
struct Comparison {
    execution_ns: u64,
    record_bytes: usize,
    turnaround_ns: u64,
    step_ns: u64,
    share_min: f64,
    holds: bool,
    points: Vec<PointRow>,
}

/// A point.
#[derive(Serialize)]
struct PointRow {
    flush_us: u64,
    flush_uneven: bool,
    mb_per_s: u64,
    clients: u64,
    best_time_per_group: String,
    auto_share_of_best_timer: f64,
    policies: Vec<PolicyRow>,
}

/// A policy at a point.
#[derive(Serialize)]
struct PolicyRow {
    time_per_group: String,
    transactions_per_group: Option<u64>,
    tps: f64,
    latency_us: Latency,
    answers: u64,
    flushes: u64,
}

#[derive(Serialize)]
struct Latency {
    p50: f64,
    p99: f64,
}

/// All of it as one JSON object.
pub fn json(compared: &[Compared]) -> String {
    let result = Comparison {
        execution_ns: closed_loop::EXECUTION_NS,
        record_bytes: closed_loop::RECORD_BYTES,
        turnaround_ns: closed_loop::TURNAROUND_NS,
        step_ns: closed_loop::STEP_NS,
        share_min: SHARE_MIN,
        holds: holds(compared),
        points: compared.iter().map(PointRow::new).collect(),
    };
    result_json("group_policies", result)
}

impl PointRow {
    fn new(point: &Compared) -> Self {
        Self {
            flush_us: point.medium.flush_ns / 1_000,
            flush_uneven: point.medium.is_uneven,
            mb_per_s: point.medium.mb_per_s,
            clients: point.clients,
            best_time_per_group: point.best_time().0.name(),
            auto_share_of_best_timer: rounded(point.share(), 4),
            policies: point.rows.iter().map(|(policy, row)| PolicyRow::new(*policy, row)).collect(),
        }
    }
}

impl PolicyRow {
    fn new(policy: Policy, measured: &Measured) -> Self {
        let us = |ns: u64| rounded(ns as f64 / 1e3, 1);
        let (time_per_group, transactions_per_group) = match policy {
            Policy::Auto => ("auto".to_owned(), None),
            Policy::Time(ns) => (format!("{}us", ns / 1_000), None),
            Policy::Transactions(count) => (format!("{}us", COUNTED_NS_MAX / 1_000), Some(count)),
        };
        Self {
            time_per_group,
            transactions_per_group,
            tps: rounded(measured.tps(), 0),
            latency_us: Latency {
                p50: us(measured.latency_p50_ns),
                p99: us(measured.latency_p99_ns),
            },
            answers: measured.answers,
            flushes: measured.flushes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where a flush takes longer than executing what all clients ask, one flush for all is best.
    #[test]
    fn clients_that_come_back_soon_share_a_flush() {
        let run = |policy| run_policy(medium(false, 1_000_000, FAST), 16, policy);
        let (auto, at_once) = (run(Policy::Auto), run(Policy::Time(0)));
        assert!(auto.tps() > 1.8 * at_once.tps(), "{auto:?}, at once {at_once:?}");
        let timed = run(Policy::Time(50_000));
        assert!(auto.tps() >= SHARE_MIN * timed.tps(), "{auto:?}, 50 us {timed:?}");
        assert!(auto.latency_p99_ns < 1_100_000, "{auto:?}");
        assert_eq!(run(Policy::Auto), auto, "the same every time");
    }

    /// Where executing takes longer, flushing at once keeps the execution stage busy.
    #[test]
    fn the_execution_stage_is_never_idle_while_there_is_work() {
        let run = |policy| run_policy(medium(false, 20_000, FAST), 256, policy);
        let auto = run(Policy::Auto);
        assert!(auto.tps() > 0.95 * 1e9 / closed_loop::EXECUTION_NS as f64, "{auto:?}");
        let timed = run(Policy::Time(200_000));
        assert!(auto.tps() >= SHARE_MIN * timed.tps(), "{auto:?}, 200 us {timed:?}");
    }

    /// Where most of a flush is due to its bytes, two groups overlap: one executes while the other is
    /// written.
    #[test]
    fn a_larger_group_is_no_gain_where_bytes_are_slow() {
        let run = |policy| run_policy(medium(false, 100_000, 50), 4_096, policy);
        let (auto, at_once) = (run(Policy::Auto), run(Policy::Time(0)));
        assert!(auto.tps() >= SHARE_MIN * at_once.tps(), "{auto:?}, at once {at_once:?}");
    }

    #[test]
    fn a_lone_client_does_not_wait() {
        let run = |policy| run_policy(medium(false, 100_000, FAST), 1, policy);
        let (auto, at_once) = (run(Policy::Auto), run(Policy::Time(0)));
        assert_eq!(auto, at_once);
        let step_ns = 100_000 + closed_loop::EXECUTION_NS;
        assert!(auto.latency_p99_ns < step_ns + 5_000, "{auto:?}");
    }

    #[test]
    fn what_is_too_low_is_reported() {
        let measured = |answers| Measured { answers, ns: 1_000_000_000, ..Measured::default() };
        let rows = |auto| vec![(Policy::Auto, measured(auto)), (Policy::Time(0), measured(100))];
        let compared = |auto| vec![Compared { medium: MEDIA[0], clients: 16, rows: rows(auto) }];
        assert!(holds(&compared(95)) && !holds(&compared(94)));
        assert!(text(&compared(94)).contains("TOO LOW") && !text(&compared(95)).contains("TOO"));
        assert!(json(&compared(94)).contains("\"holds\":false"));
        assert!(json(&compared(94)).contains("\"auto_share_of_best_timer\":0.94"));
    }
}
