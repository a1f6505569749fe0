//! Copies a log for a backup (`backup/`): the groups from that of an image up to a durable one, each
//! at its place in its segment, and zeros in place of all others.
//!
//! Groups written after the last one while this reads are not copied: a copy of the files byte by byte
//! could contain a later group but not an earlier one, which recovery would report as damage. Of a log whose records
//! have positions, what was set aside is copied, too. Not here: the image, pages. Invariants: the log is only read; no
//! group from the image's on is released meanwhile.

use super::directory::Directory;
use super::group::Group;
use super::groups::{AtGap, Groups};
use super::positions;
use super::reader::{Placed, SegmentReader};
use super::segment::{FIRST_GROUP_OFFSET, file_name};
use super::settings::{GroupNumber, LogFailure, LogKind, LogSettings};
use super::side::SIDE_FILE;
use super::start::{LogPosition, LogStart};
use crate::backup::{Copier, Copying};
use crate::disk::Disk;

/// Copies the log on `disk` from `start` up to group `to`, which is durable and ends a run of groups.
/// Returns the end of the copy.
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
    copy_groups(segments(disk, settings)?, start, to, copier)
}

/// Copies the log on `disk`, whose records have positions, from one on up to group `to`, as [`copy`] does, and the side
/// file, as it was then. Returns the end of the copy's segments.
///
/// # Errors
/// As [`copy`].
pub(crate) fn copy_positions(
    disk: &dyn Disk,
    (needed, to): (u64, GroupNumber),
    aside: &[u8],
    copier: &mut Copier<'_>,
) -> Result<LogPosition, LogFailure> {
    let settings = LogSettings { kind: LogKind::Paged, ..LogSettings::default() };
    let mut groups = segments(disk, &settings)?;
    let first = positions::first_group(&mut groups, needed)?;
    groups.forget();
    let nothing = || lost(to, "the log holds nothing".to_owned());
    let end = copy_groups(groups, LogStart::from(first.ok_or_else(nothing)?), to, copier)?;
    let mut file = copier.file(SIDE_FILE, aside.len() as u64)?;
    file.write(aside, 0)?;
    copier.end(file)?;
    Ok(end)
}

fn segments(disk: &dyn Disk, settings: &LogSettings) -> Result<Groups, LogFailure> {
    // A segment that cannot be read is just being created; otherwise it is found missing below.
    Ok(Groups::new(Directory::read(disk, true, settings)?.segments))
}

fn copy_groups(
    mut groups: Groups,
    start: LogStart,
    to: GroupNumber,
    copier: &mut Copier<'_>,
) -> Result<LogPosition, LogFailure> {
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

/// Goes to the beginning of the copy: the newest segment that begins, with a whole run, before the needed group.
/// If the chain does not lead from there to the group after which an image was made, then that group itself: no
/// earlier group is needed, and its checksum identifies it.
fn find(groups: &mut Groups, start: &LogStart) -> Result<(), LogFailure> {
    start.expect_salt(&groups.segments)?;
    let found = groups.go_to_segment(start.group, true)?;
    let first = groups.place;
    groups.forget();
    if let Some(position) = start.position() {
        // An unreadable group counts as missing; a caller that needs it reads it again.
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
