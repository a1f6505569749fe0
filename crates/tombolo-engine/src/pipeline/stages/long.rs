//! Long work in slices: scans, aggregates, dumps next to transactions, which they hardly hold up.
//!
//! ```text
//!   submit ─► [long queue] ─► begin ─► slice ─► slice ─► … ─► end ─► give_back ─► … ─► answer
//!                        (between two    (one between two            (as slices)
//!                         batches)        batches, in turn)
//! ```
//!
//! A [`LongWork`] begins between two transactions; if it reads, it opens a snapshot of the store
//! then, so that all its slices see that moment. From then on the execution stage runs one slice of
//! one work between two batches; several works take turns. A slice is given how many rows it may look at. That
//! number follows from what the rows before cost, by two looks at the clock a slice, and aims at an eighth of
//! `slice_us_max`, so that expensive rows do not make a slice too long.
//!
//! The answer reports what was committed before the work began: it leaves when the log is durable
//! up to the position of that moment (TPK-E3), whatever was logged since.
//!
//! What checkpoints copy from the rows is long work of the engine's own, without a caller and without an answer
//! (`copying.rs`).
//!
//! Not here: what is read (the work), how rows stay as they were (the store's snapshots). Contract:
//! a work changes nothing, so it logs nothing and needs no room in the log; it takes no longer per row
//! than its size explains. Invariants: a work that began is ended once, also when it fails, panics, is
//! cancelled or the pipeline is poisoned; a work that was taken in is answered once.

use std::any::Any;
use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tombolo_storage::sync::{AtomicBool, Ordering};

use crate::clock::Clock;
use crate::pipeline::stages::executor::Executor;
use crate::pipeline::state::{Shared, add, get};
use crate::pipeline::transport::{
    CallerId, Durability, Failure, Outcome, Queue, Refusal, Reply, guarded,
};
use crate::threads::panic_message;
use crate::transaction::Stop;

/// Long works that wait or run simultaneously, at most; more are refused as a full queue.
pub const LONG_WORKS_MAX: u64 = 64;

/// Rows of a work's first slice.
const FIRST_ROWS: usize = 64;

/// Rows of a slice at most: the number must stay a number.
const ROWS_MAX: usize = 1 << 20;

/// Which part of `slice_us_max` a slice aims at.
const AIM: u64 = 8;

/// The result of a slice of long work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sliced<A> {
    /// There is more to do.
    More {
        /// How many rows it has looked at: what the next slice's size follows from.
        rows: usize,
    },
    /// That was all.
    Done(A),
    /// That was all, of a work without a caller.
    Over,
}

/// Work that takes long, cut into slices. See the module's head.
pub trait LongWork<E: Executor>: Send {
    /// Called once, between two transactions, before the first slice: opens the snapshot.
    ///
    /// # Errors
    /// Why there is nothing to be done; nothing more is called then.
    fn begin(&mut self, executor: &mut E) -> Result<(), Stop>;

    /// Works on at most `rows_max` rows; the log ends at `log_end`.
    ///
    /// # Errors
    /// Why there is no answer; only [`LongWork::end`] is called then.
    fn slice(
        &mut self,
        executor: &mut E,
        rows_max: usize,
        log_end: u64,
    ) -> Result<Sliced<E::Answer>, Stop>;

    /// Called once, after the last slice, whatever it was: closes the snapshot.
    fn end(&mut self, executor: &mut E);

    /// Called between batches, as slices are, from `end` on while it says that there is more to do:
    /// gives back the memory that the work needed, in pieces that take no longer than a slice.
    fn give_back(&mut self, executor: &mut E) -> bool {
        let _ = executor;
        false
    }
}

impl<E: Executor> fmt::Debug for dyn LongWork<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LongWork")
    }
}

/// The other end of long work under way. Dropping it changes nothing.
#[derive(Clone, Debug)]
pub struct LongHandle {
    pub(crate) is_cancelled: Arc<AtomicBool>,
}

/// The answer of a work that has none.
const NO_ANSWER: &str = "the work has no answer";

/// Why cancelled work has no answer.
pub const CANCELLED: &str = "the work was cancelled";

impl LongHandle {
    /// Ends the work before its next slice; it is answered with an abort that says [`CANCELLED`],
    /// unless its answer is on its way already.
    pub fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Relaxed); // nothing is handed over by it
    }
}

/// Long work on its way in.
pub(crate) struct LongCall<E: Executor> {
    pub(crate) work: Box<dyn LongWork<E>>,
    /// Where the answer goes; of what the engine itself does there is none.
    pub(crate) caller: Option<CallerId>,
    pub(crate) tag: u64,
    pub(crate) durability: Durability,
    pub(crate) is_cancelled: Arc<AtomicBool>,
}

impl<E: Executor> fmt::Debug for LongCall<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LongCall").field("tag", &self.tag).finish_non_exhaustive()
    }
}

/// Long work that began.
struct Active<E: Executor> {
    call: LongCall<E>,
    /// The log's position when it began.
    position: u64,
    /// Rows of its next slice.
    rows_max: usize,
    /// Its outcome, once it has ended.
    outcome: Option<Ended<E::Answer>>,
}

/// The outcome of a work.
type Ended<A> = Result<Outcome<A>, Refusal>;

/// Long work that is over.
pub(crate) struct Finished<A> {
    /// Where the answer goes; of what the engine itself does there is none.
    pub(crate) caller: Option<CallerId>,
    pub(crate) tag: u64,
    pub(crate) durability: Durability,
    /// What must be durable before the outcome leaves.
    pub(crate) position: u64,
    pub(crate) outcome: Ended<A>,
}

impl<A> Finished<A> {
    /// The outcome as this reply, or the refusal.
    pub(crate) fn reply(self, reply: impl FnOnce(Outcome<A>) -> Reply<A>) -> Reply<A> {
        self.outcome.map_or_else(Reply::Refused, reply)
    }
}

/// The long works of an execution stage.
pub(crate) struct LongWorks<E: Executor> {
    queue: Arc<Queue<LongCall<E>>>,
    arrived: Vec<LongCall<E>>,
    /// In the order of their turns.
    active: VecDeque<Active<E>>,
    is_open: bool,
    clock: Arc<dyn Clock>,
    slice_ns_max: u64,
    shared: Arc<Shared<E::Answer>>,
}

impl<E: Executor> LongWorks<E> {
    pub(crate) fn new(
        queue: Arc<Queue<LongCall<E>>>,
        clock: Arc<dyn Clock>,
        slice_ns_max: u64,
        shared: Arc<Shared<E::Answer>>,
    ) -> Self {
        let (arrived, active) = (Vec::new(), VecDeque::new());
        Self { queue, arrived, active, is_open: true, clock, slice_ns_max, shared }
    }

    /// Whether there is something to run.
    pub(crate) fn are_active(&self) -> bool {
        !self.active.is_empty()
    }

    /// Whether there is none, and none has arrived that this thread knows of.
    pub(crate) fn are_idle(&self) -> bool {
        self.active.is_empty() && self.queue.is_open_and_empty()
    }

    /// Whether more may come.
    pub(crate) fn are_open(&self) -> bool {
        self.is_open
    }

    /// Begins what has arrived, unless nothing runs for this reason; what failed immediately is put into
    /// `finished`. `position` is the log's position now.
    pub(crate) fn begin(
        &mut self,
        executor: &mut E,
        position: u64,
        refusal: Option<&Refusal>,
        finished: &mut Vec<Finished<E::Answer>>,
    ) {
        self.is_open = self.queue.drain(&mut self.arrived);
        for mut call in self.arrived.drain(..) {
            let work = &mut call.work;
            let begun = match refusal {
                Some(refusal) => Err(Err(refusal.clone())),
                None => match catch_unwind(AssertUnwindSafe(|| work.begin(executor))) {
                    Ok(Ok(())) => Ok(()),
                    Ok(Err(stop)) => Err(Ok(Failure::Stopped(stop))),
                    Err(panic) => Err(Ok(Failure::Panicked(panic_message(&*panic)))),
                },
            };
            match begun {
                Ok(()) => {
                    let (rows_max, outcome) = (FIRST_ROWS, None);
                    self.active.push_back(Active { call, position, rows_max, outcome });
                }
                Err(failure) => {
                    let LongCall { work, caller, tag, durability, .. } = call;
                    guarded(|| drop(work));
                    if caller.is_none() {
                        continue;
                    }
                    self.shared.counters.long_under_way.fetch_sub(1, Ordering::Relaxed);
                    let outcome = match failure {
                        Ok(failure) => Ok(Err(failure)),
                        Err(refusal) => Err(refusal),
                    };
                    finished.push(Finished { caller, tag, durability, position, outcome });
                }
            }
        }
    }

    /// Runs a slice of the work whose turn it is; the log ends at `position`.
    pub(crate) fn run_slice(
        &mut self,
        executor: &mut E,
        position: u64,
    ) -> Option<Finished<E::Answer>> {
        let mut active = self.active.pop_front()?;
        if let Some(outcome) = active.outcome.take() {
            let work = &mut active.call.work;
            let more = catch_unwind(AssertUnwindSafe(|| work.give_back(executor)));
            return self.leave(active, more, outcome);
        }
        if let Some(reason) = self.shared.poison() {
            let refusal = Refusal::Poisoned(reason.clone());
            return self.finish(active, executor, Err(refusal));
        }
        if active.call.is_cancelled.load(Ordering::Relaxed) {
            let failure = Failure::Stopped(Stop::Abort(CANCELLED));
            return self.finish(active, executor, Ok(Err(failure)));
        }
        let (work, rows_max) = (&mut active.call.work, active.rows_max);
        let start_ns = self.clock.now_ns();
        let sliced = catch_unwind(AssertUnwindSafe(|| work.slice(executor, rows_max, position)));
        let slice_ns = self.clock.now_ns().saturating_sub(start_ns);
        self.count(slice_ns);
        let outcome = match sliced {
            Ok(Ok(Sliced::More { rows })) => {
                active.rows_max = next_rows(rows_max, rows, slice_ns, self.slice_ns_max / AIM);
                self.active.push_back(active);
                return None;
            }
            Ok(Ok(Sliced::Done(answer))) => Ok(answer),
            Ok(Ok(Sliced::Over)) => Err(Failure::Stopped(Stop::Abort(NO_ANSWER))),
            Ok(Err(stop)) => Err(Failure::Stopped(stop)),
            Err(panic) => Err(Failure::Panicked(panic_message(&*panic))),
        };
        self.finish(active, executor, Ok(outcome))
    }

    fn count(&self, slice_ns: u64) {
        let counters = &self.shared.counters;
        add(&counters.slices, 1);
        add(&counters.slice_ns, slice_ns);
        // The execution stage is the only one that writes them.
        counters.slice_ns_max.store(get(&counters.slice_ns_max).max(slice_ns), Ordering::Relaxed);
        add(&counters.slices_late, u64::from(slice_ns > self.slice_ns_max));
    }

    /// Ends a work.
    fn finish(
        &mut self,
        mut active: Active<E>,
        executor: &mut E,
        outcome: Ended<E::Answer>,
    ) -> Option<Finished<E::Answer>> {
        let work = &mut active.call.work;
        let more = catch_unwind(AssertUnwindSafe(|| {
            work.end(executor);
            work.give_back(executor)
        }));
        self.leave(active, more, outcome)
    }

    /// A work that has ended leaves when it has no memory left to give back.
    fn leave(
        &mut self,
        mut active: Active<E>,
        more: std::thread::Result<bool>,
        outcome: Ended<E::Answer>,
    ) -> Option<Finished<E::Answer>> {
        match more {
            Ok(true) => {
                active.outcome = Some(outcome);
                self.active.push_back(active);
                None
            }
            Ok(false) => self.drop_work(active, outcome),
            Err(panic) => self.drop_work(active, Ok(Err(panicked(&*panic)))),
        }
    }

    fn drop_work(
        &mut self,
        active: Active<E>,
        outcome: Ended<E::Answer>,
    ) -> Option<Finished<E::Answer>> {
        let Active { call, position, .. } = active;
        let LongCall { work, caller, tag, durability, .. } = call;
        let outcome = match catch_unwind(AssertUnwindSafe(|| drop(work))) {
            Ok(()) => outcome,
            Err(panic) => Ok(Err(panicked(&*panic))),
        };
        if caller.is_some() {
            add(&self.shared.counters.long_works, 1);
            self.shared.counters.long_under_way.fetch_sub(1, Ordering::Relaxed);
        }
        Some(Finished { caller, tag, durability, position, outcome })
    }
}

fn panicked(panic: &(dyn Any + Send)) -> Failure {
    Failure::Panicked(panic_message(panic))
}

/// How many rows the next slice may look at, after one of `rows_max` looked at `rows` in `ns`: what
/// `aim_ns` is enough for, but not more than twice or less than half of it, as one slice may have
/// been an exception.
fn next_rows(rows_max: usize, rows: usize, ns: u64, aim_ns: u64) -> usize {
    if rows == 0 {
        return rows_max;
    }
    let fitting = rows as u128 * u128::from(aim_ns.max(1)) / u128::from(ns.max(1));
    let fitting = usize::try_from(fitting).unwrap_or(ROWS_MAX);
    fitting.clamp((rows_max / 2).max(1), (rows_max * 2).min(ROWS_MAX))
}

#[cfg(not(loom))]
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_grow_and_shrink_towards_their_aim() {
        let rate_ns = |row_ns: u64| {
            let (mut rows, mut longest) = (FIRST_ROWS, 0);
            for _ in 0..40 {
                longest = longest.max(rows as u64 * row_ns);
                rows = next_rows(rows, rows, rows as u64 * row_ns, 50_000);
            }
            (rows as u64 * row_ns, longest)
        };
        for row_ns in [3, 50, 700] {
            let (last, longest) = rate_ns(row_ns);
            assert!((40_000..=50_000).contains(&last) && longest <= 50_000, "{row_ns}: {longest}");
        }
        assert_eq!(next_rows(64, 64, 1_000_000_000, 50_000), 32);
        assert_eq!(next_rows(1, 1, 1_000_000_000, 50_000), 1);
        assert_eq!(next_rows(ROWS_MAX, ROWS_MAX, 1, 50_000), ROWS_MAX);
        assert_eq!(next_rows(100, 0, 1, 50_000), 100);
        // A slice that ended early says what its rows cost, not that slices are too short.
        assert_eq!(next_rows(1_000, 10, 1_000, 50_000), 500);
    }
}
