//! A log copied, for a backup (`backup/`): the groups from an image on up to one that is durable, each
//! where it lies in its segment, and zeros in place of all others.
//!
//! What is written behind the last group while this reads is not in the copy: a copy of the bytes as
//! they lie could have a later group and not an earlier one, which a recovery would call damage. Not
//! here: the image. Invariants: the log is only read; no group from the image's on is released
//! meanwhile.

use super::directory::Directory;
use super::group::Group;
use super::groups::{AtGap, Groups};
use super::reader::{Placed, SegmentReader};
use super::segment::{FIRST_GROUP_OFFSET, file_name};
use super::settings::{GroupNumber, LogFailure, LogSettings};
use super::start::{LogPosition, LogStart};
use crate::backup::{Copier, Copying};
use crate::disk::Disk;

/// Copies the log on `disk` from `start` on up to group `to`, which is durable and the last of what was
/// written together. Returns where the copy ends.
///
/// # Errors
/// `Damaged` when the log does not lead from one to the other; `Disk`, of either disk.
pub(crate) fn copy(
    disk: &dyn Disk,
    settings: &LogSettings,
    start: LogStart,
    to: GroupNumber,
    copier: &mut Copier<'_>,
) -> Result<LogPosition, LogFailure> {
    if start.known > to {
        let what = format!("{}, and group {to} is the newest that is durable", start.need());
        return Err(lost(to, what));
    }
    // A segment that cannot be read is being made in this moment, or its lack is noticed below.
    let mut groups = Groups::new(Directory::read(disk, true, settings)?.segments);
    find(&mut groups, &start)?;
    let mut position = LogPosition::default();
    let mut current: Option<(u64, Copying)> = None;
    while position.group < to
        && let Some(Placed { group, checksum }) = groups.next(AtGap::Refuse)?
    {
        let reader = groups.reader();
        start.expect(&group, checksum, reader.name())?;
        let file = match current.take() {
            Some((sequence, file)) if sequence == group.sequence => file,
            done => {
                done.map(|(_, file)| copier.end(file)).transpose()?;
                begin(reader, copier)?
            }
        };
        let (_, file) = current.insert((group.sequence, file));
        file.write(reader.whole(&group)?, group.offset)?;
        let Group { number, transactions, .. } = group;
        position = LogPosition { group: number, checksum, transactions };
    }
    current.map(|(_, file)| copier.end(file)).transpose()?;
    Ok(position)
}

/// Goes to where the copy begins: the newest segment that begins, with a whole run, before what is needed.
/// Where no way leads from there to the group an image was made behind, that group itself: nothing needs
/// what lies before it, and its checksum says that it is the right one.
fn find(groups: &mut Groups, start: &LogStart) -> Result<(), LogFailure> {
    start.expect_salt(&groups.segments)?;
    let found = groups.go_to_segment(start.group, true)?;
    let first = groups.place;
    groups.forget();
    if let Some(position) = start.position() {
        // What cannot be read now counts as missing; a caller that needs it reads it again.
        let leads_to = found.is_ok() && matches!(groups.go_behind(start.group), Ok(Some(_)));
        if !leads_to && groups.jump(position, false)? {
            return Ok(());
        }
    }
    groups.place = first;
    found.map_err(|over| {
        over.failure(start).unwrap_or_else(|| lost(start.group, "no segment holds it".to_owned()))
    })
}

/// Begins the file of a segment with its header.
fn begin(reader: &mut SegmentReader, copier: &mut Copier<'_>) -> Result<Copying, LogFailure> {
    let mut file = copier.file(&file_name(reader.number), reader.header.segment_bytes)?;
    file.write(reader.before_groups()?, 0)?;
    Ok(file)
}

fn lost(group: GroupNumber, what: String) -> LogFailure {
    LogFailure::Damaged { file: ".".to_owned(), offset: FIRST_GROUP_OFFSET, group, what }
}
