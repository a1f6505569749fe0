//! The one table: a key and ten fields of 100 bytes.
//!
//! # Choices the definition leaves open
//! Keys are numbers in the order of insertion, without the word `user` in front. Every value begins with the key of
//! its record, so that a value in another record's row is noticed.

use tombolo_storage::row::{Column, Fields};
use tombolo_storage::schema::TableDef;
use tombolo_storage::types::Char;
use tombolo_storage::{index, table};

/// Bytes of a field.
pub const FIELD_BYTES: usize = 100;
/// Digits of the key in front of a value.
pub const DIGITS: usize = 10;

/// A value.
pub type Value = [u8; FIELD_BYTES];

table! {
    /// The records.
    pub struct Record = "usertable" {
        KEY: Integer [0..=2_147_483_647] => hot;
        FIELD0: Char<100>;
        FIELD1: Char<100>;
        FIELD2: Char<100>;
        FIELD3: Char<100>;
        FIELD4: Char<100>;
        FIELD5: Char<100>;
        FIELD6: Char<100>;
        FIELD7: Char<100>;
        FIELD8: Char<100>;
        FIELD9: Char<100>;
    }
}
index! {
    /// The primary key; a tree, for scans.
    pub struct RecordKey = "usertable_pk" on Record (KEY: Integer) unique Tree;
}

impl Record {
    /// Its fields.
    pub const FIELDS: [Column<Self, Char<100>>; 10] = [
        Self::FIELD0,
        Self::FIELD1,
        Self::FIELD2,
        Self::FIELD3,
        Self::FIELD4,
        Self::FIELD5,
        Self::FIELD6,
        Self::FIELD7,
        Self::FIELD8,
        Self::FIELD9,
    ];
    /// What an update changes, at most.
    pub const UPDATED: Fields<Self> = Fields::none().with(Self::FIELD9);
}

/// The value that begins with `key`, the rest of which `letters` are.
pub fn value(key: i32, letters: impl FnMut() -> u8) -> Value {
    let mut value = [0; FIELD_BYTES];
    let (front, rest) = value.split_at_mut(DIGITS);
    let mut left = key;
    for digit in front.iter_mut().rev() {
        *digit = b'0' + (left % 10) as u8;
        left /= 10;
    }
    rest.fill_with(letters);
    value
}

/// The tables.
pub fn tables() -> Vec<TableDef> {
    vec![TableDef::of::<Record>().with::<RecordKey>()]
}
