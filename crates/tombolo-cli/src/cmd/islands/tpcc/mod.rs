//! `tombolo islands tpcc`: the library's side of TPC-C on databases of islands.
//!
//! Warehouses are spread by ranges of their numbers, and each island has all items. A transaction of one island's
//! warehouses runs there; a Payment of a customer, and a New Order with lines, of another island is one over several
//! islands. Not here: how the library runs them (`memory.rs`, `paged.rs`), the parts, loading, the conditions (lab
//! `workload/tpcc/`); callers, inputs, figures (lab `experiment/islands/tpcc.rs`); arguments.

pub(super) mod memory;
pub(super) mod paged;

use tombolo::Error;
use tombolo_lab::experiment::islands::deployments::{Called, Deployment, How};
use tombolo_lab::experiment::islands::tpcc::{TpccDeployment, verify};
use tombolo_lab::failure::Failure;
use tombolo_lab::workload::tpcc::input::{Input, NewOrderInput, PaymentInput};
use tombolo_lab::workload::tpcc::islands::{IslandSums, warehouses_of};
use tombolo_lab::workload::tpcc::loader::Scale;
use tombolo_lab::workload::tpcc::transactions::INVALID_ITEM_REASON;
use tombolo_lab::workload::tpcc::transactions::parts::orders_elsewhere;

use crate::library::failed;

/// How the library runs TPC-C on islands of one kind of store.
pub(super) trait Library {
    /// Whether rows are in pages.
    const IS_PAGED: bool = false;

    /// This thread calls an island from now on.
    fn bind_caller(&self, island: usize) -> Result<(), Error>;

    /// Runs a transaction of one island.
    fn run_whole(&self, input: &Input) -> Result<(), Error>;

    /// Runs a Payment of a customer of another island.
    fn pay(&self, payment: &PaymentInput) -> Result<(), Error>;

    /// Runs a New Order with lines, those of `elsewhere`, that other islands supply.
    fn order(&self, order: &NewOrderInput, elsewhere: &[NewOrderInput]) -> Result<(), Error>;

    /// Stores the initial database; `homes` has a warehouse of each island.
    fn load(&self, scale: Scale, homes: &[i32]) -> Result<(), Error>;

    /// What the conditions compare, of each island, as of one moment.
    fn sums(&self, homes: &[i32]) -> Result<Vec<IslandSums>, Error>;
}

/// A database of islands with TPC-C's tables.
pub(super) struct Tpcc<L> {
    pub(super) library: L,
    /// The island of each warehouse, by its number; nothing has number 0.
    island_of: Vec<usize>,
    /// A warehouse of each island.
    homes: Vec<i32>,
}

/// The warehouse that supplies the lines of a part of an order.
fn supplier(part: &NewOrderInput) -> i32 {
    part.lines()[0].supply_w_id
}

impl<L: Library> Tpcc<L> {
    /// Opens one, given the first warehouses of all islands but the first.
    fn open(
        islands: u16,
        scale: Scale,
        open: impl FnOnce(Vec<i64>) -> Result<L, Error>,
    ) -> Result<Self, Failure> {
        verify(islands, scale)?;
        let count = usize::from(islands);
        let of = |island| warehouses_of(island, count, scale.warehouses);
        let homes: Vec<i32> = (0..count).map(|island| *of(island).start()).collect();
        let bounds = homes[1..].iter().map(|&w_id| w_id.into()).collect();
        let library = open(bounds).map_err(|error| Failure::environment(error.to_string()))?;
        let island_of = [0].into_iter().chain((0..count).flat_map(|at| of(at).map(move |_| at)));
        Ok(Self { library, island_of: island_of.collect(), homes })
    }

    /// Runs a transaction; says whether it is one over several islands.
    fn run(&self, input: &Input) -> (bool, Result<(), Error>) {
        let island_of = |w_id: i32| self.island_of[w_id as usize];
        match input {
            Input::NewOrder(order) => {
                let is_away = |supplier: i32| {
                    supplier != order.w_id && island_of(supplier) != island_of(order.w_id)
                };
                if order.lines().iter().any(|line| is_away(line.supply_w_id)) {
                    let elsewhere = orders_elsewhere(order, island_of);
                    return (true, self.library.order(order, &elsewhere));
                }
            }
            Input::Payment(payment) if island_of(payment.w_id) != island_of(payment.c_w_id) => {
                return (true, self.library.pay(payment));
            }
            _ => {}
        }
        (false, self.library.run_whole(input))
    }
}

impl<L: Library + Sync> Deployment for Tpcc<L> {
    type Transaction = Input;

    fn islands(&self) -> usize {
        self.homes.len()
    }

    fn is_paged(&self) -> bool {
        L::IS_PAGED
    }

    fn bind_caller(&self, island: usize) -> Result<(), Failure> {
        self.library.bind_caller(island).map_err(failed)
    }

    fn call(&self, input: &Input) -> Result<Called, Failure> {
        let (is_distributed, ended) = self.run(input);
        match ended {
            Ok(()) => Ok(Called { has_committed: true, is_distributed }),
            Err(Error::Aborted(INVALID_ITEM_REASON)) => {
                Ok(Called { has_committed: false, is_distributed })
            }
            Err(error) => Err(failed(error)),
        }
    }
}

impl<L: Library + Sync> TpccDeployment for Tpcc<L> {
    fn load(&self, scale: Scale) -> Result<(), Failure> {
        self.library.load(scale, &self.homes).map_err(failed)
    }

    fn sums(&self) -> Result<Vec<IslandSums>, Failure> {
        self.library.sums(&self.homes).map_err(failed)
    }
}

/// A database of islands in memory.
pub(in crate::cmd) fn open_in_memory(
    islands: u16,
    scale: Scale,
) -> Result<Box<dyn TpccDeployment>, Failure> {
    Ok(Box::new(Tpcc::in_memory(islands, scale, How::default(), None)?))
}

/// A database of islands of paged stores whose files are in memory.
pub(in crate::cmd) fn open_in_memory_files(
    islands: u16,
    scale: Scale,
) -> Result<Box<dyn TpccDeployment>, Failure> {
    Ok(Box::new(Tpcc::on_pages(islands, scale, (None, None))?))
}
