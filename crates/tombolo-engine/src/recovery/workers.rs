//! Threads that each load a part of an image, replay the log after it, and rebuild indexes and free lists from
//! the rows.
//!
//! Each thread has some of the tables. It reads their blocks, gets all records in chunks, and skips
//! records of other tables. Not here: reading the log (`replayer.rs`), how a part is loaded and replayed
//! (storage). Invariant: each thread ends before the thread that started it continues, even after a failure.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use tombolo_storage::memory::Limits;
use tombolo_storage::memory::image::{Image, ImageFailure, LoadedPart, MirroredPart};
use tombolo_storage::memory::recovery::RebuiltPart;
use tombolo_storage::value_log::{GroupNumber, Refused};

use super::OpenFailure;
use crate::threads::{NoThread, Running};

/// Bytes of records in a chunk.
const CHUNK_BYTES: usize = 1 << 20;
/// The most chunks that may wait for a thread.
const CHUNKS_MAX: usize = 8;
/// The number of chunks: those that wait, one that is being replayed, one that is being filled.
const CHUNKS: usize = CHUNKS_MAX + 2;
/// The most messages of loading threads that may wait.
const REPORTED_MAX: usize = 64;

/// What is done with parts after the last record.
#[derive(Clone, Copy)]
pub(super) struct HowToFinish {
    /// Whether they are copied into DB′.
    pub(super) is_mirrored: bool,
    /// As in the options.
    pub(super) without_unfit_indexes: bool,
}

/// A part after the last record.
pub(super) struct Finished {
    /// The rows, from which the store is built.
    pub(super) rebuilt: RebuiltPart,
    /// DB′, if there are checkpoints.
    pub(super) mirrored: Option<MirroredPart>,
}

/// Copies the rows, which are those up to group `newest`, and rebuilds indexes and free lists.
pub(super) fn finish(
    mut loaded: LoadedPart,
    newest: GroupNumber,
    how: HowToFinish,
) -> Result<Finished, Refused> {
    let newest = newest.max(loaded.known());
    let in_words = |failure: ImageFailure| (newest, failure.to_string());
    let mirrored = how.is_mirrored.then(|| loaded.mirror()).transpose().map_err(in_words)?;
    if how.without_unfit_indexes {
        loaded.replay.leave_out_unfit_indexes();
    }
    let rebuilt = loaded.replay.finish().map_err(|what| (newest, what))?;
    Ok(Finished { rebuilt, mirrored })
}

/// Records of some groups.
#[derive(Debug, Default)]
struct Chunk {
    records: Vec<u8>,
    /// The groups, each with the end of its records.
    groups: Vec<(GroupNumber, usize)>,
}

impl Chunk {
    fn replay(&self, into: &mut LoadedPart) -> Result<(), Refused> {
        let mut from = 0;
        for &(group, end) in &self.groups {
            let applied = into.replay.apply_group(group, &self.records[from..end]);
            applied.map_err(|what| (group, what))?;
            from = end;
        }
        Ok(())
    }
}

/// A message to a thread that has loaded its part.
enum Work {
    Replay(Arc<Chunk>),
    /// The log has been read to its end. If it could not be read, this is not sent, and nothing is rebuilt.
    Finish,
}

/// The threads, and the chunks on their way to them, which are reused.
pub(super) struct Workers {
    workers: Vec<Worker>,
    chunks: Vec<Arc<Chunk>>,
    /// The chunk that is being filled.
    filling: usize,
}

/// A message of a loading thread.
enum Report {
    /// It has read this many more bytes.
    Read(u64),
    /// It has read all blocks, the newest of which is of this group.
    Loaded(GroupNumber),
    /// It could not read them.
    Failed(ImageFailure),
}

impl Workers {
    /// Starts `parts` threads, which load; calls `report` with the number of bytes read. Also returns the newest
    /// group of any block.
    ///
    /// # Errors
    /// As [`Image::load`]; `Threads` when the system has too few.
    pub(super) fn load(
        image: &Image,
        parts: usize,
        limits: Limits,
        how: HowToFinish,
        report: &mut dyn FnMut(u64),
    ) -> Result<(Self, GroupNumber), OpenFailure> {
        let (reports, hear) = sync_channel(REPORTED_MAX);
        let start = |part| Worker::start(image.clone(), part, parts, limits, how);
        let mut workers = (0..parts).map(start).collect::<Result<Vec<_>, NoThread>>()?;
        // All threads have started: they may begin.
        workers.iter_mut().for_each(|worker| worker.begin(reports.clone()));
        drop(reports);
        let (mut newest, mut failure) = (0, None);
        for said in hear {
            match said {
                Report::Read(bytes) => report(bytes),
                Report::Loaded(known) => newest = known.max(newest),
                Report::Failed(why) => _ = failure.get_or_insert(why),
            }
        }
        let chunks = (0..CHUNKS).map(|_| Arc::default()).collect();
        let workers = Self { workers, chunks, filling: 0 };
        failure.map_or(Ok((workers, newest)), |failure| Err(failure.into()))
    }

    /// Takes the records of a group; returns whether all threads still take records.
    pub(super) fn take(&mut self, group: GroupNumber, records: &[u8]) -> bool {
        let chunk = Arc::get_mut(&mut self.chunks[self.filling]);
        let Some(chunk) = chunk else { unreachable!("what is filled was not handed on") };
        chunk.records.extend_from_slice(records);
        chunk.groups.push((group, chunk.records.len()));
        chunk.records.len() < CHUNK_BYTES || self.hand_on()
    }

    /// Passes the filled chunk to every thread; returns whether all took it.
    fn hand_on(&mut self) -> bool {
        let chunk = &self.chunks[self.filling];
        if chunk.groups.is_empty() {
            return true;
        }
        let is_taken =
            self.workers.iter().all(|worker| worker.send(Work::Replay(Arc::clone(chunk))));
        self.filling = (self.filling + 1) % CHUNKS;
        match Arc::get_mut(&mut self.chunks[self.filling]) {
            Some(next) => {
                next.records.clear();
                next.groups.clear();
            }
            // A thread still has it, although there are enough chunks.
            None => self.chunks[self.filling] = Arc::default(),
        }
        is_taken
    }

    /// Waits for all parts after the last record.
    ///
    /// # Errors
    /// The reason that the oldest refused group was refused.
    pub(super) fn finish(mut self) -> Result<Vec<Finished>, Refused> {
        let is_taken = self.hand_on();
        for worker in &self.workers {
            _ = worker.send(Work::Finish); // one that has ended says why
        }
        let finished: Vec<_> = self.workers.into_iter().map(Worker::finished).collect();
        let refused = finished.iter().filter_map(|part| part.as_ref().err());
        match refused.min_by_key(|refused| refused.0) {
            Some(refused) => Err(refused.clone()),
            None => {
                assert!(is_taken, "a thread that takes no records says why");
                Ok(finished.into_iter().flatten().collect())
            }
        }
    }
}

/// A thread with a part; it ends when this value is dropped.
struct Worker {
    /// `None` once the thread has begun, or is to end.
    begin: Option<SyncSender<SyncSender<Report>>>,
    /// `None` once the thread is to end.
    work: Option<SyncSender<Work>>,
    finished: Receiver<Result<Finished, Refused>>,
    thread: Option<Running>,
}

impl Worker {
    /// Starts a thread, which waits for [`Worker::begin`].
    fn start(
        image: Image,
        part: usize,
        parts: usize,
        limits: Limits,
        how: HowToFinish,
    ) -> Result<Self, NoThread> {
        let (work, to_do) = sync_channel(CHUNKS_MAX);
        let (done, finished) = sync_channel(1);
        let started = Running::start_for("tombolo-recover", move |reports: SyncSender<Report>| {
            // The receiver is gone only if opening has failed for another reason.
            let mut read = |bytes| _ = reports.send(Report::Read(bytes));
            let loaded = match image.load(part, parts, limits, &mut read) {
                Ok(loaded) => loaded,
                Err(failure) => {
                    _ = reports.send(Report::Failed(failure));
                    return;
                }
            };
            _ = reports.send(Report::Loaded(loaded.known()));
            drop((reports, image));
            if let Some(end) = replay(loaded, &to_do, how) {
                _ = done.send(end);
            }
        });
        let (thread, begin) = started?;
        Ok(Self { begin: Some(begin), work: Some(work), finished, thread: Some(thread) })
    }

    /// Lets the thread begin to load.
    fn begin(&mut self, reports: SyncSender<Report>) {
        let begun = self.begin.take().is_some_and(|begin| begin.send(reports).is_ok());
        assert!(begun, "a thread waits for its part");
    }

    /// Sends the thread work; returns whether it still takes any.
    fn send(&self, work: Work) -> bool {
        self.work.as_ref().is_some_and(|worker| worker.send(work).is_ok())
    }

    /// Waits for the part.
    fn finished(self) -> Result<Finished, Refused> {
        let finished = self.finished.recv();
        // If it has panicked, this continues the panic.
        drop(self);
        finished.expect("a thread whose part was loaded says how replaying ended")
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Without either, the thread ends, whether it has begun or not.
        (self.begin, self.work) = (None, None);
        if let Some(thread) = self.thread.take()
            && !std::thread::panicking()
        {
            thread.join();
        }
    }
}

/// Replays the chunks that come; returns `None` if the log could not be read to its end.
fn replay(
    mut loaded: LoadedPart,
    work: &Receiver<Work>,
    how: HowToFinish,
) -> Option<Result<Finished, Refused>> {
    let mut newest = 0;
    loop {
        match work.recv().ok()? {
            Work::Finish => return Some(finish(loaded, newest, how)),
            Work::Replay(chunk) => {
                newest = chunk.groups.last().map_or(newest, |last| last.0);
                if let Err(refused) = chunk.replay(&mut loaded) {
                    return Some(Err(refused)); // nothing more is taken
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tombolo_storage::disk::MemDisk;
    use tombolo_storage::memory::image::ImageSettings;

    use super::*;

    /// As when the system has a thread for the first part and none for the second.
    #[test]
    fn a_thread_that_never_began_ends_with_its_worker() {
        let disk = Arc::new(MemDisk::new());
        let image = Image::find(vec![disk], ImageSettings::default()).expect("an empty disk");
        for has_begun in [false, true] {
            let how = HowToFinish { is_mirrored: false, without_unfit_indexes: false };
            let worker = Worker::start(image.clone(), 0, 2, Limits::default(), how);
            let mut worker = worker.expect("a thread");
            let (reports, hear) = sync_channel(REPORTED_MAX);
            if has_begun {
                worker.begin(reports);
                assert!(matches!(hear.recv(), Ok(Report::Loaded(0))));
            }
            drop(worker);
        }
    }
}
