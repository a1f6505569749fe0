//! How much memory a run will take, before it takes any.
//!
//! From the schema: rows of each table at full width with their index entries, and a fifth on top
//! for what slots, nodes and growth steps waste. What a run of a known number of transactions adds
//! is included; how many a timed run will make is not known, so the driver watches it.
//!
//! Not here: what is available (`host.rs`) and what to do about it (`run.rs`).

use tombolo_storage::schema::TableDef;

use crate::workload::tpcc::input::{Input, Mix};
use crate::workload::tpcc::{CUSTOMERS, DISTRICTS, FIRST_UNDELIVERED_ORDER, ITEMS, ORDERS, schema};

/// Lines of an order on average, in both mixes.
const LINES: u64 = 10;
/// What a process takes besides its rows: the program, buffers, the miss probe.
const FIXED_BYTES: u64 = 320 << 20;

/// Rows of `table` in the initial database.
fn rows(table: &str, warehouses: u64) -> u64 {
    let count = |n: i32| u64::from(n.unsigned_abs());
    let districts = warehouses * u64::from(DISTRICTS.unsigned_abs());
    match table {
        "warehouse" => warehouses,
        "district" => districts,
        "customer" | "history" => districts * count(CUSTOMERS),
        "new_order" => districts * count(ORDERS + 1 - FIRST_UNDELIVERED_ORDER),
        "orders" => districts * count(ORDERS),
        "order_line" => districts * count(ORDERS) * LINES,
        "item" => count(ITEMS),
        "stock" => warehouses * count(ITEMS),
        _ => 0,
    }
}

/// Rows that a transaction of `mix` adds to `table`, on average, in hundredths.
fn added(table: &str, mix: Mix) -> u64 {
    let (new_orders, payments) = match mix {
        Mix::Paper => (50, 50),
        Mix::Standard => (45, 43),
    };
    match table {
        "orders" | "new_order" => new_orders,
        "order_line" => new_orders * LINES,
        "history" => payments,
        _ => 0,
    }
}

/// Bytes of a row with its index entries.
fn row_bytes(table: &TableDef) -> u64 {
    let keys = table.indexes.iter().map(|index| table.raw_key_bytes(index) + 8);
    (table.raw_row_bytes() + keys.sum::<usize>()) as u64
}

/// Rows of `table` after `transactions` transactions.
fn rows_after(table: &str, warehouses: u64, mix: Mix, transactions: u64) -> u64 {
    let run = (u128::from(transactions) * u128::from(added(table, mix)) / 100) as u64;
    rows(table, warehouses).saturating_add(run)
}

/// Bytes a row takes besides its columns on a page: slot, header, alignment.
const ROW_EXTRA: u64 = 24;
/// Bytes an index entry takes besides its key: row id, slot, lengths.
const ENTRY_EXTRA: u64 = 20;
/// Pages that any database has: maps, catalogue, roots.
const PAGES_FIXED_BYTES: u64 = 32 << 20;

/// Bytes of pages that hold everything: `warehouses` loaded, `transactions` run. Leaves are half
/// full at worst.
pub fn page_bytes(warehouses: u64, mix: Mix, transactions: u64) -> u64 {
    let of_table = |table: &TableDef| {
        let row = table.raw_row_bytes() as u64 + ROW_EXTRA;
        let entries = table.indexes.iter().map(|index| table.raw_key_bytes(index) as u64);
        let entries: u64 = entries.map(|key| 2 * (key + ENTRY_EXTRA)).sum();
        let rows = rows_after(&table.name, warehouses, mix, transactions);
        rows.saturating_mul(row + row / 16 + entries)
    };
    let pages = schema::tables(mix).iter().map(of_table).fold(0, u64::saturating_add);
    pages.saturating_add(PAGES_FIXED_BYTES)
}

/// Bytes a run takes besides its pages, with `batch` inputs at hand.
pub fn beside_pages(batch: u64) -> u64 {
    batch.saturating_mul(size_of::<Input>() as u64).saturating_add(FIXED_BYTES)
}

/// Bytes a run will take: `warehouses` loaded, `transactions` run, `batch` inputs at hand.
pub fn bytes(warehouses: u64, mix: Mix, transactions: u64, batch: u64) -> u64 {
    let tables = schema::tables(mix);
    let rows: u64 = tables
        .iter()
        .map(|table| {
            row_bytes(table).saturating_mul(rows_after(&table.name, warehouses, mix, transactions))
        })
        .fold(0, u64::saturating_add);
    rows.saturating_add(rows / 5).saturating_add(beside_pages(batch))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_is_estimated() {
        for table in schema::tables(Mix::Standard) {
            assert!(rows(&table.name, 1) > 0, "{}", table.name);
        }
    }

    #[test]
    fn a_warehouse_is_about_a_hundred_megabytes() {
        let per_warehouse = bytes(11, Mix::Standard, 0, 0) - bytes(10, Mix::Standard, 0, 0);
        assert!((70 << 20..160 << 20).contains(&per_warehouse), "{per_warehouse}");
        let per_million = bytes(1, Mix::Paper, 1_000_000, 0) - bytes(1, Mix::Paper, 0, 0);
        assert!((400 << 20..1_000 << 20).contains(&per_million), "{per_million}");
        assert!(bytes(65_535, Mix::Standard, u64::MAX, u64::MAX) > 1 << 62, "no overflow");
    }
}
