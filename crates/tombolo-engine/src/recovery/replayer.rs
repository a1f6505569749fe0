//! `Replayer`: passes records to the threads that replay them, and builds the store before anything is written.
//!
//! Not here: reading the log (storage `value_log/recover.rs`), threads (`workers.rs`).

use tombolo_storage::memory::image::{Image, LoadedPart, MirroredPart};
use tombolo_storage::memory::recovery::RebuiltPart;
use tombolo_storage::memory::{Limits, MemoryStore};
use tombolo_storage::profile::MemoryProfile;
use tombolo_storage::value_log::{GroupNumber, LogStart, Refused, Replay};

use super::workers::{HowToFinish, Workers, finish};
use super::{OpenFailure, OpenOptions};
use crate::clock::Clock;

/// A loaded image, and the replayed part of the log after it.
pub struct Replayer<'c, P: MemoryProfile> {
    limits: Limits,
    how: HowToFinish,
    clock: &'c dyn Clock,
    first: LogStart,
    workers: Option<Who>,
    record_bytes: u64,
    newest: GroupNumber,
    replayed: Option<Replayed<P>>,
}

/// The result of an image and the whole log after it.
#[derive(Debug)]
pub struct Replayed<P: MemoryProfile> {
    /// The rows.
    pub store: MemoryStore<P>,
    /// DB′, if the options have an image.
    pub mirrored: Vec<MirroredPart>,
    /// The number of records of rows.
    pub row_images: u64,
    /// Bytes of all records.
    pub record_bytes: u64,
    /// The time at which the last of them was passed to a thread.
    pub replayed_ns: u64,
}

enum Who {
    /// The calling thread.
    Here(Box<LoadedPart>),
    Threads(Workers),
}

impl<'c, P: MemoryProfile> Replayer<'c, P> {
    /// Loads an image on the options' number of threads; calls `report` with the number of bytes read.
    ///
    /// # Errors
    /// As [`Image::load`]; `Threads` when the system has too few.
    pub fn load(
        image: &Image,
        options: &OpenOptions,
        clock: &'c dyn Clock,
        report: &mut dyn FnMut(u64),
    ) -> Result<Self, OpenFailure> {
        let OpenOptions { limits, threads, .. } = *options;
        let how = HowToFinish {
            is_mirrored: options.image.is_some(),
            without_unfit_indexes: options.without_unfit_indexes,
        };
        let (workers, known) = match threads {
            0 | 1 => {
                let loaded = image.load(0, 1, limits, report)?;
                let known = loaded.known();
                (Who::Here(Box::new(loaded)), known)
            }
            parts => {
                let (workers, known) = Workers::load(image, parts, limits, how, report)?;
                (Who::Threads(workers), known)
            }
        };
        Ok(Self {
            limits,
            how,
            clock,
            first: image.log_start(known),
            workers: Some(workers),
            record_bytes: 0,
            newest: 0,
            replayed: None,
        })
    }

    /// Where the log continues the image.
    pub fn log_start(&self) -> LogStart {
        self.first
    }

    /// The result, when the log has been read to its end.
    ///
    /// # Panics
    /// If it has not.
    pub fn replayed(self) -> Replayed<P> {
        self.replayed.expect("a log that was opened was replayed to its end")
    }

    /// Builds the store; returns it with the number of replayed records of rows, and DB′.
    fn rebuild(&mut self) -> Result<(MemoryStore<P>, u64, Vec<MirroredPart>), Refused> {
        let newest = self.newest;
        let finished = match self.workers.take() {
            None => Vec::new(),
            Some(Who::Here(loaded)) => vec![finish(*loaded, newest, self.how)?],
            Some(Who::Threads(workers)) => workers.finish()?,
        };
        let (rebuilt, mirrored): (Vec<_>, Vec<_>) =
            finished.into_iter().map(|part| (part.rebuilt, part.mirrored)).unzip();
        let row_images = rebuilt.iter().map(RebuiltPart::applied).sum();
        let store = MemoryStore::from_replay(self.limits, rebuilt);
        let store = store.map_err(|what| (newest, what))?;
        Ok((store, row_images, mirrored.into_iter().flatten().collect()))
    }
}

impl<P: MemoryProfile> Replay for Replayer<'_, P> {
    fn replay(&mut self, group: GroupNumber, records: &[u8]) -> Result<(), Refused> {
        self.record_bytes += records.len() as u64;
        self.newest = group;
        let is_taken = match &mut self.workers {
            None => return Err((group, "records behind the end of a log".to_owned())),
            Some(Who::Here(loaded)) => {
                return loaded.replay.apply_group(group, records).map_err(|what| (group, what));
            }
            Some(Who::Threads(workers)) => workers.take(group, records),
        };
        if is_taken {
            return Ok(());
        }
        // The thread that refused records knows the group; the reader may be further already.
        self.rebuild().map(|_| unreachable!("a thread took no records"))
    }

    fn complete(&mut self) -> Result<(), Refused> {
        let replayed_ns = self.clock.now_ns();
        let (store, row_images, mirrored) = self.rebuild()?;
        let record_bytes = self.record_bytes;
        let replayed = Replayed { store, mirrored, row_images, record_bytes, replayed_ns };
        self.replayed = Some(replayed);
        Ok(())
    }
}
