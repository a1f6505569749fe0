//! Tombolo, crate engine.
pub mod rng;
