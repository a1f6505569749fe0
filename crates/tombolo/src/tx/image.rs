//! `RowImage`: a value of a struct as the bytes of a row, outside of any store.
//!
//! Not here: rows of a store (`mod.rs`, `rows.rs`).

use tombolo_storage::row::{Fields, RowBytes, RowMut};

use super::NewRow;
use super::derived::TableRow;

/// The row that a value would be. Reused for many of them.
#[derive(Debug, Default)]
pub(crate) struct RowImage {
    fixed: Vec<u8>,
    /// The offset of each handle, and the bytes; the handle is the place in this list.
    variable: Vec<(usize, Vec<u8>)>,
}

impl RowImage {
    /// Becomes the row of `value`. A value that its column cannot hold is left out.
    pub(crate) fn fill<R: TableRow>(&mut self, value: &R) {
        let Self { fixed, variable } = self;
        fixed.clear();
        fixed.resize(R::SIZE, 0);
        variable.clear();
        let row = RowMut::new(fixed, Fields::whole(R::SIZE));
        value.fill(&mut NewRow { row, misfit: &mut None, variable });
        for (handle, (offset, _)) in variable.iter().enumerate() {
            let bytes = (handle as u64).to_le_bytes();
            fixed[*offset..*offset + bytes.len()].copy_from_slice(&bytes);
        }
    }
}

impl RowBytes for RowImage {
    fn fixed(&self) -> &[u8] {
        &self.fixed
    }

    fn variable(&self, handle: u64) -> &[u8] {
        self.variable.get(handle as usize).map_or(&[], |(_, bytes)| bytes)
    }
}
