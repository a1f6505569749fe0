//! Breaking one consistency condition and no other, to show that its check can fail.
//!
//! Many conditions overlap — a warehouse's sum equals its districts' (c01), and both equal what was
//! paid (c08, c09) — so each change says how it keeps the others. All changes go through the
//! store's own calls, index entries included: only a consistency condition breaks, never a
//! structure. All happen in warehouse 1.

use std::ops::ControlFlow;

use tombolo_engine::procedure::Procedure;
use tombolo_engine::transaction::{Reading, execute};
use tombolo_storage::error::Error;
use tombolo_storage::key::{IndexType, Range};
use tombolo_storage::row::{Fields, RowId, RowMut};
use tombolo_storage::store::{Index, Order, Store, Table, TableType};

use super::DISTRICTS;
use super::handles::Handles;
use super::input::DeliveryInput;
use super::schema::{Customer, District, HistoryRow, OrderLine, OrderLineRow, Orders, Warehouse};
use super::text::Text;
use super::transactions::delivery::Delivery;
use crate::workload::error::WorkloadError;
use crate::workload::loading::Fill;
use crate::workload::resolve::Resolve;

const W_ID: i32 = 1;
const D_ID: i16 = 1;
/// A district that no warehouse has.
const NO_DISTRICT: i16 = DISTRICTS + 1;
/// An order of the initial database that is delivered, its amounts all 0.
const FREE_ORDER: i32 = 1;
/// What two rows get whose sum stays.
const EVEN: [i64; 2] = [1, -1];

type Result<T> = std::result::Result<T, WorkloadError>;

/// Breaks the condition called `check`, and only that one.
///
/// # Errors
/// When there is no such condition, when the database holds no row that could break it alone,
/// or when the store refuses a call.
pub fn tamper<S: Store>(store: &mut S, check: &str) -> Result<()> {
    let handles = &Handles::resolve(store.schema())?;
    let district = (&handles.district, &handles.district_key);
    let orders = (&handles.orders, &handles.orders_key);
    match check {
        // The warehouse's sum follows its payments, which exceed its districts' sum.
        "c01" => {
            pay_no_district(store, handles)?;
            let warehouse = (&handles.warehouse, &handles.warehouse_key);
            change(store, warehouse, [W_ID], Warehouse::PAID, |row, _| {
                row.set(Warehouse::W_YTD, row.get(Warehouse::W_YTD) + 1);
            })
        }
        // Only the number of the next order.
        "c02" => change(store, district, [(W_ID, D_ID)], District::ORDERED, |row, _| {
            row.set(District::D_NEXT_O_ID, row.get(District::D_NEXT_O_ID) + 1);
        }),
        "c03" => deliver_out_of_turn(store, handles),
        "c04" => add_a_stray_line(store, handles),
        "c05" => take_delivery_back(store, handles, TakeBack::Order),
        // One order claims a line more and its neighbour a line less: their district's sum stays.
        "c06" => {
            let keys = [FREE_ORDER, FREE_ORDER + 1].map(|o_id| (W_ID, D_ID, o_id));
            change(store, orders, keys, Orders::LINES, |row, at| {
                row.set(Orders::O_OL_CNT, row.get(Orders::O_OL_CNT) + EVEN[at]);
            })
        }
        "c07" => take_delivery_back(store, handles, TakeBack::OneLine),
        // The warehouse's sum stays that of its districts, and its payments exceed it.
        "c08" => pay_no_district(store, handles),
        // One district's sum grows, another's shrinks: their warehouse's stays.
        "c09" => {
            let keys = [(W_ID, D_ID), (W_ID, D_ID + 1)];
            change(store, district, keys, District::PAID, |row, at| {
                row.set(District::D_YTD, row.get(District::D_YTD) + EVEN[at]);
            })
        }
        // C_BALANCE at the expense of C_YTD_PAYMENT: their sum (c12) stays, the balance is wrong.
        "c10" => change_customer(store, handles, (1, -1, 0)),
        // C_DELIVERY_CNT alone: a delivery that no order shows.
        "c11" => change_customer(store, handles, (0, 0, 1)),
        // C_YTD_PAYMENT alone.
        "c12" => change_customer(store, handles, (0, 1, 0)),
        _ => Err(WorkloadError::NoSuchCheck { name: check.to_owned(), known: "c01 to c12" }),
    }
}

/// Changes these `fields` of the rows with these keys; `change` gets each row with its place.
fn change<'k, S: Store, R: TableType, I: IndexType, const N: usize>(
    store: &mut S,
    (table, index): (&Table<R>, &Index<I>),
    keys: [I::Key<'k>; N],
    fields: Fields<R>,
    change: impl Fn(&mut RowMut<'_, R>, usize),
) -> Result<()> {
    Ok(execute(store, |mut tx| {
        let mut found = [None; N];
        tx.lookup_many(index, &keys, &mut found)?;
        let missing = Error::NoSuchRow { table: table.position() as u32 };
        let rows: Option<Vec<RowId>> = found.into_iter().collect();
        let rows = rows.ok_or(missing)?;
        let mut tx = tx.write();
        for (at, row) in rows.into_iter().enumerate() {
            tx.update(table, row, fields, |row| change(row, at))?;
        }
        tx.commit(())
    })?)
}

/// A payment by no customer to a district that does not exist: no D_YTD, no balance is asked for it.
fn pay_no_district<S: Store>(store: &mut S, handles: &Handles) -> Result<()> {
    let history = HistoryRow {
        h_c_id: 0,
        h_c_d_id: NO_DISTRICT,
        h_c_w_id: W_ID,
        h_d_id: NO_DISTRICT,
        h_w_id: W_ID,
        h_date: 0,
        h_amount: 1,
        h_data: Text::new("tampered"),
    };
    Ok(execute(store, |tx| {
        let mut tx = tx.write();
        tx.create(&handles.history, |row| history.fill(row))?;
        tx.commit(())
    })?)
}

/// Adds to C_BALANCE, C_YTD_PAYMENT and C_DELIVERY_CNT of a customer.
fn change_customer<S: Store>(
    store: &mut S,
    handles: &Handles,
    (balance, payment, deliveries): (i64, i64, i64),
) -> Result<()> {
    let customer = (&handles.customer, &handles.customer_key);
    change(store, customer, [(W_ID, D_ID, 1)], Customer::DELIVERED, |row, _| {
        row.set(Customer::C_BALANCE, row.get(Customer::C_BALANCE) + balance);
        row.set(Customer::C_YTD_PAYMENT, row.get(Customer::C_YTD_PAYMENT) + payment);
        row.set(Customer::C_DELIVERY_CNT, row.get(Customer::C_DELIVERY_CNT) + deliveries);
    })
}

/// The rows in a range of an index.
fn rows_in<S: Store, I: IndexType>(
    tx: &mut Reading<'_, S>,
    index: &Index<I>,
    range: Range<I::Key<'_>>,
) -> std::result::Result<Vec<RowId>, Error> {
    let mut rows = Vec::new();
    tx.scan(index, range, Order::Forward, |row| {
        rows.push(row);
        ControlFlow::Continue(())
    })?;
    Ok(rows)
}

/// A complete delivery, but of an order that is neither the oldest nor the newest: c03.
fn deliver_out_of_turn<S: Store>(store: &mut S, handles: &Handles) -> Result<()> {
    let delivery = Delivery::bind(store.schema())?;
    for d_id in 1..=DISTRICTS {
        let delivered = execute(store, |mut tx| {
            let waiting = rows_in(&mut tx, &handles.new_order_key, Range::prefix((W_ID, d_id)))?;
            let [_, second, _, ..] = waiting[..] else { return tx.commit(false) };
            let mut found = delivery.locate(&mut tx, W_ID, d_id, second)?;
            delivery.read(&mut tx, W_ID, &mut found)?;
            let mut tx = tx.write();
            let input = DeliveryInput { delivery_d: 0, w_id: W_ID, carrier_id: 1 };
            delivery.deliver(&mut tx, &input, &found)?;
            tx.commit(true)
        })?;
        if delivered {
            return Ok(());
        }
    }
    Err(WorkloadError::NothingToTamper("three new orders in any district of warehouse 1"))
}

/// A line, not delivered, of an order that does not exist: its district has a line too many (c04),
/// no order has (c06).
fn add_a_stray_line<S: Store>(store: &mut S, handles: &Handles) -> Result<()> {
    let line = OrderLineRow {
        ol_o_id: i32::MAX,
        ol_d_id: D_ID,
        ol_w_id: W_ID,
        ol_number: 1,
        ol_i_id: 1,
        ol_supply_w_id: W_ID,
        ol_delivery_d: None,
        ol_quantity: 5,
        ol_amount: 0,
        ol_dist_info: Text::new("tampered tampered tamper"),
    };
    Ok(execute(store, |tx| {
        let mut tx = tx.write();
        let row = tx.create(&handles.order_line, |row| line.fill(row))?;
        let key = (line.ol_w_id, line.ol_d_id, line.ol_o_id, line.ol_number);
        tx.insert(&handles.order_line_key, key, row)?;
        tx.commit(())
    })?)
}

/// What of a delivered order becomes undelivered.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TakeBack {
    /// The order with its lines: it has no carrier, and no NEW_ORDER row either (c05).
    Order,
    /// Its first line only (c07).
    OneLine,
}

/// Takes back a delivery whose amounts are all 0, so that no balance has to follow.
fn take_delivery_back<S: Store>(store: &mut S, handles: &Handles, what: TakeBack) -> Result<()> {
    Ok(execute(store, |mut tx| {
        let order = tx.lookup(&handles.orders_key, (W_ID, D_ID, FREE_ORDER))?;
        let order = order.ok_or(Error::NoSuchRow { table: handles.orders.position() as u32 })?;
        let range = Range::prefix((W_ID, D_ID, FREE_ORDER));
        let mut lines = rows_in(&mut tx, &handles.order_line_key, range)?;
        let mut tx = tx.write();
        match what {
            TakeBack::OneLine => lines.truncate(1),
            TakeBack::Order => tx.update(&handles.orders, order, Orders::DELIVERED, |row| {
                row.set(Orders::O_CARRIER_ID, None);
            })?,
        }
        for line in lines {
            tx.update(&handles.order_line, line, OrderLine::DELIVERED, |row| {
                row.set(OrderLine::OL_DELIVERY_D, None);
            })?;
        }
        tx.commit(())
    })?)
}
