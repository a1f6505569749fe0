//! What can go wrong around the transactions: loading, checking, tampering.

use std::fmt;

use tombolo_engine::transaction::Stop;
use tombolo_storage::error::{Error, SchemaError};

/// Why TPC-C's database could not be loaded, checked or tampered with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TpccError {
    /// The store refused a table, or has none or another one of that name.
    Schema(SchemaError),
    /// The store refused a call.
    Stop(Stop),
    /// No condition has this name.
    NoSuchCheck(String),
    /// The database holds nothing that could break the condition without breaking another.
    NothingToTamper(&'static str),
}

impl From<SchemaError> for TpccError {
    fn from(error: SchemaError) -> Self {
        Self::Schema(error)
    }
}

impl From<Stop> for TpccError {
    fn from(stop: Stop) -> Self {
        Self::Stop(stop)
    }
}

impl From<Error> for TpccError {
    fn from(error: Error) -> Self {
        Self::Stop(Stop::Error(error))
    }
}

impl fmt::Display for TpccError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Schema(error) => write!(f, "this is not a database of tpcc: {error}"),
            Self::Stop(stop) => stop.fmt(f),
            Self::NoSuchCheck(name) => write!(f, "no check is called {name}: use c01 to c12"),
            Self::NothingToTamper(needed) => write!(f, "the database has not {needed}"),
        }
    }
}

impl std::error::Error for TpccError {}
