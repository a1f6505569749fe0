//! From raw counts to costs: the probes' own instructions are taken off, per part and group.
//!
//! A raw count of a part is (per [`meter`](super::meter)): what its transactions cost there, plus a
//! constant per transaction, plus a constant per call. Both constants are counted in the same
//! process, from empty transactions and empty calls, and must divide without remainder: if they do
//! not, something other than probes was counted, and the counts are refused.

use super::label::{EMPTY_CALLS, EMPTY_TRANSACTIONS, Label};
use super::{Category, CounterError, Part, Tally};
use std::collections::BTreeMap;

/// One part of one group, the probes' cost taken off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// Instructions, over all transactions of the group.
    pub instructions: u64,
    /// What was counted.
    pub tally: Tally,
    /// Instructions that were taken off, over all transactions.
    pub probes: u64,
}

impl Count {
    /// Instructions per transaction.
    #[must_use]
    pub fn per_transaction(&self) -> f64 {
        self.instructions as f64 / self.tally.transactions.max(1) as f64
    }
}

/// Where a group's instructions go, over all its transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Breakdown {
    /// Instructions of whole transactions on the store without probes.
    pub whole: u64,
    /// Instructions of whole transactions on the store with probes, their own taken off.
    pub probed: u64,
    /// Instructions by category, in the order of [`Category::ALL`], each from its own run.
    pub categories: [u64; Category::CALLS + 1],
    /// What was counted; the calls are those of the runs with probes.
    pub tally: Tally,
}

impl Breakdown {
    /// How far the categories' sum is from the whole that was counted on the same store, in
    /// percent.
    #[must_use]
    pub fn sum_error_percent(&self) -> f64 {
        percent_off(self.categories.iter().sum(), self.probed)
    }

    /// How far the presence of probes, their own instructions apart, moved the whole, in percent.
    #[must_use]
    pub fn probe_effect_percent(&self) -> f64 {
        percent_off(self.probed, self.whole)
    }
}

fn percent_off(value: u64, from: u64) -> f64 {
    value.abs_diff(from) as f64 / from.max(1) as f64 * 100.0
}

/// Every count that one counted process and its children made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    raw: BTreeMap<(Part, String), (u64, Tally)>,
}

fn damaged(what: String) -> CounterError {
    CounterError::Damaged(what)
}

impl Counts {
    /// Takes one dump in. Dumps that are not a meter's are left out.
    pub(super) fn add(&mut self, name: &str, instructions: u64) -> Result<(), CounterError> {
        let Some(Label { part, group, tally }) = Label::parse(name) else { return Ok(()) };
        match self.raw.insert((part, group.to_owned()), (instructions, tally)) {
            None => Ok(()),
            Some(_) => Err(damaged(format!("{part} of {group} was counted twice"))),
        }
    }

    /// The groups that were counted, in alphabetical order.
    #[must_use]
    pub fn groups(&self) -> Vec<&str> {
        let empty = [EMPTY_TRANSACTIONS, EMPTY_CALLS];
        let groups = self.raw.keys().map(|(_, group)| group.as_str());
        let mut groups: Vec<&str> = groups.filter(|group| !empty.contains(group)).collect();
        groups.sort_unstable();
        groups.dedup();
        groups
    }

    fn raw(&self, part: Part, group: &str) -> Result<(u64, Tally), CounterError> {
        self.raw
            .get(&(part, group.to_owned()))
            .copied()
            .ok_or_else(|| damaged(format!("{part} of {group} was not counted")))
    }

    /// Instructions that the probes add to a count of `part`: per transaction and per call.
    ///
    /// # Errors
    /// When they were not counted or are not whole numbers.
    pub fn probe(&self, part: Part) -> Result<(u64, u64), CounterError> {
        let (transactions, tally) = self.raw(part, EMPTY_TRANSACTIONS)?;
        let per_transaction = exact(transactions, tally.transactions, part)?;
        let (calls, tally) = self.raw(part, EMPTY_CALLS)?;
        let calls = calls
            .checked_sub(per_transaction * tally.transactions)
            .ok_or_else(|| damaged(format!("probes of {part} cost less with calls in them")))?;
        Ok((per_transaction, exact(calls, tally.all_calls(), part)?))
    }

    /// The count of `part` in `group`.
    ///
    /// # Errors
    /// When it was not counted, or its probes do not cost a whole number of instructions.
    pub fn count(&self, part: Part, group: &str) -> Result<Count, CounterError> {
        let (raw, tally) = self.raw(part, group)?;
        let (per_transaction, per_call) = self.probe(part)?;
        let calls = match part {
            Part::Whole | Part::Probed | Part::Category(Category::Other) => tally.all_calls(),
            Part::Category(category) => tally.calls[category as usize],
        };
        let probes = per_transaction * tally.transactions + per_call * calls;
        let instructions = raw
            .checked_sub(probes)
            .ok_or_else(|| damaged(format!("{part} of {group} is less than its probes")))?;
        Ok(Count { instructions, tally, probes })
    }

    /// The wholes and all categories of `group`.
    ///
    /// # Errors
    /// When a part is missing, or the parts did not count the same transactions.
    pub fn breakdown(&self, group: &str) -> Result<Breakdown, CounterError> {
        let whole = self.count(Part::Whole, group)?;
        let probed = self.count(Part::Probed, group)?;
        if whole.tally.transactions != probed.tally.transactions {
            return Err(damaged(format!("{group} has other transactions without probes")));
        }
        let mut categories = [0; Category::CALLS + 1];
        for category in Category::ALL {
            let count = self.count(Part::Category(category), group)?;
            if count.tally != probed.tally {
                let part = category.name();
                return Err(damaged(format!("{part} of {group} was counted on other calls")));
            }
            categories[category as usize] = count.instructions;
        }
        let (whole, tally) = (whole.instructions, probed.tally);
        Ok(Breakdown { whole, probed: probed.instructions, categories, tally })
    }
}

/// `instructions / times`, which leaves no remainder.
fn exact(instructions: u64, times: u64, part: Part) -> Result<u64, CounterError> {
    if times == 0 || !instructions.is_multiple_of(times) {
        let what = format!(
            "{times} empty probes of {part} cost {instructions} instructions \
             (only optimised builds can be counted)"
        );
        return Err(damaged(what));
    }
    Ok(instructions / times)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(counts: &mut Counts, part: Part, group: &str, transactions: u64, calls: u64, ir: u64) {
        let tally = Tally { transactions, calls: [0, calls, 0, 0, 0, 0, 0] };
        let label = Label { part, group, tally };
        counts.add(&label.to_string(), ir).unwrap();
    }

    #[test]
    fn probes_are_taken_off_per_transaction_and_call() {
        let mut counts = Counts::default();
        add(&mut counts, Part::Whole, EMPTY_TRANSACTIONS, 10, 0, 60);
        add(&mut counts, Part::Whole, EMPTY_CALLS, 10, 80, 60 + 400);
        add(&mut counts, Part::Whole, "payment", 100, 300, 100 * 1000 + 100 * 6 + 300 * 5);
        assert_eq!(counts.probe(Part::Whole).unwrap(), (6, 5));
        let count = counts.count(Part::Whole, "payment").unwrap();
        assert_eq!((count.instructions, count.probes), (100_000, 2_100));
        assert_eq!(count.per_transaction(), 1000.0);
        assert_eq!(counts.groups(), ["payment"]);
        counts.add("some other dump", 1).unwrap();
        assert_eq!(counts.groups(), ["payment"]);
    }

    #[test]
    fn counts_with_something_else_in_them_are_refused() {
        let mut counts = Counts::default();
        add(&mut counts, Part::Whole, EMPTY_TRANSACTIONS, 10, 0, 61);
        add(&mut counts, Part::Whole, "payment", 100, 300, 100_000);
        let error = counts.count(Part::Whole, "payment").unwrap_err();
        assert!(error.to_string().contains("10 empty probes of whole cost 61"), "{error}");
        assert!(counts.count(Part::Category(Category::Pin), "payment").is_err());
        let label = Label { part: Part::Whole, group: "payment", tally: Tally::default() };
        assert!(counts.add(&label.to_string(), 1).is_err(), "counted twice");
    }

    #[test]
    fn a_breakdown_needs_the_same_transactions_everywhere() {
        let mut counts = Counts::default();
        for part in Part::ALL {
            add(&mut counts, part, EMPTY_TRANSACTIONS, 1, 0, 0);
            add(&mut counts, part, EMPTY_CALLS, 1, 8, 0);
            let (calls, ir) = match part {
                Part::Whole => (0, 75),
                Part::Probed => (20, 81),
                Part::Category(_) => (20, 10),
            };
            add(&mut counts, part, "payment", 10, calls, ir);
            add(&mut counts, part, "delivery", 10 + u64::from(part == Part::Whole), 0, ir);
            let pin = part == Part::Category(Category::Pin);
            add(&mut counts, part, "new_order", 10, 5 + u64::from(pin), ir);
        }
        let breakdown = counts.breakdown("payment").unwrap();
        assert_eq!(breakdown.tally.calls[Category::Lookup as usize], 20);
        assert!((breakdown.sum_error_percent() - 100.0 / 81.0).abs() < 1e-9);
        assert!((breakdown.probe_effect_percent() - 8.0).abs() < 1e-9);
        assert!(counts.breakdown("delivery").is_err());
        let error = counts.breakdown("new_order").unwrap_err().to_string();
        assert!(error.contains("pin of new_order was counted on other calls"), "{error}");
    }
}
