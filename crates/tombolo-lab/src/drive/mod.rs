//! A database of one profile, its profile erased: what drivers, checks and counters do with any of
//! them.
//!
//! # Map
//! The engine and the transactions that are measured are compiled once per profile, in `benchmark.rs`, and
//! for profile `memory` behind its pipeline in `product/`; `open.rs` lists the profiles, and the crate
//! `tombolo-ladder` those on pages. Everything else —
//! loading, checking, dumping, restoring, tampering — is compiled once, over a store without type
//! (`store/erased.rs`). Behind [`Instance`] there is one dynamic call per batch of inputs and none inside.
//! Not here: clocks, files, what is printed.
//!
//! Invariant: what is timed runs on the store without probes ([`Metered::store`]).
//!
//! [`Metered::store`]: crate::store::metered::Metered

mod acks;
mod benchmark;
pub mod checkpoint_process;
mod counted;
mod driver;
mod instance;
mod numbered;
mod open;
mod outcome;
mod product;
mod sequences;
mod session;
mod tally;

pub(crate) use counted::UNCOUNTED;
pub use counted::{CountInputs, Group, kind_of};
pub(crate) use driver::reading_ns;
pub use driver::{Driver, Throughput};
pub use instance::{Batch, Executed, Instance};
pub use open::{
    Deployed, How, Made, MakePaged, NoDatabase, OnRestart, create, open_saved, paged,
    run_on_pages_by,
};
pub use outcome::{Behind, PipelineOutcome};
pub use product::GROUP;
pub(crate) use product::{
    Answered, Database, Product, Request, create as create_piped, create_part, found,
    pipeline_busy_since, resume,
};
pub use tally::{ByKind, Outcomes, Tally, stopped};

#[cfg(test)]
mod tests;
