//! The records of a checkpoint (kind 42): where it began, and the pages of which the file may lack changes.
//!
//! A list that is too long for one record takes several, each of which says how many follow. Not here: which pages
//! these are (the store's), what a restart does with the list.

use super::buffer::Claim;
use super::record::{Content, IMAGE_BYTES_MAX, Record};
use super::session::{Destination, Log};
use crate::error::Error;
use crate::latch::Latching;
use crate::paged::pool::DirtyPage;

impl<D: Destination, L: Latching> Log<D, L> {
    /// See [`super::Logging::checkpoint`].
    pub(super) fn publish_checkpoint(&self, began: u64, dirty: &[DirtyPage]) -> Result<(), Error> {
        const PAGES_MAX: usize = IMAGE_BYTES_MAX / DirtyPage::BYTES;
        let Some(flusher) = &self.core.flusher else { return Ok(()) };
        let left = flusher.file().left_for_images();
        let count = dirty.len().div_ceil(PAGES_MAX).max(1);
        let (mut record, mut previous) = (Vec::new(), 0);
        let publisher = &mut self.core.ring.common();
        for at in 0..count {
            let rest = &dirty[at * PAGES_MAX..];
            let pages = &rest[..rest.len().min(PAGES_MAX)];
            let bytes: Vec<u8> = pages.iter().flat_map(|page| page.to_bytes()).collect();
            let following = (count - 1 - at) as u16;
            let content = Content::Checkpoint { began, following, bytes: &bytes };
            let part = Record { is_redo_only: true, transaction: 0, previous, content };
            record.clear();
            part.encode(&mut record);
            let claim = Claim { left, ..Claim::default() };
            previous = self.core.publish(publisher, &record, &[], claim)?;
        }
        Ok(())
    }
}
