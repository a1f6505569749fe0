//! Checkpoints of a simulated database: the production image, opened and, without a pipeline, driven by
//! hand.
//!
//! Opening does what the engine's `recovery` does, on one thread and through the simulated disk alone.
//! Behind the pipeline its checkpoint stages drive the image; around a bare log `ByHand` does, in an
//! order that follows from what was synced. Not here: the image (storage `memory/image/`).

use std::collections::VecDeque;
use std::sync::Arc;

use tombolo_engine::checkpointing::Checkpointing;
use tombolo_engine::pipeline::CheckpointHandle;
use tombolo_storage::disk::Disk;
use tombolo_storage::memory::MemoryStore;
use tombolo_storage::memory::image::{
    CheckpointPart, Checkpoints, Completed, Image, ImageFailure, ImageSettings, LoadedPart,
    MirroredPart, SecondCopy, Step,
};
use tombolo_storage::profile::MemoryLogged;
use tombolo_storage::value_log::archive::LogArchive;
use tombolo_storage::value_log::{
    GroupNumber, LogFailure, LogPosition, LogReader, LogWriter, recover,
};

use crate::archives;
use crate::fault::{FaultCounts, FaultKind};
use crate::faulty_disk::FaultyDisk;
use crate::history::{Rule, Violation};
use crate::recording::{LIMITS, OpenLog, log_refused, log_settings};
use crate::swarm::Swarm;
use crate::world::{Refused, World};

/// Where DB′ lies in each life of a seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyPlace {
    /// In memory.
    Memory,
    /// On disk only; each part gathers so many bytes of changes for a checkpoint.
    Disk(u64),
    /// In some lives in memory, in others on disk only.
    Either(u64),
}

impl CopyPlace {
    /// Where it lies in a life that begins with an image that is complete as of this group.
    pub(crate) fn at(self, group: GroupNumber, parts: usize) -> SecondCopy {
        let gathered = match self {
            Self::Disk(bytes) => bytes,
            Self::Either(bytes) if group.is_multiple_of(2) => bytes,
            Self::Memory | Self::Either(_) => return SecondCopy::Memory,
        };
        // As much again is what a checkpoint is written from.
        SecondCopy::Disk { changes_bytes_max: gathered.saturating_mul(2 * parts as u64) }
    }
}

/// What a refusal says, and where the damage is if it says that.
fn refused(failure: &ImageFailure) -> Refused {
    let place = match failure {
        ImageFailure::Damaged { file, offset, .. } => Some((file.clone(), *offset)),
        ImageFailure::OtherVersion { file, .. }
        | ImageFailure::Stranger { file }
        | ImageFailure::InUse { file }
        | ImageFailure::Misplaced { file, .. } => Some((file.clone(), 0)),
        _ => None,
    };
    let is_failed_call = matches!(failure, ImageFailure::Disk(_));
    Refused { message: failure.to_string(), is_failed_call, place }
}

/// Opens image, log and store, or makes them.
///
/// # Errors
/// See [`crate::world::Engine::start`].
pub(crate) fn open(
    disk: &FaultyDisk,
    swarm: &Swarm,
    accept_loss: bool,
) -> Result<(OpenLog, MemoryStore<MemoryLogged>), Refused> {
    let directory = |number| Arc::new(disk.directory(number)) as Arc<dyn Disk>;
    let doors: Vec<_> = (0..swarm.directories).map(directory).collect();
    let archive = archives::take(disk, swarm, accept_loss)?;
    let keep = archive.as_ref().and_then(LogArchive::keep);
    let (mut log, store) = open_doors(&doors, swarm, accept_loss, keep)?;
    let attach = |archive| archives::attach(disk, archive, &log.writer);
    log.archiver = archive.map(attach).transpose()?;
    Ok((log, store))
}

/// The same in these directories, without an archive; what of the log is behind `keep` is kept.
///
/// # Errors
/// As [`open`].
pub(crate) fn open_doors(
    doors: &[Arc<dyn Disk>],
    swarm: &Swarm,
    accept_loss: bool,
    keep: Option<GroupNumber>,
) -> Result<(OpenLog, MemoryStore<MemoryLogged>), Refused> {
    let door = Arc::clone(&doors[0]);
    let (block_bytes, spare_blocks) = swarm.block;
    let settings = ImageSettings { block_bytes, spare_blocks, ..ImageSettings::default() };
    let find = |settings| Image::find(doors.to_vec(), settings).map_err(|why| refused(&why));
    let found = find(settings)?;
    // The same for one image, so that a rehearsal is what it rehearses.
    let copy = swarm.second_copy.at(found.position().group, swarm.checkpoint_parts);
    let image = find(ImageSettings { copy, ..settings })?;
    let parts = swarm.replay_parts;
    let load = |part| image.load(part, parts, LIMITS, &mut |_| {});
    let loaded = (0..parts).map(load).collect::<Result<Vec<_>, _>>();
    let mut loaded = loaded.map_err(|why| refused(&why))?;
    let known = loaded.iter().map(LoadedPart::known).max().unwrap_or(0);
    let options = image.recover_options(known, accept_loss, keep);
    let (log, mut behind_bytes) = (log_settings(swarm), 0);
    let mut replay = |group, records: &[u8]| {
        behind_bytes += log.group_bytes(records.len() as u64);
        loaded.iter_mut().try_for_each(|part| part.replay.apply_group(group, records))
    };
    let recovered = recover(Arc::clone(&door), log, options, &mut replay, &mut |_| {});
    let opened = match recovered {
        Err(LogFailure::NoLog) if image.position().group == 0 => LogWriter::create(door, log),
        recovered => recovered.map(|recovered| recovered.writer),
    };
    // The place is the log's in either case: what it lacks is what is known to be wrong.
    let blame = |failure: LogFailure| {
        let of_log = log_refused(&failure);
        match image.blamed_for(&failure) {
            Some(why) => Refused { message: why.to_string(), ..of_log },
            None => of_log,
        }
    };
    let writer = opened.map_err(blame)?;
    let mut mirrored = Vec::new();
    let writes_them = swarm.has_checkpoints && !swarm.has_remote_checkpoints();
    if writes_them {
        let copies = loaded.iter_mut().map(|part| part.mirror()).collect::<Result<_, _>>();
        mirrored = copies.map_err(|why| refused(&why))?;
    }
    let unsound = |message| Refused { message, is_failed_call: false, place: None };
    let rebuilt = loaded.into_iter().map(|part| part.replay.finish()).collect::<Result<_, _>>();
    let store = MemoryStore::from_replay(LIMITS, rebuilt.map_err(unsound)?).map_err(unsound)?;
    let mut checkpointing = None;
    if writes_them {
        let checkpoints = Checkpoints::start(image, &mirrored, writer.salt(), writer.epoch());
        let checkpoints = checkpoints.map_err(|why| refused(&why))?;
        let mirrored = MirroredPart::divide(mirrored, swarm.checkpoint_parts).into_iter();
        let position = writer.position();
        let parts = mirrored.map(|part| CheckpointPart::new(part, &checkpoints, position));
        checkpointing = Some(Checkpointing { parts: parts.collect(), checkpoints });
    }
    Ok((OpenLog { writer, checkpointing, archiver: None, behind_bytes }, store))
}

/// Checks that a demand for a checkpoint got the right answer, and that checkpoints end, for this `failure`,
/// only if a call to the disk failed since its faults were `before`.
///
/// # Errors
/// The rule that does not hold.
pub(crate) fn judge(
    asked: &[CheckpointHandle],
    failure: Option<&str>,
    before: &FaultCounts,
    world: &World,
) -> Result<(), Violation> {
    use FaultKind::{ReadFailed, ReadShort, SyncFailed, WriteFailed};
    if asked.iter().any(|asked| asked.poll().is_none()) {
        let what = "a checkpoint that was asked for came to nothing";
        return Err(Violation::new(Rule::Progress, what));
    }
    let counts = world.disk.counts();
    let has_failed = [ReadFailed, ReadShort, SyncFailed, WriteFailed]
        .iter()
        .any(|&kind| counts.of(kind) > before.of(kind));
    match failure {
        // A process that finds no room to begin is started again, but not for ever.
        Some(why) if world.swarm.has_remote_checkpoints() && why.contains("full") => Ok(()),
        Some(why) if !has_failed && !world.has_broken_promises() => {
            let what = format!("checkpoints ended without cause: {why}");
            Err(Violation::new(Rule::JustRefusal, what))
        }
        _ => Ok(()),
    }
}

/// Records of a group that was written.
type Written = (LogPosition, Vec<u8>);

/// Drives an image without a pipeline.
#[derive(Debug)]
pub(crate) struct ByHand {
    checkpoints: Checkpoints,
    parts: Vec<CheckpointPart>,
    done: Vec<Option<Completed>>,
    /// Groups that were written and are not durable; those that are, for each part.
    written: Vec<Written>,
    waiting: Vec<VecDeque<Arc<Written>>>,
    /// Reads what is behind the image up to where the log was opened, until that was done.
    behind: Option<(LogReader, LogPosition)>,
    turns: u64,
    has_failed: bool,
}

impl ByHand {
    /// Of a log that `writer` continues.
    pub(crate) fn new(checkpointing: Checkpointing, writer: &LogWriter) -> Self {
        let Checkpointing { checkpoints, parts } = checkpointing;
        let (done, waiting) = (vec![None; parts.len()], vec![VecDeque::new(); parts.len()]);
        let behind = parts[0].wants_again().then(|| (writer.reader(), writer.position()));
        let (written, turns, has_failed) = (Vec::new(), 0, false);
        Self { checkpoints, parts, done, written, waiting, behind, turns, has_failed }
    }

    /// Takes what is behind the image from the log, where DB′ is the image.
    fn read_behind(&mut self) -> Result<(), LogFailure> {
        let Some((mut reader, end)) = self.behind.take() else { return Ok(()) };
        let mut behind = VecDeque::new();
        let mut keep = |position, records: &[u8]| {
            behind.push_back(Arc::new((position, records.to_vec())));
            Ok::<_, LogFailure>(())
        };
        let from = self.checkpoints.position();
        reader.again(from);
        reader.read(from, end.group, usize::MAX, &mut keep)?;
        for waiting in &mut self.waiting {
            let later = std::mem::replace(waiting, behind.clone());
            waiting.extend(later);
        }
        Ok(())
    }

    /// A group was written, which ends at `position`.
    pub(crate) fn wrote(&mut self, position: LogPosition, records: &[u8]) {
        self.written.push((position, records.to_vec()));
    }

    /// All that was written is durable. Does a bit of everything; the group before which the log may
    /// be released, if a checkpoint was completed.
    pub(crate) fn synced(&mut self) -> Option<GroupNumber> {
        for written in self.written.drain(..).map(Arc::new) {
            self.waiting.iter_mut().for_each(|part| part.push_back(Arc::clone(&written)));
        }
        // What the disk does not give now it does not give later.
        self.has_failed |= self.read_behind().is_err();
        if self.has_failed {
            return None;
        }
        match self.turn() {
            Ok(position) => position,
            Err(failure) => {
                // Transactions continue.
                self.has_failed = !failure.is_full();
                None
            }
        }
    }

    fn turn(&mut self) -> Result<Option<GroupNumber>, ImageFailure> {
        self.turns += 1;
        let turn = self.turns;
        for (number, (part, waiting)) in (0..).zip(self.parts.iter_mut().zip(&mut self.waiting)) {
            // One is behind the others now and then.
            let count = if (turn + number).is_multiple_of(3) { 1 } else { waiting.len() };
            for _ in 0..count {
                if let Some(written) = waiting.pop_front_if(|_| part.has_room()) {
                    part.install(written.0, &written.1)?;
                }
            }
        }
        if self.checkpoints.writing().is_none() {
            if turn.is_multiple_of(4) && self.parts.iter().all(CheckpointPart::may_begin) {
                let needs = self.parts.iter_mut().map(CheckpointPart::needs);
                let needs = needs.collect::<Result<Vec<_>, _>>()?;
                let begun = self.checkpoints.begin(&needs)?;
                self.parts.iter_mut().for_each(|part| part.begin(&begun));
                self.done.fill(None);
            }
            return Ok(None);
        }
        for (part, done) in self.parts.iter_mut().zip(&mut self.done) {
            if done.is_none()
                && let Step::Complete(completed) = part.step()?
            {
                *done = Some(completed);
            }
        }
        let done: Option<Vec<Completed>> = self.done.iter().copied().collect();
        match done {
            Some(done) => Ok(Some(self.checkpoints.complete(&done)?.group)),
            None => Ok(None),
        }
    }
}
