//! Puts the initial database into a store.
//!
//! # What it is
//! The parts of the database and the order they are stored in (`workload/loading.rs` says how).
//!
//! # What it does not do
//! It does not decide whether the database fits in memory (`plan/estimate.rs` says what to expect); a
//! store without space refuses a row.

use std::ops::Range;

use tombolo_engine::transaction::Writing;
use tombolo_storage::error::Error;
use tombolo_storage::store::Store;

use super::handles::Handles;
use super::input::Mix;
use super::{DISTRICTS, STOCK_PARTS, load, schema};
use crate::workload::error::WorkloadError;
use crate::workload::loading::{self, create_keyed, create_rows, insert_run, store_ranges};
use crate::workload::resolve::Resolve;

/// What to load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// The seed of every value.
    pub seed: u64,
    /// The number of warehouses.
    pub warehouses: i32,
    /// The mix whose indexes are built.
    pub mix: Mix,
}

/// A part of the database: what one thread generates at a time.
#[derive(Clone, Copy)]
pub(super) enum Part {
    Items,
    Warehouse(i32),
    Stock(i32, i32),
    Customers(i32, i16),
    Orders(i32, i16),
}

/// Rows of one table, in the order in which they are stored.
#[derive(Debug)]
pub enum Rows {
    /// Of ITEM.
    Items(Vec<schema::ItemRow>),
    /// Of WAREHOUSE.
    Warehouses(Vec<schema::WarehouseRow>),
    /// Of DISTRICT.
    Districts(Vec<schema::DistrictRow>),
    /// Of STOCK.
    Stock(Vec<schema::StockRow>),
    /// Of CUSTOMER.
    Customers(Vec<schema::CustomerRow>),
    /// Of HISTORY.
    History(Vec<schema::HistoryRow>),
    /// Of ORDERS.
    Orders(Vec<schema::OrderRow>),
    /// Of ORDER_LINE.
    Lines(Vec<schema::OrderLineRow>),
    /// Of NEW_ORDER.
    NewOrders(Vec<schema::NewOrderRow>),
}

impl Rows {
    /// How many there are.
    pub(super) fn count(&self) -> usize {
        match self {
            Self::Items(rows) => rows.len(),
            Self::Warehouses(rows) => rows.len(),
            Self::Districts(rows) => rows.len(),
            Self::Stock(rows) => rows.len(),
            Self::Customers(rows) => rows.len(),
            Self::History(rows) => rows.len(),
            Self::Orders(rows) => rows.len(),
            Self::Lines(rows) => rows.len(),
            Self::NewOrders(rows) => rows.len(),
        }
    }
}

impl Part {
    /// The parts of the whole database, in the order they are stored.
    pub(super) fn all(warehouses: i32) -> Vec<Self> {
        let mut parts = vec![Self::Items];
        for w_id in 1..=warehouses {
            parts.push(Self::Warehouse(w_id));
            parts.extend((0..STOCK_PARTS).map(|part| Self::Stock(w_id, part)));
            parts.extend((1..=DISTRICTS).map(|d_id| Self::Customers(w_id, d_id)));
            parts.extend((1..=DISTRICTS).map(|d_id| Self::Orders(w_id, d_id)));
        }
        parts
    }

    /// The warehouse to which its rows belong; items belong to none.
    pub(super) const fn warehouse(self) -> Option<i32> {
        match self {
            Self::Items => None,
            Self::Warehouse(w_id)
            | Self::Stock(w_id, _)
            | Self::Customers(w_id, _)
            | Self::Orders(w_id, _) => Some(w_id),
        }
    }

    pub(super) fn generate(self, seed: u64) -> Vec<Rows> {
        match self {
            Self::Items => vec![Rows::Items(load::items(seed).collect())],
            Self::Warehouse(w_id) => vec![
                Rows::Warehouses(vec![load::warehouse(seed, w_id)]),
                Rows::Districts(load::districts(seed, w_id).collect()),
            ],
            Self::Stock(w_id, part) => {
                vec![Rows::Stock(load::stock_part(seed, w_id, part).collect())]
            }
            Self::Customers(w_id, d_id) => vec![
                Rows::Customers(load::customers(seed, w_id, d_id).collect()),
                Rows::History(load::history(seed, w_id, d_id).collect()),
            ],
            Self::Orders(w_id, d_id) => {
                let orders: Vec<_> = load::orders(seed, w_id, d_id).collect();
                let lines = orders.iter().flat_map(|order| load::lines_of(seed, order)).collect();
                let new_orders = load::new_orders(w_id, d_id).collect();
                vec![Rows::Orders(orders), Rows::Lines(lines), Rows::NewOrders(new_orders)]
            }
        }
    }
}

/// Creates the tables in `store` and loads the initial database, generating on `threads` threads.
///
/// `progress` is called with how many parts of how many are stored.
///
/// # Errors
/// When the store refuses a table, a row or an index entry; what was stored so far stays.
///
/// # Panics
/// When there is not at least one thread and one warehouse, or there are more than
/// [`schema::WAREHOUSES_MAX`] warehouses.
pub fn load<S: Store>(
    store: &mut S,
    scale: Scale,
    threads: usize,
    mut progress: impl FnMut(usize, usize),
) -> Result<(), WorkloadError> {
    load_parts(store, scale, threads, |_, done, of| {
        progress(done, of);
        Ok(())
    })
}

/// The same; `after_part` gets the store after each part that was stored.
///
/// # Errors
/// As [`load()`], or what `after_part` failed with.
///
/// # Panics
/// As [`load()`].
pub fn load_parts<S: Store>(
    store: &mut S,
    scale: Scale,
    threads: usize,
    after_part: impl FnMut(&mut S, usize, usize) -> Result<(), WorkloadError>,
) -> Result<(), WorkloadError> {
    let warehouses = 1..=schema::WAREHOUSES_MAX;
    assert!(warehouses.contains(&scale.warehouses), "{} warehouses", scale.warehouses);
    for table in schema::tables(scale.mix) {
        store.create_table(table)?;
    }
    let handles = Handles::resolve(store.schema())?;
    let parts = Part::all(scale.warehouses);
    let store_part = |store: &mut S, part: &Vec<Rows>| {
        part.iter().try_for_each(|rows| {
            let store_range = |tx: &mut Writing<'_, S>, range| handles.store_range(tx, rows, range);
            store_ranges(store, rows.count(), store_range)
        })
    };
    let generate = |part: &Part| part.generate(scale.seed);
    loading::load_parts(store, &parts, threads, generate, store_part, after_part)
}

impl Handles {
    /// Stores some of `rows` with their index entries.
    pub(super) fn store_range<S: Store>(
        &self,
        tx: &mut Writing<'_, S>,
        rows: &Rows,
        range: Range<usize>,
    ) -> Result<(), Error> {
        match rows {
            Rows::Items(items) => {
                create_keyed(tx, (&self.item, &self.item_key), &items[range], |item| item.i_id)
            }
            Rows::Warehouses(warehouses) => {
                let of = (&self.warehouse, &self.warehouse_key);
                create_keyed(tx, of, &warehouses[range], |warehouse| warehouse.w_id)
            }
            Rows::Districts(districts) => {
                let of = (&self.district, &self.district_key);
                create_keyed(tx, of, &districts[range], |row| (row.d_w_id, row.d_id))
            }
            Rows::Stock(stock) => {
                let of = (&self.stock, &self.stock_key);
                create_keyed(tx, of, &stock[range], |row| (row.s_w_id, row.s_i_id))
            }
            Rows::Customers(customers) => self.store_customers(tx, &customers[range]),
            Rows::History(history) => create_rows(tx, &self.history, &history[range]).map(drop),
            Rows::Orders(orders) => self.store_orders(tx, &orders[range]),
            Rows::Lines(lines) => {
                let of = (&self.order_line, &self.order_line_key);
                create_keyed(tx, of, &lines[range], |line| {
                    (line.ol_w_id, line.ol_d_id, line.ol_o_id, line.ol_number)
                })
            }
            Rows::NewOrders(new_orders) => self.store_new_orders(tx, &new_orders[range]),
        }
    }

    fn store_customers<S: Store>(
        &self,
        tx: &mut Writing<'_, S>,
        customers: &[schema::CustomerRow],
    ) -> Result<(), Error> {
        let rows = create_rows(tx, &self.customer, customers)?;
        insert_run(tx, &self.customer_key, customers, &rows, |customer| {
            (customer.c_w_id, customer.c_d_id, customer.c_id)
        })?;
        let Some(by_name) = &self.customer_by_name else { return Ok(()) };
        for (customer, &row) in customers.iter().zip(&rows) {
            let (last, first) = (customer.c_last.as_bytes(), customer.c_first.as_bytes());
            tx.insert(by_name, (customer.c_w_id, customer.c_d_id, last, first), row)?;
        }
        Ok(())
    }

    fn store_orders<S: Store>(
        &self,
        tx: &mut Writing<'_, S>,
        orders: &[schema::OrderRow],
    ) -> Result<(), Error> {
        let rows = create_rows(tx, &self.orders, orders)?;
        insert_run(tx, &self.orders_key, orders, &rows, |order| {
            (order.o_w_id, order.o_d_id, order.o_id)
        })?;
        let Some(by_customer) = &self.orders_by_customer else { return Ok(()) };
        for (order, &row) in orders.iter().zip(&rows) {
            let key = (order.o_w_id, order.o_d_id, order.o_c_id, order.o_id);
            tx.insert(by_customer, key, row)?;
        }
        Ok(())
    }

    fn store_new_orders<S: Store>(
        &self,
        tx: &mut Writing<'_, S>,
        new_orders: &[schema::NewOrderRow],
    ) -> Result<(), Error> {
        let rows = create_rows(tx, &self.new_order, new_orders)?;
        insert_run(tx, &self.new_order_key, new_orders, &rows, |order| {
            (order.no_w_id, order.no_d_id, order.no_o_id)
        })?;
        // Ascending within the district, but not one after the other: other districts' lie between.
        for (order, &row) in new_orders.iter().zip(&rows) {
            let key = (order.no_w_id, order.no_o_id, order.no_d_id);
            tx.insert(&self.new_order_by_warehouse, key, row)?;
        }
        Ok(())
    }
}
