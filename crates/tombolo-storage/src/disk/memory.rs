//! `MemDisk`: a disk in memory, for tests and for databases that need no files.
//!
//! Files are sparse: what was never written takes no memory. A [`Fault`] makes the n-th call of an
//! operation and all later ones fail; a capacity makes the disk full. Not here: crashes (the
//! simulator's disk loses what was not synced; this one loses nothing).

use std::collections::BTreeMap;
use std::io;

use super::{ALIGNMENT_MAX, Disk, DiskError, DiskFile, Open, Operation, assert_plain};
use crate::sync::{Arc, Mutex};

const CHUNK_BYTES: usize = 64 << 10;

/// From which call on an operation fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The operation.
    pub operation: Operation,
    /// How many more calls of it succeed.
    pub after: u64,
    /// What the others fail with.
    pub kind: io::ErrorKind,
}

/// A disk in memory. Clones are the same disk.
#[derive(Clone, Debug, Default)]
pub struct MemDisk {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    files: BTreeMap<String, Arc<Mutex<Content>>>,
    control: Arc<Mutex<Control>>,
}

/// What decides whether a call succeeds.
#[derive(Debug, Default)]
struct Control {
    fault: Option<Fault>,
    capacity_bytes: Option<u64>,
    used_bytes: u64,
    /// What files opened for direct access demand; 0 counts as 1.
    alignment: usize,
}

#[derive(Debug, Default)]
struct Content {
    len: u64,
    chunks: BTreeMap<u64, Box<[u8]>>,
    locked: bool,
}

impl MemDisk {
    /// An empty disk without limit.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets the disk hold at most `bytes`, counted as the lengths of its files; `None` lifts the
    /// limit.
    pub fn set_capacity_bytes(&self, bytes: Option<u64>) {
        self.control().lock().capacity_bytes = bytes;
    }

    /// Lets files that are opened for direct access from now on demand this alignment.
    ///
    /// # Panics
    /// When it is none a file may demand.
    pub fn set_alignment(&self, bytes: usize) {
        assert!(bytes.is_power_of_two() && bytes <= ALIGNMENT_MAX, "an alignment of {bytes}");
        self.control().lock().alignment = bytes;
    }

    /// Plans a failure, or with `None` ends it.
    pub fn set_fault(&self, fault: Option<Fault>) {
        self.control().lock().fault = fault;
    }

    fn control(&self) -> Arc<Mutex<Control>> {
        Arc::clone(&self.state.lock().control)
    }

    fn permit(&self, operation: Operation, name: &str) -> Result<(), DiskError> {
        let permitted = self.control().lock().permit(operation);
        permitted.map_err(|cause| DiskError::new(operation, name, None, &cause))
    }
}

impl Control {
    fn permit(&mut self, operation: Operation) -> io::Result<()> {
        match &mut self.fault {
            Some(fault) if fault.operation == operation => {
                if fault.after == 0 {
                    return Err(fault.kind.into());
                }
                fault.after -= 1;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn resize(&mut self, from: u64, to: u64) -> io::Result<()> {
        let used = self.used_bytes - from + to;
        if to > from && self.capacity_bytes.is_some_and(|capacity| used > capacity) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.used_bytes = used;
        Ok(())
    }
}

impl MemDisk {
    fn open_aligned(
        &self,
        name: &str,
        how: Open,
        alignment: usize,
    ) -> Result<Box<dyn DiskFile>, DiskError> {
        assert_plain(name);
        self.permit(Operation::Open, name)?;
        let refuse =
            |kind: io::ErrorKind| Err(DiskError::new(Operation::Open, name, None, &kind.into()));
        let mut state = self.state.lock();
        let content = match (state.files.get(name), how) {
            (Some(_), Open::New) => return refuse(io::ErrorKind::AlreadyExists),
            (None, Open::Read | Open::Write) => return refuse(io::ErrorKind::NotFound),
            (Some(content), _) => Arc::clone(content),
            (None, Open::New) => {
                let content = Arc::default();
                state.files.insert(name.to_owned(), Arc::clone(&content));
                content
            }
        };
        let control = Arc::clone(&state.control);
        Ok(Box::new(MemFile {
            name: name.to_owned(),
            content,
            control,
            writable: how != Open::Read,
            alignment,
            locks: Mutex::new(false),
        }))
    }
}

impl Disk for MemDisk {
    fn open(&self, name: &str, how: Open) -> Result<Box<dyn DiskFile>, DiskError> {
        self.open_aligned(name, how, 1)
    }

    fn open_direct(&self, name: &str, how: Open) -> Result<Box<dyn DiskFile>, DiskError> {
        let alignment = self.control().lock().alignment.max(1);
        self.open_aligned(name, how, alignment)
    }

    fn list(&self) -> Result<Vec<String>, DiskError> {
        self.permit(Operation::List, ".")?;
        Ok(self.state.lock().files.keys().cloned().collect())
    }

    fn exists(&self, name: &str) -> Result<bool, DiskError> {
        self.permit(Operation::Inspect, name)?;
        Ok(self.state.lock().files.contains_key(name))
    }

    fn remove(&self, name: &str) -> Result<(), DiskError> {
        self.permit(Operation::Remove, name)?;
        let mut state = self.state.lock();
        let Some(content) = state.files.remove(name) else {
            let cause = io::ErrorKind::NotFound.into();
            return Err(DiskError::new(Operation::Remove, name, None, &cause));
        };
        state.control.lock().used_bytes -= content.lock().len;
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), DiskError> {
        assert_plain(to);
        self.permit(Operation::Rename, from)?;
        let mut state = self.state.lock();
        let Some(content) = state.files.remove(from) else {
            let cause = io::ErrorKind::NotFound.into();
            return Err(DiskError::new(Operation::Rename, from, None, &cause));
        };
        if let Some(replaced) = state.files.insert(to.to_owned(), content) {
            state.control.lock().used_bytes -= replaced.lock().len;
        }
        Ok(())
    }

    fn sync_dir(&self) -> Result<(), DiskError> {
        self.permit(Operation::Sync, ".")
    }
}

#[derive(Debug)]
struct MemFile {
    name: String,
    content: Arc<Mutex<Content>>,
    control: Arc<Mutex<Control>>,
    writable: bool,
    alignment: usize,
    /// Whether this handle holds the file's lock.
    locks: Mutex<bool>,
}

impl Drop for MemFile {
    fn drop(&mut self) {
        if *self.locks.lock() {
            self.content.lock().locked = false;
        }
    }
}

impl MemFile {
    fn attempt<T>(
        &self,
        operation: Operation,
        offset: Option<u64>,
        call: impl FnOnce(&mut Content, &mut Control) -> io::Result<T>,
    ) -> Result<T, DiskError> {
        let mut content = self.content.lock();
        let mut control = self.control.lock();
        let writes = matches!(operation, Operation::Write | Operation::SetLen);
        let result = control.permit(operation).and_then(|()| match writes && !self.writable {
            true => Err(io::ErrorKind::PermissionDenied.into()),
            false => call(&mut content, &mut control),
        });
        result.map_err(|cause| DiskError::new(operation, &self.name, offset, &cause))
    }

    fn check_alignment(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let places = [bytes.as_ptr() as usize as u64, bytes.len() as u64, offset];
        match places.iter().all(|place| place.is_multiple_of(self.alignment as u64)) {
            true => Ok(()),
            false => Err(io::ErrorKind::InvalidInput.into()),
        }
    }
}

/// The pieces of `[offset, offset + bytes)` as (chunk, where in it, where in the range, length).
fn pieces(offset: u64, bytes: usize) -> impl Iterator<Item = (u64, usize, usize, usize)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = offset + done as u64;
        let (chunk, start) = (at / CHUNK_BYTES as u64, (at % CHUNK_BYTES as u64) as usize);
        let length = (CHUNK_BYTES - start).min(bytes - done);
        let piece = (chunk, start, done, length);
        done += length;
        (length > 0).then_some(piece)
    })
}

impl DiskFile for MemFile {
    fn name(&self) -> &str {
        &self.name
    }

    fn alignment(&self) -> usize {
        self.alignment
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> Result<(), DiskError> {
        self.attempt(Operation::Read, Some(offset), |content, _| {
            self.check_alignment(bytes, offset)?;
            if offset + bytes.len() as u64 > content.len {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            for (chunk, start, at, length) in pieces(offset, bytes.len()) {
                let to = &mut bytes[at..at + length];
                match content.chunks.get(&chunk) {
                    Some(from) => to.copy_from_slice(&from[start..start + length]),
                    None => to.fill(0),
                }
            }
            Ok(())
        })
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), DiskError> {
        self.attempt(Operation::Write, Some(offset), |content, control| {
            self.check_alignment(bytes, offset)?;
            let len = content.len.max(offset + bytes.len() as u64);
            control.resize(content.len, len)?;
            content.len = len;
            for (chunk, start, at, length) in pieces(offset, bytes.len()) {
                let to = content.chunks.entry(chunk);
                let to = to.or_insert_with(|| vec![0; CHUNK_BYTES].into_boxed_slice());
                to[start..start + length].copy_from_slice(&bytes[at..at + length]);
            }
            Ok(())
        })
    }

    fn sync(&self) -> Result<(), DiskError> {
        self.attempt(Operation::Sync, None, |_, _| Ok(()))
    }

    fn set_len(&self, bytes: u64) -> Result<(), DiskError> {
        self.attempt(Operation::SetLen, Some(bytes), |content, control| {
            control.resize(content.len, bytes)?;
            let (last, rest) = (bytes / CHUNK_BYTES as u64, (bytes % CHUNK_BYTES as u64) as usize);
            content.chunks.split_off(&(last + 1));
            if let Some(chunk) = content.chunks.get_mut(&last) {
                chunk[rest..].fill(0);
            }
            content.len = bytes;
            Ok(())
        })
    }

    fn len(&self) -> Result<u64, DiskError> {
        self.attempt(Operation::Inspect, None, |content, _| Ok(content.len))
    }

    fn try_lock(&self) -> Result<bool, DiskError> {
        let mut locks = self.locks.lock();
        self.attempt(Operation::Lock, None, |content, _| {
            let taken = *locks || !content.locked;
            *locks = taken;
            content.locked = content.locked || taken;
            Ok(taken)
        })
    }
}
