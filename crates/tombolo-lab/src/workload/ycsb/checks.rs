//! The conditions of consistency, and how each is broken on purpose. The definition has none; these follow from what
//! is written: every value is its own record's, and no record that was loaded is lost.

use tombolo_engine::procedure::Procedure;
use tombolo_engine::transaction::execute;
use tombolo_storage::error::Result;
use tombolo_storage::row::{Column, Fields};
use tombolo_storage::store::Store;
use tombolo_storage::types::Char;

use super::schema::{DIGITS, Record, value};
use super::transaction::Transactions;
use crate::store::DynamicStore;
use crate::workload::Check;
use crate::workload::error::WorkloadError;
use crate::workload::rows::{HasRows, in_transaction};

/// The conditions' names, in order.
pub const CHECKS: [&str; 2] = ["records", "values"];

/// Asks all conditions of the database in `store`.
///
/// # Errors
/// When the store does not hold the table or refuses to be read.
pub fn checks(store: &mut dyn DynamicStore) -> std::result::Result<Vec<Check>, WorkloadError> {
    let table = Transactions::bind(store.schema())?.records;
    let (mut keys, mut foreign) = (Vec::new(), None);
    in_transaction(store, |mut store| -> Result<()> {
        store.for_each_row(&table, |row| {
            let key = row.get(Record::KEY);
            keys.push(key);
            let own = value(key, || 0);
            let is_own =
                |field: Column<Record, _>| row.get::<Char<100>>(field)[..DIGITS] == own[..DIGITS];
            if !Record::FIELDS.into_iter().all(is_own) {
                foreign.get_or_insert(key);
            }
        })
    })?;
    keys.sort_unstable();
    // Records are inserted behind those that were loaded, perhaps not all of them, and none is ever deleted.
    let missing = keys.first().is_none_or(|first| *first != 1);
    let twice = keys.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0]);
    let records = match (missing, twice) {
        (true, _) => Some("record 1 is missing".to_owned()),
        (_, twice) => twice.map(|key| format!("record {key} is there twice")),
    };
    let values = foreign.map(|key| format!("record {key} has a value of another one"));
    let check = |(name, violation)| Check { name, violation };
    Ok(CHECKS.into_iter().zip([records, values]).map(check).collect())
}

/// Breaks the condition called `check`, and no other.
///
/// # Errors
/// When there is none of that name, there is no record 1, or the store refuses a call.
pub fn tamper<S: Store>(store: &mut S, check: &str) -> std::result::Result<(), WorkloadError> {
    let Transactions { records, key } = Transactions::bind(store.schema())?;
    if !CHECKS.contains(&check) {
        return Err(WorkloadError::NoSuchCheck {
            name: check.to_owned(),
            known: "records or values",
        });
    }
    let is_done = execute(store, |mut tx| {
        let Some(row) = tx.lookup_for_update(&key, 1)? else { return tx.commit(false) };
        let mut tx = tx.write();
        if check == CHECKS[0] {
            tx.remove(&key, 1, row)?;
            tx.delete(&records, row)?;
        } else {
            let fields = Fields::none().with(Record::FIELD0);
            tx.update(&records, row, fields, |row| row.set(Record::FIELD0, &value(2, || b'x')))?;
        }
        tx.commit(true)
    })?;
    if is_done { Ok(()) } else { Err(WorkloadError::NothingToTamper("a record 1")) }
}
