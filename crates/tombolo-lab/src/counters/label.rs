//! The name of a dump: how a counted process tells its parent what a count is, and how many probes
//! are in it.
//!
//! `tombolo PART GROUP TRANSACTIONS CALLS,…`: a count and the numbers needed to interpret it arrive
//! in one line of callgrind's file, so they cannot be paired wrongly.

use super::{Category, Part, Tally};
use std::fmt;

/// The group of the run of empty transactions.
pub(super) const EMPTY_TRANSACTIONS: &str = "(empty-transactions)";
/// The group of the run of transactions with nothing but empty calls in them.
pub(super) const EMPTY_CALLS: &str = "(empty-calls)";

/// What a dump holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Label<'a> {
    pub(super) part: Part,
    pub(super) group: &'a str,
    pub(super) tally: Tally,
}

impl fmt::Display for Label<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tombolo {} {} {} ", self.part, self.group, self.tally.transactions)?;
        for (at, calls) in self.tally.calls.iter().enumerate() {
            write!(f, "{}{calls}", if at == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl<'a> Label<'a> {
    /// Reads what `Display` writes; anything else is some other dump's name.
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        let fields: Vec<&str> = text.split(' ').collect();
        let ["tombolo", part, group, transactions, calls] = fields[..] else { return None };
        let calls: Vec<u64> =
            calls.split(',').map(|calls| calls.parse().ok()).collect::<Option<_>>()?;
        let calls: [u64; Category::CALLS] = calls.try_into().ok()?;
        let tally = Tally { transactions: transactions.parse().ok()?, calls };
        Some(Self { part: Part::from_name(part)?, group, tally })
    }
}

/// Whether `name` may be the name of a group: it has to survive a line of callgrind's file.
pub(super) fn is_group_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    !name.is_empty() && name.len() <= 64 && name.bytes().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_survive_the_way() {
        for part in Part::ALL {
            let tally = Tally { transactions: u64::MAX, calls: [0, 1, 2, 3, 4, 5, u64::MAX] };
            let label = Label { part, group: "new_order", tally };
            assert_eq!(Label::parse(&label.to_string()), Some(label));
        }
    }

    #[test]
    fn other_dumps_are_not_labels() {
        for text in ["", "tombolo", "tombolo whole g 1 1,2,3", "tombolo what g 1 1,2,3,4,5,6,7"] {
            assert_eq!(Label::parse(text), None, "{text}");
        }
        assert!(is_group_name("new_order"));
        assert!(!is_group_name("new order") && !is_group_name("") && !is_group_name("(x)"));
    }
}
