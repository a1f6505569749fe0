//! The lock on a database's directory: one process at a time opens it, or looks at it.
//!
//! Not here: how a file is locked (the disk's). Invariant: whoever reads an image or a log has it, since
//! what is written meanwhile looks torn.

use super::settings::LogFailure;
use crate::backup;
use crate::disk::{Disk, DiskFile, Open};

/// The file that whoever has a database open holds.
pub const LOCK_FILE: &str = "lock";

/// A directory that nobody else has open, as long as this lives.
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
        if let Some(file) = backup::is_copy(disk)? {
            return Err(LogFailure::Copy { file: file.to_owned() });
        }
        let file = match disk.open(LOCK_FILE, Open::Write) {
            Err(error) if error.is_not_found() => match disk.open(LOCK_FILE, Open::New) {
                // Another process made it in between.
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                    disk.open(LOCK_FILE, Open::Write)?
                }
                made => made?,
            },
            found => found?,
        };
        Self::of(file)
    }

    /// Takes the directory without changing anything in it.
    ///
    /// # Errors
    /// As [`DirectoryLock::take`].
    pub fn take_to_look(disk: &dyn Disk) -> Result<Self, LogFailure> {
        match disk.exists(LOCK_FILE)? {
            true => Self::of(disk.open(LOCK_FILE, Open::Read)?),
            false => Ok(Self { _file: None }),
        }
    }

    fn of(file: Box<dyn DiskFile>) -> Result<Self, LogFailure> {
        match file.try_lock()? {
            true => Ok(Self { _file: Some(file) }),
            false => Err(LogFailure::InUse { file: file.name().to_owned() }),
        }
    }
}
