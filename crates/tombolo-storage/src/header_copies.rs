//! A file's header, kept in two copies so that a torn write leaves one of them.
//!
//! ```text
//!   0         4096      8192
//!   ┌─────────┬─────────┬──── ──
//!   │ copy 0  │ copy 1  │ content
//!   └─────────┴─────────┴──── ──
//! ```
//!
//! | offset | bytes | field of a copy |
//! |---|---|---|
//! | 0 | 8 | magic, which says what kind of file it is |
//! | 8 | 4 | version of the format |
//! | 12 | 4 | checksum: CRC-32C of bytes 0–11 and of all fields |
//! | 16 | 8 | sequence: of two intact copies the greater one counts |
//! | 24 | | the kind's own fields, then zeros |
//!
//! Not here: which copy is written when, and what a damaged one means: each kind of file has its own
//! rule. Invariant: [`Layout::encode`] and [`Layout::decode`] agree on every byte.

use std::fmt;
use std::ops::{Range, RangeInclusive};

use crate::checksum;

/// Copies lie in blocks of their own: what tears one leaves the other alone.
pub(crate) const COPY_BYTES: usize = 4096;

/// Where the file's content begins.
pub(crate) const CONTENT_OFFSET: u64 = 2 * COPY_BYTES as u64;

/// Where the version lies.
pub(crate) const VERSION: usize = 8;
const CHECKSUM: usize = VERSION + 4;
/// Where the sequence number lies.
pub(crate) const SEQUENCE: usize = CHECKSUM + 4;
/// Where a kind's own fields begin.
pub(crate) const OWN_FIELDS: usize = SEQUENCE + 8;

/// What all headers of one kind of file have in common.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    pub(crate) magic: [u8; VERSION],
    pub(crate) version: u32,
    /// Bytes up to the end of the last field.
    pub(crate) used_bytes: usize,
}

/// What was found where a copy should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Copy<H> {
    Intact(H),
    /// Intact as far as this program can verify, but of this version.
    OtherVersion(u32),
    /// Never written.
    Blank,
    /// Not intact; it says that it has this version.
    Damaged(u32),
}

/// Reads the number at `at`.
#[inline]
pub(crate) fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array(bytes, at))
}

/// Reads the short number at `at`.
#[inline]
pub(crate) fn short(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array(bytes, at))
}

#[inline]
fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[at..at + N]);
    out
}

/// The message when a file is opened whose version is not among `read`. An opened database is written
/// in the newest version from then on, so any program that reads both versions can convert an older
/// one.
pub(crate) fn other_version(
    f: &mut fmt::Formatter<'_>,
    file: &str,
    found: u32,
    read: RangeInclusive<u32>,
) -> fmt::Result {
    let (oldest, newest) = (read.start(), read.end());
    let what_to_do = match found > *newest {
        true => "a newer program wrote it: open it with that one",
        false => {
            "an older program wrote it: open and close it with one that reads both, or write its rows \
             out with that program and insert them into a new database"
        }
    };
    write!(f, "{file} has format version {found}, this program reads ")?;
    match oldest == newest {
        true => write!(f, "version {newest}")?,
        false => write!(f, "versions {oldest} to {newest}")?,
    }
    write!(f, "; {what_to_do}")
}

impl Layout {
    const fn fields(&self) -> Range<usize> {
        SEQUENCE..self.used_bytes
    }

    /// What the checksum of `copy` is, if it is of this version.
    fn checksum(&self, version: u32, copy: &[u8]) -> u32 {
        checksum::of(&[&copy[..VERSION], &version.to_le_bytes(), &copy[self.fields()]])
    }

    /// Fills `copy`, which is zero but for the kind's own fields.
    pub(crate) fn encode(&self, sequence: u64, copy: &mut [u8]) {
        copy[..VERSION].copy_from_slice(&self.magic);
        copy[VERSION..CHECKSUM].copy_from_slice(&self.version.to_le_bytes());
        copy[SEQUENCE..OWN_FIELDS].copy_from_slice(&sequence.to_le_bytes());
        let checksum = self.checksum(self.version, copy);
        copy[CHECKSUM..SEQUENCE].copy_from_slice(&checksum.to_le_bytes());
    }

    /// What lies in `copy`. `header` makes a header of the sequence and the own fields, `None` if
    /// they are impossible.
    pub(crate) fn decode<H>(
        &self,
        copy: &[u8],
        header: impl FnOnce(u64, &[u8]) -> Option<H>,
    ) -> Copy<H> {
        if copy.iter().all(|&byte| byte == 0) {
            return Copy::Blank;
        }
        let version = short(copy, VERSION);
        if copy[..VERSION] != self.magic {
            return Copy::Damaged(self.version);
        }
        if short(copy, CHECKSUM) != self.checksum(version, copy) {
            // With the right version it would be intact, so the version is damaged. And 0 is no
            // version: a torn write leaves it behind the magic.
            let is_own = short(copy, CHECKSUM) == self.checksum(self.version, copy);
            return Copy::Damaged(if is_own || version == 0 { self.version } else { version });
        }
        if version != self.version {
            return Copy::OtherVersion(version);
        }
        header(long(copy, SEQUENCE), copy).map_or(Copy::Damaged(version), Copy::Intact)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUT: Layout = Layout { magic: *b"tombtst\n", version: 3, used_bytes: 32 };

    fn encoded(layout: &Layout) -> Vec<u8> {
        let mut copy = vec![0; COPY_BYTES];
        copy[OWN_FIELDS..32].copy_from_slice(&77_u64.to_le_bytes());
        layout.encode(9, &mut copy);
        copy
    }

    fn decoded(copy: &[u8]) -> Copy<(u64, u64)> {
        LAYOUT.decode(copy, |sequence, copy| Some((sequence, long(copy, OWN_FIELDS))))
    }

    #[test]
    fn a_copy_comes_back_and_no_flipped_bit_does() {
        let copy = encoded(&LAYOUT);
        assert_eq!(decoded(&copy), Copy::Intact((9, 77)));
        for bit in 0..LAYOUT.used_bytes * 8 {
            let mut changed = copy.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decoded(&changed), Copy::Damaged(3), "bit {bit}");
        }
    }

    #[test]
    fn a_torn_copy_is_of_no_other_version() {
        let copy = encoded(&LAYOUT);
        for bytes in 1..LAYOUT.used_bytes - 7 {
            let mut torn = copy.clone();
            torn[bytes..].fill(0);
            assert_eq!(decoded(&torn), Copy::Damaged(3), "{bytes} bytes were written");
        }
    }

    #[test]
    fn what_is_no_copy_of_this_version_says_why() {
        assert_eq!(decoded(&[0; COPY_BYTES]), Copy::Blank);
        let other = Layout { version: 4, ..LAYOUT };
        assert_eq!(decoded(&encoded(&other)), Copy::OtherVersion(4));
        let mut torn = encoded(&other);
        torn[OWN_FIELDS] ^= 1;
        assert_eq!(decoded(&torn), Copy::Damaged(4), "its checksum may lie elsewhere");
        let foreign = Layout { magic: *b"tombxyz\n", ..LAYOUT };
        assert_eq!(decoded(&encoded(&foreign)), Copy::Damaged(3));
        let impossible = LAYOUT.decode(&encoded(&LAYOUT), |_, _| None::<()>);
        assert_eq!(impossible, Copy::Damaged(3));
    }
}
