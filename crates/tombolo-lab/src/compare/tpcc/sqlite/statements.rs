//! The statements of the five transactions, prepared once per batch.
//!
//! One statement does what it can for all lines of an order, because a statement costs about a
//! microsecond before it does anything. Joins are `CROSS JOIN`: the order of look-ups is fixed
//! here, not planned.
//!
//! A look-up of every line's item and stock comes before any write, as in our procedures: a
//! transaction whose item does not exist ends there. After that no statement can fail for a reason
//! of the data.

use rusqlite::{Connection, Result, Statement};

use crate::compare::sqlite::sections;
use crate::workload::tpcc::input::{Mix, PAPER_ORDER_LINES};
use crate::workload::tpcc::{DISTRICTS, ORDER_LINES_MAX, ORDER_LINES_MIN};

/// The statements for orders of one number of lines.
pub(super) struct OrderStatements<'c> {
    /// Per district, because each reads another S_DIST column: price and data of every line's item
    /// and stock.
    pub(super) read_lines: Vec<Statement<'c>>,
    /// Takes every line from its stock.
    pub(super) take_stock: Statement<'c>,
    /// Stores every line.
    pub(super) insert_lines: Statement<'c>,
}

/// All statements.
pub(super) struct Statements<'c> {
    pub(super) common: CommonStatements<'c>,
    /// By number of lines; none where no order of the mix has that many.
    pub(super) order: Vec<Option<OrderStatements<'c>>>,
    pub(super) standard: Option<StandardStatements<'c>>,
}

/// `one(n)` for every line, with `width` parameters each, the first being `?first`.
fn per_line(lines: usize, width: usize, first: usize, one: impl Fn(usize) -> String) -> String {
    let texts: Vec<String> = (0..lines).map(|line| one(first + width * line)).collect();
    texts.join(", ")
}

impl<'c> OrderStatements<'c> {
    fn prepare(connection: &'c Connection, lines: usize) -> Result<Self> {
        let asked = per_line(lines, 2, 1, |at| format!("(?{at}, ?{})", at + 1));
        let read_lines = |district: i16| {
            connection.prepare(&format!(
                "SELECT i_price, i_data, s_data, s_dist_{district:02}
                 FROM (VALUES {asked}) AS line CROSS JOIN item CROSS JOIN stock
                 WHERE i_id = line.column1 AND s_key = line.column2"
            ))
        };
        let taken = per_line(lines, 3, 1, |at| format!("(?{at}, ?{}, ?{})", at + 1, at + 2));
        let stored = per_line(lines, 6, 1, |at| {
            let [item, warehouse, quantity, amount, dist] = [1, 2, 3, 4, 5].map(|i| at + i);
            format!("(?{at}, ?{item}, ?{warehouse}, NULL, ?{quantity}, ?{amount}, ?{dist})")
        });
        Ok(Self {
            read_lines: (1..=DISTRICTS).map(read_lines).collect::<Result<_>>()?,
            // Every stock exists, it was read: this always updates.
            take_stock: connection.prepare(&format!(
                "INSERT INTO stock (s_key, s_quantity, s_remote_cnt) VALUES {taken}
                 ON CONFLICT DO UPDATE SET
                     s_quantity = s_quantity - excluded.s_quantity
                         + iif(s_quantity - excluded.s_quantity < 10, 91, 0),
                     s_ytd = s_ytd + excluded.s_quantity,
                     s_order_cnt = s_order_cnt + 1,
                     s_remote_cnt = s_remote_cnt + excluded.s_remote_cnt"
            ))?,
            insert_lines: connection.prepare(&format!(
                "INSERT INTO order_line (ol_key, ol_i_id, ol_supply_w_id, ol_delivery_d,
                     ol_quantity, ol_amount, ol_dist_info) VALUES {stored}"
            ))?,
        })
    }
}

impl<'c> Statements<'c> {
    pub(super) fn prepare(connection: &'c Connection, mix: Mix) -> Result<Self> {
        let of_mix = |lines: usize| match mix {
            Mix::Paper => lines == PAPER_ORDER_LINES,
            Mix::Standard => lines as i64 >= ORDER_LINES_MIN,
        };
        let order = |lines: usize| {
            of_mix(lines).then(|| OrderStatements::prepare(connection, lines)).transpose()
        };
        let standard = match mix {
            Mix::Paper => None,
            Mix::Standard => Some(StandardStatements::prepare(connection)?),
        };
        let order = (0..=ORDER_LINES_MAX as usize).map(order).collect::<Result<_>>()?;
        Ok(Self { common: CommonStatements::prepare(connection)?, order, standard })
    }
}

/// Declares statements that are prepared together.
macro_rules! statements {
    ($(#[$what:meta])* $name:ident { $($statement:ident),* }) => {
        $(#[$what])*
        pub(super) struct $name<'c> {
            $(pub(super) $statement: Statement<'c>,)*
        }

        impl<'c> $name<'c> {
            fn prepare(connection: &'c Connection) -> Result<Self> {
                Ok(Self { $($statement: connection.prepare(sql(stringify!($statement)))?,)* })
            }
        }
    };
}

/// The statement of this name.
fn sql(name: &str) -> &'static str {
    let found = sections(include_str!("statements.sql")).find(|(known, _)| *known == name);
    found.expect("each statement is there under its name").1
}

statements! {
    /// Those of both mixes.
    CommonStatements {
        begin, commit, rollback, order_parties, next_order, insert_order, insert_new_order,
        payment_parties, pay_warehouse, pay_district, pay, pay_bad_credit, insert_history
    }
}

statements! {
    /// Those that only the standard mix has.
    StandardStatements {
        customers_named, status_customer, newest_order, status_lines, oldest_new_order,
        delivered_order, delete_new_order, set_carrier, deliver_lines, deliver_customer,
        stock_level
    }
}
