//! Bytes that are kept in a row and read again: a mark, a checksum, then the content.
//!
//! Not here: what the content means. Bytes that were damaged are refused as a whole, so that no wrong row
//! comes of them.

use crate::checksum;

/// A mark and a checksum.
pub(super) const HEAD_BYTES: usize = 8;

/// The name of a format with its version.
pub(super) type Mark = [u8; 4];

/// The beginning of bytes that [`close`] ends, with room for `capacity` bytes of content.
pub(super) fn open_new(capacity: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEAD_BYTES + capacity);
    bytes.resize(HEAD_BYTES, 0);
    bytes
}

/// Writes the head of bytes that [`open_new`] began.
pub(super) fn close(bytes: &mut [u8], mark: Mark) {
    let sum = checksum::of(&[&mark, &bytes[HEAD_BYTES..]]);
    bytes[..4].copy_from_slice(&mark);
    bytes[4..HEAD_BYTES].copy_from_slice(&sum.to_le_bytes());
}

/// The content of `bytes`, if they have this mark and are as they were closed.
pub(super) fn content(bytes: &[u8], mark: Mark) -> Option<&[u8]> {
    let (head, content) = bytes.split_first_chunk::<HEAD_BYTES>()?;
    let mut own = [0; HEAD_BYTES];
    own[..4].copy_from_slice(&mark);
    own[4..].copy_from_slice(&checksum::of(&[&mark, content]).to_le_bytes());
    (*head == own).then_some(content)
}
