//! The transaction (TPK-34, Figure 3): an amount is added to the balances of an account, a teller
//! and a branch, if the request's code permits access to the account and every balance suffices.
//!
//! # Calls
//! 3 look-ups, 3 pins, 3 updates. Figure 3 saves the three records, checks, writes, and restores
//! what it saved on an exception. Here both checks come before the first write, so that an abort has
//! nothing to restore; what a store with undo saves of each row before it changes it is taken back
//! when anything fails behind that.

use tombolo_engine::hints::Hints;
use tombolo_engine::procedure::{Ahead, Procedure};
use tombolo_engine::transaction::{Committed, Reading, Stop};
use tombolo_storage::error::{Result, SchemaError};
use tombolo_storage::row::RowId;
use tombolo_storage::schema::Schema;
use tombolo_storage::store::{Index, Store, Table};

use super::input::Input;
use super::schema::{
    Account, AccountKey, BALANCE_MAX, Branch, BranchKey, Holder, Teller, TellerKey,
};
use crate::workload::resolve::Resolve;

/// The abort reason of a request with a wrong code.
pub const NO_PERMISSION: &str = "permission";
/// The abort reason of a request that a balance does not suffice for.
pub const NO_BALANCE: &str = "balance";
/// The abort reason of a request that names what is not there.
pub const NO_SUCH_ID: &str = "unknown_id";

handles! {
    /// The transaction, bound.
    #[derive(Debug)]
    pub struct DebitCredit {
        account: Table<Account>,
        teller: Table<Teller>,
        branch: Table<Branch>,
        account_key: Index<AccountKey>,
        teller_key: Index<TellerKey>,
        branch_key: Index<BranchKey>,
    }
}

impl DebitCredit {
    /// What the balance of a row becomes.
    #[inline(always)]
    fn balance<S: Store, R: Holder>(
        tx: &Reading<'_, S>,
        table: &Table<R>,
        row: RowId,
        input: &Input,
    ) -> Result<i64> {
        Ok(tx.pin(table, row)?.get(R::BALANCE) + i64::from(input.amount))
    }
}

impl Procedure for DebitCredit {
    type Input = Input;
    /// The account's balance, in cents.
    type Answer = i64;

    fn bind(schema: &Schema) -> std::result::Result<Self, SchemaError> {
        Resolve::resolve(schema)
    }

    #[inline(always)]
    fn removals<S: Store>(&self, store: &S) -> Option<u64> {
        store.removals(&self.account_key)
    }

    /// The account: tellers and branches are few.
    #[inline(always)]
    fn locate<S: Store>(&self, store: &S, input: &Input, ahead: Ahead, hints: &mut Hints) {
        match ahead {
            Ahead::Keys => store.prefetch_lookup(&self.account_key, input.account),
            Ahead::Rows => {
                if let Some(account) = store.find_ahead(&self.account_key, input.account) {
                    store.prefetch(&self.account, account, Account::READ);
                    hints.push(account);
                }
            }
        }
    }

    #[inline]
    fn run<S: Store>(
        &self,
        tx: Reading<'_, S>,
        input: &Input,
    ) -> std::result::Result<Committed<i64>, Stop> {
        self.run_located(tx, input, &[])
    }

    #[inline]
    fn run_located<S: Store>(
        &self,
        mut tx: Reading<'_, S>,
        input: &Input,
        located: &[RowId],
    ) -> std::result::Result<Committed<i64>, Stop> {
        let account = match *located {
            [account] => Some(account),
            _ => tx.lookup_for_update(&self.account_key, input.account)?,
        };
        let teller = tx.lookup_for_update(&self.teller_key, input.teller)?;
        let branch = tx.lookup_for_update(&self.branch_key, input.branch)?;
        let (Some(account), Some(teller), Some(branch)) = (account, teller, branch) else {
            return tx.abort(NO_SUCH_ID);
        };
        if tx.pin(&self.account, account)?.get(Account::CODE) != input.code {
            return tx.abort(NO_PERMISSION);
        }
        let of_account = Self::balance(&tx, &self.account, account, input)?;
        let of_teller = Self::balance(&tx, &self.teller, teller, input)?;
        let of_branch = Self::balance(&tx, &self.branch, branch, input)?;
        let balances = [of_account, of_teller, of_branch];
        if !balances.iter().all(|balance| (0..=BALANCE_MAX).contains(balance)) {
            return tx.abort(NO_BALANCE);
        }
        let mut tx = tx.write();
        tx.update(&self.account, account, Account::PAID, |row| {
            row.set(Account::BALANCE, of_account);
        })?;
        tx.update(&self.teller, teller, Teller::PAID, |row| row.set(Teller::BALANCE, of_teller))?;
        tx.update(&self.branch, branch, Branch::PAID, |row| row.set(Branch::BALANCE, of_branch))?;
        tx.commit(of_account)
    }
}
