//! Full disks, torn tails, flipped bits, headers of other versions.

use super::*;
use crate::disk::{DiskFile, Open};
use crate::error::Error;
use crate::log::file::RECORDS_OFFSET;
use crate::log::{LOG_FILE, LogEnd, LogFailure};

fn file(disk: &MemDisk) -> Box<dyn DiskFile> {
    disk.open(LOG_FILE, Open::Write).unwrap()
}

fn flip(disk: &MemDisk, offset: u64, bit: u32) {
    let file = file(disk);
    let mut byte = [0];
    file.read_at(&mut byte, offset).unwrap();
    file.write_at(&[byte[0] ^ 1 << bit], offset).unwrap();
}

fn end(disk: &MemDisk) -> Result<LogEnd, LogError> {
    read_log(disk, |_, _| ())
}

/// The offset at which a log is said to be damaged.
fn damaged_at(error: &LogError) -> Option<u64> {
    match error.failure() {
        LogFailure::Damaged { file, offset, .. } if file == LOG_FILE => Some(*offset),
        _ => None,
    }
}

/// A log of `count` committed transactions that was not closed, and where its records begin.
fn unclosed(count: u64) -> (MemDisk, Vec<u64>) {
    let disk = MemDisk::new();
    let log = DiskLog::create(settings(), Some(&disk)).unwrap();
    for id in 1..=count {
        commit_one(&log, id).unwrap();
    }
    let mut offsets = Vec::new();
    let base = end(&disk).unwrap().base;
    read_log(&disk, |lsn, _| offsets.push(RECORDS_OFFSET + lsn - base)).unwrap();
    (disk, offsets)
}

/// A full disk refuses changes; every transaction can still abort, or commit what it did and be
/// found.
#[test]
fn a_full_disk_stops_changes_only() {
    let disk = MemDisk::new();
    let log = DiskLog::create(settings_small(), Some(&disk)).unwrap();
    disk.set_capacity_bytes(Some(4 << 20));
    let mut sessions = [(); 3].map(|()| LogTransaction::default());
    for (id, session) in sessions.iter_mut().enumerate() {
        log.begin(session, id as u64 + 1);
        log.change(session, update(id as u64), &[7; 500], &[8; 500]).unwrap();
    }
    let created = Change { kind: ChangeKind::RowCreated, ..update(5) };
    let mut turn = 0;
    let full = loop {
        turn += 1;
        let (change, bytes) = if turn % 3 == 0 { (update(6), 90) } else { (created, 900) };
        let session = &mut sessions[turn % 2];
        if let Err(error) = log.change(session, change, &vec![1; bytes], &vec![2; bytes]) {
            break error;
        }
        assert!(log.usage().bytes < 8 << 20, "the disk is never full");
    };
    assert!(matches!(full, Error::Disk { .. }), "{full:?}");
    let [first, second, third] = &mut sessions;
    let mut undo = UndoRecord::new();
    while log.next_undo(first, &mut undo) {
        log.compensate(first, undo.change, &undo.after, &undo.before).unwrap();
    }
    log.end_abort(first).unwrap();
    let lsn = log.commit(second).unwrap();
    log.harden(lsn).unwrap();
    let lsn = log.commit(third).unwrap();
    log.harden(lsn).unwrap();
    assert_eq!(committed(&disk).unwrap(), [2, 3]);
    assert_eq!(log.check(), []);
    disk.set_capacity_bytes(None);
    commit_one(&log, 9).unwrap();
    assert_eq!(committed(&disk).unwrap(), [2, 3, 9]);
}

/// What a committed transaction deleted can be cleared away whatever others do meanwhile.
#[test]
fn a_full_disk_lets_a_committed_transaction_clear_away() {
    let disk = MemDisk::new();
    let log = DiskLog::create(settings_small(), Some(&disk)).unwrap();
    disk.set_capacity_bytes(Some(4 << 20));
    let deleted = Change { kind: ChangeKind::RowDeleted, ..update(5) };
    let purged = Change { kind: ChangeKind::RowPurged, ..deleted };
    let [mut first, mut second] = [(); 2].map(|()| LogTransaction::default());
    log.begin(&mut first, 1);
    for _ in 0..100 {
        log.change(&mut first, deleted, &[1; 900], &[]).unwrap();
    }
    let lsn = log.commit(&mut first).unwrap();
    log.harden(lsn).unwrap();
    log.begin(&mut second, 2);
    while log.change(&mut second, update(6), &[7; 100], &[8; 100]).is_ok() {}
    // Nothing is left for changes; structure modifications use up the rest.
    let frames = DirectFrames::<LargePages, Unlatched>::create(&MemDisk::new(), 1 << 20).unwrap();
    let page = frames.new_page(StoreId(9), PageKind::Leaf).unwrap();
    let mut bytes = log.usage().bytes;
    while log.page_images(&[page.page(); 3], &[]).is_ok() {
        bytes = log.usage().bytes;
    }
    assert_eq!(log.usage().bytes, bytes, "a step that does not fit leaves nothing behind");
    for _ in 0..100 {
        log.change(&mut first, purged, &[1; 900], &[]).unwrap();
    }
    log.end_commit(&mut first);
    let lsn = log.commit(&mut second).unwrap();
    log.harden(lsn).unwrap();
    assert_eq!(committed(&disk).unwrap(), [1, 2]);
}

/// A disk too small for a step ahead is used to its end.
#[test]
fn the_last_of_a_disk_is_used() {
    let disk = MemDisk::new();
    let large = LogSettings { extent_bytes: 2 << 20, ..settings() };
    let log = DiskLog::create(large, Some(&disk)).unwrap();
    disk.set_capacity_bytes(Some(3 << 20));
    let mut count = 0;
    while commit_one(&log, count + 1).is_ok() {
        count += 1;
    }
    let file_bytes = log.usage().file_bytes;
    assert!(file_bytes > (3 << 20) - 4_096, "{file_bytes}");
    assert_eq!(committed(&disk).unwrap().len() as u64, count);
}

/// Whatever a crash left of the last flush, the log before it is found whole.
#[test]
fn a_torn_tail_is_found() {
    let (_, offsets) = unclosed(5);
    let last = offsets.len() - 1; // the commit record of the last transaction
    for (record, offset) in offsets.iter().enumerate().skip(last - 1) {
        for torn in 1..=7_u64 {
            let (disk, _) = unclosed(5);
            file(&disk).write_at(&[0xff; 3], offset + torn * 8 - 3).unwrap();
            let end = end(&disk).unwrap();
            assert_eq!(end.lsn - end.base, offset - RECORDS_OFFSET, "record {record}");
            assert!(end.torn_bytes > 0);
            assert_eq!(committed(&disk).unwrap(), [1, 2, 3, 4]);
        }
    }
    let (disk, _) = unclosed(5);
    let end = end(&disk).unwrap();
    assert_eq!((end.torn_bytes, committed(&disk).unwrap()), (0, vec![1, 2, 3, 4, 5]));
}

/// A flush that a crash interrupts may leave its end and not its beginning: no damage.
#[test]
fn a_torn_group_with_an_intact_end_is_no_damage() {
    let asynchronous = LogSettings { durability: Durability::Async, ..settings() };
    let disk = MemDisk::new();
    let log = DiskLog::create(asynchronous, Some(&disk)).unwrap();
    commit_one(&log, 1).unwrap();
    log.flush().unwrap();
    let flushed = end(&disk).unwrap();
    commit_all(&log, 2..5);
    log.flush().unwrap();
    flip(&disk, RECORDS_OFFSET + (flushed.lsn - flushed.base) + 30, 0);
    let torn = end(&disk).unwrap();
    assert_eq!(torn.lsn, flushed.lsn);
    // Up to the last byte that is not zero: in the last record's header.
    let lost = log.usage().bytes - (flushed.lsn - flushed.base);
    assert!((lost - 16..lost).contains(&torn.torn_bytes), "{torn:?}");
}

/// Every bit of what a later record says was durable.
#[test]
fn a_flipped_bit_is_damage_with_its_place() {
    let (disk, offsets) = unclosed(3);
    // Before the last transaction's records: that is where its commit record reaches.
    for (record, window) in offsets.windows(2).enumerate().take(offsets.len() - 2) {
        for offset in window[0]..window[1] {
            let bit = (offset % 8) as u32;
            flip(&disk, offset, bit);
            let error = end(&disk).unwrap_err();
            assert_eq!(damaged_at(&error), Some(window[0]), "record {record}: {error}");
            let refused = DiskLog::open(settings(), Some(&disk)).unwrap_err();
            assert_eq!(damaged_at(&refused), Some(window[0]));
            flip(&disk, offset, bit);
        }
    }
    flip(&disk, offsets[0] + 40, 3);
    assert_eq!(
        end(&disk).unwrap_err().to_string(),
        format!(
            "log is damaged at offset 8192: the checksum is wrong, but record {} says that it \
             was durable",
            offsets[3] - RECORDS_OFFSET + 8
        )
    );
}

/// `check` reads back what it knows to be durable, the newest included.
#[test]
fn check_finds_a_flipped_bit() {
    let disk = MemDisk::new();
    let log = DiskLog::create(settings(), Some(&disk)).unwrap();
    commit_one(&log, 1).unwrap();
    flip(&disk, RECORDS_OFFSET + log.usage().bytes - 9, 2);
    let damage = log.check();
    assert_eq!((damage.len(), damage[0].check), (1, "log"));
    assert!(damage[0].what.contains("log is damaged at offset 8288"), "{}", damage[0].what);
}

#[test]
fn headers_that_are_damaged_or_of_another_version_are_refused() {
    let disk = MemDisk::new();
    DiskLog::create(settings(), Some(&disk)).unwrap().close().unwrap();
    for offset in 0..32 {
        flip(&disk, offset, 4);
        let refused = DiskLog::open(settings(), Some(&disk)).unwrap_err();
        assert_eq!(damaged_at(&refused), Some(0), "{offset}: {refused}");
        assert!(end(&disk).is_err());
        flip(&disk, offset, 4);
    }
    // Another version, with the right checksum.
    let mut header = [0; 32];
    file(&disk).read_at(&mut header, 0).unwrap();
    header[8] = 1;
    let checksum = crc32c::crc32c_append(crc32c::crc32c(&header[..12]), &header[16..]);
    header[12..16].copy_from_slice(&checksum.to_le_bytes());
    file(&disk).write_at(&header, 0).unwrap();
    let refused = DiskLog::open(settings(), Some(&disk)).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "log is damaged at offset 8: format version 1, this program reads 2"
    );
    file(&disk).set_len(5_000).unwrap();
    let refused = DiskLog::open(settings(), Some(&disk)).unwrap_err();
    assert_eq!(damaged_at(&refused), Some(5_000));
}

/// A crash while the log is closed: the header's new copy is torn, or the records are still there.
#[test]
fn a_crash_while_closing_loses_nothing() {
    let (disk, _) = unclosed(2);
    file(&disk).write_at(&[0xab; 20], 4_096).unwrap();
    assert_eq!(committed(&disk).unwrap(), [1, 2]);
    let refused = DiskLog::open(settings(), Some(&disk)).unwrap_err();
    assert!(matches!(refused.failure(), LogFailure::NotClosed { .. }), "{refused}");

    // The new header is durable, the old records are not gone yet.
    let (disk, _) = unclosed(2);
    let old = end(&disk).unwrap();
    let mut records = vec![0; (old.lsn - old.base) as usize];
    file(&disk).read_at(&mut records, RECORDS_OFFSET).unwrap();
    let closed = MemDisk::new();
    let log = DiskLog::create(settings(), Some(&closed)).unwrap();
    commit_all(&log, 1..=2);
    log.close().unwrap();
    drop(log);
    file(&closed).write_at(&records, RECORDS_OFFSET).unwrap();
    let end = end(&closed).unwrap();
    assert_eq!((end.base, end.lsn), (old.lsn, old.lsn));
    let log = DiskLog::open(settings(), Some(&closed)).unwrap();
    commit_one(&log, 3).unwrap();
    assert_eq!(committed(&closed).unwrap(), [3]);
}

#[test]
fn a_copy_of_the_header_that_is_lost_later_is_damage() {
    let disk = MemDisk::new();
    let log = DiskLog::create(settings(), Some(&disk)).unwrap();
    commit_one(&log, 1).unwrap();
    log.close().unwrap();
    drop(log);
    flip(&disk, 4_096 + 24, 1);
    let refused = DiskLog::open(settings(), Some(&disk)).unwrap_err();
    assert_eq!(damaged_at(&refused), Some(4_096), "{refused}");
}
