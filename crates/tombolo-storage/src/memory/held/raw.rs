//! `Raw`: an index whose keys are given in the form that the index stores, packed or normalised.
//!
//! With it, entries whose key is known only in that form are changed by the same calls as all others.

use crate::key::{Encoding, Fit, IndexShape, IndexType, KeyPart, packed_bits};

/// See the module's head.
pub(super) struct Raw;

impl IndexType for Raw {
    type Key<'a> = &'a [u8];
    type Shape = IndexShape;

    fn name(shape: &IndexShape) -> &str {
        &shape.name
    }
    fn parts(shape: &IndexShape) -> &[KeyPart] {
        &shape.parts
    }
    fn unique(shape: &IndexShape) -> bool {
        shape.unique
    }
    fn pack(shape: &IndexShape, key: &[u8]) -> Option<u64> {
        let key = u64::from_be_bytes(key.try_into().ok()?);
        packed_bits(&shape.parts).filter(|&bits| key.unbounded_shr(bits) == 0).map(|_| key)
    }
    /// The same for all keys: one that does not fit is blamed on the first column.
    fn position(_: &IndexShape, _: &[u8], _: usize, _: bool) -> u128 {
        0
    }
    fn encode_as<E: Encoding>(_: &IndexShape, key: &[u8], _: usize, out: &mut Vec<u8>) -> Fit {
        out.extend_from_slice(key);
        Fit::Within
    }
}
