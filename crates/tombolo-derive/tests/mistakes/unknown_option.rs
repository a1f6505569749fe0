//! An option that a column does not have.

use tombolo::Table;

#[derive(Table)]
struct Account {
    #[key]
    id: i32,
    #[column(rang = 0..=9)]
    size: i16,
}

fn main() {}
