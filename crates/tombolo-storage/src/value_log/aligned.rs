//! A buffer with an alignment that every file accepts for direct writes.
//!
//! Not here: its content. Invariants: `start` is at most [`ALIGNMENT_MAX`] bytes into the
//! allocation, which does not move while it is large enough; the bytes in `zeros` are zero.

use std::io;
use std::ops::Range;

use crate::disk::{ALIGNMENT_MAX, DiskError, DiskFile, Operation};

/// Bytes at an aligned address; the memory is reused.
#[derive(Debug, Default)]
pub struct AlignedBuffer {
    bytes: Vec<u8>,
    start: usize,
    /// The bytes, counted from `start`, that were filled with zeros and not overwritten since.
    zeros: Range<usize>,
}

impl AlignedBuffer {
    /// Allocates memory for `bytes` bytes, so that [`Self::first`] needs none for as many. It is
    /// not touched before it is used.
    ///
    /// # Errors
    /// When the system has no memory, as a failure of `operation` on `file`.
    pub fn reserve(
        &mut self,
        bytes: usize,
        operation: Operation,
        file: &dyn DiskFile,
    ) -> Result<(), DiskError> {
        let taken = self.take(bytes);
        taken.map_err(|error| DiskError::new(operation, file.name(), None, &error))
    }

    /// Memory it takes.
    pub fn memory_bytes(&self) -> u64 {
        self.bytes.capacity() as u64
    }

    fn take(&mut self, bytes: usize) -> io::Result<()> {
        let needed = bytes.saturating_add(ALIGNMENT_MAX);
        if self.bytes.capacity() >= needed {
            return Ok(());
        }
        // Frees the old memory first, because its content is not copied.
        self.bytes = Vec::new();
        let taken = self.bytes.try_reserve_exact(needed);
        self.start = self.bytes.as_ptr().align_offset(ALIGNMENT_MAX);
        taken.map_err(|_| {
            let what = format!(
                "the system has no memory for a buffer of {bytes} bytes: give the process more, or \
                 the database less (memory_bytes_max)"
            );
            io::Error::new(io::ErrorKind::OutOfMemory, what)
        })
    }

    /// The first `bytes` bytes, whose content is unspecified. A caller that must not fail reserves
    /// them beforehand.
    pub fn first(&mut self, bytes: usize) -> &mut [u8] {
        self.zeros = 0..0;
        self.part(bytes)
    }

    /// The first `bytes` bytes: `used` bytes written by `fill`, then zeros. Bytes that are still zero are not
    /// written again, because most groups of a log fill a small part of their block.
    pub fn padded(&mut self, used: usize, bytes: usize, fill: impl FnOnce(&mut [u8])) -> &[u8] {
        let zeros = std::mem::take(&mut self.zeros);
        let part = self.part(bytes);
        fill(&mut part[..used]);
        let (from, to) = (zeros.start.clamp(used, bytes), zeros.end.clamp(used, bytes));
        part[used..from].fill(0);
        part[to..].fill(0);
        let is_longer = zeros.contains(&bytes);
        self.zeros = used..if is_longer { zeros.end } else { bytes };
        self.part(bytes)
    }

    fn part(&mut self, bytes: usize) -> &mut [u8] {
        if self.bytes.capacity() < bytes + ALIGNMENT_MAX {
            self.bytes = Vec::with_capacity((bytes + ALIGNMENT_MAX).next_power_of_two());
            self.start = self.bytes.as_ptr().align_offset(ALIGNMENT_MAX);
        }
        let end = self.start + bytes;
        if self.bytes.len() < end {
            self.bytes.resize(end, 0); // within the capacity, so the address does not change
        }
        &mut self.bytes[self.start..end]
    }

    /// The first `bytes` bytes, for an `operation` on `file`, reserved first.
    ///
    /// # Errors
    /// As [`Self::reserve`].
    pub fn try_first(
        &mut self,
        bytes: usize,
        operation: Operation,
        file: &dyn DiskFile,
    ) -> Result<&mut [u8], DiskError> {
        self.reserve(bytes, operation, file)?;
        Ok(self.first(bytes))
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
    use crate::memory::test_random::Random;

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

    #[test]
    fn what_is_not_used_is_zero_whatever_was_there() {
        let mut random = Random::new(7);
        let mut buffer = AlignedBuffer::default();
        for turn in 0..5_000_usize {
            let bytes = 1 + random.below(300) as usize;
            if random.below(50) == 0 {
                buffer.first(bytes).fill(8);
            }
            let used = random.below(bytes as u64 + 1) as usize;
            let whole = buffer.padded(used, bytes, |used| used.fill(turn as u8 | 1));
            let (used, padding) = whole.split_at(used);
            assert!(used.iter().all(|&byte| byte == turn as u8 | 1));
            assert!(padding.iter().all(|&byte| byte == 0), "{used:?}, {padding:?}");
        }
    }

    #[test]
    fn what_was_reserved_needs_no_more_memory() {
        let mut buffer = AlignedBuffer::default();
        buffer.take(100_000).unwrap();
        let place = buffer.first(1).as_ptr();
        for bytes in [4096, 100_000, 7] {
            buffer.take(bytes).unwrap();
            assert_eq!(buffer.first(bytes).as_ptr(), place);
        }
        let refused = buffer.take(usize::MAX / 2).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::OutOfMemory);
        assert_eq!(buffer.zeroed(4096), [0; 4096], "it goes on");
    }
}
