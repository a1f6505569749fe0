//! The locks on a database's directory: one process at a time opens it, or looks at it; and where
//! another process writes its image (TPK-33), one of those.
//!
//! A process that opens a database must know that no other one still writes its image: the image's
//! writer may outlive the process it wrote for by a batch. The writer takes the image's lock
//! *before* it asks that process anything and writes nothing before it was answered. So the process
//! that answered had the directory, and one that takes the directory later finds the image's lock
//! taken.
//!
//! Not here: how a file is locked (the disk's). Invariant: a process that reads an image or a log
//! has the directory, since what is written meanwhile looks torn, or has learned from the process
//! that has it how far to read.

use super::settings::LogFailure;
use crate::backup::marks::is_copy;
use crate::disk::{Disk, DiskError, DiskFile, Open};

/// The file that the process with the database open holds.
pub const LOCK_FILE: &str = "lock";

/// The file that a process holds that writes the image for another one.
pub const CHECKPOINT_LOCK_FILE: &str = "checkpoint-lock";

/// A directory that no other process has open, as long as this lives.
#[derive(Debug)]
pub struct DirectoryLock {
    /// None where there is no such file to be looked at.
    _file: Option<Box<dyn DiskFile>>,
}

impl DirectoryLock {
    /// Takes the directory; the lock's file is made if it is not there.
    ///
    /// # Errors
    /// `InUse`, `Copy`, `Disk`.
    pub fn take(disk: &dyn Disk) -> Result<Self, LogFailure> {
        if let Some(file) = is_copy(disk)? {
            return Err(LogFailure::Copy { file: file.to_owned() });
        }
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

/// The image of a database that another process has open; no other process writes it as long as
/// this lives.
#[derive(Debug)]
pub struct CheckpointLock {
    _file: Box<dyn DiskFile>,
}

impl CheckpointLock {
    /// Takes it; its file is made if it is not there.
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
            // Another process made it in between.
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

/// Refuses an image that is still being written. None begins after this: a writer begins only when
/// a process that has the directory has answered it.
fn check_image_is_not_written(disk: &dyn Disk) -> Result<(), LogFailure> {
    if disk.exists(CHECKPOINT_LOCK_FILE)? {
        drop(locked(disk.open(CHECKPOINT_LOCK_FILE, Open::Read)?)?);
    }
    Ok(())
}
