//! How a transaction's changes are taken back: copies of what it changed (TPK-8), or not at all
//! (LG-11).
//!
//! [`Copies`] keeps, per change, the bytes an update was about to overwrite (the named fields, not
//! the whole row), or the fact that a row or index entry was made or removed. What a transaction
//! deletes is only retired until commit, so taking a deletion back needs no memory. The two buffers
//! grow to the largest transaction seen and are reused; a committed transaction allocates nothing
//! here.
//!
//! Not here: applying the changes backwards, which needs the store (`store.rs`, `roll_back`).

/// One change, as its reversal needs it. Rows and handles are those of the memory store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// A row's bytes from `offset` on were overwritten; the last `bytes` bytes of the images are
    /// what was there.
    Updated {
        /// The table.
        table: u32,
        /// The row's slot.
        row: u32,
        /// First byte overwritten.
        offset: u32,
        /// How many.
        bytes: u32,
    },
    /// A row was made.
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
        /// Its handle.
        handle: u64,
    },
    /// A variable-length value is no longer referred to.
    ValueReplaced {
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

/// What is kept to take changes back.
pub trait Undo: Default + 'static {
    /// Whether anything is.
    const KEEPS: bool;
    /// Notes a change that has no image.
    fn note(&mut self, change: Change);
    /// Notes a change together with its image.
    fn note_image(&mut self, change: Change, image: &[u8]);
    /// Removes and returns the newest change; its image, if it has one, is appended to `image`,
    /// which is cleared first.
    fn pop(&mut self, image: &mut Vec<u8>) -> Option<Change>;
    /// What commit still has to give back: deleted rows and replaced values. Forgets everything
    /// else.
    fn finish(&mut self, give_back: impl FnMut(Change));
}

/// Nothing is kept: a transaction must not abort once it has written.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoUndo;

impl Undo for NoUndo {
    const KEEPS: bool = false;
    #[inline(always)]
    fn note(&mut self, _: Change) {}
    #[inline(always)]
    fn note_image(&mut self, _: Change, _: &[u8]) {}
    fn pop(&mut self, _: &mut Vec<u8>) -> Option<Change> {
        None
    }
    #[inline(always)]
    fn finish(&mut self, _: impl FnMut(Change)) {}
}

/// Copies of what is changed.
#[derive(Debug, Default)]
pub struct Copies {
    changes: Vec<Change>,
    images: Vec<u8>,
    /// Whether a change in the list waits for commit to give something back.
    deferred: bool,
}

impl Undo for Copies {
    const KEEPS: bool = true;

    #[inline(always)]
    fn note(&mut self, change: Change) {
        if matches!(change, Change::Deleted { .. } | Change::ValueReplaced { .. }) {
            self.deferred = true;
        }
        self.changes.push(change);
    }

    #[inline(always)]
    fn note_image(&mut self, change: Change, image: &[u8]) {
        self.images.extend_from_slice(image);
        self.changes.push(change);
    }

    fn pop(&mut self, image: &mut Vec<u8>) -> Option<Change> {
        let change = self.changes.pop()?;
        image.clear();
        if let Change::Updated { bytes, .. }
        | Change::InsertedBytes { bytes, .. }
        | Change::RemovedBytes { bytes, .. } = change
        {
            image.extend(self.images.drain(self.images.len() - bytes as usize..));
        }
        if self.changes.is_empty() {
            assert!(self.images.is_empty(), "an undo image belongs to no change");
            self.deferred = false;
        }
        Some(change)
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
        }
        self.changes.clear();
        self.images.clear();
    }
}
