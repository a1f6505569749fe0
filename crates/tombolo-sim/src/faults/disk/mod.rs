//! A disk that does to files what disks, caches and file systems do at their worst.
//!
//! # Fault model
//! - *Crash*: a budget of I/O steps (writes, syncs, changes of length, of the directory) counts
//!   down; the step that finds none left is done in part and fails, as does every later call. At
//!   [`FaultyDisk::restart`] each sector that was not synced survives or not, by itself, whole or
//!   torn, in any of the versions it had; so do lengths and directory entries.
//! - *Failed sync*: some of what was dirty is on the medium, all of it is called clean, as Linux
//!   does: reads still see it, a later sync succeeds, a crash takes it away. Of a file opened for
//!   direct access nothing was in the system's cache: the device still holds what it held.
//! - *Lying sync*, *lost write*, *misdirected write*, *rot*: the medium breaks its promise and reports nothing.
//! - *Failed write*: a part of it arrives. *Full*: nothing of it does.
//! - *Failed read*, *short read*: a read fails, or ends early; the next one succeeds.
//!
//! A machine may have several directories ([`FaultyDisk::directory`]): each is synced by itself, all
//! stop together. Every choice comes from one seeded generator, every operation takes simulated time. Handles
//! opened before a restart are dead after it. Not modelled: a directory that refuses to be listed,
//! names that change on the medium, a device that is merely slow for minutes.

mod content;
mod file;
mod machine;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io;

use tombolo_engine::rng::Rng;
use tombolo_storage::disk::{Disk, DiskError, DiskFile, Open, Operation};
use tombolo_storage::sync::{Arc, Mutex};

use super::kinds::{FaultCounts, FaultKind, Faults, one_in};
use crate::clock::SimClock;
use crate::trace::{Trace, number_of};
use content::Content;
use file::SimFile;
use machine::{Machine, Path, State, settle_entries};

/// A simulated disk, as seen from one of its directories. Clones are the same disk;
/// [`FaultyDisk::copy`] makes another one.
#[derive(Clone, Debug)]
pub struct FaultyDisk {
    machine: Machine,
    directory: usize,
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
            generation: 0,
            entries: BTreeMap::new(),
            durable_entries: BTreeMap::new(),
            unsynced_entries: Vec::new(),
            files: Vec::new(),
            capacity_bytes: None,
        };
        Self { machine: Machine::new(state, clock), directory: 0 }
    }

    /// The same disk, seen from its directory `number`; the first is 0.
    pub fn directory(&self, number: usize) -> Self {
        Self { directory: number, ..self.clone() }
    }

    /// Doors to the first `count` directories.
    pub(crate) fn directories(&self, count: usize) -> Vec<Arc<dyn Disk>> {
        (0..count).map(|number| Arc::new(self.directory(number)) as Arc<dyn Disk>).collect()
    }

    fn path(&self, name: &str) -> Path {
        (self.directory, name.to_owned())
    }

    /// Another disk with the same bytes, faults and future.
    pub fn copy(&self) -> Self {
        Self { machine: self.machine.copy(), ..*self }
    }

    /// Flips one bit of the medium, and no other, and starts the machine again; says in
    /// which file, and where.
    pub fn rot_now(&self) -> Option<(String, u64)> {
        let faults = self.faults();
        self.set_faults(Faults { rot: 0, ..faults });
        self.restart();
        let place = self.machine.lock().rot();
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
            let other = of.machine.lock();
            other.files[other.entries[&of.path(name)]].clone()
        };
        let mut state = self.machine.lock();
        let file = state.entries[&self.path(name)];
        state.files[file] = content;
    }

    /// Lets the machine stop when `steps` more steps were taken; `None` calls it off.
    pub fn crash_after(&self, steps: Option<u64>) {
        self.machine.lock().budget = steps;
    }

    /// Whether the machine has stopped.
    pub fn has_crashed(&self) -> bool {
        self.machine.lock().crashed
    }

    /// Whether there is a file of this name in any directory.
    pub fn holds(&self, name: &str) -> bool {
        self.machine.lock().entries.keys().any(|(_, other)| other == name)
    }

    /// What strikes from now on.
    pub fn set_faults(&self, faults: Faults) {
        self.machine.lock().faults = faults;
    }

    /// What strikes now.
    pub fn faults(&self) -> Faults {
        self.machine.lock().faults
    }

    /// How often each kind struck so far.
    pub fn counts(&self) -> FaultCounts {
        self.machine.lock().counts
    }

    /// Lets all files together be at most `bytes` long; `None` lifts the limit.
    pub fn set_capacity_bytes(&self, bytes: Option<u64>) {
        self.machine.lock().capacity_bytes = bytes;
    }

    /// Whether all files together may not be longer than some limit.
    pub fn is_limited(&self) -> bool {
        self.machine.lock().capacity_bytes.is_some()
    }

    /// The length of all files together.
    pub fn used_bytes(&self) -> u64 {
        self.machine.lock().used_bytes()
    }

    /// The machine starts again: what was not synced survives or not, rot strikes or not.
    pub fn restart(&self) {
        let mut state = self.machine.lock();
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
        let mut state = self.machine.lock();
        state.files.iter_mut().for_each(|content| content.locked = false);
        state.budget = None;
        state.generation += 1;
        let State { generation, trace, .. } = &*state;
        trace.event(&[number_of("process"), *generation], || format!("process {generation}"));
    }

    /// Removes every file, durably, as a user might who gives a database up.
    pub fn wipe(&self) {
        let mut state = self.machine.lock();
        state.entries.clear();
        state.durable_entries.clear();
        state.unsynced_entries.clear();
        state.generation += 1;
    }

    fn open_aligned(
        &self,
        name: &str,
        how: Open,
        alignment: usize,
    ) -> Result<Box<dyn DiskFile>, DiskError> {
        let path = self.path(name);
        let (file, generation) = self.machine.perform(Operation::Open, name, None, |state| {
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
            machine: self.machine.clone(),
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
        self.machine.perform(Operation::List, ".", None, |state| {
            let here = state.entries.keys().filter(|(directory, _)| *directory == self.directory);
            Ok(here.map(|(_, name)| name.clone()).collect())
        })
    }

    fn exists(&self, name: &str) -> Result<bool, DiskError> {
        let path = self.path(name);
        self.machine
            .perform(Operation::Inspect, name, None, |state| Ok(state.entries.contains_key(&path)))
    }

    fn remove(&self, name: &str) -> Result<(), DiskError> {
        let path = self.path(name);
        self.machine.perform(Operation::Remove, name, None, |state| {
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
        self.machine.perform(Operation::Rename, from, None, |state| {
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
        self.machine.perform(Operation::Sync, ".", None, |state| {
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
