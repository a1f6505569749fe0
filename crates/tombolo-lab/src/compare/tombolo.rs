//! Our own side of a comparison: a database of any workload and profile, as `run` has it.
//!
//! Not here: which database (each workload's folder).

use tombolo_engine::clock::SystemClock;

use super::rounds::{Engine, Opened};
use super::{Batch, Watch};
use crate::drive::{self, Instance, Tally};
use crate::failure::Failure;
use crate::histogram::Latencies;
use crate::rows::Quiescent;
use crate::workload::Workload;

/// A database that is loaded.
struct Tombolo<W: Workload, F> {
    clock: SystemClock,
    instance: Box<dyn Instance<W>>,
    find: fn(Quiescent<'_>) -> Result<F, Failure>,
}

/// Loads `workload` into an empty database; `find` is what is found on it at the end.
///
/// # Errors
/// When it does not take the rows.
pub(super) fn load<'e, W: Workload, F: 'e>(
    mut instance: Box<dyn Instance<W>>,
    workload: W,
    threads: usize,
    find: fn(Quiescent<'_>) -> Result<F, Failure>,
    progress: &mut dyn FnMut(f64),
) -> Opened<'e, W::Input, F> {
    instance.load(workload, threads, &mut |done, of| progress(done as f64 / of as f64))?;
    instance.start(&mut ())?;
    Ok(Box::new(Tombolo { clock: SystemClock::new(), instance, find }))
}

impl<W: Workload, F> Engine<W::Input, F> for Tombolo<W, F> {
    fn version(&self) -> &str {
        env!("CARGO_PKG_VERSION")
    }

    fn run(&mut self, inputs: &[W::Input], latencies: &mut Latencies) -> Result<Batch, Failure> {
        let (mut tally, mut report) = (Tally::default(), |_| ());
        let watch = Watch::start(&self.clock);
        let batch = drive::Batch::whole(inputs, &self.clock, &mut report);
        self.instance.run_on_all(batch, &mut tally)?;
        let total = tally.total();
        let batch = watch.stop(total.committed, total.aborted);
        let answered = self.instance.answered();
        answered.iter().flatten().for_each(|of_kind| latencies.add(of_kind));
        Ok(batch)
    }

    fn found(&mut self) -> Result<F, Failure> {
        (self.find)(self.instance.rest()?)
    }
}
