//! The library over the paged store: data larger than memory, transactions of several threads at the same time.
//!
//! | file | holds |
//! |---|---|
//! | `builder.rs` | what is set before a database is opened; opening one |
//! | `database.rs` | the handle of an open database: transactions, checkpoints, statistics |
//! | `sessions.rs`, `lender.rs` | the sessions in which transactions run, and how calls borrow them |
//! | `again.rs` | how often a closure runs that gave way to others |
//! | `load.rs` | many rows, in transactions of a bounded size |
//! | `backup.rs` | a copy of a database that is used |
//! | `tx.rs`, `ids.rs` | a transaction as a closure sees it, and which rows' ids are its own |
//! | `procedure.rs` | procedures as steps of a transaction |
//! | `islands/` | several such databases, with transactions over several of them |
//!
//! There is no pipeline: a transaction runs on its caller's thread, and locks keep it apart from others. What the
//! paged store lacks is not a method of these types, or is refused when the database is opened (docs/decisions/0056).

mod again;
mod backup;
mod builder;
mod database;
mod ids;
mod islands;
mod lender;
mod load;
mod procedure;
pub(crate) mod sessions;
mod tx;

#[cfg(test)]
mod tests;

pub use builder::PagedBuilder;
pub use database::{PagedDatabase, PagedStatistics};
pub use islands::{
    PagedBindings, PagedIslandProcesses, PagedIslands, PagedIslandsBuilder, PagedIslandsTx,
    PagedProcessesBuilder, PagedSteps,
};
pub use procedure::PagedProcedure;
pub use tombolo_storage::paged::store::{Isolation, Restart};
pub use tx::{PagedRow, PagedRowId, PagedTx};
