//! A segment: a file of fixed length with groups, created and zeroed before it is used, and
//! reused when its groups are no longer needed.
//!
//! ```text
//!   0         4096      8192                                     segment bytes
//!   ┌─────────┬─────────┬─────────┬─────────┬─── ──┬─────────┬─────────────┐
//!   │ header  │ header  │ group   │ group   │  …   │ group   │ zeros, or a │
//!   │ copy 0  │ copy 1  │         │         │      │         │ former use  │
//!   └─────────┴─────────┴─────────┴─────────┴─── ──┴─────────┴─────────────┘
//! ```
//!
//! | offset | bytes | field of a header copy |
//! |---|---|---|
//! | 0 | 8 | magic: `tombval`, of a command log `tombcmd`, of a paged store's `tomblog`, and a line feed |
//! | 8 | 4 | version of the format |
//! | 12 | 4 | checksum: CRC-32C of bytes 0–11 and 16–51 |
//! | 16 | 8 | sequence number: the segments' order; never given twice |
//! | 24 | 8 | segment bytes |
//! | 32 | 8 | block bytes |
//! | 40 | 8 | salt: the same in all segments of a log, part of each group's checksum |
//! | 48 | 4 | uses: 1 for a new file, whose unwritten blocks are zero |
//!
//! One copy is written and synced, then the other, so one is always intact; of two intact copies the one with the
//! greater sequence number counts. The copy that does not count is overwritten first: it may be
//! damaged by a crash at this point. A file whose second copy is blank and whose first is
//! not intact was never finished: it contains no group.
//!
//! Not here: the creation of segments (`space.rs`), their content.

use super::aligned::AlignedBuffer;
use super::settings::{BLOCK_BYTES_MAX, FORMAT_VERSION, LogKind, LogSettings, is_readable};
use crate::disk::{Disk, DiskError, DiskFile, Open, Operation};
use crate::header_copies::{
    CONTENT_OFFSET, COPY_BYTES, Copy, Layout, OWN_FIELDS, VERSION, long, short,
};
use crate::plant::{self, Plant};

/// The offset of the first group.
pub(super) const FIRST_GROUP_OFFSET: u64 = CONTENT_OFFSET;

const SEGMENT_BYTES: usize = OWN_FIELDS;
const BLOCK_BYTES: usize = SEGMENT_BYTES + 8;
pub(super) const SALT: usize = BLOCK_BYTES + 8;
const USES: usize = SALT + 8;
const USED_BYTES: usize = USES + 4;

const fn layout(kind: LogKind) -> Layout {
    let magic = match kind {
        LogKind::Value => *b"tombval\n",
        LogKind::Command => *b"tombcmd\n",
        LogKind::Paged => *b"tomblog\n",
    };
    Layout { magic, version: FORMAT_VERSION, used_bytes: USED_BYTES }
}

const KINDS: [LogKind; 3] = [LogKind::Value, LogKind::Command, LogKind::Paged];

/// The kind of log whose header `copy` begins like.
fn kind_of(copy: &[u8]) -> Option<LogKind> {
    KINDS.into_iter().find(|&kind| copy.starts_with(&layout(kind).magic))
}

/// Bytes per write when a new segment is zeroed. A concurrent flush
/// waits for one such write, so it is short, although longer ones would take less time in total.
const FILL_BYTES: u64 = 128 << 10;

const PREFIX: &str = "log-";

/// The name of the file with this number.
pub(super) fn file_name(number: u64) -> String {
    format!("{PREFIX}{number:06}")
}

/// The number in a segment file's name.
pub(super) fn file_number(name: &str) -> Option<u64> {
    let digits = name.strip_prefix(PREFIX)?;
    if digits.bytes().all(|byte| byte.is_ascii_digit()) { digits.parse().ok() } else { None }
}

/// The fields of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) kind: LogKind,
    pub(super) sequence: u64,
    pub(super) segment_bytes: u64,
    pub(super) block_bytes: u64,
    /// The log's.
    pub(super) salt: u64,
    /// The number of times it got a sequence number.
    pub(super) uses: u32,
}

/// The content of a file with a segment's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Segment {
        header: Header,
        /// The copy with this header.
        copy: usize,
    },
    OtherVersion(u32),
    /// Never finished.
    Unfinished,
    /// Both copies are damaged.
    Damaged,
}

impl Header {
    /// Bytes for groups.
    pub(super) fn capacity(&self) -> u64 {
        self.segment_bytes - FIRST_GROUP_OFFSET
    }

    /// Fills `copy`, which is zero.
    pub(super) fn encode(&self, copy: &mut [u8]) {
        copy[SEGMENT_BYTES..BLOCK_BYTES].copy_from_slice(&self.segment_bytes.to_le_bytes());
        copy[BLOCK_BYTES..SALT].copy_from_slice(&self.block_bytes.to_le_bytes());
        copy[SALT..USES].copy_from_slice(&self.salt.to_le_bytes());
        copy[USES..USED_BYTES].copy_from_slice(&self.uses.to_le_bytes());
        layout(self.kind).encode(self.sequence, copy);
    }

    fn decode(copy: &[u8]) -> Copy<Self> {
        let kind = kind_of(copy).unwrap_or_default();
        // All readable versions have the same fields.
        let version = Some(short(copy, VERSION)).filter(|&version| is_readable(version));
        let version = version.unwrap_or(FORMAT_VERSION);
        Layout { version, ..layout(kind) }.decode(copy, |sequence, copy| {
            let header = Self {
                kind,
                sequence,
                segment_bytes: long(copy, SEGMENT_BYTES),
                block_bytes: long(copy, BLOCK_BYTES),
                salt: long(copy, SALT),
                uses: short(copy, USES),
            };
            header.is_possible().then_some(header)
        })
    }

    pub(super) fn is_possible(&self) -> bool {
        let block = self.block_bytes;
        block.is_power_of_two()
            && (512..=BLOCK_BYTES_MAX).contains(&block)
            && self.segment_bytes.is_multiple_of(block)
            && (FIRST_GROUP_OFFSET + block..=1 << 30).contains(&self.segment_bytes)
    }

    /// The other version, if both copies agree on it: they would not both be damaged in the same way.
    fn other_version(first: &[u8], second: &[u8]) -> Option<u32> {
        let agree = first[..OWN_FIELDS] == second[..OWN_FIELDS];
        let is_other = agree && kind_of(first).is_some();
        Some(short(first, VERSION)).filter(|&version| is_other && !is_readable(version))
    }

    /// The header of a file.
    ///
    /// # Errors
    /// When the disk fails.
    pub(super) fn read(file: &dyn DiskFile) -> Result<Found, DiskError> {
        // A shorter file was not finished, because its length is set first.
        if file.len()? < FIRST_GROUP_OFFSET {
            return Ok(Found::Unfinished);
        }
        let mut buffer = AlignedBuffer::default();
        let bytes = buffer.try_first(FIRST_GROUP_OFFSET as usize, Operation::Read, file)?;
        file.read_at(bytes, 0)?;
        let (first, second) = bytes.split_at(COPY_BYTES);
        if let Some(version) = Self::other_version(first, second) {
            return Ok(Found::OtherVersion(version));
        }
        Ok(match (Self::decode(first), Self::decode(second)) {
            (Copy::Intact(a), Copy::Intact(b)) if b.sequence > a.sequence => {
                Found::Segment { header: b, copy: 1 }
            }
            (Copy::Intact(header), _) => Found::Segment { header, copy: 0 },
            (_, Copy::Intact(header)) => Found::Segment { header, copy: 1 },
            (Copy::OtherVersion(version), _) | (_, Copy::OtherVersion(version)) => {
                Found::OtherVersion(version)
            }
            // Another version may have its checksum elsewhere.
            (Copy::Damaged(version), _) | (_, Copy::Damaged(version)) if !is_readable(version) => {
                Found::OtherVersion(version)
            }
            (_, Copy::Blank) => Found::Unfinished,
            _ => Found::Damaged,
        })
    }
}

/// A segment that is open for writing.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) file: Box<dyn DiskFile>,
    /// The number in its file's name, which identifies it; the file's own name is for messages.
    pub(super) number: u64,
    pub(super) header: Header,
    /// The copy of the header that is overwritten last.
    copy: usize,
    /// Whether that copy is certainly on the device: writes of an earlier process may be only in the
    /// system's memory, and a later sync does not make up for a failed one.
    is_certain: bool,
}

fn open(
    disk: &dyn Disk,
    name: &str,
    how: Open,
    direct: bool,
) -> Result<Box<dyn DiskFile>, DiskError> {
    if direct { disk.open_direct(name, how) } else { disk.open(name, how) }
}

/// Opens the file of a segment. If it requires a larger alignment than the segment's blocks have, it is
/// read and written through the system's cache.
///
/// # Errors
/// When the disk fails.
pub(super) fn open_blocks(
    disk: &dyn Disk,
    number: u64,
    how: Open,
    header: Header,
    direct: bool,
) -> Result<Box<dyn DiskFile>, DiskError> {
    let name = file_name(number);
    let file = open(disk, &name, how, direct)?;
    if file.alignment() as u64 > header.block_bytes { disk.open(&name, how) } else { Ok(file) }
}

impl Segment {
    /// Opens a segment whose header was read before, from `copy`.
    ///
    /// # Errors
    /// When the disk fails.
    pub(super) fn open(
        disk: &dyn Disk,
        number: u64,
        header: Header,
        copy: usize,
        direct: bool,
    ) -> Result<Self, DiskError> {
        let file = open_blocks(disk, number, Open::Write, header, direct)?;
        Ok(Self { file, number, header, copy, is_certain: false })
    }

    /// Creates a segment that is ready for groups.
    ///
    /// # Errors
    /// When the disk fails or is full (`is_full`); then the file is removed again.
    pub(super) fn create(
        disk: &dyn Disk,
        number: u64,
        sequence: u64,
        settings: &LogSettings,
    ) -> Result<Self, DiskError> {
        let name = file_name(number);
        let file = open(disk, &name, Open::New, settings.direct)?;
        let block_bytes = settings.block_bytes.max(file.alignment() as u64);
        let segment_bytes = settings.segment_bytes.next_multiple_of(block_bytes);
        let LogSettings { kind, salt, .. } = *settings;
        let header = Header { kind, sequence, segment_bytes, block_bytes, salt, uses: 1 };
        let mut segment = Self { file, number, header, copy: 1, is_certain: false };
        let made = segment.fill().and_then(|()| segment.write_header()).and_then(|()| {
            if plant::is(Plant::DroppedDirectoryFsync) { Ok(()) } else { disk.sync_dir() }
        });
        if let Err(error) = made {
            drop(segment);
            // If the file remains, the next recovery finds it unfinished and removes it.
            _ = disk.remove(&name);
            return Err(error);
        }
        Ok(segment)
    }

    /// Allocates the space and zeros it, so that writing a group changes only content, not metadata.
    fn fill(&mut self) -> Result<(), DiskError> {
        let total = self.header.segment_bytes;
        self.file.set_len(total)?;
        self.wipe(0, total)
    }

    /// Gives the segment a new sequence number; its former groups are no longer valid.
    ///
    /// # Errors
    /// When the disk fails.
    pub(super) fn renew(&mut self, sequence: u64) -> Result<(), DiskError> {
        assert!(sequence > self.header.sequence);
        self.confirm()?;
        self.header.sequence = sequence;
        self.header.uses = self.header.uses.saturating_add(1);
        self.write_header()
    }

    /// Writes zeros from one offset to another, both at block boundaries, and syncs them.
    ///
    /// # Errors
    /// When the disk fails.
    pub(super) fn wipe(&self, mut from: u64, to: u64) -> Result<(), DiskError> {
        let mut zeros = AlignedBuffer::default();
        let chunk_bytes = FILL_BYTES.min(to - from) as usize;
        zeros.reserve(chunk_bytes, Operation::Write, &*self.file)?;
        let chunk = zeros.zeroed(chunk_bytes);
        while from < to {
            let bytes = (to - from).min(chunk.len() as u64);
            self.file.write_at(&chunk[..bytes as usize], from)?;
            from += bytes;
        }
        self.file.sync()
    }

    /// Ensures that both copies of the header exist, as a segment with groups needs them:
    /// if its only copy were lost, the segment would look like a file that was never finished.
    ///
    /// # Errors
    /// When the disk fails.
    pub(super) fn whole(mut self) -> Result<Self, DiskError> {
        self.confirm()?;
        self.write_copy(1 - self.copy)?;
        Ok(self)
    }

    /// Ensures that the copy that counts is on the device. It writes the same bytes to the same place, so
    /// one copy is intact after any crash.
    fn confirm(&mut self) -> Result<(), DiskError> {
        if !self.is_certain {
            self.write_copy(self.copy)?;
            self.is_certain = true;
        }
        Ok(())
    }

    fn write_header(&mut self) -> Result<(), DiskError> {
        self.write_copy(1 - self.copy)?;
        self.write_copy(self.copy)?;
        self.is_certain = true;
        Ok(())
    }

    fn write_copy(&self, copy: usize) -> Result<(), DiskError> {
        let mut buffer = AlignedBuffer::default();
        buffer.reserve(COPY_BYTES, Operation::Write, &*self.file)?;
        let bytes = buffer.zeroed(COPY_BYTES);
        self.header.encode(bytes);
        self.file.write_at(bytes, (copy * COPY_BYTES) as u64)?;
        self.file.sync()
    }

    /// Whether writes go directly to the device.
    pub(super) fn is_direct(&self) -> bool {
        self.file.alignment() > 1
    }
}

#[cfg(not(loom))]
#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::MemDisk;
    use crate::value_log::tests::crash_disk::CrashDisk;

    const SETTINGS: LogSettings = LogSettings {
        kind: LogKind::Value,
        segment_bytes: 16 << 10,
        segment_bytes_first: u64::MAX,
        block_bytes: 512,
        segments_ahead: 1,
        log_bytes_max: u64::MAX,
        direct: true,
        salt: 0x0123_4567_89ab_cdef,
    };

    fn found(disk: &impl Disk) -> Found {
        Header::read(&*disk.open(&file_name(7), Open::Read).unwrap()).unwrap()
    }

    fn found_in(copy: usize, header: Header) -> Found {
        Found::Segment { header, copy }
    }

    fn overwrite(disk: &impl Disk, offset: u64, bytes: &[u8]) {
        disk.open(&file_name(7), Open::Write).unwrap().write_at(bytes, offset).unwrap();
    }

    #[test]
    fn names_hold_numbers() {
        assert_eq!(file_name(7), "log-000007");
        for (name, number) in [
            ("log-000007", Some(7)),
            ("log-12345678", Some(12_345_678)),
            ("log-", None),
            ("log", None),
            ("log-+7", None),
            ("log-99999999999999999999999", None),
        ] {
            assert_eq!(file_number(name), number, "{name}");
        }
    }

    #[test]
    fn one_intact_copy_is_enough_and_the_newer_counts() {
        let disk = MemDisk::new();
        let mut segment = Segment::create(&disk, 7, 3, &SETTINGS).unwrap();
        let header = segment.header;
        assert_eq!((header.sequence, header.capacity()), (3, 8 << 10));
        assert_eq!(found(&disk), found_in(0, header));
        segment.renew(9).unwrap();
        // The crash of a renewal: the second copy is the old one.
        let mut old = [0; COPY_BYTES];
        header.encode(&mut old);
        overwrite(&disk, COPY_BYTES as u64, &old);
        assert_eq!(found(&disk), found_in(0, segment.header));
        overwrite(&disk, 20, &[0xff]);
        assert_eq!(found(&disk), found_in(1, header));
        overwrite(&disk, COPY_BYTES as u64 + 20, &[0xff]);
        assert_eq!(found(&disk), Found::Damaged);
    }

    /// Both copies as they are on the disk now.
    fn copies(disk: &CrashDisk) -> [Vec<u8>; 2] {
        let file = disk.open(&file_name(7), Open::Read).unwrap();
        let mut bytes = vec![0; 2 * COPY_BYTES];
        file.read_at(&mut bytes, 0).unwrap();
        let second = bytes.split_off(COPY_BYTES);
        [bytes, second]
    }

    #[test]
    fn a_segment_with_groups_has_both_copies() {
        for gone in [0, 1] {
            let disk = MemDisk::new();
            drop(Segment::create(&disk, 7, 3, &SETTINGS).unwrap());
            overwrite(&disk, (gone * COPY_BYTES) as u64, &[0; COPY_BYTES]);
            let Found::Segment { header, copy } = found(&disk) else { panic!("one is intact") };
            let segment = Segment::open(&disk, 7, header, copy, false).unwrap();
            drop(segment.whole().unwrap());
            overwrite(&disk, ((1 - gone) * COPY_BYTES) as u64, &[0; COPY_BYTES]);
            assert_eq!(found(&disk), found_in(gone, header));
        }
    }

    /// A crash made one of them; a second crash, in the renewal, must not take the other one.
    #[test]
    fn the_only_intact_copy_is_written_over_last() {
        for damaged in [0, 1] {
            let intact = 1 - damaged;
            let disk = CrashDisk::default();
            drop(Segment::create(&disk, 7, 3, &SETTINGS).unwrap());
            overwrite(&disk, (damaged * COPY_BYTES) as u64 + 20, &[0xff]);
            let before = copies(&disk);
            let Found::Segment { header, copy } = found(&disk) else { panic!("one is intact") };
            assert_eq!((header.sequence, copy), (3, intact));
            let mut renewed = vec![0; COPY_BYTES];
            Header { sequence: 9, uses: 2, ..header }.encode(&mut renewed);
            let mut calls = 0;
            loop {
                let mut segment = Segment::open(&disk, 7, header, copy, false).unwrap();
                disk.fail_after(Some(calls));
                let result = segment.renew(9);
                disk.fail_after(None);
                let now = copies(&disk);
                // The other one is synced by then.
                let is_safe = now[intact] == before[intact] || now[damaged] == renewed;
                assert!(is_safe, "copy {damaged} is damaged, {calls} calls");
                if result.is_ok() {
                    assert_eq!(now, [renewed.clone(), renewed]);
                    break;
                }
                calls += 1;
            }
        }
    }

    #[test]
    fn the_kind_is_what_a_header_begins_with() {
        for (kind, magic) in [(LogKind::Value, b"tombval\n"), (LogKind::Command, b"tombcmd\n")] {
            let disk = MemDisk::new();
            let settings = LogSettings { kind, ..SETTINGS };
            let segment = Segment::create(&disk, 7, 3, &settings).unwrap();
            let mut copy = vec![0; COPY_BYTES];
            segment.header.encode(&mut copy);
            assert_eq!(copy[..8], *magic);
            assert_eq!(found(&disk), found_in(0, segment.header));
        }
    }

    #[test]
    fn the_bytes_are_those_the_format_states() {
        let (kind, block_bytes) = (LogKind::Value, 512);
        let (sequence, segment_bytes, salt, uses) = (3, 32 << 10, 5, 7);
        let header = Header { kind, sequence, segment_bytes, block_bytes, salt, uses };
        let mut expected = b"tombval\n\x04\0\0\0\0\0\0\0".to_vec();
        for field in [3_u64, 32 << 10, 512, 5] {
            expected.extend_from_slice(&field.to_le_bytes());
        }
        expected.extend_from_slice(&[7, 0, 0, 0]);
        let checksum = crc32c::crc32c_append(crc32c::crc32c(&expected[..12]), &expected[16..]);
        expected[12..16].copy_from_slice(&checksum.to_le_bytes());
        expected.resize(COPY_BYTES, 0);
        let mut copy = vec![0; COPY_BYTES];
        header.encode(&mut copy);
        assert_eq!(copy, expected);
    }

    #[test]
    fn another_version_and_an_unfinished_file_are_distinguished() {
        let disk = MemDisk::new();
        drop(Segment::create(&disk, 7, 3, &SETTINGS).unwrap());
        for copy in [0, COPY_BYTES] {
            overwrite(&disk, (copy + VERSION) as u64, &[9]);
        }
        assert_eq!(found(&disk), Found::OtherVersion(9));
        overwrite(&disk, COPY_BYTES as u64, &[0; COPY_BYTES]);
        // All but its version is right: that is damaged, and the file was never finished.
        assert_eq!(found(&disk), Found::Unfinished);
        overwrite(&disk, 3, b"torn");
        assert_eq!(found(&disk), Found::Unfinished);
        disk.open(&file_name(7), Open::Write).unwrap().set_len(100).unwrap();
        assert_eq!(found(&disk), Found::Unfinished);
    }

    #[test]
    fn a_full_disk_leaves_no_file() {
        let disk = MemDisk::new();
        disk.set_capacity_bytes(Some(SETTINGS.segment_bytes - 1));
        assert!(Segment::create(&disk, 7, 3, &SETTINGS).unwrap_err().is_full());
        assert!(disk.list().unwrap().is_empty());
    }

    #[test]
    fn blocks_are_as_long_as_the_file_demands() {
        let disk = MemDisk::new();
        disk.set_alignment(4096);
        let segment = Segment::create(&disk, 7, 3, &SETTINGS).unwrap();
        assert!(segment.is_direct());
        assert_eq!(segment.header.block_bytes, 4096);
    }
}
