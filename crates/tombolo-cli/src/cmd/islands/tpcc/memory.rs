//! TPC-C on islands of memory stores: a transaction of one island is a call there, one over several is declared.
//!
//! A declared one has a part for each island, after a call that reads what no transaction changes. Not here: which
//! transactions are over several islands (`mod.rs`), the parts themselves (lab `workload/tpcc/`).

use std::collections::VecDeque;
use std::path::Path;

use tombolo::{CallOptions, Database, Early, Error, Islands, IslandsBuilder, OnIslands, Pending};
use tombolo_engine::threads;
use tombolo_lab::experiment::islands::deployments::How;
use tombolo_lab::failure::Failure;
use tombolo_lab::workload::tpcc::input::{
    CustomerInput, DeliveryInput, Input, Mix, NewOrderInput, OrderStatusInput, PaymentInput,
    StockLevelInput,
};
use tombolo_lab::workload::tpcc::islands::{self, Batch, IslandSums, Load, SumUp};
use tombolo_lab::workload::tpcc::loader::Scale;
use tombolo_lab::workload::tpcc::schema::{
    Customer, District, History, Item, NewOrder, OrderLine, Orders, Stock, Warehouse, tables,
};
use tombolo_lab::workload::tpcc::transactions::delivery::{Delivery, DeliveryAnswer};
use tombolo_lab::workload::tpcc::transactions::new_order::{
    NewOrder as NewOrderProcedure, NewOrderAnswer,
};
use tombolo_lab::workload::tpcc::transactions::order_status::{OrderStatus, OrderStatusAnswer};
use tombolo_lab::workload::tpcc::transactions::parts::{
    AskStock, Charge, Elsewhere, FindCustomer, OrderAtHome, PayAtHome, TakeFromStock, note_supplied,
};
use tombolo_lab::workload::tpcc::transactions::payment::{Payment, PaymentAnswer};
use tombolo_lab::workload::tpcc::transactions::stock_level::{StockLevel, StockLevelAnswer};

use super::super::opening::opened_so;
use super::{Library, Tpcc, supplier};

/// Calls that load under way.
const UNDER_WAY_MAX: usize = 256;

/// A database of islands of memory stores, with its procedures.
pub(in super::super) struct InMemory {
    pub(in super::super) islands: Islands,
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

impl Tpcc<InMemory> {
    /// Opens one in memory, or in a directory of its own below `data`.
    pub(in super::super) fn in_memory(
        islands: u16,
        scale: Scale,
        how: How,
        data: Option<&Path>,
    ) -> Result<Self, Failure> {
        Self::open(islands, scale, |bounds| {
            let builder =
                tables(scale.mix).into_iter().fold(Database::builder(), |to, of| to.table(of));
            let builder = opened_so(spread(builder.islands(islands.into()).ranges(bounds)), how);
            let opened = match data {
                Some(data) => builder.open(data.join(format!("islands-{islands}"))),
                None => builder.in_memory(),
            };
            InMemory::register(opened?, scale.mix)
        })
    }
}

impl InMemory {
    fn register(islands: Islands, mix: Mix) -> Result<Self, Error> {
        let standard = match mix {
            Mix::Paper => None,
            Mix::Standard => Some(StandardOnly {
                order_status: islands.register::<OrderStatus>()?,
                delivery: islands.register::<Delivery>()?,
                stock_level: islands.register::<StockLevel>()?,
            }),
        };
        Ok(Self {
            new_order: islands.register::<NewOrderProcedure>()?,
            payment: islands.register::<Payment>()?,
            standard,
            parts: Parts::register(&islands)?,
            load: islands.register::<Load>()?,
            sum_up: islands.register::<SumUp>()?,
            islands,
        })
    }

    /// The same procedure's answer on each island, as of one moment.
    pub(in super::super) fn on_each<A: Send + 'static>(
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
    pub(in super::super) const fn set_times(&mut self, times: usize) {
        self.parts.times = times;
    }
}

impl Library for InMemory {
    fn bind_caller(&self, island: usize) -> Result<(), Error> {
        self.islands.bind_thread(island)
    }

    fn run_whole(&self, input: &Input) -> Result<(), Error> {
        let standard = || self.standard.as_ref().expect("the tables are of the paper's mix");
        match input {
            Input::NewOrder(order) => self.new_order.at(&order.w_id)?.call(*order).map(drop),
            Input::Payment(payment) => self.payment.at(&payment.w_id)?.call(*payment).map(drop),
            Input::OrderStatus(of) => standard().order_status.at(&of.w_id)?.call(*of).map(drop),
            Input::Delivery(of) => standard().delivery.at(&of.w_id)?.call(*of).map(drop),
            Input::StockLevel(of) => standard().stock_level.at(&of.w_id)?.call(*of).map(drop),
        }
    }

    fn pay(&self, payment: &PaymentInput) -> Result<(), Error> {
        let Parts { find_customer, pay_at_home, charge, times, .. } = &self.parts;
        let c_id = match payment.customer {
            CustomerInput::Id(c_id) => c_id,
            CustomerInput::LastName(_) => {
                find_customer.at(&payment.c_w_id)?.call(*payment)?.into_inner()
            }
        };
        let charged = PaymentInput { customer: CustomerInput::Id(c_id), ..*payment };
        let mut across = self.islands.across();
        across.part(pay_at_home, &payment.w_id, (*payment, c_id))?;
        for _ in 0..*times {
            across.part(charge, &payment.c_w_id, charged)?;
        }
        across.commit().map(drop)
    }

    fn order(&self, order: &NewOrderInput, elsewhere: &[NewOrderInput]) -> Result<(), Error> {
        let Parts { ask_stock, order_at_home, take_from_stock, times, .. } = &self.parts;
        let mut supplied = Elsewhere::default();
        for part in elsewhere {
            let asked = ask_stock.at(&supplier(part))?.call(*part)?.into_inner();
            note_supplied(&mut supplied, order, part, &asked);
        }
        let mut across = self.islands.across();
        across.part(order_at_home, &order.w_id, (*order, supplied))?;
        for part in elsewhere {
            for _ in 0..*times {
                across.part(take_from_stock, &supplier(part), *part)?;
            }
        }
        across.commit().map(drop)
    }

    fn load(&self, scale: Scale, homes: &[i32]) -> Result<(), Error> {
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
            None => homes.iter().try_for_each(|&w_id| submit(w_id, batch.clone())),
        })?;
        under_way.into_iter().try_for_each(Pending::wait)
    }

    fn sums(&self, _: &[i32]) -> Result<Vec<IslandSums>, Error> {
        self.on_each(&self.sum_up)
    }
}
