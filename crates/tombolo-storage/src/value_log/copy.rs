//! A log copied, for a backup (`backup/`): the groups from an image on up to one that is durable, each
//! where it lies in its segment, and zeros in place of all others.
//!
//! What is written behind the last group while this reads is not in the copy: a copy of the bytes as
//! they lie could have a later group and not an earlier one, which a recovery would call damage. Not
//! here: the image. Invariants: the log is only read; no group from the image's on is released
//! meanwhile.

use super::directory::Directory;
use super::group::Group;
use super::reader::{Chain, SegmentReader, find_run};
use super::segment::{FIRST_GROUP_OFFSET, file_name};
use super::settings::{GroupNumber, LogFailure, LogSettings};
use super::start::{LogPosition, LogStart};
use crate::backup::{BackupFailure, Copier};
use crate::disk::Disk;

/// Copies the log on `disk` from `start` on up to group `to`, which is durable and the last of what was
/// written together. Returns where the copy ends.
///
/// # Errors
/// `Log` when the log does not lead from one to the other, `Full`, `Disk`.
pub(crate) fn copy(
    disk: &dyn Disk,
    settings: &LogSettings,
    start: LogStart,
    to: GroupNumber,
    copier: &mut Copier<'_>,
) -> Result<LogPosition, BackupFailure> {
    if start.known > to {
        let what = format!("{}, and group {to} is the newest that is durable", start.need());
        return Err(lost(".", FIRST_GROUP_OFFSET, to, what).into());
    }
    // A segment that cannot be read is being made in this moment, or its lack is noticed below.
    let mut segments = Directory::read(disk, true, settings)?.segments;
    let (mut at, mut offset, mut chain) = find(&mut segments, &start)?;
    let mut position = LogPosition::default();
    while position.group < to {
        let Some(reader) = segments.get_mut(at) else {
            let what = "a group that is durable is not there".to_owned();
            return Err(lost(".", FIRST_GROUP_OFFSET, chain.number, what).into());
        };
        let first = reader.group(offset)?.map(|placed| placed.group);
        if first.is_some_and(|group| chain.continues(&group)) {
            copy_segment(reader, offset, (&start, to), &mut chain, &mut position, copier)?;
        }
        reader.forget();
        (at, offset) = (at + 1, FIRST_GROUP_OFFSET);
    }
    Ok(position)
}

/// Where the copy begins, in which segment and at which offset: the newest segment that begins, with a
/// whole run, before what is needed. Where no way leads from there to the group an image was made behind,
/// that group itself: nothing needs what lies before it, and its checksum says that it is the right one.
fn find(
    segments: &mut [SegmentReader],
    start: &LogStart,
) -> Result<(usize, u64, Chain), LogFailure> {
    let is_other =
        |reader: &&SegmentReader| start.salt.is_some_and(|salt| reader.header.salt != salt);
    if let Some(other) = segments.iter().rev().find(is_other) {
        return Err(start.other_database(other.name()));
    }
    let (mut first, mut oldest) = (None, None);
    for (at, reader) in segments.iter_mut().enumerate().rev() {
        let group = reader.first_group()?.map(|placed| placed.group);
        reader.forget();
        let Some(group) = group else { continue };
        if group.number <= start.group && !group.continues {
            first = Some((at, FIRST_GROUP_OFFSET, Chain::of(&group)));
            break;
        }
        oldest = Some((group.number, reader.name().to_owned()));
    }
    if let Some(checksum) = start.checksum
        && !first.is_some_and(|(at, _, chain)| leads_to(segments, at, chain, start.group))
        && let Some((at, run, _)) = find_run(segments, start.group, checksum)?
    {
        return Ok((at, run.offset, Chain::of(&run)));
    }
    first.ok_or_else(|| match oldest {
        Some((number, file)) => start.is_gone(number, file),
        None => lost(".", FIRST_GROUP_OFFSET, start.group, "no segment holds it".to_owned()),
    })
}

/// Whether all groups from the beginning of a segment up to this one are there.
fn leads_to(
    segments: &mut [SegmentReader],
    first: usize,
    mut chain: Chain,
    group: GroupNumber,
) -> bool {
    for reader in &mut segments[first..] {
        let mut offset = FIRST_GROUP_OFFSET;
        // What cannot be read now counts as missing; a caller that needs it reads it again.
        while let Ok(Some(placed)) = reader.group(offset) {
            let (placed, checksum) = (placed.group, placed.checksum);
            if !chain.continues(&placed) {
                break;
            }
            if placed.number == group {
                return true;
            }
            (chain, offset) = (Chain::behind(&placed, checksum), reader.behind(&placed));
        }
        reader.forget();
    }
    false
}

/// Copies the groups of a segment from `offset` on that belong to the chain.
fn copy_segment(
    reader: &mut SegmentReader,
    mut offset: u64,
    (start, to): (&LogStart, GroupNumber),
    chain: &mut Chain,
    position: &mut LogPosition,
    copier: &mut Copier<'_>,
) -> Result<(), BackupFailure> {
    let mut file = copier.file(&file_name(reader.number), reader.header.segment_bytes)?;
    let mut bytes = vec![0; FIRST_GROUP_OFFSET as usize];
    reader.read(0, &mut bytes)?;
    file.write(&bytes, 0)?;
    while position.group < to {
        let placed = reader.group(offset)?.map(|placed| (placed.group, placed.checksum));
        let Some((group, checksum)) = placed.filter(|(group, _)| chain.continues(group)) else {
            break;
        };
        if group.number == start.group && start.checksum.is_some_and(|known| known != checksum) {
            return Err(start.stranger(checksum, reader.name(), offset).into());
        }
        let behind = reader.behind(&group);
        bytes.resize((behind - offset) as usize, 0);
        reader.read(offset, &mut bytes)?;
        file.write(&bytes, offset)?;
        let Group { number, transactions, epoch, .. } = group;
        *position = LogPosition { group: number, checksum, transactions };
        *chain = Chain { number: number + 1, previous: Some(checksum), epoch };
        offset = behind;
    }
    copier.end(file)?;
    Ok(())
}

fn lost(file: &str, offset: u64, group: GroupNumber, what: String) -> LogFailure {
    LogFailure::Damaged { file: file.to_owned(), offset, group, what }
}
