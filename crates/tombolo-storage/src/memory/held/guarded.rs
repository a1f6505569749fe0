//! `Guarded`: a memory store while parts are held: each access is first compared with what they have locked.
//!
//! ```text
//!   Guarded::local ── commit ──► committed        (or `Held`: an access met a lock)
//!   Guarded::part  ── commit ──► set aside, its locks noted ── into_part ──► Part
//! ```
//!
//! A local transaction only looks: it holds nothing when it has ended. A part of a transaction over several islands
//! notes what it reads; what it writes follows from its undo notes. Either way a procedure runs as it would on the
//! store itself. An access that meets a lock fails with [`Error::Held`], and the transaction does not commit, even if
//! its procedure goes on; undoing it is for the caller, as after any error.
//!
//! What is locked for what:
//!
//! | call | is compared with, and notes |
//! |---|---|
//! | look-up, found or not | the key, to read it |
//! | scan | the keys from the range's beginning to where the visitor stopped, to read them |
//! | all rows of a table | the table, to read it |
//! | pin | the row, to read it; of many rows the table |
//! | update, value set, deletion | the row, to write it; its table, to change something within |
//! | creation | the table, to change something within |
//! | entry inserted or removed | the key, to write it; where several rows may have it, to change something within |
//!
//! Nothing is found ahead: a row that was found before would be used without the look-up that locks its key. Not
//! here: which locks exclude each other (`locks.rs`), waiting.

use std::cell::{Cell, RefCell};
use std::ops::ControlFlow;

use super::Part;
use super::lock::{Lock, Mode, Noted, edge};
use super::locks::Locks;
use super::set_aside::mode_of_entries;
use crate::error::{Error, Result};
use crate::key::{IndexType, KEY_BYTES_MAX, Range};
use crate::memory::MemoryStore;
use crate::memory::btree::Position;
use crate::memory::calls::{normalised_edge, packed_ends};
use crate::memory::store::MemoryRow;
use crate::memory::undo::Undo;
use crate::owner::Owner;
use crate::profile::MemoryProfile;
use crate::row::RowId;
use crate::store::{Index, Order, Store, Table, TableType};

/// A memory store whose transactions respect what held parts have locked. See the module's head.
#[derive(Debug)]
pub struct Guarded<'g, P: MemoryProfile> {
    store: &'g mut MemoryStore<P>,
    locks: &'g Locks,
    /// An owner of a lock that the open transaction met. Of a call that reads through `&self`, as the noted reads
    /// are; neither is borrowed while code of the caller runs.
    met: Cell<Option<Owner>>,
    /// What the transaction reads, if that is to be locked.
    reads: Option<RefCell<Noted>>,
    part: Option<Part>,
    lower: Vec<u8>,
    upper: Vec<u8>,
}

impl<'g, P: MemoryProfile> Guarded<'g, P> {
    /// For local transactions, which commit.
    pub fn local(store: &'g mut MemoryStore<P>, locks: &'g Locks) -> Self {
        Self::new(store, locks, None)
    }

    /// For the part of a transaction over several islands, which is set aside where it would commit.
    pub fn part(store: &'g mut MemoryStore<P>, locks: &'g Locks) -> Self {
        Self::new(store, locks, Some(RefCell::default()))
    }

    fn new(store: &'g mut MemoryStore<P>, locks: &'g Locks, reads: Option<RefCell<Noted>>) -> Self {
        const { assert!(P::Undo::KEEPS, "a transaction that meets a lock is undone") };
        let (met, part) = (Cell::new(None), None);
        Self { store, locks, met, reads, part, lower: Vec::new(), upper: Vec::new() }
    }

    /// The part that was set aside last, if the transaction got so far.
    pub fn into_part(self) -> Option<Part> {
        self.part
    }

    /// Fails if a held part excludes an access.
    #[inline]
    fn admit(&self, access: &Lock<'_>) -> Result<()> {
        match self.locks.conflict(access) {
            None => Ok(()),
            Some(owner) => {
                self.met.set(Some(owner));
                Err(Error::Held { owner })
            }
        }
    }

    /// The same for a read, which a part notes.
    #[inline]
    fn admit_read(&self, access: &Lock<'_>) -> Result<()> {
        self.admit(access)?;
        self.note(access);
        Ok(())
    }

    #[inline]
    fn note(&self, read: &Lock<'_>) {
        if let Some(reads) = &self.reads {
            reads.borrow_mut().note(read);
        }
    }

    /// A row, in the mode `mode`.
    #[inline]
    fn admit_row<R: TableType>(&self, table: &Table<R>, row: RowId, mode: Mode) -> Result<()> {
        // An id of another store names no row here.
        let Ok(row) = u32::try_from(row.location()) else { return Ok(()) };
        let table = table.position() as u32;
        self.admit(&Lock::Row { table, row, mode })?;
        self.note(&Lock::Row { table, row, mode: Mode::Read });
        let has_many_rows = |reads: &RefCell<Noted>| reads.borrow().has_many_rows();
        match self.reads.as_ref().is_some_and(has_many_rows) {
            true => self.admit_read(&Lock::Table { table, mode: Mode::Read }),
            false => Ok(()),
        }
    }

    /// A row that is changed.
    #[inline]
    fn admit_change<R: TableType>(&self, table: &Table<R>, row: RowId) -> Result<()> {
        self.admit_row(table, row, Mode::Write)?;
        self.admit_rows(table, Mode::ChangeWithin)
    }

    #[inline]
    fn admit_rows<R: TableType>(&self, table: &Table<R>, mode: Mode) -> Result<()> {
        self.admit(&Lock::Table { table: table.position() as u32, mode })
    }

    /// A key, in the mode `mode`; with `is_read`, its reading is noted. A key that no row can have needs no lock.
    #[inline]
    fn admit_key<I: IndexType>(
        &mut self,
        index: &Index<I>,
        key: I::Key<'_>,
        mode: Mode,
        is_read: bool,
    ) -> Result<()> {
        let packed;
        let key: &[u8] = if MemoryStore::<P>::is_packed(index) {
            let Some(key) = I::pack(index.shape(), key) else { return Ok(()) };
            packed = key.to_be_bytes();
            &packed
        } else if self.store.normalise(index, key) {
            &self.store.key
        } else {
            return Ok(());
        };
        let index = index.position() as u32;
        self.admit(&Lock::Key { index, key, mode })?;
        if is_read {
            self.note(&Lock::Key { index, key, mode: Mode::Read });
        }
        Ok(())
    }

    #[inline]
    fn admit_look_up<I: IndexType>(&mut self, index: &Index<I>, key: I::Key<'_>) -> Result<()> {
        self.admit_key(index, key, Mode::Read, true)
    }

    /// An entry that comes or goes. That a key was free is seen where no two rows have it.
    #[inline]
    fn admit_entry<I: IndexType>(&mut self, index: &Index<I>, key: I::Key<'_>) -> Result<()> {
        let is_unique = I::unique(index.shape());
        self.admit_key(index, key, mode_of_entries(is_unique), is_unique)
    }

    /// [`Store::scan`], with the locks of what was visited.
    fn scan_admitted<I: IndexType>(
        &mut self,
        index: &Index<I>,
        range: Range<I::Key<'_>>,
        order: Order,
        mut visit: impl FnMut(RowId) -> ControlFlow<()>,
    ) -> Result<()> {
        let entries = &self.store.indexes[index.position()];
        if !entries.is_ordered() {
            return self.store.scan(index, range, order, visit);
        }
        // The key at which the visitor stopped.
        let (mut is_stopped, last) = (false, &mut Vec::new());
        let (mut lower, mut upper) = (Some(false), Some(true));
        if MemoryStore::<P>::is_packed(index) {
            let (first, end) = packed_ends(index, &range);
            if first >= end {
                return Ok(());
            }
            let ends = [(&mut self.lower, first), (&mut self.upper, end - 1)];
            for (bytes, edge) in ends {
                bytes.clear();
                bytes.extend_from_slice(&(edge as u64).to_be_bytes());
            }
            entries.scan_packed(first, end, order, |key, slot| {
                let flow = visit(MemoryStore::<P>::row_id(slot));
                if flow.is_break() {
                    is_stopped = true;
                    last.extend_from_slice(&key.to_be_bytes());
                }
                flow
            });
        } else {
            lower = normalised_edge(index, &range.lower, &mut self.lower).or(lower);
            upper = normalised_edge(index, &range.upper, &mut self.upper).or(upper);
            let (first, end) = (position(lower, &self.lower), position(upper, &self.upper));
            let slot_bytes = if entries.unique { 0 } else { size_of::<u32>() };
            entries.scan_bytes(first, end, order, |key, slot| {
                let flow = visit(MemoryStore::<P>::row_id(slot));
                if flow.is_break() {
                    is_stopped = true;
                    last.extend_from_slice(&key[..key.len() - slot_bytes]);
                }
                flow
            });
        }
        let (mut lower, mut upper) =
            locked(position(lower, &self.lower), position(upper, &self.upper));
        match order {
            Order::Forward if is_stopped => upper = Position::After(last),
            Order::Backward if is_stopped => lower = Position::Before(last),
            Order::Forward | Order::Backward => {}
        }
        self.admit_read(&Lock::Range { index: index.position() as u32, lower, upper })
    }

    /// Ends the transaction: a local one commits, a part is set aside.
    fn end(&mut self) -> Result<()> {
        if let Some(owner) = self.met.get() {
            return Err(Error::Held { owner });
        }
        let Some(reads) = &mut self.reads else { return self.store.commit() };
        let noted = reads.get_mut();
        let (changes, created) = self.store.set_aside_noting(&mut |lock| noted.note(lock))?;
        // The slot of a row that was created is free again.
        let is_gone = |lock: &Lock<'_>| match *lock {
            Lock::Row { table, row, .. } => created.binary_search(&(table, row)).is_ok(),
            _ => false,
        };
        let locks = noted.locks(is_gone);
        self.part = Some(Part { changes, locks });
        Ok(())
    }
}

fn position(is_after: Option<bool>, bytes: &[u8]) -> Position<'_> {
    match is_after {
        Some(true) => Position::After(bytes),
        _ => Position::Before(bytes),
    }
}

/// The range that is locked for one of these edges: none is longer than a key, so that a little more may be locked.
fn locked<'a>(lower: Position<'a>, upper: Position<'a>) -> (Position<'a>, Position<'a>) {
    let lower = match edge(lower).0.get(..KEY_BYTES_MAX) {
        Some(first) => Position::Before(first),
        None => lower,
    };
    match edge(upper).0.get(..KEY_BYTES_MAX) {
        Some(first) => (lower, Position::After(first)),
        None => (lower, upper),
    }
}

/// A call of the store, once it is admitted.
macro_rules! admitted {
    ($guard:ident begin $arguments:tt $call:expr) => {{
        $guard.met.set(None);
        $guard.part = None;
        if let Some(reads) = &mut $guard.reads {
            reads.get_mut().clear();
        }
        $call
    }};
    ($guard:ident commit $arguments:tt $call:expr) => { $guard.end() };
    ($guard:ident lookup ($index:ident, $key:ident) $call:expr) => {{
        $guard.admit_look_up($index, $key)?;
        $call
    }};
    ($guard:ident lookup_for_update $arguments:tt $call:expr) => {
        admitted!($guard lookup $arguments $call)
    };
    ($guard:ident lookup_many ($index:ident, $keys:ident, $found:ident) $call:expr) => {{
        for key in $keys {
            $guard.admit_look_up($index, *key)?;
        }
        $call
    }};
    ($guard:ident lookup_many_for_update $arguments:tt $call:expr) => {
        admitted!($guard lookup_many $arguments $call)
    };
    ($guard:ident scan ($index:ident, $range:ident, $order:ident, $visit:ident) $call:expr) => {
        $guard.scan_admitted($index, $range, $order, $visit)
    };
    ($guard:ident rows ($table:ident, $visit:ident) $call:expr) => {{
        let table = $table.position() as u32;
        $guard.admit_read(&Lock::Table { table, mode: Mode::Read })?;
        $call
    }};
    ($guard:ident find_ahead ($($ignored:ident),*) $call:expr) => {{
        $(let _ = $ignored;)*
        None
    }};
    ($guard:ident removals ($($ignored:ident),*) $call:expr) => {{
        $(let _ = $ignored;)*
        None
    }};
    ($guard:ident pin ($table:ident, $row:ident) $call:expr) => {{
        $guard.admit_row($table, $row, Mode::Read)?;
        $call
    }};
    ($guard:ident update ($table:ident, $row:ident $($rest:tt)*) $call:expr) => {{
        $guard.admit_change($table, $row)?;
        $call
    }};
    ($guard:ident set_variable $arguments:tt $call:expr) => {
        admitted!($guard update $arguments $call)
    };
    ($guard:ident delete $arguments:tt $call:expr) => {
        admitted!($guard update $arguments $call)
    };
    ($guard:ident create ($table:ident, $fill:ident) $call:expr) => {{
        $guard.admit_rows($table, Mode::ChangeWithin)?;
        $call
    }};
    ($guard:ident insert ($index:ident, $key:ident, $row:ident) $call:expr) => {{
        $guard.admit_entry($index, $key)?;
        $call
    }};
    ($guard:ident insert_run ($index:ident, $rows:ident, $key:ident) $call:expr) => {{
        for at in 0..$rows.len() {
            $guard.admit_entry($index, $key(at))?;
        }
        $call
    }};
    ($guard:ident remove ($index:ident, $key:ident, $row:ident) $call:expr) => {{
        $guard.admit_entry($index, $key)?;
        let removed = $call;
        if removed == Ok(false) {
            // The transaction has seen that the entry is not there.
            $guard.admit_look_up($index, $key)?;
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
