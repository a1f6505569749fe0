//! What is reported of a trace whose calls are known.

use tombolo_engine::trace::{Touched, TracedTable};

use super::*;

fn touched(access: Access, table: u32, key: Option<u64>) -> Touched {
    Touched { access, table, key, rows: 1 }
}

/// Accounts that are updated, rates that are only read, and a log without a key.
fn trace(calls: Vec<Vec<Touched>>) -> Trace {
    let table = |name: &str, key: Option<&str>| TracedTable {
        name: name.to_owned(),
        row_bytes: 32,
        key: key.map(str::to_owned),
    };
    let call = |(at, touched): (usize, Vec<Touched>)| Call {
        procedure: (touched.len() > 2).into(),
        began_us: at as u64,
        ran_ns: 1_000,
        touched,
        ..Call::default()
    };
    Trace {
        tables: vec![table("account", Some("id")), table("rate", Some("id")), table("log", None)],
        procedures: vec!["pay".to_owned(), "transfer".to_owned()],
        calls: calls.into_iter().enumerate().map(call).collect(),
        ..Trace::default()
    }
}

const LOW: u64 = 1 << 60;
const HIGH: u64 = 15 << 60;

pub(in crate::experiment::islands) fn workload() -> Workload {
    use Access::{Created, Read, Updated};
    let pay = |key| vec![touched(Updated, 0, Some(key)), touched(Read, 1, Some(HIGH))];
    let transfer = |from, to| {
        let both = vec![touched(Updated, 0, Some(from)), touched(Updated, 0, Some(to))];
        [both, vec![touched(Created, 2, None)]].concat()
    };
    let calls = vec![pay(LOW), pay(LOW), pay(HIGH), transfer(LOW, HIGH), transfer(LOW, LOW + 1)];
    Workload::new(trace(calls), |key| key).unwrap()
}

#[test]
fn what_is_in_a_trace() {
    let summary = workload().summary("a file");
    let places: Vec<Place> = summary.tables.iter().map(|table| table.place).collect();
    assert_eq!(places, [Place::Spread, Place::Everywhere, Place::WithTheCall]);
    let of: Vec<_> =
        summary.procedures.iter().map(|of| (&*of.procedure, of.calls, of.rows_updated)).collect();
    assert_eq!(of, [("pay", 3, 1.0), ("transfer", 2, 2.0)]);
    assert_eq!(summary.procedures[1].multisite_percent, 100.0);
    // One of five calls is distributed over two islands; with sixteen it is the same.
    let shares: Vec<_> = summary.distributed.iter().map(|of| (of.islands, of.percent)).collect();
    assert_eq!(shares, [(2, 20.0), (4, 20.0), (8, 20.0), (16, 20.0)]);
    assert_eq!(summary.distributed[0].busiest_percent, 80.0);
    assert_eq!((summary.tables[0].keys, summary.tables[0].top_key_percent), (3, 57.14));
}

#[test]
fn multisite_calls_are_those_of_several_keys() {
    let workload = workload();
    assert_eq!(workload.multisite_percent(), 40);
    assert_eq!(workload.spread_over(2), (0.5, 2.0));
    assert_eq!(workload.spread_over(1), (0.0, 1.0));
    assert_eq!(workload.as_rows(), (2, true, 5));
}

#[test]
fn a_trace_without_rows_is_refused() {
    assert!(Workload::new(trace(vec![Vec::new()]), |key| key).is_err());
}

/// A call begins where most of its rows are; if it is cut, where its main key is, and uses that one only.
#[test]
fn a_call_begins_where_most_of_its_rows_are() {
    let updated = |key, rows| Touched { rows, ..touched(Access::Updated, 0, Some(key)) };
    let calls = vec![
        vec![updated(LOW, 1), updated(HIGH, 2)],
        vec![updated(LOW, 2), updated(HIGH, 2)],
        vec![
            updated(LOW, 3),
            updated(HIGH, 2),
            updated(HIGH + 1, 2),
            touched(Access::Created, 2, None),
        ],
    ];
    let workload = Workload::new(trace(calls), |key| key).unwrap();
    let islands = |call, is_cut| {
        let parts = workload.replay((call, is_cut), 2).parts;
        parts.iter().map(|(island, steps)| (*island, steps.len())).collect::<Vec<_>>()
    };
    assert_eq!([0, 1, 2].map(|call| workload.home(call, 2)), [1, 0, 1]);
    assert_eq!(islands(0, false), [(1, 1), (0, 1)]);
    assert_eq!(islands(2, false), [(1, 3), (0, 1)]);
    assert_eq!(
        [0, 1, 2].map(|call| islands(call, true)),
        [vec![(1, 1)], vec![(0, 1)], vec![(0, 2)]]
    );
}

/// What is left of the callers' throughput on two islands.
#[test]
fn the_island_that_is_taken_longest_bounds_the_others() {
    let update = |key, rows| vec![Touched { rows, ..touched(Access::Updated, 0, Some(key)) }];
    let left = |calls: Vec<Vec<Touched>>, share: u64| {
        let workload = Workload::new(trace(calls), |key| key).unwrap();
        rounded(workload.callers(2, 1, &[share])[0].1, 3)
    };
    let both = || [update(LOW, 1), update(HIGH, 1)].concat();
    assert_eq!(left(vec![update(LOW, 1), update(HIGH, 1)], 0), 1.0);
    // Of four calls three are on one island: callers that make as many on each are at two thirds.
    let skewed = vec![update(LOW, 1), update(LOW, 1), update(LOW, 1), update(HIGH, 1)];
    assert_eq!(left(skewed, 0), 0.667);
    // Long calls on one island: callers make 1.25 calls while it is taken for 4 rows; the trace has 2.
    assert_eq!(left(vec![update(LOW, 4), update(HIGH, 1)], 0), 0.4);
    // All on one island, where all callers are as well: nothing is lost once more.
    assert_eq!(left(vec![update(LOW, 1)], 0), 1.0);
    // Where each call has both islands it does not matter on which it begins.
    assert_eq!(left(vec![both(), both()], 100), 1.0);
}
