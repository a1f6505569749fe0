//! `Islands`: a database of several engines, each with rows, a log and threads of its own (ISL-1 to ISL-7).
//!
//! | file | contains |
//! |---|---|
//! | `opening.rs` | opening and creating the islands of a directory |
//! | `key.rs` | types of keys, and the island of a key |
//! | `identity.rs` | the island and the database that a directory belongs to |
//! | `spread.rs` | tables that are spread by a column |
//! | `load.rs` | loading many rows |
//! | `repartition/` | changing a directory's number of islands |
//! | `calls.rs` | calls of one island |
//! | `across.rs` | transactions over several islands |
//! | `answers.rs` | the steps of such a transaction, and their answers |
//! | `parts.rs` | the part of one island, as the island runs it |
//! | `transaction.rs` | transactions that reach islands while their closure runs |
//! | `ordered.rs` | logs that become durable together, and cutting them off after a crash |
//! | `series.rs` | several transactions that one thread commits in one call |
//! | `reach.rs` | the islands that a transaction's thread has taken |
//! | `member.rs` | an island, as its execution stage runs it |
//! | `mail.rs` | messages between islands, and the islands' turns |
//! | `helping.rs` | turns that a caller gives to the islands it waits for |
//! | `backup.rs` | backups of all islands as of one moment |
//! | `process/` | islands that are processes |
//! | `waits.rs` | settings: how long islands wait |
//! | `deadlines.rs` | the times at which an island stops waiting for something |
//!
//! Not here: the protocol, which survives crashes at every step, and its way to the store (engine `islands/`).

use std::any::type_name;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tombolo_engine::islands::membership::Spread;
use tombolo_engine::procedure::Procedure;
use tombolo_engine::threads::{Running, bind_to};
use tombolo_storage::schema::{DeclaredIndex, DeclaredTable, Schema};
use tombolo_storage::store::{Index, Table};

use crate::calls::{
    Body, CallOptions, ClosureBody, ProcedureBody, Registered, on_database_thread, register,
    wait_a_moment,
};
use crate::database::Database;
use crate::error::{Error, Stop};
use crate::statistics::Statistics;
use crate::tx::Tx;

mod across;
mod answers;
pub(crate) mod backup;
mod calls;
mod deadlines;
mod helping;
pub(crate) mod identity;
pub(crate) mod key;
mod load;
mod mail;
mod member;
mod opening;
mod ordered;
mod parts;
mod places;
mod process;
mod reach;
pub(crate) mod repartition;
mod series;
pub(crate) mod spread;
mod transaction;
mod waits;

pub use across::Across;
pub use answers::{Answers, Part};
pub use calls::{AtIsland, OnIslands};
pub use key::IslandKey;
pub use opening::{AtomicCommit, IslandsBuilder};
pub use places::ClosurePlace;
use places::ClosurePlaces;
pub use process::{
    AcrossProcesses, Bindings, IslandProcesses, ProcessesBuilder, SentAnswers, SentPart,
};
pub use repartition::Repartitioned;
pub use transaction::IslandsTx;

use key::{Keys, Router};
use mail::Mail;

/// A database of several islands. Each island is an engine with rows, a log and threads of its own: transactions on
/// different islands run at the same time. A call names its island by a key, and sees the rows of that island; a
/// program puts each row on the island of its key. [`Islands::across`] runs parts on several islands, which commit
/// together or not at all, even if the program crashes.
///
/// ```
/// use tombolo::{Database, Error, Stop, Table};
///
/// #[derive(Table)]
/// struct Account {
///     #[key]
///     id: u64,
///     cents: i64,
/// }
///
/// let db = Database::builder().define::<Account>().islands(2).in_memory()?;
/// let by_id = db.index::<AccountKey>()?;
/// let book = db.register_closure("book", move |tx, &(id, cents): &(u64, i64)| {
///     let cents = tx.find_row(&by_id, id)?.map_or(0, |(_, account)| account.cents) + cents;
///     if cents < 0 {
///         return Err(Stop::Abort("not enough money"));
///     }
///     tx.upsert_row(&by_id, &Account { id, cents })?;
///     Ok(cents)
/// });
/// // On one island.
/// assert_eq!(book.at(&1u64)?.call((1, 100))?, 100);
/// // On two: both, or none.
/// let transfer = |from: u64, to: u64, cents: i64| {
///     let mut across = db.across();
///     let left = across.part(&book, &from, (from, -cents))?;
///     across.part(&book, &to, (to, cents))?;
///     Ok::<i64, Error>(across.commit()?.take(left))
/// };
/// assert_eq!(transfer(1, 2, 30)?, 70);
/// assert_eq!(transfer(1, 2, 80), Err(Error::Aborted("not enough money")));
/// # Ok::<(), Error>(())
/// ```
pub struct Islands {
    databases: Vec<Database>,
    mail: Arc<Mail>,
    router: Arc<Router>,
    /// The tables that are spread, and by which columns.
    spreads: Vec<Spread>,
    /// The cores of each island; empty if the system places threads.
    cores: Vec<Vec<usize>>,
    timer: Option<Running>,
    closures: ClosurePlaces,
}

impl Islands {
    fn new(
        databases: Vec<Database>,
        mail: Arc<Mail>,
        (keys, spreads): (Keys, Vec<Spread>),
        cores: Vec<Vec<usize>>,
        timer: Running,
    ) -> Self {
        let router = Arc::new(Router { keys, islands: databases.len() });
        let (timer, closures) = (Some(timer), ClosurePlaces::new());
        Self { databases, mail, router, spreads, cores, timer, closures }
    }

    /// Waits until every island can reach every other.
    fn wait_for_links(&self) -> Result<(), Error> {
        let refused = || self.databases.iter().find_map(|island| island.core().failure());
        while !self.mail.is_linked() {
            if let Some(reason) = refused() {
                return Err(Error::Poisoned(reason));
            }
            wait_a_moment(Duration::from_micros(100));
        }
        Ok(())
    }

    /// The number of islands.
    pub fn islands(&self) -> usize {
        self.databases.len()
    }

    /// The number of the island, from 0, on which a key is.
    ///
    /// # Errors
    /// [`Error::Schema`] when keys are spread by ranges of numbers, and this key is not a number.
    pub fn island_of(&self, key: &(impl IslandKey + ?Sized)) -> Result<usize, Error> {
        self.router.island_of(key)
    }

    /// Binds the calling thread to the cores of an island, permanently: for a thread that mostly calls this island. It
    /// does nothing if no [`IslandsBuilder::placement`] was chosen.
    ///
    /// # Errors
    /// [`Error::System`] when the system does not allow it; [`Error::Schema`] for a number without an island.
    pub fn bind_thread(&self, island: usize) -> Result<(), Error> {
        let Some(cores) = self.cores.get(island) else {
            let (what, islands) = ("there is no island", self.islands());
            return Err(Error::Schema(format!("{what} {island} among {islands}")));
        };
        bind_to(cores).map_err(|cause| opening::not_bound(cores, &cause))
    }

    /// Transactions on the island of a key.
    ///
    /// # Errors
    /// As [`Islands::island_of`].
    pub fn at(&self, key: &(impl IslandKey + ?Sized)) -> Result<AtIsland<'_>, Error> {
        let island = self.island_of(key)?;
        Ok(AtIsland::new(self.databases[island].core(), CallOptions::new()))
    }

    /// A transaction whose parts run on several islands.
    pub fn across(&self) -> Across<'_> {
        Across::new(self)
    }

    /// Registers a procedure on all islands; see [`Database::register`].
    ///
    /// # Errors
    /// As there.
    pub fn register<P>(&self) -> Result<OnIslands<P::Input, P::Answer>, Error>
    where
        P: Procedure<Input: Send + 'static, Answer: Send + 'static> + Send + Sync + 'static,
    {
        let body = ProcedureBody::<P>::bind(&self.schema())?;
        Ok(self.register_body(type_name::<P>(), body))
    }

    /// Registers a closure on all islands; see [`Database::register_closure`]. If it meets a row that a transaction
    /// over several islands holds, it is undone, waits and runs again.
    pub fn register_closure<I, A, F>(&self, name: &'static str, closure: F) -> OnIslands<I, A>
    where
        F: Fn(&mut Tx<'_>, &I) -> Result<A, Stop> + Send + Sync + 'static,
        I: Send + 'static,
        A: Send + 'static,
    {
        self.register_body(name, ClosureBody::new(closure))
    }

    fn register_body<B: Body>(
        &self,
        name: &'static str,
        body: B,
    ) -> OnIslands<B::Input, B::Answer> {
        let first: Registered<_, _> = register(self.databases[0].core(), name, body);
        let on = self.databases.iter().map(|island| first.on(island.core())).collect();
        OnIslands::new(on, self.router.clone())
    }

    /// The tables and indexes, which are the same on each island.
    pub fn schema(&self) -> Arc<Schema> {
        self.databases[0].schema()
    }

    /// The handle of a table, for all islands; see [`Database::table`].
    ///
    /// # Errors
    /// As there.
    pub fn table<R: DeclaredTable>(&self) -> Result<Table<R>, Error> {
        self.databases[0].table()
    }

    /// The handle of an index, for all islands; see [`Database::index`].
    ///
    /// # Errors
    /// As there.
    pub fn index<I: DeclaredIndex>(&self) -> Result<Index<I>, Error> {
        self.databases[0].index()
    }

    /// The counters of each island. A transaction over several islands counts on the one on which it began.
    pub fn statistics(&self) -> Vec<Statistics> {
        self.databases.iter().map(Database::statistics).collect()
    }

    /// Where the program has closures ([`Islands::transaction`]) that have committed over several islands, the place
    /// with most of them first: declared ([`Islands::across`]), they would hold their islands for a shorter time.
    ///
    /// ```
    /// # use tombolo::{Database, Error};
    /// let db = Database::builder().islands(2).in_memory()?;
    /// let other = (2u64..).find(|key| db.island_of(key) != db.island_of(&1u64)).unwrap_or(2);
    /// db.transaction(|tx| {
    ///     tx.at(&1u64, |_| Ok(()))?;
    ///     tx.at(&other, |_| Ok(()))
    /// })?;
    /// let [found] = db.closures_over_islands()[..] else { panic!("one place") };
    /// assert_eq!((found.place.map(|at| at.file()), found.transactions), (Some(file!()), 1));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn closures_over_islands(&self) -> Vec<ClosurePlace> {
        self.closures.found()
    }

    /// Writes a checkpoint of each island; see [`Database::checkpoint`].
    ///
    /// # Errors
    /// As there.
    pub fn checkpoint(&self) -> Result<(), Error> {
        self.databases.iter().try_for_each(Database::checkpoint)
    }

    /// Closes the islands, after the transactions over several islands that are under way. See [`Database::close`].
    ///
    /// # Errors
    /// As there; the error of the first island that fails.
    pub fn close(mut self) -> Result<(), Error> {
        self.end()
    }

    fn end(&mut self) -> Result<(), Error> {
        let Some(timer) = self.timer.take() else { return Ok(()) };
        let since_ns = self.mail.clock.now_ns();
        let waited = || self.mail.clock.now_ns().saturating_sub(since_ns);
        while !on_database_thread()
            && !self.mail.is_idle()
            && u128::from(waited()) < self.mail.waits.closing.as_nanos()
        {
            wait_a_moment(Duration::from_millis(1));
        }
        self.mail.end();
        timer.join();
        let closed = self.databases.drain(..).map(Database::close).collect::<Vec<_>>();
        closed.into_iter().collect()
    }
}

impl Drop for Islands {
    fn drop(&mut self) {
        // A caller that wants errors calls `close`.
        let _ = self.end();
    }
}

impl fmt::Debug for Islands {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Islands").field("islands", &self.databases).finish_non_exhaustive()
    }
}
