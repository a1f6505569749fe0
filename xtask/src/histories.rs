//! `cargo xtask histories`: what concurrent transactions on real threads saw, judged by what they were promised.
//!
//! Tests of both stores, built with optimisation: sessions of the paged store at each isolation level, callers of
//! the library in memory and durable, on one engine and on several islands. A run of all checks has one short history
//! of each (`crates/tombolo-storage/tests/histories.rs`; `histories.rs`, `islands_histories.rs` and `paged_islands.rs`
//! in `crates/tombolo/tests/library`).

use std::path::Path;

use serde::Serialize;

use crate::failure::Failure;
use crate::invocation::Invocation;
use crate::options::Options;
use crate::provenance::{stamped, tenths};
use crate::stopwatch::Stopwatch;

/// Histories of each kind by default, and transactions of each.
const DEFAULTS: (u64, u64) = (50, 10_000);

/// Calls of cargo, each with the kinds that it judges, a test for each.
const CALLS: [(&str, &[&str]); 2] = [
    (
        "test --release -p tombolo-storage --test histories -- sessions_on_threads --nocapture --test-threads 1",
        &["paged, serializable", "paged, read committed"],
    ),
    (
        "test --release -p tombolo --test library -- one_order_explains --nocapture --test-threads 1",
        &[
            "memory, volatile",
            "memory, durable",
            "islands, volatile",
            "islands, durable",
            "islands, ordered",
            "islands, paged",
        ],
    ),
];

/// The result: every history is proved to be what was promised.
#[derive(Serialize)]
struct Row {
    command: &'static str,
    histories_of_each_kind: String,
    transactions_of_each: String,
    kinds: Vec<&'static str>,
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
        if !outcome.success || outcome.tests_passed != kinds.len() as u64 {
            return Err(Failure::check("a history is not what was promised: see above"));
        }
    }
    let row = Row {
        command: "cargo xtask histories",
        histories_of_each_kind: histories,
        transactions_of_each: transactions,
        kinds: CALLS.iter().flat_map(|(_, kinds)| *kinds).copied().collect(),
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
    use std::fs;
    use std::path::Path;

    use super::{CALLS, options};

    #[test]
    fn every_kind_has_a_test_and_every_test_a_kind() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let tests = |folder: &str, name: &str| {
            let files = fs::read_dir(root.join(folder)).unwrap().map(|file| file.unwrap().path());
            let rust = files.filter(|path| path.extension().is_some_and(|of| of == "rs"));
            rust.map(|path| fs::read_to_string(path).unwrap().matches(name).count()).sum::<usize>()
        };
        let [(_, sessions), (_, callers)] = CALLS;
        let of_sessions = tests("crates/tombolo-storage/tests", "fn sessions_on_threads");
        let of_callers = tests("crates/tombolo/tests/library", "fn one_order_explains");
        assert_eq!((of_sessions, of_callers), (sessions.len(), callers.len()));
    }

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
