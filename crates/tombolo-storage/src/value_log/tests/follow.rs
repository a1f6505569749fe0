//! Groups are read back while the log is written: each once, in order, whatever is written and
//! released.

use super::*;
use crate::disk::{DiskError, DiskFile, MemDisk, Open};

/// What was written and not read back, by the position it ends at.
type Written = Vec<(LogPosition, Vec<u8>)>;

/// Reads up to `to`; what is read is what was written.
fn follow(
    reader: &mut LogReader,
    from: LogPosition,
    to: GroupNumber,
    bytes_max: usize,
    written: &mut Written,
) -> LogPosition {
    let mut check = |position: LogPosition, records: &[u8]| {
        // Empty groups are given, too, and not compared.
        if !records.is_empty() {
            let (expected, bytes) = written.remove(0);
            assert_eq!(position, expected);
            assert!(bytes == records, "the records of group {}", position.group);
        }
        Ok::<_, LogFailure>(())
    };
    let reached = reader.read(from, to, bytes_max, &mut check).unwrap();
    assert!(reached.group <= to && reached.group >= from.group);
    reached
}

#[test]
fn what_was_written_is_read_once_and_in_order() {
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let disk = MemDisk::new();
        let mut writer = create(&disk);
        let mut reader = writer.reader();
        let (mut at, mut written) = (LogPosition::default(), Written::new());
        for _ in 0..200 {
            // Some are longer than a segment.
            let length = if random.below(12) == 0 { 9_000 } else { 3_000 };
            let length = 1 + random.below(length) as usize * 2;
            let bytes = records(&mut random, length);
            writer.append_group(&[&bytes], 1, None).unwrap();
            written.push((writer.position(), bytes));
            let sealed = if random.below(4) == 0 { writer.seal() } else { writer.sync() };
            let durable = sealed.unwrap();
            match random.below(6) {
                0 => at = follow(&mut reader, at, durable, 10_000, &mut written),
                1 => at = follow(&mut reader, at, durable, usize::MAX, &mut written),
                // A reader that has to find its place.
                2 => {
                    reader = writer.reader();
                    at = follow(&mut reader, at, durable, 40_000, &mut written);
                }
                // The groups were taken elsewhere, without reading.
                3 => {
                    at = writer.position();
                    written.clear();
                }
                _ => {}
            }
            if random.below(3) == 0 {
                writer.release_before(at.group);
                _ = writer.preparer().prepare();
            }
        }
        let durable = writer.sync().unwrap();
        at = follow(&mut reader, at, durable, usize::MAX, &mut written);
        assert_eq!((at, written.len()), (writer.position(), 0));
    }
}

#[test]
fn it_goes_on_behind_a_restart() {
    let disk = MemDisk::new();
    let mut writer = create(&disk);
    let mut at = LogPosition::default();
    for epoch in 1..=3 {
        let mut written = Written::new();
        for n in 0..20_usize {
            writer.append_group(&[&vec![n as u8; 900]], 1, None).unwrap();
            written.push((writer.position(), vec![n as u8; 900]));
        }
        let durable = writer.sync().unwrap();
        at = follow(&mut writer.reader(), at, durable, usize::MAX, &mut written);
        assert_eq!((written.len(), writer.epoch()), (0, epoch));
        drop(writer);
        writer = recovered(&disk).0.writer;
    }
}

#[test]
fn a_group_that_is_not_there_is_reported() {
    let disk = MemDisk::new();
    let mut writer = create(&disk);
    for n in 0..60_u8 {
        writer.append_group(&[&[n; 900]], 1, None).unwrap();
    }
    writer.sync().unwrap();
    let ignore = &mut |_: LogPosition, _: &[u8]| Ok::<_, LogFailure>(());
    let newest = writer.position();
    let beyond = writer.reader().read(LogPosition::default(), newest.group + 1, 1 << 20, ignore);
    assert!(matches!(beyond, Err(LogFailure::Damaged { group, .. }) if group == newest.group + 1));
    let other = LogPosition { group: 5, checksum: 1, transactions: 4 };
    let stranger = writer.reader().read(other, newest.group, 1 << 20, ignore);
    assert!(matches!(stranger, Err(LogFailure::Damaged { .. })), "{stranger:?}");
    writer.release_before(newest.group);
    writer.preparer().prepare().unwrap();
    writer.append_group(&[&[1; 12_000]], 1, None).unwrap();
    writer.sync().unwrap();
    let gone = writer.reader().read(LogPosition::default(), newest.group, 1 << 20, ignore);
    assert!(matches!(gone, Err(LogFailure::Damaged { .. })), "{gone:?}");
}

/// A caller that continues an image gets the group it is complete as of once more, whole, however
/// many groups and segments its records are spread over, and then what follows, each once.
#[test]
fn a_group_is_given_again_and_whole() {
    let disk = MemDisk::new();
    let mut writer = create(&disk);
    let mut random = Random::new(5);
    let mut written = Vec::new();
    for n in 0..30_usize {
        let length = if n % 4 == 3 { 20_000 } else { 500 };
        let bytes = records(&mut random, length);
        writer.append_group(&[&bytes], 1, None).unwrap();
        written.push((writer.position(), bytes));
    }
    let durable = writer.sync().unwrap();
    for first in 0..written.len() - 1 {
        let from = written[first].0;
        for bytes_max in [1, usize::MAX] {
            let mut reader = writer.reader();
            reader.again(from);
            let mut expected = written[first..].to_vec();
            let mut at = from;
            while at.group < durable {
                at = follow(&mut reader, at, durable, bytes_max, &mut expected);
            }
            assert_eq!((at, expected.len()), (writer.position(), 0));
        }
    }
    // Not another's.
    let mut reader = writer.reader();
    reader.again(LogPosition { checksum: 1, ..written[6].0 });
    let ignore = &mut |_: LogPosition, _: &[u8]| Ok::<_, LogFailure>(());
    let stranger = LogPosition { checksum: 1, ..written[6].0 };
    let stranger = reader.read(stranger, durable, 1 << 20, ignore);
    assert!(matches!(stranger, Err(LogFailure::Damaged { .. })), "{stranger:?}");
}

/// A directory that lists a segment which is gone when it is opened, as one is that found the disk full
/// while it was made.
#[derive(Clone, Debug)]
struct Fleeting(MemDisk);

impl Disk for Fleeting {
    fn open(&self, name: &str, how: Open) -> Result<Box<dyn DiskFile>, DiskError> {
        self.0.open(name, how)
    }

    fn list(&self) -> Result<Vec<String>, DiskError> {
        let mut names = self.0.list()?;
        if names.iter().any(|name| name == "log-000001") {
            names.push("log-000099".to_owned());
        }
        Ok(names)
    }

    crate::forward_disk!(0: exists remove rename sync_dir);
}

#[test]
fn a_segment_that_goes_while_the_directory_is_read_is_none() {
    let disk = MemDisk::new();
    let mut writer = create(&Fleeting(disk));
    let (bytes, mut written) = (records(&mut Random::new(1), 2_000), Written::new());
    let _ = writer.append_group(&[&bytes], 1, None).unwrap();
    let durable = writer.sync().unwrap();
    written.push((writer.position(), bytes));
    let from = LogPosition::default();
    follow(&mut writer.reader(), from, durable, usize::MAX, &mut written);
    assert!(written.is_empty());
}
