//! `Step`: the changes that one step of a structure makes to pages. They are redone as a whole or not at all, belong to
//! no transaction and are never undone (a nested top action).
//!
//! Not here: its records (`record.rs`), which steps there are (trees, heap files, the catalogue).

use super::page::{Page, PageId, PageKind, PageSize, StoreId};

/// The log sequence number of a change, where such numbers are kept (S4).
pub type Stamp = Option<u64>;

/// An empty page that a step makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MadePage {
    /// Which.
    pub page: PageId,
    /// Whose it is.
    pub store: StoreId,
    /// What it will hold.
    pub kind: PageKind,
    /// The owner's number.
    pub extra: u32,
}

/// A page that a step gives back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreedPage {
    /// Which.
    pub page: PageId,
    /// The free page behind it.
    pub next: Option<PageId>,
}

/// A heap page that a step enters in its file's map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapEntry {
    /// Whose map it is.
    pub store: StoreId,
    /// The page of the map.
    pub map: PageId,
    /// The entry in it.
    pub slot: u16,
    /// The heap page.
    pub page: PageId,
}

/// What page 0 says of the file's pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpaceImage {
    /// Pages in use or free, page 0 among them.
    pub pages: u32,
    /// The first free page, or 0.
    pub free_head: u32,
    /// How many are free.
    pub free_pages: u32,
    /// Where the catalogue begins, or 0.
    pub root: u32,
}

impl SpaceImage {
    /// Bytes of one.
    pub const BYTES: usize = 16;

    /// As it stands in a record.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let fields = [self.pages, self.free_head, self.free_pages, self.root];
        for (at, field) in bytes.chunks_exact_mut(4).zip(fields) {
            at.copy_from_slice(&field.to_le_bytes());
        }
        bytes
    }

    /// What a record says; `None` if these bytes are none.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; Self::BYTES] = bytes.try_into().ok()?;
        let field = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let (pages, free_head, free_pages, root) = (field(0), field(4), field(8), field(12));
        Some(Self { pages, free_head, free_pages, root })
    }
}

/// One step.
#[derive(Clone, Copy, Debug)]
pub struct Step<'a, S> {
    /// Empty pages it makes.
    pub made: &'a [MadePage],
    /// What other pages will be, new ones that are not empty among them: all of each is logged.
    pub images: &'a [Page<'a, S>],
    /// What pages are and will be: what they differ in is logged.
    pub changed: &'a [[Page<'a, S>; 2]],
    /// A heap page it enters in a map.
    pub entry: Option<MapEntry>,
    /// Pages it gives back, in this order.
    pub freed: &'a [FreedPage],
    /// What page 0 will say, if the step takes pages or gives some back.
    pub space: Option<SpaceImage>,
}

impl<'a, S: PageSize> Step<'a, S> {
    /// Of pages that change only.
    pub const fn of(images: &'a [Page<'a, S>]) -> Self {
        Self { made: &[], images, changed: &[], entry: None, freed: &[], space: None }
    }

    /// How many records it takes.
    pub(crate) const fn records(&self) -> usize {
        self.made.len()
            + self.images.len()
            + self.changed.len()
            + self.entry.is_some() as usize
            + self.freed.len()
            + self.space.is_some() as usize
    }
}
