//! Tombolo's lab: *how fast*, and why. Workloads, drivers, counters, experiments, reports.
//!
//! A workload ([`workload`]) knows nothing of profiles, a profile nothing of workloads; they meet in [`drive`], where
//! there is one interface to a database, whatever it consists of. [`run`] drives one run from an empty store to a
//! verified result, [`sweep`] many; [`run::counting`] counts instructions with [`counters`]; [`experiment`]
//! reproduces papers' figures; [`report`] presents results.
//!
//! Each module uses only modules above it in this list, except `report` and the modules whose results it presents,
//! which use each other. Not here: exit codes, arguments, standard output. Those are the command's.

#[macro_use]
mod named;

pub mod counters;
pub mod failure;
pub mod histogram;
pub mod host;
pub mod numbers;
pub mod progress;
pub mod settings;
pub mod work;

#[macro_use]
pub mod store;
pub mod workload;

pub mod files;
pub mod machine;
pub mod model;
pub mod plan;
pub mod rows;

pub mod drive;
pub mod run;
pub mod upkeep;

pub mod compare;
pub mod demo;
pub mod experiment;
pub mod report;
pub mod sweep;
