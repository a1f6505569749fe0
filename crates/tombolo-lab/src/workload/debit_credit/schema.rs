//! The three tables and their indexes (TPK-35, TPK-36).
//!
//! A row has the four fields of the paper's Figure 4 and its 128 bytes; what a transaction reads and
//! writes of it lies in front, in one cache line. Ids lead to rows by hash tables, and rows lie in
//! arrays (slabs with free lists), as in the paper. A store without hash tables keeps trees.
//!
//! There is no table of history: the log holds it (see the workload's head).

use tombolo_storage::row::{Column, Fields};
use tombolo_storage::schema::{DeclaredIndex, DeclaredTable, TableDef};
use tombolo_storage::types::{BigInt, Decimal, Integer};
use tombolo_storage::{index, table};

/// An amount of money in cents.
pub type Money = Decimal<16, 2>;

/// The largest balance, in cents.
pub const BALANCE_MAX: i64 = 9_999_999_999_999_999;

/// What holds a balance: the three tables are alike.
pub trait Holder: DeclaredTable + Sized {
    /// Its primary key.
    type Key: for<'k> DeclaredIndex<Table = Self>
        + for<'k> tombolo_storage::key::IndexType<Key<'k> = i32, Shape = ()>;
    /// The id.
    const ID: Column<Self, Integer>;
    /// The password that permits access.
    const CODE: Column<Self, BigInt>;
    /// The balance, in cents.
    const BALANCE: Column<Self, Money>;
    /// What a transaction reads and changes.
    const READ: Fields<Self> = Fields::none().with(Self::ID).with(Self::BALANCE);
    /// What a transaction changes.
    const PAID: Fields<Self> = Fields::none().with(Self::BALANCE);
}

/// Declares a table with its primary key.
macro_rules! holder {
    ($(#[$doc:meta])* $table:ident = $name:literal, $(#[$key_doc:meta])* $key:ident = $key_name:literal) => {
        table! {
            $(#[$doc])*
            pub struct $table = $name {
                ID: Integer [0..=2_147_483_647] => hot;
                CODE: BigInt => hot;
                BALANCE: Decimal<16, 2> => hot;
                FILLER: Char<108>;
            }
        }
        index! {
            $(#[$key_doc])*
            pub struct $key = $key_name on $table (ID: Integer) unique Hash;
        }
        impl Holder for $table {
            type Key = $key;
            const ID: Column<Self, Integer> = Self::ID;
            const CODE: Column<Self, BigInt> = Self::CODE;
            const BALANCE: Column<Self, Money> = Self::BALANCE;
        }
    };
}
holder! {
    /// BRANCH.
    Branch = "branch",
    /// BRANCH's primary key.
    BranchKey = "branch_pk"
}
holder! {
    /// TELLER.
    Teller = "teller",
    /// TELLER's primary key.
    TellerKey = "teller_pk"
}
holder! {
    /// ACCOUNT.
    Account = "account",
    /// ACCOUNT's primary key.
    AccountKey = "account_pk"
}

/// The tables, the small ones first.
#[must_use]
pub fn tables() -> Vec<TableDef> {
    vec![
        TableDef::of::<Branch>().with::<BranchKey>(),
        TableDef::of::<Teller>().with::<TellerKey>(),
        TableDef::of::<Account>().with::<AccountKey>(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_the_papers_size_and_what_is_touched_in_one_line() {
        for table in tables() {
            table.validate().unwrap();
            assert_eq!((table.row_size(), table.columns.len()), (128, 4), "{}", table.name);
        }
        assert!(Account::READ.start() == 0 && Account::READ.end() <= 64);
        assert_eq!(Account::PAID.end() - Account::PAID.start(), 8);
    }
}
