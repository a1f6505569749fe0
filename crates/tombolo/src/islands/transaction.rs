//! `IslandsTx`: a transaction that reaches islands while its closure runs.
//!
//! It runs on its caller's thread, which takes each island at the first access. If another thread has that island and
//! this thread must not wait for it, everything is undone and the closure runs again; this time the thread first takes
//! the islands that the closure needed, in their order. A savepoint is one on each island that the thread has.
//!
//! Not here: taking islands (`reach.rs`); declared parts, which have savepoints only on their own islands
//! (`across.rs`).

use std::fmt;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::time::Duration;

use tombolo_engine::islands::commit::IslandId;
use tombolo_storage::error::Error as StoreError;

use super::Islands;
use super::key::IslandKey;
use super::parts::Why;
use super::reach::Reach;
use crate::calls::{CallOptions, OverIslands, on_database_thread, wait_a_moment};
use crate::error::{Error, Stop};
use crate::tx::{self, Tx};

/// The pause after a transaction did not get its islands for the first time; it doubles each time, up to a bound.
const PAUSE: Duration = Duration::from_micros(10);
const PAUSES_MAX: u32 = 6;

/// A transaction over several islands, as its closure sees it; see [`Islands::transaction`].
pub struct IslandsTx<'d> {
    islands: &'d Islands,
    reach: Reach<'d>,
}

impl fmt::Debug for IslandsTx<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IslandsTx").finish_non_exhaustive()
    }
}

impl IslandsTx<'_> {
    /// Runs a closure on the island of a key. It sees the rows of that island, with the transaction's own changes. If
    /// it fails, the transaction can only be undone: as a whole, or back to a [savepoint](IslandsTx::savepoint).
    ///
    /// # Errors
    /// That of the closure; [`Stop::Abort`] when keys are spread by ranges of numbers, and this key is not a
    /// number. An error [`LockTimeout`](StoreError::LockTimeout) may mean that the transaction has to run again: return
    /// it.
    pub fn at<A>(
        &mut self,
        key: &(impl IslandKey + ?Sized),
        closure: impl FnOnce(&mut Tx<'_>) -> Result<A, Stop>,
    ) -> Result<A, Stop> {
        let is_none = |_| Stop::Abort("the islands' keys are integers within 64 bits");
        let island = self.islands.island_of(key).map_err(is_none)?;
        let island = IslandId(island as u16);
        self.reach.run(island, |store, guard, tables| tx::step(store, guard, tables, closure))
    }

    /// Runs a part of the transaction. If it returns an error, or a closure on an island in it did, its changes are
    /// undone on all islands, and the transaction may continue without them. Savepoints may be nested, and a closure on
    /// one island may have its own ([`Tx::savepoint`]).
    ///
    /// ```
    /// # use tombolo::{Database, Error, Stop, StoreError, Table};
    /// # #[derive(Table)]
    /// # struct Guest { #[key] seat: u64, name: u32 }
    /// let db = Database::builder().define::<Guest>().islands(2).in_memory()?;
    /// let guests = db.table::<Guest>()?;
    /// let taken = Guest { seat: 4, name: 1 };
    /// db.at(&taken.seat)?.transaction(move |tx| tx.insert_row(&guests, &taken).map(drop))?;
    /// // Two seats, for guests who come together or not at all; the first pair of seats that is free.
    /// let seated = db.transaction(|tx| {
    ///     for pair in [[3, 4], [5, 6]] {
    ///         let both = tx.savepoint(|tx| {
    ///             pair.iter().try_for_each(|&seat| {
    ///                 tx.at(&seat, |tx| tx.insert_row(&guests, &Guest { seat, name: 2 }).map(drop))
    ///             })
    ///         });
    ///         match both {
    ///             Ok(()) => return Ok(pair),
    ///             Err(Stop::Error(StoreError::Duplicate { .. })) => {}
    ///             Err(other) => return Err(other),
    ///         }
    ///     }
    ///     Err(Stop::Abort("no two seats are free"))
    /// })?;
    /// assert_eq!(seated, [5, 6]);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// The error of the part, or that of the first closure in it that failed. If the transaction has to run again, or
    /// its deadline has passed, it cannot continue: return the error.
    pub fn savepoint<A>(
        &mut self,
        part: impl FnOnce(&mut Self) -> Result<A, Stop>,
    ) -> Result<A, Stop> {
        let place = self.reach.place()?;
        let ended = part(self);
        let ended = match self.reach.refused() {
            Some(refused) => ended.and(Err(refused)),
            None => ended,
        };
        if ended.is_err() {
            self.reach.back_to(&place)?;
        }
        ended
    }
}

impl Islands {
    /// Runs a closure as one transaction over the islands of the keys that it names: all of its changes commit, or
    /// none. No other transaction runs on an island from the closure's first access there until it has returned.
    /// The closure may run more than once.
    ///
    /// ```
    /// # use tombolo::{Database, Error, Stop, Table};
    /// # #[derive(Table)]
    /// # struct Account { #[key] id: u64, cents: i64 }
    /// let db = Database::builder().define::<Account>().islands(2).in_memory()?;
    /// let by_id = db.index::<AccountKey>()?;
    /// let moved = db.transaction(|tx| {
    ///     let all = tx.at(&1u64, |tx| Ok(tx.find_row(&by_id, 1)?.map_or(0, |(_, row)| row.cents)))?;
    ///     tx.at(&2u64, |tx| tx.upsert_row(&by_id, &Account { id: 2, cents: all }))?;
    ///     tx.at(&1u64, |tx| tx.upsert_row(&by_id, &Account { id: 1, cents: 0 }))?;
    ///     Ok(all)
    /// })?;
    /// assert_eq!(moved, 0);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Database::transaction`](crate::Database::transaction); [`Error::Refused`] with
    /// [`LockTimeout`](StoreError::LockTimeout) when others had its islands or rows for too long;
    /// [`Error::Setting`] where callers do not run transactions; [`Error::Unknown`] when the first island that it
    /// reached stopped meanwhile.
    #[track_caller]
    pub fn transaction<A>(
        &self,
        closure: impl Fn(&mut IslandsTx<'_>) -> Result<A, Stop>,
    ) -> Result<A, Error> {
        self.transaction_until(Location::caller(), None, closure)
    }

    /// The same with a deadline. After it the closure is ended at one of its next calls of
    /// [`IslandsTx::at`] or [`Tx`], or at a row that a scan visits, and is undone. So the deadline bounds the time for
    /// which the transaction has its islands, unless the closure computes without such calls. When the closure has
    /// returned, the caller waits for the answer even after the deadline.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tombolo::{Database, Error};
    /// let db = Database::builder().islands(2).in_memory()?;
    /// let endless = db.transaction_within(Duration::from_millis(20), |tx| loop {
    ///     tx.at(&1u64, |_| Ok(()))?;
    /// });
    /// assert_eq!(endless, Err::<(), _>(Error::Expired));
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Islands::transaction`]; [`Error::Expired`] when the deadline has passed: nothing was changed.
    #[track_caller]
    pub fn transaction_within<A>(
        &self,
        time: Duration,
        closure: impl Fn(&mut IslandsTx<'_>) -> Result<A, Stop>,
    ) -> Result<A, Error> {
        let time_ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let deadline_ns = self.mail.clock.now_ns().saturating_add(time_ns);
        self.transaction_until(Location::caller(), Some(deadline_ns), closure)
    }

    fn transaction_until<A>(
        &self,
        place: &'static Location<'static>,
        deadline_ns: Option<u64>,
        closure: impl Fn(&mut IslandsTx<'_>) -> Result<A, Stop>,
    ) -> Result<A, Error> {
        if on_database_thread() {
            return Err(Error::Nested);
        }
        let schema = self.databases[0].core().schema.get();
        let patience_ns = self.mail.clock.now_ns().saturating_add(self.mail.waits.others_ns());
        let until_ns = deadline_ns.map_or(patience_ns, |deadline_ns| deadline_ns.min(patience_ns));
        let (mut needs, mut pauses) = (Vec::new(), 0);
        loop {
            let reach = Reach::new(self, OverIslands::Closure).ok_or_else(|| {
                let what = "a transaction that reaches islands as it goes needs the setting \
                            pipeline_threads = auto: declare its parts (`across`)";
                Error::Setting(what.to_owned())
            })?;
            let mut tx = IslandsTx { islands: self, reach };
            tx.reach.end_at(deadline_ns);
            let ran = match tx.reach.reach_all(&needs) {
                true => catch_unwind(AssertUnwindSafe(|| closure(&mut tx))),
                false => Ok(Err(Stop::Error(StoreError::LockTimeout))),
            };
            let busy = tx.reach.busy();
            needs.extend(tx.reach.needs());
            let is_over_several = tx.reach.islands().nth(1).is_some();
            let finished = tx.reach.finish(ran);
            let helping = tx.reach.leave();
            let ended = match finished {
                None => Err(Why::Again),
                Some(finished) => self.wait_for(finished, helping)?,
            };
            match ended {
                Err(Why::Again) => {}
                Ok(answer) => {
                    if is_over_several {
                        self.closures.count(place);
                    }
                    return Ok(answer);
                }
                ended => return ended.map_err(|why| why.into_error(&schema)),
            }
            needs.sort_unstable();
            needs.dedup();
            if self.mail.clock.now_ns() >= until_ns {
                return Err(match deadline_ns == Some(until_ns) {
                    true => Error::Expired,
                    false => Why::Again.into_error(&schema),
                });
            }
            match busy {
                Some(island) if pauses == PAUSES_MAX => self.wait_behind_calls(island, until_ns)?,
                _ => wait_a_moment(PAUSE * (1 << pauses)),
            }
            pauses = (pauses + 1).min(PAUSES_MAX);
        }
    }

    /// Waits until the waiting calls of an island have run, or until this time; returns an error if the island runs
    /// none.
    fn wait_behind_calls(&self, island: IslandId, until_ns: u64) -> Result<(), Error> {
        let left = Duration::from_nanos(until_ns.saturating_sub(self.mail.clock.now_ns()));
        let options = CallOptions::new().log_bytes_max(self.mail.log_bytes_max(island));
        let island = self.databases[island.index()].with(options.within(left));
        match island.transaction(|_| Ok(())) {
            Err(Error::Expired | Error::TimedOut) => Ok(()), // it changes nothing
            ended => ended,
        }
    }
}
