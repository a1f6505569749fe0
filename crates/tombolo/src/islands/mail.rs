//! `Mail`: messages between the islands of one process, and the other events that give an island a turn: durability,
//! deadlines.
//!
//! ```text
//!   an island's turn ─ put ─► [inbox] ─ ring ─► one `Attend` call in the pipeline ─► the island's next turn
//!                                                     │ durable
//!        events that waited for that ◄── put ─────────┘
//! ```
//!
//! A message is put into the inbox of its island and never lost while that island runs; so links within a process
//! break only when an island stops. An `Attend` call empties an inbox; its reply leaves when everything that ran
//! before is durable, for which the protocol waits. A caller that helps takes the island's execution for the
//! turn instead: then no call is queued, and the actions that must wait for the log are *promised*: the first thread
//! that finds the log durable up to their position does them.
//!
//! Not here: what an island does in its turn (`member.rs`), the protocol (engine `islands/`). Invariant: for an inbox
//! that is not empty a turn has been asked for, or the island's next batch, or the timer, asks for one.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tombolo_engine::clock::Clock;
use tombolo_engine::islands::commit::{Event, IslandId, Refusal};
use tombolo_engine::islands::island::Executed;
use tombolo_engine::pipeline::{
    self, Carrier, Pipeline, Reply, Sink, Stands, Submitter, Tagged, Taken, Terms, WhileTaken,
};
use tombolo_storage::memory::held::Locks;
use tombolo_storage::sync::{AtomicBool, AtomicU32, AtomicU64, Mutex, Ordering, Parker};

use super::helping;
use super::parts::Transaction;
use super::waits::Waits;
use crate::calls::{
    Envelope, How, LaterSlots, OnDatabaseThread, Otherwise, Owed, ReplySlots, Request, Runner,
};
use crate::core::Core;
use crate::product::Product;
use crate::tx::Tables;

/// No deadline.
pub(super) const NEVER_NS: u64 = u64::MAX;

/// The time after which an island whose log had no room has a turn without writing. Then it tries to write again.
pub(super) const LOG_FULL_NS: u64 = 10_000_000;

/// An item in an island's inbox.
#[derive(Debug)]
pub(super) enum Item {
    Message {
        from: IslandId,
        bytes: Vec<u8>,
    },
    Event(Event<'static>),
    /// The question of another process whether the island is alive.
    Ask,
}

/// The way to islands in other processes.
pub(super) trait Outwards: Send + Sync {
    /// Sends a message to another island. If the link is broken, the message is lost.
    fn send(&self, to: IslandId, message: &[u8]);
    /// Executes a part that arrived as bytes, as one transaction, which is set aside.
    fn run_part(
        &self,
        me: IslandId,
        site: (&mut Product, &Tables),
        locks: &Locks,
        part: &[u8],
    ) -> Executed;
    /// Reports that another island speaks another protocol, or belongs to another database.
    fn refuse_peer(&self, peer: IslandId, why: Refusal);
    /// Reports that the island is alive: it has a turn.
    fn lives(&self);
    /// Reports that the island of this process has stopped.
    fn stopped(&self, why: Arc<str>);
}

/// The time after which the timer looks whether a promise can be kept, if no thread has before.
const PROMISE_NS: u64 = 20_000_000;

/// The actions of an island's turn that wait until the log is durable up to a position.
struct Promised {
    position: u64,
    /// Whether a transaction waits for them.
    is_urgent: bool,
    owed: Owed,
}

/// One island's inbox.
#[derive(Default)]
struct Post {
    inbox: Mutex<Vec<Item>>,
    promised: Mutex<Vec<Promised>>,
    /// The number of callers that sleep until their transaction with a part here has ended.
    sleepers: AtomicU32,
    /// When the timer looks at these, on the common clock.
    promised_ns: AtomicU64,
    /// Whether an `Attend` call is under way that has not emptied the inbox.
    is_rung: AtomicBool,
    /// Whether the log had no room for the last turn: the next one writes nothing.
    is_full: AtomicBool,
    /// The pipeline's entrance, once it runs.
    door: OnceLock<Door>,
    /// As of its last turn: whether it can reach all others, and whether nothing is under way.
    is_linked: AtomicBool,
    is_idle: AtomicBool,
    /// The time of its next deadline, on the common clock.
    due_ns: AtomicU64,
}

struct Door {
    submitter: Submitter<Request, Box<dyn Envelope>>,
    /// Present if callers carry.
    carrier: Option<Carrier<Runner>>,
    slots: Vec<Arc<ReplySlots>>,
    /// The log space of each turn.
    log_bytes_max: u64,
}

impl Post {
    /// The time at which the timer looks at it next.
    fn next_ns(&self) -> u64 {
        let (due, promised) = (&self.due_ns, &self.promised_ns);
        due.load(Ordering::SeqCst).min(promised.load(Ordering::SeqCst))
    }
}

/// The mail of the islands of one database.
pub(crate) struct Mail {
    posts: Vec<Post>,
    /// Present if only one of the islands is in this process.
    outwards: OnceLock<Arc<dyn Outwards>>,
    /// Transactions over several islands that are under way, by number.
    transactions: Mutex<BTreeMap<u64, Arc<Transaction>>>,
    numbers: AtomicU64,
    /// Present if transactions over several islands are ordered.
    pub(super) ordering: Option<super::ordered::Ordering>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) waits: Waits,
    /// Wakes the timer.
    timer: Parker<()>,
    /// The time at which the timer looks again.
    timer_ns: AtomicU64,
    is_over: AtomicBool,
}

impl Mail {
    pub(super) fn new(
        islands: usize,
        clock: Arc<dyn Clock>,
        waits: Waits,
        ordering: Option<super::ordered::Ordering>,
    ) -> Self {
        let never = || AtomicU64::new(NEVER_NS);
        let post = |_| Post { due_ns: never(), promised_ns: never(), ..Post::default() };
        Self {
            posts: (0..islands).map(post).collect(),
            outwards: OnceLock::new(),
            transactions: Mutex::new(BTreeMap::new()),
            numbers: AtomicU64::new(0),
            ordering,
            clock,
            waits,
            timer: Parker::new(),
            timer_ns: AtomicU64::new(NEVER_NS),
            is_over: AtomicBool::new(false),
        }
    }

    /// Opens an island's inbox, when its pipeline runs and turns can be asked for.
    pub(super) fn open(&self, turns: Arc<Turns>, pipeline: &Pipeline<Runner>, log_bytes_max: u64) {
        let island = turns.island;
        let (slots, carrier) = (turns.slots.clone(), pipeline.carrier());
        let door = Door { submitter: pipeline.register(turns), carrier, slots, log_bytes_max };
        let is_first = self.post(island).door.set(door).is_ok();
        assert!(is_first, "an island opens once");
    }

    /// Sets the way to the other islands, which are in other processes. This island may have undelivered decisions.
    pub(super) fn set_outwards(&self, own: IslandId, outwards: Arc<dyn Outwards>) {
        self.outwards.get_or_init(|| outwards);
        self.ring(own);
    }

    /// The way to the other islands, if they are in other processes.
    pub(super) fn outwards(&self) -> Option<&dyn Outwards> {
        self.outwards.get().map(|outwards| &**outwards)
    }

    fn post(&self, island: IslandId) -> &Post {
        &self.posts[island.index()]
    }

    /// Links every island with every other. Each gets its links before any of them has a turn: an island's first
    /// message on a link is a greeting, so it must not receive another island's message before it has greeted.
    pub(super) fn link_all(&self) {
        let islands = || (0..self.posts.len()).map(|island| IslandId(island as u16));
        for island in islands() {
            let peers = islands().filter(|peer| *peer != island);
            let made = peers.map(|peer| Item::Event(Event::LinkMade(peer)));
            self.post(island).inbox.lock().extend(made);
        }
        // A lone island has no link, but may have undelivered decisions.
        islands().for_each(|island| self.ring(island));
    }

    /// Puts something into an island's inbox and asks for its turn.
    pub(super) fn put(&self, to: IslandId, item: Item) {
        self.post(to).inbox.lock().push(item);
        self.ring(to);
    }

    /// Asks for an island's turn, unless one is coming. A thread that helps gives the turn itself.
    pub(super) fn ring(&self, island: IslandId) {
        if !helping::note(island) && self.submit(island) {
            self.wake(island);
        }
    }

    /// Submits an island's turn, unless one is coming, without waking a thread; returns whether it did.
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
            // Either the queue is full, and the island asks when it has run a batch; or the island is closed.
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

    /// Gives an island its turn on this thread, which helps; returns `None` if the island is busy. The inner value is
    /// the position of the log for which a transaction then waits, if one does.
    pub(super) fn give_turn(&self, island: IslandId, core: &Core) -> Option<Option<u64>> {
        let log_bytes_max = self.log_bytes_max(island);
        let terms = Terms { durability: pipeline::Durability::Group, log_bytes_max };
        let mut taken = core.carrier()?.take(terms, WhileTaken::Spin)?.ok()?;
        let _entered = OnDatabaseThread::enter();
        let (site, member) = taken.executor().island();
        member.attend(site, log_bytes_max);
        Some(self.give_back(island, taken))
    }

    /// Gives an island back after its turn, and promises its waiting actions. Returns the position of the log for which
    /// a transaction waits, if one does.
    pub(super) fn give_back(&self, island: IslandId, mut taken: Taken<'_, Runner>) -> Option<u64> {
        let (site, member) = taken.executor().island();
        let (log_bytes, owed) = (site.store.log_bytes(), member.owed());
        let position = taken.log_end(log_bytes);
        let is_urgent = self.promise(island, position, owed);
        if !is_urgent {
            taken.wait_for_nothing();
        }
        // A stage that breaks also breaks its island, whose promises are then not kept.
        if let Ok(Stands::Durable | Stands::Volatile) = taken.end(log_bytes) {
            self.keep_promises(island);
            return None;
        }
        is_urgent.then_some(position)
    }

    /// Promises actions for when the log is durable up to `position`; returns whether a transaction waits for them.
    fn promise(&self, island: IslandId, position: u64, owed: Owed) -> bool {
        if owed.is_empty() {
            return false;
        }
        // A participant has released its locks when it confirms.
        let is_late =
            |event: &Event<'_>| matches!(event, Event::Durable(of) if of.island != island);
        let is_urgent = !owed.ended.is_empty() || !owed.events.iter().all(is_late);
        let post = self.post(island);
        post.promised.lock().push(Promised { position, is_urgent, owed });
        self.look_at_promises(post);
        is_urgent
    }

    /// Lets the timer look at an island's promises.
    fn look_at_promises(&self, post: &Post) {
        let at_ns = self.clock.now_ns().saturating_add(PROMISE_NS);
        post.promised_ns.fetch_min(at_ns, Ordering::SeqCst);
        if at_ns < self.timer_ns.load(Ordering::SeqCst) {
            self.timer.unpark(());
        }
    }

    /// Keeps an island's promises as far as its log is durable, and asks for its turn; returns whether there were any.
    pub(super) fn keep_promises(&self, island: IslandId) -> bool {
        let post = self.post(island);
        let Some(Door { carrier: Some(carrier), slots, .. }) = post.door.get() else {
            return false;
        };
        let mut promised = post.promised.lock();
        let is_over = |promised: &mut Promised| carrier.look(promised.position).is_some();
        let kept: Vec<Promised> = promised.extract_if(.., is_over).collect();
        drop(promised);
        let has_kept = !kept.is_empty();
        for Promised { position, owed, .. } in kept {
            // If the log failed, its island is broken, and its callers get that error.
            if let Some(Ok(())) = carrier.look(position) {
                self.keep(island, slots, owed);
            }
        }
        has_kept
    }

    /// Does the waiting actions of an island's turn: the log is durable.
    fn keep(&self, island: IslandId, slots: &[Arc<ReplySlots>], owed: Owed) {
        let Owed { events, ended } = owed;
        for (number, envelope) in ended {
            LaterSlots::answer(slots, number, envelope);
        }
        if !events.is_empty() {
            self.post(island).inbox.lock().extend(events.into_iter().map(Item::Event));
            self.ring(island);
        }
    }

    /// The position of an island's log for which a transaction waits.
    pub(super) fn awaited(&self, island: IslandId) -> Option<u64> {
        let promised = self.post(island).promised.lock();
        promised.iter().find(|promised| promised.is_urgent).map(|promised| promised.position)
    }

    /// Whether callers sleep that wait for promises of an island.
    pub(super) fn sleepers_wait(&self, island: IslandId) -> bool {
        let post = self.post(island);
        let promised = post.promised.lock();
        let is_for_call = |promised: &Promised| !promised.owed.ended.is_empty();
        promised.iter().any(is_for_call)
            || (post.sleepers.load(Ordering::SeqCst) > 0
                && promised.iter().any(|promised| promised.is_urgent))
    }

    /// Notes that a caller with a part on this island sleeps, or no longer does. The caller looks for promises after
    /// this note, and a thread that promises looks for sleepers after its promise: so one of them sees the other.
    pub(super) fn sleeps(&self, island: IslandId, does: bool) {
        let sleepers = &self.post(island).sleepers;
        match does {
            true => sleepers.fetch_add(1, Ordering::SeqCst),
            false => sleepers.fetch_sub(1, Ordering::SeqCst),
        };
    }

    /// Runs the waiting calls of an island; returns whether there was anything to do.
    pub(super) fn help(&self, island: IslandId, core: &Core) -> bool {
        let door = self.post(island).door.get();
        door.is_some_and(|door| door.submitter.has_waiting()) && core.help()
    }

    /// Asks for a turn if an item waits for which none was asked.
    pub(super) fn ring_if_waiting(&self, island: IslandId) {
        let post = self.post(island);
        if !post.is_rung.load(Ordering::SeqCst) && !post.inbox.lock().is_empty() {
            self.ring(island);
        }
    }

    /// Notes that an `Attend` call begins. It comes before emptying the inbox, so that a later item asks for a turn.
    pub(super) fn begin_turn(&self, island: IslandId) {
        self.post(island).is_rung.store(false, Ordering::SeqCst);
    }

    /// Empties an island's inbox at its turn.
    pub(super) fn take(&self, island: IslandId, into: &mut Vec<Item>) {
        into.append(&mut self.post(island).inbox.lock());
    }

    /// Takes the messages of another island from an island's inbox, in order.
    pub(super) fn take_from(&self, island: IslandId, sender: IslandId) -> Vec<Vec<u8>> {
        let is_from =
            |item: &mut Item| matches!(item, Item::Message { from, .. } if *from == sender);
        let mut inbox = self.post(island).inbox.lock();
        let sent = inbox.extract_if(.., is_from).map(|item| match item {
            Item::Message { bytes, .. } => bytes,
            Item::Event(_) | Item::Ask => unreachable!("just seen"),
        });
        sent.collect()
    }

    /// The log space of an island's turn.
    pub(super) fn log_bytes_max(&self, island: IslandId) -> u64 {
        self.post(island).door.get().map_or(0, |door| door.log_bytes_max)
    }

    /// Notes the result of a turn: whether the island can reach all others, whether nothing is under way, and the next
    /// deadline.
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

    /// Whether nothing is under way on any island.
    pub(super) fn is_idle(&self) -> bool {
        let is_idle =
            |post: &Post| post.is_idle.load(Ordering::SeqCst) && post.inbox.lock().is_empty();
        self.posts.iter().all(is_idle) && self.transactions.lock().is_empty()
    }

    /// Asks for a turn of each island whose deadline has passed, until the database is closed.
    pub(super) fn run_timer(&self) {
        while !self.is_over.load(Ordering::SeqCst) {
            let (now_ns, mut next_ns) = (self.clock.now_ns(), NEVER_NS);
            for (island, post) in self.posts.iter().enumerate() {
                let island = IslandId(island as u16);
                if post.promised_ns.load(Ordering::SeqCst) <= now_ns {
                    post.promised_ns.store(NEVER_NS, Ordering::SeqCst);
                    self.keep_promises(island);
                    if !post.promised.lock().is_empty() {
                        self.look_at_promises(post);
                    }
                }
                if post.due_ns.load(Ordering::SeqCst) <= now_ns {
                    post.due_ns.store(NEVER_NS, Ordering::SeqCst); // its turn says the next
                    self.ring(island);
                }
                next_ns = next_ns.min(post.next_ns());
            }
            self.timer_ns.store(next_ns, Ordering::SeqCst);
            // A deadline that was noted meanwhile has woken the thread, or is seen now.
            if self.posts.iter().all(|post| post.next_ns() >= next_ns) {
                match next_ns {
                    NEVER_NS => self.timer.park(),
                    next_ns => {
                        let ns = next_ns.saturating_sub(now_ns);
                        _ = self.timer.park_for(Duration::from_nanos(ns));
                    }
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

    /// Enters a transaction, which messages to islands name by the returned number.
    pub(super) fn enter(&self, transaction: &Arc<Transaction>) -> u64 {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        self.transactions.lock().insert(number, transaction.clone());
        number
    }

    /// The transaction with this number; `None` after its end.
    pub(super) fn find(&self, number: u64) -> Option<Arc<Transaction>> {
        self.transactions.lock().get(&number).cloned()
    }

    /// Removes a transaction that has ended.
    pub(super) fn leave(&self, number: u64) {
        self.transactions.lock().remove(&number);
    }

    /// Notes that an island has stopped after a failure: the others cannot reach it.
    fn stopped(&self, island: IslandId, why: &Arc<str>) {
        if let Some(outwards) = self.outwards() {
            return outwards.stopped(why.clone());
        }
        for other in (0..self.posts.len()).filter(|other| *other != island.index()) {
            self.put(IslandId(other as u16), Item::Event(Event::LinkBroken(island)));
        }
    }
}

/// The call in which an island takes its turn.
#[derive(Default)]
pub(crate) struct Attend {
    /// The actions for when everything that ran is durable.
    pub(super) owed: Owed,
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
                self.mail.keep(self.island, &self.slots, std::mem::take(&mut attend.owed));
                self.mail.keep_promises(self.island);
            }
            Reply::Refused(pipeline::Refusal::LogFull) => {
                let post = self.mail.post(self.island);
                post.is_full.store(true, Ordering::SeqCst);
                post.is_rung.store(false, Ordering::SeqCst);
                let due_ns = self.mail.clock.now_ns() + LOG_FULL_NS;
                self.mail.wait_until(self.island, due_ns);
            }
            // The island panicked or was stopped; the outcome of what was under way is unknown.
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
        self.mail.stopped(self.island, reason);
    }
}

#[cfg(test)]
mod tests {
    use tombolo_engine::clock::SystemClock;

    use super::*;

    /// What an island says on a link begins with its greeting, so it must know of the link before it hears another one.
    #[test]
    fn islands_are_told_of_all_links_before_any_of_them_speaks() {
        let mail = Mail::new(3, Arc::new(SystemClock::new()), Waits::default(), None);
        mail.link_all();
        for island in 0..3u16 {
            let mut arrived = Vec::new();
            mail.take(IslandId(island), &mut arrived);
            let made = arrived.iter().map(|item| match item {
                Item::Event(Event::LinkMade(peer)) => peer.0,
                other => panic!("{other:?}"),
            });
            let peers: Vec<_> = (0..3).filter(|peer| *peer != island).collect();
            assert_eq!(made.collect::<Vec<_>>(), peers);
        }
    }
}
