//! The course of checkpoints: what the stages of all parts agree on, and what it reports to others.
//!
//! ```text
//!             wanted            all parts handed in       all parts are done
//!   resting ─────────► ready ──────────────────► begun ─► writing ─► done ──────────► resting
//!    │ ▲                 │▲ (Checkpoints::begin)                   (Checkpoints::complete)
//!    │ └── disk full ────┘│                                     the log may go before its group
//!    │ nothing more comes, nothing is new
//!    └──────► leaving ────┘ another part has news
//!                │ all parts are there
//!                ▼
//!              over
//! ```
//!
//! Each part is at one of these places. The last part to come to *ready* or *done* writes the catalogue for
//! all. A checkpoint is wanted when enough was logged, when the log runs short of room, on demand, and when the
//! pipeline closes. A full disk puts it off. Any other failure ends checkpoints until a restart, and nothing
//! else: transactions continue and the log grows.
//!
//! A checkpoint is as old as the oldest state that a part handed in for it. So a part that has nothing new is
//! needed for the last checkpoint if another part has something new: all parts end together.
//!
//! Where the stages are in another process (`apart/`), the course there is this one. The course in the process
//! that executes then has no image and is set from reports (`apart/told.rs`).
//!
//! Not here: DB′ and blocks (storage), which step a stage makes, demands (`demands.rs`). Invariants: a
//! checkpoint begins with parts that had installed all that was handed over when it was demanded; the log's
//! oldest group that is needed is published only when a catalogue that says so is durable.

use std::sync::{Arc, OnceLock};

use tombolo_storage::memory::image::{
    Begun, CheckpointPart, Checkpoints, Completed, ImageFailure, Needs,
};
use tombolo_storage::sync::{AtomicBool, AtomicU64, Condvar, Mutex, MutexGuard, Ordering};
use tombolo_storage::value_log::GroupNumber;

use super::super::signal::Signal;
use super::super::statistics::{add, get};
use super::demands::{CheckpointRefusal, Demands};

/// How long a checkpoint that found the disk full is put off.
pub(super) const RETRY_NS: u64 = 1_000_000_000;

/// Where a part is.
#[derive(Debug)]
pub(super) enum Place {
    Resting,
    /// Nothing more comes, and it has nothing new.
    Leaving,
    /// What it needs of the checkpoint that is to begin.
    Ready(Needs),
    Begun(Begun),
    Writing,
    Done(Completed),
    /// Its stage has ended.
    Over,
}

#[derive(Debug)]
pub(super) struct Inner {
    /// `None` where another process has it.
    checkpoints: Option<Checkpoints>,
    pub(super) places: Vec<Place>,
    /// Some part wants a checkpoint; the others follow.
    is_wanted: bool,
    /// Nothing is tried before this time: the disk was full.
    not_before_ns: u64,
    /// A full disk at the end: what is missing is replayed by the next process.
    has_given_up: bool,
    /// Demands that the checkpoint at hand meets, and up to which one it was thought of.
    serves: u64,
    /// When the one at hand began; `None` for one that a former process began.
    begun_ns: Option<u64>,
    /// How many copies of the image are under way, which let no checkpoint begin (`hold.rs`).
    pub(super) holds: usize,
}

impl Inner {
    fn image(&mut self) -> &mut Checkpoints {
        self.checkpoints.as_mut().expect("parts are stepped where the image is")
    }

    /// Until when nothing is tried, because the disk was full; at the end it is not waited for.
    fn waits_until(&self, view: View) -> Option<u64> {
        (self.not_before_ns > view.now_ns && !view.is_last).then_some(self.not_before_ns)
    }

    /// Whether none is under way, nor about to begin.
    pub(super) fn is_at_rest(&self) -> bool {
        self.places
            .iter()
            .all(|place| matches!(place, Place::Resting | Place::Leaving | Place::Over))
    }
}

/// What is counted.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) count: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) wall_ns: AtomicU64,
    pub(super) put_off: AtomicU64,
    pub(super) read_back_bytes: AtomicU64,
    pub(super) processes: AtomicU64,
    pub(super) process_cpu_ns: AtomicU64,
    /// Memory that DB′ takes, by part, and the most of all parts so far.
    pub(super) copy_bytes: Vec<AtomicU64>,
    copy_bytes_max: AtomicU64,
}

impl Counts {
    /// A part of DB′ takes so much memory now.
    pub(super) fn note_copy(&self, number: usize, bytes: u64) {
        self.copy_bytes[number].store(bytes, Ordering::Relaxed);
        self.copy_bytes_max.fetch_max(self.copy_bytes(), Ordering::Relaxed);
    }

    pub(super) fn copy_bytes(&self) -> u64 {
        self.copy_bytes.iter().map(get).sum()
    }
}

/// See the module's head.
#[derive(Debug)]
pub(in crate::pipeline) struct Course {
    pub(super) inner: Mutex<Inner>,
    /// A checkpoint is over or put off.
    pub(super) rested: Condvar,
    pub(super) demands: Mutex<Demands>,
    pub(super) demands_changed: Condvar,
    /// The log may be released before this group.
    pub(super) needed_from: AtomicU64,
    log_is_short: AtomicBool,
    pub(super) is_writing: AtomicBool,
    failure: OnceLock<Arc<str>>,
    /// Why the process that writes the image is not there, until it is again.
    pub(super) away: Mutex<Option<Arc<str>>>,
    pub(super) counts: Counts,
    /// The threads of the parts.
    stages: Vec<Arc<Signal>>,
    /// The logging stage's thread.
    pub(super) logging: Arc<Signal>,
}

/// What a part's stage knows when it asks what to do.
#[derive(Clone, Copy, Debug)]
pub(super) struct View {
    pub(super) now_ns: u64,
    /// Whether it has installed all that was handed over when it last looked, or as much of it as it
    /// can before a checkpoint.
    pub(super) is_caught_up: bool,
    /// Demands that were made before all was handed over that is installed.
    pub(super) asked: u64,
    /// Whether anything was logged behind the last checkpoint's position.
    pub(super) has_news: bool,
    /// Whether that is enough for the next one.
    pub(super) is_due: bool,
    /// Nothing more comes; whether what is missing is to be written nevertheless.
    pub(super) is_last: bool,
    pub(super) closes_with_one: bool,
}

/// What a part's stage is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// Nothing before this time, or before something changes.
    Rest(Option<u64>),
    /// Something changed for all.
    Progress,
    /// It has handed in what it needs: what it installs from here on is the next checkpoint's.
    HandedIn,
    /// A checkpoint has begun with what was handed in.
    Begun,
    /// Write blocks.
    Write,
    /// End.
    Over,
}

impl Course {
    /// Of an image with one stage for each of `stages`.
    pub(super) fn new(
        checkpoints: Checkpoints,
        stages: Vec<Arc<Signal>>,
        logging: Arc<Signal>,
    ) -> Self {
        let needed_from = checkpoints.position().group;
        let is_writing = checkpoints.writing().is_some();
        Self::of(Some(checkpoints), needed_from, is_writing, (stages, logging))
    }

    /// Of an image that another process has, with one stage here.
    pub(super) fn apart(stage: Arc<Signal>, logging: Arc<Signal>) -> Self {
        Self::of(None, 0, false, (vec![stage], logging))
    }

    fn of(
        checkpoints: Option<Checkpoints>,
        needed_from: GroupNumber,
        is_writing: bool,
        (stages, logging): (Vec<Arc<Signal>>, Arc<Signal>),
    ) -> Self {
        let place = || if is_writing { Place::Writing } else { Place::Resting };
        let inner = Inner {
            places: stages.iter().map(|_| place()).collect(),
            checkpoints,
            is_wanted: false,
            not_before_ns: 0,
            has_given_up: false,
            serves: 0,
            begun_ns: None,
            holds: 0,
        };
        Self {
            inner: Mutex::new(inner),
            rested: Condvar::new(),
            demands: Mutex::default(),
            demands_changed: Condvar::new(),
            needed_from: AtomicU64::new(needed_from),
            log_is_short: AtomicBool::new(false),
            is_writing: AtomicBool::new(is_writing),
            failure: OnceLock::new(),
            away: Mutex::default(),
            counts: Counts {
                copy_bytes: stages.iter().map(|_| AtomicU64::new(0)).collect(),
                ..Counts::default()
            },
            stages,
            logging,
        }
    }

    /// What part `number` does next.
    ///
    /// # Errors
    /// When the image has failed; the caller passes it to [`Course::fail`].
    pub(super) fn turn(
        &self,
        number: usize,
        part: &mut CheckpointPart,
        view: View,
    ) -> Result<Turn, ImageFailure> {
        let mut inner = self.inner.lock();
        match &inner.places[number] {
            Place::Resting | Place::Leaving => self.turn_at_rest(number, inner, part, view),
            Place::Over => Ok(Turn::Over),
            Place::Writing if view.is_last && inner.has_given_up => Ok(self.end(number, inner)),
            Place::Writing => Ok(Turn::Write),
            Place::Ready(_) => Ok(Turn::Rest(None)),
            Place::Begun(begun) => {
                part.begin(begun);
                inner.places[number] = Place::Writing;
                Ok(Turn::Begun)
            }
            Place::Done(_) if view.is_last && inner.has_given_up => Ok(self.end(number, inner)),
            Place::Done(_) if let Some(until_ns) = inner.waits_until(view) => {
                Ok(Turn::Rest(Some(until_ns)))
            }
            Place::Done(_) => match self.complete_if_all_are_done(&mut inner, view)? {
                true => Ok(Turn::Progress),
                false => Ok(Turn::Rest(None)),
            },
        }
    }

    /// What a part does next that has no checkpoint under way.
    fn turn_at_rest(
        &self,
        number: usize,
        mut inner: MutexGuard<'_, Inner>,
        part: &mut CheckpointPart,
        view: View,
    ) -> Result<Turn, ImageFailure> {
        if !view.is_caught_up {
            return Ok(Turn::Rest(None));
        }
        let is_first = !inner.is_wanted;
        if !self.wants(&inner, view) {
            return Ok(match view.is_last {
                true => self.leave(number, inner, view),
                false => Turn::Rest(None),
            });
        }
        // A checkpoint that was wanted before the hold goes ahead: other parts are ready for it.
        if inner.holds > 0 && is_first {
            return Ok(Turn::Rest(None));
        }
        if let Some(until_ns) = inner.waits_until(view) {
            return Ok(Turn::Rest(Some(until_ns)));
        }
        inner.serves = if is_first { view.asked } else { inner.serves.min(view.asked) };
        inner.is_wanted = true;
        inner.places[number] = Place::Ready(part.needs()?);
        if is_first {
            self.wake_stages(); // those without much to install sleep
        }
        self.begin_if_all_are_ready(&mut inner, view)?;
        Ok(Turn::HandedIn)
    }

    fn wants(&self, inner: &Inner, view: View) -> bool {
        if inner.has_given_up || inner.places.iter().any(|place| matches!(place, Place::Over)) {
            return false;
        }
        inner.is_wanted
            || view.is_due
            || view.asked > inner.serves
            // Relaxed: the flag is all that is passed on; a late look finds it, too.
            || view.has_news && self.log_is_short.load(Ordering::Relaxed)
            || view.has_news && view.is_last && view.closes_with_one
    }

    /// The last part that hands in what it needs begins the checkpoint.
    fn begin_if_all_are_ready(&self, inner: &mut Inner, view: View) -> Result<(), ImageFailure> {
        let needs: Option<Vec<Needs>> = inner.places.iter().map(Place::needs).collect();
        let Some(needs) = needs else { return Ok(()) };
        match inner.image().begin(&needs) {
            Ok(begun) => {
                inner.places.iter_mut().for_each(|place| *place = Place::Begun(begun.clone()));
                inner.begun_ns = Some(view.now_ns);
                inner.is_wanted = false;
                self.is_writing.store(true, Ordering::Relaxed);
            }
            Err(full) if full.is_full() => {
                inner.places.iter_mut().for_each(|place| *place = Place::Resting);
                // What wanted it still does, except demands, which are answered.
                inner.is_wanted = false;
                self.put_off(inner, view, &full);
            }
            Err(failure) => return Err(failure),
        }
        self.wake_stages();
        Ok(())
    }

    /// A part has written all its blocks.
    pub(super) fn is_done(&self, number: usize, completed: Completed) {
        self.inner.lock().places[number] = Place::Done(completed);
    }

    /// The last part that is done completes the checkpoint; says whether it did.
    fn complete_if_all_are_done(
        &self,
        inner: &mut Inner,
        view: View,
    ) -> Result<bool, ImageFailure> {
        let done: Option<Vec<Completed>> = inner.places.iter().map(Place::completed).collect();
        let Some(done) = done else { return Ok(false) };
        match inner.image().complete(&done) {
            Ok(position) => {
                inner.places.iter_mut().for_each(|place| *place = Place::Resting);
                // Partner: `needed_from`. The catalogue is durable.
                self.needed_from.store(position.group, Ordering::Release);
                self.is_writing.store(false, Ordering::Relaxed);
                add(&self.counts.count, 1);
                let wall_ns = inner.begun_ns.take().map_or(0, |begun_ns| view.now_ns - begun_ns);
                add(&self.counts.wall_ns, wall_ns);
                self.meet(inner.serves);
                self.rested.notify_all();
                self.logging.wake();
            }
            Err(full) if full.is_full() => self.put_off(inner, view, &full),
            Err(failure) => return Err(failure),
        }
        self.wake_stages();
        Ok(true)
    }

    /// A part's step found the disk full.
    pub(super) fn part_found_it_full(&self, view: View, full: &ImageFailure) {
        self.put_off(&mut self.inner.lock(), view, full);
    }

    /// The disk is full: it is tried again, at the end it is not.
    fn put_off(&self, inner: &mut Inner, view: View, full: &ImageFailure) {
        add(&self.counts.put_off, 1);
        inner.not_before_ns = view.now_ns + RETRY_NS;
        inner.has_given_up |= view.is_last;
        let mut demands = self.demands.lock();
        let up_to = view.asked.max(inner.serves);
        demands.refused = Some((up_to, CheckpointRefusal::Full(full.to_string().into())));
        drop(demands);
        self.demands_changed.notify_all();
        self.rested.notify_all();
    }

    /// Why the last demand was refused that met a full disk.
    pub(super) fn last_refusal(&self) -> CheckpointRefusal {
        let refused = self.demands.lock().refused.clone();
        refused.map_or(CheckpointRefusal::Closed, |(_, refusal)| refusal)
    }

    /// Why the last checkpoint was left out, if it was because the disk is full.
    pub(in crate::pipeline) fn last_left_out(&self) -> Option<Arc<str>> {
        let has_given_up = self.inner.lock().has_given_up;
        has_given_up.then(|| self.last_refusal().to_string().into())
    }

    /// Nothing more comes for a part that has nothing new: it ends, unless the last checkpoint may have
    /// to hold what is another's news.
    fn leave(&self, number: usize, mut inner: MutexGuard<'_, Inner>, view: View) -> Turn {
        inner.places[number] = Place::Leaving;
        let is_there = |place: &Place| matches!(place, Place::Leaving | Place::Over);
        let may_write = view.closes_with_one && !inner.has_given_up;
        match may_write && !inner.places.iter().all(is_there) {
            true => Turn::Rest(None),
            false => self.end(number, inner),
        }
    }

    /// A part's stage ends: no checkpoint begins any more, and the resting stages are woken to see that.
    fn end(&self, number: usize, mut inner: MutexGuard<'_, Inner>) -> Turn {
        inner.places[number] = Place::Over;
        drop(inner);
        self.wake_stages(); // those that are done sleep until all are
        self.rested.notify_all();
        self.end_demands(CheckpointRefusal::Closed);
        Turn::Over
    }

    pub(super) fn end_demands(&self, end: CheckpointRefusal) {
        self.demands.lock().end.get_or_insert(end);
        self.demands_changed.notify_all();
    }

    pub(super) fn meet(&self, serves: u64) {
        let mut demands = self.demands.lock();
        demands.met = demands.met.max(serves);
        drop(demands);
        self.demands_changed.notify_all();
    }

    /// Checkpoints end: the image, or the log behind it, has failed.
    pub(in crate::pipeline) fn fail(&self, reason: &str) {
        let reason = self.failure.get_or_init(|| reason.into()).clone();
        self.is_writing.store(false, Ordering::Relaxed);
        self.end_demands(CheckpointRefusal::Failed(reason));
        // A thread that was about to wait has seen the failure, or waits.
        drop(self.inner.lock());
        self.rested.notify_all();
        self.wake_stages();
    }

    /// Why none is written in this moment, if so: none ever again, or the process that does is away.
    pub(in crate::pipeline) fn trouble(&self) -> Option<Arc<str>> {
        self.failure().cloned().or_else(|| self.away.lock().clone())
    }

    /// Why no checkpoint is written any more, if so.
    pub(in crate::pipeline) fn failure(&self) -> Option<&Arc<str>> {
        self.failure.get()
    }

    /// Before which group the log may go.
    pub(in crate::pipeline) fn needed_from(&self) -> GroupNumber {
        self.needed_from.load(Ordering::Acquire)
    }

    /// All stages have ended, in whatever way: the image's directories are free, even if a demand or a hold was
    /// kept.
    pub(in crate::pipeline) fn release(&self) {
        self.inner.lock().checkpoints = None;
    }

    /// Sets whether the log runs short of room, which a checkpoint gives back.
    pub(in crate::pipeline) fn set_log_is_short(&self, is_short: bool) {
        if self.log_is_short.load(Ordering::Relaxed) != is_short {
            self.log_is_short.store(is_short, Ordering::Relaxed);
            self.wake_stages();
        }
    }

    /// How many parts there are.
    pub(super) fn parts(&self) -> u64 {
        self.stages.len() as u64
    }

    pub(super) fn log_is_short(&self) -> bool {
        self.log_is_short.load(Ordering::Relaxed)
    }

    /// Whether a checkpoint is being written.
    pub(in crate::pipeline) fn is_writing(&self) -> bool {
        self.is_writing.load(Ordering::Relaxed)
    }

    /// How many demands were made.
    pub(super) fn asked(&self) -> u64 {
        self.demands.lock().asked
    }

    pub(super) fn wake_stages(&self) {
        self.stages.iter().for_each(|stage| stage.wake());
    }

    /// The numbers so far.
    pub(in crate::pipeline) fn statistics(&self) -> CheckpointStatistics {
        CheckpointStatistics {
            count: get(&self.counts.count),
            bytes: get(&self.counts.bytes),
            wall_ns: get(&self.counts.wall_ns),
            put_off: get(&self.counts.put_off),
            read_back_bytes: get(&self.counts.read_back_bytes),
            processes: get(&self.counts.processes),
            process_cpu_ns: get(&self.counts.process_cpu_ns),
            copy_bytes: self.counts.copy_bytes(),
            copy_bytes_max: get(&self.counts.copy_bytes_max),
            is_writing: self.is_writing(),
            has_failed: self.failure().is_some(),
        }
    }
}

impl Place {
    fn needs(&self) -> Option<Needs> {
        if let Self::Ready(needs) = self { Some(needs.clone()) } else { None }
    }

    fn completed(&self) -> Option<Completed> {
        if let Self::Done(completed) = self { Some(*completed) } else { None }
    }
}

/// A pipeline's checkpoints since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckpointStatistics {
    /// Checkpoints that were completed.
    pub count: u64,
    /// Bytes of blocks that were written, those of a checkpoint under way among them.
    pub bytes: u64,
    /// Time from beginning to completing, in nanoseconds, over all of them.
    pub wall_ns: u64,
    /// Times one was put off because the disk was full.
    pub put_off: u64,
    /// Bytes of records that were read back from the log, because the stage was behind.
    pub read_back_bytes: u64,
    /// Processes that were started to write them: 0 where this one does, and more than 1 where one
    /// has ended before it was asked to.
    pub processes: u64,
    /// Processor time of those, in nanoseconds, as far as they have reported.
    pub process_cpu_ns: u64,
    /// Memory that DB′ takes: a second copy of all rows, or, where that is on disk only, what changed.
    pub copy_bytes: u64,
    /// The most it took so far.
    pub copy_bytes_max: u64,
    /// Whether one is being written.
    pub is_writing: bool,
    /// Whether none is written any more, because the disk failed.
    pub has_failed: bool,
}
