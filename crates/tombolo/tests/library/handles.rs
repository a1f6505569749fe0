//! Handles and row ids used wrongly: refused, whatever database, table or row they are for.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use tombolo::{
    Database, Edge, Error, Order, Range, RowId, Stop, StoreError, Table, TableDef, Tx, Value,
};
use tombolo_engine::rng::Rng;

use crate::{ById, Counter, Counters, builder};

tombolo::table! {
    /// Of the same shape as a counter, without an index.
    struct Other = "other" { ID: Integer [0..=999_999]; VALUE: BigInt => hot; NAME: Nullable<Text>; }
}

/// What tests keep of the rows they made: which number each was made with.
type Made = Vec<(i32, RowId)>;

fn is_gone<T>(found: &Result<T, Stop>) -> bool {
    matches!(found, Err(Stop::Error(StoreError::NoSuchRow { .. })))
}

/// Deletes and makes some counters, and aborts now and then.
fn step(
    tx: &mut Tx<'_>,
    counters: &Counters,
    (deleted, inserted): (&[RowId], &[i32]),
    (made, aborts): (&Mutex<Made>, bool),
) -> Result<(), Stop> {
    for &row in deleted {
        tx.delete(&counters.table, row)?;
        assert!(is_gone(&tx.get(&counters.table, row)));
    }
    for &id in inserted {
        let row = tx.insert(&counters.table, |row| row.set(Counter::ID, id))?;
        made.lock().unwrap().push((id, row));
    }
    if aborts { Err(Stop::Abort("as asked")) } else { Ok(()) }
}

/// A sample of the ids that were ever given out leads to the rows they were given out for; how many
/// led nowhere.
fn look(
    tx: &mut Tx<'_>,
    counters: &Counters,
    sample: &[(i32, RowId)],
    live: &BTreeMap<i32, RowId>,
) -> Result<usize, Stop> {
    let mut gone = 0;
    for &(id, row) in sample {
        let found = tx.get(&counters.table, row);
        if live.contains_key(&id) {
            assert_eq!(found?.get(Counter::ID), id);
            assert_eq!(tx.lookup(&counters.by_id, id)?, Some(row));
            let (same, found) = tx.find(&counters.by_id, id)?.unwrap();
            assert_eq!((same, found.get(Counter::ID)), (row, id));
        } else {
            assert!(is_gone(&found) && tx.find(&counters.by_id, id)?.is_none(), "{id}");
            gone += 1;
        }
    }
    let all = tx.rows(&counters.table)?;
    let by_id = tx.range(&counters.by_id, .., Order::Forward)?;
    assert_eq!(tx.count(&counters.table)?, live.len() as u64);
    assert!(all.len() == live.len() && by_id.iter().eq(live.values()));
    assert!(all.iter().all(|row| by_id.contains(row)));
    Ok(gone)
}

fn ids_lead_to_their_rows_or_nowhere(db: &Database) {
    let counters = Counters::of(db);
    let (mut rng, mut next, mut gone) = (Rng::stream(1, &[]), 0, 0);
    let (made, mut live) = (Arc::new(Mutex::new(Made::new())), BTreeMap::<i32, RowId>::new());
    for _ in 0..1_000 {
        let (inserts, aborts) = (rng.below(4) as i32, rng.below(4) == 0);
        let deleted: Vec<_> = live.iter().map(|(&id, &row)| (id, row)).collect();
        let deleted: Vec<_> = deleted.into_iter().filter(|_| rng.below(20) == 0).collect();
        let inserted: Vec<_> = (next..next + inserts).collect();
        next += inserts;
        let (own, reported) = (counters.clone(), made.clone());
        let (rows, ids): (Vec<_>, _) =
            (deleted.iter().map(|(_, row)| *row).collect(), inserted.clone());
        let done = db.transaction(move |tx| step(tx, &own, (&rows, &ids), (&reported, aborts)));
        let made = made.lock().unwrap();
        if done.is_ok() {
            live.retain(|id, _| !deleted.iter().any(|(gone, _)| gone == id));
            live.extend(made[made.len() - inserted.len()..].iter().copied());
        }
        assert_eq!(done.is_err(), aborts);
        let sample = (0..8.min(made.len())).map(|_| made[rng.below(made.len() as u64) as usize]);
        let (own, sample, now): (_, Vec<_>, _) = (counters.clone(), sample.collect(), live.clone());
        gone += db.transaction(move |tx| look(tx, &own, &sample, &now)).unwrap();
    }
    assert!(gone > 2_000 && live.len() > 20, "{gone} {}", live.len());
}

#[test]
fn an_id_leads_to_its_row_or_nowhere() {
    ids_lead_to_their_rows_or_nowhere(&builder().in_memory().unwrap());
    let dir = tempfile::tempdir().unwrap();
    ids_lead_to_their_rows_or_nowhere(&builder().open(dir.path()).unwrap());
}

/// Writes that are refused leave nothing behind, and each says why.
fn refused_with(done: Result<(), Error>, expected: fn(&StoreError) -> bool) {
    match done {
        Err(Error::Refused(error) | Error::RefusedAt { error, .. }) if expected(&error) => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_id_of_another_table_or_database_is_refused() {
    let open = || builder().table(TableDef::of::<Other>()).in_memory().unwrap();
    let (db, elsewhere) = (open(), open());
    let (counters, others): (_, Table<Other>) = (Counters::of(&db), db.table().unwrap());
    let strange = Counters::of(&elsewhere);
    let row = db.transaction(move |tx| tx.insert(&others, |row| row.set(Other::ID, 7))).unwrap();
    let far = elsewhere.transaction(move |tx| strange.row(tx, 7)).unwrap();
    let own = counters.clone();
    db.transaction(move |tx| own.row(tx, 7).map(drop)).unwrap();
    for id in [row, far] {
        let gone: fn(&StoreError) -> bool = |error| matches!(error, StoreError::NoSuchRow { .. });
        let own = counters.clone();
        let set = move |tx: &mut Tx<'_>| tx.set(&own.table, id, Counter::VALUE, 1);
        refused_with(db.transaction(set), gone);
        let own = counters.clone();
        refused_with(db.transaction(move |tx| tx.delete(&own.table, id)), gone);
        let own = counters.clone();
        refused_with(db.transaction(move |tx| tx.get(&own.table, id).map(drop)), gone);
    }
    let held = db.transaction(move |tx| {
        let row = tx.lookup(&counters.by_id, 7)?.unwrap();
        Ok(tx.get(&counters.table, row)?.get(Counter::VALUE))
    });
    assert_eq!(held, Ok(0));
}

/// A range that compares no column of its index, or more than it has, is a mistake.
#[test]
fn a_range_of_no_column_or_of_too_many_is_refused() {
    let db = builder().in_memory().unwrap();
    let counters = Counters::of(&db);
    db.transaction(move |tx| {
        counters.row(tx, 1)?;
        for columns in [0, 1, 2] {
            let (lower, upper) = (Edge::Before(1, columns), Edge::After(1, columns));
            let range = Range { lower, upper };
            let found = tx.range(&counters.by_id, range, Order::Forward);
            match columns {
                1 => assert_eq!(found?.len(), 1),
                _ => assert!(matches!(
                    found,
                    Err(Stop::Error(StoreError::KeyColumns { columns: 1, .. }))
                )),
            }
        }
        Ok(())
    })
    .unwrap();
}

#[test]
fn a_handle_of_another_database_is_refused() {
    let open = || builder().table(TableDef::of::<Other>()).in_memory().unwrap();
    let (db, elsewhere) = (open(), open());
    let strange = Counters::of(&elsewhere);
    let dynamic = elsewhere.dynamic_table("other").unwrap();
    type Use = Box<dyn FnOnce(&mut Tx<'_>) -> Result<(), Stop> + Send>;
    let (a, b, c, d, e, f) =
        (strange.clone(), strange.clone(), strange.clone(), strange, dynamic.clone(), dynamic);
    let (g, h) = (a.clone(), a.clone());
    let uses: [Use; 8] = [
        Box::new(move |tx| tx.find(&g.by_id, 1).map(drop)),
        Box::new(move |tx| tx.count(&h.table).map(drop)),
        Box::new(move |tx| tx.insert(&a.table, |row| row.set(Counter::ID, 1)).map(drop)),
        Box::new(move |tx| tx.lookup::<ById>(&b.by_id, 1).map(drop)),
        Box::new(move |tx| tx.range(&c.by_id, Range::all(), Order::Forward).map(drop)),
        Box::new(move |tx| tx.rows(&d.table).map(drop)),
        Box::new(move |tx| {
            let values = [Value::Integer(1), Value::Integer(2), Value::Null];
            // A refused write ends the transaction, whatever its closure answers.
            assert!(tx.insert_values(&e, &values).is_err());
            Ok(())
        }),
        Box::new(move |tx| tx.rows(f.handle()).map(drop)),
    ];
    for used in uses {
        refused_with(db.transaction(used), |error| *error == StoreError::OtherDatabase);
    }
    // Reopened, it is another database: its tables may lie elsewhere.
    let dir = tempfile::tempdir().unwrap();
    let first = builder().open(dir.path()).unwrap();
    let old = Counters::of(&first);
    first.close().unwrap();
    let second = builder().open(dir.path()).unwrap();
    let done = second.transaction(move |tx| old.add(tx, 1).map(drop));
    refused_with(done, |error| *error == StoreError::OtherDatabase);
}
