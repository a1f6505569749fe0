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
use crate::provenance::stamped;

/// The options of the command line.
#[derive(Debug, Default, PartialEq, Eq)]
struct Options<'w> {
    /// The program; built if none is given.
    program: Option<&'w str>,
    /// A file for the lines, in addition to standard output.
    out: Option<&'w str>,
    /// The directory of the database, in place of the target folder.
    directory: Option<&'w str>,
    /// The example's own.
    rest: Vec<&'w str>,
}

fn options<'w>(words: &[&'w str]) -> Result<Options<'w>, Failure> {
    let mut options = Options::default();
    let mut words = words.iter().copied();
    while let Some(flag) = words.next() {
        let value = words.next();
        let value = value.ok_or_else(|| Failure::usage(format!("soak: {flag} needs a value")))?;
        match flag {
            "--program" => options.program = Some(value),
            "--out" => options.out = Some(value),
            "--directory" => options.directory = Some(value),
            "--seconds" | "--threads" => options.rest.extend([flag, value]),
            _ => {
                return Err(Failure::usage(format!(
                    "soak: no option {flag}; there are --seconds --threads --directory --program --out"
                )));
            }
        }
    }
    Ok(options)
}

/// Runs the example, with the options in `words`.
pub(crate) fn run(root: &Path, words: &[&str]) -> Result<(), Failure> {
    let options = options(words)?;
    let program = match options.program {
        Some(program) => PathBuf::from(program),
        None => build(root)?,
    };
    let directory =
        options.directory.map_or_else(|| target_folder(root).join("soak"), PathBuf::from);
    let ended = Command::new(&program)
        .args(&options.rest)
        .arg(&directory)
        .current_dir(root)
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| Failure::machine(format!("cannot run {}: {error}", program.display())))?;
    let lines = String::from_utf8_lossy(&ended.stdout);
    let lines: String = lines.lines().map(|line| row(root, line) + "\n").collect();
    print!("{lines}");
    if let Some(path) = options.out {
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

/// Builds the example; returns its path.
fn build(root: &Path) -> Result<PathBuf, Failure> {
    let call = "build --release --quiet -p tombolo --example soak";
    let call = Invocation::cargo(call);
    match call.run(root) {
        Ok(outcome) if outcome.success => Ok(program(root)),
        Ok(_) => Err(Failure::check(format!("`{call}` failed"))),
        Err(message) => Err(Failure::machine(message)),
    }
}

/// The example's path after a build as shipped.
pub(crate) fn program(root: &Path) -> PathBuf {
    target_folder(root).join("release").join("examples").join("soak")
}

#[cfg(test)]
mod tests {
    use super::{Options, options};

    #[test]
    fn options_are_read_and_passed_on() {
        assert_eq!(options(&[]).unwrap(), Options::default());
        let read = options(&["--seconds", "5", "--out", "x.jsonl", "--threads", "8"]).unwrap();
        let expected = vec!["--seconds", "5", "--threads", "8"];
        assert_eq!((read.out, read.rest), (Some("x.jsonl"), expected));
        for bad in [&["--seconds"][..], &["--frob", "1"], &["7"]] {
            assert_eq!(options(bad).unwrap_err().status(), 2, "{bad:?}");
        }
    }
}
