//! The production image of a simulated database, opened together with log and store.
//!
//! This does what the engine's `recovery` does, on one thread and through the simulated disk alone. Not
//! here: the image (storage `memory/image/`), its checkpoints (the engines).

use std::sync::Arc;

use tombolo_engine::checkpointing::Checkpointing;
use tombolo_storage::disk::Disk;
use tombolo_storage::memory::MemoryStore;
use tombolo_storage::memory::image::{
    CheckpointPart, Checkpoints, Image, ImageSettings, LoadedPart, MirroredPart, SecondCopy,
};
use tombolo_storage::profile::MemoryLogged;
use tombolo_storage::value_log::archive::LogArchive;
use tombolo_storage::value_log::{GroupNumber, LogFailure, LogWriter, RecoverOptions, recover};

use super::archive;
use super::log::{LIMITS, OpenLog, log_settings};
use super::refused::Refused;
use crate::faults::FaultyDisk;
use crate::swarm::Swarm;

/// Opens image, log and store, or makes them.
///
/// # Errors
/// See [`crate::world::Engine::start`].
pub(crate) fn open(
    disk: &FaultyDisk,
    swarm: &Swarm,
    accept_loss: bool,
) -> Result<(OpenLog, MemoryStore<MemoryLogged>), Refused> {
    let archived = disk.directory(archive::DIRECTORY);
    let archive = archive::take(&archived, swarm, accept_loss)?;
    let keep = archive.as_ref().and_then(LogArchive::keep);
    let (mut log, store) =
        open_doors(&disk.directories(swarm.directories), swarm, accept_loss, (keep, None))?;
    let attach = |archive| archive::attach(&archived, archive, &log.writer);
    log.archiver = archive.map(attach).transpose()?;
    Ok((log, store))
}

/// The same in these directories, without an archive; what of the log is behind `keep` is kept,
/// what is behind `last` is cut off.
///
/// # Errors
/// As [`open`].
pub(crate) fn open_doors(
    doors: &[Arc<dyn Disk>],
    swarm: &Swarm,
    accept_loss: bool,
    (keep, last): (Option<GroupNumber>, Option<GroupNumber>),
) -> Result<(OpenLog, MemoryStore<MemoryLogged>), Refused> {
    let door = Arc::clone(&doors[0]);
    let find =
        |settings| Image::find(doors.to_vec(), settings).map_err(|why| Refused::by_image(&why));
    let found = find(ImageSettings { copy: SecondCopy::Memory, ..swarm.image(0) })?;
    // Chosen by the image, so that a rehearsal on a copy and the recovery that it rehearses choose alike.
    let image = find(swarm.image(found.position().group))?;
    let parts = swarm.replay_parts;
    let load = |part| image.load(part, parts, LIMITS, &mut |_| {});
    let loaded = (0..parts).map(load).collect::<Result<Vec<_>, _>>();
    let mut loaded = loaded.map_err(|why| Refused::by_image(&why))?;
    let known = loaded.iter().map(LoadedPart::known).max().unwrap_or(0);
    let options = image.recover_options(known, accept_loss, keep);
    let options = RecoverOptions { last, ..options };
    let (log, mut behind_bytes) = (log_settings(swarm), 0);
    let mut replay = |group, records: &[u8]| {
        behind_bytes += log.group_bytes(records.len() as u64);
        loaded.iter_mut().try_for_each(|part| part.replay.apply_group(group, records))
    };
    let recovered = recover(Arc::clone(&door), log, options, &mut replay, &mut |_| {});
    let opened = match recovered {
        // The log is made before the image: next to an image, a log that is gone is a loss, even if no checkpoint is
        // complete.
        Err(LogFailure::NoLog) if image.any_file().is_none() => LogWriter::create(door, log),
        recovered => recovered.map(|recovered| recovered.writer),
    };
    // The message may blame the image, but the place is always the log's: only what the log lacks is known.
    let blame = |failure: LogFailure| {
        let of_log = Refused::by_log(&failure);
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
        mirrored = copies.map_err(|why| Refused::by_image(&why))?;
    }
    let rebuilt = loaded.into_iter().map(|part| part.replay.finish()).collect::<Result<_, _>>();
    let store = MemoryStore::from_replay(LIMITS, rebuilt.map_err(Refused::unsound)?)
        .map_err(Refused::unsound)?;
    let mut checkpointing = None;
    if writes_them {
        let checkpoints = Checkpoints::start(image, &mirrored, writer.salt(), writer.epoch());
        let checkpoints = checkpoints.map_err(|why| Refused::by_image(&why))?;
        let mirrored = MirroredPart::divide(mirrored, swarm.checkpoint_parts).into_iter();
        let position = writer.position();
        let parts = mirrored.map(|part| CheckpointPart::new(part, &checkpoints, position));
        checkpointing = Some(Checkpointing { parts: parts.collect(), checkpoints });
    }
    Ok((OpenLog { writer, checkpointing, archiver: None, behind_bytes }, store))
}
