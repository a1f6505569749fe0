//! What becomes of a database some of whose files are of another copy that lived on by itself.
//!
//! ```text
//!   recovered ─copy─► lives on, checkpoints ───────────────► opened
//!        └────copy─► lives on otherwise ─► one ring's file ────┘
//! ```
//!
//! Each file is intact, and nothing shows whose it is where both copies wrote the same checkpoint. So
//! the rows may be those of two histories; but whatever opens is sound, every value a row names is
//! there, and nothing panics. Only where the medium keeps its promises. Not here: files that are
//! damaged (`World::rehearse_rot`).

use tombolo_engine::rng::Rng;
use tombolo_storage::disk::Disk;

use super::restores::Restores;
use super::{Engine, HARD_LIVES_MAX, World, patient};
use crate::fault::{FaultCounts, one_in};
use crate::history::{Rule, Violation};
use crate::trace::Trace;

/// How long a copy lives on, in transactions.
const TRANSACTIONS: u64 = 30;

impl World {
    /// Tries it, in some worlds and then now and then.
    pub(super) fn rehearse_mixed_files<E: Engine>(&mut self) -> Result<(), Violation> {
        let writes_image = self.swarm.has_checkpoints && self.swarm.has_values;
        let is_tried = one_in(&mut self.rng, self.swarm.mix_rehearsals);
        if !is_tried || !writes_image || self.disk.counts().any_broken_promise() {
            return Ok(());
        }
        let (Some(copy), Some(other)) = (self.copy_lived::<E>()?, self.copy_lived::<E>()?) else {
            return Ok(());
        };
        let directory = self.rng.below(self.swarm.directories as u64) as usize;
        let (here, there) = (copy.disk.directory(directory), other.disk.directory(directory));
        let of_both = there.list().unwrap_or_default();
        let mut names = here.list().unwrap_or_default();
        names.retain(|name| name.starts_with("image-0") && of_both.contains(name));
        if names.is_empty() {
            return Ok(());
        }
        let name = &names[self.rng.below(names.len() as u64) as usize];
        here.replace_file(name, &there);
        self.files_mixed += 1;
        // A refusal is what one hopes for.
        let Ok(mut engine) = E::start(&copy.disk, &self.swarm, false) else { return Ok(()) };
        let unsound = |what: String| {
            let what = format!("with {name} of another copy, {what}");
            Err(Violation::new(Rule::SoundStore, what))
        };
        match (engine.check().first(), engine.contents()) {
            (Some(damage), _) => unsound(format!("{}: {}", damage.check, damage.what)),
            (None, Err(what)) => unsound(what),
            (None, Ok(_)) => Ok(()),
        }
    }

    /// The world of a copy of the disk in which a while has passed since, if the copy starts.
    fn copy_lived<E: Engine>(&mut self) -> Result<Option<World>, Violation> {
        let disk = self.disk.copy();
        disk.restart_process();
        disk.set_capacity_bytes(None);
        disk.set_faults(patient(self.swarm.faults));
        let mut world = World {
            swarm: self.swarm.clone(),
            disk,
            clock: self.clock.clone(),
            trace: Trace::new(false),
            history: self.history.clone(),
            rng: Rng::from_seed(self.rng.next_u64()),
            requests: Rng::from_seed(self.rng.next_u64()),
            settings: Rng::from_seed(0),
            numbers: self.numbers.clone(),
            sent: self.sent.clone(),
            transactions: self.swarm.transactions - TRANSACTIONS,
            // Nothing strikes any more.
            lives: HARD_LIVES_MAX + 1,
            crashes: 0,
            recovery_crashes: 0,
            rot_rehearsals: 0,
            files_mixed: 0,
            given_up: 0,
            is_settled: true,
            at_restart: FaultCounts::default(),
            verified: FaultCounts::default(),
            restores: Restores::new(0),
        };
        let Ok(engine) = E::start(&world.disk, &world.swarm, false) else { return Ok(None) };
        engine.live(&mut world)?;
        world.disk.restart_process();
        Ok(Some(world))
    }
}
