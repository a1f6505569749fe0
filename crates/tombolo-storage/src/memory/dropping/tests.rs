//! Tables and indexes that go: from the store immediately, from the log in its place.

use super::*;
use crate::dynamic::DynamicTable;
use crate::error::Error;
use crate::memory::Limits;
use crate::memory::recovery::ReplayPart;
use crate::memory::recovery::tests::{change, rows, tables};
use crate::memory::test_random::Random;
use crate::profile::{Bare, MemoryLogged};
use crate::schema::{ColumnDef, IndexDef, IndexKind};
use crate::types::{Bytes, Text};
use crate::value::Value;
use crate::value_log::LogBuffer;

type Logged = MemoryStore<MemoryLogged>;

fn made() -> Logged {
    let mut store = Logged::new(Limits::default());
    tables().into_iter().for_each(|table| store.create_table(table).unwrap());
    store
}

fn handle(store: &Logged, name: &str) -> DynamicTable {
    DynamicTable::new(store.schema(), store.schema().table(name).unwrap())
}

fn work(store: &mut Logged, name: &str, random: &mut Random, transactions: u64) {
    let table = handle(store, name);
    for _ in 0..transactions {
        store.begin().unwrap();
        store.begin_writes();
        (0..3).for_each(|_| change(store, &table, random));
        store.commit().unwrap();
    }
}

/// What the log describes, replayed once and a second time over itself: over newer definitions.
fn replayed(log: &[u8], parts: usize) -> Logged {
    let parts = (0..parts).map(|part| {
        let mut part = ReplayPart::new(part, parts, Limits::default());
        part.apply(log).unwrap();
        part.apply(log).unwrap();
        part.finish().unwrap()
    });
    Logged::from_replay(Limits::default(), parts.collect()).unwrap()
}

/// How many long values there are.
fn values(store: &Logged) -> usize {
    store.tables.iter().map(|rows| rows.values.len()).sum()
}

fn refusal_text<T: std::fmt::Debug>(refused: Result<T, SchemaError>) -> String {
    refused.unwrap_err().to_string()
}

#[test]
fn a_name_is_free_at_once_and_the_log_knows_which_table_is_meant() {
    for seed in 0..12 {
        let mut random = Random::new(seed);
        let mut store = made();
        for round in 0..4 {
            for name in ["one", "plain", "two"] {
                work(&mut store, name, &mut random, 25);
            }
            let (name, again) = [("one", 0), ("two", 2), ("plain", 1)][(seed + round) as usize % 3];
            let (old, position) = (handle(&store, name), store.schema().table(name).unwrap());
            drop(store.drop_table(name).unwrap());
            assert_eq!(store.check(), [], "with all values of the others");
            assert!(
                old.row_ids(&mut store).unwrap().is_empty(),
                "a handle of before finds nothing"
            );
            assert!(refusal_text(store.drop_table(name)).contains("no such table"));
            store.create_table(tables()[again].clone()).unwrap();
            assert_ne!(
                store.schema().table(name),
                Some(position),
                "a new table has a new position"
            );
            work(&mut store, name, &mut random, 10);
            assert_eq!(store.check(), []);
            // Of the other tables' indexes one goes and comes again.
            let (of, index) = if name == "two" { ("one", "a3") } else { ("two", "b3") };
            drop(store.drop_index(index).unwrap());
            work(&mut store, of, &mut random, 5);
            let def = tables()[if of == "one" { 0 } else { 2 }].indexes[2].clone();
            let other = IndexDef { columns: vec![2, 1, 0], ..def };
            let build = store.begin_index(of, other).unwrap();
            while store.build_slice(&build, 30).unwrap() != Built::Done {}
            store.finish_index(build).unwrap();
            assert_eq!(store.check(), [], "seed {seed}");
        }
        let mut log = LogBuffer::new();
        store.take_log(&mut log);
        let expected = rows(&mut store);
        for parts in [1, 2, 3] {
            let mut again = replayed(log.as_slice(), parts);
            assert_eq!((again.check(), again.schema()), (vec![], store.schema()));
            assert!(rows(&mut again) == expected, "seed {seed}, {parts} parts: other rows");
            for name in ["one", "plain", "two"] {
                work(&mut again, name, &mut random, 20);
            }
            assert_eq!(again.check(), [], "it can be worked on");
        }
    }
}

#[test]
fn what_is_dropped_is_given_back() {
    let mut random = Random::new(5);
    let mut store = made();
    work(&mut store, "two", &mut random, 10);
    let kept = values(&store);
    work(&mut store, "one", &mut random, 3_000);
    let held = store.memory_bytes();
    assert!(values(&store) > kept + 100);
    let index = store.drop_index("a3").unwrap();
    drop(index);
    assert!(store.memory_bytes() < held, "the entries of an index");
    let held = store.memory_bytes();
    store.drop_column("one", "note").unwrap();
    let (rows, slices) = (store.tables[0].slab.used() as usize, 7);
    for slice in 1.. {
        let before = values(&store);
        let built = store.values_slice(rows.div_ceil(slices));
        assert!(before - values(&store) <= rows.div_ceil(slices), "a slice is bounded");
        if built == Built::Done {
            assert_eq!(slice, slices);
            break;
        }
    }
    assert!(values(&store) > kept && store.check().is_empty());
    drop(store.drop_table("one").unwrap());
    assert_eq!((values(&store), store.check()), (kept, vec![]));
    assert!(store.memory_bytes() < held, "rows, values and entries");
    assert_eq!(store.values_slice(1), Built::Done, "nothing is left");
}

#[test]
fn an_index_that_was_dropped_refuses_nothing_any_more() {
    let mut store = made();
    let by_state =
        IndexDef { name: "by_state".into(), columns: vec![1], unique: true, kind: IndexKind::Tree };
    let build = store.begin_index("one", by_state).unwrap();
    while store.build_slice(&build, 9).unwrap() != Built::Done {}
    store.finish_index(build).unwrap();
    // As of a program that does not know it.
    let unaware = made();
    let table = handle(&unaware, "one");
    let insert = |store: &mut Logged, id| {
        let values = [Value::Integer(id), Value::Null, Value::Text("n"), Value::Text("")];
        store.begin().unwrap();
        store.begin_writes();
        let row = [&values[..], &[Value::Bytes(b"")]].concat();
        let done = table.insert(store, &row).and_then(|_| store.commit());
        if done.is_err() {
            store.abort().unwrap();
        }
        done
    };
    insert(&mut store, 1).unwrap();
    assert!(matches!(insert(&mut store, 2), Err(Error::Duplicate { .. })));
    drop(store.drop_index("by_state").unwrap());
    insert(&mut store, 2).unwrap();
    store.reserve(0, 100_000).unwrap();
    assert_eq!(store.check(), []);
    assert!(refusal_text(store.drop_index("by_state")).contains("no such index"));
}

/// Columns go and come again while rows are written by callers that know the table as it is.
#[test]
fn columns_go_and_their_values_with_them() {
    for seed in 0..16 {
        let mut random = Random::new(seed);
        let mut store = made();
        work(&mut store, "one", &mut random, 60);
        for round in 0..4 {
            let dropped = ["note", "blob", "more_0", "more_1"][round];
            store.drop_column("one", dropped).unwrap();
            assert!(refusal_text(store.drop_column("one", dropped)).contains("no such column"));
            assert_eq!(store.check(), [], "seed {seed}");
            let column = ColumnDef::of::<Bytes>("any").added();
            let again = ColumnDef { name: format!("more_{round}").into(), ..column };
            if round < 3 {
                let early = store.begin_column("one", again.clone());
                assert!(refusal_text(early).contains("are being freed"));
            }
            while store.values_slice(1 + random.below(9) as usize) != Built::Done {
                work(&mut store, "one", &mut random, 1);
                assert_eq!(store.check(), []);
            }
            let build = store.begin_column("one", again).unwrap();
            while store.column_slice(&build, 20).unwrap() != Built::Done {}
            drop(store.finish_column(build).unwrap());
            work(&mut store, "one", &mut random, 30);
        }
        let held = values(&store);
        let mut log = LogBuffer::new();
        store.take_log(&mut log);
        for parts in [1, 2] {
            let mut again = replayed(log.as_slice(), parts);
            assert_eq!((again.check(), again.schema()), (vec![], store.schema()));
            assert!(rows(&mut again) == rows(&mut store), "seed {seed}: other rows from the log");
            assert_eq!(values(&again), held, "and no values but theirs");
            work(&mut again, "one", &mut random, 20);
            assert_eq!(again.check(), []);
        }
        // The table goes while a column's values are being freed.
        store.drop_column("one", "more_2").unwrap();
        assert!(matches!(store.values_slice(3), Built::More { .. }));
        drop(store.drop_table("one").unwrap());
        while store.values_slice(7) != Built::Done {
            assert_eq!(store.check(), []);
        }
        assert_eq!((values(&store), store.check()), (0, vec![]));
    }
}

#[test]
fn what_cannot_go_now_says_why() {
    let mut store = made();
    assert!(refusal_text(store.drop_index("a1")).contains("a1: is the primary key of one"));
    assert!(refusal_text(store.drop_table("a1")).contains("no such table"));
    assert!(refusal_text(store.drop_table("")).contains("no such table"));
    assert!(refusal_text(store.drop_column("one", "")).contains("no such column"));
    assert!(
        refusal_text(store.drop_column("one", "state")).contains("index a2 has it in its keys")
    );
    assert!(refusal_text(store.drop_column("plain", "n")).contains("plain_pk has it"));
    let snapshot = store.open_snapshot().unwrap();
    assert!(refusal_text(store.drop_table("one")).contains("a long read is under way"));
    assert!(refusal_text(store.drop_column("one", "note")).contains("a long read is under way"));
    drop(store.drop_index("a5").unwrap());
    store.close_snapshot(snapshot);
    let def = IndexDef { name: "later".into(), ..tables()[1].indexes[0].clone() };
    let build = store.begin_index("plain", def).unwrap();
    assert!(refusal_text(store.drop_table("plain")).contains("is being added"));
    store.give_up_index(build);
    let column = ColumnDef::of::<Text>("more");
    let build = store.begin_column("plain", column).unwrap();
    assert!(refusal_text(store.drop_table("plain")).contains("is being added"));
    drop(store.give_up_column(build));
    drop(store.drop_table("plain").unwrap());
    // A later one has the first one's place in no list.
    assert_eq!(store.schema().tables.len(), 3);
    assert!(store.schema().live_tables().all(|(position, _)| position != 1));

    let mut without = MemoryStore::<Bare>::new(Limits::default());
    without.create_table(tables()[0].clone()).unwrap();
    assert!(refusal_text(without.drop_table("one")).contains("with undo"));
}
