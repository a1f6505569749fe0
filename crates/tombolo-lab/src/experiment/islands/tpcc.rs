//! TPC-C on databases of islands, by the share of transactions that involve another warehouse (ISL-20).
//!
//! Warehouses are spread over the islands; a caller's transactions have their homes on its island. A Payment of a
//! customer of another island's warehouse, and a New Order with lines that one supplies, are transactions over both.
//! At the end the conditions of TPC-C are asked of all islands together. Not here: callers and rounds
//! (`deployments.rs`), parts of transactions and conditions (`workload/tpcc/`).

use tombolo_engine::clock::SystemClock;

use super::deployments::{
    Caller, Deployment, DeploymentResult, Effort, Point, TpccPoint, measure_rounds,
};
use crate::failure::Failure;
use crate::workload::tpcc::input::{self, Generator, Input, Remote};
use crate::workload::tpcc::islands::{IslandSums, conditions, warehouses_of};
use crate::workload::tpcc::loader::Scale;
use crate::workload::tpcc::nurand::Constants;

/// The transactions of a caller, made beforehand: more than there are customers of two warehouses.
const INPUTS: usize = 1 << 17;

named! {
    /// Which transactions run.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Mix by name {
        /// New Order and Payment, half each, of one warehouse unless something else is asked for.
        Paper = "paper",
        /// The specification's five transactions.
        Standard = "standard",
        /// The specification's Payments only.
        Payment = "payment",
    }
}

impl Mix {
    /// The mix out of which its transactions are, which has the indexes that they need.
    pub const fn whole(self) -> input::Mix {
        match self {
            Self::Paper => input::Mix::Paper,
            Self::Standard | Self::Payment => input::Mix::Standard,
        }
    }

    const fn has(self, input: &Input) -> bool {
        !matches!(self, Self::Payment) || matches!(input, Input::Payment(_))
    }

    /// How often another warehouse is involved: as the mix has it, or with this share, in percent, of Payments and of
    /// lines.
    pub fn remote(self, percent: Option<u64>) -> Remote {
        percent.map_or(Remote::of(self.whole()), |percent| Remote {
            payments: percent,
            lines: percent,
        })
    }
}

/// A database of islands with TPC-C's tables.
pub trait TpccDeployment: Deployment<Transaction = Input> {
    /// Stores the initial database.
    ///
    /// # Errors
    /// What the library returns.
    fn load(&self, scale: Scale) -> Result<(), Failure>;

    /// What the conditions compare, of each island, as of one moment.
    ///
    /// # Errors
    /// What the library returns.
    fn sums(&self) -> Result<Vec<IslandSums>, Failure>;
}

/// Opens a database in memory with a number of islands, for a scale.
pub type Open = fn(u16, Scale) -> Result<Box<dyn TpccDeployment>, Failure>;

/// Refuses a database of which an island would have no warehouse.
///
/// # Errors
/// Then.
pub fn verify(islands: u16, scale: Scale) -> Result<(), Failure> {
    if scale.warehouses < i32::from(islands) {
        return Err(Failure::usage(format!(
            "{islands} islands need a warehouse each, and there are {}: give more --warehouses",
            scale.warehouses
        )));
    }
    Ok(())
}

/// The transactions of a caller of an island.
fn transactions(
    (scale, mix): (Scale, Mix),
    (island, islands): (usize, usize),
    caller: usize,
    remote: Remote,
) -> Vec<Input> {
    let constants = Constants::from_seed(scale.seed);
    let homes = warehouses_of(island, islands, scale.warehouses);
    let all = Generator::new(scale.seed, scale.mix, scale.warehouses, constants);
    let own = all.of_caller(scale.seed, caller as i32, homes).with_remote(remote);
    own.filter(|input| mix.has(input)).take(INPUTS).collect()
}

/// Loads the databases and measures each with each share of remote customers and lines; shows results as they come.
///
/// # Errors
/// What a database or `show` returns; a failed check if a condition does not hold in the end.
pub fn measure(
    (deployments, remote): (&[Box<dyn TpccDeployment>], &[Option<u64>]),
    (scale, mix, effort): (Scale, Mix, &Effort),
    clock: &SystemClock,
    mut show: impl FnMut(DeploymentResult) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut points = Vec::new();
    for deployment in deployments {
        deployment.load(scale)?;
        let islands = deployment.islands();
        for &percent in remote {
            let remote = mix.remote(percent);
            let each = effort.callers.of_each(islands);
            let callers = (0..islands * each).map(|caller| {
                let island = caller / each;
                let transactions = transactions((scale, mix), (island, islands), caller, remote);
                Caller { island, is_further: false, transactions }
            });
            let tpcc = TpccPoint {
                warehouses: scale.warehouses,
                remote_payments_percent: remote.payments,
                remote_lines_percent: remote.lines,
                aborted: 0,
            };
            let what = DeploymentResult {
                workload: "tpcc".to_owned(),
                kind: mix.name().to_owned(),
                tpcc: Some(tpcc),
                ..DeploymentResult::default()
            };
            let callers = callers.collect();
            points.push(Point { deployment: &**deployment, what, callers });
        }
    }
    measure_rounds(&points, effort, clock, |_, result| show(result))?;
    deployments.iter().try_for_each(|deployment| check(&**deployment))
}

/// Asks the conditions of all islands together.
fn check(deployment: &dyn TpccDeployment) -> Result<(), Failure> {
    for check in conditions(deployment.sums()?) {
        if let Some(violation) = check.violation {
            let (islands, name) = (deployment.islands(), check.name);
            return Err(Failure::check(format!(
                "on {islands} islands, check {name} failed: {violation}: please report it"
            )));
        }
    }
    Ok(())
}
