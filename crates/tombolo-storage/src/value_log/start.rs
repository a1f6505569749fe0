//! Where a recovery begins: at the first group, or where an image leaves off.
//!
//! An image is complete as of a group; what came later is in the log. Image and log are tied by that
//! group's checksum, which covers all groups before it and the salt: a log of another database, or
//! one that was cut before the group and then continued differently, has another group there.
//!
//! Not here: the image (`memory/image/`), the way along the groups (`recover.rs`).

use super::group::Group;
use super::reader::SegmentReader;
use super::segment::{FIRST_GROUP_OFFSET, SALT};
use super::settings::{GroupNumber, LogFailure};

/// How recovery is to be done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecoverOptions {
    /// Where replaying begins, and what an image needs of the log.
    pub first: LogStart,
    /// Whether damage is cut off like a torn tail, with all groups behind it.
    pub accept_loss: bool,
    /// The first group that is still to be archived: groups from it on are not released, though no
    /// replay needs them.
    pub keep: Option<GroupNumber>,
}

/// How far a log is known, or an image holds it. The default is the beginning, before any group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogPosition {
    /// The newest group; 0 for none.
    pub group: GroupNumber,
    /// That group's checksum.
    pub checksum: u32,
    /// Transactions up to it.
    pub transactions: u64,
}

/// The first group to be replayed, and what the log must hold. A number is the log from that group
/// on, whatever it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogStart {
    /// The first group to be replayed; older ones may be gone. 1 is the whole log.
    pub group: GroupNumber,
    /// That group's checksum, if an image knows it: the log has to hold the group then, and it is
    /// replayed once more.
    pub checksum: Option<u32>,
    /// The newest group whose changes an image holds; the log has to reach it. 0 for none.
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
    /// Where the log takes over from an image that is complete as of `position` and holds changes of
    /// groups up to `known`.
    pub fn behind(position: LogPosition, known: GroupNumber) -> Self {
        match position.group {
            0 => Self { known, ..Self::default() },
            group => Self { group, checksum: Some(position.checksum), known, salt: None },
        }
    }

    /// The group that an image was made behind, if one knows its checksum.
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

    /// Refuses another group, in `file`, in place of the one that an image was made behind.
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

    /// The newest group that the log must hold.
    pub(super) fn needed(&self) -> GroupNumber {
        let first = self.group.saturating_sub(u64::from(self.checksum.is_none()));
        self.known.max(first)
    }

    /// What needs it, for messages.
    pub(super) fn need(&self) -> String {
        match self.known >= self.group {
            true => format!("the image holds changes of group {}", self.known),
            false => format!("group {} is the first that is needed", self.group),
        }
    }

    /// That the log begins with a later group, `oldest`, which `file` begins with.
    pub(super) fn is_gone(&self, oldest: GroupNumber, file: String) -> LogFailure {
        let group = self.group;
        let what = format!("the log begins at group {oldest}, the image needs group {group}");
        LogFailure::Irreparable { file, offset: FIRST_GROUP_OFFSET, group, what }
    }

    /// That the group that `file` begins with, and with it the way to the first that is needed, is damaged.
    pub(super) fn is_damaged(&self, group: GroupNumber, file: String) -> LogFailure {
        let what =
            format!("it is damaged, and the image needs the log from group {} on", self.group);
        LogFailure::Irreparable { file, offset: FIRST_GROUP_OFFSET, group, what }
    }
}
