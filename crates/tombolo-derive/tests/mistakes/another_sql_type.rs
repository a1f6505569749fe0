//! A field that does not hold what its column does.

use tombolo::Table;

#[derive(Table)]
struct Account {
    #[key]
    id: i32,
    #[column(sql = Decimal<12, 2>)]
    balance: i32,
}

fn main() {}
