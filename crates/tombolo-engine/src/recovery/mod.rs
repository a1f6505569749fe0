//! Opening a directory that holds a memory store's image and value log, after any end of its last
//! process (TPK-20 … TPK-23, TPK-25, TPK-26).
//!
//! ```text
//!   lock ─► Image::find ─► every thread loads its part ─► where the log takes over
//!                                                              │
//!   value_log::recover_locked ──records──► [a queue each] ──► every thread replays its part
//!                                                              │ mirror: DB′; finish: indexes
//!                                     MemoryStore::from_replay ◄┘
//!                                                │
//!   value_log::recover_locked ◄─ the store stands ┘   only now the log is cut and continued
//!        └─► Checkpoints::start ─► Checkpointing      and then the image
//! ```
//!
//! The calling thread reads and verifies the log; other threads load and replay, each for some of the
//! tables, skipping records of the others. One more thread for each directory reads ahead (`read_ahead.rs`), so that
//! the device does not wait for the processors. With one thread the calling thread does all of this.
//! Without an image, loading ends immediately. Not here: the formats of image and log, how a part
//! is loaded and replayed (storage `memory/image/`, `value_log/`, `memory/recovery/`).
//! Invariants: nothing in the directory changes before image and log have been read to their ends and
//! the store is built; a missing group that was known to be durable never counts as the end of the log.

mod replayer;
mod workers;

pub use replayer::{Replayed, Replayer};

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tombolo_storage::disk::{Disk, DiskError};
use tombolo_storage::memory::image::{Checkpoints, Image, ImageFailure, ImageSettings};
use tombolo_storage::memory::{Limits, MemoryStore};
use tombolo_storage::paged::store::RestartProgress;
use tombolo_storage::profile::MemoryProfile;
use tombolo_storage::value_log::{
    self, CHECKPOINT_LOCK_FILE, Cut, DirectoryLock, GroupNumber, LogFailure, LogSettings,
    LogWriter, RecoverOptions,
};

use crate::checkpointing::Checkpointing;
use crate::clock::Clock;
use crate::read_ahead::ReadAhead;
use crate::rng::entropy;
use crate::threads::{self, NoThread};

/// The options with which a database is opened or made.
#[derive(Clone, Copy, Debug)]
pub struct OpenOptions {
    /// The store's limits.
    pub limits: Limits,
    /// The log's settings.
    pub log: LogSettings,
    /// The settings of the image that checkpoints are written to; `None`: no checkpoints.
    pub image: Option<ImageSettings>,
    /// The number of parts in which checkpoints are written; each part may have a thread.
    pub checkpoint_threads: usize,
    /// Whether recovery cuts the log off at damage, and accepts the loss of everything after it.
    pub accept_loss: bool,
    /// The first group of the log that is still to be archived
    /// ([`LogArchive::keep`](tombolo_storage::value_log::archive::LogArchive::keep)).
    pub keep: Option<GroupNumber>,
    /// The last group of the log to be replayed; later groups are cut off.
    pub last: Option<GroupNumber>,
    /// Threads that load and replay.
    pub threads: usize,
    /// Whether indexes that do not match their rows are left out, so that the rows can be read, or corrected;
    /// [`MemoryStore::left_out`] lists them. Otherwise such an index is a reason to refuse.
    pub without_unfit_indexes: bool,
}

impl Default for OpenOptions {
    fn default() -> Self {
        let (limits, log) = (Limits::default(), LogSettings::default());
        let (image, checkpoint_threads, accept_loss, threads) = (None, 1, false, 1);
        let (keep, last, without_unfit_indexes) = (None, None, false);
        Self {
            limits,
            log,
            image,
            checkpoint_threads,
            accept_loss,
            keep,
            last,
            threads,
            without_unfit_indexes,
        }
    }
}

/// Why a database was not opened or made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenFailure {
    /// Its log.
    Log(LogFailure),
    /// Its image.
    Image(ImageFailure),
    /// The system has too few threads.
    Threads(NoThread),
}

impl OpenFailure {
    /// Whether the files have lost data that they are known to have had. A refused replay does not count: it may only
    /// lack memory.
    pub const fn is_damage(&self) -> bool {
        matches!(
            self,
            Self::Log(LogFailure::Damaged { .. } | LogFailure::Irreparable { .. })
                | Self::Image(ImageFailure::Damaged { .. } | ImageFailure::NoCatalogue { .. })
        )
    }
}

impl From<LogFailure> for OpenFailure {
    fn from(failure: LogFailure) -> Self {
        Self::Log(failure)
    }
}

impl From<ImageFailure> for OpenFailure {
    fn from(failure: ImageFailure) -> Self {
        Self::Image(failure)
    }
}

impl From<NoThread> for OpenFailure {
    fn from(refused: NoThread) -> Self {
        Self::Threads(refused)
    }
}

impl From<DiskError> for OpenFailure {
    fn from(error: DiskError) -> Self {
        Self::Log(error.into())
    }
}

impl fmt::Display for OpenFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Log(failure) => failure.fmt(f),
            Self::Image(failure) => failure.fmt(f),
            Self::Threads(refused) => refused.fmt(f),
        }
    }
}

impl std::error::Error for OpenFailure {}

/// A new database, without tables and with an empty log.
#[derive(Debug)]
pub struct Created<P: MemoryProfile> {
    /// Its rows.
    pub store: MemoryStore<P>,
    /// Its log.
    pub writer: LogWriter,
    /// Its image, if the options have one.
    pub checkpointing: Option<Checkpointing>,
}

/// A database that was opened.
#[derive(Debug)]
pub struct Opened<P: MemoryProfile> {
    /// Its rows.
    pub store: MemoryStore<P>,
    /// Its log, to be continued.
    pub writer: LogWriter,
    /// Its image, to be continued, if the options have one.
    pub checkpointing: Option<Checkpointing>,
    /// What recovery did.
    pub recovery: Recovery,
}

/// What recovery did when a database was opened.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recovery {
    /// How many times the log was opened, this one included.
    pub epoch: u32,
    /// Bytes of the image that were read; 0 without an image.
    pub image_bytes: u64,
    /// Wall-clock time of loading it, in seconds.
    pub image_s: f64,
    /// Processor time of loading it.
    pub image_cpu_s: f64,
    /// Groups of the log that were read: those after the image, and some before.
    pub groups: u64,
    /// The newest of them.
    pub last_group: GroupNumber,
    /// Transactions replayed.
    pub transactions: u64,
    /// Bytes of their records.
    pub record_bytes: u64,
    /// Bytes of groups, with headers and padding.
    pub log_bytes: u64,
    /// The end of the log, if anything after it was cut off.
    pub cut: Option<Cut>,
    /// Records of rows that were replayed.
    pub row_images: u64,
    /// Wall-clock time of reading and replaying the log, in seconds.
    pub replay_s: f64,
    /// Wall-clock time of everything: the image, the log, free lists and indexes, DB′, cutting the log.
    pub wall_s: f64,
    /// Processor time of everything.
    pub cpu_s: f64,
}

impl Recovery {
    /// Whether nothing was cut off the end of the log.
    pub fn is_clean(&self) -> bool {
        self.cut.is_none()
    }

    /// Bytes of log after the image, as the next checkpoint counts them; 0 if nothing was replayed.
    pub fn behind_bytes(&self) -> u64 {
        if self.record_bytes == 0 { 0 } else { self.log_bytes }
    }

    /// Processor time after loading the image.
    pub fn replay_cpu_s(&self) -> f64 {
        self.cpu_s - self.image_cpu_s
    }
}

/// The progress of opening a database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of the image read so far.
    pub image_bytes: u64,
    /// Bytes of the image.
    pub image_bytes_max: u64,
    /// The progress of reading the log; all zeros before its turn.
    pub log: value_log::Progress,
    /// Bytes of all segments of the log, known from the start; the log may end long before.
    pub log_bytes_max: u64,
    /// Time since it began, in nanoseconds.
    pub elapsed_ns: u64,
}

/// The least time after which the remaining time can be estimated.
const ESTIMATE_AFTER_NS: u64 = 500_000_000;

impl Progress {
    /// That of the restart of a paged store, which began so many nanoseconds ago.
    pub fn of_restart(now: RestartProgress, elapsed_ns: u64) -> Self {
        let RestartProgress { bytes, bytes_max, .. } = now;
        let log = value_log::Progress { bytes, bytes_max, ..value_log::Progress::default() };
        Self { log, log_bytes_max: bytes_max, elapsed_ns, ..Self::default() }
    }

    /// The fraction of all bytes that have been read, from 0 to 1.
    pub fn part(&self) -> f64 {
        let read = self.image_bytes + self.log.bytes;
        let all = self.image_bytes_max + self.log_bytes_max;
        if all == 0 { 0.0 } else { (read as f64 / all as f64).min(1.0) }
    }

    /// The estimated remaining time in nanoseconds, if the rest is read at the same speed. `None` in the first half
    /// second.
    pub fn left_ns(&self) -> Option<u64> {
        let part = self.part();
        let is_known = self.elapsed_ns >= ESTIMATE_AFTER_NS && part > 0.0;
        is_known.then(|| (self.elapsed_ns as f64 * (1.0 - part) / part) as u64)
    }
}

/// Reports the progress of opening, with the time since its beginning.
pub struct Reporter<'a> {
    /// The progress that is reported next.
    pub now: Progress,
    start_ns: u64,
    clock: &'a dyn Clock,
    report: &'a mut dyn FnMut(Progress),
}

impl<'a> Reporter<'a> {
    /// For an opening that begins now.
    pub fn begin(clock: &'a dyn Clock, report: &'a mut dyn FnMut(Progress)) -> Self {
        Self { now: Progress::default(), start_ns: clock.now_ns(), clock, report }
    }

    /// Adds bytes of the image that have been read.
    pub fn read_image(&mut self, bytes: u64) {
        self.now.image_bytes += bytes;
        self.send();
    }

    /// Sets the progress of reading the log.
    pub fn read_log(&mut self, log: value_log::Progress) {
        self.now.log = log;
        self.send();
    }

    fn send(&mut self) {
        self.now.elapsed_ns = self.clock.now_ns().saturating_sub(self.start_ns);
        (self.report)(self.now);
    }
}

/// Makes a database in empty directories, with a salt of its own. The first one is for the log and
/// the image's catalogue, all of them for the image's rings.
///
/// # Errors
/// As [`LogWriter::create`], [`Image::find`] and [`Checkpoints::start`].
///
/// # Panics
/// When no directory is given.
pub fn create<P: MemoryProfile>(
    disks: &[Arc<dyn Disk>],
    options: &OpenOptions,
) -> Result<Created<P>, OpenFailure> {
    let image = Image::find(disks.to_vec(), options.image.unwrap_or_default())?;
    if let Some(file) = image.any_file() {
        return Err(without_log(file));
    }
    let log = LogSettings { salt: entropy(), ..options.log };
    let writer = LogWriter::create(Arc::clone(&disks[0]), log)?;
    let store = MemoryStore::new(options.limits);
    let Some(_) = options.image else { return Ok(Created { store, writer, checkpointing: None }) };
    let mirrored = vec![image.load(0, 1, options.limits, &mut |_| {})?.mirror()?];
    let checkpoints = Checkpoints::start(image, &mirrored, writer.salt(), writer.epoch())?;
    let threads = options.checkpoint_threads;
    let checkpointing = Checkpointing::start(checkpoints, mirrored, threads, writer.position());
    Ok(Created { store, writer, checkpointing: Some(checkpointing) })
}

/// Opens the database on `disks`, which are in the order in which it was made; `report` is called with the
/// progress.
///
/// # Errors
/// As [`value_log::recover`], [`Image::find`], [`Image::load`] and [`Checkpoints::start`]; `NoLog`
/// leaves no trace.
///
/// # Panics
/// When no directory is given.
pub fn open<P: MemoryProfile>(
    disks: &[Arc<dyn Disk>],
    options: &OpenOptions,
    clock: &dyn Clock,
    report: &mut dyn FnMut(Progress),
) -> Result<Opened<P>, OpenFailure> {
    if !value_log::holds_log(&*disks[0])? {
        let image = Image::find(disks.to_vec(), options.image.unwrap_or_default())?;
        return Err(image.any_file().map_or(LogFailure::NoLog.into(), without_log));
    }
    let lock = take_directory(&*disks[0])?;
    let ahead: Vec<_> = disks.iter().cloned().map(ReadAhead::start).collect();
    let through = ahead.iter().map(ReadAhead::disk).collect();
    let opened = open_through(lock, through, options, clock, report);
    // All files that were opened for reading are closed.
    ahead.into_iter().for_each(ReadAhead::stop);
    opened
}

/// The pause between attempts to take a directory whose image is still being written, and the most attempts.
const PAUSE: Duration = Duration::from_millis(20);
const PAUSES: u32 = 500;

/// Locks a directory. A checkpoint process whose database process has ended may still be writing the image; it notices
/// that end after its batch, and this function waits for it.
fn take_directory(disk: &dyn Disk) -> Result<DirectoryLock, LogFailure> {
    for _ in 0..PAUSES {
        match DirectoryLock::take(disk) {
            Err(LogFailure::InUse { file }) if file.ends_with(CHECKPOINT_LOCK_FILE) => {
                threads::pause(PAUSE);
            }
            taken => return taken,
        }
    }
    DirectoryLock::take(disk)
}

/// Why a log cannot be read: because of the log, or because of the image that it continues.
pub fn blame(image: &Image, failure: LogFailure) -> OpenFailure {
    image.blamed_for(&failure).map_or_else(|| failure.into(), OpenFailure::from)
}

fn without_log(file: &str) -> OpenFailure {
    ImageFailure::NoLog { file: file.to_owned() }.into()
}

fn open_through<P: MemoryProfile>(
    lock: DirectoryLock,
    disks: Vec<Arc<dyn Disk>>,
    options: &OpenOptions,
    clock: &dyn Clock,
    report: &mut dyn FnMut(Progress),
) -> Result<Opened<P>, OpenFailure> {
    let (start, mut reporter) = (Moment::now(clock), Reporter::begin(clock, report));
    let disk = Arc::clone(&disks[0]);
    let image = Image::find(disks, options.image.unwrap_or_default())?;
    reporter.now.image_bytes_max = image.image_bytes();
    reporter.now.log_bytes_max = value_log::log_bytes(&*disk)?;
    let mut replayer =
        Replayer::load(&image, options, clock, &mut |bytes| reporter.read_image(bytes))?;
    let loaded = Moment::now(clock);
    let OpenOptions { accept_loss, keep, .. } = *options;
    let how = image.recover_options(replayer.log_start().known, accept_loss, keep);
    let how = RecoverOptions { last: options.last, ..how };
    // If the log turns out to have no salt, the next log in the directory gets this one.
    let log = LogSettings { salt: entropy(), ..options.log };
    let recovered = value_log::recover_locked(lock, disk, log, how, &mut replayer, &mut |log| {
        reporter.read_log(log);
    });
    let value_log::Recovered { writer, groups, transactions, cut } =
        recovered.map_err(|failure| blame(&image, failure))?;
    let Replayed { store, mirrored, row_images, record_bytes, replayed_ns } = replayer.replayed();
    let checkpointing = match options.image {
        None => None,
        Some(_) => {
            let (salt, epoch) = (writer.salt(), writer.epoch());
            let checkpoints = Checkpoints::start(image, &mirrored, salt, epoch)?;
            let threads = options.checkpoint_threads;
            Some(Checkpointing::start(checkpoints, mirrored, threads, writer.position()))
        }
    };
    let end = Moment::now(clock);
    let recovery = Recovery {
        epoch: writer.epoch(),
        image_bytes: reporter.now.image_bytes,
        image_s: loaded.wall_s - start.wall_s,
        image_cpu_s: loaded.cpu_s - start.cpu_s,
        groups,
        // The newest one now is the empty group that begins the epoch.
        last_group: writer.newest() - 1,
        transactions,
        record_bytes,
        log_bytes: reporter.now.log.bytes,
        cut,
        row_images,
        replay_s: replayed_ns as f64 / 1e9 - loaded.wall_s,
        wall_s: end.wall_s - start.wall_s,
        cpu_s: end.cpu_s - start.cpu_s,
    };
    Ok(Opened { store, writer, checkpointing, recovery })
}

/// The readings of the clocks, in seconds.
struct Moment {
    wall_s: f64,
    cpu_s: f64,
}

impl Moment {
    fn now(clock: &dyn Clock) -> Self {
        let (wall_s, cpu_s) = (clock.now_ns() as f64 / 1e9, clock.process_cpu().as_secs_f64());
        Self { wall_s, cpu_s }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_takes_as_long_as_what_was_read() {
        let after = |image_bytes, elapsed_ns| Progress {
            image_bytes,
            image_bytes_max: 60,
            log_bytes_max: 60,
            elapsed_ns,
            ..Progress::default()
        };
        assert_eq!(after(30, 1_000_000_000).left_ns(), Some(3_000_000_000));
        assert_eq!(after(120, 1_000_000_000).left_ns(), Some(0));
        assert_eq!((after(30, 1_000).left_ns(), after(0, 1_000_000_000).left_ns()), (None, None));
    }
}
