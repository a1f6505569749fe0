//! A disk that measures how long forcing the log to the device takes.
//!
//! It wraps a store's disk and reads the clock around each sync of the log's files; all other calls pass through.
//! Storage itself reads no clock.

use std::sync::{Arc, Mutex, PoisonError};

use tombolo_engine::clock::Clock;
use tombolo_engine::clock::SystemClock;
use tombolo_storage::disk::{Disk, DiskError, DiskFile, Open};
use tombolo_storage::log::LOG_FILES;

use crate::histogram::Latencies;

/// How long flushes took.
#[derive(Clone, Debug, Default)]
pub struct FlushTimes(Arc<Mutex<Latencies>>);

impl FlushTimes {
    /// The times since the last call.
    pub(crate) fn take(&self) -> Latencies {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn record(&self, ns: u64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).record(ns);
    }
}

/// A disk whose log is timed.
#[derive(Debug)]
pub(crate) struct TimedDisk<D> {
    disk: D,
    clock: SystemClock,
    times: FlushTimes,
}

impl<D: Disk> TimedDisk<D> {
    /// `disk`, timed by `clock`; the times go to `times`.
    pub(crate) fn new(disk: D, clock: SystemClock, times: FlushTimes) -> Self {
        Self { disk, clock, times }
    }

    /// The file, timed if it is one of the log's.
    fn timed(&self, name: &str, file: Box<dyn DiskFile>) -> Box<dyn DiskFile> {
        match name.starts_with(LOG_FILES) {
            true => Box::new(TimedFile { file, clock: self.clock, times: self.times.clone() }),
            false => file,
        }
    }
}

impl<D: Disk> Disk for TimedDisk<D> {
    fn open(&self, name: &str, how: Open) -> Result<Box<dyn DiskFile>, DiskError> {
        self.disk.open(name, how).map(|file| self.timed(name, file))
    }
    fn open_direct(&self, name: &str, how: Open) -> Result<Box<dyn DiskFile>, DiskError> {
        self.disk.open_direct(name, how).map(|file| self.timed(name, file))
    }

    tombolo_storage::forward_disk!(disk: list exists remove rename sync_dir);
}

#[derive(Debug)]
struct TimedFile {
    file: Box<dyn DiskFile>,
    clock: SystemClock,
    times: FlushTimes,
}

impl DiskFile for TimedFile {
    fn sync(&self) -> Result<(), DiskError> {
        let start = self.clock.now_ns();
        let synced = self.file.sync();
        self.times.record(self.clock.now_ns() - start);
        synced
    }

    tombolo_storage::forward_disk!(file: name alignment read_at read_pieces write_at write_pieces set_len len try_lock);
}

#[cfg(test)]
mod tests {
    use super::*;
    use tombolo_storage::disk::MemDisk;

    const SEGMENT: &str = "log-000001";

    #[test]
    fn a_direct_file_stays_direct() {
        let scratch = tempfile::tempdir().unwrap();
        let disk = tombolo_storage::disk::OsDisk::open(scratch.path()).unwrap();
        let alignment = disk.open_direct("other", Open::New).unwrap().alignment();
        let disk = TimedDisk::new(disk, SystemClock::new(), FlushTimes::default());
        for name in ["pages", SEGMENT] {
            assert_eq!(disk.open_direct(name, Open::New).unwrap().alignment(), alignment);
            assert_eq!(disk.open(name, Open::Write).unwrap().alignment(), 1);
        }
    }

    #[test]
    fn only_the_log_is_timed() {
        let times = FlushTimes::default();
        let disk = TimedDisk::new(MemDisk::new(), SystemClock::new(), times.clone());
        for name in ["pages", SEGMENT] {
            let file = disk.open(name, Open::New).unwrap();
            file.write_at(b"abc", 0).unwrap();
            file.sync().unwrap();
            file.sync().unwrap();
            assert_eq!(file.len().unwrap(), 3);
        }
        assert_eq!(disk.list().unwrap(), [SEGMENT, "pages"]);
        assert_eq!(times.take().len(), 2);
        assert!(times.take().is_empty());
    }
}
