//! `cargo xtask histories`: what concurrent transactions on real threads saw, judged by what they were promised.
//!
//! Tests of both stores, built with optimisation: sessions of the paged store at each isolation level, callers of
//! the library in memory and durable, on one engine and on several islands. A run of all checks has one short history
//! of each (`crates/tombolo-storage/tests/histories.rs`, `crates/tombolo/tests/library/histories.rs`,
//! `crates/tombolo/tests/library/islands_histories.rs`).

use std::path::Path;

use serde::Serialize;

use crate::failure::Failure;
use crate::invocation::Invocation;
use crate::options::Options;
use crate::provenance::{stamped, tenths};
use crate::stopwatch::Stopwatch;

/// Histories of each kind by default, and transactions of each.
const DEFAULTS: (u64, u64) = (50, 10_000);

/// Calls of cargo, each with the number of kinds that it judges.
const CALLS: [(&str, u64); 2] = [
    ("test --release -p tombolo-storage --test histories -- --nocapture --test-threads 1", 2),
    (
        "test --release -p tombolo --test library -- histories::one_order --nocapture --test-threads 1",
        4,
    ),
];

/// The result: every history is proved to be what was promised.
#[derive(Serialize)]
struct Row {
    command: &'static str,
    histories_of_each_kind: String,
    transactions_of_each: String,
    kinds: [&'static str; 6],
    undecided: u64,
    wall_s: f64,
}

/// Records and judges, with the options in `words`; the result is one line of JSON.
pub(crate) fn run(root: &Path, words: &[&str]) -> Result<(), Failure> {
    let (histories, transactions) = options(words)?;
    let start = Stopwatch::start();
    for (call, kinds) in CALLS {
        let call = Invocation::cargo(call)
            .env("TOMBOLO_HISTORIES", &*histories)
            .env("TOMBOLO_TRANSACTIONS", &*transactions);
        eprintln!("xtask: {call}");
        let outcome = call.run(root).map_err(Failure::machine)?;
        if !outcome.success || outcome.tests_passed != kinds {
            return Err(Failure::check("a history is not what was promised: see above"));
        }
    }
    let row = Row {
        command: "cargo xtask histories",
        histories_of_each_kind: histories,
        transactions_of_each: transactions,
        kinds: [
            "paged, serializable",
            "paged, read committed",
            "memory, volatile",
            "memory, durable",
            "islands, volatile",
            "islands, durable",
        ],
        undecided: 0,
        wall_s: tenths(start.elapsed().as_secs_f64()),
    };
    println!("{}", stamped(root, row));
    Ok(())
}

/// How many histories, and of how many transactions.
fn options(words: &[&str]) -> Result<(String, String), Failure> {
    let given = Options::read("histories", &["--histories", "--transactions"], words)?;
    let (histories, transactions) = DEFAULTS;
    Ok((
        given.number("--histories", histories)?.to_string(),
        given.number("--transactions", transactions)?.to_string(),
    ))
}

#[cfg(test)]
mod tests {
    use super::options;

    #[test]
    fn options_are_numbers() {
        let text = |(a, b): (&str, &str)| (a.to_owned(), b.to_owned());
        assert_eq!(options(&[]).unwrap(), text(("50", "10000")));
        let given = options(&["--transactions", "9", "--histories", "7"]);
        assert_eq!(given.unwrap(), text(("7", "9")));
        for words in [&["--histories"][..], &["--histories", "x"], &["--seeds", "1"]] {
            assert_eq!(options(words).unwrap_err().status(), 2, "{words:?}");
        }
    }
}
