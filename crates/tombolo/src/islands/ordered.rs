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
use tombolo_engine::islands::ordered::{OrderedRows, ahead, last_ordered};
use tombolo_engine::pipeline::CommonOrder;
use tombolo_storage::error::Result as StoreResult;
use tombolo_storage::plant::{self, Plant};
use tombolo_storage::sync::AtomicU64;
use tombolo_storage::sync::Ordering::Relaxed;
use tombolo_storage::value_log::GroupNumber;

use super::opening::damaged;
use crate::builder::Recovered;
use crate::error::Error;
use crate::product::Product;

/// The most groups of an island that are cut off. A flush is one group, or a few if it is long, and no log has two
/// flushes that do not count as durable.
const CUT_GROUPS_MAX: usize = 64;

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

/// Cuts off, after a crash, the logs of islands that have an ordered transaction which another island of it lacks.
/// Each round cuts off the newest group of these; `recover` opens an island again, with its log up to a group. A crash
/// between two cuts leaves the islands as a crash of the database might have left them.
///
/// # Errors
/// [`Error::Damaged`] when an island is further ahead than a crash can leave it. As those of `recover`.
pub(super) fn cut_off(
    islands: &mut Vec<Recovered>,
    recover: impl Fn(usize, GroupNumber) -> Result<Recovered, Error>,
) -> Result<(), Error> {
    for _ in 0..CUT_GROUPS_MAX {
        let last = islands.iter_mut().map(|island| last_ordered(&mut island.opened.store));
        let last = last.collect::<StoreResult<Vec<_>>>().map_err(damaged)?;
        let ahead = ahead(&last);
        if ahead.is_empty() || plant::is(Plant::OrderedNotCutOff) {
            return Ok(());
        }
        for island in ahead {
            let Some(group) = islands[island].opened.last_group.checked_sub(1) else { break };
            // First, because an open directory is locked.
            let behind = islands.split_off(island + 1);
            drop(islands.pop());
            islands.push(recover(island, group)?);
            islands.extend(behind);
        }
    }
    Err(Error::Damaged(
        "an island has transactions over several islands that others lack: restore a backup of all islands".to_owned(),
    ))
}
