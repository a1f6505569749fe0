//! LMDB's environment, for every comparison with it (docs/compare.md).
//!
//! # Durability
//! `group`: LMDB's default: a transaction's pages are written and synced, then the page that leads to
//! them, which is two syncs. Without the second (`MDB_NOMETASYNC`) the last transaction may be lost.
//! `none`: `MDB_NOSYNC` on a writable map, the least that a database with a file can do.
//!
//! Opening maps a file: a program that changes the file from elsewhere changes memory that this program trusts.
//! The file lies in a directory that the comparison has just made for itself, and removes
//! (docs/decisions/0025-peers-by-their-libraries.md).

use std::path::Path;

use heed::{Env, EnvFlags, EnvOpenOptions, Error};

use crate::failure::Failure;

pub(super) fn failed(error: Error) -> Failure {
    Failure::check(format!("lmdb failed: {error}"))
}

/// The library's version.
pub(super) fn version() -> String {
    let heed::LmdbVersion { major, minor, patch, .. } = heed::lmdb_version();
    format!("{major}.{minor}.{patch}")
}

/// An environment in `directory`, which the caller has just made: `map_bytes` of address space for
/// up to `trees` named trees.
///
/// # Errors
/// When LMDB refuses.
pub(super) fn open(
    directory: &Path,
    map_bytes: usize,
    trees: u32,
    is_durable: bool,
) -> Result<Env, Failure> {
    let mut options = EnvOpenOptions::new();
    options.map_size(map_bytes);
    options.max_dbs(trees);
    let flags = match is_durable {
        true => EnvFlags::empty(),
        false => EnvFlags::WRITE_MAP | EnvFlags::NO_SYNC,
    };
    // SAFETY: the file lies in a directory that has just been made, so no other process has it open or mapped,
    // and it is not opened twice. The flags ask for no sync where nothing is promised, and never for no lock;
    // the writable map is reached by nothing but LMDB, since heed gives out its bytes to read only.
    unsafe { options.flags(flags).open(directory) }.map_err(failed)
}
