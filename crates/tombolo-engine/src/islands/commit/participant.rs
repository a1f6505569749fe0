//! The participant: parts that this island executes for coordinators on other islands.
//!
//! ```text
//!        Part                      (held: waits, runs again; or votes die: gone)
//!          │
//!       Running ──executed, wrote──► Preparing ──prepared──► Prepared ──commit──► Committing ──durable──► gone
//!          │                             │        votes yes   │  ▲ asks             │  ▲ refused:      confirms
//!          │ executed, only read         │                    └──┘                  └──┘ tries again
//!          ▼                             │                    │ abort: gone
//!       Settling ──settled──► ReadOnly ──┼── any decision: gone; never any: ends the island's tenure, gone
//!          │       votes      │  ▲ asks  │
//!          │                  └──┘       │
//!          └── refused, abort, link broken, patience at its end (also of Running): gone, votes no
//! ```
//!
//! - Running, Preparing, Settling: no vote was sent; the island may abort the part, and does so when its time is over.
//! - Prepared: the row is durable and the locks are held, after a crash too. Only the coordinator decides.
//! - ReadOnly: the locks are held until the decision: other parts of the transaction may not have run. They are in
//!   memory, so a crash ends the tenure in which the vote was sent; so does giving up.
//! - Committing: decided. After the confirmation the coordinator forgets the transaction, so the confirmation is sent
//!   when the commit is durable.
//!
//! A part runs once: a coordinator's numbers grow, its link keeps their order, and messages to an earlier opening
//! are ignored. Not here: waiting for locks (`waits.rs`), the coordinator's own part (`coordinator.rs`).

use tombolo_storage::plant::{self, Plant};

use super::event::{Action, Deadline, State, Work};
use super::identity::{Age, IslandId, TransactionNumber};
use super::message::{Message, Objection, Vote};
use super::peers::Turn;

/// Questions without an answer after which a part that only read gives its locks up: longer together than any
/// coordinator that is there gathers votes.
const QUESTIONS_MAX: u8 = 4;

#[derive(Debug)]
struct Part {
    number: TransactionNumber,
    age: Age,
    step: Step,
}

#[derive(Debug, PartialEq, Eq)]
enum Step {
    Running,
    Preparing { result: Vec<u8> },
    Settling { result: Vec<u8> },
    Prepared,
    ReadOnly { questions: u8 },
    Committing,
}

#[derive(Debug)]
pub(super) struct Participant {
    /// A few at a time.
    parts: Vec<Part>,
    /// The newest number that each coordinator sent in this opening: opening, counter.
    newest: Vec<(u32, u64)>,
}

impl Participant {
    /// With the prepared parts that an opening found.
    pub(super) fn open(
        islands: usize,
        prepared: &[(TransactionNumber, Age)],
        out: &mut Vec<Action>,
    ) -> Self {
        let is_lost = plant::is(Plant::DoubtForgotten);
        let in_doubt = prepared.iter().filter(|_| !is_lost);
        let part = |&(number, age)| Part { number, age, step: Step::Prepared };
        let parts: Vec<Part> = in_doubt.map(part).collect();
        out.extend(parts.iter().map(|part| Action::Await(Deadline::Ask(part.number))));
        Self { parts, newest: vec![(0, 0); islands] }
    }

    fn find(&mut self, number: TransactionNumber) -> Option<&mut Part> {
        self.parts.iter_mut().find(|part| part.number == number)
    }

    fn remove(&mut self, number: TransactionNumber) {
        self.parts.retain(|part| part.number != number);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    pub(super) fn numbers(&self) -> impl Iterator<Item = TransactionNumber> {
        self.parts.iter().map(|part| part.number)
    }

    pub(super) fn age(&self, number: TransactionNumber) -> Option<Age> {
        self.parts.iter().find(|part| part.number == number).map(|part| part.age)
    }

    pub(super) fn state(&self, number: TransactionNumber) -> State {
        let part = self.parts.iter().find(|part| part.number == number);
        part.map_or(State::NoPart, |part| match part.step {
            Step::Running => State::Running,
            Step::Preparing { .. } => State::Preparing,
            Step::Settling { .. } => State::SettlingPart,
            Step::Prepared => State::Prepared,
            Step::ReadOnly { .. } => State::ReadOnly,
            Step::Committing => State::Committing,
        })
    }

    /// A part arrives.
    pub(super) fn take(
        &mut self,
        number: TransactionNumber,
        age: Age,
        payload: Vec<u8>,
        turn: &mut Turn<'_>,
    ) {
        let newest = &mut self.newest[number.island.index()];
        let is_new = (number.opening, number.counter) > *newest;
        if (!is_new && !plant::is(Plant::PartRunsTwice)) || self.find(number).is_some() {
            return;
        }
        self.newest[number.island.index()] = (number.opening, number.counter);
        self.parts.push(Part { number, age, step: Step::Running });
        turn.act(Action::Await(Deadline::Patience(number)));
        turn.act(Action::Run(Work::Part { number, age, payload }));
    }

    pub(super) fn executed(
        &mut self,
        number: TransactionNumber,
        wrote: bool,
        result: Vec<u8>,
        turn: &mut Turn<'_>,
    ) {
        let Some(part) = self.find(number).filter(|part| part.step == Step::Running) else {
            return;
        };
        if wrote {
            turn.act(Action::Prepare { number, age: part.age });
            part.step = Step::Preparing { result };
            if plant::is(Plant::VotedBeforeDurable) {
                self.prepared(number, turn);
            }
        } else {
            turn.act(Action::Settle(number));
            part.step = Step::Settling { result };
            if plant::is(Plant::ReadsNotSettled) {
                self.settled(number, turn);
            }
        }
    }

    pub(super) fn prepared(&mut self, number: TransactionNumber, turn: &mut Turn<'_>) {
        let Some(part) = self.find(number) else { return };
        if let Step::Preparing { result } = &mut part.step {
            let vote = Vote::Yes { result: std::mem::take(result) };
            part.step = Step::Prepared;
            voted(number, vote, turn);
        }
    }

    pub(super) fn settled(&mut self, number: TransactionNumber, turn: &mut Turn<'_>) {
        let Some(part) = self.find(number) else { return };
        if let Step::Settling { result } = &mut part.step {
            let vote = Vote::ReadOnly { result: std::mem::take(result) };
            part.step = Step::ReadOnly { questions: 0 };
            voted(number, vote, turn);
            if plant::is(Plant::ReadLocksReleased) {
                turn.act(Action::Release(number));
            }
        }
    }

    pub(super) fn refused(&mut self, number: TransactionNumber, why: Vec<u8>, turn: &mut Turn<'_>) {
        let Some(part) = self.find(number) else { return };
        match part.step {
            Step::Running | Step::Preparing { .. } => {
                let vote = Vote::No(Objection::Refused { why });
                self.end(number, vote, turn);
            }
            Step::Committing => turn.act(Action::Await(Deadline::Retry(number))),
            Step::Settling { .. } | Step::Prepared | Step::ReadOnly { .. } => (),
        }
    }

    /// An older transaction has a lock that the part needs.
    pub(super) fn die(&mut self, number: TransactionNumber, turn: &mut Turn<'_>) {
        self.end(number, Vote::Die, turn);
    }

    /// The part goes, and its coordinator hears why.
    fn end(&mut self, number: TransactionNumber, vote: Vote, turn: &mut Turn<'_>) {
        self.remove(number);
        turn.act(Action::Release(number));
        turn.send(number.island, Message::Vote { number, vote });
    }

    pub(super) fn decided(
        &mut self,
        number: TransactionNumber,
        is_commit: bool,
        turn: &mut Turn<'_>,
    ) {
        let Some(part) = self.find(number) else {
            // The row went with a commit that is durable: the confirmation was lost.
            if is_commit {
                turn.send(number.island, Message::Confirmation { number });
            }
            return;
        };
        match part.step {
            Step::Prepared if is_commit => {
                part.step = Step::Committing;
                turn.act(Action::Commit { number, call: None, participants: Vec::new() });
            }
            // Said again.
            Step::Committing => (),
            _ => {
                self.remove(number);
                turn.act(Action::Release(number));
            }
        }
    }

    /// The part's commit holds no lock any more, but may not be durable.
    pub(super) fn ended(&mut self, number: TransactionNumber, turn: &mut Turn<'_>) {
        if plant::is(Plant::ConfirmedBeforeDurable) {
            self.durable(number, turn);
        }
    }

    pub(super) fn durable(&mut self, number: TransactionNumber, turn: &mut Turn<'_>) {
        if self.find(number).is_some_and(|part| part.step == Step::Committing) {
            self.remove(number);
            turn.send(number.island, Message::Confirmation { number });
        }
    }

    /// Neither vote nor decision came about in time.
    pub(super) fn impatient(&mut self, number: TransactionNumber, turn: &mut Turn<'_>) {
        let is_open = |part: &&mut Part| !part.step.is_voted();
        if self.find(number).filter(is_open).is_some() {
            self.end(number, Vote::No(Objection::Waited), turn);
        }
    }

    /// No decision came since the vote, or the last question.
    pub(super) fn ask(&mut self, number: TransactionNumber, turn: &mut Turn<'_>) {
        let Some(part) = self.find(number) else { return };
        match &mut part.step {
            Step::Prepared if plant::is(Plant::DoubtAborted) => {
                self.remove(number);
                turn.act(Action::Release(number));
            }
            Step::ReadOnly { questions } if *questions == QUESTIONS_MAX => {
                // Before the locks go: what runs without them may be heard of only together with this.
                turn.peers.end_tenure();
                self.remove(number);
                turn.act(Action::Release(number));
            }
            step @ (Step::Prepared | Step::ReadOnly { .. }) => {
                if let Step::ReadOnly { questions } = step {
                    *questions += 1;
                }
                turn.send(number.island, Message::Question { number });
                turn.act(Action::Await(Deadline::Ask(number)));
            }
            _ => (),
        }
    }

    /// A commit that found no room runs again.
    pub(super) fn retry(&mut self, number: TransactionNumber, turn: &mut Turn<'_>) {
        if self.find(number).is_some_and(|part| part.step == Step::Committing) {
            turn.act(Action::Commit { number, call: None, participants: Vec::new() });
        }
    }

    /// A coordinator cannot be reached: it aborts what it has no vote of.
    pub(super) fn broken(&mut self, coordinator: IslandId, turn: &mut Turn<'_>) {
        let is_lost = |part: &Part| part.number.island == coordinator && !part.step.is_voted();
        let lost = self.parts.extract_if(.., |part| is_lost(part));
        turn.out.extend(lost.map(|part| Action::Release(part.number)));
    }

    /// A coordinator can be reached again: what it said meanwhile is lost.
    pub(super) fn greeted(&self, coordinator: IslandId, turn: &mut Turn<'_>) {
        let waiting = |part: &&Part| matches!(part.step, Step::Prepared | Step::ReadOnly { .. });
        let of_it = self.parts.iter().filter(|part| part.number.island == coordinator);
        for part in of_it.filter(waiting) {
            turn.send(coordinator, Message::Question { number: part.number });
        }
    }
}

impl Step {
    const fn is_voted(&self) -> bool {
        matches!(self, Self::Prepared | Self::ReadOnly { .. } | Self::Committing)
    }
}

fn voted(number: TransactionNumber, vote: Vote, turn: &mut Turn<'_>) {
    turn.send(number.island, Message::Vote { number, vote });
    turn.act(Action::Await(Deadline::Ask(number)));
}
