//! The plan of a run: its settings, parsed and checked against each other.
//!
//! Rules that concern several settings are checked here, before anything starts: what the
//! profile can do, where files may lie, whether memory suffices. Not here: single settings' limits
//! (engine `settings/`), running.

mod counter;
pub mod estimate;
mod options;
mod part;
mod planned;
pub mod profiles;
mod settings;

use std::path::PathBuf;
use std::time::Duration;

use tombolo_engine::checkpointing::image_settings;
use tombolo_engine::pipeline;
use tombolo_engine::rng::entropy;
use tombolo_engine::threads;
use tombolo_storage::lock::LockSettings;
use tombolo_storage::log::{Durability, LogSettings};
use tombolo_storage::memory::Limits;
use tombolo_storage::memory::image::ImageSettings;
use tombolo_storage::paged::store::{Isolation, PagedSettings};
use tombolo_storage::profile::{Memory, MemoryProfile};
use tombolo_storage::value_log;

use crate::failure::Failure;
use crate::files::{Medium, Place, verify_place};
use crate::settings::{self as keys, Setting, Settings, Source};
use crate::workload::{AnyWorkload, WORKLOADS, WorkloadInfo};
use crate::{host, numbers};

pub use counter::Counter;
pub(crate) use counter::own_file;
pub use options::Options;
pub use part::Part;
use settings::{
    batch_of, checkpoint_log_bytes, data_of, durability_of, isolation_of, latency_transactions,
    limits, load_threads, lock_settings, log_settings, profile_named, rate_of, verify_profile,
};

/// Transactions before anything is measured.
pub const WARM_UP: usize = 2_000;
/// The most calls under way in an open loop; what is due beyond them begins late.
const OPEN_CALLS_MAX: usize = 16_384;

/// When the throughput pass ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// After this much measured time.
    Time(Duration),
    /// After this many transactions.
    Transactions(u64),
}

/// What a thread of a paged store is expected to execute in a second, at most: how much a timed run
/// may add.
const PAGED_TPS_EXPECTED: f64 = 60_000.0;
/// The most transactions a timed run gets room for beforehand, since a pool is paid for when it is
/// made; what a longer run adds goes to the disk.
const TIMED_TRANSACTIONS_MAX: u64 = 1_500_000;
/// The most calls under way: their completion times are kept.
const CALLERS_MAX: u64 = 1_000_000;

/// The plan of a run: its settings, parsed and checked against each other.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The workload at its scale.
    pub workload: AnyWorkload,
    /// The profile's name.
    pub profile: String,
    /// The durability of committed transactions.
    pub durability: Durability,
    /// Where the files go, if it was said.
    pub data: Option<PathBuf>,
    /// A directory with the database, saved, that is opened for a count instead of loading one.
    pub saved: Option<PathBuf>,
    /// A part of what makes profile `memory` durable, with which it is measured alone, and a
    /// directory in which its log may make one of its own.
    pub part: Option<(Part, PathBuf)>,
    /// Whether they may go where nothing is kept.
    pub volatile_ok: bool,
    /// Whether a directory that the run made up stays when it is over.
    pub keep_fresh: bool,
    /// Whether the database in `data` is opened instead of loading one.
    pub resume: bool,
    /// Where calls that were answered are noted.
    pub acks: Option<PathBuf>,
    /// Threads that execute.
    pub threads: usize,
    /// How often a transaction that gave way is tried again.
    pub retries_max: u64,
    /// Transactions that are looked ahead at, where it was said; else as many as pay.
    pub locate_ahead: Option<usize>,
    /// Bytes of the buffer pool, where it was said.
    pub pool_bytes: Option<u64>,
    /// Bytes of log after which a paged store makes a checkpoint.
    pub checkpoint_log_bytes: u64,
    /// Bytes of the log's buffer.
    pub log_buffer_bytes: usize,
    /// The lock table.
    pub locks: LockSettings,
    /// The isolation of transactions, where there are locks.
    pub isolation: Isolation,
    /// When the throughput pass ends.
    pub bound: Bound,
    /// Callers.
    pub clients: usize,
    /// Calls each of them has under way.
    pub in_flight: usize,
    /// Calls per second in an open loop; in a closed one none.
    pub rate: Option<u64>,
    /// Calls under way in all, at least one for each thread.
    pub callers: usize,
    /// The pipeline's numbers, where there is one.
    pub pipeline: pipeline::Options,
    /// The value log's numbers, where there is one.
    pub log: value_log::LogSettings,
    /// The numbers of the image, if checkpoints are written.
    pub image: Option<ImageSettings>,
    /// Threads that write them.
    pub checkpoint_threads: usize,
    /// Whether another process writes them.
    pub remote_checkpoints: bool,
    /// The memory limits of a memory store.
    pub limits: Limits,
    /// Transactions of the latency pass.
    pub latency_transactions: usize,
    /// Inputs made at a time.
    pub batch: usize,
    /// Whether memory for a batch's rows is taken beforehand.
    pub reserve: bool,
    /// Threads that make the initial data.
    pub load_threads: usize,
    /// Memory the process may take.
    pub memory_limit: Option<u64>,
    /// The seed.
    pub seed: u64,
    /// The counter of instructions.
    pub counter: String,
    /// Transactions in which each kind is counted.
    pub counted: usize,
    /// How often instructions are counted.
    pub repeat: u64,
}

/// A durability, as settings and results have it.
pub const fn durability_name(durability: Durability) -> &'static str {
    match durability {
        Durability::None => "none",
        Durability::Async => "async",
        Durability::Group => "group",
        Durability::Sync => "sync",
    }
}

impl Plan {
    /// Reads the settings of a run of TPC-C.
    ///
    /// # Errors
    /// As [`Plan::of`].
    pub fn new(settings: &Settings) -> Result<Self, Failure> {
        Self::of(&WORKLOADS[0], settings)
    }

    /// Reads the settings of a run of `workload`.
    ///
    /// # Errors
    /// When settings do not fit each other or ask for what does not exist yet, with the reason.
    pub fn of(workload: &WorkloadInfo, settings: &Settings) -> Result<Self, Failure> {
        let info = profile_named(settings.word(&keys::PROFILE))?;
        let durability = durability_of(info, settings)?;
        verify_profile(info, settings)?;
        verify_checkpoints(settings)?;
        let rate = rate_of(info, settings)?;
        let clients = settings.count(&keys::CLIENTS);
        let in_flight = settings.count(&keys::IN_FLIGHT);
        let threads = settings.count(&keys::THREADS);
        // A thread without a caller would have nothing to do.
        let callers = clients.saturating_mul(in_flight).max(threads);
        if callers > CALLERS_MAX {
            return Err(Failure::usage(format!(
                "{clients} clients with {in_flight} calls each are more than {CALLERS_MAX} calls \
                 under way: lower --clients or --in-flight"
            )));
        }
        let bound = match settings.number(&keys::TRANSACTIONS) {
            Some(transactions) => Bound::Transactions(transactions),
            None => Bound::Time(settings.duration(&keys::SECONDS)),
        };
        let count = |setting| settings.count(setting) as usize;
        Ok(Self {
            workload: (workload.planned)(settings)?,
            profile: info.name.to_owned(),
            durability,
            data: data_of(settings),
            saved: None,
            part: None,
            volatile_ok: false,
            keep_fresh: true,
            resume: false,
            acks: None,
            threads: threads as usize,
            retries_max: settings.count(&keys::RETRIES_MAX),
            locate_ahead: settings.number(&keys::LOCATE_AHEAD).map(|n| n as usize),
            pool_bytes: settings.number(&keys::POOL_BYTES),
            checkpoint_log_bytes: checkpoint_log_bytes(settings),
            log_buffer_bytes: count(&keys::LOG_BUFFER_BYTES),
            locks: lock_settings(settings),
            isolation: isolation_of(settings),
            bound,
            clients: clients as usize,
            in_flight: in_flight as usize,
            rate,
            callers: callers as usize,
            pipeline: pipeline::Options::with_input_stages(
                settings,
                threads::available(),
                count(&keys::INPUT_THREADS),
            ),
            log: log_settings(settings)?,
            image: image_settings(settings)
                .filter(|_| info.name == Memory::NAME && durability != Durability::None),
            checkpoint_threads: count(&keys::CHECKPOINT_THREADS),
            remote_checkpoints: settings.word(&keys::CHECKPOINT_PROCESS) == "other",
            limits: limits(settings),
            latency_transactions: latency_transactions(settings, bound),
            batch: batch_of(settings, rate, bound),
            reserve: settings.word(&keys::RESERVE) == "yes",
            load_threads: load_threads(settings),
            memory_limit: settings.number(&keys::MEMORY_LIMIT),
            seed: settings.count(&keys::SEED),
            counter: settings.word(&keys::COUNTER).to_owned(),
            counted: count(&keys::COUNTED),
            repeat: settings.count(&keys::REPEAT),
        })
    }

    /// The most transactions a run can be expected to execute.
    fn transactions_expected(&self) -> u64 {
        let measured = match self.bound {
            Bound::Transactions(transactions) => transactions,
            Bound::Time(time) => {
                let by_threads = PAGED_TPS_EXPECTED * self.threads as f64;
                ((time.as_secs_f64() * by_threads) as u64).min(TIMED_TRANSACTIONS_MAX)
            }
        };
        measured + (WARM_UP + self.latency_transactions + self.callers) as u64
    }

    /// Bytes of the buffer pool: as given, or enough for all of the data, or what memory there is.
    fn pool(&self) -> u64 {
        let wanted =
            self.pool_bytes.unwrap_or_else(|| self.page_bytes(self.transactions_expected()));
        let available = self.memory_limit.unwrap_or(u64::MAX).min(host::available_bytes());
        match (self.pool_bytes, self.bound) {
            // Pages that do not fit go to the disk, or a run ends when memory is used up.
            (None, Bound::Time(_)) => wanted.min(available / 4 * 3),
            (None, _) if self.keeps_files() => wanted.min(available / 4 * 3),
            _ => wanted,
        }
    }

    /// The options of the database: in memory, unless a disk is put in its place.
    pub fn options(&self) -> Options {
        let log = LogSettings::default();
        let paged = PagedSettings {
            pool_bytes: self.pool() as usize,
            locks: self.locks,
            isolation: self.isolation,
            log: LogSettings {
                buffer_bytes: self.log_buffer_bytes,
                durability: self.durability,
                salt: entropy(),
                segment_bytes: self.log.segment_bytes.min(log.segment_bytes),
                ..log
            },
            checkpoint_log_bytes: self.checkpoint_log_bytes,
            ..PagedSettings::default()
        };
        Options {
            paged,
            limits: self.limits,
            threads: self.threads,
            retries_max: self.retries_max,
            locate_ahead: self.locate_ahead,
            acks: self.acks.clone(),
            ..Options::default()
        }
    }

    /// Whether transactions for which there is no memory are an outcome: of a budget that was given,
    /// and not of a machine that has no more.
    pub fn outlives_no_space(&self) -> bool {
        self.is_piped() && self.limits.memory_bytes_max < u64::MAX
    }

    /// Whether the run writes files.
    pub fn keeps_files(&self) -> bool {
        self.data.is_some() || self.durability != Durability::None
    }

    /// Whether its transactions go through the pipeline.
    pub fn is_piped(&self) -> bool {
        self.profile == Memory::NAME
    }

    /// How many calls are under way when a pipeline's callers are measured.
    pub(crate) fn calls_under_way(&self) -> (usize, usize) {
        match self.rate {
            Some(_) => (OPEN_CALLS_MAX, 1),
            None => (self.clients, self.in_flight),
        }
    }

    /// Whether the order of transactions is that of the inputs, and with it the rows. Threads leave
    /// it open; callers of a pipeline do not, but it is open which of them makes which call, and
    /// where calls are numbered that is in the rows.
    pub fn order_is_settled(&self) -> bool {
        self.threads == 1 && (self.acks.is_none() || self.callers == 1)
    }

    /// The durability, as results have it.
    pub fn durability_name(&self) -> &'static str {
        durability_name(self.durability)
    }

    /// Makes the directory of the files, if there will be any.
    ///
    /// # Errors
    /// As [`Place::create`].
    pub fn make_place(&self) -> Result<Option<Place>, Failure> {
        if let Some(path) = self.data.as_ref().filter(|_| self.resume) {
            return Place::existing(path).map(Some);
        }
        let create = || Place::create(self.data.as_deref(), self.medium());
        self.keeps_files().then(create).transpose()
    }

    /// Which file systems its files may lie on.
    fn medium(&self) -> Medium {
        Medium::lasting_if(self.durability != Durability::None && !self.volatile_ok)
    }

    /// Notes for readers of the result.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if profiles::has_log(&self.profile) && self.durability == Durability::None {
            notes.push("log kept in memory".to_owned());
        }
        let [first @ .., last] = self.workload.unmeasured() else { return notes };
        if !profiles::runs_all_natively(&self.profile) {
            notes.push(format!(
                "on {} {} and {last} run through the run-time interface: their costs are not those of \
                 the profile",
                self.profile,
                first.join(", ")
            ));
        }
        notes
    }

    /// Refuses a run that needs a counter the machine does not have, more memory, or another
    /// directory.
    ///
    /// # Errors
    /// With what to install, the size it would need, or what is wrong with the directory.
    pub fn verify_machine(&self) -> Result<(), Failure> {
        Counter::choose(&self.counter)?;
        self.verify_calls()?;
        if self.resume {
            return Ok(());
        }
        if self.keeps_files() {
            verify_place(self.data.as_deref(), self.medium())?;
        }
        let batch = self.batch.max(self.latency_transactions + self.callers) as u64;
        let transactions = match self.bound {
            Bound::Transactions(transactions) => transactions,
            Bound::Time(_) => 0,
        };
        let transactions = transactions + (self.latency_transactions + self.callers) as u64;
        let pool = if profiles::has_pages(&self.profile) { self.pool() } else { 0 };
        let needed = self.bytes(transactions, batch).saturating_add(pool);
        verify_memory(needed, self.memory_limit, (self.workload.info().settings)()[0])
    }

    /// Refuses what needs a log that there is not.
    fn verify_calls(&self) -> Result<(), Failure> {
        let is_durable = self.durability != Durability::None;
        let can_be_saved = profiles::can_be_saved(&self.profile);
        let comes_back = is_durable && (self.is_piped() || can_be_saved);
        // One that was closed comes back without a log, too.
        let can_be_resumed = comes_back || can_be_saved;
        let refused = |flag: &str| {
            Err(Failure::usage(format!(
                "{flag} needs a database that comes back: use --durability group, with --profile {} or conventional",
                Memory::NAME
            )))
        };
        if self.acks.is_some() && self.rate.is_some() {
            return Err(Failure::usage(
                "--acks numbers the calls of each client, and an open loop has no clients: leave \
                 --loop open out",
            ));
        }
        match (self.acks.is_some(), self.resume) {
            (true, _) if !comes_back => refused("--acks"),
            (_, true) if !can_be_resumed => refused("--resume"),
            (_, true) if self.data.is_none() => {
                Err(Failure::usage("--resume opens a database: say which with --data DIR"))
            }
            _ => Ok(()),
        }
    }
}

/// Refuses checkpoints by another process that would need this one's rows.
fn verify_checkpoints(settings: &Settings) -> Result<(), Failure> {
    let is_apart = settings.word(&keys::CHECKPOINT_PROCESS) == "other";
    match is_apart && settings.word(&keys::CHECKPOINT_COPY) == "none" {
        true => Err(Failure::usage(
            "--checkpoint-copy none copies the rows of this process, and --checkpoint-process other \
             has checkpoints written by another one: use --checkpoint-copy memory, or \
             --checkpoint-process own",
        )),
        false => Ok(()),
    }
}

/// Refuses what needs more memory than there is, or than `limit` allows; `scale` says how large the database is.
///
/// # Errors
/// With the size it would need.
pub fn verify_memory(needed: u64, limit: Option<u64>, scale: &Setting) -> Result<(), Failure> {
    let available = limit.unwrap_or(u64::MAX).min(host::available_bytes());
    if needed <= available {
        return Ok(());
    }
    Err(Failure::environment(format!(
        "this would need about {} of memory, and {} are available: give fewer --{} or --transactions",
        numbers::size(needed),
        numbers::size(available),
        scale.flag()
    )))
}

/// Fills in what depends on the machine or on other settings, so that a result says what was in effect.
pub fn make_effective(settings: &mut Settings) {
    let threads = settings.number(&keys::LOAD_THREADS).is_none().then(threads::available);
    let threads = threads.map(|threads| (&keys::LOAD_THREADS, threads.to_string()));
    // Another process cannot copy this one's rows; a copy that is given is stronger, and refused.
    let is_remote = settings.word(&keys::CHECKPOINT_PROCESS) == "other";
    let copy = is_remote.then(|| (&keys::CHECKPOINT_COPY, "memory".to_owned()));
    for (setting, value) in threads.into_iter().chain(copy) {
        let set = settings.set(setting.name, &value, Source::Default);
        debug_assert!(set.is_ok(), "{set:?}");
    }
}
