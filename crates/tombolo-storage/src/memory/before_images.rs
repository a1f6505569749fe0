//! Before-images: copies of changed rows, as the open snapshots of a store must see them.
//!
//! ```text
//!   oldest layer            …                newest layer
//!   changes between         …                changes since the
//!   its snapshot and                         newest snapshot       rows in place
//!   the next one's
//! ```
//!
//! Each snapshot begins a *layer*. A transaction that commits looks only at the newest one: for each
//! row it changed that has no entry there, it enters the row as it was before, or that it was not
//! there. A snapshot sees the first entry of a row in its own layer or a later one, and without any
//! the row in place. So a commit does the same work however many snapshots are open.
//!
//! A layer holds, for each table changed since, one 32-bit entry per slot in pages of 64, made when
//! one of their rows changes, and the images in a slab. Nothing is hashed, and nothing but memory
//! in fixed steps grows, so that no commit takes long. Variable-length values of an image are copied
//! too: the row's own may be freed at any time.
//!
//! The images come from the notes of undo: a row is copied as the transaction leaves it, then its
//! notes are applied backwards to the copy.
//!
//! A layer is freed when its snapshot and all older ones are closed. Freeing much memory takes long, so
//! it is done piece by piece: one piece when a snapshot is closed, others when a commit needs the memory, the
//! rest by [`MemoryStore::give_back_closed`](super::store::MemoryStore::give_back_closed). Until
//! then a closed layer counts as held. Invariants: the oldest layer is of
//! an open snapshot; slots that had never been used when a snapshot was opened are not in it, and
//! have no entries.

use std::collections::VecDeque;
use std::sync::Arc;

use super::budget::{Allowance, Budget};
use super::region::{RESERVATION_BYTES, RegionError};
use super::rows::Rows;
use super::slab::{Slab, shorten};
use super::undo::{Change, Undo};
use super::variable::{HANDLE_BYTES, Handle, SizeClasses};
use crate::error::{Error, Result};

/// How many slots are looked at together: a word of the bitmap, a page of entries.
pub(super) const WORD: u32 = 64;

const ENTRY_BYTES: usize = size_of::<u32>();
const PAGE_BYTES: usize = WORD as usize * ENTRY_BYTES;

/// An entry of a page: nothing kept, not there, or [`FIRST_IMAGE`] and the image's number.
const NONE: u32 = 0;
const ABSENT: u32 = 1;
const FIRST_IMAGE: u32 = 2;

/// What is given back of closed layers in one piece, in bytes: about 0.1 ms.
pub(super) const PIECE_BYTES: usize = 1 << 20;

/// The changes of one table in a layer, once there are any.
#[derive(Debug)]
struct TableImages {
    /// For each page of entries its slot in `pages` and one more; 0 if there is none.
    directory: Vec<u32>,
    pages: Slab,
    images: Slab,
    /// The last commit that kept images here, and the first image it kept.
    commit: u64,
    commit_first: u32,
    budget: Arc<Budget>,
}

/// What a layer knows of a table.
#[derive(Debug)]
struct TableThen {
    /// Slots used when the snapshot was opened.
    used: u32,
    images: Option<Box<TableImages>>,
}

/// What was changed between one snapshot and the next.
#[derive(Debug)]
struct Layer {
    is_open: bool,
    tables: Vec<TableThen>,
    values: SizeClasses,
}

/// All that is kept for the snapshots of a store.
#[derive(Debug)]
pub(in crate::memory) struct Snapshots {
    /// Oldest first; numbers ascend by one.
    layers: VecDeque<Layer>,
    first_number: u64,
    /// Layers that no snapshot needs, and whose memory is not given back yet.
    closed: VecDeque<Layer>,
    budget: Arc<Budget>,
    commits: u64,
    /// Rows the commit at hand made images of.
    imaged: Vec<(u32, u32)>,
}

impl Drop for TableImages {
    fn drop(&mut self) {
        self.budget.give(directory_bytes(self.directory.len()));
    }
}

fn directory_bytes(pages: usize) -> u64 {
    (pages * ENTRY_BYTES) as u64
}

impl TableImages {
    fn new(used: u32, row_bytes: usize, budget: &Arc<Budget>) -> Result<Self, RegionError> {
        let allowance = || Allowance::new(RESERVATION_BYTES, budget).gradual();
        let slot_bytes = row_bytes.next_multiple_of(8).max(16);
        let (pages, images) =
            (Slab::new(PAGE_BYTES, allowance())?, Slab::new(slot_bytes, allowance())?);
        let directory_len = used.div_ceil(WORD) as usize;
        let taken = budget.take(directory_bytes(directory_len));
        taken.map_err(|over| RegionError::OverBudget { bytes_max: over.bytes_max })?;
        // Zeroed memory fresh from the system: its pages come when they are written.
        let directory = vec![0; directory_len];
        let budget = budget.clone();
        Ok(Self { directory, pages, images, commit: 0, commit_first: 0, budget })
    }

    #[inline]
    fn entry(&self, slot: u32) -> u32 {
        match self.directory[(slot / WORD) as usize] {
            0 => NONE,
            page => {
                let at = (slot % WORD) as usize * ENTRY_BYTES;
                let mut bytes = [0; ENTRY_BYTES];
                bytes.copy_from_slice(&self.pages.slot(page - 1)[at..at + ENTRY_BYTES]);
                u32::from_le_bytes(bytes)
            }
        }
    }

    fn set_entry(&mut self, slot: u32, entry: u32) -> Result<(), RegionError> {
        let page = &mut self.directory[(slot / WORD) as usize];
        if *page == 0 {
            // Slots never used before hold zeros: `NONE`.
            *page = self.pages.allocate()? + 1;
        }
        let at = (slot % WORD) as usize * ENTRY_BYTES;
        let bytes = &mut self.pages.slot_mut(*page - 1)[at..at + ENTRY_BYTES];
        bytes.copy_from_slice(&entry.to_le_bytes());
        Ok(())
    }

    /// Keeps `row` as the image of `slot`, during commit number `commit`.
    fn add_image(&mut self, slot: u32, row: &[u8], commit: u64) -> Result<(), RegionError> {
        let image = self.images.allocate()?;
        if let Err(error) = self.set_entry(slot, image + FIRST_IMAGE) {
            self.images.free(image);
            return Err(error);
        }
        self.images.slot_mut(image)[..row.len()].copy_from_slice(row);
        if self.commit != commit {
            (self.commit, self.commit_first) = (commit, image);
        }
        Ok(())
    }

    /// As [`Slab::take_apart`].
    fn take_apart(&mut self, bytes_max: usize) -> usize {
        let mut bytes = self.images.take_apart(bytes_max);
        bytes += self.pages.take_apart(bytes_max.saturating_sub(bytes));
        let pages = self.directory.len();
        bytes += shorten(&mut self.directory, bytes_max.saturating_sub(bytes));
        self.budget.give(directory_bytes(pages - self.directory.len()));
        bytes
    }

    /// The image of `slot` if commit number `commit` made it.
    fn own_image(&mut self, slot: u32, commit: u64) -> Option<&mut [u8]> {
        let image = self.entry(slot).checked_sub(FIRST_IMAGE)?;
        let is_own = self.commit == commit && image >= self.commit_first;
        is_own.then(|| self.images.slot_mut(image))
    }
}

impl Layer {
    /// The entry of a slot; one that was not used is known to be absent.
    #[inline]
    fn entry(&self, table: usize, slot: u32) -> u32 {
        match self.tables.get(table) {
            Some(then) if slot < then.used => {
                then.images.as_ref().map_or(NONE, |images| images.entry(slot))
            }
            _ => ABSENT,
        }
    }

    /// As [`Slab::take_apart`].
    fn take_apart(&mut self, bytes_max: usize) -> usize {
        let mut bytes = self.values.take_apart(bytes_max);
        while bytes < bytes_max
            && let Some(then) = self.tables.last_mut()
        {
            let images = then.images.as_mut();
            bytes += images.map_or(0, |images| images.take_apart(bytes_max - bytes));
            if bytes < bytes_max {
                self.tables.pop();
            }
        }
        bytes
    }

    fn table_mut(
        &mut self,
        table: usize,
        row_bytes: usize,
        budget: &Arc<Budget>,
    ) -> Result<&mut TableImages, RegionError> {
        let TableThen { used, images } = &mut self.tables[table];
        match images {
            Some(images) => Ok(images),
            none => {
                let images = TableImages::new(*used, row_bytes, budget)?;
                Ok(none.insert(Box::new(images)))
            }
        }
    }
}

impl Snapshots {
    /// None, and what they will keep is taken from `budget`, up to `bytes_max` of it.
    pub(in crate::memory) fn new(budget: &Arc<Budget>, bytes_max: u64) -> Self {
        let budget = budget.child(bytes_max);
        let (layers, closed, imaged) = (VecDeque::new(), VecDeque::new(), Vec::new());
        Self { layers, first_number: 0, closed, budget, commits: 0, imaged }
    }

    /// Whether a transaction has to keep images.
    #[inline(always)]
    pub(in crate::memory) fn are_open(&self) -> bool {
        !self.layers.is_empty()
    }

    pub(super) fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Opens a snapshot of tables of which so many slots are used; returns its number.
    pub(super) fn open(&mut self, used: impl Iterator<Item = u32>) -> u64 {
        let number = self.first_number + self.layers.len() as u64;
        let tables = used.map(|used| TableThen { used, images: None }).collect();
        let allowance = Allowance::new(RESERVATION_BYTES, &self.budget).gradual();
        let values = SizeClasses::new(allowance);
        self.layers.push_back(Layer { is_open: true, tables, values });
        number
    }

    /// Closes a snapshot, also one that was ended.
    ///
    /// # Panics
    /// When the number was never given.
    pub(super) fn close(&mut self, number: u64) {
        let Some(at) = number.checked_sub(self.first_number) else { return };
        let layer = self.layers.get_mut(at as usize).expect("the snapshot is of another store");
        layer.is_open = false;
        self.put_closed_away();
        self.give_back();
    }

    /// Takes the oldest layers out whose snapshots are closed.
    fn put_closed_away(&mut self) {
        while self.layers.front().is_some_and(|layer| !layer.is_open) {
            self.closed.extend(self.layers.pop_front());
            self.first_number += 1;
        }
    }

    /// Gives a piece of the closed layers' memory back; returns whether any is left.
    pub(in crate::memory) fn give_back(&mut self) -> bool {
        let mut bytes = 0;
        while bytes < PIECE_BYTES
            && let Some(layer) = self.closed.front_mut()
        {
            bytes += layer.take_apart(PIECE_BYTES - bytes);
            if bytes < PIECE_BYTES {
                self.closed.pop_front();
            }
        }
        !self.closed.is_empty()
    }

    /// Ends the oldest snapshot, to make room.
    #[cold]
    fn end_oldest(&mut self) {
        if let Some(oldest) = self.layers.front_mut() {
            oldest.is_open = false;
        }
        self.put_closed_away();
    }

    /// Where the layer of an open snapshot is.
    ///
    /// # Errors
    /// `SnapshotEnded`.
    ///
    /// # Panics
    /// When the number was never given.
    pub(super) fn find(&self, number: u64) -> Result<usize> {
        let ended = Error::SnapshotEnded { bytes_max: self.budget.bytes_max() };
        let at = number.checked_sub(self.first_number).ok_or(ended)? as usize;
        assert!(at < self.layers.len(), "the snapshot is of another store");
        Ok(at)
    }

    /// How many slots of a table were used; none of a table that was not there.
    pub(super) fn used(&self, layer: usize, table: usize) -> u32 {
        self.layers[layer].tables.get(table).map_or(0, |then| then.used)
    }

    /// Whether the snapshot of `layer` may see other rows than those in place among the slots of a
    /// word, which are below those used.
    #[inline]
    pub(super) fn has_entries(&self, layer: usize, table: usize, word: u32) -> bool {
        self.layers.range(layer..).any(|layer| {
            let images = layer.tables[table].images.as_ref();
            images.is_some_and(|images| images.directory[word as usize] != 0)
        })
    }

    /// What the snapshot of `layer` sees in a slot below those used, if it is not what is in place:
    /// nothing, or an image, with the variable-length values it refers to.
    #[inline]
    pub(super) fn image(
        &self,
        layer: usize,
        table: usize,
        slot: u32,
    ) -> Option<Option<(&[u8], &SizeClasses)>> {
        for layer in self.layers.range(layer..) {
            match layer.entry(table, slot) {
                NONE => {}
                ABSENT => return Some(None),
                entry => {
                    let images = layer.tables[table].images.as_ref()?;
                    let image = images.images.slot(entry - FIRST_IMAGE);
                    return Some(Some((image, &layer.values)));
                }
            }
        }
        None
    }

    /// Whether an open snapshot sees the row in a slot in place, so that its image is needed.
    fn is_needed(&self, table: usize, slot: u32) -> bool {
        for layer in self.layers.iter().rev() {
            if layer.entry(table, slot) != NONE {
                return false;
            }
            if layer.is_open {
                return true;
            }
        }
        false
    }

    /// Keeps the images that the open snapshots need of what a transaction has changed, before its
    /// notes are forgotten. Where there is no memory for them the oldest snapshots end.
    #[cold]
    #[inline(never)]
    pub(in crate::memory) fn keep<U: Undo>(&mut self, tables: &[Rows], undo: &U) {
        let (changes, before) = undo.notes();
        self.commits += 1;
        self.imaged.clear();
        for &change in changes {
            if let Change::Updated { table, row, .. }
            | Change::Created { table, row }
            | Change::Deleted { table, row } = change
                && self.is_needed(table as usize, row)
            {
                let was_there = !matches!(change, Change::Created { .. });
                self.until_kept(|snapshots| snapshots.enter(tables, table, row, was_there));
            }
        }
        self.turn_back(changes, before);
        for at in 0..self.imaged.len() {
            let (table, row) = self.imaged[at];
            let Rows { shape, values, .. } = &tables[table as usize];
            for &offset in &shape.variable_offsets {
                self.until_kept(|snapshots| snapshots.copy_value(values, table, row, offset));
            }
        }
    }

    /// Does what takes memory, ending snapshots until there is enough; nothing once there are none.
    fn until_kept(&mut self, mut keep: impl FnMut(&mut Self) -> Result<(), RegionError>) {
        while self.are_open() && keep(self).is_err() {
            if self.closed.is_empty() {
                self.end_oldest();
            }
            self.give_back();
        }
    }

    /// Enters a row, as it is now, or that it was not there.
    fn enter(
        &mut self,
        tables: &[Rows],
        table: u32,
        row: u32,
        was_there: bool,
    ) -> Result<(), RegionError> {
        let Some(newest) = self.layers.back_mut() else { return Ok(()) };
        let rows = &tables[table as usize];
        let images = newest.table_mut(table as usize, rows.shape.row_bytes, &self.budget)?;
        if !was_there {
            return images.set_entry(row, ABSENT);
        }
        let now = rows.slab.head(row.into(), rows.shape.row_bytes).unwrap_or_default();
        images.add_image(row, now, self.commits)?;
        self.imaged.push((table, row));
        Ok(())
    }

    /// Applies the notes of updates to this commit's images, newest first.
    fn turn_back(&mut self, changes: &[Change], before: &[u8]) {
        let Some(newest) = self.layers.back_mut() else { return };
        let mut end = before.len();
        for &change in changes.iter().rev() {
            let (Change::Updated { bytes, .. }
            | Change::InsertedBytes { bytes, .. }
            | Change::RemovedBytes { bytes, .. }) = change
            else {
                continue;
            };
            let start = end - bytes as usize;
            if let Change::Updated { table, row, offset, .. } = change
                && let Some(then) = newest.tables.get_mut(table as usize)
                && row < then.used
                && let Some(image) = then.images.as_mut()
                && let Some(image) = image.own_image(row, self.commits)
            {
                let offset = offset as usize;
                image[offset..offset + bytes as usize].copy_from_slice(&before[start..end]);
            }
            end = start;
        }
        debug_assert_eq!(end, 0, "the notes' images belong to them");
    }

    /// Replaces a handle in an image this commit made by one of the layer's own.
    fn copy_value(
        &mut self,
        values: &SizeClasses,
        table: u32,
        row: u32,
        offset: usize,
    ) -> Result<(), RegionError> {
        let Some(Layer { tables, values: own, .. }) = self.layers.back_mut() else { return Ok(()) };
        let images = tables[table as usize].images.as_mut();
        let Some(image) = images.and_then(|images| images.own_image(row, self.commits)) else {
            return Ok(());
        };
        let handle = &mut image[offset..offset + HANDLE_BYTES];
        let copy = own.put(values.get(Handle::read(handle, 0)))?;
        handle.copy_from_slice(&copy.to_bits().to_le_bytes());
        Ok(())
    }

    /// Checks slabs; one line for each that is damaged.
    pub(in crate::memory) fn check(&self) -> Vec<String> {
        let mut found = Vec::new();
        for layer in &self.layers {
            let images = layer.tables.iter().filter_map(|then| then.images.as_ref());
            let slabs = images.flat_map(|images| [images.pages.check(), images.images.check()]);
            let checks = slabs.chain([layer.values.check()]);
            found.extend(checks.filter_map(Result::err));
        }
        found
    }
}
