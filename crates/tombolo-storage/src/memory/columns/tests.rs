//! Columns added while transactions run that do not know them, and the same from the log.

use super::*;
use crate::dynamic::DynamicTable;
use crate::error::Error;
use crate::memory::Limits;
use crate::memory::recovery::ReplayPart;
use crate::memory::recovery::tests::{change, rows, tables};
use crate::memory::test_random::Random;
use crate::profile::MemoryLogged;
use crate::schema::{IndexDef, IndexKind};
use crate::store::Store;
use crate::types::SqlType;
use crate::value::Value;
use crate::value_log::LogBuffer;

type Logged = MemoryStore<MemoryLogged>;

fn column(name: &'static str, sql: SqlType, nullable: bool) -> ColumnDef {
    ColumnDef {
        name: name.into(),
        sql,
        nullable,
        range: None,
        hot: false,
        added: true,
        default: None,
    }
}

fn handles(store: &Logged) -> Vec<DynamicTable> {
    (0..store.schema().tables.len()).map(|at| DynamicTable::new(store.schema(), at)).collect()
}

/// Some transactions through these handles, which may be older than the store's columns.
fn work(store: &mut Logged, tables: &[DynamicTable], random: &mut Random, transactions: u64) {
    for _ in 0..transactions {
        store.begin().unwrap();
        store.begin_writes();
        for _ in 0..1 + random.below(5) {
            change(store, &tables[random.below(tables.len() as u64) as usize], random);
        }
        match random.below(5) {
            0 => store.abort().unwrap(),
            _ => store.commit().unwrap(),
        }
    }
}

/// What the log describes, replayed once and a second time over itself.
fn replayed(log: &[u8], parts: usize) -> Logged {
    let mut rebuilt = Vec::new();
    for part in 0..parts {
        let mut part = ReplayPart::new(part, parts, Limits::default());
        part.apply(log).unwrap();
        part.apply(log).unwrap();
        rebuilt.push(part.finish().unwrap());
    }
    Logged::from_replay(Limits::default(), rebuilt).unwrap()
}

/// What is in a column of all rows, by slot.
fn values(store: &mut Logged, table: usize, column: usize) -> Vec<(u64, String)> {
    let table = DynamicTable::new(store.schema(), table);
    let rows = table.row_ids(store).unwrap();
    let read = |row| {
        let text = table.read(store, row, |values| format!("{:?}", values[column])).unwrap();
        (crate::row::RowId::location(row), text)
    };
    rows.into_iter().map(read).collect()
}

#[test]
fn rows_get_longer_beside_transactions_that_know_nothing_of_it() {
    for seed in 0..40 {
        let mut random = Random::new(seed);
        let mut store = Logged::new(Limits::default());
        tables().into_iter().for_each(|table| store.create_table(table).unwrap());
        let old = handles(&store);
        work(&mut store, &old, &mut random, 60);
        let added = [
            (0, column("more", SqlType::Text, true)),
            (0, column("small", SqlType::Boolean, false)),
            (1, column("wide", SqlType::Varchar(200), false)),
            (0, column("number", SqlType::BigInt, true)),
            (0, column("long", SqlType::Bytes, false)),
            (0, column("kept", SqlType::Integer, true).or(-3)),
            (0, column("sold", SqlType::Boolean, false).or(1)),
            (1, column("rate", SqlType::Decimal { precision: 5, scale: 2 }, false).or(1_00)),
        ];
        let mut newest = Vec::new();
        for (table, column) in added {
            let name = store.schema().tables[table].name.to_string();
            let build = store.begin_column(&name, column.clone()).unwrap();
            let twice = store.begin_column(&name, column.clone()).unwrap_err();
            assert!(twice.to_string().contains("another column"), "{twice}");
            while store.column_slice(&build, 1 + random.below(20) as usize).unwrap() != Built::Done
            {
                work(&mut store, &old, &mut random, 1);
                if !newest.is_empty() {
                    work(&mut store, &newest, &mut random, 1);
                }
            }
            let transactions = random.below(4);
            work(&mut store, &old, &mut random, transactions);
            let before = values(&mut store, table, 0);
            drop(store.finish_column(build).unwrap());
            assert_eq!(store.check(), [], "seed {seed}");
            assert_eq!(values(&mut store, table, 0), before);
            let position = store.schema().tables[table].columns.len() - 1;
            assert_eq!(store.schema().tables[table].columns[position], column);
            let empty = match (column.nullable, column.sql) {
                _ if column.name == "kept" => "Integer(-3)",
                _ if column.name == "sold" => "Boolean(true)",
                _ if column.name == "rate" => "Decimal { units: 100, scale: 2 }",
                (true, _) => "Null",
                (_, SqlType::Boolean) => "Boolean(false)",
                (_, SqlType::Bytes) => "Bytes([])",
                _ => "Text(\"\")",
            };
            let found = values(&mut store, table, position);
            assert!(found.iter().all(|(_, value)| value == empty), "seed {seed}: {found:?}");
            newest = handles(&store);
            work(&mut store, &newest, &mut random, 10);
            work(&mut store, &old, &mut random, 10);
            assert_eq!(store.check(), [], "seed {seed}");
        }
        let mut log = LogBuffer::new();
        store.take_log(&mut log);
        for parts in [1, 2] {
            let mut again = replayed(log.as_slice(), parts);
            assert_eq!(again.check(), []);
            assert_eq!(again.schema(), store.schema());
            assert!(rows(&mut again) == rows(&mut store), "seed {seed}: other rows from the log");
            // Slots that are free hold nothing of what was there.
            let mut twin = replayed(log.as_slice(), parts);
            work(&mut again, &old, &mut Random::new(seed), 30);
            work(&mut twin, &old, &mut Random::new(seed), 30);
            assert!(rows(&mut again) == rows(&mut twin));
            assert_eq!(again.check(), []);
        }
    }
}

/// Keys are of values, not of how these are stored: in packed keys, made straight from rows' bytes, too.
#[test]
fn an_index_over_defaults_is_the_same_from_the_log() {
    for seed in 0..20 {
        let mut random = Random::new(seed);
        let mut store = Logged::new(Limits::default());
        tables().into_iter().for_each(|table| store.create_table(table).unwrap());
        let old = handles(&store);
        work(&mut store, &old, &mut random, 60);
        let narrow = SqlType::Decimal { precision: 5, scale: 2 };
        for column in [
            column("kept", SqlType::Integer, true).or(-3),
            column("sold", SqlType::Boolean, false).or(1),
            column("rate", narrow, true).or(1_00),
        ] {
            let build = store.begin_column("one", column).unwrap();
            while store.column_slice(&build, 50).unwrap() != Built::Done {}
            drop(store.finish_column(build).unwrap());
        }
        let newest = handles(&store);
        work(&mut store, &newest, &mut random, 20);
        for (names, kind) in [
            (["sold", "rate", "id"], IndexKind::Tree),
            (["sold", "rate", "id"], IndexKind::Hash),
            (["kept", "sold", "name"], IndexKind::Tree),
        ] {
            let columns = names.map(|name| store.schema().tables[0].column(name).unwrap()).into();
            let (name, unique) = (format!("by_{}_{kind:?}", names[0]).into(), names[2] == "id");
            let index = IndexDef { name, columns, unique, kind };
            let build = store.begin_index("one", index).unwrap();
            while store.build_slice(&build, 20).unwrap() != Built::Done {}
            store.finish_index(build).unwrap();
        }
        assert_eq!(store.check(), [], "seed {seed}");
        let newest = handles(&store);
        work(&mut store, &newest, &mut random, 20);
        assert_eq!(store.check(), [], "seed {seed}");
        let mut log = LogBuffer::new();
        store.take_log(&mut log);
        let mut again = replayed(log.as_slice(), 2);
        assert_eq!(again.check(), [], "seed {seed}");
        assert!(rows(&mut again) == rows(&mut store), "seed {seed}: other rows from the log");
    }
}

/// A table with one more column, with the earlier handle and the present one.
fn with_one_more() -> (Logged, DynamicTable, DynamicTable) {
    let mut store = Logged::new(Limits::default());
    let [_, plain, _] = tables();
    store.create_table(plain).unwrap();
    let old = DynamicTable::new(store.schema(), 0);
    let build = store.begin_column("plain", column("more", SqlType::BigInt, true)).unwrap();
    assert_eq!(store.column_slice(&build, 1), Ok(Built::Done));
    drop(store.finish_column(build).unwrap());
    let new = DynamicTable::new(store.schema(), 0);
    (store, old, new)
}

/// A transaction.
fn commit<T>(store: &mut Logged, change: impl FnOnce(&mut Logged) -> T) -> T {
    store.begin().unwrap();
    store.begin_writes();
    let changed = change(store);
    store.commit().unwrap();
    changed
}

/// A row with something in a column that was added dies, copied already, while rows get longer once more.
#[test]
fn a_row_that_dies_while_rows_get_longer_leaves_nothing_in_its_slot() {
    let (mut store, old, new) = with_one_more();
    let given = [Value::Integer(1), Value::Integer(77)];
    let row = commit(&mut store, |store| new.insert(store, &given).unwrap());
    let build = store.begin_column("plain", column("wide", SqlType::Varchar(200), false)).unwrap();
    assert_eq!(store.column_slice(&build, 100), Ok(Built::Done));
    commit(&mut store, |store| new.delete(store, row).unwrap());
    drop(store.finish_column(build).unwrap());
    commit(&mut store, |store| old.insert(store, &[Value::Integer(2)]).unwrap());
    let found = values(&mut store, 0, 1);
    assert_eq!(found, [(row.location(), "Null".to_owned())]);
}

/// Rows made by a caller that does not know the column have nothing in it, wherever a slot was
/// before.
#[test]
fn a_slot_that_is_used_again_has_nothing_of_its_last_row() {
    let (mut store, old, new) = with_one_more();
    for is_recovered in [false, true] {
        let given = [Value::Integer(1), Value::Integer(77)];
        let made = commit(&mut store, |store| new.insert(store, &given).unwrap());
        commit(&mut store, |store| new.delete(store, made).unwrap());
        // One that is undone leaves nothing, either.
        store.begin().unwrap();
        store.begin_writes();
        new.insert(&mut store, &[Value::Integer(1), Value::Integer(78)]).unwrap();
        store.abort().unwrap();
        if is_recovered {
            let mut log = LogBuffer::new();
            store.take_log(&mut log);
            store = replayed(log.as_slice(), 1);
        }
        let given = [Value::Integer(2)];
        let again = commit(&mut store, |store| old.insert(store, &given).unwrap());
        assert_eq!(again, made, "the slot is used again");
        let is_null = new.read(&store, again, |values| values[1] == Value::Null).unwrap();
        assert!(is_null, "recovered: {is_recovered}");
        commit(&mut store, |store| new.delete(store, again).unwrap());
    }
}

#[test]
fn what_cannot_be_added_leaves_the_table_as_it_was() {
    let mut store = Logged::new(Limits::default());
    tables().into_iter().for_each(|table| store.create_table(table).unwrap());
    let schema = store.schema().clone();
    let reported = |store: &mut Logged, table: &str, column| {
        store.begin_column(table, column).unwrap_err().to_string()
    };
    let text = || column("more", SqlType::Text, true);
    assert!(reported(&mut store, "nowhere", text()).contains("nowhere"));
    assert!(reported(&mut store, "one", column("id", SqlType::Text, true)).contains("same name"));
    assert!(
        reported(&mut store, "one", column("c", SqlType::Char(3), false)).contains("may be null")
    );
    let far = ColumnDef { range: Some((1, 9)), ..column("n", SqlType::Integer, false) };
    assert!(reported(&mut store, "one", far.clone()).contains("its range holds"));
    assert!(reported(&mut store, "one", far.or(10)).contains("range holds its default"));
    assert!(reported(&mut store, "one", text().or(0)).contains("whole numbers"));
    assert!(reported(&mut store, "one", ColumnDef { hot: true, ..text() }).contains("hot"));
    // Memory ends while rows are copied, by the walk and by a commit.
    let old = handles(&store);
    let mut random = Random::new(3);
    work(&mut store, &old, &mut random, 400);
    let before = rows(&mut store);
    store.set_memory_bytes_max(store.memory_bytes());
    let build = store.begin_column("one", column("wide", SqlType::Varchar(900), true)).unwrap();
    let refused = store.column_slice(&build, 10).unwrap_err();
    assert!(refused.to_string().contains("memory_bytes_max"), "{refused}");
    drop(store.give_up_column(build));
    store.set_memory_bytes_max(u64::MAX);
    assert!(rows(&mut store) == before && *store.schema() == schema);
    assert_eq!(store.check(), []);
    // A long read is met before rows are copied, or when they are.
    let early = store.open_snapshot().unwrap();
    assert!(reported(&mut store, "one", text()).contains("try again"));
    store.close_snapshot(early);
    let build = store.begin_column("one", text()).unwrap();
    while store.column_slice(&build, 100).unwrap() != Built::Done {}
    let late = store.open_snapshot().unwrap();
    let refused = store.finish_column(build).map(drop).unwrap_err();
    assert!(refused.to_string().contains("try again"), "{refused}");
    store.close_snapshot(late);
    store.poison("as reported");
    assert!(reported(&mut store, "one", text()).contains("as reported"));
    assert!(matches!(store.begin(), Err(Error::Poisoned { .. })));
}
