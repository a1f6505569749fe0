//! What is loaded, which rows are chosen, what transactions do to a model of them, and that tampering is noticed.

use std::collections::{BTreeMap, BTreeSet};

use tombolo_engine::procedure::Procedure;
use tombolo_engine::settings::Source;
use tombolo_storage::memory::{Limits, MemoryStore};
use tombolo_storage::profile::{Bare, Memory, MemoryProfile};

use super::*;
use crate::settings::defaults;
use crate::workload::labelled::CHECKS;

const SCALE: Scale = Scale { seed: 3, rows: 25_000, read: 4, update: 0, skew: 0 };

fn loaded<P: MemoryProfile>(scale: Scale) -> MemoryStore<P> {
    let mut store = MemoryStore::<P>::new(Limits::default());
    scale.load_parts(&mut store, 2, |_, _, _| Ok(())).unwrap();
    store
}

fn violated<S: Store>(store: &mut S) -> Vec<&'static str> {
    let checks = Scale::checks(store).unwrap();
    checks.iter().filter(|check| !check.holds()).map(|check| check.name).collect()
}

/// How many of the rows of many transactions are among the hundred most popular, in percent.
fn share_of_hundred(skew: u32) -> usize {
    let mut drawn = BTreeMap::new();
    let inputs = Scale { skew, ..SCALE }.inputs().take(20_000);
    for input in inputs {
        assert_eq!(input.keys().iter().collect::<BTreeSet<_>>().len(), 4, "all different");
        for key in input.keys() {
            assert!((1..=25_000).contains(key));
            *drawn.entry(*key).or_insert(0_usize) += 1;
        }
    }
    let mut counts: Vec<_> = drawn.into_values().collect();
    counts.sort_unstable_by_key(|count| std::cmp::Reverse(*count));
    counts[..100].iter().sum::<usize>() * 100 / counts.iter().sum::<usize>()
}

#[test]
fn rows_are_drawn_by_popularity() {
    assert!(share_of_hundred(0) < 2);
    // 5.19 of 10.70, the sums of 1/k.
    assert!((46..=50).contains(&share_of_hundred(100)));
}

#[test]
fn every_row_can_be_drawn() {
    for rows in [4, 10, 1_000, 1_009] {
        let inputs = Scale { rows, skew: 10, ..SCALE }.inputs().take(20 * rows as usize);
        let drawn: BTreeSet<_> = inputs.flat_map(|input| input.keys().to_vec()).collect();
        assert_eq!(drawn.len(), rows as usize);
    }
}

/// Runs transactions next to a map of what each counter should be.
fn is_as_modelled<P: MemoryProfile>(read: u32, update: u32) {
    let scale = Scale { rows: 500, read, update, skew: 75, ..SCALE };
    let mut store = loaded::<P>(scale);
    let transactions = Transactions::bind(Store::schema(&store)).unwrap();
    let mut model = BTreeMap::new();
    for input in scale.inputs().take(2_000) {
        let expected: i64 = input.keys().iter().map(|key| model.get(key).unwrap_or(&0)).sum();
        if update > 0 {
            input.keys().iter().for_each(|key| *model.entry(*key).or_insert(0) += 1);
        }
        assert_eq!(transactions.call(&mut store, &input).unwrap(), expected, "{input:?}");
    }
    assert!(violated(&mut store).is_empty() && Store::check(&mut store).is_empty());
    assert_eq!(scale.find(&mut store).unwrap().unwrap(), scale);
}

#[test]
fn transactions_do_what_a_model_does() {
    for (read, update) in [(1, 0), (100, 0), (0, 1), (0, 100)] {
        is_as_modelled::<Bare>(read, update);
        is_as_modelled::<Memory>(read, update);
    }
}

#[test]
fn a_row_is_as_long_as_the_papers() {
    assert_eq!(Item::SIZE, 250);
}

#[test]
fn settings_say_what_is_run_or_why_not() {
    let planned = |given: &[(&str, &str)]| {
        let mut settings = defaults();
        for (name, value) in given {
            settings.set(name, value, Source::Flag).unwrap();
        }
        Scale::planned(&settings, 0).map_err(|failure| failure.to_string())
    };
    let scale = planned(&[]).unwrap();
    assert_eq!((scale.rows, scale.read, scale.update, scale.skew), (240_000, 10, 0, 0));
    let scale = planned(&[("update", "2"), ("skew", "0.75")]).unwrap();
    assert_eq!((scale.read, scale.update, scale.skew), (0, 2, 75));
    let both = planned(&[("read", "1"), ("update", "2")]).unwrap_err();
    assert!(both.contains("--read 1 or --update 2"), "{both}");
    let few = planned(&[("rows", "9")]).unwrap_err();
    assert!(few.contains("more --rows"), "{few}");
}

#[test]
fn each_way_of_tampering_is_noticed_by_its_check_and_no_other() {
    for check in CHECKS {
        let mut store = loaded::<Bare>(SCALE);
        assert!(violated(&mut store).is_empty());
        Scale::tamper(&mut store, check).unwrap();
        assert_eq!(violated(&mut store), [check]);
        assert!(Store::check(&mut store).is_empty(), "indexes and slabs know nothing of it");
    }
}
