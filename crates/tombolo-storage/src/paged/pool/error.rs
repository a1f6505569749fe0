//! Why a page could not be reached.
//!
//! One pointer wide, because each call that returns a guard may return it instead; what it points
//! to is built only when something failed.

use std::fmt;

use super::file::PAGES_FILE;
use crate::disk::DiskError;
use crate::error::Error;
use crate::header_copies::other_version;
use crate::memory::region::RegionError;
use crate::paged::page::{FORMAT_VERSION, PageId, PageSize};

/// Why a page could not be reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageError(Box<PageFailure>);

/// The reasons.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PageFailure {
    /// The disk failed or is full.
    Disk(DiskError),
    /// The file does not hold what it should.
    Damaged {
        /// The file.
        file: String,
        /// Where in it.
        offset: u64,
        /// What is wrong.
        what: String,
    },
    /// A program with another version of the format wrote the file.
    OtherVersion {
        /// The file.
        file: String,
        /// The version in its first page.
        found: u32,
    },
    /// The file was not closed and is not restarted here.
    NotClosed {
        /// The file.
        file: String,
    },
    /// Another process, or another store of this one, has the file open.
    InUse {
        /// The file.
        file: String,
    },
    /// Every frame of the pool is fixed.
    PoolFull {
        /// How many frames there are.
        frames: usize,
    },
    /// There is no memory for frames.
    Memory(RegionError),
    /// The numbers of pages are used up.
    TooManyPages,
    /// The log could not be made durable ahead of a page.
    Log(Error),
    /// A record is longer than a page can hold.
    RecordTooLong {
        /// Its length.
        bytes: usize,
        /// The longest possible.
        bytes_max: usize,
    },
}

impl PageError {
    /// The reason.
    pub fn failure(&self) -> &PageFailure {
        &self.0
    }

    /// The damage of a page that something led to.
    #[cold]
    pub(in crate::paged) fn damaged_page<S: PageSize>(id: PageId, what: &str) -> Self {
        let offset = u64::from(id.0) * S::BYTES as u64;
        PageFailure::Damaged { file: PAGES_FILE.to_owned(), offset, what: what.to_owned() }.into()
    }

    /// Whether the disk is full: deleting something else may help.
    pub fn is_full(&self) -> bool {
        matches!(&*self.0, PageFailure::Disk(error) if error.is_full())
    }
}

impl From<PageFailure> for PageError {
    #[cold]
    fn from(failure: PageFailure) -> Self {
        Self(Box::new(failure))
    }
}

impl From<DiskError> for PageError {
    #[cold]
    fn from(error: DiskError) -> Self {
        PageFailure::Disk(error).into()
    }
}

impl From<RegionError> for PageError {
    #[cold]
    fn from(error: RegionError) -> Self {
        PageFailure::Memory(error).into()
    }
}

impl fmt::Display for PageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            PageFailure::Disk(error) => error.fmt(f),
            PageFailure::Damaged { file, offset, what } => {
                write!(f, "{file} is damaged at offset {offset}: {what}")
            }
            PageFailure::OtherVersion { file, found } => {
                other_version(f, file, *found, FORMAT_VERSION..=FORMAT_VERSION)
            }
            PageFailure::NotClosed { file } => {
                write!(f, "{file} was not closed: its database ended without saving all pages")
            }
            PageFailure::InUse { file } => write!(f, "{file} is in use by another process"),
            PageFailure::PoolFull { frames } => write!(
                f,
                "all {frames} frames of the buffer pool are in use at once: give it more frames"
            ),
            PageFailure::Memory(error) => write!(f, "no memory for page frames: {error}"),
            PageFailure::TooManyPages => f.write_str("the data file has as many pages as it can"),
            PageFailure::Log(error) => {
                write!(f, "a page cannot be written because its log cannot: {error}")
            }
            PageFailure::RecordTooLong { bytes, bytes_max } => {
                write!(f, "a record of {bytes} bytes is longer than a page holds ({bytes_max})")
            }
        }
    }
}

impl std::error::Error for PageError {}
