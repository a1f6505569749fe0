//! A disk that is read, and on which what is written stays in memory.
//!
//! `check` opens a database on it: the directory is as it was afterwards, whatever opening, tampering
//! and closing write. Taking a file for oneself is passed on, so that a database in use is not
//! checked; only over a disk that is no longer written to can there be several at a time
//! ([`OverlayDisk::shared`]). Not here: speed; a write copies the blocks it touches. Nothing is
//! written to the device, so that a file opened directly is the same as any other, as the door
//! allows (alignment 1).

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tombolo_storage::disk::{Disk, DiskError, DiskFile, Open, Operation};

/// Bytes that are copied at a time.
const BLOCK_BYTES: usize = 4 << 10;

/// A disk and what was written over it.
#[derive(Debug)]
pub(crate) struct OverlayDisk<D> {
    disk: D,
    takes_files: bool,
    /// The files that were opened, by name; `None` where one was removed.
    changed: Mutex<BTreeMap<String, Option<Arc<Mutex<Over>>>>>,
}

/// What was written over one file.
#[derive(Debug)]
struct Over {
    blocks: BTreeMap<u64, Box<[u8]>>,
    len: u64,
    /// Whether there is a file underneath.
    is_above_file: bool,
    /// Bytes that are still those of the file underneath: it was never shorter.
    below_len: u64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<D: Disk> OverlayDisk<D> {
    /// Nothing written over `disk` yet.
    pub(crate) fn new(disk: D) -> Self {
        Self { disk, takes_files: true, changed: Mutex::default() }
    }

    /// The same over a disk that is not written to: others may do so too at the same time.
    pub(crate) fn shared(disk: D) -> Self {
        Self { takes_files: false, ..Self::new(disk) }
    }

    fn refuse<T>(operation: Operation, name: &str, kind: ErrorKind) -> Result<T, DiskError> {
        Err(DiskError::new(operation, name, None, &kind.into()))
    }
}

impl<D: Disk> Disk for OverlayDisk<D> {
    fn open(&self, name: &str, how: Open) -> Result<Box<dyn DiskFile>, DiskError> {
        let exists = self.exists(name)?;
        match (exists, how) {
            (true, Open::New) => {
                return Self::refuse(Operation::Open, name, ErrorKind::AlreadyExists);
            }
            (false, Open::Read | Open::Write) => {
                return Self::refuse(Operation::Open, name, ErrorKind::NotFound);
            }
            _ => {}
        }
        let mut changed = lock(&self.changed);
        let is_above_file = match changed.get(name) {
            Some(over) => over.as_ref().is_some_and(|over| lock(over).is_above_file),
            None => exists,
        };
        let below = is_above_file.then(|| self.disk.open(name, Open::Read)).transpose()?;
        let len = below.as_ref().map_or(Ok(0), |file| file.len())?;
        let over = changed.entry(name.to_owned()).or_default().get_or_insert_with(|| {
            let over = Over { blocks: BTreeMap::new(), len, is_above_file, below_len: len };
            Arc::new(Mutex::new(over))
        });
        let name = below.as_ref().map_or(name, |file| file.name()).to_owned();
        Ok(Box::new(OverlayFile { name, below, takes_file: self.takes_files, over: over.clone() }))
    }

    fn list(&self) -> Result<Vec<String>, DiskError> {
        let mut names: BTreeSet<String> = self.disk.list()?.into_iter().collect();
        for (name, over) in &*lock(&self.changed) {
            match over {
                Some(_) => names.insert(name.clone()),
                None => names.remove(name),
            };
        }
        Ok(names.into_iter().collect())
    }

    fn exists(&self, name: &str) -> Result<bool, DiskError> {
        let changed = lock(&self.changed);
        changed.get(name).map_or_else(|| self.disk.exists(name), |over| Ok(over.is_some()))
    }

    fn remove(&self, name: &str) -> Result<(), DiskError> {
        if !self.exists(name)? {
            return Self::refuse(Operation::Remove, name, ErrorKind::NotFound);
        }
        lock(&self.changed).insert(name.to_owned(), None);
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), DiskError> {
        if !self.exists(from)? {
            return Self::refuse(Operation::Rename, from, ErrorKind::NotFound);
        }
        let mut changed = lock(&self.changed);
        match changed.get(from) {
            Some(Some(over)) if !lock(over).is_above_file => {}
            // What lies underneath is found by its name.
            _ => return Self::refuse(Operation::Rename, from, ErrorKind::Unsupported),
        }
        let over = changed.insert(from.to_owned(), None).flatten();
        changed.insert(to.to_owned(), over);
        Ok(())
    }

    fn sync_dir(&self) -> Result<(), DiskError> {
        Ok(())
    }
}

/// An open file.
#[derive(Debug)]
struct OverlayFile {
    name: String,
    below: Option<Box<dyn DiskFile>>,
    takes_file: bool,
    over: Arc<Mutex<Over>>,
}

impl OverlayFile {
    /// Fills `bytes` from the file underneath at `offset`; zeros where it never had any.
    fn read_below(&self, over: &Over, bytes: &mut [u8], offset: u64) -> Result<(), DiskError> {
        let there = over.below_len.saturating_sub(offset).min(bytes.len() as u64) as usize;
        let (there, missing) = bytes.split_at_mut(there);
        missing.fill(0);
        match &self.below {
            Some(file) if !there.is_empty() => file.read_at(there, offset),
            _ => Ok(()),
        }
    }

    /// Calls `each` with every block that the `bytes` bytes from `offset` touch: its number, where in
    /// it they begin and end, and where they begin among all.
    fn for_each_block(
        offset: u64,
        bytes: usize,
        mut each: impl FnMut(u64, std::ops::Range<usize>, usize) -> Result<(), DiskError>,
    ) -> Result<(), DiskError> {
        let mut done = 0;
        while done < bytes {
            let at = offset + done as u64;
            let start = (at % BLOCK_BYTES as u64) as usize;
            let end = BLOCK_BYTES.min(start + bytes - done);
            each(at / BLOCK_BYTES as u64, start..end, done)?;
            done += end - start;
        }
        Ok(())
    }
}

impl DiskFile for OverlayFile {
    fn name(&self) -> &str {
        &self.name
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> Result<(), DiskError> {
        let over = lock(&self.over);
        if offset + bytes.len() as u64 > over.len {
            let cause = ErrorKind::UnexpectedEof.into();
            return Err(DiskError::new(Operation::Read, &self.name, Some(offset), &cause));
        }
        let (first, end) = (offset / BLOCK_BYTES as u64, offset + bytes.len() as u64);
        if over.blocks.range(first..end.div_ceil(BLOCK_BYTES as u64)).next().is_none() {
            return self.read_below(&over, bytes, offset);
        }
        Self::for_each_block(offset, bytes.len(), |block, within, at| {
            let part = &mut bytes[at..at + within.len()];
            match over.blocks.get(&block) {
                Some(block) => part.copy_from_slice(&block[within]),
                None => {
                    let offset = block * BLOCK_BYTES as u64 + within.start as u64;
                    self.read_below(&over, part, offset)?;
                }
            }
            Ok(())
        })
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), DiskError> {
        let mut over = lock(&self.over);
        Self::for_each_block(offset, bytes.len(), |block, within, at| {
            let part = &bytes[at..at + within.len()];
            if !over.blocks.contains_key(&block) {
                let mut copy = vec![0; BLOCK_BYTES].into_boxed_slice();
                self.read_below(&over, &mut copy, block * BLOCK_BYTES as u64)?;
                over.blocks.insert(block, copy);
            }
            if let Some(copy) = over.blocks.get_mut(&block) {
                copy[within].copy_from_slice(part);
            }
            Ok(())
        })?;
        over.len = over.len.max(offset + bytes.len() as u64);
        Ok(())
    }

    fn sync(&self) -> Result<(), DiskError> {
        Ok(())
    }

    fn set_len(&self, bytes: u64) -> Result<(), DiskError> {
        let mut over = lock(&self.over);
        if bytes < over.len {
            over.below_len = over.below_len.min(bytes);
            let (last, within) =
                (bytes / BLOCK_BYTES as u64, (bytes % BLOCK_BYTES as u64) as usize);
            over.blocks.retain(|&block, _| block <= last);
            if let Some(block) = over.blocks.get_mut(&last) {
                block[within..].fill(0);
            }
        }
        over.len = bytes;
        Ok(())
    }

    fn len(&self) -> Result<u64, DiskError> {
        Ok(lock(&self.over).len)
    }

    fn try_lock(&self) -> Result<bool, DiskError> {
        let below = self.below.as_ref().filter(|_| self.takes_file);
        below.map_or(Ok(true), |file| file.try_lock())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tombolo_engine::rng::Rng;
    use tombolo_storage::disk::MemDisk;

    fn below() -> MemDisk {
        let disk = MemDisk::new();
        let file = disk.open("pages", Open::New).unwrap();
        let bytes: Vec<u8> = (0..20_000).map(|i| i as u8).collect();
        file.write_at(&bytes, 0).unwrap();
        disk
    }

    fn whole(file: &dyn DiskFile) -> Vec<u8> {
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_at(&mut bytes, 0).unwrap();
        bytes
    }

    #[test]
    fn what_is_written_is_read_and_never_reaches_the_disk() {
        let disk = below();
        let before = whole(&*disk.open("pages", Open::Read).unwrap());
        let overlay = OverlayDisk::new(disk.clone());
        let file = overlay.open("pages", Open::Write).unwrap();
        let mut expected = before.clone();
        let mut rng = Rng::stream(1, &[1]);
        for _ in 0..500 {
            let offset = rng.below(expected.len() as u64 + 100) as usize;
            let bytes = vec![rng.below(256) as u8; rng.below(9_000) as usize];
            if rng.below(10) == 0 {
                expected.resize(offset, 0);
                file.set_len(offset as u64).unwrap();
            } else {
                expected.resize(expected.len().max(offset + bytes.len()), 0);
                expected[offset..offset + bytes.len()].copy_from_slice(&bytes);
                file.write_at(&bytes, offset as u64).unwrap();
            }
            assert_eq!(whole(&*file), expected);
        }
        drop(file);
        assert_eq!(whole(&*overlay.open("pages", Open::Read).unwrap()), expected);
        assert_eq!(whole(&*disk.open("pages", Open::Read).unwrap()), before);
    }

    #[test]
    fn files_come_and_go_above_the_disk_only() {
        let disk = below();
        let overlay = OverlayDisk::new(disk.clone());
        assert!(overlay.open("log", Open::Read).unwrap_err().is_not_found());
        overlay.open("log", Open::New).unwrap().write_at(b"x", 0).unwrap();
        assert!(overlay.open("pages", Open::New).is_err());
        assert_eq!(overlay.list().unwrap(), ["log", "pages"]);
        overlay.remove("pages").unwrap();
        assert!(overlay.remove("pages").is_err());
        assert_eq!(overlay.list().unwrap(), ["log"]);
        let empty = overlay.open("pages", Open::New).unwrap();
        assert_eq!(empty.len().unwrap(), 0);
        assert_eq!(disk.list().unwrap(), ["pages"]);
    }

    #[test]
    fn a_file_in_use_is_not_taken() {
        let disk = below();
        let owner = disk.open("pages", Open::Write).unwrap();
        assert!(owner.try_lock().unwrap());
        let shared = OverlayDisk::shared(disk.clone());
        assert!(shared.open("pages", Open::Write).unwrap().try_lock().unwrap());
        let overlay = OverlayDisk::new(disk);
        let file = overlay.open("pages", Open::Write).unwrap();
        assert!(!file.try_lock().unwrap());
        let mut bytes = [0; 2];
        assert!(file.read_at(&mut bytes, 19_999).unwrap_err().is_truncated());
    }
}
