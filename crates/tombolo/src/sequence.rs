//! Sequences: consecutive numbers, taken as part of transactions.
//!
//! A sequence is a row of a table of the database's own, created on first use. Not here:
//! numbers that need no order or may have gaps, for which a UUID will do.

use tombolo_storage::error::Error as StoreError;
use tombolo_storage::row::RowId;
use tombolo_storage::schema::TableDef;
use tombolo_storage::store::Table;

use crate::database::Database;
use crate::error::{Error, Result as TxResult};
use crate::tx::Tx;

tombolo_storage::table! {
    /// Sequences by name, and the number each gives out next.
    struct Row = "tombolo_sequence" { NAME: Varchar<60>; NEXT: BigInt => hot; }
}
tombolo_storage::index! {
    /// By name.
    struct ByName = "tombolo_sequence_by_name" on Row (NAME: Varchar<60>) unique Tree;
}

const NAME_BYTES_MAX: usize = 60;

/// The handle of a sequence; see [`Database::sequence`].
#[derive(Clone, Copy, Debug)]
pub struct Sequence {
    rows: Table<Row>,
    row: RowId,
}

impl Database {
    /// The handle of the sequence with this name, which is created on first use and begins at 1.
    ///
    /// ```
    /// let db = tombolo::Database::in_memory()?;
    /// let orders = db.sequence("orders")?;
    /// assert_eq!(db.transaction(move |tx| tx.next(&orders))?, 1);
    /// // A transaction that aborts takes no number.
    /// let aborted = db.transaction(move |tx| {
    ///     tx.next(&orders)?;
    ///     Err::<i64, _>(tombolo::Stop::Abort("not today"))
    /// });
    /// assert!(aborted.is_err());
    /// assert_eq!(db.transaction(move |tx| tx.next(&orders))?, 2);
    /// # Ok::<(), tombolo::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Schema`] for a name of more than 60 bytes, and the errors of any call.
    pub fn sequence(&self, name: &str) -> Result<Sequence, Error> {
        if name.len() > NAME_BYTES_MAX {
            let what = format!("{name}: names of sequences have at most {NAME_BYTES_MAX} bytes");
            return Err(Error::Schema(what));
        }
        let table = TableDef::of::<Row>().with::<ByName>();
        self.core().create_own_table(table)?;
        let (rows, by_name) = (self.table::<Row>()?, self.index::<ByName>()?);
        let name = name.to_owned();
        let row = self.transaction(move |tx| match tx.lookup(&by_name, name.as_bytes())? {
            Some(row) => Ok(row),
            None => tx.insert(&rows, |row| {
                row.set(Row::NAME, name.as_bytes());
                row.set(Row::NEXT, 1);
            }),
        })?;
        Ok(Sequence { rows, row })
    }
}

impl Tx<'_> {
    /// The next number of a sequence. It is taken when the transaction commits, so the numbers of committed
    /// transactions have no gaps.
    ///
    /// # Errors
    /// `OtherDatabase` for a handle of another database; `OutOfRange` after the largest `i64`.
    pub fn next(&mut self, sequence: &Sequence) -> TxResult<i64> {
        let Sequence { rows, row } = sequence;
        let number = self.get(rows, *row)?.get(Row::NEXT);
        let Some(next) = number.checked_add(1) else {
            let (table, column) = (rows.position() as u32, Row::NEXT.position() as u32);
            return Err(StoreError::OutOfRange { table, column }.into());
        };
        self.set(rows, *row, Row::NEXT, next)?;
        Ok(number)
    }

    /// Makes a sequence continue with `number`, for instance after loading rows that already have numbers.
    ///
    /// # Errors
    /// `OtherDatabase` for a handle of another database.
    pub fn set_next(&mut self, sequence: &Sequence, number: i64) -> TxResult<()> {
        self.set(&sequence.rows, sequence.row, Row::NEXT, number)
    }
}
