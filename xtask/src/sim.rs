//! `cargo xtask sim`: the engine in simulated worlds, and the bugs planted to prove that it would be
//! noticed.
//!
//! Builds `tombolo-sim` optimised, if no `--program` is named first, and runs it with the same
//! options. With `--plant` it builds another one, in which bugs can be planted, in a target folder of
//! its own so that no other build is thrown away; `--plant all` plants one after the other and prints
//! a table. What seeds do and what must hold is the simulator's (`crates/tombolo-sim`).

use crate::asan;
use crate::failure::Failure;
use crate::folders::target_folder;
use crate::invocation::Invocation;
use crate::stopwatch::Stopwatch;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Whether bugs can be planted in a build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Build {
    Plain,
    Planted,
}

/// Builds what `words` need and runs it.
pub(crate) fn run(root: &Path, words: &[&str]) -> Result<(), Failure> {
    match words {
        ["--plant" | "--plants", "all", rest @ ..] => run_all(root, rest),
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

/// Plants every bug in turn; fails if one is not noticed.
fn run_all(root: &Path, words: &[&str]) -> Result<(), Failure> {
    let program = build(root, Build::Planted)?;
    let list = answer(root, &program, &["--list-plants"])?.text;
    let mut missed = Vec::new();
    println!("{:<28}{:>8}  noticed by", "plant", "seconds");
    for name in list.lines().filter_map(|line| line.split_whitespace().next()) {
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

/// What a program printed and whether it was content.
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

/// The line of the first violation, or why there is none.
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
    format!("NOBODY: {reason}")
}

/// Builds the simulator; the program's path.
fn build(root: &Path, build: Build) -> Result<PathBuf, Failure> {
    let mut folder = target_folder(root);
    let mut call = Invocation::cargo("build --quiet -p tombolo-sim --profile quick");
    if build == Build::Planted {
        folder = folder.join("planted");
        // RUSTFLAGS replaces the flags of .cargo/config.toml, so they are repeated here.
        let flags = format!("--cfg tombolo_plants {}", asan::workspace_flags(root)?);
        call = call.env("RUSTFLAGS", flags.trim_end());
    }
    let call = call.with(["--target-dir".to_string(), folder.display().to_string()]);
    match call.run(root) {
        Ok(outcome) if outcome.success => Ok(folder.join("quick").join("tombolo-sim")),
        Ok(_) => Err(Failure::check(format!("sim: `{call}` failed"))),
        Err(message) => Err(Failure::machine(message)),
    }
}

#[cfg(test)]
mod tests {
    use super::{Answer, noticed};

    #[test]
    fn the_first_violation_is_shown_short() {
        let text = "cargo xtask sim --seed 17 --plant x  # prefix: step 3\n9 seeds".to_string();
        assert_eq!(noticed(&Answer { text, success: true }), "seed 17, prefix: step 3");
    }

    #[test]
    fn a_missed_plant_says_why() {
        let text = "10000 seeds\nno seed reached the plant's code\n".to_string();
        let answer = Answer { text, success: false };
        assert_eq!(noticed(&answer), "NOBODY: no seed reached the plant's code");
        assert!(noticed(&Answer::default()).starts_with("NOBODY: every seed"));
    }
}
