//! The twelve consistency conditions, c01 to c12 (3.3.2.1 – 3.3.2.12).
//!
//! # What it is
//! One pass over the rows of each table — not over its indexes, whose agreement with the rows is a
//! check of the store — adds up what the conditions compare, by warehouse, district, order and
//! customer; then each condition is asked of the sums. A condition that does not hold names the
//! first place where it does not.
//!
//! # Readings
//! A condition about the rows of something is asked of each row of it that exists: a line whose
//! order does not exist counts in its district (c04) but in no order (c06, c07). c11 counts the
//! deliveries since the load by C_DELIVERY_CNT, which starts at 0.

use std::collections::BTreeMap;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use tombolo_engine::transaction::{Reading, execute};
use tombolo_storage::error::Result;
use tombolo_storage::store::Store;

use super::FIRST_UNDELIVERED_ORDER;
use super::handles::Handles;
use super::schema::{Customer, District, History, NewOrder, OrderLine, Orders, Warehouse};
use crate::workload::Check;
use crate::workload::error::WorkloadError;
use crate::workload::rows::for_each_row;

/// The conditions' names, in order.
pub const CHECKS: [&str; 12] =
    ["c01", "c02", "c03", "c04", "c05", "c06", "c07", "c08", "c09", "c10", "c11", "c12"];

/// Asks all twelve conditions of the database in `store`.
///
/// # Errors
/// When the store does not hold TPC-C's tables or refuses to be read.
pub fn checks<S: Store>(store: &mut S) -> Result<Vec<Check>, WorkloadError> {
    let handles = Handles::bind(store.schema())?;
    let tally = execute(store, |mut tx| {
        let tally = Tally::of(&mut tx, &handles)?;
        tx.commit(tally)
    })?;
    let mut findings = Findings::default();
    tally.check_warehouses(&mut findings);
    tally.check_districts(&mut findings);
    tally.check_orders(&mut findings);
    tally.check_customers(&mut findings);
    let check = |name| Check { name, violation: findings.first.remove(name) };
    Ok(CHECKS.into_iter().map(check).collect())
}

/// The first violation of each condition.
#[derive(Default)]
struct Findings {
    first: BTreeMap<&'static str, String>,
}

impl Findings {
    /// Notes that `condition` does not hold unless `holds`.
    fn require(&mut self, condition: &'static str, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.first.entry(condition).or_insert_with(what);
        }
    }
}

#[derive(Default)]
struct WarehouseTally {
    /// W_YTD, where there is a row.
    ytd: Option<i64>,
    district_ytd: i64,
    paid: i64,
}

#[derive(Default)]
struct DistrictTally {
    /// D_YTD and D_NEXT_O_ID, where there is a row.
    row: Option<(i64, i32)>,
    paid: i64,
    orders: i64,
    newest_order: i32,
    ordered_lines: i64,
    lines: i64,
    new_orders: i64,
    oldest_new_order: i32,
    newest_new_order: i32,
    deliveries: i64,
}

#[derive(Default)]
struct OrderTally {
    /// O_C_ID, O_OL_CNT and whether O_CARRIER_ID is set, where there is a row.
    row: Option<(i32, i64, bool)>,
    is_new: bool,
    delivered_lines: i64,
    waiting_lines: i64,
    delivered_amount: i64,
}

#[derive(Default)]
struct CustomerTally {
    /// C_BALANCE and C_YTD_PAYMENT, where there is a row.
    row: Option<(i64, i64)>,
    paid: i64,
    delivered: i64,
}

type DistrictId = (i32, i16);
/// A district and the number of an order or a customer in it.
type InDistrict = (i32, i16, i32);

/// What the conditions compare.
#[derive(Default)]
struct Tally {
    warehouses: BTreeMap<i32, WarehouseTally>,
    districts: BTreeMap<DistrictId, DistrictTally>,
    orders: HashMap<InDistrict, OrderTally, FixedState>,
    customers: HashMap<InDistrict, CustomerTally, FixedState>,
}

impl Tally {
    fn of<S: Store>(tx: &mut Reading<'_, S>, handles: &Handles) -> Result<Self> {
        let mut tally = Self::default();
        tally.add_warehouses_and_districts(tx, handles)?;
        tally.add_orders(tx, handles)?;
        tally.add_lines(tx, handles)?;
        tally.add_customers(tx, handles)?;
        tally.add_payments(tx, handles)?;
        tally.add_deliveries();
        Ok(tally)
    }

    fn add_warehouses_and_districts<S: Store>(
        &mut self,
        tx: &mut Reading<'_, S>,
        handles: &Handles,
    ) -> Result<()> {
        for_each_row(tx, &handles.warehouse, |row| {
            let warehouse = self.warehouses.entry(row.get(Warehouse::W_ID)).or_default();
            warehouse.ytd = Some(row.get(Warehouse::W_YTD));
        })?;
        for_each_row(tx, &handles.district, |row| {
            let (w_id, ytd) = (row.get(District::D_W_ID), row.get(District::D_YTD));
            self.warehouses.entry(w_id).or_default().district_ytd += ytd;
            let district = self.districts.entry((w_id, row.get(District::D_ID))).or_default();
            district.row = Some((ytd, row.get(District::D_NEXT_O_ID)));
        })
    }

    fn add_orders<S: Store>(&mut self, tx: &mut Reading<'_, S>, handles: &Handles) -> Result<()> {
        for_each_row(tx, &handles.orders, |row| {
            let (w_id, d_id) = (row.get(Orders::O_W_ID), row.get(Orders::O_D_ID));
            let (o_id, lines) = (row.get(Orders::O_ID), row.get(Orders::O_OL_CNT));
            let district = self.districts.entry((w_id, d_id)).or_default();
            district.orders += 1;
            district.ordered_lines += lines;
            district.newest_order = district.newest_order.max(o_id);
            let delivered = row.get(Orders::O_CARRIER_ID).is_some();
            let order = self.orders.entry((w_id, d_id, o_id)).or_default();
            order.row = Some((row.get(Orders::O_C_ID), lines, delivered));
        })?;
        for_each_row(tx, &handles.new_order, |row| {
            let (w_id, d_id) = (row.get(NewOrder::NO_W_ID), row.get(NewOrder::NO_D_ID));
            let o_id = row.get(NewOrder::NO_O_ID);
            let district = self.districts.entry((w_id, d_id)).or_default();
            let first = district.new_orders == 0;
            district.oldest_new_order =
                if first { o_id } else { district.oldest_new_order.min(o_id) };
            district.newest_new_order = district.newest_new_order.max(o_id);
            district.new_orders += 1;
            self.orders.entry((w_id, d_id, o_id)).or_default().is_new = true;
        })
    }

    fn add_lines<S: Store>(&mut self, tx: &mut Reading<'_, S>, handles: &Handles) -> Result<()> {
        for_each_row(tx, &handles.order_line, |row| {
            let (w_id, d_id) = (row.get(OrderLine::OL_W_ID), row.get(OrderLine::OL_D_ID));
            self.districts.entry((w_id, d_id)).or_default().lines += 1;
            let id = (w_id, d_id, row.get(OrderLine::OL_O_ID));
            let order = self.orders.entry(id).or_default();
            match row.get(OrderLine::OL_DELIVERY_D) {
                Some(_) => {
                    order.delivered_lines += 1;
                    order.delivered_amount += row.get(OrderLine::OL_AMOUNT);
                }
                None => order.waiting_lines += 1,
            }
        })
    }

    fn add_customers<S: Store>(
        &mut self,
        tx: &mut Reading<'_, S>,
        handles: &Handles,
    ) -> Result<()> {
        for_each_row(tx, &handles.customer, |row| {
            let (w_id, d_id) = (row.get(Customer::C_W_ID), row.get(Customer::C_D_ID));
            self.districts.entry((w_id, d_id)).or_default().deliveries +=
                row.get(Customer::C_DELIVERY_CNT);
            let id = (w_id, d_id, row.get(Customer::C_ID));
            self.customers.entry(id).or_default().row =
                Some((row.get(Customer::C_BALANCE), row.get(Customer::C_YTD_PAYMENT)));
        })
    }

    fn add_payments<S: Store>(&mut self, tx: &mut Reading<'_, S>, handles: &Handles) -> Result<()> {
        for_each_row(tx, &handles.history, |row| {
            let (w_id, d_id) = (row.get(History::H_W_ID), row.get(History::H_D_ID));
            let amount = row.get(History::H_AMOUNT);
            self.warehouses.entry(w_id).or_default().paid += amount;
            self.districts.entry((w_id, d_id)).or_default().paid += amount;
            let district = (row.get(History::H_C_W_ID), row.get(History::H_C_D_ID));
            let id = (district.0, district.1, row.get(History::H_C_ID));
            self.customers.entry(id).or_default().paid += amount;
        })
    }

    /// Gives each customer the delivered amounts of his orders.
    fn add_deliveries(&mut self) {
        for (&(w_id, d_id, _), order) in &self.orders {
            if let Some((c_id, ..)) = order.row {
                let customer = self.customers.entry((w_id, d_id, c_id)).or_default();
                customer.delivered += order.delivered_amount;
            }
        }
    }

    fn check_warehouses(&self, findings: &mut Findings) {
        for (w_id, warehouse) in &self.warehouses {
            let Some(ytd) = warehouse.ytd else { continue };
            findings.require("c01", ytd == warehouse.district_ytd, || {
                let sum = warehouse.district_ytd;
                format!("warehouse {w_id}: W_YTD is {ytd} cents, the sum of D_YTD {sum}")
            });
            findings.require("c08", ytd == warehouse.paid, || {
                let sum = warehouse.paid;
                format!("warehouse {w_id}: W_YTD is {ytd} cents, the sum of H_AMOUNT {sum}")
            });
        }
    }

    fn check_districts(&self, findings: &mut Findings) {
        for (id, district) in &self.districts {
            let Some((ytd, next)) = district.row else { continue };
            let (newest, newest_new) = (district.newest_order, district.newest_new_order);
            let none_new = district.new_orders == 0;
            let holds = next - 1 == newest && (none_new || next - 1 == newest_new);
            findings.require("c02", holds, || {
                format!(
                    "district {id:?}: next order {next}, newest {newest}, newest new {newest_new}"
                )
            });
            let span = i64::from(newest_new) - i64::from(district.oldest_new_order) + 1;
            findings.require("c03", none_new || span == district.new_orders, || {
                format!("district {id:?}: {} new orders span {span} numbers", district.new_orders)
            });
            findings.require("c04", district.ordered_lines == district.lines, || {
                let (ordered, lines) = (district.ordered_lines, district.lines);
                format!(
                    "district {id:?}: the sum of O_OL_CNT is {ordered}, there are {lines} lines"
                )
            });
            findings.require("c09", ytd == district.paid, || {
                let sum = district.paid;
                format!("district {id:?}: D_YTD is {ytd} cents, the sum of H_AMOUNT {sum}")
            });
            let delivered = i64::from(FIRST_UNDELIVERED_ORDER) - 1 + district.deliveries;
            findings.require("c11", district.orders - district.new_orders == delivered, || {
                let (orders, new) = (district.orders, district.new_orders);
                format!(
                    "district {id:?}: {orders} orders, {new} of them new, {delivered} delivered"
                )
            });
        }
    }

    fn check_orders(&self, findings: &mut Findings) {
        for (id, order) in &self.orders {
            let Some((_, count, delivered)) = order.row else {
                let is_new = order.is_new;
                findings.require("c05", !is_new, || format!("new order {id:?} is no order"));
                continue;
            };
            findings.require("c05", delivered != order.is_new, || {
                let carrier = if delivered { "a" } else { "no" };
                let new_order = if order.is_new { "a" } else { "no" };
                format!("order {id:?} has {carrier} carrier and {new_order} NEW_ORDER row")
            });
            let lines = order.delivered_lines + order.waiting_lines;
            findings.require("c06", count == lines, || {
                format!("order {id:?}: O_OL_CNT is {count}, there are {lines} lines")
            });
            let wrong = if delivered { order.waiting_lines } else { order.delivered_lines };
            findings.require("c07", wrong == 0, || {
                format!("order {id:?}: delivered is {delivered}, but not so for {wrong} lines")
            });
        }
    }

    fn check_customers(&self, findings: &mut Findings) {
        for (id, customer) in &self.customers {
            let Some((balance, ytd)) = customer.row else { continue };
            let (delivered, paid) = (customer.delivered, customer.paid);
            findings.require("c10", balance == delivered - paid, || {
                format!(
                    "customer {id:?}: balance {balance}, delivered {delivered}, paid {paid} cents"
                )
            });
            findings.require("c12", balance + ytd == delivered, || {
                format!(
                    "customer {id:?}: balance {balance}, C_YTD_PAYMENT {ytd}, delivered {delivered}"
                )
            });
        }
    }
}
