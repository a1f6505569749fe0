//! What an engine is asked for when TPC-C is compared.

use tombolo_engine::clock::Clock;

use crate::compare::Batch;
use crate::failure::Failure;
use crate::rows::{StateHash, Verification};
use crate::workload::tpcc::input::Input;
use crate::workload::tpcc::loader::Scale;

/// An engine with TPC-C on it, in memory, not durable.
pub trait Engine {
    /// Its name in results: `tombolo/PROFILE` or the peer's.
    fn name(&self) -> &str;

    /// Its version.
    fn version(&self) -> &str;

    /// How a call reaches it.
    fn transport(&self) -> &'static str {
        "embedded"
    }

    /// Loads the initial database; reports to `progress` which part is done.
    ///
    /// # Errors
    /// What the engine refused.
    fn load(&mut self, scale: Scale, progress: &mut dyn FnMut(f64)) -> Result<(), Failure>;

    /// Runs one transaction per input and measures them.
    ///
    /// # Errors
    /// What the engine failed with; aborts are outcomes.
    fn run(&mut self, inputs: &[Input], clock: &dyn Clock) -> Result<Batch, Failure>;

    /// Asks the consistency conditions, and the engine whether it is whole.
    ///
    /// # Errors
    /// When the engine cannot be read.
    fn verify(&mut self) -> Result<Verification, Failure>;

    /// The hash of all rows.
    ///
    /// # Errors
    /// When the engine cannot be read.
    fn state_hash(&mut self) -> Result<StateHash, Failure>;
}

impl std::fmt::Debug for dyn Engine + '_ {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
