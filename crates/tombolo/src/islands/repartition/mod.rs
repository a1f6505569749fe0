//! Another number of islands for a database, or another way to spread its keys.
//!
//! ```text
//!   decide what is in doubt ─► copy each row into `repartition/`, by its key ─► complete ─► exchange ─► remove the old
//! ```
//!
//! Until the copy is complete the database is as it was; an attempt that did not come so far is made again from the
//! beginning. From then on the database is not opened before the exchange has ended: the same call continues it.
//!
//! | file | contains |
//! |---|---|
//! | `rows.rs` | the rows of the old islands, and where each goes |
//! | `exchange.rs` | new islands take the place of the old ones |
//!
//! Here: islands of memory stores. Not here: those of paged stores (`paged/islands/repartition.rs`).

use std::collections::BTreeMap;
use std::path::Path;

use tombolo_engine::islands::membership::{Spread, islands_in};
use tombolo_engine::islands::prepared::prepared_tables;
use tombolo_engine::requests::request_table;
use tombolo_storage::schema::Schema;
use tombolo_storage::store::Store;
use tombolo_storage::value::{OwnedValue, Value};

use super::Islands;
use super::key::Keys;
use super::opening::IslandsBuilder;
use crate::batches::Batches;
use crate::builder::Recovered;
use crate::error::Error;
use crate::product::Product;
use crate::tx::DynamicTable;

pub(crate) mod exchange;
pub(crate) mod rows;

use exchange::{copy_and_exchange, make_new};
use rows::{
    OldTable, Row, known_spreads, old_tables, row_bytes, row_ids, tables_of_program, visit,
};

/// A report of a change of the number of islands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Repartitioned {
    /// How many islands there were; 0 if the call only ended an earlier one.
    pub before: usize,
    /// Rows that were copied.
    pub rows: u64,
}

impl IslandsBuilder {
    /// Gives the closed database in `directory` this builder's number of islands, and its way to spread keys. Each
    /// table that has rows must be declared to be spread by a column, or to be on each island
    /// ([`IslandsBuilder::spread_by`], [`IslandsBuilder::everywhere`]), now or when the database was opened before; not
    /// if there is to be one island.
    /// `progress` is called with the rows copied so far, and all.
    ///
    /// Memory and disk must have room for the database twice. If the call does not come to its end, call it again: the
    /// database is either as it was, or refuses to be opened until then.
    ///
    /// ```
    /// # use tombolo::{Database, Error, Table};
    /// # #[derive(Table)]
    /// # struct Account { #[key] id: u64, cents: i64 }
    /// # let place = tempfile::tempdir().unwrap();
    /// # let directory = place.path().join("shop");
    /// let builder = || Database::builder().define::<Account>().set("log_segment_bytes", "1 MB");
    /// let db = builder().islands(2).spread_by(Account::ID).open(&directory)?;
    /// # let accounts = db.table::<Account>()?;
    /// # db.at(&7u64)?.transaction(move |tx| tx.insert_row(&accounts, &Account { id: 7, cents: 100 }).map(drop))?;
    /// db.close()?;
    /// builder().islands(3).repartition(&directory, &mut |_, _| ())?;
    /// let db = builder().islands(3).open(&directory)?;
    /// # let accounts = db.table::<Account>()?;
    /// # assert_eq!(db.at(&7u64)?.transaction(move |tx| Ok(tx.rows(&accounts)?.len()))?, 1);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`IslandsBuilder::open`]; [`Error::Schema`] for a table that is not declared; [`Error::Setting`] when the
    /// builder has an archive: a changed database needs a new one. The database is as it was then.
    pub fn repartition(
        self,
        directory: impl AsRef<Path>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Repartitioned, Error> {
        self.check()?;
        if self.builder.has_archive() {
            let what = "no log_archive while the number of islands is changed: what is there continues another log; \
                        begin a new one when the database is opened next";
            return Err(Error::Setting(what.to_owned()));
        }
        let (directory, further) = (directory.as_ref(), self.builder.further_directories());
        copy_and_exchange(directory, further, || self.copy(directory, progress))
    }

    /// Copies the rows of the islands in `directory` into new ones; returns how many, and the old islands.
    fn copy(
        &self,
        directory: &Path,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<(u64, Vec<Recovered>), Error> {
        let mut before = self.as_made(directory)?;
        before.clone().open(directory)?.close()?;
        let mut before = before.recover_all(directory)?;
        let mut stores: Vec<_> = before.iter_mut().map(|one| &mut one.opened.store).collect();
        let spreads = known_spreads(stores[0], &self.spreads)?;
        let tables = old_tables(&mut stores, &spreads, self.islands)?;
        refuse_undecided(&mut stores)?;
        let rows = make_new(directory, |place| {
            let islands = self.made_anew(stores[0].schema(), &spreads).open(place)?;
            let rows = copy_all(&mut stores, &tables, &islands, progress)?;
            islands.close()?;
            Ok(rows)
        })?;
        Ok((rows, before))
    }

    /// The builder of the islands as they are.
    fn as_made(&self, directory: &Path) -> Result<Self, Error> {
        let islands = islands_in(directory);
        if islands == 0 {
            let what = match directory.is_dir() {
                true => "holds no database of islands",
                false => "is no directory",
            };
            return Err(Error::Directory(format!(
                "{} {what}: give the directory in which the islands' directories are",
                directory.display()
            )));
        }
        // How their keys are spread the directory says.
        let (keys, spreads) = (Keys::Hash, Vec::new());
        Ok(Self { islands, keys, spreads, is_auto: true, ..self.clone() })
    }

    /// The builder of the new islands, with the tables of the old ones.
    fn made_anew(&self, schema: &Schema, spreads: &[Spread]) -> Self {
        let mut made = self.clone();
        let tables = tables_of_program(schema).cloned().collect();
        made.builder = made.builder.with_tables_only(tables);
        made.spreads = spreads.to_vec();
        made
    }
}

/// Refuses islands that hold parts of transactions which are not decided: opening them has tried.
fn refuse_undecided(stores: &mut [&mut Product]) -> Result<(), Error> {
    let mut held = 0;
    for table in prepared_tables() {
        for store in &mut *stores {
            held += row_ids(*store, &table.name)?.len();
        }
    }
    match held {
        0 => Ok(()),
        _ => Err(Error::Directory(format!(
            "{held} parts of transactions over several islands are not decided: open the database, close it, and try \
             again"
        ))),
    }
}

/// Copies all rows; returns how many.
fn copy_all(
    from: &mut [&mut Product],
    tables: &[OldTable],
    to: &Islands,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<u64, Error> {
    let mut load = Load::new(to, tables.iter().map(OldTable::count).sum(), progress);
    for table in tables {
        load.begin(&table.name)?;
        let place = (&to.router.keys, to.islands());
        table.each_row(from, place, |island, row, bytes| load.add(island, row, bytes))?;
    }
    copy_requests(from, &mut load)?;
    load.finish()
}

/// Copies the ids of requests to each island: whichever island a request runs on now, it has run.
fn copy_requests(from: &mut [&mut Product], load: &mut Load<'_, '_>) -> Result<(), Error> {
    let table = request_table();
    // By id: the number, which is a time, and the outcome.
    let mut requests: BTreeMap<[u8; 16], (i64, Row)> = BTreeMap::new();
    for store in from {
        let rows = row_ids(*store, &table.name)?;
        visit(*store, &table.name, &rows, |values| {
            if let [Value::Uuid(id), Value::Integer(number), ..] = values {
                requests.insert(*id, (*number, values.iter().map(OwnedValue::of).collect()));
            }
            Ok(())
        })?;
    }
    let mut requests: Vec<_> = requests.into_values().collect();
    requests.sort_by_key(|(number, _)| *number);
    load.begin(&table.name)?;
    let mut last = i64::MIN;
    for (number, row) in requests {
        last = number.max(last + 1);
        let mut values: Vec<_> = row.iter().map(OwnedValue::value).collect();
        values[1] = Value::Integer(last);
        for island in 0..load.islands.islands() {
            let row = values.iter().map(OwnedValue::of).collect();
            load.add(island, row, row_bytes(&values))?;
        }
    }
    Ok(())
}

/// Rows on their way to the new islands.
struct Load<'i, 'p> {
    islands: &'i Islands,
    /// Of the current table.
    batches: Option<Batches<Row>>,
    /// Rows of the tables before it.
    before: u64,
    all: u64,
    progress: &'p mut dyn FnMut(u64, u64),
}

impl<'i, 'p> Load<'i, 'p> {
    fn new(islands: &'i Islands, all: u64, progress: &'p mut dyn FnMut(u64, u64)) -> Self {
        Self { islands, batches: None, before: 0, all, progress }
    }

    /// The next rows are of this table.
    fn begin(&mut self, table: &str) -> Result<(), Error> {
        self.end()?;
        let schema = self.islands.schema();
        self.batches = schema.table(table).map(|at| {
            let table = DynamicTable::new(&schema, at);
            Batches::new(&self.islands.databases, move |tx, row: &Row| {
                let values: Vec<_> = row.iter().map(OwnedValue::value).collect();
                tx.insert_values(&table, &values).map(drop)
            })
        });
        Ok(())
    }

    fn add(&mut self, island: usize, row: Row, bytes: usize) -> Result<(), Error> {
        let Some(batches) = &mut self.batches else { return Ok(()) };
        let before = batches.done();
        batches.add(island, row, bytes)?;
        let done = batches.done();
        if done > before {
            self.report(done);
        }
        Ok(())
    }

    /// So many rows of the current table were copied.
    fn report(&mut self, done: u64) {
        (self.progress)((self.before + done).min(self.all), self.all);
    }

    /// Copies what is left of the current table.
    fn end(&mut self) -> Result<(), Error> {
        if let Some(mut batches) = self.batches.take() {
            self.before += batches.finish(|done| self.report(done))?;
        }
        Ok(())
    }

    fn finish(mut self) -> Result<u64, Error> {
        self.end()?;
        Ok(self.before)
    }
}
