//! `Across`: a transaction of parts that run on several islands, and commit together or not at all.
//!
//! Each part is a call of a registered procedure or closure at a key. Parts whose keys are on one island run there in
//! one transaction, in the order in which they were given; islands work concurrently. No part sees another's
//! answer: what one needs to know, its input says.
//!
//! Where nothing is logged the caller's thread runs all parts itself (`reach.rs`). Otherwise, or when it does not get
//! the islands, they run them and agree by messages. Not here: how they agree (engine `islands/commit/`).

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};

use tombolo_engine::islands::commit::IslandId;
use tombolo_engine::pipeline::{Refusal, panic_message};
use tombolo_storage::error::Error as StoreError;
use tombolo_storage::memory::held::{Guard, Locks, Part as Held};
use tombolo_storage::owner::Owner;
use tombolo_storage::schema::Schema;
use tombolo_storage::sync::Mutex;

use super::Islands;
use super::calls::OnIslands;
use super::helping;
use super::key::IslandKey;
use super::mail::Mail;
use super::reach::{Finished, Reach};
use crate::calls::{
    Envelope, How, Otherwise, OverIslands, Ran, Settled, Step, Ticket, on_database_thread,
    unless_held,
};
use crate::error::Error;
use crate::product::{GuardedProduct, LOG_BYTES_PER_PART, Product};
use crate::stop::Stop;
use crate::tx::{self, Tables};

/// Why a part, or the whole, did not commit.
#[derive(Debug)]
pub(crate) enum Why {
    /// It met a lock, and is to run again.
    Held(Owner),
    /// What was executed of it is not valid any more: its closure is to run again.
    Again,
    Stopped(Stop),
    Panicked(Box<str>),
    Unreachable(IslandId),
    /// An island's log failed.
    Broken(Refusal),
    /// The island's own words.
    Refused(String),
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
            Self::Refused(words) => Error::NotPrepared(words),
        }
    }
}

/// What one island does.
struct PartOfIsland {
    island: IslandId,
    work: Mutex<WorkOfPart>,
    refused: Mutex<Option<Why>>,
}

/// The work of a part.
enum WorkOfPart {
    /// Calls, which may run again.
    Steps(Vec<Box<dyn Step>>),
    /// It was executed by a closure, which has to run again if this is not there.
    Executed(Option<Held>),
}

impl PartOfIsland {
    /// Executes it within the open transaction of `store`.
    fn run(&self, store: &mut GuardedProduct<'_>, tables: &Tables) -> Result<(), Stop> {
        match &*self.work.lock() {
            WorkOfPart::Steps(steps) => steps.iter().try_for_each(|step| step.run(store, tables)),
            WorkOfPart::Executed(_) => unreachable!("it was executed"),
        }
    }
}

/// A transaction under way.
pub(crate) struct Transaction {
    number: OnceLock<u64>,
    how: OverIslands,
    parts: Vec<PartOfIsland>,
}

impl Transaction {
    /// Of parts that were executed, in the order in which their islands were reached.
    pub(super) fn executed(parts: impl Iterator<Item = (IslandId, Held)>) -> Arc<Self> {
        let part = |(island, held)| {
            let work = Mutex::new(WorkOfPart::Executed(Some(held)));
            PartOfIsland { island, work, refused: Mutex::new(None) }
        };
        let (number, how) = (OnceLock::new(), OverIslands::Closure);
        Arc::new(Self { number, how, parts: parts.map(part).collect() })
    }

    /// Enters it; returns its envelope.
    pub(super) fn enter(self: &Arc<Self>, mail: &Mail) -> Box<AcrossEnvelope> {
        let is_first = self.number.set(mail.enter(self)).is_ok();
        assert!(is_first, "a transaction begins once");
        Box::new(AcrossEnvelope { transaction: self.clone(), ended: None })
    }

    /// What an island has not taken of what was executed there is not valid any more.
    pub(super) fn invalidate(&self, island: IslandId) {
        if let WorkOfPart::Executed(held) = &mut *self.part(island).work.lock() {
            *held = None;
        }
    }

    /// The number by which islands find it.
    pub(super) fn number(&self) -> u64 {
        *self.number.get().expect("it is entered before it begins")
    }

    /// How it is counted.
    pub(super) const fn how(&self) -> OverIslands {
        self.how
    }

    /// How many islands have a part.
    pub(super) const fn islands(&self) -> usize {
        self.parts.len()
    }

    /// What islands are sent.
    pub(super) fn payloads(&self) -> Vec<(IslandId, Vec<u8>)> {
        let number = self.number().to_le_bytes();
        self.parts.iter().map(|part| (part.island, number.to_vec())).collect()
    }

    /// The transaction's number in what an island was sent.
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
        let (guard, part) = (Guard::part(locks), self.part(island));
        if let WorkOfPart::Executed(held) = &mut *part.work.lock() {
            return held.take().ok_or(Why::Again);
        }
        let run = || tx::run_steps(store, &guard, |store| part.run(store, tables));
        match unless_held(&guard, run).map_err(Why::Held)? {
            Ok(Ok(())) => Ok(guard.into_part().expect("what is executed is set aside")),
            Ok(Err(stop)) => Err(Why::Stopped(stop)),
            Err(panic) => Err(Why::Panicked(panic_message(&*panic))),
        }
    }

    /// Notes why an island's part is refused.
    pub(super) fn refuse(&self, island: IslandId, why: Why) {
        *self.part(island).refused.lock() = Some(why);
    }

    /// Why an island's part was refused; in `words` if the store refused to prepare it.
    pub(super) fn refusal(&self, island: IslandId, words: Vec<u8>) -> Why {
        let why = self.part(island).refused.lock().take();
        why.unwrap_or_else(|| Why::Refused(String::from_utf8_lossy(&words).into_owned()))
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

/// The answer of a part, once the transaction has committed; see [`Answers::take`].
pub struct Part<A> {
    answer: Arc<Mutex<Option<A>>>,
}

impl<A> fmt::Debug for Part<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Part").finish_non_exhaustive()
    }
}

/// The answers of a transaction that has committed on all its islands.
#[derive(Debug)]
pub struct Answers(());

impl Answers {
    /// The answer of a part.
    ///
    /// # Panics
    /// When it is a part of another transaction, which did not commit.
    pub fn take<A>(&self, part: Part<A>) -> A {
        part.answer.lock().take().expect("a part of the transaction that committed")
    }
}

/// A transaction over several islands that is put together; see [`Islands`].
#[must_use = "nothing runs before `commit` is called"]
pub struct Across<'d> {
    islands: &'d Islands,
    parts: Vec<PartOfIsland>,
}

impl fmt::Debug for Across<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let islands: Vec<_> = self.parts.iter().map(|part| part.island).collect();
        f.debug_struct("Across").field("islands", &islands).finish_non_exhaustive()
    }
}

impl<'d> Across<'d> {
    pub(super) const fn new(islands: &'d Islands) -> Self {
        Self { islands, parts: Vec::new() }
    }

    /// Adds a call of a procedure or closure at a key. It may run more than once before the transaction commits: if it
    /// meets what another transaction holds, it is undone and runs again.
    ///
    /// # Errors
    /// [`Error::Schema`] when keys are spread by ranges of numbers, and this is none.
    pub fn part<I, A>(
        &mut self,
        procedure: &OnIslands<I, A>,
        key: &(impl IslandKey + ?Sized),
        input: I,
    ) -> Result<Part<A>, Error>
    where
        I: Send + 'static,
        A: Send + 'static,
    {
        let island = self.islands.island_of(key)?;
        Ok(self.part_on(island, procedure, input))
    }

    /// Adds a call on every island, with the same input: the answers are in the order of islands. A table that is
    /// read everywhere and seldom changed can so be kept on each island.
    ///
    /// ```
    /// use tombolo::{Database, Error, Table};
    ///
    /// #[derive(Table)]
    /// struct Rate {
    ///     #[key]
    ///     currency: u32,
    ///     per_mille: i64,
    /// }
    ///
    /// let db = Database::builder().define::<Rate>().islands(2).in_memory()?;
    /// let by_currency = db.index::<RateKey>()?;
    /// let set = db.register_closure("set rate", move |tx, &(currency, per_mille): &(u32, i64)| {
    ///     tx.upsert_row(&by_currency, &Rate { currency, per_mille }).map(drop)
    /// });
    /// let mut across = db.across();
    /// across.everywhere(&set, (978, 1_080));
    /// across.commit()?; // from now on each island has the new rate
    /// # Ok::<(), Error>(())
    /// ```
    pub fn everywhere<I, A>(&mut self, procedure: &OnIslands<I, A>, input: I) -> Vec<Part<A>>
    where
        I: Clone + Send + 'static,
        A: Send + 'static,
    {
        let islands = 0..self.islands.islands();
        islands.map(|island| self.part_on(island, procedure, input.clone())).collect()
    }

    fn part_on<I, A>(&mut self, island: usize, procedure: &OnIslands<I, A>, input: I) -> Part<A>
    where
        I: Send + 'static,
        A: Send + 'static,
    {
        let answer = Arc::new(Mutex::new(None));
        let step = procedure.on(island).step(input, answer.clone());
        let island = IslandId(island as u16);
        match self.parts.iter().find(|part| part.island == island) {
            Some(part) => match &mut *part.work.lock() {
                WorkOfPart::Steps(steps) => steps.push(step),
                WorkOfPart::Executed(_) => unreachable!("it has calls"),
            },
            None => {
                let work = Mutex::new(WorkOfPart::Steps(vec![step]));
                self.parts.push(PartOfIsland { island, work, refused: Mutex::new(None) });
            }
        }
        Part { answer }
    }

    /// Runs the parts and commits them, all or none, and blocks until that is durable.
    ///
    /// # Errors
    /// The error of a part, as if it were a call: nothing was changed on any island.
    /// [`Error::Refused`] with [`LockTimeout`](crate::StoreError::LockTimeout) when others held what it needs for too
    /// long; [`Error::Unknown`] when the island on which it began stopped meanwhile: it may have committed, on all
    /// islands or on none.
    pub fn commit(self) -> Result<Answers, Error> {
        let Self { islands, parts } = self;
        let Some(first) = parts.first() else { return Ok(Answers(())) };
        if on_database_thread() {
            return Err(Error::Nested);
        }
        let core = islands.databases[first.island.index()].core();
        let ended = match run_directly(islands, &parts) {
            Some(ended) => ended,
            None => Self::commit_by_messages(islands, parts)?,
        };
        ended.map(|()| Answers(())).map_err(|why| why.into_error(&core.schema.get()))
    }

    fn commit_by_messages(
        islands: &Islands,
        parts: Vec<PartOfIsland>,
    ) -> Result<Result<(), Why>, Error> {
        let first = parts[0].island;
        let core = islands.databases[first.index()].core();
        let transaction =
            Arc::new(Transaction { number: OnceLock::new(), how: OverIslands::Messages, parts });
        let envelope = transaction.enter(&islands.mail);
        let number = transaction.number();
        let ticket = core.submit_helped(envelope).inspect_err(|_| islands.mail.leave(number))?;
        islands.wait_for(first, number, ticket)
    }
}

impl Islands {
    /// Waits for the end of a transaction that began on island `first`, and gives islands their turns meanwhile.
    pub(super) fn wait_for(
        &self,
        first: IslandId,
        number: u64,
        ticket: Ticket,
    ) -> Result<Result<(), Why>, Error> {
        let core = self.databases[first.index()].core();
        if core.carrier().is_some() {
            let slots = core.reply_slots(ticket);
            let is_done = || slots.is_done(ticket.tag);
            helping::help_until((&self.mail, &self.databases), first, is_done);
        }
        let ended = core.wait::<Result<(), Why>, Settled>(ticket);
        self.mail.leave(number);
        ended
    }
}

/// Runs the parts on this thread; without an answer if it does not get their islands.
fn run_directly(islands: &Islands, parts: &[PartOfIsland]) -> Option<Result<(), Why>> {
    let mut reach = Reach::new(islands, OverIslands::Parts).filter(|reach| !reach.is_logged())?;
    // In the order in which a thread waits for islands.
    let after = |last: Option<IslandId>| {
        let rest = parts.iter().filter(|part| last.is_none_or(|last| part.island > last));
        rest.min_by_key(|part| part.island)
    };
    let mut run_all = || {
        let mut next = after(None);
        while let Some(part) = next {
            reach.run(part.island, |store, tables| part.run(store, tables))?;
            next = after(Some(part.island));
        }
        Ok(())
    };
    let ran = catch_unwind(AssertUnwindSafe(&mut run_all));
    match reach.finish(ran)? {
        Finished::Ended(ended) => Some(ended),
        Finished::Agreeing(..) => unreachable!("nothing is logged"),
    }
}
