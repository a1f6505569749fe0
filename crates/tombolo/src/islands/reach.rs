//! `Reach`: the islands that a transaction's thread has taken, and its open transaction on each, where nothing is
//! logged.
//!
//! ```text
//!   reach island 3 ─► steps ─► reach island 0 ─► steps ─► all can commit? ─ yes ─► commit on each, give each back
//!                                 │ another thread has it         │ no
//!                                 └─► undo on each, give back ◄───┘
//! ```
//!
//! The thread has the execution of each island from its first access there until all have ended, so no other
//! transaction sees some of it, and no lock, message or vote is needed. It waits for an island only if its number is
//! above those that the thread has: no two threads wait for each other.
//!
//! Not here: how a thread takes an island (the engine's `callers/carrying/`), what follows when it could not
//! (`across.rs`, `transaction.rs`).

use std::thread;

use tombolo_engine::islands::commit::IslandId;
use tombolo_engine::pipeline::{Durability, Taken, Terms, WhileTaken, panic_message};
use tombolo_engine::transaction::{Stop as EngineStop, begin, finish};
use tombolo_storage::error::Error as StoreError;
use tombolo_storage::memory::held::Guard;

use super::across::Why;
use crate::calls::{OnDatabaseThread, OverIslands, Runner};
use crate::database::Database;
use crate::product::{GuardedProduct, LOG_BYTES_PER_PART};
use crate::stop::Stop;
use crate::tx::Tables;

/// The islands of a transaction.
pub(super) struct Reach<'d> {
    islands: &'d [Database],
    how: OverIslands,
    reached: Vec<Reached<'d>>,
    /// Why it cannot commit, once that is certain.
    doomed: Option<Doomed>,
    _entered: OnDatabaseThread,
}

struct Reached<'d> {
    island: IslandId,
    taken: Taken<'d, Runner>,
}

/// Why a transaction cannot commit.
#[derive(Clone, Copy, Debug)]
enum Doomed {
    /// It did not get this island, or met a lock there: it may run again.
    Busy(IslandId),
    /// This island runs no transactions any more.
    Stopped(IslandId),
    /// A step failed.
    Failed(EngineStop),
}

impl<'d> Reach<'d> {
    /// Nothing is reached yet. Without an answer if the islands have logs, or callers must not run transactions.
    pub(super) fn new(islands: &'d [Database], how: OverIslands) -> Option<Self> {
        let has_no_log = |island: &Database| island.core().carrier_without_log().is_some();
        let (reached, doomed) = (Vec::new(), None);
        islands.iter().all(has_no_log).then(|| Self {
            islands,
            how,
            reached,
            doomed,
            _entered: OnDatabaseThread::enter(),
        })
    }

    /// The islands that it needs, as far as is known.
    pub(super) fn needs(&self) -> impl Iterator<Item = IslandId> {
        let busy = match self.doomed {
            Some(Doomed::Busy(island)) => Some(island),
            _ => None,
        };
        self.islands().chain(busy)
    }

    fn islands(&self) -> impl Iterator<Item = IslandId> {
        self.reached.iter().map(|reached| reached.island)
    }

    /// Runs a step on an island, which is reached unless it was.
    ///
    /// # Errors
    /// That of the step, or why there is none. The transaction cannot commit any more.
    pub(super) fn run<A>(
        &mut self,
        island: IslandId,
        step: impl FnOnce(&mut GuardedProduct<'_>, &Tables) -> Result<A, Stop>,
    ) -> Result<A, Stop> {
        if let Some(doomed) = self.doomed {
            return Err(self.doom(doomed));
        }
        let at = self.reach(island).map_err(|doomed| self.doom(doomed))?;
        let (store, locks, tables) = self.reached[at].taken.executor().guarded();
        let guard = Guard::local(locks);
        let ran = step(&mut guard.over(store), tables);
        if guard.met().is_some() {
            return Err(self.doom(Doomed::Busy(island)));
        }
        ran.inspect_err(|stop| {
            self.doom(Doomed::Failed(match stop {
                Stop::Abort(reason) => EngineStop::Abort(reason),
                Stop::Error(error) => EngineStop::Error(*error),
                Stop::Own(_) => EngineStop::Abort("a step of it failed"),
            }));
        })
    }

    /// Reaches islands before their first steps; returns whether it did.
    pub(super) fn reach_all(&mut self, islands: &[IslandId]) -> bool {
        islands.iter().all(|island| self.reach(*island).map_err(|doomed| self.doom(doomed)).is_ok())
    }

    /// Takes an island and begins a transaction there, unless the thread has it; returns its place.
    fn reach(&mut self, island: IslandId) -> Result<usize, Doomed> {
        if let Some(at) = self.islands().position(|reached| reached == island) {
            return Ok(at);
        }
        let while_taken = match self.islands().max() {
            None => WhileTaken::Sleep,
            Some(last) if last < island => WhileTaken::Spin,
            Some(_) => WhileTaken::Leave,
        };
        let terms = Terms { durability: Durability::Group, log_bytes_max: LOG_BYTES_PER_PART };
        let carrier = self.islands[island.index()].core().carrier_without_log();
        let carrier = carrier.ok_or(Doomed::Stopped(island))?;
        let taken = carrier.take(terms, while_taken).ok_or(Doomed::Busy(island))?;
        let mut taken = taken.map_err(|_| Doomed::Stopped(island))?;
        let (store, locks, _) = taken.executor().begin_guarded(LOG_BYTES_PER_PART);
        begin(&mut Guard::local(locks).over(store)).map_err(Doomed::Failed)?;
        self.reached.push(Reached { island, taken });
        Ok(self.reached.len() - 1)
    }

    /// The transaction cannot commit; the first reason counts.
    fn doom(&mut self, why: Doomed) -> Stop {
        match *self.doomed.get_or_insert(why) {
            Doomed::Failed(stop) => Stop::of(stop),
            Doomed::Busy(_) | Doomed::Stopped(_) => Stop::Error(StoreError::LockTimeout),
        }
    }

    /// Ends the transaction after its code did: commits on all islands, or undoes all. Without an answer if it may
    /// run again.
    pub(super) fn finish<A>(
        mut self,
        ran: thread::Result<Result<A, Stop>>,
    ) -> Option<Result<A, Why>> {
        let ended = match ran {
            Err(panic) => Err(Why::Panicked(panic_message(&*panic))),
            Ok(ended) => ended.map_err(Why::Stopped),
        };
        if ended.is_ok() {
            self.admit_commit();
        }
        let why = match self.doomed {
            Some(Doomed::Busy(_)) => return None,
            Some(Doomed::Stopped(island)) => Some(Why::Unreachable(island)),
            Some(Doomed::Failed(stop)) => Some(Why::Stopped(Stop::of(stop))),
            None => None,
        };
        let ended = match (ended, why) {
            (Ok(_), Some(why)) | (Err(_), Some(why @ Why::Unreachable(_))) => Err(why),
            (ended, _) => ended,
        };
        self.end(ended.is_ok());
        Some(ended)
    }

    /// Dooms the transaction if it cannot commit on an island.
    fn admit_commit(&mut self) {
        for at in 0..self.reached.len() {
            let (store, locks, _) = self.reached[at].taken.executor().guarded();
            if let Err(error) = Guard::local(locks).over(store).admit_commit() {
                self.doom(Doomed::Failed(EngineStop::Error(error)));
            }
        }
    }

    /// Ends the transaction on each island, the last first, and gives them back.
    fn end(&mut self, commits: bool) {
        let islands = self.reached.len();
        while let Some(Reached { mut taken, .. }) = self.reached.pop() {
            let runner = taken.executor();
            let (store, locks, _) = runner.guarded();
            let undo = Err(EngineStop::Abort("another part did not commit"));
            let ended =
                finish(&mut Guard::local(locks).over(store), if commits { Ok(()) } else { undo });
            assert!(ended.is_ok() == commits, "a part that can commit does: {ended:?}");
            let runs_again = matches!(self.doomed, Some(Doomed::Busy(_)));
            if self.reached.is_empty() && !runs_again {
                runner.counters().count_over_islands(islands, self.how, commits);
            }
            // A stage that breaks here breaks its island, as after any transaction.
            let _ = taken.end(0);
        }
    }
}

impl Drop for Reach<'_> {
    /// Undoes what did not commit.
    fn drop(&mut self) {
        self.end(false);
    }
}
