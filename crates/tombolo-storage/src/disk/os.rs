//! `OsDisk`: a directory of the operating system.

use std::fs::{self, OpenOptions, TryLockError};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

#[cfg(target_os = "linux")]
use super::ring::Rings;
use super::{ALIGNMENT_MAX, Disk, DiskError, DiskFile, Open, Operation, assert_plain};

/// A directory of the operating system: the same one for ever, wherever the process goes.
#[derive(Debug)]
pub struct OsDisk {
    /// Its whole path. Files are opened by it as long as the disk is there, so a part of one would
    /// lead elsewhere as soon as the process has another current directory.
    directory: PathBuf,
}

impl OsDisk {
    /// An existing directory.
    ///
    /// # Errors
    /// When there is none.
    pub fn open(directory: &Path) -> Result<Self, DiskError> {
        let disk = Self::at(directory)?;
        match fs::metadata(&disk.directory) {
            Ok(found) if found.is_dir() => Ok(disk),
            Ok(_) => Err(disk.error(Operation::Open, &io::ErrorKind::NotADirectory.into())),
            Err(cause) => Err(disk.error(Operation::Open, &cause)),
        }
    }

    /// A directory that is made, with those above it, if it does not exist.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn create(directory: &Path) -> Result<Self, DiskError> {
        let disk = Self::at(directory)?;
        let made = fs::create_dir_all(&disk.directory);
        made.map_err(|cause| disk.error(Operation::Open, &cause))?;
        Ok(disk)
    }

    fn at(directory: &Path) -> Result<Self, DiskError> {
        let whole = std::path::absolute(directory);
        let directory = whole.map_err(|cause| file_error(Operation::Open, directory, &cause))?;
        Ok(Self { directory })
    }

    fn path(&self, name: &str) -> PathBuf {
        assert_plain(name);
        self.directory.join(name)
    }

    fn error(&self, operation: Operation, cause: &io::Error) -> DiskError {
        DiskError::new(operation, &self.directory.display().to_string(), None, cause)
    }
}

fn file_error(operation: Operation, path: &Path, cause: &io::Error) -> DiskError {
    DiskError::new(operation, &path.display().to_string(), None, cause)
}

fn options(how: Open) -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(how != Open::Read).create_new(how == Open::New);
    options
}

impl Disk for OsDisk {
    fn open(&self, name: &str, how: Open) -> Result<Box<dyn DiskFile>, DiskError> {
        let path = self.path(name);
        let file =
            options(how).open(&path).map_err(|cause| file_error(Operation::Open, &path, &cause))?;
        Ok(Box::new(OsFile::new(file, path.display().to_string(), 1)))
    }

    #[cfg(target_os = "linux")]
    fn open_direct(&self, name: &str, how: Open) -> Result<Box<dyn DiskFile>, DiskError> {
        let path = self.path(name);
        // A file system without direct access may have made the file before it refuses, so the file
        // is made in the ordinary way and opened a second time.
        let file = self.open(name, how)?;
        let how = if how == Open::New { Open::Write } else { how };
        match options(how).custom_flags(libc::O_DIRECT).open(&path) {
            Ok(file) => {
                let name = path.display().to_string();
                Ok(Box::new(OsFile::new(file, name, ALIGNMENT_MAX)))
            }
            Err(cause) if cause.kind() == io::ErrorKind::InvalidInput => Ok(file),
            Err(cause) => Err(file_error(Operation::Open, &path, &cause)),
        }
    }

    fn list(&self) -> Result<Vec<String>, DiskError> {
        let list = || -> io::Result<Vec<String>> {
            let mut names = Vec::new();
            for entry in fs::read_dir(&self.directory)? {
                let entry = entry?;
                if entry.file_type()?.is_file() {
                    names.push(entry.file_name().to_string_lossy().into_owned());
                }
            }
            names.sort_unstable();
            Ok(names)
        };
        list().map_err(|cause| self.error(Operation::List, &cause))
    }

    fn exists(&self, name: &str) -> Result<bool, DiskError> {
        let path = self.path(name);
        // A directory of this name is none of the files that `list` shows.
        match fs::metadata(&path) {
            Ok(found) => Ok(found.is_file()),
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(cause) => Err(file_error(Operation::Inspect, &path, &cause)),
        }
    }

    fn remove(&self, name: &str) -> Result<(), DiskError> {
        let path = self.path(name);
        fs::remove_file(&path).map_err(|cause| file_error(Operation::Remove, &path, &cause))
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), DiskError> {
        let path = self.path(from);
        let renamed = fs::rename(&path, self.path(to));
        renamed.map_err(|cause| file_error(Operation::Rename, &path, &cause))
    }

    fn sync_dir(&self) -> Result<(), DiskError> {
        let directory = OpenOptions::new().read(true).open(&self.directory);
        directory
            .and_then(|directory| directory.sync_all())
            .map_err(|cause| self.error(Operation::Sync, &cause))
    }
}

#[expect(clippy::disallowed_types, reason = "this is the door to files")]
#[derive(Debug)]
pub(super) struct OsFile {
    file: fs::File,
    name: String,
    /// No device has blocks that are longer and no memory demands more, so the longest is what is
    /// asked for wherever anything is.
    alignment: usize,
    /// For several transfers from or to the device at the same time.
    #[cfg(target_os = "linux")]
    pub(super) rings: Rings,
    /// Set once it is locked.
    locked: OnceLock<()>,
}

impl OsFile {
    #[expect(clippy::disallowed_types, reason = "this is the door to files")]
    pub(super) fn new(file: fs::File, name: String, alignment: usize) -> Self {
        Self {
            file,
            name,
            alignment,
            #[cfg(target_os = "linux")]
            rings: Rings::default(),
            locked: OnceLock::new(),
        }
    }

    fn error(&self, operation: Operation, offset: Option<u64>, cause: &io::Error) -> DiskError {
        DiskError::new(operation, &self.name, offset, cause)
    }

    /// Lengthens the file from `from` to `to` bytes and takes the space for it from the device;
    /// `false` where the file system has no way to promise space.
    #[cfg(target_os = "linux")]
    fn allocate(&self, from: u64, to: u64) -> io::Result<bool> {
        let too_large = |_| io::Error::from(io::ErrorKind::FileTooLarge);
        let offset = libc::off_t::try_from(from).map_err(too_large)?;
        let bytes = libc::off_t::try_from(to - from).map_err(too_large)?;
        loop {
            // SAFETY: the descriptor is this file's own and open for as long as `self` lives; the
            // call touches no memory of the process.
            if unsafe { libc::fallocate(self.file.as_raw_fd(), 0, offset, bytes) } == 0 {
                return Ok(true);
            }
            let cause = io::Error::last_os_error();
            match cause.raw_os_error() {
                Some(libc::EINTR) => {}
                Some(libc::EOPNOTSUPP | libc::ENOSYS) => return Ok(false),
                _ => return Err(cause),
            }
        }
    }

    /// Whether so many transfers are made at the same time. What is not for the device goes to or comes from the
    /// system's cache, which does not wait.
    #[cfg(target_os = "linux")]
    fn goes_by_ring(&self, transfers: usize) -> bool {
        self.alignment > 1 && transfers > 1
    }

    #[cfg(not(target_os = "linux"))]
    fn allocate(&self, _: u64, _: u64) -> io::Result<bool> {
        Ok(false)
    }
}

impl DiskFile for OsFile {
    fn name(&self) -> &str {
        &self.name
    }

    fn alignment(&self) -> usize {
        self.alignment
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> Result<(), DiskError> {
        self.file
            .read_exact_at(bytes, offset)
            .map_err(|cause| self.error(Operation::Read, Some(offset), &cause))
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), DiskError> {
        self.file
            .write_all_at(bytes, offset)
            .map_err(|cause| self.error(Operation::Write, Some(offset), &cause))
    }

    #[cfg(target_os = "linux")]
    fn read_pieces(&self, pieces: &mut [(u64, &mut [u8])]) -> Result<(), DiskError> {
        let left = match self.goes_by_ring(pieces.len()) {
            true => self.rings.read(self.file.as_fd(), pieces),
            false => (0..pieces.len()).collect(),
        };
        left.into_iter().try_for_each(|at| self.read_at(pieces[at].1, pieces[at].0))
    }

    #[cfg(target_os = "linux")]
    fn write_pieces(&self, pieces: &[(u64, &[u8])]) -> Result<(), DiskError> {
        let left = match self.goes_by_ring(pieces.len()) {
            true => self.rings.write(self.file.as_fd(), pieces),
            false => (0..pieces.len()).collect(),
        };
        left.into_iter().try_for_each(|at| self.write_at(pieces[at].1, pieces[at].0))
    }

    fn sync(&self) -> Result<(), DiskError> {
        self.file.sync_data().map_err(|cause| self.error(Operation::Sync, None, &cause))
    }

    fn set_len(&self, bytes: u64) -> Result<(), DiskError> {
        let from = self.len()?;
        let set = || {
            if bytes > from && self.allocate(from, bytes)? {
                return Ok(());
            }
            self.file.set_len(bytes)
        };
        set().map_err(|cause| self.error(Operation::SetLen, Some(bytes), &cause))
    }

    fn len(&self) -> Result<u64, DiskError> {
        let found =
            self.file.metadata().map_err(|cause| self.error(Operation::Inspect, None, &cause))?;
        Ok(found.len())
    }

    fn try_lock(&self) -> Result<bool, DiskError> {
        match self.file.try_lock() {
            Ok(()) => {
                self.locked.get_or_init(|| ());
                Ok(true)
            }
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(cause)) => Err(self.error(Operation::Lock, None, &cause)),
        }
    }
}

impl Drop for OsFile {
    /// Says that the lock goes. Closing alone leaves it for as long as a process that is just being
    /// started by another thread still has what it was forked with.
    fn drop(&mut self) {
        if self.locked.get().is_some() {
            // Closing does what this did not.
            let _ = self.file.unlock();
        }
    }
}
