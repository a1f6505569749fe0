//! `CommandLog`: what a store logs when its log holds commands.
//!
//! ```text
//!   command ──► named ──commit, it wrote──► in the buffer
//!                 └── commit of a reader, abort ──► forgotten
//! ```
//!
//! The arguments are encoded where they will stay, behind room for their word; committing writes the
//! word. A change of a row costs one store of a constant, a flag that there is something to log.
//!
//! Not here: what arguments mean. Invariant: a transaction that wrote commits only if a command was
//! named for it.

use super::record::{
    ARGUMENTS_BYTES_MAX, PROCEDURE_NAME_BYTES_MAX, ProcedureNumber, procedure_bytes,
};
use crate::error::{Error, Result};
use crate::memory::log::{Log, TooLong};
use crate::value_log::record::RecordWriter;
use crate::value_log::{LogBuffer, SchemaKind, SchemaRecord};

/// Keeps the commands of transactions that wrote, in a buffer.
#[derive(Debug, Default)]
pub struct CommandLog {
    records: RecordWriter,
    /// The word of the command that was named, without its length; 0 for none.
    word: u32,
    /// Whether the open transaction changed a row.
    wrote: bool,
}

impl CommandLog {
    /// Forgets the command that was named, and the open transaction with it.
    #[inline(always)]
    fn forget(&mut self) {
        self.records.abort();
        (self.word, self.wrote) = (0, false);
    }
}

impl Log for CommandLog {
    const KEEPS: bool = true;
    // Procedures are run again on the tables they knew.
    const CHANGES_TABLES: bool = false;

    fn schema_changed(&mut self, change: &SchemaRecord<'_>) {
        let is_new_table = change.kind == SchemaKind::TableCreated;
        assert!(is_new_table, "tables of a store with a command log stay as they are");
        self.forget();
        self.records.schema_changed(change);
        self.records.commit();
    }

    #[inline(always)]
    fn updated(&mut self, _: u32, _: u32, _: usize, _: &[u8]) -> Result<(), TooLong> {
        self.wrote = true;
        Ok(())
    }

    #[inline(always)]
    fn variable_set(&mut self, _: u32, _: u32, _: usize, _: &[u8]) -> Result<(), TooLong> {
        self.wrote = true;
        Ok(())
    }

    #[inline(always)]
    fn created(&mut self, _: u32, _: u32, _: &[u8]) -> Result<(), TooLong> {
        self.wrote = true;
        Ok(())
    }

    #[inline(always)]
    fn deleted(&mut self, _: u32, _: u32) -> Result<(), TooLong> {
        self.wrote = true;
        Ok(())
    }

    fn procedure_defined(&mut self, number: ProcedureNumber, version: u32, name: &str) {
        assert!(
            (1..=PROCEDURE_NAME_BYTES_MAX).contains(&name.len()),
            "a procedure's name has 1 to {PROCEDURE_NAME_BYTES_MAX} bytes, not {}",
            name.len()
        );
        self.forget();
        let bytes = procedure_bytes(version, name);
        self.records.fill(bytes.len(), |room| {
            room.copy_from_slice(&bytes);
            bytes.len()
        });
        self.records.commit_as(number.procedure_word());
    }

    #[inline(always)]
    fn command(
        &mut self,
        procedure: ProcedureNumber,
        bytes_max: usize,
        encode: impl FnOnce(&mut [u8]) -> usize,
    ) -> Result<()> {
        self.forget();
        self.records.fill(bytes_max, encode);
        if self.records.open_bytes() > ARGUMENTS_BYTES_MAX {
            self.forget();
            return Err(Error::LogTooLong { bytes_max: ARGUMENTS_BYTES_MAX as u64 });
        }
        self.word = procedure.command_word();
        Ok(())
    }

    #[inline(always)]
    fn refusal(&self) -> Option<Error> {
        if self.wrote && self.word == 0 { Some(Error::NoCommand) } else { None }
    }

    #[inline(always)]
    fn committed(&mut self) {
        if self.wrote {
            self.records.commit_as(self.word);
            (self.word, self.wrote) = (0, false);
        } else {
            self.forget();
        }
    }

    fn aborted(&mut self) {
        self.forget();
    }

    fn waiting_bytes(&self) -> usize {
        self.records.ended_bytes()
    }

    fn take(&mut self, into: &mut LogBuffer) {
        // A command that was named for a transaction that never began.
        self.forget();
        self.records.take(into);
    }

    /// A command is as long as its arguments, whatever its transaction changes.
    fn set_transaction_bytes_max(&mut self, _: usize) {}
}
