//! Experiments: the papers' figures and tables, one module per paper.
//!
//! An experiment says what is measured and what its result looks like; measuring itself is done by
//! the drivers and counters, showing it by [`report`](crate::report).

pub mod looking_glass;
pub mod tpk;
