//! Ordered execution: transactions over several islands commit on each at once, and their logs become durable
//! together.
//!
//! ```text
//!   thread has all islands ─► runs the parts ─► notes the number on each ─► commits on each ─► [queues of all logs]
//!                                                                                                  │ one moment
//!   answer ◄─ all logs have flushed it, and what it depends on ◄───────────────────────────────────┘
//!
//!   recovery: do the islands have the same transactions of both? ─ no ─► cut off the log that is ahead, again
//! ```
//!
//! Threads that take all islands of their transactions put these in one order (LG-57): on each island they run in
//! the order of their numbers. Not here: what becomes durable together (the engine's `pipeline/log/common/`),
//! taking islands (`reach.rs`). Invariant: what a recovery cuts off was never reported, and neither was anything
//! that depends on it.

use std::sync::{Arc, OnceLock};

use tombolo_engine::islands::commit::IslandId;
use tombolo_engine::islands::ordered::{self, OrderedRows, last_ordered};
use tombolo_engine::pipeline::CommonOrder;
use tombolo_storage::error::Result as StoreResult;
use tombolo_storage::sync::AtomicU64;
use tombolo_storage::sync::Ordering::Relaxed;
use tombolo_storage::value_log::GroupNumber;

use super::opening::damaged;
use crate::builder::Recovered;
use crate::error::Error;
use crate::product::Product;

/// The order of ordered transactions, and where islands note their numbers.
pub(super) struct Ordering {
    pub(super) order: Arc<CommonOrder>,
    /// The number of the last one.
    last: AtomicU64,
    rows: Vec<OnceLock<OrderedRows>>,
}

impl Ordering {
    pub(super) fn new(islands: usize) -> Self {
        let rows = (0..islands).map(|_| OnceLock::new()).collect();
        Self { order: Arc::new(CommonOrder::new(islands)), last: AtomicU64::new(0), rows }
    }

    /// An island joins.
    ///
    /// # Errors
    /// As [`OrderedRows::open`].
    pub(super) fn join(&self, store: &mut Product, me: (IslandId, u16)) -> StoreResult<()> {
        let rows = OrderedRows::open(store, me)?;
        let newest = last_ordered(store)?.into_iter().map(|(_, number)| number).max();
        self.last.fetch_max(newest.unwrap_or_default(), Relaxed);
        let is_first = self.rows[me.0.index()].set(rows).is_ok();
        assert!(is_first, "an island opens once");
        Ok(())
    }

    /// The number of the next transaction, whose thread has all its islands: so numbers ascend on each.
    pub(super) fn next(&self) -> u64 {
        self.last.fetch_add(1, Relaxed) + 1
    }

    /// Notes an island's part of a transaction in its open transaction there.
    ///
    /// # Errors
    /// As [`OrderedRows::note`].
    pub(super) fn note(
        &self,
        store: &mut Product,
        island: IslandId,
        islands: impl Iterator<Item = IslandId>,
        number: u64,
    ) -> StoreResult<()> {
        let rows = self.rows[island.index()].get();
        let rows = rows.unwrap_or_else(|| unreachable!("an island that runs has joined"));
        rows.note(store, islands, number)
    }
}

/// Cuts off, after a crash, what an island has of ordered transactions that another island of it lacks; see the
/// engine's [`cut_off`](ordered::cut_off). `recover` opens an island again, with its log up to a group.
///
/// # Errors
/// [`Error::Damaged`] when an island is further ahead than a crash can leave it. As those of `recover`.
pub(super) fn cut_off(
    islands: &mut Vec<Recovered>,
    recover: impl Fn(usize, GroupNumber) -> Result<Recovered, Error>,
) -> Result<(), Error> {
    let last = |island: &mut Recovered| last_ordered(&mut island.opened.store).map_err(damaged);
    let without_newest = |at, island: Recovered| {
        let Some(group) = island.opened.last_group.checked_sub(1) else { return Ok(None) };
        drop(island); // first, because an open directory is locked
        recover(at, group).map(Some)
    };
    match ordered::cut_off(islands, last, without_newest)? {
        true => Ok(()),
        false => Err(Error::Damaged(
            "an island has transactions over several islands that others lack: restore a backup of all \
             islands"
                .to_owned(),
        )),
    }
}
