//! What can go wrong around the transactions: loading, checking, tampering.

use std::fmt;

use tombolo_engine::transaction::Stop;
use tombolo_storage::error::{Error, SchemaError};

/// Why a workload's database could not be loaded, checked or tampered with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkloadError {
    /// The store refused a table, or has none or another one of that name.
    Schema(SchemaError),
    /// The store refused a call.
    Stop(Stop),
    /// No condition has this name.
    NoSuchCheck {
        /// What was asked for.
        name: String,
        /// What there is.
        known: &'static str,
    },
    /// The database holds nothing that could break the condition without breaking another.
    NothingToTamper(&'static str),
}

impl From<SchemaError> for WorkloadError {
    fn from(error: SchemaError) -> Self {
        Self::Schema(error)
    }
}

impl From<Stop> for WorkloadError {
    fn from(stop: Stop) -> Self {
        Self::Stop(stop)
    }
}

impl From<Error> for WorkloadError {
    fn from(error: Error) -> Self {
        Self::Stop(Stop::Error(error))
    }
}

impl fmt::Display for WorkloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Schema(error) => write!(f, "this is not a database of the workload: {error}"),
            Self::Stop(stop) => stop.fmt(f),
            Self::NoSuchCheck { name, known } => {
                write!(f, "no check is called {name}: use {known}")
            }
            Self::NothingToTamper(needed) => write!(f, "the database has not {needed}"),
        }
    }
}

impl std::error::Error for WorkloadError {}
