//! The one table: a key, a counter, and a filler that makes a row 250 bytes long (ISL-19).

use tombolo_storage::row::{Column, Fields, Row, RowBytes, RowMut};
use tombolo_storage::types::Integer;
use tombolo_storage::{index, table};

use crate::workload::labelled::Labelled;

/// Bytes of the filler.
pub const FILLER_BYTES: usize = 238;

table! {
    /// The rows.
    pub struct Item = "item_row" {
        KEY: Integer [0..=2_147_483_647] => hot;
        UPDATES: BigInt => hot;
        FILLER: Char<238>;
    }
}
index! {
    /// The primary key.
    pub struct ItemKey = "item_row_pk" on Item (KEY: Integer) unique Tree;
}

impl Item {
    /// What an update changes.
    pub const UPDATED: Fields<Self> = Fields::none().with(Self::UPDATES);
}

impl Labelled for Item {
    type Key = ItemKey;
    const KEY: Column<Self, Integer> = Self::KEY;
    const TEXT_BYTES: usize = FILLER_BYTES;
    const SPOILT: Fields<Self> = Fields::none().with(Self::FILLER);

    fn fill(row: &mut RowMut<'_, Self>, key: i32, text: &[u8]) {
        row.set(Self::KEY, key);
        row.set(Self::UPDATES, 0);
        row.set(Self::FILLER, text);
    }

    fn texts<P: RowBytes>(row: &Row<Self, P>) -> impl Iterator<Item = &[u8]> {
        std::iter::once(row.get(Self::FILLER))
    }

    fn spoil(row: &mut RowMut<'_, Self>, text: &[u8]) {
        row.set(Self::FILLER, text);
    }
}
