//! What a database refuses, by its kind: the same in memory and in a directory, and nothing is changed.

use std::time::Duration;

use tombolo::{CallOptions, ColumnDef, Database, Edge, Error, IndexDef, IndexKind, Order, Outcome};
use tombolo::{Range, RowId, Stop, StoreError, Table, TableDef, Tx, Value, types};

use super::{Counter, Counters, definition};

#[derive(Table, Clone)]
#[index(ByCode(code), unique, hash)]
#[index(ByRank(rank, id))]
struct Item {
    #[key]
    id: u16,
    #[column(range = 0..=99)]
    rank: i32,
    code: i64,
    #[column(sql = Decimal<4, 2>)]
    price: i64,
    note: String,
}

fn item(id: u16) -> Item {
    Item { id, rank: 5, code: i64::from(id), price: 9_99, note: String::new() }
}

/// A call that is refused, and what is said of it.
type Case = (&'static str, fn(&Database) -> Error, fn(&Error) -> bool);

/// The error of a transaction that is refused.
fn refused<A: Send + 'static>(
    db: &Database,
    closure: impl FnOnce(&mut Tx<'_>) -> Result<A, Stop> + Send + 'static,
) -> Error {
    db.transaction(closure).map(drop).unwrap_err()
}

/// What is refused with items: the table, and an item that is there.
fn with_item<A: Send + 'static>(
    db: &Database,
    closure: impl FnOnce(&mut Tx<'_>, Table<Item>, RowId) -> Result<A, Stop> + Send + 'static,
) -> Error {
    let (items, by_id) = (db.table::<Item>().unwrap(), db.index::<ItemKey>().unwrap());
    refused(db, move |tx| {
        let row = tx.lookup(&by_id, 1)?.unwrap();
        closure(tx, items, row)
    })
}

fn store_error(error: &Error) -> Option<StoreError> {
    match error {
        Error::Refused(error) | Error::RefusedAt { error, .. } => Some(*error),
        _ => None,
    }
}

fn is_out_of_range(error: &Error, of: &str) -> bool {
    matches!(error, Error::RefusedAt { place, error: StoreError::OutOfRange { .. } } if place == of)
}

fn writes(db: &Database, with: CallOptions) -> Error {
    let items = db.table::<Item>().unwrap();
    let many = db.with(with).transaction(move |tx| {
        (10..2_000).try_for_each(|id| tx.insert_row(&items, &item(id)).map(drop))
    });
    many.unwrap_err()
}

static TRANSACTIONS: &[Case] = &[
    (
        "an abort",
        |db| refused(db, |_| Err::<(), _>(Stop::Abort("no"))),
        |e| *e == Error::Aborted("no"),
    ),
    (
        "an error of the application's own",
        |db| refused(db, |_| Ok("x".parse::<u8>()?)),
        |e| e.own::<std::num::ParseIntError>().is_some(),
    ),
    (
        "a panic",
        |db| refused(db, |_| -> Result<(), Stop> { panic!("as asked") }),
        |e| *e == Error::Panicked("as asked".into()),
    ),
    (
        "a key that is there",
        |db| with_item(db, |tx, items, _| tx.insert_row(&items, &item(1))),
        |e| *e == Error::Duplicate { index: "item_key".to_owned() },
    ),
    (
        "a key that is there in a hash index",
        |db| with_item(db, |tx, items, _| tx.insert_row(&items, &Item { code: 1, ..item(2) })),
        |e| *e == Error::Duplicate { index: "item_by_code".to_owned() },
    ),
    (
        "a value outside its declared range",
        |db| with_item(db, |tx, items, row| tx.set(&items, row, Item::RANK, 100)),
        |e| is_out_of_range(e, "item.rank"),
    ),
    (
        "a decimal with too many digits",
        |db| with_item(db, |tx, items, row| tx.set(&items, row, Item::PRICE, 10_000)),
        |e| is_out_of_range(e, "item.price"),
    ),
    (
        "a text that is too long",
        |db| {
            let large = db.with(CallOptions::new().log_bytes_max(4 << 20));
            let items = db.table::<Item>().unwrap();
            let note = "n".repeat((1 << 20) + 1);
            large
                .transaction(move |tx| tx.insert_row(&items, &Item { note, ..item(3) }))
                .unwrap_err()
        },
        |e| is_out_of_range(e, "item.note"),
    ),
    (
        "a row that was deleted, read",
        |db| {
            with_item(db, |tx, items, row| {
                tx.delete(&items, row).and_then(|()| tx.read_row(&items, row).map(drop))
            })
        },
        |e| matches!(store_error(e), Some(StoreError::NoSuchRow { .. })),
    ),
    (
        "a row that was deleted, changed",
        |db| {
            with_item(db, |tx, items, row| {
                tx.delete(&items, row)?;
                let same = tx.insert_row(&items, &item(1))?;
                assert_ne!(same, row);
                tx.set(&items, row, Item::RANK, 1)
            })
        },
        |e| matches!(store_error(e), Some(StoreError::NoSuchRow { .. })),
    ),
    (
        "a row of another table",
        |db| {
            let counters = Counters::of(db);
            with_item(db, move |tx, _, row| tx.set(&counters.table, row, Counter::VALUE, 1))
        },
        |e| matches!(store_error(e), Some(StoreError::NoSuchRow { .. })),
    ),
    (
        "a handle of another database",
        |db| {
            let other = Database::builder().define::<Item>().in_memory().unwrap();
            let items = other.table::<Item>().unwrap();
            refused(db, move |tx| tx.insert_row(&items, &item(7)))
        },
        |e| *e == Error::Refused(StoreError::OtherDatabase),
    ),
    (
        "a handle of a table that was dropped",
        |db| {
            let columns = TableDef::of::<Item>().columns;
            let table = TableDef { name: "other".into(), columns, indexes: Vec::new() };
            db.create_table(table).unwrap();
            let other = db.dynamic_table("other").unwrap();
            db.drop_table("other").unwrap();
            refused(db, move |tx| tx.count(other.handle()))
        },
        |e| *e == Error::Refused(StoreError::Dropped),
    ),
    (
        "a scan of a hash index",
        |db| {
            let by_code = db.index::<ByCode>().unwrap();
            refused(db, move |tx| tx.range(&by_code, .., Order::Forward))
        },
        |e| matches!(e, Error::RefusedAt { place, error: StoreError::Unordered { .. } } if place == "item_by_code"),
    ),
    (
        "a range of no column",
        |db| {
            let by_rank = db.index::<ByRank>().unwrap();
            let range = Range { lower: Edge::Before((1, 1), 0), upper: Edge::Open };
            refused(db, move |tx| tx.iter(&by_rank, range, Order::Forward).map(drop))
        },
        |e| matches!(store_error(e), Some(StoreError::KeyColumns { columns: 2, .. })),
    ),
    (
        "a value of another type than its column",
        |db| {
            let items = db.dynamic_table("item").unwrap();
            refused(db, move |tx| tx.insert_values(&items, &[Value::Text("one")]))
        },
        |e| matches!(store_error(e), Some(StoreError::WrongType { .. })),
    ),
    (
        "a write of a call that was to read only",
        |db| writes(db, CallOptions::new().read_only()),
        |e| *e == Error::LogTooLong { log_bytes_max: 0 },
    ),
    (
        "more writes than a call may",
        |db| writes(db, CallOptions::new()),
        |e| *e == Error::LogTooLong { log_bytes_max: 64 << 10 },
    ),
    (
        "more than any call may",
        |db| writes(db, CallOptions::new().log_bytes_max(1 << 40)),
        |e| matches!(e, Error::TooLarge { .. }),
    ),
    (
        "a call whose time is over",
        |db| {
            let none = db.with(CallOptions::new().within(Duration::ZERO));
            none.transaction(|_| Ok(())).unwrap_err()
        },
        |e| matches!(e, Error::Expired | Error::TimedOut),
    ),
    (
        "a request id that was used",
        |db| {
            db.once(9).transaction(|_| Ok(())).unwrap();
            db.once(9).transaction(|_| Ok(())).unwrap_err()
        },
        |e| *e == Error::Repeated(Outcome::Committed),
    ),
];

static DEFINITIONS: &[Case] = &[
    (
        "a table that is there",
        |db| db.create_table(TableDef::of::<Item>()).unwrap_err(),
        |e| matches!(e, Error::Schema(_)),
    ),
    (
        "a table of the database's own",
        |db| {
            db.create_table(TableDef { name: "tombolo_own".into(), ..TableDef::of::<Item>() })
                .unwrap_err()
        },
        |e| matches!(e, Error::Schema(what) if what.contains("own")),
    ),
    (
        "a table that is not there",
        |db| db.dynamic_table("nothing").map(drop).unwrap_err(),
        |e| matches!(e, Error::Schema(_)),
    ),
    (
        "an index of a column that is not there",
        |db| {
            let of = IndexDef {
                name: "item_by_ninth".into(),
                columns: vec![9],
                unique: false,
                kind: IndexKind::Tree,
            };
            db.create_dynamic_index("item", of).unwrap_err()
        },
        |e| matches!(e, Error::Schema(_)),
    ),
    (
        "a column that is there as another",
        |db| db.add_dynamic_column("item", ColumnDef::of::<types::Text>("rank")).unwrap_err(),
        |e| matches!(e, Error::Schema(what) if what.contains("already exists")),
    ),
    (
        "a table to drop that is not there",
        |db| db.drop_table("nothing").unwrap_err(),
        |e| matches!(e, Error::Schema(what) if what.contains("no such table")),
    ),
    (
        "an index to drop that is not there",
        |db| db.drop_index("item").unwrap_err(),
        |e| matches!(e, Error::Schema(what) if what.contains("no such index")),
    ),
    (
        "a primary key to drop",
        |db| db.drop_index("item_key").unwrap_err(),
        |e| matches!(e, Error::Schema(what) if what.contains("primary key of item")),
    ),
    (
        "a column to drop that is not there",
        |db| db.drop_column("item", "nothing").unwrap_err(),
        |e| matches!(e, Error::Schema(what) if what.contains("no such column")),
    ),
    (
        "a column to drop that an index has in its keys",
        |db| db.drop_column("item", "rank").unwrap_err(),
        |e| matches!(e, Error::Schema(what) if what.contains("item_by_rank has it")),
    ),
    (
        "a table of the database's own to drop",
        |db| db.drop_table("tombolo_request").unwrap_err(),
        |e| matches!(e, Error::Schema(what) if what.contains("own")),
    ),
    (
        "a sequence with too long a name",
        |db| db.sequence(&"n".repeat(61)).unwrap_err(),
        |e| matches!(e, Error::Schema(_)),
    ),
];

/// Everything that both databases hold, to be compared.
fn content(db: &Database) -> Vec<String> {
    let tables = [db.dynamic_table("item").unwrap(), db.dynamic_table("counter").unwrap()];
    let read = db.transaction(move |tx| {
        let mut rows = vec![];
        for table in &tables {
            for row in tx.rows(table.handle())? {
                rows.push(tx.read_values(table, row, |values| format!("{values:?}"))?);
            }
        }
        Ok(rows)
    });
    read.unwrap()
}

#[test]
fn a_refusal_is_of_the_same_kind_in_memory_and_on_disk_and_changes_nothing() {
    // With the default settings: they say how much a call may write.
    let place = tempfile::tempdir().unwrap();
    let builder = || Database::builder().table(definition()).define::<Item>();
    for db in [builder().in_memory().unwrap(), builder().open(place.path()).unwrap()] {
        let (items, counters) = (db.table::<Item>().unwrap(), Counters::of(&db));
        db.transaction(move |tx| {
            counters.add(tx, 1)?;
            tx.insert_row(&items, &item(1))
        })
        .unwrap();
        let before = content(&db);
        for (what, call, is_right) in TRANSACTIONS.iter().chain(DEFINITIONS) {
            let error = call(&db);
            assert!(is_right(&error), "{what}: {error:?}");
            assert!(!error.is_final(), "{what}: {error:?}");
            assert_eq!(content(&db), before, "{what} changed something");
        }
    }
}
