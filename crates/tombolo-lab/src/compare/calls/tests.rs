//! Names, points, money and ratios of `compare calls`.

use super::*;
use crate::failure::Blame;

fn plan(
    flags: &[(&str, &str)],
    peers: &str,
    callers: &[usize],
    what: &str,
) -> Result<Plan, Failure> {
    let list = |text: &str| text.split(',').map(str::to_owned).collect::<Vec<_>>();
    let mut settings = settings::defaults();
    settings.set("transactions", "300", Source::Flag).unwrap();
    for (name, value) in flags {
        settings.set(name, value, Source::Flag).unwrap();
    }
    Plan::new(&settings, &list(peers), callers, &list(what))
}

#[test]
fn what_cannot_be_compared_is_refused() {
    let refused = |plan: Result<Plan, Failure>, expect: &str| {
        let failure = plan.unwrap_err();
        assert_eq!(failure.blame(), Blame::Usage);
        assert!(failure.to_string().contains(expect), "{failure}");
    };
    let none = ("durability", "none");
    refused(plan(&[none], "oracle", &[1], "read"), "there is no engine oracle: use sqlite");
    refused(plan(&[none], hash_map::NAME, &[1], "write"), "a call cannot write");
    refused(plan(&[none], hash_map::NAME, &[0], "read"), "0 threads cannot call");
    refused(plan(&[("durability", "sync")], hash_map::NAME, &[1], "read"), "durability sync");
    refused(plan(&[("counter", "perf")], hash_map::NAME, &[1], "read"), "--counter callgrind");
    if !cfg!(feature = "compare-redb") {
        let build = "--features compare-redb -- compare calls --with redb";
        refused(plan(&[none], "redb", &[1], "read"), build);
    }
}

#[test]
fn what_keeps_nothing_takes_no_part_where_answers_are_durable() {
    let plan = plan(&[], hash_map::NAME, &[1, 2], "transfer").unwrap();
    assert_eq!(plan.durabilities, [false, true]);
    assert_eq!(plan.engines_at(false), [OWN, hash_map::NAME]);
    assert_eq!(plan.engines_at(true), [OWN, raw_device::NAME]);
    assert_eq!(plan.points().map(|point| point.callers).collect::<Vec<_>>(), [1, 2]);
}

/// A hash table in our own side's place; or one that makes a cent now and then.
struct Own {
    table: HashMapOwn,
    makes_money: bool,
}
type HashMapOwn = hash_map::HashMapEngine;

impl Engine for Own {
    fn version(&self) -> &str {
        "0"
    }

    fn with_caller(
        &self,
        alone: bool,
        work: &mut dyn FnMut(&mut dyn Caller),
    ) -> Result<(), Failure> {
        self.table.with_caller(alone, work)
    }

    fn total_cents(&self) -> Result<Option<i64>, Failure> {
        let total = self.table.total_cents()?;
        Ok(total.map(|cents| cents + i64::from(self.makes_money)))
    }
}

fn compared(makes_money: bool) -> Vec<Called> {
    let mut plan = plan(&[("rounds", "3")], hash_map::NAME, &[1, 3], "transfer,read").unwrap();
    plan.durabilities = vec![false];
    let scratch = tempfile::tempdir().unwrap();
    plan.data = Some(scratch.path().join("data"));
    let own = move |_: &Opening<'_>| -> Result<Box<dyn Engine>, Failure> {
        Ok(Box::new(Own { table: HashMapOwn::new(), makes_money }))
    };
    compare(&plan, &own, &mut ()).unwrap()
}

#[test]
fn every_engine_is_called_at_every_point_in_every_round() {
    let called = compared(false);
    assert_eq!(called.len(), 2 * 2 * 2);
    for (number, called) in called.iter().enumerate() {
        assert_eq!(called.engine, [OWN, hash_map::NAME][number % 2]);
        assert_eq!(called.callers, [1, 3][number / 2 % 2]);
        assert_eq!(called.what, What::ALL[number / 4]);
        assert_eq!(called.rounds.len(), 3);
        for round in &called.rounds {
            assert_eq!(round.committed, 300, "so many calls of all callers");
            assert!(!round.wall.is_zero() && !round.cpu.is_zero(), "{round:?}");
        }
        assert_eq!(called.latencies.len(), 3 * 300);
        assert_eq!(called.consistent, Some(true));
    }
    assert_eq!(failure(&called), None);
}

#[test]
fn money_out_of_nothing_fails_the_comparison() {
    let failure = failure(&compared(true)).unwrap();
    assert_eq!(failure.blame(), Blame::Check);
    assert!(failure.to_string().starts_with("tombolo/memory at durability none"), "{failure}");
}

/// The peers of this build in both durabilities, small, with several callers.
#[test]
fn no_peer_loses_money() {
    for Peer { name, .. } in PEERS.iter().filter(|peer| peer.open.is_some()) {
        for is_durable in [false, true] {
            let scratch = tempfile::tempdir().unwrap();
            let directory = scratch.path().join(name);
            let opening = Opening { directory: &directory, is_durable };
            let engine = open(name, &opening, &|_| unreachable!("only peers are opened")).unwrap();
            let clock = SystemClock::new();
            for callers in [1, 3] {
                for what in What::ALL {
                    let bound = Bound { calls: 30, time_max: None };
                    let point = Point { what, callers };
                    let called = driver::call(&*engine, point, bound, (1, [0, 0]), &clock);
                    assert_eq!(called.unwrap().0.committed, 30, "{name}");
                }
            }
            let total = i64::from(ACCOUNTS) * CENTS_EACH;
            assert_eq!(engine.total_cents().unwrap(), Some(total), "{name}");
            engine.close().unwrap();
        }
    }
}
