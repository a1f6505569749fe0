//! Checkpoints without a pipeline: the production image, driven by hand in an order that follows from what was
//! synced.
//!
//! Not here: opening it (`database/image.rs`).

use std::collections::VecDeque;
use std::sync::Arc;

use tombolo_engine::checkpointing::Checkpointing;
use tombolo_storage::memory::image::{CheckpointPart, Checkpoints, Completed, ImageFailure, Step};
use tombolo_storage::value_log::{GroupNumber, LogFailure, LogPosition, LogReader, LogWriter};

/// Records of a group that was written.
type Written = (LogPosition, Vec<u8>);

/// Drives an image without a pipeline.
#[derive(Debug)]
pub(super) struct ByHand {
    checkpoints: Checkpoints,
    parts: Vec<CheckpointPart>,
    done: Vec<Option<Completed>>,
    /// Groups that were written and are not durable; those that are, for each part.
    written: Vec<Written>,
    waiting: Vec<VecDeque<Arc<Written>>>,
    /// Reads what is behind the image up to where the log was opened, until that was done.
    behind: Option<(LogReader, LogPosition)>,
    turns: u64,
    has_failed: bool,
}

impl ByHand {
    /// Of a log that `writer` continues.
    pub(super) fn new(checkpointing: Checkpointing, writer: &LogWriter) -> Self {
        let Checkpointing { checkpoints, parts } = checkpointing;
        let (done, waiting) = (vec![None; parts.len()], vec![VecDeque::new(); parts.len()]);
        let behind = parts[0].wants_again().then(|| (writer.reader(), writer.position()));
        let (written, turns, has_failed) = (Vec::new(), 0, false);
        Self { checkpoints, parts, done, written, waiting, behind, turns, has_failed }
    }

    /// Takes what is behind the image from the log, where DB′ is the image.
    fn read_behind(&mut self) -> Result<(), LogFailure> {
        let Some((mut reader, end)) = self.behind.take() else { return Ok(()) };
        let mut behind = VecDeque::new();
        let mut keep = |position, records: &[u8]| {
            behind.push_back(Arc::new((position, records.to_vec())));
            Ok::<_, LogFailure>(())
        };
        let from = self.checkpoints.position();
        reader.again(from);
        reader.read(from, end.group, usize::MAX, &mut keep)?;
        for waiting in &mut self.waiting {
            let later = std::mem::replace(waiting, behind.clone());
            waiting.extend(later);
        }
        Ok(())
    }

    /// A group was written, which ends at `position`.
    pub(super) fn wrote(&mut self, position: LogPosition, records: &[u8]) {
        self.written.push((position, records.to_vec()));
    }

    /// All that was written is durable. Does a bit of everything; the group before which the log may
    /// be released, if a checkpoint was completed.
    pub(super) fn synced(&mut self) -> Option<GroupNumber> {
        for written in self.written.drain(..).map(Arc::new) {
            self.waiting.iter_mut().for_each(|part| part.push_back(Arc::clone(&written)));
        }
        // What the disk does not give now it does not give later.
        self.has_failed |= self.read_behind().is_err();
        if self.has_failed {
            return None;
        }
        match self.turn() {
            Ok(position) => position,
            Err(failure) => {
                // Transactions continue.
                self.has_failed = !failure.is_full();
                None
            }
        }
    }

    fn turn(&mut self) -> Result<Option<GroupNumber>, ImageFailure> {
        self.turns += 1;
        let turn = self.turns;
        for (number, (part, waiting)) in (0..).zip(self.parts.iter_mut().zip(&mut self.waiting)) {
            // One is behind the others now and then.
            let count = if (turn + number).is_multiple_of(3) { 1 } else { waiting.len() };
            for _ in 0..count {
                if let Some(written) = waiting.pop_front_if(|_| part.has_room()) {
                    part.install(written.0, &written.1)?;
                }
            }
        }
        if self.checkpoints.writing().is_none() {
            if turn.is_multiple_of(4) && self.parts.iter().all(CheckpointPart::may_begin) {
                let needs = self.parts.iter_mut().map(CheckpointPart::needs);
                let needs = needs.collect::<Result<Vec<_>, _>>()?;
                let begun = self.checkpoints.begin(&needs)?;
                self.parts.iter_mut().for_each(|part| part.begin(&begun));
                self.done.fill(None);
            }
            return Ok(None);
        }
        for (part, done) in self.parts.iter_mut().zip(&mut self.done) {
            if done.is_none()
                && let Step::Complete(completed) = part.step()?
            {
                *done = Some(completed);
            }
        }
        let done: Option<Vec<Completed>> = self.done.iter().copied().collect();
        match done {
            Some(done) => Ok(Some(self.checkpoints.complete(&done)?.group)),
            None => Ok(None),
        }
    }
}
