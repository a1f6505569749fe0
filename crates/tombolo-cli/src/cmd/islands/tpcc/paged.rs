//! TPC-C on islands of paged stores: each transaction is a closure that runs procedures on the islands that it names.
//!
//! Not here: which transactions are over several islands (`mod.rs`), the procedures (lab `workload/tpcc/`).

use std::path::Path;

use tombolo::{Database, Error, PagedIslands, PagedProcedure, PagedTx, Stop};
use tombolo_engine::threads;
use tombolo_lab::failure::Failure;
use tombolo_lab::files::WorkDirectory;
use tombolo_lab::workload::tpcc::input::{Input, Mix, NewOrderInput, PaymentInput};
use tombolo_lab::workload::tpcc::islands::{self, Batch, IslandSums, Load, SumUp};
use tombolo_lab::workload::tpcc::loader::Scale;
use tombolo_lab::workload::tpcc::schema::tables;
use tombolo_lab::workload::tpcc::transactions::delivery::Delivery;
use tombolo_lab::workload::tpcc::transactions::new_order::NewOrder;
use tombolo_lab::workload::tpcc::transactions::order_status::OrderStatus;
use tombolo_lab::workload::tpcc::transactions::parts::{
    AskStock, Charge, Elsewhere, OrderAtHome, PayAtHome, TakeFromStock, note_supplied,
};
use tombolo_lab::workload::tpcc::transactions::payment::Payment;
use tombolo_lab::workload::tpcc::transactions::stock_level::StockLevel;

use super::super::opening::files_in_memory;
use super::{Library, Tpcc, supplier};

/// Bytes of memory for pages of a warehouse, and besides, unless others are given: all rows stay there.
const POOL_BYTES_OF_WAREHOUSE: usize = 256 << 20;
const POOL_BYTES: usize = 64 << 20;
/// Rows that one transaction loads, at least.
const LOADED_AT_ONCE: usize = 4_096;

/// A database of islands of paged stores, with its procedures.
pub(in super::super) struct OnPages {
    pub(in super::super) islands: PagedIslands,
    new_order: PagedProcedure<NewOrder>,
    payment: PagedProcedure<Payment>,
    standard: Option<StandardOnly>,
    pay_at_home: PagedProcedure<PayAtHome>,
    charge: PagedProcedure<Charge>,
    ask_stock: PagedProcedure<AskStock>,
    order_at_home: PagedProcedure<OrderAtHome>,
    take_from_stock: PagedProcedure<TakeFromStock>,
    load: PagedProcedure<Load>,
    sum_up: PagedProcedure<SumUp>,
    /// Where its files are, if they go with it.
    _files: Option<WorkDirectory>,
}

/// The transactions of one warehouse that only the standard mix has.
struct StandardOnly {
    order_status: PagedProcedure<OrderStatus>,
    delivery: PagedProcedure<Delivery>,
    stock_level: PagedProcedure<StockLevel>,
}

impl Tpcc<OnPages> {
    /// Opens one in a directory of its own below `data`, or whose files are in memory, with so much memory for pages of
    /// all islands.
    pub(in super::super) fn on_pages(
        islands: u16,
        scale: Scale,
        (data, pool_bytes): (Option<&Path>, Option<u64>),
    ) -> Result<Self, Failure> {
        let files = if data.is_none() { Some(files_in_memory()?) } else { None };
        let parent = data.or(files.as_ref().map(WorkDirectory::path)).unwrap_or(Path::new("."));
        let directory = parent.join(format!("paged-islands-{islands}"));
        let all_bytes = POOL_BYTES + scale.warehouses as usize * POOL_BYTES_OF_WAREHOUSE;
        let pool_bytes = pool_bytes.map_or(all_bytes, |bytes| bytes as usize);
        let opened = Self::open(islands, scale, |bounds| {
            let builder =
                tables(scale.mix).into_iter().fold(Database::builder(), |to, of| to.table(of));
            let builder = builder.paged().pool_bytes(pool_bytes).islands(islands.into());
            OnPages::of(builder.ranges(bounds).open(&directory)?, scale.mix)
        })?;
        Ok(Self { library: OnPages { _files: files, ..opened.library }, ..opened })
    }
}

impl OnPages {
    fn of(islands: PagedIslands, mix: Mix) -> Result<Self, Error> {
        let standard = match mix {
            Mix::Paper => None,
            Mix::Standard => Some(StandardOnly {
                order_status: islands.procedure()?,
                delivery: islands.procedure()?,
                stock_level: islands.procedure()?,
            }),
        };
        Ok(Self {
            new_order: islands.procedure()?,
            payment: islands.procedure()?,
            standard,
            pay_at_home: islands.procedure()?,
            charge: islands.procedure()?,
            ask_stock: islands.procedure()?,
            order_at_home: islands.procedure()?,
            take_from_stock: islands.procedure()?,
            load: islands.procedure()?,
            sum_up: islands.procedure()?,
            _files: None,
            islands,
        })
    }

    /// Runs a closure as a transaction on the island of a warehouse.
    fn at<A>(
        &self,
        w_id: i32,
        closure: impl Fn(&mut PagedTx<'_>) -> Result<A, Stop>,
    ) -> Result<A, Error> {
        self.islands.at(&w_id)?.transaction(closure)
    }

    fn store(&self, w_id: i32, batches: &[Batch]) -> Result<(), Error> {
        self.at(w_id, |tx| batches.iter().try_for_each(|batch| tx.run(&self.load, batch)))
    }
}

impl Library for OnPages {
    const IS_PAGED: bool = true;

    fn bind_caller(&self, _: usize) -> Result<(), Error> {
        Ok(())
    }

    fn run_whole(&self, input: &Input) -> Result<(), Error> {
        let standard = || self.standard.as_ref().expect("the tables are of the paper's mix");
        match input {
            Input::NewOrder(order) => {
                self.at(order.w_id, |tx| tx.run(&self.new_order, order).map(drop))
            }
            Input::Payment(payment) => {
                self.at(payment.w_id, |tx| tx.run(&self.payment, payment).map(drop))
            }
            Input::OrderStatus(of) => {
                self.at(of.w_id, |tx| tx.run(&standard().order_status, of).map(drop))
            }
            Input::Delivery(of) => {
                self.at(of.w_id, |tx| tx.run(&standard().delivery, of).map(drop))
            }
            Input::StockLevel(of) => {
                self.at(of.w_id, |tx| tx.run(&standard().stock_level, of).map(drop))
            }
        }
    }

    fn pay(&self, payment: &PaymentInput) -> Result<(), Error> {
        self.islands.transaction(|tx| {
            let charged = tx.at(&payment.c_w_id, |tx| tx.run(&self.charge, payment))?;
            tx.at(&payment.w_id, |tx| tx.run(&self.pay_at_home, &(*payment, charged.c_id)))
        })
    }

    fn order(&self, order: &NewOrderInput, elsewhere: &[NewOrderInput]) -> Result<(), Error> {
        // No transaction changes what is asked, so it is read before this one locks a stock for its change.
        let mut supplied = Elsewhere::default();
        for part in elsewhere {
            let asked = self.at(supplier(part), |tx| tx.run(&self.ask_stock, part))?;
            note_supplied(&mut supplied, order, part, &asked);
        }
        self.islands.transaction(|tx| {
            tx.at(&order.w_id, |tx| tx.run(&self.order_at_home, &(*order, supplied)))?;
            elsewhere.iter().try_for_each(|part| {
                tx.at(&supplier(part), |tx| tx.run(&self.take_from_stock, part))
            })
        })
    }

    fn load(&self, scale: Scale, homes: &[i32]) -> Result<(), Error> {
        let mut waiting: Option<(Option<i32>, Vec<Batch>)> = None;
        let store = |of: Option<i32>, batches: &[Batch]| match of {
            Some(w_id) => self.store(w_id, batches),
            None => homes.iter().try_for_each(|&w_id| self.store(w_id, batches)),
        };
        islands::load(scale, threads::available(), |warehouse, batch| {
            let (of, batches) = waiting.get_or_insert_with(|| (warehouse, Vec::new()));
            let rows = batches.iter().map(|(_, range)| range.len()).sum::<usize>();
            if *of != warehouse || rows >= LOADED_AT_ONCE {
                store(*of, batches)?;
                batches.clear();
            }
            *of = warehouse;
            batches.push(batch);
            Ok::<_, Error>(())
        })?;
        waiting.map_or(Ok(()), |(of, batches)| store(of, &batches))
    }

    fn sums(&self, homes: &[i32]) -> Result<Vec<IslandSums>, Error> {
        self.islands.read(|tx| {
            let of = |w_id| tx.at(w_id, |tx| tx.run(&self.sum_up, &()));
            homes.iter().map(of).collect()
        })
    }
}
