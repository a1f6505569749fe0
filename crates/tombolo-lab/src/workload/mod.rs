//! The workloads: what is stored and what is asked, written once for every store.
//!
//! A workload knows its schema, its initial data, its transaction inputs, its procedures and its
//! consistency conditions. It knows nothing of profiles, threads or clocks: which store runs it,
//! and how it is timed, is decided elsewhere in this crate, for any [`Workload`].
//!
//! # Map
//! `tpcc/`, `debit_credit/`, `ycsb/` and `microbenchmark/` are workloads, each behind the door of [`Workload`]
//! (`interface.rs`); `list.rs` lists them, the one place besides its folder that names a workload. [`mixes`] makes
//! one setting of their mixes. All are built from [`loading`] (rows into a store), [`rows`] (out of it), [`log_bytes`]
//! and [`error`]; YCSB and the microbenchmark share `labelled.rs` and [`zipf`].

#[macro_use]
mod resolve;

pub mod debit_credit;
pub mod error;
pub mod loading;
pub mod log_bytes;
pub mod microbenchmark;
pub mod mixes;
pub mod rows;
pub mod tpcc;
pub mod ycsb;
pub mod zipf;

mod check;
mod interface;
mod kind;
mod labelled;
mod list;

pub use check::Check;
pub use interface::{Workload, WorkloadInput};
pub use kind::{KINDS_MAX, Kind};
pub use list::{AnyWorkload, WORKLOADS, WorkloadInfo, checks, find, info, tamper};
pub(crate) use list::{for_each_workload, matched_workload, with_workload};
