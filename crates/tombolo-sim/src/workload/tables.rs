//! The workload's tables and indexes as they are made, and what an item's row holds.
//!
//! Tables exercise what the log has to carry: a packed key, a hash, a non-unique key of strings,
//! null, strings of any length. Not here: what is added later (`added_columns.rs`, `added_indexes.rs`),
//! transactions (`store.rs`).

use std::ops::ControlFlow;

use tombolo_engine::requests::request_table;
use tombolo_storage::row::{Row, RowBytes, RowId};
use tombolo_storage::schema::TableDef;
use tombolo_storage::store::{Store, Table, TableType};

use super::model::{ItemRow, TABLES};
use super::request::ItemKey;

tombolo_storage::table! {
    /// Accounts.
    pub struct Account = "account" {
        ID: Integer [0..=9_999];
        CHANGES: Integer;
        NOTE: Nullable<Text>;
        BALANCE: BigInt => hot;
    }
}
tombolo_storage::index! {
    /// By number.
    pub struct AccountKey = "account_pk" on Account (ID: Integer) unique Tree;
}
tombolo_storage::table! {
    /// Clients and the last transaction of each.
    pub struct Client = "client" {
        ID: Integer;
        LAST: BigInt;
    }
}
tombolo_storage::index! {
    /// By number, hashed.
    pub struct ClientKey = "client_pk" on Client (ID: Integer) unique Hash;
}
tombolo_storage::table! {
    /// Items in groups.
    pub struct Item = "item" {
        GROUP: SmallInt [0..=99];
        ID: Integer [0..=9_999];
        NAME: Varchar<12>;
        BODY: Text;
    }
}
tombolo_storage::index! {
    /// By group and number.
    pub struct ItemKeyIndex = "item_pk" on Item (GROUP: SmallInt, ID: Integer) unique Tree;
}
tombolo_storage::index! {
    /// By name.
    pub struct ItemName = "item_name" on Item (NAME: Varchar<12>) multiple Tree;
}

/// The definition of the table at `position`.
///
/// # Panics
/// When the workload has no such table.
pub(crate) fn definition(position: usize) -> TableDef {
    match position {
        0 => TableDef::of::<Account>().with::<AccountKey>(),
        1 => TableDef::of::<Client>().with::<ClientKey>(),
        2 => TableDef::of::<Item>().with::<ItemKeyIndex>().with::<ItemName>(),
        TABLES => request_table(),
        _ => panic!("the workload has {TABLES} tables, and one for ids"),
    }
}

pub(super) fn name_of(name: u8) -> Vec<u8> {
    format!("name-{name}").into_bytes()
}

pub(super) fn name_in(text: &[u8]) -> u8 {
    let digits = std::str::from_utf8(text).ok().and_then(|text| text.strip_prefix("name-"));
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(u8::MAX)
}

/// An item without what was added, and its key.
pub(super) fn item_in<P: RowBytes>(row: &Row<Item, P>) -> (ItemKey, ItemRow) {
    let (name, body) = (name_in(row.get(Item::NAME)), row.get(Item::BODY).to_vec());
    ((row.get(Item::GROUP), row.get(Item::ID)), ItemRow::new(name, body))
}

/// The rows of a table.
///
/// # Errors
/// What the store refused, in words.
pub(super) fn row_ids<S: Store, R: TableType>(
    store: &mut S,
    table: &Table<R>,
) -> Result<Vec<RowId>, String> {
    let mut ids = Vec::new();
    let push = |id| {
        ids.push(id);
        ControlFlow::Continue(())
    };
    store.rows(table, push).map_err(|error| error.to_string())?;
    Ok(ids)
}
