//! The checkpoint stage: installs durable groups into DB′ and writes its blocks, so that the log can go
//! (TPK-14 … TPK-19, TPK-22, TPK-25).
//!
//! ```text
//!   logging ──records of a flush──► [handover] ──► install ──► DB′ ──► a batch of blocks ──► image
//!      ▲                                ▲             │                      │
//!      │                                │ behind:     └─ buffers to the pool │
//!      │                                └─ read from the log's files         │
//!      └──────────── the log may go before this group ◄── all parts done ◄───┘
//! ```
//!
//! A step installs what has arrived, a megabyte of it, and then prepares one batch of blocks, so
//! neither waits for long for the other. A second stage writes the batches (`writing.rs`): it waits for
//! the disk, so each part of DB′ has two threads of its own; nothing on the path of a transaction waits
//! for them. While the log is flushed, too, the device is left alone for a part of the time (setting
//! `checkpoint_device_percent`), unless the log runs short of room.
//!
//! When the pipeline closes, a last checkpoint is written, if anything was logged since the last one:
//! the next process then has nothing to replay.
//!
//! Not here: when a checkpoint begins and what all parts agree on (`course.rs`), what passes from
//! logging (`handover.rs`), DB′ and blocks (storage `memory/image/`). Invariants: only durable groups
//! are installed, in order; the buffers of an installment go back when all parts have it; a failure
//! here is never the database's.

mod apart;
mod arrivals;
mod course;
mod demands;
mod handover;
mod hold;
mod writing;

use std::sync::Arc;

use tombolo_storage::memory::image::{CheckpointPart, ImageFailure, Step as Wrote};
use tombolo_storage::value_log::{GroupNumber, LogFailure, LogPosition, LogReader, LogSettings};

use arrivals::Arrivals;

pub(super) use apart::wire_apart;
pub use apart::{CheckpointProcess, CheckpointsApart, run_checkpoint_process};
pub use course::CheckpointStatistics;
pub(super) use course::Course;
use course::{RETRY_NS, Turn, View};
pub use demands::{CheckpointHandle, CheckpointRefusal};
use handover::{Handover, Installment};
pub use hold::CheckpointHold;
use writing::{Exchange, Writing};

use super::log::{GroupLog, Records};
use super::pool::Pool;
use super::shared::Shared;
use super::signal::Signal;
use super::statistics::{add, get};
use super::{Stage, StageKind, Step};
use crate::checkpointing::Checkpointing;
use crate::clock::Clock;

/// Bytes of records installed in a step, if there are more: as many as a block has, so that neither
/// installing nor writing waits for long.
const INSTALL_BYTES: usize = 1 << 20;

/// Records of a flush that are copied have at most so many bytes: to copy more costs more than what it
/// spares.
const COPIED_BYTES_MAX: u64 = 16 << 10;

/// When checkpoints are written, and what they may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckpointPolicy {
    /// Bytes of the log's files after which the next one begins.
    pub log_bytes: u64,
    /// How much of the device's time blocks may take while groups are flushed, in percent.
    pub device_percent: u64,
    /// Bytes of buffers that wait for a part; beyond, it reads the log.
    pub queue_bytes_max: u64,
    /// Whether closing writes one, if anything was logged since the last.
    pub at_close: bool,
}

/// What logging hands records on with.
pub(super) struct ToCheckpoint<B> {
    pub(super) course: Arc<Course>,
    handovers: Vec<Arc<Handover<B>>>,
    exchanges: Vec<Arc<Exchange>>,
    buffers: Arc<Pool<B>>,
    vectors: Arc<Pool<Vec<B>>>,
    /// The log's, if its files are read back.
    settings: Option<LogSettings>,
    /// Records of a flush are copied if they have no more bytes.
    copied_bytes_max: u64,
    /// Before which group the log was released, 0 before the first release: a former process may have kept log
    /// that its archive lacked then, though a checkpoint made it needless.
    released: GroupNumber,
    /// Whether all before the next flush was handed on.
    is_gapless: bool,
}

impl<B: Records> ToCheckpoint<B> {
    /// Hands on what a flush made durable, which ends at `position`; `records` is empty afterwards.
    pub(super) fn hand_on(&mut self, position: Option<LogPosition>, records: &mut Vec<B>) {
        let record_bytes = records.iter().map(|records| records.bytes().len() as u64).sum();
        let is_for_stages = record_bytes > 0 && self.course.failure().is_none();
        let Some(position) = position.filter(|_| is_for_stages) else {
            return records.drain(..).for_each(|records| self.buffers.give_records(records));
        };
        let settings = self.settings.as_ref();
        let file_bytes =
            settings.map_or(record_bytes, |settings| settings.group_bytes(record_bytes));
        if record_bytes <= self.copied_bytes_max && self.is_gapless {
            for handover in &self.handovers {
                handover.put_copy(position, records, file_bytes);
            }
            return records.drain(..).for_each(|records| self.buffers.give_records(records));
        }
        let bytes = records.iter().map(|records| records.memory_bytes() as u64).sum();
        let records = std::mem::replace(records, self.vectors.take());
        let installment = Arc::new(Installment::new(position, records, file_bytes));
        for handover in &self.handovers {
            match self.is_gapless {
                true => handover.put(&installment, bytes),
                false => handover.put_position(position),
            }
        }
        self.is_gapless = true;
        handover::give_back(installment, &self.buffers, &self.vectors);
    }

    /// The log is durable up to `position`, and its records are read from its files.
    fn put_position(&mut self, position: LogPosition) {
        self.handovers.iter().for_each(|handover| handover.put_position(position));
        self.is_gapless = true;
    }

    /// The ends through which other code reaches the stages.
    pub(super) fn ways(&self) -> Ways<B> {
        let Self { course, handovers, exchanges, .. } = self;
        Ways {
            course: Arc::clone(course),
            handovers: handovers.clone(),
            exchanges: exchanges.clone(),
        }
    }

    /// Before which group the log may go, if that is news.
    pub(super) fn newly_releasable(&mut self) -> Option<GroupNumber> {
        let needed_from = self.course.needed_from();
        let is_news = needed_from > self.released;
        self.released = needed_from;
        is_news.then_some(needed_from)
    }

    /// The log ends at `position`, and what is behind all that was handed on is of no rows.
    fn put_end(&self, position: LogPosition) {
        let end = Arc::new(Installment::new(position, Vec::new(), 0));
        for handover in &self.handovers {
            match self.is_gapless {
                true => handover.put(&end, 0),
                false => handover.put_position(position),
            }
        }
    }

    /// Nothing more comes; the log ends at `position`.
    pub(super) fn close(&self, position: Option<LogPosition>) {
        if let Some(position) = position {
            self.put_end(position);
        }
        self.handovers.iter().for_each(|handover| handover.close());
    }
}

/// The course of checkpoints, and the ways to their stages.
pub(super) struct Ways<B> {
    pub(super) course: Arc<Course>,
    handovers: Vec<Arc<Handover<B>>>,
    exchanges: Vec<Arc<Exchange>>,
}

impl<B: Records> Ways<B> {
    /// A stage broke down, and nothing more comes.
    pub(super) fn close_broken(&self, reason: &str) {
        self.course.fail(reason);
        self.handovers.iter().for_each(|handover| handover.close());
        self.exchanges.iter().for_each(|exchange| exchange.close());
    }
}

/// The log as the stages see it: where it ends, and readers of it.
pub(super) struct LogEnd<'a> {
    pub(super) position: Option<LogPosition>,
    pub(super) reader: &'a dyn Fn() -> Option<LogReader>,
}

impl<'a> LogEnd<'a> {
    /// Of a log that is written in this process; `reader` makes one of it.
    pub(super) fn of(log: &dyn GroupLog, reader: &'a dyn Fn() -> Option<LogReader>) -> Self {
        Self { position: log.position(), reader }
    }
}

/// What the checkpoint stages of a pipeline share.
pub(super) struct Shares<'a, A, B> {
    pub(super) shared: &'a Arc<Shared<A>>,
    pub(super) buffers: &'a Arc<Pool<B>>,
    pub(super) clock: &'a Arc<dyn Clock>,
    pub(super) policy: CheckpointPolicy,
    /// The threads of the stages that prepare, of those that write, and the logging stage's.
    pub(super) preparing: Vec<Arc<Signal>>,
    pub(super) writing: Vec<Arc<Signal>>,
    pub(super) logging: Arc<Signal>,
}

/// What is wired, whichever process writes the image: the logging stage's end, and the stages: those that prepare,
/// then those that write.
pub(super) type Wired<B> = (ToCheckpoint<B>, Vec<Box<dyn Stage>>);

/// The stages of a database's checkpoints; `behind_bytes` of log are behind the image.
pub(super) fn wire<A: Send + 'static, B: Records>(
    checkpointing: Checkpointing,
    behind_bytes: u64,
    log: &LogEnd<'_>,
    of: &Shares<'_, A, B>,
) -> Wired<B> {
    let Checkpointing { checkpoints, parts } = checkpointing;
    let log_end = log.position;
    let course = Course::new(checkpoints, of.preparing.clone(), of.logging.clone());
    let (course, vectors) = (Arc::new(course), Arc::new(Pool::new()));
    let (mut handovers, mut exchanges) = (Vec::new(), Vec::new());
    let mut prepare: Vec<Box<dyn Stage>> = Vec::new();
    let mut write: Vec<Box<dyn Stage>> = Vec::new();
    for (number, part) in parts.into_iter().enumerate() {
        let (preparing, writing) = (of.preparing[number].clone(), of.writing[number].clone());
        let exchange = Arc::new(Exchange::new(preparing.clone(), writing));
        exchanges.push(Arc::clone(&exchange));
        let handover =
            Arc::new(Handover::new(of.policy.queue_bytes_max, of.policy.log_bytes, preparing));
        // What was loaded past the pipeline is in the log only.
        if let Some(end) = log_end.filter(|end| end.group > part.position().group) {
            handover.put_position(end);
        }
        handovers.push(Arc::clone(&handover));
        write.push(Box::new(Writing {
            exchange: Arc::clone(&exchange),
            shared: Arc::clone(of.shared),
            clock: Arc::clone(of.clock),
        }));
        prepare.push(Box::new(Checkpoint {
            number,
            // What is read back is counted then.
            installed_bytes: if part.wants_again() { 0 } else { behind_bytes },
            arrivals: Arrivals::new(
                handover,
                Arc::clone(&course),
                Arc::clone(of.buffers),
                Arc::clone(&vectors),
            ),
            exchange,
            asked_installed: 0,
            reader: (log.reader)().map(|mut reader| {
                if part.wants_again() {
                    reader.again(part.position());
                }
                reader
            }),
            course: Arc::clone(&course),
            shared: Arc::clone(of.shared),
            clock: Arc::clone(of.clock),
            policy: of.policy,
            part,
            covered_bytes: 0,
            handed_in_bytes: 0,
            pause_until_ns: 0,
            retry_at_ns: 0,
            flushes: 0,
        }));
    }
    prepare.append(&mut write);
    let is_gapless = log_end.is_some();
    let buffers = Arc::clone(of.buffers);
    let to_checkpoint = ToCheckpoint {
        course,
        handovers,
        exchanges,
        buffers,
        vectors,
        settings: (log.reader)().map(|reader| reader.settings()),
        copied_bytes_max: COPIED_BYTES_MAX,
        released: 0,
        is_gapless,
    };
    (to_checkpoint, prepare)
}

/// The checkpoint stage of one part of DB′: all but the writing.
pub(super) struct Checkpoint<A, B> {
    number: usize,
    part: CheckpointPart,
    /// What was handed over and is not installed.
    arrivals: Arrivals<B>,
    exchange: Arc<Exchange>,
    /// Demands that were made before all was handed over that is installed.
    asked_installed: u64,
    reader: Option<LogReader>,
    course: Arc<Course>,
    shared: Arc<Shared<A>>,
    clock: Arc<dyn Clock>,
    policy: CheckpointPolicy,
    /// Bytes of the log's files, of all parts: of what is installed, of what a checkpoint holds, and of
    /// what the next one does.
    installed_bytes: u64,
    covered_bytes: u64,
    handed_in_bytes: u64,
    /// Before this time no block is written, unless the log needs the room.
    pause_until_ns: u64,
    /// Before this time no block is written, because the disk was full.
    retry_at_ns: u64,
    /// Flushes when blocks were written last.
    flushes: u64,
}

/// Why reading the log back for a part failed.
enum Unread {
    Log(LogFailure),
    Image(ImageFailure),
}

impl From<LogFailure> for Unread {
    fn from(failure: LogFailure) -> Self {
        Self::Log(failure)
    }
}

impl<A, B: Records> Checkpoint<A, B> {
    /// Installs some of what has arrived, as far as there is room for it; whether there was anything.
    fn install(&mut self) -> Result<bool, String> {
        let had_any = !self.arrivals.is_caught_up() && self.part.has_room();
        let mut bytes = 0;
        while bytes < INSTALL_BYTES
            && self.part.has_room()
            && let Some(installment) = self.arrivals.front()
        {
            let position = installment.position;
            for records in installment.parts() {
                let installed = self.part.install(position, records);
                installed.map_err(|failure| failure.to_string())?;
                bytes += records.len();
            }
            self.installed_bytes += installment.file_bytes;
            self.arrivals.passed();
        }
        if let Some(to) = self.arrivals.to_read().filter(|_| self.part.has_room()) {
            self.read_back(to)?;
        }
        if self.arrivals.is_caught_up() {
            self.asked_installed = self.arrivals.asked;
        }
        Ok(had_any)
    }

    /// Installs some of what was not kept in memory, from the log's files.
    fn read_back(&mut self, to: LogPosition) -> Result<(), String> {
        let Self { reader, part, installed_bytes, .. } = self;
        let reader = reader.as_mut().ok_or("this log cannot be read back for a checkpoint")?;
        let (from, settings) = (part.position(), reader.settings());
        let mut bytes = 0;
        let bytes_max = part.room().min(INSTALL_BYTES as u64) as usize;
        let mut install = |position, records: &[u8]| {
            bytes += records.len();
            *installed_bytes += settings.group_bytes(records.len() as u64);
            part.install(position, records).map_err(Unread::Image)
        };
        let read = reader.read(from, to.group, bytes_max, &mut install);
        let reached = read.map_err(|unread| match unread {
            Unread::Log(failure) => format!("the log cannot be read for a checkpoint: {failure}"),
            Unread::Image(failure) => failure.to_string(),
        })?;
        if reached.group >= to.group {
            self.arrivals.behind = None;
        }
        add(&self.course.counts.read_back_bytes, bytes as u64);
        Ok(())
    }

    fn view(&self, now_ns: u64) -> View {
        let (is_caught_up, is_full) = (self.arrivals.is_caught_up(), !self.part.has_room());
        let news = self.installed_bytes - self.covered_bytes;
        let is_cut_short = is_full && self.arrivals.will_be_closed();
        View {
            now_ns,
            is_caught_up: is_caught_up || is_full,
            asked: self.asked_installed,
            has_news: news > 0,
            // A pipeline that closes without a checkpoint leaves what is not installed in the log.
            is_due: news >= self.policy.log_bytes
                || is_full && (self.policy.at_close || !is_cut_short),
            // A full disk is not waited for when nothing more comes, whatever is not installed.
            is_last: self.arrivals.is_closed && is_caught_up || is_cut_short,
            closes_with_one: self.policy.at_close,
        }
    }

    /// Does what the course of the checkpoints asks for.
    fn go_on(&mut self, now_ns: u64) -> Result<Step, String> {
        let view = self.view(now_ns);
        let Self { course, part, number, .. } = self;
        let turn = course.turn(*number, part, view).map_err(|failure| failure.to_string())?;
        Ok(match turn {
            Turn::Rest(until_ns) => Step::IdleUntil(until_ns),
            Turn::Progress => Step::Progress,
            Turn::HandedIn => {
                self.handed_in_bytes = self.installed_bytes;
                Step::Progress
            }
            Turn::Begun => {
                self.covered_bytes = self.handed_in_bytes;
                (self.pause_until_ns, self.retry_at_ns) = (0, 0);
                Step::Progress
            }
            Turn::Write => return self.write(view),
            Turn::Over => {
                self.exchange.close();
                Step::Ended
            }
        })
    }

    /// Notes what was written, prepares the next batch of blocks and has it written, unless it is too
    /// early for that.
    fn write(&mut self, view: View) -> Result<Step, String> {
        let waits = view.now_ns < self.retry_at_ns && !view.is_last;
        let prepared = self.take_back().and_then(|()| match waits {
            true => Ok(false),
            false => self.part.prepare(),
        });
        match prepared {
            Ok(_) if waits => return Ok(Step::IdleUntil(Some(self.retry_at_ns))),
            Ok(_) => {}
            Err(full) if full.is_full() => {
                self.course.part_found_it_full(view, &full);
                self.retry_at_ns = view.now_ns + RETRY_NS;
                return Ok(Step::Progress);
            }
            Err(failure) => return Err(failure.to_string()),
        }
        let is_urgent = view.is_last || self.course.log_is_short();
        if view.now_ns < self.pause_until_ns && !is_urgent {
            return Ok(Step::IdleUntil(Some(self.pause_until_ns)));
        }
        Ok(if let Some(batch) = self.part.next_batch() {
            self.exchange.put(batch);
            Step::Progress
        } else if let Some(completed) = self.part.completed() {
            self.course.is_done(self.number, completed);
            Step::Progress
        } else {
            Step::IdleUntil(None)
        })
    }

    /// Notes what was written, if anything was.
    fn take_back(&mut self) -> Result<(), ImageFailure> {
        let Some((written, ns)) = self.exchange.take_back() else { return Ok(()) };
        if let Wrote::Wrote { bytes, .. } = self.part.wrote(written)? {
            add(&self.course.counts.bytes, bytes);
            self.pause(ns);
        }
        Ok(())
    }

    /// After a batch that took so long: leaves the device to the log for a while, if that is flushed.
    fn pause(&mut self, batch_ns: u64) {
        let flushes = get(&self.shared.counters.flushes);
        let is_shared = std::mem::replace(&mut self.flushes, flushes) != flushes;
        let CheckpointPolicy { device_percent, .. } = self.policy;
        if !is_shared || device_percent >= 100 {
            return;
        }
        // Each of several parts has its part of the share.
        let parts = self.course.parts();
        let pause_ns = batch_ns * (100 * parts - device_percent) / device_percent;
        self.pause_until_ns = self.clock.now_ns() + pause_ns;
    }

    /// Nothing is installed or written any more; only the end is waited for.
    fn leave(&mut self) -> Step {
        self.exchange.close();
        self.arrivals.leave()
    }
}

impl<A: Send + 'static, B: Records> Stage for Checkpoint<A, B> {
    fn kind(&self) -> StageKind {
        StageKind::Checkpoint
    }

    fn step(&mut self, now_ns: u64) -> Step {
        if let Some(reason) = self.shared.poison() {
            self.course.fail(reason);
        }
        if self.course.failure().is_some() {
            return self.leave();
        }
        self.arrivals.take();
        let stepped = self.install().and_then(|has_installed| {
            self.course.counts.note_copy(self.number, self.part.memory_bytes());
            let step = self.go_on(now_ns)?;
            Ok(match step {
                Step::IdleUntil(_) if has_installed => Step::Progress,
                step => step,
            })
        });
        stepped.unwrap_or_else(|reason| {
            self.course.fail(&reason);
            Step::Progress
        })
    }

    fn retire(self: Box<Self>) {}

    fn worked(&self, ns: u64) {
        add(&self.shared.counters.busy_ns[4], ns);
    }
}
