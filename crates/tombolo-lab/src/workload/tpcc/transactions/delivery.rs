//! Delivery (2.7): the oldest waiting order of each district of a warehouse is delivered.
//!
//! One transaction for all ten districts, as 2.7.1 allows: all ten are read, then all are written.
//! A district without waiting orders is passed over (2.7.4.2).

use tombolo_engine::procedure::Procedure;
use tombolo_engine::transaction::{Committed, Reading, Stop, Writing};
use tombolo_storage::error::{Result, SchemaError};
use tombolo_storage::key::Range;
use tombolo_storage::row::RowId;
use tombolo_storage::schema::Schema;
use tombolo_storage::store::{Index, Order, Store, Table};

use super::existing;
use super::row_list::RowList;
use crate::workload::resolve::Resolve;
use crate::workload::tpcc::input::DeliveryInput;
use crate::workload::tpcc::schema::{
    Customer, CustomerKey, NewOrder, NewOrderByWarehouse, NewOrderKey, OrderLine, OrderLineKey,
    Orders, OrdersKey,
};
use crate::workload::tpcc::{DISTRICTS, ORDER_LINES_MAX};

const LINES: usize = ORDER_LINES_MAX as usize;
const COUNT: usize = DISTRICTS as usize;

/// What a Delivery reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeliveryAnswer {
    /// By district: the order delivered; 0 where none was waiting.
    pub orders: [i32; COUNT],
}

handles! {
    /// The transaction, bound.
    #[derive(Debug)]
    pub struct Delivery {
        customer: Table<Customer>,
        new_order: Table<NewOrder>,
        orders: Table<Orders>,
        order_line: Table<OrderLine>,
        customer_key: Index<CustomerKey>,
        new_order_key: Index<NewOrderKey>,
        new_order_by_warehouse: Index<NewOrderByWarehouse>,
        orders_key: Index<OrdersKey>,
        order_line_key: Index<OrderLineKey>,
    }
}

/// The order that one district delivers.
#[derive(Clone, Copy)]
pub(in crate::workload::tpcc) struct Delivered {
    d_id: i16,
    o_id: i32,
    new_order: RowId,
    order: RowId,
    customer: RowId,
    lines: RowList<LINES>,
    amount: i64,
}

impl Procedure for Delivery {
    type Input = DeliveryInput;
    type Answer = DeliveryAnswer;

    fn bind(schema: &Schema) -> Result<Self, SchemaError> {
        Resolve::resolve(schema)
    }

    #[inline]
    fn run<S: Store>(
        &self,
        mut tx: Reading<'_, S>,
        input: &DeliveryInput,
    ) -> Result<Committed<DeliveryAnswer>, Stop> {
        let mut delivered = [None; COUNT];
        for (found, d_id) in delivered.iter_mut().zip(1..) {
            *found = self.locate_oldest(&mut tx, input.w_id, d_id)?;
        }
        // The rows asked for while locating arrive meanwhile.
        for found in delivered.iter_mut().flatten() {
            self.read(&mut tx, input.w_id, found)?;
        }

        let mut tx = tx.write();
        let mut answer = DeliveryAnswer { orders: [0; COUNT] };
        for (order, found) in answer.orders.iter_mut().zip(&delivered) {
            if let Some(found) = found {
                self.deliver(&mut tx, input, found)?;
                *order = found.o_id;
            }
        }
        tx.commit(answer)
    }
}

impl Delivery {
    /// Finds a district's oldest waiting order and its lines, and asks for their rows.
    #[inline(always)]
    fn locate_oldest<S: Store>(
        &self,
        tx: &mut Reading<'_, S>,
        w_id: i32,
        d_id: i16,
    ) -> Result<Option<Delivered>> {
        let mut oldest = RowList::<1>::new();
        let waiting = Range::prefix((w_id, d_id));
        tx.scan(&self.new_order_key, waiting, Order::Forward, |row| oldest.push(row))?;
        oldest.first().map(|new_order| self.locate(tx, w_id, d_id, *new_order)).transpose()
    }

    /// Finds the order of the NEW_ORDER row `new_order` and its lines, and asks for their rows.
    #[inline(always)]
    pub(in crate::workload::tpcc) fn locate<S: Store>(
        &self,
        tx: &mut Reading<'_, S>,
        w_id: i32,
        d_id: i16,
        new_order: RowId,
    ) -> Result<Delivered> {
        let o_id = tx.pin(&self.new_order, new_order)?.get(NewOrder::NO_O_ID);
        let order = tx.lookup_for_update(&self.orders_key, (w_id, d_id, o_id))?;
        let order = existing(&self.orders, order)?;
        tx.prefetch(&self.orders, order, Orders::DELIVERED);
        let mut lines = RowList::<LINES>::new();
        let range = Range::prefix((w_id, d_id, o_id));
        tx.scan(&self.order_line_key, range, Order::Forward, |row| lines.push(row))?;
        for line in lines.iter() {
            tx.prefetch(&self.order_line, *line, OrderLine::WHOLE);
        }
        // The customer is known once the order is read.
        let customer = order;
        Ok(Delivered { d_id, o_id, new_order, order, customer, lines, amount: 0 })
    }

    /// Finds the customer of a located order and adds its lines up.
    #[inline(always)]
    pub(in crate::workload::tpcc) fn read<S: Store>(
        &self,
        tx: &mut Reading<'_, S>,
        w_id: i32,
        found: &mut Delivered,
    ) -> Result<()> {
        let c_id = tx.pin(&self.orders, found.order)?.get(Orders::O_C_ID);
        let customer = tx.lookup_for_update(&self.customer_key, (w_id, found.d_id, c_id))?;
        found.customer = existing(&self.customer, customer)?;
        tx.prefetch(&self.customer, found.customer, Customer::DELIVERED);
        for line in found.lines.iter() {
            found.amount += tx.pin(&self.order_line, *line)?.get(OrderLine::OL_AMOUNT);
        }
        Ok(())
    }

    /// Delivers what was located and read.
    #[inline(always)]
    pub(in crate::workload::tpcc) fn deliver<S: Store>(
        &self,
        tx: &mut Writing<'_, S>,
        input: &DeliveryInput,
        found: &Delivered,
    ) -> Result<()> {
        let (w_id, d_id, o_id) = (input.w_id, found.d_id, found.o_id);
        tx.remove(&self.new_order_key, (w_id, d_id, o_id), found.new_order)?;
        tx.remove(&self.new_order_by_warehouse, (w_id, o_id, d_id), found.new_order)?;
        tx.delete(&self.new_order, found.new_order)?;
        tx.update(&self.orders, found.order, Orders::DELIVERED, |row| {
            row.set(Orders::O_CARRIER_ID, Some(input.carrier_id));
        })?;
        for line in found.lines.iter() {
            tx.update(&self.order_line, *line, OrderLine::DELIVERED, |row| {
                row.set(OrderLine::OL_DELIVERY_D, Some(input.delivery_d));
            })?;
        }
        tx.update(&self.customer, found.customer, Customer::DELIVERED, |row| {
            row.set(Customer::C_BALANCE, row.get(Customer::C_BALANCE) + found.amount);
            row.set(Customer::C_DELIVERY_CNT, row.get(Customer::C_DELIVERY_CNT) + 1);
        })
    }
}
