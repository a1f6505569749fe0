//! `Structure`: receives steps of trees and heap files before they are done, and logs them.

use super::page::PageSize;
use super::pool::{ExclusivePage, PageError};
use super::step::{Stamp, Step};
use crate::error::Error;

/// Receives the steps of trees and heap files, to log them.
pub trait Structure {
    /// Whether logging a step may fail: the new content of pages is then prepared in drafts.
    const LOGS: bool;

    /// What one step will do to pages, all held alone; it is redone as a whole or not at all. The number
    /// returned is stamped on all of them.
    ///
    /// # Errors
    /// When it cannot be logged. The step is not done then.
    fn changes<S: PageSize>(&self, step: &Step<'_, S>) -> Result<Stamp, Error>;

    /// A step that would have saved space failed; the tree is whole without it.
    fn is_left(&self, _: &PageError) {}
}

/// For stores that log no pages.
impl Structure for () {
    const LOGS: bool = false;

    fn changes<S: PageSize>(&self, _: &Step<'_, S>) -> Result<Stamp, Error> {
        Ok(None)
    }
}

/// Stamps a page with the number of its last change, where such numbers are kept.
#[inline(always)]
pub(super) fn set_stamp(page: &mut impl ExclusivePage, stamp: Stamp) {
    if let Some(lsn) = stamp {
        page.page_mut().set_lsn(lsn);
    }
}
