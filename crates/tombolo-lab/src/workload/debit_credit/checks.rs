//! The conditions of consistency, and how each is broken on purpose.
//!
//! The paper has none; these follow from its transaction: every amount goes to one account, one
//! teller and one branch, so that the sums stay equal, and no balance is ever below zero. One pass
//! over the rows of each table, not over its indexes.

use tombolo_engine::transaction::execute;
use tombolo_storage::error::Result;
use tombolo_storage::store::Store;

use super::load::{Handles, Held, INITIAL_BALANCE};
use super::schema::Holder;
use super::{ROWS_MAX, Scale};
use crate::store::DynamicStore;
use crate::workload::Check;
use crate::workload::error::WorkloadError;
use crate::workload::resolve::Resolve;
use crate::workload::rows::{HasRows, in_transaction};

/// The conditions' names, in order.
pub const CHECKS: [&str; 3] = ["tellers", "branches", "overdrafts"];
/// The same, for a user.
const NAMES: &str = "tellers, branches or overdrafts";

/// The balances of a table.
#[derive(Default)]
struct Sum {
    /// Of all: wider than a balance.
    all: i128,
    rows: u64,
    /// The first that is below zero, and whose it is.
    overdraft: Option<(i32, i64)>,
}

impl Sum {
    fn of<R: Holder>(mut store: &mut dyn DynamicStore, held: &Held<R>) -> Result<Self> {
        let mut sum = Self::default();
        store.for_each_row(&held.table, |row| {
            let (id, balance) = (row.get(R::ID), row.get(R::BALANCE));
            sum.all += i128::from(balance);
            sum.rows += 1;
            if balance < 0 && sum.overdraft.is_none() {
                sum.overdraft = Some((id, balance));
            }
        })?;
        Ok(sum)
    }

    /// What is wrong if these balances are not `accounts` together.
    fn differs(&self, what: &str, accounts: &Self) -> Option<String> {
        let (own, of_accounts) = (self.all, accounts.all);
        (own != of_accounts)
            .then(|| format!("the {what} hold {own} cents, the accounts {of_accounts}"))
    }
}

/// The balances of branches, tellers and accounts.
fn sums(store: &mut dyn DynamicStore) -> std::result::Result<[Sum; 3], WorkloadError> {
    let handles = Handles::resolve(store.schema())?;
    in_transaction(store, |store| {
        let branches = Sum::of(store, &handles.branch)?;
        let tellers = Sum::of(store, &handles.teller)?;
        Ok([branches, tellers, Sum::of(store, &handles.account)?])
    })
}

/// Asks all conditions of the database in `store`.
///
/// # Errors
/// When the store does not hold the tables or refuses to be read.
pub fn checks(store: &mut dyn DynamicStore) -> std::result::Result<Vec<Check>, WorkloadError> {
    let sums = sums(store)?;
    let [branches, tellers, accounts] = &sums;
    let below = ["branch", "teller", "account"].iter().zip(&sums).find_map(|(what, sum)| {
        let (id, balance) = sum.overdraft?;
        Some(format!("{what} {id} has {balance} cents"))
    });
    let violations =
        [tellers.differs("tellers", accounts), branches.differs("branches", accounts), below];
    let check = |(name, violation)| Check { name, violation };
    Ok(CHECKS.into_iter().zip(violations).map(check).collect())
}

/// Breaks the condition called `check`, and no other.
///
/// # Errors
/// When no check has that name, the database is too small to break it alone, or the store
/// refuses a call.
pub fn tamper<S: Store>(store: &mut S, check: &str) -> std::result::Result<(), WorkloadError> {
    let handles = Handles::resolve(store.schema())?;
    match check {
        "tellers" => change(store, &handles.teller, &[(1, Change::By(1))]),
        "branches" => change(store, &handles.branch, &[(1, Change::By(1))]),
        "overdrafts" => {
            change(store, &handles.account, &[(1, Change::Overdraw), (2, Change::Rest)])
        }
        _ => Err(WorkloadError::NoSuchCheck { name: check.to_owned(), known: NAMES }),
    }
}

/// What becomes of a balance.
#[derive(Clone, Copy)]
enum Change {
    /// It changes by this much.
    By(i64),
    /// It falls to a cent below zero.
    Overdraw,
    /// It gets what the others lost.
    Rest,
}

/// Changes the balances of the rows with these ids.
fn change<S: Store, R: Holder>(
    store: &mut S,
    held: &Held<R>,
    changes: &[(i32, Change)],
) -> std::result::Result<(), WorkloadError> {
    let is_done = execute(store, |mut tx| {
        let mut found = Vec::new();
        for &(id, change) in changes {
            let Some(row) = tx.lookup_for_update(&held.key, id)? else { return tx.commit(false) };
            found.push((row, tx.pin(&held.table, row)?.get(R::BALANCE), change));
        }
        let mut tx = tx.write();
        let mut lost = 0;
        for (row, balance, change) in found {
            let new = match change {
                Change::By(more) => balance + more,
                Change::Overdraw => -1,
                Change::Rest => balance + lost,
            };
            lost += balance - new;
            tx.update(&held.table, row, R::PAID, |row| row.set(R::BALANCE, new))?;
        }
        tx.commit(true)
    });
    match is_done {
        Ok(true) => Ok(()),
        Ok(false) => Err(WorkloadError::NothingToTamper("two accounts, a teller and a branch")),
        Err(stop) => Err(stop.into()),
    }
}

/// The scale of the database in `store`, with this seed; none where loading it was broken off: then
/// tellers and accounts do not divide among the branches, or whole accounts are missing that the
/// branches were given the money of.
///
/// # Errors
/// As [`checks`].
pub(super) fn scale(
    store: &mut dyn DynamicStore,
    seed: u64,
) -> std::result::Result<Option<Scale>, WorkloadError> {
    let [branches, tellers, accounts] = sums(store)?;
    let each = |sum: &Sum| match sum.rows.checked_rem(branches.rows) {
        Some(0) if (1..=ROWS_MAX).contains(&sum.rows) => Some((sum.rows / branches.rows) as u32),
        _ => None,
    };
    let is_whole = branches.all - accounts.all < i128::from(INITIAL_BALANCE);
    let (Some(tellers_per_branch), Some(accounts_per_branch), true) =
        (each(&tellers), each(&accounts), is_whole)
    else {
        return Ok(None);
    };
    let branches = branches.rows as u32; // no more than accounts
    Ok(Some(Scale { seed, branches, tellers_per_branch, accounts_per_branch }))
}
