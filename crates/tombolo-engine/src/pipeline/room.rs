//! The room stage: makes room in the log ahead of its use, where a log needs time for that.
//!
//! It is the one stage that may wait for the disk for long, so it has a thread of its own, and the
//! path of a transaction never waits for it while it keeps ahead. Not here: how room is made
//! (the log's [`RoomMaker`]), which calls are refused for want of it (`execution.rs`).

use std::sync::Arc;

use super::log::{Records, RoomMaker};
use super::logging::LogBatch;
use super::queue::Queue;
use super::shared::Shared;
use super::{Stage, StageKind, Step};

/// The room stage.
pub(super) struct MakingRoom<A, B> {
    pub(super) maker: Box<dyn RoomMaker>,
    /// The log queue: its end is the end of this stage, too.
    pub(super) queue: Arc<Queue<LogBatch<A, B>>>,
    pub(super) shared: Arc<Shared<A>>,
}

impl<A: Send + 'static, B: Records> Stage for MakingRoom<A, B> {
    fn kind(&self) -> StageKind {
        StageKind::Room
    }

    fn step(&mut self, _: u64) -> Step {
        if !self.queue.is_open() {
            return Step::Ended;
        }
        if self.shared.poison().is_some() {
            return Step::IdleUntil(None);
        }
        let made = self.maker.make();
        if made == Ok(false) {
            if self.shared.is_starving() {
                self.queue.wake(); // there is none: the logging stage lets the writes be refused
            }
            return Step::IdleUntil(None);
        }
        if let Err(reason) = made {
            self.shared.set_poison(&reason);
        }
        self.queue.wake(); // the logging stage tells of it
        Step::Progress
    }

    fn retire(self: Box<Self>) {}

    fn worked(&self, _: u64) {}
}
