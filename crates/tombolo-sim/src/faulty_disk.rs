//! A disk that does to files what disks, caches and file systems do at their worst.
//!
//! # Fault model
//! - *Crash*: a budget of I/O steps (writes, syncs, changes of length, of the directory) counts
//!   down; the step that finds none left is done in part and fails, as does every later call. At
//!   [`FaultyDisk::restart`] each sector that was not synced survives or not, by itself, whole or
//!   torn, in any of the versions it had; so do lengths and directory entries.
//! - *Failed sync*: some of what was dirty is on the medium, all of it is called clean, as Linux
//!   does: reads still see it, a later sync says yes, a crash takes it away. Of a file opened for
//!   direct access nothing was in the system's cache: the device still holds what it held.
//! - *Lying sync*, *lost write*, *misdirected write*, *rot*: the medium breaks its promise and reports nothing.
//! - *Failed write*: a part of it arrives. *Full*: nothing of it does.
//! - *Failed read*, *short read*: once; the next one is well.
//!
//! A machine may have several directories ([`FaultyDisk::directory`]): each is synced by itself, all
//! stop together. Every choice comes from one seeded generator, every operation takes simulated time. Handles
//! opened before a restart are dead after it. Not modelled: a directory that refuses to be listed,
//! names that change on the medium, a device that is merely slow for minutes.

mod content;
mod file;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io;

use tombolo_engine::clock::Clock;
use tombolo_engine::rng::Rng;
use tombolo_storage::disk::{Disk, DiskError, DiskFile, Open, Operation};
use tombolo_storage::sync::{Arc, Mutex};

use crate::clock::SimClock;
use crate::fault::{FaultCounts, FaultKind, Faults, Survival, one_in};
use crate::trace::{Trace, number_of};
use content::{Arrival, Content};
use file::SimFile;

/// What every call fails with once the machine has stopped.
pub const CRASH: &str = "the simulated machine has stopped";

/// A simulated disk, as seen from one of its directories. Clones are the same disk;
/// [`FaultyDisk::copy`] makes another one.
#[derive(Clone, Debug)]
pub struct FaultyDisk {
    state: Arc<Mutex<State>>,
    clock: SimClock,
    directory: usize,
}

/// A directory's number, and a name in it.
type Path = (usize, String);

#[derive(Clone, Debug)]
struct State {
    rng: Rng,
    faults: Faults,
    trace: Trace,
    counts: FaultCounts,
    /// Steps until the crash.
    budget: Option<u64>,
    crashed: bool,
    /// Steps taken so far, over all restarts.
    steps: u64,
    /// Restarts so far: distinguishes live handles from dead ones.
    generation: u64,
    entries: BTreeMap<Path, usize>,
    durable_entries: BTreeMap<Path, usize>,
    /// Entries made and removed since the directory was synced, oldest first.
    unsynced_entries: Vec<(Path, Option<usize>)>,
    files: Vec<Content>,
    capacity_bytes: Option<u64>,
}

impl FaultyDisk {
    /// An empty disk whose choices follow from `seed`.
    pub fn new(seed: u64, faults: Faults, clock: SimClock, trace: Trace) -> Self {
        let state = State {
            rng: Rng::stream(seed, &[number_of("disk")]),
            faults,
            trace,
            counts: FaultCounts::default(),
            budget: None,
            crashed: false,
            steps: 0,
            generation: 0,
            entries: BTreeMap::new(),
            durable_entries: BTreeMap::new(),
            unsynced_entries: Vec::new(),
            files: Vec::new(),
            capacity_bytes: None,
        };
        Self { state: Arc::new(Mutex::new(state)), clock, directory: 0 }
    }

    /// The same disk, seen from its directory `number`; the first is 0.
    pub fn directory(&self, number: usize) -> Self {
        Self { directory: number, ..self.clone() }
    }

    fn path(&self, name: &str) -> Path {
        (self.directory, name.to_owned())
    }

    /// Another disk with the same bytes, faults and future.
    pub fn copy(&self) -> Self {
        let state = self.state.lock().clone();
        Self { state: Arc::new(Mutex::new(state)), clock: self.clock.clone(), ..*self }
    }

    /// Flips one bit of the medium, whatever else would rot, and starts the machine again; says in
    /// which file, and where.
    pub fn rot_now(&self) -> Option<(String, u64)> {
        let faults = self.faults();
        self.set_faults(Faults { rot: 0, ..faults });
        self.restart();
        let place = self.state.lock().rot();
        self.restart();
        self.set_faults(faults);
        place
    }

    /// Puts the file `name` of another disk in the place of this one's, as a user might who mixes copies.
    ///
    /// # Panics
    /// When one of the disks has no such file.
    pub fn replace_file(&self, name: &str, of: &Self) {
        let content = {
            let other = of.state.lock();
            other.files[other.entries[&of.path(name)]].clone()
        };
        let mut state = self.state.lock();
        let file = state.entries[&self.path(name)];
        state.files[file] = content;
    }

    /// Lets the machine stop when `steps` more steps were taken; `None` calls it off.
    pub fn crash_after(&self, steps: Option<u64>) {
        self.state.lock().budget = steps;
    }

    /// Whether the machine has stopped.
    pub fn has_crashed(&self) -> bool {
        self.state.lock().crashed
    }

    /// Stops the machine between two steps.
    pub fn crash_now(&self) {
        self.state.lock().crashed = true;
    }

    /// Whether there is a file of this name in any directory.
    pub fn holds(&self, name: &str) -> bool {
        self.state.lock().entries.keys().any(|(_, other)| other == name)
    }

    /// How many steps were taken so far.
    pub fn steps(&self) -> u64 {
        self.state.lock().steps
    }

    /// What strikes from now on.
    pub fn set_faults(&self, faults: Faults) {
        self.state.lock().faults = faults;
    }

    /// What strikes now.
    pub fn faults(&self) -> Faults {
        self.state.lock().faults
    }

    /// How often each kind struck so far.
    pub fn counts(&self) -> FaultCounts {
        self.state.lock().counts
    }

    /// Lets all files together be at most `bytes` long; `None` lifts the limit.
    pub fn set_capacity_bytes(&self, bytes: Option<u64>) {
        self.state.lock().capacity_bytes = bytes;
    }

    /// Whether all files together may not be longer than some limit.
    pub fn is_limited(&self) -> bool {
        self.state.lock().capacity_bytes.is_some()
    }

    /// The length of all files together.
    pub fn used_bytes(&self) -> u64 {
        self.state.lock().used_bytes()
    }

    /// The machine starts again: what was not synced survives or not, rot strikes or not.
    pub fn restart(&self) {
        let mut state = self.state.lock();
        let State { rng, faults, counts, durable_entries, unsynced_entries, .. } = &mut *state;
        let unsynced = std::mem::take(unsynced_entries);
        settle_entries(durable_entries, unsynced, faults.survival, rng, counts);
        state.entries = state.durable_entries.clone();
        state.restart_files();
        let rate = state.faults.rot;
        if one_in(&mut state.rng, rate) {
            state.rot();
            state.restart_files();
        }
        state.budget = None;
        state.crashed = false;
        state.generation += 1;
        let State { generation, trace, .. } = &*state;
        trace.event(&[number_of("restart"), *generation], || format!("restart {generation}"));
    }

    /// The process ends and the machine runs on: handles die, nothing is lost, nothing more is
    /// durable.
    pub fn restart_process(&self) {
        let mut state = self.state.lock();
        state.files.iter_mut().for_each(|content| content.locked = false);
        state.budget = None;
        state.generation += 1;
        let State { generation, trace, .. } = &*state;
        trace.event(&[number_of("process"), *generation], || format!("process {generation}"));
    }

    /// Removes every file, durably, as a user might who gives a database up.
    pub fn wipe(&self) {
        let mut state = self.state.lock();
        state.entries.clear();
        state.durable_entries.clear();
        state.unsynced_entries.clear();
        state.generation += 1;
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

    fn perform<T>(
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

fn crash() -> io::Error {
    io::Error::other(CRASH)
}

/// What a crash leaves of directory entries: each survives by itself, those that do in their order.
fn settle_entries(
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
    fn step(&mut self) -> io::Result<()> {
        self.steps += 1;
        if let Some(left) = &mut self.budget {
            if *left == 0 {
                self.crashed = true;
                return Err(crash());
            }
            *left -= 1;
        }
        Ok(())
    }

    fn restart_files(&mut self) {
        let Self { files, faults, rng, counts, .. } = self;
        files.iter_mut().for_each(|content| content.restart(faults, rng, counts));
    }

    fn used_bytes(&self) -> u64 {
        self.entries.values().map(|&file| self.files[file].cache.len() as u64).sum()
    }

    fn admit_growth(&mut self, file: usize, to: usize) -> io::Result<()> {
        let grown = to.saturating_sub(self.files[file].cache.len()) as u64;
        let full = |capacity| self.used_bytes() + grown > capacity;
        if grown > 0 && self.capacity_bytes.is_some_and(full) {
            self.counts.add(FaultKind::DiskFull);
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }

    fn write(&mut self, file: usize, bytes: &[u8], offset: usize) -> io::Result<()> {
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

    fn sync(&mut self, file: usize, is_direct: bool) -> io::Result<()> {
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

    fn read(&mut self, file: usize, bytes: &mut [u8], offset: usize) -> io::Result<()> {
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
    fn rot(&mut self) -> Option<(String, u64)> {
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

impl FaultyDisk {
    fn open_aligned(
        &self,
        name: &str,
        how: Open,
        alignment: usize,
    ) -> Result<Box<dyn DiskFile>, DiskError> {
        let path = self.path(name);
        let (file, generation) = self.perform(Operation::Open, name, None, |state| {
            let file = match (state.entries.get(&path), how) {
                (Some(_), Open::New) => return Err(io::ErrorKind::AlreadyExists.into()),
                (None, Open::Read | Open::Write) => return Err(io::ErrorKind::NotFound.into()),
                (Some(&file), _) => file,
                (None, Open::New) => {
                    state.step()?;
                    let file = state.files.len();
                    state.files.push(Content::default());
                    state.entries.insert(path.clone(), file);
                    state.unsynced_entries.push((path, Some(file)));
                    file
                }
            };
            Ok((file, state.generation))
        })?;
        Ok(Box::new(SimFile {
            disk: self.clone(),
            name: name.to_owned(),
            file,
            generation,
            writable: how != Open::Read,
            alignment,
            has_lock: Mutex::new(false),
        }))
    }
}

impl Disk for FaultyDisk {
    fn open(&self, name: &str, how: Open) -> Result<Box<dyn DiskFile>, DiskError> {
        self.open_aligned(name, how, 1)
    }

    fn open_direct(&self, name: &str, how: Open) -> Result<Box<dyn DiskFile>, DiskError> {
        self.open_aligned(name, how, self.faults().alignment)
    }

    fn list(&self) -> Result<Vec<String>, DiskError> {
        self.perform(Operation::List, ".", None, |state| {
            let here = state.entries.keys().filter(|(directory, _)| *directory == self.directory);
            Ok(here.map(|(_, name)| name.clone()).collect())
        })
    }

    fn exists(&self, name: &str) -> Result<bool, DiskError> {
        let path = self.path(name);
        self.perform(Operation::Inspect, name, None, |state| Ok(state.entries.contains_key(&path)))
    }

    fn remove(&self, name: &str) -> Result<(), DiskError> {
        let path = self.path(name);
        self.perform(Operation::Remove, name, None, |state| {
            if !state.entries.contains_key(&path) {
                return Err(io::ErrorKind::NotFound.into());
            }
            state.step()?;
            state.entries.remove(&path);
            state.unsynced_entries.push((path, None));
            Ok(())
        })
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), DiskError> {
        let (old, new) = (self.path(from), self.path(to));
        self.perform(Operation::Rename, from, None, |state| {
            let Some(&file) = state.entries.get(&old) else {
                return Err(io::ErrorKind::NotFound.into());
            };
            state.step()?;
            state.entries.remove(&old);
            state.entries.insert(new.clone(), file);
            state.unsynced_entries.extend([(new, Some(file)), (old, None)]);
            Ok(())
        })
    }

    fn sync_dir(&self) -> Result<(), DiskError> {
        self.perform(Operation::Sync, ".", None, |state| {
            state.step()?;
            let State { rng, faults, counts, entries, durable_entries, unsynced_entries, .. } =
                &mut *state;
            let here = self.directory;
            if one_in(rng, faults.sync_fails) {
                counts.add(FaultKind::SyncFailed);
                let unsynced =
                    unsynced_entries.extract_if(.., |(path, _)| path.0 == here).collect();
                settle_entries(durable_entries, unsynced, faults.survival, rng, counts);
                return Err(io::Error::other("simulated device error"));
            }
            if one_in(rng, faults.sync_lies) {
                counts.add(FaultKind::SyncLied);
                return Ok(());
            }
            unsynced_entries.retain(|(path, _)| path.0 != here);
            durable_entries.retain(|path, _| path.0 != here);
            let own = entries.iter().filter(|(path, _)| path.0 == here);
            durable_entries.extend(own.map(|(path, &file)| (path.clone(), file)));
            Ok(())
        })
    }
}
