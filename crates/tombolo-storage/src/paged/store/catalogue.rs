//! What a closed database remembers of itself: its layout, its tables, and where each begins.
//!
//! A chain of pages that begins at the root of the data file; together they hold one text. It
//! is written when the database is closed and read when it is opened. The pages are used again by
//! the next close: as many as the text needs, the others are given back.
//!
//! Not here: finding a table for a call (`directory.rs`). Not logged: restart will need the
//! catalogue to be written when a table is made.

use serde::{Deserialize, Serialize};

use super::Directory;
use super::database::{Database, RowsOf};
use super::error::OpenError;
use super::rows::RowAccess;
use crate::error::SchemaError;
use crate::paged::btree::{BTree, KeyFormat, KeyShape};
use crate::paged::page::{PageId, PageKind, PageSize, StoreId};
use crate::paged::pool::{ExclusivePage, PageAccess, PageError, ReadPage};
use crate::profile::PagedProfile;
use crate::schema::TableDef;

/// The pages of the catalogue belong to no table or index.
const STORE: StoreId = StoreId(u16::MAX);

/// The version of the text.
const VERSION: u32 = 1;

/// The text.
#[derive(Serialize, Deserialize)]
struct Catalogue {
    version: u32,
    /// How keys are kept (S1).
    keys: String,
    tables: Vec<StoredTable>,
}

#[derive(Serialize, Deserialize)]
struct StoredTable {
    definition: TableDef,
    /// Where the rows' map begins.
    rows: u32,
    /// The root page of each index.
    indexes: Vec<u32>,
}

/// The text, compiled once: whatever the profile.
impl Catalogue {
    fn text(&self) -> Result<String, SchemaError> {
        ron::to_string(self)
            .map_err(|error| SchemaError::new("the catalogue", &format!("cannot be told: {error}")))
    }

    /// What `text` says; otherwise what is wrong with it.
    fn read(text: &[u8]) -> Result<Self, String> {
        let catalogue: Self = ron::de::from_bytes(text)
            .map_err(|error| format!("the catalogue cannot be read: {error}"))?;
        match catalogue.version {
            VERSION => Ok(catalogue),
            other => {
                Err(format!("the catalogue is of version {other}, this program reads {VERSION}"))
            }
        }
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
        let rows = database.pages.save_rows(&table.rows)?.0;
        let roots = indexes.by_ref().take(definition.indexes.len());
        let indexes = roots.map(|index| index.tree.root().0).collect();
        tables.push(StoredTable { definition: definition.clone(), rows, indexes });
    }
    let catalogue = Catalogue { version: VERSION, keys: P::Keys::NAME.to_owned(), tables };
    write_text(database, catalogue.text()?.as_bytes())
}

/// Spreads `text` over the chain of catalogue pages.
fn write_text<P: PagedProfile>(database: &Database<P>, text: &[u8]) -> Result<(), OpenError> {
    let pages = &database.pages;
    let body_bytes = pages_body_bytes::<P>();
    let mut chunks = text.chunks(body_bytes).peekable();
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
    let text = read_text(database, root)?;
    let catalogue = Catalogue::read(&text).map_err(|what| damaged::<P>(root, &what))?;
    catalogue.expect_keys(P::Keys::NAME)?;
    for table in catalogue.tables {
        open_table(database, root, table)?;
    }
    Ok(())
}

fn read_text<P: PagedProfile>(database: &Database<P>, root: PageId) -> Result<Vec<u8>, OpenError> {
    let mut text = Vec::new();
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
        text.extend_from_slice(&page.body()[..bytes]);
        next = page.next();
    }
    Ok(text)
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
    let rows: RowsOf<P> = database.pages.open_rows(PageId(table.rows))?;
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
