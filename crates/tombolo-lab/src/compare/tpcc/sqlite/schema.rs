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
    let [district, customer, new_order, orders, lines, stock] =
        KEYS.each_ref().map(|key| key.declared());
    let standard = match mix {
        Mix::Paper => "",
        Mix::Standard => {
            "CREATE INDEX customer_by_name ON customer (c_w_id, c_d_id, c_last, c_first);
             CREATE INDEX orders_by_customer ON orders (o_w_id, o_d_id, o_c_id);"
        }
    };
    format!(
        "CREATE TABLE warehouse (w_id INTEGER PRIMARY KEY, w_ytd, w_tax, w_name, w_street_1,
             w_street_2, w_city, w_state, w_zip);
         CREATE TABLE district ({district}, d_next_o_id, d_ytd, d_tax, d_name, d_street_1,
             d_street_2, d_city, d_state, d_zip);
         CREATE TABLE customer ({customer}, c_balance, c_ytd_payment, c_payment_cnt,
             c_delivery_cnt, c_discount, c_credit, c_last, c_first, c_credit_lim, c_middle,
             c_street_1, c_street_2, c_city, c_state, c_zip, c_phone, c_since, c_data);
         CREATE TABLE history (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount,
             h_data);
         CREATE TABLE new_order ({new_order});
         CREATE TABLE orders ({orders}, o_c_id, o_entry_d, o_carrier_id, o_ol_cnt, o_all_local);
         CREATE TABLE order_line ({lines}, ol_delivery_d, ol_i_id, ol_supply_w_id, ol_quantity,
             ol_amount, ol_dist_info);
         CREATE TABLE item (i_id INTEGER PRIMARY KEY, i_price, i_data, i_name, i_im_id);
         CREATE TABLE stock ({stock}, s_quantity, s_ytd, s_order_cnt, s_remote_cnt, s_data,
             s_dist_01, s_dist_02, s_dist_03, s_dist_04, s_dist_05, s_dist_06, s_dist_07,
             s_dist_08, s_dist_09, s_dist_10);
         CREATE INDEX new_order_by_warehouse ON new_order (no_w_id, no_o_id);
         {standard}"
    )
}
