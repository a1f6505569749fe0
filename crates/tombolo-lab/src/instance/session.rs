//! Executing inputs: on one session, or on several at once, each on a thread of its own.
//!
//! Sessions share one array of inputs and each takes the next when it is free. A transaction that
//! gave way to another is tried again at once, and counts as aborted each time; one that always
//! gives way ends the run. Not here: which procedures there are (`tpcc.rs`), what is measured.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tombolo_engine::clock::Clock;
use tombolo_engine::threads;
use tombolo_engine::transaction::Stop;
use tombolo_storage::error::Error;

use super::Executed;
use crate::drive::Tally;
use crate::work::WorkDone;
use crate::workload::tpcc::input::Input;
use crate::workload::tpcc::transactions::Answer;

/// Tries in a row after which the thread lets others run first.
const TRIES_UNTIL_YIELD: u64 = 2;

/// Executes `input` until it commits or aborts by itself.
///
/// # Errors
/// What the store failed with, also when the transaction gave way more often than allowed.
#[inline(always)]
pub(super) fn execute(
    input: &Input,
    retries_max: u64,
    tally: &mut Tally,
    mut call: impl FnMut() -> Result<Answer, Stop>,
) -> Result<(), Stop> {
    match call() {
        Ok(answer) => {
            black_box(&answer);
            tally.committed(input.kind());
            Ok(())
        }
        Err(stop) => execute_again(input, retries_max, tally, stop, &mut call),
    }
}

/// The same after the first try ended otherwise than by committing.
#[cold]
fn execute_again(
    input: &Input,
    retries_max: u64,
    tally: &mut Tally,
    mut stop: Stop,
    call: &mut dyn FnMut() -> Result<Answer, Stop>,
) -> Result<(), Stop> {
    for retry in 0.. {
        let error = match stop {
            Stop::Error(error) if error.retry() => error,
            stop => return tally.stopped(input.kind(), stop),
        };
        if retry == retries_max {
            return Err(stop);
        }
        tally.gave_way(input.kind(), reason(error));
        if retry >= TRIES_UNTIL_YIELD {
            threads::give_way();
        }
        stop = match call() {
            Ok(answer) => {
                black_box(&answer);
                tally.committed(input.kind());
                return Ok(());
            }
            Err(stop) => stop,
        };
    }
    Ok(())
}

/// The reason that an abort by `error` is counted under.
const fn reason(error: Error) -> &'static str {
    match error {
        Error::Deadlock => "deadlock",
        _ => "lock_timeout",
    }
}

/// Inputs that several threads take from.
struct Inputs<'a> {
    inputs: &'a [Input],
    next: AtomicUsize,
    failed: AtomicBool,
}

impl<'a> Inputs<'a> {
    /// The next, unless a thread failed meanwhile.
    fn take(&self) -> Option<(usize, &'a Input)> {
        if self.failed.load(Ordering::Relaxed) {
            return None;
        }
        // Relaxed: an input is taken once, nothing else is handed over with it.
        let position = self.next.fetch_add(1, Ordering::Relaxed);
        Some((position, self.inputs.get(position)?))
    }
}

/// What one thread did.
struct Done {
    tally: Tally,
    executed: Executed,
    /// When each of the thread's inputs was over, where that is asked for.
    ends: Vec<(usize, u64)>,
    outcome: Result<(), Stop>,
}

/// Executes `inputs` on all `sessions` at once, one thread each, and notes when each was over if
/// `ends` has room for it.
///
/// # Errors
/// What the store failed with first.
pub(super) fn execute_on_all<S: Send>(
    sessions: impl Iterator<Item = S>,
    inputs: &[Input],
    clock: &dyn Clock,
    tally: &mut Tally,
    mut ends: Option<&mut [u64]>,
    call: impl Fn(&mut S, &Input, &mut Tally) -> Result<(), Stop> + Sync,
) -> Result<Executed, Stop> {
    let shared = Inputs { inputs, next: AtomicUsize::new(0), failed: AtomicBool::new(false) };
    let is_timed = ends.is_some();
    let work = |mut session: S| {
        let (cpu, _) = (clock.thread_cpu(), WorkDone::take());
        let mut tally = Tally::default();
        let (mut ends, mut outcome) = (Vec::new(), Ok(()));
        while let Some((position, input)) = shared.take() {
            outcome = call(&mut session, input, &mut tally);
            if outcome.is_err() {
                shared.failed.store(true, Ordering::Relaxed);
                break;
            }
            if is_timed {
                ends.push((position, clock.now_ns()));
            }
        }
        let engine_cpu = clock.thread_cpu().saturating_sub(cpu);
        Done { tally, executed: Executed { engine_cpu, work: WorkDone::take() }, ends, outcome }
    };
    let mut executed = Executed::default();
    let mut outcome = Ok(());
    for done in threads::on_each(sessions, work) {
        tally.add(&done.tally);
        executed.engine_cpu += done.executed.engine_cpu;
        executed.work.add(&done.executed.work);
        outcome = outcome.and(done.outcome);
        if let Some(all) = ends.as_deref_mut() {
            done.ends.into_iter().for_each(|(position, end)| all[position] = end);
        }
    }
    outcome.map(|()| executed)
}
