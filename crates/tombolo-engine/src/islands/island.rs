//! `Island`: one island's share of transactions over several, on its memory store (ISL-14, ISL-17; decision 0046).
//!
//! ```text
//!   message, deadline, caller ──► Event ──► Machine ──► Action ──► store: run, prepare, commit, release, forget
//!                                   ▲                     │
//!                                   └──── its result ─────┤── Host: send, answer, wait, report when it is durable
//! ```
//!
//! Events come in the order in which they happened, and all actions of an event are carried out before the next event:
//! so transactions that waited for a lock run before later ones. An action that writes is carried out only if the log
//! has room for it; otherwise this action and those behind it remain, and [`Island::go_on`] carries them out.
//!
//! Not here: threads, links, clocks, how a caller reaches its island; what a part does (the [`Host`]).

use std::collections::VecDeque;

use tombolo_storage::error::{Error, Result};
use tombolo_storage::memory::MemoryStore;
use tombolo_storage::memory::held::{Changes, Locks, Part};
use tombolo_storage::owner::Owner;
use tombolo_storage::profile::MemoryProfile;
use tombolo_storage::store::Store;

use super::commit::{
    Action, Answer, Deadline, Event, IslandId, Machine, Refusal, TransactionNumber, Work,
};
use super::prepared::PreparedParts;

/// What an island needs of the program around it.
pub trait Host<P: MemoryProfile> {
    /// Sends a message. If the link is broken, the message is lost, and the host reports the break to the island.
    fn send(&mut self, to: IslandId, message: Vec<u8>);
    /// A peer does not speak this protocol, or not to this database: closes the link and reports why.
    fn refuse_peer(&mut self, peer: IslandId, why: Refusal);
    /// Executes a part as one transaction under `locks`, which is set aside where it would commit
    /// ([`Guard::part`](tombolo_storage::memory::held::Guard::part)).
    fn run_part(&mut self, store: &mut MemoryStore<P>, locks: &Locks, payload: &[u8]) -> Executed;
    /// Runs a waiting call of this island again, as one transaction under `locks`. Returns the owner of a lock that
    /// it met; otherwise the call has ended.
    fn run_call(
        &mut self,
        store: &mut MemoryStore<P>,
        locks: &Locks,
        call: u64,
    ) -> Option<TransactionNumber>;
    /// The most bytes that a waiting call of this island may log.
    fn log_bytes_of_call(&self, call: u64) -> usize;
    /// Runs the last step of a transaction over several islands that has written: all its parts were executed. It may
    /// run again only if the whole transaction does.
    ///
    /// # Errors
    /// Why it is not to commit.
    fn last_step(&mut self, call: u64) -> std::result::Result<(), Vec<u8>>;
    /// Answers the caller of a transaction over several islands. Where nothing was written, no last step ran.
    fn answer(&mut self, call: u64, answer: Answer);
    /// A call of this island waited too long for a lock.
    fn give_up(&mut self, call: u64);
    /// Gives the island [`Event::Passed`] when this has passed.
    fn wait_for(&mut self, deadline: Deadline);
    /// Gives the island this event when all that is logged now is durable.
    fn when_durable(&mut self, event: Event<'static>);
    /// Limits the next transaction to so many bytes of log; returns whether there is room for them.
    fn reserve(&mut self, store: &mut MemoryStore<P>, bytes: usize) -> bool;
    /// Whether there was none at all lately: then what may still be refused is.
    fn is_full(&self) -> bool;
    /// The most bytes for which there ever is room.
    fn log_bytes_max(&self) -> usize;
}

/// How the execution of a part ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Executed {
    /// It is set aside, with this result.
    Done(Part, Vec<u8>),
    /// It met a lock of this transaction.
    Held(TransactionNumber),
    /// It is refused, for this reason.
    Refused(Vec<u8>),
}

/// The transaction whose lock a call met: islands number all owners of locks.
pub fn holder(owner: Owner) -> TransactionNumber {
    TransactionNumber::of(owner).expect("locks belong to transactions of islands")
}

/// Why a part is refused.
const LOG_FULL: &[u8] = b"its log is full: make room on its disk, then try again";

/// Bytes of a row of the island's own tables in the log, and of a transaction, without its values.
const ROW_BYTES: usize = 512;

/// An island's share of transactions over several. See the file's head.
#[derive(Debug)]
pub struct Island {
    me: IslandId,
    machine: Machine,
    rows: PreparedParts,
    locks: Locks,
    /// The changes of executed parts that are not prepared; a few.
    executed: Vec<(TransactionNumber, Changes)>,
    /// What is to be done, in order.
    actions: VecDeque<Action>,
    /// What the log had no room for at all, and may not be refused: ends of prepared parts. Other actions go on.
    roomless: VecDeque<Action>,
    /// Parts whose release the store refused; it is tried again.
    unreleased: Vec<TransactionNumber>,
    /// Empty; reused.
    new: Vec<Action>,
}

impl Island {
    /// Island `me` of so many, for the `opening`-th time, with what its store has prepared and decided. To be called
    /// before anything else runs on the store; then [`Island::go_on`] does what follows.
    ///
    /// # Errors
    /// The store has not the tables ([`super::prepared::prepared_tables`]), or their rows are not an island's.
    pub fn open<P: MemoryProfile>(
        store: &mut MemoryStore<P>,
        (me, islands): (IslandId, u16),
        opening: u32,
    ) -> Result<Self> {
        let rows = PreparedParts::new(store.schema()).map_err(|_| Error::UnfitChanges)?;
        let mut locks = Locks::new()?;
        let found = rows.open(store, &mut locks)?;
        let mut new = Vec::new();
        let machine = Machine::open(me, islands, opening, found, &mut new);
        let actions = new.drain(..).collect();
        let (executed, roomless, unreleased) = (Vec::new(), VecDeque::new(), Vec::new());
        Ok(Self { me, machine, rows, locks, executed, actions, roomless, unreleased, new })
    }

    /// Whether any part is held: then calls of this island run under [`Island::locks`].
    #[inline(always)]
    pub fn holds_parts(&self) -> bool {
        !self.locks.is_empty()
    }

    /// The locks of the held parts.
    pub const fn locks(&self) -> &Locks {
        &self.locks
    }

    /// The state machine, for inspection.
    pub const fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Whether no transaction over several islands is under way here.
    pub fn is_idle(&self) -> bool {
        let is_done = self.actions.is_empty() && self.roomless.is_empty();
        is_done && self.unreleased.is_empty() && self.machine.is_idle()
    }

    /// Whether actions are left, for which the log had no room.
    pub fn has_more(&self) -> bool {
        !self.actions.is_empty()
    }

    /// Whether parts cannot end, as the log is full: they keep their locks. To be tried again.
    pub fn waits_for_room(&self) -> bool {
        !self.roomless.is_empty()
    }

    /// Something happened. Not while actions are left, unless it is of a call: [`Event::Begin`], [`Event::Held`].
    pub fn on<P: MemoryProfile>(
        &mut self,
        event: Event<'_>,
        store: &mut MemoryStore<P>,
        host: &mut impl Host<P>,
    ) {
        self.feed(event);
        self.go_on(store, host);
    }

    /// Does what is left to be done, as far as the log has room.
    pub fn go_on<P: MemoryProfile>(&mut self, store: &mut MemoryStore<P>, host: &mut impl Host<P>) {
        while !host.is_full()
            && let Some(action) = self.roomless.pop_back()
        {
            self.actions.push_front(action);
        }
        while let Some(action) = self.actions.pop_front() {
            // It would meet the locks of a part that cannot end.
            if !self.roomless.is_empty()
                && let Action::Run(work) = action
            {
                self.refuse(work, host);
                continue;
            }
            let log_bytes = self.log_bytes(&action, store, host);
            if log_bytes == 0 || host.reserve(store, log_bytes) {
                self.act(action, store, host);
                continue;
            }
            match action {
                Action::Release(number) if self.rows.changes_bytes(store, number).is_none() => {
                    self.act(action, store, host); // it has no row
                }
                Action::Prepare { number, .. } | Action::Commit { number, .. }
                    if host.is_full() && self.is_undecided(&action) =>
                {
                    self.feed(Event::Refused { number, why: LOG_FULL.to_vec() });
                }
                Action::Run(work) if host.is_full() => self.refuse(work, host),
                // Answers and votes behind it must not wait for room.
                action if host.is_full() => self.roomless.push_back(action),
                action => {
                    self.actions.push_front(action);
                    return;
                }
            }
        }
    }

    /// Refuses what was to run, as the log is full.
    fn refuse<P: MemoryProfile>(&mut self, work: Work, host: &mut impl Host<P>) {
        match work {
            Work::Part { number, .. } => {
                self.feed(Event::Refused { number, why: LOG_FULL.to_vec() });
            }
            Work::Local { call, .. } => host.give_up(call),
        }
    }

    /// Whether an action may still be refused: a part is not voted for, or its coordinator is this island.
    fn is_undecided(&self, action: &Action) -> bool {
        match action {
            Action::Prepare { .. } => true,
            Action::Commit { number, .. } => number.island == self.me,
            _ => false,
        }
    }

    fn feed(&mut self, event: Event<'_>) {
        if let Event::Passed(Deadline::Retry(number)) = event
            && let Some(at) = self.unreleased.iter().position(|part| *part == number)
        {
            self.unreleased.swap_remove(at);
            self.actions.push_back(Action::Release(number));
            return;
        }
        self.machine.on(event, &mut self.new);
        self.actions.extend(self.new.drain(..));
    }

    /// The most bytes that an action logs; nothing for one that does not write.
    fn log_bytes<P: MemoryProfile>(
        &self,
        action: &Action,
        store: &mut MemoryStore<P>,
        host: &impl Host<P>,
    ) -> usize {
        match action {
            Action::Run(Work::Local { call, .. }) => host.log_bytes_of_call(*call),
            Action::Prepare { number, .. } => self.prepared_bytes(*number),
            Action::Commit { number, .. } => {
                let own = self.changes(*number).map(|changes| changes.as_bytes().len());
                let changes = own.or_else(|| self.rows.changes_bytes(store, *number));
                committed_bytes(changes.unwrap_or_default())
            }
            Action::Release(_) | Action::Forget(_) => ROW_BYTES,
            Action::Send { .. }
            | Action::RefusePeer { .. }
            | Action::Run(Work::Part { .. })
            | Action::Settle(_)
            | Action::Answer { .. }
            | Action::GiveUp { .. }
            | Action::Await(_) => 0,
        }
    }

    fn changes(&self, number: TransactionNumber) -> Option<&Changes> {
        self.executed.iter().find(|(own, _)| *own == number).map(|(_, changes)| changes)
    }

    fn prepared_bytes(&self, number: TransactionNumber) -> usize {
        let changes = self.changes(number).map_or(0, |changes| changes.as_bytes().len());
        let locks = self.locks.of(number.owner()).map_or(0, |locks| locks.as_bytes().len());
        ROW_BYTES + changes + locks
    }

    fn act<P: MemoryProfile>(
        &mut self,
        action: Action,
        store: &mut MemoryStore<P>,
        host: &mut impl Host<P>,
    ) {
        match action {
            Action::Send { to, message } => host.send(to, message),
            Action::RefusePeer { peer, why } => host.refuse_peer(peer, why),
            Action::Run(Work::Part { number, age, payload }) => {
                let event = match host.run_part(store, &self.locks, &payload) {
                    Executed::Done(part, result) => {
                        match self.hold(number, part, host.log_bytes_max()) {
                            Ok(wrote) => Event::Executed { number, wrote, result },
                            Err(error) => Event::Refused { number, why: words(error) },
                        }
                    }
                    Executed::Held(by) => {
                        Event::Held { by, work: Work::Part { number, age, payload } }
                    }
                    Executed::Refused(why) => Event::Refused { number, why },
                };
                self.feed(event);
            }
            Action::Run(Work::Local { call, payload }) => {
                if let Some(by) = host.run_call(store, &self.locks, call) {
                    self.feed(Event::Held { by, work: Work::Local { call, payload } });
                }
            }
            Action::Prepare { number, age } => {
                let place = self.executed.iter().position(|(own, _)| *own == number);
                let place = place.expect("a part is executed before it is prepared");
                let (_, changes) = self.executed.swap_remove(place);
                match self.rows.prepare(store, &self.locks, (number, age), &changes) {
                    Ok(()) => host.when_durable(Event::Prepared(number)),
                    Err(error) => self.feed(Event::Refused { number, why: words(error) }),
                }
            }
            Action::Settle(number) => host.when_durable(Event::Settled(number)),
            Action::Commit { number, call, participants } => {
                if let Some(Err(why)) = call.map(|call| host.last_step(call)) {
                    return self.feed(Event::Refused { number, why });
                }
                match self.commit(number, &participants, store) {
                    Ok(()) => {
                        self.feed(Event::Ended(number));
                        host.when_durable(Event::Durable(number));
                    }
                    Err(error) => self.feed(Event::Refused { number, why: words(error) }),
                }
            }
            Action::Release(number) => {
                self.executed.retain(|(own, _)| *own != number);
                if self.rows.abort(store, &mut self.locks, number).is_ok() {
                    self.feed(Event::Ended(number));
                } else {
                    self.unreleased.push(number); // the row and its locks stay together
                    host.wait_for(Deadline::Retry(number));
                }
            }
            // A decision that stays is forgotten after the next opening, when all have confirmed it again.
            Action::Forget(number) => drop(self.rows.forget(store, number)),
            Action::Answer { call, answer } => host.answer(call, answer),
            Action::GiveUp { call } => host.give_up(call),
            Action::Await(deadline) => host.wait_for(deadline),
        }
    }

    /// Holds an executed part; returns whether it wrote.
    fn hold(
        &mut self,
        number: TransactionNumber,
        part: Part,
        log_bytes_max: usize,
    ) -> Result<bool> {
        let wrote = !part.changes.is_empty();
        let (changes, locks) = (part.changes.as_bytes().len(), part.locks.as_bytes().len());
        let log_bytes = (ROW_BYTES + changes + locks).max(committed_bytes(changes));
        if wrote && log_bytes > log_bytes_max {
            return Err(Error::LogTooLong { bytes_max: log_bytes_max as u64 });
        }
        self.locks.acquire(number.owner(), part.locks)?;
        if wrote {
            self.executed.push((number, part.changes));
        }
        Ok(wrote)
    }

    /// Makes the changes of a part, with the decision if this island decides.
    fn commit<P: MemoryProfile>(
        &mut self,
        number: TransactionNumber,
        participants: &[IslandId],
        store: &mut MemoryStore<P>,
    ) -> Result<()> {
        let Self { rows, locks, executed, .. } = self;
        let own = executed.iter().position(|(own, _)| *own == number);
        if own.is_none() && participants.is_empty() {
            rows.commit(store, locks, number)?;
            return Ok(());
        }
        // The own part may only have read, or not be there.
        let changes = own.map(|at| &executed[at].1);
        rows.decide(store, locks, (number, changes), participants)?;
        own.map(|at| executed.swap_remove(at));
        Ok(())
    }
}

/// The most bytes that making so many bytes of changes logs.
const fn committed_bytes(changes: usize) -> usize {
    2 * changes + 2 * ROW_BYTES
}

fn words(error: Error) -> Vec<u8> {
    error.to_string().into_bytes()
}

#[cfg(not(loom))]
#[cfg(test)]
mod tests;
