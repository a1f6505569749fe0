//! What becomes of a database some of whose files are of another copy, which continued by itself.
//!
//! ```text
//!   recovered ─copy─► continues, checkpoints ──────────────► opened
//!        └────copy─► continues otherwise ─► one ring's file ───┘
//! ```
//!
//! Each file is intact, and nothing shows whose it is where both copies wrote the same checkpoint. So
//! the rows may be those of two histories; but a database that opens is sound, every value a row names is
//! there, and nothing panics. Only where the medium keeps its promises. Not here: files that are
//! damaged (`World::rehearse_rot`).

use tombolo_engine::rng::Rng;
use tombolo_storage::disk::Disk;
use tombolo_storage::store::Store;

use super::{Engine, HARD_LIVES_MAX, World};
use crate::faults::{FaultKind, one_in};
use crate::oracle::{Rule, Violation};
use crate::trace::Trace;
use crate::workload::store::contents;

/// How long a copy continues, in transactions.
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
        self.struck.add(FaultKind::FilesMixed);
        // A refusal is best.
        let Ok(mut engine) = E::start(&copy.disk, &self.swarm, false) else { return Ok(()) };
        let unsound = |what: String| {
            let what = format!("with {name} of another copy, {what}");
            Err(Violation::new(Rule::SoundStore, what))
        };
        match (engine.store().check().first(), contents(engine.store())) {
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
        disk.set_faults(self.swarm.faults.patient());
        let mut world = World {
            disk,
            trace: Trace::new(false),
            rng: Rng::from_seed(self.rng.next_u64()),
            requests: Rng::from_seed(self.rng.next_u64()),
            transactions: self.swarm.transactions - TRANSACTIONS,
            // Nothing strikes any more.
            lives: HARD_LIVES_MAX + 1,
            ..self.clone()
        };
        let Ok(engine) = E::start(&world.disk, &world.swarm, false) else { return Ok(None) };
        engine.live(&mut world)?;
        world.disk.restart_process();
        Ok(Some(world))
    }
}
