//! The exchange of a database's islands for others, by renaming their directories.
//!
//! Whatever ends it meanwhile, calling it again continues. Not here: what the new islands hold. Invariant: which
//! islands are the old ones is written before the first new one takes its place.

use std::fs;
use std::path::{Path, PathBuf};

use tombolo_engine::islands::membership::{
    COMPLETE, REPARTITION, are_exchanged, island_directory, islands_in,
};
use tombolo_storage::disk::{Disk, Open, OsDisk};

use super::Repartitioned;
use crate::error::Error;
use crate::open::make_directory;

/// The old islands are all in the directory `before`.
const MOVED: &str = "moved";
const BEFORE: &str = "before";

/// Lets `copy` make the new islands of a database, unless an earlier call has, and exchanges them. `copy` returns how
/// many rows it copied, and the old islands, which stay locked until they are elsewhere.
pub(crate) fn copy_and_exchange<T>(
    directory: &Path,
    further: &[PathBuf],
    copy: impl FnOnce() -> Result<(u64, Vec<T>), Error>,
) -> Result<Repartitioned, Error> {
    let mut repartitioned = Repartitioned { before: 0, rows: 0 };
    let mut _old = Vec::new();
    if !are_exchanged(directory) {
        repartitioned.before = islands_in(directory);
        (repartitioned.rows, _old) = copy()?;
    }
    exchange(directory, further)?;
    Ok(repartitioned)
}

/// Lets `make` make the new islands of a database in an empty directory, which is complete then; nothing of them is
/// left if it fails. The locks of the old islands are held, so no other process makes that directory.
pub(crate) fn make_new(
    directory: &Path,
    make: impl FnOnce(&Path) -> Result<u64, Error>,
) -> Result<u64, Error> {
    let place = begin(directory)?;
    match make(&place) {
        Ok(rows) => complete(&place).map(|()| rows),
        Err(error) => {
            // What cannot be removed the next call removes.
            let _ = fs::remove_dir_all(&place);
            Err(error)
        }
    }
}

/// An empty directory for new islands.
fn begin(directory: &Path) -> Result<PathBuf, Error> {
    let place = directory.join(REPARTITION);
    if place.exists() {
        fs::remove_dir_all(&place).map_err(|cause| failed(&place, &cause))?;
    }
    make_directory(&place)?;
    Ok(place)
}

/// From here on the database has the islands in this directory, once they are exchanged.
fn complete(place: &Path) -> Result<(), Error> {
    let disk = OsDisk::open(place)?;
    disk.open(COMPLETE, Open::New)?.sync()?;
    Ok(disk.sync_dir()?)
}

/// Puts the new islands in the place of the old ones, and removes what these have in `further` directories. Each step
/// can be repeated.
fn exchange(directory: &Path, further: &[PathBuf]) -> Result<(), Error> {
    let place = directory.join(REPARTITION);
    let (disk, old) = (OsDisk::open(&place)?, place.join(BEFORE));
    if !disk.exists(MOVED)? {
        make_directory(&old)?;
        rename_islands(directory, &old)?;
        disk.open(MOVED, Open::New)?.sync()?;
        disk.sync_dir()?;
    }
    rename_islands(&place, directory)?;
    for further in further {
        for island in islands_below(further)? {
            fs::remove_dir_all(&island).map_err(|cause| failed(&island, &cause))?;
        }
    }
    if old.exists() {
        fs::remove_dir_all(&old).map_err(|cause| failed(&old, &cause))?;
    }
    // This mark goes first: with it and without the other one, the new islands would be taken for the old ones.
    disk.remove(COMPLETE)?;
    disk.sync_dir()?;
    fs::remove_dir_all(&place).map_err(|cause| failed(&place, &cause))?;
    Ok(OsDisk::open(directory)?.sync_dir()?)
}

/// The directories of islands in `directory`.
fn islands_below(directory: &Path) -> Result<Vec<PathBuf>, Error> {
    let entries = fs::read_dir(directory).map_err(|cause| failed(directory, &cause))?;
    let is_island = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let number = name.strip_prefix("island-").and_then(|number| number.parse().ok());
        number.is_some_and(|number: usize| island_directory(number) == name)
    };
    let paths = entries.filter_map(|entry| entry.ok().map(|entry| entry.path()));
    Ok(paths.filter(is_island).collect())
}

/// Moves the directories of all islands from one directory to another.
fn rename_islands(from: &Path, to: &Path) -> Result<(), Error> {
    for island in islands_below(from)? {
        let place = to.join(island.file_name().unwrap_or_default());
        fs::rename(&island, place).map_err(|cause| failed(&island, &cause))?;
    }
    for directory in [to, from] {
        OsDisk::open(directory)?.sync_dir()?;
    }
    Ok(())
}

fn failed(path: &Path, cause: &std::io::Error) -> Error {
    Error::Directory(format!("{}: {cause}: try again when that is remedied", path.display()))
}
