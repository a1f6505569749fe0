//! The locks of a database's directory: at most one process opens or inspects it; and if
//! another process writes its image (TPK-33), at most one process does that.
//!
//! A process that opens a database must know that no other process still writes its image: the writer of the
//! image may outlive its database process by a batch. The writer takes the image's lock
//! *before* it contacts that process and writes nothing before it has an answer. So the process
//! that answered held the directory, and a process that takes the directory later finds the image's lock
//! taken.
//!
//! Not here: locking a file (the disk's). Invariant: a process that reads an image or a log
//! holds the directory, because concurrent writes look torn, or knows from the holder how far to read.

use super::settings::LogFailure;
use crate::backup::marks::is_copy;
use crate::disk::{Disk, DiskError, DiskFile, Open};

/// The lock file of the process that has the database open.
pub const LOCK_FILE: &str = "lock";

/// The lock file of a process that writes the image for another one.
pub const CHECKPOINT_LOCK_FILE: &str = "checkpoint-lock";

/// Keeps other processes from opening the directory as long as it lives.
#[derive(Debug)]
pub struct DirectoryLock {
    /// `None` if there is no lock file and the directory is only inspected.
    _file: Option<Box<dyn DiskFile>>,
}

impl DirectoryLock {
    /// Takes the directory; creates the lock file if necessary.
    ///
    /// # Errors
    /// `InUse`, `Copy`, `Disk`.
    pub fn take(disk: &dyn Disk) -> Result<Self, LogFailure> {
        refuse_copy(disk)?;
        let file = locked(open_or_make(disk, LOCK_FILE)?)?;
        check_image_is_not_written(disk)?;
        Ok(Self { _file: Some(file) })
    }

    /// Takes the directory without changing anything in it.
    ///
    /// # Errors
    /// As [`DirectoryLock::take`].
    pub fn take_to_look(disk: &dyn Disk) -> Result<Self, LogFailure> {
        let file = match disk.exists(LOCK_FILE)? {
            true => Some(locked(disk.open(LOCK_FILE, Open::Read)?)?),
            false => None,
        };
        check_image_is_not_written(disk)?;
        Ok(Self { _file: file })
    }
}

/// Refuses a directory that holds a copy, which is kept as it is.
///
/// # Errors
/// `Copy`, `Disk`.
pub fn refuse_copy(disk: &dyn Disk) -> Result<(), LogFailure> {
    match is_copy(disk)? {
        Some(file) => Err(LogFailure::Copy { file: file.to_owned() }),
        None => Ok(()),
    }
}

/// Keeps other processes from writing the image of a database, which another process has open, as long as it
/// lives.
#[derive(Debug)]
pub struct CheckpointLock {
    _file: Box<dyn DiskFile>,
}

impl CheckpointLock {
    /// Takes the lock; creates its file if necessary.
    ///
    /// # Errors
    /// `InUse`, `Disk`.
    pub fn take(disk: &dyn Disk) -> Result<Self, LogFailure> {
        Ok(Self { _file: locked(open_or_make(disk, CHECKPOINT_LOCK_FILE)?)? })
    }
}

fn open_or_make(disk: &dyn Disk, name: &str) -> Result<Box<dyn DiskFile>, DiskError> {
    match disk.open(name, Open::Write) {
        Err(error) if error.is_not_found() => match disk.open(name, Open::New) {
            // Another process created it in between.
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                disk.open(name, Open::Write)
            }
            made => made,
        },
        found => found,
    }
}

fn locked(file: Box<dyn DiskFile>) -> Result<Box<dyn DiskFile>, LogFailure> {
    match file.try_lock()? {
        true => Ok(file),
        false => Err(LogFailure::InUse { file: file.name().to_owned() }),
    }
}

/// Refuses an image that is still being written. No writer begins after this, because a writer begins only when
/// the holder of the directory has answered it.
fn check_image_is_not_written(disk: &dyn Disk) -> Result<(), LogFailure> {
    if disk.exists(CHECKPOINT_LOCK_FILE)? {
        drop(locked(disk.open(CHECKPOINT_LOCK_FILE, Open::Read)?)?);
    }
    Ok(())
}
