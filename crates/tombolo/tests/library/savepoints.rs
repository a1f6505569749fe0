//! Savepoints: a part that fails leaves nothing, in memory and in what a restart brings back, and the
//! transaction continues.

use std::collections::BTreeMap;
use std::time::Duration;

use tombolo::{CallOptions, Database, Error, Order, Stop, StoreError};
use tombolo_engine::rng::Rng;

use super::{Counter, Counters, both, open};

type Model = BTreeMap<i32, (i64, Option<String>)>;

fn all(db: &Database) -> Model {
    let counters = Counters::of(db);
    let read = db.transaction(move |tx| {
        let rows = tx.iter(&counters.by_id, .., Order::Forward)?.map(|(_, row)| {
            let name =
                row.get(Counter::NAME).map(|name| String::from_utf8_lossy(name).into_owned());
            (row.get(Counter::ID), (row.get(Counter::VALUE), name))
        });
        Ok(rows.collect())
    });
    read.unwrap()
}

/// Transactions of chance, each with three parts of which some fail; what they leave.
fn run(db: &Database, rng: &mut Rng, mut model: Model) -> Model {
    let counters = Counters::of(db);
    for _ in 0..60 {
        let parts: Vec<(i32, usize, bool)> = (0..3)
            .map(|_| (rng.below(20) as i32, rng.below(60) as usize, rng.below(2) > 0))
            .collect();
        let (counters, before) = (counters.clone(), model.clone());
        let left = db.transaction(move |tx| {
            let mut model = before;
            for (id, length, fails) in parts {
                let name = "n".repeat(length);
                let part = tx.savepoint(|tx| {
                    let value = counters.add(tx, id)?;
                    let row = counters.row(tx, id)?;
                    tx.set_variable(&counters.table, row, Counter::NAME, Some(&*name))?;
                    if length % 7 == 3 {
                        tx.delete(&counters.table, row)?;
                    }
                    if fails { Err(Stop::Abort("this part")) } else { Ok(value) }
                });
                match part {
                    Ok(_) if length % 7 == 3 => drop(model.remove(&id)),
                    Ok(value) => drop(model.insert(id, (value, Some(name)))),
                    Err(stop) => assert_eq!(stop, Stop::Abort("this part")),
                }
            }
            Ok(model)
        });
        model = left.unwrap();
    }
    model
}

#[test]
fn a_part_that_fails_leaves_nothing_and_none_comes_back() {
    let place = tempfile::tempdir().unwrap();
    let (mut model, mut rng) = (Model::new(), Rng::stream(7, &[]));
    for _ in 0..4 {
        let db = open(place.path()).unwrap();
        assert_eq!(all(&db), model);
        model = run(&db, &mut rng, model);
        assert_eq!(all(&db), model);
    }
}

#[test]
fn a_write_that_is_refused_ends_its_part_and_not_the_transaction() {
    both(|db| {
        let counters = Counters::of(db);
        let small = db.with(CallOptions::new().log_bytes_max(2_000));
        let kept = small.transaction(move |tx| {
            counters.add(tx, 1)?;
            let twice =
                tx.savepoint(|tx| tx.insert(&counters.table, |row| row.set(Counter::ID, 1)));
            assert_eq!(twice, Err(StoreError::Duplicate { index: 0 }.into()));
            // Also where the part does not say so.
            let silent = tx.savepoint(|tx| {
                let refused = tx.insert(&counters.table, |row| row.set(Counter::ID, 1));
                assert!(refused.is_err());
                Ok(())
            });
            assert_eq!(silent, Err(StoreError::Duplicate { index: 0 }.into()));
            let long =
                tx.savepoint(|tx| (2..1_000).try_for_each(|id| counters.add(tx, id).map(drop)));
            assert!(matches!(long, Err(Stop::Error(StoreError::LogTooLong { .. }))), "{long:?}");
            counters.add(tx, 1)
        });
        assert_eq!(kept, Ok(2));
        assert_eq!(all(db).len(), 1);
    });
}

#[test]
fn a_call_whose_time_is_over_does_not_go_on_behind_a_savepoint() {
    let db = super::builder().in_memory().unwrap();
    let counters = Counters::of(&db);
    let soon = db.with(CallOptions::new().within(Duration::from_millis(30)));
    let ended = soon.transaction(move |tx| {
        let again = Stop::Abort("again");
        while tx.savepoint(|tx| counters.add(tx, 1).and(Err::<(), _>(again.clone())))
            == Err(again.clone())
        {}
        counters.add(tx, 2)
    });
    assert!(matches!(ended, Err(Error::Expired | Error::TimedOut)), "{ended:?}");
    assert_eq!(all(&db), Model::new());
}
