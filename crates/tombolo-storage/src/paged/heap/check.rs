//! The checker of heap files: the map, the pages' own structure, rows that moved, open pages.

use std::collections::BTreeSet;

use super::Place;
use super::file::{HeapFile, Step, address_of, at_home, away, place_at, read_address};
use super::space::is_open;
use crate::paged::page::{PageId, PageKind, SlotKind};
use crate::paged::pool::{PageAccess, ReadPage, Result};
use crate::store::Damage;

impl<P: PageAccess> HeapFile<P> {
    /// Verifies the file. There must be no transaction: deleted rows are damage.
    pub(super) fn check_pages(&self, access: &P) -> Vec<Damage> {
        let mut found = Vec::new();
        let checked = self.check_map(access, &mut found);
        if let Err(error) = checked {
            found.push(error.to_string());
        }
        let store = self.space.store().0;
        let damage = |what| Damage { check: "heap", what: format!("store {store}: {what}") };
        found.into_iter().map(damage).collect()
    }

    fn check_map(&self, access: &P, found: &mut Vec<String>) -> Result<()> {
        let pages = self.pages(access)?;
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
            if is_open(header) != open.contains(&id) {
                found.push(format!("page {} and the list of open pages disagree", id.0));
            }
            if let Err(what) = header.check() {
                found.push(format!("page {}: {what}", id.0));
                continue;
            }
            drop(page);
            self.check_slots(access, id, found)?;
        }
        if pages.len() as u32 != self.space.page_count() {
            let count = self.space.page_count();
            found.push(format!("{} pages are in the map, {count} are counted", pages.len()));
        }
        Ok(())
    }

    fn check_slots(&self, access: &P, id: PageId, found: &mut Vec<String>) -> Result<()> {
        let slots = access.fix_shared(id)?.page().slot_count();
        for slot in 0..slots {
            let place = Place { page: id, slot, offset: 0 };
            let (kind, ghost, address) = {
                let page = access.fix_shared(id)?;
                let Some(entry) = page.page().slot(slot) else { continue };
                let record = page.page().record(slot).filter(|record| record.len() >= 8);
                (entry.kind(), entry.is_ghost(), record.map(read_address))
            };
            if ghost {
                found.push(format!("the row at page {} slot {slot} is deleted, not gone", id.0));
            }
            let other = place_at(address.unwrap_or(0));
            let agrees = match kind {
                SlotKind::Record | SlotKind::Free => continue,
                SlotKind::Forward => away(access.fix_shared(other.page)?, other, place).is_some(),
                SlotKind::Moved => {
                    let home = at_home(access.fix_shared(other.page)?, other);
                    matches!(home, Step::Elsewhere(to) if address_of(to) == address_of(place))
                }
            };
            if !agrees {
                found.push(format!(
                    "the moved row at page {} slot {slot} and page {} slot {} disagree",
                    id.0, other.page.0, other.slot
                ));
            }
        }
        Ok(())
    }
}
