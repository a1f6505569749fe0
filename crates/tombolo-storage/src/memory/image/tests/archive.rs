//! Archives: databases restored from a backup and the log's archive to any group or time, after crashes of
//! both disks; archives that are damaged, lack something, or are of another course of the log.
//!
//! The oracle: the rows are those after the newest group that is not behind the target.

use std::io::ErrorKind;

use super::*;
use crate::backup::{self, BackupFailure};
use crate::disk::{Fault, MemDisk, Open, Operation};
use crate::plant::{self, Plant};
use crate::value_log::archive::{ArchiveFailure, Archiver, LogArchive, RestoreTarget};
use crate::value_log::tests::crash_disk::CrashDisk;

/// A database that is archived.
struct Archived {
    database: Database,
    archiver: Archiver,
}

fn door(disk: &(impl Disk + Clone + 'static)) -> Arc<dyn Disk> {
    Arc::new(disk.clone())
}

/// Opens the database on `disk` with its archive.
fn open<D: Disk + Clone + 'static, A: Disk + Clone + 'static>(
    disk: &D,
    archive: &A,
) -> Result<Archived, ArchiveFailure> {
    let archive = LogArchive::open(door(archive))?;
    let opened = Database::open_with(&[door(disk)], image_settings(1), 1, archive.keep());
    let mut database = opened.map_err(|failure| match failure {
        Failure::Log(failure) => ArchiveFailure::Log(failure),
        Failure::Image(ImageFailure::Disk(error)) => ArchiveFailure::Disk(error),
        other => panic!("{other:?}"),
    })?;
    let end = database.writer.position();
    let archiver = archive.attach(database.writer.reader(), end)?;
    database.writer.keep_from(archiver.position().group + 1);
    Ok(Archived { database, archiver })
}

impl Archived {
    /// Archives a part, if there is anything to be archived.
    fn archive(&mut self) -> Result<bool, ArchiveFailure> {
        let archived = self.archiver.archive(self.database.writer.durable())?;
        self.database.writer.keep_from(self.archiver.position().group + 1);
        Ok(archived)
    }

    fn archive_all(&mut self) {
        while self.archive().unwrap() {}
    }
}

/// What was durable after each group, and when: rows by group and time.
type States = BTreeMap<GroupNumber, (u64, Vec<String>)>;

/// The rows as of a group or time.
fn state_at(states: &States, is_within: impl Fn(GroupNumber, u64) -> bool) -> Vec<String> {
    let newest = states.iter().rev().find(|(group, (time, _))| is_within(**group, *time));
    newest.map(|(_, (_, rows))| rows.clone()).unwrap_or_default()
}

/// Restores, and opens what that makes.
fn restored(
    copy: &MemDisk,
    archive: &dyn Disk,
    target: RestoreTarget,
) -> Result<(MemDisk, Database), BackupFailure> {
    let to = MemDisk::new();
    let (made, _) = backup::restore_until(copy, archive, target, &to, MARK)?;
    let database = Database::open(&[door(&to)], 1, 1).unwrap();
    assert_eq!(database.writer.newest(), made.position.group + 1, "its end, and a new epoch");
    Ok((to, database))
}

/// One database through several crashes, with everything at random; restored in the end.
fn crashes_and_restores(seed: u64) {
    let mut random = Random::new(seed);
    let (mut disk, mut archive) = (CrashDisk::default(), CrashDisk::default());
    let (mut states, mut copies, mut now_us) = (States::new(), Vec::new(), 1_000);
    for life in 0..4 {
        let steps = if life < 3 { Some(random.below(900)) } else { None };
        if random.below(2) == 0 {
            archive.fail_after(steps);
        } else {
            disk.fail_after(steps);
        }
        if let Ok(mut archived) = open(&disk, &archive) {
            let work = if life < 3 { 60 } else { 20 };
            for _ in 0..work {
                let done = step(&mut archived, &mut random, &mut states, &mut now_us);
                if random.below(30) == 0 && copies.len() < 3 {
                    let copy = MemDisk::new();
                    let durable = &mut || archived.database.writer.durable();
                    if let Ok(made) = backup::write(&[door(&disk)], &copy, &LOG, durable) {
                        copies.push((copy, made.position.group));
                    }
                }
                if done.is_err() && random.below(3) == 0 {
                    break;
                }
            }
        }
        disk.fail_after(None);
        archive.fail_after(None);
        (disk, archive) = (disk.crash(&mut random), archive.crash(&mut random));
    }
    let mut archived = open(&disk, &archive).unwrap();
    archived.archive_all();
    let end = archived.archiver.position().group;
    for (copy, from) in copies {
        let archive = archive.kill();
        for _ in 0..3 {
            let group = from + random.below(end - from + 1);
            let (_, mut found) = restored(&copy, &archive, RestoreTarget::Group(group)).unwrap();
            let expected = state_at(&states, |at, _| at <= group);
            assert!(rows(&mut found.store) == expected, "seed {seed}: not as of group {group}");
            assert_eq!(found.store.check(), []);
        }
        let oldest_us = states.get(&from).map_or(u64::MAX, |(time, _)| *time);
        let (_, (last_us, last)) = states.last_key_value().unwrap();
        let behind = states.range(from..).count() as u64;
        let any = states.range(from..).nth(random.below(behind.max(1)) as usize);
        let us = any.map_or(0, |(_, (time, _))| time + random.below(11));
        if oldest_us <= us && us <= *last_us {
            let (_, mut found) = restored(&copy, &archive, RestoreTarget::Time(us)).unwrap();
            let expected = state_at(&states, |_, time| time <= us);
            assert!(rows(&mut found.store) == expected, "seed {seed}: not as of {us}");
        }
        let (_, mut found) = restored(&copy, &archive, RestoreTarget::Latest).unwrap();
        assert!(rows(&mut found.store) == *last, "seed {seed}: not the latest");
    }
}

const HOUR_US: u64 = 3_600_000_000;

/// A bit of work; what is durable behind it is noted.
fn step(
    archived: &mut Archived,
    random: &mut Random,
    states: &mut States,
    now_us: &mut u64,
) -> Result<(), String> {
    let Archived { database, .. } = archived;
    let reported = |failure: Failure| format!("{failure:?}");
    match random.below(8) {
        0 if database.store.schema().tables.len() < 3 => database.create_table(),
        0 => database.checkpoint().map_err(reported)?,
        1 => _ = archived.archive().map_err(|failure| failure.to_string())?,
        2 => _ = database.writer.seal().map_err(|failure| failure.to_string())?,
        _ if database.store.schema().tables.is_empty() => {}
        _ => {
            let transactions = if random.below(12) == 0 { 400 } else { 1 + random.below(9) };
            database.work(random, transactions);
            *now_us += 10;
            // At times the clock is ahead by far, and believed again an hour later.
            let is_ahead = random.below(16) == 0;
            database.writer.set_time(*now_us + if is_ahead { 1_000 * HOUR_US } else { 0 });
            if !is_ahead && database.writer.time_us() > *now_us {
                *now_us += HOUR_US + 1;
                database.writer.set_time(*now_us);
            }
            let time_us = database.writer.time_us();
            let now = rows(&mut database.store);
            let group = database.write().map_err(reported)?;
            database.sync().map_err(reported)?;
            states.extend(group.map(|group| (group, (time_us, now))));
        }
    }
    Ok(())
}

#[test]
fn any_group_and_time_can_be_restored_after_crashes() {
    (0..12).for_each(crashes_and_restores);
}

#[cfg(not(tombolo_plants))]
#[test]
fn planted_bugs_are_noticed() {
    for plant in [Plant::ArchiveNotSynced, Plant::ArchiveNotWaitedFor, Plant::ArchiveNotKept] {
        let is_noticed = |seed| {
            let run = || crashes_and_restores(seed);
            std::panic::catch_unwind(|| plant::with(plant, run)).is_err()
        };
        assert!((0..400).any(is_noticed), "{} is not noticed", plant.name());
    }
    assert!(
        std::panic::catch_unwind(|| plant::with(Plant::ArchiveUnchained, two_courses)).is_err()
    );
}

/// A database with its archive, a backup of it, and work behind that.
fn with_backup() -> (MemDisk, MemDisk, MemDisk, Archived) {
    let [disk, archive, copy] = [MemDisk::new(), MemDisk::new(), MemDisk::new()];
    let mut archived = open(&disk, &archive).unwrap();
    archived.database.create_table();
    archived.database.groups(&mut Random::new(1), 5);
    let durable = archived.database.writer.durable();
    backup::write(&[door(&disk)], &copy, &LOG, &mut || durable).unwrap();
    for round in 0..3 {
        archived.database.groups(&mut Random::new(2 + round), 9);
        archived.archive_all();
        archived.database.checkpoint().unwrap();
    }
    (disk, archive, copy, archived)
}

#[test]
fn a_disk_that_fails_at_any_call_is_tried_again() {
    let operations =
        [Operation::Open, Operation::Write, Operation::Sync, Operation::Rename, Operation::Remove];
    for operation in operations {
        for after in 0..4 {
            for kind in [ErrorKind::Other, ErrorKind::StorageFull] {
                let (_, archive, copy, mut archived) = with_backup();
                archived.database.groups(&mut Random::new(9), 4);
                let before = archived.archiver.position();
                archive.set_fault(Some(Fault { operation, after, kind }));
                let failed = archived.archive();
                let position = archived.archiver.position();
                assert!(failed.is_ok() != (position == before), "{operation:?} {after}");
                archive.set_fault(None);
                archived.archive_all();
                let mut now = archived.database;
                let (_, mut found) = restored(&copy, &archive, RestoreTarget::Latest).unwrap();
                assert!(rows(&mut found.store) == rows(&mut now.store), "{operation:?} {after}");
            }
        }
    }
}

#[test]
fn an_archive_belongs_to_one_course_of_one_log() {
    let reported = |opened: Result<Archived, ArchiveFailure>| match opened {
        Err(failure @ ArchiveFailure::OtherCourse { .. }) => failure.to_string(),
        other => panic!("{:?}", other.err()),
    };
    let (disk, archive, copy, archived) = with_backup();
    let held = archived.archiver.position().group;
    // While it is open, no other process writes to it.
    let (other, _) = restored(&copy, &archive, RestoreTarget::Latest).unwrap();
    let refused = LogArchive::open(door(&archive)).unwrap_err();
    assert!(matches!(refused, ArchiveFailure::InUse { .. }), "{refused}");
    drop(archived);
    let (earlier, _) = restored(&copy, &archive, RestoreTarget::Group(held - 3)).unwrap();
    let what = reported(open(&earlier, &archive));
    assert!(what.contains("restored") && what.contains(&format!("to {held} ")), "{what}");
    reported(open(&MemDisk::new(), &archive));
    // What was restored to its end continues, and the original, should it come back, does not.
    let mut archived = open(&other, &archive).unwrap();
    archived.database.groups(&mut Random::new(5), 3);
    archived.archive_all();
    let (_, mut found) = restored(&copy, &archive, RestoreTarget::Latest).unwrap();
    assert!(rows(&mut found.store) == rows(&mut archived.database.store));
    drop(archived);
    reported(open(&disk, &archive));
}

#[test]
fn a_log_that_was_written_without_its_archive_is_refused() {
    let (disk, archive, _, archived) = with_backup();
    drop(archived);
    let mut database = Database::open(&[door(&disk)], 1, 1).unwrap();
    for round in 0..4 {
        database.groups(&mut Random::new(round), 60);
        database.checkpoint().unwrap();
    }
    drop(database);
    assert!(matches!(open(&disk, &archive), Err(ArchiveFailure::OtherCourse { .. })));
    assert!(open(&disk, &MemDisk::new()).is_ok(), "a new archive begins");
}

/// The files of parts, in order.
fn part_files(archive: &MemDisk) -> Vec<String> {
    let names = archive.list().unwrap().into_iter();
    names.filter(|name| name.starts_with("archive-")).collect()
}

/// The first group of a part.
fn first_group(name: &str) -> GroupNumber {
    name.rsplit('-').next().unwrap().parse().unwrap()
}

fn copy_of(disk: &MemDisk) -> MemDisk {
    let copy = MemDisk::new();
    for name in disk.list().unwrap() {
        let from = disk.open(&name, Open::Read).unwrap();
        let mut bytes = vec![0; from.len().unwrap() as usize];
        from.read_at(&mut bytes, 0).unwrap();
        copy.open(&name, Open::New).unwrap().write_at(&bytes, 0).unwrap();
    }
    copy
}

#[test]
fn what_lies_out_of_reach_is_reported_with_what_there_is() {
    let (_, archive, copy, archived) = with_backup();
    let last = archived.archiver.position().group;
    let reported = |archive: &MemDisk, target| match restored(&copy, archive, target) {
        Err(BackupFailure::Archive(failure)) => failure.to_string(),
        other => panic!("{:?}", other.err()),
    };
    let what = reported(&archive, RestoreTarget::Group(last + 1));
    assert!(what.contains(&format!("the last {last} (")), "{what}");
    let what = reported(&archive, RestoreTarget::Group(1));
    assert!(what.contains("cannot restore to group 1: "), "{what}");
    // The groups have no time.
    assert!(reported(&archive, RestoreTarget::Time(7)).contains("the last"));
    let parts = part_files(&archive);
    assert!(parts.len() > 2, "{parts:?}");
    let lacking = copy_of(&archive);
    lacking.remove(&parts[parts.len() - 2]).unwrap();
    for target in [RestoreTarget::Latest, RestoreTarget::Group(last), RestoreTarget::Time(7)] {
        let what = reported(&lacking, target);
        assert!(what.contains("is missing") && what.contains(&format!("to {last} ")), "{what}");
    }
    assert!(restored(&copy, &MemDisk::new(), RestoreTarget::Latest).is_ok(), "the backup alone");
}

#[test]
fn spoilt_parts_are_noticed() {
    let (_, archive, copy, archived) = with_backup();
    let end = archived.archiver.position().group;
    // Those behind the backup; of the others headers alone are read.
    for name in part_files(&archive).into_iter().filter(|name| first_group(name) > end - 20) {
        let length = archive.open(&name, Open::Read).unwrap().len().unwrap();
        for at in [0, 40, 116, 130, 128 + 70, length - 1] {
            let spoilt = copy_of(&archive);
            let file = spoilt.open(&name, Open::Write).unwrap();
            let mut byte = [0];
            file.read_at(&mut byte, at).unwrap();
            file.write_at(&[byte[0] ^ 4], at).unwrap();
            let refused = restored(&copy, &spoilt, RestoreTarget::Latest).err().unwrap();
            let is_reported = match &refused {
                BackupFailure::Archive(ArchiveFailure::Damaged { file, .. }) => *file == name,
                _ => false,
            };
            assert!(is_reported, "{name} at {at}: {refused}");
        }
    }
}

/// The parts of two archives in one directory, as far as they are wanted, put there by hand.
fn mixed(
    (one, is_wanted): (&MemDisk, impl Fn(GroupNumber) -> bool),
    (other, is_wanted_too): (&MemDisk, impl Fn(GroupNumber) -> bool),
) -> MemDisk {
    let mixed = copy_of(one);
    for name in part_files(one).into_iter().filter(|name| !is_wanted(first_group(name))) {
        mixed.remove(&name).unwrap();
    }
    for name in part_files(other).into_iter().filter(|name| is_wanted_too(first_group(name))) {
        let from = other.open(&name, Open::Read).unwrap();
        let mut bytes = vec![0; from.len().unwrap() as usize];
        from.read_at(&mut bytes, 0).unwrap();
        mixed.open(&name, Open::New).unwrap().write_at(&bytes, 0).unwrap();
    }
    mixed
}

/// Works until there are enough groups, and archives just up to one.
fn archive_to(archived: &mut Archived, random: u64, group: GroupNumber) {
    while archived.database.writer.durable() < group {
        archived.database.groups(&mut Random::new(random + group), 1);
    }
    while archived.archiver.archive(group).unwrap() {}
    assert_eq!(archived.archiver.position().group, group);
}

/// Two courses of a log: parts of the one do not continue parts of the other.
fn two_courses() {
    let (_, archive, copy, mut archived) = with_backup();
    let fork = archived.archiver.position().group;
    archive_to(&mut archived, 1, fork + 5);
    drop(archived);
    let [other, second] = [MemDisk::new(), MemDisk::new()];
    backup::restore_until(&copy, &archive, RestoreTarget::Group(fork), &other, MARK).unwrap();
    let mut archived = open(&other, &second).unwrap();
    archive_to(&mut archived, 2, fork + 5);
    archive_to(&mut archived, 3, fork + 9);
    let both = mixed((&archive, |_| true), (&second, |_| true));
    let refused = restored(&copy, &both, RestoreTarget::Latest).err().unwrap();
    let is_fork = |failure: &BackupFailure| match failure {
        BackupFailure::Archive(ArchiveFailure::Fork { group, .. }) => *group == fork,
        _ => false,
    };
    assert!(is_fork(&refused), "{refused}");
    // The numbers follow each other, the groups do not.
    let pieces = mixed((&archive, |_| true), (&second, |first| first > fork + 5));
    let refused = restored(&copy, &pieces, RestoreTarget::Latest).err().unwrap();
    let BackupFailure::Archive(ArchiveFailure::Gap { missing, .. }) = refused else {
        panic!("{refused}");
    };
    assert_eq!(missing, fork + 6);
    // Either course, by itself, leads to its end.
    let course = mixed((&archive, |first| first <= fork), (&second, |_| true));
    let (_, mut found) = restored(&copy, &course, RestoreTarget::Latest).unwrap();
    assert!(rows(&mut found.store) == rows(&mut archived.database.store));
}

#[test]
fn two_courses_in_one_directory_are_not_taken_for_one() {
    two_courses();
}
