//! `compare`: the same transactions on other engines, side by side in one run.
//!
//! Rounds are interleaved: a round runs its batch on every engine before the next begins, each round
//! starting with another engine, so that a machine whose speed drifts drifts under all alike. Only
//! executing a batch is measured. A peer must run at its best, or the ratio is worthless: docs/compare.md
//! has the settings, what else was tried, and the figures. Each peer is a feature (`compare-NAME`), so that
//! it is built only on request.
//!
//! # Map
//! [`tpcc`] compares TPC-C in memory, on one thread; [`debit_credit`] debit-credit at equal durability
//! and with equal callers, on servers too; [`calls`] the cost of one call to the program that makes it.
//! This file has what they share: names, times of a round, ratios, directories, reasons to reject a
//! comparison. `rounds` runs the engines in turns, `tombolo` is our own side, `report` has the results.
//! `peer` is an entry of a workload's list of engines; `sqlite`, `lmdb` and `redb` open those that take part in
//! several workloads.
//!
//! Not here: arguments, exit codes, standard output.

pub mod calls;
pub mod debit_credit;
#[cfg(feature = "compare-lmdb")]
#[expect(unsafe_code, reason = "LMDB maps a file that others could change")]
mod lmdb;
mod peer;
#[cfg(feature = "compare-redb")]
mod redb;
mod report;
mod rounds;
#[cfg(feature = "compare-sqlite")]
mod sqlite;
mod tombolo;
pub mod tpcc;

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tombolo_engine::clock::Clock;

pub use report::{EngineResult, RatioResult};

use crate::failure::Failure;
use crate::files::Place;
use crate::histogram::Summary;
use crate::rows::Verification;
use crate::sweep::Spread;

/// The prefix of the names of our own engines.
pub const OURS: &str = "tombolo/";

/// The cost of running one batch.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Batch {
    /// Transactions committed.
    pub committed: u64,
    /// Transactions aborted by their own decision.
    pub aborted: u64,
    /// Processor time of the engine.
    pub cpu: Duration,
    /// Processor time of the client, where it is not part of the engine's process.
    pub client_cpu: Duration,
    /// Wall-clock time.
    pub wall: Duration,
}

impl Batch {
    /// Microseconds of processor time per committed transaction.
    pub fn us_per_transaction(&self) -> f64 {
        if self.committed == 0 { 0.0 } else { self.cpu.as_secs_f64() * 1e6 / self.committed as f64 }
    }

    /// Committed transactions per second of wall-clock time.
    pub fn per_second(&self) -> f64 {
        let wall_s = self.wall.as_secs_f64();
        if wall_s == 0.0 { 0.0 } else { self.committed as f64 / wall_s }
    }

    fn add(&mut self, other: &Self) {
        self.committed += other.committed;
        self.aborted += other.aborted;
        self.cpu += other.cpu;
        self.client_cpu += other.client_cpu;
        self.wall += other.wall;
    }
}

/// Measures a batch of an embedded engine.
struct Watch<'a> {
    clock: &'a dyn Clock,
    cpu: Duration,
    start_ns: u64,
}

impl<'a> Watch<'a> {
    fn start(clock: &'a dyn Clock) -> Self {
        Self { clock, cpu: clock.process_cpu(), start_ns: clock.now_ns() }
    }

    fn stop(self, committed: u64, aborted: u64) -> Batch {
        let wall = Duration::from_nanos(self.clock.now_ns() - self.start_ns);
        let cpu = self.clock.process_cpu().saturating_sub(self.cpu);
        Batch { committed, aborted, cpu, client_cpu: Duration::ZERO, wall }
    }
}

/// The engine that has this turn of a round: each round starts with another one.
fn place_of(round: usize, turn: usize, engines: usize) -> usize {
    (round + turn) % engines
}

/// The directory of all engines' files, removed with everything in it however a comparison ends.
struct Scratch(Place);

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed is not worth hiding the result.
        let _ = self.0.remove();
    }
}

/// The full path: the only one that means the same to processes elsewhere.
fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    fs::canonicalize(path).map_err(|error| {
        let path = path.display();
        Failure::environment(format!("directory {path} cannot be read: {error}"))
    })
}

/// The directory at `path`, made.
fn made(path: &Path) -> Result<&Path, Failure> {
    fs::create_dir(path).map(|()| path).map_err(|error| {
        Failure::environment(format!("directory {} cannot be made: {error}", path.display()))
    })
}

/// The engines of a comparison by name, ours first.
///
/// # Errors
/// When one is named twice, or is not one of `peers`.
pub fn names(
    profiles: &[String],
    engines: &[String],
    peers: &[&str],
) -> Result<Vec<String>, Failure> {
    let others = engines.iter().map(|peer| peer.trim().to_owned());
    let ours = profiles.iter().map(|profile| format!("{OURS}{}", profile.trim()));
    let mut names: Vec<String> = Vec::new();
    for name in ours.chain(others) {
        if names.contains(&name) {
            return Err(Failure::usage(format!("{name} is named twice: name every engine once")));
        }
        if name.starts_with(OURS) == peers.contains(&name.as_str()) {
            let peers = peers.join(", ");
            return Err(Failure::usage(format!("there is no engine {name}: use {peers}")));
        }
        names.push(name);
    }
    Ok(names)
}

/// Starts this command again with huge pages for everything that is allocated by `malloc`, as peers
/// do: our own store asks the system for huge pages itself. Returns where that is in effect
/// already, or cannot be.
///
/// To be called before anything is loaded or printed.
pub fn restart_with_huge_pages() {
    const TUNABLES: &str = "GLIBC_TUNABLES";
    let Ok(program) = std::env::current_exe() else { return };
    if std::env::var_os(TUNABLES).is_some() {
        return;
    }
    let arguments = std::env::args_os().skip(1);
    // Comes back only if it fails; small pages are what is left then.
    let _ = Command::new(program).args(arguments).env(TUNABLES, "glibc.malloc.hugetlb=1").exec();
}

/// Callers of an engine in a closed loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Calls {
    /// Callers.
    pub clients: usize,
    /// Calls each of them has under way.
    pub in_flight: usize,
}

/// The result of a comparison for one engine.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// Its name.
    pub engine: String,
    /// Its version.
    pub version: String,
    /// How a call reaches it.
    pub transport: &'static str,
    /// The durability of an answered transaction.
    pub durability: &'static str,
    /// The callers, where there are any.
    pub calls: Option<Calls>,
    /// One batch per round.
    pub rounds: Vec<Batch>,
    /// How long answers took, where callers wait for them.
    pub latency: Option<Summary>,
    /// The checks.
    pub verification: Verification,
    /// The hash of all rows at the end, where they are hashed.
    pub state_hash: Option<String>,
}

impl Measured {
    /// All rounds together.
    pub fn total(&self) -> Batch {
        let mut total = Batch::default();
        self.rounds.iter().for_each(|round| total.add(round));
        total
    }
}

/// Why a comparison is invalid, if it is: a condition is violated, or engines hold different rows.
pub fn failure(measured: &[Measured]) -> Option<Failure> {
    let first = measured.first()?;
    for engine in measured {
        if let Some(finding) = engine.verification.damage.first() {
            let (check, what) = (&finding.check, &finding.what);
            return Some(Failure::check(format!(
                "{}: check {check} failed: {what}",
                engine.engine
            )));
        }
        if engine.state_hash != first.state_hash {
            return Some(Failure::check(format!(
                "{} and {} hold different rows after the same transactions",
                first.engine, engine.engine
            )));
        }
    }
    None
}

/// A figure of `one` in each round divided by that of `other`; 0 where `other` has none.
fn over_rounds(one: &[Batch], other: &[Batch], figure: impl Fn(&Batch) -> f64) -> Spread {
    let ratio = |(one, other)| match figure(other) {
        0.0 => 0.0,
        other => figure(one) / other,
    };
    Spread::of(one.iter().zip(other).map(ratio).collect())
}

/// Each peer with each engine of our own.
fn pairs(measured: &[Measured]) -> impl Iterator<Item = (&Measured, &Measured)> {
    let is_ours = |engine: &&Measured| engine.engine.starts_with(OURS);
    let peers = measured.iter().filter(move |engine| !is_ours(engine));
    peers.flat_map(move |their| measured.iter().filter(is_ours).map(move |our| (their, our)))
}

/// How many times our processor time per transaction a peer takes, over the rounds: by peer and
/// profile.
pub fn ratios(measured: &[Measured]) -> impl Iterator<Item = (String, Spread)> {
    pairs(measured).map(|(their, our)| {
        let name = format!("{}:{}", their.engine, our.engine);
        (name, over_rounds(&their.rounds, &our.rounds, Batch::us_per_transaction))
    })
}

/// How many times a peer's transactions per second we do, over the rounds: by profile and peer.
pub fn tps_ratios(measured: &[Measured]) -> impl Iterator<Item = (String, Spread)> {
    pairs(measured).map(|(their, our)| {
        let name = format!("{}:{}", our.engine, their.engine);
        (name, over_rounds(&our.rounds, &their.rounds, Batch::per_second))
    })
}

#[cfg(test)]
mod tests;
