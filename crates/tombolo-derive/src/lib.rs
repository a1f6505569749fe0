//! `#[derive(Table)]`: a struct with typed fields as a table of the library.
//!
//! It generates the same as `tombolo::table!` and `tombolo::index!` — a constant for each column, a
//! type for each index — and the conversions between a row and a value of the struct. So a derived table
//! can be used wherever a declared one can.
//!
//! | file | contains |
//! |---|---|
//! | `parse.rs` | parsing fields and attributes; errors, each at its place |
//! | `expand.rs` | generating code |
//! | `enums.rs` | `#[derive(Enum)]` |
//!
//! Not here: whether a store accepts a definition (`TableDef::validate`).

mod enums;
mod expand;
mod parse;

use proc_macro::TokenStream;

/// Makes a struct a table, with a column for each field, in their order.
///
/// ```
/// use tombolo::Table;
///
/// #[derive(Table)]
/// #[table(name = "account")]               // default: the struct's name in lower case
/// #[index(ByOwner(owner, id))]             // a type, and an index `account_by_owner`
/// struct Account {
///     #[key]                               // unique, a tree: type `AccountKey`, index `account_key`
///     #[column(range = 0..=999_999)]       // a narrow range makes a narrow key
///     id: i32,
///     #[column(sql = Varchar<40>)]         // default: chosen by the field's type
///     owner: String,
///     #[column(sql = Decimal<12, 2>, hot)] // in units of the last digit; first in the row
///     balance: i64,
///     closed: Option<i64>,
/// }
/// ```
///
/// * Columns are constants of the struct, in capitals: `Account::BALANCE`.
/// * Types: `bool`, integers up to 64 bits, `f32`, `f64`, `[u8; 16]` (a UUID), `String` (text), `Vec<u8>`
///   (bytes), `SystemTime`, enums with `#[derive(Enum)]`, types of `chrono`, `uuid` and `rust_decimal` with
///   the features of that name, and `Option` of all of them; `tombolo::types` has the table. `sql = …` names
///   another column: `Decimal<P, S>`, `Date`, `Timestamp`, `Char<N>`, `Varchar<N>`.
/// * `#[table(crate = "…")]` is the path of the library, if not `::tombolo`.
/// * `#[column(added)]` marks a column that was added by a later version of a program, after all others
///   (`Database::add_column`); `#[column(added, default = 5)]` gives its value, a whole number, in rows that were
///   created without it.
/// * A field of type `Dropped<T>` (`tombolo::types`) takes the place of a dropped column
///   (`Database::drop_column`) whose field was a `T`.
/// * `#[key]` on several fields makes one compound key, in their order.
/// * `#[index(Type(fields), …)]` is by default a tree that is not unique; change this with `unique` and `hash`,
///   and its name with `name = "…"`.
#[proc_macro_derive(Table, attributes(table, index, key, column))]
pub fn derive_table(input: TokenStream) -> TokenStream {
    let parsed = syn::parse(input).and_then(|input| parse::Table::new(&input));
    parsed.map_or_else(|error| error.to_compile_error(), |table| expand::expand(&table)).into()
}

/// Makes an enum without data a column type: a `smallint` with the discriminants of its variants.
///
/// ```
/// use tombolo::{Enum, Table};
///
/// #[derive(Enum, Clone, Copy, Debug, PartialEq)]
/// enum State {
///     Open = 1, // the stored value: explicit, so that the order of variants may change
///     Paid = 2,
/// }
///
/// #[derive(Table)]
/// struct Invoice {
///     #[key]
///     number: u32,
///     state: State,
/// }
/// # let _ = Invoice { number: 1, state: State::Paid }.state == State::Open;
/// ```
#[proc_macro_derive(Enum, attributes(table))]
pub fn derive_enum(input: TokenStream) -> TokenStream {
    let expanded = syn::parse(input).and_then(|input| enums::expand(&input));
    expanded.unwrap_or_else(|error| error.to_compile_error()).into()
}
