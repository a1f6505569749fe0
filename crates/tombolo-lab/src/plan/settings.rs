//! The settings of a plan, each checked against the profile and the others.
//!
//! Not here: single settings' limits (engine `settings/`), what follows from a whole plan (`mod.rs`).

use std::path::PathBuf;
use std::time::Duration;

use tombolo_engine::threads;
use tombolo_storage::lock::LockSettings;
use tombolo_storage::log::Durability;
use tombolo_storage::memory::Limits;
use tombolo_storage::paged::store::{Isolation, PagedSettings};
use tombolo_storage::profile::{Memory, MemoryProfile, ProfileInfo};
use tombolo_storage::value_log::{self, LogKind};

use super::{Bound, keys, profiles};
use crate::failure::Failure;
use crate::settings::{self, Settings};

/// The most inputs that are made at a time for an open loop.
const OPEN_BATCH_MAX: u64 = 500_000;
/// Most transactions that are timed one by one where no number is given.
const LATENCY_TRANSACTIONS: u64 = 100_000;
/// Segments of a log are whole blocks.
const LOG_BLOCK_BYTES: u64 = 4_096;

pub(super) fn profile_named(name: &str) -> Result<&'static ProfileInfo, Failure> {
    profiles::find(name).ok_or_else(|| {
        Failure::usage(format!("profile {name} is not known: see tombolo run --list-profiles"))
    })
}

/// The durability that is asked for, or the most the profile has.
pub(super) fn durability_of(
    info: &ProfileInfo,
    settings: &Settings,
) -> Result<Durability, Failure> {
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

pub(super) fn isolation_of(settings: &Settings) -> Isolation {
    match settings.word(&settings::ISOLATION) {
        "read_committed" => Isolation::ReadCommitted,
        _ => Isolation::Serializable,
    }
}

pub(super) fn data_of(settings: &Settings) -> Option<PathBuf> {
    match settings.word(&settings::DATA) {
        "" => None,
        path => Some(path.into()),
    }
}

/// After how much log a paged store makes a checkpoint.
pub(super) fn checkpoint_log_bytes(settings: &Settings) -> u64 {
    let default = PagedSettings::default().checkpoint_log_bytes;
    match settings.word(&settings::CHECKPOINTS) {
        "on" => settings.number(&settings::CHECKPOINT_LOG_BYTES).unwrap_or(default),
        _ => u64::MAX,
    }
}

pub(super) fn lock_settings(settings: &Settings) -> LockSettings {
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
pub(super) fn verify_profile(info: &ProfileInfo, settings: &Settings) -> Result<(), Failure> {
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
    if isolation_of(settings) != Isolation::Serializable && !info.switches[4] {
        return Err(Failure::usage(format!(
            "profile {} has no locks: its transactions run one after the other, so they are serializable: use \
             --isolation serializable",
            info.name
        )));
    }
    if settings.word(&settings::LOG) == LogKind::Command.name() {
        return Err(Failure::usage(
            "a run writes a log of values: leave --log command out (a program of your own can have one, with \
             tombolo_engine::command_log)",
        ));
    }
    let islands = settings.count(&settings::ISLANDS);
    if islands > 1 {
        return Err(Failure::usage(format!(
            "a run has one island, not {islands}: use --islands 1, or tombolo islands"
        )));
    }
    let is_logged = info.name == Memory::NAME;
    if data_of(settings).is_some() && is_logged && settings.word(&settings::DURABILITY) == "none" {
        return Err(Failure::usage(
            "without a log nothing is kept: leave --data out, or use --durability group",
        ));
    }
    if data_of(settings).is_some() && !is_logged && !profiles::can_be_saved(info.name) {
        return Err(Failure::usage(format!(
            "profile {} keeps no files that could be opened again: leave --data out",
            info.name
        )));
    }
    Ok(())
}

/// How many calls are made a second, if they begin at their times.
pub(super) fn rate_of(info: &ProfileInfo, settings: &Settings) -> Result<Option<u64>, Failure> {
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
    match settings::given(settings, &[&settings::CLIENTS, &settings::IN_FLIGHT]) {
        Some(setting) => Err(Failure::usage(format!(
            "in an open loop calls do not wait for each other: leave --{} out",
            setting.flag()
        ))),
        None => Ok(rate),
    }
}

/// How many transactions are timed one by one. A short run is not made long by them: a disk makes each of them wait.
pub(super) fn latency_transactions(settings: &Settings, bound: Bound) -> usize {
    let measured = match bound {
        Bound::Transactions(transactions) => transactions,
        Bound::Time(_) => u64::MAX,
    };
    let given = settings.number(&keys::LATENCY_TRANSACTIONS);
    given.unwrap_or(LATENCY_TRANSACTIONS.min(measured)) as usize
}

/// How many inputs are made at a time. An open loop is not broken off to make some, if it can be.
pub(super) fn batch_of(settings: &Settings, rate: Option<u64>, bound: Bound) -> usize {
    let batch = settings.count(&settings::BATCH);
    let calls = match (rate, bound) {
        (None, _) => 0,
        (Some(_), Bound::Transactions(transactions)) => transactions,
        (Some(rate), Bound::Time(time)) => (rate as f64 * time.as_secs_f64() * 1.01) as u64,
    };
    batch.max(calls.min(OPEN_BATCH_MAX)) as usize
}

pub(super) fn log_settings(settings: &Settings) -> Result<value_log::LogSettings, Failure> {
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

pub(super) fn limits(settings: &Settings) -> Limits {
    Limits {
        memory_bytes_max: settings.number(&settings::MEMORY_BYTES_MAX).unwrap_or(u64::MAX),
        snapshot_bytes_max: settings.count(&settings::SNAPSHOT_BYTES_MAX),
        ..Limits::default()
    }
}

pub(super) fn load_threads(settings: &Settings) -> usize {
    let threads = settings.number(&settings::LOAD_THREADS);
    threads.map_or_else(threads::available, |threads| threads as usize)
}
