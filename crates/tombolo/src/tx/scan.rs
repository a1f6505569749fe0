//! Rows by ranges of their keys: all together, one by one, in pieces.
//!
//! Not here: single rows (`mod.rs`, `rows.rs`), how a scan continues where it was (storage
//! `memory/cursor.rs`).

use std::fmt;
use std::marker::PhantomData;
use std::ops::ControlFlow;

use tombolo_storage::error::{Error as StoreError, Result as Stored};
use tombolo_storage::key::{Edge, IndexType, Range, WHOLE};
use tombolo_storage::memory::FoundRow;
use tombolo_storage::memory::cursor::Cursor as Scan;
use tombolo_storage::row::RowId;
use tombolo_storage::schema::{DeclaredIndex, DeclaredTable};
use tombolo_storage::store::{Index, Order, Table, TableType};

use super::guarded::{on, while_held};
use super::watch::{Limits, Watch};
use super::{Guards, Of, RowRef, Tx};
use crate::error::Result;
use crate::tx::derived::TableRow;

/// Where a scan in pieces continues: what [`Tx::page`] takes its rows from. It holds no resource, so it may be
/// kept from one transaction to the next. Whether rows that come or go in between are seen depends on their
/// keys.
#[derive(Clone, Debug)]
pub struct Cursor<I> {
    scan: Scan,
    database: u32,
    /// The position of its index.
    position: u32,
    index: PhantomData<fn() -> I>,
}

impl<I> Cursor<I> {
    /// Whether all rows were returned.
    pub fn is_at_end(&self) -> bool {
        self.scan.is_at_end()
    }
}

/// Rows of a range with their ids, one by one. A call that its deadline or its caller ends meanwhile gets
/// no further rows, and its transaction is undone.
pub struct Rows<'t, R> {
    tx: &'t Tx<'t>,
    scan: Scan,
    /// Rows that were found and not returned yet; the next one is last.
    found: Vec<(RowId, RowRef<'t, R>)>,
    /// The number of rows that the next search takes.
    piece: usize,
}

/// The most rows of one search: few at first, for a program that wants one.
const PIECES: (usize, usize) = (4, 64);

impl<R> fmt::Debug for Rows<'_, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rows").field("scan", &self.scan).finish_non_exhaustive()
    }
}

impl<'t, R> Iterator for Rows<'t, R> {
    type Item = (RowId, RowRef<'t, R>);

    fn next(&mut self) -> Option<Self::Item> {
        if self.found.is_empty() {
            // A call that has ended is refused at its commit, as one is that met a lock.
            let (found, piece) = (&mut self.found, self.piece);
            let find = |(id, row)| found.push((id, RowRef::of(row)));
            if self.tx.next_rows(self.tx.guard, &mut self.scan, piece, find).is_err() {
                self.found.clear();
            }
            self.found.reverse();
            self.piece = (self.piece * 2).min(PIECES.1);
        }
        self.found.pop()
    }
}

impl<'s> Tx<'s> {
    /// The rows whose keys lie in `range`, with their ids, to be read in place one by one. For a loop
    /// that writes, too, there are [`Tx::range`] and [`Tx::page`].
    ///
    /// ```
    /// use tombolo::{Database, Order, Range, Table};
    ///
    /// #[derive(Table)]
    /// struct Line {
    ///     #[key]
    ///     order: u32,
    ///     #[key]
    ///     number: u8,
    ///     cents: i64,
    /// }
    ///
    /// let db = Database::builder().define::<Line>().in_memory()?;
    /// let (lines, by_key) = (db.table::<Line>()?, db.index::<LineKey>()?);
    /// let (sum, last) = db.transaction(move |tx| {
    ///     for number in 1..=3 {
    ///         tx.insert_row(&lines, &Line { order: 7, number, cents: 100 })?;
    ///     }
    ///     let of_order = tx.iter(&by_key, Range::prefix((7,)), Order::Forward)?;
    ///     let sum: i64 = of_order.map(|(_, line)| line.get(Line::CENTS)).sum();
    ///     let last = tx.iter(&by_key, .., Order::Backward)?.next();
    ///     Ok((sum, last.map(|(_, line)| line.read().number)))
    /// })?;
    /// assert_eq!((sum, last), (300, Some(3)));
    /// # Ok::<(), tombolo::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Tx::scan`].
    pub fn iter<'k, I: DeclaredIndex>(
        &self,
        index: &Index<I>,
        range: impl Into<Range<<I as IndexType>::Key<'k>>>,
        order: Order,
    ) -> Result<Rows<'_, I::Table>> {
        let Cursor { scan, .. } = self.cursor(index, range, order)?;
        let piece = if self.guard.is_some() { 1 } else { PIECES.0 };
        Ok(Rows { tx: self, scan, found: Vec::new(), piece })
    }

    /// All rows of a table with their ids, in the store's own order, to be read in place one by one.
    ///
    /// # Errors
    /// A handle of another database, or a call that has ended.
    pub fn iter_table<R: DeclaredTable>(
        &self,
        table: &Table<R>,
    ) -> Result<impl Iterator<Item = (RowId, RowRef<'_, R>)>> {
        if let Some(guard) = self.pass(table.database(), Of::Table(table.position()))? {
            let store = &*self.store;
            while_held(move || guard.admit_rows(store, table))?;
        }
        let live = self.store.live_rows(table);
        let (watch, limits) = (&self.watch, &self.tables.limits);
        let may_continue = move |_: &_| watch.pass(limits).is_ok();
        Ok(live.take_while(may_continue).map(|(id, row)| (id, RowRef::of(row))))
    }

    /// A cursor in front of the rows whose keys lie in `range`.
    ///
    /// ```
    /// # use tombolo::{Database, Order, Table};
    /// # #[derive(Table)]
    /// # struct Seat { #[key] number: u32 }
    /// # let db = Database::builder().define::<Seat>().in_memory()?;
    /// # let (seats, by_number) = (db.table::<Seat>()?, db.index::<SeatKey>()?);
    /// # db.transaction(move |tx| (0..25).try_for_each(|number| tx.insert_row(&seats, &Seat { number }).map(drop)))?;
    /// let mut cursor = db.transaction(move |tx| tx.cursor(&by_number, 3.., Order::Forward))?;
    /// let mut pages = Vec::new();
    /// while !cursor.is_at_end() {
    ///     // One transaction a page; others come in between.
    ///     let (page, next) = db.transaction(move |tx| {
    ///         let page = tx.page_rows(&mut cursor, 10)?;
    ///         Ok((page, cursor))
    ///     })?;
    ///     pages.push(page.len());
    ///     cursor = next;
    /// }
    /// assert_eq!(pages, [10, 10, 2]);
    /// # Ok::<(), tombolo::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Tx::scan`].
    pub fn cursor<'k, I: IndexType>(
        &self,
        index: &Index<I>,
        range: impl Into<Range<I::Key<'k>>>,
        order: Order,
    ) -> Result<Cursor<I>> {
        let (range, database, position) = (range.into(), index.database(), index.position() as u32);
        self.pass(database, Of::Index(index.position()))?;
        fits(index, &range)?;
        let scan = self.store.cursor(index, &range, order)?;
        Ok(Cursor { scan, database, position, index: PhantomData })
    }

    /// The ids of the next rows of a cursor, `most` at most; fewer if they are the last ones.
    ///
    /// # Errors
    /// A cursor of another database, or a call that has ended.
    pub fn page<I>(&self, cursor: &mut Cursor<I>, most: usize) -> Result<Vec<RowId>> {
        self.advance(cursor, most, |(id, _): FoundRow<'_, I>| id)
    }

    /// The same rows as values of their struct.
    ///
    /// # Errors
    /// As [`Tx::page`].
    pub fn page_rows<I: DeclaredIndex<Table: TableRow>>(
        &self,
        cursor: &mut Cursor<I>,
        most: usize,
    ) -> Result<Vec<I::Table>> {
        self.advance(cursor, most, |(_, row)| RowRef::of(row).read())
    }

    fn advance<'t, I, R, A>(
        &'t self,
        cursor: &mut Cursor<I>,
        most: usize,
        mut read: impl FnMut(FoundRow<'t, R>) -> A,
    ) -> Result<Vec<A>> {
        let guard = self.pass(cursor.database, Of::Index(cursor.position as usize))?;
        let mut page = Vec::new();
        self.next_rows(guard, &mut cursor.scan, most, |found| page.push(read(found)))?;
        Ok(page)
    }

    /// Gives the next rows of a scan to `visit`, `most` at most.
    #[inline(always)]
    fn next_rows<'t, R>(
        &'t self,
        guard: Guards<'s>,
        scan: &mut Scan,
        most: usize,
        visit: impl FnMut(FoundRow<'t, R>),
    ) -> Stored<()> {
        self.watch.pass_rows(&self.tables.limits, most)?;
        match guard {
            None => self.store.advance(scan, most, visit),
            Some(guard) => {
                let store = &*self.store;
                while_held(move || guard.advance(store, scan, most, visit))?;
            }
        }
        Ok(())
    }

    /// Visits the rows whose keys lie in `range`, until the visitor breaks off.
    ///
    /// # Errors
    /// `Unordered` for a hash index; `KeyColumns` where the range compares none of its columns, or more.
    pub fn scan<'k, I: IndexType>(
        &mut self,
        index: &Index<I>,
        range: impl Into<Range<I::Key<'k>>>,
        order: Order,
        visit: impl FnMut(RowId) -> ControlFlow<()>,
    ) -> Result<()> {
        let range = range.into();
        let guard = self.pass(index.database(), Of::Index(index.position()))?;
        fits(index, &range)?;
        let (watch, mut ended) = ((&self.watch, &self.tables.limits), Ok(()));
        let visit = watched(watch, &mut ended, visit);
        on!(self, guard, |store| store.scan_named(index, range, order, visit))?;
        Ok(ended?)
    }

    /// The rows whose keys lie in `range`.
    ///
    /// # Errors
    /// As [`Tx::scan`].
    pub fn range<'k, I: IndexType>(
        &mut self,
        index: &Index<I>,
        range: impl Into<Range<I::Key<'k>>>,
        order: Order,
    ) -> Result<Vec<RowId>> {
        let mut rows = Vec::new();
        self.scan(index, range, order, |row| {
            rows.push(row);
            ControlFlow::Continue(())
        })?;
        Ok(rows)
    }

    /// All rows of a table, in the store's own order.
    ///
    /// # Errors
    /// What the store refuses.
    pub fn rows<R: TableType>(&mut self, table: &Table<R>) -> Result<Vec<RowId>> {
        let mut rows = Vec::new();
        let visit = |row| {
            rows.push(row);
            ControlFlow::Continue(())
        };
        if let Some(guard) = self.pass(table.database(), Of::Table(table.position()))? {
            let store = &*self.store;
            while_held(move || guard.admit_rows(store, table))?;
        }
        let (watch, mut ended) = ((&self.watch, &self.tables.limits), Ok(()));
        self.store.rows_named(table, watched(watch, &mut ended, visit));
        Ok(ended.map(|()| rows)?)
    }
}

/// Whether the columns that a range compares are some of the index's.
pub(crate) fn fits<I: IndexType>(index: &Index<I>, range: &Range<I::Key<'_>>) -> Stored<()> {
    let columns = I::parts(index.shape()).len();
    let is_fit = |edge: &Edge<_>| match *edge {
        Edge::Open => true,
        Edge::Before(key, WHOLE) | Edge::After(key, WHOLE) => {
            (1..=columns).contains(&I::columns(index.shape(), key))
        }
        Edge::Before(_, compared) | Edge::After(_, compared) => (1..=columns).contains(&compared),
    };
    if is_fit(&range.lower) && is_fit(&range.upper) {
        return Ok(());
    }
    let (index, columns) = (index.position() as u32, columns as u32);
    Err(StoreError::KeyColumns { index, columns })
}

/// `visit`, until the call is ended.
fn watched(
    (watch, limits): (&Watch, &Limits),
    ended: &mut Stored<()>,
    mut visit: impl FnMut(RowId) -> ControlFlow<()>,
) -> impl FnMut(RowId) -> ControlFlow<()> {
    move |row| match watch.pass(limits) {
        Ok(()) => visit(row),
        Err(error) => {
            *ended = Err(error);
            ControlFlow::Break(())
        }
    }
}
