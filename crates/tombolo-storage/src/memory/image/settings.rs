//! An image's settings, and why it fails.
//!
//! Not here: how the engine names these settings to a user.

use std::fmt;

use super::ring::UNIT_BYTES;
use crate::disk::DiskError;
use crate::header_copies::other_version;

/// The version of the format of catalogue and blocks.
pub const FORMAT_VERSION: u32 = 4;

/// The oldest one that is read; what is written next is of [`FORMAT_VERSION`].
pub(super) const FORMAT_VERSION_OLDEST: u32 = 1;

/// The longest block that can be asked for.
const BLOCK_BYTES_MAX: u32 = 256 << 20;

/// Where DB′ is: the second copy of all rows, which an image is written from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SecondCopy {
    /// In memory, as in the paper.
    #[default]
    Memory,
    /// There is none: blocks are copied from the store's rows, between transactions (`request.rs`).
    None,
}

/// Numbers an image is made with. Rings made before keep theirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageSettings {
    /// Bytes of a block: a multiple of 4,096, at most 256 MiB. Small tables get shorter ones; a slot
    /// that does not fit gets a longer one. What is between two syncs is `spare_blocks` of them.
    pub block_bytes: u32,
    /// Places beyond the blocks of a ring: 1 to 1,024. After so many blocks there is a sync.
    pub spare_blocks: u32,
    /// Whether files are read and written directly, where the file system has that.
    pub direct: bool,
    /// Where DB′ is. An image can be opened with either.
    pub copy: SecondCopy,
}

impl Default for ImageSettings {
    fn default() -> Self {
        Self { block_bytes: 1 << 20, spare_blocks: 1, direct: true, copy: SecondCopy::Memory }
    }
}

impl ImageSettings {
    /// Refuses numbers that make no image.
    ///
    /// # Errors
    /// `Settings`.
    pub fn check(&self) -> Result<(), ImageFailure> {
        let block = self.block_bytes;
        if !(UNIT_BYTES..=BLOCK_BYTES_MAX).contains(&block) || !block.is_multiple_of(UNIT_BYTES) {
            return Err(ImageFailure::Settings(
                "block_bytes is a multiple of 4,096, from 4,096 to 268,435,456",
            ));
        }
        if !(1..=1024).contains(&self.spare_blocks) {
            return Err(ImageFailure::Settings("spare_blocks is from 1 to 1,024"));
        }
        Ok(())
    }
}

/// Why an image was not written or loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ImageFailure {
    /// The disk failed. How much of the checkpoint under way is on it is unknown: that one is
    /// continued after a restart, and the last complete one is valid.
    Disk(DiskError),
    /// The disk is full. Nothing is lost, and the same call may succeed later.
    Full(DiskError),
    /// The image is damaged where it was known to be durable.
    Damaged {
        /// The file.
        file: String,
        /// Where in it, in bytes.
        offset: u64,
        /// What is wrong.
        what: String,
    },
    /// Files of an image lie without a catalogue, and the log alone does not hold the database.
    NoCatalogue {
        /// One of them.
        file: String,
        /// That it does not, and why.
        log: String,
    },
    /// The image is of another version of the format.
    OtherVersion {
        /// The file.
        file: String,
        /// The version it says it has.
        found: u32,
    },
    /// The image lies in more directories than were given, or in fewer where none is to be added.
    Directories {
        /// How many it lies in.
        needed: u32,
        /// How many there are.
        given: u32,
    },
    /// A directory that was given is another image's, or has another place in the order.
    Misplaced {
        /// A file in it that says so.
        file: String,
        /// The file that says it is this image's.
        claim: String,
    },
    /// Another process, or another handle of this one, writes an image in a directory that was given.
    InUse {
        /// The file that says so.
        file: String,
    },
    /// The image is of another database than the log.
    Stranger {
        /// Its catalogue's file.
        file: String,
    },
    /// No log lies next to the image.
    NoLog {
        /// Its catalogue's file.
        file: String,
    },
    /// What is to be loaded or installed cannot be: a record that fits no row, or no memory.
    Rows(String),
    /// The settings make no sense.
    Settings(&'static str),
}

impl ImageFailure {
    /// Whether the same call may succeed once there is room.
    pub const fn is_full(&self) -> bool {
        matches!(self, Self::Full(_))
    }
}

impl From<DiskError> for ImageFailure {
    fn from(error: DiskError) -> Self {
        if error.is_full() { Self::Full(error) } else { Self::Disk(error) }
    }
}

impl fmt::Display for ImageFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disk(error) => write!(
                f,
                "the checkpoint's disk failed: {error}; the last complete checkpoint is valid, no \
                 other is written before a restart"
            ),
            Self::Full(error) => write!(
                f,
                "the checkpoint's disk is full: {error}; the last complete checkpoint is valid: \
                 make room, then it is tried again"
            ),
            Self::Damaged { file, offset, what } => write!(
                f,
                "the image is damaged in {file} at offset {offset}: {what}; restore a copy of the \
                 database"
            ),
            Self::NoCatalogue { file, log } => write!(
                f,
                "{file} is part of an image whose catalogue, a file checkpoint-NNNNNN, is not here, and \
                 {log}; put the catalogue back, or restore a copy of the database"
            ),
            Self::OtherVersion { file, found } => {
                other_version(f, file, *found, FORMAT_VERSION_OLDEST..=FORMAT_VERSION)
            }
            Self::Directories { needed, given } => write!(
                f,
                "the image lies in {needed} directories, {given} were given: give all of them and no \
                 other, in the order they were made with"
            ),
            Self::Misplaced { file, claim } => write!(
                f,
                "a directory of the image holds {file}, not {claim}: give the directories of one \
                 database in the order they were made with, and new ones empty"
            ),
            Self::InUse { file } => write!(
                f,
                "a directory of the image is in use: another process or handle holds {file}; close \
                 it, or give this database directories of its own"
            ),
            Self::Stranger { file } => write!(
                f,
                "{file} is of another database than the log: put the files of one database \
                 together"
            ),
            Self::NoLog { file } => write!(
                f,
                "{file} is of a database whose log is not here: put the files of its log next \
                 to it, or restore a copy of the database"
            ),
            Self::Rows(what) => f.write_str(what),
            Self::Settings(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for ImageFailure {}
