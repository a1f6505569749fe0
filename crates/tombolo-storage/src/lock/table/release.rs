//! Releasing locks: the latch of a bucket is held as long as the locks that are released next are in it.
//!
//! Not here: who is granted what a release makes possible (`Table::leave`).

use super::super::name::LockName;
use super::super::session::NONE;
use super::{Place, Table};
use crate::latch::{Latching, ShortGuard};

/// Releases locks one after the other: the latch of a bucket is held as long as its locks come.
pub(in super::super) struct Releases<'a, L: Latching> {
    table: &'a Table<L>,
    /// The bucket whose latch is held, if one is.
    number: usize,
    latched: Option<ShortGuard<'a, L>>,
}

impl<L: Latching> Releases<'_, L> {
    /// Releases the granted request `id` on `name`, which is free afterwards.
    #[inline(always)]
    pub(in super::super) fn release(&mut self, (name, id): (LockName, u32)) {
        let table = self.table;
        let number = table.bucket_number(name);
        let bucket = &table.buckets[number];
        if number != self.number {
            // One at a time: nothing is held where a latch is waited for.
            self.latched = None;
            self.latched = Some(bucket.latch.hold());
            self.number = number;
        }
        let place = Place { bucket, first: &bucket.chains[name.chain()] };
        let request = table.request(id);
        if place.first.get() == id && request.next.get() == NONE {
            place.first.set(request.below.get());
        } else if name.is_gap() {
            self.let_go();
            table.release_gap(id);
        } else {
            table.leave(place, id);
        }
    }

    /// Gives the latch back that is held.
    pub(in super::super) fn let_go(&mut self) {
        (self.latched, self.number) = (None, usize::MAX);
    }
}

impl<L: Latching> Table<L> {
    /// Releases the granted request `id` on `name`, which is free afterwards.
    #[inline(always)]
    pub(in super::super) fn release(&self, lock: (LockName, u32)) {
        self.releases().release(lock);
    }

    /// Releases of several locks.
    #[inline(always)]
    pub(in super::super) fn releases(&self) -> Releases<'_, L> {
        Releases { table: self, number: usize::MAX, latched: None }
    }
}
