//! A cache line of its own for what threads write beside what they only read, or each for itself.

use std::ops::Deref;

/// A value in a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct Line<T>(pub T);

impl<T> Deref for Line<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0
    }
}
