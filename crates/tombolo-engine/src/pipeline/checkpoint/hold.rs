//! Holding checkpoints off: while the image and the log behind it are copied, none begins.
//!
//! A checkpoint that is under way comes to its end first. Then nothing of the image changes, and no group of
//! the log behind it is released, since only a complete checkpoint makes one needless. Transactions continue,
//! and the log grows. Not here: copying. Invariant: a hold that is let go wakes the stages that wanted a
//! checkpoint meanwhile.

use std::sync::Arc;

use super::super::statistics::get;
use super::course::Course;
use super::demands::CheckpointRefusal;

/// No checkpoint is written as long as this lives.
#[derive(Debug)]
#[must_use = "checkpoints go on when it is dropped"]
pub struct CheckpointHold(Option<Arc<Course>>);

impl CheckpointHold {
    /// Waits for the checkpoint that is under way, if one is, and lets no other begin. A database that
    /// writes none, or none any more, is held without a hold.
    ///
    /// # Errors
    /// `Full` when the one under way finds the disk full.
    pub(in crate::pipeline) fn new(
        course: Option<&Arc<Course>>,
    ) -> Result<Self, CheckpointRefusal> {
        let Some(course) = course else { return Ok(Self(None)) };
        let mut inner = course.inner.lock();
        inner.holds += 1;
        let hold = Self(Some(Arc::clone(course)));
        course.wake_stages(); // one that speaks for another process tells it
        let put_off = get(&course.counts.put_off);
        while course.failure().is_none() && !inner.is_at_rest() {
            if get(&course.counts.put_off) > put_off {
                drop(inner);
                return Err(course.last_refusal());
            }
            inner = course.rested.wait(inner);
        }
        drop(inner);
        Ok(hold)
    }
}

impl Drop for CheckpointHold {
    fn drop(&mut self) {
        if let Some(course) = &self.0 {
            course.inner.lock().holds -= 1;
            course.wake_stages();
        }
    }
}
