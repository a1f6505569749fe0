//! Words that a latch protects although they lie elsewhere: in a slab whose pieces belong to
//! different latches at different times.
//!
//! Reads and writes are plain moves. Read without the latch, such a word is a hint: some value it
//! once had, to be verified under the latch.

use crate::sync::{AtomicU32, AtomicU64, Ordering};

macro_rules! guarded {
    ($(#[$doc:meta])* $name:ident, $atomic:ident, $word:ty) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $name($atomic);

        // Relaxed, both: under the latch the partner is the latch's own Acquire and Release
        // (shared.rs), which order every access; without it the value is a hint and orders nothing.
        impl $name {
            /// A word that holds `value`.
            pub fn new(value: $word) -> Self {
                Self($atomic::new(value))
            }

            /// What it holds.
            #[inline(always)]
            pub fn get(&self) -> $word {
                self.0.load(Ordering::Relaxed)
            }

            /// Makes it hold `value`.
            #[inline(always)]
            pub fn set(&self, value: $word) {
                self.0.store(value, Ordering::Relaxed);
            }
        }
    };
}

guarded!(/// 32 bits under a latch.
    GuardedU32, AtomicU32, u32);
guarded!(/// 64 bits under a latch.
    GuardedU64, AtomicU64, u64);
