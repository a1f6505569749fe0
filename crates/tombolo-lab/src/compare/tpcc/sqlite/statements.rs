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

use super::schema::LINE_BITS;
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
    ($(#[$what:meta])* $name:ident { $($statement:ident: $sql:expr,)* }) => {
        $(#[$what])*
        pub(super) struct $name<'c> {
            $(pub(super) $statement: Statement<'c>,)*
        }

        impl<'c> $name<'c> {
            fn prepare(connection: &'c Connection) -> Result<Self> {
                Ok(Self { $($statement: connection.prepare($sql)?,)* })
            }
        }
    };
}

/// What a payment changes of its customer.
const PAY: &str = "UPDATE customer SET c_balance = c_balance - ?2,
     c_ytd_payment = c_ytd_payment + ?2, c_payment_cnt = c_payment_cnt + 1";

statements! {
    /// Those of both mixes.
    CommonStatements {
        begin: "BEGIN",
        commit: "COMMIT",
        rollback: "ROLLBACK",
        order_parties:
            "SELECT d_next_o_id, d_tax, w_tax, c_discount, c_last, c_credit
             FROM district CROSS JOIN warehouse CROSS JOIN customer
             WHERE d_key = ?1 AND w_id = ?2 AND c_key = ?3",
        next_order: "UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_key = ?1",
        insert_order:
            "INSERT INTO orders (o_key, o_c_id, o_entry_d, o_ol_cnt, o_all_local)
             VALUES (?1, ?2, ?3, ?4, ?5)",
        insert_new_order: "INSERT INTO new_order (no_key) VALUES (?1)",
        payment_parties:
            "SELECT w_name, d_name, c_last, c_credit, c_credit_lim, c_discount, c_balance
             FROM warehouse CROSS JOIN district CROSS JOIN customer
             WHERE w_id = ?1 AND d_key = ?2 AND c_key = ?3",
        pay_warehouse: "UPDATE warehouse SET w_ytd = w_ytd + ?2 WHERE w_id = ?1",
        pay_district: "UPDATE district SET d_ytd = d_ytd + ?2 WHERE d_key = ?1",
        pay: &format!("{PAY} WHERE c_key = ?1"),
        pay_bad_credit: &format!(
            "{PAY}, c_data = substr(?3 || c_data, 1, 500) WHERE c_key = ?1"
        ),
        insert_history: "INSERT INTO history VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    }
}

statements! {
    /// Those that only the standard mix has.
    StandardStatements {
        customers_named:
            "SELECT c_key FROM customer INDEXED BY customer_by_name
             WHERE c_w_id = ?1 AND c_d_id = ?2 AND c_last = ?3 ORDER BY c_first",
        status_customer: "SELECT c_first, c_middle, c_last, c_balance FROM customer WHERE c_key = ?1",
        newest_order:
            "SELECT o_key, o_entry_d, o_carrier_id
             FROM orders INDEXED BY orders_by_customer
             WHERE o_w_id = ?1 AND o_d_id = ?2 AND o_c_id = ?3 ORDER BY o_key DESC LIMIT 1",
        status_lines:
            "SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d
             FROM order_line WHERE ol_key BETWEEN ?1 AND ?2",
        oldest_new_order: "SELECT min(no_key) FROM new_order WHERE no_key BETWEEN ?1 AND ?2",
        delivered_order:
            "SELECT o_c_id, (SELECT sum(ol_amount) FROM order_line WHERE ol_key BETWEEN ?2 AND ?3)
             FROM orders WHERE o_key = ?1",
        delete_new_order: "DELETE FROM new_order WHERE no_key = ?1",
        set_carrier: "UPDATE orders SET o_carrier_id = ?2 WHERE o_key = ?1",
        deliver_lines: "UPDATE order_line SET ol_delivery_d = ?3 WHERE ol_key BETWEEN ?1 AND ?2",
        deliver_customer:
            "UPDATE customer SET c_balance = c_balance + ?2,
                 c_delivery_cnt = c_delivery_cnt + 1 WHERE c_key = ?1",
        stock_level: &format!(
            "SELECT count(DISTINCT s_key)
             FROM district CROSS JOIN order_line CROSS JOIN stock
             WHERE d_key = ?1
               AND ol_key BETWEEN (?2 + d_next_o_id - 20) << {LINE_BITS}
                              AND ((?2 + d_next_o_id) << {LINE_BITS}) - 1
               AND s_key = ?3 + ol_i_id AND s_quantity < ?4"
        ),
    }
}
