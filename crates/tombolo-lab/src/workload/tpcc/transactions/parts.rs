//! Payment and New Order in parts, for warehouses that are on several islands: each part is a procedure on the island
//! of a warehouse. The steps are those of the whole transactions.
//!
//! | transaction | at the home warehouse | at the other one |
//! |---|---|---|
//! | Payment of a customer elsewhere | [`PayAtHome`]: district, warehouse, history | [`Charge`]: the customer |
//! | New Order with lines from elsewhere | [`OrderAtHome`]: the order, the lines, its own stocks | [`TakeFromStock`] |
//!
//! No part sees another's answer, so a part is given what it needs of the others' rows. That is in columns that no
//! transaction changes: the number of a customer who is known by name ([`FindCustomer`]), S_DIST and S_DATA of a stock
//! ([`AskStock`]). A call before the transaction reads them.
//!
//! Not here: which island a warehouse is on, how parts commit together (the library).

use tombolo_engine::procedure::Procedure;
use tombolo_engine::transaction::{Committed, Reading, Stop};
use tombolo_storage::error::SchemaError;
use tombolo_storage::row::RowId;
use tombolo_storage::schema::Schema;
use tombolo_storage::store::Store;

use super::new_order::{LINES, NAMED, NewOrder, NewOrderAnswer, Source, Supplied};
use super::payment::{Payment, PaymentAnswer};
use super::{INVALID_ITEM_REASON, existing};
use crate::workload::resolve::Resolve;
use crate::workload::tpcc::input::{NewOrderInput, PaymentInput};
use crate::workload::tpcc::schema::{Customer, Stock};
use crate::workload::tpcc::text::{Text, is_original};

/// Declares a part of a transaction.
macro_rules! part {
    (
        $(#[$doc:meta])*
        $name:ident of $whole:ident: $input:ty => $answer:ty, |$self:ident, $tx:ident, $given:ident| $run:block
    ) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $name($whole);

        impl Procedure for $name {
            type Input = $input;
            type Answer = $answer;

            fn bind(schema: &Schema) -> Result<Self, SchemaError> {
                Resolve::resolve(schema).map(Self)
            }

            #[inline]
            fn run<S: Store>(
                &$self,
                mut $tx: Reading<'_, S>,
                $given: &$input,
            ) -> Result<Committed<$answer>, Stop> {
                $run
            }
        }
    };
}

part! {
    /// The number of a Payment's customer.
    FindCustomer of Payment: PaymentInput => i32, |self, tx, input| {
        let customers = &self.0.customers;
        let customer = customers.find(&mut tx, input.c_w_id, input.c_d_id, &input.customer)?;
        let c_id = tx.pin(&customers.table, customer)?.get(Customer::C_ID);
        tx.commit(c_id)
    }
}

part! {
    /// What a Payment does where it is paid, given the customer's number.
    PayAtHome of Payment: (PaymentInput, i32) => (), |self, tx, given| {
        let (input, c_id) = given;
        let home = self.0.find_home(&mut tx, input)?;
        let mut tx = tx.write();
        self.0.take_in(&mut tx, input, &home)?;
        self.0.note(&mut tx, input, *c_id, home.h_data)?;
        tx.commit(())
    }
}

part! {
    /// What a Payment does where its customer is.
    Charge of Payment: PaymentInput => PaymentAnswer, |self, tx, input| {
        let customers = &self.0.customers;
        let (w_id, d_id) = (input.c_w_id, input.c_d_id);
        let customer = customers.find_for_update(&mut tx, w_id, d_id, &input.customer)?;
        let mut tx = tx.write();
        let answer = self.0.charge(&mut tx, customer, input)?;
        tx.commit(answer)
    }
}

/// What an order takes over from the stock of each line, where that is elsewhere.
pub type Elsewhere = [Option<Supplied>; LINES];

/// The lines of an order that other islands than that of its home supply: an order of these lines for each island.
pub fn orders_elsewhere(
    order: &NewOrderInput,
    island_of: impl Fn(i32) -> usize,
) -> Vec<NewOrderInput> {
    let mut seen = vec![island_of(order.w_id)];
    let mut orders = Vec::new();
    for line in order.lines() {
        let island = island_of(line.supply_w_id);
        if !seen.contains(&island) {
            seen.push(island);
            orders.push(order.only(|_, line| island_of(line.supply_w_id) == island));
        }
    }
    orders
}

/// Notes what was asked about the lines of `part`, one of [`orders_elsewhere`], at their places in the whole order.
pub fn note_supplied(
    elsewhere: &mut Elsewhere,
    order: &NewOrderInput,
    part: &NewOrderInput,
    asked: &Elsewhere,
) {
    let mut asked = part.lines().iter().zip(asked).peekable();
    for (place, line) in order.lines().iter().enumerate() {
        // Equal lines are supplied by the same island: they are in the part, too, in this order.
        if let Some((_, supplied)) = asked.next_if(|(of, _)| *of == line) {
            elsewhere[place] = *supplied;
        }
    }
}

part! {
    /// What an order takes over from the stocks of its lines, all of which are here.
    AskStock of NewOrder: NewOrderInput => Elsewhere, |self, tx, input| {
        let mut supplied: Elsewhere = [None; LINES];
        for (supplied, line) in supplied.iter_mut().zip(input.lines()) {
            let stock = tx.lookup(&self.0.stock_key, (line.supply_w_id, line.i_id))?;
            let Some(stock) = stock else { return tx.abort(INVALID_ITEM_REASON) };
            let row = tx.pin(&self.0.stock, stock)?;
            *supplied = Some(Supplied {
                original: is_original(row.get(Stock::S_DATA)),
                dist_info: Text::from_row(row.get(Stock::DIST[input.d_id as usize - 1])),
            });
        }
        tx.commit(supplied)
    }
}

part! {
    /// What a New Order does at home: lines are taken from the stocks that are here, others are given.
    OrderAtHome of NewOrder: (NewOrderInput, Elsewhere) => NewOrderAnswer, |self, tx, given| {
        let (input, elsewhere) = given;
        let mut rows = [RowId::new(0); NAMED];
        if !self.0.look_up_customer_and_items(&mut tx, input, &mut rows)? {
            return tx.abort(INVALID_ITEM_REASON);
        }
        let mut stocks = [RowId::new(0); LINES];
        let here = input.only(|place, _| elsewhere[place].is_none());
        self.0.look_up_stocks(&mut tx, &here, &mut stocks)?;
        let (items, mut next) = (&rows[1..=input.lines().len()], 0);
        self.0.place(tx, input, (rows[0], items, false), |place| match &elsewhere[place] {
            Some(supplied) => Source::Elsewhere(supplied),
            None => {
                next += 1;
                Source::Here(stocks[next - 1])
            }
        })
    }
}

part! {
    /// Takes the lines of an order, all of which are supplied here, from their stocks.
    TakeFromStock of NewOrder: NewOrderInput => (), |self, tx, input| {
        let mut stocks = [RowId::new(0); LINES];
        for (row, line) in stocks.iter_mut().zip(input.lines()) {
            let stock = tx.lookup_for_update(&self.0.stock_key, (line.supply_w_id, line.i_id))?;
            *row = existing(&self.0.stock, stock)?;
        }
        let mut tx = tx.write();
        for (&stock, line) in stocks.iter().zip(input.lines()) {
            self.0.take_from_stock(&mut tx, stock, line, true)?;
        }
        tx.commit(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::tpcc::input::{Generator, Input, Mix, Remote};
    use crate::workload::tpcc::nurand::Constants;

    /// Each line from another island is in the part of its island and in no other, and gets what was asked about it,
    /// also where an order has equal lines.
    #[test]
    fn every_line_from_elsewhere_has_a_part() {
        let island_of = |w_id: i32| w_id as usize % 3;
        let inputs = Generator::new(1, Mix::Standard, 5, Constants::from_seed(1));
        let inputs = inputs.with_remote(Remote { payments: 0, lines: 40 });
        let orders = inputs.filter_map(|input| match input {
            Input::NewOrder(order) => Some(order),
            _ => None,
        });
        // An item for each line, and the last line again.
        let twice = orders.take(2_000).map(|order| {
            let mut lines = order.lines().to_vec();
            lines.truncate(LINES - 1);
            lines.extend(lines.last().copied());
            NewOrderInput::of_lines(0, order.w_id, order.d_id, order.c_id, &lines)
        });
        for order in twice {
            let (mut elsewhere, mut islands) = ([None; LINES], vec![island_of(order.w_id)]);
            for part in orders_elsewhere(&order, island_of) {
                let island = island_of(part.lines()[0].supply_w_id);
                assert!(!islands.contains(&island));
                islands.push(island);
                let mut asked: Elsewhere = [None; LINES];
                for (asked, line) in asked.iter_mut().zip(part.lines()) {
                    assert_eq!(island_of(line.supply_w_id), island);
                    let dist_info = Text::new(&line.i_id.to_string());
                    *asked = Some(Supplied { original: line.i_id % 2 == 0, dist_info });
                }
                note_supplied(&mut elsewhere, &order, &part, &asked);
            }
            for (place, supplied) in elsewhere.iter().enumerate() {
                let line = order.lines().get(place);
                let away = line.filter(|of| island_of(of.supply_w_id) != island_of(order.w_id));
                let item = supplied.map(|supplied| supplied.dist_info.as_str().to_owned());
                assert_eq!(item, away.map(|line| line.i_id.to_string()));
            }
        }
    }
}
