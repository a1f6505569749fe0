//! Tombolo: a main-memory OLTP database, embedded in a program, that shows what each of its parts
//! costs.
//!
//! # Using it
//! Declare tables and indexes, open a store, run transactions. A transaction reads first and then
//! writes; once it writes it commits.
//!
//! ```
//! use tombolo::storage::{self, memory::{Limits, MemoryStore}, profile::Memory, row::Fields, schema::TableDef};
//! use tombolo::storage::store::{Store, resolve_index, resolve_table};
//! use tombolo::engine::transaction::execute;
//!
//! storage::table! {
//!     /// Accounts by number.
//!     pub struct Account = "account" { ID: Integer; BALANCE: Decimal<12, 2>; }
//! }
//! storage::index! {
//!     /// The primary key.
//!     pub struct AccountKey = "account_pk" on Account (ID: Integer) unique Tree;
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut store = MemoryStore::<Memory>::new(Limits::default());
//! store.create_table(TableDef::of::<Account>().with::<AccountKey>())?;
//! let account = resolve_table::<Account>(store.schema())?;
//! let by_id = resolve_index::<AccountKey>(store.schema())?;
//!
//! execute(&mut store, |tx| {
//!     let mut tx = tx.write();
//!     let row = tx.create(&account, |row| {
//!         row.set(Account::ID, 7);
//!         row.set(Account::BALANCE, 100_00); // in units of the last digit
//!     })?;
//!     tx.insert(&by_id, 7, row)?;
//!     tx.commit(())
//! })?;
//!
//! let balance = execute(&mut store, |mut tx| {
//!     let Some(row) = tx.lookup(&by_id, 7)? else { return tx.abort("no_account") };
//!     let balance = tx.pin(&account, row)?.get(Account::BALANCE);
//!     let mut tx = tx.write();
//!     let field = Fields::none().with(Account::BALANCE);
//!     tx.update(&account, row, field, |row| row.set(Account::BALANCE, balance - 30_00))?;
//!     tx.commit(balance - 30_00)
//! })?;
//! assert_eq!(balance, 70_00);
//! # Ok(())
//! # }
//! ```
//!
//! # What is here
//! [`storage`] says what is written: tables, rows, keys, indexes, stores. [`engine`] says when:
//! transactions, procedures, settings. The `tombolo` command is built on the same two crates and on
//! a third that measures them.
//!
//! # What is not
//! Durability, SQL, a server and islands come with later versions: today's database lives in
//! memory, is used by one thread at a time and is gone when its process ends.

pub use tombolo_engine as engine;
pub use tombolo_storage as storage;
