//! Another number of islands for a database, or another way to spread its keys.
//!
//! ```text
//!   decide what is in doubt ─► copy each row into `repartition/`, by its key ─► complete ─► exchange ─► remove the old
//! ```
//!
//! Until the copy is complete the database is as it was; an attempt that did not come so far is made again from the
//! beginning. From then on the database is not opened before the exchange has ended: the same call continues it.
//!
//! Not here: which island a row belongs to (`spread.rs`). Invariant: islands are exchanged by renaming directories, and
//! which of them are the old ones is written before the first new one takes its place.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use tombolo_engine::islands::membership::{
    COMPLETE, REPARTITION, Spread, are_exchanged, island_directory, islands_in, spreads,
};
use tombolo_engine::islands::prepared::prepared_tables;
use tombolo_engine::requests::request_table;
use tombolo_storage::disk::{Disk, Open, OsDisk};
use tombolo_storage::dynamic::DynamicTable as Entries;
use tombolo_storage::error::Error as StoreError;
use tombolo_storage::schema::{Schema, TableDef};
use tombolo_storage::store::Store;
use tombolo_storage::value::{OwnedValue, Value};

use super::Islands;
use super::key::Keys;
use super::opening::{IslandsBuilder, damaged};
use crate::batches::{Batches, RECORD_BYTES};
use crate::builder::Recovered;
use crate::calls::OWN_PREFIX;
use crate::error::Error;
use crate::open::make_directory;
use crate::product::Product;
use crate::tx::DynamicTable;

/// The old islands are all in the directory `before`.
const MOVED: &str = "moved";
const BEFORE: &str = "before";

/// A report of a change of the number of islands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Repartitioned {
    /// How many islands there were; 0 if the call only ended an earlier one.
    pub before: usize,
    /// Rows that were copied.
    pub rows: u64,
}

type Row = Vec<OwnedValue>;

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
        let directory = directory.as_ref();
        let mut repartitioned = Repartitioned { before: 0, rows: 0 };
        let mut _old = Vec::new(); // locked until they are elsewhere
        if !are_exchanged(directory) {
            repartitioned.before = islands_in(directory);
            (repartitioned.rows, _old) = self.copy(directory, progress)?;
        }
        self.exchange(directory)?;
        Ok(repartitioned)
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
        let spreads = self.spreads_of(&mut stores)?;
        refuse_undecided(&stores)?;
        let place = directory.join(REPARTITION);
        // The locks of the old islands are held: no other process makes these.
        if place.exists() {
            fs::remove_dir_all(&place).map_err(|cause| failed(&place, &cause))?;
        }
        make_directory(&place)?;
        let islands = self.made_anew(stores[0].schema(), &spreads).open(&place)?;
        let rows = copy_all(&mut stores, &islands, &spreads, progress)?;
        islands.close()?;
        let disk = OsDisk::open(&place)?;
        disk.open(COMPLETE, Open::New)?.sync()?;
        disk.sync_dir()?;
        Ok((rows, before))
    }

    /// The builder of the islands as they are.
    fn as_made(&self, directory: &Path) -> Result<Self, Error> {
        let islands = islands_in(directory);
        if islands == 0 {
            return Err(Error::Directory(format!(
                "{} holds no database of islands",
                directory.display()
            )));
        }
        // How their keys are spread the directory says.
        let (keys, spreads) = (Keys::Hash, Vec::new());
        Ok(Self { islands, keys, spreads, is_auto: true, ..self.clone() })
    }

    /// How tables are spread: as recorded, and as declared now.
    fn spreads_of(&self, stores: &mut [&mut Product]) -> Result<Vec<Spread>, Error> {
        let mut all = spreads(stores[0]).map_err(damaged)?;
        all.retain(|recorded| self.spreads.iter().all(|now| now.table != recorded.table));
        all.extend(self.spreads.iter().cloned());
        if self.islands == 1 {
            return Ok(all);
        }
        for table in &stores[0].schema().tables {
            let is_own = table.name.starts_with(OWN_PREFIX);
            let is_known = all.iter().any(|spread| *spread.table == *table.name);
            let has_rows = stores.iter().any(|store| rows_of(store, &table.name) > 0);
            if !is_own && !is_known && has_rows {
                return Err(Error::Schema(format!(
                    "nothing says how table {} is spread, so its rows have no island: open the database with \
                     spread_by, or everywhere, for this table, then try again",
                    table.name
                )));
            }
        }
        Ok(all)
    }

    /// The builder of the new islands, with the tables of the old ones.
    fn made_anew(&self, schema: &Schema, spreads: &[Spread]) -> Self {
        let mut made = self.clone();
        let tables = schema.tables.iter().filter(|table| !table.name.starts_with(OWN_PREFIX));
        made.builder = made.builder.with_tables_only(tables.cloned().collect());
        made.spreads = spreads.to_vec();
        made
    }

    /// Puts the new islands in the place of the old ones. Each step can be repeated.
    fn exchange(&self, directory: &Path) -> Result<(), Error> {
        let place = directory.join(REPARTITION);
        let (disk, old) = (OsDisk::open(&place)?, place.join(BEFORE));
        if !disk.exists(MOVED)? {
            make_directory(&old)?;
            rename_islands(directory, &old)?;
            disk.open(MOVED, Open::New)?.sync()?;
            disk.sync_dir()?;
        }
        rename_islands(&place, directory)?;
        for further in self.builder.further_directories() {
            for island in islands_below(further)? {
                fs::remove_dir_all(&island).map_err(|cause| failed(&island, &cause))?;
            }
        }
        if old.exists() {
            fs::remove_dir_all(&old).map_err(|cause| failed(&old, &cause))?;
        }
        // This mark goes first: with it and without the other one, the new islands would be taken for the old ones.
        disk.remove(COMPLETE)?;
        disk.sync_dir()?;
        fs::remove_dir_all(&place).map_err(|cause| failed(&place, &cause))?;
        Ok(OsDisk::open(directory)?.sync_dir()?)
    }
}

/// The directories of islands in `directory`.
fn islands_below(directory: &Path) -> Result<Vec<PathBuf>, Error> {
    let entries = fs::read_dir(directory).map_err(|cause| failed(directory, &cause))?;
    let is_island = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let number = name.strip_prefix("island-").and_then(|number| number.parse().ok());
        number.is_some_and(|number: usize| island_directory(number) == name)
    };
    let paths = entries.filter_map(|entry| entry.ok().map(|entry| entry.path()));
    Ok(paths.filter(is_island).collect())
}

/// Moves the directories of all islands from one directory to another.
fn rename_islands(from: &Path, to: &Path) -> Result<(), Error> {
    for island in islands_below(from)? {
        let place = to.join(island.file_name().unwrap_or_default());
        fs::rename(&island, place).map_err(|cause| failed(&island, &cause))?;
    }
    for directory in [to, from] {
        OsDisk::open(directory)?.sync_dir()?;
    }
    Ok(())
}

fn failed(path: &Path, cause: &std::io::Error) -> Error {
    Error::Directory(format!("{}: {cause}: try again when that is remedied", path.display()))
}

fn rows_of(store: &Product, table: &str) -> usize {
    store.schema().table(table).map_or(0, |position| store.rows_at(position))
}

/// Refuses islands that hold parts of transactions which are not decided: opening them has tried.
fn refuse_undecided(stores: &[&mut Product]) -> Result<(), Error> {
    let held: usize = prepared_tables()
        .iter()
        .map(|table| stores.iter().map(|store| rows_of(store, &table.name)).sum::<usize>())
        .sum();
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
    to: &Islands,
    spreads: &[Spread],
    progress: &mut dyn FnMut(u64, u64),
) -> Result<u64, Error> {
    let schema = from[0].schema().clone();
    let own = |table: &&TableDef| !table.name.starts_with(OWN_PREFIX);
    let counts = schema
        .tables
        .iter()
        .filter(own)
        .map(|table| from.iter().map(|store| rows_of(store, &table.name) as u64).sum::<u64>());
    let mut load = Load::new(to, counts.sum(), progress);
    for table in schema.tables.iter().filter(own) {
        let spread = spreads.iter().find(|spread| *spread.table == *table.name);
        let column = spread.and_then(|spread| spread.column.as_ref());
        let column = column.and_then(|name| table.columns.iter().position(|one| one.name == *name));
        let is_on_each = spread.is_some_and(|spread| spread.column.is_none());
        load.begin(&table.name)?;
        let stores = if is_on_each { 1 } else { from.len() };
        for store in &mut from[..stores] {
            visit(store, &table.name, |values| match column {
                _ if is_on_each => load.add_everywhere(values),
                Some(column) => load.add_by_key(values, column),
                None => load.add(0, values),
            })?;
        }
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
        visit(store, &table.name, |values| {
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
        load.add_everywhere(&values)?;
    }
    Ok(())
}

/// Gives the values of each row of a table to `visit`.
fn visit(
    store: &mut Product,
    table: &str,
    mut visit: impl FnMut(&[Value<'_>]) -> Result<(), Error>,
) -> Result<(), Error> {
    let Some(position) = store.schema().table(table) else { return Ok(()) };
    let entries = Entries::new(store.schema(), position);
    let mut read = || -> Result<_, StoreError> {
        store.begin()?;
        let rows = entries.row_ids(store)?;
        let mut visited = rows.into_iter().map(|row| entries.read(store, row, &mut visit));
        let refused = visited.find(|visited| !matches!(visited, Ok(Ok(())))).transpose()?;
        store.commit()?;
        Ok(refused)
    };
    read().map_err(damaged)?.unwrap_or(Ok(()))
}

/// About how many bytes a row logs.
fn row_bytes<'v>(values: impl Iterator<Item = Value<'v>>) -> usize {
    let bytes = |value| match value {
        Value::Text(text) => text.len() + size_of::<u64>(),
        Value::Bytes(bytes) => bytes.len() + size_of::<u64>(),
        _ => size_of::<i128>(),
    };
    values.map(bytes).sum::<usize>() + RECORD_BYTES
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

    fn add_by_key(&mut self, values: &[Value<'_>], column: usize) -> Result<(), Error> {
        let keys = &self.islands.router.keys;
        match keys.island_of_value(values[column], self.islands.islands()) {
            Some(island) => self.add(island.index(), values),
            None => Err(Error::Schema(format!("{:?} is no key of islands", values[column]))),
        }
    }

    fn add_everywhere(&mut self, values: &[Value<'_>]) -> Result<(), Error> {
        (0..self.islands.islands()).try_for_each(|island| self.add(island, values))
    }

    fn add(&mut self, island: usize, values: &[Value<'_>]) -> Result<(), Error> {
        let Some(batches) = &mut self.batches else { return Ok(()) };
        let (row, before) = (values.iter().map(OwnedValue::of).collect(), batches.done());
        batches.add(island, row, row_bytes(values.iter().copied()))?;
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
