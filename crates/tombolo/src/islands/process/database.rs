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
use crate::calls::on_database_thread;
use crate::error::Error;
use crate::processes::own::{OwnDirectory, Processes, refuse_long, unlike};
use crate::processes::supervisor::Supervised;
use crate::processes::wire::{self, Item};
use crate::processes::{decoded, encoded};

/// A database of several islands, each in a process of its own; see
/// [`IslandsBuilder::processes`](crate::IslandsBuilder::processes). If a process ends, however it does, calls of its
/// island are refused ([`Error::IslandRestarts`], to be retried) until it has been started again and has recovered; the
/// other islands go on.
pub struct IslandProcesses {
    processes: Processes,
    router: Router,
    /// Of the builder that declared its procedures.
    builder: u32,
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
        let (words, islands) = (self.words(), self.islands.islands);
        let processes = Processes::start(islands, words, self.settings, directory)?;
        let router = Router { keys: self.islands.keys, islands };
        Ok(IslandProcesses { processes, router, builder: self.number, backs_up: Mutex::default() })
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
        self.supervised().seats.get(island)?.process()
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
        self.sent(procedure, key, input, |call| Item::new(wire::CALL).u64(call))
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
        self.sent(procedure, key, input, |call| Item::new(wire::CALL_ONCE).u64(call).u128(id))
    }

    /// Sends a call that begins like this, given its number, and waits for its answer.
    fn sent<I, A>(
        &self,
        procedure: &IslandProcedure<I, A>,
        key: &(impl IslandKey + ?Sized),
        input: &I,
        begins: impl FnOnce(u64) -> Item,
    ) -> Result<A, Error>
    where
        I: Arguments,
        A: Arguments,
    {
        let island = self.island_of(key)?;
        let (number, input) = self.ready(procedure, island, input)?;
        let item = |call| begins(call).u32(number).rest(&input);
        let answer = self.supervised().call(island, item)?;
        decoded(&answer).ok_or_else(|| unlike(island))
    }

    /// A transaction whose parts run on several islands, and commit together or not at all.
    pub fn across(&self) -> AcrossProcesses<'_> {
        AcrossProcesses::new(self)
    }

    /// The number and the input of a call that may be sent.
    pub(super) fn ready<I: Arguments, A>(
        &self,
        procedure: &IslandProcedure<I, A>,
        island: usize,
        input: &I,
    ) -> Result<(u32, Vec<u8>), Error> {
        if on_database_thread() {
            return Err(Error::Nested);
        }
        if procedure.builder != self.builder {
            let what = "the procedure was declared for another database";
            return Err(Error::Schema(what.to_owned()));
        }
        let input = encoded(input);
        refuse_long(island, input.len())?;
        Ok((procedure.number, input))
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
        let processes: Vec<_> = self.supervised().seats.iter().map(|seat| seat.process()).collect();
        f.debug_struct("IslandProcesses").field("processes", &processes).finish_non_exhaustive()
    }
}
