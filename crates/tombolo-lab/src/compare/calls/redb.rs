//! Calls of redb (docs/compare.md).
//!
//! Writers wait for each other inside of redb; readers do not wait. Not here: what makes its commits durable
//! (`compare/redb.rs`).

use redb::{Database, Durability, ReadableDatabase, ReadableTable, TableDefinition};

use super::{ACCOUNTS, CENTS_EACH, Caller, Engine, Opening};
use crate::compare::redb::{Redb, VERSION, failed};
use crate::failure::Failure;

const TABLE: TableDefinition<'_, i32, i64> = TableDefinition::new("account");

fn missing(account: i32) -> Failure {
    Failure::check(format!("redb has no account {account}"))
}

/// Makes a database and loads it.
///
/// # Errors
/// When redb refuses.
pub(super) fn open(opening: &Opening<'_>) -> Result<Redb, Failure> {
    let redb = Redb::make(&Database::builder(), opening.directory, opening.is_durable)?;
    let transaction = redb.database.begin_write().map_err(failed)?;
    {
        let mut table = transaction.open_table(TABLE).map_err(failed)?;
        for id in 0..ACCOUNTS {
            table.insert(id, CENTS_EACH).map_err(failed)?;
        }
    }
    transaction.commit().map_err(failed)?;
    Ok(redb)
}

impl Engine for Redb {
    fn version(&self) -> &str {
        VERSION
    }

    fn note(&self) -> Option<&str> {
        Some(match self.durability {
            Durability::None => "in memory, Durability::None",
            _ => "a file, Durability::Immediate",
        })
    }

    fn with_caller(&self, _: bool, work: &mut dyn FnMut(&mut dyn Caller)) -> Result<(), Failure> {
        work(&mut &*self);
        Ok(())
    }

    fn total_cents(&self) -> Result<Option<i64>, Failure> {
        let transaction = self.database.begin_read().map_err(failed)?;
        let table = transaction.open_table(TABLE).map_err(failed)?;
        let mut cents = 0;
        for row in table.iter().map_err(failed)? {
            cents += row.map_err(failed)?.1.value();
        }
        Ok(Some(cents))
    }
}

impl Caller for &Redb {
    fn transfer(&mut self, from: i32, to: i32, cents: i64) -> Result<(), Failure> {
        let transaction = self.write()?;
        {
            let mut table = transaction.open_table(TABLE).map_err(failed)?;
            for (id, change) in [(from, -cents), (to, cents)] {
                let found = table.get(id).map_err(failed)?.ok_or_else(|| missing(id))?.value();
                table.insert(id, found + change).map_err(failed)?;
            }
        }
        transaction.commit().map_err(failed)
    }

    fn read(&mut self, account: i32) -> Result<i64, Failure> {
        let transaction = self.database.begin_read().map_err(failed)?;
        let table = transaction.open_table(TABLE).map_err(failed)?;
        let found = table.get(account).map_err(failed)?.ok_or_else(|| missing(account))?;
        Ok(found.value())
    }
}
