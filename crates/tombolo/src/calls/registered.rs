//! Procedures and closures under the caller's hand: calling, submitting, with or without waiting.
//!
//! Not here: what travels (`envelope.rs`), the way in (`database.rs`).

use std::fmt;
use std::sync::Arc;

use super::envelope::{Body, Envelope, Lone, Registration};
use super::options::{CallOptions, Promise, Settled};
use super::pending::Pending;
use crate::database::{Core, Patience};
use crate::error::Error;
use crate::tx::Tx;
use tombolo_engine::transaction::Stop;

/// Makes envelopes for calls with `I`.
trait Envelopes<I>: Send + Sync {
    fn envelope(self: Arc<Self>, input: I) -> Box<dyn Envelope>;
    fn name(&self) -> &'static str;
}

impl<B: Body> Envelopes<B::Input> for Registration<B> {
    fn envelope(self: Arc<Self>, input: B::Input) -> Box<dyn Envelope> {
        Registration::envelope(self, input)
    }

    fn name(&self) -> &'static str {
        Registration::name(self)
    }
}

/// A procedure or closure of one database, ready to be called by any thread. Cloning it is cheap;
/// it may outlive its [`Database`](crate::Database), which then is closed.
///
/// Calling it allocates nothing once as many calls as are ever under way have been: what travels to
/// the execution thread and back is used again. Calls that one thread submits run in their order.
///
/// ```
/// # use tombolo::{Database, Error, Stop};
/// let db = Database::in_memory()?;
/// let half = db.register_closure("half", |_, n: &i64| match n % 2 {
///     0 => Ok(n / 2),
///     _ => Err(Stop::Abort("odd")),
/// });
/// assert_eq!(half.call(8)?, 4);
/// assert_eq!(half.call(7), Err(Error::Aborted("odd")));
/// let pending = half.submit(6)?;
/// assert_eq!(pending.wait()?, 3);
/// # Ok::<(), Error>(())
/// ```
pub struct Registered<I, A, W = Settled> {
    envelopes: Arc<dyn Envelopes<I>>,
    core: Arc<Core>,
    options: CallOptions<W>,
    answer: std::marker::PhantomData<fn() -> A>,
}

/// Why a call was not taken in without waiting; its input, or closure, comes back.
#[derive(Clone)]
pub struct NotSubmitted<I> {
    /// What was to be called with.
    pub input: I,
    /// Why it was not: [`Error::QueueFull`] if trying again later may help.
    pub error: Error,
}

impl<I> fmt::Display for NotSubmitted<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<I> fmt::Debug for NotSubmitted<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NotSubmitted").field("error", &self.error).finish_non_exhaustive()
    }
}

impl<I> std::error::Error for NotSubmitted<I> {}

impl<I> From<NotSubmitted<I>> for Error {
    fn from(not: NotSubmitted<I>) -> Self {
        not.error
    }
}

/// A body under the caller's hand, with default options.
pub(crate) fn register<B: Body>(
    core: &Arc<Core>,
    name: &'static str,
    body: B,
) -> Registered<B::Input, B::Answer> {
    Registered {
        envelopes: Arc::new(Registration::new(body, name)),
        core: core.clone(),
        options: CallOptions::new(),
        answer: std::marker::PhantomData,
    }
}

impl<I, A, W: Promise> Registered<I, A, W>
where
    I: Send + 'static,
    A: Send + 'static,
{
    /// The same procedure, called with other options.
    pub fn with<V: Promise>(&self, options: CallOptions<V>) -> Registered<I, A, V> {
        Registered {
            envelopes: self.envelopes.clone(),
            core: self.core.clone(),
            options,
            answer: std::marker::PhantomData,
        }
    }

    /// Calls it and sleeps until the answer is there.
    ///
    /// # Errors
    /// Why there is no answer; see [`Error`].
    pub fn call(&self, input: I) -> Result<W::Answer<A>, Error> {
        let envelope = self.envelopes.clone().envelope(input);
        let ticket = self.core.submit(envelope, &self.options, Patience::Waits);
        self.core.wait::<A, W>(ticket.map_err(refused)?)
    }

    /// Calls it without waiting for the answer; where the queue is full, waits for room in it.
    ///
    /// # Errors
    /// Why the call was not taken in.
    pub fn submit(&self, input: I) -> Result<Pending<A, W>, Error> {
        let envelope = self.envelopes.clone().envelope(input);
        let ticket = self.core.submit(envelope, &self.options, Patience::Waits);
        Ok(Pending::new(self.core.clone(), ticket.map_err(refused)?))
    }

    /// Calls it without waiting for anything.
    ///
    /// # Errors
    /// The input and the reason: [`Error::QueueFull`] where there is no room now.
    pub fn try_submit(&self, input: I) -> Result<Pending<A, W>, NotSubmitted<I>> {
        let envelope = self.envelopes.clone().envelope(input);
        match self.core.submit(envelope, &self.options, Patience::None) {
            Ok(ticket) => Ok(Pending::new(self.core.clone(), ticket)),
            Err((envelope, error)) => Err(given_back(envelope, error)),
        }
    }
}

impl<I, A, W: Copy> Clone for Registered<I, A, W> {
    fn clone(&self) -> Self {
        Self {
            envelopes: self.envelopes.clone(),
            core: self.core.clone(),
            options: self.options,
            answer: std::marker::PhantomData,
        }
    }
}

impl<I, A, W: fmt::Debug> fmt::Debug for Registered<I, A, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut registered = f.debug_struct("Registered");
        registered.field("name", &self.envelopes.name()).field("options", &self.options);
        registered.finish_non_exhaustive()
    }
}

/// Keeps only why an envelope was not taken in; it is used again.
fn refused((envelope, error): (Box<dyn Envelope>, Error)) -> Error {
    envelope.recycle();
    error
}

/// Takes its input out of an envelope that was not taken in.
fn given_back<I: 'static>(mut envelope: Box<dyn Envelope>, error: Error) -> NotSubmitted<I> {
    let input = envelope.input().downcast_mut::<Option<I>>().and_then(Option::take);
    let Some(input) = input else { unreachable!("a call that has not run has its input") };
    envelope.recycle();
    NotSubmitted { input, error }
}

/// Closures as transactions, each with the same options; see [`Database::with`](crate::Database::with).
#[derive(Debug)]
pub struct Transactions<'d, W = Settled> {
    core: &'d Arc<Core>,
    options: CallOptions<W>,
}

impl<'d, W: Promise> Transactions<'d, W> {
    pub(crate) const fn new(core: &'d Arc<Core>, options: CallOptions<W>) -> Self {
        Self { core, options }
    }

    /// Runs a closure as one transaction and sleeps until its answer is there; see
    /// [`Database::transaction`](crate::Database::transaction).
    ///
    /// # Errors
    /// Why there is no answer; see [`Error`].
    pub fn transaction<A, F>(&self, closure: F) -> Result<W::Answer<A>, Error>
    where
        F: FnOnce(&mut Tx<'_>) -> Result<A, Stop> + Send + 'static,
        A: Send + 'static,
    {
        let ticket = self.core.submit(Lone::envelope(closure), &self.options, Patience::Waits);
        self.core.wait::<A, W>(ticket.map_err(refused)?)
    }

    /// The same without waiting for the answer; where the queue is full, waits for room in it.
    ///
    /// # Errors
    /// Why the closure was not taken in.
    pub fn submit<A, F>(&self, closure: F) -> Result<Pending<A, W>, Error>
    where
        F: FnOnce(&mut Tx<'_>) -> Result<A, Stop> + Send + 'static,
        A: Send + 'static,
    {
        let ticket = self.core.submit(Lone::envelope(closure), &self.options, Patience::Waits);
        Ok(Pending::new(self.core.clone(), ticket.map_err(refused)?))
    }

    /// The same without waiting for anything.
    ///
    /// # Errors
    /// The closure and the reason: [`Error::QueueFull`] where there is no room now.
    pub fn try_submit<A, F>(&self, closure: F) -> Result<Pending<A, W>, NotSubmitted<F>>
    where
        F: FnOnce(&mut Tx<'_>) -> Result<A, Stop> + Send + 'static,
        A: Send + 'static,
    {
        match self.core.submit(Lone::envelope(closure), &self.options, Patience::None) {
            Ok(ticket) => Ok(Pending::new(self.core.clone(), ticket)),
            Err((envelope, error)) => Err(given_back(envelope, error)),
        }
    }
}
