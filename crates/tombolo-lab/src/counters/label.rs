//! The name of a dump: how a counted process reports to its parent what a count is, and of how many
//! transactions.
//!
//! `tombolo GROUP TRANSACTIONS`: a count and the number needed to interpret it arrive in one line
//! of callgrind's file, so they cannot be paired wrongly.

use std::fmt;

/// The group of the run of empty transactions.
pub(super) const EMPTY_TRANSACTIONS: &str = "(empty-transactions)";

/// The content of a dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Label<'a> {
    pub(super) group: &'a str,
    pub(super) transactions: u64,
}

impl fmt::Display for Label<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tombolo {} {}", self.group, self.transactions)
    }
}

impl<'a> Label<'a> {
    /// Reads what `Display` writes; anything else is some other dump's name.
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        let fields: Vec<&str> = text.split(' ').collect();
        let ["tombolo", group, transactions] = fields[..] else { return None };
        Some(Self { group, transactions: transactions.parse().ok()? })
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
        for (group, transactions) in [("new_order", 0), (EMPTY_TRANSACTIONS, u64::MAX)] {
            let label = Label { group, transactions };
            assert_eq!(Label::parse(&label.to_string()), Some(label));
        }
    }

    #[test]
    fn other_dumps_are_not_labels() {
        for text in ["", "tombolo", "tombolo g", "tombolo g x", "tombolo g 1 2", "other g 1"] {
            assert_eq!(Label::parse(text), None, "{text}");
        }
        assert!(is_group_name("new_order"));
        assert!(!is_group_name("new order") && !is_group_name("") && !is_group_name("(x)"));
    }
}
