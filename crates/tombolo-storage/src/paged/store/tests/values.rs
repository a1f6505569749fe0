//! Values in slots of their own: random transactions against a map, next to a full disk, too long.

use super::*;
use crate::paged::page::{SmallPages, record_bytes_max};
use crate::row::Column;
use std::collections::BTreeMap;

crate::table! {
    /// Notes of any length.
    struct Note = "note" {
        ID: Integer;
        TITLE: Text => hot;
        KIND: SmallInt;
        BODY: Nullable<Bytes>;
    }
}
crate::index! { struct NoteById = "note_pk" on Note (ID: Integer) unique Tree; }

/// The values of each note, `None` for a body that is null.
type Notes = BTreeMap<i32, (Vec<u8>, Option<Vec<u8>>)>;

struct Notebook<P: PagedProfile> {
    store: PagedStore<P>,
    table: Table<Note>,
    by_id: Index<NoteById>,
    random: Random,
}

impl<P: PagedProfile> Notebook<P> {
    fn with(store: PagedStore<P>, seed: u64) -> Self {
        let table = resolve_table(store.schema()).unwrap();
        let by_id = resolve_index(store.schema()).unwrap();
        Self { store, table, by_id, random: Random::new(seed) }
    }

    fn create(disk: &MemDisk, settings: &PagedSettings, seed: u64) -> Self {
        let mut store = PagedStore::<P>::create(disk, settings).unwrap();
        store.create_table(TableDef::of::<Note>().with::<NoteById>()).unwrap();
        Self::with(store, seed)
    }

    fn begin(&mut self) {
        self.store.begin().unwrap();
        self.store.begin_writes();
    }

    /// Mostly short, sometimes empty, sometimes nearly as long as a page.
    fn any_value(&mut self) -> Vec<u8> {
        let longest = [0, 8, 60, 60, 60, 60, 700, 8_000][self.random.below(8) as usize];
        vec![self.random.below(256) as u8; self.random.below(longest + 1) as usize]
    }

    fn row(&mut self, id: i32) -> Option<RowId> {
        self.store.lookup(&self.by_id, id).unwrap()
    }

    fn set<T>(&mut self, row: RowId, column: Column<Note, T>, to: &[u8]) -> Result<(), Error> {
        self.store.set_variable(&self.table, row, column.offset(), to)
    }

    fn set_body(&mut self, row: RowId, body: Option<&[u8]>) -> Result<(), Error> {
        let fields = Fields::none().with(Note::BODY);
        let present = |row: &mut RowMut<'_, Note>| row.set_present(Note::BODY, body.is_some());
        self.store.update(&self.table, row, fields, present)?;
        self.set(row, Note::BODY, body.unwrap_or_default())
    }

    /// One change of one note that may be there or not.
    fn step(&mut self, notes: &mut Notes) -> Result<(), Error> {
        let id = self.random.below(60) as i32;
        let value = self.any_value();
        let Some(row) = self.row(id) else {
            let fill = |row: &mut RowMut<'_, Note>| {
                row.set(Note::ID, id);
                row.set(Note::KIND, 7);
            };
            let row = self.store.create(&self.table, fill)?;
            self.store.insert(&self.by_id, id, row)?;
            notes.insert(id, (Vec::new(), None));
            self.set(row, Note::TITLE, &value)?;
            notes.insert(id, (value, None));
            return Ok(());
        };
        let (title, body) = notes.get_mut(&id).expect("a row that the model knows");
        match self.random.below(8) {
            0..3 => {
                self.set(row, Note::TITLE, &value)?;
                *title = value;
            }
            3..6 => {
                self.set_body(row, Some(&value))?;
                *body = Some(value);
            }
            6 => {
                self.set_body(row, None)?;
                *body = None;
            }
            _ => {
                assert!(self.store.remove(&self.by_id, id, row)?);
                self.store.delete(&self.table, row)?;
                notes.remove(&id);
            }
        }
        Ok(())
    }

    fn verify(&mut self, notes: &Notes) {
        assert_eq!(self.store.check(), []);
        self.read_all(notes);
        let values =
            notes.values().map(|(title, body)| title.len() + body.iter().flatten().count());
        let raw = values.sum::<usize>() + notes.len() * TableDef::of::<Note>().raw_row_bytes();
        assert_eq!(self.store.usage().raw_row_bytes, raw as u64);
    }

    fn read_all(&mut self, notes: &Notes) {
        self.store.begin().unwrap();
        let mut count = 0;
        let visit = |_| {
            count += 1;
            ControlFlow::Continue(())
        };
        self.store.rows(&self.table, visit).unwrap();
        assert_eq!(count, notes.len());
        for (&id, (title, body)) in notes {
            let row = self.row(id).expect("a note that the model has");
            let row = self.store.pin(&self.table, row).unwrap();
            assert_eq!((row.get(Note::ID), row.get(Note::KIND)), (id, 7));
            assert_eq!(row.get(Note::BODY), body.as_deref());
            assert_eq!(row.get(Note::TITLE), title.as_slice());
        }
        self.store.commit().unwrap();
    }

    /// Transactions of a few changes each, every third aborted where that is possible.
    fn run(&mut self, notes: &mut Notes, transactions: u32) {
        for _ in 0..transactions {
            self.begin();
            let mut changed = notes.clone();
            for _ in 0..=self.random.below(7) {
                self.step(&mut changed).unwrap();
            }
            if PagedStore::<P>::UNDO && self.random.below(3) == 0 {
                self.store.abort().unwrap();
            } else {
                self.store.commit().unwrap();
                *notes = changed;
            }
            self.verify(notes);
        }
    }
}

fn agrees_with_a_map<P: PagedProfile>(seed: u64) {
    let (disk, mut notes) = (MemDisk::new(), Notes::new());
    let settings = PagedSettings { pool_bytes: 64 << 10, ..settings() };
    let mut book = Notebook::<P>::create(&disk, &settings, seed);
    book.run(&mut notes, 300);
    if !PagedStore::<P>::can_be_saved() {
        return;
    }
    book.store.close().unwrap();
    let mut book = Notebook::<P>::with(PagedStore::open(&disk, &settings).unwrap(), seed + 1_000);
    book.verify(&notes);
    book.run(&mut notes, 50);
}

#[test]
fn values_agree_with_a_map() {
    for seed in 0..3 {
        agrees_with_a_map::<Conventional>(seed);
    }
    agrees_with_a_map::<NoBtreeKeys>(3);
    agrees_with_a_map::<AloneBufferManager>(4);
    agrees_with_a_map::<Lattice00010>(5);
    agrees_with_a_map::<NoDirectory>(6);
    agrees_with_a_map::<NoSmallPage>(7);
    agrees_with_a_map::<NoPageAccess>(8);
}

/// A value is as long as a record can be; one that is longer changes nothing.
#[test]
fn a_value_too_long_for_a_page_is_refused() {
    let mut book = Notebook::<Conventional>::create(&MemDisk::new(), &settings(), 1);
    let bytes_max = record_bytes_max::<SmallPages>();
    let mut notes = Notes::new();
    book.begin();
    while notes.is_empty() {
        book.step(&mut notes).unwrap();
    }
    let id = *notes.keys().next().unwrap();
    let row = book.row(id).unwrap();
    let value = vec![5; bytes_max + 1];
    let expected = Error::RowTooLong { bytes_max: bytes_max as u64 };
    assert_eq!(book.set(row, Note::TITLE, &value), Err(expected));
    book.read_title(row, &notes[&id].0);
    book.set(row, Note::TITLE, &value[1..]).unwrap();
    book.read_title(row, &value[1..]);
    assert_eq!(book.set(row, Note::TITLE, &value), Err(expected));
    book.store.commit().unwrap();
    notes.get_mut(&id).unwrap().0 = value[1..].to_vec();
    book.verify(&notes);
}

impl<P: PagedProfile> Notebook<P> {
    fn read_title(&self, row: RowId, title: &[u8]) {
        assert_eq!(self.store.pin(&self.table, row).unwrap().get(Note::TITLE), title);
    }
}

/// Whichever step of setting a value fails, the row has its value of before or the new one, and what it
/// does not have goes with the end of the transaction, be that a commit.
#[test]
fn a_full_disk_leaves_no_value_behind() {
    let disk = MemDisk::new();
    let mut book = Notebook::<Conventional>::create(&disk, &settings(), 2);
    let mut notes = Notes::new();
    book.run(&mut notes, 30);
    let ids: Vec<i32> = notes.keys().copied().collect();
    for turn in 0..100 {
        let length = |name: String| disk.open(&name, Open::Read).unwrap().len().unwrap();
        disk.set_capacity_bytes(Some(disk.list().unwrap().into_iter().map(length).sum()));
        book.begin();
        let mut failed = 0;
        while failed < 3 {
            let id = ids[book.random.below(ids.len() as u64) as usize];
            // Short ones at the end, so that the log is full at any of the steps.
            let mut value = book.any_value();
            value.truncate(if failed > 0 { 60 } else { 8_000 });
            let row = book.row(id).unwrap();
            let set = book.set(row, Note::TITLE, &value);
            let has = book.store.pin(&book.table, row).unwrap().get(Note::TITLE).to_vec();
            match set {
                Ok(()) => assert_eq!(has, value),
                Err(error) => {
                    assert!(error.is_full(), "{error:?}");
                    assert!(has == value || has == notes[&id].0, "turn {turn}");
                    failed += 1;
                }
            }
            notes.get_mut(&id).unwrap().0 = has;
        }
        book.store.commit().unwrap();
        disk.set_capacity_bytes(None);
        book.verify(&notes);
    }
}
