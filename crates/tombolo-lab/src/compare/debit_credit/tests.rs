//! Settled inputs, what a ledger notices, and whole comparisons of what is in this build.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::compare::{failure, ratios, tps_ratios};
use crate::failure::Blame;
use crate::workload::WorkloadInput;

/// So few accounts that balances run out.
const TINY: Scale = Scale { seed: 7, branches: 2, tellers_per_branch: 2, accounts_per_branch: 3 };

pub(super) fn ours() -> Vec<String> {
    vec!["tombolo/memory".to_owned()]
}

/// Those that are in this build.
pub(super) fn built_peers() -> impl Iterator<Item = String> {
    PEERS.into_iter().filter(|peer| peer.open.is_some()).map(|peer| peer.name.to_owned())
}

pub(super) fn plan(given: &[(&str, &str)]) -> Result<Plan, Failure> {
    let mut settings = settings::defaults();
    let common = [
        ("branches", "3"),
        ("tellers_per_branch", "4"),
        ("accounts_per_branch", "50"),
        ("transactions", "3k"),
        ("rounds", "2"),
        ("clients", "10"),
        ("log_segment_bytes", "4 MB"),
    ];
    for (name, value) in common.iter().chain(given) {
        settings.set(name, value, Source::Flag).unwrap();
    }
    plan::make_effective(&mut settings);
    Plan::new(&settings)
}

/// A directory that the user of a server can reach, who is another one where this process is root's.
pub(super) fn scratch() -> tempfile::TempDir {
    let everyone = std::fs::Permissions::from_mode(0o755);
    tempfile::Builder::new().permissions(everyone).tempdir().unwrap()
}

/// Compares the engines called `names`, and expects that all end alike.
fn compared(names: &[String], given: &[(&str, &str)]) -> Vec<Measured> {
    let scratch = scratch();
    let data = scratch.path().join("data");
    let mut given = given.to_vec();
    let path = data.display().to_string();
    given.push(("data", &path));
    let measured = compare(&plan(&given).unwrap(), names, &mut ()).unwrap();
    assert_eq!(failure(&measured), None);
    assert!(!data.exists(), "everything is removed");
    for engine in &measured {
        let total = engine.total();
        assert_eq!((engine.rounds.len(), total.committed + total.aborted), (2, 6_000));
        assert_eq!(total.committed, measured[0].total().committed, "{}", engine.engine);
        assert!(total.aborted > 0 && engine.latency.is_some(), "{}", engine.engine);
        let checks = engine.verification.checks.iter().map(|(name, _)| name.as_str());
        assert_eq!(checks.collect::<Vec<_>>(), ["answers", "tellers", "branches", "balances"]);
    }
    measured
}

#[test]
fn no_order_of_settled_inputs_runs_out_of_money() {
    let rows = Rows::of(TINY, 1);
    let mut ledger = Ledger::new(TINY, &rows);
    let inputs = ledger.take(5_000);
    let unsettled: Vec<_> = TINY.inputs().take(5_000).collect();
    let turned = inputs.iter().zip(&unsettled).filter(|(settled, input)| settled != input);
    assert!(turned.count() > 1_000, "these accounts are drawn eight hundred times each");
    // Withdrawals first is the worst order there is.
    let mut ordered: Vec<_> = inputs.iter().filter(|input| !input.aborts()).collect();
    ordered.sort_by_key(|input| input.amount);
    let mut balances = rows.balances();
    for input in &ordered {
        let ids = [input.branch, input.teller, input.account];
        for (table, id) in balances.iter_mut().zip(ids) {
            table[id as usize - 1] += i64::from(input.amount);
            assert!(table[id as usize - 1] >= 0, "{input:?}");
        }
    }
    let answered = Batch {
        committed: ordered.len() as u64,
        aborted: 5_000 - ordered.len() as u64,
        ..Batch::default()
    };
    assert!(ledger.verify(&balances, &answered).consistent());
}

#[test]
fn a_ledger_notices_every_kind_of_wrong_balance() {
    let rows = Rows::of(TINY, 1);
    let mut ledger = Ledger::new(TINY, &rows);
    let inputs = ledger.take(100);
    let aborted = inputs.iter().filter(|input| input.aborts()).count() as u64;
    let answered = Batch { committed: 100 - aborted, aborted, ..Batch::default() };
    let right = ledger.balances().clone();
    let violated = |balances: &Balances, answered: &Batch| -> Vec<String> {
        let found = ledger.verify(balances, answered);
        assert_eq!(found.consistent(), found.damage.is_empty());
        found.damage.into_iter().map(|finding| finding.check).collect()
    };
    assert!(violated(&right, &answered).is_empty());
    let mut wrong = right.clone();
    wrong[0][1] += 1;
    assert_eq!(violated(&wrong, &answered), ["branches", "balances"]);
    let mut wrong = right.clone();
    wrong[1].swap(0, 3);
    wrong[1][0] += 1;
    assert_eq!(violated(&wrong, &answered), ["tellers", "balances"]);
    let mut wrong = right.clone();
    (wrong[2][0], wrong[2][5]) = (wrong[2][0] - 1, wrong[2][5] + 1);
    assert_eq!(violated(&wrong, &answered), ["balances"], "the sums are right");
    let one_less = Batch { committed: answered.committed - 1, ..answered };
    assert_eq!(violated(&right, &one_less), ["answers"]);
}

#[test]
fn ours_holds_what_the_inputs_amount_to_at_either_durability() {
    for durability in ["none", "group"] {
        let measured = compared(&ours(), &[("durability", durability), ("in_flight", "3")]);
        assert_eq!(measured[0].durability, durability);
        assert_eq!(measured[0].calls, Some(Calls { clients: 10, in_flight: 3 }));
    }
}

#[test]
fn what_cannot_be_compared_is_refused() {
    let refused = |failure: Failure, expect: &str| {
        assert_eq!(failure.blame(), Blame::Usage);
        assert!(failure.to_string().contains(expect), "{failure}");
    };
    refused(plan(&[("durability", "sync")]).unwrap_err(), "use --durability none or group");
    let verify = |name: &str| verify_names(&[name.to_owned()]).unwrap_err();
    refused(verify("tombolo/bare"), "profile bare has no pipeline");
    refused(verify("oracle"), "use sqlite, lmdb, rocksdb, redb, redis, postgres");
    for Peer { name: peer, .. } in PEERS.iter().filter(|peer| peer.open.is_none()) {
        let cargo = format!("--features compare-{peer} -- compare debit-credit --with {peer}");
        refused(verify(peer), &cargo);
    }
}

/// Those of this build; CI builds all.
#[test]
fn peers_hold_what_the_inputs_amount_to_at_either_durability() {
    let names: Vec<_> = ours().into_iter().chain(built_peers()).collect();
    verify_machine(&plan(&[]).unwrap(), &names).unwrap();
    for (durability, in_flight) in [("none", "1"), ("group", "4")] {
        let measured = compared(&names, &[("durability", durability), ("in_flight", in_flight)]);
        let found: BTreeSet<_> = measured.iter().map(|engine| engine.engine.clone()).collect();
        assert_eq!(found, names.iter().cloned().collect());
        assert_eq!(tps_ratios(&measured).count(), names.len() - 1);
        assert_eq!(ratios(&measured).count(), names.len() - 1);
    }
}
