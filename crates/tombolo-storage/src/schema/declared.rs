//! Tables and indexes declared in Rust: what [`table!`](crate::table) and [`index!`](crate::index)
//! make, a type per table and index whose columns have constant offsets.
//!
//! Not here: definitions as data, which a declaration is compared with ([`super::TableDef`]), and the
//! library's `#[derive(Table)]`, which writes these declarations.

use std::borrow::Cow;

use super::{ColumnDef, IndexDef, IndexKind, TableDef, row_size};
use crate::key::{Encoding, Fit, IndexType, KeyColumns, KeyPart};

/// A table declared in Rust by [`table!`](crate::table).
pub trait DeclaredTable: 'static {
    /// The table's name.
    const NAME: &'static str;
    /// Its columns.
    const COLUMNS: &'static [ColumnDef];
    /// Bytes of a row's fixed part.
    const SIZE: usize = row_size(Self::COLUMNS);
}

/// An index declared in Rust by [`index!`](crate::index).
pub trait DeclaredIndex: 'static {
    /// The table it belongs to.
    type Table: DeclaredTable;
    /// The types of its columns, as a tuple.
    type Columns: KeyColumns;
    /// The index's name.
    const NAME: &'static str;
    /// Its columns' positions in the table.
    const COLUMNS: &'static [usize];
    /// How each column enters the key.
    const PARTS: &'static [KeyPart];
    /// Whether a key may occur once only.
    const UNIQUE: bool;
    /// Tree or hash.
    const KIND: IndexKind;
}

impl IndexDef {
    /// The definition a declared index states.
    pub fn of<I: DeclaredIndex>() -> Self {
        Self {
            name: Cow::Borrowed(I::NAME),
            columns: I::COLUMNS.to_vec(),
            unique: I::UNIQUE,
            kind: I::KIND,
        }
    }
}

impl TableDef {
    /// The definition a declared table states, without indexes.
    pub fn of<R: DeclaredTable>() -> Self {
        Self { name: Cow::Borrowed(R::NAME), columns: R::COLUMNS.to_vec(), indexes: Vec::new() }
    }

    /// The same table with the declared index `I`.
    pub fn with<I: DeclaredIndex>(mut self) -> Self {
        self.indexes.push(IndexDef::of::<I>());
        self
    }
}

impl<I: DeclaredIndex> IndexType for I {
    type Key<'a> = <I::Columns as KeyColumns>::Values<'a>;
    type Shape = ();

    fn name((): &()) -> &str {
        I::NAME
    }
    #[inline(always)]
    fn parts((): &()) -> &[KeyPart] {
        I::PARTS
    }
    #[inline(always)]
    fn unique((): &()) -> bool {
        I::UNIQUE
    }
    #[inline(always)]
    fn pack((): &(), key: Self::Key<'_>) -> Option<u64> {
        I::Columns::pack(key, I::PARTS)
    }
    #[inline]
    fn position((): &(), key: Self::Key<'_>, columns: usize, after: bool) -> u128 {
        I::Columns::position(key, I::PARTS, columns, after)
    }
    #[inline]
    fn encode_as<E: Encoding>(
        (): &(),
        key: Self::Key<'_>,
        columns: usize,
        out: &mut Vec<u8>,
    ) -> Fit {
        I::Columns::encode::<E>(key, columns, out)
    }
}

/// Lower-case copy of an ASCII name, for [`table!`](crate::table).
#[doc(hidden)]
pub const fn ascii_lower<const N: usize>(name: &str) -> [u8; N] {
    let mut lower = [0; N];
    let mut i = 0;
    while i < N {
        lower[i] = name.as_bytes()[i].to_ascii_lowercase();
        i += 1;
    }
    lower
}

/// Declares a table: a type with one constant per column. Behind its type and range a column may say that
/// it is `=> hot`, that it was `=> added`, or that it was, with a default: `=> or(5)`. One that was dropped
/// stays in its place, as [`Dropped`](crate::types::Dropped) of its type.
///
/// ```
/// tombolo_storage::table! {
///     /// Accounts by number.
///     pub struct Account = "account" {
///         /// The account's number.
///         ID: Integer [0..=999_999];
///         OWNER: Varchar<40>;
///         BALANCE: Decimal<12, 2> => hot;
///         CLOSED: Nullable<Timestamp>;
///     }
/// }
/// use tombolo_storage::schema::DeclaredTable;
/// assert_eq!(Account::COLUMNS[2].name, "balance");
/// assert_eq!(Account::BALANCE.offset(), 1); // behind the presence bits
/// assert_eq!(Account::SIZE, 1 + 8 + 4 + 41 + 8);
/// ```
#[macro_export]
macro_rules! table {
    ($(#[$doc:meta])* $vis:vis struct $table:ident = $name:literal {
        $($(#[$column_doc:meta])*
        $column:ident : $type:ty $([$low:literal ..= $high:literal])? $(=> $kind:ident $(($default:literal))?)?;)+
    }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        $vis struct $table;

        #[allow(
            dead_code,
            unused_imports,
            non_camel_case_types,
            missing_docs,
            unreachable_pub,
            clippy::upper_case_acronyms,
            clippy::enum_variant_names,
            reason = "columns are declared for completeness, in the spelling of SQL"
        )]
        const _: () = {
            use $crate::types::*;
            // The position of each column, by name.
            #[repr(usize)]
            enum Position { $($column),+ }
            impl $table {
                $($(#[$column_doc])*
                pub const $column: $crate::row::Column<$table, $type> = $crate::row::Column::new(
                    <$table as $crate::schema::DeclaredTable>::COLUMNS,
                    Position::$column as usize,
                );)+
            }
            impl $crate::schema::DeclaredTable for $table {
                const NAME: &'static str = $name;
                const COLUMNS: &'static [$crate::schema::ColumnDef] = &[$({
                    const UPPER: &str = stringify!($column);
                    const LOWER: [u8; UPPER.len()] = $crate::schema::ascii_lower(UPPER);
                    const NAME: &str = match std::str::from_utf8(&LOWER) {
                        Ok(name) => name,
                        Err(_) => panic!("column names are ASCII"),
                    };
                    $crate::schema::ColumnDef::of::<$type>(NAME)$(.within($low, $high))?$(.$kind($($default)?))?
                }),+];
            }
        };
    };
}

/// Declares an index of a declared table: a type that look-ups name.
///
/// ```
/// tombolo_storage::table! {
///     /// Accounts by number.
///     pub struct Account = "account" { ID: Integer [0..=999_999]; BRANCH: SmallInt; }
/// }
/// tombolo_storage::index! {
///     /// The primary key.
///     pub struct AccountKey = "account_pk" on Account (ID: Integer) unique Tree;
/// }
/// tombolo_storage::index! {
///     /// Accounts of a branch.
///     pub struct AccountsOfBranch = "account_branch" on Account (BRANCH: SmallInt, ID: Integer) multiple Tree;
/// }
/// ```
#[macro_export]
macro_rules! index {
    ($(#[$doc:meta])* $vis:vis struct $index:ident = $name:literal on $table:ident
        ($($column:ident : $type:ty),+) $unique:ident $kind:ident;) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        $vis struct $index;

        const _: () = {
            use $crate::types::*;
            impl $crate::schema::DeclaredIndex for $index {
                type Table = $table;
                type Columns = ($($type,)+);
                const NAME: &'static str = $name;
                const COLUMNS: &'static [usize] = &[$({
                    // Also proves that the stated type is the column's.
                    let column: $crate::row::Column<$table, $type> = $table::$column;
                    column.position()
                }),+];
                const PARTS: &'static [$crate::key::KeyPart] = &$crate::key::KeyPart::sequence::<
                    { [$(stringify!($column)),+].len() },
                >(
                    <$table as $crate::schema::DeclaredTable>::COLUMNS,
                    <$index as $crate::schema::DeclaredIndex>::COLUMNS,
                );
                const UNIQUE: bool = $crate::index!(@unique $unique);
                const KIND: $crate::schema::IndexKind = $crate::schema::IndexKind::$kind;
            }
        };
    };
    (@unique unique) => { true };
    (@unique multiple) => { false };
}
