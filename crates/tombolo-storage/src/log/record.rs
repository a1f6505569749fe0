//! What a log record looks like: only the fields that its kind needs.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 2 | length of the whole record in units of 8 bytes |
//! | 2 | 1 | kind: 1–5 a change of a row or value, 6–9 of an entry ([`ChangeKind`]), 32–42 below |
//! | 3 | 1 | flags: bit 0 redo only; 1, of *committed*, that *ended* follows; 2 a value; 3–5 bytes of padding |
//! | 4 | 2 | store |
//! | 6 | 2 | slot |
//! | 8 | 4 | page |
//! | 12 | 2 | within: where in the row the images begin; or as below |
//! | 14 | 2 | bytes of the image before |
//! | 16 | 8 | transaction, 0 for none |
//! | 24 | 8 | row: its location; or as below. Not of kinds 1–5, whose row lies at page and slot |
//! | 32 | 8 | previous: LSN of the transaction's record before this one, 0 for none. Not of changes |
//! | 24, 32 or 40 | | the image before, the image after, padding (zeros) |
//!
//! All numbers are little-endian. The changes of a transaction are in the order in which they were made, and always
//! its newest change that is not undone is undone next; so a change needs no link to another. A record has no
//! checksum: a flush writes a group, which has a checksum over its records and their position in the log, and a group
//! with a wrong checksum is not read (`value_log/group.rs`). A torn write loses whole blocks, never parts of records.
//!
//! | kind | fields in addition to the page that it names |
//! |---|---|
//! | 32 page image | slot: 1 for a whole page, else 0; image after: the difference from zeros or from the old page |
//! | 33 committed, 34 aborted | row: the log was known to be durable up to this LSN, exclusive |
//! | 35 page freed | row: the free page behind it, 0 for none |
//! | 36 page made | slot: its kind; row: its owner's number (*extra* in docs/format.md) |
//! | 37 space | image after: what page 0 says of the file's pages ([`SpaceImage`](crate::paged::step::SpaceImage)) |
//! | 39 map entry | the page is one of a heap file's map; slot: the entry; row: the heap page |
//! | 40 ended | the ghosts of its committed transaction are removed |
//! | 41 prepared | row: where the log it needs begins; image after: number 16, locks (name 8, mode 1); within: below |
//! | 42 checkpoint | row: where it began; image after: dirty pages (page 4, recovery LSN 8 each); within: as below |
//!
//! Kinds 32 and 35 to 39 are parts of a step, which is redone as a whole: *within* is how many of its records
//! follow, and each names the one before as previous. So are those of kind 42 parts of a checkpoint, and those of
//! kind 41 of one list: the transaction is prepared with the last.
//!
//! Not here: files, buffers.

use super::{Change, ChangeKind};
use crate::header_copies::{long, short};
use crate::paged::heap::Place;
use crate::paged::page::{PAGE_BYTES_MAX, PageId, PageKind, SlotKind, StoreId, runs_bytes_max};
use crate::paged::step::{FreedPage, MadePage, MapEntry};
use crate::row::RowId;

/// Records begin at multiples of this and are as long as a multiple of it.
pub const ALIGNMENT_BYTES: usize = 8;

const LENGTH: usize = 0;
const KIND: usize = LENGTH + 2;
const FLAGS: usize = KIND + 1;
const STORE: usize = FLAGS + 1;
const SLOT: usize = STORE + 2;
const PAGE: usize = SLOT + 2;
const WITHIN: usize = PAGE + 4;
const BEFORE_BYTES: usize = WITHIN + 2;
const TRANSACTION: usize = BEFORE_BYTES + 2;
const ROW: usize = TRANSACTION + 8;
const PREVIOUS: usize = ROW + 8;

/// Where the images begin: of a change of a row or value, of a change of an entry, of all other records.
const ROW_HEADER_BYTES: usize = ROW;
const ENTRY_HEADER_BYTES: usize = PREVIOUS;
const CONTROL_HEADER_BYTES: usize = PREVIOUS + 8;

/// The length of the record that ends a transaction.
pub const END_BYTES: usize = CONTROL_HEADER_BYTES;

/// The longest image: of a page, or of the longest row.
pub const IMAGE_BYTES_MAX: usize = runs_bytes_max(PAGE_BYTES_MAX);

/// The longest record.
pub const RECORD_BYTES_MAX: usize = aligned(CONTROL_HEADER_BYTES + 2 * IMAGE_BYTES_MAX);

const REDO_ONLY: u8 = 1;
const CLEARS: u8 = 1 << 1;
const VALUE: u8 = 1 << 2;
const PADDING_SHIFT: u32 = 3;
const PADDING: u8 = 7 << PADDING_SHIFT;

const PAGE_IMAGE: u8 = 32;
const COMMITTED: u8 = 33;
const ABORTED: u8 = 34;
const PAGE_FREED: u8 = 35;
const PAGE_MADE: u8 = 36;
const SPACE: u8 = 37;
const MAP_ENTRY: u8 = 39;
const ENDED: u8 = 40;
const PREPARED: u8 = 41;
const CHECKPOINT: u8 = 42;

const _: () = assert!(RECORD_BYTES_MAX / ALIGNMENT_BYTES <= u16::MAX as usize);
const _: () = assert!(TRANSACTION == 16 && IMAGE_BYTES_MAX <= u16::MAX as usize);

/// The length of a change with so many bytes of images.
#[inline(always)]
pub const fn change_bytes(kind: ChangeKind, image_bytes: usize) -> usize {
    aligned(change_header_bytes(kind) + image_bytes)
}

/// The length of another record with an image of so many bytes.
#[inline(always)]
pub const fn control_bytes(image_bytes: usize) -> usize {
    aligned(CONTROL_HEADER_BYTES + image_bytes)
}

#[inline(always)]
const fn change_header_bytes(kind: ChangeKind) -> usize {
    if kind.is_of_entry() { ENTRY_HEADER_BYTES } else { ROW_HEADER_BYTES }
}

#[inline(always)]
const fn aligned(bytes: usize) -> usize {
    (bytes + (ALIGNMENT_BYTES - 1)) & !(ALIGNMENT_BYTES - 1)
}

/// What a record says. What distinguishes these is a number of its own: hidden in a place's kind, it would
/// not be known where a change is logged, which would take 60 instructions more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Content<'a> {
    /// Something changed.
    Change {
        /// What.
        change: Change,
        /// The bytes as they were.
        before: &'a [u8],
        /// The bytes as they became.
        after: &'a [u8],
    },
    /// What a page was after a structure modification.
    PageImage {
        /// Whose it is.
        store: StoreId,
        /// Which.
        page: PageId,
        /// How many records of the same step come behind it; each names the one before as previous.
        following: u16,
        /// Whether they make all of it, from zeros on; else from what it was.
        is_whole: bool,
        /// Runs of words (`page/runs.rs`).
        bytes: &'a [u8],
    },
    /// A structure modification gave a page back.
    PageFreed {
        /// Which, and the free page behind it.
        freed: FreedPage,
        /// As of a page image: how many records of the same step come behind it.
        following: u16,
    },
    /// An empty page was made.
    PageMade {
        /// Which.
        made: MadePage,
        /// As of a page image.
        following: u16,
    },
    /// What page 0 says of the file's pages changed.
    Space {
        /// A [`SpaceImage`](crate::paged::step::SpaceImage).
        bytes: &'a [u8],
        /// As of a page image.
        following: u16,
    },
    /// A heap page was entered in its file's map.
    MapEntry {
        /// Where, and which.
        entry: MapEntry,
        /// As of a page image.
        following: u16,
    },
    /// The transaction committed.
    Committed {
        /// The log before this LSN was known to be durable.
        durable: u64,
        /// Whether it deleted something, which is cleared away before it has ended.
        clears: bool,
    },
    /// What the committed transaction deleted is cleared away.
    Ended,
    /// The transaction may commit or abort, as its coordinator decides.
    Prepared {
        /// A restart needs the log from this LSN on until it is decided.
        since: u64,
        /// How many records of its list come behind.
        following: u16,
        /// The coordinator's number for it and some of its locks.
        bytes: &'a [u8],
    },
    /// A checkpoint was made.
    Checkpoint {
        /// The log's end when it began.
        began: u64,
        /// How many records of it come behind.
        following: u16,
        /// Pages of which the file may lack changes logged before this record, and from which LSN on.
        bytes: &'a [u8],
    },
    /// The transaction is undone.
    Aborted {
        /// The log before this LSN was known to be durable.
        durable: u64,
    },
}

impl Content<'_> {
    /// Says how many records of its step come behind it, which are 0 for what is no part of one.
    pub(super) fn set_following(&mut self, count: u16) {
        match self {
            Self::PageImage { following, .. }
            | Self::PageFreed { following, .. }
            | Self::PageMade { following, .. }
            | Self::Space { following, .. }
            | Self::MapEntry { following, .. } => *following = count,
            _ => {}
        }
    }
}

/// A log record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Whether it is redone and never undone.
    pub is_redo_only: bool,
    /// The transaction, 0 for none.
    pub transaction: u64,
    /// The LSN of the record before this one of its transaction, step, list or checkpoint, 0 for none; 0 of a
    /// change.
    pub previous: u64,
    /// What it says.
    pub content: Content<'a>,
}

/// The fields of a header but lengths, as they are stored.
#[derive(Clone, Copy, Debug)]
struct Fields {
    kind: u8,
    store: StoreId,
    place: Place,
    within: u16,
    row: u64,
}

impl<'a> Record<'a> {
    /// How long it is, in bytes.
    #[inline(always)]
    pub const fn bytes(&self) -> usize {
        let (before, after) = self.images();
        aligned(self.header_bytes() + before.len() + after.len())
    }

    /// How many bytes its header has.
    #[inline(always)]
    const fn header_bytes(&self) -> usize {
        match self.content {
            Content::Change { change, .. } => change_header_bytes(change.kind),
            _ => CONTROL_HEADER_BYTES,
        }
    }

    /// The images before and after.
    #[inline(always)]
    pub(super) const fn images(&self) -> (&'a [u8], &'a [u8]) {
        match self.content {
            Content::Change { before, after, .. } => (before, after),
            Content::PageImage { bytes, .. }
            | Content::Space { bytes, .. }
            | Content::Checkpoint { bytes, .. }
            | Content::Prepared { bytes, .. } => (&[], bytes),
            _ => (&[], &[]),
        }
    }

    /// Of a part of a step, how many of the step's records come behind it.
    pub const fn following(&self) -> Option<u16> {
        match self.content {
            Content::PageImage { following, .. }
            | Content::PageFreed { following, .. }
            | Content::PageMade { following, .. }
            | Content::Space { following, .. }
            | Content::MapEntry { following, .. } => Some(following),
            _ => None,
        }
    }

    /// The page it changes, if it is redone; page 0 for what is known of all.
    pub const fn page(&self) -> Option<PageId> {
        match self.content {
            Content::Change { change, .. } => Some(change.place.page),
            Content::PageImage { page, .. } => Some(page),
            Content::PageFreed { freed, .. } => Some(freed.page),
            Content::PageMade { made, .. } => Some(made.page),
            Content::MapEntry { entry, .. } => Some(entry.map),
            Content::Space { .. } => Some(PageId(0)),
            _ => None,
        }
    }

    #[inline(always)]
    fn fields(&self) -> Fields {
        const NOWHERE: Place = Place { page: PageId(0), slot: 0, kind: SlotKind::Free };
        let control = |kind| Fields { kind, store: StoreId(0), place: NOWHERE, within: 0, row: 0 };
        match self.content {
            Content::Change { change, .. } => {
                let Change { kind, store, place, row, within } = change;
                debug_assert!(kind.is_of_entry() || place.row() == row, "a row lies in its place");
                Fields { kind: kind as u8, store, place, within, row: row.location() }
            }
            Content::PageImage { store, page, following, is_whole, .. } => {
                let place = Place { page, slot: is_whole.into(), ..NOWHERE };
                Fields { store, place, within: following, ..control(PAGE_IMAGE) }
            }
            Content::PageFreed { freed: FreedPage { page, next }, following } => {
                let (place, row) = (Place { page, ..NOWHERE }, next.map_or(0, |id| id.0.into()));
                Fields { place, within: following, row, ..control(PAGE_FREED) }
            }
            Content::PageMade { made: MadePage { page, store, kind, extra }, following } => {
                let place = Place { page, slot: kind as u16, ..NOWHERE };
                Fields { store, place, within: following, row: extra.into(), ..control(PAGE_MADE) }
            }
            Content::Space { following, .. } => Fields { within: following, ..control(SPACE) },
            Content::MapEntry { entry: MapEntry { store, map, slot, page }, following } => {
                let place = Place { page: map, slot, ..NOWHERE };
                let row = page.0.into();
                Fields { store, place, within: following, row, ..control(MAP_ENTRY) }
            }
            Content::Ended => control(ENDED),
            Content::Prepared { since, following, .. } => {
                Fields { within: following, row: since, ..control(PREPARED) }
            }
            Content::Checkpoint { began, following, .. } => {
                Fields { within: following, row: began, ..control(CHECKPOINT) }
            }
            Content::Committed { durable, .. } => Fields { row: durable, ..control(COMMITTED) },
            Content::Aborted { durable } => Fields { row: durable, ..control(ABORTED) },
        }
    }

    /// Its header, of which a change has only the first bytes.
    ///
    /// # Panics
    /// When an image is longer than the longest row or page.
    #[inline(always)]
    pub(super) fn header(&self) -> [u8; CONTROL_HEADER_BYTES] {
        let (before, after) = self.images();
        assert!(
            before.len() <= IMAGE_BYTES_MAX && after.len() <= IMAGE_BYTES_MAX,
            "images of {} and {} bytes are too long",
            before.len(),
            after.len()
        );
        let Fields { kind, store, place, within, row } = self.fields();
        let unpadded = self.header_bytes() + before.len() + after.len();
        let padding = (unpadded.wrapping_neg() % ALIGNMENT_BYTES) as u8;
        let clears = matches!(self.content, Content::Committed { clears: true, .. });
        let flags = (u8::from(self.is_redo_only) * REDO_ONLY)
            | (u8::from(clears) * CLEARS)
            | (u8::from(place.kind == SlotKind::Value) * VALUE)
            | (padding << PADDING_SHIFT);
        // In whole words, which take one instruction each.
        let length = (self.bytes() / ALIGNMENT_BYTES) as u64;
        let words = [
            word(
                LENGTH,
                [
                    (LENGTH, length),
                    (KIND, kind.into()),
                    (FLAGS, flags.into()),
                    (STORE, store.0.into()),
                    (SLOT, place.slot.into()),
                ],
            ),
            word(
                PAGE,
                [
                    (PAGE, place.page.0.into()),
                    (WITHIN, within.into()),
                    (BEFORE_BYTES, before.len() as u64),
                ],
            ),
            self.transaction,
            row,
            self.previous,
        ];
        let mut header = [0; CONTROL_HEADER_BYTES];
        for (bytes, word) in header.as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *bytes = word.to_le_bytes();
        }
        header
    }

    /// Appends the record to `out`, where it ends with its length; says where it begins.
    ///
    /// # Panics
    /// As [`Record::header`].
    #[inline(always)]
    pub(crate) fn encode(&self, out: &mut Vec<u8>) -> usize {
        let start = out.len();
        debug_assert!(start.is_multiple_of(ALIGNMENT_BYTES));
        let (before, after) = self.images();
        let bytes = self.bytes();
        // What is written beyond its end, and cut off again, costs less than writing a length that varies.
        out.reserve(bytes + CONTROL_HEADER_BYTES);
        out.extend_from_slice(&self.header());
        out.truncate(start + self.header_bytes());
        if !before.is_empty() {
            out.extend_from_slice(before);
        }
        out.extend_from_slice(after);
        out.extend_from_slice(&[0; ALIGNMENT_BYTES]);
        out.truncate(start + bytes);
        debug_assert_eq!(Record::parse(&out[start..]), Ok(*self));
        start
    }

    /// Reads the record at the beginning of `bytes`, which begin at `lsn` of the log.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn decode(bytes: &'a [u8], lsn: u64) -> Result<Self, &'static str> {
        let record = Self::first_of(bytes)?;
        if record.previous >= lsn.max(1) {
            return Err("it leads to a later record as if that were earlier");
        }
        Ok(record)
    }

    /// Reads the record at the beginning of `bytes`, all of which were encoded here.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn first_of(bytes: &'a [u8]) -> Result<Self, &'static str> {
        let length = length(bytes)?;
        bytes.get(..length).map_or(Err("the record is cut off"), Self::parse)
    }

    /// Reads a whole record.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self, &'static str> {
        if length(bytes)? != bytes.len() {
            return Err("the record is cut off");
        }
        let (kind, flags) = (ChangeKind::from_byte(bytes[KIND]), bytes[FLAGS]);
        let header_bytes = kind.map_or(CONTROL_HEADER_BYTES, change_header_bytes);
        let padding = usize::from((flags & PADDING) >> PADDING_SHIFT);
        let (whole, zeros) = bytes.split_at(bytes.len() - padding);
        let images = whole.get(header_bytes..).unwrap_or_default();
        let images = images.split_at_checked(read_u16(bytes, BEFORE_BYTES).into());
        let Some((before, after)) = images.filter(|_| whole.len() >= header_bytes) else {
            return Err("the images' lengths contradict the record's");
        };
        let known = if bytes[KIND] == COMMITTED { CLEARS } else { 0 };
        let known = if kind.is_some() { VALUE } else { known };
        if flags & !(REDO_ONLY | PADDING | known) != 0 || zeros.iter().any(|&byte| byte != 0) {
            return Err("bits are set that have no meaning");
        }
        let content = match kind {
            Some(kind) => change_content(bytes, kind, before, after),
            None if !before.is_empty() => return Err("an image before, and no change"),
            None => control_content(bytes, after)?,
        };
        let is_redo_only = flags & REDO_ONLY != 0;
        let transaction = long(bytes, TRANSACTION);
        let previous = if kind.is_none() { long(bytes, PREVIOUS) } else { 0 };
        Ok(Self { is_redo_only, transaction, previous, content })
    }
}

/// The length of the record at the beginning of `bytes`, if it can be one.
pub(super) fn length(bytes: &[u8]) -> Result<usize, &'static str> {
    if bytes.len() < ROW_HEADER_BYTES {
        return Err("the record's header is cut off");
    }
    match usize::from(read_u16(bytes, LENGTH)) * ALIGNMENT_BYTES {
        length @ ROW_HEADER_BYTES..=RECORD_BYTES_MAX => Ok(length),
        _ => Err("the length is none that a record can have"),
    }
}

fn change_content<'a>(
    bytes: &[u8],
    kind: ChangeKind,
    before: &'a [u8],
    after: &'a [u8],
) -> Content<'a> {
    let is_value = bytes[FLAGS] & VALUE != 0;
    let slot_kind = if is_value { SlotKind::Value } else { SlotKind::Record };
    let page = PageId(short(bytes, PAGE));
    let place = Place { page, slot: read_u16(bytes, SLOT), kind: slot_kind };
    let row = if kind.is_of_entry() { RowId::new(long(bytes, ROW)) } else { place.row() };
    let (store, within) = (StoreId(read_u16(bytes, STORE)), read_u16(bytes, WITHIN));
    Content::Change { change: Change { kind, store, place, row, within }, before, after }
}

fn control_content<'a>(bytes: &[u8], after: &'a [u8]) -> Result<Content<'a>, &'static str> {
    let (row, following) = (long(bytes, ROW), read_u16(bytes, WITHIN));
    Ok(match bytes[KIND] {
        PAGE_IMAGE => {
            let (store, page) = (StoreId(read_u16(bytes, STORE)), PageId(short(bytes, PAGE)));
            let is_whole = match read_u16(bytes, SLOT) {
                slot @ 0..=1 => slot == 1,
                _ => return Err("bits are set that have no meaning"),
            };
            Content::PageImage { store, page, following, is_whole, bytes: after }
        }
        COMMITTED => Content::Committed { durable: row, clears: bytes[FLAGS] & CLEARS != 0 },
        ABORTED => Content::Aborted { durable: row },
        ENDED => Content::Ended,
        PREPARED => Content::Prepared { since: row, following, bytes: after },
        CHECKPOINT => Content::Checkpoint { began: row, following, bytes: after },
        PAGE_FREED..=MAP_ENTRY => return step_content(bytes, after),
        _ => return Err("unknown kind"),
    })
}

/// Parts of a step but images.
fn step_content<'a>(bytes: &[u8], after: &'a [u8]) -> Result<Content<'a>, &'static str> {
    let store = StoreId(read_u16(bytes, STORE));
    let page = PageId(short(bytes, PAGE));
    let (slot, following) = (read_u16(bytes, SLOT), read_u16(bytes, WITHIN));
    let Ok(number) = u32::try_from(long(bytes, ROW)) else { return Err("a number too large") };
    Ok(match bytes[KIND] {
        PAGE_FREED => {
            let next = (number != 0).then_some(PageId(number));
            Content::PageFreed { freed: FreedPage { page, next }, following }
        }
        PAGE_MADE => {
            let kind = u8::try_from(slot).ok().and_then(PageKind::from_byte);
            let Some(kind) = kind else { return Err("a page of no kind") };
            let made = MadePage { page, store, kind, extra: number };
            Content::PageMade { made, following }
        }
        SPACE => Content::Space { bytes: after, following },
        MAP_ENTRY => {
            let entry = MapEntry { store, map: page, slot, page: PageId(number) };
            Content::MapEntry { entry, following }
        }
        _ => return Err("unknown kind"),
    })
}

/// The word of a header that begins at `start`, made of the fields in it and where each begins.
#[inline(always)]
fn word<const N: usize>(start: usize, fields: [(usize, u64); N]) -> u64 {
    fields.iter().fold(0, |word, (at, value)| word | value << (8 * (at - start)))
}

#[inline(always)]
fn read_u16(bytes: &[u8], at: usize) -> u16 {
    let mut value = [0; 2];
    value.copy_from_slice(&bytes[at..at + 2]);
    u16::from_le_bytes(value)
}
