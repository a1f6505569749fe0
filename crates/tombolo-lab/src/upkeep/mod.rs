//! Looking after databases that lie in directories: checked, inspected, recovered.
//!
//! Not here: opening them (`files/open.rs`), what is printed.

pub mod check;
pub mod in_doubt;
pub mod inspect;
pub mod recover;

#[cfg(test)]
mod tests;
