//! Executing inputs: on one session, or on several in parallel, each on a thread of its own.
//!
//! One session looks ahead at the inputs that come next (TPK-44, setting `locate_ahead`), at as many as are set
//! or as pay. Several share one array of inputs and each takes the next when it is free. A transaction that
//! gave way to another is tried again immediately, and counts as aborted each time; a transaction that always
//! gives way ends the run. Not here: which procedures there are (`workload/`), what is measured.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tombolo_engine::clock::Clock;
use tombolo_engine::hints::Hints;
use tombolo_engine::look_ahead::LookAhead;
use tombolo_engine::procedure::Ahead;
use tombolo_engine::threads;
use tombolo_engine::transaction::Stop;
use tombolo_storage::error::Error;

use super::Executed;
use crate::drive::Tally;
use crate::work::WorkDone;
use crate::workload::WorkloadInput;

/// Tries in a row after which the thread lets others run first.
const TRIES_UNTIL_YIELD: u64 = 2;

/// Executes `input` until it commits or aborts by itself.
///
/// # Errors
/// The store's error, also when the transaction gave way more often than allowed.
#[inline(always)]
pub(super) fn execute<I: WorkloadInput, A>(
    input: &I,
    retries_max: u64,
    tally: &mut Tally,
    mut call: impl FnMut() -> Result<A, Stop>,
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
fn execute_again<I: WorkloadInput, A>(
    input: &I,
    retries_max: u64,
    tally: &mut Tally,
    mut stop: Stop,
    call: &mut dyn FnMut() -> Result<A, Stop>,
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
        Error::LogFull { .. } => "log_full",
        _ => "lock_timeout",
    }
}

/// How inputs that come later are looked at, and how many of them.
pub(super) struct Look<'a, L> {
    pub(super) ahead: &'a mut LookAhead,
    pub(super) locate: L,
}

/// Of what was not looked at.
pub(super) const NO_HINTS: &Hints = &Hints::none();

/// Calls `execute` with each of `inputs`, what was found of it, and what `locate` works on. Inputs are
/// looked at in groups of `ahead`: for the keys of a group while the one before it runs, for its rows right
/// before it runs, all together. The processor waits for where the page of a row is, however early that is
/// asked for, and for several of them hardly longer than for one.
///
/// # Errors
/// The first of `execute`, after which nothing more is executed.
#[inline(always)]
pub(super) fn look_ahead<S, I>(
    session: &mut S,
    inputs: &[I],
    ahead: usize,
    locate: &impl Fn(&S, &I, Ahead, &mut Hints),
    mut execute: impl FnMut(&mut S, &I, &Hints) -> Result<(), Stop>,
) -> Result<(), Stop> {
    if ahead == 0 {
        return inputs.iter().try_for_each(|input| execute(session, input, NO_HINTS));
    }
    let mut hints = vec![Hints::none(); ahead.min(inputs.len())];
    let look = |session: &S, group: &[I], ahead, hints: &mut [Hints]| {
        group.iter().zip(hints).for_each(|(input, hints)| locate(session, input, ahead, hints));
    };
    let mut groups = inputs.chunks(ahead).peekable();
    look(session, groups.peek().copied().unwrap_or_default(), Ahead::Keys, &mut hints);
    while let Some(group) = groups.next() {
        look(session, groups.peek().copied().unwrap_or_default(), Ahead::Keys, &mut hints);
        look(session, group, Ahead::Rows, &mut hints);
        for (input, hints) in group.iter().zip(&hints) {
            execute(session, input, hints)?;
        }
    }
    Ok(())
}

/// Inputs that several threads take from.
struct Inputs<'a, I> {
    inputs: &'a [I],
    next: AtomicUsize,
    failed: AtomicBool,
}

impl<'a, I> Inputs<'a, I> {
    /// The next, unless a thread failed meanwhile.
    fn take(&self) -> Option<(usize, &'a I)> {
        if self.failed.load(Ordering::Relaxed) {
            return None;
        }
        // Relaxed: an input is taken once, nothing else is handed over with it.
        let position = self.next.fetch_add(1, Ordering::Relaxed);
        Some((position, self.inputs.get(position)?))
    }
}

/// The work of one thread.
struct Done {
    tally: Tally,
    executed: Executed,
    /// When each of the thread's inputs was over, where that is asked for.
    ends: Vec<(usize, u64)>,
    outcome: Result<(), Stop>,
}

/// Executes `inputs` one after the other on this thread, and looks ahead. If `ends` has room for it, notes
/// when each was over instead: each is timed as if none waited behind it.
///
/// # Errors
/// The store's error.
pub(super) fn execute_alone<S, I>(
    session: &mut S,
    inputs: &[I],
    clock: &dyn Clock,
    ends: Option<&mut [u64]>,
    look: &mut Look<'_, impl Fn(&S, &I, Ahead, &mut Hints)>,
    mut call: impl FnMut(&mut S, &I, &Hints) -> Result<(), Stop>,
) -> Result<Executed, Stop> {
    let (cpu, _) = (clock.thread_cpu(), WorkDone::take());
    if let Some(ends) = ends {
        for (input, end) in inputs.iter().zip(ends) {
            call(session, input, NO_HINTS)?;
            *end = clock.now_ns();
        }
    } else {
        // The clock is read only to find how many pay.
        let mut now_ns = look.ahead.slice().map(|_| clock.now_ns());
        let mut done = 0;
        while done < inputs.len() {
            let slice = look.ahead.slice().unwrap_or(inputs.len());
            let slice = &inputs[done..inputs.len().min(done + slice)];
            let (ahead, count) = (look.ahead.depth(), slice.len());
            look_ahead(session, slice, ahead, &look.locate, &mut call)?;
            if let Some(now_ns) = &mut now_ns {
                let begun_ns = std::mem::replace(now_ns, clock.now_ns());
                look.ahead.ran(count, *now_ns - begun_ns);
            }
            done += count;
        }
    }
    let engine_cpu = clock.thread_cpu().saturating_sub(cpu);
    Ok(Executed { engine_cpu, work: WorkDone::take() })
}

/// Does all `works` in parallel, one thread each. Compiled once: what starts threads is as much code as a
/// transaction.
fn on_threads(works: Vec<Box<dyn FnOnce() -> Done + Send + '_>>) -> Vec<Done> {
    threads::on_each(works, |work| work())
}

/// Executes `inputs` on all `sessions` in parallel, one thread each, and notes when each was over if
/// `ends` has room for it.
///
/// # Errors
/// The store's first error.
pub(super) fn execute_on_all<S: Send, I: Sync>(
    sessions: impl Iterator<Item = S>,
    inputs: &[I],
    clock: &dyn Clock,
    tally: &mut Tally,
    mut ends: Option<&mut [u64]>,
    call: impl Fn(&mut S, &I, &mut Tally) -> Result<(), Stop> + Sync,
) -> Result<Executed, Stop> {
    let shared = Inputs { inputs, next: AtomicUsize::new(0), failed: AtomicBool::new(false) };
    let is_timed = ends.is_some();
    let work = |mut session: S| -> Done {
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
    let work = &work;
    let works =
        sessions.map(|session| Box::new(move || work(session)) as Box<dyn FnOnce() -> Done + Send>);
    let mut executed = Executed::default();
    let mut outcome = Ok(());
    for done in on_threads(works.collect()) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::tpcc::input::{Generator, Input, Mix};
    use crate::workload::tpcc::nurand::Constants;
    use tombolo_engine::clock::SystemClock;
    use tombolo_storage::row::RowId;

    fn inputs(count: usize) -> Vec<Input> {
        Generator::new(1, Mix::Paper, 1, Constants::from_seed(1)).take(count).collect()
    }

    #[test]
    fn what_gave_way_is_tried_again_and_counted() {
        let (input, mut tally) = (&inputs(1)[0], Tally::default());
        let mut stops = [Error::Deadlock, Error::LockTimeout, Error::Deadlock].into_iter();
        let mut call =
            || Err::<(), _>(stops.next().map_or(Stop::Abort("invalid_item"), Stop::Error));
        execute(input, 3, &mut tally, &mut call).unwrap();
        let expected = [("deadlock", 2), ("lock_timeout", 1), ("invalid_item", 1)];
        assert_eq!(tally.reasons, expected);
        assert_eq!((tally.total().aborted, tally.retried, tally.done()), (4, 3, 1));
    }

    #[test]
    fn inputs_are_looked_at_twice_before_they_run_and_in_order() {
        let (inputs, clock) = (inputs(50), SystemClock::new());
        let position = |input: &Input| inputs.iter().position(|other| std::ptr::eq(other, input));
        for ahead in [0, 1, 2, 7, 8, 200] {
            let looks = std::cell::RefCell::new(Vec::new());
            let mut look = Look {
                ahead: &mut LookAhead::always(ahead),
                locate: |done: &usize, input: &Input, ahead: Ahead, _: &mut Hints| {
                    looks.borrow_mut().push((ahead, position(input).unwrap(), *done));
                },
            };
            let mut done = 0;
            execute_alone(&mut done, &inputs, &clock, None, &mut look, |done, input, _| {
                assert_eq!(position(input), Some(*done));
                *done += 1;
                Ok(())
            })
            .unwrap();
            assert_eq!(done, 50);
            let looks = looks.into_inner();
            for step in [Ahead::Keys, Ahead::Rows] {
                let of_step: Vec<_> = looks.iter().filter(|look| look.0 == step).collect();
                let expected = if ahead == 0 { 0 } else { 50 };
                assert!(of_step.iter().map(|look| look.1).eq(0..expected), "{ahead}: {of_step:?}");
                for (_, at, done) in of_step {
                    // When its group begins, or the one before that.
                    let begins = at / ahead * ahead;
                    let earliest =
                        if step == Ahead::Rows { begins } else { begins.saturating_sub(ahead) };
                    assert_eq!(*done, earliest, "{ahead}: {step:?} of {at}");
                }
            }
        }
    }

    #[test]
    fn each_input_runs_with_what_was_found_of_it() {
        let (inputs, clock) = (inputs(50), SystemClock::new());
        let position = |input: &Input| inputs.iter().position(|other| std::ptr::eq(other, input));
        for ahead in [1, 7, 8, 200] {
            let mut look = Look {
                ahead: &mut LookAhead::always(ahead),
                locate: |_: &usize, input: &Input, ahead: Ahead, hints: &mut Hints| {
                    *hints = Hints::none();
                    if ahead == Ahead::Rows {
                        (0..=position(input).unwrap() % 8).for_each(|_| hints.push(RowId::new(1)));
                    }
                },
            };
            let mut done = 0;
            execute_alone(&mut done, &inputs, &clock, None, &mut look, |done, input, hints| {
                let mut expected = Hints::none();
                (0..=position(input).unwrap() % 8).for_each(|_| expected.push(RowId::new(1)));
                assert_eq!(format!("{hints:?}"), format!("{expected:?}"));
                *done += 1;
                Ok(())
            })
            .unwrap();
            assert_eq!(done, 50);
        }
    }

    #[test]
    fn a_failure_ends_a_lone_session() {
        let (inputs, clock) = (inputs(50), SystemClock::new());
        let mut ahead = LookAhead::always(4);
        let mut look =
            Look { ahead: &mut ahead, locate: |_: &usize, _: &Input, _, _: &mut Hints| () };
        let (mut done, mut ends) = (0, vec![0; 50]);
        let outcome =
            execute_alone(&mut done, &inputs, &clock, Some(&mut ends), &mut look, |done, _, _| {
                *done += 1;
                if *done == 10 { Err(Stop::Error(Error::NoUndo)) } else { Ok(()) }
            });
        assert!(outcome.is_err() && done == 10);
        assert!(ends[..9].iter().all(|&end| end > 0) && ends[9..].iter().all(|&end| end == 0));
    }

    #[test]
    fn what_always_gives_way_ends_the_run() {
        let (input, mut tally) = (&inputs(1)[0], Tally::default());
        let stop = Stop::Error(Error::Deadlock);
        assert_eq!(execute(input, 5, &mut tally, || Err::<(), _>(stop)), Err(stop));
        assert_eq!((tally.retried, tally.done()), (5, 0));
        let stop = Stop::Error(Error::NoUndo);
        assert_eq!(
            execute(input, 5, &mut tally, || Err::<(), _>(stop)),
            Err(stop),
            "never tried again"
        );
        assert_eq!(tally.retried, 5);
    }

    #[test]
    fn each_input_is_executed_once_whichever_thread_takes_it() {
        let (inputs, clock) = (inputs(500), SystemClock::new());
        let (mut tally, mut ends) = (Tally::default(), vec![0; inputs.len()]);
        let mut sessions = [0, 0, 0];
        let call = |session: &mut &mut i32, input: &Input, tally: &mut Tally| {
            **session += 1;
            tally.committed(input.kind());
            Ok(())
        };
        let all = sessions.iter_mut();
        execute_on_all(all, &inputs, &clock, &mut tally, Some(&mut ends), call).unwrap();
        assert_eq!(sessions.iter().sum::<i32>(), 500);
        assert_eq!(tally.done(), 500);
        assert!(ends.iter().all(|&end| end > 0));
    }

    #[test]
    fn a_failure_ends_all_threads() {
        let (inputs, clock) = (inputs(1_000), SystemClock::new());
        let call = |session: &mut i32, input: &Input, tally: &mut Tally| {
            *session += 1;
            tally.committed(input.kind());
            if *session == 10 { Err(Stop::Error(Error::NoUndo)) } else { Ok(()) }
        };
        let mut tally = Tally::default();
        let outcome = execute_on_all([0, 0].into_iter(), &inputs, &clock, &mut tally, None, call);
        assert_eq!(outcome, Err(Stop::Error(Error::NoUndo)));
        assert!(tally.done() <= 20);
    }
}
