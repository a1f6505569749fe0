//! Messages between islands about a transaction, and their bytes.
//!
//! ```text
//!    coordinator                               participant
//!        │ ◄─────────── Hello ──────────────────► │   a link was made: version, opening
//!        │ ── Part: execute, and prepare ───────► │
//!        │ ◄── Vote: yes, only read, no, die ──── │   everything that it read and wrote is durable
//!        │ ── Decision ─────────────────────────► │
//!        │ ◄── Confirmation ───────────────────── │   of a commit that was prepared
//!        │ ◄── Question ───────────────────────── │   voted, and no decision came; its answer is the decision
//! ```
//!
//! | bytes | field |
//! |---|---|
//! | 2 | version |
//! | 2, 2 | sender, receiver |
//! | 2 | number of islands |
//! | 8 each | the newest tenure of each island that the sender knows: opening, term |
//! | 1 | kind of message |
//! | rest | its fields; bytes of any length come last |
//!
//! Numbers are little endian. Not here: framing and checksums (`link/`), when messages are sent (`coordinator.rs`,
//! `participant.rs`).

use std::fmt;

use super::identity::{Age, IslandId, Tenure, Tenures, TransactionNumber};

/// The version of everything here: changes with any message.
pub const VERSION: u16 = 1;

/// What an island says to another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// The first message of each on a link: what follows can be understood.
    Hello,
    /// Execute this part and prepare it.
    Part {
        /// The transaction.
        number: TransactionNumber,
        /// Its age.
        age: Age,
        /// What is to be executed.
        payload: Vec<u8>,
    },
    /// What became of a part.
    Vote {
        /// The transaction.
        number: TransactionNumber,
        /// The vote.
        vote: Vote,
    },
    /// How a transaction ended, unasked or as the answer to a question.
    Decision {
        /// The transaction.
        number: TransactionNumber,
        /// Whether its changes are made.
        is_commit: bool,
    },
    /// A prepared part was committed, durably.
    Confirmation {
        /// The transaction.
        number: TransactionNumber,
    },
    /// How did it end?
    Question {
        /// The transaction.
        number: TransactionNumber,
    },
}

/// A participant's vote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Vote {
    /// The part is prepared, durably.
    Yes {
        /// What it answers.
        result: Vec<u8>,
    },
    /// The part changed nothing, and what it read is durable. Its locks stay until the decision.
    ReadOnly {
        /// What it answers.
        result: Vec<u8>,
    },
    /// It cannot be, and nothing of it is left.
    No(Objection),
    /// An older transaction is in the way: run again.
    Die,
}

/// Why a part cannot be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Objection {
    /// The procedure or the store refused it.
    Refused {
        /// Its words.
        why: Vec<u8>,
    },
    /// It waited too long, for a lock or for the log.
    Waited,
}

/// Why a message, and the link it came by, is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The peer speaks another version.
    Version {
        /// That one.
        theirs: u16,
    },
    /// The peer's database has another number of islands.
    Islands {
        /// That number.
        theirs: u16,
    },
    /// The peer is not the one that the link leads to, or does not mean this island.
    WrongIsland,
    /// The peer has seen a later opening of this island: an old copy of it was opened.
    LaterOpening,
    /// The bytes are no message.
    Malformed,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version { theirs } => write!(
                f,
                "the other island speaks version {theirs} of the commit protocol, this one version {VERSION}: \
                 run the same program"
            ),
            Self::Islands { theirs } => {
                write!(f, "the other island belongs to a database of {theirs} islands")
            }
            Self::WrongIsland => f.write_str("the link leads to another island than it should"),
            Self::LaterOpening => f.write_str(
                "the other island has seen a later opening of this one: this is an old copy",
            ),
            Self::Malformed => f.write_str("the other island said something that is no message"),
        }
    }
}

impl std::error::Error for Refusal {}

/// A message on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Envelope {
    pub(super) from: IslandId,
    pub(super) to: IslandId,
    /// What the sender has heard of, itself included.
    pub(super) tenures: Tenures,
    pub(super) message: Message,
}

const HELLO: u8 = 1;
const PART: u8 = 2;
const VOTE_YES: u8 = 3;
const VOTE_READ_ONLY: u8 = 4;
const VOTE_REFUSED: u8 = 5;
const VOTE_WAITED: u8 = 6;
const VOTE_DIE: u8 = 7;
const COMMIT: u8 = 8;
const ABORT: u8 = 9;
const CONFIRMATION: u8 = 10;
const QUESTION: u8 = 11;

/// Appends `number`.
fn put(out: &mut Vec<u8>, number: TransactionNumber) {
    out.extend_from_slice(&number.island.0.to_le_bytes());
    out.extend_from_slice(&number.opening.to_le_bytes());
    out.extend_from_slice(&number.counter.to_le_bytes());
}

/// Takes fields off the front of bytes; `None` where there are too few.
struct In<'a>(&'a [u8]);

impl In<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*taken)
    }

    fn island(&mut self) -> Option<IslandId> {
        self.take().map(|bytes| IslandId(u16::from_le_bytes(bytes)))
    }

    fn tenure(&mut self) -> Option<Tenure> {
        let opening = u32::from_le_bytes(self.take()?);
        Some(Tenure { opening, term: u32::from_le_bytes(self.take()?) })
    }

    fn number(&mut self) -> Option<TransactionNumber> {
        let island = self.island()?;
        let opening = u32::from_le_bytes(self.take()?);
        Some(TransactionNumber { island, opening, counter: u64::from_le_bytes(self.take()?) })
    }

    fn rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.0).to_vec()
    }
}

impl Message {
    /// Its transaction; a greeting has none.
    pub const fn number(&self) -> Option<TransactionNumber> {
        match self {
            Self::Hello => None,
            Self::Part { number, .. }
            | Self::Vote { number, .. }
            | Self::Decision { number, .. }
            | Self::Confirmation { number }
            | Self::Question { number } => Some(*number),
        }
    }

    const fn kind(&self) -> u8 {
        match self {
            Self::Hello => HELLO,
            Self::Part { .. } => PART,
            Self::Vote { vote: Vote::Yes { .. }, .. } => VOTE_YES,
            Self::Vote { vote: Vote::ReadOnly { .. }, .. } => VOTE_READ_ONLY,
            Self::Vote { vote: Vote::No(Objection::Refused { .. }), .. } => VOTE_REFUSED,
            Self::Vote { vote: Vote::No(Objection::Waited), .. } => VOTE_WAITED,
            Self::Vote { vote: Vote::Die, .. } => VOTE_DIE,
            Self::Decision { is_commit: true, .. } => COMMIT,
            Self::Decision { is_commit: false, .. } => ABORT,
            Self::Confirmation { .. } => CONFIRMATION,
            Self::Question { .. } => QUESTION,
        }
    }

    fn decode(mut from: In<'_>) -> Option<Self> {
        let [kind] = from.take()?;
        if kind == HELLO {
            return from.0.is_empty().then_some(Self::Hello);
        }
        let number = from.number()?;
        let vote = |vote| Self::Vote { number, vote };
        let message = match kind {
            PART => {
                let at = u64::from_le_bytes(from.take()?);
                let age = Age { at, first: from.number()? };
                Self::Part { number, age, payload: from.rest() }
            }
            VOTE_YES => vote(Vote::Yes { result: from.rest() }),
            VOTE_READ_ONLY => vote(Vote::ReadOnly { result: from.rest() }),
            VOTE_REFUSED => vote(Vote::No(Objection::Refused { why: from.rest() })),
            VOTE_WAITED => vote(Vote::No(Objection::Waited)),
            VOTE_DIE => vote(Vote::Die),
            COMMIT | ABORT => Self::Decision { number, is_commit: kind == COMMIT },
            CONFIRMATION => Self::Confirmation { number },
            QUESTION => Self::Question { number },
            _ => return None,
        };
        from.0.is_empty().then_some(message)
    }
}

impl Envelope {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64);
        let islands =
            u16::try_from(self.tenures.iter().len()).expect("islands are numbered by u16");
        for number in [VERSION, self.from.0, self.to.0, islands] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        for Tenure { opening, term } in self.tenures.iter() {
            out.extend_from_slice(&opening.to_le_bytes());
            out.extend_from_slice(&term.to_le_bytes());
        }
        out.push(self.message.kind());
        if let Some(number) = self.message.number() {
            put(&mut out, number);
        }
        match &self.message {
            Message::Part { age, payload, .. } => {
                out.extend_from_slice(&age.at.to_le_bytes());
                put(&mut out, age.first);
                out.extend_from_slice(payload);
            }
            Message::Vote { vote, .. } => match vote {
                Vote::Yes { result } | Vote::ReadOnly { result } => out.extend_from_slice(result),
                Vote::No(Objection::Refused { why }) => out.extend_from_slice(why),
                Vote::No(Objection::Waited) | Vote::Die => (),
            },
            _ => (),
        }
        out
    }

    /// The message for `me`, in a database of so many islands.
    pub(super) fn decode(bytes: &[u8], me: IslandId, islands: usize) -> Result<Self, Refusal> {
        let mut rest = In(bytes);
        // First, and understood by every version: the rest of another one's message may be anything.
        let theirs = u16::from_le_bytes(rest.take().ok_or(Refusal::Malformed)?);
        if theirs != VERSION {
            return Err(Refusal::Version { theirs });
        }
        let from = rest.island().ok_or(Refusal::Malformed)?;
        let to = rest.island().ok_or(Refusal::Malformed)?;
        let theirs = u16::from_le_bytes(rest.take().ok_or(Refusal::Malformed)?);
        if usize::from(theirs) != islands {
            return Err(Refusal::Islands { theirs });
        }
        if to != me || from == me || from.index() >= islands {
            return Err(Refusal::WrongIsland);
        }
        let tenures: Option<Tenures> = (0..islands).map(|_| rest.tenure()).collect();
        let tenures = tenures.ok_or(Refusal::Malformed)?;
        let message = Message::decode(rest).ok_or(Refusal::Malformed)?;
        if message.number().is_some_and(|number| number.island.index() >= islands) {
            return Err(Refusal::Malformed);
        }
        Ok(Self { from, to, tenures, message })
    }
}

/// The message in these bytes, for traces and statistics; `None` where they are none.
pub fn peek(bytes: &[u8]) -> Option<Message> {
    let (head, rest) = bytes.split_at_checked(8)?;
    let islands = usize::from(u16::from_le_bytes([head[6], head[7]]));
    Message::decode(In(rest.get(8 * islands..)?))
}

#[cfg(not(loom))]
#[cfg(test)]
mod tests {
    use super::*;

    const NUMBER: TransactionNumber =
        TransactionNumber { island: IslandId(2), opening: 7, counter: 1 << 40 };

    fn all() -> Vec<Message> {
        let number = NUMBER;
        let age = Age { at: 99, first: TransactionNumber { counter: 3, ..NUMBER } };
        let vote = |vote| Message::Vote { number, vote };
        vec![
            Message::Hello,
            Message::Part { number, age, payload: b"transfer".to_vec() },
            Message::Part { number, age, payload: Vec::new() },
            vote(Vote::Yes { result: b"done".to_vec() }),
            vote(Vote::ReadOnly { result: Vec::new() }),
            vote(Vote::No(Objection::Refused { why: b"no money".to_vec() })),
            vote(Vote::No(Objection::Waited)),
            vote(Vote::Die),
            Message::Decision { number, is_commit: true },
            Message::Decision { number, is_commit: false },
            Message::Confirmation { number },
            Message::Question { number },
        ]
    }

    fn envelope(message: Message) -> Envelope {
        let tenures = (0..3).map(|n| Tenure { opening: n, term: 10 * n }).collect();
        Envelope { from: IslandId(2), to: IslandId(1), tenures, message }
    }

    fn decode(bytes: &[u8]) -> Result<Envelope, Refusal> {
        Envelope::decode(bytes, IslandId(1), 3)
    }

    #[test]
    fn what_is_said_is_what_is_heard() {
        for message in all() {
            let bytes = envelope(message.clone()).encode();
            assert_eq!(decode(&bytes), Ok(envelope(message.clone())));
            assert_eq!(peek(&bytes), Some(message.clone()));
            let has_bytes = matches!(
                message,
                Message::Part { .. }
                    | Message::Vote { vote: Vote::Yes { .. } | Vote::ReadOnly { .. }, .. }
                    | Message::Vote { vote: Vote::No(Objection::Refused { .. }), .. }
            );
            let longer = decode(&[&bytes[..], &[0]].concat());
            assert_eq!(longer.is_ok(), has_bytes, "{message:?}");
        }
    }

    #[test]
    fn cut_bytes_are_no_message_or_a_shorter_one() {
        for message in all() {
            let bytes = envelope(message.clone()).encode();
            for end in 0..bytes.len() {
                assert_ne!(decode(&bytes[..end]), Ok(envelope(message.clone())));
                _ = peek(&bytes[..end]);
            }
        }
    }

    #[test]
    fn changed_bytes_never_panic() {
        for message in all() {
            let bytes = envelope(message).encode();
            for place in 0..bytes.len() {
                for flip in [1, 0x80, 0xff] {
                    let mut bytes = bytes.clone();
                    bytes[place] ^= flip;
                    _ = (decode(&bytes), peek(&bytes));
                }
            }
        }
    }

    #[test]
    fn strangers_are_refused_by_name() {
        let bytes = envelope(Message::Hello).encode();
        let changed = |place: usize, byte: u8| {
            let mut bytes = bytes.clone();
            bytes[place] = byte;
            decode(&bytes)
        };
        assert_eq!(changed(0, 9), Err(Refusal::Version { theirs: 9 }));
        assert_eq!(changed(2, 1), Err(Refusal::WrongIsland));
        assert_eq!(changed(2, 3), Err(Refusal::WrongIsland));
        assert_eq!(changed(4, 0), Err(Refusal::WrongIsland));
        assert_eq!(changed(6, 4), Err(Refusal::Islands { theirs: 4 }));
        assert_eq!(decode(&bytes[..30]), Err(Refusal::Malformed));
        assert_eq!(decode(&[]), Err(Refusal::Malformed));
        let text = Refusal::Version { theirs: 9 }.to_string();
        assert!(text.contains("version 9") && text.contains("version 1"), "{text}");
    }
}
