//! Stores around a store: without its type ([`Erased`]), with probes ([`metered`]).
//!
//! Not here: stores themselves (the storage crate), what runs on them.

#[macro_use]
mod pass_through;

mod erased;
mod key;
pub mod metered;

pub(crate) use erased::Handles;
pub use erased::{DynamicStore, Erased, ErasedPin};
