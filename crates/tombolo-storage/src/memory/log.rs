//! The place where durability attaches: the calls that a memory store makes for every change.
//!
//! [`NoLog`] keeps nothing and leaves no instruction behind; [`ValueLog`] gathers after-images
//! (TPK-8) in a buffer that the owner takes once per batch, or drops them as each transaction ends;
//! [`CommandLog`](crate::command_log::CommandLog) gathers commands. Calls come in execution order, after the
//! change, and are inlined.
//!
//! The call with which a transaction logs more than it may returns an error and is logged all the
//! same: so log and rows stay in step. The commit is refused, too.
//!
//! Not here: what a record looks like (`value_log/record.rs`), groups and files
//! (`value_log/writer.rs`).

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

/// The transaction has logged more than it may: it only aborts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong;

/// Called with every change of a row, in execution order. A change that makes the transaction too
/// long is logged, too.
///
/// Index entries are not logged: they follow from the rows.
pub trait Log: Default + std::fmt::Debug + 'static {
    /// Whether anything is kept.
    const KEEPS: bool;
    /// Whether it can log other changes of the schema than new tables.
    const CHANGES_TABLES: bool = true;
    /// The schema became another, outside transactions.
    fn schema_changed(&mut self, change: &SchemaRecord<'_>);
    /// Bytes from `offset` on of a row are now `after`.
    ///
    /// # Errors
    /// [`TooLong`].
    fn updated(&mut self, table: u32, row: u32, offset: usize, after: &[u8])
    -> Result<(), TooLong>;
    /// The variable-length column whose handle lies at `offset` of a row is now `value`.
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
    /// A row was made.
    ///
    /// # Errors
    /// [`TooLong`].
    fn created(&mut self, table: u32, row: u32, fixed: &[u8]) -> Result<(), TooLong>;
    /// A row was deleted.
    ///
    /// # Errors
    /// [`TooLong`].
    fn deleted(&mut self, table: u32, row: u32) -> Result<(), TooLong>;
    /// A procedure got a number. Only a log of commands keeps that.
    fn procedure_defined(&mut self, number: ProcedureNumber, version: u32, name: &str) {
        let _ = (number, version, name);
    }
    /// The next transaction is `procedure`, with the arguments that `encode` writes into at most
    /// `bytes_max` bytes; it returns how many they are. Only a log of commands calls it.
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
    /// Where the open transaction's records end now.
    fn end(&self) -> usize {
        0
    }
    /// The changes behind that place were taken back, and the transaction continues.
    fn cut(&mut self, end: usize) {
        let _ = end;
    }
    /// How many bytes wait to be taken.
    fn waiting_bytes(&self) -> usize;
    /// Puts what the transactions ended since the last call have logged into `into`, which must be
    /// empty and whose memory is used from now on.
    fn take(&mut self, into: &mut LogBuffer);
    /// Sets the longest log of one transaction.
    fn set_transaction_bytes_max(&mut self, bytes: usize);
    /// Sets what the open transaction may log in addition to what it has logged; `None` when it has
    /// ended: the previous bound holds again. Only a log of values keeps that.
    fn set_rest_bytes_max(&mut self, bytes: Option<usize>) {
        let _ = bytes;
    }
}

impl<P: MemoryProfile> MemoryStore<P> {
    /// The schema became another: counts that and logs it.
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

/// No log: nothing is kept of a change (LG-2).
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

/// After-images of what changed, in a buffer (TPK-8, TPK-20).
#[derive(Debug)]
pub struct ValueLog {
    records: RecordWriter,
    transaction_bytes_max: usize,
    /// Where the open transaction's records end at the latest.
    end_max: usize,
    /// How much of that is what the open transaction had logged when its rest was bounded. The
    /// caller that sets the bound also removes it at the transaction's end, so it affects no other
    /// transaction.
    preface_bytes: usize,
    /// What a transaction might log before its rest was bounded.
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
    /// From here on nothing is kept of a transaction that has ended. What it may log is bounded as with
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

    /// Finds where the open transaction's records end at the latest.
    #[inline(always)]
    fn bound(&mut self) {
        self.end_max = self.records.start() + self.transaction_bytes_max;
    }

    /// Whether the open transaction is no longer than it may be.
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
