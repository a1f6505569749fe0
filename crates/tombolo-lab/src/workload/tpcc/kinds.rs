//! The kinds of transaction, in the order they are printed.

use crate::workload::Kind;

/// A customer orders.
pub const NEW_ORDER: Kind = Kind::at(0);
/// A customer pays.
pub const PAYMENT: Kind = Kind::at(1);
/// A customer asks for the newest order.
pub const ORDER_STATUS: Kind = Kind::at(2);
/// The oldest order of each district of a warehouse is delivered.
pub const DELIVERY: Kind = Kind::at(3);
/// How many recently sold items run low.
pub const STOCK_LEVEL: Kind = Kind::at(4);

/// Their names in results.
pub const NAMES: [&str; 5] = ["new_order", "payment", "order_status", "delivery", "stock_level"];
