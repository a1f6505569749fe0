//! Tables whose rows are spread over the islands by a column, or are on each of them.
//!
//! What a program declares is recorded in each island, so that a later program that does not declare it keeps to it.
//! A row with another island's key in its column is refused when its transaction commits.
//!
//! Not here: that check (storage `memory/homes.rs`, `paged/store/homes.rs`); whether a table on all islands has the
//! same rows on each, which `tombolo check` compares.

use std::sync::Arc;

use tombolo_engine::islands::commit::IslandId;
use tombolo_engine::islands::membership::{Spread, record_spread, spreads};
use tombolo_storage::error::Error as StoreError;
use tombolo_storage::homes::IsHome;
use tombolo_storage::schema::Schema;
use tombolo_storage::store::Store;
use tombolo_storage::value::Value;

use super::key::Keys;
use super::opening::damaged;
use crate::error::Error;
use crate::paged::sessions::Store as PagedStore;
use crate::product::Product;

/// A store whose tables can be spread.
pub(crate) trait Spreadable: Store {
    /// From here on a row is admitted only if `is_home` says so of its value in this column of this table.
    fn keep_home(&mut self, table: usize, column: usize, is_home: IsHome);

    /// How many rows of a table do not belong here.
    fn strays(&self, table: usize) -> Result<u64, StoreError>;
}

impl Spreadable for Product {
    fn keep_home(&mut self, table: usize, column: usize, is_home: IsHome) {
        Self::keep_home(self, table, column, is_home);
    }

    fn strays(&self, table: usize) -> Result<u64, StoreError> {
        Ok(Self::strays(self, table) as u64)
    }
}

impl Spreadable for PagedStore {
    fn keep_home(&mut self, table: usize, column: usize, is_home: IsHome) {
        Self::keep_home(self, table, column, is_home);
    }

    fn strays(&self, table: usize) -> Result<u64, StoreError> {
        Self::strays(self, table)
    }
}

/// Spreads the tables of all islands as they were before, and as is declared now; returns how.
///
/// # Errors
/// [`Error::Schema`] for what cannot be spread so, [`Error::Directory`] when rows, or what is recorded, say otherwise.
pub(crate) fn spread<S: Spreadable>(
    stores: &mut [&mut S],
    keys: &Keys,
    declared: &[Spread],
) -> Result<Vec<Spread>, Error> {
    let recorded = stores.iter_mut().map(|store| spreads(*store).map_err(damaged));
    let recorded = recorded.collect::<Result<Vec<_>, _>>()?;
    let mut all: Vec<Spread> = Vec::new();
    for spread in recorded.iter().flatten().chain(declared) {
        match all.iter().find(|known| known.table == spread.table) {
            None => all.push(spread.clone()),
            Some(known) if known == spread => {}
            Some(known) => {
                return Err(Error::Directory(format!(
                    "table {} is spread {}, not {}: open the database as it was made",
                    known.table,
                    by(known),
                    by(spread)
                )));
            }
        }
    }
    let islands = stores.len();
    let is_new = |island: usize, spread: &Spread| !recorded[island].contains(spread);
    for (island, store) in stores.iter_mut().enumerate() {
        let me = IslandId(island as u16);
        for spread in &all {
            keep(*store, keys, spread, (me, islands))?;
            if is_new(island, spread) {
                refuse_strays(*store, spread, me)?;
            }
        }
    }
    // Nothing is recorded that an island refuses.
    for (island, store) in stores.iter_mut().enumerate() {
        for spread in all.iter().filter(|spread| is_new(island, spread)) {
            record_spread(*store, spread).map_err(damaged)?;
        }
    }
    Ok(all)
}

/// Spreads the tables of one island, whose others are in other processes, as is recorded and declared.
///
/// # Errors
/// As [`spread`].
pub(crate) fn spread_own(
    store: &mut impl Spreadable,
    keys: &Keys,
    declared: &[Spread],
    (me, islands): (IslandId, usize),
) -> Result<(), Error> {
    let mut all = spreads(store).map_err(damaged)?;
    let new = declared.iter().filter(|spread| !all.contains(spread)).cloned();
    all.extend(new.collect::<Vec<_>>());
    all.iter().try_for_each(|spread| keep(store, keys, spread, (me, islands)))
}

fn by(spread: &Spread) -> String {
    match &spread.column {
        Some(column) => format!("by {column}"),
        None => "so that each island has all rows".to_owned(),
    }
}

/// Makes an island refuse rows of a table that belong to another.
fn keep(
    store: &mut impl Spreadable,
    keys: &Keys,
    spread: &Spread,
    (island, islands): (IslandId, usize),
) -> Result<(), Error> {
    let Some((table, column)) = resolve(store.schema(), keys, spread)? else { return Ok(()) };
    let keys = keys.clone();
    let is_home: IsHome =
        Arc::new(move |value: Value<'_>| keys.island_of_value(value, islands) == Some(island));
    store.keep_home(table, column, is_home);
    Ok(())
}

/// Refuses rows that are on an island already and belong to another.
fn refuse_strays(store: &impl Spreadable, spread: &Spread, island: IslandId) -> Result<(), Error> {
    let table = store.schema().table(&spread.table);
    let strays = table.map_or(Ok(0), |table| store.strays(table)).map_err(damaged)?;
    match (strays, &spread.column) {
        (1.., Some(column)) => Err(Error::Directory(format!(
            "{strays} rows of table {} on {island} have keys of other islands in their column {column}: move them \
             there with a program that does not declare how the table is spread",
            spread.table,
        ))),
        _ => Ok(()),
    }
}

/// The positions of the table and the column by which it is spread, if by one.
fn resolve(schema: &Schema, keys: &Keys, spread: &Spread) -> Result<Option<(usize, usize)>, Error> {
    let refuse = |what: String| Err(Error::Schema(what));
    let Some(position) = schema.table(&spread.table) else {
        return refuse(format!("there is no table {} to be spread: define it", spread.table));
    };
    let table = &schema.tables[position];
    let Some(name) = &spread.column else { return Ok(None) };
    let Some(column) = table.columns.iter().position(|column| column.name == *name) else {
        return refuse(format!("table {} has no column {name} to be spread by", table.name));
    };
    let place = format!("{}.{name}", table.name);
    if table.columns[column].nullable {
        return refuse(format!("{place} may be null, and a row without a key has no island"));
    }
    if !keys.are_of(table.columns[column].sql) {
        return refuse(format!(
            "{place} is no key of islands: use a column of integers, or, if keys are spread by their hash, of text, \
             bytes or UUIDs"
        ));
    }
    let unique =
        table.indexes.iter().find(|index| index.unique && !index.columns.contains(&column));
    unique.map_or(Ok(Some((position, column))), |index| {
        refuse(format!(
            "index {} is unique and has no column {name}: rows with equal keys could be on different islands, which \
             do not see each other; add the column to the index, or spread {} by one of the index's columns",
            index.name, table.name
        ))
    })
}
