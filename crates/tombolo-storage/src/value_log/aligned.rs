//! A buffer whose bytes begin where every file accepts a write from.
//!
//! Not here: what is in it. Invariant: `start` is at most [`ALIGNMENT_MAX`], and the allocation holds
//! at least that much more than was ever asked for.

use crate::disk::ALIGNMENT_MAX;

/// Bytes at an aligned address; the memory is kept and used again.
#[derive(Debug, Default)]
pub struct AlignedBuffer {
    bytes: Vec<u8>,
    start: usize,
}

impl AlignedBuffer {
    /// The first `bytes` bytes, whose content is unspecified.
    pub fn first(&mut self, bytes: usize) -> &mut [u8] {
        if self.bytes.len() < bytes + ALIGNMENT_MAX {
            // The old content is not worth a copy; new memory is zero and not touched yet.
            self.bytes = Vec::new();
            self.bytes = vec![0; (bytes + ALIGNMENT_MAX).next_power_of_two()];
            self.start = self.bytes.as_ptr().align_offset(ALIGNMENT_MAX);
        }
        &mut self.bytes[self.start..self.start + bytes]
    }

    /// The first `bytes` bytes, all zero.
    pub fn zeroed(&mut self, bytes: usize) -> &mut [u8] {
        let first = self.first(bytes);
        first.fill(0);
        first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_aligned_whatever_the_length() {
        let mut buffer = AlignedBuffer::default();
        for bytes in [1, 4096, 100_000, 7, 1 << 20] {
            let first = buffer.zeroed(bytes);
            assert_eq!(first.len(), bytes);
            assert!((first.as_ptr() as usize).is_multiple_of(ALIGNMENT_MAX));
            first.fill(9);
        }
    }
}
