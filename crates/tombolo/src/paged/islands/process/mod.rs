//! Islands of paged stores as processes: each is a process of its own, with as many threads as callers (ISL-2, ISL-11).
//!
//! | file | contains |
//! |---|---|
//! | `database.rs` | the database as its program sees it: opening, calls, closing |
//! | `steps.rs` | transactions over several islands: steps, sent as they come, and one commit |
//! | `settle.rs` | what is prepared on an island whose process was started again |
//! | `child.rs` | an island in its process |
//! | `workers.rs` | the threads on which it runs what arrives |
//!
//! A transaction over several islands has a session on each, and the database's process runs its commit: it asks for
//! the votes, lets the coordinator decide, and tells the others. So the protocol is that of one process
//! (`paged/islands/commit.rs`) with messages for calls, and what a crash leaves is resolved in the same way (0058).
//! Not here: processes, and what passes between them (`crate::processes`).

use std::ffi::OsString;
use std::fmt;
use std::time::Duration;

use tombolo_engine::command_log::Arguments;
use tombolo_engine::link::LinkKind;
use tombolo_storage::schema::{DeclaredIndex, DeclaredTable};
use tombolo_storage::store::{Index, Table};

use super::super::{PagedDatabase, PagedTx};
use super::PagedIslandsBuilder;
use crate::error::{Error, Stop};
use crate::processes::declared::{Declarations, IslandProcedure};
use crate::processes::{ProcessSettings, decoded, encoded, host};

mod child;
mod database;
mod settle;
mod steps;
mod workers;

pub use database::PagedIslandProcesses;
pub use steps::PagedSteps;

/// The tables of an island, to which a procedure binds.
#[derive(Debug)]
pub struct PagedBindings<'d> {
    database: &'d PagedDatabase,
}

impl PagedBindings<'_> {
    /// The handle of a table; see [`PagedDatabase::table`].
    ///
    /// # Errors
    /// As there.
    pub fn table<R: DeclaredTable>(&self) -> Result<Table<R>, Error> {
        self.database.table()
    }

    /// The handle of an index; see [`PagedDatabase::index`].
    ///
    /// # Errors
    /// As there.
    pub fn index<I: DeclaredIndex>(&self) -> Result<Index<I>, Error> {
        self.database.index()
    }
}

/// A procedure that is bound, with bytes as input and answer.
type Run = Box<dyn Fn(&mut PagedTx<'_>, &[u8]) -> Result<Vec<u8>, Stop> + Send + Sync>;
type Bind = Box<dyn Fn(&PagedBindings<'_>) -> Result<Run, Error>>;

/// A paged database of islands in processes of their own, to be opened; see [`PagedIslandsBuilder::processes`].
#[must_use = "there is no database before `open` is called"]
pub struct PagedProcessesBuilder {
    islands: PagedIslandsBuilder,
    declared: Declarations<Bind>,
    settings: ProcessSettings,
}

impl fmt::Debug for PagedProcessesBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("PagedProcessesBuilder");
        debug.field("islands", &self.islands).field("procedures", &self.declared);
        debug.finish_non_exhaustive()
    }
}

impl PagedIslandsBuilder {
    /// Each island in a process of its own. If one ends, whatever its reason, the others go on, and it is started
    /// again. As [`IslandsBuilder::processes`](crate::IslandsBuilder::processes): the program's own file is started
    /// once for each island, runs `main` up to the opening, and is the island then.
    ///
    /// ```no_run
    /// use tombolo::{Database, Table};
    ///
    /// #[derive(Table)]
    /// struct Account {
    ///     #[key]
    ///     id: u64,
    ///     cents: i64,
    /// }
    ///
    /// let mut db = Database::builder().define::<Account>().paged().islands(2).processes();
    /// let book = db.closure(
    ///     "book",
    ///     |island| island.index::<AccountKey>(),
    ///     |tx, by_id, &(id, cents): &(u64, i64)| {
    ///         let cents = tx.find_row(by_id, id)?.map_or(0, |(_, account)| account.cents) + cents;
    ///         tx.upsert_row(by_id, &Account { id, cents })?;
    ///         Ok(cents)
    ///     },
    /// );
    /// let db = db.open("bank")?;
    /// db.call(&book, &7u64, &(7, 100))?;
    /// // On two islands: both, or none.
    /// db.transaction(|tx| {
    ///     tx.run(&book, &7u64, &(7, -30))?;
    ///     tx.run(&book, &8u64, &(8, 30))
    /// })?;
    /// # Ok::<(), tombolo::Error>(())
    /// ```
    pub fn processes(self) -> PagedProcessesBuilder {
        let (declared, settings) = (Declarations::new(), ProcessSettings::default());
        PagedProcessesBuilder { islands: self, declared, settings }
    }
}

impl PagedProcessesBuilder {
    /// Declares a closure. In the process of each island, `bind` is called once, when the island is open, and finds the
    /// tables; `run` is called for each step, with what it found. It may run more than once for one call, so it must
    /// do nothing but read and write.
    pub fn closure<B, I, A>(
        &mut self,
        name: &'static str,
        bind: impl Fn(&PagedBindings<'_>) -> Result<B, Error> + 'static,
        run: impl Fn(&mut PagedTx<'_>, &B, &I) -> Result<A, Stop> + Send + Sync + Clone + 'static,
    ) -> IslandProcedure<I, A>
    where
        B: Send + Sync + 'static,
        I: Arguments + 'static,
        A: Arguments + 'static,
    {
        let bind: Bind = Box::new(move |bindings| {
            let (run, bound) = (run.clone(), bind(bindings)?);
            Ok(Box::new(move |tx: &mut PagedTx<'_>, bytes: &[u8]| {
                let input = decoded::<I>(bytes);
                let input =
                    input.ok_or(Stop::Abort("its input is not encoded as it is decoded"))?;
                run(tx, &bound, &input).map(|answer| encoded(&answer))
            }))
        });
        self.declared.declare(name, bind)
    }

    /// Arguments of the program in the processes of islands, instead of those that it was started with.
    pub fn arguments<W: Into<OsString>>(mut self, arguments: impl IntoIterator<Item = W>) -> Self {
        self.settings.arguments = Some(arguments.into_iter().map(Into::into).collect());
        self
    }

    /// How long the process of an island may be silent before it is taken for hanging; as
    /// [`ProcessesBuilder::silence_max`](crate::ProcessesBuilder::silence_max). A thread of the island answers that no
    /// transaction holds up, so transactions may take longer.
    pub fn silence_max(mut self, time: impl Into<Option<Duration>>) -> Self {
        self.settings.silence_max = time.into();
        self
    }

    /// What links islands' processes with this one, as [`ProcessesBuilder::link`](crate::ProcessesBuilder::link).
    pub const fn link(mut self, kind: LinkKind) -> Self {
        self.settings.link = kind;
        self
    }

    /// In a process that was started as an island, is that island and does not return; otherwise does nothing. `open`
    /// calls it. A program that does something else first, which its islands should not do, calls it before.
    pub fn become_island(self) -> Self {
        if host::is_asked() {
            host::run(self);
        }
        self
    }

    /// See [`Declarations::words`].
    fn words(&self) -> String {
        let islands = &self.islands;
        let keys = format!("{} islands in pages, keys by {}", islands.islands, islands.keys);
        let tables = islands.paged.refuse_unknown().into_iter().flatten();
        self.declared.words(keys, &islands.spreads, &self.settings, tables)
    }
}
