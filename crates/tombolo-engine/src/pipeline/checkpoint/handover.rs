//! From logging to a checkpoint stage: the records of durable groups, or, past a bound, only how far
//! the log is durable (TPK-14, TPK-17).
//!
//! ```text
//!   put ──► waiting ──take──► installed
//!    │        ▲
//!    │ full   │ taken whole: the next put waits here again
//!    └──► behind: a position ──take──► read back from the log's files
//! ```
//!
//! Logging never waits here and is never refused: what does not fit is in the log anyway. What passes
//! is plain data — bytes of records, and positions — so that a link between processes can carry it.
//! The records of small flushes are copied behind each other, so that their buffers, which are in the
//! processor's cache, are used again immediately, and one installment is many flushes of a lone caller.
//!
//! Not here: threads, installing. Invariants: what is taken is in the order of the log, the positions
//! behind the records; at most the bound, or one installment, is held.

use std::collections::VecDeque;
use std::sync::Arc;

use tombolo_storage::sync::Mutex;
use tombolo_storage::value_log::LogPosition;

use crate::pipeline::log::Records;
use crate::pipeline::transport::{Pool, Signal};

/// The stage is woken for so many bytes of buffers, or so many buffers: what is installed a little later costs
/// nothing, and a wake for each flush would cost as much as the flush's work.
const WAKE_BYTES: u64 = 1 << 20;
/// Half of what the pool of buffers keeps.
const WAKE_BUFFERS: usize = 32;
/// Bytes of records that are copied together, if so many may wait. They are installed together: a part
/// with room for less takes as much more memory than it should.
const COPIED_BYTES: usize = 4 << 10;

/// What one flush made durable, or some small ones.
#[derive(Debug)]
pub(crate) struct Installment<B> {
    /// The log's end behind it.
    pub(crate) position: LogPosition,
    pub(crate) records: Vec<B>,
    /// Records that were copied; `records` is empty then.
    pub(crate) copied: Vec<u8>,
    /// What of the log's files its groups take.
    pub(crate) file_bytes: u64,
}

impl<B: Records> Installment<B> {
    /// What one flush made durable.
    pub(crate) fn new(position: LogPosition, records: Vec<B>, file_bytes: u64) -> Self {
        Self { position, records, copied: Vec::new(), file_bytes }
    }

    /// Its records, in order.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &[u8]> {
        self.records.iter().map(Records::bytes).chain([&self.copied[..]])
    }

    /// Copies what another flush made durable behind its own, if it holds copies and has room.
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

/// The way to one part. See the module's head.
#[derive(Debug)]
pub(crate) struct Handover<B> {
    inner: Mutex<Inner<B>>,
    bytes_max: u64,
    /// Whether records are kept, or positions alone.
    keeps_records: bool,
    /// The stage is woken for so many bytes of the log's files, too.
    wake_file_bytes: u64,
    stage: Arc<Signal>,
}

#[derive(Debug)]
struct Inner<B> {
    waiting: VecDeque<Arc<Installment<B>>>,
    bytes: u64,
    buffers: usize,
    file_bytes: u64,
    /// The log's end, if it is behind all that waits and the records were not kept.
    behind: Option<LogPosition>,
    /// Nothing is taken any more.
    is_left: bool,
    /// Nothing more comes.
    is_closed: bool,
}

/// What a stage took besides installments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    /// Up to where it has to read the log, once it has installed the rest.
    pub(crate) behind: Option<LogPosition>,
    /// What of the log's files all of it takes, but for what was handed over as a mere position.
    pub(crate) file_bytes: u64,
    /// Whether more may come.
    pub(crate) is_open: bool,
}

impl<B: Records> Handover<B> {
    /// Holds so many bytes of buffers, or positions alone where that is `None`, for a stage to which so many
    /// bytes of the log are much.
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

    /// Keeps an installment whose buffers hold so many bytes; past the bound only its position.
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

    /// Keeps a copy of `records`, which one flush made durable; past the bound only its position.
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

    /// Keeps what `keep` puts in, given how many bytes it may hold; if it keeps nothing, only the position.
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

    /// Whether there is enough to wake a stage for.
    fn has_work(&self, inner: &Inner<B>) -> bool {
        self.keeps_records && inner.behind.is_some()
            || inner.bytes >= WAKE_BYTES
            || inner.buffers >= WAKE_BUFFERS
            || inner.file_bytes >= self.wake_file_bytes
    }

    /// The log is durable up to here, and no buffer holds the records.
    pub(crate) fn put_position(&self, position: LogPosition) {
        let mut inner = self.inner.lock();
        if !inner.is_left {
            inner.behind = Some(position);
            drop(inner);
            self.stage.wake();
        }
    }

    /// Takes everything; the installments in exchange for `into`, which is empty.
    pub(crate) fn take(&self, into: &mut VecDeque<Arc<Installment<B>>>) -> Taken {
        assert!(into.is_empty(), "what was taken before is still there");
        let mut inner = self.inner.lock();
        std::mem::swap(&mut inner.waiting, into);
        (inner.bytes, inner.buffers) = (0, 0);
        let file_bytes = std::mem::take(&mut inner.file_bytes);
        Taken { behind: inner.behind.take(), file_bytes, is_open: !inner.is_closed }
    }

    /// Nothing is taken any more: nothing is kept from here on.
    pub(crate) fn leave(&self) -> VecDeque<Arc<Installment<B>>> {
        let mut inner = self.inner.lock();
        inner.is_left = true;
        (inner.behind, inner.file_bytes) = (None, 0);
        std::mem::take(&mut inner.waiting)
    }

    /// Nothing more comes.
    pub(crate) fn close(&self) {
        self.inner.lock().is_closed = true;
        self.stage.wake();
    }

    /// Whether nothing more comes.
    pub(crate) fn is_closed(&self) -> bool {
        self.inner.lock().is_closed
    }
}

/// Gives the buffers of an installment back, if no other part needs them.
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
