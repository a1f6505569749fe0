//! What the device itself takes for a flush: the same number of bytes written and forced to it, in
//! the same directory and the same way, without a database.
//!
//! Twice, in turns: one flush right behind the other, and each after a pause. A device that had
//! nothing to do for a moment, and the system below it, take longer to begin: what a lone caller
//! waits for is the second. In a pause the processor stays awake, so that what it takes to wake up
//! is not counted as the device's.
//!
//! The file is written over beforehand, like a log's segments, and goes when the probe is over.

use tombolo_engine::clock::Clock;
use tombolo_storage::disk::{ALIGNMENT_MAX, Disk, DiskError, Open};

use crate::histogram::Latencies;

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

/// What was found.
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

/// Times flushes of `bytes` bytes, rounded up to what the device writes at once; half of them begin
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
    let bytes = (bytes.max(1) as usize).next_multiple_of(ALIGNMENT_MAX);
    let found = time(disk, clock, bytes, pause_ns);
    let removed = disk.remove(FILE);
    let [latencies, paced] = found?;
    removed?;
    Ok(RawFlush { bytes: bytes as u64, latencies, paced, pause_ns })
}

/// Flushes without a pause, and with one.
fn time(
    disk: &dyn Disk,
    clock: &dyn Clock,
    bytes: usize,
    pause_ns: u64,
) -> Result<[Latencies; 2], DiskError> {
    let places = FILE_BYTES.div_ceil(bytes);
    // Direct writes want an aligned address, which no vector promises.
    let memory = vec![0xA5_u8; bytes + ALIGNMENT_MAX];
    let from = memory.as_ptr().align_offset(ALIGNMENT_MAX);
    let buffer = &memory[from..from + bytes];
    let file = disk.open_direct(FILE, Open::New)?;
    file.set_len((places * bytes) as u64)?;
    (0..places).try_for_each(|place| file.write_at(buffer, (place * bytes) as u64))?;
    file.sync()?;
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
        file.write_at(buffer, (flush % places * bytes) as u64)?;
        file.sync()?;
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
