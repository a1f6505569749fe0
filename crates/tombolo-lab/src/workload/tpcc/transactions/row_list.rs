//! A short list of rows on the stack: what a scan found, to be read after it.

use std::ops::{ControlFlow, Deref};

use tombolo_storage::row::RowId;

/// At most `N` rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowList<const N: usize> {
    rows: [RowId; N],
    len: usize,
}

impl<const N: usize> RowList<N> {
    /// No rows.
    #[inline(always)]
    pub(super) const fn new() -> Self {
        Self { rows: [RowId::new(0); N], len: 0 }
    }

    /// Appends `row`, and says whether the list has room for another.
    ///
    /// # Panics
    /// If the list is full.
    #[inline(always)]
    pub(super) fn push(&mut self, row: RowId) -> ControlFlow<()> {
        self.rows[self.len] = row;
        self.len += 1;
        if self.len == N { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

impl<const N: usize> Deref for RowList<N> {
    type Target = [RowId];

    #[inline(always)]
    fn deref(&self) -> &[RowId] {
        &self.rows[..self.len]
    }
}
