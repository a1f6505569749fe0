//! From dumps to costs: what the two runs of a counted program found, by group of transactions.
//!
//! Switching callgrind's collecting on and off costs a few instructions per transaction, which are
//! in every count. Their number is counted in the same process from empty transactions. It must divide
//! without remainder; otherwise something else was counted, too, and the counts are refused.

use super::attribution::Costs;
use super::label::{EMPTY_TRANSACTIONS, Label};
use super::{Category, CounterError};
use std::collections::BTreeMap;

/// Where a group's instructions go, over all its transactions. What it costs to switch collecting
/// on and off is taken off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Breakdown {
    /// Instructions of whole transactions, from the run that counts nothing else.
    pub whole: u64,
    /// Instructions by category, in the order of [`Category::ALL`], from the other run.
    pub categories: Costs,
    /// How many transactions were counted.
    pub transactions: u64,
}

/// Something that was counted of a number of transactions.
type Of<T> = (T, u64);

/// Every count of a counted program's two runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    wholes: BTreeMap<String, Of<u64>>,
    categories: BTreeMap<String, Of<Costs>>,
}

fn damaged(what: String) -> CounterError {
    CounterError::Damaged(what)
}

/// Takes one dump in. Dumps that are not a meter's are left out.
fn add<T>(to: &mut BTreeMap<String, Of<T>>, dump: &str, count: T) -> Result<(), CounterError> {
    let Some(Label { group, transactions }) = Label::parse(dump) else { return Ok(()) };
    match to.insert(group.to_owned(), (count, transactions)) {
        None => Ok(()),
        Some(_) => Err(damaged(format!("{group} was counted twice"))),
    }
}

fn find<T: Copy>(counts: &BTreeMap<String, Of<T>>, group: &str) -> Result<Of<T>, CounterError> {
    counts.get(group).copied().ok_or_else(|| damaged(format!("{group} was not counted")))
}

impl Counts {
    /// Takes in a dump of the run that counts wholes.
    pub(super) fn add_whole(&mut self, dump: &str, total: u64) -> Result<(), CounterError> {
        add(&mut self.wholes, dump, total)
    }

    /// Takes in a dump of the run that counts instructions one by one.
    pub(super) fn add_categories(&mut self, dump: &str, costs: Costs) -> Result<(), CounterError> {
        add(&mut self.categories, dump, costs)
    }

    /// The groups that were counted, in alphabetical order.
    #[must_use]
    pub fn groups(&self) -> Vec<&str> {
        let groups = self.wholes.keys().map(String::as_str);
        groups.filter(|group| *group != EMPTY_TRANSACTIONS).collect()
    }

    /// Instructions that switching collecting on and off adds to a transaction.
    ///
    /// # Errors
    /// When they were not counted, are not a whole number, or not the same in both runs.
    pub fn switching(&self) -> Result<u64, CounterError> {
        let (whole, times) = find(&self.wholes, EMPTY_TRANSACTIONS)?;
        let (costs, again) = find(&self.categories, EMPTY_TRANSACTIONS)?;
        let mut other = Costs::default();
        other[Category::Other as usize] = whole;
        if times == 0 || !whole.is_multiple_of(times) || (costs, again) != (other, times) {
            let what = format!(
                "{times} empty transactions cost {whole} instructions, and {again} cost {costs:?}"
            );
            return Err(damaged(what));
        }
        Ok(whole / times)
    }

    /// The whole and all categories of `group`.
    ///
    /// # Errors
    /// When it was not counted, or the two runs did not count the same transactions.
    pub fn breakdown(&self, group: &str) -> Result<Breakdown, CounterError> {
        let (whole, transactions) = find(&self.wholes, group)?;
        let (mut categories, again) = find(&self.categories, group)?;
        if transactions != again {
            return Err(damaged(format!("{group} has {transactions} transactions, then {again}")));
        }
        let switching = self.switching()? * transactions;
        let other = categories[Category::Other as usize].checked_sub(switching);
        let (Some(whole), Some(other)) = (whole.checked_sub(switching), other) else {
            return Err(damaged(format!("{group} costs less than nothing")));
        };
        categories[Category::Other as usize] = other;
        Ok(Breakdown { whole, categories, transactions })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(counts: &mut Counts, group: &str, transactions: u64, whole: u64, costs: Costs) {
        let label = Label { group, transactions }.to_string();
        counts.add_whole(&label, whole).unwrap();
        counts.add_categories(&label, costs).unwrap();
    }

    fn empty() -> Counts {
        let mut counts = Counts::default();
        add(&mut counts, EMPTY_TRANSACTIONS, 10, 60, [0, 0, 0, 0, 0, 0, 0, 60]);
        counts
    }

    #[test]
    fn switching_is_taken_off() {
        let mut counts = empty();
        add(&mut counts, "payment", 100, 10_600, [0, 6_000, 0, 0, 0, 0, 0, 4_500]);
        counts.add_whole("some other dump", 1).unwrap();
        assert_eq!(counts.switching().unwrap(), 6);
        assert_eq!(counts.groups(), ["payment"]);
        let breakdown = counts.breakdown("payment").unwrap();
        assert_eq!((breakdown.whole, breakdown.transactions), (10_000, 100));
        assert_eq!(breakdown.categories, [0, 6_000, 0, 0, 0, 0, 0, 3_900]);
    }

    #[test]
    fn counts_with_something_else_in_them_are_refused() {
        let refused = |counts: &Counts, expect: &str| {
            let message = counts.breakdown("payment").unwrap_err().to_string();
            assert!(message.contains(expect), "{message}");
        };
        refused(&empty(), "payment was not counted");
        let mut counts = Counts::default();
        add(&mut counts, EMPTY_TRANSACTIONS, 10, 61, [0, 0, 0, 0, 0, 0, 0, 61]);
        add(&mut counts, "payment", 10, 1_000, [0; 8]);
        refused(&counts, "10 empty transactions cost 61");
        let mut counts = Counts::default();
        add(&mut counts, EMPTY_TRANSACTIONS, 10, 60, [0, 10, 0, 0, 0, 0, 0, 50]);
        add(&mut counts, "payment", 10, 1_000, [0; 8]);
        refused(&counts, "and 10 cost [0, 10,");
        let mut counts = empty();
        add(&mut counts, "payment", 10, 59, [0; 8]);
        refused(&counts, "payment costs less than nothing");
    }

    #[test]
    fn both_runs_count_the_same_transactions_once() {
        let mut counts = empty();
        let label = |transactions| Label { group: "payment", transactions }.to_string();
        counts.add_whole(&label(10), 1_000).unwrap();
        counts.add_categories(&label(11), [100; 8]).unwrap();
        let message = counts.breakdown("payment").unwrap_err().to_string();
        assert!(message.contains("payment has 10 transactions, then 11"), "{message}");
        assert!(counts.add_whole(&label(10), 1_000).is_err(), "counted twice");
    }
}
