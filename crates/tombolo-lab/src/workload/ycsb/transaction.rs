//! The five transactions.

use std::ops::ControlFlow;

use tombolo_engine::hints::Hints;
use tombolo_engine::procedure::{Ahead, Procedure};
use tombolo_engine::transaction::{Committed, Reading, Stop};
use tombolo_storage::error::{Result, SchemaError};
use tombolo_storage::key::Range;
use tombolo_storage::row::{Fields, RowId};
use tombolo_storage::schema::{DeclaredTable, Schema};
use tombolo_storage::store::{Index, Order, Store, Table};

use super::input::Input;
use super::schema::{Record, RecordKey};
use super::{INSERT, MODIFY, SCAN, UPDATE};
use crate::workload::labelled::Labelled;
use crate::workload::resolve::Resolve;

/// The abort reason of a transaction about a record that is not there: one of *latest* whose insertion a run made the
/// input of and did not come to.
pub const NO_SUCH_KEY: &str = "unknown_key";

handles! {
    /// All transactions, bound.
    #[derive(Debug)]
    pub struct Transactions {
        pub(super) records: Table<Record>,
        pub(super) key: Index<RecordKey>,
    }
}

impl Transactions {
    /// All fields of a record: the sum of their bytes stands for handing them to a client.
    #[inline]
    fn read<S: Store>(&self, tx: &Reading<'_, S>, row: RowId) -> Result<u64> {
        let record = tx.pin(&self.records, row)?;
        let bytes = Record::FIELDS.iter().flat_map(|field| record.get(*field));
        Ok(bytes.map(|byte| u64::from(*byte)).sum())
    }

    #[inline]
    fn scan<S: Store>(
        &self,
        mut tx: Reading<'_, S>,
        input: &Input,
    ) -> std::result::Result<Committed<u64>, Stop> {
        let (mut rows, mut found) = ([RowId::new(0); super::input::SCAN_MAX], 0);
        let range = Range::between(input.key, i32::MAX);
        tx.scan(&self.key, range, Order::Forward, |row| {
            rows[found] = row;
            found += 1;
            if found == usize::from(input.count) {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })?;
        let mut sum = 0;
        for row in &rows[..found] {
            sum += self.read(&tx, *row)?;
        }
        tx.commit(sum)
    }
}

impl Procedure for Transactions {
    type Input = Input;
    /// The sum of the bytes that were read.
    type Answer = u64;

    fn bind(schema: &Schema) -> std::result::Result<Self, SchemaError> {
        Resolve::resolve(schema)
    }

    #[inline(always)]
    fn removals<S: Store>(&self, store: &S) -> Option<u64> {
        store.removals(&self.key)
    }

    #[inline(always)]
    fn locate<S: Store>(&self, store: &S, input: &Input, ahead: Ahead, hints: &mut Hints) {
        if [INSERT, SCAN].contains(&input.kind) {
            return;
        }
        match ahead {
            Ahead::Keys => store.prefetch_lookup(&self.key, input.key),
            Ahead::Rows => {
                if let Some(row) = store.find_ahead(&self.key, input.key) {
                    store.prefetch(&self.records, row, Fields::whole(Record::SIZE));
                    hints.push(row);
                }
            }
        }
    }

    #[inline]
    fn run<S: Store>(
        &self,
        tx: Reading<'_, S>,
        input: &Input,
    ) -> std::result::Result<Committed<u64>, Stop> {
        self.run_located(tx, input, &[])
    }

    #[inline]
    fn run_located<S: Store>(
        &self,
        mut tx: Reading<'_, S>,
        input: &Input,
        located: &[RowId],
    ) -> std::result::Result<Committed<u64>, Stop> {
        let is_write = [UPDATE, MODIFY].contains(&input.kind);
        match input.kind {
            SCAN => return self.scan(tx, input),
            INSERT => {
                let mut tx = tx.write();
                let row = tx.create(&self.records, |row| {
                    Record::fill(row, input.key, &input.value);
                })?;
                tx.insert(&self.key, input.key, row)?;
                return tx.commit(0);
            }
            _ => {}
        }
        let row = match *located {
            [row] => Some(row),
            _ if is_write => tx.lookup_for_update(&self.key, input.key)?,
            _ => tx.lookup(&self.key, input.key)?,
        };
        let Some(row) = row else { return tx.abort(NO_SUCH_KEY) };
        let sum = if input.kind == UPDATE { 0 } else { self.read(&tx, row)? };
        if !is_write {
            return tx.commit(sum);
        }
        let field = Record::FIELDS[usize::from(input.field)];
        let mut tx = tx.write();
        tx.update(&self.records, row, Fields::none().with(field), |row| {
            row.set(field, &input.value);
        })?;
        tx.commit(sum)
    }
}
