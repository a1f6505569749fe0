//! The store that every database of this library is, with files and without.

use tombolo_storage::memory::MemoryStore;
use tombolo_storage::memory::held::{Guard, Guarded};
use tombolo_storage::memory::preface::Prefaced;
use tombolo_storage::owner::Owner;
use tombolo_storage::profile::MemoryLogged;

/// The store.
pub(crate) type Product = MemoryStore<MemoryLogged>;

/// The store while parts of transactions are held.
pub(crate) type GuardedProduct<'g> = Guarded<'g, MemoryLogged>;

/// Bytes of a transaction in its log that its records do not count.
pub(crate) const TRANSACTION_BYTES: u64 = 4;

/// The most bytes that a part of a transaction over several islands may log.
pub(crate) const LOG_BYTES_PER_PART: u64 = tombolo_engine::pipeline::LOG_BYTES_PER_CALL;

/// A store that calls run on: the store itself, or, while parts of transactions are held, with a guard.
pub(crate) trait Runs: Prefaced {
    /// The store itself, and the guard, which admits each call first.
    fn parts(&mut self) -> (&mut Product, Option<&Guard<'_>>);

    /// An owner of a lock that the last transaction met.
    #[inline(always)]
    fn met(&mut self) -> Option<Owner> {
        self.parts().1.and_then(Guard::met)
    }
}

impl Runs for Product {
    #[inline(always)]
    fn parts(&mut self) -> (&mut Product, Option<&Guard<'_>>) {
        (self, None)
    }
}

impl Runs for GuardedProduct<'_> {
    fn parts(&mut self) -> (&mut Product, Option<&Guard<'_>>) {
        let (store, guard) = self.parts();
        (store, Some(guard))
    }
}
