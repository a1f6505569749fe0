//! Engines in this process that let one transaction write at a time: one thread takes the waiting calls of all
//! callers together.
//!
//! Such an engine lets its callers write one after another, and making a transaction durable costs the same however
//! large it is. So all waiting calls — those of all callers in a closed loop — are executed as one
//! transaction of the engine, in their order, and answered together when it is durable: this is group commit,
//! which these engines lack, without a switch of threads. With one caller each call
//! is a transaction. A call that aborts does so before it writes anything, so that the others are not affected.
//!
//! Not here: the engines.

use tombolo_engine::clock::{Clock, SystemClock};

use super::Opening;
use super::rows::Balances;
use crate::compare::rounds::Engine;
use crate::compare::{Batch, Watch};
use crate::failure::Failure;
use crate::histogram::Latencies;
use crate::workload::debit_credit::input::Input;

/// An engine in this process.
pub(super) trait Embedded {
    /// Its version.
    fn version(&self) -> &str;

    /// What executes calls as one transaction, durably if anything is, and answers how many of them
    /// commit; whatever it needs for each of them is made once, here.
    ///
    /// # Errors
    /// The engine's error.
    fn transactions(&mut self) -> Result<impl FnMut(&[Input]) -> Result<u64, Failure>, Failure>;

    /// All balances.
    ///
    /// # Errors
    /// When the engine cannot be read.
    fn balances(&mut self) -> Result<Balances, Failure>;
}

/// An engine, and the thread that calls it.
pub(super) struct OneThread<E> {
    engine: E,
    clock: SystemClock,
    calls: usize,
}

impl<E> OneThread<E> {
    /// The callers of `opening` on an engine that is loaded.
    pub(super) fn new(engine: E, opening: &Opening<'_>) -> Self {
        let calls = opening.plan.calls();
        Self { engine, clock: *opening.clock, calls: calls.clients * calls.in_flight }
    }
}

impl<E: Embedded> Engine<Input, Balances> for OneThread<E> {
    fn version(&self) -> &str {
        self.engine.version()
    }

    fn run(&mut self, inputs: &[Input], latencies: &mut Latencies) -> Result<Batch, Failure> {
        let Self { engine, clock, calls } = self;
        let watch = Watch::start(clock);
        let (mut committed, mut made_ns) = (0, clock.now_ns());
        let mut transact = engine.transactions()?;
        for together in inputs.chunks(*calls) {
            committed += transact(together)?;
            let now_ns = clock.now_ns();
            together.iter().for_each(|_| latencies.record(now_ns - made_ns));
            made_ns = now_ns;
        }
        Ok(watch.stop(committed, inputs.len() as u64 - committed))
    }

    fn found(&mut self) -> Result<Balances, Failure> {
        self.engine.balances()
    }
}
