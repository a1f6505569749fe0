//! redb's database, for every comparison with it (docs/compare.md).
//!
//! # Durability
//! `group`: a file, `Durability::Immediate`: a sync per transaction. `none`: in memory,
//! `Durability::None`.

use std::path::Path;

use redb::backends::InMemoryBackend;
use redb::{Builder, Database, Durability, WriteTransaction};

use super::made;
use crate::failure::Failure;

/// The version in our manifest: the crate does not have it.
pub(super) const VERSION: &str = "4.5";

/// A database, and how durable its transactions are.
pub(super) struct Redb {
    pub(super) database: Database,
    pub(super) durability: Durability,
}

pub(super) fn failed(error: impl Into<redb::Error>) -> Failure {
    Failure::check(format!("redb failed: {}", error.into()))
}

impl Redb {
    /// Makes an empty database, in `directory` if it is durable.
    ///
    /// # Errors
    /// When redb refuses.
    pub(super) fn make(
        builder: &Builder,
        directory: &Path,
        is_durable: bool,
    ) -> Result<Self, Failure> {
        let (database, durability) = if is_durable {
            (builder.create(made(directory)?.join("redb.db")), Durability::Immediate)
        } else {
            (builder.create_with_backend(InMemoryBackend::new()), Durability::None)
        };
        Ok(Self { database: database.map_err(failed)?, durability })
    }

    /// Begins a write transaction.
    ///
    /// # Errors
    /// When redb refuses.
    pub(super) fn write(&self) -> Result<WriteTransaction, Failure> {
        let mut transaction = self.database.begin_write().map_err(failed)?;
        transaction.set_durability(self.durability).map_err(failed)?;
        Ok(transaction)
    }
}

#[cfg(test)]
mod tests {
    use super::VERSION;

    #[test]
    fn the_version_is_the_one_that_is_built() {
        let lock = include_str!("../../../../Cargo.lock");
        let (_, entry) = lock.split_once("name = \"redb\"\nversion = \"").unwrap();
        assert!(entry.starts_with(&format!("{VERSION}.")), "{}", entry.lines().next().unwrap());
    }
}
