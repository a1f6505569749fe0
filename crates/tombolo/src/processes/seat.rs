//! `Seat`: an island's process as the database's process sees it: the sending half of its link, and the calls that wait
//! for its answers.
//!
//! ```text
//!   call ─► noted among those that wait ─► sent ─► its thread sleeps ─► answered, or the process has ended
//! ```
//!
//! Nothing but a caller waits for a process: threads that hand on what islands say leave it in the outbox when the link
//! is full, because the process at its other end may hang.
//!
//! Invariant: a call that was noted is answered once: with its answer, or as lost when the process ends. What was put
//! for one process never reaches the next one. Not here: what follows from that end (`supervisor.rs`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tombolo_engine::link::Outbox;
use tombolo_storage::sync::{AtomicU32, AtomicU64, Mutex, Ordering, Parker};

use super::line::Line;
use super::wire::Item;
use crate::error::Error;

/// After how long a full link is tried again.
pub(crate) const ROOM_WAIT: Duration = Duration::from_millis(1);

/// A process to which nothing is sent; dropped, what was held back is.
pub(crate) struct Held(Arc<Line>);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.outbox.release();
        _ = self.0.outbox.send(); // what a full link leaves, its supervisor sends
    }
}

/// What a call is answered.
pub(crate) type Answer = Result<Vec<u8>, Error>;

thread_local! {
    /// Where this thread sleeps until its call is answered.
    static SLEEPER: Arc<Parker<Answer>> = Arc::new(Parker::new());
}

/// A call that was put.
pub(crate) struct Begun {
    pub(crate) line: Arc<Line>,
    number: u64,
    pub(crate) sleeper: Arc<Parker<Answer>>,
    /// Whether no other call of the island waited then.
    pub(crate) is_alone: bool,
}

/// The calls that wait for an island.
#[derive(Default)]
struct Calls {
    /// To its process, while there is one that listens.
    line: Option<Arc<Line>>,
    is_up: bool,
    waiting: BTreeMap<u64, Arc<Parker<Answer>>>,
}

/// See the file's head.
pub(crate) struct Seat {
    island: usize,
    calls: Mutex<Calls>,
    numbers: AtomicU64,
    /// Why the process is not there.
    why: Mutex<Arc<str>>,
    /// Whether its process is never started again: what it had is lost with it.
    is_in_memory: bool,
    /// The number of its process in the system; 0 while there is none.
    process: AtomicU32,
}

impl Seat {
    pub(crate) fn new(island: usize, is_in_memory: bool) -> Self {
        Self {
            island,
            calls: Mutex::default(),
            numbers: AtomicU64::new(0),
            why: Mutex::new("it has not started yet".into()),
            is_in_memory,
            process: AtomicU32::new(0),
        }
    }

    /// The number of its process in the system, if there is one.
    pub(crate) fn process(&self) -> Option<u32> {
        Some(self.process.load(Ordering::SeqCst)).filter(|process| *process > 0)
    }

    pub(crate) fn is_up(&self) -> bool {
        self.calls.lock().is_up
    }

    /// The error of a call that is not run.
    pub(crate) fn refusal(&self) -> Error {
        match self.is_in_memory {
            true => Error::IslandStopped(self.island),
            false => Error::IslandRestarts { island: self.island, why: self.why.lock().clone() },
        }
    }

    /// Sends a call, which `item` puts together with its number, and sleeps until it is answered.
    pub(crate) fn call(&self, item: impl FnOnce(u64) -> Vec<u8>) -> Answer {
        self.wait(self.begin(item)?, None)
    }

    /// Asks the process, past what is held back, and sleeps until it answers, for `time_max` at most.
    pub(crate) fn ask(&self, kind: u8, time_max: Duration) -> Answer {
        let item = |number| Item::new(kind).u64(number).end();
        let sleeper = SLEEPER.with(Arc::clone);
        self.wait(self.put(item, sleeper, Outbox::put_past)?, Some(time_max))
    }

    /// Notes a call, and puts it behind what is to be sent.
    pub(crate) fn begin(&self, item: impl FnOnce(u64) -> Vec<u8>) -> Result<Begun, Error> {
        self.put(item, SLEEPER.with(Arc::clone), Outbox::put)
    }

    /// The same for a thread that begins several calls before it waits for them.
    pub(crate) fn begin_one_of(&self, item: impl FnOnce(u64) -> Vec<u8>) -> Result<Begun, Error> {
        let begun = self.put(item, Arc::default(), Outbox::put)?;
        _ = begun.line.outbox.send(); // what a full link leaves goes while one is waited for
        begun.line.wake_supervisor();
        Ok(begun)
    }

    fn put(
        &self,
        item: impl FnOnce(u64) -> Vec<u8>,
        sleeper: Arc<Parker<Answer>>,
        put: impl FnOnce(&Outbox, Vec<u8>) -> bool,
    ) -> Result<Begun, Error> {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let mut calls = self.calls.lock();
        let Some(line) = calls.line.clone().filter(|_| calls.is_up) else {
            drop(calls);
            return Err(self.refusal());
        };
        calls.waiting.insert(number, sleeper.clone());
        let is_alone = calls.waiting.len() == 1;
        drop(calls);
        // What was not put was not run. If the process has ended meanwhile, the call was answered as lost.
        if !put(&line.outbox, item(number)) && self.forgets(number) {
            return Err(self.refusal());
        }
        Ok(Begun { line, number, sleeper, is_alone })
    }

    /// Sends what was put, and sleeps until a call is answered, for `time_max` at most.
    pub(crate) fn wait(&self, begun: Begun, time_max: Option<Duration>) -> Answer {
        let Begun { line, number, sleeper, .. } = begun;
        let mut left = time_max;
        loop {
            // Should the link have ended, the end of its process answers the call.
            let is_full = line.outbox.send() == Ok(false);
            let room = is_full.then_some(ROOM_WAIT);
            let Some(time) = left.into_iter().chain(room).min() else { return sleeper.park() };
            if let Some(answer) = sleeper.park_for(time) {
                return answer;
            }
            left = left.map(|left| left.saturating_sub(time));
            if left.is_some_and(|left| left.is_zero()) {
                return if self.forgets(number) { Err(self.late()) } else { sleeper.park() };
            }
        }
    }

    /// Gives up waiting for an answer; `false` if there is one.
    fn forgets(&self, number: u64) -> bool {
        self.calls.lock().waiting.remove(&number).is_some()
    }

    /// Whether no call waits.
    pub(crate) fn is_idle(&self) -> bool {
        self.calls.lock().waiting.is_empty()
    }

    /// The error of a question that is not answered in time.
    fn late(&self) -> Error {
        let what = "not done: its process does not answer in time; retry".to_owned();
        Error::InIsland { island: self.island, what, is_retryable: true }
    }

    /// Holds back what is sent to its process, except for questions, while the answer lives.
    pub(crate) fn hold(&self) -> Option<Held> {
        let line = self.calls.lock().line.clone()?;
        line.outbox.hold();
        Some(Held(line))
    }

    /// Sends an item past what is held back.
    pub(crate) fn send_past(&self, item: Vec<u8>) {
        let Some(line) = self.calls.lock().line.clone() else { return };
        if line.outbox.put_past(item) {
            _ = line.outbox.send();
        }
    }

    /// Sends these, or as much as the link has room for; what there is no process for is lost.
    pub(crate) fn send(&self, items: impl IntoIterator<Item = Vec<u8>>) {
        let Some(line) = self.calls.lock().line.clone() else { return };
        if items.into_iter().all(|item| line.outbox.put(item)) {
            _ = line.outbox.send(); // what is left, its supervisor sends; an ended link it notices
        }
    }

    /// Sends what is left; returns whether the link is full.
    pub(crate) fn is_full(&self) -> bool {
        let line = self.calls.lock().line.clone();
        line.is_some_and(|line| line.outbox.send() == Ok(false))
    }

    /// Hands a call its answer.
    pub(crate) fn answered(&self, number: u64, answer: Answer) {
        let waiting = self.calls.lock().waiting.remove(&number);
        if let Some(sleeper) = waiting {
            sleeper.unpark(answer);
        }
    }

    /// A process is there; it takes calls from [`Seat::opens`] on.
    pub(crate) fn begins(&self, line: Arc<Line>, process: u32) {
        self.calls.lock().line = Some(line);
        self.process.store(process, Ordering::SeqCst);
    }

    pub(crate) fn opens(&self) {
        self.calls.lock().is_up = true;
    }

    /// The process is gone: those that wait for an answer do not know whether they were run.
    pub(crate) fn ends(&self, why: &Arc<str>) {
        *self.why.lock() = why.clone();
        self.process.store(0, Ordering::SeqCst);
        let Calls { line, waiting, .. } = std::mem::take(&mut *self.calls.lock());
        if let Some(line) = line {
            line.outbox.close();
        }
        for sleeper in waiting.into_values() {
            let (island, why) = (self.island, why.clone());
            sleeper.unpark(Err(Error::AnswerLost { island, why }));
        }
    }

    /// Its process could not be started.
    pub(crate) fn fails(&self, why: Arc<str>) {
        *self.why.lock() = why;
    }
}
