//! A caller's own transaction on its own thread: takes execution, runs it, gives execution back.
//!
//! Not here: waiting for the log, and the stages' work that a waiting caller does (`mod.rs`); the work of
//! execution before and after the transaction (`stages/execution/carried.rs`).

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use tombolo_storage::sync::{Ordering, Spin};

use crate::pipeline::callers::carrying::{Carrying, Debt, HandedOn};
use crate::pipeline::log::common::CommonOrder;
use crate::pipeline::stage::{Stage, StageKind, Step};
use crate::pipeline::stage_loop::WhenBroken;
use crate::pipeline::stages::Executor;
use crate::pipeline::stages::execution::Execution;
use crate::pipeline::stages::execution::carried::{Carried, NotRun, Of, Panicked, Stands, Terms};
use crate::pipeline::state::get;
use crate::pipeline::transport::{Durability, Held, Refusal, Seat};
use crate::threads::{give_way, panic_message, pause};

/// How often a waiting caller yields its core to other threads: one of them may hold execution
/// and have been descheduled. Loom has no such threads.
const GIVES_WAY: u32 = if cfg!(loom) { 0 } else { 8 };

/// If others have run this many transactions since a caller began to wait, one of them calls without a pause.
const BURST: u64 = 16;

/// If so many transactions over several pipelines ran in a row, with no call between, the threads that run them take
/// turns.
const IN_A_ROW: u32 = 4;

/// The first sleep of a caller while another one calls without a pause. That one then runs alone and keeps its
/// rows in its cache and its core for itself.
const NAP: Duration = Duration::from_micros(400);

/// Calls that a caller must have made for each nap, so that fewer than one in a hundred wait for one.
const NAP_CALLS: u32 = 128;

/// The most naps that a caller takes in a row before its call goes through the queue.
const NAPS_MAX: u32 = 3;

thread_local! {
    /// Calls of this thread since its last nap, up to a bound.
    static CREDIT: Cell<u32> = const { Cell::new(0) };
}

/// A number that this thread has, and no other that runs; 0 is none's.
fn own_number() -> u64 {
    CREDIT.with(|credit| std::ptr::from_ref(credit).addr() as u64)
}

/// The result of `part`, or its panic. If `part` cannot panic this adds no instruction.
#[inline(always)]
fn caught<T>(part: impl FnOnce() -> T) -> Result<T, Box<dyn Any + Send>> {
    catch_unwind(AssertUnwindSafe(part))
}

/// How a thread waits for execution that another has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhileTaken {
    /// It may sleep: it has no other pipeline's.
    Sleep,
    /// It spins, and lets other threads run.
    Spin,
    /// It leaves it.
    Leave,
}

/// How a thread waits for its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Patience {
    /// It leaves time for many transactions, and may sleep.
    Naps,
    /// It leaves time for many transactions: they are over several pipelines, as its own is.
    Burst,
    /// It looks often: it has another pipeline, or has not tried long.
    Spins,
}

/// A pipeline's execution in the hands of a thread that runs a transaction over several. Its owner ends or undoes the
/// transaction before it gives execution back.
pub struct Taken<'c, E: Executor> {
    carrier: &'c Carrier<E>,
    /// Present until it is given back.
    held: Option<Held<'c, Execution<E>>>,
    terms: Terms,
    /// Under which condition its outcome may be reported, once it has ended here and its records are in the queue of
    /// the log.
    put: Option<Stands>,
}

impl<E: Executor> Taken<'_, E> {
    /// The executor, for this transaction only.
    pub fn executor(&mut self) -> &mut E {
        let Some(held) = &mut self.held else { unreachable!("it is given back once") };
        held.stage().run_carried(|executor| executor)
    }

    /// The position of the log behind a transaction that has logged so many bytes.
    pub fn log_end(&mut self, log_bytes: usize) -> u64 {
        let Some(held) = &mut self.held else { unreachable!("it is given back once") };
        held.stage().log_end(log_bytes)
    }

    /// Nothing waits until what was logged is durable.
    pub const fn wait_for_nothing(&mut self) {
        self.terms.durability = Durability::Async;
    }

    /// Puts what a transaction over these pipelines has logged into the queues of their logs, so that it becomes
    /// durable in all of them or in none. Each is to be given back next, with [`Taken::end`].
    ///
    /// # Errors
    /// `Unknown`, when a stage broke.
    pub fn put_together(
        order: &CommonOrder,
        taken: &mut [(usize, &mut Self)],
        log_bytes: impl Fn(&mut E) -> usize,
    ) -> Result<(), Refusal> {
        let numbers: Vec<usize> = taken.iter().map(|(number, _)| *number).collect();
        order.put(numbers.iter().copied(), |epoch| {
            let mut put = Ok(());
            for (_, taken) in taken {
                put = match put {
                    Ok(()) => {
                        let log_bytes = log_bytes(taken.executor());
                        taken.put(log_bytes, epoch)
                    }
                    // What it has committed here is in no log: nothing that follows may be.
                    Err(refusal) => Err(taken.break_down(refusal)),
                };
            }
            put
        })
    }

    /// How many bytes wait to be given to the log, as `of` says.
    pub fn log_bytes(&mut self, of: impl FnOnce(&mut E) -> usize) -> usize {
        match self.held.is_some() && self.put.is_none() {
            true => of(self.executor()),
            false => 0,
        }
    }

    #[cold]
    fn break_down(&mut self, refusal: Refusal) -> Refusal {
        let Some(held) = self.held.take() else { unreachable!("it is given back once") };
        let why: &(dyn Any + Send) =
            &"a stage of another pipeline broke during a transaction over both";
        self.carrier.broken(held, why);
        refusal
    }

    fn put(&mut self, log_bytes: usize, epoch: u64) -> Result<(), Refusal> {
        let Some(mut held) = self.held.take() else { unreachable!("it is given back once") };
        match caught(|| held.stage().end_in_common(log_bytes, epoch)) {
            Ok(stands) => {
                (self.held, self.put) = (Some(held), Some(stands));
                Ok(())
            }
            Err(panic) => Err(self.carrier.broken(held, &*panic)),
        }
    }

    /// Gives execution back after a transaction that logged so many bytes.
    ///
    /// # Errors
    /// `Unknown`, when its stage broke.
    pub fn end(mut self, log_bytes: usize) -> Result<Stands, Refusal> {
        let Some(held) = self.held.take() else {
            return Err(Refusal::Unknown("a stage of another pipeline broke".into()));
        };
        self.carrier.execution.set_for_several(0);
        if let Some(stands) = self.put {
            self.carrier.give_back(held, stands);
            return Ok(stands);
        }
        self.carrier.end(held, self.terms, Some(log_bytes))
    }

    /// The same, but keeps execution for this thread's next transaction ([`Taken::again`]), unless others wait for it,
    /// or for the log.
    ///
    /// # Errors
    /// `Unknown`, when its stage broke.
    pub fn end_and_keep(mut self, log_bytes: usize) -> Result<(Stands, Option<Self>), Refusal> {
        let Some(held) = self.held.as_mut().filter(|_| self.put.is_none()) else {
            return self.end(log_bytes).map(|stands| (stands, None));
        };
        let (stage, terms) = (held.stage(), self.terms);
        let ended = caught(|| {
            let stands = stage.end_carried(terms, Some(log_bytes), Of::Several);
            (stands, stands == Stands::Volatile && stage.admit(terms).is_ok())
        });
        match ended {
            Ok((stands, is_free)) => {
                self.put = Some(stands);
                let keeps = is_free && !self.carrier.execution.is_asked_for();
                Ok((stands, keeps.then_some(self)))
            }
            Err(panic) => {
                let Some(held) = self.held.take() else { unreachable!("it is held") };
                Err(self.carrier.broken(held, &*panic))
            }
        }
    }

    /// Another transaction begins on a pipeline that was kept.
    pub const fn again(&mut self) {
        self.put = None;
    }
}

impl<E: Executor> Drop for Taken<'_, E> {
    /// Gives back what its owner did not end. A panic that leaves its owner no choice breaks the pipeline, as one of
    /// its stage does: what it had begun there is not known.
    fn drop(&mut self) {
        let Some(held) = self.held.take() else { return };
        self.carrier.execution.set_for_several(0);
        if let Some(stands) = self.put {
            return self.carrier.give_back(held, stands);
        }
        if std::thread::panicking() {
            let why: &(dyn Any + Send) =
                &"a transaction over several pipelines panicked between its steps";
            self.carrier.broken(held, why);
        } else {
            let _ = self.carrier.end(held, self.terms, None);
        }
    }
}

impl<E: Executor> std::fmt::Debug for Taken<'_, E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Taken").finish_non_exhaustive()
    }
}

/// The pipeline's entrance for callers that run transactions on their own threads.
pub struct Carrier<E: Executor> {
    pub(crate) execution: Arc<Seat<Execution<E>>>,
    pub(crate) carrying: Arc<Carrying<E::Answer>>,
}

impl<E: Executor> std::fmt::Debug for Carrier<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Carrier").finish_non_exhaustive()
    }
}

impl<E: Executor> Clone for Carrier<E> {
    fn clone(&self) -> Self {
        Self { execution: self.execution.clone(), carrying: self.carrying.clone() }
    }
}

impl<E: Executor> Carrier<E> {
    /// Runs a transaction on this thread, if execution is free and no call waits for it; returns `None` if the
    /// call has to go through the queue. `run` returns its outcome and the number of bytes logged.
    /// Does not wait for the log: see [`Carrier::wait`].
    #[inline]
    pub fn run<T>(
        &self,
        terms: Terms,
        run: impl FnOnce(&mut E) -> (T, usize),
    ) -> Option<Carried<T>> {
        CREDIT.set(CREDIT.get().wrapping_add(1));
        if self.execution.wanted_by() != 0 {
            self.give_precedence();
        }
        let mut held =
            self.execution.try_take().or_else(|| self.wait_for_a_turn(Patience::Naps))?;
        let stage = held.stage();
        match caught(|| stage.admit_call(terms)) {
            Ok(Ok(())) => {}
            Ok(Err(not_run)) => {
                self.give_back(held, Stands::Volatile);
                return match not_run {
                    NotRun::Queued => None,
                    NotRun::Refused(refusal) => Some(Carried::Refused(refusal)),
                };
            }
            Err(panic) => return Some(Carried::Refused(self.broken(held, &*panic))),
        }
        self.carrying.shared.counters.carried_by.store(own_number(), Ordering::Relaxed);
        // A panic in here is the transaction's outcome; a panic before or after it is the stage's.
        let ran = caught(|| stage.run_carried(run));
        let log_bytes = ran.as_ref().ok().map(|(_, log_bytes)| *log_bytes);
        let stands = match caught(|| stage.end_carried(terms, log_bytes, Of::Caller)) {
            Ok(stands) => stands,
            Err(panic) => return Some(Carried::Refused(self.broken(held, &*panic))),
        };
        self.give_back(held, stands);
        let outcome = match ran {
            Ok((outcome, _)) => Ok(outcome),
            Err(panic) => Err(Panicked(panic_message(&*panic))),
        };
        Some(Carried::Ran { outcome, stands })
    }

    /// Ends a transaction over several that logged so many bytes, or panicked and was undone, and gives execution back.
    /// A call does the same in one sequence with its beginning: as functions they cost it 50 instructions.
    fn end(
        &self,
        mut held: Held<'_, Execution<E>>,
        terms: Terms,
        log_bytes: Option<usize>,
    ) -> Result<Stands, Refusal> {
        let stage = held.stage();
        match caught(|| stage.end_carried(terms, log_bytes, Of::Several)) {
            Ok(stands) => {
                self.give_back(held, stands);
                Ok(stands)
            }
            Err(panic) => Err(self.broken(held, &*panic)),
        }
    }

    /// Takes execution for a transaction over several pipelines. Calls that wait for it run first, on this thread, as
    /// far as one step of the stage goes; not if others still wait then.
    ///
    /// # Errors
    /// Why the pipeline runs none any more.
    pub fn take(
        &self,
        terms: Terms,
        while_taken: WhileTaken,
    ) -> Option<Result<Taken<'_, E>, Refusal>> {
        let held = self.execution.try_take().or_else(|| match while_taken {
            WhileTaken::Sleep if self.execution.for_several() >= IN_A_ROW => {
                self.wait_for_a_turn(Patience::Burst)
            }
            WhileTaken::Sleep => {
                self.wait_with_precedence().or_else(|| self.wait_for_a_turn(Patience::Naps))
            }
            WhileTaken::Spin => self.wait_with_precedence(),
            WhileTaken::Leave => None,
        });
        let mut held = held?;
        let refusal = match caught(|| self.admit_behind_queue(&mut held, terms)) {
            Ok(Ok(())) => {
                self.execution.set_for_several(held.stage().begin_for_several());
                return Some(Ok(Taken { carrier: self, held: Some(held), terms, put: None }));
            }
            Ok(Err(not_run)) => {
                self.give_back(held, Stands::Volatile);
                match not_run {
                    NotRun::Queued => return None,
                    NotRun::Refused(refusal) => refusal,
                }
            }
            Err(panic) => self.broken(held, &*panic),
        };
        Some(Err(refusal))
    }

    /// Whether a transaction over several pipelines may run, after the calls that wait.
    fn admit_behind_queue(
        &self,
        held: &mut Held<'_, Execution<E>>,
        terms: Terms,
    ) -> Result<(), NotRun> {
        let stage = held.stage();
        let admitted = stage.admit(terms);
        if !matches!(admitted, Err(NotRun::Queued)) {
            return admitted;
        }
        // It wakes the logging stage for what these calls have logged: this thread may wait for other pipelines first,
        // and may end without waiting for this log.
        let now_ns = self.carrying.clock.now_ns();
        let step = stage.step(now_ns);
        let ns = self.carrying.clock.now_ns().saturating_sub(now_ns);
        self.carrying.shared.counters.worked(StageKind::Execution, ns);
        if step == Step::Ended {
            self.execution.wake(); // the stage ends on its own thread
            return admitted;
        }
        stage.admit(terms)
    }

    /// Takes execution for a transaction over several pipelines as soon as the thread that has it ends its own
    /// transaction: a thread that calls without a pause would take it again at once, many times. If that one has
    /// several, too, this thread leaves it time for more of those: its rows would move each time.
    #[cold]
    fn wait_with_precedence(&self) -> Option<Held<'_, Execution<E>>> {
        let (execution, number) = (&self.execution, own_number() as u32);
        let is_local = || execution.for_several() == 0 && !execution.is_asked_for();
        let mut held = None;
        if is_local() {
            execution.want(number);
            let mut spin = Spin::short_turns();
            while held.is_none() && is_local() && spin.again() {
                held = execution.is_free().then(|| execution.try_take()).flatten();
            }
            execution.want_no_more(number);
        }
        held.or_else(|| self.wait_for_a_turn(Patience::Spins))
    }

    /// Leaves execution to a thread that waits for it with precedence, for a moment; then to none, since that one may
    /// have been descheduled.
    #[cold]
    fn give_precedence(&self) {
        let mut spin = Spin::short_turns();
        let wanted_by = self.execution.wanted_by();
        while self.execution.wanted_by() != 0 {
            if !spin.again() {
                return self.execution.want_no_more(wanted_by);
            }
        }
    }

    /// Takes execution if the thread that has it gives it back soon. A transaction is shorter than the
    /// path through the queue; but if threads alternate, the rows move to another core's
    /// caches each time. Therefore even the first wait leaves the other thread time for many transactions. If
    /// it has run many, one call after another, this thread sleeps if it calls as often itself; otherwise its
    /// call goes through the queue, which the other thread will soon check. If the seat is asked for, calls are
    /// queued, and this one must go after them.
    ///
    /// If this thread's calls were the last to run here, the other one has taken the pipeline for a transaction over
    /// several, which is short, and leaves it then, or runs some of those: nothing alternates, and this thread looks
    /// again soon.
    ///
    /// How long it waits between two looks depends on its patience.
    #[cold]
    fn wait_for_a_turn(&self, patience: Patience) -> Option<Held<'_, Execution<E>>> {
        let is_own = || get(&self.carrying.shared.counters.carried_by) == own_number();
        let mut spin = match patience {
            Patience::Naps if is_own() => Spin::short_turns(),
            Patience::Naps | Patience::Burst => Spin::long(),
            Patience::Spins => Spin::transaction(),
        };
        let naps = patience == Patience::Naps;
        let (mut gives_way, mut nap) = (0..GIVES_WAY, NAP);
        let carried = || get(&self.carrying.shared.counters.carried_early);
        let before = carried();
        CREDIT.set(CREDIT.get().min(NAPS_MAX * NAP_CALLS));
        while !self.execution.is_asked_for() {
            if naps && carried().wrapping_sub(before) >= BURST && !is_own() {
                CREDIT.set(CREDIT.get().checked_sub(NAP_CALLS)?);
                pause(nap);
                nap *= 2;
            } else if !spin.again() {
                gives_way.next()?;
                give_way();
            }
            if let Some(held) = self.execution.try_take() {
                return Some(held);
            }
        }
        None
    }

    /// Gives execution back and takes care of records passed to the log; a caller that has to wait for the log
    /// does the latter when it waits.
    #[inline(always)]
    fn give_back(&self, mut held: Held<'_, Execution<E>>, stands: Stands) {
        let handed_on = held.stage().take_carried();
        let is_asked_for = held.give_back();
        if is_asked_for || handed_on.is_some() {
            self.look_after(is_asked_for, handed_on, stands);
        }
    }

    #[inline(never)]
    fn look_after(&self, is_asked_for: bool, handed_on: HandedOn, stands: Stands) {
        let execution = &*self.carrying.execution;
        if !matches!(stands, Stands::From(_)) {
            let debt = Debt { handed_on, execution: is_asked_for, log: false };
            self.carrying.settle(Some(execution), debt);
        } else if is_asked_for {
            self.carrying.look_again(execution); // the caller's wait takes care of its records
        }
    }

    /// Ends the call after the stage panicked on this thread.
    #[cold]
    #[inline(never)]
    fn broken(&self, held: Held<'_, Execution<E>>, panic: &(dyn Any + Send)) -> Refusal {
        drop(held); // first: the stage's own thread will be woken and must find it broken
        let reason = self.carrying.break_down(StageKind::Execution, &panic_message(panic));
        Refusal::Unknown(reason)
    }

    /// Sets the callback for a stage that panics on a caller's thread.
    pub(crate) fn set_broken(&self, broken: WhenBroken) {
        self.carrying.set_broken(broken);
    }

    /// The stages' work that callers do.
    pub(crate) fn carrying(&self) -> &Arc<Carrying<E::Answer>> {
        &self.carrying
    }

    /// Waits until the log is durable up to the position of [`Stands::From`]; writes and syncs it on this
    /// thread if the device is free.
    ///
    /// # Errors
    /// `Unknown`, when a failure stopped all acknowledgements before.
    pub fn wait(&self, position: u64) -> Result<(), Refusal> {
        self.carrying.wait(position)
    }

    /// Has another thread write and sync the log: this one is about to do so with another pipeline's.
    pub fn ask_for_flush(&self) {
        self.carrying.ask_for_flush();
    }

    /// The same without waiting: `None` while that is undecided.
    pub fn look(&self, position: u64) -> Option<Result<(), Refusal>> {
        self.carrying.look(position)
    }

    /// Does the stages' work once, like a waiting caller that will do it again; returns whether there was any.
    pub fn help(&self) -> bool {
        let (carrying, now_ns) = (&self.carrying, self.carrying.clock.now_ns());
        let (execution, mut debt) = (Some(&*self.carrying.execution), Debt::default());
        let has_worked = carrying.round(execution, now_ns, &mut debt, &|| false);
        carrying.settle(execution, debt);
        has_worked
    }

    /// Does the stages' work once, like a waiting caller; returns whether there was any.
    pub fn work(&self) -> bool {
        let (carrying, now_ns) = (&self.carrying, self.carrying.clock.now_ns());
        let execution = Some(&*carrying.execution);
        let has_worked = carrying.round(execution, now_ns, &mut Debt::default(), &|| false);
        if has_worked {
            carrying.leave_to_own_threads(execution);
        }
        has_worked
    }
}
