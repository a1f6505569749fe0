//! The command as shipped, for the chores that run it: building and finding it, and its directories.
//!
//! Not here: starting and ending processes (`process.rs`).

use std::path::{Path, PathBuf};

use crate::failure::Failure;
use crate::folders::target_folder;
use crate::invocation::Invocation;
use crate::process::{LOOK, PATIENCE, sleep};
use crate::stopwatch::Stopwatch;

/// The path of the command: the given one, or that of a new build as shipped.
pub(crate) fn program(root: &Path, named: Option<&str>) -> Result<PathBuf, Failure> {
    if let Some(named) = named {
        return Ok(named.into());
    }
    Invocation::cargo("build --release --quiet -p tombolo-cli").succeed(root)?;
    Ok(target_folder(root).join("release").join("tombolo"))
}

/// Copies a database's directory: the files in it.
pub(crate) fn copy(from: &Path, to: &Path) -> Result<(), String> {
    let copied = std::fs::create_dir_all(to).and_then(|()| {
        for entry in std::fs::read_dir(from)? {
            let entry = entry?;
            std::fs::copy(entry.path(), to.join(entry.file_name()))?;
        }
        Ok(())
    });
    copied.map_err(|error: std::io::Error| format!("cannot copy {}: {error}", from.display()))
}

/// Waits until no process has the database in `data`: a traced program may still be exiting when strace
/// has ended.
///
/// # Errors
/// When a process has it for longer than [`PATIENCE`].
pub(crate) fn wait_until_free(data: &Path) -> Result<(), String> {
    let lock = data.join("lock");
    let clock = Stopwatch::start();
    loop {
        let is_free = match std::fs::OpenOptions::new().read(true).open(&lock) {
            // Taken only briefly: closing the file releases it.
            Ok(file) => file.try_lock().is_ok(),
            Err(_) => true, // there is none yet
        };
        match is_free {
            true => return Ok(()),
            false if clock.elapsed() > PATIENCE => {
                return Err(format!("{} is still locked", lock.display()));
            }
            false => sleep(LOOK),
        }
    }
}
