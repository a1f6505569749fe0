//! `Guard`: compares accesses with what held parts have locked, and notes those of a part.
//!
//! ```text
//!   Guard::local ── over(store) ── commit ──► committed        (or `Held`: an access met a lock)
//!   Guard::part  ── over(store) ── commit ──► set aside, its locks noted ── into_part ──► Part
//! ```
//!
//! A local transaction only looks: it holds nothing when it has ended. A part of a transaction over several islands
//! notes what it reads; what it writes follows from its undo notes. An access that meets a lock fails with
//! [`Error::Held`], and the transaction does not commit, even if its procedure goes on; undoing it is for the caller,
//! as after any error.
//!
//! What is locked for what:
//!
//! | call | is compared with, and notes |
//! |---|---|
//! | look-up, found or not | the key, to read it |
//! | scan | the keys from the range's beginning to where the visitor stopped, to read them |
//! | next rows of a cursor | the keys from where it was to where it is, and the rows, to read them |
//! | all rows of a table, their number | the table, to read it |
//! | pin | the row, to read it; of many rows the table |
//! | update, value set, deletion | the row, to write it; its table, to change something within |
//! | creation | the table, to change something within |
//! | entry inserted or removed | the key, to write it; where several rows may have it, to change something within |
//!
//! Not here: the calls themselves (`guarded.rs`), which locks exclude each other (`locks.rs`), waiting.

use std::cell::{Cell, RefCell};

use super::lock::{Lock, Mode, Noted, edge};
use super::locks::Locks;
use super::set_aside::mode_of_entries;
use super::{Access, Guarded, Part, Witness};
use crate::error::{Error, Result};
use crate::key::{IndexType, KEY_BYTES_MAX};
use crate::memory::MemoryStore;
use crate::memory::btree::Position;
use crate::memory::cursor::Cursor;
use crate::memory::index::{is_packed, normalise};
use crate::memory::rows::FoundRow;
use crate::memory::undo::Undo;
use crate::owner::Owner;
use crate::profile::MemoryProfile;
use crate::row::RowId;
use crate::store::{Index, Phase, Store, Table, TableType};

/// What the transactions of a memory store are compared with while parts are held. See the module's head.
#[derive(Debug)]
pub struct Guard<'g> {
    locks: &'g Locks,
    /// Whether it has nothing to compare and notes nothing.
    pub(super) is_idle: bool,
    /// An owner of a lock that the open transaction met. Of calls that read through `&self`, as all that follows
    /// is; nothing is borrowed while code of the caller runs.
    met: Cell<Option<Owner>>,
    /// What the transaction reads, if that is to be locked.
    reads: Option<RefCell<Noted>>,
    part: RefCell<Option<Part>>,
    /// Sees the rows that transactions access.
    pub(super) witness: Option<&'g dyn Witness>,
    /// A normalised key.
    key: RefCell<Vec<u8>>,
    /// Memory for the edges of a range.
    pub(super) edges: RefCell<(Vec<u8>, Vec<u8>)>,
}

impl<'g> Guard<'g> {
    /// For local transactions, which commit.
    pub fn local(locks: &'g Locks) -> Self {
        Self::new(locks, None)
    }

    /// For the part of a transaction over several islands, which is set aside where it would commit.
    pub fn part(locks: &'g Locks) -> Self {
        Self::new(locks, Some(RefCell::default()))
    }

    fn new(locks: &'g Locks, reads: Option<RefCell<Noted>>) -> Self {
        let (met, part, key) = (Cell::new(None), RefCell::default(), RefCell::default());
        let is_idle = locks.is_empty() && reads.is_none();
        Self { locks, is_idle, met, reads, part, witness: None, key, edges: RefCell::default() }
    }

    /// A store whose transactions this guards.
    pub fn over<'s, P: MemoryProfile>(&'s self, store: &'s mut MemoryStore<P>) -> Guarded<'s, P> {
        const { assert!(P::Undo::KEEPS, "a transaction that meets a lock is undone") };
        Guarded { store, guard: self }
    }

    /// The part that was set aside last, if the transaction got so far.
    pub fn into_part(self) -> Option<Part> {
        self.part.into_inner()
    }

    /// A transaction of which a part is held, if there is one.
    pub fn holder(&self) -> Option<Owner> {
        self.locks.owners().next()
    }

    /// Whether transactions are set aside where they would commit.
    pub fn is_of_part(&self) -> bool {
        self.reads.is_some()
    }

    /// Whether it has nothing to compare and notes nothing, so that the store itself may be called.
    #[inline]
    pub const fn is_idle(&self) -> bool {
        self.is_idle
    }

    /// An owner of a lock that the last transaction met, which then has not committed.
    pub fn met(&self) -> Option<Owner> {
        self.met.get()
    }

    /// Fails if the open transaction met a lock.
    pub(super) fn unless_met(&self) -> Result<()> {
        self.met.get().map_or(Ok(()), |owner| Err(Error::Held { owner }))
    }

    /// A transaction is to begin on the store. One that has a preface goes on.
    pub(super) fn begin<P: MemoryProfile>(&self, store: &MemoryStore<P>) {
        if store.phase() != Phase::Idle {
            return;
        }
        self.met.set(None);
        *self.part.borrow_mut() = None;
        if let Some(reads) = &self.reads {
            reads.borrow_mut().clear();
        }
    }

    /// Ends the transaction: a local one commits, a part is set aside.
    pub(super) fn end<P: MemoryProfile>(&self, store: &mut MemoryStore<P>) -> Result<()> {
        self.unless_met()?;
        let Some(reads) = &self.reads else { return store.commit() };
        let mut noted = reads.borrow_mut();
        let (changes, created) = store.set_aside_noting(&mut |lock| noted.note(lock))?;
        // The slot of a row that was created is free again.
        let is_gone = |lock: &Lock<'_>| match *lock {
            Lock::Row { table, row, .. } => created.binary_search(&(table, row)).is_ok(),
            _ => false,
        };
        let locks = noted.locks(is_gone);
        *self.part.borrow_mut() = Some(Part { changes, locks });
        Ok(())
    }

    /// Fails if a held part excludes an access.
    #[inline]
    fn admit(&self, access: &Lock<'_>) -> Result<()> {
        if self.is_idle {
            return Ok(());
        }
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

    /// Admits the reading of a row, by the id that the store's own calls know.
    ///
    /// # Errors
    /// `Held`.
    #[inline]
    pub fn admit_row<P: MemoryProfile, R: TableType>(
        &self,
        store: &MemoryStore<P>,
        table: &Table<R>,
        row: RowId,
    ) -> Result<()> {
        self.admit_slot(table.position(), row, Mode::Read)?;
        self.see(store, Access::Read, table.position(), row);
        Ok(())
    }

    /// A row of the table at a position, in the mode `mode`.
    #[inline]
    fn admit_slot(&self, table: usize, row: RowId, mode: Mode) -> Result<()> {
        if self.is_idle {
            return Ok(());
        }
        // An id of another store names no row here.
        let Ok(row) = u32::try_from(row.location()) else { return Ok(()) };
        let table = table as u32;
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
    pub(super) fn admit_change<R: TableType>(&self, table: &Table<R>, row: RowId) -> Result<()> {
        self.admit_slot(table.position(), row, Mode::Write)?;
        self.admit_creation(table)
    }

    /// A row that is created.
    #[inline]
    pub(super) fn admit_creation<R: TableType>(&self, table: &Table<R>) -> Result<()> {
        self.admit(&Lock::Table { table: table.position() as u32, mode: Mode::ChangeWithin })
    }

    /// Admits the reading of a table as a whole.
    ///
    /// # Errors
    /// `Held`.
    #[inline]
    pub fn admit_table<R: TableType>(&self, table: &Table<R>) -> Result<()> {
        self.admit_read(&Lock::Table { table: table.position() as u32, mode: Mode::Read })
    }

    /// Admits a visit of all rows of a table.
    ///
    /// # Errors
    /// `Held`.
    #[inline]
    pub fn admit_rows<P: MemoryProfile, R: TableType>(
        &self,
        store: &MemoryStore<P>,
        table: &Table<R>,
    ) -> Result<()> {
        self.admit_table(table)?;
        self.see_table(store, table);
        Ok(())
    }

    /// A key, in the mode `mode`; with `is_read`, its reading is noted. A key that no row can have needs no lock.
    #[inline]
    fn admit_key<I: IndexType>(
        &self,
        index: &Index<I>,
        key: I::Key<'_>,
        mode: Mode,
        is_read: bool,
    ) -> Result<()> {
        if self.is_idle {
            return Ok(());
        }
        let (packed, normalised);
        let key: &[u8] = if is_packed(index) {
            let Some(key) = I::pack(index.shape(), key) else { return Ok(()) };
            packed = key.to_be_bytes();
            &packed
        } else {
            let mut bytes = self.key.borrow_mut();
            if !normalise(index, key, &mut bytes) {
                return Ok(());
            }
            normalised = bytes;
            &normalised
        };
        let index = index.position() as u32;
        self.admit(&Lock::Key { index, key, mode })?;
        if is_read {
            self.note(&Lock::Key { index, key, mode: Mode::Read });
        }
        Ok(())
    }

    /// Admits a look-up.
    ///
    /// # Errors
    /// `Held`.
    #[inline]
    pub fn admit_look_up<I: IndexType>(&self, index: &Index<I>, key: I::Key<'_>) -> Result<()> {
        self.admit_key(index, key, Mode::Read, true)
    }

    /// An entry that comes or goes. That a key was free is seen where no two rows have it.
    #[inline]
    pub(super) fn admit_entry<I: IndexType>(
        &self,
        index: &Index<I>,
        key: I::Key<'_>,
    ) -> Result<()> {
        let is_unique = I::unique(index.shape());
        self.admit_key(index, key, mode_of_entries(is_unique), is_unique)
    }

    /// The keys of an index between two places, which are read.
    pub(super) fn admit_range(
        &self,
        index: usize,
        lower: Position<'_>,
        upper: Position<'_>,
    ) -> Result<()> {
        let (lower, upper) = locked(lower, upper);
        self.admit_read(&Lock::Range { index: index as u32, lower, upper })
    }

    /// [`MemoryStore::advance`]. The rows may not be used if it fails.
    ///
    /// # Errors
    /// `Held`.
    pub fn advance<'s, P: MemoryProfile, R>(
        &self,
        store: &'s MemoryStore<P>,
        cursor: &mut Cursor,
        most: usize,
        mut visit: impl FnMut(FoundRow<'s, R>),
    ) -> Result<()> {
        let (before, index) = (cursor.clone(), cursor.index());
        let mut slots = Vec::new();
        store.advance(cursor, most, |(id, row)| {
            slots.push(id.location() as u32);
            visit((id, row));
        });
        let Some((lower, upper)) = before.passed(cursor) else { return Ok(()) };
        let (lower, entries) = (lower.position(), &store.indexes[index]);
        // An edge may be an entry with its row's slot: other rows have its key, too, which lies in front of it.
        let key_bytes = edge(lower).0.len().checked_sub(size_of::<u32>());
        if let Some(bytes) = key_bytes.filter(|_| !entries.unique) {
            let (index, key) = (index as u32, &edge(lower).0[..bytes]);
            self.admit_read(&Lock::Key { index, key, mode: Mode::Read })?;
        }
        self.admit_range(index, lower, upper.position())?;
        let mut rows = slots.into_iter().map(|slot| RowId::new(slot.into()));
        rows.try_for_each(|row| {
            self.see(store, Access::Scanned, entries.table, row);
            self.admit_slot(entries.table, row, Mode::Read)
        })
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
