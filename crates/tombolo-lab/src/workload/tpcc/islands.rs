//! A database whose warehouses are on several islands: how it is loaded, and what holds of all its rows together.
//!
//! The rows of each island are those of its warehouses; ITEM is on each. An island sums up its own rows, in a
//! transaction there; the sums of all islands are added, and the conditions asked of these. A Payment's HISTORY row is
//! where it was paid, so that some conditions hold of no island alone.
//!
//! | check | says |
//! |---|---|
//! | c01 … c12 | the specification's conditions |
//! | `stock` | the stocks of a warehouse have counted what was ordered from it (beyond the specification) |
//! | `items` | each island has the same items |
//!
//! Not here: islands (the library), parts of transactions (`transactions/parts.rs`).

use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range, RangeInclusive};
use std::sync::Arc;

use tombolo_engine::procedure::Procedure;
use tombolo_engine::threads::ordered_parallel;
use tombolo_engine::transaction::{Committed, Reading, Stop};
use tombolo_storage::error::{Result, SchemaError};
use tombolo_storage::key::Dynamic;
use tombolo_storage::schema::{DeclaredTable, Schema, TableDef};
use tombolo_storage::store::{Store, Table, dynamic_table};

use super::checks::Sums;
use super::handles::Handles;
use super::input::Mix;
use super::loader::{Part, Rows, Scale};
use super::schema::{Item, OrderLine, Stock, tables};
use super::{ITEMS, ORDERS};
use crate::rows::{RowText, StateHash};
use crate::store::DynamicStore;
use crate::workload::Check;
use crate::workload::error::WorkloadError;
use crate::workload::resolve::Resolve;
use crate::workload::rows::{HasRows, in_transaction};

/// Rows that a call stores: their log fits into that of a call.
const ROWS_OF_A_CALL: usize = 64;

/// The warehouses of one of several islands: they are spread as evenly as they can be, in the order of their numbers.
pub fn warehouses_of(island: usize, islands: usize, warehouses: i32) -> RangeInclusive<i32> {
    let before = |island: usize| (island * warehouses.unsigned_abs() as usize / islands) as i32;
    before(island) + 1..=before(island + 1)
}

/// Some rows of a table, for one call.
pub type Batch = (Arc<Rows>, Range<usize>);

/// Gives the rows of the initial database to `store`, in batches of one warehouse each, or of none: these are items.
/// Rows are generated on `threads` threads.
///
/// # Errors
/// The first of `store`.
pub fn load<E>(
    scale: Scale,
    threads: usize,
    mut store: impl FnMut(Option<i32>, Batch) -> std::result::Result<(), E>,
) -> std::result::Result<(), E> {
    let mut result = Ok(());
    let generate = |part: &Part| (part.warehouse(), part.generate(scale.seed));
    ordered_parallel(&Part::all(scale.warehouses), threads, generate, |(warehouse, part)| {
        for rows in part.into_iter().map(Arc::new) {
            for first in (0..rows.count()).step_by(ROWS_OF_A_CALL) {
                let range = first..rows.count().min(first + ROWS_OF_A_CALL);
                if result.is_ok() {
                    result = store(warehouse, (rows.clone(), range));
                }
            }
        }
    });
    result
}

/// Stores a batch of rows.
#[derive(Debug)]
pub struct Load(Handles);

impl Procedure for Load {
    type Input = Batch;
    type Answer = ();

    fn bind(schema: &Schema) -> std::result::Result<Self, SchemaError> {
        Resolve::resolve(schema).map(Self)
    }

    fn run<S: Store>(
        &self,
        tx: Reading<'_, S>,
        (rows, range): &Batch,
    ) -> std::result::Result<Committed<()>, Stop> {
        let mut tx = tx.write();
        self.0.store_range(&mut tx, rows, range.clone())?;
        tx.commit(())
    }
}

/// What stocks have counted, and what lines were ordered from them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Supply {
    quantity: i64,
    lines: i64,
    remote: i64,
}

/// What the conditions compare, of one island.
#[derive(Debug)]
pub struct IslandSums {
    sums: Sums,
    /// By warehouse.
    counted: BTreeMap<i32, Supply>,
    /// By the warehouse that supplies.
    ordered: BTreeMap<i32, Supply>,
    items: (i32, StateHash),
}

impl IslandSums {
    /// How many orders there are.
    pub fn orders(&self) -> i64 {
        self.sums.orders()
    }

    /// Those of an island in a store.
    ///
    /// # Errors
    /// When the store does not hold TPC-C's tables or refuses to be read.
    pub(crate) fn of(store: &mut dyn DynamicStore) -> std::result::Result<Self, WorkloadError> {
        let handles = Handles::resolve(store.schema())?;
        let sums = in_transaction(store, |mut store| Self::of_rows(&mut store, &handles));
        Ok(sums?)
    }

    fn of_rows(rows: &mut impl HasRows, handles: &Handles) -> Result<Self> {
        let sums = Sums::of(rows, handles)?;
        let (mut items, mut text) =
            ((0, StateHash::default()), RowText::of(&TableDef::of::<Item>()));
        rows.for_each_row(&handles.item, |row| {
            items.0 += 1;
            items.1.add_text(text.named(row.pin()));
        })?;
        let (counted, ordered) = (counted(rows, handles)?, ordered(rows, handles)?);
        Ok(Self { sums, counted, ordered, items })
    }
}

/// What stocks have counted since loading.
fn counted(rows: &mut impl HasRows, handles: &Handles) -> Result<BTreeMap<i32, Supply>> {
    let mut counted = BTreeMap::<_, Supply>::new();
    rows.for_each_row(&handles.stock, |row| {
        let of = counted.entry(row.get(Stock::S_W_ID)).or_default();
        of.quantity += row.get(Stock::S_YTD);
        of.lines += row.get(Stock::S_ORDER_CNT);
        of.remote += row.get(Stock::S_REMOTE_CNT);
    })?;
    Ok(counted)
}

/// The lines of orders since loading.
fn ordered(rows: &mut impl HasRows, handles: &Handles) -> Result<BTreeMap<i32, Supply>> {
    let mut ordered = BTreeMap::<_, Supply>::new();
    rows.for_each_row(&handles.order_line, |row| {
        if row.get(OrderLine::OL_O_ID) > ORDERS {
            let supplier = row.get(OrderLine::OL_SUPPLY_W_ID);
            let of = ordered.entry(supplier).or_default();
            of.quantity += row.get(OrderLine::OL_QUANTITY);
            of.lines += 1;
            of.remote += i64::from(supplier != row.get(OrderLine::OL_W_ID));
        }
    })?;
    Ok(ordered)
}

/// Sums up the rows of an island.
#[derive(Debug)]
pub struct SumUp(Handles);

impl Procedure for SumUp {
    type Input = ();
    type Answer = IslandSums;

    fn bind(schema: &Schema) -> std::result::Result<Self, SchemaError> {
        Resolve::resolve(schema).map(Self)
    }

    fn run<S: Store>(
        &self,
        mut tx: Reading<'_, S>,
        (): &(),
    ) -> std::result::Result<Committed<IslandSums>, Stop> {
        let sums = IslandSums::of_rows(&mut tx, &self.0)?;
        tx.commit(sums)
    }
}

/// Asks the conditions of a database, given the sums of all its islands.
pub fn conditions(islands: Vec<IslandSums>) -> Vec<Check> {
    let mut sums = Sums::default();
    let (mut counted, mut ordered) = (BTreeMap::new(), BTreeMap::new());
    let expected = islands.first().map(|island| (ITEMS, island.items.1));
    let items = islands.iter().position(|island| Some(island.items) != expected);
    for island in &islands {
        sums.add(&island.sums);
        add_supplies(&mut counted, &island.counted);
        add_supplies(&mut ordered, &island.ordered);
    }
    let difference = counted.keys().chain(ordered.keys()).find_map(|w_id| {
        let of = |supplies: &BTreeMap<i32, Supply>| supplies.get(w_id).copied().unwrap_or_default();
        let (counted, ordered) = (of(&counted), of(&ordered));
        (counted != ordered).then(|| {
            format!("warehouse {w_id}: its stocks counted {counted:?}, ordered were {ordered:?}")
        })
    });
    let items = items.map(|island| format!("island {island} has other items than the first"));
    let mut checks = sums.checks();
    checks.push(Check { name: "stock", violation: difference });
    checks.push(Check { name: "items", violation: items });
    checks
}

fn add_supplies(to: &mut BTreeMap<i32, Supply>, from: &BTreeMap<i32, Supply>) {
    for (w_id, from) in from {
        let to = to.entry(*w_id).or_default();
        to.quantity += from.quantity;
        to.lines += from.lines;
        to.remote += from.remote;
    }
}

/// The hash of an island's rows, in two: of those that each island has, and of the others.
#[derive(Debug)]
pub struct Hash(Vec<(bool, Table<Dynamic>, TableDef)>);

impl Procedure for Hash {
    type Input = ();
    type Answer = (StateHash, StateHash);

    fn bind(schema: &Schema) -> std::result::Result<Self, SchemaError> {
        // The library has tables of its own besides.
        let of = |table: TableDef| {
            let position = schema.table(&table.name)?;
            Some((table.name == Item::NAME, dynamic_table(schema, position), table))
        };
        Ok(Self(tables(Mix::Standard).into_iter().filter_map(of).collect()))
    }

    fn run<S: Store>(
        &self,
        mut tx: Reading<'_, S>,
        (): &(),
    ) -> std::result::Result<Committed<(StateHash, StateHash)>, Stop> {
        let (mut everywhere, mut own) = (StateHash::default(), StateHash::default());
        for (is_everywhere, handle, table) in &self.0 {
            let (mut rows, mut text) = (Vec::new(), RowText::of(table));
            tx.rows(handle, |row| {
                rows.push(row);
                ControlFlow::Continue(())
            })?;
            let hash = if *is_everywhere { &mut everywhere } else { &mut own };
            for row in rows {
                hash.add_text(text.named(tx.pin(handle, row)?.pin()));
            }
        }
        tx.commit((everywhere, own))
    }
}

/// The state hash of a database, given that of each island: of what each has, that of the first.
pub fn state_hash(islands: &[(StateHash, StateHash)]) -> StateHash {
    let mut hash = islands.first().map_or_else(StateHash::default, |(everywhere, _)| *everywhere);
    islands.iter().for_each(|(_, own)| hash.add_all(*own));
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warehouses_are_spread_evenly() {
        for (islands, warehouses) in [(1, 1), (1, 5), (2, 2), (2, 5), (3, 8), (4, 4)] {
            let of = |island| warehouses_of(island, islands, warehouses);
            let all: Vec<i32> = (0..islands).flat_map(of).collect();
            assert_eq!(all, (1..=warehouses).collect::<Vec<_>>());
            let sizes = (0..islands).map(|island| of(island).count());
            assert!(sizes.clone().max().unwrap() - sizes.min().unwrap() <= 1);
        }
    }
}
