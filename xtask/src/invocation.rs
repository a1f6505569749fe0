//! One call of another program: built once, shown the way a person would type it, run in the repository root.
//!
//! What is printed and what is run come from the same value, so that "run it alone" never lies.
//! It does not capture errors of the program: standard error stays the terminal's.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

/// A program, its arguments and the environment that differs from ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Invocation {
    program: String,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
}

/// What a run came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) success: bool,
    pub(crate) tests_passed: u64,
}

impl Invocation {
    pub(crate) fn new(program: &str, arguments: &[&str]) -> Self {
        let arguments = arguments.iter().map(ToString::to_string).collect();
        Self { program: program.to_string(), arguments, environment: Vec::new() }
    }

    /// `cargo` with these arguments, separated by spaces.
    pub(crate) fn cargo(arguments: &str) -> Self {
        Self::new("cargo", &arguments.split_whitespace().collect::<Vec<_>>())
    }

    pub(crate) fn with(mut self, arguments: impl IntoIterator<Item = String>) -> Self {
        self.arguments.extend(arguments);
        self
    }

    pub(crate) fn env(mut self, name: &str, value: impl Into<String>) -> Self {
        self.environment.push((name.to_string(), value.into()));
        self
    }

    /// Runs to the end, passing standard output through line by line, and adds up what the test harnesses report.
    pub(crate) fn run(&self, root: &Path) -> Result<Outcome, String> {
        self.run_into(root, &mut std::io::stdout().lock())
    }

    fn run_into(&self, root: &Path, terminal: &mut impl Write) -> Result<Outcome, String> {
        let failed = |error: std::io::Error| format!("cannot run `{self}`: {error}");
        let mut child = self.command(root).stdout(Stdio::piped()).spawn().map_err(failed)?;
        let mut tests_passed = 0;
        if let Some(output) = child.stdout.take() {
            for line in BufReader::new(output).split(b'\n') {
                let line = line.map_err(failed)?;
                tests_passed += passed_in(&String::from_utf8_lossy(&line)).unwrap_or(0);
                terminal
                    .write_all(&line)
                    .and_then(|()| terminal.write_all(b"\n"))
                    .map_err(failed)?;
            }
        }
        let success = child.wait().map_err(failed)?.success();
        Ok(Outcome { success, tests_passed })
    }

    fn command(&self, root: &Path) -> Command {
        // Under `cargo xtask` the variable names the very cargo that called us, whatever PATH says.
        let program = match self.program.as_str() {
            "cargo" => std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")),
            other => OsString::from(other),
        };
        let mut command = Command::new(program);
        command.args(&self.arguments).current_dir(root);
        for (name, value) in &self.environment {
            command.env(name, value);
        }
        command
    }
}

impl std::fmt::Display for Invocation {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (name, value) in &self.environment {
            write!(out, "{name}={} ", quoted(value))?;
        }
        write!(out, "{}", self.program)?;
        self.arguments.iter().try_for_each(|argument| write!(out, " {}", quoted(argument)))
    }
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=,:+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_string()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// The number in libtest's closing line, `test result: ok. 12 passed; 0 failed; …`.
fn passed_in(line: &str) -> Option<u64> {
    let (_, counts) = line.strip_prefix("test result: ")?.split_once(". ")?;
    counts.split_once(" passed")?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{Invocation, Outcome, passed_in};
    use std::path::Path;

    #[test]
    fn it_is_shown_as_one_would_type_it() {
        let call = Invocation::cargo("doc --no-deps").env("RUSTDOCFLAGS", "-D warnings");
        assert_eq!(call.to_string(), "RUSTDOCFLAGS='-D warnings' cargo doc --no-deps");
    }

    #[test]
    fn it_passes_output_through_counts_tests_and_reports_failure() {
        let script = "echo 'test result: ok. 3 passed; 0 failed'; echo \"test result: FAILED. 4 passed\"; exit 1";
        let mut shown = Vec::new();
        let outcome =
            Invocation::new("sh", &["-c", script]).run_into(Path::new("/"), &mut shown).unwrap();
        assert_eq!(outcome, Outcome { success: false, tests_passed: 7 });
        assert_eq!(shown, b"test result: ok. 3 passed; 0 failed\ntest result: FAILED. 4 passed\n");
    }

    #[test]
    fn a_missing_program_is_named() {
        let error = Invocation::new("no-such-program", &["x"]).run(Path::new("/")).unwrap_err();
        assert!(error.contains("`no-such-program x`"), "{error}");
    }

    #[test]
    fn only_closing_lines_count() {
        assert_eq!(passed_in("test result: ok. 12 passed; 0 failed; 1 ignored"), Some(12));
        assert_eq!(passed_in("test a::b ... ok"), None);
    }
}
