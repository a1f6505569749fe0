//! The second pass: every change that a page lacks is made again.
//!
//! A change of a page that is in memory is made at once. Others are collected in windows of the log and made page by
//! page, in the order of the pages: a window reads each page once, and several at the same time. A page whose first
//! record makes all of it is not read at all, so it does not matter whether the page in the file is torn. The
//! catalogue comes first, because it has the form of each index's keys.
//!
//! Not here: transactions that did not end; their records are kept for `undo.rs`.

use std::collections::{BTreeMap, BTreeSet};

use super::analysis::{Analysis, Prepared, Unended};
use super::by_page::ByPage;
use super::{Restart, SizeOf, Watch, damaged_record};
use crate::log::record::{Content, Record};
use crate::log::{ChangeKind, Logging};
use crate::paged::btree::EntryRedo;
use crate::paged::heap::{self, Place};
use crate::paged::page::{PageId, PageKind, StoreId};
use crate::paged::pool::{ExclusivePage, FETCH_MAX, PageAccess, PageError, ReadPage, set_free};
use crate::paged::store::catalogue;
use crate::paged::store::database::Database;
use crate::paged::store::error::OpenError;
use crate::plant::{self, Plant};
use crate::profile::PagedProfile;
use crate::row::RowId;

/// How many bytes of records a window has.
const WINDOW_BYTES: usize = if cfg!(test) { 40 << 10 } else { 8 << 20 };

/// Something that a committed transaction deleted.
#[derive(Debug)]
pub(super) enum Deleted {
    /// A row or a value.
    Row(StoreId, Place),
    /// An entry.
    Entry(StoreId, RowId, Vec<u8>),
}

/// A transaction that did not end.
pub(super) struct Left<T> {
    /// What the log said of it.
    pub(super) unended: Unended,
    /// Its changes.
    pub(super) log: T,
    /// If it committed or may commit, what it deleted.
    pub(super) deleted: Vec<Deleted>,
    /// And where it has cleared that away.
    pub(super) cleared: BTreeSet<(PageId, u16)>,
}

/// What redo leaves to undo.
pub(super) struct Redone<T> {
    pub(super) restart: Restart,
    pub(super) left: BTreeMap<u64, Left<T>>,
    /// Those of them that are prepared.
    pub(super) prepared: BTreeMap<u64, Prepared>,
    /// The greatest number that a transaction has.
    pub(super) newest: u64,
    /// Heap pages that were met: what is known of free space.
    pub(super) heap_pages: BTreeSet<PageId>,
}

/// A record in a window.
struct Waiting {
    page: PageId,
    lsn: u64,
    start: usize,
}

/// The work of one pass.
struct Pass<'a, P: PagedProfile> {
    database: &'a Database<P>,
    analysis: Analysis,
    end: u64,
    indexes: BTreeMap<StoreId, EntryRedo<P::Keys>>,
    /// Pages that were looked at before or have changes in the window, and whether they have some.
    met: ByPage<bool>,
    window: Vec<u8>,
    waiting: Vec<Waiting>,
    redone: Redone<<P::Log as Logging>::Transaction>,
}

/// Brings all pages up to the end of the log.
///
/// # Errors
/// When log and pages contradict each other, one is damaged, or the disk fails.
pub(super) fn redo<P: PagedProfile>(
    database: &Database<P>,
    mut analysis: Analysis,
    end: u64,
    watch: &mut Watch<'_>,
) -> Result<Redone<<P::Log as Logging>::Transaction>, OpenError> {
    let pages = &database.pages;
    if let Some((lsn, image)) = analysis.space
        && lsn > pages.space().lsn()
    {
        pages.space().redo(pages, image, lsn)?;
    }
    for (&page, (lsn, image)) in &analysis.catalogue {
        redo_catalogue(database, page, *lsn, image)?;
    }
    let indexes = catalogue::indexes(database)?;
    let indexes = indexes.iter().map(|(store, shape)| (*store, EntryRedo::new(shape)));
    let known = &analysis.known;
    let left = known.unended.iter().map(|(&id, &unended)| {
        let (log, deleted, cleared) = Default::default();
        (id, Left { unended, log, deleted, cleared })
    });
    let redone = Redone {
        restart: Restart::default(),
        left: left.collect(),
        prepared: std::mem::take(&mut analysis.prepared),
        newest: known.newest,
        heap_pages: BTreeSet::new(),
    };
    let first = known.dirty.iter().map(|(_, dirty)| dirty.recovery_lsn);
    let first = first.chain(known.unended.values().map(|unended| unended.first)).min();
    let to_redo = first.map_or(0, |first| end - first);
    let to_undo = known.unended.values().filter(|unended| unended.is_undone()).count();
    watch.begin_redo(end - known.from, to_redo, to_undo as u64);
    let (met, window, waiting) = Default::default();
    let indexes = indexes.collect();
    let mut pass = Pass { database, analysis, end, indexes, met, window, waiting, redone };
    if let Some(first) = first {
        pass.redone.restart.log_bytes = to_redo;
        pass.run(first, watch)?;
    }
    watch.end_redo();
    Ok(pass.redone)
}

/// Puts the newest image of a page of the catalogue in its place.
fn redo_catalogue<P: PagedProfile>(
    database: &Database<P>,
    page: PageId,
    lsn: u64,
    image: &[u8],
) -> Result<(), OpenError> {
    let mut held = database.pages.install(page, catalogue::STORE, PageKind::Catalogue)?;
    let mut change = held.page_mut();
    if !change.restore(page, image, true) {
        return Err(damaged_record(lsn, "no image of a page"));
    }
    change.set_lsn(lsn);
    held.lacks_since(lsn);
    Ok(())
}

impl<P: PagedProfile> Pass<'_, P> {
    fn run(&mut self, first: u64, watch: &mut Watch<'_>) -> Result<(), OpenError> {
        let mut failed = None;
        let log = &self.database.log;
        log.read(first, &mut |lsn, record| {
            if failed.is_none() {
                failed = self.note(lsn, record).err();
                watch.read(lsn - first);
            }
        })?;
        failed.map_or(Ok(()), Err)?;
        self.make_window()
    }

    fn note(&mut self, lsn: u64, record: &Record<'_>) -> Result<(), OpenError> {
        if let Some(left) = self.redone.left.get_mut(&record.transaction) {
            let recalled = self.database.log.recall(&mut left.log, lsn, record);
            recalled.map_err(|what| damaged_record(lsn, what))?;
            left.note(record);
        }
        let Some(page) = record.page() else { return Ok(()) };
        let dirty = self.analysis.known.dirty.get(page);
        let is_redone = dirty.is_some_and(|dirty| lsn >= dirty.recovery_lsn);
        if !is_redone || self.analysis.void.contains(&lsn) {
            return Ok(());
        }
        if self.met.get(page) == Some(&false)
            && let Some(held) = self.database.pages.fix_resident_alone(page)
        {
            return self.make_now(held, lsn, record);
        }
        if let Some(waits) = self.met.slot(page) {
            *waits = true;
        }
        let start = record.encode(&mut self.window);
        self.waiting.push(Waiting { page, lsn, start });
        if self.window.len() >= WINDOW_BYTES {
            self.make_window()?;
        }
        Ok(())
    }

    /// Makes one change of a page that was looked at before.
    fn make_now(
        &mut self,
        mut page: <P::Pages as PageAccess>::Exclusive<'_>,
        lsn: u64,
        record: &Record<'_>,
    ) -> Result<(), OpenError> {
        let was = page.page().kind();
        self.make_change(&mut page, lsn, &record.content)?;
        if page.page().kind() != was {
            self.note_kind(&page);
        }
        Ok(())
    }

    /// Makes the changes of a window.
    fn make_window(&mut self) -> Result<(), OpenError> {
        let mut waiting = std::mem::take(&mut self.waiting);
        let window = std::mem::take(&mut self.window);
        waiting.sort_by_key(|waiting| (waiting.page, waiting.lsn));
        let pages: Vec<&[Waiting]> =
            waiting.chunk_by(|one, other| one.page == other.page).collect();
        for several in pages.chunks(FETCH_MAX) {
            let ids = several.iter().map(|of_page| of_page[0].page);
            self.database.pages.fetch(ids.filter(|id| !self.is_made_whole(*id)));
            several.iter().try_for_each(|of_page| self.make_page(of_page, &window))?;
        }
        Ok(())
    }

    /// Whether what the file holds of a page does not matter.
    fn is_made_whole(&self, id: PageId) -> bool {
        let is_whole = self.analysis.known.dirty.get(id).is_some_and(|dirty| dirty.is_whole);
        is_whole && self.met.get(id).is_none()
    }

    /// Makes the changes of one page.
    fn make_page(&mut self, waiting: &[Waiting], window: &[u8]) -> Result<(), OpenError> {
        let (id, pages) = (waiting[0].page, &self.database.pages);
        let mut page = match self.is_made_whole(id) {
            true => pages.install(id, StoreId(0), PageKind::Free)?,
            false => pages.fix_exclusive(id)?,
        };
        self.redone.restart.pages_redone += u64::from(self.met.slot(id).replace(false).is_none());
        let damaged = |what: &str| PageError::damaged_page::<SizeOf<P>>(id, what);
        if page.page().id() != id {
            return Err(damaged("the page is not whole, and the log does not hold it").into());
        }
        if page.page().lsn() >= self.end {
            let what =
                format!("its LSN is {}, but the log ends at {}", page.page().lsn(), self.end);
            return Err(damaged(&what).into());
        }
        for waiting in waiting {
            let record = record_at(window, waiting)?;
            self.make_change(&mut page, waiting.lsn, &record.content)?;
        }
        self.note_kind(&page);
        Ok(())
    }

    /// Makes a change of a page unless it has it.
    fn make_change(
        &mut self,
        page: &mut <P::Pages as PageAccess>::Exclusive<'_>,
        lsn: u64,
        content: &Content<'_>,
    ) -> Result<(), OpenError> {
        if lsn <= page.page().lsn() && !plant::is(Plant::RedoneTwice) {
            self.redone.restart.records_skipped += 1;
            return Ok(());
        }
        let id = page.page().id();
        if !make::<P>(&self.indexes, page, content) {
            let what = format!("record {lsn} of the log does not go with it");
            return Err(PageError::damaged_page::<SizeOf<P>>(id, &what).into());
        }
        page.page_mut().set_lsn(lsn);
        page.lacks_since(lsn);
        self.redone.restart.records_redone += 1;
        Ok(())
    }

    /// Notes where free space may be.
    fn note_kind(&mut self, page: &<P::Pages as PageAccess>::Exclusive<'_>) {
        if page.page().kind() == PageKind::Heap {
            self.redone.heap_pages.insert(page.page().id());
        }
    }
}

fn record_at<'a>(window: &'a [u8], waiting: &Waiting) -> Result<Record<'a>, OpenError> {
    Record::first_of(&window[waiting.start..]).map_err(|what| damaged_record(waiting.lsn, what))
}

/// Makes one change of one page once more; `false` if the page is not as it was before.
fn make<P: PagedProfile>(
    indexes: &BTreeMap<StoreId, EntryRedo<P::Keys>>,
    page: &mut <P::Pages as PageAccess>::Exclusive<'_>,
    content: &Content<'_>,
) -> bool {
    let id = page.page().id();
    match *content {
        Content::PageImage { bytes, is_whole, .. } => page.page_mut().restore(id, bytes, is_whole),
        Content::PageMade { made, .. } => {
            let mut page = page.page_mut();
            page.format(id, made.store, made.kind);
            page.set_extra(made.extra);
            true
        }
        Content::PageFreed { freed, .. } => {
            set_free(page, freed.next, None);
            true
        }
        Content::MapEntry { entry, .. } => {
            let is_map = page.page().kind() == PageKind::HeapMap;
            let has_place = usize::from(entry.slot) < page.page().body().len() / size_of::<u32>();
            if is_map && has_place {
                heap::enter(page, entry.slot, entry.page);
            }
            is_map && has_place
        }
        Content::Change { change, before, after } => {
            if page.page().store() != change.store {
                return false;
            }
            let mut page = page.page_mut();
            match indexes.get(&change.store) {
                Some(index) => index.redo(&mut page, &change, before, after),
                None => heap::redo(&mut page, &change, before, after),
            }
        }
        _ => false,
    }
}

impl<T> Left<T> {
    /// Notes what a transaction deleted that committed or may commit, and what it cleared away.
    fn note(&mut self, record: &Record<'_>) {
        let Content::Change { change, before, .. } = record.content else { return };
        if !self.unended.is_committed && !self.unended.is_prepared {
            return;
        }
        let slot = (change.place.page, change.place.slot);
        match (change.kind, record.is_redo_only) {
            (ChangeKind::RowDeleted, _) => {
                // It may have made the row in a place that it had given back.
                self.cleared.remove(&slot);
                self.deleted.push(Deleted::Row(change.store, change.place));
            }
            (ChangeKind::EntryDeleted, false) => {
                self.deleted.push(Deleted::Entry(change.store, change.row, before.to_vec()));
            }
            // It went back to a savepoint, and undid its newest deletion.
            (ChangeKind::RowRevived | ChangeKind::EntryRevived, true)
                if !plant::is(Plant::UndoneDeletionsCleared) =>
            {
                self.deleted.pop();
            }
            (ChangeKind::RowPurged, _) => _ = self.cleared.insert(slot),
            _ => {}
        }
    }
}
