//! The whole pipeline, its stages stepped in an order drawn from the seed.
//!
//! ```text
//!   clients ─submit─► pipeline ─► stages, any of them at any time ─► replies ─► checked
//!                                     │ execution           │ logging
//!                                     ▼                     ▼
//!                                  journal ──► history     log on the faulty disk
//! ```
//!
//! The executor notes in a journal what ran and in which order; the history judges it. A reply that
//! says *durable* is an acknowledgement of its step and of all before it. Time passes with every
//! step and jumps ahead when all stages are idle; while one waits for the disk the others are
//! stepped, as if each had a thread. After a failure the stages are stepped on: what leaves then
//! counts like any other answer.
//!
//! | module | holds |
//! |---|---|
//! | `calls` | calls that are under way, and their tags |
//! | `journal` | what the execution stage did |
//! | `executor` | runs requests |
//! | `long_read`, `addition` | long work |
//! | `stages` | which stage is stepped |
//! | `companions` | checkpoint processes |
//! | `options` | the pipeline's numbers |
//! | `outcomes` | outcomes in the model's terms |
//! | `life` | from a start to its end: submitting, stepping, time |
//! | `replies`, `carried`, `long` | replies, callers that carry, long work, in a life |
//!
//! Not here: the stages (engine `pipeline/`), what is in the log (`database/recording.rs`).

mod addition;
mod calls;
mod carried;
mod companions;
mod executor;
mod journal;
mod life;
mod long;
mod long_read;
pub(crate) mod options;
mod outcomes;
mod replies;
pub(crate) mod stages;

use tombolo_storage::value_log::GroupNumber;

use crate::database::{OpenLog, Recording, Refused, StoreOf};
use crate::faults::FaultyDisk;
use crate::oracle::Violation;
use crate::swarm::Swarm;
use crate::world::{Engine, World};
use life::Life;

/// A database whose transactions go through the pipeline.
pub struct PipelineEngine<R: Recording> {
    log: OpenLog,
    store: StoreOf<R>,
}

impl<R: Recording> Engine for PipelineEngine<R> {
    type Profile = R::Profile;

    fn start(disk: &FaultyDisk, swarm: &Swarm, accept_loss: bool) -> Result<Self, Refused> {
        let (log, store) = R::recover(disk, swarm, accept_loss)?;
        Ok(Self { log, store })
    }

    fn store(&mut self) -> &mut StoreOf<R> {
        &mut self.store
    }

    fn durable_group(&self) -> Option<GroupNumber> {
        Some(self.log.writer.durable())
    }

    fn live(self, world: &mut World) -> Result<(), Violation> {
        let mut life = Life::<R>::begin(self.log, self.store, world)?;
        let companions = life.companions.clone();
        let lived = life.run(world);
        match lived {
            Ok(()) => life.end(world)?,
            Err(_) => drop(life),
        }
        if let Some(mut companions) = companions {
            companions.outlive(world);
        }
        lived
    }
}
