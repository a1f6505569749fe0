//! A transaction that a caller's thread runs itself, on its own stack.
//!
//! The caller holds the execution stage and no call waits for it, so the order of calls is kept. The
//! transaction's records go to the logging stage like any batch. The result contains the position up to which
//! the log must be durable before the caller may report the outcome. In any unusual situation — calls wait, room
//! in the log is short, long work runs, the pipeline is closed — nothing runs here, and the call goes through
//! the queue.
//!
//! Not here: taking the stage and giving it back, waiting for the log (`callers/carrying/`).

use tombolo_storage::plant::{self, Plant};

use crate::pipeline::log::Records;
use crate::pipeline::stages::execution::Execution;
use crate::pipeline::stages::execution::log_sender::Waiting;
use crate::pipeline::stages::executor::Executor;
use crate::pipeline::state::{add_alone, get};
use crate::pipeline::transport::{Durability, Refusal};

/// The condition for reporting the outcome of a transaction that ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stands {
    /// Immediately: it is durable, with everything it read.
    Durable,
    /// Immediately: there is no log.
    Volatile,
    /// Immediately, as an outcome that a crash may lose.
    PreCommitted,
    /// When the log is durable up to this position.
    From(u64),
}

/// The outcome of a transaction that its caller's thread ran.
#[derive(Debug)]
pub enum Carried<T> {
    /// It ran.
    Ran {
        /// Its outcome.
        outcome: Result<T, Panicked>,
        /// The condition for reporting it.
        stands: Stands,
    },
    /// It did not run, for this reason.
    Refused(Refusal),
}

/// A transaction panicked, with this message.
#[derive(Debug, PartialEq, Eq)]
pub struct Panicked(pub Box<str>);

/// The terms of a call that its caller carries.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// When its answer may leave.
    pub durability: Durability,
    /// The most bytes it may log.
    pub log_bytes_max: u64,
}

/// Whose transaction it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Of {
    /// A caller's, which calls here again once it is answered.
    Caller,
    /// One over several pipelines. When it is durable here, its thread waits for the others: no flush waits for its
    /// next call.
    Several,
}

/// The reason that a transaction did not run.
#[derive(Debug)]
pub(crate) enum NotRun {
    /// It has to go through the queue.
    Queued,
    /// It is refused.
    Refused(Refusal),
}

impl<E: Executor> Execution<E> {
    /// Runs an admitted transaction on its caller's thread.
    #[inline(always)]
    pub(crate) fn run_carried<'e, T>(&'e mut self, run: impl FnOnce(&'e mut E) -> T) -> T {
        run(&mut self.executor)
    }

    /// Begins a transaction over several pipelines; returns how many of these ran in a row, with no call between.
    pub(crate) fn begin_for_several(&mut self) -> u32 {
        let counters = &self.shared.counters;
        let ended = get(&counters.carried_early) + get(&counters.carried_waiting);
        let (before, in_a_row) = self.for_several;
        let in_a_row = if ended == before { in_a_row.saturating_add(1) } else { 1 };
        self.for_several = (ended + 1, in_a_row); // it will have ended itself
        in_a_row
    }

    /// Ends a transaction that ran and logged `log_bytes`, or panicked and was undone by its guard
    /// (`transaction.rs`). Returns the condition for reporting its outcome.
    #[inline(always)]
    pub(crate) fn end_carried(&mut self, terms: Terms, log_bytes: Option<usize>, of: Of) -> Stands {
        if log_bytes.is_none() {
            add_alone(&self.shared.counters.failed, 1);
        }
        if self.log.is_some() {
            return self.end_logged(terms, log_bytes != Some(0), of);
        }
        add_alone(&self.shared.counters.carried_early, 1);
        Stands::Volatile
    }

    /// Ends a transaction over several pipelines of this epoch that logged so many bytes, in a logged database.
    pub(crate) fn end_in_common(&mut self, log_bytes: usize, epoch: u64) -> Stands {
        let Some(log) = &mut self.log else { unreachable!("it is logged") };
        let mut records = log.buffers.take();
        self.executor.take_log(&mut records);
        assert!(records.bytes().len() == log_bytes, "all that was logged is put");
        let waiting = Waiting {
            answers: Vec::new(),
            transactions: 1,
            waiting: 0,
            wants_sync: false,
            is_promised: false,
            is_wanted: true,
        };
        let mut batch = log.batch(records, waiting, self.clock.now_ns());
        batch.epoch = epoch;
        log.put(batch);
        add_alone(&self.shared.counters.carried_waiting, 1);
        Stands::From(log.position)
    }

    /// Whether a call's transaction may run now: not while each has to be timed, which the queue does.
    #[inline(always)]
    pub(crate) fn admit_call(&self, terms: Terms) -> Result<(), NotRun> {
        if self.watch.is_close() { Err(NotRun::Queued) } else { self.admit(terms) }
    }

    /// Whether a transaction may run now.
    #[inline(always)]
    pub(crate) fn admit(&self, terms: Terms) -> Result<(), NotRun> {
        let is_waited_for = self.done < self.calls.len() || !self.long.are_idle();
        if is_waited_for || !self.input.is_open_and_empty() {
            return Err(NotRun::Queued);
        }
        if let Some(reason) = self.shared.poison() {
            return Err(NotRun::Refused(Refusal::Poisoned(reason.clone())));
        }
        if let Some(log) = &self.log
            && (self.beginning.is_some()
                || log.held.is_some()
                || terms.log_bytes_max > log.fitting(self.shared.room.until()))
        {
            return Err(NotRun::Queued);
        }
        Ok(())
    }

    /// The position of the log behind a transaction that has logged so many bytes; 0 without a log.
    pub(crate) fn log_end(&self, log_bytes: usize) -> u64 {
        self.log.as_ref().map_or(0, |log| log.position + log_bytes as u64)
    }

    /// Passes on a transaction's records; returns the condition for reporting its outcome.
    fn end_logged(&mut self, terms: Terms, may_have_logged: bool, of: Of) -> Stands {
        let Some(log) = &mut self.log else { unreachable!("it is logged") };
        // The durable position can only have grown since the transaction ran, and nothing ran after it.
        let durable = match plant::is(Plant::ReadOnlyReleasedEarly) {
            true => log.position,
            false => self.shared.durable(),
        };
        let mut records = None;
        if may_have_logged {
            let taken = records.insert(log.buffers.take());
            self.executor.take_log(taken);
            debug_assert!(
                taken.bytes().len() as u64 <= terms.log_bytes_max,
                "a transaction logged more than its limit"
            );
        }
        let logged = records.as_ref().map_or(0, |records| records.bytes().len() as u64);
        let waits = log.position + logged > durable
            && (logged > 0 || !plant::is(Plant::CarriedReadNotWaiting));
        let is_early = waits && terms.durability == Durability::Async;
        if waits {
            let waiting = Waiting {
                answers: Vec::new(),
                transactions: 1,
                waiting: u64::from(!is_early && of == Of::Caller),
                wants_sync: terms.durability == Durability::Sync,
                is_promised: is_early,
                is_wanted: !is_early && of == Of::Several,
            };
            let records = records.unwrap_or_else(|| log.buffers.take());
            let batch = log.batch(records, waiting, self.clock.now_ns());
            log.offer(batch, true);
        } else if let Some(records) = records {
            log.buffers.give_records(records);
        }
        let counters = &self.shared.counters;
        if waits && !is_early {
            add_alone(&counters.carried_waiting, 1);
            return Stands::From(log.position);
        }
        add_alone(&counters.carried_early, 1);
        if is_early { Stands::PreCommitted } else { Stands::Durable }
    }

    /// Whether records were passed on since the last call without waking the logging stage's thread and, if so,
    /// whether a call waits for them.
    pub(crate) fn take_carried(&mut self) -> Option<bool> {
        self.log.as_mut()?.carried.take()
    }

    /// Sets whether a caller's thread steps it; that thread steps the log itself.
    pub(crate) fn set_carried(&mut self, is_carried: bool) {
        self.is_carried = is_carried;
    }
}
