//! `CheckpointProcess`: the work of the other process, in steps. It takes the image's lock, sends *Hello*, opens
//! image and log; then it passes received messages to the stages of `checkpoint/`, and reports their results.
//!
//! ```text
//!   locking ──► greeted ──Welcome──► working ──► over
//!      │           │       opened       │         ▲
//!      └───────────┴────────────────────┴─────────┘
//!             the link has ended, or it was asked to close
//! ```
//!
//! Not here: threads (`threads.rs`), the stages. Invariants: it sends nothing without the lock, and writes
//! nothing before the answer; when the link ends, a stage writes no more than its current batch.

use std::sync::Arc;

use tombolo_storage::disk::Disk;
use tombolo_storage::plant::{self, Plant};
use tombolo_storage::sync::Arc as StorageArc;
use tombolo_storage::value_log::{CheckpointLock, LogFailure};

use crate::clock::Clock;
use crate::link::Link;
use crate::pipeline::checkpoint::CheckpointSender;
use crate::pipeline::checkpoint::{LogEnd, Shares, wire};
use crate::pipeline::log::{Records, Room};
use crate::pipeline::remote_checkpoint::opening::{self, Opened};
use crate::pipeline::remote_checkpoint::protocol::{
    FromProcess, NO_MESSAGE, Report, ToProcess, VERSION, Welcome,
};
use crate::pipeline::stage::{Stage, Step};
use crate::pipeline::state::{Shared, add, get};
use crate::pipeline::transport::{Pool, Signal};

/// How often it tries to take the lock.
const LOCK_NS: u64 = 10_000_000;
/// How soon it looks at its stages again, for what there is to report.
const REPORT_NS: u64 = 2_000_000;
/// How often it says that it still opens the image.
const OPENING_NS: u64 = 1_000_000_000;
/// Messages received in a step, before anything is reported.
const MESSAGES: usize = 64;

/// Records that have arrived.
#[derive(Debug, Default)]
pub(crate) struct Arrived(Vec<u8>);

impl Records for Arrived {
    fn bytes(&self) -> &[u8] {
        &self.0
    }
    fn transactions(&self) -> u64 {
        0
    }
    fn memory_bytes(&self) -> usize {
        self.0.capacity()
    }
    fn clear(&mut self) {
        self.0.clear();
    }
}

/// See the module's head.
pub struct CheckpointProcess {
    link: Box<dyn Link>,
    disks: Vec<StorageArc<dyn Disk>>,
    clock: Arc<dyn Clock>,
    phase: Phase,
    /// Given back with all of this, when the stages have ended, too.
    lock: Option<CheckpointLock>,
}

enum Phase {
    Locking,
    Greeted,
    Working(Box<Working>),
    /// What was said last is not on its way.
    Leaving,
    Over,
}

/// A process that has DB′.
struct Working {
    connection: u64,
    to_stages: CheckpointSender<Arrived>,
    shared: Arc<Shared<()>>,
    buffers: Arc<Pool<Arrived>>,
    /// Until they are taken.
    stages: Vec<(Box<dyn Stage>, Arc<Signal>)>,
    /// The last hold that a message announced, 0 for none.
    hold: u64,
    /// The last look that a message asked for.
    seen: u64,
    reported: Option<Report>,
}

impl CheckpointProcess {
    /// One end of `link`'s; the directories are those of the database, in its order.
    pub fn new(
        link: Box<dyn Link>,
        disks: Vec<StorageArc<dyn Disk>>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self { link, disks, clock, phase: Phase::Locking, lock: None }
    }

    /// Does what there is to do, a bounded amount of it but for opening the image.
    pub fn step(&mut self, now_ns: u64) -> Step {
        let stepped = match std::mem::replace(&mut self.phase, Phase::Over) {
            Phase::Locking => self.lock(now_ns),
            Phase::Greeted => self.wait_for_welcome(now_ns),
            Phase::Working(working) => self.work(working, now_ns),
            Phase::Leaving => Ok(self.leave(now_ns)),
            Phase::Over => Ok(Step::Ended),
        };
        stepped.unwrap_or_else(|why| {
            let Some(why) = why else { return Step::Ended };
            // Whether that message arrives or not, this is over.
            _ = self.link.send(&[&FromProcess::Refused(why).encode()]);
            self.leave(now_ns)
        })
    }

    /// Ends when what was said last is on its way.
    fn leave(&mut self, now_ns: u64) -> Step {
        match self.link.flush() {
            Ok(false) => {
                self.phase = Phase::Leaving;
                Step::IdleUntil(Some(now_ns + REPORT_NS))
            }
            Ok(true) | Err(_) => Step::Ended,
        }
    }

    /// The stages to be stepped next to this, once they are there: each until it has ended.
    pub fn take_stages(&mut self) -> Vec<(Box<dyn Stage>, Arc<Signal>)> {
        match &mut self.phase {
            Phase::Working(working) => std::mem::take(&mut working.stages),
            _ => Vec::new(),
        }
    }

    /// A stage broke down.
    pub(crate) fn broken(&self) -> Option<impl Fn(&str) + Send + Sync + use<>> {
        let Phase::Working(working) = &self.phase else { return None };
        let control = working.to_stages.control();
        Some(move |why: &str| control.close_broken(why))
    }

    /// Sleeps until something may have arrived.
    pub(crate) fn wait(&mut self, time_max: std::time::Duration) {
        self.link.wait(time_max);
    }

    fn lock(&mut self, now_ns: u64) -> Result<Step, Option<String>> {
        // Nothing is said before hello: this only notices an end.
        self.link.receive().map_err(|_| None)?;
        match CheckpointLock::take(&*self.disks[0]) {
            Ok(lock) => {
                let hello = FromProcess::Hello { version: VERSION }.encode();
                self.link.send(&[&hello]).map_err(|_| None)?;
                (self.phase, self.lock) = (Phase::Greeted, Some(lock));
                Ok(Step::Progress)
            }
            Err(LogFailure::InUse { .. }) => {
                self.phase = Phase::Locking;
                Ok(Step::IdleUntil(Some(now_ns + LOCK_NS)))
            }
            Err(failure) => Err(Some(failure.to_string())),
        }
    }

    fn wait_for_welcome(&mut self, now_ns: u64) -> Result<Step, Option<String>> {
        self.link.flush().map_err(|_| None)?;
        let message = self.link.receive().map_err(|_| None)?;
        let Some(message) = message else {
            self.phase = Phase::Greeted;
            return Ok(Step::IdleUntil(Some(now_ns + LOCK_NS)));
        };
        let welcome = match ToProcess::decode(message) {
            Some(ToProcess::Welcome(welcome)) => welcome,
            _ => return Err(Some(NO_MESSAGE.to_owned())),
        };
        let Self { link, disks, clock, .. } = self;
        let mut reported_ns = now_ns;
        let mut report_progress = || {
            let now_ns = clock.now_ns();
            if now_ns.saturating_sub(reported_ns) >= OPENING_NS {
                reported_ns = now_ns;
                // The next one is as good; an end is noticed when it is open.
                _ = link.send(&[&FromProcess::Opening.encode()]);
            }
        };
        let opened = opening::open(disks, &welcome, &mut report_progress);
        let opened = opened.map_err(|why| Some(why.to_string()))?;
        self.phase = Phase::Working(Box::new(self.begin(&welcome, opened)));
        Ok(Step::Progress)
    }

    /// Wires the stages.
    fn begin(&self, welcome: &Welcome, opened: Opened) -> Working {
        let Opened { checkpointing, behind_bytes, position } = opened;
        let room = Room { bytes: 0, is_all: true, more_is_wanted: false };
        let (shared, buffers) = (Arc::new(Shared::new(room)), Arc::new(Pool::new()));
        let signals = || checkpointing.parts.iter().map(|_| Arc::default()).collect();
        let (preparing, writing): (Vec<Arc<Signal>>, Vec<Arc<Signal>>) = (signals(), signals());
        let of = Shares {
            shared: &shared,
            buffers: &buffers,
            clock: &self.clock,
            policy: welcome.policy,
            preparing: preparing.clone(),
            writing: writing.clone(),
            logging: Arc::default(),
            rows: None,
        };
        let reader = || Some(opening::reader(&self.disks, welcome));
        let log = LogEnd { position: Some(position), reader: &reader };
        let (to_stages, stages) = wire(checkpointing, behind_bytes, &log, &of);
        Working {
            connection: welcome.connection,
            to_stages,
            shared,
            buffers,
            stages: stages.into_iter().zip(preparing.into_iter().chain(writing)).collect(),
            hold: 0,
            seen: 0,
            reported: None,
        }
    }

    fn work(&mut self, mut working: Box<Working>, now_ns: u64) -> Result<Step, Option<String>> {
        let worked = working.receive_all(&mut *self.link).and_then(|has_received| {
            let cpu_ns = || self.clock.process_cpu().as_nanos() as u64;
            working.report(&mut *self.link, cpu_ns).map(|has_reported| has_received || has_reported)
        });
        match worked {
            Ok(_) if working.is_over() => Ok(self.leave(now_ns)),
            Ok(has_worked) => {
                self.phase = Phase::Working(working);
                Ok(match has_worked {
                    true => Step::Progress,
                    false => Step::IdleUntil(Some(now_ns + REPORT_NS)),
                })
            }
            Err(why) => {
                working.to_stages.control().close_broken("the database's process is gone");
                Err(why)
            }
        }
    }
}

impl Working {
    /// Receives some of what has arrived; returns whether there was anything.
    fn receive_all(&mut self, link: &mut dyn Link) -> Result<bool, Option<String>> {
        for n in 0..MESSAGES {
            let message = link.receive().map_err(|_| None)?;
            let Some(message) = message else { return Ok(n > 0) };
            let message = ToProcess::decode(message).ok_or_else(|| Some(NO_MESSAGE.to_owned()))?;
            match message {
                ToProcess::Records(position, []) => self.to_stages.put_end(position),
                ToProcess::Records(position, bytes) => {
                    let mut records: Arrived = self.buffers.take();
                    records.0.extend_from_slice(bytes);
                    self.to_stages.hand_on(Some(position), &mut vec![records]);
                    // So that stages leave the device to the log's flushes.
                    add(&self.shared.counters.flushes, 1);
                }
                ToProcess::Position(_) if plant::is(Plant::ApartPositionLost) => {}
                ToProcess::Position(position) => self.to_stages.put_position(position),
                ToProcess::Demand(asked) => self.to_stages.state.raise_demands(asked),
                ToProcess::IsShort(is_short) => self.to_stages.state.set_log_is_short(is_short),
                ToProcess::Hold(hold) => {
                    self.hold = hold;
                    self.to_stages.state.hold_off(hold != 0);
                }
                ToProcess::Look(look) => self.seen = look,
                ToProcess::Close => self.to_stages.close(None),
                ToProcess::Welcome(_) => return Err(Some(NO_MESSAGE.to_owned())),
            }
        }
        Ok(true)
    }

    /// Reports what has changed; returns whether anything had.
    fn report(
        &mut self,
        link: &mut dyn Link,
        cpu_ns: impl FnOnce() -> u64,
    ) -> Result<bool, Option<String>> {
        if !link.flush().map_err(|_| None)? {
            return Ok(false);
        }
        let state = &self.to_stages.state;
        let mut report = state.report(self.connection, self.hold, self.seen);
        report.counted.busy_ns = get(&self.shared.counters.busy_ns[4]);
        if let Some(reported) = &self.reported {
            report.counted.cpu_ns = reported.counted.cpu_ns;
            if *reported == report {
                return Ok(false);
            }
        }
        report.counted.cpu_ns = cpu_ns();
        let bytes = FromProcess::Report(report.clone()).encode();
        if link.send(&[&bytes]).map_err(|_| None)? {
            self.reported = Some(report);
            return Ok(true);
        }
        Ok(false)
    }

    /// Whether the last report is on its way.
    fn is_over(&self) -> bool {
        self.reported.as_ref().is_some_and(|reported| reported.is_over)
    }
}
