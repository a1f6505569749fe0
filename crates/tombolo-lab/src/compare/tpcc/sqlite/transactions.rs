//! The five transactions on SQLite: the same reads, writes and answers as our procedures
//! (`workload/tpcc/transactions`).
//!
//! Reads come first, so an abort never has anything to take back.

use rusqlite::types::{ToSql, ValueRef};
use rusqlite::{Error, Result, Row, Rows, Statement};

use super::rows::text;
use super::schema;
use super::statements::{StandardStatements, Statements};
use crate::workload::tpcc::input::{
    CustomerInput, DeliveryInput, Input, NewOrderInput, OrderStatusInput, PaymentInput,
    StockLevelInput,
};
use crate::workload::tpcc::text::{Text, is_original};
use crate::workload::tpcc::transactions::Answer;
use crate::workload::tpcc::transactions::delivery::DeliveryAnswer;
use crate::workload::tpcc::transactions::new_order::NewOrderAnswer;
use crate::workload::tpcc::transactions::order_status::{OrderStatusAnswer, StatusLine};
use crate::workload::tpcc::transactions::payment::{PaymentAnswer, history_data};
use crate::workload::tpcc::transactions::stock_level::StockLevelAnswer;
use crate::workload::tpcc::{DISTRICTS, ORDER_LINES_MAX};

const LINES: usize = ORDER_LINES_MAX as usize;

/// Binds integers, the first to `?1`.
fn bind<const N: usize>(statement: &mut Statement<'_>, values: [i64; N]) -> Result<()> {
    values.iter().enumerate().try_for_each(|(i, value)| statement.raw_bind_parameter(i + 1, value))
}

fn execute<const N: usize>(statement: &mut Statement<'_>, values: [i64; N]) -> Result<()> {
    bind(statement, values)?;
    statement.raw_execute().map(|_| ())
}

fn query<'s, const N: usize>(
    statement: &'s mut Statement<'_>,
    values: [i64; N],
) -> Result<Rows<'s>> {
    bind(statement, values)?;
    Ok(statement.raw_query())
}

/// The next row, where there is one.
fn existing<'r, 's>(rows: &'r mut Rows<'s>) -> Result<&'r Row<'s>> {
    rows.next()?.ok_or(Error::QueryReturnedNoRows)
}

fn integer(row: &Row<'_>, column: usize) -> Result<i64> {
    Ok(row.get_ref(column)?.as_i64()?)
}

fn bytes<'r>(row: &'r Row<'_>, column: usize) -> Result<&'r [u8]> {
    Ok(row.get_ref(column)?.as_bytes()?)
}

fn read_text<const N: usize>(row: &Row<'_>, column: usize) -> Result<Text<N>> {
    Ok(Text::from_row(bytes(row, column)?))
}

fn nullable(row: &Row<'_>, column: usize) -> Result<Option<i64>> {
    match row.get_ref(column)? {
        ValueRef::Null => Ok(None),
        value => Ok(Some(value.as_i64()?)),
    }
}

/// Binds one value after the other.
struct Binder<'s, 'c> {
    statement: &'s mut Statement<'c>,
    bound: usize,
}

impl<'s, 'c> Binder<'s, 'c> {
    fn new(statement: &'s mut Statement<'c>) -> Self {
        Self { statement, bound: 0 }
    }

    fn push(&mut self, value: impl ToSql) -> Result<()> {
        self.bound += 1;
        self.statement.raw_bind_parameter(self.bound, value)
    }
}

/// A line of a New Order, as its reads found it.
#[derive(Clone, Copy)]
struct LineRead {
    price: i64,
    dist: Text<24>,
}

impl<'c> Statements<'c> {
    /// Runs one transaction; nothing is answered by a New Order that is rolled back.
    pub(super) fn run(&mut self, input: &Input) -> Result<Option<Answer>> {
        self.common.begin.raw_execute()?;
        let answer = match input {
            Input::NewOrder(input) => match self.new_order(input)? {
                Some(answer) => Answer::NewOrder(answer),
                None => {
                    self.common.rollback.raw_execute()?;
                    return Ok(None);
                }
            },
            Input::Payment(input) => Answer::Payment(self.payment(input)?),
            Input::OrderStatus(input) => Answer::OrderStatus(self.standard()?.status(input)?),
            Input::Delivery(input) => Answer::Delivery(self.standard()?.delivery(input)?),
            Input::StockLevel(input) => Answer::StockLevel(self.standard()?.stock_level(input)?),
        };
        self.common.commit.raw_execute()?;
        Ok(Some(answer))
    }

    fn standard(&mut self) -> Result<&mut StandardStatements<'c>> {
        self.standard.as_mut().ok_or(Error::InvalidQuery)
    }

    /// New Order (2.4); nothing if an item does not exist.
    fn new_order(&mut self, input: &NewOrderInput) -> Result<Option<NewOrderAnswer>> {
        let mut reads = [LineRead { price: 0, dist: Text::EMPTY }; LINES];
        let Some(brand) = self.read_lines(input, &mut reads)? else { return Ok(None) };
        let district = schema::district(input.w_id, input.d_id);
        let customer = schema::customer(input.w_id, input.d_id, input.c_id);
        let mut answer = {
            let keys = [district, input.w_id.into(), customer];
            let mut rows = query(&mut self.common.order_parties, keys)?;
            let row = existing(&mut rows)?;
            NewOrderAnswer {
                o_id: integer(row, 0)? as i32,
                total: 0,
                brand,
                c_last: read_text(row, 4)?,
                c_credit: read_text(row, 5)?,
                c_discount: integer(row, 3)?,
                w_tax: integer(row, 2)?,
                d_tax: integer(row, 1)?,
            }
        };
        execute(&mut self.common.next_order, [district])?;
        let order = schema::order(input.w_id, input.d_id, answer.o_id);
        let sum = self.write_lines(input, order, &reads)?;
        let lines = input.lines();
        let local = lines.iter().all(|line| line.supply_w_id == input.w_id);
        let (count, local) = (lines.len() as i64, i64::from(local));
        execute(
            &mut self.common.insert_order,
            [order, input.c_id.into(), input.entry_d, count, local],
        )?;
        execute(&mut self.common.insert_new_order, [order])?;
        let discounted = sum * (10_000 - answer.c_discount);
        let taxed = discounted * (10_000 + answer.w_tax + answer.d_tax);
        answer.total = (taxed + 50_000_000) / 100_000_000;
        Ok(Some(answer))
    }

    /// Reads the items and stocks of an order; which items are brand-generic, nothing if one does
    /// not exist.
    fn read_lines(
        &mut self,
        input: &NewOrderInput,
        reads: &mut [LineRead; LINES],
    ) -> Result<Option<u16>> {
        let lines = input.lines();
        let statements = self.order[lines.len()].as_mut().ok_or(Error::InvalidQuery)?;
        let statement = &mut statements.read_lines[usize::from(input.d_id.unsigned_abs()) - 1];
        let mut binder = Binder::new(statement);
        for line in lines {
            binder.push(line.i_id)?;
            binder.push(schema::stock(line.supply_w_id, line.i_id))?;
        }
        let mut rows = statement.raw_query();
        let mut brand = 0;
        for (place, read) in reads.iter_mut().enumerate().take(lines.len()) {
            let Some(row) = rows.next()? else { return Ok(None) };
            if is_original(bytes(row, 1)?) && is_original(bytes(row, 2)?) {
                brand |= 1 << place;
            }
            *read = LineRead { price: integer(row, 0)?, dist: read_text(row, 3)? };
        }
        Ok(Some(brand))
    }

    /// Takes every line of an order from its stock and stores it; the sum of the lines' amounts.
    fn write_lines(
        &mut self,
        input: &NewOrderInput,
        order: i64,
        reads: &[LineRead; LINES],
    ) -> Result<i64> {
        let lines = input.lines();
        let statements = self.order[lines.len()].as_mut().ok_or(Error::InvalidQuery)?;
        let mut taken = Binder::new(&mut statements.take_stock);
        let mut stored = Binder::new(&mut statements.insert_lines);
        let mut sum = 0;
        for ((line, read), number) in lines.iter().zip(reads).zip(1..) {
            taken.push(schema::stock(line.supply_w_id, line.i_id))?;
            taken.push(line.quantity)?;
            taken.push(line.supply_w_id != input.w_id)?;
            let amount = i64::from(line.quantity) * read.price;
            sum += amount;
            stored.push(schema::order_line(order, number))?;
            stored.push(line.i_id)?;
            stored.push(line.supply_w_id)?;
            stored.push(line.quantity)?;
            stored.push(amount)?;
            stored.push(text(read.dist.as_bytes()))?;
        }
        statements.take_stock.raw_execute()?;
        statements.insert_lines.raw_execute()?;
        Ok(sum)
    }

    /// Payment (2.5).
    fn payment(&mut self, input: &PaymentInput) -> Result<PaymentAnswer> {
        let customer = match &input.customer {
            CustomerInput::Id(c_id) => schema::customer(input.c_w_id, input.c_d_id, *c_id),
            CustomerInput::LastName(name) => {
                self.standard()?.customer_named(input.c_w_id, input.c_d_id, name)?
            }
        };
        let district = schema::district(input.w_id, input.d_id);
        let amount = input.h_amount;
        let (answer, h_data) = {
            let keys = [input.w_id.into(), district, customer];
            let mut rows = query(&mut self.common.payment_parties, keys)?;
            let row = existing(&mut rows)?;
            let answer = PaymentAnswer {
                c_id: schema::c_id(customer),
                c_last: read_text(row, 2)?,
                c_credit: read_text(row, 3)?,
                c_credit_lim: integer(row, 4)?,
                c_discount: integer(row, 5)?,
                c_balance: integer(row, 6)? - amount,
            };
            (answer, history_data(bytes(row, 0)?, bytes(row, 1)?))
        };
        if answer.c_credit.as_bytes() == b"BC" {
            let note = format!(
                "{} {} {} {} {} {}.{:02}|",
                answer.c_id,
                input.c_d_id,
                input.c_w_id,
                input.d_id,
                input.w_id,
                amount / 100,
                amount % 100
            );
            self.common.pay_bad_credit.raw_bind_parameter(3, note)?;
            execute(&mut self.common.pay_bad_credit, [customer, amount])?;
        } else {
            execute(&mut self.common.pay, [customer, amount])?;
        }
        execute(&mut self.common.pay_district, [district, amount])?;
        execute(&mut self.common.pay_warehouse, [input.w_id.into(), amount])?;
        self.common.insert_history.raw_bind_parameter(8, text(h_data.as_bytes()))?;
        let (c_d_id, c_w_id) = (input.c_d_id.into(), input.c_w_id.into());
        let to = (input.d_id.into(), input.w_id.into());
        let values = [answer.c_id.into(), c_d_id, c_w_id, to.0, to.1, input.h_date, amount];
        execute(&mut self.common.insert_history, values)?;
        Ok(answer)
    }
}

impl StandardStatements<'_> {
    /// The key of the customer in the middle of those with one last name (2.5.2.2).
    fn customer_named(&mut self, w_id: i32, d_id: i16, name: &Text<16>) -> Result<i64> {
        self.customers_named.raw_bind_parameter(3, text(name.as_bytes()))?;
        let mut rows = query(&mut self.customers_named, [w_id.into(), d_id.into()])?;
        let mut keys = Vec::with_capacity(64);
        while let Some(row) = rows.next()? {
            keys.push(integer(row, 0)?);
        }
        let middle = keys.len().div_ceil(2).checked_sub(1).ok_or(Error::QueryReturnedNoRows)?;
        Ok(keys[middle])
    }

    /// Order Status (2.6).
    fn status(&mut self, input: &OrderStatusInput) -> Result<OrderStatusAnswer> {
        let (w_id, d_id) = (input.w_id, input.d_id);
        let customer = match &input.customer {
            CustomerInput::Id(c_id) => schema::customer(w_id, d_id, *c_id),
            CustomerInput::LastName(name) => self.customer_named(w_id, d_id, name)?,
        };
        let c_id = schema::c_id(customer);
        let mut customers = query(&mut self.status_customer, [customer])?;
        let customer = existing(&mut customers)?;
        let mut orders = query(&mut self.newest_order, [w_id.into(), d_id.into(), c_id.into()])?;
        let newest = existing(&mut orders)?;
        let order = integer(newest, 0)?;
        let mut answer = OrderStatusAnswer {
            c_id,
            c_first: read_text(customer, 0)?,
            c_middle: read_text(customer, 1)?,
            c_last: read_text(customer, 2)?,
            c_balance: integer(customer, 3)?,
            o_id: schema::o_id(order),
            entry_d: integer(newest, 1)?,
            carrier_id: nullable(newest, 2)?.map(|carrier| carrier as i16),
            line_count: 0,
            line_array: [StatusLine::default(); LINES],
        };
        let range = [schema::order_line(order, 0), schema::last_line(order)];
        let mut rows = query(&mut self.status_lines, range)?;
        while let Some(row) = rows.next()? {
            answer.line_array[answer.line_count] = StatusLine {
                i_id: integer(row, 0)? as i32,
                supply_w_id: integer(row, 1)? as i32,
                quantity: integer(row, 2)?,
                amount: integer(row, 3)?,
                delivery_d: nullable(row, 4)?,
            };
            answer.line_count += 1;
        }
        Ok(answer)
    }

    /// Delivery (2.7), all ten districts in one transaction.
    fn delivery(&mut self, input: &DeliveryInput) -> Result<DeliveryAnswer> {
        /// An order, its customer and what is delivered.
        type Delivered = Option<(i64, i64, i64)>;
        let mut found: [Delivered; DISTRICTS as usize] = [None; DISTRICTS as usize];
        for (found, d_id) in found.iter_mut().zip(1..) {
            let range = [schema::order(input.w_id, d_id, 0), schema::last_order(input.w_id, d_id)];
            let oldest = nullable(existing(&mut query(&mut self.oldest_new_order, range)?)?, 0)?;
            let Some(order) = oldest else { continue };
            let keys = [order, schema::order_line(order, 0), schema::last_line(order)];
            let mut rows = query(&mut self.delivered_order, keys)?;
            let row = existing(&mut rows)?;
            let customer = schema::customer(input.w_id, d_id, integer(row, 0)? as i32);
            *found = Some((order, customer, integer(row, 1)?));
        }
        let mut answer = DeliveryAnswer { orders: [0; DISTRICTS as usize] };
        for (order, customer, amount) in found.into_iter().flatten() {
            execute(&mut self.delete_new_order, [order])?;
            execute(&mut self.set_carrier, [order, input.carrier_id.into()])?;
            let range = [schema::order_line(order, 0), schema::last_line(order)];
            execute(&mut self.deliver_lines, [range[0], range[1], input.delivery_d])?;
            execute(&mut self.deliver_customer, [customer, amount])?;
            let district = usize::from(schema::order_d_id(order).unsigned_abs());
            answer.orders[district - 1] = schema::o_id(order);
        }
        Ok(answer)
    }

    /// Stock Level (2.8).
    fn stock_level(&mut self, input: &StockLevelInput) -> Result<StockLevelAnswer> {
        let (w_id, d_id) = (input.w_id, input.d_id);
        let first = [schema::district(w_id, d_id), schema::order(w_id, d_id, 0)];
        let keys = [first[0], first[1], schema::stock(w_id, 0), input.threshold];
        let mut rows = query(&mut self.stock_level, keys)?;
        Ok(StockLevelAnswer { low: integer(existing(&mut rows)?, 0)? as u32 })
    }
}
