//! The meter outside callgrind. Counting for real is tested by `tests/counters.rs`, which has a
//! `main` of its own.

use super::meter::{Meter, Native};
use super::{Category, CounterError, Kind, Tally};
use std::hint::black_box;

#[test]
fn nothing_is_counted_without_callgrind() {
    let meter = Meter::new();
    let error = meter.count().unwrap_err();
    assert!(matches!(error, CounterError::NotUnderCallgrind), "{error}");
    meter.transaction_begin(Kind(0));
    meter.enter::<{ Category::Lookup as usize }>();
    meter.exit::<{ Category::Lookup as usize }>();
    meter.transaction_end();
    assert_eq!(meter.tally().transactions, 1);
    assert_eq!(meter.tally().calls, [0, 1, 0, 0, 0, 0, 0]);
    assert!(meter.take().is_err(), "nothing was counted natively");
}

/// A transaction with a call that takes its time; every third is of kind 1.
fn transactions(meter: &Meter, numbers: std::ops::Range<u64>) {
    for number in numbers {
        meter.transaction_begin(Kind((number % 3 == 1).into()));
        meter.enter::<{ Category::Update as usize }>();
        let mut x = number;
        for step in 0..2_000 {
            x = black_box(x.wrapping_mul(31) ^ step);
        }
        meter.exit::<{ Category::Update as usize }>();
        meter.transaction_end();
    }
}

#[test]
fn time_goes_where_it_is_spent() {
    let meter = Meter::new();
    meter.time(Native::Tsc, true).unwrap();
    transactions(&meter, 0..30);
    let count = meter.take().unwrap();
    assert_eq!(count.tally.transactions, 30);
    assert_eq!(count.tally.calls, [0, 0, 0, 30, 0, 0, 0]);
    // Sixty thousand dependent multiplications, each more than a tick: far above any probe.
    assert!(count.categories[Category::Update as usize] > 60_000.0, "{count:?}");
    let sum: f64 = count.categories.iter().sum();
    assert!((sum - count.whole).abs() < 1e-6 * count.whole, "{count:?}");
    assert!(count.probe.inside_call > 0.0 && count.probe.call >= count.probe.inside_call);
}

#[test]
fn only_the_kind_that_is_asked_for_is_counted() {
    let meter = Meter::new();
    meter.time(Native::Tsc, true).unwrap();
    meter.only(Some(Kind(1)));
    transactions(&meter, 0..30);
    meter.enter::<{ Category::Lookup as usize }>(); // Outside transactions calls leave no trace either.
    meter.exit::<{ Category::Lookup as usize }>();
    transactions(&meter, 30..60);
    let count = meter.take().unwrap();
    assert_eq!(count.tally.transactions, 20);
    assert_eq!(count.tally.calls, [0, 0, 0, 20, 0, 0, 0]);
    assert_eq!(meter.take().unwrap().tally, Tally::default(), "taken is taken");
}

#[test]
fn without_calls_everything_is_other() {
    let meter = Meter::new();
    meter.time(Native::Tsc, false).unwrap();
    transactions(&meter, 0..30);
    let count = meter.take().unwrap();
    assert_eq!(count.categories[..Category::CALLS], [0.0; Category::CALLS]);
    assert_eq!(count.categories[Category::Other as usize], count.whole);
    assert!(count.whole > 60_000.0, "{count:?}");
}
