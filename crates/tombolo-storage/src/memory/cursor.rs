//! Cursors: scans of an index in pieces, each of which continues behind the last row of the previous
//! one.
//!
//! A cursor has the range of keys that is left, not a place in a tree. So it borrows nothing, and rows that change
//! between two pieces are seen if their keys are still in that range. A reader that pages through a range, in one
//! transaction or in many, sees each row that is not deleted and whose key does not change exactly once.
//!
//! Not here: scans in one piece (`calls.rs`), readers that want all pieces as of one moment (`snapshot`).

use std::ops::ControlFlow;

use super::btree::Position;
use super::calls::{normalised_edge, packed_ends};
use super::index::is_packed;
use super::rows::FoundRow;
use super::store::{MemoryRow, MemoryStore};
use crate::error::{Error, Result};
use crate::key::{Edge, IndexType, Range};
use crate::profile::MemoryProfile;
use crate::row::Row;
use crate::store::{Index, Order};

/// What is left of a scan.
#[derive(Clone, Debug)]
pub struct Cursor {
    /// Position of the index.
    index: usize,
    order: Order,
    left: Left,
}

/// The keys that are left.
#[derive(Clone, Debug)]
enum Left {
    Nothing,
    /// Packed keys, from the first to before the second.
    Packed(u128, u128),
    /// Normalised keys between two places.
    Bytes(Place, Place),
}

impl Left {
    fn places(&self) -> Option<(Place, Place)> {
        let packed = |key: u128| (key as u64).to_be_bytes().to_vec();
        match self {
            &Self::Packed(lower, upper) if lower < upper => {
                let lower = Place { bytes: packed(lower), is_after: false };
                Some((lower, Place { bytes: packed(upper - 1), is_after: true }))
            }
            Self::Nothing | Self::Packed(..) => None,
            Self::Bytes(lower, upper) => Some((lower.clone(), upper.clone())),
        }
    }
}

/// A place between normalised keys: before or after all that begin with the bytes.
#[derive(Clone, Debug)]
pub(super) struct Place {
    bytes: Vec<u8>,
    is_after: bool,
}

impl Cursor {
    /// Whether it has given out all its rows.
    pub fn is_at_end(&self) -> bool {
        matches!(self.left, Left::Nothing)
    }

    /// The position of its index.
    pub(super) fn index(&self) -> usize {
        self.index
    }

    /// The places between which the keys lie that it has passed to become `later`.
    pub(super) fn passed(&self, later: &Self) -> Option<(Place, Place)> {
        let (lower, upper) = self.left.places()?;
        Some(match (self.order, later.left.places()) {
            (_, None) => (lower, upper),
            (Order::Forward, Some((next, _))) => (lower, next),
            (Order::Backward, Some((_, next))) => (next, upper),
        })
    }
}

impl<P: MemoryProfile> MemoryStore<P> {
    /// A cursor in front of the rows whose keys lie in `range`.
    ///
    /// # Errors
    /// `Unordered` for a hash index.
    pub fn cursor<I: IndexType>(
        &self,
        index: &Index<I>,
        range: &Range<I::Key<'_>>,
        order: Order,
    ) -> Result<Cursor> {
        let position = index.position();
        if !self.indexes[position].is_ordered() {
            return Err(Error::Unordered { index: position as u32 });
        }
        let left = if is_packed(index) {
            let (lower, upper) = packed_ends(index, range);
            Left::Packed(lower, upper)
        } else {
            let lower = Place::of(index, &range.lower, false);
            Left::Bytes(lower, Place::of(index, &range.upper, true))
        };
        Ok(Cursor { index: position, order, left })
    }

    /// Gives the next rows of a cursor to `visit`, `most` at most.
    pub fn advance<'s, R>(
        &'s self,
        cursor: &mut Cursor,
        most: usize,
        mut visit: impl FnMut(FoundRow<'s, R>),
    ) {
        let entries = &self.indexes[cursor.index];
        let rows = &self.tables[entries.table];
        let mut seen = 0;
        // Whether this was the last row of the piece.
        let mut give = |slot: u32| {
            let fixed = rows.slab.live_head(slot.into(), rows.shape.row_bytes);
            let Some(fixed) = fixed else { unreachable!("an index leads to a live row") };
            visit((rows.named(slot), Row::new(MemoryRow { fixed, values: &rows.values })));
            seen += 1;
            seen == most
        };
        let order = cursor.order;
        let left = match std::mem::replace(&mut cursor.left, Left::Nothing) {
            Left::Nothing => return,
            Left::Packed(lower, upper) => {
                let mut last = None;
                entries.scan_packed(lower, upper, order, |key, slot| {
                    if !give(slot) {
                        return ControlFlow::Continue(());
                    }
                    last = Some(u128::from(key));
                    ControlFlow::Break(())
                });
                last.map(|key| match order {
                    Order::Forward => Left::Packed(key + 1, upper),
                    Order::Backward => Left::Packed(lower, key),
                })
            }
            Left::Bytes(lower, upper) => {
                let mut last = None;
                entries.scan_bytes(lower.position(), upper.position(), order, |key, slot| {
                    if !give(slot) {
                        return ControlFlow::Continue(());
                    }
                    last = Some(key.to_vec());
                    ControlFlow::Break(())
                });
                // No stored key begins with another one.
                last.map(|bytes| match order {
                    Order::Forward => Left::Bytes(Place { bytes, is_after: true }, upper),
                    Order::Backward => Left::Bytes(lower, Place { bytes, is_after: false }),
                })
            }
        };
        cursor.left = left.unwrap_or(Left::Nothing);
    }
}

impl Place {
    /// The place of an edge; `open` says whether an open one lies after everything.
    fn of<I: IndexType>(index: &Index<I>, edge: &Edge<I::Key<'_>>, open: bool) -> Self {
        let mut bytes = Vec::new();
        let is_after = normalised_edge(index, edge, &mut bytes).unwrap_or(open);
        Self { bytes, is_after }
    }

    pub(super) fn position(&self) -> Position<'_> {
        if self.is_after { Position::After(&self.bytes) } else { Position::Before(&self.bytes) }
    }
}
