//! Full disks, torn tails, flipped bits, segments that are missing or of another log.

use super::*;
use crate::disk::{DiskFile, Open};
use crate::error::Error;
use crate::log::{LogEnd, LogFailure};
use crate::value_log::{LogKind, LogWriter};

/// The segment that everything is in unless a test writes more.
const FIRST: &str = "log-000001";

/// Groups begin at multiples of this, from the third on; the first one begins the epoch.
const BLOCK: u64 = 4096;

/// Bytes of a group with a transaction of [`commit_one`].
const GROUP_BYTES: u64 = 64 + 56 + 40;

/// Where the group of a transaction lies if each has one.
const fn group(transaction: u64) -> u64 {
    (2 + transaction) * BLOCK
}

fn file(disk: &MemDisk) -> Box<dyn DiskFile> {
    disk.open(FIRST, Open::Write).unwrap()
}

fn flip_in(disk: &MemDisk, name: &str, offset: u64, bit: u32) {
    let file = disk.open(name, Open::Write).unwrap();
    let mut byte = [0];
    file.read_at(&mut byte, offset).unwrap();
    file.write_at(&[byte[0] ^ 1 << bit], offset).unwrap();
}

fn flip(disk: &MemDisk, offset: u64, bit: u32) {
    flip_in(disk, FIRST, offset, bit);
}

fn end(disk: &MemDisk) -> Result<LogEnd, LogError> {
    read_log(disk, 0, |_, _| ())
}

/// The offset in the first segment at which a log is said to be damaged.
fn damaged_at(error: &LogError) -> Option<u64> {
    match error.failure() {
        LogFailure::Damaged { file, offset, .. } if file == FIRST => Some(*offset),
        _ => None,
    }
}

/// A log of `count` committed transactions that was not closed.
fn unclosed(count: u64) -> MemDisk {
    let disk = MemDisk::new();
    let log = DiskLog::create(settings(), on(&disk)).unwrap();
    commit_all(&log, 1..=count);
    disk
}

fn open(disk: &MemDisk) -> LogError {
    DiskLog::open(settings(), on(disk)).unwrap_err()
}

/// A full disk refuses changes; every transaction can still abort, or commit what it did and be
/// found, even if every record is flushed by itself because its page is evicted.
#[test]
fn a_full_disk_stops_changes_only() {
    [false, true].into_iter().for_each(stops_changes_only);
}

fn stops_changes_only(is_each_flushed: bool) {
    let disk = MemDisk::new();
    let log = DiskLog::create(settings_small(), on(&disk)).unwrap();
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
    assert_eq!(full, Error::LogFull { again: true });
    let [first, second, third] = &mut sessions;
    let mut undo = UndoRecord::new();
    while log.next_undo(first, &mut undo) {
        let lsn = log.compensate(first, undo.change, &undo.after, &undo.before).unwrap();
        if is_each_flushed {
            log.ahead().flush_to(lsn.unwrap()).unwrap();
            assert!(log.core.flusher.as_ref().unwrap().durable() > lsn.unwrap());
        }
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
    let log = DiskLog::create(settings_small(), on(&disk)).unwrap();
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
    let mut page = frames.new_page(StoreId(9), PageKind::Leaf).unwrap();
    page.page_mut().body_mut().fill(1);
    let mut bytes = log.usage().bytes;
    while log.step(&Step::of(&[page.page(); 3])).is_ok() {
        bytes = log.usage().bytes;
    }
    assert_eq!(log.usage().bytes, bytes, "a step that does not fit leaves nothing behind");
    for _ in 0..100 {
        let lsn = log.change(&mut first, purged, &[1; 900], &[]).unwrap();
        log.ahead().flush_to(lsn.unwrap()).unwrap();
    }
    log.end_commit(&mut first).unwrap();
    let lsn = log.commit(&mut second).unwrap();
    log.harden(lsn).unwrap();
    assert_eq!(committed(&disk).unwrap(), [1, 2]);
}

/// A disk is used up to the last segment that it has room for.
#[test]
fn the_last_of_a_disk_is_used() {
    let disk = MemDisk::new();
    let log = DiskLog::create(settings(), on(&disk)).unwrap();
    disk.set_capacity_bytes(Some(3 << 20));
    let mut count = 0;
    while commit_one(&log, count + 1).is_ok() {
        count += 1;
    }
    let file_bytes = log.usage().file_bytes;
    assert!(file_bytes + (64 << 10) + (128 << 10) > 3 << 20, "{file_bytes}");
    assert_eq!(committed(&disk).unwrap().len() as u64, count);
    // It could still be closed, and continues once there is room.
    log.close().unwrap();
    drop(log);
    let log = DiskLog::open(settings(), on(&disk)).unwrap();
    disk.set_capacity_bytes(None);
    commit_one(&log, count + 1).unwrap();
    assert_eq!(committed(&disk).unwrap(), [count + 1]);
}

/// Whatever a crash left of the last flush, the log before it is found whole.
#[test]
fn a_torn_tail_is_found() {
    let disk = unclosed(5);
    let whole = end(&disk).unwrap();
    assert_eq!((whole.torn_bytes, committed(&disk).unwrap()), (0, vec![1, 2, 3, 4, 5]));
    for at in 0..GROUP_BYTES {
        flip(&disk, group(5) + at, (at % 8) as u32);
        let torn = end(&disk).unwrap();
        assert_eq!(torn.lsn, whole.lsn - 96, "{at}");
        assert!(torn.torn_bytes > 0);
        assert_eq!(committed(&disk).unwrap(), [1, 2, 3, 4]);
        flip(&disk, group(5) + at, (at % 8) as u32);
    }
}

/// A flush that a crash interrupts may leave its end and not its beginning: no damage.
#[test]
fn a_torn_group_with_an_intact_end_is_no_damage() {
    let asynchronous = LogSettings { durability: Durability::Async, ..settings() };
    let disk = MemDisk::new();
    let log = DiskLog::create(asynchronous, on(&disk)).unwrap();
    commit_one(&log, 1).unwrap();
    log.flush().unwrap();
    let flushed = end(&disk).unwrap();
    commit_all(&log, 2..5);
    log.flush().unwrap();
    assert_eq!(committed(&disk).unwrap(), [1, 2, 3, 4]);
    flip(&disk, group(2) + 64 + 30, 0);
    let torn = end(&disk).unwrap();
    assert_eq!((torn.lsn, torn.torn_bytes), (flushed.lsn, BLOCK));
}

/// Every bit of what a later group says was durable.
#[test]
fn a_flipped_bit_is_damage_with_its_place() {
    let disk = unclosed(3);
    for transaction in 1..=2 {
        for at in 0..GROUP_BYTES {
            let (offset, bit) = (group(transaction) + at, (at % 8) as u32);
            flip(&disk, offset, bit);
            let error = end(&disk).unwrap_err();
            assert_eq!(damaged_at(&error), Some(group(transaction)), "{at}: {error}");
            assert_eq!(damaged_at(&open(&disk)), Some(group(transaction)));
            flip(&disk, offset, bit);
        }
    }
    flip(&disk, group(1) + 64 + 40, 3);
    assert_eq!(
        end(&disk).unwrap_err().to_string(),
        "log-000001 is damaged at offset 12288: it is missing or damaged, but group 3 in log-000001 \
         at offset 16384 says that it was durable; 3 groups would be lost"
    );
}

/// `check` reads back what it knows to be durable, the newest included.
#[test]
fn check_finds_a_flipped_bit() {
    let disk = MemDisk::new();
    let log = DiskLog::create(settings(), on(&disk)).unwrap();
    commit_one(&log, 1).unwrap();
    flip(&disk, group(1) + GROUP_BYTES - 9, 2);
    let damage = log.check();
    assert_eq!((damage.len(), damage[0].check), (1, "log"));
    assert!(damage[0].what.contains("log-000001 is damaged at offset 12288"), "{}", damage[0].what);
}

#[test]
fn headers_that_are_damaged_or_of_another_version_are_refused() {
    let disk = MemDisk::new();
    DiskLog::create(settings(), on(&disk)).unwrap().close().unwrap();
    for offset in 0..52 {
        // One copy is enough.
        flip(&disk, offset, 4);
        assert!(end(&disk).is_ok(), "{offset}");
        flip(&disk, BLOCK + offset, 4);
        if !(8..12).contains(&offset) {
            assert_eq!(damaged_at(&open(&disk)), Some(0), "{offset}");
        }
        assert!(end(&disk).is_err());
        flip(&disk, BLOCK + offset, 4);
        flip(&disk, offset, 4);
    }
    // Another version, with the right checksum.
    for copy in [0, BLOCK] {
        let mut header = [0; 52];
        file(&disk).read_at(&mut header, copy).unwrap();
        header[8] = 9;
        let checksum = crc32c::crc32c_append(crc32c::crc32c(&header[..12]), &header[16..]);
        header[12..16].copy_from_slice(&checksum.to_le_bytes());
        file(&disk).write_at(&header, copy).unwrap();
    }
    let refused = open(&disk).to_string();
    assert!(refused.starts_with("log-000001 has format version 9"), "{refused}");
    let former = MemDisk::new();
    former.open("log", Open::New).unwrap();
    let refused = open(&former).to_string();
    assert!(refused.starts_with("log has format version 1"), "{refused}");
    let none = open(&MemDisk::new()).to_string();
    assert_eq!(none, "there is no log in the directory");
}

/// A log of another kind or another database, and a segment that is gone.
#[test]
fn segments_that_do_not_belong_together_are_refused() {
    let values = MemDisk::new();
    let value_settings = crate::value_log::LogSettings::default();
    drop(LogWriter::create(share(values.clone()), value_settings).unwrap());
    let refused = open(&values).to_string();
    assert!(refused.contains("log-000001 is of a value log"), "{refused}");
    let recovered = crate::value_log::holds_log(&values).unwrap();
    assert!(recovered && value_settings.kind == LogKind::Value);

    let disk = MemDisk::new();
    let log = DiskLog::create(settings(), on(&disk)).unwrap();
    while disk.list().unwrap().len() < 6 || log.usage().bytes < 256 << 10 {
        let mut transaction = LogTransaction::default();
        log.begin(&mut transaction, 1);
        log.change(&mut transaction, update(1), &[1; 9_000], &[2; 9_000]).unwrap();
        let lsn = log.commit(&mut transaction).unwrap();
        log.harden(lsn).unwrap();
    }
    assert!(end(&disk).is_ok());
    let mut segment = vec![0; 64 << 10];
    for name in ["log-000001", "log-000002", "log-000003"] {
        let gone = disk.open(name, Open::Read).unwrap();
        gone.read_at(&mut segment, 0).unwrap();
        disk.remove(name).unwrap();
        let refused = end(&disk).unwrap_err();
        assert!(matches!(refused.failure(), LogFailure::Damaged { .. }), "{name}: {refused}");
        disk.open(name, Open::New).unwrap().write_at(&segment, 0).unwrap();
    }
    assert!(end(&disk).is_ok());
    let other = MemDisk::new();
    drop(DiskLog::create(LogSettings { salt: 5, ..settings() }, on(&other)).unwrap());
    other.open(FIRST, Open::Read).unwrap().read_at(&mut segment, 0).unwrap();
    disk.open("log-000900", Open::New).unwrap().write_at(&segment, 0).unwrap();
    let refused = end(&disk).unwrap_err().to_string();
    assert!(refused.contains("are of different databases"), "{refused}");
}

/// What was released is not read, its segments are used again, and numbers go on.
#[test]
fn released_segments_are_used_again() {
    let disk = MemDisk::new();
    let log = DiskLog::create(settings(), on(&disk)).unwrap();
    let mut lsns = Vec::new();
    let commit = |id| {
        let mut transaction = LogTransaction::default();
        log.begin(&mut transaction, id);
        log.change(&mut transaction, update(id), &[1; 9_000], &[2; 9_000]).unwrap();
        let first = transaction.first();
        let lsn = log.commit(&mut transaction).unwrap();
        log.harden(lsn).unwrap();
        first
    };
    let mut most = 0;
    for id in 1..=200 {
        lsns.push(commit(id));
        if let Some(&kept) = lsns.iter().skip(1).rev().nth(3) {
            log.release_before(kept).unwrap();
            let found = committed(&disk).unwrap();
            assert_eq!(found, (id - 3..=id).collect::<Vec<_>>());
            let refused = read_log(&disk, kept - 8, |_, _| ()).unwrap_err();
            let expected = LogFailure::Released { lsn: kept - 8, base: kept };
            assert_eq!(refused.failure(), &expected);
            assert_eq!(read_log(&disk, lsns[lsns.len() - 1], |_, _| ()).unwrap().base, kept);
        }
        if id == 50 {
            most = log.usage().file_bytes;
        }
    }
    assert_eq!(log.usage().file_bytes, most, "no segment was made any more");
    assert_eq!(log.check(), []);
    // What is needed is missed when it is gone, though all that is there fits together.
    let mut names = disk.list().unwrap();
    names.retain(|name| name.starts_with("log-0"));
    let refused = names.iter().filter(|name| {
        let copy = MemDisk::new();
        for name in names.iter().filter(|other| other != name) {
            let from = disk.open(name, Open::Read).unwrap();
            let mut bytes = vec![0; from.len().unwrap() as usize];
            from.read_at(&mut bytes, 0).unwrap();
            copy.open(name, Open::New).unwrap().write_at(&bytes, 0).unwrap();
        }
        end(&copy).is_err()
    });
    assert!((1..=4).contains(&refused.count()));
}
