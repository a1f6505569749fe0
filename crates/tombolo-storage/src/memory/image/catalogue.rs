//! The catalogue: which checkpoint is complete, which is being written, and which rings there are. Each
//! state of it is a new file, `checkpoint-NNNNNN`, written and synced, its directory too, before the
//! older ones are removed.
//!
//! The file holds the state twice: a copy, zeros up to a multiple of 4,096 bytes, and the same again. The
//! second is read where the first is not intact. A copy:
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 8 | magic: `tombchk` and a line feed |
//! | 8 | 4 | version of the format |
//! | 12 | 4 | checksum: CRC-32C of bytes 0–11 and of all from 16 on |
//! | 16 | 8 | sequence number, which is in the file's name too |
//! | 24 | 8 | bytes of the copy |
//! | 32 | 8 | salt: the log's |
//! | 40 | 8 | the last complete checkpoint, 0 for none |
//! | 48 | 8 | the group it is complete as of, 0 for none |
//! | 56 | 8 | transactions up to that one |
//! | 64 | 4 | that group's checksum |
//! | 68 | 4 | the same of the checkpoint that is being written |
//! | 72 | 8 | the checkpoint that is being written, 0 for none |
//! | 80 | 8 | its group |
//! | 88 | 8 | transactions up to that one |
//! | 96 | 4 | directories |
//! | 100 | 4 | the next ring's number |
//! | 104 | 4 | tables |
//! | 108 | 4 | rings |
//! | 112 | 4 | epoch in which the complete checkpoint began (`stamp.rs`), 0 where unknown |
//! | 116 | 4 | the same of the checkpoint that is being written |
//! | 120 | 4 | changes of the schema up to these definitions |
//! | 124 | | tables: 4 length, then the definition (`value_log/definition.rs`) |
//! | | | rings, 48 bytes each, as follows |
//!
//! A ring, 4 bytes each: number, directory, table, slab (0 rows, 1 + size class), bytes of a slot, first
//! slot, slots of a block, blocks, spare places, bytes of a block; then 8, the checkpoint that writes it
//! first. Version 1 has no epochs: tables begin at offset 112. Versions 2 and 3 have no changes of the schema:
//! tables begin at offset 120. Versions 1 and 2 have one copy.
//!
//! A file without an intact copy may have been left half written by a crash, or it may be the newest catalogue, damaged
//! later; then only an older catalogue, or none, is found. *Invariant*: the log is released only up to
//! the group that the newest catalogue needs, when that catalogue is durable. So an older catalogue, or none next to
//! files of an image, is accepted only if the log is complete from there on; otherwise opening is refused, even if the
//! caller accepts a loss (`load.rs`).
//!
//! Not here: rings' files, when a checkpoint is complete (`checkpoints.rs`).

use super::super::recovery::SlabName;
use super::ring::Ring;
use super::settings::{FORMAT_VERSION, FORMAT_VERSION_OLDEST, ImageFailure};
use super::stamp::Stamp;
use crate::checksum;
use crate::disk::{Disk, DiskError, Open};
use crate::source::Source;
use crate::value_log::LogPosition;

const MAGIC: [u8; 8] = *b"tombchk\n";
const VERSION: usize = MAGIC.len();
const CHECKSUM: usize = VERSION + 4;
const SEQUENCE: usize = CHECKSUM + 4;
const LENGTH: usize = SEQUENCE + 8;
/// Of version 1, without epochs and changes of the schema.
const HEADER_BYTES_1: usize = 112;
const HEADER_BYTES: usize = HEADER_BYTES_1 + 12;
/// From this one on a file has two copies.
const VERSION_OF_COPIES: u32 = 3;
const RING_BYTES: usize = 48;

/// The second copy begins at a multiple of this: what damages the sectors of one does not reach the other.
const COPY_ALIGNMENT: usize = 4_096;

/// Longer files are no catalogues: a million rings would not need it.
const BYTES_MAX: u64 = 64 << 20;

const PREFIX: &str = "checkpoint-";

/// A checkpoint and what it is complete as of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Checkpoint {
    /// 0 for none.
    pub(super) number: u64,
    /// In which it began.
    pub(super) epoch: u32,
    pub(super) position: LogPosition,
}

impl Checkpoint {
    /// The stamp that identifies its blocks.
    pub(super) fn course(&self) -> Stamp {
        Stamp { checkpoint: self.number, epoch: self.epoch }
    }
}

/// One state. See the module's head.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Catalogue {
    pub(super) sequence: u64,
    pub(super) salt: u64,
    pub(super) complete: Checkpoint,
    pub(super) writing: Checkpoint,
    pub(super) directories: u32,
    pub(super) next_ring: u32,
    /// How many changes of the schema its definitions have behind them.
    pub(super) changes: u32,
    /// Definitions, in the order of the tables.
    pub(super) tables: Vec<Vec<u8>>,
    pub(super) rings: Vec<Ring>,
}

/// What was found in a directory.
#[derive(Clone, Debug, Default)]
pub(super) struct CatalogueScan {
    /// The newest one that is intact, and its file.
    pub(super) catalogue: Option<(Catalogue, String)>,
    /// The version of the format that it is written in; 0 for none.
    pub(super) version: u32,
    /// Files that are not intact and newer than it.
    pub(super) passed_over: Vec<String>,
    /// The greatest number in any file's name.
    pub(super) newest: u64,
}

fn file_name(sequence: u64) -> String {
    format!("{PREFIX}{sequence:06}")
}

/// The files of catalogues, by number.
fn files(disk: &dyn Disk) -> Result<Vec<(u64, String)>, DiskError> {
    let number = |name: &str| {
        let digits = name.strip_prefix(PREFIX)?;
        digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
    };
    let names = disk.list()?.into_iter();
    let mut files: Vec<_> = names.filter_map(|name| Some((number(&name)?, name))).collect();
    files.sort_unstable();
    Ok(files)
}

impl Catalogue {
    /// The newest intact one of a directory.
    ///
    /// # Errors
    /// `OtherVersion`, `Disk`.
    pub(super) fn find(disk: &dyn Disk) -> Result<CatalogueScan, ImageFailure> {
        let mut found = CatalogueScan::default();
        for (number, name) in files(disk)?.into_iter().rev() {
            found.newest = found.newest.max(number);
            let file = disk.open(&name, Open::Read)?;
            let bytes_len = file.len()?;
            let mut bytes = vec![0; bytes_len.min(BYTES_MAX) as usize];
            file.read_at(&mut bytes, 0)?;
            let is_of_file = |(catalogue, _): &(Self, u32)| catalogue.sequence == number;
            if let Some((catalogue, version)) = Self::decode_file(&bytes).filter(is_of_file) {
                found.catalogue = Some((catalogue, file.name().to_owned()));
                found.version = version;
                break;
            }
            if let Some(version) = other_version(&bytes) {
                let file = file.name().to_owned();
                return Err(ImageFailure::OtherVersion { file, found: version });
            }
            found.passed_over.push(file.name().to_owned());
        }
        Ok(found)
    }

    /// The first intact copy in a file, and the version it is written in.
    fn decode_file(bytes: &[u8]) -> Option<(Self, u32)> {
        let copies = [bytes, &bytes[bytes.len() / 2..]];
        copies.into_iter().find_map(|copy| Some((Self::decode(copy)?, version_of(copy)?)))
    }

    /// Writes this state into a file of its own, which is durable when this returns; older files are
    /// gone then, or not needed. Without `is_durable` nothing is synced (a planted bug).
    ///
    /// # Errors
    /// `Full`, `Disk`: whether this state or the one before is found after a crash is unknown.
    pub(super) fn write(&self, disk: &dyn Disk, is_durable: bool) -> Result<(), DiskError> {
        let name = file_name(self.sequence);
        let bytes = self.encode_file();
        let written = disk.open(&name, Open::New).and_then(|file| {
            file.write_at(&bytes, 0)?;
            if is_durable { file.sync() } else { Ok(()) }
        });
        if let Err(error) = written {
            // What stays is not intact, or says what was to be; the next one is newer than it.
            _ = disk.remove(&name);
            return Err(error);
        }
        if !is_durable {
            return Ok(());
        }
        disk.sync_dir()?;
        for (_, older) in files(disk)?.into_iter().filter(|(_, file)| *file != name) {
            disk.remove(&older)?;
        }
        Ok(())
    }

    /// The name and the bytes of the file that holds this state.
    pub(super) fn as_file(&self) -> (String, Vec<u8>) {
        (file_name(self.sequence), self.encode_file())
    }

    /// Both copies.
    fn encode_file(&self) -> Vec<u8> {
        let mut copy = self.encode();
        copy.resize(copy.len().next_multiple_of(COPY_ALIGNMENT), 0);
        copy.repeat(2)
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        let short = |out: &mut Vec<u8>, value: u32| out.extend_from_slice(&value.to_le_bytes());
        let long = |out: &mut Vec<u8>, value: u64| out.extend_from_slice(&value.to_le_bytes());
        short(&mut out, FORMAT_VERSION);
        short(&mut out, 0);
        let (complete, writing) = (&self.complete, &self.writing);
        for value in [self.sequence, 0, self.salt, complete.number, complete.position.group] {
            long(&mut out, value);
        }
        long(&mut out, complete.position.transactions);
        short(&mut out, complete.position.checksum);
        short(&mut out, writing.position.checksum);
        for value in [writing.number, writing.position.group, writing.position.transactions] {
            long(&mut out, value);
        }
        let (tables, rings) = (self.tables.len() as u32, self.rings.len() as u32);
        let rest = [complete.epoch, writing.epoch, self.changes];
        for value in [self.directories, self.next_ring, tables, rings].into_iter().chain(rest) {
            short(&mut out, value);
        }
        assert_eq!(out.len(), HEADER_BYTES);
        for definition in &self.tables {
            short(&mut out, definition.len() as u32);
            out.extend_from_slice(definition);
        }
        for ring in &self.rings {
            let SlabName { table, kind } = ring.slab;
            for value in [ring.number, ring.stripe, table, kind, ring.slot_bytes] {
                short(&mut out, value);
            }
            for value in
                [ring.first_slot, ring.block_slots, ring.blocks, ring.spare, ring.block_bytes]
            {
                short(&mut out, value);
            }
            long(&mut out, ring.created_by);
        }
        let length = out.len() as u64;
        out[LENGTH..LENGTH + 8].copy_from_slice(&length.to_le_bytes());
        let checksum = checksum(&out);
        out[CHECKSUM..SEQUENCE].copy_from_slice(&checksum.to_le_bytes());
        out
    }

    /// The copy that `bytes` begin with.
    fn decode(bytes: &[u8]) -> Option<Self> {
        let version = version_of(bytes).filter(|&version| is_read(version))?;
        let length = Source(bytes.get(LENGTH..)?).long()?;
        let copy = bytes.get(..usize::try_from(length).ok()?)?;
        let is_alone = version < VERSION_OF_COPIES;
        if copy.len() < HEADER_BYTES_1 || is_alone && copy.len() != bytes.len() {
            return None;
        }
        let mut from = Source(&copy[CHECKSUM..]);
        if from.short()? != checksum(copy) {
            return None;
        }
        let (sequence, _, salt) = (from.long()?, from.long()?, from.long()?);
        let (number, group, transactions) = (from.long()?, from.long()?, from.long()?);
        let checksums = (from.short()?, from.short()?);
        let position = LogPosition { group, checksum: checksums.0, transactions };
        let complete = Checkpoint { number, epoch: 0, position };
        let (number, group, transactions) = (from.long()?, from.long()?, from.long()?);
        let position = LogPosition { group, checksum: checksums.1, transactions };
        let writing = Checkpoint { number, epoch: 0, position };
        let (directories, next_ring) = (from.short()?, from.short()?);
        let (tables, rings) = (from.short()?, from.short()?);
        let epochs = if version == 1 { (0, 0) } else { (from.short()?, from.short()?) };
        let changes = if version < 4 { 0 } else { from.short()? };
        let tables =
            (0..tables).map(|_| from.bytes().map(<[u8]>::to_vec)).collect::<Option<_>>()?;
        let rings = (0..rings).map(|_| from.ring()).collect::<Option<Vec<_>>>()?;
        let is_whole = from.0.is_empty();
        let is_possible = rings.iter().all(|ring| ring.is_possible() && ring.stripe < directories);
        (is_whole && is_possible).then_some(Self {
            sequence,
            salt,
            complete: Checkpoint { epoch: epochs.0, ..complete },
            writing: Checkpoint { epoch: epochs.1, ..writing },
            directories,
            next_ring,
            changes,
            tables,
            rings,
        })
    }
}

fn checksum(bytes: &[u8]) -> u32 {
    checksum::of(&[&bytes[..CHECKSUM], &bytes[SEQUENCE..]])
}

/// Whether catalogues of this version are read.
fn is_read(version: u32) -> bool {
    (FORMAT_VERSION_OLDEST..=FORMAT_VERSION).contains(&version)
}

/// The version of a catalogue of another version. Its checksum may well lie elsewhere.
fn other_version(bytes: &[u8]) -> Option<u32> {
    version_of(bytes).filter(|&version| !is_read(version) && version != 0)
}

/// The version that a catalogue says it has.
fn version_of(bytes: &[u8]) -> Option<u32> {
    let version = bytes.get(VERSION..CHECKSUM).filter(|_| bytes.starts_with(&MAGIC))?;
    Some(u32::from_le_bytes([version[0], version[1], version[2], version[3]]))
}

impl Source<'_> {
    fn ring(&mut self) -> Option<Ring> {
        const { assert!(RING_BYTES == 10 * 4 + 8) };
        Some(Ring {
            number: self.short()?,
            stripe: self.short()?,
            slab: SlabName { table: self.short()?, kind: self.short()? },
            slot_bytes: self.short()?,
            first_slot: self.short()?,
            block_slots: self.short()?,
            blocks: self.short()?,
            spare: self.short()?,
            block_bytes: self.short()?,
            created_by: self.long()?,
        })
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::super::ring::tests::ring;
    use super::*;
    use crate::disk::MemDisk;

    fn catalogue(sequence: u64) -> Catalogue {
        let position = LogPosition { group: 5, checksum: 0xdead_beef, transactions: 77 };
        let later = LogPosition { group: 9, checksum: 0x0102_0304, transactions: 99 };
        Catalogue {
            sequence,
            salt: 0x0123,
            complete: Checkpoint { number: 3, epoch: 0x0506, position },
            writing: Checkpoint { number: 4, epoch: 0x0708, position: later },
            directories: 1,
            next_ring: 8,
            changes: 0x0a0b,
            tables: vec![b"abc".to_vec(), Vec::new()],
            rings: vec![ring(4, 1)],
        }
    }

    /// The bytes of `catalogue(6)` in a version of the format.
    fn stated(version: u8) -> Vec<u8> {
        let mut expected = [&b"tombchk\n"[..], &[version, 0, 0, 0], &[0; 4]].concat();
        let long = |out: &mut Vec<u8>, fields: &[u64]| {
            out.extend(fields.iter().flat_map(|field| field.to_le_bytes()));
        };
        let short = |out: &mut Vec<u8>, fields: &[u32]| {
            out.extend(fields.iter().flat_map(|field| field.to_le_bytes()));
        };
        let rest = [0x0506, 0x0708, 0x0a0b];
        let rest = &rest[..[0, 2, 2, 3][usize::from(version) - 1]];
        let length = 112 + 4 * rest.len() as u64 + 7 + 4 + 48;
        long(&mut expected, &[6, length, 0x0123, 3, 5, 77]);
        short(&mut expected, &[0xdead_beef, 0x0102_0304]);
        long(&mut expected, &[4, 9, 99]);
        short(&mut expected, &[1, 8, 2, 1]);
        short(&mut expected, rest);
        short(&mut expected, &[3]);
        expected.extend(b"abc");
        short(&mut expected, &[0, 7, 0, 2, 0, 16, 100, 3, 4, 1, 4096]);
        long(&mut expected, &[1]);
        let checksum = crc32c::crc32c(&[&expected[..12], &expected[16..]].concat()).to_le_bytes();
        expected[12..16].copy_from_slice(&checksum);
        expected
    }

    #[test]
    fn the_bytes_are_those_the_format_states() {
        assert_eq!(catalogue(6).encode(), stated(4));
        let earlier = || Catalogue { changes: 0, ..catalogue(6) };
        for (version, expected) in [(3, earlier()), (4, catalogue(6))] {
            let (mut file, copy) = (vec![0; 8_192], stated(version));
            file[..copy.len()].copy_from_slice(&copy);
            file[4_096..][..copy.len()].copy_from_slice(&copy);
            assert_eq!(Catalogue::decode_file(&file), Some((expected, u32::from(version))));
            if version == 4 {
                assert_eq!(catalogue(6).as_file(), (file_name(6), file));
            }
        }
        assert_eq!(Catalogue::decode_file(&stated(2)), Some((earlier(), 2)));
    }

    #[test]
    fn version_1_is_read_and_knows_no_epochs() {
        let mut expected = Catalogue { changes: 0, ..catalogue(6) };
        (expected.complete.epoch, expected.writing.epoch) = (0, 0);
        assert_eq!(Catalogue::decode(&stated(1)), Some(expected));
        let mut newer = stated(4);
        newer[VERSION] = 5;
        assert_eq!((Catalogue::decode(&newer), other_version(&newer)), (None, Some(5)));
        // A reader sees the version that is there, not the one that would be written.
        let disk = MemDisk::new();
        assert_eq!(Catalogue::find(&disk).unwrap().version, 0);
        disk.open(&file_name(6), Open::New).unwrap().write_at(&stated(1), 0).unwrap();
        assert_eq!(Catalogue::find(&disk).unwrap().version, 1);
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_found() {
        for bytes in [1, 2, 3, 4].map(stated) {
            for bit in 0..bytes.len() * 8 {
                let mut changed = bytes.clone();
                changed[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(Catalogue::decode(&changed), None, "bit {bit}");
            }
            for length in 0..bytes.len() {
                assert_eq!(Catalogue::decode(&bytes[..length]), None, "{length} bytes");
            }
            let longer = Catalogue::decode(&[&bytes[..], &[0]].concat());
            assert_eq!(longer.is_some(), version_of(&bytes) >= Some(3), "zeros follow a copy");
        }
    }

    /// Whatever byte is wrong, and wherever the file is cut behind its first copy.
    #[test]
    fn a_file_outlives_any_wrong_byte() {
        let (_, bytes) = catalogue(6).as_file();
        let intact = Some((catalogue(6), 4));
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 0x5a;
            assert_eq!(Catalogue::decode_file(&changed), intact, "byte {at}");
        }
        for length in 4_096..bytes.len() {
            assert_eq!(Catalogue::decode_file(&bytes[..length]), intact, "{length} bytes");
        }
    }

    #[test]
    fn the_newest_intact_one_is_found_and_the_others_go() {
        let disk = MemDisk::new();
        assert!(Catalogue::find(&disk).unwrap().catalogue.is_none());
        catalogue(6).write(&disk, true).unwrap();
        let torn = disk.open(&file_name(7), Open::New).unwrap();
        torn.write_at(&catalogue(7).encode()[..100], 0).unwrap();
        let found = Catalogue::find(&disk).unwrap();
        assert_eq!((found.catalogue, found.version), (Some((catalogue(6), file_name(6))), 4));
        assert_eq!((found.passed_over, found.newest), (vec![file_name(7)], 7));
        catalogue(8).write(&disk, true).unwrap();
        assert_eq!(disk.list().unwrap(), [file_name(8)]);
        // Under another name it is none.
        let moved = disk.open(&file_name(9), Open::New).unwrap();
        moved.write_at(&catalogue(8).encode(), 0).unwrap();
        assert_eq!(Catalogue::find(&disk).unwrap().passed_over, [file_name(9)]);
        moved.write_at(&[5], VERSION as u64).unwrap();
        let other = ImageFailure::OtherVersion { file: file_name(9), found: 5 };
        assert_eq!(Catalogue::find(&disk).unwrap_err(), other);
    }
}
