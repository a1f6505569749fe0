//! The simulator on the real engine: seeds hold every rule, and are the same again and again.

use tombolo_sim::seeds::runner::{Plan, Summary, run};
use tombolo_sim::{commit, ordered, run_seed};

const PLAN: Plan = Plan { first: 0, seeds: 60, threads: 1, until_violation: false };

fn untimed(summary: Summary) -> Summary {
    Summary { cpu_ns: 0, cpu_ns_max: 0, ..summary }
}

#[test]
fn a_few_seeds_hold_every_rule_on_any_number_of_threads() {
    let alone = untimed(run(PLAN, run_seed, &|_, _| ()));
    assert_eq!(alone.violations, []);
    assert_eq!((alone.seeds, alone.counted), (60, 60));
    assert!(alone.faults.any_broken_promise());
    assert_eq!(untimed(run(Plan { threads: 3, ..PLAN }, run_seed, &|_, _| ())), alone);
}

#[test]
fn a_seed_leaves_the_same_trace_to_the_last_word() {
    for seed in 0..8 {
        let first = run_seed(seed, true);
        assert!(first.lines.len() > 200, "{} events", first.lines.len());
        assert_eq!(first, run_seed(seed, true));
        assert_eq!(first.hash, run_seed(seed, false).hash);
    }
}

/// A directory sync lies, and the log made behind it is gone; the catalogue, whose first checkpoint is not
/// complete, is not. Its tables came back without a row, next to a new log, before such a directory was refused.
#[test]
fn a_log_that_is_gone_is_not_made_again_next_to_an_image() {
    assert_eq!(run_seed(3_041_264, false).violation, None);
}

#[test]
fn islands_that_commit_together_hold_every_rule_on_any_number_of_threads() {
    let plan = Plan { seeds: 300, ..PLAN };
    let alone = untimed(run(plan, commit::run_seed, &|_, _| ()));
    assert_eq!(alone.violations, []);
    let reached = alone.coverage.as_ref().unwrap().reached();
    assert_eq!(reached.unforeseen, [""; 0]);
    assert!(reached.reached > 90, "{} pairs of state and event", reached.reached);
    assert_eq!(untimed(run(Plan { threads: 3, ..plan }, commit::run_seed, &|_, _| ())), alone);
}

#[test]
fn a_seed_of_islands_leaves_the_same_trace_to_the_last_word() {
    for seed in 0..20 {
        let first = commit::run_seed(seed, true);
        assert_eq!(first, commit::run_seed(seed, true));
        assert_eq!(first.hash, commit::run_seed(seed, false).hash);
    }
}

#[test]
fn islands_with_one_order_hold_every_rule_on_any_number_of_threads() {
    let alone = untimed(run(PLAN, ordered::run_seed, &|_, _| ()));
    assert_eq!(alone.violations, []);
    assert_eq!((alone.seeds, alone.counted), (60, 60));
    assert_eq!(untimed(run(Plan { threads: 3, ..PLAN }, ordered::run_seed, &|_, _| ())), alone);
}

#[test]
fn a_seed_of_islands_with_one_order_leaves_the_same_trace_to_the_last_word() {
    for seed in 0..4 {
        let first = ordered::run_seed(seed, true);
        assert!(first.lines.len() > 200, "{} events", first.lines.len());
        assert_eq!(first, ordered::run_seed(seed, true));
        assert_eq!(first.hash, ordered::run_seed(seed, false).hash);
    }
}

/// A thread that takes several islands runs the calls that wait on one, does not get the next one, and ends. Nothing
/// flushed what the calls had logged.
#[test]
fn calls_that_run_before_a_transaction_over_several_islands_are_answered() {
    for seed in [246, 1_300, 2_478] {
        assert_eq!(ordered::run_seed(seed, false).violation, None, "seed {seed}");
    }
}
