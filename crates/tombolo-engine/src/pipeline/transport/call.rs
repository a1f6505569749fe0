//! Calls and replies: the input and the output of the pipeline.
//!
//! A call chooses *when* its answer leaves ([`Durability`]). The reply's type ([`Reply`]) then shows whether the
//! answer is durable, so that no caller mistakes an answer that may still be lost for one that is on disk.
//!
//! Not here: running transactions (`executor.rs`), the callers (`callers/`).

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::pipeline::transport::queue::Load;
use crate::transaction::Stop;

/// The moment at which a call's answer leaves, in a pipeline with a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// Immediately, at pre-commit; a crash within `async_loss_ms_max` may lose it.
    Async,
    /// When its group is durable.
    #[default]
    Group,
    /// Like `Group`, but the group is closed and flushed immediately.
    Sync,
}

/// The reason that a transaction that ran has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The procedure aborted, or the store refused; it had no effect.
    Stopped(Stop),
    /// The procedure panicked, with this message; its transaction was undone.
    Panicked(Box<str>),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopped(stop) => stop.fmt(f),
            Self::Panicked(message) => write!(f, "aborted: the procedure panicked: {message}"),
        }
    }
}

impl std::error::Error for Failure {}

/// The outcome of a transaction that ran.
pub type Outcome<A> = Result<A, Failure>;

/// The reason that a call has no outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Not run: the log has no room for its records. Reads still run; retry when there is room.
    LogFull,
    /// Not run: its log limit exceeds the size of a group.
    TooLarge {
        /// Its log limit, in bytes.
        log_bytes: u64,
        /// The most bytes of a group.
        log_bytes_max: u64,
    },
    /// Not run: the input stage found the request invalid.
    Invalid(Box<str>),
    /// Not run: the pipeline is closed.
    Closed,
    /// Not run: an earlier failure stopped the pipeline, for this reason.
    Poisoned(Arc<str>),
    /// It ran, but because of a failure its outcome did not become durable or was not delivered: after a
    /// restart its effects may be there or not.
    Unknown(Arc<str>),
}

impl Refusal {
    /// Whether the same call may succeed when it is retried later.
    pub const fn retry(&self) -> bool {
        matches!(self, Self::LogFull)
    }

    /// Whether no further call will be answered.
    pub const fn poisons(&self) -> bool {
        matches!(self, Self::Poisoned(_) | Self::Unknown(_))
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LogFull => f.write_str(
                "the log is full, so nothing is written; reads continue: make room on its disk, \
                 then try again",
            ),
            Self::TooLarge { log_bytes, log_bytes_max } => write!(
                f,
                "the transaction may log {log_bytes} bytes, a group of the log holds \
                 {log_bytes_max}: split it"
            ),
            Self::Invalid(what) => write!(f, "the request is not valid: {what}"),
            Self::Closed => f.write_str("the database is closed"),
            Self::Poisoned(reason) => {
                write!(f, "the database is poisoned and answers no more: {reason}")
            }
            Self::Unknown(reason) => {
                write!(f, "it is unknown whether the transaction survives a restart: {reason}")
            }
        }
    }
}

impl std::error::Error for Refusal {}

/// The reply to a caller.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Reply<A> {
    /// The outcome, durable together with everything the transaction read.
    Durable(Outcome<A>),
    /// The outcome, in memory only: a crash within `async_loss_ms_max` may lose it, or what it
    /// read.
    PreCommitted(Outcome<A>),
    /// The outcome, in memory only: this pipeline has no log.
    Volatile(Outcome<A>),
    /// There is no outcome.
    Refused(Refusal),
}

impl<A> Reply<A> {
    /// The outcome, regardless of its durability.
    ///
    /// # Errors
    /// The refusal, when there is no outcome.
    pub fn outcome(self) -> Result<Outcome<A>, Refusal> {
        match self {
            Self::Durable(outcome) | Self::PreCommitted(outcome) | Self::Volatile(outcome) => {
                Ok(outcome)
            }
            Self::Refused(refusal) => Err(refusal),
        }
    }
}

/// The id of a caller: its slot in the register of callers, and the slot's generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CallerId {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

/// A request under way.
#[derive(Debug)]
pub struct Call<R> {
    /// The request itself; the stages before execution may change it in place.
    pub request: R,
    pub(crate) tag: u64,
    pub(crate) caller: CallerId,
    pub(crate) durability: Durability,
}

impl<R> Call<R> {
    /// The number under which its caller finds the reply.
    pub const fn tag(&self) -> u64 {
        self.tag
    }

    /// The reply to this call.
    pub(crate) const fn reply<A>(&self, reply: Reply<A>) -> Answered<A> {
        Answered { caller: self.caller, tag: self.tag, reply }
    }
}

/// A reply under way. In a batch that waits for the log, [`Reply::Durable`] is what it will
/// be once the logging stage releases it.
#[derive(Debug)]
pub(crate) struct Answered<A> {
    pub(crate) caller: CallerId,
    pub(crate) tag: u64,
    pub(crate) reply: Reply<A>,
}

/// The room that a call takes in a queue: its own size, and the memory that its request owns elsewhere.
pub(crate) fn call_load<R>(request_bytes: fn(&R) -> usize, request: &R) -> Load {
    let bytes = size_of::<Call<R>>() + request_bytes(request);
    Load { transactions: 1, bytes: bytes as u64 }
}

/// Runs user code outside of transactions: waking, dropping. A panic in it does not affect this thread.
pub fn guarded(work: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(work));
}

/// Drops values that may own user values, one by one in place, including those left after a panic.
pub(crate) fn drop_guarded<T>(items: &mut Vec<T>) {
    while !items.is_empty() {
        guarded(|| {
            while let Some(left) = items.len().checked_sub(1) {
                items.truncate(left);
            }
        });
    }
}
