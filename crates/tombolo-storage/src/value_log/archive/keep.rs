//! Keeps segments that are not archived yet when a log is opened, although its image no longer needs them.
//!
//! Recovery begins at the end of the image, and earlier segments can be reused. This
//! module finds those that lead, without a gap, from a group that is not archived yet to the first
//! walked group. Not here: the walk itself. Invariant: only segments of the chain are kept, not other ones
//! before it (segments of an earlier use, or unused ones).

use super::super::group::Group;
use super::super::groups::Chain;
use super::super::reader::{Placed, SegmentReader};
use super::super::settings::{GroupNumber, LogFailure};
use super::super::walk::{End, Passed};

/// Adds the segments with groups from `from` on to those that the walk passed, as far as they exist.
pub(in crate::value_log) fn keep(end: &mut End, from: GroupNumber) -> Result<(), LogFailure> {
    let Some(&begun) = end.passed.first() else { return Ok(()) };
    let start = begun.segment;
    let segments = &mut end.groups.segments;
    let Some(Placed { group: mut next, .. }) = segments[start].first_group()? else {
        return Ok(());
    };
    let mut kept = Vec::new();
    for (segment, reader) in segments[..start].iter_mut().enumerate().rev() {
        if next.number <= from {
            break;
        }
        if let Some(first) = reader.first_group()? {
            let last = last_group(reader, first)?;
            if !Chain::behind(&last).continues(&next) {
                break;
            }
            let Group { number: last, more, transactions, .. } = last.group;
            let run_ends = match (more, next.more, kept.last()) {
                (false, _, _) => last,
                (true, false, _) => next.number,
                // The next segment has nothing but more of the same records.
                (true, true, following) => following.unwrap_or(&begun).run_ends,
            };
            kept.push(Passed { segment, last, run_ends, transactions });
            next = first.group;
        }
        reader.forget();
    }
    kept.reverse();
    kept.append(&mut end.passed);
    end.passed = kept;
    Ok(())
}

/// The last group of the segment's chain.
fn last_group(reader: &mut SegmentReader, first: Placed) -> Result<Placed, LogFailure> {
    let mut last = first;
    loop {
        let (chain, at) = (Chain::behind(&last), reader.behind(&last.group));
        match reader.group(at)? {
            Some(next) if chain.continues(&next.group) => last = next,
            _ => return Ok(last),
        }
    }
}
