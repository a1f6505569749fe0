//! Tables and indexes that are dropped: while callers write, with handles from before the drop, in a process
//! that is killed.

use std::io::{BufRead, BufReader, Write};

use tombolo::{
    CallOptions, Database, Error, Order, Range, RowId, StoreError, Table, TableDef, Value, types,
};
use tombolo_engine::threads::on_each;

use super::kills::{CHILD, child};
use super::together::until_one_ends;
use super::{ByValue, Counter, Counters, adding, both, builder, open, value};

#[derive(Table, Debug, PartialEq, Clone)]
#[index(ByTitle(title))]
struct Note {
    #[key]
    id: u32,
    title: String,
    body: String,
}

fn note(id: u32) -> Note {
    Note { id, title: format!("title {id}"), body: "lines of it, ".repeat(20) }
}

/// Makes the table with some rows.
fn make_notes(db: &Database, rows: u32) -> Table<Note> {
    db.create_table(TableDef::of::<Note>().with::<NoteKey>().with::<ByTitle>()).unwrap();
    let notes = db.table::<Note>().unwrap();
    db.load(&notes, (0..rows).map(note)).unwrap();
    notes
}

fn is_dropped<T: std::fmt::Debug>(refused: Result<T, Error>) {
    assert_eq!(refused.unwrap_err(), Error::Refused(StoreError::Dropped));
}

#[test]
fn what_is_dropped_goes_beside_its_callers_and_stays_away() {
    const ROUNDS: u32 = 6;
    let place = tempfile::tempdir().unwrap();
    let on_disk = || open(place.path()).unwrap();
    for db in [builder().in_memory().unwrap(), on_disk()] {
        let add = adding(&db);
        let calls: Vec<_> = until_one_ends(0..3, |thread, over| {
            if thread == 0 {
                let held = db.statistics().memory_bytes;
                for round in 0..ROUNDS {
                    let rows = 400 + round;
                    let notes = make_notes(&db, rows);
                    assert_eq!(db.transaction(move |tx| tx.count(&notes)), Ok(rows.into()));
                    db.drop_index("note_by_title").unwrap();
                    assert!(db.index::<ByTitle>().is_err());
                    db.create_index::<ByTitle>().unwrap();
                    db.drop_table("note").unwrap();
                    is_dropped(db.transaction(move |tx| tx.count(&notes)));
                }
                let more = db.statistics().memory_bytes.saturating_sub(held);
                assert!(more < 4 << 20, "{more} bytes are not given back");
                return 0;
            }
            let mut calls = 0;
            while !over.is_set() {
                add.call(thread).unwrap();
                calls += 1;
            }
            calls
        });
        // A handle from before all of this is good.
        (0..3).for_each(|thread| assert_eq!(value(&db, thread), calls[thread as usize]));
        assert_eq!(db.schema().live_tables().filter(|(_, table)| table.name == "note").count(), 0);
        make_notes(&db, 7);
        db.drop_index("note_by_title").unwrap();
        if db.recovery().is_none() && place.path().join("lock").exists() {
            db.close().unwrap();
        }
    }
    for _ in 0..2 {
        let db = on_disk();
        let notes = db.table::<Note>().unwrap();
        assert_eq!(db.transaction(move |tx| tx.count(&notes)), Ok(7));
        assert!(db.index::<ByTitle>().is_err(), "it is not made again by who does not name it");
        assert!(db.index::<NoteKey>().is_ok());
    }
    // A program that names an index makes it again.
    let db = builder().define::<Note>().open(place.path()).unwrap();
    let by_title = db.index::<ByTitle>().unwrap();
    let found = db.transaction(move |tx| tx.find_row(&by_title, "title 5"));
    assert_eq!(found.unwrap().map(|(_, note)| note), Some(note(5)));
}

#[test]
fn handles_of_what_was_dropped_are_refused_and_others_are_not() {
    both(|db| {
        let (notes, counters) = (make_notes(db, 50), Counters::of(db));
        let (by_id, by_title) = (db.index::<NoteKey>().unwrap(), db.index::<ByTitle>().unwrap());
        let (dynamic, by_value) =
            (db.dynamic_table("note").unwrap(), db.index::<ByValue>().unwrap());
        let mut cursor =
            db.transaction(move |tx| tx.cursor(&by_title, .., Order::Forward)).unwrap();
        let row = db.transaction(move |tx| Ok(tx.lookup(&by_id, 3)?.unwrap())).unwrap();
        db.drop_index("note_by_title").unwrap();
        is_dropped(db.transaction(move |tx| tx.lookup(&by_title, "title 1")));
        is_dropped(db.transaction(move |tx| tx.range(&by_title, Range::all(), Order::Forward)));
        is_dropped(db.transaction(move |tx| tx.page(&mut cursor, 3)));
        let values = [Value::Integer(99), Value::Text("t"), Value::Text("b")];
        let own = dynamic.clone();
        is_dropped(db.transaction(move |tx| tx.insert_values(&own, &values)));
        let again = db.dynamic_table("note").unwrap();
        db.transaction(move |tx| tx.insert_values(&again, &values)).unwrap();
        // Its table has the handle it had.
        assert_eq!(db.transaction(move |tx| tx.read_row(&notes, row)), Ok(note(3)));
        db.transaction(move |tx| tx.update_row(&notes, row, &note(3))).unwrap();

        db.drop_table("note").unwrap();
        let replaced = make_notes(db, 50);
        is_dropped(db.transaction(move |tx| tx.read_row(&notes, row).map(drop)));
        is_dropped(db.transaction(move |tx| tx.insert_row(&notes, &note(1_000))));
        is_dropped(db.transaction(move |tx| tx.delete(&notes, row)));
        is_dropped(db.transaction(move |tx| tx.lookup(&by_id, 3)));
        is_dropped(db.transaction(move |tx| tx.rows(dynamic.handle())));
        is_dropped(db.scan(&notes, 0, |rows, _| *rows += 1).map(drop));
        // A refused write dooms the transaction.
        is_dropped(db.transaction(move |tx| {
            tx.insert_row(&replaced, &note(1_001))?;
            let _ = tx.insert_row(&notes, &note(1_001));
            Ok(())
        }));
        assert_eq!(db.transaction(move |tx| tx.count(&replaced)), Ok(50));
        let old = db.transaction(move |tx| tx.read_row(&replaced, row).map(drop));
        assert!(matches!(old, Err(Error::RefusedAt { error: StoreError::NoSuchRow { .. }, .. })));
        let found = db.transaction(move |tx| {
            counters.add(tx, 4)?;
            Ok(tx.range(&by_value, Range::all(), Order::Forward)?.len())
        });
        assert_eq!(found, Ok(1));
        let elsewhere = builder().in_memory().unwrap().table::<Counter>().unwrap();
        let other = db.transaction(move |tx| tx.count(&elsewhere));
        assert_eq!(other, Err(Error::Refused(StoreError::OtherDatabase)));
    });
}

mod procedure {
    use tombolo::procedure::{Committed, Procedure, Reading, SchemaError, Stop, Store};
    use tombolo::procedure::{resolve_index, resolve_table};
    use tombolo::{Index, Schema, Table};

    use super::{Note, NoteKey};

    /// Whether there is a note.
    pub(super) struct IsThere(Table<Note>, Index<NoteKey>);

    impl Procedure for IsThere {
        type Input = u32;
        type Answer = bool;

        fn bind(schema: &Schema) -> Result<Self, SchemaError> {
            Ok(Self(resolve_table(schema)?, resolve_index(schema)?))
        }

        fn run<S: Store>(
            &self,
            mut tx: Reading<'_, S>,
            &id: &u32,
        ) -> Result<Committed<bool>, Stop> {
            let found = tx.lookup(&self.1, id)?;
            if let Some(row) = found {
                drop(tx.pin(&self.0, row)?);
            }
            tx.commit(found.is_some())
        }
    }
}

#[test]
fn a_procedure_is_bound_again_or_refused() {
    both(|db| {
        make_notes(db, 5);
        let is_there = db.register::<procedure::IsThere>().unwrap();
        let call = |id| [is_there.call(id), is_there.submit(id).unwrap().wait()];
        assert_eq!(call(4), [Ok(true), Ok(true)]);
        db.drop_index("counter_by_value").unwrap();
        assert_eq!(call(4), [Ok(true), Ok(true)], "nothing of its own went");
        db.drop_table("note").unwrap();
        call(4).into_iter().for_each(is_dropped);
        make_notes(db, 3);
        assert_eq!(call(4), [Ok(false), Ok(false)], "the table is another one");
        assert_eq!(call(2), [Ok(true), Ok(true)]);
        assert!(db.register::<procedure::IsThere>().unwrap().call(2).unwrap());
    });
}

mod later {
    use tombolo::Table;
    use tombolo::types::Dropped;

    /// Notes that have no body any more, and have one of another type since.
    #[derive(Table, Debug, PartialEq, Clone)]
    pub(super) struct Note {
        #[key]
        pub(super) id: u32,
        pub(super) title: String,
        pub(super) old_body: Dropped<String>,
        #[column(added, sql = Varchar<20>)]
        pub(super) body: String,
    }

    pub(super) fn note(id: u32, body: &str) -> Note {
        Note { id, title: format!("title {id}"), old_body: Dropped::new(), body: body.to_owned() }
    }
}

/// In rows of values, a column that was dropped is null, and nothing else.
fn values_stand_in_their_places(db: &Database, row: RowId) {
    let dynamic = db.dynamic_table("note").unwrap();
    let values = |id| [Value::Integer(id), Value::Text("t"), Value::Null, Value::Text("b")];
    let found = db.transaction(move |tx| {
        let made = tx.insert_values(&dynamic, &values(10_000))?;
        tx.read_values(&dynamic, made, |read| assert_eq!(read, values(10_000)))?;
        let not_null = [&values(10_001)[..2], &[Value::Text("x"), Value::Text("b")]].concat();
        assert!(tx.savepoint(|tx| tx.insert_values(&dynamic, &not_null)).is_err());
        tx.update_values(&dynamic, made, &values(10_002))?;
        tx.read_values(&dynamic, row, |read| format!("{read:?}"))
    });
    let expected = r#"[Integer(3), Text("title 3"), Null, Text("short")]"#;
    assert_eq!(found.as_deref(), Ok(expected));
}

#[test]
fn a_column_goes_beside_its_callers_and_its_name_is_free() {
    let place = tempfile::tempdir().unwrap();
    let on_disk = || open(place.path()).unwrap();
    for (is_disk, db) in [(false, builder().in_memory().unwrap()), (true, on_disk())] {
        let add = adding(&db);
        let notes = make_notes(&db, 2_000);
        let (by_id, by_title) = (db.index::<NoteKey>().unwrap(), db.index::<ByTitle>().unwrap());
        let dynamic = db.dynamic_table("note").unwrap();
        let row = db.transaction(move |tx| Ok(tx.lookup(&by_id, 3)?.unwrap())).unwrap();
        until_one_ends(0..3, |thread, over| {
            if thread > 0 {
                while !over.is_set() {
                    add.call(thread).unwrap();
                    // Until it is dropped; the values of rows that go meanwhile are freed once.
                    let _ = db.transaction(move |tx| {
                        let first = tx.range(&by_id, 100.., Order::Forward)?[thread as usize];
                        tx.delete(&notes, first)
                    });
                }
                return;
            }
            db.drop_column("note", "body").unwrap();
        });
        is_dropped(db.transaction(move |tx| tx.read_row(&notes, row).map(drop)));
        is_dropped(db.transaction(move |tx| tx.find(&by_title, "title 3").map(drop)));
        is_dropped(db.transaction(move |tx| tx.read_values(&dynamic, row, |_| ())));
        assert!(
            matches!(db.table::<Note>(), Err(Error::Schema(what)) if what.contains("a dropped one, text"))
        );
        let named = db.create_index::<ByTitle>();
        assert!(named.is_err(), "its table is another");
        let later = db.add_column::<later::Note>("body").unwrap();
        db.transaction(move |tx| {
            assert_eq!(tx.read_row(&later, row)?, later::note(3, ""));
            tx.update_row(&later, row, &later::note(3, "short"))?;
            tx.insert_row(&later, &later::note(9_999, "new")).map(drop)
        })
        .unwrap();
        values_stand_in_their_places(&db, row);
        if is_disk {
            db.checkpoint().unwrap();
            db.close().unwrap();
        }
    }
    for checkpoints in ["on", "off"] {
        let builder = builder().define::<later::Note>().set("checkpoints", checkpoints);
        let db = builder.open(place.path()).unwrap();
        let (later, by_id) =
            (db.table::<later::Note>().unwrap(), db.index::<later::NoteKey>().unwrap());
        let read = db.transaction(move |tx| {
            let found = [3, 9_999].map(|id| tx.find_row(&by_id, id));
            let found = found.map(|found| found.map(|found| found.map(|(_, note)| note)));
            let all = tx.rows(&later)?;
            Ok((found, all.len()))
        });
        let (found, rows) = read.unwrap();
        let [three, new] = found.map(|found| found.unwrap().unwrap());
        assert_eq!((three, new), (later::note(3, "short"), later::note(9_999, "new")));
        assert!(rows > 100, "{rows}");
    }
    // A program that declares it as it was is refused.
    let refused = builder().define::<Note>().open(place.path()).map(drop).unwrap_err();
    assert!(refused.to_string().contains("declare it as dropped"), "{refused}");
}

#[test]
fn what_is_not_dropped_says_why() {
    both(|db| {
        let reported = |refused: Result<(), Error>| match refused {
            Err(Error::Schema(what)) => what,
            other => panic!("{other:?}"),
        };
        assert!(reported(db.drop_table("nothing")).contains("no such table"));
        assert!(reported(db.drop_index("nothing")).contains("no such index"));
        assert!(reported(db.drop_index("counter_by_id")).contains("is the primary key of counter"));
        assert!(reported(db.drop_column("nothing", "id")).contains("no such table"));
        assert!(reported(db.drop_column("counter", "nothing")).contains("no such column"));
        assert!(
            reported(db.drop_column("counter", "value"))
                .contains("counter_by_value has it in its keys")
        );
        assert!(reported(db.drop_column("tombolo_request", "id")).contains("the database's own"));
        let last = TableDef {
            columns: TableDef::of::<Note>().columns,
            name: "last".into(),
            indexes: vec![],
        };
        db.create_table(last).unwrap();
        for (column, is_last) in [("title", false), ("id", false), ("body", true)] {
            match db.drop_column("last", column) {
                Ok(()) => assert!(!is_last),
                refused => {
                    assert!(reported(refused).contains("the table's last column") && is_last)
                }
            }
        }
        assert!(reported(db.drop_table("tombolo_request")).contains("the database's own"));
        assert!(reported(db.drop_index("tombolo_request_by_id")).contains("the database's own"));
        let counters = Counters::of(db);
        let (row, name) = (counters.clone(), "counter");
        db.transaction(move |tx| row.add(tx, 1)).unwrap();
        // A long read holds up a drop of a table, and none of an index.
        let (go, gate) = std::sync::mpsc::channel::<()>();
        let (reads, reading) = std::sync::mpsc::channel();
        let scan = db.scan(&counters.table, 0, move |rows, _| {
            reads.send(()).unwrap();
            let _ = gate.recv();
            *rows += 1;
        });
        reading.recv().unwrap();
        let dropped = on_each(0..2, |thread| {
            if thread == 1 {
                // Both wait behind the row that is being read.
                go.send(()).unwrap();
                return Ok(());
            }
            db.drop_index("counter_by_value")
        });
        assert_eq!((dropped, scan.unwrap().wait()), (vec![Ok(()); 2], Ok(1)));
        db.drop_table(name).unwrap();
        let column = tombolo::ColumnDef::of::<types::Text>("more");
        assert!(reported(db.add_dynamic_column(name, column)).contains("no such table"));
        let none = CallOptions::new().log_bytes_max(10);
        assert!(db.with(none).transaction(|_| Ok(())).is_ok());
    });
}

#[test]
fn a_drop_that_was_answered_survives_a_kill() {
    if let Some(directory) = std::env::var_os(CHILD) {
        let db = open(directory.as_ref()).unwrap();
        let first = db.schema().tables.len();
        for round in first.. {
            let columns = TableDef::of::<Note>().columns;
            let name = format!("round_{round}").into();
            db.create_table(TableDef { name, columns, indexes: Vec::new() }).unwrap();
            let table = db.dynamic_table(&format!("round_{round}")).unwrap();
            db.transaction(move |tx| {
                let body = "text ".repeat(100);
                for id in 0..40 {
                    let row = [Value::Integer(id), Value::Text("t"), Value::Text(&body)];
                    tx.insert_values(&table, &row)?;
                }
                Ok(())
            })
            .unwrap();
            let line = format!("made {round}\n");
            std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
            if round > first {
                db.drop_table(&format!("round_{}", round - 1)).unwrap();
                let line = format!("dropped {}\n", round - 1);
                std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
            }
            if round % 5 == 0 {
                db.checkpoint().unwrap();
            }
        }
    }
    let place = tempfile::tempdir().unwrap();
    for round in 1..=3 {
        let mut child = child("drops::a_drop_that_was_answered_survives_a_kill", place.path());
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let reported = |line: &str, what: &str| line.strip_prefix(what)?.parse::<usize>().ok();
        let mut seen: Vec<String> = lines.by_ref().take(10 + 17 * round).collect();
        child.kill().unwrap(); // SIGKILL
        child.wait().unwrap();
        seen.extend(lines);
        let last = |what| seen.iter().filter_map(|line| reported(line, what)).next_back();
        let (made, dropped) = (last("made ").unwrap(), last("dropped ").unwrap());
        let db = open(place.path()).unwrap();
        let schema = db.schema();
        assert!(schema.table(&format!("round_{made}")).is_some());
        assert_eq!(schema.table(&format!("round_{dropped}")), None);
        let mut rows = Vec::new();
        for (_, table) in schema.live_tables().filter(|(_, table)| table.name.starts_with("round"))
        {
            let table = db.dynamic_table(&table.name).unwrap();
            rows.push(db.transaction(move |tx| Ok(tx.rows(table.handle())?.len())).unwrap());
            // A table whose rows were not answered yet may have none; what was is whole.
        }
        assert!(rows.iter().all(|&rows| rows == 0 || rows == 40), "{rows:?}");
        assert!((1..=3).contains(&rows.len()), "{rows:?} of {seen:?}");
        // What is left of this process's tables goes: the next one begins with none.
        let left = schema.live_tables().filter(|(_, table)| table.name.starts_with("round"));
        left.for_each(|(_, table)| db.drop_table(&table.name).unwrap());
    }
}
