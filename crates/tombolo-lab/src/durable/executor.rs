//! TPC-C behind a pipeline: what the execution stage runs.
//!
//! A request is a transaction's input with the number of its caller's call, an answer what the
//! procedure answers. What a transaction may log is known from its kind before it runs. Not here:
//! queues and threads (the engine's pipeline), callers (`clients.rs`).

use tombolo_engine::pipeline::{Batch, Call, Executor};
use tombolo_engine::procedure::Ahead;
use tombolo_engine::transaction::Stop;
use tombolo_storage::error::SchemaError;
use tombolo_storage::memory::MemoryStore;
use tombolo_storage::profile::MemoryProfile;
use tombolo_storage::row::Fields;
use tombolo_storage::schema::DeclaredTable;
use tombolo_storage::store::Store;
use tombolo_storage::value_log::LogBuffer;

use super::sequences::{self, Numbered, Sequences};
use crate::work::WorkDone;
use crate::workload::tpcc::DISTRICTS;
use crate::workload::tpcc::input::{Input, Mix};
use crate::workload::tpcc::new_rows::NewRows;
use crate::workload::tpcc::schema::{
    Customer, District, History, NewOrder, OrderLine, Orders, Stock, Warehouse,
};
use crate::workload::tpcc::transactions::delivery::DeliveryAnswer;
use crate::workload::tpcc::transactions::new_order::NewOrderAnswer;
use crate::workload::tpcc::transactions::order_status::OrderStatusAnswer;
use crate::workload::tpcc::transactions::payment::PaymentAnswer;
use crate::workload::tpcc::transactions::stock_level::StockLevelAnswer;
use crate::workload::tpcc::transactions::{Answer, Transactions};

/// A caller, and which of its calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CallNumber {
    /// The caller, from 0.
    pub(crate) client: u32,
    /// The number of its call, from 1.
    pub(crate) sequence: u64,
}

/// What is asked of a database.
#[expect(clippy::large_enum_variant, reason = "nearly all requests are the large one")]
#[derive(Clone, Copy, Debug)]
pub(crate) enum Request {
    /// A transaction.
    Run {
        /// Its input.
        input: Input,
        /// Whose call it is, if that is kept in the database.
        number: Option<CallNumber>,
    },
    /// Memory for rows that will come.
    Reserve(NewRows),
}

/// What it answers: what the procedure does, the one long answer outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answered {
    /// Of a New Order.
    NewOrder(NewOrderAnswer),
    /// Of a Payment.
    Payment(PaymentAnswer),
    /// Of an Order Status.
    OrderStatus(Box<OrderStatusAnswer>),
    /// Of a Delivery.
    Delivery(DeliveryAnswer),
    /// Of a Stock Level.
    StockLevel(StockLevelAnswer),
    /// The memory is there.
    Reserved,
}

impl From<Answer> for Answered {
    #[inline]
    fn from(answer: Answer) -> Self {
        match answer {
            Answer::NewOrder(answer) => Self::NewOrder(answer),
            Answer::Payment(answer) => Self::Payment(answer),
            Answer::OrderStatus(answer) => Self::OrderStatus(Box::new(answer)),
            Answer::Delivery(answer) => Self::Delivery(answer),
            Answer::StockLevel(answer) => Self::StockLevel(answer),
        }
    }
}

/// A TPC-C database.
pub(crate) struct Database<P: MemoryProfile> {
    /// The rows.
    pub(crate) store: MemoryStore<P>,
    transactions: Transactions,
    sequences: Option<Sequences>,
    /// What components were asked to do.
    pub(crate) work: WorkDone,
}

impl<P: MemoryProfile> Database<P> {
    /// The transactions of `mix` on a database that was loaded.
    ///
    /// # Errors
    /// When its tables are not those of the mix.
    pub(crate) fn new(
        store: MemoryStore<P>,
        mix: Mix,
        sequences: Option<Sequences>,
    ) -> Result<Self, SchemaError> {
        let transactions = Transactions::bind(store.schema(), mix)?;
        Ok(Self { store, transactions, sequences, work: WorkDone::default() })
    }

    /// Runs one transaction.
    ///
    /// # Errors
    /// How it ended otherwise than by committing.
    #[inline]
    pub(crate) fn call(&mut self, input: &Input) -> Result<Answered, Stop> {
        call(&self.transactions, &mut self.store, input)
    }

    /// Takes memory for rows.
    ///
    /// # Errors
    /// `NoSpace`.
    pub(crate) fn reserve(&mut self, rows: NewRows) -> Result<Answered, Stop> {
        for (table, rows) in rows.by_table() {
            if let Some(position) = self.store.schema().table(table) {
                self.store.reserve(position, rows)?;
            }
        }
        Ok(Answered::Reserved)
    }
}

/// Runs one transaction. Compiled once per store, whoever calls it.
#[inline(never)]
fn call<S: Store>(
    transactions: &Transactions,
    store: &mut S,
    input: &Input,
) -> Result<Answered, Stop> {
    transactions.call(store, input).map(Answered::from)
}

impl<P: MemoryProfile> Executor for Database<P>
where
    MemoryStore<P>: Send,
{
    type Request = Request;
    type Answer = Answered;
    type Records = LogBuffer;

    fn execute(&mut self, batch: &mut Batch<'_, Request, Answered>) {
        while let Some(request) = batch.request() {
            let outcome = match (&*request, &self.sequences) {
                (Request::Reserve(rows), _) => {
                    let rows = *rows;
                    self.reserve(rows)
                }
                (Request::Run { input, number: Some(number) }, Some(sequences)) => {
                    let mut store = Numbered::new(&mut self.store, sequences, *number);
                    call(&self.transactions, &mut store, input)
                }
                (Request::Run { input, .. }, _) => call(&self.transactions, &mut self.store, input),
            };
            batch.answer(outcome, self.store.log_bytes());
        }
        self.work.add(&WorkDone::take());
    }

    fn locate(&mut self, calls: &mut [Call<Request>]) {
        // In two rounds, so that what one asks for has come when the next reads it.
        for ahead in [Ahead::Keys, Ahead::Rows] {
            for call in &*calls {
                if let Request::Run { input, .. } = &call.request {
                    self.transactions.locate(&self.store, input, ahead);
                }
            }
        }
    }

    fn log_bytes_max(&self, request: &Request) -> u64 {
        match request {
            Request::Reserve(_) => 0,
            Request::Run { input, number } => {
                let numbered = if number.is_some() { sequences::LOG_BYTES } else { 0 };
                match log_bytes_max(input) + numbered {
                    0 => 0,
                    bytes => (bytes + TRANSACTION_BYTES) as u64,
                }
            }
        }
    }

    fn take_log(&mut self, into: &mut LogBuffer) {
        self.store.take_log(into);
    }
}

/// The most bytes in front of a record's own.
const RECORD_BYTES: usize = 16;
/// Bytes in front of a transaction's records.
const TRANSACTION_BYTES: usize = 4;

/// The log of a row that is made.
const fn inserted<R: DeclaredTable>() -> usize {
    RECORD_BYTES + R::SIZE
}

/// The log of a row whose `fields` are changed.
pub(super) const fn updated<R>(fields: Fields<R>) -> usize {
    RECORD_BYTES + fields.end() - fields.start()
}

/// The most bytes of log that the transaction of `input` makes; nothing if it only reads.
fn log_bytes_max(input: &Input) -> usize {
    /// What a delivered order has at most.
    const LINES_MAX: usize = crate::workload::tpcc::ORDER_LINES_MAX as usize;
    const ORDER: usize = updated(District::ORDERED) + inserted::<Orders>() + inserted::<NewOrder>();
    const LINE: usize = inserted::<OrderLine>() + updated(Stock::ORDERED);
    const PAYMENT: usize = updated(Warehouse::PAID)
        + updated(District::PAID)
        + updated(Customer::PAID_BAD)
        + inserted::<History>();
    const DELIVERED: usize = RECORD_BYTES
        + updated(Orders::DELIVERED)
        + LINES_MAX * updated(OrderLine::DELIVERED)
        + updated(Customer::DELIVERED);
    match input {
        Input::NewOrder(order) => ORDER + order.lines().len() * LINE,
        Input::Payment(_) => PAYMENT,
        Input::Delivery(_) => DISTRICTS as usize * DELIVERED,
        Input::OrderStatus(_) | Input::StockLevel(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::durable::Logged;
    use crate::workload::tpcc::input::Generator;
    use crate::workload::tpcc::loader::{self, Scale};
    use crate::workload::tpcc::nurand::Constants;
    use tombolo_storage::memory::Limits;

    #[test]
    fn no_transaction_logs_more_than_it_said() {
        let mut store = Logged::new(Limits::default());
        let scale = Scale { seed: 1, warehouses: 1, mix: Mix::Standard };
        loader::load_parts(&mut store, scale, 2, |store, _, _| {
            store.take_log(&mut LogBuffer::new());
            Ok(())
        })
        .unwrap();
        let sequences = Sequences::open(&mut store, 3).unwrap();
        store.take_log(&mut LogBuffer::new());
        let mut database = Database::new(store, Mix::Standard, Some(sequences)).unwrap();
        let (mut logged_most, mut said_most) = (0, 0);
        let inputs = Generator::new(1, Mix::Standard, 1, Constants::from_seed(1)).take(2_000);
        for (n, input) in inputs.enumerate() {
            let number = (n % 3 > 0).then_some(CallNumber { client: 2, sequence: n as u64 });
            let said = database.log_bytes_max(&Request::Run { input, number });
            let sequences = database.sequences.as_ref().unwrap();
            let _ = match number {
                Some(number) => {
                    let mut store = Numbered::new(&mut database.store, sequences, number);
                    call(&database.transactions, &mut store, &input)
                }
                None => call(&database.transactions, &mut database.store, &input),
            };
            let mut log = LogBuffer::new();
            database.store.take_log(&mut log);
            assert!(log.len() as u64 <= said, "{} > {said}: {input:?}", log.len());
            assert!(said > 0 || log.is_empty(), "{input:?}");
            (logged_most, said_most) = (logged_most.max(log.len() as u64), said_most.max(said));
        }
        assert!(logged_most * 3 > said_most, "{said_most} bytes are said, {logged_most} logged");
        assert!(database.store.check().is_empty());
        let last = Sequences::open(&mut database.store, 3).unwrap().last(&database.store, 2);
        assert_eq!(last.unwrap(), 1_999);
    }
}
