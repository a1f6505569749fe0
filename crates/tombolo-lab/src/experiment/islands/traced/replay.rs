//! Replaying a trace: its calls, with as many rows of the traced sizes under the same keys, on databases of islands.
//!
//! A row that was read or updated is loaded beforehand, and an update counts in it. A row that was inserted or deleted
//! is inserted if it is not there, and otherwise deleted, so that calls can be repeated. A scan visits as many
//! neighbouring rows. At the end the rows and their counters are compared with what was called. Not here: callers and
//! rounds (`deployments.rs`), the library.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tombolo_engine::clock::SystemClock;
use tombolo_engine::rng::Rng;
use tombolo_engine::trace::{Access, Touched};

use super::super::deployments::{
    Caller, Deployment, DeploymentResult, Effort, Point, measure_rounds,
};
use super::{Place, Workload};
use crate::failure::Failure;
use crate::sweep::Spread;

/// Calls of a caller, drawn beforehand.
const INPUTS: usize = 4_096;
/// The seed of all choices.
const SEED: u64 = 57;
/// Rows of one table with one key that a call uses at most.
const ROWS_MAX: u64 = 1 << 12;
/// About what a part may log, and what the log has of a row besides its bytes.
const LOG_BYTES: u64 = 48_000;
const LOG_BYTES_OF_ROW: u64 = 80;

/// What is done with rows that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Each is found and read.
    Read,
    /// They are visited in a scan.
    Scan,
    /// Each is found, and its counter incremented.
    Update,
    /// Each is deleted if it is there, and otherwise inserted.
    Toggle,
}

/// What is done, and the rows: their numbers, and the length of each beside its number and counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the line above says it")]
pub struct Step {
    pub action: Action,
    pub first: i64,
    pub rows: u32,
    pub bytes: u32,
}

/// A call: its steps on each island that it uses.
#[derive(Debug)]
pub struct Replay {
    /// The islands, each with its steps, the one first on which it begins.
    pub parts: Vec<(usize, Arc<[Step]>)>,
    /// How often it was called.
    pub times: AtomicU64,
}

/// A database of islands with a table of rows that have a number, a counter and other bytes.
pub trait ReplayDeployment: Deployment<Transaction = Replay> {
    /// Makes rows with these numbers and lengths on an island.
    ///
    /// # Errors
    /// What the library returns.
    fn load(&self, island: usize, rows: &[(i64, u32)]) -> Result<(), Failure>;

    /// The sum of all rows' counters, and their number.
    ///
    /// # Errors
    /// What the library returns.
    fn total(&self) -> Result<(u64, u64), Failure>;
}

/// Opens one in memory with a number of islands.
pub type Open = fn(u16) -> Result<Box<dyn ReplayDeployment>, Failure>;

/// Rows of an island.
type Rows = BTreeMap<i64, u32>;

/// The number of the first row of a table with a key; others follow.
fn first_row(table: u32, key: u64, salt: u64) -> i64 {
    let mut rng = Rng::stream(key, &[u64::from(table), salt]);
    let base = rng.below(1 << 50) as i64;
    base << ROWS_MAX.ilog2()
}

impl Workload {
    /// The step for rows of a call.
    fn step(&self, call: usize, at: usize, touched: &Touched) -> Step {
        let action = match touched.access {
            Access::Scanned => Action::Scan,
            Access::Read => Action::Read,
            Access::Updated => Action::Update,
            Access::Created | Access::Deleted => Action::Toggle,
        };
        let salt = match action {
            Action::Toggle => 1 + ((call as u64) << 16) + at as u64,
            _ => 0,
        };
        let bytes = self.trace.tables[touched.table as usize].row_bytes.saturating_sub(16);
        let first = first_row(touched.table, touched.key.unwrap_or_default(), salt);
        Step { action, first, rows: touched.rows.min(ROWS_MAX) as u32, bytes }
    }

    /// A call on so many islands; if `is_cut`, only what it does with rows of its first key, and of none.
    fn replay(&self, call: usize, islands: usize, is_cut: bool) -> Replay {
        let home = self.home(call, islands);
        let first = self.keys[call].first().copied();
        let mut parts: Vec<(usize, Vec<Step>)> = vec![(home, Vec::new())];
        for (at, touched) in self.trace.calls[call].touched.iter().enumerate() {
            let is_spread = self.places[touched.table as usize] == Place::Spread;
            let key = touched.key.filter(|_| is_spread);
            if is_cut && key.is_some() && key != first {
                continue;
            }
            let island = key.map_or(home, |key| self.island(key, islands));
            let step = self.step(call, at, touched);
            match parts.iter_mut().find(|(of, _)| *of == island) {
                Some((_, steps)) => steps.push(step),
                None => parts.push((island, vec![step])),
            }
        }
        let parts = parts.into_iter().map(|(island, steps)| (island, loggable(steps))).collect();
        Replay { parts, times: AtomicU64::new(0) }
    }

    /// The rows that each island has before anything is replayed.
    fn rows(&self, islands: usize) -> Vec<Rows> {
        let mut rows = vec![Rows::new(); islands];
        for call in self.calls() {
            for (at, touched) in self.trace.calls[call].touched.iter().enumerate() {
                let step = self.step(call, at, touched);
                if step.action == Action::Toggle {
                    continue;
                }
                let is_spread = self.places[touched.table as usize] == Place::Spread;
                let island = touched.key.filter(|_| is_spread).map(|key| self.island(key, islands));
                let of = island.map_or(0..islands, |island| island..island + 1);
                for island in of {
                    let numbers = step.first..step.first + i64::from(step.rows);
                    rows[island].extend(numbers.map(|number| (number, step.bytes)));
                }
            }
        }
        rows
    }

    /// The calls of a caller of an island, of which a share, in percent, is multisite.
    fn inputs(&self, island: usize, islands: usize, share: u64, rng: &mut Rng) -> Vec<Replay> {
        let own: Vec<usize> =
            self.calls().filter(|call| self.home(*call, islands) == island).collect();
        // An island without calls has callers nevertheless: of any calls.
        let own = if own.is_empty() { self.calls().collect() } else { own };
        let (multisite, single): (Vec<usize>, Vec<usize>) =
            own.iter().partition(|call| self.is_multisite(**call));
        let draw = |rng: &mut Rng, from: &[usize]| from[rng.below(from.len() as u64) as usize];
        let mut call = || {
            let is_multisite = rng.below(100) < share && !multisite.is_empty();
            match (is_multisite, single.is_empty()) {
                (true, _) => self.replay(draw(rng, &multisite), islands, false),
                (false, false) => self.replay(draw(rng, &single), islands, false),
                (false, true) => self.replay(draw(rng, &multisite), islands, true),
            }
        };
        (0..INPUTS).map(|_| call()).collect()
    }

    /// Transactions a second on so many islands, at each share of multisite calls, with `effort.callers` of each
    /// island: as many as the island with the most calls allows.
    ///
    /// # Errors
    /// What the database returns; a failed check if its rows are not what was called.
    pub fn measure(
        &self,
        open: Open,
        islands: usize,
        shares: &[u64],
        effort: &Effort,
    ) -> Result<Vec<f64>, Failure> {
        let deployment = open(islands as u16)?;
        let loaded = self.rows(islands);
        for (island, rows) in loaded.iter().enumerate() {
            let rows: Vec<(i64, u32)> =
                rows.iter().map(|(number, bytes)| (*number, *bytes)).collect();
            deployment.load(island, &rows)?;
        }
        let mut points = Vec::new();
        for &share in shares {
            let caller = |number: usize| {
                let (island, place) = (number / effort.callers, number % effort.callers);
                let mut rng = Rng::stream(SEED, &[island as u64, place as u64, share]);
                Caller { island, transactions: self.inputs(island, islands, share, &mut rng) }
            };
            let callers = (0..islands * effort.callers).map(caller).collect();
            let what =
                DeploymentResult { workload: "trace".to_owned(), ..DeploymentResult::default() };
            points.push(Point { deployment: &*deployment, what, callers });
        }
        let mut tps = vec![Vec::new(); shares.len()];
        measure_rounds(&points, effort, &SystemClock::new(), |at, result| {
            tps[at].push(result.tps);
            Ok(())
        })?;
        let called = points.iter().flat_map(|point| &point.callers);
        let called = called.flat_map(|caller| &caller.transactions);
        verify(&*deployment, &loaded, called)?;
        let balance = (self.busiest(islands) * islands as f64).recip().min(1.0);
        Ok(tps.into_iter().map(|tps| Spread::of(tps).median * balance).collect())
    }
}

/// As many of the steps, and of their rows, as the log of a part has room for: the application may have asked for more.
fn loggable(mut steps: Vec<Step>) -> Arc<[Step]> {
    let mut room = LOG_BYTES;
    for step in &mut steps {
        let bytes = match step.action {
            Action::Read | Action::Scan => continue,
            Action::Update => LOG_BYTES_OF_ROW,
            Action::Toggle => LOG_BYTES_OF_ROW + u64::from(step.bytes),
        };
        step.rows = u64::from(step.rows).min(room / bytes) as u32;
        room -= u64::from(step.rows) * bytes;
    }
    steps.retain(|step| step.rows > 0);
    steps.into()
}

/// Compares the rows with what was called.
fn verify<'c>(
    deployment: &dyn ReplayDeployment,
    loaded: &[Rows],
    called: impl Iterator<Item = &'c Replay>,
) -> Result<(), Failure> {
    let mut expected = 0;
    let mut toggled: BTreeSet<(usize, i64)> = loaded
        .iter()
        .enumerate()
        .flat_map(|(island, rows)| rows.keys().map(move |number| (island, *number)))
        .collect();
    for replay in called {
        let times = replay.times.load(Ordering::Relaxed);
        for (island, steps) in &replay.parts {
            for step in steps.iter() {
                match step.action {
                    Action::Update => expected += times * u64::from(step.rows),
                    Action::Toggle if times % 2 == 1 => {
                        for number in step.first..step.first + i64::from(step.rows) {
                            let place = (*island, number);
                            if !toggled.remove(&place) {
                                toggled.insert(place);
                            }
                        }
                    }
                    _ => {}
                }
            }
        }
    }
    let (updates, rows) = deployment.total()?;
    if (updates, rows) != (expected, toggled.len() as u64) {
        return Err(Failure::check(format!(
            "{} islands have {rows} rows with {updates} updates after the trace was replayed, not {} with {expected}: \
             please report it",
            deployment.islands(),
            toggled.len()
        )));
    }
    Ok(())
}
