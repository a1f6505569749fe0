//! [`LogRoom`]: what the store asks and tells a log for which the disk has no room, so that it frees some.
//!
//! A log frees nothing by itself: what a restart needs depends on pages and transactions. And a session that is refused
//! holds the latch of a page, so it cannot wait for pages to be written. So the log notes that it refused something;
//! the store looks at that where it holds nothing, and seeks room (`paged/store/room.rs`).
//!
//! Not here: how segments are made and given back (`value_log/`).

use super::flush::Flusher;
use super::session::Core;
use crate::error::Error;

/// A log on a disk, as to its room.
#[derive(Clone, Copy, Debug)]
pub struct LogRoom<'a> {
    core: &'a Core,
    flusher: &'a Flusher,
}

impl<'a> LogRoom<'a> {
    /// That of a log which is flushed.
    #[inline(always)]
    pub(super) fn of(core: &'a Core) -> Option<Self> {
        core.flusher.as_ref().map(|flusher| Self { core, flusher })
    }

    /// Bytes that the log took in its files so far.
    pub fn taken_bytes(self) -> u64 {
        self.flusher.file().taken_bytes()
    }

    /// Whether the disk had no room for the segment that was to be made last.
    pub fn is_short(self) -> bool {
        self.flusher.file().is_short()
    }

    /// Whether a record was refused for want of room since [`LogRoom::sought`] was called.
    #[inline(always)]
    pub fn has_refused(self) -> bool {
        self.flusher.has_refused()
    }

    /// Makes one segment more ready; `false` if there is no room for it.
    ///
    /// # Errors
    /// `Poisoned`.
    pub fn take_segment(self) -> Result<bool, Error> {
        self.flusher.take_segment(&self.core.ring)
    }

    /// Whether segments can be used again once nothing before `lsn` is needed.
    pub fn frees_before(self, lsn: u64) -> bool {
        self.flusher.file().frees_before(lsn)
    }

    /// Lets checkpoint records and flushes use the room that is left for structure modifications, until it is dropped:
    /// for the thread that frees segments right then. As long as the end of the log is set aside none can be freed, and
    /// the next flush writes that end into a segment.
    pub fn use_rest(self) -> RestInUse<'a> {
        self.flusher.file().set_uses_rest(true);
        RestInUse(self)
    }

    /// Gives the disk segments back that are not needed.
    pub fn give_back(self) {
        self.flusher.file().give_back();
    }

    /// Room was sought, and found or not: what a refusal says from now on.
    pub fn sought(self, is_found: bool) {
        self.flusher.sought(is_found);
    }
}

/// See [`LogRoom::use_rest`].
#[derive(Debug)]
pub struct RestInUse<'a>(LogRoom<'a>);

impl Drop for RestInUse<'_> {
    fn drop(&mut self) {
        self.0.flusher.file().set_uses_rest(false);
    }
}
