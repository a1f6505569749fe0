//! Undo of a transaction's changes: by copies of the overwritten bytes (TPK-8), or not at all
//! (LG-11).
//!
//! [`Copies`] keeps, per change, the bytes that an update is about to overwrite (the named fields, not
//! the whole row), or the fact that a row or index entry was created or removed. Deleted rows and values
//! are only retired until commit, so undoing a deletion needs no memory. The two buffers
//! are reused, so that a committed transaction allocates nothing here; if a transaction has more than a
//! megabyte of notes, the excess is freed at its end. The excess is charged to
//! the store's budget — the megabyte itself is not, so that a transaction that deletes finds
//! room even if the budget is used up. A note beyond the budget is kept, but reports that the transaction must
//! not continue.
//!
//! Not here: applying the changes backwards, which needs the store (`store.rs`, `roll_back`).

use std::sync::Arc;

use super::budget::Budget;

/// One change, with the information for undoing it. Rows and handles are those of the memory store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// A row's bytes from `offset` on were overwritten; the last `bytes` bytes of the images are the previous
    /// content.
    Updated {
        /// The table.
        table: u32,
        /// The row's slot.
        row: u32,
        /// First byte overwritten.
        offset: u32,
        /// The number of bytes.
        bytes: u32,
    },
    /// A row was created.
    Created {
        /// The table.
        table: u32,
        /// The row's slot.
        row: u32,
    },
    /// A row was retired.
    Deleted {
        /// The table.
        table: u32,
        /// The row's slot.
        row: u32,
    },
    /// A variable-length value was stored.
    ValueStored {
        /// The table.
        table: u32,
        /// Its handle.
        handle: u64,
    },
    /// A variable-length value is no longer referred to.
    ValueReplaced {
        /// The table.
        table: u32,
        /// Its handle.
        handle: u64,
    },
    /// An entry with a packed key was inserted.
    InsertedPacked {
        /// The index.
        index: u32,
        /// The row's slot.
        row: u32,
        /// The key.
        key: u64,
    },
    /// An entry with a packed key was removed.
    RemovedPacked {
        /// The index.
        index: u32,
        /// The row's slot.
        row: u32,
        /// The key.
        key: u64,
    },
    /// An entry was inserted whose normalised key is the last `bytes` bytes of the images.
    InsertedBytes {
        /// The index.
        index: u32,
        /// The row's slot.
        row: u32,
        /// Length of the key.
        bytes: u32,
    },
    /// An entry was removed whose normalised key is the last `bytes` bytes of the images.
    RemovedBytes {
        /// The index.
        index: u32,
        /// The row's slot.
        row: u32,
        /// Length of the key.
        bytes: u32,
    },
}

/// The memory budget has no room for another note. The note was kept nevertheless, so that the change can
/// be undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// The notes for undoing changes.
pub trait Undo: Default + std::fmt::Debug + 'static {
    /// Whether notes are kept.
    const KEEPS: bool;
    /// Charges the memory of notes to `budget` from now on.
    fn take_from(&mut self, budget: &Arc<Budget>);
    /// Notes a change that has no image.
    ///
    /// # Errors
    /// [`Full`]: the change is noted, and the transaction must not continue.
    fn note(&mut self, change: Change) -> Result<(), Full>;
    /// Notes that a row's bytes from `offset` on, currently `image`, are about to be overwritten.
    ///
    /// # Errors
    /// As [`Undo::note`].
    fn note_update(&mut self, table: u32, row: u32, offset: u32, image: &[u8]) -> Result<(), Full>;
    /// Makes room for `changes` changes and `bytes` bytes of images.
    ///
    /// # Errors
    /// [`Full`]: there is no room.
    fn make_room(&mut self, changes: usize, bytes: usize) -> Result<(), Full>;
    /// Notes a change for which room was made.
    #[inline(always)]
    fn note_in_room(&mut self, change: Change) {
        let noted = self.note(change);
        debug_assert!(noted.is_ok(), "room was made for the note");
    }
    /// Notes changes for which room was made, and for which commit has nothing to free.
    #[inline(always)]
    fn note_all_in_room(&mut self, changes: impl Iterator<Item = Change>) {
        changes.for_each(|change| self.note_in_room(change));
    }
    /// Notes a change and its image, for which room was made.
    fn note_image_in_room(&mut self, change: Change, image: &[u8]);
    /// Removes and returns the newest change; its image, if it has one, is appended to `image`,
    /// which is cleared first.
    fn pop(&mut self, image: &mut Vec<u8>) -> Option<Change>;
    /// The changes of the open transaction, in order, and their concatenated images.
    fn notes(&self) -> (&[Change], &[u8]);
    /// Calls `give_back` with the changes for which commit has to free memory: deleted rows and replaced values.
    /// Discards everything else.
    fn finish(&mut self, give_back: impl FnMut(Change));
}

/// No undo: a transaction must not abort once it has written.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoUndo;

impl Undo for NoUndo {
    const KEEPS: bool = false;
    fn take_from(&mut self, _: &Arc<Budget>) {}
    #[inline(always)]
    fn note(&mut self, _: Change) -> Result<(), Full> {
        Ok(())
    }
    #[inline(always)]
    fn note_update(&mut self, _: u32, _: u32, _: u32, _: &[u8]) -> Result<(), Full> {
        Ok(())
    }
    #[inline(always)]
    fn note_image_in_room(&mut self, _: Change, _: &[u8]) {}
    #[inline(always)]
    fn make_room(&mut self, _: usize, _: usize) -> Result<(), Full> {
        Ok(())
    }
    fn pop(&mut self, _: &mut Vec<u8>) -> Option<Change> {
        None
    }
    fn notes(&self) -> (&[Change], &[u8]) {
        (&[], &[])
    }
    #[inline(always)]
    fn finish(&mut self, _: impl FnMut(Change)) {}
}

/// Undo by copies of the overwritten bytes.
#[derive(Debug, Default)]
pub struct Copies {
    changes: Vec<Change>,
    /// The buffer of images, which are its first `images_end` bytes.
    images: Vec<u8>,
    images_end: usize,
    /// Whether commit has to free memory for a change in the list, or to shrink the buffers themselves.
    deferred: bool,
    budget: Option<Arc<Budget>>,
    /// The bytes charged for the buffers: their capacity beyond [`KEPT_BYTES`].
    charged_bytes: u64,
}

/// The capacity of the buffers that is not charged, and is kept when a transaction ends, in bytes; capacity
/// beyond it is freed.
const KEPT_BYTES: u64 = 1 << 20;

/// The step in which buffers grow once the budget is used up: the transaction has to end, but its
/// notes must not be lost.
const LAST_BYTES: usize = 4 << 10;

impl Copies {
    /// Makes room for at least `changes` changes and `bytes` bytes; if the budget is used up, for exactly these.
    #[cold]
    #[inline(never)]
    fn grow(&mut self, changes: usize, bytes: usize) -> Result<(), Full> {
        let more = |len: usize, capacity: usize, wanted: usize| match len + wanted > capacity {
            true => (len + wanted).max(2 * capacity).max(64) - len,
            false => 0,
        };
        let more_changes = more(self.changes.len(), self.changes.capacity(), changes);
        let more_bytes = more(self.images_end, self.images.len(), bytes);
        let of_changes = (self.changes.len() + more_changes) * size_of::<Change>();
        let grown = of_changes.max(self.changes.capacity() * size_of::<Change>())
            + (self.images_end + more_bytes).max(self.images.len());
        let cost = (grown as u64).saturating_sub(KEPT_BYTES + self.charged_bytes);
        let taken = self.budget.as_ref().map_or(Ok(()), |budget| budget.take(cost));
        let (more_changes, more_bytes) = match taken.is_ok() {
            true => (more_changes, more_bytes),
            false => (changes.max(LAST_BYTES / size_of::<Change>()), bytes.max(LAST_BYTES)),
        };
        self.changes.reserve_exact(more_changes);
        let images_len = self.images.len().max(self.images_end + more_bytes);
        self.images.reserve_exact(images_len - self.images.len());
        self.images.resize(images_len, 0);
        self.charged_bytes += if taken.is_ok() { cost } else { 0 };
        self.settle();
        self.deferred |= self.charged_bytes > 0;
        taken.map_err(|_| Full)
    }

    fn held_bytes(&self) -> u64 {
        (self.changes.capacity() * size_of::<Change>() + self.images.capacity()) as u64
    }

    /// Adjusts the charge to the current capacity of the buffers.
    fn settle(&mut self) {
        let due_bytes = self.held_bytes().saturating_sub(KEPT_BYTES);
        if let Some(budget) = &self.budget {
            match due_bytes.checked_sub(self.charged_bytes) {
                Some(more) => budget.take_anyway(more),
                None => budget.give(self.charged_bytes - due_bytes),
            }
        }
        self.charged_bytes = due_bytes;
    }

    /// `note_update` if a buffer is full.
    #[cold]
    #[inline(never)]
    fn note_update_in_new_room(
        &mut self,
        table: u32,
        row: u32,
        offset: u32,
        image: &[u8],
    ) -> Result<(), Full> {
        let grown = self.grow(1, image.len());
        let bytes = image.len() as u32;
        self.note_image_in_room(Change::Updated { table, row, offset, bytes }, image);
        grown
    }

    /// Discards all notes, and frees the excess capacity of the buffers.
    #[cold]
    #[inline(never)]
    fn shrink(&mut self) {
        self.changes.clear();
        self.images_end = 0;
        if self.charged_bytes > 0 {
            self.changes.shrink_to(KEPT_BYTES as usize / 2 / size_of::<Change>());
            self.images.truncate(KEPT_BYTES as usize / 2);
            self.images.shrink_to_fit();
            self.settle();
        }
    }
}

impl Undo for Copies {
    const KEEPS: bool = true;

    fn take_from(&mut self, budget: &Arc<Budget>) {
        assert_eq!(self.charged_bytes, 0, "notes are taken from one budget");
        self.budget = Some(budget.clone());
    }

    #[inline(always)]
    fn note(&mut self, change: Change) -> Result<(), Full> {
        if matches!(change, Change::Deleted { .. } | Change::ValueReplaced { .. }) {
            self.deferred = true;
        }
        // The change itself is passed only to inlined functions, so it is built in its final
        // place, and not on the stack first, where wider loads would have to wait for its parts.
        let is_full = self.changes.len() == self.changes.capacity();
        let grown = if is_full { self.grow(1, 0) } else { Ok(()) };
        self.changes.push(change);
        grown
    }

    #[inline(always)]
    fn note_update(&mut self, table: u32, row: u32, offset: u32, image: &[u8]) -> Result<(), Full> {
        let room = self.images.get_mut(self.images_end..);
        if let Some(room) = room.and_then(|room| room.get_mut(..image.len()))
            && self.changes.len() < self.changes.capacity()
        {
            let bytes = image.len() as u32;
            self.changes.push(Change::Updated { table, row, offset, bytes });
            room.copy_from_slice(image);
            self.images_end += image.len();
            return Ok(());
        }
        self.note_update_in_new_room(table, row, offset, image)
    }

    #[inline]
    fn note_image_in_room(&mut self, change: Change, image: &[u8]) {
        let end = self.images_end + image.len();
        self.images[self.images_end..end].copy_from_slice(image);
        self.images_end = end;
        self.note_in_room(change);
    }

    #[inline(always)]
    fn make_room(&mut self, changes: usize, bytes: usize) -> Result<(), Full> {
        if bytes > self.images.len() - self.images_end
            || changes > self.changes.capacity() - self.changes.len()
        {
            return self.grow(changes, bytes);
        }
        Ok(())
    }

    #[inline(always)]
    fn note_all_in_room(&mut self, changes: impl Iterator<Item = Change>) {
        // With an iterator of known length, the vector checks for room only once.
        self.changes.extend(changes);
    }

    fn pop(&mut self, image: &mut Vec<u8>) -> Option<Change> {
        let change = self.changes.pop()?;
        image.clear();
        if let Change::Updated { bytes, .. }
        | Change::InsertedBytes { bytes, .. }
        | Change::RemovedBytes { bytes, .. } = change
        {
            let start = self.images_end - bytes as usize;
            image.extend_from_slice(&self.images[start..self.images_end]);
            self.images_end = start;
        }
        if self.changes.is_empty() {
            assert!(self.images_end == 0, "an undo image belongs to no change");
            self.deferred = false;
            self.shrink();
        }
        Some(change)
    }

    #[inline]
    fn notes(&self) -> (&[Change], &[u8]) {
        (&self.changes, &self.images[..self.images_end])
    }

    #[inline(always)]
    fn finish(&mut self, mut give_back: impl FnMut(Change)) {
        if self.deferred {
            self.deferred = false;
            for change in &self.changes {
                if matches!(change, Change::Deleted { .. } | Change::ValueReplaced { .. }) {
                    give_back(*change);
                }
            }
            self.shrink();
        }
        self.changes.clear();
        self.images_end = 0;
    }
}
