//! Room for a log that has filled the disk: a checkpoint of all pages, after which the log's older segments are used
//! again or given back.
//!
//! ```text
//!   a change finds no room ──► its transaction aborts ──► room is sought ──► the caller runs it again
//!   a restart finds no room for a segment ────────────────────┘    └── nothing can be freed: the next error is final
//! ```
//!
//! It is sought where a session holds no lock and no latch: after an abort, and when a database is opened. Sessions
//! that come meanwhile wait for the one that seeks, and look again. A backup that is being made keeps the log; nothing
//! waits for it, because its end may depend on the thread that would wait.
//!
//! What a checkpoint cannot free (a transaction that writes, or is prepared, needs the log) is not tried to be freed by
//! writing to the log: what room it has left is for those that end.
//!
//! Not here: who tries again (the caller), checkpoints that are due (`checkpoint.rs`).

use super::checkpoint::Checkpoint;
use super::database::Database;
use super::error::OpenError;
use super::rows::RowAccess;
use crate::error::Result;
use crate::log::{LogRoom, Logging};
use crate::profile::PagedProfile;

impl<P: PagedProfile> Database<P> {
    /// Whether the log found no room for a segment.
    pub(super) fn is_short_of_room(&self) -> bool {
        self.log.room().is_some_and(LogRoom::is_short)
    }

    /// Makes the segment ready that comes next; seeks room if there is none for it.
    ///
    /// # Errors
    /// `Poisoned`. That there is no room is no error: writing transactions will meet it.
    pub(super) fn make_room_ahead(&self) -> Result<()> {
        if let Some(room) = self.log.room()
            && !room.take_segment()?
        {
            self.make_room();
        }
        Ok(())
    }

    /// Seeks room if the log has refused a record. The caller holds no lock and no latch.
    #[inline(always)]
    pub(super) fn make_room_if_refused(&self) {
        if self.log.room().is_some_and(LogRoom::has_refused) {
            self.make_room();
        }
    }

    /// Seeks room for the log. A failure of the disk is for those to report who need it next; to find no room is none.
    #[cold]
    fn make_room(&self) {
        let Some(room) = self.log.room() else { return };
        let Some(_turn) = self.checkpoints.take_turn_unless_copied() else {
            return room.sought(false);
        };
        // Another session may have found some meanwhile.
        let is_found = !room.is_short() || self.seek_room(room).unwrap_or(false);
        room.sought(is_found);
    }

    /// Frees what a restart no longer needs once all pages are written; says whether there is room then.
    fn seek_room(&self, room: LogRoom<'_>) -> Result<bool, OpenError> {
        self.refuse_poisoned()?;
        if room.take_segment()? {
            return Ok(true);
        }
        self.checkpoint_for_room(room)?;
        Ok(!room.is_short())
    }

    /// Makes a checkpoint of all pages, and uses what that frees. Where it would free nothing, it writes nothing to
    /// the log. `None` where pages are written only when the database is closed. The caller has the turn.
    pub(super) fn checkpoint_for_room(
        &self,
        room: LogRoom<'_>,
    ) -> Result<Option<Checkpoint>, OpenError> {
        let began = self.begin_checkpoint();
        // Pages that change from now on have what they lack behind that.
        self.log.flush()?;
        let Some(dirty) = self.pages.checkpoint(began.lsn, began.lsn)? else { return Ok(None) };
        let needed = self.needed(began, &dirty);
        if !room.frees_before(needed) {
            return Ok(Some(self.note_checkpoint(began, needed, dirty.len(), 0)));
        }
        let made = {
            let _rest = room.use_rest();
            self.end_checkpoint(began, needed, &dirty)?
        };
        if room.take_segment()? {
            room.sought(true);
        }
        // Pages need room, too.
        room.give_back();
        Ok(Some(made))
    }
}
