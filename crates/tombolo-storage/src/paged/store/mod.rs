//! The paged store: pages, locks, latches, log and sessions wired into one
//! [`Store`](crate::store::Store) (LG-13 … LG-23).
//!
//! The sessions of a database share what is in `database.rs`; a [`PagedStore`] is one session, and runs one
//! transaction at a time. Read `calls.rs`, `write_rows.rs` and `entries.rs` for what a call does, `transaction.rs`
//! for how a transaction begins and ends, `rows.rs` for how rows are reached (S9), `directory.rs` for S7,
//! `sessions.rs` for S10, `homes.rs` for tables whose rows are spread over several databases, `isolation.rs` for
//! isolation levels, `prepared.rs` for transactions that a coordinator decides, `savepoint.rs` for undoing a part
//! of a transaction, `catalogue.rs` for the list of tables in a closed directory, `backup.rs` for a copy of a
//! database in use.
//!
//! | a call | does, with everything on |
//! |---|---|
//! | look-up | finds the index by name; goes down its tree, latched and fixed; locks the row, or the gap |
//! | pin | locks the row, unless the look-up has; fixes its page, copies the row out |
//! | update | locks the row SIX; copies it out, changes it, logs both images, copies it in |
//! | create | puts the row into a page with room, locks it X, logs it |
//! | insert | goes down the tree, looks whether another session locks the gap, makes the entry, logs it |
//! | commit | logs it, removes ghosts, releases all locks, waits for its group |
//!
//! Isolation: strict locking of rows, with intention locks above, and of the gaps between an index's entries. A
//! deleted row or entry stays as a ghost under its transaction's lock until the end, so no other transaction relies
//! on its absence before. So transactions are serializable, or read committed if the caller chooses that
//! (`isolation.rs`).
//! A directory that was not closed is restarted (`restart/`).
//!
//! Not here: threads, SQL, retries. Invariants: no lock is waited for under a latch; no page is
//! held between calls; a session that reads or changes a row's bytes holds the row's lock.

mod backup;
mod calls;
mod catalogue;
mod check;
mod checkpoint;
mod database;
mod directory;
mod entries;
mod error;
mod homes;
mod isolation;
mod prepared;
mod profile;
mod restart;
mod room;
mod rows;
mod savepoint;
mod sessions;
mod settings;
mod sharing;
mod transaction;
mod undo;
mod write_rows;

#[cfg(test)]
#[cfg(not(loom))]
mod tests;

pub use checkpoint::Checkpoint;
pub use directory::{ByName, Directory, Resolved};
pub use error::OpenError;
pub use isolation::Isolation;
pub use prepared::{Decision, PreparedTransaction, Vote};
pub use profile::{PagedProfile, Switches};
pub use restart::{Restart, RestartProgress};
pub use rows::{RowAccess, RowCopies, RowCopy, RowInFrame, RowInSlab};
pub use savepoint::Savepoint;
pub use sessions::{ActiveTransaction, OneSession, Registered, Sessions};
pub use settings::PagedSettings;
pub use sharing::Sharing;

use std::cell::Cell;
use std::marker::PhantomData;

use database::{Database, RowsOf};
use transaction::Session;

use super::heap::RowFile;
use super::page::PageId;
use super::pool::{FETCH_MAX, PAGES_FILE, PageAccess, PageError, PoolUsage};
use crate::disk::{Disk, Open, share};
use crate::error::Error;
use crate::lock::Locking as _;
use crate::log::{LogError, LogFailure, LogUsage, Logging};
use crate::owner::Owner;
use crate::store::Phase;
use crate::value_log;

/// A position in the log of a paged database: up to it the log must be durable before a commit or a vote counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "what was not made durable may be gone after a crash"]
pub struct LogPosition(u64);

/// One session of a paged database.
///
/// It can be moved to another thread, but serves one at a time. Where there are locks and latches,
/// [`PagedStore::session`] makes more of them.
///
/// ```
/// use tombolo_storage::disk::MemDisk;
/// use tombolo_storage::paged::store::{PagedSettings, PagedStore};
/// use tombolo_storage::profile::{Conventional, NoLatching};
///
/// let settings = PagedSettings { pool_bytes: 1 << 20, ..PagedSettings::default() };
/// let store = PagedStore::<Conventional>::create(&MemDisk::new(), &settings)?;
/// let second = store.session().expect("it has locks and latches")?;
/// drop(second);
/// store.close()?;
///
/// let alone = PagedStore::<NoLatching>::create(&MemDisk::new(), &settings)?;
/// assert!(alone.session().is_none());
/// # Ok::<(), tombolo_storage::paged::store::OpenError>(())
/// ```
///
/// Rows can lie outside pages only in a store that neither logs nor locks nor latches:
///
/// ```compile_fail
/// use tombolo_storage::disk::MemDisk;
/// use tombolo_storage::latch::Latched;
/// use tombolo_storage::paged::btree::IntegerKeys;
/// use tombolo_storage::paged::page::LargePages;
/// use tombolo_storage::paged::store::{PagedSettings, PagedStore};
/// use tombolo_storage::profile::*;
///
/// type Unsafe =
///     Paged<IntegerKeys, Unlogged, Locked, Latched, ResolvedStores, ByPointer<LargePages>, SingleSession>;
/// let _ = PagedStore::<Unsafe>::create(&MemDisk::new(), &PagedSettings::default());
/// ```
pub struct PagedStore<P: PagedProfile> {
    database: <P::Latching as Sharing>::Handle<Database<P>>,
    session: Session<P>,
    restart: Option<Restart>,
    not_sync: PhantomData<Cell<()>>,
}

impl<P: PagedProfile> PagedStore<P> {
    /// Which components need each other; evaluated when a profile is compiled.
    const SAFE: () = {
        let [_, disk, records, numbers, locks, latches, _, _, _, sessions, _] = P::SWITCHES;
        assert!(!disk || records, "S2 needs S3: what is not logged cannot be flushed");
        assert!(!records || numbers, "S3 needs S4: a record is known by its number");
        assert!(
            RowsOf::<P>::ON_PAGES || !(records || numbers || locks || latches),
            "rows leave the pages only when log, locks and latches are gone (S2 to S6 off)"
        );
        assert!(
            sessions || !(locks && latches),
            "several threads need sessions (S10) to be distinguished"
        );
    };

    /// Whether databases of this profile can be saved and opened again.
    pub const fn can_be_saved() -> bool {
        RowsOf::<P>::ON_PAGES
    }

    /// Makes an empty database in an empty directory.
    ///
    /// # Errors
    /// When there is one already, the disk fails, or there is no memory.
    pub fn create<D: Disk + Clone + 'static>(
        disk: &D,
        settings: &PagedSettings,
    ) -> Result<Self, OpenError> {
        let () = Self::SAFE;
        let log = P::Log::create(settings.log, Some(share(disk.clone())))?;
        let pages = P::Pages::create(disk, settings, log.ahead())?;
        Self::first_session(Database::new(pages, log, settings), None)
    }

    /// Opens a database, and restarts it if it was not closed: it has the changes of all committed transactions, and no
    /// others.
    ///
    /// # Errors
    /// When there is no database, it is in use, damaged, of another version or layout, it was not closed and has no
    /// log for a restart, the disk fails, or there is no memory.
    pub fn open<D: Disk + Clone + 'static>(
        disk: &D,
        settings: &PagedSettings,
    ) -> Result<Self, OpenError> {
        Self::open_reporting(disk, settings, &mut |_| ())
    }

    /// The same, calling `report` with how far a restart is: whenever it has read another 8 MB of the log, where redo
    /// begins and ends, and for each transaction that was undone. Not called for a database that was closed.
    ///
    /// # Errors
    /// As [`PagedStore::open`].
    pub fn open_reporting<D: Disk + Clone + 'static>(
        disk: &D,
        settings: &PagedSettings,
        report: &mut dyn FnMut(RestartProgress),
    ) -> Result<Self, OpenError> {
        let () = Self::SAFE;
        let files = disk.list().map_err(PageError::from)?;
        let has_log = value_log::holds_log(disk).map_err(LogError::from)?;
        let has_pages = files.iter().any(|name| name == PAGES_FILE);
        if has_log && !has_pages {
            // Refused before the log is written.
            disk.open(PAGES_FILE, Open::Read).map_err(PageError::from)?;
        }
        // Refused before the log is written, too, if the pages have another version, belong to another log, or will not
        // be whole.
        let repairs = has_log && settings.restarts;
        let mark = if has_pages { P::Pages::survey(disk, repairs)? } else { None };
        if !has_log && mark.is_some_and(|mark| mark.position > 0) {
            return Err(LogError::from(LogFailure::Missing).into());
        }
        let mut reading = restart::Reading::default();
        // What is wrong with it is found when it is opened.
        let log_bytes = value_log::log_bytes(disk).unwrap_or_default();
        let mut watch = restart::Watch::new(log_bytes, report);
        let log = P::Log::open_with(
            settings.log,
            Some(share(disk.clone())),
            mark,
            &mut |needed, lsn, record| {
                watch.read(lsn - needed);
                reading.note(needed, lsn, record);
            },
        )?;
        let restarts = settings.restarts && log.unread().is_some();
        let pages = P::Pages::open(disk, settings, log.ahead(), restarts)?;
        let mut database = Database::<P>::new(pages, log, settings);
        let restart = restart::open_tables(&mut database, reading, &mut watch)?;
        let space = database.pages.space();
        match database.log.unread() {
            Some((_, end)) if space.mark().position == 0 => {
                space.set_log(database.log.number(), end)
            }
            Some(_) => {}
            // From now on pages change without a log.
            None => space.set_log(0, 0),
        }
        RowAccess::<<P::Log as Logging>::Ahead>::mark_open(&database.pages)?;
        if restart.is_some() {
            database.make_room_ahead()?;
        }
        Self::first_session(database, restart)
    }

    /// What a restart did when the database was opened; `None` if it had been closed.
    pub fn restart(&self) -> Option<Restart> {
        self.restart
    }

    fn first_session(database: Database<P>, restart: Option<Restart>) -> Result<Self, OpenError> {
        let session = Session::open(&database)?;
        let database = P::Latching::share(database);
        Ok(Self { database, session, restart, not_sync: PhantomData })
    }

    /// Another session of the same database, for another thread; `None` if the profile allows only one.
    pub fn session(&self) -> Option<Result<Self, OpenError>> {
        let shared = P::SWITCHES[4] && P::SWITCHES[5];
        let database = P::Latching::another(&self.database).filter(|_| shared)?;
        let session = Session::open(&database);
        let restart = self.restart;
        Some(session.map(|session| Self { database, session, restart, not_sync: PhantomData }))
    }

    /// Sets the isolation level of this session's next transactions.
    ///
    /// # Panics
    /// In a transaction.
    pub fn set_isolation(&mut self, isolation: Isolation) {
        assert_eq!(self.session.phase, Phase::Idle, "isolation is chosen between transactions");
        self.session.isolation = isolation;
    }

    /// Chooses whether this session's commits wait until they are durable; by default they do. If they do not, the
    /// caller must not give away an answer that depends on one before [`PagedStore::harden_own`] has returned.
    pub fn set_hardens(&mut self, hardens: bool) {
        self.session.hardens = hardens;
    }

    /// Saves everything, so that the directory can be opened again.
    ///
    /// # Errors
    /// When other sessions are open, a transaction is prepared and not decided, or failed half-way, the log or the
    /// disk fails, or the profile cannot save. The directory then counts as not closed.
    pub fn close(mut self) -> Result<(), OpenError> {
        self.session.end(&self.database);
        let Some(database) = P::Latching::alone(&mut self.database) else {
            return Err(OpenError::SessionsOpen);
        };
        database.close()
    }

    /// Prepares the session's transaction: from now on it can commit and can abort, even after a crash, until
    /// [`PagedStore::decide`]. It keeps its locks, and a restart finds it; the session is free for another
    /// transaction. The vote waits for the log, as a commit does.
    ///
    /// ```
    /// use tombolo_storage::disk::MemDisk;
    /// use tombolo_storage::owner::Owner;
    /// use tombolo_storage::paged::store::{Decision, PagedSettings, PagedStore, Vote};
    /// use tombolo_storage::profile::Conventional;
    /// use tombolo_storage::store::Store;
    ///
    /// let settings = PagedSettings { pool_bytes: 1 << 20, ..PagedSettings::default() };
    /// let mut store = PagedStore::<Conventional>::create(&MemDisk::new(), &settings)?;
    /// store.begin()?;
    /// assert_eq!(store.prepare(Owner::new(1))?, Vote::ReadOnly, "nothing was changed");
    /// let error = store.decide(Owner::new(1), Decision::Commit).unwrap_err();
    /// assert!(error.to_string().starts_with("no transaction 1 is prepared"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `CannotPrepare`, `PreparedAlready`, `TooManyPrepared`, and `LogFull` where the log has no room: the transaction
    /// goes on, and can commit or abort. `Poisoned`: whether it is prepared is unknown until a restart.
    ///
    /// # Panics
    /// Outside a transaction.
    pub fn prepare(&mut self, owner: Owner) -> Result<Vote, Error> {
        let (vote, upto) = self.prepare_unhardened(owner)?;
        self.harden(upto).map(|()| vote)
    }

    /// The same without waiting for the log: the vote counts once the log is durable up to the returned position. So
    /// the votes of several databases can become durable at the same time.
    ///
    /// # Errors
    /// As [`PagedStore::prepare`].
    ///
    /// # Panics
    /// As there.
    pub fn prepare_unhardened(&mut self, owner: Owner) -> Result<(Vote, LogPosition), Error> {
        let (vote, lsn) = self.session.prepare(&self.database, owner)?;
        Ok((vote, LogPosition(lsn)))
    }

    /// Commits or aborts a transaction that any session has prepared; this session's open transaction goes on.
    /// Waits for the log.
    ///
    /// # Errors
    /// `NotPrepared`, also while it is being decided by another thread; `Poisoned`: whether the decision counts is
    /// unknown, and a restart shows it.
    pub fn decide(&mut self, owner: Owner, decision: Decision) -> Result<(), Error> {
        let upto = self.decide_unhardened(owner, decision)?;
        self.harden(upto)
    }

    /// The same without waiting until a commit is durable: for a coordinator whose decision is durable, so that after
    /// a restart it decides the same. It must remember the decision until the log is durable up to the returned
    /// position.
    ///
    /// # Errors
    /// As [`PagedStore::decide`].
    pub fn decide_unhardened(
        &mut self,
        owner: Owner,
        decision: Decision,
    ) -> Result<LogPosition, Error> {
        self.session.decide(&self.database, owner, decision).map(LogPosition)
    }

    /// Commits the session's transaction without waiting for the log. Its locks are released. Before the log
    /// is durable up to the returned position, the caller must neither answer nor decide anything that depends on the
    /// transaction, not even on rows that it only read.
    ///
    /// # Errors
    /// As a commit.
    pub fn commit_unhardened(&mut self) -> Result<LogPosition, Error> {
        self.session.commit_unhardened(&self.database)?;
        Ok(LogPosition(self.session.committed_at))
    }

    /// Waits until the log is durable up to a position.
    ///
    /// # Errors
    /// `Poisoned`: what a restart will find is unknown.
    pub fn harden(&self, upto: LogPosition) -> Result<(), Error> {
        transaction::harden(&self.database, upto.0)
    }

    /// Waits until everything that this session's committed transactions wrote or read is durable.
    ///
    /// # Errors
    /// `Poisoned`: what a restart will find is unknown.
    pub fn harden_own(&self) -> Result<(), Error> {
        self.harden(LogPosition(self.session.committed_at))
    }

    /// Whether the log is durable up to a position.
    #[must_use]
    pub fn is_hardened(&self, upto: LogPosition) -> bool {
        self.database.log.durable() > upto.0
    }

    /// Whether the session's transaction has changed anything.
    #[must_use]
    pub fn has_changed(&self) -> bool {
        self.newest_change() > 0
    }

    /// The LSN of the newest change of the session's transaction; 0 if there is none.
    fn newest_change(&self) -> u64 {
        self.database.log.newest_undoable(&self.session.log)
    }

    /// Sets how long this session's transactions wait for a lock, in intervals of [`LockSettings::wait_interval_ms`]:
    /// a transaction that also holds locks in other databases may be in a circle of waits that no database sees.
    ///
    /// [`LockSettings::wait_interval_ms`]: crate::lock::LockSettings::wait_interval_ms
    pub fn set_lock_waits(&mut self, intervals_max: u32) {
        if let Some(held) = self.session.held.get_mut() {
            self.database.locks.set_waits(held, intervals_max);
        }
    }

    /// The transactions that are prepared and not decided, by number.
    #[must_use]
    pub fn prepared(&self) -> Vec<PreparedTransaction> {
        self.database.prepared.list()
    }

    /// The place of this session's last committed transaction in the order of commits: the number of its commit
    /// record in the log; if it changed nothing, the number of the newest commit record at its end. 0 in a profile
    /// without numbers.
    #[must_use]
    pub fn committed_at(&self) -> u64 {
        self.session.committed_at
    }

    /// Whether the log has grown so much since the last checkpoint that another one should be made: less than that
    /// where the disk has no room for another of its segments.
    pub fn checkpoint_due(&self) -> bool {
        self.database.checkpoint_due()
    }

    /// Writes pages, so that a restart has less to do, and releases the part of the log that a restart no longer
    /// needs. Transactions of other sessions go on meanwhile; this session's must have ended. `None` if the profile
    /// writes pages only when the database is closed.
    ///
    /// # Errors
    /// When log or disk fail. A full disk loses nothing.
    pub fn checkpoint(&self) -> Result<Option<Checkpoint>, OpenError> {
        self.database.checkpoint()
    }

    /// Reads every page into the pool, as far as it has room, so that later calls need not.
    ///
    /// # Errors
    /// When a page is damaged or the disk fails.
    pub fn read_all(&self) -> Result<(), OpenError> {
        let pages = &self.database.pages;
        let ids: Vec<PageId> = (1..pages.page_count()).map(PageId).collect();
        for ids in ids.chunks(FETCH_MAX) {
            pages.fetch(ids.iter().copied());
            for id in ids {
                pages.fix_shared(*id)?;
            }
        }
        Ok(())
    }

    /// Sets a function that is called whenever few frames of the pool are ready for pages that are not in memory. A
    /// thread with a session of its own should then soon call [`PagedStore::make_frames_ready`], so that no miss has to
    /// write a page. Only the first call of this method counts.
    pub fn when_few_frames_are_ready(&self, call: impl Fn() + Send + Sync + 'static) {
        self.database.pages.when_few_are_ready(call);
    }

    /// Writes changed pages that have not been used lately, for misses to come.
    ///
    /// # Errors
    /// When the log or the disk fails. The caller may ignore that: a miss that has to write a page returns the same
    /// error.
    pub fn make_frames_ready(&self) -> Result<(), OpenError> {
        Ok(self.database.pages.make_ready_ahead()?)
    }

    /// Counts of the log: records, bytes, flushes.
    pub fn log_usage(&self) -> LogUsage {
        self.database.log.usage()
    }

    /// Counts of the buffer pool; `None` in a profile without one.
    pub fn pool_usage(&self) -> Option<PoolUsage> {
        self.database.pages.pool_usage()
    }

    /// The open transactions; none in a profile that does not register them (S10).
    pub fn active(&self) -> Vec<ActiveTransaction> {
        self.database.sessions.active()
    }
}

impl<P: PagedProfile> Drop for PagedStore<P> {
    fn drop(&mut self) {
        self.session.end(&self.database);
    }
}

impl<P: PagedProfile> std::fmt::Debug for PagedStore<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PagedStore").finish_non_exhaustive()
    }
}
