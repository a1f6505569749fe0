//! Courses of checkpoints: a medium loses what it called durable (the catalogue that names a course, the
//! end of the log, a block), and what is left of the abandoned course belongs to no other. Images of
//! version 1, which know no epochs, continue.

use std::panic::AssertUnwindSafe;

use super::super::block;
use super::super::catalogue::Catalogue;
use super::super::ring::slots_offset;
use super::damage::{bytes, files, write};
use super::*;
use crate::disk::{MemDisk, Open};
use crate::plant::{self, Plant};

/// Blocks of a ring that are written before any copy of the checkpoint before is written over.
const SPARE: u32 = 4;

const PARTS: usize = 2;

fn open(disk: &MemDisk, settings: ImageSettings) -> Result<Database, Failure> {
    let door = Arc::new(disk.clone()) as Arc<dyn Disk>;
    let mut database = Database::open_with(&[door], settings, PARTS, None)?;
    assert_eq!(database.store.check(), []);
    Ok(database)
}

/// With DB′ in memory, and without.
fn both() -> [ImageSettings; 2] {
    [image_settings(SPARE), in_place(SPARE)]
}

/// Files by name.
type Files = BTreeMap<String, Vec<u8>>;

fn taken(disk: &MemDisk, prefixes: &[&str]) -> Files {
    let names = prefixes.iter().flat_map(|prefix| files(disk, prefix));
    names.map(|name| (name.clone(), bytes(disk, &name))).collect()
}

/// What was written to catalogue and log since these files were taken is gone.
fn lose(disk: &MemDisk, kept: &Files) {
    for name in ["checkpoint-", "log-"].into_iter().flat_map(|prefix| files(disk, prefix)) {
        disk.remove(&name).unwrap();
    }
    for (name, content) in kept {
        disk.open(name, Open::New).unwrap().write_at(content, 0).unwrap();
    }
}

fn copy_of(disk: &MemDisk) -> MemDisk {
    let copy = MemDisk::new();
    for (name, content) in taken(disk, &[""]) {
        copy.open(&name, Open::New).unwrap().write_at(&content, 0).unwrap();
    }
    copy
}

/// Begins the next checkpoint, with all that is durable.
fn begin(database: &mut Database) {
    for part in 0..PARTS {
        while !database.waiting[part].is_empty() {
            database.install(part).unwrap();
        }
    }
    database.begin().unwrap();
    assert!(database.checkpoints.writing().is_some());
}

/// One batch of each part.
fn batches(database: &mut Database) {
    let newest = database.writer.durable();
    for part in &mut database.parts {
        let rows = database.store.rows_in_place().unwrap();
        assert!(matches!(part.step_with(rows, newest).unwrap(), Step::Wrote { .. }));
    }
}

fn work(database: &mut Database, seed: u64, transactions: u64) {
    database.work(&mut Random::new(seed), transactions);
    database.write().unwrap();
    database.sync().unwrap();
}

/// A block that lies somewhere.
struct Lying {
    file: String,
    offset: u64,
    bytes: Vec<u8>,
}

/// Blocks of a checkpoint, in files that there were before it began.
fn blocks_of(disk: &MemDisk, checkpoint: u64) -> Vec<Lying> {
    let (catalogue, _) = Catalogue::find(disk).unwrap().catalogue.unwrap();
    let mut found = Vec::new();
    for ring in catalogue.rings.iter().filter(|ring| ring.created_by < checkpoint) {
        let (file, block_bytes) = (ring.file_name(), ring.block_bytes as usize);
        for (place, bytes) in bytes(disk, &file).chunks_exact(block_bytes).enumerate() {
            let block = block::decode(ring, catalogue.salt, bytes);
            if block.is_some_and(|block| block.header.stamp.checkpoint == checkpoint) {
                let (file, offset) = (file.clone(), ring.offset(place as u64));
                found.push(Lying { file, offset, bytes: bytes.to_vec() });
            }
        }
    }
    found
}

/// A database that continues behind a checkpoint whose catalogue was lost, and all groups of the log that
/// its blocks hold: the course it has begun by now has the abandoned one's number, and no block yet. With
/// the abandoned blocks, and the rows.
fn abandoned(settings: ImageSettings, is_epoch_lost: bool) -> (MemDisk, Vec<Lying>, Vec<String>) {
    let disk = MemDisk::new();
    let mut database = open(&disk, settings).unwrap();
    (0..3).for_each(|_| database.create_table());
    work(&mut database, 1, 120);
    database.checkpoint().unwrap();
    let before = rows(&mut database.store);
    drop(database);

    let mut kept = taken(&disk, &["checkpoint-", "log-"]);
    let mut database = open(&disk, settings).unwrap();
    if !is_epoch_lost {
        kept = taken(&disk, &["checkpoint-", "log-"]);
    }
    work(&mut database, 2, 30);
    begin(&mut database);
    let course = database.checkpoints.stamp().unwrap();
    batches(&mut database);
    let newest = database.writer.newest();
    drop(database);
    let left = blocks_of(&disk, course.checkpoint);
    assert!(left.len() >= PARTS);
    lose(&disk, &kept);

    let mut database = open(&disk, settings).unwrap();
    assert!(rows(&mut database.store) == before, "the image's rows, and the log's that is left");
    assert_eq!(database.checkpoints.writing(), None);
    database.groups(&mut Random::new(3), 12);
    assert!(database.writer.newest() > newest, "the log has all numbers that blocks can hold");
    begin(&mut database);
    let again = database.checkpoints.stamp().unwrap();
    assert_eq!(again.checkpoint, course.checkpoint);
    assert!(again.epoch > course.epoch, "{again:?} {course:?}");
    let rows = rows(&mut database.store);
    (disk, left, rows)
}

#[test]
fn blocks_of_an_abandoned_course_are_not_those_of_the_next_with_its_number() {
    for (settings, is_epoch_lost) in
        both().into_iter().flat_map(|settings| [(settings, false), (settings, true)])
    {
        let (disk, _, expected) = abandoned(settings, is_epoch_lost);
        #[cfg(not(tombolo_plants))]
        {
            let disk = copy_of(&disk);
            let opened = || rows(&mut open(&disk, settings).unwrap().store) == expected;
            let planted = || plant::with(Plant::BlockEpochIgnored, opened);
            let is_unnoticed = std::panic::catch_unwind(AssertUnwindSafe(planted)).unwrap_or(false);
            assert!(!is_unnoticed, "the number of a course alone does not identify it");
        }
        let mut database = open(&disk, settings).unwrap();
        assert!(rows(&mut database.store) == expected);
        // The course continues across restarts, and its own older blocks count.
        batches(&mut database);
        let writing = database.checkpoints.stamp();
        drop(database);
        let mut database = open(&disk, settings).unwrap();
        let again = database.checkpoints.stamp();
        assert!(again.unwrap().epoch > writing.unwrap().epoch);
        let written: u64 = database.parts.iter().map(|part| part.progress().blocks).sum();
        assert!(written > 0 && rows(&mut database.store) == expected);
        database.checkpoint().unwrap();
        database.checkpoint().unwrap();
        drop(database);
        assert!(rows(&mut open(&disk, settings).unwrap().store) == expected);
    }
}

/// The new course is complete, and a write of it is lost: what lies there is the abandoned course's.
#[test]
fn a_lost_write_does_not_bring_an_abandoned_course_back() {
    for settings in both() {
        let (disk, left, expected) = abandoned(settings, true);
        let mut database = open(&disk, settings).unwrap();
        let number = database.checkpoints.writing().unwrap();
        while database.checkpoints.writing().is_some() {
            (0..PARTS).for_each(|part| _ = database.step(part).unwrap());
        }
        assert_eq!(database.checkpoints.complete_number(), number);
        drop(database);
        for Lying { file, offset, bytes } in &left {
            let disk = copy_of(&disk);
            write(&disk, file, *offset, bytes);
            match open(&disk, settings).err() {
                Some(Failure::Image(ImageFailure::Damaged { file: found, offset: at, .. })) => {
                    assert_eq!((&found, at), (file, *offset));
                }
                other => panic!("{other:?}"),
            }
        }
        // While the database is open: what lies there is not read.
        let mut database = open(&disk, settings).unwrap();
        assert!(rows(&mut database.store) == expected);
        left.iter().for_each(|Lying { file, offset, bytes }| write(&disk, file, *offset, bytes));
        database.checkpoint().unwrap();
    }
}

/// Makes the image one of version 1.
fn put_back(disk: &MemDisk) {
    let (catalogue, name) = Catalogue::find(disk).unwrap().catalogue.unwrap();
    for ring in &catalogue.rings {
        let name = ring.file_name();
        let whole = bytes(disk, &name);
        for (place, bytes) in whole.chunks_exact(ring.block_bytes as usize).enumerate() {
            let Some(block) = block::decode(ring, catalogue.salt, bytes) else { continue };
            let end = slots_offset(ring.block_slots) + block.slots.len();
            let mut bytes = bytes[..end].to_vec();
            bytes[44..48].fill(0);
            let salt = catalogue.salt.to_le_bytes();
            let checksum = crc32c::crc32c(&[&salt, &bytes[8..]].concat());
            bytes[4..8].copy_from_slice(&checksum.to_le_bytes());
            write(disk, &name, ring.offset(place as u64), &bytes);
        }
    }
    let mut older = bytes(disk, &name);
    let length = u64::from_le_bytes(std::array::from_fn(|i| older[24 + i]));
    older.truncate(length as usize); // the first copy
    older.drain(112..124);
    let length = older.len() as u64;
    older[24..32].copy_from_slice(&length.to_le_bytes());
    older[8] = 1;
    let checksum = crc32c::crc32c(&[&older[..12], &older[16..]].concat());
    older[12..16].copy_from_slice(&checksum.to_le_bytes());
    disk.remove(&name).unwrap();
    disk.open(&name, Open::New).unwrap().write_at(&older, 0).unwrap();
}

#[test]
fn an_image_of_version_1_goes_on_as_version_4_in_the_middle_of_a_checkpoint() {
    for settings in both() {
        let disk = MemDisk::new();
        let mut database = open(&disk, settings).unwrap();
        (0..3).for_each(|_| database.create_table());
        work(&mut database, 1, 120);
        database.checkpoint().unwrap();
        work(&mut database, 2, 30);
        begin(&mut database);
        batches(&mut database);
        let (number, expected) = (database.checkpoints.writing(), rows(&mut database.store));
        drop(database);
        put_back(&disk);
        let version = |disk: &MemDisk| bytes(disk, &files(disk, "checkpoint-")[0])[8];
        assert_eq!(version(&disk), 1);

        let mut database = open(&disk, settings).unwrap();
        assert_eq!((database.checkpoints.writing(), version(&disk)), (number, 4));
        assert!(rows(&mut database.store) == expected);
        let written: u64 = database.parts.iter().map(|part| part.progress().blocks).sum();
        assert!(written > 0, "blocks of version 1 count");
        // Some of its blocks are of either version now.
        batches(&mut database);
        drop(database);
        let mut database = open(&disk, settings).unwrap();
        assert_eq!(database.checkpoints.writing(), number);
        assert!(rows(&mut database.store) == expected);
        (0..2).for_each(|_| database.checkpoint().unwrap());
        drop(database);
        assert!(rows(&mut open(&disk, settings).unwrap().store) == expected);
    }
}
