//! Durable databases: a memory store with its value log in a directory.
//!
//! | file | holds |
//! |---|---|
//! | `open.rs` | opening what a process left behind, whatever ended it |
//! | `survey.rs` | looking at a log without changing it |
//! | `load.rs` | the initial database, in the store and in its log |
//! | `executor.rs` | a workload behind the engine's pipeline |
//! | `clients.rs` | callers, in a closed loop or an open one |
//! | `arrivals.rs` | when calls begin in an open loop |
//! | `sequences.rs`, `acks.rs` | which call of each caller is in the database, and which was answered |
//! | `raw_flush.rs` | what the device alone takes |
//!
//! Not here: what a log looks like (storage `value_log/`), the commands (`run/`, `check/`).

mod acks;
mod arrivals;
mod clients;
mod executor;
mod load;
mod open;
mod raw_flush;
mod sequences;
mod survey;

pub(crate) use acks::Acks;
pub(crate) use arrivals::Arrivals;
pub use arrivals::Behind;
pub(crate) use clients::{Answers, Calling, Clients, OPEN_CALLS_MAX, Watch};
pub(crate) use executor::{Answered, Database, Request};
pub(crate) use load::load;
pub(crate) use raw_flush::{RawFile, measure as measure_raw_flush};
pub(crate) use sequences::Sequences;

pub(crate) use open::disks;
pub use open::{Logged, Opened, open, open_directories};
pub use raw_flush::RawFlush;
pub(crate) use survey::find;
pub use survey::{Surveyed, notice, survey};
pub use tombolo_engine::recovery::{Created, OpenOptions, Recovery, create};

#[cfg(test)]
mod tests;
