//! `cargo xtask histories`: what concurrent transactions on real threads saw, judged by what they were promised.
//!
//! A test of the paged store's sessions at each isolation level, built with optimisation; a run of all checks has one
//! short history of each (`crates/tombolo-storage/tests/histories.rs`).

use crate::failure::Failure;
use crate::invocation::Invocation;
use std::path::Path;

/// Histories of each kind by default, and transactions of each.
const DEFAULTS: (&str, &str) = ("50", "10000");

const CALL: &str =
    "test --release -p tombolo-storage --test histories -- --nocapture --test-threads 1";

/// Records and judges, with the options in `words`.
pub(crate) fn run(root: &Path, words: &[&str]) -> Result<(), Failure> {
    let (histories, transactions) = options(words)?;
    let call = Invocation::cargo(CALL)
        .env("TOMBOLO_HISTORIES", histories)
        .env("TOMBOLO_TRANSACTIONS", transactions);
    eprintln!("xtask: {call}");
    let outcome = call.run(root).map_err(Failure::machine)?;
    if !outcome.success || outcome.tests_passed == 0 {
        return Err(Failure::check("a history is not what was promised: see above"));
    }
    println!("{histories} histories of {transactions} transactions at each level show no anomaly");
    Ok(())
}

/// How many histories, and of how many transactions.
fn options<'w>(words: &[&'w str]) -> Result<(&'w str, &'w str), Failure> {
    let (mut histories, mut transactions) = DEFAULTS;
    for pair in words.chunks(2) {
        let place = match pair[0] {
            "--histories" => &mut histories,
            "--transactions" => &mut transactions,
            other => {
                return Err(Failure::usage(format!(
                    "histories: unknown option {other}: --histories N, --transactions N"
                )));
            }
        };
        let value = pair.get(1).filter(|value| value.parse::<u64>().is_ok());
        *place = value
            .ok_or_else(|| Failure::usage(format!("histories: {} needs a number", pair[0])))?;
    }
    Ok((histories, transactions))
}

#[cfg(test)]
mod tests {
    use super::{DEFAULTS, options};

    #[test]
    fn options_are_numbers() {
        assert_eq!(options(&[]).unwrap(), DEFAULTS);
        assert_eq!(options(&["--transactions", "9", "--histories", "7"]).unwrap(), ("7", "9"));
        for words in [&["--histories"][..], &["--histories", "x"], &["--seeds", "1"]] {
            assert_eq!(options(words).unwrap_err().status(), 2, "{words:?}");
        }
    }
}
