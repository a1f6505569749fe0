//! What is loaded, the distributions, what transactions do to a model of them, and that tampering is noticed.

use std::collections::BTreeMap;

use tombolo_engine::procedure::Procedure;
use tombolo_engine::transaction::execute;
use tombolo_storage::memory::{Limits, MemoryStore};
use tombolo_storage::profile::{Bare, Memory, MemoryProfile};

use super::input::SCAN_MAX;
use super::schema::Value;
use super::*;
use crate::workload::WorkloadInput;
use crate::workload::labelled::CHECKS;

const SCALE: Scale = Scale { seed: 3, records: 25_000, mix: 0 };

fn loaded<P: MemoryProfile>(scale: Scale, threads: usize) -> MemoryStore<P> {
    let mut store = MemoryStore::<P>::new(Limits::default());
    scale.load_parts(&mut store, threads, |_, _, _| Ok(())).unwrap();
    store
}

fn violated<S: Store>(store: &mut S) -> Vec<&'static str> {
    let checks = Scale::checks(store).unwrap();
    assert!(checks.iter().map(|check| check.name).eq(CHECKS));
    checks.iter().filter(|check| !check.holds()).map(|check| check.name).collect()
}

#[test]
fn each_mix_has_its_shares() {
    let shares = |mix| {
        let mut shares = [0; 5];
        let inputs = Scale { mix, ..SCALE }.inputs().take(20_000);
        inputs.for_each(|input| shares[input.kind().place()] += 1);
        shares.map(|count: i32| (f64::from(count) / 200.0).round() as i32)
    };
    let near = |mix, expected: [i32; 5]| {
        let shares = shares(mix);
        let is_near = shares.iter().zip(expected).all(|(share, expected)| {
            (share - expected).abs() <= 2 && (*share == 0) == (expected == 0)
        });
        assert!(is_near, "{shares:?} is not {expected:?}");
    };
    near(0, [50, 50, 0, 0, 0]);
    near(1, [95, 5, 0, 0, 0]);
    near(2, [100, 0, 0, 0, 0]);
    near(3, [95, 0, 5, 0, 0]);
    near(4, [0, 0, 5, 95, 0]);
    near(5, [50, 0, 0, 0, 50]);
}

#[test]
fn latest_asks_for_the_newest_and_the_others_for_what_was_loaded() {
    let latest: Vec<_> = Scale { mix: 3, ..SCALE }.inputs().take(20_000).collect();
    let newest = latest.iter().filter(|input| input.kind == INSERT).map(|input| input.key);
    assert!(newest.clone().eq(25_001..=25_000 + newest.count() as i32), "in their order");
    let mut known = 25_000;
    let mut near = 0;
    for input in &latest {
        match input.kind {
            INSERT => known = input.key,
            _ => near += usize::from((known - 100..=known).contains(&input.key)),
        }
        assert!((1..=known).contains(&input.key), "{} of {known}", input.key);
    }
    assert!(near > 7_000, "{near} of 20,000 are of the newest hundred");
    for input in (Scale { mix: 4, ..SCALE }).inputs().take(5_000) {
        assert!(input.kind == INSERT || (1..=25_000).contains(&input.key));
        assert!((1..=SCAN_MAX).contains(&input.count.into()));
    }
}

/// Runs each mix next to a map of what each record's fields should be.
fn is_as_modelled<P: MemoryProfile>(mix: usize) {
    let scale = Scale { mix, records: 2_000, ..SCALE };
    let mut store = loaded::<P>(scale, 2);
    let transactions = Transactions::bind(Store::schema(&store)).unwrap();
    let sum = |fields: &[Value; 10]| -> u64 {
        fields.iter().flatten().map(|byte| u64::from(*byte)).sum()
    };
    let mut model = BTreeMap::new();
    execute(&mut store, |mut tx| {
        for id in 1..=2_000 {
            let row = tx.lookup(&transactions.key, id)?.expect("it was loaded");
            let row = tx.pin(&transactions.records, row)?;
            let field = |field| Value::try_from(row.get(field)).unwrap();
            model.insert(id, Record::FIELDS.map(field));
        }
        tx.commit(())
    })
    .unwrap();
    for input in scale.inputs().take(3_000) {
        let expected = match input.kind {
            SCAN => model.range(input.key..).take(input.count.into()).map(|(_, f)| sum(f)).sum(),
            READ | MODIFY => sum(&model[&input.key]),
            _ => 0,
        };
        match input.kind {
            INSERT => assert!(model.insert(input.key, [input.value; 10]).is_none()),
            UPDATE | MODIFY => {
                model.get_mut(&input.key).unwrap()[usize::from(input.field)] = input.value;
            }
            _ => {}
        }
        assert_eq!(transactions.call(&mut store, &input).unwrap(), expected, "{input:?}");
    }
    assert!(violated(&mut store).is_empty() && Store::check(&mut store).is_empty());
    let newest = *model.last_key_value().unwrap().0 as u32;
    assert_eq!(scale.find(&mut store).unwrap().unwrap(), Scale { records: newest, ..scale });
}

#[test]
fn transactions_do_what_a_model_does() {
    for mix in 0..Scale::MIXES.len() {
        is_as_modelled::<Bare>(mix);
        is_as_modelled::<Memory>(mix);
    }
}

#[test]
fn each_way_of_tampering_is_noticed_by_its_check_and_no_other() {
    for check in CHECKS {
        let mut store = loaded::<Bare>(SCALE, 1);
        assert!(violated(&mut store).is_empty());
        Scale::tamper(&mut store, check).unwrap();
        assert_eq!(violated(&mut store), [check]);
        assert!(Store::check(&mut store).is_empty(), "indexes and slabs know nothing of it");
    }
    let unknown = Scale::tamper(&mut loaded::<Bare>(SCALE, 1), "money").unwrap_err();
    assert_eq!(unknown.to_string(), "no check is called money: use records or values");
}
