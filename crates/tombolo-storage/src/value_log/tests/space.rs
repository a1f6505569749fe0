//! Room is promised before it is needed; a full disk refuses and, with room, accepts again.

use super::*;
use crate::disk::{Fault, MemDisk, Open, Operation};
use std::io::ErrorKind;

#[test]
fn a_full_disk_refuses_before_anything_is_written() {
    let disk = MemDisk::new();
    let mut writer = create(&disk);
    writer.preparer().prepare().unwrap();
    let files = 2 * SETTINGS.segment_bytes;
    disk.set_capacity_bytes(Some(files));
    let mut written = 0;
    let full = loop {
        match writer.append_group(&[&[1; 500]], 1, None) {
            Ok(_) => written += 1,
            Err(failure) => break failure,
        }
    };
    assert!(full.is_full() && full.to_string().contains("full"), "{full}");
    assert!(written > 10, "{written}");
    writer.sync().unwrap();
    writer.seal().unwrap();
    assert!(matches!(writer.space().reserve(500), Err(NoRoom::Device(_))));
    disk.set_capacity_bytes(Some(2 * files));
    writer.append_group(&[b"there is room again"], 1, None).unwrap();
    writer.sync().unwrap();
    drop(writer);
    let (again, groups) = recovered(&disk);
    assert_eq!(groups.len(), written + 1);
    assert_eq!(again.cut, None);
}

/// Longer than one segment was promised, and then it was less: one group, and the end of a segment
/// that had no room for it.
#[test]
fn a_promise_is_enough_for_less() {
    let capacity = SETTINGS.segment_bytes - 8192;
    for filled in [400, 2_000, 5_000] {
        for bytes in (500..capacity - 64).step_by(300) {
            let disk = MemDisk::new();
            let settings = LogSettings { segments_ahead: 3, ..SETTINGS };
            let mut writer = LogWriter::create(Arc::new(disk), settings).unwrap();
            while writer.preparer().prepare().unwrap() {}
            writer.append_group(&[&vec![1; filled]], 1, None).unwrap();
            let reservation = writer.space().reserve(capacity + 1).unwrap();
            let records = vec![2; bytes as usize];
            writer.append_group(&[&records], 1, Some(reservation)).unwrap();
        }
    }
}

#[test]
fn a_limit_refuses_until_segments_are_released() {
    let disk: Arc<dyn Disk> = Arc::new(MemDisk::new());
    let settings = LogSettings { log_bytes_max: 3 * SETTINGS.segment_bytes, ..SETTINGS };
    let mut writer = LogWriter::create(disk, settings).unwrap();
    let full = loop {
        if let Err(failure) = writer.append_group(&[&[1; 3_000]], 1, None) {
            break failure;
        }
    };
    assert!(full.to_string().contains("log_bytes_max"), "{full}");
    writer.sync().unwrap();
    assert_eq!(writer.release_before(writer.durable()), 2);
    writer.append_group(&[&[1; 3_000]], 1, None).unwrap();
}

/// A segment that could not be used again for lack of room is there for the next try.
#[test]
fn a_spare_segment_outlives_a_full_disk() {
    let disk = MemDisk::new();
    let settings = LogSettings { log_bytes_max: 3 * SETTINGS.segment_bytes, ..SETTINGS };
    let mut writer = LogWriter::create(Arc::new(disk.clone()), settings).unwrap();
    while writer.append_group(&[&[1; 3_000]], 1, None).is_ok() {}
    writer.sync().unwrap();
    writer.release_before(writer.durable());
    let full = Fault { operation: Operation::Write, after: 0, kind: ErrorKind::StorageFull };
    disk.set_fault(Some(full));
    for _ in 0..4 {
        let refused = writer.preparer().prepare().unwrap_err();
        assert!(refused.is_full(), "{refused}");
    }
    disk.set_fault(None);
    let segments = || disk.list().unwrap().iter().filter(|name| name.starts_with("log-")).count();
    assert_eq!(segments(), 3);
    let mut written = 0;
    while writer.append_group(&[&[2; 3_000]], 1, None).is_ok() {
        written += 1;
    }
    writer.sync().unwrap();
    assert!(written >= 4 && segments() == 3, "{written} groups, {} segments", segments());
}

#[test]
fn what_is_trimmed_makes_room_and_is_not_missed() {
    let disk = MemDisk::new();
    let settings = LogSettings { log_bytes_max: 3 * SETTINGS.segment_bytes, ..SETTINGS };
    let mut writer = LogWriter::create(Arc::new(disk.clone()), settings).unwrap();
    while writer.append_group(&[&[1; 3_000]], 1, None).is_ok() {}
    writer.sync().unwrap();
    assert_eq!(writer.trim().unwrap(), 0, "all of it is needed");
    let newest = writer.durable();
    writer.release_before(newest);
    assert_eq!(writer.trim().unwrap(), 2);
    let segments = disk.list().unwrap().into_iter().filter(|name| name.starts_with("log-"));
    assert_eq!(segments.count(), 1);
    while writer.append_group(&[&[2; 3_000]], 1, None).is_ok() {}
    writer.sync().unwrap();
    let last = writer.durable();
    assert!(last >= newest + 2, "two segments were made again");
    drop(writer);
    let options = RecoverOptions { first: newest.into(), ..RecoverOptions::default() };
    let mut found = Vec::new();
    let mut replay = |number, _: &[u8]| {
        found.push(number);
        Ok(())
    };
    recover(Arc::new(disk), settings, options, &mut replay, &mut |_| {}).unwrap();
    assert_eq!(found, Vec::from_iter(newest..=last));
}

#[test]
fn what_is_reserved_is_there() {
    let disk = MemDisk::new();
    let mut writer = create(&disk);
    let (space, preparer) = (writer.space(), writer.preparer());
    assert!(preparer.is_wanted());
    assert!(preparer.prepare().unwrap());
    assert!(!preparer.is_wanted() && !preparer.prepare().unwrap());
    disk.set_capacity_bytes(Some(0));
    let before = space.available_bytes();
    let given_back = space.reserve(1_500).unwrap();
    let mut reservations = Vec::new();
    while let Ok(reservation) = space.reserve(700) {
        reservations.push(reservation);
    }
    drop(given_back);
    assert!(space.reserve(700).is_ok());
    assert!(!reservations.is_empty());
    for reservation in reservations {
        let bytes = reservation.bytes() as usize;
        writer.append_group(&[&vec![3; bytes]], 1, Some(reservation)).unwrap();
        writer.sync().unwrap();
    }
    assert!(space.available_bytes() < before);
    let short = space.reserve(10).unwrap();
    let full = writer.append_group(&[&[1; 20_000]], 1, Some(short)).unwrap_err();
    assert!(full.is_full(), "{full}");
    let left = space.available_bytes();
    assert!(writer.usage().written_bytes + left <= before + 512, "the first group took a block");
}

#[test]
fn no_room_yet_is_not_full() {
    let disk = MemDisk::new();
    let writer = create(&disk);
    let space = writer.space();
    assert_eq!(space.reserve(20_000).unwrap_err(), NoRoom::NotReady);
    for _ in 0..4 {
        // Two segments more than are kept ready, but no more than one at a time.
        _ = writer.preparer().prepare().unwrap();
    }
    assert!(space.reserve(3_000).is_ok());
    disk.set_capacity_bytes(Some(0));
    let settings = LogSettings { segments_ahead: 3, ..SETTINGS };
    let disk = MemDisk::new();
    let writer = LogWriter::create(Arc::new(disk.clone()), settings).unwrap();
    disk.set_capacity_bytes(Some(settings.segment_bytes));
    assert!(writer.preparer().prepare().unwrap_err().is_full());
    assert!(matches!(writer.space().reserve(20_000), Err(NoRoom::Device(_))));
    disk.set_capacity_bytes(None);
    assert!(writer.preparer().prepare().unwrap());
}

#[test]
fn a_failed_preparation_is_final() {
    use crate::disk::{Fault, Operation};
    let disk = MemDisk::new();
    let mut writer = create(&disk);
    let kind = ErrorKind::Other;
    disk.set_fault(Some(Fault { operation: Operation::Sync, after: 0, kind }));
    let failure = writer.preparer().prepare().unwrap_err();
    disk.set_fault(None);
    assert_eq!(writer.append_group(&[b"x"], 1, None), Err(failure.clone()));
    assert_eq!(writer.preparer().prepare(), Err(failure));
}

/// Whichever way the length of segments is changed from one life to the next, promises hold, groups as
/// long as a new segment find room, and files of another length go.
#[test]
fn segments_of_another_length_are_replaced() {
    for seed in 0..60 {
        let (disk, mut random) = (MemDisk::new(), Random::new(seed));
        let mut expected = Groups::new();
        let mut first = 1;
        for life in 0..4 {
            let segment_bytes = (16 << 10) << random.below(5);
            let segment_bytes_first = (16 << 10) << random.below(5);
            let segments_ahead = 1 + random.below(2) as usize;
            let settings =
                LogSettings { segment_bytes, segment_bytes_first, segments_ahead, ..SETTINGS };
            let mut writer = match life {
                0 => LogWriter::create(Arc::new(disk.clone()), settings).unwrap(),
                _ => {
                    let options = RecoverOptions { first: first.into(), ..Default::default() };
                    let (recovered, groups) = recover_as(&disk, settings, options).unwrap();
                    let records: Vec<u8> = groups.into_iter().flat_map(|group| group.1).collect();
                    let known: Vec<u8> =
                        expected.iter().flat_map(|group| group.1.clone()).collect();
                    assert!(records == known, "seed {seed}");
                    recovered.writer
                }
            };
            for _ in 0..40 {
                while writer.preparer().prepare().unwrap() {}
                // As much as a new segment holds, or more than one.
                let most = writer.space().ahead_bytes() / 2 - 1_024;
                let length = match random.below(3) {
                    0 => random.below(most) as usize,
                    1 => most as usize - random.below(64) as usize,
                    _ => random.below(900) as usize + 1,
                };
                let promised = length as u64 + random.below(most - length as u64 + 1);
                let reservation = reserve_in_time(&writer, promised);
                let records = records(&mut random, length);
                let number = writer.append_group(&[&records], 1, Some(reservation)).unwrap();
                expected.push((number, records));
                if random.below(4) == 0 {
                    writer.sync().unwrap();
                    first = writer.durable();
                    writer.release_before(first);
                    expected.retain(|group| group.0 >= first);
                }
            }
            writer.sync().unwrap();
            first = writer.durable();
            writer.release_before(first);
            expected.retain(|group| group.0 >= first);
            while writer.preparer().prepare().unwrap() {}
            assert!(writer.space().ahead_bytes() >= segment_bytes - 8_192);
        }
    }
}

/// Reserves what is allowed, making segments as long as some are wanted.
fn reserve_in_time(writer: &LogWriter, bytes: u64) -> Reservation {
    loop {
        match writer.space().reserve(bytes) {
            Ok(reservation) => return reservation,
            Err(why) => assert!(writer.preparer().prepare().unwrap(), "{bytes} bytes: {why}"),
        }
    }
}

/// The lengths of a log's files.
fn lengths(disk: &MemDisk) -> Vec<u64> {
    let mut names = disk.list().unwrap();
    names.retain(|name| name.starts_with("log-"));
    names.sort();
    names.iter().map(|name| disk.open(name, Open::Read).unwrap().len().unwrap()).collect()
}

const GROWING: LogSettings =
    LogSettings { segment_bytes: 1 << 20, segment_bytes_first: 16 << 10, ..SETTINGS };

/// A log that is new, and one that is opened again, is small; a segment is never longer than half of what
/// was in use when it was made; in the end they are as long as the settings say.
#[test]
fn segments_grow_with_the_log() {
    let disk = MemDisk::new();
    let mut writer = LogWriter::create(Arc::new(disk.clone()), GROWING).unwrap();
    while writer.preparer().prepare().unwrap() {}
    assert_eq!(lengths(&disk), [16 << 10; 2]);
    let (mut random, mut expected) = (Random::new(1), Groups::new());
    while lengths(&disk).last() != Some(&GROWING.segment_bytes) {
        let records = records(&mut random, 3_000);
        let reservation = writer.space().reserve(3_000).unwrap();
        let number = writer.append_group(&[&records], 1, Some(reservation)).unwrap();
        expected.push((number, records));
        while writer.preparer().prepare().unwrap() {}
    }
    let lengths = lengths(&disk);
    let mut before = 0;
    for (place, &length) in lengths.iter().enumerate() {
        assert!(place < 2 || length <= (before / 2).max(16 << 10), "{place}: {lengths:?}");
        before += length;
    }
    writer.seal().unwrap();
    drop(writer);
    let (recovered, groups) = recover_as(&disk, GROWING, RecoverOptions::default()).unwrap();
    assert!(groups == expected && recovered.cut.is_none());
}

/// What is longer than a small log's segments is a matter of a moment: it is refused once, and then there
/// is a segment as long as the settings say, whatever the limit leaves.
#[test]
fn what_the_settings_promise_is_there_in_a_small_log() {
    for log_bytes_max in [4 * GROWING.segment_bytes, u64::MAX] {
        let disk = MemDisk::new();
        let settings = LogSettings { log_bytes_max, ..GROWING };
        let mut writer = LogWriter::create(Arc::new(disk.clone()), settings).unwrap();
        while writer.preparer().prepare().unwrap() {}
        let space = writer.space();
        let most = space.ahead_bytes() / 2 - 1_024;
        assert!(most > 500_000);
        assert_eq!(space.reserve(most).unwrap_err(), NoRoom::NotReady);
        assert!(writer.preparer().is_wanted() && !space.is_all_ready());
        let (mut random, mut last) = (Random::new(2), None);
        for _ in 0..4 {
            // With all of it in use, and with a short segment ready.
            while writer.preparer().prepare().unwrap() {}
            let reservation = reserve_in_time(&writer, most);
            let records = records(&mut random, most as usize);
            let number = writer.append_group(&[&records], 1, Some(reservation)).unwrap();
            writer.seal().unwrap();
            writer.release_before(number);
            last = Some((number, records));
        }
        drop(writer);
        let first = last.as_ref().map_or(0, |last| last.0).into();
        let options = RecoverOptions { first, ..RecoverOptions::default() };
        let (_, groups) = recover_as(&disk, settings, options).unwrap();
        assert!(groups.last() == last.as_ref());
    }
}

/// No request makes more ready than the settings say.
#[test]
fn more_than_is_promised_is_not_made() {
    let disk = MemDisk::new();
    let writer = LogWriter::create(Arc::new(disk.clone()), GROWING).unwrap();
    let space = writer.space();
    assert_eq!(space.reserve(64 << 20).unwrap_err(), NoRoom::NotReady);
    while writer.preparer().prepare().unwrap() {}
    assert!(space.is_all_ready() && !writer.preparer().is_wanted());
    assert!(lengths(&disk).iter().sum::<u64>() <= GROWING.segment_bytes + (64 << 10));
}
