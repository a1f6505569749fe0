//! The rows of any database, once nothing runs on it: verified, hashed, written to files and read back.
//!
//! [`Quiescent`] is what all commands look at rows through; `dump.rs` says what a row's text and a hash are,
//! `files.rs` where texts lie, `restore.rs` how they become rows again. Not here: how a database comes to rest.

mod dump;
mod files;
mod quiescent;
mod restore;

pub use dump::{DumpError, StateHash, dump, state_hash};
pub(crate) use dump::{RowText, table_hashes};
pub(crate) use files::file_name;
pub use files::{DumpDirectory, DumpReader};
pub(crate) use quiescent::StoreChecks;
pub use quiescent::{Finding, Quiescent, Verification};
pub use restore::{NextRow, RestoreError, restore, restore_tables};
