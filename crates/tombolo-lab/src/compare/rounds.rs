//! The rounds of a comparison of any workload: each engine is opened and warmed up, then all run the same inputs in
//! turns.
//!
//! Not here: engines, inputs, and what has to hold at the end (each workload's folder).

use super::{Batch, Calls, Measured, place_of};
use crate::failure::Failure;
use crate::histogram::Latencies;
use crate::plan::WARM_UP;
use crate::progress::Progress;
use crate::rows::Verification;
use crate::settings::{self, Settings};

/// An engine that runs transactions with inputs of type `I`, and on which an `F` is found at the end.
pub(crate) trait Engine<I, F> {
    /// Its version.
    fn version(&self) -> &str;

    /// How a call reaches it.
    fn transport(&self) -> &'static str {
        "embedded"
    }

    /// Runs one transaction per input, called by all callers, and measures them.
    ///
    /// # Errors
    /// The engine's error; aborts are outcomes.
    fn run(&mut self, inputs: &[I], latencies: &mut Latencies) -> Result<Batch, Failure>;

    /// The checks at the end. Nothing is run afterwards.
    ///
    /// # Errors
    /// When the engine cannot be read.
    fn found(&mut self) -> Result<F, Failure>;
}

/// An engine that was opened and loaded.
pub(super) type Opened<'e, I, F> = Result<Box<dyn Engine<I, F> + 'e>, Failure>;

/// An engine after its rounds.
pub(super) struct Contender<'e, I, F> {
    name: String,
    engine: Box<dyn Engine<I, F> + 'e>,
    latencies: Latencies,
    warm_up: Batch,
    rounds: Vec<Batch>,
}

/// How often, and how many transactions each time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rounds {
    pub(super) transactions: usize,
    pub(super) rounds: usize,
}

impl Rounds {
    /// As `settings` have it.
    pub(super) fn of(settings: &Settings) -> Self {
        let count = |setting| settings.count(setting) as usize;
        Self { transactions: count(&settings::TRANSACTIONS), rounds: count(&settings::ROUNDS) }
    }

    /// Transactions of all rounds, and those before them.
    pub(super) fn all(self) -> u64 {
        (self.transactions.saturating_mul(self.rounds) + WARM_UP) as u64
    }

    /// Runs inputs that `take` gives on the engines called `names`; `open` opens and loads one.
    ///
    /// # Errors
    /// When an engine cannot be opened, or fails.
    pub(super) fn run<'e, I, F>(
        self,
        names: &[String],
        database: &str,
        mut open: impl FnMut(&str, &mut dyn FnMut(f64)) -> Opened<'e, I, F>,
        mut take: impl FnMut(usize) -> Vec<I>,
        progress: &mut dyn Progress,
    ) -> Result<Vec<Contender<'e, I, F>>, Failure> {
        let inputs = take(WARM_UP);
        let mut contenders = Vec::new();
        for name in names {
            progress.begin(&format!("loading {database} on {name}"));
            let mut engine = open(name, &mut |part| progress.part(part, ""))?;
            let warm_up = engine.run(&inputs, &mut Latencies::default())?;
            let (name, latencies, rounds) = (name.clone(), Latencies::default(), Vec::new());
            contenders.push(Contender { name, engine, latencies, warm_up, rounds });
            progress.end();
        }
        progress.begin("running");
        for round in 0..self.rounds {
            let inputs = take(self.transactions);
            for turn in 0..contenders.len() {
                let Contender { engine, latencies, rounds, .. } =
                    &mut contenders[place_of(round, turn, names.len())];
                rounds.push(engine.run(&inputs, latencies)?);
            }
            progress.part((round + 1) as f64 / self.rounds as f64, "");
        }
        progress.end();
        Ok(contenders)
    }
}

impl<I, F> Contender<'_, I, F> {
    /// What was measured. `judge` verifies what is found at the end, given all answers, and returns the hash of the
    /// rows if there is one.
    ///
    /// # Errors
    /// When the engine cannot be read.
    pub(super) fn measured(
        mut self,
        durability: &'static str,
        calls: Option<Calls>,
        judge: impl FnOnce(F, &Batch) -> (Verification, Option<String>),
    ) -> Result<Measured, Failure> {
        let mut answered = self.warm_up;
        self.rounds.iter().for_each(|round| answered.add(round));
        let (verification, state_hash) = judge(self.engine.found()?, &answered);
        Ok(Measured {
            version: self.engine.version().to_owned(),
            transport: self.engine.transport(),
            engine: self.name,
            durability,
            calls,
            rounds: self.rounds,
            latency: calls.and_then(|_| self.latencies.summary()),
            verification,
            state_hash,
        })
    }
}
