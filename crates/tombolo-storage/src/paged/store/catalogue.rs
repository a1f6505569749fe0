//! The catalogue of a database: its layout, its tables, and the page where each begins.
//!
//! It is a chain of pages that begins at the root of the data file, with the content below. The step that creates a
//! table and its indexes changes the chain and logs its changed pages; the catalogue is read when the database is
//! opened. It only grows.
//!
//! | part | bytes |
//! |---|---|
//! | magic | 8: `tombcat` and a line feed |
//! | version of the format | 4 |
//! | the form of keys (S1) | 4 length, then UTF-8 |
//! | tables | 4 number, then each as below |
//!
//! A table: 4 length, then its definition (`value_log/definition.rs`); 4 first map page of the rows; 4 number of
//! indexes, 4 root page of each. All numbers are little-endian.
//!
//! Not here: finding a table for a call (`directory.rs`).

use super::Directory;
use super::database::{Database, RowsOf, TreeOf};
use super::error::OpenError;
use crate::log::Logging;
use crate::paged::btree::{BTree, KeyFormat, KeyShape};
use crate::paged::heap::{RowFile, RowLayout};
use crate::paged::page::{Page, PageBuffer, PageId, PageKind, PageMut, PageSize, StoreId};
use crate::paged::pool::{ExclusivePage, PageAccess, PageError, PageFailure, ReadPage, SpaceStep};
use crate::paged::step::Step;
use crate::paged::structure::set_stamp;
use crate::profile::PagedProfile;
use crate::schema::TableDef;
use crate::source::Source;
use crate::value_log::definition;

/// The pages of the catalogue belong to no table or index.
pub(super) const STORE: StoreId = StoreId(u16::MAX);

const MAGIC: [u8; 8] = *b"tombcat\n";

/// The version of the format. Version 1 was a text in RON.
const VERSION: u32 = 2;
const VERSION_1: &[u8] = b"(version:1,";

#[derive(Debug, PartialEq, Eq)]
struct Catalogue {
    /// How keys are kept (S1).
    keys: String,
    tables: Vec<StoredTable>,
}

/// A table, and where its parts begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StoredTable {
    definition: TableDef,
    /// Where the rows' map begins.
    rows: u32,
    /// The root page of each index.
    indexes: Vec<u32>,
}

/// The bytes, compiled once: whatever the profile.
impl Catalogue {
    fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        put(&mut out, VERSION);
        put_bytes(&mut out, self.keys.as_bytes());
        put(&mut out, self.tables.len() as u32);
        for StoredTable { definition, rows, indexes } in &self.tables {
            put_bytes(&mut out, &definition::encode(definition));
            put(&mut out, *rows);
            put(&mut out, indexes.len() as u32);
            indexes.iter().for_each(|&root| put(&mut out, root));
        }
        out
    }

    /// What `bytes` say; otherwise what is wrong with them.
    fn decode(bytes: &[u8]) -> Result<Self, String> {
        let mut from = Source(bytes);
        let version = match from.array() {
            Some(MAGIC) => from.short(),
            _ => bytes.starts_with(VERSION_1).then_some(1),
        };
        match version {
            Some(VERSION) => Self::from_source(&mut from),
            Some(other) => {
                let what = "the catalogue is of version";
                return Err(format!("{what} {other}, this program reads {VERSION}"));
            }
            None => None,
        }
        .filter(|_| from.0.is_empty())
        .ok_or_else(|| "the catalogue cannot be read".to_owned())
    }

    fn from_source(from: &mut Source<'_>) -> Option<Self> {
        let keys = std::str::from_utf8(from.bytes()?).ok()?.to_owned();
        let table = |from: &mut Source<'_>| {
            let definition = definition::decode(from.bytes()?)?;
            let rows = from.short()?;
            let indexes = (0..from.short()?).map(|_| from.short()).collect::<Option<_>>()?;
            Some(StoredTable { definition, rows, indexes })
        };
        let tables = (0..from.short()?).map(|_| table(from)).collect::<Option<_>>()?;
        Some(Self { keys, tables })
    }

    /// Refuses keys that are kept another way.
    fn expect_keys(&self, name: &str) -> Result<(), OpenError> {
        let describe = |keys: &str| format!("{keys} keys");
        if self.keys == name {
            return Ok(());
        }
        Err(OpenError::Layout { stored: describe(&self.keys), expected: describe(name) })
    }
}

fn put(out: &mut Vec<u8>, number: u32) {
    out.extend_from_slice(&number.to_le_bytes());
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put(out, bytes.len() as u32);
    out.extend_from_slice(bytes);
}

type Pages<P> = <P as PagedProfile>::Pages;
type SizeOf<P> = <Pages<P> as PageAccess>::Size;
type Exclusive<'a, P> = <Pages<P> as PageAccess>::Exclusive<'a>;

fn damaged<P: PagedProfile>(id: PageId, what: &str) -> OpenError {
    PageError::damaged_page::<SizeOf<P>>(id, what).into()
}

impl StoredTable {
    /// Of a table whose parts were made.
    pub(super) fn of<P: PagedProfile>(
        definition: &TableDef,
        rows: &RowsOf<P>,
        trees: &[TreeOf<P>],
    ) -> Self {
        let rows = rows.saved_root().map_or(0, |id| id.0);
        let indexes = trees.iter().map(|tree| tree.root().0).collect();
        Self { definition: definition.clone(), rows, indexes }
    }
}

/// Logs the step that makes `pages` and enters the table in the catalogue, and does it.
pub(super) fn define<'a, P: PagedProfile>(
    database: &'a Database<P>,
    step: &mut SpaceStep<'a, Pages<P>>,
    table: StoredTable,
    pages: &mut Vec<Exclusive<'a, P>>,
) -> Result<(), PageError> {
    // What is not saved needs no catalogue.
    let tables = RowsOf::<P>::ON_PAGES.then(|| stored(database).chain([table]).collect());
    update(database, step, tables, pages)
}

/// Makes sure that there is a catalogue: of a database without tables there is none yet.
pub(super) fn complete<P: PagedProfile>(database: &Database<P>) -> Result<(), PageError> {
    if database.pages.root().is_some() {
        return Ok(());
    }
    let mut step = SpaceStep::new(&database.pages);
    let mut pages = Vec::new();
    update(database, &mut step, Some(stored(database).collect()), &mut pages)
        .inspect_err(|_| pages.into_iter().for_each(|page| step.put_back(page)))
}

/// The tables that are there.
fn stored<P: PagedProfile>(database: &Database<P>) -> impl Iterator<Item = StoredTable> + '_ {
    let mut indexes = database.indexes.iter();
    database.tables.iter().zip(&database.schema.tables).map(move |(table, definition)| {
        let roots = indexes.by_ref().take(definition.indexes.len());
        let indexes = roots.map(|index| index.tree.root().0).collect();
        let rows = table.rows.saved_root().map_or(0, |id| id.0);
        StoredTable { definition: definition.clone(), rows, indexes }
    })
}

/// Logs a step that makes `pages` and makes the catalogue name `tables`, if any are given; then does it. Pages
/// that it takes besides come behind `pages`.
fn update<'a, P: PagedProfile>(
    database: &'a Database<P>,
    step: &mut SpaceStep<'a, Pages<P>>,
    tables: Option<Vec<StoredTable>>,
    pages: &mut Vec<Exclusive<'a, P>>,
) -> Result<(), PageError> {
    let mut changed = Vec::new();
    if let Some(tables) = tables {
        let keys = P::Keys::NAME.to_owned();
        chain(database, step, &Catalogue { keys, tables }.encode(), pages, &mut changed)?;
    }
    let images = pages.iter().map(ReadPage::page);
    let images: Vec<_> = images.chain(changed.iter().map(|(_, image)| image.page())).collect();
    let what = Step { space: step.image(), ..Step::of(&images) };
    let stamp = database.log.step(&what).map_err(PageFailure::Log)?;
    pages.iter_mut().for_each(|page| set_stamp(page, stamp));
    for (page, image) in &mut changed {
        page.page_mut().copy_from(image.page());
        set_stamp(page, stamp);
    }
    step.finish(stamp);
    Ok(())
}

/// Pages of the catalogue, and what they will be.
type Changed<'a, P> = Vec<(Exclusive<'a, P>, PageBuffer<SizeOf<P>>)>;

/// Spreads `bytes` over the chain of catalogue pages: new ones come behind `made`, the others that become
/// different behind `changed`.
fn chain<'a, P: PagedProfile>(
    database: &'a Database<P>,
    step: &mut SpaceStep<'a, Pages<P>>,
    bytes: &[u8],
    made: &mut Vec<Exclusive<'a, P>>,
    changed: &mut Changed<'a, P>,
) -> Result<(), PageError> {
    let pages = &database.pages;
    let chunks: Vec<_> = bytes.chunks(pages_body_bytes::<P>()).collect();
    let (mut next, mut old) = (step.root(), Vec::new());
    // Pages that are in use are latched before any is taken.
    while let Some(id) = next {
        let page = pages.fix_exclusive(id)?;
        let chunk = chunks.get(old.len()).copied().unwrap_or_default();
        next = page.page().next();
        old.push(id);
        if next.is_none() && old.len() < chunks.len() || is_other(page.page(), chunk) {
            let mut image = PageBuffer::copy_of(page.page());
            put_chunk(&mut image.page_mut(), chunk);
            changed.push((page, image));
        }
    }
    // From the last page on, so that each is linked to the one behind it.
    for chunk in chunks.iter().skip(old.len()).rev() {
        let mut page = step.take(STORE, PageKind::Catalogue)?;
        let mut change = page.page_mut();
        put_chunk(&mut change, chunk);
        change.set_next(next);
        next = Some(page.page().id());
        made.push(page);
    }
    match (next, old.last()) {
        (Some(first), Some(_)) => {
            let last = changed.last_mut().expect("the last page of a chain that grows changes");
            last.1.page_mut().set_next(Some(first));
        }
        (Some(first), None) => step.set_root(first),
        (None, _) => {}
    }
    Ok(())
}

fn is_other<S: PageSize>(page: Page<'_, S>, chunk: &[u8]) -> bool {
    let bytes = (page.extra() as usize).min(page.body().len());
    page.body()[..bytes] != *chunk
}

fn put_chunk<S: PageSize>(page: &mut PageMut<'_, S>, chunk: &[u8]) {
    page.body_mut()[..chunk.len()].copy_from_slice(chunk);
    page.set_extra(chunk.len() as u32);
}

fn pages_body_bytes<P: PagedProfile>() -> usize {
    <SizeOf<P> as PageSize>::BYTES - crate::paged::page::HEADER_BYTES
}

/// The catalogue that the pages hold; `None` where nothing was ever entered in it.
fn decode<P: PagedProfile>(
    database: &Database<P>,
) -> Result<Option<(PageId, Catalogue)>, OpenError> {
    let Some(root) = database.pages.root() else { return Ok(None) };
    let bytes = read_bytes(database, root)?;
    let catalogue = Catalogue::decode(&bytes).map_err(|what| damaged::<P>(root, &what))?;
    catalogue.expect_keys(P::Keys::NAME)?;
    Ok(Some((root, catalogue)))
}

/// Reads the catalogue and opens what it names.
pub(super) fn read<P: PagedProfile>(database: &mut Database<P>) -> Result<(), OpenError> {
    match decode(database)? {
        Some((root, catalogue)) => {
            catalogue.tables.into_iter().try_for_each(|table| open_table(database, root, table))
        }
        None if database.pages.space().mark().is_closed => {
            Err(damaged::<P>(PageId(0), "the data file has no catalogue"))
        }
        // It ended before it had any table.
        None => Ok(()),
    }
}

/// What keys each index has, by its number: known before any table is opened.
pub(super) fn indexes<P: PagedProfile>(
    database: &Database<P>,
) -> Result<Vec<(StoreId, KeyShape)>, OpenError> {
    let (mut shapes, mut store) = (Vec::new(), 0);
    let tables = decode(database)?.map(|(_, catalogue)| catalogue.tables).unwrap_or_default();
    for StoredTable { definition, .. } in &tables {
        for index in &definition.indexes {
            store += 1;
            shapes.push((StoreId(store), KeyShape::of(definition, index)));
        }
        store += 1;
    }
    Ok(shapes)
}

fn read_bytes<P: PagedProfile>(database: &Database<P>, root: PageId) -> Result<Vec<u8>, OpenError> {
    let mut read = Vec::new();
    let (mut next, mut pages) = (Some(root), 0);
    while let Some(id) = next {
        let guard = database.pages.fix_shared(id)?;
        let page = guard.page();
        let bytes = page.extra() as usize;
        pages += 1;
        if page.kind() != PageKind::Catalogue
            || bytes > page.body().len()
            || pages > database.pages.page_count()
        {
            return Err(damaged::<P>(id, "the page is no page of the catalogue"));
        }
        read.extend_from_slice(&page.body()[..bytes]);
        next = page.next();
    }
    Ok(read)
}

fn open_table<P: PagedProfile>(
    database: &mut Database<P>,
    root: PageId,
    table: StoredTable,
) -> Result<(), OpenError> {
    let definition = table.definition;
    if table.indexes.len() != definition.indexes.len() {
        return Err(damaged::<P>(root, "a table has more indexes, or fewer, than trees"));
    }
    let rows =
        RowsOf::<P>::open_file(&database.pages, PageId(table.rows), RowLayout::of(&definition))?;
    let rows = rows.ok_or(OpenError::CannotSave)?;
    let store = database.owners.len() as u16;
    let mut trees = Vec::new();
    let roots = definition.indexes.iter().zip(&table.indexes);
    for (i, (index, &root)) in roots.enumerate() {
        let store = StoreId(store + 1 + i as u16);
        let shape = KeyShape::of(&definition, index);
        trees.push(BTree::open(&database.pages, store, PageId(root), shape)?);
    }
    let position = database.schema.add(definition.clone())?;
    database.enter_table(position, &definition, rows, trees);
    database.directory.enter(&database.schema);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{ColumnDef, IndexDef, IndexKind};
    use crate::types::SqlType;

    fn catalogue() -> Catalogue {
        let (nullable, range, hot, added, default) = (true, Some((-1, 2)), false, false, None);
        let (name, sql) = ("a".into(), SqlType::Integer);
        let column = ColumnDef { name, sql, nullable, range, hot, added, default };
        let (columns, unique, kind) = (vec![0], true, IndexKind::Tree);
        let index = IndexDef { name: "i".into(), columns, unique, kind };
        let definition = TableDef { name: "t".into(), columns: vec![column], indexes: vec![index] };
        let table = StoredTable { definition, rows: 7, indexes: vec![9] };
        Catalogue { keys: "normalised".to_owned(), tables: vec![table] }
    }

    #[test]
    fn what_is_encoded_is_decoded_and_nothing_less() {
        let bytes = catalogue().encode();
        assert_eq!(Catalogue::decode(&bytes), Ok(catalogue()));
        for length in 0..bytes.len() {
            assert!(Catalogue::decode(&bytes[..length]).is_err(), "{length} bytes");
        }
        assert!(Catalogue::decode(&[&bytes[..], &[0]].concat()).is_err());
    }

    #[test]
    fn other_versions_are_refused_by_their_number() {
        let text = br#"(version:1,keys:"normalised",tables:[])"#;
        let what = Catalogue::decode(text).unwrap_err();
        assert_eq!(what, "the catalogue is of version 1, this program reads 2");
        let mut bytes = catalogue().encode();
        bytes[8] = 3;
        let what = Catalogue::decode(&bytes).unwrap_err();
        assert_eq!(what, "the catalogue is of version 3, this program reads 2");
    }
}
