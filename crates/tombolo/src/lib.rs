//! Tombolo: a main-memory OLTP database, embedded in your program.
//!
//! Tables live in memory. Transactions run one at a time and write their changes to a log, from which
//! the database recovers after any end of the process. A call returns when its transaction is durable.
//!
//! # A durable ledger
//!
//! ```no_run
#![doc = include_str!("../examples/ledger.rs")]
//! ```
//!
//! The crate is not on crates.io yet, so a program depends on it by the path of a checkout:
//! `tombolo = { path = "…/crates/tombolo" }`. With the features `chrono`, `uuid` and `rust_decimal`, columns
//! can hold the types of those crates.
//!
//! # Finding your way
//!
//! | you want to | look at |
//! |---|---|
//! | open a directory, or stay in memory | [`Database::open`], [`Database::in_memory`], [`Builder`] |
//! | declare tables | [`derive(Table)`](macro@Table); [`table!`], [`index!`]; [`TableDef`] at run time; [`types`] |
//! | make the next opening faster | [`Database::checkpoint`], [`Builder::checkpoint_directories`] |
//! | keep data that is larger than memory, write with several threads | [`Builder::paged`], [`PagedDatabase`] |
//! | show the progress of opening | [`Builder::on_opening`] |
//! | spread a database over several engines, or processes | [`Builder::islands`], [`IslandsBuilder::processes`] |
//! | make a backup | [`Database::backup`], [`Database::restore`] |
//! | restore to a point in time | [`Builder::log_archive`], [`Database::archive_now`], [`Restore`] |
//! | add a table or an index to a running database | [`Database::create_table`], [`Database::create_index`] |
//! | add a column to a table | [`Database::add_column`] |
//! | run a transaction | [`Database::transaction`], [`Tx`] |
//! | read a range of rows, all rows, or pages | [`Tx::iter`], [`Tx::iter_table`], [`Database::pages`] |
//! | number rows without gaps | [`Database::sequence`], [`Tx::next`] |
//! | load many rows | [`Database::load`] |
//! | read a whole table as of one moment, while transactions run | [`Database::scan`] |
//! | run the same transaction often | [`Database::register_closure`], [`Registered`] |
//! | run it as fast as possible | [`Database::register`], [`procedure`] |
//! | not wait for an answer | [`Registered::submit`], [`Registered::try_submit`], [`Pending`] (also a future) |
//! | await a backup, a checkpoint, an index | [`Database::task`] |
//! | choose durability, a deadline | [`CallOptions`] |
//! | retry after a crash without executing twice | [`Database::once`], [`Database::outcome`] |
//! | abort with an error of the application's own | [`Stop`], [`Error::own`] |
//! | decide how to handle an error | [`Error::is_retryable`], [`Error::may_have_committed`], [`Error::is_final`] |
//! | monitor a database | [`Database::statistics`], [`Database::overruns`], [`Database::recovery`] |
//!
//! # Guarantees
//!
//! * Transactions are atomic and serializable: they run one at a time, in one order.
//! * After a crash of the process or of the machine, every acknowledged transaction is there, together with
//!   everything it read. Answers and errors that may still be lost have another type ([`PreCommitted`],
//!   [`EarlyError`]), and a database without a directory stores nothing.
//! * A transaction that fails or panics changes nothing, wherever it fails; other transactions are not affected.
//! * If the disk is full, writes fail. Calls declared read-only continue, and writes succeed again when there is
//!   room. If the disk fails, the database stops: nothing is acknowledged any more, and every call reports why.
//! * Memory, queues, and the log that one transaction may write have bounds. The size of inputs counts as far
//!   as their types show it, or as the program states it ([`Registered::input_bytes`]); answers are the
//!   callers' responsibility.
//! * At most one process has a directory open.
//!
//! These are the guarantees of the memory store; [`PagedDatabase`] lists the differences for rows in pages.
//!
//! # Not implemented yet
//! Added columns with a text as their default; columns that change their type; SQL and a server.

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

/// For what the derived code of tests names.
#[cfg(test)]
extern crate self as tombolo;

mod archive;
mod backup;
mod batches;
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
mod islands;
mod load;
mod open;
mod paged;
mod pages;
pub mod procedure;
mod processes;
mod product;
mod restore;
mod scan;
mod sequence;
mod statistics;
mod task;
mod trace;
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
pub use error::{Error, OwnError, Stop};
pub use islands::{
    Across, AcrossProcesses, Answers, AtIsland, AtomicCommit, Bindings, ClosurePlace, IslandKey,
    IslandProcesses, Islands, IslandsBuilder, IslandsTx, OnIslands, Part, ProcessesBuilder,
    Repartitioned, SentAnswers, SentPart,
};
pub use load::LoadError;
pub use open::{Opening, Recovery, TornTail};
pub use paged::{
    Isolation, PagedBindings, PagedBuilder, PagedDatabase, PagedIslandProcesses, PagedIslands,
    PagedIslandsBuilder, PagedIslandsTx, PagedProcedure, PagedProcessesBuilder, PagedRow,
    PagedRowId, PagedStatistics, PagedSteps, PagedTx, Restart,
};
pub use pages::Pages;
pub use processes::declared::IslandProcedure;
pub use restore::{Restore, Restored};
pub use sequence::Sequence;
pub use statistics::Statistics;
pub use task::Task;
pub use trace::{Trace, Traced};
pub use tx::{Cursor, DynamicTable, NewRow, RowRef, Rows, Tx, VariableType};

pub use tombolo_derive::{Enum, Table};
pub use tombolo_engine::islands::placement::Placement;
pub use tombolo_engine::link::LinkKind;
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
