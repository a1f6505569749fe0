//! Our own side of a comparison: any profile, in memory, its log too.

use tombolo_engine::clock::Clock;
use tombolo_engine::threads;

use super::{Batch, Engine, OURS, Watch};
use crate::drive::{Instance, Tally};
use crate::failure::{Blamed, Failure};
use crate::plan::Options;
use crate::rows::{StateHash, Verification};
use crate::workload::tpcc::input::Input;
use crate::workload::tpcc::loader::Scale;

/// A database of one profile.
pub(super) struct Tombolo {
    name: String,
    instance: Box<dyn Instance>,
}

impl Tombolo {
    /// An empty database of `profile` with room for `page_bytes` of pages, if it has any.
    ///
    /// # Errors
    /// When there is no such profile, or no memory.
    pub(super) fn open(profile: &str, page_bytes: u64) -> Result<Self, Failure> {
        let mut options = Options::default();
        options.paged.pool_bytes = page_bytes as usize;
        let instance = crate::drive::create(profile, &options)?;
        Ok(Self { name: format!("{}{profile}", OURS), instance })
    }
}

impl Engine for Tombolo {
    fn name(&self) -> &str {
        &self.name
    }

    fn version(&self) -> &str {
        env!("CARGO_PKG_VERSION")
    }

    fn load(&mut self, scale: Scale, progress: &mut dyn FnMut(f64)) -> Result<(), Failure> {
        let mut part = |done: usize, of: usize| progress(done as f64 / of as f64);
        self.instance.load(scale, threads::available(), &mut part)
    }

    fn run(&mut self, inputs: &[Input], clock: &dyn Clock) -> Result<Batch, Failure> {
        let mut tally = Tally::default();
        let watch = Watch::start(clock);
        let outcome = self.instance.run(inputs, &mut tally);
        let total = tally.total();
        let batch = watch.stop(total.committed, total.aborted);
        outcome?;
        Ok(batch)
    }

    fn verify(&mut self) -> Result<Verification, Failure> {
        self.instance.rest()?.verify().or_check()
    }

    fn state_hash(&mut self) -> Result<StateHash, Failure> {
        self.instance.rest()?.state_hash().or_check()
    }
}
