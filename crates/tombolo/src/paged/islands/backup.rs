//! Backups of all islands as of one moment.
//!
//! ```text
//!   pages of each island ─► a moment: what is durable in each log ─► each log up to there ─► backup
//! ```
//!
//! The moment is one at which the machine might have lost its power: islands that are restored agree on every
//! transaction that was under way, as they do after a crash. Not here: the copy of one island (storage
//! `paged/store/backup.rs`); the files of a set, and databases made of one (`crate::islands::backup`).

use std::path::Path;

use tombolo_engine::islands::membership::island_directory;
use tombolo_storage::backup::{self, BackupFailure};
use tombolo_storage::disk::OsDisk;
use tombolo_storage::log::KeptLog;

use super::super::lender::Lent;
use super::super::sessions::Session;
use super::{PagedDatabase, PagedIslands};
use crate::backup::Backup;
use crate::error::Error;
use crate::islands::Islands;
use crate::islands::backup::{refuse_islands, remove_copies};
use crate::open::make_directory;

impl PagedIslands {
    /// Copies all islands into a new or an empty directory while they run, and blocks until the copy is durable. It is
    /// of one moment during this call: what was acknowledged before it is in the copy, and of each transaction over
    /// several islands all or nothing. Otherwise as [`PagedDatabase::backup`].
    ///
    /// # Errors
    /// As [`PagedDatabase::backup`].
    pub fn backup(&self, to: impl AsRef<Path>) -> Result<Vec<Backup>, Error> {
        let sessions = self.islands.iter().map(PagedDatabase::take);
        let sessions = sessions.collect::<Result<Vec<_>, _>>()?;
        let (path, to) = (to.as_ref(), make_directory(to.as_ref())?);
        refuse_islands(path)?;
        let made = backup::write_set(&to, || {
            let mut made = Vec::new();
            let copied = copy_from(0, &sessions, path, &mut made);
            if copied.is_err() {
                remove_copies(path, sessions.len());
            }
            made.reverse();
            copied.map(|_| made)
        })?;
        Ok(made.into_iter().map(Backup::from).collect())
    }

    /// As [`Islands::restore`], which this is: makes a database of islands from the backup in `from`, in a new or an
    /// empty directory `to`, which can then be opened.
    ///
    /// # Errors
    /// As [`Islands::restore`].
    pub fn restore(from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<Vec<Backup>, Error> {
        Islands::restore(from, to)
    }
}

/// Copies the pages of the islands from one on, then, up to one moment for all, their logs, last ones first. Returns
/// where the logs of the islands before end.
fn copy_from(
    island: usize,
    sessions: &[Lent<'_, Session>],
    to: &Path,
    made: &mut Vec<backup::Backup>,
) -> Result<Vec<KeptLog>, BackupFailure> {
    let Some(session) = sessions.get(island) else { return moment(sessions) };
    let own = OsDisk::create(&to.join(island_directory(island)))?;
    let mut ends = Vec::new();
    let copied = session.store.backup_until(&own, || {
        ends = copy_from(island + 1, sessions, to, made)?;
        Ok(ends.pop().unwrap_or_else(|| unreachable!("each island's log ends somewhere")))
    })?;
    made.push(copied);
    Ok(ends)
}

/// What is durable in each log at one moment: logs only grow, so where two looks in a row see the same, it was so at
/// the moment between the two.
fn moment(sessions: &[Lent<'_, Session>]) -> Result<Vec<KeptLog>, BackupFailure> {
    let look = || sessions.iter().map(|session| session.store.kept_log());
    let mut before: Vec<_> = look().collect::<Result<_, _>>()?;
    loop {
        let now: Vec<_> = look().collect::<Result<_, _>>()?;
        if before.iter().zip(&now).all(|(before, now)| before.ends_as(now)) {
            return Ok(now);
        }
        before = now;
    }
}
