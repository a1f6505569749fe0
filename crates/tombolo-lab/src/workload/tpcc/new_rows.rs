//! How many rows transactions will add, so that memory for them can be taken beforehand.
//!
//! Counted from the inputs of New Orders and Payments. Not here: taking the memory.

use tombolo_storage::schema::DeclaredTable;

use super::input::Input;
use super::schema::{History, NewOrder, OrderLine, Orders};

/// Rows that transactions to come will add.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NewRows {
    orders: usize,
    lines: usize,
    payments: usize,
}

impl NewRows {
    /// Those of `inputs`.
    pub fn of(inputs: &[Input]) -> Self {
        let mut rows = Self::default();
        for input in inputs {
            match input {
                Input::NewOrder(order) => {
                    rows.orders += 1;
                    rows.lines += order.lines().len();
                }
                Input::Payment(_) => rows.payments += 1,
                _ => {}
            }
        }
        rows
    }

    /// How many there are of which table.
    pub fn by_table(self) -> [(&'static str, usize); 4] {
        [
            (Orders::NAME, self.orders),
            (NewOrder::NAME, self.orders),
            (OrderLine::NAME, self.lines),
            (History::NAME, self.payments),
        ]
    }
}
