//! `Reach`: the islands that a transaction's thread has taken, and the open transaction on each of them.
//!
//! ```text
//!   reach island 3 ─► steps ─► reach island 0 ─► steps ─► all can commit? ─ yes ─► commit on each, give each back
//!                                 │ another thread has it         │ no
//!                                 └─► undo on each, give back ◄───┘
//! ```
//!
//! The thread has the execution of each island from the transaction's first access there until the transaction has
//! ended on all islands. So no other transaction sees a part of its changes, and no lock, message or vote is needed.
//! The thread waits for an island only if the island's number is above those that it has: no two threads wait for each
//! other.
//!
//! If transactions are logged, a transaction over several islands does not commit in place: its changes are set aside
//! on each island, and the islands begin to agree on it while the thread still has them, so that no other transaction
//! runs in between. Then the thread gives the islands back, and the parts are held until the decision (decision 0046).
//!
//! A thread that runs several transactions one after the other may keep its islands between them (`series.rs`).
//!
//! Not here: how a thread takes an island (the engine's `callers/carrying/`), what happens if it does not get one
//! (`across.rs`, `transaction.rs`).

use std::thread;

use tombolo_engine::islands::commit::IslandId;
use tombolo_engine::pipeline::{Durability, Stands, Taken, Terms, WhileTaken};
use tombolo_engine::threads::panic_message;
use tombolo_engine::transaction::{Stop as EngineStop, begin, finish};
use tombolo_storage::error::Error as StoreError;
use tombolo_storage::memory::held::{Guard, Part};
use tombolo_storage::memory::savepoint::Savepoint;
use tombolo_storage::store::Store;

use super::Islands;
use super::helping::Helping;
use super::ordered::Ordering;
use super::parts::{Transaction, Why};
use crate::calls::{OnDatabaseThread, OverIslands, Runner, Ticket};
use crate::core::Core;
use crate::error::Stop;
use crate::product::{LOG_BYTES_PER_PART, Product};
use crate::tx::{Guards, Tables};

/// The islands of a transaction.
pub(super) struct Reach<'d> {
    islands: &'d Islands,
    how: OverIslands,
    is_logged: bool,
    /// The time after which no step begins, and a running step is ended.
    deadline_ns: Option<u64>,
    reached: Vec<Reached<'d>>,
    /// The island on which the transaction begins, if that is not the first one that it reaches.
    first: Option<IslandId>,
    /// The reason that it cannot commit, once there is one.
    doomed: Option<Doomed>,
    /// Present if the transaction is ordered and has written: then the logs of its islands become durable together.
    ordering: Option<&'d Ordering>,
    /// Present if transactions are logged: islands that the thread has may need turns of other islands.
    helping: Option<Helping<'d>>,
    /// Whether the thread keeps its islands for its next transaction.
    keeps: bool,
    /// Islands that it has kept.
    kept: Vec<(IslandId, Taken<'d, Runner>)>,
    _entered: OnDatabaseThread,
}

struct Reached<'d> {
    island: IslandId,
    taken: Taken<'d, Runner>,
    /// The savepoint before its first change there.
    beginning: Savepoint,
}

/// A savepoint over islands: one savepoint on each island that the transaction had reached, in their order.
#[derive(Debug)]
pub(super) struct Place(Vec<Savepoint>);

/// Why a transaction cannot commit.
#[derive(Clone, Copy, Debug)]
enum Doomed {
    /// The thread did not get this island, or met a lock there: the transaction may run again.
    Busy(IslandId),
    /// This island has stopped.
    Stopped(IslandId),
    /// A step failed.
    Failed(EngineStop),
}

/// How a transaction finished.
pub(super) enum Finished<A> {
    /// It has ended on all islands. The caller may be answered when their logs are durable up to these positions.
    Ended(Result<A, Why>, Vec<Position>),
    /// The islands are agreeing on it. If it commits, this is its answer.
    Agreeing(A, Agreement),
}

impl<A> Finished<A> {
    pub(super) const fn agreement(&self) -> Option<&Agreement> {
        match self {
            Self::Agreeing(_, agreement) => Some(agreement),
            Self::Ended(..) => None,
        }
    }
}

/// A transaction on which islands are agreeing.
pub(super) struct Agreement {
    /// The island on which it began.
    pub(super) first: IslandId,
    pub(super) number: u64,
    pub(super) ticket: Ticket,
}

/// A position up to which an island's log must be durable.
pub(super) type Position = (IslandId, u64);

impl<'d> Reach<'d> {
    /// For a transaction that has reached no island yet; `None` if callers must not run transactions.
    pub(super) fn new(islands: &'d Islands, how: OverIslands) -> Option<Self> {
        let core = islands.databases[0].core(); // all have the same settings
        core.carrier()?;
        let (reached, first, doomed, ordering) = (Vec::with_capacity(2), None, None, None);
        let is_logged = core.is_durable();
        let helping = is_logged.then(|| Helping::begin(islands));
        let _entered = OnDatabaseThread::enter();
        let deadline_ns = None;
        Some(Self {
            islands,
            how,
            is_logged,
            deadline_ns,
            reached,
            first,
            doomed,
            ordering,
            helping,
            keeps: false,
            kept: Vec::new(),
            _entered,
        })
    }

    /// Lets the thread keep the islands of a transaction for its next one, from now on.
    pub(super) const fn keep_islands(&mut self) {
        self.keeps = true;
    }

    /// Gives kept islands back.
    pub(super) fn give_back_kept(&mut self) {
        self.kept.clear();
    }

    /// Sets the island on which the transaction begins, whatever the order in which it reaches its islands: that
    /// island's log has the decision.
    pub(super) const fn begin_at(&mut self, island: IslandId) {
        (self.first, self.doomed, self.ordering) = (Some(island), None, None);
    }

    /// Ends the thread's last transaction, unless it has finished. Returns the help that the thread still owes, which
    /// the caller must give.
    pub(super) fn leave(mut self) -> Option<Helping<'d>> {
        self.helping.take()
    }

    /// Sets the time after which no step continues.
    pub(super) const fn end_at(&mut self, deadline_ns: Option<u64>) {
        self.deadline_ns = deadline_ns;
    }

    /// The island that the thread did not get, or where it met a lock.
    pub(super) const fn busy(&self) -> Option<IslandId> {
        match self.doomed {
            Some(Doomed::Busy(island)) => Some(island),
            _ => None,
        }
    }

    /// The islands that the transaction needs, as far as is known.
    pub(super) fn needs(&self) -> impl Iterator<Item = IslandId> {
        self.islands().chain(self.busy())
    }

    pub(super) fn islands(&self) -> impl Iterator<Item = IslandId> {
        self.reached.iter().map(|reached| reached.island)
    }

    fn core(&self, island: IslandId) -> &'d Core {
        self.islands.databases[island.index()].core()
    }

    /// Runs a step on an island, after reaching the island if necessary.
    ///
    /// # Errors
    /// That of the step, or the reason that it did not run. The transaction can then no longer commit.
    pub(super) fn run<A>(
        &mut self,
        island: IslandId,
        step: impl FnOnce(&mut Product, Guards<'_>, &Tables) -> Result<A, Stop>,
    ) -> Result<A, Stop> {
        let (store, locks, tables) = self.executor(island)?.guarded();
        let ran = if locks.is_empty() {
            step(store, None, tables)
        } else {
            let guard = Guard::local(locks);
            let ran = step(store, Some(&guard), tables);
            if guard.met().is_some() {
                return Err(self.doom(Doomed::Busy(island)));
            }
            ran
        };
        ran.inspect_err(|stop| {
            self.doom(Doomed::Failed(match stop {
                Stop::Abort(reason) => EngineStop::Abort(reason),
                Stop::Error(error) => EngineStop::Error(*error),
                Stop::Own(_) => EngineStop::Abort("a step of it failed"),
            }));
        })
    }

    /// Lets a step look ahead at its rows on an island, after reaching the island if necessary. While parts are held,
    /// it finds no rows: with a row found beforehand, the step would omit the look-up that meets the lock of its key.
    ///
    /// # Errors
    /// The reason that the transaction can no longer commit.
    pub(super) fn look_ahead(
        &mut self,
        island: IslandId,
        look: impl FnOnce(&Product),
    ) -> Result<(), Stop> {
        let (store, locks, _) = self.executor(island)?.guarded();
        if locks.is_empty() {
            look(store);
        }
        Ok(())
    }

    /// The executor of an island, after reaching the island if necessary.
    fn executor(&mut self, island: IslandId) -> Result<&mut Runner, Stop> {
        let at = match self.doomed {
            Some(doomed) => Err(doomed),
            None if self.is_over() => {
                Err(Doomed::Failed(EngineStop::Error(StoreError::DeadlinePassed)))
            }
            None => self.reach(island),
        };
        match at {
            Ok(at) => Ok(self.reached[at].taken.executor()),
            Err(doomed) => Err(self.doom(doomed)),
        }
    }

    fn is_over(&self) -> bool {
        let has_passed = |deadline_ns| self.islands.mail.clock.now_ns() >= deadline_ns;
        self.deadline_ns.is_some_and(has_passed)
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
        let kept = self.kept.iter().position(|(kept, _)| *kept == island);
        let mut taken = match kept {
            Some(at) => self.kept.swap_remove(at).1,
            None => self.take(island)?,
        };
        taken.again();
        let (store, ..) = taken.executor().begin_guarded(LOG_BYTES_PER_PART, self.deadline_ns);
        begin(store).map_err(Doomed::Failed)?; // each step looks at locks, with a guard of its own
        let beginning = store.savepoint();
        self.reached.push(Reached { island, taken, beginning });
        Ok(self.reached.len() - 1)
    }

    /// Takes an island that the thread does not have.
    fn take(&self, island: IslandId) -> Result<Taken<'d, Runner>, Doomed> {
        let kept = self.kept.iter().map(|(kept, _)| *kept);
        let while_taken = match self.islands().chain(kept).max() {
            None => WhileTaken::Sleep,
            Some(last) if last < island => WhileTaken::Spin,
            Some(_) => WhileTaken::Leave,
        };
        let log_bytes_max = self.islands.mail.log_bytes_max(island);
        let terms = Terms { durability: Durability::Group, log_bytes_max };
        let carrier = self.core(island).carrier().ok_or(Doomed::Stopped(island))?;
        let taken = carrier.take(terms, while_taken).ok_or(Doomed::Busy(island))?;
        taken.map_err(|_| Doomed::Stopped(island))
    }

    /// Sets a savepoint here.
    ///
    /// # Errors
    /// The reason that the transaction can no longer commit.
    pub(super) fn place(&mut self) -> Result<Place, Stop> {
        self.refused().map_or(Ok(()), Err)?;
        let here = |reached: &mut Reached<'_>| reached.taken.executor().store().savepoint();
        Ok(Place(self.reached.iter_mut().map(here).collect()))
    }

    /// Undoes everything after a savepoint, on each island, and forgets the failure of a step after it. The transaction
    /// keeps the islands that it has reached since.
    ///
    /// # Errors
    /// The reason that the transaction still cannot commit: it has to run again, its deadline has passed, or an island
    /// has stopped.
    pub(super) fn back_to(&mut self, place: &Place) -> Result<(), Stop> {
        match self.doomed {
            None => {}
            Some(Doomed::Failed(EngineStop::Abort(_))) => {}
            Some(Doomed::Failed(EngineStop::Error(error)))
                if !error.poisons() && error != StoreError::DeadlinePassed => {}
            Some(doomed) => return Err(self.doom(doomed)),
        }
        self.doomed = None;
        for (at, Reached { taken, beginning, .. }) in self.reached.iter_mut().enumerate() {
            let savepoint = *place.0.get(at).unwrap_or(beginning);
            if let Err(error) = taken.executor().store().back_to(savepoint) {
                return Err(self.doom(Doomed::Failed(EngineStop::Error(error))));
            }
        }
        Ok(())
    }

    /// The reason that the transaction cannot commit, if there is one.
    pub(super) fn refused(&mut self) -> Option<Stop> {
        self.doomed.map(|doomed| self.doom(doomed))
    }

    /// Notes a reason that the transaction cannot commit; the first reason counts.
    fn doom(&mut self, why: Doomed) -> Stop {
        match *self.doomed.get_or_insert(why) {
            Doomed::Failed(stop) => Stop::of(stop),
            Doomed::Busy(_) | Doomed::Stopped(_) => Stop::Error(StoreError::LockTimeout),
        }
    }

    /// Ends the transaction when its code has ended: commits on all islands, undoes everything, or lets the islands
    /// agree. Returns `None` if the transaction may run again.
    pub(super) fn finish<A>(
        &mut self,
        ran: thread::Result<Result<A, Stop>>,
    ) -> Option<Finished<A>> {
        let ended = match ran {
            Err(panic) => Err(Why::Panicked(panic_message(&*panic))),
            Ok(ended) => ended.map_err(Why::Stopped),
        };
        let is_over_logs = self.is_logged && self.reached.len() > 1;
        let ordering = self.islands.mail.ordering.as_ref().filter(|_| is_over_logs);
        let is_set_aside = is_over_logs && ordering.is_none();
        let mut parts = Vec::new();
        if let Some(first) = self.first.filter(|_| is_set_aside) {
            self.reached.sort_by_key(|reached| reached.island != first);
        }
        if ended.is_ok() && self.doomed.is_none() {
            match is_set_aside {
                true => parts = self.set_aside(),
                false => {
                    ordering.into_iter().for_each(|ordering| self.note(ordering));
                    self.admit_commit();
                }
            }
        }
        let why = match self.doomed {
            Some(Doomed::Busy(_)) => {
                let _ = self.end(false);
                return None;
            }
            Some(Doomed::Stopped(island)) => Some(Why::Unreachable(island)),
            Some(Doomed::Failed(stop)) => Some(Why::Stopped(Stop::of(stop))),
            None => None,
        };
        let ended = match (ended, why) {
            (Ok(answer), None) if parts.iter().any(|(_, part)| !part.changes.is_empty()) => {
                return Some(Finished::Agreeing(answer, self.agree(parts)));
            }
            (Ok(_), Some(why)) | (Err(_), Some(why @ Why::Unreachable(_))) => Err(why),
            (ended, _) => ended,
        };
        let given_back = match is_set_aside && ended.is_ok() {
            true => {
                // It only read, and all of that at one moment: there is nothing to agree on.
                self.count(true);
                self.give_back()
            }
            false => self.end(ended.is_ok()),
        };
        Some(match given_back {
            Ok(positions) => Finished::Ended(ended, positions),
            Err(broken) => Finished::Ended(Err(broken), Vec::new()),
        })
    }

    /// Notes on each island that this is an ordered transaction, if it has written on any of them.
    fn note(&mut self, ordering: &'d Ordering) {
        let has_written = |reached: &mut Reached<'_>| reached.taken.executor().store().has_logged();
        if !self.reached.iter_mut().any(has_written) {
            return;
        }
        self.ordering = Some(ordering);
        let (number, islands) = (ordering.next(), self.islands().collect::<Vec<_>>());
        for at in 0..self.reached.len() {
            let Reached { island, taken, .. } = &mut self.reached[at];
            let store = taken.executor().store();
            let noted = ordering.note(store, *island, islands.iter().copied(), number);
            if let Err(error) = noted {
                self.doom(Doomed::Failed(EngineStop::Error(error)));
            }
        }
    }

    /// Dooms the transaction if it cannot commit on an island.
    fn admit_commit(&mut self) {
        for at in 0..self.reached.len() {
            let (store, ..) = self.reached[at].taken.executor().guarded();
            if let Err(error) = store.admit_commit().and_then(|()| store.verify_homes()) {
                self.doom(Doomed::Failed(EngineStop::Error(error)));
            }
        }
    }

    /// Sets the changes on each island aside, or dooms the transaction. Rows that were only read are not locked: all of
    /// them were read at one moment, so transactions that change them come after this one.
    fn set_aside(&mut self) -> Vec<(IslandId, Part)> {
        let mut parts = Vec::new();
        for at in 0..self.reached.len() {
            let Reached { island, taken, .. } = &mut self.reached[at];
            let (store, locks, _) = taken.executor().guarded();
            let guard = Guard::part(locks);
            let ended = guard.over(store).commit();
            match (ended, guard.into_part()) {
                (Ok(()), Some(part)) => parts.push((*island, part)),
                (Ok(()), None) => unreachable!("a part is set aside"),
                (Err(error), _) => _ = self.doom(Doomed::Failed(EngineStop::Error(error))),
            }
        }
        parts
    }

    /// Lets the islands begin to agree on a transaction whose parts are set aside, and gives them back.
    fn agree(&mut self, parts: Vec<(IslandId, Part)>) -> Agreement {
        let (mail, first) = (&*self.islands.mail, parts[0].0);
        let transaction = Transaction::executed(parts, self.how);
        let (ticket, number) = self.core(first).open_slot();
        let mut begins = Some(transaction.enter(mail));
        for Reached { island, taken, .. } in &mut self.reached {
            let (log_bytes_max, (site, member)) =
                (mail.log_bytes_max(*island), taken.executor().island());
            match begins.take() {
                Some(envelope) => member.begin(site, log_bytes_max, number, envelope),
                None => member.receive(site, log_bytes_max, first),
            }
            // A part that could not be held at once is no longer valid when another transaction has run.
            transaction.invalidate(*island);
        }
        let helping = self.helping.as_mut().expect("transactions are logged");
        while let Some(Reached { island, taken, .. }) = self.reached.pop() {
            helping.give_back(island, taken);
        }
        Agreement { first, number: transaction.number(), ticket }
    }

    /// Ends the transaction on each island, the last first.
    fn end(&mut self, commits: bool) -> Result<Vec<Position>, Why> {
        if self.busy().is_none() {
            self.count(commits);
        }
        for at in (0..self.reached.len()).rev() {
            let runner = self.reached[at].taken.executor();
            let (store, ..) = runner.guarded();
            let undo = Err(EngineStop::Abort("another part did not commit"));
            let ended = finish(store, if commits { Ok(()) } else { undo });
            assert!(ended.is_ok() == commits, "a part that can commit does: {ended:?}");
        }
        let put = match self.ordering.filter(|_| commits) {
            None => Ok(()),
            Some(ordering) => {
                let reached = self.reached.iter_mut();
                let mut taken: Vec<_> =
                    reached.map(|Reached { island, taken, .. }| (island.index(), taken)).collect();
                let log_bytes = |runner: &mut Runner| runner.store().log_bytes();
                Taken::put_together(&ordering.order, &mut taken, log_bytes).map_err(Why::Broken)
            }
        };
        let given_back = self.give_back();
        put.and(given_back)
    }

    /// Counts the transaction on the island on which it began.
    fn count(&mut self, commits: bool) {
        let (islands, is_ordered) = (self.reached.len(), self.ordering.is_some());
        let first =
            self.reached.iter_mut().min_by_key(|reached| Some(reached.island) != self.first);
        if let Some(first) = first {
            let counters = first.taken.executor().counters();
            if commits && is_ordered {
                counters.count_ordered();
            }
            counters.count_over_islands(islands, self.how, commits);
        }
    }

    /// Gives the islands back, the last first, or keeps all of them.
    fn give_back(&mut self) -> Result<Vec<Position>, Why> {
        let (mut positions, mut broken, mut has_given) = (Vec::new(), None, !self.keeps);
        while let Some(Reached { island, mut taken, .. }) = self.reached.pop() {
            let log_bytes = taken.log_bytes(|runner| runner.store().log_bytes());
            let ended = match self.keeps {
                true => taken.end_and_keep(log_bytes),
                false => taken.end(log_bytes).map(|stands| (stands, None)),
            };
            let kept = match ended {
                Ok((Stands::From(position), kept)) => {
                    positions.push((island, position));
                    kept
                }
                Ok((_, kept)) => kept,
                Err(refusal) => {
                    broken = Some(Why::Broken(refusal));
                    None
                }
            };
            has_given |= kept.is_none();
            self.kept.extend(kept.map(|taken| (island, taken)));
        }
        if has_given {
            self.give_back_kept();
        }
        if let Some(mut helping) = self.helping.take_if(|_| !self.keeps) {
            helping.until(|| true);
        }
        broken.map_or(Ok(positions), Err)
    }
}

impl Drop for Reach<'_> {
    /// Undoes a transaction that has not ended. After a panic it does not: then the islands break.
    fn drop(&mut self) {
        if !thread::panicking() && !self.reached.is_empty() {
            let _ = self.end(false);
        }
    }
}
