//! `PagedProcedure`: a [`Procedure`] on a paged database, which runs as a step of a transaction.
//!
//! Not here: procedures themselves (`crates/tombolo/src/procedure.rs`). Invariant: a procedure runs on the database
//! to whose tables it is bound.

use std::fmt;

use tombolo_engine::procedure::Procedure;
use tombolo_engine::transaction::{Stop as EngineStop, step};
use tombolo_storage::error::Error as StoreError;

use super::{PagedDatabase, PagedIslands, PagedTx};
use crate::error::{Error, Result, Stop};

/// A procedure that is bound to the tables of a paged database, or of its islands; see [`PagedTx::run`].
pub struct PagedProcedure<P> {
    procedure: P,
    database: u32,
}

impl<P> fmt::Debug for PagedProcedure<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PagedProcedure").finish_non_exhaustive()
    }
}

impl PagedDatabase {
    /// Binds a procedure to the tables of this database.
    ///
    /// # Errors
    /// [`Error::Schema`] when the database lacks a table or an index, or has a different one of that name.
    pub fn procedure<P: Procedure>(&self) -> std::result::Result<PagedProcedure<P>, Error> {
        let schema = &*self.tables.schema;
        Ok(PagedProcedure { procedure: P::bind(schema)?, database: schema.database() })
    }
}

impl PagedIslands {
    /// Binds a procedure to the tables of all islands.
    ///
    /// # Errors
    /// As [`PagedDatabase::procedure`].
    pub fn procedure<P: Procedure>(&self) -> std::result::Result<PagedProcedure<P>, Error> {
        self.islands[0].procedure()
    }
}

impl PagedTx<'_> {
    /// Runs a procedure as a step of this transaction: what it changes commits with the rest.
    ///
    /// ```
    /// use tombolo::procedure::{
    ///     Committed, Index, Procedure, Reading, SchemaError, Stop, Store, Table, resolve_index, resolve_table,
    /// };
    /// use tombolo::{Database, Fields, Schema};
    ///
    /// #[derive(tombolo::Table)]
    /// struct Account {
    ///     #[key]
    ///     id: u32,
    ///     cents: i64,
    /// }
    /// struct Deposit(Table<Account>, Index<AccountKey>);
    ///
    /// impl Procedure for Deposit {
    ///     type Input = (u32, i64);
    ///     type Answer = i64;
    ///
    ///     fn bind(schema: &Schema) -> Result<Self, SchemaError> {
    ///         Ok(Self(resolve_table(schema)?, resolve_index(schema)?))
    ///     }
    ///
    ///     fn run<S: Store>(&self, mut tx: Reading<'_, S>, &(id, cents): &(u32, i64)) -> Result<Committed<i64>, Stop> {
    ///         let Some(row) = tx.lookup_for_update(&self.1, id)? else { return tx.abort("no such account") };
    ///         let cents = tx.pin(&self.0, row)?.get(Account::CENTS) + cents;
    ///         let mut tx = tx.write();
    ///         tx.update(&self.0, row, Fields::none().with(Account::CENTS), |row| row.set(Account::CENTS, cents))?;
    ///         tx.commit(cents)
    ///     }
    /// }
    /// # let place = tempfile::tempdir().unwrap();
    /// # let directory = place.path().join("bank");
    /// let db = Database::builder().define::<Account>().paged().open(&directory)?;
    /// let (accounts, deposit) = (db.table::<Account>()?, db.procedure::<Deposit>()?);
    /// db.transaction(|tx| tx.insert_row(&accounts, &Account { id: 7, cents: 100 }).map(drop))?;
    /// assert_eq!(db.transaction(|tx| tx.run(&deposit, &(7, 30)))?, 130);
    /// let refused = db.transaction(|tx| tx.run(&deposit, &(8, 30)));
    /// assert_eq!(refused, Err(tombolo::Error::Aborted("no such account")));
    /// # db.close()?;
    /// # Ok::<(), tombolo::Error>(())
    /// ```
    ///
    /// # Errors
    /// Its abort, before which it has changed nothing; what the store refuses: the transaction can then only abort.
    pub fn run<P: Procedure>(
        &mut self,
        procedure: &PagedProcedure<P>,
        input: &P::Input,
    ) -> Result<P::Answer> {
        self.pass_step(procedure.database)?;
        let ran = step(&mut *self.store, |tx| procedure.procedure.run(tx, input));
        let has_changed = self.store.has_changed();
        // It may have deleted rows whose ids the closure has.
        self.ids.has_deleted |= has_changed;
        match ran {
            Ok(_) if self.only_reads && has_changed => {
                Err(self.doom(StoreError::LogTooLong { bytes_max: 0 }))
            }
            Ok(answer) => Ok(answer),
            Err(EngineStop::Abort(reason)) => Err(Stop::Abort(reason)),
            Err(EngineStop::Error(error)) => Err(self.doom(error)),
        }
    }
}
