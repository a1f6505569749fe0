//! Restart after a crash (LG-19, ARIES): changes in the log are made again in the pages, transactions that did not
//! end are undone, and ghosts of committed transactions are removed.
//!
//! ```text
//!   analysis ─────────────► redo ───────────────────► undo ──────────────► open
//!   what has to be done     pages from the log, in    by the code of        transaction numbers
//!   (reads the log once)    windows, by page number   undo.rs, then purges  continue
//! ```
//!
//! | pass | reads | writes |
//! |---|---|---|
//! | `analysis.rs` | the needed part of the log, while that is opened | nothing |
//! | `redo.rs` | the log from the first change of a dirty page, or of a transaction that did not end | pages |
//! | `undo.rs` | what redo kept of these transactions | pages, log |
//!
//! Between redo and undo, transactions that are prepared take their locks again (`prepared.rs`).
//!
//! A crash during a restart needs no special code: redo makes no change twice, because each page has the LSN up to
//! which it was redone, and undo logs compensations, which are redone and never undone.
//!
//! Not here: checkpoints. Analysis begins where the last one said that the log is needed, and takes out of its table
//! what that found in the file. Pages that a restart changes are written by the checkpoints that follow.

mod analysis;
mod by_page;
mod prepared;
mod progress;
mod redo;
mod undo;

#[cfg(test)]
#[cfg(not(loom))]
mod tests;

pub(super) use analysis::Reading;
pub use progress::RestartProgress;
pub(super) use progress::Watch;

use super::catalogue;
use super::database::Database;
use super::error::OpenError;
use crate::log::{LOG_FILES, LogFailure, Logging};
use crate::paged::page::PageId;
use crate::paged::pool::{PageAccess, PageError};
use crate::profile::PagedProfile;

/// What a restart did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Restart {
    /// Bytes of the log from the first record that was redone to the end: how long it takes.
    pub log_bytes: u64,
    /// Changes that were made once more.
    pub records_redone: u64,
    /// Changes that a page had already.
    pub records_skipped: u64,
    /// Pages that were looked at.
    pub pages_redone: u64,
    /// Transactions that had not ended, and were undone.
    pub transactions_undone: u64,
    /// Transactions that are prepared: they wait for a decision.
    pub transactions_prepared: u64,
    /// Committed transactions whose deletions were cleared away.
    pub transactions_cleared: u64,
}

/// A log record that cannot be.
fn damaged_record(lsn: u64, what: &str) -> OpenError {
    let (file, what) = (LOG_FILES.to_owned(), format!("record {lsn}: {what}"));
    OpenError::Log(LogFailure::Damaged { file, offset: lsn, what }.into())
}

/// Opens the tables of a database, after a restart if it was not closed, which is described then, and watched while it
/// goes on; `reading` has been shown its log.
///
/// # Errors
/// When log and pages are not of one database, one is damaged, or the disk fails.
pub(super) fn open_tables<P: PagedProfile>(
    database: &mut Database<P>,
    reading: Reading,
    watch: &mut Watch<'_>,
) -> Result<Option<Restart>, OpenError> {
    let Some((needed, end)) = database.log.unread() else {
        return catalogue::read(database).map(|()| None);
    };
    let space = database.pages.space();
    if space.lsn() >= end {
        let what = format!(
            "page 0 has LSN {}, but the log ends at {end}: it is another database's, or a part of it is missing",
            space.lsn()
        );
        return Err(PageError::damaged_page::<SizeOf<P>>(PageId(0), &what).into());
    }
    let mark = space.mark();
    if mark.is_closed {
        return catalogue::read(database).map(|()| None);
    }
    let analysis = reading.end(needed)?;
    // What it says is in the file is not in an older one.
    mark.verify(mark.number, analysis.checkpoint, end)?;
    // Pages that redo changes are written by the checkpoints that come: they go on where the last one began.
    database.checkpoints.continue_from(needed.max(analysis.checkpoint));
    let redone = redo::redo(database, analysis, end, watch)?;
    catalogue::read(database)?;
    undo::undo(database, needed, redone, watch).map(Some)
}

type SizeOf<P> = <<P as PagedProfile>::Pages as PageAccess>::Size;
