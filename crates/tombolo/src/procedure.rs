//! Procedures: transactions as types, compiled for the store they run on.
//!
//! A [`Procedure`] does by hand what [`Tx`](crate::Tx) does for a closure: it writes rows *and* their
//! index entries, call by call, and it decides whether to abort before its first write. In return there is
//! no indirection at run time: keys are packed and columns found by constants, and the whole transaction is
//! one function. Calling it allocates nothing.
//!
//! The procedure has to maintain these invariants itself: every row has one entry in each index of its table,
//! under the key of its columns; columns hold values within their declaration. It must read no clock and draw
//! no random number: everything it needs is in its input.
//!
//! ```
//! use tombolo::procedure::{Committed, Index, Procedure, Reading, SchemaError, Stop, Store, Table};
//! use tombolo::procedure::{resolve_index, resolve_table};
//! use tombolo::{Database, Error, Fields, Schema, TableDef};
//!
//! tombolo::table! {
//!     /// Accounts by number.
//!     pub struct Account = "account" { ID: Integer; CENTS: BigInt; }
//! }
//! tombolo::index! {
//!     /// By number.
//!     pub struct ById = "account_by_id" on Account (ID: Integer) unique Tree;
//! }
//! const BALANCE: Fields<Account> = Fields::none().with(Account::CENTS);
//!
//! /// Pays into an account, which it makes where there is none.
//! struct Deposit {
//!     accounts: Table<Account>,
//!     by_id: Index<ById>,
//! }
//!
//! impl Procedure for Deposit {
//!     type Input = (i32, i64);
//!     type Answer = i64;
//!
//!     fn bind(schema: &Schema) -> Result<Self, SchemaError> {
//!         Ok(Self { accounts: resolve_table(schema)?, by_id: resolve_index(schema)? })
//!     }
//!
//!     fn run<S: Store>(
//!         &self,
//!         mut tx: Reading<'_, S>,
//!         &(id, cents): &(i32, i64),
//!     ) -> Result<Committed<i64>, Stop> {
//!         if cents <= 0 {
//!             return tx.abort("not a deposit");
//!         }
//!         let Some(row) = tx.lookup(&self.by_id, id)? else {
//!             let mut tx = tx.write();
//!             let row = tx.create(&self.accounts, |row| {
//!                 row.set(Account::ID, id);
//!                 row.set(Account::CENTS, cents);
//!             })?;
//!             tx.insert(&self.by_id, id, row)?;
//!             return tx.commit(cents);
//!         };
//!         let balance = tx.pin(&self.accounts, row)?.get(Account::CENTS) + cents;
//!         let mut tx = tx.write();
//!         tx.update(&self.accounts, row, BALANCE, |row| row.set(Account::CENTS, balance))?;
//!         tx.commit(balance)
//!     }
//! }
//!
//! let db = Database::builder().table(TableDef::of::<Account>().with::<ById>()).in_memory()?;
//! let deposit = db.register::<Deposit>()?;
//! assert_eq!(deposit.call((7, 30_00))?, 30_00);
//! assert_eq!(deposit.call((7, 12_00))?, 42_00);
//! assert_eq!(deposit.call((7, 0)), Err(Error::Aborted("not a deposit")));
//! # Ok::<(), Error>(())
//! ```

pub use tombolo_engine::command_log::{Arguments, BadArguments, Decoder, Encoder};
pub use tombolo_engine::hints::Hints;
pub use tombolo_engine::procedure::{Ahead, Procedure};
pub use tombolo_engine::transaction::{Committed, Reading, Stop, Writing};
pub use tombolo_storage::error::SchemaError;
pub use tombolo_storage::store::{Index, Store, Table, resolve_index, resolve_table};
