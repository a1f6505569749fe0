//! A store and the store its log describes are the same, whatever happened to the first.

use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use super::*;
use crate::disk::{Disk, MemDisk};
use crate::dynamic::DynamicTable;
use crate::error::Error;
use crate::key::Dynamic;
use crate::memory::test_random::Random;
use crate::profile::MemoryLogged;
use crate::row::{Fields, RowId, RowMut};
use crate::schema::{ColumnDef, IndexDef, IndexKind, column_offset};
use crate::store::Store;
use crate::sync::Arc;
use crate::types::SqlType;
use crate::value::Value;
use crate::value_log::record::RecordWriter;
use crate::value_log::{LogBuffer, LogSettings, LogWriter, RecoverOptions, recover};
use crate::value_log::{SchemaKind, definition};

type Logged = MemoryStore<MemoryLogged>;

fn column(name: &'static str, sql: SqlType, range: Option<(i64, i64)>) -> ColumnDef {
    ColumnDef {
        name: name.into(),
        sql,
        nullable: name == "state",
        range,
        hot: name == "state",
        added: false,
        default: None,
    }
}

/// Every form of index, two variable-length columns.
fn table(name: &'static str, indexes: [&'static str; 5]) -> TableDef {
    let index = |at: usize, columns: &[usize], unique, kind| IndexDef {
        name: indexes[at].into(),
        columns: columns.to_vec(),
        unique,
        kind,
    };
    TableDef {
        name: name.into(),
        columns: vec![
            column("id", SqlType::Integer, Some((0, 1_000_000))),
            column("state", SqlType::SmallInt, Some((-5, 5))),
            column("name", SqlType::Varchar(40), None),
            column("note", SqlType::Text, None),
            column("blob", SqlType::Bytes, None),
        ],
        indexes: vec![
            index(0, &[0], true, IndexKind::Tree),
            index(1, &[1, 0], true, IndexKind::Tree),
            index(2, &[1, 2], false, IndexKind::Tree),
            index(3, &[0], true, IndexKind::Hash),
            index(4, &[2, 0], true, IndexKind::Hash),
        ],
    }
}

pub(crate) fn tables() -> [TableDef; 3] {
    let plain = TableDef {
        name: "plain".into(),
        columns: vec![column("n", SqlType::BigInt, None)],
        indexes: vec![IndexDef {
            name: "plain_pk".into(),
            columns: vec![0],
            unique: true,
            kind: IndexKind::Tree,
        }],
    };
    [
        table("one", ["a1", "a2", "a3", "a4", "a5"]),
        plain,
        table("two", ["b1", "b2", "b3", "b4", "b5"]),
    ]
}

fn logged() -> Logged {
    let mut store = Logged::new(Limits::default());
    for table in tables() {
        store.create_table(table).unwrap();
    }
    store
}

/// All rows as text, with the slots they lie in.
pub(crate) fn rows<P: MemoryProfile>(store: &mut MemoryStore<P>) -> Vec<String> {
    let mut lines = Vec::new();
    for position in 0..store.schema().tables.len() {
        let table = DynamicTable::new(store.schema(), position);
        for row in table.row_ids(store).unwrap() {
            let text = table.read(store, row, |values| format!("{values:?}")).unwrap();
            lines.push(format!("{position} {}: {text}", row.location()));
        }
    }
    lines
}

fn replay(log: &[u8], parts: usize) -> Result<Logged, String> {
    let mut rebuilt = Vec::new();
    for part in 0..parts {
        let mut part = ReplayPart::new(part, parts, Limits::default());
        part.apply(log)?;
        rebuilt.push(part.finish()?);
    }
    // The order does not matter.
    rebuilt.reverse();
    Logged::from_replay(Limits::default(), rebuilt)
}

/// Random transactions through whole rows; some abort, some fail half-way.
fn work(store: &mut Logged, random: &mut Random, transactions: usize) {
    let handles: Vec<_> = (0..3).map(|at| DynamicTable::new(store.schema(), at)).collect();
    for _ in 0..transactions {
        store.begin().unwrap();
        store.begin_writes();
        for _ in 0..random.below(6) {
            let table = &handles[random.below(3) as usize];
            match random.below(4) {
                0 => change_unwinding(store, table, random),
                _ => change(store, table, random),
            }
        }
        if random.below(4) == 0 {
            store.abort().unwrap();
        } else {
            store.commit().unwrap();
        }
    }
}

/// One change of a random row, or none where it would be a duplicate.
pub(crate) fn change<P: MemoryProfile>(
    store: &mut MemoryStore<P>,
    table: &DynamicTable,
    random: &mut Random,
) {
    let mut text = |length| "tombolo ".repeat(1 + random.below(length) as usize / 8);
    let (name, note, blob) = (text(32), text(300), text(3_000));
    let id = random.below(300) as i64;
    let state = match random.below(11) as i64 - 5 {
        5 => Value::Null,
        state => Value::Integer(state),
    };
    let wide = [
        Value::Integer(id),
        state,
        Value::Text(&name),
        if id % 5 == 0 { Value::Text("") } else { Value::Text(&note) },
        Value::Bytes(blob.as_bytes()),
    ];
    let narrow = [Value::Integer(id - 150)];
    let is_narrow = table.columns()[0].sql == SqlType::BigInt;
    let base = if is_narrow { &narrow[..] } else { &wide[..] };
    let mut values = base.to_vec();
    for column in &table.columns()[base.len()..] {
        values.push(match column.sql {
            _ if column.nullable && random.below(3) == 0 => Value::Null,
            SqlType::Boolean => Value::Boolean(id % 2 == 0),
            SqlType::BigInt | SqlType::Integer => Value::Integer(id * 7),
            SqlType::Decimal { scale, .. } => Value::Decimal { units: i128::from(id) - 99, scale },
            SqlType::Bytes => Value::Bytes(note.as_bytes()),
            _ => Value::Text(&name),
        });
    }
    let dropped = table.columns().iter().zip(&mut values).filter(|(column, _)| column.is_dropped());
    dropped.for_each(|(_, value)| *value = Value::Null);
    let values = &values[..];
    let ids = table.row_ids(store).unwrap();
    let picked = (!ids.is_empty()).then(|| ids[random.below(ids.len() as u64) as usize]);
    let done = match (random.below(10), picked) {
        (0..=4, _) | (_, None) => table.insert(store, values).map(drop),
        (5..=7, Some(row)) => table.update(store, row, values),
        (_, Some(row)) => table.delete(store, row),
    };
    assert!(matches!(done, Ok(()) | Err(Error::Duplicate { .. })), "{done:?}");
}

/// A change of a row, or of one that is made, that panics when all of it is written. A caller that
/// catches the panic finds what was there before.
fn change_unwinding(store: &mut Logged, table: &DynamicTable, random: &mut Random) {
    let rows = table.row_ids(store).unwrap();
    let row = match rows.len() as u64 {
        0 => None,
        count => Some(rows[random.below(count) as usize]),
    };
    let row = row.filter(|_| random.below(2) == 0);
    let spoil = |row: &mut RowMut<'_, Dynamic>| {
        row.bytes_mut().fill(0xEE);
        resume_unwind(Box::new("in the middle of a row"));
    };
    let whole = Fields::whole(table.handle().row_size());
    let unwound = catch_unwind(AssertUnwindSafe(|| match row {
        Some(row) => store.update(table.handle(), row, whole, spoil),
        None => store.create(table.handle(), spoil).map(drop),
    }));
    assert!(unwound.is_err(), "{unwound:?}");
}

#[test]
fn a_replayed_store_is_the_same_store() {
    for seed in 0..40 {
        let mut random = Random::new(seed);
        let mut store = logged();
        let (mut log, mut buffer) = (Vec::new(), LogBuffer::new());
        for _ in 0..4 {
            work(&mut store, &mut random, 60);
            assert!(store.log_bytes() > 0);
            store.take_log(&mut buffer);
            log.extend_from_slice(buffer.as_slice());
            buffer.clear();
        }
        let expected = rows(&mut store);
        assert!(expected.len() > 40, "seed {seed}: {} rows", expected.len());
        for parts in 1..=4 {
            let mut again = replay(&log, parts).unwrap();
            assert_eq!(again.check(), [], "seed {seed}, {parts} parts");
            assert_eq!(again.schema(), store.schema());
            assert!(rows(&mut again) == expected, "seed {seed}, {parts} parts");
            // It can be worked on: free slots are free, values can be freed.
            work(&mut again, &mut random, 60);
            assert_eq!(again.check(), [], "seed {seed}, {parts} parts, later");
        }
        // Replayed twice over, it is the same.
        let mut part = ReplayPart::new(0, 1, Limits::default());
        part.apply(&log).unwrap();
        part.apply(&log).unwrap();
        let rebuilt = vec![part.finish().unwrap()];
        let mut twice = Logged::from_replay(Limits::default(), rebuilt).unwrap();
        assert_eq!(twice.check(), []);
        assert!(rows(&mut twice) == expected, "seed {seed}: replayed twice");
    }
}

/// The whole way: store, log, disk, recovery, store; and once more.
#[test]
fn a_store_comes_back_from_its_disk() {
    let settings = LogSettings { segment_bytes: 64 << 10, ..LogSettings::default() };
    let disk: Arc<dyn Disk> = Arc::new(MemDisk::new());
    let mut random = Random::new(3);
    let mut store = logged();
    let mut writer = LogWriter::create(Arc::clone(&disk), settings).unwrap();
    let mut buffer = LogBuffer::new();
    for round in 0..3 {
        for _ in 0..20 {
            work(&mut store, &mut random, 10);
            store.take_log(&mut buffer);
            let transactions = buffer.transactions();
            writer.append_group(&[buffer.as_slice()], transactions, None).unwrap();
            buffer.clear();
        }
        writer.sync().unwrap();
        let expected = rows(&mut store);
        drop(writer);
        let mut part = ReplayPart::new(0, 1, Limits::default());
        let options = RecoverOptions::default();
        let disk = Arc::clone(&disk);
        let found = recover(disk, settings, options, &mut part, &mut |_| {}).unwrap();
        let rebuilt = vec![part.finish().unwrap()];
        store = Logged::from_replay(Limits::default(), rebuilt).unwrap();
        assert_eq!(store.check(), [], "round {round}");
        assert!(rows(&mut store) == expected, "round {round}");
        assert_eq!(found.cut, None);
        writer = found.writer;
    }
}

#[test]
fn a_transaction_that_only_reads_or_aborts_logs_nothing() {
    let mut store = logged();
    let mut buffer = LogBuffer::new();
    store.take_log(&mut buffer);
    assert_eq!(buffer.transactions(), 3, "the tables");
    let table = DynamicTable::new(store.schema(), 1);
    store.begin().unwrap();
    store.rows(table.handle(), |_| ControlFlow::Continue(())).unwrap();
    store.commit().unwrap();
    store.begin().unwrap();
    store.begin_writes();
    table.insert(&mut store, &[Value::Integer(1)]).unwrap();
    store.abort().unwrap();
    assert_eq!(store.log_bytes(), 0);
}

/// The number of the write that is refused because its transaction logs too much, of rows that are made,
/// changed, get a long value and are deleted in turns.
fn refused_at<P: MemoryProfile>(store: &mut MemoryStore<P>, bytes_max: usize) -> usize {
    store.set_transaction_log_bytes_max(bytes_max);
    let table = DynamicTable::new(store.schema(), 0);
    store.begin().unwrap();
    store.begin_writes();
    let long = "long".repeat(50);
    let values = |n, text| {
        let name = Value::Text("here");
        [Value::Integer(n), Value::Null, name, Value::Text(text), Value::Bytes(b"")]
    };
    let refusal = Error::LogTooLong { bytes_max: bytes_max as u64 };
    let (mut writes, mut row) = (0, None);
    let refused = loop {
        let n = writes as i64;
        let written = match (writes % 4, row) {
            (1, Some(row)) => table.update(store, row, &values(n, &long)),
            (3, Some(row)) => table.delete(store, row),
            _ => table.insert(store, &values(n, "")).map(|made| row = Some(made)),
        };
        if let Err(error) = written {
            break error;
        }
        writes += 1;
        assert!(writes < 1_000, "nothing was refused");
    };
    assert_eq!((refused, store.commit()), (refusal, Err(refusal)));
    store.fail().unwrap();
    assert_eq!(table.row_ids(store).unwrap(), []);
    // The next one has all of it again.
    store.begin().unwrap();
    store.begin_writes();
    table.insert(store, &values(1, "")).unwrap();
    store.abort().unwrap();
    writes
}

#[test]
fn the_write_that_logs_too_much_is_refused_with_a_log_and_without() {
    for bytes_max in [1_000, 1_001, 1_010, 2_500, 20_000] {
        let (mut kept, mut dropped) = (logged(), logged());
        dropped.drop_log();
        let before = dropped.log_bytes();
        let writes = refused_at(&mut kept, bytes_max);
        assert!(writes > 4, "{writes}");
        assert_eq!(refused_at(&mut dropped, bytes_max), writes);
        // What commits is not kept either.
        let table = DynamicTable::new(dropped.schema(), 1);
        dropped.begin().unwrap();
        dropped.begin_writes();
        table.insert(&mut dropped, &[Value::Integer(1)]).unwrap();
        dropped.commit().unwrap();
        assert_eq!(dropped.log_bytes(), before);
    }
}

#[test]
fn a_poisoned_store_gives_out_whole_transactions_only() {
    let mut store = logged();
    let table = DynamicTable::new(store.schema(), 1);
    store.begin().unwrap();
    store.begin_writes();
    table.insert(&mut store, &[Value::Integer(1)]).unwrap();
    store.poison("for a test");
    let mut buffer = LogBuffer::new();
    store.take_log(&mut buffer);
    assert_eq!(buffer.transactions(), 3, "the tables");
    let mut again = replay(buffer.as_slice(), 1).unwrap();
    assert!(rows(&mut again).is_empty());
}

/// Eight bytes of three rows of 128 bytes: debit-credit.
#[test]
fn small_updates_log_little() {
    let mut store = Logged::new(Limits::default());
    let mut columns = vec![column("n", SqlType::BigInt, None)];
    columns.push(column("filler", SqlType::Char(120), None));
    store.create_table(TableDef { name: "t".into(), columns, indexes: Vec::new() }).unwrap();
    let table = DynamicTable::new(store.schema(), 0);
    store.begin().unwrap();
    store.begin_writes();
    let filler = " ".repeat(120);
    let values = [Value::Integer(1), Value::Text(&filler)];
    let ids: Vec<RowId> = (0..3).map(|_| table.insert(&mut store, &values).unwrap()).collect();
    store.commit().unwrap();
    let before = store.log_bytes();
    store.begin().unwrap();
    store.begin_writes();
    for row in ids {
        let fields = Fields::none().cover(0, 8);
        store.update(table.handle(), row, fields, |row| _ = row).unwrap();
    }
    store.commit().unwrap();
    assert_eq!(store.log_bytes() - before, 4 + 3 * 16);
}

/// Rows of two histories, for instance: no form of index accepts them as those of one.
#[test]
fn two_rows_with_one_key_are_refused_by_every_unique_index() {
    for sql in [SqlType::Integer, SqlType::Varchar(9), SqlType::Uuid] {
        for kind in [IndexKind::Tree, IndexKind::Hash] {
            let mut store = Logged::new(Limits::default());
            let by_key = IndexDef { name: "by_key".into(), columns: vec![0], unique: true, kind };
            let columns = vec![column("key", sql, None)];
            let table = TableDef { name: "t".into(), columns, indexes: vec![by_key] };
            let bytes = table.row_size();
            store.create_table(table).unwrap();
            let mut buffer = LogBuffer::new();
            store.take_log(&mut buffer);
            let of_rows = |second: u8| {
                let mut writer = RecordWriter::default();
                let mut row = vec![1; bytes];
                writer.inserted(0, 3, &row);
                row[bytes - 1] = second;
                row[0] = if bytes == 10 { second } else { 1 }; // a length
                writer.inserted(0, 7, &row);
                writer.commit();
                let mut more = LogBuffer::new();
                writer.take(&mut more);
                replay(&[buffer.as_slice(), more.as_slice()].concat(), 1).map(drop)
            };
            let refused = of_rows(1).unwrap_err();
            assert!(refused.contains("has the key"), "{sql:?} {kind:?}: {refused}");
            assert_eq!(of_rows(2), Ok(()), "{sql:?} {kind:?}");
        }
    }
}

/// What an earlier build logged of a table that it made.
fn created(position: u32, bytes: &[u8]) -> SchemaRecord<'_> {
    let kind = SchemaKind::TableCreated;
    SchemaRecord { number: None, kind, table: 0, position: Some(position), bytes }
}

#[test]
fn records_that_fit_no_table_are_refused() {
    let mut store = logged();
    let mut buffer = LogBuffer::new();
    store.take_log(&mut buffer);
    let tables = buffer.as_slice().to_vec();
    let refused = |change: &mut dyn FnMut(&mut RecordWriter)| {
        let mut writer = RecordWriter::default();
        change(&mut writer);
        writer.commit();
        let mut buffer = LogBuffer::new();
        writer.take(&mut buffer);
        replay(&[&tables[..], buffer.as_slice()].concat(), 1).map(drop).unwrap_err()
    };
    for (what, error) in [
        ("not created", refused(&mut |log| log.deleted(9, 0))),
        ("never inserted", refused(&mut |log| log.updated(0, 0, 0, b"x"))),
        ("a row of 3 bytes", refused(&mut |log| log.inserted(1, 0, b"abc"))),
        ("no variable-length", refused(&mut |log| log.value_set(1, 0, 0, b"x"))),
        ("cannot be read", {
            let unread = SchemaRecord { number: Some(3), ..created(3, b"x") };
            refused(&mut |log| log.schema_changed(&unread))
        }),
        ("change number 9", {
            let later = SchemaRecord { number: Some(9), ..created(3, b"x") };
            refused(&mut |log| log.schema_changed(&later))
        }),
        ("table 9, which is not there", {
            let kind = SchemaKind::TableDropped;
            let gone = SchemaRecord { number: Some(3), kind, table: 9, position: None, bytes: b"" };
            refused(&mut |log| log.schema_changed(&gone))
        }),
        ("column 9 of table 0 was dropped", {
            let kind = SchemaKind::ColumnDropped;
            let gone = SchemaRecord { number: Some(3), kind, ..created(9, b"") };
            refused(&mut |log| log.schema_changed(&gone))
        }),
        ("index `c9` was dropped and is not there", {
            let kind = SchemaKind::IndexDropped;
            let gone = SchemaRecord { number: Some(3), kind, ..created(0, b"c9") };
            refused(&mut |log| log.schema_changed(&gone))
        }),
        ("slot 4294967295", refused(&mut |log| log.inserted(1, u32::MAX, &[0; 8]))),
        ("has the key", refused(&mut |log| (0..2).for_each(|row| log.inserted(1, row, &[7; 8])))),
        (
            "not all in the row",
            refused(&mut |log| {
                log.inserted(1, 0, &[0; 8]);
                log.updated(1, 0, 4, &[0; 8]);
            }),
        ),
    ] {
        assert!(error.contains(what), "{what}: {error}");
    }
    assert!(replay(&[1, 2, 3], 1).unwrap_err().contains("byte 0"));
}

/// Rows name tables and columns by where they are. A medium that loses a definition with the catalogue
/// that knew it, too, leaves a log whose next one must not take its place.
#[test]
fn a_definition_that_takes_the_place_of_a_lost_one_is_refused() {
    let [one, plain, _] = tables();
    let (first, second) =
        (column("first", SqlType::Integer, None), column("second", SqlType::BigInt, None));
    let of = |records: &[&dyn Fn(&mut RecordWriter)]| {
        let mut writer = RecordWriter::default();
        for record in records {
            record(&mut writer);
            writer.commit();
        }
        let mut buffer = LogBuffer::new();
        writer.take(&mut buffer);
        replay(buffer.as_slice(), 1).map(drop)
    };
    let (one, plain) = (definition::encode(&one), definition::encode(&plain));
    let create_one = |log: &mut RecordWriter| log.schema_changed(&created(0, &one));
    let create_plain = |log: &mut RecordWriter| log.schema_changed(&created(1, &plain));
    assert_eq!(of(&[&create_one, &create_plain, &create_one, &create_plain]), Ok(()));
    let refused = of(&[&create_plain]).unwrap_err();
    assert!(refused.contains("`plain` was made as number 1 and would be number 0"), "{refused}");

    let [at_1, at_2] = [(1, &first), (2, &second)].map(|(position, column)| {
        let bytes = definition::encode_column(&column.clone().added());
        move |log: &mut RecordWriter| {
            let kind = SchemaKind::ColumnAdded;
            log.schema_changed(&SchemaRecord { kind, table: 1, ..created(position, &bytes) });
        }
    });
    let tables: [&dyn Fn(&mut RecordWriter); 2] = [&create_one, &create_plain];
    assert_eq!(of(&[tables[0], tables[1], &at_1, &at_2, &at_1, &at_2]), Ok(()));
    let refused = of(&[tables[0], tables[1], &at_2]).unwrap_err();
    assert!(refused.contains("`second` was made as number 2 and would be number 1"), "{refused}");
}

/// A bound on what one transaction may still log does not hold for the next one.
fn the_rest_is_bounded<P: MemoryProfile>(mut store: MemoryStore<P>) {
    let table = DynamicTable::new(store.schema(), 1);
    store.set_transaction_log_bytes_max(1_000);
    for rest in [Some(40), Some(100), None] {
        store.begin().unwrap();
        store.begin_writes();
        let row = table.insert(&mut store, &[Value::Integer(1)]).unwrap();
        if rest.is_some() {
            store.set_rest_log_bytes_max(Some(10_000));
            store.set_rest_log_bytes_max(rest);
        }
        let written =
            (0..1_000).take_while(|n| table.update(&mut store, row, &[Value::Integer(*n)]).is_ok());
        let written = written.count();
        let expected = rest.map_or(30..100, |rest| rest / 20..rest / 5);
        assert!(expected.contains(&written), "{rest:?}: {written} writes");
        store.abort().unwrap();
        store.set_rest_log_bytes_max(None);
    }
}

#[test]
fn a_bound_on_the_rest_ends_with_its_transaction() {
    the_rest_is_bounded(logged());
    let mut dropped = logged();
    dropped.drop_log();
    the_rest_is_bounded(dropped);
}

/// Rows that an index does not fit are given out without it; the other indexes, of all tables, are there.
#[test]
fn rows_that_fit_no_index_are_given_out() {
    let values = |id: i64, name| {
        let (null, state) = (Value::Text("note"), Value::Integer(1));
        [Value::Integer(id), state, Value::Text(name), null, Value::Bytes(b"")]
    };
    for (parts, is_duplicate) in [(1, true), (2, true), (1, false), (3, false)] {
        let mut store = logged();
        let (one, two) =
            (DynamicTable::new(store.schema(), 0), DynamicTable::new(store.schema(), 2));
        store.begin().unwrap();
        store.begin_writes();
        for id in 0..5 {
            one.insert(&mut store, &values(id, "one")).unwrap();
            two.insert(&mut store, &values(id, "two")).unwrap();
        }
        store.commit().unwrap();
        let mut log = LogBuffer::default();
        store.take_log(&mut log);
        // As a procedure that forgets its entries: the fourth row has the third one's key, or none.
        let column = &store.schema().tables[0].columns;
        let (offset, id) = (column_offset(column, 0), if is_duplicate { 2_i32 } else { 1_000_001 });
        let mut writer = RecordWriter::default();
        writer.updated(0, 3, offset, &id.to_le_bytes());
        writer.commit_as(0);
        let mut wrong = LogBuffer::default();
        writer.take(&mut wrong);
        let opened = |without: bool| {
            let rebuilt = (0..parts).map(|part| {
                let mut part = ReplayPart::new(part, parts, Limits::default());
                part.apply(log.as_slice())?;
                part.apply(wrong.as_slice())?;
                if without {
                    part.leave_out_unfit_indexes();
                }
                part.finish()
            });
            Logged::from_replay(Limits::default(), rebuilt.collect::<Result<_, _>>()?)
        };
        let refused = opened(false).unwrap_err();
        let what = if is_duplicate { "slot 2" } else { "ranges" };
        assert!(refused.contains("index a1: ") && refused.contains(what), "{refused}");
        assert!(refused.contains("open without unfit indexes"), "{refused}");
        let mut store = opened(true).unwrap();
        let left_out: Vec<_> = store.left_out().iter().map(|(name, _)| name.as_str()).collect();
        let unfit: &[_] =
            if is_duplicate { &["a5", "a4", "a2", "a1"] } else { &["a5", "a4", "a3", "a2", "a1"] };
        assert!(left_out.iter().all(|name| unfit.contains(name)), "{left_out:?}");
        assert!(left_out.contains(&"a1"), "{left_out:?}");
        assert_eq!(store.schema().indexes(), 11 - left_out.len());
        assert_eq!((rows(&mut store).len(), store.check()), (10, vec![]));
        let again = tables()[0].indexes[0].clone();
        assert!(store.begin_index("one", again).unwrap_err().to_string().contains("left out"));
        // Its row is changed until it fits, and the log leads to a store with all indexes.
        let one = DynamicTable::new(store.schema(), 0);
        store.begin().unwrap();
        store.begin_writes();
        one.update(&mut store, RowId::new(3), &values(7, "one")).unwrap();
        store.commit().unwrap();
        let mut right = LogBuffer::default();
        store.take_log(&mut right);
        let mut part = ReplayPart::new(0, 1, Limits::default());
        for log in [&log, &wrong, &right] {
            part.apply(log.as_slice()).unwrap();
        }
        let rebuilt = vec![part.finish().unwrap()];
        let mut store = Logged::from_replay(Limits::default(), rebuilt).unwrap();
        assert_eq!(
            (store.left_out().len(), store.schema().indexes(), store.check()),
            (0, 11, vec![])
        );
    }
}
