//! Backup: pages and log of a database, copied while its sessions work.
//!
//! ```text
//!   checkpoint ─► pages, as the file has them, in order ─► what is durable? ─► log, from the checkpoint up to there
//!        └───────────────────── no other checkpoint is made, nothing of the log is released ─────────────────┘
//! ```
//!
//! The copy is in a state that a crash could have left, and the ordinary restart opens it: it has all transactions that
//! were committed and durable at the third step above, and no others.
//!
//! - No page is copied while it is being written, so none is torn.
//! - Changes that a copied page lacks are in the log: those that the file lacked at the checkpoint, and later ones.
//! - Changes that a copied page has are in the log, too: a page is written only after its log is durable, and the log
//!   is copied last.
//! - A page that was made after the end of the file was determined is made again from its log record.
//!
//! Not here: the files of a backup, and how a database is restored from one (`backup/`). Invariant: the database is
//! only read.

use super::PagedStore;
use super::error::OpenError;
use super::rows::RowAccess;
use crate::backup::{Backup, BackupFailure, Copier, write_with};
use crate::disk::Disk;
use crate::log::{KeptLog, Logging};
use crate::paged::pool::PAGES_FILE;
use crate::profile::PagedProfile;
use crate::value_log;

impl<P: PagedProfile> PagedStore<P> {
    /// Backs the database up into the empty directory `to`, while transactions of other sessions run; this session's
    /// own must have ended. It holds all that was answered before this call, and of what is answered meanwhile all up
    /// to some moment. Checkpoints wait, so the log grows.
    ///
    /// # Errors
    /// See [`BackupFailure`]; no copy is left then, or one that is marked as none. `CannotSave` where pages or log are
    /// not kept in files.
    pub fn backup(&self, to: &dyn Disk) -> Result<Backup, BackupFailure> {
        self.backup_until(to, || self.kept_log())
    }

    /// The same up to what was durable ([`PagedStore::kept_log`]) when `end` was called, once the pages are copied: so
    /// several databases are backed up as of one moment.
    ///
    /// # Errors
    /// As [`PagedStore::backup`]; what `end` says.
    pub fn backup_until(
        &self,
        to: &dyn Disk,
        end: impl FnOnce() -> Result<KeptLog, BackupFailure>,
    ) -> Result<Backup, BackupFailure> {
        let (made, _held) = self.database.checkpoint_before_copy()?;
        if made.is_none() {
            return Err(OpenError::CannotSave.into());
        }
        write_with(to, |copier| {
            self.copy_pages(copier)?;
            let KeptLog { disk, needed, group, aside } = end()?;
            Ok(value_log::copy_positions(&*disk, (needed, group), &aside, copier)?)
        })
    }

    /// What of the log a restart needs to find what is durable now.
    ///
    /// # Errors
    /// When the disk fails; `CannotSave` where no log is kept.
    pub fn kept_log(&self) -> Result<KeptLog, BackupFailure> {
        let kept = self.database.log.kept().map_err(OpenError::from)?;
        kept.ok_or_else(|| OpenError::CannotSave.into())
    }

    fn copy_pages(&self, copier: &mut Copier<'_>) -> Result<(), BackupFailure> {
        let mut file = None;
        let copy = |total: u64, offset: u64, bytes: &[u8]| {
            let file = match &mut file {
                Some(file) => file,
                none => none.insert(copier.file(PAGES_FILE, total)?),
            };
            Ok::<(), BackupFailure>(file.write(bytes, offset)?)
        };
        RowAccess::<<P::Log as Logging>::Ahead>::show_file(&self.database.pages, copy)?;
        file.map(|file| copier.end(file)).transpose()?;
        Ok(())
    }
}
