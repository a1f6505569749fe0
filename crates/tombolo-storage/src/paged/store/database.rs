//! What the sessions of a paged database share: pages, log, locks, directory, and the tables and
//! indexes in them.
//!
//! Not here: transactions (`transaction.rs`), calls (`calls.rs`). Invariant: tables and indexes
//! change only while there is one session, so calls reach them without a latch.

use std::sync::OnceLock;

use super::catalogue::{self, StoredTable};
use super::checkpoint::Checkpoints;
use super::directory::Directory;
use super::error::OpenError;
use super::isolation::Isolation;
use super::prepared::PreparedSessions;
use super::rows::RowAccess;
use super::settings::PagedSettings;
use crate::error::{Error, Result, SchemaError};
use crate::homes::Home;
use crate::key::{IndexShape, IndexType};
use crate::lock::Locking;
use crate::log::{Change, ChangeKind, Logging};
use crate::paged::btree::{BTree, KeyShape, Structure};
use crate::paged::heap::{Place, RowFile, RowLayout, Stamp};
use crate::paged::page::{PageSize, StoreId};
use crate::paged::pool::{PageAccess, PageError, PageFailure, Result as PageResult, SpaceStep};
use crate::paged::step::Step;
use crate::profile::PagedProfile;
use crate::row::RowId;
use crate::schema::{IndexKind, Schema, TableDef};
use crate::store::{Index, Table, TableType};
use crate::sync::{AtomicU32, Ordering};

/// How rows are kept in profile `P`.
pub(super) type RowsOf<P> =
    <<P as PagedProfile>::Pages as RowAccess<<<P as PagedProfile>::Log as Logging>::Ahead>>::Rows;
/// How entries are kept in it.
pub(super) type TreeOf<P> = BTree<<P as PagedProfile>::Pages, <P as PagedProfile>::Keys>;

/// The rows of one table.
pub(super) struct TableStore<P: PagedProfile> {
    /// Its number: what its rows are locked and logged under.
    pub(super) store: StoreId,
    pub(super) rows: RowsOf<P>,
    /// Bytes of a row's columns at full width.
    pub(super) raw_row_bytes: usize,
    /// The column by which its rows are spread over several databases, if they are.
    pub(super) home: Option<Home>,
}

/// One index.
pub(super) struct IndexStore<P: PagedProfile> {
    pub(super) store: StoreId,
    pub(super) tree: TreeOf<P>,
    /// Its table's position.
    pub(super) table: usize,
    /// Its table's number, under which rows are locked.
    pub(super) table_store: StoreId,
    pub(super) shape: IndexShape,
    /// Positions of its columns in the table.
    pub(super) columns: Vec<usize>,
    pub(super) raw_key_bytes: usize,
    /// Whether it may be scanned: the trees here could, but what a schema declares as a hash index
    /// is one on every store.
    pub(super) is_ordered: bool,
}

/// What a store number stands for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Owner {
    /// The table at this position.
    Table(usize),
    /// The index at this position.
    Index(usize),
}

/// What sessions share.
pub(super) struct Database<P: PagedProfile> {
    pub(super) pages: P::Pages,
    pub(super) log: P::Log,
    pub(super) locks: P::Locks,
    pub(super) directory: P::Directory,
    pub(super) sessions: P::Sessions,
    pub(super) tables: Vec<TableStore<P>>,
    pub(super) indexes: Vec<IndexStore<P>>,
    pub(super) schema: Schema,
    /// By store number.
    pub(super) owners: Vec<Owner>,
    /// Sessions opened so far: spreads them over lanes of the heap files.
    lanes: AtomicU32,
    /// Sessions that are open.
    open_sessions: AtomicU32,
    /// What transactions of new sessions are promised.
    pub(super) isolation: Isolation,
    pub(super) checkpoints: Checkpoints<P::Latching>,
    pub(super) prepared: PreparedSessions<P>,
    poisoned: OnceLock<&'static str>,
}

impl<P: PagedProfile> Database<P> {
    /// Without tables.
    pub(super) fn new(pages: P::Pages, log: P::Log, settings: &PagedSettings) -> Self {
        let checkpoints = Checkpoints::new(&log, settings.checkpoint_log_bytes);
        Self {
            pages,
            log,
            checkpoints,
            locks: P::Locks::new(settings.locks),
            directory: P::Directory::default(),
            sessions: P::Sessions::default(),
            tables: Vec::new(),
            indexes: Vec::new(),
            schema: Schema::default(),
            owners: Vec::new(),
            lanes: AtomicU32::new(0),
            open_sessions: AtomicU32::new(0),
            isolation: settings.isolation,
            prepared: PreparedSessions::new(settings.prepared_max),
            poisoned: OnceLock::new(),
        }
    }

    /// Makes the files of a table and its indexes.
    pub(super) fn create_table(&mut self, table: TableDef) -> Result<(), SchemaError> {
        let failed = |error: PageError| SchemaError::new(&table.name, &error.to_string());
        let mut schema = self.schema.clone();
        let position = schema.add(table.clone())?;
        let stores = 1 + table.indexes.len();
        if self.owners.len() + stores > usize::from(u16::MAX) {
            return Err(SchemaError::new(&table.name, "the database has as many stores as it can"));
        }
        let (rows, trees) = self.make_structures(&table).map_err(failed)?;
        let durable = self.log.flush();
        durable.map_err(|error| SchemaError::new(&table.name, &error.to_string()))?;
        self.enter_table(position, &table, rows, trees);
        self.schema = schema;
        self.directory.enter(&self.schema);
        Ok(())
    }

    /// Makes the files of a table and its indexes and enters them in the catalogue: one step.
    fn make_structures(&self, table: &TableDef) -> PageResult<(RowsOf<P>, Vec<TreeOf<P>>)> {
        let store = StoreId(self.owners.len() as u16);
        let mut step = SpaceStep::new(&self.pages);
        let mut pages = Vec::new();
        let made = self.make_in(&mut step, &mut pages, store, table);
        let made = made.and_then(|(rows, trees)| {
            let entry = StoredTable::of::<P>(table, &rows, &trees);
            catalogue::define(self, &mut step, entry, &mut pages).map(|()| (rows, trees))
        });
        made.inspect_err(|_| pages.into_iter().for_each(|page| step.put_back(page)))
    }

    /// Makes empty files; their pages come behind `pages`.
    fn make_in<'a>(
        &'a self,
        step: &mut SpaceStep<'a, P::Pages>,
        pages: &mut Vec<<P::Pages as PageAccess>::Exclusive<'a>>,
        store: StoreId,
        table: &TableDef,
    ) -> PageResult<(RowsOf<P>, Vec<TreeOf<P>>)> {
        let (rows, root) = RowsOf::<P>::make_file(step, store, RowLayout::of(table))?;
        pages.extend(root);
        let mut trees = Vec::new();
        for (at, index) in table.indexes.iter().enumerate() {
            let store = StoreId(store.0 + 1 + at as u16);
            let (tree, root) = BTree::make(step, store, KeyShape::of(table, index))?;
            pages.push(root);
            trees.push(tree);
        }
        Ok((rows, trees))
    }

    /// Takes a table in whose rows and trees are there.
    pub(super) fn enter_table(
        &mut self,
        position: usize,
        table: &TableDef,
        rows: RowsOf<P>,
        trees: Vec<TreeOf<P>>,
    ) {
        let store = StoreId(self.owners.len() as u16);
        self.owners.push(Owner::Table(position));
        let raw_row_bytes = table.raw_row_bytes();
        self.tables.push(TableStore { store, rows, raw_row_bytes, home: None });
        for (index, tree) in table.indexes.iter().zip(trees) {
            let number = StoreId(self.owners.len() as u16);
            self.owners.push(Owner::Index(self.indexes.len()));
            self.indexes.push(IndexStore {
                store: number,
                tree,
                table: position,
                table_store: store,
                shape: IndexShape::of(table, index),
                columns: index.columns.clone(),
                raw_key_bytes: table.raw_key_bytes(index),
                is_ordered: index.kind == IndexKind::Tree,
            });
        }
    }

    /// The table a call means (S7).
    #[inline(always)]
    pub(super) fn table<R: TableType>(&self, table: &Table<R>) -> &TableStore<P> {
        &self.tables[self.directory.table(table.position())]
    }

    /// The index a call means (S7).
    #[inline(always)]
    pub(super) fn index<I: IndexType>(&self, index: &Index<I>) -> &IndexStore<P> {
        &self.indexes[self.directory.index(index.position())]
    }

    /// Which lane a new session fills pages of.
    pub(super) fn next_lane(&self) -> usize {
        // Relaxed, without a partner: any number will do, different ones are better.
        self.lanes.fetch_add(1, Ordering::Relaxed) as usize
    }

    /// Takes a session in, if there are page frames for what it and the others may fix at a time.
    pub(super) fn admit_session(&self) -> Result<(), OpenError> {
        let sessions_max = self.pages.sessions_max();
        // Relaxed, here and below, without a partner: the number orders nothing but itself.
        if (self.open_sessions.fetch_add(1, Ordering::Relaxed) as usize) < sessions_max {
            return Ok(());
        }
        self.dismiss_session();
        Err(OpenError::PoolTooSmall { sessions_max })
    }

    /// Lets go of a session that was taken in.
    pub(super) fn dismiss_session(&self) {
        self.open_sessions.fetch_sub(1, Ordering::Relaxed);
    }

    /// Why every further call fails.
    #[inline(always)]
    pub(super) fn refuse_poisoned(&self) -> Result<()> {
        match self.poisoned.get() {
            None => Ok(()),
            Some(reason) => Err(Error::Poisoned { reason }),
        }
    }

    /// Refuses everything from now on; the first reason stays.
    #[cold]
    pub(super) fn poison(&self, reason: &'static str) {
        let _ = self.poisoned.set(reason);
        self.pages.stop_writing(reason);
        self.locks.shut();
    }

    /// Saves everything. There is no transaction and no other session.
    pub(super) fn close(&mut self) -> Result<(), OpenError> {
        self.refuse_poisoned()?;
        if !RowsOf::<P>::ON_PAGES {
            return Err(OpenError::CannotSave);
        }
        let owners = self.prepared.owners();
        if !owners.is_empty() {
            self.log.flush()?;
            self.checkpoint()?;
            return Err(OpenError::Undecided { owners });
        }
        for table in &self.tables {
            table.rows.save(&self.pages, &StructureLog(self))?;
        }
        catalogue::complete(self)?;
        // No page is written before its log record. The log goes when it is not needed any more, and only
        // then the file counts as closed.
        self.log.flush()?;
        if self.log.unread().is_some() {
            self.pages.space().set_log(self.log.number(), self.log.tail());
        }
        self.pages.flush()?;
        self.log.close()?;
        self.pages.close()
    }
}

/// A change of a whole row or entry, in the form the log takes.
#[inline(always)]
pub(super) fn change(kind: ChangeKind, store: StoreId, place: Place, row: RowId) -> Change {
    Change { kind, store, place, row, within: 0 }
}

/// Logs the pages that a split or a merge touches.
pub(super) struct StructureLog<'a, P: PagedProfile>(pub(super) &'a Database<P>);

impl<P: PagedProfile> Structure for StructureLog<'_, P> {
    const LOGS: bool = P::Log::RECORDS;

    #[inline]
    fn changes<S: PageSize>(&self, step: &Step<'_, S>) -> Result<Stamp> {
        self.0.log.step(step)
    }

    #[cold]
    fn is_left(&self, error: &PageError) {
        let is_full = match error.failure() {
            PageFailure::PoolFull { .. } => true,
            PageFailure::Log(error) => error.is_full(),
            _ => error.is_full(),
        };
        // Where there is no room nothing is wrong with the index.
        if !is_full {
            self.0.poison("an index that became smaller could not give its pages back");
        }
    }
}
