//! `PagedIslandsTx`: a transaction over several islands, as its closure sees it.
//!
//! It runs on its caller's thread, in a session of each island that it reaches. Locks keep it apart from others, as on
//! one island. A circle of waits within an island is found there. One over several islands no lock table sees: so a
//! transaction that has reached several waits for a lock for a short time only, then all is undone and it runs again.
//! The longer it has tried, the longer it waits, so that its turn comes.
//!
//! Not here: how it commits (`commit.rs`), crews (`crew.rs`).

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use tombolo_engine::threads::panic_message;
use tombolo_engine::transaction::Stop as EngineStop;
use tombolo_storage::error::Error as StoreError;
use tombolo_storage::store::{Phase, Store as _};

use super::super::again::Patience;
use super::super::database::{Counters, Ended, How};
use super::super::ids::Place;
use super::super::sessions::Session;
use super::super::tx::PagedTx;
use super::PagedIslands;
use super::commit::NotCommitted;
use super::crew::Crew;
use crate::calls::OnDatabaseThread;
use crate::error::{Error, Stop};
use crate::islands::IslandKey;

/// Intervals ([`super::builder::WAIT_INTERVAL_MS`]) for which a transaction that has reached several islands waits for
/// a lock, times the number of its tries.
pub(super) const SHORT_WAITS: u32 = 5;

/// A transaction over several islands, as its closure sees it; see [`PagedIslands::transaction`].
pub struct PagedIslandsTx<'d> {
    islands: &'d PagedIslands,
    crew: &'d mut Crew,
    how: How,
    /// For how many intervals it waits for a lock once it has reached several islands.
    short_waits: u32,
    /// Why it cannot commit, and on which island that was found; the first reason counts.
    doomed: Option<(usize, EngineStop)>,
}

impl fmt::Debug for PagedIslandsTx<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PagedIslandsTx").finish_non_exhaustive()
    }
}

impl PagedIslandsTx<'_> {
    /// Runs a closure on the island of a key. It sees the rows of that island, with what the transaction has changed
    /// there. If it fails, the whole transaction does, whatever follows, or the part of it behind a
    /// [savepoint](PagedIslandsTx::savepoint).
    ///
    /// # Errors
    /// That of the closure; [`Stop::Abort`] when keys are spread by ranges of numbers, and this is none. A retryable
    /// error may mean that the transaction has to run again: return it.
    pub fn at<A>(
        &mut self,
        key: &(impl IslandKey + ?Sized),
        closure: impl FnOnce(&mut PagedTx<'_>) -> Result<A, Stop>,
    ) -> Result<A, Stop> {
        let is_none = |_| Stop::Abort("the islands' keys are integers within 64 bits");
        let island = self.islands.island_of(key).map_err(is_none)?;
        self.on(island, closure)
    }

    /// Runs a closure on each island, in order, for instance to change a row of a table that is on each
    /// ([`PagedIslandsBuilder::everywhere`](crate::PagedIslandsBuilder::everywhere)); returns the answers.
    ///
    /// # Errors
    /// That of the first closure that failed; as [`PagedIslandsTx::at`].
    pub fn everywhere<A>(
        &mut self,
        closure: impl Fn(&mut PagedTx<'_>) -> Result<A, Stop>,
    ) -> Result<Vec<A>, Stop> {
        (0..self.islands.islands()).map(|island| self.on(island, &closure)).collect()
    }

    fn on<A>(
        &mut self,
        island: usize,
        closure: impl FnOnce(&mut PagedTx<'_>) -> Result<A, Stop>,
    ) -> Result<A, Stop> {
        if let Some((_, stop)) = self.doomed {
            return Err(Stop::of(stop));
        }
        self.reach(island).map_err(|error| self.doom(island, Stop::Error(error)))?;
        let Session { store, ids } = &mut self.crew.members[island].session;
        let tables = &self.islands.islands[island].tables;
        let mut tx = PagedTx::new(store, tables, ids, self.how.only_reads);
        let ended = closure(&mut tx);
        match (ended, tx.refused()) {
            (_, Some(error)) => Err(self.doom(island, Stop::Error(error))),
            (Err(stop), None) => Err(self.doom(island, stop)),
            (Ok(answer), None) => Ok(answer),
        }
    }

    /// As [`IslandsTx::savepoint`](crate::IslandsTx::savepoint): runs a part of the transaction. If it returns an
    /// error, or a closure on an island in it did, what it has changed is undone on all islands, and the transaction
    /// may continue without it. Savepoints may be within others, and within a closure on one island
    /// ([`PagedTx::savepoint`]).
    ///
    /// # Errors
    /// The error of the part, or that of the first closure in it that failed. A transaction that has to run again does
    /// not continue: return the error.
    pub fn savepoint<A>(
        &mut self,
        part: impl FnOnce(&mut Self) -> Result<A, Stop>,
    ) -> Result<A, Stop> {
        if let Some((_, stop)) = self.doomed {
            return Err(Stop::of(stop));
        }
        let Crew { members, reached } = &mut *self.crew;
        let here = |&island: &usize| {
            let Session { store, ids } = &mut members[island].session;
            Place::here(store, ids)
        };
        let places: Vec<_> = reached.iter().map(here).collect();
        let ended = part(self);
        let ended = match self.doomed {
            Some((_, stop)) => ended.and(Err(Stop::of(stop))),
            None => ended,
        };
        let has_to_end = |stop| matches!(stop, EngineStop::Error(error) if error.retry());
        if ended.is_err() && !self.doomed.is_some_and(|(_, stop)| has_to_end(stop)) {
            self.back_to(&places)?;
        }
        ended
    }

    /// Undoes what was changed behind these places, and all on islands that were reached since.
    fn back_to(&mut self, places: &[Place]) -> Result<(), Stop> {
        let Crew { members, reached } = &mut *self.crew;
        let undone = reached.iter().enumerate().try_for_each(|(at, &island)| {
            let Session { store, ids } = &mut members[island].session;
            let place = places.get(at).copied().unwrap_or_else(|| Place::beginning(ids));
            place.back(store, ids).map_err(|error| (island, error))
        });
        self.doomed = None;
        undone.map_err(|(island, error)| self.doom(island, Stop::Error(error)))
    }

    /// Begins the transaction on an island, unless it is there.
    fn reach(&mut self, island: usize) -> Result<(), StoreError> {
        let Crew { members, reached } = &mut *self.crew;
        if reached.contains(&island) {
            return Ok(());
        }
        let Session { store, ids } = &mut members[island].session;
        ids.begin();
        store.set_isolation(self.how.isolation);
        store.begin()?;
        store.begin_writes();
        store.set_lock_waits(self.islands.lock_waits);
        reached.push(island);
        if let [_, _, ..] = **reached {
            for &island in &**reached {
                members[island].session.store.set_lock_waits(self.short_waits);
            }
        }
        Ok(())
    }

    /// The transaction cannot commit. The reason, as the step's.
    fn doom(&mut self, island: usize, stop: Stop) -> Stop {
        let why = match &stop {
            Stop::Abort(reason) => EngineStop::Abort(reason),
            Stop::Error(error) => EngineStop::Error(*error),
            Stop::Own(_) => EngineStop::Abort("a step of it failed"),
        };
        self.doomed.get_or_insert((island, why));
        stop
    }
}

impl PagedIslands {
    /// Runs a closure until it does not give way.
    pub(super) fn run_again<A>(
        &self,
        how: How,
        closure: impl Fn(&mut PagedIslandsTx<'_>) -> Result<A, Stop>,
    ) -> Result<A, Error> {
        let mut crew = self.crew()?;
        let (home, mut patience) = (&self.islands[0], Patience::default());
        loop {
            let ended = self.run(&mut crew, how, patience.count(), &closure);
            let may_be_circle = crew.reached.len() > 1;
            match ended {
                Ok(answer) => return Ok(answer),
                Err(Ended::GaveWay(error))
                    if (may_be_circle
                        || matches!(error, StoreError::Deadlock | StoreError::LogFull { .. }))
                        && patience.pauses(&home.clock) => {}
                Err(ended) => return Err(home.error(ended)),
            }
        }
    }

    /// Runs a closure once, as a transaction of this crew.
    fn run<A>(
        &self,
        crew: &mut Crew,
        how: How,
        tries: u32,
        closure: impl FnOnce(&mut PagedIslandsTx<'_>) -> Result<A, Stop>,
    ) -> Result<A, Ended> {
        crew.reached.clear();
        let short_waits = SHORT_WAITS.saturating_mul(tries + 1).min(self.lock_waits);
        let mut tx = PagedIslandsTx { islands: self, crew, how, short_waits, doomed: None };
        let ran = catch_unwind(AssertUnwindSafe(|| {
            let _here = OnDatabaseThread::enter();
            closure(&mut tx)
        }));
        let (doomed, crew) = (tx.doomed, tx.crew);
        let ended = match (ran, doomed) {
            (Err(panic), _) => {
                crew.undo();
                Counters::count(&self.first(crew).counters.panicked);
                return Err(Ended::Error(Error::Panicked(panic_message(&*panic))));
            }
            // What doomed it counts, whatever the closure made of it.
            (Ok(_), Some((island, EngineStop::Error(error)))) => Err((island, Stop::Error(error))),
            (Ok(Err(stop)), _) => Err((0, stop)),
            (Ok(Ok(_)), Some((island, abort))) => Err((island, Stop::of(abort))),
            (Ok(Ok(answer)), None) => Ok(answer),
        };
        match ended {
            Ok(answer) => self.commit(crew).map(|()| answer).map_err(|not| match not {
                NotCommitted::Refused(island, error) => {
                    self.stopped(crew, island, Stop::Error(error))
                }
                NotCommitted::Unknown(error) => self.first(crew).ended(Stop::Error(error), true),
            }),
            Err((island, stop)) => {
                crew.undo();
                Err(self.stopped(crew, island, stop))
            }
        }
    }

    /// How a transaction ended that changed nothing.
    fn stopped(&self, crew: &Crew, island: usize, stop: Stop) -> Ended {
        match self.first(crew).ended(stop, false) {
            Ended::Error(Error::Poisoned(_)) => Ended::Error(Error::IslandStopped(island)),
            ended => ended,
        }
    }

    /// The island on which a transaction counts.
    pub(super) fn first(&self, crew: &Crew) -> &super::PagedDatabase {
        &self.islands[crew.reached.first().copied().unwrap_or_default()]
    }
}

impl Crew {
    /// Undoes the transaction wherever it is open.
    pub(super) fn undo(&mut self) {
        for &island in &self.reached {
            let store = &mut self.members[island].session.store;
            if store.phase() != Phase::Idle && store.abort().is_err() {
                store.poison("a transaction over several islands could not be undone");
            }
        }
    }
}
