//! `Membership`: rows that say which island of which database a directory belongs to, how often it was opened, and how
//! tables are spread.
//!
//! An opening is counted durably before the island sends its first message, so the number of a transaction
//! over several islands never repeats (decision 0046, point 8). Not here: what an opening does.

use std::ops::ControlFlow;
use std::path::Path;

use tombolo_storage::error::{Error, Result, SchemaError};
use tombolo_storage::row::{Fields, RowId};
use tombolo_storage::schema::TableDef;
use tombolo_storage::store::{Store, Table, resolve_table};

use super::commit::IslandId;
use super::prepared::transaction;

tombolo_storage::table! {
    /// One row: the island that this is.
    pub struct Member = "tombolo_island" {
        DATABASE: Uuid;
        ISLAND: Integer;
        ISLANDS: Integer;
        KEYS: Text;
        OPENING: BigInt;
    }
}

tombolo_storage::table! {
    /// A table whose rows are spread over the islands by a column, or are on each of them.
    pub struct SpreadTable = "tombolo_spread" {
        TABLE: Text;
        COLUMN: Text;
    }
}

const COUNTED: Fields<Member> = Fields::none().with(Member::OPENING);

/// The definitions of the tables.
pub fn membership_tables() -> [TableDef; 2] {
    [TableDef::of::<Member>(), TableDef::of::<SpreadTable>()]
}

/// How a table's rows are spread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spread {
    /// The table.
    pub table: String,
    /// The column whose value is the key of a row's island; `None`: each island has all rows.
    pub column: Option<String>,
}

/// How the tables of a store are spread, as it was recorded.
///
/// # Errors
/// Those of the store.
pub fn spreads<S: Store>(store: &mut S) -> Result<Vec<Spread>> {
    transaction(store, read_spreads)
}

/// The same within a transaction that the caller has begun.
///
/// # Errors
/// Those of the store.
pub fn read_spreads<S: Store>(store: &mut S) -> Result<Vec<Spread>> {
    let table: Table<SpreadTable> = resolve_table(store.schema()).map_err(mismatch)?;
    let mut rows = Vec::new();
    store.rows(&table, |row| {
        rows.push(row);
        ControlFlow::Continue(())
    })?;
    let read = rows.into_iter().map(|row| {
        let row = store.pin(&table, row)?;
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_owned()).ok();
        let column = text(row.get(SpreadTable::COLUMN)).ok_or(Error::UnfitChanges)?;
        let table = text(row.get(SpreadTable::TABLE)).ok_or(Error::UnfitChanges)?;
        Ok(Spread { table, column: (!column.is_empty()).then_some(column) })
    });
    read.collect()
}

/// Records how a table is spread.
///
/// # Errors
/// Those of the store.
pub fn record_spread<S: Store>(store: &mut S, spread: &Spread) -> Result<()> {
    let table: Table<SpreadTable> = resolve_table(store.schema()).map_err(mismatch)?;
    transaction(store, |store| {
        let row = store.create(&table, |_| {})?;
        let column = spread.column.as_deref().unwrap_or_default();
        for (place, text) in [(SpreadTable::TABLE, &*spread.table), (SpreadTable::COLUMN, column)] {
            store.set_variable(&table, row, place.offset(), text.as_bytes())?;
        }
        Ok(())
    })
}

/// The name of an island's directory within that of its database.
pub fn island_directory(island: usize) -> String {
    format!("island-{island}")
}

/// How many islands' directories are in a database's.
pub fn islands_in(directory: &Path) -> usize {
    (0..).take_while(|island| directory.join(island_directory(*island)).is_dir()).count()
}

/// The directory, in that of a database, in which islands of another number are made.
pub const REPARTITION: &str = "repartition";

/// The file in it that says that they are complete.
pub const COMPLETE: &str = "complete";

/// Whether the islands in a database's directory are being exchanged for others, so that it is not to be opened.
pub fn are_exchanged(directory: &Path) -> bool {
    directory.join(REPARTITION).join(COMPLETE).is_file()
}

/// Which island of which database this is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    /// A number that no other database has.
    pub database: u128,
    /// The island.
    pub island: IslandId,
    /// How many there are.
    pub islands: u16,
    /// How keys are spread over them, as the program writes it down.
    pub keys: String,
}

/// The membership that a store holds, and the openings counted so far; `None` in a store that is no island.
///
/// # Errors
/// Those of the store.
pub fn membership<S: Store>(store: &mut S) -> Result<Option<(Membership, u32)>> {
    transaction(store, read_membership)
}

/// The same within a transaction that the caller has begun.
///
/// # Errors
/// Those of the store.
pub fn read_membership<S: Store>(store: &mut S) -> Result<Option<(Membership, u32)>> {
    let Some((table, row)) = find(store)? else { return Ok(None) };
    let row = store.pin(&table, row)?;
    let membership = Membership {
        database: u128::from_be_bytes(row.get(Member::DATABASE)),
        island: IslandId(number(row.get(Member::ISLAND))?),
        islands: number(row.get(Member::ISLANDS))?,
        keys: String::from_utf8(row.get(Member::KEYS).to_owned())
            .map_err(|_| Error::UnfitChanges)?,
    };
    Ok(Some((membership, number(row.get(Member::OPENING))?)))
}

fn number<T, N: TryFrom<T>>(value: T) -> Result<N> {
    N::try_from(value).map_err(|_| Error::UnfitChanges)
}

/// Makes a store an island that was never opened.
///
/// # Errors
/// Those of the store.
pub fn found<S: Store>(store: &mut S, membership: &Membership) -> Result<()> {
    let table: Table<Member> = resolve_table(store.schema()).map_err(mismatch)?;
    let Membership { database, island, islands, keys } = membership;
    transaction(store, |store| {
        let row = store.create(&table, |row| {
            row.set(Member::DATABASE, database.to_be_bytes());
            row.set(Member::ISLAND, island.0.into());
            row.set(Member::ISLANDS, (*islands).into());
        })?;
        store.set_variable(&table, row, Member::KEYS.offset(), keys.as_bytes())
    })
}

/// Counts an opening of an island; returns its number, from 1. To be made durable before it is used.
///
/// # Errors
/// Those of the store; `UnfitChanges` if it is no island.
pub fn count_opening<S: Store>(store: &mut S) -> Result<u32> {
    transaction(store, |store| {
        let Some((table, row)) = find(store)? else { return Err(Error::UnfitChanges) };
        let before: u32 = number(store.pin(&table, row)?.get(Member::OPENING))?;
        let opening = before.checked_add(1).ok_or(Error::UnfitChanges)?;
        store.update(&table, row, COUNTED, |row| row.set(Member::OPENING, opening.into()))?;
        Ok(opening)
    })
}

fn find<S: Store>(store: &mut S) -> Result<Option<(Table<Member>, RowId)>> {
    let Ok(table) = resolve_table::<Member>(store.schema()) else { return Ok(None) };
    let mut found = None;
    store.rows(&table, |row| {
        found = Some((table, row));
        ControlFlow::Break(())
    })?;
    Ok(found)
}

fn mismatch(_: SchemaError) -> Error {
    Error::UnfitChanges
}

#[cfg(not(loom))]
#[cfg(test)]
mod tests {
    use tombolo_storage::memory::{Limits, MemoryStore};
    use tombolo_storage::profile::MemoryLogged;

    use super::*;

    #[test]
    fn spreads_are_kept() {
        let mut store = MemoryStore::<MemoryLogged>::new(Limits::default());
        for table in membership_tables() {
            store.create_table(table).unwrap();
        }
        let spread = |table: &str, column: Option<&str>| Spread {
            table: table.to_owned(),
            column: column.map(str::to_owned),
        };
        let all = [spread("account", Some("id")), spread("rate", None)];
        all.iter().for_each(|one| record_spread(&mut store, one).unwrap());
        assert_eq!(spreads(&mut store), Ok(all.to_vec()));
    }

    #[test]
    fn openings_are_counted_from_one() {
        let mut store = MemoryStore::<MemoryLogged>::new(Limits::default());
        assert_eq!(membership(&mut store), Ok(None));
        for table in membership_tables() {
            store.create_table(table).unwrap();
        }
        assert_eq!(membership(&mut store), Ok(None));
        assert_eq!(count_opening(&mut store), Err(Error::UnfitChanges));
        let own = Membership {
            database: u128::MAX - 7,
            island: IslandId(3),
            islands: u16::MAX,
            keys: "hash".to_owned(),
        };
        found(&mut store, &own).unwrap();
        assert_eq!(membership(&mut store), Ok(Some((own.clone(), 0))));
        assert_eq!(count_opening(&mut store), Ok(1));
        assert_eq!(count_opening(&mut store), Ok(2));
        assert_eq!(membership(&mut store), Ok(Some((own, 2))));
    }
}
