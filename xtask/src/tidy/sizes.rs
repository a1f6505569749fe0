//! How long a file may be: 600 lines that are not tests, as a ratchet, and never more than 1,000.
//!
//! A file beyond 600 needs an entry in the exceptions file with its present length, which may only fall.
//! Tests do not count: a long list of cases is not a hard file.

use super::exceptions::{self, Exceptions};
use super::modules;
use super::tree::{RustFile, Tree};
use crate::findings::Findings;

/// A file one reads in one sitting.
const LINES_MAX: usize = 600;

/// No exception reaches further.
const LINES_HARD_MAX: usize = 1_000;

const SPLIT: &str = "split it by idea, not by length";

/// No file is too long, and no exception stands longer than it is needed.
pub(crate) fn lines(tree: &Tree, findings: &mut Findings) {
    let tests = modules::reached(tree);
    let exceptions = Exceptions::read(tree);
    for file in tree.rust.values() {
        let is_test = tests.get(&file.path).copied().unwrap_or(false) || is_test_path(&file.path);
        let count = if is_test { 0 } else { lines_of_code(file) };
        let granted = exceptions.lines.get(&file.path);
        if count > LINES_HARD_MAX {
            let problem =
                format!("{count} lines without tests; {LINES_HARD_MAX} is the hard limit");
            findings.add(&file.path, 1, problem, SPLIT);
        } else if count > LINES_MAX && granted.is_none_or(|(granted, _)| count > *granted) {
            let limit = granted.map_or(LINES_MAX, |(granted, _)| *granted);
            let problem = format!("{count} lines without tests, more than {limit}");
            findings.add(&file.path, 1, problem, SPLIT);
        }
        if let Some((granted, line)) = granted
            && count < *granted
        {
            let problem =
                format!("{} has {count} lines now, fewer than the {granted} granted", file.path);
            findings.add(
                exceptions::PATH,
                *line,
                problem,
                "lower the number, or remove the entry at 600",
            );
        }
    }
    for (path, (_, line)) in
        exceptions.lines.iter().filter(|(path, _)| !tree.rust.contains_key(*path))
    {
        findings.add(exceptions::PATH, *line, format!("{path} does not exist"), "remove the entry");
    }
}

/// Files that are tests by their place or name.
fn is_test_path(path: &str) -> bool {
    let folders_and_name: Vec<&str> = path.split('/').collect();
    let (name, folders) = folders_and_name.split_last().unwrap_or((&path, &[]));
    folders.iter().any(|folder| ["tests", "benches"].contains(folder)) || *name == "tests.rs"
}

fn lines_of_code(file: &RustFile) -> usize {
    let mut at = 0;
    let mut count = 0;
    for line in file.text.split_inclusive('\n') {
        count += usize::from(!file.in_test_item(at));
        at += line.len();
    }
    count
}
