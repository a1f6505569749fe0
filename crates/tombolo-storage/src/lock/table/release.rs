//! Releasing locks: the latch of a bucket is held as long as the locks that are released next are in it.
//!
//! Not here: who is granted what a release makes possible (`Table::leave`).

use super::super::name::LockName;
use super::super::session::NONE;
use super::{ChainNumber, Place, Table};
use crate::latch::{Latching, ShortGuard};

/// Releases locks one after the other: the latch of a bucket is held as long as its locks come.
pub(in super::super) struct Releases<'a, L: Latching> {
    table: &'a Table<L>,
    /// The latch of the bucket that the last one was in.
    latched: Option<ShortGuard<'a, L>>,
}

impl<L: Latching> Releases<'_, L> {
    /// Releases the granted request `id` in a queue of this chain, which is free afterwards.
    #[inline(always)]
    pub(in super::super) fn release(&mut self, (chain, id): (ChainNumber, u32)) {
        let table = self.table;
        let bucket = &table.buckets[chain.bucket()];
        if !self.latched.as_ref().is_some_and(|latched| latched.is_of(&bucket.latch)) {
            // One at a time: nothing is held where a latch is waited for.
            self.latched = None;
            self.latched = Some(bucket.latch.hold());
        }
        let place = Place::of(bucket, chain);
        let request = table.request(id);
        if place.first.get() == id && request.next.get() == NONE {
            place.first.set(request.below.get());
        } else if chain.is_of_gaps() {
            self.latched = None;
            table.release_gap(id);
        } else {
            table.leave(place, id);
        }
    }
}

impl<L: Latching> Table<L> {
    /// Releases the granted request `id` on `name`, which is free afterwards.
    #[inline(always)]
    pub(in super::super) fn release(&self, (name, id): (LockName, u32)) {
        self.releases().release((self.chain(name), id));
    }

    /// Releases of several locks.
    #[inline(always)]
    pub(in super::super) fn releases(&self) -> Releases<'_, L> {
        Releases { table: self, latched: None }
    }
}
