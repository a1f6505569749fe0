//! A store with probes: every call that has a category is announced to a meter (LG-44, LG-45).
//!
//! For counters that are read natively; callgrind distinguishes calls without probes, by the same
//! categories (`CALLS` in `run/counting.rs`). A separate type, so that the store that is timed contains
//! no probe. Deletions, scans and the phase change pass through unannounced: they count as *other*.
//! A look-up of many keys in lock step is one call.
//!
//! Not here: what is counted and where it goes (`counters`). Invariants: the meter is the first
//! field, which every probe relies on; nothing else happens between a probe and the call it
//! announces.

use tombolo_storage::store::Store;

use crate::counters::Category;
use crate::counters::meter::Meter;

/// A store with probes around its calls.
#[repr(C)]
#[derive(Debug)]
pub struct Metered<S> {
    /// The meter that the probes call.
    pub meter: Meter,
    /// The store without them.
    pub store: S,
}

impl<S: Store> Metered<S> {
    /// `store` with probes; the meter counts nothing yet.
    pub fn new(store: S) -> Self {
        Self { meter: Meter::new(), store }
    }
}

/// A call between its two probes, if it has any.
macro_rules! announced {
    ($call:expr; $store:ident as $category:ident) => {{
        $store.meter.enter::<{ Category::$category as usize }>();
        let result = $call;
        $store.meter.exit::<{ Category::$category as usize }>();
        result
    }};
    ($store:ident begin $arguments:tt $call:expr) => { announced!($call; $store as Begin) };
    ($store:ident commit $arguments:tt $call:expr) => { announced!($call; $store as Commit) };
    ($store:ident lookup $arguments:tt $call:expr) => { announced!($call; $store as Lookup) };
    ($store:ident lookup_many $arguments:tt $call:expr) => { announced!($call; $store as Lookup) };
    ($store:ident lookup_for_update $arguments:tt $call:expr) => { announced!($call; $store as Lookup) };
    ($store:ident lookup_many_for_update $arguments:tt $call:expr) => {
        announced!($call; $store as Lookup)
    };
    ($store:ident prefetch_lookup $arguments:tt $call:expr) => { announced!($call; $store as Lookup) };
    ($store:ident prefetch_insert $arguments:tt $call:expr) => { announced!($call; $store as Insert) };
    ($store:ident prefetch $arguments:tt $call:expr) => { announced!($call; $store as Lookup) };
    ($store:ident find_ahead $arguments:tt $call:expr) => { announced!($call; $store as Lookup) };
    ($store:ident pin $arguments:tt $call:expr) => { announced!($call; $store as Pin) };
    ($store:ident update $arguments:tt $call:expr) => { announced!($call; $store as Update) };
    ($store:ident set_variable $arguments:tt $call:expr) => { announced!($call; $store as Update) };
    ($store:ident create $arguments:tt $call:expr) => { announced!($call; $store as Create) };
    ($store:ident insert $arguments:tt $call:expr) => { announced!($call; $store as Insert) };
    ($store:ident insert_run $arguments:tt $call:expr) => { announced!($call; $store as Insert) };
    ($store:ident $name:ident $arguments:tt $call:expr) => { $call };
}

impl<S: Store> Store for Metered<S> {
    pass_through! { announced }
}
