//! Points measured on databases of islands in memory: the median of their rounds, and how much those differ (ISL-38).
//!
//! Not here: a round (`deployments.rs`).

use tombolo_engine::clock::SystemClock;

use super::deployments::{DeploymentResult, Effort};
use super::rows::{self, Access, Multisite, RowsDeployment};
use super::tpcc;
use crate::failure::Failure;
use crate::numbers::mean_and_deviation;
use crate::sweep::Spread;
use crate::workload::tpcc::loader::Scale;

/// Opens a database in memory with a number of islands, for the keys from 1 to the second number.
pub type Open = fn(u16, i32) -> Result<Box<dyn RowsDeployment>, Failure>;

/// A point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// How many islands.
    pub islands: usize,
    /// The share of multisite transactions, in percent.
    pub multisite: u64,
    /// Transactions a second: the median of the rounds.
    pub tps: f64,
    /// Their standard deviation, in percent of their mean.
    pub deviation_percent: f64,
    /// The share of transactions that used several islands.
    pub distributed: f64,
}

impl Measured {
    /// Of local transactions, on so many islands.
    pub(super) fn of(islands: u16, rounds: &[&DeploymentResult]) -> Self {
        let figures: Vec<f64> = rounds.iter().map(|round| round.tps).collect();
        let (_, deviation_percent) = mean_and_deviation(&figures);
        let committed: u64 = rounds.iter().map(|round| round.committed).sum();
        let distributed: u64 = rounds.iter().map(|round| round.distributed).sum();
        Self {
            islands: islands.into(),
            multisite: 0,
            tps: Spread::of(figures).median,
            deviation_percent,
            distributed: distributed as f64 / committed.max(1) as f64,
        }
    }
}

/// Measures each number of islands at each share of multisite transactions, in interleaved rounds.
///
/// # Errors
/// What a database returns.
pub fn measure(
    open: impl Fn(u16, i32) -> Result<Box<dyn RowsDeployment>, Failure>,
    (islands, multisite): (&[u16], &[u64]),
    what: (&Access, &Effort),
) -> Result<Vec<Measured>, Failure> {
    let databases = islands.iter().map(|&islands| open(islands, what.0.rows));
    measure_on(&databases.collect::<Result<Vec<_>, _>>()?, multisite, what)
}

/// Measures each database at each share of multisite transactions, in interleaved rounds; returns all points of the
/// first, then those of the next.
///
/// # Errors
/// What a database returns.
pub fn measure_on(
    databases: &[Box<dyn RowsDeployment>],
    multisite: &[u64],
    (access, effort): (&Access, &Effort),
) -> Result<Vec<Measured>, Failure> {
    let shares: Vec<_> = multisite.iter().copied().map(Multisite::Percent).collect();
    let mut rounds = vec![Vec::new(); databases.len() * shares.len()];
    let points = (databases, shares.as_slice());
    rows::measure(points, (access, effort), &SystemClock::new(), |(database, share), round| {
        rounds[database * shares.len() + share].push(round);
        Ok(())
    })?;
    let of = |(at, rounds): (usize, &Vec<DeploymentResult>)| {
        let islands = databases[at / shares.len()].islands();
        let multisite = multisite[at % shares.len()];
        Measured { multisite, ..Measured::of(islands as u16, &rounds.iter().collect::<Vec<_>>()) }
    };
    Ok(rounds.iter().enumerate().map(of).collect())
}

/// Measures local Payments on each number of islands, in interleaved rounds.
///
/// # Errors
/// As [`measure`].
pub(super) fn measure_payments(
    open: tpcc::Open,
    islands: &[u16],
    scale: Scale,
    effort: &Effort,
) -> Result<Vec<Measured>, Failure> {
    let databases = islands.iter().map(|&islands| open(islands, scale));
    let databases = databases.collect::<Result<Vec<_>, _>>()?;
    let (clock, mut rounds) = (SystemClock::new(), Vec::new());
    let what = (scale, tpcc::Mix::Payment, effort);
    tpcc::measure((&databases, &[Some(0)]), what, &clock, |round| {
        rounds.push(round);
        Ok(())
    })?;
    let of = |&islands: &u16| {
        let is_of = |round: &&DeploymentResult| round.islands == usize::from(islands);
        Measured::of(islands, &rounds.iter().filter(is_of).collect::<Vec<_>>())
    };
    Ok(islands.iter().map(of).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spread_of_rounds() {
        assert_eq!(Spread::of(vec![3.0, 1.0, 2.0]).median, 2.0);
        let of = |figures: Vec<f64>| {
            (Spread::of(figures.clone()).median, mean_and_deviation(&figures).1)
        };
        assert_eq!(of(vec![1.0, 3.0]), (2.0, 50.0));
        assert_eq!(of(Vec::new()), (0.0, 0.0));
    }
}
