//! Coverage: the pairs of state and event that occurred; a simulation proves nothing about a pair that never did.
//!
//! Not here: the machine's reaction.

use std::collections::BTreeMap;

use serde::Serialize;
use tombolo_engine::islands::commit::{
    Deadline, Event, Message, State, TransactionNumber, Vote, Work, peek,
};

/// An event, as far as a state may treat it in its own way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// A part arrives.
    Part,
    /// A vote yes.
    Yes,
    /// A vote of a part that only read.
    ReadOnly,
    /// A vote no.
    No,
    /// A vote of a part that met an older transaction.
    Die,
    /// The decision, to commit.
    Commit,
    /// The decision, to abort.
    Abort,
    /// A confirmation.
    Confirmation,
    /// A question.
    Question,
    /// A link was made again, with one of the transaction's islands.
    Hello,
    /// It broke.
    Broken,
    /// The part on this island was executed.
    Executed,
    /// It was refused, or its preparation or commit.
    Refused,
    /// It met a lock.
    Held,
    /// Its row is durable.
    Prepared,
    /// What it read is durable.
    Settled,
    /// It holds no lock any more.
    Ended,
    /// Its commit is durable.
    Durable,
    /// Patience has ended.
    Patience,
    /// It is time to ask.
    Ask,
    /// It is time to try a commit again.
    Retry,
}

/// The pairs that can happen. A message of or to an earlier opening is one, too, though nothing follows from it. A part
/// comes again only behind a break, which ends what has not voted.
const POSSIBLE: [(State, &[Kind]); 14] = {
    use Kind::*;
    use State as S;
    const LATE: &[Kind] =
        &[Yes, ReadOnly, No, Die, Confirmation, Question, Executed, Refused, Held, Ended, Patience];
    const GATHERING: &[Kind] =
        &[Yes, ReadOnly, No, Die, Question, Hello, Broken, Executed, Refused, Held, Patience];
    const WAITS: &[Kind] = &[Yes, ReadOnly, No, Die, Question, Hello, Broken, Patience];
    const DECIDING: &[Kind] =
        &[Yes, ReadOnly, Question, Hello, Broken, Refused, Ended, Durable, Patience];
    const DECIDED: &[Kind] = &[Yes, ReadOnly, Confirmation, Question, Hello, Broken, Patience];
    const LATE_HERE: &[Kind] =
        &[Part, Commit, Abort, Executed, Refused, Held, Prepared, Settled, Ended, Patience, Ask];
    const VOTED: &[Kind] = &[Part, Commit, Abort, Hello, Broken, Patience, Ask];
    const COMMITTING: &[Kind] =
        &[Part, Commit, Hello, Broken, Refused, Ended, Durable, Patience, Ask, Retry];
    [
        (S::NoTransaction, LATE),
        (S::Gathering, GATHERING),
        (S::GatheringWaits, WAITS),
        (S::Settling, &[ReadOnly, Question, Hello, Broken, Settled, Patience]),
        (S::Deciding, DECIDING),
        (S::Decided, DECIDED),
        (S::NoPart, LATE_HERE),
        (S::Running, &[Abort, Hello, Broken, Executed, Refused, Held, Patience]),
        (S::Waiting, &[Abort, Hello, Broken, Patience]),
        (S::Preparing, &[Abort, Hello, Broken, Refused, Prepared, Patience]),
        (S::SettlingPart, &[Abort, Hello, Broken, Settled, Patience]),
        (S::Prepared, VOTED),
        (S::ReadOnly, VOTED),
        (S::Committing, COMMITTING),
    ]
};

/// How often each pair was reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage(BTreeMap<(State, Kind), u64>);

impl Coverage {
    pub(super) fn add(&mut self, state: State, kind: Kind) {
        *self.0.entry((state, kind)).or_default() += 1;
    }

    /// Adds another's counts to these.
    pub fn merge(&mut self, other: &Self) {
        other.0.iter().for_each(|(pair, count)| *self.0.entry(*pair).or_default() += count);
    }

    /// Which pairs that can happen did, and which did not.
    pub fn reached(&self) -> Reached {
        let pairs =
            POSSIBLE.iter().flat_map(|(state, kinds)| kinds.iter().map(|kind| (*state, *kind)));
        let (reached, missing): (Vec<_>, Vec<_>) =
            pairs.partition(|pair| self.0.contains_key(pair));
        let unforeseen = self.0.keys().filter(|pair| !reached.contains(pair));
        let name = |(state, kind): &(State, Kind)| format!("{state:?} × {kind:?}");
        Reached {
            missing: missing.iter().map(name).collect(),
            unforeseen: unforeseen.map(name).collect(),
            reached: reached.len(),
        }
    }

    /// For people.
    pub fn text(&self) -> String {
        let Reached { reached, missing, unforeseen } = self.reached();
        let mut out =
            format!("{reached} of {} pairs of state and event reached\n", reached + missing.len());
        missing.iter().for_each(|pair| out += &format!("  never      {pair}\n"));
        unforeseen.iter().for_each(|pair| out += &format!("  unforeseen {pair}\n"));
        out
    }
}

impl Reached {
    /// Whether nothing is missing, and nothing is there that cannot be.
    pub fn is_complete(&self) -> bool {
        self.missing.is_empty() && self.unforeseen.is_empty()
    }
}

/// Pairs of a state and an event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reached {
    /// Those that can happen and did.
    pub reached: usize,
    /// Those that can happen and did not.
    pub missing: Vec<String>,
    /// Those that happened though they cannot.
    pub unforeseen: Vec<String>,
}

/// The kind of an event and the transaction that it is about. Events of links are about several.
pub(super) fn about(event: &Event<'_>) -> Option<(Kind, TransactionNumber)> {
    let (kind, number) = match event {
        Event::Received { message, .. } => return said(&peek(message)?),
        Event::Executed { number, .. } => (Kind::Executed, number),
        Event::Refused { number, .. } => (Kind::Refused, number),
        Event::Held { work: Work::Part { number, .. }, .. } => (Kind::Held, number),
        Event::Prepared(number) => (Kind::Prepared, number),
        Event::Settled(number) => (Kind::Settled, number),
        Event::Ended(number) => (Kind::Ended, number),
        Event::Durable(number) => (Kind::Durable, number),
        Event::Passed(Deadline::Patience(number)) => (Kind::Patience, number),
        Event::Passed(Deadline::Ask(number)) => (Kind::Ask, number),
        Event::Passed(Deadline::Retry(number)) => (Kind::Retry, number),
        Event::Held { work: Work::Local { .. }, .. }
        | Event::Passed(Deadline::Local(_))
        | Event::Begin { .. }
        | Event::LinkMade(_)
        | Event::LinkBroken(_) => return None,
    };
    Some((kind, *number))
}

fn said(message: &Message) -> Option<(Kind, TransactionNumber)> {
    let kind = match message {
        Message::Hello => return None,
        Message::Part { .. } => Kind::Part,
        Message::Vote { vote: Vote::Yes { .. }, .. } => Kind::Yes,
        Message::Vote { vote: Vote::ReadOnly { .. }, .. } => Kind::ReadOnly,
        Message::Vote { vote: Vote::No(_), .. } => Kind::No,
        Message::Vote { vote: Vote::Die, .. } => Kind::Die,
        Message::Decision { is_commit: true, .. } => Kind::Commit,
        Message::Decision { is_commit: false, .. } => Kind::Abort,
        Message::Confirmation { .. } => Kind::Confirmation,
        Message::Question { .. } => Kind::Question,
    };
    Some((kind, message.number()?))
}
