//! `Instance`: a database of one profile, as drivers, checks and counters know it.
//!
//! Not here: which instances there are (`mod.rs`).

use std::fmt;
use std::time::Duration;

use tombolo_engine::clock::Clock;
use tombolo_storage::error::SchemaError;
use tombolo_storage::log::LogUsage;
use tombolo_storage::paged::pool::PoolUsage;
use tombolo_storage::paged::store::Restart;

use crate::counters::CounterError;
use crate::counters::meter::{Native, NativeCount};
use crate::failure::Failure;
use crate::progress::Progress;
use crate::rows::Quiescent;
use crate::work::WorkDone;
use crate::workload::Workload;
use crate::workload::tpcc::loader::Scale;

use super::counted::CountInputs;
use super::outcome::PipelineOutcome;
use super::tally::{ByKind, Tally};

/// Time and outcomes of a batch, over all threads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Executed {
    /// Processor time of the executing threads.
    pub engine_cpu: Duration,
    /// Uses of components; empty in a build without probes.
    pub work: WorkDone,
}

/// A batch of transactions that is measured.
pub struct Batch<'b, I> {
    /// The inputs to execute.
    pub inputs: &'b [I],
    /// The clock of what drives them.
    pub clock: &'b dyn Clock,
    /// How much time is left for them, if it is not all there is; only a database that takes all at once
    /// looks at it.
    pub time_left: Option<Duration>,
    /// Called now and then with how many are done, by such a database.
    pub report: &'b mut dyn FnMut(usize),
}

impl<I> fmt::Debug for Batch<'_, I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch").field("inputs", &self.inputs.len()).finish_non_exhaustive()
    }
}

impl<'b, I> Batch<'b, I> {
    /// All of `inputs`, however long they take.
    pub fn whole(inputs: &'b [I], clock: &'b dyn Clock, report: &'b mut dyn FnMut(usize)) -> Self {
        Self { inputs, clock, time_left: None, report }
    }
}

/// The database of one workload on one store; of TPC-C by default.
///
/// ```text
/// load or bind ─▶ start ─▶ run, run_on_all, … ─▶ rest ─▶ save
/// ```
pub trait Instance<W: Workload = Scale> {
    /// Creates the tables and loads the initial database.
    ///
    /// # Errors
    /// The store's error.
    fn load(
        &mut self,
        workload: W,
        threads: usize,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<(), Failure>;

    /// Prepares the transactions of `workload` on the tables there are.
    ///
    /// # Errors
    /// When these are not its tables.
    fn bind(&mut self, workload: W) -> Result<(), SchemaError>;

    /// Reads all of a database that was opened into memory, as far as there is room for it.
    ///
    /// # Errors
    /// When it cannot be read.
    fn read_all(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    /// Makes everything ready that transactions run in: as many sessions as threads were asked for, or a
    /// pipeline. Without, the first transaction does, on one session.
    ///
    /// # Errors
    /// When it cannot be had.
    fn start(&mut self, progress: &mut dyn Progress) -> Result<(), Failure>;

    /// Takes and touches the memory that the rows of these transactions will need.
    ///
    /// # Errors
    /// When there is none.
    fn reserve(&mut self, inputs: &[W::Input]) -> Result<(), Failure>;

    /// Runs one transaction per input, of which only the rows matter.
    ///
    /// # Errors
    /// The store's error; aborts are outcomes.
    fn run(&mut self, inputs: &[W::Input], tally: &mut Tally) -> Result<(), Failure>;

    /// Whether a batch is handed over as a whole, and ends by itself when its time is over.
    fn takes_all_at_once(&self) -> bool {
        false
    }

    /// A batch will be measured: what is counted of the process besides is counted from here on.
    fn begin(&mut self) {}

    /// Runs one transaction per input, each on the first session that is free, a thread for each.
    ///
    /// # Errors
    /// The store's error; the other sessions end with their present transactions.
    fn run_on_all(
        &mut self,
        batch: Batch<'_, W::Input>,
        tally: &mut Tally,
    ) -> Result<Executed, Failure>;

    /// A batch was measured.
    fn end(&mut self) {}

    /// How long the answers took that were measured, where each of them is timed as it comes.
    fn answered(&mut self) -> Option<ByKind> {
        None
    }

    /// Runs one transaction per input on all sessions and notes when each was over, where answers are not
    /// timed as they come. `ends` is as long as `inputs`.
    ///
    /// # Errors
    /// The store's error.
    fn run_timed(
        &mut self,
        inputs: &[W::Input],
        _: &dyn Clock,
        _: &mut [u64],
    ) -> Result<(), Failure> {
        self.run(inputs, &mut Tally::default())
    }

    /// Counts each group's transactions, in a process under callgrind.
    ///
    /// # Errors
    /// When nothing can be counted, or a transaction ended otherwise than its input says.
    fn count(&mut self, inputs: &CountInputs<W::Input>) -> Result<(), CounterError>;

    /// Counts each group's transactions by a native counter, and what each call costs where the counter is read
    /// there ([`Native::is_of_calls`]) and the profile is compiled with probes. Elsewhere all of a transaction is
    /// `other`, and there are no probes in it.
    ///
    /// # Errors
    /// As [`Instance::count`].
    fn count_natively(
        &mut self,
        native: Native,
        inputs: &CountInputs<W::Input>,
    ) -> Result<Vec<NativeCount>, CounterError>;

    /// The database, in which nothing runs until the next transaction.
    ///
    /// # Errors
    /// Why what ran could not be ended.
    fn rest(&mut self) -> Result<Quiescent<'_>, Failure>;

    /// Measurements of a pipeline, if there was one; called once it has stopped.
    fn pipeline(&mut self) -> Option<PipelineOutcome> {
        None
    }

    /// The work of a restart when the database was opened, if it had not been closed.
    fn restart(&self) -> Option<Restart> {
        None
    }

    /// Counts of the log so far, if there is one.
    fn log_usage(&self) -> Option<LogUsage>;

    /// Counts of the buffer pool so far, if there is one.
    fn pool_usage(&self) -> Option<PoolUsage> {
        None
    }

    /// Ends all sessions and saves the database, so that its directory can be opened again.
    ///
    /// # Errors
    /// When the profile cannot save, or the disk fails.
    fn save(self: Box<Self>) -> Result<(), Failure>;
}

impl<W: Workload> fmt::Debug for dyn Instance<W> + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Instance")
    }
}
