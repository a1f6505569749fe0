//! Tombolo: a main-memory OLTP database, embedded in your program.
//!
//! Tables live in memory, transactions run one after the other on a thread of their own, and what
//! they change goes to a log that brings all of it back after any end of the process. An answer
//! leaves when it is durable.
//!
//! # A durable ledger
//!
//! ```no_run
#![doc = include_str!("../examples/ledger.rs")]
//! ```
//!
//! It is on no registry yet, so a program depends on it by the path of a checkout:
//! `tombolo = { path = "…/crates/tombolo" }`. Features `chrono`, `uuid` and `rust_decimal` let columns hold
//! those crates' types.
//!
//! # Finding your way
//!
//! | you want to | look at |
//! |---|---|
//! | open a directory, or stay in memory | [`Database::open`], [`Database::in_memory`], [`Builder`] |
//! | declare tables | [`derive(Table)`](macro@Table); [`table!`], [`index!`]; [`TableDef`] at run time; [`types`] |
//! | have the next opening be short | [`Database::checkpoint`], [`Builder::checkpoint_directories`] |
//! | show how long opening takes | [`Builder::on_opening`] |
//! | keep a copy | [`Database::backup`], [`Database::restore`] |
//! | go back to any moment | [`Builder::log_archive`], [`Database::archive_now`], [`Restore`] |
//! | add a table or an index to a running database | [`Database::create_table`], [`Database::create_index`] |
//! | add a column to its tables | [`Database::add_column`] |
//! | run a transaction | [`Database::transaction`], [`Tx`] |
//! | read a range of rows, or all, or page by page | [`Tx::iter`], [`Tx::iter_table`], [`Database::pages`] |
//! | number things without gaps | [`Database::sequence`], [`Tx::next`] |
//! | load many rows | [`Database::load`] |
//! | read all of a table as of one moment, while transactions run | [`Database::scan`] |
//! | run the same one often | [`Database::register_closure`], [`Registered`] |
//! | run it as fast as it goes | [`Database::register`], [`procedure`] |
//! | not wait for an answer | [`Registered::submit`], [`Registered::try_submit`], [`Pending`] (a future, too) |
//! | await a backup, a checkpoint, an index | [`Database::task`] |
//! | choose durability, a deadline | [`CallOptions`] |
//! | try again after a crash without doing it twice | [`Database::once`], [`Database::outcome`] |
//! | abort with an error of the application's own | [`Stop`], [`Error::own`] |
//! | know what to do about an error | [`Error::is_retryable`], [`Error::may_have_committed`], [`Error::is_final`] |
//! | see what it does | [`Database::statistics`], [`Database::overruns`], [`Database::recovery`] |
//!
//! # What holds
//!
//! * A transaction happens wholly or not at all, and each as if it were alone: they run in one order.
//! * What was answered is there after a crash of the process or of the machine, together with all it has read.
//!   Answers and errors that report what may still be lost have another type ([`PreCommitted`],
//!   [`EarlyError`]), and a database without a directory keeps nothing.
//! * A transaction that fails or panics changes nothing, wherever in it that happens; others are not affected.
//! * A full disk refuses writes. Calls that are declared to only read continue, and writing resumes when there
//!   is room. A disk that fails ends all work: nothing is acknowledged any more, and every call reports why.
//! * Memory and queues have bounds, and so has what one transaction may write. The size of inputs counts as far
//!   as their types show it, or as the program states it ([`Registered::input_bytes`]); answers are the
//!   callers'.
//! * One process at a time has a directory.
//!
//! # What is not there yet
//! Columns that are added with a text as their default; columns that change their type. SQL and a server.
//! SQL and a server.

/// The Rust in the pages for newcomers compiles.
#[cfg(doctest)]
mod newcomers {
    #[doc = include_str!("../../../docs/coming-from-redb.md")]
    struct Redb;
    #[doc = include_str!("../../../docs/coming-from-sqlite.md")]
    struct Sqlite;
    #[doc = include_str!("../../../docs/coming-from-lmdb.md")]
    struct Lmdb;
}

mod archive;
mod backup;
mod builder;
mod calls;
mod cancels;
mod checkpoint;
mod core;
mod database;
mod definition;
#[doc(hidden)]
pub use tx::derived;
mod dropping;
mod error;
mod evolve;
mod load;
mod open;
mod pages;
pub mod procedure;
mod product;
mod restore;
mod scan;
mod sequence;
mod statistics;
mod stop;
mod task;
mod tx;
pub mod types;

pub use backup::Backup;
pub use builder::Builder;
pub use calls::{
    CallOptions, Durability, Early, EarlyError, NotSubmitted, Once, Outcome, Pending, PreCommitted,
    Promise, Registered, Settled, Transactions,
};
pub use database::Database;
pub use definition::Difference;
pub use derived::{RowIndex, TableRow};
pub use error::Error;
pub use load::LoadError;
pub use open::{Opening, Recovery, TornTail};
pub use pages::Pages;
pub use restore::{Restore, Restored};
pub use sequence::Sequence;
pub use statistics::Statistics;
pub use stop::{OwnError, Stop};
pub use task::Task;
pub use tx::{Cursor, DynamicTable, NewRow, RowRef, Rows, Tx, VariableType};

pub use tombolo_derive::{Enum, Table};
pub use tombolo_engine::pipeline::Overrun;
pub use tombolo_engine::settings::{ALL as SETTINGS, Setting};
pub use tombolo_storage::disk::DiskError;
pub use tombolo_storage::error::Error as StoreError;
pub use tombolo_storage::key::{Dynamic, Edge, IndexType, KeyPrefix, Range};
pub use tombolo_storage::row::{Column, Fields, RowId, RowMut};
pub use tombolo_storage::schema::{
    ColumnDef, DeclaredIndex, DeclaredTable, IndexDef, IndexKind, Schema, TableDef,
};
pub use tombolo_storage::store::{Index, Order, Table, TableType};
pub use tombolo_storage::value::Value;
pub use tombolo_storage::{index, table};
