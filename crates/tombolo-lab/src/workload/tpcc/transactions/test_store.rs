//! A store that counts its calls, for tests: every look-up, pin and index entry on its own.

use std::cell::Cell;

use tombolo_storage::store::Store;

/// How often each call was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Calls {
    pub(super) lookups: usize,
    pub(super) pins: usize,
    pub(super) updates: usize,
    pub(super) creates: usize,
    pub(super) inserts: usize,
    pub(super) scans: usize,
    pub(super) deletes: usize,
    pub(super) removes: usize,
}

/// `store`, its calls counted.
#[derive(Debug)]
pub(super) struct Counting<S> {
    pub(super) store: S,
    pub(super) calls: Cell<Calls>,
}

impl<S> Counting<S> {
    pub(super) fn new(store: S) -> Self {
        Self { store, calls: Cell::default() }
    }

    fn count(&self, add: impl FnOnce(&mut Calls)) {
        let mut calls = self.calls.get();
        add(&mut calls);
        self.calls.set(calls);
    }
}

/// A call, counted if it is one of those that are.
macro_rules! counted {
    ($call:expr; $store:ident adds $count:expr => $calls:ident) => {{
        $store.count(|calls| calls.$calls += $count);
        $call
    }};
    ($store:ident lookup $arguments:tt $call:expr) => { counted!($call; $store adds 1 => lookups) };
    ($store:ident lookup_for_update $arguments:tt $call:expr) => {
        counted!($call; $store adds 1 => lookups)
    };
    ($store:ident lookup_many ($index:ident, $keys:ident, $found:ident) $call:expr) => {
        counted!($call; $store adds $keys.len() => lookups)
    };
    ($store:ident lookup_many_for_update ($index:ident, $keys:ident, $found:ident) $call:expr) => {
        counted!($call; $store adds $keys.len() => lookups)
    };
    ($store:ident scan $arguments:tt $call:expr) => { counted!($call; $store adds 1 => scans) };
    ($store:ident pin $arguments:tt $call:expr) => { counted!($call; $store adds 1 => pins) };
    ($store:ident update $arguments:tt $call:expr) => { counted!($call; $store adds 1 => updates) };
    ($store:ident create $arguments:tt $call:expr) => { counted!($call; $store adds 1 => creates) };
    ($store:ident delete $arguments:tt $call:expr) => { counted!($call; $store adds 1 => deletes) };
    ($store:ident insert $arguments:tt $call:expr) => { counted!($call; $store adds 1 => inserts) };
    ($store:ident insert_run ($index:ident, $rows:ident, $key:ident) $call:expr) => {
        counted!($call; $store adds $rows.len() => inserts)
    };
    ($store:ident remove $arguments:tt $call:expr) => { counted!($call; $store adds 1 => removes) };
    ($store:ident $name:ident $arguments:tt $call:expr) => { $call };
}

impl<S: Store> Store for Counting<S> {
    pass_through! { counted }
}
