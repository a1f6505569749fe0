//! Debit-credit (TPK-34 … TPK-38): the one transaction that *Multiprocessor Main Memory Transaction
//! Processing* measures, on branches, tellers and accounts.
//!
//! # Map
//! [`schema`] has the tables, [`load`] the initial rows, [`input`] what is asked, [`transaction`]
//! what it does, [`checks`] what holds of the rows afterwards and how it is broken on purpose.
//!
//! # The history of accounts (TPK-37)
//! The paper keeps a log "sufficient to produce an account history" and no table of history, and so
//! does this. A transaction's records are the new balances of an account, a teller and a branch, in
//! the order in which transactions ran: an account's history is the balances its records name, the
//! amounts are the differences, and teller and branch stand in the same transaction. A test derives it
//! and compares it with the inputs. It reaches as far back as the log does.

pub mod checks;
pub mod input;
pub mod load;
pub mod schema;
pub mod settings;
pub mod transaction;

#[cfg(test)]
mod tests;

use tombolo_engine::rng::Rng;
use tombolo_engine::settings::{Setting, Settings};
use tombolo_storage::schema::{DeclaredTable, TableDef};
use tombolo_storage::store::Store;

use super::error::WorkloadError;
use super::interface::one_procedure;
use super::log_bytes::updated;
use super::{Check, Kind, Workload};
use input::{Generator, Input};
use schema::{Account, Branch, Holder, Teller};
use settings::{ACCOUNTS_PER_BRANCH, BRANCHES, SETTINGS, TELLERS_PER_BRANCH};
use transaction::DebitCredit;

use crate::failure::Failure;
use crate::numbers::separated;
use crate::settings::SEED;
use crate::store::DynamicStore;

/// The most rows of a table: ids are positive integers of 32 bits.
pub const ROWS_MAX: u64 = 2_147_483_647;

/// The only kind of transaction: an account, a teller and a branch are debited or credited.
pub const KIND: Kind = Kind::at(0);

/// How large a database is, and its seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// The seed of every value.
    pub seed: u64,
    /// Branches.
    pub branches: u32,
    /// Tellers of a branch.
    pub tellers_per_branch: u32,
    /// Accounts of a branch.
    pub accounts_per_branch: u32,
}

impl Scale {
    /// Tellers of all branches; no more than [`ROWS_MAX`], which the maker of a scale ensures.
    #[must_use]
    pub const fn tellers(&self) -> u32 {
        self.branches * self.tellers_per_branch
    }

    /// Accounts of all branches, likewise.
    #[must_use]
    pub const fn accounts(&self) -> u32 {
        self.branches * self.accounts_per_branch
    }
}

/// What a random stream is for.
///
/// The discriminants are part of every generated database: add, never renumber.
#[derive(Clone, Copy)]
enum Stream {
    Input = 1,
    Code = 2,
}

impl Stream {
    /// The generator of the part numbered `part` of what this stream is for. TPC-C's streams begin
    /// with other numbers.
    fn rng(self, seed: u64, part: u32) -> Rng {
        const DEBIT_CREDIT: u64 = 100;
        Rng::stream(seed, &[DEBIT_CREDIT, self as u64, part.into()])
    }
}

/// The bit that no right code has.
const WRONG: i64 = 1;

/// The code of the branch, teller or account with this id.
fn code(seed: u64, id: i32) -> i64 {
    let random = Stream::Code.rng(seed, id.unsigned_abs()).next_u64();
    random as i64 & i64::MAX & !WRONG
}

impl Workload for Scale {
    const NAME: &'static str = "debit-credit";
    const KINDS: &'static [&'static str] = &["debit_credit"];
    const EXAMPLES: &'static [&'static str] = &[
        "tombolo run debit-credit --clients 64 --in-flight 64 --seconds 5",
        "tombolo run debit-credit --branches 15 --accounts-per-branch 1k --group-transactions 200",
    ];
    const TABLE: &'static str = Account::NAME;
    const LOG_BYTES_MAX: usize =
        updated(Account::PAID) + updated(Teller::PAID) + updated(Branch::PAID);
    type Input = Input;
    type Transactions = DebitCredit;
    type Answer = i64;
    type Reply = i64;
    type NewRows = ();

    fn settings() -> &'static [&'static Setting] {
        SETTINGS
    }

    /// Whether the ids have room is a matter of several settings.
    fn planned(settings: &Settings, _: usize) -> Result<Self, Failure> {
        let branches = settings.count(&BRANCHES);
        let each = |setting: &Setting| {
            let each = settings.count(setting);
            let rows = branches.saturating_mul(each);
            if rows <= ROWS_MAX {
                return Ok(each as u32);
            }
            Err(Failure::usage(format!(
                "{branches} branches with {each} each are {rows} rows, and ids go up to \
                 {ROWS_MAX}: lower --branches or --{}",
                setting.flag()
            )))
        };
        Ok(Self {
            seed: settings.count(&SEED),
            branches: branches as u32,
            tellers_per_branch: each(&TELLERS_PER_BRANCH)?,
            accounts_per_branch: each(&ACCOUNTS_PER_BRANCH)?,
        })
    }

    fn values(&self) -> Vec<u64> {
        [self.branches, self.tellers_per_branch, self.accounts_per_branch].map(u64::from).to_vec()
    }

    fn size(values: &[u64]) -> String {
        let of = |each: u64| separated(values[0] * each);
        format!("{} accounts, {} tellers, {} branches", of(values[2]), of(values[1]), of(1))
    }

    fn label(values: &[u64]) -> String {
        format!("{} branches", separated(values[0]))
    }

    fn describe(&self) -> String {
        format!("{} accounts of {} branches", self.accounts(), self.branches)
    }

    fn all_tables() -> Vec<TableDef> {
        schema::tables()
    }

    fn rows_after(&self, table: &str, _: u64) -> u64 {
        match table {
            Branch::NAME => self.branches.into(),
            Teller::NAME => self.tellers().into(),
            Account::NAME => self.accounts().into(),
            _ => 0,
        }
    }

    fn inputs(&self) -> impl Iterator<Item = Input> + Send + use<> {
        Generator::new(*self)
    }

    fn counted(&self) -> (&'static [Kind], Kind) {
        (&[KIND], KIND)
    }

    fn load_parts<S: Store>(
        &self,
        store: &mut S,
        threads: usize,
        after_part: impl FnMut(&mut S, usize, usize) -> Result<(), WorkloadError>,
    ) -> Result<(), WorkloadError> {
        load::load_parts(*self, store, threads, after_part)
    }

    fn find(&self, store: &mut dyn DynamicStore) -> Result<Option<Self>, WorkloadError> {
        checks::scale(store, self.seed)
    }

    one_procedure!();

    #[inline]
    fn log_bytes_max(_: &Input) -> usize {
        Self::LOG_BYTES_MAX
    }

    fn new_rows(_: &[Input]) {}

    fn by_table((): ()) -> impl Iterator<Item = (&'static str, usize)> {
        std::iter::empty()
    }

    fn checks(store: &mut dyn DynamicStore) -> Result<Vec<Check>, WorkloadError> {
        checks::checks(store)
    }

    fn tamper<S: Store>(store: &mut S, check: &str) -> Result<(), WorkloadError> {
        checks::tamper(store, check)
    }

    #[cfg(test)]
    fn tested() -> Vec<Self> {
        vec![Self { seed: 1, branches: 2, tellers_per_branch: 3, accounts_per_branch: 500 }]
    }
}
