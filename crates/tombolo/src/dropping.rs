//! Dropping tables, indexes and columns while the database runs.
//!
//! ```text
//!   drop_index  ──► one call: gone, logged, old handles refused ──► given back here
//!   drop_table  ──► the same
//!   drop_column ──► the same ──► long work frees long values: slice, slice, …
//! ```
//!
//! A drop runs like any call, at its place in the order, and its answer waits for the log. The thread that
//! requested the drop then frees the memory, while transactions continue. After a crash, the dropped object is
//! complete if the drop was not durable, and gone if it was.
//!
//! Not here: the store's part (storage `memory/dropping.rs`), the refusal of old handles
//! (`tx/handles.rs`), additions (`evolve.rs`). Invariant: drops and additions run one at a time.

use std::time::Duration;

use tombolo_engine::pipeline::{self, LongWork, Sliced};
use tombolo_engine::transaction::Stop;
use tombolo_storage::error::SchemaError;
use tombolo_storage::memory::online::Built;

use crate::calls::{Envelope, Finished, Runner, Settled, on_database_thread, wait_a_moment};
use crate::core::Core;
use crate::database::Database;
use crate::error::Error;
use crate::evolve::{CHANGE_LOG_BYTES, refuse_own};
use crate::product::Product;

/// The time to sleep if too much long work is under way.
const TURN_WAIT: Duration = Duration::from_millis(1);

/// Frees the long values of dropped columns, a slice at a time.
struct Freeing;

impl LongWork<Runner> for Freeing {
    fn begin(&mut self, _: &mut Runner) -> Result<(), Stop> {
        Ok(())
    }

    fn slice(
        &mut self,
        runner: &mut Runner,
        rows_max: usize,
        _: u64,
    ) -> Result<Sliced<Box<dyn Envelope>>, Stop> {
        Ok(match runner.store().values_slice(rows_max) {
            Built::More { rows } => Sliced::More { rows },
            Built::Done => Sliced::Done(Finished::envelope(Ok(()))),
        })
    }

    fn end(&mut self, _: &mut Runner) {}
}

impl Core {
    /// Runs a drop between two transactions, blocks until it is durable, and frees the memory.
    fn drop_by<A: Send + 'static>(
        &self,
        name: &str,
        drops: impl FnOnce(&mut Product) -> Result<A, SchemaError> + Send + 'static,
    ) -> Result<(), Error> {
        if on_database_thread() {
            return Err(Error::Nested);
        }
        let _turn = self.turn();
        drop(self.change(name.len() as u64 + CHANGE_LOG_BYTES, Box::new(drops))?);
        self.free_values();
        Ok(())
    }

    /// Frees the long values that dropped columns left, unless the database ends before.
    fn free_values(&self) {
        let ticket = loop {
            let freeing = Box::new(Freeing);
            match self.submit_long(freeing, pipeline::Durability::Async) {
                Ok(ticket) => break ticket,
                Err(Error::QueueFull) => wait_a_moment(TURN_WAIT),
                Err(_) => return, // its memory goes with it
            }
        };
        let _ = self.wait::<(), Settled>(ticket); // what is left goes with the database
    }
}

impl Database {
    /// Drops an index while the database runs, and blocks until that is durable. The memory of its entries is
    /// freed, and its name can be reused. Its handles are refused from then on
    /// ([`StoreError::Dropped`](crate::StoreError::Dropped)), and so are handles of its table from
    /// [`Database::dynamic_table`]: request new ones.
    ///
    /// A program that names the index in its table's definition creates it again when it opens the database.
    ///
    /// ```
    /// use tombolo::{Database, Table};
    ///
    /// #[derive(Table)]
    /// #[index(ByOwner(owner))]
    /// struct Account {
    ///     #[key]
    ///     id: u32,
    ///     owner: String,
    /// }
    /// let db = Database::builder().define::<Account>().in_memory()?;
    /// let by_owner = db.index::<ByOwner>()?;
    /// db.drop_index("account_by_owner")?;
    /// assert!(db.transaction(move |tx| tx.lookup(&by_owner, "Ada")).is_err());
    /// // A primary key stays as long as its table does.
    /// assert!(db.drop_index("account_key").is_err());
    /// # Ok::<(), tombolo::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Schema`] when there is no such index or it is a table's primary key (its first index, if
    /// unique); [`Error::Nested`] in a transaction; and the errors of any call. After an error the index is
    /// kept.
    pub fn drop_index(&self, name: &str) -> Result<(), Error> {
        refuse_own(name)?;
        let own = name.to_owned();
        self.core().drop_by(name, move |store| store.drop_index(&own))
    }

    /// Drops a table with its rows and indexes while the database runs, and blocks until that is durable
    /// and its memory is freed. Its name can be reused. A new table of that name is another table:
    /// handles of the dropped one are refused ([`StoreError::Dropped`](crate::StoreError::Dropped)).
    /// Transactions continue meanwhile; the files shrink with the next checkpoint.
    ///
    /// A program that defines the table creates it again, empty, when it opens the database.
    ///
    /// ```
    /// use tombolo::{Database, Error, StoreError, Table};
    ///
    /// #[derive(Table)]
    /// struct Draft {
    ///     #[key]
    ///     id: u32,
    ///     text: String,
    /// }
    /// let db = Database::builder().define::<Draft>().in_memory()?;
    /// let drafts = db.table::<Draft>()?;
    /// db.transaction(move |tx| tx.insert_row(&drafts, &Draft { id: 1, text: "Dear".into() }))?;
    /// db.drop_table("draft")?;
    /// let count = db.transaction(move |tx| tx.count(&drafts));
    /// assert_eq!(count, Err(Error::Refused(StoreError::Dropped)));
    /// assert!(db.table::<Draft>().is_err());
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Schema`] when there is no such table, or a [`scan`](Database::scan) is under way, of
    /// any table: retry when it is over; [`Error::Nested`] in a transaction; and the errors of any
    /// call. After an error the table is kept.
    pub fn drop_table(&self, name: &str) -> Result<(), Error> {
        refuse_own(name)?;
        let own = name.to_owned();
        self.core().drop_by(name, move |store| store.drop_table(&own))
    }

    /// Drops a column while the database runs, and blocks until that is durable and the memory of its long
    /// values is freed. Its name can be reused. The column keeps its place and its bytes in the rows, so that
    /// other columns do not move.
    ///
    /// Handles of the table and of its indexes are refused from then on
    /// ([`StoreError::Dropped`](crate::StoreError::Dropped)). To get new ones, or to open the database later, a
    /// program declares the column as dropped, at its place and with its type
    /// ([`Dropped`](crate::types::Dropped)). In rows of values the column keeps its place and is null.
    ///
    /// ```
    /// use tombolo::types::Dropped;
    /// use tombolo::{Database, Error, StoreError, Table};
    ///
    /// mod before {
    ///     #[derive(tombolo::Table)]
    ///     pub struct Customer {
    ///         #[key]
    ///         pub id: u32,
    ///         pub fax: Option<String>,
    ///         pub name: String,
    ///     }
    /// }
    /// #[derive(Table, Debug, PartialEq)]
    /// struct Customer {
    ///     #[key]
    ///     id: u32,
    ///     fax: Dropped<Option<String>>,
    ///     name: String,
    /// }
    ///
    /// let db = Database::builder().define::<before::Customer>().in_memory()?;
    /// let old = db.table::<before::Customer>()?;
    /// let ada = before::Customer { id: 7, fax: Some("030 1".into()), name: "Ada".into() };
    /// let row = db.transaction(move |tx| tx.insert_row(&old, &ada))?;
    ///
    /// db.drop_column("customer", "fax")?;
    /// let read = db.transaction(move |tx| tx.read_row(&old, row).map(drop));
    /// assert_eq!(read, Err(Error::Refused(StoreError::Dropped)));
    /// let customers = db.table::<Customer>()?;
    /// let ada = db.transaction(move |tx| tx.read_row(&customers, row))?;
    /// assert_eq!(ada, Customer { id: 7, fax: Dropped::new(), name: "Ada".into() });
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Schema`] when there is no such table or column, when an index has it in its keys (the error
    /// names the index, which must be dropped first), when it is the table's last column, or a
    /// [`scan`](Database::scan) is under way;
    /// [`Error::Nested`] in a transaction; and the errors of any call. After an error the column is kept.
    pub fn drop_column(&self, table: &str, column: &str) -> Result<(), Error> {
        refuse_own(table)?;
        let (own, name) = (table.to_owned(), column.to_owned());
        self.core().drop_by(column, move |store| store.drop_column(&own, &name))
    }
}
