//! What goes into the log of a simulated database, and how a store is made of it again.
//!
//! Two kinds: *values*, what the store says of every change, which is the product's; and
//! *commands*, the requests themselves, run again one after the other. Commands need nothing of
//! the store, so they test groups, segments and recovery by themselves; values test all of it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tombolo_engine::checkpointing::Checkpointing;
use tombolo_engine::pipeline::Records;
use tombolo_storage::disk::Disk;
use tombolo_storage::memory::{Limits, MemoryStore};
use tombolo_storage::profile::{Memory, MemoryLogged, MemoryProfile};
use tombolo_storage::store::Store;
use tombolo_storage::value_log::archive::Archiver;
use tombolo_storage::value_log::{
    LogBuffer, LogFailure, LogKind, LogSettings, LogWriter, RecoverOptions, Replay, recover,
};

use crate::checkpoints;
use crate::faulty_disk::FaultyDisk;
use crate::history::Step;
use crate::swarm::Swarm;
use crate::workload::command;
use crate::workload::store::{Handles, definition};
use crate::world::Refused;

/// The most bytes one transaction of the workload logs, in either kind of log.
pub const TRANSACTION_BYTES_MAX: u64 = 6 << 10;

/// Stores are tiny: a seed makes dozens.
pub(crate) const LIMITS: Limits = Limits {
    structure_bytes_max: 1 << 20,
    memory_bytes_max: u64::MAX,
    snapshot_bytes_max: 1 << 20,
    // The same seed makes the same chains, hence refusals for want of memory in the same places.
    hash_seed: Some(1),
};

/// A store whose log is `R`'s.
pub type StoreOf<R> = MemoryStore<<R as Recording>::Profile>;

/// A kind of log.
pub trait Recording: Default + Send + 'static {
    /// What its store is built of.
    type Profile: MemoryProfile;
    /// What records are handed on in.
    type Buffer: Records;

    /// `step` was executed on the store.
    fn ran(&mut self, step: &Step);

    /// How many bytes [`Recording::take`] would add.
    fn bytes(&self, store: &StoreOf<Self>) -> usize;

    /// Moves what was recorded since the last call to `into`, which is empty.
    fn take(&mut self, store: &mut StoreOf<Self>, into: &mut Self::Buffer);

    /// Recovers the log and a store of it; a new one where there is none.
    ///
    /// # Errors
    /// When a call failed or something is damaged.
    fn recover(
        disk: &FaultyDisk,
        swarm: &Swarm,
        accept_loss: bool,
    ) -> Result<(OpenLog, StoreOf<Self>), Refused>;
}

/// A log that was opened.
#[derive(Debug)]
pub struct OpenLog {
    /// Continues the log.
    pub writer: LogWriter,
    /// Its image, if checkpoints are written.
    pub checkpointing: Option<Checkpointing>,
    /// Its archive, if the log is archived.
    pub archiver: Option<Archiver>,
    /// Bytes of records that the image does not hold.
    pub behind_bytes: u64,
}

/// Commands as bytes.
#[derive(Debug, Default)]
pub struct CommandBuffer {
    bytes: Vec<u8>,
    count: u64,
}

impl Records for CommandBuffer {
    fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn transactions(&self) -> u64 {
        self.count
    }

    fn memory_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.count = 0;
    }
}

/// The requests themselves.
#[derive(Debug, Default)]
pub struct Commands(CommandBuffer);

impl Recording for Commands {
    type Profile = Memory;
    type Buffer = CommandBuffer;

    fn ran(&mut self, step: &Step) {
        let only_reads = matches!(step, Step::Request(request) if request.work.only_reads());
        if !only_reads {
            command::encode(step, &mut self.0.bytes);
            self.0.count += 1;
        }
    }

    fn bytes(&self, _: &StoreOf<Self>) -> usize {
        self.0.bytes.len()
    }

    fn take(&mut self, _: &mut StoreOf<Self>, into: &mut CommandBuffer) {
        std::mem::swap(&mut self.0, into);
    }

    fn recover(
        disk: &FaultyDisk,
        swarm: &Swarm,
        accept_loss: bool,
    ) -> Result<(OpenLog, StoreOf<Self>), Refused> {
        let mut again = Again { store: MemoryStore::new(LIMITS), handles: None };
        let mut replay = |_, records: &[u8]| again.run(records);
        let log = open_log(disk, swarm, accept_loss, &mut replay)?;
        Ok((log, again.store))
    }
}

/// What the store says of every change.
#[derive(Clone, Copy, Debug, Default)]
pub struct Values;

impl Recording for Values {
    type Profile = MemoryLogged;
    type Buffer = LogBuffer;

    fn ran(&mut self, _: &Step) {}

    fn bytes(&self, store: &StoreOf<Self>) -> usize {
        store.log_bytes()
    }

    fn take(&mut self, store: &mut StoreOf<Self>, into: &mut LogBuffer) {
        store.take_log(into);
    }

    fn recover(
        disk: &FaultyDisk,
        swarm: &Swarm,
        accept_loss: bool,
    ) -> Result<(OpenLog, StoreOf<Self>), Refused> {
        checkpoints::open(disk, swarm, accept_loss)
    }
}

/// Runs commands again.
struct Again {
    store: MemoryStore<Memory>,
    handles: Option<Handles>,
}

impl Again {
    fn run(&mut self, records: &[u8]) -> Result<(), String> {
        let steps = command::decode_all(records).ok_or("no commands")?;
        for step in steps {
            let Step::Request(request) = step else {
                // A table; indexes are not added here.
                let table = definition(self.store.schema().tables.len());
                self.store.create_table(table).map_err(|error| error.to_string())?;
                continue;
            };
            if self.handles.is_none() {
                let handles = Handles::of(self.store.schema());
                self.handles = Some(handles.map_err(|error| error.to_string())?);
            }
            let Self { store, handles: Some(handles) } = self else { continue };
            // Aborts and panics as it did the first time; what it leaves is compared later.
            let run = || handles.run(store, &request);
            drop(catch_unwind(AssertUnwindSafe(run)));
        }
        Ok(())
    }
}

/// The log's numbers.
pub(crate) fn log_settings(swarm: &Swarm) -> LogSettings {
    LogSettings {
        kind: LogKind::Value,
        segment_bytes: swarm.segment_bytes,
        segment_bytes_first: swarm.segment_bytes_first,
        block_bytes: 512,
        // What is ready holds a transaction at its largest and what blocks of 4,096 bytes waste.
        segments_ahead: (8 * TRANSACTION_BYTES_MAX).div_ceil(swarm.segment_bytes - (8 << 10))
            as usize,
        log_bytes_max: u64::MAX,
        direct: true,
        salt: swarm.salt,
    }
}

/// Opens a log of commands, or makes one.
fn open_log(
    disk: &FaultyDisk,
    swarm: &Swarm,
    accept_loss: bool,
    replay: &mut dyn Replay,
) -> Result<OpenLog, Refused> {
    let door: Arc<dyn Disk> = Arc::new(disk.clone());
    let options = RecoverOptions { accept_loss, ..RecoverOptions::default() };
    let recovered = recover(door.clone(), log_settings(swarm), options, replay, &mut |_| {});
    let opened = match recovered {
        Err(LogFailure::NoLog) => LogWriter::create(door, log_settings(swarm)),
        recovered => recovered.map(|recovered| recovered.writer),
    };
    let writer = opened.map_err(|failure| log_refused(&failure))?;
    Ok(OpenLog { writer, checkpointing: None, archiver: None, behind_bytes: 0 })
}

/// What a refusal says, and where the damage is if it says that.
pub(crate) fn log_refused(failure: &LogFailure) -> Refused {
    let place = match failure {
        LogFailure::Damaged { file, offset, .. }
        | LogFailure::Irreparable { file, offset, .. }
        | LogFailure::Replay { file, offset, .. } => Some((file.clone(), *offset)),
        // An image needs it.
        LogFailure::NoLog => Some((".".to_owned(), 0)),
        _ => None,
    };
    let is_failed_call = matches!(failure, LogFailure::Disk(_));
    Refused { message: failure.to_string(), is_failed_call, place }
}
