//! The options of a call: its durability, its deadline, its log limit.
//!
//! An early answer has a type of its own: options are `CallOptions<Settled>` or
//! `CallOptions<Early>`, which determines the type of the call's answer. Not here: settings of the whole
//! database (`builder.rs`).

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use crate::error::Error;

/// The moment at which answers that wait for durability leave, in a database with a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// When the transaction's group is on disk: many callers share a flush.
    #[default]
    Group,
    /// Like `Group`, but the group is flushed immediately, regardless of the settings of its size and time.
    Sync,
}

/// Answers that leave when everything they report is durable (in a database in memory: committed).
#[derive(Clone, Copy, Debug)]
pub enum Settled {}

/// Answers that may leave before everything they report is durable, as [`PreCommitted`] or [`EarlyError`].
#[derive(Clone, Copy, Debug)]
pub enum Early {}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Settled {}
    impl Sealed for super::Early {}
}

/// The promise of an answer: [`Settled`] or [`Early`].
pub trait Promise: sealed::Sealed + Copy + Send + 'static {
    /// The type in which an answer `A` is returned.
    type Answer<A>;
    /// The type in which the error of a transaction, or of an earlier one with its request id, is returned.
    type Error: From<Error> + Into<Error>;
    /// Whether answers leave at pre-commit.
    #[doc(hidden)]
    const IS_EARLY: bool;
    /// Wraps an answer.
    #[doc(hidden)]
    fn answer<A>(answer: A, is_durable: bool) -> Self::Answer<A>;
    /// Wraps an error.
    #[doc(hidden)]
    fn error(error: Error, is_durable: bool) -> Self::Error;
}

impl Promise for Settled {
    type Answer<A> = A;
    type Error = Error;
    const IS_EARLY: bool = false;
    fn answer<A>(answer: A, _: bool) -> A {
        answer
    }
    fn error(error: Error, _: bool) -> Error {
        error
    }
}

impl Promise for Early {
    type Answer<A> = PreCommitted<A>;
    type Error = EarlyError;
    const IS_EARLY: bool = true;
    fn answer<A>(answer: A, is_durable: bool) -> PreCommitted<A> {
        PreCommitted { answer, is_durable }
    }
    fn error(error: Error, is_durable: bool) -> EarlyError {
        EarlyError { error, is_durable }
    }
}

/// An answer that did not wait: all later transactions see what it reports, but a crash within
/// `async_loss_ms_max` (a setting) may lose it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct PreCommitted<A> {
    answer: A,
    is_durable: bool,
}

impl<A> PreCommitted<A> {
    /// The answer.
    pub fn into_inner(self) -> A {
        self.answer
    }

    /// The answer.
    pub const fn get(&self) -> &A {
        &self.answer
    }

    /// Whether everything it reports happened to be durable already, which is often so for reads.
    pub const fn is_durable(&self) -> bool {
        self.is_durable
    }
}

/// The error of a call that did not wait for durability, and whether a crash may still undo the state that the
/// error reports: that a key existed already, that a request id had committed, what the transaction saw when it
/// aborted. `?` converts it to an [`Error`] in functions that return one.
///
/// ```
/// use tombolo::{CallOptions, Database, Error, Stop};
///
/// let db = Database::in_memory()?;
/// let early = db.with(CallOptions::new().early());
/// let refused = early.transaction(|_| Err::<(), _>(Stop::Abort("sold out"))).unwrap_err();
/// assert_eq!(refused.error(), &Error::Aborted("sold out"));
/// assert!(!refused.is_durable()); // in memory nothing is
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EarlyError {
    error: Error,
    is_durable: bool,
}

impl EarlyError {
    /// The error.
    pub fn into_inner(self) -> Error {
        self.error
    }

    /// The error.
    pub const fn error(&self) -> &Error {
        &self.error
    }

    /// Whether everything it reports is durable: everything that the failed transaction saw was, or nothing ran
    /// that a crash could undo.
    pub const fn is_durable(&self) -> bool {
        self.is_durable
    }
}

/// For a call that did not run, or whose end is unknown: there is nothing to lose.
impl From<Error> for EarlyError {
    fn from(error: Error) -> Self {
        Self { error, is_durable: true }
    }
}

impl From<EarlyError> for Error {
    fn from(early: EarlyError) -> Self {
        early.error
    }
}

impl fmt::Display for EarlyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for EarlyError {}

/// The options of a call: durability, deadline, log limit.
///
/// ```
/// use std::time::Duration;
/// use tombolo::{CallOptions, Database};
///
/// let db = Database::in_memory()?;
/// let options = CallOptions::new().within(Duration::from_secs(5)).read_only();
/// assert_eq!(db.with(options).transaction(|_| Ok(6 * 7))?, 42);
///
/// // An early answer has another type: it may still be lost.
/// let answer = db.with(CallOptions::new().early()).transaction(|_| Ok("soon"))?;
/// assert_eq!(answer.into_inner(), "soon");
/// # Ok::<(), tombolo::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct CallOptions<W = Settled> {
    pub(crate) durability: Option<Durability>,
    pub(crate) deadline: Option<Duration>,
    pub(crate) log_bytes_max: Option<u64>,
    pub(crate) request_id: Option<u128>,
    promise: PhantomData<fn() -> W>,
}

impl Default for CallOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl CallOptions {
    /// The defaults: the database's durability, no deadline, 64 KB of log.
    pub const fn new() -> Self {
        Self {
            durability: None,
            deadline: None,
            log_bytes_max: None,
            request_id: None,
            promise: PhantomData,
        }
    }

    /// Answers leave when their group is on disk.
    pub const fn group(mut self) -> Self {
        self.durability = Some(Durability::Group);
        self
    }

    /// Answers leave when their group is on disk; the flush is requested immediately.
    pub const fn sync(mut self) -> Self {
        self.durability = Some(Durability::Sync);
        self
    }

    /// Answers leave at pre-commit, as [`PreCommitted`], and errors as [`EarlyError`].
    pub const fn early(self) -> CallOptions<Early> {
        let Self { deadline, log_bytes_max, request_id, .. } = self;
        CallOptions { durability: None, deadline, log_bytes_max, request_id, promise: PhantomData }
    }
}

impl<W> CallOptions<W> {
    /// Sets a deadline. The call does not begin later, and a closure still running then is ended at
    /// one of its next calls of [`Tx`](crate::Tx), or at a row that a scan visits, and undone
    /// ([`Error::Expired`](crate::Error::Expired) in both cases). A thread that waits for the answer stops
    /// waiting ([`Error::TimedOut`](crate::Error::TimedOut)). A future, which cannot wake itself, ends
    /// when the database answers. Nothing ends a closure that computes without calling `Tx`, nor a
    /// [procedure](crate::procedure).
    pub const fn within(mut self, time: Duration) -> Self {
        self.deadline = Some(time);
        self
    }

    /// The most bytes that the transaction may write to the log: about the size of the rows it creates and
    /// of the columns it changes, and 16 bytes for each. This much room is reserved before it
    /// runs. A write that exceeds it is refused
    /// ([`Error::LogTooLong`](crate::Error::LogTooLong)), and so are all later ones, and the transaction is
    /// undone. A database in memory counts the bytes that it would log, and enforces the same limit.
    pub const fn log_bytes_max(mut self, bytes: u64) -> Self {
        self.log_bytes_max = Some(bytes);
        self
    }

    /// Sets the request id.
    pub(super) const fn request_id(mut self, id: u128) -> Self {
        self.request_id = Some(id);
        self
    }

    /// Declares that the transaction only reads. Such calls still run while the log has no room for others. A
    /// write is refused, and the transaction undone.
    pub const fn read_only(self) -> Self {
        self.log_bytes_max(0)
    }
}
