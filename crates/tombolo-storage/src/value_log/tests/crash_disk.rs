//! A disk that forgets what was not synced.
//!
//! Unsynced bytes survive by sectors of 512, each or not; unsynced lengths and directory entries
//! survive or not. After a number of calls every call fails, as if the power had gone; `crash` gives
//! what is found when it is back. After a number of syncs the disk says of every one that it succeeded, and does
//! nothing. Not here: rot, misdirected writes (tests make those by hand).

use std::collections::BTreeMap;
use std::io;

use crate::disk::{Disk, DiskError, DiskFile, Open, Operation};
use crate::memory::test_random::Random;
use crate::sync::{Arc, Mutex};

const SECTOR: usize = 512;

#[derive(Clone, Debug, Default)]
struct Content {
    /// Shared with other states of the disk until they differ, like `bytes`: tests make thousands of states.
    durable: Arc<Vec<u8>>,
    /// What reads see.
    bytes: Arc<Vec<u8>>,
    /// Places and lengths of writes since the last sync.
    unsynced: Vec<(usize, usize)>,
    /// The shortest that the file was since then, if it was cut.
    cut: Option<usize>,
    locked: bool,
}

type Shared = Arc<Mutex<Content>>;

#[derive(Debug, Default)]
struct State {
    files: BTreeMap<String, Shared>,
    durable_files: BTreeMap<String, Shared>,
    /// Calls that still succeed.
    calls_left: Option<u64>,
    /// Syncs that are still made; all if there is no number.
    syncs_left: Option<u64>,
    /// Whether a call failed because none was left.
    has_failed: bool,
    calls: u64,
    /// The most bytes that all files may have together.
    capacity_bytes: Option<usize>,
}

impl State {
    fn used_bytes(&self) -> usize {
        self.files.values().map(|file| file.lock().bytes.len()).sum()
    }

    /// Whether a sync is made.
    fn syncs(&mut self) -> bool {
        let Some(left) = &mut self.syncs_left else { return true };
        let is_left = *left > 0;
        *left = left.saturating_sub(1);
        is_left
    }
}

/// See the module's head. Clones are the same disk.
#[derive(Clone, Debug, Default)]
pub(crate) struct CrashDisk(Arc<Mutex<State>>);

fn error(operation: Operation, name: &str, kind: io::ErrorKind) -> DiskError {
    DiskError::new(operation, name, None, &kind.into())
}

impl CrashDisk {
    /// Lets every call but the next `calls` fail.
    pub(crate) fn fail_after(&self, calls: Option<u64>) {
        self.0.lock().calls_left = calls;
    }

    /// Lets every sync but the next `syncs` be a lie.
    #[cfg(shuttle)]
    pub(crate) fn lie_after(&self, syncs: Option<u64>) {
        self.0.lock().syncs_left = syncs;
    }

    /// Whether a call failed as if the power had gone.
    pub(crate) fn has_failed(&self) -> bool {
        self.0.lock().has_failed
    }

    /// Bytes of all files.
    pub(crate) fn used_bytes(&self) -> usize {
        self.0.lock().used_bytes()
    }

    /// Whether the disk has an end.
    pub(crate) fn is_limited(&self) -> bool {
        self.0.lock().capacity_bytes.is_some()
    }

    /// Lets the disk hold at most so many bytes.
    pub(crate) fn set_capacity_bytes(&self, bytes: Option<usize>) {
        self.0.lock().capacity_bytes = bytes;
    }

    /// Calls made so far.
    pub(crate) fn calls(&self) -> u64 {
        self.0.lock().calls
    }

    /// What is found after the end of the process: everything, but nothing more of it is durable.
    pub(crate) fn kill(&self) -> Self {
        let copy = |files: &BTreeMap<String, Shared>| -> BTreeMap<String, Shared> {
            let unlocked = |content: &Shared| {
                let content = Content { locked: false, ..content.lock().clone() };
                Arc::new(Mutex::new(content))
            };
            files.iter().map(|(name, content)| (name.clone(), unlocked(content))).collect()
        };
        let state = self.0.lock();
        let files = copy(&state.files);
        let mut durable_files = copy(&state.durable_files);
        for (name, content) in &mut durable_files {
            if let Some(same) = files.get(name) {
                *content = Arc::clone(same);
            }
        }
        Self(Arc::new(Mutex::new(State { files, durable_files, ..State::default() })))
    }

    /// What is found when the power is back.
    pub(crate) fn crash(&self, random: &mut Random) -> Self {
        self.crash_by(SECTOR, random)
    }

    /// The same where no page is torn: of each 8 KB that were not synced all is there or nothing.
    pub(crate) fn crash_whole(&self, random: &mut Random) -> Self {
        self.crash_by(8 << 10, random)
    }

    fn crash_by(&self, unit: usize, random: &mut Random) -> Self {
        let state = self.0.lock();
        let mut files = BTreeMap::new();
        let gone = state.durable_files.iter().filter(|(name, _)| !state.files.contains_key(*name));
        for (name, content) in state.files.iter().chain(gone) {
            let is_durable =
                state.durable_files.contains_key(name) && state.files.contains_key(name);
            if is_durable || random.below(2) == 0 {
                let found = content.lock().crash(unit, random);
                files.insert(name.clone(), Arc::new(Mutex::new(found)));
            }
        }
        let durable_files = files.clone();
        Self(Arc::new(Mutex::new(State { files, durable_files, ..State::default() })))
    }

    fn call<T>(
        &self,
        operation: Operation,
        name: &str,
        call: impl FnOnce(&mut State) -> Result<T, io::ErrorKind>,
    ) -> Result<T, DiskError> {
        let mut state = self.0.lock();
        state.calls += 1;
        match &mut state.calls_left {
            Some(0) => {
                state.has_failed = true;
                return Err(error(operation, name, io::ErrorKind::BrokenPipe));
            }
            Some(left) => *left -= 1,
            None => {}
        }
        call(&mut state).map_err(|kind| error(operation, name, kind))
    }
}

impl Content {
    fn crash(&self, unit: usize, random: &mut Random) -> Self {
        let mut bytes = Arc::clone(&self.durable);
        if random.below(2) == 0 && bytes.len() != self.bytes.len() {
            Arc::make_mut(&mut bytes).resize(self.bytes.len(), 0);
        }
        // Often all or nothing of what was not synced is there, not always a mixture.
        let odds = [0, 1, 5, 9, 10][random.below(5) as usize];
        for &(at, length) in &self.unsynced {
            let mut sector = at / unit * unit;
            while sector < at + length {
                let (from, to) = (sector.max(at), (sector + unit).min(at + length));
                if random.below(10) < odds && to <= bytes.len() && to <= self.bytes.len() {
                    Arc::make_mut(&mut bytes)[from..to].copy_from_slice(&self.bytes[from..to]);
                }
                sector += unit;
            }
        }
        Self { durable: Arc::clone(&bytes), bytes, ..Self::default() }
    }

    /// Copies only what has changed.
    fn sync(&mut self) {
        if self.unsynced.is_empty() && self.cut.is_none() && self.durable.len() == self.bytes.len()
        {
            return;
        }
        let durable = Arc::make_mut(&mut self.durable);
        durable.truncate(self.cut.take().unwrap_or(usize::MAX));
        durable.resize(self.bytes.len(), 0);
        for (at, length) in self.unsynced.drain(..) {
            let end = (at + length).min(self.bytes.len());
            if at < end {
                durable[at..end].copy_from_slice(&self.bytes[at..end]);
            }
        }
    }

    fn set_len(&mut self, bytes: usize) {
        if bytes < self.bytes.len() {
            self.cut = Some(self.cut.map_or(bytes, |cut| cut.min(bytes)));
        }
        Arc::make_mut(&mut self.bytes).resize(bytes, 0);
    }
}

impl Disk for CrashDisk {
    fn open(&self, name: &str, how: Open) -> Result<Box<dyn DiskFile>, DiskError> {
        self.call(Operation::Open, name, |state| {
            let content = match (state.files.get(name), how) {
                (Some(_), Open::New) => return Err(io::ErrorKind::AlreadyExists),
                (None, Open::Read | Open::Write) => return Err(io::ErrorKind::NotFound),
                (Some(content), _) => Arc::clone(content),
                (None, Open::New) => Arc::default(),
            };
            state.files.insert(name.to_owned(), Arc::clone(&content));
            let (disk, name) = (self.clone(), name.to_owned());
            Ok(Box::new(CrashFile { disk, name, content, locks: Mutex::new(false) }) as Box<_>)
        })
    }

    fn list(&self) -> Result<Vec<String>, DiskError> {
        self.call(Operation::List, ".", |state| Ok(state.files.keys().cloned().collect()))
    }

    fn exists(&self, name: &str) -> Result<bool, DiskError> {
        self.call(Operation::Inspect, name, |state| Ok(state.files.contains_key(name)))
    }

    fn remove(&self, name: &str) -> Result<(), DiskError> {
        self.call(Operation::Remove, name, |state| {
            state.files.remove(name).map(drop).ok_or(io::ErrorKind::NotFound)
        })
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), DiskError> {
        self.call(Operation::Rename, from, |state| {
            let content = state.files.remove(from).ok_or(io::ErrorKind::NotFound)?;
            state.files.insert(to.to_owned(), content);
            Ok(())
        })
    }

    fn sync_dir(&self) -> Result<(), DiskError> {
        self.call(Operation::Sync, ".", |state| {
            if state.syncs() {
                state.durable_files = state.files.clone();
            }
            Ok(())
        })
    }
}

#[derive(Debug)]
struct CrashFile {
    disk: CrashDisk,
    name: String,
    content: Shared,
    locks: Mutex<bool>,
}

impl Drop for CrashFile {
    fn drop(&mut self) {
        if *self.locks.lock() {
            self.content.lock().locked = false;
        }
    }
}

impl CrashFile {
    fn call<T>(
        &self,
        operation: Operation,
        call: impl FnOnce(&mut Content) -> Result<T, io::ErrorKind>,
    ) -> Result<T, DiskError> {
        self.disk.call(operation, &self.name, |_| call(&mut self.content.lock()))
    }
}

impl DiskFile for CrashFile {
    fn name(&self) -> &str {
        &self.name
    }

    fn read_at(&self, out: &mut [u8], offset: u64) -> Result<(), DiskError> {
        self.call(Operation::Read, |content| {
            let bytes = content.bytes.get(offset as usize..offset as usize + out.len());
            out.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
            Ok(())
        })
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), DiskError> {
        self.call(Operation::Write, |content| {
            let (at, end) = (offset as usize, offset as usize + bytes.len());
            let written = Arc::make_mut(&mut content.bytes);
            written.resize(written.len().max(end), 0);
            written[at..end].copy_from_slice(bytes);
            content.unsynced.push((at, bytes.len()));
            Ok(())
        })
    }

    fn sync(&self) -> Result<(), DiskError> {
        self.disk.call(Operation::Sync, &self.name, |state| {
            if state.syncs() {
                self.content.lock().sync();
            }
            Ok(())
        })
    }

    fn set_len(&self, bytes: u64) -> Result<(), DiskError> {
        self.disk.call(Operation::SetLen, &self.name, |state| {
            let used = state.used_bytes();
            let mut content = self.content.lock();
            let needed = used - content.bytes.len() + bytes as usize;
            if state.capacity_bytes.is_some_and(|capacity| needed > capacity) {
                return Err(io::ErrorKind::StorageFull);
            }
            content.set_len(bytes as usize);
            Ok(())
        })
    }

    fn len(&self) -> Result<u64, DiskError> {
        self.call(Operation::Inspect, |content| Ok(content.bytes.len() as u64))
    }

    fn try_lock(&self) -> Result<bool, DiskError> {
        self.call(Operation::Lock, |content| {
            let mut locks = self.locks.lock();
            let taken = *locks || !content.locked;
            (*locks, content.locked) = (taken, true);
            Ok(taken)
        })
    }
}
