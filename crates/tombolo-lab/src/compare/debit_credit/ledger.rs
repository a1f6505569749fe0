//! The inputs of a comparison, and the balances that they lead to.
//!
//! # Why every balance is known
//! Engines execute concurrent calls in different orders. Sums do not depend on the order, but an abort
//! because of an insufficient balance would: in another order another withdrawal could abort. So no such withdrawal is
//! made: if the sum of all withdrawals so far, without any deposit, would not leave
//! enough for a withdrawal — at its account, its teller or its branch — it becomes a deposit of the same amount.
//! Then every transaction with the right code commits, whatever the order, and every balance at the
//! end is known. At the usual scale it happens to an account that is drawn ten times or more.
//!
//! Large balances need no such care: for the first 60 billion transactions they stay below 2^53, where a double is
//! exact (Redis computes with doubles).

use super::Batch;
use super::rows::{Balances, Rows, TABLES};
use crate::rows::Verification;
use crate::workload::WorkloadInput;
use crate::workload::debit_credit::Scale;
use crate::workload::debit_credit::input::{Generator, Input};

/// The calls so far, and the balances that they must lead to.
pub(super) struct Ledger {
    inputs: Generator,
    /// The balances.
    balances: Balances,
    /// The balances if there were only withdrawals.
    left: Balances,
    /// Transactions that must commit, and abort.
    committed: u64,
    aborted: u64,
}

/// The rows of an input, from 0, in the order of the tables.
fn places(input: &Input) -> [usize; 3] {
    [input.branch, input.teller, input.account].map(|id| id as usize - 1)
}

impl Ledger {
    /// Nothing asked of a database that holds `rows`.
    pub(super) fn new(scale: Scale, rows: &Rows) -> Self {
        let (balances, left) = (rows.balances(), rows.balances());
        Self { inputs: Generator::new(scale), balances, left, committed: 0, aborted: 0 }
    }

    /// The next `count` inputs.
    pub(super) fn take(&mut self, count: usize) -> Vec<Input> {
        let mut taken = Vec::with_capacity(count);
        for _ in 0..count {
            let Some(input) = self.inputs.next() else { unreachable!("inputs have no end") };
            taken.push(self.settle(input));
        }
        taken
    }

    /// Enters `input`, as a deposit if its withdrawal could abort; returns what was entered.
    fn settle(&mut self, mut input: Input) -> Input {
        if input.aborts() {
            self.aborted += 1;
            return input;
        }
        let places = places(&input);
        let mut rows = self.left.iter().zip(places);
        if !rows.all(|(left, place)| left[place] + i64::from(input.amount) >= 0) {
            input.amount = input.amount.abs();
        }
        let amount = i64::from(input.amount);
        for (table, place) in places.into_iter().enumerate() {
            self.balances[table][place] += amount;
            self.left[table][place] += amount.min(0);
        }
        self.committed += 1;
        input
    }

    /// The balances after the calls so far.
    #[cfg(test)]
    pub(super) fn balances(&self) -> &Balances {
        &self.balances
    }

    /// Checks what an engine answered in all, and the balances that it holds.
    pub(super) fn verify(&self, found: &Balances, answered: &Batch) -> Verification {
        let mut verification = Verification::default();
        let expected = [self.committed, self.aborted];
        let [committed, aborted] = expected;
        verification.note(
            "answers",
            ([answered.committed, answered.aborted] != expected).then(|| {
                format!(
                    "{} committed and {} aborted instead of {committed} and {aborted}",
                    answered.committed, answered.aborted
                )
            }),
        );
        let sums = found.each_ref().map(|table| table.iter().map(|&cents| i128::from(cents)).sum());
        let [branches, tellers, accounts]: [i128; 3] = sums;
        let differs = |what: &str, sum: i128| {
            (sum != accounts)
                .then(|| format!("the {what} hold {sum} cents, the accounts {accounts}"))
        };
        verification.note("tellers", differs("tellers", tellers));
        verification.note("branches", differs("branches", branches));
        verification.note("balances", self.first_wrong(found));
        verification
    }

    /// The first balance that is not what the inputs make of it.
    fn first_wrong(&self, found: &Balances) -> Option<String> {
        let tables = TABLES.iter().zip(self.balances.iter().zip(found));
        for (table, (expected, found)) in tables {
            if expected.len() != found.len() {
                let (rows, expected) = (found.len(), expected.len());
                return Some(format!("table {table} has {rows} rows instead of {expected}"));
            }
            let mut rows = (1..).zip(expected.iter().zip(found));
            if let Some((id, (expected, found))) = rows.find(|(_, (a, b))| a != b) {
                return Some(format!("{table} {id} has {found} cents instead of {expected}"));
            }
        }
        None
    }
}
