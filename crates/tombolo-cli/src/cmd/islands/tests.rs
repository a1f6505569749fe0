//! TPC-C on islands leaves what it leaves in one store, also through kills, and the conditions notice parts that were
//! dropped or repeated.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use tombolo_engine::threads::{available, on_each};
use tombolo_lab::experiment::islands::deployments::Deployment;
use tombolo_lab::experiment::islands::tpcc::TpccDeployment;
use tombolo_lab::rows;
use tombolo_lab::upkeep::check::check;
use tombolo_lab::workload::tpcc::input::{Generator, Input, Mix, Remote};
use tombolo_lab::workload::tpcc::islands::{Hash, IslandSums, conditions, state_hash};
use tombolo_lab::workload::tpcc::loader::{Scale, load};
use tombolo_lab::workload::tpcc::nurand::Constants;
use tombolo_lab::workload::tpcc::transactions::Transactions;
use tombolo_storage::memory::{Limits, MemoryStore};
use tombolo_storage::profile::Memory;
use tombolo_storage::store::Store;

use super::How;
use super::tpcc::Own;

const SCALE: Scale = Scale { seed: 3, warehouses: 2, mix: Mix::Standard };
const TRANSACTIONS: usize = 3_000;

/// Every other Payment, and many New Orders, involve the other warehouse.
fn inputs() -> Generator {
    let constants = Constants::from_seed(SCALE.seed);
    let inputs = Generator::new(SCALE.seed, SCALE.mix, SCALE.warehouses, constants);
    inputs.with_remote(Remote { payments: 50, lines: 5 })
}

fn loaded(islands: u16) -> Own {
    let own = Own::open(islands, SCALE, How::default(), None).unwrap();
    own.load(SCALE).unwrap();
    own
}

/// The conditions that do not hold.
fn violated(own: &Own) -> Vec<&'static str> {
    let checks = conditions(own.sums().unwrap()).into_iter();
    checks.filter(|check| !check.holds()).map(|check| check.name).collect()
}

/// Whether it is a Payment or New Order over both islands, and commits.
fn is_distributed(own: &Own, input: &Input) -> bool {
    let called = own.call(input).unwrap();
    called.is_distributed && called.has_committed
}

#[test]
fn islands_leave_the_rows_that_one_store_has() {
    let mut store = MemoryStore::<Memory>::new(Limits::default());
    load(&mut store, SCALE, available(), |_, _| {}).unwrap();
    let transactions = Transactions::bind(Store::schema(&store), SCALE.mix).unwrap();
    let alone = |input: Input| transactions.call(&mut store, &input).is_ok();
    let committed: Vec<bool> = inputs().take(TRANSACTIONS).map(alone).collect();
    assert!(committed.iter().any(|committed| !committed), "an unused item");
    let expected = rows::state_hash(&mut store).unwrap();
    for islands in [1, 2] {
        let own = loaded(islands);
        let called = inputs().take(TRANSACTIONS).map(|input| own.call(&input).unwrap());
        let called: Vec<_> = called.collect();
        assert!(called.iter().map(|called| called.has_committed).eq(committed.iter().copied()));
        let distributed = called.iter().filter(|called| called.is_distributed).count();
        let expected_distributed = if islands == 1 { 0..1 } else { 500..TRANSACTIONS };
        assert!(expected_distributed.contains(&distributed), "{distributed}");
        let hashes = own.on_each(&own.islands.register::<Hash>().unwrap()).unwrap();
        assert_eq!(state_hash(&hashes), expected, "{islands} islands");
        assert_eq!(violated(&own), [""; 0], "{islands} islands");
    }
}

#[test]
fn a_part_that_is_dropped_or_repeated_is_noticed() {
    let mut own = loaded(2);
    let payment =
        inputs().find(|input| matches!(input, Input::Payment(_)) && is_distributed(&own, input));
    let order =
        inputs().find(|input| matches!(input, Input::NewOrder(_)) && is_distributed(&own, input));
    let mut run = |times: usize| {
        own.set_times(times);
        assert!([payment, order].iter().flatten().all(|input| is_distributed(&own, input)));
        violated(&own)
    };
    assert_eq!(run(1), [""; 0]);
    assert_eq!(run(0), ["c10", "stock"]);
    // One that was dropped and one that was repeated make up for each other.
    assert_eq!(run(2), [""; 0]);
    assert_eq!(run(2), ["c10", "stock"]);
}

/// Set for the child process only: the directory it works in.
const CHILD: &str = "TOMBOLO_TEST_ISLANDS_CHILD";

#[test]
fn killed_islands_hold_the_conditions_when_opened_again() {
    let open = |place| Own::open(2, SCALE, How::default(), Some(place)).unwrap();
    if let Some(place) = std::env::var_os(CHILD) {
        let own = open(place.as_ref());
        on_each([1, 2], |home| {
            let own_inputs = inputs().of_caller(u64::from(std::process::id()), home, home..=home);
            for input in own_inputs {
                own.call(&input).unwrap();
                println!("called");
            }
        });
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let own = open(place.path());
    own.load(SCALE).unwrap();
    let mut orders = own.sums().unwrap().iter().map(IslandSums::orders).sum::<i64>();
    own.islands.close().unwrap();
    for answered in [200, 1_000] {
        let test = "cmd::islands::tests::killed_islands_hold_the_conditions_when_opened_again";
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", test, "--nocapture"]).env(CHILD, place.path());
        let mut child = child.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let called = lines.filter(|line| line == "called").take(answered).count();
        assert_eq!(called, answered, "it ended by itself");
        child.kill().unwrap(); // SIGKILL
        child.wait().unwrap();
        let own = open(place.path());
        assert_eq!(violated(&own), [""; 0]);
        let now = own.sums().unwrap().iter().map(IslandSums::orders).sum::<i64>();
        assert!(now - orders > answered as i64 / 4, "of 100 calls 45 are New Orders");
        orders = now;
        assert!(inputs().take(100).all(|input| own.call(&input).is_ok()));
        own.islands.close().unwrap();
    }
    // What holds of all islands together holds of none alone.
    let checked = check(&[place.path().join("islands-2")], None, None, &mut ()).unwrap();
    assert!(checked.failure().is_none(), "{:?}", checked.verification.damage.first());
    let names = checked.verification.checks.iter().map(|(name, _)| name.as_str());
    let names: Vec<_> =
        names.filter(|name| ["c10", "stock", "island-1/slabs"].contains(name)).collect();
    assert_eq!(names, ["island-1/slabs", "c10", "stock"]);
}
