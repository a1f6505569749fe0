//! What the device itself takes for a flush: the same number of bytes written and forced to it, in
//! the same directory and the same way, without a database.
//!
//! The file is written over beforehand, like a log's segments, and goes when the probe is over.

use tombolo_engine::clock::Clock;
use tombolo_storage::disk::{ALIGNMENT_MAX, Disk, DiskError, Open};

use crate::histogram::Latencies;

/// The probe's file.
const FILE: &str = "raw-flush-probe";
/// Flushes that are timed, at most.
const FLUSHES: usize = 400;
/// When the probe ends at the latest.
const TIME_MAX_NS: u64 = 1_500_000_000;
/// Bytes of the file, at least.
const FILE_BYTES: usize = 16 << 20;

/// What was found.
#[derive(Clone, Debug)]
pub struct RawFlush {
    /// Bytes of each.
    pub bytes: u64,
    /// How long they took.
    pub latencies: Latencies,
}

/// Times flushes of `bytes` bytes, rounded up to what the device writes at once.
///
/// # Errors
/// When the disk fails.
pub(crate) fn measure(
    disk: &dyn Disk,
    clock: &dyn Clock,
    bytes: u64,
) -> Result<RawFlush, DiskError> {
    let bytes = (bytes.max(1) as usize).next_multiple_of(ALIGNMENT_MAX);
    let found = time(disk, clock, bytes);
    let removed = disk.remove(FILE);
    let latencies = found?;
    removed?;
    Ok(RawFlush { bytes: bytes as u64, latencies })
}

fn time(disk: &dyn Disk, clock: &dyn Clock, bytes: usize) -> Result<Latencies, DiskError> {
    let places = FILE_BYTES.div_ceil(bytes);
    // Direct writes want an aligned address, which no vector promises.
    let memory = vec![0xA5_u8; bytes + ALIGNMENT_MAX];
    let from = memory.as_ptr().align_offset(ALIGNMENT_MAX);
    let buffer = &memory[from..from + bytes];
    let file = disk.open_direct(FILE, Open::New)?;
    file.set_len((places * bytes) as u64)?;
    (0..places).try_for_each(|place| file.write_at(buffer, (place * bytes) as u64))?;
    file.sync()?;
    let mut latencies = Latencies::default();
    let start_ns = clock.now_ns();
    for flush in 0..FLUSHES {
        let from_ns = clock.now_ns();
        if from_ns - start_ns > TIME_MAX_NS {
            break;
        }
        file.write_at(buffer, (flush % places * bytes) as u64)?;
        file.sync()?;
        latencies.record(clock.now_ns() - from_ns);
    }
    Ok(latencies)
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
        let found = measure(&disk, &SystemClock::new(), 5_000).unwrap();
        assert_eq!(found.bytes, 8_192);
        assert!((1..=FLUSHES as u64).contains(&found.latencies.len()));
        assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0);
    }
}
