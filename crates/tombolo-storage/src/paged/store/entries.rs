//! Index entries, as a session looks them up and inserts them (LG-15).
//!
//! Invariant: only a session that holds the row's lock takes an entry as it is. A locked row is
//! left, waited for without a latch, and its entry looked for again. Not here: the tree, keys,
//! scans (`calls.rs`).

use std::ops::ControlFlow;

use super::database::{Database, IndexStore, StructureLog, change};
use super::isolation::GapLocks;
use super::transaction::Session;
use crate::error::{Error, Result};
use crate::key::IndexType;
use crate::lock::{LockError, Locking, Mode};
use crate::log::{ChangeKind, Logging};
use crate::paged::btree::{GapEnd, Gaps, Inserted, KeyFormat, LeafHint, Position, RunEntry};
use crate::paged::heap::{Place, RowFile};
use crate::paged::pool::PageAccess;
use crate::profile::PagedProfile;
use crate::row::RowId;
use crate::store::{Index, Order};

/// What is shown the entries of a scan: key, row, whether deleted.
pub(super) type Visitor<'a> = &'a mut dyn FnMut(&[u8], RowId, bool) -> ControlFlow<()>;

/// How a look at entries ended: at this row, locked, or with why it could not be; or there is none.
type Seen = Option<(RowId, Result<(), LockError>)>;

/// What of a leaf is asked for before it is searched besides its header: its first slots. Which slot is looked at
/// next, only they say.
const SEARCHED_FIRST: usize = 64;

/// Stored keys that are looked up or inserted together, and the leaf of each; reused from call to call.
#[derive(Debug, Default)]
pub(super) struct Probes {
    bytes: Vec<u8>,
    /// Where each key ends, and its leaf; no leaf for a key that no index has.
    ends: Vec<(usize, Option<LeafHint>)>,
}

impl Probes {
    #[inline(always)]
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Adds the key that `encode` appends, and what an index has to know of it; nothing if it has no stored form.
    #[inline(always)]
    pub(super) fn push(
        &mut self,
        encode: impl FnOnce(&mut Vec<u8>) -> bool,
        hint_of: impl FnOnce(&[u8]) -> LeafHint,
    ) -> bool {
        let start = self.bytes.len();
        let has_form = encode(&mut self.bytes);
        if has_form {
            let hint = hint_of(&self.bytes[start..]);
            self.ends.push((self.bytes.len(), Some(hint)));
        } else {
            self.bytes.truncate(start);
        }
        has_form
    }

    /// How many keys there are.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    #[inline(always)]
    fn find_leaves<E>(
        &mut self,
        mut leaf_of: impl FnMut(&[u8]) -> Result<LeafHint, E>,
    ) -> Result<(), E> {
        let mut start = 0;
        for (end, leaf) in &mut self.ends {
            if let Some(leaf) = leaf {
                *leaf = leaf_of(&self.bytes[start..*end])?;
            }
            start = *end;
        }
        Ok(())
    }

    #[inline(always)]
    fn iter(&self) -> impl Iterator<Item = Option<(&[u8], LeafHint)>> + Clone {
        self.iter_from(0)
    }

    /// The keys from the one at `at` on.
    #[inline(always)]
    fn iter_from(&self, at: usize) -> impl Iterator<Item = Option<(&[u8], LeafHint)>> + Clone {
        let mut start = if at == 0 { 0 } else { self.ends[at - 1].0 };
        self.ends[at..].iter().map(move |&(end, leaf)| {
            let key = &self.bytes[start..end];
            start = end;
            leaf.map(|leaf| (key, leaf))
        })
    }
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
        match I::unique(index.shape()) {
            true => self.find_encoded::<true>(database, store, &self.key, mode),
            false => self.find_encoded::<false>(database, store, &self.key, mode),
        }
    }

    /// Finds the rows of several keys and locks them; the memory that each look-up needs is asked
    /// for while the others are at work.
    #[inline(always)]
    pub(super) fn find_many<I: IndexType>(
        &mut self,
        database: &Database<P>,
        index: &Index<I>,
        keys: &[I::Key<'_>],
        mode: Mode,
        found: &mut [Option<RowId>],
    ) -> Result<()> {
        assert_eq!(keys.len(), found.len());
        self.note(database, false);
        let store = database.index(index);
        self.probes.clear();
        for key in keys {
            let encode = |bytes: &mut Vec<u8>| P::Keys::append::<I>(index.shape(), *key, bytes);
            if !self.probes.push(encode, |_| LeafHint::default()) {
                self.probes.ends.push((self.probes.bytes.len(), None));
            }
        }
        match I::unique(index.shape()) {
            true => self.find_probes::<true>(database, store, mode, found),
            false => self.find_probes::<false>(database, store, mode, found),
        }
    }

    /// Finds the rows of `self.probes` and locks them.
    #[inline(never)]
    fn find_probes<const UNIQUE: bool>(
        &mut self,
        database: &Database<P>,
        store: &IndexStore<P>,
        mode: Mode,
        found: &mut [Option<RowId>],
    ) -> Result<()> {
        let (mut root, routes) = (None, self.routes.get_mut());
        self.probes.find_leaves(|key| {
            let leaf = store.tree.leaf_of(&database.pages, routes, &mut root, key)?;
            database.pages.prefetch(leaf.leaf, SEARCHED_FIRST, (0, 0));
            Ok::<_, Error>(leaf)
        })?;
        drop(root);
        database.pages.fetch(self.probes.iter().flatten().map(|(_, leaf)| leaf.leaf));
        let gaps = GapLocks::of(&self.held, database, store, self.isolation);
        for (found, probe) in found.iter_mut().zip(self.probes.iter()) {
            *found = match probe {
                Some((key, leaf)) => {
                    let seen =
                        self.look::<UNIQUE>(database, store, &gaps, (key, Some(leaf)), mode)?;
                    self.row_seen::<UNIQUE>(database, store, key, seen, mode)?
                }
                None => None,
            };
        }
        let rows = &database.tables[store.table].rows;
        rows.fetch(&database.pages, found.iter().flatten().copied());
        Ok(())
    }

    /// Finds the row of a key and locks it.
    #[inline(never)]
    fn find_encoded<const UNIQUE: bool>(
        &self,
        database: &Database<P>,
        store: &IndexStore<P>,
        key: &[u8],
        mode: Mode,
    ) -> Result<Option<RowId>> {
        let gaps = GapLocks::of(&self.held, database, store, self.isolation);
        let seen = self.look::<UNIQUE>(database, store, &gaps, (key, None), mode)?;
        self.row_seen::<UNIQUE>(database, store, key, seen, mode)
    }

    /// The row of a key that was looked for, locked; waits for it and looks again if need be.
    #[inline(always)]
    fn row_seen<const UNIQUE: bool>(
        &self,
        database: &Database<P>,
        store: &IndexStore<P>,
        key: &[u8],
        seen: Seen,
        mode: Mode,
    ) -> Result<Option<RowId>> {
        match seen {
            Some((row, Ok(()))) => {
                self.end_read(database, row);
                Ok(Some(row))
            }
            None => Ok(None),
            // Another transaction has it locked.
            Some((row, Err(LockError::Unavailable))) => {
                self.wait_and_find::<UNIQUE>(database, store, key, row, mode)
            }
            Some((_, Err(error))) => Err(self.refused(error)),
        }
    }

    /// Waits for a row of a key, then finds the key's row, which may be another one.
    #[cold]
    #[inline(never)]
    fn wait_and_find<const UNIQUE: bool>(
        &self,
        database: &Database<P>,
        store: &IndexStore<P>,
        key: &[u8],
        row: RowId,
        mode: Mode,
    ) -> Result<Option<RowId>> {
        let mut row = row;
        loop {
            self.lock(database, store.table_store, row, mode)?;
            let gaps = GapLocks::of(&self.held, database, store, self.isolation);
            match self.look::<UNIQUE>(database, store, &gaps, (key, None), mode)? {
                Some((next, Err(LockError::Unavailable))) => row = next,
                seen => return self.row_seen::<UNIQUE>(database, store, key, seen, mode),
            }
        }
    }

    /// The first row under a key that is there, locked, or why not.
    #[inline(always)]
    fn look<const UNIQUE: bool>(
        &self,
        database: &Database<P>,
        store: &IndexStore<P>,
        gaps: &GapLocks<'_, P>,
        (key, leaf): (&[u8], Option<LeafHint>),
        mode: Mode,
    ) -> Result<Seen> {
        let mut seen = None;
        let mut visit = |row, deleted| {
            let locked = self.try_lock(database, store.table_store, row, mode);
            if locked.is_ok() {
                // Rows with the same key may come before it.
                if P::Locks::LOCKS && !UNIQUE {
                    gaps.read(|| GapEnd::below(key, row));
                }
                // A ghost whose lock we get is our own: others hold it until the ghost is gone.
                if deleted {
                    return ControlFlow::Continue(());
                }
            }
            seen = Some((row, locked));
            ControlFlow::Break(())
        };
        let pages = &database.pages;
        let is_seen = match leaf {
            Some(leaf) => store.tree.find_in(pages, leaf, key, &mut visit, gaps)?,
            None => false,
        };
        if !is_seen {
            store.tree.find(pages, &mut self.routes.borrow_mut(), key, &mut visit, gaps)?;
        }
        match gaps.refused() {
            None => Ok(seen),
            Some(error) => Err(self.refused(error)),
        }
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
        let gaps = GapLocks::of(&self.held, database, store, self.isolation);
        // Where the scan continues after it waited: behind the row it returned last.
        let mut behind: Option<(Vec<u8>, RowId)> = None;
        loop {
            let resume = behind.as_ref().map(|(key, row)| Position::At(key, *row));
            let (from, to) = match (resume, order) {
                (None, _) => (lower, upper),
                (Some(at), Order::Forward) => (at, upper),
                (Some(at), Order::Backward) => (lower, at),
            };
            let (mut returned, mut blocked, mut refused) = (None, None, None);
            // Without its type, as the checker's: a tree's scan is compiled once.
            let entry: Visitor<'_> = &mut |key, row, deleted| {
                match self.try_lock(database, store.table_store, row, Mode::Shared) {
                    Ok(()) => {
                        if P::Locks::LOCKS {
                            gaps.read_beside(key, row, order);
                        }
                        if deleted {
                            return ControlFlow::Continue(());
                        }
                        self.end_read(database, row);
                        returned = Some(row);
                        return visit(row);
                    }
                    Err(LockError::Unavailable) => blocked = Some((key.to_vec(), row)),
                    Err(error) => refused = Some(error),
                }
                ControlFlow::Break(())
            };
            store.tree.scan(&database.pages, from, to, order, entry, &gaps)?;
            if let Some(error) = refused.or(gaps.refused()) {
                return Err(self.refused(error));
            }
            let Some((key, row)) = blocked else { return Ok(()) };
            if let Some(returned) = returned {
                let at = Position::At(&key, row);
                behind = Some(self.behind(database, store, at, order, returned)?);
            }
            self.lock(database, store.table_store, row, Mode::Shared)?;
        }
    }

    /// The place next to the entry of `row`, which a scan returned on its way to the entry at `at`.
    /// The row is locked, so its entry is there still.
    #[cold]
    fn behind(
        &self,
        database: &Database<P>,
        store: &IndexStore<P>,
        at: Position<'_>,
        order: Order,
        row: RowId,
    ) -> Result<(Vec<u8>, RowId)> {
        let mut found = None;
        let entry: Visitor<'_> = &mut |key, other, deleted| {
            if other != row || deleted {
                return ControlFlow::Continue(());
            }
            found = Some(key.to_vec());
            ControlFlow::Break(())
        };
        let (pages, open) = (&database.pages, Position::Open);
        let next = match order {
            Order::Forward => {
                store.tree.scan(pages, open, at, Order::Backward, entry, &())?;
                row.location() + 1
            }
            Order::Backward => {
                store.tree.scan(pages, at, open, Order::Forward, entry, &())?;
                row.location() - 1
            }
        };
        Ok((found.expect("the entry of a row that is locked is there"), RowId::new(next)))
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
        loop {
            let Self { log, key, held, isolation, last_insertions, .. } = &mut *self;
            let noted = |place| {
                let change = change(ChangeKind::EntryInserted, store.store, place, row);
                database.log.change_apart(log, change, &[], key)
            };
            let mut gaps = GapLocks::of(held, database, store, *isolation);
            let (pages, structure) = (&database.pages, StructureLog(database));
            let last = &mut last_insertions[position as usize];
            match store.tree.insert(pages, (key, row), last, &mut gaps, noted, &structure)? {
                Inserted::Done => return Ok(()),
                Inserted::Duplicate => return Err(Error::Duplicate { index: position }),
                Inserted::Marked => return self.revive_entry(database, store, row),
                Inserted::Gap(gap) => {
                    let entered = gaps.refused().map_or_else(|| gaps.wait(gap), Err);
                    entered.map_err(|error| self.refused(error))?;
                }
                Inserted::Wait(other) => {
                    self.lock(database, store.table_store, other, Mode::Shared)?;
                }
            }
        }
    }

    /// Inserts the entries of rows under the keys of `self.probes`, which ascend.
    #[inline(never)]
    pub(super) fn insert_entries(
        &mut self,
        database: &Database<P>,
        position: u32,
        store: &IndexStore<P>,
        rows: &[RowId],
    ) -> Result<()> {
        let mut done = 0;
        while let Some(row) = rows.get(done) {
            self.key.clear();
            if let Some(Some((key, _))) = self.probes.iter_from(done).next() {
                self.key.extend_from_slice(key);
            }
            self.insert_entry(database, position, store, *row)?;
            done += 1;
            done += self.insert_behind(database, position, store, (done, &rows[done..]))?;
        }
        Ok(())
    }

    /// Inserts those of the next rows, whose keys are those of `self.probes` from `done` on, that come one behind the
    /// other into the leaf of the entry before; returns how many.
    #[inline(always)]
    fn insert_behind(
        &mut self,
        database: &Database<P>,
        position: u32,
        store: &IndexStore<P>,
        (done, rows): (usize, &[RowId]),
    ) -> Result<usize> {
        let Self { log, probes, held, isolation, last_insertions, .. } = &mut *self;
        let keys = probes.iter_from(done).map_while(|key| key);
        let run = keys.zip(rows).map(|((key, hint), &row)| RunEntry { key, row, hint });
        let noted = |first: Place, count| {
            let entries = run.clone().take(count).enumerate();
            let changes = entries.map(|(at, entry)| {
                let place = Place { slot: first.slot + at as u16, ..first };
                (change(ChangeKind::EntryInserted, store.store, place, entry.row), entry.key)
            });
            database.log.changes(log, changes)
        };
        let gaps = GapLocks::of(held, database, store, *isolation);
        let last = &mut last_insertions[position as usize];
        store.tree.insert_behind(&database.pages, run.clone(), last, &gaps, noted)
    }

    /// Takes the mark off the entry of `row` under `self.key` that the transaction had deleted.
    fn revive_entry(
        &mut self,
        database: &Database<P>,
        store: &IndexStore<P>,
        row: RowId,
    ) -> Result<()> {
        let Self { log, key, .. } = self;
        let revived = store.tree.set_deleted(&database.pages, key, row, false, |place| {
            let change = change(ChangeKind::EntryRevived, store.store, place, row);
            database.log.change_apart(log, change, &[], key)
        })?;
        assert!(revived, "a ghost of this transaction is gone");
        Ok(())
    }
}
