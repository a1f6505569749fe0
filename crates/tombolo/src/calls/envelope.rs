//! Envelopes: the boxes that travel through the pipeline with a call's input, and later with its outcome.
//!
//! A [`Body`] is the code of a call: a registered procedure or closure. Its envelopes are reused
//! for later calls of the same body; a closure that runs once gets an envelope of its own. Not here: running
//! calls (`runner.rs`) and waiting for them (`reply_slots.rs`). Invariant: an idle envelope holds neither input
//! nor outcome, nor its registration, which would keep itself alive.

use std::any::{Any, type_name};
use std::marker::PhantomData;
use std::panic::resume_unwind;
use std::sync::{Arc, Weak};

use tombolo_engine::hints::Hints;
use tombolo_engine::procedure::{Ahead, Procedure};
use tombolo_storage::error::{Error as StoreError, SchemaError};
use tombolo_storage::owner::Owner;
use tombolo_storage::schema::Schema;
use tombolo_storage::sync::Mutex;

use super::identified::Outcome;
use super::runner::{Runner, unless_held};
use crate::error::Stop;
use crate::product::{GuardedProduct, Product};
use crate::tx::{self, Guards, Tables, Tx};

/// How a call ended.
pub(crate) enum Ran<A> {
    /// It ran to its end.
    Ended(Result<A, Stop>),
    /// It did not run, or not to its end.
    Otherwise(Otherwise),
}

/// The end of a call that has no outcome of its own.
pub(crate) enum Otherwise {
    /// A call with its request id ran before, with this outcome.
    Repeated(Outcome),
    /// It was ended before it began, or the store refused to remember its request id.
    Stopped(Stop),
    /// It panicked with this message.
    Panicked(Box<str>),
}

/// How a call's turn ended, for the statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    Committed,
    Aborted,
    /// The store had no memory for it; later it may.
    NoRoom,
    Panicked,
    /// It did not run: a call with its request id did before.
    Repeated,
    /// Its deadline passed before its end.
    Expired,
    /// It was cancelled before its end.
    Cancelled,
}

impl How {
    pub(super) const fn of<A>(outcome: &Result<A, Stop>) -> Self {
        match outcome {
            Ok(_) => Self::Committed,
            Err(stop) => Self::stopped(stop),
        }
    }

    pub(crate) const fn stopped(stop: &Stop) -> Self {
        match stop {
            Stop::Error(StoreError::DeadlinePassed) => Self::Expired,
            Stop::Error(StoreError::Cancelled) => Self::Cancelled,
            Stop::Error(StoreError::NoSpace { .. }) => Self::NoRoom,
            _ => Self::Aborted,
        }
    }
}

/// A call on its way in.
pub(crate) struct Request {
    /// Present until the call is answered.
    pub(crate) envelope: Option<Box<dyn Envelope>>,
    /// The latest time at which it may begin, or a closure may continue, on the database's clock.
    pub(crate) deadline_ns: u64,
    /// The most it may write to the log, in bytes.
    pub(crate) log_bytes_max: u64,
}

impl Request {
    /// The bytes that it owns outside itself.
    pub(crate) fn bytes(&self) -> usize {
        self.envelope.as_ref().map_or(0, |envelope| envelope.bytes())
    }
}

/// A call of any type.
pub(crate) trait Envelope: Send {
    /// Runs it as one transaction; returns how that ended.
    fn run(&mut self, store: &mut Product, tables: &mut Tables) -> How;
    /// The same while parts of transactions are held. If it met a lock, an owner of one: then it has no outcome
    /// and still has its input. What cannot run again, or is no transaction of rows, runs when nothing is held.
    fn run_guarded(
        &mut self,
        store: &mut GuardedProduct<'_>,
        tables: &mut Tables,
    ) -> Result<How, Owner> {
        let (store, guard) = store.parts();
        guard.holder().map_or_else(|| Ok(self.run(store, tables)), Err)
    }
    /// What only an island among others understands, if it is no call.
    fn of_islands(&mut self) -> Option<&mut dyn Any> {
        None
    }
    /// Prefetches the rows that it will read, if they are known.
    fn locate(&self, store: &Product, ahead: Ahead, hints: &mut Hints) {
        let _ = (store, ahead, hints);
    }
    /// Ends the call this way instead of running it.
    fn end_otherwise(&mut self, how: Otherwise);
    /// Whether it is a transaction of the application, which a trace notes.
    fn is_noted(&self) -> bool {
        true
    }
    /// Its name in reports.
    fn name(&self) -> &'static str;
    /// Its size while it is queued, including memory that its input is known to own.
    fn bytes(&self) -> usize {
        size_of_val(self)
    }
    /// Its input, an `Option` of its type, present until it has run.
    fn input(&mut self) -> &mut dyn Any;
    /// Its outcome, an `Option<Ran<_>>`.
    fn ran(&mut self) -> &mut dyn Any;
    /// Empties it and, if it can be reused, returns it to its pool.
    fn recycle(self: Box<Self>) {}
}

/// The code of a registered call.
pub(crate) trait Body: Send + Sync + 'static {
    /// The type of its input.
    type Input: Send + 'static;
    /// The type of its answer.
    type Answer: Send + 'static;

    /// Runs it as one transaction.
    fn run(
        &self,
        store: &mut Product,
        guard: Guards<'_>,
        tables: &Tables,
        input: &Self::Input,
    ) -> Result<Self::Answer, Stop>;

    /// Runs it as a step of the open transaction of `store`, with what looking ahead found.
    fn step(
        &self,
        store: &mut Product,
        guard: Guards<'_>,
        tables: &Tables,
        input: &Self::Input,
        hints: &Hints,
    ) -> Result<Self::Answer, Stop>;

    /// Prefetches the rows that the transaction will read.
    fn locate(&self, store: &Product, input: &Self::Input, ahead: Ahead, hints: &mut Hints) {
        let _ = (store, input, ahead, hints);
    }
}

/// A procedure, bound to the database's tables.
pub(crate) struct ProcedureBody<P> {
    procedure: P,
    /// The database's number in its handles.
    database: u32,
    /// The same procedure, bound again after a table or index was dropped.
    again: Mutex<Option<(u32, P)>>,
}

impl<B> ProcedureBody<B>
where
    B: Procedure<Input: Send + 'static, Answer: Send + 'static> + Send + Sync + 'static,
{
    /// # Errors
    /// As [`Procedure::bind`].
    pub(crate) fn bind(schema: &Schema) -> Result<Self, SchemaError> {
        let (procedure, database) = (B::bind(schema)?, schema.database());
        Ok(Self { procedure, database, again: Mutex::new(None) })
    }

    /// Runs it with the current handles, because a table or index it was bound to may have been dropped.
    #[cold]
    #[inline(never)]
    fn run_again(
        &self,
        store: &mut Product,
        guard: Guards<'_>,
        tables: &Tables,
        input: &B::Input,
    ) -> Result<B::Answer, Stop> {
        let mut again = self.again.lock();
        let bound = match again.take() {
            Some(bound) if bound.0 == tables.database => bound,
            _ => {
                let bound = B::bind(&tables.known().get());
                (tables.database, bound.map_err(|_| Stop::Error(StoreError::Dropped))?)
            }
        };
        let (_, procedure) = again.insert(bound);
        let ended = match guard {
            None => procedure.call(store, input),
            Some(guard) => procedure.call(&mut guard.over(store), input),
        };
        ended.map_err(Stop::of)
    }
}

impl<B> Body for ProcedureBody<B>
where
    B: Procedure<Input: Send + 'static, Answer: Send + 'static> + Send + Sync + 'static,
{
    type Input = B::Input;
    type Answer = B::Answer;

    #[inline]
    fn run(
        &self,
        store: &mut Product,
        guard: Guards<'_>,
        tables: &Tables,
        input: &B::Input,
    ) -> Result<B::Answer, Stop> {
        if self.database != tables.database {
            return self.run_again(store, guard, tables, input);
        }
        let ended = match guard {
            None => self.procedure.call_located(store, input, tables.upcoming.current()),
            Some(guard) => self.procedure.call(&mut guard.over(store), input),
        };
        ended.map_err(Stop::of)
    }

    fn step(
        &self,
        store: &mut Product,
        guard: Guards<'_>,
        _: &Tables,
        input: &B::Input,
        hints: &Hints,
    ) -> Result<B::Answer, Stop> {
        let ended = match guard {
            None => store.step(|store| self.procedure.step_located(store, input, hints)),
            Some(guard) => self.procedure.step_located(&mut guard.over(store), input, hints),
        };
        ended.map_err(Stop::of)
    }

    #[inline]
    fn locate(&self, store: &Product, input: &B::Input, ahead: Ahead, hints: &mut Hints) {
        self.procedure.look_ahead(store, input, ahead, hints);
    }
}

/// A closure that was registered.
pub(crate) struct ClosureBody<F, I, A> {
    closure: F,
    types: PhantomData<fn(I) -> A>,
}

impl<F, I, A> ClosureBody<F, I, A> {
    pub(crate) const fn new(closure: F) -> Self {
        Self { closure, types: PhantomData }
    }
}

impl<F, I, A> Body for ClosureBody<F, I, A>
where
    F: Fn(&mut Tx<'_>, &I) -> Result<A, Stop> + Send + Sync + 'static,
    I: Send + 'static,
    A: Send + 'static,
{
    type Input = I;
    type Answer = A;

    #[inline(always)]
    fn run(
        &self,
        store: &mut Product,
        guard: Guards<'_>,
        tables: &Tables,
        input: &I,
    ) -> Result<A, Stop> {
        tx::run(store, guard, tables, |tx| (self.closure)(tx, input))
    }

    fn step(
        &self,
        store: &mut Product,
        guard: Guards<'_>,
        tables: &Tables,
        input: &I,
        _: &Hints,
    ) -> Result<A, Stop> {
        tx::step(store, guard, tables, |tx| (self.closure)(tx, input))
    }
}

/// The most idle envelopes that are kept: more simultaneous calls are rare.
const IDLE_MAX: usize = 1 << 16;

/// A body and the envelopes for calling it.
pub(crate) struct Registration<B: Body> {
    own: Weak<Self>,
    body: B,
    name: &'static str,
    idle: Mutex<Vec<Box<Registrant<B>>>>,
}

impl<B: Body> Registration<B> {
    pub(crate) fn new(body: B, name: &'static str) -> Arc<Self> {
        Arc::new_cyclic(|own| Self { own: own.clone(), body, name, idle: Mutex::default() })
    }

    /// The same, kept by its caller.
    pub(crate) fn own(&self) -> Arc<Self> {
        self.own.upgrade().expect("a caller that has borrowed it keeps it")
    }

    /// Its name in reports.
    pub(crate) const fn name(&self) -> &'static str {
        self.name
    }

    /// Runs it as one transaction of a caller that carries it, and puts its outcome into `ended`; returns the
    /// number of bytes logged.
    #[inline]
    pub(crate) fn carry(
        &self,
        runner: &mut Runner,
        log_bytes_max: u64,
        input: &B::Input,
        ended: &mut Option<Result<B::Answer, Stop>>,
    ) -> usize {
        let body = &self.body;
        if runner.is_guarded() {
            let run = |store: &mut Product, guard: Guards<'_>, tables: &Tables| {
                body.run(store, guard, tables, input)
            };
            return runner.carry_guarded(self.name, log_bytes_max, run, ended);
        }
        runner.carry(log_bytes_max, |store, tables| body.run(store, None, tables, input), ended)
    }

    /// Runs it as a step of the open transaction of `store`.
    pub(crate) fn run_step(
        &self,
        store: &mut Product,
        guard: Guards<'_>,
        tables: &Tables,
        input: &B::Input,
        hints: &Hints,
    ) -> Result<B::Answer, Stop> {
        self.body.step(store, guard, tables, input, hints)
    }

    /// Prefetches the rows that a step will read.
    pub(crate) fn look_ahead(
        &self,
        store: &Product,
        input: &B::Input,
        ahead: Ahead,
        hints: &mut Hints,
    ) {
        self.body.locate(store, input, ahead, hints);
    }

    /// An envelope with `input`, which owns `held` bytes elsewhere.
    pub(crate) fn envelope(self: Arc<Self>, input: B::Input, held: usize) -> Box<dyn Envelope> {
        let idle = self.idle.lock().pop();
        let mut envelope = idle.unwrap_or_default();
        (envelope.input, envelope.held) = (Some(input), held);
        envelope.registration = Some(self);
        envelope
    }
}

/// Runs a call while parts are held, and puts its outcome into `ran` if it met no lock.
fn run_unless_held<A>(
    store: &mut GuardedProduct<'_>,
    ran: &mut Option<Ran<A>>,
    run: impl FnOnce(&mut Product, Guards<'_>) -> Result<A, Stop>,
) -> Result<How, Owner> {
    let (store, guard) = store.parts();
    let ended = unless_held(guard, || run(store, Some(guard)))?;
    let outcome = ended.unwrap_or_else(|panic| resume_unwind(panic));
    let how = How::of(&outcome);
    *ran = Some(Ran::Ended(outcome));
    Ok(how)
}

/// The envelope of a registered body.
struct Registrant<B: Body> {
    /// Present while a call is under way.
    registration: Option<Arc<Registration<B>>>,
    input: Option<B::Input>,
    /// Bytes that the field above owns elsewhere.
    held: usize,
    ran: Option<Ran<B::Answer>>,
}

impl<B: Body> Default for Registrant<B> {
    fn default() -> Self {
        Self { registration: None, input: None, held: 0, ran: None }
    }
}

impl<B: Body> Envelope for Registrant<B> {
    #[inline]
    fn run(&mut self, store: &mut Product, tables: &mut Tables) -> How {
        let (Some(registration), Some(input)) = (&self.registration, &self.input) else {
            unreachable!("an envelope under way has its input")
        };
        let outcome = registration.body.run(store, None, tables, input);
        let how = How::of(&outcome);
        self.ran = Some(Ran::Ended(outcome));
        how
    }

    fn run_guarded(
        &mut self,
        store: &mut GuardedProduct<'_>,
        tables: &mut Tables,
    ) -> Result<How, Owner> {
        let (Some(registration), Some(input)) = (&self.registration, &self.input) else {
            unreachable!("an envelope under way has its input")
        };
        let run =
            |store: &mut _, guard: Guards<'_>| registration.body.run(store, guard, tables, input);
        run_unless_held(store, &mut self.ran, run)
    }

    fn locate(&self, store: &Product, ahead: Ahead, hints: &mut Hints) {
        if let (Some(registration), Some(input)) = (&self.registration, &self.input) {
            registration.body.locate(store, input, ahead, hints);
        }
    }

    fn end_otherwise(&mut self, how: Otherwise) {
        self.ran = Some(Ran::Otherwise(how));
    }

    fn name(&self) -> &'static str {
        self.registration.as_ref().map_or("a procedure", |registration| registration.name)
    }

    fn bytes(&self) -> usize {
        size_of::<Self>() + self.held
    }

    fn input(&mut self) -> &mut dyn Any {
        &mut self.input
    }

    fn ran(&mut self) -> &mut dyn Any {
        &mut self.ran
    }

    fn recycle(mut self: Box<Self>) {
        // Remaining content is dropped here, on the caller's thread.
        (self.input, self.ran) = (None, None);
        let Some(registration) = self.registration.take() else { return };
        let mut idle = registration.idle.lock();
        if idle.len() < IDLE_MAX {
            idle.push(self);
        }
    }
}

/// The envelope of work that was not run as a call, which has its outcome from the start.
pub(crate) struct Finished<A>(Option<Ran<A>>);

impl<A: Send + 'static> Finished<A> {
    pub(crate) fn envelope(outcome: Result<A, Stop>) -> Box<dyn Envelope> {
        Box::new(Self(Some(Ran::Ended(outcome))))
    }
}

impl<A: Send + 'static> Envelope for Finished<A> {
    fn run(&mut self, _: &mut Product, _: &mut Tables) -> How {
        unreachable!("it is an answer")
    }

    fn end_otherwise(&mut self, how: Otherwise) {
        self.0 = Some(Ran::Otherwise(how));
    }

    fn name(&self) -> &'static str {
        "long work"
    }

    fn input(&mut self) -> &mut dyn Any {
        unreachable!("it is an answer")
    }

    fn ran(&mut self) -> &mut dyn Any {
        &mut self.0
    }
}

/// The envelope of a closure that runs once: while parts are held it waits, because it could not run again.
pub(crate) struct Lone<F, A> {
    closure: Option<F>,
    /// Bytes that the field above owns elsewhere.
    held: usize,
    ran: Option<Ran<A>>,
}

impl<F, A> Lone<F, A>
where
    F: FnOnce(&mut Tx<'_>) -> Result<A, Stop> + Send + 'static,
    A: Send + 'static,
{
    /// An envelope with `closure`, which owns `held` bytes elsewhere.
    pub(crate) fn envelope(closure: F, held: usize) -> Box<dyn Envelope> {
        Box::new(Self { closure: Some(closure), held, ran: None })
    }

    fn run_once(&mut self, store: &mut Product, guard: Guards<'_>, tables: &Tables) -> How {
        let Some(closure) = self.closure.take() else { unreachable!("a closure runs once") };
        let outcome = tx::run(store, guard, tables, closure);
        let how = How::of(&outcome);
        self.ran = Some(Ran::Ended(outcome));
        how
    }

    /// Runs a closure as one transaction of a caller that carries it, and puts its outcome into `ended`;
    /// returns the number of bytes logged.
    #[inline]
    pub(crate) fn carry(
        closure: F,
        runner: &mut Runner,
        log_bytes_max: u64,
        ended: &mut Option<Result<A, Stop>>,
    ) -> usize {
        if runner.is_guarded() {
            let run = |store: &mut Product, guard: Guards<'_>, tables: &Tables| {
                tx::run(store, guard, tables, closure)
            };
            return runner.carry_guarded(type_name::<F>(), log_bytes_max, run, ended);
        }
        runner.carry(log_bytes_max, |store, tables| tx::run(store, None, tables, closure), ended)
    }
}

impl<F, A> Envelope for Lone<F, A>
where
    F: FnOnce(&mut Tx<'_>) -> Result<A, Stop> + Send + 'static,
    A: Send + 'static,
{
    fn run(&mut self, store: &mut Product, tables: &mut Tables) -> How {
        self.run_once(store, None, tables)
    }

    /// With a guard that has no locks to compare with, it runs. Otherwise it waits, because it could not run again.
    fn run_guarded(
        &mut self,
        store: &mut GuardedProduct<'_>,
        tables: &mut Tables,
    ) -> Result<How, Owner> {
        let (store, guard) = store.parts();
        match guard.holder() {
            Some(holder) => Err(holder),
            None => Ok(self.run_once(store, Some(guard), tables)),
        }
    }

    fn end_otherwise(&mut self, how: Otherwise) {
        self.ran = Some(Ran::Otherwise(how));
    }

    fn name(&self) -> &'static str {
        type_name::<F>()
    }

    fn bytes(&self) -> usize {
        size_of::<Self>() + self.held
    }

    fn input(&mut self) -> &mut dyn Any {
        &mut self.closure
    }

    fn ran(&mut self) -> &mut dyn Any {
        &mut self.ran
    }
}
