//! What a run does: its settings, read and found to fit each other.
//!
//! Rules that concern several settings are checked here, before anything starts: what the
//! profile can do, where files may lie, whether memory suffices. Not here: single settings' limits
//! (engine `settings.rs`), running.

use std::path::PathBuf;
use std::time::Duration;

use tombolo_engine::checkpointing::image_settings;
use tombolo_engine::command_log;
use tombolo_engine::pipeline;
use tombolo_engine::settings::{self, Settings, Source};
use tombolo_engine::threads;
use tombolo_storage::lock::LockSettings;
use tombolo_storage::log::{Durability, LogSettings};
use tombolo_storage::memory::Limits;
use tombolo_storage::memory::image::ImageSettings;
use tombolo_storage::paged::store::PagedSettings;
use tombolo_storage::profile::{Memory, MemoryProfile, PROFILES, ProfileInfo};
use tombolo_storage::value_log::{self, LogKind};

use super::place::{self, Place};
use super::planned::{PlannedWorkload, debit_credit_scale, mix_named};
use crate::counting::Counter;
use crate::drive::Bound;
use crate::durable::OPEN_CALLS_MAX;
use crate::failure::Failure;
use crate::instance::{self, Options, Part};
use crate::workload::debit_credit;
use crate::workload::tpcc::input::Mix;
use crate::{host, report};

/// What a thread of a paged store is expected to execute in a second, at most: how much a timed run
/// may add.
const PAGED_TPS_EXPECTED: f64 = 60_000.0;
/// The most transactions a timed run gets room for beforehand, since a pool is paid for when it is
/// made; what a longer run adds goes to the disk.
const TIMED_TRANSACTIONS_MAX: u64 = 1_500_000;
/// The most calls under way: their completion times are kept.
const CALLERS_MAX: u64 = 1_000_000;

/// The most inputs that are made at a time for an open loop.
const OPEN_BATCH_MAX: u64 = 500_000;

/// Segments of a log are whole blocks.
const LOG_BLOCK_BYTES: u64 = 4_096;

/// What a run does, its settings read and found to fit each other.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What runs.
    pub workload: PlannedWorkload,
    /// The profile's name.
    pub profile: String,
    /// What a committed transaction survives.
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
    /// Bytes of the log's buffer.
    pub log_buffer_bytes: usize,
    /// The lock table.
    pub locks: LockSettings,
    /// The scale of TPC-C.
    pub warehouses: i32,
    /// Its mix.
    pub mix: Mix,
    /// The scale of debit-credit.
    pub debit_credit: debit_credit::Scale,
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
    /// What a memory store may take.
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
    /// What counts instructions.
    pub counter: String,
    /// Transactions in which each kind is counted.
    pub counted: usize,
    /// How often instructions are counted.
    pub repeat: u64,
}

impl Plan {
    /// Reads the settings of a run of TPC-C.
    ///
    /// # Errors
    /// As [`Plan::of`].
    pub fn new(settings: &Settings) -> Result<Self, Failure> {
        Self::of(PlannedWorkload::Tpcc, settings)
    }

    /// Reads the settings of a run of `workload`.
    ///
    /// # Errors
    /// When settings do not fit each other or ask for what does not exist yet, with the reason.
    pub fn of(workload: PlannedWorkload, settings: &Settings) -> Result<Self, Failure> {
        let info = profile_named(settings.word(&settings::PROFILE))?;
        let durability = durability_of(info, settings)?;
        verify_profile(info, settings)?;
        let rate = rate_of(info, settings)?;
        let clients = settings.count(&settings::CLIENTS);
        let in_flight = settings.count(&settings::IN_FLIGHT);
        let threads = settings.count(&settings::THREADS);
        // A thread without a caller would have nothing to do.
        let callers = clients.saturating_mul(in_flight).max(threads);
        if callers > CALLERS_MAX {
            return Err(Failure::usage(format!(
                "{clients} clients with {in_flight} calls each are more than {CALLERS_MAX} calls \
                 under way: lower --clients or --in-flight"
            )));
        }
        let bound = match settings.number(&settings::TRANSACTIONS) {
            Some(transactions) => Bound::Transactions(transactions),
            None => Bound::Time(settings.duration(&settings::SECONDS)),
        };
        let count = |setting| settings.count(setting) as usize;
        Ok(Self {
            workload,
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
            retries_max: settings.count(&settings::RETRIES_MAX),
            locate_ahead: settings.number(&settings::LOCATE_AHEAD).map(|n| n as usize),
            pool_bytes: settings.number(&settings::POOL_BYTES),
            log_buffer_bytes: count(&settings::LOG_BUFFER_BYTES),
            locks: lock_settings(settings),
            warehouses: settings.count(&settings::WAREHOUSES) as i32,
            mix: mix_named(settings.word(&settings::MIX)),
            debit_credit: debit_credit_scale(settings)?,
            bound,
            clients: clients as usize,
            in_flight: in_flight as usize,
            rate,
            callers: callers as usize,
            pipeline: pipeline::Options::new(settings, threads::available()),
            log: log_settings(settings)?,
            image: image_settings(settings)
                .filter(|_| info.name == Memory::NAME && durability != Durability::None),
            checkpoint_threads: count(&settings::CHECKPOINT_THREADS),
            remote_checkpoints: settings.word(&settings::CHECKPOINT_PROCESS) == "other",
            limits: limits(settings),
            latency_transactions: count(&settings::LATENCY_TRANSACTIONS),
            batch: batch_of(settings, rate, bound),
            reserve: settings.word(&settings::RESERVE) == "yes",
            load_threads: load_threads(settings),
            memory_limit: settings.number(&settings::MEMORY_LIMIT),
            seed: settings.count(&settings::SEED),
            counter: settings.word(&settings::COUNTER).to_owned(),
            counted: count(&settings::COUNTED),
            repeat: settings.count(&settings::REPEAT),
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
        measured + (super::WARM_UP + self.latency_transactions + self.callers) as u64
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

    /// What the database is made with: in memory, unless a disk is put in its place.
    pub fn options(&self) -> Options {
        let paged = PagedSettings {
            pool_bytes: self.pool() as usize,
            locks: self.locks,
            log: LogSettings {
                buffer_bytes: self.log_buffer_bytes,
                durability: self.durability,
                ..LogSettings::default()
            },
            ..PagedSettings::default()
        };
        Options {
            paged,
            limits: self.limits,
            threads: self.threads,
            retries_max: self.retries_max,
            locate_ahead: self.locate_ahead,
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
        if self.is_piped() {
            return match self.durability {
                Durability::None => "none",
                Durability::Async => "async",
                Durability::Group => "group",
                Durability::Sync => "sync",
            };
        }
        match self.durability {
            Durability::None => "none",
            Durability::Async => "async, no restart",
            Durability::Group => "group, no restart",
            Durability::Sync => "sync, no restart",
        }
    }

    /// Makes the directory of the files, if there will be any.
    ///
    /// # Errors
    /// As [`Place::create`].
    pub fn make_place(&self) -> Result<Option<Place>, Failure> {
        if let Some(path) = self.data.as_ref().filter(|_| self.resume) {
            return Place::existing(path).map(Some);
        }
        let durable = self.durability != Durability::None;
        let create = || Place::create(self.data.as_deref(), durable, self.volatile_ok);
        self.keeps_files().then(create).transpose()
    }

    /// What a reader of the result should know.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let has_disk_log =
            PROFILES.iter().any(|info| info.name == self.profile && info.switches[1]);
        if has_disk_log && self.durability == Durability::None {
            notes.push("log kept in memory".to_owned());
        }
        if self.durability != Durability::None && !self.is_piped() {
            notes.push(
                "there is no restart yet: only a run that ends leaves a database that opens"
                    .to_owned(),
            );
        }
        let is_standard = self.workload == PlannedWorkload::Tpcc && self.mix == Mix::Standard;
        if is_standard && !instance::runs_all_natively(&self.profile) {
            notes.push(format!(
                "on {} order_status, delivery and stock_level run through the run-time interface: \
                 their costs are not those of the profile",
                self.profile
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
            let durable = self.durability != Durability::None;
            place::verify(self.data.as_deref(), durable, self.volatile_ok)?;
        }
        let batch = self.batch.max(self.latency_transactions + self.callers) as u64;
        let transactions = match self.bound {
            Bound::Transactions(transactions) => transactions,
            Bound::Time(_) => 0,
        };
        let transactions = transactions + (self.latency_transactions + self.callers) as u64;
        let pool = if instance::has_pages(&self.profile) { self.pool() } else { 0 };
        let needed = self.bytes(transactions, batch).saturating_add(pool);
        verify_memory(needed, self.memory_limit)
    }

    /// Refuses what needs a log that there is not.
    fn verify_calls(&self) -> Result<(), Failure> {
        let is_logged = self.is_piped() && self.durability != Durability::None;
        let refused = |flag: &str| {
            Err(Failure::usage(format!(
                "{flag} needs a database that comes back: use --profile {} with --durability group",
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
            (true, _) if !is_logged => refused("--acks"),
            (_, true) if !is_logged => refused("--resume"),
            (_, true) if self.data.is_none() => {
                Err(Failure::usage("--resume opens a database: say which with --data DIR"))
            }
            _ => Ok(()),
        }
    }
}

/// Refuses what needs more memory than there is, or than `limit` allows.
///
/// # Errors
/// With the size it would need.
pub fn verify_memory(needed: u64, limit: Option<u64>) -> Result<(), Failure> {
    let available = limit.unwrap_or(u64::MAX).min(host::available_bytes());
    if needed <= available {
        return Ok(());
    }
    Err(Failure::environment(format!(
        "this would need about {} of memory, and {} are available: give fewer --warehouses, \
         --branches or --transactions",
        report::size(needed),
        report::size(available)
    )))
}

fn profile_named(name: &str) -> Result<&'static ProfileInfo, Failure> {
    let known = PROFILES.iter().find(|info| info.name == name);
    known.ok_or_else(|| {
        Failure::usage(format!("profile {name} is not known: see tombolo run --list-profiles"))
    })
}

/// The durability that is asked for, or the most the profile has.
fn durability_of(info: &ProfileInfo, settings: &Settings) -> Result<Durability, Failure> {
    let wanted = match settings.word(&settings::DURABILITY) {
        "" => info.durability[0],
        wanted => wanted,
    };
    if !info.durability.contains(&wanted) {
        return Err(Failure::usage(format!(
            "profile {} has no log on disk, so durability {wanted} cannot be had: use \
             --durability {}",
            info.name,
            info.durability.join(" or ")
        )));
    }
    Ok(match wanted {
        "async" => Durability::Async,
        "group" => Durability::Group,
        "sync" => Durability::Sync,
        _ => Durability::None,
    })
}

fn data_of(settings: &Settings) -> Option<PathBuf> {
    match settings.word(&settings::DATA) {
        "" => None,
        path => Some(path.into()),
    }
}

fn lock_settings(settings: &Settings) -> LockSettings {
    let count = |setting| settings.count(setting);
    let small = |setting| u16::try_from(count(setting)).unwrap_or(u16::MAX);
    let wait = settings.duration(&settings::LOCK_WAIT_MAX);
    let interval = wait.min(Duration::from_millis(100)).max(Duration::from_millis(1));
    LockSettings {
        buckets: count(&settings::LOCK_BUCKETS) as u32,
        requests_max: count(&settings::LOCKS_MAX) as u32,
        rows_per_page_max: small(&settings::ROW_LOCKS_PER_PAGE_MAX),
        pages_per_store_max: small(&settings::PAGE_LOCKS_PER_STORE_MAX),
        wait_interval_ms: interval.as_millis() as u32,
        wait_intervals_max: wait.as_nanos().div_ceil(interval.as_nanos()) as u32,
        ..LockSettings::default()
    }
}

/// Refuses what the profile cannot do, with the reason.
fn verify_profile(info: &ProfileInfo, settings: &Settings) -> Result<(), Failure> {
    let threads = settings.count(&settings::THREADS);
    if threads > info.threads_max as u64 {
        let [_, _, _, _, locks, latches, ..] = info.switches;
        let why = match (locks, latches) {
            (false, false) => "has no locks and no latches, so it runs on one thread".to_owned(),
            (false, true) => "has no locks, so it runs on one thread".to_owned(),
            (true, false) => "has no latches, so it runs on one thread".to_owned(),
            (true, true) => format!("has sessions for {} threads", info.threads_max),
        };
        return Err(Failure::usage(format!(
            "profile {} {why}: use --threads {} instead of {threads}",
            info.name, info.threads_max
        )));
    }
    if command_log::log_kind(settings) == LogKind::Command {
        return Err(Failure::usage(
            "a run writes a log of values: leave --log command out (a program of your own can have one, with \
             tombolo_engine::command_log)",
        ));
    }
    let islands = settings.count(&settings::ISLANDS);
    if islands > 1 {
        return Err(Failure::usage(format!(
            "{islands} islands cannot be deployed, this version has one: use --islands 1"
        )));
    }
    let is_logged = info.name == Memory::NAME;
    if data_of(settings).is_some() && is_logged && settings.word(&settings::DURABILITY) == "none" {
        return Err(Failure::usage(
            "without a log nothing is kept: leave --data out, or use --durability group",
        ));
    }
    if data_of(settings).is_some() && !is_logged && !instance::can_be_saved(info.name) {
        return Err(Failure::usage(format!(
            "profile {} keeps no files that could be opened again: leave --data out",
            info.name
        )));
    }
    Ok(())
}

/// How many calls are made a second, if they begin at their times.
fn rate_of(info: &ProfileInfo, settings: &Settings) -> Result<Option<u64>, Failure> {
    let rate = settings.number(&settings::RATE);
    match (settings.word(&settings::LOOP), rate) {
        ("closed", None) => return Ok(None),
        ("closed", Some(_)) => {
            return Err(Failure::usage(
                "a closed loop makes the next call when one is answered: leave --rate out, or use \
                 --loop open",
            ));
        }
        (_, None) => {
            return Err(Failure::usage(
                "in an open loop calls begin at their times: say with --rate how many a second",
            ));
        }
        _ => {}
    }
    if info.name != Memory::NAME {
        return Err(Failure::usage(format!(
            "profile {} executes its inputs one after the other, without callers: use --loop closed, \
             or --profile {}",
            info.name,
            Memory::NAME
        )));
    }
    for setting in [&settings::CLIENTS, &settings::IN_FLIGHT] {
        if settings.source(setting) == Source::Flag {
            return Err(Failure::usage(format!(
                "in an open loop calls do not wait for each other: leave --{} out",
                setting.flag()
            )));
        }
    }
    Ok(rate)
}

/// How many inputs are made at a time. An open loop is not broken off to make some, if it can be.
fn batch_of(settings: &Settings, rate: Option<u64>, bound: Bound) -> usize {
    let batch = settings.count(&settings::BATCH);
    let calls = match (rate, bound) {
        (None, _) => 0,
        (Some(_), Bound::Transactions(transactions)) => transactions,
        (Some(rate), Bound::Time(time)) => (rate as f64 * time.as_secs_f64() * 1.01) as u64,
    };
    batch.max(calls.min(OPEN_BATCH_MAX)) as usize
}

fn log_settings(settings: &Settings) -> Result<value_log::LogSettings, Failure> {
    let segment_bytes = settings.count(&settings::LOG_SEGMENT_BYTES);
    let log_bytes_max = settings.number(&settings::LOG_BYTES_MAX).unwrap_or(u64::MAX);
    if log_bytes_max < 2 * segment_bytes {
        return Err(Failure::usage(format!(
            "a log of at most {log_bytes_max} bytes has no room for two segments of \
             {segment_bytes}: raise --log-bytes-max or lower --log-segment-bytes"
        )));
    }
    let segment_bytes = segment_bytes.next_multiple_of(LOG_BLOCK_BYTES);
    let default = value_log::LogSettings::default();
    Ok(value_log::LogSettings { segment_bytes, log_bytes_max, ..default })
}

fn limits(settings: &Settings) -> Limits {
    Limits {
        memory_bytes_max: settings.number(&settings::MEMORY_BYTES_MAX).unwrap_or(u64::MAX),
        snapshot_bytes_max: settings.count(&settings::SNAPSHOT_BYTES_MAX),
        ..Limits::default()
    }
}

fn load_threads(settings: &Settings) -> usize {
    let threads = settings.number(&settings::LOAD_THREADS);
    threads.map_or_else(threads::available, |threads| threads as usize)
}

/// Fills in what depends on the machine, so that a result says what was in effect.
pub fn make_effective(settings: &mut Settings) {
    if settings.number(&settings::LOAD_THREADS).is_none() {
        let threads = threads::available().to_string();
        let set = settings.set(settings::LOAD_THREADS.name, &threads, Source::Default);
        debug_assert!(set.is_ok(), "{set:?}");
    }
}
