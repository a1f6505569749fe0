//! Room for groups: segments prepared ahead, and reservations made before transactions execute.
//!
//! ```text
//!   Preparer::prepare ──► ready ──► the writer's current segment ──► closed
//!         ▲                                                            │ release_before
//!         └──────────────────────── spare ◄────────────────────────────┘
//! ```
//!
//! The available room is the rest of the current segment and all of the ready ones, minus reservations. The thread
//! that executes transactions first takes a [`Reservation`] and passes it to
//! the writer with the group; a dropped reservation returns its bytes. So a full disk is
//! detected before anything executes, and creating segments, which takes long, can be left to another
//! thread.
//!
//! Segments grow with the log: a new one is half as long as all segments in use together, from
//! `segment_bytes_first` up to `segment_bytes`. So a small log is a small file, which is quickly created and
//! scanned, and a large log changes files rarely. A request that exceeds such a segment
//! gets one of full length, so the guarantees of the settings do not depend on the size of the
//! log. A spare segment that is shorter than a new one would be, or longer than the settings
//! allow, is replaced by a new one.
//!
//! Not here: the placement of groups (`writer/`). Invariants: segments become ready in ascending
//! order of their sequence numbers; a segment is in one of the four states.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use super::group::HEADER_BYTES;
use super::segment::{FIRST_GROUP_OFFSET, Header, Segment, file_name};
use super::settings::{BLOCK_BYTES_MAX, LogFailure, LogSettings, NoRoom};
use crate::disk::{Disk, DiskError};
use crate::sync::{Arc, AtomicBool, AtomicU64, Mutex, Ordering};

/// The state shared by the writer, [`Space`] and the preparer.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) settings: LogSettings,
    /// Bytes for groups that are ready and not reserved.
    available: AtomicU64,
    /// Bytes that were requested and not available; 0 once they are.
    wanted: AtomicU64,
    /// Bytes for groups in a segment of full length.
    pub(super) capacity: u64,
    /// The same for the shortest segment.
    capacity_first: u64,
    /// The longest blocks of any segment: files can require longer ones than the setting.
    block_bytes: AtomicU64,
    pool: Mutex<Pool>,
    /// Whether the pool has a failure: for the writer, which checks at each write and sync.
    has_failed: AtomicBool,
    /// Held while a segment is created: one at a time, so that they become ready in order.
    making: Mutex<()>,
}

/// The segments that are not being written to.
#[derive(Debug, Default)]
pub(super) struct Pool {
    pub(super) ready: VecDeque<Segment>,
    /// Files whose content is no longer needed.
    pub(super) spare: Vec<Segment>,
    pub(super) next_sequence: u64,
    pub(super) next_number: u64,
    /// Bytes of all segments.
    pub(super) log_bytes: u64,
    /// The reason that the last segment was not created.
    pub(super) no_room: Option<NoRoom>,
    pub(super) failure: Option<LogFailure>,
}

impl Shared {
    pub(super) fn new(disk: Arc<dyn Disk>, settings: LogSettings, pool: Pool) -> Self {
        let LogSettings { kind, segment_bytes, block_bytes, salt, .. } = settings;
        let header = Header { kind, sequence: 0, segment_bytes, block_bytes, salt, uses: 0 };
        let first = Header { segment_bytes: settings.first_bytes(), ..header };
        Self {
            disk,
            settings,
            available: AtomicU64::new(0),
            wanted: AtomicU64::new(0),
            capacity: header.capacity(),
            capacity_first: first.capacity(),
            block_bytes: AtomicU64::new(block_bytes),
            has_failed: AtomicBool::new(pool.failure.is_some()),
            pool: Mutex::new(pool),
            making: Mutex::new(()),
        }
    }

    /// The most bytes on disk of groups with at most `bytes` bytes of records together.
    fn cost(&self, bytes: u64) -> u64 {
        let header = HEADER_BYTES as u64;
        let block = self.block_bytes.load(Ordering::Relaxed);
        if bytes + header <= self.capacity {
            // One group, and the end of a segment without room for it. A run (if the next
            // segment is shorter than the group) takes less, because its headers are shorter than its records.
            return 2 * (bytes + header).next_multiple_of(block);
        }
        // A run of groups fills every segment that it crosses except the first and the last. If fewer bytes
        // are written in the end, they may form the longest single group.
        let groups = 2 + bytes / (self.capacity_first - header);
        (bytes + groups * header).next_multiple_of(block).max(2 * self.capacity)
    }

    /// Counts the room for groups in `segment` from `at` on as available.
    pub(super) fn add(&self, header: &Header, at: u64) {
        self.block_bytes.fetch_max(header.block_bytes, Ordering::Relaxed);
        self.give(header.segment_bytes - at);
    }

    fn take(&self, bytes: u64) -> bool {
        // Relaxed, here and below: only the number is passed on; a ready segment itself is
        // passed on under the pool's mutex.
        let taken =
            self.available.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |available| {
                available.checked_sub(bytes)
            });
        taken.is_ok()
    }

    fn give(&self, bytes: u64) {
        self.available.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The failure that ended the creation of segments, if any.
    #[inline]
    pub(super) fn failure(&self) -> Option<LogFailure> {
        // Partner: `prepare`.
        let has_failed = self.has_failed.load(Ordering::Acquire);
        if has_failed { self.pool(|pool| pool.failure.clone()) } else { None }
    }

    pub(super) fn pool<T>(&self, call: impl FnOnce(&mut Pool) -> T) -> T {
        call(&mut self.pool.lock())
    }

    /// Takes room for `bytes` bytes of records, creating segments if necessary. Not a
    /// method, because loom's `Arc` cannot be `self`.
    pub(super) fn reserve_now(this: &Arc<Self>, bytes: u64) -> Result<Reservation, LogFailure> {
        loop {
            match Self::reserve(this, bytes) {
                Ok(reservation) => return Ok(reservation),
                // The writer makes room before it refuses, even if the last attempt failed.
                Err(cost) => this.prepare(cost)?,
            };
        }
    }

    /// All that is available, for a writer that knows that it is enough.
    pub(super) fn reserve_rest(this: &Arc<Self>) -> Reservation {
        let cost = this.available.swap(0, Ordering::Relaxed);
        Reservation { shared: Arc::clone(this), cost, bytes: 0 }
    }

    /// A reservation, or the bytes that are not available.
    fn reserve(this: &Arc<Self>, bytes: u64) -> Result<Reservation, u64> {
        let cost = this.cost(bytes);
        match this.take(cost) {
            true => Ok(Reservation { shared: Arc::clone(this), cost, bytes }),
            false => Err(cost),
        }
    }

    /// Records that a caller waits until `bytes` bytes are available.
    #[cold]
    fn want(&self, bytes: u64) {
        self.wanted.fetch_max(bytes, Ordering::Relaxed);
    }

    /// The bytes wanted beyond the available ones, unless all segments required by the settings are ready.
    fn missing(&self, pool: &Pool) -> u64 {
        let wanted = self.wanted.load(Ordering::Relaxed);
        let missing = wanted.saturating_sub(self.available.load(Ordering::Relaxed));
        if wanted > 0 && missing == 0 {
            // Only if the number is still the same: another thread may just have asked for more.
            let (is, then) = (Ordering::Relaxed, Ordering::Relaxed);
            _ = self.wanted.compare_exchange(wanted, 0, is, then);
        }
        if self.is_all_ready(pool) { 0 } else { missing }
    }

    /// Bytes for groups that ready segments always provide.
    fn ahead_bytes(&self) -> u64 {
        self.capacity.saturating_mul(self.settings.segments_ahead as u64)
    }

    fn is_all_ready(&self, pool: &Pool) -> bool {
        pool.ready.iter().map(|ready| ready.header.capacity()).sum::<u64>() >= self.ahead_bytes()
    }

    /// The longest length of a segment: files can require longer blocks than divide the setting.
    fn full_bytes(&self) -> u64 {
        self.settings.segment_bytes.next_multiple_of(self.block_bytes.load(Ordering::Relaxed))
    }

    /// The length of the next segment, if `missing` bytes are needed in it.
    fn next_bytes(&self, pool: &Pool, missing: u64) -> u64 {
        let unused = pool.ready.iter().chain(&pool.spare);
        let unused: u64 = unused.map(|segment| segment.header.segment_bytes).sum();
        let (first, full) = (self.settings.first_bytes(), self.settings.segment_bytes);
        let half = (pool.log_bytes - unused) / 2;
        let grown = half.checked_ilog2().map_or(0, |log| 1 << log).clamp(first, full);
        if missing <= grown - FIRST_GROUP_OFFSET { grown } else { full }
    }

    /// The reason that there is no room.
    #[cold]
    fn no_room(&self) -> NoRoom {
        self.pool(|pool| pool.no_room.clone()).unwrap_or(NoRoom::NotReady)
    }

    /// Removes the files of segments that are not reused. A file that remains is spare again when the log
    /// is opened.
    fn remove(&self, segments: &[Segment]) {
        for segment in segments {
            let _ = self.disk.remove(&file_name(segment.number));
        }
    }

    /// Prepares one segment if one is wanted, or if `needed` bytes are not available; returns whether it
    /// did.
    fn prepare(&self, needed: u64) -> Result<bool, LogFailure> {
        let _one_at_a_time = self.making.lock();
        let mut pool = self.pool.lock();
        if let Some(failure) = &pool.failure {
            return Err(failure.clone());
        }
        let missing = needed.saturating_sub(self.available.load(Ordering::Relaxed));
        let missing = missing.max(self.missing(&pool));
        let is_enough = needed > 0 || pool.ready.len() >= self.settings.segments_ahead;
        if is_enough && missing == 0 {
            return Ok(false);
        }
        let mut segment_bytes = self.next_bytes(&pool, missing);
        let others = pool.take_others(segment_bytes..=self.full_bytes());
        if pool.spare.is_empty() {
            let limit = self.settings.log_bytes_max;
            // As long as the room allows, but no shorter than the first.
            let room = limit.saturating_sub(pool.log_bytes) / BLOCK_BYTES_MAX * BLOCK_BYTES_MAX;
            segment_bytes = segment_bytes.min(room.max(self.settings.first_bytes()));
            if pool.log_bytes + segment_bytes > limit {
                let why = NoRoom::Limit { log_bytes_max: limit };
                pool.no_room = Some(why.clone());
                drop(pool);
                self.remove(&others);
                return Err(LogFailure::Full(why));
            }
        }
        pool.next_sequence += 1;
        pool.next_number += 1;
        let (number, sequence) = (pool.next_number - 1, pool.next_sequence - 1);
        let spare = pool.spare.pop();
        drop(pool);
        let made = match spare {
            Some(mut spare) => match spare.renew(sequence) {
                Ok(()) => Ok((spare, false)),
                Err(error) => {
                    // Its file and its bytes remain: a retry may find room.
                    self.pool(|pool| pool.spare.push(spare));
                    Err(error)
                }
            },
            None => {
                let settings = LogSettings { segment_bytes, ..self.settings };
                let made = Segment::create(&*self.disk, number, sequence, &settings);
                made.map(|segment| (segment, true))
            }
        };
        // Only now: a file that reappears after a crash then has a lower sequence number than the new one.
        self.remove(&others);
        self.made(made)
    }

    /// Records that a segment, new or reused, is ready, or why it is not.
    fn made(&self, made: Result<(Segment, bool), DiskError>) -> Result<bool, LogFailure> {
        let mut pool = self.pool.lock();
        match made {
            Ok((segment, is_new)) => {
                let header = segment.header;
                pool.log_bytes += if is_new { header.segment_bytes } else { 0 };
                pool.ready.push_back(segment);
                pool.no_room = None;
                self.add(&header, FIRST_GROUP_OFFSET);
                self.missing(&pool); // before another thread takes what was wanted
                Ok(true)
            }
            Err(error) if error.is_full() => {
                let why = NoRoom::Device(error);
                pool.no_room = Some(why.clone());
                Err(LogFailure::Full(why))
            }
            Err(error) => {
                let failure = LogFailure::Disk(error);
                pool.failure = Some(failure.clone());
                self.has_failed.store(true, Ordering::Release);
                Err(failure)
            }
        }
    }
}

impl Pool {
    /// Removes and returns the spare segments with lengths outside this range.
    fn take_others(&mut self, lengths: RangeInclusive<u64>) -> Vec<Segment> {
        let is_other = |spare: &mut Segment| !lengths.contains(&spare.header.segment_bytes);
        let others: Vec<Segment> = self.spare.extract_if(.., is_other).collect();
        self.log_bytes -= others.iter().map(|other| other.header.segment_bytes).sum::<u64>();
        others
    }
}

/// A reservation of room in the log for `bytes` bytes of records; returned when dropped.
#[derive(Debug)]
#[must_use]
pub struct Reservation {
    shared: Arc<Shared>,
    /// Bytes on disk.
    cost: u64,
    bytes: u64,
}

impl Reservation {
    /// The bytes of records that it covers.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Uses up `bytes` of it.
    pub(super) fn spend(&mut self, bytes: u64) {
        assert!(bytes <= self.cost, "a group took more room than was reserved for it");
        self.cost -= bytes;
    }

    /// Extends it to `bytes` bytes of records.
    pub(super) fn raise(&mut self, bytes: u64) -> Result<(), LogFailure> {
        let missing = self.shared.cost(bytes).saturating_sub(self.cost);
        while missing > 0 && !self.shared.take(missing) {
            self.shared.prepare(missing)?;
        }
        self.cost += missing;
        Ok(())
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.shared.give(self.cost);
    }
}

/// The interface through which the thread that executes transactions reserves room.
#[derive(Clone, Debug)]
pub struct Space(pub(super) Arc<Shared>);

impl Space {
    /// Reserves room for one group with at most `bytes` bytes of records. Never waits.
    ///
    /// # Errors
    /// When there is no such room, or not yet: see [`NoRoom`].
    pub fn reserve(&self, bytes: u64) -> Result<Reservation, NoRoom> {
        Shared::reserve(&self.0, bytes).map_err(|cost| {
            self.0.want(cost);
            self.0.no_room()
        })
    }

    /// Whether there is currently room for such a group, by the rules of [`Space::reserve`].
    ///
    /// # Errors
    /// The same.
    pub fn look(&self, bytes: u64) -> Result<(), NoRoom> {
        if self.available_bytes() >= self.cost_bytes(bytes) {
            Ok(())
        } else {
            Err(self.0.no_room())
        }
    }

    /// The most bytes on disk for `bytes` bytes of records, written together: with their
    /// header, the padding of the last block, and the end of a segment that had no room for them.
    pub fn cost_bytes(&self, bytes: u64) -> u64 {
        self.0.cost(bytes)
    }

    /// Bytes on disk that ready segments provide for groups once a caller wants them, regardless
    /// of the place in its segment at which the newest group ends.
    pub fn ahead_bytes(&self) -> u64 {
        self.0.ahead_bytes()
    }

    /// Whether this much is ready: then there is nothing to wait for.
    pub fn is_all_ready(&self) -> bool {
        self.0.pool(|pool| self.0.is_all_ready(pool))
    }

    /// Records that the caller waits until `bytes` bytes on disk are available: segments are created until they
    /// are, or [`Self::ahead_bytes`] are ready. A refused reservation does this itself.
    pub fn want(&self, bytes: u64) {
        self.0.want(bytes);
    }

    /// Bytes of all segments.
    pub fn log_bytes(&self) -> u64 {
        self.0.pool(|pool| pool.log_bytes)
    }

    /// Bytes on disk that are neither used nor reserved.
    pub fn available_bytes(&self) -> u64 {
        self.0.available.load(Ordering::Relaxed)
    }
}

/// Prepares segments ahead of their use, for a background thread.
#[derive(Clone, Debug)]
pub struct Preparer(pub(super) Arc<Shared>);

impl Preparer {
    /// Whether fewer segments are ready than the settings require, or less room than a caller waits for.
    pub fn is_wanted(&self) -> bool {
        let ahead = self.0.settings.segments_ahead;
        self.0.pool(|pool| pool.ready.len() < ahead || self.0.missing(pool) > 0)
    }

    /// Whether fewer segments are ready than the settings ask for, and the last one that was to be made
    /// found room.
    pub(crate) fn is_due(&self) -> bool {
        let ahead = self.0.settings.segments_ahead;
        self.0.pool(|pool| pool.ready.len() < ahead && pool.no_room.is_none())
    }

    /// Whether the last segment that was to be made found no room.
    pub(crate) fn is_short(&self) -> bool {
        self.0.pool(|pool| pool.no_room.is_some())
    }

    /// Makes one segment more ready, wanted or not.
    ///
    /// # Errors
    /// As [`Self::prepare`].
    pub(crate) fn prepare_more(&self) -> Result<bool, LogFailure> {
        self.0.prepare(self.0.available.load(Ordering::Relaxed) + 1)
    }

    /// Prepares one segment if one is wanted; returns whether it did. Takes as long as the disk
    /// needs to write a segment.
    ///
    /// # Errors
    /// `Full`: a later call retries. Any other failure is final, for the writer too.
    pub fn prepare(&self) -> Result<bool, LogFailure> {
        self.0.prepare(0)
    }
}
