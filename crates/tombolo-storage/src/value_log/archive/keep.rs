//! Which segments are kept when a log is opened although its image no longer needs them: those not
//! archived yet.
//!
//! Recovery begins where the image leaves off, and segments before that are free to be used again. This
//! module finds those that lead, without a gap, from a group that is still to be archived to the first one
//! that was walked. Not here: the walk itself. Invariant: what is kept belongs to the chain; whatever else
//! lies before it (segments used in an earlier life of the log, or never) is not.

use super::super::group::Group;
use super::super::groups::Chain;
use super::super::reader::{Placed, SegmentReader};
use super::super::settings::{GroupNumber, LogFailure};
use super::super::walk::{End, Passed};

/// Adds the segments with groups from `from` on to those the walk passed, as far as they are there.
pub(in crate::value_log) fn keep(end: &mut End, from: GroupNumber) -> Result<(), LogFailure> {
    let Some(start) = end.passed.first().map(|passed| passed.segment) else { return Ok(()) };
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
            let Group { number: last, more: runs_on, transactions, .. } = last.group;
            kept.push(Passed { segment, last, runs_on, transactions });
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
