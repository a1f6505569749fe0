//! `islands`: databases of one island or several under a workload: callers in a closed loop, each of which belongs to
//! an island.
//!
//! All databases are open at the same time, and a round measures each point before the next begins. Transactions are
//! made beforehand. Not here: workloads (`rows.rs`, `tpcc.rs`); the library, which the command brings, since it depends
//! on this crate; arguments.

use std::sync::Barrier;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tombolo_engine::clock::{Clock, SystemClock};
use tombolo_engine::islands::placement::Placement;
use tombolo_engine::threads::on_each;

use crate::failure::Failure;
use crate::histogram::{Latencies, Summary};
use crate::numbers::rounded;
use crate::report::quantity;

/// Calls between two looks at the clock.
const LOOK: usize = 16;

/// How many threads call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Callers {
    /// So many for each island.
    Each(usize),
    /// So many in all, but at least one for each island.
    All(usize),
}

impl Callers {
    /// How many call each of so many islands.
    pub const fn of_each(self, islands: usize) -> usize {
        match self {
            Self::Each(callers) => callers,
            Self::All(callers) if callers > islands => callers / islands,
            Self::All(_) => 1,
        }
    }
}

/// How a database of islands is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct How {
    /// On which cores the threads and callers of an island run.
    pub placement: Placement,
    /// Whether transactions over several islands are ordered, rather than prepared and decided.
    pub is_ordered: bool,
    /// Whether transactions over several islands are closures that reach islands as they go, not declared parts.
    pub is_undeclared: bool,
}

/// How each point is measured.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Threads that call.
    pub callers: Callers,
    /// Whether answers are durable.
    pub is_durable: bool,
    /// How the databases were opened.
    pub how: How,
    /// Transactions over several islands that a caller commits in one call.
    pub per_call: usize,
    /// How long a point is measured in a round.
    pub time: Duration,
    /// How often.
    pub rounds: u32,
}

/// A database of islands.
pub trait Deployment: Sync {
    /// What a caller calls.
    type Transaction: Send + Sync;

    /// How many islands it has.
    fn islands(&self) -> usize;

    /// Whether its rows are in pages on disk, rather than in memory.
    fn is_paged(&self) -> bool {
        false
    }

    /// Whether each island is a process.
    fn is_of_processes(&self) -> bool {
        false
    }

    /// The processor time that it has used in other processes.
    fn cpu_elsewhere(&self) -> Duration {
        Duration::ZERO
    }

    /// Binds the calling thread, which calls this island, to its cores.
    ///
    /// # Errors
    /// What the library returns.
    fn bind_caller(&self, island: usize) -> Result<(), Failure>;

    /// Runs one transaction: on one island, or on several that commit together.
    ///
    /// # Errors
    /// What the library returns, but for an abort of the transaction's own.
    fn call(&self, transaction: &Self::Transaction) -> Result<Called, Failure>;

    /// Whether a transaction may be committed in one call with others of its caller.
    fn shares_calls(&self, _: &Self::Transaction) -> bool {
        false
    }

    /// Commits several such transactions in one call.
    ///
    /// # Errors
    /// As [`Deployment::call`].
    fn call_all(&self, transactions: &[&Self::Transaction]) -> Result<Vec<Called>, Failure> {
        transactions.iter().map(|transaction| self.call(transaction)).collect()
    }
}

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Called {
    /// Whether it committed, or aborted as it had to.
    pub has_committed: bool,
    /// Whether it had parts on several islands.
    pub is_distributed: bool,
}

/// A result of `islands`: one point in one round.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "docs/cli.md says what each field means")]
pub struct DeploymentResult {
    pub workload: String,
    pub kind: String,
    pub durability: String,
    pub islands: usize,
    pub threads: usize,
    /// Of `rows`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multisite_percent: Option<u64>,
    /// Of `rows` with `--multisite-callers`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multisite_callers: Option<usize>,
    /// Of `rows` with `--multisite-callers`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local_tps: Option<f64>,
    /// Of `tpcc`.
    #[serde(flatten)]
    pub tpcc: Option<TpccPoint>,
    /// Absent where it is the memory store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store: Option<String>,
    /// Absent where the system decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<String>,
    /// Absent where it is by two-phase commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub atomic_commit: Option<String>,
    /// Absent where each is committed by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_call: Option<usize>,
    /// Whether transactions over several islands are closures.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub undeclared: bool,
    /// Whether each island is a process.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub processes: bool,
    pub round: u32,
    pub committed: u64,
    pub distributed: u64,
    pub wall_s: f64,
    pub cpu_s: f64,
    pub tps: f64,
    pub us_per_transaction_cpu: f64,
    pub latency_us: Option<Summary>,
}

impl DeploymentResult {
    /// Which share of the transactions uses several islands, in words.
    pub fn share(&self) -> String {
        let multisite = self.multisite_percent.map(|share| format!("{share:>3} % multisite"));
        let remote = self.tpcc.map(|of| {
            let (payments, lines) = (of.remote_payments_percent, of.remote_lines_percent);
            format!("{payments:>3} % of Payments, {lines:>3} % of lines remote")
        });
        let mixed = self.multisite_callers.zip(self.local_tps).map(|(callers, tps)| {
            format!("and {callers}, all multisite: {} k/s local", quantity(tps / 1e3))
        });
        multisite.or(remote).or(mixed).unwrap_or_default()
    }
}

/// What only results of `tpcc` have.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "docs/cli.md says what each field means")]
pub struct TpccPoint {
    pub warehouses: i32,
    pub remote_payments_percent: u64,
    pub remote_lines_percent: u64,
    pub aborted: u64,
}

/// A point: a database, what identifies it in results, and its callers.
pub(super) struct Point<'d, D: Deployment + ?Sized> {
    pub(super) deployment: &'d D,
    pub(super) what: DeploymentResult,
    pub(super) callers: Vec<Caller<D::Transaction>>,
}

pub(super) struct Caller<T> {
    pub(super) island: usize,
    /// Whether it is one of those whose transactions are all multisite, while others' are local.
    pub(super) is_further: bool,
    /// It begins again when it has called them all.
    pub(super) transactions: Vec<T>,
}

/// What a caller did.
#[derive(Default)]
struct Done {
    committed: u64,
    /// Of these, those of further callers.
    of_further: u64,
    aborted: u64,
    distributed: u64,
    latencies: Latencies,
}

/// Measures each point in each round; shows results, each with its point's number, as they come.
pub(super) fn measure_rounds<D: Deployment + ?Sized>(
    points: &[Point<'_, D>],
    effort: &Effort,
    clock: &SystemClock,
    mut show: impl FnMut(usize, DeploymentResult) -> Result<(), Failure>,
) -> Result<(), Failure> {
    for round in 0..effort.rounds {
        for (at, point) in points.iter().enumerate() {
            show(at, point.measure(effort, round, clock)?)?;
        }
    }
    Ok(())
}

impl<D: Deployment + ?Sized> Point<'_, D> {
    fn measure(
        &self,
        effort: &Effort,
        round: u32,
        clock: &SystemClock,
    ) -> Result<DeploymentResult, Failure> {
        let together = Barrier::new(self.callers.len() + 1);
        let mut taken = (0, Duration::ZERO);
        let mut parts: Vec<Option<&Caller<_>>> = self.callers.iter().map(Some).collect();
        parts.push(None); // the one that takes the time
        let parts = on_each(parts.into_iter().enumerate(), |(number, caller)| {
            let bound = caller.map_or(Ok(()), |caller| self.deployment.bind_caller(caller.island));
            together.wait();
            let cpu = || clock.process_cpu() + self.deployment.cpu_elsewhere();
            let begin = (clock.now_ns(), cpu());
            let done = caller.map(|caller| {
                // Where the other callers, and the other rounds, do not begin.
                let part = number as f64 / (self.callers.len() + 1) as f64;
                let part = part + f64::from(round) / f64::from(effort.rounds);
                bound.and_then(|()| caller.run(self.deployment, effort, part.fract(), clock))
            });
            together.wait();
            let end = (clock.now_ns(), cpu());
            (done, (end.0 - begin.0, end.1.saturating_sub(begin.1)))
        });
        let mut all = Done::default();
        for (done, took) in parts {
            match done {
                None => taken = took,
                Some(done) => all.add(&done?),
            }
        }
        let (wall_s, cpu_s) = (taken.0 as f64 / 1e9, taken.1.as_secs_f64());
        let tpcc = self.what.tpcc.map(|of| TpccPoint { aborted: all.aborted, ..of });
        Ok(DeploymentResult {
            durability: if effort.is_durable { "group" } else { "none" }.to_owned(),
            islands: self.deployment.islands(),
            threads: effort.callers.of_each(self.deployment.islands()),
            tpcc,
            store: self.deployment.is_paged().then(|| "paged".to_owned()),
            placement: (effort.how.placement != Placement::Os)
                .then(|| effort.how.placement.name().to_owned()),
            atomic_commit: effort.how.is_ordered.then(|| "ordered".to_owned()),
            per_call: (effort.per_call > 1).then_some(effort.per_call),
            undeclared: effort.how.is_undeclared,
            processes: self.deployment.is_of_processes(),
            round,
            committed: all.committed,
            distributed: all.distributed,
            wall_s: rounded(wall_s, 6),
            cpu_s: rounded(cpu_s, 6),
            tps: rounded(all.committed as f64 / wall_s, 1),
            local_tps: self
                .what
                .multisite_callers
                .map(|_| rounded((all.committed - all.of_further) as f64 / wall_s, 1)),
            us_per_transaction_cpu: rounded(1e6 * cpu_s / all.committed as f64, 4),
            latency_us: all.latencies.summary().filter(|_| effort.per_call == 1),
            ..self.what.clone()
        })
    }
}

impl<T> Caller<T> {
    /// Calls from this part of its transactions on until the time is over.
    fn run<D: Deployment<Transaction = T> + ?Sized>(
        &self,
        deployment: &D,
        effort: &Effort,
        first_part: f64,
        clock: &SystemClock,
    ) -> Result<Done, Failure> {
        let count = self.transactions.len();
        let (mut done, mut at) = (Done::default(), (first_part * count as f64) as usize % count);
        let mut together = Vec::with_capacity(effort.per_call);
        let begun_ns = clock.now_ns();
        let end_ns = begun_ns + effort.time.as_nanos() as u64;
        let mut before_ns = begun_ns;
        while before_ns < end_ns {
            for _ in 0..LOOK {
                let transaction = &self.transactions[at];
                if effort.per_call > 1 && deployment.shares_calls(transaction) {
                    together.push(transaction);
                    if together.len() == effort.per_call {
                        done.called_all(deployment, &mut together)?;
                    }
                } else {
                    done.called(deployment.call(transaction)?);
                }
                at = (at + 1) % count;
            }
            let now_ns = clock.now_ns();
            done.latencies.record((now_ns - before_ns) / LOOK as u64);
            before_ns = now_ns;
        }
        done.called_all(deployment, &mut together)?;
        done.of_further = if self.is_further { done.committed } else { 0 };
        Ok(done)
    }
}

impl Done {
    fn called(&mut self, called: Called) {
        self.committed += u64::from(called.has_committed);
        self.aborted += u64::from(!called.has_committed);
        self.distributed += u64::from(called.has_committed && called.is_distributed);
    }

    /// Commits transactions in one call.
    fn called_all<D: Deployment + ?Sized>(
        &mut self,
        deployment: &D,
        together: &mut Vec<&D::Transaction>,
    ) -> Result<(), Failure> {
        deployment.call_all(together)?.into_iter().for_each(|called| self.called(called));
        together.clear();
        Ok(())
    }

    fn add(&mut self, other: &Self) {
        self.committed += other.committed;
        self.of_further += other.of_further;
        self.aborted += other.aborted;
        self.distributed += other.distributed;
        self.latencies.add(&other.latencies);
    }
}
