//! How much memory a run will take, before it takes any.
//!
//! From the schema: rows of each table at full width with their index entries, and a fifth on top
//! for what slots, nodes and growth steps waste. What a run of a known number of transactions adds
//! is included; how many a timed run will make is not known, so the driver watches it.
//!
//! Not here: what is available (`host.rs`) and what to do about it (`mod.rs`).

use tombolo_storage::schema::TableDef;

use crate::workload::Workload;

/// Memory of a process besides its rows: the program, buffers, the miss probe.
const FIXED_BYTES: u64 = 320 << 20;

/// Bytes of a row with its index entries.
fn row_bytes(table: &TableDef) -> u64 {
    let keys = table.indexes.iter().map(|index| table.raw_key_bytes(index) + 8);
    (table.raw_row_bytes() + keys.sum::<usize>()) as u64
}

/// Bytes a row takes besides its columns on a page: slot, header, alignment.
const ROW_EXTRA: u64 = 24;
/// Bytes an index entry takes besides its key: row id, slot, lengths.
const ENTRY_EXTRA: u64 = 20;
/// Pages that any database has: maps, catalogue, roots.
const PAGES_FIXED_BYTES: u64 = 32 << 20;

/// Bytes of each table's rows after `transactions` transactions, a row of which takes `row_bytes`.
fn of_tables<W: Workload>(
    workload: &W,
    transactions: u64,
    row_bytes: impl Fn(&TableDef) -> u64,
) -> impl Iterator<Item = u64> {
    workload.tables().into_iter().map(move |table| {
        row_bytes(&table).saturating_mul(workload.rows_after(&table.name, transactions))
    })
}

/// The sum, which does not overflow.
fn sum(bytes: impl Iterator<Item = u64>) -> u64 {
    bytes.fold(0, u64::saturating_add)
}

/// A fifth more, for what slots, nodes and growth steps waste.
fn with_waste(bytes: u64) -> u64 {
    bytes.saturating_add(bytes / 5)
}

/// Bytes of pages that hold everything: `workload` loaded, `transactions` run. Leaves are half full
/// at worst.
pub fn page_bytes<W: Workload>(workload: &W, transactions: u64) -> u64 {
    let row_bytes = |table: &TableDef| {
        let row = table.raw_row_bytes() as u64 + ROW_EXTRA;
        let entries = table.indexes.iter().map(|index| table.raw_key_bytes(index) as u64);
        row + row / 16 + entries.map(|key| 2 * (key + ENTRY_EXTRA)).sum::<u64>()
    };
    sum(of_tables(workload, transactions, row_bytes)).saturating_add(PAGES_FIXED_BYTES)
}

/// Bytes a run takes besides its pages, with `batch` inputs at hand.
pub fn beside_pages<W: Workload>(batch: u64) -> u64 {
    batch.saturating_mul(size_of::<W::Input>() as u64).saturating_add(FIXED_BYTES)
}

/// Bytes that the rows of one table will take at most, or its index entries.
pub fn largest_table<W: Workload>(workload: &W, transactions: u64) -> u64 {
    with_waste(of_tables(workload, transactions, row_bytes).max().unwrap_or_default())
}

/// Bytes a run will take: `workload` loaded, `transactions` run, `batch` inputs at hand.
pub fn bytes<W: Workload>(workload: &W, transactions: u64, batch: u64) -> u64 {
    let rows = sum(of_tables(workload, transactions, row_bytes));
    with_waste(rows).saturating_add(beside_pages::<W>(batch))
}

/// Bytes of the second copy that checkpoints are written from: rows as they lie in their slots,
/// without indexes.
pub fn second_copy<W: Workload>(workload: &W, transactions: u64) -> u64 {
    let row_bytes = |table: &TableDef| table.raw_row_bytes() as u64;
    with_waste(sum(of_tables(workload, transactions, row_bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::debit_credit;
    use crate::workload::tpcc::input::Mix;
    use crate::workload::tpcc::loader::Scale;

    fn tpcc(warehouses: i32, mix: Mix) -> Scale {
        Scale { seed: 1, warehouses, mix }
    }

    #[test]
    fn a_warehouse_is_about_a_hundred_megabytes() {
        let per_warehouse = {
            let of = |warehouses| bytes(&tpcc(warehouses, Mix::Standard), 0, 0);
            of(11) - of(10)
        };
        assert!((70 << 20..160 << 20).contains(&per_warehouse), "{per_warehouse}");
        let per_million = {
            let of = |transactions| bytes(&tpcc(1, Mix::Paper), transactions, 0);
            of(1_000_000) - of(0)
        };
        assert!((400 << 20..1_000 << 20).contains(&per_million), "{per_million}");
        let (rows, all) =
            (second_copy(&tpcc(10, Mix::Standard), 0), bytes(&tpcc(10, Mix::Standard), 0, 0));
        assert!((all / 2..all).contains(&rows), "{rows} of {all}");
        assert!(bytes(&tpcc(65_535, Mix::Standard), u64::MAX, u64::MAX) > 1 << 62, "no overflow");
    }

    #[test]
    fn an_account_is_about_two_hundred_bytes() {
        let of = |accounts_per_branch| {
            let scale = debit_credit::Scale {
                seed: 1,
                branches: 10,
                tellers_per_branch: 10,
                accounts_per_branch,
            };
            bytes(&scale, 1_000_000, 0)
        };
        let per_account = (of(200_000) - of(100_000)) / 1_000_000;
        assert!((140..220).contains(&per_account), "{per_account}");
    }
}
