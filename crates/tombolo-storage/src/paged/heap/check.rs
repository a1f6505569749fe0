//! The checker of heap files: the map, the pages' own structure, open pages, and that each value belongs
//! to one row.

use std::collections::BTreeSet;

use super::file::HeapFile;
use super::values::{handle_of, place_of_value, read_handle};
use super::{Place, RowFile};
use crate::memory::variable::HANDLE_BYTES;
use crate::paged::page::{Page, PageId, PageKind, PageSize, SlotKind};
use crate::paged::pool::{PageAccess, ReadPage, Result};
use crate::store::Damage;

/// What a file holds besides rows.
struct Values<'a> {
    /// Where in a row its handles lie.
    offsets: &'a [usize],
    /// The handles that would lead to the values.
    stored: BTreeSet<u64>,
    /// The handles there are, each with its row.
    named: Vec<(u64, Place)>,
    /// What a prepared transaction deleted.
    deleted: &'a dyn Fn(Place) -> bool,
}

impl Values<'_> {
    /// Notes what a page holds.
    fn note<S: PageSize>(&mut self, page: Page<'_, S>, found: &mut Vec<String>) {
        for number in 0..page.slot_count() {
            let (Some(slot), Some(record)) = (page.slot(number), page.record(number)) else {
                continue;
            };
            let place = Place { page: page.id(), slot: number, kind: slot.kind() };
            if slot.is_ghost() && !(self.deleted)(place) {
                found.push(format!("{} is deleted, not gone", describe(place)));
            }
            if slot.kind() == SlotKind::Value {
                self.stored.insert(handle_of(place, slot.len()));
                continue;
            }
            // Rows too short for their handles are found where they are read.
            let offsets = self.offsets.iter().filter(|&at| at + HANDLE_BYTES <= record.len());
            let handles = offsets.map(|&at| read_handle(record, at));
            self.named.extend(handles.filter(|handle| *handle != 0).map(|handle| (handle, place)));
        }
    }

    /// Each handle leads to a value, and each value is led to once.
    fn compare(mut self, found: &mut Vec<String>) {
        for (handle, row) in self.named {
            if let Some(place) = place_of_value(handle).filter(|_| !self.stored.remove(&handle)) {
                let (row, value) = (describe(row), describe(place));
                found.push(format!("{row} has {value}, which is not there or another row's"));
            }
        }
        let left = self.stored.into_iter().filter_map(place_of_value);
        for place in left.filter(|place| !(self.deleted)(*place)) {
            found.push(format!("{} belongs to no row", describe(place)));
        }
    }
}

fn describe(Place { page, slot, kind }: Place) -> String {
    let what = if kind == SlotKind::Value { "value" } else { "row" };
    format!("the {what} at page {} slot {slot}", page.0)
}

impl<P: PageAccess> HeapFile<P> {
    /// Verifies the file. There must be no transaction: deleted rows are damage, but for what one that is prepared
    /// `deleted`.
    pub(super) fn check_pages(&self, access: &P, deleted: &dyn Fn(Place) -> bool) -> Vec<Damage> {
        let mut found = Vec::new();
        let checked = self.check_map(access, deleted, &mut found);
        if let Err(error) = checked {
            found.push(error.to_string());
        }
        let store = self.space.store().0;
        let damage = |what| Damage { check: "heap", what: format!("store {store}: {what}") };
        found.into_iter().map(damage).collect()
    }

    fn check_map(
        &self,
        access: &P,
        deleted: &dyn Fn(Place) -> bool,
        found: &mut Vec<String>,
    ) -> Result<()> {
        let pages = self.pages(access)?;
        let offsets = &self.layout().handles;
        let (stored, named) = (BTreeSet::new(), Vec::new());
        let mut values = Values { offsets, stored, named, deleted };
        let mut open: BTreeSet<PageId> = BTreeSet::new();
        for id in self.space.open_pages() {
            if !open.insert(id) {
                found.push(format!("page {} is open twice", id.0));
            }
        }
        for (position, &id) in (0..).zip(&pages) {
            let page = access.fix_shared(id)?;
            let header = page.page();
            if header.kind() != PageKind::Heap || header.store() != self.space.store() {
                found.push(format!("page {} is in the map and not of the file", id.0));
                continue;
            }
            if header.extra() != position {
                let extra = header.extra();
                found.push(format!("page {} is entry {position}, it says {extra}", id.0));
            }
            if self.space.is_open(header) != open.contains(&id) {
                found.push(format!("page {} and the list of open pages disagree", id.0));
            }
            if let Err(what) = header.check() {
                found.push(format!("page {}: {what}", id.0));
                continue;
            }
            values.note(header, found);
        }
        values.compare(found);
        if pages.len() as u32 != self.space.page_count() {
            let count = self.space.page_count();
            found.push(format!("{} pages are in the map, {count} are counted", pages.len()));
        }
        Ok(())
    }
}
