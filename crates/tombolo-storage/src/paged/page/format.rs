//! Where everything lies in a page; docs/format.md draws it. All numbers are little-endian.
//!
//! Each offset is the one before it plus its width, so nothing can overlap or leave a gap; a golden
//! page in the tests holds the result still. A change here is a new [`FORMAT_VERSION`].

/// CRC-32C of all bytes after it: `u32`. Stamped when the page is written, not kept in memory.
pub(super) const CHECKSUM: usize = 0;
/// The page's number: `u32`.
pub(super) const ID: usize = CHECKSUM + 4;
/// LSN of the last change: `u64`.
pub(super) const LSN: usize = ID + 4;
/// The heap file or index: `u16`.
pub(super) const STORE: usize = LSN + 8;
/// A [`PageKind`]: `u8`.
pub(super) const KIND: usize = STORE + 2;
/// The owner's flags: `u8`.
pub(super) const FLAGS: usize = KIND + 1;
/// Slots, those in use and those free: `u16`.
pub(super) const SLOT_COUNT: usize = FLAGS + 1;
/// Offset of the first byte no record ever reached since the last compaction: `u16`.
pub(super) const FREE_START: usize = SLOT_COUNT + 2;
/// Bytes that belong to no header, slot or record: `u16`.
pub(super) const FREE_BYTES: usize = FREE_START + 2;
/// The first free slot, or [`NO_SLOT`]: `u16`.
pub(super) const FREE_SLOT: usize = FREE_BYTES + 2;
/// The right neighbour, 0 for none: `u32`.
pub(super) const NEXT: usize = FREE_SLOT + 2;
/// The left neighbour, 0 for none: `u32`.
pub(super) const PREVIOUS: usize = NEXT + 4;
/// The owner's number: `u32`.
pub(super) const EXTRA: usize = PREVIOUS + 4;
/// Bytes of the header.
pub const HEADER_BYTES: usize = EXTRA + 4;

/// The end of the list of free slots.
pub(super) const NO_SLOT: u16 = u16::MAX;

/// Bytes of a slot: bits 0–12 offset in units of four bytes, 13–27 length, 28–29 kind, 30 ghost.
pub const SLOT_BYTES: usize = 4;
pub(super) const LENGTH_SHIFT: u32 = 13;
pub(super) const LENGTH_MASK: u32 = (1 << 15) - 1;
pub(super) const OFFSET_MASK: u32 = (1 << LENGTH_SHIFT) - 1;
pub(super) const KIND_SHIFT: u32 = 28;
pub(super) const KIND_MASK: u32 = 3 << KIND_SHIFT;
pub(super) const GHOST: u32 = 1 << 30;

/// Records begin at multiples of this.
pub const RECORD_ALIGNMENT_BYTES: usize = 4;
/// Space the shortest record takes: its hole has room for the number of the next free slot.
pub const RECORD_BYTES_MIN: usize = 4;

const _: () = assert!(HEADER_BYTES == 40 && HEADER_BYTES.is_multiple_of(RECORD_ALIGNMENT_BYTES));
const _: () = assert!(super::PAGE_BYTES_MAX / RECORD_ALIGNMENT_BYTES <= 1 << LENGTH_SHIFT);
const _: () = assert!(super::PAGE_BYTES_MAX - 1 <= LENGTH_MASK as usize);

/// The first eight bytes of the body of page 0.
pub const MAGIC: [u8; 8] = *b"tombolo\n";
/// The version of this format, after the magic. Version 1 had values behind their rows, which moved, and no heads of
/// keys; the log of version 2 lacked what a restart needs; page 0 of version 3 did not say whose log goes with it.
pub const FORMAT_VERSION: u32 = 5;

/// What a page holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PageKind {
    /// Page 0: what the file is.
    Header = 1,
    /// Rows of a heap file.
    Heap = 2,
    /// The pages of a heap file.
    HeapMap = 3,
    /// Entries of an index.
    Leaf = 4,
    /// Inner nodes of an index.
    Inner = 5,
    /// Nothing; its right neighbour is the next free page.
    Free = 6,
    /// What the database remembers of its tables.
    Catalogue = 7,
}

impl PageKind {
    /// The kind a byte in a page means.
    #[inline]
    pub const fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            1 => Self::Header,
            2 => Self::Heap,
            3 => Self::HeapMap,
            4 => Self::Leaf,
            5 => Self::Inner,
            6 => Self::Free,
            7 => Self::Catalogue,
            _ => return None,
        })
    }
}
