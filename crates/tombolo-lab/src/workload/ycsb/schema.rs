//! The one table: a key and ten fields of 100 bytes.
//!
//! # Choices the definition leaves open
//! Keys are numbers in the order of insertion, without the word `user` in front. Every value begins with the key of
//! its record, so that a value in another record's row is noticed.

use tombolo_storage::row::{Column, Fields, Row, RowBytes, RowMut};
use tombolo_storage::types::{Char, Integer};
use tombolo_storage::{index, table};

use crate::workload::labelled::{Labelled, write_text};

/// Bytes of a field.
pub const FIELD_BYTES: usize = 100;

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
    write_text(&mut value, key, letters);
    value
}

impl Labelled for Record {
    type Key = RecordKey;
    const KEY: Column<Self, Integer> = Self::KEY;
    const TEXT_BYTES: usize = FIELD_BYTES;
    const SPOILT: Fields<Self> = Fields::none().with(Self::FIELD0);

    fn fill(row: &mut RowMut<'_, Self>, key: i32, text: &[u8]) {
        row.set(Self::KEY, key);
        for field in Self::FIELDS {
            row.set(field, text);
        }
    }

    fn texts<P: RowBytes>(row: &Row<Self, P>) -> impl Iterator<Item = &[u8]> {
        Self::FIELDS.into_iter().map(|field| row.get(field))
    }

    fn spoil(row: &mut RowMut<'_, Self>, text: &[u8]) {
        row.set(Self::FIELD0, text);
    }
}
