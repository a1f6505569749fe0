//! A field of a type that no column holds.

use tombolo::Table;

#[derive(Table)]
struct Account {
    #[key]
    id: i32,
    owner: u128,
}

fn main() {}
