//! `IslandProcesses`: a database whose islands are processes, as its program sees it.
//!
//! This process has no rows: it knows where keys are, sends calls there, and waits for their answers. Not here:
//! transactions over several islands (`across.rs`), processes that end (`supervisor.rs`), upkeep (`upkeep.rs`).

use std::fmt;
use std::path::Path;

use tombolo_engine::command_log::Arguments;
use tombolo_storage::sync::Mutex;

use super::super::Router;
use super::super::key::IslandKey;
use super::{AcrossProcesses, IslandProcedure, ProcessesBuilder};
use crate::error::Error;
use crate::processes::own::{OwnDirectory, Processes};
use crate::processes::supervisor::Supervised;
use crate::processes::wire::{self, Item};

/// A database of several islands, each in a process of its own; see
/// [`IslandsBuilder::processes`](crate::IslandsBuilder::processes). If a process ends, however it does, calls of its
/// island are refused ([`Error::IslandRestarts`], to be retried) until it has been started again and has recovered; the
/// other islands go on.
pub struct IslandProcesses {
    pub(super) processes: Processes,
    router: Router,
    /// Held by a caller that backs up.
    pub(super) backs_up: Mutex<()>,
}

impl ProcessesBuilder {
    /// Opens the database in `directory`, as [`IslandsBuilder::open`](crate::IslandsBuilder::open) does, and starts a
    /// process for each island. In such a process it does not return.
    ///
    /// # Errors
    /// As there; [`Error::InUse`] also when another program has the database open; those of binding procedures.
    pub fn open(self, directory: impl AsRef<Path>) -> Result<IslandProcesses, Error> {
        let own = self.begin()?;
        let directory = OwnDirectory::take(directory.as_ref())?;
        // Whatever is missing is made, whatever does not suit is refused, and what an ordered transaction left on some
        // islands only is cut off.
        directory.open(|path| own.islands.clone().open(path))?.close()?;
        own.start(Some(directory))
    }

    /// Islands in memory only: what an island had is lost when its process ends, which is not started again then.
    ///
    /// # Errors
    /// As [`ProcessesBuilder::open`].
    pub fn in_memory(self) -> Result<IslandProcesses, Error> {
        self.begin()?.start(None)
    }

    fn start(self, directory: Option<OwnDirectory>) -> Result<IslandProcesses, Error> {
        let (declared, islands) = ((self.declared.builder, self.words()), self.islands.islands);
        let processes = Processes::start(islands, declared, self.settings, directory)?;
        let router = Router { keys: self.islands.keys, islands };
        Ok(IslandProcesses { processes, router, backs_up: Mutex::default() })
    }
}

impl IslandProcesses {
    pub(super) fn supervised(&self) -> &Supervised {
        &self.processes.supervised
    }

    /// How many islands there are.
    pub fn islands(&self) -> usize {
        self.router.islands
    }

    /// The number of the island, from 0, on which a key is.
    ///
    /// # Errors
    /// As [`Islands::island_of`](crate::Islands::island_of).
    pub fn island_of(&self, key: &(impl IslandKey + ?Sized)) -> Result<usize, Error> {
        self.router.island_of(key)
    }

    /// The number of an island's process in the system; `None` while there is none, or if there is no such island.
    pub fn process_of(&self, island: usize) -> Option<u32> {
        self.processes.process_of(island)
    }

    /// How often a process was started again.
    pub fn restarts(&self) -> u64 {
        self.supervised().restarts()
    }

    /// Calls a procedure on the island of a key, and blocks until its answer arrives.
    ///
    /// # Errors
    /// The reason that there is no answer; see [`Error`]. [`Error::IslandRestarts`]: it was not run, because the
    /// island's process is being started again. [`Error::AnswerLost`]: the process ended while the call was under way,
    /// so it may have committed; [`IslandProcesses::call_once`] can be called again.
    pub fn call<I, A>(
        &self,
        procedure: &IslandProcedure<I, A>,
        key: &(impl IslandKey + ?Sized),
        input: &I,
    ) -> Result<A, Error>
    where
        I: Arguments,
        A: Arguments,
    {
        let begins = |call| Item::new(wire::CALL).u64(call);
        self.processes.call(procedure, self.island_of(key)?, input, begins)
    }

    /// The same with a request id, which runs once whatever ends meanwhile: if the answer was lost, the same call is
    /// made again, and is answered [`Error::Repeated`] if it had run; see [`Database::once`](crate::Database::once).
    ///
    /// # Errors
    /// As [`IslandProcesses::call`], and [`Error::Repeated`].
    pub fn call_once<I, A>(
        &self,
        id: u128,
        procedure: &IslandProcedure<I, A>,
        key: &(impl IslandKey + ?Sized),
        input: &I,
    ) -> Result<A, Error>
    where
        I: Arguments,
        A: Arguments,
    {
        let begins = |call| Item::new(wire::CALL_ONCE).u64(call).u128(id);
        self.processes.call(procedure, self.island_of(key)?, input, begins)
    }

    /// A transaction whose parts run on several islands, and commit together or not at all.
    pub fn across(&self) -> AcrossProcesses<'_> {
        AcrossProcesses::new(self)
    }

    /// Closes each island, and ends its process.
    ///
    /// # Errors
    /// The first that an island reports.
    pub fn close(mut self) -> Result<(), Error> {
        self.processes.close()
    }
}

impl fmt::Debug for IslandProcesses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IslandProcesses")
            .field("processes", &self.processes)
            .finish_non_exhaustive()
    }
}
