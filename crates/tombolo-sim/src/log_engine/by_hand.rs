//! Checkpoints without a pipeline: the production image, driven by hand in an order that follows from what was
//! synced.
//!
//! Not here: opening it (`database/image.rs`).

use std::collections::VecDeque;
use std::sync::Arc;

use tombolo_engine::checkpointing::Checkpointing;
use tombolo_storage::memory::image::{
    CheckpointPart, Checkpoints, Completed, ImageFailure, Needs, Request, RowsInPlace, Step,
};
use tombolo_storage::plant::{self, Plant};
use tombolo_storage::value_log::{GroupNumber, LogPosition};

/// Records of a group that was written.
type Written = (LogPosition, Vec<u8>);

/// A store whose log is durable, but for what was not written.
#[derive(Clone, Copy)]
pub(super) struct Synced<'a> {
    pub(super) rows: Option<RowsInPlace<'a>>,
    /// Whether it has changes that were not written.
    pub(super) is_ahead: bool,
    /// The newest group.
    pub(super) newest: GroupNumber,
}

/// Drives an image without a pipeline.
#[derive(Debug)]
pub(super) struct ByHand {
    checkpoints: Checkpoints,
    parts: Vec<CheckpointPart>,
    done: Vec<Option<Completed>>,
    /// Groups that were written and are not durable; those that are, for each part.
    written: Vec<Written>,
    waiting: Vec<VecDeque<Arc<Written>>>,
    /// What parts ask of the store's rows, and the newest group that what was copied may be of, if that is
    /// written.
    asked: Vec<Option<(Request, Option<GroupNumber>)>>,
    /// What parts need of the checkpoint that is to begin.
    needs: Vec<Option<Needs>>,
    turns: u64,
    has_failed: bool,
}

impl ByHand {
    /// Of an image that is continued.
    pub(super) fn new(checkpointing: Checkpointing) -> Self {
        let Checkpointing { checkpoints, parts } = checkpointing;
        let (done, waiting) = (vec![None; parts.len()], vec![VecDeque::new(); parts.len()]);
        let asked = parts.iter().map(|_| None).collect();
        let needs = parts.iter().map(|_| None).collect();
        let (written, turns, has_failed) = (Vec::new(), 0, false);
        Self { checkpoints, parts, done, written, waiting, asked, needs, turns, has_failed }
    }

    /// A group was written, which ends at `position`.
    pub(super) fn wrote(&mut self, position: LogPosition, records: &[u8]) {
        self.written.push((position, records.to_vec()));
        for (_, newest) in self.asked.iter_mut().flatten() {
            newest.get_or_insert(position.group);
        }
    }

    /// All that was written is durable: takes some steps of whatever waited for that. Returns the group before which
    /// the log may be released, if a checkpoint was completed.
    pub(super) fn synced(&mut self, store: Synced<'_>) -> Option<GroupNumber> {
        for written in self.written.drain(..).map(Arc::new) {
            self.waiting.iter_mut().for_each(|part| part.push_back(Arc::clone(&written)));
        }
        if self.has_failed {
            return None;
        }
        match self.turn(store) {
            Ok(position) => position,
            Err(failure) => {
                // Transactions continue.
                self.has_failed = !failure.is_full();
                None
            }
        }
    }

    /// Serves what a part asks for, a piece of it; gives it back when what was copied is durable.
    fn serve(&mut self, number: usize, store: Synced<'_>) {
        let Some(rows) = store.rows else { return };
        let (part, asked) = (&mut self.parts[number], &mut self.asked[number]);
        if asked.is_none() {
            *asked = part.request().map(|request| (request, None));
        }
        let Some((request, newest)) = asked else { return };
        if !request.is_served() {
            request.serve(rows, [500, 20_000, usize::MAX][self.turns as usize % 3]);
            *newest = (!store.is_ahead).then_some(store.newest);
        }
        let is_durable = newest.is_some_and(|newest| newest <= store.newest)
            || plant::is(Plant::BlockWrittenEarly);
        if is_durable
            && let Some((request, newest)) = asked.take_if(|(request, _)| request.is_served())
        {
            part.served(request, newest.unwrap_or(store.newest));
        }
    }

    /// What all parts need, if that is known.
    fn needs(&mut self, store: Synced<'_>) -> Result<Option<Vec<Needs>>, ImageFailure> {
        for number in 0..self.parts.len() {
            if self.needs[number].is_none() {
                self.needs[number] = self.parts[number].needs()?;
                self.serve(number, store);
            }
        }
        let are_known = self.needs.iter().all(Option::is_some);
        Ok(are_known.then(|| self.needs.iter_mut().filter_map(Option::take).collect()))
    }

    fn turn(&mut self, store: Synced<'_>) -> Result<Option<GroupNumber>, ImageFailure> {
        self.turns += 1;
        let turn = self.turns;
        for (number, (part, waiting)) in (0..).zip(self.parts.iter_mut().zip(&mut self.waiting)) {
            // One is behind the others now and then.
            let count = if (turn + number).is_multiple_of(3) { 1 } else { waiting.len() };
            for _ in 0..count {
                if let Some(written) = waiting.pop_front() {
                    part.install(written.0, &written.1)?;
                }
            }
        }
        if self.checkpoints.writing().is_none() {
            let is_asked = self.needs.iter().any(Option::is_some)
                || self.parts.iter().any(CheckpointPart::is_asking);
            let is_time = is_asked || turn.is_multiple_of(4);
            if is_time
                && self.parts.iter().all(CheckpointPart::may_begin)
                && let Some(needs) = self.needs(store)?
            {
                let begun = self.checkpoints.begin(&needs)?;
                self.parts.iter_mut().for_each(|part| part.begin(&begun));
                self.done.fill(None);
            }
            return Ok(None);
        }
        for number in 0..self.parts.len() {
            if self.done[number].is_some() {
                continue;
            }
            self.parts[number].prepare()?;
            self.serve(number, store);
            let part = &mut self.parts[number];
            if !part.is_asking()
                && let Step::Complete(completed) = part.step()?
            {
                self.done[number] = Some(completed);
            }
        }
        let done: Option<Vec<Completed>> = self.done.iter().copied().collect();
        match done {
            Some(done) => Ok(Some(self.checkpoints.complete(&done)?.group)),
            None => Ok(None),
        }
    }
}
