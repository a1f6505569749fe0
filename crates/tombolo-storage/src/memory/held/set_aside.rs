//! Setting a transaction aside: its changes are computed from its undo notes and its rows, then it is undone.
//!
//! The changes are the net effect of the transaction: for an index entry, its row before the first note and after the
//! last one; for an existing row, the bytes that differ; for a created row, the whole row. A row that was created and
//! deleted, or an entry that was inserted and removed, is no change. Locks cover every access: a transaction that
//! inserted a key has found that no row had it.
//!
//! Not here: making changes again (`make.rs`), the locks of reads (`guarded.rs`).

use super::changes::{ChangedRow, Changes, Operation, Writer};
use super::lock::{Lock, Mode};
use crate::error::{Error, Result};
use crate::memory::MemoryStore;
use crate::memory::index::Entries;
use crate::memory::log::Log;
use crate::memory::rows::Rows;
use crate::memory::store::State;
use crate::memory::undo::{Change, Undo};
use crate::memory::variable::{HANDLE_BYTES, Handle};
use crate::profile::MemoryProfile;
use crate::store::Store;

/// Bytes that do not differ between two that do are made again with them, if they are fewer: a change of its own
/// costs more.
const GAP_BYTES: usize = 16;

/// About the length of a change.
const CHANGE_BYTES: usize = 32;

/// A table and a slot.
pub(super) type Place = (u32, u32);

/// A key of an index as it was noted, without a row's slot behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum NotedKey<'n> {
    Packed([u8; 8]),
    Bytes(&'n [u8]),
}

impl NotedKey<'_> {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Packed(key) => key,
            Self::Bytes(key) => key,
        }
    }
}

/// What a note says of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct NotedEntry<'n> {
    index: u32,
    key: NotedKey<'n>,
    /// The row of the entry, where several rows may have the key.
    own: Option<u32>,
    /// The note's number.
    number: usize,
    is_inserted: bool,
    row: u32,
}

/// The entry that was there before these notes of one key.
fn before<'n>(notes: &[NotedEntry<'n>]) -> Option<NotedEntry<'n>> {
    notes.first().copied().filter(|note| !note.is_inserted)
}

/// The entry that is there after them.
fn after<'n>(notes: &[NotedEntry<'n>]) -> Option<NotedEntry<'n>> {
    notes.last().copied().filter(|note| note.is_inserted)
}

/// Whether another row has the key than before.
fn is_changed(notes: &[NotedEntry<'_>]) -> bool {
    before(notes).map(|note| note.row) != after(notes).map(|note| note.row)
}

/// What a note says of a row that was there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct NotedUpdate<'n> {
    place: Place,
    /// The note's number.
    number: usize,
    offset: u32,
    before: &'n [u8],
}

/// The notes of a transaction by what they are about.
#[derive(Default)]
struct Notes<'n> {
    /// Ascending, after [`Notes::sort`], as the others are.
    created: Vec<Place>,
    deleted: Vec<Place>,
    updates: Vec<NotedUpdate<'n>>,
    entries: Vec<NotedEntry<'n>>,
    /// The rows that were created and not deleted, in order.
    left: Vec<Place>,
}

impl Notes<'_> {
    fn sort(&mut self) {
        self.left = self.created.clone();
        self.created.sort_unstable();
        self.deleted.sort_unstable();
        self.left.retain(|place| self.deleted.binary_search(place).is_err());
        self.updates.sort_unstable();
        self.entries.sort_unstable();
    }

    fn has_created(&self, place: Place) -> bool {
        self.created.binary_search(&place).is_ok()
    }

    fn has_deleted(&self, place: Place) -> bool {
        self.deleted.binary_search(&place).is_ok()
    }

    /// The row in a slot as the changes name it, if it is left; `created` has the numbers of those that were
    /// created.
    fn changed_row(&self, place: Place, created: &[(Place, u32)]) -> Option<ChangedRow> {
        if self.has_deleted(place) {
            return None;
        }
        if !self.has_created(place) {
            return Some(ChangedRow::Slot(place.1));
        }
        let at = created.binary_search_by_key(&place, |&(place, _)| place).ok()?;
        Some(ChangedRow::Created(created[at].1))
    }
}

impl<P: MemoryProfile> MemoryStore<P> {
    /// Takes the changes of the open transaction and ends it, as if it had aborted.
    /// [`MemoryStore::make`] makes them again, in another transaction.
    ///
    /// # Errors
    /// `LogTooLong`, `Elsewhere`: it could not commit either; it is still open. The errors of an abort.
    ///
    /// # Panics
    /// When there is no transaction.
    pub fn set_aside(&mut self) -> Result<Changes> {
        self.set_aside_noting(&mut |_| {}).map(|(changes, _)| changes)
    }

    /// The same; gives each lock that the changes need to `see`, and returns the rows that the transaction
    /// created, in ascending order.
    pub(super) fn set_aside_noting(
        &mut self,
        see: &mut dyn FnMut(&Lock<'_>),
    ) -> Result<(Changes, Vec<Place>)> {
        const { assert!(P::Undo::KEEPS, "a transaction is set aside by its undo notes") };
        if let State::Poisoned(reason) = self.state {
            return Err(Error::Poisoned { reason });
        }
        let is_open = matches!(self.state, State::Reading | State::Writing);
        assert!(is_open, "a transaction is set aside while it is open");
        // A command is only missing where a transaction commits.
        if let Some(refusal) = self.log.refusal()
            && refusal != Error::NoCommand
        {
            return Err(refusal);
        }
        self.verify_homes()?;
        let notes = self.noted();
        self.see_locks(&notes, see);
        let changes = self.changes(&notes);
        let created = notes.created;
        self.abort()?;
        Ok((changes, created))
    }

    /// The notes of the open transaction.
    fn noted(&self) -> Notes<'_> {
        let (mut notes, (changes, mut images)) = (Notes::default(), self.undo.notes());
        for (number, change) in changes.iter().enumerate() {
            let mut image = |bytes: u32| {
                let (image, rest) = images.split_at(bytes as usize);
                images = rest;
                image
            };
            match *change {
                Change::Updated { table, row, offset, bytes } => {
                    let (place, before) = ((table, row), image(bytes));
                    notes.updates.push(NotedUpdate { place, number, offset, before });
                }
                Change::Created { table, row } => notes.created.push((table, row)),
                Change::Deleted { table, row } => notes.deleted.push((table, row)),
                Change::ValueStored { .. } | Change::ValueReplaced { .. } => {}
                Change::InsertedPacked { index, row, key }
                | Change::RemovedPacked { index, row, key } => {
                    let is_inserted = matches!(change, Change::InsertedPacked { .. });
                    let (key, own) = (NotedKey::Packed(key.to_be_bytes()), None);
                    let entry = NotedEntry { index, key, own, number, is_inserted, row };
                    notes.entries.push(entry);
                }
                Change::InsertedBytes { index, row, bytes }
                | Change::RemovedBytes { index, row, bytes } => {
                    let is_inserted = matches!(change, Change::InsertedBytes { .. });
                    let (key, own) = self.noted_key(index, row, image(bytes));
                    let key = NotedKey::Bytes(key);
                    let entry = NotedEntry { index, key, own, number, is_inserted, row };
                    notes.entries.push(entry);
                }
            }
        }
        notes.sort();
        notes
    }

    /// A key in an index of bytes without the slot that may be behind it, and the slot.
    fn noted_key<'n>(&self, index: u32, row: u32, stored: &'n [u8]) -> (&'n [u8], Option<u32>) {
        let index = &self.indexes[index as usize];
        match index.entries {
            Entries::Bytes(_) if !index.unique => {
                (&stored[..stored.len() - size_of::<u32>()], Some(row))
            }
            _ => (stored, None),
        }
    }

    /// Gives all that was changed to `see`, with the mode in which it is locked.
    fn see_locks(&self, notes: &Notes<'_>, see: &mut dyn FnMut(&Lock<'_>)) {
        let updated = notes.updates.iter().map(|update| update.place);
        let written = updated.chain(notes.deleted.iter().copied());
        for (table, row) in written.filter(|&place| !notes.has_created(place)) {
            see(&Lock::Row { table, row, mode: Mode::Write });
            see(&Lock::Table { table, mode: Mode::ChangeWithin });
        }
        for &(table, _) in &notes.created {
            see(&Lock::Table { table, mode: Mode::ChangeWithin });
        }
        for entry in &notes.entries {
            let mode = mode_of_entries(self.indexes[entry.index as usize].unique);
            see(&Lock::Key { index: entry.index, key: entry.key.bytes(), mode });
        }
    }

    fn changes(&self, notes: &Notes<'_>) -> Changes {
        let count = notes.updates.len() + notes.entries.len() + notes.left.len();
        let mut out = Writer::new(count * CHANGE_BYTES);
        let numbers = notes.left.iter().copied().zip(0..);
        let mut created: Vec<_> = numbers.collect();
        created.sort_unstable();

        let by_key = |a: &NotedEntry<'_>, b: &NotedEntry<'_>| {
            (a.index, a.key, a.own) == (b.index, b.key, b.own)
        };
        let changed = || notes.entries.chunk_by(by_key).filter(|notes| is_changed(notes));
        for entry in changed().filter_map(before) {
            let (index, key) = (entry.index, entry.key.bytes());
            out.write(&Operation::Remove { index, row: entry.row, key });
        }
        for &(table, row) in notes.deleted.iter().filter(|&&place| !notes.has_created(place)) {
            out.write(&Operation::Delete { table, row });
        }
        for updates in notes.updates.chunk_by(|a, b| a.place == b.place) {
            let place = updates[0].place;
            if !notes.has_created(place) && !notes.has_deleted(place) {
                self.write_update(updates, &mut out);
            }
        }
        for (number, &(table, row)) in notes.left.iter().enumerate() {
            self.write_creation((table, row), number as u32, &mut out);
        }
        for entry in changed().filter_map(after) {
            let (index, key) = (entry.index, entry.key.bytes());
            let table = self.indexes[index as usize].table as u32;
            // An entry of a row that is gone would name another one.
            if let Some(row) = notes.changed_row((table, entry.row), &created) {
                out.write(&Operation::Insert { index, row, key });
            }
        }
        out.changes()
    }

    fn rows_of(&self, table: u32) -> &Rows {
        &self.tables[table as usize]
    }

    /// What differs in a row from what it was before its updates.
    fn write_update(&self, updates: &[NotedUpdate<'_>], out: &mut Writer) {
        let (table, row) = updates[0].place;
        let rows = self.rows_of(table);
        let now = &rows.slab.slot(row)[..rows.shape.row_bytes];
        let mut before = now.to_vec();
        for update in updates.iter().rev() {
            let offset = update.offset as usize;
            before[offset..offset + update.before.len()].copy_from_slice(update.before);
        }
        let mut start = 0;
        let mut handles = rows.shape.handle_offsets.clone();
        handles.sort_unstable();
        for &handle in &handles {
            write_difference((table, row), start..handle, (&before, now), out);
            start = handle + HANDLE_BYTES;
        }
        write_difference((table, row), start..now.len(), (&before, now), out);
        for &offset in &rows.shape.variable_offsets {
            if Handle::read(&before, offset) != Handle::read(now, offset) {
                let value = rows.values.get(Handle::read(now, offset));
                let (row, offset) = (ChangedRow::Slot(row), offset as u32);
                out.write(&Operation::SetValue { table, row, offset, value });
            }
        }
    }

    /// A row that was created, with its values.
    fn write_creation(&self, (table, slot): Place, number: u32, out: &mut Writer) {
        let rows = self.rows_of(table);
        let mut bytes = rows.slab.slot(slot)[..rows.shape.row_bytes].to_vec();
        let handle = |offset| Handle::read(rows.slab.slot(slot), offset);
        for &offset in &rows.shape.handle_offsets {
            bytes[offset..offset + HANDLE_BYTES].fill(0);
        }
        out.write(&Operation::Create { table, bytes: &bytes });
        for &offset in &rows.shape.variable_offsets {
            if handle(offset) != Handle::EMPTY {
                let (row, value) = (ChangedRow::Created(number), rows.values.get(handle(offset)));
                out.write(&Operation::SetValue { table, row, offset: offset as u32, value });
            }
        }
    }
}

/// The mode in which the key of an entry that comes or goes is locked.
pub(super) const fn mode_of_entries(is_unique: bool) -> Mode {
    if is_unique { Mode::Write } else { Mode::ChangeWithin }
}

/// Writes the runs of bytes that differ in a part of a row without handles.
fn write_difference(
    (table, row): Place,
    part: std::ops::Range<usize>,
    (before, now): (&[u8], &[u8]),
    out: &mut Writer,
) {
    let differs = |&at: &usize| before[at] != now[at];
    let mut at = part.start;
    while let Some(start) = (at..part.end).find(differs) {
        let mut end = start + 1;
        while let Some(next) = (end..part.end.min(end + GAP_BYTES)).find(differs) {
            end = next + 1;
        }
        let bytes = &now[start..end];
        out.write(&Operation::Update { table, row, offset: start as u32, bytes });
        at = end;
    }
}
