//! The place where durability attaches: what a memory store tells of every change.
//!
//! [`NoLog`] keeps nothing and leaves no instruction behind; [`ValueLog`] gathers after-images
//! (TPK-8) in a buffer that the owner takes once per batch;
//! [`CommandLog`](crate::command_log::CommandLog) gathers commands. Calls come in execution order, after the
//! change, and are inlined.
//!
//! Not here: what a record looks like (`value_log/record.rs`), groups and files
//! (`value_log/writer.rs`).

use crate::command_log::ProcedureNumber;
use crate::command_log::record::VALUES_BYTES_MAX;
use crate::error::{Error, Result};
use crate::plant::{self, Plant};
use crate::schema::{ColumnDef, IndexDef, TableDef};
use crate::value_log::definition;
use crate::value_log::record::{LogBuffer, RecordWriter};

/// The longest log of one transaction, in bytes, unless a store is told otherwise.
pub const TRANSACTION_LOG_BYTES_MAX: usize = 64 << 20;

/// Told of every change of a row, in execution order.
///
/// Index entries are not logged: they follow from the rows.
pub trait Log: Default + std::fmt::Debug + 'static {
    /// Whether anything is kept.
    const KEEPS: bool;
    /// Whether it can tell of indexes and columns that were added.
    const ADDS_INDEXES: bool = true;
    /// A table was made, outside transactions, at this position of the schema.
    fn table_created(&mut self, position: u32, table: &TableDef);
    /// An index of a table was added, outside transactions.
    fn index_created(&mut self, table: u32, index: &IndexDef);
    /// A column was added to a table, outside transactions, at this position of the table.
    fn column_added(&mut self, table: u32, position: u32, column: &ColumnDef);
    /// Bytes from `offset` on of a row are now `after`.
    fn updated(&mut self, table: u32, row: u32, offset: usize, after: &[u8]);
    /// The variable-length column whose handle lies at `offset` of a row is now `value`.
    fn variable_set(&mut self, table: u32, row: u32, offset: usize, value: &[u8]);
    /// A row was made.
    fn created(&mut self, table: u32, row: u32, fixed: &[u8]);
    /// A row was deleted.
    fn deleted(&mut self, table: u32, row: u32);
    /// A procedure got a number. Only a log of commands keeps that.
    fn procedure_defined(&mut self, number: ProcedureNumber, version: u32, name: &str) {
        let _ = (number, version, name);
    }
    /// The next transaction is `procedure`, with the arguments that `encode` writes into at most
    /// `bytes_max` bytes; it answers how many they are. Only a log of commands calls it.
    ///
    /// # Errors
    /// `LogTooLong`.
    #[inline(always)]
    fn command(
        &mut self,
        procedure: ProcedureNumber,
        bytes_max: usize,
        encode: impl FnOnce(&mut [u8]) -> usize,
    ) -> Result<()> {
        let _ = (procedure, bytes_max, encode);
        Ok(())
    }
    /// Why the open transaction must not commit, if it must not.
    fn refusal(&self) -> Option<Error>;
    /// The transaction's changes stand.
    fn committed(&mut self);
    /// The transaction's changes were taken back.
    fn aborted(&mut self);
    /// How many bytes wait to be taken.
    fn waiting_bytes(&self) -> usize;
    /// Puts what the transactions ended since the last call have logged into `into`, which must be
    /// empty and whose memory is used from now on.
    fn take(&mut self, into: &mut LogBuffer);
    /// Sets the longest log of one transaction.
    fn set_transaction_bytes_max(&mut self, bytes: usize);
    /// Sets what the open transaction may log beside what it has logged; `None` when it has ended. Only
    /// a log of values keeps that.
    fn set_rest_bytes_max(&mut self, bytes: Option<usize>) {
        let _ = bytes;
    }
}

/// No log: nothing is kept of a change (LG-2).
#[derive(Clone, Copy, Debug, Default)]
pub struct NoLog;

impl Log for NoLog {
    const KEEPS: bool = false;
    fn table_created(&mut self, _: u32, _: &TableDef) {}
    fn index_created(&mut self, _: u32, _: &IndexDef) {}
    fn column_added(&mut self, _: u32, _: u32, _: &ColumnDef) {}
    #[inline(always)]
    fn updated(&mut self, _: u32, _: u32, _: usize, _: &[u8]) {}
    #[inline(always)]
    fn variable_set(&mut self, _: u32, _: u32, _: usize, _: &[u8]) {}
    #[inline(always)]
    fn created(&mut self, _: u32, _: u32, _: &[u8]) {}
    #[inline(always)]
    fn deleted(&mut self, _: u32, _: u32) {}
    #[inline(always)]
    fn refusal(&self) -> Option<Error> {
        None
    }
    #[inline(always)]
    fn committed(&mut self) {}
    #[inline(always)]
    fn aborted(&mut self) {}
    fn waiting_bytes(&self) -> usize {
        0
    }
    fn take(&mut self, _: &mut LogBuffer) {}
    fn set_transaction_bytes_max(&mut self, _: usize) {}
}

/// After-images of what changed, in a buffer (TPK-8, TPK-20).
#[derive(Debug)]
pub struct ValueLog {
    records: RecordWriter,
    transaction_bytes_max: usize,
    /// How much of that is what the open transaction had logged when its rest was bounded. Whoever
    /// bounds it says when it has ended, so that no other transaction has anything to do with it.
    preface_bytes: usize,
}

impl Default for ValueLog {
    fn default() -> Self {
        let records = RecordWriter::default();
        Self { records, transaction_bytes_max: TRANSACTION_LOG_BYTES_MAX, preface_bytes: 0 }
    }
}

impl Log for ValueLog {
    const KEEPS: bool = true;

    fn table_created(&mut self, position: u32, table: &TableDef) {
        self.records.table_created(position, &definition::encode(table));
        self.records.commit();
    }

    fn index_created(&mut self, table: u32, index: &IndexDef) {
        self.records.index_created(table, &definition::encode_index(index));
        self.records.commit();
    }

    fn column_added(&mut self, table: u32, position: u32, column: &ColumnDef) {
        self.records.column_added(table, position, &definition::encode_column(column));
        self.records.commit();
    }

    #[inline(always)]
    fn updated(&mut self, table: u32, row: u32, offset: usize, after: &[u8]) {
        if plant::is(Plant::UpdateCutShort) && after.len() > 8 {
            return self.records.updated(table, row, offset, &after[..8]);
        }
        self.records.updated(table, row, offset, after);
    }

    fn variable_set(&mut self, table: u32, row: u32, offset: usize, value: &[u8]) {
        if plant::is(Plant::VariableNotLogged) {
            return;
        }
        self.records.value_set(table, row, offset, value);
    }

    #[inline(always)]
    fn created(&mut self, table: u32, row: u32, fixed: &[u8]) {
        self.records.inserted(table, row, fixed);
    }

    fn deleted(&mut self, table: u32, row: u32) {
        self.records.deleted(table, row);
    }

    #[inline(always)]
    fn refusal(&self) -> Option<Error> {
        let bytes_max = self.transaction_bytes_max;
        let is_long = self.records.open_bytes() > bytes_max;
        if is_long {
            Some(Error::LogTooLong { bytes_max: (bytes_max - self.preface_bytes) as u64 })
        } else {
            None
        }
    }

    #[inline(always)]
    fn committed(&mut self) {
        self.records.commit();
    }

    fn aborted(&mut self) {
        if plant::is(Plant::AbortedRecordsKept) {
            return self.records.commit();
        }
        self.records.abort();
    }

    fn waiting_bytes(&self) -> usize {
        self.records.ended_bytes()
    }

    fn take(&mut self, into: &mut LogBuffer) {
        self.records.take(into);
    }

    fn set_transaction_bytes_max(&mut self, bytes: usize) {
        // The length of a transaction is kept in 30 bits, in a command log too.
        self.transaction_bytes_max = bytes.min(VALUES_BYTES_MAX);
    }

    fn set_rest_bytes_max(&mut self, bytes: Option<usize>) {
        self.preface_bytes = bytes.map_or(0, |_| self.records.open_bytes());
        if let Some(bytes) = bytes {
            self.set_transaction_bytes_max(bytes.saturating_add(self.preface_bytes));
        }
    }
}
