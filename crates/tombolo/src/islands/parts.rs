//! A transaction over several islands, as the islands run it: its parts, its last step, and the reason that it did not
//! commit.
//!
//! Islands get the transaction's number, by which they find it. Each runs its part; when all have run, the first island
//! runs the last step. Parts that a thread ran on islands it had taken are already executed and set aside. Not here:
//! how a caller adds parts (`across.rs`), taking islands (`reach.rs`), how islands agree (engine `islands/commit/`).

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};

use tombolo_engine::hints::Hints;
use tombolo_engine::islands::commit::IslandId;
use tombolo_engine::pipeline::Refusal;
use tombolo_engine::threads::panic_message;
use tombolo_storage::error::Error as StoreError;
use tombolo_storage::memory::held::{Guard, Locks, Part as Held};
use tombolo_storage::owner::Owner;
use tombolo_storage::schema::Schema;
use tombolo_storage::sync::Mutex;

use super::answers::{Answers, PlacedStep};
use super::mail::Mail;
use crate::calls::{Envelope, How, Otherwise, OverIslands, Ran, unless_held};
use crate::error::{Error, Stop};
use crate::processes::errors;
use crate::product::{LOG_BYTES_PER_PART, Product};
use crate::tx::{self, Tables};

/// The reason that a part, or the whole transaction, did not commit.
#[derive(Debug)]
pub(crate) enum Why {
    /// It met a lock, and must run again.
    Held(Owner),
    /// An executed part is no longer valid: the closure must run again.
    Again,
    Stopped(Stop),
    Panicked(Box<str>),
    Unreachable(IslandId),
    /// An island's log failed.
    Broken(Refusal),
    /// The island's message, or its error as bytes.
    Refused(IslandId, Vec<u8>),
}

impl Why {
    pub(super) fn into_error(self, schema: &Schema) -> Error {
        match self {
            Self::Held(owner) => Error::stopped(Stop::Error(StoreError::Held { owner }), schema),
            Self::Again => Error::stopped(Stop::Error(StoreError::LockTimeout), schema),
            Self::Stopped(stop) => Error::stopped(stop, schema),
            Self::Panicked(message) => Error::Panicked(message),
            Self::Unreachable(island) => Error::IslandStopped(island.index()),
            Self::Broken(refusal) => refusal.into(),
            Self::Refused(island, words) => errors::decode(&words, island.index()),
        }
    }
}

/// The part of one island.
struct PartOfIsland {
    island: IslandId,
    work: WorkOfPart,
    refused: Mutex<Option<Why>>,
}

/// The work of a part.
enum WorkOfPart {
    /// Steps, which may run again.
    Steps(Mutex<Vec<PlacedStep<'static>>>),
    /// An executed part; if it is gone, the whole transaction must run again.
    Executed(Mutex<Option<Held>>),
    /// Steps as bytes, for the island's process.
    Sent(Vec<u8>),
}

impl PartOfIsland {
    const fn new(island: IslandId, work: WorkOfPart) -> Self {
        Self { island, work, refused: Mutex::new(None) }
    }
}

/// Runs after all parts, and may refuse the transaction.
pub(super) type LastStep = Arc<dyn Fn(&Answers<'_>) -> Result<(), Stop> + Send + Sync>;

/// Runs the last step, if there is one: all parts have run.
///
/// # Errors
/// The reason that the transaction must not commit.
pub(super) fn run_last(last: Option<&LastStep>, answers: &Answers<'_>) -> Result<(), Why> {
    let Some(last) = last else { return Ok(()) };
    match catch_unwind(AssertUnwindSafe(|| last(answers))) {
        Ok(ended) => ended.map_err(Why::Stopped),
        Err(panic) => Err(Why::Panicked(panic_message(&*panic))),
    }
}

/// A transaction under way.
pub(crate) struct Transaction {
    number: OnceLock<u64>,
    how: OverIslands,
    parts: Vec<PartOfIsland>,
    /// The number of its [`Answers`].
    answers: u64,
    /// Present until it has run.
    last: Option<LastStep>,
    /// The answers of sent parts, in their order.
    results: Mutex<Vec<Vec<u8>>>,
}

impl Transaction {
    /// For steps that the islands will run, those of each island in order, and then the last step.
    pub(super) fn of_steps(steps: Answers<'static>, last: Option<LastStep>) -> Arc<Self> {
        let mut islands: Vec<_> = steps.steps.iter().map(|placed| placed.island).collect();
        islands.dedup();
        let part = |island| PartOfIsland::new(island, WorkOfPart::Steps(Mutex::default()));
        let parts = islands.into_iter().map(part).collect();
        let (number, how, answers) = (OnceLock::new(), OverIslands::Messages, steps.number());
        let results = Mutex::default();
        let transaction = Self { number, how, parts, answers, last, results };
        transaction.put_back(steps);
        Arc::new(transaction)
    }

    /// For executed parts, in the order in which their islands were reached.
    pub(super) fn executed(parts: Vec<(IslandId, Held)>, how: OverIslands) -> Arc<Self> {
        let part = |(island, held)| {
            PartOfIsland::new(island, WorkOfPart::Executed(Mutex::new(Some(held))))
        };
        let (number, answers, last) = (OnceLock::new(), 0, None);
        let (parts, results) = (parts.into_iter().map(part).collect(), Mutex::default());
        Arc::new(Self { number, how, parts, answers, last, results })
    }

    /// For parts that are sent to processes, in order.
    pub(super) fn sent(parts: Vec<(IslandId, Vec<u8>)>) -> Arc<Self> {
        let part = |(island, bytes)| PartOfIsland::new(island, WorkOfPart::Sent(bytes));
        let (number, how, answers, last) = (OnceLock::new(), OverIslands::Messages, 0, None);
        let (parts, results) = (parts.into_iter().map(part).collect(), Mutex::default());
        Arc::new(Self { number, how, parts, answers, last, results })
    }

    /// Keeps the answers that its parts sent in messages.
    pub(super) fn keep_results(&self, results: Vec<Vec<u8>>) {
        *self.results.lock() = results;
    }

    /// Takes the answers that its parts sent in messages.
    pub(super) fn results(&self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.results.lock())
    }

    /// Enters it in the mail; returns its envelope.
    pub(super) fn enter(self: &Arc<Self>, mail: &Mail) -> Box<AcrossEnvelope> {
        let is_first = self.number.set(mail.enter(self)).is_ok();
        assert!(is_first, "a transaction begins once");
        Box::new(AcrossEnvelope { transaction: self.clone(), ended: None })
    }

    /// Marks an island's executed part as no longer valid, if the island has not taken it.
    pub(super) fn invalidate(&self, island: IslandId) {
        if let WorkOfPart::Executed(held) = &self.part(island).work {
            *held.lock() = None;
        }
    }

    /// The number by which islands find it.
    pub(super) fn number(&self) -> u64 {
        *self.number.get().expect("it is entered before it begins")
    }

    /// The kind by which it is counted.
    pub(super) const fn how(&self) -> OverIslands {
        self.how
    }

    /// The number of islands with a part.
    pub(super) const fn islands(&self) -> usize {
        self.parts.len()
    }

    /// The payload of each island's message.
    pub(super) fn payloads(&self) -> Vec<(IslandId, Vec<u8>)> {
        let number = self.number().to_le_bytes();
        let payload = |part: &PartOfIsland| match &part.work {
            WorkOfPart::Sent(bytes) => bytes.clone(),
            WorkOfPart::Steps(_) | WorkOfPart::Executed(_) => number.to_vec(),
        };
        self.parts.iter().map(|part| (part.island, payload(part))).collect()
    }

    /// The transaction's number in a payload.
    pub(super) fn number_in(payload: &[u8]) -> u64 {
        u64::from_le_bytes(payload.try_into().expect("islands are sent a number"))
    }

    /// The most bytes that a part may log.
    pub(super) const fn log_bytes_max(&self) -> u64 {
        LOG_BYTES_PER_PART
    }

    fn part(&self, island: IslandId) -> &PartOfIsland {
        let part = self.parts.iter().find(|part| part.island == island);
        part.expect("an island is sent its own part")
    }

    /// Executes an island's part as one transaction, which is set aside.
    pub(super) fn run_part(
        &self,
        island: IslandId,
        store: &mut Product,
        locks: &Locks,
        tables: &Tables,
    ) -> Result<Held, Why> {
        let steps = match &self.part(island).work {
            WorkOfPart::Steps(steps) => steps,
            WorkOfPart::Executed(held) => return held.lock().take().ok_or(Why::Again),
            WorkOfPart::Sent(_) => unreachable!("a process executes what it was sent"),
        };
        let guard = Guard::part(locks);
        let run = || {
            tx::run_steps(store, &guard, |store, guard| {
                let mut steps = steps.lock();
                let mut steps = steps.iter_mut();
                steps.try_for_each(|placed| placed.step.run(store, guard, tables, &Hints::none()))
            })
        };
        match unless_held(&guard, run).map_err(Why::Held)? {
            Ok(Ok(())) => Ok(guard.into_part().expect("what is executed is set aside")),
            Ok(Err(stop)) => Err(Why::Stopped(stop)),
            Err(panic) => Err(Why::Panicked(panic_message(&*panic))),
        }
    }

    /// Runs the last step, if there is one: all parts have run.
    ///
    /// # Errors
    /// The reason that the transaction must not commit.
    pub(super) fn run_last(&self) -> Result<(), Why> {
        let answers = self.answers();
        let ended = run_last(self.last.as_ref(), &answers);
        self.put_back(answers);
        ended
    }

    /// Takes the steps, which no island is running.
    pub(super) fn answers(&self) -> Answers<'static> {
        let mut all = Vec::new();
        for part in &self.parts {
            if let WorkOfPart::Steps(steps) = &part.work {
                all.append(&mut steps.lock());
            }
        }
        Answers::with(self.answers, all)
    }

    /// Gives each island its steps.
    fn put_back(&self, steps: Answers<'static>) {
        for placed in steps.steps {
            match &self.part(placed.island).work {
                WorkOfPart::Steps(steps) => steps.lock().push(placed),
                WorkOfPart::Executed(_) | WorkOfPart::Sent(_) => {
                    unreachable!("what was executed or sent has no steps")
                }
            }
        }
    }

    /// Notes the reason that an island's part is refused.
    pub(super) fn refuse(&self, island: IslandId, why: Why) {
        *self.part(island).refused.lock() = Some(why);
    }

    /// The reason that an island's part was refused; `words` if the store refused to prepare it.
    pub(super) fn refusal(&self, island: IslandId, words: Vec<u8>) -> Why {
        let why = self.part(island).refused.lock().take();
        why.unwrap_or(Why::Refused(island, words))
    }
}

/// The envelope of a transaction over several islands.
pub(crate) struct AcrossEnvelope {
    transaction: Arc<Transaction>,
    ended: Option<Ran<Result<(), Why>>>,
}

impl AcrossEnvelope {
    pub(super) const fn transaction(&self) -> &Arc<Transaction> {
        &self.transaction
    }

    pub(super) fn end(&mut self, ended: Result<(), Why>) {
        self.ended = Some(Ran::Ended(Ok(ended)));
    }
}

impl Envelope for AcrossEnvelope {
    fn run(&mut self, _: &mut Product, _: &mut Tables) -> How {
        unreachable!("its parts run on their islands")
    }

    fn of_islands(&mut self) -> Option<&mut dyn Any> {
        Some(self)
    }

    fn end_otherwise(&mut self, how: Otherwise) {
        self.ended = Some(Ran::Otherwise(how));
    }

    fn name(&self) -> &'static str {
        "a transaction over several islands"
    }

    fn input(&mut self) -> &mut dyn Any {
        unreachable!("its parts have their inputs")
    }

    fn ran(&mut self) -> &mut dyn Any {
        &mut self.ended
    }
}
