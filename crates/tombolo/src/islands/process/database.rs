//! `IslandProcesses`: a database whose islands are processes, as its program sees it.
//!
//! This process has no rows: it knows where keys are, sends calls there, and waits for their answers. Not here:
//! transactions over several islands (`across.rs`), processes that end (`supervisor.rs`), upkeep (`upkeep.rs`).

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;
use std::{env, fmt};

use tombolo_engine::command_log::Arguments;
use tombolo_engine::link::ITEM_BYTES_MAX;
use tombolo_engine::pipeline::remote_checkpoint::Program;
use tombolo_engine::threads::Running;
use tombolo_storage::sync::Mutex;
use tombolo_storage::value_log::DirectoryLock;

use super::super::Router;
use super::super::key::IslandKey;
use super::code::{decoded, encoded};
use super::supervisor::{Starting, Supervised};
use super::wire::{self, Item};
use super::{AcrossProcesses, IslandProcedure, ProcessesBuilder};
use crate::calls::{on_database_thread, wait_a_moment};
use crate::error::Error;
use crate::open::make_directory;

/// The file of the program that runs, also if another version has its name now.
const OWN_PROGRAM: &str = "/proc/self/exe";

/// How long an opening waits for the processes of an earlier program that has just ended.
const ORPHANS_MAX: Duration = Duration::from_secs(10);
const ORPHANS_WAIT: Duration = Duration::from_millis(5);

/// A database of several islands, each in a process of its own; see
/// [`IslandsBuilder::processes`](crate::IslandsBuilder::processes). If a process ends, however it does, calls of its
/// island are refused ([`Error::IslandRestarts`], to be retried) until it has been started again and has recovered; the
/// other islands go on.
pub struct IslandProcesses {
    pub(super) supervised: Arc<Supervised>,
    router: Router,
    /// Of the builder that declared its procedures.
    builder: u32,
    threads: Vec<Running>,
    /// Held by a caller that backs up.
    pub(super) backs_up: Mutex<()>,
    /// Keeps other programs from the directory.
    _lock: Option<DirectoryLock>,
}

impl ProcessesBuilder {
    /// Opens the database in `directory`, as [`IslandsBuilder::open`](crate::IslandsBuilder::open) does, and starts a
    /// process for each island. In such a process it does not return.
    ///
    /// # Errors
    /// As there; [`Error::InUse`] also when another program has the database open; those of binding procedures.
    pub fn open(self, directory: impl AsRef<Path>) -> Result<IslandProcesses, Error> {
        let own = self.begin()?;
        let directory = std::path::absolute(directory.as_ref())
            .map_err(|cause| Error::Directory(format!("the directory's path: {cause}")))?;
        let Some(text) = directory.to_str() else {
            let what = "islands in processes need a directory whose path is UTF-8";
            return Err(Error::Directory(format!("{}: {what}", directory.display())));
        };
        let disk = make_directory(&directory)?;
        let lock = DirectoryLock::take(&disk).map_err(|failure| Error::log(&failure))?;
        own.prepare(&directory)?;
        own.start(Some(text.to_owned()), Some(lock))
    }

    /// Islands in memory only: what an island had is lost when its process ends, which is not started again then.
    ///
    /// # Errors
    /// As [`ProcessesBuilder::open`].
    pub fn in_memory(self) -> Result<IslandProcesses, Error> {
        self.begin()?.start(None, None)
    }

    /// Opens all islands in this process once, and closes them: whatever is missing is made, whatever does not suit is
    /// refused, and what an ordered transaction left on some islands only is cut off.
    fn prepare(&self, directory: &Path) -> Result<(), Error> {
        let mut waited = Duration::ZERO;
        loop {
            match self.islands.clone().open(directory) {
                // This program has the directory, so who has an island has lost its database, and ends.
                Err(Error::InUse { .. }) if waited < ORPHANS_MAX => {
                    wait_a_moment(ORPHANS_WAIT);
                    waited += ORPHANS_WAIT;
                }
                opened => return opened?.close(),
            }
        }
    }

    fn start(
        self,
        directory: Option<String>,
        lock: Option<DirectoryLock>,
    ) -> Result<IslandProcesses, Error> {
        let (islands, keys) = (self.islands.islands, self.islands.keys.clone());
        let (declaration, silence_max, kind) = (self.words(), self.silence_max, self.link);
        let arguments = self.arguments.unwrap_or_else(|| env::args_os().skip(1).collect());
        let program = Program { path: OWN_PROGRAM.into(), arguments };
        let starting = Starting { program, declaration, directory, silence_max, kind };
        let supervised = Arc::new(Supervised::new(islands, starting));
        let (first, opened) = channel();
        let mut threads = Vec::new();
        let mut started = Ok(());
        for island in 0..islands {
            let (shared, first) = (supervised.clone(), first.clone());
            let name = format!("tombolo-island-{island}");
            match Running::start(&name, move || shared.supervise(island, &first)) {
                Ok(thread) => threads.push(thread),
                Err(refused) => started = started.and(Err(refused.into())),
            }
        }
        drop(first);
        // From here on dropping it closes what has started.
        let router = Router { keys, islands };
        let (builder, backs_up) = (self.number, Mutex::default());
        let own = IslandProcesses { supervised, router, builder, threads, backs_up, _lock: lock };
        opened.iter().take(own.threads.len()).fold(started, Result::and)?;
        Ok(own)
    }
}

impl IslandProcesses {
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
        self.supervised.seats.get(island)?.process()
    }

    /// How often a process was started again.
    pub fn restarts(&self) -> u64 {
        self.supervised.restarts()
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
        let answer = self.supervised.call(island, item)?;
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
        self.end();
        self.supervised.closed()
    }

    fn end(&mut self) {
        self.supervised.close();
        self.threads.drain(..).for_each(Running::join);
    }
}

/// Refuses what is too long to be sent at once.
pub(super) fn refuse_long(island: usize, bytes: usize) -> Result<(), Error> {
    let bytes_max = ITEM_BYTES_MAX / 2;
    if bytes < bytes_max {
        return Ok(());
    }
    let what = format!(
        "not run: an input of {bytes} bytes is more than the {bytes_max} that a process is sent at once"
    );
    Err(Error::InIsland { island, what, is_retryable: false })
}

/// An answer of the library's own that cannot be read.
pub(super) fn unreadable(island: usize) -> Error {
    let what = "its process answers something else than expected".to_owned();
    Error::InIsland { island, what, is_retryable: false }
}

/// An answer that is not encoded as it is decoded.
pub(super) fn unlike(island: usize) -> Error {
    let what =
        "the transaction has committed, but its answer is not encoded as it is decoded".to_owned();
    Error::InIsland { island, what, is_retryable: false }
}

impl Drop for IslandProcesses {
    fn drop(&mut self) {
        self.end();
    }
}

impl fmt::Debug for IslandProcesses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let processes: Vec<_> = self.supervised.seats.iter().map(|seat| seat.process()).collect();
        f.debug_struct("IslandProcesses").field("processes", &processes).finish_non_exhaustive()
    }
}
