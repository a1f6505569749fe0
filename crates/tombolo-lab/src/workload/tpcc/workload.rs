//! TPC-C as a [`Workload`].

use tombolo_engine::hints::Hints;
use tombolo_engine::procedure::Ahead;
use tombolo_engine::settings::{Setting, Settings};
use tombolo_engine::transaction::Stop;
use tombolo_storage::error::SchemaError;
use tombolo_storage::schema::{DeclaredTable, Schema, TableDef};
use tombolo_storage::store::{Store, Table, resolve_table};

use super::input::{Generator, Input, Mix};
use super::kinds;
use super::loader::{self, Scale};
use super::new_rows::NewRows;
use super::nurand::Constants;
use super::schema::{
    Customer, District, History, NewOrder, OrderLine, Orders, Stock, Warehouse, tables,
};
use super::settings::{SETTINGS, WAREHOUSES};
use super::transactions::delivery::DeliveryAnswer;
use super::transactions::new_order::NewOrderAnswer;
use super::transactions::order_status::OrderStatusAnswer;
use super::transactions::payment::PaymentAnswer;
use super::transactions::stock_level::StockLevelAnswer;
use super::transactions::{Answer, Transactions};
use super::{CUSTOMERS, DISTRICTS, FIRST_UNDELIVERED_ORDER, ITEMS, ORDER_LINES_MAX, ORDERS};
use crate::failure::Failure;
use crate::numbers::separated;
use crate::settings::SEED;
use crate::store::DynamicStore;
use crate::workload::error::WorkloadError;
use crate::workload::log_bytes::{RECORD, inserted, updated};
use crate::workload::rows::{HasRows, in_transaction};
use crate::workload::{Check, Kind, Workload};

/// Lines of an order on average, in both mixes.
const LINES: u64 = 10;

/// What a transaction answers, the one long answer outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Of a New Order.
    NewOrder(NewOrderAnswer),
    /// Of a Payment.
    Payment(PaymentAnswer),
    /// Of an Order Status.
    OrderStatus(Box<OrderStatusAnswer>),
    /// Of a Delivery.
    Delivery(DeliveryAnswer),
    /// Of a Stock Level.
    StockLevel(StockLevelAnswer),
}

impl From<Answer> for Reply {
    #[inline]
    fn from(answer: Answer) -> Self {
        match answer {
            Answer::NewOrder(answer) => Self::NewOrder(answer),
            Answer::Payment(answer) => Self::Payment(answer),
            Answer::OrderStatus(answer) => Self::OrderStatus(Box::new(answer)),
            Answer::Delivery(answer) => Self::Delivery(answer),
            Answer::StockLevel(answer) => Self::StockLevel(answer),
        }
    }
}

impl Scale {
    /// Rows of `table` in the initial database.
    fn rows(&self, table: &str) -> u64 {
        let count = |n: i32| u64::from(n.unsigned_abs());
        let warehouses = count(self.warehouses);
        let districts = warehouses * u64::from(DISTRICTS.unsigned_abs());
        match table {
            "warehouse" => warehouses,
            "district" => districts,
            "customer" | "history" => districts * count(CUSTOMERS),
            "new_order" => districts * count(ORDERS + 1 - FIRST_UNDELIVERED_ORDER),
            "orders" => districts * count(ORDERS),
            "order_line" => districts * count(ORDERS) * LINES,
            "item" => count(ITEMS),
            "stock" => warehouses * count(ITEMS),
            _ => 0,
        }
    }

    /// Rows that a transaction adds to `table`, on average, in hundredths.
    fn added(&self, table: &str) -> u64 {
        let (new_orders, payments) = match self.mix {
            Mix::Paper => (50, 50),
            Mix::Standard => (45, 43),
        };
        match table {
            "orders" | "new_order" => new_orders,
            "order_line" => new_orders * LINES,
            "history" => payments,
            _ => 0,
        }
    }
}

/// What a delivered order has at most.
const LINES_MAX: usize = ORDER_LINES_MAX as usize;
/// The most bytes that the records of parts of a transaction take.
const ORDER: usize = updated(District::ORDERED) + inserted::<Orders>() + inserted::<NewOrder>();
const LINE: usize = inserted::<OrderLine>() + updated(Stock::ORDERED);
const PAYMENT: usize = updated(Warehouse::PAID)
    + updated(District::PAID)
    + updated(Customer::PAID_BAD)
    + inserted::<History>();
const DELIVERED: usize = RECORD
    + updated(Orders::DELIVERED)
    + LINES_MAX * updated(OrderLine::DELIVERED)
    + updated(Customer::DELIVERED);
const DELIVERY: usize = DISTRICTS as usize * DELIVERED;

const fn larger(a: usize, b: usize) -> usize {
    if a > b { a } else { b }
}

/// Rows of a table.
fn count_rows<R: DeclaredTable>(store: &mut dyn DynamicStore) -> Result<u64, WorkloadError> {
    let (table, mut count): (Table<R>, _) = (resolve_table(store.schema())?, 0);
    in_transaction(store, |mut store| store.for_each_row(&table, |_| count += 1))?;
    Ok(count)
}

impl Workload for Scale {
    const NAME: &'static str = "tpcc";
    const KINDS: &'static [&'static str] = &kinds::NAMES;
    const MIXES: &'static [&'static str] = &Mix::NAMES;
    const MIXES_HELP: &'static str =
        "the paper's New Order and Payment, or the specification's five";
    const EXAMPLES: &'static [&'static str] = &[
        "tombolo run tpcc --warehouses 5 --seconds 5",
        "tombolo run tpcc --mix paper --profile bare --counter auto",
        "tombolo run tpcc --sweep warehouses=1,5,20 --rounds 3 --transactions 1M --json",
        "tombolo run tpcc --warehouses 1 --transactions 10k --dump dump/ && tombolo check dump/",
        "tombolo run tpcc --clients 64 --in-flight 64 --data data/       durable, many calls under way",
        "tombolo run tpcc --data data/ --resume                          reopen it and continue",
        "tombolo run tpcc --sweep durability=none,group --clients 64 --in-flight 64 --rounds 5",
    ];
    const TABLE: &'static str = Warehouse::NAME;
    const LOG_BYTES_MAX: usize = larger(ORDER + LINES_MAX * LINE, larger(PAYMENT, DELIVERY));
    type Input = Input;
    type Transactions = Transactions;
    type Answer = Answer;
    type Reply = Reply;
    type NewRows = NewRows;

    fn settings() -> &'static [&'static Setting] {
        SETTINGS
    }

    fn planned(settings: &Settings, mix: usize) -> Result<Self, Failure> {
        let warehouses = settings.count(&WAREHOUSES) as i32;
        Ok(Self { seed: settings.count(&SEED), warehouses, mix: Mix::ALL[mix] })
    }

    fn values(&self) -> Vec<u64> {
        vec![self.warehouses.unsigned_abs().into()]
    }

    fn mix(&self) -> Option<&'static str> {
        Some(self.mix.name())
    }

    fn size(values: &[u64]) -> String {
        format!("{} warehouses", values[0])
    }

    fn label(values: &[u64]) -> String {
        let plural = if values[0] == 1 { "" } else { "s" };
        format!("{} warehouse{plural}", separated(values[0]))
    }

    /// Its mixes are known by their own names.
    fn title(&self) -> String {
        self.mix.name().to_owned()
    }

    fn all_tables() -> Vec<TableDef> {
        tables(Mix::Standard)
    }

    fn tables(&self) -> Vec<TableDef> {
        tables(self.mix)
    }

    fn rows_after(&self, table: &str, transactions: u64) -> u64 {
        let run = (u128::from(transactions) * u128::from(self.added(table)) / 100) as u64;
        self.rows(table).saturating_add(run)
    }

    fn inputs(&self) -> impl Iterator<Item = Input> + Send + use<> {
        Generator::new(self.seed, self.mix, self.warehouses, Constants::from_seed(self.seed))
    }

    fn counted(&self) -> (&'static [Kind], Kind) {
        const KINDS: &[Kind] = &[
            kinds::NEW_ORDER,
            kinds::PAYMENT,
            kinds::ORDER_STATUS,
            kinds::DELIVERY,
            kinds::STOCK_LEVEL,
        ];
        let kinds = match self.mix {
            Mix::Paper => &KINDS[..2],
            Mix::Standard => KINDS,
        };
        (kinds, kinds::NEW_ORDER)
    }

    fn load_parts<S: Store>(
        &self,
        store: &mut S,
        threads: usize,
        after_part: impl FnMut(&mut S, usize, usize) -> Result<(), WorkloadError>,
    ) -> Result<(), WorkloadError> {
        loader::load_parts(store, *self, threads, after_part)
    }

    /// A part of the initial database is stored as a whole or not at all; the last part of each
    /// warehouse has orders.
    fn find(&self, store: &mut dyn DynamicStore) -> Result<Option<Self>, WorkloadError> {
        const ORDERS_EACH: u64 = DISTRICTS as u64 * ORDERS as u64;
        let warehouses = count_rows::<Warehouse>(store)?;
        let is_whole = warehouses > 0 && count_rows::<Orders>(store)? >= warehouses * ORDERS_EACH;
        let warehouses = i32::try_from(warehouses).unwrap_or(i32::MAX);
        Ok(is_whole.then_some(Self { warehouses, ..*self }))
    }

    fn bind(&self, schema: &Schema) -> Result<Transactions, SchemaError> {
        Transactions::bind(schema, self.mix)
    }

    #[inline]
    fn call<S: Store>(
        transactions: &Transactions,
        store: &mut S,
        input: &Input,
        hints: &Hints,
    ) -> Result<Answer, Stop> {
        transactions.call_located(store, input, hints)
    }

    #[inline]
    fn call_measured<S: Store>(
        transactions: &Transactions,
        store: &mut S,
        input: &Input,
    ) -> Option<Result<Answer, Stop>> {
        transactions.call_paper(store, input)
    }

    fn unmeasured(&self) -> &'static [&'static str] {
        match self.mix {
            Mix::Paper => &[],
            Mix::Standard => &Self::KINDS[2..],
        }
    }

    #[inline]
    fn look_ahead<S: Store>(
        transactions: &Transactions,
        store: &S,
        input: &Input,
        ahead: Ahead,
        hints: &mut Hints,
    ) {
        transactions.look_ahead(store, input, ahead, hints);
    }

    fn log_bytes_max(input: &Input) -> usize {
        match input {
            Input::NewOrder(order) => ORDER + order.lines().len() * LINE,
            Input::Payment(_) => PAYMENT,
            Input::Delivery(_) => DELIVERY,
            Input::OrderStatus(_) | Input::StockLevel(_) => 0,
        }
    }

    fn new_rows(inputs: &[Input]) -> NewRows {
        NewRows::of(inputs)
    }

    fn by_table(rows: NewRows) -> impl Iterator<Item = (&'static str, usize)> {
        rows.by_table().into_iter()
    }

    fn checks(store: &mut dyn DynamicStore) -> Result<Vec<Check>, WorkloadError> {
        super::checks::checks(store)
    }

    fn tamper<S: Store>(store: &mut S, check: &str) -> Result<(), WorkloadError> {
        super::tamper::tamper(store, check)
    }

    #[cfg(test)]
    fn tested() -> Vec<Self> {
        Mix::ALL.map(|mix| Self { seed: 1, warehouses: 1, mix }).to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_is_estimated() {
        let scale = Scale { seed: 1, warehouses: 1, mix: Mix::Standard };
        for table in scale.tables() {
            assert!(scale.rows_after(&table.name, 0) > 0, "{}", table.name);
        }
    }
}
