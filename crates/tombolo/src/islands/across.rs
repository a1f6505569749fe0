//! `Across`: a transaction of parts that run on several islands, and commit together or not at all.
//!
//! Each part is a call of a registered procedure or closure at a key. Parts whose keys are on one island run there in
//! one transaction, in the order in which they were given; islands work concurrently. No part sees another's
//! answer: what one needs to know, its input says. A last step may see all answers, and refuse the transaction.
//!
//! The caller's thread runs all parts itself if it gets their islands (`reach.rs`). Otherwise they run them, and agree
//! by messages. Not here: how the islands run them (`parts.rs`), how they agree (engine `islands/commit/`).

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tombolo_engine::islands::commit::IslandId;
use tombolo_storage::sync::Mutex;

use super::Islands;
use super::calls::OnIslands;
use super::helping::Helping;
use super::key::IslandKey;
use super::parts::{LastStep, Transaction, Why};
use super::reach::{Agreement, Finished, Reach};
use crate::calls::{Answering, OverIslands, Settled, Step, on_database_thread};
use crate::error::Error;
use crate::stop::Stop;

/// The answer of a part, once it has run; see [`Answers`].
pub struct Part<A> {
    step: Arc<dyn Answering<A>>,
}

impl<A> fmt::Debug for Part<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Part").finish_non_exhaustive()
    }
}

/// The answers of a transaction whose parts have all run.
#[derive(Debug)]
pub struct Answers(());

impl Answers {
    /// The answer of a part.
    ///
    /// # Panics
    /// When it is a part of another transaction, which did not commit.
    pub fn take<A>(&self, part: Part<A>) -> A {
        part.step.take().expect("a part of the transaction that committed")
    }

    /// A copy of the answer of a part.
    ///
    /// # Panics
    /// When it is a part of another transaction, whose parts did not all run.
    pub fn get<A: Clone>(&self, part: &Part<A>) -> A {
        part.step.copy().expect("a part of the transaction whose parts have run")
    }
}

/// A transaction over several islands that is put together; see [`Islands`].
#[must_use = "nothing runs before `commit` is called"]
pub struct Across<'d> {
    islands: &'d Islands,
    steps: Vec<(IslandId, Arc<dyn Step>)>,
}

impl fmt::Debug for Across<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let islands: Vec<_> = self.steps.iter().map(|(island, _)| island).collect();
        f.debug_struct("Across").field("islands", &islands).finish_non_exhaustive()
    }
}

impl<'d> Across<'d> {
    pub(super) const fn new(islands: &'d Islands) -> Self {
        Self { islands, steps: Vec::new() }
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
        let step = procedure.on(island).step(input);
        self.steps.push((IslandId(island as u16), step.clone()));
        Part { step }
    }

    /// Runs the parts and commits them, all or none, and blocks until that is durable.
    ///
    /// # Errors
    /// The error of a part, as if it were a call: nothing was changed on any island.
    /// [`Error::Refused`] with [`LockTimeout`](crate::StoreError::LockTimeout) when others held what it needs for too
    /// long; [`Error::Unknown`] when the island on which it began stopped meanwhile: it may have committed, on all
    /// islands or on none.
    pub fn commit(self) -> Result<Answers, Error> {
        self.end(None).map(|()| Answers(()))
    }

    /// The same with a last step, which sees the answers of all parts: its error undoes them all. It may run more than
    /// once, and on another thread; it has to compute and nothing else.
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
        F: Fn(&Answers) -> Result<A, Stop> + Send + Sync + 'static,
        A: Send + 'static,
    {
        let combined = Arc::new(Mutex::new(None));
        let put = combined.clone();
        let last = move || {
            let answer = last(&Answers(()))?;
            *put.lock() = Some(answer);
            Ok(())
        };
        self.end(Some(Arc::new(last)))?;
        Ok(combined.lock().take().expect("what has committed has run its last step"))
    }

    fn end(self, last: Option<LastStep>) -> Result<(), Error> {
        let Self { islands, steps } = self;
        if on_database_thread() {
            return Err(Error::Nested);
        }
        if steps.is_empty() {
            let ended = Transaction::of_steps(steps, last).run_last();
            return ended.map_err(|why| why.into_error(&islands.schema()));
        }
        let ended = match run_directly(islands, &steps, last.as_ref()) {
            Some(Finished::Ended(ended)) => Some(ended),
            Some(Finished::Agreeing((), agreement)) => match islands.wait_for(agreement)? {
                Err(Why::Again) => None,
                ended => Some(ended),
            },
            None => None,
        };
        let ended = match ended {
            Some(ended) => ended,
            None => run_by_messages(islands, steps, last)?,
        };
        ended.map_err(|why| why.into_error(&islands.schema()))
    }
}

impl Islands {
    /// Waits for the end of a transaction on which islands agree, and gives them their turns meanwhile.
    pub(super) fn wait_for(&self, agreement: Agreement<'_>) -> Result<Result<(), Why>, Error> {
        let Agreement { first, number, ticket, mut helping } = agreement;
        let core = self.databases[first.index()].core();
        if core.carrier().is_some() {
            let slots = core.reply_slots(ticket);
            helping.until(|| slots.is_done(ticket.tag));
        } else {
            helping.end();
        }
        let ended = core.wait::<Result<(), Why>, Settled>(ticket);
        self.mail.leave(number);
        ended
    }
}

/// Runs the steps on this thread; without an answer if it does not get their islands.
fn run_directly<'d>(
    islands: &'d Islands,
    steps: &[(IslandId, Arc<dyn Step>)],
    last: Option<&LastStep>,
) -> Option<Finished<'d, ()>> {
    let mut reach = Reach::new(islands, OverIslands::Parts)?;
    reach.begin_at(steps[0].0); // a caller's first part is often its own island's: the decisions are shared out
    let mut run_all = || {
        // In the order in which a thread waits for islands; those of one in the order in which they were given.
        let mut next = steps.iter().map(|(island, _)| *island).min();
        while let Some(island) = next {
            next = None;
            for (other, step) in steps {
                if *other == island {
                    reach.run(island, |store, tables| step.run(store, tables))?;
                } else if *other > island && next.is_none_or(|next| *other < next) {
                    next = Some(*other);
                }
            }
        }
        last.map_or(Ok(()), |last| last())
    };
    let ran = catch_unwind(AssertUnwindSafe(&mut run_all));
    reach.finish(ran)
}

/// Lets the islands run the steps and agree.
fn run_by_messages(
    islands: &Islands,
    steps: Vec<(IslandId, Arc<dyn Step>)>,
    last: Option<LastStep>,
) -> Result<Result<(), Why>, Error> {
    let first = steps[0].0;
    let core = islands.databases[first.index()].core();
    let mut helping = Helping::begin(islands);
    steps.iter().for_each(|(island, _)| helping.add(*island));
    let transaction = Transaction::of_steps(steps, last);
    let envelope = transaction.enter(&islands.mail);
    let number = transaction.number();
    let ticket = core.submit_helped(envelope).inspect_err(|_| islands.mail.leave(number))?;
    islands.wait_for(Agreement { first, number, ticket, helping })
}
