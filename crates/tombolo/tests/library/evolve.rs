//! Tables and indexes that are added: while callers write, by programs that know them and by others.

use std::sync::Arc;

use tombolo::procedure::{Committed, Procedure, Reading, SchemaError, Store};
use tombolo::procedure::{resolve_index, resolve_table};
use tombolo::{
    CallOptions, ColumnDef, Database, Error, Fields, IndexDef, IndexKind, Schema, TableDef, Value,
    types,
};
use tombolo::{DeclaredTable, Order, Range};
use tombolo_engine::threads::on_each;

use super::together::until_one_ends;
use super::{ById, ByValue, Counter, Counters, adding, builder, open, value};

tombolo::index! {
    /// By name; many have none.
    struct ByName = "counter_by_name" on Counter (NAME: Nullable<Text>, ID: Integer) multiple Tree;
}
tombolo::index! {
    /// By value alone, which is unique only as long as it is.
    struct UniqueValue = "counter_by_unique_value" on Counter (VALUE: BigInt) unique Tree;
}

/// Counters with the first index only.
fn small() -> TableDef {
    TableDef::of::<Counter>().with::<ById>()
}

/// Sets a counter, which it makes where there is none; it keeps the index by number and no other.
struct Set(Counters);

impl Procedure for Set {
    type Input = (i32, i64);
    type Answer = ();

    fn bind(schema: &Schema) -> Result<Self, SchemaError> {
        Ok(Self(Counters { table: resolve_table(schema)?, by_id: resolve_index(schema)? }))
    }

    fn run<S: Store>(
        &self,
        mut tx: Reading<'_, S>,
        &(id, value): &(i32, i64),
    ) -> Result<Committed<()>, tombolo::procedure::Stop> {
        const VALUE: Fields<Counter> = Fields::none().with(Counter::VALUE);
        let found = tx.lookup(&self.0.by_id, id)?;
        let mut tx = tx.write();
        match found {
            Some(row) => {
                tx.update(&self.0.table, row, VALUE, |row| row.set(Counter::VALUE, value))?;
            }
            None => {
                let row = tx.create(&self.0.table, |row| {
                    row.set(Counter::ID, id);
                    row.set(Counter::VALUE, value);
                })?;
                tx.insert(&self.0.by_id, id, row)?;
            }
        }
        tx.commit(())
    }
}

/// All counters, by number and by value, which have to agree.
fn all(db: &Database) -> Vec<(i64, i32)> {
    let counters = Counters::of(db);
    let by_value = db.index::<ByValue>().unwrap();
    let read = db.transaction(move |tx| {
        let mut reported = [Vec::new(), Vec::new()];
        let rows = [
            tx.range(&counters.by_id, Range::all(), Order::Forward)?,
            tx.range(&by_value, Range::all(), Order::Forward)?,
        ];
        for (reported, rows) in reported.iter_mut().zip(rows) {
            for row in rows {
                let row = tx.get(&counters.table, row)?;
                reported.push((row.get(Counter::VALUE), row.get(Counter::ID)));
            }
        }
        Ok(reported)
    });
    let [mut by_id, by_value] = read.unwrap();
    by_id.sort_unstable();
    assert!(by_value.is_sorted());
    assert_eq!(by_id, by_value);
    by_value
}

#[test]
fn a_table_is_made_beside_its_callers_and_is_there_again() {
    let place = tempfile::tempdir().unwrap();
    let table = |number: usize| TableDef {
        name: format!("table_{number}").into(),
        columns: vec![ColumnDef::of::<types::BigInt>("n")],
        indexes: vec![IndexDef {
            name: format!("table_{number}_pk").into(),
            columns: vec![0],
            unique: true,
            kind: IndexKind::Tree,
        }],
    };
    let db = open(place.path()).unwrap();
    let add = adding(&db);
    let (before, by_value) = (Counters::of(&db), db.index::<ByValue>().unwrap());
    on_each(0..4, |thread| {
        for n in 0..5 {
            add.call(thread).unwrap();
            db.create_table(table(thread as usize * 5 + n)).unwrap();
            let made = db.dynamic_table(&format!("table_{}", thread as usize * 5 + n)).unwrap();
            db.transaction(move |tx| tx.insert_values(&made, &[Value::Integer(7)])).unwrap();
        }
    });
    let refused = db.create_table(table(3)).unwrap_err();
    assert!(matches!(&refused, Error::Schema(what) if what.contains("table_3")), "{refused}");
    assert!(!refused.is_retryable());
    assert!(matches!(db.create_table(TableDef::of::<Counter>()), Err(Error::Schema(_))));
    let mut own = table(0);
    own.name = "tombolo_own".into();
    assert!(matches!(db.create_table(own), Err(Error::Schema(_))));
    // Earlier handles are good.
    let found = db.transaction(move |tx| {
        before.add(tx, 1)?;
        Ok(tx.range(&by_value, Range::all(), Order::Forward)?.len())
    });
    assert_eq!(found, Ok(4));
    let tables = db.schema().tables.clone();
    drop(db);
    let db = open(place.path()).unwrap();
    assert_eq!(db.schema().tables, tables);
    for number in 0..20 {
        let made = db.dynamic_table(&format!("table_{number}")).unwrap();
        assert_eq!(db.transaction(move |tx| Ok(tx.rows(made.handle())?.len())), Ok(1));
    }
}

#[test]
fn an_index_is_built_beside_closures_and_procedures_that_do_not_know_it() {
    const ROWS: i32 = 3_000;
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("logged");
    let small_one = || Database::builder().table(small()).set("log_segment_bytes", "1 MB");
    for db in [small_one().in_memory().unwrap(), small_one().open(&directory).unwrap()] {
        let (set, add) = (db.register::<Set>().unwrap(), adding(&db));
        let filled: Vec<_> = (0..ROWS).map(|id| set.submit((id, -1)).unwrap()).collect();
        filled.into_iter().for_each(|call| call.wait().unwrap());
        until_one_ends(0..3, |thread, over| {
            if thread == 0 {
                let by_value = db.create_index::<ByValue>().unwrap();
                let rows = db.transaction(move |tx| {
                    Ok(tx.range(&by_value, Range::all(), Order::Forward)?.len())
                });
                assert!(rows.unwrap() >= ROWS as usize);
                return;
            }
            let mut rounds = 0;
            while !over.is_set() || rounds < 300 {
                let id = (rounds * 7 + thread * 1_000) % (ROWS + 500);
                match rounds % 2 {
                    0 => drop(add.call(id).unwrap()),
                    _ => set.call((id, i64::from(rounds))).unwrap(),
                }
                rounds += 1;
            }
        });
        assert!(all(&db).len() > ROWS as usize);
        // It is there already.
        db.create_index::<ByValue>().map(drop).unwrap();
    }
    // A program that does not name the index, with procedures that do not know it.
    for round in 0..3 {
        let db = small_one().open(&directory).unwrap();
        let set = db.register::<Set>().unwrap();
        (0..200).for_each(|id| set.call((id * 31, i64::from(id * round))).unwrap());
        all(&db);
    }
    // One that names it, and one more that is not there yet.
    let named = small().with::<ByValue>().with::<ByName>();
    let db = Database::builder().table(named).open(&directory).unwrap();
    let by_name = db.index::<ByName>().unwrap();
    let rows = all(&db).len();
    let found = db
        .transaction(move |tx| Ok(tx.range(&by_name, Range::all(), Order::Forward)?.len()))
        .unwrap();
    assert_eq!(found, rows);
    adding(&db).call(5).unwrap();
    all(&db);
}

#[test]
fn a_unique_index_over_duplicates_is_refused_by_their_key() {
    let place = tempfile::tempdir().unwrap();
    let db = builder().open(place.path()).unwrap();
    let add = adding(&db);
    let early = adding(&db).with(CallOptions::new().early());
    for id in 0..100 {
        // Each stands at its own number, but for two.
        for _ in 0..(if id == 70 { 55 } else { id }) + 1 {
            let _ = early.call(id).unwrap().into_inner();
        }
    }
    let refused = db.create_index::<UniqueValue>().unwrap_err();
    assert!(matches!(&refused, Error::Schema(what) if what.contains("(56)")), "{refused}");
    assert!(db.index::<UniqueValue>().is_err());
    for _ in 0..100 {
        add.call(70).unwrap();
    }
    let by_value = db.create_index::<UniqueValue>().unwrap();
    // Closures see its entries immediately, and procedures at their commit; both are refused.
    let table = db.table::<Counter>().unwrap();
    let seen = db.transaction(move |tx| {
        let row = tx.insert(&table, |row| {
            row.set(Counter::ID, 500);
            row.set(Counter::VALUE, 5_000);
        })?;
        Ok(tx.lookup(&by_value, 5_000)? == Some(row))
    });
    assert_eq!(seen, Ok(true));
    let duplicate = Error::Duplicate { index: "counter_by_unique_value".to_owned() };
    assert_eq!(add.call(98), Err(duplicate.clone()));
    drop(db);
    let db = builder().open(place.path()).unwrap();
    let set = db.register::<Set>().unwrap();
    assert_eq!(set.call((3, 5_000)), Err(duplicate));
    assert_eq!([value(&db, 3), value(&db, 98)], [4, 99]);
    // At opening it is the same.
    drop(db);
    let mut alike = small().with::<ByValue>();
    alike.indexes.push(IndexDef {
        name: "counter_by_no_name".into(),
        columns: vec![2],
        unique: true,
        kind: IndexKind::Tree,
    });
    let refused = Database::builder().table(alike).open(place.path()).unwrap_err();
    assert!(matches!(&refused, Error::Schema(what) if what.contains("no_name")), "{refused}");
    assert_eq!(value(&open(place.path()).unwrap(), 3), 4);
}

#[test]
fn indexes_of_a_table_that_is_not_named_are_looked_after() {
    for unique in [true, false] {
        let place = tempfile::tempdir().unwrap();
        let named = || Database::builder().table(small()).set("log_segment_bytes", "1 MB");
        let db = named().open(place.path()).unwrap();
        db.register::<Set>().unwrap().call((1, 10)).unwrap();
        let index =
            IndexDef { name: "later".into(), columns: vec![1], unique, kind: IndexKind::Tree };
        db.create_dynamic_index("counter", index).unwrap();
        db.close().unwrap();
        // The procedure knows the index by number; the program names no table.
        let unnamed = || Database::builder().set("log_segment_bytes", "1 MB");
        let db = unnamed().open(place.path()).unwrap();
        let set = db.register::<Set>().unwrap();
        let expected = match unique {
            true => Err(Error::Duplicate { index: "later".to_owned() }),
            false => Ok(()),
        };
        assert_eq!(set.call((2, 10)), expected);
        set.call((3, 30)).unwrap();
        set.call((1, 20)).unwrap();
        set.call((4, 10)).unwrap();
        let entries = |db: &Database| {
            let table = db.dynamic_table("counter").unwrap();
            db.transaction(move |tx| {
                let index = table.index("later").unwrap();
                let found = tx.range(index, Range::all(), Order::Forward)?;
                let value = |row| {
                    tx.read_values(&table, row, |row| match row[1] {
                        Value::Integer(value) => value,
                        ref other => panic!("{other:?}"),
                    })
                };
                found.into_iter().map(value).collect::<Result<Vec<_>, _>>()
            })
        };
        let kept = if unique { vec![10, 20, 30] } else { vec![10, 10, 20, 30] };
        assert_eq!(entries(&db), Ok(kept.clone()));
        db.close().unwrap();
        for builder in [named(), unnamed()] {
            assert_eq!(entries(&builder.open(place.path()).unwrap()), Ok(kept.clone()));
        }
    }
}

#[test]
fn what_cannot_be_added_leaves_nothing_behind() {
    let place = tempfile::tempdir().unwrap();
    // A checkpoint would make room in the log.
    let log = builder().set("checkpoints", "off");
    let log = log.set("log_segment_bytes", "64 KB").set("log_bytes_max", "192 KB");
    let db = Arc::new(log.open(place.path()).unwrap());
    let index = |name: &'static str, columns: &[usize]| IndexDef {
        name: name.into(),
        columns: columns.to_vec(),
        unique: false,
        kind: IndexKind::Tree,
    };
    let reported =
        |table: &str, index| db.create_dynamic_index(table, index).unwrap_err().to_string();
    assert!(reported("nowhere", index("i", &[0])).contains("nowhere"));
    assert!(reported("counter", index("i", &[3])).contains("does not exist"));
    assert!(reported("counter", index("tombolo_i", &[0])).contains("own"));
    assert!(reported("tombolo_request", index("i", &[0])).contains("own"));
    let own = db.clone();
    let nested = db.transaction(move |_| {
        Ok((own.create_table(small()), own.create_dynamic_index("counter", index("i", &[0]))))
    });
    assert_eq!(nested, Ok((Err(Error::Nested), Err(Error::Nested))));
    let add = adding(&db);
    add.call(1).unwrap();
    let small = add.with(CallOptions::new().log_bytes_max(60));
    while small.call(1) != Err(Error::LogFull) {}
    // It is built and finds no room in the log; each time, because it was given up.
    for _ in 0..3 {
        let refused = db.create_dynamic_index("counter", index("late", &[0])).unwrap_err();
        assert_eq!(refused, Error::LogFull);
        assert!(refused.is_retryable() && db.schema().index("late").is_none());
    }
    let closed = Arc::into_inner(db).unwrap();
    closed.close().unwrap();
}

mod wider {
    tombolo::table! {
        /// Counters, with what later versions added: a note, a number, and a value that needs room.
        pub(super) struct Counter = "counter" {
            ID: Integer [0..=999_999];
            VALUE: BigInt => hot;
            NAME: Nullable<Text>;
            NOTE: Nullable<Text> => added;
            LIMIT: BigInt => or(5);
            ADDRESS: Varchar<200> => added;
        }
    }
    tombolo::index! {
        /// By what was added.
        pub(super) struct ByLimit = "counter_by_limit" on Counter (LIMIT: BigInt, ID: Integer) unique Tree;
    }
}
use wider::{ByLimit, Counter as Wider};

mod wide {
    tombolo::table! {
        /// The version between.
        pub(super) struct Counter = "counter" {
            ID: Integer [0..=999_999];
            VALUE: BigInt => hot;
            NAME: Nullable<Text>;
            NOTE: Nullable<Text> => added;
            LIMIT: BigInt => or(5);
        }
    }
    tombolo::table! {
        /// The version before that.
        pub(super) struct Noted = "counter" {
            ID: Integer [0..=999_999];
            VALUE: BigInt => hot;
            NAME: Nullable<Text>;
            NOTE: Nullable<Text> => added;
        }
    }
}

/// Sets what was added of a counter, which it makes where there is none.
fn set_limit(db: &Database, id: i32, limit: i64) {
    let (table, by_id) = (db.table::<Wider>().unwrap(), db.index::<ById>().unwrap());
    let set = db.transaction(move |tx| {
        let row = match tx.lookup(&by_id, id)? {
            Some(row) => row,
            None => tx.insert(&table, |row| row.set(Wider::ID, id))?,
        };
        tx.set(&table, row, Wider::LIMIT, limit)?;
        tx.set(&table, row, Wider::ADDRESS, format!("street {limit}").as_bytes())?;
        tx.set_variable(&table, row, Wider::NOTE, Some("noted"))
    });
    set.unwrap();
}

/// Number, value, limit, address and note of all counters.
fn wide_rows(db: &Database) -> Vec<(i32, i64, i64, String, Option<String>)> {
    let table = db.table::<Wider>().unwrap();
    let read = db.transaction(move |tx| {
        let mut found = Vec::new();
        for row in tx.rows(&table)? {
            let row = tx.get(&table, row)?;
            let note = row.get(Wider::NOTE).map(|note| String::from_utf8_lossy(note).into_owned());
            let address = String::from_utf8_lossy(row.get(Wider::ADDRESS)).into_owned();
            found.push((
                row.get(Wider::ID),
                row.get(Wider::VALUE),
                row.get(Wider::LIMIT),
                address,
                note,
            ));
        }
        found.sort();
        Ok(found)
    });
    read.unwrap()
}

#[test]
fn columns_are_added_beside_closures_and_procedures_that_do_not_know_them() {
    const ROWS: i32 = 2_000;
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("logged");
    let narrow = || builder().set("checkpoint_log_bytes", "64 KB");
    let logged = narrow().open(&directory).unwrap();
    for (is_logged, db) in [(false, narrow().in_memory().unwrap()), (true, logged)] {
        let (set, add) = (db.register::<Set>().unwrap(), adding(&db));
        let early = add.with(CallOptions::new().early());
        (0..ROWS).for_each(|id| assert_eq!(early.call(id).unwrap().into_inner(), 1));
        until_one_ends(0..3, |thread, over| {
            if thread == 0 {
                db.add_column::<wide::Noted>("note").unwrap();
                assert_eq!(db.checkpoint().is_ok(), is_logged);
                db.add_column::<wide::Counter>("limit").unwrap();
                db.add_column::<Wider>("address").unwrap();
                db.create_index::<ByLimit>().map(drop).unwrap();
                return;
            }
            let mut rounds = 0;
            while !over.is_set() || rounds < 200 {
                let id = ROWS * thread + rounds;
                // Of the first half each row is changed once and some are made.
                assert_eq!(add.call(id % ROWS / 2 + (thread - 1) * ROWS / 2).map(|_| ()), Ok(()));
                set.call((ROWS + id, i64::from(rounds))).unwrap();
                rounds += 1;
            }
        });
        let found = wide_rows(&db);
        let is_empty = |row: &(i32, i64, i64, String, Option<String>)| {
            (row.2, row.3.as_str(), &row.4) == (5, "", &None)
        };
        assert!(found.len() >= ROWS as usize + 400 && found.iter().all(is_empty));
        let sum: i64 = found.iter().filter(|row| row.0 < ROWS).map(|row| row.1).sum();
        assert!(sum >= i64::from(ROWS) + 400, "{sum}");
        (0..50).for_each(|id| set_limit(&db, id, i64::from(id) + 1));
        // A program that does not know them changes such rows and makes others.
        (0..100).for_each(|id| assert!(add.call(id + 25).is_ok()));
        set.call((900_000, 3)).unwrap();
        let found = wide_rows(&db);
        let noted = |id: i32| found.iter().find(|row| row.0 == id).unwrap().clone();
        let note = |id: i64| (id + 1, format!("street {}", id + 1), Some("noted".to_owned()));
        assert_eq!((noted(30).2, noted(30).3, noted(30).4), note(30));
        assert!(is_empty(&noted(60)) && is_empty(&noted(900_000)));
        if is_logged {
            db.backup(place.path().join("safe")).unwrap();
            db.close().unwrap();
            let definition = TableDef::of::<Wider>().with::<ById>().with::<ByValue>();
            let named = Database::builder().table(definition.with::<ByLimit>());
            let wider = named.set("log_segment_bytes", "1 MB");
            let db = wider.clone().open(&directory).unwrap();
            assert_eq!(wide_rows(&db), found);
            set_limit(&db, 60, 1_000);
            drop(db);
            // A program that knows none of it.
            let db = narrow().open(&directory).unwrap();
            assert!(adding(&db).call(60).unwrap() > 1);
            db.close().unwrap();
            let db = wider.open(&directory).unwrap();
            assert_eq!(wide_rows(&db).iter().find(|row| row.0 == 60).unwrap().2, 1_000);
            let restored = place.path().join("restored");
            Database::restore(place.path().join("safe"), &restored).unwrap();
            assert_eq!(wide_rows(&narrow().open(&restored).unwrap()), found);
        }
    }
}

#[test]
fn a_column_that_cannot_be_added_is_refused_in_words() {
    let place = tempfile::tempdir().unwrap();
    let db = open(place.path()).unwrap();
    adding(&db).call(1).unwrap();
    drop(db);
    let plain = Database::builder().set("log_segment_bytes", "1 MB");
    let noted = TableDef::of::<wide::Noted>().with::<ById>().with::<ByValue>();
    let mut plainly = noted.clone();
    let last = plainly.columns.len() - 1;
    plainly.columns[last].added = false;
    let refused = plain.clone().table(plainly).open(place.path()).unwrap_err();
    assert!(refused.to_string().contains("declare the column as added"), "{refused}");
    let db = plain.clone().open(place.path()).unwrap();
    let reported = |refused: Error| refused.to_string();
    assert!(reported(db.add_column::<Wider>("address").unwrap_err()).contains("other columns"));
    assert!(reported(db.add_column::<Wider>("name").unwrap_err()).contains("=> added"));
    assert!(reported(db.add_column::<Wider>("size").unwrap_err()).contains("declares no such"));
    let char = ColumnDef::of::<types::Char<3>>("code");
    assert!(reported(db.add_dynamic_column("counter", char).unwrap_err()).contains("may be null"));
    let own = db.add_dynamic_column("tombolo_request", ColumnDef::of::<types::BigInt>("n"));
    assert!(reported(own.unwrap_err()).contains("own"));
    for _ in 0..2 {
        db.add_column::<wide::Noted>("note").unwrap(); // there already, the second time
    }
    db.add_dynamic_column("counter", ColumnDef::of::<types::BigInt>("limit").or(5)).unwrap();
    assert_eq!(db.schema().tables[0].columns, wide::Counter::COLUMNS);
    drop(db);
    let db = plain.table(noted).open(place.path()).unwrap();
    assert_eq!(value(&db, 1), 1);
}

mod otherwise {
    tombolo::table! {
        /// Counters with their columns in another order.
        pub(super) struct Counter = "counter" { VALUE: BigInt => hot; ID: Integer; NAME: Nullable<Text>; }
    }
    tombolo::index! {
        /// By number, as it thinks.
        pub(super) struct ByOther = "counter_by_other" on Counter (ID: Integer) multiple Tree;
    }
    tombolo::table! {
        /// Counters with another note.
        pub(super) struct Noted = "counter" {
            ID: Integer [0..=999_999];
            VALUE: BigInt => hot;
            NAME: Nullable<Text>;
            NOTE: Varchar<9> => added;
        }
    }
}

#[test]
fn an_addition_that_is_refused_is_not_there() {
    let place = tempfile::tempdir().unwrap();
    for db in [builder().in_memory().unwrap(), open(place.path()).unwrap()] {
        let tables = db.schema().tables.clone();
        let reported = |refused: Error| {
            assert!(matches!(refused, Error::Schema(_)) && !refused.is_retryable());
            assert_eq!(db.schema().tables, tables);
            refused.to_string()
        };
        // An index of a table that is another one, or a longer one.
        let refused = reported(db.create_index::<otherwise::ByOther>().map(drop).unwrap_err());
        let words = "column number 1: the database has id integer not null from 0 to 999999, the \
                     program has value bigint not null (hot)";
        assert!(refused.contains(words), "{refused}");
        reported(db.create_index::<ByLimit>().map(drop).unwrap_err());
        // A column with others behind it, of which there could be no handle.
        let refused = reported(db.add_column::<Wider>("note").unwrap_err());
        assert!(refused.contains("counter.note") && refused.contains("add_dynamic"), "{refused}");
        // A program that has only such a type adds them like this, any number of times.
        for _ in 0..2 {
            for column in &Wider::COLUMNS[3..5] {
                db.add_dynamic_column("counter", column.clone()).unwrap();
            }
            db.add_column::<Wider>("address").unwrap();
            db.add_column::<Wider>("limit").unwrap();
            db.create_index::<ByLimit>().map(drop).unwrap();
            db.create_dynamic_index("counter", IndexDef::of::<ByLimit>()).unwrap();
        }
        assert_eq!(db.schema().tables[0].columns, Wider::COLUMNS);
        assert_eq!(db.schema().tables[0].indexes.len(), 3);
        // What is there otherwise says so.
        let reported = |refused: Error| refused.to_string();
        let refused = reported(db.add_column::<otherwise::Noted>("note").unwrap_err());
        assert!(refused.contains("already exists, as text (added)"), "{refused}");
        let mut other = IndexDef::of::<ByLimit>();
        other.unique = false;
        let refused = reported(db.create_dynamic_index("counter", other).unwrap_err());
        assert!(refused.contains("on counter as unique tree (limit, id)"), "{refused}");
    }
}

#[test]
fn additions_of_many_threads_come_one_after_the_other() {
    let db = builder().in_memory().unwrap();
    let add = adding(&db);
    (0..500).for_each(|id| assert_eq!(add.call(id), Ok(1)));
    on_each(0..6, |thread| {
        // Three columns, each of two threads, and an index.
        let name = ["x", "y", "z"][thread as usize / 2];
        let column = ColumnDef::of::<types::Varchar<200>>(name);
        assert_eq!(db.add_dynamic_column("counter", column), Ok(()));
        let index = IndexDef {
            name: "counter_more".into(),
            columns: vec![1],
            unique: false,
            kind: IndexKind::Tree,
        };
        assert_eq!(db.create_dynamic_index("counter", index), Ok(()));
    });
    assert_eq!(db.schema().tables[0].columns.len(), 6);
    assert_eq!(db.schema().tables[0].indexes.len(), 3);
}

/// Two versions of a program: the second has two columns more and an index over one of them.
mod version {
    pub(super) mod first {
        #[derive(tombolo::Table)]
        #[table(name = "guest")]
        pub(crate) struct Guest {
            #[key]
            pub(crate) id: u32,
            pub(crate) name: String,
        }
    }
    pub(super) mod second {
        #[derive(tombolo::Table, Debug, PartialEq)]
        #[table(name = "guest")]
        #[index(ByStars(stars, id))]
        pub(crate) struct Guest {
            #[key]
            pub(crate) id: u32,
            pub(crate) name: String,
            #[column(added, default = 3)]
            pub(crate) stars: u8,
            #[column(added)]
            pub(crate) note: Option<String>,
        }
    }
}

#[test]
fn a_directory_gets_the_columns_that_its_next_version_declares() {
    use version::{first, second};
    let place = tempfile::tempdir().unwrap();
    let builder = || Database::builder().set("log_segment_bytes", "1 MB");
    let name = |id: u32| format!("guest {id}");
    let db = builder().define::<first::Guest>().open(place.path()).unwrap();
    let guests = db.table().unwrap();
    db.load(&guests, (0..1_000).map(|id| first::Guest { id, name: name(id) })).unwrap();
    drop(db);
    for round in 0..3 {
        let db = builder().define::<second::Guest>().open(place.path()).unwrap();
        let guests = db.table::<second::Guest>().unwrap();
        let by_stars = db.index::<second::ByStars>().unwrap();
        let found = db.transaction(move |tx| {
            let all: Vec<_> = tx.iter_table(&guests)?.map(|(_, row)| row.read()).collect();
            let stars: Vec<_> =
                tx.iter(&by_stars, .., Order::Forward)?.map(|(_, row)| row.read().stars).collect();
            Ok((all, stars))
        });
        let (all, stars) = found.unwrap();
        assert_eq!(all.len(), 1_000 + round);
        assert!(stars.is_sorted() && stars.len() == all.len(), "{stars:?}");
        for guest in &all {
            let expected = match guest.id < 1_000 {
                true => second::Guest { id: guest.id, name: name(guest.id), stars: 3, note: None },
                false => second::Guest {
                    id: guest.id,
                    name: String::new(),
                    stars: 5,
                    note: Some("new".to_owned()),
                },
            };
            assert_eq!(*guest, expected);
        }
        let new = second::Guest {
            id: 1_000 + round as u32,
            name: String::new(),
            stars: 5,
            note: Some("new".to_owned()),
        };
        db.transaction(move |tx| tx.insert_row(&guests, &new)).unwrap();
        if round == 1 {
            drop(db);
            // The first version continues with what it knows.
            let db = builder().define::<first::Guest>().open(place.path()).unwrap();
            let guests = db.table::<first::Guest>().unwrap();
            let names = db.transaction(move |tx| {
                Ok(tx
                    .iter_table(&guests)?
                    .filter(|(_, row)| !row.get(first::Guest::NAME).is_empty())
                    .count())
            });
            assert_eq!(names, Ok(1_000));
        }
    }
}
