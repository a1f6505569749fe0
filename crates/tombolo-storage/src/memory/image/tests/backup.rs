//! Backups at any moment between two steps, on disks that fail or are full, spoilt afterwards.

use std::io::ErrorKind;

use super::*;
use crate::backup::{self, BACKUP_FILE, BackupFailure, UNFINISHED_FILE};
use crate::disk::{Fault, MemDisk, Open, Operation};

/// Directories, and the doors to them.
fn directories(count: usize) -> (Vec<MemDisk>, Vec<Arc<dyn Disk>>) {
    let disks: Vec<_> = (0..count).map(|_| MemDisk::new()).collect();
    let doors = disks.iter().map(|disk| Arc::new(disk.clone()) as Arc<dyn Disk>).collect();
    (disks, doors)
}

fn back_up(
    from: &[Arc<dyn Disk>],
    to: &MemDisk,
    database: &Database,
) -> Result<backup::Backup, BackupFailure> {
    backup::write(from, to, &LOG, &mut || database.writer.durable())
}

/// A database with two checkpoints and some log behind them.
fn database(doors: &[Arc<dyn Disk>]) -> Database {
    let mut database = Database::open(doors, 1, 2).unwrap();
    (0..3).for_each(|_| database.create_table());
    for _ in 0..3 {
        database.groups(&mut Random::new(7), 12);
        database.checkpoint().unwrap();
    }
    database.groups(&mut Random::new(8), 5);
    database
}

/// Whether the directory is no database, and says so, or holds nothing.
fn is_refused(disk: &MemDisk) -> bool {
    let names = disk.list().unwrap();
    let opened = Database::open(&[Arc::new(disk.clone()) as Arc<dyn Disk>], 1, 1);
    let is_copy = |failure| matches!(failure, Failure::Log(LogFailure::Copy { .. }));
    names.is_empty() || opened.err().is_some_and(is_copy)
}

#[test]
fn a_backup_of_any_moment_is_what_was_durable() {
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let (_, doors) = directories(1 + seed as usize % 2);
        let mut database = Database::open(&doors, 1 + seed as u32 % 2, 2).unwrap();
        database.create_table();
        for _ in 0..random.below(4) {
            database.create_table();
            database.groups(&mut random, 8);
            database.checkpoint().unwrap();
            database.add_column(&mut random);
        }
        // Installed or not; a checkpoint under way or not; written and not durable.
        database.groups(&mut random, 6);
        for part in 0..2 {
            (0..random.below(6)).for_each(|_| database.install(part).unwrap());
        }
        if random.below(2) == 0 {
            database.begin().unwrap();
            for _ in 0..random.below(10) {
                database.step(random.below(2) as usize).unwrap();
            }
        }
        database.sync().unwrap();
        let durable = rows(&mut database.store);
        let transactions = database.writer.transactions();
        database.work(&mut random, 3);
        database.write().unwrap();
        let (copy, _) = directories(1);
        let made = back_up(&doors, &copy[0], &database).unwrap();
        assert_eq!(made.position.transactions, transactions, "seed {seed}");
        assert!(is_refused(&copy[0]), "seed {seed}");
        let (restored, restored_doors) = directories(1);
        assert_eq!(backup::restore(&copy[0], &restored[0], MARK), Ok(made), "seed {seed}");
        // The database is not touched by any of it.
        database.sync().unwrap();
        database.checkpoint().unwrap();
        database.check_mirror();
        let mut again = Database::open(&restored_doors, 1, 1).unwrap();
        assert!(rows(&mut again.store) == durable, "seed {seed}: the copy has other rows");
        assert_eq!(again.store.check(), []);
        again.groups(&mut random, 4);
        again.checkpoint().unwrap();
        let end = rows(&mut again.store);
        drop(again);
        let mut again = Database::open(&restored_doors, 1, 2).unwrap();
        assert!(rows(&mut again.store) == end, "seed {seed}: the copy does not go on");
    }
}

#[test]
fn a_full_disk_leaves_no_copy_and_harms_nothing() {
    let (_, doors) = directories(1);
    let mut database = database(&doors);
    let (copies, _) = directories(2);
    let needed = back_up(&doors, &copies[0], &database).unwrap().bytes;
    // Files are copied one after the other: room for some of them, for nearly all, for all.
    for room in (0..=16).map(|part| needed * part / 16 + part * 20) {
        let (full, _) = directories(1);
        full[0].set_capacity_bytes(Some(room));
        match back_up(&doors, &full[0], &database) {
            Ok(_) => assert!(room >= needed, "{room} bytes are too few"),
            Err(failure) => {
                assert!(failure.is_full(), "{failure}");
                assert!(failure.to_string().contains("make room"), "{failure}");
                assert_eq!(full[0].list().unwrap(), [""; 0], "{room} bytes of {needed}");
            }
        }
        copies[1].set_capacity_bytes(Some(room));
        match backup::restore(&copies[0], &copies[1], MARK) {
            Ok(_) => assert!(room >= needed, "{room} bytes are too few"),
            Err(failure) => assert!(failure.is_full(), "{failure}"),
        }
    }
    database.groups(&mut Random::new(9), 5);
    database.checkpoint().unwrap();
}

#[test]
fn a_disk_that_fails_at_any_call_leaves_nothing_that_opens() {
    let (_, doors) = directories(1);
    let database = database(&doors);
    let (good, _) = directories(1);
    back_up(&doors, &good[0], &database).unwrap();
    let operations =
        [Operation::Open, Operation::Write, Operation::Sync, Operation::SetLen, Operation::Remove];
    for operation in operations {
        for after in 0.. {
            let fault = Fault { operation, after, kind: ErrorKind::Other };
            let (bad, _) = directories(2);
            bad.iter().for_each(|disk| disk.set_fault(Some(fault)));
            let made = back_up(&doors, &bad[0], &database);
            let restored = backup::restore(&good[0], &bad[1], MARK);
            bad.iter().for_each(|disk| disk.set_fault(None));
            if made.is_err() {
                // A backup whose last step failed may be whole: then it says so.
                assert!(is_refused(&bad[0]), "{operation:?} {after}");
                let (again, _) = directories(1);
                if backup::restore(&bad[0], &again[0], MARK).is_err() {
                    assert!(again[0].list().unwrap().is_empty());
                }
            }
            if restored.is_err() {
                assert!(is_refused(&bad[1]), "{operation:?} {after}");
            }
            if made.is_ok() && restored.is_ok() {
                assert!(after > 0 || operation == Operation::SetLen, "{operation:?} is not used");
                break;
            }
        }
    }
}

#[test]
fn what_is_spoilt_is_noticed_before_it_is_restored_or_copied() {
    let (disks, doors) = directories(1);
    let database = database(&doors);
    let (copy, _) = directories(1);
    back_up(&doors, &copy[0], &database).unwrap();
    let flip = |disk: &MemDisk, name: &str, at: u64| {
        let file = disk.open(name, Open::Write).unwrap();
        let mut byte = [0];
        file.read_at(&mut byte, at).unwrap();
        file.write_at(&[byte[0] ^ 4], at).unwrap();
    };
    for name in copy[0].list().unwrap() {
        let length = copy[0].open(&name, Open::Read).unwrap().len().unwrap();
        for at in [0, length / 2, length - 1] {
            flip(&copy[0], &name, at);
            let (to, _) = directories(1);
            let refused = backup::restore(&copy[0], &to[0], MARK).unwrap_err();
            let is_reported = match &refused {
                BackupFailure::Damaged { file, .. } => file.contains(&name),
                BackupFailure::OtherVersion { file, .. } => file.contains(&name),
                _ => false,
            };
            assert!(is_reported && to[0].list().unwrap().is_empty(), "{name} at {at}: {refused}");
            flip(&copy[0], &name, at);
        }
    }
    let (to, _) = directories(1);
    let lost = copy[0].list().unwrap().into_iter().find(|name| name.starts_with("log")).unwrap();
    copy[0].remove(&lost).unwrap();
    let refused = backup::restore(&copy[0], &to[0], MARK).unwrap_err();
    assert!(refused.to_string().contains("not there"), "{refused}");
    // A database whose blocks are damaged is not backed up as if it were whole.
    let ring = disks[0].list().unwrap().into_iter().find(|name| name.starts_with("image")).unwrap();
    let file = disks[0].open(&ring, Open::Write).unwrap();
    file.write_at(&vec![0xff; file.len().unwrap() as usize], 0).unwrap();
    let refused = back_up(&doors, &to[0], &database).unwrap_err();
    assert!(matches!(refused, BackupFailure::Image(ImageFailure::Damaged { .. })), "{refused}");
    assert!(to[0].list().unwrap().is_empty());
}

/// What lies before the image's group is not needed, and its number and checksum say which one it is.
#[test]
fn rot_before_the_image_spoils_no_backup() {
    let mut spoilt = 0;
    for seed in 0..10 {
        let (disks, doors) = directories(1);
        let mut database = Database::open(&doors, 1, 2).unwrap();
        database.create_table();
        database.groups(&mut Random::new(seed), 3 + seed);
        let image_group = database.sync().unwrap();
        database.checkpoint().unwrap();
        database.groups(&mut Random::new(100 + seed), 3);
        let durable = rows(&mut database.store);
        let logs = disks[0].list().unwrap().into_iter().filter(|name| name.starts_with("log-"));
        // The header of the first group of each segment; the number is at 8.
        let firsts = logs.map(|name| {
            let (file, mut first) = (disks[0].open(&name, Open::Write).unwrap(), [0; 64]);
            file.read_at(&mut first, 8_192).unwrap();
            (u64::from_le_bytes(first[8..16].try_into().unwrap()), file)
        });
        let before = firsts.filter(|(number, _)| (1..=image_group).contains(number));
        let (number, file) = before.max_by_key(|(number, _)| *number).unwrap();
        if number == image_group {
            continue;
        }
        file.write_at(&[0xff; 64], 8_192).unwrap();
        spoilt += 1;
        let (copy, _) = directories(1);
        let made = back_up(&doors, &copy[0], &database).unwrap();
        let (restored, restored_doors) = directories(1);
        assert_eq!(backup::restore(&copy[0], &restored[0], MARK), Ok(made));
        let mut again = Database::open(&restored_doors, 1, 1).unwrap();
        assert!(rows(&mut again.store) == durable, "seed {seed}: the copy has other rows");
        assert_eq!(again.store.check(), []);
        again.groups(&mut Random::new(5), 4);
        again.checkpoint().unwrap();
    }
    assert!(spoilt > 4, "{spoilt} of 10 were spoilt");
}

#[test]
fn what_is_no_backup_or_no_place_for_one_is_reported() {
    let (disks, doors) = directories(1);
    let database = database(&doors);
    let reported =
        |failure: Result<backup::Backup, BackupFailure>| failure.unwrap_err().to_string();
    let (other, _) = directories(2);
    assert!(reported(backup::restore(&other[0], &other[1], MARK)).contains("holds no backup"));
    assert!(reported(back_up(&doors, &disks[0], &database)).contains("new or an empty"));
    back_up(&doors, &other[0], &database).unwrap();
    assert!(reported(back_up(&doors, &other[0], &database)).contains("another one"));
    assert!(reported(backup::restore(&other[0], &disks[0], MARK)).contains("new or an empty"));
    // The process ended in between.
    other[1].open(UNFINISHED_FILE, Open::New).unwrap();
    assert!(
        reported(backup::restore(&other[1], &disks[0], MARK)).contains("did not come to its end")
    );
    assert!(is_refused(&other[1]) && is_refused(&other[0]));
    let file = other[0].open(BACKUP_FILE, Open::Write).unwrap();
    file.write_at(b"tombolo backup 2", 0).unwrap();
    assert!(reported(backup::restore(&other[0], &disks[0], MARK)).contains("another version"));
}
