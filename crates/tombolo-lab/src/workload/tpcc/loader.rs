//! Puts the initial database into a store.
//!
//! # What it is
//! The parts of the database and the order they are stored in (`workload/loading.rs` says how).
//!
//! # What it does not do
//! It does not decide whether the database fits in memory (`plan/estimate.rs` says what to expect); a
//! store without space refuses a row.

use tombolo_storage::error::Error;
use tombolo_storage::store::Store;

use super::handles::Handles;
use super::input::Mix;
use super::{DISTRICTS, STOCK_PARTS, load, schema};
use crate::workload::error::WorkloadError;
use crate::workload::loading::{self, create_rows, insert_run, store_batches, store_keyed};
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
enum Part {
    Items,
    Warehouse(i32),
    Stock(i32, i32),
    Customers(i32, i16),
    Orders(i32, i16),
}

/// The rows of a part.
enum PartRows {
    Items(Vec<schema::ItemRow>),
    Warehouse(schema::WarehouseRow, Vec<schema::DistrictRow>),
    Stock(Vec<schema::StockRow>),
    Customers(Vec<schema::CustomerRow>, Vec<schema::HistoryRow>),
    Orders(Vec<schema::OrderRow>, Vec<schema::OrderLineRow>, Vec<schema::NewOrderRow>),
}

impl Part {
    /// The parts of the whole database, in the order they are stored.
    fn all(warehouses: i32) -> Vec<Self> {
        let mut parts = vec![Self::Items];
        for w_id in 1..=warehouses {
            parts.push(Self::Warehouse(w_id));
            parts.extend((0..STOCK_PARTS).map(|part| Self::Stock(w_id, part)));
            parts.extend((1..=DISTRICTS).map(|d_id| Self::Customers(w_id, d_id)));
            parts.extend((1..=DISTRICTS).map(|d_id| Self::Orders(w_id, d_id)));
        }
        parts
    }

    fn generate(self, seed: u64) -> PartRows {
        match self {
            Self::Items => PartRows::Items(load::items(seed).collect()),
            Self::Warehouse(w_id) => PartRows::Warehouse(
                load::warehouse(seed, w_id),
                load::districts(seed, w_id).collect(),
            ),
            Self::Stock(w_id, part) => {
                PartRows::Stock(load::stock_part(seed, w_id, part).collect())
            }
            Self::Customers(w_id, d_id) => PartRows::Customers(
                load::customers(seed, w_id, d_id).collect(),
                load::history(seed, w_id, d_id).collect(),
            ),
            Self::Orders(w_id, d_id) => {
                let orders: Vec<_> = load::orders(seed, w_id, d_id).collect();
                let lines = orders.iter().flat_map(|order| load::lines_of(seed, order)).collect();
                PartRows::Orders(orders, lines, load::new_orders(w_id, d_id).collect())
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
    let store_part = |store: &mut S, rows: &PartRows| handles.store_part(store, rows);
    let generate = |part: &Part| part.generate(scale.seed);
    loading::load_parts(store, &parts, threads, generate, store_part, after_part)
}

impl Handles {
    fn store_part<S: Store>(&self, store: &mut S, part: &PartRows) -> Result<(), Error> {
        match part {
            PartRows::Items(items) => {
                store_keyed(store, (&self.item, &self.item_key), items, |item| item.i_id)
            }
            PartRows::Warehouse(warehouse, districts) => {
                let warehouse = std::slice::from_ref(warehouse);
                store_keyed(store, (&self.warehouse, &self.warehouse_key), warehouse, |w| w.w_id)?;
                let key = |district: &schema::DistrictRow| (district.d_w_id, district.d_id);
                store_keyed(store, (&self.district, &self.district_key), districts, key)
            }
            PartRows::Stock(stock) => {
                let key = |stock: &schema::StockRow| (stock.s_w_id, stock.s_i_id);
                store_keyed(store, (&self.stock, &self.stock_key), stock, key)
            }
            PartRows::Customers(customers, history) => {
                store_batches(store, customers, |store, batch| self.store_customers(store, batch))?;
                store_batches(store, history, |store, batch| {
                    create_rows(store, &self.history, batch).map(|_| ())
                })
            }
            PartRows::Orders(orders, lines, new_orders) => {
                store_batches(store, orders, |store, batch| self.store_orders(store, batch))?;
                store_keyed(store, (&self.order_line, &self.order_line_key), lines, |line| {
                    (line.ol_w_id, line.ol_d_id, line.ol_o_id, line.ol_number)
                })?;
                store_batches(store, new_orders, |store, batch| self.store_new_orders(store, batch))
            }
        }
    }

    fn store_customers<S: Store>(
        &self,
        store: &mut S,
        customers: &[schema::CustomerRow],
    ) -> Result<(), Error> {
        let rows = create_rows(store, &self.customer, customers)?;
        insert_run(store, &self.customer_key, customers, &rows, |customer| {
            (customer.c_w_id, customer.c_d_id, customer.c_id)
        })?;
        let Some(by_name) = &self.customer_by_name else { return Ok(()) };
        for (customer, &row) in customers.iter().zip(&rows) {
            let (last, first) = (customer.c_last.as_bytes(), customer.c_first.as_bytes());
            store.insert(by_name, (customer.c_w_id, customer.c_d_id, last, first), row)?;
        }
        Ok(())
    }

    fn store_orders<S: Store>(
        &self,
        store: &mut S,
        orders: &[schema::OrderRow],
    ) -> Result<(), Error> {
        let rows = create_rows(store, &self.orders, orders)?;
        insert_run(store, &self.orders_key, orders, &rows, |order| {
            (order.o_w_id, order.o_d_id, order.o_id)
        })?;
        let Some(by_customer) = &self.orders_by_customer else { return Ok(()) };
        for (order, &row) in orders.iter().zip(&rows) {
            let key = (order.o_w_id, order.o_d_id, order.o_c_id, order.o_id);
            store.insert(by_customer, key, row)?;
        }
        Ok(())
    }

    fn store_new_orders<S: Store>(
        &self,
        store: &mut S,
        new_orders: &[schema::NewOrderRow],
    ) -> Result<(), Error> {
        let rows = create_rows(store, &self.new_order, new_orders)?;
        insert_run(store, &self.new_order_key, new_orders, &rows, |order| {
            (order.no_w_id, order.no_d_id, order.no_o_id)
        })?;
        // Ascending within the district, but not one after the other: other districts' lie between.
        for (order, &row) in new_orders.iter().zip(&rows) {
            let key = (order.no_w_id, order.no_o_id, order.no_d_id);
            store.insert(&self.new_order_by_warehouse, key, row)?;
        }
        Ok(())
    }
}
