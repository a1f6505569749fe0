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
//!
//! Not here: threads, installing. Invariants: what is taken is in the order of the log, the positions
//! behind the records; at most the bound, or one installment, is held.

use std::collections::VecDeque;
use std::sync::Arc;

use tombolo_storage::sync::Mutex;
use tombolo_storage::value_log::LogPosition;

use super::super::log::Records;
use super::super::pool::Pool;
use super::super::signal::Signal;

/// The stage is woken for so many bytes of buffers, or so many buffers: what is installed a little
/// later costs nobody anything, and a wake for each flush would cost as much as the flush's work.
const WAKE_BYTES: u64 = 1 << 20;
/// Half of what the pool of buffers keeps.
const WAKE_BUFFERS: usize = 32;

/// What one flush made durable.
#[derive(Debug)]
pub(in crate::pipeline) struct Installment<B> {
    /// The log's end behind it.
    pub(super) position: LogPosition,
    pub(super) records: Vec<B>,
}

/// The way to one part. See the module's head.
#[derive(Debug)]
pub(in crate::pipeline) struct Handover<B> {
    inner: Mutex<Inner<B>>,
    bytes_max: u64,
    stage: Arc<Signal>,
}

#[derive(Debug)]
struct Inner<B> {
    waiting: VecDeque<Arc<Installment<B>>>,
    bytes: u64,
    buffers: usize,
    /// The log's end, if it is behind all that waits and the records were not kept.
    behind: Option<LogPosition>,
    /// Nobody takes anything any more.
    is_left: bool,
    /// Nothing more comes.
    is_closed: bool,
}

/// What a stage took besides installments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Taken {
    /// Up to where it has to read the log, once it has installed the rest.
    pub(super) behind: Option<LogPosition>,
    /// Whether more may come.
    pub(super) is_open: bool,
}

impl<B: Records> Handover<B> {
    /// Holds so many bytes of buffers.
    pub(super) fn new(bytes_max: u64, stage: Arc<Signal>) -> Self {
        let (waiting, behind) = (VecDeque::new(), None);
        let inner =
            Inner { waiting, bytes: 0, buffers: 0, behind, is_left: false, is_closed: false };
        Self { inner: Mutex::new(inner), bytes_max, stage }
    }

    /// Keeps an installment whose buffers hold so many bytes; past the bound only its position.
    pub(super) fn put(&self, installment: &Arc<Installment<B>>, bytes: u64) {
        let mut inner = self.inner.lock();
        if inner.is_left {
            return;
        }
        let is_first = inner.waiting.is_empty();
        let fits = is_first || inner.bytes.saturating_add(bytes) <= self.bytes_max;
        let had_work = inner.has_work();
        if inner.behind.is_some() || !fits {
            inner.behind = Some(installment.position);
        } else {
            inner.waiting.push_back(Arc::clone(installment));
            inner.bytes += bytes;
            inner.buffers += installment.records.len();
        }
        let wakes = !had_work && inner.has_work();
        drop(inner);
        if wakes {
            self.stage.wake();
        }
    }

    /// The log is durable up to here, and nobody has the records.
    pub(super) fn put_position(&self, position: LogPosition) {
        let mut inner = self.inner.lock();
        if !inner.is_left {
            inner.behind = Some(position);
            drop(inner);
            self.stage.wake();
        }
    }

    /// Takes everything; the installments in exchange for `into`, which is empty.
    pub(super) fn take(&self, into: &mut VecDeque<Arc<Installment<B>>>) -> Taken {
        assert!(into.is_empty(), "what was taken before is still there");
        let mut inner = self.inner.lock();
        std::mem::swap(&mut inner.waiting, into);
        (inner.bytes, inner.buffers) = (0, 0);
        Taken { behind: inner.behind.take(), is_open: !inner.is_closed }
    }

    /// Nobody takes anything any more: nothing is kept from here on.
    pub(super) fn leave(&self) -> VecDeque<Arc<Installment<B>>> {
        let mut inner = self.inner.lock();
        inner.is_left = true;
        inner.behind = None;
        std::mem::take(&mut inner.waiting)
    }

    /// Nothing more comes.
    pub(in crate::pipeline) fn close(&self) {
        self.inner.lock().is_closed = true;
        self.stage.wake();
    }

    /// Whether nothing more comes.
    pub(super) fn is_closed(&self) -> bool {
        self.inner.lock().is_closed
    }
}

impl<B> Inner<B> {
    /// Whether there is enough to wake somebody for.
    fn has_work(&self) -> bool {
        self.behind.is_some() || self.bytes >= WAKE_BYTES || self.buffers >= WAKE_BUFFERS
    }
}

/// Gives the buffers of an installment back, if nobody else needs them.
pub(super) fn give_back<B: Records>(
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
        Arc::new(Installment { position, records: vec![vec![0; 1_000]] })
    }

    fn groups(taken: &VecDeque<Arc<Installment<Vec<u8>>>>) -> Vec<u64> {
        taken.iter().map(|installment| installment.position.group).collect()
    }

    #[test]
    fn past_the_bound_only_the_position_is_kept() {
        let handover = Handover::new(100, Arc::default());
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
    fn who_left_is_handed_nothing() {
        let handover = Handover::new(100, Arc::default());
        handover.put(&installment(1), 10);
        assert_eq!(groups(&handover.leave()), [1]);
        handover.put(&installment(2), 10);
        handover.put_position(LogPosition::default());
        let mut taken = VecDeque::new();
        assert_eq!(handover.take(&mut taken), Taken { behind: None, is_open: true });
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
