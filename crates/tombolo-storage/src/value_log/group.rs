//! A group: the unit of durability. It has a header of 64 bytes, then records, then zeros up to the
//! next block.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 4 | magic: `tgr3` |
//! | 4 | 4 | checksum: CRC-32C of the log's salt, the header from offset 8 on and the records |
//! | 8 | 8 | number: one more than its predecessor's |
//! | 16 | 8 | sequence number of its segment |
//! | 24 | 4 | its offset in the segment |
//! | 28 | 4 | watermark: distance in groups to the newest group that was known to be durable then |
//! | 32 | 8 | time of its flush in microseconds since 1970, no less than its predecessor's; 0 for none |
//! | 40 | 8 | transactions in all groups up to this one |
//! | 48 | 4 | epoch: the number of times the log was opened, including this one |
//! | 52 | 4 | the predecessor's checksum, 0 for none |
//! | 56 | 4 | bytes of records |
//! | 60 | 4 | flags: bit 0 its records continue in the next group, 1 it begins an epoch, 2 its records began earlier |
//!
//! Version 2 of the format had the magic `tgrp`, eight bytes of offset, the watermark's number in the next eight
//! bytes, and no time. Such groups are read, and may be in the same segment as later ones.
//!
//! A group contains its own place, so that a group that a disk wrote elsewhere, or one left over from an earlier
//! use of its segment, is not valid. Records for which a segment has no room are spread over several
//! groups; those with bit 0 and the one that ends them are replayed all or none.
//!
//! Records contain user data, which could look like a group: after a torn group it would be read
//! and accepted. Users do not know the salt, so they cannot create such bytes.
//!
//! Not here: the decision which intact groups belong to the log (`reader.rs`).

use crate::checksum;
use crate::header_copies::{long, short};
use crate::plant::{self, Plant};
use crate::value_log::settings::GroupNumber;

/// Bytes of a header.
pub(super) const HEADER_BYTES: usize = 64;

const MAGIC: [u8; 4] = *b"tgr3";
/// The magic of version 2, whose groups have no time. The two differ in more than one bit, because no checksum
/// covers them.
const MAGIC_WITHOUT_TIME: [u8; 4] = *b"tgrp";
const CHECKSUM: usize = MAGIC.len();
const NUMBER: usize = CHECKSUM + 4;
const SEQUENCE: usize = NUMBER + 8;
const OFFSET: usize = SEQUENCE + 8;
const BEHIND: usize = OFFSET + 4;
const TIME: usize = BEHIND + 4;
const TRANSACTIONS: usize = TIME + 8;
/// The offset of the watermark's number in version 2.
const WATERMARK_WITHOUT_TIME: usize = OFFSET + 8;
const EPOCH: usize = TRANSACTIONS + 8;
const PREVIOUS: usize = EPOCH + 4;
const LENGTH: usize = PREVIOUS + 4;
const FLAGS: usize = LENGTH + 4;
const _: () = assert!(FLAGS + 4 == HEADER_BYTES);

const MORE: u32 = 1;
const STARTS_EPOCH: u32 = 2;
const CONTINUES: u32 = 4;

/// The fields of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) number: GroupNumber,
    pub(super) sequence: u64,
    pub(super) offset: u64,
    pub(super) watermark: GroupNumber,
    /// The time of its flush, in microseconds since 1970; 0 if unknown.
    pub(super) time_us: u64,
    pub(super) transactions: u64,
    pub(super) epoch: u32,
    pub(super) previous: u32,
    pub(super) length: u32,
    /// Whether the records continue in the next group.
    pub(super) more: bool,
    pub(super) starts_epoch: bool,
    /// Whether the records began in the group before.
    pub(super) continues: bool,
}

impl Group {
    /// Puts the header before the records, which are in `bytes` after the room for it, and
    /// returns the checksum.
    pub(super) fn encode(&self, salt: u64, bytes: &mut [u8]) -> u32 {
        assert_eq!(bytes.len(), HEADER_BYTES + self.length as usize);
        bytes[..CHECKSUM].copy_from_slice(&MAGIC);
        let behind = self.number - self.watermark;
        assert!(self.offset <= u64::from(u32::MAX) && behind <= u64::from(u32::MAX));
        for (at, value) in [
            (NUMBER, self.number),
            (SEQUENCE, self.sequence),
            (TIME, self.time_us),
            (TRANSACTIONS, self.transactions),
        ] {
            bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        let flag = |is_set, flag| if is_set { flag } else { 0 };
        let flags = flag(self.more, MORE)
            | flag(self.starts_epoch, STARTS_EPOCH)
            | flag(self.continues, CONTINUES);
        for (at, value) in [
            (OFFSET, self.offset as u32),
            (BEHIND, behind as u32),
            (EPOCH, self.epoch),
            (PREVIOUS, self.previous),
            (LENGTH, self.length),
            (FLAGS, flags),
        ] {
            bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        }
        let checksum = checksum(salt, bytes);
        bytes[CHECKSUM..NUMBER].copy_from_slice(&checksum.to_le_bytes());
        checksum
    }

    /// The header in `bytes`, which are at least [`HEADER_BYTES`], if they begin like one; only
    /// [`is_intact`] verifies it.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let magic = *bytes.first_chunk()?;
        let (long, short) = (|at| long(bytes, at), |at| short(bytes, at));
        let (offset, watermark, time_us) = match magic {
            MAGIC => {
                let watermark = long(NUMBER).checked_sub(short(BEHIND).into())?;
                (short(OFFSET).into(), watermark, long(TIME))
            }
            MAGIC_WITHOUT_TIME => (long(OFFSET), long(WATERMARK_WITHOUT_TIME), 0),
            _ => return None,
        };
        let flags = short(FLAGS);
        (flags & !(MORE | STARTS_EPOCH | CONTINUES) == 0).then_some(Self {
            number: long(NUMBER),
            sequence: long(SEQUENCE),
            offset,
            watermark,
            time_us,
            transactions: long(TRANSACTIONS),
            epoch: short(EPOCH),
            previous: short(PREVIOUS),
            length: short(LENGTH),
            more: flags & MORE != 0,
            starts_epoch: flags & STARTS_EPOCH != 0,
            continues: flags & CONTINUES != 0,
        })
    }

    /// Bytes of header and records.
    pub(super) fn bytes(&self) -> usize {
        HEADER_BYTES + self.length as usize
    }
}

fn checksum(salt: u64, bytes: &[u8]) -> u32 {
    let end = if plant::is(Plant::ChecksumOfHeader) { HEADER_BYTES } else { bytes.len() };
    checksum::of(&[&salt.to_le_bytes(), &bytes[NUMBER..end]])
}

/// The stored checksum of the header and records in `bytes`, if it is right.
pub(super) fn is_intact(salt: u64, bytes: &[u8]) -> Option<u32> {
    let stored = short(bytes, CHECKSUM);
    let intact = plant::is(Plant::IgnoredChecksum) || checksum(salt, bytes) == stored;
    intact.then_some(stored)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SALT: u64 = 0x0123_4567_89ab_cdef;

    fn group() -> Group {
        Group {
            number: 0x0102,
            sequence: 3,
            offset: 8192,
            watermark: 0x0100,
            time_us: 0x0006_0000_1234_5678,
            transactions: 77,
            epoch: 5,
            previous: 0xdead_beef,
            length: 6,
            more: true,
            starts_epoch: false,
            continues: true,
        }
    }

    fn encoded() -> Vec<u8> {
        let mut bytes = vec![0; HEADER_BYTES];
        bytes.extend_from_slice(b"record");
        group().encode(SALT, &mut bytes);
        bytes
    }

    #[test]
    fn a_header_comes_back() {
        let bytes = encoded();
        assert_eq!(Group::decode(&bytes), Some(group()));
        assert!(is_intact(SALT, &bytes).is_some());
        assert!(is_intact(SALT + 1, &bytes).is_none());
    }

    #[test]
    fn the_bytes_are_those_the_format_states() {
        let mut expected = vec![];
        expected.extend_from_slice(b"tgr3\0\0\0\0");
        for field in [0x0102_u64, 3, 2 << 32 | 8192, 0x0006_0000_1234_5678, 77] {
            expected.extend_from_slice(&field.to_le_bytes());
        }
        for field in [5_u32, 0xdead_beef, 6, 5] {
            expected.extend_from_slice(&field.to_le_bytes());
        }
        expected.extend_from_slice(b"record");
        let salted = [&SALT.to_le_bytes(), &expected[8..]].concat();
        let checksum = crc32c::crc32c(&salted);
        expected[4..8].copy_from_slice(&checksum.to_le_bytes());
        assert_eq!(encoded(), expected);
    }

    #[test]
    fn a_header_of_version_2_is_read_and_has_no_time() {
        let mut bytes = vec![];
        bytes.extend_from_slice(b"tgrp\0\0\0\0");
        for field in [0x0102_u64, 3, 8192, 0x0100, 77] {
            bytes.extend_from_slice(&field.to_le_bytes());
        }
        for field in [5_u32, 0xdead_beef, 6, 5] {
            bytes.extend_from_slice(&field.to_le_bytes());
        }
        bytes.extend_from_slice(b"record");
        let checksum = checksum(SALT, &bytes);
        bytes[4..8].copy_from_slice(&checksum.to_le_bytes());
        assert_eq!(Group::decode(&bytes), Some(Group { time_us: 0, ..group() }));
        assert_eq!(is_intact(SALT, &bytes), Some(checksum));
    }

    #[test]
    fn every_flipped_bit_is_found() {
        let bytes = encoded();
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            let intact = Group::decode(&changed).is_some() && is_intact(SALT, &changed).is_some();
            assert!(!intact, "bit {bit}");
        }
    }
}
