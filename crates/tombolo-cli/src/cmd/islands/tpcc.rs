//! `tombolo islands tpcc`: the library's side of TPC-C on databases of islands.
//!
//! Warehouses are spread by ranges of their numbers; every table but ITEM, which each island has, is declared to be
//! spread by its warehouse. A transaction of one island is a call there. One that needs rows of another is declared:
//! a part for each island, after a call that reads what no transaction changes. Not here: the parts, loading, the
//! conditions (lab `workload/tpcc/`); callers, inputs, figures (lab `experiment/islands/tpcc.rs`); arguments.

use std::collections::VecDeque;
use std::path::Path;

use tombolo::{CallOptions, Database, Early, Error, Islands, IslandsBuilder, OnIslands, Pending};
use tombolo_engine::threads;
use tombolo_lab::experiment::islands::deployments::{Called, Deployment};
use tombolo_lab::experiment::islands::tpcc::{TpccDeployment, verify};
use tombolo_lab::failure::Failure;
use tombolo_lab::workload::tpcc::input::{
    CustomerInput, DeliveryInput, Input, Mix, NewOrderInput, OrderStatusInput, PaymentInput,
    StockLevelInput,
};
use tombolo_lab::workload::tpcc::islands::{self, Batch, IslandSums, Load, SumUp, warehouses_of};
use tombolo_lab::workload::tpcc::loader::Scale;
use tombolo_lab::workload::tpcc::schema::{
    Customer, District, History, Item, NewOrder, OrderLine, Orders, Stock, Warehouse, tables,
};
use tombolo_lab::workload::tpcc::transactions::INVALID_ITEM_REASON;
use tombolo_lab::workload::tpcc::transactions::delivery::{Delivery, DeliveryAnswer};
use tombolo_lab::workload::tpcc::transactions::new_order::{
    NewOrder as NewOrderProcedure, NewOrderAnswer,
};
use tombolo_lab::workload::tpcc::transactions::order_status::{OrderStatus, OrderStatusAnswer};
use tombolo_lab::workload::tpcc::transactions::parts::{
    AskStock, Charge, Elsewhere, FindCustomer, OrderAtHome, PayAtHome, TakeFromStock,
    note_supplied, orders_elsewhere,
};
use tombolo_lab::workload::tpcc::transactions::payment::{Payment, PaymentAnswer};
use tombolo_lab::workload::tpcc::transactions::stock_level::{StockLevel, StockLevelAnswer};

use super::{How, failed};

/// Calls that load under way.
const UNDER_WAY_MAX: usize = 256;

/// A database of islands, opened by the library.
pub(super) struct Own {
    pub(super) islands: Islands,
    /// The island of each warehouse, by its number; nothing has number 0.
    island_of: Vec<usize>,
    new_order: OnIslands<NewOrderInput, NewOrderAnswer>,
    payment: OnIslands<PaymentInput, PaymentAnswer>,
    /// None where the tables lack their indexes.
    standard: Option<StandardOnly>,
    parts: Parts,
    load: OnIslands<Batch, ()>,
    sum_up: OnIslands<(), IslandSums>,
}

/// The transactions of one warehouse that only the standard mix has.
struct StandardOnly {
    order_status: OnIslands<OrderStatusInput, OrderStatusAnswer>,
    delivery: OnIslands<DeliveryInput, DeliveryAnswer>,
    stock_level: OnIslands<StockLevelInput, StockLevelAnswer>,
}

/// Parts of transactions over several islands.
struct Parts {
    find_customer: OnIslands<PaymentInput, i32, Early>,
    pay_at_home: OnIslands<(PaymentInput, i32), ()>,
    charge: OnIslands<PaymentInput, PaymentAnswer>,
    ask_stock: OnIslands<NewOrderInput, Elsewhere, Early>,
    order_at_home: OnIslands<(NewOrderInput, Elsewhere), NewOrderAnswer>,
    take_from_stock: OnIslands<NewOrderInput, ()>,
    /// How often a part elsewhere is added: once, but for the test that plants the fault that it is dropped or
    /// repeated.
    times: usize,
}

impl Parts {
    fn register(islands: &Islands) -> Result<Self, Error> {
        // No transaction changes what they read, so their answers need not wait until it is durable.
        let asking = CallOptions::new().early().read_only();
        Ok(Self {
            find_customer: islands.register::<FindCustomer>()?.with(asking),
            pay_at_home: islands.register::<PayAtHome>()?,
            charge: islands.register::<Charge>()?,
            ask_stock: islands.register::<AskStock>()?.with(asking),
            order_at_home: islands.register::<OrderAtHome>()?,
            take_from_stock: islands.register::<TakeFromStock>()?,
            times: 1,
        })
    }

    /// A Payment of a customer of another island.
    fn pay(&self, islands: &Islands, payment: &PaymentInput) -> Result<(), Error> {
        let c_id = match payment.customer {
            CustomerInput::Id(c_id) => c_id,
            CustomerInput::LastName(_) => {
                self.find_customer.at(&payment.c_w_id)?.call(*payment)?.into_inner()
            }
        };
        let charge = PaymentInput { customer: CustomerInput::Id(c_id), ..*payment };
        let mut across = islands.across();
        across.part(&self.pay_at_home, &payment.w_id, (*payment, c_id))?;
        for _ in 0..self.times {
            across.part(&self.charge, &payment.c_w_id, charge)?;
        }
        across.commit().map(drop)
    }

    /// A New Order with lines, those of `elsewhere`, that other islands supply.
    fn order(
        &self,
        islands: &Islands,
        order: &NewOrderInput,
        elsewhere: &[NewOrderInput],
    ) -> Result<(), Error> {
        let supplier = |part: &NewOrderInput| part.lines()[0].supply_w_id;
        let mut supplied = Elsewhere::default();
        for part in elsewhere {
            let asked = self.ask_stock.at(&supplier(part))?.call(*part)?.into_inner();
            note_supplied(&mut supplied, order, part, &asked);
        }
        let mut across = islands.across();
        across.part(&self.order_at_home, &order.w_id, (*order, supplied))?;
        for part in elsewhere {
            for _ in 0..self.times {
                across.part(&self.take_from_stock, &supplier(part), *part)?;
            }
        }
        across.commit().map(drop)
    }
}

/// Declares where the rows of each table are.
fn spread(builder: IslandsBuilder) -> IslandsBuilder {
    builder
        .spread_by(Warehouse::W_ID)
        .spread_by(District::D_W_ID)
        .spread_by(Customer::C_W_ID)
        .spread_by(History::H_W_ID)
        .spread_by(NewOrder::NO_W_ID)
        .spread_by(Orders::O_W_ID)
        .spread_by(OrderLine::OL_W_ID)
        .spread_by(Stock::S_W_ID)
        .everywhere::<Item>()
}

impl Own {
    /// Opens one in memory, or in a directory of its own below `data`.
    pub(super) fn open(
        islands: u16,
        scale: Scale,
        how: How,
        data: Option<&Path>,
    ) -> Result<Self, Failure> {
        verify(islands, scale)?;
        let count = usize::from(islands);
        let homes = (0..count).map(|island| warehouses_of(island, count, scale.warehouses));
        let bounds = homes.clone().skip(1).map(|homes| (*homes.start()).into());
        let builder =
            tables(scale.mix).into_iter().fold(Database::builder(), |to, of| to.table(of));
        let builder = how.of(spread(builder.islands(count).ranges(bounds)));
        let opened = match data {
            Some(data) => builder.open(data.join(format!("islands-{islands}"))),
            None => builder.in_memory(),
        };
        let islands = opened.map_err(|error| Failure::environment(error.to_string()))?;
        let mut island_of = vec![0];
        homes.enumerate().for_each(|(island, homes)| island_of.extend(homes.map(|_| island)));
        Self::register(islands, island_of, scale.mix).map_err(failed)
    }

    fn register(islands: Islands, island_of: Vec<usize>, mix: Mix) -> Result<Self, Error> {
        let standard = match mix {
            Mix::Paper => None,
            Mix::Standard => Some(StandardOnly {
                order_status: islands.register::<OrderStatus>()?,
                delivery: islands.register::<Delivery>()?,
                stock_level: islands.register::<StockLevel>()?,
            }),
        };
        Ok(Self {
            island_of,
            new_order: islands.register::<NewOrderProcedure>()?,
            payment: islands.register::<Payment>()?,
            standard,
            parts: Parts::register(&islands)?,
            load: islands.register::<Load>()?,
            sum_up: islands.register::<SumUp>()?,
            islands,
        })
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
                    return (true, self.parts.order(&self.islands, order, &elsewhere));
                }
            }
            Input::Payment(payment) if island_of(payment.w_id) != island_of(payment.c_w_id) => {
                return (true, self.parts.pay(&self.islands, payment));
            }
            _ => {}
        }
        (false, self.run_on_one(input))
    }

    fn run_on_one(&self, input: &Input) -> Result<(), Error> {
        let standard = || self.standard.as_ref().expect("the tables are of the paper's mix");
        match input {
            Input::NewOrder(order) => self.new_order.at(&order.w_id)?.call(*order).map(drop),
            Input::Payment(payment) => self.payment.at(&payment.w_id)?.call(*payment).map(drop),
            Input::OrderStatus(of) => standard().order_status.at(&of.w_id)?.call(*of).map(drop),
            Input::Delivery(of) => standard().delivery.at(&of.w_id)?.call(*of).map(drop),
            Input::StockLevel(of) => standard().stock_level.at(&of.w_id)?.call(*of).map(drop),
        }
    }

    /// The same procedure's answer on each island, as of one moment.
    pub(super) fn on_each<A: Send + 'static>(
        &self,
        procedure: &OnIslands<(), A>,
    ) -> Result<Vec<A>, Error> {
        let mut across = self.islands.across();
        let parts = across.everywhere(procedure, ());
        let mut answers = across.commit()?;
        Ok(parts.into_iter().map(|part| answers.take(part)).collect())
    }

    /// Adds parts elsewhere so often, as no transaction should.
    #[cfg(test)]
    pub(super) const fn set_times(&mut self, times: usize) {
        self.parts.times = times;
    }

    /// A warehouse of each island.
    fn homes(&self) -> impl Iterator<Item = i32> {
        let first = |island| self.island_of[1..].iter().position(|of| *of == island);
        (0..self.islands.islands()).filter_map(first).map(|at| at as i32 + 1)
    }
}

impl Deployment for Own {
    type Transaction = Input;

    fn islands(&self) -> usize {
        self.islands.islands()
    }

    fn bind_caller(&self, island: usize) -> Result<(), Failure> {
        self.islands.bind_thread(island).map_err(failed)
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

impl TpccDeployment for Own {
    fn load(&self, scale: Scale) -> Result<(), Failure> {
        let mut under_way = VecDeque::<Pending<()>>::new();
        let mut submit = |w_id: i32, batch: Batch| {
            if under_way.len() >= UNDER_WAY_MAX {
                under_way.pop_front().map_or(Ok(()), Pending::wait)?;
            }
            under_way.push_back(self.load.at(&w_id)?.submit(batch)?);
            Ok::<_, Error>(())
        };
        islands::load(scale, threads::available(), |warehouse, batch| match warehouse {
            Some(w_id) => submit(w_id, batch),
            None => self.homes().try_for_each(|w_id| submit(w_id, batch.clone())),
        })
        .map_err(failed)?;
        under_way.into_iter().try_for_each(Pending::wait).map_err(failed)
    }

    fn sums(&self) -> Result<Vec<IslandSums>, Failure> {
        self.on_each(&self.sum_up).map_err(failed)
    }
}

/// A database of islands in memory.
pub(in crate::cmd) fn open_in_memory(
    islands: u16,
    scale: Scale,
) -> Result<Box<dyn TpccDeployment>, Failure> {
    Ok(Box::new(Own::open(islands, scale, How::default(), None)?))
}
