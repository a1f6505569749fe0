//! Random logs whose records have positions, released and opened again: what is needed is found, and nothing else takes
//! room for long.

use super::*;
use crate::disk::MemDisk;

const SETTINGS: LogSettings = LogSettings { kind: LogKind::Paged, ..super::SETTINGS };

/// A log, and what it must hold.
struct Model {
    disk: Arc<dyn Disk>,
    /// The bytes at all positions since it was made.
    bytes: Vec<u8>,
    /// Where records begin that were written at once.
    begins: Vec<usize>,
    /// The position from which on it is needed.
    needed: usize,
}

impl Model {
    fn open(&mut self) -> LogWriter {
        let mut found = Vec::new();
        let mut visit = |at: u64, needed: u64, records: &[u8]| {
            let skipped = needed.saturating_sub(at).min(records.len() as u64);
            found.extend_from_slice(&records[skipped as usize..]);
            Ok(())
        };
        let lock = DirectoryLock::take(&*self.disk).unwrap();
        let disk = Arc::clone(&self.disk);
        let log = ReadLog::read(lock, disk, SETTINGS, &mut visit).unwrap();
        assert_eq!((log.positions.needed, log.positions.torn_bytes), (self.needed as u64, 0));
        assert!(found == self.bytes[self.needed..], "{} bytes were found", found.len());
        log.write_on().unwrap()
    }

    fn append(&mut self, writer: &mut LogWriter, records: &[u8]) {
        while writer.space().available_bytes() < 2 * records.len() as u64 + 4 * 4_096 {
            writer.preparer().prepare_more().unwrap();
        }
        self.begins.push(self.bytes.len());
        self.bytes.extend_from_slice(records);
        writer.append_filling(&[records]).unwrap();
        writer.sync().unwrap();
    }

    fn release(&mut self, writer: &mut LogWriter, position: usize) {
        self.needed = self.needed.max(position);
        writer.release_to(position as u64).unwrap();
        let kept = self.begins.iter().filter(|begin| **begin >= self.needed).count();
        let records = self.bytes.len() - self.needed;
        // Each group has a header and fills its last block up; so do those in which a segment begins and ends.
        let groups = 2 * kept + 2 * records / SETTINGS.segment_bytes as usize;
        let most = records + 600 * groups + 2 * SETTINGS.segment_bytes as usize;
        let used = writer.used_bytes() as usize;
        assert!(used <= most, "{used} bytes are kept for {records}");
    }
}

#[test]
fn a_released_log_keeps_no_more_than_is_needed() {
    for seed in 0..300 {
        let mut random = Random::new(seed);
        // As long as a fraction of a segment, or as several of them.
        let longest = [1_000, 5_000, 12_000, 60_000][random.below(4) as usize];
        let shortest = [1, longest / 2, longest][random.below(3) as usize];
        let disk: Arc<dyn Disk> = Arc::new(MemDisk::new());
        let mut writer = LogWriter::create(Arc::clone(&disk), SETTINGS).unwrap();
        let mut model = Model { disk, bytes: Vec::new(), begins: Vec::new(), needed: 0 };
        for _ in 0..60 {
            match random.below(10) {
                0 => {
                    drop(writer);
                    writer = model.open();
                }
                1 => {
                    let kept = random.below(4) as usize;
                    let first = model.begins.iter().rev().nth(kept).copied();
                    model.release(&mut writer, first.unwrap_or_default());
                }
                2 => {
                    let end = model.bytes.len();
                    model.release(&mut writer, end);
                    writer.trim().unwrap();
                }
                _ => {
                    let length = shortest + random.below(longest - shortest + 1);
                    let records = records(&mut random, length as usize);
                    model.append(&mut writer, &records);
                }
            }
        }
    }
}
