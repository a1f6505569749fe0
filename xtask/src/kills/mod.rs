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
//! With `--profile conventional` the database is the paged store: neither its
//! memory is limited nor are its files damaged (a test of the storage crate damages every byte of a small one).
//! With `--processes N` processes of islands are killed instead (`processes.rs`).
//!
//! It does not crash the machine or the disk; the simulator does that (`cargo xtask sim`).

mod answers;
mod case;
mod chain;
mod damage;
mod place;
mod processes;
mod profile;
mod starve;
mod strike;
mod summary;

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::failure::Failure;
use crate::options::Options;
use crate::stopwatch::Stopwatch;
use crate::{needs, shipped};

use chain::{CASES_PER_CHAIN, Chain, World};
use profile::Profile;
use summary::Summary;

const OPTIONS: [&str; 9] = [
    "--count",
    "--seed",
    "--chain",
    "--threads",
    "--seconds",
    "--program",
    "--out",
    "--processes",
    "--profile",
];

/// A case waits for its process, the disk and strace most of the time.
const CHAINS_PER_CORE: u64 = 2;
/// Cases between two lines of progress: about half a minute.
const CASES_PER_REPORT: u64 = 20;

/// Kills `tombolo`, with the options in `words`.
pub(crate) fn run(root: &Path, words: &[&str]) -> Result<(), Failure> {
    let given = Options::read("kills", &OPTIONS, words)?;
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let number = |flag, default| given.number(flag, default);
    let (count, seed) = (number("--count", 100)? as usize, number("--seed", 1)?);
    let profile = Profile::named(given.get("--profile").unwrap_or("memory"))?;
    if given.get("--processes").is_some() {
        let kills = number("--processes", 0)?;
        return processes::run(root, profile, kills, seed, given.get("--out"));
    }
    let threads = number("--threads", CHAINS_PER_CORE * cores as u64)?.max(1) as usize;
    let seconds = number("--seconds", u64::MAX)?;
    // Only this chain, to repeat a failure.
    let only = given.get("--chain").map(|_| number("--chain", 0)).transpose()?;
    if !needs::on_path("strace") {
        return Err(Failure::machine("kills: strace is missing; `cargo xtask test` installs it"));
    }
    let program = shipped::program(root, given.get("--program"))?;
    let clock = Stopwatch::start();
    let world = World::prepare(program, profile, crate::folders::target_folder(root), seed)?;
    let chains: Vec<usize> = match only {
        Some(chain) => vec![chain as usize],
        None => (0..count.div_ceil(CASES_PER_CHAIN)).collect(),
    };
    let summary = Mutex::new(Summary::default());
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..threads.min(chains.len()) {
            scope.spawn(|| {
                while let Some(&number) = chains.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let has_time = || clock.elapsed().as_secs() < seconds;
                    let cases =
                        (count - (number * CASES_PER_CHAIN).min(count)).clamp(1, CASES_PER_CHAIN);
                    Chain::new(&world, number).run(cases, &has_time, &|case| {
                        let summary = summary.lock();
                        let mut summary =
                            summary.unwrap_or_else(std::sync::PoisonError::into_inner);
                        summary.add(case);
                        if summary.cases().is_multiple_of(CASES_PER_REPORT) {
                            let (cases, failed) = (summary.cases(), summary.failures());
                            eprintln!("xtask: kills: {cases} of {count}, {failed} failed");
                        }
                    });
                }
            });
        }
    });
    let summary = summary.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    world.end(summary.failures() > 0);
    eprint!("{}", summary.table());
    let line = summary.json((profile.name(), seed), &world.commit, clock.elapsed().as_secs_f64());
    println!("{line}");
    if let Some(path) = given.get("--out") {
        std::fs::write(path, format!("{line}\n"))
            .map_err(|error| Failure::machine(format!("kills: {path}: {error}")))?;
    }
    match (summary.failures(), summary.too_few()) {
        (0, None) => Ok(()),
        (0, Some(what)) => Err(Failure::check(format!("kills: {what}: nothing is proven"))),
        (failures, _) => Err(Failure::check(format!("kills: {failures} cases failed; see above"))),
    }
}
