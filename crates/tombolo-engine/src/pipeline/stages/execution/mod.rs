//! The execution stage: transactions run one at a time, with nothing in between (TPK-5, TPK-7).
//!
//! It takes *all* waiting calls at once and processes them in batches. Room in the log is
//! reserved for a whole batch before its first transaction runs; rows may be prefetched a few
//! transactions ahead (TPK-44); the executor runs the transactions; their log records and the replies that wait
//! for these go to the logging stage as one item. Replies that need
//! not wait — everything they depend on is durable, or the call is `async` — leave immediately.
//!
//! Pre-commit (TPK-11): later transactions see a batch's changes before they are durable. No reply
//! reveals them early: a reply waits for the log position at which its transaction ran,
//! whether it wrote or only read (TPK-E3).
//!
//! Records that the store logged before the pipeline started (its tables) need room like any batch and go
//! first. While there is no room for them nothing runs, not even reads: no answer could leave before them.
//!
//! Between two batches one slice of long work runs, if there is any (`long.rs`).
//!
//! Not here: the code of a transaction (`executor.rs`), the time of a flush (`logging.rs`).
//! Invariants: batches reach the log queue in the order in which they ran; a transaction runs only if its
//! records have room in the log; after poison none runs.

pub(crate) mod carried;

pub(crate) mod log_sender;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tombolo_storage::plant::{self, Plant};
use tombolo_storage::sync::Mutex;

use crate::clock::Clock;
use crate::look_ahead::LookAhead;
use crate::pipeline::log::Records;
use crate::pipeline::policy::Watch;
use crate::pipeline::stage::{Stage, StageKind, Step};
use crate::pipeline::stages::execution::log_sender::{LogSender, Waiting};
use crate::pipeline::stages::executor::{Batch, Executor, Replies};
use crate::pipeline::stages::long::{Finished, LongWorks};
use crate::pipeline::stages::output::{Outbox, Parcel};
use crate::pipeline::state::{Shared, add};
use crate::pipeline::transport::{Answered, Call, Durability, Queue, Refusal, Reply, drop_guarded};
use crate::threads::panic_message;

/// The limits by which the execution stage divides its work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cut {
    /// The most transactions of a batch.
    pub(crate) batch_transactions_max: usize,
    /// Transactions whose rows are prefetched together before they run; `None`: tuned while running.
    pub(crate) locate_ahead: Option<usize>,
}

/// The fewest calls in a batch for which rows are prefetched.
const MANY: usize = 8;

/// The execution stage.
pub(crate) struct Execution<E: Executor> {
    executor: E,
    input: Arc<Queue<Call<E::Request>>>,
    /// Present if transactions are logged.
    log: Option<LogSender<E::Answer, E::Records>>,
    outbox: Outbox<E::Answer>,
    shared: Arc<Shared<E::Answer>>,
    cut: Cut,
    look_ahead: LookAhead,
    long: LongWorks<E>,
    /// Long works that have ended and are not answered yet; empty between steps.
    finished: Vec<Finished<E::Answer>>,
    watch: Watch,
    clock: Arc<dyn Clock>,
    /// The calls taken from the queue, and the number of them that have run.
    calls: Vec<Call<E::Request>>,
    done: usize,
    /// Records logged before the pipeline started, until they are passed on.
    beginning: Option<E::Records>,
    /// Whether room appeared while this stage was about to wait for it.
    is_fed: bool,
    /// Whether a caller's thread steps it; that thread steps the log itself.
    is_carried: bool,
    /// How many transactions had ended when the last one over several pipelines will have, and how many of those ran
    /// in a row.
    for_several: (u64, u32),
    /// Receives the executor at the end.
    retired: Arc<Mutex<Option<E>>>,
}

/// The parts of an execution stage.
pub(crate) struct Parts<E: Executor> {
    pub(crate) executor: E,
    pub(crate) input: Arc<Queue<Call<E::Request>>>,
    pub(crate) log: Option<LogSender<E::Answer, E::Records>>,
    pub(crate) outbox: Outbox<E::Answer>,
    pub(crate) shared: Arc<Shared<E::Answer>>,
    pub(crate) cut: Cut,
    pub(crate) long: LongWorks<E>,
    pub(crate) watch: Watch,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) retired: Arc<Mutex<Option<E>>>,
}

impl<E: Executor> Execution<E> {
    pub(crate) fn new(parts: Parts<E>) -> Self {
        let Parts { mut executor, input, log, outbox, shared, cut, long, watch, clock, retired } =
            parts;
        let beginning = log.as_ref().and_then(|log| {
            let mut records = log.buffers.take();
            executor.take_log(&mut records);
            (!records.bytes().is_empty()).then_some(records)
        });
        Self {
            executor,
            input,
            log,
            outbox,
            shared,
            look_ahead: LookAhead::of(cut.locate_ahead),
            cut,
            long,
            finished: Vec::new(),
            watch,
            clock,
            calls: Vec::new(),
            done: 0,
            beginning,
            is_fed: false,
            is_carried: false,
            for_several: (0, 0),
            retired,
        }
    }

    /// Runs the next batch, or the beginning of it.
    fn run_batch(&mut self, now_ns: u64) {
        let end = self.calls.len().min(self.done + self.cut.batch_transactions_max);
        let mut early = self.outbox.parcels.take();
        early.reserve(end - self.done);
        let early = if let Some(refusal) = self.refusal() {
            self.refuse_all(end, early, &refusal)
        } else if self.log.is_some() {
            self.run_logged(end, early, now_ns)
        } else {
            let mut replies = Replies::volatile(early);
            self.run(end, &mut replies);
            self.count(&replies);
            replies.early
        };
        self.outbox.post(early);
    }

    /// Runs the calls before `end`.
    fn run(&mut self, end: usize, replies: &mut Replies<E::Answer>) {
        let first = self.done;
        // With few calls there is nothing to prefetch while they run.
        let has_many = end - first >= MANY;
        let ahead = if has_many { self.look_ahead.depth() } else { 0 };
        let is_timed = has_many && self.look_ahead.slice().is_some() && !self.watch.is_close();
        let begun_ns = is_timed.then(|| self.clock.now_ns());
        let window = if ahead == 0 { end - first } else { ahead };
        while self.done < end {
            let window_end = end.min(self.done + window);
            let calls = &mut self.calls[self.done..window_end];
            let executor = &mut self.executor;
            if ahead > 0 {
                // These are only hints: rows not found because of a panic are looked up when needed.
                let _ = catch_unwind(AssertUnwindSafe(|| executor.locate(calls)));
            }
            if self.watch.is_close() {
                run_watched(executor, calls, replies, &mut self.watch, &*self.clock);
            } else {
                run_calls(executor, calls, replies);
            }
            self.done = window_end;
        }
        if let Some(begun_ns) = begun_ns {
            let ns = self.clock.now_ns().saturating_sub(begun_ns);
            self.look_ahead.ran(end - first, ns);
        }
    }

    fn count(&self, replies: &Replies<E::Answer>) {
        let counters = &self.shared.counters;
        add(&counters.batches, 1);
        add(&counters.executed, replies.executed);
        add(&counters.failed, replies.failed);
        add(&counters.early, replies.early.len() as u64);
    }

    /// Runs calls before `end`, as far as there is room for their records, which go to the log together;
    /// returns the replies that leave immediately.
    fn run_logged(
        &mut self,
        end: usize,
        early: Parcel<E::Answer>,
        now_ns: u64,
    ) -> Parcel<E::Answer> {
        let Some(log) = &self.log else { unreachable!("a logged pipeline has a log") };
        let mut records = log.buffers.take();
        let room_until = self.shared.room.until();
        let room = log.fitting(room_until);
        let durable = match plant::is(Plant::ReadOnlyReleasedEarly) {
            true => log.position, // releases all that logged nothing in its batch
            false => self.shared.durable(),
        };
        let mut replies = Replies::logged(durable, log.position, early);
        replies.waiting = self.outbox.parcels.take();
        replies.waiting.reserve(end - self.done);
        let mut reserved = 0;
        while self.done < end {
            let (fits, bytes) = self.fitting(end, room - reserved);
            if fits > self.done {
                reserved += bytes;
                self.run(fits, &mut replies);
            } else if reserved > 0 || self.waits_for_room(self.log_bytes_of_next(), room_until) {
                break; // the next batch begins here, with the room that is really left
            } else {
                self.refuse_unlogged(&mut replies);
            }
        }
        self.count(&replies);
        self.executor.take_log(&mut records);
        debug_assert!(
            records.bytes().len() as u64 <= reserved,
            "a transaction logged more than its limit"
        );
        self.hold_for_log(records, &mut replies, now_ns);
        replies.early
    }

    /// The end of the calls before `end` that fit into `bytes_max` of log, and the most that they may log.
    fn fitting(&self, end: usize, bytes_max: u64) -> (usize, u64) {
        let count = (end - self.done) as u64;
        if let Some(each) = self.executor.log_bytes_of_any_max()
            && let Some(all) = each.checked_mul(count).filter(|&all| all <= bytes_max)
        {
            return (end, all);
        }
        let mut left = bytes_max;
        for (at, call) in self.calls[self.done..end].iter().enumerate() {
            match left.checked_sub(self.executor.log_bytes_max(&call.request)) {
                Some(rest) => left = rest,
                None => return (self.done + at, bytes_max - left),
            }
        }
        (end, bytes_max - left)
    }

    /// The most bytes the next call may log.
    fn log_bytes_of_next(&self) -> u64 {
        self.executor.log_bytes_max(&self.calls[self.done].request)
    }

    /// Whether a call that may log `log_bytes`, for which there is no room in the log, waits until room is
    /// made. `room_until` is the room that was found.
    #[cold]
    fn waits_for_room(&mut self, log_bytes: u64, room_until: u64) -> bool {
        let Some(log) = &self.log else { return false };
        if log_bytes > log.group_bytes_max {
            return false;
        }
        let wanted = log.cost.of(log_bytes);
        let Some(is_there) = self.shared.room.wait_for(wanted, log.charged, room_until) else {
            return false;
        };
        self.is_fed = is_there;
        log.queue.wake();
        true
    }

    /// Refuses the next call, for which there is no room in the log.
    #[cold]
    fn refuse_unlogged(&mut self, replies: &mut Replies<E::Answer>) {
        let Some(log) = &self.log else { unreachable!("a logged pipeline has a log") };
        let refusal = log.refusal(self.log_bytes_of_next());
        replies.early.push(self.calls[self.done].reply(Reply::Refused(refusal)));
        add(&self.shared.counters.refused, 1);
        self.done += 1;
        log.queue.wake(); // so that the logging stage looks for room
    }

    /// Prepares the records, and the replies that wait for them, for the logging stage.
    fn hold_for_log(&mut self, records: E::Records, replies: &mut Replies<E::Answer>, now_ns: u64) {
        let Some(log) = &mut self.log else { unreachable!("a logged pipeline has a log") };
        let answers = std::mem::take(&mut replies.waiting);
        if records.bytes().is_empty() && answers.is_empty() {
            log.buffers.give_records(records);
            self.outbox.parcels.give(answers);
            return;
        }
        let Replies { executed: transactions, wants_sync, is_promised, .. } = *replies;
        let (waiting, is_wanted) = (0, false);
        let waiting =
            Waiting { answers, transactions, waiting, wants_sync, is_promised, is_wanted };
        log.hold(records, waiting, now_ns);
    }

    /// The reason that nothing runs, if so.
    fn refusal(&self) -> Option<Refusal> {
        if let Some(reason) = self.shared.poison() {
            return Some(Refusal::Poisoned(reason.clone()));
        }
        let (log, beginning) = (self.log.as_ref()?, self.beginning.as_ref()?);
        Some(log.refusal(beginning.bytes().len() as u64))
    }

    #[cold]
    fn refuse_all(
        &mut self,
        end: usize,
        mut early: Parcel<E::Answer>,
        refusal: &Refusal,
    ) -> Parcel<E::Answer> {
        let refused = self.calls[self.done..end].iter();
        early.extend(refused.map(|call| call.reply(Reply::Refused(refusal.clone()))));
        add(&self.shared.counters.refused, (end - self.done) as u64);
        self.done = end;
        early
    }

    /// The log's position after everything that ran.
    fn position(&self) -> u64 {
        self.log.as_ref().map_or(0, |log| log.position)
    }

    /// Accepts long work that has arrived, between two transactions; returns whether all answers of refused
    /// work were passed on, so that a batch may be held instead.
    fn begin_long(&mut self, now_ns: u64) -> bool {
        let (position, refusal) = (self.position(), self.refusal());
        self.long.begin(&mut self.executor, position, refusal.as_ref(), &mut self.finished);
        if self.finished.is_empty() {
            return true;
        }
        self.answer_long(now_ns);
        self.hand_on()
    }

    /// Runs a slice of long work, if there is any; returns whether there was.
    fn run_slice(&mut self, now_ns: u64) -> bool {
        if !self.long.are_active() {
            return false;
        }
        let position = self.position();
        if let Some(finished) = self.long.run_slice(&mut self.executor, position) {
            self.finished.push(finished);
            self.answer_long(now_ns);
        }
        true
    }

    /// Answers the long works that have ended: immediately, or when everything they read is durable.
    fn answer_long(&mut self, now_ns: u64) {
        if self.finished.is_empty() {
            return;
        }
        let (mut early, mut waiting) = (self.outbox.parcels.take(), self.outbox.parcels.take());
        let (is_logged, durable) = (self.log.is_some(), self.shared.durable());
        let (mut wants_sync, mut is_wanted) = (false, false);
        for finished in std::mem::take(&mut self.finished) {
            let Some(caller) = finished.caller else {
                // It may hold what transactions wrote until now, and waits until that is durable.
                is_wanted |= self.position() > durable;
                continue;
            };
            let (tag, durability) = (finished.tag, finished.durability);
            let is_durable = finished.position <= durable;
            let mut waits = false;
            let reply = finished.reply(|outcome| match durability {
                _ if !is_logged => Reply::Volatile(outcome),
                Durability::Async if !is_durable => Reply::PreCommitted(outcome),
                _ => {
                    waits = !is_durable;
                    Reply::Durable(outcome)
                }
            });
            wants_sync |= waits && durability == Durability::Sync;
            if waits { &mut waiting } else { &mut early }.push(Answered { caller, tag, reply });
        }
        self.outbox.post(early);
        self.hold_answers(waiting, wants_sync, is_wanted, now_ns);
    }

    /// Prepares answers that wait for the current log position for the logging stage; with `is_wanted` the engine
    /// itself waits for it.
    fn hold_answers(
        &mut self,
        answers: Parcel<E::Answer>,
        wants_sync: bool,
        is_wanted: bool,
        now_ns: u64,
    ) {
        match &mut self.log {
            Some(log) if is_wanted || !answers.is_empty() => match &mut log.held {
                Some(held) => {
                    held.answers.extend(answers);
                    held.wants_sync |= wants_sync;
                    held.is_wanted |= is_wanted;
                }
                None => {
                    let records = log.buffers.take();
                    let (transactions, waiting, is_promised) = (0, 0, false);
                    let waiting = Waiting {
                        answers,
                        transactions,
                        waiting,
                        wants_sync,
                        is_promised,
                        is_wanted,
                    };
                    log.hold(records, waiting, now_ns);
                }
            },
            _ => self.outbox.parcels.give(answers),
        }
    }

    /// Runs the next batch, if calls wait; returns whether any of them ran.
    fn run_calls_waiting(&mut self, now_ns: u64) -> bool {
        if self.done == self.calls.len() {
            return false;
        }
        let done_before = self.done;
        // Before it runs, because running consumes the content of the request.
        let batch = (self.calls.len() - self.done).min(self.cut.batch_transactions_max);
        let is_lone = batch == 1 && !self.watch.is_close();
        let lone = is_lone.then(|| self.executor.name_of(&self.calls[self.done].request));
        self.run_batch(now_ns);
        let transactions = (self.done - done_before) as u64;
        let end_ns = self.clock.now_ns();
        if let Some(held) = self.log.as_mut().and_then(|log| log.held.as_mut()) {
            held.ended_ns = end_ns;
        }
        self.watch.batch(transactions, end_ns.saturating_sub(now_ns), lone, &self.shared);
        transactions > 0
    }

    /// Ends the stage: no more calls will come and none are left.
    fn end(&self) -> Step {
        match &self.log {
            Some(log) => log.queue.close(),
            None => self.outbox.close(),
        }
        Step::Ended
    }

    /// Passes on the records logged before the pipeline started, if there is room for them; returns whether
    /// that is done. After poison it counts as done, because nothing will be written.
    fn begin(&mut self, now_ns: u64) -> bool {
        let (Some(log), Some(beginning)) = (&self.log, &self.beginning) else { return true };
        let fits = beginning.bytes().len() as u64 <= log.fitting(self.shared.room.until());
        if !fits && self.shared.poison().is_none() {
            log.queue.wake(); // so that the logging stage looks for room
            return false;
        }
        if let Some(records) = self.beginning.take() {
            self.hold_for_log(records, &mut Replies::logged(0, 0, Vec::new()), now_ns);
        }
        true
    }

    /// Whether everything waits because room for these first records is being made.
    #[cold]
    fn waits_to_begin(&mut self) -> bool {
        let Some(beginning) = &self.beginning else { return false };
        let log_bytes = beginning.bytes().len() as u64;
        let room_until = self.shared.room.until();
        self.waits_for_room(log_bytes, room_until)
    }

    /// Waits until the logging stage has room, unless it has found some by now.
    fn idle(&mut self) -> Step {
        match std::mem::take(&mut self.is_fed) {
            true => Step::Progress,
            false => Step::IdleUntil(None),
        }
    }

    /// Passes on held records; returns whether none are left.
    fn hand_on(&mut self) -> bool {
        let is_carried = self.is_carried;
        let logged = self.log.as_mut().is_none_or(|log| log.hand_on(is_carried));
        self.outbox.send() && logged
    }
}

/// Runs `calls`, even if one panics.
fn run_calls<E: Executor>(
    executor: &mut E,
    calls: &mut [Call<E::Request>],
    replies: &mut Replies<E::Answer>,
) {
    let mut batch = Batch::new(calls, replies);
    while batch.left() > 0 {
        let left = batch.left();
        // A transaction that panics before its commit is undone by its guard (`transaction.rs`); by its
        // contract, an executor keeps the rest of its state consistent itself.
        match catch_unwind(AssertUnwindSafe(|| executor.execute(&mut batch))) {
            Ok(()) if batch.left() == left => {
                batch.panicked("the executor did not answer".into());
            }
            Ok(()) => {}
            Err(panic) => batch.panicked(panic_message(&*panic)),
        }
    }
}

/// Runs `calls` one by one, each with a look at the clock, after an overrun.
#[cold]
fn run_watched<E: Executor>(
    executor: &mut E,
    calls: &mut [Call<E::Request>],
    replies: &mut Replies<E::Answer>,
    watch: &mut Watch,
    clock: &dyn Clock,
) {
    let mut start_ns = clock.now_ns();
    let mut calls = calls.chunks_mut(1);
    while watch.is_close() {
        let Some(call) = calls.next() else { return };
        let name = executor.name_of(&call[0].request);
        run_calls(executor, call, replies);
        let ns = clock.now_ns().saturating_sub(start_ns);
        start_ns += ns;
        watch.transaction(name, ns);
    }
    calls.for_each(|call| run_calls(executor, call, replies));
}

impl<E: Executor> Stage for Execution<E> {
    fn kind(&self) -> StageKind {
        StageKind::Execution
    }

    fn step(&mut self, now_ns: u64) -> Step {
        let has_begun = self.begin(now_ns);
        if !self.hand_on() {
            return Step::IdleUntil(None);
        }
        if !has_begun && self.waits_to_begin() {
            return self.idle();
        }
        if !self.begin_long(now_ns) {
            return Step::IdleUntil(None);
        }
        if self.done == self.calls.len() {
            drop_guarded(&mut self.calls); // refused and panicked calls still own the user's values
            self.done = 0;
            let is_open = self.input.drain(&mut self.calls) || self.long.are_open();
            if self.calls.is_empty() && !self.long.are_active() {
                // Refusals of this step have to leave first.
                let is_over = !is_open && self.hand_on();
                return if is_over { self.end() } else { Step::IdleUntil(None) };
            }
        }
        let has_run = self.run_calls_waiting(now_ns);
        let has_sliced = self.run_slice(now_ns);
        self.hand_on();
        match has_run || has_sliced {
            true => Step::Progress,
            false => self.idle(),
        }
    }

    fn retire(self: Box<Self>) {
        *self.retired.lock() = Some(self.executor);
    }

    fn worked(&self, ns: u64) {
        self.shared.counters.worked(StageKind::Execution, ns);
    }
}
