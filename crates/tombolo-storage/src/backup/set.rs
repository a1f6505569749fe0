//! Backups that belong together: of the islands of one database, as of one moment, each in a directory of its own.
//!
//! ```text
//! tombolo backup set 1
//! member group 4711 0badcafe transactions 30811
//! member group 4650 5eedbead transactions 29007
//! checksum 5d1f0a37
//! ```
//!
//! The file `backup` of the directory above them says where each of them ends, in their order: a member of another
//! set is noticed. While a set is made or restored, `backup-unfinished` is in that directory.
//!
//! Not here: the moment, and the copies of the members (the library's).

use super::manifest::{Manifest, position_in, position_line};
use super::sealed::Sealed;
use super::{BACKUP_FILE, Backup, BackupFailure, Copier};
use crate::disk::Disk;
use crate::value_log::LogPosition;

const MEMBER: &str = "member group";

/// Where each member ends.
#[derive(Debug, PartialEq, Eq)]
struct Set(Vec<LogPosition>);

impl Sealed for Set {
    const FIRST_LINE: &str = "tombolo backup set 1";

    fn encode(&self) -> String {
        self.0.iter().map(|position| position_line(MEMBER, position)).collect()
    }

    fn decode(text: &str) -> Option<Self> {
        text.lines().map(|line| position_in(MEMBER, line)).collect::<Option<_>>().map(Self)
    }
}

/// Makes a set in the empty directory `to`: of the backups that `members` makes, durably, each in a directory of its
/// own. If `members` fails it leaves none.
///
/// # Errors
/// See [`BackupFailure`]; there is no set then, or one that is marked as none.
pub fn write_set(
    to: &dyn Disk,
    members: impl FnOnce() -> Result<Vec<Backup>, BackupFailure>,
) -> Result<Vec<Backup>, BackupFailure> {
    Copier::make(to, Some(BACKUP_FILE), |_| {
        let made = members()?;
        Set(made.iter().map(|member| member.position).collect()).write(to)?;
        Ok(made)
    })
}

/// Restores a set into the empty directory `to`: `members` makes databases, durably, each in a directory of its own.
/// If it fails it leaves none.
///
/// # Errors
/// As [`write_set`].
pub fn restore_set(
    to: &dyn Disk,
    members: impl FnOnce() -> Result<Vec<Backup>, BackupFailure>,
) -> Result<Vec<Backup>, BackupFailure> {
    Copier::make(to, None, |_| members())
}

/// Verifies that `members` are those of the set in `from`, all of them.
///
/// # Errors
/// `NoBackup`, `Unfinished`, `OtherVersion`, `Damaged`, `Disk`.
pub fn verify_set(from: &dyn Disk, members: &[impl Disk]) -> Result<(), BackupFailure> {
    let Set(positions) = Set::read(from)?;
    let found = members.iter().map(|member| Ok(Manifest::read(member)?.position));
    let found = found.collect::<Result<Vec<_>, BackupFailure>>()?;
    if found == positions {
        return Ok(());
    }
    let (file, members) = (BACKUP_FILE.to_owned(), positions.len());
    let what = match found.len() == members {
        true => "a directory next to it is of another backup".to_owned(),
        false => format!("it is of {members} directories, and {} are there", found.len()),
    };
    Err(BackupFailure::Damaged { file, what })
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::super::sealed::assert_sealed;
    use super::*;

    #[test]
    fn every_changed_byte_and_every_cut_is_found() {
        let position = |group| LogPosition { group, checksum: 0x0bad_cafe, transactions: 99 };
        let set = Set(vec![position(4711), position(4650)]);
        let second = "member group 4650 0badcafe transactions 99\n";
        assert!(set.seal().contains(second), "{}", set.seal());
        assert_sealed(&set);
    }
}
