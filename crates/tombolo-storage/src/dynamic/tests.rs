//! Values of every type at their extremes, written in one way and read in the other.

use super::*;
use crate::memory::{Limits, MemoryStore};
use crate::profile::Memory;
use crate::row::RowBytes as _;
use crate::schema::TableDef;
use crate::store::{resolve_index, resolve_table};

crate::table! {
    /// A column of every type; those that procedures can set null are nullable.
    struct Everything = "everything" {
        ID: Integer;
        FLAG: Nullable<Boolean>;
        SMALL: Nullable<SmallInt> => hot;
        WIDE: Nullable<BigInt>;
        RATE: Nullable<Decimal<2, 1>>;
        PRICE: Nullable<Decimal<18, 2>> => hot;
        RATIO: Nullable<Double>;
        CODE: Nullable<Char<3>>;
        NAME: Nullable<Varchar<4>>;
        STORY: Nullable<Varchar<300>>;
        DAY: Nullable<Date>;
        MOMENT: Nullable<Timestamp> => hot;
        TOKEN: Nullable<Uuid>;
        NOTE: Text;
        RAW: Bytes;
    }
}
crate::index! { struct ById = "by_id" on Everything (ID: Integer) unique Tree; }
crate::index! { struct ByNote = "by_note" on Everything (NOTE: Text) multiple Tree; }

fn store() -> (MemoryStore<Memory>, DynamicTable) {
    let mut store = MemoryStore::new(Limits { structure_bytes_max: 16 << 20, ..Limits::default() });
    store.create_table(TableDef::of::<Everything>().with::<ById>().with::<ByNote>()).unwrap();
    let table = DynamicTable::new(store.schema(), 0);
    store.begin().unwrap();
    store.begin_writes();
    (store, table)
}

/// The lowest, the highest and a plain value of each column; then nulls. `story` has 300 bytes.
fn extremes(story: &str) -> [Vec<Value<'_>>; 4] {
    let decimal = |units, scale| Value::Decimal { units, scale };
    let most = 10i128.pow(18) - 1;
    [
        vec![
            Value::Integer(i32::MIN as i64),
            Value::Boolean(false),
            Value::Integer(i16::MIN as i64),
            Value::Integer(i64::MIN),
            decimal(-99, 1),
            decimal(-most, 2),
            Value::Double(f64::NEG_INFINITY),
            Value::Text("\0\0\0"),
            Value::Text(""),
            Value::Text(""),
            Value::Date(i32::MIN),
            Value::Timestamp(i64::MIN),
            Value::Uuid([0; 16]),
            Value::Text(""),
            Value::Bytes(b""),
        ],
        vec![
            Value::Integer(i32::MAX as i64),
            Value::Boolean(true),
            Value::Integer(i16::MAX as i64),
            Value::Integer(i64::MAX),
            decimal(99, 1),
            decimal(most, 2),
            Value::Double(f64::MAX),
            Value::Text("zzz"),
            Value::Text("\u{10ffff}"),
            Value::Text(story),
            Value::Date(i32::MAX),
            Value::Timestamp(i64::MAX),
            Value::Uuid([255; 16]),
            Value::Text(story),
            Value::Bytes(&[255; 70]),
        ],
        vec![
            Value::Integer(-1),
            Value::Boolean(true),
            Value::Integer(-1),
            Value::Integer(-1),
            decimal(-1, 1),
            decimal(-1, 2),
            Value::Double(-0.0),
            Value::Text("é "),
            Value::Text("a\0b"),
            Value::Text("a"),
            Value::Date(-1),
            Value::Timestamp(-1),
            Value::Uuid([7; 16]),
            Value::Text("note"),
            Value::Bytes(&[0, 1]),
        ],
        std::iter::once(Value::Integer(0))
            .chain([Value::Null; 12])
            .chain([Value::Text(""), Value::Bytes(b"")])
            .collect(),
    ]
}

#[test]
fn what_is_written_by_name_is_read_by_type_and_back() {
    let (mut store, table) = store();
    let typed = resolve_table::<Everything>(store.schema()).unwrap();
    let by_id = resolve_index::<ById>(store.schema()).unwrap();
    for values in extremes(&"s".repeat(300)) {
        let id = table.insert(&mut store, &values).unwrap();
        let Value::Integer(number) = values[0] else { panic!("an integer is expected") };
        assert_eq!(store.lookup(&by_id, number as i32), Ok(Some(id)));
        assert_reads(&store, &typed, id, &values);

        // The same values written by type read the same by name.
        let copy = copy_typed(&mut store, &typed, id);
        let read = table.read(&store, copy, |read| assert_eq!(read, values));
        assert_eq!(read, Ok(()));
        let bits = |id| table.read(&store, id, |read| format!("{read:?}")).unwrap();
        assert_eq!(bits(id), bits(copy));
        store.delete(&typed, copy).unwrap();
    }
    store.commit().unwrap();
    assert_eq!(store.check(), []);
}

/// The row's columns, each taken by its type, are `expected`.
fn assert_reads(
    store: &MemoryStore<Memory>,
    table: &Table<Everything>,
    id: RowId,
    expected: &[Value<'_>],
) {
    let row = store.pin(table, id).unwrap();
    let text = |bytes| Value::Text(std::str::from_utf8(bytes).unwrap());
    let decimal = |units: i64, scale| Value::Decimal { units: units as i128, scale };
    let or_null = |value: Option<_>| value.unwrap_or(Value::Null);
    let read = [
        Value::Integer(row.get(Everything::ID) as i64),
        or_null(row.get(Everything::FLAG).map(Value::Boolean)),
        or_null(row.get(Everything::SMALL).map(|value| Value::Integer(value as i64))),
        or_null(row.get(Everything::WIDE).map(Value::Integer)),
        or_null(row.get(Everything::RATE).map(|units| decimal(units, 1))),
        or_null(row.get(Everything::PRICE).map(|units| decimal(units, 2))),
        or_null(row.get(Everything::RATIO).map(Value::Double)),
        or_null(row.get(Everything::CODE).map(text)),
        or_null(row.get(Everything::NAME).map(text)),
        or_null(row.get(Everything::STORY).map(text)),
        or_null(row.get(Everything::DAY).map(Value::Date)),
        or_null(row.get(Everything::MOMENT).map(Value::Timestamp)),
        or_null(row.get(Everything::TOKEN).map(Value::Uuid)),
        text(row.get(Everything::NOTE)),
        Value::Bytes(row.get(Everything::RAW)),
    ];
    assert_eq!(read, expected);
}

/// A row with the values of another, each taken and written by its type.
fn copy_typed(store: &mut MemoryStore<Memory>, table: &Table<Everything>, id: RowId) -> RowId {
    let copy = store.create(table, |_| {}).unwrap();
    let (note, raw) = {
        let row = store.pin(table, id).unwrap();
        (row.get(Everything::NOTE).to_vec(), row.get(Everything::RAW).to_vec())
    };
    macro_rules! copy {
        ($($column:ident)+) => {$({
            let mut bytes = store.pin(table, id).unwrap().pin().fixed().to_vec();
            let source = RowMut::new(&mut bytes, Fields::none());
            let value = source.get(Everything::$column);
            let fields = Fields::none().with(Everything::$column);
            store.update(table, copy, fields, |row| row.set(Everything::$column, value)).unwrap();
        })+};
    }
    copy!(ID FLAG SMALL WIDE RATE PRICE RATIO CODE NAME STORY DAY MOMENT TOKEN);
    store.set_variable(table, copy, Everything::NOTE.offset(), &note).unwrap();
    store.set_variable(table, copy, Everything::RAW.offset(), &raw).unwrap();
    copy
}

#[test]
fn values_a_column_does_not_admit_are_refused_before_any_change() {
    let (mut store, table) = store();
    let [_, _, plain, _] = extremes("");
    let id = table.insert(&mut store, &plain).unwrap();
    let decimal = |units, scale| Value::Decimal { units, scale };
    let long = "x".repeat(TEXT_BYTES_MAX + 1);
    let long_key = "x".repeat(KEY_BYTES_MAX - 1);
    let out_of_range = [
        (0, Value::Integer(i32::MAX as i64 + 1)),
        (2, Value::Integer(i16::MIN as i64 - 1)),
        (4, decimal(100, 1)),
        (4, decimal(i128::MIN, 1)),
        (5, decimal(-(10i128.pow(18)), 2)),
        (7, Value::Text("four")),
        (8, Value::Text("ééx")),
        (13, Value::Text(&long_key)),
        (13, Value::Text(&long)),
        (14, Value::Bytes(long.as_bytes())),
    ];
    let wrong_type = [
        (0, Value::Null),
        (1, Value::Integer(1)),
        (2, Value::Boolean(true)),
        (4, decimal(1, 0)),
        (6, Value::Integer(1)),
        (7, Value::Bytes(b"abc")),
        (10, Value::Timestamp(0)),
        (11, Value::Date(0)),
        (13, Value::Bytes(b"")),
        (14, Value::Text("")),
        (14, Value::Null),
    ];
    let range = |&(column, value): &(usize, _)| {
        (column, value, Error::OutOfRange { table: 0, column: column as u32 })
    };
    let kind = |&(column, value): &(usize, _)| {
        (column, value, Error::WrongType { table: 0, column: column as u32 })
    };
    let refused = out_of_range.iter().map(range).chain(wrong_type.iter().map(kind));
    for (column, value, error) in refused {
        let mut values = plain.clone();
        values[0] = Value::Integer(77);
        values[column] = value;
        assert_eq!(table.insert(&mut store, &values), Err(error), "{column}");
        assert_eq!(table.update(&mut store, id, &values), Err(error), "{column}");
    }
    assert_eq!(
        table.insert(&mut store, &plain[1..]),
        Err(Error::WrongType { table: 0, column: 14 })
    );
    assert_eq!(table.row_ids(&mut store), Ok(vec![id]));
    assert_eq!(table.read(&store, id, |values| assert_eq!(values, plain)), Ok(()));
    store.commit().unwrap();
    assert_eq!(store.check(), []);
}

#[test]
fn the_longest_values_are_kept() {
    let (mut store, table) = store();
    let [_, _, mut values, _] = extremes("");
    let (raw, note) = (vec![255; TEXT_BYTES_MAX], "x".repeat(KEY_BYTES_MAX - 2));
    values[13] = Value::Text(&note);
    values[14] = Value::Bytes(&raw);
    let id = table.insert(&mut store, &values).unwrap();
    assert_eq!(table.read(&store, id, |read| assert_eq!(read, values)), Ok(()));
    store.commit().unwrap();
    assert_eq!(store.check(), []);
}

#[test]
fn rows_written_by_type_are_verified_and_entered() {
    let (mut store, table) = store();
    let typed = resolve_table::<Everything>(store.schema()).unwrap();
    let by_id = resolve_index::<ById>(store.schema()).unwrap();
    let row = store.create(&typed, |row| row.set(Everything::ID, 7)).unwrap();
    assert_eq!(store.lookup(&by_id, 7), Ok(None));
    table.enter(&mut store, row).unwrap();
    assert_eq!(store.lookup(&by_id, 7), Ok(Some(row)));
    // An entry moves only where its key has changed.
    let id = Fields::none().with(Everything::ID);
    let change = |store: &mut MemoryStore<Memory>| {
        store.update(&typed, row, id, |row| row.set(Everything::ID, 8))
    };
    table.change(&mut store, row, id.start()..id.end(), change).unwrap();
    assert_eq!([store.lookup(&by_id, 7), store.lookup(&by_id, 8)], [Ok(None), Ok(Some(row))]);
    // Bytes that are no text are refused.
    let name = Fields::none().with(Everything::NAME);
    let spoil = |store: &mut MemoryStore<Memory>| {
        store.update(&typed, row, name, |row| {
            row.set(Everything::NAME, Some(b"abcd"));
            let at = Everything::NAME.offset() - name.start() + 1;
            row.bytes_mut()[at] = 0xff;
        })
    };
    let refused = table.change(&mut store, row, name.start()..name.end(), spoil);
    assert_eq!(refused, Err(Error::WrongType { table: 0, column: 8 }));
    store.abort().unwrap();
    let gone = table.change(&mut store, row, 0..1, |_| panic!("nothing to change"));
    assert_eq!(gone, Err(Error::NoSuchRow { table: 0 }));
    assert_eq!(store.check(), []);
}

#[test]
fn what_a_change_has_to_follow_is_known_by_its_bytes() {
    crate::table! {
        struct Tall = "tall" {
            ID: Integer;
            A: BigInt;
            B: Nullable<BigInt>;
            LINE: Varchar<200>;
            C: BigInt;
            D: SmallInt [1..=9];
            E: Double;
        }
    }
    crate::index! { struct TallById = "tall_by_id" on Tall (ID: Integer, C: BigInt) unique Tree; }
    let tall = TableDef::of::<Tall>().with::<TallById>();
    let everything = TableDef::of::<Everything>().with::<ById>().with::<ByNote>();
    for def in [tall, everything] {
        let mut schema = Schema::default();
        schema.add(def).unwrap();
        let table = DynamicTable::new(&schema, 0);
        let size = table.table.row_size();
        assert!(!table.follows(0, 0) && !table.follows(size, size), "no column");
        assert!(table.follows(0, size) && table.follows(0, 1 << 20), "all columns, and more");
        let mut followed = 0;
        for start in 0..size {
            for end in start + 1..=size {
                let touched = |place: &&Place| place.lies_in(&(start..end));
                let must = |place: &Place| place.is_in_key || !place.admits_all;
                let is_due = table.places.iter().filter(touched).any(must);
                assert_eq!(table.follows(start, end), is_due, "{start}..{end}");
                followed += usize::from(is_due);
            }
        }
        assert!(followed > 0 && followed < size * (size + 1) / 2);
    }
}
