//! Where a run's files lie: the directory it was given, or a fresh one.
//!
//! A run never writes into a directory that holds something. Where more than `none` is asked of
//! durability, the directory must be on a file system that outlives the machine's power. Not here:
//! the files (storage `disk`).

use std::fs;
use std::path::{Path, PathBuf};

use crate::failure::{Failure, reason};

/// The name of fresh directories, with a number behind all but the first.
const FRESH_NAME: &str = "tombolo-data";
/// How many names are tried.
const FRESH_NAMES: u32 = 10_000;
/// File systems that keep nothing.
const VOLATILE: [&str; 3] = ["tmpfs", "ramfs", "devtmpfs"];

/// Which file systems files may lie on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// Any.
    Any,
    /// Those that outlive the machine's power.
    Lasting,
}

impl Medium {
    /// A lasting one if files have to last.
    pub const fn lasting_if(have_to_last: bool) -> Self {
        if have_to_last { Self::Lasting } else { Self::Any }
    }
}

/// A directory for the files of one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The directory.
    pub path: PathBuf,
    /// Its file system's type.
    pub file_system: String,
    /// Whether the run made up its name.
    pub is_fresh: bool,
}

/// Refuses a directory that no run may use, before anything is written.
///
/// # Errors
/// When it holds something, is no directory, or is not on such a `medium`.
pub(crate) fn verify(given: Option<&Path>, medium: Medium) -> Result<(), Failure> {
    let path = given.unwrap_or(Path::new("."));
    if let Some(path) = given {
        verify_empty(path)?;
    }
    let existing = path.ancestors().find(|path| path.exists()).unwrap_or(Path::new("."));
    let file_system = file_system(existing);
    if medium == Medium::Lasting && VOLATILE.contains(&file_system.as_str()) {
        return Err(Failure::environment(format!(
            "directory {} is on {file_system}, which keeps nothing: give --data one on a disk, \
             --durability none or --volatile-ok",
            path.display()
        )));
    }
    Ok(())
}

fn verify_empty(path: &Path) -> Result<(), Failure> {
    let refuse = |what: &str| {
        Err(Failure::usage(format!(
            "directory {} {what}: give --data a new or an empty one",
            path.display()
        )))
    };
    match fs::read_dir(path) {
        Ok(mut entries) => match entries.next() {
            None => Ok(()),
            Some(_) => refuse("is not empty"),
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => refuse(&format!("cannot be used: {}", reason(&error))),
    }
}

impl Place {
    /// Makes the directory that was given, or a fresh one under the current directory.
    ///
    /// # Errors
    /// When it cannot be made or written, or must not be used.
    pub fn create(given: Option<&Path>, medium: Medium) -> Result<Self, Failure> {
        verify(given, medium)?;
        let path = match given {
            Some(path) => path.to_owned(),
            None => {
                let here = Path::new(".");
                fresh(here).map_err(|error| unwritable(here, "--data", &error))?
            }
        };
        make_writable(&path, "--data")?;
        let file_system = file_system(&path);
        Ok(Self { path, file_system, is_fresh: given.is_none() })
    }

    /// A directory that holds a database.
    ///
    /// # Errors
    /// When there is none.
    pub fn existing(path: &Path) -> Result<Self, Failure> {
        if !path.is_dir() {
            return Err(Failure::usage(format!(
                "{} is no directory: give --data the one of an earlier run",
                path.display()
            )));
        }
        let file_system = file_system(path);
        Ok(Self { path: path.to_owned(), file_system, is_fresh: false })
    }

    /// Removes the directory with everything in it.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn remove(&self) -> Result<(), Failure> {
        fs::remove_dir_all(&self.path).map_err(|error| {
            let path = self.path.display();
            Failure::environment(format!("directory {path} cannot be removed: {error}"))
        })
    }
}

/// Makes the directory `path` where it does not exist, and proves that files can be written in it; `flag` is the one
/// that can be given another directory.
pub(crate) fn make_writable(path: &Path, flag: &str) -> Result<(), Failure> {
    let probe = path.join(".tombolo-writable");
    let tried = fs::create_dir_all(path)
        .and_then(|()| fs::write(&probe, b""))
        .and_then(|()| fs::remove_file(&probe));
    tried.map_err(|error| unwritable(path, flag, &error))
}

/// The failure of a directory in which nothing can be written.
pub(crate) fn unwritable(path: &Path, flag: &str, error: &std::io::Error) -> Failure {
    Failure::environment(format!(
        "directory {} cannot be written: {}: give {flag} another one",
        path.display(),
        reason(error)
    ))
}

/// Makes a directory under `parent` whose name nothing has.
fn fresh(parent: &Path) -> std::io::Result<PathBuf> {
    let others = (2..=FRESH_NAMES).map(|number| format!("{FRESH_NAME}-{number}"));
    make_first(parent, std::iter::once(FRESH_NAME.to_owned()).chain(others))
}

/// Makes the first of the directories `names` in `parent` that is not there.
pub(super) fn make_first(
    parent: &Path,
    names: impl Iterator<Item = String>,
) -> std::io::Result<PathBuf> {
    for path in names.map(|name| parent.join(name)) {
        match fs::create_dir(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            made => return made.map(|()| path),
        }
    }
    Err(std::io::ErrorKind::AlreadyExists.into())
}

/// The type of the file system that `path` is on; `unknown` where the system does not say.
fn file_system(path: &Path) -> String {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    type_of(&mounts, &path).unwrap_or("unknown").to_owned()
}

/// The type of the file system mounted nearest above `path`; of several at one place, the last.
fn type_of<'a>(mounts: &'a str, path: &Path) -> Option<&'a str> {
    let mounted = |line: &'a str| {
        let (mount, system) = line.split_once(" - ")?;
        let point = mount.split(' ').nth(4)?.replace("\\040", " ");
        let depth = Path::new(&point).components().count();
        path.starts_with(&point).then_some((depth, system.split(' ').next()?))
    };
    mounts.lines().filter_map(mounted).max_by_key(|(depth, _)| *depth).map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Blame;

    #[test]
    fn the_nearest_mount_counts() {
        let mounts = "22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n\
                      30 22 0:25 / /dev/shm rw - tmpfs tmpfs rw\n\
                      31 22 0:26 / /mnt/two\\040words rw - xfs /dev/vdb rw\n\
                      32 22 0:27 / /dev/shm rw - ramfs none rw\n";
        let of = |path: &str| type_of(mounts, Path::new(path));
        assert_eq!(of("/somewhere/x"), Some("ext4"));
        assert_eq!(of("/dev/shm/run"), Some("ramfs"), "the last one mounted there");
        assert_eq!(of("/dev/shmoo"), Some("ext4"));
        assert_eq!(of("/mnt/two words/x"), Some("xfs"));
        assert_ne!(file_system(Path::new("/proc")), "unknown");
    }

    #[test]
    fn only_new_and_empty_directories_are_used() {
        let scratch = tempfile::tempdir().unwrap();
        let new = scratch.path().join("a/b");
        let place = Place::create(Some(&new), Medium::Any).unwrap();
        assert!((place.path == new) & new.is_dir() & !place.is_fresh);
        Place::create(Some(&new), Medium::Any).unwrap();
        fs::write(new.join("file"), b"x").unwrap();
        let refused = Place::create(Some(&new), Medium::Any).unwrap_err();
        assert_eq!(refused.blame(), Blame::Usage);
        assert!(refused.to_string().contains("is not empty"), "{refused}");
        let refused = verify(Some(&new.join("file")), Medium::Any).unwrap_err();
        assert_eq!(refused.blame(), Blame::Usage);
        place.remove().unwrap();
        assert!(!new.exists());
        let fresh = [fresh(scratch.path()).unwrap(), fresh(scratch.path()).unwrap()];
        assert!(fresh[0] != fresh[1] && fresh[1].is_dir(), "{fresh:?}");
    }

    #[test]
    fn memory_is_no_disk() {
        let path = Path::new("/dev/shm/tombolo-test-place");
        if file_system(path.parent().unwrap()) != "tmpfs" {
            return; // not on this machine
        }
        let refused = verify(Some(path), Medium::Lasting).unwrap_err();
        assert_eq!(refused.blame(), Blame::Environment);
        assert!(refused.to_string().contains("tmpfs"), "{refused}");
        verify(Some(path), Medium::lasting_if(false)).unwrap();
    }
}
