//! Opening the islands of a database: each is a directory of its own, `island-0` and on, with log and image.
//!
//! ```text
//!   recover each, concurrently ──► same database, same number of islands, same keys? ──► count the openings, durably
//!                                                                                              │
//!            links, timer ◄── start each pipeline ◄── hold again what was prepared ◄───────────┘
//! ```
//!
//! A directory is an island's from its first row on. Of a new database, island 0 is made last: so if it is there, an
//! island that is missing was lost. Not here: recovery of one island (`open.rs`).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tombolo_engine::clock::{Clock, SystemClock};
use tombolo_engine::islands::commit::IslandId;
use tombolo_engine::islands::island::Island;
use tombolo_engine::islands::membership::{
    Membership, Spread, count_opening, found, island_directory, islands_in, membership,
    membership_tables,
};
use tombolo_engine::islands::ordered::{OrderedRows, ordered_table};
use tombolo_engine::islands::placement::Placement;
use tombolo_engine::islands::prepared::prepared_tables;
use tombolo_engine::islands::topology::Topology;
use tombolo_engine::pipeline::InCommon;
use tombolo_engine::rng::entropy;
use tombolo_engine::threads::{self, OnCores, Running};
use tombolo_storage::disk::OsDisk;
use tombolo_storage::error::Error as StoreError;
use tombolo_storage::row::Column;
use tombolo_storage::schema::{DeclaredTable, TableDef};
use tombolo_storage::store::Store;
use tombolo_storage::value_log::{holds_log, refuse_copy};

use super::Islands;
use super::identity::Asked;
use super::key::Keys;
use super::mail::{Mail, Turns};
use super::member::Member;
use super::ordered::{Ordering, cut_off};
use super::spread::{spread, spread_own};
use super::waits::Waits;
use crate::builder::{Builder, Joined, Joins, Ready, Recovered};
use crate::calls::ReplySlots;
use crate::database::Database;
use crate::error::Error;
use crate::open::{Opened, make_durable, refuse_exchanged};
use crate::product::Product;
use crate::tx::next_number;

/// Room in the log for an island's turn.
const TURN_LOG_BYTES: u64 = 256 << 10;

/// What a database's pipeline needs to be one of several islands.
struct Joining {
    me: IslandId,
    islands: u16,
    opening: u32,
    /// The number of the handles, which are those of all islands.
    handles: u32,
    mail: Arc<Mail>,
}

/// How transactions over several islands commit, where they are logged. In memory there is no difference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum AtomicCommit {
    /// The islands agree on each: it is prepared, and then decided. While that lasts it holds locks, and other
    /// transactions run. An island whose log fails stops the transactions with parts there, and no others.
    #[default]
    TwoPhase,
    /// The caller's thread runs all parts and commits on each island at once, in one order: nothing is prepared, and
    /// no lock is held. The logs become durable together, so what follows on an island waits for the other islands'
    /// flushes, too. An island whose log fails stops those that wait for it. Where the thread does not get all
    /// islands, they agree as with [`AtomicCommit::TwoPhase`].
    Ordered,
}

impl Joins for Joining {
    fn clock(&self) -> Arc<dyn Clock> {
        self.mail.clock.clone()
    }

    fn handles(&self) -> u32 {
        self.handles
    }

    fn in_common(&self) -> Option<InCommon> {
        let ordering = self.mail.ordering.as_ref()?;
        Some(InCommon::new(ordering.order.clone(), self.me.index()))
    }

    fn join(
        self: Box<Self>,
        store: &mut Product,
        slots: &[Arc<ReplySlots>],
        group_bytes_max: Option<u64>,
    ) -> Result<Joined, Error> {
        let Self { me, islands, opening, mail, .. } = *self;
        if let Some(ordering) = &mail.ordering {
            ordering.join(store, (me, islands)).map_err(damaged)?;
        }
        let island = Island::open(store, (me, islands), opening).map_err(damaged)?;
        let log_bytes_max = group_bytes_max.map(|bytes| TURN_LOG_BYTES.min(bytes / 2));
        let slots = slots.to_vec();
        let member = Member::new(island, me, mail.clone(), slots.clone(), log_bytes_max);
        let log_bytes_max = log_bytes_max.unwrap_or(TURN_LOG_BYTES);
        let turns = Arc::new(Turns { island: me, mail: mail.clone(), slots });
        let on_start = move |pipeline: &_| mail.open(turns, pipeline, log_bytes_max);
        Ok((Box::new(member), Box::new(on_start)))
    }
}

pub(super) fn damaged(error: StoreError) -> Error {
    match error {
        StoreError::UnfitChanges => Error::Damaged(
            "the island's rows of prepared transactions are not those of this database: restore a \
             backup"
                .to_owned(),
        ),
        error => Error::Refused(error),
    }
}

/// Keeps the threads that this one starts on these cores, while the answer lives.
fn bound_to(cores: &[usize]) -> Result<OnCores, Error> {
    OnCores::bind(cores).map_err(|cause| not_bound(cores, &cause))
}

pub(super) fn not_bound(cores: &[usize], cause: &std::io::Error) -> Error {
    Error::System(format!("no thread runs on cores {cores:?}: {cause}: choose another placement"))
}

/// One of several islands, alone in its process.
pub(super) struct OneIsland {
    pub(super) database: Database,
    pub(super) mail: Arc<Mail>,
    timer: Running,
}

impl OneIsland {
    /// Closes it. What is not decided stays so until it is opened again.
    pub(super) fn close(self) -> Result<(), Error> {
        self.mail.end();
        self.timer.join();
        self.database.close()
    }
}

/// The islands of a database to be opened; see [`Builder::islands`].
#[derive(Clone, Debug)]
#[must_use = "there is no database before `open` or `in_memory` is called"]
pub struct IslandsBuilder {
    pub(super) builder: Builder,
    pub(super) islands: usize,
    pub(super) keys: Keys,
    pub(super) spreads: Vec<Spread>,
    /// On which cores the threads of islands run.
    pub(super) placement: Placement,
    pub(super) commit: AtomicCommit,
    pub(super) waits: Waits,
    /// Whether a directory that exists says how many islands there are, and how keys are spread.
    pub(super) is_auto: bool,
}

impl Builder {
    /// Several islands, each with an engine of its own: the rows of a database are spread over them by key, so that
    /// transactions on different islands run at the same time, on cores of their own. See [`Islands`].
    pub fn islands(self, islands: usize) -> IslandsBuilder {
        let (keys, spreads, placement) = (Keys::Hash, Vec::new(), Placement::Os);
        let (commit, waits, is_auto) = (AtomicCommit::TwoPhase, Waits::default(), false);
        IslandsBuilder { builder: self, islands, keys, spreads, placement, commit, waits, is_auto }
    }

    /// As many islands as the directory has, spread as they are. A new database, and one in memory, gets one for each
    /// group of the machine's cores that share a last-level cache, on these cores: threads of an island are near each
    /// other (ISL-32). `tombolo advise` measures what suits a workload.
    ///
    /// ```
    /// # use tombolo::Database;
    /// let db = Database::builder().islands_auto().in_memory()?;
    /// assert!(db.islands() >= 1);
    /// # Ok::<(), tombolo::Error>(())
    /// ```
    pub fn islands_auto(self) -> IslandsBuilder {
        let islands = Topology::of_machine().islands().len().max(1);
        IslandsBuilder { is_auto: true, ..self.islands(islands).placement(Placement::Islands) }
    }
}

impl IslandsBuilder {
    /// Spreads keys by ranges instead of by their hash: the first island has those below the first of `bounds`, the
    /// next those from there to below the second, and so on. `bounds` are ascending, one fewer than islands, and keys
    /// are integers.
    ///
    /// ```
    /// use tombolo::Database;
    ///
    /// let db = Database::builder().islands(3).ranges([100, 200]).in_memory()?;
    /// assert_eq!((db.island_of(&7)?, db.island_of(&100)?, db.island_of(&5_000)?), (0, 1, 2));
    /// # Ok::<(), tombolo::Error>(())
    /// ```
    pub fn ranges(mut self, bounds: impl IntoIterator<Item = i64>) -> Self {
        self.keys = Keys::Ranges(bounds.into_iter().collect());
        self
    }

    /// Spreads the rows of a table by one of its columns: each row is on the island of the key in that column, and a
    /// transaction that would leave it on another one is refused. The column is an integer or, if keys are spread by
    /// their hash, text, bytes or a UUID, is never null, and is part of each unique index of the table. The directory
    /// keeps that, whichever program opens it next.
    ///
    /// ```
    /// use tombolo::{Database, Error, Table};
    ///
    /// #[derive(Table)]
    /// struct Account {
    ///     #[key]
    ///     id: u64,
    ///     cents: i64,
    /// }
    ///
    /// let builder = Database::builder().define::<Account>();
    /// let db = builder.islands(2).ranges([100]).spread_by(Account::ID).in_memory()?;
    /// let accounts = db.table::<Account>()?;
    /// let insert = |at: u64, id: u64| {
    ///     db.at(&at)?.transaction(move |tx| tx.insert_row(&accounts, &Account { id, cents: 0 }).map(drop))
    /// };
    /// insert(7, 7)?;
    /// let refused = insert(7, 100).unwrap_err();
    /// assert!(refused.to_string().contains("account.id of a row is a key of another island"));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn spread_by<R: DeclaredTable, T>(self, column: Column<R, T>) -> Self {
        let column = R::COLUMNS[column.position()].name.to_string();
        self.spread(R::NAME, Some(column))
    }

    /// Each island has all rows of a table: one that all read and few transactions change, through
    /// [`Across::everywhere`](crate::Across::everywhere). `tombolo check` compares the islands' rows.
    pub fn everywhere<R: DeclaredTable>(self) -> Self {
        self.spread(R::NAME, None)
    }

    fn spread(mut self, table: &str, column: Option<String>) -> Self {
        self.spreads.push(Spread { table: table.to_owned(), column });
        self
    }

    /// On which cores the threads of each island run, and load their rows (ISL-3, ISL-13). Callers that run
    /// transactions on their own threads are bound by [`Islands::bind_thread`].
    pub const fn placement(mut self, placement: Placement) -> Self {
        self.placement = placement;
        self
    }

    /// How transactions over several islands commit. Each opening may choose.
    ///
    /// ```
    /// # use tombolo::{AtomicCommit, Database};
    /// # let place = tempfile::tempdir().unwrap();
    /// # let builder = Database::builder().set("log_segment_bytes", "1 MB");
    /// let db = builder.islands(2).atomic_commit(AtomicCommit::Ordered).open(place.path())?;
    /// # Ok::<(), tombolo::Error>(())
    /// ```
    pub const fn atomic_commit(mut self, commit: AtomicCommit) -> Self {
        self.commit = commit;
        self
    }

    /// The cores of each island; none where the system decides.
    fn cores(&self) -> Vec<Vec<usize>> {
        let all = self.placement.cores(&Topology::of_machine(), self.islands, 1);
        all.into_iter().map(|threads| threads.concat()).collect()
    }

    /// Opens the database in `directory`, which has a directory for each island. Creates it if it does not exist;
    /// otherwise recovers the islands, concurrently, and what was prepared on several of them is decided.
    ///
    /// # Errors
    /// As [`Builder::open`]; [`Error::Directory`] when the directory holds another number of islands, another way to
    /// spread keys, a database without islands, or when an island is missing.
    pub fn open(mut self, directory: impl AsRef<Path>) -> Result<Islands, Error> {
        let directory = directory.as_ref();
        if self.is_auto && islands_in(directory) > 0 {
            self.islands = islands_in(directory);
        }
        self.check()?;
        self.refuse_others(directory)?;
        let mut recovered = self.recover_all(directory)?;
        let mut stores: Vec<_> =
            recovered.iter_mut().map(|island| &mut island.opened.store).collect();
        let spreads = spread(&mut stores, &self.keys, &self.spreads)?;
        let mut openings = Vec::new();
        for (me, Recovered { opened, .. }) in recovered.iter_mut().enumerate() {
            let me = (IslandId(me as u16), self.islands as u16);
            OrderedRows::open(&mut opened.store, me).map_err(damaged)?;
            openings.push(count_opening(&mut opened.store).map_err(damaged)?);
            make_durable(opened)?;
        }
        let archive_time_max = self.builder.archive_time_max();
        let ready = recovered.into_iter().map(|island| Builder::ready(island, archive_time_max));
        self.start(ready.collect::<Result<Vec<_>, _>>()?, spreads, &openings)
    }

    /// Islands in memory only; see [`Builder::in_memory`].
    ///
    /// # Errors
    /// As there.
    pub fn in_memory(self) -> Result<Islands, Error> {
        self.check()?;
        let tables = self.tables()?;
        let ready =
            (0..self.islands).map(|island| self.of_island(island).in_memory_with(tables.clone()));
        let mut ready = ready.collect::<Result<Vec<_>, _>>()?;
        let mut stores: Vec<_> = ready.iter_mut().map(|island| &mut island.store).collect();
        let spreads = spread(&mut stores, &self.keys, &self.spreads)?;
        self.start(ready, spreads, &vec![1; self.islands])
    }

    /// Opens one island, whose others are in other processes: in a directory where [`IslandsBuilder::open`] has made
    /// all of them, or in memory.
    pub(super) fn open_one(
        mut self,
        directory: Option<&Path>,
        island: usize,
    ) -> Result<OneIsland, Error> {
        let (me, islands) = (IslandId(island as u16), self.islands as u16);
        let (own, tables) = (self.of_island(island), self.tables()?);
        let cores = threads::available().div_ceil(self.islands);
        let placed = self.cores();
        let _on = bound_to(&placed[island])?;
        let (mut ready, opening) = match directory {
            None => (own.in_memory_with(tables)?, 1),
            Some(directory) => {
                let place = directory.join(island_directory(island));
                let missing = || Error::Directory(format!("{} is no island", place.display()));
                if !place.is_dir() || !holds_log(&OsDisk::open(&place)?)? {
                    return Err(missing());
                }
                let mut recovered = own.recover(&place, &tables, cores, None)?;
                let opened = &mut recovered.opened;
                self.membership_of(opened, &place, island)?.ok_or_else(missing)?;
                let opening = count_opening(&mut opened.store).map_err(damaged)?;
                make_durable(opened)?;
                (Builder::ready(recovered, self.builder.archive_time_max())?, opening)
            }
        };
        spread_own(&mut ready.store, &self.keys, &self.spreads, (me, self.islands))?;
        let mail = Arc::new(self.mail(None));
        let joining = Joining { me, islands, opening, handles: next_number(), mail: mail.clone() };
        let database = own.start(ready, own.options(cores)?, Some(Box::new(joining)))?;
        let timed = mail.clone();
        let timer = Running::start("tombolo-islands", move || timed.run_timer())?;
        Ok(OneIsland { database, mail, timer })
    }

    fn mail(&self, ordering: Option<Ordering>) -> Mail {
        Mail::new(self.islands, Arc::new(SystemClock::new()), self.waits, ordering)
    }

    /// The builder of an island, with its share of memory and of each directory.
    fn of_island(&self, island: usize) -> Builder {
        self.builder.share(&island_directory(island), self.islands)
    }

    pub(super) fn check(&self) -> Result<(), Error> {
        self.waits.verify()?;
        self.keys.verify(self.islands)
    }

    fn tables(&self) -> Result<Vec<TableDef>, Error> {
        let own = prepared_tables().into_iter().chain(membership_tables()).chain([ordered_table()]);
        Ok(self.builder.all_tables()?.into_iter().chain(own).collect())
    }

    /// Refuses a directory of another kind.
    fn refuse_others(&self, directory: &Path) -> Result<(), Error> {
        refuse_exchanged(directory)?;
        if directory.is_dir() {
            let disk = OsDisk::open(directory)?;
            refuse_copy(&disk).map_err(|failure| Error::log(&failure))?;
            if holds_log(&disk)? {
                return Err(Error::Directory(format!(
                    "{} holds a database without islands: open it with Database::open",
                    directory.display()
                )));
            }
        }
        self.asked(directory).refuse_more()
    }

    const fn asked<'a>(&self, directory: &'a Path) -> Asked<'a> {
        Asked { directory, islands: self.islands }
    }

    /// Recovers all islands; makes those of a new database.
    pub(super) fn recover_all(&mut self, directory: &Path) -> Result<Vec<Recovered>, Error> {
        let tables = self.tables()?;
        let place = |island: usize| directory.join(island_directory(island));
        let is_there = |path: &PathBuf| -> Result<bool, Error> {
            Ok(path.is_dir() && holds_log(&OsDisk::open(path)?)?)
        };
        let cores = threads::available();
        let (placed, asked) = (self.cores(), self.clone());
        let recover = |island: usize| {
            let _on = bound_to(&placed[island])?;
            let own = asked.of_island(island);
            own.recover(&place(island), &tables, cores.div_ceil(asked.islands), None)
        };
        let mut there = Vec::new();
        for island in 0..self.islands {
            if is_there(&place(island))? {
                there.push(island);
            }
        }
        let recovered = threads::on_each(there.iter().copied(), recover);
        let mut recovered = recovered.into_iter().collect::<Result<Vec<_>, _>>()?;
        if there.len() == self.islands {
            cut_off(&mut recovered, |island, last| {
                let _on = bound_to(&placed[island])?;
                asked.of_island(island).recover(&place(island), &tables, cores, Some(last))
            })?;
        }
        let mut islands: Vec<Option<Recovered>> = (0..self.islands).map(|_| None).collect();
        let mut found = Vec::new();
        for (island, mut recovered) in there.iter().copied().zip(recovered) {
            found.push((island, self.membership_of(&mut recovered.opened, directory, island)?));
            islands[island] = Some(recovered);
        }
        let database = self.asked(directory).database_of(&found)?;
        let new = u128::from(entropy()) << u64::BITS | u128::from(entropy());
        let database = database.unwrap_or(new);
        for island in (0..self.islands).rev() {
            let recovered = match islands[island].take() {
                Some(recovered) => recovered,
                None => recover(island)?,
            };
            islands[island] = Some(self.found(recovered, database, island)?);
        }
        Ok(islands.into_iter().flatten().collect())
    }

    /// The database of an island that was opened before, and its number of openings; refuses an island of another
    /// number of islands, and of keys that are spread otherwise.
    fn membership_of(
        &mut self,
        opened: &mut Opened,
        directory: &Path,
        island: usize,
    ) -> Result<Option<(u128, u32)>, Error> {
        let Some((own, opening)) = membership(&mut opened.store).map_err(damaged)? else {
            return Ok(None);
        };
        let asked = self.asked(directory);
        asked.compare(&own, island)?;
        if std::mem::take(&mut self.is_auto) {
            self.keys = Keys::recorded(&own.keys)?;
        }
        asked.compare_keys(&own, island, &self.keys)?;
        Ok(Some((own.database, opening)))
    }

    /// Makes a store an island, durably, unless it is one.
    fn found(
        &self,
        mut recovered: Recovered,
        database: u128,
        island: usize,
    ) -> Result<Recovered, Error> {
        let opened = &mut recovered.opened;
        if membership(&mut opened.store).map_err(damaged)?.is_none() {
            let (island, islands) = (IslandId(island as u16), self.islands as u16);
            let keys = self.keys.to_string();
            let own = Membership { database, island, islands, keys };
            found(&mut opened.store, &own).map_err(damaged)?;
            make_durable(opened)?;
        }
        Ok(recovered)
    }

    /// Starts the islands and links them.
    fn start(
        &self,
        ready: Vec<Ready>,
        spreads: Vec<Spread>,
        openings: &[u32],
    ) -> Result<Islands, Error> {
        let schema = ready[0].store.schema();
        if let Some(other) = ready.iter().position(|island| island.store.schema() != schema) {
            return Err(Error::Schema(format!(
                "the tables of island 0 and island {other} differ: open the database with the \
                 tables with which it was opened last"
            )));
        }
        let islands = self.islands as u16;
        let is_ordered = self.commit == AtomicCommit::Ordered;
        let ordering = is_ordered.then(|| Ordering::new(self.islands));
        let mail = Arc::new(self.mail(ordering));
        let handles = next_number();
        let cores = threads::available().div_ceil(self.islands);
        let (placed, mut databases) = (self.cores(), Vec::new());
        for (island, (ready, opening)) in ready.into_iter().zip(openings).enumerate() {
            let (me, mail) = (IslandId(island as u16), mail.clone());
            let joining = Joining { me, islands, opening: *opening, handles, mail };
            let own = self.of_island(island);
            let _on = bound_to(&placed[island])?;
            databases.push(own.start(ready, own.options(cores)?, Some(Box::new(joining)))?);
        }
        mail.link_all();
        let timed = mail.clone();
        let timer = Running::start("tombolo-islands", move || timed.run_timer())?;
        let islands = Islands::new(databases, mail, (self.keys.clone(), spreads), placed, timer);
        islands.wait_for_links()?;
        Ok(islands)
    }
}
