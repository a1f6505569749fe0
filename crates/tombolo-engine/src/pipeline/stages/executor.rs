//! What the execution stage asks of a database: run a batch of requests, one after the other.
//!
//! Each user of the pipeline implements [`Executor`] around a store: the benchmark, the embedded
//! library, the simulator. One call per batch, so an executor may be erased (`Box<dyn Executor>`)
//! at no cost per transaction.
//!
//! Not here: queues, threads, the log's file, work that takes longer than a transaction may
//! (`long.rs`). Contract: each request is one transaction, run with
//! [`crate::transaction::execute`], so that a panic inside it is undone, and answered right after it
//! ended, before the next begins.

use tombolo_storage::memory::image::RowsInPlace;

use crate::pipeline::log::Records;
use crate::pipeline::transport::{Answered, Call, Durability, Failure, Outcome, Reply};
use crate::transaction::Stop;

/// What a request may write to the log where its executor does not know better, in bytes.
pub const LOG_BYTES_PER_CALL: u64 = 64 << 10;

/// A database that runs requests.
pub trait Executor: Send + 'static {
    /// What is asked: a procedure and its input.
    type Request: Send + 'static;
    /// What is answered.
    type Answer: Send + 'static;
    /// What is logged; `()` without a log.
    type Records: Records;

    /// Runs the requests that are left in `batch`, in their order, and answers each as soon as its
    /// transaction has ended. When it panics, the request at hand is answered with the panic, and
    /// it is called again for the rest.
    fn execute(&mut self, batch: &mut Batch<'_, Self::Request, Self::Answer>);

    /// Finds where the rows lie that `calls` will touch, and fetches them (TPK-44). Called before
    /// `execute` with the calls that come next; nothing it finds may be relied on unchecked,
    /// because the calls before them still run.
    fn locate(&mut self, calls: &mut [Call<Self::Request>]) {
        let _ = calls;
    }

    /// The most bytes `request` may add to the log: 0 for a request that only reads. A group of the log
    /// and a full disk are judged by it before the request runs.
    fn log_bytes_max(&self, request: &Self::Request) -> u64 {
        let _ = request;
        LOG_BYTES_PER_CALL
    }

    /// The most bytes that any request may add to the log, if that is known: where there is room for a whole
    /// batch of them, requests are not asked one by one.
    fn log_bytes_of_any_max(&self) -> Option<u64> {
        None
    }

    /// The name under which a request that held the execution thread for too long is reported: the procedure's
    /// name. Not called otherwise.
    fn name_of(&self, request: &Self::Request) -> &'static str {
        let _ = request;
        "a request"
    }

    /// Hands out what the store has logged since the last time, by swapping its buffer with `into`,
    /// which is empty. Not called in a pipeline without a log.
    fn take_log(&mut self, into: &mut Self::Records) {
        let _ = into;
    }

    /// The rows in place, for checkpoints without a second copy; called between two batches. Without them
    /// (the default) there is none of those.
    fn rows_in_place(&mut self) -> Option<RowsInPlace<'_>> {
        None
    }
}

impl<R, A, B> Executor for Box<dyn Executor<Request = R, Answer = A, Records = B>>
where
    R: Send + 'static,
    A: Send + 'static,
    B: Records,
{
    type Request = R;
    type Answer = A;
    type Records = B;

    fn execute(&mut self, batch: &mut Batch<'_, R, A>) {
        (**self).execute(batch);
    }

    fn locate(&mut self, calls: &mut [Call<R>]) {
        (**self).locate(calls);
    }

    fn log_bytes_max(&self, request: &R) -> u64 {
        (**self).log_bytes_max(request)
    }

    fn log_bytes_of_any_max(&self) -> Option<u64> {
        (**self).log_bytes_of_any_max()
    }

    fn name_of(&self, request: &R) -> &'static str {
        (**self).name_of(request)
    }

    fn take_log(&mut self, into: &mut B) {
        (**self).take_log(into);
    }

    fn rows_in_place(&mut self) -> Option<RowsInPlace<'_>> {
        (**self).rows_in_place()
    }
}

/// The replies of the transactions whose records go to the log together.
#[derive(Debug)]
pub(crate) struct Replies<A> {
    /// Whether there is a log. Without one everything leaves immediately and is volatile.
    logged: bool,
    /// What is at or before this position of the log was durable when the batch began; without a log
    /// everything is, as far as waiting goes.
    durable: u64,
    /// The log's position before the first of them.
    pub(crate) position: u64,
    /// Bytes behind it, as last reported.
    pub(crate) log_bytes: u64,
    pub(crate) executed: u64,
    /// How many of those have no answer.
    pub(crate) failed: u64,
    pub(crate) wants_sync: bool,
    /// Whether one of them leaves before what it reports is durable.
    pub(crate) is_promised: bool,
    /// What leaves immediately, and what waits until the log is durable behind it.
    pub(crate) early: Vec<Answered<A>>,
    pub(crate) waiting: Vec<Answered<A>>,
}

impl<A> Replies<A> {
    /// Of a batch that begins at `position` of a log that is durable up to `durable`.
    pub(crate) fn logged(durable: u64, position: u64, early: Vec<Answered<A>>) -> Self {
        Self {
            logged: true,
            durable,
            position,
            log_bytes: 0,
            executed: 0,
            failed: 0,
            wants_sync: false,
            is_promised: false,
            early,
            waiting: Vec::new(),
        }
    }

    /// Of a batch where nothing is logged.
    pub(crate) fn volatile(early: Vec<Answered<A>>) -> Self {
        Self { logged: false, ..Self::logged(u64::MAX, 0, early) }
    }

    #[inline(always)]
    fn add<R>(&mut self, call: &Call<R>, outcome: Outcome<A>) {
        self.executed += 1;
        let waits = self.position + self.log_bytes > self.durable;
        if waits && call.durability == Durability::Group {
            return self.waiting.push(call.reply(Reply::Durable(outcome)));
        }
        let reply = match call.durability {
            _ if !self.logged => Reply::Volatile(outcome),
            _ if !waits => Reply::Durable(outcome),
            Durability::Async => {
                self.is_promised = true;
                Reply::PreCommitted(outcome)
            }
            Durability::Group | Durability::Sync => {
                self.wants_sync = true;
                return self.waiting.push(call.reply(Reply::Durable(outcome)));
            }
        };
        self.early.push(call.reply(reply));
    }
}

/// The requests that run next, and where their answers go.
#[derive(Debug)]
pub struct Batch<'b, R, A> {
    calls: &'b mut [Call<R>],
    /// How many of them are answered.
    answered: usize,
    replies: &'b mut Replies<A>,
}

impl<'b, R, A> Batch<'b, R, A> {
    pub(crate) fn new(calls: &'b mut [Call<R>], replies: &'b mut Replies<A>) -> Self {
        Self { calls, answered: 0, replies }
    }

    /// The request that runs next: the first one that is not answered.
    #[inline]
    pub fn request(&mut self) -> Option<&mut R> {
        self.calls.get_mut(self.answered).map(|call| &mut call.request)
    }

    /// The same with the tag of its call.
    #[inline]
    pub fn tagged_request(&mut self) -> Option<(u64, &mut R)> {
        self.calls.get_mut(self.answered).map(|call| (call.tag, &mut call.request))
    }

    /// How many requests are left.
    pub fn left(&self) -> usize {
        self.calls.len() - self.answered
    }

    /// Answers the request at hand: its transaction ended like this, and the store's log buffer now
    /// holds `log_bytes` that were not taken. That number decides how long the answer waits: a
    /// transaction that wrote is behind it, and so is one that read what was written.
    ///
    /// # Panics
    /// When all are answered.
    #[inline(always)]
    pub fn answer(&mut self, outcome: Result<A, Stop>, log_bytes: usize) {
        self.replies.log_bytes = log_bytes as u64;
        match outcome {
            // By itself, so that an answer is put together where it stays.
            Ok(answer) => self.replies.add(&self.calls[self.answered], Ok(answer)),
            Err(stop) => self.failed(Failure::Stopped(stop)),
        }
        self.answered += 1;
    }

    #[cold]
    #[inline(never)]
    fn failed(&mut self, failure: Failure) {
        self.replies.failed += 1;
        self.replies.add(&self.calls[self.answered], Err(failure));
    }

    /// Runs `run` on each request that is left; it returns what [`Batch::answer`] takes.
    #[inline]
    pub fn each(&mut self, mut run: impl FnMut(&mut R) -> (Result<A, Stop>, usize)) {
        while let Some(request) = self.request() {
            let (outcome, log_bytes) = run(request);
            self.answer(outcome, log_bytes);
        }
    }

    /// Answers the request at hand with what its panic said. Its transaction was undone, so that
    /// the store's log ends where it did before.
    pub(crate) fn panicked(&mut self, message: Box<str>) {
        self.failed(Failure::Panicked(message));
        self.answered += 1;
    }
}
