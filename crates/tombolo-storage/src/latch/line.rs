//! `Line`: a value in a cache line of its own, because threads write it while they only read what lies next to it, or
//! because each thread writes its own.

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
