//! A part of an archive: a header of 128 bytes, then groups exactly as in their segment.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 8 | magic: `tombarc` and a line feed |
//! | 8 | 4 | version of the format |
//! | 12 | 4 | checksum: CRC-32C of bytes 0–11 and 16–127 |
//! | 16 | 8 | the log's salt |
//! | 24 | 8 | sequence number of the segment |
//! | 32 | 8 | segment bytes |
//! | 40 | 8 | block bytes |
//! | 48 | 8 | offset of the groups in the segment |
//! | 56 | 8 | bytes of the groups, including padding |
//! | 64 | 8 | first group |
//! | 72 | 8 | last group |
//! | 80 | 8 | transactions up to the last group |
//! | 88 | 8 | time of the first group, 0 for none |
//! | 96 | 8 | time of the last group, 0 for none |
//! | 104 | 4 | checksum of the group before the first |
//! | 108 | 4 | checksum of the last group |
//! | 112 | 4 | epoch of the first group |
//! | 116 | 4 | CRC-32C of the groups |
//! | 120 | 4 | 0 for a value log, 1 for a command log |
//! | 124 | 4 | 0 |
//!
//! Not here: choosing parts that belong together (`plan.rs`), writing parts (`archiver.rs`).

use super::super::groups::{AtGap, Chain, Groups, Place};
use super::super::reader::{Placed, SegmentReader};
use super::super::segment::{FIRST_GROUP_OFFSET, Header};
use super::super::settings::{GroupNumber, LogFailure, LogKind};
use super::super::start::LogPosition;
use super::{ArchiveFailure, open};
use crate::checksum;
use crate::disk::{Disk, DiskError};
use crate::header_copies::{long, short};

/// Bytes before the groups.
pub(super) const HEADER_BYTES: usize = 128;

/// The version of the format. Version 1, whose groups have no records of drops, can be read.
const FORMAT_VERSION: u32 = 2;

const MAGIC: [u8; 8] = *b"tombarc\n";
const VERSION: usize = 8;
const CHECKSUM: usize = 12;
const FIELDS: usize = 16;
const SHORT_FIELDS: usize = FIELDS + 11 * 8;
const _: () = assert!(SHORT_FIELDS + 6 * 4 == HEADER_BYTES);

const PREFIX: &str = "archive-";

/// The fields of a part's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) kind: LogKind,
    pub(super) salt: u64,
    pub(super) sequence: u64,
    pub(super) segment_bytes: u64,
    pub(super) block_bytes: u64,
    /// The offset of the groups in the segment.
    pub(super) offset: u64,
    pub(super) bytes: u64,
    pub(super) first: GroupNumber,
    pub(super) last: GroupNumber,
    pub(super) transactions: u64,
    pub(super) first_us: u64,
    pub(super) last_us: u64,
    /// The checksum of the group before the first.
    pub(super) previous: u32,
    /// The checksum of the last group.
    pub(super) checksum: u32,
    /// The epoch of the first group.
    pub(super) epoch: u32,
    /// CRC-32C of the groups.
    pub(super) content: u32,
}

impl Head {
    /// The position of the part's end.
    pub(super) const fn end(&self) -> LogPosition {
        let Self { last, checksum, transactions, .. } = *self;
        LogPosition { group: last, checksum, transactions }
    }

    /// The part's name.
    pub(super) fn name(&self) -> String {
        format!("{PREFIX}{:06}-{:012}", self.epoch, self.first)
    }

    /// The header of its segment, for a file without other content.
    pub(super) const fn segment(&self) -> Header {
        let Self { kind, salt, sequence, segment_bytes, block_bytes, .. } = *self;
        Header { kind, sequence, segment_bytes, block_bytes, salt, uses: 1 }
    }

    pub(super) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut out = [0; HEADER_BYTES];
        out[..VERSION].copy_from_slice(&MAGIC);
        out[VERSION..CHECKSUM].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        let long = [
            self.salt,
            self.sequence,
            self.segment_bytes,
            self.block_bytes,
            self.offset,
            self.bytes,
            self.first,
            self.last,
            self.transactions,
            self.first_us,
            self.last_us,
        ];
        for (field, value) in out[FIELDS..].chunks_mut(8).zip(long) {
            field.copy_from_slice(&value.to_le_bytes());
        }
        let kind = u32::from(self.kind == LogKind::Command);
        let short = [self.previous, self.checksum, self.epoch, self.content, kind];
        for (field, value) in out[SHORT_FIELDS..].chunks_mut(4).zip(short) {
            field.copy_from_slice(&value.to_le_bytes());
        }
        let checksum = checksum(&out);
        out[CHECKSUM..FIELDS].copy_from_slice(&checksum.to_le_bytes());
        out
    }

    /// The header in `bytes`, or its error: damage, or another version.
    fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Self, Wrong> {
        if bytes[..VERSION] != MAGIC || short(bytes, CHECKSUM) != checksum(bytes) {
            return Err(Wrong::Damaged);
        }
        let version = short(bytes, VERSION);
        if !(1..=FORMAT_VERSION).contains(&version) {
            return Err(Wrong::Version(version));
        }
        let long = |n: usize| long(bytes, FIELDS + 8 * n);
        let short = |n: usize| short(bytes, SHORT_FIELDS + 4 * n);
        let head = Self {
            kind: if short(4) == 1 { LogKind::Command } else { LogKind::Value },
            salt: long(0),
            sequence: long(1),
            segment_bytes: long(2),
            block_bytes: long(3),
            offset: long(4),
            bytes: long(5),
            first: long(6),
            last: long(7),
            transactions: long(8),
            first_us: long(9),
            last_us: long(10),
            previous: short(0),
            checksum: short(1),
            epoch: short(2),
            content: short(3),
        };
        if head.is_possible() { Ok(head) } else { Err(Wrong::Damaged) }
    }

    fn is_possible(&self) -> bool {
        let end = self.offset.checked_add(self.bytes);
        self.segment().is_possible()
            && self.first <= self.last
            && self.offset >= FIRST_GROUP_OFFSET
            && self.offset.is_multiple_of(self.block_bytes)
            && self.bytes.is_multiple_of(self.block_bytes)
            && end.is_some_and(|end| end <= self.segment_bytes)
    }
}

enum Wrong {
    Version(u32),
    Damaged,
}

fn checksum(header: &[u8; HEADER_BYTES]) -> u32 {
    checksum::of(&[&header[..CHECKSUM], &header[FIELDS..]])
}

/// Whether a file's name is a part's.
pub(super) fn is_part(name: &str) -> bool {
    let numbers = name.strip_prefix(PREFIX).and_then(|numbers| numbers.split_once('-'));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    numbers.is_some_and(|(epoch, group)| is_number(epoch) && is_number(group))
}

/// A part of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// Its name, within the directory.
    pub(super) name: String,
    /// Its path, for messages.
    pub(super) path: String,
    pub(super) head: Head,
}

impl Part {
    /// Reads a part's header.
    ///
    /// # Errors
    /// `Damaged`, `OtherVersion`, `Disk`.
    pub(super) fn read(disk: &dyn Disk, name: String) -> Result<Self, ArchiveFailure> {
        let file = open(disk, &name)?;
        let (path, length) = (file.name().to_owned(), file.len()?);
        let damaged =
            |what: &str| Err(ArchiveFailure::Damaged { file: path.clone(), what: what.to_owned() });
        if length < HEADER_BYTES as u64 {
            return damaged("the file ends in its header");
        }
        let mut bytes = [0; HEADER_BYTES];
        file.read_at(&mut bytes, 0)?;
        let head = match Head::decode(&bytes) {
            Ok(head) => head,
            Err(Wrong::Damaged) => return damaged("its header is not as it was"),
            Err(Wrong::Version(found)) => {
                return Err(ArchiveFailure::OtherVersion { file: path, found });
            }
        };
        if length != HEADER_BYTES as u64 + head.bytes {
            return damaged(&format!("it has {length} bytes, not {}", head.bytes + 128));
        }
        match head.name() == name {
            true => Ok(Self { name, path, head }),
            false => damaged(&format!("it is {}, under another name", head.name())),
        }
    }

    /// Its groups.
    ///
    /// # Errors
    /// When the disk fails.
    pub(super) fn groups(&self, disk: &dyn Disk) -> Result<PartGroups<'_>, DiskError> {
        let Head { offset, bytes, first, previous, epoch, .. } = self.head;
        let (segment, held) = (self.head.segment(), offset..offset + bytes);
        let file = open(disk, &self.name)?;
        let reader = SegmentReader::of_part(file, segment, held, HEADER_BYTES as u64);
        let chain = Chain { number: first, previous: Some(previous), epoch };
        let place = Place { segment: 0, at: offset, chain };
        let groups = Groups { segments: vec![reader], place };
        Ok(PartGroups { part: self, groups, content: 0 })
    }

    fn is_damaged(&self, at: u64, what: &str) -> ArchiveFailure {
        let what = format!("at offset {}, {what}", HEADER_BYTES as u64 + at);
        ArchiveFailure::Damaged { file: self.path.clone(), what }
    }
}

/// The groups of a part, in order.
pub(super) struct PartGroups<'a> {
    part: &'a Part,
    groups: Groups,
    /// The checksum of the groups so far.
    content: u32,
}

impl PartGroups<'_> {
    /// The next group, with its bytes up to where the next one begins. It is verified, and so is that it follows
    /// the one before; behind the last, the file as a whole is, too.
    ///
    /// # Errors
    /// `Damaged`, `Disk`.
    pub(super) fn next(&mut self) -> Result<Option<(Placed, &[u8])>, ArchiveFailure> {
        let Head { offset, bytes, content, checksum, .. } = self.part.head;
        let Place { at, chain, .. } = self.groups.place;
        let damaged = |what| self.part.is_damaged(at - offset, what);
        if at == offset + bytes {
            return match (self.content, chain.previous) == (content, Some(checksum)) {
                true => Ok(None),
                false => Err(damaged("its groups are not those that were")),
            };
        }
        let placed = self.groups.next(AtGap::Stop).map_err(not_read)?;
        let placed = placed.ok_or_else(|| damaged("the group there is not the one that was"))?;
        let bytes = self.groups.reader().whole(&placed.group)?;
        self.content = checksum::append(self.content, bytes);
        Ok(Some((placed, bytes)))
    }
}

/// A part's disk failed, not the log's.
fn not_read(failure: LogFailure) -> ArchiveFailure {
    match failure {
        LogFailure::Disk(error) => error.into(),
        other => other.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head() -> Head {
        Head {
            kind: LogKind::Value,
            salt: 0x0123_4567_89ab_cdef,
            sequence: 7,
            segment_bytes: 64 << 20,
            block_bytes: 4096,
            offset: 8192,
            bytes: 12_288,
            first: 4711,
            last: 4713,
            transactions: 30_811,
            first_us: 5,
            last_us: 6,
            previous: 0xdead_beef,
            checksum: 0x0bad_cafe,
            epoch: 3,
            content: 0x5d1f_0a37,
        }
    }

    #[test]
    fn the_bytes_are_those_the_format_states() {
        let mut expected = b"tombarc\n\x02\0\0\0\0\0\0\0".to_vec();
        let long = [0x0123_4567_89ab_cdef_u64, 7, 64 << 20, 4096, 8192, 12_288];
        for field in long.into_iter().chain([4711, 4713, 30_811, 5, 6]) {
            expected.extend_from_slice(&field.to_le_bytes());
        }
        for field in [0xdead_beef_u32, 0x0bad_cafe, 3, 0x5d1f_0a37, 0, 0] {
            expected.extend_from_slice(&field.to_le_bytes());
        }
        let checksum = crc32c::crc32c_append(crc32c::crc32c(&expected[..12]), &expected[16..]);
        expected[12..16].copy_from_slice(&checksum.to_le_bytes());
        assert_eq!(head().encode().to_vec(), expected);
        assert_eq!(head().name(), "archive-000003-000000004711");
    }

    #[test]
    fn a_header_comes_back_and_no_flipped_bit_does() {
        let bytes = head().encode();
        assert_eq!(Head::decode(&bytes).ok(), Some(head()));
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes;
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(Head::decode(&changed).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn version_1_is_read_and_later_ones_are_not() {
        for (version, is_read) in [(0, false), (1, true), (2, true), (3, false)] {
            let mut bytes = head().encode();
            bytes[VERSION] = version;
            let checksum = checksum(&bytes).to_le_bytes();
            bytes[CHECKSUM..FIELDS].copy_from_slice(&checksum);
            match Head::decode(&bytes) {
                Ok(found) => assert!(is_read && found == head()),
                Err(wrong) => {
                    let other = u32::from(version);
                    assert!(!is_read && matches!(wrong, Wrong::Version(found) if found == other));
                }
            }
        }
    }

    #[test]
    fn parts_are_recognised_by_their_names() {
        assert!(is_part("archive-000003-000000004711") && is_part("archive-1-2"));
        for name in ["archive-unfinished", "archive-", "archive-1-", "archive-1-x", "log-1-2"] {
            assert!(!is_part(name), "{name}");
        }
    }
}
