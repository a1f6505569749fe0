//! The exceptions file: what is allowed to break a rule, each with its reason, and only there.
//!
//! One entry per line: `lines PATH COUNT` for a file that is too long, `circle PATH COUNT` for files in more than one
//! folder that need each other, `subject HASH REASON` for a published commit whose subject cannot be corrected any
//! more. `#` starts a comment.

use super::text::numbered;
use super::tree::Tree;
use crate::findings::Findings;
use std::collections::BTreeMap;

/// Where the exceptions are.
pub(crate) const PATH: &str = "xtask/exceptions.txt";

/// The entries, with the line each stands on.
#[derive(Default)]
pub(crate) struct Exceptions {
    pub(crate) lines: BTreeMap<String, (usize, usize)>,
    pub(crate) circles: BTreeMap<String, (usize, usize)>,
    pub(crate) subjects: BTreeMap<String, usize>,
    malformed: Vec<usize>,
}

impl Exceptions {
    pub(crate) fn read(tree: &Tree) -> Self {
        let mut exceptions = Self::default();
        for (number, line) in numbered(tree.text(PATH).unwrap_or_default()) {
            let entry = line.split('#').next().unwrap_or_default();
            match entry.split_whitespace().collect::<Vec<_>>()[..] {
                [] => {}
                [kind @ ("lines" | "circle"), path, count] if count.parse::<usize>().is_ok() => {
                    let count = count.parse().unwrap_or_default();
                    let granted = match kind {
                        "lines" => &mut exceptions.lines,
                        _ => &mut exceptions.circles,
                    };
                    granted.insert(path.to_string(), (count, number));
                }
                ["subject", hash, _, ..] if hash.len() >= 7 => {
                    exceptions.subjects.insert(hash.to_string(), number);
                }
                _ => exceptions.malformed.push(number),
            }
        }
        exceptions
    }

    /// Whether the commit is listed, by any prefix of its hash of seven digits or more.
    pub(crate) fn allows_subject_of(&self, hash: &str) -> bool {
        self.subjects.keys().any(|listed| hash.starts_with(listed.as_str()))
    }
}

/// Every line of the exceptions file is understood.
pub(crate) fn well_formed(tree: &Tree, findings: &mut Findings) {
    for line in Exceptions::read(tree).malformed {
        findings.add(
            PATH,
            line,
            "not an exception",
            "write `lines PATH COUNT`, `circle PATH COUNT` or `subject HASH REASON`",
        );
    }
}
