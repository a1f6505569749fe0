//! `cargo xtask soak`: twenty threads call while others submit, add an index, sum all accounts and take backups.
//!
//! Builds the library's example `soak` with optimisation and without the command, unless `--program` is given, and runs
//! it in a directory of its own. The load and its checks are the example's (`crates/tombolo/examples/soak/`). Its
//! lines, one JSON object for the database in memory and one for the durable one, also go to the file of `--out`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::failure::Failure;
use crate::folders::target_folder;
use crate::invocation::Invocation;
use crate::options::Options;
use crate::provenance::stamped;

const OPTIONS: [&str; 5] = ["--seconds", "--threads", "--directory", "--program", "--out"];

/// Runs the example, with the options in `words`.
pub(crate) fn run(root: &Path, words: &[&str]) -> Result<(), Failure> {
    let given = Options::read("soak", &OPTIONS, words)?;
    let program = match given.get("--program") {
        Some(program) => PathBuf::from(program),
        None => {
            Invocation::cargo("build --release --quiet -p tombolo --example soak").succeed(root)?;
            program(root)
        }
    };
    let directory = given.get("--directory");
    let directory = directory.map_or_else(|| target_folder(root).join("soak"), PathBuf::from);
    // The example's own.
    let passed_on = ["--seconds", "--threads"].into_iter();
    let passed_on = passed_on.filter_map(|flag| Some([flag, given.get(flag)?]));
    let ended = Command::new(&program)
        .args(passed_on.flatten())
        .arg(&directory)
        .current_dir(root)
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| Failure::machine(format!("cannot run {}: {error}", program.display())))?;
    let lines = String::from_utf8_lossy(&ended.stdout);
    let lines: String = lines.lines().map(|line| row(root, line) + "\n").collect();
    print!("{lines}");
    if let Some(path) = given.get("--out") {
        std::fs::write(path, &lines)
            .map_err(|error| Failure::machine(format!("soak: {path}: {error}")))?;
    }
    match ended.status.code() {
        Some(0) => {
            // Remaining files do no harm.
            let _ = std::fs::remove_dir_all(&directory);
            Ok(())
        }
        Some(2) => Err(Failure::usage("soak: see the usage above")),
        _ => Err(Failure::check(format!(
            "soak: see above; its files are in {}",
            directory.display()
        ))),
    }
}

/// A line that the example printed, with commit and machine if it is a row.
fn row(root: &Path, line: &str) -> String {
    let row: Result<serde_json::Map<_, _>, _> = serde_json::from_str(line);
    row.map_or_else(|_| line.to_string(), |row| stamped(root, row))
}

/// The example's path after a build as shipped.
pub(crate) fn program(root: &Path) -> PathBuf {
    target_folder(root).join("release").join("examples").join("soak")
}
