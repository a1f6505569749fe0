//! The coordinator of checkpoints: what the stages of all parts agree on, and when one begins and is complete.
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
//! Each part is at one of these points. The last part to come to *ready* or *done* writes the catalogue for
//! all. A checkpoint is wanted when enough was logged, when the log runs short of room, on demand, and when the
//! pipeline closes. A full disk puts it off. Any other failure ends checkpoints until a restart, and nothing
//! else: transactions continue and the log grows.
//!
//! A checkpoint is as old as the oldest state that a part handed in for it. So a part that has nothing new is
//! needed for the last checkpoint if another part has something new: all parts end together.
//!
//! Not here: DB′ and blocks (storage), which step a stage makes, what everything else sees of it (`state.rs`).
//! Invariant: a checkpoint begins with parts that had installed all that was handed over when it was demanded.

use std::sync::Arc;

use tombolo_storage::memory::image::{
    Begun, CheckpointPart, Checkpoints, Completed, ImageFailure, Needs,
};
use tombolo_storage::sync::{Mutex, MutexGuard, Ordering};

use super::demands::CheckpointRefusal;
use super::state::CheckpointState;
use crate::pipeline::state::add;

/// How long a checkpoint that found the disk full is put off.
pub(crate) const RETRY_NS: u64 = 1_000_000_000;

/// Where a part is.
#[derive(Debug)]
enum Progress {
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
struct Inner {
    checkpoints: Checkpoints,
    parts: Vec<Progress>,
    /// Some part wants a checkpoint; the others follow.
    is_wanted: bool,
    /// Nothing is tried before this time: the disk was full.
    not_before_ns: u64,
    /// Demands that the checkpoint at hand meets, and up to which one it was thought of.
    serves: u64,
    /// When the one at hand began; `None` for one that a former process began.
    begun_ns: Option<u64>,
}

impl Inner {
    /// Until when nothing is tried, because the disk was full; at the end it is not waited for.
    fn waits_until(&self, view: View) -> Option<u64> {
        (self.not_before_ns > view.now_ns && !view.is_last).then_some(self.not_before_ns)
    }

    /// Whether none is under way, nor about to begin.
    fn is_at_rest(&self) -> bool {
        self.parts
            .iter()
            .all(|part| matches!(part, Progress::Resting | Progress::Leaving | Progress::Over))
    }
}

/// See the module's head.
#[derive(Debug)]
pub(crate) struct Coordinator {
    inner: Mutex<Inner>,
    state: Arc<CheckpointState>,
}

/// What a part's stage knows when it asks what to do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View {
    pub(crate) now_ns: u64,
    /// Whether it has installed all that was handed over when it last looked.
    pub(crate) is_caught_up: bool,
    /// Demands that were made before all was handed over that is installed.
    pub(crate) asked: u64,
    /// Whether anything was logged behind the last checkpoint's position.
    pub(crate) has_news: bool,
    /// Whether that is enough for the next one.
    pub(crate) is_due: bool,
    /// Nothing more comes; whether what is missing is to be written nevertheless.
    pub(crate) is_last: bool,
    pub(crate) closes_with_one: bool,
}

/// What a part's stage is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Nothing before this time, or before something changes.
    Rest(Option<u64>),
    /// Something changed for all.
    Progress,
    /// The store's rows are asked what it needs; nothing before that is known.
    Asked,
    /// It has handed in what it needs: what it installs from here on is the next checkpoint's.
    HandedIn,
    /// A checkpoint has begun with what was handed in.
    Begun,
    /// Write blocks.
    Write,
    /// End.
    Over,
}

impl Coordinator {
    /// Of an image whose progress is published in `state`.
    pub(crate) fn new(checkpoints: Checkpoints, state: Arc<CheckpointState>) -> Self {
        let is_writing = checkpoints.writing().is_some();
        let progress = || if is_writing { Progress::Writing } else { Progress::Resting };
        let inner = Inner {
            parts: (0..state.parts()).map(|_| progress()).collect(),
            checkpoints,
            is_wanted: false,
            not_before_ns: 0,
            serves: 0,
            begun_ns: None,
        };
        Self { inner: Mutex::new(inner), state }
    }

    /// What part `number` does next.
    ///
    /// # Errors
    /// When the image has failed; the caller passes it to [`CheckpointState::fail`].
    pub(crate) fn turn(
        &self,
        number: usize,
        part: &mut CheckpointPart,
        view: View,
    ) -> Result<Turn, ImageFailure> {
        let mut inner = self.inner.lock();
        match &inner.parts[number] {
            Progress::Resting | Progress::Leaving => self.turn_at_rest(number, inner, part, view),
            Progress::Over => Ok(Turn::Over),
            Progress::Writing if view.is_last && self.state.has_given_up() => {
                Ok(self.end(number, inner))
            }
            Progress::Writing => Ok(Turn::Write),
            Progress::Ready(_) => Ok(Turn::Rest(None)),
            Progress::Begun(begun) => {
                part.begin(begun);
                inner.parts[number] = Progress::Writing;
                Ok(Turn::Begun)
            }
            Progress::Done(_) if view.is_last && self.state.has_given_up() => {
                Ok(self.end(number, inner))
            }
            Progress::Done(_) if let Some(until_ns) = inner.waits_until(view) => {
                Ok(Turn::Rest(Some(until_ns)))
            }
            Progress::Done(_) => match self.complete_if_all_are_done(&mut inner, view)? {
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
        if let Some(until_ns) = inner.waits_until(view) {
            return Ok(Turn::Rest(Some(until_ns)));
        }
        // A checkpoint that was wanted before a hold goes ahead: other parts are ready for it.
        if is_first && !self.state.try_begin() {
            return Ok(Turn::Rest(None));
        }
        inner.serves = if is_first { view.asked } else { inner.serves.min(view.asked) };
        inner.is_wanted = true;
        let needs = part.needs()?;
        if is_first {
            self.state.wake_stages(); // those without much to install sleep
        }
        let Some(needs) = needs else { return Ok(Turn::Asked) };
        inner.parts[number] = Progress::Ready(needs);
        self.begin_if_all_are_ready(&mut inner, view)?;
        Ok(Turn::HandedIn)
    }

    fn wants(&self, inner: &Inner, view: View) -> bool {
        if self.state.has_given_up()
            || inner.parts.iter().any(|part| matches!(part, Progress::Over))
        {
            return false;
        }
        inner.is_wanted
            || view.is_due
            || view.asked > inner.serves
            || view.has_news && self.state.log_is_short()
            || view.has_news && view.is_last && view.closes_with_one
    }

    /// The last part that hands in what it needs begins the checkpoint.
    fn begin_if_all_are_ready(&self, inner: &mut Inner, view: View) -> Result<(), ImageFailure> {
        let needs: Option<Vec<Needs>> = inner.parts.iter().map(Progress::needs).collect();
        let Some(needs) = needs else { return Ok(()) };
        match inner.checkpoints.begin(&needs) {
            Ok(begun) => {
                inner.parts.iter_mut().for_each(|part| *part = Progress::Begun(begun.clone()));
                inner.begun_ns = Some(view.now_ns);
                inner.is_wanted = false;
                self.state.is_writing.store(true, Ordering::Relaxed);
            }
            Err(full) if full.is_full() => {
                inner.parts.iter_mut().for_each(|part| *part = Progress::Resting);
                // What wanted it still does, except demands, which are answered.
                inner.is_wanted = false;
                self.put_off(inner, view, &full);
                self.state.rest();
            }
            Err(failure) => return Err(failure),
        }
        self.state.wake_stages();
        Ok(())
    }

    /// A part has written all its blocks.
    pub(crate) fn finish_part(&self, number: usize, completed: Completed) {
        self.inner.lock().parts[number] = Progress::Done(completed);
    }

    /// The last part that is done completes the checkpoint; says whether it did.
    fn complete_if_all_are_done(
        &self,
        inner: &mut Inner,
        view: View,
    ) -> Result<bool, ImageFailure> {
        let done: Option<Vec<Completed>> = inner.parts.iter().map(Progress::completed).collect();
        let Some(done) = done else { return Ok(false) };
        match inner.checkpoints.complete(&done) {
            Ok(position) => {
                inner.parts.iter_mut().for_each(|part| *part = Progress::Resting);
                self.state.set_needed_from(position.group); // the catalogue is durable
                self.state.is_writing.store(false, Ordering::Relaxed);
                add(&self.state.counts.count, 1);
                let wall_ns = inner.begun_ns.take().map_or(0, |begun_ns| view.now_ns - begun_ns);
                add(&self.state.counts.wall_ns, wall_ns);
                self.state.meet_demands(inner.serves);
                self.state.rest();
            }
            Err(full) if full.is_full() => self.put_off(inner, view, &full),
            Err(failure) => return Err(failure),
        }
        self.state.wake_stages();
        Ok(true)
    }

    /// A part's step found the disk full.
    pub(crate) fn put_off_for_part(&self, view: View, full: &ImageFailure) {
        self.put_off(&mut self.inner.lock(), view, full);
    }

    /// The disk is full: it is tried again, at the end it is not.
    fn put_off(&self, inner: &mut Inner, view: View, full: &ImageFailure) {
        add(&self.state.counts.put_off, 1);
        inner.not_before_ns = view.now_ns + RETRY_NS;
        self.state.has_given_up.fetch_or(view.is_last, Ordering::SeqCst);
        self.state.refuse_demands(view.asked.max(inner.serves), &full.to_string());
        self.state.wake_holders();
    }

    /// Nothing more comes for a part that has nothing new: it ends, unless the last checkpoint may have
    /// to hold what is another's news.
    fn leave(&self, number: usize, mut inner: MutexGuard<'_, Inner>, view: View) -> Turn {
        inner.parts[number] = Progress::Leaving;
        let is_there = |part: &Progress| matches!(part, Progress::Leaving | Progress::Over);
        let may_write = view.closes_with_one && !self.state.has_given_up();
        match may_write && !inner.parts.iter().all(is_there) {
            true => Turn::Rest(None),
            false => self.end(number, inner),
        }
    }

    /// A part's stage ends: no checkpoint begins any more, and the resting stages are woken to see that.
    fn end(&self, number: usize, mut inner: MutexGuard<'_, Inner>) -> Turn {
        inner.parts[number] = Progress::Over;
        let is_over = inner.parts.iter().all(|part| matches!(part, Progress::Over));
        self.state.activity.lock().is_over = is_over;
        if inner.is_at_rest() {
            self.state.rest();
        }
        drop(inner);
        self.state.wake_stages(); // those that are done sleep until all are
        self.state.end_demands(CheckpointRefusal::Closed);
        Turn::Over
    }
}

impl Progress {
    fn needs(&self) -> Option<Needs> {
        if let Self::Ready(needs) = self { Some(needs.clone()) } else { None }
    }

    fn completed(&self) -> Option<Completed> {
        if let Self::Done(completed) = self { Some(*completed) } else { None }
    }
}
