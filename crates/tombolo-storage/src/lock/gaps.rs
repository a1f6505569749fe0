//! Locks on gaps: what a transaction found absent stays absent until it ends.
//!
//! A gap is named by the entry above it (`name.rs`) and is not part of the hierarchy: a lock on it needs
//! no intention lock above it. When a transaction holds as many gaps as it may lock rows of one page, they count as a
//! locked page of the index's table. With too many of those the table is locked as a whole, which makes locks on
//! gaps needless: each insertion needs IX on the table, because it locks the inserted entry's row.
//!
//! Not here: queues (`table/gaps.rs`), which gaps an operation reads (the paged store's `gaps.rs`).

use super::LockError;
use super::held::HeldLocks;
use super::hierarchical::Hierarchical;
use super::mode::Mode;
use super::name::LockName;
use super::table::Answer;
use crate::latch::Latching;
use crate::plant::{self, Plant};
use crate::probe::{self, Counter};

/// Free requests that are kept back for locking a table as a whole.
const KEPT_BACK: usize = 1;

impl<L: Latching> Hierarchical<L> {
    /// See [`super::Locking::lock_gap`].
    pub(super) fn share_gap(
        &self,
        held: &mut HeldLocks,
        table: u16,
        gap: LockName,
    ) -> Result<(), LockError> {
        if self.reads_whole(held, table) {
            return Ok(());
        }
        let found = held.search(gap);
        // The name is read without its latch: the leaf's keeps what is on this gap from being handed on.
        if found.is_ok_and(|at| self.table.request(held.request(at)).name() == gap) {
            return Ok(());
        }
        self.stock(held);
        self.count_gap(held);
        let counts = held.gaps.is_multiple_of(u32::from(self.rows_per_page_max).max(1));
        let is_full = held.free_count() <= KEPT_BACK;
        if (counts || is_full) && self.lock_whole_instead(held, table, is_full) {
            return Ok(());
        }
        let Some(id) = held.free_request().filter(|_| !is_full) else {
            return Err(LockError::TableFull);
        };
        // Places move when requests are stocked.
        if self.table.share_gap(held.session, gap, id) {
            probe::count(Counter::Locks, 1);
            match held.search(gap) {
                Ok(at) => held.replace(at),
                Err(vacant) => {
                    held.add(vacant, (gap, self.table.chain(gap)), Mode::Shared, table);
                }
            }
        }
        Ok(())
    }

    /// Counts one more gap.
    pub(super) fn count_gap(&self, held: &mut HeldLocks) {
        held.gaps += 1;
        if held.gaps == 1 {
            self.table.enter_gap_holder();
        }
    }

    /// Whether the whole table is locked S at least.
    fn reads_whole(&self, held: &HeldLocks, table: u16) -> bool {
        let whole = held.find(LockName::store(table));
        whole.is_some_and(|at| held.mode(at).covers_below(Mode::Shared))
    }

    /// Counts gaps as a page of their table and locks that as a whole if it has many, or if there `must` be
    /// no more locks; `false` if that is not so, or would have to be waited for.
    #[cold]
    fn lock_whole_instead(&self, held: &mut HeldLocks, table: u16, must: bool) -> bool {
        match held.store(table) {
            Some(at) => (!held.count_below(at) || must) && self.escalate_to_store(held, table),
            None if must => {
                self.store(held, table, Mode::Shared, false).is_ok()
                    && self.escalate_to_store(held, table)
            }
            None => false,
        }
    }

    /// See [`super::Locking::enter_gap`].
    pub(super) fn enter(
        &self,
        held: &mut HeldLocks,
        table: u16,
        gap: LockName,
        lower: LockName,
    ) -> Result<bool, LockError> {
        let (is_free, is_own) = self.table.gap_holders_of(held.session, gap);
        if is_free && is_own {
            self.share_gap(held, table, lower)?;
        }
        Ok(is_free || plant::is(Plant::GapEnteredAnyway))
    }

    /// See [`super::Locking::wait_for_gap`].
    pub(super) fn wait_to_enter(
        &self,
        held: &mut HeldLocks,
        gap: LockName,
    ) -> Result<(), LockError> {
        self.stock(held);
        let Some(id) = held.free_request() else { return Err(LockError::TableFull) };
        match self.table.ask_to_enter(held.session, gap, id) {
            Answer::Granted => Ok(()),
            Answer::Waits => self.wait(held.session, gap),
            Answer::Unavailable => Err(LockError::Unavailable),
        }
    }

    /// Releases what is left of the gaps of a transaction whose other locks are released.
    #[cold]
    pub(super) fn release_gaps(&self, held: &mut HeldLocks) {
        held.remove_strays(|id| self.table.release_gap(id));
        held.gaps = 0;
        self.table.leave_gap_holder();
    }
}
