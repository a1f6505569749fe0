//! `cargo xtask kills`: kills real processes; everything that they acknowledged must survive.
//!
//! A database is loaded once. A *chain* works on a copy of it, case after case: `tombolo run --resume` is killed
//! at some time or at some system call, also during recovery; its disk fails or fills up, its memory is short;
//! at the end of a chain bytes of its files are damaged. A case whose kill did not strike is repeated; if
//! too few strike, this is a failure, too. Checkpoints are written all the time, so that many kills hit
//! one; the counts by place distinguish the image's files. After a case `tombolo check` reads the directory:
//! every acknowledged call must be in the table `client_seq`, and every condition must hold. So a directory
//! lives through many crashes, as in real use. Chains run in parallel, two for each core.
//!
//! Cases are determined by the seed, but not the state of a process when the kill strikes, so a failure may need
//! several runs to reproduce. Its directory is kept.
//!
//! It does not crash the machine or the disk; the simulator does that (`cargo xtask sim`).

mod answers;
mod case;
mod chain;
mod damage;
mod place;
mod starve;
mod strike;
mod summary;

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::failure::Failure;
use crate::stopwatch::Stopwatch;
use crate::{needs, shipped};

use chain::{CASES_PER_CHAIN, Chain, World};
use summary::Summary;

/// The options of the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Options {
    count: usize,
    seed: u64,
    /// Only this chain, to repeat a failure.
    chain: Option<usize>,
    threads: usize,
    /// The number of seconds after which no case begins.
    seconds: u64,
    /// The command to be killed; built if none is named.
    program: Option<PathBuf>,
    /// A file for the summary, in addition to standard output.
    out: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self {
            count: 100,
            seed: 1,
            chain: None,
            threads: CHAINS_PER_CORE * cores,
            seconds: u64::MAX,
            program: None,
            out: None,
        }
    }
}

fn options(words: &[&str]) -> Result<Options, Failure> {
    let mut options = Options::default();
    let mut rest = words.iter();
    while let Some(&flag) = rest.next() {
        let value = rest.next().copied();
        let value = value.ok_or_else(|| Failure::usage(format!("kills: {flag} needs a value")))?;
        let number = || {
            let wrong = |_| Failure::usage(format!("kills: {flag} {value}: expected a number"));
            value.replace('_', "").parse::<u64>().map_err(wrong)
        };
        match flag {
            "--count" => options.count = number()? as usize,
            "--seed" => options.seed = number()?,
            "--chain" => options.chain = Some(number()? as usize),
            "--threads" => options.threads = (number()? as usize).max(1),
            "--seconds" => options.seconds = number()?,
            "--program" => options.program = Some(value.into()),
            "--out" => options.out = Some(value.into()),
            _ => {
                return Err(Failure::usage(format!(
                    "kills: no option {flag}; there are --count --seed --chain --threads --seconds --program --out"
                )));
            }
        }
    }
    Ok(options)
}

/// A case waits for its process, the disk and strace most of the time.
const CHAINS_PER_CORE: usize = 2;
/// Cases between two lines of progress: about half a minute.
const CASES_PER_REPORT: u64 = 20;

/// Kills `tombolo`, with the options in `words`.
pub(crate) fn run(root: &Path, words: &[&str]) -> Result<(), Failure> {
    let options = options(words)?;
    if !needs::on_path("strace") {
        return Err(Failure::machine("kills: strace is missing; `cargo xtask test` installs it"));
    }
    let program = shipped::program(root, options.program.as_deref())?;
    let clock = Stopwatch::start();
    let world =
        World::prepare(program, crate::folders::target_folder(root).join("kills"), options.seed)?;
    let chains: Vec<usize> = match options.chain {
        Some(chain) => vec![chain],
        None => (0..options.count.div_ceil(CASES_PER_CHAIN)).collect(),
    };
    let summary = Mutex::new(Summary::default());
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..options.threads.min(chains.len()) {
            scope.spawn(|| {
                while let Some(&number) = chains.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let has_time = || clock.elapsed().as_secs() < options.seconds;
                    let cases = (options.count - (number * CASES_PER_CHAIN).min(options.count))
                        .clamp(1, CASES_PER_CHAIN);
                    Chain::new(&world, number).run(cases, &has_time, &|case| {
                        let summary = summary.lock();
                        let mut summary =
                            summary.unwrap_or_else(std::sync::PoisonError::into_inner);
                        summary.add(case);
                        if summary.cases().is_multiple_of(CASES_PER_REPORT) {
                            let (cases, failed) = (summary.cases(), summary.failures());
                            eprintln!(
                                "xtask: kills: {cases} of {}, {failed} failed",
                                options.count
                            );
                        }
                    });
                }
            });
        }
    });
    let summary = summary.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    world.end(summary.failures() > 0);
    eprint!("{}", summary.table());
    let line = summary.json(options.seed, &world.commit, clock.elapsed().as_secs_f64());
    println!("{line}");
    if let Some(path) = &options.out {
        std::fs::write(path, format!("{line}\n"))
            .map_err(|error| Failure::machine(format!("kills: {}: {error}", path.display())))?;
    }
    match (summary.failures(), summary.too_few()) {
        (0, None) => Ok(()),
        (0, Some(what)) => Err(Failure::check(format!("kills: {what}: nothing is proven"))),
        (failures, _) => Err(Failure::check(format!("kills: {failures} cases failed; see above"))),
    }
}

#[cfg(test)]
mod tests {
    use super::{Options, options};

    #[test]
    fn options_are_read() {
        assert_eq!(options(&[]).unwrap(), Options::default());
        let read = options(&["--count", "1_000", "--seed", "7", "--chain", "3", "--out", "x.json"]);
        let read = read.unwrap();
        assert_eq!((read.count, read.seed, read.chain), (1_000, 7, Some(3)));
        for bad in [&["--count"][..], &["--count", "x"], &["--frob", "1"], &["7"]] {
            assert_eq!(options(bad).unwrap_err().status(), 2, "{bad:?}");
        }
    }
}
