//! The command log on the store and on a disk: what is logged, and that running it again leaves the
//! same store.

mod entries;
mod model;
