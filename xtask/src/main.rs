//! The project's chores: everything that a person or the build machine does with this repository except editing it.
//!
//! `cargo xtask help` lists them; [`ci`] runs all checks, and each other chore is a module here. The only other scripts
//! are `.ci/run`, which calls this program, and `verify_dump.py`, which is in another language on purpose: it must
//! share no code with the engine that it verifies.
//!
//! It does not measure (that is the `tombolo` command), and does not use the network once the machine has
//! everything that [`needs`] lists. It depends only on small libraries, so that it builds quickly.
//!
//! Exit status: 0 success, 1 a check failed, 2 bad usage, 3 a requirement is missing on the machine.

mod asan;
mod ci;
mod crashes;
mod examples;
mod failure;
mod figures;
mod findings;
mod folders;
mod histories;
mod invocation;
mod kills;
mod look;
mod loom;
mod needs;
mod options;
mod process;
mod provenance;
mod random;
mod shipped;
mod shuttle;
mod sim;
mod soak;
mod stopwatch;
mod tidy;
mod trace;

use failure::Failure;
use folders::repository_root;
use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "\
The chores of this repository.

Usage: cargo xtask COMMAND

  test                  install what the checks need, then run them all
  ci [--only STEP,…]    run all checks, or only these steps
  ci --list             list the steps
  tidy                  check the rules that the compiler does not: sizes, heads, paths, unsafe, reasons
  figures [--check]     write the tables and pictures of the documents from results/, or only compare them
  examples              run the library's examples, as a program that embeds the library runs them
  asan [TEST-FILTER]    run the storage crate's tests under the address sanitizer
  loom [--only MODULE]  run the threads of storage and engine in every interleaving up to a bound
  shuttle [--seeds N] [--seed S]
                        run the paged store's sessions in random interleavings (2,000)
  crashes [--cases N] [--first N]
                        crash databases of the paged store, and compare them with what had committed (300,000)
  histories [--histories N] [--transactions N]
                        verify the isolation of transactions on real threads (50 histories of 10,000 of each kind)
  sim [--program SIMULATOR] [--seeds N] [--seed S] [--threads N] [--json]
                        run the engine in simulated worlds with crashes and lying disks (10,000)
  sim --commit          run islands that commit together, in worlds with crashes and broken links
  sim --ordered         run islands whose logs become durable together, in worlds with crashes and failing disks
  sim --plant NAME      check that a bug planted on purpose is detected; --list-plants names them
  sim --plants all|N    the same for all of them, or for a sample of N that differs by commit
  kills [--count N] [--seed S] [--threads N] [--seconds N] [--program TOMBOLO] [--out FILE]
                        kill, starve and damage real processes, and verify that every answered call survives (100)
  kills --processes N [--profile memory|conventional] [--seed S] [--out FILE]
                        kill N processes of islands while money moves between them, and verify the same
  soak [--seconds N] [--threads N] [--directory DIR] [--program SOAK] [--out FILE]
                        let 20 threads call while an index is added and backups are taken (60 seconds, twice)
  trace [--program TOMBOLO] [--errors N] [--seed S]
                        check the system calls of real processes: one fdatasync per flush, no answer before it, and
                        none after a call that failed; with --errors, N times at a random call
  look PAGE             take pictures of a page of `tombolo report` in a browser: light, dark, on a phone
  help                  this text

Example: cargo xtask ci --only fmt,tidy
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match dispatch(&repository_root(), &words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("xtask: {failure}");
            ExitCode::from(failure.status())
        }
    }
}

fn dispatch(root: &Path, words: &[&str]) -> Result<(), Failure> {
    match words {
        ["help"] | [.., "--help" | "-h"] => {
            print!("{USAGE}");
            Ok(())
        }
        ["test"] => {
            needs::provide()?;
            ci::run(root, &[])
        }
        ["ci", "--list"] => {
            ci::list();
            Ok(())
        }
        ["ci", rest @ ..] => ci::run(root, &ci::selection(rest)?),
        ["tidy"] => tidy::run(root),
        ["figures", rest @ ..] => figures::run(root, rest),
        ["examples"] => examples::run(root),
        ["asan"] => asan::run(root, None),
        ["asan", filter] => asan::run(root, Some(filter)),
        ["loom"] => loom::run(root, None),
        ["loom", "--only", module] => loom::run(root, Some(module)),
        ["shuttle", rest @ ..] => shuttle::run(root, rest),
        ["crashes", rest @ ..] => crashes::run(root, rest),
        ["histories", rest @ ..] => histories::run(root, rest),
        ["sim", rest @ ..] => sim::run(root, rest),
        ["kills", rest @ ..] => kills::run(root, rest),
        ["soak", rest @ ..] => soak::run(root, rest),
        ["trace", rest @ ..] => trace::run(root, rest),
        ["look", page] => look::run(root, page),
        [] => Err(Failure::usage(format!("no command given\n\n{USAGE}"))),
        _ => Err(Failure::usage(format!("unknown command `{}`\n\n{USAGE}", words.join(" ")))),
    }
}

#[cfg(test)]
mod tests {
    use super::dispatch;
    use crate::folders::repository_root;

    #[test]
    fn help_is_there_for_every_command() {
        for words in [&["help"][..], &["-h"], &["kills", "--help"], &["sim", "--seeds", "-h"]] {
            assert!(dispatch(&repository_root(), words).is_ok(), "{words:?}");
        }
    }

    #[test]
    fn unknown_words_are_bad_usage() {
        for words in [
            &["frobnicate"][..],
            &[],
            &["tidy", "now"],
            &["figures", "--now"],
            &["ci", "--only", "nonsense"],
            &["loom", "--only", "x"],
        ] {
            assert_eq!(dispatch(&repository_root(), words).unwrap_err().status(), 2, "{words:?}");
        }
    }

    #[test]
    fn the_root_holds_the_workspace() {
        let manifest = std::fs::read_to_string(repository_root().join("Cargo.toml")).unwrap();
        assert!(manifest.contains("[workspace]"));
    }
}
