//! Durable databases: a memory store with its value log in a directory.
//!
//! `open.rs` opens what a process left behind, whatever ended it; `survey.rs` only looks. Not here: what a log looks like
//! (storage `value_log/`), who asks for what (`run/`, `check/`).

mod open;
mod survey;

pub use open::{Logged, OpenOptions, Opened, Recovery, create, holds_log, open, open_directory};
pub use survey::{Surveyed, notice, survey};

#[cfg(test)]
mod tests;
