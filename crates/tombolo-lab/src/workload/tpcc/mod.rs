//! TPC-C (specification revision 5): a wholesale supplier's order entry, and the variant of it that
//! *OLTP Through the Looking Glass* measures (LG-29 … LG-36).
//!
//! # Map
//! [`schema`] declares the nine tables; [`load`] generates the initial database, [`loader`] stores it; [`input`]
//! generates transaction inputs, [`arguments`] makes bytes of the paper's two; [`nurand`] is the specification's
//! skewed random number with its constants of a run; [`text`] holds and generates the strings.
//!
//! # Invariants
//! Every value that ends in a row is a function of the seed and of a transaction's input: nothing
//! here reads a clock, and all randomness comes from the seeded door `tombolo_engine::rng`.

pub mod arguments;
mod by_number;
pub mod checks;
mod handles;
pub mod input;
pub mod islands;
pub mod kinds;
pub mod load;
pub mod loader;
pub mod new_rows;
pub mod nurand;
pub mod rows;
pub mod schema;
pub mod settings;
pub mod tamper;
pub mod text;
pub mod transactions;
mod workload;

use tombolo_engine::rng::Rng;

#[cfg(test)]
mod held_tests;
#[cfg(test)]
mod store_tests;

/// Districts of a warehouse.
pub const DISTRICTS: i16 = 10;
/// Customers of a district.
pub const CUSTOMERS: i32 = 3_000;
/// Orders of a district in the initial database, one of each customer.
pub const ORDERS: i32 = 3_000;
/// The first order of a district that is not yet delivered in the initial database.
pub const FIRST_UNDELIVERED_ORDER: i32 = 2_101;
/// Items, and stock rows of each warehouse.
pub const ITEMS: i32 = 100_000;
/// The parts in which a warehouse's stock is generated.
pub const STOCK_PARTS: i32 = 10;
/// The fewest lines of an order.
pub const ORDER_LINES_MIN: i64 = 5;
/// The most lines of an order.
pub const ORDER_LINES_MAX: i64 = 15;

/// Microseconds of a millisecond: times in rows advance in whole milliseconds.
pub const MILLISECOND: i64 = 1_000;
/// Microseconds of a day. The initial database is dated 2000-01-01, the first transaction starts
/// the day after.
pub const DAY: i64 = 86_400_000 * MILLISECOND;

/// An amount of money in cents, the unit of every N(p, 2) column.
#[must_use]
pub const fn money(whole: i64, cents: i64) -> i64 {
    whole * 100 + cents
}

/// What a random stream is for: the first part of its path, so that no two uses share numbers.
///
/// The discriminants are part of every generated database: add, never renumber.
#[derive(Clone, Copy)]
enum Stream {
    Warehouse = 1,
    District = 2,
    Customer = 3,
    History = 4,
    Order = 5,
    OrderLine = 6,
    Item = 7,
    Stock = 8,
    Constants = 9,
    Input = 10,
}

impl Stream {
    /// The generator of the part at `path` of what this stream is for.
    fn rng<const N: usize>(self, seed: u64, path: [i32; N]) -> Rng {
        let mut full = [self as u64; 4];
        let (_, rest) = full.split_at_mut(1);
        for (to, from) in rest.iter_mut().zip(path) {
            *to = u64::from(from.unsigned_abs());
        }
        Rng::stream(seed, &full[..=N])
    }
}
