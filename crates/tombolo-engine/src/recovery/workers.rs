//! Threads that each load a part of an image, replay the log behind it and rebuild what follows from
//! the rows.
//!
//! Each has some of the tables, reads their blocks, is handed all records in chunks and passes over
//! those of other tables. Not here: reading the log (`replayer.rs`), how a part is loaded and replayed
//! (storage). Invariant: a thread ends before the thread that started it continues, whatever failed.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use tombolo_storage::memory::Limits;
use tombolo_storage::memory::image::{Image, ImageFailure, LoadedPart, MirroredPart};
use tombolo_storage::memory::recovery::RebuiltPart;
use tombolo_storage::value_log::{GroupNumber, Refused};

use super::OpenFailure;
use crate::threads::{NoThread, Running};

/// Bytes of records that are handed to the threads together.
const CHUNK_BYTES: usize = 1 << 20;
/// How many of them may wait for a thread.
const CHUNKS_MAX: usize = 8;
/// How many there are: those that wait, one that is being replayed, one that is being filled.
const CHUNKS: usize = CHUNKS_MAX + 2;
/// How many messages of loading threads may wait.
const REPORTED_MAX: usize = 64;

/// What becomes of parts when the log is over.
#[derive(Clone, Copy)]
pub(super) struct HowToFinish {
    /// Whether they are copied, for checkpoints.
    pub(super) is_mirrored: bool,
    /// As in the options.
    pub(super) without_unfit_indexes: bool,
}

/// A part whose log is over.
pub(super) struct Finished {
    /// What the store is made of.
    pub(super) rebuilt: RebuiltPart,
    /// DB′, if there are checkpoints.
    pub(super) mirrored: Option<MirroredPart>,
}

/// Copies and rebuilds what follows from the rows, which are those up to group `newest`.
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
    /// Each group and where its records end.
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

/// What a thread is sent once its part is loaded.
enum Work {
    Replay(Arc<Chunk>),
    /// The log is over. Without this nothing is rebuilt: it could not be read.
    Finish,
}

/// The threads, and records on their way to them in buffers that are used again and again.
pub(super) struct Workers {
    workers: Vec<Worker>,
    chunks: Vec<Arc<Chunk>>,
    /// The one that gathers records which were not handed on yet.
    filling: usize,
}

/// What a loading thread says.
enum Report {
    /// So many bytes more are read.
    Read(u64),
    /// All blocks are, and this is the newest group that any of them holds.
    Loaded(GroupNumber),
    /// They could not be.
    Failed(ImageFailure),
}

impl Workers {
    /// Lets `parts` threads load; `report` is called with the bytes as they are read. Also returns the newest
    /// group that any block holds.
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
        // All are there: they may begin.
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

    /// Takes the records of a group; whether all threads still take any.
    pub(super) fn take(&mut self, group: GroupNumber, records: &[u8]) -> bool {
        let chunk = Arc::get_mut(&mut self.chunks[self.filling]);
        let Some(chunk) = chunk else { unreachable!("what is filled was not handed on") };
        chunk.records.extend_from_slice(records);
        chunk.groups.push((group, chunk.records.len()));
        chunk.records.len() < CHUNK_BYTES || self.hand_on()
    }

    /// Gives what was gathered to every thread; whether all took it.
    fn hand_on(&mut self) -> bool {
        let chunk = &self.chunks[self.filling];
        if chunk.groups.is_empty() {
            return true;
        }
        let is_taken =
            self.workers.iter().all(|worker| worker.reports(Work::Replay(Arc::clone(chunk))));
        self.filling = (self.filling + 1) % CHUNKS;
        match Arc::get_mut(&mut self.chunks[self.filling]) {
            Some(next) => {
                next.records.clear();
                next.groups.clear();
            }
            // A thread still has it, though there are enough.
            None => self.chunks[self.filling] = Arc::default(),
        }
        is_taken
    }

    /// Waits for all parts, when no more records come.
    ///
    /// # Errors
    /// What the oldest refused group does not fit with.
    pub(super) fn finish(mut self) -> Result<Vec<Finished>, Refused> {
        let is_taken = self.hand_on();
        for worker in &self.workers {
            _ = worker.reports(Work::Finish); // one that has ended says why
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

/// A thread with a part, which ends when this does.
struct Worker {
    /// There until the thread has begun, or is to end.
    begin: Option<SyncSender<SyncSender<Report>>>,
    /// There until the thread is to end.
    work: Option<SyncSender<Work>>,
    finished: Receiver<Result<Finished, Refused>>,
    thread: Option<Running>,
}

impl Worker {
    /// A thread that waits until it is to begin.
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
            // The receiver is gone only when opening has failed otherwise.
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

    /// Whether the thread still takes work.
    fn reports(&self, work: Work) -> bool {
        self.work.as_ref().is_some_and(|worker| worker.send(work).is_ok())
    }

    /// Waits for the part.
    fn finished(self) -> Result<Finished, Refused> {
        let finished = self.finished.recv();
        // With its panic, if that is why it says nothing.
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

/// Replays what comes; `None` if the log could not be read to its end.
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
