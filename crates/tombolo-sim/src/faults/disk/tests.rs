//! The faulty disk does every wrong it claims, no other, and the same again for the same seed.

use super::machine::CRASH;
use super::*;
use crate::faults::Survival;
use std::collections::BTreeSet;
use tombolo_engine::clock::Clock;

fn disk(seed: u64, change: impl FnOnce(&mut Faults)) -> FaultyDisk {
    let mut faults = Faults { torn: 0, ..Faults::crashes_only() };
    change(&mut faults);
    FaultyDisk::new(seed, faults, SimClock::new(), Trace::new(false))
}

/// A file of `bytes` bytes, all `value`, with everything synced.
fn settled(disk: &FaultyDisk, name: &str, bytes: usize, value: u8) -> Box<dyn DiskFile> {
    let file = disk.open(name, Open::New).unwrap();
    file.write_at(&vec![value; bytes], 0).unwrap();
    file.sync().unwrap();
    disk.sync_dir().unwrap();
    file
}

fn contents(disk: &FaultyDisk, name: &str) -> Vec<u8> {
    let file = disk.open(name, Open::Read).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_at(&mut bytes, 0).unwrap();
    bytes
}

#[test]
fn what_was_synced_survives_the_rest_by_chance() {
    for (survival, expected) in [(Survival::Nothing, 1), (Survival::Everything, 2)] {
        let disk = disk(1, |faults| faults.survival = survival);
        let file = settled(&disk, "a", 2_048, 1);
        file.write_at(&[2; 2_048], 0).unwrap();
        disk.restart();
        assert_eq!(contents(&disk, "a"), vec![expected; 2_048], "{survival:?}");
    }
}

#[test]
fn sectors_survive_in_any_combination_and_version() {
    let mut seen = BTreeSet::new();
    for seed in 0..400 {
        let disk = disk(seed, |_| ());
        let file = settled(&disk, "a", 1_024, 1);
        file.write_at(&[2; 1_024], 0).unwrap();
        file.write_at(&[3; 512], 0).unwrap();
        disk.restart();
        let bytes = contents(&disk, "a");
        assert!(bytes.chunks(512).all(|sector| sector.iter().all(|byte| *byte == sector[0])));
        seen.insert((bytes[0], bytes[512]));
    }
    assert_eq!(seen, [(1, 1), (1, 2), (2, 1), (2, 2), (3, 1), (3, 2)].into());
}

#[test]
fn a_torn_sector_is_old_on_one_side_and_new_on_the_other() {
    let mut torn = 0;
    for seed in 0..200 {
        let disk = disk(seed, |faults| (faults.torn, faults.survival) = (1, Survival::Everything));
        let file = settled(&disk, "a", 512, 1);
        file.write_at(&[2; 512], 0).unwrap();
        disk.restart();
        let bytes = contents(&disk, "a");
        let changes = bytes.windows(2).filter(|pair| pair[0] != pair[1]).count();
        assert!(changes <= 1 && bytes.iter().all(|byte| [1, 2].contains(byte)));
        torn += changes;
    }
    assert!(torn > 150, "{torn} of 200 torn");
}

#[test]
fn directory_entries_need_their_own_sync() {
    let mut seen = BTreeSet::new();
    for seed in 0..64 {
        let disk = disk(seed, |_| ());
        settled(&disk, "old", 10, 1);
        disk.remove("old").unwrap();
        let file = disk.open("new", Open::New).unwrap();
        file.write_at(b"x", 0).unwrap();
        file.sync().unwrap();
        disk.restart();
        seen.insert(disk.list().unwrap());
        let counts = disk.counts();
        let there = |name| disk.exists(name).unwrap();
        assert_eq!(counts.of(FaultKind::EntryLost) == 0, there("new"));
        assert_eq!(counts.of(FaultKind::EntryBack) == 1, there("old"));
    }
    assert_eq!(seen.len(), 4, "{seen:?}");
}

#[test]
fn after_a_failed_sync_the_next_one_is_a_lie() {
    let disk = disk(1, |faults| faults.survival = Survival::Nothing);
    let file = settled(&disk, "a", 512, 1);
    file.write_at(&[2; 512], 0).unwrap();
    disk.set_faults(Faults { sync_fails: 1, ..disk.faults() });
    assert!(file.sync().is_err());
    disk.set_faults(Faults { sync_fails: 0, ..disk.faults() });
    assert_eq!(contents(&disk, "a"), [2; 512], "reads still see it");
    file.sync().unwrap();
    disk.restart();
    assert_eq!(contents(&disk, "a"), [1; 512]);
    assert_eq!(disk.counts().of(FaultKind::SyncFailed), 1);
}

#[test]
fn broken_promises_are_kept_silent() {
    type Choice = fn(&mut Faults) -> &mut u32;
    let choices: [(Choice, FaultKind); 3] = [
        (|faults| &mut faults.sync_lies, FaultKind::SyncLied),
        (|faults| &mut faults.write_lost, FaultKind::WriteLost),
        (|faults| &mut faults.write_misdirected, FaultKind::WriteMisdirected),
    ];
    for (choice, kind) in choices {
        let disk = disk(3, |faults| faults.survival = Survival::Nothing);
        let file = settled(&disk, "a", 4_096, 1);
        let mut faults = disk.faults();
        *choice(&mut faults) = 1;
        disk.set_faults(faults);
        file.write_at(&[2; 512], 512).unwrap();
        file.sync().unwrap();
        assert_eq!(contents(&disk, "a")[512..1_024], [2; 512], "{kind:?}");
        assert_eq!(disk.counts().of(kind), 1);
        assert!(disk.counts().any_broken_promise());
        disk.restart();
        let after = contents(&disk, "a");
        assert_eq!(after[512..1_024], [1; 512], "{kind:?}");
        let elsewhere = after.iter().filter(|byte| **byte == 2).count();
        assert_eq!(elsewhere, if kind == FaultKind::WriteMisdirected { 512 } else { 0 });
    }
}

#[test]
fn rot_flips_one_bit() {
    let disk = disk(5, |faults| faults.rot = 1);
    settled(&disk, "a", 3_000, 0);
    let file = settled(&disk, "b", 3_000, 0);
    drop(file);
    disk.restart();
    let bytes = [contents(&disk, "a"), contents(&disk, "b")].concat();
    assert_eq!(bytes.iter().map(|byte| byte.count_ones()).sum::<u32>(), 1);
    assert_eq!(disk.counts().of(FaultKind::Rot), 1);
}

/// Found by seed 143205: of a group and the one that vouches for it both were flipped.
#[test]
fn rot_on_request_flips_one_bit_and_no_other() {
    for seed in 0..50 {
        let disk = disk(seed, |faults| faults.rot = 1);
        settled(&disk, "a", 4_096, 0);
        let (_, at) = disk.rot_now().unwrap();
        let bytes = contents(&disk, "a");
        let flipped: u32 = bytes.iter().map(|byte| byte.count_ones()).sum();
        assert_eq!((flipped, bytes[at as usize].count_ones()), (1, 1), "seed {seed}");
        assert_eq!(disk.faults().rot, 1);
    }
}

#[test]
fn the_machine_stops_at_every_step() {
    for budget in 0..6 {
        for seed in 0..20 {
            let disk = disk(seed, |_| ());
            disk.crash_after(Some(budget));
            let work = || -> Result<(), DiskError> {
                let file = disk.open("a", Open::New)?; // step 0
                file.set_len(2_048)?;
                file.write_at(&[7; 2_048], 0)?;
                file.sync()?;
                disk.sync_dir()?;
                disk.remove("a") // step 5
            };
            let error = work().unwrap_err();
            assert!(error.to_string().contains(CRASH), "{error}");
            assert!(disk.has_crashed());
            let later = disk.list().unwrap_err().to_string();
            assert!(later.contains(CRASH), "{later}");
            disk.restart();
            assert!(!disk.has_crashed());
            match disk.exists("a").unwrap() {
                true if budget > 3 => assert_eq!(contents(&disk, "a"), [7; 2_048]),
                true => assert!(contents(&disk, "a").iter().all(|byte| [0, 7].contains(byte))),
                false => assert!(budget < 5),
            }
        }
    }
}

#[test]
fn an_interrupted_write_arrives_in_part() {
    let mut lengths = BTreeSet::new();
    for seed in 0..100 {
        let disk = disk(seed, |faults| faults.survival = Survival::Everything);
        let file = settled(&disk, "a", 2_048, 1);
        disk.crash_after(Some(0));
        assert!(file.write_at(&[2; 2_048], 0).is_err());
        disk.restart();
        lengths.insert(contents(&disk, "a").iter().filter(|byte| **byte == 2).count());
    }
    assert_eq!(lengths, [0, 512, 1_024, 1_536].into());
}

#[test]
fn a_full_disk_takes_nothing_and_keeps_what_it_has() {
    let disk = disk(1, |_| ());
    let file = settled(&disk, "a", 512, 1);
    disk.set_capacity_bytes(Some(600));
    assert!(file.write_at(&[2; 512], 512).unwrap_err().is_full());
    assert!(file.set_len(601).unwrap_err().is_full());
    file.write_at(&[2; 512], 0).unwrap();
    file.set_len(600).unwrap();
    disk.set_capacity_bytes(None);
    file.set_len(601).unwrap();
    assert_eq!(disk.used_bytes(), 601);
    assert_eq!(disk.counts().of(FaultKind::DiskFull), 2);
}

#[test]
fn what_was_cut_off_reads_as_zero_after_any_crash() {
    for seed in 0..100 {
        let disk = disk(seed, |_| ());
        let file = settled(&disk, "a", 1_500, 1);
        file.set_len(700).unwrap();
        file.set_len(1_500).unwrap();
        assert!(contents(&disk, "a")[700..].iter().all(|byte| *byte == 0));
        file.sync().unwrap();
        disk.restart();
        let bytes = contents(&disk, "a");
        assert!(bytes[..700].iter().all(|byte| *byte == 1));
        assert!(bytes.len() == 1_500 && bytes[700..].iter().all(|byte| *byte == 0));
    }
}

#[test]
fn reads_fail_once() {
    let disk = disk(2, |_| ());
    let file = settled(&disk, "a", 100, 1);
    let mut bytes = [0; 100];
    disk.set_faults(Faults { read_fails: 1, ..disk.faults() });
    assert!(!file.read_at(&mut bytes, 0).unwrap_err().is_truncated());
    disk.set_faults(Faults { read_fails: 0, read_short: 1, ..disk.faults() });
    assert!(file.read_at(&mut bytes, 0).unwrap_err().is_truncated());
    disk.set_faults(Faults { read_short: 0, ..disk.faults() });
    file.read_at(&mut bytes, 0).unwrap();
    assert_eq!(bytes, [1; 100]);
    assert!(file.read_at(&mut bytes, 1).unwrap_err().is_truncated(), "beyond its end");
}

#[test]
fn a_restart_ends_handles_and_locks() {
    let disk = disk(1, |_| ());
    let file = settled(&disk, "a", 10, 1);
    let other = disk.open("a", Open::Write).unwrap();
    assert!(file.try_lock().unwrap() && file.try_lock().unwrap() && !other.try_lock().unwrap());
    disk.restart();
    assert!(other.write_at(b"x", 0).unwrap_err().to_string().contains(CRASH));
    let new = disk.open("a", Open::Write).unwrap();
    assert!(new.try_lock().unwrap());
    drop(file);
    assert!(!disk.open("a", Open::Write).unwrap().try_lock().unwrap(), "the dead took no lock");
    drop(new);
    assert!(disk.open("a", Open::Write).unwrap().try_lock().unwrap());
}

#[test]
fn direct_access_demands_its_alignment() {
    let disk = disk(1, |faults| faults.alignment = 512);
    let file = disk.open_direct("a", Open::New).unwrap();
    assert_eq!(file.alignment(), 512);
    let store = vec![1; 2_048];
    let start = store.as_ptr().align_offset(512);
    file.write_at(&store[start..start + 1_024], 512).unwrap();
    for (from, bytes, offset) in [(0, 1_000, 0), (0, 512, 8), (8, 512, 0)] {
        let part = &store[start + from..start + from + bytes];
        assert_eq!(file.write_at(part, offset).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
    assert_eq!(disk.open("a", Open::Read).unwrap().alignment(), 1);
}

#[test]
fn a_copy_goes_its_own_way() {
    let disk = disk(1, |_| ());
    let file = settled(&disk, "a", 10, 1);
    let copy = disk.copy();
    file.write_at(&[2; 10], 0).unwrap();
    assert_eq!((contents(&copy, "a"), contents(&disk, "a")), (vec![1; 10], vec![2; 10]));
}

#[test]
fn the_same_seed_does_the_same() {
    let run = |seed| {
        let trace = Trace::new(false);
        let faults = Faults { write_lost: 3, rot: 2, torn: 3, ..Faults::crashes_only() };
        let clock = SimClock::new();
        let disk = FaultyDisk::new(seed, faults, clock.clone(), trace.clone());
        for round in 0..10 {
            let file = disk.open(&format!("{round}"), Open::New).unwrap();
            file.write_at(&[round; 5_000], 100).unwrap();
            disk.restart();
            _ = disk.list().unwrap();
        }
        (trace.hash(), disk.counts(), clock.now_ns())
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1).0, run(2).0);
}

#[test]
fn directories_have_names_and_syncs_of_their_own_and_stop_together() {
    let first = disk(1, |faults| faults.survival = Survival::Nothing);
    let second = first.directory(1);
    settled(&first, "a", 512, 1);
    settled(&second, "a", 512, 2);
    first.open("b", Open::New).unwrap();
    second.open("b", Open::New).unwrap();
    second.sync_dir().unwrap();
    assert_eq!(
        (first.list().unwrap(), second.list().unwrap().len()),
        (vec!["a".into(), "b".into()], 2)
    );
    first.crash_after(Some(0));
    assert!(second.remove("a").is_err() && first.has_crashed() && second.has_crashed());
    first.restart();
    assert_eq!((first.list().unwrap().len(), second.list().unwrap().len()), (1, 2));
    assert_eq!((contents(&first, "a"), contents(&second, "a")), (vec![1; 512], vec![2; 512]));
}
