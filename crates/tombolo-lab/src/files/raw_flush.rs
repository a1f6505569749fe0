//! How long the device alone takes for a flush: the same number of bytes written and forced to it, in the same
//! directory and the same way, without a database.
//!
//! Twice, in turns: one flush right behind the other, and each after a pause. A device that had
//! nothing to do for a moment, and the system below it, take longer to begin: what a lone caller
//! waits for is the second. In a pause the processor stays awake, so that what it takes to wake up
//! is not counted as the device's.
//!
//! The file is written over beforehand, like a log's segments, and goes when the probe is over.

use std::sync::atomic::{AtomicUsize, Ordering};

use tombolo_engine::clock::Clock;
use tombolo_storage::disk::{ALIGNMENT_MAX, Disk, DiskError, DiskFile, Open};

use crate::histogram::Latencies;

/// Bytes in front of a group's records in a log, about.
pub(crate) const GROUP_HEADER_BYTES: u64 = 64;
/// The probe's file.
const FILE: &str = "raw-flush-probe";
/// Flushes of each kind that are timed, at most.
const FLUSHES: usize = 400;
/// How many of a kind are timed in a row.
const IN_A_ROW: usize = 50;
/// When the probe ends at the latest.
const TIME_MAX_NS: u64 = 1_500_000_000;
/// The longest pause.
const PAUSE_MAX_NS: u64 = 1_000_000;
/// Bytes of the file, at least.
const FILE_BYTES: usize = 16 << 20;

/// The times found.
#[derive(Clone, Debug)]
pub struct RawFlush {
    /// Bytes of each.
    pub bytes: u64,
    /// How long they took, one right behind the other.
    pub latencies: Latencies,
    /// How long they took after a pause.
    pub paced: Latencies,
    /// The pause.
    pub pause_ns: u64,
}

/// Times flushes of `bytes` bytes, rounded up to what the device writes as a unit; half of them begin
/// `pause_ns` after the last one, or a millisecond if that is shorter.
///
/// # Errors
/// When the disk fails.
pub(crate) fn measure(
    disk: &dyn Disk,
    clock: &dyn Clock,
    bytes: u64,
    pause_ns: u64,
) -> Result<RawFlush, DiskError> {
    let pause_ns = pause_ns.min(PAUSE_MAX_NS);
    let raw = RawFile::create(disk, bytes).inspect_err(|_| {
        // What could not be written over is no probe; that it stays is reported by the first error.
        let _ = disk.remove(FILE);
    })?;
    let bytes = raw.bytes();
    let found = time(&raw, clock, pause_ns);
    let removed = raw.remove(disk);
    let [latencies, paced] = found?;
    removed?;
    Ok(RawFlush { bytes, latencies, paced, pause_ns })
}

/// A file that is written over and forced to the device, like a segment of a log.
#[derive(Debug)]
pub(crate) struct RawFile {
    file: Box<dyn DiskFile>,
    /// What is written, from `from` on: direct writes want an aligned address, which no vector
    /// promises.
    memory: Vec<u8>,
    from: usize,
    /// How many places of this size the file has.
    places: usize,
    bytes: usize,
    /// The place that is written next.
    next: AtomicUsize,
}

impl RawFile {
    /// The probe's file in `disk`, written over for flushes of `bytes` bytes, rounded up to what the device
    /// writes as a unit.
    ///
    /// # Errors
    /// When the disk fails.
    pub(crate) fn create(disk: &dyn Disk, bytes: u64) -> Result<Self, DiskError> {
        let bytes = (bytes.max(1) as usize).next_multiple_of(ALIGNMENT_MAX);
        let places = FILE_BYTES.div_ceil(bytes);
        let memory = vec![0xA5_u8; bytes + ALIGNMENT_MAX];
        let from = memory.as_ptr().align_offset(ALIGNMENT_MAX);
        let file = disk.open_direct(FILE, Open::New)?;
        file.set_len((places * bytes) as u64)?;
        let raw = Self { file, memory, from, places, bytes, next: AtomicUsize::new(0) };
        (0..places).try_for_each(|place| raw.write(place))?;
        raw.file.sync()?;
        Ok(raw)
    }

    /// Bytes of a flush.
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes as u64
    }

    fn write(&self, place: usize) -> Result<(), DiskError> {
        let written = &self.memory[self.from..self.from + self.bytes];
        self.file.write_at(written, (place * self.bytes) as u64)
    }

    /// Writes the next place and forces it to the device.
    ///
    /// # Errors
    /// When the disk fails.
    pub(crate) fn flush(&self) -> Result<(), DiskError> {
        // Relaxed: each place is as good as another, only two threads should not write the same one.
        self.write(self.next.fetch_add(1, Ordering::Relaxed) % self.places)?;
        self.file.sync()
    }

    /// Removes it.
    ///
    /// # Errors
    /// When the disk refuses.
    pub(crate) fn remove(self, disk: &dyn Disk) -> Result<(), DiskError> {
        drop(self.file);
        disk.remove(FILE)
    }
}

/// Flushes without a pause, and with one.
fn time(raw: &RawFile, clock: &dyn Clock, pause_ns: u64) -> Result<[Latencies; 2], DiskError> {
    let mut found = [Latencies::default(), Latencies::default()];
    let start_ns = clock.now_ns();
    let mut last_ns = start_ns;
    for flush in 0..2 * FLUSHES {
        let kind = flush / IN_A_ROW % 2;
        let due_ns = last_ns + if kind == 1 { pause_ns } else { 0 };
        let mut from_ns = clock.now_ns();
        while from_ns < due_ns {
            std::hint::spin_loop();
            from_ns = clock.now_ns();
        }
        if from_ns - start_ns > TIME_MAX_NS {
            break;
        }
        raw.flush()?;
        last_ns = clock.now_ns();
        found[kind].record(last_ns - from_ns);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use tombolo_engine::clock::SystemClock;
    use tombolo_storage::disk::OsDisk;

    use super::*;

    #[test]
    fn whole_blocks_are_flushed_and_nothing_stays() {
        let scratch = tempfile::tempdir().unwrap();
        let disk = OsDisk::open(scratch.path()).unwrap();
        let found = measure(&disk, &SystemClock::new(), 5_000, 20_000).unwrap();
        assert_eq!((found.bytes, found.pause_ns), (8_192, 20_000));
        assert!((1..=FLUSHES as u64).contains(&found.latencies.len()));
        assert!(found.paced.len() <= found.latencies.len());
        assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0);
    }
}
