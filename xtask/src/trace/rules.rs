//! What the order of system calls must be for answers to be durable.
//!
//! Every group of the log says how many transactions there are up to and with it, so a trace shows which
//! transactions each `fdatasync` made durable. The rules:
//!
//! 1. Each `fdatasync` of a segment follows the return of all writes of groups to it, and covers at least one:
//!    that of a flush, of a seal (a group without records), or of a segment left behind, which a flush that
//!    continues in the next one syncs first. Others are only of what is no group, when a segment is made, and
//!    of what an earlier process wrote, before this one begins its epoch.
//! 2. At any time no more answers are written than transactions of the measured calls are durable: those of
//!    groups without a gap whose covering `fdatasync` has returned well. So between the write of a group and
//!    the return of that call nothing of the group is answered.
//! 3. After a write or an `fdatasync` of a group that failed, no group is written or synced and nothing is
//!    answered. A segment that is being made holds no group, and another thread may make it to its end. Where
//!    that fails, what is in other segments is as good as before, and the log ends on its own (`mod.rs`).
//! 4. No other call than `pwrite64` and `fdatasync` touches a segment's content.
//! 5. Files of the checkpoint image are synced besides, which makes no answer durable; after a write or sync of the
//!    image that failed, nothing more is written to it or synced, and the log continues.
//!
//! Not here: how a trace is made and what its counts must be (`mod.rs`).

use std::collections::BTreeMap;

use super::lines::{Call, Event};

/// Bytes of a group's header, and where its fields are (docs/format.md).
const HEADER_BYTES: usize = 64;
const MAGIC: &[u8] = b"tgr3";
const NUMBER: usize = 8;
const TRANSACTIONS: usize = 40;
const LENGTH: usize = 56;
const FLAGS: usize = 60;
const STARTS_EPOCH: u64 = 2;

/// A group as its header describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Group {
    number: u64,
    /// Those in all groups up to this one.
    transactions: u64,
    is_empty: bool,
    /// All groups before it are durable: an earlier process wrote them, or this one has again.
    starts_epoch: bool,
}

impl Group {
    fn read(data: &[u8]) -> Option<Self> {
        let header = data.get(..HEADER_BYTES).filter(|header| header.starts_with(MAGIC))?;
        let number = |at: usize, bytes: usize| {
            let field = header[at..at + bytes].iter().rev();
            field.fold(0_u64, |value, &byte| value << 8 | u64::from(byte))
        };
        Some(Self {
            number: number(NUMBER, 8),
            transactions: number(TRANSACTIONS, 8),
            is_empty: number(LENGTH, 4) == 0,
            starts_epoch: number(FLAGS, 4) & STARTS_EPOCH != 0,
        })
    }
}

/// The counts of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Groups with records.
    pub(super) groups: u64,
    /// `fdatasync`s that made groups with records durable and ended a flush, with the number of transactions durable
    /// behind them.
    pub(super) flushes: Vec<u64>,
    /// Those of segments that a flush left behind.
    pub(super) left_behind: u64,
    /// Those of groups without records: seals, and the first group of a process.
    pub(super) seals: u64,
    /// Those of what an earlier process wrote, which must not be taken for durable before.
    pub(super) of_recovery: u64,
    /// Those of segments that were made or made ready again.
    pub(super) of_segments: u64,
    /// Those of the checkpoint image and its catalogue.
    pub(super) of_image: u64,
    /// Answers written.
    pub(super) answered: u64,
    /// Transactions in the whole log.
    pub(super) transactions: u64,
    /// Writes of answers.
    pub(super) answer_writes: u64,
    /// Whether a write or an `fdatasync` of a group failed, or one of what recovery writes.
    pub(super) has_failed: bool,
    /// Whether one of a segment that was being made failed.
    pub(super) making_has_failed: bool,
    /// Whether one of the image failed.
    pub(super) image_has_failed: bool,
}

#[derive(Debug, Default)]
struct Segment {
    /// Groups whose write has returned and that no `fdatasync` covers.
    written: Vec<Group>,
    /// Something that is no group was written and not synced.
    is_being_made: bool,
}

/// A call under way.
#[derive(Debug)]
enum UnderWay {
    Write { path: String, group: Option<Group>, bytes: u64 },
    Sync { covered: Vec<Group> },
    Image { is_sync: bool },
    Answers { bytes: u64 },
    Other,
}

/// Transactions of all groups that a trace writes.
pub(super) fn transactions(events: &[Event]) -> u64 {
    let groups = events.iter().filter_map(|event| match event {
        Event::Enter { call, .. } => Group::read(&call.data),
        Event::Return { .. } => None,
    });
    groups.map(|group| group.transactions).max().unwrap_or_default()
}

/// Follows a trace and holds the rules.
#[derive(Debug)]
pub(super) struct Judge<'a> {
    /// The path of the file of answers and what it held in the end.
    acks_path: String,
    acks: &'a [u8],
    /// Where in it the next answer is written.
    reported_bytes: usize,
    /// Transactions that were in the log before the first measured one.
    base: u64,
    segments: BTreeMap<String, Segment>,
    /// The segment whose group was written last.
    current: String,
    under_way: BTreeMap<u32, UnderWay>,
    /// Whether the first group of this process's own is written.
    has_begun: bool,
    /// Groups that are durable though one before them is not, by number.
    ahead: BTreeMap<u64, u64>,
    /// The newest group without a gap before it, once one was seen.
    durable_group: Option<u64>,
    durable: u64,
    counts: Counts,
}

impl<'a> Judge<'a> {
    pub(super) fn new(acks_path: &str, acks: &'a [u8], base: u64) -> Self {
        Self {
            acks_path: acks_path.to_owned(),
            acks,
            reported_bytes: 0,
            base,
            segments: BTreeMap::new(),
            current: String::new(),
            under_way: BTreeMap::new(),
            has_begun: false,
            ahead: BTreeMap::new(),
            durable_group: None,
            durable: 0,
            counts: Counts::default(),
        }
    }

    /// Takes the next event.
    ///
    /// # Errors
    /// The rule that is broken.
    pub(super) fn see(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Enter { thread, call } => {
                let under_way = self.enter(&call)?;
                self.under_way.insert(thread, under_way);
                Ok(())
            }
            Event::Return { thread, value, .. } => match self.under_way.remove(&thread) {
                Some(under_way) => self.returned(under_way, value),
                None => Ok(()), // entered before the trace began
            },
        }
    }

    /// The counts, at the end.
    ///
    /// # Errors
    /// When groups were left that were not synced, though nothing failed.
    pub(super) fn end(self) -> Result<Counts, String> {
        let left = self.segments.values().flat_map(|segment| &segment.written).next();
        match left {
            Some(group) if !self.counts.has_failed && !self.counts.making_has_failed => {
                Err(format!("group {} was never synced", group.number))
            }
            _ => Ok(self.counts),
        }
    }

    fn enter(&mut self, call: &Call) -> Result<UnderWay, String> {
        if call.path == self.acks_path {
            return self.check_answers(call);
        }
        let name = call.path.rsplit('/').next().unwrap_or_default();
        if name.starts_with("image-") || name.starts_with("checkpoint-") {
            return self.image(call, name);
        }
        if !name.starts_with("log-") {
            return Ok(UnderWay::Other);
        }
        if self.counts.has_failed && !self.is_of_making(call) {
            return Err(format!("{} of {name} after the log had failed", call.name));
        }
        match call.name.as_str() {
            "pwrite64" => Ok(self.write(call)),
            "fdatasync" => self.sync(call, name),
            "fallocate" | "ftruncate" => Ok(UnderWay::Other),
            other => Err(format!("{other} of {name}, which only pwrite64 and fdatasync may touch")),
        }
    }

    /// Whether a call is of a segment that is being made.
    fn is_of_making(&self, call: &Call) -> bool {
        let segment = self.segments.get(&call.path);
        match call.name.as_str() {
            "pwrite64" => Group::read(&call.data).is_none() && call.path != self.current,
            "fdatasync" => segment.is_some_and(|of| of.is_being_made && of.written.is_empty()),
            _ => segment.is_none_or(|of| of.written.is_empty()),
        }
    }

    fn image(&self, call: &Call, name: &str) -> Result<UnderWay, String> {
        let is_sync = matches!(call.name.as_str(), "fdatasync" | "fsync");
        match call.name.as_str() {
            _ if self.counts.image_has_failed => {
                Err(format!("{} of {name} after the image had failed", call.name))
            }
            "fdatasync" | "fsync" | "pwrite64" => Ok(UnderWay::Image { is_sync }),
            _ => Ok(UnderWay::Other), // a file is made longer, and the disk may be full
        }
    }

    fn write(&mut self, call: &Call) -> UnderWay {
        let group = Group::read(&call.data);
        let segment = self.segments.entry(call.path.clone()).or_default();
        match group {
            Some(_) => self.current.clone_from(&call.path),
            None => segment.is_being_made = true,
        }
        UnderWay::Write { path: call.path.clone(), group, bytes: call.bytes }
    }

    fn sync(&mut self, call: &Call, name: &str) -> Result<UnderWay, String> {
        let path = &call.path;
        let is_written_to = |under_way: &UnderWay| match under_way {
            UnderWay::Write { path: of, group: Some(_), .. } => of == path,
            _ => false,
        };
        if self.under_way.values().any(is_written_to) {
            return Err(format!("fdatasync of {name} while a group is written to it"));
        }
        let segment = self.segments.entry(path.clone()).or_default();
        let covered = std::mem::take(&mut segment.written);
        let is_of_making = std::mem::take(&mut segment.is_being_made);
        let counts = &mut self.counts;
        let transactions = covered.iter().map(|group| group.transactions).max();
        match transactions {
            None if is_of_making => counts.of_segments += 1,
            None if !self.has_begun => counts.of_recovery += 1,
            None => return Err(format!("fdatasync of {name}, which covers nothing")),
            Some(_) if *path != self.current => counts.left_behind += 1,
            Some(_) if covered.iter().all(|group| group.is_empty) => counts.seals += 1,
            Some(transactions) => counts.flushes.push(transactions),
        }
        Ok(UnderWay::Sync { covered })
    }

    /// Answers are about to be written: those in the file's next bytes.
    fn check_answers(&mut self, call: &Call) -> Result<UnderWay, String> {
        if call.name != "write" {
            return Ok(UnderWay::Other);
        }
        let end = self.reported_bytes + call.bytes as usize;
        let lines = self.acks.get(self.reported_bytes..end);
        let lines = lines.ok_or("more was written to the file of answers than it holds")?;
        self.counts.answered += lines.iter().filter(|&&byte| byte == b'\n').count() as u64;
        self.counts.answer_writes += 1;
        self.reported_bytes = end;
        let (answered, durable) = (self.counts.answered, self.durable.saturating_sub(self.base));
        match answered {
            _ if self.counts.has_failed => {
                Err("answers are given after the log had failed".to_owned())
            }
            _ if answered > durable => Err(format!(
                "{answered} answers are given when {durable} of their calls are durable"
            )),
            _ => Ok(UnderWay::Answers { bytes: call.bytes }),
        }
    }

    fn returned(&mut self, under_way: UnderWay, value: Option<u64>) -> Result<(), String> {
        match under_way {
            UnderWay::Write { .. } | UnderWay::Sync { .. } if value.is_none() => {
                let is_of_groups = match under_way {
                    UnderWay::Write { group, .. } => group.is_some(),
                    UnderWay::Sync { covered } => !covered.is_empty(),
                    _ => false,
                };
                match is_of_groups || !self.has_begun {
                    true => self.counts.has_failed = true,
                    false => self.counts.making_has_failed = true,
                }
            }
            UnderWay::Image { is_sync } => match value {
                None => self.counts.image_has_failed = true,
                Some(_) => self.counts.of_image += u64::from(is_sync),
            },
            UnderWay::Write { path, group, bytes } => {
                if value != Some(bytes) {
                    return Err(format!("{bytes} bytes were written to {path} in parts"));
                }
                if let Some(group) = group {
                    self.has_begun |= group.starts_epoch;
                    self.counts.groups += u64::from(!group.is_empty);
                    self.counts.transactions = self.counts.transactions.max(group.transactions);
                    self.segments.entry(path).or_default().written.push(group);
                }
            }
            UnderWay::Sync { covered } => self.note_durable(covered),
            UnderWay::Answers { bytes } if value != Some(bytes) => {
                return Err("answers were given in parts".to_owned());
            }
            UnderWay::Answers { .. } | UnderWay::Other => {}
        }
        Ok(())
    }

    fn note_durable(&mut self, covered: Vec<Group>) {
        if let Some(first) = covered.iter().find(|group| group.starts_epoch) {
            self.durable_group = self.durable_group.max(Some(first.number - 1));
        }
        self.ahead.extend(covered.iter().map(|group| (group.number, group.transactions)));
        while let Some(first) = self.ahead.first_entry() {
            let is_next = self.durable_group.is_none_or(|newest| *first.key() <= newest + 1);
            if !is_next {
                return;
            }
            self.durable_group = self.durable_group.max(Some(*first.key()));
            self.durable = self.durable.max(first.remove());
        }
    }
}

#[cfg(test)]
mod tests;
