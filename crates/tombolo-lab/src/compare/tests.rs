//! Ratios, names and refusals of `compare`, for all workloads.

use super::*;
use crate::failure::Blame;

fn measured(engine: &str, cpu_ms: &[u64]) -> Measured {
    let batch = |ms| Batch { committed: 1_000, cpu: Duration::from_millis(ms), ..Batch::default() };
    Measured {
        engine: engine.to_owned(),
        version: "1".to_owned(),
        transport: "embedded",
        durability: "none",
        calls: None,
        rounds: cpu_ms.iter().copied().map(batch).collect(),
        latency: None,
        verification: Verification::default(),
        state_hash: Some("ab".to_owned()),
    }
}

#[test]
fn ratios_are_taken_round_by_round() {
    let all = [
        measured("tombolo/bare", &[1, 2, 1]),
        measured("tombolo/memory", &[2, 2, 2]),
        measured("sqlite", &[20, 20, 30]),
    ];
    let ratios: Vec<_> = ratios(&all).collect();
    let spread = |median, min, max| Spread { median, min, max };
    assert_eq!(ratios[0], ("sqlite:tombolo/bare".to_owned(), spread(20.0, 10.0, 30.0)));
    assert_eq!(ratios[1], ("sqlite:tombolo/memory".to_owned(), spread(10.0, 10.0, 15.0)));
    assert_eq!(ratios.len(), 2);
}

#[test]
fn engines_that_hold_different_rows_fail_the_comparison() {
    let mut all = [measured("tombolo/bare", &[1]), measured("sqlite", &[1])];
    assert_eq!(failure(&all), None);
    all[1].state_hash = Some("cd".to_owned());
    let failure = failure(&all).unwrap();
    assert_eq!(failure.blame(), Blame::Check);
    assert!(failure.to_string().contains("tombolo/bare and sqlite hold different rows"));
}

#[test]
fn rates_are_ours_divided_by_theirs() {
    let timed = |engine: &str, wall_ms: &[u64]| {
        let mut measured = measured(engine, &[1; 3]);
        for (round, ms) in measured.rounds.iter_mut().zip(wall_ms) {
            round.wall = Duration::from_millis(*ms);
        }
        measured
    };
    let all = [timed("tombolo/memory", &[10, 20, 10]), timed("redis", &[50, 40, 90])];
    let spread = Spread { median: 5.0, min: 2.0, max: 9.0 };
    let ratios: Vec<_> = tps_ratios(&all).collect();
    assert_eq!(ratios, [("tombolo/memory:redis".to_owned(), spread)]);
}

#[test]
fn every_engine_is_named_once() {
    let of = |profiles: &str, engines: &str| {
        let list = |text: &str| text.split(',').map(str::to_owned).collect::<Vec<_>>();
        names(&list(profiles), &list(engines), &["sqlite", "redis"])
    };
    let expected = ["tombolo/bare", "redis", "sqlite"].map(str::to_owned);
    assert_eq!(of("bare", "redis,sqlite").unwrap(), expected);
    let refused = |engines: &str, expect: &str| {
        let failure = of("bare", engines).unwrap_err();
        assert_eq!(failure.blame(), Blame::Usage);
        assert!(failure.to_string().contains(expect), "{failure}");
    };
    refused("redis,redis", "redis is named twice: name every engine once");
    refused("oracle", "there is no engine oracle: use sqlite, redis");
    refused("tombolo/bare", "named twice");
}
