//! TPC-C on our own profiles, and engines that are not there.

use super::*;
use crate::compare::failure;
use crate::failure::Blame;
use crate::workload::tpcc::input::Mix;

pub(super) fn plan(scale: Scale) -> Plan {
    Plan { scale, rounds: Rounds { transactions: 300, rounds: 2 }, memory_limit: None }
}

#[test]
fn our_profiles_hold_the_same_rows_after_a_comparison() {
    let scale = Scale { seed: 1, warehouses: 1, mix: Mix::Standard };
    let names = ["tombolo/conventional", "tombolo/memory", "tombolo/bare"].map(str::to_owned);
    let measured = compare(&plan(scale), &names, &mut ()).unwrap();
    assert_eq!(failure(&measured), None);
    for (engine, name) in measured.iter().zip(names) {
        assert_eq!((&engine.engine, engine.rounds.len()), (&name, 2));
        assert!(engine.verification.consistent(), "{name}");
        let total = engine.total();
        assert_eq!(total.committed + total.aborted, 600, "{name}");
    }
}

#[test]
fn engines_that_are_not_there_are_refused_by_name() {
    let refused = |name: &str, expect: &str| {
        let scale = Scale { seed: 1, warehouses: 1, mix: Mix::Paper };
        let failure = verify(&plan(scale), &[name.to_owned()]).unwrap_err();
        assert_eq!(failure.blame(), Blame::Usage);
        assert!(failure.to_string().contains(expect), "{failure}");
    };
    refused("oracle", "there is no engine oracle: use sqlite");
    refused("tombolo/fast", "profile fast is not known");
    #[cfg(not(feature = "compare-sqlite"))]
    refused("sqlite", "--features compare-sqlite -- compare tpcc --with sqlite");
}
