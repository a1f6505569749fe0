//! TPC-C on islands leaves what it leaves in one store, also through kills, and the conditions notice parts that were
//! dropped or repeated.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;
use tombolo_engine::threads::{available, on_each};
use tombolo_lab::experiment::islands::deployments::{Deployment, How};
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

use super::tpcc::memory::InMemory;
use super::tpcc::paged::OnPages;
use super::tpcc::{Library, Tpcc};

const SCALE: Scale = Scale { seed: 3, warehouses: 2, mix: Mix::Standard };
const TRANSACTIONS: usize = 3_000;

/// Every other Payment, and many New Orders, involve the other warehouse.
fn inputs() -> Generator {
    let constants = Constants::from_seed(SCALE.seed);
    let inputs = Generator::new(SCALE.seed, SCALE.mix, SCALE.warehouses, constants);
    inputs.with_remote(Remote { payments: 50, lines: 5 })
}

fn in_memory(islands: u16, data: Option<&Path>) -> Tpcc<InMemory> {
    Tpcc::in_memory(islands, SCALE, How::default(), data).unwrap()
}

fn on_pages(islands: u16, data: Option<&Path>) -> Tpcc<OnPages> {
    Tpcc::on_pages(islands, SCALE, (data, None)).unwrap()
}

/// The conditions that do not hold.
fn violated(own: &impl TpccDeployment) -> Vec<&'static str> {
    let checks = conditions(own.sums().unwrap()).into_iter();
    checks.filter(|check| !check.holds()).map(|check| check.name).collect()
}

/// Whether it is a Payment or New Order over both islands, and commits.
fn is_distributed(own: &impl TpccDeployment, input: &Input) -> bool {
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
        let own = in_memory(islands, None);
        leaves(&own, &committed);
        let hashes = own.library.on_each(&own.library.islands.register::<Hash>().unwrap()).unwrap();
        assert_eq!(state_hash(&hashes), expected, "{islands} islands");
        let own = on_pages(islands, None);
        leaves(&own, &committed);
        let hash = own.library.islands.procedure::<Hash>().unwrap();
        let hashes = own.library.islands.read(|tx| {
            let homes = 1..=i32::from(islands);
            homes.map(|w_id| tx.at(&w_id, |tx| tx.run(&hash, &()))).collect::<Result<Vec<_>, _>>()
        });
        assert_eq!(state_hash(&hashes.unwrap()), expected, "{islands} islands of paged stores");
    }
}

/// Loads a database and runs the transactions, of which these commit.
fn leaves(own: &impl TpccDeployment, committed: &[bool]) {
    own.load(SCALE).unwrap();
    let called = inputs().take(TRANSACTIONS).map(|input| own.call(&input).unwrap());
    let called: Vec<_> = called.collect();
    assert!(called.iter().map(|called| called.has_committed).eq(committed.iter().copied()));
    let distributed = called.iter().filter(|called| called.is_distributed).count();
    let expected = if own.islands() == 1 { 0..1 } else { 500..TRANSACTIONS };
    assert!(expected.contains(&distributed), "{distributed}");
    assert_eq!(violated(own), [""; 0], "{} islands", own.islands());
}

#[test]
fn a_part_that_is_dropped_or_repeated_is_noticed() {
    let mut own = in_memory(2, None);
    own.load(SCALE).unwrap();
    let payment =
        inputs().find(|input| matches!(input, Input::Payment(_)) && is_distributed(&own, input));
    let order =
        inputs().find(|input| matches!(input, Input::NewOrder(_)) && is_distributed(&own, input));
    let mut run = |times: usize| {
        own.library.set_times(times);
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
    let open = |place: &Path| in_memory(2, Some(place));
    let test = "killed_islands_hold_the_conditions_when_opened_again";
    let place = killed(test, open, |own| own.library.islands.close().unwrap());
    let Some(place) = place else { return };
    // What holds of all islands together holds of none alone.
    let checked = check(&[place.path().join("islands-2")], None, None, &mut ()).unwrap();
    assert!(checked.failure().is_none(), "{:?}", checked.verification.damage.first());
    let names: Vec<_> = checked.verification.checks.iter().map(|(name, _)| name.as_str()).collect();
    assert!(["island-1/slabs", "c10", "stock"].iter().all(|of| names.contains(of)), "{names:?}");
}

#[test]
fn killed_islands_of_paged_stores_hold_the_conditions_when_opened_again() {
    let open = |place: &Path| on_pages(2, Some(place));
    let test = "killed_islands_of_paged_stores_hold_the_conditions_when_opened_again";
    killed(test, open, |own| own.library.islands.close().unwrap());
}

/// Kills a process that runs transactions, several times; `None` in that process.
fn killed<L: Library + Sync>(
    test: &str,
    open: impl Fn(&Path) -> Tpcc<L>,
    close: impl Fn(Tpcc<L>),
) -> Option<TempDir> {
    if let Some(place) = std::env::var_os(CHILD) {
        let own = open(place.as_ref());
        on_each([1, 2], |home| {
            let own_inputs = inputs().of_caller(u64::from(std::process::id()), home, home..=home);
            for input in own_inputs {
                own.call(&input).unwrap();
                println!("called");
            }
        });
        return None;
    }
    let place = tempfile::tempdir().unwrap();
    let own = open(place.path());
    own.load(SCALE).unwrap();
    let orders = |own: &Tpcc<L>| own.sums().unwrap().iter().map(IslandSums::orders).sum::<i64>();
    let mut before = orders(&own);
    close(own);
    for answered in [200, 1_000] {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", &format!("cmd::islands::tests::{test}"), "--nocapture"]);
        let child = child.env(CHILD, place.path()).stdout(Stdio::piped());
        let mut child = child.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let called = lines.filter(|line| line == "called").take(answered).count();
        assert_eq!(called, answered, "it ended by itself");
        child.kill().unwrap(); // SIGKILL
        child.wait().unwrap();
        let own = open(place.path());
        assert_eq!(violated(&own), [""; 0]);
        let now = orders(&own);
        assert!(now - before > answered as i64 / 4, "of 100 calls 45 are New Orders");
        before = now;
        assert!(inputs().take(100).all(|input| own.call(&input).is_ok()));
        close(own);
    }
    Some(place)
}
