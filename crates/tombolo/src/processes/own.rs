//! The database's process: it keeps other programs from the directory, starts the processes of its islands, and ends
//! them. It has no rows.
//!
//! Not here: processes that end meanwhile (`supervisor.rs`), calls (`seat.rs`).

use std::path::{Path, absolute};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;
use std::{env, fmt};

use tombolo_engine::command_log::Arguments;
use tombolo_engine::link::ITEM_BYTES_MAX;
use tombolo_engine::pipeline::remote_checkpoint::Program;
use tombolo_engine::threads::Running;
use tombolo_storage::value_log::DirectoryLock;

use super::declared::IslandProcedure;
use super::supervisor::{Starting, Supervised};
use super::wire::Item;
use super::{ProcessSettings, decoded, encoded};
use crate::calls::{on_database_thread, wait_a_moment};
use crate::error::Error;
use crate::open::make_directory;

/// The file of the program that runs, also if another version has its name now.
const OWN_PROGRAM: &str = "/proc/self/exe";

/// How long an opening waits for the processes of an earlier program that has just ended.
const ORPHANS_MAX: Duration = Duration::from_secs(10);
const ORPHANS_WAIT: Duration = Duration::from_millis(5);

/// A directory that no other program opens.
#[derive(Debug)]
pub(crate) struct OwnDirectory {
    /// Its absolute path.
    path: String,
    _lock: DirectoryLock,
}

impl OwnDirectory {
    /// Makes the directory, and takes it.
    ///
    /// # Errors
    /// [`Error::InUse`] when another program has it; when its path cannot be sent.
    pub(crate) fn take(directory: &Path) -> Result<Self, Error> {
        let directory = absolute(directory)
            .map_err(|cause| Error::Directory(format!("the directory's path: {cause}")))?;
        let Some(path) = directory.to_str() else {
            let what = "islands in processes need a directory whose path is UTF-8";
            return Err(Error::Directory(format!("{}: {what}", directory.display())));
        };
        let disk = make_directory(&directory)?;
        let lock = DirectoryLock::take(&disk).map_err(|failure| Error::log(&failure))?;
        Ok(Self { path: path.to_owned(), _lock: lock })
    }

    /// Opens the islands in this process, once those of an earlier program have ended.
    ///
    /// # Errors
    /// That of `open`.
    pub(crate) fn open<T>(&self, open: impl Fn(&Path) -> Result<T, Error>) -> Result<T, Error> {
        let mut waited = Duration::ZERO;
        loop {
            match open(self.path.as_ref()) {
                // This program has the directory, so what has an island has lost its database, and ends.
                Err(Error::InUse { .. }) if waited < ORPHANS_MAX => {
                    wait_a_moment(ORPHANS_WAIT);
                    waited += ORPHANS_WAIT;
                }
                opened => return opened,
            }
        }
    }
}

/// The processes of all islands.
pub(crate) struct Processes {
    pub(crate) supervised: Arc<Supervised>,
    threads: Vec<Running>,
    _directory: Option<OwnDirectory>,
    /// Of the builder that declared what they run.
    builder: u32,
}

impl Processes {
    /// Starts one for each of `islands` islands, which declare `words` by this builder, of the database in a directory,
    /// or of one in memory.
    ///
    /// # Errors
    /// The first that an island reports; when a process cannot be started.
    pub(crate) fn start(
        islands: usize,
        (builder, words): (u32, String),
        settings: ProcessSettings,
        directory: Option<OwnDirectory>,
    ) -> Result<Self, Error> {
        let ProcessSettings { arguments, silence_max, link } = settings;
        let arguments = arguments.unwrap_or_else(|| env::args_os().skip(1).collect());
        let program = Program { path: OWN_PROGRAM.into(), arguments };
        let path = directory.as_ref().map(|directory| directory.path.clone());
        let starting =
            Starting { program, declaration: words, directory: path, silence_max, kind: link };
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
        let own = Self { supervised, threads, _directory: directory, builder };
        opened.iter().take(own.threads.len()).fold(started, Result::and)?;
        Ok(own)
    }

    /// The number of a procedure, and its input, to be sent to an island.
    ///
    /// # Errors
    /// Within a transaction, of another builder's procedure, or if the input is too long.
    pub(crate) fn ready<I: Arguments, A>(
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

    /// Sends an island a call that begins like this, given its number, and waits for its answer.
    ///
    /// # Errors
    /// As [`Processes::ready`]; the reason that there is no answer.
    pub(crate) fn call<I: Arguments, A: Arguments>(
        &self,
        procedure: &IslandProcedure<I, A>,
        island: usize,
        input: &I,
        begins: impl FnOnce(u64) -> Item,
    ) -> Result<A, Error> {
        let (number, input) = self.ready(procedure, island, input)?;
        let item = |call| begins(call).u32(number).rest(&input);
        let answer = self.supervised.call(island, item)?;
        decoded(&answer).ok_or_else(|| unlike(island))
    }

    /// The number of an island's process in the system, if it has one.
    pub(crate) fn process_of(&self, island: usize) -> Option<u32> {
        self.supervised.seats.get(island)?.process()
    }

    /// Closes each island, and ends its process.
    ///
    /// # Errors
    /// The first that an island reports.
    pub(crate) fn close(&mut self) -> Result<(), Error> {
        self.supervised.close();
        self.threads.drain(..).for_each(Running::join);
        self.supervised.closed()
    }
}

impl fmt::Debug for Processes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.supervised.seats.iter().map(|seat| seat.process())).finish()
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        // For errors of closing there is `close`.
        let _ = self.close();
    }
}

/// Refuses what is too long to be sent at once.
pub(crate) fn refuse_long(island: usize, bytes: usize) -> Result<(), Error> {
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
pub(crate) fn unreadable(island: usize) -> Error {
    let what = "its process answers something else than expected".to_owned();
    Error::InIsland { island, what, is_retryable: false }
}

/// An answer that is not encoded as it is decoded.
pub(crate) fn unlike(island: usize) -> Error {
    let what =
        "the transaction has committed, but its answer is not encoded as it is decoded".to_owned();
    Error::InIsland { island, what, is_retryable: false }
}
