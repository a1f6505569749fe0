//! Tombolo's lab: *how fast*, and why. Workloads, drivers, counters, experiments, reports.
//!
//! A workload ([`workload`]) knows nothing of profiles, a profile nothing of workloads; they meet
//! in [`instance`]. [`run`] drives one run from an empty store to a verified result, [`sweep`]
//! many; [`counting`] counts instructions with [`counters`]; [`report`] says what was found.
//!
//! Not here: exit codes, arguments, standard output. Those are the command's.

#[macro_use]
mod pass_through;

pub mod check;
pub mod checkpoint_process;
pub mod compare;
pub mod counters;
pub mod counting;
pub mod demo;
pub mod drive;
pub mod dump;
pub mod dump_files;
pub mod durable;
pub mod estimate;
pub mod experiment;
pub mod failure;
pub mod histogram;
pub mod host;
pub mod inspect;
pub mod instance;
pub mod metered;
mod overlay;
pub mod progress;
pub mod recover;
pub mod report;
pub mod restore;
pub mod run;
pub mod saved;
pub mod sweep;
mod timed_disk;
pub mod work;
pub mod workload;
