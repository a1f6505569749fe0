//! A workload behind a pipeline: what the execution stage runs.
//!
//! A request is a transaction's input with the number of its caller's call, an answer what the
//! procedure answers. What a transaction may log is known from its kind before it runs. Not here:
//! queues and threads (the engine's pipeline), callers (`clients.rs`).

use std::sync::{Arc, Mutex, PoisonError};

use tombolo_engine::hints::{Hints, Upcoming};
use tombolo_engine::pipeline::{Batch, Call, Executor};
use tombolo_engine::procedure::Ahead;
use tombolo_engine::transaction::Stop;
use tombolo_storage::error::SchemaError;
use tombolo_storage::memory::MemoryStore;
use tombolo_storage::memory::image::RowsInPlace;
use tombolo_storage::probe;
use tombolo_storage::profile::MemoryProfile;
use tombolo_storage::store::Store;
use tombolo_storage::value_log::LogBuffer;

use crate::drive::sequences::{self, CallNumber, Numbered, Sequences};
use crate::work::WorkDone;
use crate::workload::{Workload, log_bytes};

/// A request to the database.
#[derive(Debug)]
pub(crate) enum Request<W: Workload> {
    /// A transaction.
    Run {
        /// Its input.
        input: W::Input,
        /// Whose call it is, if that is kept in the database.
        number: Option<CallNumber>,
    },
    /// Memory for rows that will come.
    Reserve(W::NewRows),
}

/// The answer to a request.
#[derive(Debug)]
pub(crate) enum Answered<W: Workload> {
    /// The reply of a transaction.
    Ran(W::Reply),
    /// The memory is there.
    Reserved,
}

/// The database of a workload.
pub(crate) struct Database<P: MemoryProfile, W: Workload> {
    /// The rows.
    pub(crate) store: MemoryStore<P>,
    transactions: W::Transactions,
    /// Where calls are numbered.
    pub(crate) sequences: Option<Sequences>,
    /// The rows that looking ahead found for the calls that run next.
    upcoming: Upcoming,
    /// Uses of components; empty in a build without probes.
    pub(crate) work: Arc<Mutex<WorkDone>>,
}

impl<P: MemoryProfile, W: Workload> Database<P, W> {
    /// The transactions of `workload` on a database that was loaded.
    ///
    /// # Errors
    /// When its tables are not the workload's.
    pub(crate) fn new(store: MemoryStore<P>, workload: &W) -> Result<Self, SchemaError> {
        let transactions = workload.bind(store.schema())?;
        let (upcoming, work) = Default::default();
        Ok(Self { store, transactions, sequences: None, upcoming, work })
    }

    /// Runs one transaction.
    ///
    /// # Errors
    /// How it ended otherwise than by committing.
    #[inline]
    pub(crate) fn call(&mut self, input: &W::Input) -> Result<Answered<W>, Stop> {
        call::<W, _>(&self.transactions, &mut self.store, input, &Hints::none())
    }

    /// Takes memory for rows.
    ///
    /// # Errors
    /// `NoSpace`.
    pub(crate) fn reserve(
        store: &mut MemoryStore<P>,
        rows: W::NewRows,
    ) -> Result<Answered<W>, Stop> {
        for (table, rows) in W::by_table(rows) {
            if let Some(position) = store.schema().table(table) {
                store.reserve(position, rows)?;
            }
        }
        Ok(Answered::Reserved)
    }
}

/// Runs one transaction. Compiled once per store, for all its callers.
#[inline(never)]
fn call<W: Workload, S: Store>(
    transactions: &W::Transactions,
    store: &mut S,
    input: &W::Input,
    hints: &Hints,
) -> Result<Answered<W>, Stop> {
    W::call(transactions, store, input, hints).map(|answer| Answered::Ran(answer.into()))
}

impl<P: MemoryProfile, W: Workload> Executor for Database<P, W> {
    type Request = Request<W>;
    type Answer = Answered<W>;
    type Records = LogBuffer;

    fn execute(&mut self, batch: &mut Batch<'_, Request<W>, Answered<W>>) {
        while let Some(request) = batch.request() {
            let hints = self.upcoming.advance();
            let outcome = match (&*request, &self.sequences) {
                (Request::Reserve(rows), _) => Self::reserve(&mut self.store, *rows),
                (Request::Run { input, number: Some(number) }, Some(sequences)) => {
                    let mut store = Numbered::new(&mut self.store, sequences, *number);
                    call::<W, _>(&self.transactions, &mut store, input, hints)
                }
                (Request::Run { input, .. }, _) => {
                    call::<W, _>(&self.transactions, &mut self.store, input, hints)
                }
            };
            batch.answer(outcome, self.store.log_bytes());
        }
        self.upcoming.ran();
        if probe::enabled() {
            let mut work = self.work.lock().unwrap_or_else(PoisonError::into_inner);
            work.add(&WorkDone::take());
        }
    }

    fn locate(&mut self, calls: &mut [Call<Request<W>>]) {
        // In two rounds, so that what one asks for has come when the next reads it.
        let upcoming = self.upcoming.begin(calls.len());
        for ahead in [Ahead::Keys, Ahead::Rows] {
            for (call, hints) in calls.iter().zip(&mut *upcoming) {
                if let Request::Run { input, .. } = &call.request {
                    W::look_ahead(&self.transactions, &self.store, input, ahead, hints);
                }
            }
        }
    }

    fn log_bytes_max(&self, request: &Request<W>) -> u64 {
        match request {
            Request::Reserve(_) => 0,
            Request::Run { input, number } => {
                let numbered = if number.is_some() { sequences::LOG_BYTES } else { 0 };
                match W::log_bytes_max(input) + numbered {
                    0 => 0,
                    bytes => (bytes + log_bytes::TRANSACTION) as u64,
                }
            }
        }
    }

    fn log_bytes_of_any_max(&self) -> Option<u64> {
        let numbered = if self.sequences.is_some() { sequences::LOG_BYTES } else { 0 };
        Some((W::LOG_BYTES_MAX + numbered + log_bytes::TRANSACTION) as u64)
    }

    fn take_log(&mut self, into: &mut LogBuffer) {
        self.store.take_log(into);
    }

    fn rows_in_place(&mut self) -> Option<RowsInPlace<'_>> {
        self.store.rows_in_place()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::Logged;
    use crate::workload::for_each_workload;
    use tombolo_storage::memory::Limits;

    fn no_transaction_logs_more_than_it_said<W: Workload>(workload: &W) {
        let mut store = Logged::new(Limits::default());
        let take_log = |store: &mut Logged, _, _| {
            store.take_log(&mut LogBuffer::new());
            Ok(())
        };
        workload.load_parts(&mut store, 2, take_log).unwrap();
        let (sequences, _) = Sequences::open(&mut store, 3).unwrap();
        store.take_log(&mut LogBuffer::new());
        let mut database = Database::new(store, workload).unwrap();
        database.sequences = Some(sequences);
        let (mut logged_most, mut said_most) = (0, 0);
        for (n, input) in workload.inputs().take(2_000).enumerate() {
            let number = (n % 3 > 0).then_some(CallNumber { client: 2, sequence: n as u64 });
            let said = database.log_bytes_max(&Request::Run { input, number });
            let sequences = database.sequences.as_ref().unwrap();
            let _ = match number {
                Some(number) => {
                    let mut store = Numbered::new(&mut database.store, sequences, number);
                    call::<W, _>(&database.transactions, &mut store, &input, &Hints::none())
                }
                None => database.call(&input),
            };
            let mut log = LogBuffer::new();
            database.store.take_log(&mut log);
            assert!(log.len() as u64 <= said, "{} > {said}: {input:?}", log.len());
            assert!(said > 0 || log.is_empty(), "{input:?}");
            assert!(Some(said) <= database.log_bytes_of_any_max(), "{said}: {input:?}");
            (logged_most, said_most) = (logged_most.max(log.len() as u64), said_most.max(said));
        }
        assert!(logged_most * 3 > said_most, "{said_most} bytes are said, {logged_most} logged");
        assert!(database.store.check().is_empty());
        let (_, last) = Sequences::open(&mut database.store, 3).unwrap();
        assert_eq!(last[2], 1_999);
    }

    #[test]
    fn what_a_transaction_may_log_is_known_before_it_runs() {
        macro_rules! tested {
            ($($name:ident => $scale:ty,)*) => {
                $(<$scale>::tested().iter().for_each(no_transaction_logs_more_than_it_said);)*
            };
        }
        for_each_workload!(tested);
    }
}
