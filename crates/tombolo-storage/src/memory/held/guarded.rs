//! `Guarded`: a memory store while parts are held: each access is first compared with what they have locked.
//!
//! A procedure runs on it as it would on the store itself. Nothing is found ahead while parts are held: a row that was
//! found before would be used without the look-up that locks its key. Not here: what a call locks (`guard.rs`), which
//! locks exclude each other (`locks.rs`), waiting.

use std::ops::ControlFlow;

use super::{Access, Guard};
use crate::error::Result;
use crate::key::{IndexType, Range};
use crate::memory::MemoryStore;
use crate::memory::btree::Position;
use crate::memory::calls::{normalised_edge, packed_ends};
use crate::memory::index::is_packed;
use crate::memory::preface::Prefaced;
use crate::memory::rows::Rows;
use crate::memory::store::MemoryRow;
use crate::profile::MemoryProfile;
use crate::row::RowId;
use crate::store::{Index, Order, Phase, Store, Table, TableType};

/// A memory store whose transactions respect what held parts have locked. See the module's head.
#[derive(Debug)]
pub struct Guarded<'g, P: MemoryProfile> {
    pub(super) store: &'g mut MemoryStore<P>,
    pub(super) guard: &'g Guard<'g>,
}

impl<P: MemoryProfile> Guarded<'_, P> {
    /// The store, with what its transactions are compared with: a call of the open transaction is to be admitted
    /// first.
    pub fn parts(&mut self) -> (&mut MemoryStore<P>, &Guard<'_>) {
        (self.store, self.guard)
    }

    /// [`MemoryStore::scan_named`].
    ///
    /// # Errors
    /// As there, and `Held`.
    pub fn scan_named<I: IndexType>(
        &mut self,
        index: &Index<I>,
        range: Range<I::Key<'_>>,
        order: Order,
        mut visit: impl FnMut(RowId) -> ControlFlow<()>,
    ) -> Result<()> {
        self.scan_admitted(index, range, order, |rows, slot| visit(rows.named(slot)))
    }

    /// [`Store::scan`], with the locks of what was visited.
    fn scan_admitted<I: IndexType>(
        &mut self,
        index: &Index<I>,
        range: Range<I::Key<'_>>,
        order: Order,
        mut visit: impl FnMut(&Rows, u32) -> ControlFlow<()>,
    ) -> Result<()> {
        let entries = &self.store.indexes[index.position()];
        if !entries.is_ordered() {
            return self.store.scan_slots(index, range, order, visit);
        }
        let (guard, store) = (self.guard, &*self.store);
        let mut visit = |rows: &Rows, slot| {
            guard.see(store, Access::Scanned, entries.table, MemoryStore::<P>::row_id(slot));
            visit(rows, slot)
        };
        let rows = &self.store.tables[entries.table];
        let (mut lower_bytes, mut upper_bytes) = self.guard.edges.take();
        // The key at which the visitor stopped.
        let (mut is_stopped, last) = (false, &mut Vec::new());
        let (mut lower, mut upper) = (Some(false), Some(true));
        if is_packed(index) {
            let (first, end) = packed_ends(index, &range);
            if first >= end {
                return Ok(());
            }
            let ends = [(&mut lower_bytes, first), (&mut upper_bytes, end - 1)];
            for (bytes, edge) in ends {
                bytes.clear();
                bytes.extend_from_slice(&(edge as u64).to_be_bytes());
            }
            entries.scan_packed(first, end, order, |key, slot| {
                let flow = visit(rows, slot);
                if flow.is_break() {
                    is_stopped = true;
                    last.extend_from_slice(&key.to_be_bytes());
                }
                flow
            });
        } else {
            lower = normalised_edge(index, &range.lower, &mut lower_bytes).or(lower);
            upper = normalised_edge(index, &range.upper, &mut upper_bytes).or(upper);
            let (first, end) = (position(lower, &lower_bytes), position(upper, &upper_bytes));
            let slot_bytes = if entries.unique { 0 } else { size_of::<u32>() };
            entries.scan_bytes(first, end, order, |key, slot| {
                let flow = visit(rows, slot);
                if flow.is_break() {
                    is_stopped = true;
                    last.extend_from_slice(&key[..key.len() - slot_bytes]);
                }
                flow
            });
        }
        let (mut lower, mut upper) = (position(lower, &lower_bytes), position(upper, &upper_bytes));
        match order {
            Order::Forward if is_stopped => upper = Position::After(last),
            Order::Backward if is_stopped => lower = Position::Before(last),
            Order::Forward | Order::Backward => {}
        }
        let admitted = self.guard.admit_range(index.position(), lower, upper);
        self.guard.edges.replace((lower_bytes, upper_bytes));
        admitted
    }
}

fn position(is_after: Option<bool>, bytes: &[u8]) -> Position<'_> {
    match is_after {
        Some(true) => Position::After(bytes),
        _ => Position::Before(bytes),
    }
}

/// A call of the store, once it is admitted.
macro_rules! admitted {
    ($guard:ident begin $arguments:tt $call:expr) => {{
        $guard.guard.begin($guard.store);
        $call
    }};
    ($guard:ident begin_writes $arguments:tt $call:expr) => {
        // Steps of one transaction each begin theirs.
        if $guard.store.phase() == Phase::Reading {
            $call
        }
    };
    ($guard:ident commit $arguments:tt $call:expr) => { $guard.guard.end($guard.store) };
    ($guard:ident lookup ($index:ident, $key:ident) $call:expr) => {{
        $guard.guard.admit_look_up($index, $key)?;
        $call
    }};
    ($guard:ident lookup_for_update $arguments:tt $call:expr) => {
        admitted!($guard lookup $arguments $call)
    };
    ($guard:ident lookup_many ($index:ident, $keys:ident, $found:ident) $call:expr) => {{
        for key in $keys {
            $guard.guard.admit_look_up($index, *key)?;
        }
        $call
    }};
    ($guard:ident lookup_many_for_update $arguments:tt $call:expr) => {
        admitted!($guard lookup_many $arguments $call)
    };
    ($guard:ident scan ($index:ident, $range:ident, $order:ident, $visit:ident) $call:expr) => {{
        let mut visit = $visit;
        $guard.scan_admitted($index, $range, $order, |_, slot| {
            visit(MemoryStore::<P>::row_id(slot))
        })
    }};
    ($guard:ident rows ($table:ident, $visit:ident) $call:expr) => {{
        $guard.guard.admit_rows($guard.store, $table)?;
        $call
    }};
    ($guard:ident find_ahead $arguments:tt $call:expr) => {
        if $guard.guard.is_idle() { $call } else { None }
    };
    ($guard:ident removals $arguments:tt $call:expr) => {
        if $guard.guard.is_idle() { $call } else { None }
    };
    ($guard:ident pin ($table:ident, $row:ident) $call:expr) => {{
        $guard.guard.admit_row($guard.store, $table, $row)?;
        $call
    }};
    ($guard:ident update ($table:ident, $row:ident $($rest:tt)*) $call:expr) => {{
        $guard.guard.admit_change($table, $row)?;
        $guard.guard.see($guard.store, Access::Updated, $table.position(), $row);
        $call
    }};
    ($guard:ident set_variable $arguments:tt $call:expr) => {
        admitted!($guard update $arguments $call)
    };
    ($guard:ident delete ($table:ident, $row:ident) $call:expr) => {{
        $guard.guard.admit_change($table, $row)?;
        $guard.guard.see($guard.store, Access::Deleted, $table.position(), $row);
        $call
    }};
    ($guard:ident create ($table:ident, $fill:ident) $call:expr) => {{
        $guard.guard.admit_creation($table)?;
        let row = $call?;
        $guard.guard.see($guard.store, Access::Created, $table.position(), row);
        Ok(row)
    }};
    ($guard:ident insert ($index:ident, $key:ident, $row:ident) $call:expr) => {{
        $guard.guard.admit_entry($index, $key)?;
        $guard.guard.see_entered($guard.store, $index.position(), $row);
        $call
    }};
    ($guard:ident insert_run ($index:ident, $rows:ident, $key:ident) $call:expr) => {{
        for at in 0..$rows.len() {
            $guard.guard.admit_entry($index, $key(at))?;
            $guard.guard.see_entered($guard.store, $index.position(), $rows[at]);
        }
        $call
    }};
    ($guard:ident remove ($index:ident, $key:ident, $row:ident) $call:expr) => {{
        $guard.guard.admit_entry($index, $key)?;
        let removed = $call;
        if removed == Ok(false) {
            // The transaction has seen that the entry is not there.
            $guard.guard.admit_look_up($index, $key)?;
        }
        removed
    }};
    ($guard:ident $name:ident $arguments:tt $call:expr) => { $call };
}

/// One call.
macro_rules! handed_on {
    ($name:ident ref [$($generic:tt)*] ($($argument:ident: $type:ty),*) -> $result:ty) => {
        #[inline(always)]
        fn $name<$($generic)*>(&self, $($argument: $type),*) -> $result {
            admitted!(self $name ($($argument),*) self.store.$name($($argument),*))
        }
    };
    ($name:ident mut [$($generic:tt)*] ($($argument:ident: $type:ty),*) -> $result:ty) => {
        #[inline(always)]
        fn $name<$($generic)*>(&mut self, $($argument: $type),*) -> $result {
            admitted!(self $name ($($argument),*) self.store.$name($($argument),*))
        }
    };
}

impl<P: MemoryProfile> Store for Guarded<'_, P> {
    type Pin<'a>
        = MemoryRow<'a>
    where
        Self: 'a;

    const UNDO: bool = true;

    crate::for_each_store_call! { handed_on }
}

impl<P: MemoryProfile> Prefaced for Guarded<'_, P> {
    fn preface(&mut self) {
        self.store.preface();
    }

    fn rows_number<R: TableType>(&self, table: &Table<R>) -> Result<u64> {
        self.guard.admit_table(table)?;
        Ok(self.store.rows_number(table))
    }
}
