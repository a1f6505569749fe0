//! Islands as processes: each is a process of its own, started from the program's own file (ISL-2, ISL-11).
//!
//! | file | contains |
//! |---|---|
//! | `database.rs` | the database as its program sees it: opening, calls, closing |
//! | `across.rs` | transactions over several islands |
//! | `child.rs` | an island in its process |
//! | `outwards.rs` | what it says to others |
//! | `upkeep.rs` | statistics, checkpoints, backups |
//! | `code.rs` | procedures by number, with bytes as input and answer |
//!
//! A process runs what was declared by name and nothing else: a closure of the calling process is not there (decision
//! 0059). Not here: processes, and what passes between them (`crate::processes`), the commit between islands (the
//! engine's `islands/`), an island's engine, which is that of a database of one process.

mod across;
mod child;
pub(super) mod code;
mod database;
mod outwards;
mod upkeep;

use std::any::type_name;
use std::ffi::OsString;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tombolo_engine::command_log::Arguments;
use tombolo_engine::link::LinkKind;
use tombolo_engine::procedure::Procedure;
use tombolo_storage::schema::{DeclaredIndex, DeclaredTable};
use tombolo_storage::store::{Index, Table};

use super::opening::{AtomicCommit, IslandsBuilder};
use crate::calls::{ClosureBody, ProcedureBody, register};
use crate::database::Database;
use crate::error::{Error, Stop};
use crate::processes::declared::{Declarations, IslandProcedure};
use crate::processes::{ProcessSettings, host};
use crate::tx::Tx;
use code::{Coded, CodedBody};

pub use across::{AcrossProcesses, SentAnswers, SentPart};
pub use database::IslandProcesses;

/// The tables of an island, to which a procedure binds.
#[derive(Debug)]
pub struct Bindings<'d> {
    database: &'d Database,
}

impl Bindings<'_> {
    /// The handle of a table; see [`Database::table`].
    ///
    /// # Errors
    /// As there.
    pub fn table<R: DeclaredTable>(&self) -> Result<Table<R>, Error> {
        self.database.table()
    }

    /// The handle of an index; see [`Database::index`].
    ///
    /// # Errors
    /// As there.
    pub fn index<I: DeclaredIndex>(&self) -> Result<Index<I>, Error> {
        self.database.index()
    }
}

type Bind = Box<dyn Fn(&Bindings<'_>) -> Result<Coded, Error>>;

/// A database of islands in processes of their own, to be opened; see
/// [`IslandsBuilder::processes`](crate::IslandsBuilder::processes).
#[must_use = "there is no database before `open` or `in_memory` is called"]
pub struct ProcessesBuilder {
    islands: IslandsBuilder,
    declared: Declarations<Bind>,
    settings: ProcessSettings,
}

impl fmt::Debug for ProcessesBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("ProcessesBuilder");
        debug.field("islands", &self.islands).field("procedures", &self.declared);
        debug.finish_non_exhaustive()
    }
}

impl IslandsBuilder {
    /// Each island in a process of its own. If one ends, whatever its reason, the others go on, and it is started
    /// again.
    ///
    /// [`ProcessesBuilder::open`] starts the program's own file once for each island, with the same arguments. Such
    /// a process runs `main` up to the same call, which then does not return but is the island. So what `main` does
    /// before, each island's process does, too: [`ProcessesBuilder::become_island`] can be called first.
    ///
    /// What runs on islands is declared beforehand, because a closure cannot be sent to another process: only its
    /// number, and its input as bytes.
    ///
    /// ```no_run
    #[doc = include_str!("../../../examples/processes.rs")]
    /// ```
    pub fn processes(self) -> ProcessesBuilder {
        let (declared, settings) = (Declarations::new(), ProcessSettings::default());
        ProcessesBuilder { islands: self, declared, settings }
    }
}

impl ProcessesBuilder {
    /// Declares a closure. In the process of each island, `bind` is called once, when the island is open, and finds the
    /// tables; `run` is called for each transaction, with what it found. It may run more than once for one call, so it
    /// must do nothing but read and write.
    pub fn closure<B, I, A>(
        &mut self,
        name: &'static str,
        bind: impl Fn(&Bindings<'_>) -> Result<B, Error> + 'static,
        run: impl Fn(&mut Tx<'_>, &B, &I) -> Result<A, Stop> + Send + Sync + 'static,
    ) -> IslandProcedure<I, A>
    where
        B: Send + Sync + 'static,
        I: Arguments + Send + 'static,
        A: Arguments + Send + 'static,
    {
        let run = Arc::new(run);
        let bind: Bind = Box::new(move |bindings| {
            let (run, bound) = (run.clone(), bind(bindings)?);
            let body = ClosureBody::new(move |tx: &mut Tx<'_>, input: &I| run(tx, &bound, input));
            Ok(register(bindings.database.core(), name, CodedBody(body)))
        });
        self.declared.declare(name, bind)
    }

    /// Declares a procedure.
    pub fn procedure<P>(&mut self) -> IslandProcedure<P::Input, P::Answer>
    where
        P: Procedure + Send + Sync + 'static,
        P::Input: Arguments + Send + 'static,
        P::Answer: Arguments + Send + 'static,
    {
        let name = type_name::<P>();
        let bind: Bind = Box::new(move |bindings| {
            let body = ProcedureBody::<P>::bind(&bindings.database.schema())?;
            Ok(register(bindings.database.core(), name, CodedBody(body)))
        });
        self.declared.declare(name, bind)
    }

    /// Arguments of the program in the processes of islands, instead of those that it was started with.
    pub fn arguments<W: Into<OsString>>(mut self, arguments: impl IntoIterator<Item = W>) -> Self {
        self.settings.arguments = Some(arguments.into_iter().map(Into::into).collect());
        self
    }

    /// How long the process of an island may be silent before it is taken for hanging, killed and started again: by
    /// default 30 seconds; `None` for any time. A process that says nothing for a quarter of that is asked, and has
    /// then this long to answer; its island answers in its turn, between transactions. So this has to be longer than
    /// the longest transaction, and than a flush of a slow disk. Calls under way are answered
    /// [`Error::AnswerLost`], which says that it hung.
    ///
    /// Not noticed is a program that hangs before it opens the database, and an endless loop in an opening or a
    /// closing. An island in memory is not started again.
    pub fn silence_max(mut self, time: impl Into<Option<Duration>>) -> Self {
        self.settings.silence_max = time.into();
        self
    }

    /// What links islands' processes with this one (ISL-11): UNIX sockets, unless something else is asked for. TCP
    /// (over the loopback), pipes and named pipes are slower here and promise the same; `tombolo links` measures them.
    /// A ring and message queues are refused by [`ProcessesBuilder::open`]: one thread has to receive and to send
    /// there.
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

    /// What precedes the opening of any database of processes.
    fn begin(self) -> Result<Self, Error> {
        let own = self.become_island();
        if own.islands.commit != AtomicCommit::TwoPhase {
            let what = "islands in processes commit by AtomicCommit::TwoPhase: their logs cannot be flushed together";
            return Err(Error::Setting(what.to_owned()));
        }
        own.settings.check()?;
        if own.islands.is_auto {
            let what = "islands in processes are as many as the program says: give islands(n)";
            return Err(Error::Setting(what.to_owned()));
        }
        own.islands.check()?;
        Ok(own)
    }

    /// See [`Declarations::words`].
    fn words(&self) -> String {
        let islands = &self.islands;
        let keys = format!("{} islands, keys by {}", islands.islands, islands.keys);
        let tables = islands.builder.own_tables();
        self.declared.words(keys, &islands.spreads, &self.settings, tables.iter().flatten())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn twice(builder: &mut ProcessesBuilder, name: &'static str) -> IslandProcedure<u64, u64> {
        builder.closure(name, |_| Ok(()), |_, (), n: &u64| Ok(2 * n))
    }

    #[test]
    fn a_process_that_declares_something_else_is_refused_by_name() {
        let builder = || Database::builder().islands(2).processes();
        let (mut one, mut other) = (builder(), builder());
        twice(&mut one, "twice");
        twice(&mut other, "double");
        assert_eq!(host::refuse_other(&one.words(), &one.words()), Ok(()));
        let refused = host::refuse_other(&one.words(), &other.words()).unwrap_err().to_string();
        assert!(refused.contains("twice") && refused.contains("double"), "{refused}");
        let more = Database::builder().islands(3).processes();
        let refused =
            host::refuse_other(&more.words(), &builder().words()).unwrap_err().to_string();
        assert!(refused.contains("3 islands") && refused.contains("2 islands"), "{refused}");
    }

    #[test]
    fn what_processes_cannot_do_is_refused() {
        let ordered = Database::builder().islands(2).atomic_commit(AtomicCommit::Ordered);
        let refused = ordered.processes().in_memory().unwrap_err().to_string();
        assert!(refused.contains("TwoPhase"), "{refused}");
        for kind in [LinkKind::Ring, LinkKind::MessageQueue] {
            let linked = Database::builder().islands(2).processes().link(kind);
            let refused = linked.in_memory().unwrap_err().to_string();
            assert!(refused.contains(kind.name()), "{refused}");
        }
        let hasty = Database::builder().islands(2).processes().silence_max(Duration::ZERO);
        let refused = hasty.in_memory().unwrap_err().to_string();
        assert!(refused.contains("at least 100ms"), "{refused}");
        assert!(Database::builder().islands(0).processes().in_memory().is_err());
        assert!(Database::builder().islands_auto().processes().in_memory().is_err());
    }
}
