//! The checks of `ci`, each with its purpose, its lane and the program that it calls.

use std::path::Path;

use crate::failure::Failure;
use crate::findings::Findings;
use crate::invocation::{Invocation, Outcome};

use Action::{Call, Figures, Tidy};
use Lane::{Command, Crates, First, Last};

/// One check: its name for `--only`, its purpose, its lane and its action.
pub(super) struct Step {
    pub(super) name: &'static str,
    pub(super) shows: &'static str,
    pub(super) lane: Lane,
    pub(super) action: Action,
}

/// The lanes, which determine the order of steps. Cargo locks one folder per build profile, so lanes with
/// different profiles do not wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    /// Before all others, one after the other: they take seconds, and most mistakes show there.
    First,
    /// Checked, documented and tested without optimisation across crates: many compilers in parallel.
    Crates,
    /// The command as it is shipped, and the simulator: their tests wait for disks and processes.
    Command,
    /// Each in a build of its own, by the lane that is through first.
    Last,
}

pub(super) enum Action {
    /// Another program; `None` when there is nothing for it to do yet.
    Call(fn(&Path) -> Option<Invocation>),
    /// The tidy rules, in this process.
    Tidy,
    /// Figures in documents against their rows, in this process.
    Figures,
}

/// All steps; those of one lane in the order of execution.
pub(super) static STEPS: [Step; 22] = [
    step(First, "fmt", "the code is formatted", Call(fmt)),
    step(First, "tidy", "the rules that no compiler knows hold", Tidy),
    step(First, "figures", "documents agree with results/", Figures),
    step(First, "python", "verify_dump.py detects planted errors", Call(python)),
    step(Crates, "clippy", "no lint complains, with every feature", Call(clippy)),
    step(Crates, "doc", "the documentation builds, its links are valid", Call(doc)),
    step(
        Crates,
        "test",
        "the crates pass their tests; other engines have the same rows; components do their work or none",
        Call(test),
    ),
    step(Crates, "profiles", "every paged profile has the same rows as a map", Call(profiles)),
    step(Crates, "doctest", "the examples in the documentation run", Call(doctest)),
    step(
        Crates,
        "examples",
        "the library's examples, built without the command, find the rows of earlier runs",
        Call(examples),
    ),
    step(Command, "release", "the command builds as shipped", Call(release)),
    step(Command, "commands", "the command line does what it documents", Call(commands)),
    step(
        Command,
        "kills",
        "100 processes, killed, starved or damaged, lose nothing that they acknowledged",
        Call(kills),
    ),
    step(
        Command,
        "paged-kills",
        "40 processes of the paged store, killed, lose nothing that they acknowledged",
        Call(paged_kills),
    ),
    step(Command, "sim", "10,000 simulated worlds of crashes and lies obey every rule", Call(sim)),
    step(
        Command,
        "islands",
        "10,000 simulated worlds of islands that crash while they commit obey every rule",
        Call(islands),
    ),
    step(
        Command,
        "ordered",
        "4,000 simulated worlds of islands whose logs become durable together obey every rule",
        Call(ordered),
    ),
    step(
        Command,
        "trace",
        "one fdatasync per flush, and no answer before it, by system calls",
        Call(trace),
    ),
    step(
        Command,
        "soak",
        "20 calling threads lose no call and no money, and none starves",
        Call(soak),
    ),
    step(Last, "loom", "shared structures keep their invariants in every interleaving", Call(loom)),
    step(
        Last,
        "shuttle",
        "2,000 random interleavings of sessions are serializable, and 500 survive a crash",
        Call(shuttle),
    ),
    step(Last, "plants", "a sample of the bugs planted on purpose is detected", Call(plants)),
];

const fn step(lane: Lane, name: &'static str, shows: &'static str, action: Action) -> Step {
    Step { name, shows, lane, action }
}

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

/// The command, the simulator and the soak together, so that shared crates are compiled once. Alone, the simulator
/// would need the same crates with other features.
fn release(_: &Path) -> Option<Invocation> {
    Some(Invocation::cargo(
        "build --release -p tombolo-cli -p tombolo -p tombolo-sim --bins --example soak",
    ))
}

/// The crates without the command: one set of features, so that each is compiled once for its own tests
/// and once for the crates above it. No crate here is above the laboratory: TPC-C in all profiles is the command's.
pub(crate) const CRATES: &str = "--workspace --exclude tombolo-cli --exclude tombolo-ladder --no-default-features \
     --features tested";

/// Whether an integration test is of the command, or of the laboratory, as they are shipped.
fn is_of_the_command(package: &str, _: &str) -> bool {
    package == "tombolo-cli" || package == "tombolo-lab"
}

fn test(root: &Path) -> Option<Invocation> {
    let names = integration_tests(root, |package, name| {
        !is_of_the_command(package, name) && name != OF_ALL_PROFILES
    });
    // The only example with tests of its own, which cover its checks.
    let call = format!("test {CRATES} --no-fail-fast --lib --bins --example soak");
    Some(Invocation::cargo(&call).with(names))
}

/// The test that is compiled for every profile of the paged store.
const OF_ALL_PROFILES: &str = "profiles";

/// Not optimised like the other tests of its package: with that it takes four minutes to compile and 15 seconds
/// to run, without it 46 seconds and 26.
fn profiles(root: &Path) -> Option<Invocation> {
    root.join("crates/tombolo-storage").is_dir().then(|| {
        let plain = "--config profile.dev.package.tombolo-storage.opt-level=0";
        Invocation::cargo(&format!("test -p tombolo-storage --test {OF_ALL_PROFILES} {plain}"))
    })
}

fn doctest(_: &Path) -> Option<Invocation> {
    Some(Invocation::cargo(&format!("test {CRATES} --doc")))
}

fn examples(root: &Path) -> Option<Invocation> {
    own(root, "tombolo", "examples")
}

/// The command as shipped, in all profiles, and the laboratory's tests that count instructions and allocations.
fn commands(root: &Path) -> Option<Invocation> {
    let names = integration_tests(root, is_of_the_command);
    let call = "test --release -p tombolo-cli -p tombolo-lab --bin tombolo";
    (!names.is_empty()).then(|| Invocation::cargo(call).with(names))
}

/// The command as shipped, killed.
fn kills(root: &Path) -> Option<Invocation> {
    own(root, "tombolo", "kills")
}

/// The same of its other store.
fn paged_kills(root: &Path) -> Option<Invocation> {
    let paged = ["--profile", "conventional", "--count", "40"];
    kills(root).map(|call| call.with(paged.map(str::to_string)))
}

/// The command as shipped, with its system calls checked.
fn trace(root: &Path) -> Option<Invocation> {
    own(root, "tombolo", "trace")
}

/// The build of `release`.
fn sim(root: &Path) -> Option<Invocation> {
    let program = crate::folders::target_folder(root).join("release").join("tombolo-sim");
    let named = ["--program".to_string(), program.display().to_string()];
    own(root, "tombolo-sim", "sim").map(|call| call.with(named))
}

/// The same, for a few seconds.
fn islands(root: &Path) -> Option<Invocation> {
    sim(root).map(|call| call.with(["--commit".to_string()]))
}

/// The same; a world of these takes longer than one of a lone database.
fn ordered(root: &Path) -> Option<Invocation> {
    sim(root).map(|call| call.with(["--ordered", "--seeds", "4000"].map(String::from)))
}

/// The simulator in a build of its own, in which bugs can be planted; all of them are for a person to run.
fn plants(root: &Path) -> Option<Invocation> {
    own(root, "tombolo-sim", "sim --plants 6")
}

/// The build of `release`, for a few seconds.
fn soak(root: &Path) -> Option<Invocation> {
    let program = crate::soak::program(root).display().to_string();
    own(root, "tombolo", "soak --seconds 5 --program").map(|call| call.with([program]))
}

fn loom(root: &Path) -> Option<Invocation> {
    own(root, "tombolo-storage", "loom")
}

fn shuttle(root: &Path) -> Option<Invocation> {
    own(root, "tombolo-storage", "shuttle")
}

/// A command of this program, if its package exists.
fn own(root: &Path, package: &str, command: &str) -> Option<Invocation> {
    root.join("crates").join(package).is_dir().then(|| Invocation::xtask(command))
}

/// `--test NAME` for each wanted integration test, by package and name, in order of name.
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

/// Prints the steps with their purposes.
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

impl Step {
    /// The command that repeats this step.
    pub(super) fn alone(&self, root: &Path) -> Option<String> {
        match self.action {
            Call(call) => call(root).map(|call| call.to_string()),
            Tidy => Some("cargo xtask tidy".to_string()),
            Figures => Some("cargo xtask figures --check".to_string()),
        }
    }

    /// Runs it with `run`, which gets the program to call.
    pub(super) fn run(
        &self,
        root: &Path,
        run: impl FnOnce(&Invocation) -> Result<Outcome, String>,
    ) -> Result<Outcome, Failure> {
        let nothing = Outcome { success: true, tests_passed: 0 };
        match self.action {
            Call(call) => call(root).map_or(Ok(nothing), |call| run(&call)).map_err(|message| {
                Failure::machine(format!(
                    "{message}; `cargo xtask test` installs what the checks need"
                ))
            }),
            Tidy => Ok(judged(&crate::tidy::findings(root)?)),
            Figures => Ok(judged(&crate::figures::findings(root)?)),
        }
    }
}

/// Prints the findings; a step with any has failed.
fn judged(findings: &Findings) -> Outcome {
    findings.print();
    Outcome { success: findings.is_empty(), tests_passed: 0 }
}

#[cfg(test)]
mod tests {
    use super::{STEPS, integration_tests, is_of_the_command, selection};
    use crate::tidy::scratch::Scratch;

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
            ("crates/tombolo-cli/tests/cli.rs", ""),
            ("crates/tombolo-cli/tests/demo/main.rs", ""),
            ("crates/tombolo/tests/common/mod.rs", ""),
            ("crates/tombolo/tests/library/main.rs", ""),
            ("crates/tombolo-lab/tests/counters.rs", ""),
            ("crates/tombolo-storage/tests/model.rs", ""),
        ]);
        let names =
            |wanted: fn(&str, &str) -> bool| integration_tests(scratch.root(), wanted).join(" ");
        assert_eq!(names(is_of_the_command), "--test cli --test counters --test demo");
        let others = names(|package, name| !is_of_the_command(package, name));
        assert_eq!(others, "--test library --test model");
    }

    /// Cargo selects tests by name alone: the command's would run a second time, as built for tests.
    #[test]
    fn no_test_of_the_command_has_the_name_of_another() {
        let root = crate::folders::repository_root();
        let of_the_command = integration_tests(&root, is_of_the_command);
        let mut others =
            integration_tests(&root, |package, name| !is_of_the_command(package, name));
        assert!(of_the_command.len() > 1 && others.len() > 2, "tests were found");
        others.retain(|name| name != "--test" && of_the_command.contains(name));
        assert_eq!(others, [""; 0]);
    }
}
