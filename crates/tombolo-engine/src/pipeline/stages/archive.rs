//! The archive stage: copies durable groups into the log's archive, and publishes the newest archived one.
//!
//! ```text
//!   logging ──a segment was left behind──► archive ──archived up to──► logging: the log may go
//!                        time, a call, the end ┘  │
//!                                                 └─ failed ──► reported, and tried again a second later
//! ```
//!
//! It has a thread of its own, because it waits for two disks. No other stage waits for it: the log keeps groups
//! until they are archived, and grows; a failure is reported ([`ArchiveStatistics::failure`]). At
//! the end the stage tries once more; groups that are still missing stay in the log, and the next process archives
//! them.
//!
//! Not here: the format of an archive (storage `value_log/archive/`), reusing the log's segments.
//! Invariant: only groups that were reported durable are archived.

use std::fmt;
use std::sync::Arc;

use tombolo_storage::sync::{AtomicBool, AtomicU64, Condvar, Mutex, Ordering};
use tombolo_storage::value_log::GroupNumber;
use tombolo_storage::value_log::archive::{ArchiveFailure, Archiver};

use crate::pipeline::stage::{Stage, StageKind, Step};
use crate::pipeline::state::Shared;
use crate::pipeline::transport::Signal;

/// How long the archive is left alone after a failure.
const RETRY_NS: u64 = 1_000_000_000;

/// A log's archive, and when it is written to.
#[derive(Debug)]
pub struct Archiving {
    /// Continues the archive.
    pub archiver: Archiver,
    /// The longest time that something durable waits to be archived, on a disk that takes no time.
    pub time_ns_max: u64,
}

/// What the archive holds, and how archiving goes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArchiveStatistics {
    /// The last group that is archived.
    pub group: GroupNumber,
    /// Files written by this process.
    pub parts: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Times that one was not written.
    pub failures: u64,
    /// Why the last attempt failed; none if it did not.
    pub failure: Option<Arc<str>>,
}

/// Why a call's wait for the archive failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ArchiveRefusal {
    /// The database has no archive.
    Off,
    /// It cannot be written to; it is tried again.
    Failed(Arc<str>),
    /// The stage has broken down, for this reason: nothing is archived before a restart.
    Broken(Arc<str>),
    /// The database is being closed.
    Closed,
}

impl fmt::Display for ArchiveRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("the database has no archive: open it with log_archive"),
            Self::Failed(what) | Self::Broken(what) => f.write_str(what),
            Self::Closed => f.write_str("the database is being closed"),
        }
    }
}

impl std::error::Error for ArchiveRefusal {}

#[derive(Debug, Default)]
struct Progress {
    parts: u64,
    bytes: u64,
    failures: u64,
    failure: Option<Arc<str>>,
    is_over: bool,
    /// Why it is over, if it broke down.
    broken: Option<Arc<str>>,
}

/// What the stage, logging and calls for the archive share. All orderings are the strongest: each side stores
/// its own news, wakes the other, and reads the other's news before it sleeps (`signal.rs`).
#[derive(Debug)]
pub(crate) struct ArchiveState {
    /// The last group that is archived.
    archived: AtomicU64,
    /// The last group whose archiving was asked for.
    asked: AtomicU64,
    /// The last durable group of the segments that were left behind.
    left_behind: AtomicU64,
    /// Nothing more becomes durable.
    is_closed: AtomicBool,
    progress: Mutex<Progress>,
    changed: Condvar,
    stage: Arc<Signal>,
}

impl ArchiveState {
    pub(crate) fn new(archived: GroupNumber, stage: Arc<Signal>) -> Self {
        Self {
            archived: AtomicU64::new(archived),
            asked: AtomicU64::new(0),
            left_behind: AtomicU64::new(0),
            is_closed: AtomicBool::new(false),
            progress: Mutex::default(),
            changed: Condvar::new(),
            stage,
        }
    }

    /// The last group that is archived.
    pub(crate) fn archived(&self) -> GroupNumber {
        // Partner: `ArchiveStage::note`. A thread that sees it may give away the log before it.
        self.archived.load(Ordering::SeqCst)
    }

    /// Segments with groups up to this one, all durable, were left behind. Called once per flush: it wakes the
    /// stage only if there are new ones.
    pub(crate) fn left_behind(&self, group: GroupNumber) {
        if group > self.left_behind.load(Ordering::SeqCst) {
            self.left_behind.store(group, Ordering::SeqCst);
            self.stage.wake();
        }
    }

    /// Nothing more becomes durable.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        self.stage.wake();
    }

    /// The stage has ended, in good order or not.
    fn end(&self) {
        self.progress.lock().is_over = true;
        self.changed.notify_all();
    }

    /// The stage is gone for this reason.
    pub(crate) fn broken(&self, reason: &str) {
        let reason: Arc<str> = reason.into();
        let mut progress = self.progress.lock();
        (progress.failure, progress.broken) = (Some(reason.clone()), Some(reason));
        drop(progress);
        self.end();
    }

    fn failed(&self, failure: &ArchiveFailure) {
        let mut progress = self.progress.lock();
        progress.failures += 1;
        progress.failure = Some(failure.to_string().into());
        drop(progress);
        self.changed.notify_all();
    }

    pub(crate) fn statistics(&self) -> ArchiveStatistics {
        let progress = self.progress.lock();
        let Progress { parts, bytes, failures, ref failure, .. } = *progress;
        ArchiveStatistics {
            group: self.archived(),
            parts,
            bytes,
            failures,
            failure: failure.clone(),
        }
    }
}

/// Waits for the archive.
#[derive(Debug)]
#[must_use = "it waits for nothing before `wait` is called"]
pub struct ArchiveHandle(Option<(Arc<ArchiveState>, GroupNumber)>);

impl ArchiveHandle {
    /// Asks that all groups up to this one, which is durable, be archived soon.
    pub(crate) fn ask(state: Option<&Arc<ArchiveState>>, group: GroupNumber) -> Self {
        Self(state.map(|state| {
            state.asked.fetch_max(group, Ordering::SeqCst);
            state.stage.wake();
            (Arc::clone(state), group)
        }))
    }

    /// Waits until they are archived; returns the last group that is archived.
    ///
    /// # Errors
    /// See [`ArchiveRefusal`]. What was asked for is archived all the same once that is possible.
    pub fn wait(self) -> Result<GroupNumber, ArchiveRefusal> {
        let Some((state, group)) = self.0 else { return Err(ArchiveRefusal::Off) };
        let mut progress = state.progress.lock();
        let before = progress.failures;
        loop {
            if state.archived() >= group {
                return Ok(state.archived());
            }
            if let Some(why) = &progress.broken {
                return Err(ArchiveRefusal::Broken(Arc::clone(why)));
            }
            if progress.is_over {
                return Err(ArchiveRefusal::Closed);
            }
            if let Some(why) = progress.failure.as_ref().filter(|_| progress.failures > before) {
                return Err(ArchiveRefusal::Failed(Arc::clone(why)));
            }
            progress = state.changed.wait(progress);
        }
    }
}

/// The archive stage. See the module's head.
pub(crate) struct ArchiveStage<A> {
    archiving: Archiving,
    state: Arc<ArchiveState>,
    shared: Arc<Shared<A>>,
    /// Woken when more of the log may go.
    logging: Arc<Signal>,
    /// When all that was durable was archived last; nothing was, before the first step.
    caught_up_ns: Option<u64>,
    /// Nothing is tried before: it has just failed.
    not_before_ns: u64,
}

impl<A> ArchiveStage<A> {
    pub(crate) fn new(
        archiving: Archiving,
        state: Arc<ArchiveState>,
        shared: Arc<Shared<A>>,
        logging: Arc<Signal>,
    ) -> Self {
        Self { archiving, state, shared, logging, caught_up_ns: None, not_before_ns: 0 }
    }

    /// Up to which group there is something to be archived now; the same as what is archived if nothing is.
    fn target(&self, now_ns: u64, is_closed: bool) -> GroupNumber {
        let durable = self.shared.durable_group();
        let is_late = now_ns >= self.due_ns(now_ns);
        if is_closed || is_late {
            return durable;
        }
        let wanted = [&self.state.asked, &self.state.left_behind];
        let wanted = wanted.map(|group| group.load(Ordering::SeqCst));
        wanted[0].max(wanted[1]).min(durable)
    }

    /// When what is durable now has waited long enough.
    fn due_ns(&self, now_ns: u64) -> u64 {
        self.caught_up_ns.unwrap_or(now_ns).saturating_add(self.archiving.time_ns_max)
    }

    /// Publishes what is archived.
    fn note(&self) {
        let (parts, bytes) = self.archiving.archiver.written();
        let mut progress = self.state.progress.lock();
        (progress.parts, progress.bytes, progress.failure) = (parts, bytes, None);
        let archived = self.archiving.archiver.position().group;
        self.state.archived.store(archived, Ordering::SeqCst);
        drop(progress);
        self.state.changed.notify_all();
        self.logging.wake();
    }
}

impl<A: Send + 'static> Stage for ArchiveStage<A> {
    fn kind(&self) -> StageKind {
        StageKind::Archive
    }

    fn step(&mut self, now_ns: u64) -> Step {
        // First: what became durable before it was closed is seen then.
        let is_closed = self.state.is_closed.load(Ordering::SeqCst);
        let archived = self.archiving.archiver.position().group;
        if self.caught_up_ns.is_none() || self.shared.durable_group() <= archived {
            self.caught_up_ns = Some(now_ns);
        }
        let target = self.target(now_ns, is_closed);
        if target <= archived {
            if is_closed {
                self.state.end();
                return Step::Ended;
            }
            return Step::IdleUntil(Some(self.due_ns(now_ns)));
        }
        if now_ns < self.not_before_ns && !is_closed {
            return Step::IdleUntil(Some(self.not_before_ns));
        }
        match self.archiving.archiver.archive(target) {
            Ok(_) => {
                self.note();
                Step::Progress
            }
            Err(failure) => {
                self.state.failed(&failure);
                self.not_before_ns = now_ns.saturating_add(RETRY_NS);
                match is_closed {
                    true => {
                        self.state.end();
                        Step::Ended
                    }
                    false => Step::IdleUntil(Some(self.not_before_ns)),
                }
            }
        }
    }
}
