//! Breaking one consistency condition and no other, to show that its check can fail.
//!
//! Many conditions overlap — a warehouse's sum equals its districts' (c01), and both equal what was
//! paid (c08, c09) — so each function says how it keeps the others. All changes go through the
//! store's own calls, index entries included: only a consistency condition breaks, never a
//! structure. All happen in warehouse 1.

use std::ops::ControlFlow;

use tombolo_engine::procedure::Procedure;
use tombolo_engine::transaction::{Reading, execute};
use tombolo_storage::error::Error;
use tombolo_storage::key::Range;
use tombolo_storage::row::RowId;
use tombolo_storage::store::{Order, Store, Table, TableType};

use super::DISTRICTS;
use super::handles::Handles;
use super::input::DeliveryInput;
use super::rows;
use super::schema::{Customer, District, OrderLine, Orders, Warehouse};
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

type Result<T> = std::result::Result<T, WorkloadError>;

/// Breaks the condition called `check`, and only that one.
///
/// # Errors
/// When no condition has that name, when the database has nothing left that could break it alone,
/// or when the store refuses a call.
pub fn tamper<S: Store>(store: &mut S, check: &str) -> Result<()> {
    let handles = &Handles::resolve(store.schema())?;
    match check {
        "c01" => pay_no_district(store, handles, true),
        "c02" => skip_an_order(store, handles),
        "c03" => deliver_out_of_turn(store, handles),
        "c04" => add_a_stray_line(store, handles),
        "c05" => take_delivery_back(store, handles, TakeBack::Order),
        "c06" => miscount_two_orders(store, handles),
        "c07" => take_delivery_back(store, handles, TakeBack::OneLine),
        "c08" => pay_no_district(store, handles, false),
        "c09" => move_between_districts(store, handles),
        "c10" => change_customer(store, handles, Change::BalanceForPayment),
        "c11" => change_customer(store, handles, Change::DeliveryCount),
        "c12" => change_customer(store, handles, Change::Payment),
        _ => Err(WorkloadError::NoSuchCheck { name: check.to_owned(), known: "c01 to c12" }),
    }
}

fn existing<R: TableType>(
    table: &Table<R>,
    row: Option<RowId>,
) -> std::result::Result<RowId, Error> {
    row.ok_or(Error::NoSuchRow { table: table.position() as u32 })
}

/// A payment by no customer to a district that does not exist: no D_YTD, no balance is asked for
/// it. The warehouse's payments then exceed its districts' sum; W_YTD follows the one
/// (`in_warehouse`: c01 breaks) or the other (c08 breaks).
fn pay_no_district<S: Store>(store: &mut S, handles: &Handles, in_warehouse: bool) -> Result<()> {
    let history = rows::History {
        h_c_id: 0,
        h_c_d_id: NO_DISTRICT,
        h_c_w_id: W_ID,
        h_d_id: NO_DISTRICT,
        h_w_id: W_ID,
        h_date: 0,
        h_amount: 1,
        h_data: Text::new("tampered"),
    };
    Ok(execute(store, |mut tx| {
        let row = existing(&handles.warehouse, tx.lookup(&handles.warehouse_key, W_ID)?)?;
        let mut tx = tx.write();
        tx.create(&handles.history, |row| history.fill(row))?;
        if in_warehouse {
            tx.update(&handles.warehouse, row, Warehouse::PAID, |row| {
                row.set(Warehouse::W_YTD, row.get(Warehouse::W_YTD) + history.h_amount);
            })?;
        }
        tx.commit(())
    })?)
}

/// Only the number of the next order: c02.
fn skip_an_order<S: Store>(store: &mut S, handles: &Handles) -> Result<()> {
    Ok(execute(store, |mut tx| {
        let found = tx.lookup(&handles.district_key, (W_ID, D_ID))?;
        let row = existing(&handles.district, found)?;
        let mut tx = tx.write();
        tx.update(&handles.district, row, District::ORDERED, |row| {
            row.set(District::D_NEXT_O_ID, row.get(District::D_NEXT_O_ID) + 1);
        })?;
        tx.commit(())
    })?)
}

/// A complete delivery, but of an order that is neither the oldest nor the newest: c03.
fn deliver_out_of_turn<S: Store>(store: &mut S, handles: &Handles) -> Result<()> {
    let delivery = Delivery::bind(store.schema())?;
    for d_id in 1..=DISTRICTS {
        let delivered = execute(store, |mut tx| {
            let waiting = new_orders(&mut tx, handles, d_id)?;
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

fn new_orders<S: Store>(
    tx: &mut Reading<'_, S>,
    handles: &Handles,
    d_id: i16,
) -> std::result::Result<Vec<RowId>, Error> {
    let mut waiting = Vec::new();
    let range = Range::prefix((W_ID, d_id));
    tx.scan(&handles.new_order_key, range, Order::Forward, |row| {
        waiting.push(row);
        ControlFlow::Continue(())
    })?;
    Ok(waiting)
}

/// A line, not delivered, of an order that does not exist: its district has a line too many (c04),
/// no order has (c06).
fn add_a_stray_line<S: Store>(store: &mut S, handles: &Handles) -> Result<()> {
    let line = rows::OrderLine {
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
        let found = tx.lookup(&handles.orders_key, (W_ID, D_ID, FREE_ORDER))?;
        let order = existing(&handles.orders, found)?;
        let mut lines = Vec::new();
        let range = Range::prefix((W_ID, D_ID, FREE_ORDER));
        tx.scan(&handles.order_line_key, range, Order::Forward, |row| {
            lines.push(row);
            ControlFlow::Continue(())
        })?;
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

/// One order claims a line more and its neighbour a line less: their district's sum stays (c06).
fn miscount_two_orders<S: Store>(store: &mut S, handles: &Handles) -> Result<()> {
    Ok(execute(store, |mut tx| {
        let mut rows = [None; 2];
        let keys = [FREE_ORDER, FREE_ORDER + 1].map(|o_id| (W_ID, D_ID, o_id));
        tx.lookup_many(&handles.orders_key, &keys, &mut rows)?;
        let mut tx = tx.write();
        for (row, more) in rows.into_iter().zip([1, -1]) {
            let row = existing(&handles.orders, row)?;
            tx.update(&handles.orders, row, Orders::LINES, |row| {
                row.set(Orders::O_OL_CNT, row.get(Orders::O_OL_CNT) + more);
            })?;
        }
        tx.commit(())
    })?)
}

/// One district's sum grows, another's shrinks: their warehouse's stays (c09).
fn move_between_districts<S: Store>(store: &mut S, handles: &Handles) -> Result<()> {
    Ok(execute(store, |mut tx| {
        let mut rows = [None; 2];
        let keys = [(W_ID, D_ID), (W_ID, D_ID + 1)];
        tx.lookup_many(&handles.district_key, &keys, &mut rows)?;
        let mut tx = tx.write();
        for (row, more) in rows.into_iter().zip([1, -1]) {
            let row = existing(&handles.district, row)?;
            tx.update(&handles.district, row, District::PAID, |row| {
                row.set(District::D_YTD, row.get(District::D_YTD) + more);
            })?;
        }
        tx.commit(())
    })?)
}

/// What of a customer changes.
#[derive(Clone, Copy)]
enum Change {
    /// C_BALANCE at the expense of C_YTD_PAYMENT: their sum (c12) stays, the balance is wrong
    /// (c10).
    BalanceForPayment,
    /// C_DELIVERY_CNT alone: a delivery that no order shows (c11).
    DeliveryCount,
    /// C_YTD_PAYMENT alone (c12).
    Payment,
}

fn change_customer<S: Store>(store: &mut S, handles: &Handles, change: Change) -> Result<()> {
    let (balance, payment, deliveries) = match change {
        Change::BalanceForPayment => (1, -1, 0),
        Change::DeliveryCount => (0, 0, 1),
        Change::Payment => (0, 1, 0),
    };
    Ok(execute(store, |mut tx| {
        let found = tx.lookup(&handles.customer_key, (W_ID, D_ID, 1))?;
        let row = existing(&handles.customer, found)?;
        let mut tx = tx.write();
        tx.update(&handles.customer, row, Customer::DELIVERED, |row| {
            row.set(Customer::C_BALANCE, row.get(Customer::C_BALANCE) + balance);
            row.set(Customer::C_YTD_PAYMENT, row.get(Customer::C_YTD_PAYMENT) + payment);
            row.set(Customer::C_DELIVERY_CNT, row.get(Customer::C_DELIVERY_CNT) + deliveries);
        })?;
        tx.commit(())
    })?)
}
