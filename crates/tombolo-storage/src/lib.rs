//! Tombolo, crate storage.
