//! `ClosurePlaces`: where the program has the closures that turned out to be transactions over several islands, so that
//! they can be declared (`across`), which is faster.
//!
//! Without locks: a place is entered once and then only counted. Not here: which transactions are such.

use std::panic::Location;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// More places than this are not told apart.
const PLACES_MAX: usize = 64;

/// A place of a program from which closures ran over several islands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClosurePlace {
    /// Where [`Islands::transaction`](super::Islands::transaction) was called; `None`: at places beyond the first 64.
    pub place: Option<&'static Location<'static>>,
    /// How many of its transactions over several islands have committed.
    pub transactions: u64,
}

#[derive(Default)]
struct Counted {
    place: OnceLock<&'static Location<'static>>,
    transactions: AtomicU64,
}

/// Counts by place. See the file's head.
pub(super) struct ClosurePlaces {
    counted: [Counted; PLACES_MAX],
    others: AtomicU64,
}

impl ClosurePlaces {
    pub(super) fn new() -> Self {
        Self { counted: std::array::from_fn(|_| Counted::default()), others: AtomicU64::new(0) }
    }

    /// Counts a transaction.
    pub(super) fn count(&self, place: &'static Location<'static>) {
        let first = ptr::from_ref(place).addr() / align_of::<Location<'_>>();
        let mut known = (0..PLACES_MAX).map(|at| &self.counted[(first + at) % PLACES_MAX]);
        let own = known.find(|one| ptr::eq(*one.place.get_or_init(|| place), place));
        let counter = own.map_or(&self.others, |one| &one.transactions);
        // Relaxed, without a partner: it is only a number.
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// The places, the one with most transactions first.
    pub(super) fn found(&self) -> Vec<ClosurePlace> {
        let mut found: Vec<ClosurePlace> = Vec::new();
        let known = self.counted.iter().filter(|one| one.place.get().is_some());
        let known = known.map(|one| (one.place.get().copied(), &one.transactions));
        for (place, transactions) in known.chain([(None, &self.others)]) {
            let transactions = transactions.load(Ordering::Relaxed);
            // A compiler may keep a place more than once.
            match found.iter_mut().find(|one| one.place == place) {
                Some(one) => one.transactions += transactions,
                None => found.push(ClosurePlace { place, transactions }),
            }
        }
        found.retain(|one| one.transactions > 0);
        found.sort_by_key(|one| std::cmp::Reverse(one.transactions));
        found
    }
}
