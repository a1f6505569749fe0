//! Ordered execution: rows in which islands note the transactions over several islands that ran in one order.
//!
//! A thread that has all islands of a transaction runs it and commits on each. On each island it writes the
//! transaction's number into a row for every other island of the transaction. These rows are logged with the
//! transaction's changes. So if the rows that two islands have for each other are equal, their logs agree on all
//! transactions of both. If one row is ahead after a crash, that island's log has a transaction that the other lacks,
//! and is cut off before it.
//!
//! Not here: why no cut-off transaction was ever reported (`pipeline/log/common/`), opening an island again (the
//! library).
//! Invariant: the numbers of the transactions in a log ascend.

use std::ops::ControlFlow;

use tombolo_storage::error::{Error, Result};
use tombolo_storage::memory::MemoryStore;
use tombolo_storage::plant::{self, Plant};
use tombolo_storage::profile::MemoryProfile;
use tombolo_storage::row::{Fields, RowId};
use tombolo_storage::schema::TableDef;
use tombolo_storage::store::{Store, Table, resolve_table};

use super::commit::IslandId;
use super::prepared::transaction;

tombolo_storage::table! {
    /// One row for each other island: the number of the last ordered transaction with a part there.
    pub struct Ordered = "tombolo_ordered" {
        PEER: Integer;
        NUMBER: BigInt;
    }
}

/// The most groups of an island that are cut off. A flush is one group, or a few if it is long, and no log has two
/// flushes that do not count as durable.
const CUT_GROUPS_MAX: usize = 64;

const NUMBERED: Fields<Ordered> = Fields::none().with(Ordered::NUMBER);

/// The definition of the table.
pub fn ordered_table() -> TableDef {
    TableDef::of::<Ordered>()
}

/// The rows of an island for the others.
#[derive(Clone, Debug)]
pub struct OrderedRows {
    table: Table<Ordered>,
    /// By the number of the other island; the island itself has none.
    rows: Vec<Option<RowId>>,
}

impl OrderedRows {
    /// Those of a store; makes what is missing for an island `me` of so many.
    ///
    /// # Errors
    /// `UnfitChanges`: the rows are not those of such an island. Those of the store.
    pub fn open<P: MemoryProfile>(
        store: &mut MemoryStore<P>,
        (me, islands): (IslandId, u16),
    ) -> Result<Self> {
        let table = resolve_table(store.schema()).map_err(|_| Error::UnfitChanges)?;
        let mut rows = vec![None; usize::from(islands)];
        for (peer, row, _) in read(store, &table)? {
            let own = rows.get_mut(peer.index()).filter(|own| own.is_none() && peer != me);
            *own.ok_or(Error::UnfitChanges)? = Some(row);
        }
        for (peer, own) in rows.iter_mut().enumerate() {
            if own.is_none() && peer != me.index() {
                let row = |store: &mut MemoryStore<P>| {
                    store.create(&table, |row| row.set(Ordered::PEER, peer as i32))
                };
                *own = Some(transaction(store, row)?);
            }
        }
        Ok(Self { table, rows })
    }

    /// Notes in the open transaction that it is the ordered one of this number, with parts on these islands.
    ///
    /// # Errors
    /// Those of the store.
    pub fn note<P: MemoryProfile>(
        &self,
        store: &mut MemoryStore<P>,
        islands: impl Iterator<Item = IslandId>,
        number: u64,
    ) -> Result<()> {
        let peers = islands.filter_map(|island| self.rows[island.index()]);
        for row in peers.skip(usize::from(plant::is(Plant::OrderedNotNoted))) {
            let number = number.cast_signed();
            store.update(&self.table, row, NUMBERED, |row| row.set(Ordered::NUMBER, number))?;
        }
        Ok(())
    }
}

fn read<P: MemoryProfile>(
    store: &mut MemoryStore<P>,
    table: &Table<Ordered>,
) -> Result<Vec<(IslandId, RowId, u64)>> {
    transaction(store, |store| {
        let mut rows = Vec::new();
        store.rows(table, |row| {
            rows.push(row);
            ControlFlow::Continue(())
        })?;
        let read = rows.into_iter().map(|id| {
            let row = store.pin(table, id)?;
            let peer = u16::try_from(row.get(Ordered::PEER)).map_err(|_| Error::UnfitChanges)?;
            Ok((IslandId(peer), id, row.get(Ordered::NUMBER).cast_unsigned()))
        });
        read.collect()
    })
}

/// The number of the last ordered transaction that a store has with each other island; none of an island that was not
/// opened.
///
/// # Errors
/// Those of the store.
pub fn last_ordered<P: MemoryProfile>(store: &mut MemoryStore<P>) -> Result<Vec<(IslandId, u64)>> {
    let Ok(table) = resolve_table(store.schema()) else { return Ok(Vec::new()) };
    let rows = read(store, &table)?;
    Ok(rows.into_iter().map(|(peer, _, number)| (peer, number)).collect())
}

/// Cuts off, after a crash, the logs of islands that have an ordered transaction which another island of it lacks.
/// Each round cuts off the newest group of these. `last` says what an island has of the others ([`last_ordered`]),
/// `without_newest` opens one again without its newest group, if it has any. A crash between two cuts leaves the
/// islands as a crash of the database might have left them.
///
/// Returns whether the islands agree now. If they do not, one is further ahead than a crash can leave it, and nothing
/// more is done with them.
///
/// # Errors
/// Those of `last` and `without_newest`.
pub fn cut_off<I, E>(
    islands: &mut Vec<I>,
    last: impl Fn(&mut I) -> std::result::Result<Vec<(IslandId, u64)>, E>,
    mut without_newest: impl FnMut(usize, I) -> std::result::Result<Option<I>, E>,
) -> std::result::Result<bool, E> {
    for _ in 0..CUT_GROUPS_MAX {
        let found = islands.iter_mut().map(&last).collect::<std::result::Result<Vec<_>, E>>()?;
        let ahead = ahead(&found);
        if ahead.is_empty() || plant::is(Plant::OrderedNotCutOff) {
            return Ok(true);
        }
        for at in ahead {
            let island = islands.remove(at);
            let Some(cut) = without_newest(at, island)? else { return Ok(false) };
            islands.insert(at, cut);
        }
    }
    Ok(false)
}

/// The islands that have an ordered transaction which another island of it lacks, given what each has of the others.
pub fn ahead(last: &[Vec<(IslandId, u64)>]) -> Vec<usize> {
    let of = |island: usize, peer: usize| {
        let found = last[island].iter().find(|(other, _)| other.index() == peer);
        found.map_or(0, |(_, number)| *number)
    };
    let is_ahead = |island: &usize| {
        let mut peers = 0..last.len();
        peers.any(|peer| of(*island, peer) > of(peer, *island))
    };
    (0..last.len()).filter(is_ahead).collect()
}

#[cfg(not(loom))]
#[cfg(test)]
mod tests {
    use tombolo_storage::memory::Limits;
    use tombolo_storage::profile::MemoryLogged;

    use super::*;

    #[test]
    fn rows_say_which_island_lacks_a_transaction() {
        let mut stores: Vec<_> =
            (0..3).map(|_| MemoryStore::<MemoryLogged>::new(Limits::default())).collect();
        let mut rows = Vec::new();
        for (me, store) in stores.iter_mut().enumerate() {
            assert_eq!(last_ordered(store), Ok(Vec::new()));
            store.create_table(ordered_table()).unwrap();
            rows.push(OrderedRows::open(store, (IslandId(me as u16), 3)).unwrap());
        }
        let mut note = |on: &[u16], of: &[u16], number| {
            for &me in on {
                let (rows, store) = (&rows[usize::from(me)], &mut stores[usize::from(me)]);
                let of = of.iter().map(|island| IslandId(*island));
                transaction(store, |store| rows.note(store, of, number)).unwrap();
            }
            let last: Vec<_> =
                stores.iter_mut().map(|store| last_ordered(store).unwrap()).collect();
            ahead(&last)
        };
        assert_eq!(note(&[0, 1], &[0, 1], 1), []);
        assert_eq!(note(&[2, 1, 0], &[0, 1, 2], 2), []);
        assert_eq!(note(&[0], &[0, 2], 3), [0], "island 2 lacks it");
        assert_eq!(note(&[2], &[0, 2], 3), []);
        assert_eq!(note(&[1, 2], &[0, 1, 2], 4), [1, 2], "island 0 lacks it");
        // The rows are found again.
        let again = OrderedRows::open(&mut stores[0], (IslandId(0), 3)).unwrap();
        assert_eq!(again.rows, rows[0].rows);
        assert!(OrderedRows::open(&mut stores[0], (IslandId(1), 3)).is_err());
    }
}
