//! The library over the paged store: data larger than memory, transactions of several threads at the same time.
//!
//! | file | holds |
//! |---|---|
//! | `builder.rs` | what is set before a database is opened; opening one |
//! | `database.rs` | the handle of an open database: transactions, checkpoints, statistics |
//! | `sessions.rs` | the sessions in which transactions run |
//! | `tx.rs` | a transaction as a closure sees it |
//!
//! There is no pipeline: a transaction runs on its caller's thread, and locks keep it apart from others. What the
//! paged store lacks is not a method of these types, or is refused when the database is opened (docs/decisions/0056).

mod builder;
mod database;
mod sessions;
mod tx;

#[cfg(test)]
mod tests;

pub use builder::PagedBuilder;
pub use database::{PagedDatabase, PagedStatistics};
pub use tombolo_storage::paged::store::{Isolation, Restart};
pub use tx::{PagedRow, PagedRowId, PagedTx};
