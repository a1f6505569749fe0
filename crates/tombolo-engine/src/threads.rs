//! The door to threads: the only place that starts one.
//!
//! Threads that work on borrowed data are scoped: none outlives what it borrows, and a panic in one reaches the
//! thread that waits for it. The pipeline's threads ([`Running`]) own their stages
//! ([`crate::pipeline::StageLoop`]) and end when those have ended.

use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

/// Runs `work` once per element of `parts` on up to `threads` threads and hands each result to
/// `consume` on the calling thread, in the order of `parts`, whatever the schedule was. At most a
/// few results wait at any time.
///
/// # Panics
/// When `threads` is 0, or with the panic of a worker.
pub fn ordered_parallel<P: Sync, T: Send>(
    parts: &[P],
    threads: usize,
    work: impl Fn(&P) -> T + Sync,
    mut consume: impl FnMut(T),
) {
    assert!(threads > 0, "at least one thread does the work");
    std::thread::scope(|scope| {
        // Worker t makes parts t, t + threads, …; its channel holds one result while it makes the
        // next.
        let channels: Vec<_> = (0..threads)
            .map(|first| {
                let (send, receive) = sync_channel(1);
                let work = &work;
                scope.spawn(move || {
                    for part in parts.iter().skip(first).step_by(threads) {
                        if send.send(work(part)).is_err() {
                            return; // the consumer panicked and takes no more
                        }
                    }
                });
                receive
            })
            .collect();
        for position in 0..parts.len() {
            match channels[position % threads].recv() {
                Ok(result) => consume(result),
                Err(_) => return, // the worker panicked; the scope passes its panic on
            }
        }
    });
}

/// Runs `work` once per worker, each on a thread of its own; the results in the workers' order. One
/// worker works on the calling thread.
///
/// # Panics
/// With the panic of a worker, once all others have ended.
pub fn on_each<W: Send, T: Send>(
    workers: impl IntoIterator<Item = W>,
    work: impl Fn(W) -> T + Sync,
) -> Vec<T> {
    let mut workers: Vec<W> = workers.into_iter().collect();
    if workers.len() <= 1 {
        return workers.pop().map(&work).into_iter().collect();
    }
    std::thread::scope(|scope| {
        let work = &work;
        let started: Vec<_> =
            workers.into_iter().map(|worker| scope.spawn(move || work(worker))).collect();
        let ended = started.into_iter().map(|thread| thread.join());
        ended.map(|end| end.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    })
}

/// Does `there` on a thread of its own while the calling one does `here`; both results.
///
/// # Panics
/// With the panic of either, once the other has ended.
pub fn both<A: Send, B>(there: impl FnOnce() -> A + Send, here: impl FnOnce() -> B) -> (A, B) {
    std::thread::scope(|scope| {
        let there = scope.spawn(there);
        let here = here();
        (there.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)), here)
    })
}

/// The message of a panic.
pub fn panic_message(panic: &(dyn std::any::Any + Send)) -> Box<str> {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("without a message").into()
}

/// Lets another thread run, for instance the one that this one gave way to.
pub fn give_way() {
    std::thread::yield_now();
}

/// Lets so much time pass, to wait for something outside this process.
#[expect(clippy::disallowed_methods, reason = "this is the threads door")]
pub fn pause(time: Duration) {
    std::thread::sleep(time);
}

/// A thread that does something again and again, until it is dropped.
#[derive(Debug)]
pub struct Recurring {
    waker: Waker,
    thread: Option<Running>,
}

/// Ends the pause of a [`Recurring`] thread.
#[derive(Clone, Debug)]
pub struct Waker(SyncSender<Word>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word {
    Work,
    Stop,
}

impl Waker {
    /// Has the thread work at once, or once more if it works now. Nothing happens if it has ended.
    pub fn wake(&self) {
        // One word that waits is enough.
        let _ = self.0.try_send(Word::Work);
    }
}

impl Recurring {
    /// Starts a thread that calls `work`, with a pause before each call unless it is woken, until that says that it is
    /// over. If it panics, `panicked` is called with the message, and the thread ends.
    ///
    /// # Errors
    /// When the system has no thread.
    pub fn start(
        name: &str,
        pause: Duration,
        mut work: impl FnMut() -> ControlFlow<()> + Send + 'static,
        panicked: impl FnOnce(Box<str>) + Send + 'static,
    ) -> Result<Self, NoThread> {
        let (waker, words) = sync_channel(1);
        let again = move || {
            let works = [Ok(Word::Work), Err(RecvTimeoutError::Timeout)];
            while works.contains(&words.recv_timeout(pause)) {
                match catch_unwind(AssertUnwindSafe(&mut work)) {
                    Ok(ControlFlow::Continue(())) => {}
                    Ok(ControlFlow::Break(())) => return,
                    Err(panic) => return panicked(panic_message(&*panic)),
                }
            }
        };
        Ok(Self { waker: Waker(waker), thread: Some(Running::start(name, again)?) })
    }

    /// What ends its pauses.
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }
}

impl Drop for Recurring {
    fn drop(&mut self) {
        // Refused if the thread has ended already.
        let _ = self.waker.0.send(Word::Stop);
        // A panic, too, is known to its user.
        let _ = self.thread.take().map(|thread| thread.0.join());
    }
}

/// How many threads the machine runs simultaneously.
pub fn available() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// The cores that this process may run on.
pub fn allowed_cores() -> Vec<usize> {
    use rustix::thread::{CpuSet, sched_getaffinity};
    let set = sched_getaffinity(None);
    let allowed = |set: CpuSet| (0..CpuSet::MAX_CPU).filter(|&core| set.is_set(core)).collect();
    set.map_or_else(|_| (0..available()).collect(), allowed)
}

/// Binds the calling thread to these cores for good (ISL-13); to none: the system decides.
///
/// # Errors
/// Why the system does not allow it.
pub fn bind_to(cores: &[usize]) -> Result<(), std::io::Error> {
    use rustix::thread::{CpuSet, sched_setaffinity};
    if cores.is_empty() {
        return Ok(());
    }
    let mut set = CpuSet::new();
    cores.iter().for_each(|&core| set.set(core));
    Ok(sched_setaffinity(None, &set)?)
}

/// While it lives, the thread that made it and those that it starts run on these cores (ISL-13, TPK-31); then the
/// thread runs on those it had before, while those that it started stay.
#[derive(Debug)]
pub struct OnCores(Option<rustix::thread::CpuSet>);

impl OnCores {
    /// Binds the calling thread to these cores; to none: the system decides.
    ///
    /// # Errors
    /// Why the system does not allow it.
    pub fn bind(cores: &[usize]) -> Result<Self, std::io::Error> {
        if cores.is_empty() {
            return Ok(Self(None));
        }
        let before = rustix::thread::sched_getaffinity(None)?;
        bind_to(cores)?;
        Ok(Self(Some(before)))
    }

    /// Binds it to one core: the last one, because the system's own work tends to be on the first.
    ///
    /// # Errors
    /// As [`OnCores::bind`].
    pub fn bind_to_one() -> Result<Self, std::io::Error> {
        Self::bind(&[allowed_cores().pop().unwrap_or_default()])
    }
}

impl Drop for OnCores {
    fn drop(&mut self) {
        // Nothing depends on it but speed.
        if let Some(before) = &self.0 {
            let _ = rustix::thread::sched_setaffinity(None, before);
        }
    }
}

/// A thread that was started and is waited for.
#[derive(Debug)]
pub struct Running(std::thread::JoinHandle<()>);

/// The system has no thread, or no memory for its stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoThread {
    name: String,
    why: String,
}

impl std::fmt::Display for NoThread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { name, why } = self;
        write!(
            f,
            "the system refuses a thread ({name}): {why}; raise its limits on threads and memory, or \
             end other processes"
        )
    }
}

impl std::error::Error for NoThread {}

/// How the standard library's panics begin where the system refuses a thread and the library cannot return an
/// error: in the new thread, whose signal stack is mapped there, and in the thread that starts a scoped one.
const SIGNAL_STACK: [&str; 2] = [
    "failed to allocate an alternative stack: ",
    "failed to set up alternative stack guard page: ",
];
const SCOPED: &str = "failed to spawn thread: ";

/// The system's errors that say so: EAGAIN (too many threads) and ENOMEM, as the standard library
/// shows and as it debugs them.
const REFUSALS: [(i32, [&str; 2]); 2] =
    [(11, ["(os error 11)", "code: 11,"]), (12, ["(os error 12)", "code: 12,"])];

impl NoThread {
    /// The refusal that a panic in this thread is about, if it is about one.
    pub fn from_panic(panic: &str) -> Option<Self> {
        let is_own = SIGNAL_STACK.iter().any(|begin| panic.starts_with(begin));
        if !is_own && !panic.starts_with(SCOPED) {
            return None;
        }
        let refused =
            |(_, shown): &&(i32, [&str; 2])| shown.iter().any(|code| panic.contains(code));
        let (code, _) = REFUSALS.iter().find(refused)?;
        let this = std::thread::current();
        let name = this.name().filter(|_| is_own).unwrap_or("one for a part of the work");
        Some(Self { name: name.into(), why: std::io::Error::from_raw_os_error(*code).to_string() })
    }
}

impl Running {
    /// Starts a thread.
    ///
    /// # Errors
    /// When the system has none; `work` is dropped then.
    pub fn start(name: &str, work: impl FnOnce() + Send + 'static) -> Result<Self, NoThread> {
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(work);
        let refused =
            |error: std::io::Error| NoThread { name: name.into(), why: error.to_string() };
        thread.map(Self).map_err(refused)
    }

    /// Starts a thread for work that is sent to it when all threads are there which are needed:
    /// without all of them nothing begins. Without any work it ends.
    ///
    /// # Errors
    /// When the system has none.
    pub fn start_for<W: Send + 'static>(
        name: &str,
        work: impl FnOnce(W) + Send + 'static,
    ) -> Result<(Self, SyncSender<W>), NoThread> {
        let (send, receive) = sync_channel(1);
        let started = Self::start(name, move || {
            if let Ok(given) = receive.recv() {
                work(given);
            }
        });
        Ok((started?, send))
    }

    /// Waits until it has ended.
    ///
    /// # Panics
    /// With its panic.
    pub fn join(self) {
        self.0.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    }
}

#[cfg(not(loom))]
#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;

    #[test]
    fn results_arrive_in_order() {
        let parts: Vec<u64> = (0..1_000).collect();
        for threads in [1, 2, 3] {
            let mut seen = Vec::new();
            ordered_parallel(&parts, threads, |part| part * part, |square| seen.push(square));
            assert_eq!(seen, parts.iter().map(|part| part * part).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_recurring_thread_works_when_it_is_woken_and_ends_when_it_is_dropped() {
        let (worked, works) = std::sync::mpsc::channel();
        let for_ever = Duration::from_secs(1 << 30);
        let work = move || worked.send(()).map_or(ControlFlow::Break(()), ControlFlow::Continue);
        let recurring = Recurring::start("test", for_ever, work, drop).unwrap();
        let waker = recurring.waker();
        for _ in 0..3 {
            waker.wake();
            assert_eq!(works.recv(), Ok(()));
        }
        drop(recurring);
        assert!(works.try_recv().is_err());
        waker.wake();
        // One that ended by itself is dropped, too.
        let over = || ControlFlow::Break(());
        let ended = Recurring::start("test", Duration::ZERO, over, drop).unwrap();
        while works.recv().is_ok() {}
        drop(ended);
    }

    #[test]
    fn a_panic_of_a_recurring_thread_is_reported_to_its_user() {
        let (tells, told) = std::sync::mpsc::channel();
        let work = || panic!("a page is damaged");
        let panicked = move |message| tells.send(message).unwrap();
        let recurring = Recurring::start("test", Duration::ZERO, work, panicked).unwrap();
        assert_eq!(told.recv().as_deref(), Ok("a page is damaged"));
        drop(recurring);
    }

    #[test]
    fn a_panic_of_the_standard_library_names_a_refused_thread() {
        let memory = "Cannot allocate memory (os error 12)";
        for begin in ["allocate an alternative stack", "set up alternative stack guard page"] {
            let panic = format!("failed to {begin}: {memory}");
            let refused = std::thread::Builder::new()
                .name("log".to_owned())
                .spawn(move || NoThread::from_panic(&panic))
                .unwrap()
                .join();
            assert_eq!(refused.unwrap(), Some(NoThread { name: "log".into(), why: memory.into() }));
        }
        let too_many = "failed to spawn thread: Os { code: 11, kind: WouldBlock, message: \
                        \"Resource temporarily unavailable\" }";
        let refused = NoThread::from_panic(too_many).unwrap();
        assert_eq!(
            refused.to_string(),
            "the system refuses a thread (one for a part of the work): Resource temporarily \
             unavailable (os error 11); raise its limits on threads and memory, or end other processes"
        );
    }

    #[test]
    fn other_panics_name_no_refused_thread() {
        for panic in [
            "failed to allocate an alternative stack: Invalid argument (os error 22)",
            "failed to spawn thread: Os { code: 110, kind: TimedOut, message: \"\" }",
            "log-000001: Cannot allocate memory (os error 12)",
            "no reason is known",
        ] {
            assert_eq!(NoThread::from_panic(panic), None, "{panic}");
        }
    }

    #[test]
    fn each_worker_works_once_on_its_own_thread() {
        let mut counts = [0, 10, 20];
        let threads = on_each(&mut counts, |count| {
            *count += 1;
            std::thread::current().id()
        });
        assert_eq!(counts, [1, 11, 21]);
        let here = std::thread::current().id();
        assert!(threads.len() == 3 && threads.iter().all(|&thread| thread != here));
        assert_eq!(on_each([()], |()| std::thread::current().id()), [here]);
        assert_eq!(on_each([0u8; 0], |_| ()), []);
        let caught = catch_unwind(|| on_each([1, 2], |n| assert!(n != 2)));
        assert!(caught.is_err());
    }

    #[test]
    fn two_things_are_done_on_two_threads() {
        let here = std::thread::current().id();
        let (meet, met) = sync_channel(0);
        let there = move || {
            meet.send(7).unwrap(); // waits until the other has begun too
            std::thread::current().id()
        };
        let (other, got) = both(there, || (met.recv().unwrap(), std::thread::current().id()));
        assert!(other != here && got == (7, here));
        assert!(catch_unwind(|| both(|| panic!("planted"), || ())).is_err());
    }

    #[test]
    fn a_thread_is_bound_to_one_core_for_a_while() {
        let cores = || rustix::thread::sched_getaffinity(None).unwrap().count();
        let before = cores();
        let bound = OnCores::bind_to_one().unwrap();
        assert_eq!((cores(), on_each([(), ()], |()| cores())), (1, vec![1, 1]));
        drop(bound);
        assert_eq!(cores(), before);
    }

    #[test]
    fn a_workers_panic_reaches_the_caller() {
        let caught = catch_unwind(|| {
            ordered_parallel(&[1, 2, 3], 2, |&part| assert!(part != 2), |()| {});
        });
        assert!(caught.is_err());
    }
}
