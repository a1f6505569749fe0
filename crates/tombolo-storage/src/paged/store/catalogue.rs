//! What a closed database remembers of itself: its layout, its tables, and where each begins.
//!
//! A chain of pages that begins at the root of the data file; together they hold what follows. It
//! is written when the database is closed and read when it is opened. The pages are used again by
//! the next close: as many as the bytes need, the others are given back.
//!
//! | part | bytes |
//! |---|---|
//! | magic | 8: `tombcat` and a line feed |
//! | version of the format | 4 |
//! | how keys are kept (S1) | 4 length, then UTF-8 |
//! | tables | 4 how many, then each as below |
//!
//! A table: 4 length, then its definition (`value_log/definition.rs`); 4 where the rows' map begins; 4 how many
//! indexes, 4 each one's root page. All numbers are little-endian.
//!
//! Not here: finding a table for a call (`directory.rs`). Not logged: restart will need the
//! catalogue to be written when a table is made.

use super::Directory;
use super::database::{Database, RowsOf};
use super::error::OpenError;
use crate::paged::btree::{BTree, KeyFormat, KeyShape};
use crate::paged::heap::{RowFile, RowLayout};
use crate::paged::page::{PageId, PageKind, PageSize, StoreId};
use crate::paged::pool::{ExclusivePage, PageAccess, PageError, ReadPage};
use crate::profile::PagedProfile;
use crate::schema::TableDef;
use crate::source::Source;
use crate::value_log::definition;

/// The pages of the catalogue belong to no table or index.
const STORE: StoreId = StoreId(u16::MAX);

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

#[derive(Debug, PartialEq, Eq)]
struct StoredTable {
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

fn damaged<P: PagedProfile>(id: PageId, what: &str) -> OpenError {
    PageError::damaged_page::<SizeOf<P>>(id, what).into()
}

/// Writes the catalogue; all rows and trees are complete.
pub(super) fn write<P: PagedProfile>(database: &Database<P>) -> Result<(), OpenError> {
    let mut tables = Vec::new();
    let mut indexes = database.indexes.iter();
    for (table, definition) in database.tables.iter().zip(&database.schema.tables) {
        let rows = table.rows.save(&database.pages)?.ok_or(OpenError::CannotSave)?.0;
        let roots = indexes.by_ref().take(definition.indexes.len());
        let indexes = roots.map(|index| index.tree.root().0).collect();
        tables.push(StoredTable { definition: definition.clone(), rows, indexes });
    }
    let catalogue = Catalogue { keys: P::Keys::NAME.to_owned(), tables };
    write_bytes(database, &catalogue.encode())
}

/// Spreads `bytes` over the chain of catalogue pages.
fn write_bytes<P: PagedProfile>(database: &Database<P>, bytes: &[u8]) -> Result<(), OpenError> {
    let pages = &database.pages;
    let body_bytes = pages_body_bytes::<P>();
    let mut chunks = bytes.chunks(body_bytes).peekable();
    let mut page = match pages.root() {
        Some(root) => pages.fix_exclusive(root)?,
        None => {
            let page = pages.new_page(STORE, PageKind::Catalogue)?;
            pages.set_root(page.page().id());
            page
        }
    };
    while let Some(chunk) = chunks.next() {
        let mut change = page.page_mut();
        change.body_mut()[..chunk.len()].copy_from_slice(chunk);
        change.set_extra(chunk.len() as u32);
        let next = page.page().next();
        let more = chunks.peek().is_some();
        page = match (next, more) {
            (Some(next), true) => pages.fix_exclusive(next)?,
            (None, true) => {
                let following = pages.new_page(STORE, PageKind::Catalogue)?;
                page.page_mut().set_next(Some(following.page().id()));
                following
            }
            (rest, false) => {
                page.page_mut().set_next(None);
                drop(page);
                return free_chain(database, rest);
            }
        };
    }
    Ok(())
}

fn pages_body_bytes<P: PagedProfile>() -> usize {
    <SizeOf<P> as PageSize>::BYTES - crate::paged::page::HEADER_BYTES
}

/// Gives back the pages from `next` on.
fn free_chain<P: PagedProfile>(
    database: &Database<P>,
    mut next: Option<PageId>,
) -> Result<(), OpenError> {
    while let Some(id) = next {
        let page = database.pages.fix_exclusive(id)?;
        next = page.page().next();
        database.pages.free_page(page);
    }
    Ok(())
}

/// Reads the catalogue and opens what it names.
pub(super) fn read<P: PagedProfile>(database: &mut Database<P>) -> Result<(), OpenError> {
    let Some(root) = database.pages.root() else {
        return Err(damaged::<P>(PageId(0), "the data file has no catalogue"));
    };
    let bytes = read_bytes(database, root)?;
    let catalogue = Catalogue::decode(&bytes).map_err(|what| damaged::<P>(root, &what))?;
    catalogue.expect_keys(P::Keys::NAME)?;
    for table in catalogue.tables {
        open_table(database, root, table)?;
    }
    Ok(())
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
