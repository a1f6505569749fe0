//! A store at the end of its budget: transactions are refused and undone, others live, deletions
//! make room.

use super::*;
use crate::dynamic::DynamicTable;
use crate::error::Error;
use crate::memory::test_random::Random;
use crate::memory::{Limits, MemoryStore};
use crate::profile::Memory;
use crate::row::RowId;
use crate::schema::{ColumnDef, IndexDef, IndexKind, TableDef};
use crate::store::Store;
use crate::types::SqlType;
use crate::value::Value;

#[test]
fn what_is_over_the_bound_is_refused_and_takes_nothing() {
    let budget = Budget::new(100);
    budget.take(60).unwrap();
    assert_eq!(budget.take(41), Err(OverBudget { bytes_max: 100 }));
    assert_eq!(budget.take(u64::MAX), Err(OverBudget { bytes_max: 100 }));
    budget.take(40).unwrap();
    budget.give(70);
    assert_eq!(budget.held_bytes(), 30);
    budget.set_bytes_max(20);
    assert!(budget.take(1).is_err());
    budget.take_anyway(5);
    assert_eq!(budget.held_bytes(), 35);
}

#[test]
fn a_child_takes_from_its_parent_and_both_may_refuse() {
    let parent = Budget::new(100);
    let child = parent.child(50);
    parent.take(70).unwrap();
    assert_eq!(child.take(51), Err(OverBudget { bytes_max: 50 }));
    assert_eq!(child.take(31), Err(OverBudget { bytes_max: 100 }));
    child.take(30).unwrap();
    assert_eq!((child.held_bytes(), parent.held_bytes()), (30, 100));
    child.give(30);
    assert_eq!((child.held_bytes(), parent.held_bytes()), (0, 70));
    let grown_apart = Budget::new(u64::MAX);
    grown_apart.take(90).unwrap();
    parent.adopt(&grown_apart);
    assert_eq!(parent.held_bytes(), 160);
    assert!(grown_apart.take(1).is_err());
}

const BUDGET: u64 = 3 << 20;

fn store() -> (MemoryStore<Memory>, DynamicTable) {
    let column = |name: &'static str, sql| ColumnDef {
        name: name.into(),
        sql,
        nullable: false,
        range: None,
        hot: false,
        added: false,
        default: None,
    };
    let index = |name: &'static str, columns: &[usize], unique, kind| IndexDef {
        name: name.into(),
        columns: columns.to_vec(),
        unique,
        kind,
    };
    let mut store = MemoryStore::new(Limits::default());
    store.set_memory_bytes_max(BUDGET);
    let table = TableDef {
        name: "rows".into(),
        columns: vec![
            column("id", SqlType::Integer),
            column("n", SqlType::BigInt),
            column("text", SqlType::Text),
        ],
        indexes: vec![
            index("by_id", &[0], true, IndexKind::Tree),
            index("by_n", &[1], false, IndexKind::Tree),
            index("hashed", &[0], true, IndexKind::Hash),
        ],
    };
    store.create_table(table).unwrap();
    let table = DynamicTable::new(store.schema(), 0);
    (store, table)
}

/// Runs a transaction; undoes it when the store refuses.
fn transact(
    store: &mut MemoryStore<Memory>,
    run: impl FnOnce(&mut MemoryStore<Memory>) -> Result<(), Error>,
) -> Result<(), Error> {
    store.begin().unwrap();
    store.begin_writes();
    let ran = run(store);
    match ran {
        Ok(()) => store.commit().unwrap(),
        Err(_) => store.abort().unwrap(),
    }
    ran
}

fn insert(
    store: &mut MemoryStore<Memory>,
    table: &DynamicTable,
    id: i64,
    text: &str,
) -> Result<RowId, Error> {
    table.insert(store, &[Value::Integer(id), Value::Integer(id % 7), Value::Text(text)])
}

#[test]
fn at_its_end_writing_is_refused_and_resumes_after_deletions() {
    let (mut store, table) = store();
    let mut random = Random::new(1);
    let mut ids = Vec::new();
    for round in 0..3 {
        let mut next = round * 1_000_000;
        let refused = loop {
            let text = "x".repeat(1 + random.below(100) as usize);
            let mut made = Vec::new();
            let done = transact(&mut store, |store| {
                for _ in 0..4 {
                    made.push(insert(store, &table, next, &text)?);
                    next += 1;
                }
                Ok(())
            });
            match done {
                Ok(()) => ids.extend(made),
                Err(error) => break error,
            }
        };
        assert!(matches!(refused, Error::NoSpace { held_bytes } if held_bytes <= BUDGET));
        assert!(store.memory_bytes() <= BUDGET && store.memory_bytes() > BUDGET * 9 / 10);
        assert_eq!(store.check(), []);
        assert_eq!(table.row_ids(&mut store).unwrap().len(), ids.len());
        assert!(ids.len() > 5_000, "{} rows", ids.len());
        // Reads live, and updates that take nothing.
        let row = ids[random.below(ids.len() as u64) as usize];
        let integers = table.read(&store, row, |values| match values[..2] {
            [Value::Integer(id), Value::Integer(n)] => (id, n),
            _ => unreachable!("the first two columns are integers"),
        });
        let (id, n) = integers.unwrap(); // an index of `n` would need room for another one
        let same = [Value::Integer(id), Value::Integer(n), Value::Text("")];
        transact(&mut store, |store| table.update(store, row, &same)).unwrap();
        // Half of the rows go: there is room again.
        for chunk in ids.split_off(ids.len() / 2).chunks(100) {
            transact(&mut store, |store| {
                chunk.iter().try_for_each(|&row| table.delete(store, row))
            })
            .unwrap();
        }
        assert_eq!(store.check(), []);
    }
}

#[test]
fn a_transaction_too_large_for_its_notes_is_undone() {
    let (mut store, table) = store();
    let mut row = None;
    transact(&mut store, |store| {
        row = Some(insert(store, &table, 1, "here")?);
        Ok(())
    })
    .unwrap();
    let row = row.unwrap();
    let (before, mut changes) = (store.memory_bytes(), 0);
    let refused = transact(&mut store, |store| {
        loop {
            let values = [Value::Integer(1), Value::Integer(changes), Value::Text("here")];
            table.update(store, row, &values)?;
            changes += 1;
        }
    });
    assert!(matches!(refused, Err(Error::NoSpace { .. })) && changes > 1_000, "{changes}");
    assert!(store.memory_bytes() < before + (1 << 20), "the notes' memory is given back");
    let n = table.read(&store, row, |values| format!("{values:?}")).unwrap();
    assert_eq!(n, "[Integer(1), Integer(1), Text(\"here\")]");
    assert_eq!(store.check(), []);
    transact(&mut store, |store| insert(store, &table, 2, "later").map(drop)).unwrap();
}

#[test]
fn images_of_snapshots_are_within_the_budget() {
    let (mut store, table) = store();
    let mut ids = Vec::new();
    for id in 0..8_000 {
        transact(&mut store, |store| {
            ids.push(insert(store, &table, id, "0123456789")?);
            Ok(())
        })
        .unwrap();
    }
    store.set_memory_bytes_max(store.memory_bytes() + 100_000);
    let snapshot = store.open_snapshot().unwrap();
    for (id, &row) in ids.iter().enumerate() {
        let values = [Value::Integer(id as i64), Value::Integer(1), Value::Text("new")];
        transact(&mut store, |store| table.update(store, row, &values)).unwrap();
    }
    let read = store.snapshot_row(&snapshot, table.handle(), ids[0]).map(|row| row.is_some());
    assert!(matches!(read, Err(Error::SnapshotEnded { .. })), "{read:?}");
    store.close_snapshot(snapshot);
    assert_eq!((store.snapshot_bytes(), store.check()), (0, vec![]));
}

#[test]
fn what_was_replayed_counts() {
    use crate::memory::recovery::ReplayPart;
    use crate::profile::MemoryLogged;
    use crate::value_log::LogBuffer;
    let (unlogged, table) = store();
    let mut logged = MemoryStore::<MemoryLogged>::new(Limits::default());
    logged.create_table(unlogged.schema().tables[0].clone()).unwrap();
    logged.begin().unwrap();
    logged.begin_writes();
    for id in 0..3_000 {
        let values = [Value::Integer(id), Value::Integer(1), Value::Text("some text")];
        table.insert(&mut logged, &values).unwrap();
    }
    logged.commit().unwrap();
    let mut log = LogBuffer::default();
    logged.take_log(&mut log);
    let parts = (0..2).map(|part| {
        let mut part = ReplayPart::new(part, 2, Limits::default());
        part.apply(log.as_slice()).unwrap();
        part.finish().unwrap()
    });
    let mut again =
        MemoryStore::<MemoryLogged>::from_replay(Limits::default(), parts.collect()).unwrap();
    assert!(again.memory_bytes() > 3_000 * 40, "{} bytes", again.memory_bytes());
    again.set_memory_bytes_max(again.memory_bytes());
    again.begin().unwrap();
    again.begin_writes();
    let refused = (0..100_000).find_map(|id| {
        let values = [Value::Integer(1_000_000 + id), Value::Integer(1), Value::Text("more")];
        table.insert(&mut again, &values).err()
    });
    assert!(matches!(refused, Some(Error::NoSpace { .. })), "{refused:?}");
    again.abort().unwrap();
    assert_eq!(again.check(), []);
}

/// A store that continues with other components has the rows it had, and no more memory for others.
#[test]
fn another_profile_takes_from_the_same_budget() {
    let (mut store, table) = store();
    let fill = |store: &mut MemoryStore<Memory>| {
        transact(store, |store| {
            (0..3_000).try_for_each(|id| insert(store, &table, id, "some text").map(drop))
        })
    };
    fill(&mut store).unwrap();
    store.set_memory_bytes_max(store.memory_bytes());
    let held = store.memory_bytes();
    let mut again: MemoryStore<Memory> = store.with_profile().unwrap();
    assert!(again.memory_bytes() >= held, "{} bytes of {held}", again.memory_bytes());
    let refused = transact(&mut again, |store| {
        (3_000..100_000).try_for_each(|id| insert(store, &table, id, "more text").map(drop))
    });
    assert!(matches!(refused, Err(Error::NoSpace { .. })), "{refused:?}");
    assert_eq!(again.check(), []);
    again.set_memory_bytes_max(u64::MAX);
    transact(&mut again, |store| insert(store, &table, 3_000, "more text").map(drop)).unwrap();
}
