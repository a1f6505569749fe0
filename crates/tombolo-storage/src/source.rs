//! Bytes that are read from the front, for formats whose parts follow one another.
//!
//! Not here: what the parts mean; each format adds its own. Invariant: what is asked for is there or
//! nothing is read.

/// What is left to be read.
pub(crate) struct Source<'a>(pub(crate) &'a [u8]);

impl<'a> Source<'a> {
    /// The next `N` bytes.
    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*array)
    }

    /// The next `length` bytes.
    pub(crate) fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    /// The next short number.
    pub(crate) fn short(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// The next long number.
    pub(crate) fn long(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// The next bytes behind their length, a short number.
    pub(crate) fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = self.short()?;
        self.take(length as usize)
    }
}
