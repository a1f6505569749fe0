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

use tombolo_engine::threads::both;
use tombolo_storage::error::Result;

use super::FIRST_UNDELIVERED_ORDER;
use super::by_number::ByNumber;
use super::handles::Handles;
use super::schema::{Customer, District, History, NewOrder, OrderLine, Orders, Warehouse};
use crate::store::DynamicStore;
use crate::workload::Check;
use crate::workload::error::WorkloadError;
use crate::workload::resolve::Resolve;
use crate::workload::rows::{HasRows, in_transaction};

/// The conditions' names, in order.
pub const CHECKS: [&str; 12] =
    ["c01", "c02", "c03", "c04", "c05", "c06", "c07", "c08", "c09", "c10", "c11", "c12"];

/// Asks all twelve conditions of the database in `store`. Where threads can read it in parallel, one
/// reads the lines, which are most of the rows, and another all other tables.
///
/// # Errors
/// When the store does not hold TPC-C's tables or refuses to be read.
pub fn checks(store: &mut dyn DynamicStore) -> Result<Vec<Check>, WorkloadError> {
    let handles = Handles::resolve(store.schema())?;
    let sums: Result<_> = in_transaction(store, |mut store| {
        let in_parallel = store.shared().map(|view| {
            let view = &*view;
            let other = || lines(&mut { view }, &handles);
            both(other, || Tally::of(&mut { view }, &handles))
        });
        match in_parallel {
            Some((lines, tally)) => Ok(Sums { lines: lines?, tally: tally? }),
            None => Sums::of(&mut store, &handles),
        }
    });
    Ok(sums?.checks())
}

/// What the conditions compare, of all rows of a database, or of those on one of its islands.
#[derive(Debug, Default)]
pub(super) struct Sums {
    tally: Tally,
    lines: ByNumber<LineTally>,
}

impl Sums {
    /// Those of `rows`.
    pub(super) fn of(rows: &mut impl HasRows, handles: &Handles) -> Result<Self> {
        Ok(Self { lines: lines(rows, handles)?, tally: Tally::of(rows, handles)? })
    }

    /// Adds those of other rows of the same database.
    pub(super) fn add(&mut self, other: &Self) {
        self.tally.add(&other.tally);
        self.lines.add_each(&other.lines, LineTally::add);
    }

    /// How many orders there are.
    pub(super) fn orders(&self) -> i64 {
        self.tally.districts.values().map(|district| district.orders).sum()
    }

    /// Asks the conditions.
    pub(super) fn checks(self) -> Vec<Check> {
        let mut findings = Findings::default();
        let Self { tally, lines } = self;
        let tally = tally.with(&lines);
        tally.check_warehouses(&mut findings);
        tally.check_districts(&mut findings);
        tally.check_orders(&lines, &mut findings);
        tally.check_customers(&mut findings);
        let check = |name| Check { name, violation: findings.first.remove(name) };
        CHECKS.into_iter().map(check).collect()
    }
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

#[derive(Debug, Default)]
struct WarehouseTally {
    /// W_YTD, where there is a row.
    ytd: Option<i64>,
    district_ytd: i64,
    paid: i64,
}

impl WarehouseTally {
    fn add(&mut self, other: &Self) {
        self.ytd = self.ytd.or(other.ytd);
        self.district_ytd += other.district_ytd;
        self.paid += other.paid;
    }
}

#[derive(Debug, Default)]
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

impl DistrictTally {
    fn add(&mut self, other: &Self) {
        self.row = self.row.or(other.row);
        self.paid += other.paid;
        self.orders += other.orders;
        self.newest_order = self.newest_order.max(other.newest_order);
        self.ordered_lines += other.ordered_lines;
        self.lines += other.lines;
        self.oldest_new_order = match (self.new_orders, other.new_orders) {
            (_, 0) => self.oldest_new_order,
            (0, _) => other.oldest_new_order,
            _ => self.oldest_new_order.min(other.oldest_new_order),
        };
        self.newest_new_order = self.newest_new_order.max(other.newest_new_order);
        self.new_orders += other.new_orders;
        self.deliveries += other.deliveries;
    }
}

#[derive(Clone, Debug, Default)]
struct OrderTally {
    /// O_C_ID, O_OL_CNT and whether O_CARRIER_ID is set, where there is a row.
    row: Option<(i32, i64, bool)>,
    is_new: bool,
}

impl OrderTally {
    fn add(&mut self, other: &Self) {
        self.row = self.row.or(other.row);
        self.is_new |= other.is_new;
    }
}

/// The lines of an order, whether there is a row of it or not.
#[derive(Clone, Debug, Default)]
struct LineTally {
    delivered: u32,
    waiting: u32,
    delivered_amount: i64,
}

impl LineTally {
    fn add(&mut self, other: &Self) {
        self.delivered += other.delivered;
        self.waiting += other.waiting;
        self.delivered_amount += other.delivered_amount;
    }
}

#[derive(Clone, Debug, Default)]
struct CustomerTally {
    /// C_BALANCE and C_YTD_PAYMENT, where there is a row.
    row: Option<(i64, i64)>,
    paid: i64,
    delivered: i64,
}

impl CustomerTally {
    fn add(&mut self, other: &Self) {
        self.row = self.row.or(other.row);
        self.paid += other.paid;
        self.delivered += other.delivered;
    }
}

type DistrictId = (i32, i16);

/// What the conditions compare.
#[derive(Debug, Default)]
struct Tally {
    warehouses: BTreeMap<i32, WarehouseTally>,
    districts: BTreeMap<DistrictId, DistrictTally>,
    orders: ByNumber<OrderTally>,
    customers: ByNumber<CustomerTally>,
}

/// The lines of each order.
fn lines(rows: &mut impl HasRows, handles: &Handles) -> Result<ByNumber<LineTally>> {
    let mut lines = ByNumber::<LineTally>::default();
    rows.for_each_row(&handles.order_line, |row| {
        let district = (row.get(OrderLine::OL_W_ID), row.get(OrderLine::OL_D_ID));
        let line = lines.at((district.0, district.1, row.get(OrderLine::OL_O_ID)));
        match row.get(OrderLine::OL_DELIVERY_D) {
            Some(_) => {
                line.delivered += 1;
                line.delivered_amount += row.get(OrderLine::OL_AMOUNT);
            }
            None => line.waiting += 1,
        }
    })?;
    Ok(lines)
}

impl Tally {
    /// That of all tables but the lines.
    fn of(rows: &mut impl HasRows, handles: &Handles) -> Result<Self> {
        let mut tally = Self::default();
        tally.add_warehouses_and_districts(rows, handles)?;
        tally.add_orders(rows, handles)?;
        tally.add_customers(rows, handles)?;
        tally.add_payments(rows, handles)?;
        Ok(tally)
    }

    /// Adds that of other rows of the same database.
    fn add(&mut self, other: &Self) {
        for (id, warehouse) in &other.warehouses {
            self.warehouses.entry(*id).or_default().add(warehouse);
        }
        for (id, district) in &other.districts {
            self.districts.entry(*id).or_default().add(district);
        }
        self.orders.add_each(&other.orders, OrderTally::add);
        self.customers.add_each(&other.customers, CustomerTally::add);
    }

    /// The same with the lines: each district's, and to each customer the delivered amounts of his
    /// orders.
    fn with(mut self, lines: &ByNumber<LineTally>) -> Self {
        for ((w_id, d_id, _), line) in lines.iter() {
            let count = i64::from(line.delivered) + i64::from(line.waiting);
            if count > 0 {
                self.districts.entry((w_id, d_id)).or_default().lines += count;
            }
        }
        for (id, order) in self.orders.iter() {
            if let (Some((c_id, ..)), Some(line)) = (order.row, lines.get(id)) {
                self.customers.at((id.0, id.1, c_id)).delivered += line.delivered_amount;
            }
        }
        self
    }

    fn add_warehouses_and_districts(
        &mut self,
        rows: &mut impl HasRows,
        handles: &Handles,
    ) -> Result<()> {
        rows.for_each_row(&handles.warehouse, |row| {
            let warehouse = self.warehouses.entry(row.get(Warehouse::W_ID)).or_default();
            warehouse.ytd = Some(row.get(Warehouse::W_YTD));
        })?;
        rows.for_each_row(&handles.district, |row| {
            let (w_id, ytd) = (row.get(District::D_W_ID), row.get(District::D_YTD));
            self.warehouses.entry(w_id).or_default().district_ytd += ytd;
            let district = self.districts.entry((w_id, row.get(District::D_ID))).or_default();
            district.row = Some((ytd, row.get(District::D_NEXT_O_ID)));
        })
    }

    fn add_orders(&mut self, rows: &mut impl HasRows, handles: &Handles) -> Result<()> {
        rows.for_each_row(&handles.orders, |row| {
            let (w_id, d_id) = (row.get(Orders::O_W_ID), row.get(Orders::O_D_ID));
            let (o_id, lines) = (row.get(Orders::O_ID), row.get(Orders::O_OL_CNT));
            let district = self.districts.entry((w_id, d_id)).or_default();
            district.orders += 1;
            district.ordered_lines += lines;
            district.newest_order = district.newest_order.max(o_id);
            let delivered = row.get(Orders::O_CARRIER_ID).is_some();
            let order = self.orders.at((w_id, d_id, o_id));
            order.row = Some((row.get(Orders::O_C_ID), lines, delivered));
        })?;
        rows.for_each_row(&handles.new_order, |row| {
            let (w_id, d_id) = (row.get(NewOrder::NO_W_ID), row.get(NewOrder::NO_D_ID));
            let o_id = row.get(NewOrder::NO_O_ID);
            let district = self.districts.entry((w_id, d_id)).or_default();
            let first = district.new_orders == 0;
            district.oldest_new_order =
                if first { o_id } else { district.oldest_new_order.min(o_id) };
            district.newest_new_order = district.newest_new_order.max(o_id);
            district.new_orders += 1;
            self.orders.at((w_id, d_id, o_id)).is_new = true;
        })
    }

    fn add_customers(&mut self, rows: &mut impl HasRows, handles: &Handles) -> Result<()> {
        rows.for_each_row(&handles.customer, |row| {
            let (w_id, d_id) = (row.get(Customer::C_W_ID), row.get(Customer::C_D_ID));
            self.districts.entry((w_id, d_id)).or_default().deliveries +=
                row.get(Customer::C_DELIVERY_CNT);
            let id = (w_id, d_id, row.get(Customer::C_ID));
            self.customers.at(id).row =
                Some((row.get(Customer::C_BALANCE), row.get(Customer::C_YTD_PAYMENT)));
        })
    }

    fn add_payments(&mut self, rows: &mut impl HasRows, handles: &Handles) -> Result<()> {
        rows.for_each_row(&handles.history, |row| {
            let (w_id, d_id) = (row.get(History::H_W_ID), row.get(History::H_D_ID));
            let amount = row.get(History::H_AMOUNT);
            self.warehouses.entry(w_id).or_default().paid += amount;
            self.districts.entry((w_id, d_id)).or_default().paid += amount;
            let district = (row.get(History::H_C_W_ID), row.get(History::H_C_D_ID));
            let id = (district.0, district.1, row.get(History::H_C_ID));
            self.customers.at(id).paid += amount;
        })
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

    fn check_orders(&self, lines: &ByNumber<LineTally>, findings: &mut Findings) {
        for (id, order) in self.orders.iter() {
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
            let own = lines.get(id).cloned().unwrap_or_default();
            let lines = i64::from(own.delivered) + i64::from(own.waiting);
            findings.require("c06", count == lines, || {
                format!("order {id:?}: O_OL_CNT is {count}, there are {lines} lines")
            });
            let wrong = if delivered { own.waiting } else { own.delivered };
            findings.require("c07", wrong == 0, || {
                format!("order {id:?}: delivered is {delivered}, but not so for {wrong} lines")
            });
        }
    }

    fn check_customers(&self, findings: &mut Findings) {
        for (id, customer) in self.customers.iter() {
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
