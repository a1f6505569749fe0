//! The memory store from outside: typed and dynamic access meet on the same rows, aborts take
//! everything back.

#![expect(clippy::unwrap_used, reason = "a failing test may panic anywhere")]

use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};

use tombolo_storage::dynamic::DynamicTable;
use tombolo_storage::error::Error;
use tombolo_storage::key::Range;
use tombolo_storage::memory::{Limits, MemoryStore};
use tombolo_storage::profile::{Bare, Memory};
use tombolo_storage::row::{Fields, RowId, RowMut};
use tombolo_storage::schema::{ColumnDef, DeclaredTable, IndexDef, IndexKind, TableDef};
use tombolo_storage::store::{
    Order, Phase, Store, dynamic_indexes, dynamic_table, resolve_index, resolve_table,
};
use tombolo_storage::types::SqlType;
use tombolo_storage::value::Value;

tombolo_storage::table! {
    /// Accounts.
    struct Account = "account" {
        ID: Integer [0..=999_999];
        BRANCH: SmallInt;
        OWNER: Varchar<12>;
        NOTE: Nullable<Text>;
        BALANCE: Decimal<12, 2> => hot;
        CLOSED: Nullable<Timestamp> => hot;
    }
}
tombolo_storage::index! {
    /// By number.
    struct AccountKey = "account_pk" on Account (ID: Integer) unique Tree;
}
tombolo_storage::index! {
    /// By branch and owner.
    struct ByOwner = "account_owner" on Account (BRANCH: SmallInt, OWNER: Varchar<12>) multiple Tree;
}
tombolo_storage::index! {
    /// By owner and number, hashed.
    struct ByHash = "account_hash" on Account (OWNER: Varchar<12>, ID: Integer) unique Hash;
}

fn definition() -> TableDef {
    TableDef::of::<Account>().with::<AccountKey>().with::<ByOwner>().with::<ByHash>()
}

fn row<'a>(id: i64, branch: i64, owner: &'a str, note: Value<'a>, cents: i128) -> [Value<'a>; 6] {
    [
        Value::Integer(id),
        Value::Integer(branch),
        Value::Text(owner),
        note,
        Value::Decimal { units: cents, scale: 2 },
        Value::Null,
    ]
}

/// A store with a hundred accounts in ten branches.
fn filled<P: tombolo_storage::profile::MemoryProfile>() -> (MemoryStore<P>, DynamicTable) {
    let mut store = MemoryStore::<P>::new(Limits::default());
    store.create_table(definition()).unwrap();
    let accounts = DynamicTable::new(store.schema(), 0);
    store.begin().unwrap();
    store.begin_writes();
    for id in 0..100 {
        let owner = format!("owner {}", id % 7);
        let note = "n".repeat(id as usize * 3);
        accounts.insert(&mut store, &row(id, id % 10, &owner, Value::Text(&note), 100)).unwrap();
    }
    store.commit().unwrap();
    (store, accounts)
}

/// All rows as text, sorted.
fn contents<S: Store>(store: &mut S, accounts: &DynamicTable) -> Vec<String> {
    let ids = accounts.row_ids(store).unwrap();
    let text = |values: &[Value<'_>]| format!("{values:?}");
    let mut rows: Vec<_> =
        ids.into_iter().map(|id| accounts.read(store, id, text).unwrap()).collect();
    rows.sort();
    rows
}

/// Runs what panics, as a procedure does that catches it.
fn assert_panics<T: std::fmt::Debug>(work: impl FnOnce() -> T) {
    let unwound = catch_unwind(AssertUnwindSafe(work));
    assert!(unwound.is_err(), "{unwound:?}");
}

#[test]
fn declared_and_dynamic_access_agree() {
    let (mut store, _) = filled::<Memory>();
    let accounts = resolve_table::<Account>(store.schema()).unwrap();
    let key = resolve_index::<AccountKey>(store.schema()).unwrap();
    let by_owner = resolve_index::<ByOwner>(store.schema()).unwrap();
    let by_hash = resolve_index::<ByHash>(store.schema()).unwrap();
    store.begin().unwrap();
    let id = store.lookup(&key, 42).unwrap().unwrap();
    let account = store.pin(&accounts, id).unwrap();
    assert_eq!(account.get(Account::ID), 42);
    assert_eq!(account.get(Account::OWNER), b"owner 0");
    assert_eq!(account.get(Account::NOTE).unwrap().len(), 126);
    assert_eq!(account.get(Account::BALANCE), 100);
    assert_eq!(account.get(Account::CLOSED), None);
    assert_eq!(store.lookup(&key, 1_000_000).unwrap(), None, "outside the declared range");
    assert_eq!(store.lookup(&by_hash, (b"owner 0", 42)).unwrap(), Some(id));
    assert_eq!(store.lookup(&by_hash, (b"owner 1", 42)).unwrap(), None);

    let mut found = Vec::new();
    for order in [Order::Forward, Order::Backward] {
        let mut ids = Vec::new();
        store
            .scan(&by_owner, Range::prefix((2, &b"owner 2"[..])), order, |row| {
                ids.push(row);
                ControlFlow::Continue(())
            })
            .unwrap();
        ids.sort();
        found.push(ids);
    }
    assert_eq!(found[0], found[1]);
    let expected = (0..100).filter(|id| id % 10 == 2 && id % 7 == 2).count();
    assert_eq!(found[0].len(), expected);

    store.commit().unwrap();
    assert_eq!(store.check(), []);
}

#[test]
fn keys_looked_up_together_are_those_looked_up_alone() {
    let (mut store, _) = filled::<Memory>();
    let key = resolve_index::<AccountKey>(store.schema()).unwrap();
    let by_hash = resolve_index::<ByHash>(store.schema()).unwrap();
    store.begin().unwrap();
    // Known and unknown ones, more of those than are looked up in one step, and impossible ones.
    let keys: Vec<i32> =
        (0..100).map(|n| [n, -1, 1_000 + n, 99 - n, 5_000_000][n as usize % 5]).collect();
    let owners: Vec<_> = keys.iter().map(|&id| (&b"owner 0"[..], id)).collect();
    for _ in 0..2 {
        // What was found for other keys before is not taken for an answer.
        let mut found = vec![store.lookup(&key, 3).unwrap(); keys.len()];
        store.lookup_many(&key, &keys, &mut found).unwrap();
        let alone: Vec<_> = keys.iter().map(|&id| store.lookup(&key, id).unwrap()).collect();
        assert_eq!(found, alone);
        assert_eq!(found.iter().flatten().count(), 40);
        let mut hashed = found.clone();
        store.lookup_many(&by_hash, &owners, &mut hashed).unwrap();
        let alone: Vec<_> =
            owners.iter().map(|&key| store.lookup(&by_hash, key).unwrap()).collect();
        assert_eq!(hashed, alone);
    }
    store.commit().unwrap();
}

#[test]
fn a_named_id_leads_to_its_row_or_nowhere() {
    let (mut store, dynamic) = filled::<Memory>();
    store.name_rows().unwrap();
    let accounts = resolve_table::<Account>(store.schema()).unwrap();
    let ids = dynamic.row_ids(&mut store).unwrap();
    let [kept, gone, beyond] =
        [ids[0], ids[99], RowId::new(100)].map(|id| store.named(&accounts, id));
    let strange = RowId::new(kept.location() ^ 1 << 40);
    let balance = Fields::none().with(Account::BALANCE);
    let refused = Error::NoSuchRow { table: 0 };
    let assert_nowhere = |store: &mut MemoryStore<Memory>, id| {
        assert_eq!(store.pin_named(&accounts, id).map(|_| ()), Err(refused));
        assert_eq!(store.unnamed(&accounts, id), Err(refused));
        let changed = store.update_named(&accounts, id, balance, |_| panic!("it is not there"));
        assert_eq!(changed, Err(refused));
    };
    store.begin().unwrap();
    store.begin_writes();
    dynamic.delete(&mut store, ids[99]).unwrap();
    for id in [gone, beyond, strange, ids[0], RowId::new(1 << 20)] {
        assert_nowhere(&mut store, id);
    }
    store.update_named(&accounts, kept, balance, |row| row.set(Account::BALANCE, 7)).unwrap();
    assert_eq!(store.pin_named(&accounts, kept).unwrap().get(Account::BALANCE), 7);
    store.abort().unwrap();
    assert_eq!(store.pin_named(&accounts, kept).unwrap().get(Account::BALANCE), 100);
    assert!(store.pin_named(&accounts, gone).is_ok(), "its deletion was undone");
    // Its slot goes to another row, first to one whose making is undone.
    store.begin().unwrap();
    store.begin_writes();
    dynamic.delete(&mut store, ids[99]).unwrap();
    store.commit().unwrap();
    let mut made = Vec::new();
    for is_undone in [true, false] {
        store.begin().unwrap();
        store.begin_writes();
        assert_nowhere(&mut store, gone);
        let row = store.create(&accounts, |row| row.set(Account::BALANCE, 5)).unwrap();
        assert_eq!(row, ids[99]);
        assert_nowhere(&mut store, gone);
        made.push(store.named(&accounts, row));
        if is_undone { store.abort().unwrap() } else { store.commit().unwrap() }
    }
    store.begin().unwrap();
    store.begin_writes();
    assert_nowhere(&mut store, made[0]);
    assert_nowhere(&mut store, gone);
    assert_eq!(store.pin_named(&accounts, made[1]).unwrap().get(Account::BALANCE), 5);
    store.abort().unwrap();
}

#[test]
fn abort_takes_back_every_kind_of_change() {
    let (mut store, accounts) = filled::<Memory>();
    let before = contents(&mut store, &accounts);
    let ids = accounts.row_ids(&mut store).unwrap();
    store.begin().unwrap();
    store.begin_writes();
    accounts.delete(&mut store, ids[3]).unwrap();
    accounts.insert(&mut store, &row(3, 1, "again", Value::Null, 5)).unwrap();
    accounts
        .update(&mut store, ids[5], &row(5, 9, "moved", Value::Text("another note"), -7))
        .unwrap();
    accounts.update(&mut store, ids[5], &row(500, 9, "moved", Value::Null, -7)).unwrap();
    accounts.delete(&mut store, ids[5]).unwrap();
    assert_eq!(accounts.delete(&mut store, ids[5]), Err(Error::NoSuchRow { table: 0 }));
    assert_ne!(contents(&mut store, &accounts), before);
    store.abort().unwrap();
    assert_eq!(contents(&mut store, &accounts), before);
    assert_eq!(store.check(), []);
}

#[test]
fn refused_values_change_nothing() {
    let (mut store, accounts) = filled::<Memory>();
    let before = contents(&mut store, &accounts);
    store.begin().unwrap();
    store.begin_writes();
    let refused = [
        (row(7, 1, "a", Value::Null, 5), Error::Duplicate { index: 0 }),
        (row(-1, 1, "a", Value::Null, 5), Error::OutOfRange { table: 0, column: 0 }),
        (row(700, 40_000, "a", Value::Null, 5), Error::OutOfRange { table: 0, column: 1 }),
        (
            row(700, 1, "longer than twelve", Value::Null, 5),
            Error::OutOfRange { table: 0, column: 2 },
        ),
        (row(700, 1, "a", Value::Integer(1), 5), Error::WrongType { table: 0, column: 3 }),
        (row(700, 1, "a", Value::Null, 10i128.pow(12)), Error::OutOfRange { table: 0, column: 4 }),
    ];
    for (values, error) in refused {
        assert_eq!(accounts.insert(&mut store, &values).unwrap_err(), error);
    }
    store.commit().unwrap();
    assert_eq!(contents(&mut store, &accounts), before);
    assert_eq!(store.check(), []);
}

#[test]
fn without_undo_an_abort_after_a_write_poisons() {
    let (mut store, accounts) = filled::<Bare>();
    store.begin().unwrap();
    store.abort().unwrap(); // nothing written yet
    store.begin().unwrap();
    store.begin_writes();
    accounts.insert(&mut store, &row(900, 1, "a", Value::Null, 5)).unwrap();
    assert_eq!(store.abort(), Err(Error::NoUndo));
    assert!(matches!(store.begin(), Err(Error::Poisoned { .. })));
    assert_eq!(store.phase(), Phase::Idle);
}

#[test]
fn a_panic_within_a_write_takes_that_write_back() {
    let (mut store, accounts) = filled::<Memory>();
    let before = contents(&mut store, &accounts);
    let id = accounts.row_ids(&mut store).unwrap()[7];
    let handle = resolve_table::<Account>(store.schema()).unwrap();
    store.begin().unwrap();
    store.begin_writes();
    let owner = Fields::none().with(Account::BALANCE).with(Account::OWNER);
    let too_long = |row: &mut RowMut<'_, Account>| {
        row.set(Account::BALANCE, -1);
        row.set(Account::OWNER, b"longer than twelve");
    };
    for _ in 0..2 {
        assert_panics(|| store.update(&handle, id, owner, too_long));
        assert_panics(|| store.create(&handle, too_long));
        assert_eq!(contents(&mut store, &accounts), before);
    }
    store.update(&handle, id, owner, |row| row.set(Account::BALANCE, 7)).unwrap();
    assert_panics(|| store.update(&handle, id, owner, too_long));
    assert_eq!(store.pin(&handle, id).unwrap().get(Account::BALANCE), 7);
    store.commit().unwrap();
    assert_eq!(store.check(), []);
}

#[test]
fn without_undo_a_panic_within_a_write_poisons() {
    let (mut store, accounts) = filled::<Bare>();
    let id = accounts.row_ids(&mut store).unwrap()[7];
    let handle = resolve_table::<Account>(store.schema()).unwrap();
    store.begin().unwrap();
    store.begin_writes();
    let owner = Fields::none().with(Account::OWNER);
    let too_long = |row: &mut RowMut<'_, Account>| row.set(Account::OWNER, b"longer than twelve");
    assert_panics(|| store.update(&handle, id, owner, too_long));
    assert!(matches!(store.commit(), Err(Error::Poisoned { .. })));
}

#[test]
fn deleted_rows_are_reused_and_start_empty() {
    let (mut store, accounts) = filled::<Memory>();
    let ids = accounts.row_ids(&mut store).unwrap();
    store.begin().unwrap();
    store.begin_writes();
    accounts.delete(&mut store, ids[50]).unwrap();
    store.commit().unwrap();
    let handle = resolve_table::<Account>(store.schema()).unwrap();
    store.begin().unwrap();
    store.begin_writes();
    let id = store.create(&handle, |row| row.set(Account::ID, 800)).unwrap();
    assert_eq!(id, ids[50]);
    let row = store.pin(&handle, id).unwrap();
    assert_eq!((row.get(Account::BALANCE), row.get(Account::NOTE)), (0, None));
    store.abort().unwrap();
    assert_eq!(store.check(), []);
}

#[test]
#[should_panic(expected = "column was not named in the update")]
fn an_update_cannot_write_beyond_its_fields() {
    let (mut store, accounts) = filled::<Memory>();
    let id = accounts.row_ids(&mut store).unwrap()[0];
    let handle = resolve_table::<Account>(store.schema()).unwrap();
    store.begin().unwrap();
    store.begin_writes();
    let balance = Fields::none().with(Account::BALANCE);
    let _ = store.update(&handle, id, balance, |row| row.set(Account::BRANCH, 3));
}

#[test]
fn the_difference_from_another_schema_is_reported() {
    let mut other = definition();
    other.columns[1].sql = SqlType::BigInt;
    let mut store = MemoryStore::<Memory>::new(Limits::default());
    store.create_table(other).unwrap();
    let error = resolve_table::<Account>(store.schema()).unwrap_err().to_string();
    assert!(error.contains("account") && error.contains("branch"), "{error}");
    assert_eq!(Account::COLUMNS.len(), 6);
}

#[test]
fn a_procedure_can_make_a_text_null_or_not() {
    let (mut store, accounts) = filled::<Memory>();
    let id = accounts.row_ids(&mut store).unwrap()[4];
    let handle = resolve_table::<Account>(store.schema()).unwrap();
    let note = Fields::none().with(Account::NOTE);
    for present in [false, true] {
        store.begin().unwrap();
        store.begin_writes();
        store.update(&handle, id, note, |row| row.set_present(Account::NOTE, present)).unwrap();
        store.set_variable(&handle, id, Account::NOTE.offset(), b"why").unwrap();
        store.commit().unwrap();
        let row = store.pin(&handle, id).unwrap();
        assert_eq!(row.get(Account::NOTE), present.then_some(&b"why"[..]));
    }
    assert_eq!(store.check(), []);
}

#[test]
fn a_hash_index_is_not_scanned() {
    let (mut store, _) = filled::<Memory>();
    let by_hash = resolve_index::<ByHash>(store.schema()).unwrap();
    let scanned = store.scan(&by_hash, Range::all(), Order::Forward, |_| ControlFlow::Continue(()));
    assert_eq!(scanned, Err(Error::Unordered { index: by_hash.position() as u32 }));
}

#[test]
fn a_key_that_no_row_can_have_is_refused_by_its_column() {
    let column = |name: &'static str, sql, range| ColumnDef {
        name: name.into(),
        sql,
        nullable: false,
        range,
        hot: false,
        added: false,
        default: None,
    };
    let index = |name: &'static str, columns: &[usize], unique| IndexDef {
        name: name.into(),
        columns: columns.to_vec(),
        unique,
        kind: IndexKind::Tree,
    };
    let table = TableDef {
        name: "t".into(),
        columns: vec![
            column("text", SqlType::Text, None),
            column("small", SqlType::SmallInt, Some((0, 9))),
            column("large", SqlType::Integer, Some((0, 999))),
        ],
        indexes: vec![index("packed", &[2, 1], true), index("bytes", &[1, 0], false)],
    };
    let mut store = MemoryStore::<Memory>::new(Limits::default());
    store.create_table(table).unwrap();
    let handles = dynamic_indexes(store.schema(), 0);
    let long = "x".repeat(5_000);
    let (number, text) = (Value::Integer, Value::Text);
    for (at, key, column) in [
        (0, [number(7), number(10)], 1),
        (0, [number(1_000), number(3)], 2),
        (0, [number(-1), number(10)], 2),
        (1, [number(3), text(&long)], 0),
        (1, [number(40_000), text("x")], 1),
    ] {
        store.begin().unwrap();
        store.begin_writes();
        let row = store.create(&dynamic_table(store.schema(), 0), |_| {}).unwrap();
        let refused = store.insert(&handles[at], &key, row);
        assert_eq!(refused, Err(Error::OutOfRange { table: 0, column }), "{key:?}");
        store.abort().unwrap();
    }
}
