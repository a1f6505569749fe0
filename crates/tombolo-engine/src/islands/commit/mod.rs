//! Atomic commit between islands: two-phase commit with presumed abort, as a state machine (ISL-14, ISL-30, ISL-31;
//! decision 0046).
//!
//! A [`Machine`] is an island's share of all transactions over several islands. It has no clock, thread, link or
//! store: a loop passes events to it and carries its actions out ([`Event`], [`Action`]), in a thread, a process or the
//! simulator.
//!
//! | file | contains |
//! |---|---|
//! | `identity.rs` | islands, numbers of transactions, ages, tenures |
//! | `message.rs` | messages between islands, and their bytes |
//! | `event.rs` | events and actions |
//! | `coordinator.rs` | transactions that began here |
//! | `participant.rs` | parts of transactions that began elsewhere |
//! | `waits.rs` | transactions that wait for locks |
//! | `peers.rs` | which islands can be reached, and which of their tenures are known |
//!
//! # Invariants
//! - A transaction is committed exactly if the coordinator's deciding transaction is durable, or if nothing was written
//!   and all votes came. A caller gets the answer *committed* only then, and *aborted* only if it can never commit.
//! - Only a prepared part may wait without a limit, for its coordinator: it asks until it is answered.
//! - Messages may be lost when a link breaks, and are sent again when the link is made again; an island may crash
//!   between any two actions. When such failures stop, all transactions end, and no row and no lock remains.
//!
//! # What it costs
//! One message each way per participant, and two more if it wrote; a row and a flush for each participant that wrote
//! and for the decision. There is no row if all parts only read, or if only the coordinator's own part wrote.
//!
//! Not here: locks and changes of parts (the store's), rows, routing, when a transaction runs again.

mod coordinator;
mod event;
mod identity;
mod message;
mod participant;
mod peers;
mod waits;

pub use event::{Action, Answer, Deadline, Event, Found, Reason, State, Work};
pub use identity::{Age, IslandId, Tenure, TransactionNumber};
pub use message::{Message, Objection, Refusal, VERSION, Vote, peek};

use coordinator::Coordinator;
use participant::Participant;
use peers::{Peers, Turn};
use tombolo_storage::plant::{self, Plant};
use waits::{Waits, may_wait};

/// An island's share of all transactions over several islands. See the module's head.
#[derive(Debug)]
pub struct Machine {
    peers: Peers,
    coordinator: Coordinator,
    participant: Participant,
    waits: Waits,
}

impl Machine {
    /// The machine of island `me` of a database of so many, opened for the `opening`-th time, from 1: a number
    /// that was made durable first.
    ///
    /// # Panics
    /// When there is no such island or opening.
    pub fn open(
        me: IslandId,
        islands: u16,
        opening: u32,
        found: Found,
        out: &mut Vec<Action>,
    ) -> Self {
        assert!(me.0 < islands && opening > 0, "{me} of {islands}, opening {opening}");
        let islands = usize::from(islands);
        Self {
            peers: Peers::new(me, islands, opening),
            coordinator: Coordinator::open(opening, found.decided),
            participant: Participant::open(islands, &found.prepared, out),
            waits: Waits::default(),
        }
    }

    /// Appends what `event` makes necessary to `out`.
    ///
    /// # Panics
    /// When a transaction begins with parts of islands that there are not, or with two of one.
    pub fn on(&mut self, event: Event<'_>, out: &mut Vec<Action>) {
        let me = self.peers.me;
        let is_own = |number: TransactionNumber| number.island == me;
        let Self { peers, coordinator, participant, waits } = self;
        let turn = &mut Turn { peers, out };
        match event {
            Event::Begin { call, at, age, parts } => coordinator.begin(call, at, age, parts, turn),
            Event::LinkMade(peer) => turn.greet(peer),
            Event::LinkBroken(peer) => self.broken(peer, out),
            Event::Received { from, message } => match turn.peers.open(from, message) {
                Ok(Some((message, tenure))) => self.received(from, message, tenure, out),
                Ok(None) => (),
                Err(why) => out.push(Action::RefusePeer { peer: from, why }),
            },
            Event::Executed { number, wrote, result } => match is_own(number) {
                true => coordinator.executed(number, wrote, result, turn),
                false => participant.executed(number, wrote, result, turn),
            },
            Event::Refused { number, why } => match is_own(number) {
                true => coordinator.refused(number, why, turn),
                false => participant.refused(number, why, turn),
            },
            Event::Held { by, work } => self.held(by, work, out),
            Event::Prepared(number) => participant.prepared(number, turn),
            Event::Settled(number) => match is_own(number) {
                true => coordinator.settled(number, turn),
                false => participant.settled(number, turn),
            },
            Event::Ended(number) => self.ended(number, out),
            Event::Durable(number) => match is_own(number) {
                true => coordinator.durable(number, turn),
                false => participant.durable(number, turn),
            },
            Event::Passed(Deadline::Patience(number)) => match is_own(number) {
                true => coordinator.impatient(number, turn),
                false => participant.impatient(number, turn),
            },
            Event::Passed(Deadline::Ask(number)) => participant.ask(number, turn),
            Event::Passed(Deadline::Retry(number)) => participant.retry(number, turn),
            Event::Passed(Deadline::Local(call)) => {
                if waits.give_up(call) {
                    out.push(Action::GiveUp { call });
                }
            }
        }
    }

    /// Where a transaction is, on this island.
    pub fn state(&self, number: TransactionNumber) -> State {
        let state = match number.island == self.peers.me {
            true => self.coordinator.state(number),
            false => self.participant.state(number),
        };
        match state {
            State::Gathering if self.waits.has(number) => State::GatheringWaits,
            State::Running if self.waits.has(number) => State::Waiting,
            state => state,
        }
    }

    /// The transactions of this island in which `peer` takes part, or which it coordinates.
    pub fn shared_with(&self, peer: IslandId) -> impl Iterator<Item = TransactionNumber> {
        let parts = self.participant.numbers().filter(move |number| number.island == peer);
        self.coordinator.numbers_of(peer).chain(parts)
    }

    /// How often parts that only read gave their locks up, since the opening.
    pub fn terms(&self) -> u32 {
        self.peers.tenure(self.peers.me).term
    }

    /// Whether every other island can be reached.
    pub fn is_linked(&self) -> bool {
        self.peers.are_reached()
    }

    /// Whether nothing is under way here.
    pub fn is_idle(&self) -> bool {
        self.coordinator.is_empty() && self.participant.is_empty() && self.waits.is_empty()
    }

    fn received(
        &mut self,
        from: IslandId,
        message: Message,
        tenure: Tenure,
        out: &mut Vec<Action>,
    ) {
        let Some(number) = message.number() else { return self.greeted(from, out) };
        // What only a coordinator says is about a transaction of its own, and so the other way round.
        let is_of_coordinator = matches!(message, Message::Part { .. } | Message::Decision { .. });
        if number.island != if is_of_coordinator { from } else { self.peers.me } {
            out.push(Action::RefusePeer { peer: from, why: Refusal::Malformed });
            return;
        }
        let Self { peers, coordinator, participant, .. } = self;
        let turn = &mut Turn { peers, out };
        match message {
            Message::Hello => (),
            Message::Part { age, payload, .. } => participant.take(number, age, payload, turn),
            Message::Vote { vote, .. } => coordinator.vote(from, number, vote, tenure, turn),
            Message::Decision { is_commit, .. } => participant.decided(number, is_commit, turn),
            Message::Confirmation { .. } => coordinator.confirmed(from, number, turn),
            Message::Question { .. } => coordinator.asked(from, number, turn),
        }
    }

    fn greeted(&mut self, peer: IslandId, out: &mut Vec<Action>) {
        if self.peers.is_reopened(peer) {
            self.broken(peer, out);
        }
        self.peers.note_greeting(peer);
        let turn = &mut Turn { peers: &mut self.peers, out };
        self.coordinator.greeted(peer, turn);
        self.participant.greeted(peer, turn);
    }

    fn broken(&mut self, peer: IslandId, out: &mut Vec<Action>) {
        self.peers.note_break(peer);
        let turn = &mut Turn { peers: &mut self.peers, out };
        self.coordinator.broken(peer, turn);
        self.participant.broken(peer, turn);
    }

    fn held(&mut self, by: TransactionNumber, work: Work, out: &mut Vec<Action>) {
        let Self { peers, coordinator, participant, waits } = self;
        let me = peers.me;
        let is_wanted = |number| is_wanted(number, me, coordinator, participant);
        let holder = match by.island == me {
            true => coordinator.age(by),
            false => participant.age(by),
        };
        match work {
            Work::Part { number, .. } if !is_wanted(number) => (),
            // It is being released: that comes before what is run now.
            work if holder.is_none() => out.push(Action::Run(work)),
            Work::Part { number, age, .. }
                if holder.is_some_and(|holder| !may_wait(age, holder))
                    && !plant::is(Plant::WaitNotDie) =>
            {
                let turn = &mut Turn { peers, out };
                match number.island == me {
                    true => coordinator.die(number, turn),
                    false => participant.die(number, turn),
                }
            }
            work => {
                if let Work::Local { call, .. } = work {
                    out.push(Action::Await(Deadline::Local(call)));
                }
                waits.add(by, work);
            }
        }
    }

    fn ended(&mut self, number: TransactionNumber, out: &mut Vec<Action>) {
        let Self { peers, coordinator, participant, waits } = self;
        if !plant::is(Plant::WaitersNotWoken) {
            let me = peers.me;
            waits.wake(number, |number| is_wanted(number, me, coordinator, participant), out);
        }
        let turn = &mut Turn { peers, out };
        match number.island == turn.peers.me {
            true => coordinator.ended(number, turn),
            false => participant.ended(number, turn),
        }
    }
}

/// Whether a part is still to be executed.
fn is_wanted(
    number: TransactionNumber,
    me: IslandId,
    coordinator: &Coordinator,
    participant: &Participant,
) -> bool {
    match number.island == me {
        true => coordinator.state(number) == State::Gathering,
        false => participant.state(number) == State::Running,
    }
}

#[cfg(not(loom))]
#[cfg(test)]
mod tests;
