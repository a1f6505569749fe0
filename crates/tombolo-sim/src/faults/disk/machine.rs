//! The simulated machine's state: names, files, and the steps that fault or not.
//!
//! Not here: what a crash leaves of a file (`content.rs`), directories and handles (`mod.rs`, `file.rs`).

use std::collections::BTreeMap;
use std::io;

use tombolo_engine::clock::Clock;
use tombolo_engine::rng::Rng;
use tombolo_storage::disk::{DiskError, Operation};
use tombolo_storage::sync::{Arc, Mutex, MutexGuard};

use super::content::{Arrival, Content};
use crate::clock::SimClock;
use crate::faults::kinds::{FaultCounts, FaultKind, Faults, Survival, one_in};
use crate::trace::{Trace, number_of};

/// What every call fails with once the machine has stopped.
pub(super) const CRASH: &str = "the simulated machine has stopped";

/// A directory's number, and a name in it.
pub(super) type Path = (usize, String);

#[derive(Clone, Debug)]
pub(super) struct State {
    pub(super) rng: Rng,
    pub(super) faults: Faults,
    pub(super) trace: Trace,
    pub(super) counts: FaultCounts,
    /// Steps until the crash.
    pub(super) budget: Option<u64>,
    pub(super) crashed: bool,
    /// Restarts so far: distinguishes live handles from dead ones.
    pub(super) generation: u64,
    pub(super) entries: BTreeMap<Path, usize>,
    pub(super) durable_entries: BTreeMap<Path, usize>,
    /// Entries made and removed since the directory was synced, oldest first.
    pub(super) unsynced_entries: Vec<(Path, Option<usize>)>,
    pub(super) files: Vec<Content>,
    pub(super) capacity_bytes: Option<u64>,
}

/// The machine, as its directories and its open files share it. Clones are the same machine.
#[derive(Clone, Debug)]
pub(super) struct Machine {
    state: Arc<Mutex<State>>,
    clock: SimClock,
}

impl Machine {
    pub(super) fn new(state: State, clock: SimClock) -> Self {
        Self { state: Arc::new(Mutex::new(state)), clock }
    }

    /// Another machine in the same state.
    pub(super) fn copy(&self) -> Self {
        Self::new(self.lock().clone(), self.clock.clone())
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    fn wait(&self, operation: Operation) {
        let ns = {
            let mut state = self.state.lock();
            let (short, sync) = state.faults.latency_ns;
            let base = if operation == Operation::Sync { sync } else { short };
            // Mostly the shortest, sometimes twice it, rarely sixteen times.
            let tail = if one_in(&mut state.rng, 64) { base * 15 } else { base };
            base + state.rng.below(tail + 1)
        };
        self.clock.wait(ns);
    }

    /// A call to the disk: takes time, and leaves an event.
    pub(super) fn perform<T>(
        &self,
        operation: Operation,
        name: &str,
        place: Option<(u64, usize)>,
        call: impl FnOnce(&mut State) -> io::Result<T>,
    ) -> Result<T, DiskError> {
        self.wait(operation);
        let mut state = self.state.lock();
        let result = if state.crashed { Err(crash()) } else { call(&mut state) };
        let (offset, bytes) = place.unwrap_or_default();
        let (what, end) = (operation as u64 * 2 + u64::from(result.is_ok()), self.clock.now_ns());
        let numbers = [what, number_of(name), offset, bytes as u64, end];
        state.trace.event(&numbers, || {
            let end = match &result {
                Ok(_) => "ok".to_string(),
                Err(error) => error.to_string(),
            };
            format!("  disk: {operation:?} {name} at {offset}, {bytes} bytes: {end}")
        });
        let offset = place.map(|(offset, _)| offset);
        result.map_err(|cause| DiskError::new(operation, name, offset, &cause))
    }
}

pub(super) fn crash() -> io::Error {
    io::Error::other(CRASH)
}

/// What a crash leaves of directory entries: each survives by itself, those that do in their order.
pub(super) fn settle_entries(
    durable: &mut BTreeMap<Path, usize>,
    unsynced: Vec<(Path, Option<usize>)>,
    survival: Survival,
    rng: &mut Rng,
    counts: &mut FaultCounts,
) {
    for (name, file) in unsynced {
        let survives = match survival {
            Survival::Nothing => false,
            Survival::Everything => true,
            Survival::Each(_) => one_in(rng, 2),
        };
        match (survives, file) {
            (true, Some(file)) => drop(durable.insert(name, file)),
            (true, None) => drop(durable.remove(&name)),
            (false, Some(_)) => counts.add(FaultKind::EntryLost),
            (false, None) => counts.add(FaultKind::EntryBack),
        }
    }
}

impl State {
    /// Takes a step, if the machine still runs.
    pub(super) fn step(&mut self) -> io::Result<()> {
        if let Some(left) = &mut self.budget {
            if *left == 0 {
                self.crashed = true;
                return Err(crash());
            }
            *left -= 1;
        }
        Ok(())
    }

    pub(super) fn restart_files(&mut self) {
        let Self { files, faults, rng, counts, .. } = self;
        files.iter_mut().for_each(|content| content.restart(faults, rng, counts));
    }

    pub(super) fn used_bytes(&self) -> u64 {
        self.entries.values().map(|&file| self.files[file].cache.len() as u64).sum()
    }

    pub(super) fn admit_growth(&mut self, file: usize, to: usize) -> io::Result<()> {
        let grown = to.saturating_sub(self.files[file].cache.len()) as u64;
        let full = |capacity| self.used_bytes() + grown > capacity;
        if grown > 0 && self.capacity_bytes.is_some_and(full) {
            self.counts.add(FaultKind::DiskFull);
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }

    pub(super) fn write(&mut self, file: usize, bytes: &[u8], offset: usize) -> io::Result<()> {
        self.admit_growth(file, offset + bytes.len())?;
        let stopped = self.step();
        let Faults { sector_bytes: sector, write_fails, write_lost, write_misdirected, .. } =
            self.faults;
        if stopped.is_err() || one_in(&mut self.rng, write_fails) {
            // The front of it was on its way.
            let part = self.rng.below(bytes.len() as u64 + 1) as usize;
            let whole_sectors = part - part % sector;
            self.files[file].write(&bytes[..whole_sectors], offset, sector, Arrival::Here);
            stopped?;
            self.counts.add(FaultKind::WriteFailed);
            return Err(io::Error::other("simulated device error"));
        }
        if one_in(&mut self.rng, write_lost) {
            self.counts.add(FaultKind::WriteLost);
            self.files[file].write(bytes, offset, sector, Arrival::Nowhere);
        } else if one_in(&mut self.rng, write_misdirected) {
            self.misdirect(file, bytes, offset);
        } else {
            self.files[file].write(bytes, offset, sector, Arrival::Here);
        }
        Ok(())
    }

    fn misdirect(&mut self, file: usize, bytes: &[u8], offset: usize) {
        let sector = self.faults.sector_bytes;
        self.files[file].write(bytes, offset, sector, Arrival::Nowhere);
        let names = self.entries.len() as u64;
        let victim = self.entries.values().copied().nth(self.rng.below(names.max(1)) as usize);
        let victim = victim.unwrap_or(file);
        let sectors = self.files[victim].cache.len().div_ceil(sector) as u64;
        let elsewhere = self.rng.below(sectors.max(1)) as usize * sector;
        if (victim, elsewhere) != (file, offset) {
            self.counts.add(FaultKind::WriteMisdirected);
            self.files[victim].stray_write(bytes, elsewhere, sector);
        } else {
            self.counts.add(FaultKind::WriteLost);
        }
    }

    pub(super) fn sync(&mut self, file: usize, is_direct: bool) -> io::Result<()> {
        self.step()?;
        let Faults { sector_bytes, sync_fails, sync_lies, .. } = self.faults;
        if one_in(&mut self.rng, sync_fails) {
            self.counts.add(FaultKind::SyncFailed);
            if !is_direct {
                let State { files, faults, rng, counts, .. } = self;
                files[file].lose_some(faults, rng, counts);
            }
            return Err(io::Error::other("simulated device error"));
        }
        if one_in(&mut self.rng, sync_lies) {
            self.counts.add(FaultKind::SyncLied);
            return Ok(());
        }
        self.files[file].sync(sector_bytes);
        Ok(())
    }

    pub(super) fn read(&mut self, file: usize, bytes: &mut [u8], offset: usize) -> io::Result<()> {
        if one_in(&mut self.rng, self.faults.read_fails) {
            self.counts.add(FaultKind::ReadFailed);
            return Err(io::Error::other("simulated device error"));
        }
        let from = &self.files[file].cache;
        let Some(found) = from.get(offset..offset + bytes.len()) else {
            return Err(io::ErrorKind::UnexpectedEof.into());
        };
        bytes.copy_from_slice(found);
        if one_in(&mut self.rng, self.faults.read_short) {
            self.counts.add(FaultKind::ReadShort);
            let part = self.rng.below(bytes.len() as u64 + 1) as usize;
            bytes[part..].fill(0);
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(())
    }

    /// Flips one bit of the medium, half of the time one that was written to; says where.
    pub(super) fn rot(&mut self) -> Option<(String, u64)> {
        let total: usize = self.entries.values().map(|&file| self.files[file].medium_bytes()).sum();
        let mut at = self.rng.below(total.max(1) as u64) as usize;
        for ((_, name), &file) in &self.entries {
            let bytes = self.files[file].medium_bytes();
            if at >= bytes {
                at -= bytes;
                continue;
            }
            if one_in(&mut self.rng, 2) {
                at = self.files[file].written_from(at).unwrap_or(at);
            }
            let bit = self.rng.below(8) as u32;
            self.files[file].flip(at, bit);
            self.counts.add(FaultKind::Rot);
            return Some((name.clone(), at as u64));
        }
        None
    }
}
