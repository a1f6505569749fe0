//! The workload `rows` on databases of islands, by the share of multisite transactions (ISL-19, ISL-22).
//!
//! A local transaction uses rows of its caller's island; a multisite one uses one of them, and the others are drawn
//! from all rows, so that some happen to be on that island, too. All rows, and those of each island, are popular by
//! Zipf's law (ISL-27). At the end the counters of all rows are compared with
//! the answers. Not here: callers and rounds (`deployments.rs`).

use std::ops::RangeInclusive;

use tombolo_engine::clock::SystemClock;
use tombolo_engine::rng::Rng;
use tombolo_storage::schema::TableDef;

use super::deployments::{Caller, Deployment, DeploymentResult, Effort, Point, measure_rounds};
use crate::failure::Failure;
use crate::workload::microbenchmark::input::{Input, Popularity};
use crate::workload::microbenchmark::schema::{Item, ItemKey};

/// The transactions of a caller, made beforehand.
const INPUTS: usize = 4_096;
/// The seed of all choices.
const SEED: u64 = 47;

/// The table.
pub fn table() -> TableDef {
    TableDef::of::<Item>().with::<ItemKey>()
}

/// What transactions do with which rows.
#[derive(Clone, Copy, Debug)]
pub struct Access {
    /// Rows of the database, with the keys from 1.
    pub rows: i32,
    /// Rows of a transaction.
    pub touched: usize,
    /// Whether it updates them, or reads them.
    pub is_update: bool,
    /// How unequal rows are in popularity: the exponent of Zipf's law, in hundredths.
    pub skew: u32,
}

/// Rows from which a caller draws: those of its island, and all.
struct Drawn<'a> {
    own: &'a [i32],
    of_own: Popularity,
    of_all: Popularity,
}

/// Which of the transactions are multisite.
#[derive(Clone, Copy, Debug)]
pub enum Multisite {
    /// So many percent of each caller's.
    Percent(u64),
    /// Those of so many further callers of each island; the others' are local.
    Callers(usize),
}

/// A transaction: the input of each island that has a part.
pub type Parts = Vec<(usize, Input)>;

/// A database of islands with the table.
pub trait RowsDeployment: Deployment<Transaction = Parts> {
    /// The island of a key.
    ///
    /// # Errors
    /// What the library returns.
    fn island_of(&self, key: i32) -> Result<usize, Failure>;

    /// These keys, by island.
    ///
    /// # Errors
    /// What the library returns.
    fn by_island(&self, keys: RangeInclusive<i32>) -> Result<Vec<Vec<i32>>, Failure> {
        let mut by_island = vec![Vec::new(); self.islands()];
        for key in keys {
            by_island[self.island_of(key)?].push(key);
        }
        Ok(by_island)
    }

    /// Makes rows with these keys, with counters at zero.
    ///
    /// # Errors
    /// What the library returns.
    fn load(&self, keys: RangeInclusive<i32>) -> Result<(), Failure>;

    /// The sum of all rows' counters, and their number.
    ///
    /// # Errors
    /// What the library returns.
    fn total(&self) -> Result<(i64, i64), Failure>;
}

impl Access {
    pub(super) fn kind(&self) -> String {
        let verb = if self.is_update { "update" } else { "read" };
        format!("{verb}-{}", self.touched)
    }

    fn drawn<'a>(&self, own: &'a [i32]) -> Drawn<'a> {
        let of = |rows: u64| Popularity::new(rows, self.skew);
        Drawn { own, of_own: of(own.len() as u64), of_all: of(self.rows as u64) }
    }

    /// The transactions of a caller of `island`, out of that island's rows and all.
    fn inputs(
        &self,
        deployment: &dyn RowsDeployment,
        island: usize,
        (drawn, multisite): (&Drawn<'_>, u64),
        rng: &mut Rng,
    ) -> Result<Vec<Parts>, Failure> {
        let own = |rng: &mut Rng| drawn.own[drawn.of_own.draw(rng) as usize];
        let mut transaction = || {
            let is_multisite = rng.below(100) < multisite;
            let mut keys = vec![own(rng)];
            while keys.len() < self.touched {
                let key = match is_multisite {
                    true => 1 + drawn.of_all.draw(rng) as i32,
                    false => own(rng),
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

/// Loads the databases and measures each at each share of multisite transactions; shows results, each with the number
/// of its database and that of its share, as they come.
///
/// # Errors
/// What a database or `show` returns; a failed check if the rows are not what was answered.
pub fn measure(
    (deployments, multisite): (&[Box<dyn RowsDeployment>], &[Multisite]),
    (access, effort): (&Access, &Effort),
    clock: &SystemClock,
    mut show: impl FnMut((usize, usize), DeploymentResult) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut points = Vec::new();
    for deployment in deployments {
        deployment.load(1..=access.rows)?;
        let keys = deployment.by_island(1..=access.rows)?;
        if let Some(island) = keys.iter().position(|keys| keys.len() < access.touched) {
            return Err(Failure::usage(format!(
                "island {island} has too few rows for a transaction of {}: give more --rows",
                access.touched
            )));
        }
        let drawn: Vec<_> = keys.iter().map(|own| access.drawn(own)).collect();
        for &multisite in multisite {
            let mut callers = Vec::new();
            let (percent, further) = match multisite {
                Multisite::Percent(percent) => (percent, 0),
                Multisite::Callers(callers) => (0, callers),
            };
            let local = effort.callers.of_each(keys.len());
            for (island, drawn) in drawn.iter().enumerate() {
                for caller in 0..local + further {
                    let is_further = caller >= local;
                    let percent = if is_further { 100 } else { percent };
                    let mut rng = Rng::stream(SEED, &[island as u64, caller as u64, percent]);
                    let transactions =
                        access.inputs(&**deployment, island, (drawn, percent), &mut rng)?;
                    callers.push(Caller { island, is_further, transactions });
                }
            }
            let what = DeploymentResult {
                workload: "rows".to_owned(),
                kind: access.kind(),
                multisite_percent: (further == 0).then_some(percent),
                multisite_callers: (further > 0).then_some(further),
                ..DeploymentResult::default()
            };
            points.push(Point { deployment: &**deployment, what, callers });
        }
    }
    let mut committed = vec![0; deployments.len()];
    measure_rounds(&points, effort, clock, |at, result| {
        let (database, share) = (at / multisite.len(), at % multisite.len());
        committed[database] += result.committed;
        show((database, share), result)
    })?;
    for (deployment, committed) in deployments.iter().zip(committed) {
        let (updates, rows) = deployment.total()?;
        let expected = if access.is_update { committed * access.touched as u64 } else { 0 };
        if (updates, rows) != (expected as i64, access.rows.into()) {
            return Err(Failure::check(format!(
                "{} islands have {rows} rows with {updates} updates, not {} with {expected}: please report it",
                deployment.islands(),
                access.rows
            )));
        }
    }
    Ok(())
}
