//! One call of another program: built once, displayed as a person would type it, run in the repository root.
//!
//! The same value is printed and run, so that "run it alone" is always right. The output goes either
//! to the terminal or to a file.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::failure::Failure;
use crate::process::{end_with_children, sleep, words};

/// The polling interval for a program that runs in parallel with others.
const LOOK: Duration = Duration::from_millis(20);

/// A program, its arguments and the environment that differs from ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Invocation {
    program: Program,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Program {
    Cargo,
    /// This program: `cargo xtask`, but without building it again, which would wait for other builds.
    Ourselves,
    Other(String),
}

/// The result of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) success: bool,
    pub(crate) tests_passed: u64,
}

impl Invocation {
    pub(crate) fn new(program: &str, arguments: &[&str]) -> Self {
        let arguments = arguments.iter().map(ToString::to_string).collect();
        Self::of(Program::Other(program.to_string()), arguments)
    }

    fn of(program: Program, arguments: Vec<String>) -> Self {
        Self { program, arguments, environment: Vec::new() }
    }

    /// `cargo` with these arguments, separated by spaces.
    pub(crate) fn cargo(arguments: &str) -> Self {
        Self::of(Program::Cargo, words(arguments))
    }

    /// `cargo xtask` with these arguments, separated by spaces.
    pub(crate) fn xtask(arguments: &str) -> Self {
        Self::of(Program::Ourselves, words(arguments))
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

    /// The same; a program that fails is a failure of the chore.
    pub(crate) fn succeed(&self, root: &Path) -> Result<Outcome, Failure> {
        let outcome = self.run(root).map_err(Failure::machine)?;
        match outcome.success {
            true => Ok(outcome),
            false => Err(Failure::check(format!("`{self}` failed; see above"))),
        }
    }

    /// The same with what it prints in `terminal`.
    pub(crate) fn run_into(
        &self,
        root: &Path,
        terminal: &mut impl Write,
    ) -> Result<Outcome, String> {
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

    /// Runs to the end with all output in `file`, and adds up the reports of the test harnesses; `None` if `stop`,
    /// which is given the number of the process, requested to kill it.
    pub(crate) fn run_into_file(
        &self,
        root: &Path,
        file: &Path,
        stop: &dyn Fn(u32) -> bool,
    ) -> Result<Option<Outcome>, String> {
        let failed = |error: std::io::Error| format!("cannot run `{self}`: {error}");
        let mut options = std::fs::OpenOptions::new();
        let out = options.write(true).create(true).truncate(true).open(file).map_err(failed)?;
        let err = out.try_clone().map_err(failed)?;
        let mut command = self.command(root);
        command.stdin(Stdio::null()).stdout(out).stderr(err);
        let mut child = command.spawn().map_err(failed)?;
        let status = loop {
            if let Some(status) = child.try_wait().map_err(failed)? {
                break status;
            }
            if stop(child.id()) {
                end_with_children(child.id());
                child.wait().map_err(failed)?;
                return Ok(None);
            }
            sleep(LOOK);
        };
        let said = std::fs::read(file).map_err(failed)?;
        let tests_passed = String::from_utf8_lossy(&said).lines().filter_map(passed_in).sum();
        Ok(Some(Outcome { success: status.success(), tests_passed }))
    }

    fn command(&self, root: &Path) -> Command {
        let program = match &self.program {
            // Under `cargo xtask` the variable names the very cargo that called us, whatever PATH says.
            Program::Cargo => std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")),
            // Also when the file was replaced meanwhile.
            Program::Ourselves => OsString::from("/proc/self/exe"),
            Program::Other(name) => OsString::from(name),
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
        out.write_str(match &self.program {
            Program::Cargo => "cargo",
            Program::Ourselves => "cargo xtask",
            Program::Other(name) => name,
        })?;
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
        assert_eq!(Invocation::xtask("sim --seeds 5").to_string(), "cargo xtask sim --seeds 5");
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
