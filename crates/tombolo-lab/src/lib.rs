//! Tombolo, crate lab.
