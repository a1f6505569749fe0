//! The coordinator of checkpoints: decides for the stages of all parts when a checkpoint begins and when it is
//! complete.
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
//! pipeline closes. A full disk delays it. After any other failure no checkpoint is written until a restart, but
//! transactions continue and the log grows.
//!
//! A checkpoint is as old as the oldest state that a part handed in for it. So the last checkpoint needs every part,
//! even one without new records, if another part has some: all parts end together.
//!
//! Not here: DB′ and blocks (storage), the steps of a stage, the state that the rest of the pipeline sees (`state.rs`).
//! Invariant: when a checkpoint begins, each part has installed everything that was handed over before it was
//! demanded.

use std::sync::Arc;

use tombolo_storage::memory::image::{
    Begun, CheckpointPart, Checkpoints, Completed, ImageFailure, Needs,
};
use tombolo_storage::sync::{Mutex, MutexGuard, Ordering};

use super::demands::CheckpointRefusal;
use super::state::CheckpointState;
use crate::pipeline::state::add;

/// The delay of a checkpoint that found the disk full.
pub(crate) const RETRY_NS: u64 = 1_000_000_000;

/// Where a part is.
#[derive(Debug)]
enum Progress {
    Resting,
    /// Nothing more comes, and it has nothing new.
    Leaving,
    /// Its demands on the checkpoint that is to begin.
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
    /// The newest demand that the current checkpoint meets; demands are numbered.
    serves: u64,
    /// When the current checkpoint began; `None` if an earlier process began it.
    begun_ns: Option<u64>,
}

impl Inner {
    /// The time before which nothing is tried, because the disk was full. The last checkpoint is not delayed.
    fn waits_until(&self, view: View) -> Option<u64> {
        (self.not_before_ns > view.now_ns && !view.is_last).then_some(self.not_before_ns)
    }

    /// Whether no checkpoint is under way or about to begin.
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
    /// Whether the part has installed everything that was handed over when it last looked.
    pub(crate) is_caught_up: bool,
    /// The newest demand that was made before the newest installed records were handed over.
    pub(crate) asked: u64,
    /// Whether anything was logged behind the last checkpoint's position.
    pub(crate) has_news: bool,
    /// Whether enough was logged for the next checkpoint.
    pub(crate) is_due: bool,
    /// Whether no more records will come.
    pub(crate) is_last: bool,
    /// Whether a last checkpoint is written then.
    pub(crate) closes_with_one: bool,
}

/// What a part's stage does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Nothing, until this time or until something changes.
    Rest(Option<u64>),
    /// Look again: the state of all parts has changed.
    Progress,
    /// Wait: the execution stage has been asked what the part needs.
    Asked,
    /// The part has handed in its needs: records that it installs from now on belong to the next checkpoint.
    HandedIn,
    /// A checkpoint has begun with the needs of all parts.
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

    /// The next turn of part `number`.
    ///
    /// # Errors
    /// When the image has failed; the caller passes the failure to [`CheckpointState::fail`].
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

    /// The next turn of a part while no checkpoint is under way.
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
        // A checkpoint that was wanted before a hold proceeds: other parts are ready for it.
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

    /// Begins the checkpoint if this was the last part to hand in its needs.
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
                // The reason for the checkpoint remains, unless it was a demand: demands are answered.
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

    /// Completes the checkpoint if this was the last part to finish; returns whether it was.
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

    /// Delays the checkpoint because the disk is full; the last checkpoint is given up.
    fn put_off(&self, inner: &mut Inner, view: View, full: &ImageFailure) {
        add(&self.state.counts.put_off, 1);
        inner.not_before_ns = view.now_ns + RETRY_NS;
        self.state.has_given_up.fetch_or(view.is_last, Ordering::SeqCst);
        self.state.refuse_demands(view.asked.max(inner.serves), &full.to_string());
        self.state.wake_holders();
    }

    /// Ends a part that has no new records and will get none, unless a last checkpoint may be needed for another
    /// part's records.
    fn leave(&self, number: usize, mut inner: MutexGuard<'_, Inner>, view: View) -> Turn {
        inner.parts[number] = Progress::Leaving;
        let is_there = |part: &Progress| matches!(part, Progress::Leaving | Progress::Over);
        let may_write = view.closes_with_one && !self.state.has_given_up();
        match may_write && !inner.parts.iter().all(is_there) {
            true => Turn::Rest(None),
            false => self.end(number, inner),
        }
    }

    /// Ends a part's stage: no checkpoint begins any more, and resting stages are woken to notice that.
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
