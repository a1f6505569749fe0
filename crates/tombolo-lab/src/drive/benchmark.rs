//! A workload on one store: what is compiled once per profile.
//!
//! As little as possible: the transactions, on the store and on the store with probes, the loops
//! around them, and the calls of [`DynamicStore`](crate::store::DynamicStore). A profile of which only
//! what a paper measures is compiled runs all else through the store without type, so that every
//! profile runs everything.

use std::hint::black_box;
use std::marker::PhantomData;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tombolo_engine::clock::Clock;
use tombolo_engine::hints::Hints;
use tombolo_engine::look_ahead::LookAhead;
use tombolo_engine::procedure::Ahead;
use tombolo_engine::threads::Recurring;
use tombolo_engine::transaction::Stop;
use tombolo_storage::error::SchemaError;
use tombolo_storage::log::{Durability, LogUsage};
use tombolo_storage::paged::pool::PoolUsage;
use tombolo_storage::paged::store::Restart;
use tombolo_storage::store::Store;

use super::numbered::{Caller, NumberedCalls};
use super::session::{Look, NO_HINTS, execute, execute_alone, execute_on_all, look_ahead};
use super::{Batch, Executed, Instance};
use crate::counters::CounterError;
use crate::counters::meter::{Meter, Native, NativeCount};
use crate::drive::{CountInputs, Group, Tally, kind_of, stopped};
use crate::failure::{Blamed, Failure};
use crate::plan::Options;
use crate::progress::Progress;
use crate::rows::{Quiescent, StoreChecks};
use crate::store::metered::Metered;
use crate::store::{Erased, Handles};
use crate::workload::{Workload, WorkloadInput};

/// What some stores can do and [`Store`] therefore does not have. The defaults are those of a store in memory that
/// keeps no files.
pub(super) trait Kind<S>: 'static {
    /// The store's own checks.
    const CHECKS: StoreChecks;
    /// Whether all transactions are compiled for it, with probes too, and not only those that a
    /// paper measures.
    const ALL: bool;
    /// Whether several sessions can be open.
    const SHARED: bool;

    /// Whether it gains anything by being asked for what later transactions need.
    const LOOKS_AHEAD: bool;

    /// Takes memory for rows of the table at a position.
    ///
    /// # Errors
    /// `NoSpace`.
    fn reserve(
        _store: &mut S,
        _table: usize,
        _rows: usize,
    ) -> Result<(), tombolo_storage::error::Error> {
        Ok(())
    }

    /// Reads what is not in memory yet.
    ///
    /// # Errors
    /// When it cannot be read.
    fn read_all(_store: &S) -> Result<(), Failure> {
        Ok(())
    }

    /// Another session of the same database; none where there can be one only.
    ///
    /// # Errors
    /// When no session is free.
    fn session(_store: &S) -> Option<Result<S, Failure>> {
        None
    }

    /// Counts of the log, if there is one.
    fn log_usage(_store: &S) -> Option<LogUsage> {
        None
    }

    /// Counts of the buffer pool, if there is one.
    fn pool_usage(_store: &S) -> Option<PoolUsage> {
        None
    }

    /// The work of a restart when the store was opened, if it had not been closed.
    fn restart(_store: &S) -> Option<Restart> {
        None
    }

    /// Has `call` called when few frames of the buffer pool, if there is one, are ready for misses.
    fn when_few_frames_are_ready(_store: &S, _call: impl Fn() + Send + Sync + 'static) {}

    /// Makes frames ready; what fails is reported by the transaction that has to write a page itself.
    fn make_frames_ready(_store: &S) {}

    /// Makes a checkpoint if one is due.
    ///
    /// # Errors
    /// When log or disk fail.
    fn checkpoint_if_due(_store: &S) -> Result<(), Failure> {
        Ok(())
    }

    /// Saves the database.
    ///
    /// # Errors
    /// When it cannot be saved.
    fn save(_store: S) -> Result<(), Failure> {
        Err(Failure::usage("a memory store keeps no files yet: use a profile with pages"))
    }
}

/// A workload on a store of type `S`.
pub(super) struct Benchmark<W: Workload, S, K> {
    metered: Metered<S>,
    /// Sessions besides the first.
    others: Vec<S>,
    /// Bound once there are tables.
    bound: Option<Bound<W>>,
    threads: usize,
    retries_max: u64,
    /// How many inputs are looked ahead at.
    ahead: LookAhead,
    /// Where a log is kept, or the pool has become full.
    keeper: Option<Keeper>,
    keeps_log: bool,
    /// Where the calls of sessions are noted; they are numbered once there are sessions.
    acks: Option<PathBuf>,
    numbered: Option<NumberedCalls>,
    kind: PhantomData<K>,
}

/// A thread with a session of its own that makes checkpoints when they are due, and writes pages before a miss has to.
struct Keeper {
    thread: Recurring,
    /// Why it ended early.
    failed: Arc<OnceLock<Failure>>,
}

/// How often it looks whether one is due.
const KEEPER_PAUSE: Duration = Duration::from_millis(10);

impl Keeper {
    fn start<S: Send + 'static, K: Kind<S>>(
        first: &S,
        session: S,
        checkpoints: bool,
    ) -> Result<Self, Failure> {
        let failed = Arc::new(OnceLock::new());
        let failure = Arc::clone(&failed);
        let work = move || {
            K::make_frames_ready(&session);
            match if checkpoints { K::checkpoint_if_due(&session) } else { Ok(()) } {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => {
                    let _ = failure.set(error);
                    ControlFlow::Break(())
                }
            }
        };
        let failure = Arc::clone(&failed);
        let panicked = move |message: Box<str>| {
            let message = format!("the thread that makes checkpoints panicked: {message}");
            let _ = failure.set(Failure::check(message));
        };
        let thread = Recurring::start("pages", KEEPER_PAUSE, work, panicked).or_environment()?;
        let waker = thread.waker();
        K::when_few_frames_are_ready(first, move || waker.wake());
        Ok(Self { thread, failed })
    }

    /// Ends it.
    ///
    /// # Errors
    /// The error of the last checkpoint.
    fn end(self) -> Result<(), Failure> {
        drop(self.thread);
        Arc::into_inner(self.failed).and_then(OnceLock::into_inner).map_or(Ok(()), Err)
    }
}

/// The transactions, and the handles of those that run on the store without type.
struct Bound<W: Workload> {
    transactions: W::Transactions,
    handles: Arc<Handles>,
}

/// Runs the transaction of `input`. Compiled once per store, for all its callers.
#[inline(never)]
fn call<W: Workload, S: Store, K: Kind<S>>(
    bound: &Bound<W>,
    store: &mut S,
    input: &W::Input,
    hints: &Hints,
) -> Result<W::Answer, Stop> {
    if K::ALL {
        return W::call(&bound.transactions, store, input, hints);
    }
    match W::call_measured(&bound.transactions, store, input) {
        Some(outcome) => outcome,
        None => {
            let mut erased = Erased::with_handles(store, Arc::clone(&bound.handles));
            W::call(&bound.transactions, &mut erased, input, hints)
        }
    }
}

/// Asks for what the transaction of `input` will wait for. Compiled once per store, as [`call`].
#[inline(never)]
fn locate<W: Workload, S: Store>(
    bound: &Bound<W>,
    store: &S,
    input: &W::Input,
    ahead: Ahead,
    hints: &mut Hints,
) {
    W::look_ahead(&bound.transactions, store, input, ahead, hints);
}

/// [`locate`] of these transactions.
fn locate_with<W: Workload, S: Store>(
    bound: &Bound<W>,
) -> impl Fn(&S, &W::Input, Ahead, &mut Hints) {
    |store, input, ahead, hints| locate(bound, store, input, ahead, hints)
}

/// The same as [`call`] on the store with probes, where there are any: elsewhere calls are distinguished by
/// callgrind only, which needs none.
#[inline(never)]
fn call_metered<W: Workload, S: Store, K: Kind<S>>(
    bound: &Bound<W>,
    metered: &mut Metered<S>,
    input: &W::Input,
    hints: &Hints,
) -> Result<W::Answer, Stop> {
    if K::ALL {
        W::call(&bound.transactions, metered, input, hints)
    } else {
        call::<W, S, K>(bound, &mut metered.store, input, hints)
    }
}

const NOT_LOADED: &str = "nothing was loaded";

fn not_loaded() -> Stop {
    Stop::Error(tombolo_storage::error::Error::Poisoned { reason: NOT_LOADED })
}

impl<W: Workload, S: Store + Send + 'static, K: Kind<S>> Benchmark<W, S, K> {
    /// A database on `store`, which is its first session.
    pub(super) fn new(store: S, options: &Options) -> Self {
        let locate_ahead = if K::LOOKS_AHEAD { options.locate_ahead } else { Some(0) };
        Self {
            metered: Metered::new(store),
            others: Vec::new(),
            bound: None,
            threads: options.threads,
            retries_max: options.retries_max,
            ahead: LookAhead::of(locate_ahead),
            keeper: None,
            keeps_log: options.paged.log.durability != Durability::None,
            acks: options.acks.clone(),
            numbered: None,
            kind: PhantomData,
        }
    }

    /// Executes on the first session, and looks ahead.
    fn run_alone(&mut self, inputs: &[W::Input], tally: &mut Tally) -> Result<(), Stop> {
        let bound = self.bound.as_ref().ok_or_else(not_loaded)?;
        let retries_max = self.retries_max;
        let (store, ahead) = (&mut self.metered.store, self.ahead.untimed());
        look_ahead(store, inputs, ahead, &locate_with(bound), |store, input, hints| {
            execute(input, retries_max, tally, || call::<W, S, K>(bound, store, input, hints))
        })
    }

    /// Executes on all sessions; a lone one looks ahead, unless each transaction is timed: then it
    /// is as if none waited behind it.
    fn on_all(
        &mut self,
        inputs: &[W::Input],
        clock: &dyn Clock,
        tally: &mut Tally,
        ends: Option<&mut [u64]>,
    ) -> Result<Executed, Stop> {
        let bound = self.bound.as_ref().ok_or_else(not_loaded)?;
        let retries_max = self.retries_max;
        if let Some(calls) = &mut self.numbered {
            let sessions = std::iter::once(&mut self.metered.store).chain(&mut self.others);
            let (shared, callers) = calls.split();
            let sessions = sessions.zip(callers);
            let call = |(session, caller): &mut (&mut S, &mut Caller), input: &_, tally: &mut _| {
                caller.execute::<W>(
                    &bound.transactions,
                    shared,
                    *session,
                    input,
                    (retries_max, tally),
                )
            };
            return execute_on_all(sessions, inputs, clock, tally, ends, call);
        }
        if !K::SHARED || self.others.is_empty() {
            let locate = locate_with(bound);
            let mut look = Look { ahead: &mut self.ahead, locate };
            let store = &mut self.metered.store;
            return execute_alone(store, inputs, clock, ends, &mut look, |store, input, hints| {
                execute(input, retries_max, tally, || call::<W, S, K>(bound, store, input, hints))
            });
        }
        let sessions = std::iter::once(&mut self.metered.store).chain(&mut self.others);
        execute_on_all(sessions, inputs, clock, tally, ends, |session, input, tally| {
            execute(input, retries_max, tally, || call::<W, S, K>(bound, session, input, NO_HINTS))
        })
    }

    /// Runs a group with its transactions announced to the meter, on the store with probes or on
    /// the one without. A transaction is looked at right before it runs, so that what looking ahead
    /// costs is in its own count.
    fn run_metered(&mut self, group: &Group<W::Input>, probes: bool) -> Result<(), CounterError> {
        let damaged = |what: &str| CounterError::Damaged(format!("{}: {what}", group.name));
        let Some(bound) = &self.bound else { return Err(damaged(NOT_LOADED)) };
        self.metered.meter.only(Some(group.kind));
        let ahead = if self.ahead.untimed() > 0 { &[Ahead::Keys, Ahead::Rows][..] } else { &[] };
        let mut hints = Hints::none();
        for input in &group.inputs {
            self.metered.meter.transaction_begin(kind_of(input));
            for &ahead in ahead {
                locate(bound, &self.metered.store, input, ahead, &mut hints);
            }
            let answer = if probes {
                call_metered::<W, S, K>(bound, &mut self.metered, input, &hints)
            } else {
                call::<W, S, K>(bound, &mut self.metered.store, input, &hints)
            };
            self.metered.meter.transaction_end();
            if black_box(&answer).is_err() != input.aborts() {
                return Err(damaged("a transaction ended otherwise than its input says"));
            }
        }
        Ok(())
    }

    fn run_uncounted(&mut self, inputs: &CountInputs<W::Input>) -> Result<(), CounterError> {
        let outcome = self.run(&inputs.uncounted, &mut Tally::default());
        outcome.map_err(|stop| CounterError::Damaged(stop.to_string()))
    }

    fn meter(&self) -> &Meter {
        &self.metered.meter
    }
}

impl<W: Workload, S: Store + Send + 'static, K: Kind<S>> Instance<W> for Benchmark<W, S, K> {
    fn load(
        &mut self,
        workload: W,
        threads: usize,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<(), Failure> {
        let store = &mut Erased::new(&mut self.metered.store);
        let loaded = workload.load_parts(store, threads, |_, done, of| {
            progress(done, of);
            Ok(())
        });
        let bound = loaded.and_then(|()| Ok(self.bind(workload)?));
        bound.or_environment()
    }

    fn bind(&mut self, workload: W) -> Result<(), SchemaError> {
        let schema = self.metered.store.schema();
        let transactions = workload.bind(schema)?;
        self.bound = Some(Bound { transactions, handles: Arc::new(Handles::of(schema)) });
        Ok(())
    }

    fn read_all(&mut self) -> Result<(), Failure> {
        K::read_all(&self.metered.store)
    }

    fn start(&mut self, _: &mut dyn Progress) -> Result<(), Failure> {
        if let Some(path) = self.acks.take() {
            let callers = self.threads as u32;
            self.numbered = Some(NumberedCalls::open(&mut self.metered.store, callers, &path)?);
        }
        while self.others.len() + 1 < self.threads {
            match K::session(&self.metered.store) {
                Some(session) => self.others.push(session?),
                None => return Err(Failure::usage("the profile has one session: use --threads 1")),
            }
        }
        let store = &self.metered.store;
        let is_full = K::pool_usage(store).is_some_and(|pool| pool.passed > pool.frames);
        if K::SHARED
            && (self.keeps_log || is_full)
            && self.keeper.is_none()
            && let Some(session) = K::session(store)
        {
            self.keeper = Some(Keeper::start::<S, K>(store, session?, self.keeps_log)?);
        }
        Ok(())
    }

    fn reserve(&mut self, inputs: &[W::Input]) -> Result<(), Failure> {
        let store = &mut self.metered.store;
        for (table, rows) in W::by_table(W::new_rows(inputs)) {
            if let Some(position) = store.schema().table(table) {
                K::reserve(store, position, rows).map_err(|error| stopped(error.into(), 0))?;
            }
        }
        Ok(())
    }

    fn run(&mut self, inputs: &[W::Input], tally: &mut Tally) -> Result<(), Failure> {
        self.run_alone(inputs, tally).map_err(|stop| stopped(stop, tally.done()))
    }

    fn run_on_all(
        &mut self,
        Batch { inputs, clock, .. }: Batch<'_, W::Input>,
        tally: &mut Tally,
    ) -> Result<Executed, Failure> {
        self.on_all(inputs, clock, tally, None).map_err(|stop| stopped(stop, tally.done()))
    }

    fn run_timed(
        &mut self,
        inputs: &[W::Input],
        clock: &dyn Clock,
        ends: &mut [u64],
    ) -> Result<(), Failure> {
        let ran = self.on_all(inputs, clock, &mut Tally::default(), Some(ends));
        ran.map(|_| ()).map_err(|stop| stopped(stop, 0))
    }

    fn count(&mut self, inputs: &CountInputs<W::Input>) -> Result<(), CounterError> {
        self.run_uncounted(inputs)?;
        self.meter().count()?;
        for group in &inputs.groups {
            self.run_metered(group, false)?;
            self.meter().dump(&group.name);
        }
        self.meter().stop();
        Ok(())
    }

    fn count_natively(
        &mut self,
        native: Native,
        inputs: &CountInputs<W::Input>,
    ) -> Result<Vec<NativeCount>, CounterError> {
        let calls = native.is_of_calls() && K::ALL;
        self.run_uncounted(inputs)?;
        self.meter().time(native, calls)?;
        let mut counts = Vec::new();
        for group in &inputs.groups {
            self.run_metered(group, calls)?;
            counts.push(self.meter().take()?);
        }
        self.meter().stop();
        Ok(counts)
    }

    fn rest(&mut self) -> Result<Quiescent<'_>, Failure> {
        Ok(Quiescent::new(&mut self.metered.store, K::CHECKS))
    }

    fn restart(&self) -> Option<Restart> {
        K::restart(&self.metered.store)
    }

    fn log_usage(&self) -> Option<LogUsage> {
        K::log_usage(&self.metered.store)
    }

    fn pool_usage(&self) -> Option<PoolUsage> {
        K::pool_usage(&self.metered.store)
    }

    fn save(self: Box<Self>) -> Result<(), Failure> {
        let Self { metered, others, keeper, .. } = *self;
        drop(others);
        keeper.map_or(Ok(()), Keeper::end)?;
        K::save(metered.store)
    }
}
