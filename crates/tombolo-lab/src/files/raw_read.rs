//! How long the device alone takes for a random read of a page: the same file, read the same way as by a buffer
//! pool, without a database.
//!
//! Not here: which share of a run that explains (`run/result.rs`).

use tombolo_engine::clock::Clock;
use tombolo_engine::rng::Rng;
use tombolo_storage::disk::{ALIGNMENT_MAX, Disk, DiskError, Open};

use crate::histogram::Latencies;

/// Reads that are timed, at most.
const READS: usize = 4_000;
/// When the probe ends at the latest.
const TIME_MAX_NS: u64 = 1_000_000_000;

/// Times reads of `bytes` bytes at random multiples of `bytes` in the file, one after the other, past the system's page
/// cache where the file system can do that. None if the file has less than one such place.
///
/// # Errors
/// When the disk fails.
pub(crate) fn measure(
    disk: &dyn Disk,
    clock: &dyn Clock,
    (file, bytes): (&str, u64),
    seed: u64,
) -> Result<Latencies, DiskError> {
    let file = disk.open_direct(file, Open::Read)?;
    let places = file.len()? / bytes;
    let mut found = Latencies::default();
    let mut random = Rng::stream(seed, &[]);
    let mut memory = vec![0_u8; bytes as usize + ALIGNMENT_MAX];
    let from = memory.as_ptr().align_offset(ALIGNMENT_MAX);
    let page = &mut memory[from..from + bytes as usize];
    let start_ns = clock.now_ns();
    for _ in 0..if places == 0 { 0 } else { READS } {
        let offset = random.below(places) * bytes;
        let from_ns = clock.now_ns();
        file.read_at(page, offset)?;
        let now_ns = clock.now_ns();
        found.record(now_ns - from_ns);
        if now_ns - start_ns > TIME_MAX_NS {
            break;
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use tombolo_engine::clock::SystemClock;
    use tombolo_storage::disk::OsDisk;

    use super::*;

    #[test]
    fn whole_pages_are_read_and_a_file_without_one_gives_no_figure() {
        let scratch = tempfile::tempdir().unwrap();
        std::fs::write(scratch.path().join("pages"), vec![7; 20_000]).unwrap();
        let disk = OsDisk::open(scratch.path()).unwrap();
        let reads = |bytes| measure(&disk, &SystemClock::new(), ("pages", bytes), 1).unwrap().len();
        assert!((1..=READS as u64).contains(&reads(8_192)));
        assert_eq!(reads(32_768), 0);
        assert!(measure(&disk, &SystemClock::new(), ("log", 8_192), 1).is_err());
    }
}
