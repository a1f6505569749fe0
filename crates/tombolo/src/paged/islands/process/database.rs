//! `PagedIslandProcesses`: a paged database whose islands are processes, as its program sees it.
//!
//! This process has no rows: it knows where keys are, sends calls there, and waits for their answers. Not here:
//! transactions over several islands (`steps.rs`), processes that end (`processes/supervisor.rs`, `settle.rs`).

use std::fmt;
use std::path::Path;
use std::time::Duration;

use tombolo_engine::clock::SystemClock;
use tombolo_engine::command_log::Arguments;
use tombolo_engine::threads::on_each;
use tombolo_storage::sync::{AtomicU32, AtomicU64};

use super::super::super::lender::Lender;
use super::PagedProcessesBuilder;
use super::settle::{Settler, UnderWay};
use super::steps::Crew;
use crate::error::Error;
use crate::islands::IslandKey;
use crate::islands::key::Router;
use crate::paged::PagedStatistics;
use crate::processes::declared::IslandProcedure;
use crate::processes::own::{OwnDirectory, Processes, unreadable};
use crate::processes::supervisor::Supervised;
use crate::processes::wire::{self, In, Item};

/// How long an island has to answer what it need not wait for.
const ANSWER_MAX: Duration = Duration::from_secs(1);

/// A paged database of several islands, each in a process of its own; see
/// [`PagedIslandsBuilder::processes`](crate::PagedIslandsBuilder::processes). If a process ends, however it does, calls
/// of its island are refused ([`Error::IslandRestarts`], to be retried) until it has been started again and has
/// recovered; the other islands go on.
///
/// What [`PagedIslands`](crate::PagedIslands) has and this has not: closures of the calling process, savepoints,
/// loading, backups while it runs. A database is opened either way.
pub struct PagedIslandProcesses {
    // Before the processes: its thread calls them.
    settler: Settler,
    pub(super) processes: Processes,
    router: Router,
    pub(super) crews: Lender<Crew>,
    /// How many crews there were.
    pub(super) seats: AtomicU32,
    /// Of each island: which opening this database's numbers are of.
    pub(super) openings: Vec<u32>,
    pub(super) numbers: AtomicU64,
    pub(super) under_way: UnderWay,
    /// Intervals for which a lock is waited for by default.
    pub(super) lock_waits: u32,
    pub(super) clock: SystemClock,
}

impl PagedProcessesBuilder {
    /// Opens the database in `directory`, as [`PagedIslandsBuilder::open`](crate::PagedIslandsBuilder::open) does, and
    /// starts a process for each island. In such a process it does not return.
    ///
    /// # Errors
    /// As there; [`Error::InUse`] also when another program has the database open; those of binding procedures.
    pub fn open(self, directory: impl AsRef<Path>) -> Result<PagedIslandProcesses, Error> {
        let own = self.become_island();
        own.settings.check()?;
        let directory = OwnDirectory::take(directory.as_ref())?;
        // Whatever is missing is made, whatever does not suit is refused, and what is prepared is decided.
        let opened = directory.open(|path| own.islands.clone().open(path))?;
        opened.forget_decisions()?;
        let (openings, lock_waits) = (opened.openings.clone(), opened.lock_waits);
        opened.close()?;
        let (declared, islands) = ((own.declared.builder, own.words()), own.islands.islands);
        let processes = Processes::start(islands, declared, own.settings, Some(directory))?;
        let under_way = UnderWay::default();
        Ok(PagedIslandProcesses {
            settler: Settler::start(&processes.supervised, under_way.clone())?,
            processes,
            router: Router { keys: own.islands.keys, islands },
            crews: Lender::new(own.islands.paged.sessions_max),
            seats: AtomicU32::new(0),
            openings,
            numbers: AtomicU64::new(1),
            under_way,
            lock_waits,
            clock: SystemClock::new(),
        })
    }
}

impl PagedIslandProcesses {
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
    /// As [`PagedIslands::island_of`](crate::PagedIslands::island_of).
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

    /// Runs a procedure as a transaction on the island of a key, and blocks until its answer arrives, which is durable
    /// then.
    ///
    /// # Errors
    /// The reason that there is no answer; see [`Error`]. [`Error::IslandRestarts`]: it was not run, because the
    /// island's process is being started again. [`Error::AnswerLost`]: the process ended while the call was under way,
    /// so it may have committed.
    pub fn call<I: Arguments, A: Arguments>(
        &self,
        procedure: &IslandProcedure<I, A>,
        key: &(impl IslandKey + ?Sized),
        input: &I,
    ) -> Result<A, Error> {
        let begins = |call| Item::new(wire::CALL).u64(call);
        self.processes.call(procedure, self.island_of(key)?, input, begins)
    }

    /// The counters of each island since its process was started. An island that does not answer within a second has
    /// an error instead: its process is being started again.
    pub fn statistics(&self) -> Vec<Result<PagedStatistics, Error>> {
        let seats = self.supervised().seats.iter().enumerate();
        let of = seats.map(|(island, seat)| {
            let answer = seat.ask(wire::STATISTICS, ANSWER_MAX)?;
            decode_statistics(&answer).ok_or_else(|| unreadable(island))
        });
        of.collect()
    }

    /// Makes a checkpoint of each island; see [`PagedDatabase::checkpoint`](crate::PagedDatabase::checkpoint).
    ///
    /// # Errors
    /// As there, of the first island that has one; [`Error::IslandRestarts`], [`Error::AnswerLost`].
    pub fn checkpoint(&self) -> Result<(), Error> {
        let item = |call| Item::new(wire::CHECKPOINT).u64(call).end();
        let all = on_each(&self.supervised().seats, |seat| seat.call(item).map(drop));
        all.into_iter().collect()
    }

    /// Closes each island, and ends its process.
    ///
    /// # Errors
    /// The first that an island reports.
    pub fn close(mut self) -> Result<(), Error> {
        self.settler.end();
        self.processes.close()
    }
}

impl Drop for PagedIslandProcesses {
    fn drop(&mut self) {
        self.settler.end();
        // For errors of closing there is `close`.
        let _ = self.processes.close();
    }
}

impl fmt::Debug for PagedIslandProcesses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PagedIslandProcesses")
            .field("processes", &self.processes)
            .finish_non_exhaustive()
    }
}

/// Statistics as bytes: the numbers, then the text.
pub(super) fn encode_statistics(statistics: &PagedStatistics) -> Vec<u8> {
    let mut numbers = statistics.clone();
    let failure = statistics.checkpoint_failure.as_ref();
    let failure = failure.map(|text| [b"!", text.as_bytes()].concat());
    let item = Item::new(wire::STATISTICS);
    let item = numbers.numbers().into_iter().fold(item, |item, number| item.u64(*number));
    item.rest(&failure.unwrap_or_default())
}

fn decode_statistics(bytes: &[u8]) -> Option<PagedStatistics> {
    let (mut from, mut statistics) = (In(bytes), PagedStatistics::default());
    from.u8().filter(|kind| *kind == wire::STATISTICS)?;
    for number in statistics.numbers() {
        *number = from.u64()?;
    }
    let text = from.0.split_first();
    statistics.checkpoint_failure =
        text.map(|(_, words)| String::from_utf8_lossy(words).into_owned());
    Some(statistics)
}
