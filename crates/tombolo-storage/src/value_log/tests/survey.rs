//! A survey finds what recovery would find and changes nothing; a loss that is accepted is counted.

use super::damage::{FIRST, copy, files, log, overwrite};
use super::*;
use crate::disk::{MemDisk, Open};

fn surveyed(disk: &MemDisk) -> (Survey, Groups) {
    let mut groups = Groups::new();
    let mut replay = |number, records: &[u8]| {
        groups.push((number, records.to_vec()));
        Ok(())
    };
    let survey = survey(disk, &mut replay, &mut |_| {}).unwrap();
    (survey, groups)
}

#[test]
fn a_survey_finds_what_recovery_finds_and_changes_nothing() {
    let disk = log();
    let before = files(&disk);
    let (survey, groups) = surveyed(&disk);
    assert!(files(&disk) == before);
    assert_eq!((survey.groups, survey.transactions, survey.last_group), (4, 3, 4));
    assert_eq!((survey.bytes, survey.epoch, &survey.cut), (5 * 512, 1, &None));
    let states: Vec<_> = survey.segments.iter().map(|segment| segment.state).collect();
    assert_eq!(states[0], SegmentState::Used { first: 1, last: 4 });
    assert!(states[1..].iter().all(|state| *state == SegmentState::Spare));
    assert_eq!(recovered(&disk).1, groups);
}

/// Where an image leaves off, older segments are gone or used again.
#[test]
fn segments_are_reported_with_the_groups_they_hold_from_anywhere_on() {
    let disk = MemDisk::new();
    let (mut writer, mut random) = (create(&disk), Random::new(1));
    for _ in 0..60 {
        writer.append_group(&[&records(&mut random, 400)], 1, None).unwrap();
    }
    writer.sync().unwrap();
    let newest = writer.newest();
    drop(writer);
    let used = |survey: &Survey| {
        let states = survey.segments.iter().map(|segment| segment.state);
        let used = states.filter_map(|state| match state {
            SegmentState::Used { first, last } => Some((first, last)),
            _ => None,
        });
        used.collect::<Vec<_>>()
    };
    let (whole, _) = surveyed(&disk);
    let all = used(&whole);
    assert!(all.len() > 2 && all[0].0 == 1 && all[all.len() - 1].1 == newest, "{all:?}");
    assert!(all.windows(2).all(|two| two[0].1 + 1 == two[1].0), "{all:?}");
    disk.remove(&whole.segments[0].file).unwrap();
    let lock = DirectoryLock::take_to_look(&disk).unwrap();
    let from = LogStart::from(all[1].0 + 1);
    let behind = survey_locked(&lock, &disk, from, &mut |_, _: &[u8]| Ok(()), &mut |_| {}).unwrap();
    assert_eq!(used(&behind), all[1..]);
}

#[test]
fn damage_is_reported_with_what_it_takes_away() {
    let disk = log();
    overwrite(&disk, "log-000001", FIRST + 512 + 70, &[0xff]);
    let before = files(&disk);
    let (survey, groups) = surveyed(&disk);
    assert!(files(&disk) == before && groups.is_empty());
    let cut = survey.cut.unwrap();
    assert!(matches!(cut.damage, Some(LogFailure::Damaged { group: 2, .. })), "{cut:?}");
    assert_eq!((cut.offset, cut.lost.groups, cut.lost.transactions), (FIRST + 512, 3, 3));
    let lossy = RecoverOptions { accept_loss: true, ..RecoverOptions::default() };
    let (recovered, _) = recover_with(&disk, lossy).unwrap();
    let kept = vec!["lost-000001-log-000001".to_owned()];
    assert_eq!(recovered.cut.unwrap(), Cut { kept, ..cut });
    drop(recovered.writer);
    let (after, _) = surveyed(&disk);
    assert_eq!((after.cut, after.last_group, after.epoch), (None, 2, 2));
}

#[test]
fn a_torn_tail_loses_no_group() {
    let disk = log();
    overwrite(&disk, "log-000001", FIRST + 1536 + 70, &[0xff]);
    let (survey, groups) = surveyed(&disk);
    let cut = survey.cut.unwrap();
    assert_eq!((cut.group, cut.damage, cut.lost), (4, None, Lost::default()));
    assert!(cut.torn_bytes > 0 && groups.len() == 2);
}

#[test]
fn files_that_are_no_segments_are_named() {
    let disk = log();
    drop(disk.open("log-000077", Open::New).unwrap());
    drop(disk.open("log-000002", Open::New).unwrap());
    overwrite(&disk, "log-000002", 0, &[0xff; 16 << 10]);
    let (survey, groups) = surveyed(&disk);
    assert_eq!(groups.len(), 3, "the second segment holds nothing");
    let state = |file| {
        let found = survey.segments.iter().find(|segment| segment.file == file);
        found.map(|segment| segment.state)
    };
    assert_eq!(state("log-000077"), Some(SegmentState::Unfinished));
    assert_eq!(state("log-000002"), Some(SegmentState::Damaged));
    assert!(survey.cut.unwrap().damage.is_some());
    // Nothing but what cannot be read.
    for copy in [0, 4096] {
        overwrite(&disk, "log-000001", copy + 20, &[0xff]);
    }
    let (survey, groups) = surveyed(&disk);
    assert!(groups.is_empty() && survey.groups == 0 && survey.last_group == 0);
    assert!(survey.cut.unwrap().damage.is_some());
}

#[test]
fn a_log_in_use_or_none_is_refused() {
    let mut replay = |_, _: &[u8]| Ok(());
    let disk = MemDisk::new();
    let refused = survey(&disk, &mut replay, &mut |_| {}).unwrap_err();
    assert_eq!(refused, LogFailure::NoLog);
    let writer = create(&disk);
    let refused = survey(&disk, &mut replay, &mut |_| {}).unwrap_err();
    assert!(matches!(refused, LogFailure::InUse { .. }), "{refused}");
    drop(writer);
    survey(&disk, &mut replay, &mut |_| {}).unwrap();
}

/// What a replay puts off comes to light before anything is written.
#[test]
fn a_replay_that_fails_at_its_end_leaves_the_directory_alone() {
    struct Late;
    impl Replay for Late {
        fn replay(&mut self, _: GroupNumber, _: &[u8]) -> Result<(), Refused> {
            Ok(())
        }
        fn complete(&mut self) -> Result<(), Refused> {
            Err((3, "no memory".to_owned()))
        }
    }
    let disk = log();
    overwrite(&disk, "log-000001", FIRST + 1536 + 70, &[0xff]);
    let disk = copy(&disk);
    let before = files(&disk);
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let options = RecoverOptions::default();
    let refused = recover(shared, SETTINGS, options, &mut Late, &mut |_| {}).unwrap_err();
    let place = ("log-000001".to_owned(), FIRST + 1024);
    assert_eq!(refused, unfit(place, 3, "no memory"));
    let mut after = files(&disk);
    after.retain(|name, _| name != LOCK_FILE);
    assert!(after.iter().all(|(name, bytes)| before.get(name) == Some(bytes)));
}
