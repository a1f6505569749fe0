//! `Member`: an island among others, as its execution stage runs it.
//!
//! ```text
//!   batch ──► call ──► no part is held? ── yes ─► runs as in any database
//!     │                     │ no
//!     │                runs with a guard ── met a lock? ─► waits; answered at a later turn
//!     ├────► transaction over several islands ──► begins; waits for its answer
//!     └────► turn (`Attend`) ──► actions left, deadlines, messages, in this order, as far as the log has room
//! ```
//!
//! Not here: the protocol (engine `islands/`), messages (`mail.rs`), the path of a call in a database without
//! islands (`calls/runner.rs`). Invariant: a call that waits is answered once, when its transaction has ended or its
//! time is over.

use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tombolo_engine::islands::commit::{
    Answer, Deadline, Event, IslandId, Reason, Refusal, State, TransactionNumber, Work,
};
use tombolo_engine::islands::island::{Executed, Host, Island, holder};
use tombolo_engine::pipeline::Batch;
use tombolo_engine::threads::panic_message;
use tombolo_storage::error::Error as StoreError;
use tombolo_storage::memory::held::{Guard, Locks};
use tombolo_storage::profile::MemoryLogged;

use super::deadlines::{Deadlines, Due};
use super::mail::{Attend, Item, LOG_FULL_NS, Mail, NEVER_NS};
use super::parts::{AcrossEnvelope, Transaction, Why};
use crate::calls::{
    Counters, Envelope, How, Later, LaterSlots, Neighbour, Otherwise, Owed, ReplySlots, Request,
    Site, hold_to, run_guarded,
};
use crate::error::Stop;
use crate::product::{LOG_BYTES_PER_PART, Product};
use crate::tx::Tables;

/// An island among others.
pub(crate) struct Member {
    island: Island,
    outside: Outside,
    /// Messages that arrived and were not handled yet.
    items: VecDeque<Item>,
    /// Empty; reused.
    new: Vec<Item>,
}

/// A call that waits.
enum Waiting {
    /// It waits for a lock of `holder`.
    Call { number: u64, request: Request, holder: TransactionNumber },
    /// It waits for its parts.
    Across(Across),
}

/// A transaction over several islands that waits for its parts.
struct Across {
    number: u64,
    envelope: Box<dyn Envelope>,
    transaction: Arc<Transaction>,
    runs: u32,
    /// Whether its last step has run.
    has_run_last: bool,
}

/// The island's side of the protocol's actions: waiting calls, messages, answers.
struct Outside {
    me: IslandId,
    mail: Arc<Mail>,
    slots: Vec<Arc<ReplySlots>>,
    /// Calls that wait, by their numbers in the protocol.
    waiting: BTreeMap<u64, Waiting>,
    last_call: u64,
    deadlines: Deadlines,
    /// What the island does when everything that ran is durable.
    owed: Owed,
    is_logged: bool,
    /// The most bytes that a turn may log, and the size that the store's log buffer may reach in this turn.
    log_bytes_max: usize,
    log_end: usize,
    /// Whether the log had no room for this turn.
    is_full: bool,
}

/// The same with the runner's parts, for one turn.
struct Turn<'t> {
    outside: &'t mut Outside,
    tables: &'t mut Tables,
    counters: &'t Counters,
}

impl Member {
    pub(super) fn new(
        island: Island,
        me: IslandId,
        mail: Arc<Mail>,
        slots: Vec<Arc<ReplySlots>>,
        log_bytes_max: Option<u64>,
    ) -> Self {
        let deadlines = Deadlines::new(mail.waits);
        let outside = Outside {
            me,
            mail,
            slots,
            waiting: BTreeMap::new(),
            last_call: 0,
            deadlines,
            owed: Owed::default(),
            is_logged: log_bytes_max.is_some(),
            log_bytes_max: log_bytes_max.map_or(usize::MAX, |bytes| bytes as usize),
            log_end: 0,
            is_full: false,
        };
        Self { island, outside, items: VecDeque::new(), new: Vec::new() }
    }

    /// Runs one request; returns whether it is answered later.
    fn run(&mut self, site: &mut Site, number: u64, request: &mut Request) -> bool {
        let log_bytes_max = request.log_bytes_max;
        let Some(envelope) = &mut request.envelope else { unreachable!("it was not answered yet") };
        let Some(own) = envelope.of_islands() else { return self.call(site, number, request) };
        if let Some(attend) = own.downcast_mut::<Attend>() {
            self.outside.mail.begin_turn(self.outside.me);
            self.outside.is_full = log_bytes_max == 0;
            self.attend(site, log_bytes_max);
            self.outside.is_full = false;
            attend.owed = self.owed();
            return false;
        }
        let Some(envelope) = request.envelope.take() else { unreachable!("just seen") };
        self.begin(site, log_bytes_max, number, envelope);
        self.ring_if_owing();
        true
    }

    /// Runs a call of this island.
    fn call(&mut self, site: &mut Site, number: u64, request: &mut Request) -> bool {
        if !self.island.holds_parts() {
            site.run(number, request);
            return false;
        }
        let guard = Guard::local(self.island.locks());
        let Err(owner) = site.run_guarded(number, request, &guard) else { return false };
        let (holder, envelope) = (holder(owner), request.envelope.take());
        let request = Request { envelope, ..*request };
        let call = self.outside.wait(Waiting::Call { number, request, holder });
        self.outside.log_end = 0; // this turn writes no more
        let work = Work::Local { call, payload: Vec::new() };
        self.on(site, Event::Held { by: holder, work });
        self.end_turn();
        self.ring_if_owing();
        true
    }

    /// Asks for a turn, if the island owes anything: its reply arrives when that is durable.
    fn ring_if_owing(&self) {
        if !self.outside.owed.is_empty() {
            self.outside.mail.ring(self.outside.me);
        }
    }

    fn due(&mut self, site: &mut Site, due: Due) {
        match due {
            Due::Passed(deadline) => self.on(site, Event::Passed(deadline)),
            Due::Again(call, age) => {
                let Some(Waiting::Across(across)) = self.outside.waiting.get(&call) else { return };
                let parts = across.transaction.payloads();
                let at = site.tables.unix_us();
                self.on(site, Event::Begin { call, at, age: Some(age), parts });
            }
        }
    }

    fn on(&mut self, site: &mut Site, event: Event<'_>) {
        let Self { island, outside, .. } = self;
        let Site { store, tables, counters } = site;
        island.on(event, store, &mut Turn { outside, tables, counters });
        self.volatile(site);
    }

    fn go_on(&mut self, site: &mut Site) {
        let Self { island, outside, .. } = self;
        let Site { store, tables, counters } = site;
        island.go_on(store, &mut Turn { outside, tables, counters });
        self.volatile(site);
    }

    /// Without a log: does at once what would wait until it is durable.
    fn volatile(&mut self, site: &mut Site) {
        while !self.outside.is_logged && !self.outside.owed.events.is_empty() {
            for event in std::mem::take(&mut self.outside.owed.events) {
                let Self { island, outside, .. } = self;
                let Site { store, tables, counters } = site;
                island.on(event, store, &mut Turn { outside, tables, counters });
            }
        }
    }

    /// Asks for another turn if anything is left, and reports the next deadline.
    fn end_turn(&mut self) {
        let Self { island, outside, items, .. } = self;
        let machine = island.machine();
        outside.deadlines.forget(|deadline| match deadline {
            Deadline::Patience(number) | Deadline::Ask(number) => {
                matches!(machine.state(*number), State::NoTransaction | State::NoPart)
            }
            Deadline::Local(call) => !outside.waiting.contains_key(call),
            Deadline::Retry(_) => false,
        });
        if island.has_more() || !items.is_empty() {
            outside.mail.ring(outside.me);
        }
        let is_idle = outside.owed.is_empty() && island.is_idle() && outside.waiting.is_empty();
        let state = (machine.is_linked(), is_idle);
        let room_ns = match island.waits_for_room() {
            true => outside.mail.clock.now_ns() + LOG_FULL_NS,
            false => NEVER_NS,
        };
        outside.mail.note(outside.me, state, outside.deadlines.next_ns().min(room_ns));
    }
}

impl Neighbour for Member {
    fn execute(&mut self, site: &mut Site, batch: &mut Batch<'_, Request, Box<dyn Envelope>>) {
        while let Some((number, request)) = batch.tagged_request() {
            site.tables.upcoming.advance();
            // A panic leaves a call's envelope in the request; the pipeline answers in its place.
            let is_later = self.run(site, number, request);
            let envelope = match request.envelope.take() {
                Some(envelope) if !is_later => envelope,
                _ => Box::new(Later),
            };
            batch.answer(Ok(envelope), site.store.log_bytes());
        }
        site.tables.upcoming.ran();
        self.outside.mail.ring_if_waiting(self.outside.me);
    }

    fn begin(
        &mut self,
        site: &mut Site,
        log_bytes_max: u64,
        number: u64,
        mut envelope: Box<dyn Envelope>,
    ) {
        let own = envelope.of_islands().and_then(|own| own.downcast_mut::<AcrossEnvelope>());
        let own = own.expect("islands run calls, transactions over several and their own turns");
        let (transaction, at) = (own.transaction().clone(), site.tables.unix_us());
        self.outside.begin_turn(&site.store, log_bytes_max);
        if self.island.has_more() || self.island.waits_for_room() {
            transaction.invalidate(self.outside.me); // what is left comes first, and may run other parts
        }
        let parts = transaction.payloads();
        let (runs, has_run_last) = (0, false);
        let across = Across { number, envelope, transaction, runs, has_run_last };
        let call = self.outside.wait(Waiting::Across(across));
        self.on(site, Event::Begin { call, at, age: None, parts });
        self.end_turn();
    }

    fn receive(&mut self, site: &mut Site, log_bytes_max: u64, from: IslandId) {
        let mut sent = self.outside.mail.take_from(self.outside.me, from);
        self.outside.begin_turn(&site.store, log_bytes_max);
        let is_alone = sent.len() == 1 && self.items.is_empty() && !self.island.has_more();
        if is_alone && let Some(message) = sent.pop() {
            self.on(site, Event::Received { from, message: &message });
        }
        let sent = sent.into_iter().map(|bytes| Item::Message { from, bytes });
        self.items.extend(sent); // for the next turn
        self.end_turn();
    }

    fn attend(&mut self, site: &mut Site, log_bytes_max: u64) {
        self.outside.begin_turn(&site.store, log_bytes_max);
        let Outside { mail, me, .. } = &self.outside;
        mail.take(*me, &mut self.new);
        for item in self.new.drain(..) {
            match (item, mail.outwards()) {
                (Item::Ask, Some(outwards)) => outwards.lives(), // also if what is left has no room in the log
                (item, _) => self.items.push_back(item),
            }
        }
        self.go_on(site);
        let now_ns = self.outside.mail.clock.now_ns();
        while !self.island.has_more() {
            if let Some(due) = self.outside.deadlines.take(now_ns) {
                self.due(site, due);
            } else if let Some(item) = self.items.pop_front() {
                match item {
                    Item::Message { from, bytes } => {
                        self.on(site, Event::Received { from, message: &bytes });
                    }
                    Item::Event(event) => self.on(site, event),
                    Item::Ask => {} // by no process
                }
            } else {
                break;
            }
        }
        self.end_turn();
    }

    fn owed(&mut self) -> Owed {
        std::mem::take(&mut self.outside.owed)
    }

    fn locks(&self) -> &Locks {
        self.island.locks()
    }
}

impl Outside {
    fn wait(&mut self, waiting: Waiting) -> u64 {
        self.last_call += 1;
        self.waiting.insert(self.last_call, waiting);
        self.last_call
    }

    /// A transaction over several islands that is not answered yet.
    fn across(&mut self, call: u64) -> &mut Across {
        match self.waiting.get_mut(&call) {
            Some(Waiting::Across(across)) => across,
            _ => unreachable!("a transaction is answered once"),
        }
    }

    fn begin_turn(&mut self, store: &Product, log_bytes_max: u64) {
        self.log_end = store.log_bytes().saturating_add(log_bytes_max as usize);
    }

    /// Ends a call that waited for a lock, with its outcome or `otherwise`.
    fn end_call(&mut self, call: u64, otherwise: Option<Otherwise>) {
        let Some(Waiting::Call { number, request, .. }) = self.waiting.remove(&call) else {
            unreachable!("a call ends once")
        };
        let Some(mut envelope) = request.envelope else { unreachable!("it was not answered yet") };
        if let Some(otherwise) = otherwise {
            envelope.end_otherwise(otherwise);
        }
        self.owed.ended.push((number, envelope));
    }

    /// Answers a transaction over several islands, which is durable.
    fn answer_across(&mut self, call: u64, ended: Result<(), Why>) {
        let Some(Waiting::Across(across)) = self.waiting.remove(&call) else {
            unreachable!("a transaction is answered once")
        };
        let Across { number, mut envelope, transaction, .. } = across;
        self.mail.leave(transaction.number());
        let across = envelope.of_islands().and_then(|own| own.downcast_mut::<AcrossEnvelope>());
        across.expect("it is the envelope of a transaction over several islands").end(ended);
        LaterSlots::answer(&self.slots, number, envelope);
    }
}

impl Host<MemoryLogged> for Turn<'_> {
    fn send(&mut self, to: IslandId, message: Vec<u8>) {
        let (from, mail) = (self.outside.me, &self.outside.mail);
        match mail.outwards() {
            Some(outwards) => outwards.send(to, &message),
            None => mail.put(to, Item::Message { from, bytes: message }),
        }
    }

    fn refuse_peer(&mut self, peer: IslandId, why: Refusal) {
        match self.outside.mail.outwards() {
            Some(outwards) => outwards.refuse_peer(peer, why),
            None => unreachable!("islands of one process speak one protocol: {peer}: {why}"),
        }
    }

    fn run_part(&mut self, store: &mut Product, locks: &Locks, payload: &[u8]) -> Executed {
        if let Some(outwards) = self.outside.mail.outwards() {
            self.tables.begin_carried();
            hold_to(store, LOG_BYTES_PER_PART);
            return outwards.run_part(self.outside.me, (store, self.tables), locks, payload);
        }
        let Some(transaction) = self.outside.mail.find(Transaction::number_in(payload)) else {
            return Executed::Refused(b"the transaction has ended".to_vec());
        };
        self.tables.begin_carried(); // no deadline ends a part
        hold_to(store, transaction.log_bytes_max());
        let (me, tables) = (self.outside.me, &*self.tables);
        let why = match transaction.run_part(me, store, locks, tables) {
            Ok(part) => return Executed::Done(part, Vec::new()),
            Err(Why::Held(owner)) => return Executed::Held(holder(owner)),
            Err(why) => why,
        };
        transaction.refuse(me, why);
        Executed::Refused(Vec::new())
    }

    fn run_call(
        &mut self,
        store: &mut Product,
        locks: &Locks,
        call: u64,
    ) -> Option<TransactionNumber> {
        let Some(Waiting::Call { number, request, holder: met }) =
            self.outside.waiting.get_mut(&call)
        else {
            unreachable!("a call that waits is kept until it has run")
        };
        let guard = Guard::local(locks);
        let (mut store, seen) = (guard.over(store), (&mut *self.tables, self.counters));
        let run = || run_guarded(&mut store, seen, *number, request);
        let otherwise = match catch_unwind(AssertUnwindSafe(run)) {
            Ok(Ok(_)) => None,
            Ok(Err(owner)) => {
                *met = holder(owner);
                return Some(*met);
            }
            Err(panic) => {
                self.counters.count(How::Panicked);
                Some(Otherwise::Panicked(panic_message(&*panic)))
            }
        };
        self.outside.end_call(call, otherwise);
        None
    }

    fn log_bytes_of_call(&self, call: u64) -> usize {
        match self.outside.waiting.get(&call) {
            Some(Waiting::Call { request, .. }) => request.log_bytes_max as usize,
            _ => 0,
        }
    }

    fn last_step(&mut self, call: u64) -> Result<(), Vec<u8>> {
        let (me, across) = (self.outside.me, self.outside.across(call));
        across.has_run_last = true;
        across.transaction.run_last().map_err(|why| {
            across.transaction.refuse(me, why);
            Vec::new()
        })
    }

    fn answer(&mut self, call: u64, answer: Answer) {
        let Across { transaction, runs, has_run_last, .. } = self.outside.across(call);
        let ended = match answer {
            Answer::Committed { results } => {
                transaction.keep_results(results);
                if *has_run_last { Ok(()) } else { transaction.run_last() }
            }
            Answer::RunAgain(age) => {
                *runs += 1;
                let runs = *runs;
                let now_ns = self.outside.mail.clock.now_ns();
                self.outside.deadlines.set_again(call, age, runs, now_ns);
                return;
            }
            Answer::Aborted(Reason::Refused { island, why }) => {
                Err(transaction.refusal(island, why))
            }
            Answer::Aborted(Reason::Unreachable(island)) => Err(Why::Unreachable(island)),
            Answer::Aborted(Reason::TimedOut) => {
                Err(Why::Stopped(Stop::Error(StoreError::LockTimeout)))
            }
        };
        let (islands, how) = (transaction.islands(), transaction.how());
        self.counters.count_over_islands(islands, how, ended.is_ok());
        self.outside.answer_across(call, ended);
    }

    fn give_up(&mut self, call: u64) {
        let Some(Waiting::Call { request, holder, .. }) = self.outside.waiting.get(&call) else {
            unreachable!("a call gives up once")
        };
        let stop = Stop::Error(match request.deadline_ns <= self.outside.mail.clock.now_ns() {
            true => StoreError::DeadlinePassed,
            false => StoreError::Held { owner: holder.owner() },
        });
        self.counters.count(How::stopped(&stop));
        self.outside.end_call(call, Some(Otherwise::Stopped(stop)));
    }

    fn wait_for(&mut self, deadline: Deadline) {
        let now_ns = self.outside.mail.clock.now_ns();
        let Outside { deadlines, waiting, .. } = &mut *self.outside;
        match deadline {
            Deadline::Local(call) => match waiting.get(&call) {
                Some(Waiting::Call { request, .. }) => {
                    deadlines.set_call(call, request.deadline_ns, now_ns);
                }
                _ => unreachable!("a call that waits is kept"),
            },
            deadline => deadlines.set(deadline, now_ns),
        }
    }

    fn when_durable(&mut self, event: Event<'static>) {
        self.outside.owed.events.push(event);
    }

    fn reserve(&mut self, store: &mut Product, bytes: usize) -> bool {
        if self.outside.is_logged && store.log_bytes().saturating_add(bytes) > self.outside.log_end
        {
            return false;
        }
        hold_to(store, bytes as u64);
        true
    }

    fn is_full(&self) -> bool {
        self.outside.is_full
    }

    fn log_bytes_max(&self) -> usize {
        self.outside.log_bytes_max
    }
}
