//! `Outward`: what the process of an island sends: answers, and what the island says to others.
//!
//! ```text
//!   execution stage ── message ──► [items] ──► the sending thread ──► link
//!   receiving thread ── answers ──► [items] ──► the same bundle, at the end of its round
//!   calls under way ── done ──► the sending thread polls them, and takes their answers
//! ```
//!
//! Sending never makes the receiving thread wait: the database's thread at the other end may wait for that one. Not
//! here: what is done with what arrives (`child.rs`).

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::process::exit;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tombolo_engine::link::{ITEM_BYTES_MAX, Link, LinkEnd, Outbox};
use tombolo_storage::sync::{AtomicBool, Mutex, Ordering, Parker};

use super::errors;
use super::wire::{ALIVE, ANSWER, CLOSED, FAILED, Item};
use crate::error::Error;

/// After how long the sending thread looks whether a full link has room again. It does not wait at the link, because
/// the receiving thread must not wait for it.
const ROOM_WAIT: Duration = Duration::from_millis(1);

/// How often the thread tries to send why its island has stopped, before the process ends.
const LAST_TRIES: u32 = 100;

/// How often an island that has no turns says that it is alive, while the database takes it for hanging if it says
/// nothing.
const SIGNS: u32 = 8;

thread_local! {
    /// Whether this thread sends what it has put at the end of its round.
    static SENDS_LATER: Cell<bool> = const { Cell::new(false) };
}

/// A call under way, whose answer is bytes.
type UnderWay = Pin<Box<dyn Future<Output = Result<Vec<u8>, Error>> + Send>>;

/// Under way, with the number of its call.
struct Awaited {
    number: u64,
    answer: UnderWay,
}

/// Wakes the sending thread.
#[derive(Default)]
struct Wakes {
    parker: Parker<()>,
}

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.parker.unpark(());
    }
}

/// What a process sends. See the file's head.
pub(crate) struct Outward {
    outbox: Outbox,
    /// How often to say that this process is alive while the island has no turns.
    sign: Option<Duration>,
    /// Whether the island has no turns: it opens, or it closes.
    has_no_turns: AtomicBool,
    /// Calls under way that the sending thread has not seen yet.
    begun: Mutex<Vec<Awaited>>,
    wakes: Arc<Wakes>,
    waker: Waker,
    is_over: AtomicBool,
    /// Why the island runs no transactions any more.
    stopped: OnceLock<Arc<str>>,
}

impl Outward {
    /// For an island that opens. `silence_max` is how long it may say nothing.
    pub(crate) fn new(link: Box<dyn Link>, silence_max: Option<Duration>) -> Self {
        let wakes = Arc::new(Wakes::default());
        let waker = Waker::from(wakes.clone());
        Self {
            outbox: Outbox::new(link),
            sign: silence_max.map(|time| time / SIGNS),
            has_no_turns: AtomicBool::new(true),
            begun: Mutex::new(Vec::new()),
            wakes,
            waker,
            is_over: AtomicBool::new(false),
            stopped: OnceLock::new(),
        }
    }

    /// The island is open.
    pub(crate) fn opened(&self) {
        self.has_no_turns.store(false, Ordering::SeqCst);
    }

    /// The island closes.
    pub(crate) fn closes(&self) {
        self.has_no_turns.store(true, Ordering::SeqCst);
        self.wakes.parker.unpark(());
    }

    /// The calling thread sends what it puts by [`Outward::send_now`].
    pub(crate) fn sends_later() {
        SENDS_LATER.set(true);
    }

    /// Says that this process is alive.
    pub(crate) fn lives(&self) {
        self.put(Item::new(ALIVE).end());
    }

    /// The island runs no transactions any more, for this reason: the process ends.
    pub(crate) fn stopped(&self, why: Arc<str>) {
        self.stopped.get_or_init(|| why);
        self.wakes.parker.unpark(());
    }

    /// Puts an item behind those that are to be sent.
    pub(crate) fn put(&self, item: Vec<u8>) {
        self.outbox.put(item);
        if !SENDS_LATER.get() {
            self.wakes.parker.unpark(());
        }
    }

    /// Answers a call.
    pub(crate) fn answer(&self, number: u64, answer: &Result<Vec<u8>, Error>) {
        self.put(answer_item(number, answer));
    }

    /// Answers a call when it is done.
    pub(crate) fn answer_later(
        &self,
        number: u64,
        answer: impl Future<Output = Result<Vec<u8>, Error>> + Send + 'static,
    ) {
        self.begun.lock().push(Awaited { number, answer: Box::pin(answer) });
        self.wakes.parker.unpark(());
    }

    /// Sends what there is, as far as the link takes it at once; the sending thread sends the rest.
    ///
    /// # Errors
    /// When the link has ended.
    pub(crate) fn send_now(&self) -> Result<(), LinkEnd> {
        if !self.outbox.send()? {
            self.wakes.parker.unpark(());
        }
        Ok(())
    }

    /// Sends, and answers calls when they are done, until the process ends. For a thread of its own.
    pub(crate) fn run(&self) {
        let mut awaited: Vec<Awaited> = Vec::new();
        let mut context = Context::from_waker(&self.waker);
        loop {
            let is_over = self.is_over.load(Ordering::SeqCst);
            awaited.append(&mut self.begun.lock());
            let done =
                awaited.extract_if(.., |call| match call.answer.as_mut().poll(&mut context) {
                    Poll::Ready(answer) => {
                        self.outbox.put(answer_item(call.number, &answer));
                        true
                    }
                    Poll::Pending => false,
                });
            done.for_each(drop);
            if let Some(why) = self.stopped.get() {
                self.fail(why.clone());
            }
            match self.outbox.send() {
                Ok(true) if is_over => return,
                Ok(true) => self.sleep(),
                Ok(false) => _ = self.wakes.parker.park_for(ROOM_WAIT),
                Err(_) => return, // the receiving thread finds that, too
            }
        }
    }

    /// Sends why the island has stopped, and ends the process. Nothing of this island is written any more: its next
    /// process finds what is durable.
    fn fail(&self, why: Arc<str>) -> ! {
        self.outbox.put(Item::new(CLOSED).rest(&errors::encode(&Error::Poisoned(why))));
        for _ in 0..LAST_TRIES {
            if self.outbox.send().is_err() || self.outbox.is_empty() {
                break;
            }
            _ = self.wakes.parker.park_for(ROOM_WAIT);
        }
        exit(1)
    }

    /// Sleeps until there may be something to do; while the island has no turns, no longer than until it has to say
    /// that it is alive.
    fn sleep(&self) {
        match self.sign.filter(|_| self.has_no_turns.load(Ordering::SeqCst)) {
            None => self.wakes.parker.park(),
            Some(sign) => {
                if self.wakes.parker.park_for(sign).is_none() {
                    self.lives();
                }
            }
        }
    }

    /// The sending thread ends when it has sent what there is.
    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::SeqCst);
        self.wakes.parker.unpark(());
    }
}

fn answer_item(number: u64, answer: &Result<Vec<u8>, Error>) -> Vec<u8> {
    match answer {
        Ok(bytes) if bytes.len() < ITEM_BYTES_MAX / 2 => Item::new(ANSWER).u64(number).rest(bytes),
        Ok(bytes) => {
            let what = format!(
                "the transaction has committed, but its answer of {} bytes is longer than a process sends: answer less",
                bytes.len()
            );
            Item::new(FAILED).u64(number).rest(&errors::encode(&Error::Unknown(what.into())))
        }
        Err(error) => Item::new(FAILED).u64(number).rest(&errors::encode(error)),
    }
}
