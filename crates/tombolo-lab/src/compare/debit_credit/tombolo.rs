//! Our own side: profile `memory` behind the pipeline, as `run debit-credit` has it.
//!
//! Not here: pipeline and callers (`drive/product/`), which a comparison runs unchanged.

use tombolo_engine::clock::SystemClock;

use super::rows::{Balances, Rows};
use super::{Engine, Opening};
use crate::compare::{Batch, Watch};
use crate::drive;
use crate::drive::{Instance, Tally, create_piped};
use crate::failure::Failure;
use crate::files::FlushTimes;
use crate::histogram::Latencies;
use crate::plan::Plan;
use crate::workload::debit_credit::input::Input;
use crate::workload::debit_credit::{KIND, Scale};

/// A database behind a pipeline.
struct Tombolo<'a> {
    clock: &'a SystemClock,
    instance: Box<dyn Instance<Scale>>,
}

/// Loads a database and starts its pipeline.
pub(super) fn open<'a>(
    opening: Opening<'a>,
    progress: &mut dyn FnMut(f64),
) -> Result<Box<dyn Engine + 'a>, Failure> {
    // A log and no image: the other engines write no checkpoints meanwhile either.
    let plan = Plan { image: None, ..opening.plan.run.clone() };
    let directory = opening.plan.is_durable().then_some(&*opening.directory);
    let mut instance = create_piped(&plan, directory, &FlushTimes::default())?;
    let mut report = |done: usize, of: usize| progress(done as f64 / of as f64);
    instance.load(opening.plan.scale, plan.load_threads, &mut report)?;
    instance.start(&mut ())?;
    Ok(Box::new(Tombolo { clock: opening.clock, instance }))
}

impl Engine for Tombolo<'_> {
    fn version(&self) -> &str {
        env!("CARGO_PKG_VERSION")
    }

    fn transport(&self) -> &'static str {
        "embedded"
    }

    fn run(&mut self, inputs: &[Input], latencies: &mut Latencies) -> Result<Batch, Failure> {
        let (mut tally, mut report) = (Tally::default(), |_| ());
        let watch = Watch::start(self.clock);
        let batch = drive::Batch::whole(inputs, self.clock, &mut report);
        self.instance.run_on_all(batch, &mut tally)?;
        let total = tally.total();
        let batch = watch.stop(total.committed, total.aborted);
        let answered = self.instance.answered().unwrap_or_default();
        latencies.add(&answered[KIND.place()]);
        Ok(batch)
    }

    fn balances(&mut self) -> Result<Balances, Failure> {
        let mut database = self.instance.rest()?;
        Ok(Rows::read(database.store())?.balances())
    }
}
