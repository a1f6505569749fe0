//! `Core`: the state that a database shares with its handles, and the path of a call in and out.
//!
//! A caller carries its own call if possible; otherwise the call goes through the queue. A handle
//! that outlives its database reports that the database is closed. Not here: envelopes (`calls/`), ownership
//! of the open database (`database.rs`). Invariants: every queued call is answered, also while the
//! database closes; no thread that does a database's work waits for a database.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tombolo_engine::clock::Clock;
use tombolo_engine::pipeline::{
    self, Carried, Carrier, GROUP_BYTES_MAX, LongIntake, LongWork, NotSubmitted, Panicked,
    Pipeline, Reply, Stands, Submitter, Terms,
};
use tombolo_engine::threads::Running;
use tombolo_storage::disk::Disk;
use tombolo_storage::sync::{Mutex, MutexGuard};

use crate::calls::{
    Answered, CallOptions, Counters, Durability, Envelope, Identified, LaterSlots, Otherwise,
    Promise, REQUEST_LOG_BYTES_MAX, Ran, ReplySlots, Request, Runner, Ticket, block_on,
    on_database_thread, wait_a_moment,
};
use crate::error::{Error, Stop};
use crate::tx::KnownSchema;

/// The longest that a call with a deadline sleeps before it looks for room again.
const ROOM_WAIT_MAX: Duration = Duration::from_millis(1);

/// No deadline.
const NEVER_NS: u64 = u64::MAX;

/// A caller's patience if the queue is full.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patience {
    /// Waits for room, and does the database's work while it waits for its answer.
    Carries,
    /// Waits for room.
    Waits,
    /// Does not wait.
    None,
}

/// One entrance to the pipeline, with the reply slots of its callers.
struct Way {
    submitter: Submitter<Request, Box<dyn Envelope>>,
    reply_slots: Arc<ReplySlots>,
}

/// What a database and its handles share.
pub(crate) struct Core {
    ways: Vec<Way>,
    /// The pipeline's entrance for callers that run their transactions themselves, if allowed.
    carrier: Option<Carrier<Runner>>,
    pub(crate) schema: Arc<KnownSchema>,
    long: LongIntake<Runner>,
    clock: Arc<dyn Clock>,
    durability: Durability,
    /// The log limit of calls that set none.
    log_bytes_max: u64,
    /// The database's directories; empty for a database in memory.
    disks: Vec<Arc<dyn Disk>>,
    pub(crate) counters: Arc<Counters>,
    /// Held by a caller while it adds an index or a column.
    turn: Mutex<()>,
    /// Present until the database is closed.
    pipeline: Mutex<Option<Pipeline<Runner>>>,
}

/// The parts of a database.
pub(crate) struct Parts {
    pub(crate) pipeline: Pipeline<Runner>,
    pub(crate) schema: Arc<KnownSchema>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) durability: Durability,
    pub(crate) log_bytes_max: u64,
    pub(crate) disks: Vec<Arc<dyn Disk>>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) reply_slots: Vec<Arc<ReplySlots>>,
    /// Whether it is one of several islands, whose calls may wait.
    pub(crate) is_island: bool,
}

impl Core {
    /// For a database whose pipeline runs.
    pub(crate) fn new(parts: Parts) -> Self {
        let Parts {
            pipeline,
            schema,
            clock,
            durability,
            log_bytes_max,
            disks,
            counters,
            reply_slots,
            is_island,
        } = parts;
        let way = |reply_slots: &Arc<ReplySlots>| Way {
            submitter: pipeline.register(match is_island {
                true => Arc::new(LaterSlots(reply_slots.clone())),
                false => reply_slots.clone(),
            }),
            reply_slots: reply_slots.clone(),
        };
        let ways = reply_slots.iter().map(way).collect();
        let (carrier, long) = (pipeline.carrier(), pipeline.long());
        let (turn, pipeline) = (Mutex::new(()), Mutex::new(Some(pipeline)));
        Self {
            ways,
            carrier,
            schema,
            long,
            clock,
            durability,
            log_bytes_max,
            disks,
            counters,
            turn,
            pipeline,
        }
    }

    /// Queues a call. If it cannot be queued, it is returned with the reason.
    pub(crate) fn submit<W: Promise>(
        &self,
        envelope: Box<dyn Envelope>,
        options: &CallOptions<W>,
        patience: Patience,
    ) -> Result<Ticket, (Box<dyn Envelope>, Error)> {
        if patience != Patience::None && on_database_thread() {
            return Err((envelope, Error::Nested));
        }
        let deadline_ns = options.deadline.map_or(NEVER_NS, |time| {
            let ns = u64::try_from(time.as_nanos()).unwrap_or(NEVER_NS);
            self.clock.now_ns().saturating_add(ns)
        });
        let (envelope, log_bytes_max) = match options.request_id {
            None => (envelope, options.log_bytes_max.unwrap_or(self.log_bytes_max)),
            Some(id) => {
                // A call without a limit of its own has the default one, which includes its id.
                let usual = self.log_bytes_max.saturating_sub(REQUEST_LOG_BYTES_MAX);
                let own = options.log_bytes_max.unwrap_or(usual);
                let with_id = own.saturating_add(REQUEST_LOG_BYTES_MAX);
                (Identified::envelope(id, envelope, own), with_id)
            }
        };
        if self.is_too_large(log_bytes_max) {
            let (log_bytes, log_bytes_max) = (log_bytes_max, GROUP_BYTES_MAX);
            return Err((envelope, Error::TooLarge { log_bytes, log_bytes_max }));
        }
        let request = Request { envelope: Some(envelope), deadline_ns, log_bytes_max };
        let durability = self.durability_of(options);
        let set = own_set(self.ways.len());
        let tag = self.ways[set].reply_slots.open();
        let number = self.ways[set].reply_slots.number(tag);
        match self.put(&self.ways[set].submitter, request, number, durability, patience) {
            Ok(()) => Ok(Ticket { set, tag, deadline_ns }),
            Err((request, error)) => {
                self.ways[set].reply_slots.close(tag);
                let Some(envelope) = request.envelope else { unreachable!("it did not run") };
                Err((envelope, error))
            }
        }
    }

    /// The same for a caller that does not want it back.
    pub(crate) fn queue<W: Promise>(
        &self,
        envelope: Box<dyn Envelope>,
        options: &CallOptions<W>,
        patience: Patience,
    ) -> Result<Ticket, Error> {
        self.submit(envelope, options, patience).map_err(|(envelope, error)| {
            envelope.recycle();
            error
        })
    }

    /// Whether a log would refuse this much; a database in memory applies the same limit.
    fn is_too_large(&self, log_bytes_max: u64) -> bool {
        self.disks.is_empty() && log_bytes_max > GROUP_BYTES_MAX
    }

    fn durability_of<W: Promise>(&self, options: &CallOptions<W>) -> pipeline::Durability {
        match options.durability.unwrap_or(self.durability) {
            _ if W::IS_EARLY => pipeline::Durability::Async,
            Durability::Group => pipeline::Durability::Group,
            Durability::Sync => pipeline::Durability::Sync,
        }
    }

    /// The terms on which callers carry calls with these options; `None` if these go through
    /// the queue. Calls with a deadline do, because a thread that writes the log cannot stop waiting.
    pub(crate) fn terms<W: Promise>(&self, options: &CallOptions<W>) -> Option<Terms> {
        self.carrier.as_ref()?;
        if options.deadline.is_some() || options.request_id.is_some() {
            return None;
        }
        let log_bytes_max = options.log_bytes_max.unwrap_or(self.log_bytes_max);
        if self.is_too_large(log_bytes_max) {
            return None;
        }
        Some(Terms { durability: self.durability_of(options), log_bytes_max })
    }

    /// Runs a call on this thread, if it has terms, the execution stage is free and no call waits for it;
    /// returns `None` if the call has to go through the queue. `run` stores the outcome where its caller reads
    /// it, so that it is moved only once, and returns the number of bytes logged.
    #[inline]
    pub(crate) fn carry<A, W: Promise>(
        &self,
        terms: Option<Terms>,
        run: impl FnOnce(&mut Runner, u64, &mut Option<Result<A, Stop>>) -> usize,
    ) -> Option<Result<W::Answer<A>, W::Error>> {
        let (carrier, terms) = (self.carrier.as_ref()?, terms?);
        if on_database_thread() {
            return None;
        }
        let mut ended = None;
        let carried =
            carrier.run(terms, |runner| ((), run(runner, terms.log_bytes_max, &mut ended)));
        let (panicked, stands) = match carried? {
            Carried::Ran { outcome, stands } => (outcome.err(), stands),
            Carried::Refused(refusal) => return Some(Err(Error::from(refusal).into())),
        };
        if let Stands::From(position) = stands
            && let Err(refusal) = carrier.wait(position)
        {
            return Some(Err(Error::from(refusal).into()));
        }
        let is_durable = matches!(stands, Stands::Durable | Stands::From(_));
        let error = match (ended, panicked) {
            (Some(Ok(answer)), _) => return Some(Ok(W::answer(answer, is_durable))),
            (Some(Err(stop)), _) => Error::stopped(stop, &self.schema.get()),
            (None, Some(Panicked(message))) => Error::Panicked(message),
            (None, None) => return None, // it met a lock, and waits for it in the queue
        };
        Some(Err(W::error(error, is_durable)))
    }

    /// Queues a call and waits for its answer, doing the database's work meanwhile.
    pub(crate) fn call_queued<A: 'static, W: Promise>(
        &self,
        envelope: Box<dyn Envelope>,
        options: &CallOptions<W>,
    ) -> Result<W::Answer<A>, W::Error> {
        let carries = self.carrier.is_some() && options.deadline.is_none();
        let patience = if carries { Patience::Carries } else { Patience::Waits };
        let ticket = self.queue(envelope, options, patience)?;
        if carries {
            let Way { submitter, reply_slots } = &self.ways[ticket.set];
            submitter.carry_until(|| reply_slots.is_done(ticket.tag));
        }
        self.wait::<A, W>(ticket)
    }

    /// Queues a call whose caller will [help](Self::help) until it is answered.
    pub(crate) fn submit_helped(&self, envelope: Box<dyn Envelope>) -> Result<Ticket, Error> {
        let patience = if self.carrier.is_some() { Patience::Carries } else { Patience::Waits };
        self.queue(envelope, &CallOptions::new(), patience)
    }

    /// The entrance for callers that run transactions on their own threads, if they do.
    pub(crate) const fn carrier(&self) -> Option<&Carrier<Runner>> {
        self.carrier.as_ref()
    }

    /// Its clock.
    pub(crate) const fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// Whether transactions are logged on disk.
    pub(crate) fn is_durable(&self) -> bool {
        !self.disks.is_empty()
    }

    /// A slot for the answer of a call that is not queued, and the number by which it is answered.
    pub(crate) fn open_slot(&self) -> (Ticket, u64) {
        let set = own_set(self.ways.len());
        let reply_slots = &self.ways[set].reply_slots;
        let tag = reply_slots.open();
        (Ticket { set, tag, deadline_ns: NEVER_NS }, reply_slots.number(tag))
    }

    /// Does the stages' work once, if callers do; returns whether there was any.
    pub(crate) fn help(&self) -> bool {
        self.carrier.as_ref().is_some_and(Carrier::help)
    }

    /// Queues long work, whose answer leaves with this durability.
    pub(crate) fn submit_long(
        &self,
        work: Box<dyn LongWork<Runner>>,
        durability: pipeline::Durability,
    ) -> Result<Ticket, Error> {
        if on_database_thread() {
            return Err(Error::Nested);
        }
        let set = own_set(self.ways.len());
        let Way { submitter, reply_slots: replies } = &self.ways[set];
        let tag = replies.open();
        let number = replies.number(tag);
        match self.long.submit(submitter, work, number, durability) {
            Ok(_) => Ok(Ticket { set, tag, deadline_ns: NEVER_NS }),
            Err(not_taken) => {
                replies.close(tag);
                Err(match not_taken {
                    NotSubmitted::Full(_) => Error::QueueFull,
                    NotSubmitted::Refused(_, refusal) => refusal.into(),
                })
            }
        }
    }

    /// Puts a request into the queue.
    fn put(
        &self,
        submitter: &Submitter<Request, Box<dyn Envelope>>,
        mut request: Request,
        tag: u64,
        durability: pipeline::Durability,
        patience: Patience,
    ) -> Result<(), (Request, Error)> {
        let deadline_ns = request.deadline_ns;
        if patience != Patience::None && deadline_ns == NEVER_NS {
            let put = match patience {
                Patience::Carries => submitter.submit_silently(request, tag, durability),
                _ => submitter.submit(request, tag, durability),
            };
            return put.map_err(|(request, refusal)| (request, refusal.into()));
        }
        loop {
            match submitter.try_submit(request, tag, durability) {
                Ok(()) => return Ok(()),
                Err(NotSubmitted::Refused(request, refusal)) => {
                    return Err((request, refusal.into()));
                }
                Err(NotSubmitted::Full(request)) if patience == Patience::None => {
                    return Err((request, Error::QueueFull));
                }
                Err(NotSubmitted::Full(full)) => request = full,
            }
            match self.left(deadline_ns) {
                Some(left) => wait_a_moment(left.min(ROOM_WAIT_MAX)),
                None => return Err((request, Error::Expired)),
            }
        }
    }

    /// The time until a deadline; `MAX` without a deadline, `None` if it has passed.
    fn left(&self, deadline_ns: u64) -> Option<Duration> {
        if deadline_ns == NEVER_NS {
            return Some(Duration::MAX);
        }
        let left_ns = deadline_ns.saturating_sub(self.clock.now_ns());
        (left_ns > 0).then(|| Duration::from_nanos(left_ns))
    }

    /// The slots in which a call's reply arrives.
    pub(crate) fn reply_slots(&self, ticket: Ticket) -> &ReplySlots {
        &self.ways[ticket.set].reply_slots
    }

    /// Blocks until a call is answered or its deadline passes.
    pub(crate) fn wait<A: 'static, W: Promise>(
        &self,
        ticket: Ticket,
    ) -> Result<W::Answer<A>, W::Error> {
        let reply_slots = self.reply_slots(ticket);
        let left = || match on_database_thread() {
            true => None, // such a thread must not wait
            false => self.left(ticket.deadline_ns),
        };
        let reply = block_on(|waker| reply_slots.poll(ticket.tag, waker), left);
        // The reply may have arrived just now.
        match reply.or_else(|| reply_slots.abandon(ticket.tag).map(Ok)) {
            Some(reply) => self.answer::<A, W>(reply),
            None => Err(Error::TimedOut.into()),
        }
    }

    /// The answer in a reply.
    pub(crate) fn answer<A: 'static, W: Promise>(
        &self,
        reply: Result<Answered, Arc<str>>,
    ) -> Result<W::Answer<A>, W::Error> {
        let reply = reply.map_err(Error::Unknown)?;
        let is_durable = matches!(reply, Reply::Durable(_));
        let ended = reply.outcome().map_err(Error::from)?;
        match self.ended(ended) {
            Ok(answer) => Ok(W::answer(answer, is_durable)),
            Err(error) => Err(W::error(error, is_durable)),
        }
    }

    /// The outcome of a call that ended.
    fn ended<A: 'static>(&self, ended: pipeline::Outcome<Box<dyn Envelope>>) -> Result<A, Error> {
        let mut envelope = match ended {
            Ok(envelope) => envelope,
            Err(failure) => return Err(Error::failed(failure, &self.schema.get())),
        };
        let ran = envelope.ran().downcast_mut::<Option<Ran<A>>>().and_then(Option::take);
        envelope.recycle();
        match ran {
            Some(Ran::Ended(Ok(answer))) => Ok(answer),
            Some(Ran::Ended(Err(stop))) => Err(Error::stopped(stop, &self.schema.get())),
            Some(Ran::Otherwise(how)) => Err(match how {
                Otherwise::Repeated(outcome) => Error::Repeated(outcome),
                Otherwise::Stopped(stop) => Error::stopped(stop, &self.schema.get()),
                Otherwise::Panicked(message) => Error::Panicked(message),
            }),
            None => unreachable!("a call that was answered has an outcome of its type"),
        }
    }

    /// Calls the pipeline, unless it is closed. `call` must not wait.
    pub(crate) fn with_pipeline<T>(
        &self,
        ask: impl FnOnce(&Pipeline<Runner>) -> T,
    ) -> Result<T, Error> {
        self.pipeline.lock().as_ref().map(ask).ok_or(Error::Closed)
    }

    /// The failure that stopped it, if there was one.
    pub(crate) fn failure(&self) -> Option<Arc<str>> {
        self.with_pipeline(Pipeline::poison).ok().flatten()
    }

    /// Waits for this caller's turn to add to a table. Not for a database's thread.
    pub(crate) fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock()
    }

    /// Its directories; none for a database in memory.
    pub(crate) fn disks(&self) -> &[Arc<dyn Disk>] {
        &self.disks
    }

    /// Accepts no more calls and waits until all earlier ones are answered and on disk.
    pub(crate) fn close(&self) -> Result<(), Error> {
        let Some(pipeline) = self.pipeline.lock().take() else { return Ok(()) };
        if on_database_thread() {
            // The thread cannot wait for itself and gets an error; calls under way are still answered and
            // written.
            pipeline.shut();
            match Running::start_for("tombolo-close", |pipeline: Pipeline<Runner>| {
                drop(pipeline.close());
            }) {
                Ok((_, give)) => drop(give.send(pipeline)),
                // No thread can wait for the pipeline then: its threads end by themselves.
                Err(_) => std::mem::forget(pipeline),
            }
            return Err(Error::Nested);
        }
        // This drops the store and the log, and with the log the lock on the directory.
        let closed = pipeline.close();
        if let Some(reason) = closed.poison {
            return Err(Error::Poisoned(reason));
        }
        if let Some(reason) = closed.checkpoint_failure {
            return Err(Error::CheckpointsFailed(reason));
        }
        closed.checkpoint_left_out.map_or(Ok(()), |what| Err(Error::DiskFull(what.to_string())))
    }
}

/// The set of reply slots of the calling thread: threads take turns.
fn own_set(sets: usize) -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        // Only a number is handed out.
        static OWN: usize = THREADS.fetch_add(1, Ordering::Relaxed);
    }
    OWN.with(|own| own % sets)
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core").finish_non_exhaustive()
    }
}
