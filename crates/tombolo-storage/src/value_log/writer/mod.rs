//! `LogWriter`: appends groups and makes them durable.
//!
//! ```text
//!             append_group                    sync
//!   durable ──────────────► written, newest ────────► durable = newest
//!      │                        │                         │
//!      │                        └── a failed write or sync ──► failed: nothing is written any more
//!      └── seal: an empty group that records the newest one as durable
//! ```
//!
//! A group takes one write or, if no segment has room for it, one per segment over which it is spread; a
//! sync takes one `fdatasync`, and one more for each segment filled since the last sync. Every
//! group records the newest group known to be durable when it was written. By this, recovery
//! distinguishes a torn tail from damage, so only its successor vouches for the newest group.
//! [`LogWriter::seal`] writes this successor when there is nothing else to write.
//!
//! Not here: the times of writes and syncs, threads. Invariants: numbers ascend by one; a block with
//! a group is written once; `durable` never exceeds the groups covered by a successful sync.

mod positions;

use super::aligned::AlignedBuffer;
use super::follow::LogReader;
use super::group::{Group, HEADER_BYTES};
use super::lock::DirectoryLock;
use super::segment::{FIRST_GROUP_OFFSET, Segment, file_name, file_number};
use super::settings::{GroupNumber, LogFailure, LogKind, LogSettings, LogUsage};
use super::side::Side;
use super::space::{Pool, Preparer, Reservation, Shared, Space};
use super::start::LogPosition;
use crate::disk::{ALIGNMENT_MAX, Disk, DiskError, DiskFile, Operation};
use crate::plant::{self, Plant};
use crate::sync::Arc;

/// Memory for a group, allocated at opening: for the largest group of the pipeline, and its header.
const BUFFER_BYTES: u64 = 17 << 20;

/// The time by which, and for which, a clock must be behind before it is followed.
const BELIEVED_US: u64 = 3_600_000_000;

/// A full segment.
#[derive(Debug)]
pub(super) struct Closed {
    pub(super) segment: Segment,
    /// The newest group that begins in it.
    pub(super) last: GroupNumber,
    /// The group that ends the records of that group: in a later segment if they continue there.
    pub(super) run_ends: GroupNumber,
    /// Transactions up to the end of these records.
    pub(super) transactions: u64,
    /// Whether all of it is on the device.
    pub(super) is_synced: bool,
}

/// The end of the chain of groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tail {
    /// The newest group.
    pub(super) newest: GroupNumber,
    pub(super) checksum: u32,
    pub(super) transactions: u64,
    /// The time for new groups, in microseconds since 1970; 0 for none.
    pub(super) time_us: u64,
    /// The epoch of the groups that will be written.
    pub(super) epoch: u32,
    /// The offset of the next group in the current segment.
    pub(super) at: u64,
}

/// Writes a log. See the module's head.
#[derive(Debug)]
pub struct LogWriter {
    shared: Arc<Shared>,
    /// The lock on the directory.
    _lock: DirectoryLock,
    current: Segment,
    closed: Vec<Closed>,
    /// The first group from which replay may begin, and the first group not archived yet.
    releasable: GroupNumber,
    kept_from: GroupNumber,
    tail: Tail,
    durable: GroupNumber,
    /// Whether the newest group is durable and a later one records that, or is empty itself.
    is_sealed: bool,
    buffer: AlignedBuffer,
    /// Of a log whose records have positions.
    side: Option<Side>,
    failure: Option<LogFailure>,
    usage: LogUsage,
    /// The first time that was not followed because it was long before the last one.
    behind_since_us: Option<u64>,
}

/// The segments of a log as a writer needs them.
pub(super) struct Segments {
    pub(super) pool: Pool,
    pub(super) closed: Vec<Closed>,
    /// The one that is written on.
    pub(super) current: Option<Segment>,
}

impl LogWriter {
    /// Creates a log in a directory without one.
    ///
    /// # Errors
    /// `Exists`, `InUse`, `Full`, `Settings`, or `Disk`.
    pub fn create(disk: Arc<dyn Disk>, settings: LogSettings) -> Result<Self, LogFailure> {
        Self::create_at(disk, settings, 0)
    }

    /// The same of a log whose first record will have this position.
    pub(crate) fn create_at(
        disk: Arc<dyn Disk>,
        settings: LogSettings,
        position: u64,
    ) -> Result<Self, LogFailure> {
        settings.check()?;
        let lock = DirectoryLock::take(&*disk)?;
        if let Some(file) = disk.list()?.into_iter().find(|name| file_number(name).is_some()) {
            return Err(LogFailure::Exists { file });
        }
        let (transactions, time_us) = (position, position);
        let tail = Tail { newest: 0, checksum: 0, transactions, time_us, epoch: 1, at: 0 };
        let pool = Pool { next_sequence: 1, next_number: 1, ..Pool::default() };
        let segments = Segments { pool, current: None, closed: Vec::new() };
        Self::start(disk, settings, lock, segments, tail, &[])
    }

    /// A writer that continues at `tail`, in the current segment if there is one; its first group, which
    /// begins the epoch and holds `records`, is durable when this returns.
    pub(super) fn start(
        disk: Arc<dyn Disk>,
        settings: LogSettings,
        lock: DirectoryLock,
        Segments { pool, current, closed }: Segments,
        mut tail: Tail,
        records: &[u8],
    ) -> Result<Self, LogFailure> {
        let shared = Arc::new(Shared::new(disk, settings, pool));
        if let Some(segment) = &current {
            shared.add(&segment.header, tail.at);
        }
        // Records that go on in another segment take a header of a group more.
        let extra = if records.is_empty() { 0 } else { 2 * ALIGNMENT_MAX as u64 };
        let reservation = Shared::reserve_now(&shared, records.len() as u64 + extra)?;
        let current = match current {
            Some(segment) => segment,
            None => {
                tail.at = FIRST_GROUP_OFFSET;
                shared.pool(|pool| pool.ready.pop_front()).expect("room was just reserved")
            }
        };
        // At opening, where lack of memory is only a refusal.
        let longest = current.header.segment_bytes.max(shared.settings.segment_bytes);
        let buffer_bytes = longest.min(BUFFER_BYTES) as usize;
        let mut buffer = AlignedBuffer::default();
        buffer.reserve(buffer_bytes, Operation::Write, &*current.file)?;
        let usage = LogUsage { is_direct: current.is_direct(), ..LogUsage::default() };
        let side = match shared.settings.kind {
            LogKind::Paged => Some(Side::open(&*shared.disk, shared.settings.direct)?),
            LogKind::Value | LogKind::Command => None,
        };
        let durable = tail.newest;
        let mut writer = Self {
            shared,
            _lock: lock,
            current,
            closed,
            releasable: 0,
            kept_from: GroupNumber::MAX,
            tail,
            durable,
            is_sealed: true,
            buffer,
            side,
            failure: None,
            usage,
            behind_since_us: None,
        };
        if !plant::is(Plant::TailNotCut) {
            writer.write_groups(&[records], true, reservation)?;
            writer.sync()?;
            writer.is_sealed = true;
        }
        Ok(writer)
    }

    /// Zeros the newest group's segment from the end of the group up to `to`.
    pub(super) fn wipe(&mut self, to: u64) -> Result<(), LogFailure> {
        if to <= self.tail.at {
            return Ok(());
        }
        let wiped = self.current.wipe(self.tail.at, to);
        wiped.map_err(|error| fail(&mut self.failure, error))
    }

    /// The interface for reserving room for groups.
    pub fn space(&self) -> Space {
        Space(Arc::clone(&self.shared))
    }

    /// The preparer of segments.
    pub fn preparer(&self) -> Preparer {
        Preparer(Arc::clone(&self.shared))
    }

    /// The newest group written, durable or not.
    pub fn newest(&self) -> GroupNumber {
        self.tail.newest
    }

    /// The newest group known to be durable.
    pub fn durable(&self) -> GroupNumber {
        self.durable
    }

    /// The end of the newest group written, durable or not, to which an image that includes it is tied.
    pub fn position(&self) -> LogPosition {
        let Tail { newest, checksum, transactions, .. } = self.tail;
        LogPosition { group: newest, checksum, transactions }
    }

    /// A reader of groups, usable while this writes.
    pub fn reader(&self) -> LogReader {
        LogReader::new(Arc::clone(&self.shared.disk), self.shared.settings)
    }

    /// The log's salt: that of the settings if the log was created with them, otherwise its own.
    pub fn salt(&self) -> u64 {
        self.current.header.salt
    }

    /// The number of times the log was opened, including this one.
    pub fn epoch(&self) -> u32 {
        self.tail.epoch
    }

    /// Transactions logged since the log was created.
    pub fn transactions(&self) -> u64 {
        self.tail.transactions
    }

    /// The failure after which nothing is written any more, if any.
    pub fn failure(&self) -> Option<&LogFailure> {
        self.failure.as_ref()
    }

    /// Counters of its work so far.
    pub fn usage(&self) -> LogUsage {
        self.usage
    }

    /// Sets the time for new groups until the next call, in microseconds since 1970. A
    /// clock that was set back is not followed for a while, because a machine that starts with a wrong clock
    /// corrects it soon. A clock that stays behind for more than an hour is followed: then the earlier time
    /// was wrong, and might never be reached again.
    pub fn set_time(&mut self, now_us: u64) {
        if now_us >= self.tail.time_us {
            (self.tail.time_us, self.behind_since_us) = (now_us, None);
        } else if self.tail.time_us - now_us > BELIEVED_US {
            let since_us = self.behind_since_us.map_or(now_us, |since_us| since_us.min(now_us));
            self.behind_since_us = Some(since_us);
            if now_us - since_us > BELIEVED_US {
                (self.tail.time_us, self.behind_since_us) = (now_us, None);
            }
        }
    }

    /// The time of the newest group; 0 if unknown.
    pub fn time_us(&self) -> u64 {
        self.tail.time_us
    }

    /// Writes the concatenated parts of `records`, which contain `transactions` transactions, as one group: after
    /// a restart all or none of it is found. Nothing is durable before [`Self::sync`].
    ///
    /// Returns the group's number; when records had to be spread over several groups, the last one's.
    ///
    /// # Errors
    /// `Full`: nothing was written, and the same call may succeed later. Cannot happen when
    /// `reservation` covers the records. Everything else is final.
    pub fn append_group(
        &mut self,
        records: &[&[u8]],
        transactions: u64,
        reservation: Option<Reservation>,
    ) -> Result<GroupNumber, LogFailure> {
        self.refuse_if_failed()?;
        let bytes: u64 = records.iter().map(|part| part.len() as u64).sum();
        assert!(bytes > 0, "an empty group is written by seal alone");
        let reservation = match reservation {
            Some(mut reservation) => {
                if reservation.bytes() < bytes {
                    reservation.raise(bytes)?;
                }
                reservation
            }
            None => Shared::reserve_now(&self.shared, bytes)?,
        };
        self.tail.transactions += transactions;
        self.write_groups(records, false, reservation)?;
        self.is_sealed = false;
        Ok(self.tail.newest)
    }

    /// Makes everything written so far durable; returns the newest group that is.
    ///
    /// # Errors
    /// Final: it is unknown which of the groups since the last sync survive.
    pub fn sync(&mut self) -> Result<GroupNumber, LogFailure> {
        self.refuse_if_failed()?;
        let newest = self.tail.newest;
        if newest == self.durable {
            return Ok(newest);
        }
        for closed in self.closed.iter_mut().rev().take_while(|closed| !closed.is_synced) {
            let synced = sync_file(&*closed.segment.file, &mut self.usage);
            synced.map_err(|error| fail(&mut self.failure, error))?;
            closed.is_synced = true;
        }
        let synced = sync_file(&*self.current.file, &mut self.usage);
        synced.map_err(|error| fail(&mut self.failure, error))?;
        self.durable = newest;
        Ok(newest)
    }

    /// Whether a later group vouches for everything durable, so that damage to it will be detected.
    pub fn is_sealed(&self) -> bool {
        self.is_sealed
    }

    /// Writes an empty group, and makes it durable, if no group vouches for the newest one yet: to be
    /// called when there is nothing else to write. Without room it does nothing.
    ///
    /// # Errors
    /// As [`Self::sync`].
    pub fn seal(&mut self) -> Result<GroupNumber, LogFailure> {
        let newest = self.sync()?;
        if self.is_sealed {
            return Ok(newest);
        }
        match Shared::reserve_now(&self.shared, 0) {
            Ok(reservation) => {
                self.write_groups(&[], false, reservation)?;
                self.is_sealed = true;
                self.sync()
            }
            Err(LogFailure::Full(_)) => Ok(newest),
            Err(failure) => Err(failure),
        }
    }

    /// Releases segments for reuse whose groups are all older than `group`, because no replay will begin with
    /// them, and none of which is kept ([`Self::keep_from`]). Returns the number of segments.
    pub fn release_before(&mut self, group: GroupNumber) -> usize {
        self.releasable = self.releasable.max(group);
        self.release()
    }

    /// Keeps groups from `group` on for archiving, even if replay does not need them. Earlier ones
    /// are released if no replay begins with them. Returns the number of released segments.
    pub fn keep_from(&mut self, group: GroupNumber) -> usize {
        self.kept_from = group;
        self.release()
    }

    /// The last durable group of full segments; 0 if there are none.
    pub fn left_behind(&self) -> GroupNumber {
        self.closed.last().map_or(0, |closed| closed.last.min(self.durable))
    }

    /// Removes the files of unused segments from a log that is being closed, because opening it
    /// reads all files. Returns their number.
    ///
    /// # Errors
    /// `Disk`: some files remain, which does no harm.
    pub fn trim(&mut self) -> Result<usize, LogFailure> {
        // Segments with higher sequence numbers than the current one are kept: the next process counts from them.
        let is_old = {
            let current = self.current.header.sequence;
            move |segment: &mut Segment| segment.header.sequence < current
        };
        let old: Vec<Segment> = self.shared.pool(|pool| {
            let old: Vec<Segment> = pool.spare.extract_if(.., is_old).collect();
            pool.log_bytes -= old.iter().map(|old| old.header.segment_bytes).sum::<u64>();
            old
        });
        for segment in &old {
            self.shared.disk.remove(&file_name(segment.number))?;
        }
        if !old.is_empty() {
            self.shared.disk.sync_dir()?;
        }
        Ok(old.len())
    }

    fn release(&mut self) -> usize {
        let kept_from = match plant::is(Plant::ArchiveNotWaitedFor) {
            true => GroupNumber::MAX,
            false => self.kept_from,
        };
        let group = self.releasable.min(kept_from);
        let group = group + u64::from(plant::is(Plant::SegmentReleasedEarly));
        // Records that continue in a later segment are kept from their beginning.
        let is_needed = |closed: &Closed| closed.run_ends >= group || !closed.is_synced;
        let count = self.closed.iter().take_while(|closed| !is_needed(closed)).count();
        let released = self.closed.drain(..count).map(|closed| closed.segment);
        self.shared.pool(|pool| pool.spare.extend(released));
        count
    }

    fn refuse_if_failed(&mut self) -> Result<(), LogFailure> {
        if self.failure.is_none() {
            // A preparer's failure is the writer's too.
            self.failure = self.shared.failure();
        }
        match &self.failure {
            None => Ok(()),
            Some(failure) => Err(failure.clone()),
        }
    }

    /// Writes `records` after the newest group, in as many groups as the segments require.
    fn write_groups(
        &mut self,
        records: &[&[u8]],
        starts_epoch: bool,
        mut reservation: Reservation,
    ) -> Result<(), LogFailure> {
        let mut rest: usize = records.iter().map(|part| part.len()).sum();
        let mut source = Parts { parts: records, at: 0 };
        let mut continues = false;
        // Records that fit into this segment or the next one form one group; only longer ones are spread.
        let needed = (HEADER_BYTES + rest) as u64;
        let left = self.current.header.segment_bytes - self.tail.at;
        if left < needed && self.side.is_none() && self.fits_next(needed) {
            reservation.spend(left);
            self.next_segment();
        }
        let mut begun_in = self.closed.len();
        loop {
            if self.tail.at == self.current.header.segment_bytes {
                self.next_segment();
                // The records begin in the segment that follows.
                begun_in += usize::from(!continues);
            }
            let room = (self.current.header.segment_bytes - self.tail.at) as usize;
            let length = rest.min(room - HEADER_BYTES);
            rest -= length;
            let role = Role { more: rest > 0, continues, starts_epoch };
            reservation.spend(self.write_group(&mut source, length, role)?);
            if rest == 0 {
                let Tail { newest, transactions, .. } = self.tail;
                for closed in &mut self.closed[begun_in..] {
                    (closed.run_ends, closed.transactions) = (newest, transactions);
                }
                return Ok(());
            }
            continues = true;
        }
    }

    /// Writes one group with the next `length` bytes of `source`; returns its size in bytes.
    fn write_group(
        &mut self,
        source: &mut Parts<'_>,
        length: usize,
        Role { more, continues, starts_epoch }: Role,
    ) -> Result<u64, LogFailure> {
        if self.side.is_some() {
            self.tail.transactions += length as u64; // records have positions
        }
        let next = self.next_group(length);
        let group = Group { more, starts_epoch, continues, ..next };
        let number = group.number;
        let block_bytes = self.current.header.block_bytes as usize;
        let bytes = group.bytes().next_multiple_of(block_bytes);
        let room = self.buffer.reserve(bytes, Operation::Write, &*self.current.file);
        room.map_err(|error| fail(&mut self.failure, error))?;
        let mut checksum = 0;
        let buffer = self.buffer.padded(group.bytes(), bytes, |used| {
            source.read(&mut used[HEADER_BYTES..]);
            checksum = group.encode(self.current.header.salt, used);
        });
        let written = self.current.file.write_at(buffer, self.tail.at);
        if let Err(error) = written
            && !plant::is(Plant::ForgottenWriteFailure)
        {
            return Err(fail(&mut self.failure, error));
        }
        (self.tail.newest, self.tail.checksum) = (number, checksum);
        self.tail.at += bytes as u64;
        self.usage.groups += 1;
        self.usage.writes += 1;
        self.usage.record_bytes += length as u64;
        self.usage.written_bytes += bytes as u64;
        Ok(bytes as u64)
    }

    /// The group behind the newest one, with so many bytes of records.
    fn next_group(&self, length: usize) -> Group {
        let number = self.tail.newest + 1;
        Group {
            number,
            sequence: self.current.header.sequence,
            offset: self.tail.at,
            watermark: if plant::is(Plant::WatermarkAhead) { number } else { self.durable },
            time_us: self.tail.time_us,
            transactions: self.tail.transactions,
            epoch: self.tail.epoch,
            previous: self.tail.checksum,
            length: length as u32,
            more: false,
            starts_epoch: false,
            continues: false,
        }
    }

    /// Whether a group of `bytes` bytes fits into the next ready segment, so that the end of the
    /// current one may be skipped; a reservation covers that, whatever the length of the current one.
    fn fits_next(&self, bytes: u64) -> bool {
        let next = self.shared.pool(|pool| pool.ready.front().map(|next| next.header.capacity()));
        bytes <= self.shared.capacity && next.is_some_and(|capacity| bytes <= capacity)
    }

    /// Continues in the next ready segment. Room was reserved, so there is one.
    fn next_segment(&mut self) {
        let next = self.shared.pool(|pool| pool.ready.pop_front());
        let next = next.expect("room was reserved in a segment that is not ready");
        let segment = std::mem::replace(&mut self.current, next);
        let is_synced = plant::is(Plant::UnsyncedSegmentChange) || self.durable == self.tail.newest;
        let Tail { newest: last, transactions, .. } = self.tail;
        self.closed.push(Closed { segment, last, run_ends: last, transactions, is_synced });
        self.tail.at = FIRST_GROUP_OFFSET;
        self.usage.is_direct = self.current.is_direct();
    }
}

/// Records permanently that the disk failed.
fn fail(failure: &mut Option<LogFailure>, error: DiskError) -> LogFailure {
    failure.insert(LogFailure::Disk(error)).clone()
}

fn sync_file(file: &dyn DiskFile, usage: &mut LogUsage) -> Result<(), DiskError> {
    usage.syncs += 1;
    if plant::is(Plant::SkippedFsync) {
        return Ok(());
    }
    match file.sync() {
        Err(_) if plant::is(Plant::RetriedFsync) => file.sync(),
        result => result,
    }
}

/// The flags of a group; see `group.rs`.
struct Role {
    more: bool,
    continues: bool,
    starts_epoch: bool,
}

/// Several byte strings read as one.
struct Parts<'a> {
    parts: &'a [&'a [u8]],
    /// The offset in the first part at which reading continues.
    at: usize,
}

impl Parts<'_> {
    /// Fills `out`, which is no longer than the remaining bytes.
    fn read(&mut self, mut out: &mut [u8]) {
        while !out.is_empty() {
            let [part, rest @ ..] = self.parts else {
                unreachable!("more bytes are requested than there are")
            };
            let part = &part[self.at..];
            let length = part.len().min(out.len());
            let (head, tail) = out.split_at_mut(length);
            head.copy_from_slice(&part[..length]);
            out = tail;
            self.at += length;
            if length == part.len() {
                (self.parts, self.at) = (rest, 0);
            }
        }
    }
}
