//! Which settings make a plan, and what is refused before anything starts.

use tombolo_engine::settings::{Settings, Source};

use super::*;
use crate::failure::Blame;
use crate::workload::tpcc::input::Mix;

fn plan(given: &[(&str, &str)]) -> Result<Plan, Failure> {
    let mut settings = Settings::default();
    for (name, value) in given {
        settings.set(name, value, Source::Flag).unwrap();
    }
    Plan::new(&settings)
}

#[test]
fn settings_become_a_plan() {
    let plan =
        plan(&[("mix", "paper"), ("transactions", "5k"), ("clients", "10"), ("in_flight", "2")]);
    let plan = plan.unwrap();
    assert_eq!((plan.mix, plan.bound, plan.callers), (Mix::Paper, Bound::Transactions(5_000), 20));
    assert_eq!(
        plan.count_arguments().join(" "),
        "--profile memory --warehouses 5 --mix paper --seed 1 --counted 2000"
    );
}

#[test]
fn what_does_not_exist_is_refused_with_the_reason() {
    let refused = |given: &[(&str, &str)], expect: &str| {
        let error = plan(given).unwrap_err();
        assert_eq!(error.blame(), Blame::Usage);
        assert!(error.to_string().contains(expect), "{error}");
    };
    refused(&[("durability", "group")], "profile memory has no log");
    refused(&[("threads", "2")], "no locks and no latches");
    refused(&[("islands", "2")], "use --islands 1");
    refused(&[("clients", "1M"), ("in_flight", "2")], "calls under way");
}

#[test]
fn more_than_memory_holds_is_refused_with_its_size() {
    let verify = |given: &[(&str, &str)]| plan(given).unwrap().verify_machine();
    verify(&[("warehouses", "1")]).unwrap();
    let error = verify(&[("warehouses", "60_000")]).unwrap_err();
    assert_eq!(error.blame(), Blame::Environment);
    assert!(
        error.to_string().contains("would need about ") && error.to_string().contains("TB"),
        "{error}"
    );
    assert!(verify(&[("warehouses", "1"), ("memory_limit", "128 MB")]).is_err());
    assert!(verify(&[("transactions", "1G")]).is_err());
}

#[test]
fn a_tiny_run_is_consistent_on_every_profile_with_the_same_state() {
    let run_on = |profile: &str| {
        let plan = plan(&[
            ("profile", profile),
            ("warehouses", "1"),
            ("transactions", "500"),
            ("latency_transactions", "50"),
        ]);
        run(&plan.unwrap(), None, &mut ()).unwrap()
    };
    let outcomes = ["memory", "bare"].map(run_on);
    for outcome in &outcomes {
        assert!(outcome.verification.consistent(), "{:?}", outcome.verification);
        assert_eq!(outcome.verification.checks.len(), 14);
        assert_eq!(outcome.state_hash, outcomes[0].state_hash);
        assert_eq!(outcome.state_hash.as_ref().map(String::len), Some(32));
        assert_eq!(outcome.throughput.tally, outcomes[0].throughput.tally);
        assert!(outcome.usage.memory_bytes > outcome.usage.raw_row_bytes);
    }
}
