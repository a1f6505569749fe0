//! Finds the groups of an archive that follow a backup up to a group or a time, and writes them into the restored log.
//!
//! Parts are identified by their headers. At first only the parts with the backup's end or the target
//! are read completely. Then all are read, group by group, and written into their former segments. Not
//! here: the backup's own files (`backup/`). Invariants: the written groups follow the backup's last group
//! without a gap, each verified; the last one ends a run.

use super::super::directory::Directory;
use super::super::group::Group;
use super::super::groups::{Groups, InPlace};
use super::super::reader::{Placed, SegmentReader};
use super::super::segment::file_name;
use super::super::settings::{GroupNumber, LogFailure, LogSettings};
use super::super::start::LogPosition;
use super::failure::time_text;
use super::part::Part;
use super::{ArchiveFailure, held, parts};
use crate::backup::Copier;
use crate::disk::{Disk, DiskError, DiskFile, Open};
use crate::header_copies::COPY_BYTES;
use crate::plant::{self, Plant};

/// The target of a restore.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RestoreTarget {
    /// All that is archived.
    #[default]
    Latest,
    /// This group and all before it.
    Group(GroupNumber),
    /// All groups up to the last one whose time, in microseconds since 1970, is not after this.
    Time(u64),
}

impl RestoreTarget {
    fn text(self) -> String {
        match self {
            Self::Latest => "the latest group".to_owned(),
            Self::Group(group) => format!("group {group}"),
            Self::Time(us) => time_text(us),
        }
    }
}

/// The end of a backup's log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tail {
    position: LogPosition,
    /// The time of its last group.
    pub(crate) time_us: u64,
    salt: u64,
    /// The sequence number of its last segment, and the number of that segment's file.
    sequence: u64,
    number: u64,
    /// The number of the next file to be created.
    next_number: u64,
}

impl Tail {
    /// Finds it in the log on `disk`, which ends at `position`.
    ///
    /// # Errors
    /// When it is missing, or the disk fails.
    pub(crate) fn find(disk: &dyn Disk, position: LogPosition) -> Result<Self, LogFailure> {
        let settings = LogSettings { direct: false, ..LogSettings::default() };
        let mut groups = Groups::new(Directory::read(disk, false, &settings)?.segments);
        let next_number = groups.segments.iter().map(|reader| reader.number).max().unwrap_or(0) + 1;
        // Regardless of earlier groups: a backup begins with the group as of which its image is complete.
        let LogPosition { group, checksum, .. } = position;
        let Some(InPlace { segment, placed, .. }) = groups.find_in_place(group, checksum)? else {
            let what = "the backup's last group is not in its log".to_owned();
            return Err(LogFailure::Damaged { file: ".".to_owned(), offset: 0, group, what });
        };
        let SegmentReader { header, number, .. } = groups.segments[segment];
        let (salt, sequence, time_us) = (header.salt, header.sequence, placed.group.time_us);
        Ok(Self { position, time_us, salt, sequence, number, next_number })
    }
}

/// The groups of an archive to be appended to a backup.
#[derive(Debug)]
pub(crate) struct Plan {
    parts: Vec<Part>,
    /// The last group.
    to: GroupNumber,
    /// Its time.
    pub(crate) time_us: u64,
}

impl Plan {
    /// Finds the groups of `archive` that lead from `tail` to the target.
    ///
    /// # Errors
    /// See [`ArchiveFailure`].
    pub(crate) fn make(
        archive: &dyn Disk,
        tail: &Tail,
        target: RestoreTarget,
    ) -> Result<Self, ArchiveFailure> {
        let all = parts(archive)?;
        let chain = chain(archive, &all, tail)?;
        let end = chain.last().map_or(tail.position.group, |part| part.head.last);
        let missing = all
            .iter()
            .find(|part| part.head.last > end)
            .map(|_| ArchiveFailure::Gap { missing: end + 1, held: held(&all) });
        let ends = Ends { tail, chain: &chain, target };
        let to = match target {
            RestoreTarget::Group(group) if group > end => {
                return Err(missing.unwrap_or_else(|| ends.out_of_reach()));
            }
            RestoreTarget::Group(group) => group,
            RestoreTarget::Latest => match missing {
                Some(gap) => return Err(gap),
                None => end,
            },
            RestoreTarget::Time(us) if us > ends.last().1 => {
                return Err(missing.unwrap_or_else(|| ends.out_of_reach()));
            }
            RestoreTarget::Time(_) => end,
        };
        let until_us = if let RestoreTarget::Time(us) = target { us } else { u64::MAX };
        if to < tail.position.group || until_us < tail.time_us {
            return Err(ends.out_of_reach());
        }
        let (to, time_us) = last_whole(archive, &chain, tail, to, until_us)?;
        if until_us < u64::MAX && time_us == 0 {
            return Err(ArchiveFailure::NoTimes { asked: target.text(), group: to });
        }
        let parts = chain.into_iter().filter(|part| part.head.first <= to).collect();
        Ok(Self { parts, to, time_us })
    }

    /// Writes the groups into the log on `to`, which ends at `tail`; returns its new end.
    ///
    /// # Errors
    /// When a part is damaged; `Disk`, of either disk.
    pub(crate) fn place(
        &self,
        archive: &dyn Disk,
        tail: &Tail,
        to: &dyn Disk,
        copier: &mut Copier<'_>,
    ) -> Result<LogPosition, ArchiveFailure> {
        let mut position = tail.position;
        let mut next_number = tail.next_number;
        let mut current: Option<(u64, Box<dyn DiskFile>)> = None;
        for part in &self.parts {
            let mut groups = part.groups(archive)?;
            while let Some((Placed { group, checksum }, bytes)) = groups.next()? {
                if group.number > self.to {
                    break;
                }
                if group.number <= tail.position.group {
                    continue;
                }
                let file = match current.take() {
                    Some((sequence, file)) if sequence == group.sequence => file,
                    done => {
                        done.map(|(_, done)| done.sync()).transpose()?;
                        let number = if group.sequence == tail.sequence {
                            tail.number
                        } else {
                            make_segment(part, next_number, copier)?;
                            next_number += 1;
                            next_number - 1
                        };
                        to.open(&file_name(number), Open::Write)?
                    }
                };
                file.write_at(bytes, group.offset)?;
                current = Some((group.sequence, file));
                let Group { number, transactions, .. } = group;
                position = LogPosition { group: number, checksum, transactions };
            }
        }
        current.map(|(_, done)| done.sync()).transpose()?;
        assert_eq!(position.group, self.to, "all planned groups were written");
        Ok(position)
    }
}

/// Creates the file of an empty segment, as long as the part's segment.
fn make_segment(part: &Part, number: u64, copier: &mut Copier<'_>) -> Result<(), DiskError> {
    let header = part.head.segment();
    let mut file = copier.file(&file_name(number), header.segment_bytes)?;
    let mut copy = vec![0; COPY_BYTES];
    header.encode(&mut copy);
    file.write(&copy, 0)?;
    file.write(&copy, COPY_BYTES as u64)?;
    copier.end(file).map(drop)
}

/// The possible targets, for messages.
struct Ends<'a> {
    tail: &'a Tail,
    chain: &'a [Part],
    target: RestoreTarget,
}

impl Ends<'_> {
    /// The last group and its time.
    fn last(&self) -> (GroupNumber, u64) {
        let last = self.chain.last().map(|part| (part.head.last, part.head.last_us));
        last.unwrap_or((self.tail.position.group, self.tail.time_us))
    }

    fn out_of_reach(&self) -> ArchiveFailure {
        let first = (self.tail.position.group, self.tail.time_us);
        ArchiveFailure::OutOfReach { asked: self.target.text(), first, last: self.last() }
    }
}

/// The consecutive parts that continue from `tail`.
fn chain(archive: &dyn Disk, all: &[Part], tail: &Tail) -> Result<Vec<Part>, ArchiveFailure> {
    let mut chain = Vec::new();
    let mut position = tail.position;
    loop {
        let next = position.group + 1;
        let holds = |part: &&Part| {
            let head = &part.head;
            head.salt == tail.salt && head.first <= next && next <= head.last
        };
        let mut found: Option<&Part> = None;
        for part in all.iter().filter(holds) {
            if !follows(archive, part, position)? {
                continue;
            }
            if let Some(other) = found {
                let files = [other.path.clone(), part.path.clone()];
                return Err(ArchiveFailure::Fork { group: position.group, files });
            }
            found = Some(part);
        }
        let Some(part) = found else { return Ok(chain) };
        position = part.head.end();
        chain.push(part.clone());
    }
}

/// Whether a part continues from the position, which is in it or just before it.
fn follows(archive: &dyn Disk, part: &Part, position: LogPosition) -> Result<bool, ArchiveFailure> {
    if part.head.first == position.group + 1 {
        return Ok(part.head.previous == position.checksum || plant::is(Plant::ArchiveUnchained));
    }
    let mut groups = part.groups(archive)?;
    while let Some((Placed { group, checksum }, _)) = groups.next()? {
        if group.number >= position.group {
            return Ok((group.number, checksum) == (position.group, position.checksum));
        }
    }
    Ok(false)
}

/// The last group up to `to`, and not later than `until_us`, that ends a run of groups; and its
/// time. A run can cross the end of a part, if its segment was full. Times go back if a clock was
/// ahead for a while.
fn last_whole(
    archive: &dyn Disk,
    chain: &[Part],
    tail: &Tail,
    to: GroupNumber,
    until_us: u64,
) -> Result<(GroupNumber, u64), ArchiveFailure> {
    let mut last = (tail.position.group, tail.time_us);
    let within = |part: &&Part| {
        let head = &part.head;
        let is_later = until_us < head.first_us && head.first_us <= head.last_us;
        head.first <= to && !is_later
    };
    for part in chain.iter().rev().filter(within) {
        let mut groups = part.groups(archive)?;
        while let Some((Placed { group, .. }, _)) = groups.next()? {
            let is_within = group.number <= to && group.time_us <= until_us;
            if is_within && !group.more && group.number > last.0 {
                last = (group.number, group.time_us);
            }
            if group.number >= to {
                break;
            }
        }
        if last.0 > tail.position.group {
            break;
        }
    }
    Ok(last)
}
