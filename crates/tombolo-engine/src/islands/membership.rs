//! `Membership`: which island of which database a directory holds, and how often it was opened, as a row.
//!
//! An opening is counted, and the count is durable, before the island says anything: so the number of a transaction
//! over several islands never repeats (decision 0046, point 8). Not here: what an opening does.

use std::ops::ControlFlow;
use std::path::Path;

use tombolo_storage::error::{Error, Result, SchemaError};
use tombolo_storage::memory::MemoryStore;
use tombolo_storage::profile::MemoryProfile;
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

const COUNTED: Fields<Member> = Fields::none().with(Member::OPENING);

/// The definition of the table.
pub fn membership_table() -> TableDef {
    TableDef::of::<Member>()
}

/// The name of an island's directory within that of its database.
pub fn island_directory(island: usize) -> String {
    format!("island-{island}")
}

/// How many islands' directories are in a database's.
pub fn islands_in(directory: &Path) -> usize {
    (0..).take_while(|island| directory.join(island_directory(*island)).is_dir()).count()
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
pub fn membership<P: MemoryProfile>(
    store: &mut MemoryStore<P>,
) -> Result<Option<(Membership, u32)>> {
    let Some((table, row)) = find(store)? else { return Ok(None) };
    transaction(store, |store| {
        let row = store.pin(&table, row)?;
        let membership = Membership {
            database: u128::from_be_bytes(row.get(Member::DATABASE)),
            island: IslandId(number(row.get(Member::ISLAND))?),
            islands: number(row.get(Member::ISLANDS))?,
            keys: String::from_utf8(row.get(Member::KEYS).to_owned())
                .map_err(|_| Error::UnfitChanges)?,
        };
        Ok(Some((membership, number(row.get(Member::OPENING))?)))
    })
}

fn number<T, N: TryFrom<T>>(value: T) -> Result<N> {
    N::try_from(value).map_err(|_| Error::UnfitChanges)
}

/// Makes a store an island that was never opened.
///
/// # Errors
/// Those of the store.
pub fn found<P: MemoryProfile>(store: &mut MemoryStore<P>, membership: &Membership) -> Result<()> {
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
pub fn count_opening<P: MemoryProfile>(store: &mut MemoryStore<P>) -> Result<u32> {
    let Some((table, row)) = find(store)? else { return Err(Error::UnfitChanges) };
    transaction(store, |store| {
        let before: u32 = number(store.pin(&table, row)?.get(Member::OPENING))?;
        let opening = before.checked_add(1).ok_or(Error::UnfitChanges)?;
        store.update(&table, row, COUNTED, |row| row.set(Member::OPENING, opening.into()))?;
        Ok(opening)
    })
}

fn find<P: MemoryProfile>(store: &mut MemoryStore<P>) -> Result<Option<(Table<Member>, RowId)>> {
    let Ok(table) = resolve_table::<Member>(store.schema()) else { return Ok(None) };
    let mut found = None;
    transaction(store, |store| {
        store.rows(&table, |row| {
            found = Some((table, row));
            ControlFlow::Break(())
        })
    })?;
    Ok(found)
}

fn mismatch(_: SchemaError) -> Error {
    Error::UnfitChanges
}

#[cfg(not(loom))]
#[cfg(test)]
mod tests {
    use tombolo_storage::memory::Limits;
    use tombolo_storage::profile::MemoryLogged;

    use super::*;

    #[test]
    fn openings_are_counted_from_one() {
        let mut store = MemoryStore::<MemoryLogged>::new(Limits::default());
        assert_eq!(membership(&mut store), Ok(None));
        store.create_table(membership_table()).unwrap();
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
