//! A directory for files that are of use only while a command runs.
//!
//! It is removed when the command ends. A command that was killed leaves it; the next one that makes such a directory
//! at the same place removes it. The owner holds a lock on a file in the directory as long as it lives, so a
//! directory that was left behind is recognised.
//!
//! Not here: what is in it.

use std::fs;
use std::path::{Path, PathBuf};

use tombolo_storage::disk::{Disk, DiskFile, Open, OsDisk};

use super::place::{make_first, unwritable};
use crate::failure::{Blamed, Failure};
use crate::files::{Medium, Place};

/// The name of such directories, with a number behind it.
const NAME: &str = "tombolo-work-";
/// The file that says whether there still is an owner.
const OWNER_FILE: &str = "owner";
/// How many names are tried.
const NAMES: u32 = 10_000;

/// A directory that goes with its owner.
#[derive(Debug)]
pub struct WorkDirectory {
    path: PathBuf,
    file_system: String,
    owner: Option<Box<dyn DiskFile>>,
}

impl WorkDirectory {
    /// Makes one in the directory `parent`, which is made too, and removes those that owners left
    /// behind there.
    ///
    /// # Errors
    /// When it cannot be made or written, or is not on such a `medium`.
    pub fn create(parent: &Path, medium: Medium) -> Result<Self, Failure> {
        remove_abandoned(parent);
        let path = fresh(parent)?;
        let place = Place::create(Some(&path), medium).inspect_err(|_| {
            // It is empty, if it is there at all.
            let _ = fs::remove_dir(&path);
        })?;
        let taken = OsDisk::open(&path).and_then(|disk| {
            let owner = disk.open(OWNER_FILE, Open::New)?;
            owner.try_lock()?;
            Ok(owner)
        });
        let owner = taken.or_environment()?;
        Ok(Self { path, file_system: place.file_system, owner: Some(owner) })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The type of its file system.
    pub fn file_system(&self) -> &str {
        &self.file_system
    }
}

impl Drop for WorkDirectory {
    fn drop(&mut self) {
        self.owner = None;
        // What cannot be removed is removed by the next command.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Makes a directory in `parent` whose name nothing has.
fn fresh(parent: &Path) -> Result<PathBuf, Failure> {
    let failed = |error: std::io::Error| unwritable(parent, "--data", &error);
    fs::create_dir_all(parent).map_err(failed)?;
    // Names of one length: they are arguments of counted processes.
    let names = (0..NAMES).map(|number| format!("{NAME}{number:04}"));
    make_first(parent, names).map_err(failed)
}

/// Removes what commands left that did not end by themselves.
fn remove_abandoned(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let digits = name.to_str().and_then(|name| name.strip_prefix(NAME));
        let is_ours = digits.is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()));
        if is_ours && is_abandoned(&entry.path()) {
            // What stays does no harm.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Whether the process that owned a directory has ended.
fn is_abandoned(path: &Path) -> bool {
    let owner = OsDisk::open(path).and_then(|disk| disk.open(OWNER_FILE, Open::Write));
    owner.is_ok_and(|owner| owner.try_lock().unwrap_or(false))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_goes_with_its_owner_or_with_the_next() {
        let parent = tempfile::tempdir().unwrap();
        let first = WorkDirectory::create(parent.path(), Medium::Any).unwrap();
        let second = WorkDirectory::create(parent.path(), Medium::Any).unwrap();
        assert!(first.path() != second.path() && first.path().is_dir());
        fs::write(first.path().join("pages"), b"x").unwrap();
        let kept = second.path().to_owned();
        // Killed: what it holds taken is given back by the system, the files stay.
        let mut second = second;
        second.owner = None;
        std::mem::forget(second);
        let third = WorkDirectory::create(parent.path(), Medium::Any).unwrap();
        assert!(first.path().is_dir(), "its owner lives");
        assert_eq!(third.path(), kept, "the name is free again");
        let gone = first.path().to_owned();
        drop(first);
        assert!(!gone.exists());
    }

    #[test]
    fn what_only_looks_like_one_stays() {
        let parent = tempfile::tempdir().unwrap();
        for name in ["tombolo-work-0000", "tombolo-work-x", "tombolo-work-1x"] {
            fs::create_dir(parent.path().join(name)).unwrap();
        }
        fs::write(parent.path().join("tombolo-work-x").join(OWNER_FILE), b"").unwrap();
        let made = WorkDirectory::create(parent.path(), Medium::Any).unwrap();
        assert_eq!(made.path(), parent.path().join("tombolo-work-0001"));
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 4);
    }
}
