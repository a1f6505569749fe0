//! Events that a [`Machine`](super::Machine) receives, and actions that it returns: its interface to threads, processes
//! and the simulator.
//!
//! A loop passes events in the order in which they happened, and carries actions out in the order in which they were
//! returned: local transactions run, and are answered, in that order. If the loop carries all actions out before it
//! looks for the next message, transactions that waited for a lock run before later ones, and none starves. Not here:
//! the effect of an event.

use super::identity::{Age, IslandId, TransactionNumber};
use super::message::Refusal;

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// A caller of this island wants a transaction over several.
    Begin {
        /// Identifies the caller in the answer.
        call: u64,
        /// What the caller's clock says.
        at: u64,
        /// The age of an earlier run.
        age: Option<Age>,
        /// Its parts, at most one of each island.
        parts: Vec<(IslandId, Vec<u8>)>,
    },
    /// There is a link to another island, the first or the next.
    LinkMade(IslandId),
    /// There is none any more: messages may be lost.
    LinkBroken(IslandId),
    /// A message came.
    Received {
        /// From there, by the link.
        from: IslandId,
        /// Its bytes.
        message: &'a [u8],
    },
    /// A part was executed: its changes are set aside, its locks are held.
    Executed {
        /// The transaction.
        number: TransactionNumber,
        /// Whether it has changes.
        wrote: bool,
        /// What it answers.
        result: Vec<u8>,
    },
    /// A part was not executed, not prepared or not committed. One that was not executed holds nothing.
    Refused {
        /// The transaction.
        number: TransactionNumber,
        /// The reason.
        why: Vec<u8>,
    },
    /// A part or a local transaction met a lock; what it did was undone.
    Held {
        /// The transaction that has the lock.
        by: TransactionNumber,
        /// What could not run.
        work: Work,
    },
    /// A part's row is durable.
    Prepared(TransactionNumber),
    /// All that a part read is durable.
    Settled(TransactionNumber),
    /// A part was committed or released: it holds no lock any more.
    Ended(TransactionNumber),
    /// A part's commit is durable.
    Durable(TransactionNumber),
    /// A deadline has passed. One that nothing waits for any more is ignored.
    Passed(Deadline),
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send this. If the link has broken, it is lost.
    Send {
        /// Where to.
        to: IslandId,
        /// The bytes.
        message: Vec<u8>,
    },
    /// Close the link and report why; the peer is not to be called again before it is another program.
    RefusePeer {
        /// The peer.
        peer: IslandId,
        /// The reason.
        why: Refusal,
    },
    /// Run it, under locks if a part is held. A part answers `Executed`, `Refused` or `Held`, a local transaction
    /// `Held` or its caller.
    Run(Work),
    /// Insert the part's row, with this age. Answers `Prepared` or `Refused`.
    Prepare {
        /// The transaction.
        number: TransactionNumber,
        /// Its age.
        age: Age,
    },
    /// Answers `Settled` when all that the part read is durable.
    Settle(TransactionNumber),
    /// Make the part's changes, if there is one; delete its row, if there is one; insert the decision's row if
    /// there are participants. All in one transaction. Answers `Ended` and then `Durable`, or `Refused`.
    Commit {
        /// The transaction.
        number: TransactionNumber,
        /// Its caller, if this island is the coordinator: every part was executed, so its last step may run now,
        /// and refuse the commit.
        call: Option<u64>,
        /// Those that prepared, if this island is the coordinator.
        participants: Vec<IslandId>,
    },
    /// Drop the part's changes and locks, delete its row. Answers `Ended`.
    Release(TransactionNumber),
    /// Delete the decision's row.
    Forget(TransactionNumber),
    /// Answer the caller of a transaction.
    Answer {
        /// The caller.
        call: u64,
        /// The answer.
        answer: Answer,
    },
    /// Answer a local transaction's caller that it waited for a lock too long.
    GiveUp {
        /// The caller.
        call: u64,
    },
    /// Say when this has passed.
    Await(Deadline),
}

/// What runs on an island, and may meet a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    /// A part of a transaction over several islands.
    Part {
        /// The transaction.
        number: TransactionNumber,
        /// Its age.
        age: Age,
        /// What is to be executed.
        payload: Vec<u8>,
    },
    /// A transaction of this island alone.
    Local {
        /// Identifies its caller.
        call: u64,
        /// What is to be executed.
        payload: Vec<u8>,
    },
}

/// What a machine waits for no longer than the loop's settings say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Deadline {
    /// All votes, or the locks and the log that a vote needs. Longer than an island takes to flush.
    Patience(TransactionNumber),
    /// A decision, before asking for it (again). At least a third of `Patience`.
    Ask(TransactionNumber),
    /// Before a commit that found no room runs again.
    Retry(TransactionNumber),
    /// The locks that a local transaction needs.
    Local(u64),
}

/// What a caller receives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is committed and durable.
    Committed {
        /// What the parts answer, in their order.
        results: Vec<Vec<u8>>,
    },
    /// It is not, and never will be.
    Aborted(Reason),
    /// The same; a conflict is the only reason. To be run again after a moment that grows with
    /// its runs, with this age.
    RunAgain(Age),
}

/// Why a transaction was aborted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A part was refused.
    Refused {
        /// Its island.
        island: IslandId,
        /// Its words.
        why: Vec<u8>,
    },
    /// There is no link to this island, or it broke before its vote.
    Unreachable(IslandId),
    /// Locks, the log or an island took too long.
    TimedOut,
}

/// What an island finds in its rows when it is opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Prepared parts. Their locks must be held before anything runs.
    pub prepared: Vec<(TransactionNumber, Age)>,
    /// Decisions, and who has not confirmed.
    pub decided: Vec<(TransactionNumber, Vec<IslandId>)>,
}

/// Where a transaction is on one island: as its coordinator, or as a participant. For inspection and statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// Its coordinator does not know it: aborted, or committed and confirmed.
    NoTransaction,
    /// Votes are missing, or the own part runs.
    Gathering,
    /// The same, and the own part waits for a lock.
    GatheringWaits,
    /// All parts only read; what the own one read becomes durable.
    Settling,
    /// The decision is written.
    Deciding,
    /// It is durable, and not confirmed by all.
    Decided,
    /// The participant does not know it.
    NoPart,
    /// Its part runs.
    Running,
    /// The part waits for a lock.
    Waiting,
    /// Its row is written.
    Preparing,
    /// What it read becomes durable.
    SettlingPart,
    /// It has voted yes.
    Prepared,
    /// It has voted that it only read.
    ReadOnly,
    /// It commits.
    Committing,
}
