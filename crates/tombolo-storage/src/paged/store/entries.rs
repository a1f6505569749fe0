//! Index entries, as a session looks them up and inserts them (LG-15).
//!
//! Invariant: an entry is only taken as it is by who holds its row's lock. A locked row is left,
//! waited for without a latch, and its entry looked for again. Not here: the tree, keys, scans
//! (`calls.rs`).

use std::ops::ControlFlow;

use super::calls::change;
use super::database::{Database, IndexStore, StructureLog};
use super::transaction::Session;
use crate::error::{Error, Result};
use crate::key::IndexType;
use crate::lock::{LockError, Mode};
use crate::log::{ChangeKind, Logging};
use crate::paged::btree::{Inserted, KeyFormat, Meet, Position};
use crate::paged::page::StoreId;
use crate::profile::PagedProfile;
use crate::row::RowId;
use crate::store::{Index, Order};

/// What is shown the entries of a scan: key, row, whether deleted.
pub(super) type Visitor<'a> = &'a mut dyn FnMut(&[u8], RowId, bool) -> ControlFlow<()>;

/// How a look at entries ended.
enum Seen {
    /// With this row, locked.
    Row(RowId),
    /// There is none.
    Nothing,
    /// At a row that another transaction has locked.
    Blocked(RowId),
    /// With a lock that cannot be had at all.
    Refused(LockError),
}

impl<P: PagedProfile> Session<P> {
    /// Finds the row of `key` and locks it.
    #[inline(always)]
    pub(super) fn find<I: IndexType>(
        &mut self,
        database: &Database<P>,
        index: &Index<I>,
        key: I::Key<'_>,
        mode: Mode,
    ) -> Result<Option<RowId>> {
        self.note(database, false);
        let store = database.index(index);
        if !P::Keys::encode::<I>(index.shape(), key, &mut self.key) {
            return Ok(None);
        }
        self.find_encoded(database, store, mode)
    }

    /// Finds the row of `self.key` and locks it.
    #[inline(never)]
    fn find_encoded(
        &self,
        database: &Database<P>,
        store: &IndexStore<P>,
        mode: Mode,
    ) -> Result<Option<RowId>> {
        loop {
            match self.look(database, store, mode)? {
                Seen::Row(row) => return Ok(Some(row)),
                Seen::Nothing => return Ok(None),
                Seen::Blocked(row) => self.lock(database, store.table_store, row, mode)?,
                Seen::Refused(error) => return Err(self.refused(error)),
            }
        }
    }

    /// The first row under `self.key` that is there, locked, or why not.
    #[inline(always)]
    fn look(&self, database: &Database<P>, store: &IndexStore<P>, mode: Mode) -> Result<Seen> {
        let mut seen = Seen::Nothing;
        store.tree.find(&database.pages, &self.key, |row, deleted| {
            match self.try_lock(database, store.table_store, row, mode) {
                // A ghost whose lock we get is our own: others hold it until the ghost is gone.
                Ok(()) if deleted => return ControlFlow::Continue(()),
                Ok(()) => seen = Seen::Row(row),
                Err(LockError::Unavailable) => seen = Seen::Blocked(row),
                Err(error) => seen = Seen::Refused(error),
            }
            ControlFlow::Break(())
        })?;
        Ok(seen)
    }

    /// Visits the rows between two positions, each locked before it is visited.
    #[inline(never)]
    pub(super) fn scan(
        &self,
        database: &Database<P>,
        store: &IndexStore<P>,
        [lower, upper]: [Position<'_>; 2],
        order: Order,
        visit: &mut dyn FnMut(RowId) -> ControlFlow<()>,
    ) -> Result<()> {
        // Where the scan goes on after it waited: at the entry it waited for.
        let mut at: Option<(Vec<u8>, RowId)> = None;
        loop {
            let resume = at.as_ref().map(|(key, row)| Position::At(key, *row));
            let (from, to) = match (resume, order) {
                (None, _) => (lower, upper),
                (Some(at), Order::Forward) => (at, upper),
                (Some(at), Order::Backward) => (lower, at),
            };
            let mut blocked = None;
            let mut refused = None;
            // Without its type, as the checker's: a tree's scan is compiled once.
            let entry: Visitor<'_> = &mut |key, row, deleted| {
                match self.try_lock(database, store.table_store, row, Mode::Shared) {
                    Ok(()) if deleted => return ControlFlow::Continue(()),
                    Ok(()) => return visit(row),
                    Err(LockError::Unavailable) => blocked = Some((key.to_vec(), row)),
                    Err(error) => refused = Some(error),
                }
                ControlFlow::Break(())
            };
            store.tree.scan(&database.pages, from, to, order, entry)?;
            if let Some(error) = refused {
                return Err(self.refused(error));
            }
            let Some((_, row)) = blocked else { return Ok(()) };
            self.lock(database, store.table_store, row, Mode::Shared)?;
            at = blocked;
        }
    }

    /// Whether another transaction has to be waited for before `row` may be taken as it is; told
    /// of entries that a new one meets in a unique index.
    fn meet(&self, database: &Database<P>, store: StoreId, row: RowId, deleted: bool) -> Meet {
        match self.try_lock(database, store, row, Mode::Shared) {
            Ok(()) if deleted => Meet::Pass,
            Ok(()) => Meet::Duplicate,
            Err(_) => Meet::Wait,
        }
    }

    /// Inserts the entry of `row` under `self.key`.
    #[inline(never)]
    pub(super) fn insert_entry(
        &mut self,
        database: &Database<P>,
        position: u32,
        store: &IndexStore<P>,
        row: RowId,
    ) -> Result<()> {
        let key = std::mem::take(&mut self.key);
        let inserted = loop {
            let mut log = std::mem::take(&mut self.log);
            let noted = |place| {
                let change = change(ChangeKind::EntryInserted, store.store, place, row);
                database.log.change(&mut log, change, &[], &key)
            };
            let meet = |row, deleted| self.meet(database, store.table_store, row, deleted);
            let structure = StructureLog(database);
            let inserted = store.tree.insert(&database.pages, &key, row, meet, noted, &structure);
            self.log = log;
            match inserted {
                Ok(Inserted::Done) => break Ok(()),
                Ok(Inserted::Duplicate) => break Err(Error::Duplicate { index: position }),
                Ok(Inserted::Wait(other)) => {
                    if let Err(error) = self.lock(database, store.table_store, other, Mode::Shared)
                    {
                        break Err(error);
                    }
                }
                Err(error) => break Err(error),
            }
        };
        self.key = key;
        inserted
    }

    /// Takes the mark off an entry that the transaction had deleted. It counts as inserted again:
    /// undo removes it, and then finds that the entry it deleted is not there to be revived.
    pub(super) fn revive_entry(
        &mut self,
        database: &Database<P>,
        store: &IndexStore<P>,
        row: RowId,
    ) -> Result<()> {
        let (log, key) = (&mut self.log, &self.key);
        let revived = store.tree.set_deleted(&database.pages, key, row, false, |place| {
            let change = change(ChangeKind::EntryInserted, store.store, place, row);
            database.log.change(log, change, &[], key)
        })?;
        assert!(revived, "a ghost of this transaction is gone");
        Ok(())
    }
}
