//! `cargo xtask crashes`: random transactions of the paged store, with crashes at any call to the disk.
//!
//! The model test of the storage crate (`paged/store/tests/crashes/`), built with optimisation and with its
//! assertions: half of the cases with pages that are read and written back, half with all pages in memory. A run of
//! all checks has the first 10,000.

use std::path::Path;

use serde::Serialize;

use crate::failure::Failure;
use crate::invocation::Invocation;
use crate::options::Options;
use crate::provenance::{stamped, tenths};
use crate::stopwatch::Stopwatch;

const DEFAULT_CASES: u64 = 300_000;

/// The tests that run the cases.
const TESTS: [&str; 2] =
    ["what_committed_is_there_after_any_crash", "the_same_where_all_pages_stay_in_memory"];

/// The result: every case ended with what had committed.
#[derive(Serialize)]
struct Row {
    command: &'static str,
    cases: u64,
    /// The number of the first one of each test.
    first: u64,
    failed: u64,
    wall_s: f64,
}

/// Runs cases, as the options in `words` say; the result is one line of JSON.
pub(crate) fn run(root: &Path, words: &[&str]) -> Result<(), Failure> {
    let given = Options::read("crashes", &["--cases", "--first"], words)?;
    let (cases, first) = (given.number("--cases", DEFAULT_CASES)?, given.number("--first", 0)?);
    let start = Stopwatch::start();
    let each = cases.div_ceil(TESTS.len() as u64);
    let call = call(each, first);
    eprintln!("xtask: {call}");
    let outcome = call.run(root).map_err(Failure::machine)?;
    if !outcome.success || outcome.tests_passed != TESTS.len() as u64 {
        return Err(Failure::check("a database is not what had committed: see the case above"));
    }
    let (command, wall_s) = ("cargo xtask crashes", tenths(start.elapsed().as_secs_f64()));
    let row = Row { command, cases: each * TESTS.len() as u64, first, failed: 0, wall_s };
    println!("{}", stamped(root, row));
    Ok(())
}

fn call(each: u64, first: u64) -> Invocation {
    Invocation::cargo("test --profile quick -p tombolo-storage --lib -- --nocapture")
        .with(TESTS.map(String::from))
        .env("TOMBOLO_CRASH_CASES", each.to_string())
        .env("TOMBOLO_CRASH_FIRST", first.to_string())
        .env("CARGO_PROFILE_QUICK_DEBUG_ASSERTIONS", "true")
}

#[cfg(test)]
mod tests {
    use super::{Path, TESTS, run};

    #[test]
    fn every_test_exists() {
        let model = "../crates/tombolo-storage/src/paged/store/tests/crashes/mod.rs";
        let text =
            std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(model)).unwrap();
        for test in TESTS {
            assert!(text.contains(&format!("fn {test}()")), "{test}");
        }
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for words in [&["--cases"][..], &["--cases", "x"], &["--seeds", "1"]] {
            assert_eq!(run(Path::new("."), words).unwrap_err().status(), 2, "{words:?}");
        }
    }
}
