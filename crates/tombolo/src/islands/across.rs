//! `Across`: a transaction of parts that run on several islands, and commit together or not at all.
//!
//! Each part is a call of a registered procedure or closure at a key. Parts whose keys are on one island run there in
//! one transaction, in the order in which they were given; islands work concurrently. No part sees another's
//! answer: everything that a part needs must be in its input. A last step may see all answers, and refuse the
//! transaction.
//!
//! The caller's thread runs all parts itself if it gets their islands (`reach.rs`). Otherwise the islands run the
//! parts, and agree by messages. Not here: how islands run parts (`parts.rs`), how they agree (engine
//! `islands/commit/`).

use std::cell::Cell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tombolo_engine::hints::Hints;
use tombolo_engine::islands::commit::IslandId;
use tombolo_engine::procedure::Ahead;
use tombolo_storage::sync::Mutex;

use super::Islands;
use super::answers::{Answers, Part, PlacedStep};
use super::calls::OnIslands;
use super::helping::Helping;
use super::key::IslandKey;
use super::parts::{LastStep, Transaction, Why, run_last};
use super::reach::{Agreement, Finished, Position, Reach};
use crate::calls::{OverIslands, Settled, on_database_thread};
use crate::error::{Error, Stop};

/// The most steps of a transaction whose rows are looked up before they run.
const AHEAD_MAX: usize = 16;

/// The hints of a step without look-ahead.
const NOTHING: Hints = Hints::none();

thread_local! {
    /// Memory for the hints of this thread's transactions.
    static FOUND: Cell<Vec<Hints>> = const { Cell::new(Vec::new()) };
}

/// A transaction over several islands, to which parts are added before it commits; see [`Islands`].
#[must_use = "nothing runs before `commit` is called"]
pub struct Across<'d> {
    islands: &'d Islands,
    /// The island of its first part, where it begins. That is often the caller's island, so decisions are distributed
    /// over all islands.
    first: Option<IslandId>,
    steps: Answers<'d>,
}

impl fmt::Debug for Across<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Across").field("steps", &self.steps).finish_non_exhaustive()
    }
}

impl<'d> Across<'d> {
    pub(super) fn new(islands: &'d Islands) -> Self {
        Self { islands, first: None, steps: Answers::none() }
    }

    /// Adds a call of a procedure or closure at a key. It may run more than once before the transaction commits: if it
    /// meets a lock of another transaction, it is undone and runs again. A closure may have savepoints on its own
    /// island ([`Tx::savepoint`](crate::Tx::savepoint)); savepoints over several islands exist in
    /// [`Islands::transaction`] ([`IslandsTx::savepoint`](crate::IslandsTx::savepoint)).
    ///
    /// # Errors
    /// [`Error::Schema`] when keys are spread by ranges of numbers, and this key is not a number.
    pub fn part<I, A>(
        &mut self,
        procedure: &'d OnIslands<I, A>,
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

    /// Adds a call on every island, with the same input: the answers are in the order of islands. With this, a table
    /// that is read everywhere and seldom changed can have a copy on each island.
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
    pub fn everywhere<I, A>(&mut self, procedure: &'d OnIslands<I, A>, input: I) -> Vec<Part<A>>
    where
        I: Clone + Send + 'static,
        A: Send + 'static,
    {
        let islands = 0..self.islands.islands();
        islands.map(|island| self.part_on(island, procedure, input.clone())).collect()
    }

    fn part_on<I, A>(&mut self, island: usize, procedure: &'d OnIslands<I, A>, input: I) -> Part<A>
    where
        I: Send + 'static,
        A: Send + 'static,
    {
        let step = procedure.on(island).step(input);
        let island = IslandId(island as u16);
        self.first.get_or_insert(island);
        self.steps.add(island, step)
    }

    /// Runs the parts, commits all of them or none, and blocks until that is durable.
    ///
    /// # Errors
    /// The error of a part, as if it were a call: nothing was changed on any island.
    /// [`Error::Refused`] with [`LockTimeout`](crate::StoreError::LockTimeout) when others held its locks or islands
    /// for too long; [`Error::Unknown`] when the island on which it began stopped meanwhile: it may have committed, on
    /// all islands or on none.
    pub fn commit(self) -> Result<Answers<'d>, Error> {
        self.end(None)
    }

    /// The same with a last step, which sees the answers of all parts: its error undoes them all. It may run more than
    /// once, and on another thread, so it must do nothing but compute.
    ///
    /// ```
    /// use tombolo::{Database, Error, Stop, Table};
    ///
    /// #[derive(Table)]
    /// struct Account {
    ///     #[key]
    ///     id: u64,
    ///     cents: i64,
    /// }
    ///
    /// let db = Database::builder().define::<Account>().islands(2).in_memory()?;
    /// let by_id = db.index::<AccountKey>()?;
    /// let book = db.register_closure("book", move |tx, &(id, cents): &(u64, i64)| {
    ///     let cents = tx.find_row(&by_id, id)?.map_or(0, |(_, account)| account.cents) + cents;
    ///     tx.upsert_row(&by_id, &Account { id, cents })?;
    ///     Ok(cents)
    /// });
    /// // An account may be overdrawn as long as its owner's other one makes up for it.
    /// let withdraw = |cents: i64| {
    ///     let mut across = db.across();
    ///     let giro = across.part(&book, &1u64, (1, -cents))?;
    ///     let savings = across.part(&book, &2u64, (2, 0))?;
    ///     across.commit_if(move |answers| match answers.get(&giro) + answers.get(&savings) {
    ///         ..0 => Err(Stop::Abort("not enough money")),
    ///         both => Ok(both),
    ///     })
    /// };
    /// book.at(&2u64)?.call((2, 100))?;
    /// assert_eq!(withdraw(70), Ok(30));
    /// assert_eq!(withdraw(70), Err(Error::Aborted("not enough money")));
    /// assert_eq!(withdraw(30), Ok(0));
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Across::commit`], and that of the last step.
    pub fn commit_if<A, F>(self, last: F) -> Result<A, Error>
    where
        F: Fn(&Answers<'_>) -> Result<A, Stop> + Send + Sync + 'static,
        A: Send + 'static,
    {
        let combined = Arc::new(Mutex::new(None));
        let put = combined.clone();
        let last = move |answers: &Answers<'_>| {
            let answer = last(answers)?;
            *put.lock() = Some(answer);
            Ok(())
        };
        self.end(Some(Arc::new(last)))?;
        Ok(combined.lock().take().expect("what has committed has run its last step"))
    }

    fn end(self, last: Option<LastStep>) -> Result<Answers<'d>, Error> {
        let Self { islands, first, steps } = self;
        if on_database_thread() {
            return Err(Error::Nested);
        }
        match first {
            Some(first) => commit(islands, first, steps, last),
            None => run_last(last.as_ref(), &steps)
                .map(|()| steps)
                .map_err(|why| why.into_error(&islands.schema())),
        }
    }

    /// The islands, the island where it begins, and its steps.
    pub(super) fn into_steps(self) -> (&'d Islands, Option<IslandId>, Answers<'d>) {
        (self.islands, self.first, self.steps)
    }
}

/// Runs steps and commits them, on this thread or by messages.
pub(super) fn commit<'d>(
    islands: &'d Islands,
    first: IslandId,
    mut steps: Answers<'d>,
    last: Option<LastStep>,
) -> Result<Answers<'d>, Error> {
    let mut reach = Reach::new(islands, OverIslands::Parts);
    let finished =
        reach.as_mut().and_then(|reach| run_directly(reach, first, &mut steps, last.as_ref()));
    let helping = reach.and_then(Reach::leave);
    let ended = match finished.map(|finished| islands.wait_for(finished, helping)) {
        Some(ended) => Some(ended?).filter(|ended| !matches!(ended, Err(Why::Again))),
        None => None,
    };
    let ended = match ended {
        Some(ended) => ended.map(|()| steps),
        None => run_by_messages(islands, first, steps, last)?,
    };
    ended.map_err(|why| why.into_error(&islands.schema()))
}

impl Islands {
    /// Waits until the end of a transaction may be reported.
    pub(super) fn wait_for<A>(
        &self,
        finished: Finished<A>,
        mut helping: Option<Helping<'_>>,
    ) -> Result<Result<A, Why>, Error> {
        self.help_until_decided(finished.agreement().into_iter(), helping.as_mut());
        self.outcome(finished)
    }

    /// Gives islands that agree on transactions their turns until all are decided, or there is nothing to do.
    pub(super) fn help_until_decided<'a>(
        &self,
        agreements: impl Iterator<Item = &'a Agreement> + Clone,
        helping: Option<&mut Helping<'_>>,
    ) {
        let Some(helping) = helping else { return };
        let is_decided = |of: &Agreement| {
            let core = self.databases[of.first.index()].core();
            core.reply_slots(of.ticket).is_done(of.ticket.tag)
        };
        match self.databases[0].core().carrier() {
            Some(_) => helping.until(|| agreements.clone().all(is_decided)),
            None => helping.end(), // all islands have the same settings
        }
    }

    /// The outcome of a transaction, once it may be reported.
    pub(super) fn outcome<A>(&self, finished: Finished<A>) -> Result<Result<A, Why>, Error> {
        match finished {
            Finished::Ended(ended, positions) => Ok(self.wait_for_logs(&positions).and(ended)),
            Finished::Agreeing(answer, of) => {
                let core = self.databases[of.first.index()].core();
                let ended = core.wait::<Result<(), Why>, Settled>(of.ticket);
                self.mail.leave(of.number);
                Ok(ended?.map(|()| answer))
            }
        }
    }

    /// Waits until logs are durable up to these positions.
    pub(super) fn wait_for_logs(&self, positions: &[Position]) -> Result<(), Why> {
        let carrier = |island: IslandId| {
            let core = self.databases[island.index()].core();
            core.carrier().ok_or(Why::Unreachable(island))
        };
        // All logs are flushed at the same time, the first of them by this thread.
        for &(island, position) in positions.iter().skip(1) {
            let carrier = carrier(island)?;
            if carrier.look(position).is_none() {
                carrier.ask_for_flush();
            }
        }
        positions.iter().try_for_each(|&(island, position)| {
            let carrier = carrier(island)?;
            carrier.wait(position).map_err(Why::Broken)
        })
    }
}

/// Runs the steps on this thread; returns `None` if it does not get their islands.
pub(super) fn run_directly(
    reach: &mut Reach<'_>,
    first: IslandId,
    steps: &mut Answers<'_>,
    last: Option<&LastStep>,
) -> Option<Finished<()>> {
    reach.begin_at(first);
    let mut run_all = || {
        run_steps(reach, &mut steps.steps)?;
        last.map_or(Ok(()), |last| last(steps))
    };
    let ran = catch_unwind(AssertUnwindSafe(&mut run_all));
    reach.finish(ran)
}

/// Runs the steps on the islands that the thread has. The rows of all steps are prefetched first: most of them are in
/// other cores' caches, and the thread waits for all of them together.
fn run_steps(reach: &mut Reach<'_>, steps: &mut [PlacedStep<'_>]) -> Result<(), Stop> {
    let mut found = FOUND.take();
    found.clear();
    found.resize(steps.len().min(AHEAD_MAX), NOTHING);
    for ahead in [Ahead::Keys, Ahead::Rows] {
        for (PlacedStep { island, step, .. }, hints) in steps.iter().zip(&mut found) {
            reach.look_ahead(*island, |store| step.look_ahead(store, ahead, hints))?;
        }
    }
    for (at, PlacedStep { island, step, .. }) in steps.iter_mut().enumerate() {
        let hints = found.get(at).unwrap_or(&NOTHING);
        reach.run(*island, |store, guard, tables| step.run(store, guard, tables, hints))?;
    }
    FOUND.set(found);
    Ok(())
}

/// Lets the islands run the steps and agree.
fn run_by_messages<'d>(
    islands: &Islands,
    first: IslandId,
    steps: Answers<'d>,
    last: Option<LastStep>,
) -> Result<Result<Answers<'d>, Why>, Error> {
    let core = islands.databases[first.index()].core();
    let mut helping = Helping::begin(islands);
    steps.steps.iter().for_each(|placed| helping.add(placed.island));
    let transaction = Transaction::of_steps(steps.owned(), last);
    let envelope = transaction.enter(&islands.mail);
    let number = transaction.number();
    let ticket = core.submit_helped(envelope).inspect_err(|_| islands.mail.leave(number))?;
    let finished = Finished::Agreeing((), Agreement { first, number, ticket });
    let ended = islands.wait_for(finished, Some(helping))?;
    Ok(ended.map(|()| transaction.answers()))
}
