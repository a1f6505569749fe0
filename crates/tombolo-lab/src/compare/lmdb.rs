//! LMDB's environment, for every comparison with it (docs/compare.md): trees whose keys are native integers, which
//! LMDB compares as such.
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

use heed::types::Bytes;
use heed::{CommitOrAbort, Database, Env, EnvFlags, EnvOpenOptions, Error, IntegerComparator};

use crate::failure::Failure;

pub(super) fn failed(error: Error) -> Failure {
    Failure::check(format!("lmdb failed: {error}"))
}

/// The library's version.
pub(super) fn version() -> String {
    let heed::LmdbVersion { major, minor, patch, .. } = heed::lmdb_version();
    format!("{major}.{minor}.{patch}")
}

/// Bytes under native integers.
pub(super) type Tree = Database<'static, Bytes, Bytes, IntegerComparator>;

/// An environment in `directory`, which the caller has just made: `map_bytes` of address space for trees called
/// `names`, which are empty.
///
/// # Errors
/// When LMDB refuses.
pub(super) fn make<const N: usize>(
    directory: &Path,
    map_bytes: usize,
    names: [&str; N],
    is_durable: bool,
) -> Result<(Env, [Tree; N]), Failure> {
    let mut options = EnvOpenOptions::new();
    options.map_size(map_bytes);
    options.max_dbs(N as u32);
    let flags = match is_durable {
        true => EnvFlags::empty(),
        false => EnvFlags::WRITE_MAP | EnvFlags::NO_SYNC,
    };
    // SAFETY: the file lies in a directory that has just been made, so no other process has it open or mapped,
    // and it is not opened twice. The flags ask for no sync where nothing is promised, and never for no lock;
    // the writable map is reached by nothing but LMDB, since heed gives out its bytes to read only.
    let environment = unsafe { options.flags(flags).open(directory) }.map_err(failed)?;
    let transaction = environment.write_txn().map_err(failed)?;
    let created = environment.create_databases_and_commit(transaction, |databases, transaction| {
        let options = databases.database_options().types::<Bytes, Bytes>();
        let mut trees = Vec::with_capacity(N);
        for name in names {
            let mut options = options.key_comparator::<IntegerComparator>();
            trees.push(options.name(name).create(transaction)?);
        }
        let trees = trees.try_into().unwrap_or_else(|_| unreachable!("a tree for each name"));
        Ok::<_, Error>(CommitOrAbort::<[_; N], ()>::Commit(trees))
    });
    Ok((environment, created.map_err(failed)?.unwrap_commit()))
}
