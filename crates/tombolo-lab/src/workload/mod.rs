//! The workloads: what is stored and what is asked, written once for every store.
//!
//! A workload knows its schema, its initial data, its transaction inputs, its procedures and its
//! consistency conditions. It knows nothing of profiles, threads or clocks: which store runs it,
//! and how it is timed, is decided elsewhere in this crate.

pub mod tpcc;
