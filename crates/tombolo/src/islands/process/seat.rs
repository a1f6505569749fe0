//! `Seat`: an island's process as the database's process sees it: the sending half of its link, and the calls that wait
//! for its answers.
//!
//! ```text
//!   call ─► noted among those that wait ─► sent ─► its thread sleeps ─► answered, or the process has ended
//! ```
//!
//! Invariant: a call that was noted is answered once: with its answer, or as lost when the process ends. Not here: what
//! follows from that end (`supervisor.rs`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tombolo_engine::link::{Link, LinkEnd, UnixLink};
use tombolo_storage::sync::{AtomicU32, AtomicU64, Mutex, Ordering, Parker};

use super::wire::bundle;
use crate::error::Error;

/// How long a thread waits at once for room in a link.
const ROOM_WAIT: Duration = Duration::from_millis(100);

/// What a call is answered.
pub(super) type Answer = Result<Vec<u8>, Error>;

thread_local! {
    /// Where this thread sleeps until its call is answered.
    static SLEEPER: Arc<Parker<Answer>> = Arc::new(Parker::new());
}

/// The calls that wait for an island.
#[derive(Default)]
struct Calls {
    is_up: bool,
    waiting: BTreeMap<u64, Arc<Parker<Answer>>>,
}

/// See the file's head.
pub(super) struct Seat {
    island: usize,
    sending: Mutex<Option<UnixLink>>,
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
    pub(super) fn new(island: usize, is_in_memory: bool) -> Self {
        Self {
            island,
            sending: Mutex::new(None),
            calls: Mutex::default(),
            numbers: AtomicU64::new(0),
            why: Mutex::new("it has not started yet".into()),
            is_in_memory,
            process: AtomicU32::new(0),
        }
    }

    /// The number of its process in the system, if there is one.
    pub(super) fn process(&self) -> Option<u32> {
        Some(self.process.load(Ordering::SeqCst)).filter(|process| *process > 0)
    }

    pub(super) fn is_up(&self) -> bool {
        self.calls.lock().is_up
    }

    /// The error of a call that is not run.
    pub(super) fn refusal(&self) -> Error {
        match self.is_in_memory {
            true => Error::IslandStopped(self.island),
            false => Error::IslandRestarts { island: self.island, why: self.why.lock().clone() },
        }
    }

    /// Sends a call, which `item` puts together with its number, and sleeps until it is answered.
    pub(super) fn call(&self, item: impl FnOnce(u64) -> Vec<u8>) -> Answer {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let sleeper = SLEEPER.with(Arc::clone);
        let mut calls = self.calls.lock();
        if !calls.is_up {
            drop(calls);
            return Err(self.refusal());
        }
        calls.waiting.insert(number, sleeper.clone());
        drop(calls);
        let sent = self.send(&[item(number)]);
        // What was not sent was not run. If the process has ended meanwhile, the call was answered as lost.
        if sent.is_err() && self.calls.lock().waiting.remove(&number).is_some() {
            return Err(self.refusal());
        }
        sleeper.park()
    }

    /// Sends these, and waits while the link has no room.
    ///
    /// # Errors
    /// When there is no process, or the link has ended.
    pub(super) fn send(&self, items: &[Vec<u8>]) -> Result<(), LinkEnd> {
        let mut sending = self.sending.lock();
        let Some(link) = &mut *sending else { return Err(LinkEnd::Gone) };
        let (mut bytes, mut left) = (Vec::new(), items);
        while !left.is_empty() {
            let bundled = bundle(left, &mut bytes);
            while !link.send(&[&bytes])? {
                link.wait(ROOM_WAIT);
            }
            left = &left[bundled..];
        }
        while !link.flush()? {
            link.wait(ROOM_WAIT);
        }
        Ok(())
    }

    /// Hands a call its answer.
    pub(super) fn answered(&self, number: u64, answer: Answer) {
        let waiting = self.calls.lock().waiting.remove(&number);
        if let Some(sleeper) = waiting {
            sleeper.unpark(answer);
        }
    }

    /// A process is there; it takes calls from [`Seat::opens`] on.
    pub(super) fn begins(&self, sending: UnixLink, process: u32) {
        *self.sending.lock() = Some(sending);
        self.process.store(process, Ordering::SeqCst);
    }

    pub(super) fn opens(&self) {
        self.calls.lock().is_up = true;
    }

    /// The process is gone: those that wait for an answer do not know whether they were run.
    pub(super) fn ends(&self, why: Arc<str>) {
        *self.why.lock() = why;
        self.process.store(0, Ordering::SeqCst);
        *self.sending.lock() = None;
        let mut calls = self.calls.lock();
        calls.is_up = false;
        let waiting = std::mem::take(&mut calls.waiting);
        drop(calls);
        for sleeper in waiting.into_values() {
            sleeper.unpark(Err(Error::AnswerLost(self.island)));
        }
    }

    /// Its process could not be started.
    pub(super) fn fails(&self, why: Arc<str>) {
        *self.why.lock() = why;
    }
}
