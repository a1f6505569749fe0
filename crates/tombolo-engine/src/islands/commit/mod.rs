//! Atomic commit between islands: two-phase commit with presumed abort, as a state machine (ISL-14, ISL-30, ISL-31;
//! decision 0046).
//!
//! A [`Machine`] is an island's share of all transactions over several islands. It has no clock, thread, link or
//! store: a loop gives it events and does its actions ([`Event`], [`Action`]), in a thread, a process or the
//! simulator.
//!
//! | file | holds |
//! |---|---|
//! | `identity.rs` | islands, numbers of transactions, ages, tenures |
//! | `message.rs` | what islands say to each other, and its bytes |
//! | `event.rs` | events and actions |
//! | `coordinator.rs` | transactions that began here |
//! | `participant.rs` | parts of transactions that began elsewhere |
//! | `waits.rs` | who waits for whose locks |
//! | `peers.rs` | which islands can be reached, and which of their tenures are known |
//!
//! # What holds
//! - A transaction is committed exactly if the transaction of its coordinator that decides it is durable, or nothing
//!   was written and all votes came. A caller hears *committed* only then, and *aborted* only if that never will be.
//! - Nothing waits for ever except a prepared part for its coordinator: it asks until it is answered.
//! - Messages may be lost when a link breaks, and come again when it is made again; an island may crash between any two
//!   actions. Once that ends, everything does, and no row and no lock stays.
//!
//! # What it costs
//! One message each way per participant, and two more where it wrote; a row and a flush for each participant that wrote
//! and for the decision. Where all parts only read there is no row; where only the own part wrote, none either.
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
use peers::Peers;
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
    pub fn on(&mut self, event: Event<'_>, out: &mut Vec<Action>) {
        let Self { peers, coordinator, participant, waits } = self;
        match event {
            Event::Begin { call, at, age, parts } => {
                coordinator.begin(call, at, age, parts, peers, out);
            }
            Event::LinkMade(peer) => peers.greet(peer, out),
            Event::LinkBroken(peer) => self.broken(peer, out),
            Event::Received { from, message } => match peers.open(from, message) {
                Ok(Some((message, tenure))) => self.received(from, message, tenure, out),
                Ok(None) => (),
                Err(why) => out.push(Action::RefusePeer { peer: from, why }),
            },
            Event::Executed { number, wrote, result } if number.island == peers.me => {
                coordinator.executed(number, wrote, result, peers, out);
            }
            Event::Executed { number, wrote, result } => {
                participant.executed(number, wrote, result, peers, out);
            }
            Event::Refused { number, why } if number.island == peers.me => {
                coordinator.refused(number, why, peers, out);
            }
            Event::Refused { number, why } => participant.refused(number, why, peers, out),
            Event::Held { by, work } => self.held(by, work, out),
            Event::Prepared(number) => participant.prepared(number, peers, out),
            Event::Settled(number) if number.island == peers.me => {
                coordinator.settled(number, peers, out);
            }
            Event::Settled(number) => participant.settled(number, peers, out),
            Event::Ended(number) => self.ended(number, out),
            Event::Durable(number) if number.island == peers.me => {
                coordinator.durable(number, peers, out);
            }
            Event::Durable(number) => participant.durable(number, peers, out),
            Event::Passed(Deadline::Patience(number)) if number.island == peers.me => {
                coordinator.impatient(number, peers, out);
            }
            Event::Passed(Deadline::Patience(number)) => participant.impatient(number, peers, out),
            Event::Passed(Deadline::Ask(number)) => participant.ask(number, peers, out),
            Event::Passed(Deadline::Retry(number)) => participant.retry(number, out),
            Event::Passed(Deadline::Local(call)) => {
                if waits.give_up(call) {
                    out.push(Action::GiveUp { call });
                }
            }
        }
    }

    /// Where a transaction is, on this island.
    pub fn state(&self, number: TransactionNumber) -> State {
        match self.state_without_waits(number) {
            State::Gathering if self.waits.has(number) => State::GatheringWaits,
            State::Running if self.waits.has(number) => State::Waiting,
            state => state,
        }
    }

    fn state_without_waits(&self, number: TransactionNumber) -> State {
        if number.island == self.peers.me {
            self.coordinator.state(number)
        } else {
            self.participant.state(number)
        }
    }

    /// The transactions of this island in which `peer` takes part, or which it coordinates.
    pub fn shared_with(&self, peer: IslandId) -> impl Iterator<Item = TransactionNumber> {
        let parts = self.participant.numbers().filter(move |number| number.island == peer);
        self.coordinator.numbers_of(peer).chain(parts)
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
        let number =
            message.number().unwrap_or(TransactionNumber { island: from, opening: 0, counter: 0 });
        // What only a coordinator says is about a transaction of its own, and so the other way round.
        let is_of_coordinator = matches!(message, Message::Part { .. } | Message::Decision { .. });
        let is_greeting = message == Message::Hello;
        let owner = if is_of_coordinator { from } else { self.peers.me };
        if !is_greeting && number.island != owner {
            out.push(Action::RefusePeer { peer: from, why: Refusal::Malformed });
            return;
        }
        let Self { peers, coordinator, participant, .. } = self;
        match message {
            Message::Hello => self.greeted(from, out),
            Message::Part { age, payload, .. } => participant.take(number, age, payload, out),
            Message::Vote { vote, .. } => coordinator.vote(from, number, vote, tenure, peers, out),
            Message::Decision { is_commit, .. } => {
                participant.decided(number, is_commit, peers, out);
            }
            Message::Confirmation { .. } => coordinator.confirmed(from, number, out),
            Message::Question { .. } => coordinator.asked(from, number, peers, out),
        }
    }

    fn greeted(&mut self, peer: IslandId, out: &mut Vec<Action>) {
        if self.peers.note_greeting(peer) {
            self.broken(peer, out);
            self.peers.note_greeting(peer);
        }
        self.coordinator.greeted(peer, &self.peers, out);
        self.participant.greeted(peer, &self.peers, out);
    }

    fn broken(&mut self, peer: IslandId, out: &mut Vec<Action>) {
        self.peers.note_break(peer);
        self.coordinator.broken(peer, &self.peers, out);
        self.participant.broken(peer, out);
    }

    fn held(&mut self, by: TransactionNumber, work: Work, out: &mut Vec<Action>) {
        let holder = match by.island == self.peers.me {
            true => self.coordinator.age(by),
            false => self.participant.age(by),
        };
        match work {
            Work::Part { number, .. } if !self.is_wanted(number) => (),
            // It is being released: that comes before what is run now.
            work if holder.is_none() => out.push(Action::Run(work)),
            Work::Part { number, age, .. }
                if holder.is_some_and(|holder| !may_wait(age, holder))
                    && !plant::is(Plant::WaitNotDie) =>
            {
                match number.island == self.peers.me {
                    true => self.coordinator.die(number, &self.peers, out),
                    false => self.participant.die(number, &self.peers, out),
                }
            }
            work => {
                if let Work::Local { call, .. } = work {
                    out.push(Action::Await(Deadline::Local(call)));
                }
                self.waits.add(by, work);
            }
        }
    }

    /// Whether a part is still to be executed.
    fn is_wanted(&self, number: TransactionNumber) -> bool {
        matches!(self.state_without_waits(number), State::Gathering | State::Running)
    }

    fn ended(&mut self, number: TransactionNumber, out: &mut Vec<Action>) {
        let Self { peers, coordinator, participant, waits } = self;
        if !plant::is(Plant::WaitersNotWoken) {
            let wanted = |number: TransactionNumber| match number.island == peers.me {
                true => coordinator.state(number) == State::Gathering,
                false => participant.state(number) == State::Running,
            };
            waits.wake(number, wanted, out);
        }
        match number.island == peers.me {
            true => coordinator.ended(number, out),
            false => participant.ended(number, peers, out),
        }
    }
}

#[cfg(not(loom))]
#[cfg(test)]
mod tests;
