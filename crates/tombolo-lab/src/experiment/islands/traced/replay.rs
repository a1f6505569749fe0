//! Replaying a trace: its calls, with as many rows of the traced sizes under the same keys, on databases of islands.
//!
//! A row that was read or updated is loaded beforehand, and an update counts in it. A row that was inserted or deleted
//! is inserted if it is not there, and otherwise deleted, so that calls can be repeated. A scan visits as many
//! neighbouring rows. At the end the rows and their counters are compared with what was called. Not here: callers and
//! rounds (`deployments.rs`), the library.

use std::borrow::Borrow;
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

/// What is done, and the rows: their numbers, and the length of each besides its number and counter.
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

/// A call that callers make: its number, and whether it does only what it does with its main key.
type Drawn = (usize, bool);

/// For how long calls take the islands, in rows used: on average, each island by a call, and a call its islands. A
/// transaction has all its islands until it ends.
struct Taken {
    islands: Vec<f64>,
    call: f64,
}

impl Taken {
    fn by(calls: impl ExactSizeIterator<Item = impl Borrow<Replay>>, islands: usize) -> Self {
        let count = calls.len().max(1) as f64;
        let mut taken = Self { islands: vec![0.0; islands], call: 0.0 };
        for call in calls {
            let parts = &call.borrow().parts;
            let rows = parts.iter().flat_map(|(_, steps)| &**steps).map(|step| step.rows);
            let each = f64::from(rows.sum::<u32>().max(1)) / count;
            taken.call += each;
            parts.iter().for_each(|(island, _)| taken.islands[*island] += each);
        }
        taken
    }

    /// How long the busiest island is taken by a call, if calls are of two kinds, with a share of the second.
    fn busiest([one, other]: &[Self; 2], share: f64) -> f64 {
        let of = one.islands.iter().zip(&other.islands);
        of.map(|(one, other)| (1.0 - share) * one + share * other).fold(0.0, f64::max)
    }

    /// The same, if callers make such calls one after the other: those with short calls make more.
    fn busiest_by_callers(callers: &[Self]) -> f64 {
        let calls: f64 = callers.iter().map(|caller| caller.call.recip()).sum();
        let of = |island| callers.iter().map(|of| of.islands[island] / of.call).sum::<f64>();
        let islands = callers.first().map_or(0, |caller| caller.islands.len());
        (0..islands).map(of).fold(0.0, f64::max) / calls
    }
}

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

    /// The island on which a call that is made begins.
    fn drawn_home(&self, (call, is_cut): Drawn, islands: usize) -> usize {
        let main = self.main_key(call).filter(|_| is_cut);
        main.map_or_else(|| self.home(call, islands), |key| self.island(key, islands))
    }

    /// A call on so many islands; if it is cut, only what it does with rows of its main key, and of none.
    pub(super) fn replay(&self, (call, is_cut): Drawn, islands: usize) -> Replay {
        let home = self.drawn_home((call, is_cut), islands);
        let main = self.main_key(call);
        let mut parts: Vec<(usize, Vec<Step>)> = vec![(home, Vec::new())];
        for (at, touched) in self.trace.calls[call].touched.iter().enumerate() {
            let is_spread = self.places[touched.table as usize] == Place::Spread;
            let key = touched.key.filter(|_| is_spread);
            if is_cut && key.is_some() && key != main {
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

    /// What callers draw from: calls of one key and calls of several. Where one kind is missing, calls of several keys
    /// are cut for the first, and the second is as the first.
    fn kinds(&self) -> [Vec<Drawn>; 2] {
        let (multisite, single): (Vec<usize>, Vec<usize>) =
            self.calls().partition(|call| self.is_multisite(*call));
        let of = |calls: &[usize], is_cut: bool| -> Vec<Drawn> {
            calls.iter().map(|call| (*call, is_cut)).collect()
        };
        let single = if single.is_empty() { of(&multisite, true) } else { of(&single, false) };
        let multisite = if multisite.is_empty() { single.clone() } else { of(&multisite, false) };
        [single, multisite]
    }

    /// The calls of a caller of an island among so many, of which a share, in percent, is multisite.
    fn inputs(
        &self,
        kinds: &[Vec<Drawn>; 2],
        (island, islands): (usize, usize),
        share: u64,
        rng: &mut Rng,
    ) -> Vec<Replay> {
        let own = kinds.each_ref().map(|kind| {
            let is_own = |drawn: &&Drawn| self.drawn_home(**drawn, islands) == island;
            let own: Vec<Drawn> = kind.iter().filter(is_own).copied().collect();
            // An island without calls has callers nevertheless: of any calls.
            if own.is_empty() { kind.clone() } else { own }
        });
        let mut call = || {
            let kind = &own[usize::from(rng.below(100) < share)];
            self.replay(kind[rng.below(kind.len() as u64) as usize], islands)
        };
        (0..INPUTS).map(|_| call()).collect()
    }

    /// The callers of a number of islands, so many of each, and the part of their throughput that is left if calls are
    /// as frequent as in the trace: callers make as many on each island, but the busiest bounds the others.
    pub(super) fn callers(
        &self,
        islands: usize,
        each: usize,
        shares: &[u64],
    ) -> Vec<(Vec<Caller<Replay>>, f64)> {
        let kinds = self.kinds();
        let of_trace = kinds
            .each_ref()
            .map(|kind| Taken::by(kind.iter().map(|drawn| self.replay(*drawn, islands)), islands));
        let point = |&share: &u64| {
            let caller = |number: usize| {
                let (island, place) = (number / each, number % each);
                let mut rng = Rng::stream(SEED, &[island as u64, place as u64, share]);
                let transactions = self.inputs(&kinds, (island, islands), share, &mut rng);
                Caller { island, is_further: false, transactions }
            };
            let callers: Vec<_> = (0..islands * each).map(caller).collect();
            let taken = |caller: &Caller<Replay>| Taken::by(caller.transactions.iter(), islands);
            let taken: Vec<Taken> = callers.iter().map(taken).collect();
            let in_trace = Taken::busiest(&of_trace, share as f64 / 100.0);
            let balance = (Taken::busiest_by_callers(&taken) / in_trace).min(1.0);
            (callers, balance)
        };
        shares.iter().map(point).collect()
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
        let (mut points, mut balances) = (Vec::new(), Vec::new());
        for (callers, balance) in self.callers(islands, effort.callers.of_each(islands), shares) {
            let what =
                DeploymentResult { workload: "trace".to_owned(), ..DeploymentResult::default() };
            points.push(Point { deployment: &*deployment, what, callers });
            balances.push(balance);
        }
        let mut tps = vec![Vec::new(); shares.len()];
        measure_rounds(&points, effort, &SystemClock::new(), |at, result| {
            tps[at].push(result.tps);
            Ok(())
        })?;
        let called = points.iter().flat_map(|point| &point.callers);
        let called = called.flat_map(|caller| &caller.transactions);
        verify(&*deployment, &loaded, called)?;
        let medians = tps.into_iter().map(|tps| Spread::of(tps).median);
        Ok(medians.zip(balances).map(|(tps, balance)| tps * balance).collect())
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
