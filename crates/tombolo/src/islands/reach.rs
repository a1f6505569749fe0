//! `Reach`: the islands that a transaction's thread has taken, and its open transaction on each.
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
//! Where transactions are logged, one over several islands does not commit there: what it did is set aside on each,
//! and the islands begin to agree on it while the thread has them, so that nothing runs in between. Then they are
//! given back, and its parts are held until it is decided (decision 0046).
//!
//! A thread that runs several transactions one after the other may keep its islands between them (`series.rs`).
//!
//! Not here: how a thread takes an island (the engine's `callers/carrying/`), what follows when it could not
//! (`across.rs`, `transaction.rs`).

use std::thread;

use tombolo_engine::islands::commit::IslandId;
use tombolo_engine::pipeline::{Durability, Stands, Taken, Terms, WhileTaken, panic_message};
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
    /// When a step is not begun any more, or ended.
    deadline_ns: Option<u64>,
    reached: Vec<Reached<'d>>,
    /// Where it begins, if not on the island that it reaches first.
    first: Option<IslandId>,
    /// Why it cannot commit, once that is certain.
    doomed: Option<Doomed>,
    /// Present if it is ordered and has written: then its logs become durable together.
    ordering: Option<&'d Ordering>,
    /// Where transactions are logged: what islands do while the thread has them may ask for turns of others.
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
    /// Before its first change there.
    beginning: Savepoint,
}

/// A place in a transaction: where it was on each island that it had reached, in their order.
#[derive(Debug)]
pub(super) struct Place(Vec<Savepoint>);

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

/// How a transaction finished.
pub(super) enum Finished<A> {
    /// It has ended on all islands. This may be reported when their logs are durable up to these positions.
    Ended(Result<A, Why>, Vec<Position>),
    /// The islands agree on it. If it commits, this is its answer.
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

/// Islands that agree on a transaction.
pub(super) struct Agreement {
    /// Where it began.
    pub(super) first: IslandId,
    pub(super) number: u64,
    pub(super) ticket: Ticket,
}

/// Up to where an island's log has to be durable.
pub(super) type Position = (IslandId, u64);

impl<'d> Reach<'d> {
    /// Nothing is reached yet. Without an answer if callers must not run transactions.
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

    /// From now on the thread keeps the islands of a transaction for its next one.
    pub(super) const fn keep_islands(&mut self) {
        self.keeps = true;
    }

    /// Gives back what it has kept.
    pub(super) fn give_back_kept(&mut self) {
        self.kept.clear();
    }

    /// A transaction begins on this island, in whatever order it reaches its islands: its log has the decision.
    pub(super) const fn begin_at(&mut self, island: IslandId) {
        (self.first, self.doomed, self.ordering) = (Some(island), None, None);
    }

    /// Ends the thread's last transaction, unless it has finished. The help that it owes is the caller's now.
    pub(super) fn leave(mut self) -> Option<Helping<'d>> {
        self.helping.take()
    }

    /// No step goes on after this time.
    pub(super) const fn end_at(&mut self, deadline_ns: Option<u64>) {
        self.deadline_ns = deadline_ns;
    }

    /// The island that it did not get, or where it met a lock.
    pub(super) const fn busy(&self) -> Option<IslandId> {
        match self.doomed {
            Some(Doomed::Busy(island)) => Some(island),
            _ => None,
        }
    }

    /// The islands that it needs, as far as is known.
    pub(super) fn needs(&self) -> impl Iterator<Item = IslandId> {
        self.islands().chain(self.busy())
    }

    fn islands(&self) -> impl Iterator<Item = IslandId> {
        self.reached.iter().map(|reached| reached.island)
    }

    fn core(&self, island: IslandId) -> &'d Core {
        self.islands.databases[island.index()].core()
    }

    /// Runs a step on an island, which is reached unless it was.
    ///
    /// # Errors
    /// That of the step, or why there is none. The transaction cannot commit any more.
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

    /// Lets a step look ahead at its rows on an island, which is reached unless it was. Where parts are held there is
    /// nothing to find: a row that was found before would be used without the look-up that meets its key's lock.
    ///
    /// # Errors
    /// Why the transaction cannot commit any more.
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

    /// What runs transactions on an island, which is reached unless it was.
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

    /// Takes an island that the thread has not.
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

    /// This place in the transaction.
    ///
    /// # Errors
    /// Why the transaction cannot commit any more.
    pub(super) fn place(&mut self) -> Result<Place, Stop> {
        self.refused().map_or(Ok(()), Err)?;
        let here = |reached: &mut Reached<'_>| reached.taken.executor().store().savepoint();
        Ok(Place(self.reached.iter_mut().map(here).collect()))
    }

    /// Takes back what the transaction has changed behind a place in it, on each island, and what failed there. It
    /// keeps the islands that it has reached since.
    ///
    /// # Errors
    /// Why the transaction cannot commit all the same: it has to run again, its deadline has passed, or an island has
    /// stopped.
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

    /// Why the transaction cannot commit, if so.
    pub(super) fn refused(&mut self) -> Option<Stop> {
        self.doomed.map(|doomed| self.doom(doomed))
    }

    /// The transaction cannot commit; the first reason counts.
    fn doom(&mut self, why: Doomed) -> Stop {
        match *self.doomed.get_or_insert(why) {
            Doomed::Failed(stop) => Stop::of(stop),
            Doomed::Busy(_) | Doomed::Stopped(_) => Stop::Error(StoreError::LockTimeout),
        }
    }

    /// Ends the transaction after its code did: commits on all islands, undoes all, or lets them agree. Without an
    /// answer if it may run again.
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
                // It only read, all of it at one moment: there is nothing to agree on.
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

    /// Sets aside what was changed on each island, or dooms the transaction. What was read is not locked: all of it
    /// was read at one moment, so transactions that change it come after this one.
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
            // What could not be held at once is not valid when another transaction has run.
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

    /// Counts it on the island on which it began.
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
    /// Undoes what did not end, unless a panic came between: then the islands break.
    fn drop(&mut self) {
        if !thread::panicking() && !self.reached.is_empty() {
            let _ = self.end(false);
        }
    }
}
