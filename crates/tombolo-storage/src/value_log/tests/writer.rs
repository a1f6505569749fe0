//! The writer by itself: numbers, several parts, long groups, final failures, refusals.

use std::io::ErrorKind;

use super::*;
use crate::disk::{DiskFile, Fault, MemDisk, Open, Operation};

#[test]
fn what_is_written_is_found() {
    for alignment in [1, 512] {
        let disk = MemDisk::new();
        disk.set_alignment(alignment);
        let mut writer = create(&disk);
        assert_eq!((writer.newest(), writer.durable(), writer.epoch()), (1, 1, 1));
        assert_eq!(writer.usage().is_direct, alignment > 1);
        assert_eq!(writer.append_group(&[b"one ", b"", b"two"], 2, None), Ok(2));
        assert_eq!((writer.newest(), writer.durable()), (2, 1));
        assert_eq!(writer.append_group(&[b"three"], 1, None), Ok(3));
        assert_eq!(writer.sync(), Ok(3));
        let usage = writer.usage();
        assert_eq!((usage.groups, usage.writes, usage.syncs), (3, 3, 2));
        drop(writer);
        let (again, groups) = recovered(&disk);
        assert_eq!(groups, [(2, b"one two".to_vec()), (3, b"three".to_vec())]);
        assert_eq!((again.transactions, again.groups, again.cut), (3, 3, None));
        assert_eq!((again.writer.newest(), again.writer.epoch()), (4, 2));
        assert_eq!(again.writer.transactions(), 3);
    }
}

#[test]
fn a_group_longer_than_a_segment_is_one_group() {
    let disk = MemDisk::new();
    let mut random = Random::new(1);
    let mut writer = create(&disk);
    let mut expected = Groups::new();
    for length in [100_000, 3, 7_000, 8_128, 8_129, 40_000] {
        let bytes = records(&mut random, length);
        let (head, tail) = bytes.split_at(length / 3);
        let number = writer.append_group(&[head, tail], 1, None).unwrap();
        expected.push((number, bytes));
    }
    let syncs = writer.usage().syncs;
    writer.sync().unwrap();
    assert!(writer.usage().syncs > syncs + 10, "segments left behind are synced too");
    let syncs = writer.usage().syncs;
    writer.append_group(&[b"short"], 1, None).unwrap();
    writer.sync().unwrap();
    assert_eq!(writer.usage().syncs, syncs + 1, "one sync per flush");
    expected.push((writer.newest(), b"short".to_vec()));
    drop(writer);
    let (again, groups) = recovered(&disk);
    assert!(groups == expected);
    assert_eq!(again.transactions, 7);
}

/// A log that is opened with another salt makes its segments with the one it has.
#[test]
fn a_log_goes_on_with_its_own_salt() {
    let disk = MemDisk::new();
    let mut expected = Groups::new();
    let mut random = Random::new(3);
    for salt in [SETTINGS.salt, 77, 78] {
        let settings = LogSettings { salt, ..SETTINGS };
        let mut writer = match expected.is_empty() {
            true => create(&disk),
            false => {
                let again = recover_as(&disk, settings, RecoverOptions::default()).unwrap();
                assert!(again.1 == expected);
                again.0.writer
            }
        };
        assert_eq!(writer.salt(), SETTINGS.salt);
        for _ in 0..12 {
            let bytes = records(&mut random, 3_000);
            expected.push((writer.append_group(&[&bytes], 1, None).unwrap(), bytes));
        }
        writer.seal().unwrap();
        assert!(writer.left_behind() > 0, "it went on in other segments");
    }
    assert!(recovered(&disk).1 == expected);
}

#[test]
fn an_idle_log_is_sealed_once() {
    let disk = MemDisk::new();
    let mut writer = create(&disk);
    assert!(writer.is_sealed());
    assert_eq!(writer.seal(), Ok(1));
    writer.append_group(&[b"x"], 1, None).unwrap();
    assert!(!writer.is_sealed());
    assert_eq!((writer.seal(), writer.seal()), (Ok(3), Ok(3)));
    assert!(writer.is_sealed() && writer.durable() == 3);
}

#[test]
fn a_failed_write_or_sync_is_final() {
    for operation in [Operation::Write, Operation::Sync] {
        let disk = MemDisk::new();
        let mut writer = create(&disk);
        writer.append_group(&[b"before"], 1, None).unwrap();
        writer.sync().unwrap();
        disk.set_fault(Some(Fault { operation, after: 0, kind: ErrorKind::Other }));
        let appended = writer.append_group(&[b"lost"], 1, None).map(drop);
        let failure = appended.and_then(|()| writer.sync().map(drop)).unwrap_err();
        assert!(matches!(&failure, LogFailure::Disk(error) if error.operation() == operation));
        assert!(failure.poison().poisons() && !failure.is_full());
        disk.set_fault(None);
        assert_eq!(writer.sync(), Err(failure.clone()));
        assert_eq!(writer.append_group(&[b"x"], 1, None), Err(failure.clone()));
        assert_eq!(writer.seal(), Err(failure.clone()));
        assert_eq!((writer.failure(), writer.durable()), (Some(&failure), 2));
    }
}

#[test]
fn a_directory_has_one_log_and_one_user() {
    let disk = MemDisk::new();
    assert_eq!(recover_with(&disk, RecoverOptions::default()).unwrap_err(), LogFailure::NoLog);
    let writer = create(&disk);
    let again = |disk: &MemDisk| LogWriter::create(Arc::new(disk.clone()), SETTINGS).unwrap_err();
    assert!(matches!(again(&disk), LogFailure::InUse { .. }));
    let in_use = recover_with(&disk, RecoverOptions::default()).unwrap_err();
    assert!(in_use.to_string().contains("in use"), "{in_use}");
    drop(writer);
    assert!(matches!(again(&disk), LogFailure::Exists { file } if file == "log-000001"));
    recovered(&disk);
}

#[test]
fn settings_that_make_no_log_are_refused() {
    let wrong: [fn(&mut LogSettings); 6] = [
        |settings| settings.block_bytes = 700,
        |settings| settings.block_bytes = 16 << 10,
        |settings| settings.segment_bytes = 8 << 10,
        |settings| settings.segment_bytes += 100,
        |settings| settings.segment_bytes = 2 << 30,
        |settings| settings.log_bytes_max = settings.segment_bytes,
    ];
    for change in wrong {
        let mut settings = SETTINGS;
        change(&mut settings);
        let refused = LogWriter::create(Arc::new(MemDisk::new()), settings).unwrap_err();
        assert!(matches!(refused, LogFailure::Settings(_)), "{settings:?}");
    }
    assert_eq!(SETTINGS.check(), Ok(()));
    assert_eq!(LogSettings::default().check(), Ok(()));
}

#[test]
fn released_segments_are_used_again() {
    let disk = MemDisk::new();
    let mut random = Random::new(2);
    let mut writer = create(&disk);
    let mut expected = Groups::new();
    let mut files = 0;
    for round in 0..60 {
        let bytes = records(&mut random, 1_500);
        let number = writer.append_group(&[&bytes], 1, None).unwrap();
        expected.push((number, bytes));
        writer.sync().unwrap();
        if round % 10 == 9 {
            expected.drain(..expected.len() - 3);
            writer.release_before(expected[0].0);
            files = files.max(disk.list().unwrap().len());
        }
    }
    assert!(files <= 7, "{files} files for a few kilobytes that are needed");
    drop(writer);
    let first = expected[0].0;
    let options =
        RecoverOptions { first: first.into(), accept_loss: false, keep: None, last: None };
    let (again, groups) = recover_with(&disk, options).unwrap();
    assert!(groups == expected);
    assert_eq!(again.transactions, 3);
    drop(again);
    let missing = recover_with(&disk, RecoverOptions::default()).unwrap_err();
    assert!(matches!(missing, LogFailure::Damaged { group: 1, .. }), "{missing}");
    let options = RecoverOptions { first: 1_000.into(), accept_loss: true, keep: None, last: None };
    let late = recover_with(&disk, options).unwrap_err();
    assert!(late.to_string().contains("group 1000 is the first"), "{late}");
    assert!(matches!(late, LogFailure::Irreparable { .. }), "{late}");
}

/// What the operating system's files are asked for is what they do.
#[test]
fn the_systems_disk_holds_a_log() {
    let name = format!("tombolo-value-log-{}", std::process::id());
    let path = std::env::temp_dir().join(name);
    _ = std::fs::remove_dir_all(&path);
    let disk: Arc<dyn Disk> = Arc::new(crate::disk::OsDisk::create(&path).unwrap());
    let mut writer = LogWriter::create(Arc::clone(&disk), SETTINGS).unwrap();
    for _ in 0..20 {
        writer.append_group(&[&[7; 3_000]], 1, None).unwrap();
        writer.sync().unwrap();
    }
    let in_use = LogWriter::create(Arc::clone(&disk), SETTINGS).unwrap_err();
    assert!(matches!(in_use, LogFailure::InUse { .. }), "{in_use}");
    drop(writer);
    let (mut groups, mut calls) = (0, 0);
    let mut replay = |_, records: &[u8]| {
        assert_eq!(records, [7; 3_000]);
        groups += 1;
        Ok(())
    };
    let options = RecoverOptions::default();
    let again = recover(Arc::clone(&disk), SETTINGS, options, &mut replay, &mut |_| calls += 1);
    let Recovered { mut writer, transactions, cut, .. } = again.unwrap();
    assert_eq!((groups, transactions, cut), (20, 20, None));
    assert!(calls > 0);
    // Files say where they are, and are removed by their names.
    let files = || disk.list().unwrap().len();
    let (before, released) = (files(), writer.release_before(writer.durable()));
    assert!(released > 0);
    assert_eq!((writer.trim().unwrap(), files()), (released, before - released));
    drop(writer);
    _ = std::fs::remove_dir_all(&path);
}

#[test]
fn the_lock_file_is_left_in_place() {
    let disk = MemDisk::new();
    drop(create(&disk));
    let lock: Box<dyn DiskFile> = disk.open(LOCK_FILE, Open::Write).unwrap();
    assert!(lock.try_lock().unwrap());
}

/// A process that writes the image for another one may outlive it.
#[test]
fn nobody_opens_a_database_whose_image_is_still_written() {
    use crate::value_log::{CheckpointLock, DirectoryLock};
    let disk = MemDisk::new();
    let directory = DirectoryLock::take(&disk).unwrap();
    let image = CheckpointLock::take(&disk).unwrap();
    let in_use = |file: &str| {
        for refused in [DirectoryLock::take(&disk), DirectoryLock::take_to_look(&disk)] {
            let Err(LogFailure::InUse { file: held }) = refused else { panic!("{refused:?}") };
            assert!(held.ends_with(file), "{held}");
        }
    };
    in_use(LOCK_FILE);
    assert!(matches!(CheckpointLock::take(&disk), Err(LogFailure::InUse { .. })));
    drop(directory);
    in_use("checkpoint-lock");
    drop(image);
    let directory = DirectoryLock::take(&disk).unwrap();
    drop(CheckpointLock::take(&disk).unwrap());
    drop(directory);
    DirectoryLock::take_to_look(&disk).unwrap();
}
