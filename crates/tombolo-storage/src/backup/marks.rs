//! The marks of a directory that holds a backup or a part of one, and must not be opened as a database.

use std::fmt;

use crate::disk::{Disk, DiskError};

/// The file that marks a directory as a backup.
pub const BACKUP_FILE: &str = "backup";

/// The file that marks a copy that is being made, or that was interrupted.
pub const UNFINISHED_FILE: &str = "backup-unfinished";

/// Which of the two files marks the directory as a copy, if one does.
///
/// # Errors
/// When the directory cannot be read.
pub(crate) fn is_copy(disk: &dyn Disk) -> Result<Option<&'static str>, DiskError> {
    for file in [UNFINISHED_FILE, BACKUP_FILE] {
        if disk.exists(file)? {
            return Ok(Some(file));
        }
    }
    Ok(None)
}

/// The message when a copy is opened as a database.
pub(crate) fn is_no_database(file: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match file.ends_with(UNFINISHED_FILE) {
        true => write!(
            f,
            "the directory holds a copy that did not come to its end ({file}): remove it and make \
             it again"
        ),
        false => write!(
            f,
            "the directory holds a backup ({file}), which is kept as it is: restore it into another \
             directory and open that"
        ),
    }
}
