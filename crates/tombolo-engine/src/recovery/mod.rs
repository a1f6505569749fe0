//! Opening a directory that holds the value log of a memory store, after any end of its last
//! process.
//!
//! ```text
//!   value_log::recover ──records──► [a queue each] ──► ReplayPart of every thread
//!                                                           │ finish
//!                                    MemoryStore::from_replay ◄──┘
//!                                                │
//!   value_log::recover ◄── the store stands ─────┘   only now the log is cut and goes on
//! ```
//!
//! The calling thread reads and verifies the log, the others replay it: each has some of the tables
//! and passes over the rest; one more reads ahead (`read_ahead.rs`), so that the device does not wait
//! for the processors. With one thread replaying happens on the calling one. Not here: what
//! the log looks like, how a part is replayed (storage `value_log/`, `memory/recovery/`).
//! Invariant: nothing in the directory changes unless the log could be read to its end and the
//! store stands.

use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use tombolo_storage::disk::{Disk, DiskError};
use tombolo_storage::memory::image::{Checkpoints, Image, ImageFailure, ImageSettings};
use tombolo_storage::memory::recovery::{RebuiltPart, ReplayPart};
use tombolo_storage::memory::{Limits, MemoryStore};
use tombolo_storage::profile::MemoryProfile;
use tombolo_storage::value_log::{
    self, Cut, GroupNumber, LogFailure, LogSettings, LogWriter, RecoverOptions, Replay,
};

use crate::checkpointing::Checkpointing;
use crate::clock::Clock;
use crate::read_ahead::ReadAhead;
use crate::rng::entropy;
use crate::threads::Running;

/// Bytes of records that are handed to the replaying threads together.
const CHUNK_BYTES: usize = 1 << 20;
/// How many of them may wait for a thread.
const CHUNKS_MAX: usize = 8;
/// How many there are: those that wait, one that is being replayed, one that is being filled.
const CHUNKS: usize = CHUNKS_MAX + 2;

/// What a database is opened or made with.
#[derive(Clone, Copy, Debug)]
pub struct OpenOptions {
    /// The store's limits.
    pub limits: Limits,
    /// The log's numbers.
    pub log: LogSettings,
    /// The numbers of the image that checkpoints are written to; without them none are written.
    pub image: Option<ImageSettings>,
    /// Parts that checkpoints are written in, each of which may have a thread.
    pub checkpoint_threads: usize,
    /// Whether damage is cut off with everything behind it.
    pub accept_loss: bool,
    /// Threads that load and replay.
    pub threads: usize,
}

impl Default for OpenOptions {
    fn default() -> Self {
        let (limits, log) = (Limits::default(), LogSettings::default());
        let (image, checkpoint_threads, accept_loss, threads) = (None, 1, false, 1);
        Self { limits, log, image, checkpoint_threads, accept_loss, threads }
    }
}

/// Why a database was not opened or made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenFailure {
    /// Its log.
    Log(LogFailure),
    /// Its image.
    Image(ImageFailure),
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
        }
    }
}

impl std::error::Error for OpenFailure {}

/// A database that was made: without tables, and with a log that holds nothing.
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
    /// Its log, which goes on.
    pub writer: LogWriter,
    /// How it came back.
    pub recovery: Recovery,
}

/// How a database came back.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recovery {
    /// How many times the log was opened, this one included.
    pub epoch: u32,
    /// Groups replayed.
    pub groups: u64,
    /// The newest of them.
    pub last_group: GroupNumber,
    /// Transactions replayed.
    pub transactions: u64,
    /// Bytes of their records.
    pub record_bytes: u64,
    /// Bytes of groups, with headers and what fills blocks up.
    pub log_bytes: u64,
    /// Where the log ended, if anything behind it was cut off.
    pub cut: Option<Cut>,
    /// Records of rows that were replayed.
    pub row_images: u64,
    /// Wall-clock time of reading and replaying, in seconds.
    pub replay_s: f64,
    /// The same with rebuilding free lists and indexes, and with cutting the log.
    pub wall_s: f64,
    /// Processor time of all of it.
    pub cpu_s: f64,
}

impl Recovery {
    /// Nothing of a log's end was cut off.
    pub fn is_clean(&self) -> bool {
        self.cut.is_none()
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
    if let Some(file) = image.file() {
        return Err(ImageFailure::Stranger { file: file.to_owned() }.into());
    }
    let log = LogSettings { salt: entropy(), ..options.log };
    let writer = LogWriter::create(Arc::clone(&disks[0]), log)?;
    let store = MemoryStore::new(options.limits);
    let Some(_) = options.image else { return Ok(Created { store, writer, checkpointing: None }) };
    let mirrored = image.load(0, 1, options.limits, &mut |_| {})?.mirror()?;
    let checkpoints = Checkpoints::start(image, writer.salt())?;
    let threads = options.checkpoint_threads;
    let checkpointing = Checkpointing::start(checkpoints, vec![mirrored], threads, &writer);
    Ok(Created { store, writer, checkpointing: Some(checkpointing) })
}

/// Opens the database on `disk`; `told` hears how far reading the log is.
///
/// # Errors
/// As [`value_log::recover`]; `NoLog` leaves no trace.
pub fn open<P: MemoryProfile>(
    disk: Arc<dyn Disk>,
    options: &OpenOptions,
    clock: &dyn Clock,
    told: &mut dyn FnMut(value_log::Progress),
) -> Result<Opened<P>, LogFailure> {
    if !value_log::holds_log(&*disk)? {
        return Err(LogFailure::NoLog);
    }
    let (wall_ns, cpu) = (clock.now_ns(), clock.process_cpu());
    let seconds = |ns: u64| ns as f64 / 1e9;
    let mut replayer = Replayer::new(options, clock);
    let how = RecoverOptions { accept_loss: options.accept_loss, ..RecoverOptions::default() };
    // Should the log lack a salt after all, the next one in the directory has this.
    let log = LogSettings { salt: entropy(), ..options.log };
    let mut log_bytes = 0;
    let mut told = |now: value_log::Progress| {
        log_bytes = now.bytes;
        told(now);
    };
    let ahead = ReadAhead::start(disk);
    let recovered = value_log::recover(ahead.disk(), log, how, &mut replayer, &mut told);
    ahead.stop();
    let recovered = recovered?;
    let Replayed { store, row_images, record_bytes, replayed_ns } = replayer.replayed();
    let recovery = Recovery {
        epoch: recovered.writer.epoch(),
        groups: recovered.groups,
        // The newest one now is the empty group that begins the epoch.
        last_group: recovered.writer.newest() - 1,
        transactions: recovered.transactions,
        record_bytes,
        log_bytes,
        cut: recovered.cut,
        row_images,
        replay_s: seconds(replayed_ns - wall_ns),
        wall_s: seconds(clock.now_ns() - wall_ns),
        cpu_s: clock.process_cpu().saturating_sub(cpu).as_secs_f64(),
    };
    Ok(Opened { store, writer: recovered.writer, recovery })
}

/// Hands records on to whoever replays them, and makes the store before anything is written.
pub struct Replayer<'c, P: MemoryProfile> {
    limits: Limits,
    clock: &'c dyn Clock,
    workers: Option<Workers>,
    record_bytes: u64,
    newest: GroupNumber,
    replayed: Option<Replayed<P>>,
}

/// What replaying a whole log made.
#[derive(Debug)]
pub struct Replayed<P: MemoryProfile> {
    /// The rows.
    pub store: MemoryStore<P>,
    /// Records of rows.
    pub row_images: u64,
    /// Bytes of all records.
    pub record_bytes: u64,
    /// When the last of them was handed on.
    pub replayed_ns: u64,
}

enum Workers {
    /// The calling thread.
    Here(Box<ReplayPart>),
    Threads {
        parts: Vec<Worker>,
        chunks: Chunks,
    },
}

/// Records on their way to the threads, in buffers that are used again and again.
struct Chunks {
    buffers: Vec<Arc<Vec<u8>>>,
    /// The one that gathers records which were not handed on yet.
    filling: usize,
}

impl Chunks {
    fn new() -> Self {
        Self { buffers: (0..CHUNKS).map(|_| Arc::default()).collect(), filling: 0 }
    }

    /// Takes records in; whether they are enough to be handed on.
    fn take(&mut self, records: &[u8]) -> bool {
        let chunk = Arc::get_mut(&mut self.buffers[self.filling]);
        let Some(chunk) = chunk else { unreachable!("what is filled was not handed on") };
        chunk.extend_from_slice(records);
        chunk.len() >= CHUNK_BYTES
    }

    /// Gives what was gathered to every thread.
    fn hand_on(&mut self, parts: &[Worker]) -> Result<(), String> {
        let chunk = &self.buffers[self.filling];
        if chunk.is_empty() {
            return Ok(());
        }
        let taken = parts.iter().all(|worker| worker.records.send(Arc::clone(chunk)).is_ok());
        self.filling = (self.filling + 1) % CHUNKS;
        match Arc::get_mut(&mut self.buffers[self.filling]) {
            Some(next) => next.clear(),
            // A thread still has it, though there are enough.
            None => self.buffers[self.filling] = Arc::default(),
        }
        // Why is what the thread itself answers.
        if taken { Ok(()) } else { Err("its records were refused".to_owned()) }
    }
}

/// A thread that replays its part.
struct Worker {
    records: SyncSender<Arc<Vec<u8>>>,
    rebuilt: Receiver<Result<RebuiltPart, String>>,
    thread: Running,
}

impl Worker {
    fn start(part: usize, parts: usize, limits: Limits) -> Self {
        let (records, to_replay) = sync_channel::<Arc<Vec<u8>>>(CHUNKS_MAX);
        let (done, rebuilt) = sync_channel(1);
        let thread = Running::start("tombolo-replay", move || {
            let mut replay = ReplayPart::new(part, parts, limits);
            let mut replayed = Ok(());
            for chunk in to_replay {
                replayed = replay.apply(&chunk);
                if replayed.is_err() {
                    break; // whoever hands records on sees that nobody takes them
                }
            }
            // Nobody waits any more only when opening has failed otherwise.
            let _ = done.send(replayed.and_then(|()| replay.finish()));
        });
        Self { records, rebuilt, thread }
    }

    /// Waits for the part, when no more records come.
    fn finish(self) -> Result<RebuiltPart, String> {
        drop(self.records);
        let rebuilt = self.rebuilt.recv();
        self.thread.join();
        rebuilt.unwrap_or_else(|_| Err("a replaying thread ended early".to_owned()))
    }
}

impl Workers {
    /// Rebuilds what follows from the rows.
    fn finish(self) -> Result<Vec<RebuiltPart>, String> {
        match self {
            Self::Here(part) => Ok(vec![part.finish()?]),
            Self::Threads { parts, mut chunks } => {
                let handed_on = chunks.hand_on(&parts);
                // All are waited for, so that none outlives the call; the first failure counts.
                let rebuilt: Vec<_> = parts.into_iter().map(Worker::finish).collect();
                let rebuilt = rebuilt.into_iter().collect::<Result<Vec<_>, String>>()?;
                handed_on.map(|()| rebuilt)
            }
        }
    }
}

impl<'c, P: MemoryProfile> Replayer<'c, P> {
    /// On as many threads as the options say.
    pub fn new(options: &OpenOptions, clock: &'c dyn Clock) -> Self {
        let OpenOptions { limits, threads, .. } = *options;
        let workers = match threads {
            0 | 1 => Workers::Here(Box::new(ReplayPart::new(0, 1, limits))),
            parts => {
                let parts = (0..parts).map(|part| Worker::start(part, parts, limits)).collect();
                Workers::Threads { parts, chunks: Chunks::new() }
            }
        };
        let workers = Some(workers);
        Self { limits, clock, workers, record_bytes: 0, newest: 0, replayed: None }
    }

    /// What a log made that was read to its end.
    ///
    /// # Panics
    /// When it was not.
    pub fn replayed(self) -> Replayed<P> {
        self.replayed.expect("a log that was opened was replayed to its end")
    }

    /// The store, and how many records of rows were replayed.
    fn rebuild(&mut self) -> Result<(MemoryStore<P>, u64), String> {
        let parts = self.workers.take().map_or(Ok(Vec::new()), Workers::finish)?;
        let row_images = parts.iter().map(RebuiltPart::applied).sum();
        Ok((MemoryStore::from_replay(self.limits, parts)?, row_images))
    }
}

impl<P: MemoryProfile> Replay for Replayer<'_, P> {
    fn replay(&mut self, group: GroupNumber, records: &[u8]) -> Result<(), String> {
        self.record_bytes += records.len() as u64;
        self.newest = group;
        let handed_on = match &mut self.workers {
            None => return Err("records behind the end of a log".to_owned()),
            Some(Workers::Here(part)) => return part.replay(group, records),
            Some(Workers::Threads { parts, chunks, .. }) => match chunks.take(records) {
                true => chunks.hand_on(parts),
                false => Ok(()),
            },
        };
        // The thread that refused records knows why.
        handed_on.or_else(|refused| self.rebuild().and(Err(refused)))
    }

    fn complete(&mut self) -> Result<(), (GroupNumber, String)> {
        let replayed_ns = self.clock.now_ns();
        let (store, row_images) = self.rebuild().map_err(|what| (self.newest, what))?;
        let record_bytes = self.record_bytes;
        self.replayed = Some(Replayed { store, row_images, record_bytes, replayed_ns });
        Ok(())
    }
}
