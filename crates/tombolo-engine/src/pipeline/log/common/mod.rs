//! `CommonOrder`: the order of transactions over several pipelines, and the flushes that make them durable together.
//!
//! ```text
//!   put: epoch = the greatest of its logs ──► [queue of each log]
//!                                                  │ the log closes a group: its next epoch is a later one
//!                                               write, sync ──► flushed ──► have all others? ─ yes ─► durable
//!                                                                  ▲                │ no
//!                                                                  └─── waits ◄─────┘
//! ```
//!
//! A transaction over several pipelines has records in the log of each, and all of them or none must survive a crash.
//! So a group with such records counts as durable, in every respect, only when the groups of the other logs with the
//! rest of them are flushed as well. A recovery that finds a transaction in one log only cuts that log off before it
//! (`value_log/recover.rs` in storage): nothing behind the cut was ever reported.
//!
//! Groups depend on each other through every such transaction in them. Epochs keep these dependencies from growing
//! into a chain: a group has transactions of one epoch only, and once a log has closed a group, the transactions that
//! follow are of a later epoch in all their logs. So what a group depends on is of its own epoch, or of an earlier one.
//! The lowest epoch that is not flushed waits for no other, so no logs wait for each other in a circle.
//!
//! Not here: which thread writes a log (`stages/logging.rs`), the order of execution: a thread that puts a
//! transaction has the execution of all its pipelines. Invariant: the epochs of the transactions in a log ascend.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

use tombolo_storage::plant::{self, Plant};
use tombolo_storage::sync::{Mutex, MutexGuard};

/// The epoch of a batch that has no transaction over several pipelines.
pub(crate) const NO_EPOCH: u64 = 0;

/// Looks at a log because others have flushed, or wait until it does.
type Look = Box<dyn Fn() + Send + Sync>;

/// The order of transactions over several pipelines. See the file's head.
pub struct CommonOrder {
    logs: Mutex<Logs>,
    looks: Vec<OnceLock<Look>>,
}

impl std::fmt::Debug for CommonOrder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CommonOrder").field("logs", &self.logs.lock().all).finish_non_exhaustive()
    }
}

/// What is known of all logs.
struct Logs {
    all: Vec<Log>,
    /// Transactions that are put from now on are of this epoch or a later one: no flushed group waits for them.
    floor: u64,
}

/// A set of logs; those with equal numbers modulo 64 are in it together.
type Set = u64;

const fn set_of(log: usize) -> Set {
    1 << (log % Set::BITS as usize)
}

/// What is known of a log.
#[derive(Clone, Debug)]
struct Log {
    /// Of the next transaction, unless another log of it is further.
    epoch: u64,
    /// Its transactions that do not count as durable, by epoch.
    put: VecDeque<Put>,
    /// That of a group that is flushed and waits for other logs.
    waits: Option<u64>,
    /// Why it flushes nothing any more.
    failure: Option<Arc<str>>,
}

/// The transactions of an epoch in a log.
#[derive(Clone, Debug)]
struct Put {
    epoch: u64,
    /// The logs of these transactions.
    logs: Set,
    is_flushed: bool,
}

/// Whether a flushed group is durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Together {
    /// All that it depends on is flushed.
    Durable,
    /// It waits for other logs.
    Waits,
    /// Another log failed before, so a recovery may cut this one off.
    Never(Arc<str>),
}

impl CommonOrder {
    /// For so many pipelines, by their numbers.
    pub fn new(pipelines: usize) -> Self {
        let log = Log { epoch: 1, put: VecDeque::new(), waits: None, failure: None };
        let looks = (0..pipelines).map(|_| OnceLock::new()).collect();
        Self { logs: Mutex::new(Logs { all: vec![log; pipelines], floor: 1 }), looks }
    }

    /// Puts the records of a transaction into the queues of these logs; `put` gets its epoch.
    pub(crate) fn put<T>(
        &self,
        of: impl Iterator<Item = usize> + Clone,
        put: impl FnOnce(u64) -> T,
    ) -> T {
        let mut logs = self.logs.lock();
        let epochs = of.clone().map(|log| logs.all[log].epoch);
        let epoch = epochs.max().unwrap_or_default().max(logs.floor);
        let set = of.clone().fold(0, |set, log| set | set_of(log));
        for log in of {
            let log = &mut logs.all[log];
            log.epoch = epoch;
            match log.put.back_mut() {
                Some(last) if last.epoch == epoch => last.logs |= set,
                _ => log.put.push_back(Put { epoch, logs: set, is_flushed: false }),
            }
        }
        put(epoch)
    }

    /// A log closes a group of this epoch: `take` takes the last of what was put into its queue.
    fn close<T>(&self, log: usize, epoch: u64, take: impl FnOnce() -> T) -> T {
        let mut logs = self.logs.lock();
        let own = &mut logs.all[log];
        if !plant::is(Plant::EpochNotEnded) {
            own.epoch = own.epoch.max(epoch + 1);
        }
        take()
    }

    /// A log has flushed its group of this epoch. Looks at other logs that wait for that, and at those for which it
    /// waits.
    fn flushed(&self, log: usize, epoch: u64) -> Together {
        let mut logs = self.logs.lock();
        let own = &mut logs.all[log];
        own.put.iter_mut().filter(|put| put.epoch <= epoch).for_each(|put| put.is_flushed = true);
        own.waits = Some(epoch);
        let together = Self::together(&mut logs.all, log);
        let waits = together == Together::Waits;
        if waits {
            logs.floor = logs.floor.max(epoch + 1);
        }
        self.look_at(logs, |other, of| {
            other != log && (of.waits.is_some() || waits && of.is_behind(epoch))
        });
        together
    }

    /// Whether the group that a log has flushed is durable by now.
    fn look(&self, log: usize) -> Together {
        Self::together(&mut self.logs.lock().all, log)
    }

    fn together(logs: &mut [Log], log: usize) -> Together {
        let Some(epoch) = logs[log].waits else { return Together::Durable };
        let mut on = set_of(log);
        loop {
            let numbered = logs.iter().enumerate().filter(|(log, _)| on & set_of(*log) != 0);
            let more = numbered.fold(on, |on, (_, log)| on | log.logs_of(epoch));
            if more == on {
                break;
            }
            on = more;
        }
        let numbered = logs.iter().enumerate().filter(|(log, _)| on & set_of(*log) != 0);
        let behind = numbered.filter(|(_, log)| log.is_behind(epoch));
        let together = match behind.map(|(_, log)| &log.failure).max() {
            _ if plant::is(Plant::OneLogSuffices) => Together::Durable,
            None => Together::Durable,
            Some(Some(reason)) => Together::Never(reason.clone()),
            Some(None) => Together::Waits,
        };
        // A group that never will be is asked for again, also by logs that depend on it.
        if together == Together::Durable {
            let own = &mut logs[log];
            own.waits = None;
            own.put.retain(|put| put.epoch > epoch);
        }
        together
    }

    /// A log flushes nothing any more.
    fn fail(&self, log: usize, reason: &Arc<str>) {
        let mut logs = self.logs.lock();
        logs.all[log].failure.get_or_insert_with(|| reason.clone());
        self.look_at(logs, |other, of| other != log && of.waits.is_some());
    }

    /// Looks at these logs.
    fn look_at(&self, logs: MutexGuard<'_, Logs>, which: impl Fn(usize, &Log) -> bool) {
        let numbered = logs.all.iter().enumerate();
        let which = numbered.filter(|(log, of)| which(*log, of)).map(|(log, _)| log);
        let which: Vec<usize> = which.collect();
        drop(logs);
        which.iter().filter_map(|log| self.looks[*log].get()).for_each(|look| look());
    }
}

impl Log {
    /// Whether a transaction of this epoch or an earlier one is not flushed.
    fn is_behind(&self, epoch: u64) -> bool {
        self.put.iter().any(|put| put.epoch <= epoch && !put.is_flushed)
    }

    /// The logs of its transactions of this epoch or an earlier one.
    fn logs_of(&self, epoch: u64) -> Set {
        let earlier = self.put.iter().take_while(|put| put.epoch <= epoch);
        earlier.fold(0, |set, put| set | put.logs)
    }
}

/// A pipeline's log among others that have one order.
#[derive(Debug)]
pub struct InCommon {
    order: Arc<CommonOrder>,
    log: usize,
}

impl InCommon {
    /// The log of the pipeline of this number.
    pub const fn new(order: Arc<CommonOrder>, log: usize) -> Self {
        Self { order, log }
    }

    /// How others have this log looked at.
    pub(crate) fn looked_at_by(&self, look: impl Fn() + Send + Sync + 'static) {
        let is_first = self.order.looks[self.log].set(Box::new(look)).is_ok();
        assert!(is_first, "a pipeline is wired once");
    }

    pub(crate) fn close<T>(&self, epoch: u64, take: impl FnOnce() -> T) -> T {
        self.order.close(self.log, epoch, take)
    }

    pub(crate) fn flushed(&self, epoch: u64) -> Together {
        self.order.flushed(self.log, epoch)
    }

    pub(crate) fn look(&self) -> Together {
        self.order.look(self.log)
    }

    pub(crate) fn fail(&self, reason: &Arc<str>) {
        self.order.fail(self.log, reason);
    }
}

impl Drop for InCommon {
    /// The stage is gone: if it broke, what it has not flushed is not known.
    fn drop(&mut self) {
        self.order.fail(self.log, &"the log of another island has ended".into());
    }
}

#[cfg(not(loom))]
#[cfg(test)]
mod tests;
