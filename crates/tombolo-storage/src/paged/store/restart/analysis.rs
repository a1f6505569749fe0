//! The first pass: which pages may lack changes, and which transactions did not end.
//!
//! Nothing is written. A step whose end is not in the log did not happen: no page with its changes was written, since
//! pages get the LSN of a step's last record.

use std::collections::{BTreeMap, BTreeSet};

use super::by_page::ByPage;
use super::damaged_record;
use crate::log::record::{Content, Record};
use crate::log::{LockEntry, parse_prepared};
use crate::owner::Owner;
use crate::paged::page::PageId;
use crate::paged::pool;
use crate::paged::step::SpaceImage;
use crate::paged::store::catalogue;
use crate::paged::store::error::OpenError;

/// A page that may lack changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::paged::store) struct DirtyPage {
    /// The LSN of the first change that it may lack.
    pub(super) recovery_lsn: u64,
    /// Whether that change makes all of it, so that what the file holds does not matter.
    pub(super) is_whole: bool,
    /// The LSN of its newest change.
    pub(super) newest: u64,
}

/// A transaction that did not end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::paged::store) struct Unended {
    /// The LSN of its first record.
    pub(super) first: u64,
    /// Whether it committed, and has only to clear away what it deleted.
    pub(super) is_committed: bool,
    /// Whether it is prepared: it waits for a decision.
    pub(super) is_prepared: bool,
}

impl Unended {
    /// Whether a restart undoes it.
    pub(super) fn is_undone(self) -> bool {
        !self.is_committed && !self.is_prepared
    }
}

/// What a transaction said when it was prepared.
#[derive(Debug)]
pub(super) struct Prepared {
    /// Its last record.
    pub(super) lsn: u64,
    /// The log is kept for it from here on.
    pub(super) since: u64,
    /// Its coordinator's number for it.
    pub(super) owner: Owner,
    /// Its locks.
    pub(super) locks: Vec<LockEntry>,
    /// How many records of the list have not come yet.
    following: u16,
}

/// What is known of pages and transactions.
#[derive(Debug, Default)]
pub(in crate::paged::store) struct Known {
    /// From where on the log is needed.
    pub(super) from: u64,
    /// Pages that may lack changes.
    pub(super) dirty: ByPage<DirtyPage>,
    /// Transactions that have not ended.
    pub(super) unended: BTreeMap<u64, Unended>,
    /// The greatest number that a transaction has.
    pub(super) newest: u64,
}

/// What analysis found.
#[derive(Debug, Default)]
pub(super) struct Analysis {
    pub(super) known: Known,
    /// The newest state of page 0, and its LSN.
    pub(super) space: Option<(u64, SpaceImage)>,
    /// The newest state of each page of the catalogue, and its LSN.
    pub(super) catalogue: BTreeMap<PageId, (u64, Vec<u8>)>,
    /// Transactions that are prepared, and those of which not all records that say so have come.
    pub(super) prepared: BTreeMap<u64, Prepared>,
    /// The records of steps that did not happen.
    pub(super) void: BTreeSet<u64>,
    /// Where the newest checkpoint began; 0 if there is none.
    pub(super) checkpoint: u64,
    /// Steps of which the end has not come yet, by their newest records.
    open: BTreeMap<u64, Vec<Part>>,
    /// A checkpoint of which not all records have come: the newest one's LSN, and the dirty pages so far.
    listed: Option<(u64, BTreeMap<PageId, u64>)>,
}

/// A record of a step.
#[derive(Debug)]
struct Part {
    lsn: u64,
    page: PageId,
    is_whole: bool,
    /// Page 0, or a page of the catalogue.
    image: Vec<u8>,
}

/// An analysis under way: the log is shown while it is opened, so that it is read once less.
#[derive(Debug, Default)]
pub(in crate::paged::store) struct Reading {
    analysis: Analysis,
    failed: Option<OpenError>,
}

impl Reading {
    /// Notes a record of a log that is needed from `from` on.
    pub(in crate::paged::store) fn note(&mut self, from: u64, lsn: u64, record: &Record<'_>) {
        self.analysis.known.from = from;
        if self.failed.is_none() {
            let noted = self.analysis.note(lsn, record);
            self.failed = noted.err().map(|what| damaged_record(lsn, what));
        }
    }

    /// What was found; `from` is where the log is needed from on.
    ///
    /// # Errors
    /// When the log is damaged.
    pub(super) fn end(self, from: u64) -> Result<Analysis, OpenError> {
        let Self { mut analysis, failed } = self;
        failed.map_or(Ok(()), Err)?;
        analysis.known.from = from;
        let open = std::mem::take(&mut analysis.open);
        analysis.prepared.retain(|_, prepared| prepared.following == 0);
        analysis.void = open.into_values().flatten().map(|part| part.lsn).collect();
        Ok(analysis)
    }
}

impl Analysis {
    fn note(&mut self, lsn: u64, record: &Record<'_>) -> Result<(), &'static str> {
        if let Some(following) = record.following() {
            return self.note_part(lsn, record, following);
        }
        if let Content::Checkpoint { began, following, bytes } = record.content {
            return self.note_checkpoint((lsn, record.previous), began, following, bytes);
        }
        if let Some(page) = record.page() {
            self.note_page(page, lsn, false);
        }
        let (id, Known { unended, newest, from, .. }) = (record.transaction, &mut self.known);
        *newest = id.max(*newest);
        // One of which older records are not needed was over when they were released: its end is here, too.
        let is_known = unended.contains_key(&id) || record.previous < *from;
        match record.content {
            Content::Committed { .. } | Content::Aborted { .. } | Content::Ended if !is_known => {
                return Err("what ends had ended, or did nothing");
            }
            Content::Committed { clears: true, .. } => {
                self.prepared.remove(&id);
                unended.entry(id).and_modify(|transaction| {
                    (transaction.is_committed, transaction.is_prepared) = (true, false);
                });
            }
            Content::Committed { .. } | Content::Aborted { .. } | Content::Ended => {
                self.prepared.remove(&id);
                unended.remove(&id);
            }
            _ => {
                let fresh = Unended { first: lsn, is_committed: false, is_prepared: false };
                let transaction = unended.entry(id).or_insert(fresh);
                transaction.is_prepared = false;
                if let Content::Prepared { since, following, bytes } = record.content {
                    transaction.is_prepared = following == 0;
                    return self.note_prepared((id, lsn), since, following, bytes);
                }
                // It is being undone.
                self.prepared.remove(&id);
            }
        }
        Ok(())
    }

    fn note_prepared(
        &mut self,
        (id, lsn): (u64, u64),
        since: u64,
        following: u16,
        bytes: &[u8],
    ) -> Result<(), &'static str> {
        let (owner, locks) = parse_prepared(bytes)?;
        let fresh = Prepared { lsn, since, owner, locks: Vec::new(), following: following + 1 };
        let prepared = self.prepared.entry(id).or_insert(fresh);
        if prepared.following != following + 1 || prepared.owner != owner {
            return Err("a list of locks of which a part is missing");
        }
        (prepared.lsn, prepared.following) = (lsn, following);
        prepared.locks.extend_from_slice(locks);
        Ok(())
    }

    fn note_page(&mut self, page: PageId, recovery_lsn: u64, is_whole: bool) {
        let fresh = DirtyPage { recovery_lsn, is_whole, newest: recovery_lsn };
        let dirty = self.known.dirty.slot(page).get_or_insert(fresh);
        dirty.newest = recovery_lsn.max(dirty.newest);
    }

    /// Takes out what a checkpoint found in the file: changes before it began, of a dirty page those before the
    /// one that it may lack.
    fn note_checkpoint(
        &mut self,
        (lsn, previous): (u64, u64),
        began: u64,
        following: u16,
        bytes: &[u8],
    ) -> Result<(), &'static str> {
        let listed = match previous {
            0 => Some(BTreeMap::new()),
            _ => self.listed.take().filter(|(last, _)| *last == previous).map(|(_, pages)| pages),
        };
        // Without its beginning, which is not needed any more, it says nothing.
        let Some(mut listed) = listed else { return Ok(()) };
        let (pages, []) = bytes.as_chunks() else { return Err("no list of pages") };
        let pages = pages.iter().map(pool::DirtyPage::from_bytes);
        listed.extend(pages.map(|dirty| (dirty.page, dirty.recovery_lsn)));
        if following > 0 {
            self.listed = Some((lsn, listed));
            return Ok(());
        }
        self.checkpoint = began;
        self.known.dirty.retain(|page, dirty| {
            let lacks_from = listed.get(&page).copied().unwrap_or(began);
            if dirty.recovery_lsn < lacks_from {
                (dirty.recovery_lsn, dirty.is_whole) = (lacks_from, false);
            }
            dirty.newest >= lacks_from
        });
        Ok(())
    }

    fn note_part(
        &mut self,
        lsn: u64,
        record: &Record<'_>,
        following: u16,
    ) -> Result<(), &'static str> {
        let mut parts = match record.previous {
            // The step began before what is needed.
            previous if previous < self.known.from => Vec::new(),
            previous => self.open.remove(&previous).ok_or("a step without a beginning")?,
        };
        let (page, mut image) = (record.page().unwrap_or_default(), Vec::new());
        match record.content {
            Content::Space { bytes, .. } => image.extend_from_slice(bytes),
            Content::PageImage { store: catalogue::STORE, bytes, is_whole: true, .. } => {
                image.extend_from_slice(bytes);
            }
            Content::PageImage { store: catalogue::STORE, .. } => {
                return Err("a page of the catalogue, and not all of it");
            }
            _ => {}
        }
        let is_whole = match record.content {
            Content::MapEntry { .. } => false,
            Content::PageImage { is_whole, .. } => is_whole,
            _ => true,
        };
        parts.push(Part { lsn, page, is_whole, image });
        if following > 0 {
            self.open.insert(lsn, parts);
            return Ok(());
        }
        for Part { lsn, page, is_whole, image } in parts {
            if image.is_empty() {
                self.note_page(page, lsn, is_whole);
            } else if page == PageId(0) {
                let space = SpaceImage::from_bytes(&image);
                self.space = Some((lsn, space.ok_or("no state of page 0")?));
            } else {
                self.catalogue.insert(page, (lsn, image));
            }
        }
        Ok(())
    }
}
