//! `Mail`: what the islands of one process send each other, and what happens to them: messages, durability, time.
//!
//! ```text
//!   an island's turn ─ put ─► [inbox] ─ ring ─► one `Attend` call in the pipeline ─► the island's next turn
//!                                                     │ durable
//!        events that waited for that ◄── put ─────────┘
//! ```
//!
//! A message is put into the inbox of its island and never lost while that island runs; so links within a process
//! break only when an island stops. An inbox is emptied by an `Attend` call, of which at most one waits in the
//! pipeline's queue. Its reply leaves when all that ran before is durable, which is what the protocol waits for.
//!
//! Not here: what an island does in its turn (`member.rs`), the protocol (engine `islands/`). Invariant: an inbox that
//! is not empty has been rung for, or its island's next batch, or the timer, rings.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tombolo_engine::clock::Clock;
use tombolo_engine::islands::commit::{Event, IslandId};
use tombolo_engine::pipeline::{self, Pipeline, Reply, Sink, Submitter, Tagged};
use tombolo_storage::sync::{AtomicBool, AtomicU64, Mutex, Ordering, Parker};

use super::across::Transaction;
use super::helping;
use crate::calls::{Envelope, How, LaterSlots, Otherwise, ReplySlots, Request, Runner};
use crate::core::Core;
use crate::product::Product;
use crate::tx::Tables;

/// No deadline.
pub(super) const NEVER_NS: u64 = u64::MAX;

/// When an island takes its turn again, without writing, after its log had no room. It then tries to write again.
const LOG_FULL_NS: u64 = 10_000_000;

/// What arrives at an island.
#[derive(Debug)]
pub(super) enum Item {
    Message { from: IslandId, bytes: Vec<u8> },
    Event(Event<'static>),
}

/// One island's inbox.
#[derive(Default)]
struct Post {
    inbox: Mutex<Vec<Item>>,
    /// Whether an `Attend` call is on its way that has not emptied the inbox.
    is_rung: AtomicBool,
    /// Whether the log had no room for the last turn: the next one writes nothing.
    is_full: AtomicBool,
    /// The pipeline's entrance, once it runs.
    door: OnceLock<Door>,
    /// After its last turn: whether all others can be reached, and whether nothing is under way.
    is_linked: AtomicBool,
    is_idle: AtomicBool,
    /// The time of its next deadline, on the common clock.
    due_ns: AtomicU64,
}

struct Door {
    submitter: Submitter<Request, Box<dyn Envelope>>,
    /// The room in the log of each turn.
    log_bytes_max: u64,
}

/// The mail of the islands of one database.
pub(crate) struct Mail {
    posts: Vec<Post>,
    /// Transactions over several islands that are under way, by number.
    transactions: Mutex<BTreeMap<u64, Arc<Transaction>>>,
    numbers: AtomicU64,
    pub(super) clock: Arc<dyn Clock>,
    /// Wakes the timer.
    timer: Parker<()>,
    /// When the timer looks again.
    timer_ns: AtomicU64,
    is_over: AtomicBool,
}

impl Mail {
    pub(super) fn new(islands: usize, clock: Arc<dyn Clock>) -> Self {
        let post = |_| Post { due_ns: AtomicU64::new(NEVER_NS), ..Post::default() };
        Self {
            posts: (0..islands).map(post).collect(),
            transactions: Mutex::new(BTreeMap::new()),
            numbers: AtomicU64::new(0),
            clock,
            timer: Parker::new(),
            timer_ns: AtomicU64::new(NEVER_NS),
            is_over: AtomicBool::new(false),
        }
    }

    /// The island's pipeline runs: its turns may come.
    pub(super) fn open(&self, turns: Arc<Turns>, pipeline: &Pipeline<Runner>, log_bytes_max: u64) {
        let island = turns.island;
        let door = Door { submitter: pipeline.register(turns), log_bytes_max };
        let is_first = self.post(island).door.set(door).is_ok();
        assert!(is_first, "an island opens once");
    }

    fn post(&self, island: IslandId) -> &Post {
        &self.posts[island.index()]
    }

    /// Puts something into an island's inbox and asks for its turn.
    pub(super) fn put(&self, to: IslandId, item: Item) {
        self.post(to).inbox.lock().push(item);
        self.ring(to);
    }

    /// Asks for an island's turn, unless it is coming. A thread that helps gives it itself.
    pub(super) fn ring(&self, island: IslandId) {
        if !helping::note(island) && self.submit(island) {
            self.wake(island);
        }
    }

    /// Submits an island's turn, unless it is coming, and wakes no thread; returns whether it did.
    fn submit(&self, island: IslandId) -> bool {
        let post = self.post(island);
        let Some(door) = post.door.get() else { return false };
        if post.is_rung.swap(true, Ordering::SeqCst) {
            return false;
        }
        let envelope: Box<dyn Envelope> = Box::new(Attend::default());
        let is_full = post.is_full.swap(false, Ordering::SeqCst);
        let log_bytes_max = if is_full { 0 } else { door.log_bytes_max };
        let request = Request { envelope: Some(envelope), deadline_ns: NEVER_NS, log_bytes_max };
        let put = door.submitter.try_submit_silently(request, 0, pipeline::Durability::Group);
        if put.is_err() {
            // The queue is full, and the island rings when it has run a batch of it; or it is closed.
            post.is_rung.store(false, Ordering::SeqCst);
        }
        put.is_ok()
    }

    /// Wakes the threads of an island.
    fn wake(&self, island: IslandId) {
        if let Some(door) = self.post(island).door.get() {
            door.submitter.wake();
        }
    }

    /// Gives an island its turn on this thread, which helps; returns whether it did anything.
    pub(super) fn give_turn(&self, island: IslandId, core: &Core) -> bool {
        self.submit(island) | core.help()
    }

    /// Rings if something waits that was not rung for.
    pub(super) fn ring_if_waiting(&self, island: IslandId) {
        let post = self.post(island);
        if !post.is_rung.load(Ordering::SeqCst) && !post.inbox.lock().is_empty() {
            self.ring(island);
        }
    }

    /// Empties an island's inbox at its turn.
    pub(super) fn take(&self, island: IslandId, into: &mut Vec<Item>) {
        let post = self.post(island);
        // Before it is emptied: what comes later is rung for.
        post.is_rung.store(false, Ordering::SeqCst);
        into.append(&mut post.inbox.lock());
    }

    /// Takes from an island's inbox what another has sent, in order.
    pub(super) fn take_from(&self, island: IslandId, sender: IslandId) -> Vec<Vec<u8>> {
        let is_from =
            |item: &mut Item| matches!(item, Item::Message { from, .. } if *from == sender);
        let mut inbox = self.post(island).inbox.lock();
        let sent = inbox.extract_if(.., is_from).map(|item| match item {
            Item::Message { bytes, .. } => bytes,
            Item::Event(_) => unreachable!("just seen"),
        });
        sent.collect()
    }

    /// The room in the log of an island's turn.
    pub(super) fn log_bytes_max(&self, island: IslandId) -> u64 {
        self.post(island).door.get().map_or(0, |door| door.log_bytes_max)
    }

    /// The result of a turn: whether all others can be reached and nothing is under way, and the next deadline.
    pub(super) fn note(&self, island: IslandId, (is_linked, is_idle): (bool, bool), due_ns: u64) {
        let post = self.post(island);
        post.is_linked.store(is_linked, Ordering::SeqCst);
        post.is_idle.store(is_idle, Ordering::SeqCst);
        self.wait_until(island, due_ns);
    }

    fn wait_until(&self, island: IslandId, due_ns: u64) {
        self.post(island).due_ns.store(due_ns, Ordering::SeqCst);
        if due_ns < self.timer_ns.load(Ordering::SeqCst) {
            self.timer.unpark(());
        }
    }

    /// Whether every island can reach every other.
    pub(super) fn is_linked(&self) -> bool {
        self.posts.iter().all(|post| post.is_linked.load(Ordering::SeqCst))
    }

    /// Whether no island has anything under way.
    pub(super) fn is_idle(&self) -> bool {
        let is_idle =
            |post: &Post| post.is_idle.load(Ordering::SeqCst) && post.inbox.lock().is_empty();
        self.posts.iter().all(is_idle) && self.transactions.lock().is_empty()
    }

    /// Rings for each island whose deadline has passed, until the database is closed.
    pub(super) fn run_timer(&self) {
        while !self.is_over.load(Ordering::SeqCst) {
            let (now_ns, mut next_ns) = (self.clock.now_ns(), NEVER_NS);
            for (island, post) in self.posts.iter().enumerate() {
                let due_ns = post.due_ns.load(Ordering::SeqCst);
                if due_ns <= now_ns {
                    post.due_ns.store(NEVER_NS, Ordering::SeqCst); // its turn says the next
                    self.ring(IslandId(island as u16));
                } else {
                    next_ns = next_ns.min(due_ns);
                }
            }
            self.timer_ns.store(next_ns, Ordering::SeqCst);
            // A deadline that was noted meanwhile has woken the thread, or is seen now.
            let is_later = |post: &Post| post.due_ns.load(Ordering::SeqCst) >= next_ns;
            if self.posts.iter().all(is_later) {
                match next_ns {
                    NEVER_NS => self.timer.park(),
                    next_ns => _ = self.timer.park_for(Duration::from_nanos(next_ns - now_ns)),
                }
            }
            self.timer_ns.store(0, Ordering::SeqCst); // it looks anyway
        }
    }

    /// Ends the timer.
    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::SeqCst);
        self.timer.unpark(());
    }

    /// Enters a transaction that islands are told of by the returned number.
    pub(super) fn enter(&self, transaction: &Arc<Transaction>) -> u64 {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        self.transactions.lock().insert(number, transaction.clone());
        number
    }

    /// The transaction of this number; none after its end.
    pub(super) fn find(&self, number: u64) -> Option<Arc<Transaction>> {
        self.transactions.lock().get(&number).cloned()
    }

    /// A transaction has ended.
    pub(super) fn leave(&self, number: u64) {
        self.transactions.lock().remove(&number);
    }

    /// An island has stopped after a failure: the others cannot reach it.
    fn stopped(&self, island: IslandId) {
        for other in (0..self.posts.len()).filter(|other| *other != island.index()) {
            self.put(IslandId(other as u16), Item::Event(Event::LinkBroken(island)));
        }
    }
}

/// The call in which an island takes its turn.
#[derive(Default)]
pub(crate) struct Attend {
    /// What happens when all that ran is durable.
    pub(super) events: Vec<Event<'static>>,
    /// The calls that waited for a lock and have ended now, by the pipeline's number.
    pub(super) ended: Vec<(u64, Box<dyn Envelope>)>,
}

impl Envelope for Attend {
    fn run(&mut self, _: &mut Product, _: &mut Tables) -> How {
        unreachable!("an island attends to its mail")
    }

    fn of_islands(&mut self) -> Option<&mut dyn Any> {
        Some(self)
    }

    fn end_otherwise(&mut self, _: Otherwise) {}

    fn name(&self) -> &'static str {
        "transactions over several islands"
    }

    fn input(&mut self) -> &mut dyn Any {
        unreachable!("it has no caller")
    }

    fn ran(&mut self) -> &mut dyn Any {
        unreachable!("it has no caller")
    }
}

/// Receives the replies of an island's turns.
pub(super) struct Turns {
    pub(super) island: IslandId,
    pub(super) mail: Arc<Mail>,
    pub(super) slots: Vec<Arc<ReplySlots>>,
}

impl Turns {
    fn deliver_one(&self, reply: Reply<Box<dyn Envelope>>) {
        match reply {
            Reply::Durable(Ok(mut envelope)) | Reply::Volatile(Ok(mut envelope)) => {
                let attend = envelope.of_islands().and_then(|own| own.downcast_mut::<Attend>());
                let attend = attend.expect("an island's own calls are its turns");
                for (number, envelope) in attend.ended.drain(..) {
                    LaterSlots::answer(&self.slots, number, envelope);
                }
                if !attend.events.is_empty() {
                    let events = attend.events.drain(..).map(Item::Event);
                    self.mail.post(self.island).inbox.lock().extend(events);
                    self.mail.ring(self.island);
                }
            }
            Reply::Refused(pipeline::Refusal::LogFull) => {
                let post = self.mail.post(self.island);
                post.is_full.store(true, Ordering::SeqCst);
                post.is_rung.store(false, Ordering::SeqCst);
                let due_ns = self.mail.clock.now_ns() + LOG_FULL_NS;
                self.mail.wait_until(self.island, due_ns);
            }
            // The island panicked or was stopped; what it had under way is not known.
            Reply::Refused(refusal) => self.broken(&refusal.to_string().into()),
            Reply::Durable(Err(failure)) | Reply::Volatile(Err(failure)) => {
                self.broken(&failure.to_string().into());
            }
            Reply::PreCommitted(_) => unreachable!("a turn is answered when it is durable"),
        }
    }
}

impl Sink<Box<dyn Envelope>> for Turns {
    fn deliver(&self, replies: &mut Vec<Tagged<Box<dyn Envelope>>>) {
        replies.drain(..).for_each(|(_, reply)| self.deliver_one(reply));
    }

    fn broken(&self, reason: &Arc<str>) {
        self.slots.iter().for_each(|slots| slots.broken(reason));
        self.mail.stopped(self.island);
    }
}
