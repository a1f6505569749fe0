//! *OLTP Through the Looking Glass*: an engine taken apart, component by component.
//!
//! [`dissect`] measures the profiles of a [`ladder`] and of what belongs to it (`measure.rs`), and
//! `summary.rs` says what follows. [`result`] is what `dissect` and `paper` print; [`mod@derive`] is
//! what follows from a ladder or a lattice; [`paper`] holds the paper's numbers, [`figures`] runs what
//! a figure needs and puts ours next to them.

pub mod derive;
pub mod dissect;
pub mod figures;
pub mod ladder;
mod measure;
pub mod paper;
pub mod plan;
pub mod result;
mod summary;

pub use figures::PAPER;

#[cfg(test)]
mod tests;
