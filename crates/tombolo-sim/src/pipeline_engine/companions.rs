//! Checkpoint processes of a simulated database: stepped together with its stages, killed or stopped at any moment,
//! connected by a link that delays, cuts into pieces and ends.
//!
//! What runs is the production process (`CheckpointProcess`) on the world's disk; a kill drops it
//! between two of its steps, and a process that hangs makes none any more. Not here: the database's side (a
//! stage like any other). Invariant: at the end of a life the processes continue for a few steps at most, as
//! they do when only the database's process ends.

use std::sync::Arc;

use tombolo_engine::clock::Clock;
use tombolo_engine::link::{MemoryFaults, memory_pair};
use tombolo_engine::pipeline::remote_checkpoint::{
    CheckpointProcess, Companion, Process, RemoteCheckpoints, StartCompanion,
};
use tombolo_engine::pipeline::{Stage, StageKind, Step};
use tombolo_engine::rng::Rng;
use tombolo_storage::disk::Disk;
use tombolo_storage::memory::image::{ImageSettings, SecondCopy};
use tombolo_storage::sync::{AtomicBool, Mutex, Ordering};
use tombolo_storage::value_log::GroupNumber;

use crate::clock::SimClock;
use crate::database::log::LIMITS;
use crate::faults::one_in;
use crate::swarm::Swarm;
use crate::world::World;

/// Steps that processes make, at most, when the database's process has ended.
const STEPS_BEYOND: u64 = 30;

/// Processes that are struck and hang, where the others are killed: one in so many.
const HANGS: u32 = 4;

/// A process, until it has ended or was killed.
struct Running {
    process: CheckpointProcess,
    has_ended: bool,
    /// Whether it makes no more steps, without having ended.
    hangs: bool,
    /// Its stages that have not ended.
    stages: Vec<Box<dyn Stage>>,
}

type Slot = Arc<Mutex<Option<Running>>>;

/// What all of them share.
struct Shared {
    slots: Mutex<Vec<Slot>>,
    rng: Mutex<Rng>,
    /// Kills and hangs: one in so many steps; 0 for none.
    kills: u32,
    link: MemoryFaults,
    /// Whether no process starts any more.
    is_closed: AtomicBool,
    /// Whether no process is killed, and no link cut, from now on.
    is_quiet: AtomicBool,
}

/// The checkpoint processes of one life.
#[derive(Clone)]
pub(super) struct Companions(Arc<Shared>);

impl Companions {
    pub(super) fn new(world: &mut World) -> Self {
        let Swarm { remote_kills: kills, remote_link: link, .. } = world.swarm;
        let rng = Mutex::new(Rng::from_seed(world.rng.next_u64()));
        let (is_closed, is_quiet) = (AtomicBool::new(false), AtomicBool::new(false));
        Self(Arc::new(Shared { slots: Mutex::default(), rng, kills, link, is_closed, is_quiet }))
    }

    /// For a pipeline whose checkpoints they write, with a log of this salt and epoch that ends with this
    /// group.
    pub(super) fn remote_checkpoints(
        &self,
        world: &World,
        (salt, epoch): (u64, u32),
        group: GroupNumber,
    ) -> RemoteCheckpoints {
        let disks = world.disk.directories(world.swarm.directories);
        let clock = world.clock.clone();
        RemoteCheckpoints {
            start: Box::new(Starter { of: self.clone(), disks, clock }),
            image: ImageSettings { copy: SecondCopy::Memory, ..world.swarm.image(group) },
            limits: LIMITS,
            parts: world.swarm.checkpoint_parts,
            salt,
            epoch,
            log_is_direct: true,
        }
    }

    /// All of them, to be stepped like a stage of the database.
    pub(super) fn stage(&self) -> Box<dyn Stage> {
        Box::new(self.clone())
    }

    /// No process is killed from here on, because the last checkpoint has to be written.
    pub(super) fn quiet(&self) {
        self.0.is_quiet.store(true, Ordering::Relaxed);
    }

    /// The database's process has ended: its checkpoint processes make some more steps until they notice.
    pub(super) fn outlive(&mut self, world: &mut World) {
        let steps = world.rng.below(STEPS_BEYOND + 1);
        for _ in 0..steps {
            if world.disk.has_crashed() || !self.are_there() {
                break;
            }
            self.step_one(world.clock.now_ns());
        }
        self.0.slots.lock().clear();
    }

    fn are_there(&self) -> bool {
        self.0.slots.lock().iter().any(|slot| slot.lock().is_some())
    }

    /// Steps one of them that has work, chosen by chance.
    fn step_one(&self, now_ns: u64) -> Step {
        let slots = self.0.slots.lock().clone();
        let mut until_ns: Option<u64> = None;
        for slot in slots {
            let mut running = slot.lock();
            let Some(process) = running.as_mut().filter(|process| !process.hangs) else { continue };
            let (first, is_struck, hangs) = {
                let mut rng = self.0.rng.lock();
                let is_quiet = self.0.is_quiet.load(Ordering::Relaxed);
                let first = rng.next_u64() as usize;
                let is_struck = !is_quiet && one_in(&mut rng, self.0.kills);
                (first, is_struck, is_struck && one_in(&mut rng, HANGS))
            };
            if is_struck {
                process.hangs = hangs;
                if !hangs {
                    *running = None;
                }
                return Step::Progress;
            }
            match process.step(first, now_ns) {
                Step::Progress => return Step::Progress,
                Step::Ended => {
                    *running = None;
                    return Step::Progress;
                }
                Step::IdleUntil(until) => {
                    until_ns = [until_ns, until].into_iter().flatten().min();
                }
            }
        }
        Step::IdleUntil(until_ns)
    }
}

impl Running {
    /// Steps the first of its parts from `first` on that has work.
    fn step(&mut self, first: usize, now_ns: u64) -> Step {
        let mut until_ns: Option<u64> = None;
        let parts = 1 + self.stages.len();
        for at in (0..parts).map(|n| (first.wrapping_add(n)) % parts) {
            let step = match at {
                0 if self.has_ended => continue,
                0 => self.process.step(now_ns),
                n => self.stages[n - 1].step(now_ns),
            };
            match (step, at) {
                (Step::IdleUntil(until), _) => {
                    until_ns = [until_ns, until].into_iter().flatten().min();
                    continue;
                }
                (Step::Progress, _) => {}
                (Step::Ended, 0) => self.has_ended = true,
                (Step::Ended, n) => drop(self.stages.remove(n - 1)),
            }
            self.stages.extend(self.process.take_stages().into_iter().map(|(stage, _)| stage));
            let is_over = self.has_ended && self.stages.is_empty();
            return if is_over { Step::Ended } else { Step::Progress };
        }
        Step::IdleUntil(until_ns)
    }
}

impl Stage for Companions {
    fn kind(&self) -> StageKind {
        StageKind::Checkpoint
    }

    fn step(&mut self, now_ns: u64) -> Step {
        match self.step_one(now_ns) {
            Step::IdleUntil(_) if self.0.is_closed.load(Ordering::Relaxed) && !self.are_there() => {
                Step::Ended
            }
            step => step,
        }
    }

    fn retire(self: Box<Self>) {}

    fn worked(&self, _: u64) {}
}

/// Starts processes of the world.
struct Starter {
    of: Companions,
    disks: Vec<Arc<dyn Disk>>,
    clock: SimClock,
}

impl StartCompanion for Starter {
    fn start(&mut self) -> Result<Companion, String> {
        let Shared { rng, link, is_quiet, slots, .. } = &*self.of.0;
        let mut faults = *link;
        let mut rng = rng.lock();
        faults.cut_after = match is_quiet.load(Ordering::Relaxed) {
            false if faults.cut_after < u64::MAX => rng.below(faults.cut_after + 1),
            _ => u64::MAX,
        };
        let (own, other) = memory_pair(faults, rng.next_u64());
        drop(rng);
        let clock = Arc::new(self.clock.clone());
        let process = CheckpointProcess::new(Box::new(other), self.disks.clone(), clock);
        let running = Running { process, has_ended: false, hangs: false, stages: Vec::new() };
        let slot: Slot = Arc::new(Mutex::new(Some(running)));
        slots.lock().push(Arc::clone(&slot));
        Ok(Companion { link: Box::new(own), process: Box::new(Killed(slot)) })
    }
}

impl Drop for Starter {
    fn drop(&mut self) {
        self.of.0.is_closed.store(true, Ordering::Relaxed);
    }
}

/// A process as the one that started it sees it.
struct Killed(Slot);

impl Process for Killed {
    fn ended(&mut self) -> Option<String> {
        self.0.lock().is_none().then(|| "it was killed".to_owned())
    }

    fn kill(&mut self) {
        *self.0.lock() = None;
    }
}
