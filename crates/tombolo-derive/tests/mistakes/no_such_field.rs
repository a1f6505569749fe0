//! An index of a field that is not there.

use tombolo::Table;

#[derive(Table)]
#[index(ByOwner(ownr, id))]
struct Account {
    #[key]
    id: i32,
    owner: String,
}

fn main() {}
