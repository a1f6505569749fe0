//! Passes the records of durable groups from logging to a checkpoint stage, or, past a bound, only the position up to
//! which the log is durable (TPK-14, TPK-17).
//!
//! ```text
//!   put ──► waiting ──take──► installed
//!    │        ▲
//!    │ full   │ taken whole: the next put waits here again
//!    └──► behind: a position ──take──► read back from the log's files
//! ```
//!
//! Logging never waits here and is never refused: records that do not fit can be read from the log. The content
//! is plain data — bytes of records, and positions — so that a link between processes can carry it.
//! The records of small flushes are copied into one buffer. So their own buffers, which are in the
//! processor's cache, can be reused immediately, and many flushes of a single caller make one installment.
//!
//! Not here: threads, installing. Invariants: the stage takes records in the order of the log, and positions
//! after them; at most the bound, or one installment, is held.

use std::collections::VecDeque;
use std::sync::Arc;

use tombolo_storage::sync::Mutex;
use tombolo_storage::value_log::LogPosition;

use crate::pipeline::log::Records;
use crate::pipeline::transport::{Pool, Signal};

/// Bytes of buffers for which the stage is woken; it is also woken for [`WAKE_BUFFERS`] buffers. Installing a little
/// later costs nothing, and a wake for each flush would cost as much as the flush's own work.
const WAKE_BYTES: u64 = 1 << 20;
/// Half of the buffers that the pool keeps.
const WAKE_BUFFERS: usize = 32;
/// The most bytes of records that are copied together, if the bound allows so many. They are installed together, so a
/// part with a smaller bound may exceed it by this much.
const COPIED_BYTES: usize = 4 << 10;

/// The records that one flush made durable, or several small flushes.
#[derive(Debug)]
pub(crate) struct Installment<B> {
    /// The end of the log after them.
    pub(crate) position: LogPosition,
    pub(crate) records: Vec<B>,
    /// Copied records; `records` is then empty.
    pub(crate) copied: Vec<u8>,
    /// Bytes of the log's files that its groups take.
    pub(crate) file_bytes: u64,
}

impl<B: Records> Installment<B> {
    /// The records of one flush.
    pub(crate) fn new(position: LogPosition, records: Vec<B>, file_bytes: u64) -> Self {
        Self { position, records, copied: Vec::new(), file_bytes }
    }

    /// Its records, in order.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &[u8]> {
        self.records.iter().map(Records::bytes).chain([&self.copied[..]])
    }

    /// Appends copies of another flush's records, if this installment holds copies and has room; returns whether it
    /// did.
    fn takes(&mut self, position: LogPosition, records: &[B], file_bytes: u64) -> bool {
        let bytes: usize = records.iter().map(|records| records.bytes().len()).sum();
        let fits = bytes <= self.copied.capacity() - self.copied.len();
        if fits {
            records.iter().for_each(|records| self.copied.extend_from_slice(records.bytes()));
            self.position = position;
            self.file_bytes += file_bytes;
        }
        fits
    }
}

/// The handover to one part. See the module's head.
#[derive(Debug)]
pub(crate) struct Handover<B> {
    inner: Mutex<Inner<B>>,
    bytes_max: u64,
    /// Whether records are kept, or only positions.
    keeps_records: bool,
    /// Bytes of the log's files for which the stage is also woken.
    wake_file_bytes: u64,
    stage: Arc<Signal>,
}

#[derive(Debug)]
struct Inner<B> {
    waiting: VecDeque<Arc<Installment<B>>>,
    bytes: u64,
    buffers: usize,
    file_bytes: u64,
    /// The log's end, if the newest records were not kept.
    behind: Option<LogPosition>,
    /// Nothing is taken any more.
    is_left: bool,
    /// Nothing more comes.
    is_closed: bool,
}

/// What a stage takes in addition to installments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    /// The position up to which it must read the log when it has installed the rest.
    pub(crate) behind: Option<LogPosition>,
    /// Bytes of the log's files that the taken records take, without those that it must read.
    pub(crate) file_bytes: u64,
    /// Whether more may come.
    pub(crate) is_open: bool,
}

impl<B: Records> Handover<B> {
    /// Holds up to `bytes_max` bytes of buffers, or only positions if that is `None`; `log_bytes` of the log's files
    /// wake the stage.
    pub(crate) fn new(bytes_max: Option<u64>, log_bytes: u64, stage: Arc<Signal>) -> Self {
        let inner = Inner {
            waiting: VecDeque::new(),
            bytes: 0,
            buffers: 0,
            file_bytes: 0,
            behind: None,
            is_left: false,
            is_closed: false,
        };
        let wake_file_bytes = WAKE_BYTES.min(log_bytes / 8);
        let (keeps_records, bytes_max) = (bytes_max.is_some(), bytes_max.unwrap_or_default());
        Self { inner: Mutex::new(inner), bytes_max, keeps_records, wake_file_bytes, stage }
    }

    /// Keeps an installment with this many bytes of buffers; past the bound only its position.
    pub(crate) fn put(&self, installment: &Arc<Installment<B>>, bytes: u64) {
        let Installment { position, file_bytes, .. } = **installment;
        self.keep(position, file_bytes, |inner, room_bytes| {
            let fits = bytes <= room_bytes;
            if fits {
                inner.bytes += bytes;
                inner.buffers += installment.records.len();
                inner.waiting.push_back(Arc::clone(installment));
            }
            fits
        });
    }

    /// Keeps a copy of the records of one flush; past the bound only its position.
    pub(crate) fn put_copy(&self, position: LogPosition, records: &[B], file_bytes: u64) {
        self.keep(position, file_bytes, |inner, room_bytes| {
            let last = inner.waiting.back_mut().and_then(Arc::get_mut);
            if last.is_some_and(|last| last.takes(position, records, file_bytes)) {
                return true;
            }
            let record_bytes = records.iter().map(|records| records.bytes().len()).sum();
            let bytes = COPIED_BYTES.min(self.bytes_max as usize).max(record_bytes);
            let fits = bytes as u64 <= room_bytes;
            if fits {
                let mut copies = Installment::new(position, Vec::new(), 0);
                copies.copied.reserve_exact(bytes);
                let is_taken = copies.takes(position, records, file_bytes);
                assert!(is_taken, "there is room for them");
                inner.bytes += bytes as u64;
                inner.waiting.push_back(Arc::new(copies));
            }
            fits
        });
    }

    /// Calls `keep` with the number of bytes that it may put in; if that keeps nothing, notes only the position.
    fn keep(
        &self,
        position: LogPosition,
        file_bytes: u64,
        keep: impl FnOnce(&mut Inner<B>, u64) -> bool,
    ) {
        let mut inner = self.inner.lock();
        if inner.is_left {
            return;
        }
        let had_work = self.has_work(&inner);
        let room_bytes = match inner.waiting.is_empty() {
            true => u64::MAX,
            false => self.bytes_max.saturating_sub(inner.bytes),
        };
        if !self.keeps_records || inner.behind.is_some() || !keep(&mut inner, room_bytes) {
            inner.behind = Some(position);
        }
        inner.file_bytes += file_bytes;
        let wakes = !had_work && self.has_work(&inner);
        drop(inner);
        if wakes {
            self.stage.wake();
        }
    }

    /// Whether enough waits to wake the stage.
    fn has_work(&self, inner: &Inner<B>) -> bool {
        self.keeps_records && inner.behind.is_some()
            || inner.bytes >= WAKE_BYTES
            || inner.buffers >= WAKE_BUFFERS
            || inner.file_bytes >= self.wake_file_bytes
    }

    /// Notes that the log is durable up to this position, without its records.
    pub(crate) fn put_position(&self, position: LogPosition) {
        let mut inner = self.inner.lock();
        if !inner.is_left {
            inner.behind = Some(position);
            drop(inner);
            self.stage.wake();
        }
    }

    /// Takes everything; swaps the installments with `into`, which is empty.
    pub(crate) fn take(&self, into: &mut VecDeque<Arc<Installment<B>>>) -> Taken {
        assert!(into.is_empty(), "what was taken before is still there");
        let mut inner = self.inner.lock();
        std::mem::swap(&mut inner.waiting, into);
        (inner.bytes, inner.buffers) = (0, 0);
        let file_bytes = std::mem::take(&mut inner.file_bytes);
        Taken { behind: inner.behind.take(), file_bytes, is_open: !inner.is_closed }
    }

    /// Called when the stage takes no more: nothing is kept from now on.
    pub(crate) fn leave(&self) -> VecDeque<Arc<Installment<B>>> {
        let mut inner = self.inner.lock();
        inner.is_left = true;
        (inner.behind, inner.file_bytes) = (None, 0);
        std::mem::take(&mut inner.waiting)
    }

    /// Called when no more will come.
    pub(crate) fn close(&self) {
        self.inner.lock().is_closed = true;
        self.stage.wake();
    }

    /// Whether no more will come.
    pub(crate) fn is_closed(&self) -> bool {
        self.inner.lock().is_closed
    }
}

/// Returns the buffers of an installment to the pool, if no other part needs them.
pub(crate) fn give_back<B: Records>(
    installment: Arc<Installment<B>>,
    buffers: &Pool<B>,
    vectors: &Pool<Vec<B>>,
) {
    if let Some(Installment { mut records, .. }) = Arc::into_inner(installment) {
        records.drain(..).for_each(|buffer| buffers.give_records(buffer));
        vectors.give(records);
    }
}

#[cfg(not(loom))]
#[cfg(test)]
mod tests {
    use super::*;

    impl Records for Vec<u8> {
        fn bytes(&self) -> &[u8] {
            self
        }
        fn transactions(&self) -> u64 {
            1
        }
        fn memory_bytes(&self) -> usize {
            self.capacity()
        }
        fn clear(&mut self) {
            self.clear();
        }
    }

    fn installment(group: u64) -> Arc<Installment<Vec<u8>>> {
        let position = LogPosition { group, ..LogPosition::default() };
        Arc::new(Installment::new(position, vec![vec![0; 1_000]], 4_096))
    }

    fn groups(taken: &VecDeque<Arc<Installment<Vec<u8>>>>) -> Vec<u64> {
        taken.iter().map(|installment| installment.position.group).collect()
    }

    #[test]
    fn past_the_bound_only_the_position_is_kept() {
        let handover = Handover::new(Some(100), 1 << 20, Arc::default());
        let mut taken = VecDeque::new();
        // The first one always fits.
        for (group, bytes) in [(1, 500), (2, 1), (3, 1)] {
            handover.put(&installment(group), bytes);
        }
        let rest = handover.take(&mut taken);
        assert_eq!((groups(&taken), rest.behind.map(|at| at.group)), (vec![1], Some(3)));
        taken.clear();
        for (group, bytes) in [(4, 60), (5, 30), (6, 20), (7, 1)] {
            handover.put(&installment(group), bytes);
        }
        handover.close();
        let rest = handover.take(&mut taken);
        // What comes behind a position is not kept, though it would fit: the order would be lost.
        assert_eq!((groups(&taken), rest.behind.map(|at| at.group)), (vec![4, 5], Some(7)));
        assert!(!rest.is_open);
    }

    #[test]
    fn small_flushes_are_copied_behind_each_other() {
        let handover = Handover::new(Some(2 * COPIED_BYTES as u64 + 100), 64 << 10, Arc::default());
        let (mut taken, at) = (VecDeque::new(), |group| installment(group).position);
        let put_copy = |group: u64, bytes: usize| {
            handover.stage.announce();
            handover.put_copy(at(group), &[vec![group as u8; bytes], Vec::new()], 4_096);
            handover.stage.is_awake()
        };
        let mut is_awake = (1..=3).map(|group| put_copy(group, 1_000));
        assert!(is_awake.by_ref().take(2).eq([false, true]), "two blocks are an eighth of its log");
        handover.put(&installment(4), 10);
        put_copy(5, COPIED_BYTES - 1);
        put_copy(6, 1);
        put_copy(7, 1);
        put_copy(8, 0);
        let rest = handover.take(&mut taken);
        assert_eq!((groups(&taken), rest.behind.map(|at| at.group)), (vec![2, 4, 6], Some(8)));
        assert_eq!(taken[0].copied, [[1; 1_000], [2; 1_000]].concat());
        assert!(taken.iter().map(|taken| taken.file_bytes).eq([8_192, 4_096, 8_192]));
    }

    #[test]
    fn a_stage_that_left_is_handed_nothing() {
        let handover = Handover::new(Some(100), 1 << 20, Arc::default());
        handover.put(&installment(1), 10);
        assert_eq!(groups(&handover.leave()), [1]);
        handover.put(&installment(2), 10);
        handover.put_position(LogPosition::default());
        let mut taken = VecDeque::new();
        assert_eq!(handover.take(&mut taken), Taken { behind: None, file_bytes: 0, is_open: true });
        assert!(taken.is_empty());
    }

    #[test]
    fn buffers_go_back_when_the_last_part_has_them_installed() {
        let (buffers, vectors) = (Pool::<Vec<u8>>::new(), Pool::new());
        let first = installment(1);
        let second = Arc::clone(&first);
        give_back(first, &buffers, &vectors);
        assert_eq!(buffers.take().capacity(), 0, "the other part needs it");
        give_back(second, &buffers, &vectors);
        let (buffer, vector) = (buffers.take(), vectors.take());
        assert!(buffer.is_empty() && buffer.capacity() == 1_000);
        assert!(vector.is_empty() && vector.capacity() > 0);
    }
}
