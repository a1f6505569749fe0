//! The store that every database of this library is, with files and without.

use tombolo_storage::memory::MemoryStore;
use tombolo_storage::profile::MemoryLogged;

/// The store.
pub(crate) type Product = MemoryStore<MemoryLogged>;

/// Bytes of a transaction in its log that its records do not count.
pub(crate) const TRANSACTION_BYTES: u64 = 4;
