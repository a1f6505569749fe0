//! `Registered` and `Transactions`: calling and submitting procedures and closures, with or without waiting.
//!
//! Not here: envelopes (`envelope.rs`), the path into the pipeline (`core.rs`).

use std::any::Any;
use std::fmt;
use std::mem::needs_drop;
use std::ops::Deref;
use std::sync::Arc;

use super::envelope::{Body, Envelope, Lone, Registration};
use super::held::held_bytes;
use super::identified::Outcome;
use super::once::Once;
use super::options::{CallOptions, Promise, Settled};
use super::pending::Pending;
use super::runner::Runner;
use crate::core::{Core, Patience};
use crate::error::{Error, Stop};
use crate::product::Product;
use crate::tx::{Guards, Tables, Tx};
use tombolo_engine::hints::Hints;
use tombolo_engine::pipeline::{Terms, guarded};
use tombolo_engine::procedure::Ahead;

/// Code with input `I` and answer `A`: carried by its caller, or sent in an envelope.
trait Callable<I, A>: Send + Sync {
    /// Runs it as one transaction and puts its outcome into `ended`; returns the number of bytes logged.
    fn carry(
        &self,
        runner: &mut Runner,
        log_bytes_max: u64,
        input: &I,
        ended: &mut Option<Result<A, Stop>>,
    ) -> usize;
    fn envelope(self: Arc<Self>, input: I, held: usize) -> Box<dyn Envelope>;
    fn name(&self) -> &'static str;
    /// The same as one step of a transaction over several islands.
    fn step(&self, input: I) -> Box<dyn Step + '_>;
}

impl<B: Body> Callable<B::Input, B::Answer> for Registration<B> {
    fn carry(
        &self,
        runner: &mut Runner,
        log_bytes_max: u64,
        input: &B::Input,
        ended: &mut Option<Result<B::Answer, Stop>>,
    ) -> usize {
        Registration::carry(self, runner, log_bytes_max, input, ended)
    }

    fn envelope(self: Arc<Self>, input: B::Input, held: usize) -> Box<dyn Envelope> {
        Registration::envelope(self, input, held)
    }

    fn name(&self) -> &'static str {
        Registration::name(self)
    }

    fn step(&self, input: B::Input) -> Box<dyn Step + '_> {
        Box::new(OneStep { code: Code::Lent(self), input, answer: None })
    }
}

/// A step of a transaction over several islands.
pub(crate) trait Step: Send {
    /// Prefetches the rows that it will read, and notes them.
    fn look_ahead(&self, store: &Product, ahead: Ahead, hints: &mut Hints);
    /// Runs it within the open transaction of `store`, with what looking ahead found, and keeps its answer instead of
    /// an earlier run's.
    fn run(
        &mut self,
        store: &mut Product,
        guard: Guards<'_>,
        tables: &Tables,
        hints: &Hints,
    ) -> Result<(), Stop>;
    /// The answer of its last run, an `Option` of its type.
    fn answer(&self) -> &dyn Any;
    /// The same, to be taken.
    fn answer_mut(&mut self) -> &mut dyn Any;
    /// The same step, for threads that may outlive its caller's wait.
    fn owned(self: Box<Self>) -> Box<dyn Step>;
}

/// The code of a step. Lent while its caller's thread runs it: counting who has it would write to memory that all
/// callers share.
enum Code<'p, B: Body> {
    Lent(&'p Registration<B>),
    Own(Arc<Registration<B>>),
}

impl<B: Body> Deref for Code<'_, B> {
    type Target = Registration<B>;

    fn deref(&self) -> &Registration<B> {
        match self {
            Self::Lent(registration) => registration,
            Self::Own(registration) => registration,
        }
    }
}

/// A call as a step.
struct OneStep<'p, B: Body> {
    code: Code<'p, B>,
    input: B::Input,
    answer: Option<B::Answer>,
}

impl<B: Body> Step for OneStep<'_, B> {
    fn look_ahead(&self, store: &Product, ahead: Ahead, hints: &mut Hints) {
        self.code.look_ahead(store, &self.input, ahead, hints);
    }

    fn run(
        &mut self,
        store: &mut Product,
        guard: Guards<'_>,
        tables: &Tables,
        hints: &Hints,
    ) -> Result<(), Stop> {
        self.answer = Some(self.code.run_step(store, guard, tables, &self.input, hints)?);
        Ok(())
    }

    fn answer(&self) -> &dyn Any {
        &self.answer
    }

    fn answer_mut(&mut self) -> &mut dyn Any {
        &mut self.answer
    }

    fn owned(self: Box<Self>) -> Box<dyn Step> {
        let Self { code, input, answer } = *self;
        Box::new(OneStep { code: Code::Own(code.own()), input, answer })
    }
}

/// A procedure or closure of one database, callable by any thread. Cloning it is cheap. It may
/// outlive its [`Database`](crate::Database); calls then find the database closed.
///
/// Envelopes are reused, so calls allocate only when more of them are under way than ever before. Calls
/// submitted by one thread run in the order of submission.
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
    callable: Arc<dyn Callable<I, A>>,
    core: Arc<Core>,
    options: CallOptions<W>,
    /// The same options, in the form for calls that their caller carries.
    terms: Option<Terms>,
    /// Measures the memory that an input owns elsewhere.
    input_bytes: fn(&I) -> usize,
}

/// A call that was started.
pub(crate) enum Started<A, W: Promise> {
    Ended(Result<W::Answer<A>, W::Error>),
    Pending(Pending<A, W>),
}

/// The reason that a call could not be queued without waiting, with its input or closure.
#[derive(Clone)]
pub struct NotSubmitted<I> {
    /// The input, or the closure.
    pub input: I,
    /// The reason: [`Error::QueueFull`] if a later retry may succeed.
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

/// Registers a body, with default options.
pub(crate) fn register<B: Body>(
    core: &Arc<Core>,
    name: &'static str,
    body: B,
) -> Registered<B::Input, B::Answer> {
    let options = CallOptions::new();
    Registered {
        callable: Registration::new(body, name),
        core: core.clone(),
        options,
        terms: core.terms(&options),
        input_bytes: held_bytes::<B::Input>,
    }
}

impl<I, A, W: Promise> Registered<I, A, W>
where
    I: Send + 'static,
    A: Send + 'static,
{
    /// The same procedure, called with other options.
    pub fn with<V: Promise>(&self, options: CallOptions<V>) -> Registered<I, A, V> {
        let (callable, core, input_bytes) =
            (self.callable.clone(), self.core.clone(), self.input_bytes);
        let terms = core.terms(&options);
        Registered { callable, core, options, terms, input_bytes }
    }

    /// The same procedure, to be called once with this request id; see
    /// [`Database::once`](crate::Database::once).
    pub fn once(&self, id: u128) -> Once<Self> {
        Once(self.with(self.options.request_id(id)))
    }

    /// The same procedure with `measure`, which returns how many bytes an input owns outside itself: the setting
    /// `queue_bytes_max` bounds the waiting inputs by this and their own size.
    ///
    /// Strings, byte vectors, vectors of numbers or of these, and pairs of a number and one of them are counted by
    /// default. For any other type that owns memory, such as a struct with a string in it, nothing is counted:
    /// a program that submits many large inputs should give their size here. Answers are not counted, wherever
    /// they wait, because the caller has to take them.
    ///
    /// ```
    /// # use tombolo::Database;
    /// # struct Document { body: Vec<u8> }
    /// # let db = Database::in_memory()?;
    /// let store = db.register_closure("store", |_, document: &Document| Ok(document.body.len()));
    /// let store = store.input_bytes(|document| document.body.capacity());
    /// assert_eq!(store.call(Document { body: vec![0; 1_000] })?, 1_000);
    /// # Ok::<(), tombolo::Error>(())
    /// ```
    pub fn input_bytes(mut self, measure: fn(&I) -> usize) -> Self {
        self.input_bytes = measure;
        self
    }

    /// The same on another island of its database.
    pub(crate) fn on(&self, core: &Arc<Core>) -> Self {
        Self { core: core.clone(), terms: core.terms(&self.options), ..self.clone() }
    }

    /// One call as a step of a transaction over several islands.
    pub(crate) fn step(&self, input: I) -> Box<dyn Step + '_> {
        self.callable.step(input)
    }

    /// An envelope with `input`.
    #[inline]
    fn envelope(&self, input: I) -> Box<dyn Envelope> {
        // A type that needs no drop owns nothing.
        let held = if needs_drop::<I>() { (self.input_bytes)(&input) } else { 0 };
        self.callable.clone().envelope(input, held)
    }

    /// Calls it and blocks until the answer arrives.
    ///
    /// # Errors
    /// The reason that there is no answer; see [`Error`].
    pub fn call(&self, input: I) -> Result<W::Answer<A>, W::Error> {
        let carried = self.core.carry::<A, W>(self.terms, |runner, log_bytes_max, ended| {
            self.callable.carry(runner, log_bytes_max, &input, ended)
        });
        if let Some(answer) = carried {
            if needs_drop::<I>() {
                guarded(move || drop(input)); // a panic in there takes no answer away
            }
            return answer;
        }
        self.core.call_queued(self.envelope(input), &self.options)
    }

    /// Runs it at once if nothing has to become durable for that and its island is free, otherwise queues it.
    pub(crate) fn start(&self, input: I) -> Started<A, W> {
        if !self.core.is_durable() {
            let carried = self.core.carry::<A, W>(self.terms, |runner, log_bytes_max, ended| {
                self.callable.carry(runner, log_bytes_max, &input, ended)
            });
            if let Some(answer) = carried {
                return Started::Ended(answer);
            }
        }
        match self.submit(input) {
            Ok(pending) => Started::Pending(pending),
            Err(error) => Started::Ended(Err(error.into())),
        }
    }

    /// Calls it without waiting for the answer; if the queue is full, waits for room in it.
    ///
    /// # Errors
    /// The reason that the call was not queued.
    pub fn submit(&self, input: I) -> Result<Pending<A, W>, Error> {
        let envelope = self.envelope(input);
        let ticket = self.core.queue(envelope, &self.options, Patience::Waits)?;
        Ok(Pending::new(self.core.clone(), ticket))
    }

    /// Calls it without waiting for anything.
    ///
    /// # Errors
    /// The input and the reason: [`Error::QueueFull`] if there is no room now.
    pub fn try_submit(&self, input: I) -> Result<Pending<A, W>, NotSubmitted<I>> {
        let envelope = self.envelope(input);
        match self.core.submit(envelope, &self.options, Patience::None) {
            Ok(ticket) => Ok(Pending::new(self.core.clone(), ticket)),
            Err((envelope, error)) => Err(given_back(envelope, error)),
        }
    }
}

impl<I, A, W: Copy> Clone for Registered<I, A, W> {
    fn clone(&self) -> Self {
        let (callable, core) = (self.callable.clone(), self.core.clone());
        let (options, terms, input_bytes) = (self.options, self.terms, self.input_bytes);
        Self { callable, core, options, terms, input_bytes }
    }
}

impl<I, A, W: fmt::Debug> fmt::Debug for Registered<I, A, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut registered = f.debug_struct("Registered");
        registered.field("name", &self.callable.name()).field("options", &self.options);
        registered.finish_non_exhaustive()
    }
}

/// Takes the input out of an envelope that was not queued.
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
    input_bytes: usize,
}

impl<'d, W: Promise> Transactions<'d, W> {
    pub(crate) const fn new(core: &'d Arc<Core>, options: CallOptions<W>) -> Self {
        Self { core, options, input_bytes: 0 }
    }

    /// States how many bytes each closure owns outside itself; they count towards the bound of waiting calls
    /// (the setting `queue_bytes_max`). By default only a closure's own size is counted.
    pub const fn input_bytes(mut self, bytes: usize) -> Self {
        self.input_bytes = bytes;
        self
    }

    /// One closure, with these options and this request id; see [`Database::once`](crate::Database::once).
    pub const fn once(&self, id: u128) -> Once<Self> {
        let Self { core, options, input_bytes } = *self;
        Once(Self { core, options: options.request_id(id), input_bytes })
    }

    /// Runs a closure as one transaction and blocks until its answer arrives; see
    /// [`Database::transaction`](crate::Database::transaction).
    ///
    /// # Errors
    /// The reason that there is no answer; see [`Error`].
    pub fn transaction<A, F>(&self, closure: F) -> Result<W::Answer<A>, W::Error>
    where
        F: FnOnce(&mut Tx<'_>) -> Result<A, Stop> + Send + 'static,
        A: Send + 'static,
    {
        let mut closure = Some(closure);
        let terms = self.core.terms(&self.options);
        let carried = self.core.carry::<A, W>(terms, |runner, log_bytes_max, ended| {
            if runner.holds_parts() {
                return 0; // it may have to run again
            }
            let Some(closure) = closure.take() else { unreachable!("it runs once") };
            Lone::carry(closure, runner, log_bytes_max, ended)
        });
        match (carried, closure) {
            (Some(answer), _) => answer,
            (None, Some(closure)) => {
                self.core.call_queued(Lone::envelope(closure, self.input_bytes), &self.options)
            }
            (None, None) => unreachable!("a closure that ran has an outcome"),
        }
    }

    /// The outcome of the call with this request id; see [`Database::outcome`](crate::Database::outcome).
    ///
    /// # Errors
    /// The reason that there is no answer; see [`Error`].
    pub fn outcome(&self, request_id: u128) -> Result<W::Answer<Outcome>, W::Error> {
        self.reading().transaction(move |tx| tx.outcome(request_id))
    }

    /// The same without waiting for the answer, which can be awaited.
    ///
    /// # Errors
    /// The reason that the query was not queued.
    pub fn submit_outcome(&self, request_id: u128) -> Result<Pending<Outcome, W>, Error> {
        self.reading().submit(move |tx| tx.outcome(request_id))
    }

    /// The same, for closures that only read.
    fn reading(&self) -> Self {
        Self { core: self.core, options: self.options.read_only(), input_bytes: 0 }
    }

    /// Submits a closure like [`Transactions::transaction`], without waiting for the answer; if the queue
    /// is full, waits for room in it.
    ///
    /// # Errors
    /// The reason that the closure was not queued.
    pub fn submit<A, F>(&self, closure: F) -> Result<Pending<A, W>, Error>
    where
        F: FnOnce(&mut Tx<'_>) -> Result<A, Stop> + Send + 'static,
        A: Send + 'static,
    {
        let envelope = Lone::envelope(closure, self.input_bytes);
        let ticket = self.core.queue(envelope, &self.options, Patience::Waits)?;
        Ok(Pending::new(self.core.clone(), ticket))
    }

    /// The same without waiting for anything.
    ///
    /// # Errors
    /// The closure and the reason: [`Error::QueueFull`] if there is no room now.
    pub fn try_submit<A, F>(&self, closure: F) -> Result<Pending<A, W>, NotSubmitted<F>>
    where
        F: FnOnce(&mut Tx<'_>) -> Result<A, Stop> + Send + 'static,
        A: Send + 'static,
    {
        match self.core.submit(
            Lone::envelope(closure, self.input_bytes),
            &self.options,
            Patience::None,
        ) {
            Ok(ticket) => Ok(Pending::new(self.core.clone(), ticket)),
            Err((envelope, error)) => Err(given_back(envelope, error)),
        }
    }
}
