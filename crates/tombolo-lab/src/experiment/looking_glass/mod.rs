//! *OLTP Through the Looking Glass*: an engine taken apart, component by component.
//!
//! [`result`] is what `dissect` and `paper` print, [`derive`] what follows from a ladder or a lattice.

pub mod derive;
pub mod result;
