//! What a database and its handles share: the way of a call in and out.
//!
//! A caller carries its own call where that is possible; otherwise the call goes through the queue. A handle
//! that outlives its database reports that the database is closed. Not here: what travels (`calls/`), what
//! keeps the database open (`database.rs`). Invariants: a call that was taken in is answered, also while the
//! database closes; no thread that does a database's work waits for one.

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
    Answered, CallOptions, Counters, Durability, Envelope, Identified, Otherwise, Promise,
    REQUEST_LOG_BYTES_MAX, Ran, ReplySlots, Request, Runner, Ticket, block_on, on_database_thread,
    wait_a_moment,
};
use crate::error::Error;
use crate::stop::Stop;
use crate::tx::KnownSchema;

/// The longest that a call with a deadline sleeps before it looks for room again.
const ROOM_WAIT_MAX: Duration = Duration::from_millis(1);

/// No deadline.
const NEVER_NS: u64 = u64::MAX;

/// Whether a call waits for room in the queue.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patience {
    /// It does, and does the database's work while it waits for its answer.
    Carries,
    /// It does.
    Waits,
    /// It does not.
    None,
}

/// One way in, and where its replies arrive.
struct Way {
    submitter: Submitter<Request, Box<dyn Envelope>>,
    reply_slots: Arc<ReplySlots>,
}

/// What a database and its handles share.
pub(crate) struct Core {
    ways: Vec<Way>,
    /// Where callers run their transactions themselves, if they do.
    carrier: Option<Carrier<Runner>>,
    pub(crate) schema: Arc<KnownSchema>,
    long: LongIntake<Runner>,
    clock: Arc<dyn Clock>,
    durability: Durability,
    /// What a call may log that sets no bound of its own.
    log_bytes_max: u64,
    /// The database's directories; empty for a database in memory.
    disks: Vec<Arc<dyn Disk>>,
    pub(crate) counters: Arc<Counters>,
    /// Held by a caller while it adds an index or a column.
    turn: Mutex<()>,
    /// There until it is closed.
    pipeline: Mutex<Option<Pipeline<Runner>>>,
}

/// What a database is made of.
pub(crate) struct Parts {
    pub(crate) pipeline: Pipeline<Runner>,
    pub(crate) schema: Arc<KnownSchema>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) durability: Durability,
    pub(crate) log_bytes_max: u64,
    pub(crate) disks: Vec<Arc<dyn Disk>>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) reply_slots: Vec<Arc<ReplySlots>>,
}

impl Core {
    /// Of a database whose pipeline runs.
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
        } = parts;
        let way = |reply_slots: &Arc<ReplySlots>| Way {
            submitter: pipeline.register(reply_slots.clone()),
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

    /// Takes a call in. A call that is not taken in comes back with the reason.
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
                // Given no bound of its own, it has the usual one, and its id is in that.
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

    /// Whether a database in memory refuses what a log would: it is refused what one on disk is.
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

    /// On which terms calls with these options are carried by their callers; `None` if they go through
    /// the queue. Those with a deadline do: a thread that writes the log cannot give up.
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

    /// Runs a call on this thread, if its terms are known, execution is free and nothing waits for it;
    /// `None` if it has to go through the queue. `run` puts its outcome where it is looked for, so
    /// that it is moved once on its way, and says how many bytes it has logged.
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
            (None, None) => unreachable!("what ran has an outcome, or panicked"),
        };
        Some(Err(W::error(error, is_durable)))
    }

    /// Takes a call in and waits for its answer, doing the database's work meanwhile.
    pub(crate) fn call_queued<A: 'static, W: Promise>(
        &self,
        envelope: Box<dyn Envelope>,
        options: &CallOptions<W>,
    ) -> Result<W::Answer<A>, W::Error> {
        let carries = self.carrier.is_some() && options.deadline.is_none();
        let patience = if carries { Patience::Carries } else { Patience::Waits };
        let ticket = self.submit(envelope, options, patience).map_err(|(envelope, error)| {
            envelope.recycle();
            error
        })?;
        if carries {
            let Way { submitter, reply_slots } = &self.ways[ticket.set];
            submitter.carry_until(|| reply_slots.is_done(ticket.tag));
        }
        self.wait::<A, W>(ticket)
    }

    /// Takes a call in, whenever there is room.
    pub(crate) fn submit_waiting<W: Promise>(
        &self,
        envelope: Box<dyn Envelope>,
        options: &CallOptions<W>,
    ) -> Result<Ticket, Error> {
        self.submit(envelope, options, Patience::Waits).map_err(|(envelope, error)| {
            envelope.recycle();
            error
        })
    }

    /// Takes long work in, whose answer leaves when this says.
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

    /// How long it is until a deadline; `MAX` where there is none, `None` where it has passed.
    fn left(&self, deadline_ns: u64) -> Option<Duration> {
        if deadline_ns == NEVER_NS {
            return Some(Duration::MAX);
        }
        let left_ns = deadline_ns.saturating_sub(self.clock.now_ns());
        (left_ns > 0).then(|| Duration::from_nanos(left_ns))
    }

    /// Where a call's reply arrives.
    pub(crate) fn reply_slots(&self, ticket: Ticket) -> &ReplySlots {
        &self.ways[ticket.set].reply_slots
    }

    /// Sleeps until a call is answered, or its deadline has passed.
    pub(crate) fn wait<A: 'static, W: Promise>(
        &self,
        ticket: Ticket,
    ) -> Result<W::Answer<A>, W::Error> {
        let reply_slots = self.reply_slots(ticket);
        let left = || match on_database_thread() {
            true => None, // it has other things to do
            false => self.left(ticket.deadline_ns),
        };
        let reply = block_on(|waker| reply_slots.poll(ticket.tag, waker), left);
        // It may have come just now.
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

    /// Asks the pipeline something, unless it is closed. What waits does so afterwards.
    pub(crate) fn with_pipeline<T>(
        &self,
        ask: impl FnOnce(&Pipeline<Runner>) -> T,
    ) -> Result<T, Error> {
        self.pipeline.lock().as_ref().map(ask).ok_or(Error::Closed)
    }

    /// The caller's turn to add to a table; it sleeps until that comes. Not for a database's thread.
    pub(crate) fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock()
    }

    /// Where it lies; nowhere if it is in memory.
    pub(crate) fn disks(&self) -> &[Arc<dyn Disk>] {
        &self.disks
    }

    /// Lets nothing more in and waits until all is answered and on disk.
    pub(crate) fn close(&self) -> Result<(), Error> {
        let Some(pipeline) = self.pipeline.lock().take() else { return Ok(()) };
        if on_database_thread() {
            // It cannot wait for itself, and says so; what is under way is answered and written all
            // the same.
            pipeline.shut();
            match Running::start_for("tombolo-close", |pipeline: Pipeline<Runner>| {
                drop(pipeline.close());
            }) {
                Ok((_, give)) => drop(give.send(pipeline)),
                // No thread can wait for it then: its threads are left alone.
                Err(_) => std::mem::forget(pipeline),
            }
            return Err(Error::Nested);
        }
        // The store and the log go here, and with the log the lock on the directory.
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
