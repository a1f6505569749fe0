//! Indexes added while transactions run that do not know them, against the checker and a model.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use super::super::Limits;
use super::super::recovery::ReplayPart;
use super::super::test_random::Random;
use super::*;
use crate::dynamic::DynamicTable;
use crate::key::Range;
use crate::profile::{Bare, Memory, MemoryCommandLogged, MemoryLogged};
use crate::schema::{ColumnDef, IndexKind, TableDef};
use crate::store::{Order, dynamic_indexes};
use crate::types::{BigInt, Integer, Nullable, SmallInt, Text, Varchar};
use crate::value::Value;
use crate::value_log::LogBuffer;

fn index(name: &'static str, columns: &[usize], unique: bool, kind: IndexKind) -> IndexDef {
    IndexDef { name: name.into(), columns: columns.to_vec(), unique, kind }
}

fn table() -> TableDef {
    TableDef {
        name: "entry".into(),
        columns: vec![
            ColumnDef::of::<Integer>("id").within(0, 99),
            ColumnDef::of::<Nullable<SmallInt>>("code"),
            ColumnDef::of::<Nullable<Text>>("name"),
            ColumnDef::of::<Varchar<8>>("place"),
            ColumnDef::of::<BigInt>("other"),
        ],
        indexes: vec![index("entry_by_id", &[0], true, IndexKind::Tree)],
    }
}

/// Indexes of every form, none of which a row of [`values`] can violate.
fn added() -> [IndexDef; 6] {
    [
        index("packed", &[4], true, IndexKind::Tree),
        index("packed_hash", &[4], true, IndexKind::Hash),
        index("bytes", &[2, 0], true, IndexKind::Tree),
        index("bytes_hash", &[3, 0], true, IndexKind::Hash),
        index("many", &[1], false, IndexKind::Tree),
        index("many_values", &[2], false, IndexKind::Tree),
    ]
}

/// A row's values that depend on nothing but chance; `id` and `other` are its own.
fn values<'a>(random: &mut Random, id: i128, other: i128) -> [Value<'a>; 5] {
    const NAMES: [&str; 3] = ["", "a short one", "a name that is longer than a few bytes are"];
    let name = match random.below(4) as usize {
        3 => Value::Null,
        n => Value::Text(NAMES[n]),
    };
    let code = match random.below(3) {
        0 => Value::Null,
        n => Value::Integer(n as i64),
    };
    let place = Value::Text(["here", "there"][random.below(2) as usize]);
    [Value::Integer(id as i64), code, name, place, Value::Integer(other as i64)]
}

fn store<P: MemoryProfile>() -> (MemoryStore<P>, DynamicTable) {
    let mut store = MemoryStore::new(Limits::default());
    store.create_table(table()).unwrap();
    let entries = DynamicTable::new(store.schema(), 0);
    (store, entries)
}

/// A transaction of a procedure that knows the first index only: rows are made, changed, deleted,
/// and exchange what is unique; some transactions are undone.
fn transaction<P: MemoryProfile>(
    store: &mut MemoryStore<P>,
    entries: &DynamicTable,
    random: &mut Random,
    next: &mut i128,
) {
    store.begin().unwrap();
    store.begin_writes();
    for _ in 0..random.below(5) {
        let id = random.below(100);
        let by_id = entries.indexes().next().unwrap().clone();
        let row = store.lookup(&by_id, &[Value::Integer(id as i64)]).unwrap();
        *next += 1;
        let new = values(random, id.into(), *next);
        match row {
            None => drop(entries.insert(store, &new).unwrap()),
            Some(row) => match random.below(3) {
                0 => entries.delete(store, row).unwrap(),
                1 => entries.update(store, row, &new).unwrap(),
                // A procedure that keeps a unique index itself cannot make two rows alike for a
                // moment.
                _ if entries.indexes().count() > 1 => {}
                _ => exchange(store, entries, random, row),
            },
        }
    }
    match random.below(4) {
        0 => store.abort().unwrap(),
        _ => store.commit().unwrap(),
    }
}

/// Two rows exchange their last columns: for a moment both have the same.
fn exchange<P: MemoryProfile>(
    store: &mut MemoryStore<P>,
    entries: &DynamicTable,
    random: &mut Random,
    row: crate::row::RowId,
) {
    let ids = entries.row_ids(store).unwrap();
    let with = ids[random.below(ids.len() as u64) as usize];
    let last = |store: &MemoryStore<P>, row| {
        entries.read(store, row, |values| values[4].integer().unwrap()).unwrap()
    };
    let (own, other) = (last(store, row), last(store, with));
    for (row, value) in [(row, other), (with, own)] {
        let new = values(random, 0, 0);
        let (code, name, place) = (new[1], new[2], new[3]);
        let id = entries.read(store, row, |values| values[0].integer().unwrap()).unwrap();
        let new = [Value::Integer(id), code, name, place, Value::Integer(value)];
        entries.update(store, row, &new).unwrap();
    }
}

#[test]
fn an_index_is_built_beside_those_who_do_not_know_it_and_kept_afterwards() {
    for def in added() {
        let (mut store, entries) = store::<Memory>();
        let (mut random, mut next) = (Random::new(3), 0);
        for _ in 0..200 {
            transaction(&mut store, &entries, &mut random, &mut next);
        }
        let build = store.begin_index("entry", def.clone()).unwrap();
        let mut slices = 0;
        while store.build_slice(&build, 3).unwrap() != Built::Done {
            slices += 1;
            transaction(&mut store, &entries, &mut random, &mut next);
        }
        assert!(slices > 10, "{slices}");
        for _ in 0..20 {
            transaction(&mut store, &entries, &mut random, &mut next);
        }
        assert!(store.schema().index(&def.name).is_none());
        store.finish_index(build).unwrap();
        assert_eq!(store.schema().tables[0].indexes[1], def);
        for _ in 0..200 {
            assert_eq!(store.check(), [], "{}", def.name);
            transaction(&mut store, &entries, &mut random, &mut next);
        }
        // A procedure that knows it writes its entries too.
        let entries = DynamicTable::new(store.schema(), 0);
        for _ in 0..200 {
            transaction(&mut store, &entries, &mut random, &mut next);
            assert_eq!(store.check(), [], "{}", def.name);
        }
    }
}

/// A store with two rows whose places are the same.
fn two_alike<P: MemoryProfile>() -> (MemoryStore<P>, DynamicTable, IndexDef) {
    let (mut store, entries) = store::<P>();
    store.begin().unwrap();
    store.begin_writes();
    for id in 0..100 {
        let place = if id == 98 { "p7".to_owned() } else { format!("p{id}") };
        let row =
            [Value::Integer(id), Value::Null, Value::Null, Value::Text(&place), Value::Integer(id)];
        entries.insert(&mut store, &row).unwrap();
    }
    store.commit().unwrap();
    (store, entries, index("entry_by_place", &[3], true, IndexKind::Tree))
}

fn set_place<P: MemoryProfile>(
    store: &mut MemoryStore<P>,
    entries: &DynamicTable,
    id: i64,
    place: &str,
) -> Result<()> {
    let by_id = entries.indexes().next().unwrap().clone();
    store.begin()?;
    store.begin_writes();
    let row = store.lookup(&by_id, &[Value::Integer(id)])?.unwrap();
    let new =
        [Value::Integer(id), Value::Null, Value::Null, Value::Text(place), Value::Integer(id)];
    entries.update(store, row, &new)?;
    store.commit().inspect_err(|_| store.abort().unwrap())
}

#[test]
fn a_unique_index_over_two_alike_names_their_key() {
    for kind in [IndexKind::Tree, IndexKind::Hash] {
        let (mut store, entries, mut def) = two_alike::<Memory>();
        def.kind = kind;
        let build = store.begin_index("entry", def.clone()).unwrap();
        let refused = loop {
            match store.build_slice(&build, 10) {
                Ok(Built::More { .. }) => {}
                Ok(Built::Done) => panic!("two rows have one key"),
                Err(refused) => break refused,
            }
        };
        assert!(refused.to_string().contains("(p7)"), "{refused}");
        assert!(store.build_slice(&build, 10).is_err(), "and it stays refused");
        // Transactions are none the worse for it.
        set_place(&mut store, &entries, 98, "p98").unwrap();
        store.give_up_index(build);
        // Now it can be; then two become alike while it is built.
        for alike_before in [0, 3, 9] {
            let build = store.begin_index("entry", def.clone()).unwrap();
            for slice in 0..10 {
                if slice == alike_before {
                    set_place(&mut store, &entries, 50, "p7").unwrap();
                }
                let _ = store.build_slice(&build, 10);
            }
            set_place(&mut store, &entries, 50, "p50").unwrap();
            match store.build_slice(&build, 10) {
                Err(refused) => {
                    assert!(refused.to_string().contains("(p7)"), "{refused}");
                    assert_eq!(store.finish_index(build), Err(refused));
                }
                // No walk and no commit saw both.
                Ok(built) => {
                    assert_eq!((built, alike_before), (Built::Done, 0));
                    store.give_up_index(build);
                }
            }
        }
        let build = store.begin_index("entry", def).unwrap();
        while store.build_slice(&build, 10).unwrap() != Built::Done {}
        store.finish_index(build).unwrap();
        // From now on it is the transaction that is refused, and undone.
        assert_eq!(set_place(&mut store, &entries, 50, "p7"), Err(Error::Duplicate { index: 1 }));
        set_place(&mut store, &entries, 50, "free").unwrap();
        assert_eq!(store.check(), []);
    }
}

#[test]
fn handles_stay_what_they_are_and_the_log_tells_of_the_index() {
    let (mut store, entries, def) = two_alike::<MemoryLogged>();
    let mut second = table();
    second.name = "second".into();
    second.indexes[0].name = "second_by_id".into();
    store.create_table(second).unwrap();
    set_place(&mut store, &entries, 98, "p98").unwrap();
    let others = dynamic_indexes(store.schema(), 1);
    let build = store.begin_index("entry", def.clone()).unwrap();
    while store.build_slice(&build, 1_000).unwrap() != Built::Done {}
    store.finish_index(build).unwrap();
    assert_eq!(dynamic_indexes(store.schema(), 1)[0].position(), others[0].position());
    let own = dynamic_indexes(store.schema(), 0);
    assert_eq!([own[0].position(), own[1].position()], [0, 2]);
    assert_eq!(store.schema().index_at(2), Some((0, 1)));
    set_place(&mut store, &entries, 3, "late").unwrap();
    let mut third = table();
    third.name = "third".into();
    third.indexes[0].name = "third_by_id".into();
    store.create_table(third).unwrap();
    let mut log = LogBuffer::new();
    store.take_log(&mut log);
    for parts in [1, 2] {
        // Replayed twice from the beginning, as behind an image that holds it all.
        let rebuilt = (0..parts).map(|part| {
            let mut part = ReplayPart::new(part, parts, Limits::default());
            part.apply(log.as_slice()).unwrap();
            part.apply(log.as_slice()).unwrap();
            part.finish().unwrap()
        });
        let rebuilt = rebuilt.collect();
        let mut back =
            MemoryStore::<MemoryLogged>::from_replay(Limits::default(), rebuilt).unwrap();
        assert_eq!(back.check(), []);
        assert_eq!(back.schema(), store.schema());
        let by_place = &dynamic_indexes(back.schema(), 0)[1];
        back.begin().unwrap();
        let mut places = BTreeMap::new();
        back.scan(by_place, Range::all(), Order::Forward, |row| {
            *places.entry(row).or_insert(0) += 1;
            ControlFlow::Continue(())
        })
        .unwrap();
        assert_eq!(places.len(), 100);
        assert!(back.lookup(by_place, &[Value::Text("late")]).unwrap().is_some());
        back.commit().unwrap();
    }
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_done() {
    let (mut store, _, def) = two_alike::<Memory>();
    let reported = |refused: std::result::Result<IndexBuild, SchemaError>| {
        refused.map(|_| ()).unwrap_err().to_string()
    };
    assert!(reported(store.begin_index("nowhere", def.clone())).contains("nowhere: no such table"));
    let taken = IndexDef { name: "entry_by_id".into(), ..def.clone() };
    assert!(reported(store.begin_index("entry", taken)).contains("exists already"));
    let outside = IndexDef { columns: vec![9], ..def.clone() };
    assert!(reported(store.begin_index("entry", outside)).contains("does not exist"));
    let many = IndexDef { kind: IndexKind::Hash, unique: false, ..def.clone() };
    assert!(reported(store.begin_index("entry", many)).contains("unique"));
    let first = store.begin_index("entry", def.clone()).unwrap();
    assert!(reported(store.begin_index("entry", def.clone())).contains("being built"));
    store.give_up_index(first);
    let mut bare = MemoryStore::<Bare>::new(Limits::default());
    bare.create_table(table()).unwrap();
    assert!(reported(bare.begin_index("entry", def.clone())).contains("undo"));
    let mut commands = MemoryStore::<MemoryCommandLogged>::new(Limits::default());
    commands.create_table(table()).unwrap();
    assert!(reported(commands.begin_index("entry", def)).contains("command log"));
    assert_eq!(store.check(), []);
}

#[test]
fn an_index_for_which_there_is_no_memory_harms_nobody() {
    let (mut store, entries, mut def) = two_alike::<Memory>();
    def.unique = false;
    store.set_memory_bytes_max(store.memory_bytes());
    let refused = match store.begin_index("entry", def.clone()) {
        Err(refused) => refused,
        Ok(build) => {
            let refused = store.build_slice(&build, 1_000).unwrap_err();
            store.give_up_index(build);
            refused
        }
    };
    assert!(refused.to_string().contains("memory") || refused.to_string().contains("space"));
    store.set_memory_bytes_max(u64::MAX);
    set_place(&mut store, &entries, 50, "free").unwrap();
    let build = store.begin_index("entry", def).unwrap();
    while store.build_slice(&build, 7).unwrap() != Built::Done {}
    store.finish_index(build).unwrap();
    assert_eq!(store.check(), []);
}

#[test]
fn a_snapshot_beside_it_shows_what_was() {
    let (mut store, entries, mut def) = two_alike::<Memory>();
    def.unique = false;
    let snapshot = store.open_snapshot().unwrap();
    let build = store.begin_index("entry", def).unwrap();
    set_place(&mut store, &entries, 50, "changed").unwrap();
    let mut late = table();
    (late.name, late.indexes[0].name) = ("late".into(), "late_by_id".into());
    store.create_table(late).unwrap();
    let late = DynamicTable::new(store.schema(), 1);
    let (mut random, mut next) = (Random::new(1), 0);
    for _ in 0..20 {
        transaction(&mut store, &late, &mut random, &mut next);
    }
    let (mut cursor, mut changed) = (super::super::SnapshotCursor::default(), 0);
    let handle = entries.handle();
    store
        .read_slice(&snapshot, handle, &mut cursor, 1_000, |_, row| {
            let place = crate::value::read_value(row.pin(), entries.columns(), 3);
            changed += usize::from(place == Value::Text("changed"));
        })
        .unwrap();
    assert_eq!(changed, 0);
    store.close_snapshot(snapshot);
    while store.build_slice(&build, 64).unwrap() != Built::Done {}
    store.finish_index(build).unwrap();
    assert_eq!(store.check(), []);
}
