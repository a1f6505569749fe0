//! Schemas: tables, columns and indexes described at run time.
//!
//! A [`Schema`] is data: SQL, dumps, checks and recovery work from it alone. A table that
//! procedures use is also declared in Rust ([`DeclaredTable`], [`DeclaredIndex`]); a store hands out
//! a handle for such a type only when its own definition is the same.

mod declared;
mod layout;

use std::borrow::Cow;

use crate::error::SchemaError;
use crate::types::{ColumnType, INLINE_BYTES_MAX, SqlType};

#[doc(hidden)]
pub use declared::ascii_lower;
pub use declared::{DeclaredIndex, DeclaredTable};
pub use layout::{column_offset, presence_bit, row_size};

/// One column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnDef {
    /// Its name, lower case; empty for a dropped column, whose place in the rows stays.
    pub name: Cow<'static, str>,
    /// Its type.
    pub sql: SqlType,
    /// Whether it may hold null.
    pub nullable: bool,
    /// Smallest and largest value, for whole-number types; narrow ranges make narrow index keys.
    pub range: Option<(i64, i64)>,
    /// Whether it is laid out in front, with the other columns that transactions touch.
    pub hot: bool,
    /// Whether it was added to a table that had rows: it lies behind all columns before it, so that
    /// they stay where they are, and is null or its default in rows that were made without it.
    pub added: bool,
    /// Of an added column of a whole-number type: its value in rows that were made without it, in units of its type.
    /// Without a default these rows have null if the column may be null, else zero.
    pub default: Option<i64>,
}

impl ColumnDef {
    /// A column of type `T` with the range of its type, not hot.
    pub const fn of<T: ColumnType>(name: &'static str) -> Self {
        Self {
            name: Cow::Borrowed(if T::DROPPED { "" } else { name }),
            sql: T::SQL,
            nullable: T::NULLABLE,
            range: if T::DROPPED { None } else { T::RANGE },
            hot: false,
            added: false,
            default: None,
        }
    }

    /// Whether it was dropped.
    pub const fn is_dropped(&self) -> bool {
        match &self.name {
            Cow::Borrowed(name) => name.is_empty(),
            Cow::Owned(name) => name.is_empty(),
        }
    }

    /// What stays of it after it was dropped: the fields that determine where columns lie in the rows.
    fn dropped(&self) -> Self {
        Self { name: Cow::Borrowed(""), range: None, default: None, ..self.clone() }
    }

    /// The same column, with values from `low` to `high`.
    pub const fn within(mut self, low: i64, high: i64) -> Self {
        if !self.is_dropped() {
            self.range = Some((low, high));
        }
        self
    }

    /// The same column, hot.
    pub const fn hot(mut self) -> Self {
        self.hot = true;
        self
    }

    /// The same column, added to a table that had rows without it. It comes behind all others. In these
    /// rows it is null if it may be, else zero: 0, `false`, the empty text, the first day of 2000.
    pub const fn added(mut self) -> Self {
        self.added = true;
        self
    }

    /// The same column, added to a table that had rows without it, in which it is `default`: a whole number
    /// of its unit (of a decimal's last digit, of days or microseconds since 2000; 1 for `true`).
    pub const fn or(mut self, default: i64) -> Self {
        if !self.is_dropped() {
            self.default = Some(default);
        }
        self.added()
    }

    /// The bits that stored values are exclusive-ored with. So zeros, which rows made without the column
    /// hold, are its default.
    pub(crate) const fn default_bits(&self) -> i64 {
        match self.default {
            Some(default) => default,
            None => 0,
        }
    }

    /// Whether its presence bit is set where it is null: then zeros are not null, but its default.
    pub(crate) const fn marks_null(&self) -> bool {
        self.nullable && self.default.is_some()
    }

    /// Why rows that were made without it cannot have it, if so.
    fn refuses_rows(&self) -> Option<&'static str> {
        if let Some(default) = self.default {
            let (least, most) = match self.range.or(self.sql.integer_range()) {
                Some(range) if self.added => range,
                _ => return Some("a default is of an added column that holds whole numbers"),
            };
            let is_held = least <= default && default <= most;
            return if is_held { None } else { Some("a column's range holds its default") };
        }
        if self.nullable || self.is_dropped() {
            return None;
        }
        match self.sql {
            SqlType::Char(_) => Some("a char that was added may be null: it has no default"),
            _ if self.range.is_some_and(|(low, high)| low > 0 || high < 0) => {
                Some("a column that was added may be null, or has a default, or its range holds 0")
            }
            _ => None,
        }
    }
}

/// The kind of structure that finds a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexKind {
    /// A B+tree: equality, ranges and prefixes, in key order.
    Tree,
    /// A hash table: equality only; always unique.
    Hash,
}

/// One index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexDef {
    /// Its name, unique in the schema.
    pub name: Cow<'static, str>,
    /// Positions of its columns in the table, most significant first.
    pub columns: Vec<usize>,
    /// Whether a key may occur once only (nulls count as equal).
    pub unique: bool,
    /// Tree or hash.
    pub kind: IndexKind,
}

/// One table with its indexes; the first index is the primary key, if there is any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableDef {
    /// Its name, unique in the schema.
    pub name: Cow<'static, str>,
    /// Its columns in schema order.
    pub columns: Vec<ColumnDef>,
    /// Its indexes.
    pub indexes: Vec<IndexDef>,
}

/// The largest row's fixed part, in bytes.
pub const ROW_BYTES_MAX: usize = 32 * 1024;

impl TableDef {
    /// What stays at the position of a dropped table: a table without name and columns.
    pub fn dropped() -> Self {
        Self { name: Cow::Borrowed(""), columns: Vec::new(), indexes: Vec::new() }
    }

    /// Whether it stands for a table that was dropped.
    pub fn is_dropped(&self) -> bool {
        self.columns.is_empty()
    }

    /// Whether this is `earlier`, perhaps with additions since.
    pub fn extends(&self, earlier: &Self) -> bool {
        self.name == earlier.name
            && self.columns.starts_with(&earlier.columns)
            && self.columns[earlier.columns.len()..].iter().all(|column| column.added)
            && self.indexes.starts_with(&earlier.indexes)
    }

    /// Position of the column called `name`.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name && !column.is_dropped())
    }

    /// Position of the column that lies at `offset` of a row; 0 where none does.
    pub(crate) fn column_at(&self, offset: usize) -> usize {
        let columns = &self.columns;
        (0..columns.len()).find(|&at| column_offset(columns, at) == offset).unwrap_or(0)
    }

    /// Bytes of a row's fixed part.
    pub fn row_size(&self) -> usize {
        row_size(&self.columns)
    }

    /// Bytes of the values alone, each column at full width.
    pub fn raw_row_bytes(&self) -> usize {
        self.columns.iter().map(|column| column.sql.width()).sum()
    }

    /// Bytes of the values of an index's columns.
    pub fn raw_key_bytes(&self, index: &IndexDef) -> usize {
        index.columns.iter().map(|&column| self.columns[column].sql.width()).sum()
    }

    /// Whether names and lists are short enough for the file formats.
    fn has_short_lists(&self) -> bool {
        const MAX: usize = u16::MAX as usize;
        let index_fits = |index: &IndexDef| index.name.len() <= MAX && index.columns.len() <= MAX;
        self.name.len() <= MAX
            && self.columns.len() <= MAX
            && self.columns.iter().all(|column| column.name.len() <= MAX)
            && self.indexes.len() <= MAX
            && self.indexes.iter().all(index_fits)
    }

    /// Refuses definitions no store can hold.
    pub fn validate(&self) -> Result<(), SchemaError> {
        let refuse = |what| Err(SchemaError::new(&self.name, what));
        if self.columns.iter().all(|column| column.added) {
            return refuse("a table needs at least one column that was not added");
        }
        if self.row_size() > ROW_BYTES_MAX {
            return refuse("the row is too wide: use text for its long columns");
        }
        if !self.has_short_lists() {
            return refuse("a name has at most 65,535 bytes, a list at most as many entries");
        }
        for (position, column) in self.columns.iter().enumerate() {
            if !column.is_dropped() && self.column(&column.name) != Some(position) {
                return refuse("two columns have the same name");
            }
            if (column.added || column.default.is_some())
                && let Some(what) = column.refuses_rows()
            {
                return refuse(what);
            }
            if column.added && column.hot {
                return refuse("a column that was added is not hot: the others stay in place");
            }
            if !column.added && self.columns[..position].iter().any(|before| before.added) {
                return refuse("columns that were added come behind all others");
            }
            match column.sql {
                SqlType::Decimal { precision, scale }
                    if precision == 0 || precision > 38 || scale > precision =>
                {
                    return refuse(
                        "a decimal has 1 to 38 digits and at most as many behind the point",
                    );
                }
                SqlType::Char(n) | SqlType::Varchar(n) if n == 0 || n > INLINE_BYTES_MAX => {
                    return refuse("char and varchar hold 1 to 2000 bytes: use text for more");
                }
                _ => {}
            }
            if let Some((low, high)) = column.range {
                match column.sql.integer_range() {
                    Some((least, most)) if least <= low && low <= high && high <= most => {}
                    _ => return refuse("a column's range does not fit its type"),
                }
            }
        }
        for index in &self.indexes {
            let is_there = |&c: &usize| self.columns.get(c).is_some_and(|own| !own.is_dropped());
            if index.columns.is_empty() || !index.columns.iter().all(is_there) {
                return refuse("an index names no column, or one that does not exist");
            }
            if index.kind == IndexKind::Hash && !index.unique {
                return refuse("a hash index is unique");
            }
        }
        Ok(())
    }
}

/// All tables of a database. Two are equal when their tables are.
#[derive(Clone, Debug, Default)]
pub struct Schema {
    /// The tables, in the order they were created; one that was dropped leaves its position
    /// ([`TableDef::is_dropped`]).
    pub tables: Vec<TableDef>,
    /// By table, the positions of its indexes among all: in the order they were made, so that one
    /// that is added or dropped leaves the others where they are.
    positions: Vec<Vec<usize>>,
    /// The position of the next index.
    next_index: usize,
    /// How many changes of it a log has recorded.
    changes: u32,
    /// The database it belongs to: handles are resolved for one database; 0 where nothing asks.
    database: u32,
}

impl PartialEq for Schema {
    fn eq(&self, other: &Self) -> bool {
        self.tables == other.tables
    }
}

impl Eq for Schema {}

impl Schema {
    /// The same as that of database number `database`: what is resolved from it is for that one.
    #[must_use]
    pub fn of_database(mut self, database: u32) -> Self {
        self.database = database;
        self
    }

    /// The number of the database it belongs to, 0 if it was given none.
    pub const fn database(&self) -> u32 {
        self.database
    }

    /// Position of a table's index number `index` among all indexes.
    ///
    /// # Panics
    /// When there is none.
    pub fn index_position(&self, table: usize, index: usize) -> usize {
        self.positions[table][index]
    }

    /// The table, and in it the number, of the index at `position` among all.
    pub fn index_at(&self, position: usize) -> Option<(usize, usize)> {
        self.positions.iter().enumerate().find_map(|(table, indexes)| {
            indexes.iter().position(|&own| own == position).map(|index| (table, index))
        })
    }

    /// The columns of the index at `position` among all, in their table; none where there is none.
    pub(crate) fn key_columns(&self, position: usize) -> &[usize] {
        let place = self.index_at(position);
        place.map_or(&[], |(table, index)| &self.tables[table].indexes[index].columns)
    }

    /// How many indexes there are.
    pub fn indexes(&self) -> usize {
        self.positions.iter().map(Vec::len).sum()
    }

    /// How many changes of it were recorded by a log and by the image that the log follows.
    pub(crate) const fn changes(&self) -> u32 {
        self.changes
    }

    /// The number of the change that was just made.
    pub(crate) fn count_change(&mut self) -> u32 {
        self.changes += 1;
        self.changes - 1
    }

    /// The schema that an image holds, after so many changes.
    pub(crate) fn of_image(tables: Vec<TableDef>, changes: u32) -> Result<Self, SchemaError> {
        let mut schema = Self { changes, ..Self::default() };
        for table in tables {
            if !table.is_dropped() {
                schema.add(table)?;
                continue;
            }
            schema.tables.push(table);
            schema.positions.push(Vec::new());
        }
        Ok(schema)
    }

    /// Position of the table called `name`.
    pub fn table(&self, name: &str) -> Option<usize> {
        self.tables.iter().position(|table| table.name == name && !table.is_dropped())
    }

    /// The tables that were not dropped, with their positions.
    pub fn live_tables(&self) -> impl Iterator<Item = (usize, &TableDef)> {
        self.tables.iter().enumerate().filter(|(_, table)| !table.is_dropped())
    }

    /// Positions of the table and, in it, the index called `name`.
    pub fn index(&self, name: &str) -> Option<(usize, usize)> {
        self.tables.iter().enumerate().find_map(|(t, table)| {
            table.indexes.iter().position(|index| index.name == name).map(|i| (t, i))
        })
    }

    /// Adds `table`.
    ///
    /// # Errors
    /// When a name is taken or the definition is not valid.
    pub fn add(&mut self, table: TableDef) -> Result<usize, SchemaError> {
        table.validate()?;
        let taken = |name| SchemaError::new(name, "a table or index of this name exists already");
        if self.table(&table.name).is_some() {
            return Err(taken(&table.name));
        }
        for (position, index) in table.indexes.iter().enumerate() {
            let twice = table.indexes[..position].iter().any(|other| other.name == index.name);
            if twice || self.index(&index.name).is_some() {
                return Err(taken(&index.name));
            }
        }
        let first = self.next_index;
        self.next_index += table.indexes.len();
        self.positions.push((first..self.next_index).collect());
        self.tables.push(table);
        Ok(self.tables.len() - 1)
    }

    /// Adds a column to the table at position `table`, as its last; returns its position there.
    ///
    /// # Errors
    /// When its name is taken or the definition is not valid.
    ///
    /// # Panics
    /// When there is no such table.
    pub fn add_column(&mut self, table: usize, column: ColumnDef) -> Result<usize, SchemaError> {
        let mut with = self.tables[table].clone();
        with.columns.push(column.added());
        with.validate()?;
        self.tables[table] = with;
        Ok(self.tables[table].columns.len() - 1)
    }

    /// Adds an index to the table at position `table`; returns its position among all indexes.
    ///
    /// # Errors
    /// When its name is taken or the definition is not valid.
    ///
    /// # Panics
    /// When there is no such table.
    pub fn add_index(&mut self, table: usize, index: IndexDef) -> Result<usize, SchemaError> {
        if self.index(&index.name).is_some() {
            let what = "an index of this name exists already";
            return Err(SchemaError::new(&index.name, what));
        }
        let mut with = self.tables[table].clone();
        with.indexes.push(index);
        with.validate()?;
        let position = self.next_index;
        self.next_index += 1;
        self.tables[table] = with;
        self.positions[table].push(position);
        Ok(position)
    }

    /// Forgets the table at position `table`. The positions of its indexes among all are not used
    /// again.
    ///
    /// # Panics
    /// When there is no such table.
    pub(crate) fn drop_table(&mut self, table: usize) {
        self.tables[table] = TableDef::dropped();
        self.positions[table].clear();
    }

    /// Forgets a column of a table; its place in the rows stays.
    ///
    /// # Panics
    /// When there is none.
    pub(crate) fn drop_column(&mut self, table: usize, column: usize) {
        let columns = &mut self.tables[table].columns;
        columns[column] = columns[column].dropped();
    }

    /// Forgets a table's index number `index`. Its position among all is not used again.
    ///
    /// # Panics
    /// When there is none.
    pub(crate) fn drop_index(&mut self, table: usize, index: usize) {
        self.tables[table].indexes.remove(index);
        self.positions[table].remove(index);
    }

    /// Reuses the positions of dropped indexes; only while no handles of them exist.
    pub(crate) fn close_gaps(&mut self) {
        let mut places: Vec<&mut usize> = self.positions.iter_mut().flatten().collect();
        places.sort_unstable();
        self.next_index = places.len();
        places.into_iter().zip(0..).for_each(|(place, position)| *place = position);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(name: &'static str, columns: &[(&'static str, SqlType)]) -> TableDef {
        let column = |&(name, sql): &(&'static str, SqlType)| ColumnDef {
            name: name.into(),
            sql,
            nullable: false,
            range: None,
            hot: false,
            added: false,
            default: None,
        };
        let columns = columns.iter().map(column).collect();
        TableDef { name: name.into(), columns, indexes: Vec::new() }
    }

    fn index(name: &'static str, columns: &[usize], unique: bool, kind: IndexKind) -> IndexDef {
        IndexDef { name: name.into(), columns: columns.to_vec(), unique, kind }
    }

    #[test]
    fn definitions_no_store_can_hold_are_refused() {
        let refused = |def: &TableDef, what: &str| {
            let error = def.validate().unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
        };
        let one = |sql| table("t", &[("a", sql)]);
        refused(&table("t", &[]), "at least one column");
        let mut long = table("t", &[("a", SqlType::Text)]);
        long.name = "t".repeat(65_536).into();
        refused(&long, "at most 65,535 bytes");
        refused(&table("t", &[("a", SqlType::Text), ("a", SqlType::Text)]), "same name");
        for (precision, scale) in [(0, 0), (39, 0), (5, 6)] {
            refused(&one(SqlType::Decimal { precision, scale }), "1 to 38 digits");
        }
        for n in [0, INLINE_BYTES_MAX + 1] {
            refused(&one(SqlType::Char(n)), "1 to 2000 bytes");
            refused(&one(SqlType::Varchar(n)), "1 to 2000 bytes");
        }
        let names: Vec<&'static str> = (0..17).map(|i| &"abcdefghijklmnopq"[i..=i]).collect();
        let wide: Vec<_> = names.iter().map(|name| (*name, SqlType::Char(2_000))).collect();
        refused(&table("t", &wide), "too wide");
        assert_eq!(table("t", &wide[..16]).validate(), Ok(()));

        let decimal = |precision| SqlType::Decimal { precision, scale: 0 };
        for (sql, range) in [
            (SqlType::SmallInt, (0, 32_768)),
            (SqlType::Integer, (5, 4)),
            (SqlType::Date, (i64::MIN, 0)),
            (decimal(2), (-100, 0)),
            (decimal(19), (0, 1)),
            (SqlType::Text, (0, 1)),
            (SqlType::Double, (0, 1)),
        ] {
            let mut def = one(sql);
            def.columns[0].range = Some(range);
            refused(&def, "range does not fit");
        }
        let mut def = one(SqlType::Integer);
        def.columns[0].default = Some(1);
        refused(&def, "a default is of an added column");
        def.columns.push(ColumnDef { name: "b".into(), ..def.columns[0].clone() }.or(1 << 31));
        def.columns[0].default = None;
        refused(&def, "range holds its default");
        def.columns[1].default = Some(1 << 30);
        assert_eq!(def.validate(), Ok(()));

        for columns in [&[][..], &[1], &[0, 7]] {
            let mut def = one(SqlType::Integer);
            def.indexes.push(index("i", columns, true, IndexKind::Tree));
            refused(&def, "names no column");
        }
        let mut def = one(SqlType::Integer);
        def.indexes.push(index("i", &[0], false, IndexKind::Hash));
        refused(&def, "hash index is unique");
    }

    #[test]
    fn names_are_taken_once() {
        let mut first = table("first", &[("a", SqlType::Integer)]);
        first.indexes.push(index("first_pk", &[0], true, IndexKind::Tree));
        let mut schema = Schema::default();
        assert_eq!(schema.add(first.clone()), Ok(0));
        assert!(schema.add(first.clone()).is_err());
        let mut second = first.clone();
        second.name = "second".into();
        assert!(schema.add(second.clone()).is_err(), "the index's name is taken");
        second.indexes[0].name = "second_pk".into();
        second.indexes.push(second.indexes[0].clone());
        assert!(schema.add(second.clone()).is_err(), "the index is there twice");
        second.indexes.pop();
        assert_eq!(schema.add(second), Ok(1));
        assert_eq!(schema.tables.len(), 2);
        assert_eq!((schema.table("second"), schema.index("second_pk")), (Some(1), Some((1, 0))));
        assert_eq!((schema.table("third"), schema.index("third_pk")), (None, None));
    }
}
