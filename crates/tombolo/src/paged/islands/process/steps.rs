//! `PagedSteps`: a transaction over islands that are processes, as its closure sees it, and its commit.
//!
//! ```text
//!   caller's thread                        islands
//!   step ──────────────────────────────►   the transaction's session there
//!   the closure has returned:
//!     vote ────────────────────────────►   all but the coordinator: prepare, or end if they only read
//!     decide ──────────────────────────►   the coordinator, the first that wrote: a row, commit ─► DECIDED
//!     settle ──────────────────────────►   those that are prepared: commit; answered later
//! ```
//!
//! The protocol is that of `paged/islands/commit.rs`. If the coordinator's process ends before it has answered, the
//! caller asks the next one whether it had decided. A row is written over only when all participants of its decision
//! have answered that they committed; if one did not, the next decision makes another row.
//! Not here: an island (`child.rs`), participants whose processes ended (`settle.rs`).

use std::collections::BTreeSet;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use tombolo_engine::command_log::Arguments;
use tombolo_engine::islands::commit::{IslandId, TransactionNumber};
use tombolo_engine::threads::panic_message;
use tombolo_storage::error::Error as StoreError;
use tombolo_storage::owner::Owner;
use tombolo_storage::sync::Ordering;

use super::super::super::again::Patience;
use super::super::transaction::SHORT_WAITS;
use super::database::PagedIslandProcesses;
use super::settle::{has_decided, settle_item};
use crate::calls::{on_database_thread, wait_a_moment};
use crate::error::Error;
use crate::islands::IslandKey;
use crate::processes::declared::IslandProcedure;
use crate::processes::decoded;
use crate::processes::own::{unlike, unreadable};
use crate::processes::seat::Begun;
use crate::processes::wire::{self, Item};

/// How long a caller waits for a coordinator that is started again, to learn whether its transaction has committed.
const LEARN_MAX: Duration = Duration::from_secs(60);
const LEARN_WAIT: Duration = Duration::from_millis(2);

/// Sessions on the islands, with one number on each.
pub(super) struct Crew {
    seat: u32,
    /// The islands on which the transaction is, in the order in which it reached them, and whether it wrote there.
    reached: Vec<(usize, bool)>,
    /// Participants of earlier decisions that have not answered yet, each with its coordinator.
    unsettled: Vec<(usize, usize, Begun)>,
    /// Islands whose row says what a participant may still ask for.
    kept: BTreeSet<usize>,
}

impl Crew {
    pub(super) fn new(seat: u32) -> Self {
        let (reached, unsettled, kept) = (Vec::new(), Vec::new(), BTreeSet::new());
        Self { seat, reached, unsettled, kept }
    }
}

/// A transaction over islands in processes, as its closure sees it; see [`PagedIslandProcesses::transaction`].
pub struct PagedSteps<'d> {
    db: &'d PagedIslandProcesses,
    crew: &'d mut Crew,
    only_reads: bool,
    /// How long it waits for a lock once it has reached several islands, in intervals.
    short_waits: u32,
    /// Why it cannot commit.
    doomed: Option<Error>,
}

impl fmt::Debug for PagedSteps<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PagedSteps").finish_non_exhaustive()
    }
}

impl PagedSteps<'_> {
    /// Runs a procedure on the island of a key, as the next step of the transaction. It sees the rows of that island,
    /// with what the transaction has changed there.
    ///
    /// # Errors
    /// As [`PagedIslandProcesses::call`]. The transaction does not commit then, whatever follows; a retryable error may
    /// mean that it has to run again: return it.
    pub fn run<I: Arguments, A: Arguments>(
        &mut self,
        procedure: &IslandProcedure<I, A>,
        key: &(impl IslandKey + ?Sized),
        input: &I,
    ) -> Result<A, Error> {
        let island = self.db.island_of(key)?;
        self.run_on(island, procedure, input)
    }

    /// Runs a procedure on each island, in order; returns the answers.
    ///
    /// # Errors
    /// As [`PagedSteps::run`].
    pub fn everywhere<I: Arguments, A: Arguments>(
        &mut self,
        procedure: &IslandProcedure<I, A>,
        input: &I,
    ) -> Result<Vec<A>, Error> {
        (0..self.db.islands()).map(|island| self.run_on(island, procedure, input)).collect()
    }

    fn run_on<I: Arguments, A: Arguments>(
        &mut self,
        island: usize,
        procedure: &IslandProcedure<I, A>,
        input: &I,
    ) -> Result<A, Error> {
        if let Some(error) = &self.doomed {
            return Err(error.clone());
        }
        self.step(island, procedure, input).inspect_err(|error| self.doomed = Some(error.clone()))
    }

    fn step<I: Arguments, A: Arguments>(
        &mut self,
        island: usize,
        procedure: &IslandProcedure<I, A>,
        input: &I,
    ) -> Result<A, Error> {
        let (number, input) = self.db.processes.ready(procedure, island, input)?;
        let Crew { seat, reached, .. } = &mut *self.crew;
        let at = reached.iter().position(|(known, _)| *known == island);
        // From here on it is undone there, too.
        let at = at.map_or(reached.len(), |at| at);
        let begins = at == reached.len();
        if begins {
            reached.push((island, false));
        }
        let waits = if reached.len() > 1 { self.short_waits } else { self.db.lock_waits };
        let (seat, only_reads) = (*seat, self.only_reads);
        let item = |call| {
            let item = Item::new(wire::STEP).u64(call).u32(seat).flag(begins).flag(only_reads);
            item.u32(waits).u32(number).rest(&input)
        };
        let answer = self.db.supervised().call(island, item).map_err(not_committed)?;
        let (has_changed, answer) = answer.split_first().ok_or_else(|| unreadable(island))?;
        self.crew.reached[at].1 = *has_changed == 1;
        decoded(answer).ok_or_else(|| unlike(island))
    }
}

/// The error of a transaction that had not decided: nothing was changed.
fn not_committed(error: Error) -> Error {
    match error {
        Error::AnswerLost { island, why } => Error::IslandRestarts { island, why },
        error => error,
    }
}

/// Whether a transaction gave way to others, and may run again.
const fn gave_way(error: &Error) -> bool {
    matches!(
        error,
        Error::Refused(StoreError::LockTimeout | StoreError::Deadlock)
            | Error::InIsland { is_retryable: true, .. }
    )
}

impl PagedIslandProcesses {
    /// Runs a closure as one transaction over the islands of the keys that its steps name: all that they changed
    /// commits, or nothing. Each step is a message to an island and its answer. Blocks until it is durable. As
    /// [`PagedIslands::transaction`](crate::PagedIslands::transaction), it may run more than once.
    ///
    /// # Errors
    /// The error of a step, or the closure's own: nothing was changed. [`Error::IslandRestarts`] when the process of an
    /// island is being started again: nothing was changed. [`Error::AnswerLost`] when the process of the island that
    /// decides ended meanwhile and did not come back: it may have committed, on all islands or on none.
    pub fn transaction<A>(
        &self,
        closure: impl Fn(&mut PagedSteps<'_>) -> Result<A, Error>,
    ) -> Result<A, Error> {
        self.run_again(false, closure)
    }

    /// The same for a closure whose steps only read; writes are refused. Nothing is prepared.
    ///
    /// # Errors
    /// As [`PagedIslandProcesses::transaction`].
    pub fn read<A>(
        &self,
        closure: impl Fn(&mut PagedSteps<'_>) -> Result<A, Error>,
    ) -> Result<A, Error> {
        self.run_again(true, closure)
    }

    fn run_again<A>(
        &self,
        only_reads: bool,
        closure: impl Fn(&mut PagedSteps<'_>) -> Result<A, Error>,
    ) -> Result<A, Error> {
        if on_database_thread() {
            return Err(Error::Nested);
        }
        let mut crew = self.crews.lend(|| {
            // Relaxed: that the numbers differ is all.
            Ok(Crew::new(self.seats.fetch_add(1, Ordering::Relaxed)))
        })?;
        let mut patience = Patience::default();
        loop {
            match self.run(&mut crew, (only_reads, patience.count()), &closure) {
                Err(error) if gave_way(&error) && patience.pauses(&self.clock) => {}
                ended => return ended,
            }
        }
    }

    /// Runs a closure once, as a transaction of this crew.
    fn run<A>(
        &self,
        crew: &mut Crew,
        (only_reads, tries): (bool, u32),
        closure: impl FnOnce(&mut PagedSteps<'_>) -> Result<A, Error>,
    ) -> Result<A, Error> {
        crew.reached.clear();
        let short_waits = SHORT_WAITS.saturating_mul(tries + 1).min(self.lock_waits);
        let mut tx = PagedSteps { db: self, crew, only_reads, short_waits, doomed: None };
        let ran = catch_unwind(AssertUnwindSafe(|| closure(&mut tx)));
        let PagedSteps { crew, doomed, .. } = tx;
        let ended = match (ran, doomed) {
            (Err(panic), _) => Err(Error::Panicked(panic_message(&*panic))),
            (Ok(_), Some(error)) => Err(error),
            (Ok(ended), None) => ended,
        };
        match ended {
            Ok(answer) => self.commit(crew).map(|()| answer),
            Err(error) => {
                self.undo(crew, None);
                Err(error)
            }
        }
    }

    /// Commits a crew's transaction on all its islands, or undoes it on all.
    fn commit(&self, crew: &mut Crew) -> Result<(), Error> {
        let wrote = crew.reached.iter().filter(|(_, has_changed)| *has_changed);
        let coordinator = wrote.map(|(island, _)| *island).next();
        let number = self.number(coordinator.unwrap_or_default());
        // What is prepared is not settled by others before this knows what was decided.
        let _under_way = self.under_way.enter(number.owner());
        let prepared = match self.votes(crew, coordinator, number.owner()) {
            Ok(prepared) => prepared,
            Err(error) => {
                self.undo(crew, Some(number.owner()));
                return Err(not_committed(error));
            }
        };
        let Some(coordinator) = coordinator else { return Ok(()) };
        let owner = (!prepared.is_empty()).then(|| number.owner());
        match self.decide(crew, coordinator, owner) {
            Ok(()) => {}
            Err(Error::AnswerLost { island, why }) => {
                let Some(owner) = owner else { return Err(Error::AnswerLost { island, why }) };
                match self.learn(coordinator, owner) {
                    Some(true) => {}
                    Some(false) => {
                        self.undo(crew, Some(owner));
                        return Err(Error::IslandRestarts { island, why });
                    }
                    None => return Err(Error::AnswerLost { island, why }),
                }
            }
            Err(error) => {
                self.undo(crew, owner);
                return Err(not_committed(error));
            }
        }
        for island in prepared {
            let settle = settle_item(number.owner(), true);
            match self.supervised().seats[island].begin_one_of(settle) {
                Ok(begun) => crew.unsettled.push((coordinator, island, begun)),
                // Its next process asks the coordinator.
                Err(_) => _ = crew.kept.insert(coordinator),
            }
        }
        Ok(())
    }

    /// A number that no other transaction has, or had.
    fn number(&self, coordinator: usize) -> TransactionNumber {
        // Relaxed: that the numbers differ is all.
        let counter = self.numbers.fetch_add(1, Ordering::Relaxed);
        let island = IslandId(coordinator as u16);
        TransactionNumber { island, opening: self.openings[coordinator], counter }
    }

    /// Asks all islands but the coordinator for their votes, all at the same time; those that are prepared.
    fn votes(
        &self,
        crew: &Crew,
        coordinator: Option<usize>,
        owner: Owner,
    ) -> Result<Vec<usize>, Error> {
        let seats = &self.supervised().seats;
        let others = crew.reached.iter().map(|(island, _)| *island);
        let others = others.filter(|island| Some(*island) != coordinator);
        let item = |call| Item::new(wire::VOTE).u64(call).u32(crew.seat).u128(owner.number()).end();
        let others: Vec<_> = others.collect();
        if let [island] = others[..] {
            let vote = self.supervised().call(island, item)?;
            return Ok(if vote == [1] { others } else { Vec::new() });
        }
        let asked: Vec<_> =
            others.into_iter().map(|island| (island, seats[island].begin_one_of(item))).collect();
        // All are waited for, also if one refuses: each session has one job at a time.
        let (mut prepared, mut refused) = (Vec::new(), None);
        for (island, begun) in asked {
            match begun.and_then(|begun| seats[island].wait(begun, None)) {
                Ok(vote) if vote == [1] => prepared.push(island),
                Ok(_) => {}
                Err(error) => refused = refused.or(Some(error)),
            }
        }
        refused.map_or(Ok(prepared), Err)
    }

    /// Commits the coordinator's part, which decides if there is a number.
    fn decide(
        &self,
        crew: &mut Crew,
        coordinator: usize,
        owner: Option<Owner>,
    ) -> Result<(), Error> {
        for (decided, island, begun) in std::mem::take(&mut crew.unsettled) {
            if self.supervised().seats[island].wait(begun, None).is_err() {
                crew.kept.insert(decided);
            }
        }
        let new_row = owner.is_some() && crew.kept.remove(&coordinator);
        let number = owner.map_or(0, Owner::number);
        let item = |call| {
            let item = Item::new(wire::DECIDE).u64(call).u32(crew.seat);
            item.flag(new_row).u128(number).end()
        };
        self.supervised().call(coordinator, item).map(drop)
    }

    /// Whether a coordinator whose process ended had decided; `None` if it does not come back.
    fn learn(&self, coordinator: usize, owner: Owner) -> Option<bool> {
        let mut waited = Duration::ZERO;
        while waited < LEARN_MAX {
            match has_decided(self.supervised(), coordinator, owner) {
                Ok(has_decided) => return Some(has_decided),
                Err(_) => wait_a_moment(LEARN_WAIT),
            }
            waited += LEARN_WAIT;
        }
        None
    }

    /// Undoes what is open and what is prepared. An island that does not answer undoes it when its next process asks.
    fn undo(&self, crew: &Crew, owner: Option<Owner>) {
        let number = owner.map_or(0, Owner::number);
        for (island, _) in &crew.reached {
            let item = |call| Item::new(wire::UNDO).u64(call).u32(crew.seat).u128(number).end();
            let _ = self.supervised().call(*island, item);
        }
    }
}
