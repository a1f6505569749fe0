//! `Log`: the calls that a memory store makes for every change, to which durability attaches.
//!
//! [`NoLog`] keeps nothing and leaves no instruction behind; [`ValueLog`] collects after-images
//! (TPK-8) in a buffer that the owner takes once per batch, or discards them as each transaction ends;
//! [`CommandLog`](crate::command_log::CommandLog) collects commands. Calls arrive in execution order, after the
//! change, and are inlined.
//!
//! A call with which a transaction exceeds its log limit returns an error but is logged nevertheless, so that
//! log and rows stay in step. The commit is refused, too.
//!
//! Not here: the format of a record (`value_log/record.rs`), groups and files
//! (`value_log/writer/`).

use super::store::MemoryStore;
use crate::command_log::ProcedureNumber;
use crate::command_log::record::VALUES_BYTES_MAX;
use crate::error::{Error, Result};
use crate::plant::{self, Plant};
use crate::profile::MemoryProfile;
use crate::value_log::record::{LogBuffer, RecordWriter};
use crate::value_log::{SchemaKind, SchemaRecord};

/// The longest log of one transaction, in bytes, unless a store sets another one.
pub const TRANSACTION_LOG_BYTES_MAX: usize = 64 << 20;

/// The transaction has exceeded its log limit: it can only abort.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong;

/// Called with every change of a row, in execution order. A change that exceeds the limit is logged, too.
///
/// Index entries are not logged: they follow from the rows.
pub trait Log: Default + std::fmt::Debug + 'static {
    /// Whether records are kept.
    const KEEPS: bool;
    /// Whether it can log changes of the schema other than new tables.
    const CHANGES_TABLES: bool = true;
    /// Logs a change of the schema, outside transactions.
    fn schema_changed(&mut self, change: &SchemaRecord<'_>);
    /// Logs that a row's bytes from `offset` on are now `after`.
    ///
    /// # Errors
    /// [`TooLong`].
    fn updated(&mut self, table: u32, row: u32, offset: usize, after: &[u8])
    -> Result<(), TooLong>;
    /// Logs that the variable-length column whose handle is at `offset` of a row is now `value`.
    ///
    /// # Errors
    /// [`TooLong`].
    fn variable_set(
        &mut self,
        table: u32,
        row: u32,
        offset: usize,
        value: &[u8],
    ) -> Result<(), TooLong>;
    /// Logs that a row was created.
    ///
    /// # Errors
    /// [`TooLong`].
    fn created(&mut self, table: u32, row: u32, fixed: &[u8]) -> Result<(), TooLong>;
    /// Logs that a row was deleted.
    ///
    /// # Errors
    /// [`TooLong`].
    fn deleted(&mut self, table: u32, row: u32) -> Result<(), TooLong>;
    /// Logs the number of a procedure. Only a command log keeps it.
    fn procedure_defined(&mut self, number: ProcedureNumber, version: u32, name: &str) {
        let _ = (number, version, name);
    }
    /// Declares that the next transaction is `procedure`, with the arguments that `encode` writes into at most
    /// `bytes_max` bytes; `encode` returns their length. Only a command log calls it.
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
    /// The reason that the open transaction must not commit, if any.
    fn refusal(&self) -> Option<Error>;
    /// Ends the open transaction, which has committed.
    fn committed(&mut self);
    /// Ends the open transaction, whose changes were undone.
    fn aborted(&mut self);
    /// The current end of the open transaction's records.
    fn end(&self) -> usize {
        0
    }
    /// The number of bytes that the open transaction has logged.
    fn open_bytes(&self) -> usize {
        0
    }
    /// Discards the records after this place, whose changes were undone; the transaction continues.
    fn cut(&mut self, end: usize) {
        let _ = end;
    }
    /// The number of bytes waiting to be taken.
    fn waiting_bytes(&self) -> usize;
    /// Moves the records of transactions that ended since the last call into `into`, which must be
    /// empty and whose memory is used from now on.
    fn take(&mut self, into: &mut LogBuffer);
    /// Sets the longest log of one transaction.
    fn set_transaction_bytes_max(&mut self, bytes: usize);
    /// Sets the bytes that the open transaction may log from now on; `None` when it has
    /// ended, which restores the previous limit. Only a value log has this.
    fn set_rest_bytes_max(&mut self, bytes: Option<usize>) {
        let _ = bytes;
    }
}

impl<P: MemoryProfile> MemoryStore<P> {
    /// Whether the open transaction has logged anything.
    pub fn has_logged(&self) -> bool {
        self.log.open_bytes() > 0
    }

    /// Counts and logs a change of the schema.
    pub(super) fn log_change(
        &mut self,
        kind: SchemaKind,
        table: usize,
        position: Option<usize>,
        bytes: &[u8],
    ) {
        let (table, position) = (table as u32, position.map(|position| position as u32));
        let number = Some(self.schema.count_change());
        self.log.schema_changed(&SchemaRecord { number, kind, table, position, bytes });
    }
}

/// No log: changes are not recorded (LG-2).
#[derive(Clone, Copy, Debug, Default)]
pub struct NoLog;

impl Log for NoLog {
    const KEEPS: bool = false;
    fn schema_changed(&mut self, _: &SchemaRecord<'_>) {}
    #[inline(always)]
    fn updated(&mut self, _: u32, _: u32, _: usize, _: &[u8]) -> Result<(), TooLong> {
        Ok(())
    }
    #[inline(always)]
    fn variable_set(&mut self, _: u32, _: u32, _: usize, _: &[u8]) -> Result<(), TooLong> {
        Ok(())
    }
    #[inline(always)]
    fn created(&mut self, _: u32, _: u32, _: &[u8]) -> Result<(), TooLong> {
        Ok(())
    }
    #[inline(always)]
    fn deleted(&mut self, _: u32, _: u32) -> Result<(), TooLong> {
        Ok(())
    }
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

/// After-images of changes, in a buffer (TPK-8, TPK-20).
#[derive(Debug)]
pub struct ValueLog {
    records: RecordWriter,
    transaction_bytes_max: usize,
    /// The latest end of the open transaction's records.
    end_max: usize,
    /// The bytes that the open transaction had logged when its rest was limited. The
    /// caller that sets this limit also removes it at the transaction's end, so it affects no other
    /// transaction.
    preface_bytes: usize,
    /// The limit of a transaction before its rest was limited.
    bytes_max_before: Option<usize>,
}

impl Default for ValueLog {
    fn default() -> Self {
        let (records, transaction_bytes_max) = (RecordWriter::default(), TRANSACTION_LOG_BYTES_MAX);
        let end_max = records.start() + transaction_bytes_max;
        let bytes_max_before = None;
        Self { records, transaction_bytes_max, end_max, preface_bytes: 0, bytes_max_before }
    }
}

impl ValueLog {
    /// From here on the records of ended transactions are discarded. Transactions are limited as with
    /// files, so that a program meets the same refusals in memory as on disk.
    pub(super) fn drop_ended(&mut self) {
        self.records.drop_records();
        self.bound();
    }

    /// Ends the open transaction.
    #[inline(always)]
    fn commit(&mut self) {
        if self.records.open_bytes() == 0 {
            return;
        }
        if self.records.drops() {
            return self.records.abort();
        }
        self.records.commit_as(0);
        self.bound();
    }

    /// Computes the latest end of the open transaction's records.
    #[inline(always)]
    fn bound(&mut self) {
        self.end_max = self.records.start() + self.transaction_bytes_max;
    }

    /// Whether the open transaction is within its limit.
    #[inline(always)]
    fn held(&self) -> Result<(), TooLong> {
        if self.records.end() > self.end_max { Err(TooLong) } else { Ok(()) }
    }
}

impl Log for ValueLog {
    const KEEPS: bool = true;

    fn schema_changed(&mut self, change: &SchemaRecord<'_>) {
        self.records.schema_changed(change);
        self.commit();
    }

    #[inline(always)]
    fn updated(
        &mut self,
        table: u32,
        row: u32,
        offset: usize,
        after: &[u8],
    ) -> Result<(), TooLong> {
        let is_cut = plant::is(Plant::UpdateCutShort) && after.len() > 8;
        let after = if is_cut { &after[..8] } else { after };
        self.records.updated(table, row, offset, after);
        self.held()
    }

    fn variable_set(
        &mut self,
        table: u32,
        row: u32,
        offset: usize,
        value: &[u8],
    ) -> Result<(), TooLong> {
        if plant::is(Plant::VariableNotLogged) {
            return Ok(());
        }
        self.records.value_set(table, row, offset, value);
        self.held()
    }

    #[inline(always)]
    fn created(&mut self, table: u32, row: u32, fixed: &[u8]) -> Result<(), TooLong> {
        self.records.inserted(table, row, fixed);
        self.held()
    }

    fn deleted(&mut self, table: u32, row: u32) -> Result<(), TooLong> {
        self.records.deleted(table, row);
        self.held()
    }

    #[inline(always)]
    fn refusal(&self) -> Option<Error> {
        let bytes_max = self.transaction_bytes_max;
        if self.held().is_err() {
            Some(Error::LogTooLong { bytes_max: (bytes_max - self.preface_bytes) as u64 })
        } else {
            None
        }
    }

    #[inline(always)]
    fn committed(&mut self) {
        self.commit();
    }

    fn end(&self) -> usize {
        self.records.end()
    }

    fn open_bytes(&self) -> usize {
        self.records.open_bytes()
    }

    fn cut(&mut self, end: usize) {
        self.records.cut(end);
    }

    fn aborted(&mut self) {
        if plant::is(Plant::AbortedRecordsKept) {
            return self.commit();
        }
        self.records.abort();
    }

    #[inline]
    fn waiting_bytes(&self) -> usize {
        self.records.ended_bytes()
    }

    fn take(&mut self, into: &mut LogBuffer) {
        self.records.take(into);
        self.bound();
    }

    #[inline]
    fn set_transaction_bytes_max(&mut self, bytes: usize) {
        // The length of a transaction is kept in 30 bits, in a command log too.
        self.transaction_bytes_max = bytes.min(VALUES_BYTES_MAX);
        self.bound();
    }

    fn set_rest_bytes_max(&mut self, bytes: Option<usize>) {
        self.preface_bytes = bytes.map_or(0, |_| self.records.open_bytes());
        let before = self.bytes_max_before.take().unwrap_or(self.transaction_bytes_max);
        self.bytes_max_before = bytes.map(|_| before);
        let rest = bytes.map_or(before, |bytes| bytes.saturating_add(self.preface_bytes));
        self.set_transaction_bytes_max(rest);
    }
}
