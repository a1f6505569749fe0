//! A database of one profile, its profile erased: what drivers, checks and counters do with any of
//! them.
//!
//! # Map
//! The engine and the transactions that are measured are compiled once per profile, in `benchmark.rs`;
//! `open.rs` lists the profiles, and the crate `tombolo-ladder` those on pages. Everything else —
//! loading, checking, dumping, restoring, tampering — is compiled once, over a store without type
//! (`erased.rs`). Behind [`Instance`] there is one dynamic call per batch of inputs and none inside.
//! Not here: clocks, files, what is printed.
//!
//! Invariant: what is timed runs on the store without probes ([`Metered::store`]).
//!
//! [`Metered::store`]: crate::metered::Metered

mod benchmark;
mod erased;
mod key;
mod open;
mod part;
mod product;
mod session;
mod verify;

use std::fmt;
use std::time::Duration;

use tombolo_engine::clock::Clock;
use tombolo_engine::transaction::Stop;
use tombolo_storage::error::SchemaError;
use tombolo_storage::log::LogUsage;

use crate::counters::CounterError;
use crate::counters::meter::{Native, NativeCount};
use crate::counting::CountInputs;
use crate::drive::Tally;
use crate::failure::Failure;
use crate::work::WorkDone;
use crate::workload::Workload;
use crate::workload::error::WorkloadError;
use crate::workload::tpcc::loader::Scale;

pub use erased::{DynamicStore, Erased, ErasedPin};
pub use open::{
    Deployed, How, Made, MakePaged, NoDatabase, Options, can_be_saved, create, create_product,
    has_pages, open, open_saved, paged, run_on_pages_by, runs_all_natively,
};
pub use part::Part;
pub use product::GROUP;
pub use verify::{Finding, Quiescent, Verification};

/// What executing a batch took and did, over all threads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Executed {
    /// Processor time of the executing threads.
    pub engine_cpu: Duration,
    /// What the components were asked to do; nothing in a build without probes.
    pub work: WorkDone,
}

/// The database of one workload on one store; of TPC-C by default.
pub trait Instance<W: Workload = Scale> {
    /// Creates the tables and loads the initial database.
    ///
    /// # Errors
    /// What the store refused.
    fn load(
        &mut self,
        workload: W,
        threads: usize,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<(), WorkloadError>;

    /// Prepares the transactions of `workload` on the tables there are.
    ///
    /// # Errors
    /// When these are not its tables.
    fn bind(&mut self, workload: W) -> Result<(), SchemaError>;

    /// Reads all of a database that was opened into memory, as far as there is room for it.
    ///
    /// # Errors
    /// When it cannot be read.
    fn read_all(&mut self) -> Result<(), Failure>;

    /// Takes and touches the memory that the rows of these transactions will need.
    ///
    /// # Errors
    /// `NoSpace`.
    fn reserve(&mut self, inputs: &[W::Input]) -> Result<(), Stop>;

    /// Opens sessions until `threads` threads can run transactions simultaneously.
    ///
    /// # Errors
    /// When the profile has one session, or the store refuses another.
    fn open_sessions(&mut self, threads: usize) -> Result<(), Failure>;

    /// How often a transaction that gave way to others is tried again; 1,000 times by default.
    fn set_retries_max(&mut self, retries: u64);

    /// How many of the inputs that come next are looked ahead at (TPK-44) where one session runs on a store
    /// that can gain by it; `None`: as many as pay. By default none. While counting there is no looking ahead
    /// unless a number was given.
    fn set_locate_ahead(&mut self, transactions: Option<usize>);

    /// Runs one transaction per input on the first session.
    ///
    /// # Errors
    /// What the store failed with; aborts are outcomes.
    fn run(&mut self, inputs: &[W::Input], tally: &mut Tally) -> Result<(), Stop>;

    /// Runs one transaction per input, each on the first session that is free, a thread for each.
    ///
    /// # Errors
    /// What the store failed with; the others end with the transactions they are in.
    fn run_on_all(
        &mut self,
        inputs: &[W::Input],
        clock: &dyn Clock,
        tally: &mut Tally,
    ) -> Result<Executed, Stop>;

    /// Runs one transaction per input on all sessions and notes when each was over. `ends` is as
    /// long as `inputs`.
    ///
    /// # Errors
    /// What the store failed with.
    fn run_timed(
        &mut self,
        inputs: &[W::Input],
        clock: &dyn Clock,
        ends: &mut [u64],
    ) -> Result<(), Stop>;

    /// Counts each group's transactions, in a process under callgrind.
    ///
    /// # Errors
    /// When nothing can be counted, or a transaction ended otherwise than its input says.
    fn count(&mut self, inputs: &CountInputs<W::Input>) -> Result<(), CounterError>;

    /// Counts each group's transactions by a native counter; with `calls` also what each call
    /// costs, where the profile is compiled with probes. Without, all of a transaction is `other`,
    /// and there are no probes in it.
    ///
    /// # Errors
    /// As [`Instance::count`].
    fn count_natively(
        &mut self,
        native: Native,
        inputs: &CountInputs<W::Input>,
        calls: bool,
    ) -> Result<Vec<NativeCount>, CounterError>;

    /// The database, in which nothing runs until the next transaction.
    ///
    /// # Errors
    /// Why what ran could not be ended.
    fn rest(&mut self) -> Result<Quiescent<'_>, Failure>;

    /// What went through the log so far, where there is one.
    fn log_usage(&self) -> Option<LogUsage>;

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

#[cfg(test)]
mod tests;
