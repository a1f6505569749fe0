//! What can go wrong around the transactions: loading, checking, tampering.

use tombolo_engine::transaction::Stop;
use tombolo_storage::error::{Error, SchemaError};

/// Why a workload's database could not be loaded, checked or tampered with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WorkloadError {
    /// The store refused a table, or has none or another one of that name.
    #[error("this is not a database of the workload: {0}")]
    Schema(#[from] SchemaError),
    /// The store refused a call.
    #[error(transparent)]
    Stop(#[from] Stop),
    /// No condition has this name.
    #[error("no check is called {name}: use {known}")]
    NoSuchCheck {
        /// What was asked for.
        name: String,
        /// What there is.
        known: &'static str,
    },
    /// The database holds nothing that could break the condition without breaking another.
    #[error("the database has not {0}")]
    NothingToTamper(&'static str),
}

impl From<Error> for WorkloadError {
    fn from(error: Error) -> Self {
        Self::Stop(Stop::Error(error))
    }
}
