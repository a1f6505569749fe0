//! What a log record looks like.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 4 | length of the whole record, a multiple of 8 |
//! | 4 | 4 | checksum (below) |
//! | 8 | 1 | kind: 1–9 a change ([`ChangeKind`]), 32–42 below |
//! | 9 | 1 | flags: bit 0 redo only; bit 1, of *committed*, that *ended* follows |
//! | 10 | 2 | store |
//! | 12 | 4 | page |
//! | 16 | 2 | slot |
//! | 18 | 1 | what lies in the slot, of a change: 1 a row or an entry, 2 a value; else 0 |
//! | 19 | 1 | 0 |
//! | 20 | 2 | within: where in the row the images begin |
//! | 22 | 2 | bytes of the image before |
//! | 24 | 2 | bytes of the image after |
//! | 26 | 6 | 0 |
//! | 32 | 8 | row: its location + 1, 0 for none; or as below |
//! | 40 | 8 | transaction, 0 for none |
//! | 48 | 8 | previous: LSN of the transaction's record before this one, 0 for none |
//! | 56 | 8 | undo next: if redo only, the LSN where undo continues, 0 for nowhere |
//! | 64 | | the image before, the image after, zeros up to the length |
//!
//! All numbers are little-endian. The checksum is the CRC-32C that starts from the length and runs
//! over all bytes from offset 8 on, exclusive-or the low 32 bits of the record's own LSN.
//!
//! | kind | besides the page it names |
//! |---|---|
//! | 32 page image | all its bytes as the image after |
//! | 33 committed, 34 aborted | row: the log was known to be durable up to this LSN, exclusive |
//! | 35 page freed | row: the free page behind it, 0 for none |
//! | 36 page made | slot: its kind; row: its owner's number (*extra* in docs/format.md) |
//! | 37 space | image after: what page 0 says of the file's pages ([`SpaceImage`](crate::paged::step::SpaceImage)) |
//! | 39 map entry | the page is one of a heap file's map; slot: the entry; row: the heap page |
//! | 40 ended | what its committed transaction deleted is cleared away |
//! | 41 prepared | row: where the log it needs begins; image after: number 16, locks (name 8, mode 1); within: below |
//! | 42 checkpoint | row: where it began; image after: dirty pages (page 4, recovery LSN 8 each); within: as below |
//!
//! Kinds 32 and 35 to 39 are parts of a step, which is redone as a whole: *within* is how many of its records
//! follow, and each names the one before as previous. So are those of kind 42 parts of a checkpoint, and those of
//! kind 41 of one list: the transaction is prepared with the last.
//!
//! A record in another place than the one it was written for is found
//! by its checksum, and so is a length or a byte that changed. Not here: files, buffers.

use super::{Change, ChangeKind};
use crate::checksum::append_short;
use crate::header_copies::{long, short};
use crate::paged::heap::Place;
use crate::paged::page::{PAGE_BYTES_MAX, PageId, PageKind, SlotKind, StoreId};
use crate::paged::step::{FreedPage, MadePage, MapEntry};
use crate::row::RowId;

/// Records begin at multiples of this and are as long as a multiple of it.
pub const ALIGNMENT_BYTES: usize = 8;

const LENGTH: usize = 0;
const CHECKSUM: usize = LENGTH + 4;
const KIND: usize = CHECKSUM + 4;
const FLAGS: usize = KIND + 1;
const STORE: usize = FLAGS + 1;
const PAGE: usize = STORE + 2;
const SLOT: usize = PAGE + 4;
const SLOT_KIND: usize = SLOT + 2;
const NO_USE: usize = SLOT_KIND + 1;
const WITHIN: usize = NO_USE + 1;
const BEFORE_BYTES: usize = WITHIN + 2;
const AFTER_BYTES: usize = BEFORE_BYTES + 2;
const ZERO: usize = AFTER_BYTES + 2;
const ROW: usize = ZERO + 6;
const TRANSACTION: usize = ROW + 8;
const PREVIOUS: usize = TRANSACTION + 8;
const UNDO_NEXT: usize = PREVIOUS + 8;

/// Where the images begin: the length of a record without any.
pub const HEADER_BYTES: usize = UNDO_NEXT + 8;

/// The longest image: of a page, or of the longest row.
pub const IMAGE_BYTES_MAX: usize = PAGE_BYTES_MAX;

/// The longest record.
pub const RECORD_BYTES_MAX: usize = record_bytes(2 * IMAGE_BYTES_MAX);

const REDO_ONLY: u8 = 1;
const CLEARS: u8 = 2;

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

const _: () = assert!(HEADER_BYTES == 64 && HEADER_BYTES.is_multiple_of(ALIGNMENT_BYTES));
const _: () = assert!(ROW.is_multiple_of(8) && IMAGE_BYTES_MAX <= u16::MAX as usize);

/// The length of a record with so many bytes of images.
#[inline(always)]
pub const fn record_bytes(image_bytes: usize) -> usize {
    (HEADER_BYTES + image_bytes + (ALIGNMENT_BYTES - 1)) & !(ALIGNMENT_BYTES - 1)
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
        /// All its bytes.
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
    /// The LSN of the transaction's record before this one, 0 for none.
    pub previous: u64,
    /// Of a record that is redone only, where undoing its transaction continues; 0 for nowhere.
    pub undo_next: u64,
    /// What it says.
    pub content: Content<'a>,
}

/// The fields of a header but the length of images, as they are stored.
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
        match self.content {
            Content::Change { before, after, .. } => record_bytes(before.len() + after.len()),
            Content::PageImage { bytes, .. }
            | Content::Space { bytes, .. }
            | Content::Checkpoint { bytes, .. }
            | Content::Prepared { bytes, .. } => record_bytes(bytes.len()),
            _ => HEADER_BYTES,
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
                Fields { kind: kind as u8, store, place, within, row: row.location() + 1 }
            }
            Content::PageImage { store, page, following, .. } => {
                let place = Place { page, ..NOWHERE };
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

    /// Its header, without checksum.
    ///
    /// # Panics
    /// When an image is longer than the longest row or page.
    #[inline(always)]
    pub(super) fn header(&self) -> [u8; HEADER_BYTES] {
        let (before, after) = self.images();
        assert!(
            before.len() <= IMAGE_BYTES_MAX && after.len() <= IMAGE_BYTES_MAX,
            "images of {} and {} bytes are too long",
            before.len(),
            after.len()
        );
        let Fields { kind, store, place, within, row } = self.fields();
        let clears = matches!(self.content, Content::Committed { clears: true, .. });
        let flags = (u8::from(self.is_redo_only) * REDO_ONLY) | (u8::from(clears) * CLEARS);
        // In whole words, which take one instruction each.
        let (page, slot_kind) = (u64::from(place.page.0), place.kind as u8);
        let words = [
            self.bytes() as u64,
            word(
                KIND,
                [(KIND, kind.into()), (FLAGS, flags.into()), (STORE, store.0.into()), (PAGE, page)],
            ),
            word(
                SLOT,
                [
                    (SLOT, place.slot.into()),
                    (SLOT_KIND, slot_kind.into()),
                    (WITHIN, within.into()),
                    (BEFORE_BYTES, before.len() as u64),
                ],
            ),
            word(AFTER_BYTES, [(AFTER_BYTES, after.len() as u64)]),
            row,
            self.transaction,
            self.previous,
            self.undo_next,
        ];
        let mut header = [0; HEADER_BYTES];
        for (bytes, word) in header.as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *bytes = word.to_le_bytes();
        }
        header
    }

    /// Appends the record to `out`, where it ends with its length; says where it begins. It is to be
    /// stamped with its place in the log ([`stamp`]) before it is written there.
    ///
    /// # Panics
    /// As [`Record::header`].
    #[inline(always)]
    pub(crate) fn encode(&self, out: &mut Vec<u8>) -> usize {
        let start = out.len();
        debug_assert!(start.is_multiple_of(ALIGNMENT_BYTES));
        let (before, after) = self.images();
        let bytes = self.bytes();
        out.resize(start + bytes, 0);
        let record = &mut out[start..];
        let (header, images) = record.split_at_mut(HEADER_BYTES);
        header.copy_from_slice(&self.header());
        images[..before.len()].copy_from_slice(before);
        images[before.len()..][..after.len()].copy_from_slice(after);
        let sum = append_short(bytes as u32, &record[KIND..]);
        record[CHECKSUM..KIND].copy_from_slice(&sum.to_le_bytes());
        debug_assert_eq!(out.len(), start + bytes);
        debug_assert_eq!(Record::parse(&out[start..]), Ok(*self));
        start
    }

    /// Reads the record at the beginning of `bytes`, which begin at `lsn` of the log.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn decode(bytes: &'a [u8], lsn: u64) -> Result<Self, &'static str> {
        let length = length(bytes)?;
        let Some(bytes) = bytes.get(..length) else { return Err("the record is cut off") };
        let sum = append_short(length as u32, &bytes[KIND..]) ^ lsn as u32;
        if short(bytes, CHECKSUM) != sum {
            return Err("the checksum is wrong");
        }
        let record = Self::parse(bytes)?;
        if record.previous.max(record.undo_next) >= lsn.max(1) {
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

    /// Reads a whole record whose checksum was verified, or that never left memory.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self, &'static str> {
        let before_bytes = usize::from(read_u16(bytes, BEFORE_BYTES));
        let after_bytes = usize::from(read_u16(bytes, AFTER_BYTES));
        if record_bytes(before_bytes + after_bytes) != bytes.len() {
            return Err("the images' lengths contradict the record's");
        }
        let flags = if bytes[KIND] == COMMITTED { REDO_ONLY | CLEARS } else { REDO_ONLY };
        if bytes[FLAGS] & !flags != 0 || bytes[ZERO..ROW] != [0; ROW - ZERO] || bytes[NO_USE] != 0 {
            return Err("bits are set that have no meaning");
        }
        let (before, after) = bytes[HEADER_BYTES..].split_at(before_bytes);
        let content = content(bytes, before, &after[..after_bytes])?;
        let is_redo_only = bytes[FLAGS] & REDO_ONLY != 0;
        let at = |offset| long(bytes, offset);
        let (transaction, previous, undo_next) = (at(TRANSACTION), at(PREVIOUS), at(UNDO_NEXT));
        Ok(Self { is_redo_only, transaction, previous, undo_next, content })
    }
}

/// The length of the record at the beginning of `bytes`, if it can be one.
pub(super) fn length(bytes: &[u8]) -> Result<usize, &'static str> {
    if bytes.len() < HEADER_BYTES {
        return Err("the record's header is cut off");
    }
    let length = short(bytes, LENGTH) as usize;
    match length {
        HEADER_BYTES..=RECORD_BYTES_MAX if length.is_multiple_of(ALIGNMENT_BYTES) => Ok(length),
        _ => Err("the length is none that a record can have"),
    }
}

fn content<'a>(
    bytes: &[u8],
    before: &'a [u8],
    after: &'a [u8],
) -> Result<Content<'a>, &'static str> {
    let store = StoreId(read_u16(bytes, STORE));
    let page = PageId(short(bytes, PAGE));
    match bytes[KIND] {
        PAGE_IMAGE => {
            let following = read_u16(bytes, WITHIN);
            return Ok(Content::PageImage { store, page, following, bytes: after });
        }
        COMMITTED => {
            let clears = bytes[FLAGS] & CLEARS != 0;
            return Ok(Content::Committed { durable: long(bytes, ROW), clears });
        }
        ABORTED => return Ok(Content::Aborted { durable: long(bytes, ROW) }),
        ENDED => return Ok(Content::Ended),
        PREPARED => {
            let (since, following) = (long(bytes, ROW), read_u16(bytes, WITHIN));
            return Ok(Content::Prepared { since, following, bytes: after });
        }
        CHECKPOINT => {
            let (began, following) = (long(bytes, ROW), read_u16(bytes, WITHIN));
            return Ok(Content::Checkpoint { began, following, bytes: after });
        }
        PAGE_FREED..=MAP_ENTRY => return step_content(bytes, after),
        _ => {}
    }
    let Some(kind) = ChangeKind::from_byte(bytes[KIND]) else { return Err("unknown kind") };
    let Some(location) = long(bytes, ROW).checked_sub(1) else {
        return Err("a change that names no row");
    };
    let slot_kind = SlotKind::from_bits(bytes[SLOT_KIND].into());
    let Some(slot_kind) = slot_kind.filter(|kind| *kind != SlotKind::Free) else {
        return Err("a change of nothing that lies in a slot");
    };
    let place = Place { page, slot: read_u16(bytes, SLOT), kind: slot_kind };
    let row = RowId::new(location);
    let change = Change { kind, store, place, row, within: read_u16(bytes, WITHIN) };
    Ok(Content::Change { change, before, after })
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

/// Makes an encoded record's checksum that of a record at `lsn`, where it was of none.
#[inline(always)]
pub(super) fn stamp(record: &mut [u8], lsn: u64) {
    let checksum = short(record, CHECKSUM) ^ lsn as u32;
    record[CHECKSUM..KIND].copy_from_slice(&checksum.to_le_bytes());
}

/// Puts the checksum of a record whose only image follows separately into its header.
pub(super) fn seal(header: &mut [u8; HEADER_BYTES], image: &[u8]) {
    let length = short(header, LENGTH);
    assert_eq!(length as usize, HEADER_BYTES + image.len(), "such a record has no padding");
    let sum = append_short(append_short(length, &header[KIND..]), image);
    header[CHECKSUM..KIND].copy_from_slice(&sum.to_le_bytes());
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
