//! `#[derive(Table)]`: a struct with typed fields as a table of the library.
//!
//! What it makes is what `tombolo::table!` and `tombolo::index!` make — a constant for each column, a
//! type for each index — and how a row becomes a value of the struct and back. So everything that takes
//! a declared table takes a derived one.
//!
//! | file | holds |
//! |---|---|
//! | `parse.rs` | what was written: fields, attributes; mistakes, each at its place |
//! | `expand.rs` | what it stands for |
//! | `enums.rs` | `#[derive(Enum)]` |
//!
//! Not here: whether a definition makes sense to a store (`TableDef::validate`).

mod enums;
mod expand;
mod parse;

use proc_macro::TokenStream;

/// Makes a table of a struct: a column for each field, in their order.
///
/// ```
/// use tombolo::Table;
///
/// #[derive(Table)]
/// #[table(name = "account")]               // unless the struct's name will do, in lower case
/// #[index(ByOwner(owner, id))]             // a type, and an index `account_by_owner`
/// struct Account {
///     #[key]                               // unique, a tree: type `AccountKey`, index `account_key`
///     #[column(range = 0..=999_999)]       // a narrow range makes a narrow key
///     id: i32,
///     #[column(sql = Varchar<40>)]         // unless the field's type says it
///     owner: String,
///     #[column(sql = Decimal<12, 2>, hot)] // in units of the last digit; laid out in front
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
/// * `#[table(crate = "…")]` says where the library is, if not at `::tombolo`.
/// * `#[column(added)]` is a column that later versions of a program have, behind all others
///   (`Database::add_column`); `#[column(added, default = 5)]` says what it is in rows that were made
///   without it, in whole numbers.
/// * A field of type `Dropped<T>` (`tombolo::types`) stands in the place of a column that was dropped
///   (`Database::drop_column`), whose field was a `T`.
/// * `#[key]` on several fields makes one key of them, in their order.
/// * `#[index(Type(fields), …)]` is a tree that holds a key as often as it occurs; `unique` and `hash`
///   say otherwise, `name = "…"` names it.
#[proc_macro_derive(Table, attributes(table, index, key, column))]
pub fn derive_table(input: TokenStream) -> TokenStream {
    let parsed = syn::parse(input).and_then(|input| parse::Table::new(&input));
    parsed.map_or_else(|error| error.to_compile_error(), |table| expand::expand(&table)).into()
}

/// Makes an enum without data a type that columns hold: a `smallint`, by the numbers of its variants.
///
/// ```
/// use tombolo::{Enum, Table};
///
/// #[derive(Enum, Clone, Copy, Debug, PartialEq)]
/// enum State {
///     Open = 1, // what is stored: give numbers, so that another order of variants changes nothing
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
