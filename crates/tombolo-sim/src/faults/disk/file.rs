//! An open file of the faulty disk: what a process may do with it, until the machine or the process
//! ends.
//!
//! Not here: what happens to the bytes (`content.rs`), which fault strikes (`machine.rs`).

use std::io;

use tombolo_storage::disk::{DiskError, DiskFile, Operation};
use tombolo_storage::sync::Mutex;

use super::machine::{Machine, State, crash};

/// An open file.
#[derive(Debug)]
pub(super) struct SimFile {
    pub(super) machine: Machine,
    pub(super) name: String,
    pub(super) file: usize,
    pub(super) generation: u64,
    pub(super) writable: bool,
    pub(super) alignment: usize,
    pub(super) has_lock: Mutex<bool>,
}

impl Drop for SimFile {
    fn drop(&mut self) {
        let mut state = self.machine.lock();
        if *self.has_lock.lock() && state.generation == self.generation {
            state.files[self.file].locked = false;
        }
    }
}

impl SimFile {
    fn attempt<T>(
        &self,
        operation: Operation,
        place: Option<(u64, usize)>,
        call: impl FnOnce(&mut State, usize) -> io::Result<T>,
    ) -> Result<T, DiskError> {
        self.machine.perform(operation, &self.name, place, |state| {
            if state.generation != self.generation {
                return Err(crash());
            }
            let writes = matches!(operation, Operation::Write | Operation::SetLen);
            if writes && !self.writable {
                return Err(io::ErrorKind::PermissionDenied.into());
            }
            call(state, self.file)
        })
    }

    fn check_alignment(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let places = [bytes.as_ptr() as usize, bytes.len(), offset as usize];
        match places.iter().all(|place| place.is_multiple_of(self.alignment)) {
            true => Ok(()),
            false => Err(io::ErrorKind::InvalidInput.into()),
        }
    }
}

impl DiskFile for SimFile {
    fn name(&self) -> &str {
        &self.name
    }

    fn alignment(&self) -> usize {
        self.alignment
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> Result<(), DiskError> {
        let place = Some((offset, bytes.len()));
        self.attempt(Operation::Read, place, |state, file| {
            self.check_alignment(bytes, offset)?;
            state.read(file, bytes, offset as usize)
        })
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), DiskError> {
        let place = Some((offset, bytes.len()));
        self.attempt(Operation::Write, place, |state, file| {
            self.check_alignment(bytes, offset)?;
            state.write(file, bytes, offset as usize)
        })
    }

    fn sync(&self) -> Result<(), DiskError> {
        let is_direct = self.alignment > 1;
        self.attempt(Operation::Sync, None, |state, file| state.sync(file, is_direct))
    }

    fn set_len(&self, bytes: u64) -> Result<(), DiskError> {
        self.attempt(Operation::SetLen, Some((bytes, 0)), |state, file| {
            state.admit_growth(file, bytes as usize)?;
            state.step()?;
            let sector = state.faults.sector_bytes;
            state.files[file].set_len(bytes as usize, sector);
            Ok(())
        })
    }

    fn len(&self) -> Result<u64, DiskError> {
        self.attempt(Operation::Inspect, None, |state, file| {
            Ok(state.files[file].cache.len() as u64)
        })
    }

    fn try_lock(&self) -> Result<bool, DiskError> {
        self.attempt(Operation::Lock, None, |state, file| {
            let mut has_lock = self.has_lock.lock();
            let content = &mut state.files[file];
            let free = !content.locked || *has_lock;
            if free {
                (content.locked, *has_lock) = (true, true);
            }
            Ok(free)
        })
    }
}
