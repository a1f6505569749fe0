//! Schemas drawn at random: every column type, nullable or not, with declared ranges or without,
//! hot or not, added with a default or not; every kind of index.

use tombolo_storage::key::{KeyPart, packed_bits};
use tombolo_storage::schema::{ColumnDef, IndexDef, IndexKind, TableDef};
use tombolo_storage::types::SqlType;

use super::random::Random;

/// What holds an index's entries, as its definition decides it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Form {
    PackedTree,
    ByteTree,
    MultipleTree,
    PackedHash,
    ByteHash,
}

impl Form {
    pub(crate) const ALL: [Self; 5] =
        [Self::PackedTree, Self::ByteTree, Self::MultipleTree, Self::PackedHash, Self::ByteHash];

    pub(crate) fn of(table: &TableDef, index: &IndexDef) -> Self {
        let parts: Vec<_> =
            index.columns.iter().map(|&column| KeyPart::of(&table.columns[column])).collect();
        match (index.kind, index.unique, packed_bits(&parts).is_some()) {
            (IndexKind::Tree, true, true) => Self::PackedTree,
            (IndexKind::Tree, true, false) => Self::ByteTree,
            (IndexKind::Tree, false, _) => Self::MultipleTree,
            (IndexKind::Hash, _, true) => Self::PackedHash,
            (IndexKind::Hash, _, false) => Self::ByteHash,
        }
    }
}

/// A table called `name`, of up to ten columns and five indexes.
pub(crate) fn table(random: &mut Random, name: &str) -> TableDef {
    let columns = (0..=random.below(10)).map(|i| column(random, format!("c{i}"))).collect();
    let mut table = TableDef { name: name.to_owned().into(), columns, indexes: Vec::new() };
    if table.columns.len().is_multiple_of(2) {
        give_defaults(&mut table.columns);
    }
    for i in 0..random.below(6) {
        let columns = index_columns(random, &table);
        let kind = if random.percent(30) { IndexKind::Hash } else { IndexKind::Tree };
        let unique = kind == IndexKind::Hash || random.percent(60);
        table.indexes.push(IndexDef { name: format!("{name}_i{i}").into(), columns, unique, kind });
    }
    table
}

/// Makes columns at the end added ones with a default, as far as they are of whole numbers.
fn give_defaults(columns: &mut [ColumnDef]) {
    for (number, column) in columns[1..].iter_mut().enumerate().rev() {
        let Some((low, high)) = column.range.or(column.sql.integer_range()) else { return };
        let default = [low, high, low.midpoint(high), 1.clamp(low, high)][number % 4];
        *column = ColumnDef { hot: false, ..column.clone() }.or(default);
    }
}

/// Up to six different columns; half of the time only such as pack.
fn index_columns(random: &mut Random, table: &TableDef) -> Vec<usize> {
    let mut candidates: Vec<usize> = (0..table.columns.len()).collect();
    if random.percent(50) {
        let packs = |&column: &usize| packed_bits(&[KeyPart::of(&table.columns[column])]).is_some();
        let packing: Vec<usize> = candidates.iter().copied().filter(packs).collect();
        if !packing.is_empty() {
            candidates = packing;
        }
    }
    let wanted = 1 + random.below(6) as usize;
    let mut columns = Vec::new();
    while columns.len() < wanted && !candidates.is_empty() {
        columns.push(candidates.swap_remove(random.below(candidates.len() as u64) as usize));
    }
    columns
}

fn column(random: &mut Random, name: String) -> ColumnDef {
    let sql = sql_type(random);
    ColumnDef {
        name: name.into(),
        sql,
        nullable: random.percent(35),
        range: if random.percent(60) { range(random, sql) } else { None },
        hot: random.percent(30),
        added: false,
        default: None,
    }
}

fn sql_type(random: &mut Random) -> SqlType {
    let precision = 1 + random.below(38) as u8;
    let bytes = *random.pick(&[1, 2, 3, 8, 20, 255, 256, 300]);
    let types = [
        SqlType::Boolean,
        SqlType::SmallInt,
        SqlType::SmallInt,
        SqlType::Integer,
        SqlType::Integer,
        SqlType::BigInt,
        SqlType::Double,
        SqlType::Decimal { precision, scale: random.below(precision as u64 + 1) as u8 },
        SqlType::Decimal { precision: precision % 18 + 1, scale: 0 },
        SqlType::Char(bytes),
        SqlType::Varchar(bytes),
        SqlType::Text,
        SqlType::Bytes,
        SqlType::Date,
        SqlType::Timestamp,
        SqlType::Uuid,
    ];
    *random.pick(&types)
}

/// A range within the type's own: one value, few or many, around zero, at either end, or all.
fn range(random: &mut Random, sql: SqlType) -> Option<(i64, i64)> {
    let (least, most) = sql.integer_range()?;
    let span = *random.pick(&[0, 1, 7, 8, 30, 255, 256, 1 << 20]);
    let low = *random.pick(&[0, 1, -1, -5, -1_000, least, most.saturating_sub(span)]);
    if random.below(8) == 0 {
        return Some((least, most));
    }
    let low = low.clamp(least, most);
    Some((low, low.saturating_add(span).min(most)))
}
