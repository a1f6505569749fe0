//! The coordinator: transactions over several islands that this island's callers began.
//!
//! ```text
//!     begin
//!       │   parts leave, the island's own one runs
//!   Gathering ──all yes, something was written──► Deciding ──durable──► Decided ──all confirmed──► gone
//!       │  │                                         │  the caller is answered, the decision leaves
//!       │  └─all only read─► Settling ──settled──────┼──────────► gone: the same, without a row
//!       │                                            │ refused
//!       └── no, die, refused, unreachable, a read-only vote whose tenure ended, too late ──► aborted: gone
//! ```
//!
//! - Gathering: nothing is decided; a crash aborts.
//! - Settling: every lock is held everywhere; what the own part read becomes durable.
//! - Deciding: one local transaction commits the own part, with a row if a participant prepared. A crash decides.
//! - Decided: the row names the participants that have not confirmed. An opening finds transactions in this state.
//! - Gone: a participant that asks gets the answer *abort*. If the transaction had committed, every prepared
//!   participant has confirmed; one that only read releases its locks whatever the answer (presumed abort).
//!
//! There must be one moment at which all locks of a transaction were held. When the last vote arrives, each part that
//! wrote holds its locks, by its row; a part that only read holds them if the tenure in which it voted has not ended.
//! Suppose that it had ended, and that another transaction took the lost locks before the last part ran. That
//! transaction ended first, so a chain of messages leads from its vote to the last part's vote, and carries the new
//! tenure. So the coordinator compares the votes with the tenures that it knows, and need not ask.
//!
//! Not here: waiting for locks (`waits.rs`), parts of other coordinators (`participant.rs`).

use tombolo_storage::plant::{self, Plant};

use super::event::{Action, Answer, Deadline, Reason, State, Work};
use super::identity::{Age, IslandId, Tenure, TransactionNumber};
use super::message::{Message, Objection, Vote};
use super::peers::Turn;

#[derive(Debug)]
struct Transaction {
    number: TransactionNumber,
    age: Age,
    /// None: it was found at an opening.
    call: Option<u64>,
    step: Step,
    /// In the order of the caller. Once decided: those that have not confirmed.
    parts: Vec<Part>,
}

#[derive(Debug)]
struct Part {
    island: IslandId,
    done: Option<Done>,
}

/// What a part has said; the own part says it without a vote.
#[derive(Debug)]
struct Done {
    result: Vec<u8>,
    wrote: bool,
    tenure: Tenure,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Gathering,
    Settling,
    Deciding,
    Decided,
}

#[derive(Debug)]
pub(super) struct Coordinator {
    opening: u32,
    /// Numbers given in this opening.
    given: u64,
    /// A few at a time.
    transactions: Vec<Transaction>,
}

impl Transaction {
    fn part(&mut self, island: IslandId) -> Option<&mut Part> {
        self.parts.iter_mut().find(|part| part.island == island)
    }

    fn has_part(&self, island: IslandId) -> bool {
        self.parts.iter().any(|part| part.island == island)
    }

    fn answer(&self, answer: Answer, turn: &mut Turn<'_>) {
        turn.out.extend(self.call.map(|call| Action::Answer { call, answer }));
    }

    /// The caller hears of a commit.
    fn committed(&mut self, turn: &mut Turn<'_>) {
        let done = self.parts.iter_mut().map(|part| part.done.as_mut());
        let result = |done: Option<&mut Done>| done.map(|done| std::mem::take(&mut done.result));
        let results = done.map(|done| result(done).unwrap_or_default()).collect();
        self.answer(Answer::Committed { results }, turn);
    }

    fn tell(&self, is_commit: bool, turn: &mut Turn<'_>) {
        let (number, me) = (self.number, turn.peers.me);
        for part in self.parts.iter().filter(|part| part.island != me) {
            turn.send(part.island, Message::Decision { number, is_commit });
        }
    }
}

impl Coordinator {
    /// With the decisions that an opening found.
    pub(super) fn open(opening: u32, decided: Vec<(TransactionNumber, Vec<IslandId>)>) -> Self {
        let is_lost = plant::is(Plant::DecisionForgotten);
        let part = |island| Part { island, done: None };
        let transaction =
            |(number, participants): (TransactionNumber, Vec<IslandId>)| Transaction {
                number,
                age: Age { at: 0, first: number },
                call: None,
                step: Step::Decided,
                parts: participants.into_iter().map(part).collect(),
            };
        let found = decided.into_iter().filter(|_| !is_lost);
        Self { opening, given: 0, transactions: found.map(transaction).collect() }
    }

    fn find(&mut self, number: TransactionNumber) -> Option<&mut Transaction> {
        self.transactions.iter_mut().find(|transaction| transaction.number == number)
    }

    fn take(&mut self, number: TransactionNumber) -> Option<Transaction> {
        let place = self.transactions.iter().position(|found| found.number == number)?;
        Some(self.transactions.remove(place))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.transactions.is_empty()
    }

    /// The transactions in which that island has a part.
    pub(super) fn numbers_of(&self, island: IslandId) -> impl Iterator<Item = TransactionNumber> {
        let of_it = self.transactions.iter().filter(move |found| found.has_part(island));
        of_it.map(|found| found.number)
    }

    pub(super) fn age(&self, number: TransactionNumber) -> Option<Age> {
        let transaction = self.transactions.iter().find(|found| found.number == number);
        transaction.map(|transaction| transaction.age)
    }

    pub(super) fn state(&self, number: TransactionNumber) -> State {
        let transaction = self.transactions.iter().find(|found| found.number == number);
        transaction.map_or(State::NoTransaction, |transaction| match transaction.step {
            Step::Gathering => State::Gathering,
            Step::Settling => State::Settling,
            Step::Deciding => State::Deciding,
            Step::Decided => State::Decided,
        })
    }

    pub(super) fn begin(
        &mut self,
        call: u64,
        at: u64,
        age: Option<Age>,
        parts: Vec<(IslandId, Vec<u8>)>,
        turn: &mut Turn<'_>,
    ) {
        let is_reached = |island| island == turn.peers.me || turn.peers.is_reached(island);
        if let Some((island, _)) = parts.iter().find(|(island, _)| !is_reached(*island)) {
            let answer = Answer::Aborted(Reason::Unreachable(*island));
            turn.act(Action::Answer { call, answer });
            return;
        }
        self.given += 1;
        let (island, opening, counter) = (turn.peers.me, self.opening, self.given);
        let number = TransactionNumber { island, opening, counter };
        let age = age.unwrap_or(Age { at, first: number });
        let mut transaction =
            Transaction { number, age, call: Some(call), step: Step::Gathering, parts: Vec::new() };
        turn.act(Action::Await(Deadline::Patience(number)));
        for (island, payload) in parts {
            assert!(!transaction.has_part(island), "a transaction has one part of {island}");
            transaction.parts.push(Part { island, done: None });
            if island == turn.peers.me {
                turn.act(Action::Run(Work::Part { number, age, payload }));
            } else {
                turn.send(island, Message::Part { number, age, payload });
            }
        }
        self.transactions.push(transaction);
        self.proceed(number, turn);
    }

    /// The own part was executed.
    pub(super) fn executed(
        &mut self,
        number: TransactionNumber,
        wrote: bool,
        result: Vec<u8>,
        turn: &mut Turn<'_>,
    ) {
        let done = Done { result, wrote, tenure: turn.peers.tenure(turn.peers.me) };
        self.done(number, turn.peers.me, done, turn);
    }

    /// A participant votes; `tenure` is its own when it sent that.
    pub(super) fn vote(
        &mut self,
        from: IslandId,
        number: TransactionNumber,
        vote: Vote,
        tenure: Tenure,
        turn: &mut Turn<'_>,
    ) {
        let transaction = self.find(number);
        let Some(transaction) = transaction.filter(|found| found.step != Step::Decided) else {
            if matches!(vote, Vote::Yes { .. } | Vote::ReadOnly { .. }) {
                self.asked(from, number, turn);
            }
            return;
        };
        // Said again.
        let is_needed = |part: &mut Part| part.done.is_none();
        if !transaction.part(from).is_some_and(is_needed) {
            return;
        }
        let wrote = matches!(vote, Vote::Yes { .. });
        match vote {
            Vote::Yes { result } | Vote::ReadOnly { result } => {
                self.done(number, from, Done { result, wrote, tenure }, turn);
            }
            Vote::No(_) if plant::is(Plant::NoIgnored) => {
                let result = Vec::new();
                self.done(number, from, Done { result, wrote, tenure }, turn);
            }
            Vote::No(objection) => {
                // Nothing of the part is left there.
                transaction.parts.retain(|part| part.island != from);
                let reason = match objection {
                    Objection::Refused { why } => Reason::Refused { island: from, why },
                    Objection::Waited => Reason::TimedOut,
                };
                self.abort(number, Answer::Aborted(reason), turn);
            }
            Vote::Die => {
                transaction.parts.retain(|part| part.island != from);
                self.die(number, turn);
            }
        }
    }

    fn done(
        &mut self,
        number: TransactionNumber,
        island: IslandId,
        done: Done,
        turn: &mut Turn<'_>,
    ) {
        let gathering = self.find(number).filter(|found| found.step == Step::Gathering);
        let Some(part) = gathering.and_then(|found| found.part(island)) else { return };
        part.done = Some(done);
        self.proceed(number, turn);
    }

    /// Decides if all parts are done.
    fn proceed(&mut self, number: TransactionNumber, turn: &mut Turn<'_>) {
        let transaction = self.find(number).expect("it was gathering just now");
        let done = |part: &Part| part.done.is_some();
        if !transaction.parts.iter().all(done) {
            return;
        }
        let wrote = |part: &Part| part.done.as_ref().is_some_and(|done| done.wrote);
        // By its row, or by being in this memory, a part that wrote holds its locks.
        let holds = |part: &Part| {
            let tenure = part.done.as_ref().map(|done| done.tenure);
            wrote(part) || tenure == Some(turn.peers.tenure(part.island))
        };
        if !transaction.parts.iter().all(holds) && !plant::is(Plant::TenureIgnored) {
            self.die(number, turn);
        } else if transaction.parts.iter().any(wrote) {
            transaction.step = Step::Deciding;
            let call = transaction.call;
            let remote = transaction.parts.iter().filter(|part| part.island != turn.peers.me);
            let mut participants: Vec<IslandId> =
                remote.filter(|part| wrote(part)).map(|part| part.island).collect();
            if plant::is(Plant::DecisionNotWritten) && participants.len() == 1 {
                participants.clear();
            }
            turn.act(Action::Commit { number, call, participants });
            if plant::is(Plant::DecisionSentEarly) {
                transaction.tell(true, turn);
            }
        } else if transaction.has_part(turn.peers.me) {
            transaction.step = Step::Settling;
            turn.act(Action::Settle(number));
        } else {
            self.only_read(number, turn);
        }
    }

    /// What the own part read is durable.
    pub(super) fn settled(&mut self, number: TransactionNumber, turn: &mut Turn<'_>) {
        if self.find(number).is_some_and(|found| found.step == Step::Settling) {
            turn.act(Action::Release(number));
            self.only_read(number, turn);
        }
    }

    fn only_read(&mut self, number: TransactionNumber, turn: &mut Turn<'_>) {
        let mut transaction = self.take(number).expect("it was found just now");
        transaction.tell(true, turn);
        transaction.committed(turn);
    }

    /// The decision holds no lock any more, but may not be durable.
    pub(super) fn ended(&mut self, number: TransactionNumber, turn: &mut Turn<'_>) {
        if plant::is(Plant::AnsweredBeforeDecision)
            && let Some(transaction) = self.find(number)
            && transaction.step == Step::Deciding
        {
            transaction.committed(turn);
            transaction.call = None;
        }
    }

    /// The decision is durable.
    pub(super) fn durable(&mut self, number: TransactionNumber, turn: &mut Turn<'_>) {
        let deciding = self.find(number).filter(|found| found.step == Step::Deciding);
        let Some(transaction) = deciding else { return };
        // First: where islands are processes, a caller that has its answer may outlive this one, and in memory no
        // other could be asked what it had decided.
        transaction.tell(true, turn);
        transaction.committed(turn);
        let prepared = |part: &Part| part.done.as_ref().is_some_and(|done| done.wrote);
        transaction.parts.retain(|part| part.island != turn.peers.me && prepared(part));
        transaction.step = Step::Decided;
        if transaction.parts.is_empty() {
            self.take(number);
        }
    }

    pub(super) fn refused(&mut self, number: TransactionNumber, why: Vec<u8>, turn: &mut Turn<'_>) {
        let refusable = [Step::Gathering, Step::Deciding];
        if self.find(number).is_some_and(|found| refusable.contains(&found.step)) {
            let answer = Answer::Aborted(Reason::Refused { island: turn.peers.me, why });
            self.abort(number, answer, turn);
        }
    }

    /// An older transaction has a lock that a part needs, or a vote does not hold any more.
    pub(super) fn die(&mut self, number: TransactionNumber, turn: &mut Turn<'_>) {
        if let Some(age) = self.age(number) {
            self.abort(number, Answer::RunAgain(age), turn);
        }
    }

    fn abort(&mut self, number: TransactionNumber, answer: Answer, turn: &mut Turn<'_>) {
        let Some(transaction) = self.take(number) else { return };
        transaction.answer(answer, turn);
        if transaction.has_part(turn.peers.me) {
            turn.act(Action::Release(number));
        }
        transaction.tell(false, turn);
    }

    pub(super) fn confirmed(
        &mut self,
        from: IslandId,
        number: TransactionNumber,
        turn: &mut Turn<'_>,
    ) {
        let decided = self.find(number).filter(|found| found.step == Step::Decided);
        let Some(transaction) = decided else { return };
        transaction.parts.retain(|part| part.island != from);
        if transaction.parts.is_empty() || plant::is(Plant::ForgottenEarly) {
            self.take(number);
            turn.act(Action::Forget(number));
        }
    }

    /// A participant has voted and does not know the decision.
    pub(super) fn asked(&mut self, from: IslandId, number: TransactionNumber, turn: &mut Turn<'_>) {
        let transaction = self.find(number);
        let is_commit = match transaction.map(|found| (found.step, found.has_part(from))) {
            Some((Step::Decided, unconfirmed)) => unconfirmed,
            Some(_) if !plant::is(Plant::UndecidedIsAborted) => return,
            Some(_) => false,
            None => plant::is(Plant::ForgottenIsCommitted),
        };
        turn.send(from, Message::Decision { number, is_commit });
    }

    /// The votes did not come in time.
    pub(super) fn impatient(&mut self, number: TransactionNumber, turn: &mut Turn<'_>) {
        if self.find(number).is_some_and(|found| found.step == Step::Gathering) {
            self.abort(number, Answer::Aborted(Reason::TimedOut), turn);
        }
    }

    /// An island cannot be reached: its votes, or what they would answer, may be lost.
    pub(super) fn broken(&mut self, island: IslandId, turn: &mut Turn<'_>) {
        let is_open = |part: &Part| part.island == island && part.done.is_none();
        let is_lost =
            |found: &&Transaction| found.step == Step::Gathering && found.parts.iter().any(is_open);
        let lost = self.transactions.iter().filter(is_lost).map(|found| found.number);
        for number in lost.collect::<Vec<_>>() {
            self.abort(number, Answer::Aborted(Reason::Unreachable(island)), turn);
        }
    }

    /// An island can be reached again: decisions may be lost, or their confirmations.
    pub(super) fn greeted(&self, island: IslandId, turn: &mut Turn<'_>) {
        let decided = self.transactions.iter().filter(|found| found.step == Step::Decided);
        for found in decided.filter(|found| found.has_part(island)) {
            if !plant::is(Plant::DecisionNotRepeated) {
                let message = Message::Decision { number: found.number, is_commit: true };
                turn.send(island, message);
            }
        }
    }
}
