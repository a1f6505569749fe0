//! `compare`: the same transactions on other engines, side by side in one run.
//!
//! Every engine loads the same rows and runs the same inputs in the same order; that all hold the
//! same rows afterwards is proven by the state hash, that they are right by each engine's own
//! conditions. Rounds are interleaved: a round runs its batch on every engine before the next
//! begins, each round starting with another engine, so that a machine whose speed drifts drifts
//! under all alike. Only executing a batch is measured, by the processor time of the process.
//!
//! A peer is its best self, or the ratio is a lie: docs/compare.md says which settings, what else
//! was tried, and the figures. Peers are features (`compare-NAME`): nobody builds one by accident.
//!
//! Not here: arguments, exit codes, standard output.

mod report;
#[cfg(feature = "compare-sqlite")]
mod sqlite;
mod tombolo;

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use tombolo_engine::clock::Clock;

pub use report::{EngineResult, RatioResult};

use crate::dump::StateHash;
use crate::failure::Failure;
use crate::instance::Verification;
use crate::progress::Progress;
use crate::run::WARM_UP;
use crate::sweep::Spread;
use crate::workload::tpcc::input::{Generator, Input};
use crate::workload::tpcc::loader::Scale;
use crate::workload::tpcc::nurand::Constants;
use tombolo::Tombolo;

/// What the names of our own engines begin with.
const OURS: &str = "tombolo/";

/// The other engines there are, whether built in or not.
pub const PEERS: [&str; 1] = ["sqlite"];

/// An engine with TPC-C on it, in memory, not durable.
pub trait Engine {
    /// Its name in results: `tombolo/PROFILE` or the peer's.
    fn name(&self) -> &str;

    /// Its version.
    fn version(&self) -> &str;

    /// How a call reaches it.
    fn transport(&self) -> &'static str {
        "embedded"
    }

    /// Loads the initial database; tells `progress` which part is done.
    ///
    /// # Errors
    /// What the engine refused.
    fn load(&mut self, scale: Scale, progress: &mut dyn FnMut(f64)) -> Result<(), Failure>;

    /// Runs one transaction per input and measures them.
    ///
    /// # Errors
    /// What the engine failed with; aborts are outcomes.
    fn run(&mut self, inputs: &[Input], clock: &dyn Clock) -> Result<Batch, Failure>;

    /// Asks the consistency conditions, and the engine whether it is whole.
    ///
    /// # Errors
    /// When the engine cannot be read.
    fn verify(&mut self) -> Result<Verification, Failure>;

    /// The hash of all rows.
    ///
    /// # Errors
    /// When the engine cannot be read.
    fn state_hash(&mut self) -> Result<StateHash, Failure>;
}

impl std::fmt::Debug for dyn Engine + '_ {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// What running one batch took.
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

/// An empty database on the engine called `name`, with memory for `page_bytes` of pages.
///
/// # Errors
/// When there is no such engine, or it is not in this build; the message says how to build it.
pub fn open(name: &str, page_bytes: u64) -> Result<Box<dyn Engine>, Failure> {
    if let Some(profile) = name.strip_prefix(OURS) {
        return Ok(Box::new(Tombolo::open(profile, page_bytes)?));
    }
    #[cfg(feature = "compare-sqlite")]
    if name == "sqlite" {
        return Ok(Box::new(sqlite::Sqlite::open()?));
    }
    if PEERS.contains(&name) {
        return Err(Failure::usage(format!(
            "engine {name} is not in this build: build it with cargo run --release --features \
             compare-{name} -- compare tpcc --with {name}"
        )));
    }
    Err(Failure::usage(format!("engine {name} is not known: use {}", PEERS.join(", "))))
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

/// What to compare on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The database and the mix.
    pub scale: Scale,
    /// Transactions of a round on each engine.
    pub transactions: usize,
    /// Rounds.
    pub rounds: usize,
}

/// What a comparison found out about one engine.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// Its name.
    pub engine: String,
    /// Its version.
    pub version: String,
    /// How a call reaches it.
    pub transport: &'static str,
    /// One batch per round.
    pub rounds: Vec<Batch>,
    /// The checks.
    pub verification: Verification,
    /// The hash of all rows at the end.
    pub state_hash: String,
}

impl Measured {
    /// All rounds together.
    pub fn total(&self) -> Batch {
        let mut total = Batch::default();
        self.rounds.iter().for_each(|round| total.add(round));
        total
    }
}

/// Runs the same transactions on all `engines`, which are empty.
///
/// # Errors
/// When an engine fails. Failed checks and different states are for [`failure`] to find.
pub fn compare(
    plan: &Plan,
    engines: &mut [Box<dyn Engine>],
    clock: &dyn Clock,
    progress: &mut dyn Progress,
) -> Result<Vec<Measured>, Failure> {
    let constants = Constants::from_seed(plan.scale.seed);
    let mut inputs =
        Generator::new(plan.scale.seed, plan.scale.mix, plan.scale.warehouses, constants);
    let mut make = |count: usize| -> Vec<Input> { (&mut inputs).take(count).collect() };
    let warm_up = make(WARM_UP);
    for engine in &mut *engines {
        progress.begin(&format!(
            "loading {} warehouses on {}",
            plan.scale.warehouses,
            engine.name()
        ));
        engine.load(plan.scale, &mut |part| progress.part(part, ""))?;
        engine.run(&warm_up, clock)?;
        progress.end();
    }
    let mut rounds = vec![Vec::new(); engines.len()];
    progress.begin("running");
    for round in 0..plan.rounds {
        let batch = make(plan.transactions);
        for turn in 0..engines.len() {
            let place = (round + turn) % engines.len();
            rounds[place].push(engines[place].run(&batch, clock)?);
        }
        progress.part((round + 1) as f64 / plan.rounds as f64, "");
    }
    progress.end();
    progress.begin("verifying");
    let measured = engines.iter_mut().zip(rounds).map(|(engine, rounds)| {
        Ok(Measured {
            engine: engine.name().to_owned(),
            version: engine.version().to_owned(),
            transport: engine.transport(),
            rounds,
            verification: engine.verify()?,
            state_hash: engine.state_hash()?.to_string(),
        })
    });
    let measured = measured.collect();
    progress.end();
    measured
}

/// Why a comparison is worth nothing, if so: a violated condition, or engines that hold different
/// rows.
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

/// How many times our processor time per transaction a peer takes, over the rounds: by peer and
/// profile.
pub fn ratios(measured: &[Measured]) -> Vec<(String, Spread)> {
    let (ours, theirs): (Vec<_>, Vec<_>) =
        measured.iter().partition(|engine| engine.engine.starts_with(OURS));
    let mut ratios = Vec::new();
    for their in &theirs {
        for our in &ours {
            let rounds = their.rounds.iter().zip(&our.rounds);
            let ratio = |(their, our): (&Batch, &Batch)| {
                their.us_per_transaction() / our.us_per_transaction()
            };
            let name = format!("{}:{}", their.engine, our.engine);
            ratios.push((name, Spread::of(rounds.map(ratio).collect())));
        }
    }
    ratios
}

#[cfg(test)]
mod tests;
