//! Tombolo's storage: *what* is written. Rows, keys, indexes and the stores that hold them.
//!
//! Transactions call a store through the trait [`store::Store`]; a type, the store's profile ([`profile`]), lists
//! the components that it has. Start with `store/` (the calls), `schema/` and `row.rs` (tables, indexes and
//! rows) and `memory/` (the store that most databases use). Not here: threads, sockets, clocks, SQL.

pub mod backup;
pub mod checksum;
pub mod command_log;
#[expect(unsafe_code, reason = "taking a file's space in advance is a bare system call")]
pub mod disk;
pub mod dynamic;
pub mod error;
mod header_copies;
pub mod homes;
pub mod key;
#[expect(unsafe_code, reason = "the promise of exclusion is stated by unsafe traits")]
pub mod latch;
pub mod lock;
pub mod log;
pub mod memory;
pub mod owner;
pub mod paged;
pub mod plant;
pub mod probe;
pub mod profile;
pub mod row;
pub mod schema;
mod source;
pub mod store;
pub mod sync;
pub mod types;
pub mod value;
pub mod value_log;
pub mod words;
