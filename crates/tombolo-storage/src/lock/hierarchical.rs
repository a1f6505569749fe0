//! Hierarchical locking: intentions from the store down, escalation from rows up.
//!
//! A lock on a row is preceded by intention locks on its page and its store; one on a page, by one
//! on its store. What a lock above covers is not locked again. When a transaction has locked
//! `rows_per_page_max` rows of a page it tries to lock the page instead, and with
//! `pages_per_store_max` pages the store (LG-17): S if it only reads there, X otherwise. Escalation
//! never waits; if other locks conflict, rows are still locked one by one and it is tried again
//! after as many more. If the lock table is full, it is tried immediately.
//!
//! Invariant: a lock on a row or page is held together with the intentions above it. Where a page
//! is held with the intention the store is not looked at: rows of pages that were locked before the
//! transaction asked for the whole store are still locked one by one, which is needless and does no
//! harm.
//!
//! Cost in instructions, latched, without conflicts, release included (`examples/lock_probe.rs`
//! under callgrind, release build of c02e672): a row held already 27; a row whose page is held 217;
//! a row and its page 430; the same read first and then changed, two conversions more, 895.

use super::check;
use super::held::{At, HeldLocks, Vacant};
use super::mode::Mode;
use super::name::{Level, LockName};
use super::table::{Answer, ChainNumber, Table};
use super::wait::Patience;
use super::{LockError, LockSettings, Locking, Reads};
use crate::latch::Latching;
use crate::row::RowId;
use crate::store::Damage;
use crate::sync::{AtomicBool, Ordering};

/// The real lock manager. With `Unlatched` it serves one thread, and a request that cannot be
/// granted immediately is an error.
pub struct Hierarchical<L: Latching> {
    pub(super) table: Table<L>,
    pub(super) patience: Patience,
    /// Whether no session waits any more.
    pub(super) is_shut: AtomicBool,
    pub(super) rows_per_page_max: u16,
    pub(super) pages_per_store_max: u16,
    /// How many free requests a session fetches at a time.
    batch: u32,
}

/// Locks a transaction needs at most for one row: store, page, row.
const LEVELS: usize = 3;

impl<L: Latching> Hierarchical<L> {
    /// Locks `name`, which the session has no lock on.
    #[inline(always)]
    pub(super) fn acquire(
        &self,
        held: &mut HeldLocks,
        vacant: Vacant,
        name: LockName,
        mode: Mode,
        patient: bool,
    ) -> Result<At, LockError> {
        let Some(id) = held.free_request() else { return Err(LockError::TableFull) };
        let (chain, asked) = (self.table.chain(name), (name, mode, id));
        let answer = self.table.acquire(held.session, chain, asked, patient && L::WAITS);
        self.granted_by(held, name, answer)?;
        Ok(self.add(held, vacant, (name, chain), mode, 0))
    }

    /// Waits, if need be, until what was asked for is granted.
    #[inline(always)]
    pub(super) fn granted_by(
        &self,
        held: &HeldLocks,
        name: LockName,
        answer: Answer,
    ) -> Result<(), LockError> {
        match answer {
            Answer::Granted => Ok(()),
            Answer::Waits => self.wait(held.session, name),
            Answer::Unavailable => Err(LockError::Unavailable),
        }
    }

    /// Notes a lock that was granted, and so many locks below it.
    #[inline(always)]
    fn add(
        &self,
        held: &mut HeldLocks,
        vacant: Vacant,
        (name, chain): (LockName, ChainNumber),
        mode: Mode,
        below: u16,
    ) -> At {
        super::stores::count_lock(name, mode);
        held.add(vacant, (name, chain), mode, self.below_max(name).saturating_sub(below))
    }

    /// Makes sure that the held lock `at` grants `wanted` too.
    #[inline(always)]
    fn strengthen(
        &self,
        held: &mut HeldLocks,
        at: At,
        name: LockName,
        wanted: Mode,
        patient: bool,
    ) -> Result<(), LockError> {
        if held.mode(at).covers(wanted) {
            return Ok(());
        }
        self.convert(held, at, name, wanted, patient)
    }

    #[inline(never)]
    pub(super) fn convert(
        &self,
        held: &mut HeldLocks,
        at: At,
        name: LockName,
        wanted: Mode,
        patient: bool,
    ) -> Result<(), LockError> {
        let now = held.mode(at);
        let mode = now.supremum(wanted);
        let lock = (name, held.request(at));
        let answer = self.table.convert(held.session, lock, (now, mode), patient && L::WAITS);
        self.granted_by(held, name, answer)?;
        held.set_mode(at, mode);
        Ok(())
    }

    /// How many locks below `name` may be taken one by one.
    #[inline(always)]
    fn below_max(&self, name: LockName) -> u16 {
        match name.level() {
            Level::Store => self.pages_per_store_max,
            Level::Page => self.rows_per_page_max,
            Level::Row | Level::Gap => 0,
        }
    }

    /// Gives the session free requests for a lock on every level.
    #[inline(always)]
    pub(super) fn stock(&self, held: &mut HeldLocks) {
        if held.free_count() < LEVELS {
            self.restock(held);
        }
    }

    #[cold]
    fn restock(&self, held: &mut HeldLocks) {
        while held.free_count() < LEVELS {
            // If requests are missing, the lock that needs one reports it.
            let Ok(()) = self.table.take_free(self.batch, |id| held.stock(id)) else { return };
        }
    }

    /// A row that is held already, without a call; otherwise on to the short way, or the long one.
    #[inline(always)]
    fn row(
        &self,
        held: &mut HeldLocks,
        store: u16,
        row: RowId,
        mode: Mode,
        patient: bool,
    ) -> Result<(), LockError> {
        assert!(!matches!(mode, Mode::IntentionShared | Mode::IntentionExclusive), "of what?");
        match held.search(LockName::row(row)) {
            Ok(at) if held.mode(at).covers(mode) => Ok(()),
            Ok(_) => self.row_from_above(held, store, row, mode, patient),
            Err(vacant) => self.row_below_page(held, vacant, store, row, mode, patient),
        }
    }

    /// The short way to a row that is not held: its page is, or else its store, with the intention.
    #[inline(never)]
    fn row_below_page(
        &self,
        held: &mut HeldLocks,
        vacant: Vacant,
        store: u16,
        row: RowId,
        mode: Mode,
        patient: bool,
    ) -> Result<(), LockError> {
        let (name, page) = (LockName::row(row), LockName::page(store, LockName::page_of(row)));
        let above = match held.search(page) {
            Ok(above) if held.mode(above).covers_below(mode) => return Ok(()),
            Ok(above) => Some(above).filter(|at| held.mode(*at).covers(mode.intention())),
            Err(free) => match held.place_of_store(store) {
                Some(whole) if self.allows_page(held, whole, mode.intention()) => {
                    return self.page_and_row(held, [(free, page), (vacant, name)], mode, patient);
                }
                Some(whole) if held.is_kept(whole) => {
                    let places = (whole, [free, vacant]);
                    return self.row_below_kept(held, places, store, row, mode, patient);
                }
                _ => None,
            },
        };
        match above {
            Some(above) if held.free_count() > 0 && held.count_below(above) => {
                self.acquire(held, vacant, name, mode, patient).map(|_| ())
            }
            _ => self.row_from_above(held, store, row, mode, patient),
        }
    }

    /// The short way to a row whose store is not held, but kept at `whole`; for page and row these places are vacant.
    #[inline(never)]
    fn row_below_kept(
        &self,
        held: &mut HeldLocks,
        (whole, [free, vacant]): (At, [Vacant; 2]),
        store: u16,
        row: RowId,
        mode: Mode,
        patient: bool,
    ) -> Result<(), LockError> {
        let (name, page) = (LockName::row(row), LockName::page(store, LockName::page_of(row)));
        if self.claim_kept(held, whole, store, mode.intention(), patient)?
            && self.allows_page(held, whole, mode.intention())
        {
            return self.page_and_row(held, [(free, page), (vacant, name)], mode, patient);
        }
        self.row_from_above(held, store, row, mode, patient)
    }

    /// Locks a page, with the intention, and a row of it, neither of which is held.
    #[inline(always)]
    fn page_and_row(
        &self,
        held: &mut HeldLocks,
        [(free, page), (vacant, row)]: [(Vacant, LockName); 2],
        mode: Mode,
        patient: bool,
    ) -> Result<(), LockError> {
        let Some([first, second]) = held.free_two() else { return Err(LockError::TableFull) };
        let intention = mode.intention();
        let chains = [page, row].map(|name| self.table.chain(name));
        let asked = [(page, intention, first), (row, mode, second)];
        let answers = self.table.acquire_both(held.session, chains, asked, patient && L::WAITS);
        if let Err(answer) = answers {
            self.granted_by(held, page, answer)?;
        }
        let above = self.add(held, free, (page, chains[0]), intention, 1);
        let vacant = held.vacant_after(above, vacant, row);
        let Ok(answer) = answers else {
            return self.acquire(held, vacant, row, mode, patient).map(drop);
        };
        self.granted_by(held, row, answer)?;
        self.add(held, vacant, (row, chains[1]), mode, 0);
        Ok(())
    }

    /// Whether a page of a store that is held may be locked in `mode`, and a row of it, with no more than what is
    /// held; counts the page then.
    #[inline(always)]
    fn allows_page(&self, held: &mut HeldLocks, whole: At, mode: Mode) -> bool {
        let held_mode = held.mode(whole);
        held_mode.covers(mode)
            && !held_mode.covers_below(mode)
            && held.free_count() > 1
            && self.rows_per_page_max > 0
            && held.count_below(whole)
    }

    /// The long way: intentions first, then the row, which may be held in a weaker mode.
    #[inline(never)]
    fn row_from_above(
        &self,
        held: &mut HeldLocks,
        store: u16,
        row: RowId,
        mode: Mode,
        patient: bool,
    ) -> Result<(), LockError> {
        let name = LockName::row(row);
        let page = LockName::page(store, LockName::page_of(row));
        let Some(above) = self.page(held, store, page, mode.intention(), patient)? else {
            return Ok(());
        };
        if held.mode(above).covers_below(mode) {
            return Ok(());
        }
        let vacant = match held.search(name) {
            Ok(at) => return self.strengthen(held, at, name, mode, patient),
            Err(vacant) => vacant,
        };
        if !held.count_below(above) && self.escalate_to_page(held, page) {
            return Ok(());
        }
        match self.acquire(held, vacant, name, mode, patient) {
            Err(LockError::TableFull) if self.make_room(held, store, page) => Ok(()),
            result => result.map(|_| ()),
        }
    }

    /// Locks a page, with the intention on its store; `None` if what is held on the store covers
    /// it, which may result from escalation.
    #[inline(always)]
    fn page(
        &self,
        held: &mut HeldLocks,
        store: u16,
        page: LockName,
        mode: Mode,
        patient: bool,
    ) -> Result<Option<At>, LockError> {
        self.stock(held);
        let above = match held.store(store) {
            Some(at) if held.mode(at).covers_below(mode) => return Ok(None),
            Some(at) => {
                let whole = LockName::store(store);
                self.strengthen(held, at, whole, mode.intention(), patient)?;
                at
            }
            None => self.store(held, store, mode.intention(), patient)?,
        };
        let vacant = match held.search(page) {
            Ok(at) => {
                self.strengthen(held, at, page, mode, patient)?;
                return Ok(Some(at));
            }
            Err(vacant) => vacant,
        };
        if !held.count_below(above) && self.escalate_to_store(held, store) {
            return Ok(None);
        }
        match self.acquire(held, vacant, page, mode, patient) {
            Err(LockError::TableFull) if self.escalate_to_store(held, store) => Ok(None),
            result => result.map(Some),
        }
    }

    /// Locks `page` instead of its rows, if that is possible without waiting.
    #[cold]
    fn escalate_to_page(&self, held: &mut HeldLocks, page: LockName) -> bool {
        self.escalate(held, page, |_, name| name.row_page() == Some(page.word() as u32))
    }

    /// Locks `store` instead of its pages and rows and the gaps of its indexes, if that is possible without
    /// waiting.
    #[cold]
    pub(super) fn escalate_to_store(&self, held: &mut HeldLocks, store: u16) -> bool {
        // A row is one of the store's if its page is held as one of the store's.
        self.escalate(held, LockName::store(store), |held, name| match name.row_page() {
            Some(page) => held.find(LockName::page(store, page)).is_some(),
            None => name.is_page_of(store) || held.table_of_gap(name) == Some(store),
        })
    }

    /// Locks `name` as a whole if that is possible without waiting, and releases what is `below`.
    fn escalate(
        &self,
        held: &mut HeldLocks,
        name: LockName,
        below: impl Fn(&HeldLocks, LockName) -> bool,
    ) -> bool {
        let Some(at) = held.find(name) else { panic!("escalation without an intention") };
        held.allow_below(at, self.below_max(name));
        let whole = held.mode(at).escalated();
        if self.strengthen(held, at, name, whole, false).is_err() {
            return false;
        }
        held.remove_where(below, |lock| self.table.release(lock));
        self.give_surplus(held);
        true
    }

    #[cold]
    fn make_room(&self, held: &mut HeldLocks, store: u16, page: LockName) -> bool {
        self.escalate_to_page(held, page) || self.escalate_to_store(held, store)
    }

    /// Gives the free requests of a session back to all, but one batch.
    #[cold]
    fn give_surplus(&self, held: &mut HeldLocks) {
        let keep = held.len() + self.batch as usize;
        held.unstock(keep, |id| self.table.give_free(id));
    }
}

impl<L: Latching> Locking for Hierarchical<L> {
    type Held = HeldLocks;
    const LOCKS: bool = true;

    fn new(settings: LockSettings) -> Self {
        // Half of all requests may lie idle with the sessions: free ones, and those of kept locks.
        let batch = settings.requests_max / settings.sessions_max / 4;
        Self {
            table: Table::new(settings.buckets, settings.requests_max, settings.sessions_max),
            patience: Patience::new(&settings),
            is_shut: AtomicBool::new(false),
            rows_per_page_max: settings.rows_per_page_max,
            pages_per_store_max: settings.pages_per_store_max,
            batch: batch.clamp(1, 64),
        }
    }

    fn open_session(&self) -> Result<HeldLocks, LockError> {
        let mut held = self.table.sessions.open().map(HeldLocks::new)?;
        self.set_waits(&mut held, self.patience.intervals_max);
        Ok(held)
    }

    fn set_waits(&self, held: &mut HeldLocks, intervals_max: u32) {
        self.table.sessions.get(held.session).wait_intervals_max.set(intervals_max);
    }

    fn shut(&self) {
        // Relaxed: it is looked at again after each interval.
        self.is_shut.store(true, Ordering::Relaxed);
    }

    fn close_session(&self, mut held: HeldLocks) {
        assert!(held.is_empty(), "a session is closed with locks held");
        self.let_go_of_kept(&mut held);
        held.unstock(0, |id| self.table.give_free(id));
        self.table.sessions.close(held.session);
    }

    #[inline]
    fn begin(&self, held: &mut HeldLocks, age_rank: u64) {
        assert!(held.is_empty(), "a transaction begins with locks held");
        let session = self.table.sessions.get(held.session);
        session.age_rank.set(age_rank);
        session.transaction.set(session.transaction.get() + 1);
    }

    fn lock_store(&self, held: &mut HeldLocks, store: u16, mode: Mode) -> Result<(), LockError> {
        self.stock(held);
        match held.store(store) {
            Some(at) => self.strengthen(held, at, LockName::store(store), mode, true),
            None => self.store(held, store, mode, true).map(|_| ()),
        }
    }

    fn lock_page(
        &self,
        held: &mut HeldLocks,
        store: u16,
        page: u32,
        mode: Mode,
    ) -> Result<(), LockError> {
        self.page(held, store, LockName::page(store, page), mode, true).map(|_| ())
    }

    #[inline]
    fn lock_row(
        &self,
        held: &mut HeldLocks,
        store: u16,
        row: RowId,
        mode: Mode,
    ) -> Result<(), LockError> {
        self.row(held, store, row, mode, true)
    }

    #[inline]
    fn try_lock_row(
        &self,
        held: &mut HeldLocks,
        store: u16,
        row: RowId,
        mode: Mode,
    ) -> Result<(), LockError> {
        self.row(held, store, row, mode, false)
    }

    #[inline(always)]
    fn has_row(&self, held: &HeldLocks, row: RowId, mode: Mode) -> bool {
        held.search(LockName::row(row)).is_ok_and(|at| held.mode(at).covers(mode))
    }

    #[inline]
    fn lock_gap(&self, held: &mut HeldLocks, table: u16, gap: LockName) -> Result<(), LockError> {
        self.share_gap(held, table, gap)
    }

    fn lower_row(&self, held: &mut HeldLocks, row: RowId) {
        let name = LockName::row(row);
        let Some(at) = held.find(name).filter(|at| held.mode(*at) == Mode::Shared) else { return };
        self.table.lower((name, held.request(at)), Mode::Shared, Mode::IntentionShared);
        held.set_mode(at, Mode::IntentionShared);
    }

    fn announce_gaps(&self, held: &mut HeldLocks) {
        self.count_gap(held);
    }

    #[inline(always)]
    fn has_gap_locks(&self) -> bool {
        self.table.has_gap_holders()
    }

    fn enter_gap(
        &self,
        held: &mut HeldLocks,
        table: u16,
        gap: LockName,
        lower: LockName,
    ) -> Result<bool, LockError> {
        self.enter(held, table, gap, lower)
    }

    fn wait_for_gap(&self, held: &mut HeldLocks, gap: LockName) -> Result<(), LockError> {
        self.wait_to_enter(held, gap)
    }

    fn is_gap_locked(&self, held: &HeldLocks, gap: LockName, reads: Reads) -> bool {
        let (is_free, is_own) = self.table.gap_holders_of(held.session, gap);
        !is_free || (is_own && reads == Reads::All)
    }

    fn hand_on_gap(&self, held: &HeldLocks, gap: LockName, above: LockName, reads: Reads) {
        let stays = (reads == Reads::OfOthers).then_some(held.session);
        self.table.hand_on(stays, gap, above);
    }

    fn settle(&self, held: &mut HeldLocks) {
        self.let_go_of_kept(held);
        held.unstock(0, |id| self.table.give_free(id));
    }

    fn locks_of(&self, held: &HeldLocks) -> Vec<(LockName, Mode)> {
        self.held_now(held)
    }

    fn lock_again(
        &self,
        held: &mut HeldLocks,
        name: LockName,
        mode: Mode,
    ) -> Result<(), LockError> {
        self.retake(held, name, mode)
    }

    #[inline]
    fn release_all(&self, held: &mut HeldLocks) {
        let mut releases = self.table.releases();
        // The last granted first: rows before pages before stores.
        held.remove_all(|lock| releases.release(lock));
        held.remove_stores(self.batch as usize, |lock, may_stay| {
            let stays = may_stay && self.table.keep(lock.1);
            if !stays {
                releases.release(lock);
            }
            stays
        });
        drop(releases);
        if held.gaps > 0 {
            self.release_gaps(held);
        }
        if held.owned() > 4 * self.batch as usize {
            self.give_surplus(held);
        }
    }

    fn check(&self, sessions: &[&HeldLocks]) -> Vec<Damage> {
        check::check(&self.table, sessions)
    }
}
