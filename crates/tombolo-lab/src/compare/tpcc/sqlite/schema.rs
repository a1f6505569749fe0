//! TPC-C's tables for SQLite, and the integers that are their keys (docs/compare.md says what else
//! was tried).
//!
//! # Keys
//! A SQLite table is a B-tree keyed by one integer, and a look-up by that integer costs half of one
//! by a composite key, in a table with or without row ids. So every primary key is one: the columns
//! of the key packed, the first in the highest bits, which keeps their order and makes every prefix
//! of the key a range. This is what our own indexes do too. The key's columns exist under their
//! names and are computed from it where a statement asks for them.
//!
//! # Columns
//! What transactions touch comes first: a record's columns are found by walking its header. No
//! column declares a type, so that no affinity is applied; an exact decimal is an integer of its
//! units.
//!
//! # Indexes
//! The same as ours. An index entry ends with the key of its row, so columns the key has follow by
//! themselves.

use crate::compare::sqlite::sections;
use crate::workload::tpcc::input::Mix;

/// Bits of D_ID in a key.
const D_BITS: u32 = 4;
/// Bits of C_ID.
const C_BITS: u32 = 12;
/// Bits of O_ID.
const O_BITS: u32 = 31;
/// Bits of OL_NUMBER.
pub(super) const LINE_BITS: u32 = 4;
/// Bits of I_ID.
const I_BITS: u32 = 20;

/// DISTRICT's key.
pub(super) fn district(w_id: i32, d_id: i16) -> i64 {
    i64::from(w_id) << D_BITS | i64::from(d_id)
}

/// CUSTOMER's key.
pub(super) fn customer(w_id: i32, d_id: i16, c_id: i32) -> i64 {
    district(w_id, d_id) << C_BITS | i64::from(c_id)
}

/// C_ID of a customer's key.
pub(super) fn c_id(key: i64) -> i32 {
    (key & mask(C_BITS)) as i32
}

/// ORDERS' key and NEW_ORDER's.
pub(super) fn order(w_id: i32, d_id: i16, o_id: i32) -> i64 {
    district(w_id, d_id) << O_BITS | i64::from(o_id)
}

/// The last key that an order of a district can have.
pub(super) fn last_order(w_id: i32, d_id: i16) -> i64 {
    order(w_id, d_id, i32::MAX)
}

/// O_ID of an order's key.
pub(super) fn o_id(key: i64) -> i32 {
    (key & mask(O_BITS)) as i32
}

/// D_ID of an order's key.
pub(super) fn order_d_id(key: i64) -> i16 {
    (key >> O_BITS & mask(D_BITS)) as i16
}

/// ORDER_LINE's key.
pub(super) fn order_line(order: i64, number: i16) -> i64 {
    order << LINE_BITS | i64::from(number)
}

/// The last key that a line of an order can have.
pub(super) fn last_line(order: i64) -> i64 {
    order << LINE_BITS | mask(LINE_BITS)
}

/// STOCK's key.
pub(super) fn stock(w_id: i32, i_id: i32) -> i64 {
    i64::from(w_id) << I_BITS | i64::from(i_id)
}

const fn mask(bits: u32) -> i64 {
    (1 << bits) - 1
}

/// A packed key.
pub(super) struct Key {
    pub(super) table: &'static str,
    pub(super) name: &'static str,
    /// The columns in it with their bits, the first in the highest.
    pub(super) columns: &'static [(&'static str, u32)],
}

/// Bits of W_ID in a key.
const W_BITS: u32 = 16;

const fn key(
    table: &'static str,
    name: &'static str,
    columns: &'static [(&'static str, u32)],
) -> Key {
    Key { table, name, columns }
}

/// All packed keys.
pub(super) const KEYS: [Key; 6] = [
    key("district", "d_key", &[("d_w_id", W_BITS), ("d_id", D_BITS)]),
    key("customer", "c_key", &[("c_w_id", W_BITS), ("c_d_id", D_BITS), ("c_id", C_BITS)]),
    key("new_order", "no_key", &[("no_w_id", W_BITS), ("no_d_id", D_BITS), ("no_o_id", O_BITS)]),
    key("orders", "o_key", &[("o_w_id", W_BITS), ("o_d_id", D_BITS), ("o_id", O_BITS)]),
    key(
        "order_line",
        "ol_key",
        &[("ol_w_id", W_BITS), ("ol_d_id", D_BITS), ("ol_o_id", O_BITS), ("ol_number", LINE_BITS)],
    ),
    key("stock", "s_key", &[("s_w_id", W_BITS), ("s_i_id", I_BITS)]),
];

impl Key {
    /// The declarations of the key and of the columns in it.
    fn declared(&self) -> String {
        let Self { name, columns, .. } = self;
        let mut declared = format!("{name} INTEGER PRIMARY KEY");
        let mut shift: u32 = columns.iter().map(|(_, bits)| bits).sum();
        for (column, bits) in *columns {
            shift -= bits;
            declared += &format!(", {column} AS ({name} >> {shift} & {}) VIRTUAL", mask(*bits));
        }
        declared
    }
}

/// The statements that create the tables with the indexes of `mix`.
pub(super) fn tables(mix: Mix) -> String {
    let sections = sections(include_str!("schema.sql"));
    let wanted = if mix == Mix::Paper { 1 } else { 2 };
    let mut sql: String = sections.take(wanted).map(|(_, sql)| sql).collect();
    for key in &KEYS {
        sql = sql.replace(&format!("{{{}}}", key.name), &key.declared());
    }
    sql
}
