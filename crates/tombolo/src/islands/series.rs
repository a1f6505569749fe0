//! Several transactions over islands that one thread commits in one call: in memory it keeps their islands from one to
//! the next, on disk it waits for all of them together.
//!
//! ```text
//!   in memory: take islands ─► transaction ─► transaction … ─► give back
//!   on disk:   transaction ─► transaction … ─► the islands agree on all ─► one wait
//! ```
//!
//! Each is atomic by itself. One that meets what one before it holds, or that does not get its islands, waits until
//! those have ended, and goes its own way. Not here: how a transaction runs (`across.rs`, `reach.rs`).

use tombolo_engine::islands::commit::IslandId;

use super::Islands;
use super::across::{Across, commit, run_directly};
use super::answers::Answers;
use super::parts::Why;
use super::reach::{Finished, Reach};
use crate::calls::{OverIslands, on_database_thread};
use crate::error::Error;

/// Transactions after which islands are given back: others wait for them meanwhile.
const KEPT_MAX: usize = 16;

/// Transactions that wait together: what they have changed is locked meanwhile.
const WAITING_MAX: usize = 64;

/// How a transaction ended.
type Ended<'d> = Result<Answers<'d>, Error>;

impl Islands {
    /// Commits transactions, each by itself, and returns how each ended. They run in their order, except for those that
    /// have to run again. They cost less than one at a time: in memory this thread keeps their islands between some of
    /// them, so their rows move once, and on disk it waits for all of them at the same time. For threads that have
    /// several transactions at hand, as servers do.
    ///
    /// ```
    /// # use tombolo::{Database, Error, Stop, Table};
    /// # #[derive(Table)]
    /// # struct Account { #[key] id: u64, cents: i64 }
    /// let db = Database::builder().define::<Account>().islands(2).in_memory()?;
    /// let by_id = db.index::<AccountKey>()?;
    /// let book = db.register_closure("book", move |tx, &(id, cents): &(u64, i64)| {
    ///     let cents = tx.find_row(&by_id, id)?.map_or(0, |(_, account)| account.cents) + cents;
    ///     if cents < 0 {
    ///         return Err(Stop::Abort("not enough money"));
    ///     }
    ///     tx.upsert_row(&by_id, &Account { id, cents }).map(drop)
    /// });
    /// book.at(&1u64)?.call((1, 100))?;
    /// let transfers = [(1u64, 2u64, 70), (1, 3, 70), (2, 3, 20)].map(|(from, to, cents)| {
    ///     let mut across = db.across();
    ///     across.part(&book, &from, (from, -cents))?;
    ///     across.part(&book, &to, (to, cents))?;
    ///     Ok::<_, Error>(across)
    /// });
    /// let transfers = transfers.into_iter().collect::<Result<Vec<_>, _>>()?;
    /// let ended: Vec<bool> = db.commit_all(transfers).iter().map(Result::is_ok).collect();
    /// assert_eq!(ended, [true, false, true]);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// Of each transaction, as [`Across::commit`].
    pub fn commit_all<'d>(
        &'d self,
        transactions: impl IntoIterator<Item = Across<'d>>,
    ) -> Vec<Result<Answers<'d>, Error>> {
        // First: what makes them may call the database, or take its time.
        let transactions: Vec<_> = transactions.into_iter().collect();
        if on_database_thread() {
            return transactions.iter().map(|_| Err(Error::Nested)).collect();
        }
        let mut series = Series::new(self);
        transactions.into_iter().for_each(|transaction| series.run(transaction));
        series.settle();
        series.ended.into_iter().map(|ended| ended.expect("each has ended")).collect()
    }
}

/// Transactions that have run.
struct Series<'d> {
    islands: &'d Islands,
    reach: Option<Reach<'d>>,
    /// How many this thread has run, rather than the islands by messages.
    run: usize,
    waiting: Vec<Waiting<'d>>,
    /// How each ended; none of those that wait.
    ended: Vec<Option<Ended<'d>>>,
}

/// A transaction that has run, but of which it is not known how it ends, or that may not be reported yet.
struct Waiting<'d> {
    number: usize,
    first: IslandId,
    steps: Answers<'d>,
    finished: Finished<()>,
}

impl<'d> Series<'d> {
    const fn new(islands: &'d Islands) -> Self {
        Self { islands, reach: None, run: 0, waiting: Vec::new(), ended: Vec::new() }
    }

    fn run(&mut self, transaction: Across<'d>) {
        let (islands, first, mut steps) = transaction.into_steps();
        let number = self.ended.len();
        self.ended.push(None);
        let Some(first) = first else {
            self.ended[number] = Some(Ok(steps));
            return;
        };
        let is_own = std::ptr::eq(islands, self.islands);
        let reach = self.reach().filter(|_| is_own);
        let finished = reach.and_then(|reach| run_directly(reach, first, &mut steps, None));
        let Some(finished) = finished else {
            self.settle();
            self.ended[number] = Some(commit(islands, first, steps, None));
            return;
        };
        self.run += 1;
        match finished {
            Finished::Ended(ended, positions) if positions.is_empty() => {
                let error = |why: Why| why.into_error(&islands.schema());
                self.ended[number] = Some(ended.map(|()| steps).map_err(error));
            }
            finished => self.waiting.push(Waiting { number, first, steps, finished }),
        }
        if self.waiting.len() == WAITING_MAX {
            self.settle();
        } else if self.run.is_multiple_of(KEPT_MAX) {
            self.reach().into_iter().for_each(Reach::give_back_kept);
        }
    }

    /// The islands that this thread has; none if callers must not run transactions.
    fn reach(&mut self) -> Option<&mut Reach<'d>> {
        if self.reach.is_none() {
            self.reach = Reach::new(self.islands, OverIslands::Parts);
            self.reach.iter_mut().for_each(Reach::keep_islands);
        }
        self.reach.as_mut()
    }

    /// Waits until all that have run have ended; those that have to run again do so, one at a time.
    fn settle(&mut self) {
        let mut helping = self.reach.take().and_then(Reach::leave);
        let waiting = std::mem::take(&mut self.waiting);
        let agreements = waiting.iter().filter_map(|waiting| waiting.finished.agreement());
        self.islands.help_until_decided(agreements, helping.as_mut());
        let mut again = Vec::new();
        for Waiting { number, first, steps, finished } in waiting {
            self.ended[number] = match self.islands.outcome(finished) {
                Ok(Ok(())) => Some(Ok(steps)),
                Ok(Err(Why::Again)) => {
                    again.push((number, first, steps));
                    None
                }
                Ok(Err(why)) => Some(Err(why.into_error(&self.islands.schema()))),
                Err(error) => Some(Err(error)),
            };
        }
        drop(helping);
        for (number, first, steps) in again {
            self.ended[number] = Some(commit(self.islands, first, steps, None));
        }
    }
}
