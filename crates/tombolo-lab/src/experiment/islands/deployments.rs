//! `islands`: the workload `rows` on databases of one island or several, by the share of multisite transactions
//! (ISL-19, ISL-22): callers in a closed loop, each of which belongs to an island.
//!
//! A local transaction uses rows of its caller's island; a multisite one uses one of them, and the others are drawn
//! from all rows, so that some happen to be on that island, too. All databases are open at the same time, and a round
//! measures each point before the next begins. At the end the counters of all rows are compared with the answers.
//!
//! Not here: the library, which the command brings, since it depends on this crate; arguments.

use std::sync::Barrier;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tombolo_engine::clock::{Clock, SystemClock};
use tombolo_engine::islands::placement::Placement;
use tombolo_engine::rng::Rng;
use tombolo_engine::threads::on_each;
use tombolo_storage::schema::TableDef;

use crate::failure::Failure;
use crate::histogram::{Latencies, Summary};
use crate::numbers::rounded;
use crate::report::Header;
use crate::workload::microbenchmark::input::Input;
use crate::workload::microbenchmark::schema::{Item, ItemKey};

/// The transactions of a caller, made beforehand; it begins again when it has called them all.
const INPUTS: usize = 4_096;
/// Calls between two looks at the clock.
const LOOK: usize = 16;
/// The seed of all choices.
const SEED: u64 = 47;

/// The table.
pub fn table() -> TableDef {
    TableDef::of::<Item>().with::<ItemKey>()
}

/// What is measured at each point.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Rows of the database, with the keys from 1.
    pub rows: i32,
    /// Rows of a transaction.
    pub touched: usize,
    /// Whether it updates them, or reads them.
    pub is_update: bool,
    /// Callers of each island.
    pub callers: usize,
    /// Whether answers are durable.
    pub is_durable: bool,
    /// On which cores the threads and callers of an island run.
    pub placement: Placement,
    /// How long a point is measured in a round.
    pub time: Duration,
    /// How often.
    pub rounds: u32,
}

/// A database of islands with the table.
pub trait Deployment: Sync {
    /// How many islands it has.
    fn islands(&self) -> usize;

    /// The island of a key.
    ///
    /// # Errors
    /// What the library returns.
    fn island_of(&self, key: i32) -> Result<usize, Failure>;

    /// Binds the calling thread, which calls this island, to its cores.
    ///
    /// # Errors
    /// What the library returns.
    fn bind_caller(&self, island: usize) -> Result<(), Failure>;

    /// Makes rows with these keys, with counters at zero.
    ///
    /// # Errors
    /// What the library returns.
    fn load(&self, keys: std::ops::RangeInclusive<i32>) -> Result<(), Failure>;

    /// Runs one transaction: on one island, or on several that commit together.
    ///
    /// # Errors
    /// What the library returns.
    fn call(&self, parts: &[(usize, Input)]) -> Result<(), Failure>;

    /// The sum of all rows' counters, and their number.
    ///
    /// # Errors
    /// What the library returns.
    fn total(&self) -> Result<(i64, i64), Failure>;
}

/// A result of `islands`: one point in one round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "docs/cli.md says what each field means")]
pub struct DeploymentResult {
    #[serde(flatten)]
    pub header: Header,
    pub workload: String,
    pub kind: String,
    pub durability: String,
    pub islands: usize,
    pub threads: usize,
    pub multisite_percent: u64,
    /// Absent where the system decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<String>,
    pub round: u32,
    pub committed: u64,
    pub distributed: u64,
    pub wall_s: f64,
    pub cpu_s: f64,
    pub tps: f64,
    pub us_per_transaction_cpu: f64,
    pub latency_us: Option<Summary>,
}

/// A point: a database, and the share of multisite transactions in percent.
struct Point<'d> {
    deployment: &'d dyn Deployment,
    multisite: u64,
    callers: Vec<Caller>,
}

/// A transaction: the input of each island that has a part.
type Parts = Vec<(usize, Input)>;

struct Caller {
    island: usize,
    inputs: Vec<Parts>,
}

/// What a caller did.
#[derive(Default)]
struct Done {
    committed: u64,
    distributed: u64,
    latencies: Latencies,
}

impl Effort {
    pub(super) fn kind(&self) -> String {
        let verb = if self.is_update { "update" } else { "read" };
        format!("{verb}-{}", self.touched)
    }

    /// The transactions of a caller of `island`; `own` are that island's keys.
    fn inputs(
        &self,
        deployment: &dyn Deployment,
        island: usize,
        (own, multisite): (&[i32], u64),
        rng: &mut Rng,
    ) -> Result<Vec<Parts>, Failure> {
        let draw = |rng: &mut Rng, from: &[i32]| from[rng.below(from.len() as u64) as usize];
        let mut transaction = || {
            let is_multisite = rng.below(100) < multisite;
            let mut keys = vec![draw(rng, own)];
            while keys.len() < self.touched {
                let key = match is_multisite {
                    true => 1 + rng.below(self.rows as u64) as i32,
                    false => draw(rng, own),
                };
                if !keys.contains(&key) {
                    keys.push(key);
                }
            }
            let mut by_island: Vec<(usize, Vec<i32>)> = vec![(island, Vec::new())];
            for key in keys {
                let of = deployment.island_of(key)?;
                match by_island.iter_mut().find(|(island, _)| *island == of) {
                    Some((_, keys)) => keys.push(key),
                    None => by_island.push((of, vec![key])),
                }
            }
            let parts = by_island.into_iter();
            Ok(parts.map(|(of, keys)| (of, Input::new(self.is_update, &keys))).collect())
        };
        (0..INPUTS).map(|_| transaction()).collect()
    }
}

/// Loads the databases and measures each at each share of multisite transactions; shows results as they come.
///
/// # Errors
/// What a database or `show` returns; a failed check if the rows are not what was answered.
pub fn measure(
    header: &Header,
    (deployments, multisite): (&[Box<dyn Deployment>], &[u64]),
    effort: &Effort,
    clock: &SystemClock,
    mut show: impl FnMut(DeploymentResult) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut points = Vec::new();
    for deployment in deployments {
        deployment.load(1..=effort.rows)?;
        let mut keys = vec![Vec::new(); deployment.islands()];
        for key in 1..=effort.rows {
            keys[deployment.island_of(key)?].push(key);
        }
        if let Some(island) = keys.iter().position(|keys| keys.len() < effort.touched) {
            return Err(Failure::usage(format!(
                "island {island} has too few rows for a transaction of {}: give more --rows",
                effort.touched
            )));
        }
        for &multisite in multisite {
            let mut callers = Vec::new();
            for (island, own) in keys.iter().enumerate() {
                for caller in 0..effort.callers {
                    let mut rng = Rng::stream(SEED, &[island as u64, caller as u64, multisite]);
                    let inputs =
                        effort.inputs(&**deployment, island, (own, multisite), &mut rng)?;
                    callers.push(Caller { island, inputs });
                }
            }
            points.push(Point { deployment: &**deployment, multisite, callers });
        }
    }
    let mut committed = vec![0; deployments.len()];
    for round in 0..effort.rounds {
        for (at, point) in points.iter().enumerate() {
            let result = point.measure(header, effort, round, clock)?;
            committed[at / multisite.len()] += result.committed;
            show(result)?;
        }
    }
    for (deployment, committed) in deployments.iter().zip(committed) {
        let (updates, rows) = deployment.total()?;
        let expected = if effort.is_update { committed * effort.touched as u64 } else { 0 };
        if (updates, rows) != (expected as i64, effort.rows.into()) {
            return Err(Failure::check(format!(
                "{} islands have {rows} rows with {updates} updates, not {} with {expected}: please report it",
                deployment.islands(),
                effort.rows
            )));
        }
    }
    Ok(())
}

impl Point<'_> {
    fn measure(
        &self,
        header: &Header,
        effort: &Effort,
        round: u32,
        clock: &SystemClock,
    ) -> Result<DeploymentResult, Failure> {
        let together = Barrier::new(self.callers.len() + 1);
        let mut taken = (0, Duration::ZERO);
        let mut parts: Vec<Option<&Caller>> = self.callers.iter().map(Some).collect();
        parts.push(None); // the one that takes the time
        let parts = on_each(parts.into_iter().enumerate(), |(number, caller)| {
            let bound = caller.map_or(Ok(()), |caller| self.deployment.bind_caller(caller.island));
            together.wait();
            let begin = (clock.now_ns(), clock.process_cpu());
            let done = caller.map(|caller| {
                let first = number * INPUTS / (self.callers.len() + 1);
                bound.and_then(|()| caller.run(self.deployment, effort.time, first, clock))
            });
            together.wait();
            let end = (clock.now_ns(), clock.process_cpu());
            (done, (end.0 - begin.0, end.1.saturating_sub(begin.1)))
        });
        let mut all = Done::default();
        for (done, took) in parts {
            match done {
                None => taken = took,
                Some(done) => {
                    let done = done?;
                    all.committed += done.committed;
                    all.distributed += done.distributed;
                    all.latencies.add(&done.latencies);
                }
            }
        }
        let (wall_s, cpu_s) = (taken.0 as f64 / 1e9, taken.1.as_secs_f64());
        Ok(DeploymentResult {
            header: header.clone(),
            workload: "rows".to_owned(),
            kind: effort.kind(),
            durability: if effort.is_durable { "group" } else { "none" }.to_owned(),
            islands: self.deployment.islands(),
            threads: effort.callers,
            multisite_percent: self.multisite,
            placement: (effort.placement != Placement::Os)
                .then(|| effort.placement.name().to_owned()),
            round,
            committed: all.committed,
            distributed: all.distributed,
            wall_s: rounded(wall_s, 6),
            cpu_s: rounded(cpu_s, 6),
            tps: rounded(all.committed as f64 / wall_s, 1),
            us_per_transaction_cpu: rounded(1e6 * cpu_s / all.committed as f64, 4),
            latency_us: all.latencies.summary(),
        })
    }
}

impl Caller {
    /// Calls from transaction number `first` on until the time is over.
    fn run(
        &self,
        deployment: &dyn Deployment,
        time: Duration,
        first: usize,
        clock: &SystemClock,
    ) -> Result<Done, Failure> {
        let (mut done, mut at) = (Done::default(), first % INPUTS);
        let begun_ns = clock.now_ns();
        let end_ns = begun_ns + time.as_nanos() as u64;
        let mut before_ns = begun_ns;
        while before_ns < end_ns {
            for _ in 0..LOOK {
                let parts = &self.inputs[at];
                deployment.call(parts)?;
                done.distributed += u64::from(parts.len() > 1);
                at = (at + 1) % INPUTS;
            }
            done.committed += LOOK as u64;
            let now_ns = clock.now_ns();
            done.latencies.record((now_ns - before_ns) / LOOK as u64);
            before_ns = now_ns;
        }
        Ok(done)
    }
}
