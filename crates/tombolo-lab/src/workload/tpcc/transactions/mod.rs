//! The five transactions, each written once for every store, reads first (2.4 – 2.8; LG-32 …
//! LG-35).
//!
//! # What it is
//! One file per transaction: its answer, its handles, its code. The paper's variant is the same
//! code with the paper's inputs: ten local lines and customers by number make exactly the calls of
//! its Figure 4. All decide whether to abort before their first write, so they run on stores
//! without undo. Arrays are fixed and on the stack: nothing is allocated.
//!
//! # Answers
//! An answer holds what the terminal computes or decides by (2.4.3 – 2.8.3): numbers, names, sums.
//! Constant columns that a terminal only prints — addresses, the phone, an item's name — are not
//! read.

pub mod delivery;
pub mod new_order;
pub mod order_status;
pub mod parts;
pub mod payment;
pub mod stock_level;

mod customer;
mod row_list;

use tombolo_engine::hints::Hints;
use tombolo_engine::procedure::{Ahead, Procedure};
use tombolo_engine::transaction::{Stop, execute};
use tombolo_storage::error::{Error, SchemaError};
use tombolo_storage::row::RowId;
use tombolo_storage::schema::Schema;
use tombolo_storage::store::{Store, Table, TableType};

use super::input::{CustomerInput, Input, Mix};
use delivery::{Delivery, DeliveryAnswer};
use new_order::{NewOrder, NewOrderAnswer};
use order_status::{OrderStatus, OrderStatusAnswer};
use payment::{Payment, PaymentAnswer};
use stock_level::{StockLevel, StockLevelAnswer};

/// The abort reason of a New Order with an item number that no item has.
pub const INVALID_ITEM_REASON: &str = "invalid_item";

/// What a transaction answers.
#[expect(clippy::large_enum_variant, reason = "used where it is returned, never stored")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Of a New Order.
    NewOrder(NewOrderAnswer),
    /// Of a Payment.
    Payment(PaymentAnswer),
    /// Of an Order Status.
    OrderStatus(OrderStatusAnswer),
    /// Of a Delivery.
    Delivery(DeliveryAnswer),
    /// Of a Stock Level.
    StockLevel(StockLevelAnswer),
}

/// The transactions of a mix, bound to a schema.
#[derive(Debug)]
pub struct Transactions {
    new_order: NewOrder,
    payment: Payment,
    standard: Option<StandardOnly>,
}

/// The transactions that only the standard mix has.
#[derive(Debug)]
struct StandardOnly {
    order_status: OrderStatus,
    delivery: Delivery,
    stock_level: StockLevel,
}

impl Transactions {
    /// Resolves what the transactions of `mix` use.
    ///
    /// # Errors
    /// When the schema lacks a table or an index, or defines it differently.
    pub fn bind(schema: &Schema, mix: Mix) -> Result<Self, SchemaError> {
        let standard = match mix {
            Mix::Paper => None,
            Mix::Standard => Some(StandardOnly {
                order_status: OrderStatus::bind(schema)?,
                delivery: Delivery::bind(schema)?,
                stock_level: StockLevel::bind(schema)?,
            }),
        };
        Ok(Self { new_order: NewOrder::bind(schema)?, payment: Payment::bind(schema)?, standard })
    }

    /// Runs the transaction that `input` is of.
    ///
    /// # Errors
    /// Its abort, or what the store refused.
    ///
    /// # Panics
    /// If the transactions were bound for the paper's mix and `input` is not of that mix.
    #[inline]
    pub fn call<S: Store>(&self, store: &mut S, input: &Input) -> Result<Answer, Stop> {
        self.call_located(store, input, &Hints::none())
    }

    /// The same with what looking ahead found.
    ///
    /// # Errors
    /// As [`Transactions::call`].
    ///
    /// # Panics
    /// As [`Transactions::call`].
    #[inline]
    pub fn call_located<S: Store>(
        &self,
        store: &mut S,
        input: &Input,
        hints: &Hints,
    ) -> Result<Answer, Stop> {
        match input {
            Input::NewOrder(input) => {
                self.new_order.call_located(store, input, hints).map(Answer::NewOrder)
            }
            Input::Payment(input) => {
                self.payment.call_located(store, input, hints).map(Answer::Payment)
            }
            Input::OrderStatus(input) => {
                self.standard().order_status.call(store, input).map(Answer::OrderStatus)
            }
            Input::Delivery(input) => {
                self.standard().delivery.call(store, input).map(Answer::Delivery)
            }
            Input::StockLevel(input) => {
                self.standard().stock_level.call(store, input).map(Answer::StockLevel)
            }
        }
    }

    /// Runs the transaction that `input` is of, if it is one that the paper measures: a New Order,
    /// or a Payment by a customer's number.
    #[inline]
    pub fn call_paper<S: Store>(
        &self,
        store: &mut S,
        input: &Input,
    ) -> Option<Result<Answer, Stop>> {
        match input {
            Input::NewOrder(input) => Some(self.new_order.call(store, input).map(Answer::NewOrder)),
            Input::Payment(input) if matches!(input.customer, CustomerInput::Id(_)) => {
                let paid = execute(store, |tx| self.payment.run_by_number(tx, input));
                Some(paid.map(Answer::Payment))
            }
            _ => None,
        }
    }

    /// Looks ahead at the transaction that `input` is of; see [`Procedure::look_ahead`]. The three that
    /// only the standard mix has are not looked ahead at.
    #[inline]
    pub fn look_ahead<S: Store>(&self, store: &S, input: &Input, ahead: Ahead, hints: &mut Hints) {
        match input {
            Input::NewOrder(input) => self.new_order.look_ahead(store, input, ahead, hints),
            Input::Payment(input) => self.payment.look_ahead(store, input, ahead, hints),
            _ => {}
        }
    }

    fn standard(&self) -> &StandardOnly {
        self.standard.as_ref().expect("the transactions were bound for the paper's mix")
    }
}

/// The row that a look-up found, where the data always hold one.
#[inline(always)]
fn existing<R: TableType>(table: &Table<R>, found: Option<RowId>) -> Result<RowId, Error> {
    match found {
        Some(row) => Ok(row),
        None => Err(missing(table.position())),
    }
}

/// That the data are not what they always are. A call of its own: what follows several look-ups is
/// not compiled as a rare case.
#[cold]
#[inline(never)]
fn missing(table: usize) -> Error {
    Error::NoSuchRow { table: table as u32 }
}

#[cfg(test)]
mod test_store;
#[cfg(test)]
mod tests;
