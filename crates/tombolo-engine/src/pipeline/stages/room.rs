//! The room stage: prepares room in the log ahead of its use, if a log needs time for that.
//!
//! It is the only stage that may wait for the disk for long, so it has a thread of its own, and the
//! path of a transaction never waits for it while it keeps ahead. Not here: the preparation itself
//! (the log's [`RoomMaker`]), refusing calls for lack of room (`execution/`).

use std::sync::Arc;

use crate::pipeline::log::{Records, RoomMaker};
use crate::pipeline::stage::{Stage, StageKind, Step};
use crate::pipeline::stages::batch::LogBatch;
use crate::pipeline::state::Shared;
use crate::pipeline::transport::Queue;

/// The room stage.
pub(crate) struct MakingRoom<A, B> {
    pub(crate) maker: Box<dyn RoomMaker>,
    /// The log queue: this stage ends when the queue does.
    pub(crate) queue: Arc<Queue<LogBatch<A, B>>>,
    pub(crate) shared: Arc<Shared<A>>,
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
            if self.shared.room.wanted().is_some() {
                self.queue.wake(); // there is no room: the logging stage has writes refused
            }
            return Step::IdleUntil(None);
        }
        if let Err(reason) = made {
            self.shared.set_poison(&reason);
        }
        self.queue.wake(); // the logging stage publishes the room
        Step::Progress
    }
}
