//! Ratios, spreads and refusals of `compare`, without any peer.

use super::*;
use crate::failure::Blame;

fn measured(engine: &str, cpu_ms: &[u64]) -> Measured {
    let batch = |ms| Batch { committed: 1_000, cpu: Duration::from_millis(ms), ..Batch::default() };
    Measured {
        engine: engine.to_owned(),
        version: "1".to_owned(),
        transport: "embedded",
        rounds: cpu_ms.iter().copied().map(batch).collect(),
        verification: Verification::default(),
        state_hash: "ab".to_owned(),
    }
}

#[test]
fn ratios_are_taken_round_by_round() {
    let all = [
        measured("tombolo/bare", &[1, 2, 1]),
        measured("tombolo/memory", &[2, 2, 2]),
        measured("sqlite", &[20, 20, 30]),
    ];
    let ratios = ratios(&all);
    let spread = |median, min, max| Spread { median, min, max };
    assert_eq!(ratios[0], ("sqlite:tombolo/bare".to_owned(), spread(20.0, 10.0, 30.0)));
    assert_eq!(ratios[1], ("sqlite:tombolo/memory".to_owned(), spread(10.0, 10.0, 15.0)));
    assert_eq!(ratios.len(), 2);
}

#[test]
fn engines_that_hold_different_rows_fail_the_comparison() {
    let mut all = [measured("tombolo/bare", &[1]), measured("sqlite", &[1])];
    assert_eq!(failure(&all), None);
    all[1].state_hash = "cd".to_owned();
    let failure = failure(&all).unwrap();
    assert_eq!(failure.blame(), Blame::Check);
    assert!(failure.to_string().contains("tombolo/bare and sqlite hold different rows"));
}

#[test]
fn our_profiles_hold_the_same_rows_after_a_comparison() {
    let scale = Scale { seed: 1, warehouses: 1, mix: crate::workload::tpcc::input::Mix::Standard };
    let pages = crate::estimate::page_bytes(&scale, 10_000);
    let names = ["tombolo/conventional", "tombolo/memory", "tombolo/bare"];
    let mut engines = names.map(|name| open(name, pages).unwrap());
    let plan = Plan { scale, transactions: 300, rounds: 2 };
    let clock = tombolo_engine::clock::SystemClock::new();
    let measured = compare(&plan, &mut engines, &clock, &mut ()).unwrap();
    assert_eq!(failure(&measured), None);
    for (engine, name) in measured.iter().zip(names) {
        assert_eq!((engine.engine.as_str(), engine.rounds.len()), (name, 2));
        assert!(engine.verification.consistent(), "{name}");
        let total = engine.total();
        assert_eq!(total.committed + total.aborted, 600, "{name}");
    }
}

#[test]
fn engines_that_are_not_there_are_refused_by_name() {
    let refused = |name: &str, expect: &str| {
        let failure = open(name, 1 << 20).unwrap_err();
        assert_eq!(failure.blame(), Blame::Usage);
        assert!(failure.to_string().contains(expect), "{failure}");
    };
    refused("oracle", "engine oracle is not known: use sqlite");
    refused("tombolo/fast", "profile fast is not known");
    #[cfg(not(feature = "compare-sqlite"))]
    refused("sqlite", "--features compare-sqlite -- compare tpcc --with sqlite");
}
