//! Reading a range in pages, each in a transaction of its own, so that no call waits for the whole range.
//!
//! Not here: pages within one transaction (`tx/scan.rs`).

use std::fmt;

use tombolo_storage::key::{IndexType, Range};
use tombolo_storage::schema::DeclaredIndex;
use tombolo_storage::store::{Index, Order};

use crate::calls::CallOptions;
use crate::database::Database;
use crate::error::Error;
use crate::tx::Cursor;
use crate::tx::derived::TableRow;

/// Pages of rows; see [`Database::pages`].
pub struct Pages<'d, I> {
    database: &'d Database,
    /// `None` after an error.
    cursor: Option<Cursor<I>>,
    rows_max: usize,
}

impl Database {
    /// The rows of a range as values of their struct, in pages of at most `rows_max` rows. Each page is read in a
    /// transaction of its own, and other calls run in between: a row that changes meanwhile is seen as it is
    /// when its page is read; a row that keeps its key is seen once.
    ///
    /// ```
    /// use tombolo::{Database, Order, Table};
    ///
    /// #[derive(Table)]
    /// struct Seat {
    ///     #[key]
    ///     number: u32,
    /// }
    ///
    /// let db = Database::builder().define::<Seat>().in_memory()?;
    /// let (seats, by_number) = (db.table::<Seat>()?, db.index::<SeatKey>()?);
    /// db.load(&seats, (0..25).map(|number| Seat { number }))?;
    /// let mut sizes = Vec::new();
    /// for page in db.pages(&by_number, 3.., Order::Forward, 10)? {
    ///     sizes.push(page?.len());
    /// }
    /// assert_eq!(sizes, [10, 10, 2]);
    /// # Ok::<(), tombolo::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Tx::cursor`](crate::Tx::cursor), and the errors of any call. A refused page is the last one.
    ///
    /// # Panics
    /// When `rows_max` is 0.
    pub fn pages<I>(
        &self,
        index: &Index<I>,
        range: impl Into<Range<<I as IndexType>::Key<'static>>>,
        order: Order,
        rows_max: usize,
    ) -> Result<Pages<'_, I>, Error>
    where
        I: DeclaredIndex<Table: TableRow + Send>,
        Range<<I as IndexType>::Key<'static>>: Send,
    {
        assert!(rows_max > 0, "a page has at least one row");
        let (index, range) = (*index, range.into());
        let reads = self.with(CallOptions::new().read_only());
        let cursor = Some(reads.transaction(move |tx| tx.cursor(&index, range, order))?);
        Ok(Pages { database: self, cursor, rows_max })
    }
}

impl<I: DeclaredIndex<Table: TableRow + Send>> Iterator for Pages<'_, I> {
    type Item = Result<Vec<I::Table>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut cursor = self.cursor.take().filter(|cursor| !cursor.is_at_end())?;
        let rows_max = self.rows_max;
        let read = self.database.with(CallOptions::new().read_only()).transaction(move |tx| {
            let page = tx.page_rows(&mut cursor, rows_max)?;
            Ok((page, cursor))
        });
        match read {
            Ok((page, _)) if page.is_empty() => None,
            Ok((page, cursor)) => {
                self.cursor = Some(cursor);
                Some(Ok(page))
            }
            Err(error) => Some(Err(error)),
        }
    }
}

impl<I> fmt::Debug for Pages<'_, I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pages").field("rows_max", &self.rows_max).finish_non_exhaustive()
    }
}
