//! The two transactions: one reads some rows, one updates some.

use tombolo_engine::hints::Hints;
use tombolo_engine::procedure::{Ahead, Procedure};
use tombolo_engine::transaction::{Committed, Reading, Stop};
use tombolo_storage::error::SchemaError;
use tombolo_storage::row::{Fields, RowId};
use tombolo_storage::schema::{DeclaredTable, Schema};
use tombolo_storage::store::{Index, Store, Table};

use super::ROWS_MAX;
use super::input::Input;
use super::schema::{Item, ItemKey};
use crate::workload::WorkloadInput;
use crate::workload::resolve::Resolve;

/// The abort reason of a transaction about a row that is not there.
pub const NO_SUCH_KEY: &str = "unknown_key";

handles! {
    /// Both transactions, bound.
    #[derive(Debug)]
    pub struct Transactions {
        pub(super) items: Table<Item>,
        pub(super) key: Index<ItemKey>,
    }
}

impl Procedure for Transactions {
    type Input = Input;
    /// The sum of the counters that were found.
    type Answer = i64;

    fn bind(schema: &Schema) -> Result<Self, SchemaError> {
        Resolve::resolve(schema)
    }

    #[inline(always)]
    fn removals<S: Store>(&self, store: &S) -> Option<u64> {
        store.removals(&self.key)
    }

    /// Of transactions with more rows than hints take only the first rows are asked for.
    #[inline(always)]
    fn locate<S: Store>(&self, store: &S, input: &Input, ahead: Ahead, hints: &mut Hints) {
        for &key in input.keys().iter().take(Hints::ROWS_MAX) {
            match ahead {
                Ahead::Keys => store.prefetch_lookup(&self.key, key),
                Ahead::Rows => {
                    if let Some(row) = store.find_ahead(&self.key, key) {
                        store.prefetch(&self.items, row, Fields::whole(Item::SIZE));
                        hints.push(row);
                    }
                }
            }
        }
    }

    #[inline]
    fn run<S: Store>(&self, tx: Reading<'_, S>, input: &Input) -> Result<Committed<i64>, Stop> {
        self.run_located(tx, input, &[])
    }

    #[inline]
    fn run_located<S: Store>(
        &self,
        mut tx: Reading<'_, S>,
        input: &Input,
        located: &[RowId],
    ) -> Result<Committed<i64>, Stop> {
        let (keys, is_update) = (input.keys(), input.kind() == super::UPDATE);
        let (mut rows, mut found) = ([RowId::new(0); ROWS_MAX], [0; ROWS_MAX]);
        for (i, &key) in keys.iter().enumerate() {
            let row = match located.get(i) {
                Some(row) if located.len() == keys.len() => Some(*row),
                _ if is_update => tx.lookup_for_update(&self.key, key)?,
                _ => tx.lookup(&self.key, key)?,
            };
            let Some(row) = row else { return tx.abort(NO_SUCH_KEY) };
            (rows[i], found[i]) = (row, tx.pin(&self.items, row)?.get(Item::UPDATES));
        }
        let sum = found[..keys.len()].iter().sum();
        if !is_update {
            return tx.commit(sum);
        }
        let mut tx = tx.write();
        for (row, updates) in rows.into_iter().zip(found).take(keys.len()) {
            tx.update(&self.items, row, Item::UPDATED, |row| row.set(Item::UPDATES, updates + 1))?;
        }
        tx.commit(sum)
    }
}
