//! The stage that installs durable groups into a part of DB′ and prepares batches of its blocks (TPK-15, TPK-17);
//! without DB′ it requests the blocks from the store (`fetching.rs`).
//!
//! Not here: writing a batch (`writing.rs`), when a checkpoint begins (`coordinator.rs`).

use std::sync::Arc;

use tombolo_storage::memory::image::{CheckpointPart, ImageFailure, Step as Wrote};
use tombolo_storage::value_log::{LogFailure, LogPosition, LogReader};

use super::arrivals::Arrivals;
use super::coordinator::{Coordinator, RETRY_NS, Turn, View};
use super::fetching::Fetching;
use super::state::CheckpointState;
use super::writing::Exchange;
use crate::clock::Clock;
use crate::pipeline::log::Records;
use crate::pipeline::policy::CheckpointPolicy;
use crate::pipeline::stage::{Stage, StageKind, Step};
use crate::pipeline::state::{Shared, add, get};

/// Bytes of records installed in a step, if there are more: as many as a block has, so that neither
/// installing nor writing waits for long.
const INSTALL_BYTES: usize = 1 << 20;

/// The checkpoint stage of one part of DB′: all but the writing.
pub(crate) struct Preparing<A, B> {
    pub(super) number: usize,
    pub(super) part: CheckpointPart,
    /// What was handed over and is not installed.
    pub(super) arrivals: Arrivals<B>,
    pub(super) exchange: Arc<Exchange>,
    /// What the part asks of the store's rows, without a second copy.
    pub(super) fetching: Fetching,
    /// Demands that were made before all was handed over that is installed.
    pub(super) asked_installed: u64,
    pub(super) reader: Option<LogReader>,
    pub(super) coordinator: Arc<Coordinator>,
    pub(super) state: Arc<CheckpointState>,
    pub(super) shared: Arc<Shared<A>>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) policy: CheckpointPolicy,
    /// Bytes of the log's files, of all parts: of what is installed, of what a checkpoint holds, and of
    /// what the next one does.
    pub(super) installed_bytes: u64,
    pub(super) covered_bytes: u64,
    pub(super) handed_in_bytes: u64,
    /// Before this time no block is written, unless the log needs the room.
    pub(super) pause_until_ns: u64,
    /// Before this time no block is written, because the disk was full.
    pub(super) retry_at_ns: u64,
    /// Flushes when blocks were written last.
    pub(super) flushes: u64,
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

impl<A, B: Records> Preparing<A, B> {
    /// Installs some of what has arrived; whether there was anything.
    fn install(&mut self) -> Result<bool, String> {
        let had_any = !self.arrivals.is_caught_up();
        let mut bytes = 0;
        while bytes < INSTALL_BYTES
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
        match self.arrivals.to_read() {
            Some(to) if self.part.installs() => self.read_back(to)?,
            Some(to) => self.pass(to)?,
            None => {}
        }
        if self.arrivals.is_caught_up() {
            self.asked_installed = self.arrivals.asked;
        }
        Ok(had_any)
    }

    /// Notes how far the log is durable, where there is nothing to install.
    fn pass(&mut self, to: LogPosition) -> Result<(), String> {
        self.part.install(to, &[]).map_err(|failure| failure.to_string())?;
        self.installed_bytes += std::mem::take(&mut self.arrivals.file_bytes);
        self.arrivals.behind = None;
        Ok(())
    }

    /// Installs some of what was not kept in memory, from the log's files.
    fn read_back(&mut self, to: LogPosition) -> Result<(), String> {
        let Self { reader, part, installed_bytes, .. } = self;
        let reader = reader.as_mut().ok_or("this log cannot be read back for a checkpoint")?;
        let (from, settings) = (part.position(), reader.settings());
        let mut bytes = 0;
        let mut install = |position, records: &[u8]| {
            bytes += records.len();
            *installed_bytes += settings.group_bytes(records.len() as u64);
            part.install(position, records).map_err(Unread::Image)
        };
        let read = reader.read(from, to.group, INSTALL_BYTES, &mut install);
        let reached = read.map_err(|unread| match unread {
            Unread::Log(failure) => format!("the log cannot be read for a checkpoint: {failure}"),
            Unread::Image(failure) => failure.to_string(),
        })?;
        if reached.group >= to.group {
            self.arrivals.behind = None;
        }
        add(&self.state.counts.read_back_bytes, bytes as u64);
        Ok(())
    }

    fn view(&self, now_ns: u64) -> View {
        let is_caught_up = self.arrivals.is_caught_up();
        let news = self.installed_bytes - self.covered_bytes;
        View {
            now_ns,
            is_caught_up,
            asked: self.asked_installed,
            has_news: news > 0,
            is_due: news >= self.policy.log_bytes,
            // A full disk is not waited for when nothing more comes.
            is_last: self.arrivals.is_closed && is_caught_up,
            closes_with_one: self.policy.at_close,
        }
    }

    /// Does what the coordinator asks for.
    fn take_turn(&mut self, now_ns: u64) -> Result<Step, String> {
        let view = self.view(now_ns);
        let Self { coordinator, part, number, .. } = self;
        let turn = coordinator.turn(*number, part, view).map_err(|failure| failure.to_string())?;
        Ok(match turn {
            Turn::Rest(until_ns) => Step::IdleUntil(until_ns),
            Turn::Progress => Step::Progress,
            Turn::Asked => {
                if !self.fetching.ask(&mut self.part)? {
                    return Ok(Step::IdleUntil(None));
                }
                // What comes meanwhile is the next one's.
                self.handed_in_bytes = self.installed_bytes;
                Step::Progress
            }
            Turn::HandedIn => {
                if self.part.installs() {
                    self.handed_in_bytes = self.installed_bytes;
                }
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
                self.coordinator.put_off_for_part(view, &full);
                self.retry_at_ns = view.now_ns + RETRY_NS;
                return Ok(Step::Progress);
            }
            Err(failure) => return Err(failure.to_string()),
        }
        let has_asked = self.fetching.ask(&mut self.part)?;
        let is_urgent = view.is_last || self.state.log_is_short();
        if view.now_ns < self.pause_until_ns && !is_urgent {
            return Ok(match has_asked {
                true => Step::Progress,
                false => Step::IdleUntil(Some(self.pause_until_ns)),
            });
        }
        Ok(if has_asked {
            Step::Progress
        } else if let Some(batch) = self.part.next_batch() {
            self.exchange.put(batch);
            Step::Progress
        } else if let Some(completed) = self.part.completed() {
            self.coordinator.finish_part(self.number, completed);
            Step::Progress
        } else {
            Step::IdleUntil(None)
        })
    }

    /// Notes what was written, if anything was.
    fn take_back(&mut self) -> Result<(), ImageFailure> {
        let Some((written, ns)) = self.exchange.take_back() else { return Ok(()) };
        if let Wrote::Wrote { bytes, .. } = self.part.wrote(written)? {
            add(&self.state.counts.bytes, bytes);
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
        let parts = self.state.parts();
        let pause_ns = batch_ns * (100 * parts - device_percent) / device_percent;
        self.pause_until_ns = self.clock.now_ns() + pause_ns;
    }

    /// Nothing is installed or written any more; only the end is waited for.
    fn leave(&mut self) -> Step {
        self.exchange.close();
        self.arrivals.leave()
    }
}

impl<A: Send + 'static, B: Records> Stage for Preparing<A, B> {
    fn kind(&self) -> StageKind {
        StageKind::Checkpoint
    }

    fn step(&mut self, now_ns: u64) -> Step {
        if let Some(reason) = self.shared.poison() {
            self.state.fail(reason);
        }
        if self.state.failure().is_some() {
            return self.leave();
        }
        self.arrivals.take();
        let stepped = self.install().and_then(|has_installed| {
            let Self { fetching, part, shared, arrivals, .. } = self;
            let until_ns = fetching.fetch(part, shared, arrivals.is_closed, now_ns)?;
            self.state.counts.note_copy(self.number, self.part.memory_bytes());
            let step = self.take_turn(now_ns)?;
            Ok(match step {
                Step::IdleUntil(_) if has_installed => Step::Progress,
                Step::IdleUntil(_) if until_ns.is_some_and(|ns| ns <= now_ns) => Step::Progress,
                Step::IdleUntil(other) => Step::IdleUntil(other.into_iter().chain(until_ns).min()),
                step => step,
            })
        });
        stepped.unwrap_or_else(|reason| {
            self.state.fail(&reason);
            Step::Progress
        })
    }

    fn worked(&self, ns: u64) {
        add(&self.shared.counters.busy_ns[4], ns);
    }
}
