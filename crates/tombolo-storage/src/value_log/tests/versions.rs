//! Logs of version 2, whose groups have no time: they are read and continue as logs of today's version; times
//! go back only where a clock stays behind.

use super::*;
use crate::disk::{MemDisk, Open};
use crate::header_copies::{COPY_BYTES, Layout};
use crate::value_log::group::{Group, HEADER_BYTES};
use crate::value_log::segment::{FIRST_GROUP_OFFSET, file_number};

/// Has both copies of a segment's header say that it is of a version.
fn put_version(segment: &mut [u8], version: u32) {
    let layout = Layout { magic: *b"tombval\n", version, used_bytes: 52 };
    for copy in segment[..2 * COPY_BYTES].chunks_mut(COPY_BYTES) {
        let sequence = u64::from_le_bytes(copy[16..24].try_into().unwrap());
        layout.encode(sequence, copy);
    }
}

/// Makes of a log one that version 2 has written: groups as it had them, each naming the other checksum
/// of its predecessor.
fn turn_back(disk: &MemDisk) {
    let mut previous = 0_u32;
    // In the order of their first use, which is that of their names here.
    for name in disk.list().unwrap().into_iter().filter(|name| file_number(name).is_some()) {
        let file = disk.open(&name, Open::Write).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_at(&mut bytes, 0).unwrap();
        put_version(&mut bytes, 2);
        let mut at = FIRST_GROUP_OFFSET as usize;
        while let Some(group) = bytes.get(at..at + HEADER_BYTES).and_then(Group::decode) {
            let header = &mut bytes[at..at + group.bytes()];
            header[..4].copy_from_slice(b"tgrp");
            header[24..32].copy_from_slice(&group.offset.to_le_bytes());
            header[32..40].copy_from_slice(&group.watermark.to_le_bytes());
            header[52..56].copy_from_slice(&previous.to_le_bytes());
            let salted = crc32c::crc32c(&SETTINGS.salt.to_le_bytes());
            previous = crc32c::crc32c_append(salted, &header[8..]);
            header[4..8].copy_from_slice(&previous.to_le_bytes());
            at += group.bytes().next_multiple_of(SETTINGS.block_bytes as usize);
        }
        file.write_at(&bytes, 0).unwrap();
    }
}

/// The times of the groups in a file.
fn times(disk: &MemDisk, name: &str) -> Vec<u64> {
    let file = disk.open(name, Open::Read).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_at(&mut bytes, 0).unwrap();
    let blocks = bytes[FIRST_GROUP_OFFSET as usize..].chunks(SETTINGS.block_bytes as usize);
    blocks.filter_map(Group::decode).map(|group| group.time_us).collect()
}

#[test]
fn a_log_of_version_2_goes_on_as_one_of_today() {
    for groups in [1, 5, 40] {
        let disk = MemDisk::new();
        let mut writer = create(&disk);
        let mut random = Random::new(groups);
        let mut written = Groups::new();
        for _ in 0..groups {
            let bytes = records(&mut random, 400);
            written.push((writer.append_group(&[&bytes], 1, None).unwrap(), bytes));
            writer.sync().unwrap();
        }
        drop(writer);
        let version =
            || survey(&disk, &mut |_, _: &[u8]| Ok(()), &mut |_| {}).unwrap().format_version();
        assert_eq!(version(), 4);
        turn_back(&disk);
        assert_eq!(version(), 2, "what is there is reported");
        let (recovered, found) = recovered(&disk);
        assert!(found == written && recovered.cut.is_none(), "{groups} groups");
        let mut writer = recovered.writer;
        assert_eq!((writer.time_us(), writer.transactions()), (0, groups));
        writer.set_time(1_000);
        let bytes = records(&mut random, 400);
        written.push((writer.append_group(&[&bytes], 1, None).unwrap(), bytes));
        writer.sync().unwrap();
        drop(writer);
        let (recovered, found) = super::recovered(&disk);
        assert!(found == written && recovered.cut.is_none(), "{groups} groups");
        assert_eq!(recovered.writer.time_us(), 1_000);
    }
}

/// Of version 3 are the groups of today; what is behind them may hold records that it does not know.
#[test]
fn a_log_of_version_3_goes_on_under_a_version_that_it_refuses() {
    let disk = MemDisk::new();
    let mut writer = create(&disk);
    writer.append_group(&[b"records"], 1, None).unwrap();
    writer.sync().unwrap();
    drop(writer);
    let file = disk.open("log-000001", Open::Write).unwrap();
    let mut header = vec![0; 2 * COPY_BYTES];
    file.read_at(&mut header, 0).unwrap();
    put_version(&mut header, 3);
    file.write_at(&header, 0).unwrap();
    let version =
        || survey(&disk, &mut |_, _: &[u8]| Ok(()), &mut |_| {}).unwrap().format_version();
    assert_eq!(version(), 3);
    let (Recovered { writer, .. }, found) = recovered(&disk);
    assert_eq!((found.len(), found[0].1.as_slice()), (1, &b"records"[..]));
    drop(writer);
    assert_eq!(version(), 4);
}

/// A clock that was ahead once does not stop the time for ever, and one that is behind for a moment is
/// not followed.
#[test]
fn a_clock_that_stays_behind_is_believed() {
    const HOUR: u64 = 3_600_000_000;
    let disk = MemDisk::new();
    let mut writer = create(&disk);
    let (now, ahead) = (100 * HOUR, 1_000 * HOUR);
    for (said, expected) in [
        (now, now),
        (now - 50 * HOUR, now), // a moment
        (now + 1, now + 1),
        (ahead, ahead),
        (now + 2, ahead),
        (now + HOUR, ahead),
        (now + HOUR + 3, now + HOUR + 3),
        (now + HOUR + 4, now + HOUR + 4),
        (now + 5, now + HOUR + 4), // less than an hour is never followed
        (now + HOUR - 5, now + HOUR + 4),
        (ahead, ahead),
        (now + 9 * HOUR, ahead),
    ] {
        writer.set_time(said);
        writer.append_group(&[b"records"], 1, None).unwrap();
        assert_eq!(writer.time_us(), expected, "{said}");
    }
    writer.sync().unwrap();
    drop(writer);
    let (Recovered { mut writer, .. }, _) = recovered(&disk);
    assert_eq!(writer.time_us(), ahead);
    for (said, expected) in [(now + 11 * HOUR, ahead), (now + 13 * HOUR, now + 13 * HOUR)] {
        writer.set_time(said);
        writer.append_group(&[b"records"], 1, None).unwrap();
        assert_eq!(writer.time_us(), expected);
    }
    writer.sync().unwrap();
    drop(writer);
    let (Recovered { writer, .. }, _) = recovered(&disk);
    assert_eq!(writer.time_us(), now + 13 * HOUR, "the last one, not the latest");
}

#[test]
fn times_do_not_go_back_by_little() {
    let disk = MemDisk::new();
    let mut writer = create(&disk);
    for now_us in [7, 9, 3, 9, 12] {
        writer.set_time(now_us);
        writer.append_group(&[b"records"], 1, None).unwrap();
    }
    writer.sync().unwrap();
    assert_eq!(times(&disk, "log-000001"), [0, 7, 9, 9, 9, 12]);
    drop(writer);
    let (Recovered { mut writer, .. }, _) = recovered(&disk);
    writer.set_time(5);
    writer.append_group(&[b"records"], 1, None).unwrap();
    writer.sync().unwrap();
    assert_eq!(times(&disk, "log-000001"), [0, 7, 9, 9, 9, 12, 12, 12]);
}
