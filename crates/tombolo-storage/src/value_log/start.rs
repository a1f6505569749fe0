//! The start of a recovery: the first group, or the end of an image.
//!
//! An image is complete as of a group; later changes are in the log. Image and log are tied together by that
//! group's checksum, which depends on all groups before it and the salt: a log of another database, or
//! one that was cut before the group and then continued differently, has another group there.
//!
//! Not here: the image (`memory/image/`), following the groups (`recover.rs`).

use super::group::Group;
use super::reader::SegmentReader;
use super::segment::{FIRST_GROUP_OFFSET, SALT};
use super::settings::{GroupNumber, LogFailure};

/// The options of recovery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecoverOptions {
    /// The start of replaying, and the requirements of an image.
    pub first: LogStart,
    /// Whether damage is cut off like a torn tail, with all groups after it.
    pub accept_loss: bool,
    /// The first group that is not archived yet: groups from it on are not released, even if no
    /// replay needs them.
    pub keep: Option<GroupNumber>,
    /// The last group to be replayed: those behind it are cut off like a torn tail, although they are intact.
    pub last: Option<GroupNumber>,
}

/// A position of the log: the end of its known part, or of the part that an image includes. The default is the
/// beginning, before any group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogPosition {
    /// The newest group; 0 for none.
    pub group: GroupNumber,
    /// That group's checksum.
    pub checksum: u32,
    /// Transactions up to it.
    pub transactions: u64,
}

/// The first group to be replayed, and requirements of the log. A plain group number stands for the log from that
/// group on, without requirements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogStart {
    /// The first group to be replayed; older ones may be missing. 1 is the whole log.
    pub group: GroupNumber,
    /// That group's checksum, if an image knows it: then the log must contain the group, which is
    /// replayed once more.
    pub checksum: Option<u32>,
    /// The newest group whose changes an image includes; the log must reach it. 0 for none.
    pub known: GroupNumber,
    /// The log's salt, if an image knows it.
    pub salt: Option<u64>,
}

impl Default for LogStart {
    fn default() -> Self {
        Self { group: 1, checksum: None, known: 0, salt: None }
    }
}

impl From<GroupNumber> for LogStart {
    fn from(group: GroupNumber) -> Self {
        Self { group, ..Self::default() }
    }
}

impl LogStart {
    /// The start after an image that is complete as of `position` and includes changes of
    /// groups up to `known`.
    pub fn behind(position: LogPosition, known: GroupNumber) -> Self {
        match position.group {
            0 => Self { known, ..Self::default() },
            group => Self { group, checksum: Some(position.checksum), known, salt: None },
        }
    }

    /// The group as of which an image is complete, if its checksum is known.
    pub(super) fn position(&self) -> Option<LogPosition> {
        let group = self.group;
        self.checksum.map(|checksum| LogPosition { group, checksum, transactions: 0 })
    }

    /// Refuses segments of a log with another salt.
    pub(super) fn expect_salt(&self, segments: &[SegmentReader]) -> Result<(), LogFailure> {
        let is_other =
            |found: &&SegmentReader| self.salt.is_some_and(|salt| found.header.salt != salt);
        let Some(other) = segments.iter().find(is_other) else { return Ok(()) };
        let what = "it is of another database than the image: image and log do not belong together";
        let (file, group, what) = (other.name().to_owned(), self.group, what.to_owned());
        Err(LogFailure::Irreparable { file, offset: SALT as u64, group, what })
    }

    /// Refuses another group, in `file`, in place of the one as of which an image is complete.
    pub(super) fn expect(&self, group: &Group, found: u32, file: &str) -> Result<(), LogFailure> {
        let Some(known) = self.checksum.filter(|&known| known != found) else { return Ok(()) };
        if group.number != self.group {
            return Ok(());
        }
        let what = format!(
            "its checksum is {found:08x}, but the image was made behind a group with {known:08x}: \
             image and log do not belong together"
        );
        let (file, offset, group) = (file.to_owned(), group.offset, self.group);
        Err(LogFailure::Irreparable { file, offset, group, what })
    }

    /// The newest group that the log must contain.
    pub(super) fn needed(&self) -> GroupNumber {
        let first = self.group.saturating_sub(u64::from(self.checksum.is_none()));
        self.known.max(first)
    }

    /// The requirement, for messages.
    pub(super) fn need(&self) -> String {
        match self.known >= self.group {
            true => format!("the image holds changes of group {}", self.known),
            false => format!("group {} is the first that is needed", self.group),
        }
    }

    /// The failure that the log begins only with the later group `oldest`, at the beginning of `file`.
    pub(super) fn is_gone(&self, oldest: GroupNumber, file: String) -> LogFailure {
        let group = self.group;
        let what = format!("the log begins at group {oldest}, the image needs group {group}");
        LogFailure::Irreparable { file, offset: FIRST_GROUP_OFFSET, group, what }
    }

    /// The failure that the first group of `file`, and thus the chain to the first needed group, is damaged.
    pub(super) fn is_damaged(&self, group: GroupNumber, file: String) -> LogFailure {
        let what =
            format!("it is damaged, and the image needs the log from group {} on", self.group);
        LogFailure::Irreparable { file, offset: FIRST_GROUP_OFFSET, group, what }
    }
}
