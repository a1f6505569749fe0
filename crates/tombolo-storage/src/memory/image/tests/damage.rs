//! What is damaged, lost or of another database is refused with its place, or an older copy serves.

use super::*;
use crate::disk::{Fault, MemDisk, Open, Operation};
use crate::memory::variable::{HANDLE_BYTES, Handle};
use crate::plant::{self, Plant};

fn open(disk: &MemDisk) -> Result<Database, Failure> {
    Database::open(&[Arc::new(disk.clone()) as Arc<dyn Disk>], 1, 2)
}

/// A database whose log was given back up to its last of several checkpoints, and its rows.
fn made() -> (MemDisk, Vec<String>) {
    let disk = MemDisk::new();
    let mut database = open(&disk).unwrap();
    (0..3).for_each(|_| database.create_table());
    let mut random = Random::new(4);
    for _ in 0..6 {
        database.groups(&mut random, 14);
        database.checkpoint().unwrap();
    }
    assert!(database.released > 6, "{} segments were given back", database.released);
    database.work(&mut random, 5);
    database.write().unwrap();
    database.sync().unwrap();
    let rows = rows(&mut database.store);
    assert!(rows.len() > 60);
    (disk, rows)
}

pub(super) fn bytes(disk: &MemDisk, name: &str) -> Vec<u8> {
    let file = disk.open(name, Open::Read).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_at(&mut bytes, 0).unwrap();
    bytes
}

pub(super) fn write(disk: &MemDisk, name: &str, offset: u64, bytes: &[u8]) {
    disk.open(name, Open::Write).unwrap().write_at(bytes, offset).unwrap();
}

pub(super) fn files(disk: &MemDisk, prefix: &str) -> Vec<String> {
    disk.list().unwrap().into_iter().filter(|name| name.starts_with(prefix)).collect()
}

/// Another disk with the same files.
fn copy(disk: &MemDisk) -> MemDisk {
    let other = MemDisk::new();
    for name in disk.list().unwrap() {
        other.open(&name, Open::New).unwrap().write_at(&bytes(disk, &name), 0).unwrap();
    }
    other
}

/// Rings' files and their blocks: number of the checkpoint, and offset.
fn blocks(disk: &MemDisk, name: &str) -> Vec<(u64, usize)> {
    let found = bytes(disk, name);
    let blocks = (0..found.len()).step_by(4096).filter(|&at| found[at..].starts_with(b"tblk"));
    let number = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| found[at + 16 + i]));
    blocks.map(|at| (number(at), at)).collect()
}

#[test]
fn what_is_whole_opens_and_goes_on() {
    let (disk, expected) = made();
    for _ in 0..3 {
        let mut database = open(&disk).unwrap();
        assert!(rows(&mut database.store) == expected);
        assert_eq!(database.store.check(), []);
        database.check_mirror();
        assert!(database.checkpoints.position().group > 1);
        assert!(database.checkpoints.image_bytes() > 0 && database.parts[0].memory_bytes() > 0);
        database.checkpoint().unwrap();
        let progress = database.parts[0].progress();
        assert_eq!(progress.blocks, progress.blocks_max);
    }
}

#[test]
fn a_changed_bit_of_a_block_is_refused_with_its_place() {
    let (disk, expected) = made();
    let name = &files(&disk, "image-")[0];
    let newest = blocks(&disk, name).into_iter().max().unwrap();
    let whole = bytes(&disk, name);
    // Magic, checksum, ring, block, checkpoint, newest group, slots, slot bytes, first slot, epoch,
    // live bits, a slot.
    for field in [0, 4, 8, 12, 16, 24, 32, 36, 40, 44, 48, 200] {
        let at = newest.1 + field;
        write(&disk, name, at as u64, &[whole[at] ^ 1]);
        match open(&disk).err() {
            Some(Failure::Image(ImageFailure::Damaged { file, offset, what })) => {
                assert_eq!((&file, offset), (name, newest.1 as u64), "{what}");
            }
            other => panic!("field {field}: {other:?}"),
        }
        write(&disk, name, at as u64, &[whole[at]]);
    }
    assert!(rows(&mut open(&disk).unwrap().store) == expected);
}

#[test]
fn a_write_that_was_lost_is_found() {
    let (disk, _) = made();
    let names = files(&disk, "image-");
    let before: Vec<_> = names.iter().map(|name| bytes(&disk, name)).collect();
    let mut database = open(&disk).unwrap();
    database.work(&mut Random::new(1), 5);
    database.write().unwrap();
    database.checkpoint().unwrap();
    drop(database);
    for (name, before) in names.iter().zip(before) {
        let (_, at) = blocks(&disk, name).into_iter().max().unwrap();
        let now = bytes(&disk, name);
        write(&disk, name, at as u64, &before[at..at + 4096]);
        let failure = open(&disk).err();
        assert!(
            matches!(&failure, Some(Failure::Image(ImageFailure::Damaged { file, .. }))
                if file == name),
            "{failure:?}"
        );
        write(&disk, name, 0, &now);
    }
    open(&disk).unwrap();
}

#[test]
fn an_older_copy_serves_where_the_newer_one_is_torn() {
    let (disk, expected) = made();
    // A file that a checkpoint left which never began.
    disk.open("image-999999", Open::New).unwrap();
    let mut database = open(&disk).unwrap();
    assert!(!disk.exists("image-999999").unwrap());
    database.begin().unwrap();
    let number = database.checkpoints.writing().unwrap();
    for _ in 0..2 {
        assert!(matches!(database.parts[0].step().unwrap(), Step::Wrote { blocks: 1, .. }));
    }
    drop(database);
    // The newest block of the ring that was reached last: nothing was written over its older copy.
    let of = |name: &String| blocks(&disk, name).into_iter().rfind(|copy| copy.0 == number);
    let reached: Vec<_> =
        files(&disk, "image-").into_iter().filter(|name| of(name).is_some()).collect();
    let name = reached.last().unwrap();
    let copies = blocks(&disk, name);
    let under_way: Vec<_> = copies.iter().filter(|copy| copy.0 == number).collect();
    let block = |at: usize| bytes(&disk, name)[at + 12];
    let (_, newest) = under_way.into_iter().max_by_key(|copy| block(copy.1)).unwrap();
    write(&disk, name, *newest as u64 + 100, &[0xff; 300]);
    let mut database = open(&disk).unwrap();
    assert!(rows(&mut database.store) == expected);
    // It is continued, as of the same position, and the next one makes progress.
    assert_eq!(database.checkpoints.writing(), Some(number));
    let position = database.checkpoints.position();
    database.checkpoint().unwrap();
    assert_eq!(database.checkpoints.position(), position);
    database.checkpoint().unwrap();
    assert!(database.checkpoints.position().group > position.group);
    drop(database);
    assert!(rows(&mut open(&disk).unwrap().store) == expected);
}

/// One copy of the catalogue serves for the other; the catalogue that is found instead of both, or none,
/// needs a log that was given back.
#[test]
fn a_damaged_catalogue_never_falls_back_in_silence() {
    let (disk, _) = made();
    let mut database = open(&disk).unwrap();
    let mut random = Random::new(8);
    // Until the segments that were given back are in use again.
    database.groups(&mut random, 150);
    let expected = rows(&mut database.store);
    drop(database);
    let names = files(&disk, "checkpoint-");
    let [name] = &names[..] else { panic!("{names:?}") };
    let whole = bytes(&disk, name);
    let at_once = copy(&disk);
    write(&at_once, name, 0, &[0; 4096]);
    assert!(rows(&mut open(&at_once).unwrap().store) == expected);
    for at in (12..200).step_by(7) {
        let second = whole.len() / 2 + at;
        write(&disk, name, at as u64, &[whole[at] ^ 4]);
        write(&disk, name, second as u64, &[whole[second] ^ 4]);
        match open(&disk).err() {
            Some(Failure::Image(ImageFailure::Damaged { file, what, .. })) => {
                assert!(file == *name && what.contains("no copy"), "{what}");
            }
            other => panic!("byte {at}: {other:?}"),
        }
        write(&disk, name, at as u64, &[whole[at]]);
        write(&disk, name, second as u64, &[whole[second]]);
    }
    // An older catalogue that came back.
    let mut database = open(&disk).unwrap();
    let older = files(&disk, "checkpoint-");
    let content = bytes(&disk, &older[0]);
    for _ in 0..3 {
        database.groups(&mut random, 30);
        database.checkpoint().unwrap();
    }
    database.groups(&mut random, 100);
    drop(database);
    let newer = files(&disk, "checkpoint-");
    for copy in [0, bytes(&disk, &newer[0]).len() / 2] {
        write(&disk, &newer[0], copy as u64 + 50, &[0xff; 8]);
    }
    disk.open(&older[0], Open::New).unwrap().write_at(&content, 0).unwrap();
    let failure = open(&disk).err();
    assert!(failure.as_ref().is_some_and(|failure| !failure.is_disk()), "{failure:?}");
}

#[test]
fn image_and_log_of_two_databases_are_refused() {
    let (disk, _) = made();
    let other = MemDisk::new();
    let mut database = open(&other).unwrap();
    (0..3).for_each(|_| database.create_table());
    database.groups(&mut Random::new(6), 150);
    drop(database);
    for name in files(&disk, "log-") {
        disk.remove(&name).unwrap();
    }
    for name in files(&other, "log-") {
        let content = bytes(&other, &name);
        disk.open(&name, Open::New).unwrap().write_at(&content, 0).unwrap();
    }
    match open(&disk).err() {
        Some(Failure::Log(LogFailure::Irreparable { what, .. })) => {
            assert!(what.contains("do not belong together"), "{what}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_log_that_ends_before_what_the_image_holds_is_refused() {
    let (disk, _) = made();
    let mut database = open(&disk).unwrap();
    database.sync().unwrap();
    database.begin().unwrap();
    let mut random = Random::new(3);
    let before: Vec<_> =
        files(&disk, "log-").into_iter().map(|name| (bytes(&disk, &name), name)).collect();
    database.work(&mut random, 20);
    database.write().unwrap();
    database.sync().unwrap();
    for part in 0..2 {
        database.install(part).unwrap();
        while !database.step(part).unwrap() && database.done[part].is_none() {}
    }
    drop(database);
    for (content, name) in before {
        write(&disk, &name, 0, &content);
    }
    match open(&disk).err() {
        Some(Failure::Log(LogFailure::Irreparable { what, .. })) => {
            assert!(what.contains("the image"), "{what}");
        }
        other => panic!("{other:?}"),
    }
}

/// A process ends after a sync that failed, or before one: what it wrote can be read, and may be gone
/// after the next crash, also where it was the last batch of a ring.
#[test]
fn what_a_process_left_in_doubt_is_written_again() {
    let (disk, _) = made();
    let mut random = Random::new(5);
    let mut database = open(&disk).unwrap();
    database.groups(&mut random, 10);
    database.begin().unwrap();
    for part in &mut database.parts {
        while part.progress().blocks < part.progress().blocks_max {
            part.step().unwrap();
        }
    }
    drop(database);
    let mut database = open(&disk).unwrap();
    let mut rings = 0;
    for part in &mut database.parts {
        let before = part.progress();
        assert_eq!(before.blocks, before.blocks_max, "all of them are there");
        assert!(matches!(part.step(), Ok(Step::Complete(_))));
        assert_eq!(part.progress().blocks, before.blocks);
        rings += part.progress().syncs - before.syncs;
    }
    assert_eq!(rings, files(&disk, "image-").len() as u64);
}

#[test]
fn a_full_disk_leaves_the_last_checkpoint_and_is_tried_again() {
    let (disk, _) = made();
    let mut database = open(&disk).unwrap();
    let used: u64 = disk.list().unwrap().iter().map(|name| bytes(&disk, name).len() as u64).sum();
    database.work(&mut Random::new(2), 300);
    database.write().unwrap();
    database.checkpoint().unwrap_or_else(|failure| panic!("{failure:?}"));
    let position = database.checkpoints.position();
    database.work(&mut Random::new(5), 300);
    database.write().unwrap();
    database.sync().unwrap();
    (0..2).for_each(|part| {
        while !database.waiting[part].is_empty() {
            database.install(part).unwrap();
        }
    });
    disk.set_capacity_bytes(Some(used));
    for _ in 0..3 {
        match database.begin().unwrap_err() {
            Failure::Image(failure) => {
                assert!(failure.is_full() && failure.to_string().contains("make room"));
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(database.checkpoints.position(), position);
    }
    disk.set_capacity_bytes(None);
    database.checkpoint().unwrap();
    assert!(database.checkpoints.position().group > position.group);
    let expected = rows(&mut database.store);
    drop(database);
    assert!(rows(&mut open(&disk).unwrap().store) == expected);
}

/// What was prepared behind a batch that found the disk full is prepared again, in order.
#[test]
fn a_disk_that_is_full_under_a_batch_is_tried_again() {
    let (disk, _) = made();
    let mut database = open(&disk).unwrap();
    database.groups(&mut Random::new(7), 100);
    (0..2).for_each(|part| {
        while !database.waiting[part].is_empty() {
            database.install(part).unwrap();
        }
    });
    database.begin().unwrap();
    let mut fulls = 0;
    for after in (0..12).chain([u64::MAX]) {
        let kind = std::io::ErrorKind::StorageFull;
        disk.set_fault(Some(Fault { operation: Operation::Write, after, kind }));
        while database.checkpoints.writing().is_some() {
            let before = database.parts[0].progress().blocks;
            match database.step(0).and_then(|_| database.step(1)) {
                Ok(_) => {}
                Err(Failure::Image(full)) if full.is_full() => {
                    assert_eq!(database.parts[0].progress().blocks, before);
                    fulls += 1;
                    break;
                }
                Err(other) => panic!("{other:?}"),
            }
        }
    }
    assert!(fulls > 5 && database.checkpoints.writing().is_none());
    let expected = rows(&mut database.store);
    drop(database);
    disk.set_fault(None);
    assert!(rows(&mut open(&disk).unwrap().store) == expected);
}

/// A value that neither has.
#[test]
fn a_value_that_the_log_does_not_bring_is_refused() {
    let (disk, _) = made();
    let settle = || {
        let image =
            Image::find(vec![Arc::new(disk.clone()) as Arc<dyn Disk>], image_settings(1)).unwrap();
        let mut loaded = image.load(0, 1, Limits::default(), &mut |_| {}).unwrap();
        let slab = loaded.replay.rows_for_test(0);
        let row = slab.live().next().unwrap();
        // Where the handles of table `one` lie: any eight bytes that lead somewhere.
        let handles = (0..slab.slot_bytes() - HANDLE_BYTES).step_by(8);
        for at in handles {
            let handle = Handle::read(slab.slot(row), at);
            if handle.len() > 0 && handle.class() > 0 && handle.slot() < 1000 {
                slab.slot_mut(row)[at] = 0xff;
                slab.slot_mut(row)[at + 1] = 0xff;
            }
        }
        assert!(loaded.replay.claim_values(9) > 0);
        loaded.replay.begin_group(9).unwrap();
        loaded.replay.begin_group(10)
    };
    let refused = settle().unwrap_err();
    assert!(refused.contains("do not belong together"), "{refused}");
    #[cfg(not(tombolo_plants))]
    assert_eq!(plant::with(Plant::DanglingAccepted, settle), Ok(()));
}

#[test]
fn settings_and_directories_are_checked() {
    let refused = |settings: ImageSettings| settings.check().unwrap_err().to_string();
    let good = ImageSettings::default();
    assert!(refused(ImageSettings { block_bytes: 4097, ..good }).contains("multiple of 4,096"));
    assert!(refused(ImageSettings { block_bytes: 0, ..good }).contains("multiple of 4,096"));
    assert!(refused(ImageSettings { spare_blocks: 0, ..good }).contains("from 1 to 1,024"));
    let disks: Vec<Arc<dyn Disk>> = (0..2).map(|_| Arc::new(MemDisk::new()) as _).collect();
    let mut database = Database::open(&disks, 2, 1).unwrap();
    database.create_table();
    database.work(&mut Random::new(1), 20);
    database.write().unwrap();
    database.checkpoint().unwrap();
    drop(database);
    match Database::open(&disks[..1], 2, 1).err() {
        Some(Failure::Image(failure)) => {
            assert_eq!(failure, ImageFailure::Directories { needed: 2, given: 1 });
        }
        other => panic!("{other:?}"),
    }
    assert!(disks[1].list().unwrap().iter().any(|name| name.starts_with("image-")));
}
