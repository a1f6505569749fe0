//! The logging stage: groups, flushes, and the answers that wait for them (TPK-10, TPK-11).
//!
//! ```text
//!            a batch arrives              due(): room, timer, size, sync, end
//!   sealed ────────────────► gathering ─────────────────────────► flushing ──► released
//!     ▲                        │   ▲                                 │            │
//!     │                        │   └─ the log has no room ───────────┤            │
//!     └── seal(): idle for seal_ms_max ◄─────────────────────────────┼────────────┘
//!                                                                    └─ failed ──► poisoned
//! ```
//!
//! *gathering*: batches executed, in order, not durable, not answered. *released*: the group is
//! durable, its position published, its answers posted. *poisoned*: a write or a sync failed; the content
//! of the disk is unknown, so nothing is acknowledged from then on, and nothing is retried.
//!
//! A group is flushed by `transactions_per_group` or `time_per_group`, whichever comes first. With
//! `auto` it is flushed as soon as the device is free and the callers that were just answered have called again,
//! provided that they do so in less time than a flush takes (`policy/caller_turnaround.rs`). If no caller waits
//! for a group (all its calls are `async`) it is flushed after half of `async_loss_ms_max`, which leaves the
//! other half for the flush itself.
//!
//! Not here: the format of a group on disk (storage), the choice of answers that wait (`executor.rs`).
//! Invariants: one sync per flush; no answer is posted before the sync that covers its position has
//! returned; batches are appended in the order they ran.

use std::sync::Arc;

use tombolo_storage::plant::{self, Plant};
use tombolo_storage::sync::Mutex;
use tombolo_storage::value_log::GroupNumber;

use crate::clock::Clock;
use crate::pipeline::checkpoint::CheckpointSender;
use crate::pipeline::log::common::{InCommon, NO_EPOCH, Together};
use crate::pipeline::log::{GroupLog, GroupLogError, Records, unreserved};
use crate::pipeline::policy::{CallerTurnaround, GroupPolicy};
use crate::pipeline::stage::{Stage, StageKind, Step};
use crate::pipeline::stages::archive::ArchiveState;
use crate::pipeline::stages::batch::LogBatch;
use crate::pipeline::stages::group::Group;
use crate::pipeline::stages::output::Outbox;
use crate::pipeline::state::{Flush, Shared, add, add_alone};
use crate::pipeline::transport::{Pool, Queue, Refusal, Reply, Signal};

/// The time after which a group that found no room looks again, even if no room was made.
const ROOM_RETRY_NS: u64 = 1_000_000;

/// Called for every flush, before any answer that waited for it leaves.
pub type FlushObserver = Box<dyn FnMut(Flush) + Send>;

/// The parts of the logging stage.
pub(crate) struct Parts<A, B> {
    pub(crate) queue: Arc<Queue<LogBatch<A, B>>>,
    pub(crate) log: Box<dyn GroupLog>,
    /// Receives the log at the end.
    pub(crate) retired: Arc<Mutex<Option<Box<dyn GroupLog>>>>,
    pub(crate) outbox: Outbox<A>,
    pub(crate) buffers: Arc<Pool<B>>,
    pub(crate) shared: Arc<Shared<A>>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) policy: GroupPolicy,
    /// Transactions at which a group is flushed regardless of the policy: as many as fit into a queue.
    pub(crate) transactions_max: u64,
    pub(crate) observer: Option<FlushObserver>,
    /// Woken when room is wanted.
    pub(crate) room_stage: Option<Arc<Signal>>,
    /// Receives the records of durable groups, if checkpoints are written.
    pub(crate) to_checkpoint: Option<CheckpointSender<B>>,
    /// Receives the positions of durable groups, if the log is archived.
    pub(crate) to_archive: Option<Arc<ArchiveState>>,
    /// Present if there are transactions over several pipelines whose logs become durable together.
    pub(crate) in_common: Option<InCommon>,
}

/// The logging stage.
pub(crate) struct Logging<A, B> {
    parts: Parts<A, B>,
    /// The batches taken from the queue; empty between steps.
    arrived: Vec<LogBatch<A, B>>,
    /// Those behind the group, which has all that it can have.
    later: Vec<LogBatch<A, B>>,
    group: Group<A, B>,
    group_bytes_max: u64,
    /// Charges of all groups that were flushed.
    charged: u64,
    is_sealed: bool,
    has_ended: bool,
    last_flush_ns: u64,
    turnaround: CallerTurnaround,
    /// Set while a group has no room.
    stall: Option<Stall>,
    /// Set while the group is flushed and waits for other logs: how long the flush took.
    awaits_ns: Option<u64>,
    /// The last group that is known to be archived.
    archived: GroupNumber,
}

/// The state of a group that waits for room.
#[derive(Clone, Copy, Debug)]
struct Stall {
    /// The time at which it looks again in any case.
    until_ns: u64,
    /// The room that was too little: with more it looks immediately.
    room_bytes: u64,
}

impl<A, B: Records> Logging<A, B> {
    pub(crate) fn new(parts: Parts<A, B>) -> Self {
        let group_bytes_max = parts.log.group_bytes_max();
        assert!(group_bytes_max > 0, "a group has room for records");
        Self {
            parts,
            arrived: Vec::new(),
            later: Vec::new(),
            group: Group::new(),
            group_bytes_max,
            charged: 0,
            is_sealed: true,
            has_ended: false,
            last_flush_ns: 0,
            turnaround: CallerTurnaround::default(),
            stall: None,
            awaits_ns: None,
            archived: 0,
        }
    }

    /// Moves arrived batches into the group; returns whether more may come.
    fn gather(&mut self) -> bool {
        // While a group has no room, or waits for other logs, later batches wait in the queue, which is bounded.
        if self.stall.is_some() || self.awaits_ns.is_some() || !self.later.is_empty() {
            return self.parts.queue.is_open();
        }
        let is_open = self.parts.queue.drain(&mut self.arrived);
        self.add_arrived();
        is_open
    }

    /// Adds the batches that have arrived to the group, as far as it admits them.
    fn add_arrived(&mut self) {
        let is_well = self.parts.shared.poison().is_none();
        let mut arrived = self.arrived.drain(..);
        while let Some(batch) = arrived.next() {
            if !self.group.admits(&batch) {
                self.later.push(batch);
                self.later.extend(arrived);
                return;
            }
            // It logged nothing, and everything logged before it is durable: nothing to wait for.
            // A caller that waits for the position notices that itself, or has been woken.
            if is_well && batch.records.bytes().is_empty() && self.group.bytes == 0 {
                self.charged += batch.charge;
                self.parts.outbox.post(batch.answers);
            } else {
                self.turnaround.ran(batch.waiting(), batch.ended_ns);
                self.group.add(batch);
            }
        }
    }

    /// Closes the group: what transactions over several pipelines follow are of a later epoch.
    fn close_group(&mut self) {
        let epoch = self.group.epoch;
        let Some(in_common) = self.parts.in_common.as_ref().filter(|_| epoch != NO_EPOCH) else {
            return;
        };
        let is_complete = !self.later.is_empty();
        let (queue, arrived) = (&self.parts.queue, &mut self.arrived);
        in_common.close(epoch, || is_complete || queue.drain(arrived));
        self.add_arrived();
    }

    /// Writes and syncs the group. `Ok(false)`: there is no room; batches already written are remembered.
    fn write(&mut self) -> Result<bool, String> {
        self.parts.log.set_time(self.parts.clock.unix_us());
        let Group { records, written, .. } = &mut self.group;
        if plant::is(Plant::SwappedGroups) && *written == 0 && records.len() > 1 {
            records.swap(0, 1);
        }
        while *written < records.len() {
            let mut bytes = 0;
            let fitting = records[*written..].iter().take_while(|records| {
                bytes += records.bytes().len() as u64;
                bytes <= self.group_bytes_max
            });
            // A single batch is never too large: the execution stage ensures that.
            let end = *written + fitting.count().max(1);
            let group = &records[*written..end];
            let transactions = group.iter().map(Records::transactions).sum();
            let many: Vec<&[u8]>;
            let bytes = match group {
                [lone] => &[lone.bytes()][..],
                group => {
                    many = group.iter().map(Records::bytes).collect();
                    &many
                }
            };
            if bytes.iter().any(|bytes| !bytes.is_empty()) {
                match self.parts.log.append(bytes, transactions) {
                    Ok(()) => add_alone(&self.parts.shared.counters.groups, 1),
                    Err(GroupLogError::Full) => return Ok(false),
                    Err(GroupLogError::Failed(reason)) => return Err(reason),
                }
            }
            *written = end;
        }
        if plant::is(Plant::AnswerBeforeFsync) && std::mem::take(&mut self.is_sealed) {
            return Ok(true); // the first group after a seal is answered without one
        }
        match self.parts.log.sync() {
            Ok(()) => Ok(true),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Makes the group durable and releases its answers, or poisons the log, or finds no room. The flush
    /// began with the step.
    fn flush(&mut self, start_ns: u64, is_open: bool) {
        if self.stall.is_none() {
            self.close_group();
        }
        let late = if plant::is(Plant::ReleasedEarly) { self.group.split_last() } else { None };
        let written = self.write();
        let end_ns = self.parts.clock.now_ns();
        self.stall = None;
        match written {
            Ok(true) if self.waits_for_others(end_ns - start_ns) => {}
            Ok(true) => {
                self.release(end_ns, end_ns - start_ns);
                if let Some(late) = late {
                    self.group.add(late);
                }
            }
            Ok(false) if is_open => {
                add(&self.parts.shared.counters.stalls, 1);
                let room_bytes = self.parts.log.room().bytes;
                self.stall = Some(Stall { until_ns: end_ns + ROOM_RETRY_NS, room_bytes });
            }
            Ok(false) => self.fail("the log was closed without room for its last group"),
            Err(reason) => self.fail(&reason),
        }
    }

    /// Whether the group, which is flushed, waits for other logs: then it is not durable yet.
    fn waits_for_others(&mut self, flush_ns: u64) -> bool {
        if self.group.epoch == NO_EPOCH {
            return false;
        }
        self.shared_flushed();
        let together = self.parts.in_common.as_ref().map(|own| own.flushed(self.group.epoch));
        self.awaits_ns = (together != Some(Together::Durable)).then_some(flush_ns);
        self.awaits_ns.is_some()
    }

    /// Releases the group if it waited for other logs, and they have flushed what it depends on. Returns whether
    /// it did anything.
    pub(crate) fn look_at_others(&mut self, now_ns: u64) -> bool {
        let (Some(flush_ns), Some(in_common)) = (self.awaits_ns, &self.parts.in_common) else {
            return false;
        };
        match in_common.look() {
            Together::Waits => return false,
            Together::Durable => {
                self.awaits_ns = None;
                self.release(now_ns, flush_ns);
            }
            Together::Never(reason) => self.fail(&reason),
        }
        self.publish_room();
        true
    }

    /// Whether there is something to be flushed.
    pub(crate) fn has_more(&self) -> bool {
        self.awaits_ns.is_none()
            && (!self.group.is_empty() || !self.parts.queue.is_open_and_empty())
    }

    /// Its log among others.
    pub(crate) const fn in_common(&self) -> Option<&InCommon> {
        self.parts.in_common.as_ref()
    }

    /// Notes the newest group that is flushed.
    fn shared_flushed(&mut self) {
        if let Some(position) = self.parts.log.position() {
            self.parts.shared.set_flushed_group(position.group);
        }
    }

    /// Posts the answers that wait for the group.
    fn post_answers(&mut self) {
        let answers = self.group.answers.drain(..);
        answers.for_each(|answers| self.parts.outbox.post(answers));
    }

    /// Releases the answers of the group, which is durable.
    fn release(&mut self, now_ns: u64, flush_ns: u64) {
        self.turnaround.released(now_ns, self.group.waiting, self.group.bytes, flush_ns);
        // First: a checkpoint or a backup requested after an answer must contain the answered transaction.
        if let Some(position) = self.parts.log.position() {
            self.parts.shared.set_flushed_group(position.group);
            self.parts.shared.set_durable_group(position.group);
        }
        // Before any answer leaves, so that a caller with an answer finds it counted.
        let (group, counters) = (&self.group, &self.parts.shared.counters);
        let flush = Flush { transactions: group.transactions, bytes: group.bytes, ns: flush_ns };
        counters.flushed(flush);
        if let Some(observer) = &mut self.parts.observer {
            observer(flush);
        }
        self.pass_records_on();
        if let Some(to_archive) = &self.parts.to_archive {
            to_archive.left_behind(self.parts.log.left_behind());
        }
        // For the same reason: a caller that reads what was just acknowledged gets it as durable.
        self.parts.shared.set_durable(self.group.position);
        self.post_answers();
        let (group, shared) = (&mut self.group, &self.parts.shared);
        shared.waiters.wake_up_to(group.position);
        self.charged += group.charges;
        group.reset();
        self.is_sealed = false;
        self.last_flush_ns = now_ns;
        std::mem::swap(&mut self.arrived, &mut self.later);
        self.add_arrived();
    }

    /// Passes the group's durable records to the checkpoint stage, or discards them.
    fn pass_records_on(&mut self) {
        let Self { parts: Parts { log, to_checkpoint, buffers, .. }, group, .. } = self;
        match to_checkpoint {
            Some(to_checkpoint) => to_checkpoint.hand_on(log.position(), &mut group.records),
            None => group.records.drain(..).for_each(|records| buffers.give_records(records)),
        }
    }

    /// Releases segments that a checkpoint has made redundant and that are archived, if there is an archive.
    fn release_log(&mut self) {
        let Parts { log, to_checkpoint, to_archive, .. } = &mut self.parts;
        if let Some(archived) = to_archive.as_ref().map(|archive| archive.archived())
            && archived > self.archived
        {
            self.archived = archived;
            log.keep_from(archived + 1);
        }
        if let Some(group) = to_checkpoint.as_mut().and_then(CheckpointSender::newly_releasable) {
            log.release_before(group);
        }
    }

    /// Ends all acknowledgements: every waiting answer, and every later one, gets the reason.
    #[cold]
    fn fail(&mut self, reason: &str) {
        let reason = self.parts.shared.set_poison(reason);
        self.awaits_ns = None;
        if let Some(in_common) = &self.parts.in_common {
            in_common.fail(&reason);
        }
        std::mem::swap(&mut self.arrived, &mut self.later);
        self.group.epoch = NO_EPOCH;
        self.arrived.drain(..).for_each(|batch| self.group.add(batch));
        if plant::is(Plant::ReleasedAfterFailure) {
            self.post_answers();
        }
        for mut answers in self.group.answers.drain(..) {
            for answered in &mut answers {
                answered.reply = Reply::Refused(Refusal::Unknown(reason.clone()));
            }
            self.parts.outbox.post(answers);
        }
        self.group.records.clear();
        self.group.reset();
        self.parts.shared.waiters.wake_up_to(u64::MAX);
        self.stall = None;
        if let Some(to_checkpoint) = &self.parts.to_checkpoint {
            to_checkpoint.state.fail(&reason);
        }
        if self.parts.shared.room.end_wait() {
            self.parts.queue.wake_producers();
        }
    }

    /// Writes the empty group after the last one.
    fn seal(&mut self) {
        self.is_sealed = true;
        self.parts.log.set_time(self.parts.clock.unix_us());
        match self.parts.log.seal() {
            Ok(()) => add(&self.parts.shared.counters.seals, 1),
            // The last group stays unsealed; the next flush finds room or reports that there is none.
            Err(GroupLogError::Full) => {}
            Err(GroupLogError::Failed(reason)) => self.fail(&reason),
        }
    }

    /// Ends the stage: no more batches will come and none are left.
    fn end(&mut self) -> Step {
        if !self.has_ended {
            self.has_ended = true;
            if !self.is_sealed && self.parts.shared.poison().is_none() {
                self.seal();
            }
            if let Some(to_checkpoint) = &self.parts.to_checkpoint {
                let end = self.parts.log.position();
                to_checkpoint.close(end.filter(|_| self.parts.shared.poison().is_none()));
            }
            if let Some(to_archive) = &self.parts.to_archive {
                to_archive.close();
            }
        }
        if !self.parts.outbox.send() {
            return Step::IdleUntil(None);
        }
        self.parts.outbox.close();
        Step::Ended
    }

    /// The end of the group's wait for room, if there is still no more room than it found.
    fn waits_for_room_until(&mut self, now_ns: u64) -> Option<u64> {
        let Stall { until_ns, room_bytes } = self.stall?;
        let waits = now_ns < until_ns && self.parts.log.room().bytes <= room_bytes;
        waits.then_some(until_ns)
    }

    /// The time of the next work even if nothing arrives.
    pub(crate) fn timer_ns(&mut self) -> Option<u64> {
        if self.awaits_ns.is_some() {
            return None;
        }
        let until_ns = if self.group.is_empty() { None } else { self.turnaround.wait_until() };
        match self.idle(until_ns) {
            Step::IdleUntil(until_ns) => until_ns,
            Step::Progress | Step::Ended => unreachable!("it is idle"),
        }
    }

    /// The step's result while no flush is due.
    fn idle(&self, until_ns: Option<u64>) -> Step {
        let seal_ns = (!self.is_sealed)
            .then(|| self.last_flush_ns.saturating_add(self.parts.policy.seal_ns_max));
        let deadline_ns = || self.group.deadline_ns(&self.parts.policy, until_ns);
        let flush_ns = (!self.group.is_empty()).then(deadline_ns);
        Step::IdleUntil(flush_ns.or(seal_ns))
    }

    /// Publishes the available room to the execution stage.
    fn publish_room(&mut self) {
        let wanted = self.parts.shared.room.wanted();
        let room = unreserved(&mut *self.parts.log, wanted);
        // A group that waits because the log is full releases no charges.
        let accounted = if self.stall.is_some() { u64::MAX } else { self.charged };
        if self.parts.shared.room.publish(room, self.charged, accounted) {
            self.parts.queue.wake_producers();
        }
        if let Some(to_checkpoint) = &self.parts.to_checkpoint {
            to_checkpoint.state.set_log_is_short(room.is_all && room.more_is_wanted);
        }
        if let Some(room_stage) = self.parts.room_stage.as_ref().filter(|_| room.more_is_wanted) {
            room_stage.wake();
        }
    }
}

impl<A: Send + 'static, B: Records> Stage for Logging<A, B> {
    fn kind(&self) -> StageKind {
        StageKind::Logging
    }

    fn step(&mut self, now_ns: u64) -> Step {
        if !self.parts.outbox.send() {
            return Step::IdleUntil(None);
        }
        self.release_log();
        let is_open = self.gather();
        if let Some(reason) = self.parts.shared.poison().cloned() {
            self.fail(&reason);
            return if is_open { Step::IdleUntil(None) } else { self.end() };
        }
        if self.look_at_others(now_ns) {
            return Step::Progress;
        }
        if self.awaits_ns.is_some() {
            return Step::IdleUntil(None);
        }
        if let Some(until_ns) = self.waits_for_room_until(now_ns).filter(|_| is_open) {
            return Step::IdleUntil(Some(until_ns));
        }
        let is_large = self.group.bytes >= self.group_bytes_max
            || self.group.transactions >= self.parts.transactions_max;
        // No more batches come while the execution stage waits for the room that a flush frees.
        let is_full =
            is_large || !self.later.is_empty() || self.parts.shared.room.wanted().is_some();
        let was_due = self.stall.is_some();
        let until_ns = self.turnaround.wait_until();
        let is_due = is_full
            || was_due
            || !is_open
            || self.group.is_due(now_ns, &self.parts.policy, until_ns);
        if !self.group.is_empty() && is_due {
            self.flush(now_ns, is_open);
            self.publish_room();
            return Step::Progress;
        }
        self.publish_room();
        if !is_open {
            return self.end();
        }
        let seal_ns = self.last_flush_ns.saturating_add(self.parts.policy.seal_ns_max);
        if self.group.is_empty() && !self.is_sealed && now_ns >= seal_ns {
            self.seal();
            return Step::Progress;
        }
        self.idle(until_ns)
    }

    fn retire(self: Box<Self>) {
        *self.parts.retired.lock() = Some(self.parts.log);
    }

    fn worked(&self, ns: u64) {
        self.parts.shared.counters.worked(StageKind::Logging, ns);
    }
}
