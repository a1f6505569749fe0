//! How a transaction over several islands commits: on all of them or on none, whatever crashes (ISL-14, ISL-15).
//!
//! ```text
//!                     participants: prepare, unhardened ──┐
//!   closure returned ─┤                                   ├─► all votes durable ─► coordinator: row, commit ─► DECIDED
//!                     └ parts that only read: commit ─────┘            │ any fails                               │
//!                                                                      ▼                                         ▼
//!                                                              all are undone                    participants: commit
//! ```
//!
//! Two-phase commit with presumed abort. The coordinator is the first island on which the transaction wrote; its part
//! prepares nothing. It writes the transaction's number into a row of its island (engine `islands/decided.rs`) and
//! commits: that commit is the decision, in one flush with its changes. Where one island wrote there is no row.
//!
//! # What holds
//! - All locks that the transaction will ever need are held when this begins, so parts that only read may release
//!   theirs at once (two-phase locking).
//! - Nothing is decided before all that was read, on whichever island, is durable there: or a crash could keep the
//!   transaction and lose what it read.
//! - Participants commit without waiting for their logs: a restart finds them prepared, and the decision. So the row of
//!   a decision is written over only when all its participants' logs are durable past their commits.
//! - A coordinator that stops while it commits leaves its participants in doubt, with their locks, until the database
//!   is opened again.
//!
//! Not here: what an opening does with what is in doubt (`resolve.rs`).

use tombolo_engine::islands::commit::{IslandId, TransactionNumber};
use tombolo_engine::threads::on_each;
use tombolo_storage::error::Error as StoreError;
use tombolo_storage::owner::Owner;
use tombolo_storage::paged::store::{Decision, LogPosition, Vote};
use tombolo_storage::plant::{self, Plant};
use tombolo_storage::store::Store as _;
use tombolo_storage::sync::Ordering;

use super::super::database::Counters;
use super::PagedIslands;
use super::crew::Crew;

/// Why a transaction did not commit.
pub(super) enum NotCommitted {
    /// An island refused: nothing was changed.
    Refused(usize, StoreError),
    /// The coordinator stopped while it decided.
    Unknown(StoreError),
}

/// How far a commit has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A part has prepared, or has only read and ended; the answer is not durable yet.
    Voted,
    /// All have, durably.
    AllVoted,
    /// The coordinator has committed, durably.
    Decided,
    /// A participant has committed.
    Committed,
}

/// Where tests end the program's work.
#[inline(always)]
fn reached(step: Step) {
    #[cfg(test)]
    super::tests::reached(step);
    let _ = step;
}

/// What the parts but the coordinator's answered.
#[derive(Default)]
struct Votes {
    /// Islands that are prepared.
    prepared: Vec<usize>,
    /// Up to where which log has to be durable before the votes count.
    positions: Vec<(usize, LogPosition)>,
}

impl PagedIslands {
    /// Commits a crew's transaction on all its islands, or undoes it on all.
    pub(super) fn commit(&self, crew: &mut Crew) -> Result<(), NotCommitted> {
        let wrote = |crew: &Crew, island: usize| crew.members[island].session.store.has_changed();
        let coordinator = crew.reached.iter().copied().find(|&island| wrote(crew, island));
        let number = self.number(coordinator.unwrap_or_default());
        let mut votes = Votes::default();
        let voted = crew
            .verify_homes()
            .and_then(|()| crew.vote(coordinator, number.owner(), &mut votes))
            .and_then(|()| crew.harden(&votes.positions));
        if let Err((island, error)) = voted {
            crew.undo_all(&votes, number.owner());
            return Err(NotCommitted::Refused(island, error));
        }
        reached(Step::AllVoted);
        if let Some(coordinator) = coordinator {
            self.decide(crew, coordinator, number, &votes)?;
        }
        let first = self.first(crew);
        Counters::count(&first.counters.committed);
        if crew.reached.len() > 1 {
            Counters::count(&first.counters.over_islands);
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

    /// Commits the coordinator's part, which decides, and then the others.
    fn decide(
        &self,
        crew: &mut Crew,
        coordinator: usize,
        number: TransactionNumber,
        votes: &Votes,
    ) -> Result<(), NotCommitted> {
        if !votes.prepared.is_empty()
            && let Err(error) = self.note(crew, coordinator, number)
        {
            crew.undo_all(votes, number.owner());
            return Err(NotCommitted::Refused(coordinator, error));
        }
        let committed = crew.members[coordinator].session.store.commit();
        committed.map_err(NotCommitted::Unknown)?;
        reached(Step::Decided);
        for &island in &votes.prepared {
            let store = &mut crew.members[island].session.store;
            let decided = store.decide_unhardened(number.owner(), Decision::Commit);
            let home = &mut crew.members[coordinator];
            match decided {
                Ok(position) => home.unsettled.push((island, position)),
                // It has stopped, and commits when it is opened again. Until then the row says so.
                Err(_) => home.row = None,
            }
            reached(Step::Committed);
        }
        Ok(())
    }

    /// Writes the number into the row that says, once its transaction commits, that this one has.
    fn note(
        &self,
        crew: &mut Crew,
        coordinator: usize,
        number: TransactionNumber,
    ) -> Result<(), StoreError> {
        let unsettled = std::mem::take(&mut crew.members[coordinator].unsettled);
        if crew.harden(&unsettled).is_err() {
            // A participant that has stopped will ask for the decision that is there.
            crew.members[coordinator].row = None;
        }
        let home = &mut crew.members[coordinator];
        if home.row.is_none() {
            home.row = self.spare[coordinator].lock().pop();
        }
        let noted = self.decided.decide(&mut home.session.store, home.row, number)?;
        home.row = Some(noted);
        Ok(())
    }
}

impl Crew {
    /// Refuses rows that are left on an island and belong to another one.
    fn verify_homes(&self) -> Result<(), (usize, StoreError)> {
        self.reached.iter().try_for_each(|&island| {
            let store = &self.members[island].session.store;
            store.verify_homes().map_err(|error| (island, error))
        })
    }

    /// Prepares all parts that wrote but the coordinator's, and ends those that only read.
    fn vote(
        &mut self,
        coordinator: Option<usize>,
        owner: Owner,
        votes: &mut Votes,
    ) -> Result<(), (usize, StoreError)> {
        let Self { members, reached: islands } = self;
        for &island in islands.iter().filter(|&&island| Some(island) != coordinator) {
            let store = &mut members[island].session.store;
            let voted = match store.has_changed() {
                true => store.prepare_unhardened(owner),
                false => store.commit_unhardened().map(|position| (Vote::ReadOnly, position)),
            };
            let (vote, position) = voted.map_err(|error| (island, error))?;
            votes.positions.push((island, position));
            if vote == Vote::Prepared {
                votes.prepared.push(island);
            }
            reached(Step::Voted);
        }
        Ok(())
    }

    /// Waits until logs are durable up to these positions. Where several are not they are flushed at the same time.
    fn harden(&mut self, positions: &[(usize, LogPosition)]) -> Result<(), (usize, StoreError)> {
        if plant::is(Plant::PagedVoteNotWaitedFor) {
            return Ok(());
        }
        let mut waited_for: Vec<_> = self.members.iter_mut().map(|member| (member, None)).collect();
        for &(island, position) in positions {
            let (member, waits) = &mut waited_for[island];
            if !member.session.store.is_hardened(position) {
                *waits = Some(position);
            }
        }
        let waits = waited_for.into_iter().enumerate().filter_map(|(island, (member, waits))| {
            waits.map(|position| (island, member, position))
        });
        let hardened = on_each(waits, |(island, member, position)| {
            member.session.store.harden(position).map_err(|error| (island, error))
        });
        hardened.into_iter().collect()
    }

    /// Undoes what is prepared and what is open.
    fn undo_all(&mut self, votes: &Votes, owner: Owner) {
        for &island in &votes.prepared {
            // If it cannot, its island has stopped: it finds no decision when it is opened again.
            let _ = self.members[island].session.store.decide(owner, Decision::Abort);
        }
        self.undo();
    }
}
