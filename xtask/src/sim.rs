//! `cargo xtask sim`: the engine in simulated worlds, islands that agree by messages (`--commit`) or commit in one
//! order (`--ordered`), and bugs planted to prove that the simulator detects them.
//!
//! Builds `tombolo-sim` with optimisation, unless `--program` is given first, and runs it with the same
//! options. With `--plant` it builds another one, in which bugs can be planted, in a target folder of
//! its own so that other builds are kept; `--plants all` plants one after the other and prints
//! a table, `--plants N` does so with a sample that differs by commit, as each run of the checks does.
//! The worlds and their rules are the simulator's (`crates/tombolo-sim`).

use crate::asan;
use crate::failure::Failure;
use crate::folders::target_folder;
use crate::invocation::Invocation;
use crate::provenance::commit;
use crate::stopwatch::Stopwatch;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Whether bugs can be planted in a build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Build {
    Plain,
    Planted,
    /// The same without optimisation: it builds in a third of the time, which for a sample is most of the time.
    Sampled,
}

impl Build {
    /// The profile's flags for cargo, and the folder of the program.
    fn profile(self) -> (&'static str, &'static str) {
        match self {
            Self::Plain | Self::Planted => ("--profile quick", "quick"),
            Self::Sampled => ("--config profile.dev.package.tombolo-storage.opt-level=0", "debug"),
        }
    }
}

/// Plants that take more than fifty seeds until they are detected: not in samples.
const RARE: [&str; 11] = [
    "added-copy-not-cleared",
    "apart-log-not-read",
    "apart-position-lost",
    "archive-not-waited-for",
    "epoch-not-ended",
    "epoch-not-raised",
    "forgotten-write-failure",
    "reads-not-settled",
    "reservation-skipped",
    "ring-not-in-catalogue-first",
    "tenure-ignored",
];

/// Builds the simulator that `words` need and runs it.
pub(crate) fn run(root: &Path, words: &[&str]) -> Result<(), Failure> {
    match words {
        ["--plant" | "--plants", "all", rest @ ..] => run_plants(root, None, rest),
        ["--plants", number, rest @ ..] => {
            let wrong =
                |_| Failure::usage(format!("sim: --plants {number}: expected all or a number"));
            run_plants(root, Some(number.parse().map_err(wrong)?), rest)
        }
        ["--plants"] => Err(Failure::usage("sim: --plants needs a value: all or a number")),
        ["--program", program, rest @ ..] => run_one(root, Path::new(program), rest),
        _ if words.contains(&"--plant") => {
            let program = build(root, Build::Planted)?;
            run_one(root, &program, words)
        }
        _ => {
            let program = build(root, Build::Plain)?;
            run_one(root, &program, words)
        }
    }
}

fn run_one(root: &Path, program: &Path, words: &[&str]) -> Result<(), Failure> {
    let call = Invocation::new(&program.display().to_string(), words);
    let status = Command::new(program).args(words).current_dir(root).status();
    let status = status.map_err(|error| Failure::machine(format!("cannot run {call}: {error}")))?;
    match status.code() {
        Some(0) => Ok(()),
        Some(2) => Err(Failure::usage("sim: see the options above")),
        _ => Err(Failure::check("sim: see above")),
    }
}

/// Plants bugs in turn, a sample of them if a `number` is given; fails if one is not detected.
fn run_plants(root: &Path, number: Option<usize>, words: &[&str]) -> Result<(), Failure> {
    let program = build(root, if number.is_some() { Build::Sampled } else { Build::Planted })?;
    let list = answer(root, &program, &["--list-plants"])?.text;
    let all: Vec<&str> = list.lines().filter_map(|line| line.split_whitespace().next()).collect();
    let plants = match number {
        Some(number) => sample(&all, number, &commit(root)),
        None => all,
    };
    let mut missed = Vec::new();
    println!("{:<28}{:>8}  noticed by", "plant", "seconds");
    for name in plants {
        let start = Stopwatch::start();
        let answer = answer(root, &program, &[&["--plant", name], words].concat())?;
        let seconds = start.elapsed().as_secs_f64();
        println!("{name:<28}{seconds:>8.1}  {}", noticed(&answer));
        if !answer.success {
            missed.push(name);
        }
    }
    match missed.as_slice() {
        [] => Ok(()),
        missed => Err(Failure::check(format!("sim: not noticed: {}", missed.join(", ")))),
    }
}

/// A sample of `number` plants without the rare ones, spread over the list; the commit determines the first.
fn sample<'a>(all: &[&'a str], number: usize, commit: &str) -> Vec<&'a str> {
    let all: Vec<&str> = all.iter().filter(|name| !RARE.contains(name)).copied().collect();
    let number = number.min(all.len());
    let drawn = u64::from_str_radix(&commit[..commit.len().min(8)], 16).unwrap_or_default();
    let first = drawn as usize % all.len().max(1);
    (0..number).map(|n| all[(first + n * all.len() / number) % all.len()]).collect()
}

/// The output of a program and whether it succeeded.
#[derive(Debug, Default)]
struct Answer {
    text: String,
    success: bool,
}

fn answer(root: &Path, program: &Path, words: &[&str]) -> Result<Answer, Failure> {
    let output = Command::new(program)
        .args(words)
        .current_dir(root)
        // A planted bug may well panic; its message is in the violation.
        .stderr(Stdio::null())
        .output()
        .map_err(|error| Failure::machine(format!("cannot run {}: {error}", program.display())))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(Answer { text, success: output.status.success() })
}

/// The line of the first violation, or the reason that there is none.
fn noticed(answer: &Answer) -> String {
    let line = |start: &str| answer.text.lines().find(|line| line.starts_with(start));
    if answer.success
        && let Some(line) = line("cargo xtask sim --seed")
    {
        let seed = line.split_whitespace().nth(4).unwrap_or_default();
        let what = line.split_once("  # ").map_or("", |(_, what)| what);
        let what: String = what.chars().take(90).collect();
        return format!("seed {seed}, {what}");
    }
    let reason = line("no seed reached").unwrap_or("every seed ran as if nothing were wrong");
    format!("NOT NOTICED: {reason}")
}

/// Builds the simulator; returns the program's path.
fn build(root: &Path, build: Build) -> Result<PathBuf, Failure> {
    let mut folder = target_folder(root);
    let (profile, place) = build.profile();
    let mut call = Invocation::cargo(&format!("build --quiet -p tombolo-sim {profile}"));
    if build != Build::Plain {
        folder = folder.join("planted");
        // RUSTFLAGS replaces the flags of .cargo/config.toml, so they are repeated here.
        let flags = format!("--cfg tombolo_plants {}", asan::workspace_flags(root)?);
        call = call.env("RUSTFLAGS", flags.trim_end());
    }
    let call = call.with(["--target-dir".to_string(), folder.display().to_string()]);
    call.succeed(root)?;
    Ok(folder.join(place).join("tombolo-sim"))
}

#[cfg(test)]
mod tests {
    use super::{Answer, RARE, noticed, sample};

    #[test]
    fn the_first_violation_is_shown_short() {
        let text = "cargo xtask sim --seed 17 --plant x  # prefix: step 3\n9 seeds".to_string();
        assert_eq!(noticed(&Answer { text, success: true }), "seed 17, prefix: step 3");
    }

    #[test]
    fn a_sample_is_spread_and_another_commit_draws_another() {
        let all = ["a", "b", "c", "d", "e", "f", "g"];
        assert_eq!(sample(&all, 3, "00000001ab"), ["b", "d", "f"]);
        assert_eq!(sample(&all, 3, "00000006ab"), ["g", "b", "d"]);
        assert_eq!(sample(&all, 7, "unknown"), all);
        assert_eq!(sample(&all, 99, "").len(), 7);
        assert!(sample(&[], 2, "1").is_empty());
        assert_eq!(sample(&["a", RARE[0], "b", "c"], 3, "00000000"), ["a", "b", "c"]);
    }

    #[test]
    fn a_missed_plant_says_why() {
        let text = "10000 seeds\nno seed reached the plant's code\n".to_string();
        let answer = Answer { text, success: false };
        assert_eq!(noticed(&answer), "NOT NOTICED: no seed reached the plant's code");
        assert!(noticed(&Answer::default()).starts_with("NOT NOTICED: every seed"));
    }
}
