//! Rows as values of fixed width, for engines that keep bytes under keys: balance, code, blanks.
//!
//! What a call does with them is here too ([`execute`]): such engines only look up and store. Not here: keys,
//! engines.

use super::rows::{FILLER_BYTES, Row};
use crate::failure::Failure;
use crate::workload::debit_credit::input::Input;
use crate::workload::debit_credit::schema::BALANCE_MAX;

/// Bytes of a row without its id.
const ROW_BYTES: usize = 16 + FILLER_BYTES;

/// A row without its id.
pub(super) type Value = [u8; ROW_BYTES];

/// The value of `row`.
pub(super) fn value(row: &Row) -> Value {
    let mut bytes = [b' '; ROW_BYTES];
    bytes[..8].copy_from_slice(&row.balance.to_le_bytes());
    bytes[8..16].copy_from_slice(&row.code.to_le_bytes());
    bytes
}

fn number(bytes: &Value, at: usize) -> i64 {
    let mut number = [0; 8];
    number.copy_from_slice(&bytes[at..at + 8]);
    i64::from_le_bytes(number)
}

/// Its balance.
pub(super) fn balance(bytes: &Value) -> i64 {
    number(bytes, 0)
}

/// The reads and writes of one transaction of an engine.
pub(super) trait Transaction {
    /// The row of the table at this position, if it is there.
    fn get(&self, table: usize, id: u32) -> Result<Option<Value>, Failure>;

    /// Writes a row over.
    fn put(&mut self, table: usize, id: u32, row: &Value) -> Result<(), Failure>;
}

/// Executes `calls` in one transaction; how many commit.
///
/// # Errors
/// The engine's.
pub(super) fn execute(transaction: &mut impl Transaction, calls: &[Input]) -> Result<u64, Failure> {
    let mut committed = 0;
    'calls: for input in calls {
        let ids = ids(input);
        let mut rows = [[0; ROW_BYTES]; 3];
        for (table, (row, id)) in rows.iter_mut().zip(ids).enumerate() {
            let Some(found) = transaction.get(table, id)? else { continue 'calls };
            *row = found;
        }
        let Some(rows) = moved(&rows, input) else { continue };
        for (table, (row, id)) in rows.iter().zip(ids).enumerate() {
            transaction.put(table, id, row)?;
        }
        committed += 1;
    }
    Ok(committed)
}

/// The ids of a call's rows, in the order of the tables.
fn ids(input: &Input) -> [u32; 3] {
    [input.branch, input.teller, input.account].map(|id| id as u32)
}

/// The rows after a call; `None` if it aborts because its code is wrong or a balance does not suffice.
fn moved(rows: &[Value; 3], input: &Input) -> Option<[Value; 3]> {
    let amount = i64::from(input.amount);
    let suffices = rows.iter().all(|row| (0..=BALANCE_MAX).contains(&(balance(row) + amount)));
    if number(&rows[2], 8) != input.code || !suffices {
        return None;
    }
    Some(rows.map(|mut row| {
        let new = balance(&row) + amount;
        row[..8].copy_from_slice(&new.to_le_bytes());
        row
    }))
}

/// Appends a row's balance, if the row is the next of its table and all that a row is.
#[cfg(any(feature = "compare-lmdb", feature = "compare-rocksdb"))]
pub(super) fn collect(
    balances: &mut super::rows::Balances,
    table: usize,
    id: u32,
    bytes: &[u8],
) -> Option<()> {
    let table = balances.get_mut(table)?;
    if id as usize != table.len() + 1 {
        return None;
    }
    table.push(balance(bytes.try_into().ok()?));
    Some(())
}

#[cfg(all(test, any(feature = "compare-lmdb", feature = "compare-rocksdb")))]
mod tests {
    use super::super::rows::Balances;
    use super::*;

    #[test]
    fn only_whole_rows_in_their_order_are_collected() {
        let rows = [5, 7].map(|balance| value(&Row { id: 1, code: 9, balance }));
        let mut balances = Balances::default();
        for (table, id, bytes) in [(0, 1, rows[0]), (2, 1, rows[1]), (2, 2, rows[0])] {
            assert_eq!(collect(&mut balances, table, id, &bytes), Some(()));
        }
        assert_eq!(balances, [vec![5], vec![], vec![7, 5]]);
        let refused: [(usize, u32, &[u8]); 4] =
            [(2, 4, &rows[0]), (2, 2, &rows[0]), (3, 1, &rows[0]), (2, 3, &rows[0][1..])];
        for (table, id, bytes) in refused {
            assert_eq!(collect(&mut balances, table, id, bytes), None, "{table} {id}");
        }
    }
}
