//! The door to files: the only place in storage that reaches a file system.
//!
//! A [`Disk`] is one directory; a [`DiskFile`] is an open file of it, read and written at offsets.
//! Both are object safe: a disk is called per page or batch, never per row, and the simulator puts
//! a faulty one in its place. [`OsDisk`] is the operating system's, [`MemDisk`] lives in memory and
//! fails when a test asks it to. Every error says which file, where in it, and why.
//!
//! What a caller may assume of the medium: bytes written and then synced survive; bytes written and
//! not synced survive wholly, partly or not at all, in any order; a file made or removed survives
//! once the directory is synced too. Nothing is assumed atomic.
//!
//! Not here: buffering, what the bytes mean, retries (a failed sync leaves the file in an unknown
//! state: the caller must poison, not try again).

mod forward;
mod memory;
mod os;
#[cfg(target_os = "linux")]
mod ring;

use std::fmt;
use std::io;

pub use memory::{Fault, MemDisk};
pub use os::OsDisk;

/// The coarsest [`DiskFile::alignment`].
pub const ALIGNMENT_MAX: usize = 4096;

/// One directory of files.
pub trait Disk: fmt::Debug + Send + Sync {
    /// Opens a file.
    ///
    /// # Errors
    /// When there is none (`is_not_found`), with [`Open::New`] when there is one, or when the
    /// system refuses.
    fn open(&self, name: &str, how: Open) -> Result<Box<dyn DiskFile>, DiskError>;

    /// Opens a file whose writes go to the device without a stop in the system's cache, where the
    /// file system can do that; elsewhere the same as [`Disk::open`], which a
    /// [`DiskFile::alignment`] of 1 then shows. Written is not durable either way: see
    /// [`DiskFile::sync`].
    ///
    /// # Errors
    /// As [`Disk::open`].
    fn open_direct(&self, name: &str, how: Open) -> Result<Box<dyn DiskFile>, DiskError> {
        self.open(name, how)
    }

    /// The names of all files, in ascending order.
    ///
    /// # Errors
    /// When the directory cannot be read.
    fn list(&self) -> Result<Vec<String>, DiskError>;

    /// Whether there is a file of this name.
    ///
    /// # Errors
    /// When the directory cannot be read.
    fn exists(&self, name: &str) -> Result<bool, DiskError>;

    /// Removes a file; handles that are open keep it.
    ///
    /// # Errors
    /// When there is none or the system refuses.
    fn remove(&self, name: &str) -> Result<(), DiskError>;

    /// Gives a file another name; a file that has it goes. Until the directory is synced, a crash may
    /// leave what it leaves when one name is made and the other removed.
    ///
    /// # Errors
    /// When there is none or the system refuses; it has its old name then.
    fn rename(&self, from: &str, to: &str) -> Result<(), DiskError>;

    /// Makes files made and removed so far survive a crash.
    ///
    /// # Errors
    /// When the system fails; what survives is unknown then.
    fn sync_dir(&self) -> Result<(), DiskError>;
}

/// A disk that several parts of a database share.
pub fn share<D: Disk + 'static>(disk: D) -> crate::sync::Arc<dyn Disk> {
    let disk: std::sync::Arc<dyn Disk> = std::sync::Arc::new(disk);
    #[cfg(loom)]
    let disk = crate::sync::Arc::from_std(disk);
    disk
}

impl<D: Disk + ?Sized> Disk for std::sync::Arc<D> {
    fn open(&self, name: &str, how: Open) -> Result<Box<dyn DiskFile>, DiskError> {
        (**self).open(name, how)
    }
    fn open_direct(&self, name: &str, how: Open) -> Result<Box<dyn DiskFile>, DiskError> {
        (**self).open_direct(name, how)
    }
    fn list(&self) -> Result<Vec<String>, DiskError> {
        (**self).list()
    }
    fn exists(&self, name: &str) -> Result<bool, DiskError> {
        (**self).exists(name)
    }
    fn remove(&self, name: &str) -> Result<(), DiskError> {
        (**self).remove(name)
    }
    fn rename(&self, from: &str, to: &str) -> Result<(), DiskError> {
        (**self).rename(from, to)
    }
    fn sync_dir(&self) -> Result<(), DiskError> {
        (**self).sync_dir()
    }
}

/// An open file.
pub trait DiskFile: fmt::Debug + Send + Sync {
    /// Where the file is, for messages.
    fn name(&self) -> &str;

    /// What the offset, the length and the address of every read and write must be multiples of:
    /// a power of two, at most [`ALIGNMENT_MAX`]; 1 where nothing is demanded.
    fn alignment(&self) -> usize {
        1
    }

    /// Fills `bytes` from the file at `offset`.
    ///
    /// # Errors
    /// When the file ends before (`is_truncated`), the alignment is wrong or the device fails.
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> Result<(), DiskError>;

    /// Fills several pieces, each from the file at its offset, in any order: at the same time where the system can do
    /// that.
    ///
    /// # Errors
    /// As [`DiskFile::read_at`], of one of them; the others may have been read or not.
    fn read_pieces(&self, pieces: &mut [(u64, &mut [u8])]) -> Result<(), DiskError> {
        pieces.iter_mut().try_for_each(|(offset, bytes)| self.read_at(bytes, *offset))
    }

    /// Says that `bytes` bytes from `offset` on will be read soon, so that the system may fetch them
    /// meanwhile. Advice only: nothing depends on it, and there may be fewer.
    fn read_ahead(&self, offset: u64, bytes: u64) {
        let _ = (offset, bytes);
    }

    /// Writes all of `bytes` at `offset`; the file grows where it is shorter.
    ///
    /// # Errors
    /// When the device is full (`is_full`) or fails, or the alignment is wrong; a part may have been
    /// written.
    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), DiskError>;

    /// Writes several pieces, each at its offset, in any order: at the same time where the system can do that.
    ///
    /// # Errors
    /// As [`DiskFile::write_at`], of one of them; of the others any may have been written.
    fn write_pieces(&self, pieces: &[(u64, &[u8])]) -> Result<(), DiskError> {
        pieces.iter().try_for_each(|(offset, bytes)| self.write_at(bytes, *offset))
    }

    /// Returns when everything written is on the device.
    ///
    /// # Errors
    /// When the device fails; what of the writes survives is unknown then.
    fn sync(&self) -> Result<(), DiskError>;

    /// Makes the file `bytes` long. What is added reads as zero and, where the file system can
    /// promise that, has its space: a later write into it does not find the device full.
    ///
    /// # Errors
    /// When the device is full (`is_full`) or fails.
    fn set_len(&self, bytes: u64) -> Result<(), DiskError>;

    /// The file's length in bytes.
    ///
    /// # Errors
    /// When the system refuses.
    fn len(&self) -> Result<u64, DiskError>;

    /// Whether the file holds nothing.
    ///
    /// # Errors
    /// As [`DiskFile::len`].
    fn is_empty(&self) -> Result<bool, DiskError> {
        Ok(self.len()? == 0)
    }

    /// Takes the file for this handle alone; `false` if another handle, in this process or another,
    /// has it. Given back when the handle is dropped.
    ///
    /// # Errors
    /// When the system reports an error instead of an answer.
    fn try_lock(&self) -> Result<bool, DiskError>;
}

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Open {
    /// An existing file, to be read.
    Read,
    /// An existing file, to be read and written.
    Write,
    /// A file that must not exist yet, to be read and written.
    New,
}

/// What was tried when a [`DiskError`] occurred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Opening or making a file or directory.
    Open,
    /// Reading.
    Read,
    /// Writing.
    Write,
    /// Forcing what was written to the device.
    Sync,
    /// Changing a file's length.
    SetLen,
    /// Asking for a file's length or existence.
    Inspect,
    /// Listing a directory.
    List,
    /// Removing a file.
    Remove,
    /// Giving a file another name.
    Rename,
    /// Taking a file for oneself.
    Lock,
}

impl Operation {
    const fn verb(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Read => "read",
            Self::Write => "write",
            Self::Sync => "sync",
            Self::SetLen => "set the length of",
            Self::Inspect => "inspect",
            Self::List => "list",
            Self::Remove => "remove",
            Self::Rename => "rename",
            Self::Lock => "lock",
        }
    }
}

/// What went wrong with which file, where in it, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskError(Box<Failure>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Failure {
    operation: Operation,
    file: String,
    offset: Option<u64>,
    kind: io::ErrorKind,
    cause: String,
}

impl DiskError {
    /// The failure of `operation` on `file`, at `offset` where it has one.
    pub fn new(operation: Operation, file: &str, offset: Option<u64>, cause: &io::Error) -> Self {
        let (kind, cause) = (cause.kind(), cause.to_string());
        Self(Box::new(Failure { operation, file: file.to_owned(), offset, kind, cause }))
    }

    /// What was tried.
    pub fn operation(&self) -> Operation {
        self.0.operation
    }

    /// The file or directory.
    pub fn file(&self) -> &str {
        &self.0.file
    }

    /// Where in the file, if that means anything.
    pub fn offset(&self) -> Option<u64> {
        self.0.offset
    }

    /// How the system calls it.
    pub fn kind(&self) -> io::ErrorKind {
        self.0.kind
    }

    /// Whether there is no space left: on the device, in the file system's quota or limit.
    pub fn is_full(&self) -> bool {
        use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
        matches!(self.0.kind, StorageFull | QuotaExceeded | FileTooLarge)
    }

    /// Whether there is no such file.
    pub fn is_not_found(&self) -> bool {
        self.0.kind == io::ErrorKind::NotFound
    }

    /// Whether the file ended before what was to be read did.
    pub fn is_truncated(&self) -> bool {
        self.0.kind == io::ErrorKind::UnexpectedEof
    }
}

impl fmt::Display for DiskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure { operation, file, offset, cause, .. } = &*self.0;
        write!(f, "cannot {} {file}", operation.verb())?;
        if let Some(offset) = offset {
            write!(f, " at offset {offset}")?;
        }
        write!(f, ": {cause}")
    }
}

impl std::error::Error for DiskError {}

/// A name within one directory, and nothing that leads out of it.
///
/// # Panics
/// When it is not: names are the program's, never a user's.
fn assert_plain(name: &str) {
    assert!(
        !name.is_empty() && !name.contains(['/', '\\', '\0']) && name != "." && name != "..",
        "{name:?} is no plain file name"
    );
}

#[cfg(test)]
mod tests;
