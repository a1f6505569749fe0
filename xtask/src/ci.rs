//! `cargo xtask ci`: every check a change has to pass, in one order, with a table at the end.
//!
//! Cheap steps come first, so that most mistakes show within seconds. The first failure ends the run with exit
//! status 1 and names the command that repeats only it. The whole list has 30 minutes on two cores, therefore:
//! one release build, which the command's tests use too; and one set of features for the other test steps, without
//! the workload in all profiles, which takes minutes to compile — cargo then reuses every object for the doctests.
//!
//! It does not retry: a check that fails now and then is a defect to mend.

use crate::Failure;
use crate::invocation::{Invocation, Outcome};
use std::path::Path;
use std::time::{Duration, Instant};

/// The budget of the whole list on the two cores of the build machine.
const BUDGET: Duration = Duration::from_secs(30 * 60);

/// One check: its name for `--only`, what it shows, and what it runs.
pub(crate) struct Step {
    name: &'static str,
    shows: &'static str,
    action: Action,
}

enum Action {
    /// Another program; `None` when there is nothing for it to do yet.
    Call(fn(&Path) -> Option<Invocation>),
    /// The tidy rules, in this process.
    Tidy,
}

static STEPS: [Step; 13] = [
    Step { name: "fmt", shows: "the code has the one format", action: Action::Call(fmt) },
    Step { name: "tidy", shows: "the rules no compiler knows hold", action: Action::Tidy },
    Step {
        name: "python",
        shows: "verify_dump.py finds what it must find",
        action: Action::Call(python),
    },
    Step {
        name: "clippy",
        shows: "no lint speaks, with every feature",
        action: Action::Call(clippy),
    },
    Step {
        name: "doc",
        shows: "the documentation builds, its links hold",
        action: Action::Call(doc),
    },
    Step { name: "release", shows: "the command builds as shipped", action: Action::Call(release) },
    Step { name: "test", shows: "the crates do what they say", action: Action::Call(test) },
    Step {
        name: "doctest",
        shows: "the examples in the documentation run",
        action: Action::Call(doctest),
    },
    Step {
        name: "commands",
        shows: "the command line does what it says",
        action: Action::Call(commands),
    },
    Step {
        name: "kills",
        shows: "100 processes killed, starved or spoilt lose nothing they answered",
        action: Action::Call(kills),
    },
    Step {
        name: "trace",
        shows: "one fdatasync per flush, and no answer before it, by system calls",
        action: Action::Call(trace),
    },
    Step {
        name: "sim",
        shows: "10,000 simulated worlds of crashes and lies hold every rule",
        action: Action::Call(sim),
    },
    Step {
        name: "features",
        shows: "other engines hold the same rows; components do their work or none",
        action: Action::Call(features),
    },
];

fn fmt(_: &Path) -> Option<Invocation> {
    Some(Invocation::cargo("fmt --all -- --check"))
}

fn python(_: &Path) -> Option<Invocation> {
    // -B: a check leaves no byte code behind.
    Some(Invocation::new("python3", &["-B", "xtask/test_verify_dump.py"]))
}

fn clippy(_: &Path) -> Option<Invocation> {
    Some(Invocation::cargo("clippy --workspace --all-targets --all-features -- -D warnings"))
}

fn doc(_: &Path) -> Option<Invocation> {
    let call = Invocation::cargo("doc --workspace --no-deps --all-features");
    Some(call.env("RUSTDOCFLAGS", "-D warnings"))
}

fn release(_: &Path) -> Option<Invocation> {
    Some(Invocation::cargo("build --release -p tombolo"))
}

/// Everything with the few profiles; the command is a feature of its package.
const WITH_COMMAND: &str = "test --workspace --no-default-features --features tombolo/command";

/// Whether an integration test is one of the command as it is shipped. The package's library has
/// its own, called after it, which need no release.
fn is_of_the_command(package: &str, name: &str) -> bool {
    package == "tombolo" && !name.starts_with("library")
}

fn test(root: &Path) -> Option<Invocation> {
    let names = integration_tests(root, |package, name| !is_of_the_command(package, name));
    Some(Invocation::cargo(&format!("{WITH_COMMAND} --lib --bins --examples")).with(names))
}

fn doctest(_: &Path) -> Option<Invocation> {
    Some(Invocation::cargo(&format!("{WITH_COMMAND} --doc")))
}

/// The command as it is shipped, in all profiles.
fn commands(root: &Path) -> Option<Invocation> {
    let names = integration_tests(root, is_of_the_command);
    (!names.is_empty()).then(|| Invocation::cargo("test --release -p tombolo").with(names))
}

/// The command as it is shipped, killed.
fn kills(root: &Path) -> Option<Invocation> {
    let is_there = root.join("crates/tombolo").is_dir();
    is_there.then(|| Invocation::cargo("xtask kills"))
}

/// The command as it is shipped, its system calls looked at.
fn trace(root: &Path) -> Option<Invocation> {
    let is_there = root.join("crates/tombolo").is_dir();
    is_there.then(|| Invocation::cargo("xtask trace"))
}

/// By its own name, so that a person who repeats it types the same.
fn sim(root: &Path) -> Option<Invocation> {
    let is_there = root.join("crates/tombolo-sim").is_dir();
    is_there.then(|| Invocation::cargo("xtask sim"))
}

/// Features that nobody else builds: peers, and counters of work. What depends on them is built again.
fn features(_: &Path) -> Option<Invocation> {
    Some(Invocation::cargo(
        "test -p tombolo-lab --features compare-sqlite,probe --lib -- compare work",
    ))
}

/// `--test NAME` for each integration test asked for, by package and name, in order of name.
fn integration_tests(root: &Path, wanted: impl Fn(&str, &str) -> bool) -> Vec<String> {
    let mut names = Vec::new();
    for package in entries(&root.join("crates")) {
        let folder = root.join("crates").join(&package).join("tests");
        for entry in entries(&folder) {
            let is_folder_test = folder.join(&entry).join("main.rs").is_file();
            let name = match entry.strip_suffix(".rs") {
                Some(name) => name.to_string(),
                None if is_folder_test => entry,
                None => continue,
            };
            if wanted(&package, &name) {
                names.push(name);
            }
        }
    }
    names.sort();
    names.dedup();
    names.into_iter().flat_map(|name| ["--test".to_string(), name]).collect()
}

fn entries(folder: &Path) -> Vec<String> {
    let names = std::fs::read_dir(folder).into_iter().flatten().flatten();
    names.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// Prints the steps and what each shows.
pub(crate) fn list() {
    for step in &STEPS {
        println!("{:<10}{}", step.name, step.shows);
    }
}

/// Reads `--only NAME[,NAME…]`, which may be repeated; nothing means every step.
pub(crate) fn selection(words: &[&str]) -> Result<Vec<&'static str>, Failure> {
    let mut names = Vec::new();
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        let list = match word.strip_prefix("--only") {
            Some("") => rest.next().copied(),
            Some(list) => list.strip_prefix('='),
            None => None,
        };
        let list =
            list.ok_or_else(|| Failure::usage(format!("`{word}`: expected --only STEP[,STEP…]")))?;
        for name in list.split(',') {
            let step = STEPS.iter().find(|step| step.name == name).ok_or_else(|| {
                let known: Vec<&str> = STEPS.iter().map(|step| step.name).collect();
                Failure::usage(format!("no step `{name}`; there are {}", known.join(", ")))
            })?;
            names.push(step.name);
        }
    }
    Ok(names)
}

/// Runs the steps named, or all, in the list's order, up to the first failure.
pub(crate) fn run(root: &Path, only: &[&str]) -> Result<(), Failure> {
    let chosen: Vec<&Step> =
        STEPS.iter().filter(|step| only.is_empty() || only.contains(&step.name)).collect();
    let mut table = Table::default();
    for step in chosen {
        let alone = step.alone(root);
        eprintln!("\nxtask: {} — {}", step.name, alone.as_deref().unwrap_or("nothing to do yet"));
        let clock = Stopwatch::start();
        let outcome = step.run(root);
        let took = clock.elapsed();
        eprintln!("xtask: {} took {}", step.name, minutes(took));
        match outcome {
            Ok(outcome) if outcome.success => {
                let word = if alone.is_some() { "ok" } else { "nothing to do" };
                table.row(step.name, took, word, outcome.tests_passed);
            }
            Ok(Outcome { tests_passed, .. }) => {
                table.row(step.name, took, "FAILED", tests_passed);
                print!("{table}");
                let alone = alone.unwrap_or_default();
                return Err(Failure::check(format!(
                    "step {} failed. Run it alone: {alone} (or cargo xtask ci --only {})",
                    step.name, step.name
                )));
            }
            Err(failure) => {
                table.row(step.name, took, "COULD NOT RUN", 0);
                print!("{table}");
                return Err(failure);
            }
        }
    }
    print!("{table}");
    if table.total > BUDGET {
        eprintln!("xtask: {} is more than the budget of {}", minutes(table.total), minutes(BUDGET));
    }
    Ok(())
}

impl Step {
    /// What a person types to repeat this step.
    fn alone(&self, root: &Path) -> Option<String> {
        match self.action {
            Action::Call(call) => call(root).map(|call| call.to_string()),
            Action::Tidy => Some("cargo xtask tidy".to_string()),
        }
    }

    fn run(&self, root: &Path) -> Result<Outcome, Failure> {
        match self.action {
            Action::Call(call) => match call(root) {
                Some(call) => call.run(root).map_err(|message| {
                    Failure::machine(format!(
                        "{message}; `cargo xtask test` installs what the checks need"
                    ))
                }),
                None => Ok(Outcome { success: true, tests_passed: 0 }),
            },
            Action::Tidy => {
                let findings = crate::tidy::findings(root)?;
                findings.iter().for_each(|finding| println!("{finding}"));
                Ok(Outcome { success: findings.is_empty(), tests_passed: 0 })
            }
        }
    }
}

/// The closing table: a line for each step that ran.
#[derive(Default)]
struct Table {
    rows: String,
    total: Duration,
    tests_passed: u64,
}

impl Table {
    fn row(&mut self, name: &str, took: Duration, word: &str, tests_passed: u64) {
        self.total += took;
        self.tests_passed += tests_passed;
        self.rows += &line(name, took, word, tests_passed);
    }
}

fn line(name: &str, took: Duration, word: &str, tests_passed: u64) -> String {
    let tests = format!("{tests_passed} tests passed");
    let words = [word, &tests].into_iter().take(1 + usize::from(tests_passed > 0));
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    format!("{name:<10}{:>8}  {}", minutes(took), words.join(", ")).trim_end().to_string() + "\n"
}

impl std::fmt::Display for Table {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "\n{}{}", self.rows, line("total", self.total, "", self.tests_passed))
    }
}

fn minutes(duration: Duration) -> String {
    let tenths = duration.as_millis() / 100;
    format!("{}:{:02}.{}", tenths / 600, tenths / 10 % 60, tenths % 10)
}

/// How long a chore took: the one place in this program that reads a clock.
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    #[expect(
        clippy::disallowed_methods,
        reason = "a chore tells how long it took; no engine runs here"
    )]
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use super::{STEPS, Table, integration_tests, is_of_the_command, minutes, run, selection};
    use crate::tidy::scratch::Scratch;
    use std::time::Duration;

    #[test]
    fn steps_are_chosen_by_name() {
        assert_eq!(selection(&[]).unwrap(), Vec::<&str>::new());
        assert_eq!(selection(&["--only", "tidy,fmt"]).unwrap(), ["tidy", "fmt"]);
        assert_eq!(selection(&["--only=doc", "--only", "test"]).unwrap(), ["doc", "test"]);
        for bad in [&["--only"][..], &["--only", "nonsense"], &["tidy"], &["--onlytidy"]] {
            assert!(selection(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn step_names_differ() {
        let mut names: Vec<&str> = STEPS.iter().map(|step| step.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), STEPS.len());
    }

    #[test]
    fn integration_tests_are_found_by_package() {
        let scratch = Scratch::new(&[
            ("crates/tombolo/tests/cli.rs", ""),
            ("crates/tombolo/tests/demo/main.rs", ""),
            ("crates/tombolo/tests/common/mod.rs", ""),
            ("crates/tombolo/tests/library/main.rs", ""),
            ("crates/tombolo-storage/tests/model.rs", ""),
        ]);
        let names =
            |wanted: fn(&str, &str) -> bool| integration_tests(scratch.root(), wanted).join(" ");
        assert_eq!(names(is_of_the_command), "--test cli --test demo");
        let others = names(|package, name| !is_of_the_command(package, name));
        assert_eq!(others, "--test library --test model");
    }

    /// Cargo selects tests by name alone: the command's would run a second time, as built for tests.
    #[test]
    fn no_test_of_the_command_has_the_name_of_another() {
        let root = crate::repository_root();
        let of_the_command = integration_tests(&root, is_of_the_command);
        let mut others =
            integration_tests(&root, |package, name| !is_of_the_command(package, name));
        assert!(of_the_command.len() > 2 && others.len() > 2, "tests were found");
        others.retain(|name| name != "--test" && of_the_command.contains(name));
        assert_eq!(others, [""; 0]);
    }

    #[test]
    fn a_failing_step_ends_the_run_and_is_named() {
        let scratch = Scratch::new(&[("crates/a/src/lib.rs", "no head\n")]);
        let failure = run(scratch.root(), &["tidy"]).unwrap_err();
        assert_eq!(failure.status, 1);
        assert!(failure.message.contains("Run it alone: cargo xtask tidy"), "{}", failure.message);
    }

    #[test]
    fn the_table_adds_up() {
        let mut table = Table::default();
        table.row("fmt", Duration::from_millis(1_250), "ok", 0);
        table.row("test", Duration::from_secs(75), "ok", 12);
        let expected = "\nfmt         0:01.2  ok\ntest        1:15.0  ok, 12 tests passed\n\
                        total       1:16.2  12 tests passed\n";
        assert_eq!(table.to_string(), expected);
        assert_eq!(minutes(Duration::from_secs(3_599)), "59:59.0");
    }
}
