//! Backup and restore: image and log of a memory store, copied while it works, or pages and log of a paged one
//! (`paged/store/backup.rs`).
//!
//! ```text
//!   write:    backup-unfinished ─► rings, catalogue ─► which group is durable? ─► log up to it ─► backup
//!   restore:  read backup ─► backup-unfinished ─► every file, verified as it is copied ─► marker gone
//!                                                        └─ and the archive's groups behind it ─┘
//! ```
//!
//! A backup is a directory with new files of a database: intact blocks and groups have the same places as in the
//! original, and everything else is zero. The image is copied block by block while no checkpoint is written (the
//! caller ensures that), and the log is copied group by group up to a durable group. So a copy never has half-written
//! bytes, and a backup of a damaged database fails. The file `backup`, which is written last, has the number of the
//! last group, and length and checksum of every file. Backups of the islands of one database are a set (`set.rs`).
//!
//! Two files distinguish a copy from a database: `backup-unfinished` is in a directory whose backup or restore was
//! ended by a crash or a full disk, `backup` is in a finished backup. A directory with either is not opened
//! (`value_log/lock.rs`); [`restore`] makes a database from a finished backup.
//!
//! Not here: threads, holding off checkpoints and the log's release (the engine's), archives of the
//! log (`value_log/archive/`). Invariants: nothing is written in the directory that is copied; if the file
//! `backup` is intact, all other files are durable; a failure leaves no copy, or one with
//! `backup-unfinished`.

mod copier;
mod failure;
mod manifest;
pub(crate) mod marks;
mod sealed;
mod set;

pub use failure::BackupFailure;

pub(crate) use copier::{CopiedFile, Copier, Copying};
pub use marks::{BACKUP_FILE, UNFINISHED_FILE};
pub use set::{restore_set, verify_set, write_set};

use manifest::Manifest;
use sealed::Sealed;

use crate::disk::{Disk, Open};
use crate::memory::image::{Image, ImageSettings, restored_file};
use crate::sync::Arc;
use crate::value_log::archive::{Plan, RestoreTarget, Tail};
use crate::value_log::{self, GroupNumber, LogPosition, LogSettings};

/// Bytes that are copied at a time when a backup is restored.
const CHUNK_BYTES: usize = 1 << 20;

/// What a backup holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backup {
    /// The group it goes up to, and with it how many transactions.
    pub position: LogPosition,
    /// Its files, without the manifest.
    pub files: usize,
    /// Their bytes.
    pub bytes: u64,
}

/// Backs up the database on `from`, its image's directories in their order, into the empty directory
/// `to`. `durable` is asked once, when the image was copied, for a group that is durable and not older than the image:
/// the backup goes up to it. Until this returns no thread writes the image's files, and no group of the
/// log behind the last complete checkpoint is released.
///
/// # Errors
/// See [`BackupFailure`]; no copy is left then, or one that is marked as none.
pub fn write(
    from: &[Arc<dyn Disk>],
    to: &dyn Disk,
    settings: &LogSettings,
    durable: &mut dyn FnMut() -> GroupNumber,
) -> Result<Backup, BackupFailure> {
    write_with(to, |copier| {
        let direct = settings.direct;
        let image = Image::find(from.to_vec(), ImageSettings { direct, ..Default::default() })?;
        let start = image.copy(copier)?;
        Ok(value_log::copy(&*from[0], settings, start, durable(), copier)?)
    })
}

/// Makes a backup in the empty directory `to` of the files that `copy` makes; it says where the log ends.
///
/// # Errors
/// As [`write`].
pub(crate) fn write_with(
    to: &dyn Disk,
    copy: impl FnOnce(&mut Copier<'_>) -> Result<LogPosition, BackupFailure>,
) -> Result<Backup, BackupFailure> {
    Copier::make(to, Some(BACKUP_FILE), |copier| {
        let position = copy(copier)?;
        let manifest = Manifest { position, files: copier.files().to_vec() };
        to.sync_dir()?;
        manifest.write(to)?;
        Ok(manifest.backup())
    })
}

/// Makes a database of the backup in `from` in the empty directory `to`, verifying every file while
/// it is copied. The backup is not changed. `mark` distinguishes this database from the one that was
/// backed up, and from others restored of the same backup: a random number.
///
/// # Errors
/// See [`BackupFailure`]; no database is left then, or one that is marked as none.
pub fn restore(from: &dyn Disk, to: &dyn Disk, mark: u64) -> Result<Backup, BackupFailure> {
    let manifest = Manifest::read(from)?;
    Copier::make(to, None, |copier| {
        copy_files(from, &manifest, mark, copier)?;
        Ok(manifest.backup())
    })
}

/// The same, followed by the groups of `archive` behind the backup, up to `target`. The restored database continues
/// the same log on another course. Returns the position that was reached, and the time of its last group.
///
/// # Errors
/// See [`BackupFailure`]; no database is left then, or one that is marked as none.
pub fn restore_until(
    from: &dyn Disk,
    archive: &dyn Disk,
    target: RestoreTarget,
    to: &dyn Disk,
    mark: u64,
) -> Result<(Backup, u64), BackupFailure> {
    let manifest = Manifest::read(from)?;
    // Before anything is written, so that an unreachable target is reported first.
    let tail = Tail::find(from, manifest.position)?;
    let plan = Plan::make(archive, &tail, target)?;
    Copier::make(to, None, |copier| {
        copy_files(from, &manifest, mark, copier)?;
        let position = plan.place(archive, &tail, to, copier)?;
        let files = copier.files().to_vec();
        Ok((Manifest { position, files }.backup(), plan.time_us))
    })
}

/// Copies the files of a backup and marks them as a database of their own, if its image must differ from others'.
fn copy_files(
    from: &dyn Disk,
    manifest: &Manifest,
    mark: u64,
    copier: &mut Copier<'_>,
) -> Result<(), BackupFailure> {
    if !manifest.is_paged() {
        copier.mark(&restored_file(mark))?;
    }
    manifest.files.iter().try_for_each(|file| copy_file(from, file, copier))
}

/// Copies one file of a backup, and refuses one that has changed.
fn copy_file(
    from: &dyn Disk,
    file: &CopiedFile,
    copier: &mut Copier<'_>,
) -> Result<(), BackupFailure> {
    let damaged = |name: &str, what| BackupFailure::Damaged { file: name.to_owned(), what };
    let source = match from.open(&file.name, Open::Read) {
        Err(error) if error.is_not_found() => {
            return Err(damaged(error.file(), "it is not there".to_owned()));
        }
        opened => opened?,
    };
    let length = source.len()?;
    if length != file.bytes {
        let what = format!("it has {length} bytes and had {}", file.bytes);
        return Err(damaged(source.name(), what));
    }
    let mut out = copier.file(&file.name, file.bytes)?;
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut at = 0;
    while at < length {
        let count = (length - at).min(CHUNK_BYTES as u64) as usize;
        source.read_at(&mut chunk[..count], at)?;
        out.write(&chunk[..count], at)?;
        at += count as u64;
    }
    match copier.end(out)? {
        copied if copied == *file => Ok(()),
        _ => Err(damaged(source.name(), "its checksum is not what it was".to_owned())),
    }
}
