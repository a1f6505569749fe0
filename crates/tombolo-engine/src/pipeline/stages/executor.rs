//! `Executor`: the execution stage's interface to a database, which runs batches of requests.
//!
//! Each user of the pipeline implements [`Executor`] around a store: the benchmark, the embedded
//! library, the simulator. There is one call per batch, so an executor may be type-erased
//! (`Box<dyn Executor>`) at no cost per transaction.
//!
//! Not here: queues, threads, the log's file, work that takes longer than a transaction may
//! (`long.rs`). Contract: each request is one transaction, run with
//! [`crate::transaction::execute`], so that a panic inside it is undone, and is answered when it has
//! ended, before the next begins.

use tombolo_storage::memory::image::RowsInPlace;

use crate::pipeline::log::Records;
use crate::pipeline::transport::{Answered, Call, Durability, Failure, Outcome, Reply};
use crate::transaction::Stop;

/// The default log limit of a request, in bytes.
pub const LOG_BYTES_PER_CALL: u64 = 64 << 10;

/// A database that runs requests.
pub trait Executor: Send + 'static {
    /// A request: a procedure and its input.
    type Request: Send + 'static;
    /// An answer.
    type Answer: Send + 'static;
    /// Log records; `()` without a log.
    type Records: Records;

    /// Runs the remaining requests of `batch`, in their order, and answers each as soon as its
    /// transaction has ended. If it panics, the current request is answered with the panic, and
    /// this method is called again for the rest.
    fn execute(&mut self, batch: &mut Batch<'_, Self::Request, Self::Answer>);

    /// Finds the rows that `calls` will access, and prefetches them (TPK-44). Called before
    /// `execute` with the next calls; its results are only hints,
    /// because the calls before them still have to run.
    fn locate(&mut self, calls: &mut [Call<Self::Request>]) {
        let _ = calls;
    }

    /// The most bytes that `request` may add to the log: 0 for a request that only reads. Room in the group and
    /// on the disk is checked against it before the request runs.
    fn log_bytes_max(&self, request: &Self::Request) -> u64 {
        let _ = request;
        LOG_BYTES_PER_CALL
    }

    /// The most bytes that any request may add to the log, if known: if there is room for a whole
    /// batch of them, requests need not be checked one by one.
    fn log_bytes_of_any_max(&self) -> Option<u64> {
        None
    }

    /// The name under which a request that occupied the execution thread for too long is reported: the
    /// procedure's name. Only called for such requests.
    fn name_of(&self, request: &Self::Request) -> &'static str {
        let _ = request;
        "a request"
    }

    /// Returns the store's new log records, by swapping its buffer with `into`,
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
    /// Whether there is a log. Without one all replies leave immediately and are volatile.
    logged: bool,
    /// The log was durable up to this position when the batch began; without a log no reply has to wait.
    durable: u64,
    /// The log's position before the first transaction.
    pub(crate) position: u64,
    /// Bytes after it, as last reported.
    pub(crate) log_bytes: u64,
    pub(crate) executed: u64,
    /// The number of transactions without an answer.
    pub(crate) failed: u64,
    pub(crate) wants_sync: bool,
    /// Whether a reply leaves before everything it reports is durable.
    pub(crate) is_promised: bool,
    /// Replies that leave immediately, and replies that wait until the log is durable.
    pub(crate) early: Vec<Answered<A>>,
    pub(crate) waiting: Vec<Answered<A>>,
}

impl<A> Replies<A> {
    /// For a batch that begins at `position` of a log that is durable up to `durable`.
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

    /// For a batch in a pipeline without a log.
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

/// The requests that run next, with a place for their answers.
#[derive(Debug)]
pub struct Batch<'b, R, A> {
    calls: &'b mut [Call<R>],
    /// The number of answered requests.
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

    /// The number of remaining requests.
    pub fn left(&self) -> usize {
        self.calls.len() - self.answered
    }

    /// Answers the current request with the outcome of its transaction. The store's log buffer now
    /// contains `log_bytes`, which determines how long the answer waits: until everything in the buffer is
    /// durable, because the transaction may have written it or read it.
    ///
    /// # Panics
    /// When all requests are answered.
    #[inline(always)]
    pub fn answer(&mut self, outcome: Result<A, Stop>, log_bytes: usize) {
        self.replies.log_bytes = log_bytes as u64;
        match outcome {
            // A separate arm, so that an answer is constructed in its final place.
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

    /// Runs `run` on each remaining request; it returns the arguments of [`Batch::answer`].
    #[inline]
    pub fn each(&mut self, mut run: impl FnMut(&mut R) -> (Result<A, Stop>, usize)) {
        while let Some(request) = self.request() {
            let (outcome, log_bytes) = run(request);
            self.answer(outcome, log_bytes);
        }
    }

    /// Answers the current request with the message of its panic. Its transaction was undone, so
    /// the store's log ends where it did before.
    pub(crate) fn panicked(&mut self, message: Box<str>) {
        self.failed(Failure::Panicked(message));
        self.answered += 1;
    }
}
