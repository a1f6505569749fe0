//! Another number of islands for a paged database, or another way to spread its keys: by a copy, as of islands of
//! memory stores, whose `rows.rs` says where rows go and whose `exchange.rs` exchanges the islands.
//!
//! Not here: how rows are inserted (`paged/load.rs`).

use std::path::Path;

use tombolo_engine::islands::membership::{islands_in, membership};
use tombolo_storage::paged::pool::PAGES_FILE;
use tombolo_storage::store::Store as _;
use tombolo_storage::value::OwnedValue;

use super::super::load::load;
use super::super::sessions::Store;
use super::super::tx::PagedTx;
use super::PagedIslands;
use super::builder::{PagedIslandsBuilder, damaged};
use crate::error::Error;
use crate::islands::Repartitioned;
use crate::islands::key::Keys;
use crate::islands::repartition::exchange::{copy_and_exchange, make_new};
use crate::islands::repartition::rows::{
    OldTable, Row, known_spreads, old_tables, tables_of_program,
};

impl PagedIslandsBuilder {
    /// Gives the closed database in `directory` this builder's number of islands, and its way to spread keys, as
    /// [`IslandsBuilder::repartition`](crate::IslandsBuilder::repartition) does. `progress` is called with the rows
    /// copied so far, and all.
    ///
    /// The disk must have room for the database twice; the old islands and the new ones share `pool_bytes`, and eight
    /// bytes for each row are kept in memory. If the call does not come to its end, call it again: the database is
    /// either as it was, or refuses to be opened until then.
    ///
    /// ```
    /// # use tombolo::{Database, Error, Table};
    /// # #[derive(Table)]
    /// # struct Account { #[key] id: u64, cents: i64 }
    /// # let place = tempfile::tempdir().unwrap();
    /// # let directory = place.path().join("shop");
    /// let builder = || Database::builder().define::<Account>().paged().pool_bytes(16 << 20);
    /// let db = builder().islands(2).spread_by(Account::ID).open(&directory)?;
    /// # let accounts = db.table::<Account>()?;
    /// # db.at(&7u64)?.transaction(|tx| tx.insert_row(&accounts, &Account { id: 7, cents: 100 }).map(drop))?;
    /// db.close()?;
    /// builder().islands(3).repartition(&directory, &mut |_, _| ())?;
    /// let db = builder().islands(3).open(&directory)?;
    /// # let accounts = db.table::<Account>()?;
    /// # assert_eq!(db.at(&7u64)?.transaction(|tx| Ok(tx.rows(&accounts)?.len()))?, 1);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`PagedIslandsBuilder::open`]; [`Error::Schema`] for a table that is not declared to be spread. The database
    /// is as it was then.
    pub fn repartition(
        self,
        directory: impl AsRef<Path>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Repartitioned, Error> {
        self.keys.verify(self.islands)?;
        let directory = directory.as_ref();
        copy_and_exchange(directory, &[], || self.copy(directory, progress))
    }

    /// Copies the rows of the islands in `directory` into new ones; returns how many, and the old islands.
    fn copy(
        &self,
        directory: &Path,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<(u64, Vec<Store>), Error> {
        let mut before = self.as_made(directory)?;
        before.clone().open(directory)?.close()?;
        before.divide()?;
        let places = (0..before.islands).map(|island| before.asked(directory).place(island));
        let old = places.map(|place| before.paged.open_store(&place));
        let mut old = old.collect::<Result<Vec<_>, _>>()?;
        match self.copy_from(&mut old, directory, progress) {
            Ok(rows) => Ok((rows, old)),
            Err(error) => {
                // They stay the database's, which was closed.
                old.into_iter().try_for_each(Store::close).map_err(|error| Error::paged(&error))?;
                Err(error)
            }
        }
    }

    /// Copies the rows of these islands into new ones below `directory`; returns how many.
    fn copy_from(
        &self,
        old: &mut [Store],
        directory: &Path,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<u64, Error> {
        let mut stores: Vec<_> = old.iter_mut().collect();
        let spreads = known_spreads(stores[0], &self.spreads)?;
        let tables = old_tables(&mut stores, &spreads, self.islands)?;
        let of_program = tables_of_program(stores[0].schema()).cloned().collect();
        let paged = self.half().paged.with_tables_only(of_program);
        make_new(directory, |place| {
            let islands = Self { paged, spreads, ..self.clone() }.open(place)?;
            let rows = copy_all(&mut stores, &tables, &islands, progress)?;
            islands.close()?;
            Ok(rows)
        })
    }

    /// With half of the memory: the old islands and the new ones are open at the same time.
    fn half(&self) -> Self {
        let mut half = self.clone();
        half.paged.settings.pool_bytes /= 2;
        half
    }

    /// The builder of the islands as they are.
    fn as_made(&self, directory: &Path) -> Result<Self, Error> {
        let islands = islands_in(directory);
        let first = self.asked(directory).place(0);
        if !first.join(PAGES_FILE).is_file() {
            return Err(Error::Directory(format!(
                "{} holds no paged database of islands",
                directory.display()
            )));
        }
        let mut store = self.paged.open_store(&first)?;
        let own = membership(&mut store).map_err(damaged)?;
        store.close().map_err(|error| Error::paged(&error))?;
        // An island without a membership was not made to its end, as the others say then.
        let keys = own.map_or(Ok(Keys::Hash), |(own, _)| Keys::recorded(&own.keys))?;
        Ok(Self { islands, keys, spreads: Vec::new(), ..self.half() })
    }
}

/// Copies all rows; returns how many.
fn copy_all(
    from: &mut [&mut Store],
    tables: &[OldTable],
    to: &PagedIslands,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<u64, Error> {
    let all = tables.iter().map(OldTable::count).sum();
    let place = (&to.router.keys, to.router.islands);
    let mut copied = 0;
    for table in tables {
        let handle = to.dynamic_table(&table.name)?;
        let insert = |tx: &mut PagedTx<'_>, row: &Row| {
            let values: Vec<_> = row.iter().map(OwnedValue::value).collect();
            tx.insert_values(&handle, &values).map(drop)
        };
        copied += load(&to.islands, insert, |batches| {
            let added = table.each_row(from, place, |island, row, bytes| {
                let before = batches.done();
                batches.add(island, row, bytes)?;
                let done = batches.done();
                if done > before {
                    progress((copied + done).min(all), all);
                }
                Ok(())
            });
            added.map_err(|error| batches.end(error))
        })?;
    }
    progress(all, all);
    Ok(copied)
}
