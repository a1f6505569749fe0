//! `cargo xtask kills --processes N`: kills N processes of islands while callers move money between them.
//!
//! The database is the library's own test (`crates/tombolo/tests/library/islands_processes.rs`, with `--profile
//! conventional` that of paged stores, `paged_islands_processes.rs`): two islands in processes, of which one is killed
//! at a random moment, again and again. What was answered has to be there, money has
//! to be whole, and at the end islands of one process have to find the same in the directory. A run of all checks has
//! 20 kills. Not here: processes that are whole databases (`mod.rs`).

use std::io::Write;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::profile::Profile;
use crate::failure::Failure;
use crate::invocation::Invocation;
use crate::provenance::{stamped, tenths};
use crate::stopwatch::Stopwatch;

const TEST: &str = "killed_processes_lose_nothing_that_was_answered_and_no_money";

/// What the test counts.
#[derive(Debug, PartialEq, Eq, Deserialize, Serialize)]
struct Counts {
    kills: u64,
    /// Processes that were started again: a kill may strike one that has not opened its island yet.
    restarts: u64,
    /// Calls of one island and transactions over both that were answered.
    answered: u64,
    moved: u64,
    /// Transactions over both whose answer was lost.
    lost: u64,
}

#[derive(Serialize)]
struct Row {
    command: String,
    seed: u64,
    #[serde(flatten)]
    counts: Counts,
    failed: u64,
    wall_s: f64,
}

/// Kills so many processes; the result is one line of JSON.
pub(super) fn run(
    root: &Path,
    profile: Profile,
    kills: u64,
    seed: u64,
    out: Option<&str>,
) -> Result<(), Failure> {
    let start = Stopwatch::start();
    let (module, option) = match profile {
        Profile::Memory => ("islands_processes", ""),
        Profile::Conventional => ("paged_islands_processes", " --profile conventional"),
    };
    let test = format!("test -p tombolo --test library -- --nocapture --exact {module}::{TEST}");
    let call = Invocation::cargo(&test)
        .env("TOMBOLO_KILLS", kills.to_string())
        .env("TOMBOLO_SEED", seed.to_string());
    eprintln!("xtask: {call}");
    let mut output = Vec::new();
    let outcome = call.run_into(root, &mut output).map_err(Failure::machine)?;
    let written = std::io::stdout().write_all(&output);
    written.map_err(|error| Failure::machine(format!("kills: {error}")))?;
    if !outcome.success || outcome.tests_passed != 1 {
        return Err(Failure::check("kills: a killed process lost something: see above"));
    }
    let counts = counts(&String::from_utf8_lossy(&output))
        .filter(|counts| counts.kills == kills)
        .ok_or_else(|| Failure::check("kills: the test does not say what it has done"))?;
    let command = format!("cargo xtask kills --processes {kills}{option} --seed {seed}");
    let wall_s = tenths(start.elapsed().as_secs_f64());
    let line = stamped(root, Row { command, seed, counts, failed: 0, wall_s });
    println!("{line}");
    match out {
        Some(path) => std::fs::write(path, format!("{line}\n"))
            .map_err(|error| Failure::machine(format!("kills: {path}: {error}"))),
        None => Ok(()),
    }
}

/// The line that the test has printed.
fn counts(output: &str) -> Option<Counts> {
    output.lines().find_map(|line| serde_json::from_str(line).ok())
}

#[cfg(test)]
mod tests {
    use super::{Counts, counts};

    #[test]
    fn counts_are_found_among_what_a_test_prints() {
        let output = "running 1 test\n\
            {\"kills\": 300, \"restarts\": 288, \"answered\": 5, \"moved\": 4, \"lost\": 3}\n\
            test a ... ok\n";
        let expected = Counts { kills: 300, restarts: 288, answered: 5, moved: 4, lost: 3 };
        assert_eq!(counts(output), Some(expected));
        assert_eq!(counts("{\"kills\": 300}\n"), None);
    }
}
