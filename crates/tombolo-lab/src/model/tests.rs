//! What the paper states in words, out of the model (ISL-20, ISL-23, ISL-29, ISL-30): with the paper's machines, and
//! constants that contain none of it. Where a statement does not come out, the test says what does.

use super::locks::{Asked, Locks};
use super::*;

/// Transactions of a run: few, but enough that a figure moves by less than the statements differ.
const TRANSACTIONS: u64 = 2_000;

fn run(machine: &Machine, islands: usize, load: Load) -> Outcome {
    Scenario::new(machine, Islands::grouped(islands), load, TRANSACTIONS, 1).run()
}

fn quad(islands: usize, load: Load) -> Outcome {
    run(&Machine::quad_socket(), islands, load)
}

/// Rows with Zipf's law, by enough callers that a free core finds work.
fn skewed(is_update: bool, skew: f64, multisite: u64) -> Load {
    Load { skew: Some(skew), callers_per_core: 4, ..Load::rows(2, is_update, multisite) }
}

#[test]
fn a_seed_has_one_outcome() {
    let of = |seed| {
        let load = skewed(true, 0.75, 20);
        Scenario::new(&Machine::quad_socket(), Islands::grouped(4), load, 500, seed).run()
    };
    assert_eq!(of(7), of(7));
    assert_ne!(of(7), of(8));
}

#[test]
fn a_local_transaction_takes_its_constants_and_nothing_else() {
    let costs = Machine::quad_socket().costs;
    let found = quad(24, Load::rows(10, true, 0));
    let expected = costs.management_us
        + 10.0 * (costs.read_row_us + costs.change_row_us)
        + 11.0 * costs.log_record_us;
    assert!((found.parts.sum() / expected - 1.0).abs() < 0.02, "{found:?} {expected}");
    assert!((found.tps * expected / 24e6 - 1.0).abs() < 0.03, "{found:?} {expected}");
    assert_eq!((found.messages, found.parts.locking, found.restarts), (0.0, 0.0, 0));
}

/// ISL-20, ISL-29: "more than four times". More than twice as much comes out; the contention on warehouses does too
/// (cores wait for them), but not so much of it.
#[test]
fn fine_islands_lead_local_payments_but_not_by_four_and_a_half() {
    let (fine, shared) = (quad(24, Load::payment(24)), quad(1, Load::payment(24)));
    let times = fine.tps / shared.tps;
    assert!((2.0..4.0).contains(&times), "{times}");
    assert!(shared.busy < 0.8 && fine.busy > 0.95, "{} {}", shared.busy, fine.busy);
    // The rows of a large table are not contended: less of a lead.
    let rows = quad(24, Load::rows(3, true, 0)).tps / quad(1, Load::rows(3, true, 0)).tps;
    assert!(rows < times, "{rows} {times}");
}

/// ISL-29: twice as much without locality.
#[test]
fn shared_everything_leads_twice_without_locality() {
    for is_update in [false, true] {
        let load = Load::rows(10, is_update, 100);
        let times = quad(1, load).tps / quad(24, load).tps;
        assert!((1.6..2.6).contains(&times), "update {is_update}: {times}");
    }
}

/// ISL-23: locks and latches are worth roughly 40 %.
#[test]
fn islands_of_one_core_cost_roughly_forty_percent_less_locally() {
    for (is_update, expected) in [(false, 0.45..0.57), (true, 0.32..0.45)] {
        let load = Load::rows(10, is_update, 0);
        let next_best = [12, 8, 4, 2, 1].map(|islands| quad(islands, load).parts.sum());
        let next_best = next_best.into_iter().fold(f64::INFINITY, f64::min);
        let saved = 1.0 - quad(24, load).parts.sum() / next_best;
        assert!(expected.contains(&saved), "update {is_update}: {saved}");
    }
}

/// ISL-22, ISL-25, ISL-30: local work costs more on larger islands, multisite work on smaller ones.
#[test]
fn the_order_of_islands_turns_around_with_locality() {
    let costs = |multisite| {
        [24, 12, 8, 4, 2, 1].map(|of| quad(of, Load::rows(10, false, multisite)).parts.sum())
    };
    let local = costs(0);
    assert!(local.is_sorted(), "{local:?}");
    let mut multisite = costs(100)[1..].to_vec();
    multisite.reverse();
    assert!(multisite.is_sorted(), "{multisite:?}");
    // Figure 9: fine islands are ahead at first and fall below; one island does not move.
    let at = |islands, multisite| quad(islands, Load::rows(10, true, multisite)).tps;
    assert!(at(24, 0) > at(4, 0) && at(4, 0) > 0.99 * at(1, 0));
    assert!(at(24, 50) < at(4, 50) && at(4, 50) < at(1, 50));
    assert!((at(1, 100) / at(1, 0) - 1.0).abs() < 0.01);
    assert!(at(24, 100) / at(24, 0) < at(4, 100) / at(4, 0), "the finer, the steeper");
}

/// ISL-30: read-only multisite work costs in proportion to the islands that take part.
#[test]
fn cost_grows_with_participants() {
    let of = |islands| quad(islands, Load::rows(10, false, 100));
    let found = [2, 4, 8].map(of);
    let remote = found.map(|found| found.messages / 2.0);
    let slope = |at: usize| {
        (found[at + 1].parts.sum() - found[at].parts.sum()) / (remote[at + 1] - remote[at])
    };
    assert!((slope(0) / slope(1) - 1.0).abs() < 0.1, "{} {}", slope(0), slope(1));
    // A transaction that changes rows has twice the messages, and more log.
    let update = quad(4, Load::rows(10, true, 100));
    assert!((update.messages / found[1].messages - 2.0).abs() < 0.05, "{}", update.messages);
    assert!(update.parts.logging > quad(4, Load::rows(10, true, 0)).parts.logging);
}

/// ISL-27: fine islands suffer most from skew; one island only where rows are changed; coarse ones least.
#[test]
fn skew_overloads_fine_islands_and_hot_rows_a_shared_one() {
    let lost = |islands, is_update, skew| {
        1.0 - quad(islands, skewed(is_update, skew, 0)).tps
            / quad(islands, skewed(is_update, 0.0, 0)).tps
    };
    assert!(lost(24, false, 0.75) > lost(4, false, 0.75));
    assert!(lost(1, false, 1.0).abs() < 0.02, "readers share rows");
    assert!(lost(1, true, 1.0) > 0.5 && lost(1, true, 0.5) < 0.05);
    assert!(quad(1, skewed(true, 0.5, 0)).tps > 2.0 * quad(24, skewed(true, 0.5, 0)).tps);
    // What is sent to the overloaded island holds up the others.
    assert!(quad(24, skewed(true, 1.0, 50)).tps < quad(24, skewed(true, 1.0, 0)).tps);
}

/// ISL-3, ISL-25: islands on near cores cost less than the same islands spread; more cores do not slow anyone down.
#[test]
fn islands_on_near_cores_are_better() {
    let machine = Machine::octo_socket();
    let placed = |is_spread| {
        let islands = Islands { count: 8, is_spread };
        Scenario::new(&machine, islands, Load::rows(10, false, 0), TRANSACTIONS, 1).run()
    };
    assert!(placed(false).tps > placed(true).tps);
    let half = Machine { sockets: 4, ..machine.clone() };
    let load = Load::rows(10, true, 20);
    for (few, many) in [(1, 1), (4, 8), (40, 80)] {
        let times = run(&machine, many, load).tps / run(&half, few, load).tps;
        assert!((1.7..2.1).contains(&times), "{many} islands: {times}");
    }
}

/// ISL-28: beyond the pool, the disks decide, and all islands fall alike.
#[test]
fn rows_that_are_not_in_memory_end_it() {
    let disks = Disks { count: 2, read_us: 3_000.0, misses_per_mille: 500 };
    let with = |islands, disks| {
        let load = Load::rows(2, false, 0);
        let of = Scenario::new(&Machine::quad_socket(), Islands::grouped(islands), load, 300, 1);
        Scenario { disks, ..of }.run().tps
    };
    for islands in [24, 1] {
        let (fast, slow) = (with(islands, None), with(islands, Some(disks)));
        assert!(fast > 100.0 * slow, "{islands}: {fast} {slow}");
        // Two disks, 333 reads a second each, one read for each transaction.
        assert!((500.0..850.0).contains(&slow), "{islands}: {slow}");
    }
}

/// Every transaction that waits for itself through others gives way, and all end.
#[test]
fn circles_between_islands_are_broken() {
    let load = Load { rows: 48, ..Load::rows(4, true, 100) };
    let found = quad(24, load);
    assert!(found.restarts > 0 && found.tps > 0.0, "{found:?}");
    let mut locks = Locks::default();
    assert_eq!(locks.ask(1, (1, 0), true), Asked::Granted);
    assert_eq!(locks.ask(2, (2, 0), true), Asked::Granted);
    assert_eq!(locks.ask(2, (1, 0), true), Asked::Waits);
    assert_eq!(locks.ask(1, (2, 0), true), Asked::Circle);
    assert_eq!(locks.release(2, [2], true), [(1, 0)]);
    assert_eq!(locks.release(1, [1, 2], true), []);
    assert!(locks.is_empty());
}

/// A serial island executes one at a time however many cores it has; its local transactions pay no locks (ISL-17).
#[test]
fn a_serial_island_uses_one_core() {
    let machine = Machine { serial_islands: true, ..Machine::quad_socket() };
    let local = |islands| run(&machine, islands, Load::rows(10, false, 0)).tps;
    assert!((local(24) / local(1) - 24.0).abs() < 0.5, "{} {}", local(24), local(1));
    let (few, many) = (Load::rows(10, false, 1), Load::rows(10, false, 100));
    assert!(run(&machine, 24, few).parts.locking < run(&machine, 24, many).parts.locking / 10.0);
}

#[test]
fn a_machine_that_is_none_is_refused() {
    let refused = |machine: Machine| machine.verify().unwrap_err().to_string();
    let mut machine = Machine::quad_socket();
    assert_eq!(machine.verify(), Ok(()));
    machine.costs.message_us = f64::NAN;
    assert!(refused(machine.clone()).contains("costs.message_us must be from 0"));
    assert!(refused(Machine { sockets: 0, ..machine }).contains("sockets must be from 1 to 64"));
}
