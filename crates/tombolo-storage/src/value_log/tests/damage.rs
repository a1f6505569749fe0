//! Every byte of a log is spoilt in turn: the newest group is a torn tail, everything before it is
//! refused with its place, and lost only if that is accepted.

use std::collections::BTreeMap;
use std::io::ErrorKind;

use super::group::{Group, HEADER_BYTES};
use super::*;
use crate::disk::{DiskFile, Fault, MemDisk, Open, Operation};
#[cfg(not(tombolo_plants))]
use crate::plant::{self, Plant};

pub(super) const FIRST: u64 = 8192;

pub(super) fn overwrite(disk: &MemDisk, file: &str, offset: u64, bytes: &[u8]) {
    disk.open(file, Open::Write).unwrap().write_at(bytes, offset).unwrap();
}

/// All files, by name.
pub(super) fn files(disk: &MemDisk) -> BTreeMap<String, Vec<u8>> {
    let names = disk.list().unwrap();
    names.into_iter().map(|name| (name.clone(), read(disk, &name))).collect()
}

pub(super) fn read(disk: &MemDisk, file: &str) -> Vec<u8> {
    let file: Box<dyn DiskFile> = disk.open(file, Open::Read).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_at(&mut bytes, 0).unwrap();
    bytes
}

/// A disk with the same files.
pub(super) fn copy(disk: &MemDisk) -> MemDisk {
    let other = MemDisk::new();
    for name in disk.list().unwrap() {
        drop(other.open(&name, Open::New).unwrap());
        overwrite(&other, &name, 0, &read(disk, &name));
    }
    other
}

/// A log with groups 1 (empty), 2, 3 and 4, of one block each but 4, which has two; each synced.
pub(super) fn log() -> MemDisk {
    let disk = MemDisk::new();
    let mut writer = create(&disk);
    for bytes in [&[2; 100][..], &[3; 400], &[4; 900]] {
        writer.append_group(&[bytes], 1, None).unwrap();
        writer.sync().unwrap();
    }
    disk
}

/// Where the segments before it are gone, nothing leads past damage to the first group that is needed.
#[test]
fn a_log_that_begins_with_damage_is_refused_with_its_place() {
    let disk = MemDisk::new();
    let mut writer = create(&disk);
    let first = loop {
        let number = writer.append_group(&[&[7; 1_500]], 1, None).unwrap();
        writer.sync().unwrap();
        if writer.left_behind() == number - 1 && writer.left_behind() > 1 {
            break writer.position();
        }
    };
    for _ in 0..6 {
        writer.append_group(&[&[8; 1_500]], 1, None).unwrap();
    }
    writer.seal().unwrap();
    writer.release_before(first.group);
    assert!(writer.trim().unwrap() > 0);
    drop(writer);
    let mut names = disk.list().unwrap();
    names.retain(|name| name.starts_with("log-"));
    let start = LogStart {
        group: first.group,
        checksum: Some(first.checksum),
        ..LogStart::from(first.group)
    };
    let options =
        |accept_loss| RecoverOptions { first: start, accept_loss, keep: None, last: None };
    assert!(recover_with(&copy(&disk), options(false)).is_ok());
    let file = &names[0];
    overwrite(&disk, file, FIRST + 300, &[0]);
    for accept_loss in [false, true] {
        let refused = recover_with(&copy(&disk), options(accept_loss)).unwrap_err();
        let said = refused.to_string();
        let place = format!("{file} at offset {FIRST}, group {}: it is damaged", first.group);
        assert!(
            matches!(refused, LogFailure::Irreparable { .. }) && said.contains(&place),
            "{said}"
        );
    }
}

/// What lies before the group an image was made behind is not needed: damage to it matters only to a
/// recovery that is to begin earlier.
#[test]
fn damage_before_what_is_needed_does_no_harm() {
    for runs in [false, true] {
        let disk = MemDisk::new();
        let mut writer = create(&disk);
        let (mut extents, mut at) = (Vec::new(), FIRST + 512);
        let mut groups = Vec::from([(FIRST, FIRST + 64)]);
        for length in [100, 400, 900, 300, 60] {
            let number = writer.append_group(&[&vec![7; length]], 1, None).unwrap();
            writer.sync().unwrap();
            extents.push((number, at, writer.position()));
            groups.push((at, at + 64 + length as u64));
            at += (64 + length as u64).next_multiple_of(512);
        }
        if runs {
            // A group that continues in later segments, so that this one is full.
            writer.append_group(&[&vec![9; 20_000]], 1, None).unwrap();
        }
        writer.seal().unwrap();
        let newest = writer.newest();
        drop(writer);
        let (first, from, position) = extents[3];
        let start = LogStart::behind(position, first);
        let options = RecoverOptions { first: start, ..RecoverOptions::default() };
        let (_, whole) = recover_with(&copy(&disk), options).unwrap();
        assert_eq!(whole[0].0, first);
        for offset in (FIRST..from + 100).step_by(37) {
            let disk = copy(&disk);
            let was = read(&disk, "log-000001")[offset as usize];
            overwrite(&disk, "log-000001", offset, &[was ^ 1]);
            let is_vital = offset >= from;
            let is_named = groups.iter().any(|group| (group.0..group.1).contains(&offset));
            let from_the_first = recover_with(&copy(&disk), RecoverOptions::default());
            match recover_with(&disk, options) {
                Ok((recovered, groups)) => {
                    assert!(groups == whole && recovered.cut.is_none(), "offset {offset}");
                    assert_eq!(recovered.writer.newest(), newest + 1);
                    assert!(!is_vital, "offset {offset}");
                    // As a checkpoint does, while the log is written.
                    let mut reader = recovered.writer.reader();
                    for is_again in [false, true] {
                        let mut read = Vec::new();
                        let mut keep = |position: LogPosition, _: &[u8]| {
                            read.push(position.group);
                            Ok::<_, LogFailure>(())
                        };
                        if is_again {
                            reader.again(position);
                        }
                        let end = reader.read(position, newest + 1, usize::MAX, &mut keep);
                        assert_eq!(end.unwrap(), recovered.writer.position(), "offset {offset}");
                        assert_eq!(read[0], first + u64::from(!is_again), "offset {offset}");
                    }
                }
                Err(LogFailure::Irreparable { .. }) => assert!(is_vital, "offset {offset}"),
                Err(other) => panic!("offset {offset}: {other}"),
            }
            // Where it matters it is named, unless the byte fills a block up.
            let failure = from_the_first.err();
            let is_damage = matches!(failure, Some(LogFailure::Damaged { .. }));
            assert_eq!(is_damage, is_named, "offset {offset}: {failure:?}");
        }
    }
}

#[test]
fn every_spoilt_byte_is_cut_or_refused() {
    let disk = log();
    let whole = read(&disk, "log-000001");
    // Where each group begins and its records end.
    let extents = [(FIRST, 64), (FIRST + 512, 164), (FIRST + 1024, 464), (FIRST + 1536, 964)];
    for (position, &(begin, bytes)) in extents.iter().enumerate() {
        let number = position as u64 + 1;
        for offset in (begin..begin + bytes).step_by(if bytes > 500 { 7 } else { 1 }) {
            let disk = copy(&disk);
            overwrite(&disk, "log-000001", offset, &[whole[offset as usize] ^ 0x40]);
            if number == 4 {
                // No later group vouches for the newest one.
                let (recovered, groups) = recovered(&disk);
                assert_eq!(groups.len(), 2, "offset {offset}");
                let cut = recovered.cut.unwrap();
                assert_eq!((cut.group, cut.offset, cut.damage), (4, begin, None));
                assert!(cut.torn_bytes >= 512);
                continue;
            }
            match recover_with(&disk, RecoverOptions::default()).unwrap_err() {
                LogFailure::Damaged { file, offset: found, group, what } => {
                    assert_eq!((file.as_str(), found, group), ("log-000001", begin, number));
                    assert!(what.contains("durable"), "{what}");
                }
                other => panic!("offset {offset}: {other}"),
            }
            let lossy = RecoverOptions { accept_loss: true, ..RecoverOptions::default() };
            let (recovered, groups) = recover_with(&disk, lossy).unwrap();
            assert_eq!(groups.len() as u64, number.saturating_sub(2), "offset {offset}");
            assert!(recovered.cut.unwrap().damage.is_some());
            drop(recovered.writer);
            let (again, same) = super::recovered(&disk);
            assert_eq!((groups, again.cut), (same, None), "the loss was accepted once");
        }
    }
}

#[test]
fn a_seal_vouches_for_the_newest_group() {
    let disk = log();
    recovered(&disk).0.writer.seal().unwrap();
    overwrite(&disk, "log-000001", FIRST + 1536 + 500, &[0]);
    let refused = recover_with(&disk, RecoverOptions::default()).unwrap_err();
    assert!(matches!(refused, LogFailure::Damaged { group: 4, .. }), "{refused}");
}

/// The tail is torn after each of its bytes; once what was left is cut, it never comes back.
#[test]
fn a_torn_tail_is_cut_for_good() {
    let disk = log();
    let whole = read(&disk, "log-000001");
    let begin = FIRST + 1536;
    for kept in (0..964).step_by(3) {
        let disk = copy(&disk);
        let torn = begin + kept;
        overwrite(&disk, "log-000001", torn, &vec![0; 1024 - kept as usize]);
        let (first, groups) = recovered(&disk);
        assert_eq!(groups.len(), 2);
        assert_eq!(first.cut.is_some(), kept > 0);
        drop(first.writer);
        // The device finds the rest of the torn group after all.
        let block_2 = &whole[begin as usize + 512..begin as usize + 1024];
        overwrite(&disk, "log-000001", begin + 512, block_2);
        let (second, same) = recovered(&disk);
        assert_eq!((same, second.writer.epoch()), (groups, 3), "kept {kept}");
    }
}

/// Groups 5 and 6 of the first epoch reached the disk, 4 did not: after the cut of 4 the others are
/// intact, in place, and in the right distance, but of an older epoch.
#[test]
fn groups_of_an_older_epoch_never_come_back() {
    let disk = MemDisk::new();
    let mut writer = create(&disk);
    writer.append_group(&[b"two"], 1, None).unwrap();
    writer.append_group(&[b"three"], 1, None).unwrap();
    writer.sync().unwrap();
    for records in [b"4th", b"5th", b"6th"] {
        writer.append_group(&[records], 1, None).unwrap();
    }
    drop(writer);
    overwrite(&disk, "log-000001", FIRST + 3 * 512, &[0; 512]);
    let (first, groups) = recovered(&disk);
    assert_eq!(groups.len(), 2);
    assert_eq!(first.cut.as_ref().map(|cut| (cut.group, cut.torn_bytes)), Some((4, 1024)));
    drop(first);
    let (second, same) = recovered(&disk);
    assert_eq!((same, second.cut, second.writer.newest()), (groups, None, 5));
}

#[test]
fn a_group_from_elsewhere_is_no_group() {
    let disk = log();
    let whole = read(&disk, "log-000001");
    let third = &whole[FIRST as usize + 1024..FIRST as usize + 1536];
    overwrite(&disk, "log-000001", FIRST + 512, third);
    let refused = recover_with(&disk, RecoverOptions::default()).unwrap_err();
    assert!(matches!(refused, LogFailure::Damaged { group: 2, .. }), "{refused}");
}

/// A user stores bytes that are a group which says that the one they lie in is durable; of that one
/// only the end reaches the disk.
#[test]
fn what_a_user_stores_cannot_pass_for_a_group() {
    let begin = FIRST + 512;
    let refusal = |salt| {
        let forged = Group {
            number: 3,
            sequence: 1,
            offset: begin + 512,
            watermark: 2,
            time_us: 0,
            transactions: 1,
            epoch: 1,
            previous: 0,
            length: 0,
            more: false,
            starts_epoch: false,
            continues: false,
        };
        let mut header = [0; HEADER_BYTES];
        forged.encode(salt, &mut header);
        let disk = MemDisk::new();
        let mut writer = create(&disk);
        // With the group's own header before it, the forged one begins a sector.
        let value = [&[7; 512 - HEADER_BYTES][..], &header, &[7; 99]].concat();
        writer.append_group(&[&value], 1, None).unwrap();
        drop(writer);
        overwrite(&disk, "log-000001", begin + 20, &[9; 400]);
        recover_with(&disk, RecoverOptions::default()).map(|(recovered, _)| recovered.cut)
    };
    let believed = refusal(SETTINGS.salt).unwrap_err();
    assert!(matches!(believed, LogFailure::Damaged { group: 2, .. }), "{believed}");
    for guess in [0, 1, u64::MAX, SETTINGS.salt ^ 1] {
        let cut = refusal(guess).unwrap().unwrap();
        assert_eq!((cut.group, cut.offset, cut.damage), (2, begin, None), "guess {guess}");
    }
}

/// A group that a recovery cut off begins a segment; later groups, and a start from one of them on.
/// What a recovery from group 6 on finds behind a cut that an intact group 5 lay behind.
fn from_behind_a_cut() -> Result<Groups, LogFailure> {
    let disk = MemDisk::new();
    let mut writer = create(&disk);
    for _ in 2..=5 {
        writer.append_group(&[&[1; 1_900]], 1, None).unwrap();
    }
    drop(writer); // group 5 begins the second segment; 4 never arrives
    overwrite(&disk, "log-000001", FIRST + 512 + 2 * 2048, &[0; 2048]);
    let (first, groups) = recovered(&disk);
    assert_eq!((groups.len(), first.writer.newest()), (2, 4));
    let mut writer = first.writer;
    for _ in 5..=6 {
        writer.append_group(&[&[2; 300]], 1, None).unwrap();
    }
    writer.sync().unwrap();
    assert_eq!(writer.release_before(6), 0);
    drop(writer);
    let options = RecoverOptions { first: 6.into(), ..RecoverOptions::default() };
    recover_with(&disk, options).map(|(_, groups)| groups)
}

#[test]
fn a_start_is_never_looked_for_behind_a_cut() {
    let expected = Ok(vec![(6, vec![2; 300])]);
    assert_eq!(from_behind_a_cut(), expected);
    #[cfg(not(tombolo_plants))]
    assert_ne!(plant::with(Plant::CutNotWiped, from_behind_a_cut), expected);
}

#[test]
fn a_segment_of_another_database_is_refused() {
    let disk = MemDisk::new();
    let mut writer = create(&disk);
    for _ in 0..6 {
        writer.append_group(&[&[5; 2_000]], 1, None).unwrap();
    }
    writer.sync().unwrap();
    drop(writer);
    let foreign = MemDisk::new();
    let settings = LogSettings { salt: SETTINGS.salt + 1, ..SETTINGS };
    let mut writer = LogWriter::create(Arc::new(foreign.clone()), settings).unwrap();
    for _ in 0..6 {
        writer.append_group(&[&[5; 2_000]], 1, None).unwrap();
    }
    drop(writer);
    overwrite(&disk, "log-000002", 0, &read(&foreign, "log-000002"));
    let refused = recover_with(&disk, RecoverOptions::default()).unwrap_err();
    let expected = "it and log-000001 are of different databases";
    let what = |failure: &LogFailure| match failure {
        LogFailure::Irreparable { what, .. } => what.clone(),
        other => panic!("{other}"),
    };
    assert_eq!(what(&refused), expected);
}

#[test]
fn segments_that_are_missing_short_or_spoilt_are_refused() {
    let disk = MemDisk::new();
    let mut writer = create(&disk);
    for _ in 0..20 {
        writer.append_group(&[&[5; 2_000]], 1, None).unwrap();
        writer.sync().unwrap();
    }
    drop(writer);
    let lossy = RecoverOptions { accept_loss: true, ..RecoverOptions::default() };
    let spoils: [fn(&MemDisk); 4] = [
        |disk| disk.remove("log-000002").unwrap(),
        |disk| disk.open("log-000002", Open::Write).unwrap().set_len(10_000).unwrap(),
        |disk| {
            overwrite(disk, "log-000002", 17, &[9]);
            overwrite(disk, "log-000002", 4096 + 17, &[9]);
        },
        |disk| overwrite(disk, "log-000002", 0, &[0; 8192]),
    ];
    for (case, spoil) in spoils.into_iter().enumerate() {
        let disk = copy(&disk);
        spoil(&disk);
        let refused = recover_with(&disk, RecoverOptions::default()).unwrap_err();
        assert!(matches!(refused, LogFailure::Damaged { .. }), "case {case}: {refused}");
        let spoilt = files(&disk);
        let (recovered, groups) = recover_with(&disk, lossy).unwrap();
        let cut = recovered.cut.unwrap();
        assert!(groups.len() < 6 && cut.damage.is_some(), "case {case}");
        drop(recovered.writer);
        // What was there is kept: every file that is another now, or gone, but for what recovery writes
        // again as it was.
        let now = files(&disk);
        for (name, bytes) in &spoilt {
            let is_kept =
                cut.kept.iter().any(|kept| kept.ends_with(&**name) && now[kept] == *bytes);
            assert!(is_kept || now.get(name) == Some(bytes), "case {case}: {name}, {:?}", cut.kept);
        }
        assert!(cut.kept.iter().all(|kept| kept.starts_with("lost-000001-log-")), "{:?}", cut.kept);
        let (_, same) = super::recovered(&disk);
        assert_eq!(same, groups, "case {case}");
    }
}

/// A loss is accepted only when what was there is kept: without room for that nothing changes.
#[test]
fn no_loss_is_accepted_without_room_to_keep_it() {
    let disk = log();
    overwrite(&disk, "log-000001", FIRST + 512 + 100, &[0]);
    _ = recover_with(&disk, RecoverOptions::default()).unwrap_err(); // it makes the lock's file
    let before = files(&disk);
    let lossy = RecoverOptions { accept_loss: true, ..RecoverOptions::default() };
    for operation in [Operation::Write, Operation::Sync] {
        disk.set_fault(Some(Fault { operation, after: 0, kind: ErrorKind::StorageFull }));
        let refused = recover_with(&disk, lossy).unwrap_err();
        assert!(matches!(&refused, LogFailure::Disk(error) if error.is_full()), "{refused}");
        disk.set_fault(None);
        assert!(files(&disk) == before, "{operation:?}");
    }
    let (recovered, _) = recover_with(&disk, lossy).unwrap();
    assert_eq!(recovered.cut.unwrap().kept, ["lost-000001-log-000001"]);
}

/// A log that has lost all its segments does not count as new where a later group is needed.
#[test]
fn a_log_without_segments_is_refused_when_a_later_group_is_needed() {
    let disk = MemDisk::new();
    drop(disk.open("log-000001", Open::New).unwrap());
    let needed = |first| {
        recover_with(&disk, RecoverOptions { first, accept_loss: false, keep: None, last: None })
    };
    let refused = needed(2.into()).unwrap_err();
    assert!(matches!(refused, LogFailure::Irreparable { group: 1, .. }), "{refused}");
    assert!(refused.to_string().contains("group 2 is the first that is needed"), "{refused}");
    assert_eq!(needed(1.into()).unwrap().0.writer.newest(), 1);
}

/// Damage is refused with the offer to accept the loss, unless that would not help: where what would be
/// lost is needed, or nothing is left.
#[test]
fn a_loss_is_offered_only_where_it_helps() {
    let disk = log();
    overwrite(&disk, "log-000001", FIRST + 512 + 100, &[0]);
    for (first, accept_loss, is_offered) in
        [(1, false, true), (2, false, true), (3, false, false), (3, true, false), (9, true, false)]
    {
        let options = RecoverOptions { first: first.into(), accept_loss, keep: None, last: None };
        let refused = recover_with(&copy(&disk), options).err().unwrap();
        assert_eq!(matches!(refused, LogFailure::Damaged { .. }), is_offered, "{first}: {refused}");
        assert_eq!(refused.to_string().contains("or accept the loss"), is_offered, "{refused}");
    }
    // Both copies of the only segment's header.
    [17, 4096 + 17].into_iter().for_each(|at| overwrite(&disk, "log-000001", at, &[9]));
    let refused = |accept_loss| {
        let options = RecoverOptions { accept_loss, ..RecoverOptions::default() };
        recover_with(&disk, options).err().unwrap()
    };
    assert!(matches!(refused(false), LogFailure::Damaged { .. }));
    assert!(matches!(refused(true), LogFailure::Irreparable { .. }));
}

#[test]
fn another_version_is_refused_by_name() {
    let disk = log();
    for copy in [0, 4096] {
        overwrite(&disk, "log-000001", copy + 8, &[9]);
    }
    let refused = recover_with(&disk, RecoverOptions::default()).unwrap_err();
    assert_eq!(refused, LogFailure::OtherVersion { file: "log-000001".to_owned(), found: 9 });
    let reported = refused.to_string();
    assert!(reported.contains("reads versions 2 to 4; a newer program wrote it"), "{reported}");
    for copy in [0, 4096] {
        overwrite(&disk, "log-000001", copy + 8, &[1]);
    }
    let reported = recover_with(&disk, RecoverOptions::default()).unwrap_err().to_string();
    assert!(
        reported.contains("version 1, this") && reported.contains("one that reads both"),
        "{reported}"
    );
}

#[test]
fn what_cannot_be_replayed_is_reported_with_its_group() {
    let disk: Arc<dyn Disk> = Arc::new(log());
    let mut replay = |number, _: &[u8]| match number {
        3 => Err("no such table".to_owned()),
        _ => Ok(()),
    };
    let options = RecoverOptions::default();
    let refused = recover(disk, SETTINGS, options, &mut replay, &mut |_| {}).unwrap_err();
    let place = ("log-000001".to_owned(), FIRST + 1024);
    assert_eq!(refused, unfit(place, 3, "no such table"));
}

#[test]
fn a_log_of_the_other_kind_is_refused() {
    for (made, opened) in [(LogKind::Value, LogKind::Command), (LogKind::Command, LogKind::Value)] {
        let disk: Arc<dyn Disk> = Arc::new(MemDisk::new());
        let settings = |kind| LogSettings { kind, ..SETTINGS };
        drop(LogWriter::create(Arc::clone(&disk), settings(made)).unwrap());
        let open = |kind| {
            let (options, disk) = (RecoverOptions::default(), Arc::clone(&disk));
            recover(disk, settings(kind), options, &mut |_, _: &[u8]| Ok(()), &mut |_| {})
        };
        let refused = open(opened).unwrap_err();
        let file = "log-000001".to_owned();
        assert_eq!(refused, LogFailure::OtherKind { file, found: made });
        let how = match made {
            LogKind::Value => "without procedures",
            LogKind::Command => "only a program with their procedures",
            LogKind::Paged => "--profile conventional",
        };
        assert!(refused.to_string().contains(how), "{refused}");
        // Nothing was changed by that.
        assert_eq!(open(made).unwrap().writer.epoch(), 2);
    }
}

/// A crash while the first segment was made left one copy of its header: groups in it must not
/// depend on that one.
#[test]
fn a_log_goes_on_in_a_segment_with_both_headers() {
    for gone in [0, 4096] {
        let disk = MemDisk::new();
        drop(create(&disk));
        overwrite(&disk, "log-000001", gone, &[0; 4096]);
        let mut writer = recovered(&disk).0.writer;
        writer.append_group(&[b"kept"], 1, None).unwrap();
        writer.sync().unwrap();
        drop(writer);
        overwrite(&disk, "log-000001", 4096 - gone, &[0; 4096]);
        assert_eq!(recovered(&disk).1.len(), 1, "the copy at {gone} was missing");
    }
}
