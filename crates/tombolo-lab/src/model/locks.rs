//! Rows that transactions of the model hold until they end, and which waits for which.
//!
//! Waiters are served in order. A transaction that would wait for itself through others gives way
//! (deadlocks between islands are found, not timed out). Not here: what waiting costs.

use std::collections::VecDeque;

use foldhash::fast::FixedState;
use hashbrown::HashMap;

/// A transaction, by its caller.
pub(super) type Holder = usize;

/// A row that is held: by one that changes it, or by readers; and those that wait, each with the part that does.
#[derive(Debug, Default)]
struct Row {
    holders: Vec<Holder>,
    is_exclusive: bool,
    waiters: VecDeque<(Holder, usize)>,
}

/// All rows that are held.
#[derive(Debug, Default)]
pub(super) struct Locks {
    rows: HashMap<u64, Row, FixedState>,
    /// The rows that each transaction waits for.
    awaited: HashMap<Holder, Vec<u64>, FixedState>,
}

/// How a request for a row ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Granted,
    Waits,
    /// To wait would close a circle; nothing is asked for.
    Circle,
}

impl Locks {
    /// Asks for a row for a part of `holder`.
    pub(super) fn ask(
        &mut self,
        key: u64,
        (holder, part): (Holder, usize),
        is_exclusive: bool,
    ) -> Asked {
        let row = self.rows.entry(key).or_default();
        let is_free = row.holders.is_empty();
        if is_free || (!row.is_exclusive && !is_exclusive && row.waiters.is_empty()) {
            row.holders.push(holder);
            row.is_exclusive = is_exclusive;
            return Asked::Granted;
        }
        if self.reaches(key, holder) {
            return Asked::Circle;
        }
        let row = self.rows.entry(key).or_default();
        row.waiters.push_back((holder, part));
        self.awaited.entry(holder).or_default().push(key);
        Asked::Waits
    }

    /// Whether those before a new waiter for `key` wait, directly or not, for `holder`.
    fn reaches(&self, key: u64, holder: Holder) -> bool {
        let (mut seen, mut rows) = (Vec::new(), vec![key]);
        while let Some(key) = rows.pop() {
            let Some(row) = self.rows.get(&key) else { continue };
            for &of in row.holders.iter().chain(row.waiters.iter().map(|(of, _)| of)) {
                if of == holder {
                    return true;
                }
                if !seen.contains(&of) {
                    seen.push(of);
                    rows.extend(self.awaited.get(&of).into_iter().flatten());
                }
            }
        }
        false
    }

    /// Releases rows that `holder` has, or waits for; returns the parts that get one now.
    pub(super) fn release(
        &mut self,
        holder: Holder,
        keys: impl IntoIterator<Item = u64>,
        is_exclusive: bool,
    ) -> Vec<(Holder, usize)> {
        let mut granted = Vec::new();
        for key in keys {
            let Some(row) = self.rows.get_mut(&key) else { continue };
            row.holders.retain(|of| *of != holder);
            row.waiters.retain(|(of, _)| *of != holder);
            if let Some(awaited) = self.awaited.get_mut(&holder) {
                awaited.retain(|awaited| *awaited != key);
            }
            // All transactions of a load ask alike: readers come together, writers one by one.
            while let Some(&(next, part)) = row.waiters.front()
                && (row.holders.is_empty() || !is_exclusive)
            {
                row.waiters.pop_front();
                row.holders.push(next);
                row.is_exclusive = is_exclusive;
                if let Some(awaited) = self.awaited.get_mut(&next) {
                    awaited.retain(|awaited| *awaited != key);
                }
                granted.push((next, part));
            }
            if row.holders.is_empty() {
                self.rows.remove(&key);
            }
        }
        granted
    }

    /// Whether nothing is held or waited for.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.awaited.values().all(Vec::is_empty)
    }
}
