//! Order Status (2.6): a customer asks for the newest order. Reads only.

use tombolo_engine::procedure::Procedure;
use tombolo_engine::transaction::{Committed, Reading, Stop};
use tombolo_storage::error::{Result, SchemaError};
use tombolo_storage::key::Range;
use tombolo_storage::row::RowId;
use tombolo_storage::schema::Schema;
use tombolo_storage::store::{Index, Order, Store, Table};

use super::customer::Customers;
use super::existing;
use super::row_list::RowList;
use crate::workload::resolve::Resolve;
use crate::workload::tpcc::ORDER_LINES_MAX;
use crate::workload::tpcc::input::OrderStatusInput;
use crate::workload::tpcc::schema::{Customer, OrderLine, OrderLineKey, Orders, OrdersByCustomer};
use crate::workload::tpcc::text::Text;

const LINES: usize = ORDER_LINES_MAX as usize;

/// One line of the order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatusLine {
    /// OL_I_ID.
    pub i_id: i32,
    /// OL_SUPPLY_W_ID.
    pub supply_w_id: i32,
    /// OL_QUANTITY.
    pub quantity: i64,
    /// OL_AMOUNT, in cents.
    pub amount: i64,
    /// OL_DELIVERY_D.
    pub delivery_d: Option<i64>,
}

/// What an Order Status returns to the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderStatusAnswer {
    /// C_ID.
    pub c_id: i32,
    /// C_FIRST.
    pub c_first: Text<16>,
    /// C_MIDDLE.
    pub c_middle: Text<2>,
    /// C_LAST.
    pub c_last: Text<16>,
    /// C_BALANCE, in cents.
    pub c_balance: i64,
    /// O_ID.
    pub o_id: i32,
    /// O_ENTRY_D.
    pub entry_d: i64,
    /// O_CARRIER_ID.
    pub carrier_id: Option<i16>,
    pub(crate) line_count: usize,
    pub(crate) line_array: [StatusLine; LINES],
}

impl OrderStatusAnswer {
    /// The order's lines.
    #[must_use]
    pub fn lines(&self) -> &[StatusLine] {
        &self.line_array[..self.line_count]
    }
}

handles! {
    /// The transaction, bound.
    #[derive(Debug)]
    pub struct OrderStatus {
        orders: Table<Orders>,
        order_line: Table<OrderLine>,
        orders_by_customer: Index<OrdersByCustomer>,
        order_line_key: Index<OrderLineKey>,
        customers: Customers,
    }
}

impl Procedure for OrderStatus {
    type Input = OrderStatusInput;
    type Answer = OrderStatusAnswer;

    fn bind(schema: &Schema) -> Result<Self, SchemaError> {
        Resolve::resolve(schema)
    }

    #[inline]
    fn run<S: Store>(
        &self,
        mut tx: Reading<'_, S>,
        input: &OrderStatusInput,
    ) -> Result<Committed<OrderStatusAnswer>, Stop> {
        let (w_id, d_id) = (input.w_id, input.d_id);
        let customer = self.customers.find(&mut tx, w_id, d_id, &input.customer)?;
        let c_id = tx.pin(&self.customers.table, customer)?.get(Customer::C_ID);
        let newest = self.newest_order(&mut tx, input, c_id)?;
        let o_id = tx.pin(&self.orders, newest)?.get(Orders::O_ID);
        let mut rows = RowList::<LINES>::new();
        let lines = Range::prefix((w_id, d_id, o_id));
        tx.scan(&self.order_line_key, lines, Order::Forward, |row| rows.push(row))?;
        for row in rows.iter() {
            tx.prefetch(&self.order_line, *row, OrderLine::WHOLE);
        }
        let mut answer = self.read_heads(&tx, customer, newest)?;
        for (line, row) in answer.line_array.iter_mut().zip(rows.iter()) {
            let row = tx.pin(&self.order_line, *row)?;
            *line = StatusLine {
                i_id: row.get(OrderLine::OL_I_ID),
                supply_w_id: row.get(OrderLine::OL_SUPPLY_W_ID),
                quantity: row.get(OrderLine::OL_QUANTITY),
                amount: row.get(OrderLine::OL_AMOUNT),
                delivery_d: row.get(OrderLine::OL_DELIVERY_D),
            };
        }
        answer.line_count = rows.len();
        tx.commit(answer)
    }
}

impl OrderStatus {
    /// The customer's order with the largest O_ID.
    #[inline(always)]
    fn newest_order<S: Store>(
        &self,
        tx: &mut Reading<'_, S>,
        input: &OrderStatusInput,
        c_id: i32,
    ) -> Result<RowId> {
        let mut newest = RowList::<1>::new();
        let orders = Range::prefix((input.w_id, input.d_id, c_id));
        tx.scan(&self.orders_by_customer, orders, Order::Backward, |row| newest.push(row))?;
        existing(&self.orders, newest.first().copied())
    }

    /// The answer without its lines.
    #[inline(always)]
    fn read_heads<S: Store>(
        &self,
        tx: &Reading<'_, S>,
        customer: RowId,
        order: RowId,
    ) -> Result<OrderStatusAnswer> {
        let customer = tx.pin(&self.customers.table, customer)?;
        let order = tx.pin(&self.orders, order)?;
        Ok(OrderStatusAnswer {
            c_id: customer.get(Customer::C_ID),
            c_first: Text::from_row(customer.get(Customer::C_FIRST)),
            c_middle: Text::from_row(customer.get(Customer::C_MIDDLE)),
            c_last: Text::from_row(customer.get(Customer::C_LAST)),
            c_balance: customer.get(Customer::C_BALANCE),
            o_id: order.get(Orders::O_ID),
            entry_d: order.get(Orders::O_ENTRY_D),
            carrier_id: order.get(Orders::O_CARRIER_ID),
            line_count: 0,
            line_array: [StatusLine::default(); LINES],
        })
    }
}
