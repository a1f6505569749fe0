//! Tombolo, crate engine.
