//! A pool of reusable buffers, so that batches need no allocation.
//!
//! Not here: their content. Invariants: a taken buffer is empty; the pool keeps only a few buffers, none
//! of them huge.

use tombolo_storage::sync::Mutex;

use crate::pipeline::log::Records;

/// The most buffers that are kept.
const KEPT_MAX: usize = 64;
/// Larger buffers, in bytes, are freed, so that one large batch does not occupy memory forever.
const KEPT_BYTES_MAX: usize = 4 << 20;

/// Empty buffers with spare capacity.
#[derive(Debug)]
pub(crate) struct Pool<B>(Mutex<Vec<B>>);

impl<B: Default> Pool<B> {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// An empty buffer.
    pub(crate) fn take(&self) -> B {
        self.0.lock().pop().unwrap_or_default()
    }

    /// Keeps an empty buffer with a capacity of `bytes`.
    fn keep(&self, buffer: B, bytes: usize) {
        if bytes == 0 || bytes > KEPT_BYTES_MAX {
            return;
        }
        let mut kept = self.0.lock();
        if kept.len() < KEPT_MAX {
            kept.push(buffer);
        }
    }
}

impl<T> Pool<Vec<T>> {
    /// Returns a vector; remaining items are dropped.
    pub(crate) fn give(&self, mut vector: Vec<T>) {
        vector.clear();
        let bytes = vector.capacity() * size_of::<T>();
        self.keep(vector, bytes);
    }
}

impl<B: Records> Pool<B> {
    /// Returns a buffer of records, whose content is discarded.
    pub(crate) fn give_records(&self, mut records: B) {
        let bytes = records.memory_bytes();
        records.clear();
        self.keep(records, bytes);
    }
}

#[cfg(not(loom))]
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_come_back_empty_unless_huge() {
        let pool = Pool::new();
        let mut vector: Vec<u8> = pool.take();
        vector.extend([1, 2, 3]);
        let place = vector.as_ptr();
        pool.give(vector);
        let vector = pool.take();
        assert!(vector.is_empty() && vector.as_ptr() == place);
        pool.give(vec![0; KEPT_BYTES_MAX + 1]);
        assert_eq!(pool.take().capacity(), 0);
    }
}
