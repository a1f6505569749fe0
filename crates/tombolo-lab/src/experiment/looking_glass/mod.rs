//! *OLTP Through the Looking Glass*: an engine taken apart, component by component.
//!
//! [`result`] is what `dissect` and `paper` print; [`mod@derive`] is what follows from a ladder or a
//! lattice; [`paper`] holds the paper's numbers, [`figures`] puts ours beside them.

pub mod derive;
pub mod figures;
pub mod paper;
pub mod result;

#[cfg(test)]
mod tests;
