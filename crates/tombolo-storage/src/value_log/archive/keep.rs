//! Which segments are kept when a log is opened although its image no longer needs them: those not
//! archived yet.
//!
//! Recovery begins where the image leaves off, and segments before that are free to be used again. This
//! module finds those that lead, without a gap, from a group that is still to be archived to the first one
//! that was walked. Not here: the walk itself. Invariant: what is kept belongs to the chain; whatever else
//! lies before it (segments used in an earlier life of the log, or never) is not.

use super::super::group::Group;
use super::super::reader::{Chain, SegmentReader};
use super::super::segment::FIRST_GROUP_OFFSET;
use super::super::settings::{GroupNumber, LogFailure};
use super::super::walk::{End, Passed};

/// Adds the segments with groups from `from` on to those the walk passed, as far as they are there.
pub(in crate::value_log) fn keep(end: &mut End, from: GroupNumber) -> Result<(), LogFailure> {
    let Some(start) = end.passed.first().map(|passed| passed.segment) else { return Ok(()) };
    let Some(mut next) = first_group(&mut end.segments[start])? else { return Ok(()) };
    let mut kept = Vec::new();
    for segment in (0..start).rev() {
        if next.number <= from {
            break;
        }
        let reader = &mut end.segments[segment];
        if let Some(first) = first_group(reader)? {
            let (last, checksum) = last_group(reader, first)?;
            if (last.number + 1, checksum) != (next.number, next.previous) {
                break;
            }
            kept.push(Passed { segment, last: last.number, runs_on: last.more });
            next = first;
        }
        reader.forget();
    }
    kept.reverse();
    kept.append(&mut end.passed);
    end.passed = kept;
    Ok(())
}

fn first_group(reader: &mut SegmentReader) -> Result<Option<Group>, LogFailure> {
    Ok(reader.first_group()?.map(|placed| placed.group))
}

/// The last group of the segment's chain, and its checksum.
fn last_group(reader: &mut SegmentReader, first: Group) -> Result<(Group, u32), LogFailure> {
    let mut chain = Chain::of(&first);
    let (mut last, mut checksum, mut at) = (first, 0, FIRST_GROUP_OFFSET);
    while let Some(placed) = reader.group(at)?.filter(|placed| chain.continues(&placed.group)) {
        (last, checksum) = (placed.group, placed.checksum);
        chain = Chain::behind(&last, checksum);
        at = reader.behind(&last);
    }
    Ok((last, checksum))
}
