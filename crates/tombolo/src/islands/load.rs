//! Loading many rows into their islands.
//!
//! A row goes to the island of the key in the column by which its table is spread. Rows of a table that is on each
//! island are inserted on all of them, in transactions over all. Not here: batches (`crate::batches`), one
//! database (`crate::load`).

use std::sync::Arc;

use tombolo_storage::store::Table;
use tombolo_storage::value::ColumnReader;

use super::Islands;
use crate::batches::{Batches, in_batches, row_bytes};
use crate::error::Error;
use crate::load::LoadError;
use crate::tx::RowImage;
use crate::tx::derived::TableRow;

/// Where the rows of a table belong.
enum Place {
    /// There is one island.
    First,
    ByKey(ColumnReader),
    Everywhere,
}

impl Islands {
    /// Inserts a row for each value, with its index entries, on its island; returns their number. The table is
    /// declared to be spread by a column ([`IslandsBuilder::spread_by`](crate::IslandsBuilder::spread_by)), or to be on
    /// each island ([`IslandsBuilder::everywhere`](crate::IslandsBuilder::everywhere)), by this program or an earlier
    /// one. Suits any number of rows: they are inserted in transactions of some hundred rows each, by all islands at
    /// the same time, between other calls. When this returns `Ok`, all rows are durable.
    ///
    /// ```
    /// use tombolo::{Database, Table};
    ///
    /// #[derive(Table)]
    /// struct Word {
    ///     #[key]
    ///     text: String,
    /// }
    ///
    /// let db = Database::builder().define::<Word>().islands(2).spread_by(Word::TEXT).in_memory()?;
    /// let words = db.table::<Word>()?;
    /// let rows = (0..10_000).map(|number| Word { text: format!("word {number}") });
    /// assert_eq!(db.load(&words, rows)?, 10_000);
    /// // A row that exists already ends the load.
    /// let again = db.load(&words, [Word { text: "word 7".to_owned() }]).unwrap_err();
    /// assert_eq!(again.loaded, 0);
    /// # Ok::<(), tombolo::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Schema`] for a table that is not declared so. The error of a refused batch, of which no row is loaded.
    /// Rows before it are; of other islands some behind it may be. A row of a table on each island is on all of them,
    /// or on none.
    pub fn load<R>(
        &self,
        table: &Table<R>,
        rows: impl IntoIterator<Item = R>,
    ) -> Result<u64, LoadError>
    where
        R: TableRow + Send + Sync + 'static,
    {
        let place = self.place_of::<R>().map_err(|error| LoadError { loaded: 0, error })?;
        let table = *table;
        if let Place::Everywhere = place {
            return self.load_everywhere(table, rows);
        }
        let (keys, islands) = (&self.router.keys, self.islands());
        let mut batches =
            Batches::new(&self.databases, move |tx, row: &R| tx.insert_row(&table, row).map(drop));
        let mut image = RowImage::default();
        for row in rows {
            let island = match &place {
                Place::First | Place::Everywhere => 0,
                Place::ByKey(reader) => {
                    image.fill(&row);
                    // A value that its column cannot hold is no key; the row is refused wherever it goes.
                    keys.island_of_value(reader.read(&image), islands).map_or(0, |at| at.index())
                }
            };
            let bytes = row_bytes(&row);
            batches.add(island, row, bytes)?;
        }
        batches.finish(|_| ())
    }

    /// Inserts rows on each island, each batch in one transaction.
    fn load_everywhere<R>(
        &self,
        table: Table<R>,
        rows: impl IntoIterator<Item = R>,
    ) -> Result<u64, LoadError>
    where
        R: TableRow + Send + Sync + 'static,
    {
        let insert = self.register_closure("load", move |tx, rows: &Arc<Vec<R>>| {
            rows.iter().try_for_each(|row| tx.insert_row(&table, row).map(drop))
        });
        in_batches(rows, |batch| {
            let mut across = self.across();
            across.everywhere(&insert, Arc::new(batch));
            across.commit().map(drop)
        })
    }

    fn place_of<R: TableRow>(&self) -> Result<Place, Error> {
        let spread = self.spreads.iter().find(|spread| spread.table == R::NAME);
        let column = match spread.map(|spread| spread.column.as_deref()) {
            Some(None) => return Ok(Place::Everywhere),
            _ if self.islands() == 1 => return Ok(Place::First),
            Some(Some(column)) => column,
            None => {
                return Err(Error::Schema(format!(
                    "nothing says how table {} is spread, so its rows have no island: open the database with \
                     spread_by, or everywhere, for this table",
                    R::NAME
                )));
            }
        };
        let schema = self.schema();
        let table = schema.table(R::NAME).map(|at| &schema.tables[at]);
        let at = R::COLUMNS.iter().position(|one| one.name == column);
        match table.zip(at) {
            Some((table, at)) => Ok(Place::ByKey(ColumnReader::new(&table.columns, at))),
            None => Err(Error::Schema(format!(
                "the program's table {} has no column {column}, by which its rows are spread",
                R::NAME
            ))),
        }
    }
}
